//! The options of one capability that several members have.

use serde_json::{Map, Value, json};

use super::{Legend, commands};
use crate::core::mux::merge::capabilities::{Options, is_yes, strings};

/// What several say of a capability that all of them have, in rank order.
pub(super) fn unite(options: Options, told: &[(&str, &Value)]) -> Value {
    let values: Vec<&Value> = told.iter().map(|(_, it)| *it).collect();
    let mut united = joined(&values);
    match options {
        Options::Completion => {
            set_strings(&mut united, &values, "triggerCharacters");
            // They would hold for the items of others. lspool puts them into those of their maker.
            united.remove("allCommitCharacters");
            let items: Vec<&Value> = values.iter().filter_map(|it| it.get("completionItem")).collect();
            if !items.is_empty() {
                united.insert("completionItem".to_owned(), Value::Object(joined(&items)));
            }
        }
        Options::Signatures => {
            set_strings(&mut united, &values, "triggerCharacters");
            set_strings(&mut united, &values, "retriggerCharacters");
        }
        Options::CodeActions => set_kinds(&mut united, &values),
        Options::OnType => set_characters(&mut united, &values),
        Options::Commands => {
            let own: Vec<(&str, Vec<String>)> =
                told.iter().map(|(name, it)| (*name, strings(it, "commands").unwrap_or_default())).collect();
            let all = commands(own.iter().map(|(name, it)| (*name, &it[..])));
            let names: Vec<String> = all.into_iter().map(|it| it.told).collect();
            united.insert("commands".to_owned(), json!(names));
        }
        Options::Tokens => {
            let able = |key| values.iter().filter(|it| it.get(key).is_some_and(is_yes)).count();
            let has = [("full", able("full") > 0), ("range", able("range") == values.len())];
            for (key, is_able) in has {
                united.remove(key);
                united.extend(is_able.then(|| (key.to_owned(), json!(true))));
            }
            let legend = Legend::united(values.iter().map(|it| Legend::of(it)));
            united.insert("legend".to_owned(), legend.to_value());
        }
        Options::Diagnostics => {
            united.remove("identifier");
            for key in ["interFileDependencies", "workspaceDiagnostics"] {
                united.insert(key.to_owned(), json!(values.iter().any(|it| it.get(key).is_some_and(is_yes))));
            }
        }
        Options::Files => set_list(&mut united, &values, "filters"),
        Options::Schemes => set_strings(&mut united, &values, "schemes"),
        Options::Notebooks => set_list(&mut united, &values, "notebookSelector"),
        Options::Plain | Options::Folders | Options::Sync => {}
    }
    match united.is_empty() && values.iter().any(|it| !it.is_object()) {
        true => json!(true),
        false => Value::Object(united),
    }
}

/// Options of the same kind: each as the best rank has it, flags if one has them.
pub(super) fn joined(values: &[&Value]) -> Map<String, Value> {
    let mut joined = Map::new();
    for (key, value) in values.iter().filter_map(|it| it.as_object()).flatten() {
        match joined.get(key) {
            Some(known) if is_yes(known) => {}
            Some(_) | None if value.is_null() => {}
            Some(_) | None => drop(joined.insert(key.clone(), value.clone())),
        }
    }
    // Under it one of them would take it back for all.
    joined.remove("id");
    let selectors = values.iter().map(|it| it.get("documentSelector").filter(|it| it.is_array()));
    match selectors.collect::<Option<Vec<_>>>() {
        Some(_) => set_list(&mut joined, values, "documentSelector"),
        // Somebody serves all documents.
        None => drop(joined.remove("documentSelector")),
    }
    joined
}

/// All strings in a list that some have, each once.
fn set_strings(united: &mut Map<String, Value>, values: &[&Value], key: &str) {
    let lists: Vec<Vec<String>> = values.iter().filter_map(|it| strings(it, key)).collect();
    if !lists.is_empty() {
        united.insert(key.to_owned(), json!(once(lists.into_iter().flatten())));
    }
}

/// All elements of a list that some have, each once.
fn set_list(united: &mut Map<String, Value>, values: &[&Value], key: &str) {
    let lists = values.iter().filter_map(|it| it.get(key)?.as_array());
    let all = once(lists.flatten().cloned());
    united.insert(key.to_owned(), Value::Array(all));
}

/// The kinds of code actions, if all name theirs.
fn set_kinds(united: &mut Map<String, Value>, values: &[&Value]) {
    const KEY: &str = "codeActionKinds";
    let kinds = values.iter().map(|it| strings(it, KEY).filter(|it| !it.is_empty()));
    match kinds.collect::<Option<Vec<_>>>() {
        Some(kinds) => drop(united.insert(KEY.to_owned(), json!(once(kinds.into_iter().flatten())))),
        None => drop(united.remove(KEY)),
    }
}

/// What is typed to format: the first character of the best rank, and all others.
fn set_characters(united: &mut Map<String, Value>, values: &[&Value]) {
    let first = |it: &Value| it.get("firstTriggerCharacter").and_then(Value::as_str).map(str::to_owned);
    let more = |it: &Value| strings(it, "moreTriggerCharacter").unwrap_or_default();
    let all = once(values.iter().flat_map(|it| first(it).into_iter().chain(more(it))));
    let [best, others @ ..] = &all[..] else { return };
    united.insert("firstTriggerCharacter".to_owned(), json!(best));
    united.insert("moreTriggerCharacter".to_owned(), json!(others));
}

fn once<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for it in all {
        if !once.contains(&it) {
            once.push(it);
        }
    }
    once
}
