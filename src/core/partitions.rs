//! Processes and partitions: which there are, when one starts and stops, what its death means.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::{debug, info, warn};

use super::{Backend, Cause, Failure, PRIMARY, Proxy, ToolSet, tell_editor};
use crate::{
    config::ServerKind,
    core::{
        backend::{Handshake, State},
        event::{BackendId, Effect, Effects, Exit, Generation, Peer, ProcessId, SpawnFailure},
        mcp::McpServers,
        requests::{Owner, Pending, Purpose, SentId, To},
        restore::Restores,
        route::{Keep, Route, route},
        session::pushed_mcp_servers,
    },
    rpc::{Frame, Kind, Patch, RawId, path},
};

/// `serverInfo.name` of a Copilot server.
const COPILOT_NAME: &[u8] = br#""GitHub Copilot Language Server""#;

impl Proxy {
    /// The partition that serves conversations with this tool set; started if there is none.
    pub(super) fn partition(
        &mut self,
        set: &ToolSet,
        now: Instant,
        out: &mut Effects,
    ) -> Result<BackendId, Failure> {
        if set.is_all() {
            return Ok(PRIMARY);
        }
        if let Some(found) = self.backends.values().find(|it| it.set == *set && it.accepts()) {
            return Ok(found.id);
        }
        let Some(server) = &self.server else { return Ok(PRIMARY) };
        let (most, name) = (server.settings.max_processes, server.name.clone());
        let in_use = self.backends.values().filter(|it| it.accepts()).count();
        if in_use >= most {
            let Some(idle) = self.longest_idle() else {
                let message = format!(
                    "no process for the tool set {set}: all {most} processes of {name} are in use; destroy \
                     conversations that are done, or raise max_processes in [server.{name}]"
                );
                return Err(Failure { retry: true, ..Failure::new(Cause::Limit, message) });
            };
            info!(backend = self.backends[&idle].name, "stopping an idle partition to make room");
            self.stop(idle, out);
        }
        self.last_backend += 1;
        let id = BackendId(self.last_backend);
        let backend = Backend::new(id, format!("partition \"{set}\" of {name}"), set.clone());
        self.backends.insert(id, backend);
        self.start_waiting(out);
        debug!(%set, ?now, "a partition for a new tool set");
        Ok(id)
    }

    /// The partition that has been without work for the longest time.
    fn longest_idle(&self) -> Option<BackendId> {
        let idle = self.backends.values().filter(|it| it.accepts() && !self.is_busy(it));
        idle.filter_map(|it| Some((it.idle_since?, it.id))).min().map(|(_, id)| id)
    }

    pub(super) fn is_busy(&self, backend: &Backend) -> bool {
        self.conversations.count(backend.id) > 0 || self.requests.n_owed_by(backend.id) > 0
    }

    /// Starts what waits for room, as far as there is room.
    fn start_waiting(&mut self, out: &mut Effects) {
        let most = self.server.as_ref().map_or(1, |it| it.settings.max_processes);
        // The place of a process that is to be restarted is taken.
        let holds = |it: &&Backend| it.alive || matches!(it.state, State::Restarting { .. });
        let alive = self.backends.values().filter(holds).count();
        let waiting = self.backends.values().filter(|it| it.state == State::Waiting).map(|it| it.id);
        let starting: Vec<_> = waiting.take(most.saturating_sub(alive)).collect();
        for id in starting {
            self.spawn(id, Handshake::Own, out);
        }
    }

    pub(super) fn spawn(&mut self, id: BackendId, handshake: Handshake, out: &mut Effects) {
        let Some(server) = &self.server else { return };
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.generation = Generation(backend.generation.0 + 1);
        backend.state = State::Spawning(handshake);
        backend.alive = true;
        backend.projecting = 0;
        backend.mcp = McpServers::default();
        backend.restores = Restores::default();
        backend.sources.clear();
        backend.corrections = 0;
        backend.fault = None;
        out.push(Effect::Spawn(backend.process(), Arc::clone(&server.launch)));
    }

    pub(super) fn on_spawned(&mut self, now: Instant, process: ProcessId, pid: u32, out: &mut Effects) {
        let Some(server) = &self.server else { return };
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        let State::Spawning(handshake) = backend.state else { return };
        info!(backend = backend.name, pid, generation = process.generation.0, "started");
        backend.state = State::Initializing { handshake, deadline: now + server.settings.startup_timeout };
        match handshake {
            Handshake::Editor => self.flush(process.backend, out),
            Handshake::Own => {
                let params = initialize_for(&self.session.initialize, &backend.set);
                self.ask_backend(process.backend, Purpose::Initialize, "initialize", &params, out);
            }
        }
    }

    /// The process has answered `initialize`.
    pub(super) fn on_initialized(&mut self, process: ProcessId, answer: &Frame, out: &mut Effects) {
        let Some(result) = answer.result() else {
            let why = String::from_utf8_lossy(answer.error_value().unwrap_or_default()).into_owned();
            return self.on_initialize_refused(process.backend, &why, out);
        };
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        let State::Initializing { handshake, .. } = backend.state else { return };
        info!(backend = backend.name, "ready");
        backend.state = State::Serving;
        let set = backend.set.clone();
        match handshake {
            Handshake::Editor => {
                let encoding = crate::core::documents::Encoding::of_result(result);
                self.session.documents.set_encoding(encoding);
                self.learn_kind(result);
            }
            Handshake::Own => self.restore(process, &set, out),
        }
        self.flush(process.backend, out);
    }

    /// A Copilot server under another name says itself what it is, if nobody else has.
    fn learn_kind(&mut self, result: &[u8]) {
        let Some(server) = self.server.as_mut().filter(|it| it.settings.kind.is_none()) else { return };
        let name = path(result, &["serverInfo", "name"]).map(|range| &result[range]);
        if name == Some(COPILOT_NAME) {
            info!(server = server.name, "it is a Copilot server");
            server.kind = ServerKind::Copilot;
        }
    }

    /// Tells a fresh process everything that the one before it, or the primary, was told.
    fn restore(&mut self, process: ProcessId, set: &ToolSet, out: &mut Effects) {
        let id = process.backend;
        if self.session.initialized {
            out.push(Effect::Send(Peer::Backend(process), Frame::notification("initialized", Some(b"{}"))));
        }
        for frame in self.session.restored(set) {
            if let Some(servers) = pushed_mcp_servers(&frame) {
                self.await_mcp(id, servers);
            }
            match (frame.kind(), frame.method()) {
                (Kind::Request, Some(method)) => {
                    self.ask_backend(id, Purpose::Plain, method, frame.params().unwrap_or(b"{}"), out);
                }
                (Kind::Request | Kind::Notification | Kind::Response, _) => {
                    out.push(Effect::Send(Peer::Backend(process), frame));
                }
            }
        }
        if !self.is_copilot() {
            return;
        }
        self.project_all(id, out);
    }

    fn on_initialize_refused(&mut self, id: BackendId, why: &str, out: &mut Effects) {
        let Some(name) = self.backend(id).map(|it| it.name.clone()) else { return };
        let message = format!("{name} refused initialize: {why}");
        let failure = Failure { partition: Some(name), ..Failure::new(Cause::Unavailable, message) };
        self.give_up(id, &failure, out);
    }

    pub(super) fn on_spawn_failed(
        &mut self,
        now: Instant,
        process: ProcessId,
        failure: &SpawnFailure,
        out: &mut Effects,
    ) {
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        backend.alive = false;
        let stopping = backend.state == State::Stopping;
        warn!(backend = backend.name, failure.message, failure.permanent, "cannot be started");
        if stopping {
            return self.remove(process, out);
        }
        if failure.permanent || process.generation == Generation(1) {
            let (name, message) = (backend.name.clone(), failure.message.clone());
            let message = format!("{name} cannot be started: {message}");
            let failure = Failure { partition: Some(name), ..Failure::new(Cause::Unavailable, message) };
            return self.give_up(process.backend, &failure, out);
        }
        self.restart(now, process.backend, &failure.message, out);
    }

    pub(super) fn on_exited(
        &mut self,
        now: Instant,
        process: ProcessId,
        exit: Exit,
        stderr: &str,
        out: &mut Effects,
    ) {
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        if backend.generation != process.generation || !backend.alive {
            return;
        }
        backend.alive = false;
        let name = backend.name.clone();
        let end = match backend.fault.take() {
            Some(fault) => format!("was ended ({fault})"),
            None => format!("exited ({exit})"),
        };
        match backend.state.clone() {
            State::Stopping => {
                debug!(name, %exit, "stopped");
                self.remove(process, out);
            }
            State::Failed { .. } => self.remove(process, out),
            State::Waiting | State::Restarting { .. } => {}
            State::Spawning(_) | State::Initializing { .. } => {
                warn!(name, %exit, stderr, "exited before it was ready");
                let what = format!("{end} before it had answered initialize{}", tail(stderr));
                let first = process.generation == Generation(1);
                if first || self.phase.is_shut_down() {
                    let message = format!("{name} {what}");
                    let failure = Failure { partition: Some(name), ..Failure::new(Cause::Crashed, message) };
                    self.give_up(process.backend, &failure, out);
                } else {
                    self.on_crash(now, process, &what, out);
                }
            }
            State::Serving => {
                let during_shutdown = self.phase.is_shut_down();
                if !during_shutdown {
                    warn!(name, %exit, stderr, "exited");
                }
                self.on_crash(now, process, &format!("{end}{}", tail(stderr)), out);
            }
        }
        self.start_waiting(out);
        self.on_shutdown_progress(out);
    }

    /// A process has died: what it owed and what it asked comes to an end.
    fn on_crash(&mut self, now: Instant, process: ProcessId, what: &str, out: &mut Effects) {
        let id = process.backend;
        let Some(backend) = self.backend(id) else { return };
        let (name, is_spent) = (backend.name.clone(), !backend.budget.allows_another(now));
        let goes_on = !self.phase.is_shut_down();
        let is_wanted = self.keep_turns(process, goes_on && !is_spent, out);
        let restarts = goes_on && (id == PRIMARY || is_wanted);
        if let Some(backend) = self.backends.get_mut(&id).filter(|_| restarts) {
            // Nobody is there to take what waits, whatever opens the gate meanwhile.
            backend.state = State::Restarting { at: now };
        }
        let retry = !(restarts && is_spent);
        let advice = match restarts {
            true if is_spent => "it has failed too often and is not restarted",
            true => "it is being restarted, send the request again",
            false => "send the request again",
        };
        self.end_progress(id, &format!("{name} {what}"), out);
        self.withdraw_questions(process, out);
        let gone = self.lose_conversations(id, restarts);
        // What waits in the gate waits for the next process, if there will be one.
        let lost = |sent: &SentId, it: &Pending| match it.to {
            To::Process(asked) => asked == process,
            To::Gate(asked) => asked == id && (!restarts || gone.contains(sent)),
            To::Client(_) => false,
        };
        for sent in
            self.requests.iter().filter(|(sent, it)| lost(sent, it)).map(|it| it.0).collect::<Vec<_>>()
        {
            let Some(pending) = self.requests.take(sent) else { continue };
            let method = pending.frame.method().unwrap_or_default();
            let message = format!("{name} {what} during {method}; {advice}");
            let failure = Failure { cause: Cause::Crashed, partition: Some(name.clone()), message, retry };
            self.fail_request(&pending.owner, &pending.purpose, &failure, out);
        }
        if restarts {
            self.restart(now, id, what, out);
        } else {
            self.remove(process, out);
        }
    }

    /// Every progress token of a process that is gone comes to its end, so that no spinner turns for ever.
    fn end_progress(&mut self, id: BackendId, message: &str, out: &mut Effects) {
        let kept: Vec<RawId> = self.kept_by(id);
        for params in self.tokens.abandoned(id, message, |it| kept.contains(it)) {
            tell_editor(Frame::notification("$/progress", Some(&params)), out);
        }
    }

    /// What a process that is gone has asked the editor is cancelled there; late answers find nothing.
    fn withdraw_questions(&mut self, process: ProcessId, out: &mut Effects) {
        let asked = |it: &Pending| matches!(&it.owner, Owner::Backend(by, _) if *by == process);
        for sent in self.requests.filter(asked) {
            self.requests.take(sent);
            cancel_at_editor(sent, out);
        }
    }

    /// What was said stays, for the next process. Gives the turns that waited for one that is cut off.
    fn lose_conversations(&mut self, id: BackendId, restarts: bool) -> Vec<SentId> {
        let requests = &self.requests;
        let is_to_come = |active: Option<SentId>| {
            active.and_then(|it| requests.get(it)).is_some_and(|it| it.to == To::Gate(id))
        };
        let waited = self.conversations.lose(id, |it| restarts && is_to_come(it.active));
        waited.iter().filter_map(|it| it.id()?.as_u64()).collect()
    }

    fn restart(&mut self, now: Instant, id: BackendId, why: &str, out: &mut Effects) {
        let copilot = self.is_copilot();
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let Some(wait) = backend.budget.spend(now) else {
            let name = backend.name.clone();
            let message = format!("{name} failed too often and is not restarted: it {why}");
            let failure = Failure { partition: Some(name), ..Failure::new(Cause::Unavailable, message) };
            return self.give_up(id, &failure, out);
        };
        // The restored session says what these said.
        let absorbed = |it: &Frame| match (it.kind(), it.method().unwrap_or_default()) {
            (Kind::Request | Kind::Response, _) => false,
            (Kind::Notification, "initialized") => true,
            (Kind::Notification, method) => match route(method, copilot) {
                Route::Everyone(keep) => keep != Keep::Nothing,
                Route::Default | Route::Create | Route::Turn | Route::Destroy => false,
                Route::Turns | Route::TurnDelete => false,
                Route::Tools(_) | Route::SignIn | Route::Command => false,
            },
        };
        backend.gate().retain(|it| !absorbed(it));
        warn!(backend = backend.name, ?wait, why, "restarting");
        backend.state = State::Restarting { at: now + wait };
        if wait == Duration::ZERO {
            self.spawn(id, Handshake::Own, out);
        }
    }

    /// A backend will not serve: what it owes and what waits for it fails. A partition is forgotten.
    pub(super) fn give_up(&mut self, id: BackendId, failure: &Failure, out: &mut Effects) {
        warn!(failure.message, "given up");
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let process = backend.process();
        let gone = !backend.alive;
        backend.gate().clear();
        backend.state = State::Failed { why: failure.message.clone() };
        if id != PRIMARY {
            backend.state = State::Stopping;
        }
        self.drop_turns(id, out);
        self.end_progress(id, &failure.message, out);
        self.withdraw_questions(process, out);
        let owed = |it: &Pending| match it.to {
            To::Process(asked) => asked == process,
            To::Gate(asked) => asked == id,
            To::Client(_) => false,
        };
        for sent in self.requests.filter(owed) {
            let Some(pending) = self.requests.take(sent) else { continue };
            self.fail_request(&pending.owner, &pending.purpose, failure, out);
        }
        self.conversations.lose(id, |_| false);
        match gone {
            false => out.push(Effect::Terminate(process)),
            true => self.remove(process, out),
        }
        self.on_shutdown_progress(out);
    }

    /// Ends a partition that nobody needs.
    fn stop(&mut self, id: BackendId, out: &mut Effects) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let process = backend.process();
        let serving = backend.state == State::Serving;
        backend.state = State::Stopping;
        backend.gate().clear();
        // No client waits for any of these.
        for sent in self.requests.filter(|it| it.to == To::Gate(id)) {
            self.requests.take(sent);
        }
        if serving {
            self.ask_backend(id, Purpose::Plain, "shutdown", b"null", out);
            out.push(Effect::Send(Peer::Backend(process), Frame::notification("exit", None)));
        }
        self.drop_turns(id, out);
        self.conversations.lose(id, |_| false);
        self.withdraw_questions(process, out);
        match self.backend(id).is_some_and(|it| it.alive) {
            true => out.push(Effect::Terminate(process)),
            false => self.remove(process, out),
        }
    }

    /// A partition's process is gone and will not come back.
    fn remove(&mut self, process: ProcessId, out: &mut Effects) {
        let id = process.backend;
        for sent in self.requests.filter(|it| it.to == To::Process(process)) {
            self.requests.take(sent);
        }
        self.end_progress(id, "the server was stopped", out);
        self.withdraw_questions(process, out);
        if let Some(params) = self.registrations.abandoned(process) {
            self.ask_editor("client/unregisterCapability", &params, out);
        }
        if id == PRIMARY {
            if let Some(backend) = self.backends.get_mut(&id).filter(|it| it.accepts()) {
                backend.gate().clear();
                backend.state = State::Failed { why: "it has exited".to_owned() };
            }
        } else {
            self.backends.remove(&id);
        }
        self.start_waiting(out);
    }

    pub(super) fn on_backend_closed(&mut self, process: ProcessId, error: Option<String>, out: &mut Effects) {
        if !self.is_current(process) {
            return;
        }
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        match error {
            Some(error) => {
                warn!(backend = backend.name, error, "ending it");
                backend.fault = Some(error);
            }
            None => debug!(backend = backend.name, "has closed its stream"),
        }
        out.push(Effect::Terminate(process));
    }

    pub(super) fn on_malformed_backend(
        &mut self,
        process: ProcessId,
        id: Option<(RawId, bool)>,
        reason: &str,
        out: &mut Effects,
    ) {
        if !self.is_current(process) || !self.backends[&process.backend].accepts() {
            return;
        }
        let name = self.backends[&process.backend].name.clone();
        warn!(name, reason, "malformed message of a server");
        let message = format!("{name} sent a malformed message: {reason}");
        let failure = Failure { partition: Some(name), ..Failure::new(Cause::Malformed, message) };
        match id {
            Some((id, true)) => out.push(Effect::Send(Peer::Backend(process), failure.answer(id))),
            Some((id, false)) => {
                if let Some((sent, pending)) = self.requests.answered(&id, Peer::Backend(process)) {
                    let failure = Failure { cause: Cause::BadAnswer, ..failure };
                    self.fail(&pending.owner, &failure, out);
                    self.on_lost_answer(process, sent, pending, out);
                }
            }
            // An answer may have been lost with it: nobody shall wait for that for ever.
            None if !self.requests.filter(|it| it.to == To::Process(process)).is_empty() => {
                if let Some(backend) = self.backends.get_mut(&process.backend) {
                    backend.fault = Some(format!("it sent a malformed message: {reason}"));
                }
                out.push(Effect::Terminate(process));
            }
            None => {}
        }
    }

    /// A partition is idle while no conversation is bound to it and no client waits for it.
    pub(super) fn note_idle(&mut self, now: Instant) {
        let mut changed = self.requests.take_changed();
        changed.append(&mut self.conversations.take_changed());
        changed.remove(&PRIMARY);
        for id in changed {
            let Some(backend) = self.backends.get(&id) else { continue };
            let idle_since = if self.is_busy(backend) { None } else { backend.idle_since.or(Some(now)) };
            if let Some(backend) = self.backends.get_mut(&id) {
                backend.idle_since = idle_since;
            }
        }
    }

    pub(super) fn on_backend_deadlines(&mut self, now: Instant, out: &mut Effects) {
        let idle = self.idle_timeout();
        let due = |it: &&Backend| it.deadline(idle).is_some_and(|(at, _)| at <= now);
        let due: Vec<(BackendId, State)> =
            self.backends.values().filter(due).map(|it| (it.id, it.state.clone())).collect();
        for (id, state) in due {
            match state {
                State::Initializing { .. } => self.on_startup_timeout(id, out),
                State::Restarting { .. } => self.spawn(id, Handshake::Own, out),
                State::Serving if self.backends[&id].mcp.deadline().is_some_and(|at| at <= now) => {
                    warn!(backend = self.backends[&id].name, "an MCP server is not up: going on without it");
                    self.go_on_without_mcp(id, out);
                }
                State::Serving => {
                    info!(backend = self.backends[&id].name, "idle: stopping it");
                    self.stop(id, out);
                }
                State::Waiting | State::Spawning(_) | State::Stopping | State::Failed { .. } => {}
            }
        }
    }

    fn on_startup_timeout(&mut self, id: BackendId, out: &mut Effects) {
        let name = self.backends[&id].name.clone();
        let time = self.server.as_ref().map_or(Duration::ZERO, |it| it.settings.startup_timeout);
        let message =
            format!("{name} has not answered initialize within {} s and is stopped", time.as_secs_f64());
        let failure = Failure { partition: Some(name), ..Failure::new(Cause::InitTimeout, message) };
        self.give_up(id, &failure, out);
    }
}

/// A request that the editor was asked is not wanted any more.
pub(super) fn cancel_at_editor(sent: SentId, out: &mut Effects) {
    let params = format!(r#"{{"id":{sent}}}"#);
    tell_editor(Frame::notification("$/cancelRequest", Some(params.as_bytes())), out);
}

/// Parameters of `initialize` for a process with this set. Three of the server's own tools come with a capability
/// of the client, and come back at every refresh of the token however often they are taken away: a process whose
/// set lacks such a tool is not told of the capability.
fn initialize_for(params: &[u8], set: &ToolSet) -> Vec<u8> {
    const BRINGS: [(&str, &str); 3] = [
        ("subAgent", "run_subagent"),
        ("manageTodoListTool", "manage_todo_list"),
        ("watchedFiles", "semantic_search"),
    ];
    let mut patch = Patch::of(params);
    for (capability, _) in BRINGS.iter().filter(|(_, tool)| !set.contains(tool)) {
        patch.remove_path(&["initializationOptions", "copilotCapabilities", capability]);
        patch.remove_path(&["capabilities", "copilot", capability]);
    }
    patch.finish()
}

/// The last lines of stderr, as the end of a sentence.
fn tail(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
    match lines.split_at(lines.len().saturating_sub(5)).1 {
        [] => String::new(),
        last => format!("; its last words: {}", last.join(" | ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_only_of_capabilities_whose_tools_are_in_its_set() {
        let params = br#"{"initializationOptions":{"copilotCapabilities":{"subAgent":true,"watchedFiles":true,"token":true}},"capabilities":{"copilot":{"watchedFiles":true}}}"#;
        let set = ToolSet::new(Some(&["run_subagent"]), &[]);
        let expected = r#"{"initializationOptions":{"copilotCapabilities":{"subAgent":true,"token":true}},"capabilities":{"copilot":{}}}"#;
        assert_eq!(String::from_utf8_lossy(&initialize_for(params, &set)), expected);
        assert_eq!(initialize_for(params, &ToolSet::all()), params);
    }
}
