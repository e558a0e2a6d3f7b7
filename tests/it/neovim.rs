//! Neovim with lspool in its configuration, in front of Pyright.

use std::process::Command;

use serde_json::{Value, json};

use super::{
    editors::{Kill, LSPOOL, run, run_with},
    support::{
        copilot::uri,
        real::{self, Sandbox},
    },
};

#[test]
fn neovim_gets_same_results_through_lspool() {
    let sandbox = Sandbox::new();
    let without = neovim(&sandbox, "neovim.lua", &[], Kill::Never);
    let with = neovim(&sandbox, "neovim.lua", &LSPOOL, Kill::Never);

    assert_eq!(with["failed"], Value::Null, "{with:#}");
    let diagnostics = with["diagnostics"].as_array().expect("a list");
    let undefined = |it: &&Value| it["message"] == "\"undefined_name\" is not defined" && it["line"] == 7;
    assert!(diagnostics.iter().any(|it| undefined(&it)), "{with:#}");
    let hover = with["hover"]["value"].as_str().unwrap_or_default();
    assert!(hover.contains("def greet(name: str) -> str") && hover.contains("Says hello."), "{with:#}");
    assert_eq!(with["definition"][0]["uri"], uri(&sandbox.workspace().join("greeting.py")));
    assert_eq!(with["definition"][0]["range"]["start"], json!({"line": 3, "character": 4}));
    let labels = with["completion"].as_array().expect("a list");
    assert!(labels.contains(&json!("getcwd")), "{with:#}");
    assert_eq!(with["cursor"], json!([4, 4]));
    assert_eq!(with, without);
}

#[test]
fn neovim_shows_status_and_restarts_server() {
    let sandbox = Sandbox::new();
    let results = neovim(&sandbox, "neovim_control.lua", &LSPOOL, Kill::Never);
    let commands = results["commands"].as_array().expect("a list");
    for command in ["status", "restart", "reload"] {
        let is_it = |it: &serde_json::Value| {
            let name = it.as_str().and_then(|it| it.strip_prefix("lspool.pyright-langserver."));
            name.and_then(|it| it.split_once('.'))
                .is_some_and(|(pid, it)| pid.bytes().all(|it| it.is_ascii_digit()) && it == command)
        };
        assert!(commands.iter().any(is_it), "{command}: {results:#}");
    }
    let (before, after) = (&results["before"]["backends"][0], &results["after"]["backends"][0]);
    assert_eq!((&before["name"], &before["state"]), (&json!("pyright-langserver"), &json!("ready")));
    assert_eq!(after["state"], "ready");
    assert_ne!(before["pid"], after["pid"], "{results:#}");
    assert_eq!(results["restart"]["state"], "ready", "{results:#}");
    assert_eq!(results["unknown"]["failed"]["code"], -32602, "{results:#}");
    // The new process knows the text of the buffer, not of the disk.
    let hover = results["hover"]["contents"]["value"].as_str().unwrap_or_default();
    assert!(hover.contains("def greet(name: str) -> str"), "{results:#}");
    assert!(results["changes"].as_u64() > Some(0), "{results:#}");
}

/// A type checker and a linter as one server, in both orders: the marks of both, the work of the right one, and the death
/// of each.
#[test]
fn neovim_sees_a_group_as_one_server_real() {
    let (ruff, pyright) = (real::ruff(), real::basedpyright());
    let ruff = vec![ruff.to_str().expect("the repository's path is text"), "server"];
    let pyright = vec![pyright.to_str().expect("the repository's path is text"), "--stdio"];
    for members in [[&pyright, &ruff], [&ruff, &pyright]] {
        let sandbox = Sandbox::new();
        let text = "import sys\nimport os\n\n\ndef greet(name: str) -> str:\n    return \"Hello, \" + name\n\n\n\
                    \"é😀\"; wrong: int = undefined_name\nprint(sys.argv,greet(\"x\"))\n";
        sandbox.write("group.py", text);
        sandbox.write("pyproject.toml", "");
        let mut command = neovim_command(&sandbox, "neovim_group.lua");
        command.env("LSPOOL_VICTIMS", "ruff server\nbasedpyright-langserver");
        let server = [
            vec![LSPOOL[0], "--record-texts", "yes", "--"],
            members[0].clone(),
            vec!["--"],
            members[1].clone(),
        ];
        let results = run_with(&sandbox, command, &server.concat().join("\n"), Kill::OnRequest);

        assert_eq!((&results["failed"], &results["messages"]), (&Value::Null, &json!([])), "{results:#}");
        let line = text.lines().nth(8).expect("there is one");
        let column = line.find("undefined_name").expect("it is there");
        let found = results["undefined"].as_array().expect("a list");
        assert_eq!(found.len(), 2, "{results:#}");
        assert!(found.iter().all(|it| it["line"] == 8 && it["column"] == column), "{results:#}");
        let hover = results["hover"].as_str().unwrap_or_default();
        assert_eq!(hover.matches("(function)").count(), 1, "{results:#}");
        let text_of = |name: &str| results[name].as_str().unwrap_or_default().to_owned();
        assert!(text_of("organized").starts_with("import os\nimport sys\n"), "{results:#}");
        assert!(text_of("fixed").starts_with("import sys\n"), "{results:#}");
        assert!(text_of("formatted").contains("print(sys.argv, greet(\"x\"))"), "{results:#}");
        assert_eq!(text_of("renamed"), text_of("formatted").replace("greet", "welcome"), "{results:#}");
        let crashes = results["crashes"].as_array().expect("a list");
        assert_eq!(crashes.len(), 2);
        assert!(
            crashes
                .iter()
                .all(|it| it["hover"] == true && it["found"].as_array().is_some_and(|it| it.len() == 2)),
            "{results:#}"
        );
        assert_eq!(results["clients"], 1);
    }
}

/// The README tells what happens, in the words that its user sees. Times and ids of processes are those of one run.
#[test]
fn readme_shows_what_neovim_shows_in_a_crash() {
    let readme = include_str!("../../README.md");
    let block = readme.split("```\n").find(|it| it.contains(" hovers ")).expect("a recording of a crash");
    let told: Vec<(String, String)> = block.lines().map(readme_line).collect();
    let sandbox = Sandbox::new();

    let with = neovim(&sandbox, "neovim_crash.lua", &LSPOOL, Kill::OnRequest);
    assert_eq!(with["failed"], Value::Null, "{with:#}");
    let shown: Vec<(String, String)> = serde_json::from_value(with["events"].clone()).expect("pairs");
    assert_eq!(shown, told);
    assert_eq!((&with["messages"], &with["keeps_client"]), (&json!(""), &json!(true)), "{with:#}");

    let without = neovim(&sandbox, "neovim_crash.lua", &[], Kill::OnRequest);
    let message = without["messages"].as_str().unwrap_or_default();
    let quoted = readme.split('`').find(|it| it.starts_with("Client pyright quit")).expect("a message");
    assert!(message.starts_with(quoted), "{without:#}");
    assert_eq!(without["keeps_client"], false, "{without:#}");
}

/// Who does what: `5.0 s  shows   line 8: …     a remark`.
fn readme_line(line: &str) -> (String, String) {
    let (_, rest) = line.split_once(" s  ").expect("a time");
    let (verb, rest) = rest.split_once(' ').expect("a verb");
    let text = rest.trim_start().split("   ").next().unwrap_or_default().trim();
    // Which process it is differs from run to run.
    let text = if verb == "$" { text.trim_end_matches(|it: char| it.is_ascii_digit()).trim() } else { text };
    (verb.to_owned(), text.to_owned())
}

/// Runs a session from start to `:quitall!`.
fn neovim(sandbox: &Sandbox, script: &str, before: &[&str], kill: Kill) -> Value {
    run(sandbox, neovim_command(sandbox, script), before, kill)
}

pub(crate) fn neovim_command(sandbox: &Sandbox, script: &str) -> Command {
    let mut command = sandbox.command(real::nvim());
    let script = format!("{}/tests/editors/{script}", env!("CARGO_MANIFEST_DIR"));
    command.args(["--clean", "--headless", "-c", &format!("luafile {script}")]);
    command
}
