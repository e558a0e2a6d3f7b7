//! One backend: its process, its gate, and how far it has come.
//!
//! ```text
//! Waiting ─room─▶ Spawning ─▶ Initializing ─▶ Serving ─▶ Stopping ─▶ (gone)
//!    ▲                │             │            │
//!    └── Restarting ◀─┴─── exit ────┴────────────┘ ─▶ Failed (budget spent, or it cannot be started)
//! ```
//!
//! The gate holds what clients send while the process cannot take it: before the handshake is over, and while a
//! partition does not yet know its tools. **Order from one client to one backend is kept**: while anything is in
//! the gate, nothing passes it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Index,
    time::{Duration, Instant},
};

use crate::{
    core::{
        event::{BackendId, Generation, ProcessId},
        lifecycle::Budget,
        mcp::McpServers,
        reconcile::Reconcile,
        restore::Restores,
        results::Results,
        toolset::ToolSet,
    },
    rpc::Frame,
};

/// When something is to be done, and what.
pub(crate) type Deadline = (Instant, &'static str);

/// Whose `initialize` opens a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// The editor's own, passed through with all that follows: the first process of the primary.
    Editor,
    /// lspool's, from the recorded session.
    Own,
}

/// How far a backend has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// `max_processes` are alive; an idle one is being stopped for this one.
    Waiting,
    Spawning(Handshake),
    Initializing {
        handshake: Handshake,
        deadline: Instant,
    },
    Serving,
    /// It was asked to end.
    Stopping,
    /// It died and starts again at this time.
    Restarting {
        at: Instant,
    },
    /// It will not be started again.
    Failed {
        why: String,
    },
}

/// A configured server, or one partition of it.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) id: BackendId,
    /// As people read it: `pyright`, `partition "list_dir,read_file" of copilot`.
    pub(crate) name: String,
    pub(crate) set: ToolSet,
    pub(crate) generation: Generation,
    pub(crate) state: State,
    /// Whether a process of it exists.
    pub(crate) alive: bool,
    gate: VecDeque<Frame>,
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
    /// Tool calls outside the set that were refused.
    pub(crate) refused: u64,
    pub(crate) budget: Budget,
    /// Why lspool ends the process that runs, if it does so for the process's own fault.
    pub(crate) fault: Option<String>,
}

impl Backend {
    pub(crate) fn new(id: BackendId, name: String, set: ToolSet) -> Backend {
        Backend {
            id,
            name,
            set,
            generation: Generation(0),
            state: State::Waiting,
            alive: false,
            gate: VecDeque::new(),
            projecting: 0,
            mcp: McpServers::default(),
            restores: Restores::default(),
            sources: BTreeSet::new(),
            results: Results::default(),
            reconcile: Reconcile::default(),
            corrections: 0,
            idle_since: None,
            refused: 0,
            budget: Budget::default(),
            fault: None,
        }
    }

    pub(crate) fn process(&self) -> ProcessId {
        ProcessId { backend: self.id, generation: self.generation }
    }

    /// Whether the recorded session has reached the process, so that what concerns everyone must be sent to it.
    /// Before that, the session absorbs it.
    pub(crate) fn has_session(&self) -> bool {
        match self.state {
            State::Serving | State::Initializing { handshake: Handshake::Editor, .. } => true,
            State::Spawning(Handshake::Editor) => true,
            State::Waiting
            | State::Spawning(Handshake::Own)
            | State::Initializing { handshake: Handshake::Own, .. }
            | State::Stopping
            | State::Restarting { .. }
            | State::Failed { .. } => false,
        }
    }

    /// Whether the process can take what clients send. `undecided`: a change of the catalogue is under way.
    pub(crate) fn is_open(&self, undecided: bool) -> bool {
        match self.state {
            State::Serving => {
                self.projecting == 0 && (self.set.is_all() || (!undecided && self.mcp.is_ready()))
            }
            State::Initializing { handshake, .. } => handshake == Handshake::Editor,
            State::Waiting
            | State::Spawning(_)
            | State::Stopping
            | State::Restarting { .. }
            | State::Failed { .. } => false,
        }
    }

    /// Whether there is, or will be, a process that takes what is in the gate.
    pub(crate) fn accepts(&self) -> bool {
        !matches!(self.state, State::Stopping | State::Failed { .. })
    }

    /// Why it does not serve.
    pub(crate) fn failure(&self) -> String {
        match &self.state {
            State::Failed { why } => why.clone(),
            State::Waiting
            | State::Spawning(_)
            | State::Initializing { .. }
            | State::Serving
            | State::Stopping
            | State::Restarting { .. } => "it is being stopped".to_owned(),
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
        match self.state {
            State::Initializing { deadline, .. } => Some((deadline, "initialize is not answered")),
            State::Restarting { at } => Some((at, "restart")),
            State::Serving => {
                let idle = self.idle_since.map(|since| (since + idle_timeout, "idle"));
                let mcp = self.mcp.deadline().map(|at| (at, "an MCP server is not up"));
                let reconcile = self.reconcile.deadline();
                idle.into_iter().chain(mcp).chain(reconcile).min_by_key(|(at, _)| *at)
            }
            State::Waiting | State::Spawning(_) | State::Stopping | State::Failed { .. } => None,
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
    deadline: Option<Deadline>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is used as the map that it is")]
impl Backends {
    pub(crate) fn get(&self, id: &BackendId) -> Option<&Backend> {
        self.all.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &BackendId) -> Option<&mut Backend> {
        self.have_changed = true;
        self.all.get_mut(id)
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

    pub(crate) fn insert(&mut self, id: BackendId, backend: Backend) {
        self.have_changed = true;
        self.all.insert(id, backend);
    }

    pub(crate) fn remove(&mut self, id: &BackendId) {
        self.have_changed = true;
        self.all.remove(id);
    }

    /// An event has been dealt with: what it changed may begin to wait, or be waited for no longer.
    pub(crate) fn settle(&mut self, now: Instant, idle_timeout: Duration) {
        if std::mem::take(&mut self.have_changed) {
            for it in self.all.values_mut().filter(|it| it.state == State::Serving) {
                it.mcp.note(now);
                it.reconcile.note(now);
            }
            self.deadline = self.next_deadline(idle_timeout);
        }
    }

    /// When something is to be done about one of them, and what, as of the last [`Backends::settle`].
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    fn next_deadline(&self, idle_timeout: Duration) -> Option<Deadline> {
        self.all.values().filter_map(|it| it.deadline(idle_timeout)).min_by_key(|(at, _)| *at)
    }

    /// Whether no change has been missed.
    pub(crate) fn check(&self, idle_timeout: Duration) -> Result<(), String> {
        let right = self.next_deadline(idle_timeout);
        if self.have_changed || self.deadline == right {
            return Ok(());
        }
        Err(format!("the next deadline is {right:?}, noted is {:?}", self.deadline))
    }
}

impl Index<&BackendId> for Backends {
    type Output = Backend;

    fn index(&self, id: &BackendId) -> &Backend {
        &self.all[id]
    }
}
