//! MCP servers of a process: waits for their start, and disables their tools outside the set or switched off by the
//! editor.
//!
//! **A turn of a restricted partition begins after the MCP servers of its set have started**, or after `mcp_wait`: a
//! server first offers all its tools, and lspool can disable them only then. The tools of a late server are disabled
//! when it starts; calls of running turns are refused at their confirmation.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{
    core::{
        copilot::{Copilot, tools::catalog::status},
        event::{BackendId, ProcessId},
        mux::{Mux, Severity, failure::reason, pool::backend::Backend},
        purpose::{CopilotPurpose, Purpose, ToolChange},
    },
    rpc::{Frame, member},
};

/// The MCP servers of a process.
#[derive(Debug, Default)]
pub(crate) struct McpServers {
    /// By name, with whether its tools have come.
    configured: BTreeMap<String, bool>,
    waiting: Waiting,
}

#[derive(Debug, Default)]
enum Waiting {
    /// The missing servers get their time from the next event on.
    #[default]
    Yes,
    Until(Instant),
    /// The wait is over.
    No,
}

impl McpServers {
    fn configured(&mut self, servers: Vec<String>) {
        let known = std::mem::take(&mut self.configured);
        for server in servers {
            let is_up = known.get(&server).copied();
            if is_up.is_none() {
                self.waiting = Waiting::Yes;
            }
            self.configured.insert(server, is_up.unwrap_or(false));
        }
    }

    fn reported(&mut self, servers: &[&str]) {
        for (_, is_up) in self.configured.iter_mut().filter(|(name, _)| servers.contains(&name.as_str())) {
            *is_up = true;
        }
    }

    fn abandon(&mut self) {
        self.waiting = Waiting::No;
    }

    /// Starts the time of newly configured servers.
    pub(crate) fn note(&mut self, now: Instant, patience: Duration) {
        if matches!(self.waiting, Waiting::Yes) && self.configured.values().any(|it| !it) {
            self.waiting = Waiting::Until(now + patience);
        }
    }

    /// The servers that have not started.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &str> {
        self.configured.iter().filter(|(_, is_up)| !**is_up).map(|(name, _)| name.as_str())
    }

    /// Whether turns may begin.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.waiting, Waiting::No) || self.configured.values().all(|it| *it)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.waiting {
            Waiting::Until(at) if !self.is_ready() => Some(at),
            Waiting::Until(_) | Waiting::Yes | Waiting::No => None,
        }
    }
}

/// The entry of a server in `copilot/mcpTools`, or in the answer to `mcp/updateToolsStatus`.
#[derive(serde::Deserialize)]
pub(crate) struct McpServer {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) tools: Vec<McpTool>,
}

#[derive(serde::Deserialize)]
pub(crate) struct McpTool {
    pub(crate) name: String,
    /// A client leaves the underscore out.
    #[serde(rename = "_status", alias = "status")]
    pub(crate) status: Option<String>,
}

impl McpTool {
    pub(crate) fn is_on(&self) -> bool {
        self.status.as_deref() != Some("disabled")
    }
}

/// MCP tools that the editor has switched off, by server and name. A new process begins with all of them on.
#[derive(Debug, Default)]
pub(crate) struct SwitchedOff(BTreeSet<(String, String)>);

impl SwitchedOff {
    fn set(&mut self, server: &str, tool: &str, is_on: bool) {
        let key = (server.to_owned(), tool.to_owned());
        match is_on {
            true => drop(self.0.remove(&key)),
            false => drop(self.0.insert(key)),
        }
    }
}

impl Copilot {
    /// Notes `mcp/updateToolsStatus` of the editor. A server ignores tools that it does not know yet, and writes the
    /// status for a mode to a file.
    pub(crate) fn note_mcp_statuses(&mut self, params: &[u8]) {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            servers: Vec<McpServer>,
            custom_chat_mode_id: Option<IgnoredAny>,
        }
        let Ok(Params { servers, custom_chat_mode_id: None }) = serde_json::from_slice::<Params>(params)
        else {
            return;
        };
        for server in servers {
            for tool in server.tools {
                let is_known =
                    self.modes.mcp_tools(&server.name).is_some_and(|it| it.contains_key(&tool.name));
                if is_known || tool.is_on() {
                    self.session.switched_off.set(&server.name, &tool.name, tool.is_on());
                }
            }
        }
    }

    /// Whether the editor has switched off an MCP tool.
    pub(crate) fn is_mcp_off(&self, server: &str, tool: &str) -> bool {
        self.session.switched_off.0.contains(&(server.to_owned(), tool.to_owned()))
    }

    /// Handles accepted statuses by name. A name that only one MCP server has means its tool, and other processes
    /// follow.
    pub(super) fn on_named_statuses(&mut self, mux: &mut Mux, change: &ToolChange, partitions: &[BackendId]) {
        let ToolChange::Status(named) = change else { return };
        let mut meant = Vec::new();
        for (name, is_on) in named.iter().filter(|(name, _)| !self.catalog.is_clients(name)) {
            let mut servers = self.modes.mcp_servers_with(name);
            if let (Some(server), None) = (servers.next(), servers.next()) {
                meant.push((server.clone(), name, *is_on));
            }
        }
        for (server, tool, is_on) in &meant {
            self.session.switched_off.set(server, tool, *is_on);
            self.modes.switch_mcp_tool(server, tool, *is_on);
        }
        for id in partitions {
            let Some(set) = self.partitions.set(*id) else { continue };
            let mine = meant.iter().filter(|(server, tool, _)| set.contains_mcp(server, tool));
            let servers: Vec<Value> = mine
                .map(|(server, tool, is_on)| json!({"name": server, "tools": [{"name": tool, "status": status(*is_on)}]}))
                .collect();
            if !servers.is_empty() {
                self.narrow(mux, *id, &servers);
            }
        }
    }

    /// Marks the tools that the editor has switched off in a process's list of MCP tools.
    pub(crate) fn as_switched(&self, frame: &Frame) -> Option<Frame> {
        if self.session.switched_off.0.is_empty() {
            return None;
        }
        let mut said: Value = serde_json::from_slice(frame.params()?).ok()?;
        for server in said["servers"].as_array_mut().into_iter().flatten() {
            let name = server["name"].as_str().unwrap_or_default().to_owned();
            for tool in server["tools"].as_array_mut().into_iter().flatten() {
                if tool["name"].as_str().is_some_and(|it| self.is_mcp_off(&name, it)) {
                    tool["_status"] = "disabled".into();
                }
            }
        }
        Some(frame.with_params(said.to_string().as_bytes()))
    }

    fn narrow(&mut self, mux: &mut Mux, id: BackendId, servers: &[Value]) {
        self.change_partition(mux, id, |it| it.projecting += 1);
        let params = json!({"servers": servers}).to_string().into_bytes();
        mux.ask_backend(id, Purpose::Copilot(CopilotPurpose::Narrow), "mcp/updateToolsStatus", &params);
    }

    /// Disables tools outside the set or switched off, when an MCP server has started. It is impossible earlier.
    pub(crate) fn on_mcp_tools(&mut self, mux: &mut Mux, process: ProcessId, params: &[u8]) {
        if mux.backend(process.backend).is_some_and(Backend::goes_on) {
            self.take_away(mux, process, params);
        }
        if process.backend == self.primary
            && let Some(servers) = member(params, "servers")
        {
            self.learn_mcp(mux, &params[servers]);
        }
    }

    fn take_away(&mut self, mux: &mut Mux, process: ProcessId, params: &[u8]) {
        #[derive(serde::Deserialize)]
        struct Params {
            servers: Vec<McpServer>,
        }
        let Some(set) = self.partitions.set(process.backend) else { return };
        let Ok(Params { servers }) = serde_json::from_slice::<Params>(params) else { return };
        let reported: Vec<&str> =
            servers.iter().filter(|it| !it.tools.is_empty()).map(|it| it.name.as_str()).collect();
        let outside = |server: &McpServer| {
            let unwanted = |it: &&McpTool| {
                let (server, tool) = (&server.name, &it.name);
                it.is_on() && (!set.contains_mcp(server, tool) || self.is_mcp_off(server, tool))
            };
            let foreign = server.tools.iter().filter(unwanted);
            let tools: Vec<_> = foreign.map(|it| json!({"name": it.name, "status": "disabled"})).collect();
            (!tools.is_empty()).then(|| json!({"name": server.name, "tools": tools}))
        };
        let narrowed: Vec<_> = servers.iter().filter_map(outside).collect();
        self.change_partition(mux, process.backend, |it| it.mcp.reported(&reported));
        if narrowed.is_empty() {
            return self.flush(mux, process.backend);
        }
        info!(backend = mux.name_of(process.backend), "disabled MCP tools outside the set or switched off");
        self.narrow(mux, process.backend, &narrowed);
    }

    /// Handles the answer about MCP tools. A process refuses only if the MCP server is gone, and its tools with it.
    pub(crate) fn on_narrowed(&mut self, mux: &mut Mux, process: ProcessId, answer: &Frame) {
        let id = process.backend;
        self.change_partition(mux, id, |it| it.projecting = it.projecting.saturating_sub(1));
        if answer.error_value().is_some() {
            let why = reason(answer);
            warn!(backend = mux.name_of(id), why, "server refused to disable MCP tools");
        }
        self.flush(mux, process.backend);
    }

    /// Waits for the MCP servers in the settings of a partition.
    pub(crate) fn await_mcp(&mut self, mux: &mut Mux, id: BackendId, servers: Vec<String>) {
        if self.partitions.set(id).is_some_and(|it| !it.is_all()) {
            self.change_partition(mux, id, |it| it.mcp.configured(servers));
        }
    }

    /// Waits again after a sign-in, which may start an abandoned server.
    pub(crate) fn await_mcp_again(&mut self, mux: &mut Mux, id: BackendId) {
        self.change_partition(mux, id, |it| it.mcp.waiting = Waiting::Yes);
    }

    /// Stops waiting without a sign-in, because MCP servers do not start then. A process also reports that before it
    /// has the editor's sign-in.
    pub(crate) fn on_error_status(&mut self, mux: &mut Mux, id: BackendId) {
        if !self.session.has_auth() {
            self.go_on_without_mcp(mux, id);
        }
    }

    /// Tells the user after `mcp_wait` which tools are missing.
    pub(crate) fn tell_missing_mcp(&self, mux: &mut Mux, id: BackendId) {
        let Some(partition) = self.partitions.get(id) else { return };
        let missing: Vec<&str> = partition.mcp.missing().collect();
        let (missing, name) = (missing.join(", "), mux.name_of(id).to_owned());
        warn!(backend = name, missing, "MCP servers did not start in time; turns run without their tools");
        let wait = mux.servers().get(self.server).settings.mcp_wait.as_secs_f64();
        let message = format!(
            "lspool: {name} has no tools of the MCP server {missing}, which did not start within {wait} s; \
             if it needs more time, raise mcp_wait"
        );
        mux.show(Severity::Warning, &message);
    }

    pub(crate) fn go_on_without_mcp(&mut self, mux: &mut Mux, id: BackendId) {
        self.change_partition(mux, id, |it| it.mcp.abandon());
        self.flush(mux, id);
    }
}
