//! Conversations that outlive their process.

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, asks_for_proof, process, proof};
use crate::core::event::{Event, Exit, Peer, ProcessId};

fn progress(token: &str, value: &Value) -> Value {
    json!({"method": "$/progress", "params": {"token": token, "value": value}})
}

/// A turn with a tool call, up to its answer.
fn turn(it: &mut Stage, process: ProcessId, request: &Value, turn: &str) {
    let token = request["params"]["workDoneToken"].as_str().unwrap();
    let with = |kind: &str, more: Value| {
        let mut value =
            json!({"kind": kind, "conversationId": request["params"]["conversationId"], "turnId": turn});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        progress(token, &value)
    };
    let call = |status: &str| json!({"id": "call", "name": "a", "toolType": "client", "status": status, "input": {"k": 1}});
    it.server(process, with("begin", json!({})));
    it.server(process, with("report", json!({"editAgentRounds": [{"roundId": 1, "reply": "Calling."}]})));
    it.server(
        process,
        with(
            "report",
            json!({"editAgentRounds": [{"roundId": 1, "reply": "", "toolCalls": [call("running")]}]}),
        ),
    );
    let ask = json!({"name": "a", "conversationId": request["params"]["conversationId"], "turnId": turn, "toolCallId": "call"});
    it.server(process, json!({"id": 0, "method": "conversation/invokeClientTool", "params": ask}));
    let asked = it.take(EDITOR).pop().unwrap();
    it.editor(json!({"id": asked["id"], "result": [{"content": [{"value": "R"}]}, null]}));
    it.server(process, with("report", json!({"editAgentRounds": [{"roundId": 2, "reply": "Done."}]})));
    it.server(process, with("end", json!({})));
    it.server(process, json!({"id": request["id"], "result": {"conversationId": "c", "turnId": turn}}));
}

/// The next process of the primary is ready; returns its messages from then on.
fn restart(it: &mut Stage) -> Vec<Value> {
    let next = process(0, 2);
    let asked = it.take(Peer::Backend(next));
    it.server(next, json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
    it.start(next, &[])
}

fn crashed() -> Stage {
    let mut it = Stage::copilot();
    let settings = json!({"github": {"copilot": {"x": 1}}, "http": {}});
    it.editor(json!({"method": "workspace/didChangeConfiguration", "params": {"settings": settings}}));
    it.take(Peer::Backend(process(0, 1)));
    it.create(1, &json!({"conversationId": "c", "source": "panel"}));
    let create = it.take(Peer::Backend(process(0, 1))).pop().unwrap();
    turn(&mut it, process(0, 1), &create, "T1");
    it.exited(process(0, 1), Exit::Signal(9));
    it.take(EDITOR);
    restart(&mut it);
    it
}

fn ask(it: &mut Stage) -> ProcessId {
    ask_as(it, 2);
    process(0, 2)
}

fn ask_as(it: &mut Stage, id: u32) {
    let params = json!({"conversationId": "c", "message": "next", "workDoneToken": "t2", "turnId": "T2"});
    it.editor(json!({"id": id, "method": "conversation/turn", "params": params}));
}

/// The shell has written the transcript.
fn written(it: &mut Stage, process: ProcessId) {
    let folder = Ok("/private".into());
    it.event(Event::TranscriptWritten { process, conversation: "c".into(), folder });
}

#[test]
fn fresh_process_gets_transcript_with_tool_calls() {
    let mut it = crashed();
    let next = ask(&mut it);
    assert!(it.take(Peer::Backend(next)).is_empty(), "the file comes first");
    let (_, conversation, content) = it.transcripts[0].clone();
    assert_eq!(conversation, "c");
    let lines: Vec<Value> = content.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let kinds: Vec<_> = lines.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["partition.created", "user.message", "assistant.message", "assistant.turn_end"]);
    assert_eq!(lines[1]["data"], json!({"content": "q", "turnId": "T1"}));
    let messages: Value = serde_json::from_str(lines[2]["data"]["content"].as_str().unwrap()).unwrap();
    assert_eq!(messages[0]["tool_calls"][0]["function"]["arguments"], r#"{"k":1}"#);
    assert_eq!(messages[1], json!({"role": "tool", "content": "R", "tool_call_id": "call"}));
    assert_eq!(messages[2]["content"], "Done.");

    it.event(Event::TranscriptWritten { process: next, conversation, folder: Ok("/private".into()) });
    let told = it.take(Peer::Backend(next));
    let copilot = |it: &Value| it["params"]["settings"]["github"]["copilot"].clone();
    assert_eq!(copilot(&told[0]), json!({"x": 1, "agent": {"transcriptDirectory": "/private"}}));
    assert_eq!(told[1]["method"], "conversation/create");
    let expected = json!({
        "turns": [{"request": "next", "turnId": "T2"}], "restoreToTurnId": "T1", "source": "panel",
        "conversationId": "c", "workDoneToken": "t2"
    });
    assert_eq!(told[1]["params"], expected);

    it.server(next, progress("t2", &json!({"kind": "begin", "conversationId": "c", "turnId": "T2"})));
    let told_next = it.take(Peer::Backend(next));
    assert_eq!(copilot(&told_next[0]), json!({"x": 1}));
    assert!(it.transcripts.is_empty());
    assert_eq!(it.take(EDITOR)[0]["params"]["value"]["kind"], "begin");
    it.server(next, json!({"id": told[1]["id"], "result": {"conversationId": "c", "turnId": "T2"}}));
    assert_eq!(it.take(EDITOR)[0]["id"], 2);
    // It knows the conversation now.
    let params = json!({"conversationId": "c", "message": "third", "workDoneToken": "t3"});
    it.editor(json!({"id": 3, "method": "conversation/turn", "params": params}));
    assert_eq!(it.told(next), ["conversation/turn"]);
}

#[test]
fn compressed_history_is_restored_as_summary() {
    let mut it = crashed();
    let next = ask(&mut it);
    written(&mut it, next);
    it.transcripts.clear();
    let create = it.take(Peer::Backend(next)).pop().unwrap();
    turn(&mut it, next, &create, "T2");
    for (id, success, summary) in [(3, true, "S"), (4, false, "")] {
        it.editor(json!({"id": id, "method": "conversation/compress", "params": {"conversationId": "c"}}));
        let compress = it.take(Peer::Backend(next)).pop().unwrap();
        let result = json!({"success": success, "summaryContent": summary});
        it.server(next, json!({"id": compress["id"], "result": result}));
    }
    it.exited(next, Exit::Signal(9));
    it.pass(std::time::Duration::from_secs(2));
    let last = process(0, 3);
    it.start(last, &[]);
    let params = json!({"conversationId": "c", "message": "third", "workDoneToken": "t3", "turnId": "T3"});
    it.editor(json!({"id": 5, "method": "conversation/turn", "params": params}));
    let lines =
        it.transcripts[0].2.lines().map(|it| serde_json::from_str::<Value>(it).unwrap()["data"].clone());
    assert_eq!(
        lines.skip(1).collect::<Vec<_>>(),
        [json!({"content": "S", "turnId": "summary"}), json!({"turnId": "summary", "status": "success"}),]
    );
    written(&mut it, last);
    assert_eq!(it.take(Peer::Backend(last)).pop().unwrap()["params"]["restoreToTurnId"], "summary");
}

#[test]
fn turn_unknown_to_process_can_be_deleted() {
    let mut it = crashed();
    let delete = |id: u32, of: &str| json!({"id": id, "method": "conversation/turnDelete", "params": {"conversationId": of, "turnId": "T1"}});
    for (id, of) in [(5, "c"), (6, "never heard of")] {
        it.editor(delete(id, of));
        let asked = it.take(Peer::Backend(process(0, 2))).pop().unwrap();
        let message = format!("Conversation with id {of} does not exist");
        it.server(process(0, 2), json!({"id": asked["id"], "error": {"code": -32603, "message": message}}));
    }
    let told = it.take(EDITOR);
    assert_eq!((&told[0]["result"], &told[1]["error"]["code"]), (&json!("OK"), &json!(-32603)));
    ask(&mut it);
    assert_eq!(it.transcripts[0].2.lines().count(), 1, "nothing is left of it");
}

#[test]
fn conversation_restored_empty_is_retried_with_text() {
    let mut it = crashed();
    let next = ask(&mut it);
    written(&mut it, next);
    let create = it.take(Peer::Backend(next)).pop().unwrap();
    it.server(next, progress("t2", &json!({"kind": "begin", "conversationId": "stray", "turnId": "T2"})));
    it.server(next, progress("t2", &json!({"kind": "report", "conversationId": "stray", "turnId": "T2"})));
    let told = it.take(Peer::Backend(next));
    let methods: Vec<_> = told.iter().map(super::stage::name).collect();
    assert_eq!(methods[..3], ["$/cancelRequest", "conversation/destroy", "conversation/create"]);
    assert_eq!(told[0]["params"]["id"], create["id"]);
    let turns = &told[2]["params"]["turns"];
    assert_eq!(turns[0], json!({"request": "q", "response": "Calling.Done.", "turnId": "T1"}));
    assert_eq!(turns[1]["request"], "next");
    // The editor sees neither the orphan nor its answer.
    it.server(next, json!({"id": create["id"], "result": {"conversationId": "stray"}}));
    assert!(it.take(EDITOR).is_empty());
    it.server(next, progress("t2", &json!({"kind": "begin", "conversationId": "c", "turnId": "T2"})));
    it.server(next, json!({"id": told[2]["id"], "result": {"conversationId": "c"}}));
    assert_eq!(it.take(EDITOR).len(), 2);
}

#[test]
fn orphan_is_forgotten_when_it_ends() {
    let mut it = crashed();
    let next = ask(&mut it);
    written(&mut it, next);
    it.server(next, progress("t2", &json!({"kind": "begin", "conversationId": "stray", "turnId": "T2"})));
    let n_orphans = |it: &Stage| it.core.copilot.as_ref().unwrap().n_orphans(next.backend);
    assert_eq!(n_orphans(&it), 1);
    it.server(next, progress("t2", &json!({"kind": "end", "conversationId": "stray", "turnId": "T2"})));
    assert!(it.take(EDITOR).is_empty());
    assert_eq!(n_orphans(&it), 0);
}

#[test]
fn cancelled_turn_restored_empty_is_not_retried() {
    let mut it = crashed();
    let next = ask(&mut it);
    written(&mut it, next);
    it.take(Peer::Backend(next));
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 2}}));
    assert!(it.take(EDITOR).is_empty(), "the server answers");
    it.server(next, progress("t2", &json!({"kind": "begin", "conversationId": "stray", "turnId": "T2"})));
    assert!(!it.told(next).contains(&"conversation/create".to_owned()));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32800);
    // The process knows nothing of it: the next turn is restored.
    let params = json!({"conversationId": "c", "workDoneToken": "t3", "message": "again"});
    it.editor(json!({"id": 3, "method": "conversation/turn", "params": params}));
    written(&mut it, next);
    assert_eq!(it.told(next), ["workspace/didChangeConfiguration", "conversation/create"]);
}

#[test]
fn destroy_during_restore_does_not_repeat_turn() {
    let mut it = crashed();
    let next = ask(&mut it);
    written(&mut it, next);
    let create = it.take(Peer::Backend(next)).pop().unwrap();
    it.editor(json!({"id": 3, "method": "conversation/destroy", "params": {"conversationId": "c"}}));
    assert_eq!(it.told(next), ["conversation/destroy"]);
    it.server(
        next,
        progress("t2", &json!({"kind": "begin", "conversationId": "c", "turnId": create["params"]["turns"][0]["turnId"]})),
    );
    assert_eq!(it.told(next), ["workspace/didChangeConfiguration"], "the folder is not needed any more");
    assert_eq!(it.take(EDITOR)[0]["params"]["value"]["kind"], "begin");
    it.server(next, json!({"id": create["id"], "error": {"code": -32603, "message": "destroyed"}}));
    assert_eq!(it.take(EDITOR)[0]["id"], 2);
}

#[test]
fn turn_of_destroyed_conversation_is_not_sent_to_its_successor() {
    // Its file is being written.
    for method in ["conversation/destroy", "conversation/create"] {
        let mut it = crashed();
        let next = ask(&mut it);
        let params = json!({"conversationId": "c", "workDoneToken": "t3", "turns": [{"request": "new"}]});
        it.editor(json!({"id": 3, "method": method, "params": params}));
        assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32800);
        written(&mut it, next);
        assert_eq!(it.told(next), [method]);
    }
    // The server has made something else of it.
    let mut it = crashed();
    let next = ask(&mut it);
    written(&mut it, next);
    it.create(3, &json!({"conversationId": "c"}));
    it.take(Peer::Backend(next));
    it.server(next, progress("t2", &json!({"kind": "begin", "conversationId": "stray", "turnId": "T2"})));
    assert!(!it.told(next).contains(&"conversation/create".to_owned()));
    // The server has forgotten it.
    let mut it = crashed();
    let next = ask(&mut it);
    written(&mut it, next);
    let asked = it.take(Peer::Backend(next)).pop().unwrap();
    it.server(next, progress("t2", &json!({"kind": "begin", "conversationId": "c", "turnId": "T2"})));
    it.server(next, json!({"id": asked["id"], "result": {"conversationId": "c"}}));
    let params = json!({"conversationId": "c", "workDoneToken": "t4", "message": "more"});
    it.editor(json!({"id": 4, "method": "conversation/turn", "params": params}));
    let asked = it.take(Peer::Backend(next)).pop().unwrap();
    it.create(5, &json!({"conversationId": "c"}));
    it.server(next, progress("t5", &json!({"kind": "begin", "conversationId": "c", "turnId": "N"})));
    it.take(EDITOR);
    let error = json!({"code": -32603, "message": "Conversation with id c does not exist"});
    it.server(next, json!({"id": asked["id"], "error": error}));
    assert_eq!(it.take(EDITOR)[0]["error"], error);
}

#[test]
fn cancelled_or_crashed_restore_leaves_nothing_behind() {
    let mut it = crashed();
    let next = ask(&mut it);
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 2}}));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32800);
    written(&mut it, next);
    assert!(it.take(Peer::Backend(next)).is_empty());
    // The next process dies while the file is written: the turn waits for the one after it.
    ask(&mut it);
    it.exited(next, Exit::Signal(9));
    it.pass(std::time::Duration::from_secs(2));
    let third = process(0, 3);
    let asked = it.take(Peer::Backend(third));
    it.server(third, json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
    it.start(third, &[]);
    it.event(Event::TranscriptWritten {
        process: third,
        conversation: "c".into(),
        folder: Err("full".into()),
    });
    let told = it.take(Peer::Backend(third)).pop().unwrap();
    assert_eq!(told["params"]["turns"].as_array().unwrap().len(), 2);
}

#[test]
fn conversation_forgotten_by_server_is_restored() {
    let mut it = Stage::copilot();
    let primary = process(0, 1);
    it.create(1, &json!({"conversationId": 7}));
    let create = it.take(Peer::Backend(primary)).pop().unwrap();
    turn(&mut it, primary, &create, "T1");
    it.take(EDITOR);
    it.take(Peer::Backend(primary));
    let params = json!({"conversationId": 7, "message": "next", "workDoneToken": "t2"});
    it.editor(json!({"id": 2, "method": "conversation/turn", "params": params}));
    let asked = it.take(Peer::Backend(primary)).pop().unwrap();
    let error = json!({"code": -32603, "message": "Conversation with id 7 does not exist"});
    it.server(primary, json!({"id": asked["id"], "error": error}));
    assert!(it.take(EDITOR).is_empty());
    // A number is not a file name, so the history goes as text.
    let again = it.take(Peer::Backend(primary)).pop().unwrap();
    assert_eq!(
        (again["method"].as_str(), again["params"]["turns"].as_array().unwrap().len()),
        (Some("conversation/create"), 2)
    );
}

#[test]
fn turn_not_yet_begun_is_retried_silently() {
    let mut it = crashed();
    let next = ask(&mut it);
    written(&mut it, next);
    it.take(Peer::Backend(next));
    it.exited(next, Exit::Signal(9));
    assert!(it.take(EDITOR).is_empty());
    it.pass(std::time::Duration::from_secs(1));
    let third = process(0, 3);
    let asked = it.take(Peer::Backend(third));
    it.server(third, json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
    it.start(third, &[]);
    assert_eq!(it.transcripts.last().map(|it| it.0), Some(third));
}

#[test]
fn partition_restarts_for_turn_not_yet_begun() {
    let mut it = Stage::copilot();
    let one = process(1, 1);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    it.start(one, &[]);
    it.exited(one, Exit::Signal(9));
    assert!(it.take(EDITOR).is_empty());
    assert_eq!(it.spawned.last(), Some(&process(1, 2)));
    assert_eq!(
        it.start(process(1, 2), &[]).last().map(super::stage::name).as_deref(),
        Some("conversation/create")
    );
}

/// A crash of a server of this version, and a turn of the conversation at the next process, whose tools are not asked for.
fn turn_after_crash(version: &str, holds_proofs: bool) -> (Stage, ProcessId) {
    let mut it = Stage::new(crate::config::ServerKind::Copilot);
    it.holds_proofs = holds_proofs;
    it.server.policy.backoff.initial = std::time::Duration::ZERO;
    it.initialize();
    it.create(1, &json!({"conversationId": "c", "source": "panel"}));
    let create = it.take(Peer::Backend(process(0, 1))).pop().unwrap();
    turn(&mut it, process(0, 1), &create, "T1");
    it.exited(process(0, 1), Exit::Signal(9));
    it.take(EDITOR);
    restart_as(&mut it, process(0, 2), version);
    let next = ask(&mut it);
    (it, next)
}

/// The next process is up, and says which version it is.
fn restart_as(it: &mut Stage, next: ProcessId, version: &str) -> Vec<Value> {
    let asked = it.take(Peer::Backend(next));
    let result = json!({"capabilities": {}, "serverInfo": {"name": "s", "version": version}});
    it.server(next, json!({"id": asked[0]["id"], "result": result}));
    it.start(next, &[])
}

/// What a process was asked last is the next turn with the whole history as text.
#[track_caller]
fn check_told_as_text(it: &mut Stage, process: ProcessId) -> Value {
    assert!(it.transcripts.is_empty());
    let told = it.take(Peer::Backend(process));
    let create = told.into_iter().rfind(|it| it["method"] == "conversation/create").unwrap();
    let params = &create["params"];
    assert_eq!(params["turns"][0], json!({"request": "q", "response": "Calling.Done.", "turnId": "T1"}));
    assert_eq!(params["turns"][1]["request"], "next");
    assert_eq!(params["restoreToTurnId"], Value::Null);
    create
}

#[test]
fn server_known_to_ignore_transcripts_gets_text_unasked() {
    for version in ["1.418.0", "1.430.0"] {
        let (mut it, next) = turn_after_crash(version, true);
        check_told_as_text(&mut it, next);
    }
}

#[test]
fn transcript_waits_until_server_is_proven_to_read_it() {
    let (mut it, next) = turn_after_crash("1.449.0", true);
    let asked = it.take(Peer::Backend(next));
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asks_for_proof(&asked[0]) && it.transcripts.is_empty());
    it.server(next, json!({"id": asked[0]["id"], "error": proof()}));
    written(&mut it, next);
    assert_eq!(it.take(Peer::Backend(next)).pop().unwrap()["params"]["restoreToTurnId"], "T1");
    // Processes of this version need not be asked again.
    it.exited(next, Exit::Signal(9));
    it.pass(std::time::Duration::from_secs(2));
    let last = process(0, 3);
    it.transcripts.clear();
    restart_as(&mut it, last, "1.449.0");
    assert_eq!(it.transcripts.len(), 1);
}

#[test]
fn server_that_ignores_transcripts_gets_text() {
    let required = "Schema validation failed with the following errors:\n- /workDoneToken: Required property";
    let refusals = [
        json!({"error": {"code": -32602, "message": required}}),
        json!({"error": {"code": -32603, "message": "- /restoreToTurnId"}}),
        json!({"result": {"conversationId": "another", "turnId": "T"}}),
    ];
    for refusal in refusals {
        let (mut it, next) = turn_after_crash("9.9.9", true);
        let asked = it.take(Peer::Backend(next)).pop().unwrap();
        let mut answer = refusal;
        answer["id"] = asked["id"].clone();
        it.server(next, answer);
        check_told_as_text(&mut it, next);
    }
}

#[test]
fn server_that_dies_of_the_question_gets_text() {
    let (mut it, mut next) = turn_after_crash("", true);
    let mut told = it.take(Peer::Backend(next));
    for generation in [3, 4, 5] {
        assert!(told.iter().any(asks_for_proof), "{told:?}");
        it.exited(next, Exit::Signal(9));
        it.pass(std::time::Duration::from_secs(9));
        next = process(0, generation);
        told = restart_as(&mut it, next, "");
    }
    let create = told.pop().unwrap();
    assert_eq!(create["params"]["turns"].as_array().unwrap().len(), 2, "{create}");
    assert!(it.transcripts.is_empty());
}

#[test]
fn turns_wait_together_for_one_proof() {
    let (mut it, next) = turn_after_crash("1.539.0", true);
    it.create(
        7,
        &json!({"conversationId": "d", "turns": [
            {"request": "old", "response": "r", "turnId": "D1"}, {"request": "q", "turnId": "D2"},
        ]}),
    );
    let told = it.take(Peer::Backend(next));
    let methods: Vec<_> = told.iter().map(super::stage::name).collect();
    assert_eq!(
        methods,
        ["conversation/create", "conversation/create"],
        "a new conversation waits for nothing"
    );
    let question = told.iter().find(|it| asks_for_proof(it)).unwrap();
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 2}}));
    assert_eq!(
        it.take(EDITOR)[0]["error"]["code"],
        -32800,
        "a turn that waits for the proof can be cancelled"
    );
    it.server(next, json!({"id": question["id"], "error": proof()}));
    assert!(it.transcripts.is_empty() && it.take(Peer::Backend(next)).is_empty());
    ask_as(&mut it, 3);
    assert_eq!(it.transcripts.len(), 1);
}

#[test]
fn restore_refused_with_error_is_retried_with_text() {
    let (mut it, next) = turn_after_crash("1.449.0", false);
    written(&mut it, next);
    let create = it.take(Peer::Backend(next)).pop().unwrap();
    let refused =
        "Request conversation/create failed with message: Turn not found: conversationId=c, turnId=T1";
    it.server(next, json!({"id": create["id"], "error": {"code": -32603, "message": refused}}));
    let again = check_told_as_text(&mut it, next);
    assert!(it.take(EDITOR).is_empty());
    // The same error again is the editor's.
    it.server(next, json!({"id": again["id"], "error": {"code": -32603, "message": refused}}));
    assert_eq!(it.take(EDITOR)[0]["error"]["message"], refused);
}
