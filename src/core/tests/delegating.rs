//! Leads and their sub-agents.

mod crashes;
mod events;
mod limits;
mod teams;

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, name, process};
use super::taped::Taped;
use crate::{
    config::{Delegation, ServerKind},
    core::{
        Identity,
        event::{Peer, ProcessId},
    },
};

/// The process of leads.
const LEAD: ProcessId = process(1, 1);

/// A lead `c` whose turn `T` runs under the token `t1` and the editor's request 1.
struct Lead {
    it: Stage,
    process: ProcessId,
    /// The number of the turn at the process.
    asked: Value,
    calls: u64,
}

fn progress(token: &Value, kind: &str, conversation: &str, turn: &Value, more: &Value) -> Value {
    let mut value = json!({"kind": kind, "conversationId": conversation, "turnId": turn});
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"method": "$/progress", "params": {"token": token, "value": value}})
}

/// A short form of progress: `begin`, `end`, `2 text`, `1 call-1 running: message`.
fn shown(heard: &[Value]) -> Vec<String> {
    let mut out = Vec::new();
    for message in heard {
        let value = &message["params"]["value"];
        match (message["method"].as_str(), value["kind"].as_str()) {
            (Some("$/progress"), Some("report")) => {
                for round in value["editAgentRounds"].as_array().into_iter().flatten() {
                    let id = &round["roundId"];
                    if round["reply"] != "" {
                        out.push(format!("{id} {}", round["reply"].as_str().unwrap()));
                    }
                    for call in round["toolCalls"].as_array().into_iter().flatten() {
                        let more = match (&call["result"], &call["error"]) {
                            (Value::Array(it), _) => format!(" = {}", it[0]["value"].as_str().unwrap()),
                            (_, Value::String(it)) => format!(" ! {it}"),
                            _ => format!(": {}", call["progressMessage"].as_str().unwrap_or_default()),
                        };
                        let (call, status) = (call["id"].as_str().unwrap(), call["status"].as_str().unwrap());
                        out.push(format!("{id} {call} {status}{more}"));
                    }
                }
            }
            (Some("$/progress"), Some(kind)) => {
                assert_eq!(message["params"]["token"], "t1");
                assert_eq!(
                    (&value["conversationId"], &value["turnId"]),
                    (&json!("c"), &json!("T")),
                    "{value}"
                );
                let why = ["error", "cancellationReason"].map(|it| value[it].to_string());
                out.push(format!("{kind} {}", why.join(" ")).replace("null", "").trim().to_owned());
            }
            (Some("lspool/agentEvent"), _) => {
                let it = &message["params"];
                let agent = it["agent"].as_str().unwrap();
                let (state, tool) = (it["state"].as_str().unwrap(), it["tool"].as_str().unwrap_or_default());
                let text = match it["text"].as_str() {
                    Some(text) => format!("event {agent} writes {text}"),
                    None => format!("event {agent} {state} {tool}"),
                };
                out.push(text.trim().to_owned());
            }
            (Some(method), _) => out.push(method.to_owned()),
            (None, _) => out.push(format!("answer {} {}", message["id"], message["result"]["turnId"])),
        }
    }
    out
}

impl Lead {
    fn new() -> Lead {
        Lead::on(Stage::patient(), &json!({}))
    }

    fn on(mut it: Stage, more: &Value) -> Lead {
        let mut lspool = json!({"lead": true});
        lspool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let turns = json!([{"request": "go", "turnId": "T"}]);
        let create = json!({"conversationId": "c", "modelInfo": {"id": "m"}, "source": "panel", "turns": turns, "lspool": lspool});
        assert_eq!(it.create(1, &create), Vec::<Value>::new());
        let told = it.start(LEAD, &["delegate_task"]);
        let own: Vec<&Value> =
            told.iter().filter(|it| it["method"] == "conversation/registerTools").collect();
        assert_eq!(own.last().unwrap()["params"]["tools"][0]["name"], "delegate_task");
        let create = told.last().unwrap();
        assert_eq!(
            (&create["method"], &create["params"]["lspool"]),
            (&json!("conversation/create"), &Value::Null)
        );
        let asked = create["id"].clone();
        let mut lead = Lead { it, process: LEAD, asked, calls: 0 };
        lead.says("begin", &json!({}));
        assert_eq!(lead.heard(), ["begin"]);
        lead
    }

    fn says(&mut self, kind: &str, more: &Value) {
        self.it.server(self.process, progress(&json!("t1"), kind, "c", &json!("T"), more));
    }

    fn text(&mut self, round: u32, text: &str) {
        self.says("report", &json!({"editAgentRounds": [{"roundId": round, "reply": text}]}));
    }

    fn heard(&mut self) -> Vec<String> {
        shown(&self.it.take(EDITOR))
    }

    /// The model calls `delegate_task`; returns the result.
    fn delegates(&mut self, round: u32, call: &str, agent: &str) -> String {
        let input = json!({"subagent_type": agent, "prompt": format!("do {call}")});
        self.calls_tool(round, call, &input)
    }

    fn calls_tool(&mut self, round: u32, call: &str, input: &Value) -> String {
        let mut report = json!({"id": call, "name": "delegate_task", "toolType": "client", "status": "running", "input": input});
        let rounds =
            |it: &Value| json!({"editAgentRounds": [{"roundId": round, "reply": "", "toolCalls": [it]}]});
        self.says("report", &rounds(&report));
        self.calls += 1;
        let params = json!({
            "name": "delegate_task", "input": input, "conversationId": "c", "turnId": "T", "roundId": round,
            "toolCallId": call,
        });
        let (id, method) = (self.calls, "conversation/invokeClientTool");
        self.it.server(self.process, json!({"id": id, "method": method, "params": params}));
        let answer = |it: &Value| it["method"].is_null() && it["id"] == id;
        let told = self.it.take(Peer::Backend(self.process));
        let result = told.iter().find(|it| answer(it)).expect("it is answered at once")["result"][0].clone();
        let text = result["content"][0]["value"].as_str().unwrap().to_owned();
        report["status"] = if result["status"] == "error" { json!("error") } else { json!("completed") };
        report["result"] = json!([{"type": "text", "value": text}]);
        self.says("report", &rounds(&report));
        text
    }

    /// The model calls a tool of which no report tells.
    fn asks(&mut self, tool: &str, input: &Value) -> Value {
        self.calls += 1;
        let params = json!({
            "name": tool, "input": input, "conversationId": "c", "turnId": "T", "roundId": 1, "toolCallId": "x",
        });
        let ask = json!({"id": self.calls, "method": "conversation/invokeClientTool", "params": params});
        self.it.server(self.process, ask);
        self.it.take(Peer::Backend(self.process)).pop().expect("it is answered")["result"][0].clone()
    }

    /// The server ends the turn and answers it.
    fn ends(&mut self) {
        self.says("report", &json!({"tokenUsage": {}}));
        self.says("end", &json!({}));
        self.answers();
    }

    fn answers(&mut self) {
        let result = json!({"conversationId": "c", "turnId": "T", "modelInfo": {"id": "m"}});
        let id = self.asked.clone();
        self.it.server(self.process, json!({"id": id, "result": result}));
    }

    /// The server gets the request to continue; returns it.
    fn goes_on(&mut self) -> Value {
        let asked = self.it.take(Peer::Backend(self.process)).pop().expect("it is asked");
        self.asked = asked["id"].clone();
        asked
    }

    /// The creates that this process was asked.
    fn opened(&mut self, process: ProcessId) -> Vec<Run> {
        let told = self.it.start(process, &[]);
        let creates = told.into_iter().filter(|it| it["method"] == "conversation/create");
        creates.map(|it| Run { process, asked: it["id"].clone(), params: it["params"].clone() }).collect()
    }

    fn run_says(&mut self, run: &Run, kind: &str, more: &Value) {
        let said = progress(&run.params["workDoneToken"], kind, run.id(), &json!("U"), more);
        self.it.server(run.process, said);
    }

    fn run_ends(&mut self, run: &Run, text: &str) {
        self.run_says(run, "begin", &json!({}));
        self.run_says(run, "report", &json!({"editAgentRounds": [{"roundId": 1, "reply": text}]}));
        self.run_says(run, "end", &json!({}));
        let result = json!({"conversationId": run.id(), "turnId": "U"});
        self.it.server(run.process, json!({"id": run.asked, "result": result}));
    }
}

#[derive(Clone)]
struct Run {
    process: ProcessId,
    asked: Value,
    params: Value,
}

impl Run {
    fn id(&self) -> &str {
        self.params["conversationId"].as_str().unwrap()
    }
}

#[test]
fn lead_delegates_twice_and_answers_in_one_turn() {
    let mut it = Lead::new();
    it.text(1, "I start three.\n");
    assert_eq!(it.delegates(1, "x", "explore"), "sub-agent explore-1 started");
    assert_eq!(it.delegates(1, "y", "bash"), "sub-agent bash-1 started");
    assert_eq!(it.delegates(1, "z", "explore"), "sub-agent explore-2 started");
    let heard = it.heard();
    assert_eq!(heard[0], "1 I start three.\n");
    assert!(heard[1..].iter().all(|it| !it.contains("completed")), "{heard:?}");
    it.text(2, "They run.");
    it.ends();
    assert_eq!(it.heard(), ["2 They run."], "the end is kept back");
    let explorers = it.opened(process(2, 1));
    let bash = it.opened(process(3, 1)).pop().unwrap();
    let [first, second] = &explorers[..] else { panic!("{}", explorers.len()) };
    assert_eq!(
        first.params["turns"],
        json!([{"request": "do x"}])
            .as_array()
            .map(|it| {
                let mut turn = it[0].clone();
                turn["turnId"] = first.params["turns"][0]["turnId"].clone();
                json!([turn])
            })
            .unwrap()
    );
    assert_eq!((&first.params["modelInfo"]["id"], &first.params["source"]), (&json!("m"), &json!("panel")));
    it.run_ends(second, "z is done");
    assert_eq!(it.heard(), ["1 z completed = z is done"]);
    it.run_ends(&bash, "y is done");
    assert!(it.it.take(Peer::Backend(LEAD)).is_empty(), "one is at work");
    it.run_ends(first, "x is done");
    it.heard();
    let asked = it.goes_on();
    assert_eq!(asked["method"], "conversation/turn");
    let params = &asked["params"];
    assert_eq!((&params["turnId"], &params["workDoneToken"]), (&json!("T"), &json!("t1")));
    let message = params["message"].as_str().unwrap();
    let at = |text: &str| message.find(text).unwrap_or_else(|| panic!("{text} in {message}"));
    assert!(at("x is done") < at("y is done") && at("y is done") < at("z is done"));
    it.says("begin", &json!({}));
    assert_eq!(it.delegates(1, "x", "general-purpose"), "sub-agent general-purpose-1 started");
    let heard = it.heard();
    assert!(heard.iter().all(|it| it.starts_with("3 x-2 running")), "rounds and ids go on: {heard:?}");
    it.ends();
    let told = it.it.take(Peer::Backend(process(0, 1)));
    let create = told.into_iter().find(|it| it["method"] == "conversation/create").unwrap();
    let last = Run { process: process(0, 1), asked: create["id"].clone(), params: create["params"].clone() };
    it.run_ends(&last, "all is done");
    it.heard();
    let asked = it.goes_on();
    assert!(!asked["params"]["message"].as_str().unwrap().contains("x is done"), "it knows that");
    it.says("begin", &json!({}));
    it.text(1, "Here you are.");
    it.ends();
    assert_eq!(it.heard(), ["4 Here you are.", "end", r#"answer 1 "T""#]);
    for id in [first.id(), second.id(), bash.id(), last.id()] {
        let destroyed = [process(2, 1), process(3, 1), process(0, 1)].iter().any(|process| {
            let told = it.it.take(Peer::Backend(*process));
            let is_it = told
                .iter()
                .any(|it| it["method"] == "conversation/destroy" && it["params"]["conversationId"] == id);
            for message in told {
                it.it.put_back(Peer::Backend(*process), message);
            }
            is_it
        });
        assert!(destroyed, "{id} is left");
    }
}

#[test]
fn move_skips_internal_conversations() {
    let mut it = Lead::new();
    it.delegates(1, "x", "bash");
    it.opened(process(2, 1)).pop().expect("its sub-agent works");
    it.it.take(EDITOR);
    it.it.editor(json!({"id": 90, "method": "lspool/move", "params": {"to": "process"}}));
    let moved = it.it.take(EDITOR).pop().unwrap();
    assert_eq!(moved["result"]["conversations"], json!(["c"]));
}

#[test]
fn sub_agent_requests_reach_editor_under_lead_ids() {
    let mut it = Lead::on(Stage::patient(), &json!({"events": true}));
    it.delegates(1, "x", "bash");
    it.heard();
    let run = it.opened(process(2, 1)).pop().unwrap();
    it.run_says(&run, "begin", &json!({}));
    let call = |status: &str| json!({"editAgentRounds": [{"roundId": 1, "reply": "", "toolCalls": [{"id": "k", "name": "run_in_terminal", "toolType": "client", "status": status, "input": {}}]}]});
    let params = json!({"name": "run_in_terminal", "title": "Run it?", "input": {"command": "ls"}, "conversationId": run.id(), "turnId": "U", "roundId": 1, "toolCallId": "k"});
    let ask = |it: &mut Lead, id: u32, method: &str| {
        it.it.server(
            run.process,
            json!({"id": id, "method": format!("conversation/{method}"), "params": params}),
        );
        let asked = it.it.take(EDITOR).pop().unwrap();
        let own = json!({"agent": "bash-1", "agentType": "bash"});
        let p = &asked["params"];
        assert_eq!((&p["conversationId"], &p["turnId"], &p["lspool"]), (&json!("c"), &json!("T"), &own));
        assert_eq!((&p["toolCallId"], &p["title"]), (&json!("bash-1/k"), &json!("bash-1: Run it?")));
        asked["id"].clone()
    };
    let asked = ask(&mut it, 1, "invokeClientToolConfirmation");
    it.it.editor(json!({"id": asked, "result": [{"result": "accept"}, null]}));
    it.run_says(&run, "report", &call("running"));
    assert_eq!(
        it.heard(),
        ["1 x running: bash-1 runs run_in_terminal (0 s)", "event bash-1 running run_in_terminal"]
    );
    let asked = ask(&mut it, 2, "invokeClientTool");
    it.it.editor(json!({"id": asked, "result": [{"content": [{"value": "a b"}]}, null]}));
    let answered: Vec<Value> =
        it.it.take(Peer::Backend(run.process)).into_iter().filter(|it| it["method"].is_null()).collect();
    assert_eq!(answered.iter().map(|it| it["id"].clone()).collect::<Vec<_>>(), [1, 2]);
    it.run_says(&run, "report", &call("completed"));
    assert_eq!(it.heard(), ["1 x running: bash-1 is working (0 s)", "event bash-1 running"]);
    // A tool outside its set, and a tool that no sub-agent has.
    for tool in ["read_file", "delegate_task", "send_message"] {
        let params = json!({"name": tool, "input": {}, "conversationId": run.id(), "turnId": "U", "roundId": 2, "toolCallId": "m"});
        it.it.server(
            run.process,
            json!({"id": 3, "method": "conversation/invokeClientTool", "params": params}),
        );
        let answer = it.it.take(Peer::Backend(run.process)).pop().unwrap();
        assert_eq!(answer["result"][0]["status"], "error", "{tool}");
    }
    it.it.server(
        run.process,
        json!({"method": "$/copilot/compressionStarted", "params": {"conversationId": run.id()}}),
    );
    assert_eq!(it.heard(), Vec::<String>::new());
    it.run_ends(&run, "listed");
    assert_eq!(it.heard(), ["event bash-1 writes listed", "1 x completed = listed", "event bash-1 done"]);
}

#[test]
fn sub_agent_inherits_confirmation_setting_of_turn() {
    let mut it = Lead::new();
    it.ends();
    it.heard();
    let turn = json!({
        "conversationId": "c", "turnId": "T", "workDoneToken": "t1", "message": "more", "source": "panel",
        "needToolCallConfirmation": true,
    });
    it.it.editor(json!({"id": 2, "method": "conversation/turn", "params": turn}));
    it.goes_on();
    it.says("begin", &json!({}));
    it.delegates(1, "x", "explore");
    let run = it.opened(process(2, 1)).pop().unwrap();
    assert_eq!(run.params["needToolCallConfirmation"], true);
}

#[test]
fn sub_agent_in_primary_cannot_delegate() {
    let mut it = Lead::new();
    it.delegates(1, "x", "general-purpose");
    let told = it.it.take(Peer::Backend(process(0, 1)));
    let create = told.into_iter().find(|it| it["method"] == "conversation/create").unwrap();
    let id = create["params"]["conversationId"].clone();
    let params = json!({"name": "delegate_task", "input": {"subagent_type": "bash", "prompt": "x"}, "conversationId": id, "turnId": "U", "roundId": 1, "toolCallId": "m"});
    it.it
        .server(process(0, 1), json!({"id": 3, "method": "conversation/invokeClientTool", "params": params}));
    let answer = it.it.take(Peer::Backend(process(0, 1))).pop().unwrap();
    assert_eq!(answer["result"][0]["status"], "error");
}

#[test]
fn delegation_errors_are_returned_to_the_model() {
    let mut it = Lead::new();
    for (input, expected) in [
        (
            json!({"subagent_type": "nobody", "prompt": "p"}),
            "unknown sub-agent \"nobody\"; use one of bash, explore, general-purpose, plan",
        ),
        (json!({"subagent_type": "bash"}), "`prompt` is missing: put the task there"),
        (
            json!({"prompt": "p"}),
            "`subagent_type` is missing; use one of bash, explore, general-purpose, plan",
        ),
    ] {
        assert_eq!(it.calls_tool(1, "x", &input), expected);
    }
    it.ends();
    assert_eq!(it.heard().last().unwrap(), r#"answer 1 "T""#, "there is nothing to wait for");
}

#[test]
fn cancel_ends_waiting_lead_and_its_sub_agents() {
    let mut it = Lead::new();
    it.delegates(1, "x", "explore");
    let run = it.opened(process(2, 1)).pop().unwrap();
    it.run_says(&run, "begin", &json!({}));
    it.ends();
    it.heard();
    it.it.take(Peer::Backend(run.process));
    it.it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    assert_eq!(
        it.heard(),
        ["1 x cancelled: explore-1: cancelled after 0 s", r#"end  "CancelledByUser""#, r#"answer 1 "T""#]
    );
    let told: Vec<String> = it.it.take(Peer::Backend(run.process)).iter().map(name).collect();
    assert_eq!(told, ["$/cancelRequest"]);
    it.run_says(&run, "end", &json!({"cancellationReason": "CancelledByUser"}));
    it.it.server(run.process, json!({"id": run.asked, "result": {}}));
    assert_eq!(it.heard(), Vec::<String>::new());
    let told: Vec<String> = it.it.take(Peer::Backend(run.process)).iter().map(name).collect();
    assert_eq!(told, ["conversation/destroy"]);
}

#[test]
fn cancel_ends_lead_while_its_model_runs() {
    // The server hears of it in time, or has come to its end, or has even said so.
    for (keeps_end, hears) in [(false, true), (false, false), (true, true)] {
        let mut it = Lead::new();
        it.delegates(1, "x", "explore");
        let run = it.opened(process(2, 1)).pop().unwrap();
        it.run_says(&run, "begin", &json!({}));
        if keeps_end {
            it.says("end", &json!({}));
        }
        it.heard();
        it.it.take(Peer::Backend(run.process));
        it.it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
        let told: Vec<String> = it.it.take(Peer::Backend(run.process)).iter().map(name).collect();
        assert_eq!(told, ["$/cancelRequest"]);
        if !keeps_end {
            it.says("end", &if hears { json!({"cancellationReason": "CancelledByUser"}) } else { json!({}) });
        }
        it.answers();
        let heard = it.heard();
        let cancelled = "1 x cancelled: explore-1: cancelled after 0 s";
        assert_eq!(heard, [cancelled, r#"end  "CancelledByUser""#, r#"answer 1 "T""#], "{keeps_end}");
        it.it.server(run.process, json!({"id": run.asked, "result": {}}));
    }
}

#[test]
fn failed_lead_turn_ends_and_cancels_sub_agents() {
    let mut it = Lead::new();
    it.delegates(1, "x", "explore");
    let run = it.opened(process(2, 1)).pop().unwrap();
    it.heard();
    it.says("end", &json!({"error": {"message": "no quota"}}));
    it.answers();
    let heard = it.heard();
    assert_eq!(heard[1..], [r#"end {"message":"no quota"}"#, r#"answer 1 "T""#]);
    assert!(it.it.take(Peer::Backend(run.process)).iter().any(|it| it["method"] == "$/cancelRequest"));
}

#[test]
fn failed_sub_agents_do_not_stop_the_lead() {
    let mut it = Lead::new();
    for (n, agent) in ["explore", "explore", "explore", "bash"].into_iter().enumerate() {
        it.delegates(1, &format!("x{n}"), agent);
    }
    it.ends();
    let explorers = it.opened(process(2, 1));
    let bash = it.opened(process(3, 1)).pop().unwrap();
    let [silent, failing, refused] = &explorers[..] else { panic!() };
    it.run_ends(&bash, "ok");
    it.run_says(failing, "report", &json!({"editAgentRounds": [{"roundId": 1, "reply": "so far"}]}));
    it.run_says(failing, "end", &json!({"error": {"message": "no quota"}}));
    it.it.server(failing.process, json!({"id": failing.asked, "result": {}}));
    it.it.server(
        refused.process,
        json!({"id": refused.asked, "error": {"code": -1, "message": "not signed in"}}),
    );
    // White space says nothing either.
    it.run_ends(silent, " \n");
    let summary = it.it.take(Peer::Backend(silent.process)).pop().unwrap();
    assert_eq!(summary["method"], "conversation/turn", "it is asked for a summary");
    let again = Run { asked: summary["id"].clone(), ..silent.clone() };
    it.run_ends(&again, "\t");
    it.heard();
    let message = it.goes_on()["params"]["message"].as_str().unwrap().to_owned();
    for text in [
        "status=\"failed\" seconds=\"0\">\nit ended twice without an answer\n",
        "its model failed: no quota. Its output until then:\nso far\n",
        "its turn failed: not signed in\n",
        "status=\"done\" seconds=\"0\">\nok\n",
    ] {
        assert!(message.contains(text), "{text} in {message}");
    }
}

#[test]
fn delegation_resolves_model_before_starting_sub_agent() {
    let mut it = Stage::patient();
    it.config.models.insert("fast".to_owned(), "Mini".to_owned());
    it.config.agents.get_mut("explore").unwrap().model = Some("fast".to_owned());
    it.config.agents.get_mut("bash").unwrap().model = Some("none".to_owned());
    it.editor(json!({"id": 90, "method": "lspool/reload"}));
    it.take(EDITOR);
    let mut it = Lead::on(it, &json!({}));
    it.delegates(1, "x", "explore");
    it.delegates(1, "y", "bash");
    it.ends();
    for asked in it.it.take(Peer::Backend(process(0, 1))) {
        assert_eq!(asked["method"], "copilot/models");
        let models = json!([{"id": "m", "modelName": "M"}, {"id": "m-mini", "modelName": "Mini"}]);
        it.it.server(process(0, 1), json!({"id": asked["id"], "result": models}));
    }
    let run = it.opened(process(2, 1)).pop().unwrap();
    assert_eq!(run.params["modelInfo"], json!({"id": "m-mini"}));
    it.run_ends(&run, "ok");
    let heard = it.heard();
    assert!(heard.contains(&"1 y error ! The sub-agent failed: unknown model \"none\": neither a model of the server nor a tier of [models] in the configuration; the server offers m, m-mini".to_owned()), "{heard:?}");
    it.goes_on();
}

#[test]
fn failed_partition_is_reported_and_failed_lead_ends_all() {
    let mut it = Lead::new();
    it.delegates(1, "x", "explore");
    it.ends();
    let run = it.opened(process(2, 1)).pop().unwrap();
    it.it.editor(json!({"id": 50, "method": "lspool/stop", "params": {"name": "partition \"file_search,grep_search,ide,list_dir,lsp_read,read_file\" of copilot"}}));
    let heard = it.heard();
    assert!(
        heard.iter().any(|it| it.starts_with("1 x error ! The sub-agent failed: its turn failed: partition")),
        "{heard:?}"
    );
    it.goes_on();
    it.says("begin", &json!({}));
    it.delegates(1, "y", "bash");
    it.heard();
    it.it.editor(json!({"id": 51, "method": "lspool/stop", "params": {"name": "partition \"*,+delegate_task\" of copilot"}}));
    let heard = it.heard();
    let at = |start: &str| {
        heard.iter().position(|it| it.starts_with(start)).unwrap_or_else(|| panic!("{start} in {heard:?}"))
    };
    assert!(at("2 y cancelled") < at("end") && at("end") < at("answer 1"));
    drop(run);
}

#[test]
fn destroying_or_replacing_waiting_lead_cancels_sub_agents() {
    for replaced in [false, true] {
        let mut it = Lead::new();
        it.delegates(1, "x", "explore");
        it.ends();
        let run = it.opened(process(2, 1)).pop().unwrap();
        it.heard();
        it.it.take(Peer::Backend(run.process));
        if replaced {
            let more = json!({"conversationId": "c", "lspool": {"tools": []}, "turns": [{"request": "other", "turnId": "T"}]});
            it.it.editor(json!({"id": 7, "method": "conversation/create", "params": more}));
        } else {
            it.it.editor(
                json!({"id": 7, "method": "conversation/destroy", "params": {"conversationId": "c"}}),
            );
        }
        let heard = it.heard();
        assert_eq!(heard[1..], [r#"end  "CancelledByUser""#, r#"answer 1 "T""#], "{replaced}");
        let told: Vec<String> = it.it.take(Peer::Backend(run.process)).iter().map(name).collect();
        assert_eq!(told, ["$/cancelRequest"]);
    }
}

#[test]
fn next_turn_waits_for_sub_agents() {
    let mut it = Lead::new();
    it.delegates(1, "x", "explore");
    it.ends();
    let run = it.opened(process(2, 1)).pop().unwrap();
    let params = json!({"conversationId": "c", "message": "next", "workDoneToken": "t2", "turnId": "T2"});
    it.it.editor(json!({"id": 2, "method": "conversation/turn", "params": params}));
    assert!(it.it.take(Peer::Backend(LEAD)).is_empty());
    it.run_ends(&run, "found");
    it.goes_on();
    it.says("begin", &json!({}));
    it.ends();
    let next = it.it.take(Peer::Backend(LEAD)).pop().unwrap();
    assert_eq!(next["params"]["message"], "next");
}

#[test]
fn sub_agents_make_200_tool_calls_without_stalling() {
    let mut it = Lead::new();
    for n in 0..4 {
        it.delegates(1, &format!("x{n}"), "bash");
    }
    it.ends();
    let runs = it.opened(process(2, 1));
    it.heard();
    for round in 1..=50 {
        for (n, run) in runs.iter().enumerate() {
            let id = round * 10 + n;
            let params = json!({"name": "run_in_terminal", "input": {"n": round}, "conversationId": run.id(), "turnId": "U", "roundId": round, "toolCallId": format!("k{round}")});
            it.it.server(
                run.process,
                json!({"id": id, "method": "conversation/invokeClientTool", "params": params}),
            );
        }
        for asked in
            it.it.take(EDITOR).into_iter().filter(|it| it["method"] == "conversation/invokeClientTool")
        {
            it.it.editor(json!({"id": asked["id"], "result": [{"content": [{"value": "ok"}]}, null]}));
        }
    }
    let answered = it.it.take(Peer::Backend(process(2, 1)));
    assert_eq!(answered.iter().filter(|it| it["method"].is_null()).count(), 200);
    for run in &runs {
        it.run_ends(run, "done");
    }
    it.goes_on();
}

#[test]
fn terminal_command_delegates_when_configured() {
    let mut stage = Stage::new(ServerKind::Copilot);
    // The text of a command decides, so the recording must contain it.
    stage.core = Taped::with_texts(Identity { pid: 77, started: 5 }, true);
    stage.server.stall_timeout = Some(Duration::ZERO);
    stage.server.delegation = Delegation::RunInTerminal;
    stage.initialize();
    let tool = json!({"name": "run_in_terminal", "description": "Runs it.", "inputSchema": {}});
    stage.editor(json!({"id": 100, "method": "conversation/registerTools", "params": {"tools": [tool]}}));
    let registered = stage.take(Peer::Backend(process(0, 1))).pop().unwrap();
    stage.server(process(0, 1), json!({"id": registered["id"], "result": []}));
    stage.take(EDITOR);
    let turns = json!([{"request": "go", "turnId": "T"}]);
    stage.create(1, &json!({"conversationId": "c", "turns": turns, "lspool": {"lead": true}}));
    let told = stage.start(LEAD, &["run_in_terminal"]);
    let tools: Vec<&Value> = told
        .iter()
        .filter(|it| it["method"] == "conversation/registerTools")
        .map(|it| &it["params"]["tools"][0])
        .collect();
    let said = tools.last().unwrap()["description"].as_str().unwrap();
    assert!(
        said.starts_with("Runs it.") && said.contains("delegate --type NAME") && said.contains("- explore: "),
        "{said}"
    );
    let asked = told.last().unwrap()["id"].clone();
    let mut it = Lead { it: stage, process: LEAD, asked, calls: 0 };
    it.says("begin", &json!({}));
    let ask = |it: &mut Lead, method: &str, command: &str| {
        it.calls += 1;
        let params = json!({
            "name": "run_in_terminal", "input": {"command": command}, "conversationId": "c", "turnId": "T", "roundId": 1,
            "toolCallId": "x",
        });
        it.it.server(
            LEAD,
            json!({"id": it.calls, "method": format!("conversation/{method}"), "params": params}),
        );
        it.it.take(Peer::Backend(LEAD)).pop().map(|it| it["result"][0].clone())
    };
    let command = "delegate --type explore --prompt \"look \\\"here\\\"\"";
    assert_eq!(ask(&mut it, "invokeClientToolConfirmation", command), Some(json!({"result": "accept"})));
    let told = ask(&mut it, "invokeClientTool", command).unwrap();
    assert_eq!(told["content"][0]["value"], "sub-agent explore-1 started");
    let run = it.opened(process(2, 1)).pop().unwrap();
    assert_eq!(run.params["turns"][0]["request"], "look \"here\"");
    let shown =
        it.it.take(EDITOR).pop().unwrap()["params"]["value"]["editAgentRounds"][0]["toolCalls"][0].clone();
    assert_eq!((&shown["name"], &shown["id"]), (&json!("run_in_terminal"), &json!("x")));
    let told = ask(&mut it, "invokeClientTool", "delegate --type nobody --prompt x").unwrap();
    assert_eq!(told["status"], "error");
    it.heard();
    assert_eq!(ask(&mut it, "invokeClientTool", "ls; delegate"), None);
    assert_eq!(it.heard(), ["conversation/invokeClientTool"], "that is for the editor");
}

#[test]
fn lead_does_not_wait_for_unresponsive_cancelled_sub_agent() {
    let mut it = Stage::patient();
    it.config.subagents.time_limit = Duration::from_mins(1);
    it.editor(json!({"id": 90, "method": "lspool/reload"}));
    it.take(EDITOR);
    let mut it = Lead::on(it, &json!({}));
    it.delegates(1, "x", "explore");
    it.ends();
    let run = it.opened(process(2, 1)).pop().unwrap();
    it.run_says(&run, "begin", &json!({}));
    it.run_says(&run, "report", &json!({"editAgentRounds": [{"roundId": 1, "reply": "so far"}]}));
    it.it.take(Peer::Backend(run.process));
    it.it.pass(Duration::from_secs(62));
    let told: Vec<String> = it.it.take(Peer::Backend(run.process)).iter().map(name).collect();
    assert_eq!(told, ["$/cancelRequest", "conversation/destroy"]);
    it.heard();
    let message = it.goes_on()["params"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("time limit reached. Its output until then:\nso far"), "{message}");
    // Further messages have no receiver.
    it.run_says(&run, "report", &json!({"editAgentRounds": [{"roundId": 2, "reply": "more"}]}));
    let params = json!({"name": "file_search", "input": {}, "conversationId": run.id(), "turnId": "U", "roundId": 2, "toolCallId": "m"});
    it.it.server(run.process, json!({"id": 3, "method": "conversation/invokeClientTool", "params": params}));
    it.run_says(&run, "end", &json!({}));
    it.it.server(run.process, json!({"id": run.asked, "result": {"turnId": "U"}}));
    assert_eq!(it.heard(), Vec::<String>::new());
    let answer = it.it.take(Peer::Backend(run.process)).pop().unwrap();
    assert_eq!(answer["result"][0]["status"], "cancelled");
    it.says("begin", &json!({}));
    it.ends();
    assert_eq!(it.heard(), ["end", r#"answer 1 "T""#]);
    it.it.core.check_quiet();
}
