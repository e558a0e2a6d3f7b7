//! What any language server needs: clients, servers and their processes, requests, sessions, and the state on the
//! editor's screen.
//!
//! It knows none of the higher owners. If it needs their decision, `Proxy` asks them and hands the answer down as a
//! value. **Its fields are private**: higher owners act through its methods.

pub(crate) mod answers;
pub(crate) mod cancel;
pub(crate) mod clients;
mod diagnostics;
pub(crate) mod direct;
mod encodings;
pub(crate) mod failure;
mod fetches;
pub(crate) mod from_client;
mod from_server;
mod items;
pub(crate) mod merge;
pub(crate) mod pool;
mod registrations;
pub(crate) mod requests;
mod result_ids;
pub(crate) mod routes;
pub(crate) mod servers;
pub(crate) mod session;
mod successor;
pub(crate) mod tokens;
mod wire;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use self::{
    clients::Clients,
    diagnostics::Diagnostics,
    encodings::Encodings,
    fetches::Fetches,
    from_server::Said,
    merge::group::Group,
    pool::backend::{Backend, Backends},
    registrations::Registrations,
    requests::Requests,
    routes::Dialect,
    servers::{ProcessSize, Server, Servers},
    session::Session,
    tokens::Tokens,
    wire::Wire,
};
use crate::{
    config::ServerKind,
    core::{
        event::{BackendId, Prepared, ProcessId, ServerId},
        identity::Identity,
        ids::ConversationId,
        purpose::CopilotPurpose,
    },
};

/// The severity of a message to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
    Info,
}

impl Severity {
    /// The `MessageType` of the Language Server Protocol.
    fn message_type(self) -> u8 {
        match self {
            Severity::Error => 1,
            Severity::Warning => 2,
            Severity::Info => 3,
        }
    }
}

/// Clients and servers, and the messages between them.
#[derive(Debug)]
pub(crate) struct Mux {
    identity: Identity,
    wire: Wire,
    clients: Clients,
    servers: Servers,
    requests: Requests,
    backends: Backends,
    tokens: Tokens,
    registrations: Registrations,
    diagnostics: Diagnostics,
    fetches: Fetches,
    encodings: Encodings,
    /// What several servers share. None: there is one.
    group: Option<Box<Group>>,
    /// What the servers last said to the user, and which of them.
    shown: VecDeque<Said>,
    /// The purposes of requests that get no answer. Their owner takes them.
    dropped: Vec<CopilotPurpose>,
}

impl Mux {
    pub(crate) fn new(identity: Identity) -> Mux {
        Mux {
            identity,
            wire: Wire::default(),
            clients: Clients::default(),
            servers: Servers::default(),
            requests: Requests::default(),
            backends: Backends::default(),
            tokens: Tokens::default(),
            registrations: Registrations::default(),
            diagnostics: Diagnostics::default(),
            fetches: Fetches::default(),
            encodings: Encodings::default(),
            group: None,
            shown: VecDeque::new(),
            dropped: Vec::new(),
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn clients(&self) -> &Clients {
        &self.clients
    }

    pub(crate) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The server of this id.
    pub(crate) fn server(&self, id: ServerId) -> &Server {
        self.servers.get(id)
    }

    pub(crate) fn server_mut(&mut self, id: ServerId) -> &mut Server {
        self.servers.get_mut(id)
    }

    /// The session that a new process of this server gets.
    pub(crate) fn session(&self, id: ServerId) -> &Session {
        &self.servers.get(id).session
    }

    /// Sets the dialect of a server that has more than the Language Server Protocol.
    pub(crate) fn set_dialect(
        &mut self,
        id: ServerId,
        dialect: &'static Dialect,
        usual_hang_timeout: Option<Duration>,
    ) {
        let server = self.servers.get_mut(id);
        (server.dialect, server.usual_hang_timeout) = (dialect, usual_hang_timeout);
        self.requests.set_dialect(dialect);
    }

    /// The first server that is configured to be of this kind.
    pub(crate) fn server_of_kind(&self, kind: ServerKind) -> Option<ServerId> {
        self.servers.iter().find(|it| it.settings.kind == Some(kind)).map(|it| it.id)
    }

    /// Changes the configuration of a server.
    pub(crate) fn adopt_settings(&mut self, id: ServerId, prepared: Prepared) {
        let server = self.servers.get_mut(id);
        let Prepared { config, server: settings, launch, missing, has_code_tools, .. } = prepared;
        server.limit_told &= server.settings.memory_limit == settings.memory_limit;
        let before = server.max_processes();
        (server.settings, server.config, server.launch) = (settings, config, launch);
        server.shrinks |= server.max_processes() < before;
        (server.missing, server.is_gone, server.has_code_tools) = (missing, false, has_code_tools);
        // A setting decides when a backend counts as idle.
        self.backends.touch_all();
    }

    /// Notes how much memory the processes of a server use.
    pub(crate) fn note_size(&mut self, id: ServerId, size: ProcessSize) {
        let server = self.servers.get_mut(id);
        let before = server.max_processes();
        server.size = size;
        server.shrinks |= server.max_processes() < before;
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    pub(crate) fn requests_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }

    pub(crate) fn backends(&self) -> &Backends {
        &self.backends
    }

    pub(crate) fn backends_mut(&mut self) -> &mut Backends {
        &mut self.backends
    }

    pub(crate) fn backend(&self, id: BackendId) -> Option<&Backend> {
        self.backends.get(id)
    }

    pub(crate) fn backend_mut(&mut self, id: BackendId) -> Option<&mut Backend> {
        self.backends.get_mut(id)
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    pub(crate) fn tokens_mut(&mut self) -> &mut Tokens {
        &mut self.tokens
    }

    /// The name of a backend, for people.
    pub(crate) fn name_of(&self, id: BackendId) -> &str {
        self.backend(id).map_or("", |it| &it.name)
    }

    /// Whether this is the current process of its backend.
    pub(crate) fn is_current(&self, process: ProcessId) -> bool {
        self.backend(process.backend).is_some_and(|it| it.is_current(process))
    }

    /// Renames the process of a spare, with its state on the editor's screen.
    pub(crate) fn rename_process(&mut self, old: ProcessId, new: ProcessId) {
        self.registrations.rename(old, new);
        self.diagnostics.rename(old, new);
        self.fetches.rename(old, new);
        self.encodings.rename(old, new);
        self.tokens.rename(old.backend, new.backend);
    }

    /// Checks that tokens and registrations belong to existing backends.
    pub(crate) fn check_tokens(&self, goes_on: impl Fn(&ConversationId) -> bool) -> Result<(), String> {
        let is_alive = |id| self.backend(id).is_some_and(|it| it.life.is_alive());
        self.tokens.check(is_alive, goes_on)?;
        self.registrations.check(|id| self.backends.contains(id))?;
        match self.dropped.as_slice() {
            [] => Ok(()),
            left => Err(format!("nobody has taken up that {left:?} will not be answered")),
        }
    }

    /// Takes the purposes of requests that get no answer.
    pub(crate) fn take_dropped(&mut self) -> Vec<CopilotPurpose> {
        std::mem::take(&mut self.dropped)
    }

    /// The time of the current event.
    pub(crate) fn now(&self) -> Instant {
        self.wire.now()
    }
}
