//! One server as the code tools see it: what it can do, what lspool has sent, what it has reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    config::languages::Language,
    core::{
        code_tools::{files::FileChange, path_of},
        event::{ProcessId, ServerId},
        mux::direct::ServerState,
    },
    rpc::{Frame, member, path, text},
    util::json,
};

/// How long no work may have been reported before a server counts as ready.
const REST: Duration = Duration::from_millis(300);

/// How long a server that reports the loading of its project may take to begin with that.
const BEGINS: Duration = Duration::from_secs(3);

/// Servers that answer for single files until they have reported that their project is loaded.
const LOADS_PROJECT: [&str; 2] = ["typescript", "typescript-language-server"];

/// A server.
#[derive(Debug)]
pub(super) struct View {
    pub(super) server: ServerId,
    pub(super) name: String,
    languages: Vec<&'static Language>,
    /// A reload can remove a server, and add it again.
    pub(super) is_member: bool,
    state: ServerState,
    /// The result of `initialize`.
    capabilities: Value,
    /// Methods that it has registered, also in an earlier process: the next one does so again, a little later.
    registers: BTreeSet<String>,
    /// What the process that was last heard of has said.
    process: ProcessView,
    /// Its open documents.
    pub(super) open: BTreeMap<PathBuf, OpenDocument>,
    /// When lspool last sent it a change of any document.
    pub(super) last_change: u64,
    /// Closed files that have changed under its process while it did not watch files, and how.
    pub(super) unseen: BTreeMap<PathBuf, FileChange>,
}

/// What a process has said.
#[derive(Debug, Default)]
struct ProcessView {
    id: Option<ProcessId>,
    /// By registration id.
    registered: BTreeMap<String, String>,
    /// Work that it has reported and not ended, by token, with its progress.
    work: BTreeMap<String, (Work, Option<u64>)>,
    /// When work of its own last ended.
    work_ended: Option<Instant>,
    /// Whether any work has ended.
    has_worked: bool,
    /// When it first answered about a document.
    answered: Option<Instant>,
    published: BTreeMap<PathBuf, Published>,
}

/// What a server may work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// An answer that it owes: basedpyright reports that it finds references.
    ForAnswer,
    /// Something else, such as its index.
    OfItsOwn,
}

/// A document as a server knows it.
#[derive(Debug)]
pub(super) struct OpenDocument {
    pub(super) version: i64,
    /// The version under which it first got this text.
    pub(super) text_version: i64,
    /// When the server last got its text.
    pub(super) told: u64,
    /// Whether that was the first time in this process.
    pub(super) is_first_text: bool,
    /// When a call last used it.
    pub(super) used: u64,
}

/// The last publication of diagnostics for a document.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) tick: u64,
    pub(super) at: Instant,
    pub(super) version: Option<i64>,
    pub(super) items: Value,
}

/// How far a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Starting,
    /// It works on its index. `until`: when to look again.
    Loading {
        percent: Option<u64>,
        until: Option<Instant>,
    },
    /// Since then.
    Ready(Instant),
    Failed(String),
}

impl View {
    pub(super) fn new(server: ServerId, name: String, languages: Vec<&'static Language>) -> View {
        View {
            server,
            name,
            languages,
            is_member: true,
            state: ServerState::Starting,
            capabilities: Value::Null,
            registers: BTreeSet::new(),
            process: ProcessView::default(),
            open: BTreeMap::new(),
            last_change: 0,
            unseen: BTreeMap::new(),
        }
    }

    /// Follows the server's process. Returns whether something is new.
    pub(super) fn follow(&mut self, state: &ServerState, result: impl FnOnce() -> Option<Vec<u8>>) -> bool {
        if self.state == *state && (!matches!(state, ServerState::Ready(_)) || !self.capabilities.is_null()) {
            return false;
        }
        if let ServerState::Ready(process) = state {
            self.meet(*process);
        }
        self.state = state.clone();
        if let Some(result) = result() {
            self.capabilities = json::read(&result).unwrap_or(Value::Null);
        }
        true
    }

    /// Forgets what an older process has said.
    fn meet(&mut self, process: ProcessId) {
        if self.process.id != Some(process) {
            self.process = ProcessView { id: Some(process), ..ProcessView::default() };
            // The process gets the documents as they are: it has seen no other text.
            self.open.values_mut().for_each(|it| it.is_first_text = true);
            self.unseen.clear();
        }
    }

    /// Its process, if it answers.
    pub(super) fn process(&self) -> Option<ProcessId> {
        match &self.state {
            ServerState::Ready(process) => Some(*process),
            ServerState::Starting | ServerState::Failed(_) => None,
        }
    }

    pub(super) fn endings(&self) -> impl Iterator<Item = &'static str> {
        let files = self.languages.iter().flat_map(|it| it.files.iter().map(|(ending, _)| *ending));
        files.chain(self.languages.iter().flat_map(|it| it.projects.iter().copied()))
    }

    /// The endings of files that can hold code.
    pub(super) fn code_endings(&self) -> Vec<String> {
        self.languages.iter().flat_map(|it| it.files.iter().map(|(ending, _)| (*ending).to_owned())).collect()
    }

    pub(super) fn open_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.open.keys()
    }

    /// Whether it serves a language of this name or id.
    pub(super) fn speaks(&self, language: &str) -> bool {
        let is = |it: &str| it.eq_ignore_ascii_case(language);
        self.languages.iter().any(|it| is(it.name) || it.files.iter().any(|(_, id)| is(id)))
    }

    /// What its process can do, in terms of the protocol.
    pub(super) fn capabilities(&self) -> Value {
        self.capabilities["capabilities"].clone()
    }

    pub(super) fn serves(&self, language: &Language) -> bool {
        self.is_member && self.languages.iter().any(|it| it.name == language.name)
    }

    /// Whether a file concerns it: code, or a description of the project.
    pub(super) fn is_concerned(&self, file: &Path) -> bool {
        let Some(name) = file.file_name().and_then(|it| it.to_str()) else { return false };
        self.endings().any(|it| name == it || it.starts_with('.') && name.ends_with(it))
    }

    pub(super) fn language_names(&self) -> Vec<&'static str> {
        self.languages.iter().map(|it| it.name).collect()
    }

    /// Notes a notification, or a registration, of its process. Returns whether calls may wait for it.
    pub(super) fn observe(
        &mut self,
        process: ProcessId,
        frame: &Frame,
        work: Work,
        (tick, now): (u64, Instant),
    ) -> bool {
        self.meet(process);
        let params = frame.params().unwrap_or(b"{}");
        match frame.method().unwrap_or_default() {
            "textDocument/publishDiagnostics" => {
                let Some(file) = path_of(params, &["uri"]) else { return false };
                let items = member(params, "diagnostics").and_then(|it| json::read(&params[it]).ok());
                let version =
                    member(params, "version").and_then(|it| json::read::<Option<i64>>(&params[it]).ok());
                // An older one that comes late says nothing.
                let newest = self.process.published.get(&file).and_then(|it| it.version);
                if newest.zip(version.flatten()).is_some_and(|(newest, of)| of < newest) {
                    return false;
                }
                let published =
                    Published { tick, at: now, version: version.flatten(), items: items.unwrap_or_default() };
                self.process.published.insert(file, published);
            }
            "$/progress" => self.note_work(params, work, now),
            "client/registerCapability" => {
                let all: Value = json::read(params).unwrap_or_default();
                for it in all["registrations"].as_array().into_iter().flatten() {
                    if let (Some(id), Some(method)) = (it["id"].as_str(), it["method"].as_str()) {
                        self.registers.insert(method.to_owned());
                        self.process.registered.insert(id.to_owned(), method.to_owned());
                    }
                }
            }
            "client/unregisterCapability" => {
                let all: Value = json::read(params).unwrap_or_default();
                for it in all["unregisterations"].as_array().into_iter().flatten() {
                    let gone = self.process.registered.remove(it["id"].as_str().unwrap_or_default());
                    if let Some(method) = gone {
                        self.registers.remove(&method);
                    }
                }
            }
            _ => return false,
        }
        true
    }

    fn note_work(&mut self, params: &[u8], during: Work, now: Instant) {
        let Some(token) = member(params, "token") else { return };
        let token = String::from_utf8_lossy(&params[token]).into_owned();
        let percent = path(params, &["value", "percentage"]).and_then(|it| json::read(&params[it]).ok());
        match text(params, &["value", "kind"]).as_deref() {
            Some("begin") => drop(self.process.work.insert(token, (during, percent))),
            Some("report") => {
                if let Some(known) = self.process.work.get_mut(&token) {
                    known.1 = percent.or(known.1);
                }
            }
            Some("end") => {
                let Some((begun, _)) = self.process.work.remove(&token) else { return };
                self.process.has_worked = true;
                if (begun, during) != (Work::ForAnswer, Work::ForAnswer) {
                    self.process.work_ended = Some(now);
                }
            }
            _ => {}
        }
    }

    /// It has answered about a document.
    pub(super) fn note_answered(&mut self, now: Instant) {
        self.process.answered.get_or_insert(now);
    }

    pub(super) fn published(&self, file: &Path) -> Option<&Published> {
        self.process.published.get(file)
    }

    pub(super) fn readiness(&self, now: Instant) -> Readiness {
        match &self.state {
            ServerState::Starting => return Readiness::Starting,
            ServerState::Failed(why) => return Readiness::Failed(why.clone()),
            ServerState::Ready(_) => {}
        }
        let Some(answered) = self.process.answered else {
            return Readiness::Loading { percent: None, until: None };
        };
        if let Some((_, percent)) = self.process.work.values().next() {
            return Readiness::Loading { percent: *percent, until: None };
        }
        let loads = LOADS_PROJECT.contains(&self.name.as_str()) && !self.process.has_worked;
        let since = match self.process.work_ended {
            Some(ended) => answered.max(ended + REST),
            None if loads => answered + BEGINS,
            None => answered,
        };
        if now < since {
            return Readiness::Loading { percent: None, until: Some(since) };
        }
        Readiness::Ready(since)
    }

    /// The state as a word, with the progress of its loading.
    pub(super) fn state_word(&self, now: Instant) -> (&'static str, Option<u64>) {
        match self.readiness(now) {
            Readiness::Starting => ("starting", None),
            // Nobody has asked about a document yet.
            Readiness::Loading { .. } if self.process.answered.is_none() && self.process.work.is_empty() => {
                ("idle", None)
            }
            Readiness::Loading { percent, .. } => ("loading", percent),
            Readiness::Ready(_) => ("ready", None),
            Readiness::Failed(_) => ("failed", None),
        }
    }

    /// Whether it offers what has this name among the capabilities, or has registered the method.
    pub(super) fn offers(&self, provider: &str, method: &str) -> bool {
        let it = &self.capabilities["capabilities"][provider];
        let is_static = !(it.is_null() || *it == Value::Bool(false));
        is_static || self.process.registered.values().any(|it| it == method)
    }

    /// A capability, by the names of its members.
    pub(super) fn capability(&self, keys: &[&str]) -> &Value {
        keys.iter().fold(&self.capabilities["capabilities"], |it, key| &it[*key])
    }

    /// Whether it runs a command.
    pub(super) fn runs(&self, command: &str) -> bool {
        let commands = &self.capabilities["capabilities"]["executeCommandProvider"]["commands"];
        commands.as_array().is_some_and(|it| it.iter().any(|it| it == command))
    }

    /// Whether it wants to know of saved documents.
    pub(super) fn wants_saves(&self) -> bool {
        let save = &self.capabilities["capabilities"]["textDocumentSync"]["save"];
        !(save.is_null() || *save == Value::Bool(false))
    }

    /// Whether it wants to know of changed files.
    pub(super) fn watches_files(&self) -> bool {
        self.process.registered.values().any(|it| it == "workspace/didChangeWatchedFiles")
    }

    /// What it can do, by the names of the tools.
    pub(super) fn abilities(&self) -> Vec<&'static str> {
        let has = |(_, provider, method): &&(&str, &str, &str)| {
            self.offers(provider, method) || self.registers.contains(*method)
        };
        ABILITIES.iter().filter(has).map(|it| it.0).collect()
    }

    /// Whether it has said what it can do, or never will.
    pub(super) fn is_known(&self) -> bool {
        match &self.state {
            ServerState::Starting | ServerState::Ready(_) => !self.capabilities.is_null(),
            ServerState::Failed(_) => true,
        }
    }
}

/// What the tools need: a word for it, its capability, its method.
const ABILITIES: [(&str, &str, &str); 14] = [
    ("definition", "definitionProvider", "textDocument/definition"),
    ("declaration", "declarationProvider", "textDocument/declaration"),
    ("type definition", "typeDefinitionProvider", "textDocument/typeDefinition"),
    ("references", "referencesProvider", "textDocument/references"),
    ("implementations", "implementationProvider", "textDocument/implementation"),
    ("hover", "hoverProvider", "textDocument/hover"),
    ("document symbols", "documentSymbolProvider", "textDocument/documentSymbol"),
    ("workspace symbols", "workspaceSymbolProvider", "workspace/symbol"),
    ("diagnostics on request", "diagnosticProvider", "textDocument/diagnostic"),
    ("call hierarchy", "callHierarchyProvider", "textDocument/prepareCallHierarchy"),
    ("type hierarchy", "typeHierarchyProvider", "textDocument/prepareTypeHierarchy"),
    ("rename", "renameProvider", "textDocument/rename"),
    ("code actions", "codeActionProvider", "textDocument/codeAction"),
    ("formatting", "documentFormattingProvider", "textDocument/formatting"),
];
