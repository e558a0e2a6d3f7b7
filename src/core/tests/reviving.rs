//! A server that dies and comes back: its requests, and the editor's screen.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, name, process};
use crate::{
    config::ServerKind,
    core::event::{Exit, Peer, ProcessId},
};

fn generic() -> Stage {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it
}

/// The process of this generation dies; returns the messages to the editor.
fn crash(it: &mut Stage, generation: u32) -> Vec<Value> {
    it.take(EDITOR);
    it.exited(process(0, generation), Exit::Signal(9));
    it.take(EDITOR)
}

/// The process answers `initialize`; returns the messages to it.
fn ready(it: &mut Stage, generation: u32, capabilities: &Value) -> Vec<Value> {
    it.pass(Duration::from_secs(2));
    let next = process(0, generation);
    let asked = it.take(Peer::Backend(next));
    assert_eq!(asked[0]["method"], "initialize");
    it.server(next, json!({"id": asked[0]["id"], "result": {"capabilities": capabilities}}));
    it.take(Peer::Backend(next))
}

fn ask(it: &mut Stage, id: u32, method: &str) {
    it.editor(json!({"id": id, "method": method, "params": {"n": id}}));
}

fn publish(it: &mut Stage, by: ProcessId, uri: &str, diagnostics: &Value) {
    let params = json!({"uri": uri, "diagnostics": diagnostics});
    it.server(by, json!({"method": "textDocument/publishDiagnostics", "params": params}));
}

fn register(it: &mut Stage, by: ProcessId, id: &str, method: &str, options: &Value) {
    let one = json!({"id": id, "method": method, "registerOptions": options});
    let params = json!({"registrations": [one]});
    it.server(by, json!({"id": id, "method": "client/registerCapability", "params": params}));
}

#[test]
fn retries_read_requests_once_in_order() {
    let mut it = generic();
    ask(&mut it, 1, "textDocument/hover");
    ask(&mut it, 2, "workspace/executeCommand");
    ask(&mut it, 3, "textDocument/definition");
    let first = it.take(Peer::Backend(process(0, 1)));
    let told = crash(&mut it, 1);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["id"], 2);
    assert_eq!(
        told[0]["error"]["data"]["lspool"],
        json!({"partition": "copilot", "cause": "crashed", "retry": true})
    );
    ask(&mut it, 4, "textDocument/hover");
    let asked = ready(&mut it, 2, &json!({}));
    let of = |all: &[Value]| all.iter().map(|it| it["params"]["n"].clone()).collect::<Vec<_>>();
    assert_eq!(of(&asked[1..]), [1, 3, 4]);
    assert!(asked.iter().all(|it| first.iter().all(|was| was["id"] != it["id"] || it["id"].is_null())));
    // The first process's answers have no receiver.
    it.server(process(0, 2), json!({"id": first[0]["id"], "result": "late"}));
    assert_eq!(it.take(EDITOR), [] as [Value; 0]);
    it.server(process(0, 2), json!({"id": asked[1]["id"], "result": "found"}));
    assert_eq!(it.take(EDITOR), [json!({"jsonrpc": "2.0", "id": 1, "result": "found"})]);
    // A request that has seen two processes die does not go to a third; one that has seen one does.
    let told = crash(&mut it, 2);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["id"], 3);
    assert_eq!(told[0]["error"]["data"]["lspool"]["retry"], false);
    assert_eq!(of(&ready(&mut it, 3, &json!({}))[1..]), [4]);
}

#[test]
fn cancelled_requests_are_not_retried() {
    let mut it = generic();
    ask(&mut it, 1, "textDocument/hover");
    ask(&mut it, 2, "textDocument/hover");
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    let told = crash(&mut it, 1);
    assert_eq!((&told[0]["id"], &told[0]["error"]["code"]), (&json!(1), &json!(-32800)));
    assert_eq!(told.len(), 1);
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 2}}));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32800);
    assert_eq!(ready(&mut it, 2, &json!({})).iter().map(name).collect::<Vec<_>>(), ["initialized"]);
}

#[test]
fn partially_answered_requests_are_not_retried() {
    let mut it = generic();
    for (id, token) in [(1, json!({"partialResultToken": "a"})), (2, json!({"workDoneToken": 7}))] {
        it.editor(json!({"id": id, "method": "textDocument/references", "params": token}));
    }
    let untouched = json!({"partialResultToken": "b", "workDoneToken": "7"});
    it.editor(json!({"id": 3, "method": "textDocument/references", "params": untouched}));
    let server = process(0, 1);
    it.server(server, json!({"method": "$/progress", "params": {"token": "a", "value": []}}));
    let begin = json!({"kind": "begin", "title": "x"});
    it.server(server, json!({"method": "$/progress", "params": {"token": 7, "value": begin}}));
    let told = crash(&mut it, 1);
    let failed: Vec<&Value> = told.iter().filter(|it| it["error"].is_object()).map(|it| &it["id"]).collect();
    assert_eq!(failed, [1, 2]);
    let asked = ready(&mut it, 2, &json!({}));
    assert_eq!(asked[1]["params"], untouched);
    assert_eq!(asked.len(), 2);
}

#[test]
fn resolve_of_crashed_process_item_returns_it_unchanged() {
    let mut it = generic();
    crash(&mut it, 1);
    let item = json!({"label": "x", "data": 7});
    it.editor(json!({"id": 1, "method": "completionItem/resolve", "params": item}));
    assert_eq!(ready(&mut it, 2, &json!({})).iter().map(name).collect::<Vec<_>>(), ["initialized"]);
    assert_eq!(it.take(EDITOR), [json!({"jsonrpc": "2.0", "id": 1, "result": item})]);
}

#[test]
fn request_fails_when_restart_budget_is_spent() {
    let mut it = generic();
    for generation in 1..=5 {
        crash(&mut it, generation);
        it.pass(Duration::from_secs(10));
    }
    ready(&mut it, 6, &json!({}));
    ask(&mut it, 1, "textDocument/hover");
    let told = crash(&mut it, 6);
    assert_eq!(told.iter().filter(|it| it["id"] == 1).count(), 1, "{told:?}");
    it.pass(Duration::from_secs(100));
    assert_eq!(it.take(EDITOR), [] as [Value; 0]);
}

#[test]
fn registrations_not_repeated_after_restart_are_withdrawn() {
    let mut it = generic();
    for (id, method) in [("a", "m/same"), ("b", "m/changed"), ("c", "m/gone")] {
        register(&mut it, process(0, 1), id, method, &json!({"x": 1}));
    }
    assert_eq!(crash(&mut it, 1), [] as [Value; 0]);
    ready(&mut it, 2, &json!({}));
    register(&mut it, process(0, 2), "other", "m/same", &json!({"x": 1}));
    assert_eq!(it.take(EDITOR), [] as [Value; 0]);
    assert_eq!(it.told(process(0, 2)), ["answer"]);
    register(&mut it, process(0, 2), "b", "m/changed", &json!({"x": 2}));
    register(&mut it, process(0, 2), "d", "m/new", &json!({"x": 1}));
    let told = it.take(EDITOR);
    assert_eq!(
        told.iter().map(name).collect::<Vec<_>>(),
        ["client/unregisterCapability", "client/registerCapability", "client/registerCapability"]
    );
    assert_eq!(told[0]["params"], json!({"unregisterations": [{"id": "b", "method": "m/changed"}]}));
    assert_eq!(told[1]["params"]["registrations"][0]["registerOptions"], json!({"x": 2}));
    assert_eq!(told[2]["params"]["registrations"][0]["id"], "d");
    it.pass(Duration::from_millis(4999));
    assert_eq!(it.take(EDITOR), [] as [Value; 0]);
    it.pass(Duration::from_millis(1));
    let told = it.take(EDITOR);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["params"], json!({"unregisterations": [{"id": "c", "method": "m/gone"}]}));
    // The editor's `a` is the server's `other`.
    let gone = json!({"unregisterations": [{"id": "other", "method": "m/same"}]});
    it.server(process(0, 2), json!({"id": 9, "method": "client/unregisterCapability", "params": gone}));
    assert_eq!(it.take(EDITOR)[0]["params"]["unregisterations"][0]["id"], "a");
}

#[test]
fn diagnostics_not_repeated_after_restart_are_cleared() {
    let mut it = generic();
    let two = json!([{"message": "one"}, {"message": "two"}]);
    for uri in ["a", "b", "c"] {
        publish(&mut it, process(0, 1), uri, &two);
    }
    publish(&mut it, process(0, 1), "c", &json!([]));
    assert_eq!(crash(&mut it, 1), [] as [Value; 0]);
    ready(&mut it, 2, &json!({}));
    publish(&mut it, process(0, 2), "a", &two);
    assert_eq!(it.take(EDITOR).len(), 1);
    // A second death restarts the time.
    it.pass(Duration::from_secs(4));
    crash(&mut it, 2);
    ready(&mut it, 3, &json!({}));
    publish(&mut it, process(0, 3), "a", &two);
    it.take(EDITOR);
    it.pass(Duration::from_millis(4999));
    assert_eq!(it.take(EDITOR), [] as [Value; 0]);
    it.pass(Duration::from_millis(1));
    let cleared = |uri: &str| json!({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": []}});
    assert_eq!(it.take(EDITOR), [cleared("b")]);
    it.pass(Duration::from_secs(100));
    assert_eq!(it.take(EDITOR), [] as [Value; 0]);
}

#[test]
fn failed_server_diagnostics_are_cleared_at_once() {
    let mut it = generic();
    for generation in 1..=5 {
        crash(&mut it, generation);
        it.pass(Duration::from_secs(10));
    }
    ready(&mut it, 6, &json!({}));
    publish(&mut it, process(0, 6), "a", &json!([{}]));
    let told = crash(&mut it, 6);
    let cleared = |it: &&Value| it["params"] == json!({"uri": "a", "diagnostics": []});
    assert_eq!(told.iter().filter(cleared).count(), 1, "{told:?}");
}

#[test]
fn editor_is_asked_to_pull_again_after_restart() {
    let refresh = json!({"refreshSupport": true});
    let workspace = json!({"diagnostics": refresh, "semanticTokens": refresh, "codeLens": {"refreshSupport": false}, "inlayHint": refresh});
    let mut it = Stage::new(ServerKind::Generic);
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {"workspace": workspace}}}));
    let first = process(0, 1);
    let asked = it.take(Peer::Backend(first));
    let provides = json!({"diagnosticProvider": {"interFileDependencies": false}, "codeLensProvider": {}});
    it.server(first, json!({"id": asked[0]["id"], "result": {"capabilities": provides}}));
    it.editor(json!({"method": "initialized", "params": {}}));
    register(&mut it, first, "s", "textDocument/semanticTokens", &json!({}));
    assert_eq!(
        it.take(EDITOR).iter().map(name).collect::<Vec<_>>(),
        ["answer", "client/registerCapability"],
        "nothing is asked at the first start"
    );
    crash(&mut it, 1);
    ready(&mut it, 2, &provides);
    let told: Vec<String> = it.take(EDITOR).iter().map(name).collect();
    assert_eq!(told, ["workspace/diagnostic/refresh", "workspace/semanticTokens/refresh"]);
    // Result ids of the dead mean nothing to the next one, until it has given its own.
    let pull = json!({"textDocument": {"uri": "u"}, "previousResultId": "1"});
    let (delta, full) = ("textDocument/semanticTokens/full/delta", "textDocument/semanticTokens/full");
    it.editor(json!({"id": 5, "method": delta, "params": pull}));
    let told = it.take(Peer::Backend(process(0, 2)));
    assert_eq!(
        (&told[0]["method"], &told[0]["params"]),
        (&json!(full), &json!({"textDocument": {"uri": "u"}}))
    );
    it.server(process(0, 2), json!({"id": told[0]["id"], "result": {"resultId": "1", "data": []}}));
    it.editor(json!({"id": 6, "method": delta, "params": pull}));
    assert_eq!(it.take(Peer::Backend(process(0, 2)))[0]["params"], pull);
}

#[test]
fn large_session_is_told_as_the_server_reads() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    let text = "x".repeat(1 << 20);
    let document = |uri: &str, more: Value| {
        let mut document = json!({"uri": uri, "version": 1});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"textDocument": document})
    };
    let uris: Vec<String> = (0..10).map(|n| format!("d{n}")).collect();
    for uri in &uris {
        let params = document(uri, json!({"languageId": "x", "text": text}));
        it.editor(json!({"method": "textDocument/didOpen", "params": params}));
    }
    it.exited(process(0, 1), Exit::Signal(9));
    let next = process(0, 2);
    it.open(next);
    let opened = |it: &mut Stage| -> Vec<String> {
        let all = it.take(Peer::Backend(next)).into_iter();
        all.map(|it| {
            let document = &it["params"]["textDocument"];
            let length = document["text"].as_str().map_or(0, str::len);
            format!("{} {} {length}", name(&it), document["uri"].as_str().unwrap_or_default())
        })
        .collect()
    };
    let first = opened(&mut it);
    assert_eq!(
        (first.len(), &*first[4], it.feeding.len()),
        (5, "textDocument/didOpen d3 1048576", 1),
        "{first:?}"
    );
    // Of one that was told, of one that is still to be told, and one that is closed before; a new one; a question.
    let change = |uri: &str| {
        let mut params = document(uri, json!({}));
        params["contentChanges"] = json!([{"text": "short"}]);
        json!({"method": "textDocument/didChange", "params": params})
    };
    it.editor(change("d0"));
    it.editor(change("d4"));
    it.editor(json!({"method": "textDocument/didClose", "params": {"textDocument": {"uri": "d5"}}}));
    it.editor(json!({"method": "textDocument/didOpen", "params": document("new", json!({"text": "n"}))}));
    it.editor(json!({"id": 5, "method": "textDocument/hover", "params": {}}));
    assert!(opened(&mut it).is_empty(), "it has not read yet");
    let mut rest = Vec::new();
    for _ in 0..5 {
        it.event(crate::core::event::Event::Drained(next));
        rest.extend(opened(&mut it));
    }
    let expected = [
        "textDocument/didOpen d4 5",
        "textDocument/didOpen d6 1048576",
        "textDocument/didOpen d7 1048576",
        "textDocument/didOpen d8 1048576",
        "textDocument/didOpen d9 1048576",
        "textDocument/didChange d0 0",
        "textDocument/didOpen new 1",
        "textDocument/hover  0",
    ];
    assert_eq!(rest, expected);
    assert_eq!(it.feeding.len(), 2);
}
