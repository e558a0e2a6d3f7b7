//! Notifications about sub-agents, also in a turn without reports.

use std::time::Duration;

use serde_json::{Value, json};

use super::{LEAD, Lead};
use crate::core::tests::stage::{CONTROL, EDITOR, Stage, measured, process};

#[test]
fn turn_without_progress_reports_delegates() {
    let mut stage = Stage::patient();
    let turns = json!([{"request": "go", "turnId": "T"}]);
    stage.editor(json!({"id": 1, "method": "conversation/create", "params": {"conversationId": "c", "turns": turns, "lspool": {"lead": true, "events": true}}}));
    let asked = stage.start(LEAD, &["delegate_task"]).last().unwrap()["id"].clone();
    let mut it = Lead { it: stage, process: LEAD, asked, calls: 0 };
    assert_eq!(
        it.asks("delegate_task", &json!({"subagent_type": "explore", "prompt": "look"}))["status"],
        "success"
    );
    it.answers();
    let run = it.opened(process(2, 1)).pop().unwrap();
    it.run_ends(&run, "found");
    assert_eq!(
        it.heard(),
        ["event explore-1 running", "event explore-1 writes found", "event explore-1 done"]
    );
    assert!(it.goes_on()["params"]["message"].as_str().unwrap().contains("found"));
    it.answers();
    assert_eq!(it.heard(), [r#"answer 1 "T""#]);
}

#[test]
fn client_gets_events_of_each_sub_agent_until_its_end() {
    for ends in ["cancelled", "failed", "destroyed"] {
        let mut it = Stage::patient();
        it.config.subagents.max_parallel = 1;
        it.editor(json!({"id": 90, "method": "lspool/reload"}));
        it.take(EDITOR);
        let mut it = Lead::on(it, &json!({"events": true}));
        it.delegates(1, "x", "explore");
        it.delegates(1, "y", "bash");
        let events = |heard: Vec<String>| -> Vec<String> {
            heard.into_iter().filter(|it| it.starts_with("event")).collect()
        };
        assert_eq!(events(it.heard()), ["event explore-1 running", "event bash-1 waiting"]);
        match ends {
            "cancelled" => it.it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}})),
            "failed" => it.says("end", &json!({"error": {"message": "no quota"}})),
            _ => it.it.editor(
                json!({"id": 3, "method": "conversation/destroy", "params": {"conversationId": "c"}}),
            ),
        }
        let expected = ["event explore-1 cancelled", "event bash-1 cancelled"];
        assert_eq!(events(it.heard()), expected, "{ends}");
    }
}

/// A lead whose two sub-agents have begun.
fn two(more: &Value) -> (Lead, [super::Run; 2]) {
    let mut it = Lead::on(Stage::patient(), more);
    it.delegates(1, "x", "bash");
    it.delegates(1, "y", "bash");
    it.ends();
    let runs = it.opened(process(2, 1));
    it.heard();
    let [first, second] = &runs[..] else { panic!("{}", runs.len()) };
    let runs = [first.clone(), second.clone()];
    (it, runs)
}

#[test]
fn events_bring_text_of_sub_agents() {
    let (mut it, [first, _]) = two(&json!({"events": true}));
    it.run_says(&first, "report", &json!({"editAgentRounds": [{"roundId": 1, "reply": "I look"}]}));
    let told = it.it.take(EDITOR);
    let event = &told[0]["params"];
    assert_eq!((told.len(), &told[0]["method"]), (1, &json!("lspool/agentEvent")));
    assert_eq!((&event["agent"], &event["text"]), (&json!("bash-1"), &json!("I look")));
    assert_eq!((&event["state"], &event["conversationId"]), (&json!("running"), &json!("c")));
    let (mut it, [first, _]) = two(&json!({}));
    it.run_says(&first, "report", &json!({"editAgentRounds": [{"roundId": 1, "reply": "I look"}]}));
    assert_eq!(it.heard(), [""; 0], "nobody asked for it");
}

#[test]
fn time_of_sub_agents_ticks_until_they_end() {
    let (mut it, [first, second]) = two(&json!({}));
    it.it.pass(Duration::from_secs(11));
    let heard = it.heard();
    let first_ticks: Vec<&String> = heard.iter().filter(|it| it.contains("bash-1")).collect();
    assert_eq!(
        first_ticks,
        ["1 x running: bash-1 is working (5 s)", "1 x running: bash-1 is working (10 s)"]
    );
    it.run_ends(&first, "done");
    it.run_ends(&second, "done");
    it.goes_on();
    it.heard();
    it.it.pass(Duration::from_mins(1));
    assert_eq!(it.heard(), [""; 0]);
}

#[test]
fn status_shows_agents_and_one_is_cancelled_alone() {
    let (mut it, [first, second]) = two(&json!({"events": true}));
    let call = json!({"id": "k", "name": "run_in_terminal", "status": "running"});
    let rounds = json!([{"roundId": 1, "reply": "", "toolCalls": [call]}]);
    it.run_says(&first, "report", &json!({"editAgentRounds": rounds}));
    it.heard();
    let asked = |it: &mut Lead, method: &str, params: Value| {
        it.it.control(json!({"id": 7, "method": method, "params": params}));
        for processes in std::mem::take(&mut it.it.to_measure) {
            it.it.event(measured(processes.into_iter().map(|it| (it, 5 << 20)).collect()));
        }
        it.it.take(CONTROL).pop().unwrap()
    };
    let status = asked(&mut it, "lspool/status", json!({}));
    let agents = &status["result"]["agents"];
    assert_eq!(agents.as_array().unwrap().len(), 2, "{agents}");
    let first_agent = &agents[0];
    assert_eq!((&first_agent["name"], &first_agent["kind"]), (&json!("bash-1"), &json!("sub-agent")));
    assert_eq!((&first_agent["of"], &first_agent["tool"]), (&json!("c"), &json!("run_in_terminal")));
    let wrong = asked(&mut it, "lspool/cancelAgent", json!({"name": "bash-3"}));
    assert_eq!(wrong["error"]["code"], -32602);
    assert!(
        wrong["error"]["message"].as_str().unwrap().starts_with("unknown agent \"bash-3\"; did you mean")
    );
    let done = asked(&mut it, "lspool/cancelAgent", json!({"name": "bash-1"}));
    assert_eq!(done["result"], json!({"name": "bash-1", "of": "c", "state": "cancelled"}));
    assert_eq!(it.heard(), ["1 x cancelled: bash-1: cancelled after 0 s", "event bash-1 cancelled"]);
    assert!(it.it.told(first.process).contains(&"$/cancelRequest".to_owned()));
    it.run_ends(&second, "found");
    let message = it.goes_on()["params"]["message"].as_str().unwrap().to_owned();
    for text in ["agent=\"bash-1\" status=\"failed\"", "the user cancelled it", "found"] {
        assert!(message.contains(text), "{text} in {message}");
    }
}
