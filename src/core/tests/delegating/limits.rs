//! What sub-agents may cost.

use std::time::Duration;

use serde_json::json;

use super::{Lead, Run};
use crate::core::{
    event::Peer,
    tests::stage::{EDITOR, Stage, name, process},
};

#[test]
fn delegation_respects_configured_limits() {
    let mut it = Stage::patient();
    it.config.subagents.max_parallel = 1;
    it.config.subagents.max_subagents = 3;
    it.config.subagents.max_followups = 1;
    it.config.subagents.time_limit = Duration::from_mins(1);
    it.config.agents.get_mut("explore").unwrap().max_turns = Some(2);
    it.config.agents.get_mut("bash").unwrap().prompt = Some("Be quick.".to_owned());
    it.editor(json!({"id": 90, "method": "lspool/reload"}));
    it.take(EDITOR);
    let mut it = Lead::on(it, &json!({}));
    assert_eq!(it.delegates(1, "x", "explore"), "sub-agent explore-1 started");
    assert_eq!(
        it.delegates(1, "y", "bash"),
        "sub-agent bash-1 is queued and starts when another one has finished"
    );
    it.delegates(1, "z", "bash");
    assert!(it.delegates(1, "w", "bash").starts_with("you have started 3 sub-agents"));
    it.ends();
    let first = it.opened(process(2, 1)).pop().unwrap();
    assert_eq!(it.it.spawned.len(), 3, "one at a time");
    for round in 1..=3 {
        it.run_says(&first, "report", &json!({"editAgentRounds": [{"roundId": round, "reply": "hm"}]}));
    }
    let told: Vec<String> = it.it.take(Peer::Backend(first.process)).iter().map(name).collect();
    assert_eq!(told, ["$/cancelRequest"], "it asks its model too often");
    it.it.server(first.process, json!({"id": first.asked, "result": {}}));
    let second = it.opened(process(3, 1)).pop().unwrap();
    let request = second.params["turns"][0]["request"].as_str().unwrap();
    assert_eq!(request, "<system_instructions>\nBe quick.\n</system_instructions>\n\ndo y");
    it.it.pass(Duration::from_secs(59));
    assert!(it.it.take(Peer::Backend(second.process)).is_empty());
    it.it.pass(Duration::from_secs(1));
    let told: Vec<String> = it.it.take(Peer::Backend(second.process)).iter().map(name).collect();
    assert_eq!(told, ["$/cancelRequest"], "it takes too long");
    it.it.server(second.process, json!({"id": second.asked, "result": {}}));
    let told = it.it.take(Peer::Backend(second.process));
    let create = told.iter().find(|it| it["method"] == "conversation/create").unwrap();
    let third =
        Run { process: second.process, asked: create["id"].clone(), params: create["params"].clone() };
    it.run_ends(&third, "ok");
    it.heard();
    let message = it.goes_on()["params"]["message"].as_str().unwrap().to_owned();
    for text in ["stopped after 2 model requests", "stopped after 60 s", "cannot start more sub-agents"] {
        assert!(message.contains(text), "{text} in {message}");
    }
    it.says("begin", &json!({}));
    assert!(it.delegates(1, "v", "bash").contains("started 3 sub-agents, the limit"));
    it.ends();
    assert_eq!(it.heard().last().unwrap(), r#"answer 1 "T""#);
}

#[test]
fn last_model_request_asks_sub_agent_for_report() {
    let mut it = Stage::patient();
    it.config.agents.get_mut("bash").unwrap().max_turns = Some(2);
    it.editor(json!({"id": 90, "method": "lspool/reload"}));
    it.take(EDITOR);
    let mut it = Lead::on(it, &json!({}));
    it.delegates(1, "x", "bash");
    it.ends();
    let run = it.opened(process(2, 1)).pop().unwrap();
    let request = run.params["turns"][0]["request"].as_str().unwrap();
    assert!(request.starts_with("do x\n\nYou may reply 2 times"), "{request}");
    it.heard();
    let calls = |round: u64| {
        let call = json!({"id": "k", "name": "run_in_terminal", "status": "running"});
        json!({"editAgentRounds": [{"roundId": round, "reply": "hm", "toolCalls": [call]}]})
    };
    it.run_says(&run, "begin", &json!({}));
    it.run_says(&run, "report", &calls(1));
    let params = json!({
        "name": "run_in_terminal", "input": {"command": "ls"}, "conversationId": run.id(), "turnId": "U",
        "roundId": 1, "toolCallId": "k",
    });
    it.it.server(run.process, json!({"id": 71, "method": "conversation/invokeClientTool", "params": params}));
    let asked = it.it.take(EDITOR).into_iter().find(|it| it["method"] == "conversation/invokeClientTool");
    let id = asked.unwrap()["id"].clone();
    it.it.editor(json!({"id": id, "result": [{"content": [{"value": "a.rs"}], "status": "success"}, null]}));
    let told = it.it.take(Peer::Backend(run.process));
    let content = &told[0]["result"][0]["content"];
    assert_eq!(content[0]["value"], "a.rs");
    assert!(content[1]["value"].as_str().unwrap().contains("Write your report now"), "{told:?}");
    // It calls a tool all the same: there is no request for the result.
    it.run_says(&run, "report", &calls(2));
    let told: Vec<String> = it.it.take(Peer::Backend(run.process)).iter().map(name).collect();
    assert_eq!(told, ["$/cancelRequest"]);
    it.it.server(run.process, json!({"id": run.asked, "result": {}}));
    let message = it.goes_on()["params"]["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("stopped after 2 model requests, the limit. Its output until then:\nhm"),
        "{message}"
    );
}
