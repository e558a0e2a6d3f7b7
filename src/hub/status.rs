//! The status of a hub, in the form of the status of an lspool.

use serde_json::{Value, json};

use super::{Hub, PROCESS};
use crate::{
    core::{
        event::{ClientId, Effect, Measured},
        identity::millis_after,
    },
    rpc::{Frame, RawId},
};

/// Requests that wait for the memory of the process.
#[derive(Debug, Default)]
pub(super) struct Statuses(Vec<(ClientId, RawId)>);

impl Hub {
    pub(super) fn ask_status(&mut self, client: ClientId, frame: &Frame) {
        let Some(id) = frame.id() else { return };
        self.statuses.0.push((client, id));
        // What runs here of a server elsewhere is the engine.
        let is_measured = self.server.has_process() && self.launch.remote.is_none();
        let processes = if is_measured { vec![PROCESS] } else { Vec::new() };
        self.act(Effect::Measure(processes));
    }

    pub(super) fn forget_status(&mut self, client: ClientId) {
        self.statuses.0.retain(|it| it.0 != client);
    }

    pub(super) fn on_measured(&mut self, measured: &Measured) {
        let bytes = measured.resident.iter().map(|it| it.1).sum::<u64>();
        let status = self.status(bytes).to_string();
        for (client, id) in std::mem::take(&mut self.statuses.0) {
            self.tell_client(client, Frame::response(id, status.as_bytes()));
        }
    }

    fn status(&self, resident: u64) -> Value {
        let born = self.born.unwrap_or_else(|| self.now());
        let since = millis_after(self.identity.started, self.now().saturating_duration_since(born));
        let clients = self.clients.iter().map(|(id, it)| {
            json!({
                "pid": it.pid,
                "editor": it.editor,
                "workspace": it.workspace,
                "documents": self.texts.n_open(*id),
                "requests": it.n_requests,
                "current": self.turns.current() == Some(*id),
                "private": it.detached,
            })
        });
        let workspace = self.clients.values().find_map(|it| it.workspace.clone());
        json!({
            "pid": self.identity.pid,
            "version": env!("CARGO_PKG_VERSION"),
            "started": self.identity.started,
            "kind": "generic",
            "workspace": workspace,
            "editor": null,
            "config": {"error": null},
            "hub": {"server": self.share.server, "clients": clients.collect::<Vec<_>>()},
            "backends": [{
                "name": self.share.server,
                "state": self.server.name(),
                "since": since,
                "pid": self.server.pid(),
                "rss_bytes": resident,
                "restarts": 0,
                "crashes": 0,
                "conversations": 0,
                "in_flight": self.asked.len(),
                "refused": 0,
            }],
        })
    }
}
