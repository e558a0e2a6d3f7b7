//! What people complain about in editors and proxies that ask several servers: each with the test that shows it does not
//! happen here. Those without one elsewhere are in this file.
//!
//! | complaint | test |
//! |---|---|
//! | the second server never starts, or is asked what it cannot answer | `routing_is_by_ability_and_not_by_order` |
//! | hover asks only the first server, and `null` ends it | `hover_of_two_members_is_one_answer`, `empty_and_error_are_not_answers_while_another_has_one` |
//! | completions appear when the slowest server has answered | `completions_do_not_wait_for_a_slow_member_and_say_that_they_are_incomplete` |
//! | the same completion, reference, hint twice | `what_two_members_say_alike_is_there_once` |
//! | diagnostics overwrite one another, flicker, vanish | `diagnostics_of_members_are_shown_together`, `diagnostics_are_never_emptied_in_between`, and the tests of `diagnostics` |
//! | mixed encodings: warnings, wrong columns | `super::encodings` |
//! | which server formats? it differs each time | `best_member_formats_each_time_though_it_has_nothing_to_do`, `order_says_who_formats` |
//! | settings for one server reach the other | `options_and_settings_are_for_one_member` |
//! | `null` or a string among code actions kills the proxy | `odd_elements_are_left_out_and_the_rest_is_the_answer` |
//! | commands are not passed, or to the wrong server | `command_goes_to_the_member_that_offers_it`, `commands_in_items_have_the_names_that_lead_to_their_maker`, `command_that_nobody_offers_goes_to_the_maker_of_the_last_item_with_it` |
//! | rename works only with the first server | `rename_goes_to_the_member_that_prepared_it_until_the_document_changes`, `member_that_renames_without_preparing_does_so_where_the_others_cannot` |
//! | tokens of two servers: one wins by chance | `tokens_of_two_members_are_under_one_legend` |
//! | Vue, TypeScript and Tailwind together | `server_of_vue_asks_the_typescript_server`, and with the real servers `vue_and_typescript_are_one_server_real` |
//! | hide one feature of one server; which server said this? | `member_is_used_only_for_the_features_that_it_may_be_used_for`, `diagnostics_keep_what_says_whose_they_are` |
//! | two definitions become an object | `definitions_of_two_members_are_a_list` |

use std::time::Duration;

use serde_json::{Value, json};

use super::{A, B, C, answer, ask, at, backend, documents, group, initialize, only, pair, pair_of, ready};
use crate::core::tests::stage::{EDITOR, Stage, name};

/// The result of the only answer that the editor has got.
fn result(it: &mut Stage) -> Value {
    let mut told = it.take(EDITOR);
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["answer"], "{told:?}");
    told.pop().unwrap()["result"].take()
}

/// Items without what lspool keeps in them.
fn bare(told: &Value) -> Value {
    let list = told["items"].as_array().or_else(|| told.as_array()).unwrap_or_else(|| panic!("{told}"));
    let mut list = list.clone();
    for item in &mut list {
        item.as_object_mut().unwrap().remove("data");
    }
    list.into()
}

/// What both say to a question.
fn both(it: &mut Stage, method: &str, first: &Value, second: &Value) -> Value {
    ask(it, 1, method, &at("file:///u"));
    let (a, b) = (only(it, A), only(it, B));
    answer(it, A, &a, first);
    answer(it, B, &b, second);
    result(it)
}

fn range(line: u32) -> Value {
    json!({"start": {"line": line, "character": 0}, "end": {"line": line, "character": 3}})
}

fn location(uri: &str, line: u32) -> Value {
    json!({"uri": uri, "range": range(line)})
}

#[test]
fn routing_is_by_ability_and_not_by_order() {
    let mut it = group(&["a", "b", "c"]);
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &json!({"hoverProvider": true}));
    ready(&mut it, B, &json!({"referencesProvider": true}));
    ready(&mut it, C, &json!({"documentFormattingProvider": {}, "renameProvider": false}));
    it.editor(json!({"method": "initialized", "params": {}}));
    let all = [A, B, C];
    for by in all {
        it.take(backend(by));
    }
    it.take(EDITOR);
    for (id, method, able) in
        [(1, "textDocument/references", B), (2, "textDocument/formatting", C), (3, "textDocument/hover", A)]
    {
        ask(&mut it, id, method, &at("u"));
        for by in all {
            assert_eq!(it.told(by).len(), usize::from(by == able), "{method} by {by:?}");
        }
    }
    ask(&mut it, 4, "textDocument/rename", &at("u"));
    assert!(all.iter().all(|by| it.told(*by).is_empty()), "nobody can");
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32601);
}

#[test]
fn completions_do_not_wait_for_a_slow_member_and_say_that_they_are_incomplete() {
    let mut it = pair(&documents());
    ask(&mut it, 1, "textDocument/completion", &at("u"));
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, B, &b, &json!({"isIncomplete": false, "items": [{"label": "b"}]}));
    it.pass(Duration::from_millis(301));
    let list = result(&mut it);
    assert_eq!((&list["items"][0]["label"], &list["isIncomplete"]), (&json!("b"), &json!(true)));
    assert_eq!(it.told(A), ["$/cancelRequest"]);
    answer(&mut it, A, &a, &json!([{"label": "a"}]));
    assert!(it.take(EDITOR).is_empty());
    // The next key asks again, and both are there.
    ask(
        &mut it,
        2,
        "textDocument/completion",
        &json!({"textDocument": {"uri": "u"}, "position": {"line": 0, "character": 1}, "context": {"triggerKind": 3}}),
    );
    let (a, b) = (only(&mut it, A), only(&mut it, B));
    answer(&mut it, A, &a, &json!([{"label": "a"}]));
    answer(&mut it, B, &b, &json!([{"label": "b"}]));
    let list = result(&mut it);
    let items = if list.is_array() { &list } else { &list["items"] };
    assert_eq!(items.as_array().unwrap().len(), 2, "{list}");
    assert_ne!(list["isIncomplete"], true, "{list}");
}

#[test]
fn what_two_members_say_alike_is_there_once() {
    let can = json!({
        "completionProvider": {}, "referencesProvider": true, "inlayHintProvider": true, "codeActionProvider": true,
    });
    let hint = |label: Value| json!({"position": {"line": 0, "character": 1}, "label": label});
    let action = |title: &str| json!({"title": title, "kind": "quickfix"});
    for (method, same, again, other) in [
        (
            "textDocument/completion",
            json!({"label": "x", "sortText": "1"}),
            json!({"label": "x", "sortText": "2"}),
            json!({"label": "y"}),
        ),
        (
            "textDocument/references",
            location("file:///a%20b", 1),
            location("file:///a b", 1),
            location("file:///c", 1),
        ),
        (
            "textDocument/inlayHint",
            hint(json!("a=")),
            hint(json!([{"value": "a"}, {"value": "="}])),
            hint(json!("b=")),
        ),
        ("textDocument/codeAction", action("fix"), action("fix"), action("other")),
    ] {
        let mut it = pair(&can);
        let told = both(&mut it, method, &json!([same]), &json!([again, other]));
        assert_eq!(bare(&told), json!([same, other]), "{method}");
        // What one of them says twice stays.
        let mut it = pair(&can);
        let told = both(&mut it, method, &json!([]), &json!([same, same]));
        assert_eq!(bare(&told), json!([same, same]), "{method}");
    }
}

fn publish(it: &mut Stage, by: crate::core::event::ProcessId, messages: &[&str]) {
    let list: Value =
        messages.iter().map(|it| json!({"range": range(0), "message": it, "source": "s"})).collect();
    let params = json!({"uri": "file:///u", "diagnostics": list});
    it.server(by, json!({"method": "textDocument/publishDiagnostics", "params": params}));
}

fn shown(it: &mut Stage) -> Vec<Vec<String>> {
    it.pass(Duration::from_millis(11));
    let told = it.take(EDITOR);
    let list = |it: &Value| -> Vec<String> {
        let all = it["params"]["diagnostics"].as_array().unwrap();
        all.iter().map(|it| it["message"].as_str().unwrap().to_owned()).collect()
    };
    told.iter().filter(|it| name(it) == "textDocument/publishDiagnostics").map(list).collect()
}

#[test]
fn diagnostics_are_never_emptied_in_between() {
    let mut it = pair(&documents());
    let open = json!({"textDocument": {"uri": "file:///u", "languageId": "x", "version": 1, "text": "abc"}});
    it.editor(json!({"method": "textDocument/didOpen", "params": open}));
    publish(&mut it, B, &["lint"]);
    assert_eq!(shown(&mut it), [["lint"]]);
    // The checker speaks with each key, the linter only after a save.
    for n in 2..6 {
        let change = json!([{"range": {"start": {"line": 0, "character": 3}, "end": {"line": 0, "character": 3}}, "text": "x"}]);
        let params = json!({"textDocument": {"uri": "file:///u", "version": n}, "contentChanges": change});
        it.editor(json!({"method": "textDocument/didChange", "params": params}));
        publish(&mut it, A, &[]);
        publish(&mut it, A, &["type"]);
        for list in shown(&mut it) {
            assert!(list.contains(&"lint".to_owned()), "{list:?}");
        }
    }
    publish(&mut it, B, &[]);
    assert_eq!(shown(&mut it), [["type"]], "its own list is its own to take back");
}

#[test]
fn diagnostics_keep_what_says_whose_they_are() {
    let mut it = pair(&documents());
    let one =
        |source: &str| json!({"range": range(0), "message": "m", "source": source, "data": {"of": source}});
    for (by, source) in [(A, "a"), (B, "b")] {
        let params = json!({"uri": "file:///u", "diagnostics": [one(source)]});
        it.server(by, json!({"method": "textDocument/publishDiagnostics", "params": params}));
        it.pass(Duration::from_millis(11));
    }
    assert_eq!(it.take(EDITOR).pop().unwrap()["params"]["diagnostics"], json!([one("a"), one("b")]));
}

#[test]
fn best_member_formats_each_time_though_it_has_nothing_to_do() {
    let mut it = pair(&json!({"documentFormattingProvider": true}));
    for (id, said) in [(1, json!([])), (2, Value::Null), (3, json!([{"range": range(0), "newText": "x"}]))] {
        ask(&mut it, id, "textDocument/formatting", &at("u"));
        let asked = only(&mut it, A);
        assert!(it.told(B).is_empty());
        answer(&mut it, A, &asked, &said);
        assert_eq!(result(&mut it), said, "another one would do it in another way");
    }
}

#[test]
fn options_and_settings_are_for_one_member() {
    let mut it = group(&["a", "b"]);
    let options = json!({"lint": true});
    it.group.as_mut().unwrap().others[0].server.init_options = options.as_object().unwrap().clone();
    let params = json!({
        "processId": 1, "capabilities": {},
        "initializationOptions": {"shared": 1, "lspool": {"servers": {"a": {"strict": true}}}},
    });
    it.editor(json!({"id": "i", "method": "initialize", "params": params}));
    let told = |it: &mut Stage, by| it.take(backend(by))[0]["params"]["initializationOptions"].clone();
    assert_eq!(told(&mut it, A), json!({"strict": true}), "what the editor says to it");
    assert_eq!(told(&mut it, B), json!({"shared": 1, "lint": true}));
}

#[test]
fn odd_elements_are_left_out_and_the_rest_is_the_answer() {
    let action = json!({"title": "fix", "kind": "quickfix"});
    let command = json!({"title": "run", "command": "x"});
    for odd in [json!([null, "text", 7, [], action]), json!([action, null])] {
        let mut it = pair(&json!({"codeActionProvider": true}));
        let told = both(&mut it, "textDocument/codeAction", &odd, &json!([command]));
        assert_eq!(bare(&told), json!([action, command]), "{odd}");
    }
    for odd in [json!("text"), json!(7), json!({"x": 1})] {
        let mut it = pair(&json!({"codeActionProvider": true}));
        assert_eq!(
            both(&mut it, "textDocument/codeAction", &odd, &json!([command])),
            json!([command]),
            "{odd}"
        );
    }
}

#[test]
fn tokens_of_two_members_are_under_one_legend() {
    let can = |types: &[&str]| json!({"semanticTokensProvider": {"legend": {"tokenTypes": types, "tokenModifiers": []}, "full": true}});
    for swapped in [false, true] {
        let (one, other) = (can(&["class", "variable"]), can(&["variable", "macro"]));
        let mut it = group(&["a", "b"]);
        initialize(&mut it, &json!({"textDocument": {"semanticTokens": {"requests": {"full": true}}}}));
        // Whoever starts first.
        for (by, can) in if swapped { [(B, &other), (A, &one)] } else { [(A, &one), (B, &other)] } {
            ready(&mut it, by, can);
        }
        let told = it.take(EDITOR).pop().unwrap();
        let legend = told["result"]["capabilities"]["semanticTokensProvider"]["legend"]["tokenTypes"].clone();
        assert_eq!(legend, json!(["class", "variable", "macro"]));
        it.editor(json!({"method": "initialized", "params": {}}));
        it.take(backend(A));
        it.take(backend(B));
        // A variable of one, which the other takes for a macro, and a variable of the other on the next line.
        let first = json!({"data": [0, 0, 3, 1, 0]});
        let second = json!({"data": [0, 0, 3, 1, 0, 1, 0, 2, 0, 0]});
        let tokens = both(&mut it, "textDocument/semanticTokens/full", &first, &second);
        assert_eq!(tokens["data"], json!([0, 0, 3, 1, 0, 1, 0, 2, 1, 0]), "by rank");
    }
}

#[test]
fn definitions_of_two_members_are_a_list() {
    let (one, other) = (location("file:///a", 1), location("file:///b", 1));
    let link = json!({"targetUri": "file:///b", "targetRange": range(0), "targetSelectionRange": range(1)});
    let can = json!({"definitionProvider": true});
    for (first, second) in
        [(&one, &other), (&json!([one]), &json!([other])), (&one, &json!([other])), (&one, &json!([link]))]
    {
        let mut it = pair(&can);
        let told = both(&mut it, "textDocument/definition", first, second);
        assert_eq!(told, json!([one, other]), "{first} and {second}");
    }
    let mut it = pair_of(&can, &can);
    assert_eq!(both(&mut it, "textDocument/definition", &one, &one), json!([one]));
}

#[test]
fn answer_of_another_shape_is_a_failure_of_its_member_alone() {
    let all = json!({
        "hoverProvider": true, "documentHighlightProvider": true, "signatureHelpProvider": {},
        "renameProvider": true, "referencesProvider": true,
    });
    let edit = json!({"changes": {"file:///u": [{"range": range(0), "newText": "n"}]}});
    for (method, wrong, right) in [
        ("textDocument/hover", json!(5), json!({"contents": "b"})),
        ("textDocument/documentHighlight", json!({"range": range(0)}), json!([{"range": range(0)}])),
        ("textDocument/signatureHelp", json!([]), json!({"signatures": [{"label": "f()"}]})),
        ("textDocument/references", json!("here"), json!([location("file:///u", 1)])),
    ] {
        assert_eq!(both(&mut pair(&all), method, &wrong, &right), right, "{method}");
        assert_eq!(both(&mut pair(&all), method, &right, &wrong), right, "{method}");
        assert_eq!(both(&mut pair(&all), method, &wrong, &Value::Null), Value::Null, "{method}");
        let mut it = pair(&all);
        ask(&mut it, 1, method, &at("file:///u"));
        for by in [A, B] {
            let asked = only(&mut it, by);
            answer(&mut it, by, &asked, &wrong);
        }
        assert!(it.take(EDITOR)[0]["error"]["code"].is_number(), "{method}");
    }
    let mut it = pair(&all);
    ask(&mut it, 1, "textDocument/rename", &at("file:///u"));
    let asked = only(&mut it, A);
    answer(&mut it, A, &asked, &json!("done"));
    let asked = only(&mut it, B);
    answer(&mut it, B, &asked, &edit);
    assert_eq!(result(&mut it), edit);
    // Who alone can answer says it to the editor itself.
    let mut it = pair_of(&all, &json!({}));
    ask(&mut it, 1, "textDocument/hover", &at("file:///u"));
    let asked = only(&mut it, A);
    answer(&mut it, A, &asked, &json!(5));
    assert_eq!(result(&mut it), 5);
}
