//! One server process for several clients, each answered as if it were alone: a state machine beside the core, with
//! the events and effects of the core.
//!
//! A client is the lspool of an editor, connected to the socket of the hub. To the lspool, the hub is its server; to
//! the server, the hub is its editor.
//!
//! - **A request is sent while the server has the texts of the client that asks** (`texts`, `turns`). If another client's
//!   text comes in between, the answer of a request that only reads is not used, and the request is asked again.
//! - **Messages of one client about texts keep their order**, and so do its requests.
//! - A client that leaves or does not read costs the others nothing.
#![warn(clippy::disallowed_methods)]

mod clients;
mod diagnostics;
mod documents;
mod edits;
mod ending;
mod progress;
mod requests;
mod server;
mod settings;
mod standing;
mod status;
#[cfg(any(test, feature = "testing"))]
pub mod tests;
mod texts;
mod turns;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use self::{
    clients::Client,
    diagnostics::Published,
    documents::ReportedFiles,
    ending::Ending,
    progress::{Created, Tokens},
    requests::Asked,
    server::Server,
    settings::Settings,
    standing::Standing,
    status::Statuses,
    texts::Texts,
    turns::Turns,
};
use crate::{
    core::{
        Identity,
        event::{BackendId, ClientId, Effect, Effects, Event, Generation, Launch, Peer, ProcessId, Share},
        mux::requests::Requests,
        purpose::SentId,
    },
    rpc::{Frame, PathMap},
};

/// The version of the protocol between lspool and a hub. It is in the name of the socket, so that others never meet.
pub const PROTOCOL: u32 = 1;

/// The only process of a hub.
const PROCESS: ProcessId = ProcessId { backend: BackendId(0), generation: Generation(1) };

/// The state machine.
#[derive(Debug)]
pub struct Hub {
    identity: Identity,
    launch: Arc<Launch>,
    share: Share,
    /// The folders of a server elsewhere. **Clients map the paths of their messages**: the hub knows the server's paths
    /// only, and maps them to read files.
    paths: Option<PathMap>,
    now: Option<Instant>,
    born: Option<Instant>,
    out: Effects,
    clients: BTreeMap<ClientId, Client>,
    server: Server,
    requests: Requests,
    /// What the hub knows of each request of a client that the server has.
    asked: BTreeMap<SentId, Asked>,
    texts: Texts,
    turns: Turns,
    tokens: Tokens,
    created: Created,
    standing: Standing,
    settings: Settings,
    published: Published,
    reported_files: ReportedFiles,
    statuses: Statuses,
    ending: Ending,
}

impl Hub {
    /// A hub without clients. Its process is started by this launch, which has [`Launch::share`].
    pub fn new(identity: Identity, launch: Arc<Launch>) -> Hub {
        let share = launch.share.clone().unwrap_or_default();
        let paths = launch.remote.as_ref().map(|it| PathMap::of(&it.paths, None));
        Hub {
            identity,
            launch,
            share,
            paths,
            now: None,
            born: None,
            out: Effects::new(),
            clients: BTreeMap::new(),
            server: Server::default(),
            requests: Requests::default(),
            asked: BTreeMap::new(),
            texts: Texts::default(),
            turns: Turns::default(),
            tokens: Tokens::default(),
            created: Created::default(),
            standing: Standing::default(),
            settings: Settings::default(),
            published: Published::default(),
            reported_files: ReportedFiles::default(),
            statuses: Statuses::default(),
            ending: Ending::default(),
        }
    }

    /// Handles one event. **On return all its effects are in `out`**, in the order for carrying them out.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        self.begin(now, out);
        if !self.ending.is_over() {
            self.on_event(event);
            self.take_turns();
        }
        self.end(out);
    }

    /// Handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        self.begin(now, out);
        if !self.ending.is_over() {
            self.on_ending_deadline();
            self.on_handshake_deadline();
            self.take_turns();
            self.take_idle_turn();
        }
        self.end(out);
    }

    /// When to call [`Hub::handle_timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        if self.ending.is_over() {
            return None;
        }
        let all =
            [self.turn_deadline(), self.idle_deadline(), self.ending_deadline(), self.handshake_deadline()];
        all.into_iter().flatten().min_by_key(|it| it.0)
    }

    fn begin(&mut self, now: Instant, out: &mut Effects) {
        self.now = Some(now);
        self.born.get_or_insert(now);
        std::mem::swap(&mut self.out, out);
    }

    fn end(&mut self, out: &mut Effects) {
        std::mem::swap(&mut self.out, out);
    }

    fn now(&self) -> Instant {
        self.now.expect("nothing is decided before the first event")
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Received(Peer::Client(client), frame) => self.on_client_message(client, frame),
            Event::Received(Peer::Backend(_), frame) => self.on_server_message(&frame),
            Event::Malformed { peer: Peer::Client(client), id, reason } => {
                self.on_malformed_of_client(client, id, &reason);
            }
            Event::Malformed { peer: Peer::Backend(_), id, reason } => {
                self.on_malformed_of_server(id, &reason);
            }
            Event::Closed { peer: Peer::Client(client), .. } | Event::Unwritable(client) => {
                self.on_client_closed(client);
            }
            Event::Closed { peer: Peer::Backend(_), .. } | Event::Stalled(Peer::Backend(_)) => {
                self.act(Effect::Terminate(PROCESS));
            }
            Event::Spawned { pid, .. } => self.on_spawned(pid),
            Event::SpawnFailed(_, failure) => self.on_spawn_failed(&failure),
            Event::Exited { exit, stderr, .. } => self.on_exited(exit, &stderr),
            Event::Measured(measured) => self.on_measured(&measured),
            Event::FileRead { path, text } => self.on_file_read(&path, text.as_deref()),
            Event::Quit(_) => self.on_quit(),
            // A client that takes nothing is closed by the shell; the rest is for the core of an editor.
            Event::Stalled(Peer::Client(_))
            | Event::Prepared(_)
            | Event::Displaced(..)
            | Event::Unshared(..)
            | Event::TranscriptWritten { .. }
            | Event::TeamsLoaded(_)
            | Event::TeamWritten { .. }
            | Event::ModeKept { .. }
            | Event::Recalled(_)
            | Event::RootFound(_)
            | Event::ToolRan(_)
            | Event::Looked(_)
            | Event::Wrote(_)
            | Event::Fetched(_)
            | Event::FilesChanged
            | Event::EditorReads(_)
            | Event::Muttered(_)
            | Event::Drained(_)
            | Event::EditorGone => {}
        }
    }

    fn act(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    fn tell_client(&mut self, client: ClientId, frame: Frame) {
        self.out.push(Effect::Send(Peer::Client(client), frame));
    }

    fn tell_server(&mut self, frame: Frame) {
        self.out.push(Effect::Send(Peer::Backend(PROCESS), frame));
    }

    /// Checks that the tables agree.
    #[cfg(any(test, feature = "testing"))]
    pub fn check(&self) -> Result<(), String> {
        self.requests.check()?;
        self.texts.check()?;
        let is_open = |it: &SentId| self.requests.get(*it).is_some();
        if let Some(lost) = self.asked.keys().find(|it| !is_open(it)) {
            return Err(format!("request {lost} is said to be open"));
        }
        let gone = self.asked.values().find(|it| !self.clients.contains_key(&it.client));
        if let Some(gone) = gone {
            return Err(format!("{gone:?} is of a client that has left"));
        }
        self.tokens.check(is_open)
    }
}
