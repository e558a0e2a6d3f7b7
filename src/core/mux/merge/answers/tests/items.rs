//! Lists of items, completions, symbols and diagnostics.

use super::*;

const LENSES: (Shape, &str) = (Shape::List(Same::Bytes), "textDocument/codeLens");

#[test]
fn one_part_stays_as_it_came() {
    let raw = r#" [ {"a" : 1}, null ,{"b":2} ] "#;
    for shape in [
        Shape::Completion,
        Shape::Hover,
        Shape::Locations,
        Shape::List(Same::Bytes),
        Shape::CodeActions,
        Shape::Symbols,
        Shape::Edits,
        Shape::WorkspaceEdit,
        Shape::Diagnostics,
        Shape::InlineCompletion,
    ] {
        assert_eq!(ask(shape, "x").text(&[raw]), raw);
        assert_eq!(ask(shape, "x").text(&["null", "null"]), "null");
    }
    let lenses = ask(LENSES.0, LENSES.1);
    assert_eq!(lenses.text(&["null", r#"[ {"a":1} ]"#, "[ ]"]), r#"[ {"a":1} ]"#);
    assert_eq!(lenses.text(&["[ ]", "null"]), "[ ]");
    assert_eq!(lenses.text(&["null", "[ ]"]), "null");
}

#[test]
fn elements_keep_their_bytes_and_equal_ones_stand_once() {
    let parts = [r#"[ {"a" : 1} , {"a" : 1} ]"#, r#"[{"a":1}, {"a" : 1},{"b":"\u00e9"}]"#];
    let (shape, method) = LENSES;
    assert_eq!(ask(shape, method).text(&parts), r#"[{"a" : 1} , {"a" : 1},{"a":1},{"b":"\u00e9"}]"#);
    assert_eq!(
        ask(Shape::List(Same::Never), "x").text(&parts),
        r#"[{"a" : 1} , {"a" : 1},{"a":1}, {"a" : 1},{"b":"\u00e9"}]"#
    );
}

#[test]
fn malformed_parts_and_elements_are_left_out() {
    let lenses = ask(LENSES.0, LENSES.1);
    let answer = lenses.answer(&[json!(5), json!([null, {"a": 1}, "b"]), json!([{"c": 1}])]);
    assert_eq!(answer, (json!([{"a": 1}, {"c": 1}]), vec![0, 1], vec![]));
    assert_eq!(lenses.answer(&[json!({}), json!([1])]), (json!(null), vec![0, 1], vec![]));
    assert_eq!(lenses.bytes(&[b"[1", b"[{}]"]).malformed, [0]);
}

#[test]
fn lists_know_what_is_the_same() {
    let links = |it: [Value; 2]| ask(Shape::List(Same::Range), "textDocument/documentLink").value(&it);
    let (here, there) = (range(1, 2, 3), range(1, 2, 4));
    assert_eq!(
        links([json!([{"range": here, "target": "a"}]), json!([{"range": here}, {"range": there}])]),
        json!([{"range": here, "target": "a"}, {"range": there}])
    );
    let labels = ask(Shape::List(Same::Label), "textDocument/colorPresentation");
    assert_eq!(
        labels.value(&[json!([{"label": "red", "x": 1}]), json!([{"label": "red"}, {"label": "#f00"}])]),
        json!([{"label": "red", "x": 1}, {"label": "#f00"}])
    );
    let at = |character: u32, label: Value| json!({"position": {"line": 1, "character": character}, "label": label});
    let hints = ask(Shape::List(Same::Hint), "textDocument/inlayHint");
    let parts = json!([{"value": "a", "location": 1}, {"value": "="}]);
    assert_eq!(
        hints.value(&[json!([at(4, json!("a="))]), json!([at(4, parts.clone()), at(5, parts.clone())])]),
        json!([at(4, json!("a=")), at(5, parts)])
    );
    let references = ask(Shape::Locations, "textDocument/references");
    let place = |uri: &str| json!({"uri": uri, "range": here});
    assert_eq!(
        references
            .value(&[json!([place("file:///a%20b")]), json!([place("file:///a b"), place("file:///c")])]),
        json!([place("file:///a%20b"), place("file:///c")])
    );
}

#[test]
fn code_actions_are_same_by_title_kind_and_effect() {
    let actions = ask(Shape::CodeActions, "textDocument/codeAction").tagged();
    let edit = json!({"changes": {"u": []}});
    let fix = json!({"title": "Fix", "kind": "quickfix", "edit": edit});
    let other = json!({"title": "Fix", "kind": "quickfix", "edit": {}});
    let lazy = json!({"title": "Organize", "data": 1});
    let lazy_too = json!({"title": "Organize", "data": 2});
    let command = json!({"title": "Run", "command": "run", "arguments": [1]});
    let tag = |mut it: Value, member: u32| {
        let mut data = json!({"lspool": format!("{member}.1")});
        if let Some(was) = it.get("data") {
            data["data"] = was.clone();
        }
        it["data"] = data;
        it
    };
    assert_eq!(
        actions.value(&[json!([fix, lazy, command]), json!([fix, other, lazy_too, command]),]),
        json!([tag(fix, 0), tag(lazy, 0), command, tag(other, 1), tag(lazy_too, 1)])
    );
}

fn completions() -> Asked {
    ask(Shape::Completion, "textDocument/completion")
}

#[test]
fn completions_are_incomplete_if_one_list_is_or_was_late() {
    let list = |incomplete: bool, items: Value| json!({"isIncomplete": incomplete, "items": items});
    let (a, b) = (json!([{"label": "a"}]), json!([{"label": "b"}]));
    let both = json!([{"label": "a"}, {"label": "b"}]);
    assert_eq!(completions().value(&[a.clone(), b.clone()]), both);
    assert_eq!(completions().value(&[list(false, a.clone()), b.clone()]), list(false, both.clone()));
    assert_eq!(completions().value(&[a.clone(), list(true, b.clone())]), list(true, both.clone()));
    assert_eq!(completions().value(&[a.clone(), list(true, json!([]))]), list(true, a.clone()));
    assert_eq!(completions().late().value(std::slice::from_ref(&a)), list(true, a.clone()));
    assert_eq!(completions().late().value(&[list(false, a.clone())]), list(true, a.clone()));
    assert_eq!(completions().late().value(&[json!(null)]), list(true, json!([])));
    assert_eq!(
        completions().value(&[json!({"items": [{}], "x": 1}), json!({"items": [{"a": 1}], "x": 2, "y": 3})]),
        json!({"isIncomplete": false, "x": 1, "y": 3, "items": [{}, {"a": 1}]})
    );
}

#[test]
fn completions_are_same_by_label_kind_and_text() {
    let first = json!([{"label": "a", "kind": 3}, {"label": "b", "insertText": "b()"}]);
    let second = json!([
        {"label": "a", "kind": 3, "textEdit": {"range": range(0, 0, 1), "newText": "a"}, "x": 1},
        {"label": "a", "kind": 4},
        {"label": "b"},
    ]);
    assert_eq!(
        completions().value(&[first, second]),
        json!([{"label": "a", "kind": 3}, {"label": "b", "insertText": "b()"}, {"label": "a", "kind": 4}, {"label": "b"}])
    );
}

#[test]
fn equal_defaults_stay_and_others_move_into_items() {
    let defaults = json!({"commitCharacters": ["."], "insertTextFormat": 2});
    let list = |label: &str, defaults: &Value| json!({"isIncomplete": false, "items": [{"label": label}], "itemDefaults": defaults});
    assert_eq!(
        completions().value(&[list("a", &defaults), list("b", &defaults)]),
        json!({"isIncomplete": false, "itemDefaults": defaults, "items": [{"label": "a"}, {"label": "b"}]})
    );
    let edit_range = json!({"editRange": range(0, 1, 2), "insertTextMode": 1});
    let other = json!({
        "items": [
            {"label": "x"},
            {"label": "y", "textEditText": "y()"},
            {"label": "z", "textEdit": {"range": range(5, 5, 5), "newText": "z"}, "insertTextMode": 2},
        ],
        "itemDefaults": edit_range,
    });
    let (value, _, _) = completions().answer(&[list("a", &defaults), other.clone()]);
    assert_eq!(value["itemDefaults"], json!(null));
    assert_eq!(
        value["items"],
        json!([
            {"label": "a", "commitCharacters": ["."], "insertTextFormat": 2},
            {"label": "x", "textEdit": {"range": range(0, 1, 2), "newText": "x"}, "insertTextMode": 1},
            {"label": "y", "textEditText": "y()",
                "textEdit": {"range": range(0, 1, 2), "newText": "y()"}, "insertTextMode": 1},
            {"label": "z", "textEdit": {"range": range(5, 5, 5), "newText": "z"}, "insertTextMode": 2},
        ])
    );
    let insert_replace = json!({"insert": range(0, 1, 2), "replace": range(0, 1, 3)});
    let both = json!({"items": [{"label": "x"}], "itemDefaults": {"editRange": insert_replace}});
    let (value, _, _) = completions().answer(&[json!([{"label": "a"}]), both]);
    assert_eq!(
        value["items"][1]["textEdit"],
        json!({"insert": range(0, 1, 2), "replace": range(0, 1, 3), "newText": "x"})
    );
}

#[test]
fn apply_kind_merges_defaults_with_items() {
    let list = json!({
        "isIncomplete": false,
        "items": [
            {"label": "a", "commitCharacters": ["(", "."], "data": {"own": 1, "both": 1}},
            {"label": "b"},
        ],
        "itemDefaults": {"commitCharacters": [".", ";"], "data": {"both": 2, "all": 2}},
        "applyKind": {"commitCharacters": 2, "data": 2},
    });
    let (value, _, _) = completions().tagged().answer(&[list, json!([{"label": "c"}])]);
    assert_eq!(
        value["items"],
        json!([
            {"label": "a", "commitCharacters": ["(", ".", ";"],
                "data": {"lspool": "0.1", "data": {"own": 1, "both": 1, "all": 2}}},
            {"label": "b", "commitCharacters": [".", ";"],
                "data": {"lspool": "0.1", "data": {"both": 2, "all": 2}}},
            {"label": "c", "data": {"lspool": "1.1"}},
        ])
    );
}

#[test]
fn commit_characters_of_a_member_go_into_its_items() {
    let lists = [
        json!([{"label": "a"}, {"label": "b", "commitCharacters": []}]).to_string(),
        json!([{"label": "c"}]).to_string(),
    ];
    let parts = [0, 1].map(|n: usize| Part {
        result: lists[n].as_bytes(),
        maker: None,
        commit_characters: (n == 0).then_some(&br#"["."]"#[..]),
    });
    for (count, rest) in [(1, vec![]), (2, vec![json!({"label": "c"})])] {
        let method = "textDocument/completion";
        let merged = merge(Shape::Completion, method, &parts[..count], &modern(), false, None);
        let mut expected = vec![
            json!({"label": "a", "commitCharacters": ["."]}),
            json!({"label": "b", "commitCharacters": []}),
        ];
        expected.extend(rest);
        assert_eq!(serde_json::from_slice::<Value>(&merged.result).unwrap(), json!(expected));
    }
}

#[test]
fn inline_completions_are_joined() {
    let inline = ask(Shape::InlineCompletion, "textDocument/inlineCompletion").tagged();
    let (a, b) = (json!({"insertText": "a"}), json!({"insertText": "a"}));
    assert_eq!(inline.value(&[json!([a]), json!([b])]), json!([a, b]));
    assert_eq!(inline.value(&[json!({"items": [a]}), json!([b])]), json!({"items": [a, b]}));
    assert_eq!(inline.value(&[json!({"items": []}), json!([b])]), json!([b]));
}

#[test]
fn outline_has_one_shape() {
    let flat = json!({"name": "f", "kind": 12, "location": {"uri": "u", "range": range(1, 0, 9)}, "containerName": "c"});
    let nested = json!({
        "name": "g", "kind": 5, "detail": "d", "range": range(2, 0, 9), "selectionRange": range(2, 1, 2),
        "children": [{"name": "h", "kind": 6, "range": range(3, 0, 9), "selectionRange": range(3, 1, 2)}],
    });
    let outline = ask(Shape::Symbols, "textDocument/documentSymbol");
    assert_eq!(
        outline.value(&[json!([flat]), json!([nested])]),
        json!([{"name": "f", "kind": 12, "range": range(1, 0, 9), "selectionRange": range(1, 0, 9)}, nested])
    );
    let location = |line: u32| json!({"uri": "u", "range": range(line, 0, 9)});
    assert_eq!(
        outline.by_old_editor().value(&[json!([nested]), json!([flat])]),
        json!([
            {"name": "g", "kind": 5, "location": location(2)},
            {"name": "h", "kind": 6, "location": location(3), "containerName": "g"},
            flat,
        ])
    );
    let again = json!({"name": "g", "kind": 5, "location": {"uri": "u", "range": range(2, 0, 9)}});
    let outline = ask(Shape::Symbols, "textDocument/documentSymbol");
    assert_eq!(outline.value(&[json!([nested]), json!([again, nested])]), json!([nested]));
}

#[test]
fn symbols_of_workspace_are_same_by_name_kind_and_place() {
    let symbols = ask(Shape::Symbols, "workspace/symbol");
    let at = |location: Value| json!({"name": "f", "kind": 12, "location": location});
    let (with, without) = (at(json!({"uri": "u", "range": range(1, 0, 9)})), at(json!({"uri": "u"})));
    assert_eq!(
        symbols.value(&[
            json!([with]),
            json!([with, without, {"name": "f", "kind": 5, "location": {"uri": "u"}}])
        ]),
        json!([with, without, {"name": "f", "kind": 5, "location": {"uri": "u"}}])
    );
}

#[test]
fn pulled_reports_are_joined_without_result_ids() {
    let pull = ask(Shape::Diagnostics, "textDocument/diagnostic");
    let full = |items: Value| json!({"kind": "full", "resultId": "1", "items": items});
    let (a, b) = (json!({"message": "a"}), json!({"message": "b"}));
    assert_eq!(
        pull.value(&[full(json!([a, a])), full(json!([a, b]))]),
        json!({"kind": "full", "items": [a, a, b]})
    );
    assert_eq!(pull.value(&[full(json!([])), full(json!([b]))]), full(json!([b])));
    let unchanged = json!({"kind": "unchanged", "resultId": "1"});
    assert_eq!(pull.answer(&[unchanged, full(json!([b]))]), (full(json!([b])), vec![0], vec![]));
    let related = |map: Value| json!({"kind": "full", "items": [], "relatedDocuments": map});
    assert_eq!(
        pull.value(&[
            related(json!({"file:///u%20": full(json!([a])), "v": {"kind": "unchanged", "resultId": "7"}})),
            related(json!({"file:///u ": full(json!([b])), "w": full(json!([b]))})),
        ]),
        json!({"kind": "full", "items": [], "relatedDocuments": {
            "file:///u%20": {"kind": "full", "items": [a, b]},
            "v": {"kind": "unchanged", "resultId": "7"},
            "w": full(json!([b])),
        }})
    );
}
