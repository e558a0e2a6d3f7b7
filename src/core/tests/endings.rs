//! Nothing is left of a process that is gone.

use serde_json::json;

use super::stage::{EDITOR, Stage, name, process};
use crate::{
    config::ServerKind,
    core::event::{Event, Exit, Peer},
    rpc::RawId,
};

#[test]
fn queued_request_restarts_crashed_partition() {
    let mut it = Stage::copilot();
    let one = process(1, 1);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let told = it.start(one, &[]);
    it.server(one, json!({"id": told.last().unwrap()["id"], "result": {"turnId": "t"}}));
    // Turns are queued until the primary has answered.
    it.editor(json!({"id": 2, "method": "conversation/registerTools", "params": {"tools": [{"name": "a"}]}}));
    it.create(3, &json!({"conversationId": "d", "lspool": {"tools": ["a"]}}));
    it.take(EDITOR);
    it.exited(one, Exit::Signal(9));
    assert!(it.take(EDITOR).is_empty(), "it is not lost");
    it.start(process(0, 1), &[]);
    let told: Vec<_> = it.start(process(1, 2), &[]).iter().map(name).collect();
    assert_eq!(told.last().unwrap(), "conversation/create");
}

#[test]
fn queued_create_survives_crashes_with_its_conversation() {
    let mut it = Stage::copilot();
    it.exited(process(0, 1), Exit::Signal(9));
    let next = process(0, 2);
    it.create(1, &json!({"conversationId": "c"}));
    it.editor(json!({"id": 2, "method": "conversation/turn", "params": {"conversationId": "c"}}));
    it.exited(next, Exit::Signal(9));
    it.pass(std::time::Duration::from_secs(2));
    let next = process(0, 3);
    let told = it.start(next, &[]);
    assert_eq!(name(told.last().unwrap()), "conversation/create");
    assert!(it.take(EDITOR).is_empty(), "nothing has failed");
    it.server(next, json!({"id": told.last().unwrap()["id"], "result": {"turnId": "t"}}));
    assert_eq!(it.told(next), ["conversation/turn"]);
}

#[test]
fn requests_of_unready_process_end_with_it() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it.exited(process(0, 1), Exit::Signal(9));
    let next = process(0, 2);
    it.server(next, json!({"id": 1, "method": "window/workDoneProgress/create", "params": {"token": "p"}}));
    let begin = json!({"token": "p", "value": {"kind": "begin", "title": "t"}});
    it.server(next, json!({"method": "$/progress", "params": begin}));
    let asked = it.take(EDITOR);
    it.exited(next, Exit::Signal(9));
    let told = it.take(EDITOR);
    assert_eq!(told[0]["params"]["value"]["kind"], "end");
    assert_eq!((&told[1]["method"], &told[1]["params"]["id"]), (&json!("$/cancelRequest"), &asked[0]["id"]));
}

#[test]
fn progress_under_request_token_ends_with_its_answer() {
    let server = process(0, 1);
    let begin = |token: &str, value: serde_json::Value| json!({"method": "$/progress", "params": {"token": token, "value": value}});
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it.editor(json!({"id": 1, "method": "textDocument/references", "params": {"workDoneToken": "w"}}));
    it.editor(json!({"id": 2, "method": "textDocument/references", "params": {"workDoneToken": "v"}}));
    let asked = it.take(Peer::Backend(server));
    for token in ["w", "v"] {
        it.server(server, begin(token, json!({"kind": "begin", "title": "t"})));
    }
    it.server(server, json!({"id": asked[0]["id"], "error": {"code": -32800, "message": "cancelled"}}));
    it.take(EDITOR);
    it.exited(server, Exit::Signal(9));
    let told = it.take(EDITOR);
    let ended: Vec<_> = told.iter().filter_map(|it| it["params"]["token"].as_str()).collect();
    assert_eq!(ended, ["v"]);
    // A server does not end the turn of a conversation that another create has replaced.
    let mut it = Stage::copilot();
    let create = |it: &mut Stage, id: u32| {
        it.create(id, &json!({"conversationId": "c"}));
        let create = it.take(Peer::Backend(server)).pop().unwrap();
        let turn = &create["params"]["turns"][0]["turnId"];
        let value = json!({"kind": "begin", "conversationId": "c", "turnId": turn});
        it.server(server, begin(&format!("t{id}"), value));
        create["id"].clone()
    };
    let first = create(&mut it, 1);
    create(&mut it, 2);
    it.server(server, json!({"id": first, "result": {"conversationId": "c"}}));
    assert_eq!(it.core.mux.tokens().n_open(), 1);
    it.take(EDITOR);
    it.exited(server, Exit::Signal(9));
    assert!(it.take(EDITOR).is_empty(), "the second goes on");
}

/// The tokens that these messages end, and where an answer is, its number.
fn ends(told: &[serde_json::Value]) -> Vec<String> {
    let end = |it: &serde_json::Value| {
        let token = it["params"]["token"].as_str().filter(|_| it["params"]["value"]["kind"] == "end");
        token.map(str::to_owned).or_else(|| it["error"]["message"].is_string().then(|| it["id"].to_string()))
    };
    told.iter().filter_map(end).collect()
}

#[test]
fn progress_ends_before_its_request_fails_for_malformed_answer() {
    let server = process(0, 1);
    let malformed = |it: &mut Stage, asked: &serde_json::Value| {
        let id = RawId::from_raw(asked["id"].to_string().as_bytes()).unwrap();
        let reason = "odd".to_owned();
        it.event(Event::Malformed { peer: Peer::Backend(server), id: Some((id, false)), reason });
    };
    let begin = |token: &str, value: serde_json::Value| json!({"method": "$/progress", "params": {"token": token, "value": value}});
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it.editor(json!({"id": 1, "method": "textDocument/references", "params": {"workDoneToken": "w"}}));
    let asked = it.take(Peer::Backend(server)).pop().unwrap();
    it.server(server, begin("w", json!({"kind": "begin", "title": "t"})));
    it.take(EDITOR);
    malformed(&mut it, &asked);
    assert_eq!(ends(&it.take(EDITOR)), ["w", "1"]);
    it.exited(server, Exit::Signal(9));
    assert!(ends(&it.take(EDITOR)).is_empty(), "it has ended once");

    // Two creates with one id and different tools: the second is served elsewhere.
    let mut it = Stage::copilot();
    it.create(1, &json!({"conversationId": "c"}));
    let create = it.take(Peer::Backend(server)).pop().unwrap();
    it.create(2, &json!({"conversationId": "c", "lspool": {"tools": []}}));
    let turn = &create["params"]["turns"][0]["turnId"];
    it.server(server, begin("t1", json!({"kind": "begin", "conversationId": "c", "turnId": turn})));
    it.take(EDITOR);
    malformed(&mut it, &create);
    let told = it.take(EDITOR);
    assert_eq!(ends(&told), ["t1", "1"]);
    let end = told.iter().find(|it| it["params"]["token"] == "t1").unwrap();
    assert!(end["params"]["value"]["error"]["message"].as_str().unwrap().contains("malformed"), "{end}");
    it.exited(server, Exit::Signal(9));
    assert!(ends(&it.take(EDITOR)).is_empty(), "it has ended once");
}

#[test]
fn failed_server_unregisters_its_capabilities() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    let register = json!({"registrations": [{"id": "r", "method": "m"}]});
    it.server(process(0, 1), json!({"id": 1, "method": "client/registerCapability", "params": register}));
    let asked = it.take(EDITOR);
    it.editor(json!({"id": asked[0]["id"], "result": null}));
    for generation in 1..=6 {
        it.exited(process(0, generation), Exit::Signal(9));
        it.pass(std::time::Duration::from_secs(10));
    }
    let told: Vec<_> = it.take(EDITOR).iter().map(name).collect();
    assert_eq!(
        told,
        ["window/showMessage", "client/unregisterCapability", "window/showMessageRequest"],
        "it crashes repeatedly, and then fails for good"
    );
    it.editor(json!({"id": 1, "method": "textDocument/hover"}));
    let why = &it.take(EDITOR)[0]["error"]["message"];
    assert!(why.as_str().unwrap().contains("it has failed"), "{why}");
}

#[test]
fn error_says_why_server_ended_and_whether_it_restarts() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    for generation in 1..=6 {
        let server = process(0, generation);
        it.take(EDITOR);
        it.editor(json!({"id": generation, "method": "workspace/executeCommand"}));
        it.event(Event::Closed { peer: Peer::Backend(server), error: Some("it says nonsense".to_owned()) });
        it.exited(server, Exit::Code(0));
        let error = it.take(EDITOR)[0]["error"].take();
        let (message, is_last) = (error["message"].as_str().unwrap(), generation == 6);
        assert!(message.contains("was ended (it says nonsense)"), "{message}");
        assert_eq!(message.contains("lspool restarts it"), !is_last, "{message}");
        assert_eq!(error["data"]["lspool"]["retry"], json!(!is_last));
        it.pass(std::time::Duration::from_secs(10));
        for asked in it.take(Peer::Backend(process(0, generation + 1))) {
            if asked["method"] == "initialize" {
                it.server(process(0, generation + 1), json!({"id": asked["id"], "result": {}}));
            }
        }
    }
}

#[test]
fn server_that_never_answers_initialize_is_abandoned() {
    let mut it = Stage::new(ServerKind::Generic);
    it.editor(json!({"id": 0, "method": "initialize", "params": {}}));
    it.server(process(0, 1), json!({"id": 1, "method": "window/showMessageRequest", "params": {}}));
    it.pass(std::time::Duration::from_secs(35));
    let told: Vec<_> = it.take(EDITOR).iter().map(name).collect();
    assert_eq!(told, ["window/showMessageRequest", "$/cancelRequest", "answer"]);
    // It asks on until it is gone.
    it.server(process(0, 1), json!({"id": 2, "method": "window/showMessageRequest", "params": {}}));
    it.exited(process(0, 1), Exit::Signal(9));
    assert!(it.take(EDITOR).is_empty());
    assert!(it.take(Peer::Backend(process(0, 1))).iter().all(|it| it["method"] == "initialize"));
}

const SERVER: Peer = Peer::Backend(crate::core::event::ProcessId {
    backend: crate::core::tests::stage::PRIMARY,
    generation: crate::core::event::Generation(1),
});

/// The server answers all that it was asked, in order.
fn answer_all(it: &mut Stage) -> Vec<String> {
    let told = it.take(SERVER);
    for request in told.iter().filter(|it| it.get("id").is_some()) {
        it.server(process(0, 1), json!({"id": request["id"], "result": {}}));
    }
    told.iter().map(name).collect()
}

fn opening() -> [serde_json::Value; 3] {
    [
        json!({"id": 1, "method": "initialize", "params": {}}),
        json!({"method": "initialized", "params": {}}),
        json!({"id": 2, "method": "textDocument/hover", "params": {}}),
    ]
}

#[test]
fn stream_closed_at_once_gets_all_answers() {
    let mut it = Stage::new(ServerKind::Generic);
    it.burst(&opening(), true);
    it.pass(std::time::Duration::from_secs(2));
    assert_eq!(it.exit, None, "the server is still starting");
    let asked = it.take(SERVER);
    it.server(process(0, 1), json!({"id": asked[0]["id"], "result": {}}));
    it.pass(std::time::Duration::from_millis(1900));
    assert_eq!(it.exit, None);
    assert!(it.closed.is_empty());
    it.server(process(0, 1), json!({"id": asked[2]["id"], "result": {}}));
    // Its last message may have consequences.
    assert_eq!((it.exit, &it.closed[..]), (None, &[process(0, 1)][..]));
    it.server(process(0, 1), json!({"method": "textDocument/publishDiagnostics", "params": {}}));
    it.exited(process(0, 1), Exit::Code(0));
    assert_eq!(it.exit, Some(0));
    assert_eq!(it.spawned.len(), 1, "nothing is restarted");
    assert_eq!(it.take(EDITOR).len(), 3);
}

#[test]
fn exit_does_not_wait_for_server_ignoring_end_of_stream() {
    let mut it = Stage::copilot();
    it.event(crate::core::event::Event::Closed { peer: EDITOR, error: None });
    it.pass(std::time::Duration::from_millis(1400));
    assert_eq!(it.exit, None);
    it.pass(std::time::Duration::from_millis(100));
    assert_eq!(it.exit, Some(0));
}

#[test]
fn closed_stream_waits_for_answers_at_most_two_seconds() {
    let mut it = Stage::new(ServerKind::Generic);
    it.burst(&opening(), true);
    let asked = it.take(SERVER);
    it.server(process(0, 1), json!({"id": asked[0]["id"], "result": {}}));
    it.pass(std::time::Duration::from_secs(2));
    assert_eq!(it.exit, Some(0));
}

#[test]
fn shutdown_and_exit_sent_at_once_follow_all_answers() {
    for closes in [false, true] {
        let mut it = Stage::new(ServerKind::Generic);
        let farewell = [json!({"id": 3, "method": "shutdown"}), json!({"method": "exit"})];
        it.burst(&[&opening()[..], &farewell].concat(), closes);
        assert_eq!(it.exit, None);
        let told = answer_all(&mut it);
        assert_eq!(told, ["initialize", "initialized", "textDocument/hover", "shutdown"]);
        assert_eq!(it.exit, Some(0));
        assert_eq!(it.told(process(0, 1)), ["exit"]);
        let answered: Vec<_> = it.take(EDITOR).iter().map(|it| it["id"].clone()).collect();
        assert_eq!(answered, [1, 2, 3]);
    }
}

#[test]
fn shutdown_is_answered_after_stream_closes() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it.editor(json!({"id": 3, "method": "shutdown"}));
    it.event(crate::core::event::Event::Closed { peer: EDITOR, error: None });
    assert_eq!(it.exit, None);
    answer_all(&mut it);
    assert_eq!((it.exit, it.take(EDITOR)[0]["id"].clone()), (Some(0), json!(3)));
}

#[test]
fn exit_without_shutdown_ends_at_once() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it.editor(json!({"id": 3, "method": "textDocument/hover"}));
    it.editor(json!({"method": "exit"}));
    assert_eq!(it.exit, Some(1));
}

#[test]
fn stopping_idle_partition_drops_its_queued_requests() {
    let mut it = Stage::patient();
    let one = process(1, 1);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let told = it.start(one, &[]);
    it.server(one, json!({"id": told.last().unwrap()["id"], "error": {"code": 1000, "message": "no"}}));
    // Fills the queue, so that the next request waits there.
    it.editor(json!({"id": 2, "method": "conversation/registerTools", "params": {"tools": [{"name": "a"}]}}));
    it.editor(json!({"id": 3, "method": "mcp/serverAction", "params": {}}));
    it.pass(std::time::Duration::from_secs(301));
    assert_eq!(it.terminated, [one]);
    it.exited(one, Exit::Code(0));
    it.take(EDITOR);
    it.start(process(0, 1), &[]);
    let open: Vec<_> = it.core.mux.requests().iter().map(|(_, it)| it.frame.method()).collect();
    assert_eq!(open, [Some("mcp/serverAction")], "the editor's, which the primary has not answered");
}

#[test]
fn closed_stream_ends_lspool_at_once_without_server() {
    let mut it = Stage::copilot();
    it.exited(process(0, 1), Exit::Signal(9));
    let next = process(0, 2);
    let asked = it.take(Peer::Backend(next));
    it.server(next, json!({"id": asked[0]["id"], "error": {"code": 1, "message": "no"}}));
    it.exited(next, Exit::Code(0));
    it.event(crate::core::event::Event::Closed { peer: EDITOR, error: None });
    assert_eq!(it.exit, Some(0));
}

#[test]
fn restart_keeps_queued_requests_of_any_method() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it.exited(process(0, 1), Exit::Signal(9));
    for (id, method) in ["initialized", "textDocument/didOpen"].into_iter().enumerate() {
        it.editor(json!({"id": id, "method": method, "params": {}}));
    }
    it.exited(process(0, 2), Exit::Signal(9));
    it.pass(std::time::Duration::from_secs(2));
    let told: Vec<_> = it.start(process(0, 3), &[]).iter().map(name).collect();
    assert_eq!(told, ["initialize", "initialized", "initialized", "textDocument/didOpen"]);
}
