//! Between two turns.

use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::kill_servers;
use crate::{
    partitions::{through_lspool, tools},
    support::{
        editor::PATIENCE,
        real::Sandbox,
        stub::{Said, Script, Stub},
    },
};

fn survives(more: &Value) {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
    session.on_tool("fetch_ticket", |_| Ok("it is about colors".to_owned()));
    let turn = session.create("[custom] which ticket?", {
        let mut all = json!({"conversationId": "mine"});
        all.as_object_mut().expect("it is an object").extend(more.as_object().expect("it is one").clone());
        all
    });
    session.finish(&turn).expect_success();
    kill_servers(&session);
    let turn = session.turn(&json!("mine"), "and now?", json!({}));
    let outcome = session.finish(&turn);
    assert_eq!(outcome.conversation(), "mine");
    assert_eq!((outcome.progress.begins, outcome.progress.ends.len()), (1, 1));
    assert_eq!(outcome.progress.text, "Echo: and now?");
    let last = stub.turns().pop().expect("it was asked");
    let said = |it: &Said| match it {
        Said::User(text) => format!("user {text}"),
        Said::Assistant(text) => format!("assistant {text}"),
        Said::Call(name) => format!("call {name}"),
        Said::Result(text) => format!("result {text}"),
    };
    let history: Vec<String> = last.history.iter().map(said).collect();
    assert_eq!(
        history,
        [
            "user [custom] which ticket?",
            "call fetch_ticket",
            "result it is about colors",
            "assistant Ticket: it is about colors",
            "user and now?"
        ]
    );
    // The server's files are gone, and the next turn needs none.
    let transcripts = || {
        let left = fs::read_dir(sandbox.runtime()).expect("it is there").flatten();
        let folders = left.filter(|it| it.path().is_dir() && it.file_name() != "lspool");
        folders.flat_map(|it| fs::read_dir(it.path()).into_iter().flatten()).count()
    };
    let start = Instant::now();
    while transcripts() > 0 {
        assert!(start.elapsed() < PATIENCE, "a transcript is left: {}", transcripts());
        sleep(Duration::from_millis(10));
    }
    let turn = session.turn(&json!("mine"), "a third", json!({}));
    session.finish(&turn).expect_success();
    assert!(session.shutdown().success());
}

#[test]
fn primary_conversation_survives_idle_crash() {
    survives(&json!({}));
}

#[test]
fn partition_conversation_survives_idle_crash() {
    survives(&tools(&["fetch_ticket"]));
}
