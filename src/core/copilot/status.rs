//! The status of tool sets and their conversations.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Value, json};

use super::{Copilot, tools::tool_set::ToolSet};
use crate::{
    config::Isolation,
    core::{event::BackendId, mux::Mux},
};

impl Copilot {
    /// The tool sets of all conversations and partitions, with their isolation.
    pub(crate) fn sets(&self, mux: &Mux) -> Vec<Value> {
        let mut sets: BTreeMap<(&ToolSet, bool), (BackendId, Vec<String>)> = BTreeMap::new();
        for (id, it) in self.partitions.iter().filter(|(id, it)| *id != self.primary && it.spare.is_none()) {
            sets.insert((&it.set, false), (id, Vec::new()));
        }
        for (id, it) in self.conversations.iter().filter(|(_, it)| !it.set.is_all() && it.parent.is_none()) {
            let of_set = sets.entry((&it.set, it.mode.is_some())).or_insert((it.backend, Vec::new()));
            of_set.1.push(id.as_text().map_or_else(|| id.to_string(), Cow::into_owned));
        }
        let offered = |by_mode: bool, id: BackendId| match by_mode {
            true => self.modes.offered(),
            false => self.partitions.get(id).and_then(|it| it.offered.as_ref()),
        };
        let unknown = |set: &ToolSet, by_mode: bool, id: BackendId| {
            offered(by_mode, id).map(|it| self.names_without_tool(mux, set, it)).unwrap_or_default()
        };
        let set = |((set, by_mode), (backend, ids)): ((&ToolSet, bool), (BackendId, Vec<String>))| {
            let isolation = if by_mode { Isolation::Mode } else { Isolation::Process };
            json!({
                "toolset": set.names(),
                "isolation": isolation.word(),
                "backend": mux.name_of(backend),
                "conversations": ids.len(),
                "ids": ids,
                "why": if by_mode { None } else { self.modes.reason(set) },
                "unknown_tools": unknown(set, by_mode, backend),
            })
        };
        sets.into_iter().map(set).collect()
    }

    /// The declared tools of a backend's conversations, unless they have all tools.
    pub(crate) fn declared_tools(&self, id: BackendId) -> Option<Vec<String>> {
        self.partitions.set(id).filter(|it| !it.is_all()).map(ToolSet::names)
    }

    /// How many tool calls of a backend were refused.
    pub(crate) fn n_refused(&self, id: BackendId) -> u64 {
        self.partitions.get(id).map_or(0, |it| it.refused)
    }
}
