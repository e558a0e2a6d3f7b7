//! What people ask lspool itself: how it stands, that a backend be restarted or stopped, that the configuration be
//! read again ([`reload`](crate::core::reload)). The editor and control clients ask in the same words (`docs/protocol.md`).

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tracing::info;

use crate::core::{Backend, Cause, Failure, PRIMARY, Proxy, ToolSet, tell_editor};
use crate::{
    config::{Isolation, nearest},
    core::{
        event::{BackendId, ClientId, Drops, Effect, Effects, Peer},
        lifecycle::State,
        requests::{Owner, Purpose},
    },
    rpc::{Frame, Kind, Patch, RawId, elements, member, members, path, text},
};

/// The one that is there with a Copilot server alone.
const ORCHESTRATE: (&str, &str) = ("orchestrate", "lspool/orchestrate");

/// Commands that the editor can run, after `lspool.` or `lspool.SERVER.`, and the requests that they stand for.
const COMMANDS: [(&str, &str); 4] =
    [ORCHESTRATE, ("reload", "lspool/reload"), ("restart", "lspool/restart"), ("status", "lspool/status")];

/// What the name of each of lspool's commands begins with.
const PREFIX: &str = "lspool.";

/// Under which progress of a request is reported.
const TOKEN: &str = "workDoneToken";

/// What a client is told whenever the status has changed.
const CHANGED: &str = "lspool/didChangeStatus";

/// Members of a status that may change with each message.
const OF_THE_MOMENT: [&str; 3] = ["rss_bytes", "in_flight", "dropped"];

/// Who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// For the memory of the processes.
    statuses: Vec<Owner>,
    /// For these backends, by name, to be ready, or to have failed.
    restarts: Vec<(Owner, Vec<(BackendId, String)>)>,
    /// For an executable that was missing to be looked for, so that these can be restarted.
    pub(crate) searches: Vec<(Owner, Vec<BackendId>)>,
    /// For the configuration to be read.
    pub(crate) reloads: Vec<Owner>,
    /// The configuration is being read.
    pub(crate) is_reading: bool,
    /// Somebody has said that it is to be read again.
    pub(crate) read_again: bool,
    /// What is wrong with the configuration as it is in the files.
    pub(crate) problem: Option<String>,
    /// What the user has been told of files that are used all the same.
    pub(crate) warned: BTreeSet<String>,
    /// Names of tools that there are not, of which the user has been told.
    pub(crate) unknown_tools: BTreeSet<String>,
    /// For changes of the status.
    watchers: BTreeSet<ClientId>,
    /// What they were last told.
    told: Value,
    /// What was dropped for those who read slowly, when it was last asked for.
    pub(crate) dropped: Drops,
}

impl Control {
    fn owners(&self) -> impl Iterator<Item = &Owner> {
        let searches = self.searches.iter().map(|(owner, _)| owner);
        let restarts = self.restarts.iter().map(|(owner, _)| owner);
        self.statuses.iter().chain(&self.reloads).chain(searches).chain(restarts)
    }

    /// How many answers a client is owed.
    pub(crate) fn n_owed_to(&self, client: ClientId) -> usize {
        self.owners().filter(|it| matches!(it, Owner::Client(by, _) if *by == client)).count()
    }

    /// Whether a client is owed an answer under this id.
    pub(crate) fn is_owed(&self, client: ClientId, id: &RawId) -> bool {
        self.owners().any(|it| matches!(it, Owner::Client(by, of) if *by == client && of == id))
    }

    /// Whether nobody waits for anything.
    #[cfg(test)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.owners().next().is_none() && !self.is_reading
    }
}

impl Proxy {
    /// A message of a control client.
    pub(crate) fn on_control_frame(
        &mut self,
        now: Instant,
        client: ClientId,
        frame: &Frame,
        out: &mut Effects,
    ) {
        let (Kind::Request, Some(id), Some(method)) = (frame.kind(), frame.id(), frame.method()) else {
            return;
        };
        let owner = Owner::Client(client, id.clone());
        if !self.control(now, owner, method, frame.params().unwrap_or(b"{}"), out) {
            let message = format!("lspool has no method {method:?}");
            let failure = Failure::new(Cause::MethodNotFound, message);
            out.push(Effect::Send(Peer::Client(client), failure.answer(id)));
        }
    }

    /// A control client is gone.
    pub(crate) fn on_control_closed(&mut self, client: ClientId) {
        let is_other = |it: &Owner| !matches!(it, Owner::Client(by, _) if *by == client);
        self.control.watchers.remove(&client);
        self.control.statuses.retain(is_other);
        self.control.reloads.retain(is_other);
        self.control.searches.retain(|(owner, _)| is_other(owner));
        self.control.restarts.retain(|(owner, _)| is_other(owner));
    }

    /// Whether this is a request to lspool itself; then it is dealt with.
    pub(crate) fn control(
        &mut self,
        now: Instant,
        owner: Owner,
        method: &str,
        params: &[u8],
        out: &mut Effects,
    ) -> bool {
        if let Some(wrong) = wrong_parameter(method, params) {
            self.fail(&owner, &Failure::new(Cause::InvalidParams, wrong), out);
            return true;
        }
        match method {
            "lspool/status" => self.ask_status(owner, out),
            "lspool/watch" => {
                self.tell_watchers(out);
                if let Owner::Client(client, _) = &owner {
                    self.control.told = self.status(false);
                    self.control.watchers.insert(*client);
                }
                self.ask_status(owner, out);
            }
            "lspool/restart" => self.ask_restart(now, owner, params, out),
            "lspool/stop" => self.ask_stop(now, &owner, params, out),
            "lspool/reload" => {
                self.control.reloads.push(owner);
                self.reload(out);
            }
            "lspool/logs" => self.ask_logs(&owner, params, out),
            // Whoever asks has the tools.
            "lspool/orchestrate" if matches!(owner, Owner::Client(ClientId::EDITOR, _)) => {
                self.orchestrate(now, owner, params, out);
            }
            "lspool/move" => self.ask_move(now, &owner, params, out),
            _ => return false,
        }
        true
    }

    /// The same as a command of the editor: the arguments are the parameters.
    pub(crate) fn command(&mut self, now: Instant, owner: &Owner, params: &[u8], out: &mut Effects) -> bool {
        let command = text(params, &["command"]).unwrap_or_default();
        let Some(name) = command.strip_prefix(PREFIX) else { return false };
        let name = name.strip_prefix(&self.command_scope()).unwrap_or(name);
        let Some((_, method)) = COMMANDS.iter().find(|(it, _)| *it == name) else { return false };
        let list = path(params, &["arguments"]).map_or(&b"[]"[..], |range| &params[range]);
        let first = match list.first() {
            Some(b'[') => elements(list).next().map(|range| &list[range]),
            // One that is not in a list is meant all the same.
            Some(_) | None => Some(list),
        };
        let arguments = match first {
            Some(params) if params.starts_with(b"{") => params.to_vec(),
            // `lspool.restart NAME` as people would type it.
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
        self.control(now, owner.clone(), method, &params, out)
    }

    /// What stands before a command in a name that no other lspool of the window offers.
    fn command_scope(&self) -> String {
        let name = self.server.as_ref().map_or("", |it| &it.name);
        let safe = |it: char| if it.is_alphanumeric() || "-_".contains(it) { it } else { '-' };
        format!("{}.", name.chars().map(safe).collect::<String>())
    }

    /// The answer to `initialize` with lspool's own commands: some editors run only what is offered there, also among
    /// those that do not say that they run commands. In others a name can be offered once in all of a window, by
    /// whichever server: so only the lspool of a Copilot server has the short ones.
    pub(crate) fn with_commands(&self, answer: &Frame) -> Frame {
        let Some(result) = answer.result() else { return answer.clone() };
        let keys = ["capabilities", "executeCommandProvider", "commands"];
        let known = path(result, &keys).map_or(&b"[]"[..], |range| &result[range]);
        let offered = COMMANDS.iter().filter(|it| self.is_copilot() || **it != ORCHESTRATE);
        let scope = if self.is_copilot() { String::new() } else { self.command_scope() };
        let own: Vec<String> =
            offered.map(|(name, _)| json!(format!("{PREFIX}{scope}{name}")).to_string()).collect();
        let theirs = elements(known).map(|range| String::from_utf8_lossy(&known[range]).into_owned());
        let all = theirs.chain(own).collect::<Vec<_>>().join(",");
        answer.with_result(&Patch::of(result).set_path(&keys, format!("[{all}]").as_bytes()).finish())
    }

    /// An editor that asks for it hears of each change of the status.
    pub(crate) fn note_watching_editor(&mut self, initialize: &[u8]) {
        let asks = path(initialize, &["initializationOptions", "lspool", "didChangeStatus"]);
        if asks.is_some_and(|range| &initialize[range] == b"true") {
            self.control.watchers.insert(ClientId::EDITOR);
        }
    }

    fn ask_status(&mut self, owner: Owner, out: &mut Effects) {
        self.control.statuses.push(owner);
        self.measure(out);
    }

    /// Memory is known now.
    pub(crate) fn answer_statuses(&mut self, out: &mut Effects) {
        if self.control.statuses.is_empty() {
            return;
        }
        let status = self.status(true);
        for owner in std::mem::take(&mut self.control.statuses) {
            answer(&owner, &status, out);
        }
    }

    /// How everything stands; `of_the_moment`: with what changes with each message.
    fn status(&self, of_the_moment: bool) -> Value {
        let backends: Vec<Value> =
            self.backends.values().map(|it| self.backend_status(it, of_the_moment)).collect();
        let Drops { editor, control, .. } = &self.control.dropped;
        let mut status = json!({
            "pid": self.identity.pid,
            "version": env!("CARGO_PKG_VERSION"),
            "started": self.identity.started,
            "kind": self.server.as_ref().map(|it| it.kind),
            "workspace": self.folders.first().map(|it| it.to_string_lossy()),
            "editor": self.session.editor(),
            "config": {"error": self.control.problem},
            "dropped": {"editor": editor, "control": control},
            "backends": backends,
            "sets": self.sets(),
        });
        if !of_the_moment {
            forget_the_moment(&mut status);
        }
        status
    }

    /// The tool sets of all conversations and partitions, and what keeps conversations to each.
    fn sets(&self) -> Vec<Value> {
        let mut sets: BTreeMap<(&ToolSet, bool), (BackendId, Vec<String>)> = BTreeMap::new();
        for it in self.backends.values().filter(|it| it.id != PRIMARY && it.spare.is_none()) {
            sets.insert((&it.set, false), (it.id, Vec::new()));
        }
        for (id, it) in self.conversations.iter().filter(|(_, it)| !it.set.is_all() && it.parent.is_none()) {
            let of_set = sets.entry((&it.set, it.mode.is_some())).or_insert((it.backend, Vec::new()));
            of_set.1.push(id.as_text().map_or_else(|| id.to_string(), Cow::into_owned));
        }
        let offered = |by_mode: bool, id: BackendId| match by_mode {
            true => self.modes.offered(),
            false => self.backend(id).and_then(|it| it.offered.as_ref()),
        };
        let set = |((set, by_mode), (backend, ids)): ((&ToolSet, bool), (BackendId, Vec<String>))| {
            let isolation = if by_mode { Isolation::Mode } else { Isolation::Process };
            json!({
                "toolset": set.names(),
                "isolation": isolation.word(),
                "backend": self.name_of(backend),
                "conversations": ids.len(),
                "ids": ids,
                "why": if by_mode { None } else { self.modes.reason(set) },
                "unknown_tools": offered(by_mode, backend).map(|it| self.unknown_tools(set, it)).unwrap_or_default(),
            })
        };
        sets.into_iter().map(set).collect()
    }

    fn backend_status(&self, backend: &Backend, of_the_moment: bool) -> Value {
        let toolset = (!backend.set.is_all()).then(|| backend.set.names());
        let mut status = json!({
            "name": backend.name,
            "toolset": toolset,
            "state": backend.life.state().name(),
            "since": self.millis(backend.life.since()),
            "pid": backend.pid,
            "rss_bytes": backend.health.memory.filter(|_| backend.life.is_alive()),
            "restarts": backend.life.n_restarts(),
            "conversations": self.conversations.n_belonging_to(backend.id),
            "in_flight": self.requests.n_owed_by(backend.id),
            "refused": backend.refused,
            "dropped": self.control.dropped.backends.get(&backend.id).copied().unwrap_or_default(),
            "last_error": backend.last_error,
            "stopped": backend.stopped.filter(|_| backend.life.state() == State::Stopped),
        });
        if !of_the_moment {
            forget_the_moment(&mut status);
        }
        status
    }

    /// A moment in milliseconds since 1970.
    fn millis(&self, at: Instant) -> u64 {
        let since = self.born.map_or(Duration::ZERO, |born| at.saturating_duration_since(born));
        self.identity.started + u64::try_from(since.as_millis()).unwrap_or_default()
    }

    /// The backends that a request names, all if it names none.
    fn named(&self, params: &[u8]) -> Result<Vec<BackendId>, Failure> {
        let Some(name) = member(params, "name").map(|range| &params[range]).filter(|it| *it != b"null")
        else {
            if self.backends.values().next().is_none() {
                return Err(not_initialized());
            }
            let is_meant = |it: &&Backend| it.id == PRIMARY || it.life.state() != State::Stopped;
            return Ok(self.backends.values().filter(is_meant).map(|it| it.id).collect());
        };
        let name: Option<String> = serde_json::from_slice(name).ok();
        let found = self.backends.values().find(|it| Some(&it.name) == name.as_ref()).map(|it| it.id);
        found.map(|it| vec![it]).ok_or_else(|| {
            let known: Vec<String> = self.backends.values().map(|it| it.name.clone()).collect();
            let there_are = match known.as_slice() {
                [] => "there is none yet".to_owned(),
                known => format!("there are: {}", known.join("; ")),
            };
            let name = name.unwrap_or_else(|| "(no text)".to_owned());
            Failure::new(Cause::InvalidParams, format!("there is no backend {name}; {there_are}"))
        })
    }

    fn ask_restart(&mut self, now: Instant, owner: Owner, params: &[u8], out: &mut Effects) {
        let named = match self.named(params) {
            Ok(named) => named,
            Err(failure) => return self.fail(&owner, &failure, out),
        };
        // It may have been installed meanwhile.
        if self.is_missing() {
            self.control.searches.push((owner, named));
            return self.reload(out);
        }
        self.restart_named(now, owner, &named, |_| true, out);
    }

    /// Whoever asked for a restart of what was missing has it now, if it has been found.
    pub(crate) fn restart_found(&mut self, now: Instant, relaunches: bool, out: &mut Effects) {
        for (owner, named) in std::mem::take(&mut self.control.searches) {
            // The new configuration has started the others.
            let is_due = |state| !relaunches || matches!(state, State::Failed | State::Stopped);
            self.restart_named(now, owner, &named, is_due, out);
        }
    }

    fn is_missing(&self) -> bool {
        self.server.as_ref().is_some_and(|it| it.missing.is_some() || it.is_gone)
    }

    /// Restarts those that are due, and answers when all are ready or one has failed.
    fn restart_named(
        &mut self,
        now: Instant,
        owner: Owner,
        named: &[BackendId],
        is_due: impl Fn(State) -> bool,
        out: &mut Effects,
    ) {
        let mut awaited = Vec::new();
        for id in named {
            // It may be gone: when one comes to its end, another may not be needed any more.
            let Some(backend) = self.backend(*id) else { continue };
            // Spares come and go; they are not waited for.
            if named.len() == 1 || backend.spare.is_none() {
                awaited.push((*id, backend.name.clone()));
            }
            if !is_due(backend.life.state()) {
                continue;
            }
            info!(backend.name, "restart: somebody asks for it");
            if let Err(failure) = self.restart(*id, now, out) {
                return self.fail(&owner, &failure, out);
            }
        }
        if named.len() > 1 {
            awaited.retain(|(id, _)| self.backend(*id).is_some());
        }
        self.control.restarts.push((owner, awaited));
    }

    fn ask_stop(&mut self, now: Instant, owner: &Owner, params: &[u8], out: &mut Effects) {
        let named = match self.named(params) {
            Ok(named) => named,
            Err(failure) => return self.fail(owner, &failure, out),
        };
        let mut names = Vec::new();
        for id in named {
            let Some(backend) = self.backend(id) else { continue };
            info!(backend.name, "stop: somebody asks for it");
            names.push(json!(backend.name));
            self.stop(id, "somebody has asked for it", now, out);
        }
        answer(owner, &json!({"name": names.first(), "names": names, "state": "stopped"}), out);
    }

    fn ask_logs(&mut self, owner: &Owner, params: &[u8], out: &mut Effects) {
        let Owner::Client(client, id) = owner else { return };
        match self.named(params).as_deref() {
            Ok([backend]) => {
                let follow = path(params, &["follow"]).is_some_and(|range| &params[range] == b"true");
                out.push(Effect::Logs { backend: *backend, client: *client, id: id.clone(), follow });
            }
            Ok(_) => {
                let failure = Failure::new(Cause::InvalidParams, "name: which backend's?");
                self.fail(owner, &failure, out);
            }
            Err(failure) => self.fail(owner, failure, out),
        }
    }

    /// Answers those who wait for a backend that has come to where it was to come.
    pub(crate) fn answer_restarts(&mut self, out: &mut Effects) {
        if self.control.restarts.is_empty() {
            return;
        }
        for (owner, ids) in std::mem::take(&mut self.control.restarts) {
            // A partition that nobody needs is gone once it is stopped.
            let state = |id| self.backend(id).map_or(State::Stopped, |it| it.life.state());
            let failed = ids.iter().find(|(id, _)| matches!(state(*id), State::Failed | State::Stopped));
            if let Some((id, name)) = failed {
                let message = match (state(*id), self.backend(*id).and_then(|it| it.last_error.as_deref())) {
                    (State::Failed, Some(why)) => format!("{name} has failed: {why}"),
                    (State::Failed, None) => format!("{name} has failed"),
                    (_, _) => format!("{name} was stopped before it was ready"),
                };
                let failure =
                    Failure { partition: Some(name.clone()), ..Failure::new(Cause::Unavailable, message) };
                self.fail(&owner, &failure, out);
            } else if ids.iter().all(|(id, _)| matches!(state(*id), State::Ready)) {
                let names: Vec<&str> = ids.iter().map(|(_, name)| name.as_str()).collect();
                answer(&owner, &json!({"name": names.first(), "names": names, "state": "ready"}), out);
            } else {
                self.control.restarts.push((owner, ids));
            }
        }
    }

    /// Tells those who watch what has changed.
    pub(crate) fn tell_watchers(&mut self, out: &mut Effects) {
        if self.control.watchers.is_empty() {
            return;
        }
        let status = self.status(false);
        if status == self.control.told {
            return;
        }
        for client in &self.control.watchers {
            let params = status.to_string();
            out.push(Effect::Send(
                Peer::Client(*client),
                Frame::notification(CHANGED, Some(params.as_bytes())),
            ));
        }
        self.control.told = status;
    }

    /// A backend has failed: the editor's user hears of it, once, and can do something about it.
    pub(crate) fn tell_failed(&mut self, id: BackendId, why: &str, out: &mut Effects) {
        let required = self.server.as_ref().is_some_and(|it| it.settings.policy.required);
        // The answer to `initialize` has said it.
        let is_said = required && !self.session.is_open;
        let Some(backend) =
            self.backends.get_mut(&id).filter(|it| it.spare.is_none() && !it.failure_told && !is_said)
        else {
            return;
        };
        backend.failure_told = true;
        let actions = json!([{"title": RESTART}, {"title": SHOW_LOG}]);
        let params = json!({"type": 1, "message": format!("lspool: {why}"), "actions": actions}).to_string();
        self.ask_editor(Purpose::Offer(id), "window/showMessageRequest", Some(params.as_bytes()), out);
    }

    /// The user has chosen what is to be done about a backend that has failed.
    pub(crate) fn on_offer_answered(
        &mut self,
        now: Instant,
        id: BackendId,
        frame: &Frame,
        out: &mut Effects,
    ) {
        let chosen = frame.result().and_then(|it| text(it, &["title"]));
        let Some(backend) = self.backend(id) else { return };
        match chosen.as_deref() {
            // It may have been installed meanwhile.
            Some(RESTART) if self.is_missing() => {
                self.control.searches.push((Owner::Proxy, vec![id]));
                self.reload(out);
            }
            Some(RESTART) if !backend.accepts() => {
                if let Err(failure) = self.restart(id, now, out) {
                    show(1, &failure.message, out);
                }
            }
            Some(SHOW_LOG) => {
                let last = backend.last_error.as_deref().unwrap_or("nothing is known");
                let message = format!(
                    "{}: {last}. All it wrote to stderr: lspool logs {:?} --pid {}",
                    backend.name, backend.name, self.identity.pid
                );
                show(3, &message, out);
            }
            Some(_) | None => {}
        }
    }
}

/// The parameters of the requests, apart from the tokens that any request may have.
const PARAMETERS: [(&str, &[&str]); 7] = [
    ("lspool/logs", &["name", "follow"]),
    ("lspool/move", &["name", "to"]),
    ("lspool/reload", &[]),
    ("lspool/restart", &["name"]),
    ("lspool/status", &[]),
    ("lspool/stop", &["name"]),
    ("lspool/watch", &[]),
];

/// What is wrong with a parameter that there is not, or has no name: without it, `lspool/stop` would stop everything.
fn wrong_parameter(method: &str, params: &[u8]) -> Option<String> {
    let (_, known) = PARAMETERS.iter().find(|(it, _)| *it == method)?;
    let has_names = params.starts_with(b"{") || params == b"null";
    if !has_names && (!params.starts_with(b"[") || elements(params).next().is_some()) {
        return Some(format!("the parameters of {method} have names: they must be an object"));
    }
    let tokens = [TOKEN, "partialResultToken"];
    let is_known = |key: &str| known.contains(&key) || tokens.contains(&key);
    let (key, _) = members(params).find(|(key, _)| !is_known(key))?;
    let hint = match (nearest(&key, known.iter().copied()), known) {
        (Some(meant), _) => format!("did you mean {meant:?}?"),
        (None, []) => "there are none".to_owned(),
        (None, known) => format!("there are {}", known.join(", ")),
    };
    Some(format!("{method} has no parameter {key:?}; {hint}"))
}

fn forget_the_moment(status: &mut Value) {
    if let Some(members) = status.as_object_mut() {
        members.retain(|key, _| !OF_THE_MOMENT.contains(&key.as_str()));
    }
}

const RESTART: &str = "Restart";
const SHOW_LOG: &str = "Show log";

pub(crate) fn not_initialized() -> Failure {
    Failure::new(Cause::NotInitialized, "the editor has not sent initialize")
}

pub(crate) fn answer(owner: &Owner, result: &Value, out: &mut Effects) {
    if let Owner::Client(client, id) = owner {
        let frame = Frame::response(id.clone(), result.to_string().as_bytes());
        out.push(Effect::Send(Peer::Client(*client), frame));
    }
}

/// Tells the editor's user something: 1 is an error, 3 is for information.
pub(crate) fn show(severity: u8, message: &str, out: &mut Effects) {
    let params = json!({"type": severity, "message": message}).to_string();
    tell_editor(Frame::notification("window/showMessage", Some(params.as_bytes())), out);
}
