//! The configuration is read again while a group runs.

use serde_json::{Map, Value, json};

use super::{A, B, backend, documents, group, initialize, only, ready};
use crate::{
    config::ServerKind,
    core::tests::stage::{EDITOR, Stage, name},
};

const CHANGED: &str = "workspace/didChangeConfiguration";

fn settings(it: &Value) -> Map<String, Value> {
    it.as_object().unwrap().clone()
}

/// Settings of the second member.
fn set(it: &mut Stage, to: &Value) {
    it.group.as_mut().unwrap().others[0].server.settings = settings(to);
}

fn reload(it: &mut Stage, id: u32) -> Value {
    it.editor(json!({"id": id, "method": "lspool/reload"}));
    let told = it.take(EDITOR);
    told.iter().find(|it| it["id"] == id).unwrap_or_else(|| panic!("{told:?}")).clone()
}

/// A group of two, the second with these settings.
fn started(second: &Value) -> Stage {
    let mut it = group(&["a", "b"]);
    set(&mut it, second);
    opened(it, &json!({"workspace": {"configuration": true}}))
}

/// The same group with both members ready, for an editor with these capabilities.
fn opened(mut it: Stage, capabilities: &Value) -> Stage {
    initialize(&mut it, capabilities);
    ready(&mut it, A, &documents());
    ready(&mut it, B, &documents());
    it.editor(json!({"method": "initialized", "params": {}}));
    for peer in [backend(A), backend(B), EDITOR] {
        it.take(peer);
    }
    it
}

#[test]
fn changed_settings_are_sent_to_their_member_alone() {
    let mut it = started(&json!({"lint": {"select": ["E"]}}));
    let push = json!({"method": CHANGED, "params": {"settings": {"lint": {"line": 9}}}});
    it.editor(push);
    assert_eq!(only(&mut it, B)["params"]["settings"], json!({"lint": {"line": 9, "select": ["E"]}}));
    it.take(backend(A));

    assert_eq!(reload(&mut it, 1)["result"]["changed"], json!([]));
    assert!(it.told(B).is_empty(), "nothing has changed");

    set(&mut it, &json!({"lint": {"select": ["ALL"]}}));
    assert_eq!(reload(&mut it, 2)["result"]["changed"], json!(["settings"]));
    assert!(it.told(A).is_empty());
    let told = only(&mut it, B);
    assert_eq!(
        (name(&told).as_str(), &told["params"]["settings"]),
        (CHANGED, &json!({"lint": {"line": 9, "select": ["ALL"]}}))
    );

    // Those of the editor alone, and nothing of before.
    set(&mut it, &json!({}));
    reload(&mut it, 3);
    assert_eq!(only(&mut it, B)["params"]["settings"], json!({"lint": {"line": 9}}));
    assert!(it.terminated.is_empty(), "for that no process ends");
}

#[test]
fn next_process_gets_the_settings_of_the_last_reload() {
    let mut it = started(&json!({"x": 1}));
    set(&mut it, &json!({"x": 2}));
    reload(&mut it, 1);
    assert_eq!(only(&mut it, B)["params"]["settings"], json!({"x": 2}), "the editor has none");
    it.exited(B, crate::core::event::Exit::Signal(9));
    let again = super::process(1, 2);
    ready(&mut it, again, &documents());
    let told = it.take(backend(again));
    let push = told.iter().find(|it| name(it) == CHANGED).unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!(push["params"]["settings"], json!({"x": 2}));
}

/// A group of a plain server and a Copilot server, in this order or in the other.
fn with_copilot(first: &str, second: &str) -> Stage {
    let mut it = group(&[first, second]);
    match first == "copilot" {
        true => it.server.kind = Some(ServerKind::Copilot),
        false => it.group.as_mut().unwrap().others[0].server.kind = Some(ServerKind::Copilot),
    }
    opened(it, &json!({}))
}

#[test]
fn group_with_copilot_at_any_place_is_reloaded() {
    for (first, second, copilot) in [("a", "copilot", B), ("copilot", "a", A)] {
        let mut it = with_copilot(first, second);
        let answer = reload(&mut it, 1);
        assert_eq!(answer["result"], json!({"changed": []}), "{first}: {answer}");
        it.create(2, &json!({}));
        assert!(it.told(copilot).contains(&"conversation/create".to_owned()), "{first}");
    }
}

#[test]
fn settings_of_copilot_are_laid_over_those_of_the_editor() {
    for (first, second, copilot) in [("a", "copilot", B), ("copilot", "a", A)] {
        let mut it = with_copilot(first, second);
        let own = settings(&json!({"telemetry": {"telemetryLevel": "off"}}));
        match copilot == A {
            true => it.server.settings = own,
            false => it.group.as_mut().unwrap().others[0].server.settings = own,
        }
        reload(&mut it, 1);
        let pushed = |it: &mut Stage| {
            let told = it.take(backend(copilot));
            let all = told.iter().filter(|it| name(it) == CHANGED);
            all.map(|it| it["params"]["settings"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(pushed(&mut it), [json!({"telemetry": {"telemetryLevel": "off"}})], "{first}");
        it.editor(json!({"method": CHANGED, "params": {"settings": {"http": {"proxy": "p"}}}}));
        let all = json!({"http": {"proxy": "p"}, "telemetry": {"telemetryLevel": "off"}});
        assert_eq!(pushed(&mut it), [all], "{first}");
    }
}
