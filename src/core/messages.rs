//! The life of a message: `Proxy` asks the higher owners in turn, and hands the answer to the mux.

use super::{
    Proxy,
    admin::{command, wrong_parameter},
    backends::{cancel, fail_backend, half},
    copilot::{
        Copilot,
        modes::moving,
        turns::tool_calls::FromServer,
        turns::{Placed, tool_calls::cancelled_call},
    },
    event::{ClientId, ProcessId},
    ids::RequestId,
    mux::{
        clients::FromEditor,
        failure::{Cause, Failure, MalformedMessage},
        pool::backend::Backend,
        requests::Owner,
        routes::Keep,
    },
    purpose::{CopilotPurpose, Purpose, ToolQuestion},
};
use crate::rpc::{Frame, Kind};

// Messages of clients.
impl Proxy {
    pub(super) fn on_editor_frame(&mut self, frame: Frame) {
        match self.mux.on_editor_frame(frame) {
            FromEditor::Handled => {}
            FromEditor::LateAnswer(frame) => self.on_editor_answer(&frame),
            FromEditor::Open(frame) => match frame.kind() {
                Kind::Response => self.on_editor_answer(&frame),
                Kind::Notification => self.on_editor_notification(&frame),
                Kind::Request => self.on_editor_request(&frame),
            },
        }
    }

    fn on_editor_request(&mut self, frame: &Frame) {
        let (Some(id), Some(method)) = (frame.id().map(RequestId::from), frame.method()) else { return };
        let is_owed = || {
            self.admin.is_owed(ClientId::EDITOR, &id)
                || (self.copilot.is_some() && self.agents.owes(&id))
                || self.code_tools.as_ref().is_some_and(|it| it.owes(ClientId::EDITOR, &id))
        };
        if self.mux.is_in_use(&id, is_owed) {
            let message = format!("request id {id} is in use by a request that is not answered yet");
            return self.mux.tell_editor(Failure::new(Cause::InvalidRequest, message).answer(id));
        }
        if method == "initialize" && self.mux.is_refused_handshake() {
            return self.mux.forward_initialize(frame);
        }
        if method == "shutdown" {
            self.cancel_orchestrations();
            return self.mux.on_shutdown(id);
        }
        let owner = Owner::Client(ClientId::EDITOR, id);
        let params = frame.params().unwrap_or(b"{}");
        if method == "workspace/executeCommand"
            && let Some((method, params)) = command(&self.mux, params)
        {
            self.control(owner, method, &params);
            return;
        }
        if method.starts_with("lspool/") && self.control(owner.clone(), method, params) {
            return;
        }
        let keep = self.keep(frame);
        let Proxy { mux, copilot, .. } = self;
        let Some(copilot) = copilot.as_mut().filter(|_| Copilot::is_meant(mux, frame)) else {
            return mux.forward_request(owner, frame);
        };
        let placed = copilot.on_client_request(mux, owner, keep, frame);
        self.create(placed);
    }

    /// Creates a conversation that has a place.
    fn create(&mut self, placed: Option<Placed>) {
        let Proxy { mux, copilot: Some(copilot), agents, .. } = self else { return };
        let Some(placed) = placed else { return };
        if placed.is_lead() {
            agents.load_teams(mux);
        }
        copilot.bind(mux, placed);
    }

    fn on_editor_notification(&mut self, frame: &Frame) {
        match frame.method() {
            Some("$/cancelRequest") => return self.on_editor_cancel(frame),
            Some("window/workDoneProgress/cancel" | "$/progress") => return self.on_editor_progress(frame),
            // The session that is replayed says it.
            Some("initialized") if !self.mux.on_editor_initialized() => {
                let Proxy { mux, copilot: Some(copilot), .. } = self else { return };
                // The members of a group have been told so.
                if mux.is_group() && mux.backend(copilot.primary()).is_some_and(Backend::has_session) {
                    copilot.on_client_initialized(mux);
                }
                return;
            }
            Some(_) | None => {}
        }
        let keep = self.keep(frame);
        match &mut self.copilot {
            Some(copilot) if self.mux.is_group() => {
                let mux = &mut self.mux;
                let id = copilot.server_id();
                if !Copilot::is_meant(mux, frame) {
                    mux.notify_group(frame, Some(id));
                }
                if mux.is_for_member(id, frame) {
                    let configured = mux.configuration_for(id, frame);
                    let frame = configured.as_ref().unwrap_or(frame);
                    let keep = mux.keep_for_member(id, frame);
                    copilot.on_client_notification(mux, keep, frame);
                }
            }
            Some(copilot) => {
                copilot.on_client_notification(&mut self.mux, keep, frame);
                if frame.method() == Some("initialized") {
                    copilot.on_client_initialized(&mut self.mux);
                }
            }
            None => self.mux.forward_notification(keep, frame),
        }
    }

    /// Notes a message that later processes need. Other folders may have another configuration.
    fn keep(&mut self, frame: &Frame) -> Option<Keep> {
        let keep = self.mux.keep(frame);
        if keep == Some(Keep::Folders) {
            self.admin.reload(&mut self.mux);
        }
        if let (Some("textDocument/didOpen" | "textDocument/didSave"), Some(copilot)) =
            (frame.method(), &mut self.copilot)
            && copilot.may_get_code_tools(&self.mux, frame)
        {
            self.admin.reload(&mut self.mux);
        }
        keep
    }

    fn on_editor_cancel(&mut self, frame: &Frame) {
        let Proxy { mux, copilot, agents, code_tools, .. } = self;
        if code_tools.as_mut().is_some_and(|it| it.cancels(mux, ClientId::EDITOR, frame)) {
            return;
        }
        let is_orchestration =
            copilot.as_mut().is_some_and(|it| agents.cancels_orchestration(it, mux, frame));
        if !is_orchestration {
            cancel(copilot, mux, ClientId::EDITOR, frame);
        }
    }

    fn on_editor_progress(&mut self, frame: &Frame) {
        let Proxy { mux, copilot: Some(copilot), agents, .. } = self else {
            if !self.mux.on_editor_progress(frame) && !self.mux.on_progress_in_group(frame) {
                self.mux.forward_notification(None, frame);
            }
            return;
        };
        let cancels = frame.method() == Some("window/workDoneProgress/cancel");
        if !(cancels && agents.cancels_orchestration_by_token(copilot, mux, frame)) {
            copilot.on_editor_progress(mux, frame);
        }
    }

    pub(super) fn cancel_orchestrations(&mut self) {
        if let Some(copilot) = &mut self.copilot {
            self.agents.cancel_orchestrations(copilot, &mut self.mux);
        }
    }

    pub(super) fn on_control_frame(&mut self, client: ClientId, frame: &Frame) {
        if frame.method() == Some("$/cancelRequest") {
            if let Some(tools) = &mut self.code_tools {
                tools.cancels(&mut self.mux, client, frame);
            }
            return;
        }
        let (Kind::Request, Some(id), Some(method)) = (frame.kind(), frame.id(), frame.method()) else {
            return;
        };
        let owner = Owner::Client(client, id.into());
        if !self.control(owner.clone(), method, frame.params().unwrap_or(b"{}")) {
            let message = format!("lspool has no method {method:?}");
            self.mux.fail(&owner, &Failure::new(Cause::MethodNotFound, message));
        }
    }

    /// Handles a request to lspool itself. Returns whether it is one.
    fn control(&mut self, owner: Owner, method: &str, params: &[u8]) -> bool {
        let Proxy { mux, copilot, agents, code_tools, admin, .. } = self;
        if let Some(wrong) = wrong_parameter(method, params) {
            mux.fail(&owner, &Failure::new(Cause::InvalidParams, wrong));
            return true;
        }
        match method {
            // The editor has the tools for an orchestration.
            "lspool/orchestrate" if matches!(owner, Owner::Client(ClientId::EDITOR, _)) => {
                agents.on_orchestrate(copilot.as_mut(), mux, owner, params);
            }
            "lspool/callTool" => match code_tools {
                Some(tools) => tools.on_call(mux, owner, params),
                None => return false,
            },
            "lspool/cancelAgent" => agents.on_cancel_agent(copilot.as_mut(), mux, &owner, params),
            "lspool/move" => moving::on_move(copilot.as_mut(), mux, &owner, params),
            _ => return admin.on_request(mux, copilot, agents, owner, method, params),
        }
        true
    }

    fn on_editor_answer(&mut self, answer: &Frame) {
        let Some((sent, pending)) = self.mux.take_answered_by_editor(answer) else { return };
        let Proxy { mux, copilot, admin, .. } = self;
        match (&pending.purpose, copilot) {
            (Purpose::Edit, _) => admin.on_edited(mux, sent, Some(answer)),
            (Purpose::Offer(backend), copilot) => admin.on_offer_answered(mux, copilot, *backend, answer),
            (_, Some(copilot)) => copilot.on_question_answered(mux, sent, pending, answer),
            (_, None) => mux.answer_server(&pending, answer),
        }
    }

    pub(super) fn on_malformed_client(&mut self, client: ClientId, id: MalformedMessage, reason: &str) {
        let asked = self.mux.on_malformed_client(client, id, reason);
        let Some((sent, pending)) = asked else { return };
        match (&pending.purpose, &mut self.copilot) {
            (Purpose::Edit, _) => self.admin.on_edited(&mut self.mux, sent, None),
            (_, Some(copilot)) => copilot.on_late_answer(&mut self.mux, sent, pending, None),
            (_, None) => {}
        }
    }
}

// Messages of servers.
impl Proxy {
    pub(super) fn on_server_frame(&mut self, process: ProcessId, frame: Frame) {
        self.mux.heard(process);
        if !self.mux.listens_to(process, &frame) {
            return;
        }
        if let Some(tools) = &mut self.code_tools {
            tools.observe(&self.mux, process, &frame);
        }
        match (frame.kind(), frame.method()) {
            (Kind::Response, _) => self.on_server_answer(process, &frame),
            (Kind::Request, _) => self.on_server_request(process, &frame),
            (Kind::Notification, Some("$/progress")) => self.on_server_progress(process, &frame),
            (Kind::Notification, Some("$/cancelRequest")) => {
                if let Some(wire) = self.mux.on_server_cancel(process, &frame) {
                    self.mux.tell(process, cancelled_call(wire, ToolQuestion::Call));
                }
            }
            (Kind::Notification, _) => match half(&mut self.copilot, &self.mux, process.backend) {
                Some(copilot) => {
                    if let Some(told) = copilot.on_server_notification(&mut self.mux, process, frame) {
                        self.mux.pass_notification(process, told);
                    }
                }
                None => self.mux.on_server_notification(process, frame),
            },
        }
    }

    fn on_server_request(&mut self, process: ProcessId, frame: &Frame) {
        let Proxy { mux, copilot, agents, .. } = self;
        let Some(copilot) = half(copilot, mux, process.backend) else {
            return mux.on_server_request(process, frame);
        };
        match copilot.on_server_request(mux, process, frame) {
            FromServer::Handled => {}
            FromServer::Pass => mux.on_server_request(process, frame),
            FromServer::Call(call) => {
                if !agents.answer_call(copilot, mux, &call) {
                    copilot.ask_call(mux, call);
                }
            }
        }
    }

    fn on_server_progress(&mut self, process: ProcessId, frame: &Frame) {
        let Proxy { mux, copilot, agents, .. } = self;
        let Some(copilot) = half(copilot, mux, process.backend) else {
            return mux.on_server_progress(process, frame);
        };
        let Some(progress) = copilot.on_progress(mux, process, frame) else { return };
        let is_held = progress
            .ends
            .as_ref()
            .is_some_and(|id| agents.hold_end_for_results(copilot, mux, id, &progress.params));
        if !is_held {
            Copilot::pass_progress(mux, process, frame, progress);
        }
    }

    fn on_server_answer(&mut self, process: ProcessId, answer: &Frame) {
        let Some((sent, pending)) = self.mux.take_answered_by_server(process, answer) else { return };
        let Proxy { mux, copilot, agents, .. } = self;
        let mut copilot = half(copilot, mux, process.backend);
        let pending = match &mut copilot {
            Some(copilot) => {
                if copilot.ask_unrestored(mux, process, sent, &pending, answer)
                    || copilot.ask_forgotten(mux, process, sent, &pending, answer)
                {
                    return;
                }
                if let Purpose::Copilot(CopilotPurpose::SignInCheck(request)) = &pending.purpose {
                    let placed = copilot.on_sign_in_answered(mux, &pending, request, answer);
                    return self.create(placed);
                }
                let left = agents.suspend_for_results(copilot, mux, sent, pending, answer);
                let Some(pending) = left else { return };
                copilot.on_answer(mux, process, &pending, answer);
                pending
            }
            None => {
                mux.pass_answer(process, &pending, answer);
                pending
            }
        };
        match (pending.purpose, copilot) {
            (Purpose::Initialize, _) => self.on_initialized(process, answer),
            (Purpose::Shutdown, _) => mux.on_shutdown_progress(),
            (Purpose::Copilot(purpose), Some(copilot)) => {
                copilot.on_answered(mux, process, sent, purpose, answer);
            }
            (Purpose::Copilot(_), None) => {}
            (
                Purpose::Plain
                | Purpose::Configuration { .. }
                | Purpose::Offer(_)
                | Purpose::Allow(_)
                | Purpose::Edit
                | Purpose::Pull { .. }
                | Purpose::Relay { .. },
                _,
            ) => {}
        }
    }

    /// Handles a malformed message of a server. If it was an answer: ends the progress of the request, fails the
    /// request, and informs the owner that waits for the answer, in this order.
    pub(super) fn on_malformed_server(&mut self, process: ProcessId, id: MalformedMessage, reason: &str) {
        let Some((sent, pending, failure)) = self.mux.on_malformed_server(process, id, reason) else {
            return;
        };
        let message = serde_json::json!(failure.message).to_string();
        let copilot = half(&mut self.copilot, &self.mux, process.backend);
        let subject = copilot.as_ref().and_then(|_| Copilot::subject(&pending));
        self.mux.end_token(process, &pending, subject, Some(message.as_bytes()));
        self.mux.fail(&pending.owner, &failure);
        if let Some(copilot) = copilot {
            copilot.on_lost_answer(&mut self.mux, process, sent, &pending);
        }
        self.mux.on_lost_answer(process, &pending);
    }

    /// Handles the answer of a process to `initialize`.
    fn on_initialized(&mut self, process: ProcessId, answer: &Frame) {
        match self.mux.on_initialized(process, answer) {
            None => {}
            Some(Err(failure)) => fail_backend(&mut self.copilot, &mut self.mux, process.backend, &failure),
            Some(Ok(ready)) => self.on_ready(process, &ready, answer.result().unwrap_or(b"{}")),
        }
    }
}
