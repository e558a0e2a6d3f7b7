//! The configuration is read again while a group runs.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};

use super::{A, B, C, ask, at, backend, documents, group, initialize, member, only, ready};
use crate::{
    config::{ServerConfig, ServerKind, StartAt},
    core::{
        event::{Exit, Member, ProcessId},
        tests::stage::{EDITOR, Stage, measured, name, process},
    },
};

const CHANGED: &str = "workspace/didChangeConfiguration";

fn settings(it: &Value) -> Map<String, Value> {
    it.as_object().unwrap().clone()
}

/// Settings of the second member.
fn set(it: &mut Stage, to: &Value) {
    it.group.as_mut().unwrap().others[0].server.settings = settings(to);
}

fn reload(it: &mut Stage, id: u32) -> Value {
    it.editor(json!({"id": id, "method": "lspool/reload"}));
    let told = it.take(EDITOR);
    told.iter().find(|it| it["id"] == id).unwrap_or_else(|| panic!("{told:?}")).clone()
}

/// A group of two, the second with these settings.
fn started(second: &Value) -> Stage {
    let mut it = group(&["a", "b"]);
    set(&mut it, second);
    opened(it, &json!({"workspace": {"configuration": true}}))
}

/// The same group with both members ready, for an editor with these capabilities.
fn opened(mut it: Stage, capabilities: &Value) -> Stage {
    initialize(&mut it, capabilities);
    let n = it.group.as_ref().unwrap().others.len() + 1;
    let members = &[A, B, C][..n];
    for by in members {
        ready(&mut it, *by, &documents());
    }
    it.editor(json!({"method": "initialized", "params": {}}));
    for by in members {
        it.take(backend(*by));
    }
    it.take(EDITOR);
    it
}

#[test]
fn changed_settings_are_sent_to_their_member_alone() {
    let mut it = started(&json!({"lint": {"select": ["E"]}}));
    let push = json!({"method": CHANGED, "params": {"settings": {"lint": {"line": 9}}}});
    it.editor(push);
    assert_eq!(only(&mut it, B)["params"]["settings"], json!({"lint": {"line": 9, "select": ["E"]}}));
    it.take(backend(A));

    assert_eq!(reload(&mut it, 1)["result"]["changed"], json!([]));
    assert!(it.told(B).is_empty(), "nothing has changed");

    set(&mut it, &json!({"lint": {"select": ["ALL"]}}));
    assert_eq!(reload(&mut it, 2)["result"]["changed"], json!(["settings"]));
    assert!(it.told(A).is_empty());
    let told = only(&mut it, B);
    assert_eq!(
        (name(&told).as_str(), &told["params"]["settings"]),
        (CHANGED, &json!({"lint": {"line": 9, "select": ["ALL"]}}))
    );

    // Those of the editor alone, and nothing of before.
    set(&mut it, &json!({}));
    reload(&mut it, 3);
    assert_eq!(only(&mut it, B)["params"]["settings"], json!({"lint": {"line": 9}}));
    assert!(it.terminated.is_empty(), "for that no process ends");
}

#[test]
fn member_is_used_again_for_a_feature_that_is_no_longer_excepted() {
    let mut it = group(&["a", "b"]);
    it.group.as_mut().unwrap().others[0].server.except = vec!["hover".to_owned()];
    let mut it = opened(it, &json!({}));
    ask(&mut it, 1, "textDocument/hover", &at("file:///w/x"));
    only(&mut it, A);
    assert!(it.told(B).is_empty());
    it.group.as_mut().unwrap().others[0].server.except = Vec::new();
    reload(&mut it, 2);
    ask(&mut it, 3, "textDocument/hover", &at("file:///w/x"));
    assert_eq!(name(&only(&mut it, B)), "textDocument/hover");
}

#[test]
fn next_process_gets_the_settings_of_the_last_reload() {
    let mut it = started(&json!({"x": 1}));
    set(&mut it, &json!({"x": 2}));
    reload(&mut it, 1);
    assert_eq!(only(&mut it, B)["params"]["settings"], json!({"x": 2}), "the editor has none");
    it.exited(B, crate::core::event::Exit::Signal(9));
    let again = super::process(1, 2);
    ready(&mut it, again, &documents());
    let told = it.take(backend(again));
    let push = told.iter().find(|it| name(it) == CHANGED).unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!(push["params"]["settings"], json!({"x": 2}));
}

/// A group of a plain server and a Copilot server, in this order or in the other.
fn with_copilot(first: &str, second: &str) -> Stage {
    let mut it = group(&[first, second]);
    match first == "copilot" {
        true => it.server.kind = Some(ServerKind::Copilot),
        false => it.group.as_mut().unwrap().others[0].server.kind = Some(ServerKind::Copilot),
    }
    opened(it, &json!({}))
}

#[test]
fn group_with_copilot_at_any_place_is_reloaded() {
    for (first, second, copilot) in [("a", "copilot", B), ("copilot", "a", A)] {
        let mut it = with_copilot(first, second);
        let answer = reload(&mut it, 1);
        assert_eq!(answer["result"], json!({"changed": []}), "{first}: {answer}");
        it.create(2, &json!({}));
        assert!(it.told(copilot).contains(&"conversation/create".to_owned()), "{first}");
    }
}

#[test]
fn settings_of_copilot_are_laid_over_those_of_the_editor() {
    for (first, second, copilot) in [("a", "copilot", B), ("copilot", "a", A)] {
        let mut it = with_copilot(first, second);
        let own = settings(&json!({"telemetry": {"telemetryLevel": "off"}}));
        match copilot == A {
            true => it.server.settings = own,
            false => it.group.as_mut().unwrap().others[0].server.settings = own,
        }
        reload(&mut it, 1);
        let pushed = |it: &mut Stage| {
            let told = it.take(backend(copilot));
            let all = told.iter().filter(|it| name(it) == CHANGED);
            all.map(|it| it["params"]["settings"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(pushed(&mut it), [json!({"telemetry": {"telemetryLevel": "off"}})], "{first}");
        it.editor(json!({"method": CHANGED, "params": {"settings": {"http": {"proxy": "p"}}}}));
        let all = json!({"http": {"proxy": "p"}, "telemetry": {"telemetryLevel": "off"}});
        assert_eq!(pushed(&mut it), [all], "{first}");
    }
}

/// Opens a document of a language.
fn open(it: &mut Stage, uri: &str, language: &str) {
    let document = json!({"uri": uri, "languageId": language, "version": 1, "text": "x"});
    it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
}

/// The editor takes registrations of formatting.
fn registering() -> Value {
    json!({"textDocument": {"formatting": {"dynamicRegistration": true}}, "workspace": {"workspaceFolders": true}})
}

fn formats() -> Value {
    json!({"textDocumentSync": 2, "documentFormattingProvider": true})
}

fn publish(it: &mut Stage, by: ProcessId, message: &str) {
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let params = json!({"uri": "u", "diagnostics": [{"range": range, "message": message}]});
    it.server(by, json!({"method": "textDocument/publishDiagnostics", "params": params}));
}

/// The messages of the last publication.
fn published(it: &mut Stage) -> Vec<String> {
    let told = it.take(EDITOR);
    let last = told.iter().rfind(|it| name(it) == "textDocument/publishDiagnostics");
    let last = last.unwrap_or_else(|| panic!("{told:?}"))["params"]["diagnostics"].clone();
    last.as_array().unwrap().iter().map(|it| it["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn document_of_removed_member_is_for_one_that_is_added() {
    let mut it = group(&["a", "b"]);
    it.server.languages = vec!["x".to_owned()];
    it.group.as_mut().unwrap().others[0].server.languages = vec!["css".to_owned()];
    let mut it = opened(it, &registering());
    open(&mut it, "c", "css");
    for peer in [backend(A), backend(B), EDITOR] {
        it.take(peer);
    }
    let mut added = member("c");
    added.server.languages = vec!["css".to_owned()];
    it.group.as_mut().unwrap().others = vec![added];
    reload(&mut it, 1);
    it.exited(B, Exit::Code(0));
    let told = it.take(backend(C));
    it.server(C, json!({"id": told[0]["id"], "result": {"capabilities": documents()}}));
    assert!(it.told(C).contains(&"textDocument/didOpen".to_owned()), "nobody else has it");
    let change = json!({"textDocument": {"uri": "c", "version": 2}, "contentChanges": [{"text": "new"}]});
    it.editor(json!({"method": "textDocument/didChange", "params": change}));
    assert_eq!(it.told(C), ["textDocument/didChange"], "from then on it is the member's document");
    assert!(!it.told(A).contains(&"textDocument/didChange".to_owned()), "and nobody else's");
}

#[test]
fn added_member_joins_like_a_late_one() {
    let mut it = group(&["a", "b"]);
    it.server.languages = vec!["x".to_owned()];
    it.group.as_mut().unwrap().others[0].server.languages = vec!["x".to_owned()];
    let mut it = opened(it, &registering());
    open(&mut it, "u", "x");
    open(&mut it, "c", "css");
    let change = json!({"textDocument": {"uri": "c", "version": 2}, "contentChanges": [{"text": "new"}]});
    it.editor(json!({"method": "textDocument/didChange", "params": change}));
    assert!(!it.told(A).contains(&"textDocument/didChange".to_owned()), "it does not know the document");
    let folder = json!([{"uri": "file:///more", "name": "more"}]);
    let folders = json!({"event": {"added": folder, "removed": []}});
    it.editor(json!({"method": "workspace/didChangeWorkspaceFolders", "params": folders}));
    it.editor(json!({"method": CHANGED, "params": {"settings": {"s": 1}}}));
    for peer in [backend(A), backend(B), EDITOR] {
        it.take(peer);
    }
    let mut added = member("c");
    added.server.settings = settings(&json!({"own": 2}));
    it.group.as_mut().unwrap().others.push(added);
    assert_eq!(reload(&mut it, 1)["result"]["changed"], json!(["servers"]));
    assert!(it.terminated.is_empty() && it.told(A).is_empty() && it.told(B).is_empty(), "the others go on");
    let told = it.take(backend(C));
    assert_eq!((told.len(), name(&told[0]).as_str()), (1, "initialize"));
    assert_eq!(told[0]["params"]["workspaceFolders"], folder);
    it.server(C, json!({"id": told[0]["id"], "result": {"capabilities": formats()}}));
    let told = it.take(backend(C));
    assert_eq!(name(&told[0]), "initialized");
    let push = told.iter().find(|it| name(it) == CHANGED).expect("its settings");
    assert_eq!(push["params"]["settings"], json!({"s": 1, "own": 2}));
    let texts: BTreeMap<&str, &str> = told
        .iter()
        .filter(|it| name(it) == "textDocument/didOpen")
        .map(|it| &it["params"]["textDocument"])
        .map(|it| (it["uri"].as_str().unwrap(), it["text"].as_str().unwrap()))
        .collect();
    assert_eq!(texts, BTreeMap::from([("u", "x"), ("c", "new")]), "also the document that no member had");
    let asked = it.take(EDITOR);
    assert_eq!(asked[0]["params"]["registrations"][0]["method"], "textDocument/formatting", "{asked:?}");
    ask(&mut it, 2, "textDocument/formatting", &at("u"));
    assert_eq!(only(&mut it, C)["method"], "textDocument/formatting");
}

#[test]
fn removed_member_leaves_nothing_behind() {
    let mut it = opened(group(&["a", "b", "c"]), &registering());
    open(&mut it, "u", "x");
    for (by, message) in [(A, "a"), (B, "b"), (C, "c")] {
        publish(&mut it, by, message);
        it.pass(Duration::from_secs(1));
    }
    assert_eq!(published(&mut it), ["a", "b", "c"]);
    let one = json!({"id": "r", "method": "textDocument/formatting", "registerOptions": {}});
    it.server(B, json!({"id": 1, "method": "client/registerCapability", "params": {"registrations": [one]}}));
    it.server(B, json!({"id": 2, "method": "window/workDoneProgress/create", "params": {"token": "w"}}));
    it.take(EDITOR);
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    for by in [A, B, C] {
        it.take(backend(by));
    }
    let removed = it.group.as_mut().unwrap().others.remove(0);
    it.editor(json!({"id": 2, "method": "lspool/reload"}));
    let told = it.take(EDITOR);
    let has = |method: &str| told.iter().any(|it| name(it) == method);
    assert!(has("client/unregisterCapability") && has("$/progress"), "{told:?}");
    let last = told.iter().rfind(|it| name(it) == "textDocument/publishDiagnostics").unwrap();
    let left: Vec<&Value> =
        last["params"]["diagnostics"].as_array().unwrap().iter().map(|it| &it["message"]).collect();
    assert_eq!(left, ["a", "c"]);
    it.pass(Duration::from_secs(3));
    assert_eq!(it.terminated, [B]);
    it.exited(B, Exit::Code(0));
    assert_eq!(it.told(B), ["shutdown", "exit"]);
    // It gets no message, and nothing waits for it.
    publish(&mut it, C, "new");
    it.pass(Duration::from_secs(1));
    assert_eq!(published(&mut it), ["a", "new"]);
    it.editor(json!({"method": "textDocument/didClose", "params": {"textDocument": {"uri": "u"}}}));
    ask(&mut it, 3, "textDocument/hover", &at("u"));
    assert_eq!((it.told(A).len(), it.told(B).len(), it.told(C).len()), (2, 0, 2));
    it.editor(json!({"id": 4, "method": "lspool/status"}));
    it.event(measured(Vec::new()));
    let told = it.take(EDITOR);
    let status = told.iter().find(|it| it["id"] == 4).unwrap();
    let names: Vec<&Value> =
        status["result"]["backends"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["a", "c"]);
    // It comes back, at its rank.
    it.group.as_mut().unwrap().others.insert(0, removed);
    assert_eq!(reload(&mut it, 5)["result"]["changed"], json!(["servers"]));
    let again = process(1, 2);
    ready(&mut it, again, &documents());
    it.take(EDITOR);
    open(&mut it, "u", "x");
    assert_eq!(it.told(again), ["initialized", "textDocument/didOpen"]);
    for (by, message) in [(C, "c"), (again, "b")] {
        publish(&mut it, by, message);
        it.pass(Duration::from_secs(1));
    }
    assert_eq!(published(&mut it), ["a", "b", "c"]);
}

#[test]
fn order_of_members_changes_at_once() {
    let mut it = opened(group(&["a", "b", "c"]), &json!({}));
    open(&mut it, "u", "x");
    for (by, message) in [(B, "b"), (C, "c")] {
        publish(&mut it, by, message);
        it.pass(Duration::from_secs(1));
    }
    assert_eq!(published(&mut it), ["b", "c"]);
    it.group.as_mut().unwrap().others.reverse();
    assert_eq!(reload(&mut it, 1)["result"]["changed"], json!(["servers"]));
    publish(&mut it, A, "a");
    it.pass(Duration::from_secs(1));
    assert_eq!(published(&mut it), ["a", "c", "b"]);
    assert!(it.terminated.is_empty());
}

#[test]
fn group_may_shrink_to_its_first_member_and_a_server_becomes_no_group() {
    let mut it = started(&json!({}));
    let others = it.group.take();
    assert_eq!(reload(&mut it, 1)["result"]["changed"], json!(["servers"]));
    ask(&mut it, 2, "textDocument/hover", &at("u"));
    assert_eq!(
        (it.told(A), it.told(B).contains(&"textDocument/hover".to_owned())),
        (vec!["textDocument/hover".to_owned()], false)
    );

    let mut it = group(&["a", "b"]);
    it.group = None;
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &documents());
    it.take(EDITOR);
    it.group = others;
    let message = reload(&mut it, 3)["error"]["message"].to_string();
    assert!(message.contains("a group has taken the place of a; this applies when"), "{message}");
}

#[test]
fn first_server_and_copilot_change_with_the_next_start() {
    let mut it = started(&json!({}));
    it.group.as_mut().unwrap().others.push(Member {
        server: ServerConfig { kind: Some(ServerKind::Copilot), ..ServerConfig::default() },
        ..member("copilot")
    });
    let refused = |it: &mut Stage, id| reload(it, id)["error"]["message"].as_str().unwrap().to_owned();
    assert!(refused(&mut it, 1).contains("a Copilot server was added"));
    let mut it = with_copilot("a", "copilot");
    it.group.as_mut().unwrap().others = vec![member("b")];
    assert!(refused(&mut it, 4).contains("or removed"));
}

#[test]
fn member_that_comes_back_starts_with_its_next_document() {
    let mut it = opened(group(&["a", "b"]), &json!({}));
    let mut removed = it.group.as_mut().unwrap().others.remove(0);
    removed.server.languages = vec!["css".to_owned()];
    removed.server.start = StartAt::Document;
    reload(&mut it, 1);
    it.pass(Duration::from_secs(3));
    it.exited(B, Exit::Code(0));
    it.group.as_mut().unwrap().others.push(removed);
    assert_eq!(reload(&mut it, 2)["result"]["changed"], json!(["servers"]));
    open(&mut it, "u", "x");
    assert_eq!(it.spawned, [A, B], "that one is not for it");
    open(&mut it, "c", "css");
    let again = process(1, 2);
    assert_eq!(it.spawned, [A, B, again]);
    ready(&mut it, again, &documents());
    assert_eq!(it.told(again), ["initialized", "textDocument/didOpen"]);
}

#[test]
fn added_member_is_told_of_open_notebooks_if_it_takes_them() {
    let cell = |text: &str| json!({"uri": "c", "languageId": "x", "version": 1, "text": text});
    let notebook =
        json!({"uri": "n", "notebookType": "t", "version": 1, "cells": [{"kind": 2, "document": "c"}]});
    let takes = json!({"notebookDocumentSync": {"notebookSelector": [{"notebook": "t"}]}});
    for (takes, expected) in
        [(takes, vec!["initialized", "notebookDocument/didOpen"]), (documents(), vec!["initialized"])]
    {
        let mut it = group(&["a", "b"]);
        initialize(&mut it, &json!({}));
        let wants = json!({"notebookDocumentSync": {"notebookSelector": [{"notebook": "t"}]}});
        ready(&mut it, A, &wants);
        ready(&mut it, B, &documents());
        it.editor(json!({"method": "initialized", "params": {}}));
        let params = json!({"notebookDocument": notebook, "cellTextDocuments": [cell("1")]});
        it.editor(json!({"method": "notebookDocument/didOpen", "params": params}));
        let text = json!({"document": {"uri": "c", "version": 2}, "changes": [{"text": "2"}]});
        let change = json!({"notebookDocument": {"uri": "n", "version": 2}, "change": {"cells": {"textContent": [text]}}});
        it.editor(json!({"method": "notebookDocument/didChange", "params": change}));
        assert_eq!(it.told(B), ["initialize", "initialized"][1..], "it does not take notebooks");
        it.group.as_mut().unwrap().others.push(member("c"));
        reload(&mut it, 1);
        ready(&mut it, C, &takes);
        let told = it.take(backend(C));
        assert_eq!(told.iter().map(name).collect::<Vec<_>>(), expected);
        if let Some(open) = told.get(1) {
            assert_eq!(open["params"]["cellTextDocuments"][0]["text"], "2");
        }
        // A successor gets the same messages.
        it.exited(B, Exit::Signal(9));
        ready(&mut it, process(1, 2), &documents());
        assert_eq!(it.told(process(1, 2)), ["initialized"]);
    }
}
