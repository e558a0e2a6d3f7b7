//! A core with an editor and servers that the test controls.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    config::{AgentConfig, AgentSource, Config, ServerConfig, ServerKind},
    core::{
        Identity,
        event::{
            BackendId, ClientId, Effect, Event, Exit, FindRoot, Generation, Group, KeepMode, KeptMode,
            Launch, Measured, Peer, Prepared, ProcessId, Recalled, Remote, Scope, Share, Started, StoredTeam,
        },
    },
    rpc::Frame,
};

use super::taped::Taped;

/// A core under test.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(super) struct Stage {
    pub(super) core: Taped,
    pub(super) now: Instant,
    /// Messages by peer that the test has not looked at.
    sent: BTreeMap<Peer, Vec<Value>>,
    pub(super) spawned: Vec<ProcessId>,
    /// How they were started.
    pub(super) launches: Vec<Arc<Launch>>,
    pub(super) closed: Vec<ProcessId>,
    /// Which of them lspool waits for to read.
    pub(super) feeding: Vec<ProcessId>,
    pub(super) terminated: Vec<ProcessId>,
    pub(super) transcripts: Vec<(ProcessId, String, String)>,
    /// Files of modes that were asked for.
    pub(super) modes: Vec<KeepMode>,
    /// The copies that are wanted.
    pub(super) fetches: Vec<(u64, Vec<String>)>,
    /// The numbers of the teams that were to be stored.
    pub(super) writes: Vec<u64>,
    /// The test itself says what became of them.
    pub(super) holds_modes: bool,
    /// Calls of builtin tools, and what they may do.
    pub(super) tools: Vec<(Value, Scope)>,
    /// The ids of cancelled requests.
    pub(super) unwanted: Vec<Value>,
    pub(super) exit: Option<i32>,
    /// Processes that were spares, and what they are.
    pub(super) adopted: Vec<(ProcessId, ProcessId)>,
    /// The processes of an open request for memory.
    pub(super) to_measure: Vec<Vec<ProcessId>>,
    /// The backends of requests for logs.
    pub(super) logs: Vec<BackendId>,
    /// The section of the server.
    pub(super) name: String,
    /// The server is not required and cannot be found.
    pub(super) missing: Option<String>,
    /// The configuration cannot be read.
    pub(super) unreadable: Option<String>,
    /// The test itself answers whether a server restores from transcripts.
    pub(super) holds_proofs: bool,
    /// The test itself says that processes are spawned.
    pub(super) holds_spawns: bool,
    /// The search for the server never ends.
    pub(super) holds_preparation: bool,
    /// The folders that were looked at last.
    pub(super) folders: Vec<std::path::PathBuf>,
    pub(super) server: ServerConfig,
    /// Where the server is, if not beside lspool.
    pub(super) remote: Option<Remote>,
    pub(super) config: Config,
    /// The teams that there are.
    pub(super) teams: Vec<StoredTeam>,
    /// The stored teams.
    pub(super) stored: BTreeMap<String, Bytes>,
    /// The test itself says that they are stored.
    pub(super) holds_teams: bool,
    /// Warnings about valid files.
    pub(super) warnings: Vec<String>,
    /// The other servers of a group.
    pub(super) group: Option<Group>,
    /// What members have answered to `initialize`, as the shell remembers it.
    pub(super) remembered: BTreeMap<String, Value>,
    /// Whether a language of the workspace has a server.
    pub(super) has_code_tools: bool,
    /// Projects that are looked for.
    pub(super) searches: Vec<FindRoot>,
    /// Files that the core wants to read.
    pub(super) to_read: Vec<std::path::PathBuf>,
}

pub(super) const EDITOR: Peer = Peer::Client(ClientId::EDITOR);

pub(super) const CONTROL: Peer = Peer::Client(ClientId(1));

/// The first backend there is.
pub(super) const PRIMARY: BackendId = BackendId(0);

pub(super) const fn process(backend: u32, generation: u32) -> ProcessId {
    ProcessId { backend: BackendId(backend), generation: Generation(generation) }
}

impl Stage {
    pub(super) fn new(kind: ServerKind) -> Stage {
        Stage {
            core: Taped::new(Identity { pid: 77, started: 5 }),
            now: Instant::now(),
            sent: BTreeMap::new(),
            spawned: Vec::new(),
            fetches: Vec::new(),
            launches: Vec::new(),
            closed: Vec::new(),
            feeding: Vec::new(),
            terminated: Vec::new(),
            transcripts: Vec::new(),
            modes: Vec::new(),
            writes: Vec::new(),
            holds_modes: false,
            tools: Vec::new(),
            unwanted: Vec::new(),
            exit: None,
            adopted: Vec::new(),
            to_measure: Vec::new(),
            logs: Vec::new(),
            name: "copilot".to_owned(),
            missing: None,
            unreadable: None,
            holds_proofs: false,
            holds_spawns: false,
            holds_preparation: false,
            folders: Vec::new(),
            server: ServerConfig { kind: Some(kind), ..ServerConfig::default() },
            remote: None,
            config: Config::default(),
            teams: Vec::new(),
            stored: BTreeMap::new(),
            holds_teams: false,
            warnings: Vec::new(),
            group: None,
            remembered: BTreeMap::new(),
            has_code_tools: false,
            searches: Vec::new(),
            to_read: Vec::new(),
        }
    }

    /// A Copilot session that is initialized and quiet, with the primary process running.
    pub(super) fn copilot() -> Stage {
        let mut it = Stage::new(ServerKind::Copilot);
        it.initialize();
        it
    }

    /// The same, without probes of silent servers.
    pub(super) fn patient() -> Stage {
        let mut it = Stage::new(ServerKind::Copilot);
        it.server.stall_timeout = Some(Duration::ZERO);
        it.initialize();
        it
    }

    pub(super) fn agent(mut self, name: &str, tools: &[&str]) -> Stage {
        let tools = Some(tools.iter().map(ToString::to_string).collect());
        let agent = AgentConfig { tools, ..AgentConfig::of(AgentSource::User) };
        self.config.agents.insert(name.to_owned(), agent);
        self
    }

    pub(super) fn initialize(&mut self) {
        self.editor(json!({"id": 0, "method": "initialize", "params": {"processId": 1, "capabilities": {}}}));
        let primary = process(0, 1);
        let asked = self.take(Peer::Backend(primary));
        assert_eq!(asked[0]["method"], "initialize");
        self.server(primary, json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
        self.editor(json!({"method": "initialized", "params": {}}));
        self.take(Peer::Backend(primary));
        self.take(EDITOR);
    }

    pub(super) fn event(&mut self, event: Event) {
        let mut out = Vec::new();
        self.core.handle(self.now, event, &mut out);
        self.check();
        self.carry_out(out);
    }

    /// Lets time pass, with everything that falls due.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((at, _)) = self.core.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = at.max(self.now);
            let mut out = Vec::new();
            self.core.handle_timeout(self.now, &mut out);
            self.check();
            self.carry_out(out);
        }
        self.now = end;
    }

    fn check(&self) {
        if let Err(broken) = self.core.check() {
            panic!("{broken}");
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(peer, frame) => {
                    let value: Value = serde_json::from_slice(&frame.to_bytes()).unwrap();
                    match peer {
                        Peer::Backend(process) if !self.holds_proofs && asks_for_proof(&value) => {
                            self.server(process, json!({"id": value["id"], "error": proof()}));
                        }
                        _ => self.sent.entry(peer).or_default().push(value),
                    }
                }
                Effect::Prepare { .. } if self.holds_preparation => {}
                Effect::Prepare { folders } => {
                    self.folders = folders;
                    self.prepared();
                }
                Effect::Spawn(process, launch) => {
                    self.spawned.push(process);
                    self.launches.push(launch);
                    if self.holds_spawns {
                        continue;
                    }
                    self.event(Event::Spawned { process, pid: 1000 + process.backend.0 });
                }
                Effect::Adopt { spare, process } => self.adopted.push((spare, process)),
                Effect::WriteTranscript { process, conversation, content, .. } => {
                    let content = String::from_utf8(content.to_vec()).unwrap();
                    self.transcripts.push((process, conversation, content));
                }
                Effect::RemoveTranscripts(process) => self.transcripts.retain(|it| it.0 != process),
                Effect::RemoveTranscript { .. } => {}
                Effect::LoadTeams { .. } => {
                    let teams = self.teams.clone();
                    self.event(Event::TeamsLoaded(teams));
                }
                Effect::WriteTeam { number, team, content, .. } => {
                    self.stored.insert(team.clone(), content);
                    self.writes.push(number);
                    if !self.holds_teams {
                        self.event(Event::TeamWritten { number, team, written: Ok(()) });
                    }
                }
                Effect::RemoveTeam { team, .. } => {
                    self.teams.retain(|it| it.name != team);
                    self.stored.remove(&team);
                }
                Effect::KeepMode(mode) => {
                    let is_new = !self.modes.iter().any(|it| it.name == mode.name && it.tools == mode.tools);
                    self.modes.push(mode.clone());
                    if !self.holds_modes {
                        self.event(kept(&mode, is_new));
                    }
                }
                Effect::Recall(all) => {
                    let one = |it: Started| {
                        let result = self.remembered.get(&it.member)?.clone();
                        Some(Recalled { member: it.member, result })
                    };
                    let found = all.into_iter().filter_map(one).collect();
                    self.event(Event::Recalled(found));
                }
                Effect::FindRoot(it) => self.searches.push(it),
                Effect::Remember(it, result) => {
                    self.remembered.insert(it.member, serde_json::from_slice(&result).unwrap());
                }
                Effect::ReadFile(path) => self.to_read.push(path),
                Effect::HangUp(_) => unreachable!("no client is sent away"),
                Effect::CloseInput(process) => self.closed.push(process),
                Effect::AwaitDrained(process) => self.feeding.push(process),
                Effect::Terminate(process) => self.terminated.push(process),
                Effect::Exit(code) => self.exit = Some(code),
                Effect::Measure(processes) => self.to_measure.push(processes),
                Effect::Logs { backend, .. } => self.logs.push(backend),
                Effect::RunTool { call, scope } => {
                    self.tools.push((serde_json::from_slice(&call.to_bytes()).unwrap(), *scope));
                }
                Effect::CancelTool(id) => {
                    self.unwanted.push(serde_json::from_slice(id.as_bytes()).unwrap());
                }
                Effect::Fetch(fetch) => self.fetches.push((fetch.number, fetch.files)),
                Effect::WatchEditor(_) | Effect::Look(_) | Effect::Write(_) => {}
            }
        }
    }

    pub(super) fn prepared(&mut self) {
        if let Some(problem) = self.unreadable.clone() {
            return self.event(Event::Prepared(Err(problem)));
        }
        let launch = Launch {
            program: "/bin/server".into(),
            args: self.server.args.clone(),
            env: vec![],
            cwd: None,
            max_message: 1 << 20,
            write_stall: Duration::from_mins(1),
            root: None,
            remote: self.remote.clone(),
            share: self.server.share.is_on().then(|| Share { server: self.name.clone(), ..Share::default() }),
        };
        let prepared = Prepared {
            config: Arc::new(self.config.clone()),
            name: self.name.clone(),
            server: self.server.clone(),
            launch: Arc::new(launch),
            missing: self.missing.clone(),
            warnings: self.warnings.clone(),
            // Like the shell, which derives the kind of a server only from its command.
            transcripts: self.server.exact_restore.then(|| "/private/kept".into()),
            group: self.group.clone(),
            has_code_tools: self.has_code_tools,
        };
        self.event(Event::Prepared(Ok(Box::new(prepared))));
    }

    /// The editor says these in one breath, and closes its stream: the workspace has not been looked at yet.
    pub(super) fn burst(&mut self, messages: &[Value], closes: bool) {
        let mut events: Vec<Event> =
            messages.iter().map(|it| Event::Received(EDITOR, frame(it.clone()))).collect();
        if closes {
            events.push(Event::Closed { peer: EDITOR, error: None });
        }
        let mut out = Vec::new();
        for event in events {
            self.core.handle(self.now, event, &mut out);
            self.check();
        }
        assert!(!out.iter().any(|it| matches!(it, Effect::Exit(_))), "{out:?}");
        self.carry_out(out);
    }

    /// The editor says this.
    pub(super) fn editor(&mut self, message: Value) {
        self.event(Event::Received(EDITOR, frame(message)));
    }

    /// A control client says this.
    pub(super) fn control(&mut self, message: Value) {
        self.event(Event::Received(CONTROL, frame(message)));
    }

    /// Answers `initialize`, and that alone.
    pub(super) fn open(&mut self, process: ProcessId) {
        let asked = self.take(Peer::Backend(process));
        assert_eq!(asked[0]["method"], "initialize", "{asked:?}");
        self.server(process, json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
    }

    /// A server says this.
    pub(super) fn server(&mut self, process: ProcessId, message: Value) {
        self.event(Event::Received(Peer::Backend(process), frame(message)));
    }

    /// A builtin tool answers.
    pub(super) fn ran(&mut self, id: &Value, result: &Value) {
        self.event(Event::ToolRan(frame(json!({"id": id, "result": result}))));
    }

    pub(super) fn exited(&mut self, process: ProcessId, exit: Exit) {
        self.event(Event::Exited { process, exit, stderr: String::new() });
    }

    /// The messages to a peer since the last call.
    pub(super) fn take(&mut self, peer: Peer) -> Vec<Value> {
        self.sent.remove(&peer).unwrap_or_default()
    }

    /// It was not looked at after all.
    pub(super) fn put_back(&mut self, peer: Peer, message: Value) {
        self.sent.entry(peer).or_default().push(message);
    }

    /// The same, by method (or `answer`).
    pub(super) fn told(&mut self, process: ProcessId) -> Vec<String> {
        self.take(Peer::Backend(process)).iter().map(name).collect()
    }

    /// Answers everything that lspool itself wants of a starting partition; gives all it was told.
    pub(super) fn start(&mut self, process: ProcessId, builtin: &[&str]) -> Vec<Value> {
        let mut told = Vec::new();
        loop {
            let batch = self.take(Peer::Backend(process));
            let own = |it: &&Value| {
                matches!(
                    it["method"].as_str(),
                    Some(
                        "initialize"
                            | "checkStatus"
                            | "conversation/registerTools"
                            | "conversation/unregisterTools"
                            | "conversation/updateToolsStatus"
                    )
                )
            };
            let asked: Vec<Value> = batch.iter().filter(own).cloned().collect();
            told.extend(batch);
            if asked.is_empty() {
                return told;
            }
            for request in asked {
                let offered = |names: &[&str]| -> Value {
                    names.iter().map(|it| json!({"name": it, "id": format!("copilot.{it}")})).collect()
                };
                let result = match request["method"].as_str() {
                    Some("conversation/registerTools") => offered(builtin),
                    Some("conversation/unregisterTools") => offered(&[]),
                    _ => json!({}),
                };
                self.server(process, json!({"id": request["id"], "result": result}));
            }
        }
    }

    /// Creates a conversation; returns the first messages to the editor.
    pub(super) fn create(&mut self, id: u32, more: &Value) -> Vec<Value> {
        let mut params = json!({"workDoneToken": format!("t{id}"), "turns": [{"request": "q"}]});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.editor(json!({"id": id, "method": "conversation/create", "params": params}));
        self.take(EDITOR)
    }
}

/// The shell's answer to a request for memory: so many bytes each, and no dropped messages.
pub(super) fn measured(resident: Vec<(ProcessId, u64)>) -> Event {
    Event::Measured(Box::new(Measured { resident, ..Measured::default() }))
}

/// The shell has seen to the file of a mode.
pub(super) fn kept(mode: &KeepMode, is_new: bool) -> Event {
    let file = format!("/run/lspool/modes/{}.agent.md", mode.name).into();
    let (title, tools) = (mode.name.clone(), mode.tools.clone());
    Event::ModeKept { number: mode.number, kept: Ok(KeptMode { file, title, tools, is_new }) }
}

/// The uri of that file.
pub(super) fn uri(mode: &KeepMode) -> String {
    format!("file:///run/lspool/modes/{}.agent.md", mode.name)
}

/// Whether a server is asked whether it restores from transcripts.
pub(super) fn asks_for_proof(message: &Value) -> bool {
    message["params"] == json!({"restoreToTurnId": 0})
}

/// What a server answers to that if it does.
pub(super) fn proof() -> Value {
    let message = "Schema validation failed with the following errors:\n- /workDoneToken: Required property\n\
                   - /restoreToTurnId: Expected string";
    json!({"code": -32602, "message": message})
}

pub(super) fn name(message: &Value) -> String {
    message["method"].as_str().unwrap_or("answer").to_owned()
}

fn frame(mut message: Value) -> Frame {
    message["jsonrpc"] = json!("2.0");
    Frame::parse(Bytes::from(message.to_string())).unwrap()
}
