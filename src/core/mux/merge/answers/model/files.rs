//! The model of places and edits.

use serde_json::{Value, json};

use super::{
    Case, Merged,
    expected::{Heard, Said, distinct, extent, file, hear, joined, objects, some},
};

pub(super) fn locations(case: &Case) -> Value {
    let (heard, _) = hear(case, |_, it| match it.is_object() {
        true => Said::Something(vec![it.clone()], false),
        false => objects(it),
    });
    if let Some(settled) = heard.settled {
        return settled;
    }
    let is_link = |it: &Value| it.get("targetUri").is_some();
    let key = |it: &Value| match is_link(it) {
        true => Some((file(&it["targetUri"])?, extent(&it["targetSelectionRange"])?)),
        false => Some((file(it.get("uri")?)?, extent(it.get("range")?)?)),
    };
    let all = joined(distinct(heard.parts, key));
    let all = all.as_array().cloned().unwrap_or_default();
    let has_links = all.iter().any(is_link);
    let takes_links = case.method == "textDocument/definition"
        && case.client["capabilities"]["textDocument"]["definition"]["linkSupport"] == json!(true);
    let shaped = |it: Value| match (has_links && takes_links, is_link(&it)) {
        (true, false) if it.get("uri").is_some() => json!({
            "targetUri": it["uri"], "targetRange": it["range"], "targetSelectionRange": it["range"],
        }),
        (false, true) => json!({"uri": it["targetUri"], "range": it["targetSelectionRange"]}),
        (_, _) => it,
    };
    all.into_iter().map(shaped).collect()
}

/// File, extent, text, and the edit.
type Edit = (Option<&'static str>, [(u64, u64); 2], String, Value);

fn read_edit(file: Option<&'static str>, it: &Value) -> Option<Edit> {
    Some((file, extent(it.get("range")?)?, it.get("newText")?.as_str()?.to_owned(), it.clone()))
}

/// Leaves out equal and overlapping edits of later parts; also the places of the parts that had overlapping ones.
fn admitted(parts: &[(usize, Vec<Edit>)]) -> (Vec<Edit>, Vec<usize>) {
    let (mut all, mut overlapping): (Vec<Edit>, Vec<usize>) = (Vec::new(), Vec::new());
    for (n, edits) in parts {
        let before = all.clone();
        for edit in edits {
            let of_file = || before.iter().filter(|it| it.0 == edit.0);
            if of_file().any(|it| it.1 == edit.1 && it.2 == edit.2) {
                continue;
            }
            let [start, end] = edit.1;
            match of_file().any(|it| it.1[0] < end && start < it.1[1]) {
                true => overlapping.push(*n),
                false => all.push(edit.clone()),
            }
        }
    }
    overlapping.dedup();
    (all, overlapping)
}

pub(super) fn edits(case: &Case, merged: &Merged, told: &str) -> Value {
    let (Heard { parts, settled }, malformed) = hear(case, |_, it| {
        let Some(list) = it.as_array() else { return Said::Malformed };
        let edits: Vec<Edit> = list.iter().filter_map(|it| read_edit(None, it)).collect();
        match (list.len(), edits.len()) {
            (0, _) => Said::Nothing,
            (_, 0) => Said::Malformed,
            (all, some) => Said::Something(edits, some < all),
        }
    });
    assert_eq!(merged.malformed, malformed, "{told}");
    if let Some(settled) = settled {
        return settled;
    }
    let (all, overlapping) = admitted(&parts);
    assert_eq!(merged.overlapping, overlapping, "{told}");
    all.into_iter().map(|it| it.3).collect()
}

/// Edits, operations on files, and whether something was left out.
type Changes = (Vec<Edit>, Vec<Value>, bool);

/// `None`: not what a member may answer.
fn changes(edit: &Value, as_list: bool) -> Option<Changes> {
    let (mut edits, mut operations, mut left_out) = (Vec::new(), Vec::new(), false);
    let mut read = |file: Option<&'static str>, list: &Value| {
        let Some(list) = list.as_array().filter(|_| file.is_some()) else { return true };
        let good: Vec<Edit> = list.iter().filter_map(|it| read_edit(file, it)).collect();
        let is_less = good.len() < list.len();
        edits.extend(good);
        is_less
    };
    let (map, list) = (some(edit, "changes"), some(edit, "documentChanges"));
    match (map, list) {
        (None | Some(_), Some(list)) if as_list || map.is_none() => {
            for it in list.as_array()? {
                if it.get("kind").is_some() {
                    operations.push(it.clone());
                } else {
                    let file = it.get("textDocument").and_then(|it| file(&it["uri"]));
                    left_out |= it.get("edits").is_none_or(|it| read(file, it));
                }
            }
        }
        (Some(map), _) => {
            for (uri, list) in map.as_object()? {
                left_out |= read(file(&json!(uri)), list);
            }
        }
        (None, _) => drop(edit.as_object()?),
    }
    Some((edits, operations, left_out))
}

/// What is done to each file is what the members want, however it is arranged.
pub(super) fn workspace_edit(case: &Case, result: &Value, merged: &Merged, told: &str) {
    let takes_list =
        case.client["capabilities"]["workspace"]["workspaceEdit"]["documentChanges"] == json!(true);
    let says = |it: &Value| changes(it, takes_list);
    let mut parts = Vec::new();
    let mut operations: Vec<(usize, Value)> = Vec::new();
    for (n, part) in case.parts.iter().enumerate() {
        let Some((edits, files, _)) = says(part) else { continue };
        for file in files {
            if !operations.iter().any(|(by, it)| *by != n && *it == file) {
                operations.push((n, file));
            }
        }
        parts.push((n, edits));
    }
    let (settled, _) = hear(case, |_, it| match says(it) {
        None => Said::Malformed,
        Some(changes) => match is_empty(it, takes_list) {
            true if changes.2 => Said::Malformed,
            true => Said::Nothing,
            false => Said::Something((), changes.2),
        },
    });
    if let Some(settled) = settled.settled {
        return assert_eq!(*result, settled, "{told}");
    }
    let (mut expected, overlapping) = admitted(&parts);
    assert_eq!(merged.overlapping, overlapping, "{told}");
    let is_list = result.get("documentChanges").is_some();
    assert!(!is_list || takes_list, "{told}");
    let (mut found, found_operations, left_out) = changes(result, is_list).expect(told);
    assert!(!left_out, "{told}");
    let order = |it: &Edit| (it.0, it.1, it.2.clone());
    expected.sort_by_key(order);
    found.sort_by_key(order);
    assert_eq!(found, expected, "{told}");
    // An editor that takes no list has no words for them.
    let operations: Vec<Value> = operations.into_iter().map(|(_, it)| it).filter(|_| is_list).collect();
    assert_eq!(found_operations, operations, "{told}");
}

/// Whether there is neither a file nor an operation in it.
fn is_empty(edit: &Value, as_list: bool) -> bool {
    let (map, list) = (some(edit, "changes"), some(edit, "documentChanges"));
    match list.filter(|_| as_list || map.is_none()).and_then(Value::as_array) {
        Some(list) => !list.iter().any(|it| {
            let is_edit = it.get("textDocument").is_some() && it.get("edits").is_some_and(Value::is_array);
            it.get("kind").is_some() || is_edit
        }),
        None => {
            let map = map.and_then(Value::as_object);
            map.is_none_or(|it| !it.values().any(Value::is_array))
        }
    }
}
