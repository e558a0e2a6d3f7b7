//! Emacs with lspool in front of Pyright, by eglot.

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};

use super::{
    neovim::{TEXT, command_of},
    support::{processes::Mark, real::Sandbox},
};

#[test]
#[ignore = "needs Emacs with eglot (Debian: emacs-nox, elpa-eglot); scripts/test runs it where they are"]
fn emacs_gets_same_results_through_lspool() {
    let sandbox = Sandbox::new();
    let without = emacs(&sandbox, &[]);
    let with = emacs(&sandbox, &[env!("CARGO_BIN_EXE_lspool"), "--"]);

    let diagnostics = with["diagnostics"].to_string();
    assert!(diagnostics.contains("undefined_name\\\" is not defined"), "{with:#}");
    let hover = with["hover"].as_str().unwrap_or_default();
    assert!(hover.contains("def greet(name: str) -> str") && hover.contains("Says hello."), "{with:#}");
    assert_eq!(with["line"], 4);
    let labels = with["completion"].as_array().expect("a list");
    assert!(labels.contains(&json!("getcwd")), "{with:#}");
    assert_eq!(with, without);
}

/// Runs a session from start to the end of Emacs, after which no process may be left.
fn emacs(sandbox: &Sandbox, before: &[&str]) -> Value {
    sandbox.write("greeting.py", TEXT);
    sandbox.write("pyproject.toml", "");
    let mut command = sandbox.command("emacs");
    // Not `-Q`: that would leave out the folder of Debian's packages.
    command.args(["--batch", "-q", "-l", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/editors/eglot.el")]);
    command.env("LSPOOL_COMMAND", command_of(before)).stdin(Stdio::null());
    let mark = Mark::of(&mut command);
    let output = command.output().expect("Emacs starts");
    mark.wait_gone(Duration::from_secs(5));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let line = stdout.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no results\n{stdout}\n{stderr}"));
    serde_json::from_str(line).expect("the script prints JSON")
}
