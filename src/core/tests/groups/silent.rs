//! Members that owe an answer and do not answer a probe.

use std::time::Duration;

use serde_json::{Value, json};

use super::{A, B, answer, ask, at, backend, documents, only, pair};
use crate::core::tests::stage::{EDITOR, Stage};

/// Time passes until the first member has been silent for too long.
fn be_silent(it: &mut Stage) {
    assert!(it.take(EDITOR).is_empty());
    it.pass(Duration::from_mins(1));
    assert_eq!(only(it, A)["method"], "$/lspool/ping");
    assert!(it.take(EDITOR).is_empty());
    it.pass(Duration::from_secs(11));
}

#[test]
fn save_does_not_wait_for_a_member_that_does_not_answer_a_probe() {
    let sync = json!({"textDocumentSync": {"openClose": true, "change": 2, "willSaveWaitUntil": true}});
    let mut it = pair(&sync);
    let params = json!({"textDocument": {"uri": "u"}, "reason": 1});
    ask(&mut it, 1, "textDocument/willSaveWaitUntil", &params);
    it.take(backend(A));
    let b = only(&mut it, B);
    let place = json!({"line": 0, "character": 0});
    let edit = json!({"range": {"start": place, "end": place}, "newText": "x"});
    answer(&mut it, B, &b, &json!([edit]));
    be_silent(&mut it);
    assert_eq!(it.take(EDITOR)[0]["result"], json!([edit]));
}

#[test]
fn nothing_is_the_answer_where_the_others_do_not_answer_a_probe() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    it.take(backend(A));
    let b = only(&mut it, B);
    answer(&mut it, B, &b, &Value::Null);
    be_silent(&mut it);
    assert_eq!(it.take(EDITOR)[0]["result"], Value::Null);
}

#[test]
fn member_that_does_not_answer_a_probe_is_waited_for_while_nobody_has_answered() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    it.pass(Duration::from_secs(71));
    assert!(it.take(EDITOR).is_empty());
    answer(&mut it, A, &a, &json!({"contents": "after all"}));
    assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "after all", "the other one is silent");
    drop(b);
}
