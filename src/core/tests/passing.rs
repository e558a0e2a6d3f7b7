//! A single server with an editor: every message passes, under unique ids.

use serde_json::json;

use super::stage::{EDITOR, Stage, process};
use crate::{
    config::ServerKind,
    core::event::{Exit, Peer},
};

const SERVER: Peer = Peer::Backend(crate::core::event::ProcessId {
    backend: crate::core::tests::stage::PRIMARY,
    generation: crate::core::event::Generation(1),
});

fn generic() -> Stage {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it
}

#[test]
fn answers_carry_the_original_request_ids() {
    let mut it = generic();
    for id in
        [json!("s-1"), json!(""), json!(0), json!(-5), json!(9_007_199_254_740_992_u64), json!("1"), json!(1)]
    {
        it.editor(json!({"id": id, "method": "textDocument/hover", "params": {"x": id}}));
    }
    let asked = it.take(SERVER);
    for request in asked.iter().rev() {
        it.server(process(0, 1), json!({"id": request["id"], "result": request["params"]["x"]}));
    }
    let answers = it.take(EDITOR);
    assert_eq!(answers.len(), 7);
    assert!(answers.iter().all(|it| it["id"] == it["result"]), "{answers:?}");
    // Answered twice, and answered without having been asked.
    it.server(process(0, 1), json!({"id": asked[0]["id"], "result": 1}));
    it.server(process(0, 1), json!({"id": 4711, "result": 1}));
    assert!(it.take(EDITOR).is_empty());
}

#[test]
fn peers_may_write_numbers_of_requests_in_another_way() {
    let mut it = generic();
    for method in ["a", "b"] {
        it.editor(json!({"id": method, "method": method}));
    }
    it.editor(json!({"id": "c", "method": "c"}));
    let asked = it.take(SERVER);
    it.server(process(0, 1), json!({"id": asked[2]["id"].to_string(), "result": "as a text"}));
    assert_eq!(it.take(EDITOR)[0]["result"], "as a text");
    for (request, result) in asked[..2].iter().zip(1..) {
        let float = request["id"].as_f64().unwrap();
        it.server(process(0, 1), json!({"id": float, "result": result}));
    }
    it.server(process(0, 1), json!({"id": 9, "method": "window/showMessageRequest"}));
    let told = it.take(EDITOR);
    assert_eq!(told[..2].iter().map(|it| &it["result"]).collect::<Vec<_>>(), [1, 2]);
    it.editor(json!({"id": told[2]["id"].as_f64(), "result": "answered"}));
    let answers = it.take(SERVER);
    assert_eq!((&answers[0]["id"], &answers[0]["result"]), (&json!(9), &json!("answered")));
}

#[test]
fn answer_without_result_is_null() {
    let mut it = generic();
    it.editor(json!({"id": 1, "method": "a"}));
    let asked = it.take(SERVER);
    it.server(process(0, 1), json!({"id": asked[0]["id"]}));
    assert_eq!(it.take(EDITOR), [json!({"jsonrpc": "2.0", "id": 1, "result": null})]);
    it.server(
        process(0, 1),
        json!({"id": 9, "method": "workspace/configuration", "params": {"items": [{}]}}),
    );
    let asked = it.take(EDITOR);
    it.editor(json!({"id": asked[0]["id"], "error": null}));
    assert_eq!(it.take(SERVER)[0]["result"], json!([null]));
    it.server(process(0, 1), json!({"id": null, "method": "window/logMessage", "params": {"type": 3}}));
    assert_eq!(it.take(EDITOR)[0]["method"], "window/logMessage");
}

#[test]
fn only_first_process_has_the_token_of_initialize() {
    for answered in [true, false] {
        let mut it = Stage::new(ServerKind::Generic);
        let params = json!({"workDoneToken": "w", "capabilities": {}});
        it.editor(json!({"id": 0, "method": "initialize", "params": params}));
        let asked = it.take(SERVER);
        assert_eq!(asked[0]["params"]["workDoneToken"], "w");
        let begin = json!({"token": "w", "value": {"kind": "begin", "title": "t"}});
        it.server(process(0, 1), json!({"method": "$/progress", "params": begin}));
        if answered {
            it.server(process(0, 1), json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
        }
        it.exited(process(0, 1), Exit::Signal(9));
        let told = it.take(Peer::Backend(process(0, 2)));
        assert_eq!(
            (&told[0]["method"], told[0]["params"].get("workDoneToken")),
            (&json!("initialize"), None)
        );
        it.server(process(0, 2), json!({"id": told[0]["id"], "result": {"capabilities": {}}}));
        let kinds: Vec<_> = it
            .take(EDITOR)
            .iter()
            .filter_map(|it| it["params"]["value"]["kind"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(kinds, ["begin", "end"], "{answered}");
    }
}

#[test]
fn client_reusing_one_id_is_answered_in_order() {
    let mut it = Stage::new(ServerKind::Generic);
    it.editor(json!({"id": 1, "method": "initialize", "params": {}}));
    for n in 0..3 {
        it.editor(json!({"id": 1, "method": "textDocument/hover", "params": {"n": n}}));
    }
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    let asked = it.take(SERVER);
    assert_eq!(asked[4]["params"]["id"], asked[3]["id"], "the last one is meant");
    for request in &asked[..4] {
        it.server(process(0, 1), json!({"id": request["id"], "result": request["params"]["n"]}));
    }
    let answers = it.take(EDITOR);
    assert!(answers.iter().all(|it| it["id"] == 1), "{answers:?}");
    let results: Vec<_> = answers[1..].iter().map(|it| it["result"].clone()).collect();
    assert_eq!(results, [0, 1, 2]);
}

#[test]
fn request_with_pending_id_is_refused() {
    let mut it = generic();
    it.editor(json!({"id": 5, "method": "textDocument/hover"}));
    it.editor(json!({"id": 5, "method": "textDocument/hover"}));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32600);
    let asked = it.take(SERVER);
    assert_eq!(asked.len(), 1);
    it.server(process(0, 1), json!({"id": asked[0]["id"], "result": "first"}));
    assert_eq!(it.take(EDITOR)[0]["result"], "first");
}

#[test]
fn cancellation_carries_id_known_to_receiver() {
    let mut it = generic();
    it.editor(json!({"id": "a", "method": "textDocument/hover"}));
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": "a"}}));
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": "unknown"}}));
    let told = it.take(SERVER);
    assert_eq!(told.len(), 2);
    assert_eq!(told[1]["params"]["id"], told[0]["id"]);
    it.server(process(0, 1), json!({"id": 9, "method": "window/showMessageRequest"}));
    it.server(process(0, 1), json!({"method": "$/cancelRequest", "params": {"id": 9}}));
    let told = it.take(EDITOR);
    assert_eq!(told[1]["params"]["id"], told[0]["id"]);
}

#[test]
fn requests_before_initialize_or_after_shutdown_are_refused() {
    let mut it = Stage::new(ServerKind::Generic);
    it.editor(json!({"id": 1, "method": "textDocument/hover"}));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32002);
    it.initialize();
    it.editor(json!({"id": 2, "method": "shutdown"}));
    let asked = it.take(SERVER);
    assert_eq!(asked[0]["method"], "shutdown");
    it.server(process(0, 1), json!({"id": asked[0]["id"], "result": null}));
    assert_eq!(it.take(EDITOR)[0]["id"], 2);
    it.editor(json!({"id": 3, "method": "textDocument/hover"}));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32600);
    it.editor(json!({"method": "exit"}));
    assert_eq!(it.exit, Some(0));
}

#[test]
fn shutdown_is_answered_when_server_is_silent_or_dies() {
    for dies in [false, true] {
        let mut it = generic();
        it.editor(json!({"id": 2, "method": "shutdown"}));
        match dies {
            true => it.exited(process(0, 1), Exit::Code(0)),
            false => it.pass(it.server.shutdown_grace),
        }
        assert_eq!(it.take(EDITOR), [json!({"jsonrpc": "2.0", "id": 2, "result": null})]);
    }
}

#[test]
fn exit_right_after_shutdown_waits_for_its_answer() {
    let mut it = generic();
    it.editor(json!({"id": 2, "method": "shutdown"}));
    it.editor(json!({"method": "exit"}));
    assert_eq!(it.exit, None);
    let asked = it.take(SERVER);
    it.server(process(0, 1), json!({"id": asked[0]["id"], "result": null}));
    assert_eq!(it.take(EDITOR)[0]["id"], 2);
    assert_eq!(it.take(SERVER)[0]["method"], "exit");
    assert_eq!(it.exit, Some(0));
}

#[test]
fn crash_answers_pending_requests_and_replays_session() {
    let mut it = generic();
    let text = json!({"uri": "u", "languageId": "x", "version": 1, "text": "one"});
    it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": text}}));
    it.editor(json!({"id": 1, "method": "workspace/executeCommand"}));
    it.server(
        process(0, 1),
        json!({"id": 7, "method": "window/workDoneProgress/create", "params": {"token": "p"}}),
    );
    it.server(
        process(0, 1),
        json!({"method": "$/progress", "params": {"token": "p", "value": {"kind": "begin"}}}),
    );
    it.take(EDITOR);
    it.exited(process(0, 1), Exit::Signal(9));
    let told = it.take(EDITOR);
    assert_eq!(told[0]["params"]["value"]["kind"], "end");
    assert_eq!(told[1]["method"], "$/cancelRequest");
    assert_eq!(told[2]["id"], 1);
    assert_eq!(told[2]["error"]["data"]["lspool"]["cause"], "crashed");
    // Edits while it is down are in the restored text, and are not sent again.
    let change = json!({"textDocument": {"uri": "u", "version": 2}, "contentChanges": [{"text": "two"}]});
    it.editor(json!({"method": "textDocument/didChange", "params": change}));
    it.editor(json!({"id": 2, "method": "textDocument/hover"}));
    let next = process(0, 2);
    let asked = it.take(Peer::Backend(next));
    it.server(next, json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
    let told = it.take(Peer::Backend(next));
    let methods: Vec<_> = told.iter().map(super::stage::name).collect();
    assert_eq!(methods, ["initialized", "textDocument/didOpen", "textDocument/hover"]);
    assert_eq!(told[1]["params"]["textDocument"]["text"], "two");
    assert_eq!(told[1]["params"]["textDocument"]["version"], 2);
}

#[test]
fn end_of_file_waits_briefly_for_pending_answers() {
    let mut it = generic();
    it.editor(json!({"id": 1, "method": "textDocument/hover"}));
    it.event(crate::core::event::Event::Closed { peer: EDITOR, error: None });
    assert_eq!(it.exit, None);
    it.pass(std::time::Duration::from_secs(2));
    assert_eq!(it.exit, Some(0));
}

#[test]
fn cancel_of_initialize_is_not_forwarded() {
    let mut it = Stage::new(ServerKind::Generic);
    it.holds_spawns = true;
    it.editor(json!({"id": 0, "method": "initialize", "params": {}}));
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 0}}));
    it.editor(json!({"id": 1, "method": "textDocument/hover"}));
    it.event(crate::core::event::Event::Spawned { process: process(0, 1), pid: 1 });
    assert_eq!(it.told(process(0, 1)), ["initialize", "textDocument/hover"]);
}

#[test]
fn editor_leaving_before_spawn_sends_server_nothing() {
    let mut it = Stage::new(ServerKind::Generic);
    it.holds_spawns = true;
    it.editor(json!({"id": 0, "method": "initialize", "params": {}}));
    it.editor(json!({"method": "exit"}));
    assert_eq!(it.exit, Some(1));
    assert!(it.told(process(0, 1)).is_empty());
}

#[test]
fn restarted_process_gets_initialized_once() {
    let mut it = Stage::new(ServerKind::Generic);
    it.editor(json!({"id": 0, "method": "initialize", "params": {}}));
    let asked = it.take(SERVER);
    it.server(process(0, 1), json!({"id": asked[0]["id"], "result": {}}));
    it.exited(process(0, 1), Exit::Signal(9));
    it.editor(json!({"method": "initialized", "params": {}}));
    assert_eq!(
        it.start(process(0, 2), &[]).iter().map(super::stage::name).collect::<Vec<_>>(),
        ["initialize", "initialized"]
    );
}

#[test]
fn end_of_file_waits_for_initialize_and_shutdown() {
    let mut it = Stage::new(ServerKind::Generic);
    it.holds_preparation = true;
    it.editor(json!({"id": 0, "method": "initialize", "params": {}}));
    let close = || crate::core::event::Event::Closed { peer: EDITOR, error: None };
    it.event(close());
    assert_eq!(it.exit, None);
    let mut it = generic();
    it.editor(json!({"id": 1, "method": "shutdown"}));
    it.event(close());
    assert_eq!(it.exit, None);
    let asked = it.take(SERVER);
    it.server(process(0, 1), json!({"id": asked[0]["id"], "result": null}));
    assert_eq!(it.take(EDITOR)[0]["id"], 1);
    assert_eq!(it.exit, Some(0));
}

#[test]
fn nothing_restarts_while_lspool_exits() {
    let mut it = generic();
    it.exited(process(0, 1), Exit::Signal(9));
    it.start(process(0, 2), &[]);
    it.exited(process(0, 2), Exit::Signal(9));
    it.editor(json!({"id": 1, "method": "textDocument/hover"}));
    it.event(crate::core::event::Event::Closed { peer: EDITOR, error: None });
    // Late enough for the restart and for leaving.
    it.now += std::time::Duration::from_mins(1);
    let mut out = Vec::new();
    it.core.handle_timeout(it.now, &mut out);
    assert!(matches!(out[..], [crate::core::event::Effect::Exit(0)]), "{out:?}");
}

#[test]
fn item_of_previous_process_is_not_resolved_by_next() {
    let mut it = generic();
    it.exited(process(0, 1), Exit::Signal(9));
    let next = process(0, 2);
    let asked = it.take(Peer::Backend(next));
    it.server(next, json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
    it.told(next);
    let resolve =
        |id: u32| json!({"id": id, "method": "completionItem/resolve", "params": {"label": "x", "data": 7}});
    it.editor(resolve(1));
    assert!(it.told(next).is_empty());
    assert_eq!(it.take(EDITOR)[0]["result"], json!({"label": "x", "data": 7}));
    // Once it has made items itself, it completes them.
    it.editor(json!({"id": 2, "method": "textDocument/completion", "params": {}}));
    let asked = it.take(Peer::Backend(next));
    it.server(next, json!({"id": asked[0]["id"], "result": [{"label": "x", "data": 7}]}));
    it.editor(resolve(3));
    assert_eq!(it.told(next), ["completionItem/resolve"]);
}

/// The recording, which every test makes, replays: the answer is to the first request of that id.
#[test]
fn refused_duplicate_id_keeps_answer_of_first_request() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it.editor(json!({"id": 5, "method": "textDocument/hover", "params": {}}));
    let asked = it.take(Peer::Backend(process(0, 1))).pop().unwrap();
    it.editor(json!({"id": 5, "method": "x/unknown", "params": {}}));
    let refused = it.take(EDITOR);
    assert_eq!(refused[0]["error"]["data"]["lspool"]["cause"], "invalid request");
    it.server(
        process(0, 1),
        json!({"id": asked["id"], "error": {"code": -32001, "message": "no such word"}}),
    );
    assert_eq!(it.take(EDITOR)[0]["error"]["message"], "no such word");
}

#[test]
fn user_is_told_of_a_document_whose_text_is_unknown() {
    let mut it = generic();
    let item = json!({"uri": "a", "languageId": "x", "version": 1, "text": "x"});
    it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": item}}));
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}});
    let mut told = |change: serde_json::Value| {
        let params = json!({"textDocument": {"uri": "a", "version": 2}, "contentChanges": [change]});
        it.editor(json!({"method": "textDocument/didChange", "params": params}));
        let told = it.take(EDITOR);
        assert!(told.iter().all(|it| it["params"]["message"].as_str().unwrap().contains("open it again")));
        told.len()
    };
    let broken = || json!({"range": {"start": 1}, "text": "y"});
    assert_eq!(told(json!({"range": range, "text": "y"})), 0);
    assert_eq!([told(broken()), told(broken()), told(json!({"range": range, "text": "z"}))], [1, 0, 0]);
    assert_eq!([told(json!({"text": "whole"})), told(broken())], [0, 1]);
}
