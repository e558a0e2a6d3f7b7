//! Requests to lspool itself: status, restart, stop, reload. The editor and control clients use the same methods
//! (`docs/protocol.md`).

pub(super) mod check;
mod documents;
mod reload;
mod restart;
mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde_json::Value;

pub(super) use self::status::Seen;
use self::{documents::ask_documents, restart::ask_stop};
use super::{
    agents::Agents,
    copilot::Copilot,
    event::{BackendId, ClientId, Drops, Effect},
    identity::Identity,
    mux::{
        Mux,
        failure::{Cause, Failure},
        pool::{backend::Backend, lifecycle::LifecycleState},
        requests::Owner,
    },
};
use crate::{
    config::nearest,
    core::{ids::RequestId, purpose::SentId},
    rpc::{Patch, elements, member, members, path, text},
};

/// The command that exists only with a Copilot server.
const ORCHESTRATE: (&str, &str) = ("orchestrate", "lspool/orchestrate");

/// Commands of the editor, after `lspool.`, `lspool.SERVER.` or `lspool.SERVER.PID.`, with their requests.
const COMMANDS: [(&str, &str); 4] =
    [ORCHESTRATE, ("reload", "lspool/reload"), ("restart", "lspool/restart"), ("status", "lspool/status")];

/// The prefix of lspool's commands.
const PREFIX: &str = "lspool.";

/// The member with the progress token of a request.
const TOKEN: &str = "workDoneToken";

/// The waiting requests.
#[derive(Debug, Default)]
pub(crate) struct Admin {
    /// Requests that wait for the memory of the processes.
    statuses: Vec<Owner>,
    /// Requests that wait until these backends, with their names, are ready or have failed.
    restarts: Vec<(Owner, Vec<(BackendId, String)>)>,
    /// Requests that wait for a search for a missing executable, before the restart of these backends.
    searches: Vec<(Owner, Vec<BackendId>)>,
    /// Requests that wait for the configuration.
    reloads: Vec<Owner>,
    /// Edits that the editor was asked to make, and who asked.
    edits: BTreeMap<SentId, Owner>,
    /// Whether the configuration is being read.
    is_reading: bool,
    /// Whether to read the configuration again after that.
    read_again: bool,
    /// The errors in the configuration files.
    problem: Option<String>,
    /// What lspool has changed by itself and no command has reported, and when.
    unreported: Option<(Instant, Vec<&'static str>)>,
    /// What the user has been told of files that are used all the same.
    warned: BTreeSet<String>,
    /// The clients that watch the status.
    watchers: BTreeSet<ClientId>,
    /// The last status that they got.
    told: Value,
    /// The dropped messages at the last measurement.
    dropped: Drops,
}

impl Admin {
    fn owners(&self) -> impl Iterator<Item = &Owner> {
        let searches = self.searches.iter().map(|(owner, _)| owner);
        let restarts = self.restarts.iter().map(|(owner, _)| owner);
        self.statuses.iter().chain(&self.reloads).chain(self.edits.values()).chain(searches).chain(restarts)
    }

    /// The number of answers that a client is owed.
    pub(crate) fn n_owed_to(&self, client: ClientId) -> usize {
        self.owners().filter(|it| matches!(it, Owner::Client(by, _) if *by == client)).count()
    }

    /// Whether a client is owed an answer under this id.
    pub(crate) fn is_owed(&self, client: ClientId, id: &RequestId) -> bool {
        self.owners().any(|it| matches!(it, Owner::Client(by, of) if *by == client && of == id))
    }

    /// Whether no request waits.
    #[cfg(test)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.owners().next().is_none() && !self.is_reading
    }

    /// Forgets a control client.
    pub(crate) fn on_client_closed(&mut self, client: ClientId) {
        let is_other = |it: &Owner| !matches!(it, Owner::Client(by, _) if *by == client);
        self.watchers.remove(&client);
        self.statuses.retain(is_other);
        self.reloads.retain(is_other);
        self.edits.retain(|_, owner| is_other(owner));
        self.searches.retain(|(owner, _)| is_other(owner));
        self.restarts.retain(|(owner, _)| is_other(owner));
    }

    /// Handles a request to lspool that neither conversations nor agents answer. Returns whether it is one.
    pub(crate) fn on_request(
        &mut self,
        mux: &mut Mux,
        copilot: &mut Option<Copilot>,
        agents: &Agents,
        owner: Owner,
        method: &str,
        params: &[u8],
    ) -> bool {
        match method {
            "lspool/status" => self.ask_status(mux, owner),
            "lspool/watch" => self.watch(mux, Seen { copilot: copilot.as_ref(), agents }, owner),
            "lspool/restart" => self.ask_restart(mux, copilot, owner, params),
            "lspool/stop" => ask_stop(mux, copilot, &owner, params),
            "lspool/reload" => {
                self.reloads.push(owner);
                self.reload(mux);
            }
            "lspool/documents" => ask_documents(mux, &owner, params),
            "lspool/applyEdit" => self.ask_to_edit(mux, owner, params),
            "lspool/logs" => ask_logs(mux, &owner, params),
            _ => return false,
        }
        true
    }
}

/// The request for a command of the editor, with its parameters from the arguments of the command.
pub(crate) fn command(mux: &Mux, params: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    let command = text(params, &["command"])?;
    let name = command.strip_prefix(PREFIX)?;
    let scope = command_scope(mux.title());
    let name = name.strip_prefix(&scope).unwrap_or(name);
    let name = name.strip_prefix(&instance_scope(mux.identity())).unwrap_or(name);
    let (_, method) = COMMANDS.iter().find(|(it, _)| *it == name)?;
    let list = path(params, &["arguments"]).map_or(&b"[]"[..], |range| &params[range]);
    let first = match list.first() {
        Some(b'[') => elements(list).next().map(|range| &list[range]),
        // A single argument need not be in a list.
        Some(_) | None => Some(list),
    };
    let arguments = match first {
        Some(params) if params.starts_with(b"{") => params.to_vec(),
        // `lspool.restart NAME`, as a user types it.
        Some(name) => {
            let key = if *method == ORCHESTRATE.1 { "goal" } else { "name" };
            Patch::of(b"{}").set(key, name).finish()
        }
        None => b"{}".to_vec(),
    };
    let params = match member(params, TOKEN) {
        Some(token) => Patch::of(&arguments).set(TOKEN, &params[token]).finish(),
        None => arguments,
    };
    Some((method, params))
}

/// The prefix of commands for this lspool only.
fn instance_scope(identity: &Identity) -> String {
    format!("{}.", identity.pid)
}

/// The prefix of commands for a server.
fn command_scope(server: &str) -> String {
    let safe = |it: char| if it.is_alphanumeric() || "-_".contains(it) { it } else { '-' };
    format!("{}.", server.chars().map(safe).collect::<String>())
}

/// The commands that are offered for a server. An editor may know each name once in all of a window, and two clients of it
/// may have an lspool each for one server: so each name has the process id of this one.
pub(crate) fn offered_commands(server: &str, is_copilot: bool, identity: &Identity) -> Vec<String> {
    let offered = COMMANDS.iter().filter(|it| is_copilot || **it != ORCHESTRATE);
    let scope = command_scope(server) + &instance_scope(identity);
    offered.map(|(name, _)| format!("{PREFIX}{scope}{name}")).collect()
}

/// The backends that a request names, or all without a name.
fn named(mux: &Mux, params: &[u8]) -> Result<Vec<BackendId>, Failure> {
    let Some(name) = member(params, "name").map(|range| &params[range]).filter(|it| *it != b"null") else {
        if mux.backends().iter().next().is_none() {
            return Err(Failure::not_initialized());
        }
        let is_meant = |it: &&Backend| {
            mux.is_member(it.server) && (it.is_primary() || it.life.state() != LifecycleState::Stopped)
        };
        return Ok(mux.backends().iter().filter(is_meant).map(|it| it.id).collect());
    };
    let name: Option<String> = serde_json::from_slice(name).ok();
    let all = || mux.backends().iter().filter(|it| mux.is_member(it.server));
    let found = all().find(|it| Some(&it.name) == name.as_ref()).map(|it| it.id);
    found.map(|it| vec![it]).ok_or_else(|| {
        let known: Vec<String> = all().map(|it| it.name.clone()).collect();
        let there_are = match known.as_slice() {
            [] => "no server has started yet".to_owned(),
            known => format!("expected one of {}", known.join("; ")),
        };
        let name = name.unwrap_or_else(|| "(no text)".to_owned());
        Failure::new(Cause::InvalidParams, format!("unknown server {name}; {there_are}"))
    })
}

fn ask_logs(mux: &mut Mux, owner: &Owner, params: &[u8]) {
    let Owner::Client(client, id) = owner else { return };
    match named(mux, params).as_deref() {
        Ok([backend]) => {
            let follow = path(params, &["follow"]).is_some_and(|range| &params[range] == b"true");
            mux.act(Effect::Logs { backend: *backend, client: *client, id: id.clone().into(), follow });
        }
        Ok(_) => mux.fail(owner, &Failure::new(Cause::InvalidParams, "`name` is missing")),
        Err(failure) => mux.fail(owner, failure),
    }
}

/// The parameters of the requests, apart from the tokens that any request may have.
const PARAMETERS: [(&str, &[&str]); 10] = [
    ("lspool/applyEdit", &["edit", "label"]),
    ("lspool/cancelAgent", &["name", "of"]),
    ("lspool/documents", &["known", "only"]),
    ("lspool/logs", &["name", "follow"]),
    ("lspool/move", &["name", "to"]),
    ("lspool/reload", &[]),
    ("lspool/restart", &["name"]),
    ("lspool/status", &[]),
    ("lspool/stop", &["name"]),
    ("lspool/watch", &[]),
];

/// Checks the parameters. Without this, `lspool/stop` with a mistyped name would stop everything.
pub(crate) fn wrong_parameter(method: &str, params: &[u8]) -> Option<String> {
    let (_, known) = PARAMETERS.iter().find(|(it, _)| *it == method)?;
    let has_names = params.starts_with(b"{") || params == b"null";
    if !has_names && (!params.starts_with(b"[") || elements(params).next().is_some()) {
        return Some(format!("the parameters of {method} must be an object"));
    }
    let tokens = [TOKEN, "partialResultToken"];
    let is_known = |key: &str| known.contains(&key) || tokens.contains(&key);
    let (key, _) = members(params).find(|(key, _)| !is_known(key))?;
    let hint = match (nearest(&key, known.iter().copied()), known) {
        (Some(meant), _) => format!("did you mean {meant:?}?"),
        (None, []) => "it has no parameters".to_owned(),
        (None, known) => format!("expected one of {}", known.join(", ")),
    };
    Some(format!("unknown parameter {key:?} of {method}; {hint}"))
}
