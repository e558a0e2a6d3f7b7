//! Conversations with the real Copilot server: with any ids and tokens, each continues where it began.

use serde_json::{Value, json};

use super::{
    partitions::{lspool, offered, servers, through_lspool, tools},
    support::{
        copilot::{Copilot, Options, Turn, tool_answer, uri},
        real::Sandbox,
        stub::{Chat, LogEntry, Round, Rule, Script, Stub},
    },
};

/// The requests to the model of a conversation, question by question.
fn history(session: &Copilot, conversation: &Value) -> String {
    let outcome = session.finish(&session.turn(conversation, "[history]", Value::Null));
    assert_eq!(outcome.conversation(), *conversation);
    outcome.progress.text
}

fn said(question: &str, answer: &str) -> String {
    format!(r#"HISTORY=[["user","{question}"],["assistant","{answer}"],["user","[history]"]]"#)
}

fn asked(stub: &Stub, question: &str) -> Vec<Chat> {
    stub.turns().into_iter().filter(|it| it.user == question).collect()
}

#[test]
fn conversation_ids_keep_type_and_missing_ones_are_generated() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["fetch_ticket"]).expect("the schema is good");
    let restricted = tools(&["fetch_ticket"]);
    let ids = [
        ("text", json!({"conversationId": "4711", "lspool": {"tools": ["fetch_ticket"]}})),
        ("number", json!({"conversationId": 4711})),
        ("empty", json!({"conversationId": "", "lspool": {"tools": ["fetch_ticket"]}})),
        ("zero", json!({"conversationId": 0, "lspool": {"tools": ["fetch_ticket"]}})),
        ("null", json!({"conversationId": null, "lspool": {"tools": ["fetch_ticket"]}})),
        ("none in a partition", restricted.clone()),
        ("none in the primary", Value::Null),
    ];
    let conversations: Vec<Value> = ids
        .iter()
        .map(|(name, more)| {
            let outcome = session.finish(&session.create(name, more.clone()));
            let conversation = outcome.conversation();
            assert_eq!(outcome.progress.conversation, conversation, "{name}");
            match &more["conversationId"] {
                Value::Null => assert!(conversation.is_string(), "{name}: {conversation}"),
                own => assert_eq!(conversation, *own, "{name}"),
            }
            conversation
        })
        .collect();
    for ((name, _), conversation) in ids.iter().zip(&conversations) {
        assert_eq!(history(&session, conversation), said(name, &format!("Echo: {name}")));
    }

    // Destroyed: the server takes strings only, and a number lives on.
    assert_eq!(session.ok("conversation/destroy", json!({"conversationId": "4711"})), "OK");
    let gone = session.finish(&session.turn(&json!("4711"), "again", Value::Null));
    let error = gone.answer.expect_err("it is gone");
    assert!(error.message.ends_with("Conversation with id 4711 does not exist"), "{error}");
    let number = session.call("conversation/destroy", json!({"conversationId": 4711}));
    assert_eq!(number.expect_err("no string").code, -32602);
    assert!(history(&session, &json!(4711)).contains("Echo: number"));
    let unknown = session.call("conversation/destroy", json!({"conversationId": "nobody"}));
    assert!(unknown.is_ok(), "{unknown:?}");
    let odd = session.create("odd", json!({"conversationId": {}, "lspool": {"tools": []}}));
    assert_eq!(session.finish(&odd).answer.expect_err("no id").code, -32602);
    assert_eq!(servers(&session), 2);
    assert!(session.shutdown().success());
}

#[test]
fn conversations_can_share_one_progress_token() {
    let stub = Stub::start(
        Script::default().rule(Rule::on("[wait]").then(Round::text("Working.\n").gate_after_text("go"))),
    );
    let sandbox = Sandbox::new();
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["fetch_ticket"]).expect("the schema is good");
    let one = |more: Value| {
        let mut params = json!({"workDoneToken": "same"});
        for (name, value) in more.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        params
    };
    let begun = [
        ("primary", json!({"conversationId": "primary"})),
        ("here", json!({"conversationId": "here", "lspool": {"tools": ["fetch_ticket"]}})),
        ("too", json!({"conversationId": "too", "lspool": {"tools": ["fetch_ticket"]}})),
    ]
    .map(|(name, more)| (name, session.create(&format!("[wait] {name}"), one(more))));
    session.wait_progress(&begun[0].1, "all three", |it| it.text == "Working.\n".repeat(3));
    stub.open("go");
    for (name, turn) in &begun {
        assert_eq!(session.wait(&turn.pending).expect("success")["conversationId"], *name);
    }
    let values = session.progress(&json!("same")).values;
    for (name, _) in &begun {
        let own: Vec<&Value> = values.iter().filter(|it| it["conversationId"] == **name).collect();
        let n = |kind: &str| own.iter().filter(|it| it["kind"] == kind).count();
        assert_eq!((n("begin"), n("end")), (1, 1), "{name}");
        assert_eq!((&own[0]["kind"], &own[own.len() - 1]["kind"]), (&json!("begin"), &json!("end")));
    }
    assert!(session.shutdown().success());
}

#[test]
fn turns_of_one_conversation_run_one_by_one() {
    let wait = |id: &str| {
        Rule::on(format!("[wait] {id}")).then(Round::text("Working.\n").gate_after_text(format!("go {id}")))
    };
    let stub = Stub::start(Script::default().rule(wait("lead")).rule(wait("agent")));
    let sandbox = Sandbox::new();
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["fetch_ticket"]).expect("the schema is good");
    for (id, more) in [("lead", Value::Null), ("agent", tools(&["fetch_ticket"]))] {
        let mut more = more;
        more["conversationId"] = id.into();
        let first = session.create(&format!("[wait] {id}"), more.clone());
        session.wait_progress(&first, "its first line", |it| !it.text.is_empty());
        let second = session.turn(&json!(id), &format!("second of {id}"), Value::Null);
        let third = session.turn(&json!(id), "[history]", Value::Null);
        // Another conversation in the same process is not held up, and by then the second turn would have begun.
        more["conversationId"] = format!("beside {id}").into();
        session.finish(&session.create("beside", more)).expect_success();
        assert_eq!(session.progress(&second.token).begins, 0);
        assert!(asked(&stub, &format!("second of {id}")).is_empty());
        stub.open(&format!("go {id}"));
        for turn in [&first, &second] {
            session.finish(turn).expect_success();
        }
        let third = session.finish(&third);
        third.expect_success();
        let dialogue = [
            ["user", &format!("[wait] {id}")],
            ["assistant", "Working.\n"],
            ["user", &format!("second of {id}")],
            ["assistant", &format!("Echo: second of {id}")],
            ["user", "[history]"],
        ];
        assert_eq!(third.progress.text, format!("HISTORY={}", json!(dialogue)));
        let ends_before = |one: &Turn, other: &Turn| {
            let entries = session.transcript();
            let at = |turn: &Turn, kind: &str| {
                entries.iter().position(|it| {
                    let params = &it.message["params"];
                    params["token"] == turn.token && params["value"]["kind"] == kind
                })
            };
            at(one, "end") < at(other, "begin")
        };
        assert!(ends_before(&first, &second));
    }
    assert!(session.shutdown().success());
}

#[test]
fn conversation_with_same_id_replaces_earlier_one() {
    let script = Script::default().rule(
        Rule::on("[ask]")
            .then(Round::text("Asking.\n").call("fetch_ticket", json!({"key": "1"})))
            .then(Round::text("Got {results}")),
    );
    let stub = Stub::start(script);
    let sandbox = Sandbox::new();
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["fetch_ticket", "other_tool"]).expect("the schemas are good");
    let same = |set: Option<&[&str]>| match set {
        Some(set) => json!({"conversationId": "same", "lspool": {"tools": set}}),
        None => json!({"conversationId": "same"}),
    };
    let sets: [(&str, Option<&[&str]>); 5] = [
        ("first", Some(&["fetch_ticket"])),
        ("second", Some(&["fetch_ticket"])),
        ("third", Some(&["other_tool"])),
        ("fourth", None),
        ("fifth", Some(&["fetch_ticket"])),
    ];
    for (name, set) in sets {
        session.finish(&session.create(name, same(set))).expect_success();
        assert_eq!(history(&session, &json!("same")), said(name, &format!("Echo: {name}")));
        let last = asked(&stub, "[history]").pop().expect("it was asked");
        if let Some(set) = set {
            assert_eq!(offered(&last), set.iter().copied().collect(), "{name}");
        }
    }

    // Replaced during a turn: the new one runs in its own process, and the old one still gets its answer.
    session.hold_tools();
    let old = session.create("[ask] old", same(Some(&["fetch_ticket"])));
    let call = session.expect_request("conversation/invokeClientTool");
    let new = session.finish(&session.create("new", same(Some(&["other_tool"]))));
    new.expect_success();
    session.answer(&call, Ok(tool_answer(Ok("late".to_owned()))));
    assert!(session.wait(&old.pending).is_ok());
    assert_eq!(history(&session, &json!("same")), said("new", "Echo: new"));
    assert_eq!(servers(&session), 3);
    assert!(session.shutdown().success());
}

/// A model that leaves a task to a sub-agent, whose model calls a tool.
pub(super) fn delegation() -> Rule {
    let task = json!({"task": "[custom] subtask", "agentName": "helper", "description": "sub"});
    Rule::on("[delegate]")
        .then(Round::default().call("run_subagent", task))
        .then(Round::text("Delegated: {results}"))
}

/// An editor that has sub-agents, and one named helper.
pub(super) fn with_helper(sandbox: &Sandbox, stub: &Stub) -> Copilot {
    let mut options = Options::in_workspace(sandbox.workspace());
    options.copilot_capabilities = json!({"subAgent": true, "manageTodoListTool": true});
    let session = Copilot::start(lspool(sandbox, stub), options);
    let helper = sandbox.write("helper.agent.md", "---\nname: helper\ndescription: Helps.\n---\nHelp.\n");
    let helper = json!({"uri": uri(&helper), "name": "helper", "description": "Helps."});
    session.ok("customAgent/registerExtensionAgents", json!({"extensionId": "test", "agents": [helper]}));
    session.register_tools(&["fetch_ticket", "other_tool"]).expect("the schemas are good");
    session
}

#[test]
fn sub_agent_conversation_stays_in_partition_of_parent() {
    let stub = Stub::start(Script::default().rule(delegation()));
    let sandbox = Sandbox::new();
    let session = with_helper(&sandbox, &stub);
    session.on_tool("fetch_ticket", |input| Ok(format!("ticket {}", input["key"])));
    let sets: [(&str, Option<&[&str]>, bool); 3] = [
        ("both", Some(&["run_subagent", "fetch_ticket"]), true),
        ("lead", None, true),
        ("no tickets", Some(&["run_subagent", "other_tool"]), false),
    ];
    for (name, set, has_ticket) in sets {
        let mut more = set.map_or(Value::Null, tools);
        more["conversationId"] = name.into();
        let calls = session.tool_calls().len();
        let seen = stub.log().len();
        let outcome = session.finish(&session.create("[delegate]", more));
        outcome.answer.as_ref().expect("success");
        let nested: Vec<&Value> =
            outcome.progress.values.iter().filter(|it| it["parentTurnId"].is_string()).collect();
        let child = &nested[0]["conversationId"];
        assert_eq!((&nested[0]["kind"], child == name), (&json!("begin"), false), "{name}");
        assert_eq!(outcome.progress.ends.len(), 1, "{name}");
        let calls = &session.tool_calls()[calls..];
        assert_eq!(calls.len(), usize::from(has_ticket), "{name}");
        if has_ticket {
            assert_eq!(calls[0].params["conversationId"], *child, "{name}");
            assert!(outcome.progress.text.contains("ABC-1"), "{name}: {}", outcome.progress.text);
        }
        let log = stub.log();
        let children: Vec<&Chat> = log[seen..]
            .iter()
            .filter(|it| it.is_turn())
            .filter_map(|it: &LogEntry| it.chat.as_ref())
            .filter(|it| it.user.contains("subtask"))
            .collect();
        assert_eq!(children.len(), 2, "{name}");
        for chat in children {
            match set {
                Some(set) => {
                    let foreign: Vec<&str> =
                        offered(chat).into_iter().filter(|it| !set.contains(it)).collect();
                    assert!(foreign.is_empty(), "{name} offers {foreign:?}");
                }
                None => assert!(offered(chat).contains("list_dir")),
            }
        }
        let history = history(&session, &json!(name));
        assert!(history.contains("[delegate]"), "{history}");
    }
    assert_eq!(servers(&session), 3);
    assert!(session.shutdown().success());
}
