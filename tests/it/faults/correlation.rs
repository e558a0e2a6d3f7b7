//! Who is answered, under which id, how often and in which order.

use serde_json::{Value, json};

use super::{Pair, frame};
use crate::support::{
    editor::{Pending, RpcError},
    own,
};

/// Requests of a server are answered only by a test.
const ASKED: &str = "window/showMessageRequest";

fn ids() -> Vec<Value> {
    vec![
        json!("s-1"),
        json!(""),
        json!(0),
        json!(-5),
        json!(9_007_199_254_740_992_u64),
        json!(1),
        json!("1"),
        json!("ä\"\\\n😀"),
    ]
}

#[test]
fn editor_ids_keep_type_and_value() {
    let (pair, server) = Pair::started();
    let ask = |id: &Value| pair.editor.request_as(id.clone(), "textDocument/hover", json!({"id": id}));
    let asked: Vec<Pending> = ids().iter().map(ask).collect();
    let mut heard: Vec<Value> = asked.iter().map(|_| server.expect("textDocument/hover")).collect();
    heard.reverse();
    for request in &heard {
        server.answer(request, request["params"]["id"].clone());
    }
    for pending in &asked {
        assert_eq!(pair.editor.wait(pending), Ok(pending.id.clone()));
    }
    pair.end(&server);
}

#[test]
fn server_ids_keep_type_and_value() {
    let (pair, server) = Pair::started();
    for id in ids() {
        server.ask(id.clone(), ASKED, json!({"id": id}));
    }
    let mut asked: Vec<_> = ids().iter().map(|_| pair.editor.expect_request(ASKED)).collect();
    asked.reverse();
    for request in &asked {
        pair.editor.answer(request, Ok(request.params["id"].clone()));
    }
    for id in ids() {
        assert_eq!(server.expect_answer(id.clone())["result"], id);
    }
    pair.end(&server);
}

#[test]
fn duplicate_pending_id_is_refused_and_first_request_finishes() {
    let (pair, server) = Pair::started();
    let first = pair.editor.request_as(json!(5), "textDocument/hover", json!({}));
    let second = pair.editor.request_as(json!(5), "textDocument/definition", json!({}));
    let asked = server.expect("textDocument/hover");
    // The answers carry one id: the first to come is the refusal.
    assert_eq!(
        pair.editor.wait(&Pending { method: "textDocument/hover".into(), ..second }).unwrap_err().code,
        -32600
    );
    server.answer(&asked, json!("done"));
    let done = pair.editor.wait_transcript("the second answer", |entries| {
        entries.iter().find(|it| it.message["result"] == "done").map(|it| it.message["id"].clone())
    });
    assert_eq!(done, 5);
    assert_eq!(server.received_of("textDocument/definition"), [] as [Value; 0]);
    drop(first);
    // Free again.
    let third = pair.editor.request_as(json!(5), "textDocument/hover", json!({"third": true}));
    let asked = server.expect_where("textDocument/hover", |it| it["third"] == true);
    server.answer(&asked, json!(3));
    pair.editor.wait_transcript("the third answer", |entries| {
        entries.iter().any(|it| it.message["result"] == 3).then_some(())
    });
    drop(third);
    pair.end(&server);
}

#[test]
fn unexpected_answers_are_dropped() {
    let (pair, server) = Pair::started();
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let asked = server.expect("textDocument/hover");
    server.answer(&asked, json!("first"));
    server.answer(&asked, json!("second"));
    server.fail(&asked, json!({"code": 1, "message": "third"}));
    for id in [json!(4711), json!("4711"), json!(null), json!(-1), json!(asked["id"].to_string())] {
        server.answer(&json!({"id": id}), json!("unknown"));
    }
    assert_eq!(pair.editor.wait(&hover), Ok(json!("first")));
    // The same by the editor.
    server.ask("mine", ASKED, json!({}));
    let asked = pair.editor.expect_request(ASKED);
    pair.editor.answer(&asked, Ok(json!("first")));
    pair.editor.answer(&asked, Ok(json!("second")));
    pair.editor.raw_write(frame(&json!({"jsonrpc": "2.0", "id": "mine", "result": "unknown"})));
    assert_eq!(server.expect_answer("mine")["result"], "first");
    pair.check_alive(&server);
    let answers = server.received().iter().filter(|it| it["id"] == "mine").count();
    assert_eq!(answers, 1);
    pair.end(&server);
}

#[test]
fn errors_pass_unchanged_and_end_nothing() {
    let (pair, server) = Pair::started();
    for (code, data) in [(-32601, Value::Null), (-32803, json!({"x": [1, {"y": "ü"}]})), (7, json!("text"))]
    {
        let resolve = pair.editor.request("codeAction/resolve", json!({}));
        let asked = server.expect("codeAction/resolve");
        server.fail(&asked, json!({"code": code, "message": "no", "data": data}));
        let error = RpcError { code, message: "no".to_owned(), data };
        assert_eq!(pair.editor.wait(&resolve), Err(error.clone()));
        server.ask(1, ASKED, json!({}));
        let asked = pair.editor.expect_request(ASKED);
        pair.editor.answer(&asked, Err(error.clone()));
        assert_eq!(server.expect_answer(1)["error"]["code"], code);
    }
    pair.end(&server);
}

#[test]
fn cancelled_request_is_answered_exactly_once() {
    let (pair, server) = Pair::started();
    // In flight: the server decides.
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let asked = server.expect("textDocument/hover");
    pair.editor.cancel(&hover);
    pair.editor.cancel(&hover);
    assert_eq!(server.expect("$/cancelRequest")["params"]["id"], asked["id"]);
    server.fail(&asked, json!({"code": -32800, "message": "cancelled"}));
    assert_eq!(pair.editor.wait(&hover).unwrap_err().code, -32800);
    // An answer after the cancel, and a cancel after the answer.
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let asked = server.expect("textDocument/hover");
    pair.editor.cancel(&hover);
    // The cancel has passed before the answer comes the other way.
    pair.check_alive(&server);
    server.answer(&asked, json!("all the same"));
    assert_eq!(pair.editor.wait(&hover), Ok(json!("all the same")));
    pair.editor.cancel(&hover);
    pair.editor.notify("$/cancelRequest", json!({"id": "unknown"}));
    pair.editor.notify("$/cancelRequest", json!({}));
    pair.check_alive(&server);
    assert_eq!(server.received_of("$/cancelRequest").len(), 3);
    pair.end(&server);
}

#[test]
fn request_cancelled_before_server_is_ready_is_answered() {
    let (pair, server) = Pair::started();
    server.exit(1);
    let next = pair.host.accept();
    let asked = next.expect("initialize");
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let kept = pair.editor.request("textDocument/hover", json!({"kept": true}));
    pair.editor.cancel(&hover);
    assert_eq!(pair.editor.wait(&hover).unwrap_err().code, -32800);
    next.answer(&asked, json!({"capabilities": {}}));
    let asked = next.expect("textDocument/hover");
    assert_eq!(asked["params"]["kept"], true);
    next.answer(&asked, json!(1));
    assert_eq!(pair.editor.wait(&kept), Ok(json!(1)));
    pair.end(&next);
}

#[test]
fn server_cancels_its_request_under_id_of_editor() {
    let (pair, server) = Pair::started();
    server.ask(9, ASKED, json!({}));
    let asked = pair.editor.expect_request(ASKED);
    server.notify("$/cancelRequest", json!({"id": 9}));
    pair.editor.wait_notification("$/cancelRequest", |it| it["id"] == asked.id);
    pair.editor.answer(&asked, Err(RpcError::new(-32800, "cancelled")));
    assert_eq!(server.expect_answer(9)["error"]["code"], -32800);
    pair.end(&server);
}

#[test]
fn order_between_two_peers_is_kept() {
    let (pair, server) = Pair::started();
    let document = |version: u32| json!({"uri": "file:///x", "version": version});
    let item = json!({"uri": "file:///x", "languageId": "x", "version": 0, "text": ""});
    pair.editor.notify("textDocument/didOpen", json!({"textDocument": item}));
    let mut hovers = Vec::new();
    for version in 1..=500 {
        let change =
            json!({"textDocument": document(version), "contentChanges": [{"text": version.to_string()}]});
        pair.editor.notify("textDocument/didChange", change);
        hovers.push(pair.editor.request("textDocument/hover", json!({"version": version})));
    }
    server.on("textDocument/hover", |it| Ok(it["version"].clone()));
    for (hover, version) in hovers.iter().zip(1..) {
        assert_eq!(pair.editor.wait(hover), Ok(json!(version)));
    }
    let mut current = 0;
    for message in server.received() {
        match message["method"].as_str() {
            Some("textDocument/didChange") => {
                assert_eq!(message["params"]["textDocument"]["version"], current + 1);
                current += 1;
            }
            Some("textDocument/hover") => assert_eq!(message["params"]["version"], current),
            _ => {}
        }
    }
    assert_eq!(current, 500);
    // The other way.
    for n in 0..500 {
        server.notify("fake/note", json!(n));
    }
    let last = pair.editor.wait_notification("fake/note", |it| *it == 499);
    assert_eq!(last, 499);
    assert!(pair.editor.notifications("fake/note").iter().zip(0..).all(|(it, n)| *it == n));
    pair.end(&server);
}

#[test]
fn slow_request_delays_no_other() {
    let (pair, server) = Pair::started();
    let slow = pair.editor.request("textDocument/references", json!({}));
    let asked = server.expect("textDocument/references");
    pair.check_alive(&server);
    pair.editor.cancel(&slow);
    server.expect("$/cancelRequest");
    server.answer(&asked, json!([]));
    assert_eq!(pair.editor.wait(&slow), Ok(json!([])));
    pair.end(&server);
}

#[test]
fn server_may_send_before_answering_initialize() {
    let pair = Pair::new();
    let initialize = pair.initialize();
    let server = pair.host.accept();
    let asked = server.expect("initialize");
    server.notify("window/logMessage", json!({"type": 3, "message": "early"}));
    server.ask(0, "workspace/configuration", json!({"items": [{"section": "a"}]}));
    server.ask("0", "window/workDoneProgress/create", json!({"token": 0}));
    pair.editor.wait_notification("window/logMessage", |it| it["message"] == "early");
    let configuration = pair.editor.expect_request("workspace/configuration");
    let create = pair.editor.expect_request("window/workDoneProgress/create");
    pair.editor.answer(&create, Ok(Value::Null));
    pair.editor.answer(&configuration, Ok(json!(["value"])));
    assert_eq!(server.expect_answer(0)["result"], json!(["value"]));
    assert_eq!(server.expect_answer("0")["result"], Value::Null);
    assert_eq!(pair.editor.answer_to(&initialize), None);
    server.answer(&asked, json!({"capabilities": {}}));
    pair.editor.wait(&initialize).unwrap();
    pair.check_alive(&server);
    pair.end(&server);
}

#[test]
fn requests_before_initialize_are_refused() {
    let pair = Pair::new();
    assert_eq!(pair.editor.call("textDocument/hover", json!({})).unwrap_err().code, -32002);
    assert_eq!(pair.editor.call("shutdown", Value::Null).unwrap_err().code, -32002);
    pair.editor.notify("textDocument/didOpen", json!({}));
    let server = pair.handshake();
    assert_eq!(server.received_of("textDocument/didOpen"), [] as [Value; 0]);
    pair.check_alive(&server);
    pair.end(&server);
}

#[test]
fn messages_before_initialize_answer_are_not_lost() {
    let pair = Pair::new();
    let initialize = pair.initialize();
    let hover = pair.editor.request("textDocument/hover", json!({}));
    pair.editor.notify("fake/early", json!({}));
    let server = pair.host.accept();
    server.on("initialize", |_| Ok(json!({"capabilities": {}})));
    server.on("textDocument/hover", |_| Ok(json!(1)));
    assert_eq!(pair.editor.wait(&hover), Ok(json!(1)));
    pair.editor.wait(&initialize).unwrap();
    server.expect("fake/early");
    let methods: Vec<Value> = server.received().iter().map(|it| it["method"].clone()).collect();
    assert_eq!(methods, ["initialize", "textDocument/hover", "fake/early"]);
    pair.end(&server);
}

#[test]
fn cancelled_initialize_leaves_working_server() {
    let pair = Pair::new();
    let initialize = pair.initialize();
    pair.editor.cancel(&initialize);
    let server = pair.host.accept();
    server.on("initialize", |_| Ok(json!({"capabilities": {}})));
    assert_eq!(pair.editor.wait(&initialize), Ok(own::bare(pair.pid())));
    pair.check_alive(&server);
    pair.end(&server);
}

#[test]
fn second_initialize_is_refused_by_server() {
    let (pair, server) = Pair::started();
    let again = pair.initialize();
    let asked = server.expect("initialize");
    server.fail(&asked, json!({"code": -32600, "message": "again?"}));
    assert_eq!(pair.editor.wait(&again).unwrap_err().code, -32600);
    pair.check_alive(&server);
    pair.end(&server);
}

#[test]
fn requests_after_shutdown_are_refused() {
    let (pair, server) = Pair::started();
    let shutdown = pair.editor.request("shutdown", Value::Null);
    // Neither while the server thinks about it, nor later.
    let asked = server.expect("shutdown");
    assert_eq!(pair.editor.call("textDocument/hover", json!({})).unwrap_err().code, -32600);
    server.answer(&asked, Value::Null);
    assert_eq!(pair.editor.wait(&shutdown), Ok(Value::Null));
    assert_eq!(pair.editor.call("textDocument/hover", json!({})).unwrap_err().code, -32600);
    assert_eq!(pair.editor.call("shutdown", Value::Null).unwrap_err().code, -32600);
    pair.editor.notify("textDocument/didSave", json!({}));
    pair.editor.notify_bare("exit");
    server.expect("exit");
    server.exit(0);
    assert_eq!(pair.editor.wait_exit().code(), Some(0));
    assert_eq!(server.received_of("textDocument/hover"), [] as [Value; 0]);
}

#[test]
fn unknown_method_is_refused_by_server() {
    let (pair, server) = Pair::started();
    let strange = pair.editor.request("x/ünknown", json!([1, {"a": null}]));
    let asked = server.expect("x/ünknown");
    assert_eq!(asked["params"], json!([1, {"a": null}]));
    server.fail(&asked, json!({"code": -32601, "message": "unknown"}));
    assert_eq!(pair.editor.wait(&strange).unwrap_err().code, -32601);
    pair.end(&server);
}

#[test]
fn configuration_answer_has_one_value_per_section() {
    let (pair, server) = Pair::started();
    let items = json!({"items": [{"section": "x"}, {"section": "y"}, {"scopeUri": "file:///a"}]});
    let answers = [
        (Ok(json!([{"a": 1}, null, 3])), json!([{"a": 1}, null, 3])),
        (Ok(json!([{"a": 1}])), json!([{"a": 1}, null, null])),
        (Ok(json!([])), json!([null, null, null])),
        (Ok(json!({})), json!([null, null, null])),
        (Ok(Value::Null), json!([null, null, null])),
        (Ok(json!([1, 2, 3, 4])), json!([1, 2, 3])),
        (Err(RpcError::new(-32601, "no configuration")), json!([null, null, null])),
    ];
    for (n, (said, heard)) in answers.into_iter().enumerate() {
        server.ask(n, "workspace/configuration", items.clone());
        let asked = pair.editor.expect_request("workspace/configuration");
        pair.editor.answer(&asked, said);
        assert_eq!(server.expect_answer(n)["result"], heard);
    }
    pair.end(&server);
}

#[test]
fn server_may_ask_while_editor_waits() {
    let (pair, server) = Pair::started();
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let waiting = server.expect("textDocument/hover");
    // It answers only once it has been answered, in depth.
    for depth in 0..20 {
        server.ask(depth, "workspace/configuration", json!({"items": [{"section": depth.to_string()}]}));
        let asked = pair.editor.expect_request("workspace/configuration");
        pair.editor.answer(&asked, Ok(json!([asked.params["items"][0]["section"]])));
        assert_eq!(server.expect_answer(depth)["result"], json!([depth.to_string()]));
    }
    server.answer(&waiting, json!(1));
    assert_eq!(pair.editor.wait(&hover), Ok(json!(1)));
    pair.end(&server);
}

#[test]
fn registration_and_unregistration_carry_same_id() {
    let (pair, server) = Pair::started();
    pair.editor.on_request("client/registerCapability", |_| Ok(Value::Null));
    pair.editor.on_request("client/unregisterCapability", |_| Ok(Value::Null));
    let registration = json!({"id": "reg1", "method": "workspace/didChangeWatchedFiles", "registerOptions": {"watchers": []}});
    server.ask(1, "client/registerCapability", json!({"registrations": [registration]}));
    assert_eq!(server.expect_answer(1)["result"], Value::Null);
    let gone = json!({"unregisterations": [{"id": "reg1", "method": "workspace/didChangeWatchedFiles"}]});
    server.ask(2, "client/unregisterCapability", gone);
    assert_eq!(server.expect_answer(2)["result"], Value::Null);
    let told = pair.editor.wait_transcript("the unregistration", |entries| {
        let told = |method| {
            entries.iter().find(|it| it.method() == Some(method)).map(|it| it.message["params"].clone())
        };
        Some((told("client/registerCapability")?, told("client/unregisterCapability")?))
    });
    let (registered, unregistered) = told;
    assert_eq!(registered["registrations"][0]["id"], unregistered["unregisterations"][0]["id"]);
    pair.end(&server);
}

#[test]
fn progress_cancel_reaches_server_under_its_token() {
    let (pair, server) = Pair::started();
    pair.editor.on_request("window/workDoneProgress/create", |_| Ok(Value::Null));
    for (n, token) in [json!(1), json!("1"), json!("tok")].into_iter().enumerate() {
        server.ask(n, "window/workDoneProgress/create", json!({"token": token}));
        server.expect_answer(n);
        server.notify("$/progress", json!({"token": token, "value": {"kind": "begin", "title": "x"}}));
        pair.editor.wait_notification("$/progress", |it| it["token"] == token);
        pair.editor.notify("window/workDoneProgress/cancel", json!({"token": token}));
        let cancelled = server.expect("window/workDoneProgress/cancel");
        assert_eq!(cancelled["params"]["token"], token);
        server.notify("$/progress", json!({"token": token, "value": {"kind": "end"}}));
    }
    // A token that the server has never created.
    server.notify("$/progress", json!({"token": "stray", "value": {"kind": "report"}}));
    pair.editor.wait_notification("$/progress", |it| it["token"] == "stray");
    pair.end(&server);
}
