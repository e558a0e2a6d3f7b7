//! Unknown names in tool sets: mistyped ones, or those of other programs. They are not errors, because a tool may be
//! registered later, but lspool warns the user.

use std::collections::BTreeSet;

use tracing::warn;

use crate::{
    agents::{ORCHESTRATION, likely_tools},
    config::nearest,
    core::{
        copilot::{
            Copilot,
            tools::{
                brought::SpareKind,
                tool_set::{ToolSet, is_edit_tool},
            },
        },
        event::BackendId,
        mux::{Mux, Severity},
    },
    rpc::{elements, text},
};

/// A shorter name could be meant for anything.
const SHORTEST: usize = 4;

impl Copilot {
    /// Handles the offered tools of a partition that is restricted now.
    pub(super) fn note_offered(&mut self, mux: &mut Mux, id: BackendId, offered: &[u8]) {
        let Some(partition) = self.partitions.get_mut(id) else { return };
        let names = elements(offered).filter_map(|range| text(&offered[range], &["name"]));
        let set = partition.set.clone();
        let offered = partition.offered.insert(names.collect()).clone();
        self.tell_unknown_tools(mux, &set, &offered);
    }

    /// The names in a set that no process and no client has. Tools of MCP servers, and the server's own, may come
    /// later.
    pub(crate) fn names_without_tool(
        &self,
        mux: &Mux,
        set: &ToolSet,
        offered: &BTreeSet<String>,
    ) -> Vec<String> {
        let brought = SpareKind::of(set, self.generic_session(mux).initialize());
        let known = |name: &str| offered.contains(name) || self.catalog.names().any(|it| it == name);
        let edits = || offered.iter().chain(self.catalog.names()).any(|it| is_edit_tool(it));
        let is_known = |name: &str| {
            known(name)
                || is_edit_tool(name) && edits()
                || brought.contains(name)
                || ORCHESTRATION.contains(&name)
                || name.contains('/')
                || name.starts_with("mcp_")
        };
        set.spelled_out().filter(|it| !is_known(it)).cloned().collect()
    }

    /// Warns the user, once for each name, about names that resemble a tool.
    pub(crate) fn tell_unknown_tools(&mut self, mux: &mut Mux, set: &ToolSet, offered: &BTreeSet<String>) {
        for name in self.names_without_tool(mux, set, offered) {
            if !self.unknown_tools.insert(name.clone()) {
                continue;
            }
            warn!(name, %set, "unknown tool");
            let meant = self.meant(&name, offered);
            if !meant.is_empty() {
                let message = format!(
                    "lspool: unknown tool {name:?} in the tool set {set}; did you mean {}?",
                    meant.join(", ")
                );
                mux.show(Severity::Warning, &message);
            }
        }
    }

    fn meant(&self, name: &str, offered: &BTreeSet<String>) -> Vec<String> {
        let likely = likely_tools(name);
        if !likely.is_empty() || name.chars().count() < SHORTEST {
            return likely;
        }
        let there_are = offered.iter().chain(self.catalog.names()).map(String::as_str);
        nearest(name, there_are).map(str::to_owned).into_iter().collect()
    }
}
