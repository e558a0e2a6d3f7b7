//! All decisions of lspool, as one synchronous state machine that takes events and returns effects.
//!
//! It does no I/O, reads no clock, starts no process, uses no random numbers and no locks, and cannot fail: an error
//! of a peer is an event, and an answer to a peer is an effect.
//!
//! Five owners share the work. `Mux` has what any language server needs; `Copilot` has conversations with a Copilot
//! server; `Agents` has the agents that lspool runs itself; `CodeTools` answers questions of agents about code; `Admin`
//! answers requests to lspool. [`Proxy`] only puts them together. **Nobody calls upward**: if a lower owner needs a
//! decision of a higher one, `Proxy` asks the higher owner and hands the answer down as a value.
#![warn(clippy::disallowed_methods)]

mod admin;
mod agents;
mod backends;
mod code_tools;
mod copilot;
pub mod event;
pub(crate) mod identity;
pub(crate) mod ids;
mod messages;
pub(crate) mod mux;
mod process_events;
pub(crate) mod purpose;

/// What fuzz targets reach of the inside.
#[cfg(feature = "testing")]
pub mod testing {
    pub use super::mux::merge::answers::model::check as check_merge;
}

use std::{path::PathBuf, time::Instant};

use tracing::{info, warn};

use self::{
    admin::{Admin, Seen, offered_commands},
    agents::Agents,
    backends::{fail_backend, flush, renew, start_waiting},
    code_tools::CodeTools,
    copilot::Copilot,
    event::{BackendId, ClientId, Effects, Event, Peer, Prepared, ProcessId, ServerId},
    mux::{Mux, pool::processes::SpawnEnd},
};
pub use self::{
    copilot::{
        SIGN_IN,
        messages::CONTINUE,
        restore::proof::{QUESTION, reads_member},
        selection::partition_of,
        versions::{FIRST_WITH_MODES, FIRST_WITH_TRANSCRIPTS, Version},
    },
    identity::Identity,
};
use crate::config::ServerKind;

/// The state machine.
#[derive(Debug)]
pub struct Proxy {
    mux: Mux,
    /// The Copilot half; `None` for any other server.
    copilot: Option<Copilot>,
    agents: Agents,
    /// The code tools; `None` if an editor has its own documents.
    code_tools: Option<CodeTools>,
    admin: Admin,
    /// The folder for the server's records, until it is known whether the server is a Copilot server.
    unused_transcripts: Option<PathBuf>,
}

impl Proxy {
    /// A proxy before its first event.
    pub fn new(identity: Identity) -> Proxy {
        Proxy {
            mux: Mux::new(identity),
            copilot: None,
            agents: Agents::default(),
            code_tools: None,
            admin: Admin::default(),
            unused_transcripts: None,
        }
    }

    /// Handles one event. **On return all its effects are in `out`**, in the order for carrying them out.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        if self.mux.clients().is_exiting() {
            return;
        }
        self.mux.begin(now, out);
        self.on_event(event);
        self.settle();
        self.mux.end(out);
    }

    /// Handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        if self.mux.clients().is_exiting() {
            return;
        }
        self.mux.begin(now, out);
        self.mux.on_editor_deadlines();
        self.mux.on_group_deadlines();
        // What is due for the servers is not done any more for an editor that is left.
        if !self.mux.clients().is_exiting() {
            self.on_deadlines();
            self.settle();
        }
        self.mux.end(out);
    }

    /// When to call [`Proxy::handle_timeout`], and why.
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
            self.mux.group_deadline(),
            measure,
            spare,
            self.copilot.as_ref().and_then(|_| self.agents.poll_timeout()),
            self.code_tools.as_ref().and_then(CodeTools::poll_timeout),
        ];
        all.into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Whether a backend exists. A forgotten one does not come back.
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

    /// Checks all invariants; the error names a broken one. The cost grows with the size of the tables: for tests,
    /// and for a driver that must know whether it may continue.
    ///
    /// Call it between two events: an interrupted [`Proxy::handle`] may be half done.
    pub fn check(&self) -> Result<(), String> {
        self.code_tools.as_ref().map_or(Ok(()), CodeTools::check)?;
        admin::check::check(&self.mux, self.copilot.as_ref(), &self.agents)
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Received(Peer::EDITOR, frame) => self.on_editor_frame(frame),
            Event::Received(Peer::Client(client), frame) => self.on_control_frame(client, &frame),
            Event::Received(Peer::Backend(process), frame) => {
                if let Some(frame) = self.mux.received(process, frame) {
                    self.on_server_frame(process, frame);
                }
                self.on_converted();
            }
            Event::Malformed { peer: Peer::Client(client), id, reason } => {
                self.on_malformed_client(client, id.into(), &reason);
            }
            Event::Malformed { peer: Peer::Backend(process), id, reason } => {
                self.on_malformed_server(process, id.into(), &reason);
            }
            Event::Closed { peer: Peer::EDITOR, error } => self.on_editor_closed(error),
            Event::Closed { peer: Peer::Client(client), .. } => self.on_client_closed(client),
            Event::Closed { peer: Peer::Backend(process), error } => {
                self.mux.on_server_closed(process, error);
            }
            Event::Unwritable(ClientId::EDITOR) => {
                self.mux.exit(i32::from(!self.mux.clients().is_shut_down()));
            }
            Event::Unwritable(client) => self.on_client_closed(client),
            Event::Prepared(prepared) if self.mux.servers().first().is_some() => {
                self.admin.on_reloaded(&mut self.mux, &mut self.copilot, prepared);
                if let Some(tools) = &mut self.code_tools {
                    tools.note_servers(&self.mux);
                }
            }
            Event::Prepared(Ok(prepared)) => self.on_prepared(*prepared),
            Event::Prepared(Err(message)) => self.mux.on_unprepared(&message),
            Event::Displaced(process, displaced) => self.mux.on_displaced(process, &displaced),
            Event::Unshared(process, why) => self.mux.on_unshared(process, why),
            Event::Spawned { process, pid } => self.on_spawned(process, pid),
            Event::SpawnFailed(process, failure) => match self.mux.on_spawn_failed(process, &failure) {
                Some(SpawnEnd::Gone(cause, what)) => self.on_gone(process, cause, what),
                Some(SpawnEnd::Hopeless(failure)) => {
                    fail_backend(&mut self.copilot, &mut self.mux, process.backend, &failure);
                }
                None => {}
            },
            Event::Exited { process, exit, stderr } => {
                self.mux.stop_waiting_for_files(process);
                self.on_converted();
                if let Some((cause, what)) = self.mux.on_exited(process, exit, &stderr) {
                    self.on_gone(process, cause, what);
                }
            }
            Event::Measured(mut measured) => {
                self.admin.note_dropped(&mut measured);
                self.mux.on_measured(&measured);
                renew(&mut self.copilot, &mut self.mux);
                let seen = Seen { copilot: self.copilot.as_ref(), agents: &self.agents };
                self.admin.on_measured(&mut self.mux, seen);
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
                warn!("queue of the editor exceeded its limit");
                self.mux.exit(1);
            }
            Event::Stalled(Peer::Client(client)) => self.on_client_closed(client),
            Event::Stalled(Peer::Backend(process)) => {
                self.mux.on_server_closed(process, Some("it reads nothing".to_owned()));
            }
            Event::EditorGone => {
                info!("editor's process exited");
                self.mux.exit(1);
            }
            Event::Quit(signal) => self.mux.exit(128 + signal),
            Event::TranscriptWritten { .. }
            | Event::TeamsLoaded(_)
            | Event::TeamWritten { .. }
            | Event::ModeKept { .. }
            | Event::ToolRan(_) => self.on_copilot_event(event),
            Event::FileRead { path, text } => {
                self.mux.on_file_read(&path, text.as_deref());
                self.on_converted();
            }
            Event::Recalled(found) => self.mux.on_recalled(found),
            Event::RootFound(found) => self.mux.on_root_found(found),
            Event::Fetched(fetched) => {
                if let Some((process, frame)) = self.mux.on_fetched(fetched) {
                    self.on_server_frame(process, frame);
                }
                self.on_converted();
            }
            Event::Wrote(wrote) => {
                if let Some(tools) = &mut self.code_tools {
                    tools.on_wrote(*wrote);
                }
            }
            Event::Looked(seen) => {
                if let Some(tools) = &mut self.code_tools {
                    tools.on_looked(&mut self.mux, *seen);
                }
            }
        }
    }

    /// Handles messages of servers whose wait for files is over.
    fn on_converted(&mut self) {
        while let Some((process, frame)) = self.mux.next_converted() {
            self.on_server_frame(process, frame);
        }
    }

    /// Handles an answer of the shell for conversations and agents.
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
            other => warn!(?other, "ignored an event of conversations"),
        }
    }

    /// Handles the result of the search for the server: its first process starts, and messages flow.
    fn on_prepared(&mut self, mut prepared: Prepared) {
        let Some(early) = self.mux.open() else { return };
        let kind = prepared.server.kind.unwrap_or(ServerKind::Generic);
        info!(server = prepared.name, ?kind, program = %prepared.launch.program.display(), "found the server");
        self.admin.warn_of(&mut self.mux, &prepared.warnings);
        let transcripts = prepared.transcripts.take();
        let server = self.mux.add_server(prepared);
        match self.mux.server_of_kind(ServerKind::Copilot) {
            Some(server) => self.add_copilot(server, transcripts),
            None => self.unused_transcripts = transcripts,
        }
        let commands = offered_commands(self.mux.title(), self.copilot.is_some(), self.mux.identity());
        self.mux.server_mut(server).commands = commands;
        // Whether others can share a process depends on the editor's parameters.
        let is_shared = self.mux.is_any_shared();
        if !is_shared {
            start_waiting(&mut self.copilot, &mut self.mux);
        }
        self.mux.look_at_memory();
        for frame in early {
            if self.mux.is_opening(&frame) {
                self.admin.note_watching_editor(frame.params().unwrap_or(b"{}"));
                self.mux.forward_initialize(&frame);
                self.code_tools = CodeTools::wanted(&self.mux, frame.params().unwrap_or(b"{}"));
                if let Some(tools) = &mut self.code_tools {
                    tools.begin(&mut self.mux);
                }
            } else {
                self.on_editor_frame(frame);
            }
        }
        if is_shared {
            start_waiting(&mut self.copilot, &mut self.mux);
        }
    }

    fn add_copilot(&mut self, server: ServerId, transcripts: Option<PathBuf>) {
        let mut copilot = Copilot::new(&mut self.mux, server);
        copilot.keep_transcripts(transcripts);
        self.copilot = Some(copilot);
    }

    /// Handles the end of the editor's stream. The editor answers no further question, and does not wait for long.
    fn on_editor_closed(&mut self, error: Option<String>) {
        if self.mux.on_editor_closed(error) {
            self.cancel_orchestrations();
            let agents = self.copilot.as_ref().map(|_| &self.agents);
            let elsewhere = n_owed(&self.admin, agents, self.code_tools.as_ref());
            self.mux.begin_draining(elsewhere);
        }
    }

    /// A client is gone, which is not the editor.
    fn on_client_closed(&mut self, client: ClientId) {
        self.admin.on_client_closed(client);
        if let Some(tools) = &mut self.code_tools {
            tools.on_client_closed(&mut self.mux, client);
        }
    }

    /// Handles the consequences of an event: idle partitions, next steps, and the end after the last owed answer.
    /// Runs for each message, so it must not search whole tables.
    fn settle(&mut self) {
        let mut seen = 0;
        self.settle_once();
        // Agents act on their messages at once.
        while let Some(copilot) = &mut self.copilot
            && self.agents.settle(copilot, &mut self.mux, &mut seen)
        {
            self.settle_once();
        }
        // What the tools ask may be answered at once.
        while let Some(tools) = &mut self.code_tools
            && tools.settle(&mut self.mux)
        {
            self.settle_once();
        }
        let Proxy { mux, copilot, agents, admin, .. } = self;
        if let Some(copilot) = copilot
            && agents.take_changed()
            && !mux.clients().is_exiting()
        {
            admin.tell_watchers(mux, Seen { copilot: Some(copilot), agents });
        }
    }

    fn settle_once(&mut self) {
        let Proxy { mux, copilot, agents, code_tools, admin, .. } = self;
        if mux.clients().is_exiting() {
            return;
        }
        match copilot {
            Some(it) => {
                it.settle(mux);
                if mux.is_group() && mux.backends().have_changed() {
                    renew(copilot, mux);
                }
            }
            None => {
                if mux.note_all_debts().iter().any(|id| mux.is_to_be_replaced(*id)) {
                    renew(copilot, mux);
                }
            }
        }
        if mux.backends().have_changed() {
            admin.answer_restarts(mux);
            admin.tell_watchers(mux, Seen { copilot: copilot.as_ref(), agents });
        }
        let agents = copilot.as_ref().map(|_| &*agents);
        mux.drain(|| n_owed(admin, agents, code_tools.as_ref()));
        if let Some(copilot) = copilot {
            copilot.end(mux);
        }
        mux.settle_group();
        mux.settle_backends();
    }
}

/// How many answers lspool itself owes the editor. Without a Copilot server there are no agents.
fn n_owed(admin: &Admin, agents: Option<&Agents>, code_tools: Option<&CodeTools>) -> usize {
    let of_agents = agents.map_or(0, Agents::n_owed);
    admin.n_owed_to(ClientId::EDITOR) + of_agents + code_tools.map_or(0, CodeTools::n_owed)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests are the clock")]
mod tests;
