//! The status, for requests and for watching clients.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Admin;
use crate::{
    config::ServerKind,
    core::{
        agents::Agents,
        copilot::Copilot,
        event::{ClientId, Drops, Measured, Peer},
        mux::{
            Mux,
            pool::{backend::Backend, lifecycle::LifecycleState, shared::Shared},
            requests::Owner,
        },
    },
    rpc::{Frame, path},
};

/// The notification with a changed status.
const CHANGED: &str = "lspool/didChangeStatus";

/// Members of a status that may change with each message.
const OF_THE_MOMENT: [&str; 3] = ["rss_bytes", "in_flight", "dropped"];

/// The owners of which a status tells beside the mux.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) copilot: Option<&'a Copilot>,
    pub(crate) agents: &'a Agents,
}

impl Admin {
    /// Notes an editor that wants the status after each change.
    pub(crate) fn note_watching_editor(&mut self, initialize: &[u8]) {
        let asks = path(initialize, &["initializationOptions", "lspool", "didChangeStatus"]);
        if asks.is_some_and(|range| &initialize[range] == b"true") {
            self.watchers.insert(ClientId::EDITOR);
        }
    }

    pub(super) fn watch(&mut self, mux: &mut Mux, of: Seen<'_>, owner: Owner) {
        self.tell_watchers(mux, of);
        if let Owner::Client(client, _) = &owner {
            self.told = self.status(mux, of, Moment::LeftOut);
            self.watchers.insert(*client);
        }
        self.ask_status(mux, owner);
    }

    /// Answers a status request after a measurement of memory.
    pub(super) fn ask_status(&mut self, mux: &mut Mux, owner: Owner) {
        self.statuses.push(owner);
        mux.measure();
    }

    /// Memory is known.
    pub(crate) fn on_measured(&mut self, mux: &mut Mux, of: Seen<'_>) {
        if self.statuses.is_empty() {
            return;
        }
        let status = self.status(mux, of, Moment::Told);
        for owner in std::mem::take(&mut self.statuses) {
            mux.answer(&owner, &status);
        }
    }

    /// Notes the dropped messages.
    pub(crate) fn note_dropped(&mut self, measured: &mut Measured) {
        self.dropped = std::mem::take(&mut measured.dropped);
    }

    /// Tells those who watch what has changed.
    pub(crate) fn tell_watchers(&mut self, mux: &mut Mux, of: Seen<'_>) {
        if self.watchers.is_empty() {
            return;
        }
        let status = self.status(mux, of, Moment::LeftOut);
        if status == self.told {
            return;
        }
        for client in &self.watchers {
            let params = status.to_string();
            mux.send(Peer::Client(*client), Frame::notification(CHANGED, Some(params.as_bytes())));
        }
        self.told = status;
    }

    fn status(&self, mux: &Mux, Seen { copilot, agents }: Seen<'_>, moment: Moment) -> Value {
        let backends: Vec<Value> = mux
            .backends()
            .iter()
            .filter(|it| mux.is_member(it.server))
            .map(|it| self.backend_status(mux, copilot, it, moment))
            .collect();
        let Drops { editor, control, .. } = &self.dropped;
        let kind = if copilot.is_some() { ServerKind::Copilot } else { ServerKind::Generic };
        let server = mux.servers().first();
        let mut status = json!({
            "pid": mux.identity().pid,
            "version": env!("CARGO_PKG_VERSION"),
            "started": mux.identity().started,
            "kind": server.map(|_| kind),
            "workspace": mux.clients().folders().first().map(|it| it.to_string_lossy()),
            "editor": server.and_then(|it| it.session().editor()),
            "config": {"error": self.problem},
            "dropped": {"editor": editor, "control": control},
            "backends": backends,
            "sets": copilot.map(|it| it.sets(mux)).unwrap_or_default(),
            "agents": agents.status(|at| millis(mux, at)),
        });
        if let Some(name) = mux.group_name() {
            status["group"] = json!(name);
        }
        moment.apply(&mut status);
        status
    }

    fn backend_status(&self, mux: &Mux, copilot: Option<&Copilot>, it: &Backend, moment: Moment) -> Value {
        let state = it.life.state();
        // Attempts to reach it change its state again and again.
        let is_tried = matches!(
            state,
            LifecycleState::Restarting { .. }
                | LifecycleState::Spawning { .. }
                | LifecycleState::Initializing { .. }
        );
        let away = it.away_since().filter(|_| is_tried);
        let mut status = json!({
            "name": it.name,
            "toolset": copilot.and_then(|copilot| copilot.declared_tools(it.id)),
            "state": if away.is_some() { "unreachable" } else { state.name() },
            "since": millis(mux, away.unwrap_or(it.life.since())),
            "pid": it.pid,
            "rss_bytes": it.health.memory.filter(|_| it.life.is_alive()),
            "restarts": it.life.n_restarts(),
            "crashes": it.life.n_crashes(),
            "conversations": copilot.map_or(0, |copilot| copilot.conversations().n_belonging_to(it.id)),
            "in_flight": mux.requests().n_owed_by(it.id),
            "refused": copilot.map_or(0, |copilot| copilot.n_refused(it.id)),
            "dropped": self.dropped.backends.get(&it.id).copied().unwrap_or_default(),
            "last_error": it.last_error,
            "last_error_at": it.last_error_at.map(|at| millis(mux, at)),
            "next_start": it.life.next_start().map(|at| millis(mux, at)),
            "stopped": it.stopped.filter(|_| state == LifecycleState::Stopped),
        });
        match it.sharing.process() {
            Shared::No => {}
            Shared::Yes => status["shared"] = json!(true),
            Shared::Private(why) => status["private"] = json!(why),
        }
        moment.apply(&mut status);
        status
    }
}

/// Whether a status contains the values that change with each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Told,
    LeftOut,
}

impl Moment {
    fn apply(self, status: &mut Value) {
        if let (Moment::LeftOut, Some(members)) = (self, status.as_object_mut()) {
            members.retain(|key, _| !OF_THE_MOMENT.contains(&key.as_str()));
        }
    }
}

/// A time in milliseconds since 1970.
fn millis(mux: &Mux, at: Instant) -> u64 {
    let since = mux.born().map_or(Duration::ZERO, |born| at.saturating_duration_since(born));
    mux.identity().started + u64::try_from(since.as_millis()).unwrap_or_default()
}
