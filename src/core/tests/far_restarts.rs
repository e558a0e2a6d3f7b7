//! A server that crashes repeatedly is restarted only after a while: nobody is kept waiting for it.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, name, process};
use crate::{
    config::ServerKind,
    core::event::{Exit, Peer},
};

/// The primary has died four times, and restarts in 4 s. `before`: what happens before the last death.
fn crashed(kind: ServerKind, before: impl FnOnce(&mut Stage)) -> Stage {
    let mut it = Stage::new(kind);
    it.server.policy.backoff.jitter = 0;
    it.initialize();
    for generation in 1..4 {
        it.exited(process(0, generation), Exit::Signal(9));
        it.pass(Duration::from_secs(2));
        it.start(process(0, generation + 1), &[]);
    }
    it.take(EDITOR);
    before(&mut it);
    it.exited(process(0, 4), Exit::Signal(9));
    it
}

/// Checks that these requests were refused for now.
#[track_caller]
fn expect_refused(told: &[Value], ids: &[u32]) {
    let refused: Vec<&Value> = told.iter().filter(|it| it.get("error").is_some()).collect();
    assert_eq!(
        refused.iter().map(|it| &it["id"]).collect::<Vec<_>>(),
        ids.iter().collect::<Vec<_>>(),
        "{told:?}"
    );
    for it in refused {
        assert_eq!(it["error"]["code"], -32803, "{it}");
        assert!(it["error"]["message"].as_str().unwrap().contains("restarting in 4 s"), "{it}");
        let told = &it["error"]["data"]["lspool"];
        assert_eq!((&told["cause"], &told["retry"]), (&json!("restarting"), &json!(true)));
    }
}

#[test]
fn turns_are_refused_while_restart_is_far() {
    let of = |id: &str| json!({"conversationId": id});
    let mut it = crashed(ServerKind::Copilot, |it| {
        // One has begun, one waits behind it, of one no process has said anything.
        it.create(5, &of("begun"));
        let value = json!({"kind": "begin", "conversationId": "begun", "turnId": "t"});
        it.server(process(0, 4), json!({"method": "$/progress", "params": {"token": "t5", "value": value}}));
        let behind = json!({"conversationId": "begun", "message": "more", "workDoneToken": "t6"});
        it.editor(json!({"id": 6, "method": "conversation/turn", "params": behind}));
        it.create(7, &of("silent"));
        it.take(EDITOR);
    });
    // What has begun goes on in the next process.
    expect_refused(&it.take(EDITOR), &[7]);
    expect_refused(&it.create(8, &of("new")), &[8]);
    let more = json!({"conversationId": "begun", "message": "more"});
    it.editor(json!({"id": 9, "method": "conversation/turn", "params": more}));
    expect_refused(&it.take(EDITOR), &[9]);
    it.pass(Duration::from_secs(4));
    let next = process(0, 5);
    it.take(EDITOR);
    let told = it.start(next, &[]);
    let creates: Vec<&Value> = told.iter().filter(|it| name(it) == "conversation/create").collect();
    assert_eq!((creates.len(), &creates[0]["params"]["conversationId"]), (1, &json!("begun")), "{told:?}");
    // It is as if the other had not been asked.
    assert!(it.create(10, &of("silent")).is_empty());
    let told = it.take(Peer::Backend(next));
    assert_eq!((told.len(), &told[0]["params"]["conversationId"]), (1, &json!("silent")), "{told:?}");
}

/// A server that is killed during its start, again and again.
fn unstarted() -> Stage {
    let mut it = Stage::new(ServerKind::Generic);
    it.server.policy.backoff.jitter = 0;
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    for generation in 1..=4 {
        it.take(Peer::Backend(process(0, generation)));
        it.exited(process(0, generation), Exit::Signal(9));
        if generation < 4 {
            it.pass(Duration::from_secs(2));
        }
    }
    it
}

fn initialize(it: &mut Stage, id: u32) -> Vec<Value> {
    it.editor(json!({"id": id, "method": "initialize", "params": {"capabilities": {"again": id}}}));
    it.take(EDITOR)
}

#[test]
fn initialize_is_refused_while_restart_is_far_and_may_be_asked_again() {
    let mut it = unstarted();
    let told = it.take(EDITOR);
    expect_refused(&told, &[0]);
    let error = told.iter().find(|it| it.get("error").is_some()).unwrap();
    assert_eq!(error["error"]["data"]["retry"], true, "as the protocol has it");
    expect_refused(&initialize(&mut it, 1), &[1]);
    it.pass(Duration::from_secs(2));
    assert!(initialize(&mut it, 2).is_empty(), "so long is waited for");
    it.pass(Duration::from_secs(2));
    let next = process(0, 5);
    let asked = it.take(Peer::Backend(next));
    assert_eq!((asked.len(), &asked[0]["params"]["capabilities"]), (1, &json!({"again": 2})));
    it.server(next, json!({"id": asked[0]["id"], "result": {"capabilities": {"x": 1}}}));
    let told = it.take(EDITOR);
    assert_eq!((&told[0]["id"], &told[0]["result"]["capabilities"]["x"]), (&json!(2), &json!(1)));
}

#[test]
fn initialize_asked_again_while_server_starts_is_answered_with_it() {
    let mut it = unstarted();
    it.pass(Duration::from_secs(4));
    let next = process(0, 5);
    let asked = it.take(Peer::Backend(next));
    assert_eq!(name(&asked[0]), "initialize", "lspool asks for itself");
    it.take(EDITOR);
    assert!(initialize(&mut it, 1).is_empty());
    it.server(next, json!({"id": asked[0]["id"], "result": {"capabilities": {"x": 1}}}));
    let told = it.take(EDITOR);
    assert_eq!((&told[0]["id"], &told[0]["result"]["capabilities"]["x"]), (&json!(1), &json!(1)));
    assert!(it.told(next).iter().all(|it| it != "initialize"));
    it.editor(json!({"id": 2, "method": "textDocument/hover"}));
    assert_eq!(it.told(next), ["textDocument/hover"]);
}

#[test]
fn requests_with_a_meaning_for_lspool_are_refused_too() {
    let tools = json!({"tools": [{"name": "a"}]});
    let sign_in = "signInWithDeviceFlow";
    let mut it = crashed(ServerKind::Copilot, |it| {
        it.editor(json!({"id": 5, "method": "conversation/registerTools", "params": tools}));
        it.take(EDITOR);
    });
    it.take(EDITOR);
    it.editor(json!({"id": 6, "method": "conversation/registerTools", "params": tools}));
    it.editor(json!({"id": 7, "method": sign_in, "params": {}}));
    it.editor(json!({"id": 8, "method": "workspace/executeCommand", "params": {"command": "x"}}));
    it.editor(json!({"id": 9, "method": "conversation/destroy", "params": {"conversationId": "x"}}));
    expect_refused(&it.take(EDITOR), &[6, 7, 8, 9]);
    it.pass(Duration::from_secs(4));
    let told = it.start(process(0, 5), &[]);
    assert!(told.iter().all(|it| name(it) != sign_in), "{told:?}");
    it.editor(json!({"id": 10, "method": "conversation/registerTools", "params": tools}));
    assert_eq!(it.told(process(0, 5)), ["conversation/registerTools"]);
}
