//! Requests of users at unexpected moments.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::stage::{CONTROL, EDITOR, Stage, measured, name, process};
use crate::{
    config::ServerKind,
    core::{
        event::{Event, Exit, Peer, SpawnFailure},
        mux::pool::backend::Backend,
    },
};

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn ask(it: &mut Stage, id: u32, method: &str, params: &Value) {
    it.control(json!({"id": id, "method": method, "params": params}));
}

/// The state of a backend, as people read it.
fn state(it: &Stage, backend: u32) -> Option<&'static str> {
    let backend = it.core.mux.backend(crate::core::event::BackendId(backend))?;
    Some(backend.life.state().name())
}

/// The partition with one tool serves a conversation of this name, whose turn is over.
fn partition(it: &mut Stage, id: u32, conversation: &str, tool: &str) -> crate::core::event::ProcessId {
    it.create(id, &json!({"conversationId": conversation, "lspool": {"tools": [tool]}}));
    let process = *it.spawned.last().unwrap();
    let told = it.start(process, &[]);
    let asked = told.iter().find(|it| it["method"] == "conversation/create").unwrap().clone();
    let token = &asked["params"]["workDoneToken"];
    for value in [json!({"kind": "begin"}), json!({"kind": "report", "reply": "a"}), json!({"kind": "end"})] {
        let mut value = value;
        value["conversationId"] = json!(conversation);
        value["turnId"] = json!("T");
        it.server(process, json!({"method": "$/progress", "params": {"token": token, "value": value}}));
    }
    let result = json!({"conversationId": conversation, "turnId": "T"});
    it.server(process, json!({"id": asked["id"], "result": result}));
    it.take(EDITOR);
    process
}

#[test]
fn restart_during_initialize_does_not_fail_it() {
    for kind in [ServerKind::Generic, ServerKind::Copilot] {
        for reloads in [false, true] {
            let mut it = Stage::new(kind);
            it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
            it.editor(json!({"method": "initialized", "params": {}}));
            it.editor(json!({"id": 1, "method": "textDocument/hover", "params": {}}));
            if reloads {
                it.server.args = vec!["--verbose".to_owned()];
                it.event(Event::FilesChanged);
            } else {
                ask(&mut it, 1, "lspool/restart", &json!({"name": "copilot"}));
            }
            assert_eq!(it.terminated, [process(0, 1)]);
            it.exited(process(0, 1), Exit::Signal(15));
            assert!(it.take(EDITOR).is_empty(), "nothing has failed");
            let next = process(0, 2);
            let told: Vec<_> = it.start(next, &[]).iter().map(name).collect();
            assert_eq!(told.iter().filter(|it| *it == "textDocument/hover").count(), 1, "{told:?}");
            assert_eq!(told[..2], ["initialize", "initialized"]);
            let answers = it.take(EDITOR);
            assert_eq!((answers.len(), &answers[0]["id"]), (1, &json!(0)), "{answers:?}");
            assert!(answers[0]["result"]["capabilities"].is_object());
        }
    }
}

#[test]
fn stopped_restart_is_answered_with_error() {
    let mut it = Stage::copilot();
    let process = partition(&mut it, 1, "c", "a");
    it.editor(json!({"id": 2, "method": "conversation/destroy", "params": {"conversationId": "c"}}));
    let asked = it.take(Peer::Backend(process));
    it.server(process, json!({"id": asked[0]["id"], "result": "OK"}));
    let name = json!({"name": "partition \"a\" of copilot"});
    ask(&mut it, 1, "lspool/restart", &name);
    it.exited(process, Exit::Code(0));
    assert_eq!(state(&it, 1), Some("starting"));
    assert!(it.take(CONTROL).is_empty());
    ask(&mut it, 2, "lspool/stop", &name);
    it.exited(
        crate::core::event::ProcessId { generation: crate::core::event::Generation(2), ..process },
        Exit::Signal(15),
    );
    let told = it.take(CONTROL);
    let restart = told.iter().find(|it| it["id"] == 1).unwrap();
    assert!(restart["error"]["message"].as_str().unwrap().contains("stopped"), "{restart}");
}

#[test]
fn restart_stopped_while_waiting_for_room_is_answered_with_error() {
    let mut it = Stage::new(ServerKind::Copilot);
    it.server.max_processes = 2;
    it.initialize();
    let first = partition(&mut it, 1, "c", "a");
    it.exited(first, Exit::Signal(9));
    let second = partition(&mut it, 2, "d", "b");
    it.editor(json!({"id": 3, "method": "conversation/destroy", "params": {"conversationId": "c"}}));
    let name = json!({"name": "partition \"a\" of copilot"});
    ask(&mut it, 1, "lspool/restart", &name);
    assert_eq!((state(&it, 1), it.terminated.last()), (Some("starting"), Some(&second)));
    ask(&mut it, 2, "lspool/stop", &name);
    let told = it.take(CONTROL);
    let restart = told.iter().find(|it| it["id"] == 1).unwrap();
    assert!(restart["error"]["message"].as_str().unwrap().contains("stopped"), "{restart}");
}

#[test]
fn memory_limit_below_startup_size_does_not_restart_forever() {
    let mut it = Stage::new(ServerKind::Generic);
    it.server.memory_limit = Some(100 << 20);
    it.initialize();
    let mut heard = Vec::new();
    for _ in 0..200 {
        for processes in std::mem::take(&mut it.to_measure) {
            let resident = processes.into_iter().map(|it| (it, 200 << 20)).collect();
            it.event(measured(resident));
        }
        let last = *it.spawned.last().unwrap();
        if it.terminated.last() == Some(&last) {
            it.exited(last, Exit::Code(0));
            it.open(*it.spawned.last().unwrap());
        }
        it.pass(seconds(10));
        heard.extend(it.take(EDITOR));
    }
    assert!(it.spawned.len() <= 3, "{}", it.spawned.len());
    let told: Vec<&Value> = heard.iter().filter(|it| it["method"] == "window/showMessage").collect();
    assert_eq!(told.len(), 1, "{heard:?}");
    let message = told[0]["params"]["message"].as_str().unwrap();
    assert!(message.contains("memory_limit"), "{message}");
    assert_eq!(state(&it, 0), Some("ready"));
    let error = it.core.mux.backends()[crate::core::tests::stage::PRIMARY].last_error.clone().unwrap();
    assert!(error.contains("memory_limit"), "{error}");
}

fn with_spares(n: usize, most: usize) -> Stage {
    let mut it = Stage::new(ServerKind::Copilot);
    it.server.warm_spares = n;
    it.server.max_processes = most;
    it.initialize();
    // Spares wait until all is calm.
    it.pass(seconds(2));
    let all = it.spawned.clone();
    for spare in all.into_iter().filter(|it| it.backend.0 > 0) {
        it.open(spare);
        it.take(Peer::Backend(spare));
    }
    it
}

#[test]
fn unwanted_spares_are_stopped() {
    let mut it = with_spares(2, 8);
    assert_eq!(it.spawned.len(), 3);
    it.server.warm_spares = 1;
    it.event(Event::FilesChanged);
    assert_eq!(it.terminated.len(), 1);
    it.exited(it.terminated[0], Exit::Code(0));
    it.server.warm_spares = 0;
    it.event(Event::FilesChanged);
    assert_eq!(it.terminated.len(), 2);
    it.exited(it.terminated[1], Exit::Code(0));
    assert_eq!(it.core.mux.backends().iter().filter(|it| it.is_spare()).count(), 0);
    assert_eq!(it.spawned.len(), 3);
}

#[test]
fn spare_is_adopted_when_no_room_is_left() {
    let mut it = with_spares(1, 2);
    assert_eq!(it.spawned.len(), 2);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    assert_eq!(it.adopted, [(process(1, 1), process(2, 1))], "{:?}", it.terminated);
    assert_eq!(it.terminated, []);
}

#[test]
fn replaced_spare_does_not_count_as_crash() {
    let mut it = with_spares(1, 8);
    for n in 0..20 {
        it.server.args = vec![format!("--level={n}")];
        it.event(Event::FilesChanged);
        for ended in std::mem::take(&mut it.terminated) {
            it.exited(ended, Exit::Code(0));
        }
        // The primary, and then another spare beside it.
        for _ in 0..2 {
            let fresh: Vec<_> = it.core.mux.backends().iter().map(Backend::process).collect();
            for fresh in fresh {
                it.start(fresh, &[]);
            }
            it.pass(seconds(2));
        }
        let ready = it.core.mux.backends().iter().filter(|it| it.is_ready()).count();
        assert_eq!(ready, 2, "after {n} reloads");
    }
}

#[test]
fn changed_idle_timeout_applies_to_existing_partitions() {
    let mut it = Stage::copilot();
    let process = partition(&mut it, 1, "c", "a");
    it.server.idle_timeout = Duration::ZERO;
    it.event(Event::FilesChanged);
    it.pass(seconds(600));
    assert_eq!((state(&it, 1), it.terminated.len()), (Some("ready"), 0), "its conversation is alive");
    it.server.idle_timeout = seconds(60);
    it.event(Event::FilesChanged);
    it.pass(seconds(61));
    assert_eq!(it.terminated, [process]);
}

#[test]
fn restart_for_memory_does_not_reset_restart_budget() {
    let mut it = Stage::new(ServerKind::Generic);
    it.server.memory_limit = Some(100 << 20);
    it.server.policy.restart_window = seconds(3600);
    it.initialize();
    let mut deaths = 0;
    while state(&it, 0) != Some("failed") {
        let last = *it.spawned.last().unwrap();
        // More than it needs from its start, and then twice as much.
        for mib in [200, 500] {
            it.event(measured(vec![(last, mib << 20)]));
        }
        assert_eq!(it.terminated.last(), Some(&last));
        it.exited(last, Exit::Code(0));
        it.open(*it.spawned.last().unwrap());
        it.exited(*it.spawned.last().unwrap(), Exit::Signal(9));
        deaths += 1;
        assert!(deaths < 10, "it is never given up");
        it.pass(seconds(20));
        if state(&it, 0) == Some("starting") {
            it.open(*it.spawned.last().unwrap());
        }
    }
}

#[test]
fn turn_fails_or_runs_when_process_limit_is_lowered() {
    let mut it = Stage::copilot();
    let (a, b) = (partition(&mut it, 1, "c", "a"), partition(&mut it, 2, "d", "b"));
    it.create(3, &json!({"conversationId": "e", "lspool": {"tools": ["b"]}}));
    let asked = it.take(Peer::Backend(b)).pop().unwrap();
    it.server.max_processes = 2;
    it.event(Event::FilesChanged);
    assert_eq!(it.terminated, [a], "the one that is idle");
    it.exited(a, Exit::Code(0));
    it.server.max_processes = 1;
    it.event(Event::FilesChanged);
    assert_eq!(it.terminated, [a], "the other one has a turn");
    it.server(b, json!({"id": asked["id"], "result": {"conversationId": "e", "turnId": "T"}}));
    assert_eq!(it.terminated, [a, b]);
    it.exited(b, Exit::Code(0));
    it.take(EDITOR);
    let turn = json!({"conversationId": "c", "workDoneToken": "w", "message": "?"});
    it.editor(json!({"id": 9, "method": "conversation/turn", "params": turn}));
    let told = it.take(EDITOR);
    assert!(told.iter().any(|it| it["id"] == 9 && it["error"].is_object()), "{told:?}");
}

#[test]
fn restarting_process_counts_against_limit_until_enough_are_gone() {
    let mut it = Stage::copilot();
    it.server.policy.immediate_first = false;
    it.event(Event::FilesChanged);
    let a = partition(&mut it, 1, "c", "a");
    it.exited(process(0, 1), Exit::Signal(9));
    it.server.max_processes = 1;
    it.event(Event::FilesChanged);
    assert_eq!(it.terminated, [a]);
    it.pass(seconds(2));
    // The first of them takes its place again at once, the other one has not gone yet: until then, none is started.
    it.create(2, &json!({"conversationId": "d", "lspool": {"tools": ["b"]}}));
    assert_eq!(it.spawned.last(), Some(&process(0, 2)));
    it.exited(a, Exit::Code(0));
    it.take(EDITOR);
}

#[test]
fn optional_missing_server_is_skipped_until_installed() {
    let mut it = Stage::new(ServerKind::Generic);
    it.server.policy.required = false;
    it.missing = Some("/no/such does not exist".to_owned());
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    it.editor(json!({"method": "initialized", "params": {}}));
    it.editor(json!({"id": 1, "method": "textDocument/hover", "params": {}}));
    let told = it.take(EDITOR);
    let answer = |id: u32| told.iter().find(|it| it["id"] == id && it.get("method").is_none()).unwrap();
    assert!(answer(0)["result"]["capabilities"].is_object(), "{told:?}");
    assert!(answer(1)["error"]["message"].as_str().unwrap().contains("/no/such"), "{told:?}");
    let offers: Vec<&Value> = told.iter().filter(|it| it["method"] == "window/showMessageRequest").collect();
    assert_eq!(offers.len(), 1, "{told:?}");
    assert_eq!((it.spawned.len(), state(&it, 0), it.exit), (0, Some("failed"), None));
    it.missing = None;
    it.server.args = vec!["--found".to_owned()];
    it.editor(json!({"id": offers[0]["id"], "result": {"title": "Restart"}}));
    assert_eq!(it.spawned, [process(0, 1)]);
    it.missing = Some("/no/such does not exist".to_owned());
    it.open(process(0, 1));
    it.event(Event::FilesChanged);
    assert_eq!((it.terminated.len(), state(&it, 0)), (0, Some("ready")), "what runs goes on");
}

#[test]
fn restart_searches_for_missing_server_again() {
    let mut it = Stage::new(ServerKind::Generic);
    it.server.policy.required = false;
    it.missing = Some("/no/such does not exist".to_owned());
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    it.editor(json!({"method": "initialized", "params": {}}));
    it.take(EDITOR);
    let restart = json!({"method": "lspool/restart", "params": {"name": "copilot"}});
    for stops in [false, true] {
        let mut ask = restart.clone();
        ask["id"] = json!(1);
        it.editor(ask);
        let told = it.take(EDITOR);
        let refusal = told.iter().find(|it| it["id"] == 1).map(|it| it["error"]["message"].as_str());
        assert!(refusal.flatten().unwrap().contains("/no/such does not exist"), "{told:?}");
        if stops {
            it.editor(json!({"id": 2, "method": "lspool/stop"}));
            it.take(EDITOR);
        }
    }
    // It is stopped when it has been installed.
    it.missing = None;
    it.server.args = vec!["--found".to_owned()];
    let mut ask = restart;
    ask["id"] = json!(3);
    it.editor(ask);
    assert_eq!(it.spawned, [process(0, 1)], "once");
    it.open(process(0, 1));
    assert_eq!(it.take(EDITOR).iter().find(|it| it["id"] == 3).unwrap()["result"]["state"], "ready");
}

#[test]
fn restart_searches_for_moved_server_again() {
    let mut it = Stage::copilot();
    it.holds_spawns = true;
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let gone = || SpawnFailure { permanent: true, message: "no such file".to_owned(), moved: None };
    it.event(Event::SpawnFailed(process(1, 1), gone()));
    let told = it.take(EDITOR);
    let offer = told.iter().find(|it| it["method"] == "window/showMessageRequest").unwrap();
    // It is where it was before, as after an update.
    it.editor(json!({"id": offer["id"], "result": {"title": "Restart"}}));
    assert_eq!(it.spawned.last(), Some(&process(1, 2)));
    it.event(Event::SpawnFailed(process(1, 2), gone()));
    // It is somewhere else.
    let of_a = it.core.mux.backends()[crate::core::event::BackendId(1)].name.clone();
    let launch = Arc::clone(&it.core.mux.servers().first().unwrap().launch);
    it.server.args = vec!["--moved".to_owned()];
    it.editor(json!({"id": 2, "method": "lspool/restart", "params": {"name": of_a}}));
    assert_eq!(it.spawned.last(), Some(&process(1, 3)));
    assert_ne!(it.core.mux.servers().first().unwrap().launch, launch);
}

#[test]
fn session_keeps_server_and_kind_after_config_change() {
    let mut it = Stage::copilot();
    let process = partition(&mut it, 1, "c", "a");
    it.name = "pyright".to_owned();
    it.server.kind = Some(ServerKind::Generic);
    it.server.args = vec!["--other".to_owned()];
    it.event(Event::FilesChanged);
    let told = it.take(EDITOR);
    assert_eq!((it.terminated.len(), told.len()), (0, 1), "{told:?}");
    let message = told[0]["params"]["message"].as_str().unwrap();
    assert!(message.contains("pyright") && message.contains("editor"), "{message}");
    it.name = "copilot".to_owned();
    it.event(Event::FilesChanged);
    let told = it.take(EDITOR);
    assert!(told[0]["params"]["message"].as_str().unwrap().contains("kind"), "{told:?}");
    let turn = json!({"conversationId": "c", "workDoneToken": "w", "message": "?"});
    it.editor(json!({"id": 9, "method": "conversation/turn", "params": turn}));
    assert_eq!(it.told(process), ["conversation/turn"], "not to the one with every tool");
}
