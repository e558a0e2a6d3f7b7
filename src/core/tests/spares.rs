//! Processes kept ready, and who takes them.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, name, process};
use crate::{
    config::ServerKind,
    core::event::{Event, Exit, Peer, ProcessId, SpawnFailure},
};

/// For what serves to have had its time.
const CALM: Duration = Duration::from_secs(1);

/// A session with one spare, which is ready.
fn with_a_spare(capabilities: &Value) -> Stage {
    let mut it = Stage::new(ServerKind::Copilot);
    it.server.warm_spares = 1;
    let options = json!({"copilotCapabilities": capabilities});
    it.editor(json!({"id": 0, "method": "initialize", "params": {"initializationOptions": options}}));
    it.open(process(0, 1));
    assert_eq!(it.spawned, [process(0, 1)], "not before the editor is ready");
    it.editor(json!({"method": "initialized", "params": {}}));
    it.take(EDITOR);
    it.take(Peer::Backend(process(0, 1)));
    assert_eq!(it.spawned.len(), 1, "the editor's first answers come first");
    it.pass(CALM);
    let spare = *it.spawned.last().unwrap();
    assert_eq!(spare, process(1, 1));
    it.open(spare);
    assert_eq!(it.told(spare), ["initialized"], "the session, and no tools");
    it
}

fn told(it: &mut Stage, process: ProcessId) -> Vec<String> {
    it.start(process, &["list_dir"]).iter().map(name).collect()
}

#[test]
fn new_partition_adopts_spare_and_replacement_starts() {
    let mut it = with_a_spare(&json!({}));
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let partition = process(2, 1);
    assert_eq!(it.adopted, [(process(1, 1), partition)]);
    assert_eq!(
        told(&mut it, partition),
        ["conversation/registerTools", "conversation/unregisterTools", "conversation/create"],
        "no handshake; it is kept to its tools before it gets a turn"
    );
    assert_eq!(it.spawned.last(), Some(&process(1, 1)), "its first answer comes first");
    it.pass(CALM);
    assert_eq!(it.spawned.last(), Some(&process(3, 1)), "the next spare");
    it.create(2, &json!({"conversationId": "d", "lspool": {"tools": ["a"]}}));
    assert_eq!(it.told(partition), ["conversation/create"], "no second one for the same set");
}

#[test]
fn restart_adopts_spare() {
    let mut it = with_a_spare(&json!({}));
    it.exited(process(0, 1), Exit::Signal(9));
    assert_eq!(it.adopted, [(process(1, 1), process(0, 2))]);
    it.editor(json!({"id": 1, "method": "textDocument/hover"}));
    let expected = ["conversation/registerTools", "textDocument/hover"];
    assert_eq!(it.told(process(0, 2)), expected, "what a process with all tools offers is no question");
    it.exited(process(0, 2), Exit::Signal(9));
    assert_eq!(it.adopted.len(), 1, "the next one is not ready yet");
}

#[test]
fn spare_receives_session_but_its_status_is_hidden() {
    let mut it = with_a_spare(&json!({}));
    let spare = process(1, 1);
    it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": {"uri": "u", "version": 1, "text": "x"}}}));
    it.editor(json!({"id": 1, "method": "conversation/registerTools", "params": {"tools": [{"name": "a"}]}}));
    let asked = it.take(Peer::Backend(process(0, 1)));
    it.server(process(0, 1), json!({"id": asked.last().unwrap()["id"], "result": []}));
    assert_eq!(it.told(spare), ["textDocument/didOpen"]);
    it.take(EDITOR);
    it.server(spare, json!({"method": "didChangeStatus", "params": {"kind": "Normal"}}));
    assert!(it.take(EDITOR).is_empty());
}

#[test]
fn spare_that_waits_for_editor_is_not_adopted() {
    let mut it = with_a_spare(&json!({}));
    it.server(process(1, 1), json!({"id": 1, "method": "window/showMessageRequest", "params": {}}));
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    assert!(it.adopted.is_empty());
    assert_eq!(it.spawned.last(), Some(&process(2, 1)));
}

#[test]
fn one_spare_is_kept_per_kind_in_use() {
    let mut it = with_a_spare(&json!({"subAgent": true}));
    // The spare is of the primary's kind: a set without the tool starts a process.
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    assert!(it.adopted.is_empty());
    it.pass(CALM);
    assert_eq!(it.spawned.last(), Some(&process(2, 1)), "what somebody waits for comes first");
    it.start(process(2, 1), &[]);
    it.pass(CALM);
    let other = process(3, 1);
    assert_eq!(it.spawned.last(), Some(&other), "one of that kind, too");
    let asked = it.take(Peer::Backend(other));
    assert_eq!(asked[0]["params"]["initializationOptions"], json!({"copilotCapabilities": {}}));
    it.server(other, json!({"id": asked[0]["id"], "result": {}}));
    it.create(2, &json!({"conversationId": "d", "lspool": {"tools": ["b"]}}));
    assert_eq!(it.adopted, [(other, process(4, 1))]);
}

#[test]
fn spares_make_room_and_stop_restarting_after_crashes() {
    let mut it = Stage::new(ServerKind::Copilot);
    it.server.warm_spares = 3;
    it.server.max_processes = 2;
    it.initialize();
    it.pass(CALM);
    assert_eq!(it.spawned, [process(0, 1), process(1, 1)], "as far as there is room");
    // Not ready: it makes room.
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    assert_eq!(it.terminated, [process(1, 1)]);
    it.exited(process(1, 1), Exit::Code(0));
    assert_eq!(it.spawned.last(), Some(&process(2, 1)));

    let mut it = Stage::new(ServerKind::Copilot);
    it.server.warm_spares = 1;
    it.initialize();
    it.pass(CALM);
    while let Some(spare) = it.spawned.last().copied().filter(|it| it.backend.0 > 0) {
        let n = it.spawned.len();
        it.exited(spare, Exit::Signal(9));
        if it.spawned.len() == n {
            break;
        }
    }
    assert!(it.spawned.len() < 10, "{:?}", it.spawned);
    assert!(it.take(EDITOR).is_empty(), "nobody is told");
}

#[test]
fn terminating_spare_is_not_adopted() {
    let mut it = with_a_spare(&json!({}));
    it.event(Event::Closed { peer: Peer::Backend(process(1, 1)), error: None });
    it.exited(process(0, 1), Exit::Signal(9));
    assert_eq!(it.adopted, []);
    it.open(process(0, 2));
}

#[test]
fn spare_is_adopted_at_process_limit() {
    let mut it = with_a_spare(&json!({}));
    it.server.max_processes = 2;
    it.event(Event::FilesChanged);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    assert_eq!(it.adopted, [(process(1, 1), process(2, 1))]);
    assert_eq!(it.terminated, []);
}

#[test]
fn failing_spare_starts_are_not_retried_forever() {
    let mut it = with_a_spare(&json!({}));
    it.holds_spawns = true;
    it.exited(process(1, 1), Exit::Signal(9));
    for n in 0..20 {
        let last = *it.spawned.last().unwrap();
        let failure = SpawnFailure { permanent: true, message: "no such file".to_owned(), moved: None };
        it.event(Event::SpawnFailed(last, failure));
        assert!(n < 5 || *it.spawned.last().unwrap() == last, "{:?}", it.spawned);
    }
}

#[test]
fn lowering_warm_spares_stops_spares() {
    let mut it = with_a_spare(&json!({}));
    it.server.warm_spares = 0;
    it.event(Event::FilesChanged);
    assert_eq!(it.terminated, [process(1, 1)]);
}

#[test]
fn diagnostics_of_adopted_spare_are_cleared_on_stop() {
    let mut it = with_a_spare(&json!({}));
    let params = json!({"uri": "u", "diagnostics": [{"message": "no"}]});
    it.server(process(1, 1), json!({"method": "textDocument/publishDiagnostics", "params": params}));
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    it.take(EDITOR);
    it.control(json!({"id": 1, "method": "lspool/stop"}));
    let cleared = |it: &Value| it["params"] == json!({"uri": "u", "diagnostics": []});
    assert!(it.take(EDITOR).iter().any(cleared));
}

#[test]
fn spares_start_only_when_somebody_is_signed_in() {
    let mut it = Stage::new(ServerKind::Copilot);
    it.server.warm_spares = 1;
    it.initialize();
    let status = |kind: &str| json!({"method": "didChangeStatus", "params": {"kind": kind, "message": ""}});
    it.server(process(0, 1), status("Error"));
    it.pass(CALM);
    it.pass(CALM);
    assert_eq!(it.spawned, [process(0, 1)]);
    it.server(process(0, 1), status("Normal"));
    assert_eq!(it.spawned, [process(0, 1), process(1, 1)]);
    // One that is ready stays.
    it.open(process(1, 1));
    it.server(process(0, 1), status("Error"));
    it.pass(CALM);
    assert!(it.terminated.is_empty());
}
