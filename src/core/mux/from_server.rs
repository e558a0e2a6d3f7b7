//! Messages of the servers: what the editor hears, and how it hears one voice.

use std::{borrow::Cow, time::Instant};

use tracing::{debug, trace};

use crate::core::{PRIMARY, Proxy, tell_editor};
use crate::{
    core::{
        editor::field,
        event::{ClientId, Effect, Effects, Peer, ProcessId},
        requests::{Owner, Purpose, To},
        route::is_own_affair,
        said::Said,
        tools::CONFIRMATION,
    },
    redact::redact,
    rpc::{Frame, Kind, elements, member},
};

/// Requests of a server that carry a token of its choice, by the key it stands under.
const TOKEN_KEYS: &[(&str, &str)] = &[
    ("context/update", "partialResultToken"),
    ("copilot/fetch", "workDoneToken"),
    ("copilot/watchedFiles", "partialResultToken"),
    ("window/workDoneProgress/create", "token"),
];

impl Proxy {
    pub(crate) fn on_backend_frame(
        &mut self,
        now: Instant,
        process: ProcessId,
        frame: Frame,
        out: &mut Effects,
    ) {
        if !self.is_current(process) {
            return trace!(?frame, "dropped: from an older process");
        }
        let ends = self.backend(process.backend).is_none_or(|it| !it.accepts() || it.is_let_go);
        if ends && frame.kind() != Kind::Response {
            return trace!(?frame, "dropped: from a process that is being ended");
        }
        match frame.kind() {
            Kind::Response => self.on_backend_answer(now, process, &frame, out),
            Kind::Request => self.on_backend_request(process, &frame, out),
            Kind::Notification => self.on_backend_notification(process, frame, out),
        }
    }

    fn on_backend_request(&mut self, process: ProcessId, frame: &Frame, out: &mut Effects) {
        let Some(wire) = frame.id() else { return };
        let params = frame.params().unwrap_or(b"{}");
        match frame.method().unwrap_or_default() {
            "conversation/invokeClientTool" => self.on_tool_call(process, frame, false, out),
            CONFIRMATION => self.on_tool_call(process, frame, true, out),
            "client/registerCapability" => {
                let told = self.register(process, &frame.body().slice_ref(params), out);
                self.pass_or_answer(process, frame, told.as_deref(), out);
            }
            "client/unregisterCapability" => {
                let told = self.registrations.unregister(process, &frame.body().slice_ref(params));
                self.pass_or_answer(process, frame, told.as_deref(), out);
            }
            "workspace/configuration" => {
                let sections = sections(params);
                self.ask_editor_for(process, frame, Purpose::Configuration { sections }, out);
            }
            method => {
                let renamed =
                    token_key(method).and_then(|key| self.tokens.choose(process.backend, params, key));
                match renamed {
                    Some(params) => {
                        self.ask_editor_for(process, &frame.with_params(&params), Purpose::Plain, out);
                    }
                    None => self.ask_editor_for(process, frame, Purpose::Plain, out),
                }
            }
        }
        debug!(id = %wire, method = frame.method(), "asked by a server");
    }

    /// The editor has answered a request that may have named a token: what was said under it ends with the answer.
    /// One that was created lives until its `end`, also if the editor refused it: some servers do not wait to be told.
    pub(crate) fn release_token(&mut self, process: ProcessId, asked: &Frame) {
        let method = asked.method().filter(|it| *it != "window/workDoneProgress/create");
        let key = method.and_then(token_key);
        if let Some(token) = key.and_then(|key| field(asked, key)) {
            self.tokens.answered(process.backend, &token);
        }
    }

    /// Asks the editor for what is left of a (de)registration, or answers it here if that is nothing.
    fn pass_or_answer(&mut self, process: ProcessId, frame: &Frame, told: Option<&[u8]>, out: &mut Effects) {
        match (told, frame.id()) {
            (Some(told), _) if Some(told) == frame.params() => {
                self.ask_editor_for(process, frame, Purpose::Plain, out);
            }
            (Some(told), _) => self.ask_editor_for(process, &frame.with_params(told), Purpose::Plain, out),
            (None, Some(wire)) => {
                out.push(Effect::Send(Peer::Backend(process), Frame::response(wire, b"null")));
            }
            (None, None) => {}
        }
    }

    fn ask_editor_for(&mut self, process: ProcessId, frame: &Frame, purpose: Purpose, out: &mut Effects) {
        let Some(wire) = frame.id() else { return };
        let (to, owner) = (To::Client(ClientId::EDITOR), Owner::Backend(process, wire));
        let (_, frame) = self.requests.sent(to, owner, purpose, frame);
        out.push(Effect::Send(crate::core::EDITOR, frame));
    }

    fn on_backend_notification(&mut self, process: ProcessId, frame: Frame, out: &mut Effects) {
        match frame.method().unwrap_or_default() {
            "$/progress" => self.on_backend_progress(process, frame, out),
            "$/cancelRequest" => self.on_backend_cancel(process, &frame, out),
            method => {
                let params = frame.params().unwrap_or(b"{}");
                let mut told = None;
                match method {
                    "didChangeStatus" if is_error(params) => self.on_error_status(process.backend, out),
                    "copilot/mcpTools" => {
                        self.on_mcp_tools(process, params, out);
                        told = self.as_switched(&frame);
                    }
                    "textDocument/publishDiagnostics" => self.diagnostics.published(process, params),
                    _ => {}
                }
                if !self.is_about_modes(process, method) && self.is_heard(process, method, &frame) {
                    tell_editor(told.unwrap_or(frame), out);
                }
            }
        }
    }

    fn on_backend_progress(&mut self, process: ProcessId, frame: Frame, out: &mut Effects) {
        let params = frame.params().unwrap_or(b"{}");
        self.requests.streamed(params);
        if self.shapes.read(params).is_some_and(|it| self.note_told(process, &it)) {
            return tell_editor(frame, out);
        }
        let said = Said::of(params);
        let heard = match self.is_copilot() {
            true => self.on_chat_progress(process, params, &said, out),
            false => Some(Cow::Borrowed(params)),
        };
        let Some(params) = heard else { return };
        match (self.tokens.passed(process.backend, said.kind, &params), params) {
            (Some(params), _) | (None, Cow::Owned(params)) => tell_editor(frame.with_params(&params), out),
            (None, Cow::Borrowed(_)) => tell_editor(frame, out),
        }
    }

    /// One voice: what every process of a Copilot server says of itself is heard from the primary alone.
    fn is_heard(&mut self, process: ProcessId, method: &str, frame: &Frame) -> bool {
        let Some(backend) = self.backend(process.backend) else { return false };
        // A restarted process first says that it is not signed in.
        let restored = backend.is_ready() || process.generation.0 == 1;
        if self.is_copilot() && is_own_affair(method) && (process.backend != PRIMARY || !restored) {
            let said = String::from_utf8_lossy(frame.params().unwrap_or_default());
            let said = redact(&said);
            debug!(backend = backend.name, method, %said, "not passed on");
            return false;
        }
        if method == "window/showMessage" {
            return self.is_news(process, frame);
        }
        true
    }

    /// Whether no other process has just said the same to the user.
    fn is_news(&mut self, process: ProcessId, frame: &Frame) -> bool {
        let message = frame.body().slice_ref(frame.params().unwrap_or_default());
        let repeated = self.said.iter().any(|(by, it)| *by != process.backend && *it == message);
        self.said.push_back((process.backend, message));
        if self.said.len() > SAID_REMEMBERED {
            self.said.pop_front();
        }
        !repeated
    }
}

fn token_key(method: &str) -> Option<&'static str> {
    TOKEN_KEYS.iter().find(|(name, _)| *name == method).map(|(_, key)| *key)
}

/// Whether a status is an error, such as a missing sign-in.
fn is_error(params: &[u8]) -> bool {
    member(params, "kind").is_some_and(|range| &params[range] == b"\"Error\"")
}

/// Messages to the user that are remembered, so that partitions do not repeat one another.
const SAID_REMEMBERED: usize = 16;

/// The `section` of each item of `workspace/configuration`.
fn sections(params: &[u8]) -> Vec<Option<String>> {
    let Some(items) = member(params, "items").map(|range| &params[range]) else { return Vec::new() };
    let section = |item: &[u8]| serde_json::from_slice(&item[member(item, "section")?]).ok();
    elements(items).map(|range| section(&items[range])).collect()
}
