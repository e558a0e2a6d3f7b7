//! The tools in the file of a mode. The file names each tool: it spells out the short forms of a set, and follows the
//! catalog.

use std::collections::BTreeSet;

use crate::{
    core::{
        copilot::{
            Copilot,
            tools::{
                brought::{BRINGS, SpareKind},
                mcp::McpServer,
                tool_set::{EDIT_FAMILY, SUB_AGENT, ToolSet},
            },
        },
        mux::Mux,
    },
    rpc::{elements, text},
};

impl Copilot {
    /// The tools of a set, by their names in the file of a mode. Without disabled tools, which a mode would enable.
    pub(super) fn tools_in(&self, mux: &Mux, set: &ToolSet) -> Vec<String> {
        let offered = self.modes.offered.iter().flatten().cloned();
        let spare_kind = SpareKind::of(set, self.generic_session(mux).initialize());
        let brought =
            BRINGS.iter().map(|(_, tool)| *tool).filter(|it| spare_kind.contains(it)).map(str::to_owned);
        let edit = EDIT_FAMILY.iter().map(ToString::to_string);
        let known = self.catalog.names().cloned().chain(offered).chain(brought).chain(edit);
        let all: BTreeSet<String> = known.chain(set.spelled_out().cloned()).collect();
        let is_on = |it: &String| set.contains(it) && !self.catalog.is_switched_off(it);
        let mut tools: BTreeSet<String> = all.into_iter().filter(is_on).collect();
        for (server, of_server) in &self.modes.mcp {
            for (tool, is_on) in of_server {
                let name = format!("{server}/{tool}");
                if !is_on || self.is_mcp_off(server, tool) {
                    tools.remove(&name);
                } else if set.contains_mcp(server, tool) {
                    tools.insert(name);
                }
            }
        }
        tools.into_iter().collect()
    }

    /// Whether a set has, or may get, the server's tool for its own sub-agents.
    pub(super) fn may_run_sub_agents(&self, mux: &Mux, set: &ToolSet) -> bool {
        self.can_run_sub_agents(mux, set, &self.tools_in(mux, set))
    }

    /// The same for a set with these tools.
    pub(super) fn can_run_sub_agents(&self, mux: &Mux, set: &ToolSet, tools: &[String]) -> bool {
        SpareKind::of(set, self.generic_session(mux).initialize()).contains(SUB_AGENT)
            || tools.iter().any(|it| it == SUB_AGENT)
    }

    /// An MCP server that a set needs, and whose tools are unknown.
    pub(super) fn missing_mcp_server(&self, mux: &Mux, set: &ToolSet) -> Option<String> {
        let is_up = |it: &String| self.modes.mcp.get(it).is_some_and(|tools| !tools.is_empty());
        let wanted = self
            .session
            .mcp_servers(self.generic_session(mux))
            .into_iter()
            .filter(|it| set.wants_mcp_server(it));
        wanted.into_iter().find(|it| !is_up(it))
    }

    /// Whether the tools of a set depend on an unknown list of the primary.
    pub(super) fn lacks_list(&self, set: &ToolSet) -> bool {
        self.modes.offered.is_none() && set.has_shorthands()
    }

    /// Notes the tools that the primary offers, from an answer to a change of its registry.
    pub(crate) fn learn_offered(&mut self, mux: &mut Mux, offered: &[u8]) {
        let names = elements(offered).filter_map(|range| text(&offered[range], &["name"]));
        self.modes.offered = Some(names.collect());
        self.follow_catalog(mux);
    }

    /// Notes the tools of the primary's MCP servers.
    pub(crate) fn learn_mcp(&mut self, mux: &mut Mux, servers: &[u8]) {
        let Ok(servers) = serde_json::from_slice::<Vec<McpServer>>(servers) else { return };
        let tools = |it: McpServer| {
            let tools = it.tools.into_iter().map(|it| (it.name.clone(), it.is_on()));
            (it.name, tools.collect())
        };
        self.modes.mcp = servers.into_iter().map(tools).collect();
        self.follow_catalog(mux);
    }
}
