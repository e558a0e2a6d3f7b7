//! The proxied servers, each as the configuration and the workspace have it.
//!
//! One is all that can be configured so far. **A server is never removed**, so an id always leads to one.

use std::{sync::Arc, time::Duration};

use crate::{
    config::{Config, ServerConfig},
    core::{
        event::{BackendId, Launch, ProcessId, ServerId},
        mux::{
            pool::backend::Backend,
            routes::{Dialect, Keep, LSP},
            session::Session,
        },
    },
};

/// One server: how it is started, and what each of its processes is told.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) name: String,
    pub(crate) settings: ServerConfig,
    pub(crate) launch: Arc<Launch>,
    pub(crate) config: Arc<Config>,
    /// Why it cannot be started, if there is nothing to start.
    pub(crate) missing: Option<String>,
    /// What was started is not there any more: it may have been updated, or moved.
    pub(crate) is_gone: bool,
    /// `max_processes` was made smaller, and there are more.
    pub(crate) shrinks: bool,
    /// The backend that serves everything which nothing else does.
    pub(crate) primary: BackendId,
    /// Which methods it has beyond those of the Language Server Protocol.
    pub(crate) dialect: &'static Dialect,
    /// How long it may be degraded, where the configuration does not say.
    pub(crate) usual_hang_timeout: Option<Duration>,
    /// The last of its processes that is not in its working folder, of which the user has been told.
    pub(super) displaced: Option<ProcessId>,
    /// The user has been told that `memory_limit` is less than a process needs.
    pub(crate) limit_told: bool,
    /// The commands that lspool offers in the answer to `initialize`, beside the server's own.
    pub(crate) commands: Vec<String>,
    pub(super) session: Session,
}

impl Server {
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// What is remembered of a method that concerns every process; `None` for any other.
    pub(crate) fn keep(&self, method: &str) -> Option<Keep> {
        let is_repeated = || self.settings.repeat.iter().any(|it| it == method);
        self.dialect.keep(method).or_else(|| is_repeated().then_some(Keep::Latest))
    }

    /// Whether it cannot be started, or could not be when it was last tried.
    pub(crate) fn is_missing(&self) -> bool {
        self.missing.is_some() || self.is_gone
    }
}

/// How a server is to be started.
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) settings: ServerConfig,
    pub(crate) launch: Arc<Launch>,
    pub(crate) config: Arc<Config>,
    pub(crate) missing: Option<String>,
}

/// All of them. The number of each is its place: they are looked up for every message.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    all: Vec<Server>,
}

impl Servers {
    pub(super) fn add(&mut self, it: Definition, primary: BackendId) -> ServerId {
        let id = ServerId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        let Definition { name, settings, launch, config, missing } = it;
        let server = Server {
            id,
            name,
            settings,
            launch,
            config,
            missing,
            is_gone: false,
            shrinks: false,
            primary,
            dialect: &LSP,
            usual_hang_timeout: None,
            displaced: None,
            limit_told: false,
            commands: Vec::new(),
            session: Session::default(),
        };
        self.all.push(server);
        id
    }

    pub(crate) fn get(&self, id: ServerId) -> &Server {
        self.all.get(id.0 as usize).expect("servers are never removed")
    }

    pub(super) fn get_mut(&mut self, id: ServerId) -> &mut Server {
        self.all.get_mut(id.0 as usize).expect("servers are never removed")
    }

    /// The server of a backend.
    pub(crate) fn of(&self, backend: &Backend) -> &Server {
        self.get(backend.server)
    }

    /// The server that gets what belongs to no other: none before the editor's workspace is known.
    pub(crate) fn first(&self) -> Option<&Server> {
        self.all.first()
    }

    pub(super) fn first_mut(&mut self) -> Option<&mut Server> {
        self.all.first_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Server> {
        self.all.iter()
    }

    /// Whether this backend is the primary of its server.
    pub(crate) fn is_primary(&self, backend: BackendId) -> bool {
        self.all.iter().any(|it| it.primary == backend)
    }
}
