//! How long the processes of the real server live: as long as they are needed, and never longer than lspool.

use std::{process::Command, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    partitions::{servers, tools},
    support::{
        copilot::{Copilot, Options},
        real::{self, Sandbox},
        stub::{Outcome, Round, Rule, Said, Script, Stub},
    },
};

/// How long anything may be left after the end.
const SOON: Duration = Duration::from_secs(5);

/// lspool in front of the script of the npm package, which starts the real server as a child.
fn through_the_wrapper(sandbox: &Sandbox, stub: &Stub) -> Copilot {
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), stub);
    command.args(["--", "node"]).arg(real::copilot_wrapper()).arg("--stdio");
    Copilot::start(command, Options::in_workspace(sandbox.workspace()))
}

fn nothing_is_left(end: impl FnOnce(&Copilot) -> Option<i32>, code: Option<i32>) {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let session = through_the_wrapper(&sandbox, &stub);
    let turn = session.create("hello", tools(&["read_file"]));
    session.finish(&turn).expect_success();
    assert_eq!(
        session.mark().processes_running("/copilot-language-server --stdio").len(),
        2,
        "two real servers run"
    );
    session.forgive_unanswered();
    let mark = session.mark().clone();
    assert_eq!(end(&session), code);
    mark.wait_gone(SOON);
}

#[test]
fn no_process_is_left_after_exit_with_open_stdin() {
    let end = |session: &Copilot| {
        session.ok("shutdown", Value::Null);
        session.notify_bare("exit");
        session.wait_exit().code()
    };
    nothing_is_left(end, Some(0));
}

#[test]
fn no_process_is_left_after_end_of_stdin() {
    let end = |session: &Copilot| {
        session.close_stdin();
        session.wait_exit().code()
    };
    nothing_is_left(end, Some(0));
}

#[test]
fn no_process_is_left_after_sigterm() {
    let end = |session: &Copilot| {
        session.kill(Signal::TERM);
        session.wait_exit().code()
    };
    nothing_is_left(end, Some(143));
}

#[test]
fn no_process_is_left_after_sigkill() {
    let end = |session: &Copilot| {
        session.kill(Signal::KILL);
        session.wait_exit().code()
    };
    nothing_is_left(end, None);
}

#[test]
fn idle_partitions_make_room_within_process_limit() {
    let wait = Rule::on("[wait]").then(Round::text("It goes on.\n").gate("go"));
    let stub = Stub::start(Script::default().rule(wait));
    let sandbox = Sandbox::new();
    let config = sandbox.write(
        "config.toml",
        "[server.copilot]\nmax_processes = 2\nidle_timeout = \"1h\"\non_limit = \"error\"\n",
    );
    let mut command: Command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stub);
    command.arg("--config").arg(config).arg("--").arg(real::copilot()).arg("--stdio");
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    let create = |id: &str, message: &str, tool: &str| {
        let mut more = tools(&[tool]);
        more["conversationId"] = json!(id);
        session.create(message, more)
    };
    session.finish(&create("one", "hello", "read_file")).expect_success();
    let running = create("two", "[wait]", "list_dir");
    stub.wait_for("the second turn", |log| log.iter().any(|it| it.is_turn() && it.outcome == Outcome::Open));
    let refused = session.wait(&create("three", "hello", "grep_search").pending);
    let refused = refused.expect_err("both processes are in use");
    assert!(refused.to_string().contains("max_processes"), "{refused:?}");
    stub.open("go");
    session.finish(&running).expect_success();
    session.finish(&session.turn(&json!("one"), "still there?", json!({}))).expect_success();
    assert_eq!(servers(&session), 2, "the idle one has made room");
    let last = stub.turns().pop().expect("there was one");
    assert!(last.history.contains(&Said::User("hello".to_owned())), "{:?}", last.history);
    assert!(session.shutdown().success());
}

#[test]
fn idle_partition_stops_when_its_conversation_ends() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let config = sandbox.write("config.toml", "[server.copilot]\nidle_timeout = \"0s\"\n");
    let mut command: Command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stub);
    command.arg("--config").arg(config).arg("--").arg(real::copilot()).arg("--stdio");
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    let mut more = tools(&["read_file"]);
    more["conversationId"] = json!("one");
    session.finish(&session.create("hello", more)).expect_success();
    session.finish(&session.turn(&json!("one"), "still there?", json!({}))).expect_success();
    assert_eq!(servers(&session), 2, "a bound conversation keeps it");
    session.ok("conversation/destroy", json!({"conversationId": "one"}));
    let mut tries = 0;
    while servers(&session) > 1 {
        std::thread::sleep(Duration::from_millis(20));
        tries += 1;
        assert!(tries < 1000, "the partition does not end");
    }
    assert!(session.shutdown().success());
}

#[test]
fn spare_starts_once_the_server_is_signed_in() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let config = sandbox.write("config.toml", "[server.copilot]\nwarm_spares = 1\n");
    let mut command: Command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stub);
    command.arg("--config").arg(config).arg("--").arg(real::copilot()).arg("--stdio");
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    let mut tries = 0;
    while servers(&session) < 2 {
        std::thread::sleep(Duration::from_millis(20));
        tries += 1;
        assert!(tries < 3000, "no spare starts");
    }
    assert!(session.shutdown().success());
}
