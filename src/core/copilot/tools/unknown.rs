//! Names in tool sets of which there is no tool: mistyped ones, or those of another program. None is refused, because a
//! tool may be registered later; but whoever has chosen the set is told.

use std::collections::BTreeSet;

use tracing::warn;

use crate::core::{Proxy, ToolSet, control::show};
use crate::{
    agents::{ORCHESTRATION, likely_tools},
    config::nearest,
    core::{
        event::{BackendId, Effects},
        spares::Kit,
        toolset::is_edit_tool,
    },
    rpc::{elements, text},
};

/// What may be meant by a shorter name is anybody's guess.
const SHORTEST: usize = 4;

impl Proxy {
    /// A partition has said what it offers, and has no tool outside its set any more.
    pub(crate) fn note_offered(&mut self, id: BackendId, offered: &[u8], out: &mut Effects) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let names = elements(offered).filter_map(|range| text(&offered[range], &["name"]));
        let set = backend.set.clone();
        let offered = backend.offered.insert(names.collect()).clone();
        self.tell_unknown_tools(&set, &offered, out);
    }

    /// The names in a set of which neither a process that offers these tools nor anybody else has one. Those of MCP
    /// servers, and those that the server itself brings, may come later.
    pub(crate) fn unknown_tools(&self, set: &ToolSet, offered: &BTreeSet<String>) -> Vec<String> {
        let brought = Kit::of(set, &self.session.initialize);
        let known = |name: &str| offered.contains(name) || self.catalogue.names().any(|it| it == name);
        let edits = || offered.iter().chain(self.catalogue.names()).any(|it| is_edit_tool(it));
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

    /// Tells the user, once for each name, of those that seem to be meant for another one.
    pub(crate) fn tell_unknown_tools(
        &mut self,
        set: &ToolSet,
        offered: &BTreeSet<String>,
        out: &mut Effects,
    ) {
        for name in self.unknown_tools(set, offered) {
            if !self.control.unknown_tools.insert(name.clone()) {
                continue;
            }
            warn!(name, %set, "no tool has this name");
            let meant = self.meant(&name, offered);
            if !meant.is_empty() {
                let message = format!(
                    "lspool: conversations with the tools {set} have no {name:?}: there is no such tool; did you mean {}?",
                    meant.join(", ")
                );
                show(2, &message, out);
            }
        }
    }

    fn meant(&self, name: &str, offered: &BTreeSet<String>) -> Vec<String> {
        let likely = likely_tools(name);
        if !likely.is_empty() || name.chars().count() < SHORTEST {
            return likely;
        }
        let there_are = offered.iter().chain(self.catalogue.names()).map(String::as_str);
        nearest(name, there_are).map(str::to_owned).into_iter().collect()
    }
}
