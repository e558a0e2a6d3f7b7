//! Messages of a client to one server, past the plans of a group: the client knows itself whom it asks.

use super::Mux;
use crate::{
    core::{
        event::{ClientId, ProcessId, ServerId},
        ids::RequestId,
        mux::{pool::backend::Backend, requests::Owner},
        purpose::Purpose,
    },
    rpc::Frame,
};

/// The state of a server, for a client that asks it directly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerState {
    /// The process starts, or will.
    Starting,
    /// The process answers.
    Ready(ProcessId),
    /// No process will answer, for this reason.
    Failed(String),
}

impl Mux {
    /// Sends a notification to one server. Later processes get what it means for the session.
    pub(crate) fn tell_server(&mut self, id: ServerId, frame: &Frame) {
        let keep = self.keep_for_member(id, frame);
        let primary = self.servers.get(id).primary;
        self.notify_primary(primary, keep, frame);
    }

    /// Sends a request of a client to one server.
    pub(crate) fn ask_server(&mut self, id: ServerId, client: ClientId, wire: RequestId, frame: &Frame) {
        let primary = self.servers.get(id).primary;
        self.send_to_backend(primary, Owner::Client(client, wire), Purpose::Plain, frame);
    }

    /// The result of `initialize` of a member, if its process has answered it.
    pub(crate) fn result_of(&self, id: ServerId) -> Option<&[u8]> {
        self.group.as_deref()?.result_of(id)
    }

    /// The state of a server.
    pub(crate) fn state_of(&self, id: ServerId) -> ServerState {
        let server = self.servers.get(id);
        let Some(backend) = self.backend(server.primary) else {
            return ServerState::Failed("it is not there".to_owned());
        };
        if backend.is_ready() {
            return ServerState::Ready(backend.process());
        }
        match &server.missing {
            Some(why) => ServerState::Failed(why.clone()),
            None if backend.accepts() => ServerState::Starting,
            None => {
                let last = backend.last_error.clone();
                ServerState::Failed(last.unwrap_or_else(|| Backend::why_not(backend)))
            }
        }
    }

    /// The server of a process.
    pub(crate) fn server_of(&self, process: ProcessId) -> Option<ServerId> {
        self.backend(process.backend).map(|it| it.server)
    }
}
