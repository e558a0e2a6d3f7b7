//! What becomes of parts that come late, or never.

use serde_json::{Value, json};

use super::*;

fn lens(title: &str) -> Value {
    let start = json!({"line": 0, "character": 0});
    json!({"range": {"start": start, "end": start}, "command": {"title": title, "command": title}})
}

/// Questions to both, of which the first is answered.
fn half_answered(it: &mut Stage, method: &str, params: &Value, result: &Value) -> Value {
    ask(it, 1, method, params);
    let (a, b) = (only(it, A), only(it, B));
    answer(it, A, &a, result);
    b
}

#[test]
fn actions_on_save_are_waited_for() {
    let action = |title: &str| json!([{"title": title, "kind": "source.fixAll"}]);
    for (only, waits) in
        [(json!(["source"]), true), (json!(["source.fixAll"]), true), (json!(["quickfix"]), false)]
    {
        let mut it = pair(&json!({"codeActionProvider": true}));
        let mut params = at("u");
        params["context"] = json!({"diagnostics": [], "only": only});
        let open = half_answered(&mut it, "textDocument/codeAction", &params, &action("a"));
        it.pass(Duration::from_secs(5));
        assert_eq!(it.take(EDITOR).is_empty(), waits, "{only}");
        if waits {
            answer(&mut it, B, &open, &action("b"));
            assert_eq!(it.take(EDITOR)[0]["result"].as_array().map(Vec::len), Some(2), "{only}");
        } else {
            assert_eq!(it.told(B), ["$/cancelRequest"]);
        }
    }
}

#[test]
fn editor_is_asked_to_ask_again_for_what_comes_late() {
    for (late, asks) in [(json!([lens("b")]), true), (json!([]), false)] {
        let mut it = group(&["a", "b"]);
        initialize(&mut it, &json!({"workspace": {"codeLens": {"refreshSupport": true}}}));
        for by in [A, B] {
            ready(&mut it, by, &json!({"codeLensProvider": {}}));
        }
        it.editor(json!({"method": "initialized", "params": {}}));
        for peer in [backend(A), backend(B), EDITOR] {
            it.take(peer);
        }
        let open = half_answered(&mut it, "textDocument/codeLens", &at("u"), &json!([lens("a")]));
        it.pass(Duration::from_secs(2));
        assert_eq!(it.take(EDITOR)[0]["result"].as_array().map(Vec::len), Some(1));
        assert!(it.told(B).is_empty(), "it may go on");
        answer(&mut it, B, &open, &late);
        it.pass(Duration::from_secs(1));
        let told: Vec<String> = it.take(EDITOR).iter().map(name).collect();
        assert_eq!(told, if asks { vec!["workspace/codeLens/refresh"] } else { Vec::new() });
    }
}

#[test]
fn text_of_a_scheme_comes_from_its_member() {
    let of = |scheme: &str| json!({"workspace": {"textDocumentContent": {"schemes": [scheme]}}});
    let mut it = pair_of(&of("jar"), &of("zip"));
    for (uri, by, other) in [("jar:/x", A, B), ("zip:/x", B, A)] {
        ask(&mut it, 1, "workspace/textDocumentContent", &json!({"uri": uri}));
        let asked = only(&mut it, by);
        answer(&mut it, by, &asked, &json!({"text": "t"}));
        assert_eq!((it.take(EDITOR)[0]["result"]["text"].clone(), it.told(other).len()), (json!("t"), 0));
    }
}

#[test]
fn member_that_has_failed_takes_its_diagnostics_with_it_and_is_told_once() {
    let mut it = pair(&documents());
    let start = json!({"line": 0, "character": 0});
    for (by, message) in [(A, "a"), (B, "b")] {
        let one = json!({"range": {"start": start, "end": start}, "message": message});
        let params = json!({"uri": "u", "diagnostics": [one]});
        it.server(by, json!({"method": "textDocument/publishDiagnostics", "params": params}));
        it.pass(Duration::from_secs(1));
    }
    it.take(EDITOR);
    let mut last = B;
    while it.spawned.contains(&last) {
        it.exited(last, Exit::Code(1));
        last.generation.0 += 1;
        assert!(last.generation.0 < 50, "it does not give up");
        for _ in 0..60 {
            if !it.spawned.contains(&last) {
                it.pass(Duration::from_secs(1));
            }
        }
    }
    let told = it.take(EDITOR);
    let messages: Vec<&Value> = told.iter().filter(|it| name(it) == "window/showMessageRequest").collect();
    let [message] = messages[..] else { panic!("{told:?}") };
    let actions: Vec<&Value> =
        message["params"]["actions"].as_array().unwrap().iter().map(|it| &it["title"]).collect();
    assert!(actions.contains(&&json!("Restart")), "{message}");
    let last = told.iter().rfind(|it| name(it) == "textDocument/publishDiagnostics").unwrap();
    let left: Vec<&Value> = last["params"]["diagnostics"].as_array().unwrap().iter().collect();
    assert_eq!(left.iter().map(|it| &it["message"]).collect::<Vec<_>>(), ["a"]);
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    let asked = only(&mut it, A);
    answer(&mut it, A, &asked, &json!({"contents": "c"}));
    assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "c", "nobody waits for it");
}
