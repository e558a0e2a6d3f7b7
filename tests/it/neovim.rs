//! Neovim with lspool in its configuration, in front of Pyright.

use serde_json::{Value, json};

use super::{
    editors::{Kill, LSPOOL, run},
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
    let mut command = sandbox.command(real::nvim());
    let script = format!("{}/tests/editors/{script}", env!("CARGO_MANIFEST_DIR"));
    command.args(["--clean", "--headless", "-c", &format!("luafile {script}")]);
    run(sandbox, command, before, kill)
}
