//! Processes of leads, and of sub-agents, that die.

use std::time::Duration;

use serde_json::json;

use super::{LEAD, Lead, Run};
use crate::core::{
    CONTINUE,
    event::{Event, Exit, Peer},
    tests::stage::process,
};

#[test]
fn waiting_lead_survives_crash_of_its_process() {
    let mut it = Lead::new();
    it.delegates(1, "x", "explore");
    it.text(2, "It runs.");
    it.ends();
    it.heard();
    let run = it.opened(process(2, 1)).pop().unwrap();
    it.it.exited(LEAD, Exit::Signal(9));
    it.process = process(1, 2);
    assert_eq!(it.heard(), Vec::<String>::new());
    it.it.pass(Duration::from_secs(9));
    it.it.start(it.process, &["delegate_task"]);
    it.run_ends(&run, "found");
    assert_eq!(it.heard(), ["1 x running: explore-1 is working (5 s)", "1 x completed = found"]);
    let (process, conversation, content) = it.it.transcripts.pop().expect("it is told what was said");
    assert!(content.contains("sub-agent explore-1 started") && !content.contains("found"), "{content}");
    it.it.event(Event::TranscriptWritten { process, conversation, folder: Ok("/t".into()) });
    let asked = it.goes_on();
    assert_eq!(
        (&asked["method"], &asked["params"]["restoreToTurnId"]),
        (&json!("conversation/create"), &json!("T"))
    );
    assert!(asked["params"]["turns"][0]["request"].as_str().unwrap().contains("found"));
    it.says("begin", &json!({}));
    it.text(1, "Fine.");
    it.ends();
    assert_eq!(it.heard(), ["3 Fine.", "end", r#"answer 1 "T""#]);
}

#[test]
fn lead_survives_crash_between_end_and_answer() {
    for over in ["tokenUsage", "end"] {
        let mut it = Lead::new();
        it.delegates(1, "x", "explore");
        match over {
            "end" => it.says("end", &json!({})),
            _ => it.says("report", &json!({"tokenUsage": {}})),
        }
        it.heard();
        let run = it.opened(process(2, 1)).pop().unwrap();
        it.it.exited(LEAD, Exit::Signal(9));
        assert_eq!(it.heard(), Vec::<String>::new());
        it.run_ends(&run, "found");
        it.it.pass(Duration::from_secs(9));
        it.process = process(1, 2);
        it.it.start(it.process, &["delegate_task"]);
        let (process, conversation, _) = it.it.transcripts.pop().expect("it is told what was said");
        it.it.event(Event::TranscriptWritten { process, conversation, folder: Ok("/t".into()) });
        assert!(it.goes_on()["params"]["turns"][0]["request"].as_str().unwrap().contains("found"));
        it.says("begin", &json!({}));
        it.heard();
        it.ends();
        assert_eq!(it.heard(), ["end", r#"answer 1 "T""#], "{over}");
    }
}

#[test]
fn lead_survives_crash_after_receiving_results() {
    // Before it says anything, and after.
    for said in ["", "Half"] {
        let mut it = Lead::new();
        it.delegates(1, "x", "explore");
        it.text(2, "It runs.");
        it.ends();
        let run = it.opened(process(2, 1)).pop().unwrap();
        it.run_ends(&run, "found");
        it.goes_on();
        it.says("begin", &json!({}));
        it.text(1, said);
        it.heard();
        it.it.exited(LEAD, Exit::Signal(9));
        it.it.pass(Duration::from_secs(9));
        it.process = process(1, 2);
        it.it.start(it.process, &["delegate_task"]);
        let (process, conversation, content) = it.it.transcripts.pop().expect("it is told what was said");
        assert_eq!(content.contains("found"), !said.is_empty(), "{content}");
        it.it.event(Event::TranscriptWritten { process, conversation, folder: Ok("/t".into()) });
        let asked = it.goes_on()["params"]["turns"][0]["request"].as_str().unwrap().to_owned();
        match said {
            "" => assert!(asked.contains("found"), "{asked}"),
            _ => assert_eq!(asked, CONTINUE),
        }
        it.says("begin", &json!({}));
        it.text(1, " and half.");
        it.ends();
        assert_eq!(it.heard(), ["3  and half.", "end", r#"answer 1 "T""#]);
    }
}

#[test]
fn sub_agent_survives_crash_of_its_process() {
    let mut it = Lead::new();
    it.delegates(1, "x", "explore");
    it.ends();
    let run = it.opened(process(2, 1)).pop().unwrap();
    it.run_says(&run, "begin", &json!({}));
    it.run_says(&run, "report", &json!({"editAgentRounds": [{"roundId": 1, "reply": "Half"}]}));
    it.heard();
    it.it.exited(run.process, Exit::Signal(9));
    it.it.pass(Duration::from_secs(9));
    let next = process(2, 2);
    it.it.start(next, &[]);
    let (process, conversation, _) = it.it.transcripts.pop().expect("it is told what was said");
    it.it.event(Event::TranscriptWritten { process, conversation, folder: Ok("/t".into()) });
    let asked = it.it.take(Peer::Backend(next)).pop().unwrap();
    assert_eq!(asked["params"]["turns"][0]["request"], CONTINUE);
    let again = Run { process: next, asked: asked["id"].clone(), ..run };
    it.run_ends(&again, " and half");
    let heard = it.heard();
    assert_eq!(heard.last().unwrap(), "1 x completed = Half and half", "{heard:?}");
    assert!(it.goes_on()["params"]["message"].as_str().unwrap().contains("Half and half"));
}

#[test]
fn lead_restored_as_text_keeps_its_results() {
    let mut it = Lead::new();
    it.delegates(1, "x", "explore");
    it.text(2, "It runs.");
    it.ends();
    let run = it.opened(process(2, 1)).pop().unwrap();
    it.run_ends(&run, "found");
    it.goes_on();
    it.says("begin", &json!({}));
    it.text(1, "Half");
    it.it.exited(LEAD, Exit::Signal(9));
    it.it.pass(Duration::from_secs(9));
    it.process = process(1, 2);
    it.it.start(it.process, &["delegate_task"]);
    let (process, conversation, _) = it.it.transcripts.pop().expect("it is told what was said");
    it.it.event(Event::TranscriptWritten { process, conversation, folder: Ok("/t".into()) });
    it.it.take(Peer::Backend(process));
    let begin = json!({"kind": "begin", "conversationId": "stray", "turnId": "T"});
    it.it.server(process, json!({"method": "$/progress", "params": {"token": "t1", "value": begin}}));
    let told = it.it.take(Peer::Backend(process));
    let turns = &told.iter().find(|it| it["method"] == "conversation/create").unwrap()["params"]["turns"];
    assert_eq!(turns[0], json!({"request": "go", "response": "It runs.", "turnId": "T"}));
    assert!(turns[1]["request"].as_str().unwrap().contains("found"), "{turns}");
    assert_eq!((&turns[1]["response"], &turns[1]["turnId"]), (&json!("Half"), &json!("T+1")));
    assert_eq!(turns[2]["request"], CONTINUE);
}
