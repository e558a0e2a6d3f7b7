//! Habit 11: how clients leave.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Stage, same};
use crate::support::{copilot::Copilot, stub::Script};

/// A session with two idle processes.
fn session(stage: &Stage) -> Copilot {
    let session = stage.start();
    for more in [json!({}), json!({"lspool": {"tools": ["read_file"]}})] {
        session.finish(&session.create("hello", more)).expect_success();
    }
    session
}

/// The end: the exit status, and that no process is left.
#[track_caller]
fn ended(stage: &Stage, session: &Copilot) -> Option<i32> {
    let status = session.wait_exit();
    session.mark().wait_gone(Duration::from_secs(5));
    if stage.through_lspool {
        let log = std::fs::read_to_string(stage.log_file()).expect("a log was asked for");
        assert!(log.contains("started"), "it is the log of this session: {log}");
        for line in log.lines() {
            let bad = ["WARN", "ERROR", "restart"].iter().any(|it| line.contains(it));
            assert!(!bad, "nothing went wrong, says lspool's log:\n{line}");
        }
    }
    status.code()
}

/// Neovim's plug-ins: `shutdown`, then the end of the stream, no `exit`.
#[test]
fn lspool_exits_after_shutdown_and_end_of_file() {
    let came = same(Script::default, |stage| {
        let session = session(stage);
        session.ok("shutdown", Value::Null);
        session.close_stdin();
        vec![json!(ended(stage, &session))]
    });
    assert_eq!(came, [json!(0)]);
}

/// Vim: the end of the stream.
#[test]
fn lspool_exits_after_end_of_file() {
    let came = same(Script::default, |stage| {
        let session = session(stage);
        session.close_stdin();
        vec![json!(ended(stage, &session))]
    });
    assert_eq!(came, [json!(0)]);
}

/// The command line agent: SIGTERM just after `exit`. Which of the two comes first is chance.
#[test]
fn lspool_exits_after_exit_and_sigterm() {
    let stage = Stage::new(Script::default(), true);
    let session = session(&stage);
    session.ok("shutdown", Value::Null);
    session.notify_bare("exit");
    session.kill(Signal::TERM);
    let code = ended(&stage, &session);
    assert!([Some(0), Some(143)].contains(&code), "{code:?}");
}

/// Emacs: `exit`, the end of the stream, and SIGHUP to the whole process group.
#[test]
fn lspool_exits_after_exit_end_of_file_and_sighup() {
    for everyone in [false, true] {
        let stage = Stage::new(Script::default(), true);
        let session = session(&stage);
        let servers = session.mark().processes_running("copilot-language-server");
        session.ok("shutdown", Value::Null);
        session.notify("exit", Value::Null);
        session.close_stdin();
        session.kill_group(Signal::HUP);
        if everyone {
            for server in servers {
                server.kill(Signal::HUP);
            }
        }
        let code = ended(&stage, &session);
        assert!([Some(0), Some(129)].contains(&code), "{code:?}");
    }
}

/// The hangup comes first: the servers may die before lspool has read `exit`.
#[test]
fn lspool_exits_after_sighup_to_all_before_exit() {
    let stage = Stage::new(Script::default(), true);
    let session = session(&stage);
    let servers = session.mark().processes_running("copilot-language-server");
    session.kill_group(Signal::HUP);
    for server in servers {
        server.kill(Signal::HUP);
    }
    session.notify("exit", Value::Null);
    session.close_stdin();
    assert_eq!(ended(&stage, &session), Some(129));
}
