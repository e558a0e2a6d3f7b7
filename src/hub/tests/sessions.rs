//! Single situations.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{Stage, about, change, hover, launch, open};
use crate::{
    config::ShareViews,
    core::event::{ClientId, Event, Exit, Launch, Remote},
    rpc::PathPair,
};

const A: &str = "file:///w/a";

fn two() -> Stage {
    let mut stage = Stage::new(ShareViews::Exact, json!({"textDocumentSync": 2}));
    stage.join(1);
    stage.join(2);
    stage.got(1);
    stage.got(2);
    stage.take_told();
    stage
}

/// The methods of some messages.
fn methods(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|it| it["method"].as_str().unwrap_or("answer")).collect()
}

fn id_of(told: &[Value], method: &str) -> Value {
    told.iter().find(|it| it["method"] == method).unwrap_or_else(|| panic!("{method} in {told:?}"))["id"]
        .clone()
}

#[test]
fn server_is_initialized_once_and_answers_both() {
    let mut stage = Stage::new(ShareViews::Exact, json!({"hoverProvider": true}));
    stage.join(1);
    stage.join(2);
    assert_eq!(methods(&stage.take_told()), ["initialized"]);
    for client in [1, 2] {
        let got = stage.got(client);
        assert_eq!(got[0]["result"]["server_pid"], 100, "{got:?}");
        assert_eq!(got[1]["result"]["capabilities"]["hoverProvider"], true, "{got:?}");
    }
}

/// The next client would wait for the same answer.
#[test]
fn server_that_does_not_answer_ends_with_the_last_client() {
    let mut stage = Stage::new(ShareViews::Exact, Value::Null);
    stage.join(1);
    stage.join(2);
    stage.leave(1);
    assert_eq!(stage.exit, None);
    stage.leave(2);
    assert_eq!(stage.exit, Some(0));
}

/// The hub knows documents by the paths of a server elsewhere.
#[test]
fn file_of_this_machine_is_read_for_a_document_elsewhere() {
    let paths = [("/home/w", "/app"), ("/same", "/same")];
    let paths = paths.map(|(local, remote)| PathPair { local: local.to_owned(), remote: remote.to_owned() });
    let remote = Some(Remote { paths: paths.to_vec(), ..Remote::default() });
    let launch = Launch { remote, ..launch(ShareViews::Exact) };
    let mut stage = Stage::of(launch, json!({"textDocumentSync": 2}));
    stage.join(1);
    for path in ["/app/a", "/same/b", "/usr/lib/c"] {
        stage.client(1, &open(&format!("file://{path}"), 1, "x"));
    }
    let reads: Vec<_> = stage.reads.iter().filter_map(|it| it.to_str()).collect();
    assert_eq!(reads, ["/home/w/a", "/same/b"]);
}

#[test]
fn client_with_another_key_is_refused() {
    let mut stage = two();
    let key = json!([["workspace", "/other"]]);
    stage.client(3, &json!({"id": 0, "method": "lspool/attach", "params": {"protocol": 1, "key": key}}));
    assert_eq!(stage.got(3)[0]["error"]["data"]["lspool"]["why"], "workspace differs");
    let key = json!([["workspace", "/w"]]);
    stage.client(4, &json!({"id": 0, "method": "lspool/attach", "params": {"protocol": 2, "key": key}}));
    assert_eq!(stage.got(4)[0]["error"]["data"]["lspool"]["why"], "the hub speaks protocol 1");
    assert_eq!(stage.hung_up, [ClientId(3), ClientId(4)]);
    stage.client(5, &hover(3, A));
    assert_eq!(stage.got(5)[0]["error"]["code"], -32002, "it has not attached");
}

#[test]
fn equal_texts_are_told_once_and_need_no_switch() {
    let mut stage = two();
    stage.client(1, &open(A, 1, "one"));
    stage.client(2, &open(A, 7, "one"));
    stage.client(1, &hover(10, A));
    stage.client(2, &hover(10, A));
    assert_eq!(
        methods(&stage.take_told()),
        ["textDocument/didOpen", "textDocument/hover", "textDocument/hover"]
    );
}

#[test]
fn request_is_asked_with_text_of_its_client() {
    let mut stage = two();
    stage.client(1, &open(A, 1, "one\n"));
    stage.client(2, &open(A, 1, "one\n"));
    stage.client(1, &change(A, 2, "one\nmine\n"));
    stage.client(2, &hover(10, A));
    let told = stage.take_told();
    let all =
        ["textDocument/didOpen", "textDocument/didChange", "textDocument/didChange", "textDocument/hover"];
    assert_eq!(methods(&told), all);
    let back = &told[2]["params"];
    assert_eq!(back["textDocument"]["version"], 3, "{back}");
    assert_eq!(back["contentChanges"][0]["text"], "", "the line is taken out: {back}");
}

#[test]
fn unsaved_text_of_another_is_closed_for_client_without_document() {
    let mut stage = two();
    stage.client(1, &open(A, 1, "one\n"));
    stage.client(1, &change(A, 2, "mine\n"));
    stage.client(2, &hover(10, A));
    let told = stage.take_told();
    assert_eq!(methods(&told)[2..], ["textDocument/didClose", "textDocument/hover"]);
    let answer = json!({"id": id_of(&told, "textDocument/hover"), "result": "of the file"});
    stage.server(&answer);
    assert_eq!(stage.got(2)[0]["result"], "of the file");
    stage.client(1, &hover(10, A));
    let told = stage.take_told();
    assert_eq!(methods(&told), ["textDocument/didOpen", "textDocument/hover"]);
    assert_eq!(told[0]["params"]["textDocument"]["text"], "mine\n");
}

#[test]
fn switch_waits_for_open_request_and_answer_across_it_is_not_used() {
    let mut stage = two();
    stage.client(1, &open(A, 1, "one\n"));
    stage.client(2, &open(A, 1, "one\n"));
    stage.client(1, &change(A, 2, "mine\n"));
    stage.client(1, &hover(10, A));
    let first = id_of(&stage.take_told(), "textDocument/hover");
    stage.client(2, &hover(20, A));
    assert_eq!(methods(&stage.take_told()), [] as [&str; 0], "it waits for the other");
    stage.wait(Duration::from_millis(250));
    let told = stage.take_told();
    assert_eq!(methods(&told), ["textDocument/didChange", "textDocument/hover"], "but not for ever");
    stage.server(&json!({"id": first, "result": "of a text of the other"}));
    assert_eq!(stage.got(1), [] as [Value; 0], "the answer is not used");
    stage.server(&json!({"id": id_of(&told, "textDocument/hover"), "result": "of its own text"}));
    assert_eq!(stage.got(2)[0]["result"], "of its own text");
    let told = stage.take_told();
    assert_eq!(methods(&told), ["textDocument/didChange", "textDocument/hover"], "asked again in its view");
    stage.server(&json!({"id": id_of(&told, "textDocument/hover"), "result": "mine"}));
    assert_eq!(stage.got(1)[0], json!({"jsonrpc": "2.0", "id": 10, "result": "mine"}));
}

#[test]
fn diagnostics_go_to_those_who_have_the_text_under_their_versions() {
    let mut stage = two();
    stage.client(1, &open(A, 1, "one\n"));
    stage.client(2, &open(A, 7, "one\n"));
    let publish = |version: i64| {
        let params = json!({"uri": A, "version": version, "diagnostics": []});
        json!({"method": "textDocument/publishDiagnostics", "params": params})
    };
    stage.server(&publish(1));
    assert_eq!(stage.got(1)[0]["params"]["version"], 1);
    assert_eq!(stage.got(2)[0]["params"]["version"], 7);
    stage.client(1, &change(A, 2, "mine\n"));
    stage.server(&publish(2));
    assert_eq!(stage.got(1)[0]["params"]["version"], 2);
    assert_eq!(stage.got(2), [] as [Value; 0]);
    // It gets its own when nobody asks.
    stage.client(2, &change(A, 8, "other\n"));
    stage.take_told();
    stage.wait(Duration::from_secs(1));
    assert_eq!(methods(&stage.take_told()), ["textDocument/didChange"]);
    stage.server(&publish(3));
    assert_eq!(stage.got(2)[0]["params"]["version"], 8);
    assert_eq!(stage.got(1), [] as [Value; 0]);
}

#[test]
fn versions_in_edits_are_those_of_the_client() {
    let mut stage = two();
    stage.client(1, &open(A, 1, "one\n"));
    stage.client(2, &open(A, 7, "one\n"));
    stage.client(
        2,
        &json!({"id": 10, "method": "textDocument/rename", "params": {"textDocument": {"uri": A}}}),
    );
    let told = stage.take_told();
    let edit = json!({"documentChanges": [{"textDocument": {"uri": A, "version": 1}, "edits": []}]});
    stage.server(&json!({"id": id_of(&told, "textDocument/rename"), "result": edit}));
    assert_eq!(stage.got(2)[0]["result"]["documentChanges"][0]["textDocument"]["version"], 7);
}

#[test]
fn edits_about_text_of_another_client_are_refused() {
    let mut stage = two();
    stage.client(1, &open(A, 1, "one\n"));
    stage.client(2, &open(A, 1, "one\n"));
    stage.client(
        1,
        &json!({"id": 10, "method": "textDocument/formatting", "params": {"textDocument": {"uri": A}}}),
    );
    stage.client(1, &json!({"id": 11, "method": "workspace/executeCommand", "params": {"command": "x"}}));
    let told = stage.take_told();
    stage.client(2, &change(A, 2, "other\n"));
    stage.take_told();
    stage.server(&json!({"id": id_of(&told, "textDocument/formatting"), "result": [{"newText": "x"}]}));
    assert_eq!(stage.got(1)[0]["error"]["code"], -32801);
    stage.server(&json!({"id": "e", "method": "workspace/applyEdit", "params": {"edit": {"changes": {}}}}));
    let why = json!({"applied": false, "failureReason": "the text has changed in another editor"});
    assert_eq!(stage.take_told()[0]["result"], why);
    stage.server(&json!({"id": id_of(&told, "workspace/executeCommand"), "result": 1}));
    assert_eq!(stage.got(1)[0]["result"], 1, "a command has its effect only once");
}

#[test]
fn message_about_document_of_another_client_does_no_harm() {
    let mut stage = two();
    stage.client(1, &open(A, 1, "one\n"));
    stage.take_told();
    stage.client(2, &about("textDocument/didClose", A));
    stage.client(2, &change(A, 2, "other\n"));
    assert_eq!(stage.take_told(), [] as [Value; 0]);
}

#[test]
fn change_of_file_is_told_once_for_all_and_each_time_for_one() {
    let mut stage = two();
    let changed = |kind: u8| json!({"method": "workspace/didChangeWatchedFiles", "params": {"changes": [{"uri": A, "type": kind}]}});
    for client in [1, 2] {
        stage.client(client, &changed(2));
    }
    assert_eq!(stage.take_told().len(), 1);
    for kind in [3, 1, 3, 2, 2] {
        stage.client(1, &changed(kind));
    }
    assert_eq!(stage.take_told().len(), 5);
}

#[test]
fn edit_of_server_goes_to_client_whose_command_runs() {
    let mut stage = two();
    stage.client(2, &json!({"id": 10, "method": "workspace/executeCommand", "params": {"command": "x"}}));
    stage.server(&json!({"id": "e", "method": "workspace/applyEdit", "params": {"edit": {"changes": {}}}}));
    assert_eq!(stage.got(1), [] as [Value; 0]);
    let asked = stage.got(2);
    stage.take_told();
    stage.client(2, &json!({"id": asked[0]["id"], "result": {"applied": true}}));
    assert_eq!(stage.take_told()[0], json!({"jsonrpc": "2.0", "id": "e", "result": {"applied": true}}));
}

#[test]
fn late_client_hears_of_registrations_progress_and_diagnostics() {
    let mut stage = Stage::new(ShareViews::Exact, json!({}));
    stage.join(1);
    stage.server(&json!({"id": 1, "method": "client/registerCapability",
        "params": {"registrations": [{"id": "r", "method": "m"}, {"id": "s", "method": "n"}]}}));
    stage.server(&json!({"id": 2, "method": "client/unregisterCapability",
        "params": {"unregisterations": [{"id": "s", "method": "n"}]}}));
    stage.server(&json!({"id": 3, "method": "window/workDoneProgress/create", "params": {"token": 1}}));
    for value in [
        json!({"kind": "begin", "title": "t"}),
        json!({"kind": "report", "percentage": 1}),
        json!({"kind": "report", "percentage": 2}),
    ] {
        stage.server(&json!({"method": "$/progress", "params": {"token": 1, "value": value}}));
    }
    stage.server(&json!({"method": "textDocument/publishDiagnostics",
        "params": {"uri": A, "diagnostics": [{"message": "m"}]}}));
    stage.join(2);
    let got = stage.got(2);
    let all = [
        "answer",
        "answer",
        "client/registerCapability",
        "window/workDoneProgress/create",
        "$/progress",
        "$/progress",
        "textDocument/publishDiagnostics",
    ];
    assert_eq!(methods(&got), all, "{got:?}");
    assert_eq!(got[2]["params"]["registrations"], json!([{"id": "r", "method": "m"}]));
    assert_eq!(got[5]["params"]["value"]["percentage"], 2);
}

#[test]
fn client_with_other_settings_is_sent_away() {
    let mut stage = Stage::new(ShareViews::Exact, json!({}));
    stage.join(1);
    let params = json!({"items": [{"section": "a"}, {"section": "b"}]});
    stage.server(&json!({"id": 1, "method": "workspace/configuration", "params": params}));
    let asked = stage.got(1);
    stage.client(1, &json!({"id": asked.last().unwrap()["id"], "result": [1, 2]}));
    for (client, result) in [(2, json!([1, 2])), (3, json!([1, 3]))] {
        stage.join(client);
        let got = stage.got(client);
        let asked = got.iter().find(|it| it["method"] == "workspace/configuration").unwrap();
        stage.client(client, &json!({"id": asked["id"], "result": result}));
    }
    assert_eq!(stage.got(2), [] as [Value; 0]);
    let detach = stage.got(3);
    assert_eq!(detach[0]["method"], "lspool/detach");
    assert_eq!(detach[0]["params"], json!({"why": "settings differ: b", "cause": "settings"}));
}

#[test]
fn warm_server_gets_settings_of_next_client() {
    let mut stage = Stage::new(ShareViews::Exact, json!({}));
    stage.join(1);
    let params = json!({"items": [{"section": "a"}]});
    let ask = json!({"id": 1, "method": "workspace/configuration", "params": params});
    stage.server(&ask);
    let asked = stage.got(1);
    stage.client(1, &json!({"id": asked.last().unwrap()["id"], "result": [1]}));
    stage.leave(1);
    stage.join(2);
    stage.take_told();
    let asked = stage.got(2);
    stage.client(2, &json!({"id": asked.last().unwrap()["id"], "result": [2]}));
    assert_eq!(methods(&stage.take_told()), ["workspace/didChangeConfiguration"]);
    stage.server(&ask);
    assert_eq!(methods(&stage.got(2)), ["workspace/configuration"], "the old answer is forgotten");
}

#[test]
fn two_who_differ_all_the_time_part() {
    let mut stage = two();
    stage.client(1, &open(A, 1, "one\n"));
    stage.client(2, &open(A, 1, "one\n"));
    stage.client(1, &change(A, 2, "mine\n"));
    for n in 0..30 {
        for client in [1, 2] {
            stage.client(client, &hover(10 + n, A));
            let told = stage.take_told();
            stage.server(&json!({"id": id_of(&told, "textDocument/hover"), "result": null}));
        }
    }
    let detached: Vec<_> = [1, 2].into_iter().flat_map(|it| stage.got(it)).collect();
    let detached: Vec<_> = detached.iter().filter(|it| it["method"] == "lspool/detach").collect();
    assert_eq!(detached.len(), 1);
    assert_eq!(
        detached[0]["params"],
        json!({"why": "two editors have unsaved changes: a", "cause": "texts"})
    );
}

#[test]
fn first_difference_parts_clients_where_views_are_private() {
    let mut stage = Stage::new(ShareViews::Private, json!({"textDocumentSync": 2}));
    stage.join(1);
    stage.join(2);
    stage.client(1, &open(A, 1, "one\n"));
    stage.client(2, &open(A, 1, "one\n"));
    stage.client(2, &hover(10, A));
    let told = stage.take_told();
    stage.server(&json!({"id": id_of(&told, "textDocument/hover"), "result": null}));
    stage.client(1, &change(A, 2, "mine\n"));
    stage.client(2, &hover(11, A));
    assert_eq!(methods(&stage.got(2)).last(), Some(&"lspool/detach"));
}

#[test]
fn death_of_server_is_told_to_all_and_ends_the_hub() {
    let mut stage = two();
    stage.client(1, &hover(10, A));
    let process = super::stage::PROCESS;
    stage.event(Event::Exited { process, exit: Exit::Signal(9), stderr: "boom".to_owned() });
    for client in [1, 2] {
        let params = json!({"exit": {"signal": 9}, "stderr": "boom"});
        assert_eq!(stage.got(client)[0]["params"], params);
    }
    assert_eq!((stage.hung_up.len(), stage.exit), (2, Some(0)));
}

#[test]
fn restart_by_one_client_is_told_to_all_and_ends_the_hub() {
    let mut stage = two();
    stage.client(1, &json!({"method": "lspool/restart"}));
    for client in [1, 2] {
        let got = stage.got(client);
        assert_eq!((&got[0]["method"], &got[0]["params"]["exit"]), (&json!("lspool/ended"), &Value::Null));
    }
    assert_eq!((stage.hung_up.len(), stage.exit), (2, Some(0)));
}

#[test]
fn client_that_leaves_takes_its_requests_and_documents_with_it() {
    let mut stage = two();
    stage.client(1, &open(A, 1, "one\n"));
    stage.client(1, &hover(10, A));
    stage.server(
        &json!({"id": "c", "method": "workspace/configuration", "params": {"items": [{"section": "x"}]}}),
    );
    stage.take_told();
    stage.leave(1);
    assert_eq!(methods(&stage.take_told()), ["$/cancelRequest", "textDocument/didClose"]);
    assert_eq!(methods(&stage.got(2)), ["workspace/configuration"], "the next one is asked");
    stage.leave(2);
    assert_eq!(stage.take_told()[0], json!({"jsonrpc": "2.0", "id": "c", "result": [null]}));
    stage.wait(Duration::from_secs(59));
    assert_eq!(stage.exit, None);
    stage.wait(Duration::from_secs(1));
    assert_eq!(stage.exit, Some(0));
}

#[test]
fn progress_of_a_request_goes_to_its_client_under_its_token() {
    let mut stage = two();
    let params = json!({"textDocument": {"uri": A}, "workDoneToken": 5, "partialResultToken": "p"});
    stage.client(2, &json!({"id": 10, "method": "textDocument/references", "params": params}));
    let told = stage.take_told();
    let token = told[0]["params"]["workDoneToken"].clone();
    assert_ne!(token, json!(5));
    assert_eq!(told[0]["params"]["partialResultToken"], json!(null), "parts could be about other texts");
    stage.server(&json!({"method": "$/progress", "params": {"token": token, "value": {"kind": "begin"}}}));
    assert_eq!(stage.got(2)[0]["params"], json!({"token": 5, "value": {"kind": "begin"}}));
    assert_eq!(stage.got(1), [] as [Value; 0]);
    stage.client(2, &json!({"method": "window/workDoneProgress/cancel", "params": {"token": 5}}));
    assert_eq!(stage.take_told()[0]["params"]["token"], token);
}
