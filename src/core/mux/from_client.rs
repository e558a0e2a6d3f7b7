//! Messages of the editor while the session is open: each to where the routing table sends it.

use std::time::Instant;

use tracing::{debug, warn};

use crate::core::{Cause, Failure, PRIMARY, Proxy, ToolSet, tell_editor};
use crate::{
    core::{
        backend::Backend,
        event::{BackendId, ClientId, Effect, Effects, Peer},
        lifecycle::State,
        requests::{Owner, Purpose, SentId, To},
        route::{Keep, Route, Tools, route},
        session::{CHECK_STATUS, for_set, pushed_mcp_servers},
    },
    rpc::{Frame, Kind, RawId, member},
};

impl Proxy {
    pub(crate) fn route(&mut self, now: Instant, frame: &Frame, out: &mut Effects) {
        match frame.kind() {
            Kind::Response => self.on_editor_answer(now, frame, out),
            Kind::Notification => self.on_editor_notification(now, frame, out),
            Kind::Request => self.on_editor_request(now, frame, out),
        }
    }

    fn on_editor_request(&mut self, now: Instant, frame: &Frame, out: &mut Effects) {
        let (Some(id), Some(method)) = (frame.id(), frame.method()) else { return };
        if self.is_in_use(&id) {
            let message = format!("request id {id} is in use by a request that is not answered yet");
            return tell_editor(Failure::new(Cause::InvalidRequest, message).answer(id), out);
        }
        if method == "shutdown" {
            return self.on_shutdown(now, id, out);
        }
        let owner = Owner::Client(ClientId::EDITOR, id.clone());
        let params = frame.params().unwrap_or(b"{}");
        if method == "workspace/executeCommand" && self.command(now, &owner, params, out)
            || method.starts_with("lspool/") && self.control(now, owner.clone(), method, params, out)
        {
            return;
        }
        match route(method, self.is_copilot()) {
            Route::TurnDelete => {
                self.on_turn_delete(frame);
                let backend = self.by_conversation(frame);
                self.send_to_backend(backend, owner, Purpose::Plain, frame, out);
            }
            Route::Default => {
                let backend = self.by_conversation(frame);
                self.send_to_backend(backend, owner, Purpose::Plain, frame, out);
            }
            Route::Turns => {
                let turn = field(frame, "turnId");
                let backend = turn.and_then(|it| self.conversations.of_turn(&it)).unwrap_or(PRIMARY);
                self.send_to_backend(self.served(backend), owner, Purpose::Plain, frame, out);
            }
            Route::Everyone(keep) => {
                self.tell_everyone(keep, Some(owner), frame, out);
                if keep == Keep::SignOut {
                    self.check_status_elsewhere(out);
                }
            }
            Route::Create => self.on_create(now, owner, frame, out),
            Route::Turn => self.on_turn(now, owner, frame, out),
            Route::Destroy => self.on_destroy(owner, frame, out),
            Route::Tools(tools) => self.on_tools(tools, owner, frame, out),
            Route::SignIn => drop(self.send_to_backend(PRIMARY, owner, Purpose::SignIn, frame, out)),
            Route::Command => {
                let command = frame.params().and_then(|it| Some(&it[member(it, "command")?]));
                let finishes = command == Some(b"\"github.copilot.finishDeviceFlow\"");
                let purpose = if finishes { Purpose::SignIn } else { Purpose::Plain };
                self.send_to_backend(PRIMARY, owner, purpose, frame, out);
            }
        }
    }

    /// Two requests with one id could not be told apart. But a client that gives the same id to its `initialize` and
    /// to what it sends without waiting for the answer does not number its requests: it goes by their order.
    fn is_in_use(&mut self, id: &RawId) -> bool {
        let Some(earlier) = self.requests.of_client(ClientId::EDITOR, id) else {
            let is_owed = self.control.is_owed(ClientId::EDITOR, id) || self.orchestrations.is_owed(id);
            return is_owed && !self.unnumbered;
        };
        let opening = self.requests.get(earlier).map(|it| &it.purpose);
        self.unnumbered |= matches!(opening, Some(Purpose::Initialize));
        !self.unnumbered
    }

    fn on_editor_notification(&mut self, now: Instant, frame: &Frame, out: &mut Effects) {
        match frame.method() {
            Some("$/cancelRequest") if self.cancels_orchestration(now, frame, out) => return,
            Some("window/workDoneProgress/cancel")
                if self.cancels_orchestration_by_token(now, frame, out) =>
            {
                return;
            }
            Some("$/cancelRequest") => return self.on_client_cancel(ClientId::EDITOR, frame, out),
            Some("window/workDoneProgress/cancel" | "$/progress") => {
                return self.on_editor_progress(frame, out);
            }
            Some("initialized") => {
                self.session.initialized = true;
                self.backends.note_change();
                // The restored session says it.
                if !self.backend(PRIMARY).is_some_and(Backend::has_session) {
                    return;
                }
            }
            Some(_) | None => {}
        }
        match route(frame.method().unwrap_or_default(), self.is_copilot()) {
            Route::Everyone(keep) => self.tell_everyone(keep, None, frame, out),
            Route::Default
            | Route::Turns
            | Route::TurnDelete
            | Route::Create
            | Route::Turn
            | Route::Destroy
            | Route::Tools(_)
            | Route::SignIn
            | Route::Command => {
                let backend = self.by_conversation(frame);
                self.notify_backend(backend, frame, out);
            }
        }
        if frame.method() == Some("initialized") {
            self.register_own_tools(out);
        }
        if let (Some("initialized"), Some(folder)) = (frame.method(), &self.session.kept_transcripts) {
            let keep = self.session.transcripts(&ToolSet::all(), Some(folder));
            self.notify_backend(PRIMARY, &keep, out);
        }
    }

    /// The partition of the conversation that the parameters name, else the primary.
    fn by_conversation(&self, frame: &Frame) -> BackendId {
        if !self.is_copilot() {
            return PRIMARY;
        }
        let conversation = field(frame, "conversationId").and_then(|it| self.conversations.get(&it));
        self.served(conversation.map_or(PRIMARY, |it| it.backend))
    }

    /// A partition that is gone leaves its questions to the primary, which knows what to say of unknown ids.
    pub(crate) fn served(&self, backend: BackendId) -> BackendId {
        if self.backend(backend).is_some_and(Backend::accepts) { backend } else { PRIMARY }
    }

    /// What belongs to every process goes to all that are running and is remembered for those to come.
    fn tell_everyone(&mut self, keep: Keep, owner: Option<Owner>, frame: &Frame, out: &mut Effects) {
        self.session.keep(keep, frame);
        if keep == Keep::Folders {
            self.reload(out);
        }
        if frame.method() == Some("mcp/updateToolsStatus") {
            self.note_mcp_statuses(frame.params().unwrap_or(b"{}"));
        }
        let kept = self.session.keeping(frame);
        let frame = kept.as_ref().unwrap_or(frame);
        let partitions = self.partitions_with_session();
        match owner {
            Some(owner) => drop(self.send_to_backend(PRIMARY, owner, Purpose::Plain, frame, out)),
            None if self.backend(PRIMARY).is_some_and(Backend::has_session) || keep == Keep::Nothing => {
                self.notify_backend(PRIMARY, frame, out);
            }
            None => {}
        }
        if partitions.is_empty() {
            return;
        }
        // One that does not read holds up no other, and must not keep alive what they have had long since.
        let frame = frame.unshared();
        for id in partitions {
            let Some(backend) = self.backend(id) else { continue };
            let frame = for_set(&frame, &backend.set);
            // What waits in the gate itself must not be waited for.
            let at_once = backend.gate_is_empty() && backend.is_open(self.catalogue.undecided > 0);
            match frame.kind() {
                Kind::Request => drop(self.send_to_backend(id, Owner::Proxy, Purpose::Plain, &frame, out)),
                Kind::Notification | Kind::Response => self.notify_backend(id, &frame, out),
            }
            if let Some(servers) = pushed_mcp_servers(&frame).filter(|_| at_once) {
                self.await_mcp(id, servers);
            }
            if keep == Keep::Auth {
                // Behind the sign-in, which may wait in the gate.
                let check = Frame::request(RawId::from(0), CHECK_STATUS.0, Some(CHECK_STATUS.1));
                self.send_to_backend(id, Owner::Proxy, Purpose::Plain, &check, out);
                self.await_mcp_again(id);
            }
        }
    }

    /// All but the primary that must be told what concerns everyone.
    pub(crate) fn partitions_with_session(&self) -> Vec<BackendId> {
        let told = |it: &&Backend| it.id != PRIMARY && it.has_session();
        self.backends.values().filter(told).map(|it| it.id).collect()
    }

    /// Sends a request to a backend, or into its gate.
    pub(crate) fn send_to_backend(
        &mut self,
        id: BackendId,
        owner: Owner,
        purpose: Purpose,
        frame: &Frame,
        out: &mut Effects,
    ) -> Option<SentId> {
        let (sent, frame) = self.accept(id, owner, purpose, frame, out)?;
        self.release(id, frame, out);
        Some(sent)
    }

    /// Notes a request as one that a backend will get; gives it back under its new number.
    pub(crate) fn accept(
        &mut self,
        id: BackendId,
        owner: Owner,
        purpose: Purpose,
        frame: &Frame,
        out: &mut Effects,
    ) -> Option<(SentId, Frame)> {
        let Some(backend) = self.backend(id).filter(|it| it.accepts()) else {
            let failure = self.unavailable(id, frame.method().unwrap_or_default());
            self.fail_request(&owner, &purpose, &failure, out);
            return None;
        };
        Some(self.requests.sent(To::Gate(backend.id), owner, purpose, frame))
    }

    /// Answers a request that no process will answer. A change of the catalogue is decided by that.
    pub(crate) fn fail_request(
        &mut self,
        owner: &Owner,
        purpose: &Purpose,
        failure: &Failure,
        out: &mut Effects,
    ) {
        let required = self.server.as_ref().is_none_or(|it| it.settings.policy.required);
        match (owner, purpose) {
            // The editor goes on without the server; a message tells its user.
            (Owner::Client(client, id), Purpose::Initialize) if !required => {
                let answer = Frame::response(id.clone(), br#"{"capabilities":{}}"#);
                out.push(Effect::Send(Peer::Client(*client), self.with_commands(&answer)));
            }
            _ => self.fail(owner, failure, out),
        }
        if matches!(purpose, Purpose::Tools(_)) {
            self.tool_change_undecided(false, out);
        }
    }

    /// Passes an accepted message on as soon as the process can take it.
    pub(crate) fn release(&mut self, id: BackendId, frame: Frame, out: &mut Effects) {
        let undecided = self.catalogue.undecided > 0;
        let Some(backend) = self.backends.get(&id) else { return };
        if !backend.gate_is_empty() || !backend.is_open(undecided) {
            if let Some(backend) = self.backends.get_mut(&id) {
                backend.gate().push_back(frame);
            }
            return;
        }
        let process = backend.process();
        self.deliver(process, frame, out);
    }

    pub(crate) fn notify_backend(&mut self, id: BackendId, frame: &Frame, out: &mut Effects) {
        match self.backend(id).is_some_and(Backend::accepts) {
            true => self.release(id, frame.clone(), out),
            false => debug!(?frame, "dropped: the server is not running"),
        }
    }

    /// Passes on what has waited, as far as the process can take it now.
    pub(crate) fn flush(&mut self, id: BackendId, out: &mut Effects) {
        let undecided = self.catalogue.undecided > 0;
        let Some(backend) = self.backends.get_mut(&id).filter(|it| it.is_open(undecided)) else { return };
        let process = backend.process();
        for frame in std::mem::take(backend.gate()) {
            self.deliver(process, frame, out);
        }
    }

    /// Asks a process something that lspool itself wants, past the gate.
    pub(crate) fn ask_backend(
        &mut self,
        id: BackendId,
        purpose: Purpose,
        method: &str,
        params: &[u8],
        out: &mut Effects,
    ) {
        let Some(process) = self.backend(id).map(Backend::process) else { return };
        let frame = Frame::request(RawId::from(0), method, Some(params));
        let (_, frame) = self.requests.sent(To::Process(process), Owner::Proxy, purpose, &frame);
        out.push(Effect::Send(Peer::Backend(process), frame));
    }

    fn on_tools(&mut self, tools: Tools, owner: Owner, frame: &Frame, out: &mut Effects) {
        let params = frame.params().unwrap_or(b"{}");
        let change = Self::tool_change(tools, params);
        self.tool_change_undecided(true, out);
        self.send_to_backend(PRIMARY, owner, Purpose::Tools(change), frame, out);
    }

    fn unavailable(&self, id: BackendId, method: &str) -> Failure {
        let (name, why) = match self.backend(id) {
            Some(backend) => (backend.name.clone(), why_not(backend)),
            None => ("the server".to_owned(), "it is not running".to_owned()),
        };
        warn!(name, method, why, "a request for a server that is not available");
        let message = format!("{name} is not available for {method}: {why}");
        let is_stopped = self.backend(id).is_some_and(|it| it.life.state() == State::Stopped);
        let cause = if is_stopped { Cause::NotStarted } else { Cause::Unavailable };
        Failure { cause, partition: Some(name), message, retry: false }
    }
}

/// Why a backend does not serve, and what can be done.
fn why_not(backend: &Backend) -> String {
    let why = match (backend.life.state(), &backend.last_error) {
        (State::Failed, Some(why)) => format!("it has failed: {why}"),
        (State::Failed, None) => "it has failed".to_owned(),
        (_, _) => "it was stopped".to_owned(),
    };
    let name = if backend.id == PRIMARY { backend.name.clone() } else { backend.set.to_string() };
    format!("{why}; `lspool restart {name}` starts it again")
}

/// An id under this key of the parameters.
pub(crate) fn field(frame: &Frame, key: &str) -> Option<RawId> {
    let params = frame.params()?;
    RawId::from_raw(&params[member(params, key)?]).filter(|it| !it.is_null())
}
