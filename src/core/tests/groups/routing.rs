//! Who is asked what, as the configuration and earlier answers say.

use std::time::Duration;

use serde_json::{Value, json};

use super::{A, B, answer, ask, at, backend, documents, group, initialize, only, pair, pair_of, ready};
use crate::{
    config::{Combine, StartAt},
    core::{
        mux::merge::methods::{Method, Plan, methods},
        tests::stage::{EDITOR, Stage, name},
    },
};

/// A group of two with all that a document needs, as it is set.
fn set(set: impl FnOnce(&mut Stage), capabilities: &Value) -> Stage {
    let mut it = group(&["a", "b"]);
    set(&mut it);
    initialize(&mut it, &json!({"workspace": {"configuration": true}}));
    ready(&mut it, A, capabilities);
    ready(&mut it, B, capabilities);
    it.editor(json!({"method": "initialized", "params": {}}));
    for peer in [backend(A), backend(B), EDITOR] {
        it.take(peer);
    }
    it
}

fn open(it: &mut Stage, uri: &str) {
    let document = json!({"uri": uri, "languageId": "x", "version": 1, "text": ""});
    it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
}

#[test]
fn configured_wait_takes_the_place_of_the_usual_one() {
    let waits = |it: &mut Stage| {
        let wait = &mut it.group.as_mut().unwrap().wait;
        wait.insert("hover".to_owned(), Duration::from_millis(100));
    };
    let mut it = set(waits, &documents());
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let (a, _) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, A, &a, &json!({"contents": "a"}));
    it.pass(Duration::from_millis(99));
    assert!(it.take(EDITOR).is_empty());
    it.pass(Duration::from_millis(1));
    assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "a");
}

#[test]
fn answers_are_combined_as_configured() {
    let combines = |it: &mut Stage| {
        let combine = &mut it.group.as_mut().unwrap().combine;
        combine.insert("hover".to_owned(), Combine::First);
        combine.insert("document-symbols".to_owned(), Combine::All);
    };
    let mut it = set(combines, &json!({"hoverProvider": true, "documentSymbolProvider": true}));
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, B, &b, &json!({"contents": "b"}));
    assert!(it.take(EDITOR).is_empty(), "the better one may say something");
    answer(&mut it, A, &a, &json!({"contents": "a"}));
    assert_eq!(it.take(EDITOR)[0]["result"], json!({"contents": "a"}));
    ask(&mut it, 2, "textDocument/documentSymbol", &at("u"));
    for by in [A, B] {
        let asked = only(&mut it, by);
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}});
        let symbol = json!({"name": format!("{by:?}"), "kind": 1, "range": range, "selectionRange": range});
        answer(&mut it, by, &asked, &json!([symbol]));
    }
    assert_eq!(it.take(EDITOR)[0]["result"].as_array().unwrap().len(), 2);
}

#[test]
fn handled_methods_go_to_their_server_alone() {
    let handles = |it: &mut Stage| {
        let server = &mut it.group.as_mut().unwrap().others[0].server;
        server.handles = vec!["own/*".to_owned(), "textDocument/hover".to_owned()];
    };
    let mut it = set(handles, &documents());
    for (id, method) in [(1, "own/thing"), (2, "textDocument/hover")] {
        ask(&mut it, id, method, &at("u"));
        assert!(it.told(A).is_empty(), "{method}");
        let asked = only(&mut it, B);
        it.server(B, json!({"id": asked["id"], "error": {"code": -32601, "message": "unknown"}}));
        assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32601, "nobody else is asked: {method}");
    }
    it.editor(json!({"method": "own/note", "params": {}}));
    it.editor(json!({"method": "other/note", "params": {}}));
    assert_eq!(
        (it.told(A), it.told(B)),
        (vec!["other/note".to_owned()], vec!["own/note".to_owned(), "other/note".to_owned()])
    );
}

#[test]
fn document_reaches_only_members_for_its_file() {
    let files = |it: &mut Stage| {
        it.group.as_mut().unwrap().others[0].server.files = vec!["*.test.ts".to_owned(), "e2e/**".to_owned()];
    };
    let mut it = set(files, &documents());
    for uri in ["file:///w/a.ts", "file:///w/a.test.ts", "file:///w/e2e/b.ts"] {
        open(&mut it, uri);
        it.editor(json!({"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri}}}));
    }
    assert_eq!(it.told(A).len(), 6);
    let told = it.take(backend(B));
    let uris: Vec<&str> =
        told.iter().map(|it| it["params"]["textDocument"]["uri"].as_str().unwrap()).collect();
    assert_eq!(
        uris,
        ["file:///w/a.test.ts", "file:///w/a.test.ts", "file:///w/e2e/b.ts", "file:///w/e2e/b.ts"]
    );
}

#[test]
fn member_with_a_root_works_there() {
    let mut it = group(&["a", "b"]);
    it.group.as_mut().unwrap().others[0].launch.root = Some("/w/my app".into());
    let folders = json!([{"uri": "file:///w/my%20app/sub", "name": "sub"}]);
    let params = json!({"processId": 1, "rootUri": "file:///w/my%20app/sub", "workspaceFolders": folders, "capabilities": {}});
    it.editor(json!({"id": "i", "method": "initialize", "params": params}));
    let (a, b) = (only(&mut it, A)["params"].clone(), only(&mut it, B)["params"].clone());
    assert_eq!((&a["rootUri"], &a["workspaceFolders"]), (&json!("file:///w/my%20app/sub"), &folders));
    let own = json!([{"uri": "file:///w/my%20app", "name": "my app"}]);
    assert_eq!(
        (&b["rootUri"], &b["rootPath"], &b["workspaceFolders"]),
        (&own[0]["uri"], &json!("/w/my app"), &own)
    );
    it.server(B, json!({"id": 5, "method": "workspace/workspaceFolders"}));
    assert_eq!(only(&mut it, B)["result"], own);
    assert!(it.take(EDITOR).is_empty());
}

#[test]
fn member_that_asks_for_configuration_gets_its_settings_though_the_editor_has_none() {
    let mut it = group(&["a", "b"]);
    let settings = json!({"run": "onType"});
    it.group.as_mut().unwrap().others[0].server.settings = settings.as_object().unwrap().clone();
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &documents());
    ready(&mut it, B, &documents());
    it.take(EDITOR);
    for (by, expected) in [(A, json!([null, null])), (B, json!([settings, "onType"]))] {
        let items = json!({"items": [{"section": ""}, {"section": "run"}]});
        it.server(by, json!({"id": 1, "method": "workspace/configuration", "params": items}));
        assert_eq!(only(&mut it, by)["result"], expected);
    }
    assert!(it.take(EDITOR).is_empty());
}

#[test]
fn member_that_has_answered_an_unknown_method_is_asked_first() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "own/thing", &json!({}));
    let a = only(&mut it, A);
    answer(&mut it, A, &a, &Value::Null);
    let b = only(&mut it, B);
    answer(&mut it, B, &b, &json!({"x": 1}));
    assert_eq!(
        it.take(EDITOR)[0]["result"],
        json!({"x": 1}),
        "nothing is no answer while another may have one"
    );
    ask(&mut it, 2, "own/thing", &json!({}));
    assert!(it.told(A).is_empty());
    let b = only(&mut it, B);
    it.server(B, json!({"id": b["id"], "error": {"code": -32601, "message": "unknown"}}));
    let a = only(&mut it, A);
    answer(&mut it, A, &a, &json!(2));
    assert_eq!(it.take(EDITOR)[0]["result"], 2);
}

fn prepare(it: &mut Stage, id: u32, uri: &str) {
    ask(it, id, "textDocument/prepareRename", &at(uri));
    let (a, b) = (only(it, A), only(it, B));
    answer(it, A, &a, &Value::Null);
    answer(it, B, &b, &json!({"defaultBehavior": true}));
    assert_eq!(it.take(EDITOR)[0]["result"], json!({"defaultBehavior": true}));
}

#[test]
fn rename_goes_to_the_member_that_prepared_it_until_the_document_changes() {
    let mut it = pair(&json!({"textDocumentSync": 2, "renameProvider": {"prepareProvider": true}}));
    open(&mut it, "file:///u");
    it.take(backend(A));
    it.take(backend(B));
    prepare(&mut it, 1, "file:///u");
    ask(&mut it, 2, "textDocument/rename", &at("file:///u"));
    assert!(it.told(A).is_empty());
    let b = only(&mut it, B);
    it.server(B, json!({"id": b["id"], "error": {"code": -32600, "message": "no"}}));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32600, "it knew what it said");
    let document = json!({"uri": "file:///u", "version": 2});
    let changes = json!([{"text": "x"}]);
    it.editor(json!({"method": "textDocument/didChange", "params": {"textDocument": document, "contentChanges": changes}}));
    it.take(backend(A));
    it.take(backend(B));
    ask(&mut it, 3, "textDocument/rename", &at("file:///u"));
    let a = only(&mut it, A);
    it.server(A, json!({"id": a["id"], "error": {"code": -32600, "message": "no"}}));
    let b = only(&mut it, B);
    answer(&mut it, B, &b, &json!({"changes": {"file:///u": [{}]}}));
    assert!(it.take(EDITOR)[0]["result"]["changes"].is_object(), "unasked, by rank");
}

#[test]
fn only_member_that_prepares_renames_too() {
    let mut it =
        pair_of(&json!({"renameProvider": true}), &json!({"renameProvider": {"prepareProvider": true}}));
    ask(&mut it, 1, "textDocument/prepareRename", &at("u"));
    assert!(it.told(A).is_empty());
    let b = only(&mut it, B);
    answer(&mut it, B, &b, &json!({"defaultBehavior": true}));
    ask(&mut it, 2, "textDocument/rename", &at("u"));
    assert_eq!((it.told(A).len(), it.told(B).len()), (0, 1));
}

/// A group of which only the second prepares renames, with `(größe)` open.
fn one_prepares() -> Stage {
    let mut it = pair_of(
        &json!({"textDocumentSync": 2, "renameProvider": true}),
        &json!({"textDocumentSync": 2, "renameProvider": {"prepareProvider": true}}),
    );
    let document = json!({"uri": "u", "languageId": "x", "version": 1, "text": "\n(größe)"});
    it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
    it.take(backend(A));
    it.take(backend(B));
    it
}

#[test]
fn member_that_renames_without_preparing_does_so_where_the_others_cannot() {
    let word = json!({"start": {"line": 1, "character": 1}, "end": {"line": 1, "character": 6}});
    let place = json!({"textDocument": {"uri": "u"}, "position": {"line": 1, "character": 3}});
    for refusal in [json!({"result": null}), json!({"error": {"code": -32602, "message": "no"}})] {
        let mut it = one_prepares();
        ask(&mut it, 1, "textDocument/prepareRename", &place);
        assert!(it.told(A).is_empty(), "it was not to be asked that");
        let mut answer = refusal.clone();
        answer["id"] = only(&mut it, B)["id"].clone();
        it.server(B, answer);
        assert_eq!(it.take(EDITOR)[0]["result"], word, "{refusal}");
        ask(&mut it, 2, "textDocument/rename", &place);
        assert_eq!((it.told(A).len(), it.told(B).len()), (1, 0), "{refusal}");
    }
    // Nothing is there.
    let mut it = one_prepares();
    ask(&mut it, 1, "textDocument/prepareRename", &at("u"));
    let b = only(&mut it, B);
    it.server(B, json!({"id": b["id"], "error": {"code": -32602, "message": "no"}}));
    assert_eq!(it.take(EDITOR)[0]["error"]["message"], "no");
}

#[test]
fn rename_is_prepared_while_the_member_that_prepares_it_is_stopped() {
    let mut it = one_prepares();
    it.editor(json!({"id": "s", "method": "lspool/stop", "params": {"name": "b"}}));
    it.take(EDITOR);
    let place = json!({"textDocument": {"uri": "u"}, "position": {"line": 1, "character": 3}});
    ask(&mut it, 1, "textDocument/prepareRename", &place);
    assert_eq!(it.take(EDITOR)[0]["result"]["start"], json!({"line": 1, "character": 1}));
}

#[test]
fn rename_goes_to_another_member_after_the_one_that_prepared_it_has_stopped() {
    let stop = |it: &mut Stage, name: &str| {
        it.editor(json!({"id": "s", "method": "lspool/stop", "params": {"name": name}}));
        it.take(EDITOR);
        it.take(backend(if name == "a" { A } else { B }));
    };
    let mut it = pair(&json!({"renameProvider": {"prepareProvider": true}}));
    prepare(&mut it, 1, "file:///u");
    stop(&mut it, "b");
    ask(&mut it, 2, "textDocument/rename", &at("file:///u"));
    let a = only(&mut it, A);
    let edit = json!({"changes": {"file:///u": [{}]}});
    answer(&mut it, A, &a, &edit);
    assert_eq!(it.take(EDITOR)[0]["result"], edit);
    // Nothing would look as if it had been renamed.
    stop(&mut it, "a");
    ask(&mut it, 3, "textDocument/rename", &at("file:///u"));
    let told = it.take(EDITOR);
    let message = told[0]["error"]["message"].as_str().unwrap_or_else(|| panic!("{told:?}"));
    assert!(message.contains("no process of a, b runs"), "{message}");
}

#[test]
fn command_that_nobody_offers_goes_to_the_maker_of_the_last_item_with_it() {
    let mut it = pair(&json!({"codeActionProvider": true, "codeLensProvider": {}}));
    let command = |arguments: u32| json!({"title": "t", "command": "apply", "arguments": [arguments]});
    let asked_first = |it: &mut Stage, id: u32| {
        ask(it, id, "workspace/executeCommand", &command(0));
        let first = [A, B].into_iter().find(|by| !it.told(*by).is_empty());
        it.editor(json!({"method": "$/cancelRequest", "params": {"id": id}}));
        for peer in [backend(A), backend(B), EDITOR] {
            it.take(peer);
        }
        first
    };
    assert_eq!(asked_first(&mut it, 1), Some(A), "by rank");
    for (id, method, maker) in [(2, "textDocument/codeAction", B), (4, "textDocument/codeLens", A)] {
        ask(&mut it, id, method, &at("u"));
        for by in [A, B] {
            let asked = only(&mut it, by);
            let list = if by == maker { json!([{"title": "i", "command": command(1)}]) } else { json!([]) };
            answer(&mut it, by, &asked, &list);
        }
        it.take(EDITOR);
        assert_eq!(asked_first(&mut it, id + 1), Some(maker), "{method}");
    }
    // Who made it does not know it, after all.
    ask(&mut it, 6, "workspace/executeCommand", &command(0));
    let asked = only(&mut it, A);
    it.server(A, json!({"id": asked["id"], "error": {"code": -32601, "message": "unknown"}}));
    assert_eq!(only(&mut it, B)["params"]["command"], "apply");
}

#[test]
fn command_in_an_item_of_the_only_member_that_makes_such_is_that_members() {
    let mut it = pair_of(&documents(), &json!({"codeActionProvider": true}));
    ask(&mut it, 1, "textDocument/codeAction", &at("u"));
    let asked = only(&mut it, B);
    answer(&mut it, B, &asked, &json!([{"title": "t", "command": "apply"}]));
    it.take(EDITOR);
    ask(&mut it, 2, "workspace/executeCommand", &json!({"command": "apply"}));
    assert_eq!((it.told(A).len(), it.told(B).len()), (0, 1));
}

#[test]
fn documents_that_nobody_has_asked_for_are_told_to_all_as_each_would_hear_them_alone() {
    let mut it = pair(&json!({"hoverProvider": true}));
    open(&mut it, "u");
    assert_eq!((it.told(A).len(), it.told(B).len()), (1, 1));
    let mut it = pair_of(&json!({"hoverProvider": true}), &json!({"textDocumentSync": 1}));
    open(&mut it, "u");
    assert_eq!((it.told(A).len(), it.told(B).len()), (0, 1), "one has asked");
}

#[test]
fn notebooks_that_nobody_has_asked_for_are_told_to_all_as_each_would_hear_them_alone() {
    let open = |it: &mut Stage| {
        let cell = json!({"uri": "n#1", "languageId": "python", "version": 1, "text": "x"});
        let notebook =
            json!({"uri": "n", "notebookType": "j", "version": 1, "cells": [{"kind": 2, "document": "n#1"}]});
        let params = json!({"notebookDocument": notebook, "cellTextDocuments": [cell]});
        it.editor(json!({"method": "notebookDocument/didOpen", "params": params}));
    };
    let mut it = pair(&documents());
    open(&mut it);
    assert_eq!((it.told(A).len(), it.told(B).len()), (1, 1));
    let sync = json!({"notebookSelector": [{"cells": [{"language": "python"}]}]});
    let mut it = pair_of(&documents(), &json!({"notebookDocumentSync": sync}));
    open(&mut it);
    assert_eq!((it.told(A).len(), it.told(B).len()), (0, 1), "one has asked");
}

#[test]
fn kinds_that_the_only_member_with_code_actions_is_not_used_for_are_left_out() {
    let except = |it: &mut Stage| {
        let member = &mut it.group.as_mut().unwrap().others[0].server;
        member.except = vec!["code-action:quickfix".to_owned()];
    };
    let mut it = set(except, &json!({}));
    it.exited(B, crate::core::event::Exit::Signal(9));
    let again = crate::core::tests::stage::process(1, 2);
    ready(&mut it, again, &json!({"codeActionProvider": true}));
    for by in [A, again] {
        it.take(backend(by));
    }
    it.take(EDITOR);
    ask(&mut it, 1, "textDocument/codeAction", &at("u"));
    let asked = only(&mut it, again);
    let kept = json!({"title": "b", "kind": "refactor"});
    answer(&mut it, again, &asked, &json!([{"title": "a", "kind": "quickfix"}, kept]));
    assert_eq!(it.take(EDITOR)[0]["result"], json!([kept]));
}

#[test]
fn commands_in_items_have_the_names_that_lead_to_their_maker() {
    let offers = json!({"executeCommandProvider": {"commands": ["run"]}, "codeActionProvider": true, "codeLensProvider": {}});
    let mut it = pair(&offers);
    for (id, method) in [(1, "textDocument/codeAction"), (2, "textDocument/codeLens")] {
        ask(&mut it, id, method, &at("u"));
        for by in [A, B] {
            let asked = only(&mut it, by);
            let title = format!("{by:?}");
            answer(
                &mut it,
                by,
                &asked,
                &json!([{"title": title, "command": {"title": "t", "command": "run", "arguments": [1]}}]),
            );
        }
        let told = it.take(EDITOR).pop().unwrap();
        let list = told["result"].as_array().unwrap();
        let commands: Vec<&Value> = list.iter().map(|it| &it["command"]["command"]).collect();
        assert_eq!(commands, ["run", "run@b"], "{method}");
    }
    ask(&mut it, 3, "workspace/executeCommand", &json!({"command": "run@b", "arguments": [1]}));
    assert_eq!(only(&mut it, B)["params"], json!({"command": "run", "arguments": [1]}));
    assert!(it.told(A).is_empty());
    // One that nobody offers goes on, one that is only written so.
    ask(&mut it, 4, "workspace/executeCommand", &json!({"command": "other@b"}));
    let a = only(&mut it, A);
    it.server(A, json!({"id": a["id"], "error": {"code": -32602, "message": "unknown"}}));
    assert_eq!(only(&mut it, B)["params"]["command"], "other@b");
}

#[test]
fn server_of_vue_asks_the_typescript_server() {
    let offers = json!({"executeCommandProvider": {"commands": ["typescript.tsserverRequest"]}});
    let mut it = pair_of(&documents(), &offers);
    let request =
        |id: u32| json!({"method": "tsserver/request", "params": [[id, "_vue:projectInfo", {"file": "f"}]]});
    it.server(A, request(7));
    let asked = only(&mut it, B);
    assert_eq!(asked["method"], "workspace/executeCommand");
    let arguments = json!(["_vue:projectInfo", {"file": "f"}]);
    assert_eq!(asked["params"], json!({"command": "typescript.tsserverRequest", "arguments": arguments}));
    answer(&mut it, B, &asked, &json!({"type": "response", "body": {"configFileName": "c"}}));
    let told = only(&mut it, A);
    assert_eq!(
        (&told["method"], &told["params"]),
        (&json!("tsserver/response"), &json!([[7, {"configFileName": "c"}]]))
    );
    it.server(A, request(8));
    let asked = only(&mut it, B);
    it.server(B, json!({"id": asked["id"], "error": {"code": -32603, "message": "no project"}}));
    assert_eq!(only(&mut it, A)["params"], json!([[8, null]]));
    it.server(A, request(9));
    it.exited(B, crate::core::event::Exit::Signal(9));
    assert_eq!(only(&mut it, A)["params"], json!([[9, null]]), "its server is gone");
    assert!(it.take(EDITOR).is_empty());
    // Without such a member it is the editor's.
    let mut it = pair(&documents());
    it.server(A, request(7));
    assert_eq!(it.take(EDITOR).iter().map(name).collect::<Vec<_>>(), ["tsserver/request"]);
}

#[test]
fn member_starts_with_its_first_document() {
    let mut it = group(&["a", "b"]);
    let server = &mut it.group.as_mut().unwrap().others[0].server;
    (server.start, server.languages) = (StartAt::Document, vec!["rust".to_owned()]);
    initialize(&mut it, &json!({"textDocument": {"formatting": {"dynamicRegistration": true}}}));
    assert!(it.told(B).is_empty());
    ready(&mut it, A, &documents());
    assert_eq!(it.take(EDITOR)[0]["id"], "i", "nobody waits for it");
    it.editor(json!({"method": "initialized", "params": {}}));
    open(&mut it, "file:///x");
    assert!(it.told(B).is_empty() && it.spawned == [A]);
    let document = json!({"uri": "file:///r", "languageId": "rust", "version": 1, "text": ""});
    it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
    ready(
        &mut it,
        B,
        &json!({"textDocumentSync": 2, "documentFormattingProvider": true, "hoverProvider": true}),
    );
    let told = it.take(backend(B));
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["initialized", "textDocument/didOpen"]);
    assert_eq!(told[1]["params"]["textDocument"]["uri"], "file:///r");
    let told = it.take(EDITOR);
    assert_eq!(told[0]["params"]["registrations"][0]["method"], "textDocument/formatting", "{told:?}");
    ask(&mut it, 1, "textDocument/formatting", &at("file:///r"));
    assert_eq!(only(&mut it, B)["method"], "textDocument/formatting");
}

#[test]
fn group_whose_members_all_wait_for_a_document_starts_the_first() {
    let mut it = group(&["a", "b"]);
    it.server.start = StartAt::Document;
    it.group.as_mut().unwrap().others[0].server.start = StartAt::Document;
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &documents());
    assert_eq!((it.take(EDITOR)[0]["id"].clone(), it.spawned), (json!("i"), vec![A]));
}

#[test]
fn best_member_reports_the_progress_of_a_question_to_its_end() {
    let mut it = pair(&json!({"referencesProvider": true}));
    let mut params = at("u");
    (params["workDoneToken"], params["partialResultToken"]) = (json!("w"), json!("p"));
    ask(&mut it, 1, "textDocument/references", &params);
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    let token = a["params"]["workDoneToken"].clone();
    assert!(!token.is_null(), "the best one reports");
    assert!(b["params"].get("workDoneToken").is_none(), "{b}");
    assert!([&a, &b].iter().all(|it| it["params"].get("partialResultToken").is_none()));
    let report = |it: &mut Stage, value: Value| {
        it.server(A, json!({"method": "$/progress", "params": {"token": token, "value": value}}));
    };
    report(&mut it, json!({"kind": "begin", "title": "t"}));
    let told = it.take(EDITOR);
    assert_eq!((told.len(), &told[0]["params"]["token"]), (1, &json!("w")), "{told:?}");
    answer(
        &mut it,
        B,
        &b,
        &json!([{"uri": "u", "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}}]),
    );
    it.pass(Duration::from_secs(3));
    let told = it.take(EDITOR);
    assert_eq!((told.len(), &told[0]["id"]), (1, &json!(1)), "{told:?}");
    // It is not waited for, and says that it has stopped.
    assert_eq!(it.told(A), ["$/cancelRequest"]);
    report(&mut it, json!({"kind": "end"}));
    let told = it.take(EDITOR);
    assert_eq!(
        (told.len(), &told[0]["params"]["token"], &told[0]["params"]["value"]["kind"]),
        (1, &json!("w"), &json!("end"))
    );
}

#[test]
fn cancelled_work_is_told_to_who_does_it() {
    let cancel =
        |token: &str| json!({"method": "window/workDoneProgress/cancel", "params": {"token": token}});
    let told = |it: &mut Stage, token: &str| {
        it.editor(cancel(token));
        (it.take(backend(A)), it.take(backend(B)))
    };
    let capabilities = json!({"referencesProvider": true, "executeCommandProvider": {"commands": ["b"]}});
    let mut it = pair_of(&json!({"referencesProvider": true}), &capabilities);
    let mut params = at("u");
    params["workDoneToken"] = json!("w");
    ask(&mut it, 1, "textDocument/references", &params);
    let a = only(&mut it, A);
    only(&mut it, B);
    let (a_told, b_told) = told(&mut it, "w");
    assert_eq!(
        (name(&a_told[0]).as_str(), b_told.len()),
        ("window/workDoneProgress/cancel", 0),
        "a question"
    );
    ask(&mut it, 2, "workspace/executeCommand", &json!({"command": "b", "workDoneToken": "c"}));
    let command = only(&mut it, B);
    let (a_told, b_told) = told(&mut it, "c");
    assert_eq!((a_told.len(), &b_told[0]["params"]["token"]), (0, &json!("c")), "a request to one");
    // What goes on after the answer is still that member's.
    let value = json!({"kind": "begin", "title": "t"});
    it.server(B, json!({"method": "$/progress", "params": {"token": "c", "value": value}}));
    answer(&mut it, B, &command, &Value::Null);
    let (a_told, b_told) = told(&mut it, "c");
    assert_eq!((a_told.len(), b_told.len()), (0, 1), "it has not ended");
    it.server(B, json!({"method": "$/progress", "params": {"token": "c", "value": {"kind": "end"}}}));
    answer(&mut it, A, &a, &Value::Null);
    for over in ["c", "nobody's"] {
        assert_eq!(told(&mut it, over), (vec![], vec![]), "{over}");
    }
    for by in [A, B] {
        it.server(by, json!({"id": 5, "method": "window/workDoneProgress/create", "params": {"token": "s"}}));
    }
    let created = it.take(EDITOR);
    let created: Vec<&str> = created
        .iter()
        .filter(|it| name(it).ends_with("create"))
        .map(|it| it["params"]["token"].as_str().unwrap())
        .collect();
    for (n, token) in created.into_iter().enumerate() {
        let (a, b) = told(&mut it, token);
        let (one, other) = if n == 0 { (a, b) } else { (b, a) };
        assert_eq!((&one[0]["params"]["token"], other.len()), (&json!("s"), 0));
    }
}

#[test]
fn answer_that_lspool_changes_is_not_streamed_past_it() {
    let languages = |it: &mut Stage| {
        it.server.languages = vec!["x".to_owned()];
        it.group.as_mut().unwrap().others[0].server.languages = vec!["y".to_owned()];
    };
    let mut it = set(languages, &json!({"textDocumentSync": 2, "codeLensProvider": {}, "hoverProvider": {}}));
    open(&mut it, "u");
    it.take(backend(A));
    let mut params = json!({"textDocument": {"uri": "u"}});
    params["partialResultToken"] = json!("p");
    ask(&mut it, 1, "textDocument/codeLens", &params);
    let asked = only(&mut it, A);
    assert!(asked["params"].get("partialResultToken").is_none(), "its lenses are tagged");
    ask(&mut it, 2, "textDocument/hover", &params);
    let asked = only(&mut it, A);
    assert!(asked["params"].get("partialResultToken").is_some(), "nobody else can say anything");
}

#[test]
fn only_a_member_whose_answer_is_passed_on_as_it_is_streams_it() {
    let all = json!({
        "callHierarchyProvider": true, "codeActionProvider": true, "codeLensProvider": {}, "colorProvider": true,
        "completionProvider": {}, "definitionProvider": true, "diagnosticProvider": {"workspaceDiagnostics": true},
        "documentFormattingProvider": true, "documentHighlightProvider": true, "documentLinkProvider": {},
        "documentSymbolProvider": true, "foldingRangeProvider": true, "hoverProvider": true, "inlayHintProvider": true,
        "monikerProvider": true, "referencesProvider": true, "selectionRangeProvider": true, "signatureHelpProvider": {},
        "typeHierarchyProvider": true, "workspaceSymbolProvider": true,
        "semanticTokensProvider": {"legend": {"tokenTypes": [], "tokenModifiers": []}, "full": true, "range": true},
    });
    let methods = |is_meant: &dyn Fn(&Method) -> bool| -> Vec<&'static str> {
        let is_there = |it: &&Method| it.capability.of(all.as_object().unwrap()).is_some() && is_meant(it);
        methods().filter(is_there).map(|it| it.name).collect()
    };
    let of_one = methods(&|it| it.plan == Plan::Own && it.option != ["full", "delta"]);
    let of_several = methods(&|it| matches!(it.plan, Plan::First | Plan::All(_)));
    assert!(of_one.contains(&"workspace/diagnostic") && of_several.len() > 15, "{of_one:?} {of_several:?}");
    let streams = |it: &mut Stage, method: &str| {
        let mut params = at("u");
        params["partialResultToken"] = json!("p");
        ask(it, 1, method, &params);
        let mut asked = it.take(backend(A));
        asked.extend(it.take(backend(B)));
        assert!(!asked.is_empty(), "{method}");
        let streams = asked.iter().any(|it| it["params"].get("partialResultToken").is_some());
        for (by, asked) in asked.iter().enumerate().map(|(n, it)| (if n == 0 { A } else { B }, it)) {
            answer(it, by, asked, &Value::Null);
        }
        it.take(EDITOR);
        streams
    };
    let mut both = pair(&all);
    let mut one = pair_of(&all, &json!({}));
    for method in of_one {
        assert!(streams(&mut both, method) && streams(&mut one, method), "{method}: one answers");
    }
    for method in of_several {
        assert!(!streams(&mut both, method), "{method}: the parts of several are put together");
        // What it reports is kept.
        assert_eq!(
            streams(&mut one, method),
            method != "textDocument/diagnostic",
            "{method}: nobody else answers"
        );
    }
}

#[test]
fn commands_of_a_member_that_have_another_name_at_the_editor_are_not_streamed() {
    let command = json!({"commands": ["c"]});
    let a = json!({"executeCommandProvider": command});
    let b = json!({"executeCommandProvider": command, "codeLensProvider": {}, "hoverProvider": true});
    let mut it = pair_of(&a, &b);
    let mut params = at("u");
    params["partialResultToken"] = json!("p");
    for (id, method, is_streamed) in [(1, "textDocument/codeLens", false), (2, "textDocument/hover", true)] {
        ask(&mut it, id, method, &params);
        assert_eq!(only(&mut it, B)["params"].get("partialResultToken").is_some(), is_streamed, "{method}");
    }
}

#[test]
fn files_that_others_watch_are_not_told_to_a_member_that_watches_none() {
    let watchers = json!({"watchers": [{"globPattern": "**/*.py"}]});
    let one = json!({"id": "w", "method": "workspace/didChangeWatchedFiles", "registerOptions": watchers});
    let register =
        json!({"id": 1, "method": "client/registerCapability", "params": {"registrations": [one]}});
    let changed = json!({"changes": [{"uri": "file:///a.py", "type": 2}]});
    let changed = json!({"method": "workspace/didChangeWatchedFiles", "params": changed});
    for registers in [true, false] {
        let mut it = group(&["a", "b"]);
        let capability = json!({"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": registers}}});
        initialize(&mut it, &capability);
        ready(&mut it, A, &documents());
        ready(&mut it, B, &documents());
        it.editor(json!({"method": "initialized", "params": {}}));
        it.take(backend(A));
        it.take(backend(B));
        it.editor(changed.clone());
        assert_eq!((it.told(A).len(), it.told(B).len()), (1, 1), "nobody has said what it watches");
        it.server(A, register.clone());
        it.take(backend(A));
        it.editor(changed.clone());
        assert_eq!((it.told(A).len(), it.told(B).len()), (1, usize::from(!registers)), "{registers}");
    }
}

#[test]
fn what_two_members_tell_the_user_at_once_is_shown_once() {
    let mut it = pair(&documents());
    let says = |it: &mut Stage, by| {
        let params = json!({"type": 1, "message": "no configuration"});
        it.server(by, json!({"method": "window/showMessage", "params": params}));
        it.take(EDITOR).len()
    };
    assert_eq!((says(&mut it, A), says(&mut it, B)), (1, 0));
    it.pass(Duration::from_secs(2));
    assert_eq!(says(&mut it, A), 1, "it is said again");
    it.pass(Duration::from_secs(2));
    assert_eq!(says(&mut it, B), 1, "another one says it later");
}
