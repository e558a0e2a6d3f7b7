//! The driver over in-memory streams, with a scripted core, servers and editor, in virtual time.
//!
//! Time passes only when no task can continue, so a deadlock is a timeout that fires at once.

mod control;
mod ending;
mod flow;
mod simulation;
mod starting;

use std::{
    cell::{Cell, RefCell},
    future::Future,
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    sync::{mpsc, watch},
    task::{AbortHandle, LocalSet, spawn_local},
    time::timeout,
};
use tokio_util::codec::Decoder as _;

use super::{
    control::{Connection, Listener},
    driver::{Core, Driver},
    process::{GroupLeader, Request, Spawned, Starting, Waiting, World},
    settings::Settings,
};
use crate::{
    core::event::{
        BackendId, ClientId, Effect, Effects, Event, Exit, Generation, Launch, Peer, ProcessId, SpawnFailure,
    },
    rpc::{Codec, Frame, Incoming, RawId},
};

const EDITOR: Peer = Peer::Client(ClientId::EDITOR);
const FIRST: ProcessId = ProcessId { backend: BackendId(0), generation: Generation(1) };

fn process(backend: u32) -> ProcessId {
    ProcessId { backend: BackendId(backend), generation: Generation(1) }
}

/// A core made of a closure that answers an event with effects.
struct Script<F>(F);

impl<F: FnMut(Event) -> Vec<Effect>> Core for Script<F> {
    fn handle(&mut self, _now: Instant, event: Event, out: &mut Effects) {
        out.extend((self.0)(event));
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Effects) {}

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        None
    }
}

/// A core that forwards messages: requests of the editor go to the first server, messages of servers go to the
/// editor, and lspool ends with the editor.
fn relay(event: Event) -> Vec<Effect> {
    match event {
        Event::Received(EDITOR, frame) if frame.method() == Some("start") => {
            vec![Effect::Spawn(FIRST, launch())]
        }
        Event::Received(EDITOR, frame) => vec![Effect::Send(Peer::Backend(FIRST), frame)],
        Event::Received(Peer::Backend(_), frame) => vec![Effect::Send(EDITOR, frame)],
        Event::Closed { peer: EDITOR, .. } => vec![Effect::Exit(0)],
        Event::Quit(signal) => vec![Effect::Exit(128 + signal)],
        _ => vec![],
    }
}

fn launch() -> Arc<Launch> {
    Arc::new(Launch {
        program: "/server".into(),
        args: vec![],
        env: vec![],
        cwd: None,
        max_message: 256 << 20,
        write_stall: Duration::from_mins(1),
        root: None,
        remote: None,
        share: None,
    })
}

/// The events, in words for assertions.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.borrow_mut().push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// Notes an event unless it is a message.
    fn note(&self, event: &Event) {
        match event {
            Event::Received(..) => {}
            Event::Closed { peer, error } => self.add(format!("closed {} {error:?}", short(*peer))),
            Event::Malformed { peer, id, .. } => self.add(format!("malformed {} {id:?}", short(*peer))),
            Event::Spawned { .. } => self.add("spawned"),
            Event::Exited { exit, stderr, .. } => self.add(format!("exited: {exit}, {stderr:?}")),
            Event::Stalled(peer) => self.add(format!("stalled {}", short(*peer))),
            Event::SpawnFailed(_, failure) => self.add(format!("{failure:?}")),
            Event::EditorReads(_) | Event::Muttered(_) | Event::Drained(_) => {}
            other => self.add(format!("{other:?}")),
        }
    }
}

fn short(peer: Peer) -> String {
    match peer {
        EDITOR => "editor".to_owned(),
        Peer::Client(client) => format!("client {}", client.0),
        Peer::Backend(id) => format!("server {}", id.backend.0),
    }
}

/// One end of a conversation: frames in, frames out.
struct FrameStream {
    input: DuplexStream,
    output: DuplexStream,
    codec: Codec,
    buffer: BytesMut,
}

impl FrameStream {
    fn new(input: DuplexStream, output: DuplexStream) -> FrameStream {
        FrameStream { input, output, codec: Codec::new(Codec::DEFAULT_MAX), buffer: BytesMut::new() }
    }

    async fn say(&mut self, frame: &Frame) {
        self.output.write_all(&wire(frame)).await.unwrap();
    }

    /// `None` at the end of the stream.
    async fn hear(&mut self) -> Option<Frame> {
        loop {
            if let Some(incoming) = self.codec.decode(&mut self.buffer).unwrap() {
                let Incoming::Body(body) = incoming else { panic!("junk: {incoming:?}") };
                return Some(Frame::parse(body).unwrap());
            }
            if self.input.read_buf(&mut self.buffer).await.unwrap() == 0 {
                assert!(self.buffer.is_empty(), "cut off: {:?}", self.buffer);
                return None;
            }
        }
    }
}

fn wire(frame: &Frame) -> Bytes {
    let body = frame.to_bytes();
    [format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat().into()
}

fn note(method: &str) -> Frame {
    Frame::notification(method, None)
}

/// A request whose body is about `len` bytes long.
fn request(id: u64, len: usize) -> Frame {
    Frame::request(RawId::from(id), "test/request", Some(format!("\"{}\"", "x".repeat(len)).as_bytes()))
}

fn answer(id: u64, len: usize) -> Frame {
    Frame::response(RawId::from(id), format!("\"{}\"", "y".repeat(len)).as_bytes())
}

fn id(frame: &Frame) -> u64 {
    frame.id().and_then(|id| id.as_u64()).unwrap()
}

/// Servers that are futures.
struct Fakes<F> {
    pipe: usize,
    server: F,
    log: Log,
    connections: Option<mpsc::Receiver<Connection>>,
    start: watch::Receiver<Start>,
}

/// The fate of a started server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Works,
    Fails,
    /// Until it shall be otherwise.
    Hangs,
}

/// The connections, which the test sends.
struct Fakesocket(mpsc::Receiver<Connection>);

impl Listener for Fakesocket {
    fn accept(&mut self) -> Waiting<'_, Connection> {
        Box::pin(async {
            match self.0.recv().await {
                Some(connection) => connection,
                None => std::future::pending().await,
            }
        })
    }
}

/// The streams and events of a fake server.
struct Streams {
    stream: FrameStream,
    stderr: DuplexStream,
}

/// Lives forever, reads nothing, sends nothing.
async fn deaf(_streams: Streams) -> Exit {
    std::future::pending().await
}

struct Fake {
    pid: u32,
    task: AbortHandle,
    dead: watch::Receiver<Option<Exit>>,
    kill: watch::Sender<Option<Exit>>,
    log: Log,
    /// Whether SIGTERM ends it.
    is_polite: bool,
}

impl<F, S> World for Fakes<F>
where
    F: FnMut(Streams) -> S,
    S: Future<Output = Exit> + 'static,
{
    fn listen(&mut self) -> Waiting<'static, Option<Box<dyn Listener>>> {
        let connections = self.connections.take();
        Box::pin(async { connections.map(|it| Box::new(Fakesocket(it)) as _) })
    }

    fn private_folder(&mut self) -> Result<PathBuf, String> {
        Err("there is none in memory".to_owned())
    }

    fn spawn(&mut self, _launch: Arc<Launch>) -> Starting {
        let (stdin, input) = duplex(self.pipe);
        let (output, stdout) = duplex(self.pipe);
        let (muttering, stderr) = duplex(self.pipe);
        let server = (self.server)(Streams { stream: FrameStream::new(input, output), stderr: muttering });
        let (log, mut start) = (self.log.clone(), self.start.clone());
        Box::pin(async move {
            let start = *start.wait_for(|it| *it != Start::Hangs).await.unwrap();
            if start == Start::Fails {
                return Err(SpawnFailure {
                    permanent: true,
                    message: "no such file".to_owned(),
                    moved: None,
                });
            }
            let kill = watch::Sender::new(None);
            let task = spawn_local({
                let kill = kill.clone();
                async move {
                    let exit = server.await;
                    kill.send_modify(|it| *it = it.or(Some(exit)));
                }
            })
            .abort_handle();
            let leader = Fake { pid: 1, task, dead: kill.subscribe(), kill, log, is_polite: false };
            Ok(Spawned {
                leader: Box::new(leader),
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                stderr: Box::new(stderr),
                displaced: None,
                unshared: None,
            })
        })
    }

    fn close(&mut self) -> Waiting<'_, ()> {
        self.log.add("closed the world");
        Box::pin(async {})
    }
}

impl GroupLeader for Fake {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn dead(&self) -> Waiting<'_, ()> {
        let mut dead = self.dead.clone();
        Box::pin(async move {
            dead.wait_for(Option::is_some).await.unwrap();
        })
    }

    fn signal(&self, request: Request) {
        if self.dead.borrow().is_some() {
            return;
        }
        self.log.add(format!("{request:?}"));
        if request == Request::Kill || self.is_polite {
            self.task.abort();
            self.kill.send_replace(Some(Exit::Signal(9)));
        }
    }

    fn reap(&mut self) -> Waiting<'_, Exit> {
        let exit = self.dead.borrow().unwrap_or(Exit::Unknown);
        Box::pin(async move { exit })
    }
}

/// Everything around a driver.
struct Stage {
    settings: Settings,
    /// How much each pipe holds.
    pipe: usize,
    log: Log,
    signals: mpsc::Sender<i32>,
    listening: Option<mpsc::Receiver<i32>>,
    connect: mpsc::Sender<Connection>,
    connections: Option<mpsc::Receiver<Connection>>,
    start: watch::Sender<Start>,
}

impl Stage {
    fn new() -> Stage {
        let (signals, listening) = mpsc::channel(8);
        let (connect, connections) = mpsc::channel(64);
        Stage {
            settings: Settings::default(),
            pipe: 4096,
            log: Log::default(),
            signals,
            listening: Some(listening),
            connect,
            connections: Some(connections),
            start: watch::Sender::new(Start::Works),
        }
    }

    /// Runs until the driver ends; returns its exit status and the result of the editor.
    async fn play<E, S>(
        &mut self,
        core: impl Core,
        editor: impl FnOnce(FrameStream) -> E,
        server: impl FnMut(Streams) -> S,
    ) -> (i32, E::Output)
    where
        E: Future<Output: 'static> + 'static,
        S: Future<Output = Exit> + 'static,
    {
        let (mouth, stdin) = duplex(self.pipe);
        let (stdout, ear) = duplex(self.pipe);
        let connections = self.connections.take();
        let start = self.start.subscribe();
        let world = Fakes { pipe: self.pipe, server, log: self.log.clone(), connections, start };
        let driver = Driver::new(core, world, Arc::new(()), self.settings.clone());
        let editor = editor(FrameStream::new(ear, mouth));
        let signals = self.listening.take().unwrap();
        // As in the program, where all tasks end with the runtime.
        let served =
            async { LocalSet::new().run_until(driver.run(Box::new(stdin), Box::new(stdout), signals)).await };
        let both = async { tokio::join!(served, editor) };
        timeout(Duration::from_hours(1), both).await.expect("deadlock")
    }
}
