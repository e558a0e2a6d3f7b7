//! The interface of the Copilot half for `Proxy`, in the order of a message's life. With a plain language server none
//! of it runs.
//!
//! Messages of clients; writes to processes; requests, notifications and answers of servers; start, readiness and end
//! of a process; the end of an event; time.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use tracing::debug;

use super::{
    Copilot,
    conversation::Conversation,
    routes::{Route, is_about_process, is_own, route},
    session::{CHECK_STATUS, CopilotReplay, for_set, pushed_mcp_servers},
    sign_in::is_error,
    tools::{
        brought::{SpareKind, initialize_for},
        calls::CONFIRMATION,
        tool_set::ToolSet,
    },
    turns::{Placed, tool_calls::FromServer},
    versions,
};
use crate::{
    core::{
        event::{BackendId, ProcessId},
        ids::{ConversationId, TurnId},
        mux::{
            Mux,
            from_client::field,
            pool::{
                backend::Backend,
                lifecycle::Demand,
                processes::{Aftermath, Gone, Outlook, StillWanted, Successor},
                refusal::is_refusable,
            },
            requests::{Owner, Pending, To},
            routes::Keep,
        },
        purpose::{CopilotPurpose, Purpose, SentId, ToolQuestion},
    },
    rpc::{Frame, Kind, RawId, member, text},
    util::redact::redact,
};

/// The default of `hang_timeout` for a Copilot server.
pub(super) const HANG_TIMEOUT: Duration = Duration::from_mins(1);

/// Requests whose answers list the MCP servers and their tools.
const MCP_LISTS: [&str; 2] = ["mcp/getTools", "mcp/updateToolsStatus"];

/// The parts of a configuration that matter to a running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reloaded {
    BuiltinTools,
    Agents,
}

// Messages of clients.
impl Copilot {
    /// Whether a message of the editor's is for the Copilot server alone. All are, if there is no other server.
    pub(crate) fn is_meant(mux: &Mux, frame: &Frame) -> bool {
        if !mux.is_group() {
            return true;
        }
        let method = frame.method().unwrap_or_default();
        let command = || text(frame.params().unwrap_or(b"{}"), &["command"]);
        is_own(method)
            || method == "workspace/executeCommand"
                && command().is_some_and(|it| it.starts_with("github.copilot."))
    }

    /// A request of the editor's. Gives the place of a conversation that is to be created.
    pub(crate) fn on_client_request(
        &mut self,
        mux: &mut Mux,
        owner: Owner,
        keep: Option<Keep>,
        frame: &Frame,
    ) -> Option<Placed> {
        if let Some(keep) = keep {
            self.tell_everyone(mux, keep, Some(owner), frame);
            if frame.method() == Some("signOut") {
                self.check_status_elsewhere(mux);
            }
            return None;
        }
        if self.waits_for_create(mux, &owner, frame) {
            return None;
        }
        match route(frame.method().unwrap_or_default()) {
            Route::TurnDelete => {
                self.on_turn_delete(frame);
                let backend = self.by_conversation(mux, frame);
                mux.send_to_backend(backend, owner, Purpose::Plain, frame);
            }
            Route::Default => {
                let backend = self.by_conversation(mux, frame);
                mux.send_to_backend(backend, owner, Purpose::Plain, frame);
            }
            Route::Turns => {
                let turn: Option<TurnId> = field(frame, "turnId");
                let backend = turn.and_then(|it| self.conversations.of_turn(&it)).unwrap_or(self.primary);
                mux.send_to_backend(self.served(mux, backend), owner, Purpose::Plain, frame);
            }
            Route::Create => return self.on_create(mux, owner, frame),
            Route::Turn if self.turn_asks_for_sign_in(mux, &owner, frame) => {}
            Route::Turn => self.on_turn(mux, owner, frame),
            Route::Destroy => self.on_destroy(mux, owner, frame),
            Route::Tools(tools) => self.on_tools(mux, tools, owner, frame),
            Route::SignIn => self.send_sign_in(mux, owner, frame),
            Route::Command => {
                let command = frame.params().and_then(|it| Some(&it[member(it, "command")?]));
                match command == Some(b"\"github.copilot.finishDeviceFlow\"") {
                    true => self.send_sign_in(mux, owner, frame),
                    false => drop(mux.send_to_backend(self.primary, owner, Purpose::Plain, frame)),
                }
            }
        }
        None
    }

    /// Handles a notification of the editor.
    pub(crate) fn on_client_notification(&mut self, mux: &mut Mux, keep: Option<Keep>, frame: &Frame) {
        match keep {
            Some(keep) => self.tell_everyone(mux, keep, None, frame),
            None => {
                let backend = self.by_conversation(mux, frame);
                mux.notify_backend(backend, frame);
            }
        }
    }

    /// Notes that the primary has got `initialized`.
    pub(crate) fn on_client_initialized(&mut self, mux: &mut Mux) {
        self.register_builtin_tools(mux);
        if let Some(folder) = &self.session.kept_transcripts {
            let session = self.generic_session(mux);
            let set = ToolSet::all();
            let keep = self.session.transcripts(session, &set, Some(folder));
            mux.notify_backend(self.primary, &keep);
        }
    }

    fn send_sign_in(&mut self, mux: &mut Mux, owner: Owner, frame: &Frame) {
        let purpose = Purpose::Copilot(CopilotPurpose::SignIn);
        if let Some(sent) = mux.send_to_backend(self.primary, owner, purpose, frame) {
            mux.requests_mut().mark(sent, |it| it.waits_for_user = true);
        }
    }

    /// The partition of the conversation in the parameters, or the primary.
    fn by_conversation(&self, mux: &Mux, frame: &Frame) -> BackendId {
        let conversation = field(frame, "conversationId").and_then(|it| self.conversations.get(&it));
        self.served(mux, conversation.map_or(self.primary, |it| it.backend))
    }

    /// Questions to a partition without a process go to the primary, which answers for unknown ids.
    pub(super) fn served(&self, mux: &Mux, backend: BackendId) -> BackendId {
        if mux.backend(backend).is_some_and(Backend::accepts) { backend } else { self.primary }
    }

    /// Sends a message for every process to all running ones, and keeps it for later ones.
    fn tell_everyone(&mut self, mux: &mut Mux, keep: Keep, owner: Option<Owner>, frame: &Frame) {
        match (frame.method(), frame.params()) {
            (Some("github/didChangeAuth"), Some(params)) => self.session.sign_in(params),
            (Some("signOut"), Some(_)) => self.session.sign_out(),
            (Some("mcp/updateToolsStatus"), params) => self.note_mcp_statuses(params.unwrap_or(b"{}")),
            _ => {}
        }
        if let (Some(method @ ("github/didChangeAuth" | "signOut")), params) =
            (frame.method(), frame.params())
        {
            self.note_sign_out(method, params.unwrap_or(b"{}"));
        }
        let kept = self.session.keeping(frame);
        let frame = kept.as_ref().unwrap_or(frame);
        let partitions = self.partitions_with_session(mux);
        match owner {
            Some(owner) => drop(mux.send_to_backend(self.primary, owner, Purpose::Plain, frame)),
            None => mux.notify_primary(self.primary, Some(keep), frame),
        }
        if partitions.is_empty() {
            return;
        }
        // Copied, so that a slow process does not keep a shared buffer alive.
        let frame = frame.unshared();
        for id in partitions {
            let Some(set) = self.partitions.set(id) else { continue };
            let frame = for_set(&frame, set);
            // A queued message must not be waited for.
            let at_once = mux.backend(id).is_some_and(|it| it.queued().is_empty() && it.is_open());
            match frame.kind() {
                Kind::Request => drop(mux.send_to_backend(id, Owner::Proxy, Purpose::Plain, &frame)),
                Kind::Notification | Kind::Response => mux.notify_backend(id, &frame),
            }
            if let Some(servers) = pushed_mcp_servers(&frame).filter(|_| at_once) {
                self.await_mcp(mux, id, servers);
            }
            if frame.method() == Some("github/didChangeAuth") {
                // After the sign-in, which may be in the queue.
                let check = Frame::request(RawId::from(0), CHECK_STATUS.0, Some(CHECK_STATUS.1));
                mux.send_to_backend(id, Owner::Proxy, Purpose::Plain, &check);
                self.await_mcp_again(mux, id);
            }
        }
    }

    /// The partitions that must get messages for every process.
    pub(super) fn partitions_with_session(&self, mux: &Mux) -> Vec<BackendId> {
        let told = |it: &&Backend| it.id != self.primary && it.has_session();
        self.backends(mux).filter(told).map(|it| it.id).collect()
    }

    /// Makes the other processes check the sign-in, which one process has stored or removed.
    fn check_status_elsewhere(&mut self, mux: &mut Mux) {
        for id in self.partitions_with_session(mux) {
            self.await_mcp_again(mux, id);
            mux.ask_backend(id, Purpose::Plain, CHECK_STATUS.0, CHECK_STATUS.1);
        }
    }
}

// Writes to processes.
impl Copilot {
    /// Sends the queue, as far as the process can take it.
    pub(crate) fn flush(&mut self, mux: &mut Mux, id: BackendId) {
        for (process, frame) in mux.take_queue(id) {
            self.deliver(mux, process, frame);
        }
    }

    /// Sends an accepted message, which may be a turn, as soon as the process can take it.
    pub(crate) fn release(&mut self, mux: &mut Mux, id: BackendId, frame: Frame) {
        if let Some((process, frame)) = mux.pass_queue(id, frame) {
            self.deliver(mux, process, frame);
        }
    }

    /// Handles requests that get no answer: this decides about a change of the catalog.
    pub(super) fn settle_dropped(&mut self, mux: &mut Mux) {
        loop {
            let dropped = mux.take_dropped();
            if dropped.is_empty() {
                return;
            }
            for purpose in dropped {
                if matches!(purpose, CopilotPurpose::Tools(_)) {
                    self.tool_change_decided(mux);
                }
            }
        }
    }
}

// Requests, notifications and answers of servers.
impl Copilot {
    /// A request of a server.
    pub(crate) fn on_server_request(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        frame: &Frame,
    ) -> FromServer {
        match frame.method().unwrap_or_default() {
            "conversation/invokeClientTool" => self.on_tool_call(mux, process, frame, ToolQuestion::Call),
            CONFIRMATION => self.on_tool_call(mux, process, frame, ToolQuestion::Confirmation),
            _ => FromServer::Pass,
        }
    }

    /// Handles a notification of a server. Returns the part for the editor.
    pub(crate) fn on_server_notification(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        frame: Frame,
    ) -> Option<Frame> {
        let method = frame.method().unwrap_or_default();
        let params = frame.params().unwrap_or(b"{}");
        let mut told = None;
        self.note_status(process, method, params);
        match method {
            "didChangeStatus" if is_error(params) => self.on_error_status(mux, process.backend),
            "copilot/mcpTools" => {
                self.on_mcp_tools(mux, process, params);
                told = self.as_switched(&frame);
            }
            _ => mux.note_published(process, &frame),
        }
        let is_heard = !self.is_about_modes(process, method) && self.is_heard(mux, process, method, &frame);
        is_heard.then(|| told.unwrap_or(frame))
    }

    /// Whether the editor gets a notification: only the primary's messages about a process pass.
    fn is_heard(&self, mux: &mut Mux, process: ProcessId, method: &str, frame: &Frame) -> bool {
        let Some(backend) = mux.backend(process.backend) else { return false };
        // A restarted process first reports that it is not signed in.
        let restored = backend.is_ready() || process.generation.0 == 1;
        if is_about_process(method) && (process.backend != self.primary || !restored) {
            let said = String::from_utf8_lossy(frame.params().unwrap_or_default());
            let said = redact(&said);
            debug!(backend = backend.name, method, %said, "dropped: about one process only");
            return false;
        }
        method != "window/showMessage" || mux.is_new_message(process, frame)
    }

    /// Forwards an answer of a server to the client.
    pub(crate) fn on_answer(&mut self, mux: &mut Mux, process: ProcessId, pending: &Pending, answer: &Frame) {
        match Self::subject(pending) {
            Some(conversation) => self.end_before(mux, process, pending, conversation, answer),
            None => mux.close_token(process, pending, answer),
        }
        let told = match &pending.purpose {
            Purpose::Plain => self.deleted(pending, answer).or_else(|| self.without_modes(pending, answer)),
            _ => None,
        };
        mux.answer_client(pending, told.as_ref().unwrap_or(answer));
        mux.note_answered(process, pending, answer);
        if process.backend == self.primary
            && pending.frame.method().is_some_and(|it| MCP_LISTS.contains(&it))
            && let Some(result) = answer.result()
        {
            let servers = member(result, "servers").map_or(result, |range| &result[range]);
            self.learn_mcp(mux, servers);
        }
        if pending.frame.method() == Some("conversation/compress") {
            self.on_compressed(&pending.frame, answer);
        }
    }

    /// Handles a server's answer to a request of the Copilot half.
    pub(crate) fn on_answered(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        sent: SentId,
        purpose: CopilotPurpose,
        answer: &Frame,
    ) {
        match purpose {
            CopilotPurpose::ToolCall { .. } | CopilotPurpose::SignInCheck(_) => {}
            CopilotPurpose::Turn { conversation, kind, .. } => {
                self.on_turn_answered(mux, process, sent, &conversation, kind, answer);
            }
            CopilotPurpose::Tools(change) => {
                self.on_tools_answered(mux, &change, answer.result().is_some());
                if let Some(offered) = answer.result() {
                    self.learn_offered(mux, offered);
                }
            }
            CopilotPurpose::Mode(ask) => self.on_mode_answered(mux, process, ask, Some(answer)),
            CopilotPurpose::Prove => self.on_proof_answered(mux, process, Some(answer)),
            // It has been told to end, and is told nothing more.
            CopilotPurpose::Project | CopilotPurpose::Narrow
                if !mux.backend(process.backend).is_some_and(Backend::goes_on) => {}
            CopilotPurpose::Project => self.on_projected(mux, process, answer),
            CopilotPurpose::Narrow => self.on_narrowed(mux, process, answer),
            CopilotPurpose::SignIn => {
                if answer.result().is_some() {
                    self.check_status_elsewhere(mux);
                }
            }
        }
    }

    /// Handles a request that failed although its process lives.
    pub(crate) fn on_lost_answer(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        sent: SentId,
        pending: &Pending,
    ) {
        let Purpose::Copilot(purpose) = &pending.purpose else { return };
        match purpose {
            CopilotPurpose::Tools(_) => self.tool_change_decided(mux),
            CopilotPurpose::Turn { conversation, .. } => self.end_turn(mux, conversation, sent),
            // Without these a process is useless.
            CopilotPurpose::Project | CopilotPurpose::Narrow => mux.terminate(process, None),
            CopilotPurpose::Mode(ask) => self.on_mode_answered(mux, process, *ask, None),
            CopilotPurpose::Prove => self.on_proof_answered(mux, process, None),
            CopilotPurpose::SignIn | CopilotPurpose::SignInCheck(_) | CopilotPurpose::ToolCall { .. } => {}
        }
    }

    /// The conversation of the progress under the token of a request.
    pub(crate) fn subject(pending: &Pending) -> Option<&ConversationId> {
        match &pending.purpose {
            Purpose::Copilot(CopilotPurpose::Turn { conversation, .. }) => Some(conversation),
            _ => None,
        }
    }
}

// Start, readiness and end of a process.
impl Copilot {
    /// The parameters of `initialize` for a process.
    pub(crate) fn initialize_params(&self, mux: &Mux, id: BackendId) -> Vec<u8> {
        let params = self.generic_session(mux).initialize_now();
        let Some(partition) = self.partitions.get(id) else { return params.to_vec() };
        initialize_for(&params, partition.spare.unwrap_or_else(|| SpareKind::of(&partition.set, &params)))
    }

    /// Replays the session for a process.
    pub(crate) fn replay_session(&mut self, mux: &mut Mux, process: ProcessId) {
        let id = process.backend;
        let Some(set) = self.partitions.set(id).cloned() else { return };
        mux.replay_initialized(process);
        let Some(folders) = mux.backend(id).map(|it| it.folders().to_vec()) else { return };
        let replay = mux.session(self.server).replay(&folders);
        let CopilotReplay { before, documents, after } =
            self.session.replay(mux.session(self.server), replay, &set);
        for frame in before.iter().chain(&after) {
            if let Some(servers) = pushed_mcp_servers(frame) {
                self.await_mcp(mux, id, servers);
            }
        }
        for frame in before {
            mux.replay(process, frame);
        }
        mux.begin_feed(process, documents, after);
        // A process that pulls its settings hears of its MCP servers only then, and its first turn may be here already.
        let mut servers = self.session.mcp_servers(mux.session(self.server));
        servers.retain(|it| set.wants_mcp_server(it));
        if !servers.is_empty() {
            self.await_mcp(mux, id, servers);
        }
        if self.partitions.served(id).is_some() {
            self.project_all(mux, id);
        }
    }

    /// A process is ready: it has answered `initialize` with this.
    pub(crate) fn on_ready(&mut self, mux: &mut Mux, id: BackendId, result: &[u8]) {
        let version = text(result, &["serverInfo", "version"]);
        if id == self.primary {
            mux.note_size(self.server, versions::size(version.as_deref().unwrap_or_default()));
        }
        self.touch_partition(id, version);
    }

    /// Handles the end of a process: decides about its turns. Turns that had not begun, or continue, wait for the
    /// next process, if there can be one. `followed_up`: conversations whose turn waits for results. Returns those of
    /// them that wait, and the demand for a process.
    pub(crate) fn on_gone(
        &mut self,
        mux: &mut Mux,
        gone: &Gone,
        followed_up: &BTreeSet<ConversationId>,
    ) -> (Vec<ConversationId>, Demand) {
        if gone.is_lost_spare {
            self.note_lost_spare(mux);
        }
        let (suspended, waiting) = self.keep_turns(mux, gone.process, gone.outlook, followed_up);
        if gone.outlook == Outlook::Follows {
            let again = mux.requeue(gone.process);
            self.note_asked_again(mux, &again);
        }
        (suspended, waiting)
    }

    /// It is decided whether another process follows. What was said stays, for that one. Gives what is still wanted.
    pub(crate) fn on_successor_decided(&mut self, mux: &Mux, id: BackendId, next: Successor) -> StillWanted {
        let mut refused = self.refused_turns(mux, id);
        let is_refused = |it: &Conversation| it.active().is_some_and(|it| refused.contains(&it));
        let subjects = self.kept_by(mux, id);
        let is_to_come = |active: Option<SentId>| {
            active.and_then(|it| mux.requests().get(it)).is_some_and(|it| it.to == To::Queue(id))
        };
        let stays =
            |it: &Conversation| next == Successor::Follows && is_to_come(it.active()) && !is_refused(it);
        let waited = self.conversations.detach(id, stays);
        let is_later = mux.restarts_later(id).is_some();
        let waited = waited.iter().filter_map(SentId::of);
        let (behind, cut_off): (Vec<SentId>, Vec<SentId>) =
            waited.partition(|it| is_later && Self::is_refusable_turn(mux, id, *it));
        refused.extend(behind);
        StillWanted { subjects, cut_off, refused }
    }

    /// The next process starts only after a while: the turns that no process has begun are not held for so long.
    fn refused_turns(&self, mux: &Mux, id: BackendId) -> Vec<SentId> {
        if mux.restarts_later(id).is_none() {
            return Vec::new();
        }
        let of_backend = self.conversations.iter().filter(|(_, it)| it.backend == id);
        let silent = of_backend.filter(|(_, it)| it.active_turn.turn.is_none());
        let asked = silent.filter_map(|(_, it)| it.active());
        asked.filter(|it| Self::is_refusable_turn(mux, id, *it)).collect()
    }

    fn is_refusable_turn(mux: &Mux, id: BackendId, sent: SentId) -> bool {
        let is_it = |it: &Pending| it.to == To::Queue(id) && is_refusable(&it.owner, &it.purpose);
        mux.requests().get(sent).is_some_and(is_it)
    }

    /// Handles the end of a process after all other owners.
    pub(crate) fn after_gone(&mut self, mux: &mut Mux, after: &Aftermath) {
        self.settle_dropped(mux);
        mux.report_gone(after);
        self.forget(mux, after.process.backend);
        self.start_waiting(mux);
        mux.on_shutdown_progress();
    }

    /// Notes new numbers of requests.
    pub(super) fn note_asked_again(&mut self, mux: &Mux, again: &[(SentId, SentId)]) {
        for (before, sent) in again {
            let purpose = mux.requests().get(*sent).map(|it| &it.purpose);
            if let Some(Purpose::Copilot(CopilotPurpose::Turn { conversation, .. })) = purpose
                && let Some(conversation) = self.conversations.get_mut(conversation)
            {
                conversation.ask_again(*before, *sent);
            }
        }
    }
}

// The end of an event, and time.
impl Copilot {
    /// Handles the consequences of an event. Runs for each message, so it must not search whole tables.
    pub(crate) fn settle(&mut self, mux: &mut Mux) {
        self.settle_dropped(mux);
        self.evict_leaving(mux);
        self.note_changes(mux);
        self.keep_spares(mux);
    }

    /// Ends the event.
    pub(crate) fn end(&mut self, mux: &Mux) {
        self.settle_partitions(mux);
    }

    /// The configuration has changed.
    pub(crate) fn on_reloaded(&mut self, mux: &mut Mux, changed: &[Reloaded]) {
        if changed.contains(&Reloaded::BuiltinTools) {
            self.change_builtin_tools(mux);
        }
        if changed.contains(&Reloaded::Agents) {
            self.describe_agents(mux);
        }
        self.note_isolation(mux);
        // What counts as in use is a setting.
        for id in mux.backends().ids() {
            self.note_use(mux, id);
        }
    }

    /// When something is to be done, and what.
    pub(crate) fn poll_timeout(&self) -> [Option<(Instant, &'static str)>; 2] {
        [
            self.mcp_deadline().map(|at| (at, "an MCP server is not up")),
            self.spare_deadline().map(|at| (at, "spares may be started")),
        ]
    }

    /// MCP servers that are waited for have had their time.
    pub(crate) fn on_mcp_deadlines(&mut self, mux: &mut Mux) {
        let now = mux.now();
        let is_due = |id: BackendId, at: Option<Instant>| {
            at.is_some_and(|at| at <= now) && mux.backend(id).is_some_and(Backend::is_ready)
        };
        let due: Vec<BackendId> = self
            .partitions
            .iter()
            .filter(|(id, it)| is_due(*id, it.mcp.deadline()))
            .map(|(id, _)| id)
            .collect();
        for id in due {
            self.tell_missing_mcp(mux, id);
            self.go_on_without_mcp(mux, id);
        }
    }
}
