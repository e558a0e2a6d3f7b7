//! The end of a session, after which no process is left.

use std::{
    fs::Permissions,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{PUPPET, Pair};
use crate::support::{own, processes::Mark};

/// Nothing may be left after this; a bound of the product, not a measure.
const GONE: Duration = Duration::from_secs(5);

/// A server that ignores everything, with two helpers: one in its group, and one outside.
const FAMILY: &str = "sleep 999 & setsid sleep 999 & \"$PUPPET\"";

fn code(status: ExitStatus) -> Option<i32> {
    status.code()
}

#[test]
fn signals_end_lspool_and_all_servers() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::INT, 2), (Signal::HUP, 1)] {
        let pair = Pair::stubborn("sleep 999 & exec \"$PUPPET\"");
        let server = pair.handshake();
        pair.editor.kill(signal);
        assert_eq!(code(pair.editor.wait_exit()), Some(128 + number));
        pair.editor.mark().wait_gone(GONE);
        drop(server);
    }
}

#[test]
fn end_of_editor_stream_ends_all_processes() {
    let pair = Pair::stubborn("sleep 999 & exec \"$PUPPET\"");
    let server = pair.handshake();
    pair.editor.close_stdin();
    assert_eq!(code(pair.editor.wait_exit()), Some(0));
    pair.editor.mark().wait_gone(GONE);
    drop(server);
}

#[test]
fn pending_answer_arrives_after_end_of_stream() {
    let (pair, server) = Pair::started();
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let asked = server.expect("textDocument/hover");
    pair.editor.close_stdin();
    server.answer(&asked, json!(1));
    assert_eq!(pair.editor.wait(&hover), Ok(json!(1)));
    server.wait_closed();
    server.exit(0);
    assert_eq!(code(pair.editor.wait_exit()), Some(0));
}

#[test]
fn missing_answer_does_not_keep_lspool_running() {
    let (pair, server) = Pair::started();
    pair.editor.forgive_unanswered();
    pair.editor.request("textDocument/hover", json!({}));
    server.expect("textDocument/hover");
    pair.editor.close_stdin();
    assert_eq!(code(pair.editor.wait_exit()), Some(0));
    pair.editor.mark().wait_gone(GONE);
}

#[test]
fn exit_ends_lspool_while_stream_stays_open() {
    let (pair, server) = Pair::started();
    pair.editor.notify_bare("exit");
    server.expect("exit");
    assert_eq!(code(pair.editor.wait_exit()), Some(1), "without a shutdown");
    pair.editor.mark().wait_gone(GONE);

    let pair = Pair::new();
    pair.editor.notify_bare("exit");
    assert_eq!(code(pair.editor.wait_exit()), Some(1), "without an initialize");

    let pair = Pair::stubborn("exec \"$PUPPET\"");
    let server = pair.handshake();
    let shutdown = pair.editor.request("shutdown", Value::Null);
    let asked = server.expect("shutdown");
    server.answer(&asked, Value::Null);
    pair.editor.wait(&shutdown).unwrap();
    pair.editor.notify_bare("exit");
    server.expect("exit");
    assert_eq!(code(pair.editor.wait_exit()), Some(0), "after a shutdown");
    pair.editor.mark().wait_gone(GONE);
}

#[test]
fn shutdown_is_answered_when_server_ignores_it_or_dies() {
    let (pair, server) = Pair::started();
    let shutdown = pair.editor.request("shutdown", Value::Null);
    server.expect("shutdown");
    assert_eq!(pair.editor.wait(&shutdown), Ok(Value::Null));
    pair.editor.notify_bare("exit");
    assert_eq!(code(pair.editor.wait_exit()), Some(0));

    let (pair, server) = Pair::started();
    let shutdown = pair.editor.request("shutdown", Value::Null);
    server.expect("shutdown");
    server.exit(3);
    assert_eq!(pair.editor.wait(&shutdown), Ok(Value::Null));
    pair.editor.notify_bare("exit");
    assert_eq!(code(pair.editor.wait_exit()), Some(0));
    assert!(pair.host.try_accept().is_none(), "it is not started again");
}

#[test]
fn request_before_shutdown_is_still_answered() {
    let (pair, server) = Pair::started();
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let asked = server.expect("textDocument/hover");
    let shutdown = pair.editor.request("shutdown", Value::Null);
    let last = server.expect("shutdown");
    server.answer(&asked, json!(1));
    server.answer(&last, Value::Null);
    assert_eq!(pair.editor.wait(&hover), Ok(json!(1)));
    assert_eq!(pair.editor.wait(&shutdown), Ok(Value::Null));
    pair.editor.notify_bare("exit");
    server.expect("exit");
    server.exit(0);
    assert_eq!(code(pair.editor.wait_exit()), Some(0));
}

/// The messages of a script that does not wait for answers.
fn whole_session() -> Vec<u8> {
    let mut said = Vec::new();
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}),
        json!({"jsonrpc": "2.0", "method": "initialized", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "textDocument/hover", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "shutdown"}),
        json!({"jsonrpc": "2.0", "method": "exit"}),
    ] {
        said.extend(super::frame(&message));
    }
    said
}

#[test]
fn whole_session_in_one_write_is_answered_before_exit() {
    for closes in [false, true] {
        let pair = Pair::new();
        let asked = [(1, "initialize"), (2, "textDocument/hover"), (3, "shutdown")];
        let asked = asked.map(|(id, method)| pair.editor.asked(json!(id), method));
        pair.editor.raw_write(whole_session());
        if closes {
            pair.editor.close_stdin();
        }
        let server = pair.host.accept();
        server.on("initialize", |_| Ok(json!({"capabilities": {}})));
        server.on("textDocument/hover", |_| Ok(json!("hover")));
        server.on("shutdown", |_| Ok(Value::Null));
        server.expect("exit");
        server.exit(0);
        assert_eq!(pair.editor.wait(&asked[0]), Ok(own::bare(pair.pid())));
        assert_eq!(pair.editor.wait(&asked[1]), Ok(json!("hover")));
        assert_eq!(pair.editor.wait(&asked[2]), Ok(Value::Null));
        assert_eq!(code(pair.editor.wait_exit()), Some(0));
    }
}

#[test]
fn initialize_before_end_of_stream_is_answered() {
    let pair = Pair::new();
    let initialize = pair.initialize();
    pair.editor.close_stdin();
    let server = pair.host.accept();
    server.on("initialize", |_| Ok(json!({"capabilities": {}})));
    assert_eq!(pair.editor.wait(&initialize), Ok(own::bare(pair.pid())));
    assert_eq!(code(pair.editor.wait_exit()), Some(0));
}

#[test]
fn editor_that_does_not_read_does_not_keep_lspool_running() {
    for expected in [0, 143, 1] {
        let pair = Pair::stubborn("exec \"$PUPPET\"");
        let server = pair.handshake();
        pair.editor.set_reading(false);
        server.write(super::frame(
            &json!({"jsonrpc": "2.0", "method": "fake/flood", "params": "f".repeat(6 << 20)}),
        ));
        server.write(super::frame(
            &json!({"jsonrpc": "2.0", "method": "fake/flood", "params": "f".repeat(6 << 20)}),
        ));
        // Its last word is out only when lspool has read all before it.
        server.ask(1, "fake/question", json!({}));
        pair.check_that_editor_is_read(&server);
        match expected {
            0 => pair.editor.close_stdin(),
            143 => pair.editor.kill(Signal::TERM),
            _ => pair.editor.notify_bare("exit"),
        }
        assert_eq!(code(pair.editor.wait_exit()), Some(expected));
        pair.editor.mark().wait_gone(GONE);
        // A message that was cut off is not a fault.
        pair.editor.set_reading(true);
        pair.editor.forgive_unanswered();
        pair.editor.wait_closed();
        pair.editor.take_problems();
    }
}

#[test]
fn closed_stdout_of_editor_ends_lspool() {
    let (host, sandbox) = (crate::support::puppet::PuppetHost::new(), crate::support::real::Sandbox::new());
    let mut command = super::lspool(&sandbox, "", &[PUPPET]);
    host.tie(&mut command);
    let mark = Mark::of(&mut command);
    let mut lspool = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it is built");
    drop(lspool.stdout.take());
    let mut stdin = lspool.stdin.take().expect("it is piped");
    let initialize =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}});
    stdin.write_all(&super::frame(&initialize)).expect("it is read");
    let server = host.accept();
    server.on("initialize", |_| Ok(json!({"capabilities": {}})));
    assert_eq!(code(lspool.wait().expect("it is ours")), Some(1));
    mark.wait_gone(GONE);
}

#[test]
fn halted_server_is_killed_on_exit() {
    let (pair, server) = Pair::started();
    kill_process(Pid::from_raw(server.pid.cast_signed()).expect("a process has an id"), Signal::STOP)
        .expect("it is ours");
    assert_eq!(pair.editor.call("shutdown", Value::Null), Ok(Value::Null));
    pair.editor.notify_bare("exit");
    assert_eq!(code(pair.editor.wait_exit()), Some(0));
    pair.editor.mark().wait_gone(GONE);
}

#[test]
fn no_process_survives_sigkill_of_lspool() {
    let pair = Pair::stubborn(FAMILY);
    let server = pair.handshake();
    pair.editor.forgive_unanswered();
    let helpers = || pair.editor.mark().processes().iter().filter(|it| it.command == "sleep 999").count();
    while helpers() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    pair.editor.kill(Signal::KILL);
    pair.editor.wait_exit();
    pair.editor.mark().wait_gone(GONE);
    drop(server);
}

#[test]
fn end_of_editor_process_ends_lspool() {
    let pair = Pair::new();
    let mut other = Command::new("sleep").arg("999").spawn().expect("there is a sleep");
    let initialize = pair.editor.request("initialize", json!({"processId": other.id(), "capabilities": {}}));
    let server = pair.host.accept();
    let asked = server.expect("initialize");
    // The server watches lspool, which may outlive the editor by a moment.
    assert_eq!(asked["params"]["processId"], pair.editor.pid());
    server.answer(&asked, json!({"capabilities": {}}));
    pair.editor.wait(&initialize).unwrap();
    other.kill().expect("it is ours");
    other.wait().expect("it is ours");
    assert_eq!(code(pair.editor.wait_exit()), Some(1));
    pair.editor.mark().wait_gone(GONE);
}

#[test]
fn missing_or_null_process_id_is_not_watched() {
    for given in [json!(4_000_000), Value::Null] {
        let pair = Pair::new();
        let params = json!({"processId": given, "capabilities": {}});
        let initialize = pair.editor.request("initialize", params);
        let server = pair.host.accept();
        let asked = server.expect("initialize");
        let told = if given.is_null() { Value::Null } else { json!(pair.editor.pid()) };
        assert_eq!(asked["params"]["processId"], told);
        server.answer(&asked, json!({"capabilities": {}}));
        pair.editor.wait(&initialize).unwrap();
        pair.check_alive(&server);
        pair.end(&server);
    }
}

/// A server that ends when it does not find the process of its client would end in every container.
#[test]
fn server_behind_engine_watches_nobody() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let docker = folder.path().join("docker");
    // It runs what follows the name of the container.
    std::fs::write(&docker, "#!/bin/sh\nshift 3\nexec \"$@\"\n").expect("the folder is ours");
    std::fs::set_permissions(&docker, Permissions::from_mode(0o755)).expect("the file is ours");
    let pair = Pair::with("", &[&docker.display().to_string(), "exec", "-i", "web", PUPPET]);
    let initialize = pair.initialize();
    let server = pair.host.accept();
    let asked = server.expect("initialize");
    assert_eq!(asked["params"].get("processId"), Some(&Value::Null));
    server.answer(&asked, json!({"capabilities": {"hoverProvider": true}}));
    pair.editor.wait(&initialize).unwrap();
    pair.editor.notify("initialized", json!({}));
    server.expect("initialized");
    server.exit(1);
    let next = pair.host.accept();
    let asked = next.expect("initialize");
    assert_eq!(asked["params"].get("processId"), Some(&Value::Null), "nor does a later one");
    next.answer(&asked, json!({"capabilities": {"hoverProvider": true}}));
    pair.check_alive(&next);
    pair.end(&next);
}

#[test]
fn server_that_closes_stdout_is_restarted() {
    let (pair, server) = Pair::started();
    let command = pair.editor.request("workspace/executeCommand", json!({}));
    server.expect("workspace/executeCommand");
    server.close_stdout();
    assert_eq!(pair.editor.wait(&command).unwrap_err().data["lspool"]["retry"], true);
    server.wait_gone();
    let next = pair.host.accept();
    next.on("initialize", |_| Ok(json!({"capabilities": {}})));
    pair.check_alive(&next);
    pair.end(&next);
}

#[test]
fn incomplete_message_of_dying_server_is_dropped() {
    let (pair, server) = Pair::started();
    let command = pair.editor.request("workspace/executeCommand", json!({}));
    let asked = server.expect("workspace/executeCommand");
    let answer = super::frame(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": "all of it"}));
    server.write(&answer[..answer.len() - 4]);
    server.exit(0);
    assert_eq!(pair.editor.wait(&command).unwrap_err().data["lspool"]["cause"], "crashed");
    let next = pair.host.accept();
    next.on("initialize", |_| Ok(json!({"capabilities": {}})));
    pair.check_alive(&next);
    pair.end(&next);
}

#[test]
fn messages_before_server_crash_are_delivered() {
    let (pair, server) = Pair::started();
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let asked = server.expect("textDocument/hover");
    for n in 0..200 {
        server.notify("fake/last words", json!(n));
    }
    server.answer(&asked, json!(1));
    server.exit(1);
    assert_eq!(pair.editor.wait(&hover), Ok(json!(1)));
    assert_eq!(pair.editor.notifications("fake/last words").len(), 200);
    let next = pair.host.accept();
    next.on("initialize", |_| Ok(json!({"capabilities": {}})));
    pair.check_alive(&next);
    pair.end(&next);
}

#[test]
fn requests_during_restart_start_one_process() {
    let (pair, server) = Pair::started();
    server.exit(1);
    let next = pair.host.accept();
    let asked: Vec<_> = (0..30).map(|n| pair.editor.request("textDocument/hover", json!({"n": n}))).collect();
    next.on("textDocument/hover", |it| Ok(it["n"].clone()));
    next.on("initialize", |_| Ok(json!({"capabilities": {}})));
    for (pending, n) in asked.iter().zip(0..) {
        assert_eq!(pair.editor.wait(pending), Ok(json!(n)));
    }
    assert!(pair.host.try_accept().is_none());
    assert_eq!(
        pair.editor.mark().processes_running(PUPPET).iter().filter(|it| it.pid != pair.editor.pid()).count(),
        1
    );
    pair.end(&next);
}
