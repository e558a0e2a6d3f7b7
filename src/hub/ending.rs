//! The end of the hub: when its server ends, when no client is left, or on request.

use std::time::{Duration, Instant};

use tracing::info;

use super::{Hub, PROCESS, server::ends};
use crate::{
    core::{
        event::{ClientId, Effect, Exit},
        mux::requests::{Owner, To},
        purpose::Purpose,
    },
    rpc::{Frame, RawId},
};

/// How long a hub waits for its first client.
const FIRST_CLIENT: Duration = Duration::from_secs(30);
/// How long the server may take to answer `shutdown`.
const SHUTDOWN: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) enum Ending {
    /// No client has come yet.
    #[default]
    New,
    /// There are clients.
    No,
    /// It ends then, if no client comes.
    At(Instant),
    /// The server has got `shutdown`.
    Shutdown(Instant),
    /// The process is being ended.
    Process,
    Over,
}

impl Ending {
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Ending::Over)
    }

    /// Whether no client can come.
    pub(super) fn is_near(&self) -> bool {
        matches!(self, Ending::Shutdown(_) | Ending::Process | Ending::Over)
    }

    pub(super) fn note_client(&mut self) {
        if matches!(self, Ending::New | Ending::At(_)) {
            *self = Ending::No;
        }
    }
}

impl Hub {
    pub(super) fn ending_deadline(&self) -> Option<(Instant, &'static str)> {
        match self.ending {
            Ending::New => Some((self.born? + FIRST_CLIENT, "no client has come")),
            Ending::At(at) => Some((at, "no client is left")),
            Ending::Shutdown(at) => Some((at, "the server does not answer shutdown")),
            Ending::No | Ending::Process | Ending::Over => None,
        }
    }

    pub(super) fn on_ending_deadline(&mut self) {
        let now = self.now();
        if self.ending_deadline().is_none_or(|(at, _)| now < at) {
            return;
        }
        match self.ending {
            Ending::New | Ending::At(_) => self.end_soon(),
            Ending::Shutdown(_) => self.end_process(),
            Ending::No | Ending::Process | Ending::Over => {}
        }
    }

    /// The last client has left.
    pub(super) fn await_clients(&mut self) {
        if matches!(self.ending, Ending::No | Ending::New) {
            self.ending = Ending::At(self.now() + self.share.idle);
        }
        if self.share.idle.is_zero() {
            self.on_ending_deadline();
        }
    }

    /// Ends the server, politely.
    pub(super) fn end_soon(&mut self) {
        if self.ending.is_near() {
            return;
        }
        info!(clients = self.clients.len(), "ended the server");
        if !self.server.has_process() {
            return self.exit();
        }
        if !self.server.is_ready() {
            return self.end_process();
        }
        self.ending = Ending::Shutdown(self.now() + SHUTDOWN);
        let frame = Frame::request(RawId::from(0), "shutdown", None);
        let to = To::Process(PROCESS);
        let (_, frame) = self.requests.register(to, Owner::Proxy, Purpose::Shutdown, &frame);
        self.tell_server(frame);
    }

    pub(super) fn on_shutdown_answered(&mut self) {
        if matches!(self.ending, Ending::Shutdown(_)) {
            self.end_process();
        }
    }

    fn end_process(&mut self) {
        self.ending = Ending::Process;
        self.tell_server(Frame::notification("exit", None));
        self.act(Effect::Terminate(PROCESS));
    }

    pub(super) fn on_quit(&mut self) {
        self.tell_ended(None, "");
        self.exit();
    }

    /// The user of a client restarts the server. The hub tells all clients, which meet at the next hub.
    pub(super) fn on_restart(&mut self, by: ClientId) {
        info!(?by, "ends, because a user restarts the server");
        self.on_quit();
    }

    /// The process has ended: each client takes it for the end of its server.
    pub(super) fn on_exited(&mut self, exit: Exit, stderr: &str) {
        info!(%exit, "the server has ended");
        self.server.note_gone();
        self.tell_ended(Some(exit), stderr);
        self.exit();
    }

    fn tell_ended(&mut self, exit: Option<Exit>, stderr: &str) {
        for (client, request) in self.server.take_waiting() {
            self.refuse_attach(client, request, &ends("the hub is ending"));
        }
        let ended = Hub::ended(exit, stderr);
        let all: Vec<ClientId> = self.clients.keys().copied().collect();
        for client in all {
            self.tell_client(client, ended.clone());
            self.act(Effect::HangUp(client));
        }
    }

    pub(super) fn exit(&mut self) {
        self.ending = Ending::Over;
        self.act(Effect::Exit(0));
    }
}
