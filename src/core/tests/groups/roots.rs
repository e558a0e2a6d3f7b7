//! Members whose documents belong to several projects of the workspace.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::core::event::{Event, RootFound};

const CHANGED: &str = "workspace/didChangeWorkspaceFolders";

/// A group whose second member has projects, and can do this, in a workspace of one folder.
fn with_markers(capabilities: &Value) -> Stage {
    let mut it = group(&["a", "b"]);
    it.group.as_mut().unwrap().others[0].server.root_markers = vec!["m".to_owned()];
    let folders = json!([{"uri": "file:///w", "name": "w"}]);
    let params = json!({"processId": 1, "rootUri": "file:///w", "workspaceFolders": folders, "capabilities": {"workspace": {"workspaceFolders": true}}});
    it.editor(json!({"id": "i", "method": "initialize", "params": params}));
    ready(&mut it, A, &documents());
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

fn found(it: &mut Stage, root: Option<&str>) {
    let found = RootFound { member: "b".to_owned(), root: root.map(PathBuf::from) };
    it.event(Event::RootFound(found));
}

fn takes_folders() -> Value {
    let mut it = documents();
    it["workspace"] = json!({"workspaceFolders": {"supported": true, "changeNotifications": true}});
    it
}

fn names(params: &Value) -> Vec<&str> {
    params.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

#[test]
fn member_hears_of_each_project_once_as_of_a_folder() {
    let mut it = with_markers(&takes_folders());
    for uri in ["file:///w/p/x", "file:///w/p/y", "untitled:1"] {
        open(&mut it, uri);
    }
    assert_eq!(it.searches.len(), 1, "once for each folder: {:?}", it.searches);
    let search = it.searches.pop().unwrap();
    assert_eq!((search.folder, search.within), (PathBuf::from("/w/p"), vec![PathBuf::from("/w")]));
    assert_eq!((&search.member[..], &search.markers[0][..], search.is_whole), ("b", "m", false));
    it.take(backend(A));
    it.take(backend(B));
    found(&mut it, Some("/w/p"));
    let told = only(&mut it, B);
    assert_eq!(
        told["params"]["event"],
        json!({"added": [{"uri": "file:///w/p", "name": "p"}], "removed": []})
    );
    open(&mut it, "file:///w/p/deep/z");
    found(&mut it, Some("/w/p"));
    open(&mut it, "file:///w/plain/z");
    found(&mut it, None);
    assert!(!it.told(B).contains(&CHANGED.to_owned()), "it knows that one");
    assert!(!it.told(A).contains(&CHANGED.to_owned()), "the other has no projects");
    it.server(B, json!({"id": 1, "method": "workspace/workspaceFolders"}));
    assert_eq!(names(&only(&mut it, B)["result"]), ["w", "p"]);
    it.server(A, json!({"id": 2, "method": "workspace/workspaceFolders"}));
    assert_eq!(it.take(EDITOR).iter().map(name).collect::<Vec<_>>(), ["workspace/workspaceFolders"]);
    // The editor adds it, too: it is one of its own.
    let event = json!({"added": [{"uri": "file:///w/p", "name": "p"}], "removed": []});
    it.editor(json!({"method": CHANGED, "params": {"event": event}}));
    it.server(B, json!({"id": 3, "method": "workspace/workspaceFolders"}));
    let told = it.take(EDITOR);
    assert!(told.iter().any(|it| name(it) == "workspace/workspaceFolders"), "{told:?}");
}

#[test]
fn next_process_hears_of_the_projects_before_the_documents() {
    let mut it = with_markers(&takes_folders());
    open(&mut it, "file:///w/p/x");
    found(&mut it, Some("/w/p"));
    it.exited(B, Exit::Signal(9));
    let again = process(1, 2);
    ready(&mut it, again, &takes_folders());
    assert_eq!(it.told(again), ["initialized", CHANGED, "textDocument/didOpen"]);
}

#[test]
fn member_without_changes_of_folders_stays_in_its_first_one() {
    let mut it = with_markers(&documents());
    open(&mut it, "file:///w/p/x");
    it.take(backend(B));
    found(&mut it, Some("/w/p"));
    assert!(it.told(B).is_empty());
    it.exited(B, Exit::Signal(9));
    let again = process(1, 2);
    ready(&mut it, again, &documents());
    assert_eq!(it.told(again), ["initialized", "textDocument/didOpen"]);
}

/// The editor changes its folders.
fn change(it: &mut Stage, added: &[&str], removed: &[&str]) {
    let listed = |all: &[&str]| {
        all.iter().map(|it| json!({"uri": format!("file://{it}"), "name": it})).collect::<Value>()
    };
    let event = json!({"added": listed(added), "removed": listed(removed)});
    it.editor(json!({"method": CHANGED, "params": {"event": event}}));
}

/// The folders that the second member has heard of since, as they were added and removed.
fn heard(it: &mut Stage) -> Vec<(Vec<String>, Vec<String>)> {
    let told = it.take(backend(B)).into_iter().filter(|it| name(it) == CHANGED);
    let uris = |all: &Value| {
        all.as_array().unwrap().iter().map(|it| it["uri"].as_str().unwrap().to_owned()).collect()
    };
    told.map(|it| (uris(&it["params"]["event"]["added"]), uris(&it["params"]["event"]["removed"]))).collect()
}

fn uris(all: &[&str]) -> Vec<String> {
    all.iter().map(|it| format!("file://{it}")).collect()
}

#[test]
fn projects_of_a_removed_folder_go_with_it() {
    let mut it = with_markers(&takes_folders());
    change(&mut it, &["/v"], &[]);
    for (uri, root) in [("file:///v/p/x", "/v/p"), ("file:///w/q/x", "/w/q")] {
        open(&mut it, uri);
        found(&mut it, Some(root));
    }
    heard(&mut it);
    it.searches.clear();
    change(&mut it, &[], &["/v"]);
    assert_eq!(heard(&mut it), [(uris(&[]), uris(&["/v"])), (uris(&[]), uris(&["/v/p"]))]);
    it.server(B, json!({"id": 1, "method": "workspace/workspaceFolders"}));
    assert_eq!(names(&only(&mut it, B)["result"]), ["w", "q"]);
    // The documents are looked at again, in what is left.
    assert!(it.searches.iter().all(|it| it.within == [PathBuf::from("/w")]), "{:?}", it.searches);
    assert_eq!(it.searches.len(), 2);
    // A search from before has found it.
    found(&mut it, Some("/v/p"));
    assert_eq!(heard(&mut it), []);
    it.searches.clear();
    change(&mut it, &["/v"], &[]);
    assert_eq!(it.searches.len(), 2, "it may have the project of a document that is open");
    found(&mut it, Some("/v/p"));
    assert_eq!(heard(&mut it), [(uris(&["/v"]), uris(&[])), (uris(&["/v/p"]), uris(&[]))]);
}

#[test]
fn project_that_the_editor_removes_as_its_own_folder_is_found_again() {
    let mut it = with_markers(&takes_folders());
    open(&mut it, "file:///w/p/x");
    found(&mut it, Some("/w/p"));
    change(&mut it, &["/w/p"], &[]);
    change(&mut it, &[], &["/w/p"]);
    heard(&mut it);
    found(&mut it, Some("/w/p"));
    assert_eq!(heard(&mut it), [(uris(&["/w/p"]), uris(&[]))]);
}

#[test]
fn member_that_registers_for_folders_hears_of_projects_from_before_and_later() {
    let mut it = with_markers(&documents());
    open(&mut it, "file:///w/p/x");
    found(&mut it, Some("/w/p"));
    assert_eq!(heard(&mut it), []);
    for (id, expected) in [("1", vec![(uris(&["/w/p"]), uris(&[]))]), ("2", vec![])] {
        let registration = json!({"id": id, "method": CHANGED});
        it.server(B, json!({"id": id, "method": "client/registerCapability", "params": {"registrations": [registration]}}));
        assert_eq!(heard(&mut it), expected, "once");
    }
    open(&mut it, "file:///w/q/x");
    found(&mut it, Some("/w/q"));
    change(&mut it, &["/v"], &[]);
    assert_eq!(heard(&mut it), [(uris(&["/w/q"]), uris(&[])), (uris(&["/v"]), uris(&[]))]);
}
