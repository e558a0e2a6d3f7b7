//! Partitions of a Copilot server that does as it likes: who is asked, who is refused, who is mistaken for whom.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

use super::PUPPET;
use crate::support::{
    editor::{Pending, TestEditor},
    puppet::Puppet,
};

const CALL: &str = "conversation/invokeClientTool";
const CONFIRM: &str = "conversation/invokeClientToolConfirmation";

/// lspool in front of a server that is played like Copilot's, with the primary started.
pub(super) struct Pair {
    pair: super::Pair,
    pub(super) primary: Puppet,
}

impl Deref for Pair {
    type Target = super::Pair;

    fn deref(&self) -> &super::Pair {
        &self.pair
    }
}

/// A turn that a server has been asked for.
pub(super) struct Turn {
    asked: Value,
    pending: Pending,
}

impl Pair {
    pub(super) fn started() -> Pair {
        Pair::with("")
    }

    /// With these further lines of configuration.
    pub(super) fn with(more: &str) -> Pair {
        Pair::handshake(super::Pair::with(&config(more), &[]))
    }

    /// No recording takes memory.
    pub(super) fn measured() -> Pair {
        Pair::handshake(super::Pair::measured_with(&config(""), &[]))
    }

    pub(super) fn handshake(pair: super::Pair) -> Pair {
        let initialize = pair.initialize();
        let primary = pair.host.accept();
        play(&primary);
        pair.editor.wait(&initialize).expect("the primary has said yes");
        pair.editor.notify("initialized", json!({}));
        let tools = ["read_file", "list_dir", "run_in_terminal", "fetch_ticket"];
        let tools: Vec<Value> = tools.iter().map(|it| json!({"name": it, "description": "x"})).collect();
        pair.editor.ok("conversation/registerTools", json!({"tools": tools}));
        Pair { pair, primary }
    }

    /// Creates a conversation with these tools.
    pub(super) fn create(&self, id: &str, tools: Option<&[&str]>) -> Pending {
        let mut params = json!({
            "conversationId": id, "workDoneToken": format!("token of {id}"), "chatMode": "Agent",
            "turns": [{"request": "do it"}],
        });
        if let Some(tools) = tools {
            params["lspool"] = json!({"tools": tools});
        }
        self.editor.request("conversation/create", params)
    }

    /// Creates a conversation in a new partition: the process, and its first turn, which has begun.
    pub(super) fn partition(&self, id: &str, tools: &[&str]) -> (Puppet, Turn) {
        let pending = self.create(id, Some(tools));
        let server = self.host.accept();
        play(&server);
        let asked = server.expect("conversation/create");
        assert_eq!(asked["params"]["lspool"], Value::Null);
        (server, Turn { asked, pending })
    }

    /// The server answers the turn, and the editor hears.
    #[track_caller]
    pub(super) fn end_turn(&self, server: &Puppet, turn: &Turn) {
        let id = &turn.asked["params"]["conversationId"];
        let result = json!({"conversationId": id, "turnId": format!("turn of {id}"), "modelInfo": {}});
        server.answer(&turn.asked, result.clone());
        assert_eq!(self.editor.wait(&turn.pending), Ok(result));
    }

    /// The editor leaves.
    pub(super) fn leave(self) {
        self.editor.forgive_unanswered();
        self.editor.ok("shutdown", Value::Null);
        self.editor.notify_bare("exit");
        assert_eq!(self.editor.wait_exit().code(), Some(0));
        self.editor.mark().wait_gone(Duration::from_secs(2));
    }
}

fn config(more: &str) -> String {
    format!("[server.copilot]\nkind = \"copilot\"\ncommand = {PUPPET:?}\n{more}")
}

/// The answers of a Copilot server without the test: turns are for the test; it obeys `shutdown`, and after `exit`
/// waits for the end of stdin.
pub(super) fn play(server: &Puppet) {
    let builtin = ["read_file", "list_dir", "grep_search"];
    let builtin = builtin.map(|it| json!({"id": format!("copilot.{it}"), "name": it, "type": "shared"}));
    let offered = Arc::new(Mutex::new(Vec::from(builtin)));
    let change = move |offered: &Arc<Mutex<Vec<Value>>>, how: &dyn Fn(&mut Vec<Value>)| {
        let mut offered = offered.lock().unwrap_or_else(PoisonError::into_inner);
        how(&mut offered);
        Ok(Value::from(offered.clone()))
    };
    server.on("initialize", |_| Ok(json!({"capabilities": {}, "serverInfo": {"name": "Copilot"}})));
    server.on("checkStatus", |_| Ok(json!({"status": "OK", "user": "somebody"})));
    server.on("shutdown", |_| Ok(Value::Null));
    let registered = Arc::clone(&offered);
    server.on("conversation/registerTools", move |params| {
        change(&registered, &|offered| {
            for tool in params["tools"].as_array().into_iter().flatten() {
                // A client's tool hides the server's own of that name.
                offered.retain(|it| it["name"] != tool["name"]);
                let id = format!("copilot-editor.{}", tool["name"].as_str().unwrap_or_default());
                offered.push(json!({"id": id, "name": tool["name"], "type": "client"}));
            }
        })
    });
    server.on("conversation/unregisterTools", move |params| {
        change(&offered, &|offered| {
            let gone = params["toolIds"].as_array().cloned().unwrap_or_default();
            offered.retain(|it| !gone.contains(&it["id"]));
        })
    });
}

fn call(name: &str, conversation: &str) -> Value {
    json!({
        "name": name, "input": {"x": name}, "conversationId": conversation, "turnId": "t", "roundId": 0,
        "toolCallId": format!("call {name}"),
    })
}

/// An answer of the editor, and of lspool: `[result, error]`.
fn said(text: &str) -> Value {
    json!([{"content": [{"value": text}], "status": "success"}, null])
}

#[track_caller]
fn assert_refused(answer: &Value, tool: &str) {
    let result = &answer["result"];
    assert_eq!((&result[0]["status"], &result[1]), (&json!("error"), &Value::Null), "{answer}");
    assert!(result[0]["content"][0]["value"].as_str().is_some_and(|it| it.contains(tool)), "{answer}");
}

#[test]
fn equal_ids_of_two_partitions_are_kept_apart() {
    let pair = Pair::started();
    let (a, in_a) = pair.partition("a", &["read_file"]);
    let (b, in_b) = pair.partition("b", &["list_dir"]);
    a.ask(0, CALL, call("read_file", "a"));
    b.ask(0, CALL, call("list_dir", "b"));
    a.ask("0", CALL, call("read_file", "a"));
    let mut asked: Vec<_> = (0..3).map(|_| pair.editor.expect_request(CALL)).collect();
    asked.sort_by_key(|it| it.id.to_string());
    asked.reverse();
    for request in &asked {
        let name = request.params["conversationId"].as_str().unwrap();
        pair.editor.answer(request, Ok(said(&format!("for {name}"))));
    }
    assert_eq!(a.expect_answer(0)["result"], said("for a"));
    assert_eq!(a.expect_answer("0")["result"], said("for a"));
    assert_eq!(b.expect_answer(0)["result"], said("for b"));
    pair.end_turn(&b, &in_b);
    pair.end_turn(&a, &in_a);
    pair.leave();
}

#[test]
fn tool_call_outside_set_is_refused_without_editor() {
    let pair = Pair::started();
    let (server, turn) = pair.partition("c", &["read_file"]);
    for (n, tool) in
        ["run_in_terminal", "list_dir", "fetch_ticket", "nobody_knows", "", "READ_FILE"].iter().enumerate()
    {
        server.ask(n, CALL, call(tool, "c"));
        assert_refused(&server.expect_answer(n), tool);
    }
    // With any conversation in the parameters, and without one.
    for (n, conversation) in [json!("unknown"), json!(7), Value::Null].into_iter().enumerate() {
        let mut params = call("run_in_terminal", "c");
        params["conversationId"] = conversation;
        server.ask(100 + n, CALL, params);
        assert_refused(&server.expect_answer(100 + n), "run_in_terminal");
    }
    server.ask("mine", CALL, call("read_file", "c"));
    let asked = pair.editor.expect_request(CALL);
    assert_eq!(asked.params["name"], "read_file");
    pair.editor.answer(&asked, Ok(said("text")));
    assert_eq!(server.expect_answer("mine")["result"], said("text"));
    pair.end_turn(&server, &turn);
    let asked = pair.editor.transcript().iter().filter(|it| it.method() == Some(CALL)).count();
    assert_eq!(asked, 1);
    pair.leave();
}

#[test]
fn confirmation_outside_set_is_dismissed_without_editor() {
    let pair = Pair::started();
    let (server, turn) = pair.partition("c", &["read_file"]);
    server.ask(1, CONFIRM, call("run_in_terminal", "c"));
    assert_eq!(server.expect_answer(1)["result"], json!([{"result": "dismiss"}, null]));
    let mut mcp = call("echo", "c");
    mcp["input"] = json!({"mcpServerName": "mini", "mcpToolName": "echo"});
    server.ask(2, CONFIRM, mcp);
    assert_eq!(server.expect_answer(2)["result"], json!([{"result": "dismiss"}, null]));
    server.ask(3, CONFIRM, call("copilot.read_file", "c"));
    let asked = pair.editor.expect_request(CONFIRM);
    pair.editor.answer(&asked, Ok(json!([{"result": "accept"}, null])));
    assert_eq!(server.expect_answer(3)["result"], json!([{"result": "accept"}, null]));
    pair.end_turn(&server, &turn);
    pair.leave();
}

#[test]
fn call_before_create_answer_is_judged_and_forwarded() {
    let pair = Pair::started();
    let pending = pair.create("c", Some(&["read_file"]));
    let server = pair.host.accept();
    // In the very first moment, even before it has answered initialize.
    server.ask(0, CALL, call("run_in_terminal", "c"));
    assert_refused(&server.expect_answer(0), "run_in_terminal");
    server.ask(1, CALL, call("read_file", "c"));
    let asked = pair.editor.expect_request(CALL);
    pair.editor.answer(&asked, Ok(said("early")));
    assert_eq!(server.expect_answer(1)["result"], said("early"));
    play(&server);
    let create = server.expect("conversation/create");
    server.ask(2, CALL, call("run_in_terminal", "c"));
    assert_refused(&server.expect_answer(2), "run_in_terminal");
    server.ask(3, CALL, call("read_file", "c"));
    let asked = pair.editor.expect_request(CALL);
    pair.editor.answer(&asked, Ok(said("in time")));
    assert_eq!(server.expect_answer(3)["result"], said("in time"));
    pair.end_turn(&server, &Turn { asked: create, pending });
    pair.leave();
}

#[test]
fn primary_may_call_every_tool() {
    let pair = Pair::started();
    let pending = pair.create("c", None);
    let asked = pair.primary.expect("conversation/create");
    pair.primary.ask(0, CALL, call("nobody_knows", "c"));
    let request = pair.editor.expect_request(CALL);
    pair.editor.answer(&request, Ok(said("known")));
    assert_eq!(pair.primary.expect_answer(0)["result"], said("known"));
    let primary = pair.primary.clone();
    pair.end_turn(&primary, &Turn { asked, pending });
    pair.leave();
}

#[test]
fn server_that_keeps_offering_foreign_tools_is_not_used() {
    let pair = Pair::started();
    let pending = pair.create("c", Some(&["read_file"]));
    let server = pair.host.accept();
    let tools =
        || Ok(json!([{"id": "copilot.rm", "name": "rm"}, {"id": "copilot.read_file", "name": "read_file"}]));
    server.on("conversation/registerTools", move |_| tools());
    server.on("conversation/unregisterTools", move |_| tools());
    play_rest(&server);
    let error = pair.editor.wait(&pending).unwrap_err();
    assert!(error.message.contains("copilot.rm"), "{error}");
    assert_eq!(server.received_of("conversation/create"), [] as [Value; 0]);
    server.wait_gone();
    pair.leave();
}

fn play_rest(server: &Puppet) {
    server.on("initialize", |_| Ok(json!({"capabilities": {}})));
    server.on("checkStatus", |_| Ok(json!({"status": "OK", "user": "somebody"})));
}

#[test]
fn partition_crash_fails_only_its_own_turn() {
    let pair = Pair::with("turn_recovery = \"fail\"\n");
    let (a, in_a) = pair.partition("a", &["read_file"]);
    let (b, in_b) = pair.partition("b", &["list_dir"]);
    let token = "token of a";
    let begin = json!({"kind": "begin", "conversationId": "a", "turnId": "t"});
    a.notify("$/progress", json!({"token": token, "value": begin}));
    a.ask(0, CALL, call("read_file", "a"));
    let held = pair.editor.expect_request(CALL);
    a.exit(1);
    let error = pair.editor.wait(&in_a.pending).unwrap_err();
    assert_eq!(error.data["lspool"]["partition"], "partition \"read_file\" of copilot", "{error}");
    pair.editor.wait_notification("$/progress", |it| it["token"] == token && it["value"]["kind"] == "end");
    pair.editor.wait_notification("$/cancelRequest", |it| it["id"] == held.id);
    // The late answer has no receiver.
    pair.editor.answer(&held, Ok(said("late")));
    pair.end_turn(&b, &in_b);
    assert!(b.received().iter().all(|it| it.get("result").is_none() && it.get("error").is_none()));
    pair.leave();
}

#[test]
fn equal_tokens_and_registrations_of_partitions_are_kept_apart() {
    let pair = Pair::started();
    pair.editor.on_request("window/workDoneProgress/create", |_| Ok(Value::Null));
    pair.editor.on_request("client/registerCapability", |_| Ok(Value::Null));
    pair.editor.on_request("client/unregisterCapability", |_| Ok(Value::Null));
    let (a, in_a) = pair.partition("a", &["read_file"]);
    let (b, in_b) = pair.partition("b", &["list_dir"]);
    for (server, title) in [(&a, "a"), (&b, "b")] {
        server.ask(0, "window/workDoneProgress/create", json!({"token": 1}));
        server.expect_answer(0);
        server.notify("$/progress", json!({"token": 1, "value": {"kind": "begin", "title": title}}));
        let options = json!({"watchers": [{"globPattern": format!("**/{title}")}]});
        let registration =
            json!({"id": "reg1", "method": "workspace/didChangeWatchedFiles", "registerOptions": options});
        server.ask(1, "client/registerCapability", json!({"registrations": [registration]}));
        assert_eq!(server.expect_answer(1)["result"], Value::Null);
    }
    let began = |title: &'static str| {
        pair.editor.wait_notification("$/progress", move |it| it["value"]["title"] == title)["token"].clone()
    };
    let (of_a, of_b) = (began("a"), began("b"));
    assert_ne!(of_a, of_b);
    pair.editor.notify("window/workDoneProgress/cancel", json!({"token": of_b}));
    assert_eq!(b.expect("window/workDoneProgress/cancel")["params"]["token"], 1);
    let (end_a, end_b) = (json!({"kind": "end", "message": "a"}), json!({"kind": "end", "message": "b"}));
    b.notify("$/progress", json!({"token": 1, "value": end_b}));
    a.notify("$/progress", json!({"token": 1, "value": end_a}));
    for (token, message) in [(&of_a, "a"), (&of_b, "b")] {
        let end = pair.editor.wait_notification("$/progress", |it| it["value"]["message"] == message);
        assert_eq!(end["token"], *token);
    }
    let ids: Vec<Value> = registrations(&pair.editor, "client/registerCapability", "registrations");
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
    let gone = json!({"unregisterations": [{"id": "reg1", "method": "workspace/didChangeWatchedFiles"}]});
    a.ask(2, "client/unregisterCapability", gone);
    assert_eq!(a.expect_answer(2)["result"], Value::Null);
    let gone = registrations(&pair.editor, "client/unregisterCapability", "unregisterations");
    assert_eq!(gone, [ids[0].clone()], "b's stays");
    assert!(a.received_of("window/workDoneProgress/cancel").is_empty());
    pair.end_turn(&a, &in_a);
    pair.end_turn(&b, &in_b);
    pair.leave();
}

/// The ids of all (de)registrations that the editor was asked for.
fn registrations(editor: &TestEditor, method: &str, key: &str) -> Vec<Value> {
    let of = |it: &Value| it["params"][key].as_array().cloned().unwrap_or_default();
    let entries = editor.transcript();
    let asked = entries.iter().filter(|it| it.method() == Some(method)).map(|it| &it.message);
    asked.flat_map(of).map(|it| it["id"].clone()).collect()
}

#[test]
fn partition_starts_once_for_equal_sets() {
    let pair = Pair::started();
    let asked: Vec<Pending> = ["a", "b", "c"]
        .iter()
        .zip([["read_file", "list_dir"], ["list_dir", "read_file"], [" list_dir", "read_file "]])
        .map(|(id, tools)| pair.create(id, Some(&tools)))
        .collect();
    let server = pair.host.accept();
    play(&server);
    for pending in asked {
        let asked = server.expect("conversation/create");
        pair.end_turn(&server, &Turn { asked, pending });
    }
    assert!(pair.host.try_accept().is_none());
    pair.leave();
}

#[test]
fn cancelled_turn_withdraws_its_tool_call() {
    let pair = Pair::started();
    let (server, turn) = pair.partition("c", &["read_file"]);
    server.ask(0, CALL, call("read_file", "c"));
    let held = pair.editor.expect_request(CALL);
    pair.editor.cancel(&turn.pending);
    assert_eq!(server.expect("$/cancelRequest")["params"]["id"], turn.asked["id"]);
    assert_eq!(server.expect_answer(0)["result"][0]["status"], "cancelled");
    pair.editor.wait_notification("$/cancelRequest", |it| it["id"] == held.id);
    pair.editor.answer(&held, Ok(said("late")));
    // A call that the model makes before it gets the change.
    server.ask(1, CALL, call("read_file", "c"));
    assert_eq!(server.expect_answer(1)["result"][0]["status"], "cancelled");
    pair.end_turn(&server, &turn);
    assert_eq!(server.received().iter().filter(|it| it["id"] == 0 && it.get("result").is_some()).count(), 1);
    pair.leave();
}
