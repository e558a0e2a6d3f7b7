//! The loop: next event in, effects out, next event.
//!
//! Owns the core, the editor's outbox and the processes. Decides nothing: an effect is carried out as it is.
//!
//! - **It never waits for anything but the next event**: writing, spawning and reading files is done by others.
//! - Effects are carried out in order, all of them before the next event.
//! - All events that are there are handled before any task writes, so answers to a burst leave in one write.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use tokio::{
    sync::{mpsc, watch},
    task::{LocalSet, spawn_blocking, spawn_local},
    time::{sleep, sleep_until, timeout},
};

use super::{
    editor::Editor,
    outbox::{Outbox, Pushed},
    private,
    process::{Process, Surroundings, World},
    reader::{self, End},
    settings::Settings,
    stdio::{Input, Output},
};
use crate::{
    config::{ServerConfig, ServerKind},
    core::{
        Proxy,
        event::{ClientId, Effect, Effects, Event, Launch, Peer, Prepared, ProcessId, SpawnFailure},
    },
};

/// Exit status after a panic in the core: `EX_SOFTWARE`.
pub const INTERNAL_ERROR: i32 = 70;

const EDITOR: Peer = Peer::Client(ClientId::EDITOR);

/// Events that readers may be ahead of the driver. It drains always, so this only bounds a burst.
const AHEAD: usize = 256;

/// What the driver needs of the core.
pub trait Core {
    /// Something happened.
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects);
    /// The time of [`Core::poll_timeout`] has come.
    fn handle_timeout(&mut self, now: Instant, out: &mut Effects);
    /// When to call [`Core::handle_timeout`], and why.
    fn poll_timeout(&self) -> Option<(Instant, &'static str)>;
}

impl Core for Proxy {
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        Proxy::handle(self, now, event, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        Proxy::handle_timeout(self, now, out);
    }

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        Proxy::poll_timeout(self)
    }
}

/// Reads the workspace files of some folders, chooses and finds the server.
pub type Prepare = Arc<dyn Fn(Vec<PathBuf>) -> Result<Prepared, String> + Send + Sync>;

/// The shell at work.
pub struct Driver<C, W> {
    core: C,
    world: W,
    prepare: Prepare,
    settings: Settings,
    editor: Outbox,
    processes: BTreeMap<ProcessId, Process>,
    /// Those for which files were written.
    has_transcripts: BTreeSet<ProcessId>,
    files: private::Files,
    /// Name of the server, once it is known.
    name: Rc<str>,
    /// Events of our own making, which come before those of others.
    own: VecDeque<Event>,
    events: mpsc::Sender<Event>,
    incoming: mpsc::Receiver<Event>,
    effects: Effects,
    exit: Option<i32>,
    /// Whether the editor lets too much wait.
    paused: watch::Receiver<bool>,
}

/// What the loop waits for.
enum Next {
    Event(Event),
    Timeout(&'static str),
    Signal(i32),
}

impl<C: Core, W: World> Driver<C, W> {
    /// A driver that has not started yet.
    pub fn new(core: C, world: W, prepare: Prepare, settings: Settings) -> Driver<C, W> {
        let (events, incoming) = mpsc::channel(AHEAD);
        let editor = Outbox::new(settings.limits);
        Driver {
            paused: editor.over_high_water(),
            core,
            world,
            prepare,
            editor,
            settings,
            processes: BTreeMap::new(),
            has_transcripts: BTreeSet::new(),
            files: private::Files::default(),
            name: "server".into(),
            own: VecDeque::new(),
            events,
            incoming,
            effects: Effects::new(),
            exit: None,
        }
    }

    /// Serves the editor on these streams until the core says exit, or a second signal comes. All processes are
    /// gone when this returns; the answer is the exit status.
    pub async fn run(self, input: Input, output: Output, signals: mpsc::Receiver<i32>) -> i32 {
        // Dropping the set drops all tasks, whatever they wait for.
        LocalSet::new().run_until(self.drive(input, output, signals)).await
    }

    async fn drive(mut self, input: Input, output: Output, mut signals: mpsc::Receiver<i32>) -> i32 {
        spawn_local(read_editor(input, self.settings.max_message, self.events.clone()));
        spawn_local(write_editor(output, self.editor.clone(), self.events.clone()));
        let mut quit = None;
        let code = loop {
            if let Some(code) = self.exit {
                break code;
            }
            let next = match self.own.pop_front() {
                Some(event) => Next::Event(event),
                None => self.next(&mut signals).await,
            };
            match next {
                Next::Event(event) => self.on_event(event),
                Next::Timeout(why) => self.on_timeout(why),
                Next::Signal(signal) if quit.is_none() => {
                    quit = Some(signal);
                    self.on_event(Event::Quit(signal));
                }
                Next::Signal(signal) => {
                    self.end_at_once();
                    break 128 + signal;
                }
            }
        };
        self.finish(code, &mut signals).await
    }

    async fn next(&mut self, signals: &mut mpsc::Receiver<i32>) -> Next {
        let timeout = self.core.poll_timeout();
        let timer = async {
            match timeout {
                Some((at, why)) => {
                    sleep_until(at.into()).await;
                    why
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(signal) = signals.recv() => Next::Signal(signal),
            why = timer => Next::Timeout(why),
            Ok(()) = self.paused.changed() => Next::Event(Event::EditorReads(!*self.paused.borrow_and_update())),
            Some(event) = self.incoming.recv() => Next::Event(event),
        }
    }

    fn on_event(&mut self, mut event: Event) {
        match &mut event {
            Event::Exited { process, .. } => {
                self.processes.remove(process);
                self.remove_transcripts(*process);
            }
            Event::Prepared(Ok(prepared)) => {
                self.name = prepared.name.as_str().into();
                prepared.transcripts = self.transcripts(&prepared.server);
            }
            _ => {}
        }
        match &event {
            Event::Received(peer, frame) => tracing::trace!(?peer, ?frame, "received"),
            // Without its contents: a configuration may hold secrets.
            other => tracing::trace!(event = kind(other)),
        }
        self.step(kind(&event), |core, now, out| core.handle(now, event, out));
    }

    fn on_timeout(&mut self, why: &'static str) {
        tracing::trace!(why, "timeout");
        self.step(why, Core::handle_timeout);
    }

    fn step(&mut self, what: &str, call: impl FnOnce(&mut C, Instant, &mut Effects)) {
        let now = tokio::time::Instant::now().into_std();
        let mut effects = std::mem::take(&mut self.effects);
        // A core that has panicked is not called again, so nobody sees what it left broken.
        let called = catch_unwind(AssertUnwindSafe(|| call(&mut self.core, now, &mut effects)));
        if called.is_err() {
            tracing::error!(what, "lspool has a bug and ends");
            // Nobody may read it any more.
            writeln!(io::stderr(), "lspool: internal error while handling {what}; all servers are ended")
                .ok();
            self.exit = Some(INTERNAL_ERROR);
            return;
        }
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects = effects;
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send(peer, frame) => {
                let outbox = match peer {
                    EDITOR => Some(&self.editor),
                    Peer::Backend(id) => self.processes.get(&id).map(|process| &process.outbox),
                    Peer::Client(_) => None,
                };
                tracing::trace!(?peer, ?frame, "send");
                match outbox.map(|outbox| outbox.push(frame)) {
                    Some(Pushed::Stalled) => self.own.push_back(Event::Stalled(peer)),
                    Some(Pushed::Taken | Pushed::Discarded) => {}
                    None => tracing::debug!(?peer, "nobody there to send to"),
                }
            }
            Effect::Prepare { folders } => self.prepare(folders),
            Effect::WatchEditor(pid) => self.watch_editor(pid),
            Effect::Spawn(id, launch) => self.spawn(id, &launch),
            Effect::CloseInput(id) => {
                if let Some(process) = self.processes.get(&id) {
                    process.outbox.close();
                }
            }
            Effect::Terminate(id) => {
                if let Some(process) = self.processes.get(&id) {
                    process.end_gently();
                }
            }
            Effect::WriteTranscript { process, conversation, content, kept } => {
                self.write_transcript(process, conversation, content, kept);
            }
            Effect::RemoveTranscript { kept, conversation } => {
                self.files.after(move || private::remove(&kept.join(conversation)));
            }
            Effect::Measure(_) | Effect::Logs { .. } => {}
            Effect::RemoveTranscripts(process) => self.remove_transcripts(process),
            Effect::Exit(code) => self.exit = Some(code),
        }
    }

    fn prepare(&self, folders: Vec<PathBuf>) {
        let (prepare, events) = (self.prepare.clone(), self.events.clone());
        let reading = spawn_blocking(move || prepare(folders));
        spawn_local(async move {
            let prepared = match reading.await {
                Ok(prepared) => prepared.map(Box::new),
                Err(error) => Err(format!("internal error while looking for the server: {error}")),
            };
            events.send(Event::Prepared(prepared)).await.ok();
        });
    }

    fn write_transcript(
        &mut self,
        process: ProcessId,
        conversation: String,
        content: Bytes,
        kept: Option<PathBuf>,
    ) {
        let keeps = kept.is_some();
        let folder = match kept {
            Some(folder) => Ok(folder),
            None => self.world.private_folder().map(|root| private::of_process(&root, process)),
        };
        let folder = match folder {
            Ok(folder) => folder,
            Err(error) => {
                let folder = Err(error);
                self.own.push_back(Event::TranscriptWritten { process, conversation, folder });
                return;
            }
        };
        if !keeps {
            self.has_transcripts.insert(process);
        }
        let (name, place) = (conversation.clone(), folder.clone());
        let writing = self.files.after(move || private::write(&place, &name, &content, keeps));
        let events = self.events.clone();
        spawn_local(async move {
            let folder = match writing.await.and_then(|it| it) {
                Ok(written) => written.map(|()| folder).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            events.send(Event::TranscriptWritten { process, conversation, folder }).await.ok();
        });
    }

    fn remove_transcripts(&mut self, process: ProcessId) {
        if !self.has_transcripts.remove(&process) {
            return;
        }
        if let Ok(root) = self.world.private_folder() {
            // What is left goes with lspool.
            self.files.after(move || private::remove(&private::of_process(&root, process)));
        }
    }

    /// Where servers keep what they tell the model, if they shall.
    fn transcripts(&mut self, server: &ServerConfig) -> Option<PathBuf> {
        if !server.exact_restore || server.kind != Some(ServerKind::Copilot) {
            return None;
        }
        let folder = self.world.private_folder();
        folder
            .map(|it| it.join("kept"))
            .inspect_err(|error| tracing::warn!(error, "exact_restore is off"))
            .ok()
    }

    fn watch_editor(&self, pid: u32) {
        let Some(editor) = Editor::find(pid) else {
            tracing::debug!(pid, "the editor's process is not there to be watched");
            return;
        };
        let events = self.events.clone();
        spawn_local(async move {
            editor.gone().await;
            events.send(Event::EditorGone).await.ok();
        });
    }

    fn spawn(&mut self, id: ProcessId, launch: &Launch) {
        if self.processes.contains_key(&id) {
            let message = "a process of this number runs already".to_owned();
            tracing::error!(?id, message);
            self.own.push_back(Event::SpawnFailed(id, SpawnFailure { permanent: true, message }));
            return;
        }
        let spawned = match self.world.spawn(launch) {
            Ok(spawned) => spawned,
            Err(failure) => {
                self.own.push_back(Event::SpawnFailed(id, failure));
                return;
            }
        };
        let pid = spawned.child.pid();
        tracing::info!(server = %self.name, ?id, pid, program = %launch.program.display(), "started");
        let around = Surroundings {
            settings: &self.settings,
            max_message: launch.max_message,
            write_stall: launch.write_stall,
            events: &self.events,
            paused: self.editor.over_high_water(),
            name: self.name.clone(),
        };
        self.processes.insert(id, Process::run(id, spawned, &around));
        self.own.push_back(Event::Spawned { process: id, pid });
    }

    fn end_at_once(&self) {
        for process in self.processes.values() {
            process.end_at_once();
        }
    }

    /// Writes what the editor will still read, and ends all processes, at the same time. The core is not asked
    /// any more.
    async fn finish(&mut self, mut code: i32, signals: &mut mpsc::Receiver<i32>) -> i32 {
        for process in self.processes.values() {
            process.end_gently();
        }
        let editor = self.editor.clone();
        let mut farewell = Box::pin(timeout(self.settings.farewell, editor.drained()));
        let mut last_call = Box::pin(sleep(self.settings.last_call));
        let mut is_read = false;
        while !(is_read && self.processes.is_empty()) {
            tokio::select! {
                biased;
                Some(signal) = signals.recv() => {
                    code = 128 + signal;
                    is_read = true;
                    self.end_at_once();
                }
                all = &mut farewell, if !is_read => {
                    if all.is_err() {
                        tracing::warn!(bytes = self.editor.n_bytes(), "the editor does not read its last messages");
                    }
                    is_read = true;
                }
                () = &mut last_call => {
                    tracing::error!(n = self.processes.len(), "processes do not end");
                    break;
                }
                Some(event) = self.incoming.recv() => {
                    if let Event::Exited { process, .. } = event {
                        self.processes.remove(&process);
                    }
                }
            }
        }
        if self.editor.n_dropped() > 0 {
            tracing::info!(
                n = self.editor.n_dropped(),
                "log and progress messages were dropped for an editor that reads slowly"
            );
        }
        if self.processes.is_empty() {
            self.world.close().await;
        }
        code
    }
}

async fn read_editor(mut input: Input, max_len: usize, events: mpsc::Sender<Event>) {
    let junk = |text: &str| {
        tracing::warn!(text = %reader::excerpt(text), "the editor sent this between its messages");
    };
    let end = reader::read(&mut input, max_len, EDITOR, None, &events, junk).await;
    let error = match end {
        End::Eof(error) => error,
        End::Broken(error) => Some(error),
    };
    if let Some(error) = &error {
        eprintln!("lspool: what the editor sends cannot be read: {error}");
    }
    events.send(Event::Closed { peer: EDITOR, error }).await.ok();
}

async fn write_editor(output: Output, outbox: Outbox, events: mpsc::Sender<Event>) {
    if let Err(error) = outbox.write_to(output, None).await {
        tracing::warn!(%error, "the editor cannot be written to");
        events.send(Event::Unwritable(ClientId::EDITOR)).await.ok();
    }
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Received(..) => "a message",
        Event::Malformed { .. } => "a malformed message",
        Event::Closed { .. } => "the end of a stream",
        Event::Unwritable(_) => "an unwritable client",
        Event::Prepared(_) => "what was prepared",
        Event::Spawned { .. } => "the start of a process",
        Event::SpawnFailed(..) => "a failed start",
        Event::Exited { .. } => "the end of a process",
        Event::TranscriptWritten { .. } => "a written file",
        Event::Measured(_) => "a measurement",
        Event::FilesChanged => "a changed file",
        Event::EditorReads(_) => "a pause of the editor",
        Event::Stalled(_) => "a stalled peer",
        Event::EditorGone => "the end of the editor",
        Event::Quit(_) => "a signal",
    }
}
