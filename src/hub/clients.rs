//! The clients: how they attach, what they send, and how they leave.

use std::{collections::VecDeque, time::Instant};

use serde_json::json;

use super::{Hub, PROCESS, PROTOCOL, server::Handshake, texts::number, turns::Waiting};
use crate::{
    core::{
        event::{ClientId, Effect, SpawnFailure},
        mux::{
            failure::{Cause, Failure},
            requests::{Owner, To},
        },
        purpose::{Purpose, SentId},
    },
    rpc::{ErrorCode, Frame, Kind, Patch, RawId, path, text},
};

/// A client that has attached.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Its process id.
    pub(super) pid: u64,
    /// The name of its editor.
    pub(super) editor: Option<String>,
    pub(super) workspace: Option<String>,
    /// Messages that wait until the server has its texts.
    pub(super) queue: VecDeque<Waiting>,
    /// Since when the first of them waits.
    pub(super) waits_since: Option<Instant>,
    /// Whether it has sent `initialized`, so that it may be told and asked things.
    pub(super) is_initialized: bool,
    /// Why the hub has sent it away.
    pub(super) detached: Option<String>,
    /// How many requests it has made.
    pub(super) n_requests: u64,
}

/// Why a client is to take a process of its own, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detach {
    /// Its texts differ from those of others too often.
    Texts,
    /// Its settings differ.
    Settings,
    /// It does what a hub cannot share.
    Unshareable,
}

impl Detach {
    fn name(self) -> &'static str {
        match self {
            Detach::Texts => "texts",
            Detach::Settings => "settings",
            Detach::Unshareable => "unshareable",
        }
    }
}

impl Hub {
    pub(super) fn on_client_message(&mut self, id: ClientId, frame: Frame) {
        let method = frame.method().unwrap_or_default();
        if !self.clients.contains_key(&id) {
            return self.on_stranger(id, &frame);
        }
        self.note_activity();
        match (frame.kind(), method) {
            (Kind::Response, _) => self.on_client_answer(id, &frame),
            (Kind::Request, "initialize") => self.on_initialize(id, &frame),
            (Kind::Notification, "initialized") => self.on_initialized(id, frame),
            (Kind::Request, "shutdown") => self.answer_client(id, &frame, b"null"),
            (Kind::Notification, "exit") => self.act(Effect::HangUp(id)),
            (Kind::Notification, "$/cancelRequest") => self.on_cancel(id, &frame),
            (Kind::Notification, "$/setTrace") => {}
            (Kind::Notification, "window/workDoneProgress/cancel") => self.on_progress_cancelled(id, &frame),
            // Not in order: files are as they are.
            (Kind::Notification, "workspace/didChangeWatchedFiles") => self.on_files(id, &frame),
            (Kind::Notification, "workspace/didChangeConfiguration") => self.on_settings(id, &frame),
            (Kind::Notification, "workspace/didChangeWorkspaceFolders") => {
                self.detach(id, Detach::Unshareable, "its workspace folders have changed");
            }
            (Kind::Request, "lspool/status") => self.ask_status(id, &frame),
            (Kind::Notification, "lspool/restart") => self.on_restart(id),
            (Kind::Notification, method) if method.starts_with("notebookDocument/") => {
                self.detach(id, Detach::Unshareable, "it has opened a notebook");
            }
            (Kind::Request | Kind::Notification, _) => self.in_order(id, frame),
        }
    }

    /// A message of a connection that has not attached.
    fn on_stranger(&mut self, id: ClientId, frame: &Frame) {
        match (frame.kind(), frame.method().unwrap_or_default()) {
            (Kind::Request, "lspool/attach") => self.on_attach(id, frame),
            (Kind::Request, "lspool/status") => self.ask_status(id, frame),
            // Code tools ask each lspool what its editor has open. Those that share this server answer for themselves.
            (Kind::Request, "lspool/documents") => self.answer_client(id, frame, br#"{"documents":[]}"#),
            (Kind::Request, _) => {
                let failure = Failure::new(Cause::NotInitialized, "attach first, with lspool/attach");
                self.fail_client(id, frame, &failure);
            }
            (Kind::Notification | Kind::Response, _) => {}
        }
    }

    /// A client asks to share the server.
    fn on_attach(&mut self, id: ClientId, frame: &Frame) {
        let params = frame.params().unwrap_or_default();
        if let Some(why) = self.refusal(params) {
            if let Some(request) = frame.id() {
                self.refuse_attach(
                    id,
                    request,
                    &SpawnFailure { permanent: false, message: why, moved: None },
                );
            }
            return;
        }
        let client = Client {
            pid: number(params, &["pid"]).and_then(|it| u64::try_from(it).ok()).unwrap_or(0),
            editor: text(params, &["editor"]),
            workspace: text(params, &["workspace"]),
            ..Client::default()
        };
        self.clients.insert(id, client);
        self.texts.join(id);
        self.ending.note_client();
        if let Some(request) = frame.id() {
            self.await_process(id, request);
        }
    }

    /// Why a client cannot share the server.
    fn refusal(&self, params: &[u8]) -> Option<String> {
        let protocol = number(params, &["protocol"]);
        if protocol != Some(i64::from(PROTOCOL)) {
            return Some(format!("the hub speaks protocol {PROTOCOL}"));
        }
        let key = path(params, &["key"]).and_then(|it| serde_json::from_slice(&params[it]).ok());
        let key: Vec<(String, String)> = key.unwrap_or_default();
        if key != self.share.key {
            let other = self.share.key.iter().find(|it| !key.contains(it)).map_or("the key", |it| &it.0);
            return Some(format!("{other} differs"));
        }
        if self.ending.is_near() {
            return Some("the hub is ending".to_owned());
        }
        let n = self.clients.len();
        (n >= self.share.limit).then(|| format!("{n} clients share it already"))
    }

    pub(super) fn refuse_attach(&mut self, id: ClientId, request: RawId, failure: &SpawnFailure) {
        let SpawnFailure { permanent, message, moved: _ } = failure;
        let data = json!({"lspool": {"why": message, "permanent": permanent}}).to_string();
        let answer = Frame::error(request, ErrorCode::RequestFailed, message, Some(data.as_bytes()));
        self.tell_client(id, answer);
        self.act(Effect::HangUp(id));
    }

    /// The process runs: the client can speak to it.
    pub(super) fn welcome(&mut self, id: ClientId, request: RawId, server_pid: u32) {
        let welcome = json!({
            "protocol": PROTOCOL,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": self.identity.pid,
            "server_pid": server_pid,
        });
        self.tell_client(id, Frame::response(request, welcome.to_string().as_bytes()));
    }

    fn on_initialize(&mut self, id: ClientId, frame: &Frame) {
        let Some(request) = frame.id() else { return };
        match self.server.handshake_mut() {
            Handshake::Answered(answer) => {
                let answer = answer.with_id(request);
                self.tell_client(id, answer);
            }
            Handshake::Asked(waiting) => waiting.push((id, request)),
            Handshake::None => {
                let params = first_initialize(frame.params().unwrap_or_default());
                *self.server.handshake_mut() = Handshake::Asked(vec![(id, request)]);
                self.note_handshake();
                self.standing.note_initialize(&params);
                let frame = Frame::request(RawId::from(0), "initialize", Some(&params));
                let to = To::Process(PROCESS);
                let (_, frame) = self.requests.register(to, Owner::Proxy, Purpose::Initialize, &frame);
                self.tell_server(frame);
            }
        }
    }

    fn on_initialized(&mut self, id: ClientId, frame: Frame) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if std::mem::replace(&mut client.is_initialized, true) {
            return;
        }
        if self.server.note_initialized() {
            self.tell_server(frame);
        }
        self.catch_up(id);
        self.check_settings(id);
        self.show_published(id);
    }

    pub(super) fn on_malformed_of_client(&mut self, id: ClientId, of: Option<(RawId, bool)>, reason: &str) {
        match of {
            Some((request, true)) => {
                let failure = Failure::new(Cause::Malformed, format!("the request is malformed: {reason}"));
                self.tell_client(id, failure.answer(request.into()));
            }
            Some((answer, false)) => self.on_unreadable_answer(id, &answer),
            // A connection whose first message is garbage is no client.
            None if !self.clients.contains_key(&id) => self.act(Effect::HangUp(id)),
            None => {}
        }
    }

    /// A client has left.
    pub(super) fn on_client_closed(&mut self, id: ClientId) {
        self.forget_status(id);
        self.server.forget_waiting(id);
        if self.clients.remove(&id).is_none() {
            return;
        }
        self.abandon_requests(id);
        for frame in self.texts.leave(id) {
            self.tell_server_of_texts(None, frame);
        }
        self.reroute(id);
        self.turns.forget(id);
        if self.clients.is_empty() {
            match self.server.is_unanswered() {
                // The next client would wait for the same answer.
                true => self.end_soon(),
                false => self.await_clients(),
            }
        }
    }

    /// Tells a client to take a process of its own.
    pub(super) fn detach(&mut self, id: ClientId, cause: Detach, why: &str) {
        let Some(client) = self.clients.get_mut(&id).filter(|it| it.detached.is_none()) else { return };
        client.detached = Some(why.to_owned());
        let params = json!({"why": why, "cause": cause.name()});
        self.tell_client(id, Frame::notification("lspool/detach", Some(params.to_string().as_bytes())));
    }

    pub(super) fn answer_client(&mut self, id: ClientId, request: &Frame, result: &[u8]) {
        if let Some(request) = request.id() {
            self.tell_client(id, Frame::response(request, result));
        }
    }

    pub(super) fn fail_client(&mut self, id: ClientId, request: &Frame, failure: &Failure) {
        if let Some(request) = request.id() {
            self.tell_client(id, failure.answer(request.into()));
        }
    }

    /// The client that came first.
    pub(super) fn leader(&self) -> Option<ClientId> {
        let can = |it: &&ClientId| self.clients[*it].is_initialized && self.clients[*it].detached.is_none();
        self.clients.keys().find(can).copied()
    }

    /// The clients that may be told things.
    pub(super) fn initialized(&self) -> Vec<ClientId> {
        self.clients.iter().filter(|(_, it)| it.is_initialized).map(|it| *it.0).collect()
    }

    /// Tells all clients.
    pub(super) fn tell_all(&mut self, frame: &Frame) {
        for id in self.initialized() {
            self.tell_client(id, frame.clone());
        }
    }

    /// Asks all clients, and expects nothing of the answers.
    pub(super) fn ask_all(&mut self, frame: &Frame) {
        for id in self.initialized() {
            self.ask_client(id, frame);
        }
    }

    /// Asks a client on behalf of the hub.
    pub(super) fn ask_client(&mut self, id: ClientId, frame: &Frame) -> SentId {
        let (sent, frame) = self.requests.register(To::Client(id), Owner::Proxy, Purpose::Plain, frame);
        self.tell_client(id, frame);
        sent
    }
}

/// The parameters of the server's `initialize`, from those of the first client.
fn first_initialize(params: &[u8]) -> Vec<u8> {
    let mut patch = Patch::of(params);
    patch.set("processId", b"null");
    let name = json!({"name": "lspool hub", "version": env!("CARGO_PKG_VERSION")}).to_string();
    patch.set("clientInfo", name.as_bytes());
    patch.remove("workDoneToken");
    if path(params, &["capabilities", "general"]).is_some() {
        patch.set_path(&["capabilities", "general", "positionEncodings"], br#"["utf-16"]"#);
    }
    patch.finish()
}
