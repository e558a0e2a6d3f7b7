//! A disk, a server, and a core between them, in virtual time.
//!
//! The language is simple: a line `def NAME` defines, `use NAME` uses, `bad` is an error, `need NAME` is one if the
//! server knows no definition, `#` begins a comment.

mod disk;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    builtin_tools::lsp::{FileChange, hash_of},
    config::{Config, LspToolsConfig, ServerConfig, ServerKind},
    core::{
        Identity,
        event::{
            Effect, Event, Exit, Group, Launch, Look, Peer, Prepared, ProcessId, Seen, Unreadable, WordHits,
            WordMatch, Write, WriteFault, Wrote,
        },
        tests::{stage::EDITOR, taped::Taped},
    },
    rpc::{Frame, file_path, file_uri},
};

/// How the server reports diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publishes {
    /// It is asked.
    OnRequest,
    /// With the version.
    Versions,
    /// Without a version, a while after the text has come, and sometimes twice.
    Plain,
    /// Without a version, as soon as the text has come.
    BeforeAnswers,
    /// With an older version.
    OldVersions,
    /// Never.
    Never,
}

/// A small generator: xorshift64*.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n.max(1)
    }
}

/// The server.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a way in which a server differs from others")]
pub(super) struct Server {
    process: Option<ProcessId>,
    /// Open documents: version and text.
    open: BTreeMap<PathBuf, (i64, String)>,
    /// Closed files as it has last read them.
    indexed: BTreeMap<PathBuf, String>,
    is_indexed: bool,
    /// How many milliseconds later than others it answers `initialize`.
    pub(super) starts_late: u64,
    /// Within how many milliseconds it indexes its files.
    pub(super) index_takes: u64,
    /// Within how many milliseconds it reads a file that has changed.
    pub(super) watch_takes: u64,
    pub(super) reports_work: bool,
    pub(super) publishes: Publishes,
    /// Whether it registers for changes of files.
    pub(super) watches: bool,
    /// Methods for which it answers an error.
    pub(super) refuses: Vec<&'static str>,
    /// Whether it also names places outside the workspace.
    pub(super) names_outside: bool,
    /// A file that it indexes late.
    pub(super) late: Option<&'static str>,
    /// It dies when it is asked these, each once.
    pub(super) dies_at: Vec<&'static str>,
    /// It answers nothing after the handshake.
    pub(super) holds: bool,
    pub(super) n_opened: usize,
    /// What it answers to a method, whatever it knows.
    pub(super) answers: BTreeMap<&'static str, Value>,
    /// The methods of the notifications that it has got.
    pub(super) told: Vec<String>,
    last_out: Instant,
}

impl Server {
    pub(super) fn n_open(&self) -> usize {
        self.open.len()
    }
}

/// What is to happen.
#[derive(Debug)]
enum Happening {
    Event(Box<Event>),
    /// A message of the server's process, if it still runs.
    Says(ProcessId, Value),
    /// The server reads a file.
    Reads(ProcessId, PathBuf),
    /// The server says what it finds in a file, as it is then.
    Publishes(ProcessId, PathBuf),
    /// All files are read.
    Indexed(ProcessId),
    Dies(ProcessId),
}

pub(super) struct World {
    core: Taped,
    pub(super) now: Instant,
    pub(super) rng: Rng,
    /// The texts that count: those of the editor, and of the disk elsewhere.
    disk: BTreeMap<PathBuf, String>,
    /// What is on the disk under texts that only the editor has.
    behind: BTreeMap<PathBuf, Option<String>>,
    /// Each state of the disk, with the number of calls that had begun.
    pub(super) history: Vec<BTreeMap<PathBuf, String>>,
    /// The texts at the last look, and whether they were on the disk.
    looked: Option<BTreeMap<PathBuf, (String, bool)>>,
    last_look: Instant,
    /// The state of the disk at the last look, by its place in the history.
    looked_at: usize,
    /// Each write, with the states of the disk that it may be of.
    pub(super) writes: Vec<(Write, Vec<BTreeMap<PathBuf, String>>)>,
    /// What the next write fails with.
    pub(super) write_fault: Option<WriteFault>,
    /// What happens between the decision to write and the write.
    pub(super) before_write: Option<(String, String)>,
    coming: Vec<(Instant, u64, Happening)>,
    n_coming: u64,
    pub(super) server: Server,
    answers: BTreeMap<u64, Value>,
    last_id: u64,
    is_open: bool,
    todo: VecDeque<Effect>,
    /// Files that lspool cannot read. The server can.
    pub(super) unread: BTreeMap<PathBuf, Unreadable>,
    pub(super) settings: LspToolsConfig,
    /// What whoever opens the session says of it.
    pub(super) options: Value,
    /// Why looks are not whole.
    pub(super) partial: Option<String>,
    /// Where paths outside lead.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
}

const ROOT: &str = "/ws";

impl World {
    pub(super) fn new(seed: u64) -> World {
        let now = Instant::now();
        World {
            core: Taped::with_texts(Identity { pid: 7, started: 5 }, true),
            now,
            rng: Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            disk: BTreeMap::new(),
            behind: BTreeMap::new(),
            history: Vec::new(),
            looked: None,
            last_look: now,
            looked_at: 0,
            writes: Vec::new(),
            write_fault: None,
            before_write: None,
            coming: Vec::new(),
            n_coming: 0,
            server: Server {
                process: None,
                open: BTreeMap::new(),
                indexed: BTreeMap::new(),
                is_indexed: false,
                starts_late: 0,
                index_takes: 1,
                watch_takes: 1,
                reports_work: false,
                publishes: Publishes::OnRequest,
                watches: true,
                refuses: Vec::new(),
                names_outside: false,
                late: None,
                dies_at: Vec::new(),
                holds: false,
                n_opened: 0,
                answers: BTreeMap::new(),
                told: Vec::new(),
                last_out: now,
            },
            answers: BTreeMap::new(),
            last_id: 0,
            is_open: false,
            todo: VecDeque::new(),
            unread: BTreeMap::new(),
            settings: LspToolsConfig::default(),
            options: json!({"missing": {"Go": "not installed"}}),
            partial: None,
            links: BTreeMap::new(),
        }
    }

    /// A file that is there from the beginning.
    pub(super) fn file(mut self, name: &str, text: &str) -> World {
        self.write(name, text);
        self
    }

    pub(super) fn write(&mut self, name: &str, text: &str) {
        let file = Path::new(ROOT).join(name);
        match self.behind.get_mut(&file) {
            Some(behind) => *behind = Some(text.to_owned()),
            None => drop(self.disk.insert(file, text.to_owned())),
        }
        self.history.push(self.disk.clone());
    }

    /// A file that lspool cannot read.
    pub(super) fn forbid(&mut self, name: &str, why: Unreadable) {
        self.unread.insert(Path::new(ROOT).join(name), why);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let file = Path::new(ROOT).join(name);
        match self.behind.get_mut(&file) {
            Some(behind) => *behind = None,
            None => drop(self.disk.remove(&file)),
        }
        self.history.push(self.disk.clone());
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.disk.keys().map(|it| it.strip_prefix(ROOT).unwrap().to_str().unwrap().to_owned()).collect()
    }

    /// Ends the server's process.
    pub(super) fn kill(&mut self) {
        if let Some(process) = self.server.process {
            self.later(0, Happening::Dies(process));
        }
    }

    /// The server begins or ends work of its own.
    pub(super) fn server_works(&mut self, kind: &str) {
        self.say(json!({"method": "$/progress", "params": {"token": "again", "value": {"kind": kind}}}));
        self.pass(100);
    }

    /// The server begins to watch files.
    pub(super) fn register_for_changes(&mut self) {
        let watch = json!({"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles"}]});
        self.say(json!({"id": 900, "method": "client/registerCapability", "params": watch}));
        self.pass(100);
    }

    fn later(&mut self, millis: u64, what: Happening) {
        self.n_coming += 1;
        self.coming.push((self.now + Duration::from_millis(millis), self.n_coming, what));
    }

    fn open(&mut self) {
        self.is_open = true;
        self.editor(&json!({"id": 0, "method": "initialize", "params": {
            "processId": null, "capabilities": {}, "rootUri": "file:///ws",
            "initializationOptions": {"lspool": {"codeTools": self.options}},
        }}));
        for _ in 0..100 {
            if self.answers.contains_key(&0) {
                break;
            }
            self.pass(50);
        }
        assert!(self.answers.contains_key(&0), "no handshake");
        self.editor(&json!({"method": "initialized", "params": {}}));
    }

    /// Begins a call; gives its id.
    pub(super) fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        if !self.is_open {
            self.open();
        }
        self.last_id += 1;
        let params = json!({"name": tool, "arguments": arguments});
        self.editor(&json!({"id": self.last_id, "method": "lspool/callTool", "params": params}));
        self.last_id
    }

    pub(super) fn cancel(&mut self, id: u64) {
        self.editor(&json!({"method": "$/cancelRequest", "params": {"id": id}}));
    }

    pub(super) fn answer(&self, id: u64) -> Option<Value> {
        self.answers.get(&id).cloned()
    }

    /// Calls a tool, and lets time pass until it is answered.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments);
        for _ in 0..70 {
            if let Some(answer) = self.answers.get(&id) {
                return answer["result"].clone();
            }
            self.pass(1_000);
        }
        panic!("{tool} {arguments} is not answered");
    }

    /// Lets milliseconds pass.
    pub(super) fn pass(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        loop {
            let next = self.coming.iter().map(|(at, n, _)| (*at, *n)).min();
            let due = self.core.poll_timeout().map(|(at, _)| at);
            match (next, due) {
                (Some((at, n)), due) if at <= end && due.is_none_or(|due| at <= due) => {
                    self.now = self.now.max(at);
                    let place = self.coming.iter().position(|it| it.1 == n).unwrap();
                    let (_, _, what) = self.coming.remove(place);
                    self.happen(what);
                }
                (_, Some(at)) if at <= end => {
                    self.now = self.now.max(at);
                    let mut out = Vec::new();
                    self.core.handle_timeout(self.now, &mut out);
                    self.carry_out(out);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Event(event) => self.event(*event),
            Happening::Says(process, message) if self.server.process == Some(process) => {
                self.event(Event::Received(Peer::Backend(process), frame(&message)));
            }
            Happening::Reads(process, file) if self.server.process == Some(process) => {
                match self.on_disk(&file) {
                    Some(text) => drop(self.server.indexed.insert(file, text.clone())),
                    None => drop(self.server.indexed.remove(&file)),
                }
            }
            Happening::Publishes(process, file) if self.server.process == Some(process) => {
                if let Some((_, text)) = self.server.open.get(&file) {
                    let params = json!({"uri": file_uri(&file), "diagnostics": diagnostics(text)});
                    self.say_after(json!({"method": "textDocument/publishDiagnostics", "params": params}), 0);
                }
            }
            Happening::Indexed(process) if self.server.process == Some(process) => {
                self.server.is_indexed = true;
                if self.server.reports_work {
                    self.say(
                        json!({"method": "$/progress", "params": {"token": "w", "value": {"kind": "end"}}}),
                    );
                }
            }
            Happening::Dies(process) if self.server.process == Some(process) => {
                self.server.process = None;
                let (exit, stderr) = (Exit::Signal(9), String::new());
                self.event(Event::Exited { process, exit, stderr });
            }
            Happening::Says(..)
            | Happening::Reads(..)
            | Happening::Publishes(..)
            | Happening::Indexed(_)
            | Happening::Dies(_) => {}
        }
    }

    fn event(&mut self, event: Event) {
        let mut out = Vec::new();
        self.core.handle(self.now, event, &mut out);
        self.carry_out(out);
    }

    fn editor(&mut self, message: &Value) {
        self.event(Event::Received(EDITOR, frame(message)));
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        if let Err(broken) = self.core.check() {
            panic!("{broken}");
        }
        let is_busy = !self.todo.is_empty();
        self.todo.extend(effects);
        if is_busy {
            return;
        }
        while let Some(effect) = self.todo.front() {
            let effect = effect.clone();
            self.act(effect);
            self.todo.pop_front();
        }
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Send(EDITOR, frame) => self.on_editor_told(&value(&frame)),
            Effect::Send(Peer::Backend(process), frame) if self.server.process == Some(process) => {
                self.on_server_told(process, &value(&frame));
            }
            Effect::Prepare { .. } => {
                let prepared = Event::Prepared(Ok(Box::new(prepared(&self.settings))));
                self.later(0, Happening::Event(Box::new(prepared)));
            }
            Effect::Spawn(process, _) => {
                self.later(1, Happening::Event(Box::new(Event::Spawned { process, pid: 9 })));
                let server = &mut self.server;
                (server.process, server.is_indexed, server.last_out) = (Some(process), false, self.now);
                server.open.clear();
                server.indexed.clear();
            }
            Effect::Terminate(process) => self.later(0, Happening::Dies(process)),
            Effect::Write(write) => {
                if let Some((name, text)) = self.before_write.take() {
                    self.write(&name, &text);
                }
                let result = self.make(&write);
                let (takes, number) = (self.rng.below(30), write.number);
                let wrote = Event::Wrote(Box::new(Wrote { number, result }));
                self.later(takes, Happening::Event(Box::new(wrote)));
            }
            Effect::Look(look) => {
                self.looked_at = self.history.len().saturating_sub(1);
                let seen = self.look(&look);
                // Results come in order, after a while.
                let takes = self.rng.below(60);
                self.last_look = self.last_look.max(self.now + Duration::from_millis(takes));
                let wait = u64::try_from((self.last_look - self.now).as_millis()).unwrap();
                self.later(wait, Happening::Event(Box::new(Event::Looked(Box::new(seen)))));
            }
            Effect::Send(..) | Effect::Measure(_) | Effect::WatchEditor(_) | Effect::AwaitDrained(_) => {}
            Effect::ReadFile(_) | Effect::HangUp(_) | Effect::CloseInput(_) | Effect::Exit(_) => {}
            other => panic!("{other:?}"),
        }
    }

    fn on_editor_told(&mut self, message: &Value) {
        match (&message["method"], message["id"].as_u64()) {
            (Value::Null, Some(id)) => drop(self.answers.insert(id, message.clone())),
            (Value::String(_), Some(id)) => {
                let answer = frame(&json!({"id": id, "result": null}));
                self.later(0, Happening::Event(Box::new(Event::Received(EDITOR, answer))));
            }
            _ => {}
        }
    }

    /// The server says something, after all that it has said before.
    fn say(&mut self, message: Value) {
        let takes = self.rng.below(40);
        self.say_after(message, takes);
    }

    fn say_after(&mut self, message: Value, takes: u64) {
        let Some(process) = self.server.process else { return };
        self.server.last_out = self.server.last_out.max(self.now + Duration::from_millis(takes));
        let wait = u64::try_from((self.server.last_out - self.now).as_millis()).unwrap();
        self.later(wait, Happening::Says(process, message));
    }

    fn on_server_told(&mut self, process: ProcessId, message: &Value) {
        let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        if let Some(at) = self.server.dies_at.iter().position(|it| *it == method) {
            self.server.dies_at.remove(at);
            self.later(0, Happening::Dies(process));
            return;
        }
        if message["id"].is_null() {
            self.server.told.push(method.to_owned());
        }
        match (method, message["id"].as_u64()) {
            ("initialize", Some(id)) => {
                let mut capabilities = json!({
                    "textDocumentSync": 2, "documentSymbolProvider": true, "referencesProvider": true,
                    "definitionProvider": true, "hoverProvider": true, "callHierarchyProvider": true,
                    "renameProvider": {"prepareProvider": true}, "codeActionProvider": {"resolveProvider": true},
                    "documentFormattingProvider": true,
                    "workspace": {"fileOperations": {"didRename": {"filters": [{"pattern": {"glob": "**/*.py"}}]}}},
                });
                if self.server.publishes == Publishes::OnRequest {
                    capabilities["diagnosticProvider"] = json!({});
                }
                let takes = self.server.starts_late + self.rng.below(40);
                self.say_after(json!({"id": id, "result": {"capabilities": capabilities}}), takes);
            }
            ("initialized", None) => {
                let watch =
                    json!({"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles"}]});
                if self.server.watches {
                    self.say(json!({"id": 900, "method": "client/registerCapability", "params": watch}));
                }
                if self.server.reports_work {
                    self.say(
                        json!({"method": "$/progress", "params": {"token": "w", "value": {"kind": "begin"}}}),
                    );
                }
                let (mut last, takes) = (0, self.server.index_takes);
                for file in self.disk.keys().chain(self.behind.keys()).cloned().collect::<BTreeSet<_>>() {
                    let is_late = self.server.late.is_some_and(|it| file.ends_with(it));
                    let at = if is_late { 20_000 } else { self.rng.below(takes) };
                    last = last.max(at);
                    self.later(at, Happening::Reads(process, file));
                }
                self.later(last, Happening::Indexed(process));
            }
            ("textDocument/didOpen", None) => {
                self.server.n_opened += 1;
                let it = &params["textDocument"];
                let text = it["text"].as_str().unwrap().to_owned();
                let file = path(it);
                assert!(!self.server.open.contains_key(&file), "opened twice: {it}");
                self.server.open.insert(file.clone(), (it["version"].as_i64().unwrap(), text));
                self.publish(&file);
            }
            ("textDocument/didChange", None) => {
                let file = path(&params["textDocument"]);
                let text = params["contentChanges"][0]["text"].as_str().unwrap().to_owned();
                let version = params["textDocument"]["version"].as_i64().unwrap();
                let known = self.server.open.get_mut(&file).expect("changed only while open");
                assert!(version > known.0, "versions rise");
                *known = (version, text);
                self.publish(&file);
            }
            ("textDocument/didClose", None) => {
                let file = path(&params["textDocument"]);
                assert!(self.server.open.remove(&file).is_some(), "closed only while open");
                // What is closed is what is on the disk.
                self.happen(Happening::Reads(process, file));
            }
            ("workspace/didChangeWatchedFiles", None) => {
                for it in params["changes"].as_array().unwrap() {
                    let takes = self.server.watch_takes;
                    let at = self.rng.below(takes);
                    self.later(at, Happening::Reads(process, path(it)));
                }
            }
            ("shutdown", Some(id)) => self.say(json!({"id": id, "result": null})),
            (_, Some(id)) if self.server.refuses.contains(&method) => {
                self.say(json!({"id": id, "error": {"code": -32603, "message": "it broke"}}));
            }
            (_, Some(id)) if !method.is_empty() && !self.server.holds => {
                let result = self.result(method, params);
                self.say(json!({"id": id, "result": result}));
            }
            _ => {}
        }
    }

    fn publish(&mut self, file: &Path) {
        let Some((version, text)) = self.server.open.get(file).cloned() else { return };
        let mut params = json!({"uri": file_uri(file), "diagnostics": diagnostics(&text)});
        let takes = match self.server.publishes {
            Publishes::OnRequest | Publishes::Never => return,
            Publishes::BeforeAnswers => 0,
            Publishes::Versions => {
                params["version"] = version.into();
                self.rng.below(900)
            }
            Publishes::OldVersions => {
                params["version"] = (version - 2).into();
                0
            }
            Publishes::Plain => {
                // When it comes, it is of the text that is there then.
                let Some(process) = self.server.process else { return };
                for _ in 0..=self.rng.below(2) {
                    let at = 100 + self.rng.below(300);
                    self.later(at, Happening::Publishes(process, file.to_owned()));
                }
                return;
            }
        };
        let message = json!({"method": "textDocument/publishDiagnostics", "params": params});
        match self.server.publishes {
            // On a stream of its own it would overtake; so it comes with all others, in order.
            Publishes::BeforeAnswers | Publishes::OldVersions => self.say_after(message, takes),
            _ => {
                let Some(process) = self.server.process else { return };
                self.later(takes, Happening::Says(process, message));
            }
        }
    }

    /// The text of a file as the server knows it.
    fn known(&self) -> BTreeMap<&PathBuf, &str> {
        let open = self.server.open.iter().map(|(file, (_, text))| (file, text.as_str()));
        self.server.indexed.iter().map(|(file, text)| (file, text.as_str())).chain(open).collect()
    }

    fn result(&self, method: &str, params: &Value) -> Value {
        if let Some(answer) = self.server.answers.get(method) {
            return answer.clone();
        }
        let file = path(&params["textDocument"]);
        let known = self.known();
        let line = usize::try_from(params["position"]["line"].as_u64().unwrap_or_default()).unwrap();
        let text = known.get(&file).copied().unwrap_or_default();
        let word = text.lines().nth(line).and_then(|it| it.split_whitespace().nth(1)).unwrap_or_default();
        let place =
            |file: &Path, line: usize| json!({"uri": file_uri(file), "range": range(line, 4, word.len())});
        let outside = self.server.names_outside.then(|| place(Path::new("/usr/lib/x.py"), 0));
        match method {
            "textDocument/documentSymbol" => {
                let symbols =
                    text.lines().enumerate().filter_map(|(n, it)| Some((n, it.strip_prefix("def ")?)));
                symbols.map(|(n, name)| {
                    json!({"name": name, "kind": 12, "range": range(n, 0, name.len() + 4), "selectionRange": range(n, 4, name.len())})
                }).collect()
            }
            "textDocument/references" => {
                let all = found(&known, word).into_iter().map(|(file, line)| place(&file, line));
                all.chain(outside).collect()
            }
            "textDocument/definition" => {
                let all = known.iter().flat_map(|(file, text)| {
                    let lines = text.lines().enumerate().filter(|(_, it)| *it == format!("def {word}"));
                    lines.map(|(n, _)| place(file, n)).collect::<Vec<_>>()
                });
                // Within a file first.
                let (own, other): (Vec<Value>, Vec<Value>) = all.partition(|it| it["uri"] == file_uri(&file));
                own.into_iter().chain(other).take(1).chain(outside).collect()
            }
            "textDocument/hover" => json!({"contents": word}),
            "textDocument/prepareRename" if word.is_empty() => Value::Null,
            "textDocument/prepareRename" => range(line, 4, word.len()),
            "textDocument/rename" => {
                let mut files: BTreeMap<PathBuf, Vec<Value>> = BTreeMap::new();
                for (file, line) in found(&known, word) {
                    let edit = json!({"range": range(line, 4, word.len()), "newText": params["newName"]});
                    files.entry(file).or_default().push(edit);
                }
                let changes = files.into_iter().map(|(file, edits)| {
                    let version = self.server.open.get(&file).map(|it| it.0);
                    json!({"textDocument": {"uri": file_uri(&file), "version": version}, "edits": edits})
                });
                json!({"documentChanges": changes.collect::<Vec<_>>()})
            }
            "textDocument/diagnostic" => {
                assert_eq!(self.server.publishes, Publishes::OnRequest, "it does not offer that");
                let mut items = diagnostics(text).as_array().cloned().unwrap_or_default();
                let is_defined = |name: &str| {
                    known.values().any(|it| it.lines().any(|it| it.strip_prefix("def ") == Some(name)))
                };
                let needs =
                    text.lines().enumerate().filter_map(|(n, it)| Some((n, it.strip_prefix("need ")?)));
                let unmet = needs.filter(|(_, name)| !is_defined(name));
                items.extend(
                    unmet.map(|(n, _)| json!({"range": range(n, 0, 4), "severity": 1, "message": "missing"})),
                );
                json!({"kind": "full", "items": items})
            }
            "textDocument/prepareCallHierarchy" => json!([item(&file, word, line)]),
            "callHierarchy/incomingCalls" => {
                let name = params["item"]["name"].as_str().unwrap();
                let mut calls = Vec::new();
                for (file, text) in &known {
                    let mut caller = None;
                    for (n, it) in text.lines().enumerate() {
                        if let Some(name) = it.strip_prefix("def ") {
                            caller = Some(item(file, name, n));
                        }
                        if let Some(from) = caller.as_ref().filter(|_| it == format!("use {name}")) {
                            calls.push(json!({"from": from, "fromRanges": [range(n, 4, name.len())]}));
                        }
                    }
                }
                calls.into()
            }
            other => panic!("the server is asked {other}"),
        }
    }
}

/// Files and lines that define or use a name.
pub(super) fn found<'a, K: AsRef<Path> + Ord + 'a, V: AsRef<str> + 'a>(
    texts: impl IntoIterator<Item = (&'a K, &'a V)>,
    name: &str,
) -> BTreeSet<(PathBuf, usize)> {
    let mut all = BTreeSet::new();
    for (file, text) in texts {
        for (line, text) in text.as_ref().lines().enumerate() {
            if text == format!("def {name}") || text == format!("use {name}") {
                all.insert((file.as_ref().to_owned(), line));
            }
        }
    }
    all
}

/// The lines with errors.
pub(super) fn errors(text: &str) -> Vec<usize> {
    text.lines().enumerate().filter(|(_, it)| *it == "bad").map(|(n, _)| n).collect()
}

fn diagnostics(text: &str) -> Value {
    errors(text)
        .into_iter()
        .map(|line| json!({"range": range(line, 0, 3), "severity": 1, "message": "bad"}))
        .collect()
}

/// A definition in a call hierarchy.
fn item(file: &Path, name: &str, line: usize) -> Value {
    json!({
        "name": name, "kind": 12, "uri": file_uri(file), "range": range(line, 0, name.len() + 4),
        "selectionRange": range(line, 4, name.len()),
    })
}

fn range(line: usize, start: usize, length: usize) -> Value {
    json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": start + length}})
}

fn path(document: &Value) -> PathBuf {
    document["uri"].as_str().and_then(file_path).unwrap_or_default()
}

fn value(frame: &Frame) -> Value {
    serde_json::from_slice(&frame.to_bytes()).unwrap()
}

fn frame(message: &Value) -> Frame {
    let mut message = message.clone();
    message["jsonrpc"] = json!("2.0");
    Frame::parse(Bytes::from(message.to_string())).unwrap()
}

fn prepared(settings: &LspToolsConfig) -> Prepared {
    let launch = Launch {
        program: "/bin/server".into(),
        args: vec![],
        env: vec![],
        cwd: None,
        root: None,
        remote: None,
        share: None,
        max_message: 1 << 20,
        write_stall: Duration::from_mins(1),
    };
    let server = ServerConfig {
        kind: Some(ServerKind::Generic),
        // The model decides when it hangs.
        stall_timeout: Some(Duration::ZERO),
        ..ServerConfig::default()
    };
    Prepared {
        config: Arc::new(Config { lsp_tools: settings.clone(), ..Config::default() }),
        name: "pyright".to_owned(),
        server,
        launch: Arc::new(launch),
        missing: None,
        warnings: vec![],
        transcripts: None,
        has_code_tools: false,
        group: Some(Group {
            name: "code tools".to_owned(),
            start_wait: Duration::from_secs(3),
            diagnostics_wait: Duration::ZERO,
            order: BTreeMap::new(),
            combine: BTreeMap::new(),
            wait: BTreeMap::new(),
            others: vec![],
        }),
    }
}
