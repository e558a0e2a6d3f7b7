//! Diagnostics of several members: pushed, pulled by the editor, and pulled by lspool.

use std::time::Duration;

use serde_json::{Value, json};

use super::{A, B, answer, ask, backend, documents, group, initialize, only, process, ready};
use crate::{
    core::{
        event::{Event, Exit, ProcessId},
        tests::stage::{EDITOR, Stage, name},
    },
    rpc::RawId,
};

const URI: &str = "file:///u";
const PULL: &str = "textDocument/diagnostic";

fn pulls() -> Value {
    json!({"textDocumentSync": 2, "diagnosticProvider": {"interFileDependencies": false, "workspaceDiagnostics": false}})
}

/// An editor that pulls, without registering that later.
fn puller() -> Value {
    json!({
        "textDocument": {"diagnostic": {"dynamicRegistration": false}},
        "workspace": {"diagnostics": {"refreshSupport": true}},
    })
}

/// A group of two of which the editor has opened a document.
fn opened(editor: &Value, a: &Value, b: &Value) -> Stage {
    opened_with(editor, a, b, |_| {})
}

fn opened_with(editor: &Value, a: &Value, b: &Value, set: impl FnOnce(&mut Stage)) -> Stage {
    let mut it = group(&["a", "b"]);
    set(&mut it);
    initialize(&mut it, editor);
    ready(&mut it, A, a);
    ready(&mut it, B, b);
    it.editor(json!({"method": "initialized", "params": {}}));
    let document = json!({"uri": URI, "languageId": "x", "version": 1, "text": "abc"});
    it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
    for peer in [backend(A), backend(B), EDITOR] {
        it.take(peer);
    }
    it
}

fn of(message: &str) -> Value {
    json!({"range": {"start": {"line": 0, "character": 0}}, "message": message})
}

fn full(id: Option<&str>, messages: &[&str]) -> Value {
    let items: Vec<Value> = messages.iter().map(|it| of(it)).collect();
    match id {
        Some(id) => json!({"kind": "full", "resultId": id, "items": items}),
        None => json!({"kind": "full", "items": items}),
    }
}

fn messages(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it["message"].as_str().unwrap()).collect()
}

/// The editor pulls.
fn pull(it: &mut Stage, id: u32, previous: Option<&Value>) {
    let mut params = json!({"textDocument": {"uri": URI}});
    if let Some(previous) = previous {
        params["previousResultId"] = previous.clone();
    }
    ask(it, id, PULL, &params);
}

fn fail(it: &mut Stage, by: ProcessId, asked: &Value, code: i32) {
    it.server(by, json!({"id": asked["id"], "error": {"code": code, "message": "busy"}}));
}

/// The only answer that the editor was given.
fn report(it: &mut Stage) -> Value {
    let mut told = it.take(EDITOR);
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["answer"], "{told:?}");
    told.pop().unwrap()["result"].clone()
}

fn publish(it: &mut Stage, by: ProcessId, messages: &[&str]) {
    let params = json!({"uri": URI, "version": 1, "diagnostics": full(None, messages)["items"]});
    it.server(by, json!({"method": "textDocument/publishDiagnostics", "params": params}));
}

/// The last list that the editor got, if any.
fn shown(it: &mut Stage) -> Option<Vec<String>> {
    let told = it.take(EDITOR);
    let last = told.iter().rfind(|it| name(it) == "textDocument/publishDiagnostics")?;
    assert_eq!(last["params"]["uri"], URI);
    Some(messages(&last["params"]["diagnostics"]).into_iter().map(str::to_owned).collect())
}

#[test]
fn pulled_reports_have_one_id_and_are_unchanged_together() {
    let mut it = opened(&puller(), &pulls(), &pulls());
    pull(&mut it, 1, None);
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, A, &a, &full(Some("x"), &["a"]));
    answer(&mut it, B, &b, &full(None, &["b"]));
    let first = report(&mut it);
    assert_eq!(messages(&first["items"]), ["a", "b"]);
    let id = &first["resultId"];
    assert!(id.as_str().unwrap().starts_with("lspool-"), "{first}");

    pull(&mut it, 2, Some(id));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    assert_eq!(a["params"]["previousResultId"], "x", "each has its own");
    assert_eq!(b["params"].get("previousResultId"), None);
    answer(&mut it, A, &a, &json!({"kind": "unchanged", "resultId": "y"}));
    answer(&mut it, B, &b, &full(None, &["b"]));
    assert_eq!(report(&mut it), json!({"kind": "unchanged", "resultId": id}), "equal bytes are unchanged");

    pull(&mut it, 3, Some(id));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    assert_eq!(a["params"]["previousResultId"], "y");
    answer(&mut it, A, &a, &json!({"kind": "unchanged", "resultId": "y"}));
    answer(&mut it, B, &b, &full(None, &[]));
    let last = report(&mut it);
    assert_eq!(
        (messages(&last["items"]), &last["kind"]),
        (vec!["a"], &json!("full")),
        "kept items of the unchanged"
    );
    assert_ne!(last["resultId"], *id);
}

#[test]
fn report_of_only_provider_is_passed_as_it_is() {
    let mut it = opened(&puller(), &pulls(), &documents());
    pull(&mut it, 1, Some(&json!("x")));
    let asked = only(&mut it, A);
    assert_eq!(asked["params"]["previousResultId"], "x");
    let said = json!({"kind": "full", "resultId": "y", "items": [], "more": 1});
    answer(&mut it, A, &asked, &said);
    assert_eq!(report(&mut it), said);
    pull(&mut it, 2, Some(&json!("lspool-3")));
    assert_eq!(only(&mut it, A)["params"].get("previousResultId"), None, "no member has given that");
}

#[test]
fn last_report_stands_in_for_failing_member_and_editor_is_asked_to_pull_again() {
    let mut it = opened(&puller(), &pulls(), &pulls());
    pull(&mut it, 1, None);
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, A, &a, &full(None, &["a"]));
    answer(&mut it, B, &b, &full(None, &["b"]));
    let id = report(&mut it)["resultId"].clone();
    // As often as a busy server needs, but not for ever.
    let mut refreshes = 0;
    for n in 0..9 {
        pull(&mut it, 2 + n, Some(&id));
        let (a, b) = (only(&mut it, A), only(&mut it, B));
        fail(&mut it, B, &b, -32802);
        answer(&mut it, A, &a, &full(None, &["a"]));
        assert_eq!(report(&mut it)["kind"], "unchanged");
        it.pass(Duration::from_secs(20));
        let told = it.take(EDITOR);
        refreshes += told.iter().filter(|it| it["method"] == "workspace/diagnostic/refresh").count();
        for asked in &told {
            it.editor(json!({"id": asked["id"], "result": null}));
        }
    }
    assert_eq!(refreshes, 5);
    pull(&mut it, 20, Some(&id));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, B, &b, &full(None, &["b", "c"]));
    answer(&mut it, A, &a, &full(None, &["a"]));
    assert_eq!(messages(&report(&mut it)["items"]), ["a", "b", "c"]);
}

#[test]
fn all_members_fail_and_nothing_is_known_that_is_an_error() {
    let mut it = opened(&puller(), &pulls(), &pulls());
    pull(&mut it, 1, None);
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    fail(&mut it, A, &a, -32802);
    fail(&mut it, B, &b, -32603);
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32802);
}

#[test]
fn late_report_is_kept_and_editor_is_asked_to_pull_again() {
    let mut it = opened(&puller(), &pulls(), &pulls());
    pull(&mut it, 1, None);
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, A, &a, &full(None, &["a"]));
    it.pass(Duration::from_secs(2));
    let first = report(&mut it);
    assert_eq!(messages(&first["items"]), ["a"]);
    answer(&mut it, B, &b, &full(None, &["b"]));
    it.pass(Duration::from_millis(50));
    let told = it.take(EDITOR);
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["workspace/diagnostic/refresh"]);
    pull(&mut it, 2, Some(&first["resultId"]));
    let (a, _) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, A, &a, &full(None, &["a"]));
    it.pass(Duration::from_secs(2));
    assert_eq!(messages(&report(&mut it)["items"]), ["a", "b"]);
}

#[test]
fn dead_members_report_stands_in_until_it_is_back_and_ids_of_the_dead_are_not_used() {
    let mut it = opened(&puller(), &pulls(), &pulls());
    pull(&mut it, 1, None);
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, A, &a, &full(Some("a1"), &["a"]));
    answer(&mut it, B, &b, &full(Some("b1"), &["b"]));
    let id = report(&mut it)["resultId"].clone();
    it.exited(B, Exit::Signal(9));
    pull(&mut it, 2, Some(&id));
    let a = only(&mut it, A);
    answer(&mut it, A, &a, &json!({"kind": "unchanged", "resultId": "a1"}));
    assert_eq!(report(&mut it)["kind"], "unchanged", "nothing vanishes because a member dies");

    let again = process(1, 2);
    ready(&mut it, again, &pulls());
    it.take(backend(again));
    let told = it.take(EDITOR);
    assert!(told.iter().any(|it| it["method"] == "workspace/diagnostic/refresh"), "{told:?}");
    pull(&mut it, 3, Some(&id));
    let (a, b) = (only(&mut it, A), only(&mut it, again));
    assert_eq!((&a["params"]["previousResultId"], b["params"].get("previousResultId")), (&json!("a1"), None));
    answer(&mut it, A, &a, &json!({"kind": "unchanged", "resultId": "a1"}));
    answer(&mut it, again, &b, &full(Some("b1"), &["c"]));
    let report = report(&mut it);
    assert_eq!(messages(&report["items"]), ["a", "c"]);
    it.pass(Duration::from_secs(6));
    pull(&mut it, 4, Some(&report["resultId"]));
    assert_eq!(only(&mut it, again)["params"]["previousResultId"], "b1");
}

#[test]
fn member_is_pulled_under_its_own_identifier_alone() {
    let editor = json!({"textDocument": {"diagnostic": {"dynamicRegistration": true}}});
    let mut it = opened(&editor, &documents(), &documents());
    let mut told = Vec::new();
    for by in [A, B] {
        let options = json!({"identifier": "lint", "interFileDependencies": false});
        let one = json!({"id": "d", "method": PULL, "registerOptions": options});
        it.server(
            by,
            json!({"id": 1, "method": "client/registerCapability", "params": {"registrations": [one]}}),
        );
        let asked = it.take(EDITOR).pop().unwrap();
        told.push(asked["params"]["registrations"][0]["registerOptions"]["identifier"].clone());
        it.editor(json!({"id": asked["id"], "result": null}));
        it.take(backend(by));
    }
    assert_eq!(told, ["lint", "lint@b"]);
    for (n, (by, other)) in (2..).zip([(A, B), (B, A)]) {
        let identifier = &told[n as usize - 2];
        let params = json!({"textDocument": {"uri": URI}, "identifier": identifier, "previousResultId": "p"});
        ask(&mut it, n, PULL, &params);
        let asked = only(&mut it, by);
        assert_eq!(
            (&asked["params"]["identifier"], &asked["params"]["previousResultId"]),
            (&json!("lint"), &json!("p"))
        );
        assert!(it.told(other).is_empty());
        let said = full(Some("q"), &["m"]);
        answer(&mut it, by, &asked, &said);
        assert_eq!(report(&mut it), said, "as it is");
    }
}

#[test]
fn member_that_never_publishes_is_pulled_for_an_editor_that_does_not() {
    let mut it = opened(&json!({}), &documents(), &pulls());
    publish(&mut it, A, &["a"]);
    assert_eq!(shown(&mut it), Some(vec!["a".to_owned()]));
    it.pass(Duration::from_millis(1999));
    assert!(it.told(B).is_empty(), "it may publish");
    it.pass(Duration::from_millis(1));
    let asked = only(&mut it, B);
    assert_eq!((&asked["method"], &asked["params"]), (&json!(PULL), &json!({"textDocument": {"uri": URI}})));
    assert!(it.told(A).is_empty());
    answer(&mut it, B, &asked, &full(Some("x"), &["b"]));
    assert_eq!(shown(&mut it), Some(vec!["a".to_owned(), "b".to_owned()]));

    // Again after a pause in the typing.
    for version in 2..5 {
        let document = json!({"uri": URI, "version": version});
        let changes = json!([{"text": "x"}]);
        it.editor(json!({"method": "textDocument/didChange", "params": {"textDocument": document, "contentChanges": changes}}));
        it.pass(Duration::from_millis(150));
    }
    assert_eq!(it.told(B), ["textDocument/didChange"; 3]);
    it.pass(Duration::from_millis(50));
    let asked = only(&mut it, B);
    assert_eq!(asked["params"]["previousResultId"], "x");
    answer(&mut it, B, &asked, &json!({"kind": "unchanged", "resultId": "x"}));
    assert_eq!(shown(&mut it), None);

    // At any time, and the answer is sent at once.
    it.server(B, json!({"id": 5, "method": "workspace/diagnostic/refresh"}));
    let told = it.take(backend(B));
    assert_eq!((told[0]["id"].clone(), told[0]["result"].clone()), (json!(5), Value::Null));
    it.pass(Duration::ZERO);
    let asked = only(&mut it, B);
    assert!(it.take(EDITOR).is_empty(), "the editor knows no such request");
    fail(&mut it, B, &asked, -32603);
    assert_eq!(shown(&mut it), None, "the last list stays");

    // Until it publishes something itself.
    it.pass(Duration::from_millis(10));
    publish(&mut it, B, &["c"]);
    assert_eq!(shown(&mut it), Some(vec!["a".to_owned(), "c".to_owned()]));
    it.editor(json!({"method": "textDocument/didSave", "params": {"textDocument": {"uri": URI}}}));
    it.pass(Duration::from_secs(5));
    assert!(!it.told(B).contains(&PULL.to_owned()));
}

#[test]
fn only_members_with_a_provider_are_looked_after() {
    for (a, is_looked_after) in [(pulls(), true), (json!({"textDocumentSync": 2}), false)] {
        let it = opened(&json!({}), &a, &json!({"textDocumentSync": 2}));
        let waits = it.core.poll_timeout().is_some_and(|(_, why)| why == "diagnostics are to be pulled");
        assert_eq!(waits, is_looked_after, "{a}");
    }
}

#[test]
fn pulled_list_goes_when_document_is_closed_and_successor_is_pulled_again() {
    let mut it = opened(&json!({}), &documents(), &pulls());
    it.pass(Duration::from_secs(2));
    let asked = only(&mut it, B);
    answer(&mut it, B, &asked, &full(None, &["b"]));
    assert_eq!(shown(&mut it), Some(vec!["b".to_owned()]));
    it.exited(B, Exit::Signal(9));
    let again = process(1, 2);
    ready(&mut it, again, &pulls());
    it.take(backend(again));
    it.pass(Duration::from_secs(2));
    assert_eq!(shown(&mut it), None, "it stays while its member comes back");
    let asked = only(&mut it, again);
    assert_eq!(asked["params"].get("previousResultId"), None);
    answer(&mut it, again, &asked, &full(None, &["b"]));
    it.pass(Duration::from_secs(10));
    assert_eq!(shown(&mut it), None, "nothing has changed");
    it.editor(json!({"method": "textDocument/didClose", "params": {"textDocument": {"uri": URI}}}));
    assert_eq!(shown(&mut it), Some(Vec::new()));
    it.pass(Duration::from_secs(5));
    assert_eq!(it.told(again), ["textDocument/didClose"]);
}

#[test]
fn silent_member_is_asked_once_at_a_time() {
    let mut it = opened(&json!({}), &documents(), &pulls());
    it.pass(Duration::from_secs(2));
    let first = only(&mut it, B);
    it.editor(json!({"method": "textDocument/didSave", "params": {"textDocument": {"uri": URI}}}));
    it.pass(Duration::from_secs(9));
    assert!(!it.told(B).contains(&PULL.to_owned()), "it owes an answer");
    answer(&mut it, B, &first, &full(None, &["b"]));
    it.pass(Duration::from_millis(200));
    assert_eq!(it.told(B), [PULL]);
}

#[test]
fn pull_whose_answer_cannot_be_read_is_asked_again_after_the_next_change() {
    let mut it = opened(&json!({}), &documents(), &pulls());
    it.pass(Duration::from_secs(2));
    let spoil = |it: &mut Stage, asked: &Value| {
        let id = RawId::from_raw(asked["id"].to_string().as_bytes()).unwrap();
        let reason = "no JSON".to_owned();
        it.event(Event::Malformed { peer: backend(B), id: Some((id, false)), reason });
    };
    let save = |it: &mut Stage| {
        it.editor(json!({"method": "textDocument/didSave", "params": {"textDocument": {"uri": URI}}}));
    };
    let asked = only(&mut it, B);
    spoil(&mut it, &asked);
    it.pass(Duration::from_secs(9));
    assert!(!it.told(B).contains(&PULL.to_owned()), "it would say the same");
    save(&mut it);
    it.pass(Duration::from_secs(1));
    let asked = it.take(backend(B)).pop().unwrap();
    assert_eq!(name(&asked), PULL);
    // It was changed meanwhile.
    save(&mut it);
    it.pass(Duration::from_secs(1));
    it.take(backend(B));
    spoil(&mut it, &asked);
    it.pass(Duration::from_secs(1));
    assert_eq!(it.told(B), [PULL]);
}

fn publish_at(it: &mut Stage, by: ProcessId, places: &[(u64, u64)]) {
    let at = |character: u64| json!({"line": 0, "character": character});
    let list = places
        .iter()
        .map(|(from, to)| json!({"range": {"start": at(*from), "end": at(*to)}, "message": "m"}));
    let params = json!({"uri": URI, "diagnostics": list.collect::<Value>()});
    it.server(by, json!({"method": "textDocument/publishDiagnostics", "params": params}));
}

/// Where the diagnostics of the last list begin and end.
fn places(it: &mut Stage) -> Vec<(u64, u64)> {
    let told = it.take(EDITOR).pop().unwrap();
    let number = |it: &Value, end: &str| it["range"][end]["character"].as_u64().unwrap();
    let list = told["params"]["diagnostics"].as_array().unwrap();
    list.iter().map(|it| (number(it, "start"), number(it, "end"))).collect()
}

fn change(it: &mut Stage, (from, to): (u64, u64), text: &str) {
    let at = |character: u64| json!({"line": 0, "character": character});
    let change = json!({"range": {"start": at(from), "end": at(to)}, "text": text});
    let params = json!({"textDocument": {"uri": URI, "version": 2}, "contentChanges": [change]});
    it.editor(json!({"method": "textDocument/didChange", "params": params}));
}

#[test]
fn list_of_a_silent_member_moves_along_with_the_edits() {
    let mut it = opened(&json!({}), &documents(), &documents());
    publish_at(&mut it, B, &[(0, 1), (2, 4), (6, 7)]);
    it.pass(Duration::from_millis(20));
    change(&mut it, (1, 1), "éé");
    publish_at(&mut it, A, &[(7, 8)]);
    it.take(backend(B));
    assert_eq!(places(&mut it), [(7, 8), (0, 1), (4, 6), (8, 9)]);
    // A later publication is about the new text, and a mark that an edit has replaced is gone.
    it.pass(Duration::from_millis(20));
    change(&mut it, (4, 6), "");
    publish_at(&mut it, A, &[(5, 6)]);
    assert_eq!(places(&mut it), [(5, 6), (0, 1), (6, 7)]);
    it.pass(Duration::from_millis(20));
    publish_at(&mut it, B, &[(3, 4)]);
    it.pass(Duration::from_millis(20));
    it.take(EDITOR);
    publish_at(&mut it, A, &[]);
    assert_eq!(places(&mut it), [(3, 4)]);
}

#[test]
fn diagnostics_that_have_moved_are_still_their_makers() {
    let mut actions = documents();
    actions["codeActionProvider"] = json!(true);
    let mut it = opened(&json!({}), &actions, &actions);
    publish_at(&mut it, B, &[(2, 4)]);
    change(&mut it, (0, 0), "xx");
    for by in [A, B] {
        it.take(backend(by));
    }
    let at = |character: u64| json!({"line": 0, "character": character});
    let moved = json!({"range": {"start": at(4), "end": at(6)}, "message": "m"});
    let params =
        json!({"textDocument": {"uri": URI}, "range": moved["range"], "context": {"diagnostics": [moved]}});
    ask(&mut it, 1, "textDocument/codeAction", &params);
    assert_eq!(only(&mut it, A)["params"]["context"]["diagnostics"], json!([]));
    assert_eq!(only(&mut it, B)["params"]["context"]["diagnostics"], json!([moved]));
}

#[test]
fn only_member_with_code_actions_is_told_its_own_diagnostics() {
    let mut actions = documents();
    actions["codeActionProvider"] = json!(true);
    let mut it = opened(&json!({}), &documents(), &actions);
    publish_at(&mut it, A, &[(0, 1)]);
    publish_at(&mut it, B, &[(1, 2)]);
    it.pass(Duration::from_millis(20));
    let all = it.take(EDITOR).pop().unwrap()["params"]["diagnostics"].clone();
    assert_eq!(all.as_array().map(Vec::len), Some(2));
    let params =
        json!({"textDocument": {"uri": URI}, "range": all[0]["range"], "context": {"diagnostics": all}});
    ask(&mut it, 1, "textDocument/codeAction", &params);
    assert_eq!(only(&mut it, B)["params"]["context"]["diagnostics"], json!([all[1]]));
}

#[test]
fn first_publication_waits_for_the_others_as_long_as_configured() {
    let wait = |it: &mut Stage| it.group.as_mut().unwrap().diagnostics_wait = Duration::from_secs(1);
    let mut it = opened_with(&json!({}), &documents(), &documents(), wait);
    for by in [A, B] {
        it.pass(Duration::from_millis(10));
        publish(&mut it, by, &["old"]);
    }
    shown(&mut it);
    let document = json!({"uri": URI, "version": 2});
    let changes = json!([{"text": "x"}]);
    it.editor(json!({"method": "textDocument/didChange", "params": {"textDocument": document, "contentChanges": changes}}));
    // Without a version it speaks of the text that the editor has.
    let params = json!({"uri": URI, "diagnostics": [of("a")]});
    it.server(A, json!({"method": "textDocument/publishDiagnostics", "params": params}));
    it.pass(Duration::from_millis(999));
    assert_eq!(shown(&mut it), None);
    it.pass(Duration::from_millis(1));
    assert_eq!(shown(&mut it), Some(vec!["a".to_owned(), "old".to_owned()]));
}

#[test]
fn first_publication_for_a_document_waits_for_all_that_know_it_once() {
    let wait = |it: &mut Stage| it.group.as_mut().unwrap().diagnostics_wait = Duration::from_secs(1);
    let mut it = opened_with(&json!({}), &documents(), &documents(), wait);
    publish(&mut it, A, &["a"]);
    it.pass(Duration::from_millis(500));
    assert_eq!(shown(&mut it), None, "the other has not spoken");
    publish(&mut it, B, &["b"]);
    it.pass(Duration::from_millis(10));
    assert_eq!(shown(&mut it), Some(vec!["a".to_owned(), "b".to_owned()]));
    // Who never speaks is waited for no more.
    let mut it = opened_with(&json!({}), &documents(), &documents(), wait);
    publish(&mut it, A, &["a"]);
    it.pass(Duration::from_secs(1));
    assert_eq!(shown(&mut it), Some(vec!["a".to_owned()]));
    let params = json!({"uri": URI, "version": 2, "diagnostics": [of("new")]});
    it.server(A, json!({"method": "textDocument/publishDiagnostics", "params": params}));
    assert_eq!(shown(&mut it), Some(vec!["new".to_owned()]));
}

#[test]
fn several_wishes_to_be_asked_again_are_one() {
    let editor = json!({"workspace": {"codeLens": {"refreshSupport": true}}});
    let mut it = opened(&editor, &documents(), &documents());
    for (n, by) in [(1, A), (2, B), (3, A)] {
        it.server(by, json!({"id": n, "method": "workspace/codeLens/refresh"}));
        assert_eq!(only(&mut it, by)["result"], Value::Null);
        it.server(by, json!({"id": n, "method": "workspace/inlayHint/refresh"}));
        assert_eq!(only(&mut it, by)["result"], Value::Null, "the editor knows none of these");
    }
    it.pass(Duration::from_secs(1));
    let told = it.take(EDITOR);
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["workspace/codeLens/refresh"]);
}

#[test]
fn list_older_than_an_empty_one_is_dropped_until_the_document_is_opened_again() {
    let mut it = opened(&json!({}), &documents(), &documents());
    let publish = |it: &mut Stage, version: u32, messages: &[&str]| {
        it.pass(Duration::from_secs(1));
        let list: Vec<Value> = messages.iter().map(|it| of(it)).collect();
        let params = json!({"uri": URI, "version": version, "diagnostics": list});
        it.server(A, json!({"method": "textDocument/publishDiagnostics", "params": params}));
        shown(it)
    };
    assert_eq!(publish(&mut it, 7, &[]), Some(vec![]));
    assert_eq!(publish(&mut it, 6, &["old"]), None);
    assert_eq!(publish(&mut it, 8, &["stays"]), Some(vec!["stays".to_owned()]));
    it.editor(json!({"method": "textDocument/didClose", "params": {"textDocument": {"uri": URI}}}));
    let document = json!({"uri": URI, "languageId": "x", "version": 1, "text": ""});
    it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
    assert_eq!(publish(&mut it, 1, &["new"]), Some(vec!["new".to_owned()]));
}
