//! Leads, sub-agents, orchestrations, crashing servers and a random editor: the editor sees each turn like a plain
//! one, each goal has its events, and no agent is left at the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::{collection::vec, prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};

use super::{
    stage::{EDITOR, Stage},
    taped::Taped,
};
use crate::{
    agents::orchestration::{End, Event as Happened, Notice},
    config::ServerKind,
    core::{
        Identity,
        event::{Event, Exit, Peer, ProcessId},
    },
};

/// The plan of a planner: a diamond, and a task beside it.
const PLAN: &str = r#"[{"worker_role": "coder", "task": "a"}, {"worker_role": "reviewer", "task": "b", "depends_on": [0]},
    {"worker_role": "coder", "task": "c", "depends_on": [0]}, {"worker_role": "coder", "task": "d", "depends_on": [1, 2]},
    {"worker_role": "coder", "task": "e"}]"#;

#[derive(Clone, Debug)]
enum Step {
    /// A new conversation, or another turn of one.
    Ask {
        conversation: u8,
        lead: bool,
    },
    /// A goal is to be worked on.
    Orchestrate,
    Cancel(u8),
    Destroy(u8),
    /// A client's tool is answered.
    Answer(u8),
    /// The model of a running turn says something.
    Model(u8, Act),
    Die(u8),
    Stop(u8),
    /// Seconds.
    Pass(u8),
    Reload(u8),
}

#[derive(Clone, Debug)]
enum Act {
    Text,
    Delegate(u8),
    Tool,
    Usage,
    End,
    Fail,
    Answer,
    Refuse,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Text),
        4 => any::<u8>().prop_map(Act::Delegate),
        2 => Just(Act::Tool),
        1 => Just(Act::Usage),
        3 => Just(Act::End),
        1 => Just(Act::Fail),
        4 => Just(Act::Answer),
        1 => Just(Act::Refuse),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3_u8, prop::bool::weighted(0.8)).prop_map(|(conversation, lead)| Step::Ask { conversation, lead }),
        1 => any::<u8>().prop_map(Step::Cancel),
        1 => (0..3_u8).prop_map(Step::Destroy),
        3 => any::<u8>().prop_map(Step::Answer),
        24 => (any::<u8>(), act()).prop_map(|(turn, act)| Step::Model(turn, act)),
        2 => any::<u8>().prop_map(Step::Die),
        1 => any::<u8>().prop_map(Step::Stop),
        2 => (0..60_u8).prop_map(Step::Pass),
        1 => any::<u8>().prop_map(Step::Reload),
    ]
}

fn goal_step() -> impl Strategy<Value = Step> {
    prop_oneof![1 => Just(Step::Orchestrate), 15 => step()]
}

/// A turn that a process was asked.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that has happened")]
struct Turn {
    process: ProcessId,
    id: Value,
    conversation: Value,
    name: Value,
    token: Value,
    is_lead: bool,
    is_planner: bool,
    has_begun: bool,
    /// The end of the reasoning.
    has_counted: bool,
    has_ended: bool,
    is_cancelled: bool,
    rounds: u64,
    calls: u64,
    /// The client tool that it waits for: its request, call and round.
    waits: Option<(u64, String, u64)>,
}

/// The editor's messages about a turn.
#[derive(Debug, Default)]
struct Heard {
    conversation: String,
    begins: u32,
    ends: u32,
    answers: u32,
    last_round: u64,
    calls: BTreeMap<String, String>,
    /// The editor's messages about a goal.
    goal: Option<Vec<Notice>>,
}

struct World {
    stage: Stage,
    turns: Vec<Turn>,
    alive: BTreeSet<ProcessId>,
    /// By the editor's id of the request.
    heard: BTreeMap<u64, Heard>,
    /// The id of a request to the editor.
    asked: Vec<Value>,
    conversations: BTreeSet<u8>,
    /// How often each was destroyed: an id is not used again.
    lives: BTreeMap<u8, u32>,
    /// Which process knows which conversation.
    known: BTreeSet<(ProcessId, String)>,
    n: u64,
    /// Requests of processes.
    requests: u64,
    stops: u64,
}

impl World {
    fn new(texts: bool) -> World {
        let mut stage = Stage::new(ServerKind::Copilot);
        // A plan is a text.
        stage.core = Taped::with_texts(Identity { pid: 77, started: 5 }, texts);
        stage.server.stall_timeout = Some(Duration::ZERO);
        stage.initialize();
        stage.config.subagents.max_parallel = 2;
        stage.config.subagents.max_subagents = 6;
        stage.config.subagents.max_followups = 3;
        stage.config.subagents.time_limit = Duration::from_secs(100);
        stage.config.agents.get_mut("plan").unwrap().model = Some("fast".to_owned());
        stage.config.agents.get_mut("bash").unwrap().max_turns = Some(3);
        let mut world = World {
            stage,
            turns: Vec::new(),
            alive: BTreeSet::new(),
            heard: BTreeMap::new(),
            asked: Vec::new(),
            conversations: BTreeSet::new(),
            lives: BTreeMap::new(),
            known: BTreeSet::new(),
            n: 1000,
            requests: 0,
            stops: 0,
        };
        world.stage.editor(json!({"id": 900, "method": "lspool/reload"}));
        world.alive.insert(super::stage::process(0, 1));
        world.look();
        world
    }

    fn pick<T: Clone>(all: &[T], index: u8) -> Option<T> {
        (!all.is_empty()).then(|| all[usize::from(index) % all.len()].clone())
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Ask { conversation, lead } => self.ask(*conversation, *lead),
            Step::Orchestrate => self.orchestrate(),
            Step::Cancel(index) => {
                let open: Vec<u64> =
                    self.heard.iter().filter(|(_, it)| it.answers == 0).map(|(id, _)| *id).collect();
                if let Some(id) = Self::pick(&open, *index) {
                    self.stage.editor(json!({"method": "$/cancelRequest", "params": {"id": id}}));
                }
            }
            Step::Destroy(conversation) => {
                // The server decides about turns that wait for another one.
                let name = self.name(*conversation);
                let open =
                    self.heard.values().filter(|it| it.answers == 0 && it.conversation == name).count();
                if open > 1 {
                    return;
                }
                self.stops += 1;
                let params = json!({"conversationId": self.name(*conversation)});
                let id = 500_000 + self.stops;
                self.conversations.remove(conversation);
                *self.lives.entry(*conversation).or_default() += 1;
                self.stage.editor(json!({"id": id, "method": "conversation/destroy", "params": params}));
            }
            Step::Answer(index) => self.answer_tool(*index),
            Step::Model(index, act) => self.model(*index, act),
            Step::Die(index) => {
                let alive: Vec<ProcessId> = self.alive.iter().copied().collect();
                if let Some(process) = Self::pick(&alive, *index) {
                    self.dies(process);
                }
            }
            Step::Stop(index) => {
                let names = [
                    "*,+delegate_task",
                    "run_in_terminal",
                    "file_search,grep_search,ide,list_dir,lsp_read,read_file",
                ];
                let name = format!("partition \"{}\" of copilot", names[usize::from(*index) % 3]);
                self.stops += 1;
                let id = 600_000 + self.stops;
                self.stage.editor(json!({"id": id, "method": "lspool/stop", "params": {"name": name}}));
            }
            Step::Pass(seconds) => self.stage.pass(Duration::from_secs(u64::from(*seconds))),
            Step::Reload(n) => {
                self.stops += 1;
                let text = format!("another {n}");
                self.stage.config.agents.get_mut("bash").unwrap().description = Some(text);
                self.stage.editor(json!({"id": 700_000 + self.stops, "method": "lspool/reload"}));
            }
        }
        self.look();
    }

    fn name(&self, conversation: u8) -> String {
        format!("c{conversation}-{}", self.lives.get(&conversation).copied().unwrap_or_default())
    }

    fn dies(&mut self, process: ProcessId) {
        self.alive.remove(&process);
        self.turns.retain(|it| it.process != process);
        self.stage.exited(process, Exit::Signal(9));
    }

    fn ask(&mut self, conversation: u8, lead: bool) {
        self.n += 1;
        let (id, name) = (self.n, self.name(conversation));
        let (token, turn) = (format!("t{id}"), format!("T{id}"));
        self.heard.insert(id, Heard { conversation: name.clone(), ..Heard::default() });
        if self.conversations.contains(&conversation) {
            let params =
                json!({"conversationId": name, "message": "next", "workDoneToken": token, "turnId": turn});
            self.stage.editor(json!({"id": id, "method": "conversation/turn", "params": params}));
        } else {
            self.conversations.insert(conversation);
            let lspool = json!({"lead": lead, "events": lead});
            let params = json!({
                "conversationId": name, "workDoneToken": token, "lspool": lspool,
                "turns": [{"request": "go", "turnId": turn}],
            });
            self.stage.editor(json!({"id": id, "method": "conversation/create", "params": params}));
        }
    }

    fn orchestrate(&mut self) {
        self.n += 1;
        let id = self.n;
        self.heard.insert(id, Heard { goal: Some(Vec::new()), ..Heard::default() });
        let params = json!({"goal": "it", "workDoneToken": format!("t{id}"), "modelInfo": {"id": "m"}});
        self.stage.editor(json!({"id": id, "method": "lspool/orchestrate", "params": params}));
    }

    fn answer_tool(&mut self, index: u8) {
        if let Some(id) = Self::pick(&self.asked, index) {
            self.asked.retain(|it| *it != id);
            let result = json!([{"content": [{"value": "some result"}]}, null]);
            self.stage.editor(json!({"id": id, "result": result}));
        }
    }

    fn model(&mut self, index: u8, act: &Act) {
        if self.turns.is_empty() {
            return;
        }
        let at = usize::from(index) % self.turns.len();
        self.act(at, act);
    }

    fn says(&mut self, at: usize, kind: &str, more: &Value) {
        let it = &self.turns[at];
        let mut value = json!({"kind": kind, "conversationId": it.conversation, "turnId": it.name});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let message = json!({"method": "$/progress", "params": {"token": it.token, "value": value}});
        let process = it.process;
        self.stage.server(process, message);
    }

    fn round(round: u64, text: &str, call: Option<Value>) -> Value {
        let mut it = json!({"roundId": round, "reply": text});
        if let Some(call) = call {
            it["toolCalls"] = json!([call]);
        }
        json!({"editAgentRounds": [it]})
    }

    /// The messages of a server that follows the protocol.
    fn act(&mut self, at: usize, act: &Act) {
        let it = &self.turns[at];
        if !it.has_begun && matches!(act, Act::Refuse) {
            let turn = self.turns.remove(at);
            self.known.remove(&(turn.process, turn.conversation.as_str().unwrap().to_owned()));
            let error = json!({"code": -32603, "message": "it went wrong"});
            return self.stage.server(turn.process, json!({"id": turn.id, "error": error}));
        }
        let it = &mut self.turns[at];
        if !it.has_begun {
            it.has_begun = true;
            return self.says(at, "begin", &json!({}));
        }
        if it.is_cancelled && !it.has_ended {
            it.has_ended = true;
            it.waits = None;
            return self.says(at, "end", &json!({"cancellationReason": "CancelledByUser"}));
        }
        if it.has_ended {
            return self.answers(at);
        }
        if it.waits.is_some() {
            return;
        }
        let act = if it.has_counted { &Act::End } else { act };
        match act {
            Act::Text => {
                it.rounds += 1;
                let (round, text) = (it.rounds, if it.is_planner { PLAN } else { "some text" });
                self.says(at, "report", &World::round(round, text, None));
            }
            Act::Delegate(agent) if it.is_lead => self.calls(at, "delegate_task", *agent),
            Act::Delegate(_) | Act::Tool => self.calls(at, "ide_look", 0),
            Act::Usage => {
                it.has_counted = true;
                self.says(at, "report", &json!({"tokenUsage": {}}));
            }
            Act::End | Act::Answer => {
                it.has_ended = true;
                self.says(at, "end", &json!({}));
            }
            Act::Fail => {
                it.has_ended = true;
                self.says(at, "end", &json!({"error": {"message": "no such quota"}}));
            }
            // A begun turn is not refused.
            Act::Refuse => {}
        }
    }

    fn answers(&mut self, at: usize) {
        let turn = self.turns.remove(at);
        let result =
            json!({"conversationId": turn.conversation, "turnId": turn.name, "modelInfo": {"id": "m"}});
        self.stage.server(turn.process, json!({"id": turn.id, "result": result}));
    }

    fn calls(&mut self, at: usize, tool: &str, agent: u8) {
        let agents = ["explore", "bash", "general-purpose", "plan", "nobody"];
        let it = &mut self.turns[at];
        it.rounds += 1;
        it.calls += 1;
        self.requests += 1;
        let (request, round, id) = (self.requests, it.rounds, format!("call-{}", it.calls));
        let input = match tool {
            "delegate_task" => {
                json!({"subagent_type": agents[usize::from(agent) % 5], "prompt": "do some thing"})
            }
            _ => json!({}),
        };
        let call = json!({"id": id, "name": tool, "toolType": "client", "status": "running", "input": input});
        it.waits = Some((request, id.clone(), round));
        let (process, conversation, turn) = (it.process, it.conversation.clone(), it.name.clone());
        self.says(at, "report", &World::round(round, "", Some(call)));
        let params = json!({
            "name": tool, "input": input, "conversationId": conversation, "turnId": turn, "roundId": round,
            "toolCallId": id,
        });
        let method = "conversation/invokeClientTool";
        self.stage.server(process, json!({"id": request, "method": method, "params": params}));
    }

    /// All peers handle their messages.
    fn look(&mut self) {
        loop {
            let spawned = std::mem::take(&mut self.stage.spawned);
            let terminated = std::mem::take(&mut self.stage.terminated);
            let transcripts = std::mem::take(&mut self.stage.transcripts);
            let heard = self.stage.take(EDITOR);
            let told: Vec<(ProcessId, Value)> = (0..12)
                .flat_map(|backend| (1..60).map(move |generation| super::stage::process(backend, generation)))
                .flat_map(|process| {
                    self.stage.take(Peer::Backend(process)).into_iter().map(move |it| (process, it))
                })
                .collect();
            if spawned.is_empty()
                && terminated.is_empty()
                && transcripts.is_empty()
                && heard.is_empty()
                && told.is_empty()
            {
                return;
            }
            self.alive.extend(spawned);
            for message in heard {
                self.editor_hears(&message);
            }
            for (process, message) in told {
                self.server_hears(process, &message);
            }
            for (process, conversation, _) in transcripts {
                let folder = Ok("/transcripts".into());
                self.stage.event(Event::TranscriptWritten { process, conversation, folder });
            }
            for process in terminated {
                if self.alive.remove(&process) {
                    self.turns.retain(|it| it.process != process);
                    self.stage.exited(process, Exit::Code(0));
                }
            }
        }
    }

    fn server_hears(&mut self, process: ProcessId, message: &Value) {
        if !self.alive.contains(&process) {
            return;
        }
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            Some("conversation/create" | "conversation/turn") => {
                let conversation = params["conversationId"].clone();
                let last = params["turns"].as_array().and_then(|it| it.last());
                let turn = last.map_or(&params["turnId"], |it| &it["turnId"]).clone();
                assert!(turn.is_string() && conversation.is_string(), "{message}");
                let is_create = message["method"] == "conversation/create";
                let name = conversation.as_str().unwrap().to_owned();
                if is_create {
                    self.known.insert((process, name));
                } else if !self.known.contains(&(process, name)) {
                    let error = json!({"code": -32603, "message": "Conversation does not exist"});
                    return self.stage.server(process, json!({"id": id, "error": error}));
                }
                let running =
                    self.turns.iter().find(|it| it.process == process && it.conversation == conversation);
                // A create may replace a running conversation; a turn never meets another wanted one.
                assert!(running.is_none_or(|it| it.is_cancelled) || is_create, "{running:?} {message}");
                let own = conversation.as_str().unwrap().to_owned();
                let said = last.map_or(&params["message"], |it| &it["request"]).as_str().unwrap_or_default();
                let is_planner = said.contains("Plan how workers") || said.contains("This plan is invalid");
                let is_lead = own.starts_with('c') && process.backend.0 != 0;
                let token = params["workDoneToken"].clone();
                self.turns.push(Turn {
                    process,
                    id: id.clone(),
                    conversation,
                    name: turn,
                    token,
                    is_lead,
                    is_planner,
                    has_begun: false,
                    has_counted: false,
                    has_ended: false,
                    is_cancelled: false,
                    rounds: 0,
                    calls: 0,
                    waits: None,
                });
            }
            Some("$/cancelRequest") => {
                if let Some(turn) =
                    self.turns.iter_mut().find(|it| it.process == process && it.id == params["id"])
                {
                    turn.is_cancelled = true;
                }
            }
            Some("conversation/destroy") => {
                let name = params["conversationId"].as_str().unwrap_or_default().to_owned();
                self.known.remove(&(process, name));
                self.stage.server(process, json!({"id": id, "result": "OK"}));
            }
            Some("copilot/models") => {
                let models = json!([{"id": "m", "modelName": "M"}]);
                self.stage.server(process, json!({"id": id, "result": models}));
            }
            Some("conversation/registerTools" | "conversation/unregisterTools") => {
                self.stage.server(process, json!({"id": id, "result": []}));
            }
            Some(_) if !id.is_null() => self.stage.server(process, json!({"id": id, "result": {}})),
            Some(_) => {}
            None => self.tool_is_answered(process, message),
        }
    }

    fn tool_is_answered(&mut self, process: ProcessId, answer: &Value) {
        let is_it = |it: &Turn| {
            it.process == process && it.waits.as_ref().is_some_and(|(request, ..)| answer["id"] == *request)
        };
        let Some(at) = self.turns.iter().position(is_it) else { return };
        let Some((_, id, round)) = self.turns[at].waits.take() else { return };
        let status = if answer["result"][0]["status"] == "error" { "error" } else { "completed" };
        let call = json!({
            "id": id, "name": "some_tool", "toolType": "client", "status": status, "input": {},
            "result": [{"type": "text", "value": answer["result"][0]["content"][0]["value"]}],
        });
        self.says(at, "report", &World::round(round, "", Some(call)));
    }

    fn editor_hears(&mut self, message: &Value) {
        let params = &message["params"];
        match (message["method"].as_str(), &message["id"]) {
            (Some("$/progress"), _) => self.editor_hears_progress(params),
            (Some("lspool/agentEvent"), _) => {
                assert!(params["conversationId"].as_str().unwrap().starts_with('c'), "{message}");
            }
            (Some("lspool/orchestratorEvent"), _) => self.editor_hears_event(params),
            (Some("$/cancelRequest"), _) => self.asked.retain(|it| *it != params["id"]),
            (Some("conversation/invokeClientTool"), id) => {
                let conversation = params["conversationId"].as_str().unwrap();
                if conversation.starts_with("lspool-orchestration-") {
                    assert_eq!(params["turnId"], conversation, "{message}");
                } else {
                    assert!(conversation.starts_with('c'), "{message}");
                    assert!(params["turnId"].as_str().unwrap().starts_with('T'), "{message}");
                }
                self.asked.push(id.clone());
            }
            (Some(_), Value::Null) => {}
            (Some(_), id) => self.stage.editor(json!({"id": id, "result": null})),
            (None, id) => {
                let Some(heard) = id.as_u64().and_then(|it| self.heard.get_mut(&it)) else { return };
                heard.answers += 1;
                assert_eq!(heard.answers, 1, "a second answer: {message}");
                if let Some(events) = &heard.goal {
                    check_events(events, message);
                }
                assert!(
                    heard.begins == 0 || heard.ends == 1,
                    "an answer before the end: {message} {heard:?}"
                );
                let open: Vec<_> = heard.calls.iter().filter(|(_, status)| *status == "running").collect();
                let is_cut_off = message["error"].is_object();
                assert!(open.is_empty() || is_cut_off, "calls are left open: {open:?} {message}");
            }
        }
    }

    fn editor_hears_progress(&mut self, params: &Value) {
        let token = params["token"].as_str().unwrap();
        assert!(token.starts_with('t'), "whose is it? {params}");
        let id: u64 = token[1..].parse().unwrap();
        let value = &params["value"];
        let heard = self.heard.get_mut(&id).unwrap();
        if heard.goal.is_some() {
            return heard.hear_goal(value);
        }
        assert_eq!(value["conversationId"], heard.conversation, "{params}");
        assert_eq!(value["turnId"], format!("T{id}"), "{params}");
        assert_eq!((heard.answers, heard.ends), (0, 0), "after the end: {params}");
        match value["kind"].as_str().unwrap() {
            "begin" => {
                heard.begins += 1;
                assert_eq!(heard.begins, 1, "a second begin: {params}");
            }
            "end" => {
                heard.ends += 1;
                assert_eq!(heard.begins, 1, "{params}");
                let open = heard.calls.iter().find(|(id, status)| *status == "running" && !id.is_empty());
                let is_cut_off = value["error"].is_object() || value["cancellationReason"].is_string();
                assert!(open.is_none() || is_cut_off, "{open:?} {params}");
            }
            _ => {
                for round in value["editAgentRounds"].as_array().into_iter().flatten() {
                    let number = round["roundId"].as_u64().unwrap();
                    let is_update = round["reply"] == "" && round["toolCalls"].is_array();
                    assert!(number >= heard.last_round || is_update, "{params} after {}", heard.last_round);
                    heard.last_round = heard.last_round.max(number);
                    for call in round["toolCalls"].as_array().into_iter().flatten() {
                        let status = call["status"].as_str().unwrap().to_owned();
                        let before =
                            heard.calls.insert(call["id"].as_str().unwrap().to_owned(), status.clone());
                        let was_open = before.as_ref().is_none_or(|it| it == "running");
                        assert!(
                            was_open || before == Some(status),
                            "a call goes on that has ended: {params}"
                        );
                    }
                }
            }
        }
    }

    /// It comes before the progress that tells the same.
    fn editor_hears_event(&mut self, params: &Value) {
        let told: Notice = serde_json::from_value(params.clone()).unwrap();
        let n: usize = told.orchestration.rsplit('-').next().unwrap().parse().unwrap();
        let mut goals = self.heard.values_mut().filter_map(|it| it.goal.as_mut());
        goals.nth(n - 1).unwrap().push(told);
    }

    /// All come to their end.
    fn settle(&mut self) {
        for _ in 0..800 {
            self.look();
            while !self.asked.is_empty() {
                self.answer_tool(0);
                self.look();
            }
            if !self.turns.is_empty() {
                // A silent sub-agent gets a second question.
                let act = if self.turns[0].rounds == 0 { Act::Text } else { Act::Answer };
                self.model(0, &act);
                continue;
            }
            self.stage.pass(Duration::from_secs(1));
            self.look();
            if self.turns.is_empty() && self.asked.is_empty() && self.heard.values().all(|it| it.answers == 1)
            {
                break;
            }
        }
        for (id, heard) in &self.heard {
            assert_eq!(heard.answers, 1, "request {id} is not answered: {heard:?}");
            assert_eq!(heard.begins, heard.ends, "{id}: {heard:?}");
        }
        self.stage.core.check_quiet();
    }
}

impl Heard {
    fn hear_goal(&mut self, value: &Value) {
        assert_eq!((self.answers, self.ends), (0, 0), "after the end: {value}");
        match value["kind"].as_str().unwrap() {
            "begin" => self.begins += 1,
            kind => {
                let last = self.goal.as_ref().and_then(|it| it.last()).unwrap();
                assert_eq!(value["lspool"], json!(last), "each event is progress");
                let is_last = matches!(last.event, Happened::Finished { .. });
                assert_eq!((self.begins, kind == "end"), (1, is_last), "{value}");
                self.ends += u32::from(kind == "end");
            }
        }
    }
}

/// A goal is answered when its last event was told, and as that says.
fn check_events(events: &[Notice], answer: &Value) {
    let is_last = |it: &Notice| matches!(it.event, Happened::Finished { .. });
    let Some(Happened::Finished { state, done, failed, skipped, cancelled }) =
        events.last().map(|it| &it.event)
    else {
        panic!("{answer} comes before the end: {events:?}");
    };
    assert_eq!(events.iter().filter(|it| is_last(it)).count(), 1);
    let (code, result) = (&answer["error"]["code"], &answer["result"]);
    match state {
        End::Cancelled => assert_eq!(code, -32800, "{answer}"),
        _ if code.is_null() => assert_eq!(result["state"], state.word(), "{answer}"),
        _ => assert_eq!((*state, done + failed), (End::Failed, 0), "{answer}"),
    }
    let planned = events.iter().find_map(|it| match &it.event {
        Happened::PlanCompleted { tasks, .. } => Some(tasks.len()),
        _ => None,
    });
    assert_eq!(done + failed + skipped + cancelled, planned.unwrap_or(0), "{events:?}");
}

fn runs(cases: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), ..config },
    }
}

proptest! {
    #![proptest_config(runs(150))]

    #[test]
    fn leads_end_cleanly_after_any_events(steps in vec(step(), 0..80)) {
        let mut world = World::new(false);
        for step in &steps {
            world.step(step);
        }
        world.settle();
    }

}

proptest! {
    #![proptest_config(runs(60))]

    #[test]
    fn orchestrations_end_cleanly_after_any_events(steps in vec(goal_step(), 0..80)) {
        let mut world = World::new(true);
        for step in &steps {
            world.step(step);
        }
        world.settle();
    }
}
