//! One backend: its process, its queue, and the state of the process.
//!
//! The queue holds messages of clients while the process cannot take them: during the handshake, and while a higher
//! owner [holds](Backend::set_held) it. **Order from one client to one backend is kept**: no message overtakes the
//! queue. Messages may overtake a turn that has left the queue and waits for its history or its mode.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{
    core::{
        event::{BackendId, Launch, ProcessId, ServerId},
        mux::{
            failure::Cause,
            items::Items,
            pool::{
                away::Away,
                feed::Feed,
                health::Health,
                lifecycle::{Handshake, Lifecycle, LifecycleState},
                reconcile::Reconcile,
                shared::Sharing,
            },
            result_ids::Results,
            successor::Differences,
        },
    },
    rpc::{Frame, PathMap},
};

/// A deadline with its reason.
pub(crate) type Deadline = (Instant, &'static str);

/// What happens to an unneeded partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idling {
    /// It ends after the idle timeout.
    Ends,
    /// It keeps running as long as there is room.
    GoesOn,
}

/// The role of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It serves everything without another place.
    Primary,
    /// It serves some conversations.
    Partition,
    /// It is kept ready for another backend.
    Spare,
}

/// Whether lspool ends the process, although a process may be wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    #[default]
    No,
    /// It ends. Messages to it are lost; its own messages still count.
    Terminated(Option<Fault>),
    /// It ends, and its messages do not count.
    Abandoned(Option<Fault>),
}

/// Why lspool ends a process, if the process itself is the reason.
pub(crate) type Fault = (Cause, String);

impl Ending {
    /// Ends the process, perhaps for this fault. The first fault counts. Returns whether this is the first.
    fn terminate(&mut self, fault: Option<Fault>) -> bool {
        let known = self.take_fault();
        let is_first = known.is_none() && fault.is_some();
        let fault = known.or(fault);
        *self = match self {
            Ending::No | Ending::Terminated(_) => Ending::Terminated(fault),
            Ending::Abandoned(_) => Ending::Abandoned(fault),
        };
        is_first
    }

    fn abandon(&mut self) {
        *self = Ending::Abandoned(self.take_fault());
    }

    /// Takes the fault.
    pub(super) fn take_fault(&mut self) -> Option<Fault> {
        match self {
            Ending::No => None,
            Ending::Terminated(fault) | Ending::Abandoned(fault) => fault.take(),
        }
    }
}

/// A server, or one partition of it.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) id: BackendId,
    pub(crate) server: ServerId,
    pub(crate) role: Role,
    /// Its name for people: `pyright`, `partition "list_dir,read_file" of NAME`.
    pub(crate) name: String,
    /// Its short name for people to type.
    alias: String,
    pub(crate) life: Lifecycle,
    queue: VecDeque<Frame>,
    /// Whether a higher owner holds its queue.
    is_held: bool,
    /// What the process that runs is still to be told of the session.
    pub(crate) feed: Feed,
    /// Of the process that runs.
    pub(crate) pid: Option<u32>,
    /// The workspace folders in the `initialize` of the process.
    pub(super) folders: Vec<Bytes>,
    /// The items of the process, if it is not the first.
    pub(super) items: Items,
    pub(super) results: Results,
    /// How it differs from the first process, by which the editor goes.
    pub(in crate::core::mux) differences: Differences,
    pub(super) reconcile: Reconcile,
    /// Set while there is no way to its server elsewhere.
    pub(super) away: Option<Away>,
    /// Since when it is unneeded.
    pub(crate) idle_since: Option<Instant>,
    /// What happens to it while it is unneeded.
    pub(crate) idling: Idling,
    pub(crate) health: Health,
    pub(crate) sharing: Sharing,
    pub(crate) ending: Ending,
    /// When it closed its stdout, and lived on.
    pub(super) closed_at: Option<Instant>,
    /// What last went wrong, as people read it.
    pub(crate) last_error: Option<String>,
    /// When that was.
    pub(crate) last_error_at: Option<Instant>,
    /// Why it was last stopped, as people read it.
    pub(crate) stopped: Option<&'static str>,
    /// Whether the user knows that it has failed.
    pub(super) failure_told: bool,
    /// Whether the user knows that it crashes repeatedly.
    pub(super) crashes_told: bool,
}

/// The parameters of a new backend.
pub(crate) struct NewBackend {
    pub(crate) server: ServerId,
    pub(crate) role: Role,
    pub(crate) name: String,
    /// Its short name for people to type.
    pub(crate) alias: String,
}

impl Backend {
    /// The workspace folders in the `initialize` of the process.
    pub(crate) fn folders(&self) -> &[Bytes] {
        &self.folders
    }

    fn new(id: BackendId, it: NewBackend, now: Instant) -> Backend {
        let NewBackend { server, role, name, alias } = it;
        Backend {
            id,
            server,
            role,
            name,
            alias,
            life: Lifecycle::new(now),
            queue: VecDeque::new(),
            is_held: false,
            feed: Feed::default(),
            pid: None,
            folders: Vec::new(),
            items: Items::default(),
            results: Results::default(),
            differences: Differences::default(),
            reconcile: Reconcile::default(),
            away: None,
            idle_since: None,
            idling: Idling::Ends,
            health: Health::new(now),
            sharing: Sharing::default(),
            ending: Ending::No,
            closed_at: None,
            last_error: None,
            last_error_at: None,
            stopped: None,
            failure_told: false,
            crashes_told: false,
        }
    }

    pub(crate) fn process(&self) -> ProcessId {
        ProcessId { backend: self.id, generation: self.life.generation() }
    }

    /// Whether this is the current process.
    pub(crate) fn is_current(&self, process: ProcessId) -> bool {
        self.life.is_alive() && self.process() == process
    }

    /// Resets the state for a new process.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.pid = None;
        self.feed = Feed::default();
        self.items.clear();
        self.results.clear();
        self.differences = Differences::default();
        self.reconcile = Reconcile::default();
        self.health = Health::new(now);
        self.ending = Ending::No;
        self.closed_at = None;
    }

    /// Ends the process, perhaps for this fault. Returns whether this is why it ends.
    pub(in crate::core::mux) fn terminate(&mut self, fault: Option<Fault>) -> bool {
        self.ending.terminate(fault)
    }

    /// Ends the process, whose messages do not count from now on.
    pub(super) fn abandon(&mut self) {
        self.queue.clear();
        self.ending.abandon();
    }

    /// Whether lspool ends the process without a request for it.
    pub(crate) fn is_terminated(&self) -> bool {
        self.ending != Ending::No
    }

    /// Whether the messages of the process do not count.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.ending, Ending::Abandoned(_))
    }

    /// Whether a higher owner holds its queue.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(crate) fn set_held(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.life.state(), LifecycleState::Ready | LifecycleState::Degraded)
    }

    /// Whether its process has not answered `initialize` yet.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.life.state(), LifecycleState::Spawning { .. } | LifecycleState::Initializing { .. })
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.role == Role::Primary
    }

    pub(crate) fn is_spare(&self) -> bool {
        self.role == Role::Spare
    }

    /// Whether the process has the session, so that messages for all processes must be sent to it. Before that, the
    /// session contains them.
    pub(crate) fn has_session(&self) -> bool {
        match self.life.state() {
            LifecycleState::Ready | LifecycleState::Degraded => true,
            LifecycleState::Spawning { handshake, .. } | LifecycleState::Initializing { handshake, .. } => {
                handshake == Handshake::Editor
            }
            LifecycleState::Waiting
            | LifecycleState::Stopped
            | LifecycleState::Restarting { .. }
            | LifecycleState::Failed => false,
        }
    }

    /// Whether the process can take messages of clients.
    pub(crate) fn is_open(&self) -> bool {
        match self.life.state() {
            LifecycleState::Ready | LifecycleState::Degraded => {
                !self.is_terminated() && !self.is_held && self.feed.is_over()
            }
            LifecycleState::Initializing { handshake, .. } => {
                handshake == Handshake::Editor && !self.is_terminated()
            }
            LifecycleState::Waiting
            | LifecycleState::Spawning { .. }
            | LifecycleState::Stopped
            | LifecycleState::Restarting { .. }
            | LifecycleState::Failed => false,
        }
    }

    /// Whether a process takes the queue, now or later.
    pub(crate) fn accepts(&self) -> bool {
        !matches!(self.life.state(), LifecycleState::Stopped | LifecycleState::Failed)
    }

    /// Whether it counts for `max_processes`: it has a process, or will get one instead of a dead one.
    pub(crate) fn holds_a_place(&self) -> bool {
        self.life.is_alive() || matches!(self.life.state(), LifecycleState::Restarting { .. })
    }

    /// Whether a process exists that nobody has told to end.
    pub(crate) fn goes_on(&self) -> bool {
        match self.life.state() {
            LifecycleState::Spawning { .. }
            | LifecycleState::Initializing { .. }
            | LifecycleState::Ready
            | LifecycleState::Degraded => true,
            LifecycleState::Waiting
            | LifecycleState::Stopped
            | LifecycleState::Restarting { .. }
            | LifecycleState::Failed => false,
        }
    }

    pub(crate) fn queue(&mut self) -> &mut VecDeque<Frame> {
        &mut self.queue
    }

    /// The queue, read-only.
    pub(crate) fn queued(&self) -> &VecDeque<Frame> {
        &self.queue
    }

    /// As people may type it.
    pub(crate) fn alias(&self) -> &str {
        &self.alias
    }

    /// Something went wrong.
    pub(super) fn note_error(&mut self, now: Instant, error: String) {
        self.last_error = Some(error);
        self.last_error_at = Some(now);
    }

    /// Why it does not serve, and what can be done.
    pub(crate) fn why_not(&self) -> String {
        let why = match (self.life.state(), &self.last_error) {
            (LifecycleState::Failed, Some(why)) => format!("it has failed: {why}"),
            (LifecycleState::Failed, None) => "it has failed".to_owned(),
            (_, _) => "it was stopped".to_owned(),
        };
        format!("{why}; `lspool restart {}` starts it again", self.alias)
    }

    /// The next deadline of this backend with its reason.
    pub(crate) fn deadline(&self, idle_timeout: Duration) -> Option<Deadline> {
        let away = self.away.as_ref().and_then(Away::deadline);
        away.into_iter().chain(self.deadline_of_state(idle_timeout)).min_by_key(|(at, _)| *at)
    }

    fn deadline_of_state(&self, idle_timeout: Duration) -> Option<Deadline> {
        match self.life.state() {
            LifecycleState::Spawning { deadline, .. } => Some((deadline?, "a process is not there")),
            LifecycleState::Initializing { deadline, .. } => Some((deadline?, "initialize is not answered")),
            LifecycleState::Restarting { at } if !self.life.is_alive() => Some((at, "restart")),
            LifecycleState::Ready | LifecycleState::Degraded => {
                let idle = self
                    .idle_since
                    .filter(|_| self.idling == Idling::Ends)
                    .map(|since| (since + idle_timeout, "idle"));
                let other = self.health.deadline().into_iter().chain(self.reconcile.deadline());
                idle.into_iter().chain(other).min_by_key(|(at, _)| *at)
            }
            LifecycleState::Waiting
            | LifecycleState::Stopped
            | LifecycleState::Restarting { .. }
            | LifecycleState::Failed => None,
        }
    }
}

/// All backends with the next deadline of one of them.
///
/// The deadline is computed only after a possible change. Forwarding a message is not one.
#[derive(Debug, Default)]
pub(crate) struct Backends {
    all: BTreeMap<BackendId, Backend>,
    /// The folders that running processes have elsewhere, and how they were started. A reload may have changed the
    /// server since.
    paths: BTreeMap<BackendId, (PathMap, Arc<Launch>)>,
    /// The number of backends so far.
    n_added: u32,
    have_changed: bool,
    /// The backends that may have changed; each at least once.
    touched: Vec<BackendId>,
    /// The deadlines, by backend.
    deadlines: BTreeMap<BackendId, Deadline>,
    /// The first deadline.
    deadline: Option<Deadline>,
    /// When to measure memory.
    pub(super) next_measure: Option<Instant>,
}

impl Backends {
    pub(crate) fn get(&self, id: BackendId) -> Option<&Backend> {
        self.all.get(&id)
    }

    /// The folders that a process has elsewhere. Runs for each message, and mostly in an empty table.
    pub(crate) fn paths_of(&mut self, id: BackendId) -> Option<&mut PathMap> {
        self.paths.get_mut(&id).map(|(paths, _)| paths)
    }

    /// How a process was started that has folders elsewhere.
    pub(crate) fn launch_elsewhere(&self, id: BackendId) -> Option<Arc<Launch>> {
        self.paths.get(&id).map(|(_, launch)| launch.clone())
    }

    /// Notes the folders that a new process has elsewhere.
    pub(super) fn set_paths(&mut self, id: BackendId, launch: &Arc<Launch>) {
        let remote = launch.remote.as_ref();
        let paths = remote.and_then(|it| {
            // Without folders there, both sides are the same, and nothing is to be copied.
            let copies = it.copies.as_deref().filter(|_| !it.paths.is_empty());
            let paths = PathMap::new(&it.paths, copies)?;
            Some(if it.skips_settings { paths.without_settings() } else { paths })
        });
        match paths {
            Some(paths) => drop(self.paths.insert(id, (paths, launch.clone()))),
            None => drop(self.paths.remove(&id)),
        }
    }

    pub(crate) fn get_mut(&mut self, id: BackendId) -> Option<&mut Backend> {
        self.touch(id);
        self.all.get_mut(&id)
    }

    fn touch(&mut self, id: BackendId) {
        self.have_changed = true;
        if self.touched.last() != Some(&id) {
            self.touched.push(id);
        }
    }

    pub(crate) fn contains(&self, id: BackendId) -> bool {
        self.all.contains_key(&id)
    }

    pub(crate) fn ids(&self) -> Vec<BackendId> {
        self.all.keys().copied().collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Backend> {
        self.all.values()
    }

    /// Notes a message of a process. Runs for each message.
    pub(crate) fn heard(&mut self, process: ProcessId, now: Instant) {
        let Some(backend) = self.all.get_mut(&process.backend).filter(|it| it.is_current(process)) else {
            return;
        };
        backend.health.heard(now);
        if backend.life.state() == LifecycleState::Degraded {
            backend.life.heard(now);
            self.touch(process.backend);
        }
    }

    /// Notes that a backend owes answers, or owes none. `note` returns whether its deadline has changed. Runs for
    /// most messages.
    pub(super) fn note_debts(&mut self, id: BackendId, note: impl FnOnce(&mut Health) -> bool) {
        if self.all.get_mut(&id).is_some_and(|it| note(&mut it.health)) {
            self.touch(id);
        }
    }

    /// Notes another change that may need a process.
    pub(crate) fn note_change(&mut self) {
        self.have_changed = true;
    }

    /// Whether a backend may have changed since the last [`Backends::settle`].
    pub(crate) fn have_changed(&self) -> bool {
        self.have_changed
    }

    /// Notes that any backend may have changed.
    pub(crate) fn touch_all(&mut self) {
        self.have_changed = true;
        self.touched.extend(self.all.keys());
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Backend> {
        self.touch_all();
        self.all.values_mut()
    }

    /// The id of the next backend.
    pub(crate) fn next_id(&self) -> BackendId {
        BackendId(self.n_added)
    }

    /// Adds a backend without a process. Ids are unique.
    pub(crate) fn add(&mut self, it: NewBackend, now: Instant) -> BackendId {
        let id = self.next_id();
        self.n_added += 1;
        self.touch(id);
        self.all.insert(id, Backend::new(id, it, now));
        id
    }

    pub(crate) fn remove(&mut self, id: BackendId) {
        self.touch(id);
        self.all.remove(&id);
        self.paths.remove(&id);
    }

    /// Updates the deadlines after an event.
    pub(crate) fn settle(&mut self, now: Instant, idle_timeout: Duration) {
        self.have_changed = false;
        for id in self.touched.drain(..) {
            let Some(it) = self.all.get_mut(&id) else {
                self.deadlines.remove(&id);
                continue;
            };
            if it.is_ready() && it.feed.is_over() {
                it.reconcile.note(now);
            }
            match it.deadline(idle_timeout) {
                Some(deadline) => self.deadlines.insert(id, deadline),
                None => self.deadlines.remove(&id),
            };
        }
        self.deadline = self.first_deadline();
    }

    /// The next deadline with its reason, as of the last [`Backends::settle`].
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    fn first_deadline(&self) -> Option<Deadline> {
        self.deadlines.values().copied().min_by_key(|(at, _)| *at)
    }

    /// Checks that no change was missed.
    pub(crate) fn check(&self, idle_timeout: Duration) -> Result<(), String> {
        let right = self.all.iter().filter_map(|(id, it)| Some((*id, it.deadline(idle_timeout)?))).collect();
        if self.have_changed || self.deadlines == right && self.deadline == self.first_deadline() {
            return Ok(());
        }
        Err(format!("the deadlines are {right:?}, noted are {:?}", self.deadlines))
    }
}

// Code uses `get` for a backend that may be gone; a test knows.
#[cfg(test)]
impl std::ops::Index<BackendId> for Backends {
    type Output = Backend;

    fn index(&self, id: BackendId) -> &Backend {
        &self.all[&id]
    }
}
