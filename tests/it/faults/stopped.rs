//! Stopped processes (SIGSTOP): all others continue, owed answers come, and lspool ends only a server.

use std::{thread::sleep, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{PUPPET, Pair};
use crate::support::puppet::Puppet;

/// How long a server may take to read here.
const WRITE_STALL: Duration = Duration::from_millis(300);

/// More than any pipe holds.
const MUCH: usize = 2 << 20;

fn started() -> (Pair, Puppet) {
    patient(WRITE_STALL)
}

/// With this `write_stall`.
fn patient(write_stall: Duration) -> (Pair, Puppet) {
    let stall = write_stall.as_millis();
    let server =
        format!("[server.copilot]\nkind = \"generic\"\ncommand = {PUPPET:?}\nwrite_stall = \"{stall}ms\"\n");
    let pair = Pair::with(&server, &[]);
    let puppet = pair.handshake();
    (pair, puppet)
}

/// Waits until its output is not read.
fn wait_until_held_back(puppet: &Puppet) {
    let written = || {
        let io = std::fs::read_to_string(format!("/proc/{}/io", puppet.pid)).expect("it lives");
        let line = io.lines().find_map(|it| it.strip_prefix("wchar: ")).expect("bytes are counted");
        line.parse::<u64>().expect("a number")
    };
    let mut before = 0;
    loop {
        let now = written();
        if now == before && now > 384 << 10 {
            return;
        }
        before = now;
        sleep(Duration::from_millis(100));
    }
}

fn signal(puppet: &Puppet, signal: Signal) {
    let pid = i32::try_from(puppet.pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal).expect("it lives");
}

/// Its successor serves, and gets the unanswered requests.
#[track_caller]
fn goes_on(pair: Pair) {
    let next = pair.host.accept();
    next.on("textDocument/hover", |it| Ok(it.clone()));
    next.on("initialize", |_| Ok(json!({"capabilities": {}})));
    pair.check_that_editor_is_read(&next);
    assert!(pair.host.try_accept().is_none());
    pair.end(&next);
}

#[test]
fn halted_server_is_restarted_and_its_requests_answered() {
    let (pair, server) = started();
    signal(&server, Signal::STOP);
    let hover = pair.editor.request("textDocument/hover", json!({"n": 1}));
    let command = pair.editor.request("workspace/executeCommand", json!({"command": "x"}));
    pair.editor.notify("fake/told", json!("f".repeat(MUCH)));
    let behind = pair.editor.request("textDocument/hover", json!({"n": 2}));
    let error = pair.editor.wait(&command).unwrap_err();
    assert!(error.to_string().contains("it reads nothing"), "{error}");
    assert_eq!(error.data["lspool"]["cause"], "transport");
    server.wait_gone();
    let next = pair.host.accept();
    next.on("textDocument/hover", |it| Ok(it["n"].clone()));
    next.on("initialize", |_| Ok(json!({"capabilities": {}})));
    assert_eq!((pair.editor.wait(&hover), pair.editor.wait(&behind)), (Ok(json!(1)), Ok(json!(2))));
    pair.end(&next);
}

#[test]
fn halted_server_with_nothing_to_read_is_left_alone() {
    let (pair, server) = started();
    signal(&server, Signal::STOP);
    sleep(WRITE_STALL * 3);
    signal(&server, Signal::CONT);
    pair.check_alive(&server);
    pair.end(&server);
}

#[test]
fn halted_editor_is_waited_for_without_limit() {
    let (pair, server) = started();
    pair.editor.set_reading(false);
    let fill = "f".repeat(64 * 1024);
    for n in 0..200 {
        server.notify("fake/said", json!({"n": n, "fill": fill}));
    }
    sleep(WRITE_STALL * 5);
    pair.check_that_editor_is_read(&server);
    pair.editor.set_reading(true);
    pair.editor.wait_notification("fake/said", |it| it["n"] == 199);
    assert_eq!(pair.editor.notifications("fake/said").len(), 200);
    pair.check_alive(&server);
    pair.end(&server);
}

#[test]
fn halted_server_is_not_blamed_while_editor_is_halted() {
    let (pair, server) = started();
    pair.editor.set_reading(false);
    let fill = "f".repeat(64 * 1024);
    for n in 0..200 {
        server.notify("fake/said", json!({"n": n, "fill": fill}));
    }
    wait_until_held_back(&server);
    signal(&server, Signal::STOP);
    let hover = pair.editor.request("textDocument/hover", json!({}));
    pair.editor.notify("fake/told", json!("f".repeat(MUCH)));
    sleep(WRITE_STALL * 4);
    assert!(server.is_alive(), "its clock stands still");
    assert!(pair.host.try_accept().is_none());
    // The editor continues: the server must answer again.
    pair.editor.set_reading(true);
    server.wait_gone();
    let next = pair.host.accept();
    next.on("textDocument/hover", |_| Ok(json!("here")));
    next.on("initialize", |_| Ok(json!({"capabilities": {}})));
    assert_eq!(pair.editor.wait(&hover), Ok(json!("here")));
    pair.end(&next);
}

#[test]
fn editor_and_server_may_halt_and_continue() {
    let (pair, server) = patient(Duration::from_mins(1));
    server.on("textDocument/hover", |it| Ok(it.clone()));
    for n in 0..5 {
        pair.editor.set_reading(false);
        signal(&server, Signal::STOP);
        let asked: Vec<_> =
            (0..50).map(|it| pair.editor.request("textDocument/hover", json!([n, it]))).collect();
        pair.editor.notify("fake/told", json!("f".repeat(MUCH)));
        signal(&server, Signal::CONT);
        pair.editor.set_reading(true);
        for (pending, it) in asked.iter().zip(0..) {
            assert_eq!(pair.editor.wait(pending), Ok(json!([n, it])));
        }
    }
    pair.end(&server);
}

#[test]
fn halted_server_is_restarted_while_editor_is_halted() {
    let (pair, server) = started();
    pair.editor.set_reading(false);
    signal(&server, Signal::STOP);
    pair.editor.notify("fake/told", json!("f".repeat(MUCH)));
    server.wait_gone();
    pair.editor.set_reading(true);
    goes_on(pair);
}
