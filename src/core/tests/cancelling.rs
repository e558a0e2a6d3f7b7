//! Cancellation, and requests that cannot be cancelled.

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, process};
use crate::core::event::{Exit, Peer, ProcessId};

const PRIMARY: ProcessId = process(0, 1);

/// A create of `c` that the process is asked; gives the turn.
fn create(it: &mut Stage, id: u32) -> Value {
    it.create(id, &json!({"conversationId": "c"}));
    it.take(Peer::Backend(PRIMARY)).pop().unwrap()["params"]["turns"][0]["turnId"].take()
}

fn begin(it: &mut Stage, token: &str, turn: &Value) {
    let value = json!({"kind": "begin", "conversationId": "c", "turnId": turn});
    it.server(PRIMARY, json!({"method": "$/progress", "params": {"token": token, "value": value}}));
    it.take(EDITOR);
}

/// The server calls a tool in a turn; gives the number under which the editor is asked, if it is.
fn call(it: &mut Stage, id: u32, conversation: &str, turn: &Value) -> Option<Value> {
    let params = json!({"name": "a", "conversationId": conversation, "turnId": turn});
    it.server(PRIMARY, json!({"id": id, "method": "conversation/invokeClientTool", "params": params}));
    it.take(EDITOR).pop().map(|mut it| it["id"].take())
}

fn cancel(it: &mut Stage, id: u32) {
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": id}}));
}

/// The calls that the server has been told of as cancelled.
fn settled(it: &mut Stage) -> Vec<Value> {
    let told = it.take(Peer::Backend(PRIMARY));
    told.iter().filter(|it| it["result"][0]["status"] == "cancelled").map(|it| it["id"].clone()).collect()
}

#[test]
fn cancel_of_replaced_turn_keeps_new_turn_running() {
    let mut it = Stage::copilot();
    let first = create(&mut it, 1);
    begin(&mut it, "t1", &first);
    let old = call(&mut it, 10, "c", &first).unwrap();
    let second = create(&mut it, 2);
    begin(&mut it, "t2", &second);
    call(&mut it, 20, "c", &second).unwrap();
    cancel(&mut it, 1);
    assert_eq!(settled(&mut it), [10]);
    assert_eq!(it.take(EDITOR)[0]["params"]["id"], old);
    assert!(call(&mut it, 21, "c", &second).is_some(), "the new turn goes on");
    assert_eq!(call(&mut it, 11, "c", &first), None, "it has crossed the cancellation");
    assert_eq!(settled(&mut it), [11]);
    // It continues in the next process too.
    it.exited(PRIMARY, Exit::Signal(9));
    let answered: Vec<Value> = it.take(EDITOR).iter().map(|it| it["id"].clone()).collect();
    assert!(answered.contains(&json!(1)) && !answered.contains(&json!(2)), "{answered:?}");
}

#[test]
fn cancel_of_new_turn_keeps_replaced_turn_running() {
    let mut it = Stage::copilot();
    let first = create(&mut it, 1);
    begin(&mut it, "t1", &first);
    let second = create(&mut it, 2);
    begin(&mut it, "t2", &second);
    call(&mut it, 10, "c", &first).unwrap();
    call(&mut it, 20, "c", &second).unwrap();
    cancel(&mut it, 2);
    assert_eq!(settled(&mut it), [20]);
    assert!(call(&mut it, 11, "c", &first).is_some());
}

#[test]
fn late_cancel_of_destroyed_turn_keeps_next_turn_running() {
    let mut it = Stage::copilot();
    let first = create(&mut it, 1);
    begin(&mut it, "t1", &first);
    it.editor(json!({"id": 2, "method": "conversation/destroy", "params": {"conversationId": "c"}}));
    let second = create(&mut it, 3);
    cancel(&mut it, 1);
    assert!(call(&mut it, 20, "c", &second).is_some(), "which has not even begun");
    assert_eq!(call(&mut it, 10, "c", &first), None);
}

#[test]
fn cancel_of_turn_cancels_only_its_sub_agents() {
    let mut it = Stage::copilot();
    let first = create(&mut it, 1);
    begin(&mut it, "t1", &first);
    let child = |turn: &Value, id: &str| json!({"kind": "begin", "conversationId": id, "turnId": format!("of {id}"), "parentTurnId": turn});
    it.server(
        PRIMARY,
        json!({"method": "$/progress", "params": {"token": "t1", "value": child(&first, "old")}}),
    );
    let second = create(&mut it, 2);
    begin(&mut it, "t2", &second);
    it.server(
        PRIMARY,
        json!({"method": "$/progress", "params": {"token": "t2", "value": child(&second, "new")}}),
    );
    it.take(EDITOR);
    call(&mut it, 10, "old", &json!("of old")).unwrap();
    call(&mut it, 20, "new", &json!("of new")).unwrap();
    cancel(&mut it, 1);
    assert_eq!(settled(&mut it), [10]);
    assert!(call(&mut it, 21, "new", &json!("of new")).is_some());
}

#[test]
fn sub_agent_conversations_end_with_their_turn() {
    let mut it = Stage::copilot();
    for (id, tool) in [(1, "x"), (2, "y")] {
        it.create(id, &json!({"conversationId": "c"}));
        let create = it.take(Peer::Backend(PRIMARY)).pop().unwrap();
        let turn = &create["params"]["turns"][0]["turnId"];
        begin(&mut it, &format!("t{id}"), turn);
        let child = json!({"kind": "begin", "conversationId": tool, "turnId": "u", "parentTurnId": turn});
        let params = json!({"token": format!("t{id}"), "value": child});
        it.server(PRIMARY, json!({"method": "$/progress", "params": params}));
        assert_eq!(it.core.all_conversations().count(), 2);
        it.server(PRIMARY, json!({"id": create["id"], "result": {"conversationId": "c", "turnId": turn}}));
        assert_eq!(it.core.all_conversations().count(), 1);
    }
}
