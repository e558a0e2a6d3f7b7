//! `exact_restore`: the next process sends the model the same bytes as the one before it.

use serde_json::{Value, json};

use super::{CONTINUE, Scene, expect_whole, kill_servers};
use crate::{
    partitions::tools,
    support::{
        copilot::tool_answer,
        stub::{LogEntry, Round, Rule, Script},
    },
};

/// The messages of each request to the model for a turn.
fn messages(scene: &Scene) -> Vec<Vec<Value>> {
    let turns = scene.stub.log().into_iter().filter(LogEntry::is_turn);
    turns
        .map(|it| {
            let body: Value = serde_json::from_slice(&it.body).expect("a request is JSON");
            body["messages"].as_array().expect("there are messages").clone()
        })
        .collect()
}

/// The record of a conversation.
fn kept(scene: &Scene, conversation: &str) -> String {
    let entries = std::fs::read_dir(scene.sandbox.runtime()).expect("it is there").flatten();
    let file = |it: std::fs::DirEntry| {
        std::fs::read_to_string(it.path().join("kept").join(conversation).join("partition-1.jsonl")).ok()
    };
    entries.filter_map(file).collect()
}

#[test]
fn exact_restore_repeats_every_message_verbatim() {
    let script = || {
        Script::default().rule(
            Rule::on("go")
                .then(Round::text("Asking.").call("fetch_ticket", json!({"key": "A b"})))
                .then(Round::text("Got {results}.\n").gate_after_text("go").more("Done.\n")),
        )
    };
    let scene = Scene::configured("exact_restore = true", script(), |it| it);
    let session = &scene.session;
    let file = scene.sandbox.write("a.rs", "fn a() {}\n");
    let reference =
        json!([{"type": "file", "uri": format!("file://{}", file.display()), "status": "included"}]);
    session.hold_tools();
    for (name, more) in [("lead", json!({})), ("part", tools(&["fetch_ticket"]))] {
        let mut create = more;
        create["conversationId"] = json!(name);
        create["references"] = reference.clone();
        session.finish(&session.create("first", create)).expect_success();
        assert!(kept(&scene, name).contains("user.message_rendered"));
        let turn = session.turn(&json!(name), &format!("{name} go"), json!({"references": reference}));
        let call =
            session.expect_request_where("conversation/invokeClientTool", |it| it["conversationId"] == name);
        kill_servers(session);
        session.answer(&call, Ok(tool_answer(Ok("late".to_owned()))));
        session.wait_progress(&turn, "the second round", |it| it.text.contains("Got late"));
        kill_servers(session);
        scene.stub.open("go");
        let outcome = session.finish(&turn);
        expect_whole(&outcome);
        session.finish(&session.turn(&json!(name), "and now?", json!({}))).expect_success();
        kill_servers(session);
        session.finish(&session.turn(&json!(name), "and then?", json!({}))).expect_success();
        let all: Vec<Vec<Value>> = messages(&scene)
            .into_iter()
            .filter(|it| Value::from(it.clone()).to_string().contains(&format!("{name} go")))
            .collect();
        let continues = |it: &Value| it["role"] == "user" && it.to_string().contains(&CONTINUE[..40]);
        // The messages before the question, the question, and the messages that the first process got.
        let first = &all[0];
        for later in &all {
            for (n, (was, is)) in first.iter().zip(later).enumerate() {
                assert_eq!(is, was, "message {n} of {name}");
            }
        }
        let last: Vec<&Value> = all.last().expect("it was asked").iter().filter(|it| continues(it)).collect();
        assert_eq!(last, Vec::<&Value>::new(), "what continued it is gone");
    }
    session.ok("conversation/destroy", json!({"conversationId": "lead"}));
    while !kept(&scene, "lead").is_empty() {
        std::thread::yield_now();
    }
    assert!(session.shutdown().success());
}
