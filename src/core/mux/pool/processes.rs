//! The processes of backends: how one starts, what it is told, what its death means.

use std::{sync::Arc, time::Instant};

use tracing::{debug, info, warn};

use crate::core::{Cause, Failure, PRIMARY, Proxy, ToolSet, tell_editor};
use crate::{
    config::ServerKind,
    core::{
        backend::{Backend, Idling},
        control::show,
        event::{BackendId, Effect, Effects, Exit, Peer, ProcessId, SpawnFailure},
        failure::reason,
        lifecycle::{Death, Handshake, State, Todo},
        requests::{Owner, Pending, Purpose, SentId, To},
        restore::Restores,
        route::{Keep, Route, route},
        session::pushed_mcp_servers,
        spares::Kit,
        toolset::SUB_AGENT,
    },
    rpc::{Frame, Kind, Patch, RawId, path},
};

/// `serverInfo.name` of a Copilot server.
const COPILOT_NAME: &[u8] = br#""GitHub Copilot Language Server""#;

impl Proxy {
    pub(crate) fn spawn(&mut self, id: BackendId, now: Instant, out: &mut Effects) {
        if id == PRIMARY {
            self.modes.begin();
        }
        if let Some(spare) = self.spare_for(id) {
            return self.adopt_spare(id, spare, now, out);
        }
        let Some(server) = &self.server else { return };
        if let (Some(missing), Some(backend)) = (&server.missing, self.backends.get(&id)) {
            let name = backend.name.clone();
            let message = format!("{name} cannot be started: {missing}");
            let failure = Failure { partition: Some(name), ..Failure::new(Cause::Unavailable, message) };
            return self.give_up(id, now, &failure, out);
        }
        let asks = |it: &Pending| matches!(it.purpose, Purpose::Initialize);
        let is_answered = !self.session.initialize.is_empty() && self.requests.filter(asks).is_empty();
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let is_first = id == PRIMARY && backend.life.generation().0 == 0 && !is_answered;
        let handshake = if is_first { Handshake::Editor } else { Handshake::Own };
        backend.life.spawn(now, handshake, now + server.settings.startup_timeout);
        backend.begin(now);
        out.push(Effect::Spawn(backend.process(), Arc::clone(&server.launch)));
    }

    pub(crate) fn on_spawned(&mut self, now: Instant, process: ProcessId, pid: u32, out: &mut Effects) {
        let Some(backend) = self.backends.get_mut(&process.backend).filter(|it| it.is_current(process))
        else {
            return;
        };
        backend.pid = Some(pid);
        let Some(handshake) = backend.life.spawned(now) else { return };
        info!(backend = backend.name, pid, generation = process.generation.0, "started");
        match handshake {
            Handshake::Editor => self.flush(process.backend, out),
            Handshake::Own => self.open(process, out),
        }
    }

    /// Asks a process to initialize: under the editor's request if that has not been answered.
    fn open(&mut self, process: ProcessId, out: &mut Effects) {
        let id = process.backend;
        let unanswered = |it: &Pending| it.to == To::Gate(id) && matches!(it.purpose, Purpose::Initialize);
        let unanswered = self.requests.filter(unanswered).first().copied();
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let is_it = |it: &Frame| it.id().and_then(|it| it.as_u64()) == unanswered;
        let at = unanswered.and_then(|_| backend.gated().iter().position(is_it));
        match at.and_then(|at| backend.gate().remove(at)) {
            Some(frame) => self.deliver(process, frame, out),
            None => {
                let kit = backend.spare.unwrap_or_else(|| Kit::of(&backend.set, &self.session.initialize));
                let params = initialize_for(&self.session.initialize, kit);
                self.ask_backend(id, Purpose::Initialize, "initialize", &params, out);
            }
        }
    }

    /// The process has answered `initialize`.
    pub(crate) fn on_initialized(
        &mut self,
        now: Instant,
        process: ProcessId,
        answer: &Frame,
        out: &mut Effects,
    ) {
        let Some(result) = answer.result() else {
            return self.on_initialize_refused(now, process.backend, &reason(answer), out);
        };
        let is_first = process.backend == PRIMARY && !self.session.is_open;
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        let Some(handshake) = backend.life.ready(now) else { return };
        info!(backend = backend.name, "ready");
        backend.failure_told = false;
        let set = backend.set.clone();
        if is_first {
            self.session.is_open = true;
            let encoding = crate::core::documents::Encoding::of_result(result);
            self.session.documents.set_encoding(encoding);
            self.learn_kind(result, out);
        }
        if handshake == Handshake::Own {
            self.restore(process, &set, out);
            self.begin_reconciling(process, result, out);
        }
        self.flush(process.backend, out);
    }

    /// A Copilot server under another name says itself what it is, if nobody else has.
    fn learn_kind(&mut self, result: &[u8], out: &mut Effects) {
        let Some(server) = &mut self.server else { return };
        let name = path(result, &["serverInfo", "name"]).map(|range| &result[range]);
        if server.settings.kind.is_none() && name == Some(COPILOT_NAME) {
            info!(server = server.name, "it is a Copilot server");
            server.kind = ServerKind::Copilot;
        }
        let name = server.name.clone();
        if !self.is_copilot() && self.session.kept_transcripts.take().is_some() {
            let hint =
                "only a Copilot server keeps what it tells the model; if it is one, set `kind = \"copilot\"`";
            let problem = format!("[server.{name}] exact_restore has no effect: {hint}");
            warn!(problem);
            show(2, &problem, out);
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
        let is_spare = self.backend(id).is_some_and(|it| it.spare.is_some());
        if self.is_copilot() && !is_spare {
            self.project_all(id, out);
        }
    }

    fn on_initialize_refused(&mut self, now: Instant, id: BackendId, why: &str, out: &mut Effects) {
        let Some(name) = self.backend(id).map(|it| it.name.clone()) else { return };
        let message = format!("{name} refused initialize: {why}");
        let failure = Failure { partition: Some(name), ..Failure::new(Cause::Unavailable, message) };
        self.give_up(id, now, &failure, out);
    }

    pub(crate) fn on_spawn_failed(
        &mut self,
        now: Instant,
        process: ProcessId,
        failure: &SpawnFailure,
        out: &mut Effects,
    ) {
        let Some(backend) = self.backends.get_mut(&process.backend).filter(|it| it.is_current(process))
        else {
            return;
        };
        let (cause, what) = match backend.fault.take() {
            Some((cause, fault)) => (cause, format!("was ended ({fault})")),
            None => (Cause::Unavailable, format!("cannot be started: {}", failure.message)),
        };
        warn!(backend = backend.name, what, failure.permanent, "no process");
        // Why a process is not there that nobody wants any more matters to nobody.
        if !failure.permanent || !backend.goes_on() {
            return self.on_gone(now, process, cause, &what, out);
        }
        let name = backend.name.clone();
        backend.life.fail_to_start(now);
        if let Some(server) = &mut self.server {
            server.is_gone = true;
        }
        let failure = Failure::new(Cause::Unavailable, format!("{name} {what}"));
        self.give_up(process.backend, now, &Failure { partition: Some(name), ..failure }, out);
    }

    pub(crate) fn on_exited(
        &mut self,
        now: Instant,
        process: ProcessId,
        exit: Exit,
        stderr: &str,
        out: &mut Effects,
    ) {
        let Some(backend) = self.backends.get_mut(&process.backend).filter(|it| it.is_current(process))
        else {
            return;
        };
        let (cause, end, words) = match backend.fault.take() {
            Some((cause, fault)) => (cause, format!("was ended ({fault})"), stderr),
            None if exit.is_from_outside() => (Cause::Crashed, format!("exited ({exit})"), ""),
            None => (Cause::Crashed, format!("exited ({exit})"), stderr),
        };
        let what = match backend.life.state() {
            State::Spawning { .. } | State::Initializing { .. } => {
                format!("{end} before it had answered initialize{}", tail(words))
            }
            State::Stopped
            | State::Waiting
            | State::Ready
            | State::Degraded
            | State::Restarting { .. }
            | State::Failed => format!("{end}{}", tail(words)),
        };
        self.on_gone(now, process, cause, &what, out);
    }

    /// A process is gone, or was never there: what it owed and what it asked comes to an end, or waits for the next.
    fn on_gone(&mut self, now: Instant, process: ProcessId, cause: Cause, what: &str, out: &mut Effects) {
        let (id, goes_on) = (process.backend, !self.phase.is_shut_down());
        let Some(policy) = self.server.as_ref().map(|it| it.settings.policy.clone()) else { return };
        // So that several lspool do not restart their servers in step.
        let chance = self.identity.mixed(self.requests.last());
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let before = backend.life.state();
        let died =
            !matches!(before, State::Stopped | State::Failed | State::Waiting | State::Restarting { .. });
        let is_lost_spare = backend.spare.is_some() && died;
        if died {
            backend.stopped = None;
        }
        if (!goes_on || is_lost_spare) && !matches!(before, State::Failed) {
            backend.life.stop(now);
        }
        if is_lost_spare {
            warn!(backend = backend.name, what, "gone");
            self.note_lost_spare(now);
        }
        let Some(backend) = self.backend(id) else { return };
        let comes_back = match before {
            State::Restarting { .. } | State::Waiting => goes_on,
            State::Spawning { .. } | State::Initializing { .. } | State::Ready | State::Degraded => {
                goes_on && backend.life.would_restart(now, &policy)
            }
            State::Stopped | State::Failed => false,
        };
        let goes_on = self.keep_turns(process, comes_back, out);
        let waits = comes_back && (self.regate(process) || goes_on);
        let is_wanted = waits || comes_back && id == PRIMARY;
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let Some(death) = backend.life.exited(now, process.generation, &policy, is_wanted, chance) else {
            return;
        };
        backend.pid = None;
        let name = backend.name.clone();
        let is_expected = !matches!(before, State::Ready | State::Degraded);
        let cause = if death == Death::Expected && is_expected { Cause::NotStarted } else { cause };
        let (next, advice) = match (death, backend.life.state()) {
            (Death::Expected, State::Restarting { .. } | State::Waiting) => {
                (Next::Follows, "another process takes its place, send the request again")
            }
            (Death::Expected, _) => (Next::None, "it was stopped"),
            (Death::Restarts, _) => (Next::Follows, "it is being restarted, send the request again"),
            (Death::Stops, _) => (Next::None, "send the request again"),
            (Death::Fails, _) => (Next::Failed, "it is not restarted"),
        };
        if death != Death::Expected {
            warn!(backend = name, ?death, what, "gone");
            backend.last_error = Some(format!("it {what}"));
        }
        debug!(backend = name, ?before, ?death, "its process is gone");
        self.end_progress(id, &format!("{name} {what}"), out);
        self.withdraw_questions(process, out);
        let gone = self.lose_conversations(id, next == Next::Follows);
        self.revive_requests(process, next == Next::Follows, cause, what, out);
        let lost = |sent: &SentId, it: &Pending| match it.to {
            To::Process(asked) => asked == process,
            To::Gate(asked) => asked == id && (next != Next::Follows || gone.contains(sent)),
            To::Client(_) | To::Tools => false,
        };
        let lost: Vec<_> = self.requests.iter().filter(|(sent, it)| lost(sent, it)).map(|it| it.0).collect();
        let failed = match death {
            Death::Fails => Some(format!("{name} {what}; it is not restarted any more")),
            Death::Expected | Death::Restarts | Death::Stops => None,
        };
        for sent in lost {
            let Some(pending) = self.requests.take(sent) else { continue };
            let during = pending.frame.method().unwrap_or_default();
            let message = match pending.purpose {
                Purpose::Initialize => format!("{name} {what}"),
                _ => format!("{name} {what} during {during}; {advice}"),
            };
            let retry = next != Next::Failed;
            let failure = Failure { cause, partition: Some(name.clone()), message, retry };
            self.fail_request(&pending.owner, &pending.purpose, &failure, out);
        }
        let Some(backend) = self.backends.get_mut(&id) else { return };
        match next {
            Next::Follows => self.absorb(id),
            Next::None | Next::Failed => {
                backend.gate().clear();
                self.forget_shown(id, out);
            }
        }
        if let Some(why) = failed {
            self.tell_failed(id, &why, out);
        }
        self.forget(id, now);
        self.start_waiting(now, out);
        self.on_shutdown_progress(out);
    }

    /// What a process that is gone was asked before it was ready is asked of the next one. Gives whether there is, or
    /// was, anything that waits.
    fn regate(&mut self, process: ProcessId) -> bool {
        let id = process.backend;
        let Some(backend) = self.backend(id) else { return false };
        let is_starting = matches!(backend.life.state(), State::Spawning { .. } | State::Initializing { .. });
        if is_starting {
            let asked = |it: &Pending| it.to == To::Process(process) && matches!(it.owner, Owner::Client(..));
            for sent in self.requests.filter(asked).into_iter().rev() {
                if let Some(frame) = self.ask_next(sent)
                    && let Some(backend) = self.backends.get_mut(&id)
                {
                    backend.gate().push_front(frame);
                }
            }
        }
        let waits = |it: &Frame| it.kind() == Kind::Request;
        self.backend(id).is_some_and(|it| it.gated().iter().any(waits))
    }

    /// The restored session says what these notifications said.
    fn absorb(&mut self, id: BackendId) {
        let copilot = self.is_copilot();
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
        if let Some(backend) = self.backends.get_mut(&id) {
            backend.gate().retain(|it| !absorbed(it));
        }
    }

    /// Every progress token of a process that is gone comes to its end, so that no spinner turns for ever.
    fn end_progress(&mut self, id: BackendId, message: &str, out: &mut Effects) {
        let kept = self.kept_by(id);
        for params in self.tokens.abandoned(id, message, |it| kept.contains(it)) {
            tell_editor(Frame::notification("$/progress", Some(&params)), out);
        }
    }

    /// What a process that is gone has asked the editor is cancelled there; late answers find nothing.
    fn withdraw_questions(&mut self, process: ProcessId, out: &mut Effects) {
        let asked = |it: &Pending| matches!(&it.owner, Owner::Backend(by, _) if *by == process);
        for sent in self.requests.filter(asked) {
            let Some(taken) = self.requests.take(sent) else { continue };
            // What the editor was told to register it shall have: what the next process repeats is not news to it.
            let method = taken.frame.method();
            if !matches!(method, Some("client/registerCapability" | "client/unregisterCapability")) {
                self.withdraw(sent, taken.to, out);
            }
        }
    }

    /// What was said stays, for the next process. Gives the turns that waited for one that is cut off.
    fn lose_conversations(&mut self, id: BackendId, restarts: bool) -> Vec<SentId> {
        let requests = &self.requests;
        let is_to_come = |active: Option<SentId>| {
            active.and_then(|it| requests.get(it)).is_some_and(|it| it.to == To::Gate(id))
        };
        let waited = self.conversations.lose(id, |it| restarts && is_to_come(it.active()));
        waited.iter().filter_map(|it| it.id()?.as_u64()).collect()
    }

    /// A backend will not serve: what it owes and what waits for it fails.
    pub(crate) fn give_up(&mut self, id: BackendId, now: Instant, failure: &Failure, out: &mut Effects) {
        warn!(failure.message, "given up");
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.last_error = Some(failure.message.clone());
        let (process, todo) = (backend.process(), backend.life.fail(now));
        if backend.spare.is_some() {
            self.note_lost_spare(now);
        }
        self.let_go(id, failure, out);
        if todo == Todo::Terminate {
            out.push(Effect::Terminate(process));
        }
        self.tell_failed(id, &failure.message, out);
        self.start_waiting(now, out);
        self.on_shutdown_progress(out);
    }

    /// Ends a process that nobody needs. What it knows is told to the next one.
    pub(crate) fn stop(&mut self, id: BackendId, why: &'static str, now: Instant, out: &mut Effects) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.stopped = Some(why);
        let (process, ready, name) = (backend.process(), backend.is_ready(), backend.name.clone());
        let todo = backend.life.stop(now);
        let message = format!("{name} was stopped");
        let failure = Failure { partition: Some(name), ..Failure::new(Cause::NotStarted, message) };
        self.let_go(id, &failure, out);
        self.end_gently(process, ready, todo, out);
        self.forget(id, now);
        self.start_waiting(now, out);
    }

    /// Nothing is expected of a process any more: whoever waits for it is answered, whatever it waits for is
    /// withdrawn.
    pub(crate) fn let_go(&mut self, id: BackendId, failure: &Failure, out: &mut Effects) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let process = backend.process();
        backend.gate().clear();
        backend.restores = Restores::default();
        backend.is_let_go = true;
        self.drop_turns(id, out);
        self.end_progress(id, &failure.message, out);
        self.withdraw_questions(process, out);
        self.conversations.lose(id, |_| false);
        let owed = |it: &Pending| match it.to {
            To::Process(asked) => asked == process,
            To::Gate(asked) => asked == id,
            To::Client(_) | To::Tools => false,
        };
        for sent in self.requests.filter(owed) {
            let Some(pending) = self.requests.take(sent) else { continue };
            self.fail_request(&pending.owner, &pending.purpose, failure, out);
        }
        self.forget_shown(id, out);
    }

    /// Starts a backend, or lets another process take the place of the one there is.
    pub(crate) fn restart(&mut self, id: BackendId, now: Instant, out: &mut Effects) -> Result<(), Failure> {
        let takes_room = |it: &Backend| !it.accepts() && self.spare_with(&it.set).is_none();
        if self.backend(id).is_some_and(takes_room) {
            self.make_room(now, out)?;
        }
        if let Some(backend) = self.backends.get_mut(&id) {
            backend.life.forgive();
        }
        self.replace(id, now, out);
        Ok(())
    }

    /// Another process takes the place of the one there is.
    pub(crate) fn replace(&mut self, id: BackendId, now: Instant, out: &mut Effects) {
        let Some(process) = self.backend(id).map(Backend::process) else { return };
        self.regate(process);
        let Some(backend) = self.backends.get_mut(&id) else { return };
        // Another one is kept ready then.
        if backend.spare.is_some() {
            return self.stop(id, "another one takes its place", now, out);
        }
        let ready = backend.is_ready();
        backend.failure_told = false;
        let todo = backend.life.restart(now);
        self.end_gently(process, ready, todo, out);
        self.start_waiting(now, out);
    }

    fn end_gently(&mut self, process: ProcessId, ready: bool, todo: Todo, out: &mut Effects) {
        if todo == Todo::Nothing {
            return;
        }
        if ready {
            self.ask_backend(process.backend, Purpose::Plain, "shutdown", b"null", out);
            out.push(Effect::Send(Peer::Backend(process), Frame::notification("exit", None)));
        }
        out.push(Effect::Terminate(process));
    }

    pub(crate) fn on_backend_closed(&mut self, process: ProcessId, error: Option<String>, out: &mut Effects) {
        if !self.is_current(process) {
            return;
        }
        debug!(?process, error, "has closed its stream, or must not go on");
        self.condemn(process, error.map(|it| (Cause::Transport, it)), out);
    }

    /// Ends a process that cannot go on, perhaps for a fault of its own. What it says until then counts.
    pub(crate) fn condemn(&mut self, process: ProcessId, fault: Option<(Cause, String)>, out: &mut Effects) {
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        backend.is_condemned = true;
        // The first fault is why it is ended; what one that is being ended does wrong is none.
        if let (Some((_, why)), None) = (&fault, &backend.fault) {
            warn!(backend = backend.name, why, "ending it");
            backend.fault = fault;
        }
        out.push(Effect::Terminate(process));
    }

    pub(crate) fn on_malformed_backend(
        &mut self,
        process: ProcessId,
        id: Option<(RawId, bool)>,
        reason: &str,
        out: &mut Effects,
    ) {
        let serves = |it: &&Backend| it.accepts() && !it.is_let_go;
        let Some(backend) = self.backend(process.backend).filter(serves) else { return };
        if !self.is_current(process) {
            return;
        }
        let name = backend.name.clone();
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
                let fault = format!("it sent a malformed message: {reason}");
                self.condemn(process, Some((Cause::Transport, fault)), out);
            }
            None => {}
        }
    }

    pub(crate) fn on_backend_deadlines(&mut self, now: Instant, out: &mut Effects) {
        self.on_reconcile_deadlines(now, out);
        let idle = self.idle_timeout();
        let due = |it: &&Backend| it.deadline(idle).is_some_and(|(at, _)| at <= now);
        let due: Vec<BackendId> = self.backends.values().filter(due).map(|it| it.id).collect();
        for id in due {
            let Some(backend) = self.backend(id) else { continue };
            match backend.life.state() {
                State::Spawning { .. } | State::Initializing { .. } => self.on_startup_timeout(now, id, out),
                State::Ready | State::Degraded => self.on_quiet_deadline(now, id, out),
                // Started below.
                State::Restarting { .. } => {}
                State::Waiting | State::Stopped | State::Failed => {}
            }
        }
        self.renew(now, out);
        self.start_waiting(now, out);
    }

    fn on_quiet_deadline(&mut self, now: Instant, id: BackendId, out: &mut Effects) {
        let Some(backend) = self.backend(id) else { return };
        if backend.mcp.deadline().is_some_and(|at| at <= now) {
            warn!(backend = backend.name, "an MCP server is not up: going on without it");
            self.go_on_without_mcp(id, out);
        } else if backend.idling == Idling::Ends
            && backend.idle_since.is_some_and(|it| it + self.idle_timeout() <= now)
        {
            info!(backend = backend.name, "idle: stopping it");
            self.stop(id, "it was idle", now, out);
        } else {
            self.look_after(id, now, out);
        }
    }

    /// One that has been ready before has its chances left.
    fn on_startup_timeout(&mut self, now: Instant, id: BackendId, out: &mut Effects) {
        let time = self.server.as_ref().map_or(0.0, |it| it.settings.startup_timeout.as_secs_f64());
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let what = match backend.pid {
            Some(_) => format!("has not answered initialize within {time} s"),
            None => format!("has not started within {time} s: its disk may not answer"),
        };
        if backend.life.has_been_ready() {
            backend.life.overdue();
            // It may be on its way out already.
            if !backend.is_condemned {
                let process = backend.process();
                self.condemn(process, Some((Cause::InitTimeout, format!("it {what}"))), out);
            }
            return;
        }
        let name = backend.name.clone();
        let message = format!("{name} {what}; it is stopped; if it needs more time, raise startup_timeout");
        let failure = Failure { partition: Some(name), ..Failure::new(Cause::InitTimeout, message) };
        self.give_up(id, now, &failure, out);
    }
}

/// What comes after a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Follows,
    None,
    Failed,
}

/// Says to whoever was asked that a request is not wanted any more.
pub(crate) fn cancellation(sent: SentId) -> Frame {
    let params = format!(r#"{{"id":{sent}}}"#);
    Frame::notification("$/cancelRequest", Some(params.as_bytes()))
}

/// Three of the server's own tools come with a capability of the client, and come back at every refresh of the token
/// however often they are taken away: a process whose set lacks such a tool is not told of the capability.
pub(crate) const BRINGS: [(&str, &str); 3] = [
    ("subAgent", SUB_AGENT),
    ("manageTodoListTool", "manage_todo_list"),
    ("watchedFiles", "semantic_search"),
];

/// Parameters of `initialize` for a process that is told of these capabilities, of those that bring tools.
fn initialize_for(params: &[u8], kit: Kit) -> Vec<u8> {
    let mut patch = Patch::of(params);
    for (capability, _) in BRINGS.iter().filter(|(_, tool)| !kit.contains(tool)) {
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
    fn initialize_hides_capabilities_of_tools_outside_set() {
        let params = br#"{"initializationOptions":{"copilotCapabilities":{"subAgent":true,"watchedFiles":true,"token":true}},"capabilities":{"copilot":{"watchedFiles":true}}}"#;
        let set = ToolSet::new(Some(&["run_subagent"]), &[]);
        let expected = r#"{"initializationOptions":{"copilotCapabilities":{"subAgent":true,"token":true}},"capabilities":{"copilot":{}}}"#;
        assert_eq!(String::from_utf8_lossy(&initialize_for(params, Kit::of(&set, params))), expected);
        assert_eq!(initialize_for(params, Kit::of(&ToolSet::all(), params)), params);
    }
}
