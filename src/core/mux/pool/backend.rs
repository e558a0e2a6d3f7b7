//! One backend: its process, its queue, and what is known of the process that runs.
//!
//! The queue holds what clients send while the process cannot take it: before the handshake is over, and while a
//! higher owner [holds](Backend::set_held) it. **Order from one client to one backend is kept**: while anything is
//! in the queue, nothing passes it. A turn that has left it, and waits for its history or its mode, is passed by all
//! that comes meanwhile.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{
    core::{
        event::{BackendId, ProcessId, ServerId},
        mux::{
            failure::Cause,
            items::Items,
            pool::{
                feed::Feed,
                health::Health,
                lifecycle::{Handshake, Lifecycle, LifecycleState},
                reconcile::Reconcile,
            },
            result_ids::Results,
            successor::Differences,
        },
    },
    rpc::Frame,
};

/// When something is to be done, and what.
pub(crate) type Deadline = (Instant, &'static str);

/// What becomes of a partition that nothing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idling {
    /// It ends when it has been idle for long enough.
    Ends,
    /// It goes on as long as there is room.
    GoesOn,
}

/// What a backend is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It serves whatever nothing else does.
    Primary,
    /// It serves some conversations.
    Partition,
    /// It serves nobody yet: its process is kept ready for another backend.
    Spare,
}

/// Whether the process that runs is being ended, although somebody may want a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    #[default]
    No,
    /// It cannot go on. What is still sent to it is lost; what it says until then counts.
    Terminated(Option<Fault>),
    /// Nothing is expected of it any more, and whatever it still says means nothing.
    Abandoned(Option<Fault>),
}

/// Why lspool ends a process, if it does so for the process's own fault.
pub(crate) type Fault = (Cause, String);

impl Ending {
    /// It cannot go on, perhaps for this fault. The first fault is why it is ended. Whether this one is.
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

    /// Why it is ended.
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
    /// As people read it: `pyright`, `partition "list_dir,read_file" of NAME`.
    pub(crate) name: String,
    /// As people may type it.
    alias: String,
    pub(crate) life: Lifecycle,
    queue: VecDeque<Frame>,
    /// A higher owner does not let it take what clients send.
    is_held: bool,
    /// What the process that runs is still to be told of the session.
    pub(crate) feed: Feed,
    /// Of the process that runs.
    pub(crate) pid: Option<u32>,
    /// The workspace folders that this process was asked to initialize with.
    pub(super) folders: Vec<Bytes>,
    /// What this process has made, if it has taken the place of another.
    pub(super) items: Items,
    pub(super) results: Results,
    /// How it differs from the first process, by which the editor goes.
    pub(in crate::core::mux) differences: Differences,
    pub(super) reconcile: Reconcile,
    /// Since when nothing has needed it.
    pub(crate) idle_since: Option<Instant>,
    /// What becomes of it while nothing needs it.
    pub(crate) idling: Idling,
    pub(crate) health: Health,
    pub(crate) ending: Ending,
    /// When it closed its stdout, and lived on.
    pub(super) closed_at: Option<Instant>,
    /// What last went wrong, as people read it.
    pub(crate) last_error: Option<String>,
    /// Why it was last stopped, as people read it.
    pub(crate) stopped: Option<&'static str>,
    /// The user has been told that it has failed.
    pub(super) failure_told: bool,
    /// The user has been told that it crashes repeatedly.
    pub(super) crashes_told: bool,
}

/// What a backend is made with.
pub(crate) struct NewBackend {
    pub(crate) server: ServerId,
    pub(crate) role: Role,
    pub(crate) name: String,
    /// As people may type it.
    pub(crate) alias: String,
}

impl Backend {
    /// The workspace folders that this process was asked to initialize with.
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
            idle_since: None,
            idling: Idling::Ends,
            health: Health::new(now),
            ending: Ending::No,
            closed_at: None,
            last_error: None,
            stopped: None,
            failure_told: false,
            crashes_told: false,
        }
    }

    pub(crate) fn process(&self) -> ProcessId {
        ProcessId { backend: self.id, generation: self.life.generation() }
    }

    /// Whether this process is the one that is there.
    pub(crate) fn is_current(&self, process: ProcessId) -> bool {
        self.life.is_alive() && self.process() == process
    }

    /// A process begins: nothing is known of it.
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

    /// The process that runs cannot go on, perhaps for this fault. Whether that is why it is ended.
    pub(in crate::core::mux) fn terminate(&mut self, fault: Option<Fault>) -> bool {
        self.ending.terminate(fault)
    }

    /// Nothing is expected of the process any more.
    pub(super) fn abandon(&mut self) {
        self.queue.clear();
        self.ending.abandon();
    }

    /// Whether the process that runs is being ended although nobody has asked for that.
    pub(crate) fn is_terminated(&self) -> bool {
        self.ending != Ending::No
    }

    /// Whether what the process still says means nothing.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.ending, Ending::Abandoned(_))
    }

    /// Whether a higher owner does not let it take what clients send.
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

    /// Whether the recorded session has reached the process, so that what concerns everyone must be sent to it.
    /// Before that, the session absorbs it.
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

    /// Whether the process can take what clients send.
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

    /// Whether there is, or will be, a process that takes what is in the queue.
    pub(crate) fn accepts(&self) -> bool {
        !matches!(self.life.state(), LifecycleState::Stopped | LifecycleState::Failed)
    }

    /// Whether it counts among `max_processes`: it has a process, or will get one in the place of that which died.
    pub(crate) fn holds_a_place(&self) -> bool {
        self.life.is_alive() || matches!(self.life.state(), LifecycleState::Restarting { .. })
    }

    /// Whether there is a process that nobody has told to end.
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

    /// What waits, for whoever only looks.
    pub(crate) fn queued(&self) -> &VecDeque<Frame> {
        &self.queue
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

    /// The next moment at which something is to be done about this backend unasked, and what.
    pub(crate) fn deadline(&self, idle_timeout: Duration) -> Option<Deadline> {
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

/// All backends, and the next moment at which something is to be done about one of them unasked.
///
/// That moment is looked for only after one of them may have changed, which passing on a message does not do.
#[derive(Debug, Default)]
pub(crate) struct Backends {
    all: BTreeMap<BackendId, Backend>,
    /// How many there have been.
    n_added: u32,
    have_changed: bool,
    /// Those that may have changed; each at least once.
    touched: Vec<BackendId>,
    /// Of each that has one.
    deadlines: BTreeMap<BackendId, Deadline>,
    /// The first of these.
    deadline: Option<Deadline>,
    /// When memory is to be looked at.
    pub(super) next_measure: Option<Instant>,
}

impl Backends {
    pub(crate) fn get(&self, id: BackendId) -> Option<&Backend> {
        self.all.get(&id)
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

    /// The process of this backend has said something. This is done for each message.
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

    /// A backend came to owe answers, or owes none any more. `note` says whether it has another deadline by that. This
    /// is done for most messages.
    pub(super) fn note_debts(&mut self, id: BackendId, note: impl FnOnce(&mut Health) -> bool) {
        if self.all.get_mut(&id).is_some_and(|it| note(&mut it.health)) {
            self.touch(id);
        }
    }

    /// Something else has changed that may call for a process.
    pub(crate) fn note_change(&mut self) {
        self.have_changed = true;
    }

    /// Whether one of them may have changed since the last [`Backends::settle`].
    pub(crate) fn have_changed(&self) -> bool {
        self.have_changed
    }

    /// Any of them may have changed.
    pub(crate) fn touch_all(&mut self) {
        self.have_changed = true;
        self.touched.extend(self.all.keys());
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Backend> {
        self.touch_all();
        self.all.values_mut()
    }

    /// The id of the next one that is added.
    pub(crate) fn next_id(&self) -> BackendId {
        BackendId(self.n_added)
    }

    /// Adds one without a process. Ids are not used again.
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
    }

    /// An event has been dealt with: what it changed may begin to wait, or be waited for no longer.
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

    /// When something is to be done about one of them, and what, as of the last [`Backends::settle`].
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    fn first_deadline(&self) -> Option<Deadline> {
        self.deadlines.values().copied().min_by_key(|(at, _)| *at)
    }

    /// Whether no change has been missed.
    pub(crate) fn check(&self, idle_timeout: Duration) -> Result<(), String> {
        let right = self.all.iter().filter_map(|(id, it)| Some((*id, it.deadline(idle_timeout)?))).collect();
        if self.have_changed || self.deadlines == right && self.deadline == self.first_deadline() {
            return Ok(());
        }
        Err(format!("the deadlines are {right:?}, noted are {:?}", self.deadlines))
    }
}

// What may be gone is asked for by `get`; a test knows what is there.
#[cfg(test)]
impl std::ops::Index<BackendId> for Backends {
    type Output = Backend;

    fn index(&self, id: BackendId) -> &Backend {
        &self.all[&id]
    }
}
