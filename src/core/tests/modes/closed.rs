//! In doubt there are no tools: calls of unwanted conversations, modes that failed, and turns that leave the primary
//! in the middle.

use serde_json::{Value, json};

use super::{PRIMARY, answer, create, is_restored, listed, methods, serve, stage, turn};
use crate::core::{
    event::{Event, Exit, Peer, ProcessId},
    tests::stage::{EDITOR, Stage, process, uri},
};

const SECOND: ProcessId = process(0, 2);
const OTHER: ProcessId = process(1, 1);

fn says(it: &mut Stage, process: ProcessId, token: &str, conversation: &str, more: &Value) {
    let mut value = json!({"conversationId": conversation, "turnId": "T"});
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    it.server(process, json!({"method": "$/progress", "params": {"token": token, "value": value}}));
}

fn begins(it: &mut Stage, process: ProcessId, token: &str, conversation: &str) {
    says(it, process, token, conversation, &json!({"kind": "begin"}));
}

fn tells_of_call(it: &mut Stage, token: &str, name: &str) {
    let call = json!({"id": name, "name": name, "toolType": "shared", "status": "running"});
    let rounds = json!([{"roundId": 1, "reply": "", "toolCalls": [call]}]);
    says(it, PRIMARY, token, "c", &json!({"kind": "report", "editAgentRounds": rounds}));
}

/// Calls a tool in the set, and one outside: returns both answers to the process. The editor gets neither call.
fn calls(it: &mut Stage, process: ProcessId, conversation: &str) -> Vec<Value> {
    it.take(EDITOR);
    it.take(Peer::Backend(process));
    for (id, name) in [(700, "a"), (701, "run_in_terminal")] {
        let params = json!({
            "conversationId": conversation, "turnId": "T", "name": name, "toolCallId": name, "input": {}, "roundId": 1,
        });
        it.server(process, json!({"id": id, "method": "conversation/invokeClientTool", "params": params}));
    }
    let heard = it.take(EDITOR);
    assert!(heard.is_empty(), "{heard:?}");
    it.take(Peer::Backend(process)).iter().map(|it| it["result"][0]["status"].clone()).collect()
}

fn create_with_turn(it: &mut Stage) -> Value {
    it.create(
        1,
        &json!({
            "conversationId": "c", "chatMode": "Agent", "turns": [{"request": "q", "turnId": "T"}],
            "lspool": {"tools": ["a"]},
        }),
    );
    serve(it, PRIMARY).pop().unwrap()
}

/// A turn in a mode has begun, and its process is gone: it continues in the next one.
fn cut_off() -> Stage {
    let mut it = stage();
    create_with_turn(&mut it);
    begins(&mut it, PRIMARY, "t1", "c");
    says(
        &mut it,
        PRIMARY,
        "t1",
        "c",
        &json!({"kind": "report", "editAgentRounds": [{"roundId": 1, "reply": "x"}]}),
    );
    it.exited(PRIMARY, Exit::Signal(9));
    it.take(EDITOR);
    it
}

/// A process gets the restore of a conversation in a mode; returns the request.
fn restoring() -> (Stage, Value) {
    let mut it = stage();
    let asked = create_with_turn(&mut it);
    answer(&mut it, PRIMARY, &asked);
    it.exited(PRIMARY, Exit::Signal(9));
    serve(&mut it, SECOND);
    it.editor(turn(2, "c"));
    serve(&mut it, SECOND);
    let asked = is_restored(&mut it, SECOND, "c");
    (it, asked)
}

#[test]
fn orphan_created_by_restore_calls_no_tools() {
    let (mut it, asked) = restoring();
    assert_eq!(asked["params"]["customChatModeId"], uri(&it.modes[0]));
    begins(&mut it, SECOND, "t2", "stray");
    assert_eq!(calls(&mut it, SECOND, "stray"), ["cancelled", "cancelled"]);
}

#[test]
fn resumed_turn_calls_no_tools_after_destroy() {
    let mut it = cut_off();
    serve(&mut it, SECOND);
    let folder = Ok("/run/lspool/x".into());
    it.event(Event::TranscriptWritten { process: SECOND, conversation: "c".to_owned(), folder });
    assert!(methods(&serve(&mut it, SECOND)).contains(&"conversation/create".to_owned()));
    begins(&mut it, SECOND, "t1", "c");
    it.editor(json!({"id": 9, "method": "conversation/destroy", "params": {"conversationId": "c"}}));
    assert_eq!(calls(&mut it, SECOND, "c"), ["cancelled", "cancelled"]);
}

#[test]
fn moved_conversation_calls_no_tools_in_old_process() {
    let mut it = stage();
    let asked = create_with_turn(&mut it);
    answer(&mut it, PRIMARY, &asked);
    it.editor(json!({"id": 90, "method": "lspool/move", "params": {"name": "c", "to": "process"}}));
    it.editor(turn(2, "c"));
    assert_eq!(it.spawned, [PRIMARY, OTHER]);
    assert_eq!(calls(&mut it, PRIMARY, "c"), ["error", "error"]);
}

#[test]
fn orphaned_restore_is_retried_after_mode_is_verified() {
    let (mut it, _) = restoring();
    it.server(SECOND, json!({"method": "policy/didChange", "params": {}}));
    begins(&mut it, SECOND, "t2", "stray");
    let told = it.take(Peer::Backend(SECOND));
    assert!(!methods(&told).contains(&"conversation/create".to_owned()), "{told:?}");
    let asked = told.iter().find(|it| it["method"] == "conversation/modes").expect("it is looked at");
    // The policy forbids modes.
    it.server(SECOND, json!({"id": asked["id"], "result": []}));
    it.start(OTHER, &["a"]);
    let asked = is_restored(&mut it, OTHER, "c");
    assert_eq!(asked["params"].get("customChatModeId"), None);
    answer(&mut it, OTHER, &asked);
    assert_eq!(it.take(EDITOR).iter().filter(|it| it["id"] == 2).count(), 1);
}

/// How often the editor gets the end of a turn.
fn n_ends(heard: &[Value]) -> usize {
    heard.iter().filter(|it| it["params"]["value"]["kind"] == "end").count()
}

/// The cut-off turn comes to the next process, which does not list its mode.
fn is_not_listed(it: &mut Stage) {
    let told = loop {
        let told = it.take(Peer::Backend(SECOND));
        let Some(initialize) = told.iter().find(|it| it["method"] == "initialize") else { break told };
        it.server(SECOND, json!({"id": initialize["id"], "result": {"capabilities": {}}}));
    };
    let asked = told.iter().find(|it| it["method"] == "conversation/modes").expect("it is looked at");
    it.server(SECOND, json!({"id": asked["id"], "result": []}));
}

#[test]
fn turn_that_moves_midway_ends_once() {
    let mut it = cut_off();
    is_not_listed(&mut it);
    it.start(OTHER, &["a"]);
    let asked = is_restored(&mut it, OTHER, "c");
    begins(&mut it, OTHER, "t1", "c");
    it.exited(SECOND, Exit::Signal(9));
    assert_eq!(n_ends(&it.take(EDITOR)), 0, "its turn runs elsewhere");
    says(&mut it, OTHER, "t1", "c", &json!({"kind": "end"}));
    it.server(OTHER, json!({"id": asked["id"], "result": {"conversationId": "c", "turnId": "T"}}));
    assert_eq!(n_ends(&it.take(EDITOR)), 1);
    it.exited(OTHER, Exit::Signal(9));
    it.exited(process(0, 3), Exit::Signal(9));
    assert_eq!(n_ends(&it.take(EDITOR)), 0);
}

#[test]
fn turn_without_process_ends_before_it_fails() {
    let mut it = Stage::new(crate::config::ServerKind::Copilot);
    it.server.isolation = crate::config::Isolation::Mode;
    it.server.max_processes = 1;
    it.initialize();
    create_with_turn(&mut it);
    begins(&mut it, PRIMARY, "t1", "c");
    it.exited(PRIMARY, Exit::Signal(9));
    it.take(EDITOR);
    is_not_listed(&mut it);
    let heard = it.take(EDITOR);
    let at = |is: &dyn Fn(&Value) -> bool| heard.iter().position(is);
    let end = at(&|it| it["params"]["value"]["kind"] == "end").expect("it is ended");
    assert!(heard[end]["params"]["value"]["error"]["message"].as_str().unwrap().contains("no room"));
    assert!(end < at(&|it| it["id"] == 1 && it["error"].is_object()).expect("it fails"), "{heard:?}");
    it.exited(SECOND, Exit::Signal(9));
    assert_eq!(n_ends(&it.take(EDITOR)), 0);
}

#[test]
fn quarantined_mode_is_used_again_only_in_new_process() {
    let mut it = stage();
    let asked = create_with_turn(&mut it);
    begins(&mut it, PRIMARY, "t1", "c");
    tells_of_call(&mut it, "t1", "list_dir");
    answer(&mut it, PRIMARY, &asked);
    it.server(PRIMARY, json!({"method": "policy/didChange", "params": {}}));
    it.event(Event::FilesChanged);
    it.take(EDITOR);
    it.editor(json!({"id": 90, "method": "lspool/move", "params": {"name": "c", "to": "mode"}}));
    let refused = it.take(EDITOR).pop().unwrap();
    assert!(refused["error"]["message"].as_str().unwrap().contains("has called list_dir"), "{refused}");
    create(&mut it, 2, "d", &["a"]);
    assert_eq!(it.spawned, [PRIMARY, OTHER]);
    it.exited(PRIMARY, Exit::Signal(9));
    it.pass(std::time::Duration::from_secs(9));
    serve(&mut it, SECOND);
    create(&mut it, 3, "e", &["a"]);
    let told = serve(&mut it, SECOND);
    assert_eq!(told.last().unwrap()["params"]["customChatModeId"], uri(&it.modes[0]));
}

#[test]
fn only_mode_of_the_turn_is_quarantined() {
    let mut it = stage();
    let first = create_with_turn(&mut it);
    let own = "file:///project/.github/agents/reviewer.agent.md";
    let mut in_own = turn(2, "c");
    in_own["params"]["customChatModeId"] = json!(own);
    it.editor(in_own);
    answer(&mut it, PRIMARY, &first);
    let asked = it.take(Peer::Backend(PRIMARY));
    let asked = asked.iter().find(|it| it["method"] == "conversation/modes").unwrap();
    let mut all = listed(&it);
    all.as_array_mut().unwrap().push(json!({"id": own, "kind": "Agent"}));
    it.server(PRIMARY, json!({"id": asked["id"], "result": all}));
    let told = it.take(Peer::Backend(PRIMARY));
    assert_eq!(told.last().unwrap()["params"]["customChatModeId"], uri(it.modes.last().unwrap()));
    let other = it.modes.last().unwrap().name.clone();
    assert_ne!(it.modes[0].name, other);
    begins(&mut it, PRIMARY, "t2", "c");
    tells_of_call(&mut it, "t2", "list_dir");
    it.take(Peer::Backend(PRIMARY));
    create(&mut it, 3, "d", &["a"]);
    let told = serve(&mut it, PRIMARY);
    assert_eq!(told[0]["params"]["customChatModeId"], uri(&it.modes[0]), "the other one has held");
    assert_eq!(it.spawned, [PRIMARY]);
    it.create(
        4,
        &json!({
            "conversationId": "e", "chatMode": "Agent", "customChatModeId": own, "lspool": {"tools": ["a"]},
        }),
    );
    assert_eq!(it.spawned, [PRIMARY, OTHER]);
}
