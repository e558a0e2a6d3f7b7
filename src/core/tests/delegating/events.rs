//! Notifications about sub-agents, also in a turn without reports.

use serde_json::json;

use super::{LEAD, Lead};
use crate::core::tests::stage::{EDITOR, Stage, process};

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
    assert_eq!(it.heard(), ["event explore-1 running", "event explore-1 done"]);
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
