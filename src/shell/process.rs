//! One process of a server, from the wish that there be one to its last byte.
//!
//! Owns the tasks that await, read, write and end it. Does not decide when it starts or ends, and does not know how
//! processes are made: that is [`World`]'s.
//!
//! - **[`Event::Spawned`] or [`Event::SpawnFailed`] comes exactly once**, and before everything the process said. Until
//!   then, what it is told waits; if it is to end, its start is called off.
//! - **[`Event::Exited`] comes exactly once**, and after everything the process said.
//! - The end of its stdout or stdin is told only if it lives on: a process that exits closes both, and that is
//!   no event of its own.

use std::{
    cell::RefCell,
    convert::Infallible,
    future::{Future, pending},
    path::PathBuf,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

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
use crate::core::event::{Displaced, Event, Exit, Launch, Peer, ProcessId, SpawnFailure};

/// A future of this thread.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A process that is about to be: its executable and its folder may have to be waited for. Whoever drops this calls it off:
/// nothing comes of it then.
pub type Starting = Waiting<'static, Result<Spawned, SpawnFailure>>;

/// Where processes come from: the operating system, or a test.
pub trait World {
    /// Starts a process.
    fn spawn(&mut self, launch: Arc<Launch>) -> Starting;

    /// A folder that only this user can enter, and that is gone when lspool is. The same one each time.
    fn private_folder(&mut self) -> Result<PathBuf, String>;

    /// How commands are started, if they can be.
    fn commands(&self) -> Option<Rc<dyn Commands>> {
        None
    }

    /// Where control clients connect, if anywhere. Nothing else waits for it.
    fn listen(&mut self) -> Waiting<'static, Option<Box<dyn Listener>>> {
        Box::pin(async { None })
    }

    /// Called once, when all processes are gone. If some do not end, it is dropped without.
    fn close(&mut self) -> Waiting<'_, ()>;
}

/// Starts processes that make a session of their own, and so leave the terminal.
pub trait Commands {
    /// lspool's own executable, which is what is started.
    fn program(&self) -> PathBuf;

    /// Starts it.
    fn start(&self, launch: Arc<Launch>) -> Starting;
}

/// A process that has just been started.
pub struct Spawned {
    /// The process itself.
    pub leader: Box<dyn GroupLeader>,
    /// What it is told.
    pub stdin: Output,
    /// What it says.
    pub stdout: Input,
    /// What it mutters.
    pub stderr: Input,
    /// It is not in its working folder.
    pub displaced: Option<Displaced>,
}

/// How a process is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// It may clean up.
    Terminate,
    /// It is not asked.
    Kill,
}

/// A process, and the group that it leads.
pub trait GroupLeader {
    /// Its process id.
    fn pid(&self) -> u32;

    /// Waits for its death. It is not reaped, so its number is still its own.
    fn dead(&self) -> Waiting<'_, ()>;

    /// Signals its whole group.
    fn signal(&self, request: Request);

    /// Reaps the dead process.
    fn reap(&mut self) -> Waiting<'_, Exit>;
}

/// How far a process has been told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    No,
    /// It has this long to end by itself, from the end of its input on.
    Gently(Duration),
    AtOnce,
}

/// What the driver holds of a process.
#[derive(Debug)]
pub(super) struct Process {
    /// Once it is there.
    pub(super) pid: Option<u32>,
    pub(super) outbox: Outbox,
    ending: watch::Sender<Ending>,
    /// It has been told `exit`, and so ends by itself.
    told_exit: bool,
    end_times: EndTimes,
}

/// What the process shares with its surroundings.
pub(super) struct Surroundings {
    pub(super) launch: Arc<Launch>,
    /// What it is told.
    pub(super) outbox: Outbox,
    pub(super) end_times: EndTimes,
    pub(super) events: Events,
    /// Whether the editor's outbox is over high water.
    pub(super) paused: watch::Receiver<bool>,
    /// For the log.
    pub(super) name: Rc<str>,
    /// Where its stderr goes.
    pub(super) stderr: Log,
}

impl Process {
    /// Awaits a process, and sees it to its end.
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

    /// It is told to end by itself.
    pub(super) fn note_exit(&mut self) {
        self.told_exit = true;
    }

    /// How long it may take to end by itself. `grace`: of one that was told to.
    pub(super) fn patience(&self, grace: Duration) -> Duration {
        if self.told_exit { grace.max(self.end_times.close) } else { self.end_times.close }
    }

    /// Ends it: what is queued is written, stdin closed, then signals follow. `grace`: how long one that was told to end
    /// by itself has for that.
    pub(super) fn end_gently(&self, grace: Duration) {
        self.end(Ending::Gently(self.patience(grace)));
    }

    /// Ends it without asking.
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
    /// Tells of a process that is there, and starts the tasks that read and write.
    fn watcher(self, id: ProcessId, spawned: Spawned, ending: watch::Receiver<Ending>) -> Watcher {
        let Surroundings { launch, outbox, end_times, events, paused, name, stderr: log } = self;
        let Spawned { leader, stdin, mut stdout, stderr, displaced } = spawned;
        let peer = Peer::Backend(id);
        let pid = leader.pid();
        tracing::info!(server = %name, ?id, pid, program = %launch.program.display(), "started");
        if let Some(displaced) = displaced {
            tracing::warn!(server = %name, ?displaced, "its working folder is not there");
            events.tell(Event::Displaced(id, displaced));
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
                    tracing::warn!(server = %name, text = %excerpt, "not a message, but on the server's stdout");
                    text.lines().for_each(|line| scribe.borrow().line(line.as_bytes()));
                };
                let ended = match reader::read(&mut stdout, max_len, peer, backpressure, &events, junk).await
                {
                    End::Eof(error) => Stream::Ended(error),
                    End::Broken(error) => {
                        events.tell(Event::Closed { peer, error: Some(error) });
                        // It must not hang on a full pipe while it is told to end.
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

/// How long an end may take.
#[derive(Clone, Debug)]
pub struct EndTimes {
    /// For what is queued to be written.
    pub flush: Duration,
    /// From the end of its input to SIGTERM, unless it was told `exit`.
    pub close: Duration,
    /// From SIGTERM to SIGKILL.
    pub terminate: Duration,
    /// From its death to the end of its stdout, which a process that it started may hold open.
    pub drain: Duration,
    /// From the end of its stdout or stdin to its death; after that, the end is reported.
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

/// What has become of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Stream {
    #[default]
    Open,
    /// It ended, perhaps with an error.
    Ended(Option<String>),
    /// It ended, and the core knows.
    Reported,
}

#[derive(Clone, Debug, Default)]
struct Streams {
    stdin: Stream,
    stdout: Stream,
}

impl Streams {
    /// Whether one ended that a process which lives on should not have closed.
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

/// The task that sees a process to its end.
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
        // What it started in its group goes with it, and can no longer hold its stdout open.
        self.leader.signal(Request::Kill);
        let exit = self.leader.reap().await;
        tracing::debug!(id = ?self.id, pid = self.leader.pid(), %exit, "exited");
        self.dead.send_replace(true);
        if timeout(self.times.drain, &mut self.reader).await.is_err() {
            tracing::debug!(id = ?self.id, "a process that left the group holds stdout open");
        }
        // What it muttered last is there already, or the same process holds it open.
        timeout(self.times.linger, &mut self.mutterings).await.ok();
        for task in [&self.reader, &self.mutterings, &self.writer] {
            task.abort();
        }
        let stderr = self.scribe.borrow_mut().finish();
        self.scribe.borrow().note(format_args!("process {} ended: {exit}", self.leader.pid()));
        self.events.tell(Event::Exited { process: self.id, exit, stderr });
    }

    async fn tell_end_of_streams(&self) -> Infallible {
        let mut streams = self.streams.clone();
        // An error would mean that the tasks are gone, and with them the process.
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
                // The driver is gone without a word; so shall the process be.
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
            // Its stdin is closed all the same.
            self.writer.abort();
        }
        sleep(close).await;
        self.leader.signal(Request::Terminate);
        sleep(self.times.terminate).await;
    }
}

fn called_off() -> SpawnFailure {
    SpawnFailure { permanent: false, message: "its start was called off".to_owned() }
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
