//! Everything that lspool decides, as one synchronous state machine that is told events and answers with effects.
//!
//! It does no I/O, reads no clock, spawns nothing, draws nothing at random, locks nothing, and cannot fail: what
//! goes wrong at a peer is an event, what a peer must be told is an effect.
//!
//! Four owners share the work. `Mux` has what any language server needs; `Copilot` has conversations with a
//! Copilot server; `Agents` has those who work for the user inside lspool; `Admin` answers what people ask lspool
//! itself. [`Proxy`] only puts them together. **Nobody calls upward**: where a lower owner needs a decision of a higher
//! one, `Proxy` asks that one and hands the answer down as a value.
#![warn(clippy::disallowed_methods)]

mod admin;
mod agents;
mod backends;
mod copilot;
pub mod event;
mod identity;
mod ids;
mod messages;
mod mux;
mod processes;
mod purpose;

use std::{path::PathBuf, time::Instant};

use tracing::{info, warn};

use self::{
    admin::{Admin, offered_commands},
    agents::Agents,
    backends::{fail_backend, flush, renew, start_waiting},
    copilot::Copilot,
    event::{BackendId, ClientId, Effects, Event, Peer, Prepared, ProcessId, ServerId},
    mux::{Mux, pool::processes::SpawnEnd},
};
pub use self::{
    copilot::{SIGN_IN, resume::CONTINUE, selection::partition_of},
    identity::Identity,
};
use crate::config::ServerKind;

/// The state machine.
#[derive(Debug)]
pub struct Proxy {
    mux: Mux,
    /// What there is of a Copilot server beside what any server has; `None` for any other.
    copilot: Option<Copilot>,
    agents: Agents,
    admin: Admin,
    /// Where a Copilot server would keep what it tells the model, until it is known whether the server is one.
    unused_transcripts: Option<PathBuf>,
}

impl Proxy {
    /// A proxy to which nothing has happened.
    pub fn new(identity: Identity) -> Proxy {
        Proxy {
            mux: Mux::new(identity),
            copilot: None,
            agents: Agents::default(),
            admin: Admin::default(),
            unused_transcripts: None,
        }
    }

    /// Takes in one event. **All effects of it are there when it returns**, in the order in which they must happen.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        if self.mux.clients().is_exiting() {
            return;
        }
        self.mux.begin(now, out);
        self.on_event(event);
        self.settle();
        self.mux.end(out);
    }

    /// Does what has become due.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        if self.mux.clients().is_exiting() {
            return;
        }
        self.mux.begin(now, out);
        self.mux.on_editor_deadlines();
        // What is due for the servers is not done any more for an editor that is left.
        if !self.mux.clients().is_exiting() {
            self.on_deadlines();
            self.settle();
        }
        self.mux.end(out);
    }

    /// When [`Proxy::handle_timeout`] is to be called, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        if self.mux.clients().is_exiting() {
            return None;
        }
        let [draining, phase] = self.mux.editor_deadlines();
        let [mcp, spare] = self.copilot.as_ref().map_or([None; 2], Copilot::poll_timeout);
        let measure = self.mux.measure_deadline();
        let all = [
            self.mux.backends().deadline(),
            mcp,
            draining,
            phase,
            measure,
            spare,
            self.copilot.as_ref().and_then(|_| self.agents.poll_timeout()),
        ];
        all.into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Whether there is such a backend. One that is forgotten does not come back.
    pub fn knows(&self, id: BackendId) -> bool {
        self.mux.backends().contains(id)
    }

    /// Whether a process has not answered `initialize` yet.
    pub fn is_starting(&self, process: ProcessId) -> bool {
        self.mux.backend(process.backend).is_some_and(|it| it.is_current(process) && it.is_starting())
    }

    /// What a backend is, for people: its name, and the tools of its conversations as they were declared.
    pub fn about(&self, id: BackendId) -> Option<(&str, Vec<String>)> {
        let tools = self.copilot.as_ref().and_then(|it| it.declared_tools(id));
        self.mux.backend(id).map(|it| (&*it.name, tools.unwrap_or_else(|| vec!["*".to_owned()])))
    }

    /// Says which invariant of the state machine is broken, if one is. It costs time in proportion to all there
    /// is: for tests, and for a driver that has to know whether it may go on.
    ///
    /// Between two events, that is: what [`Proxy::handle`] was interrupted in may be half done.
    pub fn check(&self) -> Result<(), String> {
        admin::check::check(&self.mux, self.copilot.as_ref(), &self.agents)
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Received(Peer::EDITOR, frame) => self.on_editor_frame(frame),
            Event::Received(Peer::Client(client), frame) => self.on_control_frame(client, &frame),
            Event::Received(Peer::Backend(process), frame) => self.on_server_frame(process, frame),
            Event::Malformed { peer: Peer::Client(client), id, reason } => {
                self.on_malformed_client(client, id.into(), &reason);
            }
            Event::Malformed { peer: Peer::Backend(process), id, reason } => {
                self.on_malformed_server(process, id.into(), &reason);
            }
            Event::Closed { peer: Peer::EDITOR, error } => self.on_editor_closed(error),
            Event::Closed { peer: Peer::Client(client), .. } => self.admin.on_client_closed(client),
            Event::Closed { peer: Peer::Backend(process), error } => {
                self.mux.on_server_closed(process, error);
            }
            Event::Unwritable(ClientId::EDITOR) => {
                self.mux.exit(i32::from(!self.mux.clients().is_shut_down()));
            }
            Event::Unwritable(client) => self.admin.on_client_closed(client),
            Event::Prepared(prepared) if self.mux.servers().first().is_some() => {
                self.admin.on_reloaded(&mut self.mux, &mut self.copilot, prepared);
            }
            Event::Prepared(Ok(prepared)) => self.on_prepared(*prepared),
            Event::Prepared(Err(message)) => self.mux.on_unprepared(&message),
            Event::Displaced(process, displaced) => self.mux.on_displaced(process, &displaced),
            Event::Spawned { process, pid } => self.on_spawned(process, pid),
            Event::SpawnFailed(process, failure) => match self.mux.on_spawn_failed(process, &failure) {
                Some(SpawnEnd::Gone(cause, what)) => self.on_gone(process, cause, what),
                Some(SpawnEnd::Hopeless(failure)) => {
                    fail_backend(&mut self.copilot, &mut self.mux, process.backend, &failure);
                }
                None => {}
            },
            Event::Exited { process, exit, stderr } => {
                if let Some((cause, what)) = self.mux.on_exited(process, exit, &stderr) {
                    self.on_gone(process, cause, what);
                }
            }
            Event::Measured(mut measured) => {
                self.admin.note_dropped(&mut measured);
                self.mux.on_measured(&measured);
                renew(&mut self.copilot, &mut self.mux);
                self.admin.on_measured(&mut self.mux, self.copilot.as_ref());
            }
            Event::FilesChanged => self.admin.reload(&mut self.mux),
            Event::EditorReads(reads) => self.mux.on_editor_reads(reads),
            Event::Muttered(process) if self.is_starting(process) => self.mux.heard(process),
            Event::Muttered(_) => {}
            Event::Drained(process) => {
                if self.mux.on_drained(process) {
                    flush(&mut self.copilot, &mut self.mux, process.backend);
                }
            }
            Event::Stalled(Peer::EDITOR) => {
                warn!("the editor does not read: too much waits for it");
                self.mux.exit(1);
            }
            Event::Stalled(Peer::Client(client)) => self.admin.on_client_closed(client),
            Event::Stalled(Peer::Backend(process)) => {
                self.mux.on_server_closed(process, Some("it takes no bytes".to_owned()));
            }
            Event::EditorGone => {
                info!("the editor's process is gone");
                self.mux.exit(1);
            }
            Event::Quit(signal) => self.mux.exit(128 + signal),
            Event::TranscriptWritten { .. }
            | Event::TeamsLoaded(_)
            | Event::TeamWritten { .. }
            | Event::ModeKept { .. }
            | Event::ToolRan(_) => self.on_copilot_event(event),
        }
    }

    /// What the shell has done for conversations and agents.
    fn on_copilot_event(&mut self, event: Event) {
        let Proxy { mux, copilot: Some(copilot), agents, .. } = self else { return };
        match event {
            Event::TranscriptWritten { process, conversation, folder } => {
                copilot.on_transcript(mux, process, &conversation, folder);
            }
            Event::ModeKept { number, kept } => copilot.on_mode_kept(mux, number, kept),
            Event::ToolRan(answer) => copilot.on_tool_ran(mux, &answer),
            Event::TeamsLoaded(found) => agents.on_teams_loaded(copilot, mux, found),
            Event::TeamWritten { number, team, written } => {
                agents.on_team_written(copilot, mux, number, &team, &written);
            }
            other => warn!(?other, "not an event of conversations"),
        }
    }

    /// The workspace is known: the server's first process starts, and messages flow.
    fn on_prepared(&mut self, mut prepared: Prepared) {
        let Some(early) = self.mux.open() else { return };
        let kind = prepared.server.kind.unwrap_or(ServerKind::Generic);
        info!(server = prepared.name, ?kind, program = %prepared.launch.program.display(), "initialize");
        self.admin.warn_of(&mut self.mux, &prepared.warnings);
        let transcripts = prepared.transcripts.take();
        let server = self.mux.add_server(prepared);
        match kind {
            ServerKind::Copilot => self.add_copilot(server, transcripts),
            ServerKind::Generic => self.unused_transcripts = transcripts,
        }
        let commands =
            offered_commands(&self.mux.server(server).name, self.copilot.is_some(), self.mux.identity());
        self.mux.server_mut(server).commands = commands;
        start_waiting(&mut self.copilot, &mut self.mux);
        self.mux.look_at_memory();
        for frame in early {
            if self.mux.is_opening(&frame) {
                self.admin.note_watching_editor(frame.params().unwrap_or(b"{}"));
                self.mux.forward_initialize(&frame);
            } else {
                self.on_editor_frame(frame);
            }
        }
    }

    fn add_copilot(&mut self, server: ServerId, transcripts: Option<PathBuf>) {
        let mut copilot = Copilot::new(&mut self.mux, server);
        copilot.keep_transcripts(transcripts);
        self.copilot = Some(copilot);
    }

    /// The editor will send no more. It answers no question of theirs any more, and does not wait for minutes.
    fn on_editor_closed(&mut self, error: Option<String>) {
        if self.mux.on_editor_closed(error) {
            self.cancel_orchestrations();
            let elsewhere = self.admin.n_owed_to(ClientId::EDITOR) + self.agents.n_owed();
            self.mux.begin_draining(elsewhere);
        }
    }

    /// What follows from all that an event has changed: which partitions are idle, what is to be done next, and an
    /// editor that has closed its stream is left once it is owed nothing. This is done for each message, so it must
    /// not look through all there is.
    fn settle(&mut self) {
        let mut seen = 0;
        self.settle_once();
        // What agents are told they act on at once.
        while let Some(copilot) = &mut self.copilot
            && self.agents.settle(copilot, &mut self.mux, &mut seen)
        {
            self.settle_once();
        }
    }

    fn settle_once(&mut self) {
        let Proxy { mux, copilot, agents, admin, .. } = self;
        if mux.clients().is_exiting() {
            return;
        }
        match copilot {
            Some(copilot) => copilot.settle(mux),
            None => {
                if mux.note_all_debts().iter().any(|id| mux.is_to_be_replaced(*id)) {
                    renew(copilot, mux);
                }
            }
        }
        if mux.backends().have_changed() {
            admin.answer_restarts(mux);
            admin.tell_watchers(mux, copilot.as_ref());
        }
        mux.drain(|| admin.n_owed_to(ClientId::EDITOR) + agents.n_owed());
        if let Some(copilot) = copilot {
            copilot.end(mux);
        }
        mux.settle_backends();
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests are the clock")]
mod tests;
