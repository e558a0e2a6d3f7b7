//! The configured servers.
//!
//! A group has one for each member. **A server is never removed**, so an id always leads to a server.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant},
};

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
    rpc::{Patch, member},
};

/// A server: its launch, and the session for its processes.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts about a server that do not depend on each other")]
pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) name: String,
    pub(crate) settings: ServerConfig,
    pub(crate) launch: Arc<Launch>,
    pub(crate) config: Arc<Config>,
    /// Why it cannot start, if the executable is missing.
    pub(crate) missing: Option<String>,
    /// Whether its conversations get code tools.
    pub(crate) has_code_tools: bool,
    /// Whether the executable has disappeared since its start: it may have been updated or moved.
    pub(crate) is_gone: bool,
    /// Whether `max_processes` is lower, and too many processes run.
    pub(crate) shrinks: bool,
    /// What its processes need, as far as a higher owner knows.
    pub(super) size: ProcessSize,
    /// The backend for everything without another place.
    pub(crate) primary: BackendId,
    /// Its methods beyond the Language Server Protocol.
    pub(crate) dialect: &'static Dialect,
    /// The default of `hang_timeout` for this kind of server.
    pub(crate) usual_hang_timeout: Option<Duration>,
    /// The last of its processes that is not in its working folder, of which the user has been told.
    pub(super) displaced: Option<ProcessId>,
    /// When its folders elsewhere have changed last.
    pub(super) moved: Option<Instant>,
    /// The user has been told that `memory_limit` is less than a process needs.
    pub(crate) limit_told: bool,
    /// lspool's commands in the answer to `initialize`.
    pub(crate) commands: Vec<String>,
    pub(super) session: Session,
}

/// How much memory the processes of a server use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcessSize {
    #[default]
    Usual,
    /// So much that fewer of them may run, unless the user has said how many.
    Large,
}

impl Server {
    /// How many of its processes may run at once.
    pub(crate) fn max_processes(&self) -> usize {
        match self.size {
            ProcessSize::Usual => self.settings.max_processes,
            ProcessSize::Large => self.settings.max_processes.min(self.settings.max_large_processes),
        }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The parameters of `initialize` as its processes get them: those that run elsewhere do not find lspool's process.
    pub(crate) fn watching<'a>(&self, params: &'a [u8]) -> Cow<'a, [u8]> {
        match self.launch.is_elsewhere() && member(params, "processId").is_some() {
            true => Cow::Owned(Patch::of(params).set("processId", b"null").finish()),
            false => Cow::Borrowed(params),
        }
    }

    /// What is remembered of a method that concerns every process; `None` for any other.
    pub(crate) fn keep(&self, method: &str) -> Option<Keep> {
        let is_repeated = || self.settings.repeat.iter().any(|it| it == method);
        self.dialect.keep(method).or_else(|| is_repeated().then_some(Keep::Latest))
    }

    /// Whether it may have other backends than its primary: it has more than the Language Server Protocol.
    pub(crate) fn has_partitions(&self) -> bool {
        !std::ptr::eq(self.dialect, &raw const LSP)
    }

    /// Whether it cannot start, or could not at the last attempt.
    pub(crate) fn is_missing(&self) -> bool {
        self.missing.is_some() || self.is_gone
    }
}

/// The parameters for starting a server.
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) settings: ServerConfig,
    pub(crate) launch: Arc<Launch>,
    pub(crate) config: Arc<Config>,
    pub(crate) missing: Option<String>,
    pub(crate) has_code_tools: bool,
}

/// All servers. The number of each is its position, because every message needs a lookup.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    all: Vec<Server>,
}

impl Servers {
    pub(super) fn add(&mut self, it: Definition, primary: BackendId) -> ServerId {
        let id = ServerId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        let Definition { name, settings, launch, config, missing, has_code_tools } = it;
        let server = Server {
            id,
            name,
            settings,
            launch,
            config,
            missing,
            has_code_tools,
            is_gone: false,
            shrinks: false,
            size: ProcessSize::default(),
            primary,
            dialect: &LSP,
            usual_hang_timeout: None,
            displaced: None,
            moved: None,
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

    /// The server for everything without another place; `None` before the search for it has ended.
    pub(crate) fn first(&self) -> Option<&Server> {
        self.all.first()
    }

    pub(super) fn first_mut(&mut self) -> Option<&mut Server> {
        self.all.first_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Server> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Server> {
        self.all.iter_mut()
    }

    /// The ids of all of them, in order.
    pub(super) fn ids(&self) -> impl Iterator<Item = ServerId> + use<> {
        (0..u32::try_from(self.all.len()).unwrap_or(u32::MAX)).map(ServerId)
    }

    /// Whether this backend is the primary of its server.
    pub(crate) fn is_primary(&self, backend: BackendId) -> bool {
        self.all.iter().any(|it| it.primary == backend)
    }
}
