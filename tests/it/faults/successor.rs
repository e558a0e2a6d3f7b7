//! A process that took the place of another and offers something else: the editor goes on as it has begun.

use serde_json::{Value, json};

use super::Pair;

fn told(puppet: &crate::support::puppet::Puppet, method: &str) -> Vec<Value> {
    puppet.received_of(method).into_iter().map(|it| it["params"].clone()).collect()
}

#[test]
fn successor_that_takes_whole_texts_gets_them() {
    let sync = |kind: u8| json!({"capabilities": {"textDocumentSync": kind}});
    let (pair, server) = Pair::started_as("", &json!({}), &sync(2));
    let item = json!({"uri": "a", "languageId": "x", "version": 1, "text": "one two"});
    pair.editor.notify("textDocument/didOpen", json!({"textDocument": item}));
    let change = |version: u32, (start, end): (u32, u32), text: &str| {
        let range = json!({"start": {"line": 0, "character": start}, "end": {"line": 0, "character": end}});
        let document = json!({"uri": "a", "version": version});
        let changes = json!([{"range": range, "text": text}]);
        pair.editor
            .notify("textDocument/didChange", json!({"textDocument": document, "contentChanges": changes}));
    };
    change(2, (0, 3), "1");
    pair.check_alive(&server);
    assert!(told(&server, "textDocument/didChange")[0]["contentChanges"][0]["range"].is_object());
    let (next, _) = pair.followed_as(&server, &sync(1));
    change(3, (2, 5), "2");
    change(4, (0, 0), "0 ");
    pair.check_alive(&next);
    let changes = told(&next, "textDocument/didChange");
    let all: Vec<_> =
        changes.iter().map(|it| (&it["textDocument"]["version"], &it["contentChanges"])).collect();
    assert_eq!(all, [(&json!(3), &json!([{"text": "1 2"}])), (&json!(4), &json!([{"text": "0 1 2"}]))]);
    assert_eq!(pair.editor.notifications("window/showMessage"), [] as [Value; 0], "it is bridged");
    pair.end(&next);
}

#[test]
fn tokens_of_successor_are_told_in_the_first_legend() {
    let offered = |types: [&str; 2]| {
        let legend = json!({"tokenTypes": types, "tokenModifiers": []});
        json!({"capabilities": {"semanticTokensProvider": {"legend": legend, "full": {"delta": true}}}})
    };
    let (pair, server) = Pair::started_as("", &json!({}), &offered(["class", "variable"]));
    let (next, _) = pair.followed_as(&server, &offered(["variable", "class"]));
    let document = json!({"uri": "a"});
    for (method, more) in [
        ("textDocument/semanticTokens/full", json!({})),
        ("textDocument/semanticTokens/full/delta", json!({"previousResultId": "2"})),
    ] {
        let mut params = json!({"textDocument": document});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let tokens = pair.editor.request(method, params);
        let asked = next.expect("textDocument/semanticTokens/full");
        next.answer(&asked, json!({"resultId": "2", "data": [0, 1, 2, 0, 0, 1, 1, 2, 1, 0]}));
        let expected = json!({"resultId": "2", "data": [0, 1, 2, 1, 0, 1, 1, 2, 0, 0]});
        assert_eq!(pair.editor.wait(&tokens), Ok(expected), "{method}");
    }
    pair.end(&next);
}

#[test]
fn requests_that_successor_does_not_know_find_nothing() {
    let first = json!({"capabilities": {"definitionProvider": true, "completionProvider": {"resolveProvider": true}}});
    let (pair, server) = Pair::started_as("", &json!({}), &first);
    let (next, _) = pair.followed_as(&server, &json!({"capabilities": {"completionProvider": {}}}));
    let unknown = || Err(json!({"code": -32601, "message": "unknown method"}));
    for method in ["textDocument/definition", "completionItem/resolve", "my/method"] {
        next.on(method, move |_| unknown());
    }
    assert_eq!(pair.editor.ok("textDocument/definition", json!({})), Value::Null);
    let items = pair.editor.request("textDocument/completion", json!({}));
    let asked = next.expect("textDocument/completion");
    next.answer(&asked, json!([{"label": "l"}]));
    pair.editor.wait(&items).unwrap();
    assert_eq!(pair.editor.ok("completionItem/resolve", json!({"label": "l"})), json!({"label": "l"}));
    assert_eq!(pair.editor.call("my/method", json!({})).unwrap_err().code, -32601);
    pair.end(&next);
}

#[test]
fn progress_that_outlives_its_answer_ends_with_its_process() {
    let (pair, server) = Pair::started();
    let command =
        pair.editor.request("workspace/executeCommand", json!({"command": "x", "workDoneToken": "w"}));
    let asked = server.expect("workspace/executeCommand");
    server.notify("$/progress", json!({"token": "w", "value": {"kind": "begin", "title": "t"}}));
    server.answer(&asked, Value::Null);
    pair.editor.wait(&command).unwrap();
    pair.editor.hold_requests("window/workDoneProgress/create");
    server.ask(1, "window/workDoneProgress/create", json!({"token": "created"}));
    let create = pair.editor.expect_request("window/workDoneProgress/create");
    pair.editor.answer(&create, Ok(Value::Null));
    server.expect_answer(1);
    super::reviving::kill(&server);
    for token in ["w", "created"] {
        pair.editor
            .wait_notification("$/progress", |it| it["token"] == token && it["value"]["kind"] == "end");
    }
    let next = pair.successor();
    pair.check_alive(&next);
    pair.end(&next);
}

#[test]
fn server_that_closes_stdout_has_broken_its_stream() {
    let (pair, server) = Pair::started();
    let command = pair.editor.request("workspace/executeCommand", json!({"command": "x"}));
    server.expect("workspace/executeCommand");
    server.close_stdout();
    let error = pair.editor.wait(&command).unwrap_err();
    assert_eq!(error.data["lspool"]["cause"], "transport", "{error}");
    assert!(error.message.contains("closed its stdout"), "{error}");
    let next = pair.successor();
    pair.end(&next);
}

#[test]
fn restarted_server_finds_its_folder_again_or_starts_at_home() {
    let folders = tempfile::tempdir().unwrap();
    let folder = folders.path().canonicalize().unwrap().join("tree");
    std::fs::create_dir(&folder).unwrap();
    let pair = Pair::spawned("", &[super::PUPPET], |lspool| {
        lspool.current_dir(&folder);
    });
    let server = pair.handshake();
    let place = |pid: u32| std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert_eq!(place(server.pid), folder);
    std::fs::remove_dir(&folder).unwrap();
    std::fs::create_dir(&folder).unwrap();
    super::reviving::kill(&server);
    let next = pair.successor();
    assert_eq!(place(next.pid), folder, "it was made again");
    let of_folder = |it: &Value| it["message"].as_str().is_some_and(|it| it.contains("working folder"));
    assert!(!pair.editor.notifications("window/showMessage").iter().any(of_folder));
    std::fs::remove_dir(&folder).unwrap();
    super::reviving::kill(&next);
    let last = pair.successor();
    assert_eq!(place(last.pid), pair.sandbox.home().canonicalize().unwrap());
    let said = pair.editor.wait_notification("window/showMessage", of_folder);
    assert!(said["message"].as_str().unwrap().contains(&*folder.to_string_lossy()), "{said}");
    pair.end(&last);
}

#[test]
fn server_that_writes_to_stderr_may_take_long_to_start() {
    let script =
        format!("for n in 1 2 3 4 5 6 7 8; do echo importing $n >&2; sleep 1; done; exec {}", super::PUPPET);
    let config =
        format!("[server.slow]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\nstartup_timeout = \"5s\"\n");
    let pair = Pair::with(&config, &[]);
    let server = pair.handshake();
    pair.check_alive(&server);
    pair.end(&server);
}
