//! The model: reads values, compares each element with each other, and says what has to come out.

use serde_json::{Map, Value, json};

use super::{Case, GENERATION, Merged, Same, Shape, files, texts};

/// A part, as the model reads it.
pub(super) enum Said<T> {
    Nothing,
    /// With whether something was left out.
    Something(T, bool),
    Malformed,
}

/// The parts that say something, with their places, and the answer if there is nothing to put together.
pub(super) struct Heard<T> {
    pub(super) parts: Vec<(usize, T)>,
    pub(super) settled: Option<Value>,
}

pub(super) fn check(case: &Case, result: &Value, merged: &Merged, told: &str) {
    let expected = match case.shape {
        Shape::Completion => return completions(case, result, told),
        Shape::WorkspaceEdit => return files::workspace_edit(case, result, merged, told),
        Shape::Edits => files::edits(case, merged, told),
        Shape::Hover => texts::hover(case),
        Shape::Locations => files::locations(case),
        Shape::List(same) => list(case, same, merged, told),
        Shape::CodeActions => list(case, Same::Action, merged, told),
        Shape::Symbols => symbols(case, result),
        Shape::SemanticTokens => texts::tokens(case),
        Shape::Diagnostics => diagnostics(case),
        Shape::InlineCompletion => inline(case),
    };
    assert_eq!(*result, expected, "{told}");
}

pub(super) fn hear<T>(case: &Case, read: impl Fn(usize, &Value) -> Said<T>) -> (Heard<T>, Vec<usize>) {
    let (mut parts, mut malformed, mut silent) = (Vec::new(), Vec::new(), None);
    for (n, value) in case.parts.iter().enumerate() {
        match if value.is_null() { Said::Nothing } else { read(n, value) } {
            Said::Nothing => silent = silent.or(Some(value.clone())),
            Said::Something(it, left_out) => {
                parts.push((n, it));
                malformed.extend(left_out.then_some(n));
            }
            Said::Malformed => malformed.push(n),
        }
    }
    let settled = match (&case.parts[..], &parts[..]) {
        ([_], _) => Some(tagged(case, 0)),
        (_, []) => Some(silent.unwrap_or_default()),
        (_, [(n, _)]) if !malformed.contains(n) => Some(tagged(case, *n)),
        (_, _) => None,
    };
    (Heard { parts, settled }, malformed)
}

pub(super) fn objects(value: &Value) -> Said<Vec<Value>> {
    let Some(list) = value.as_array() else { return Said::Malformed };
    let objects: Vec<Value> = list.iter().filter(|it| it.is_object()).cloned().collect();
    match (list.len(), objects.len()) {
        (0, _) => Said::Nothing,
        (_, 0) => Said::Malformed,
        (all, some) => Said::Something(objects, some < all),
    }
}

/// What is the same as an element of an earlier part is left out.
pub(super) fn distinct<K: PartialEq>(
    lists: Vec<(usize, Vec<Value>)>,
    key: impl Fn(&Value) -> Option<K>,
) -> Vec<(usize, Vec<Value>)> {
    let mut out: Vec<(usize, Vec<Value>)> = Vec::new();
    for (n, mut list) in lists {
        let before: Vec<Option<K>> = out.iter().flat_map(|(_, it)| it).map(&key).collect();
        list.retain(|it| {
            let key = key(it);
            key.is_none() || !before.contains(&key)
        });
        out.push((n, list));
    }
    out
}

pub(super) fn joined(lists: Vec<(usize, Vec<Value>)>) -> Value {
    lists.into_iter().flat_map(|(_, it)| it).collect()
}

/// Whether elements of this answer get tags.
fn has_tags(case: &Case) -> bool {
    let methods = [
        "textDocument/codeAction",
        "textDocument/codeLens",
        "textDocument/completion",
        "textDocument/documentLink",
        "textDocument/inlayHint",
        "workspace/symbol",
    ];
    case.is_tagged && methods.contains(&case.method)
}

fn tag(item: &mut Value, member: usize) {
    if !item.is_object() || item["command"].is_string() {
        return;
    }
    let mut data = json!({"lspool": format!("{member}.{GENERATION}")});
    if let Some(was) = item.get("data") {
        data["data"] = was.clone();
    }
    item["data"] = data;
}

fn with_tags(case: &Case, lists: Vec<(usize, Vec<Value>)>) -> Vec<(usize, Vec<Value>)> {
    let mut lists = lists;
    for (n, list) in lists.iter_mut().filter(|_| has_tags(case)) {
        for it in list.iter_mut() {
            tag(it, *n);
        }
    }
    lists
}

/// A part as it came.
fn tagged(case: &Case, n: usize) -> Value {
    let mut value = case.parts[n].clone();
    if let (true, Some(list)) = (has_tags(case), value.as_array_mut()) {
        for it in list.iter_mut() {
            tag(it, n);
        }
    }
    value
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A member that is there and is not `null`.
pub(super) fn some<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|it| !it.is_null())
}

pub(super) fn extent(value: &Value) -> Option<[(u64, u64); 2]> {
    let position =
        |key| Some((value.get(key)?.get("line")?.as_u64()?, value.get(key)?.get("character")?.as_u64()?));
    Some([position("start")?, position("end")?])
}

/// The files that cases speak of.
pub(super) fn file(uri: &Value) -> Option<&'static str> {
    match uri.as_str()? {
        "file:///a%20b" | "file:///a b" => Some("a b"),
        "file:///c" => Some("c"),
        "FILE:///C%3a/" => Some("C:"),
        _ => None,
    }
}

fn list(case: &Case, same: Same, merged: &Merged, told: &str) -> Value {
    if same == Same::Never {
        let (heard, _) = hear(case, |_, it| match it.as_array().map(Vec::len) {
            None => Said::Malformed,
            Some(0) => Said::Nothing,
            Some(_) => Said::Something(it.as_array().cloned().unwrap_or_default(), false),
        });
        return heard.settled.unwrap_or_else(|| joined(heard.parts));
    }
    let (heard, malformed) = hear(case, |_, it| objects(it));
    assert_eq!(merged.malformed, malformed, "{told}");
    let key = |it: &Value| match same {
        Same::Never => None,
        Same::Bytes => Some(it.clone()),
        Same::Action => action(it),
        Same::Hint => {
            let at = it.get("position")?;
            let label = match it.get("label")? {
                Value::Array(parts) => parts.iter().map(|it| text(&it["value"])).collect(),
                label => text(label),
            };
            Some(json!([at, label]))
        }
        Same::Label => it.get("label").cloned(),
        Same::Range => Some(json!(extent(&it["range"])?)),
    };
    heard.settled.unwrap_or_else(|| joined(with_tags(case, distinct(heard.parts, key))))
}

fn action(it: &Value) -> Option<Value> {
    let (edit, command) = (some(it, "edit"), some(it, "command"));
    let data = if edit.is_none() && command.is_none() { some(it, "data") } else { None };
    Some(json!([
        it.get("title")?,
        some(it, "kind").map_or("", |it| it.as_str().unwrap_or("")),
        edit,
        command,
        data
    ]))
}

/// Each item with all defaults in it says the same before and after.
fn completions(case: &Case, result: &Value, told: &str) {
    let list = |it: &Value| objects(it.get("items").unwrap_or(it));
    let (heard, _) = hear(case, |_, it| match it.get("items") {
        None if it.is_object() => Said::Malformed,
        _ => list(it),
    });
    let is_incomplete = |it: &Value| it["isIncomplete"] == json!(true);
    let incomplete = case.late || case.parts.iter().any(is_incomplete);
    if let (Some(settled), false) = (&heard.settled, incomplete)
        && !settled.is_object()
    {
        return assert_eq!(result, settled, "{told}");
    }
    assert!(incomplete == is_incomplete(result) || case.parts.len() == 1, "{told}");
    let effective: Vec<(usize, Vec<Value>)> = heard
        .parts
        .into_iter()
        .map(|(n, items)| (n, items.iter().map(|it| with_defaults(it, &case.parts[n])).collect()))
        .collect();
    let key = |it: &Value| {
        let edit = some(it, "textEdit").map(|it| it["newText"].clone());
        let inserted =
            edit.or_else(|| some(it, "insertText").cloned()).unwrap_or_else(|| it["label"].clone());
        Some(json!([it.get("label")?, some(it, "kind"), inserted]))
    };
    let mut expected = with_tags(case, distinct(effective, key));
    // `null` is as good as nothing.
    let bare = |it: &mut Value| {
        if let (Some(it), false) = (it.as_object_mut(), has_tags(case)) {
            it.retain(|_, value| !value.is_null());
        }
    };
    expected.iter_mut().flat_map(|(_, it)| it).for_each(bare);
    let items = result.get("items").unwrap_or(result).as_array().cloned().unwrap_or_default();
    let mut found: Vec<Value> =
        items.iter().filter(|it| it.is_object()).map(|it| with_defaults(it, result)).collect();
    found.iter_mut().for_each(bare);
    assert_eq!(json!(found), joined(expected), "{told}");
}

fn with_defaults(item: &Value, list: &Value) -> Value {
    let mut out = item.clone();
    let nothing = Map::new();
    let defaults = list.get("itemDefaults").and_then(Value::as_object).unwrap_or(&nothing);
    for (key, default) in defaults.iter().filter(|(_, it)| !it.is_null()) {
        let merges = list["applyKind"][key] == json!(2);
        match (key.as_str(), some(item, key)) {
            ("editRange", _) if some(item, "textEdit").is_some() || item.get("label").is_none() => {}
            ("editRange", _) => {
                let text = some(item, "textEditText").unwrap_or(&item["label"]);
                out["textEdit"] = json!({"range": default, "newText": text});
            }
            (_, None) => out[key] = default.clone(),
            (_, Some(Value::Array(own))) if merges => {
                let mut all = own.clone();
                all.extend(default.as_array().into_iter().flatten().filter(|it| !own.contains(it)).cloned());
                out[key] = json!(all);
            }
            (_, Some(Value::Object(own))) if merges && default.is_object() => {
                out[key] = default.clone();
                own.iter().for_each(|(name, value)| out[key][name] = value.clone());
            }
            (_, Some(_)) => {}
        }
    }
    out
}

fn symbols(case: &Case, result: &Value) -> Value {
    let is_outline = case.method == "textDocument/documentSymbol";
    let (heard, _) = hear(case, |_, it| objects(it));
    if let Some(settled) = heard.settled {
        return settled;
    }
    let key = |it: &Value| {
        let Some(location) = it.get("location") else {
            return Some(json!([it["name"], it["kind"], null, extent(&it["range"])?]));
        };
        let range = match location.get("range") {
            Some(range) => Some(extent(range)?),
            None => None,
        };
        Some(json!([it["name"], it["kind"], file(&location["uri"]).filter(|_| !is_outline), range]))
    };
    let symbols = with_tags(case, distinct(heard.parts, key));
    let count = |flat: bool| {
        symbols.iter().flat_map(|(_, it)| it).filter(|it| it.get("location").is_some() == flat).count()
    };
    let is_mixed = is_outline && count(true) > 0 && count(false) > 0;
    if !is_mixed {
        return joined(symbols);
    }
    if case.client["capabilities"]["textDocument"]["documentSymbol"]["hierarchicalDocumentSymbolSupport"]
        == json!(false)
    {
        // How a tree is made flat is shown by an example; here: all are there, in order.
        fn names(of: &Value) -> Vec<Value> {
            let below = of["children"].as_array().into_iter().flatten().flat_map(names);
            std::iter::once(of["name"].clone()).chain(below).collect()
        }
        let expected: Vec<Value> = symbols.iter().flat_map(|(_, it)| it).flat_map(names).collect();
        let found: Vec<Value> =
            result.as_array().into_iter().flatten().map(|it| it["name"].clone()).collect();
        assert_eq!(found, expected);
        assert!(
            result
                .as_array()
                .into_iter()
                .flatten()
                .all(|it| it.get("location").is_some() || it.get("range").is_none())
        );
        return result.clone();
    }
    let nested = |mut it: Value| {
        let Some(range) = it["location"].get("range").cloned() else { return it };
        if let Some(it) = it.as_object_mut() {
            it.remove("location");
        }
        it["range"] = range.clone();
        it["selectionRange"] = range;
        it
    };
    joined(symbols).as_array().into_iter().flatten().cloned().map(nested).collect()
}

fn inline(case: &Case) -> Value {
    let (heard, _) = hear(case, |_, it| match it.get("items").unwrap_or(it).as_array() {
        _ if it.is_object() && it.get("items").is_none() => Said::Malformed,
        None => Said::Malformed,
        Some(list) if list.is_empty() => Said::Nothing,
        Some(list) => Said::Something(list.clone(), false),
    });
    if let Some(settled) = heard.settled {
        return settled;
    }
    let is_object = heard.parts.iter().any(|(n, _)| case.parts[*n].is_object());
    let items = joined(heard.parts);
    if is_object { json!({"items": items}) } else { items }
}

fn diagnostics(case: &Case) -> Value {
    let (heard, _) = hear(case, |_, it| match it["kind"].as_str() {
        Some("full") => objects(&it["items"]),
        _ => Said::Malformed,
    });
    heard.settled.unwrap_or_else(
        || json!({"kind": "full", "items": joined(distinct(heard.parts, |it| Some(it.clone())))}),
    )
}
