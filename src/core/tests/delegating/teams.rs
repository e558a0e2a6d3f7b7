//! Teams of leads.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{LEAD, Lead, Run};
use crate::{
    config::ServerKind,
    core::{
        CONTINUE, Identity,
        event::{Event, Exit, Peer, ProcessId, StoredTeam, TeamFault},
        tests::{
            stage::{EDITOR, Stage, name, process},
            taped::Taped,
        },
    },
};

fn stage(teams: Vec<StoredTeam>) -> Stage {
    let mut it = Stage::new(ServerKind::Copilot);
    // The text of a message decides, so the recording must contain it.
    it.core = Taped::with_texts(Identity { pid: 77, started: 5 }, true);
    it.server.stall_timeout = Some(Duration::ZERO);
    it.teams = teams;
    it.initialize();
    it
}

fn lead(teams: Vec<StoredTeam>) -> Lead {
    Lead::on(stage(teams), &json!({"events": true}))
}

fn two() -> Value {
    let member = |name: &str, kind: &str| json!({"name": name, "agentType": kind, "initialPrompt": format!("do {name}")});
    json!({"name": "t", "description": "to test", "members": [member("ann", "explore"), member("bob", "bash")]})
}

fn letter(to: &str, text: &str) -> Value {
    json!({"to": to, "text": text})
}

impl Lead {
    fn told(&mut self, tool: &str, input: &Value) -> String {
        self.asks(tool, input)["content"][0]["value"].as_str().unwrap().to_owned()
    }

    /// A member calls `send_message`; returns the result.
    fn writes(&mut self, run: &Run, to: &str, text: &str) -> String {
        self.calls += 1;
        let params = json!({
            "name": "send_message", "input": letter(to, text), "conversationId": run.id(), "turnId": "U", "roundId": 1,
            "toolCallId": format!("k{}", self.calls),
        });
        let call = json!({"id": params["toolCallId"], "name": "send_message", "toolType": "client", "status": "running", "input": params["input"]});
        self.run_says(
            run,
            "report",
            &json!({"editAgentRounds": [{"roundId": 1, "reply": "", "toolCalls": [call]}]}),
        );
        let ask = json!({"id": self.calls, "method": "conversation/invokeClientTool", "params": params});
        self.it.server(run.process, ask);
        let told = self.it.take(Peer::Backend(run.process));
        let id = json!(self.calls);
        let answer = told.iter().find(|it| it["method"].is_null() && it["id"] == id).expect("it is answered");
        let text = answer["result"][0]["content"][0]["value"].as_str().unwrap().to_owned();
        for message in told.into_iter().filter(|it| !it["method"].is_null()) {
            self.it.put_back(Peer::Backend(run.process), message);
        }
        text
    }

    fn begins(&mut self, run: &Run) {
        self.run_says(run, "begin", &json!({}));
    }

    /// The turn of a member ends with these words.
    fn member_ends(&mut self, run: &Run, text: &str) {
        self.run_says(run, "report", &json!({"editAgentRounds": [{"roundId": 2, "reply": text}]}));
        self.run_says(run, "end", &json!({}));
        self.it.server(
            run.process,
            json!({"id": run.asked, "result": {"conversationId": run.id(), "turnId": "U"}}),
        );
    }

    /// A member starts another turn; returns its question.
    fn called(&mut self, run: &Run) -> (Run, String) {
        let told = self.it.take(Peer::Backend(run.process));
        let turn = told.iter().find(|it| it["method"] == "conversation/turn").expect("it is called");
        let again = Run { asked: turn["id"].clone(), ..run.clone() };
        (again, turn["params"]["message"].as_str().unwrap().to_owned())
    }

    fn events(&mut self) -> Vec<String> {
        self.heard().into_iter().filter(|it| it.starts_with("event")).collect()
    }

    fn stored(&self) -> Vec<StoredTeam> {
        let stored =
            |(name, state): (&String, &Bytes)| StoredTeam { name: name.clone(), state: Ok(state.clone()) };
        self.it.stored.iter().map(stored).collect()
    }
}

/// The team of ann and bob, who have begun.
fn two_at_work() -> (Lead, Run, Run) {
    let mut it = lead(Vec::new());
    it.told("create_team", &two());
    let ann = it.opened(process(2, 1)).pop().unwrap();
    let bob = it.opened(process(3, 1)).pop().unwrap();
    it.begins(&ann);
    it.begins(&bob);
    (it, ann, bob)
}

/// The lead is asked further, and has begun.
fn next_turn(it: &mut Lead) {
    let turn = json!({"conversationId": "c", "turnId": "T", "workDoneToken": "t1", "message": "more"});
    it.it.editor(json!({"id": 1, "method": "conversation/turn", "params": turn}));
    it.goes_on();
    it.says("begin", &json!({}));
}

#[test]
fn team_works_while_its_lead_waits() {
    let mut it = lead(Vec::new());
    assert_eq!(it.told("create_team", &two()), "team t started: ann, bob");
    let running = "1 x running: ann is working, bob is working";
    let running = ["event ann running", "event bob running", running];
    assert_eq!(it.heard(), running);
    it.ends();
    assert_eq!(it.heard(), Vec::<String>::new(), "the end is kept back");
    let ann = it.opened(process(2, 1)).pop().unwrap();
    let bob = it.opened(process(3, 1)).pop().unwrap();
    let request = ann.params["turns"][0]["request"].as_str().unwrap();
    for part in [
        "You are ann, a member of the team t (to test).",
        "The other members are bob (bash)",
        "<message from=\"lead\">\ndo ann",
    ] {
        assert!(request.contains(part), "{part} in {request}");
    }
    it.begins(&ann);
    it.begins(&bob);
    assert_eq!(it.writes(&ann, "bob", "one"), "sent to bob");
    assert_eq!(it.writes(&ann, "bob", "two"), "sent to bob");
    assert_eq!(it.writes(&ann, "cy", "?"), "unknown recipient \"cy\" in team t; use one of ann, bob, lead");
    it.member_ends(&ann, "I am done.");
    assert_eq!(it.events().last().unwrap(), "event ann idle");
    it.member_ends(&bob, "bob is done");
    let (bob, asked) = it.called(&bob);
    assert_eq!(asked, "<message from=\"ann\">\none\n</message>\n\n<message from=\"ann\">\ntwo\n</message>");
    it.begins(&bob);
    assert!(it.it.take(Peer::Backend(LEAD)).is_empty(), "one is at work");
    assert_eq!(it.writes(&bob, "lead", "it is good"), "sent to lead");
    it.member_ends(&bob, "unseen");
    it.heard();
    let message = it.goes_on()["params"]["message"].as_str().unwrap().to_owned();
    let at = |text: &str| message.find(text).unwrap_or_else(|| panic!("{text} in {message}"));
    assert!(at("from=\"bob\">\nbob is done") < at("from=\"bob\">\nit is good"));
    assert!(!message.contains("I am done") && !message.contains("unseen"), "{message}");
    it.says("begin", &json!({}));
    it.text(1, "Fine.");
    it.ends();
    assert_eq!(it.heard(), ["1 Fine.", "end", r#"answer 1 "T""#], "all is read");
    // The team stays, and is called in the next turn.
    next_turn(&mut it);
    assert_eq!(it.told("send_message", &letter("t/ann", "again")), "sent to t/ann");
    let (ann, asked) = it.called(&ann);
    assert_eq!(asked, "<message from=\"lead\">\nagain\n</message>");
    it.begins(&ann);
    it.ends();
    it.heard();
    it.member_ends(&ann, "again done");
    assert!(it.goes_on()["params"]["message"].as_str().unwrap().contains("again done"));
    it.says("begin", &json!({}));
    assert_eq!(it.told("delete_team", &json!({"name": "t"})), "team t was deleted");
    for run in [&ann, &bob] {
        let told: Vec<String> = it.it.take(Peer::Backend(run.process)).iter().map(name).collect();
        assert!(told.contains(&"conversation/destroy".to_owned()), "{told:?}");
    }
    assert!(it.it.stored.is_empty());
    it.ends();
    assert!(it.heard().contains(&r#"answer 1 "T""#.to_owned()));
    it.it.core.check_quiet();
}

#[test]
fn cancel_of_lead_stops_team_and_keeps_its_messages() {
    let (mut it, ann, bob) = two_at_work();
    it.member_ends(&bob, "bob is done");
    it.ends();
    it.heard();
    it.it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    assert_eq!(
        it.heard(),
        ["event ann cancelled", "1 x completed: ", r#"end  "CancelledByUser""#, r#"answer 1 "T""#]
    );
    assert!(it.it.take(Peer::Backend(ann.process)).iter().any(|it| it["method"] == "$/cancelRequest"));
    it.run_says(&ann, "end", &json!({"cancellationReason": "CancelledByUser"}));
    it.it.server(ann.process, json!({"id": ann.asked, "result": {}}));
    assert_eq!(it.heard(), Vec::<String>::new());
    // Bob's message comes in the next turn.
    next_turn(&mut it);
    it.ends();
    assert!(it.goes_on()["params"]["message"].as_str().unwrap().contains("bob is done"));
}

#[test]
fn one_member_is_cancelled_alone_and_lead_is_told() {
    let (mut it, ann, bob) = two_at_work();
    it.ends();
    it.heard();
    it.run_says(&ann, "report", &json!({"editAgentRounds": [{"roundId": 1, "reply": "hm"}]}));
    assert_eq!(it.heard(), ["event ann writes hm"]);
    it.it.editor(json!({"id": 9, "method": "lspool/cancelAgent", "params": {"name": "ann"}}));
    let answer = it.it.take(EDITOR).into_iter().find(|it| it["id"] == 9).unwrap();
    assert_eq!(answer["result"], json!({"name": "ann", "of": "t", "state": "cancelled"}));
    it.it.server(ann.process, json!({"id": ann.asked, "result": {}}));
    assert_eq!(it.events(), ["event ann failed"]);
    it.member_ends(&bob, "bob is done");
    let message = it.goes_on()["params"]["message"].as_str().unwrap().to_owned();
    for text in ["the user cancelled it", "bob is done"] {
        assert!(message.contains(text), "{text} in {message}");
    }
}

#[test]
fn cancelled_member_is_called_again_after_its_turn_ends() {
    let mut it = lead(Vec::new());
    it.told("create_team", &two());
    let ann = it.opened(process(2, 1)).pop().unwrap();
    it.begins(&ann);
    it.ends();
    it.it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    it.heard();
    it.it.take(Peer::Backend(ann.process));
    next_turn(&mut it);
    it.told("send_message", &letter("ann", "again"));
    it.ends();
    assert!(it.it.take(Peer::Backend(ann.process)).is_empty());
    it.run_says(&ann, "end", &json!({"cancellationReason": "CancelledByUser"}));
    it.it.server(ann.process, json!({"id": ann.asked, "result": {}}));
    let (ann, asked) = it.called(&ann);
    assert!(asked.contains("again"));
    it.begins(&ann);
    it.member_ends(&ann, "done");
    assert!(it.goes_on()["params"]["message"].as_str().unwrap().contains("done"));
}

/// The restored conversation of a member: the messages to the server.
fn restored(it: &mut Lead, process: ProcessId) -> (Run, String) {
    it.it.start(process, &[]);
    let at = it.it.transcripts.iter().position(|it| it.0 == process).expect("it is told what was said");
    let (process, conversation, content) = it.it.transcripts.remove(at);
    it.it.event(Event::TranscriptWritten { process, conversation, folder: Ok("/t".into()) });
    let told = it.it.take(Peer::Backend(process));
    let create = told.iter().find(|it| it["method"] == "conversation/create").expect("it is asked");
    (Run { process, asked: create["id"].clone(), params: create["params"].clone() }, content)
}

#[test]
fn restored_team_keeps_messages_and_delivers_none_twice() {
    let (mut it, ann, bob) = two_at_work();
    it.member_ends(&bob, "bob is done");
    assert_eq!(it.writes(&ann, "bob", "look here"), "sent to bob");
    // It dies here: ann has sent a message, and continues; bob's turn has not begun.
    let mut it = lead(it.stored());
    assert_eq!(it.told("send_message", &letter("bob", "and there")), "sent to bob");
    it.ends();
    it.heard();
    let (ann, content) = restored(&mut it, process(2, 1));
    assert_eq!(ann.params["turns"][0]["request"], CONTINUE);
    assert!(content.contains("do ann") && content.contains("look here"), "{content}");
    let (bob, content) = restored(&mut it, process(3, 1));
    let asked = bob.params["turns"][0]["request"].as_str().unwrap().to_owned();
    assert!(content.contains("bob is done") && !content.contains("look here"), "{content}");
    assert!(asked.contains("look here") && !asked.contains("and there"), "as it was asked: {asked}");
    it.begins(&ann);
    it.begins(&bob);
    it.member_ends(&ann, "ann is done");
    it.member_ends(&bob, "seen");
    let (bob, asked) = it.called(&bob);
    assert_eq!(asked, "<message from=\"lead\">\nand there\n</message>");
    it.begins(&bob);
    it.member_ends(&bob, "seen too");
    it.heard();
    let message = it.goes_on()["params"]["message"].as_str().unwrap().to_owned();
    for text in ["bob is done", "seen", "seen too"] {
        assert_eq!(message.matches(&format!(">\n{text}\n<")).count(), 1, "{text} in {message}");
    }
    assert!(!message.contains("ann is done"), "it has written to somebody in that turn: {message}");
    // The next lspool finds all idle, and the lead does not get its messages again.
    let mut it = lead(it.stored());
    it.ends();
    assert_eq!(it.heard(), ["end", r#"answer 1 "T""#]);
}

#[test]
fn member_survives_crash_of_its_process() {
    let (mut it, ann, bob) = two_at_work();
    it.member_ends(&bob, "");
    it.writes(&ann, "lead", "half");
    it.ends();
    it.heard();
    it.it.exited(ann.process, Exit::Signal(9));
    it.it.pass(Duration::from_secs(9));
    let (ann, content) = restored(&mut it, process(2, 2));
    assert!(content.contains("half"), "{content}");
    it.begins(&ann);
    it.member_ends(&ann, "whole");
    it.heard();
    let message = it.goes_on()["params"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("It ended its turn without an answer") && message.matches("half").count() == 1);
}

#[test]
fn team_tools_report_stored_team_errors() {
    let fault = |name: &str, fault: TeamFault| StoredTeam { name: name.to_owned(), state: Err(fault) };
    let state =
        |name: &str, text: &'static str| StoredTeam { name: name.to_owned(), state: Ok(Bytes::from(text)) };
    let mut old = lead(Vec::new());
    old.told("create_team", &two());
    let ann = old.opened(process(2, 1)).pop().unwrap();
    old.begins(&ann);
    old.member_ends(&ann, "done");
    let text = String::from_utf8(old.it.stored["t"].to_vec()).unwrap();
    let mut damaged: Value = serde_json::from_str(&text.replace("\"t\"", "\"d\"")).unwrap();
    assert!(damaged["histories"]["ann"]["turns"].take().is_array());
    let damaged = StoredTeam { name: "d".to_owned(), state: Ok(damaged.to_string().into()) };
    let mut it = lead(vec![
        damaged,
        fault("t", TeamFault::Busy("process 7".to_owned())),
        state("u", "{\"version\":2}"),
        state("v", "{\"ver"),
    ]);
    let busy = "another lspool owns it (process 7)";
    assert_eq!(
        it.told("create_team", &two()),
        format!("a team t already exists, but lspool cannot load it: {busy}")
    );
    assert_eq!(it.told("delete_team", &json!({"name": "t"})), format!("lspool cannot delete team t: {busy}"));
    let newer = it.told("send_message", &letter("u/ann", "x"));
    assert_eq!(
        newer,
        "lspool cannot load team u: its stored state has format 2; this lspool reads only format 1"
    );
    assert!(
        it.told("send_message", &letter("v/ann", "x"))
            .starts_with("lspool cannot load team v: its stored state is damaged: ")
    );
    assert_eq!(it.told("delete_team", &json!({"name": "v"})), "team v was deleted");
    let told = it.told("send_message", &letter("d/ann", "x"));
    assert!(told.ends_with("damaged: the conversation of ann cannot be read"), "{told}");
    assert_eq!(it.told("delete_team", &json!({"name": "d"})), "team d was deleted");
    assert_eq!(it.told("delete_team", &json!({"name": "w"})), "unknown team \"w\"");
    // The one who had it has ended meanwhile.
    it.it.teams.retain(|it| it.name != "t");
    assert_eq!(it.told("create_team", &two()), "team t started: ann, bob");
    // A team that cannot be stored is not made.
    it.it.holds_teams = true;
    let mut named = two();
    named["name"] = json!("x");
    it.calls += 1;
    let params = json!({"name": "create_team", "input": named, "conversationId": "c", "turnId": "T", "roundId": 1, "toolCallId": "y"});
    it.it.server(LEAD, json!({"id": it.calls, "method": "conversation/invokeClientTool", "params": params}));
    assert!(it.it.take(Peer::Backend(LEAD)).is_empty(), "not before it is stored");
    let written = Err(TeamFault::Failed("the disk is full".to_owned()));
    stored(&mut it, 0, "x", written);
    let answer = it.it.take(Peer::Backend(LEAD)).pop().unwrap()["result"][0].clone();
    assert_eq!(answer["content"][0]["value"], "lspool cannot create team x: the disk is full");
    it.it.holds_teams = false;
    it.told("create_team", &named);
    assert!(it.told("create_team", &named).starts_with("a team x already exists"));
    it.heard();
    it.it.take(EDITOR);
}

#[test]
fn team_calls_members_no_more_often_than_allowed() {
    let mut it = stage(Vec::new());
    it.config.subagents.max_subagents = 2;
    it.editor(json!({"id": 90, "method": "lspool/reload"}));
    it.take(EDITOR);
    let mut it = Lead::on(it, &json!({}));
    it.told("create_team", &two());
    let ann = it.opened(process(2, 1)).pop().unwrap();
    let bob = it.opened(process(3, 1)).pop().unwrap();
    it.begins(&ann);
    it.begins(&bob);
    it.writes(&ann, "bob", "ping");
    it.member_ends(&bob, "");
    it.member_ends(&ann, "");
    it.ends();
    it.heard();
    assert!(!it.it.take(Peer::Backend(bob.process)).iter().any(|it| it["method"] == "conversation/turn"));
    it.goes_on();
    it.says("begin", &json!({}));
    it.ends();
    assert_eq!(it.heard(), ["end", r#"answer 1 "T""#]);
    // It is called in the next turn.
    next_turn(&mut it);
    it.ends();
    assert_eq!(it.called(&bob).1, "<message from=\"ann\">\nping\n</message>");
}

#[test]
fn lead_continues_when_agent_of_member_is_gone() {
    let (it, ..) = two_at_work();
    // It dies here, and the agent of bob is gone when it comes back.
    let mut again = stage(it.stored());
    again.config.subagents.max_parallel = 1;
    again.config.agents.remove("bash");
    again.editor(json!({"id": 90, "method": "lspool/reload"}));
    again.take(EDITOR);
    let mut it = Lead::on(again, &json!({"events": true}));
    it.told("send_message", &letter("bob", "more"));
    it.ends();
    let ann = it.opened(process(2, 1)).pop().unwrap();
    it.begins(&ann);
    it.heard();
    // Bob starts when there is room, and the lead waits for nobody else.
    it.member_ends(&ann, "ann is done");
    it.heard();
    let message = it.goes_on()["params"]["message"].as_str().unwrap().to_owned();
    for text in ["ann is done", "the configuration no longer has an agent bash"] {
        assert!(message.contains(text), "{text} in {message}");
    }
}

/// The call of a tool of teams that is not answered before something is stored; gives its id.
fn waits(it: &mut Lead, by: Option<&Run>, input: &Value, tool: &str) -> u64 {
    it.calls += 1;
    let (process, conversation, turn) = by.map_or((LEAD, "c", "T"), |it| (it.process, it.id(), "U"));
    let params = json!({
        "name": tool, "input": input, "conversationId": conversation, "turnId": turn, "roundId": 1, "toolCallId": "w",
    });
    it.it.server(
        process,
        json!({"id": it.calls, "method": "conversation/invokeClientTool", "params": params}),
    );
    it.calls
}

/// The result of storing a team. `back` counts from the last state.
fn stored(it: &mut Lead, back: usize, team: &str, written: Result<(), TeamFault>) {
    let number = it.it.writes[it.it.writes.len() - 1 - back];
    it.it.event(Event::TeamWritten { number, team: team.to_owned(), written });
}

/// How calls were answered.
fn answered(it: &mut Lead, process: ProcessId) -> Vec<(Value, Value)> {
    let told = it.it.take(Peer::Backend(process));
    let answers = told.into_iter().filter(|it| it["method"].is_null());
    answers.map(|it| (it["id"].clone(), it["result"][0]["status"].clone())).collect()
}

#[test]
fn every_call_is_answered_when_team_cannot_be_stored() {
    let mut it = lead(Vec::new());
    it.it.holds_teams = true;
    let first = waits(&mut it, None, &two(), "create_team");
    let second = waits(&mut it, None, &letter("bob", "more"), "send_message");
    let ann = it.opened(process(2, 1)).pop().unwrap();
    let third = waits(&mut it, Some(&ann), &letter("bob", "hello"), "send_message");
    assert!(answered(&mut it, LEAD).is_empty() && answered(&mut it, ann.process).is_empty());
    let written = Err(TeamFault::Failed("the disk is full".to_owned()));
    stored(&mut it, 0, "t", written);
    assert_eq!(answered(&mut it, LEAD), [(json!(first), json!("error")), (json!(second), json!("error"))]);
    assert_eq!(answered(&mut it, ann.process), [(json!(third), json!("error"))]);
}

#[test]
fn failed_team_write_is_retried_when_turn_ends() {
    let mut it = lead(Vec::new());
    it.it.holds_teams = true;
    waits(&mut it, None, &two(), "create_team");
    stored(&mut it, 0, "t", Ok(()));
    // The members are called, which is stored as well.
    stored(&mut it, 0, "t", Err(TeamFault::Failed("the disk is full".to_owned())));
    let n_writes = it.it.writes.len();
    it.it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    stored(&mut it, 0, "t", Err(TeamFault::Failed("the disk is full".to_owned())));
    assert_eq!(it.it.writes.len(), n_writes + 1, "that the members were stopped");
    it.answers();
    assert_eq!(it.it.writes.len(), n_writes + 2, "it is tried again");
    stored(&mut it, 0, "t", Err(TeamFault::Failed("the disk is full".to_owned())));
    assert_eq!(it.it.writes.len(), n_writes + 2, "once");
}

#[test]
fn cancelled_call_does_not_wait_for_team_write() {
    let mut it = lead(Vec::new());
    it.it.holds_teams = true;
    let first = waits(&mut it, None, &two(), "create_team");
    let second = waits(&mut it, None, &letter("bob", "more"), "send_message");
    it.it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    let cancelled = json!("cancelled");
    assert_eq!(answered(&mut it, LEAD), [(json!(first), cancelled.clone()), (json!(second), cancelled)]);
    stored(&mut it, 0, "t", Ok(()));
    assert!(answered(&mut it, LEAD).is_empty(), "once");
}

#[test]
fn tool_calls_of_abandoned_member_reach_nobody() {
    let mut it = lead(Vec::new());
    it.told("create_team", &two());
    let ann = it.opened(process(2, 1)).pop().unwrap();
    it.begins(&ann);
    it.ends();
    it.it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    it.it.pass(Duration::from_secs(2));
    it.heard();
    it.it.take(Peer::Backend(ann.process));
    let call = waits(&mut it, Some(&ann), &json!({"filePath": "/a"}), "read_file");
    assert_eq!(it.heard(), Vec::<String>::new());
    assert_eq!(answered(&mut it, ann.process), [(json!(call), json!("cancelled"))]);
}

#[test]
fn late_write_of_deleted_team_does_not_affect_namesake() {
    let mut it = lead(Vec::new());
    it.it.holds_teams = true;
    waits(&mut it, None, &two(), "create_team");
    waits(&mut it, None, &json!({"name": "t"}), "delete_team");
    answered(&mut it, LEAD);
    let again = waits(&mut it, None, &two(), "create_team");
    stored(&mut it, 1, "t", Err(TeamFault::Failed("the disk is full".to_owned())));
    assert!(answered(&mut it, LEAD).is_empty(), "it is not stored yet");
    stored(&mut it, 0, "t", Ok(()));
    assert_eq!(answered(&mut it, LEAD), [(json!(again), json!("success"))]);
}

#[test]
fn member_output_is_stored_when_tool_call_ends() {
    let mut it = lead(Vec::new());
    it.told("create_team", &two());
    let ann = it.opened(process(2, 1)).pop().unwrap();
    it.begins(&ann);
    let said = |it: &mut Lead, status: &str| {
        let mut call =
            json!({"id": "k", "name": "read_file", "toolType": "client", "status": status, "input": {}});
        if status == "completed" {
            call["result"] = json!([{"type": "text", "value": "its lines"}]);
        }
        it.run_says(
            &ann,
            "report",
            &json!({"editAgentRounds": [{"roundId": 1, "reply": "", "toolCalls": [call]}]}),
        );
        it.it.writes.len()
    };
    let before = it.it.writes.len();
    assert_eq!(said(&mut it, "running"), before, "there is nothing to keep");
    assert_eq!(said(&mut it, "completed"), before + 1);
    let has_lines = |it: &Lead| String::from_utf8_lossy(&it.it.stored["t"]).matches("its lines").count();
    assert_eq!(has_lines(&it), 1);
    it.told("send_message", &letter("bob", "more"));
    assert_eq!((it.it.writes.len(), has_lines(&it)), (before + 2, 1), "it is kept when others are stored");
}
