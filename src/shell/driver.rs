//! The loop: takes an event, calls the core, and carries out the effects.
//!
//! Owns the core, the editor's outbox, and the processes. Decides nothing.
//!
//! - **It waits only for the next event**: other tasks and threads write, spawn, and read files.
//! - It carries out all effects, in order, before the next event.
//! - It handles all waiting events before any task writes, so answers to a burst leave in one write.

mod needs;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    sync::{mpsc, watch},
    task::{spawn_blocking, spawn_local, yield_now},
    time::{sleep, sleep_until, timeout},
};

pub use self::needs::{Core, Search};
use super::{
    capabilities::Capabilities,
    clock::Clock,
    control::{Clients, Connection, Listener},
    fetches::Fetches,
    files,
    inbox::{Events, Inbox, Queued, inbox, kind},
    logs::Log,
    modes,
    os::{editor::Editor, memory},
    outbox::{Outbox, Pushed},
    private,
    process::{Process, Surroundings, Waiting, World},
    read_throttle::ReadThrottle,
    reader::{self, Backpressure, End},
    roots,
    servers::Servers,
    settings::Settings,
    stdio::{Input, Output},
    teams::Store,
    tools::Tools,
    watch::Watch,
};
use crate::{
    core::event::{
        BackendId, ClientId, Drops, Effect, Effects, Event, KeepMode, Launch, Measured, Peer, Prepared,
        ProcessId,
    },
    rpc::{Frame, RawId},
};

/// Exit status after a panic in the core: `EX_SOFTWARE`.
pub const INTERNAL_ERROR: i32 = 70;

const EDITOR: Peer = Peer::Client(ClientId::EDITOR);

/// While more bytes of events wait for the driver, reading pauses. The driver always drains them, so this only bounds
/// a burst.
const AHEAD: usize = 64 * 1024;

/// How long the core waits for the text of a file.
const READ_WAIT: Duration = Duration::from_secs(2);

/// The shell at work.
pub struct Driver<C, W> {
    core: C,
    world: W,
    search: Arc<dyn Search>,
    settings: Settings,
    editor: Outbox,
    clients: Clients,
    processes: BTreeMap<ProcessId, Process>,
    /// Adopted processes, by the name that their tasks use.
    adopted: BTreeMap<ProcessId, ProcessId>,
    /// Processes with transcript files.
    has_transcripts: BTreeSet<ProcessId>,
    files: private::Files,
    teams: Store,
    /// Copies of files of servers elsewhere.
    fetches: Fetches,
    capabilities: Capabilities,
    servers: Servers,
    /// Events of the driver itself, which come before others.
    own: VecDeque<Event>,
    events: Events,
    incoming: Inbox,
    from_clients: Inbox,
    /// The stderr of each backend, as long as the core knows it.
    logs: BTreeMap<BackendId, Log>,
    /// Starts with the first preparation.
    watch: Option<Watch>,
    /// During a measurement of memory: the processes of the next one.
    measuring: Option<Vec<ProcessId>>,
    /// Calls of builtin tools.
    tools: Tools,
    /// Messages dropped for ended processes.
    dropped: Drops,
    effects: Effects,
    /// The number of calls of the core.
    n_steps: u64,
    /// When the loop last continued.
    now: Instant,
    exit: Option<i32>,
    clock: Clock,
    /// Delays reading the editor while too much waits for servers.
    throttle: ReadThrottle,
    /// Whether the editor's queue is over high water.
    paused: watch::Receiver<bool>,
}

/// The next thing that happened.
enum Next {
    Event(Event),
    /// Several events, in order.
    Batch,
    /// An event of a control client.
    OfClient(Event),
    Connection(Connection),
    Timeout(&'static str),
    Signal(i32),
}

impl<C: Core, W: World> Driver<C, W> {
    /// A driver that has not started yet.
    pub fn new(core: C, world: W, search: Arc<dyn Search>, settings: Settings) -> Driver<C, W> {
        let (events, incoming) = inbox(AHEAD);
        let (clients, from_clients) = Clients::new(settings.control.clone());
        let (editor, clock) = (Outbox::new(settings.limits), Clock::new());
        Driver {
            paused: editor.over_high_water(),
            core,
            world,
            search,
            editor,
            clients,
            teams: Store::new(settings.state.clone()),
            fetches: Fetches::default(),
            capabilities: Capabilities::new(settings.state.clone()),
            processes: BTreeMap::new(),
            adopted: BTreeMap::new(),
            has_transcripts: BTreeSet::new(),
            files: private::Files::default(),
            servers: Servers::unknown(settings.exit_grace),
            own: VecDeque::new(),
            events,
            incoming,
            from_clients,
            logs: BTreeMap::new(),
            watch: None,
            measuring: None,
            tools: Tools::new(settings.state.clone()),
            dropped: Drops::default(),
            effects: Effects::new(),
            n_steps: 0,
            now: clock.now(),
            exit: None,
            settings,
            clock,
            throttle: ReadThrottle::default(),
        }
    }

    /// Serves the editor on these streams until the core exits, or a second signal comes. Returns the exit status
    /// after all processes have ended. The remaining tasks end with the runtime.
    pub async fn run(mut self, input: Input, output: Output, mut signals: mpsc::Receiver<i32>) -> i32 {
        let throttle = self.throttle.clone();
        spawn_local(read_editor(input, self.settings.max_message, self.events.clone(), throttle));
        spawn_local(write_editor(output, self.editor.clone(), self.events.clone()));
        let (joining, mut joined) = mpsc::channel(1);
        spawn_local(accept(self.world.listen(), joining));
        let mut quit = None;
        let mut batch = VecDeque::new();
        let code = loop {
            if let Some(code) = self.exit {
                break code;
            }
            let next = match self.own.pop_front() {
                Some(event) => Next::Event(event),
                None => self.next(&mut batch, &mut signals, &mut joined).await,
            };
            if self.clock.goes_on() && matches!(next, Next::Timeout(_)) {
                continue;
            }
            self.now = self.clock.now();
            match next {
                Next::Event(event) => self.on_event(event),
                Next::Batch => self.on_batch(&mut batch),
                Next::OfClient(event) => {
                    self.on_event(event);
                    // All other peers have their turn after each message.
                    yield_now().await;
                }
                Next::Connection(connection) => self.clients.join(connection),
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
        // The core gets no further events, but processes that have ended need no wait.
        for queued in batch {
            self.note_end(queued.event());
        }
        self.finish(code, &mut signals).await
    }

    async fn next(
        &mut self,
        batch: &mut VecDeque<Queued>,
        signals: &mut mpsc::Receiver<i32>,
        joined: &mut mpsc::Receiver<Connection>,
    ) -> Next {
        let timeout = self.core.poll_timeout();
        let due = self.clock.await_due(timeout.map(|(at, _)| at));
        let timer = async {
            match (due, timeout) {
                (Some(at), Some((_, why))) => {
                    sleep_until(at.into()).await;
                    why
                }
                (_, _) => std::future::pending().await,
            }
        };
        // A random choice: none delays the others, however much it sends.
        let (incoming, from_clients) = (&mut self.incoming, &mut self.from_clients);
        let other = async {
            tokio::select! {
                () = incoming.take(batch) => Next::Batch,
                event = from_clients.next() => Next::OfClient(event),
                Some(connection) = joined.recv() => Next::Connection(connection),
            }
        };
        tokio::select! {
            biased;
            Some(signal) = signals.recv() => Next::Signal(signal),
            why = timer => Next::Timeout(why),
            Ok(()) = self.paused.changed() => Next::Event(Event::EditorReads(!*self.paused.borrow_and_update())),
            next = other => next,
        }
    }

    /// Handles a batch. Events after the exit stay in it.
    fn on_batch(&mut self, batch: &mut VecDeque<Queued>) {
        while self.exit.is_none()
            && let Some(queued) = batch.pop_front()
        {
            self.on_event(queued.event());
            while let Some(event) = self.own.pop_front().filter(|_| self.exit.is_none()) {
                self.on_event(event);
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            // Nearly all events are messages, which need no lookup.
            Event::Received(EDITOR, frame) => self.on_message(EDITOR, frame),
            Event::Received(peer @ Peer::Backend(_), frame) if self.adopted.is_empty() => {
                self.on_message(peer, frame);
            }
            other => self.on_other(other),
        }
    }

    fn on_message(&mut self, peer: Peer, frame: Frame) {
        tracing::trace!(?peer, ?frame, "received");
        self.step("a message", |core, now, out| core.handle(now, Event::Received(peer, frame), out));
    }

    fn on_other(&mut self, event: Event) {
        let event = self.renamed(event);
        let Some(mut event) = self.of_client(event) else { return };
        match &mut event {
            Event::Spawned { process, pid } => {
                if let Some(it) = self.processes.get_mut(process) {
                    it.pid = Some(*pid);
                }
            }
            Event::Exited { process, .. } | Event::SpawnFailed(process, _) => {
                if let Some(gone) = self.processes.remove(process) {
                    self.dropped.add(process.backend, gone.outbox.dropped());
                }
                self.adopted.retain(|_, it| it != process);
                self.remove_transcripts(*process);
                self.has_transcripts.remove(process);
            }
            Event::Measured(measured) => {
                measured.dropped = self.dropped();
                if let Some(next) = self.measuring.take().filter(|it| !it.is_empty()) {
                    self.measure(next);
                }
            }
            Event::Fetched(fetched) => self.fetches.fetched(fetched, &mut self.world, &self.events),
            Event::ToolRan(answer) => {
                if let Some(id) = answer.id() {
                    self.tools.note_ran(&id);
                }
            }
            Event::Prepared(Ok(prepared)) => {
                self.servers = Servers::of(prepared);
                self.offer_transcripts(prepared);
            }
            _ => {}
        }
        let event = match event {
            Event::Received(peer, frame) => return self.on_message(peer, frame),
            Event::Muttered(process) if !self.core.is_starting(process) => return,
            other => other,
        };
        // Without the content: a configuration may contain secrets.
        tracing::trace!(event = kind(&event));
        let is_end = matches!(event, Event::Exited { .. } | Event::SpawnFailed(..));
        self.step(kind(&event), |core, now, out| core.handle(now, event, out));
        if is_end {
            self.forget_logs();
        }
    }

    /// Forgets the logs of unknown backends. A number is never used again.
    fn forget_logs(&mut self) {
        let is_alive = |id| self.processes.keys().any(|it| it.backend == id);
        self.logs.retain(|id, _| self.core.knows(*id) || is_alive(*id));
    }

    /// Renames the process in an event, if it was adopted.
    fn renamed(&self, mut event: Event) -> Event {
        if self.adopted.is_empty() {
            return event;
        }
        let name = |id: &mut ProcessId| {
            if let Some(adopted) = self.adopted.get(id) {
                *id = *adopted;
            }
        };
        match &mut event {
            Event::Received(Peer::Backend(id), _)
            | Event::Malformed { peer: Peer::Backend(id), .. }
            | Event::Closed { peer: Peer::Backend(id), .. }
            | Event::Stalled(Peer::Backend(id)) => name(id),
            Event::Spawned { process, .. }
            | Event::SpawnFailed(process, _)
            | Event::Exited { process, .. }
            | Event::TranscriptWritten { process, .. }
            | Event::Displaced(process, _)
            | Event::Unshared(process, _)
            | Event::Muttered(process)
            | Event::Drained(process) => name(process),
            Event::TeamsLoaded(_) | Event::TeamWritten { .. } => {}
            Event::Measured(measured) => measured.resident.iter_mut().for_each(|(id, _)| name(id)),
            Event::Received(Peer::Client(_), _)
            | Event::Malformed { peer: Peer::Client(_), .. }
            | Event::Closed { peer: Peer::Client(_), .. }
            | Event::Stalled(Peer::Client(_))
            | Event::Unwritable(_)
            | Event::Prepared(_)
            | Event::ModeKept { .. }
            | Event::Recalled(_)
            | Event::RootFound(_)
            | Event::ToolRan(_)
            | Event::Looked(_)
            | Event::FileRead { .. }
            | Event::Wrote(_)
            | Event::Fetched(_)
            | Event::FilesChanged
            | Event::EditorReads(_)
            | Event::EditorGone
            | Event::Quit(_) => {}
        }
        event
    }

    /// Renames a process.
    fn adopt(&mut self, spare: ProcessId, process: ProcessId) {
        let Some(adopted) = self.processes.remove(&spare) else {
            return tracing::error!(?spare, "spare to adopt was unknown");
        };
        self.processes.insert(process, adopted);
        self.adopted.insert(spare, process);
        if let Some(log) = self.logs.remove(&spare.backend) {
            log.continue_in(self.logs.entry(process.backend).or_default());
        }
    }

    /// Treats a stalled control client as a client that has left. Drops the events of clients that have left.
    fn of_client(&mut self, event: Event) -> Option<Event> {
        let event = match event {
            Event::Stalled(peer @ Peer::Client(client)) if client != ClientId::EDITOR => {
                Event::Closed { peer, error: Some("its queue exceeded the limit".to_owned()) }
            }
            other => other,
        };
        let is_there = match &event {
            Event::Received(Peer::Client(client), _)
            | Event::Malformed { peer: Peer::Client(client), .. }
                if *client != ClientId::EDITOR =>
            {
                self.clients.outbox(*client).is_some()
            }
            Event::Closed { peer: Peer::Client(client), error } if *client != ClientId::EDITOR => {
                tracing::debug!(?client, ?error, "control client disconnected");
                self.logs.values().for_each(|log| log.unfollow(*client));
                self.clients.leave(*client)
            }
            _ => true,
        };
        is_there.then_some(event)
    }

    fn on_timeout(&mut self, why: &'static str) {
        tracing::trace!(why, "timeout");
        self.step(why, Core::handle_timeout);
    }

    fn step(&mut self, what: &str, call: impl FnOnce(&mut C, Instant, &mut Effects)) {
        let now = self.now;
        let mut effects = std::mem::take(&mut self.effects);
        // A panicked core is not called again, so its broken state does not matter.
        let called = catch_unwind(AssertUnwindSafe(|| call(&mut self.core, now, &mut effects)));
        if called.is_err() {
            tracing::error!(what, "core panicked");
            // The reader may have closed the pipe.
            writeln!(io::stderr(), "lspool: internal error while handling {what}; lspool ends all servers")
                .ok();
            self.exit = Some(INTERNAL_ERROR);
            return;
        }
        self.n_steps += 1;
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects = effects;
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send(peer, frame) => self.send(peer, frame),
            Effect::Prepare { folders } => self.prepare(folders),
            Effect::WatchEditor(pid) => self.watch_editor(pid),
            Effect::Spawn(id, launch) => self.spawn(id, launch),
            Effect::Adopt { spare, process } => self.adopt(spare, process),
            Effect::ReadFile(path) => self.read_file(path),
            Effect::HangUp(client) => {
                let error = Some("lspool closed the connection".to_owned());
                self.own.push_back(Event::Closed { peer: Peer::Client(client), error });
            }
            Effect::CloseInput(id) => {
                if let Some(process) = self.processes.get(&id) {
                    process.outbox.close();
                }
            }
            Effect::AwaitDrained(id) => self.await_drained(id),
            Effect::Terminate(id) => {
                if let Some(process) = self.processes.get(&id) {
                    process.end_gently(self.servers.exit_grace());
                }
            }
            Effect::WriteTranscript { process, conversation, content, kept } => {
                self.write_transcript(process, conversation, content, kept);
            }
            Effect::RemoveTranscript { kept, conversation } => {
                self.files.after(move || private::remove(&kept.join(conversation)));
            }
            Effect::LoadTeams { folders } => self.teams.load(&self.events, &folders),
            Effect::WriteTeam { number, folders, team, content, is_new } => {
                self.teams.write(&self.events, &folders, (number, team), (content, is_new));
            }
            Effect::RemoveTeam { folders, team } => self.teams.remove(&folders, team),
            Effect::KeepMode(mode) => self.keep_mode(mode),
            Effect::FindRoot(it) => roots::find(it, &self.events),
            Effect::Recall(all) => self.capabilities.recall(all, &self.events),
            Effect::Remember(it, result) => self.capabilities.remember(it, result),
            Effect::RunTool { call, scope } => {
                self.tools.run(&call, *scope, &self.world, &self.events);
            }
            Effect::CancelTool(id) => self.tools.cancel(&id),
            Effect::Look(look) => self.tools.look(*look, self.world.editors(), &self.events),
            Effect::Write(write) => self.tools.write(*write, self.world.editors(), &self.events),
            Effect::Fetch(fetch) => self.fetches.fetch(*fetch, &mut self.world, &self.events),
            Effect::Measure(processes) => self.measure(processes),
            Effect::Logs { backend, client, id, follow } => self.answer_logs(backend, client, id, follow),
            Effect::RemoveTranscripts(process) => self.remove_transcripts(process),
            Effect::Exit(code) => self.exit = Some(code),
        }
    }

    fn send(&mut self, peer: Peer, frame: Frame) {
        tracing::trace!(?peer, ?frame, "send");
        if let Peer::Backend(id) = peer
            && frame.method() == Some("exit")
            && let Some(process) = self.processes.get_mut(&id)
        {
            process.note_exit();
        }
        let event = matches!(peer, Peer::Backend(_)).then_some(self.n_steps);
        match self.outbox(peer).map(|outbox| outbox.push_of(event, frame)) {
            Some(Pushed::Stalled) => self.own.push_back(Event::Stalled(peer)),
            Some(Pushed::Taken | Pushed::Discarded) => {}
            None => tracing::debug!(?peer, "dropped: peer is gone"),
        }
    }

    fn await_drained(&self, id: ProcessId) {
        let Some(process) = self.processes.get(&id) else { return };
        let (mut is_over, events) = (process.outbox.over_high_water(), self.events.clone());
        spawn_local(async move {
            // An error means that nothing more is written.
            is_over.wait_for(|it| !it).await.ok();
            events.tell(Event::Drained(id));
        });
    }

    fn outbox(&self, peer: Peer) -> Option<&Outbox> {
        match peer {
            EDITOR => Some(&self.editor),
            Peer::Client(client) => self.clients.outbox(client),
            Peer::Backend(id) => self.processes.get(&id).map(|process| &process.outbox),
        }
    }

    fn prepare(&mut self, folders: Vec<PathBuf>) {
        let (search, events) = (self.search.clone(), self.events.clone());
        let files = search.files(&folders);
        let start = || Watch::start(self.settings.debounce, self.events.clone());
        // Before they are read, so that no change is missed.
        let looking = (!files.is_empty()).then(|| self.watch.get_or_insert_with(start).look(files));
        spawn_local(async move {
            if let Some(looking) = looking {
                looking.await;
            }
            let prepared = match spawn_blocking(move || search.prepare(&folders)).await {
                Ok(prepared) => prepared.map(Box::new),
                Err(error) => Err(format!("internal error while looking for the server: {error}")),
            };
            events.tell(Event::Prepared(prepared));
        });
    }

    fn read_file(&self, path: PathBuf) {
        let events = self.events.clone();
        let place = path.clone();
        spawn_local(async move {
            let read = spawn_blocking(move || files::small_text(&place));
            let text = timeout(READ_WAIT, read).await.ok().and_then(Result::ok).flatten();
            events.tell(Event::FileRead { path, text });
        });
    }

    /// Measures one set at a time: requests during a measurement share the next one.
    fn measure(&mut self, processes: Vec<ProcessId>) {
        if self.measuring.is_some() {
            self.measuring = Some(processes);
            return;
        }
        self.measuring = Some(Vec::new());
        let pid = |id: ProcessId| Some((id, self.processes.get(&id)?.pid?));
        let pids: Vec<_> = processes.into_iter().filter_map(pid).collect();
        let events = self.events.clone();
        spawn_local(async move {
            let resident = spawn_blocking(move || memory::resident(&pids)).await.unwrap_or_default();
            let measured = Measured { resident, ..Measured::default() };
            events.tell(Event::Measured(Box::new(measured)));
        });
    }

    /// The dropped messages so far.
    fn dropped(&self) -> Drops {
        let mut all = self.dropped.clone();
        all.editor += self.editor.dropped();
        all.control += self.clients.dropped();
        for (id, process) in &self.processes {
            all.add(id.backend, process.outbox.dropped());
        }
        all
    }

    fn answer_logs(&mut self, backend: BackendId, client: ClientId, id: RawId, follow: bool) {
        let peer = Peer::Client(client);
        let Some(outbox) = self.outbox(peer).cloned() else { return };
        let answer = self.logs.entry(backend).or_default().answer(client, id, &outbox, follow);
        self.send(peer, answer);
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
            events.tell(Event::TranscriptWritten { process, conversation, folder });
        });
    }

    fn remove_transcripts(&mut self, process: ProcessId) {
        if !self.has_transcripts.contains(&process) {
            return;
        }
        if let Ok(root) = self.world.private_folder() {
            // The rest is removed with lspool.
            self.files.after(move || private::remove(&private::of_process(&root, process)));
        }
    }

    fn keep_mode(&mut self, mode: KeepMode) {
        let number = mode.number;
        let folder = match self.world.private_folder() {
            Ok(folder) => folder.join("modes"),
            Err(error) => {
                self.own.push_back(Event::ModeKept { number, kept: Err(error) });
                return;
            }
        };
        let keeping = self.files.after(move || modes::keep(&folder, &mode));
        let events = self.events.clone();
        spawn_local(async move {
            let kept = keeping.await.and_then(|it| it).unwrap_or_else(|error| Err(error.to_string()));
            events.tell(Event::ModeKept { number, kept });
        });
    }

    /// Offers a folder for the records of servers, if they are wanted. The core decides whether this server can use
    /// it.
    fn offer_transcripts(&mut self, prepared: &mut Prepared) {
        let others = prepared.group.iter().flat_map(|it| &it.others).map(|it| &it.server);
        if ![&prepared.server].into_iter().chain(others).any(|it| it.exact_restore) {
            return;
        }
        match self.world.private_folder() {
            Ok(folder) => prepared.transcripts = Some(folder.join("kept")),
            Err(error) => prepared.warnings.push(format!("exact_restore is off: {error}")),
        }
    }

    fn watch_editor(&self, pid: u32) {
        let Some(editor) = Editor::find(pid) else {
            tracing::debug!(pid, "could not watch the editor's process");
            return;
        };
        let events = self.events.clone();
        spawn_local(async move {
            editor.gone().await;
            events.tell(Event::EditorGone);
        });
    }

    fn spawn(&mut self, id: ProcessId, launch: Arc<Launch>) {
        if self.processes.contains_key(&id) {
            return tracing::error!(?id, "process id was in use");
        }
        // A good moment to forget some.
        self.forget_logs();
        let starting = self.world.spawn(launch.clone());
        let around = Surroundings {
            name: self.servers.name(&launch),
            launch,
            outbox: Outbox::throttling(self.settings.limits, &self.throttle),
            end_times: self.settings.end_times.clone(),
            events: self.events.clone(),
            paused: self.editor.over_high_water(),
            stderr: self.logs.entry(id.backend).or_default().clone(),
        };
        self.processes.insert(id, Process::start(id, starting, around));
    }

    fn end_at_once(&self) {
        for process in self.processes.values() {
            process.end_at_once();
        }
    }

    fn note_end(&mut self, event: Event) {
        if let Event::Exited { process, .. } | Event::SpawnFailed(process, _) = self.renamed(event) {
            self.processes.remove(&process);
        }
    }

    /// Writes the editor's remaining messages and ends all processes, at the same time. The core gets no further
    /// events.
    async fn finish(&mut self, mut code: i32, signals: &mut mpsc::Receiver<i32>) -> i32 {
        let grace = self.servers.exit_grace();
        let patience = self.processes.values().map(|it| it.patience(grace)).max().unwrap_or_default();
        for process in self.processes.values() {
            process.end_gently(grace);
        }
        let (editor, clients) = (self.editor.clone(), self.clients.outboxes());
        let mut farewell = Box::pin(timeout(self.settings.farewell, async move {
            editor.drained().await;
            for client in clients {
                client.drained().await;
            }
        }));
        let mut last_call = Box::pin(sleep(self.settings.last_call + patience));
        let mut tools = Box::pin(std::mem::replace(&mut self.tools, Tools::new(None)).end());
        let (mut is_read, mut is_idle) = (false, false);
        while !(is_read && is_idle && self.processes.is_empty()) {
            tokio::select! {
                biased;
                Some(signal) = signals.recv() => {
                    code = 128 + signal;
                    is_read = true;
                    self.end_at_once();
                }
                all = &mut farewell, if !is_read => {
                    if all.is_err() {
                        tracing::warn!(bytes = self.editor.n_bytes(), "editor did not read its last messages");
                    }
                    is_read = true;
                }
                () = &mut tools, if !is_idle => is_idle = true,
                () = &mut last_call => {
                    tracing::error!(n = self.processes.len(), "processes did not end");
                    break;
                }
                event = self.incoming.next() => self.note_end(event),
            }
        }
        let dropped = self.dropped();
        if !dropped.is_empty() {
            tracing::info!(?dropped, "dropped log and progress messages for slow readers");
        }
        if self.processes.is_empty() {
            self.world.close().await;
        }
        code
    }
}

/// Passes connections on to the driver.
async fn accept(listening: Waiting<'static, Option<Box<dyn Listener>>>, joining: mpsc::Sender<Connection>) {
    let Some(mut listener) = listening.await else { return };
    while joining.send(listener.accept().await).await.is_ok() {}
}

async fn read_editor(mut input: Input, max_len: usize, events: Events, throttle: ReadThrottle) {
    let junk = |text: &str| {
        tracing::warn!(text = %reader::excerpt(text), "editor sent text between messages");
    };
    let end =
        reader::read(&mut input, max_len, EDITOR, Backpressure::Throttle(throttle), &events, junk).await;
    let error = match end {
        End::Eof(error) => error,
        End::Broken(error) => Some(error),
    };
    if let Some(error) = &error {
        // The reader may have closed the pipe.
        writeln!(io::stderr(), "lspool: cannot read the editor's messages: {error}").ok();
    }
    events.tell(Event::Closed { peer: EDITOR, error });
}

async fn write_editor(output: Output, outbox: Outbox, events: Events) {
    if let Err(error) = outbox.write_to(output, None).await {
        tracing::warn!(%error, "could not write to the editor");
        events.tell(Event::Unwritable(ClientId::EDITOR));
    }
}
