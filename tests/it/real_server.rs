//! The real Copilot server, driven directly: the assumptions of the tests are true, and the stub serves it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::support::{
    copilot::{self, Copilot, Options},
    editor::TestEditor,
    real::{self, Sandbox},
    stub::{Outcome, Script, Stub},
};

#[test]
fn agent_turn_calls_client_tool() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let session = Copilot::start(sandbox.copilot(&stub), Options::in_workspace(sandbox.workspace()));
    session.register_tools(&["fetch_ticket", "other_tool"]).expect("the schemas are good");
    session.on_tool("fetch_ticket", |input| Ok(format!("ticket {}", input["key"])));

    let turn = session.create("[custom] which ticket?", json!({"conversationId": "mine"}));
    let outcome = session.finish(&turn);

    assert_eq!(outcome.conversation(), "mine");
    assert_eq!(outcome.progress.text, "Ticket: ticket \"ABC-1\"");
    assert_eq!(outcome.progress.ends[0]["suggestedTitle"], "Stub title");
    assert_eq!(outcome.progress.tool_calls.len(), 1);
    assert_eq!(outcome.progress.tool_calls[0]["status"], "completed");
    let calls = session.tool_calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].name, "fetch_ticket");
    assert_eq!(calls[0].params["conversationId"], "mine");

    let turns = stub.turns();
    assert_eq!(turns.iter().map(|turn| turn.round).collect::<Vec<_>>(), [0, 1]);
    for turn in &turns {
        assert_eq!(turn.user, "[custom] which ticket?");
        assert_eq!(turn.model, "gpt-4.1");
        assert_eq!(turn.interaction.as_deref(), outcome.progress.turn.as_str());
        let tools: BTreeSet<&str> = turn.tools.iter().map(String::as_str).collect();
        assert!(tools.contains("fetch_ticket") && tools.contains("other_tool") && tools.contains("list_dir"));
    }
    assert_eq!(turns[1].results, ["ticket \"ABC-1\""]);
    assert!(session.shutdown().success());
    assert_nothing_leaves_loopback(&stub);
}

/// One server, many kinds of answers: the stub's scripts do to the real server what they say.
#[test]
fn scripts_control_answers_of_model() {
    let script: Script = serde_json::from_value(json!({
        "rules": [{"match": "[gated]", "model": "gpt-4*", "rounds": [
            {"text": "Line one.\n", "gate_after_text": "go", "tool_calls": [{"name": "fetch_ticket", "arguments": {"key": "{ws}"}}]},
            {"text": "Then {results}"},
        ]}],
    }))
    .expect("a script");
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "alpha\n");
    let workspace = sandbox.workspace().display().to_string();
    let stub = Stub::start(script.workspace(&workspace));
    let session = Copilot::start(sandbox.copilot(&stub), Options::in_workspace(sandbox.workspace()));
    session.register_tools(&["read_file", "run_in_terminal", "fetch_ticket"]).expect("the schemas are good");
    session.on_tool("read_file", |_| Ok("alpha".to_owned()));
    session.on_tool("run_in_terminal", |_| Err("no terminal".to_owned()));
    session
        .on_tool("fetch_ticket", |input| Ok(format!("ticket {}", input["key"].as_str().unwrap_or_default())));
    let say = |message: &str, more: Value| session.finish(&session.create(message, more));
    let text = |message: &str| {
        let outcome = say(message, Value::Null);
        outcome.expect_success();
        outcome.progress.text
    };

    assert_eq!(text("[read]"), "I will read the file.The file says: alpha");
    assert!(text("[run]").contains("no terminal"));
    assert_eq!(text("[parallel]"), "Two at once.Both: ticket ABC-1 | ticket ABC-2");
    assert!(text("[multi]").starts_with("Step one.Step two.All done: ticket STEP-1 | "));
    assert!(text("[builtin]").contains("a.txt"));
    assert!(text("[unknown-tool]").contains("no_such_tool not found"));
    assert!(text("[tools]").starts_with("TOOLS="));
    assert_eq!(say("[error-once]", Value::Null).progress.ends[0]["error"]["code"], 503);
    assert_eq!(text("[error-once]"), "Recovered.");
    let responses = say("[custom]", json!({"modelInfo": {"id": "gpt-stub-responses"}}));
    responses.expect_success();
    assert_eq!(responses.progress.text, "Ticket: ticket ABC-1");

    let gated = session.create("[gated]", Value::Null);
    session.wait_progress(&gated, "the text ahead of the gate", |progress| progress.text == "Line one.\n");
    stub.open("go");
    let gated = session.finish(&gated);
    gated.expect_success();
    assert_eq!(gated.progress.text, format!("Line one.\nThen ticket {workspace}"));

    let conversation = responses.conversation();
    let history = session.finish(&session.turn(&conversation, "[history]", Value::Null));
    assert_eq!(
        history.progress.text,
        r#"HISTORY=[["user","[custom]"],["call","fetch_ticket"],["result","ticket ABC-1"],["assistant","Ticket: ticket ABC-1"],["user","[history]"]]"#
    );

    let hanging = session.create("[hang]", Value::Null);
    session.wait_progress(&hanging, "the text of the reply", |progress| !progress.text.is_empty());
    session.cancel(&hanging.pending);
    let hanging = session.finish(&hanging);
    assert_eq!(hanging.progress.ends[0]["cancellationReason"], "CancelledByUser");
    stub.wait_for("that the client has gone", |log| {
        log.iter().any(|entry| entry.outcome == Outcome::Aborted)
    });

    let failed = say("[quota]", Value::Null);
    assert!(failed.progress.ends[0]["error"].is_object(), "{:#?}", failed.progress.ends);
    let cut = say("[drop]", Value::Null);
    assert!(cut.progress.ends[0]["error"].is_object(), "{:#?}", cut.progress.ends);
    assert!(session.shutdown().success());
}

#[test]
fn inline_completion_returns_scripted_text() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let file = sandbox.write("a.py", "");
    let session = Copilot::start(sandbox.copilot(&stub), Options::in_workspace(sandbox.workspace()));
    let text = "def add(a, b):\n    ";
    let document = json!({"uri": copilot::uri(&file), "languageId": "python", "version": 1, "text": text});
    session.notify("textDocument/didOpen", json!({"textDocument": document}));
    let answer = session.ok(
        "textDocument/inlineCompletion",
        json!({
            "textDocument": {"uri": copilot::uri(&file), "version": 1},
            "position": {"line": 1, "character": 4}, "context": {"triggerKind": 1},
            "formattingOptions": {"tabSize": 4, "insertSpaces": true},
        }),
    );
    let inserted = answer["items"][0]["insertText"].as_str().unwrap_or_default();
    assert!(inserted.ends_with("return a + b"), "{answer}");
    assert!(session.shutdown().success());
}

#[test]
fn device_flow_signs_in_over_tls() {
    let stub = Stub::start_with_tls(Script::default());
    let sandbox = Sandbox::new();
    let mut command = sandbox.copilot_command(real::copilot(), &stub);
    command.arg("--stdio");
    let settings = json!({"telemetry": {"telemetryLevel": "off"}, "http": {"proxy": stub.url()}});
    let session = Copilot::start(command, Options { settings, ..Options::default() });

    let prompt = session.ok("signIn", json!({}));
    assert_eq!(prompt["status"], "PromptUserDeviceFlow");
    assert_eq!(prompt["userCode"], "STUB-0000");
    let done = session.ok("workspace/executeCommand", prompt["command"].clone());
    assert_eq!((&done["status"], &done["user"]), (&json!("OK"), &json!("stub-user")));
    session.check_signed_in();

    let log = stub.log();
    let polled: Vec<&str> = log
        .iter()
        .filter(|entry| entry.path.starts_with("/login/"))
        .inspect(|entry| assert_eq!(entry.host, "github.com"))
        .map(|entry| entry.path.as_str())
        .collect();
    assert_eq!(polled, ["/login/device/code", "/login/oauth/access_token", "/login/oauth/access_token"]);
    assert!(session.shutdown().success());
}

#[test]
fn npm_wrapper_serves_like_native_binary() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let mut command = sandbox.signed_in_command("node", &stub);
    command.arg(real::copilot_wrapper()).arg("--stdio");
    let session = Copilot::start(command, Options::default());
    session.check_signed_in();
    let outcome = session.finish(&session.create("hello", Value::Null));
    outcome.expect_success();
    assert_eq!(outcome.progress.text, "Echo: hello");
    let mark = session.mark().clone();
    assert!(session.shutdown().success());
    mark.wait_gone(std::time::Duration::from_secs(5));
}

#[test]
fn every_other_server_starts() {
    let sandbox = Sandbox::new();
    for (program, arguments, name) in [
        (real::pyright(), &["--stdio"][..], "pyright"),
        (real::typescript(), &["--stdio"], "typescript-language-server"),
        (real::pylsp(), &[], "pylsp"),
        (real::ruff(), &["server"], "ruff"),
    ] {
        let mut command = sandbox.command(program);
        command.args(arguments);
        let editor = TestEditor::spawn(command);
        let params = json!({"processId": std::process::id(), "rootUri": null, "capabilities": {}});
        let answer = editor.ok("initialize", params);
        assert!(!answer["capabilities"]["hoverProvider"].is_null(), "{name}: {answer}");
        let server = answer["serverInfo"]["name"].as_str();
        assert!(server.is_none_or(|server| server == name), "{name} calls itself {server:?}");
        editor.notify("initialized", json!({}));
        assert!(editor.shutdown().success(), "{name}");
    }
    let version = sandbox.command(real::nvim()).arg("--version").output().expect("Neovim runs");
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("NVIM v0.11"));
}

/// The server tries a host for experiments although telemetry is off; the proxy does not let it through.
fn assert_nothing_leaves_loopback(stub: &Stub) {
    let log = stub.log();
    let refused: Vec<&str> = log
        .iter()
        .filter(|entry| entry.outcome == Outcome::Refused)
        .map(|entry| entry.path.as_str())
        .collect();
    assert!(refused.contains(&"copilot-telemetry.githubusercontent.com:443"), "refused: {refused:?}");
    for entry in log.iter().filter(|entry| entry.outcome != Outcome::Refused) {
        let host = if entry.method == "CONNECT" { &entry.path } else { &entry.host };
        assert_eq!(stub.url(), format!("http://{host}"), "{} {}", entry.method, entry.path);
    }
}
