//! The Copilot half's state of a backend, under the backend's id: its tool set, and how far its process is
//! restricted.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use super::Copilot;
use crate::core::{
    copilot::{
        restore::Restores,
        tools::brought::SpareKind,
        tools::{mcp::McpServers, tool_set::ToolSet},
    },
    event::BackendId,
    mux::{Mux, pool::backend::Backend},
};

/// The partition of a backend.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) set: ToolSet,
    /// Its capabilities, if it is a spare.
    pub(crate) spare: Option<SpareKind>,
    /// lspool's open requests about its tools.
    pub(crate) projecting: usize,
    pub(crate) mcp: McpServers,
    pub(crate) restores: Restores,
    /// `serverInfo.version` of its process.
    pub(crate) version: Option<String>,
    /// How often in a row the process offered tools outside its set.
    pub(crate) corrections: u8,
    /// The names of the tools that the process last offered.
    pub(crate) offered: Option<BTreeSet<String>>,
    /// How many tool calls outside the set were refused.
    pub(crate) refused: u64,
}

impl Partition {
    fn new(set: ToolSet, spare: Option<SpareKind>) -> Partition {
        Partition {
            set,
            spare,
            projecting: 0,
            mcp: McpServers::default(),
            restores: Restores::default(),
            version: None,
            corrections: 0,
            offered: None,
            refused: 0,
        }
    }

    /// Resets the state for a new process.
    fn begin(&mut self) {
        self.projecting = 0;
        self.mcp = McpServers::default();
        self.restores = Restores::default();
        self.corrections = 0;
        self.offered = None;
    }

    /// Whether the process must not get messages of clients, because its tools are undecided.
    fn is_held(&self, is_undecided: bool) -> bool {
        !self.set.is_all() && (self.projecting > 0 || is_undecided || !self.mcp.is_ready())
    }
}

/// All partitions.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    all: BTreeMap<BackendId, Partition>,
    /// Those that may have begun to wait for MCP servers.
    touched: BTreeSet<BackendId>,
    /// When the first wait for an MCP server ends.
    deadline: Option<Instant>,
}

impl Partitions {
    pub(crate) fn get(&self, id: BackendId) -> Option<&Partition> {
        self.all.get(&id)
    }

    /// For changes that do not decide whether the process may take turns.
    pub(crate) fn get_mut(&mut self, id: BackendId) -> Option<&mut Partition> {
        self.all.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (BackendId, &Partition)> {
        self.all.iter().map(|(id, it)| (*id, it))
    }

    pub(crate) fn remove(&mut self, id: BackendId) {
        self.all.remove(&id);
    }

    /// The tools of its conversations.
    pub(crate) fn set(&self, id: BackendId) -> Option<&ToolSet> {
        self.get(id).map(|it| &it.set)
    }

    /// The set of a partition that is not a spare.
    pub(crate) fn served(&self, id: BackendId) -> Option<&ToolSet> {
        self.get(id).filter(|it| it.spare.is_none()).map(|it| &it.set)
    }
}

impl Copilot {
    /// Adds a backend without a process.
    pub(super) fn add_partition(
        &mut self,
        mux: &mut Mux,
        id: BackendId,
        set: ToolSet,
        spare: Option<SpareKind>,
    ) {
        self.partitions.all.insert(id, Partition::new(set, spare));
        self.sync_hold(mux, id);
    }

    /// A process of a backend is ready.
    pub(super) fn touch_partition(&mut self, id: BackendId, version: Option<String>) {
        self.partitions.touched.insert(id);
        if let Some(partition) = self.partitions.all.get_mut(&id) {
            partition.version = version;
        }
    }

    /// Notes a new process of a backend.
    pub(super) fn begin_partition(&mut self, mux: &mut Mux, id: BackendId) {
        self.change_partition(mux, id, Partition::begin);
    }

    /// Changes state that decides whether a process may take turns.
    pub(super) fn change_partition(
        &mut self,
        mux: &mut Mux,
        id: BackendId,
        change: impl FnOnce(&mut Partition),
    ) {
        if let Some(partition) = self.partitions.all.get_mut(&id) {
            change(partition);
            self.partitions.touched.insert(id);
            self.sync_hold(mux, id);
        }
    }

    /// Tells the mux whether a process may take messages of clients.
    fn sync_hold(&self, mux: &mut Mux, id: BackendId) {
        let Some(is_held) = self.is_held(id) else { return };
        if mux.backend(id).is_some_and(|it| it.is_held() != is_held)
            && let Some(backend) = mux.backend_mut(id)
        {
            backend.set_held(is_held);
        }
    }

    /// The same for all partitions, when a change of the catalog begins or is decided.
    pub(super) fn sync_holds(&self, mux: &mut Mux) {
        self.partitions.all.keys().for_each(|id| self.sync_hold(mux, *id));
    }

    /// Whether a process must not get messages of clients.
    pub(super) fn is_held(&self, id: BackendId) -> Option<bool> {
        self.partitions.get(id).map(|it| it.is_held(self.catalog.undecided > 0))
    }

    /// Starts the time of newly configured MCP servers, after an event.
    pub(super) fn settle_partitions(&mut self, mux: &Mux) {
        if self.partitions.touched.is_empty() && !mux.backends().have_changed() {
            return;
        }
        let patience = mux.servers().get(self.server).settings.mcp_wait;
        let touched = std::mem::take(&mut self.partitions.touched);
        let is_ready = |id: BackendId| mux.backend(id).is_some_and(Backend::is_ready);
        for id in touched.into_iter().filter(|id| is_ready(*id)) {
            if let Some(partition) = self.partitions.all.get_mut(&id) {
                partition.mcp.note(mux.now(), patience);
            }
        }
        let ready = self.partitions.all.iter().filter(|(id, _)| is_ready(**id));
        self.partitions.deadline = ready.filter_map(|(_, it)| it.mcp.deadline()).min();
    }

    /// When the wait for MCP servers ends.
    pub(super) fn mcp_deadline(&self) -> Option<Instant> {
        self.partitions.deadline
    }
}
