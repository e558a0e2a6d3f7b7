//! Agents with the real Copilot server: each tool set in its own process.

use std::{collections::BTreeSet, process::Command};

use serde_json::{Value, json};

use super::support::{
    copilot::{Copilot, Options},
    real::{self, Sandbox},
    stub::{Chat, Script, Stub},
};

/// lspool in front of the real server, signed in by environment.
pub(super) fn through_lspool(sandbox: &Sandbox, stub: &Stub) -> Copilot {
    Copilot::start(lspool(sandbox, stub), Options::in_workspace(sandbox.workspace()))
}

/// The command for it.
pub(super) fn lspool(sandbox: &Sandbox, stub: &Stub) -> Command {
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), stub);
    command.arg("--").arg(real::copilot()).arg("--stdio");
    command
}

/// How many processes of the real server there are.
pub(super) fn servers(session: &Copilot) -> usize {
    let server = real::copilot().display().to_string();
    session.mark().processes().iter().filter(|it| it.command.starts_with(&server)).count()
}

/// Members of a create that ask for this tool set.
pub(super) fn tools(names: &[&str]) -> Value {
    json!({"lspool": {"tools": names}})
}

/// The tools that a model was offered.
pub(super) fn offered(turn: &Chat) -> BTreeSet<&str> {
    turn.tools.iter().map(String::as_str).collect()
}

#[test]
fn four_agents_with_three_sets_use_three_processes() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["read_file", "run_in_terminal", "fetch_ticket"]).expect("the schemas are good");
    let sets: [(&str, Value, Option<&[&str]>); 4] = [
        ("all", json!({}), None),
        ("reader", tools(&["read_file", "list_dir"]), Some(&["read_file", "list_dir"])),
        ("runner", tools(&["run_in_terminal"]), Some(&["run_in_terminal"])),
        ("reader again", tools(&["list_dir", "read_file"]), Some(&["read_file", "list_dir"])),
    ];
    for (name, more, _) in &sets {
        let turn = session.create(&format!("{name} says hello"), more.clone());
        session.finish(&turn).expect_success();
    }
    assert_eq!(servers(&session), 3);
    let turns = stub.turns();
    for (name, _, set) in &sets {
        let turn =
            turns.iter().find(|it| it.user.starts_with(&format!("{name} says"))).expect("it was asked");
        match set {
            Some(set) => assert_eq!(offered(turn), set.iter().copied().collect(), "{name}"),
            None => {
                for tool in ["read_file", "run_in_terminal", "fetch_ticket", "list_dir", "grep_search"] {
                    assert!(offered(turn).contains(tool), "{name} has {tool}");
                }
            }
        }
    }
    assert!(session.shutdown().success());
}
