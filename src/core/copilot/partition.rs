//! What the Copilot half knows of a backend, under the backend's id: whose conversations it serves, and how far its
//! process is kept to their tools.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use super::Copilot;
use crate::core::{
    copilot::{
        restore::Restores,
        spares::SpareKind,
        tools::{mcp::McpServers, tool_set::ToolSet},
    },
    event::BackendId,
    mux::{Mux, pool::backend::Backend},
};

/// What a backend is to conversations.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) set: ToolSet,
    /// It is kept ready, with these capabilities.
    pub(crate) spare: Option<SpareKind>,
    /// Own calls about tools that the process has not answered.
    pub(crate) projecting: usize,
    pub(crate) mcp: McpServers,
    pub(crate) restores: Restores,
    /// `serverInfo.version` of its process.
    pub(crate) version: Option<String>,
    /// How often in a row the process offered tools outside its set.
    pub(crate) corrections: u8,
    /// The names of the tools that its process has last said to offer.
    pub(crate) offered: Option<BTreeSet<String>>,
    /// Tool calls outside the set that were refused.
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

    /// A process begins: nothing is known of it.
    fn begin(&mut self) {
        self.projecting = 0;
        self.mcp = McpServers::default();
        self.restores = Restores::default();
        self.corrections = 0;
        self.offered = None;
    }

    /// Whether its process must take nothing of what clients send: its tools are not settled.
    fn is_held(&self, is_undecided: bool) -> bool {
        !self.set.is_all() && (self.projecting > 0 || is_undecided || !self.mcp.is_ready())
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    all: BTreeMap<BackendId, Partition>,
    /// Those whose MCP servers may have begun to be waited for.
    touched: BTreeSet<BackendId>,
    /// When the first MCP server that is waited for has had its time.
    deadline: Option<Instant>,
}

impl Partitions {
    pub(crate) fn get(&self, id: BackendId) -> Option<&Partition> {
        self.all.get(&id)
    }

    /// For whatever does not decide whether the process may take turns.
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

    /// The set of a partition that is no spare.
    pub(crate) fn served(&self, id: BackendId) -> Option<&ToolSet> {
        self.get(id).filter(|it| it.spare.is_none()).map(|it| &it.set)
    }
}

impl Copilot {
    /// A backend is there, without a process.
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

    /// A process of a backend begins.
    pub(super) fn begin_partition(&mut self, mux: &mut Mux, id: BackendId) {
        self.change_partition(mux, id, Partition::begin);
    }

    /// Changes what decides whether a process may take turns.
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

    /// Tells the mux whether a process may take what clients send.
    fn sync_hold(&self, mux: &mut Mux, id: BackendId) {
        let Some(is_held) = self.is_held(id) else { return };
        if mux.backend(id).is_some_and(|it| it.is_held() != is_held)
            && let Some(backend) = mux.backend_mut(id)
        {
            backend.set_held(is_held);
        }
    }

    /// The same of all: a change of the catalog has begun, or is decided.
    pub(super) fn sync_holds(&self, mux: &mut Mux) {
        self.partitions.all.keys().for_each(|id| self.sync_hold(mux, *id));
    }

    /// Whether a process must take nothing of what clients send.
    pub(super) fn is_held(&self, id: BackendId) -> Option<bool> {
        self.partitions.get(id).map(|it| it.is_held(self.catalog.undecided > 0))
    }

    /// An event has been dealt with: MCP servers that have just been configured have their time from now on.
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

    /// When MCP servers that are waited for have had their time.
    pub(super) fn mcp_deadline(&self) -> Option<Instant> {
        self.partitions.deadline
    }
}
