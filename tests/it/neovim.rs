//! Neovim with lspool in its configuration, in front of Pyright.

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};

use super::support::{
    copilot::uri,
    processes::Mark,
    real::{self, Sandbox},
};

/// A file with one error.
pub(super) const TEXT: &str = "\
import os


def greet(name: str) -> str:
    \"\"\"Says hello.\"\"\"
    return name

greet(os.getcwd() + undefined_name)
";

#[test]
fn neovim_gets_same_results_through_lspool() {
    let sandbox = Sandbox::new();
    let without = neovim(&sandbox, "neovim.lua", &[]);
    let with = neovim(&sandbox, "neovim.lua", &[env!("CARGO_BIN_EXE_lspool"), "--"]);

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
    let results = neovim(&sandbox, "neovim_control.lua", &[env!("CARGO_BIN_EXE_lspool"), "--"]);
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

/// The command of the server as the scripts read it.
pub(super) fn command_of(before: &[&str]) -> String {
    let pyright = real::pyright();
    let server = [pyright.to_str().expect("the repository's path is text"), "--stdio"];
    [before, &server].concat().join("\n")
}

/// Runs a session from start to `:quitall!`, after which no process may be left.
fn neovim(sandbox: &Sandbox, script: &str, before: &[&str]) -> Value {
    sandbox.write("greeting.py", TEXT);
    sandbox.write("pyproject.toml", "");
    let mut command = sandbox.command(real::nvim());
    let script = format!("{}/tests/editors/{script}", env!("CARGO_MANIFEST_DIR"));
    command.args(["--clean", "--headless", "-c", &format!("luafile {script}")]);
    command.env("LSPOOL_COMMAND", command_of(before)).stdin(Stdio::null());
    let mark = Mark::of(&mut command);
    let output = command.output().expect("Neovim starts");
    mark.wait_gone(Duration::from_secs(5));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let line = stdout.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no results\n{stdout}\n{stderr}"));
    serde_json::from_str(line).expect("the script prints JSON")
}
