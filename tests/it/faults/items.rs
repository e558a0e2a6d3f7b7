//! Items that the editor holds of a process that is gone: the next one is not asked about them.

use serde_json::{Value, json};

use super::Pair;
use crate::support::puppet::Puppet;

fn ask(pair: &Pair, server: &Puppet, method: &str, uri: &str, answer: Value) {
    let pending = pair.editor.request(method, json!({"textDocument": {"uri": uri}}));
    let asked = server.expect(method);
    server.answer(&asked, answer.clone());
    assert_eq!(pair.editor.wait(&pending), Ok(answer));
}

/// Whether the server is asked about this item. It answers with the item, and `by` in it.
fn is_asked(pair: &Pair, server: &Puppet, method: &str, item: &Value) -> bool {
    let before = server.received_of(method).len();
    let answered = pair.editor.call(method, item.clone());
    let is_asked = server.received_of(method).len() > before;
    match answered {
        Ok(it) => assert_eq!(it["by"] == "the server", is_asked, "{method}: {it}"),
        Err(error) => assert_eq!((error.code, is_asked), (-32801, false), "{method}: {error}"),
    }
    is_asked
}

#[test]
fn items_of_dead_process_are_answered_without_its_successor() {
    let offered = json!({"capabilities": {}});
    let (pair, server) = Pair::started_as("", &json!({}), &offered);
    let kinds = [
        ("textDocument/completion", "completionItem/resolve"),
        ("textDocument/codeLens", "codeLens/resolve"),
        ("textDocument/inlayHint", "inlayHint/resolve"),
        ("textDocument/documentLink", "documentLink/resolve"),
        ("textDocument/codeAction", "codeAction/resolve"),
        ("textDocument/prepareCallHierarchy", "callHierarchy/incomingCalls"),
        ("textDocument/prepareTypeHierarchy", "typeHierarchy/supertypes"),
    ];
    let item = |of: u32, slot: u32| json!({"label": "l", "title": "t", "name": "n", "uri": "a", "range": {}, "data": {"of": of, "slot": slot}});
    let question = |method: &str, item: Value| match method.contains("Hierarchy") {
        true => json!({"item": item}),
        false => item,
    };
    for (made_by, _) in kinds {
        ask(&pair, &server, made_by, "a", json!([item(1, 0)]));
    }
    let (next, _) = pair.followed_as(&server, &offered);
    for (_, method) in kinds {
        next.on(method, |_| Ok(json!({"by": "the server"})));
        assert!(!is_asked(&pair, &next, method, &question(method, item(1, 0))), "{method}");
    }
    for (made_by, method) in kinds {
        // About another document.
        ask(&pair, &next, made_by, "b", json!([item(2, 0)]));
        assert!(!is_asked(&pair, &next, method, &question(method, item(1, 0))), "{method}");
        assert!(is_asked(&pair, &next, method, &question(method, item(2, 0))), "{method}");
    }
    // After a second death the same holds of the second process.
    let (last, _) = pair.followed_as(&next, &offered);
    for (made_by, method) in kinds {
        last.on(method, |_| Ok(json!({"by": "the server"})));
        ask(&pair, &last, made_by, "a", json!([item(3, 0)]));
        assert!(!is_asked(&pair, &last, method, &question(method, item(2, 0))), "{method}");
        assert!(is_asked(&pair, &last, method, &question(method, item(3, 0))), "{method}");
    }
    pair.end(&last);
}

#[test]
fn items_that_were_streamed_are_known_too() {
    let offered = json!({"capabilities": {}});
    let (pair, server) = Pair::started_as("", &json!({}), &offered);
    let item = |of: u32| json!({"label": "l", "data": of});
    ask(&pair, &server, "textDocument/completion", "a", json!([item(1)]));
    let (next, _) = pair.followed_as(&server, &offered);
    let params = json!({"textDocument": {"uri": "a"}, "partialResultToken": "p"});
    let pending = pair.editor.request("textDocument/completion", params);
    let asked = next.expect("textDocument/completion");
    next.notify("$/progress", json!({"token": "p", "value": [item(2)]}));
    next.notify("$/progress", json!({"token": "p", "value": {"items": [item(3)]}}));
    next.answer(&asked, json!([item(4)]));
    pair.editor.wait(&pending).unwrap();
    let resolve = "completionItem/resolve";
    next.on(resolve, |_| Ok(json!({"by": "the server"})));
    assert!(!is_asked(&pair, &next, resolve, &item(1)));
    for of in 2..5 {
        assert!(is_asked(&pair, &next, resolve, &item(of)), "{of}");
    }
    pair.end(&next);
}

#[test]
fn data_of_old_diagnostics_is_not_given_to_successor() {
    let offered = json!({"capabilities": {"codeActionProvider": true}});
    let (pair, server) = Pair::started_as("", &json!({}), &offered);
    let one = |of: u32| json!({"range": {}, "message": "m", "data": {"of": of}});
    let publish = |server: &Puppet, of: u32| {
        server.notify("textDocument/publishDiagnostics", json!({"uri": "a", "diagnostics": [one(of)]}));
        pair.editor
            .wait_notification("textDocument/publishDiagnostics", |it| it["diagnostics"][0] == one(of));
    };
    let shown = |server: &Puppet, of: u32| {
        let params = json!({"textDocument": {"uri": "a"}, "context": {"diagnostics": [one(of)]}});
        let pending = pair.editor.request("textDocument/codeAction", params);
        let asked = server.expect("textDocument/codeAction");
        server.answer(&asked, json!([]));
        pair.editor.wait(&pending).unwrap();
        asked["params"]["context"]["diagnostics"][0].clone()
    };
    publish(&server, 1);
    assert_eq!(shown(&server, 1), one(1));
    let (next, _) = pair.followed_as(&server, &offered);
    assert_eq!(shown(&next, 1), json!({"range": {}, "message": "m"}));
    publish(&next, 2);
    assert_eq!(shown(&next, 2), one(2));
    pair.end(&next);
}
