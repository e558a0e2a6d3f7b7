//! Tool calls of several processes of the real Copilot server at once: each answer reaches the one that asked.

use serde_json::{Value, json};

use super::{
    partitions::{servers, through_lspool, tools},
    support::{
        copilot::{Copilot, tool_answer},
        editor::ServerRequest,
        real::Sandbox,
        stub::{Round, Rule, Script, Stub},
    },
};

/// A model that asks for two tickets at once.
fn two_tickets(of: &str) -> Rule {
    let key = |n: u32| json!({"key": format!("{of}-{n}")});
    Rule::on(format!("tickets of {of}"))
        .then(Round::text(format!("{of} asks.\n")).call("fetch_ticket", key(1)).call("fetch_ticket", key(2)))
        .then(Round::text("Got {results}"))
}

fn call_for(session: &Copilot, key: &str) -> ServerRequest {
    session.expect_request_where("conversation/invokeClientTool", |params| params["input"]["key"] == *key)
}

#[test]
fn answers_in_reverse_order_reach_their_own_models() {
    let names = ["lead", "first", "second"];
    let script = names.iter().fold(Script::default(), |script, name| script.rule(two_tickets(name)));
    let stub = Stub::start(script);
    let sandbox = Sandbox::new();
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["fetch_ticket", "other_tool"]).expect("the schemas are good");
    session.hold_tools();

    // Fresh processes count their requests from the same number on.
    let sets = [Value::Null, tools(&["fetch_ticket"]), tools(&["fetch_ticket", "other_tool"])];
    let turns: Vec<_> = names
        .iter()
        .zip(sets)
        .map(|(name, set)| session.create(&format!("tickets of {name}"), set))
        .collect();
    for round in [1, 2] {
        let calls: Vec<_> = names.iter().map(|name| call_for(&session, &format!("{name}-{round}"))).collect();
        assert_eq!(servers(&session), 3);
        for (turn, call) in turns.iter().zip(&calls) {
            assert_eq!(call.params["conversationId"], session.progress(&turn.token).conversation);
        }
        for (name, call) in names.iter().zip(&calls).rev() {
            let text = format!("ticket {round} of {name}");
            session.answer(call, Ok(tool_answer(Ok(text))));
        }
    }
    for (name, turn) in names.iter().zip(&turns) {
        let outcome = session.finish(turn);
        outcome.expect_success();
        let results = [format!("ticket 1 of {name}"), format!("ticket 2 of {name}")];
        let told = stub.turns().into_iter().find(|it| it.user.ends_with(name) && it.round == 1);
        assert_eq!(told.expect("the model was told").results, results, "{name}");
        assert!(outcome.progress.text.ends_with(&format!("Got {}", results.join(" | "))), "{name}");
        assert!(outcome.progress.tool_calls.iter().all(|it| it["status"] == "completed"));
    }
    assert!(session.shutdown().success());
}

#[test]
fn failing_tool_harms_no_other_partition() {
    let names = ["first", "second", "third"];
    let script = names.iter().fold(Script::default(), |script, name| script.rule(two_tickets(name)));
    let stub = Stub::start(script);
    let sandbox = Sandbox::new();
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["fetch_ticket", "other_tool"]).expect("the schemas are good");
    let calls = |name: &'static str| {
        move |input: &Value| match input["key"].as_str() {
            Some(key) if key.starts_with("second") => Err(format!("{name} broke")),
            key => Ok(format!("{name} {}", key.unwrap_or_default())),
        }
    };
    session.on_tool("fetch_ticket", calls("fetch_ticket"));
    // The model of the third calls what its process does not have.
    let sets = [tools(&["fetch_ticket"]), tools(&["fetch_ticket", "other_tool"]), tools(&["other_tool"])];
    let turns: Vec<_> = names
        .iter()
        .zip(sets)
        .map(|(name, set)| session.create(&format!("tickets of {name}"), set))
        .collect();
    let texts: Vec<String> = turns
        .iter()
        .map(|turn| {
            let outcome = session.finish(turn);
            outcome.expect_success();
            outcome.progress.text
        })
        .collect();
    assert!(texts[0].ends_with("Got fetch_ticket first-1 | fetch_ticket first-2"), "{texts:?}");
    assert!(texts[1].contains("fetch_ticket broke"), "{texts:?}");
    assert!(texts[2].contains("fetch_ticket not found"), "{texts:?}");
    assert_eq!(session.tool_calls().len(), 4, "{:?}", session.tool_calls());
    assert!(session.shutdown().success());
}
