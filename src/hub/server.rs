//! The server process: its start, its handshake, and what it says.

use std::time::{Duration, Instant};

use serde_json::json;
use tracing::{debug, warn};

use super::{Hub, PROCESS};
use crate::{
    core::{
        event::{ClientId, Effect, SpawnFailure},
        mux::failure::{Cause, Failure},
        purpose::Purpose,
    },
    rpc::{Frame, Kind, RawId},
};

/// How long the server may take to answer `initialize`. Each client has a limit of its own, and a shorter one.
const HANDSHAKE: Duration = Duration::from_mins(5);

/// The process.
#[derive(Debug, Default)]
pub(super) struct Server {
    state: State,
    handshake: Handshake,
    /// When it was asked to initialize.
    asked: Option<Instant>,
    is_initialized: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    NotStarted,
    /// Clients that wait for it, with their requests.
    Starting(Vec<(ClientId, RawId)>),
    Running {
        pid: u32,
    },
    Gone,
}

/// `initialize`, which the server gets once.
#[derive(Debug, Default)]
pub(super) enum Handshake {
    #[default]
    None,
    /// Clients that wait for the answer, with their requests.
    Asked(Vec<(ClientId, RawId)>),
    /// The answer for all clients.
    Answered(Frame),
}

impl Server {
    pub(super) fn handshake_mut(&mut self) -> &mut Handshake {
        &mut self.handshake
    }

    /// Notes `initialized` of a client. Returns whether it is the first.
    pub(super) fn note_initialized(&mut self) -> bool {
        !std::mem::replace(&mut self.is_initialized, true)
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!((&self.state, &self.handshake), (State::Running { .. }, Handshake::Answered(_)))
    }

    pub(super) fn pid(&self) -> Option<u32> {
        match self.state {
            State::Running { pid } => Some(pid),
            State::NotStarted | State::Starting(_) | State::Gone => None,
        }
    }

    /// The word for the status.
    pub(super) fn name(&self) -> &'static str {
        match self.state {
            State::NotStarted | State::Gone => "stopped",
            State::Running { .. } if self.is_ready() => "ready",
            State::Starting(_) | State::Running { .. } => "starting",
        }
    }

    /// Whether it has not answered `initialize`, and nobody waits for that.
    pub(super) fn is_unanswered(&self) -> bool {
        matches!(&self.handshake, Handshake::Asked(waiting) if waiting.is_empty())
    }

    pub(super) fn has_process(&self) -> bool {
        matches!(self.state, State::Starting(_) | State::Running { .. })
    }

    pub(super) fn forget_waiting(&mut self, client: ClientId) {
        if let State::Starting(waiting) = &mut self.state {
            waiting.retain(|it| it.0 != client);
        }
        if let Handshake::Asked(waiting) = &mut self.handshake {
            waiting.retain(|it| it.0 != client);
        }
    }

    /// Clients that wait for the process, with their requests.
    pub(super) fn take_waiting(&mut self) -> Vec<(ClientId, RawId)> {
        match &mut self.state {
            State::Starting(waiting) => std::mem::take(waiting),
            State::NotStarted | State::Running { .. } | State::Gone => Vec::new(),
        }
    }

    pub(super) fn note_gone(&mut self) {
        self.state = State::Gone;
    }
}

impl Hub {
    /// Until when the server must answer `initialize`.
    pub(super) fn handshake_deadline(&self) -> Option<(Instant, &'static str)> {
        let asked = self.server.asked.filter(|_| matches!(self.server.handshake, Handshake::Asked(_)))?;
        Some((asked + HANDSHAKE, "the server does not answer initialize"))
    }

    pub(super) fn on_handshake_deadline(&mut self) {
        if self.handshake_deadline().is_some_and(|(at, _)| self.now() >= at) {
            warn!("the server did not answer initialize");
            self.server.asked = None;
            self.act(Effect::Terminate(PROCESS));
        }
    }

    pub(super) fn note_handshake(&mut self) {
        self.server.asked = self.now;
    }

    /// A client has attached, and is answered when the process runs.
    pub(super) fn await_process(&mut self, client: ClientId, request: RawId) {
        match &mut self.server.state {
            State::NotStarted => {
                self.server.state = State::Starting(vec![(client, request)]);
                self.act(Effect::Spawn(PROCESS, self.launch.clone()));
            }
            State::Starting(waiting) => waiting.push((client, request)),
            State::Running { pid } => {
                let pid = *pid;
                self.welcome(client, request, pid);
            }
            State::Gone => self.refuse_attach(client, request, &ends("the server has ended")),
        }
    }

    pub(super) fn on_spawned(&mut self, pid: u32) {
        let before = std::mem::replace(&mut self.server.state, State::Running { pid });
        if let State::Starting(waiting) = before {
            for (client, request) in waiting {
                self.welcome(client, request, pid);
            }
        }
    }

    pub(super) fn on_spawn_failed(&mut self, failure: &SpawnFailure) {
        let before = std::mem::replace(&mut self.server.state, State::Gone);
        if let State::Starting(waiting) = before {
            for (client, request) in waiting {
                self.refuse_attach(client, request, failure);
            }
        }
        self.exit();
    }

    pub(super) fn on_server_message(&mut self, frame: &Frame) {
        match frame.kind() {
            Kind::Response => self.on_server_answer(frame),
            Kind::Request => self.on_server_request(frame),
            Kind::Notification => self.on_server_notification(frame),
        }
    }

    fn on_server_notification(&mut self, frame: &Frame) {
        match frame.method().unwrap_or_default() {
            "textDocument/publishDiagnostics" => self.on_published(frame),
            "$/progress" => self.on_progress(frame),
            "$/cancelRequest" => self.on_server_cancel(frame),
            "window/showMessage" => {
                if let Some(client) = self.who_asks().or_else(|| self.leader()) {
                    self.tell_client(client, frame.clone());
                }
            }
            _ => self.tell_all(frame),
        }
    }

    /// The answer to a request of the hub itself.
    pub(super) fn on_own_answer(&mut self, purpose: &Purpose, frame: &Frame) {
        match purpose {
            Purpose::Initialize => self.on_initialize_answered(frame),
            Purpose::Shutdown => self.on_shutdown_answered(),
            _ => debug!("a request of the hub was answered"),
        }
    }

    fn on_initialize_answered(&mut self, frame: &Frame) {
        if let Some(result) = frame.result() {
            self.texts.note_server(result);
        }
        let before = std::mem::replace(&mut self.server.handshake, Handshake::Answered(frame.unshared()));
        if let Handshake::Asked(waiting) = before {
            for (client, request) in waiting {
                self.tell_client(client, frame.with_id(request));
            }
        }
        if frame.error_value().is_some() {
            warn!("the server refused to initialize");
            self.end_soon();
        }
    }

    pub(super) fn on_malformed_of_server(&mut self, id: Option<(RawId, bool)>, reason: &str) {
        warn!(reason, "server sent a malformed message");
        match id {
            Some((answer, false)) => {
                let failure = Failure::new(Cause::BadAnswer, format!("the answer is malformed: {reason}"));
                self.fail_asked(&answer, &failure);
            }
            Some((request, true)) => {
                let failure = Failure::new(Cause::Malformed, format!("the request is malformed: {reason}"));
                self.tell_server(failure.answer(request.into()));
            }
            None => {}
        }
    }

    /// Parameters of `lspool/ended`.
    pub(super) fn ended(exit: Option<crate::core::event::Exit>, stderr: &str) -> Frame {
        let params = json!({"exit": exit, "stderr": stderr}).to_string();
        Frame::notification("lspool/ended", Some(params.as_bytes()))
    }
}

/// The refusal of a hub that ends. The next one takes the client.
pub(super) fn ends(why: &str) -> SpawnFailure {
    SpawnFailure { permanent: false, message: why.to_owned(), moved: None }
}
