//! Agents that are defined in files.

use serde_json::{Value, json};

use crate::support::{
    copilot::{Copilot, Options},
    real::{self, Sandbox},
    stub::{Script, Stub},
};

fn listed(sandbox: &Sandbox, args: &[&str]) -> String {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    let output = command.arg("agents").args(args).output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn agents_command_lists_agents_without_running_lspool() {
    let sandbox = Sandbox::new();
    sandbox.write(".claude/agents/r.md", "---\nname: reviewer\ntools: Read, WebSearch\n---\nBe careful.\n");
    sandbox.write(".claude/agents/e.md", "---\nname: explore\n---\n");
    sandbox.write(".github/agents/bad.agent.md", "---\ntools: 7: 8\n---\n");
    let text = listed(&sandbox, &[]);
    for part in [
        "reviewer",
        "not running",
        "read_file\n",
        "\"explore\" is shadowed",
        "bad.agent.md:2: invalid YAML",
        "ignoring \"WebSearch\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let json: Value = serde_json::from_str(&listed(&sandbox, &["--json"])).expect("JSON");
    let names: Vec<&Value> =
        json["agents"].as_array().expect("a list").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["bash", "explore", "general-purpose", "plan", "reviewer"]);
    assert_eq!(json["agents"][4]["prompt"], "Be careful.");
}

#[test]
fn new_agent_file_takes_effect_in_running_copilot_session() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stub);
    command.arg("--").arg(real::copilot()).arg("--stdio");
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    session.check_signed_in();
    let create =
        |session: &Copilot| session.finish(&session.create("hello", json!({"lspool": {"agent": "reader"}})));
    let error = create(&session).answer.expect_err("there is no such agent");
    assert!(error.message.contains("unknown agent \"reader\""), "{error}");
    sandbox.write(".claude/agents/reader.md", "---\nname: reader\ntools: Read\n---\n");
    // It is noticed; `reload` waits for a reading that is under way.
    session.ok("lspool/reload", json!({}));
    create(&session).expect_success();
    let chat = stub.turns().pop().expect("it was asked");
    assert_eq!(chat.tools, ["read_file"]);
    let text = listed(&sandbox, &[]);
    let line = text.lines().find(|it| it.starts_with("reader")).expect("it is listed");
    assert!(line.contains("ready, pid "), "{text}");
    assert!(session.shutdown().success());
}
