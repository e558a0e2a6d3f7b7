//! Cleans up the editor's screen after a process: withdraws everything that its successor does not repeat.
//!
//! Registrations and diagnostics stay while the next process starts, or the screen would flicker at each restart. The
//! new process has [`GRACE`] after it is ready to repeat what is still true. The editor is asked once to pull again.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use tracing::{debug, warn};

use crate::{
    core::{
        event::{BackendId, ProcessId},
        mux::{Mux, Severity, pool::backend::Deadline, successor::Differences},
        purpose::Purpose,
    },
    rpc::{Frame, elements, path, text},
};

/// How long a successor may take to repeat registrations and diagnostics.
const GRACE: Duration = Duration::from_secs(5);

/// The state of the cleaning for a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reconcile {
    /// Nothing of a predecessor is on the screen.
    #[default]
    Nothing,
    /// The process has just become ready.
    Begins,
    At(Instant),
}

impl Reconcile {
    /// Starts the time after the event that made it ready.
    pub(crate) fn note(&mut self, now: Instant) {
        if *self == Reconcile::Begins {
            *self = Reconcile::At(now + GRACE);
        }
    }

    pub(crate) fn deadline(self) -> Option<Deadline> {
        match self {
            Reconcile::At(at) => Some((at, "what a process did not repeat is taken back")),
            Reconcile::Nothing | Reconcile::Begins => None,
        }
    }

    pub(crate) fn is_due(self, now: Instant) -> bool {
        self.deadline().is_some_and(|(at, _)| at <= now)
    }
}

/// Data that an editor pulls, and can be asked to pull again.
struct Pulled {
    /// The request that asks for it.
    refresh: &'static str,
    /// The editor's capability below `workspace`.
    capability: &'static str,
    /// The server's capability, and the method for registering it instead.
    provider: &'static str,
    method: &'static str,
}

const PULLED: [Pulled; 6] = [
    Pulled {
        refresh: "workspace/codeLens/refresh",
        capability: "codeLens",
        provider: "codeLensProvider",
        method: "textDocument/codeLens",
    },
    Pulled {
        refresh: "workspace/diagnostic/refresh",
        capability: "diagnostics",
        provider: "diagnosticProvider",
        method: "textDocument/diagnostic",
    },
    Pulled {
        refresh: "workspace/foldingRange/refresh",
        capability: "foldingRange",
        provider: "foldingRangeProvider",
        method: "textDocument/foldingRange",
    },
    Pulled {
        refresh: "workspace/inlayHint/refresh",
        capability: "inlayHint",
        provider: "inlayHintProvider",
        method: "textDocument/inlayHint",
    },
    Pulled {
        refresh: "workspace/inlineValue/refresh",
        capability: "inlineValue",
        provider: "inlineValueProvider",
        method: "textDocument/inlineValue",
    },
    Pulled {
        refresh: "workspace/semanticTokens/refresh",
        capability: "semanticTokens",
        provider: "semanticTokensProvider",
        method: "textDocument/semanticTokens",
    },
];

/// The commands in an answer to `initialize`.
fn commands(result: &[u8]) -> Vec<String> {
    let Some(range) = path(result, &["capabilities", "executeCommandProvider", "commands"]) else {
        return Vec::new();
    };
    let list = &result[range];
    elements(list).filter_map(|it| text(&list[it], &[])).collect()
}

impl Mux {
    /// Begins cleaning after a successor is ready and has the session.
    pub(crate) fn begin_reconciling(&mut self, process: ProcessId, result: &[u8]) {
        if process.generation.0 == 1 {
            return;
        }
        let is_stale = self.registrations.has_stale(process)
            || self.diagnostics.has_stale(process)
            || self.group.as_ref().is_some_and(|it| it.has_stale_diagnostics(process));
        if let Some(backend) = self.backends.get_mut(process.backend).filter(|_| is_stale) {
            backend.reconcile = Reconcile::Begins;
        }
        // The editor pulls from the primary.
        if self.servers.is_primary(process.backend) {
            self.refresh_what_is_pulled(process.backend, result);
            self.register_new_commands(process, result);
            self.tell_of_restart(process);
            self.note_differences(process.backend, result);
        }
    }

    /// Registers new commands. Their names may differ from process to process, for example by a process id.
    fn register_new_commands(&mut self, process: ProcessId, result: &[u8]) {
        let Some(backend) = self.backend(process.backend) else { return };
        let session = &self.servers.of(backend).session;
        let place = ["capabilities", "workspace", "executeCommand", "dynamicRegistration"];
        let can_register =
            path(&session.initialize, &place).is_some_and(|it| &session.initialize[it] == b"true");
        let known = commands(&session.offered);
        let new: Vec<String> = commands(result).into_iter().filter(|it| !known.contains(it)).collect();
        // Those of a member may have another name at the editor.
        if new.is_empty() || !can_register || self.is_group() {
            return;
        }
        let one = json!({
            "id": "lspool-commands", "method": "workspace/executeCommand", "registerOptions": {"commands": new}
        });
        let params = Bytes::from(json!({"registrations": [one]}).to_string());
        if let Some(params) = self.register(process, &params) {
            self.ask_editor(Purpose::Plain, "client/registerCapability", Some(&params));
        }
    }

    /// Reports a restart to an editor that asked for it, because it can send further parts of its session.
    fn tell_of_restart(&mut self, process: ProcessId) {
        let Some(backend) = self.backend(process.backend) else { return };
        let server = self.servers.of(backend);
        let initialize = &server.session.initialize;
        let wish = path(initialize, &["capabilities", "experimental", "lspool", "didRestart"]);
        if wish.is_some_and(|range| &initialize[range] == b"true") {
            let params = json!({"server": server.name, "generation": process.generation.0}).to_string();
            self.tell_editor(Frame::notification("lspool/didRestart", Some(params.as_bytes())));
        }
    }

    /// The editor goes by the capabilities of the first process. Notes where this one does not do the same, and tells
    /// the user what nobody can put into its terms.
    fn note_differences(&mut self, id: BackendId, result: &[u8]) {
        let Some(backend) = self.backends.get_mut(id) else { return };
        let offered = &self.servers.get(backend.server).session.offered;
        backend.differences = Differences::between(offered, result);
        let told = backend.differences.told();
        if !told.is_empty() {
            let (name, differs) = (&backend.name, told.join(", "));
            let text = format!(
                "{name} has other capabilities after its restart: {differs}. Restart it from the editor."
            );
            warn!(name, differs, "new process has other capabilities");
            self.show(Severity::Warning, &text);
        }
    }

    fn refresh_what_is_pulled(&mut self, id: BackendId, result: &[u8]) {
        let Some(backend) = self.backend(id) else { return };
        let initialize = &self.servers.of(backend).session.initialize;
        let is_supported = |it: &&Pulled| {
            let range = path(initialize, &["capabilities", "workspace", it.capability, "refreshSupport"]);
            range.is_some_and(|range| &initialize[range] == b"true")
        };
        let is_provided = |it: &&Pulled| {
            let range = path(result, &["capabilities", it.provider]).map(|range| &result[range]);
            let is_static = range.is_some_and(|it| it != b"false" && it != b"null");
            is_static || self.registrations.has(id, it.method)
        };
        let wanted: Vec<&str> =
            PULLED.iter().filter(is_supported).filter(is_provided).map(|it| it.refresh).collect();
        for method in wanted {
            self.ask_editor(Purpose::Plain, method, None);
        }
    }

    /// Withdraws what was not repeated in time.
    pub(crate) fn on_reconcile_deadlines(&mut self) {
        let now = self.now();
        let due = self.backends.iter().filter(|it| it.is_ready() && it.reconcile.is_due(now));
        for id in due.map(|it| it.id).collect::<Vec<_>>() {
            self.reconcile(id);
        }
    }

    fn reconcile(&mut self, id: BackendId) {
        let Some(backend) = self.backends.get_mut(id) else { return };
        backend.reconcile = Reconcile::Nothing;
        let (process, name) = (backend.process(), backend.name.clone());
        let (registrations, mut diagnostics) =
            (self.registrations.stale(process), self.diagnostics.stale(process));
        if let Some(group) = &mut self.group {
            diagnostics = group.stale_diagnostics(process);
        }
        debug!(
            name,
            registrations = registrations.is_some(),
            diagnostics = diagnostics.len(),
            "taken back at the editor"
        );
        self.take_back(registrations.as_deref(), diagnostics);
    }

    /// Withdraws everything of a backend that will have no process.
    pub(super) fn forget_shown(&mut self, id: BackendId) {
        let registrations = self.registrations.abandoned(id);
        let mut diagnostics = self.diagnostics.abandoned(id);
        if let Some(lost) = self.lost_diagnostics(id) {
            diagnostics = lost;
        }
        if self.clients.is_shut_down() {
            // An exiting editor removes them itself.
            diagnostics.clear();
        }
        self.take_back(registrations.as_deref(), diagnostics);
    }

    fn take_back(&mut self, registrations: Option<&[u8]>, diagnostics: Vec<Vec<u8>>) {
        if let Some(params) = registrations {
            self.ask_editor(Purpose::Plain, "client/unregisterCapability", Some(params));
        }
        for params in diagnostics {
            self.tell_editor(Frame::notification("textDocument/publishDiagnostics", Some(&params)));
        }
        self.rejoin_registrations();
    }

    /// Handles `client/registerCapability` of a process: returns the part that is new to the editor.
    pub(in crate::core::mux) fn register(&mut self, process: ProcessId, params: &Bytes) -> Option<Bytes> {
        let asked = self.registrations.register(process, params);
        self.take_back(asked.unregister.as_deref(), Vec::new());
        asked.register
    }
}
