//! Turns that ended in any way: the next process shows the model what a process that had lived on would have shown.

use serde_json::{Value, json};

use super::{Scene, kill_servers};
use crate::support::{
    copilot::tool_answer,
    stub::{Round, Rule, Said, Script},
};

const INVOKE: &str = "conversation/invokeClientTool";

/// The history of a conversation in a further turn, as the model is shown it.
fn shown(scene: &Scene, conversation: &str, question: &str) -> Vec<Said> {
    let turn = scene.session.turn(&json!(conversation), question, json!({}));
    scene.session.finish(&turn).expect_success();
    let asked = scene.stub.turns().into_iter().rfind(|it| it.user == question);
    let mut history = asked.expect("it was asked").history;
    assert_eq!(history.pop(), Some(Said::User(question.to_owned())));
    history
}

#[test]
fn turns_that_ended_badly_are_restored_as_the_model_was_shown_them() {
    let ticket = |key: &str| json!({"key": key});
    let script = Script::default()
        .rule(Rule::on("[mute]").then(Round::text("")))
        .rule(Rule::on("[blank]").then(Round::text(" \n")))
        .rule(
            Rule::on("[fails-later]").then(Round::text("Asking.").call("fetch_ticket", ticket("1"))).then(
                Round::status(402).body(json!({"error": {"code": "quota_exceeded", "message": "quota"}})),
            ),
        )
        .rule(
            Rule::on("[silent-call]")
                .then(Round::default().call("fetch_ticket", ticket("1")))
                .then(Round::text("")),
        );
    let scene = Scene::new(script);
    let session = &scene.session;
    session.on_tool("fetch_ticket", |_| Ok("a ticket".to_owned()));
    let ends_by_itself = [
        "[drop]",
        "[quota]",
        "[builtin]",
        "[parallel]",
        "[mute]",
        "[blank]",
        "[fails-later]",
        "[silent-call]",
    ];
    // A later question must not look like the first, by which the stub chooses its answer.
    let name = |question: &str| question.trim_matches(['[', ']']).to_owned();
    for question in ends_by_itself {
        session.finish(&session.create(question, json!({"conversationId": name(question)})));
    }
    // One is cancelled while the model writes, one while a tool runs.
    let turn = session.create("[slow]", json!({"conversationId": "slow"}));
    session.wait_progress(&turn, "text", |it| it.text.contains("Slow line.\nSlow line.\n"));
    session.editor().cancel(&turn.pending);
    session.finish(&turn);
    session.hold_tools();
    let turn = session.create("[multi]", json!({"conversationId": "multi"}));
    let call = session.expect_request(INVOKE);
    session.editor().cancel(&turn.pending);
    session.finish(&turn);
    session.answer(&call, Ok(tool_answer(Ok("too late".to_owned()))));
    let all: Vec<String> = ends_by_itself.into_iter().chain(["[slow]", "[multi]"]).map(name).collect();
    let live: Vec<Vec<Said>> = all.iter().map(|it| shown(&scene, it, &format!("live {it}?"))).collect();
    kill_servers(session);
    let mut differ: Vec<Value> = Vec::new();
    for (name, live) in all.iter().zip(live) {
        let mut restored = shown(&scene, name, &format!("restored {name}?"));
        restored.truncate(live.len());
        if restored != live {
            differ.push(
                json!({"turn": name, "live": format!("{live:?}"), "restored": format!("{restored:?}")}),
            );
        }
    }
    assert!(differ.is_empty(), "{:#}", json!(differ));
    assert!(session.shutdown().success());
}
