//! The session for the next process: exactly the editor's latest state.

use serde_json::{Value, json};

use super::{PUPPET, Pair, reviving::kill};
use crate::support::puppet::Puppet;

impl Pair {
    /// lspool and its first puppet, with this configuration, these parameters of `initialize`, and this answer.
    pub(super) fn started_as(config: &str, params: &Value, result: &Value) -> (Pair, Puppet) {
        let pair = Pair::with(config, &[PUPPET]);
        let mut all = json!({"processId": std::process::id(), "capabilities": {}});
        all.as_object_mut().expect("it is one").extend(params.as_object().expect("an object").clone());
        let initialize = pair.editor.request("initialize", all);
        let server = pair.host.accept();
        let asked = server.expect("initialize");
        server.answer(&asked, result.clone());
        pair.editor.wait(&initialize).expect("the puppet has said yes");
        pair.editor.notify("initialized", json!({}));
        server.expect("initialized");
        (pair, server)
    }

    /// The next process after its answer to `initialize`, with the parameters of that request.
    pub(super) fn followed_as(&self, server: &Puppet, result: &Value) -> (Puppet, Value) {
        kill(server);
        let next = self.host.accept();
        let asked = next.expect("initialize");
        next.answer(&asked, result.clone());
        next.expect("initialized");
        (next, asked["params"].clone())
    }
}

fn plain() -> Value {
    json!({"capabilities": {}})
}

/// The parameters of each message of this method; `null`: it has none.
fn told(puppet: &Puppet, method: &str) -> Vec<Value> {
    puppet.received_of(method).into_iter().map(|it| it["params"].clone()).collect()
}

#[test]
fn last_settings_are_repeated_as_written() {
    let configure = "workspace/didChangeConfiguration";
    let taken_out = json!({"settings": {"x": {"lint": false}}});
    let odd = [json!({"settings": {}}), json!({"settings": null}), json!({"settings": []}), json!({})];
    for settings in odd.into_iter().chain([taken_out, Value::Null]) {
        let (pair, server) = Pair::started_as("", &json!({}), &plain());
        pair.editor.notify(configure, json!({"settings": {"x": {"lint": true}, "y": 1}}));
        match settings.is_null() {
            true => pair.editor.notify_bare(configure),
            false => pair.editor.notify(configure, settings.clone()),
        }
        pair.check_alive(&server);
        let (next, _) = pair.followed_as(&server, &plain());
        pair.check_alive(&next);
        assert_eq!(told(&next, configure), [settings]);
        pair.end(&next);
    }
}

#[test]
fn successor_is_initialized_with_folders_as_they_are() {
    let folder = |it: &str| json!({"uri": format!("file:///w/{it}"), "name": it});
    let first = json!({"workspaceFolders": [folder("a"), folder("b")]});
    let (pair, server) = Pair::started_as("", &first, &plain());
    let method = "workspace/didChangeWorkspaceFolders";
    let change = |added: Value, removed: Value| {
        pair.editor.notify(method, json!({"event": {"added": added, "removed": removed}}));
    };
    let (next, params) = pair.followed_as(&server, &plain());
    assert_eq!(params["workspaceFolders"], first["workspaceFolders"]);
    change(json!([folder("z"), folder("c")]), json!([]));
    change(json!([]), json!([folder("a"), folder("z")]));
    change(json!([folder("a")]), json!([]));
    let renamed = json!({"uri": "file:///w/b", "name": "other"});
    change(json!([renamed]), json!([folder("b")]));
    pair.check_alive(&next);
    assert_eq!(told(&next, method).len(), 4);
    let (last, params) = pair.followed_as(&next, &plain());
    pair.check_alive(&last);
    assert_eq!(params["workspaceFolders"], json!([folder("c"), folder("a"), renamed]));
    assert_eq!(told(&last, method), [] as [Value; 0]);
    pair.end(&last);
}

#[test]
fn folder_added_during_restart_reaches_server_once() {
    let folder = |it: &str| json!({"uri": format!("file:///w/{it}"), "name": it});
    let (pair, server) = Pair::started_as("", &json!({"workspaceFolders": [folder("a")]}), &plain());
    kill(&server);
    let next = pair.host.accept();
    let asked = next.expect("initialize");
    let method = "workspace/didChangeWorkspaceFolders";
    pair.editor.notify(method, json!({"event": {"added": [folder("b")], "removed": []}}));
    let used = pair.editor.request_as(json!("x"), "textDocument/hover", json!({}));
    pair.editor.cancel(&used);
    assert_eq!(pair.editor.wait(&used).unwrap_err().code, -32800);
    next.answer(&asked, plain());
    pair.check_alive(&next);
    assert_eq!(told(&next, method), [json!({"event": {"added": [folder("b")], "removed": []}})]);
    pair.end(&next);
}

#[test]
fn text_is_mirrored_in_offset_encoding() {
    let offered = json!({"capabilities": {"textDocumentSync": 2}, "offsetEncoding": "utf-8"});
    let (pair, server) =
        Pair::started_as("", &json!({"capabilities": {"offsetEncoding": ["utf-8"]}}), &offered);
    let item = json!({"uri": "a", "languageId": "x", "version": 1, "text": "// °C 😀 x\n"});
    pair.editor.notify("textDocument/didOpen", json!({"textDocument": item}));
    let range = json!({"start": {"line": 0, "character": 12}, "end": {"line": 0, "character": 13}});
    let change = json!({"textDocument": {"uri": "a", "version": 2}, "contentChanges": [{"range": range, "text": "END"}]});
    pair.editor.notify("textDocument/didChange", change);
    pair.check_alive(&server);
    let (next, _) = pair.followed_as(&server, &offered);
    pair.check_alive(&next);
    assert_eq!(told(&next, "textDocument/didOpen")[0]["textDocument"]["text"], "// °C 😀 END\n");
    pair.end(&next);
}

#[test]
fn restart_repeats_messages_of_other_protocols_and_notifies_editor() {
    let wish = json!({"capabilities": {"experimental": {"lspool": {"didRestart": true}}}});
    let (pair, server) = Pair::started_as("", &wish, &plain());
    pair.editor.notify("my/other", json!({}));
    pair.editor.notify("json/schemaAssociations", json!({"a": ["b"]}));
    pair.editor.notify("solution/open", json!({"solution": "s"}));
    pair.check_alive(&server);
    assert_eq!(pair.editor.notifications("lspool/didRestart"), [] as [Value; 0]);
    let (next, _) = pair.followed_as(&server, &plain());
    let restart = pair.editor.wait_notification("lspool/didRestart", |_| true);
    assert_eq!(restart["generation"], 2);
    pair.check_alive(&next);
    assert_eq!(told(&next, "my/other"), [] as [Value; 0]);
    assert_eq!(told(&next, "json/schemaAssociations"), [json!({"a": ["b"]})]);
    assert_eq!(told(&next, "solution/open"), [json!({"solution": "s"})]);
    pair.end(&next);
}

#[test]
fn configured_methods_are_repeated_as_written_in_their_order() {
    let config = "[server.lspool-puppet]\nrepeat = [\"my/logIn\", \"my/enter\"]\n";
    let (pair, server) = Pair::started_as(config, &json!({}), &plain());
    pair.editor.notify("my/enter", json!({"n": 1}));
    pair.editor.notify("my/logIn", json!({"n": 2}));
    pair.editor.notify_bare("my/enter");
    pair.check_alive(&server);
    let (next, _) = pair.followed_as(&server, &plain());
    pair.check_alive(&next);
    assert_eq!(told(&next, "my/logIn"), [json!({"n": 2})]);
    assert_eq!(told(&next, "my/enter"), [Value::Null]);
    let order: Vec<Value> = next.received().iter().map(|it| it["method"].clone()).collect();
    let place = |method: &str| order.iter().position(|it| it == method);
    assert!(place("my/logIn") < place("my/enter"), "{order:?}");
    pair.end(&next);
}

#[test]
fn commands_that_only_the_successor_has_are_registered() {
    let offered = |it: &str| json!({"capabilities": {"executeCommandProvider": {"commands": [it, "same"]}}});
    let can = json!({"capabilities": {"workspace": {"executeCommand": {"dynamicRegistration": true}}}});
    let (pair, server) = Pair::started_as("", &can, &offered("1:fix"));
    pair.editor.hold_requests("client/registerCapability");
    let (next, _) = pair.followed_as(&server, &offered("2:fix"));
    let asked = pair.editor.expect_request("client/registerCapability");
    let [one] = &asked.params["registrations"].as_array().unwrap()[..] else { panic!("{:?}", asked.params) };
    assert_eq!(one["method"], "workspace/executeCommand");
    assert_eq!(one["registerOptions"], json!({"commands": ["2:fix"]}));
    pair.editor.answer(&asked, Ok(Value::Null));
    pair.end(&next);
}

#[test]
fn user_sees_message_when_successor_has_other_capabilities() {
    let legend =
        |it: &str| json!({"capabilities": {"semanticTokensProvider": {"legend": {"tokenTypes": [it]}}}});
    let (pair, server) = Pair::started_as("", &json!({}), &legend("class"));
    let (next, _) = pair.followed_as(&server, &legend("class"));
    pair.check_alive(&next);
    assert_eq!(pair.editor.notifications("window/showMessage"), [] as [Value; 0]);
    let (last, _) = pair.followed_as(&next, &legend("variable"));
    let said = pair.editor.wait_notification("window/showMessage", |_| true);
    assert!(said["message"].as_str().unwrap().contains("legend"), "{said}");
    pair.end(&last);
}

#[test]
fn editor_pulls_again_for_methods_in_any_spelling() {
    let refresh = json!({"refreshSupport": true});
    let can = json!({"inlayHint": refresh, "foldingRange": refresh, "inlineValue": refresh});
    let offered = json!({"capabilities": {"foldingRangeProvider": true, "inlineValueProvider": {}}});
    let (pair, server) = Pair::started_as("", &json!({"capabilities": {"workspace": can}}), &offered);
    pair.editor.on_request("client/registerCapability", |_| Ok(Value::Null));
    let register = br#"{"jsonrpc":"2.0","id":1,"method":"client\/registerCapability","params":{"registrations":[{"id":"i","method":"textDocument\/inlayHint"}]}}"#;
    server.write(super::framed(register));
    server.expect_answer(1);
    for kind in ["inlayHint", "foldingRange", "inlineValue"] {
        pair.editor.hold_requests(&format!("workspace/{kind}/refresh"));
    }
    let (next, _) = pair.followed_as(&server, &offered);
    for kind in ["inlayHint", "foldingRange", "inlineValue"] {
        let asked = pair.editor.expect_request(&format!("workspace/{kind}/refresh"));
        pair.editor.answer(&asked, Ok(Value::Null));
    }
    pair.end(&next);
}

/// A `didOpen` or `didChange` whose text is written as these bytes.
fn raw(method: &str, document: &str, text: &[u8]) -> Vec<u8> {
    let head = format!(
        r#"{{"jsonrpc":"2.0","method":"textDocument/{method}","params":{{"textDocument":{{"uri":"a",{document}"#
    );
    super::framed(&[head.as_bytes(), text, br#""}]}}"#].concat())
}

fn inserted(version: u32, (start, end): (u32, u32), text: &[u8]) -> Vec<u8> {
    let range = json!({"start": {"line": 0, "character": start}, "end": {"line": 0, "character": end}});
    raw("didChange", &format!(r#""version":{version}}},"contentChanges":[{{"range":{range},"text":""#), text)
}

#[test]
fn text_is_mirrored_when_edits_part_a_surrogate_pair() {
    let (pair, server) = Pair::started_as("", &json!({}), &plain());
    let item = json!({"uri": "a", "languageId": "x", "version": 1, "text": "one 😀b"});
    pair.editor.notify("textDocument/didOpen", json!({"textDocument": item}));
    pair.editor.raw_write(inserted(2, (5, 6), b""));
    pair.editor.raw_write(inserted(3, (5, 5), br"\ude00"));
    pair.editor.raw_write(inserted(4, (3, 3), br"\ud83d"));
    pair.editor.raw_write(inserted(5, (4, 4), br"\ude00"));
    pair.editor.raw_write(inserted(6, (0, 3), b"ONE"));
    // The puppet cannot read the half, but lspool has.
    pair.check_alive(&server);
    let (next, _) = pair.followed_as(&server, &plain());
    pair.check_alive(&next);
    let document = &told(&next, "textDocument/didOpen")[0]["textDocument"];
    assert_eq!((&document["text"], &document["version"]), (&json!("ONE😀 😀b"), &json!(6)));
    pair.end(&next);
}

#[test]
fn bytes_that_are_not_utf8_pass_both_ways_and_stay_in_the_text() {
    let (pair, server) = Pair::started_as("", &json!({}), &plain());
    let item = json!({"uri": "a", "languageId": "x", "version": 1, "text": "abc"});
    pair.editor.notify("textDocument/didOpen", json!({"textDocument": item}));
    pair.editor.raw_write(inserted(2, (0, 0), b"\xe9"));
    pair.editor.raw_write(inserted(3, (1, 4), b"ABC"));
    pair.check_alive(&server);
    let versions: Vec<Value> = told(&server, "textDocument/didChange")
        .iter()
        .map(|it| it["textDocument"]["version"].clone())
        .collect();
    assert_eq!(versions, [json!(2), json!(3)]);
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let asked = server.expect("textDocument/hover");
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":"caf"#, asked["id"]);
    server.write(super::framed(&[answer.as_bytes(), b"\xe9\"}"].concat()));
    assert_eq!(pair.editor.wait(&hover), Ok(json!("caf\u{fffd}")));
    let publish = br#"{"jsonrpc":"2.0","method":"textDocument/publishDiagnostics","params":{"uri":"a","diagnostics":[{"message":""#;
    server.write(super::framed(&[publish.as_slice(), b"\xe9\"}]}}"].concat()));
    pair.editor.wait_transcript("the bytes as they were", |all| {
        all.iter().find(|it| it.body().windows(3).any(|it| it == b"\"\xe9\"")).map(|_| ())
    });
    let (next, _) = pair.followed_as(&server, &plain());
    pair.check_alive(&next);
    assert_eq!(told(&next, "textDocument/didOpen")[0]["textDocument"]["text"], "\u{fffd}ABC");
    pair.end(&next);
}

#[test]
fn successor_is_not_given_a_root_that_was_removed() {
    let folder = |it: &str| json!({"uri": format!("file:///w/{it}"), "name": it});
    let first =
        json!({"rootUri": "file:///w/a", "rootPath": "/w/a", "workspaceFolders": [folder("a"), folder("b")]});
    let (pair, server) = Pair::started_as("", &first, &plain());
    let change = json!({"event": {"added": [], "removed": [folder("a")]}});
    pair.editor.notify("workspace/didChangeWorkspaceFolders", change);
    pair.check_alive(&server);
    let (next, params) = pair.followed_as(&server, &plain());
    assert_eq!((&params["rootUri"], &params["rootPath"]), (&json!("file:///w/b"), &json!("/w/b")));
    assert_eq!(params["workspaceFolders"], json!([folder("b")]));
    pair.end(&next);
}

#[test]
fn ids_and_methods_that_are_not_utf8_pass_unchanged() {
    let (pair, server) = Pair::started_as("", &json!({}), &plain());
    let raw = |id: &[u8], method: &[u8]| {
        let parts: [&[u8]; 5] =
            [br#"{"jsonrpc":"2.0","id":""#, id, br#"","method":""#, method, br#"","params":{}}"#];
        super::framed(&parts.concat())
    };
    let ids: [(&[u8], &[u8]); 2] = [(b"\xe9", b"caf\xe9"), (br"\ud83d", b"m\xff")];
    for (id, method) in ids {
        // The test itself reads what is no Unicode as this.
        let lossy = String::from_utf8_lossy(method).into_owned();
        let pending = pair.editor.asked(json!("\u{fffd}"), &lossy);
        pair.editor.raw_write(raw(id, method));
        let asked = server.expect(&lossy);
        server.answer(&asked, json!("answered"));
        assert_eq!(pair.editor.wait(&pending), Ok(json!("answered")));
        let as_written = [b"\"id\":\"", id, b"\""].concat();
        let has = |it: &[u8]| it.windows(as_written.len()).any(|it| it == as_written);
        assert!(pair.editor.transcript().iter().any(|it| has(it.body())), "{lossy}");
    }
    pair.end(&server);
}
