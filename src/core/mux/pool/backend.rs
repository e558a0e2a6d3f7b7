//! One backend: its process, its gate, and what is known of the process that runs.
//!
//! The gate holds what clients send while the process cannot take it: before the handshake is over, and while a
//! partition does not yet know its tools. **Order from one client to one backend is kept**: while anything is in
//! the gate, nothing passes it. A turn that has left it, and is preceded by its history or by a look at its mode
//! ([`Restores`]), is passed by all that comes meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use crate::{
    core::{
        event::{BackendId, ProcessId},
        failure::Cause,
        health::Health,
        lifecycle::{Handshake, Lifecycle, State},
        mcp::McpServers,
        reconcile::Reconcile,
        restore::Restores,
        results::Results,
        spares::Kit,
        toolset::ToolSet,
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

/// A configured server, or one partition of it.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) id: BackendId,
    /// As people read it: `pyright`, `partition "list_dir,read_file" of copilot`.
    pub(crate) name: String,
    pub(crate) set: ToolSet,
    /// It serves nobody yet: it is kept ready, with these capabilities, for whoever comes to need a process.
    pub(crate) spare: Option<Kit>,
    pub(crate) life: Lifecycle,
    gate: VecDeque<Frame>,
    /// Of the process that runs.
    pub(crate) pid: Option<u32>,
    /// Own calls about tools that the process has not answered.
    pub(crate) projecting: usize,
    pub(crate) mcp: McpServers,
    pub(crate) restores: Restores,
    /// Requests whose answers this process has given items in, for a process that has taken the place of another.
    pub(crate) sources: BTreeSet<&'static str>,
    pub(crate) results: Results,
    pub(crate) reconcile: Reconcile,
    /// How often in a row the process offered tools outside its set.
    pub(crate) corrections: u8,
    /// Since when nothing has needed it.
    pub(crate) idle_since: Option<Instant>,
    /// What becomes of it while nothing needs it.
    pub(crate) idling: Idling,
    /// The names of the tools that its process has last said to offer.
    pub(crate) offered: Option<BTreeSet<String>>,
    /// Tool calls outside the set that were refused.
    pub(crate) refused: u64,
    pub(crate) health: Health,
    /// The process that runs is being ended although nobody has asked for that. What is still sent to it is lost.
    pub(crate) is_condemned: bool,
    /// Nothing is expected of the process any more, and whatever it still says means nothing.
    pub(crate) is_let_go: bool,
    /// Why lspool ends the process that runs, if it does so for the process's own fault.
    pub(crate) fault: Option<(Cause, String)>,
    /// What last went wrong, as people read it.
    pub(crate) last_error: Option<String>,
    /// Why it was last stopped, as people read it.
    pub(crate) stopped: Option<&'static str>,
    /// The user has been told that it has failed.
    pub(crate) failure_told: bool,
}

impl Backend {
    pub(crate) fn new(id: BackendId, name: String, set: ToolSet, now: Instant) -> Backend {
        Backend {
            id,
            name,
            set,
            spare: None,
            life: Lifecycle::new(now),
            gate: VecDeque::new(),
            pid: None,
            projecting: 0,
            mcp: McpServers::default(),
            restores: Restores::default(),
            sources: BTreeSet::new(),
            results: Results::default(),
            reconcile: Reconcile::default(),
            corrections: 0,
            idle_since: None,
            idling: Idling::Ends,
            offered: None,
            refused: 0,
            health: Health::new(now),
            is_condemned: false,
            is_let_go: false,
            fault: None,
            last_error: None,
            stopped: None,
            failure_told: false,
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
        self.projecting = 0;
        self.mcp = McpServers::default();
        self.restores = Restores::default();
        self.sources.clear();
        self.results = Results::default();
        self.reconcile = Reconcile::default();
        self.corrections = 0;
        self.offered = None;
        self.health = Health::new(now);
        self.is_condemned = false;
        self.is_let_go = false;
        self.fault = None;
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.life.state(), State::Ready | State::Degraded)
    }

    /// Whether the recorded session has reached the process, so that what concerns everyone must be sent to it.
    /// Before that, the session absorbs it.
    pub(crate) fn has_session(&self) -> bool {
        match self.life.state() {
            State::Ready | State::Degraded => true,
            State::Spawning { handshake, .. } | State::Initializing { handshake, .. } => {
                handshake == Handshake::Editor
            }
            State::Waiting | State::Stopped | State::Restarting { .. } | State::Failed => false,
        }
    }

    /// Whether the process can take what clients send. `undecided`: a change of the catalogue is under way.
    pub(crate) fn is_open(&self, undecided: bool) -> bool {
        match self.life.state() {
            State::Ready | State::Degraded => {
                !self.is_condemned
                    && (self.set.is_all() || (self.projecting == 0 && !undecided && self.mcp.is_ready()))
            }
            State::Initializing { handshake, .. } => handshake == Handshake::Editor && !self.is_condemned,
            State::Waiting
            | State::Spawning { .. }
            | State::Stopped
            | State::Restarting { .. }
            | State::Failed => false,
        }
    }

    /// Whether there is, or will be, a process that takes what is in the gate.
    pub(crate) fn accepts(&self) -> bool {
        !matches!(self.life.state(), State::Stopped | State::Failed)
    }

    /// Whether it counts among `max_processes`: it has a process, or will get one in the place of that which died.
    pub(crate) fn holds_a_place(&self) -> bool {
        self.life.is_alive() || matches!(self.life.state(), State::Restarting { .. })
    }

    /// Whether there is a process that nobody has told to end.
    pub(crate) fn goes_on(&self) -> bool {
        match self.life.state() {
            State::Spawning { .. } | State::Initializing { .. } | State::Ready | State::Degraded => true,
            State::Waiting | State::Stopped | State::Restarting { .. } | State::Failed => false,
        }
    }

    pub(crate) fn gate(&mut self) -> &mut VecDeque<Frame> {
        &mut self.gate
    }

    /// What waits, for whoever only looks.
    pub(crate) fn gated(&self) -> &VecDeque<Frame> {
        &self.gate
    }

    pub(crate) fn gate_is_empty(&self) -> bool {
        self.gate.is_empty()
    }

    /// The next moment at which something is to be done about this backend unasked, and what.
    pub(crate) fn deadline(&self, idle_timeout: Duration) -> Option<Deadline> {
        match self.life.state() {
            State::Spawning { deadline, .. } => Some((deadline?, "a process is not there")),
            State::Initializing { deadline, .. } => Some((deadline?, "initialize is not answered")),
            State::Restarting { at } if !self.life.is_alive() => Some((at, "restart")),
            State::Ready | State::Degraded => {
                let idle = self
                    .idle_since
                    .filter(|_| self.idling == Idling::Ends)
                    .map(|since| (since + idle_timeout, "idle"));
                let mcp = self.mcp.deadline().map(|at| (at, "an MCP server is not up"));
                let other = self.health.deadline().into_iter().chain(self.reconcile.deadline());
                idle.into_iter().chain(mcp).chain(other).min_by_key(|(at, _)| *at)
            }
            State::Waiting | State::Stopped | State::Restarting { .. } | State::Failed => None,
        }
    }
}

/// All backends, and the next moment at which something is to be done about one of them unasked.
///
/// That moment is looked for only after one of them may have changed, which passing on a message does not do.
#[derive(Debug, Default)]
pub(crate) struct Backends {
    all: BTreeMap<BackendId, Backend>,
    have_changed: bool,
    /// Those that may have changed; each at least once.
    touched: Vec<BackendId>,
    /// Of each that has one.
    deadlines: BTreeMap<BackendId, Deadline>,
    /// The first of these.
    deadline: Option<Deadline>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is used as the map that it is")]
impl Backends {
    pub(crate) fn get(&self, id: &BackendId) -> Option<&Backend> {
        self.all.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &BackendId) -> Option<&mut Backend> {
        self.touch(*id);
        self.all.get_mut(id)
    }

    fn touch(&mut self, id: BackendId) {
        self.have_changed = true;
        if self.touched.last() != Some(&id) {
            self.touched.push(id);
        }
    }

    pub(crate) fn contains_key(&self, id: &BackendId) -> bool {
        self.all.contains_key(id)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &BackendId> {
        self.all.keys()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Backend> {
        self.all.values()
    }

    /// The process of this backend has said something. This is done for each message.
    pub(crate) fn heard(&mut self, process: ProcessId, now: Instant) {
        let Some(backend) = self.all.get_mut(&process.backend).filter(|it| it.is_current(process)) else {
            return;
        };
        backend.health.heard(now);
        if backend.life.state() == State::Degraded {
            backend.life.heard(now);
            self.touch(process.backend);
        }
    }

    /// A backend came to owe answers, or owes none any more. `note` says whether it has another deadline by that. This
    /// is done for most messages.
    pub(crate) fn note_debts(&mut self, id: BackendId, note: impl FnOnce(&mut Health) -> bool) {
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

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Backend> {
        self.have_changed = true;
        self.touched.extend(self.all.keys());
        self.all.values_mut()
    }

    pub(crate) fn insert(&mut self, id: BackendId, backend: Backend) {
        self.touch(id);
        self.all.insert(id, backend);
    }

    pub(crate) fn remove(&mut self, id: &BackendId) {
        self.touch(*id);
        self.all.remove(id);
    }

    /// An event has been dealt with: what it changed may begin to wait, or be waited for no longer.
    pub(crate) fn settle(&mut self, now: Instant, idle_timeout: Duration) {
        if !std::mem::take(&mut self.have_changed) {
            return;
        }
        for id in self.touched.drain(..) {
            let Some(it) = self.all.get_mut(&id) else {
                self.deadlines.remove(&id);
                continue;
            };
            if it.is_ready() {
                it.mcp.note(now);
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
impl std::ops::Index<&BackendId> for Backends {
    type Output = Backend;

    fn index(&self, id: &BackendId) -> &Backend {
        &self.all[id]
    }
}
