//! MCP servers of restricted partitions: which are still to come up, and taking away their tools outside the set.
//!
//! **A turn begins when the MCP servers that the set wants have come up**, or have had their time: their tools are
//! all offered at first, and cannot be taken away before they are there. What a turn that runs meanwhile calls is
//! refused at its confirmation.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::json;
use tracing::{info, warn};

use super::Proxy;
use crate::{
    core::{
        event::{BackendId, Effects, ProcessId},
        failure::reason,
        requests::Purpose,
    },
    rpc::Frame,
};

/// How long turns wait for an MCP server. One that comes later has its tools taken away then.
const PATIENCE: Duration = Duration::from_secs(10);

/// The MCP servers of one process.
#[derive(Debug, Default)]
pub(crate) struct McpServers {
    /// By name; whether its tools have come.
    configured: BTreeMap<String, bool>,
    waiting: Waiting,
}

#[derive(Debug, Default)]
enum Waiting {
    /// What is not there yet is waited for, from the next moment on.
    #[default]
    Yes,
    Until(Instant),
    /// Nothing more is waited for.
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

    fn give_up(&mut self) {
        self.waiting = Waiting::No;
    }

    /// Servers that have just been configured have their time from now on.
    pub(crate) fn note(&mut self, now: Instant) {
        if matches!(self.waiting, Waiting::Yes) && self.configured.values().any(|it| !it) {
            self.waiting = Waiting::Until(now + PATIENCE);
        }
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

/// What `copilot/mcpTools` says of one server, and the answer to `mcp/updateToolsStatus`.
#[derive(serde::Deserialize)]
pub(super) struct McpServer {
    pub(super) name: String,
    #[serde(default)]
    pub(super) tools: Vec<McpTool>,
}

#[derive(serde::Deserialize)]
pub(super) struct McpTool {
    pub(super) name: String,
    #[serde(rename = "_status")]
    pub(super) status: Option<String>,
}

impl Proxy {
    /// MCP tools appear when their server is up, and cannot be taken away before: then those outside the set are.
    pub(super) fn on_mcp_tools(&mut self, process: ProcessId, params: &[u8], out: &mut Effects) {
        #[derive(serde::Deserialize)]
        struct Params {
            servers: Vec<McpServer>,
        }
        let Some(backend) = self.backend(process.backend).filter(|it| !it.set.is_all()) else { return };
        let Ok(Params { servers }) = serde_json::from_slice::<Params>(params) else { return };
        let reported: Vec<&str> =
            servers.iter().filter(|it| !it.tools.is_empty()).map(|it| it.name.as_str()).collect();
        let outside = |server: &McpServer| {
            let enabled = server.tools.iter().filter(|it| it.status.as_deref() != Some("disabled"));
            let foreign = enabled.filter(|it| !backend.set.contains_mcp(&server.name, &it.name));
            let tools: Vec<_> = foreign.map(|it| json!({"name": it.name, "status": "disabled"})).collect();
            (!tools.is_empty()).then(|| json!({"name": server.name, "tools": tools}))
        };
        let narrowed: Vec<_> = servers.iter().filter_map(outside).collect();
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        backend.mcp.reported(&reported);
        if narrowed.is_empty() {
            return self.flush(process.backend, out);
        }
        info!(backend = backend.name, "taking away MCP tools outside the set");
        let params = json!({"servers": narrowed}).to_string().into_bytes();
        backend.projecting += 1;
        self.ask_backend(process.backend, Purpose::Narrow, "mcp/updateToolsStatus", &params, out);
    }

    /// A process has answered for its MCP tools. It refuses only when the MCP server is gone, and the tools with it.
    pub(super) fn on_narrowed(&mut self, process: ProcessId, answer: &Frame, out: &mut Effects) {
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        backend.projecting = backend.projecting.saturating_sub(1);
        if answer.error_value().is_some() {
            let why = reason(answer);
            warn!(backend = backend.name, why, "taking away MCP tools was refused");
        }
        self.flush(process.backend, out);
    }

    /// The settings that a partition is given name these MCP servers.
    pub(super) fn await_mcp(&mut self, id: BackendId, servers: Vec<String>) {
        if let Some(backend) = self.backends.get_mut(&id).filter(|it| !it.set.is_all()) {
            backend.mcp.configured(servers);
        }
    }

    /// A new sign-in may bring up what was given up.
    pub(super) fn await_mcp_again(&mut self, id: BackendId) {
        if let Some(backend) = self.backends.get_mut(&id) {
            backend.mcp.waiting = Waiting::Yes;
        }
    }

    /// MCP servers are not started without a sign-in: nothing is to be waited for. A process says so too while the
    /// editor's own sign-in has not reached it.
    pub(super) fn on_error_status(&mut self, id: BackendId, out: &mut Effects) {
        if !self.session.has_auth() {
            self.go_on_without_mcp(id, out);
        }
    }

    pub(super) fn go_on_without_mcp(&mut self, id: BackendId, out: &mut Effects) {
        if let Some(backend) = self.backends.get_mut(&id) {
            backend.mcp.give_up();
        }
        self.flush(id, out);
    }
}
