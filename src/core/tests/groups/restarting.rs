//! Members that restart, while the editor asks.

use std::time::Duration;

use serde_json::{Value, json};

use super::{A, B, answer, ask, at, backend, documents, name, only, pair, pair_of, process, ready};
use crate::core::{
    event::{Exit, ProcessId},
    tests::stage::{EDITOR, Stage},
};

const HOVER: &str = "textDocument/hover";

/// A pair whose first member has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Its next process is to be started after a delay.
    Delay,
    /// Its next process has not answered `initialize`.
    Start,
}

const MOMENTS: [Moment; 2] = [Moment::Delay, Moment::Start];

/// The first member dies. Gives its next process.
fn kill(it: &mut Stage, moment: Moment, capabilities: &Value) -> ProcessId {
    it.exited(A, Exit::Signal(9));
    let next = process(0, 2);
    let next = match moment {
        Moment::Start => next,
        Moment::Delay => {
            ready(it, next, capabilities);
            it.take(backend(next));
            it.exited(next, Exit::Signal(9));
            let last = process(0, 3);
            assert!(it.take(backend(last)).is_empty(), "the second restart is delayed");
            last
        }
    };
    it.take(EDITOR);
    next
}

/// The next process of the first member starts, and gets the last of what it is told as a question.
fn restarted(it: &mut Stage, next: ProcessId, capabilities: &Value) -> Value {
    it.pass(Duration::from_secs(1));
    ready(it, next, capabilities);
    let told = it.take(backend(next));
    assert_eq!(name(&told[0]), "initialized", "{told:?}");
    told.last().unwrap().clone()
}

#[test]
fn restarting_member_is_waited_for_where_it_alone_can_answer() {
    for moment in MOMENTS {
        let mut it = pair_of(&documents(), &json!({}));
        let next = kill(&mut it, moment, &documents());
        ask(&mut it, 1, HOVER, &at("u"));
        let asked = restarted(&mut it, next, &documents());
        assert!(it.take(EDITOR).is_empty(), "{moment:?}");
        assert_eq!(asked["method"], HOVER, "{moment:?}");
        answer(&mut it, next, &asked, &json!({"contents": "of a"}));
        assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "of a", "{moment:?}");
        assert!(it.told(B).is_empty());
    }
}

#[test]
fn restarting_member_is_waited_for_where_another_has_nothing_to_say() {
    for moment in MOMENTS {
        let mut it = pair(&documents());
        let next = kill(&mut it, moment, &documents());
        ask(&mut it, 1, HOVER, &at("u"));
        let b = only(&mut it, B);
        answer(&mut it, B, &b, &Value::Null);
        let asked = restarted(&mut it, next, &documents());
        assert!(it.take(EDITOR).is_empty(), "{moment:?}");
        assert_eq!(asked["method"], HOVER, "{moment:?}");
        answer(&mut it, next, &asked, &json!({"contents": "of a"}));
        assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "of a", "{moment:?}");
    }
}

#[test]
fn restarting_member_is_waited_for_no_longer_than_a_slow_one() {
    let mut it = pair(&documents());
    let next = kill(&mut it, Moment::Start, &documents());
    ask(&mut it, 1, HOVER, &at("u"));
    let b = only(&mut it, B);
    answer(&mut it, B, &b, &json!({"contents": "of b"}));
    it.pass(Duration::from_millis(499));
    assert!(it.take(EDITOR).is_empty());
    it.pass(Duration::from_millis(2));
    assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "of b");
    ready(&mut it, next, &documents());
    assert_eq!(it.told(next), ["initialized"], "nobody waits for its hover");
}

#[test]
fn question_outlives_the_death_of_a_member_where_the_others_have_nothing_to_say() {
    let mut it = pair(&documents());
    ask(&mut it, 1, HOVER, &at("u"));
    let b = only(&mut it, B);
    it.take(backend(A));
    it.exited(A, Exit::Signal(9));
    answer(&mut it, B, &b, &Value::Null);
    assert!(it.take(EDITOR).is_empty());
    let next = process(0, 2);
    let asked = restarted(&mut it, next, &documents());
    answer(&mut it, next, &asked, &json!({"contents": "of a"}));
    assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "of a");
}

#[test]
fn best_member_renames_after_its_restart() {
    let renames = json!({"renameProvider": true});
    let mut it = pair(&renames);
    let next = kill(&mut it, Moment::Start, &renames);
    ask(&mut it, 1, "textDocument/rename", &at("u"));
    assert!(it.told(B).is_empty(), "another might rename less");
    assert_eq!(restarted(&mut it, next, &renames)["method"], "textDocument/rename");
}

#[test]
fn rename_is_prepared_for_a_member_that_restarts() {
    let renames = json!({"textDocumentSync": 2, "renameProvider": true});
    let mut it = pair_of(&renames, &json!({"textDocumentSync": 2}));
    let document = json!({"uri": "u", "languageId": "x", "version": 1, "text": "word"});
    it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
    kill(&mut it, Moment::Start, &renames);
    ask(&mut it, 1, "textDocument/prepareRename", &at("u"));
    assert_eq!(it.take(EDITOR)[0]["result"]["end"], json!({"line": 0, "character": 4}));
}

#[test]
fn unknown_method_is_asked_of_a_restarting_member_after_the_others() {
    let mut it = pair(&documents());
    let next = kill(&mut it, Moment::Start, &documents());
    ask(&mut it, 1, "own/thing", &json!({}));
    let b = only(&mut it, B);
    it.server(B, json!({"id": b["id"], "error": {"code": -32601, "message": "unknown"}}));
    let asked = restarted(&mut it, next, &documents());
    answer(&mut it, next, &asked, &json!(7));
    assert_eq!(it.take(EDITOR)[0]["result"], 7);
    // It is known now, and waited for.
    it.exited(next, Exit::Signal(9));
    it.take(EDITOR);
    ask(&mut it, 2, "own/thing", &json!({}));
    assert!(it.told(B).is_empty());
}

#[test]
fn pulled_diagnostics_do_not_wait_for_a_member_that_restarts() {
    let pulled = json!({"diagnosticProvider": {}, "textDocumentSync": 2});
    let mut it = pair(&pulled);
    kill(&mut it, Moment::Start, &pulled);
    ask(&mut it, 1, "textDocument/diagnostic", &json!({"textDocument": {"uri": "u"}}));
    let b = only(&mut it, B);
    answer(&mut it, B, &b, &json!({"kind": "full", "items": []}));
    assert_eq!(it.take(EDITOR)[0]["result"]["kind"], "full");
}
