//! Messages of servers to the editor, with unique ids and tokens.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tracing::{debug, trace};

use super::Mux;
use crate::{
    core::{
        event::{BackendId, ClientId, Peer, ProcessId, ServerId},
        mux::{
            from_client::field,
            requests::{Owner, To},
            tokens::Lifetime,
        },
        purpose::Purpose,
    },
    rpc::{Frame, Kind, elements, member, values},
};

/// With it a server asks the editor to show progress under a token.
const CREATE: &str = "window/workDoneProgress/create";

/// Messages to the user that are remembered, so that backends do not repeat one another.
const REMEMBERED: usize = 16;

/// How long members of a group say the same only once.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A message to the user.
#[derive(Debug)]
pub(super) struct Said {
    at: Instant,
    by: BackendId,
    server: Option<ServerId>,
    params: Bytes,
}

impl Mux {
    /// Notes a message of a process. Runs for each message.
    pub(crate) fn heard(&mut self, process: ProcessId) {
        let now = self.now();
        self.backends.heard(process, now);
    }

    /// Whether messages of this process still count.
    pub(crate) fn listens_to(&self, process: ProcessId, frame: &Frame) -> bool {
        let Some(backend) = self.backend(process.backend).filter(|it| it.is_current(process)) else {
            trace!(?frame, "dropped: from an older process");
            return false;
        };
        let ends = !backend.accepts() || backend.is_abandoned();
        if ends && frame.kind() != Kind::Response {
            trace!(?frame, "dropped: from a process that lspool ends");
            return false;
        }
        true
    }

    /// Forwards a request of a server to the editor.
    pub(crate) fn on_server_request(&mut self, process: ProcessId, frame: &Frame) {
        debug!(id = ?frame.id(), method = frame.method(), "request of a server");
        let params = frame.params().unwrap_or(b"{}");
        match frame.method().unwrap_or_default() {
            "client/registerCapability" => {
                let params = frame.body().slice_ref(params);
                let told = match self.is_group() {
                    true => self.register_in_group(process, &params),
                    false => self.register(process, &params),
                };
                self.pass_or_answer(process, frame, told.as_deref());
                self.rejoin_registrations();
            }
            "client/unregisterCapability" => {
                let params = frame.body().slice_ref(params);
                let told = match self.is_group() {
                    true => self.unregister_in_group(process, &params),
                    false => self.registrations.unregister(process, &params),
                };
                self.pass_or_answer(process, frame, told.as_deref());
                self.rejoin_registrations();
            }
            "workspace/configuration" => {
                let sections = sections(params);
                if !self.answer_configured(process, frame, &sections) {
                    self.ask_editor_for(process, frame, Purpose::Configuration { sections });
                }
            }
            "workspace/workspaceFolders" if self.answer_root(process, frame) => {}
            _ if self.on_refresh(process, frame) => {}
            method => {
                let key = self.token_key(process, method);
                let lifetime = match method {
                    CREATE => Lifetime::UntilEnd,
                    _ => Lifetime::UntilAnswered,
                };
                let renamed = key.and_then(|key| self.tokens.choose(process.backend, params, key, lifetime));
                let renamed = renamed.map(|params| frame.with_params(&params));
                self.ask_editor_for(process, renamed.as_ref().unwrap_or(frame), Purpose::Plain);
            }
        }
    }

    /// The member with the token that a server chose, if the request has one.
    fn token_key(&self, process: ProcessId, method: &str) -> Option<&'static str> {
        self.servers.of(self.backend(process.backend)?).dialect.token_key(method)
    }

    /// Handles the editor's answer to a request with a token, which ends the progress of the request. A created token
    /// lives until its `end`, even if the editor refused it, because some servers do not wait for the answer.
    pub(super) fn release_token(&mut self, process: ProcessId, asked: &Frame) {
        let method = asked.method().filter(|it| *it != CREATE);
        let key = method.and_then(|it| self.token_key(process, it));
        if let Some(token) = key.and_then(|key| field(asked, key)) {
            self.tokens.answered(process.backend, &token);
        }
    }

    /// Sends the rest of a (de)registration to the editor, or answers it if the rest is empty.
    fn pass_or_answer(&mut self, process: ProcessId, frame: &Frame, told: Option<&[u8]>) {
        match (told, frame.id()) {
            (Some(told), _) if Some(told) == frame.params() => {
                self.ask_editor_for(process, frame, Purpose::Plain);
            }
            (Some(told), _) => self.ask_editor_for(process, &frame.with_params(told), Purpose::Plain),
            (None, Some(id)) => self.tell(process, Frame::response(id, b"null")),
            (None, None) => {}
        }
    }

    fn ask_editor_for(&mut self, process: ProcessId, frame: &Frame, purpose: Purpose) {
        let Some(id) = frame.id() else { return };
        let (to, owner) = (To::Client(ClientId::EDITOR), Owner::Backend(process, id.into()));
        let (_, frame) = self.requests.register(to, owner, purpose, frame);
        self.send(Peer::EDITOR, frame);
    }

    /// Forwards a notification of a server.
    pub(crate) fn on_server_notification(&mut self, process: ProcessId, frame: Frame) {
        if self.on_hub_notification(process, &frame) {
            return;
        }
        self.note_published(process, &frame);
        if self.relay(process, &frame) {
            return;
        }
        if frame.method() != Some("window/showMessage") || self.is_new_message(process, &frame) {
            self.pass_notification(process, frame);
        }
    }

    /// Passes a notification of a server on to the editor: diagnostics with those of the other members.
    pub(crate) fn pass_notification(&mut self, process: ProcessId, frame: Frame) {
        match frame.method() {
            Some("textDocument/publishDiagnostics") if self.is_group() => {
                self.on_member_published(process, frame);
            }
            Some(_) | None => self.tell_editor(frame),
        }
    }

    /// Notes published diagnostics.
    pub(crate) fn note_published(&mut self, process: ProcessId, frame: &Frame) {
        if frame.method() == Some("textDocument/publishDiagnostics") {
            let params = frame.params().unwrap_or(b"{}");
            self.diagnostics.published(process, params);
            self.note_published_by_successor(process, params);
        }
    }

    /// Forwards `$/progress` of a server.
    pub(crate) fn on_server_progress(&mut self, process: ProcessId, frame: &Frame) {
        let params = frame.params().unwrap_or(b"{}");
        self.note_streamed(process, params);
        let [value] = values(params, ["value"]);
        let kind = value.and_then(|it| Some(&it[member(it, "kind")?]));
        let renamed = self.tokens.passed(process.backend, kind, params);
        self.tell_editor(renamed.map_or_else(|| frame.clone(), |it| frame.with_params(&it)));
    }

    /// Notes progress of a server that may be a part of an answer.
    pub(crate) fn note_streamed(&mut self, process: ProcessId, params: &[u8]) {
        let Some(pending) = self.requests.streamed(params).and_then(|it| self.requests.get(it)) else {
            return;
        };
        let is_part = process.generation.0 > 1 && pending.to == To::Process(process);
        let Some(value) = member(params, "value").filter(|_| is_part) else { return };
        let asked = pending.frame.clone();
        self.note_answered_by_successor(process, &asked, &params[value]);
    }

    /// Whether no other process of the server has said the same to the user, and no other server has just now.
    pub(crate) fn is_new_message(&mut self, process: ProcessId, frame: &Frame) -> bool {
        let message: Bytes = frame.body().slice_ref(frame.params().unwrap_or_default());
        let (at, by) = (self.now(), process.backend);
        let server = self.backend(by).map(|it| it.server);
        let is_repeated = |it: &Said| match it.server == server {
            true => it.by != by,
            false => at.duration_since(it.at) <= AT_ONCE,
        };
        let repeated = self.shown.iter().any(|it| it.params == message && is_repeated(it));
        self.shown.push_back(Said { at, by, server, params: message });
        if self.shown.len() > REMEMBERED {
            self.shown.pop_front();
        }
        !repeated
    }
}

/// The `section` of each item of `workspace/configuration`.
fn sections(params: &[u8]) -> Vec<Option<String>> {
    let Some(items) = member(params, "items").map(|range| &params[range]) else { return Vec::new() };
    let section = |item: &[u8]| serde_json::from_slice(&item[member(item, "section")?]).ok();
    elements(items).map(|range| section(&items[range])).collect()
}
