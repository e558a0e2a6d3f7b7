//! One process of a server, from its start to its last byte.
//!
//! Owns the tasks that await, read, write and end it. Does not decide when it starts or ends, and does not know how
//! [`World`] makes processes.
//!
//! - **[`Event::Spawned`] or [`Event::SpawnFailed`] comes exactly once**, before all output of the process. Until
//!   then its messages wait, and an end cancels its start.
//! - **[`Event::Exited`] comes exactly once**, after all output of the process.
//! - The end of its stdout or stdin is reported only if it lives on: a process that exits closes both.

use std::{
    cell::RefCell,
    convert::Infallible,
    fmt,
    future::{Future, pending},
    path::PathBuf,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::AsyncReadExt as _,
    sync::watch,
    task::{JoinHandle, spawn_local},
    time::{Instant, sleep, timeout},
};

use super::{
    control::Listener,
    inbox::Events,
    logs::{Log, Scribe},
    outbox::{Outbox, StallClock},
    reader::{self, Backpressure, End},
    stdio::{Input, Output},
};
use crate::{
    builtin_tools::{
        Outcome,
        lsp::{EditorId, Editors, LspTool},
    },
    core::event::{Displaced, Event, Exit, Launch, Peer, ProcessId, SpawnFailure, WriteFault},
};

/// A future of this thread.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A starting process: the system may wait for its executable and its folder. Dropping it cancels the start.
pub type Starting = Waiting<'static, Result<Spawned, SpawnFailure>>;

/// A source of processes: the operating system, or a test.
pub trait World {
    /// Starts a process.
    fn spawn(&mut self, launch: Arc<Launch>) -> Starting;

    /// A private folder that ends with lspool. Always the same one.
    fn private_folder(&mut self) -> Result<PathBuf, String>;

    /// Starts commands, if possible.
    fn commands(&self) -> Option<Rc<dyn Commands>> {
        None
    }

    /// Calls code tools, if possible.
    fn code_tools(&self) -> Option<Rc<dyn CodeTools>> {
        None
    }

    /// The editors beside which code tools work, if there can be any.
    fn editors(&self) -> Option<Rc<dyn EditorLink>> {
        None
    }

    /// Listens for control clients, if possible. Nothing else waits for it.
    fn listen(&mut self) -> Waiting<'static, Option<Box<dyn Listener>>> {
        Box::pin(async { None })
    }

    /// Called once, after the end of all processes. If some do not end, lspool drops it instead.
    fn close(&mut self) -> Waiting<'_, ()>;
}

/// Starts processes in their own session, without the terminal.
pub trait Commands {
    /// lspool's executable, which is the program to start.
    fn program(&self) -> PathBuf;

    /// Starts it.
    fn start(&self, launch: Arc<Launch>) -> Starting;
}

/// Calls code tools, in a session with servers of its own.
pub trait CodeTools: fmt::Debug {
    /// Calls one, for these workspace folders. Dropping the future cancels the call.
    fn call(&self, folders: Vec<PathBuf>, tool: LspTool, arguments: Value) -> Waiting<'static, Outcome>;
}

/// The editors beside which code tools work: their unsaved texts count, and each changes its documents itself.
pub trait EditorLink: fmt::Debug {
    /// What they have open now, in these workspace folders at least.
    fn documents(&self, folders: Vec<PathBuf>) -> Waiting<'static, Result<Editors, String>>;

    /// Asks one of them to make an edit of the protocol.
    fn edit(&self, editor: EditorId, edit: Value) -> Waiting<'static, Result<(), WriteFault>>;
}

/// A new process.
pub struct Spawned {
    /// The process itself.
    pub leader: Box<dyn GroupLeader>,
    /// Its stdin.
    pub stdin: Output,
    /// Its stdout.
    pub stdout: Input,
    /// Its stderr.
    pub stderr: Input,
    /// It is not in its working folder.
    pub displaced: Option<Displaced>,
    /// Why other clients do not use it, although they could.
    pub unshared: Option<String>,
}

/// A request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The process may clean up.
    Terminate,
    /// The process ends at once.
    Kill,
}

/// A process, and the group that it leads.
pub trait GroupLeader {
    /// Its process id.
    fn pid(&self) -> u32;

    /// Waits for its death. It is not reaped, so the system does not reuse its number.
    fn dead(&self) -> Waiting<'_, ()>;

    /// Signals its whole group.
    fn signal(&self, request: Request);

    /// Reaps the dead process.
    fn reap(&mut self) -> Waiting<'_, Exit>;
}

/// How a process is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    No,
    /// The process has this long to end by itself after the end of its input.
    Gently(Duration),
    AtOnce,
}

/// The driver's handle of a process.
#[derive(Debug)]
pub(super) struct Process {
    /// The process id, once it runs.
    pub(super) pid: Option<u32>,
    pub(super) outbox: Outbox,
    ending: watch::Sender<Ending>,
    /// Whether it got `exit`, and so ends by itself.
    told_exit: bool,
    end_times: EndTimes,
}

/// The environment of a process.
pub(super) struct Surroundings {
    pub(super) launch: Arc<Launch>,
    /// Its stdin.
    pub(super) outbox: Outbox,
    pub(super) end_times: EndTimes,
    pub(super) events: Events,
    /// Whether the editor's outbox is over high water.
    pub(super) paused: watch::Receiver<bool>,
    /// Its name in the log.
    pub(super) name: Rc<str>,
    /// The log for its stderr.
    pub(super) stderr: Log,
}

impl Process {
    /// Awaits a process, and handles it until its end.
    pub(super) fn start(id: ProcessId, starting: Starting, around: Surroundings) -> Process {
        let ending = watch::Sender::new(Ending::No);
        let (outbox, mut is_ending) = (around.outbox.clone(), ending.subscribe());
        let end_times = around.end_times.clone();
        spawn_local(async move {
            let started = tokio::select! {
                biased;
                started = starting => started,
                _ = is_ending.wait_for(|it| *it != Ending::No) => Err(called_off()),
            };
            match started {
                Ok(spawned) => around.watcher(id, spawned, is_ending).watch().await,
                Err(failure) => around.events.tell(Event::SpawnFailed(id, failure)),
            }
        });
        Process { pid: None, outbox, ending, told_exit: false, end_times }
    }

    /// Notes that the process got `exit`.
    pub(super) fn note_exit(&mut self) {
        self.told_exit = true;
    }

    /// How long it may take to end by itself: `grace` if it got `exit`.
    pub(super) fn patience(&self, grace: Duration) -> Duration {
        if self.told_exit { grace.max(self.end_times.close) } else { self.end_times.close }
    }

    /// Ends it: writes the queue, closes stdin, then sends signals. `grace` is the time to end by itself after
    /// `exit`.
    pub(super) fn end_gently(&self, grace: Duration) {
        self.end(Ending::Gently(self.patience(grace)));
    }

    /// Kills it.
    pub(super) fn end_at_once(&self) {
        self.end(Ending::AtOnce);
    }

    fn end(&self, ending: Ending) {
        self.ending.send_if_modified(|it| {
            let is_more = ending > *it;
            *it = ending.max(*it);
            is_more
        });
    }
}

impl Surroundings {
    /// Reports a running process, and starts the tasks that read and write.
    fn watcher(self, id: ProcessId, spawned: Spawned, ending: watch::Receiver<Ending>) -> Watcher {
        let Surroundings { launch, outbox, end_times, events, paused, name, stderr: log } = self;
        let Spawned { leader, stdin, mut stdout, stderr, displaced, unshared } = spawned;
        let peer = Peer::Backend(id);
        let pid = leader.pid();
        tracing::info!(server = %name, ?id, pid, program = %launch.program.display(), "started");
        if let Some(displaced) = displaced {
            tracing::warn!(server = %name, ?displaced, "its working folder is not there");
            events.tell(Event::Displaced(id, displaced));
        }
        if let Some(why) = unshared {
            events.tell(Event::Unshared(id, why));
        }
        events.tell(Event::Spawned { process: id, pid });
        let scribe = Rc::new(RefCell::new(Scribe::new(log, id.generation)));
        scribe.borrow().note(format_args!("process {pid} started"));
        let (dead, muttering) = (watch::Sender::new(false), events.clone());

        let clock =
            StallClock { after: launch.write_stall, stopped: paused.clone(), events: events.clone(), peer };
        let streams = watch::Sender::new(Streams::default());
        let writer = spawn_local({
            let (outbox, streams) = (outbox.clone(), streams.clone());
            async move {
                let error = outbox.write_to(stdin, Some(clock)).await.err().map(|error| error.to_string());
                streams.send_modify(|it| it.stdin = Stream::Ended(error));
            }
        });
        let reader = spawn_local({
            let backpressure = Backpressure::Pause { paused, dead: dead.subscribe() };
            let (events, scribe, streams) = (events.clone(), scribe.clone(), streams.clone());
            let max_len = launch.max_message;
            async move {
                let junk = |text: &str| {
                    let excerpt = reader::excerpt(text);
                    tracing::warn!(server = %name, text = %excerpt, "server wrote text between messages");
                    text.lines().for_each(|line| scribe.borrow().line(line.as_bytes()));
                };
                let ended = match reader::read(&mut stdout, max_len, peer, backpressure, &events, junk).await
                {
                    End::Eof(error) => Stream::Ended(error),
                    End::Broken(error) => {
                        events.tell(Event::Closed { peer, error: Some(error) });
                        // A full pipe must not block it while it ends.
                        discard(&mut stdout).await;
                        Stream::Reported
                    }
                };
                streams.send_modify(|it| it.stdout = ended);
            }
        });
        let mutterings =
            spawn_local(drain(stderr, scribe.clone(), move || muttering.tell(Event::Muttered(id))));

        Watcher {
            id,
            leader,
            outbox,
            ending,
            times: end_times,
            events,
            streams: streams.subscribe(),
            writer,
            reader,
            mutterings,
            scribe,
            dead,
        }
    }
}

/// The limits of time for an end.
#[derive(Clone, Debug)]
pub struct EndTimes {
    /// For writing the queue.
    pub flush: Duration,
    /// From the end of its input to SIGTERM, unless it got `exit`.
    pub close: Duration,
    /// From SIGTERM to SIGKILL.
    pub terminate: Duration,
    /// From its death to the end of its stdout, which a child of it may hold open.
    pub drain: Duration,
    /// From the end of its stdout or stdin to its death. After that, lspool reports the end.
    pub linger: Duration,
}

impl Default for EndTimes {
    fn default() -> EndTimes {
        EndTimes {
            flush: Duration::from_millis(500),
            close: Duration::from_millis(500),
            terminate: Duration::from_millis(1500),
            drain: Duration::from_millis(250),
            linger: Duration::from_millis(100),
        }
    }
}

/// The state of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Stream {
    #[default]
    Open,
    /// It ended, perhaps with an error.
    Ended(Option<String>),
    /// It ended, and lspool has reported it.
    Reported,
}

#[derive(Clone, Debug, Default)]
struct Streams {
    stdin: Stream,
    stdout: Stream,
}

impl Streams {
    /// Whether a stream of a living process ended without a report.
    fn have_unreported_end(&self) -> bool {
        match (&self.stdout, &self.stdin) {
            (Stream::Ended(_), _) | (Stream::Open, Stream::Ended(Some(_))) => true,
            (Stream::Open | Stream::Reported, _) => false,
        }
    }

    fn error(&self) -> Option<String> {
        match (&self.stdout, &self.stdin) {
            (Stream::Ended(error), _) => error.clone(),
            (_, Stream::Ended(Some(error))) => Some(format!("it reads no more: {error}")),
            _ => None,
        }
    }
}

/// The task that handles a process until its end.
struct Watcher {
    id: ProcessId,
    leader: Box<dyn GroupLeader>,
    outbox: Outbox,
    ending: watch::Receiver<Ending>,
    times: EndTimes,
    events: Events,
    streams: watch::Receiver<Streams>,
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
    mutterings: JoinHandle<()>,
    scribe: Rc<RefCell<Scribe>>,
    dead: watch::Sender<bool>,
}

impl Watcher {
    async fn watch(mut self) {
        tokio::select! {
            biased;
            () = self.leader.dead() => {}
            never = self.tell_end_of_streams() => match never {},
            never = self.end_when_told() => match never {},
        }
        // The processes in its group end with it, and cannot hold its stdout open.
        self.leader.signal(Request::Kill);
        let exit = self.leader.reap().await;
        tracing::debug!(id = ?self.id, pid = self.leader.pid(), %exit, "exited");
        self.dead.send_replace(true);
        if timeout(self.times.drain, &mut self.reader).await.is_err() {
            tracing::debug!(id = ?self.id, "a process outside the group held stdout open");
        }
        // Its last output has arrived, or the same process holds stderr open.
        timeout(self.times.linger, &mut self.mutterings).await.ok();
        for task in [&self.reader, &self.mutterings, &self.writer] {
            task.abort();
        }
        let stderr = self.scribe.borrow_mut().finish();
        let why = match *self.ending.borrow() {
            Ending::No => "by itself",
            Ending::Gently(_) | Ending::AtOnce => "on request of lspool",
        };
        self.scribe.borrow().note(format_args!("process {} ended {why}: {exit}", self.leader.pid()));
        self.events.tell(Event::Exited { process: self.id, exit, stderr });
    }

    async fn tell_end_of_streams(&self) -> Infallible {
        let mut streams = self.streams.clone();
        // An error would mean that the tasks have ended, and so the process.
        streams.wait_for(Streams::have_unreported_end).await.ok();
        sleep(self.times.linger).await;
        if *self.ending.borrow() == Ending::No {
            let error = self.streams.borrow().error();
            self.events.tell(Event::Closed { peer: Peer::Backend(self.id), error });
        }
        pending().await
    }

    async fn end_when_told(&self) -> Infallible {
        let (mut gently, mut at_once) = (self.ending.clone(), self.ending.clone());
        let told = gently.wait_for(|it| *it != Ending::No).await.map(|it| *it);
        let close = match told {
            Ok(Ending::Gently(close)) => close,
            Ok(Ending::No | Ending::AtOnce) => Duration::ZERO,
            Err(_) => {
                // The driver is gone, so the process must end.
                self.leader.signal(Request::Kill);
                return pending().await;
            }
        };
        tokio::select! {
            biased;
            _ = at_once.wait_for(|it| *it >= Ending::AtOnce) => {}
            () = self.end_gently(close) => {}
        }
        self.writer.abort();
        self.leader.signal(Request::Kill);
        pending().await
    }

    async fn end_gently(&self, close: Duration) {
        let mut streams = self.streams.clone();
        self.outbox.close();
        let closed = streams.wait_for(|it| it.stdin != Stream::Open);
        if timeout(self.times.flush, closed).await.is_err() {
            // Its stdin is closed in any case.
            self.writer.abort();
        }
        sleep(close).await;
        self.leader.signal(Request::Terminate);
        sleep(self.times.terminate).await;
    }
}

fn called_off() -> SpawnFailure {
    SpawnFailure { permanent: false, message: "its start was called off".to_owned(), moved: None }
}

async fn discard(stream: &mut Input) {
    let mut buffer = [0; 4096];
    while !matches!(stream.read(&mut buffer).await, Ok(0) | Err(_)) {}
}

/// How often it is told that a process writes to stderr.
const MUTTERING: Duration = Duration::from_millis(500);

async fn drain(mut stream: Input, scribe: Rc<RefCell<Scribe>>, note: impl Fn()) {
    let mut buffer = vec![0; 8 * 1024];
    let mut noted: Option<Instant> = None;
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => scribe.borrow_mut().push(&buffer[..n]),
        }
        if noted.is_none_or(|it| it.elapsed() >= MUTTERING) {
            noted = Some(Instant::now());
            note();
        }
    }
}
