//! The real Copilot server, driven directly: what the tests know of it is true, and the stub serves it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::support::{
    copilot::{Copilot, Options},
    real::{self, Sandbox},
    stub::{Outcome, Script, Stub},
};

#[test]
fn agent_turn_with_a_client_tool() {
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

#[test]
fn device_flow_over_tls() {
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
fn the_wrapper_of_the_npm_package_serves_as_well() {
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
