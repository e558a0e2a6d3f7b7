//! The life of a process: `Proxy` asks each owner what follows when a process starts, is ready, dies, or has a
//! deadline.

use tracing::{info, warn};

use super::{
    Proxy,
    backends::{fail_backend, flush, half, renew, start_waiting, stop},
    event::ProcessId,
    mux::{
        Severity,
        failure::Cause,
        pool::{
            lifecycle::{Demand, Handshake},
            processes::{Due, Outlook, Ready, StillWanted},
        },
    },
};
use crate::rpc::path;

/// `serverInfo.name` of a Copilot server.
const COPILOT_NAME: &[u8] = br#""GitHub Copilot Language Server""#;

// Events of processes.
impl Proxy {
    pub(super) fn on_spawned(&mut self, process: ProcessId, pid: u32) {
        let handshake = self.mux.on_spawned(process, pid);
        match (handshake, half(&mut self.copilot, &self.mux, process.backend)) {
            (None, _) => {}
            (Some(Handshake::Editor), _) => flush(&mut self.copilot, &mut self.mux, process.backend),
            (Some(Handshake::Own), Some(copilot)) => {
                let params = copilot.initialize_params(&self.mux, process.backend);
                self.mux.initialize(process, &params);
            }
            (Some(Handshake::Own), None) => self.mux.initialize_as_editor(process),
        }
    }

    /// Handles a ready process: it gets the session, unless the editor sends it.
    pub(super) fn on_ready(&mut self, process: ProcessId, ready: &Ready, result: &[u8]) {
        if ready.is_first {
            self.learn_kind(process, result);
        }
        if let Some(copilot) = half(&mut self.copilot, &self.mux, process.backend) {
            copilot.on_ready(&mut self.mux, process.backend, result);
        }
        // There is no session yet for the members of a group that are waited for.
        let is_told = ready.handshake == Handshake::Own && !self.mux.is_opening_group();
        if is_told {
            match half(&mut self.copilot, &self.mux, process.backend) {
                Some(copilot) => copilot.replay_session(&mut self.mux, process),
                None => self.mux.replay_session(process),
            }
            self.mux.begin_reconciling(process, result);
        }
        flush(&mut self.copilot, &mut self.mux, process.backend);
    }

    /// Recognizes a Copilot server with another name by its `serverInfo`, unless the configuration names its kind.
    fn learn_kind(&mut self, process: ProcessId, result: &[u8]) {
        let Some(backend) = self.mux.backend(process.backend) else { return };
        let server = self.mux.servers().of(backend);
        let (id, name) = (server.id, server.name.clone());
        let says = path(result, &["serverInfo", "name"]).map(|range| &result[range]);
        if server.settings.kind.is_none() && says == Some(COPILOT_NAME) && self.copilot.is_none() {
            info!(server = name, "recognized a Copilot server");
            let transcripts = self.unused_transcripts.take();
            self.add_copilot(id, transcripts);
        }
        if self.copilot.is_none() && self.unused_transcripts.take().is_some() {
            let hint = "it needs a Copilot server; if this is one, set `kind = \"copilot\"`";
            let problem = format!("[server.{name}] exact_restore has no effect: {hint}");
            warn!(problem);
            self.mux.show(Severity::Warning, &problem);
        }
    }

    /// Handles the end of a process, or a failed start. Each owner says what it still wants; then the mux ends the
    /// rest.
    pub(super) fn on_gone(&mut self, process: ProcessId, cause: Cause, what: String) {
        let Proxy { mux, copilot, agents, .. } = self;
        let Some(gone) = mux.begin_gone(process, cause, what) else { return };
        let mut waiting = Demand::Nobody;
        match half(copilot, mux, process.backend) {
            Some(copilot) => {
                let followed_up = agents.followed_up(copilot, mux);
                let (suspended, of_turns) = copilot.on_gone(mux, &gone, &followed_up);
                for id in &suspended {
                    agents.note_suspended(id);
                }
                waiting = of_turns;
            }
            None if gone.outlook == Outlook::Follows => drop(mux.requeue(process)),
            None => {}
        }
        let Some(after) = mux.decide_gone(gone, waiting) else { return };
        let wanted = match half(copilot, mux, process.backend) {
            Some(copilot) => copilot.on_successor_decided(mux, process.backend, after.next()),
            None => StillWanted::default(),
        };
        mux.finish_gone(&after, &wanted);
        match half(copilot, mux, process.backend) {
            Some(copilot) => copilot.after_gone(mux, &after),
            None => {
                mux.report_gone(&after);
                start_waiting(copilot, mux);
                mux.on_shutdown_progress();
            }
        }
    }

    pub(super) fn on_deadlines(&mut self) {
        let Proxy { mux, copilot, agents, .. } = self;
        mux.on_reconcile_deadlines();
        if let Some(copilot) = copilot {
            copilot.on_mcp_deadlines(mux);
        }
        for id in mux.due_backends() {
            match mux.on_due(id) {
                Due::Nothing => {}
                Due::Stop(why) => stop(copilot, mux, id, why),
                Due::GiveUp(failure) => fail_backend(copilot, mux, id, &failure),
                Due::Late { turns, failure } => {
                    if let Some(copilot) = half(copilot, mux, id) {
                        copilot.end_late_turns(mux, &turns, &failure);
                    }
                }
            }
        }
        renew(copilot, mux);
        start_waiting(copilot, mux);
        mux.look_at_memory();
        if let Some(copilot) = copilot {
            copilot.on_spare_deadline(mux);
            agents.on_internal_deadlines(copilot, mux);
        }
    }
}
