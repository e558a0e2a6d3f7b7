//! Editors with lspool in their configuration, in front of Pyright.
//!
//! Owns how the script of an editor is run, and how the server is killed where the script asks for it.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{
    processes::{Mark, Process},
    real::{self, Sandbox},
};

/// The file that they open, with one error.
pub(super) const TEXT: &str = "\
import os


def greet(name: str) -> str:
    \"\"\"Says hello.\"\"\"
    return name

greet(os.getcwd() + undefined_name)
";

/// What stands before the command of the server.
pub(super) const LSPOOL: [&str; 2] = [env!("CARGO_BIN_EXE_lspool"), "--"];

/// Whether the server is killed when the script asks for it: it makes the file `$LSPOOL_KILL` and waits until it is gone.
/// What it writes there is a part of the command of the server, if that is another one than Pyright.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kill {
    OnRequest,
    Never,
}

/// The command of the server as the scripts read it.
fn command_of(before: &[&str]) -> String {
    let pyright = real::pyright();
    let server = [pyright.to_str().expect("the repository's path is text"), "--stdio"];
    [before, &server].concat().join("\n")
}

/// Runs a session from start to the end of the editor, after which no process may be left. Gives the line of JSON that
/// the script prints.
pub(super) fn run(sandbox: &Sandbox, command: Command, before: &[&str], kill: Kill) -> Value {
    sandbox.write("greeting.py", TEXT);
    sandbox.write("pyproject.toml", "");
    run_with(sandbox, command, &command_of(before), kill)
}

/// The same with the command of any server, words separated by newlines, and the files that there are.
pub(super) fn run_with(sandbox: &Sandbox, mut command: Command, server: &str, kill: Kill) -> Value {
    command.env("LSPOOL_COMMAND", server).stdin(Stdio::null());
    let request = sandbox.home().join("kill");
    if kill == Kill::OnRequest {
        command.env("LSPOOL_KILL", &request);
    }
    let mark = Mark::of(&mut command);
    let is_over = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        scope.spawn(|| kill_on_request(&request, &mark, &is_over));
        let output = command.output();
        is_over.store(true, Ordering::Relaxed);
        output.expect("the editor starts")
    });
    mark.wait_gone(Duration::from_secs(5));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let line = stdout.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no results\n{stdout}\n{stderr}"));
    serde_json::from_str(line).expect("the script prints JSON")
}

fn kill_on_request(request: &Path, mark: &Mark, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        if let Ok(wanted) = fs::read_to_string(request) {
            for server in servers_of(mark, wanted.trim()) {
                server.kill(Signal::KILL);
            }
            fs::remove_file(request).expect("the script made it");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The processes of a server. lspool and the editor may name it too.
fn servers_of(mark: &Mark, wanted: &str) -> Vec<Process> {
    let is_server = |it: &Process| match wanted {
        "" => it.command.starts_with("node "),
        _ => !it.command.starts_with(LSPOOL[0]),
    };
    let name = if wanted.is_empty() { "pyright-langserver" } else { wanted };
    mark.processes_running(name).into_iter().filter(is_server).collect()
}

/// What every editor gets, with lspool as without: by its own ways of showing it.
pub(super) fn check_results(with: &Value) {
    assert_eq!(with["failed"], Value::Null, "{with:#}");
    assert!(with["diagnostics"].to_string().contains("undefined_name\\\" is not defined"), "{with:#}");
    let hover = with["hover"].as_str().unwrap_or_default();
    assert!(hover.contains("def greet(name: str) -> str") && hover.contains("Says hello."), "{with:#}");
    assert_eq!(with["line"], 4, "{with:#}");
    assert!(with["completion"].as_array().expect("a list").contains(&json!("getcwd")), "{with:#}");
}

/// After a SIGKILL of the server: the unsaved text is known, new errors come, and the user was told nothing.
pub(super) fn check_crash(crash: &Value) {
    assert_eq!(crash["failed"], Value::Null, "{crash:#}");
    assert!(crash["hover"].as_str().unwrap_or_default().contains("(variable) total: str"), "{crash:#}");
    assert!(crash["diagnostics"].to_string().contains("attribute \\\"uper\\\""), "{crash:#}");
    assert_eq!(crash["messages"], json!([]), "{crash:#}");
}

/// Takes the part about the crash out of what a script printed.
pub(super) fn take_crash(results: &mut Value) -> Value {
    results.as_object_mut().and_then(|it| it.remove("crash")).expect("the script shows a crash")
}

#[test]
fn vscode_client_library_gets_same_results_and_does_not_notice_crash() {
    let sandbox = Sandbox::new();
    let without = node(&sandbox, "vscode.js", &[], Kill::Never);
    let mut with = node(&sandbox, "vscode.js", &LSPOOL, Kill::OnRequest);
    let crash = take_crash(&mut with);
    check_results(&with);
    assert_eq!(with, without);
    check_crash(&crash);
    // The library knows its server as running all the time.
    assert_eq!(crash["states"], json!(["starting", "running"]));
}

#[test]
fn protocol_client_of_vscode_gets_same_results_and_does_not_notice_crash() {
    let sandbox = Sandbox::new();
    let without = node(&sandbox, "protocol.js", &[], Kill::Never);
    let mut with = node(&sandbox, "protocol.js", &LSPOOL, Kill::OnRequest);
    let crash = take_crash(&mut with);
    check_results(&with);
    assert_eq!(with, without);
    check_crash(&crash);
}

fn node(sandbox: &Sandbox, script: &str, before: &[&str], kill: Kill) -> Value {
    let mut command = sandbox.command("node");
    command.arg(format!("{}/tests/editors/{script}", env!("CARGO_MANIFEST_DIR")));
    command.env("NODE_PATH", real::node_modules());
    run(sandbox, command, before, kill)
}
