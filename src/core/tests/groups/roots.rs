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
