//! A server that other clients use, too: which of them share it, and how this client leaves it.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{CONTROL, EDITOR, Stage, measured, process};
use crate::{
    config::{ServerKind, ShareMode},
    core::event::{Event, Exit, Peer},
};

fn stage() -> Stage {
    let mut it = Stage::new(ServerKind::Generic);
    it.name = "pyright".to_owned();
    it.server.share.mode = ShareMode::SameClient;
    it.server.policy.backoff.jitter = 0;
    it
}

fn ready() -> Stage {
    let mut it = stage();
    it.initialize();
    it
}

/// The key of the first process, for these parameters of `initialize`.
fn key(params: &Value) -> Vec<(String, String)> {
    let mut it = stage();
    it.editor(json!({"id": 0, "method": "initialize", "params": params}));
    it.launches[0].share.clone().unwrap().key
}

fn is_shared(it: &Stage) -> bool {
    it.launches.last().unwrap().share.is_some()
}

/// What the status says of the server: whether it is shared, and why not.
fn status(it: &mut Stage) -> (Value, Value) {
    it.control(json!({"id": 1, "method": "lspool/status"}));
    it.event(measured(Vec::new()));
    let status = it.take(CONTROL).remove(0);
    let backend = &status["result"]["backends"][0];
    (backend["shared"].clone(), backend["private"].clone())
}

fn detach(why: &str, cause: &str) -> Value {
    json!({"method": "lspool/detach", "params": {"why": why, "cause": cause}})
}

/// Leads the next process through its start.
fn restarted(it: &mut Stage, generation: u32) {
    let next = process(0, generation);
    let asked = it.take(Peer::Backend(next));
    assert_eq!(asked[0]["method"], "initialize", "{asked:?}");
    it.server(next, json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
}

#[test]
fn clients_share_if_they_ask_the_same_of_the_server() {
    let params = |capabilities: Value, options: Value| {
        json!({
            "processId": 1, "clientInfo": {"name": "a"}, "rootUri": "file:///a", "trace": "off",
            "capabilities": capabilities, "initializationOptions": options,
        })
    };
    let one = key(&params(json!({"a": 1, "b": {"c": [1, 2], "d": null}}), json!({"x": true})));
    let names: Vec<_> = one.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(names, ["initialize capabilities", "initialize initializationOptions"]);
    let mut same = params(json!({"b": {"d": null, "c": [1, 2]}, "a": 1}), json!({"x": true}));
    same["processId"] = json!(2);
    same["clientInfo"] = json!({"name": "b", "version": "1"});
    same["workDoneToken"] = json!("t");
    same["rootUri"] = json!("file:///link");
    same["trace"] = json!("verbose");
    same["initializationOptions"]["lspool"] = json!({"didChangeStatus": true});
    assert_eq!(one, key(&same));
    let others = [
        params(json!({"a": 1, "b": {"c": [2, 1], "d": null}}), json!({"x": true})),
        params(json!({"a": 1, "b": {"c": [1, 2]}}), json!({"x": true})),
        params(json!({"a": 1, "b": {"c": [1, 2], "d": null}}), json!({"x": false})),
        params(json!({"a": 1, "b": {"c": [1, 2], "d": null}}), Value::Null),
    ];
    for other in others {
        assert_ne!(one, key(&other), "{other}");
    }
    let mut other = same.clone();
    other["locale"] = json!("de");
    assert_ne!(one, key(&other), "another language of messages");
}

#[test]
fn changed_folders_are_another_server() {
    let mut it = stage();
    let folder = |name: &str| json!({"uri": format!("file:///{name}"), "name": name});
    let params = json!({"capabilities": {}, "workspaceFolders": [folder("a")]});
    it.editor(json!({"id": 0, "method": "initialize", "params": params}));
    restarted(&mut it, 1);
    it.editor(json!({"method": "initialized", "params": {}}));
    let event = json!({"added": [folder("b")], "removed": []});
    it.editor(json!({"method": "workspace/didChangeWorkspaceFolders", "params": {"event": event}}));
    it.exited(process(0, 1), Exit::Code(1));
    let folders: Vec<_> = it.launches.iter().map(|it| it.share.clone().unwrap().key[0].clone()).collect();
    assert_eq!(folders[1], ("folders".to_owned(), "file:///a file:///b".to_owned()));
    assert_ne!(folders[0].0, "folders");
}

#[test]
fn server_that_nobody_shares_has_no_key() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    assert!(!is_shared(&it));
    assert_eq!(status(&mut it), (Value::Null, Value::Null));
    // What it says is the editor's.
    it.server(process(0, 1), detach("x", "texts"));
    assert_eq!(it.take(EDITOR)[0]["method"], "lspool/detach");
}

#[test]
fn reason_why_process_is_private_is_in_status() {
    let mut it = stage();
    it.holds_spawns = true;
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    it.event(Event::Unshared(process(0, 1), "no folder".to_owned()));
    it.event(Event::Spawned { process: process(0, 1), pid: 7 });
    assert_eq!(status(&mut it), (Value::Null, json!("no folder")));
    // The next process may find a hub.
    it.exited(process(0, 1), Exit::Code(1));
    it.pass(Duration::from_secs(1));
    assert!(is_shared(&it));
    assert_eq!(status(&mut it), (json!(true), Value::Null));
}

#[test]
fn end_of_shared_server_is_a_death_with_its_own_exit_and_words() {
    let mut it = ready();
    let first = process(0, 1);
    it.editor(json!({"id": 5, "method": "textDocument/hover", "params": {}}));
    it.editor(json!({"id": 6, "method": "textDocument/rename", "params": {}}));
    let ended = json!({"exit": {"code": 3}, "stderr": "out of memory"});
    it.server(first, json!({"method": "lspool/ended", "params": ended}));
    assert!(it.take(EDITOR).is_empty(), "the editor hears nothing of hubs");
    it.exited(first, Exit::Unknown);
    let told = it.take(EDITOR);
    let message = told[0]["error"]["message"].as_str().unwrap();
    assert!(
        told[0]["id"] == 6 && message.contains("exited (exit code 3); end of stderr: out of memory"),
        "{told:?}"
    );
    restarted(&mut it, 2);
    it.editor(json!({"id": 7, "method": "x"}));
    let told = it.told(process(0, 2));
    assert_eq!(told, ["initialized", "textDocument/hover", "x"]);
    assert!(is_shared(&it));
    // Its budget is that of any server.
    for generation in 2..=5 {
        it.exited(process(0, generation), Exit::Unknown);
        it.pass(Duration::from_mins(1));
        it.take(Peer::Backend(process(0, generation + 1)));
    }
    let told = it.take(EDITOR);
    assert!(told.iter().any(|it| it.to_string().contains("is gone with its hub")), "{told:?}");
}

#[test]
fn client_that_a_hub_sends_away_gets_its_own_process_and_repeats_its_reads() {
    let mut it = ready();
    it.editor(json!({"id": 5, "method": "textDocument/hover", "params": {}}));
    it.take(Peer::Backend(process(0, 1)));
    it.server(process(0, 1), detach("settings differ: python", "settings"));
    assert!(it.take(EDITOR).is_empty());
    assert_eq!(it.told(process(0, 1)), ["shutdown", "exit"]);
    assert_eq!(it.terminated, [process(0, 1)]);
    it.exited(process(0, 1), Exit::Unknown);
    assert!(!is_shared(&it));
    restarted(&mut it, 2);
    assert_eq!(it.told(process(0, 2)), ["initialized", "textDocument/hover"]);
    assert_eq!(status(&mut it), (Value::Null, json!("settings differ: python")));
    // It was no failure.
    it.control(json!({"id": 2, "method": "lspool/status"}));
    it.event(measured(Vec::new()));
    let backend = it.take(CONTROL)[0]["result"]["backends"][0].clone();
    assert_eq!((&backend["crashes"], &backend["last_error"]), (&json!(0), &Value::Null));
    // It stays so, also after a crash.
    it.exited(process(0, 2), Exit::Code(1));
    assert_eq!(it.spawned.len(), 3);
    assert!(!is_shared(&it));
}

#[test]
fn client_with_other_texts_is_private_for_a_minute() {
    for (time, shares) in [(59, false), (60, true)] {
        let mut it = ready();
        it.server(process(0, 1), detach("two editors have unsaved changes in lib.py", "texts"));
        it.exited(process(0, 1), Exit::Unknown);
        restarted(&mut it, 2);
        it.pass(Duration::from_secs(time));
        it.exited(process(0, 2), Exit::Code(1));
        assert_eq!(it.spawned.len(), 3);
        assert_eq!(is_shared(&it), shares, "after {time} s");
    }
}

#[test]
fn hub_that_ends_on_request_costs_no_budget() {
    let mut it = ready();
    for generation in 1..=9 {
        let ended = json!({"exit": null, "stderr": ""});
        it.server(process(0, generation), json!({"method": "lspool/ended", "params": ended}));
        it.exited(process(0, generation), Exit::Unknown);
        restarted(&mut it, generation + 1);
    }
    assert!(is_shared(&it));
}

#[test]
fn restart_is_one_of_the_hub_for_all() {
    let mut it = ready();
    it.take(Peer::Backend(process(0, 1)));
    it.control(json!({"id": 1, "method": "lspool/restart", "params": {"name": "pyright"}}));
    assert_eq!(it.told(process(0, 1)), ["lspool/restart", "shutdown", "exit"]);
    // The hub says it to all, also to who has asked.
    it.server(process(0, 1), json!({"method": "lspool/ended", "params": {"exit": null}}));
    it.exited(process(0, 1), Exit::Unknown);
    restarted(&mut it, 2);
    assert!(is_shared(&it));
    assert_eq!(it.spawned.len(), 2);
}

#[test]
fn restart_lets_a_client_share_again_that_has_left() {
    let mut it = ready();
    it.server(process(0, 1), detach("settings differ", "settings"));
    it.exited(process(0, 1), Exit::Unknown);
    restarted(&mut it, 2);
    assert!(!is_shared(&it));
    it.take(Peer::Backend(process(0, 2)));
    it.control(json!({"id": 1, "method": "lspool/restart", "params": {"name": "pyright"}}));
    assert_eq!(it.told(process(0, 2)), ["shutdown", "exit"], "it is nobody else's");
    it.exited(process(0, 2), Exit::Code(0));
    restarted(&mut it, 3);
    assert!(is_shared(&it));
}

#[test]
fn memory_of_a_shared_process_is_not_limited() {
    let mut it = stage();
    it.server.memory_limit = Some(100);
    it.initialize();
    it.event(measured(vec![(process(0, 1), 1 << 40)]));
    it.pass(Duration::from_hours(1));
    assert!(it.terminated.is_empty() && it.take(EDITOR).is_empty());
}

/// The others keep it: only the connection of this client ends.
#[test]
fn client_leaves_a_shared_server_that_hangs() {
    let mut it = stage();
    it.server.hang_timeout = Some(Duration::from_secs(30));
    it.initialize();
    it.editor(json!({"id": 5, "method": "textDocument/hover", "params": {}}));
    it.take(Peer::Backend(process(0, 1)));
    it.pass(Duration::from_mins(1));
    assert_eq!(it.told(process(0, 1)), ["$/lspool/ping"]);
    it.pass(Duration::from_secs(40));
    assert_eq!(it.terminated, [process(0, 1)]);
    it.exited(process(0, 1), Exit::Unknown);
    restarted(&mut it, 2);
    assert!(!is_shared(&it));
    assert!(it.told(process(0, 2)).contains(&"textDocument/hover".to_owned()), "it is asked again");
    let (_, why) = status(&mut it);
    assert!(why.as_str().unwrap().contains("the shared server hung"), "{why}");
}
