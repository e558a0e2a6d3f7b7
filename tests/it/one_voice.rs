//! Several processes of the real Copilot server, and the editor hears one. MCP servers run only where they are wanted.

use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::{Value, json};

use super::{
    partitions::{lspool, offered, servers, tools},
    support::{
        copilot::{Copilot, Options},
        editor::{Entry, Sent},
        real::{self, Sandbox},
        stub::{Chat, Round, Rule, Script, Stub},
    },
};

/// How often the server has said or asked each thing, progress and the log apart.
fn heard(entries: &[Entry]) -> BTreeMap<String, usize> {
    let mut heard = BTreeMap::new();
    for entry in entries.iter().filter(|it| it.sent == Sent::ByServer) {
        let Some(method) = entry.method() else { continue };
        if !["$/progress", "window/logMessage", "workspace/configuration"].contains(&method) {
            *heard.entry(method.to_owned()).or_default() += 1;
        }
    }
    heard
}

fn pulls(entries: &[Entry]) -> usize {
    let pull = |it: &&Entry| {
        it.method() == Some("workspace/configuration")
            && it.message["params"]["items"].to_string().contains("telemetry")
    };
    entries.iter().filter(pull).count()
}

#[test]
fn partitions_register_and_notify_as_one_server() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let mut options = Options::in_workspace(sandbox.workspace());
    options.capabilities["workspace"]["configuration"] = true.into();
    options.capabilities["workspace"]["didChangeConfiguration"]["dynamicRegistration"] = true.into();
    let session = Copilot::start(lspool(&sandbox, &stub), options);
    session.register_tools(&["fetch_ticket", "other_tool"]).expect("the schemas are good");
    session.finish(&session.create("hello", Value::Null)).expect_success();
    session.wait_notification("featureFlagsNotification", |_| true);
    let alone = heard(&session.transcript());
    for once in ["client/registerCapability", "featureFlagsNotification"] {
        assert_eq!(alone.get(once), Some(&1), "{once}: {alone:#?}");
    }

    let before = session.transcript().len();
    let sets: [&[&str]; 3] = [&["fetch_ticket"], &["other_tool"], &[]];
    let conversations: Vec<Value> =
        sets.iter().map(|set| session.finish(&session.create("hello", tools(set))).conversation()).collect();
    assert_eq!(servers(&session), 4);
    for conversation in &conversations {
        session.finish(&session.turn(conversation, "and again", Value::Null)).expect_success();
    }
    // Every process asks for its settings, and gets them.
    session.wait_transcript("four pulls", |it| (pulls(it) == 4).then_some(()));
    assert_eq!(heard(&session.transcript()), alone);
    let log: Vec<String> = session.transcript()[before..]
        .iter()
        .filter(|it| it.method() == Some("window/logMessage"))
        .map(|it| it.message["params"].to_string())
        .collect();
    for conversation in &conversations {
        let conversation = conversation.as_str().expect("invented");
        assert!(!log.iter().any(|it| it.contains(conversation)), "{log:#?}");
    }
    assert!(log.len() < 10, "no flood: {log:#?}");

    // A repeated check of the sign-in is reported once; so is a change of the settings.
    session.ok("checkStatus", json!({"options": {"forceRefresh": true}}));
    session
        .wait_transcript("the flags again", |it| (heard(it)["featureFlagsNotification"] == 2).then_some(()));
    session.notify("workspace/didChangeConfiguration", json!({}));
    session.wait_transcript("four more pulls", |it| (pulls(it) == 8).then_some(()));
    assert_eq!(heard(&session.transcript())["featureFlagsNotification"], 2);
    assert!(session.shutdown().success());
}

/// The setting that names the MCP server of the fixtures.
pub(super) fn mcp(started: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mcp_server.py");
    let server = json!({"type": "stdio", "command": real::python(), "args": [script, started]});
    json!({"mcp": json!({"mini": server}).to_string()})
}

/// How often the MCP server was started, and by how many processes.
fn starts(started: &Path) -> usize {
    let text = std::fs::read_to_string(started).unwrap_or_default();
    let mut parents: Vec<&str> = text.lines().collect();
    let n = parents.len();
    parents.sort_unstable();
    parents.dedup();
    assert_eq!(parents.len(), n, "each process starts it once");
    n
}

fn mcp_tools(chat: &Chat) -> Vec<&str> {
    offered(chat).into_iter().filter(|it| it.starts_with("mcp_")).collect()
}

fn mcp_script() -> Script {
    let call = |name: &str| Round::default().call(name, json!({"text": "hi"}));
    Script::default()
        .rule(Rule::on("[inside]").then(call("mcp_mini_mini_echo")).then(Round::text("Got {results}")))
        .rule(Rule::on("[outside]").then(call("mcp_mini_mini_other")).then(Round::text("Got {results}")))
}

/// Starts turns until the MCP server is up in the process, because nothing reports that.
pub(super) fn ask_until_up(session: &Copilot, stub: &Stub, name: &str, conversation: &Value) {
    for n in 0..200 {
        let question = format!("{name}: are you up? {n}");
        session.finish(&session.turn(conversation, &question, Value::Null)).expect_success();
        let asked = stub.turns().into_iter().find(|it| it.user == question).expect("it was asked");
        if !mcp_tools(&asked).is_empty() {
            return;
        }
    }
    panic!("the MCP server never came up");
}

/// lspool that waits for its MCP servers however slow the machine is.
fn patient(sandbox: &Sandbox, stub: &Stub) -> Command {
    let config = sandbox.write("config.toml", "[server.copilot]\nmcp_wait = \"1h\"\n");
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), stub);
    command.arg("--config").arg(config).arg("--").arg(real::copilot()).arg("--stdio");
    command
}

fn expect_mcp_only_where_wanted(session: &Copilot, stub: &Stub, started: &Path) {
    let up = |params: &Value| params.to_string().contains("mini_other");
    session.wait_notification("copilot/mcpTools", up);
    assert_eq!(starts(started), 1);
    let create = |id: &str, set: Value| {
        let mut more = set;
        more["conversationId"] = id.into();
        session.finish(&session.create(&format!("{id}: hello"), more)).conversation()
    };
    let lead = create("lead", json!({}));
    let without = create("without", tools(&["fetch_ticket"]));
    let with = create("with", tools(&["mini/mini_echo", "fetch_ticket"]));
    let text = |id: &str, conversation: &Value, question: &str| {
        let question = format!("{id}: {question}");
        let outcome = session.finish(&session.turn(conversation, &question, Value::Null));
        outcome.expect_success();
        outcome.progress.text
    };
    assert_eq!(text("with", &with, "[inside]"), "Got mini_echo says hi");
    assert!(text("with", &with, "[outside]").contains("mcp_mini_mini_other not found"));
    assert_eq!(text("lead", &lead, "[outside]"), "Got mini_other says hi");
    assert!(text("without", &without, "[inside]").contains("mcp_mini_mini_echo not found"));
    for chat in stub.turns() {
        let (conversation, _) = chat.user.split_once(": ").expect("each question names its conversation");
        let expected: &[&str] = match conversation {
            "lead" => &["mcp_mini_mini_echo", "mcp_mini_mini_other"],
            "with" => &["mcp_mini_mini_echo"],
            "without" => &[],
            _ => unreachable!("{chat:?}"),
        };
        assert_eq!(mcp_tools(&chat), expected, "{chat:?}");
    }
    assert_eq!(starts(started), 2);
    assert_eq!(servers(session), 3);
}

#[test]
fn mcp_server_runs_only_where_its_tools_are_wanted() {
    let stub = Stub::start(mcp_script());
    let sandbox = Sandbox::new();
    let started = sandbox.workspace().join("started");
    let mut options = Options::in_workspace(sandbox.workspace());
    options.settings["github"]["copilot"] = mcp(&started);
    let session = Copilot::start(patient(&sandbox, &stub), options);
    session.register_tools(&["fetch_ticket"]).expect("the schema is good");
    expect_mcp_only_where_wanted(&session, &stub, &started);
    assert!(session.shutdown().success());
}

#[test]
fn mcp_server_runs_only_where_wanted_with_pulled_settings() {
    let stub = Stub::start(mcp_script());
    let sandbox = Sandbox::new();
    let started = sandbox.workspace().join("started");
    let mut options = Options::in_workspace(sandbox.workspace());
    options.capabilities["workspace"]["configuration"] = true.into();
    let session = Copilot::start_silent(patient(&sandbox, &stub), options);
    let settings = mcp(&started);
    session.on_request("workspace/configuration", move |params| {
        let value = |item: &Value| match item["section"].as_str() {
            Some("github.copilot") => settings.clone(),
            Some("telemetry") => json!({"telemetryLevel": "off"}),
            _ => Value::Null,
        };
        Ok(params["items"].as_array().into_iter().flatten().map(value).collect())
    });
    session.ok("initialize", session.options().initialize());
    session.notify("initialized", json!({}));
    session.register_tools(&["fetch_ticket"]).expect("the schema is good");
    expect_mcp_only_where_wanted(&session, &stub, &started);
    assert!(session.shutdown().success());
}
