//! Everything that lspool decides, as one synchronous state machine that is told events and answers with effects.
//!
//! It does no I/O, reads no clock, spawns nothing, draws nothing at random, locks nothing, and cannot fail: what
//! goes wrong at a peer is an event, what a peer must be told is an effect.
//!
//! **Mutate once, then carry out**: [`Proxy::handle`] pushes all effects of one event before it returns, in the
//! order in which they must happen.
#![warn(clippy::disallowed_methods)]

mod admin;
mod agents;
mod copilot;
pub mod event;
mod mux;

// Names as they were.
use self::{
    admin::control,
    agents::{conversations as inside, orchestrations as orchestrate, subagents},
    copilot::{
        conversation as conversations, history, modes, progress as said, restore, resume as recovery,
        selection, spares,
        tools::{calls as tools, catalog as catalogue, mcp, tool_set as toolset},
        turns as chat,
    },
    mux::{
        clients as handshake, diagnostics, failure, from_client as editor, from_server as servers,
        pool::{backend, health, lifecycle, processes, reconcile, usage as tally},
        registrations, requests, result_ids as results, routes as route, session,
        session::documents,
        tokens as progress,
    },
};

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tracing::{debug, info, warn};

use self::{
    backend::{Backend, Backends},
    catalogue::Catalogue,
    control::Control,
    conversations::Conversations,
    diagnostics::Diagnostics,
    event::{BackendId, ClientId, Effect, Effects, Event, Launch, Peer},
    failure::{Cause, Failure},
    handshake::{Draining, Phase},
    inside::Inside,
    modes::Modes,
    orchestrate::Orchestrations,
    progress::Tokens,
    registrations::Registrations,
    requests::{Owner, Purpose, Requests, SentId, To},
    said::Shapes,
    session::Session,
    subagents::Agents,
    toolset::ToolSet,
};
pub use self::{failure::SIGN_IN, recovery::CONTINUE, selection::partition_of};
use crate::{
    config::{Config, ServerConfig, ServerKind},
    rpc::{Frame, RawId},
};

/// What makes the ids that this lspool invents its own.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Process id of this lspool.
    pub pid: u32,
    /// When it started, in milliseconds since 1970.
    pub started: u64,
}

impl Identity {
    /// Anything, but the same for the same number in the same run, and hardly the same in another one.
    fn mixed(&self, n: u64) -> u64 {
        let mix = |seed: u64| {
            let it = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            it ^ (it >> 31)
        };
        mix(self.started ^ mix(u64::from(self.pid) << 32 | n))
    }
}

/// The state machine.
#[derive(Debug)]
pub struct Proxy {
    identity: Identity,
    phase: Phase,
    /// The editor has closed its stream.
    draining: Option<Draining>,
    /// The editor gives one id to several requests.
    unnumbered: bool,
    server: Option<Server>,
    requests: Requests,
    backends: Backends,
    last_backend: u32,
    control: Control,
    /// Workspace folders of `initialize`.
    folders: Vec<PathBuf>,
    /// When the first event came.
    born: Option<Instant>,
    /// The editor lets so much wait that servers are not read.
    is_paused: bool,
    /// Of processes that were kept ready.
    spare_deaths: lifecycle::Budget,
    /// When spares may be started.
    next_spare: Option<Instant>,
    /// The user has been told that `memory_limit` is less than a process needs.
    limit_told: bool,
    /// When memory is to be looked at.
    next_measure: Option<Instant>,
    session: Session,
    catalogue: Catalogue,
    modes: Modes,
    conversations: Conversations,
    agents: Agents,
    inside: Inside,
    orchestrations: Orchestrations,
    tokens: Tokens,
    shapes: Shapes,
    registrations: Registrations,
    diagnostics: Diagnostics,
    n_conversations: u64,
    n_turns: u64,
    /// What the servers last said to the user.
    said: VecDeque<(BackendId, Bytes)>,
}

/// The server that is stood in front of, as the configuration and the workspace have it.
#[derive(Debug)]
struct Server {
    name: String,
    kind: ServerKind,
    settings: ServerConfig,
    launch: Arc<Launch>,
    config: Arc<Config>,
    /// Why it cannot be started, if there is nothing to start.
    missing: Option<String>,
    /// What was started is not there any more: it may have been updated, or moved.
    is_gone: bool,
    /// `max_processes` was made smaller, and there are more.
    shrinks: bool,
}

/// The partition that serves what belongs to the process; for a generic server the only backend.
const PRIMARY: BackendId = BackendId(0);

const EDITOR: Peer = Peer::Client(ClientId::EDITOR);

impl Proxy {
    /// A proxy to which nothing has happened.
    pub fn new(identity: Identity) -> Proxy {
        Proxy {
            identity,
            phase: Phase::default(),
            draining: None,
            unnumbered: false,
            server: None,
            requests: Requests::default(),
            backends: Backends::default(),
            last_backend: 0,
            control: Control::default(),
            folders: Vec::new(),
            born: None,
            is_paused: false,
            spare_deaths: lifecycle::Budget::default(),
            next_spare: None,
            limit_told: false,
            next_measure: None,
            session: Session::default(),
            catalogue: Catalogue::default(),
            modes: Modes::default(),
            conversations: Conversations::default(),
            agents: Agents::default(),
            inside: Inside::default(),
            orchestrations: Orchestrations::default(),
            tokens: Tokens::default(),
            shapes: Shapes::default(),
            registrations: Registrations::default(),
            diagnostics: Diagnostics::default(),
            n_conversations: 0,
            n_turns: 0,
            said: VecDeque::new(),
        }
    }

    /// Takes in one event.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        if self.phase.is_exiting() {
            return;
        }
        self.born.get_or_insert(now);
        match event {
            Event::Received(EDITOR, frame) => self.on_editor_frame(now, frame, out),
            Event::Received(Peer::Client(client), frame) => self.on_control_frame(now, client, &frame, out),
            Event::Received(Peer::Backend(process), frame) => {
                self.backends.heard(process, now);
                self.on_backend_frame(now, process, frame, out);
            }
            Event::Malformed { peer: Peer::Client(client), id, reason } => {
                self.on_malformed_client(now, client, id, &reason, out);
            }
            Event::Malformed { peer: Peer::Backend(process), id, reason } => {
                self.on_malformed_backend(process, id, &reason, out);
            }
            Event::Closed { peer: EDITOR, error } => self.on_editor_closed(now, error, out),
            Event::Closed { peer: Peer::Client(client), .. } => self.on_control_closed(client),
            Event::Closed { peer: Peer::Backend(process), error } => {
                self.on_backend_closed(process, error, out);
            }
            Event::Unwritable(ClientId::EDITOR) => self.exit(i32::from(!self.phase.is_shut_down()), out),
            Event::Unwritable(client) => self.on_control_closed(client),
            Event::Prepared(prepared) if self.server.is_some() => self.on_reloaded(now, prepared, out),
            Event::Prepared(Ok(prepared)) => self.on_prepared(now, *prepared, out),
            Event::Prepared(Err(message)) => self.on_unprepared(&message, out),
            Event::Spawned { process, pid } => self.on_spawned(now, process, pid, out),
            Event::SpawnFailed(process, failure) => self.on_spawn_failed(now, process, &failure, out),
            Event::Exited { process, exit, stderr } => self.on_exited(now, process, exit, &stderr, out),
            Event::TranscriptWritten { process, conversation, folder } => {
                self.on_transcript(process, &conversation, folder, out);
            }
            Event::TeamsLoaded(found) => self.on_teams_loaded(found, out),
            Event::TeamWritten { number, team, written } => {
                self.on_team_written(number, &team, &written, out);
            }
            Event::ModeKept { number, kept } => self.on_mode_kept(number, kept, out),
            Event::ToolRan(answer) => self.on_tool_ran(now, &answer, out),
            Event::Measured(measured) => self.on_measured(now, *measured, out),
            Event::FilesChanged => self.reload(out),
            Event::EditorReads(reads) => self.is_paused = !reads,
            Event::Stalled(EDITOR) => {
                warn!("the editor does not read: too much waits for it");
                self.exit(1, out);
            }
            Event::Stalled(Peer::Client(client)) => self.on_control_closed(client),
            Event::Stalled(Peer::Backend(process)) => {
                self.on_backend_closed(process, Some("it takes no bytes".to_owned()), out);
            }
            Event::EditorGone => {
                info!("the editor's process is gone");
                self.exit(1, out);
            }
            Event::Quit(signal) => self.exit(128 + signal, out),
        }
        self.settle(now, out);
    }

    /// Does what has become due.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        if self.phase.is_exiting() {
            return;
        }
        self.on_editor_deadlines(now, out);
        // What is due for the servers is not done any more for an editor that is left.
        if self.phase.is_exiting() {
            return;
        }
        self.on_backend_deadlines(now, out);
        self.look_at_memory(now, out);
        self.on_spare_deadline(now);
        self.on_inside_deadlines(now, out);
        self.settle(now, out);
    }

    /// When [`Proxy::handle_timeout`] is to be called, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        if self.phase.is_exiting() {
            return None;
        }
        let draining = self.draining.as_ref().map(Draining::deadline);
        let measure = self.next_measure.map(|at| (at, "memory is to be looked at"));
        let spare = self.next_spare.map(|at| (at, "spares may be started"));
        let inside = self.inside.deadline().map(|at| (at, "an agent has had its time"));
        let all = [self.backends.deadline(), draining, self.phase.deadline(), measure, spare, inside];
        all.into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Whether there is such a backend. One that is forgotten does not come back.
    pub fn knows(&self, id: BackendId) -> bool {
        self.backends.get(&id).is_some()
    }

    /// What a backend is, for people: its name, and the tools of its conversations as they were declared.
    pub fn about(&self, id: BackendId) -> Option<(&str, Vec<String>)> {
        self.backend(id).map(|it| (&*it.name, it.set.names()))
    }

    /// What follows from all that an event has changed: which partitions are idle, what is to be done next, and an
    /// editor that has closed its stream is left once it is owed nothing. This is done for each message, so it must
    /// not look through all there is.
    fn settle(&mut self, now: Instant, out: &mut Effects) {
        let mut seen = 0;
        self.settle_once(now, out);
        // What those inside are told they act on at once.
        while self.run_inside(now, &mut seen, out) || self.tend_leads(now, out) {
            self.settle_once(now, out);
        }
    }

    fn settle_once(&mut self, now: Instant, out: &mut Effects) {
        if self.phase.is_exiting() {
            return;
        }
        self.evict_leaving(now, out);
        self.note_changes(now, out);
        self.keep_spares(now, out);
        if self.backends.have_changed() {
            self.answer_restarts(out);
            self.tell_watchers(out);
        }
        self.drain(now, out);
        self.backends.settle(now, self.idle_timeout());
    }

    fn idle_timeout(&self) -> Duration {
        self.server.as_ref().map_or(Duration::MAX, |it| it.settings.idle_timeout)
    }

    fn exit(&mut self, code: i32, out: &mut Effects) {
        if !self.phase.is_exiting() {
            debug!(code, unanswered = self.requests.len(), open_tokens = self.tokens.n_open(), "exit");
            self.phase = Phase::Exiting;
            out.push(Effect::Exit(code));
        }
    }

    fn is_copilot(&self) -> bool {
        self.server.as_ref().is_some_and(|it| it.kind == ServerKind::Copilot)
    }

    fn backend(&self, id: BackendId) -> Option<&Backend> {
        self.backends.get(&id)
    }

    fn name_of(&self, id: BackendId) -> &str {
        self.backend(id).map_or("", |it| &it.name)
    }

    /// Asks the editor something that lspool itself wants.
    fn ask_editor(
        &mut self,
        purpose: Purpose,
        method: &str,
        params: Option<&[u8]>,
        out: &mut Effects,
    ) -> SentId {
        let frame = Frame::request(RawId::from(0), method, params);
        let (sent, frame) = self.requests.sent(To::Client(ClientId::EDITOR), Owner::Proxy, purpose, &frame);
        tell_editor(frame, out);
        sent
    }

    /// Answers a request that failed here.
    fn fail(&self, owner: &Owner, failure: &Failure, out: &mut Effects) {
        match owner {
            Owner::Client(client, id) => {
                out.push(Effect::Send(Peer::Client(*client), failure.answer(id.clone())));
            }
            Owner::Backend(process, id) => {
                if self.is_current(*process) {
                    out.push(Effect::Send(Peer::Backend(*process), failure.answer(id.clone())));
                }
            }
            Owner::Proxy => {}
        }
    }

    fn is_current(&self, process: event::ProcessId) -> bool {
        self.backend(process.backend).is_some_and(|it| it.is_current(process))
    }
}

/// Sends a message that lspool has made, or passes on, to the editor.
fn tell_editor(frame: Frame, out: &mut Effects) {
    out.push(Effect::Send(EDITOR, frame));
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests are the clock")]
mod tests;
