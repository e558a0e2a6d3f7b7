//! What the server asks: the hub answers, or a client does.

use serde_json::json;

use super::{Hub, PROCESS};
use crate::{
    core::{
        event::{ClientId, Effect, Peer},
        ids::RequestId,
        mux::{
            failure::{Cause, Failure},
            requests::{Owner, Pending, To},
        },
        purpose::Purpose,
    },
    rpc::{Frame, Patch, RawId, elements, path, text},
};

/// What stands at the server, for clients that come later.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Registrations by their ids, as raw JSON, in their order.
    registrations: Vec<(String, Vec<u8>)>,
    /// The workspace folders of the server's `initialize`, as raw JSON.
    folders: Vec<u8>,
}

impl Standing {
    pub(super) fn note_initialize(&mut self, params: &[u8]) {
        let folders = path(params, &["workspaceFolders"]).map(|it| params[it].to_vec());
        self.folders = folders.unwrap_or_else(|| b"null".to_vec());
    }

    fn note(&mut self, method: &str, params: &[u8]) {
        // The protocol has a spelling mistake.
        let keys = ["registrations", "unregisterations", "unregistrations"];
        for list in keys.iter().filter_map(|key| path(params, &[key])) {
            let list = &params[list];
            for range in elements(list) {
                let one = &list[range];
                let id = text(one, &["id"]).unwrap_or_default();
                self.registrations.retain(|it| it.0 != id);
                if method == REGISTER {
                    self.registrations.push((id, one.to_vec()));
                }
            }
        }
    }
}

const REGISTER: &str = "client/registerCapability";
const UNREGISTER: &str = "client/unregisterCapability";

impl Hub {
    pub(super) fn on_server_request(&mut self, frame: &Frame) {
        let method = frame.method().unwrap_or_default();
        match method {
            REGISTER | UNREGISTER => {
                self.standing.note(method, frame.params().unwrap_or_default());
                self.answer_server(frame, b"null");
                self.ask_all(frame);
            }
            "window/workDoneProgress/create" => self.on_created(frame),
            "workspace/configuration" => self.on_configuration_asked(frame),
            "workspace/workspaceFolders" => {
                let folders = self.standing.folders.clone();
                self.answer_server(frame, &folders);
            }
            _ if method.starts_with("workspace/") && method.ends_with("/refresh") => {
                self.answer_server(frame, b"null");
                self.ask_all(frame);
            }
            _ => self.relay(frame),
        }
    }

    pub(super) fn answer_server(&mut self, request: &Frame, result: &[u8]) {
        if let Some(id) = request.id() {
            self.tell_server(Frame::response(id, result));
        }
    }

    /// Passes a request of the server to the client that it is about.
    fn relay(&mut self, frame: &Frame) {
        let target = self.who_asks().or(self.turns.current()).or_else(|| self.leader());
        let can = |it: &ClientId| self.clients.get(it).is_some_and(|it| it.is_initialized);
        match target.filter(can).or_else(|| self.leader()) {
            Some(client) => self.relay_to(client, frame),
            None => self.answer_for_nobody(frame),
        }
    }

    fn relay_to(&mut self, client: ClientId, frame: &Frame) {
        let Some(id) = frame.id() else { return };
        let mut sent_frame = frame.clone();
        if frame.method() == Some("workspace/applyEdit") {
            match self.edit_for(client, frame.params().unwrap_or_default()) {
                Ok(Some(params)) => sent_frame = frame.with_params(&params),
                Ok(None) => {}
                Err(outdated) => {
                    let why = json!({"applied": false, "failureReason": outdated.0}).to_string();
                    return self.answer_server(frame, why.as_bytes());
                }
            }
        }
        let owner = Owner::Backend(PROCESS, RequestId::from(id));
        let (_, out) = self.requests.register(To::Client(client), owner, Purpose::Plain, &sent_frame);
        self.act(Effect::Send(Peer::Client(client), out));
    }

    /// What a server is answered while no client is there.
    fn answer_for_nobody(&mut self, frame: &Frame) {
        match frame.method().unwrap_or_default() {
            "workspace/applyEdit" => {
                self.answer_server(frame, br#"{"applied":false,"failureReason":"no editor is attached"}"#);
            }
            "window/showDocument" => self.answer_server(frame, br#"{"success":false}"#),
            "window/showMessageRequest" => self.answer_server(frame, b"null"),
            method => {
                let failure =
                    Failure::new(Cause::MethodNotFound, format!("no editor is attached to answer {method}"));
                if let Some(id) = frame.id() {
                    self.tell_server(failure.answer(id.into()));
                }
            }
        }
    }

    /// The answer of a client to a request of the server, or of the hub.
    pub(super) fn on_client_answer(&mut self, client: ClientId, frame: &Frame) {
        let Some(id) = frame.id() else { return };
        let Some((sent, pending)) = self.requests.take_answered(&id, Peer::Client(client)) else { return };
        match pending.owner {
            Owner::Backend(_, request) => {
                self.note_configuration(client, sent, frame);
                self.tell_server(frame.with_id(request.into()));
            }
            Owner::Proxy => self.on_settings_answer(client, sent, frame),
            Owner::Client(..) | Owner::Part(_) => {}
        }
    }

    pub(super) fn on_unreadable_answer(&mut self, client: ClientId, id: &RawId) {
        let Some((sent, pending)) = self.requests.take_answered(id, Peer::Client(client)) else { return };
        let failure = Failure::new(Cause::BadAnswer, "the answer of the editor is malformed");
        match pending.owner {
            Owner::Backend(_, request) => self.tell_server(failure.answer(request)),
            Owner::Proxy => self.on_settings_answer(client, sent, &failure.answer(RawId::from(0).into())),
            Owner::Client(..) | Owner::Part(_) => {}
        }
    }

    /// The server cancels a request of its own.
    pub(super) fn on_server_cancel(&mut self, frame: &Frame) {
        let params = frame.params().unwrap_or_default();
        let id = path(params, &["id"]).and_then(|it| RawId::from_raw(&params[it]));
        let sent = id.and_then(|it| self.requests.of_process(PROCESS, &RequestId::from(it)));
        let to = sent.and_then(|it| self.requests.get(it)).map(|it| it.to);
        if let (Some(sent), Some(To::Client(client))) = (sent, to) {
            let raw = RawId::from(sent);
            let params = Patch::of(params).set("id", raw.as_bytes()).finish();
            self.tell_client(client, frame.with_params(&params));
        }
    }

    /// A client has left: others answer what it was asked.
    pub(super) fn reroute(&mut self, client: ClientId) {
        let asked = |it: &Pending| it.to == To::Client(client);
        for sent in self.requests.filter(asked) {
            let Some(pending) = self.requests.take(sent) else { continue };
            self.settings.forget(sent);
            let Owner::Backend(_, request) = pending.owner else { continue };
            let frame = pending.frame.with_id(request.into());
            match frame.method() {
                Some("workspace/configuration") => self.on_configuration_asked(&frame),
                // It was about a text or a user that has left.
                Some("workspace/applyEdit" | "window/showMessageRequest" | "window/showDocument") => {
                    self.answer_for_nobody(&frame);
                }
                _ => self.relay(&frame),
            }
        }
    }

    /// Tells a new client what stands.
    pub(super) fn catch_up(&mut self, client: ClientId) {
        let all = &self.standing.registrations;
        if !all.is_empty() {
            let list = all.iter().map(|it| it.1.as_slice()).collect::<Vec<_>>().join(&b',');
            let params = [br#"{"registrations":["#.as_slice(), &list, b"]}"].concat();
            self.ask_client(client, &Frame::request(RawId::from(0), REGISTER, Some(&params)));
        }
        self.tell_created(client);
    }
}
