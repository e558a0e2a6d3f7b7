//! Servers that die, hang, use too much memory or cannot start, and the messages to the user.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{CONTROL, EDITOR, Stage, measured, name, process};
use crate::{
    config::{Profile, ServerKind},
    core::{
        event::{Event, Exit, Peer, SpawnFailure},
        mux::pool::lifecycle::LifecycleState,
    },
};

const SERVER: crate::core::event::ProcessId = crate::core::event::ProcessId {
    backend: crate::core::tests::stage::PRIMARY,
    generation: crate::core::event::Generation(1),
};

fn generic() -> Stage {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it
}

fn state(it: &Stage) -> &'static str {
    it.core.mux.backends()[crate::core::tests::stage::PRIMARY].life.state().name()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Kills the server, from this process on, until it is not restarted; returns the messages to the editor.
fn kill_all(it: &mut Stage, first: u32) -> Vec<Value> {
    let mut heard = Vec::new();
    for generation in first..first + 6 {
        it.exited(process(0, generation), Exit::Signal(9));
        it.pass(seconds(20));
        heard.extend(it.take(EDITOR));
        if state(it) != "failed" {
            it.open(process(0, generation + 1));
        }
    }
    heard
}

#[test]
fn crash_loop_shows_one_message_that_offers_restart() {
    let mut it = generic();
    let heard = kill_all(&mut it, 1);
    assert_eq!(state(&it), "failed");
    let offers: Vec<&Value> = heard.iter().filter(|it| it["method"] == "window/showMessageRequest").collect();
    assert_eq!(offers.len(), 1, "{heard:?}");
    let titles: Vec<_> =
        offers[0]["params"]["actions"].as_array().unwrap().iter().map(|it| &it["title"]).collect();
    assert_eq!(titles, ["Restart", "Show log"]);
    // Why it was given up is told there and in the status.
    let offer = offers[0]["params"]["message"].as_str().unwrap();
    let backend = &it.core.mux.backends()[crate::core::tests::stage::PRIMARY];
    for told in [offer, backend.last_error.as_deref().unwrap()] {
        assert!(told.contains("exited (signal 9); it crashed 6 times within 180 s"), "{told}");
    }
    assert_eq!((backend.life.n_crashes(), backend.life.next_start()), (6, None));
    assert!(backend.last_error_at.is_some());
    it.editor(json!({"id": 7, "method": "textDocument/hover"}));
    let told = it.take(EDITOR);
    assert_eq!(told[0]["error"]["data"]["lspool"]["cause"], "unavailable", "at once");
    it.editor(json!({"id": offers[0]["id"], "result": {"title": "Restart"}}));
    it.open(process(0, 7));
    assert_eq!(state(&it), "ready");
    assert!(
        kill_all(&mut it, 7).iter().any(|it| it["method"] == "window/showMessageRequest"),
        "another loop"
    );
}

/// A server without chance in its waits.
fn steady() -> Stage {
    let mut it = Stage::new(ServerKind::Generic);
    it.server.policy.backoff.jitter = 0;
    it.initialize();
    it
}

#[test]
fn requests_are_refused_at_once_while_restart_is_far() {
    let mut it = steady();
    for generation in 1..4 {
        it.exited(process(0, generation), Exit::Signal(9));
        it.pass(seconds(2));
        it.open(process(0, generation + 1));
    }
    it.take(EDITOR);
    it.editor(json!({"id": 5, "method": "textDocument/hover", "params": {}}));
    it.exited(process(0, 4), Exit::Signal(9));
    it.editor(json!({"id": 6, "method": "textDocument/hover", "params": {}}));
    let told = it.take(EDITOR);
    let refused: Vec<&Value> = told.iter().filter(|it| it.get("id").is_some()).collect();
    assert_eq!(refused.iter().map(|it| &it["id"]).collect::<Vec<_>>(), [5, 6], "{told:?}");
    for it in refused {
        assert_eq!(it["error"]["code"], -32803);
        assert!(it["error"]["message"].as_str().unwrap().contains("restarting in 4 s"), "{it}");
        let expected = json!({"partition": "copilot", "cause": "restarting", "retry": true});
        assert_eq!(it["error"]["data"]["lspool"], expected);
    }
    it.pass(seconds(2));
    it.editor(json!({"id": 7, "method": "textDocument/hover", "params": {}}));
    assert!(it.take(EDITOR).is_empty(), "so long is waited for");
    it.pass(seconds(2));
    let next = process(0, 5);
    it.open(next);
    assert_eq!(it.told(next), ["initialized", "textDocument/hover"]);
}

#[test]
fn user_sees_one_message_when_server_crashes_repeatedly() {
    let warnings = |it: &mut Stage| -> Vec<String> {
        let shown = |it: &Value| (it["method"] == "window/showMessage").then(|| it["params"].clone());
        it.take(EDITOR)
            .iter()
            .filter_map(shown)
            .map(|it| it["message"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut it = steady();
    let mut generation = 0;
    for expected in [0, 0, 1, 0, 0] {
        generation += 1;
        it.exited(process(0, generation), Exit::Signal(9));
        let told = warnings(&mut it);
        assert_eq!(told.len(), expected, "crash {generation}: {told:?}");
        assert!(told.iter().all(|it| it.contains("crashed 3 times") && it.contains("in 2 s")), "{told:?}");
        it.pass(seconds(20));
        it.open(process(0, generation + 1));
    }
    // It was well for long.
    it.pass(seconds(600));
    for expected in [0, 0, 1] {
        generation += 1;
        it.exited(process(0, generation), Exit::Signal(9));
        assert_eq!(warnings(&mut it).len(), expected, "crash {generation}");
        it.pass(seconds(20));
        it.open(process(0, generation + 1));
    }
}

#[test]
fn start_may_take_long_while_server_speaks() {
    let mut it = Stage::new(ServerKind::Generic);
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    let log = json!({"method": "window/logMessage", "params": {"type": 4, "message": "importing"}});
    for _ in 0..100 {
        it.pass(seconds(1));
        it.server(SERVER, log.clone());
    }
    // Nobody reads its messages.
    it.event(Event::EditorReads(false));
    it.pass(seconds(100));
    assert_eq!((state(&it), it.terminated.len()), ("starting", 0));
    it.event(Event::EditorReads(true));
    it.server(SERVER, log);
    it.pass(seconds(34));
    assert_eq!(state(&it), "starting");
    it.pass(seconds(1));
    assert_eq!((state(&it), it.terminated.as_slice()), ("failed", &[SERVER][..]));
    let error = it.take(EDITOR).pop().unwrap()["error"].take();
    assert!(error["message"].as_str().unwrap().contains("was silent for 35 s"), "{error}");
}

#[test]
fn start_may_take_long_while_server_writes_to_stderr() {
    let mut it = Stage::new(ServerKind::Generic);
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    for _ in 0..100 {
        it.pass(seconds(1));
        it.event(Event::Muttered(SERVER));
    }
    assert_eq!((state(&it), it.terminated.len()), ("starting", 0));
    it.pass(seconds(35));
    assert_eq!((state(&it), it.terminated.as_slice()), ("failed", &[SERVER][..]));
}

#[test]
fn server_killed_during_its_start_is_started_until_its_restarts_are_spent() {
    for (exit, starts) in [(Exit::Signal(9), 6), (Exit::Signal(11), 2), (Exit::Code(1), 2)] {
        let mut it = Stage::new(ServerKind::Generic);
        it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
        for generation in 1..=starts {
            assert_eq!(it.spawned.last(), Some(&process(0, generation)), "{exit}");
            let asked = it.take(Peer::Backend(process(0, generation)));
            assert_eq!(asked[0]["method"], "initialize");
            it.exited(process(0, generation), exit);
            it.pass(seconds(20));
        }
        assert_eq!((state(&it), it.spawned.last()), ("failed", Some(&process(0, starts))), "{exit}");
        let told = it.take(EDITOR);
        assert!(told.last().unwrap()["error"].is_object(), "{told:?}");
    }
}

#[test]
fn partition_that_failed_to_start_is_tried_again_at_next_create() {
    let mut it = Stage::copilot();
    let one = json!({"lspool": {"tools": ["a"]}});
    it.create(1, &one);
    for generation in 1..=2 {
        it.exited(process(1, generation), Exit::Code(1));
        it.pass(seconds(2));
    }
    let told = it.take(EDITOR);
    assert!(told.iter().any(|it| it["id"] == 1 && it["error"].is_object()), "{told:?}");
    assert_eq!(it.spawned.last(), Some(&process(1, 2)));
    let told = it.create(2, &one);
    assert!(told.iter().all(|it| it["id"] != 2), "{told:?}");
    let next = process(1, 3);
    assert_eq!(it.spawned.last(), Some(&next));
    let told = it.start(next, &[]);
    assert_eq!(name(told.last().unwrap()), "conversation/create");
}

#[test]
fn failed_server_shows_log_on_request() {
    let mut it = generic();
    let heard = kill_all(&mut it, 1);
    let offer = heard.iter().find(|it| it["method"] == "window/showMessageRequest").unwrap();
    it.editor(json!({"id": offer["id"], "result": {"title": "Show log"}}));
    let told = it.take(EDITOR);
    assert_eq!(told[0]["method"], "window/showMessage");
    let message = told[0]["params"]["message"].as_str().unwrap();
    assert!(message.contains("signal 9") && message.ends_with("lspool logs copilot --pid 77"), "{message}");
    assert_eq!(state(&it), "failed");
}

#[test]
fn server_dying_before_ready_is_started_once_more() {
    let mut it = Stage::new(ServerKind::Generic);
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    it.editor(json!({"method": "initialized", "params": {}}));
    it.editor(json!({"id": 1, "method": "textDocument/hover", "params": {}}));
    it.exited(SERVER, Exit::Signal(9));
    assert!(it.take(EDITOR).is_empty());
    let next = process(0, 2);
    it.open(next);
    let told = it.take(Peer::Backend(next));
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["initialized", "textDocument/hover"]);
    it.server(next, json!({"id": told[1]["id"], "result": "x"}));
    let answers = it.take(EDITOR);
    assert_eq!((answers.len(), &answers[0]["id"], &answers[1]["result"]), (2, &json!(0), &json!("x")));
}

#[test]
fn initialize_error_shows_startup_failure() {
    let mut it = Stage::new(ServerKind::Generic);
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    it.exited(SERVER, Exit::Code(1));
    it.event(Event::Exited {
        process: process(0, 2),
        exit: Exit::Code(1),
        stderr: "no such option".to_owned(),
    });
    let told = it.take(EDITOR);
    assert_eq!(told.len(), 1, "no message beside it: {told:?}");
    let message = told[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("exit code 1") && message.contains("no such option"), "{message}");
}

#[test]
fn error_omits_stderr_when_somebody_killed_server() {
    for (exit, told) in [
        (Exit::Signal(9), "it exited (signal 9)"),
        (Exit::Signal(15), "it exited (signal 15)"),
        (Exit::Signal(6), "it exited (signal 6); end of stderr: no keychain"),
        (Exit::Code(1), "it exited (exit code 1); end of stderr: no keychain"),
    ] {
        let mut it = generic();
        it.event(Event::Exited { process: SERVER, exit, stderr: "no keychain".to_owned() });
        assert_eq!(
            it.core.mux.backends()[crate::core::tests::stage::PRIMARY].last_error.as_deref(),
            Some(told)
        );
    }
}

#[test]
fn missing_executable_fails_without_retry() {
    let mut it = Stage::new(ServerKind::Generic);
    it.holds_spawns = true;
    it.editor(json!({"id": 0, "method": "initialize", "params": {}}));
    let failure =
        SpawnFailure { permanent: true, message: "/bin/server: no such file".to_owned(), moved: None };
    it.event(Event::SpawnFailed(SERVER, failure));
    let told = it.take(EDITOR);
    assert_eq!(
        told[0]["error"]["data"]["lspool"],
        json!({"partition": "copilot", "cause": "unavailable", "retry": false})
    );
    assert!(told[0]["error"]["message"].as_str().unwrap().contains("/bin/server: no such file"));
    assert_eq!((state(&it), it.spawned.len()), ("failed", 1));
}

#[test]
fn hanging_start_fails_after_timeout() {
    let failed = SpawnFailure { permanent: true, message: "no such file".to_owned(), moved: None };
    for comes in [true, false] {
        let mut it = Stage::new(ServerKind::Generic);
        it.holds_spawns = true;
        it.editor(json!({"id": 0, "method": "initialize", "params": {}}));
        it.pass(seconds(34));
        assert!(it.take(EDITOR).is_empty());
        it.pass(seconds(1));
        let told = it.take(EDITOR);
        assert_eq!(told[0]["error"]["data"]["lspool"]["cause"], "init timeout");
        assert!(
            told[0]["error"]["message"].as_str().unwrap().contains("did not start within 35 s"),
            "{told:?}"
        );
        assert_eq!((state(&it), it.terminated.as_slice()), ("failed", &[SERVER][..]));
        // Its later events change nothing.
        it.event(match comes {
            true => Event::Spawned { process: SERVER, pid: 5 },
            false => Event::SpawnFailed(SERVER, failed.clone()),
        });
        if comes {
            it.exited(SERVER, Exit::Signal(15));
        }
        it.pass(seconds(100));
        assert_eq!((state(&it), it.spawned.len(), it.take(EDITOR)), ("failed", 1, vec![]));
    }
}

#[test]
fn hanging_restart_counts_as_crash() {
    let mut it = generic();
    it.holds_spawns = true;
    it.exited(SERVER, Exit::Signal(9));
    let hanging = process(0, 2);
    it.editor(json!({"id": 1, "method": "textDocument/hover", "params": {}}));
    it.pass(seconds(35));
    assert_eq!((it.spawned.last(), it.terminated.as_slice()), (Some(&hanging), &[hanging][..]));
    it.pass(seconds(100));
    assert_eq!(it.terminated.len(), 1, "it is told once");
    it.event(Event::SpawnFailed(
        hanging,
        SpawnFailure { permanent: false, message: "called off".to_owned(), moved: None },
    ));
    let why = it.core.mux.backends()[crate::core::tests::stage::PRIMARY].last_error.clone().unwrap();
    assert!(why.contains("did not start within 35 s"), "{why}");
    it.pass(seconds(2));
    let next = process(0, 3);
    it.event(Event::Spawned { process: next, pid: 6 });
    it.open(next);
    assert_eq!(it.told(next), ["initialized", "textDocument/hover"], "what waited waits for the next one");
}

#[test]
fn profile_decides_what_a_crash_means() {
    for (profile, required) in [(Profile::Strict, true), (Profile::BestEffort, false)] {
        let mut it = Stage::new(ServerKind::Generic);
        it.server.policy = profile.policy();
        it.editor(json!({"id": 0, "method": "initialize", "params": {}}));
        it.pass(seconds(35));
        let told = it.take(EDITOR);
        assert_eq!(told[0].get("error").is_some(), required, "{told:?}");
        assert_eq!(told[0]["id"], 0);
        assert_eq!(told.len(), if required { 1 } else { 2 }, "who goes on without it is told: {told:?}");

        let mut it = Stage::new(ServerKind::Generic);
        it.server.policy = profile.policy();
        it.initialize();
        it.exited(SERVER, Exit::Code(0));
        assert_eq!((state(&it), it.spawned.len()), ("failed", 1), "it is not brought back");
        assert_eq!(it.take(EDITOR)[0]["method"], "window/showMessageRequest");
    }
}

#[test]
fn silent_process_is_probed_before_termination() {
    for kind in [ServerKind::Copilot, ServerKind::Generic] {
        let mut it = Stage::new(kind);
        it.initialize();
        it.editor(json!({"id": 1, "method": "textDocument/rename"}));
        it.pass(seconds(59));
        assert_eq!(it.told(SERVER), ["textDocument/rename"]);
        it.pass(seconds(1));
        let ping = it.take(Peer::Backend(SERVER));
        assert_eq!(ping[0]["method"], "$/lspool/ping");
        it.server(SERVER, json!({"id": ping[0]["id"], "error": {"code": -32601, "message": "what?"}}));
        it.pass(seconds(60));
        assert_eq!(
            (state(&it), it.told(SERVER)),
            ("ready", vec!["$/lspool/ping".to_owned()]),
            "it is asked again"
        );
        it.pass(seconds(10));
        assert_eq!(state(&it), "degraded");
        it.server(SERVER, json!({"method": "window/logMessage", "params": {"type": 3, "message": "busy"}}));
        assert_eq!(state(&it), "ready", "any message is life");
        it.take(EDITOR);
        it.pass(seconds(60 + 10 + 59));
        assert_eq!((state(&it), it.terminated.len()), ("degraded", 0));
        it.pass(seconds(2));
        let ends = kind == ServerKind::Copilot;
        assert_eq!(it.terminated, if ends { vec![SERVER] } else { vec![] });
        if ends {
            it.exited(SERVER, Exit::Signal(15));
            let told = it.take(EDITOR);
            let error = &told.iter().find(|it| it["id"] == 1).unwrap()["error"];
            assert_eq!(error["data"]["lspool"]["cause"], "transport");
            assert!(error["message"].as_str().unwrap().contains("it hangs"), "{error}");
            assert_eq!(it.spawned.last(), Some(&process(0, 2)));
        }
    }
}

#[test]
fn terminating_process_is_not_judged_again() {
    let mut it = Stage::new(ServerKind::Generic);
    it.server.stall_timeout = Some(seconds(1));
    it.server.probe_timeout = seconds(1);
    it.server.hang_timeout = Some(seconds(1));
    it.initialize();
    it.editor(json!({"id": 5, "method": "textDocument/rename"}));
    // A process that is halted does not end on SIGTERM.
    for _ in 0..8 {
        it.pass(seconds(1));
    }
    it.exited(SERVER, Exit::Signal(9));
    let told = it.take(EDITOR);
    let answer = told.iter().find(|it| it["id"] == 5).unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().contains("was silent for 3 s"), "{answer}");
}

#[test]
fn process_waiting_for_editor_is_not_probed() {
    let mut it = Stage::copilot();
    it.editor(json!({"id": 1, "method": "textDocument/hover"}));
    it.server(SERVER, json!({"id": 9, "method": "window/showMessageRequest", "params": {}}));
    it.pass(Duration::from_hours(2));
    assert_eq!((state(&it), it.told(SERVER)), ("ready", vec!["textDocument/hover".to_owned()]));
    let asked = it.take(EDITOR);
    it.editor(json!({"id": asked[0]["id"], "result": null}));
    it.event(Event::EditorReads(false));
    it.pass(Duration::from_hours(2));
    assert_eq!((state(&it), it.told(SERVER)), ("ready", vec!["answer".to_owned()]));
    it.event(Event::EditorReads(true));
    it.pass(Duration::from_mins(2));
    assert_eq!(it.told(SERVER), ["$/lspool/ping"]);
}

#[test]
fn one_timer_serves_successive_requests() {
    let mut it = Stage::copilot();
    let due = |it: &mut Stage, id: u32| {
        it.editor(json!({"id": id, "method": "textDocument/hover"}));
        let due = it.core.poll_timeout();
        let asked = it.take(Peer::Backend(SERVER));
        it.server(SERVER, json!({"id": asked[0]["id"], "result": null}));
        due
    };
    let first = due(&mut it, 1);
    assert!(first.is_some());
    for id in 2..5 {
        it.pass(seconds(1));
        assert_eq!(due(&mut it, id), first);
    }
    it.pass(seconds(600));
    assert_eq!((it.core.poll_timeout(), it.told(SERVER).len()), (None, 0), "it owes nothing");
}

#[test]
fn probe_timer_starts_with_the_pending_request() {
    let mut it = Stage::copilot();
    it.editor(json!({"id": 1, "method": "textDocument/hover"}));
    let asked = it.take(Peer::Backend(SERVER));
    it.server(SERVER, json!({"id": asked[0]["id"], "result": null}));
    it.pass(seconds(59));
    it.editor(json!({"id": 2, "method": "textDocument/hover"}));
    it.pass(seconds(59));
    assert_eq!(it.told(SERVER), ["textDocument/hover"]);
    it.pass(seconds(1));
    assert_eq!(it.told(SERVER), ["$/lspool/ping"]);
}

#[test]
fn idle_server_is_never_probed() {
    let mut it = Stage::copilot();
    it.pass(Duration::from_hours(5));
    assert!(it.told(SERVER).is_empty());
}

#[test]
fn process_over_memory_limit_is_replaced_between_requests() {
    let mut it = Stage::new(ServerKind::Generic);
    it.server.memory_limit = Some(100 << 20);
    it.initialize();
    it.pass(seconds(10));
    assert_eq!(it.to_measure, [[SERVER], [SERVER]], "at once, and every ten seconds");
    it.event(measured(vec![(SERVER, 100 << 20)]));
    it.pass(seconds(180));
    it.editor(json!({"id": 1, "method": "textDocument/hover"}));
    let asked = it.take(Peer::Backend(SERVER));
    it.event(measured(vec![(SERVER, 101 << 20)]));
    assert!(it.take(Peer::Backend(SERVER)).is_empty(), "it owes an answer");
    it.server(SERVER, json!({"id": asked[0]["id"], "result": "x"}));
    assert_eq!(it.told(SERVER), ["shutdown", "exit"]);
    assert_eq!(it.terminated, [SERVER]);
    // Messages wait meanwhile.
    it.editor(json!({"id": 2, "method": "textDocument/hover"}));
    it.exited(SERVER, Exit::Code(0));
    let next = process(0, 2);
    it.open(next);
    assert_eq!(it.told(next), ["initialized", "textDocument/hover"]);
    let told: Vec<_> = it.take(EDITOR).iter().map(|it| it["id"].clone()).collect();
    assert_eq!(told, [1], "nothing has failed");
    assert_eq!(
        it.core.mux.backends()[crate::core::tests::stage::PRIMARY].life.state(),
        LifecycleState::Ready
    );
}

#[test]
fn crash_looping_partition_is_not_restarted_by_next_create() {
    let mut it = Stage::copilot();
    let mut starts = 0;
    for n in 1..20 {
        it.create(n, &json!({"conversationId": format!("c{n}"), "lspool": {"tools": ["a"]}}));
        let Some(process) = it.spawned.last().copied().filter(|it| it.backend.0 == 1) else { break };
        if it.core.mux.backends()[process.backend].life.is_alive() {
            starts += 1;
            it.start(process, &[]);
            it.exited(process, Exit::Signal(9));
        }
        it.pass(seconds(10));
    }
    assert_eq!(starts, 6, "the first, and five within three minutes");
}

#[test]
fn partition_that_crashed_long_ago_is_forgotten() {
    let mut it = Stage::copilot();
    let use_and_crash = |it: &mut Stage, n: u32, tool: &str| {
        it.create(n, &json!({"conversationId": format!("c{n}"), "lspool": {"tools": [tool]}}));
        let process = *it.spawned.last().unwrap();
        let told = it.start(process, &[]);
        it.server(process, json!({"id": told.last().unwrap()["id"], "error": {"code": 1, "message": "no"}}));
        it.exited(process, Exit::Signal(9));
        it.core.mux.backends().ids().iter().map(|it| it.0).collect::<Vec<_>>()
    };
    assert_eq!(use_and_crash(&mut it, 1, "a"), [0, 1]);
    assert_eq!(use_and_crash(&mut it, 2, "b"), [0, 1, 2]);
    it.pass(seconds(181));
    assert_eq!(use_and_crash(&mut it, 3, "c"), [0, 3]);
}

#[test]
fn server_errors_are_shown_without_secrets() {
    let said = "connect ECONNREFUSED http://user:s3cr3t@proxy:3128";
    let error = json!({"code": -32603, "message": said});
    let mut it = Stage::new(ServerKind::Copilot);
    it.editor(json!({"id": 0, "method": "initialize", "params": {"processId": 1, "capabilities": {}}}));
    let asked = it.take(Peer::Backend(process(0, 1)));
    it.server(process(0, 1), json!({"id": asked[0]["id"], "error": error}));
    it.control(json!({"id": 1, "method": "lspool/status", "params": {}}));
    it.event(measured(vec![]));
    assert_eq!(
        it.take(EDITOR)[0]["error"],
        error,
        "what the server itself has said to the editor is not touched"
    );
    let told = format!("{:?}", it.take(CONTROL));
    assert!(told.contains("refused initialize: connect ECONNREFUSED http://user:<secret>@proxy"), "{told}");

    let mut it = Stage::copilot();
    it.create(1, &json!({"lspool": {"tools": ["read_file"]}}));
    it.open(process(1, 1));
    let asked = it.take(Peer::Backend(process(1, 1)));
    let asked =
        asked.iter().find(|it| it["method"] == "conversation/registerTools").expect("it is restricted");
    it.server(process(1, 1), json!({"id": asked["id"], "error": error}));
    let told = format!("{:?}", it.take(EDITOR));
    assert!(
        told.contains("lspool cannot restrict its tools") && told.contains("http://user:<secret>@proxy"),
        "{told}"
    );
}
