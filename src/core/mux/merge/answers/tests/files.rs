//! Places and edits.

use super::*;

#[test]
fn definitions_take_one_shape() {
    let at = |uri: &str, extent: &Value| json!({"uri": uri, "range": extent});
    let (here, there) = (range(1, 2, 3), range(1, 2, 4));
    let link = json!({
        "originSelectionRange": range(0, 0, 1), "targetUri": "b", "targetRange": range(1, 0, 9),
        "targetSelectionRange": here, "x": 1,
    });
    let asked = || ask(Shape::Locations, "textDocument/definition");
    // The same range of two files is two places.
    assert_eq!(
        asked().value(&[at("a", &here), json!([at("a", &here), at("b", &here), at("a", &there)])]),
        json!([at("a", &here), at("b", &here), at("a", &there)])
    );
    assert_eq!(
        asked().value(&[json!([at("a", &here)]), json!([link])]),
        json!([{"targetUri": "a", "targetRange": here, "targetSelectionRange": here}, link])
    );
    let plain = json!({"uri": "b", "range": here, "x": 1});
    assert_eq!(
        asked().by_old_editor().value(&[json!([at("a", &here)]), json!([link])]),
        json!([at("a", &here), plain])
    );
    assert_eq!(asked().value(&[json!([at("b", &here)]), json!([link])]), json!([at("b", &here)]));
    assert_eq!(asked().value(&[json!([link]), json!([link])]), json!([link]));
    assert_eq!(asked().value(&[at("a", &here), json!(null)]), at("a", &here));
}

fn edit(extent: &Value, text: &str) -> Value {
    json!({"range": extent, "newText": text})
}

#[test]
fn edits_of_better_rank_stand_against_overlapping_ones() {
    let edits = ask(Shape::Edits, "textDocument/willSaveWaitUntil");
    let best = [edit(&range(1, 2, 5), "a"), edit(&range(3, 0, 0), "i")];
    let others = [
        edit(&range(1, 2, 5), "a"),
        edit(&range(3, 0, 0), "i"),
        edit(&range(3, 0, 0), "j"),
        edit(&range(1, 4, 6), "x"),
        edit(&range(1, 5, 6), "b"),
        edit(&range(1, 3, 3), "x"),
        edit(&range(1, 2, 2), "c"),
    ];
    assert_eq!(
        edits.answer(&[json!(best), json!(others)]),
        (json!([best[0], best[1], others[2], others[4], others[6]]), vec![], vec![1])
    );
    assert_eq!(
        edits.answer(&[json!([{"newText": "a"}, best[0]]), json!([best[1], 5]), json!([7])]),
        (json!([best[0], best[1]]), vec![0, 1, 2], vec![])
    );
}

fn rename() -> Asked {
    ask(Shape::WorkspaceEdit, "workspace/willRenameFiles")
}

#[test]
fn workspace_edits_are_put_together_by_file() {
    let (a, b, c) = (edit(&range(1, 0, 4), "a"), edit(&range(2, 0, 4), "b"), edit(&range(1, 2, 4), "c"));
    assert_eq!(
        rename().answer(&[
            json!({"changes": {"file:///u%20": [a]}}),
            json!({"changes": {"file:///u ": [a, b, c], "v": [c]}}),
        ]),
        (json!({"changes": {"file:///u%20": [a, b], "v": [c]}}), vec![], vec![1])
    );
    let document = |uri: &str, version: Value| json!({"uri": uri, "version": version});
    let file = json!({"kind": "rename", "oldUri": "u", "newUri": "w"});
    let list = json!({"documentChanges": [
        {"textDocument": document("u", json!(null)), "edits": [a], "x": 1},
        file,
        {"textDocument": document("u", json!(null)), "edits": [c]},
    ]});
    let other = json!({"documentChanges": [{"textDocument": document("u", json!(7)), "edits": [b]}, file]});
    assert_eq!(
        rename().value(&[list.clone(), other, json!({"changes": {"v": [c]}})]),
        json!({"documentChanges": [
            {"textDocument": document("u", json!(7)), "edits": [a, b], "x": 1},
            file,
            {"textDocument": document("u", json!(null)), "edits": [c]},
            {"textDocument": document("v", json!(null)), "edits": [c]},
        ]})
    );
    assert_eq!(
        rename().by_old_editor().answer(&[list, json!({"changes": {"v": [c]}})]),
        (json!({"changes": {"u": [a, c], "v": [c]}}), vec![0], vec![])
    );
}

#[test]
fn annotations_of_two_members_are_told_apart() {
    let annotated = |line: u32| json!({"range": range(line, 0, 1), "newText": "x", "annotationId": "a"});
    let part = |line: u32, label: &str| {
        json!({
            "changeAnnotations": {"a": {"label": label}},
            "documentChanges": [{"textDocument": {"uri": "u", "version": null}, "edits": [annotated(line)]}],
        })
    };
    let (value, _, _) = rename().answer(&[part(1, "one"), part(2, "two"), part(3, "one")]);
    assert_eq!(value["changeAnnotations"], json!({"a": {"label": "one"}, "a#1": {"label": "two"}}));
    let ids: Vec<&Value> = value["documentChanges"][0]["edits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["annotationId"])
        .collect();
    assert_eq!(ids, ["a", "a#1", "a"]);
}
