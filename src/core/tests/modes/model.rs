//! For any behavior of the editor, the shell and a server that reads files like the real one: **no turn ever gets
//! more tools than its set**, and each request gets an answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};

use super::super::stage::{EDITOR, Stage, kept, process, uri};
use crate::{
    config::{Isolation, OnLimit, ServerKind},
    core::event::{Event, Exit, KeepMode, Peer, ProcessId},
};

const TOOLS: [&str; 4] = ["t0", "t1", "ide_0", "ide_1"];

/// Sets by number, and what they stand for.
const SETS: [(&[&str], &[&str]); 5] = [
    (&[], &[]),
    (&["t0"], &["t0"]),
    (&["t0", "t1"], &["t0", "t1"]),
    (&["ide"], &["ide_0", "ide_1"]),
    (&["t1", "ide_*"], &["t1", "ide_0", "ide_1"]),
];

/// The next action, and its target.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create {
        conversation: u8,
        set: u8,
        is_agent: bool,
    },
    Turn {
        conversation: u8,
        is_agent: bool,
    },
    Destroy(u8),
    Cancel(u8),
    Register,
    /// The primary answers a change of the catalog.
    Decide,
    Move(u8, bool),
    Reload(bool),
    /// The shell has seen to a file, or could not.
    Keep(u8, bool),
    /// Another program damages the files.
    Spoil,
    /// Another program makes the server forget the modes.
    Forget,
    /// The server lists the modes: as it knows them, or less.
    List(u8, bool),
    Changed,
    Finish(u8),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let n = || 0..4_u8;
    prop_oneof![
        4 => (n(), 0..5_u8, prop::bool::weighted(0.85)).prop_map(|(conversation, set, is_agent)| Step::Create { conversation, set, is_agent }),
        5 => (n(), prop::bool::weighted(0.85)).prop_map(|(conversation, is_agent)| Step::Turn { conversation, is_agent }),
        1 => n().prop_map(Step::Destroy),
        1 => n().prop_map(Step::Cancel),
        1 => Just(Step::Register),
        2 => Just(Step::Decide),
        1 => (n(), any::<bool>()).prop_map(|(it, to)| Step::Move(it, to)),
        1 => any::<bool>().prop_map(Step::Reload),
        8 => (n(), prop::bool::weighted(0.9)).prop_map(|(it, can)| Step::Keep(it, can)),
        1 => Just(Step::Spoil),
        1 => Just(Step::Forget),
        8 => (n(), prop::bool::weighted(0.9)).prop_map(|(it, is_true)| Step::List(it, is_true)),
        1 => Just(Step::Changed),
        6 => n().prop_map(Step::Finish),
        1 => Just(Step::Crash),
    ]
}

struct World {
    it: Stage,
    /// The tools by the name of the file; an unreadable file gives all.
    files: BTreeMap<String, Option<Vec<String>>>,
    registered: BTreeSet<String>,
    /// Conversations that the primary knows.
    known: BTreeSet<String>,
    keeps: VecDeque<KeepMode>,
    lists: VecDeque<Value>,
    changes: VecDeque<Value>,
    running: VecDeque<(ProcessId, Value)>,
    /// Requests of the editor that are not answered.
    open: BTreeSet<u64>,
    next: u64,
    sets: BTreeMap<u8, u8>,
    generation: u32,
}

impl World {
    fn new(isolation: Isolation) -> World {
        let mut it = Stage::new(ServerKind::Copilot);
        it.server.isolation = isolation;
        it.server.on_limit = OnLimit::Mode;
        it.server.max_processes = 3;
        it.server.policy.max_restarts = 1000;
        it.server.stall_timeout = Some(std::time::Duration::ZERO);
        it.holds_modes = true;
        it.initialize();
        World {
            it,
            files: BTreeMap::new(),
            registered: BTreeSet::new(),
            known: BTreeSet::new(),
            keeps: VecDeque::new(),
            lists: VecDeque::new(),
            changes: VecDeque::new(),
            running: VecDeque::new(),
            open: BTreeSet::new(),
            next: 100,
            sets: BTreeMap::new(),
            generation: 1,
        }
    }

    fn primary(&self) -> ProcessId {
        process(0, self.generation)
    }

    fn ask(&mut self, method: &str, params: &Value) {
        self.next += 1;
        self.open.insert(self.next);
        self.it.editor(json!({"id": self.next, "method": method, "params": params}));
        self.pump();
    }

    fn step(&mut self, step: Step) {
        let mode = |is_agent: bool| if is_agent { "Agent" } else { "Ask" };
        match step {
            Step::Create { conversation, set, is_agent } => {
                let before = self.sets.insert(conversation, set);
                self.ask(
                    "conversation/create",
                    &json!({
                        "conversationId": format!("c{conversation}"), "workDoneToken": format!("t{}", self.next),
                        "chatMode": mode(is_agent), "turns": [{"request": format!("{set}")}],
                        "lspool": {"tools": SETS[usize::from(set)].0},
                    }),
                );
                // Refused: what had this id lives on.
                if let (Some(before), false) = (before, self.open.contains(&self.next)) {
                    self.sets.insert(conversation, before);
                }
            }
            Step::Turn { conversation, is_agent } => {
                let Some(set) = self.sets.get(&conversation) else { return };
                self.ask(
                    "conversation/turn",
                    &json!({
                        "conversationId": format!("c{conversation}"), "workDoneToken": format!("t{}", self.next),
                        "chatMode": mode(is_agent), "message": format!("{set}"),
                    }),
                );
            }
            Step::Destroy(it) => {
                self.ask("conversation/destroy", &json!({"conversationId": format!("c{it}")}));
            }
            Step::Cancel(n) => {
                let Some(id) = pick(self.open.len(), n).and_then(|at| self.open.iter().nth(at).copied())
                else {
                    return;
                };
                self.it.editor(json!({"method": "$/cancelRequest", "params": {"id": id}}));
            }
            Step::Register => {
                let tools: Vec<Value> = TOOLS.iter().map(|it| json!({"name": it})).collect();
                self.ask("conversation/registerTools", &json!({"tools": tools}));
            }
            Step::Decide => self.decide(),
            Step::Move(it, to_mode) => {
                let to = if to_mode { "mode" } else { "process" };
                self.ask("lspool/move", &json!({"name": format!("c{it}"), "to": to}));
            }
            Step::Reload(by_mode) => {
                self.it.server.isolation = if by_mode { Isolation::Mode } else { Isolation::Process };
                self.it.event(Event::FilesChanged);
            }
            Step::Keep(n, can) => self.keep(n, can),
            Step::Spoil => self.files.values_mut().for_each(|it| *it = None),
            Step::Forget => {
                self.registered.clear();
                self.it
                    .server(self.primary(), json!({"method": "copilot/customAgent/didChange", "params": {}}));
            }
            Step::List(n, is_true) => self.list(n, is_true),
            Step::Changed => {
                self.it
                    .server(self.primary(), json!({"method": "copilot/customAgent/didChange", "params": {}}));
            }
            Step::Finish(n) => self.finish(n),
            Step::Crash => {
                let gone = self.primary();
                self.generation += 1;
                self.registered.clear();
                self.known.clear();
                self.lists.clear();
                self.changes.clear();
                self.running.retain(|it| it.0 != gone);
                self.it.exited(gone, Exit::Signal(9));
                for _ in 0..60 {
                    self.pump();
                    self.it.pass(std::time::Duration::from_secs(1));
                }
            }
        }
        self.pump();
    }

    fn keep(&mut self, n: u8, can: bool) {
        let Some(at) = pick(self.keeps.len(), n) else { return };
        // The shell does one after the other.
        for mode in self.keeps.drain(..=at).collect::<Vec<_>>() {
            if !can {
                self.it.event(Event::ModeKept { number: mode.number, kept: Err("no space".to_owned()) });
                continue;
            }
            let is_new = self.files.get(&mode.name) != Some(&Some(mode.tools.clone()));
            self.files.insert(mode.name.clone(), Some(mode.tools.clone()));
            self.it.event(kept(&mode, is_new));
        }
        self.pump();
    }

    fn list(&mut self, n: u8, is_true: bool) {
        let Some(id) = pick(self.lists.len(), n).and_then(|at| self.lists.remove(at)) else { return };
        let listed = |(name, tools): (&String, &Option<Vec<String>>)| {
            let uri = uri(&KeepMode { number: 0, name: name.clone(), tools: Vec::new(), of: None });
            let is_known = self.registered.contains(&uri);
            let mut mode = json!({"id": uri, "uri": uri, "kind": "Agent"});
            if let Some(tools) = tools {
                mode["customTools"] = json!(tools);
            }
            is_known.then_some(mode)
        };
        let all: Vec<Value> = self.files.iter().filter_map(listed).filter(|_| is_true).collect();
        self.it.server(self.primary(), json!({"id": id, "result": all}));
        self.pump();
    }

    fn decide(&mut self) {
        if let Some(id) = self.changes.pop_front() {
            self.it.server(self.primary(), json!({"id": id, "result": offered()}));
        }
    }

    fn finish(&mut self, n: u8) {
        let Some((process, asked)) = pick(self.running.len(), n).and_then(|at| self.running.remove(at))
        else {
            return;
        };
        super::answer(&mut self.it, process, &asked);
        self.pump();
    }

    /// All peers take the actions that do not matter, and the requests are checked.
    fn pump(&mut self) {
        loop {
            self.keeps.extend(std::mem::take(&mut self.it.modes));
            for (process, conversation, _) in std::mem::take(&mut self.it.transcripts) {
                let folder = Ok("/run/lspool/x".into());
                self.it.event(Event::TranscriptWritten { process, conversation, folder });
            }
            self.hear_editor();
            let mut is_quiet = true;
            for process in self.it.spawned.clone() {
                for message in self.it.take(Peer::Backend(process)) {
                    is_quiet = false;
                    self.hear(process, message);
                }
                if self.it.terminated.contains(&process) {
                    self.it.terminated.retain(|it| *it != process);
                    self.running.retain(|it| it.0 != process);
                    self.it.exited(process, Exit::Code(0));
                    is_quiet = false;
                }
            }
            if is_quiet && self.it.modes.is_empty() && self.it.transcripts.is_empty() {
                return;
            }
        }
    }

    fn hear_editor(&mut self) {
        for message in self.it.take(EDITOR) {
            let id = message["id"].clone();
            if message.get("method").is_none() {
                let id = id.as_u64().expect("the ids are numbers");
                assert!(self.open.remove(&id), "{id} is answered twice: {message}");
            } else if !id.is_null() {
                self.it.editor(json!({"id": id, "result": null}));
            }
        }
    }

    fn hear(&mut self, process: ProcessId, message: Value) {
        let is_primary = process == self.primary();
        let id = message["id"].clone();
        let method = message["method"].as_str().unwrap_or_default();
        match method {
            "initialize" => self.it.server(process, json!({"id": id, "result": {"capabilities": {}}})),
            "conversation/turn" if is_primary && !self.known.contains(&of(&message)) => {
                let why = format!("Conversation with id {} does not exist", of(&message));
                self.it.server(process, json!({"id": id, "error": {"code": -32603, "message": why}}));
            }
            "conversation/create" | "conversation/turn" => {
                if is_primary {
                    self.check(&message);
                    self.known.insert(of(&message));
                }
                self.running.push_back((process, message));
            }
            "conversation/registerTools" if is_primary && message["params"]["tools"] != json!([]) => {
                self.changes.push_back(id);
            }
            "conversation/registerTools" if is_primary => {
                self.it.server(process, json!({"id": id, "result": offered()}));
            }
            "customAgent/registerExtensionAgents" => {
                let agents = message["params"]["agents"].as_array().expect("there are some");
                self.registered.extend(agents.iter().filter_map(|it| Some(it["uri"].as_str()?.to_owned())));
                self.it.server(process, json!({"id": id, "result": null}));
            }
            "conversation/destroy" if is_primary => {
                self.known.remove(&of(&message));
                self.it.server(process, json!({"id": id, "result": "OK"}));
            }
            "conversation/modes" => self.lists.push_back(id),
            _ if method.starts_with("conversation/") => {
                self.it.server(process, json!({"id": id, "result": []}));
            }
            "" | "$/cancelRequest" => {}
            _ if !id.is_null() => self.it.server(process, json!({"id": id, "result": {}})),
            _ => {}
        }
    }

    /// A turn reads the file of its mode at once.
    fn check(&self, asked: &Value) {
        let params = &asked["params"];
        let question = match params["turns"].as_array() {
            Some(turns) => &turns.last().expect("there is one")["request"],
            None => &params["message"],
        };
        let number = |it: &str| it.parse::<usize>().ok();
        let of_id = || {
            let id = params["conversationId"].as_str()?.strip_prefix('c')?.parse().ok()?;
            self.sets.get(&id).map(|it| usize::from(*it))
        };
        let set = question.as_str().and_then(number).or_else(of_id).expect("it says which set");
        let mode = params["customChatModeId"].as_str().filter(|it| self.registered.contains(*it));
        let file = mode.and_then(|it| it.rsplit('/').next()?.strip_suffix(".agent.md"));
        let tools = file.and_then(|it| self.files.get(it)?.clone());
        let tools = tools.unwrap_or_else(|| TOOLS.iter().map(ToString::to_string).collect());
        let is_agent = params["chatMode"] == "Agent";
        let more: Vec<&String> = tools.iter().filter(|it| !SETS[set].1.contains(&it.as_str())).collect();
        assert!(is_agent && more.is_empty(), "set {set} has {more:?} more: {asked}");
    }

    /// All that waits is done, as it should be.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.decide();
            self.keep(3, true);
            self.list(0, true);
            self.finish(0);
            self.it.pass(std::time::Duration::from_secs(1));
            self.pump();
        }
        assert!(self.open.is_empty(), "not answered: {:?}", self.open);
    }
}

/// The conversation that a message is about.
fn of(message: &Value) -> String {
    message["params"]["conversationId"].as_str().unwrap_or_default().to_owned()
}

fn offered() -> Value {
    TOOLS.iter().map(|it| json!({"name": it, "id": format!("copilot-editor.{it}")})).collect()
}

fn pick(len: usize, n: u8) -> Option<usize> {
    (len > 0).then(|| usize::from(n) % len)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|it| it.parse().ok()).unwrap_or(150),
        rng_seed: match std::env::var_os("PROPTEST_CASES") {
            Some(_) => RngSeed::Random,
            None => RngSeed::Fixed(1),
        },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_turn_has_more_tools_than_its_set(
        by_mode in prop::bool::weighted(0.7),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = World::new(if by_mode { Isolation::Mode } else { Isolation::Process });
        world.pump();
        for it in steps {
            world.step(it);
        }
        world.settle();
    }
}
