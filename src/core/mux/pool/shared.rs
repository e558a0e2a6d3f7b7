//! A process that other clients use, too: a connection to a hub.
//!
//! Owns what a backend knows of that: whether its process is shared, what kept it from being so, and how the server
//! behind the hub has ended. To the rest of the core the end of the connection is the end of a process.
//!
//! **The hub owns the server**: lspool does not limit its memory, and ends no shared process. A client leaves one that
//! hangs, for itself alone; a user restarts it for all.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value};
use tracing::{info, warn};

use crate::{
    config::StartAt,
    core::{
        event::{BackendId, Exit, Launch, ProcessId, Share},
        mux::{Mux, servers::Server, session::folders::folders_of},
    },
    rpc::{Frame, member, text},
    util::fnv::hashed,
};

/// How long a backend stays private because its texts differ from those of others.
const APART: Duration = Duration::from_mins(1);

/// The cause of a hub that goes away with the texts.
const TEXTS: &str = "texts";

/// The longest text of a hub that lspool keeps.
const LONGEST: usize = 4 << 10;

/// What `initialize` says of one process, or what the folders of the key say better.
const OF_ONE_PROCESS: [&str; 7] =
    ["processId", "clientInfo", "workDoneToken", "trace", "rootUri", "rootPath", "workspaceFolders"];

/// Whether a backend is shared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sharing {
    process: Shared,
    /// How the server has ended, as the hub said.
    ended: Option<(Exit, String)>,
    /// Why the next process is private.
    apart: Option<Apart>,
}

/// Whether the process is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shared {
    /// Nobody wants that.
    #[default]
    No,
    /// It is, or will be if the shell finds a hub.
    Yes,
    /// It cannot be, for this reason.
    Private(String),
}

#[derive(Clone, Debug)]
struct Apart {
    why: String,
    /// `None`: until a user restarts it.
    until: Option<Instant>,
}

impl Sharing {
    /// Whether the process is shared.
    pub(crate) fn process(&self) -> &Shared {
        &self.process
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.process == Shared::Yes
    }

    /// How the server behind the hub has ended, with the end of its stderr.
    pub(super) fn take_end(&mut self) -> Option<(Exit, String)> {
        self.ended.take()
    }

    /// Decides about the next process.
    fn begin(&mut self, now: Instant) {
        self.ended = None;
        self.apart.take_if(|it| it.until.is_some_and(|until| until <= now));
        self.process = match &self.apart {
            Some(Apart { why, .. }) => Shared::Private(why.clone()),
            None => Shared::Yes,
        };
    }
}

impl Mux {
    /// How the next process of a backend is started.
    pub(super) fn launch_for(&mut self, id: BackendId) -> Option<Arc<Launch>> {
        let now = self.now();
        let backend = self.backends.get_mut(id)?;
        let server = self.servers.get(backend.server);
        // The engine has just told the folders there, unless the server has waited for a document.
        let is_early = server.settings.start != StartAt::Document;
        let is_first = is_early && backend.is_primary() && backend.life.generation().0 == 1;
        let is_settled = server.launch.remote.as_ref().is_none_or(|it| it.inspect.is_none());
        let launch = match is_first && !is_settled {
            true => Arc::new(Launch::clone(&server.launch).settled()),
            false => Arc::clone(&server.launch),
        };
        let Some(share) = &launch.share else {
            backend.sharing = Sharing::default();
            return Some(launch);
        };
        backend.sharing.begin(now);
        let share = backend.sharing.is_shared().then(|| with_initialize(share, server));
        Some(Arc::new(Launch { share, ..Launch::clone(&launch) }))
    }

    /// Whether a server is to be shared, so that its start needs the editor's `initialize`.
    pub(crate) fn is_any_shared(&self) -> bool {
        self.servers.iter().any(|it| it.launch.share.is_some())
    }

    /// A user restarts a backend. Its hub restarts a shared server for all clients, who are told; one that left a hub
    /// shares again.
    pub(super) fn note_wanted_restart(&mut self, id: BackendId) {
        let Some(backend) = self.backends.get_mut(id) else { return };
        backend.sharing.apart = None;
        if backend.sharing.is_shared() && backend.life.is_alive() {
            let process = backend.process();
            self.tell(process, Frame::notification("lspool/restart", None));
        }
    }

    /// A shared server hangs, as far as this client sees. Its next process is private.
    pub(super) fn note_hanging(&mut self, id: BackendId, why: &str) {
        let until = Some(self.now() + APART);
        if let Some(backend) = self.backends.get_mut(id).filter(|it| it.sharing.is_shared()) {
            backend.sharing.apart = Some(Apart { why: format!("the shared server hung: {why}"), until });
        }
    }

    /// The shell has found no hub for a process.
    pub(crate) fn on_unshared(&mut self, process: ProcessId, why: String) {
        let Some(backend) = self.backends.get_mut(process.backend).filter(|it| it.is_current(process)) else {
            return;
        };
        warn!(backend = backend.name, why, "not shared");
        backend.sharing.process = Shared::Private(why);
    }

    /// Handles what a hub says of itself. Returns whether it was that.
    pub(crate) fn on_hub_notification(&mut self, process: ProcessId, frame: &Frame) -> bool {
        let method = frame.method().filter(|it| matches!(*it, "lspool/ended" | "lspool/detach"));
        let Some(method) = method else { return false };
        let Some(backend) = self.backends.get_mut(process.backend) else { return false };
        if !backend.sharing.is_shared() {
            return false;
        }
        let params = frame.params().unwrap_or(b"{}");
        match (method, exit(params)) {
            ("lspool/ended", Some(exit)) => {
                backend.sharing.ended = Some((exit, cut(text(params, &["stderr"]).unwrap_or_default())));
                info!(backend = backend.name, %exit, "shared server has ended");
            }
            ("lspool/ended", None) => {
                info!(backend = backend.name, "its hub ends on request");
                self.replace_unasked(process);
            }
            (_, _) => self.leave_hub(process, params),
        }
        true
    }

    /// A hub sends this client away. The next process is private; nobody is to blame.
    fn leave_hub(&mut self, process: ProcessId, params: &[u8]) {
        let until = self.now() + APART;
        let Some(backend) = self.backends.get_mut(process.backend) else { return };
        let why = cut(text(params, &["why"]).unwrap_or_default());
        let is_for_now = text(params, &["cause"]).as_deref() == Some(TEXTS);
        info!(backend = backend.name, why, "leaves the shared server");
        backend.sharing.apart = Some(Apart { why, until: is_for_now.then_some(until) });
        self.replace_unasked(process);
    }

    /// Replaces a process that is not to blame.
    fn replace_unasked(&mut self, process: ProcessId) {
        if self.backend(process.backend).is_some_and(|it| it.goes_on() && !it.is_terminated()) {
            self.replace(process.backend);
        }
    }
}

/// Adds to the key what an editor asks of the server in `initialize`.
fn with_initialize(share: &Share, server: &Server) -> Share {
    let mut share = share.clone();
    let session = server.session();
    let params = session.initialize_now();
    share.editor = session.editor();
    let (first, now) = (folders_of(session.initialize()), folders_of(&params));
    if first != now {
        let uris: Vec<String> = now.iter().filter_map(|it| text(it, &["uri"])).collect();
        share.key.push(("folders".to_owned(), uris.join(" ")));
    }
    // The folders there may have changed since the key was made.
    let paths = server.launch.remote.iter().flat_map(|it| &it.paths);
    let mut paths: Vec<String> = paths.map(|it| format!("{} is {}", it.local, it.remote)).collect();
    // Engines tell them in any order.
    paths.sort();
    share.key.extend(paths.into_iter().map(|it| ("path".to_owned(), it)));
    let mut all: Map<String, Value> = serde_json::from_slice(&params).unwrap_or_default();
    all.sort_keys();
    for (name, mut value) in all.into_iter().filter(|(name, _)| !OF_ONE_PROCESS.contains(&name.as_str())) {
        value.sort_all_objects();
        share.key.push((format!("initialize {name}"), hashed(value.to_string().as_bytes())));
    }
    share
}

/// How a server has ended, if it has: `{"exit": {"code": 1}}`, `{"exit": {"signal": 9}}`, `{"exit": "unknown"}`.
fn exit(params: &[u8]) -> Option<Exit> {
    let exit = member(params, "exit").map(|it| &params[it]).filter(|it| *it != b"null")?;
    Some(serde_json::from_slice(exit).unwrap_or(Exit::Unknown))
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST));
    text
}
