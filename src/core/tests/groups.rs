//! Several servers behind one editor.

mod complaints;
mod diagnostics;
mod encodings;
mod parts;
mod registering;
mod reload;
mod remembered;
mod restarting;
mod roots;
mod routing;
mod silent;

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use super::{
    stage::{EDITOR, Stage, name, process},
    taped::Taped,
};
use crate::{
    config::{ServerConfig, ServerKind},
    core::Identity,
    core::event::{Exit, Group, Launch, Member, Peer, ProcessId},
};

const A: ProcessId = process(0, 1);
const B: ProcessId = process(1, 1);
const C: ProcessId = process(2, 1);
const START_WAIT: Duration = Duration::from_secs(3);

fn member(name: &str) -> Member {
    let launch = Launch {
        program: format!("/bin/{name}").into(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
        max_message: 1 << 20,
        write_stall: Duration::from_mins(1),
        root: None,
        remote: None,
        share: None,
    };
    let mut server = ServerConfig { kind: Some(ServerKind::Generic), ..ServerConfig::default() };
    server.policy.required = false;
    Member { name: name.to_owned(), server, launch, missing: None }
}

/// A group of these, which the editor has not initialized.
pub(super) fn group(names: &[&str]) -> Stage {
    let mut it = Stage::new(ServerKind::Generic);
    // What is put together depends on the texts.
    it.core = Taped::with_texts(Identity { pid: 77, started: 5 }, true);
    it.name = names[0].to_owned();
    it.server.policy.required = false;
    let others = names[1..].iter().map(|it| member(it)).collect();
    it.group = Some(Group {
        name: "python".to_owned(),
        start_wait: START_WAIT,
        diagnostics_wait: Duration::ZERO,
        order: BTreeMap::new(),
        combine: BTreeMap::new(),
        wait: BTreeMap::new(),
        others,
    });
    it
}

fn initialize(it: &mut Stage, capabilities: &Value) {
    let params = json!({"processId": 1, "capabilities": capabilities});
    it.editor(json!({"id": "i", "method": "initialize", "params": params}));
}

fn backend(process: ProcessId) -> Peer {
    Peer::Backend(process)
}

/// A member answers `initialize` with these capabilities.
fn ready(it: &mut Stage, process: ProcessId, capabilities: &Value) {
    let told = it.take(backend(process));
    assert_eq!(told[0]["method"], "initialize", "{told:?}");
    it.server(process, json!({"id": told[0]["id"], "result": {"capabilities": capabilities}}));
}

/// A group of two in which both have these capabilities, and which is initialized.
fn pair(capabilities: &Value) -> Stage {
    pair_of(capabilities, capabilities)
}

fn pair_of(a: &Value, b: &Value) -> Stage {
    let mut it = group(&["a", "b"]);
    let mut editor = json!({"textDocument": {"hover": {"contentFormat": ["markdown"]}}});
    editor["workspace"] = json!({"configuration": true});
    initialize(&mut it, &editor);
    ready(&mut it, A, a);
    ready(&mut it, B, b);
    it.editor(json!({"method": "initialized", "params": {}}));
    for process in [A, B] {
        assert_eq!(it.told(process), ["initialized"]);
    }
    it.take(EDITOR);
    it
}

/// The only thing that a member has been told.
fn only(it: &mut Stage, process: ProcessId) -> Value {
    let mut told = it.take(backend(process));
    assert_eq!(told.len(), 1, "{told:?}");
    told.pop().unwrap()
}

fn answer(it: &mut Stage, process: ProcessId, asked: &Value, result: &Value) {
    it.server(process, json!({"id": asked["id"], "result": result}));
}

fn ask(it: &mut Stage, id: u32, method: &str, params: &Value) {
    it.editor(json!({"id": id, "method": method, "params": params}));
}

fn documents() -> Value {
    json!({"textDocumentSync": 2, "hoverProvider": true, "completionProvider": {"resolveProvider": true}})
}

fn at(uri: &str) -> Value {
    json!({"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}})
}

#[test]
fn group_answers_initialize_once_with_what_all_can() {
    let mut it = group(&["a", "b"]);
    initialize(&mut it, &json!({"general": {"positionEncodings": ["utf-8", "utf-16"]}}));
    let told = it.take(backend(A));
    assert_eq!(told[0]["params"]["processId"], 77);
    assert_eq!(told[0]["params"]["capabilities"]["general"]["positionEncodings"], json!(["utf-16"]));
    it.server(A, json!({"id": told[0]["id"], "result": {"capabilities": {"hoverProvider": true}}}));
    assert!(it.take(EDITOR).is_empty(), "the other is waited for");
    ready(&mut it, B, &json!({"documentFormattingProvider": {}, "hoverProvider": false}));
    let answers = it.take(EDITOR);
    assert_eq!((answers.len(), &answers[0]["id"]), (1, &json!("i")), "{answers:?}");
    let capabilities = &answers[0]["result"]["capabilities"];
    assert_eq!(capabilities["hoverProvider"], true);
    assert_ne!(capabilities["documentFormattingProvider"], Value::Null);
}

#[test]
fn slow_member_holds_initialize_only_for_start_wait_and_joins_late() {
    let mut it = group(&["a", "b"]);
    initialize(&mut it, &json!({"textDocument": {"formatting": {"dynamicRegistration": true}}}));
    ready(&mut it, A, &documents());
    it.pass(Duration::from_millis(2999));
    assert!(it.take(EDITOR).is_empty());
    it.pass(Duration::from_millis(2));
    let answers = it.take(EDITOR);
    assert_eq!(answers[0]["id"], "i", "{answers:?}");
    it.editor(json!({"method": "initialized", "params": {}}));
    let open = json!({"textDocument": {"uri": "u", "languageId": "x", "version": 1, "text": ""}});
    it.editor(json!({"method": "textDocument/didOpen", "params": open}));
    assert_eq!(it.told(A), ["initialized", "textDocument/didOpen"]);
    ready(&mut it, B, &json!({"textDocumentSync": 2, "documentFormattingProvider": true}));
    assert_eq!(it.told(B), ["initialized", "textDocument/didOpen"]);
    let told = it.take(EDITOR);
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["client/registerCapability"], "{told:?}");
    assert_eq!(told[0]["params"]["registrations"][0]["method"], "textDocument/formatting");
    ask(&mut it, 1, "textDocument/formatting", &at("u"));
    assert_eq!(only(&mut it, B)["method"], "textDocument/formatting");
}

#[test]
fn missing_member_costs_nothing() {
    let mut it = group(&["a", "b"]);
    it.group.as_mut().unwrap().others[0].missing = Some("\"b\" was not found on PATH".to_owned());
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &documents());
    let told = it.take(EDITOR);
    assert!(told.iter().all(|it| name(it) == "answer"), "the warnings of the start say it: {told:?}");
    let answers: Vec<&Value> = told.iter().filter(|it| it["id"] == "i" && it["result"].is_object()).collect();
    assert_eq!(answers.len(), 1, "{told:?}");
}

#[test]
fn member_that_dies_at_its_start_is_told_and_costs_nothing() {
    let mut it = group(&["a", "b"]);
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &documents());
    for generation in 1..=2 {
        it.exited(process(1, generation), Exit::Code(1));
        it.pass(Duration::from_secs(2));
    }
    let told = it.take(EDITOR);
    let message = told.iter().find(|it| name(it) == "window/showMessageRequest").unwrap();
    assert!(message["params"]["message"].as_str().unwrap().contains("exit code 1"), "{message}");
    assert_eq!(told.iter().filter(|it| it["id"] == "i" && it["result"].is_object()).count(), 1, "{told:?}");
}

#[test]
fn group_without_any_member_says_why_in_its_answer_to_initialize() {
    let mut it = group(&["a", "b"]);
    it.missing = Some("\"a\" was not found".to_owned());
    it.group.as_mut().unwrap().others[0].missing = Some("\"b\" was not found".to_owned());
    initialize(&mut it, &json!({}));
    let told = it.take(EDITOR);
    let error = told.iter().find(|it| it["id"] == "i").unwrap()["error"]["message"].as_str().unwrap();
    assert!(error.contains("\"a\" was not found") && error.contains("\"b\" was not found"), "{error}");
}

#[test]
fn request_that_one_member_can_answer_goes_to_it_alone_as_it_is() {
    let mut it = pair_of(&documents(), &json!({"documentFormattingProvider": true}));
    let params = json!({"textDocument": {"uri": "u"}, "unknown": [1.50, {}], "workDoneToken": 7});
    ask(&mut it, 1, "textDocument/formatting", &params);
    let asked = only(&mut it, B);
    assert_eq!(asked["params"], params);
    assert!(it.told(A).is_empty());
    answer(&mut it, B, &asked, &json!([{"more": 1}]));
    assert_eq!(it.take(EDITOR), [json!({"jsonrpc": "2.0", "id": 1, "result": [{"more": 1}]})]);
}

#[test]
fn hover_of_two_members_is_one_answer() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, B, &b, &json!({"contents": {"kind": "markdown", "value": "of b"}}));
    assert!(it.take(EDITOR).is_empty(), "the other may say something");
    answer(&mut it, A, &a, &json!({"contents": {"kind": "markdown", "value": "of a"}}));
    let answers = it.take(EDITOR);
    assert_eq!(answers.len(), 1);
    let text = answers[0]["result"]["contents"]["value"].as_str().unwrap();
    assert!(text.find("of a").unwrap() < text.find("of b").unwrap(), "{text}");
}

#[test]
fn empty_and_error_are_not_answers_while_another_has_one() {
    for silent in [json!({"result": null}), json!({"error": {"code": -32603, "message": "x"}})] {
        let mut it = pair(&documents());
        ask(&mut it, 1, "textDocument/hover", &at("u"));
        let (a, b) = (only(&mut it, A), only(&mut it, B));
        let mut said = silent.clone();
        said["id"] = a["id"].clone();
        it.server(A, said);
        let hover = json!({"contents": "of b", "more": 1});
        answer(&mut it, B, &b, &hover);
        assert_eq!(it.take(EDITOR)[0]["result"], hover, "{silent}");
    }
}

#[test]
fn best_error_is_the_answer_where_all_fail() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    it.server(A, json!({"id": a["id"], "error": {"code": -32601, "message": "none"}}));
    let error = json!({"code": -32801, "message": "modified", "data": {"x": 1}});
    it.server(B, json!({"id": b["id"], "error": error}));
    assert_eq!(it.take(EDITOR), [json!({"jsonrpc": "2.0", "id": 1, "error": error})]);
}

#[test]
fn slow_member_is_not_waited_for_beyond_the_budget() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, B, &b, &json!({"contents": "of b"}));
    it.pass(Duration::from_millis(499));
    assert!(it.take(EDITOR).is_empty());
    it.pass(Duration::from_millis(2));
    assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "of b");
    assert_eq!(
        only(&mut it, A),
        json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": a["id"]}})
    );
    answer(&mut it, A, &a, &json!({"contents": "late"}));
    assert!(it.take(EDITOR).is_empty());
}

#[test]
fn nothing_is_given_up_while_nobody_has_anything_to_say() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, B, &b, &Value::Null);
    it.pass(Duration::from_secs(5));
    assert!(it.take(EDITOR).is_empty());
    answer(&mut it, A, &a, &json!({"contents": "after all"}));
    assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "after all");
}

#[test]
fn completion_items_are_resolved_by_their_maker() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "textDocument/completion", &at("u"));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, A, &a, &json!([{"label": "x", "data": {"id": 1}}]));
    answer(&mut it, B, &b, &json!({"isIncomplete": false, "items": [{"label": "y"}]}));
    let answers = it.take(EDITOR);
    let items = answers[0]["result"]["items"].as_array().unwrap().clone();
    assert_eq!(items.iter().map(|it| &it["label"]).collect::<Vec<_>>(), ["x", "y"]);
    for (id, (item, maker, bare)) in (2..).zip([
        (&items[0], A, json!({"label": "x", "data": {"id": 1}})),
        (&items[1], B, json!({"label": "y"})),
    ]) {
        ask(&mut it, id, "completionItem/resolve", item);
        let asked = only(&mut it, maker);
        assert_eq!(asked["params"], bare);
        answer(&mut it, maker, &asked, &json!({"label": "x", "documentation": "d"}));
        let told = it.take(EDITOR);
        assert_eq!((told.len(), &told[0]["result"]["documentation"]), (1, &json!("d")));
    }
    it.exited(A, Exit::Signal(9));
    ask(&mut it, 9, "completionItem/resolve", &items[0]);
    assert_eq!(it.take(EDITOR).last().unwrap()["result"], items[0], "its maker is gone");
}

#[test]
fn item_of_a_maker_that_adds_nothing_is_its_own_answer() {
    let mut it = pair_of(
        &json!({"textDocumentSync": 2, "completionProvider": {}}),
        &json!({"textDocumentSync": 2, "completionProvider": {"resolveProvider": true}}),
    );
    ask(&mut it, 1, "textDocument/completion", &at("file:///w/a.py"));
    for (process, label) in [(A, "a"), (B, "b")] {
        let asked = only(&mut it, process);
        answer(&mut it, process, &asked, &json!([{"label": label}]));
    }
    let items = it.take(EDITOR)[0]["result"].clone();
    let of_a = items.as_array().unwrap().iter().find(|it| it["label"] == "a").unwrap();
    ask(&mut it, 2, "completionItem/resolve", of_a);
    assert_eq!((&it.take(EDITOR)[0]["result"], it.take(backend(A)).len()), (of_a, 0));
}

#[test]
fn cancelled_question_is_answered_at_once_and_its_parts_are_cancelled() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    let answers = it.take(EDITOR);
    assert_eq!((answers.len(), &answers[0]["error"]["code"]), (1, &json!(-32800)));
    for (process, asked) in [(A, a), (B, b)] {
        let told = only(&mut it, process);
        assert_eq!((&told["method"], &told["params"]["id"]), (&json!("$/cancelRequest"), &asked["id"]));
        answer(&mut it, process, &asked, &json!({"contents": "x"}));
    }
    assert!(it.take(EDITOR).is_empty());
    // The id is free again.
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    assert_eq!(only(&mut it, A)["method"], "textDocument/hover");
}

#[test]
fn member_that_dies_costs_its_part_and_nothing_else() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let b = only(&mut it, B);
    it.exited(A, Exit::Signal(9));
    assert!(it.take(EDITOR).is_empty());
    answer(&mut it, B, &b, &json!({"contents": "of b"}));
    it.pass(Duration::from_millis(500));
    assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "of b");
    let again = process(0, 2);
    ready(&mut it, again, &documents());
    assert_eq!(it.told(again), ["initialized"]);
    ask(&mut it, 2, "textDocument/hover", &at("u"));
    assert_eq!(only(&mut it, again)["method"], "textDocument/hover");
}

#[test]
fn successor_is_asked_where_nobody_else_can() {
    let mut it = pair_of(&documents(), &json!({}));
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    it.take(backend(A));
    it.exited(A, Exit::Signal(9));
    let again = process(0, 2);
    ready(&mut it, again, &documents());
    let told = it.take(backend(again));
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["initialized", "textDocument/hover"]);
    answer(&mut it, again, &told[1], &json!({"contents": "late"}));
    assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "late");
}

#[test]
fn documents_reach_each_member_in_the_kind_that_it_takes() {
    let full = json!({"textDocumentSync": 1});
    let mut it = pair_of(&documents(), &full);
    let open = json!({"textDocument": {"uri": "u", "languageId": "x", "version": 1, "text": "ab\ncd"}});
    it.editor(json!({"method": "textDocument/didOpen", "params": open}));
    let range = json!({"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 1}});
    let changes = json!([{"range": range, "text": "é"}]);
    let change = json!({"textDocument": {"uri": "u", "version": 2}, "contentChanges": changes});
    it.editor(json!({"method": "textDocument/didChange", "params": change}));
    let (a, b) = (it.take(backend(A)), it.take(backend(B)));
    assert_eq!(a[1]["params"], change);
    assert_eq!(b[1]["params"]["contentChanges"], json!([{"text": "ab\néd"}]));
    assert_eq!(b[1]["params"]["textDocument"], change["textDocument"]);
    it.exited(B, Exit::Signal(9));
    let again = process(1, 2);
    ready(&mut it, again, &full);
    let told = it.take(backend(again));
    assert_eq!(told[1]["params"]["textDocument"]["text"], "ab\néd");
}

#[test]
fn diagnostics_of_members_are_shown_together() {
    let mut it = pair(&documents());
    let publish = |it: &mut Stage, by: ProcessId, list: Value| {
        let params = json!({"uri": "file:///u", "version": 1, "diagnostics": list});
        it.pass(Duration::from_millis(10));
        it.server(by, json!({"method": "textDocument/publishDiagnostics", "params": params}));
        it.take(EDITOR).pop().map_or(Value::Null, |it| it["params"]["diagnostics"].clone())
    };
    let (one, two) = (json!({"message": "a"}), json!({"message": "b"}));
    assert_eq!(publish(&mut it, B, json!([two])), json!([two]));
    assert_eq!(publish(&mut it, A, json!([one])), json!([one, two]));
    assert_eq!(publish(&mut it, A, json!([])), json!([two]));
    assert_eq!(publish(&mut it, A, json!([one])), json!([one, two]));
    it.exited(B, Exit::Signal(9));
    assert!(it.take(EDITOR).is_empty(), "they stay while it comes back");
    let again = process(1, 2);
    ready(&mut it, again, &documents());
    it.pass(Duration::from_secs(6));
    let told = it.take(EDITOR);
    assert_eq!(told.last().unwrap()["params"]["diagnostics"], json!([one]), "{told:?}");
}

#[test]
fn unknown_method_goes_on_to_the_member_that_knows_it() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "rust-analyzer/expandMacro", &json!({}));
    let a = only(&mut it, A);
    assert!(it.told(B).is_empty());
    it.server(A, json!({"id": a["id"], "error": {"code": -32601, "message": "unknown"}}));
    let b = only(&mut it, B);
    answer(&mut it, B, &b, &json!({"name": "m"}));
    assert_eq!(it.take(EDITOR)[0]["result"], json!({"name": "m"}));
}

#[test]
fn command_goes_to_the_member_that_offers_it() {
    let offers = |name: &str| json!({"executeCommandProvider": {"commands": [name]}});
    let mut it = pair_of(&offers("a.run"), &offers("b.run"));
    for (id, (command, member)) in (1..).zip([("b.run", B), ("a.run", A)]) {
        ask(&mut it, id, "workspace/executeCommand", &json!({"command": command}));
        let asked = only(&mut it, member);
        answer(&mut it, member, &asked, &Value::Null);
        assert_eq!(it.take(EDITOR).len(), 1);
    }
}

#[test]
fn what_members_ask_is_answered_to_who_asked() {
    let mut it = pair(&documents());
    for (process, section) in [(A, "a"), (B, "b")] {
        let items = json!({"items": [{"section": section}]});
        it.server(process, json!({"id": 1, "method": "workspace/configuration", "params": items}));
    }
    for asked in it.take(EDITOR) {
        let section = asked["params"]["items"][0]["section"].clone();
        it.editor(json!({"id": asked["id"], "result": [section]}));
    }
    for (process, section) in [(A, "a"), (B, "b")] {
        assert_eq!(only(&mut it, process)["result"], json!([section]));
    }
}

#[test]
fn editor_is_asked_once_for_a_method_that_it_knows() {
    let mut it = pair(&documents());
    let register = |id: &str, method: &str| {
        let one = json!({"id": id, "method": method, "registerOptions": {"x": id}});
        json!({"id": id, "method": "client/registerCapability", "params": {"registrations": [one]}})
    };
    it.server(A, register("r1", "textDocument/hover"));
    assert_eq!(only(&mut it, A)["result"], Value::Null);
    assert!(it.take(EDITOR).is_empty(), "it was told in the answer to initialize");
    it.server(A, register("r2", "textDocument/formatting"));
    assert_eq!(it.take(EDITOR).len(), 1);
    it.server(B, register("r3", "textDocument/formatting"));
    assert!(it.take(EDITOR).is_empty());
    it.server(B, register("r4", "workspace/didChangeWatchedFiles"));
    assert_eq!(it.take(EDITOR).len(), 1, "files are watched for each member");
}

#[test]
fn shutdown_is_answered_when_all_members_have() {
    let mut it = pair(&documents());
    it.editor(json!({"id": 9, "method": "shutdown"}));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, A, &a, &Value::Null);
    assert!(it.take(EDITOR).is_empty());
    answer(&mut it, B, &b, &Value::Null);
    assert_eq!(it.take(EDITOR)[0]["id"], 9);
    it.editor(json!({"method": "exit"}));
    assert_eq!(
        (it.told(A), it.told(B), it.exit),
        (vec!["exit".to_owned()], vec!["exit".to_owned()], Some(0))
    );
}

#[test]
fn group_of_three_waits_for_a_dead_member_as_for_a_slow_one() {
    let mut it = group(&["a", "b", "c"]);
    initialize(&mut it, &json!({}));
    for process in [A, B, C] {
        ready(&mut it, process, &documents());
    }
    it.editor(json!({"method": "initialized", "params": {}}));
    for process in [A, B, C] {
        it.take(backend(process));
    }
    it.exited(B, Exit::Signal(9));
    it.take(EDITOR);
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let (a, c) = (only(&mut it, A), only(&mut it, C));
    answer(&mut it, A, &a, &json!({"contents": "a"}));
    answer(&mut it, C, &c, &Value::Null);
    assert!(it.take(EDITOR).is_empty());
    it.pass(Duration::from_millis(500));
    assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "a");
}

#[test]
fn command_that_two_members_offer_is_told_apart_by_its_server() {
    let mut it = group(&["a", "b"]);
    initialize(&mut it, &json!({}));
    let offers = json!({"executeCommandProvider": {"commands": ["run"]}});
    ready(&mut it, A, &offers);
    ready(&mut it, B, &offers);
    let answers = it.take(EDITOR);
    let commands = &answers[0]["result"]["capabilities"]["executeCommandProvider"]["commands"];
    assert!(commands.as_array().unwrap().contains(&json!("run@b")), "{commands}");
    ask(&mut it, 1, "workspace/executeCommand", &json!({"command": "run@b", "arguments": [1]}));
    let asked = only(&mut it, B);
    assert_eq!(asked["params"], json!({"command": "run", "arguments": [1]}));
    ask(&mut it, 2, "workspace/executeCommand", &json!({"command": "run"}));
    assert_eq!(only(&mut it, A)["params"]["command"], "run");
}

#[test]
fn code_actions_are_asked_with_each_members_own_diagnostics() {
    let mut it = pair(&json!({"codeActionProvider": true, "textDocumentSync": 2}));
    let of = |message: &str| json!({"range": {"start": {"line": 0, "character": 0}}, "message": message});
    for (by, message) in [(A, "a"), (B, "b")] {
        let params = json!({"uri": "file:///u", "diagnostics": [of(message)]});
        it.server(by, json!({"method": "textDocument/publishDiagnostics", "params": params}));
    }
    it.take(EDITOR);
    let context = json!({"diagnostics": [of("a"), of("b"), of("of nobody")]});
    ask(
        &mut it,
        1,
        "textDocument/codeAction",
        &json!({"textDocument": {"uri": "file:///u"}, "context": context}),
    );
    for (process, own) in [(A, "a"), (B, "b")] {
        let asked = only(&mut it, process);
        assert_eq!(asked["params"]["context"]["diagnostics"], json!([of(own), of("of nobody")]));
        let action = json!({"title": own, "kind": "quickfix"});
        answer(&mut it, process, &asked, &json!([action]));
    }
    let answers = it.take(EDITOR);
    let titles: Vec<&Value> =
        answers[0]["result"].as_array().unwrap().iter().map(|it| &it["title"]).collect();
    assert_eq!(titles, ["a", "b"]);
}

#[test]
fn member_is_used_only_for_the_features_that_it_may_be_used_for() {
    let mut it = group(&["a", "b"]);
    let limited = &mut it.group.as_mut().unwrap().others[0].server;
    limited.except = vec!["hover".to_owned(), "diagnostics".to_owned()];
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &documents());
    ready(&mut it, B, &documents());
    it.editor(json!({"method": "initialized", "params": {}}));
    it.take(EDITOR);
    for process in [A, B] {
        it.take(backend(process));
    }
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    assert!(it.told(B).is_empty());
    assert_eq!(it.told(A), ["textDocument/hover"]);
    let params = json!({"uri": "file:///u", "diagnostics": [{"message": "m"}]});
    it.server(B, json!({"method": "textDocument/publishDiagnostics", "params": params}));
    assert!(it.take(EDITOR).is_empty());
}

#[test]
fn order_says_who_formats() {
    let mut it = group(&["a", "b"]);
    it.group.as_mut().unwrap().order.insert("format".to_owned(), vec!["b".to_owned()]);
    initialize(&mut it, &json!({}));
    for process in [A, B] {
        ready(&mut it, process, &json!({"documentFormattingProvider": true}));
    }
    ask(&mut it, 1, "textDocument/formatting", &at("u"));
    assert_eq!(only(&mut it, B)["method"], "textDocument/formatting");
}

#[test]
fn settings_of_a_member_are_laid_over_those_of_the_editor() {
    let mut it = group(&["a", "b"]);
    let settings = json!({"lint": {"select": ["ALL"]}});
    it.group.as_mut().unwrap().others[0].server.settings = settings.as_object().unwrap().clone();
    initialize(&mut it, &json!({"workspace": {"configuration": true}}));
    ready(&mut it, A, &documents());
    ready(&mut it, B, &documents());
    it.take(EDITOR);
    it.server(
        B,
        json!({"id": 1, "method": "workspace/configuration", "params": {"items": [{"section": "lint"}]}}),
    );
    let asked = it.take(EDITOR).pop().unwrap();
    it.editor(json!({"id": asked["id"], "result": [{"select": ["E"], "line": 80}]}));
    assert_eq!(only(&mut it, B)["result"], json!([{"select": ["ALL"], "line": 80}]));
    let push =
        json!({"method": "workspace/didChangeConfiguration", "params": {"settings": {"lint": {"line": 9}}}});
    it.editor(push.clone());
    assert_eq!(only(&mut it, A)["params"], push["params"]);
    assert_eq!(only(&mut it, B)["params"]["settings"], json!({"lint": {"line": 9, "select": ["ALL"]}}));
}

#[test]
fn document_reaches_only_members_of_its_language() {
    let mut it = group(&["a", "b"]);
    it.server.languages = vec!["python".to_owned()];
    it.group.as_mut().unwrap().others[0].server.languages = vec!["rust".to_owned()];
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &documents());
    ready(&mut it, B, &documents());
    it.editor(json!({"method": "initialized", "params": {}}));
    for process in [A, B] {
        it.take(backend(process));
    }
    for (uri, language) in [("p", "python"), ("r", "rust")] {
        let open = json!({"textDocument": {"uri": uri, "languageId": language, "version": 1, "text": ""}});
        it.editor(json!({"method": "textDocument/didOpen", "params": open}));
    }
    ask(&mut it, 1, "textDocument/hover", &at("r"));
    it.editor(json!({"method": "textDocument/didClose", "params": {"textDocument": {"uri": "p"}}}));
    assert_eq!(it.told(A), ["textDocument/didOpen", "textDocument/didClose"]);
    assert_eq!(it.told(B), ["textDocument/didOpen", "textDocument/hover"]);
}

#[test]
fn copilot_serves_conversations_in_a_group() {
    let mut it = group(&["a", "copilot"]);
    it.group.as_mut().unwrap().others[0].server.kind = Some(ServerKind::Copilot);
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &documents());
    ready(&mut it, B, &documents());
    it.editor(json!({"method": "initialized", "params": {}}));
    assert_eq!(it.told(A), ["initialized"]);
    assert_eq!(it.told(B)[0], "initialized");
    it.take(EDITOR);
    let open = json!({"textDocument": {"uri": "u", "languageId": "x", "version": 1, "text": ""}});
    it.editor(json!({"method": "textDocument/didOpen", "params": open}));
    assert_eq!(
        (it.told(A), it.told(B)),
        (vec!["textDocument/didOpen".to_owned()], vec!["textDocument/didOpen".to_owned()])
    );
    it.create(1, &json!({}));
    assert!(it.told(A).is_empty());
    let told = it.take(backend(B));
    let create = told.iter().find(|it| name(it) == "conversation/create").unwrap().clone();
    answer(&mut it, B, &create, &json!({"conversationId": "c", "turnId": "t"}));
    let answers = it.take(EDITOR);
    assert_eq!(answers.iter().find(|it| it["id"] == 1).unwrap()["result"]["conversationId"], "c");
    // The other member dies and comes back; the conversation does not notice.
    it.exited(A, Exit::Signal(9));
    ready(&mut it, process(0, 2), &documents());
    assert_eq!(it.told(process(0, 2)), ["initialized", "textDocument/didOpen"]);
    // Copilot dies and comes back with its session.
    it.exited(B, Exit::Signal(9));
    let again = process(1, 2);
    let told = it.take(backend(again));
    it.server(again, json!({"id": told[0]["id"], "result": {"capabilities": documents()}}));
    let told = it.told(again);
    assert_eq!(told[..2], ["initialized", "textDocument/didOpen"], "{told:?}");
    ask(&mut it, 7, "textDocument/hover", &at("u"));
    assert_eq!(it.told(process(0, 2)), ["textDocument/hover"]);
}
