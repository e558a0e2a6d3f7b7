//! A server that dies and comes back: the messages to its successor, and the editor's screen.

use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{PUPPET, Pair};
use crate::{programs::ARE_FOREIGN, support::puppet::Puppet};

/// Longer than a successor may take to repeat registrations and diagnostics.
const GRACE_S: f32 = 5.0;

impl Pair {
    /// The next process of the server, ready.
    #[track_caller]
    pub(super) fn successor(&self) -> Puppet {
        let next = self.host.accept();
        let asked = next.expect("initialize");
        next.answer(&asked, json!({"capabilities": {}}));
        next.expect("initialized");
        next
    }
}

pub(super) fn kill(puppet: &Puppet) {
    if ARE_FOREIGN {
        return puppet.abort();
    }
    let pid = i32::try_from(puppet.pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, Signal::KILL).expect("it lives");
}

fn open(pair: &Pair, uri: &str, text: &str) {
    let item = json!({"uri": uri, "languageId": "x", "version": 1, "text": text});
    pair.editor.notify("textDocument/didOpen", json!({"textDocument": item}));
}

fn change(pair: &Pair, uri: &str, version: u32, changes: &Value) {
    let document = json!({"uri": uri, "version": version});
    pair.editor
        .notify("textDocument/didChange", json!({"textDocument": document, "contentChanges": changes}));
}

fn close(pair: &Pair, uri: &str) {
    pair.editor.notify("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
}

/// Uri, version and text of each `didOpen`.
fn opened(puppet: &Puppet) -> Vec<Value> {
    let all = puppet.received_of("textDocument/didOpen").into_iter();
    all.map(|it| it["params"]["textDocument"].clone())
        .map(|it| json!([it["uri"], it["version"], it["text"]]))
        .collect()
}

#[test]
fn restarted_server_gets_current_open_documents() {
    let (pair, server) = Pair::started();
    for uri in ["a", "b", "c"] {
        open(&pair, uri, "°C 😀 x\n");
    }
    close(&pair, "a");
    let x = json!({"start": {"line": 0, "character": 6}, "end": {"line": 0, "character": 7}});
    change(&pair, "b", 2, &json!([{"range": x, "text": "y\nz"}]));
    pair.check_alive(&server);
    kill(&server);
    let next = pair.successor();
    pair.check_alive(&next);
    assert_eq!(opened(&next), [json!(["b", 2, "°C 😀 y\nz\n"]), json!(["c", 1, "°C 😀 x\n"])]);
    assert_eq!(next.received_of("textDocument/didChange"), [] as [Value; 0]);
    pair.end(&next);
}

#[test]
fn edits_during_restart_are_sent_once() {
    let (pair, server) = Pair::started();
    open(&pair, "a", "one");
    change(&pair, "a", 2, &json!([{"text": "two"}]));
    pair.check_alive(&server);
    kill(&server);
    let next = pair.host.accept();
    let asked = next.expect("initialize");
    change(&pair, "a", 3, &json!([{"text": "three"}]));
    close(&pair, "a");
    open(&pair, "a", "anew");
    change(&pair, "a", 2, &json!([{"text": "now"}]));
    let hover = pair.editor.request("textDocument/hover", json!({}));
    // lspool has read all of it when it answers something itself.
    let used = pair.editor.request_as(json!("x"), "textDocument/hover", json!({}));
    pair.editor.cancel(&used);
    assert_eq!(pair.editor.wait(&used).unwrap_err().code, -32800);
    next.answer(&asked, json!({"capabilities": {}}));
    let asked = next.expect("textDocument/hover");
    next.answer(&asked, json!(1));
    pair.editor.wait(&hover).unwrap();
    change(&pair, "a", 3, &json!([{"text": "later"}]));
    let told = next.expect("textDocument/didChange");
    assert_eq!(told["params"]["contentChanges"], json!([{"text": "later"}]));
    assert_eq!(opened(&next), [json!(["a", 2, "now"])]);
    assert_eq!(next.received_of("textDocument/didChange").len(), 1);
    assert_eq!(next.received_of("textDocument/didClose"), [] as [Value; 0]);
    pair.end(&next);
}

#[test]
fn read_requests_are_retried_and_commands_are_not() {
    let (pair, server) = Pair::started();
    let hover = pair.editor.request("textDocument/hover", json!({"n": 1}));
    let command = pair.editor.request("workspace/executeCommand", json!({"command": "x"}));
    let definition = pair.editor.request("textDocument/definition", json!({"n": 2}));
    server.expect("textDocument/definition");
    kill(&server);
    let error = pair.editor.wait(&command).unwrap_err();
    assert_eq!((&error.data["lspool"]["cause"], error.code), (&json!("crashed"), -32803));
    let next = pair.successor();
    for (pending, method) in [(&hover, "textDocument/hover"), (&definition, "textDocument/definition")] {
        let asked = next.expect(method);
        next.answer(&asked, asked["params"].clone());
        assert_eq!(pair.editor.wait(pending), Ok(asked["params"].clone()));
    }
    assert_eq!(next.received_of("workspace/executeCommand"), [] as [Value; 0]);
    pair.end(&next);
}

#[test]
fn request_that_kills_servers_is_tried_twice() {
    let (pair, server) = Pair::started();
    let deadly = pair.editor.request("textDocument/hover", json!({"deadly": true}));
    server.expect("textDocument/hover");
    kill(&server);
    let second = pair.successor();
    second.expect("textDocument/hover");
    kill(&second);
    let error = pair.editor.wait(&deadly).unwrap_err();
    assert_eq!(error.data["lspool"]["retry"], false, "{error}");
    let third = pair.successor();
    pair.check_alive(&third);
    assert_eq!(third.received_of("textDocument/hover").len(), 1);
    pair.end(&third);
}

#[test]
fn stale_diagnostics_are_cleared_after_restart() {
    let (pair, server) = Pair::started();
    let two = json!([{"message": "one"}, {"message": "two"}]);
    let publish = |server: &Puppet, uri: &str, list: &Value| {
        server.notify("textDocument/publishDiagnostics", json!({"uri": uri, "diagnostics": list}));
    };
    publish(&server, "kept", &two);
    publish(&server, "gone", &two);
    pair.editor.wait_notification("textDocument/publishDiagnostics", |it| it["uri"] == "gone");
    let before = pair.editor.moment();
    kill(&server);
    let next = pair.successor();
    let ready = Instant::now();
    publish(&next, "kept", &two);
    let method = "textDocument/publishDiagnostics";
    let kept = pair.editor.wait_notification_after(before, method, |it| it["uri"] == "kept");
    assert_eq!(kept["diagnostics"], two);
    let gone = pair.editor.wait_notification_after(before, method, |it| it["uri"] == "gone");
    assert_eq!(gone["diagnostics"], json!([]));
    assert!(ready.elapsed().as_secs_f32() > GRACE_S - 0.5, "it had its time");
    pair.end(&next);
}

#[test]
fn registrations_are_reused_or_withdrawn_after_restart() {
    let (pair, server) = Pair::started();
    pair.editor.on_request("client/registerCapability", |_| Ok(Value::Null));
    pair.editor.on_request("client/unregisterCapability", |_| Ok(Value::Null));
    let register = |server: &Puppet, id: &str, method: &str| {
        let one = json!({"id": id, "method": method, "registerOptions": {}});
        server.ask(id, "client/registerCapability", json!({"registrations": [one]}));
        server.expect_answer(id);
    };
    register(&server, "1", "m/kept");
    register(&server, "2", "m/gone");
    let (asked, taken_back) = ("client/registerCapability", "client/unregisterCapability");
    let count =
        |method: &str| pair.editor.transcript().iter().filter(|it| it.method() == Some(method)).count();
    assert_eq!(count(asked), 2);
    kill(&server);
    let next = pair.successor();
    register(&next, "3", "m/kept");
    let told = pair.editor.wait_transcript("what is taken back", |all| {
        all.iter().find(|it| it.method() == Some(taken_back)).map(|it| it.message["params"].clone())
    });
    assert_eq!(told, json!({"unregisterations": [{"id": "2", "method": "m/gone"}]}));
    assert_eq!((count(asked), count(taken_back)), (2, 1));
    pair.end(&next);
}

#[test]
fn progress_of_crashed_server_ends() {
    let (pair, server) = Pair::started();
    pair.editor.on_request("window/workDoneProgress/create", |_| Ok(Value::Null));
    server.ask(1, "window/workDoneProgress/create", json!({"token": "checking"}));
    server.expect_answer(1);
    let begin = json!({"token": "checking", "value": {"kind": "begin", "title": "Checking…"}});
    server.notify("$/progress", begin);
    pair.editor.wait_notification("$/progress", |it| it["value"]["kind"] == "begin");
    kill(&server);
    pair.editor
        .wait_notification("$/progress", |it| it["token"] == "checking" && it["value"]["kind"] == "end");
    let next = pair.successor();
    pair.check_alive(&next);
    pair.end(&next);
}

#[test]
fn crash_looping_server_is_abandoned() {
    let backoff = r#"backoff = { initial = "1ms", max = "1ms" }"#;
    let config = format!("[server.copilot]\nkind = \"generic\"\ncommand = {PUPPET:?}\n{backoff}\n");
    let pair = Pair::with(&config, &[]);
    pair.editor.on_request("window/showMessageRequest", |_| Ok(Value::Null));
    let mut server = pair.handshake();
    let mut n = 0;
    let error = loop {
        kill(&server);
        n += 1;
        assert!(n < 20, "it is started without end");
        // Waits in the gate, for the next process, if there is one.
        let hover = pair.editor.request("textDocument/hover", json!({}));
        let answered = loop {
            if let Some(next) = pair.host.try_accept() {
                let asked = next.expect("initialize");
                next.answer(&asked, json!({"capabilities": {}}));
                let asked = next.expect("textDocument/hover");
                next.answer(&asked, Value::Null);
                pair.editor.wait(&hover).unwrap();
                server = next;
                break None;
            }
            if let Some(Err(error)) = pair.editor.answer_to(&hover) {
                break Some(error);
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        if let Some(error) = answered {
            break error;
        }
    };
    assert_eq!(n, 6, "five restarts in the window");
    assert_eq!(error.data["lspool"]["retry"], false, "{error}");
    assert!(pair.host.try_accept().is_none());
    assert_eq!(pair.editor.ok("shutdown", Value::Null), Value::Null);
    pair.editor.notify_bare("exit");
    assert_eq!(pair.editor.wait_exit().code(), Some(0));
}
