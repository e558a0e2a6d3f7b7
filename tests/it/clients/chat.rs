//! Habits 6 and 8 to 10: tokens, tools that are registered again and again, names, cancelling, the rest of a chat.

use serde_json::{Value, json};

use super::{Stage, answer, said, same};
use crate::support::{
    copilot::{Copilot, tool},
    editor::{Entry, Sent},
    stub::{Round, Rule, Script},
};

/// Vim's tokens are numbers, and stay numbers. The `end` comes before the answer.
#[test]
fn integer_progress_tokens_pass_unchanged() {
    let came = same(Script::default, |stage| {
        let session = stage.start();
        let mut came = Vec::new();
        let first = session.create("hello", json!({"conversationId": "c", "workDoneToken": 1}));
        came.push(answer(session.finish(&first).answer));
        let second = session.turn(&json!("c"), "again", json!({"workDoneToken": 2}));
        came.push(answer(session.finish(&second).answer));
        for turn in [&first, &second] {
            let last =
                session.transcript().into_iter().filter(|it| concerns(it, &turn.token, &turn.pending.id));
            let last: Vec<Entry> = last.collect();
            let n = last.len();
            assert_eq!(last[n - 2].message["params"]["value"]["kind"], "end");
            assert_eq!(last[n - 1].message["id"], turn.pending.id);
            came.extend(session.progress(&turn.token).values);
        }
        came.extend(said(&session, &["$/progress"]).into_iter().map(|it| it[1]["token"].clone()));
        assert!(session.shutdown().success());
        came
    });
    assert!(came.contains(&json!(1)) && came.contains(&json!(2)));
}

fn concerns(entry: &Entry, token: &Value, id: &Value) -> bool {
    let progress = entry.method() == Some("$/progress") && entry.message["params"]["token"] == *token;
    entry.sent == Sent::ByServer && (progress || entry.method().is_none() && entry.message["id"] == *id)
}

/// copilot.el registers its tools after each answer to a create in agent mode, schemas that this server refuses
/// among them, and its further turns carry no `chatMode`.
#[test]
fn tools_can_be_registered_after_every_create() {
    let bad = json!({
        "name": "bad", "description": "No description on its property.",
        "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}, "required": []},
    });
    let came = same(Script::default, |stage| {
        let session = stage.start();
        let mut came = vec![answer(session.register_tools(&["fetch_ticket"]))];
        for conversation in ["one", "two"] {
            let params = json!({"conversationId": conversation});
            came.push(answer(session.finish(&session.create("hello", params)).answer));
            let batch = json!({"tools": [tool("good"), bad]});
            came.push(answer(session.call("conversation/registerTools", batch)));
            let turn = json!({
                "workDoneToken": format!("next in {conversation}"), "conversationId": conversation,
                "message": "[custom] and now?", "modelInfo": {"id": "gpt-4.1"}, "source": "panel",
            });
            came.push(answer(session.finish(&session.begin("conversation/turn", turn)).answer));
        }
        came.push(answer(session.register_tools(&["late_tool"])));
        let last = session.turn(&json!("one"), "[custom] once more", json!({}));
        came.push(answer(session.finish(&last).answer));
        came.extend(said(&session, &["conversation/invokeClientTool"]));
        for turn in stage.stub.turns() {
            came.push(json!([turn.user, turn.round, turn.tools, turn.results]));
        }
        assert!(session.shutdown().success());
        came
    });
    let refused = came.iter().filter(|it| it["error"]["code"] == -32602).count();
    assert_eq!(refused, 2, "both batches: {came:#?}");
    let last = came.last().expect("a turn")[2].to_string();
    assert!(last.contains("late_tool") && last.contains("fetch_ticket") && !last.contains("good"), "{last}");
}

fn file_tools() -> Script {
    Script::default()
        .rule(
            Rule::on("[make]")
                .then(
                    Round::default()
                        .call("create_file", json!({"filePath": "/etc/made.txt", "content": "x\n"})),
                )
                .then(Round::text("Made: {results}")),
        )
        .rule(
            Rule::on("[look]")
                .then(
                    Round::default().call(
                        "read_file",
                        json!({"filePath": "/etc/hostname", "startLine": 1, "endLine": 2}),
                    ),
                )
                .then(Round::text("Looked.")),
        )
}

/// A confirmation says `copilot.create_file`, the call itself `create_file`. Without folders, every file lies
/// outside of them.
#[test]
fn confirmation_and_call_keep_their_tool_names() {
    let play = |more: Value| {
        move |stage: &Stage| {
            let session = stage.start();
            session.register_tools(&["create_file", "run_in_terminal"]).expect("the schemas are good");
            let mut came = Vec::new();
            for (n, message) in ["[make] a file", "[look] at it", "[run] it"].into_iter().enumerate() {
                let mut params = json!({"conversationId": n, "workspaceFolders": []});
                for (key, value) in more.as_object().into_iter().flatten() {
                    params[key] = value.clone();
                }
                came.push(answer(session.finish(&session.create(message, params)).answer));
            }
            let asked = ["conversation/invokeClientToolConfirmation", "conversation/invokeClientTool"];
            came.extend(said(&session, &asked));
            assert!(session.shutdown().success());
            came
        }
    };
    let everything = same(file_tools, play(json!({})));
    let names: Vec<&Value> = everything.iter().map(|it| &it[1]["name"]).filter(|it| it.is_string()).collect();
    assert!(
        names.contains(&&json!("copilot.create_file")) && names.contains(&&json!("create_file")),
        "{names:?}"
    );
    // In a partition of these tools, the same is asked.
    let stage = Stage::new(file_tools(), true);
    let restricted =
        play(json!({"lspool": {"tools": ["create_file", "read_file", "run_in_terminal"]}}))(&stage);
    let names_there: Vec<&Value> =
        restricted.iter().map(|it| &it[1]["name"]).filter(|it| it.is_string()).collect();
    assert_eq!(names_there, names);
}

/// The user cancels and asks at once for something else: each request is answered, each turn ends, once.
#[test]
fn cancelled_turn_and_next_one_each_end_once() {
    let stage = Stage::new(Script::default(), true);
    let session = stage.start();
    let slow = session.create("[hang] please", json!({"conversationId": "c"}));
    session.wait_progress(&slow, "text", |it| it.text.contains("never ends"));
    session.cancel(&slow.pending);
    let next = session.turn(&json!("c"), "never mind", json!({}));
    let cancelled = session.finish(&slow);
    assert!(cancelled.answer.is_ok(), "{cancelled:?}");
    assert_eq!(cancelled.progress.ends.len(), 1);
    assert_eq!(cancelled.progress.ends[0]["cancellationReason"], "CancelledByUser");
    let next = session.finish(&next);
    next.expect_success();
    assert_eq!(next.progress.text, "Echo: never mind");
    assert!(session.shutdown().success());
}

/// A separate request during the chat.
#[test]
fn one_shot_conversation_runs_beside_chat() {
    let script = || Script::default().rule(Rule::on("[wait]").then(Round::text("Done.").gate("go")));
    same(script, |stage| {
        let session = stage.start();
        let chat = session.create("[wait] for it", json!({"conversationId": "chat"}));
        session.wait_progress(&chat, "begin", |it| it.begins == 1);
        let aside = session.create(
            "a commit message",
            json!({
                "conversationId": "aside", "chatMode": "Ask", "computeSuggestions": false,
            }),
        );
        let aside = session.finish(&aside);
        let destroyed = session.call("conversation/destroy", json!({"conversationId": "aside"}));
        stage.stub.open("go");
        let chat = session.finish(&chat);
        let came = vec![
            answer(aside.answer),
            json!(aside.progress.text),
            answer(destroyed),
            answer(chat.answer),
            json!(chat.progress.text),
        ];
        assert!(session.shutdown().success());
        came
    });
}

#[test]
fn other_conversation_requests_pass_unchanged() {
    let came = same(Script::default, |stage| {
        let session = stage.start();
        let mut came = Vec::new();
        for turn in ["one", "two", "three"] {
            let more = json!({"conversationId": "c", "turnId": turn});
            let turn = match turn {
                "one" => session.create(
                    "one",
                    json!({"conversationId": "c", "turns": [{"request": "one", "turnId": "one"}]}),
                ),
                _ => session.turn(&json!("c"), turn, more),
            };
            came.push(answer(session.finish(&turn).answer));
        }
        for (method, params) in [
            ("conversation/turnDelete", json!({"conversationId": "c", "turnId": "two"})),
            ("conversation/rating", json!({"turnId": "one", "rating": 1})),
            (
                "conversation/copyCode",
                json!({"turnId": "one", "codeBlockIndex": 0, "source": "keyboard", "copiedCharacters": 1, "totalCharacters": 2, "copiedText": "x"}),
            ),
            ("conversation/compress", json!({"conversationId": "c"})),
            ("conversation/modes", json!({})),
            ("conversation/templates", json!({"_": true})),
            ("conversation/agents", json!({})),
            ("conversation/preconditions", json!({})),
            ("mcp/getTools", json!({})),
            ("copilot/models", json!({})),
            ("getVersion", json!({})),
            ("no/such/method", json!({"conversationId": "c"})),
        ] {
            came.push(json!([method, answer(session.call(method, params))]));
        }
        came.extend(said(&session, &["$/copilot/compressionStarted", "$/copilot/compressionCompleted"]));
        let history = session.turn(&json!("c"), "[history]", json!({}));
        came.push(json!(session.finish(&history).progress.text));
        assert!(session.shutdown().success());
        came
    });
    let text = Value::Array(came).to_string();
    assert!(text.contains("compressionStarted") && text.contains("HISTORY="), "{text}");
}

/// The same in a conversation of another partition, whose process gets the requests about it.
#[test]
fn conversation_requests_go_to_its_partition() {
    let stage = Stage::new(Script::default(), true);
    let session: Copilot = stage.start();
    let first = session.create("one", json!({"conversationId": "c", "lspool": {"tools": ["read_file"]}}));
    session.finish(&first).expect_success();
    let second = session.turn(&json!("c"), "two", json!({"turnId": "two"}));
    session.finish(&second).expect_success();
    session.ok("conversation/turnDelete", json!({"conversationId": "c", "turnId": "two"}));
    let history = session.finish(&session.turn(&json!("c"), "[history]", json!({})));
    assert!(history.progress.text.contains("one") && !history.progress.text.contains("two"), "{history:?}");
    let compressed = session.ok("conversation/compress", json!({"conversationId": "c"}));
    assert_eq!(compressed["conversationId"], "c");
    assert_eq!(said(&session, &["$/copilot/compressionStarted"]).len(), 1);
    assert!(session.shutdown().success());
}
