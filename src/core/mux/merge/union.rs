//! The capabilities of all members as one answer to `initialize`, and what each member is offered.
//!
//! Members are given in rank order. **Their order matters only where a rank decides**: of two that know the same option,
//! the better one. What only one member can is told as that member says it.

mod late;
mod legends;
mod narrow;
mod offer;
mod options;

use serde_json::{Map, Value, json};

use self::options::{joined, unite};
pub(crate) use self::{
    late::{Addition, LateMember, addition, late, shared},
    legends::{Legend, MemberLegends, legends},
    narrow::narrow,
    offer::{laid_over, offer},
};
use super::{
    abilities::{IncludeText, Sync, SyncKind},
    capabilities::{self, capabilities, is_yes},
};
use crate::{rpc::members as fields, util::json};

/// The answer to the editor's `initialize`. `members`, in rank order: name, and what each has answered.
pub(crate) fn union(members: &[(&str, &[u8])]) -> Vec<u8> {
    match members {
        // Alone it stays as it is.
        [(_, result)] => result.to_vec(),
        several => to_json(&Value::Object(united(several))),
    }
}

fn united(members: &[(&str, &[u8])]) -> Map<String, Value> {
    let all: Vec<(&str, Map<String, Value>)> =
        members.iter().map(|(name, result)| (*name, capabilities(result))).collect();
    let mut united = Map::new();
    united.insert("capabilities".to_owned(), Value::Object(united_capabilities(&all)));
    for (_, result) in members {
        for (key, range) in fields(result) {
            // The editor is told how all count, and clangd's own word for it is not of all.
            let is_own = matches!(&*key, "capabilities" | "serverInfo" | "offsetEncoding");
            if !is_own && !united.contains_key(&*key) {
                united.insert(key.into_owned(), json::read(&result[range]).unwrap_or(Value::Null));
            }
        }
    }
    united.insert("serverInfo".to_owned(), server_info(members));
    united
}

/// The names of all, and the versions of those that have said one.
fn server_info(members: &[(&str, &[u8])]) -> Value {
    let told = |result: &[u8], key| crate::rpc::text(result, &["serverInfo", key]);
    let names =
        members.iter().map(|(name, result)| told(result, "name").unwrap_or_else(|| (*name).to_owned()));
    let names = names.collect::<Vec<_>>().join("+");
    let versions: Vec<_> = members.iter().filter_map(|(_, result)| told(result, "version")).collect();
    match versions.is_empty() {
        true => json!({"name": names}),
        false => json!({"name": names, "version": versions.join(",")}),
    }
}

fn united_capabilities(all: &[(&str, Map<String, Value>)]) -> Map<String, Value> {
    let mut united = Map::new();
    united.insert("positionEncoding".to_owned(), json!("utf-16"));
    for key in keys(all.iter().map(|(_, it)| it)) {
        let told = all.iter().filter_map(|(name, it)| Some((*name, it.get(key)?)));
        let told: Vec<(&str, &Value)> = told.collect();
        let values = told.iter().map(|(_, it)| *it);
        let value = match key {
            "positionEncoding" => continue,
            "textDocumentSync" => united_sync(&yes(values)),
            "workspace" => united_workspace(&told),
            "experimental" => Some(by_key(&values.collect::<Vec<_>>())),
            key => provider(&[key], &told),
        };
        united.extend(value.map(|it| (key.to_owned(), it)));
    }
    united
}

/// What several say of one capability; `None`: all of them say *no*.
fn provider(server: &[&str], told: &[(&str, &Value)]) -> Option<Value> {
    let known = capabilities::ALL.iter().find(|it| it.server == server);
    let able: Vec<(&str, &Value)> = told.iter().copied().filter(|(_, it)| is_yes(it)).collect();
    match (known, &able[..]) {
        (Some(_), []) => None,
        // What nobody here knows may mean something else by *no*.
        (None, []) => told.first().map(|(_, it)| (*it).clone()),
        (None, [(_, best), ..]) => Some((*best).clone()),
        (Some(_), [(_, only)]) => Some((*only).clone()),
        (Some(it), several) => Some(unite(it.options, several)),
    }
}

fn united_sync(able: &[&Value]) -> Option<Value> {
    if let [only] = able {
        return Some((*only).clone());
    }
    let sync = able.iter().map(|it| Sync::of(it)).reduce(Sync::or)?;
    let change = match sync.change {
        SyncKind::None => 0,
        SyncKind::Full => 1,
        SyncKind::Incremental => 2,
    };
    let mut told = Map::new();
    told.insert("openClose".to_owned(), json!(sync.open_close));
    told.insert("change".to_owned(), json!(change));
    if sync.will_save {
        told.insert("willSave".to_owned(), json!(true));
    }
    if sync.will_save_wait_until {
        told.insert("willSaveWaitUntil".to_owned(), json!(true));
    }
    if let Some(text) = sync.save {
        told.insert("save".to_owned(), json!({"includeText": text == IncludeText::With}));
    }
    Some(Value::Object(told))
}

fn united_workspace(told: &[(&str, &Value)]) -> Option<Value> {
    let all: Vec<(&str, &Map<String, Value>)> =
        told.iter().filter_map(|(name, it)| Some((*name, it.as_object()?))).collect();
    let mut united = Map::new();
    for key in keys(all.iter().map(|(_, it)| *it)) {
        let told: Vec<(&str, &Value)> =
            all.iter().filter_map(|(name, it)| Some((*name, it.get(key)?))).collect();
        let values = told.iter().map(|(_, it)| *it);
        let value = match key {
            "workspaceFolders" => folders(&yes(values)),
            "fileOperations" => operations(&told),
            key => provider(&["workspace", key], &told),
        };
        united.extend(value.map(|it| (key.to_owned(), it)));
    }
    (!united.is_empty()).then_some(Value::Object(united))
}

fn folders(able: &[&Value]) -> Option<Value> {
    match able {
        [] => None,
        [only] => Some((*only).clone()),
        several => {
            let mut folders = joined(several);
            // An id under which one of several takes it back would take it from all.
            let told = several.iter().filter_map(|it| it.get("changeNotifications")).filter(|it| is_yes(it));
            if told.count() > 1 {
                folders.insert("changeNotifications".to_owned(), json!(true));
            }
            Some(Value::Object(folders))
        }
    }
}

fn operations(told: &[(&str, &Value)]) -> Option<Value> {
    let all: Vec<(&str, &Map<String, Value>)> =
        told.iter().filter_map(|(name, it)| Some((*name, it.as_object()?))).collect();
    let mut united = Map::new();
    for key in keys(all.iter().map(|(_, it)| *it)) {
        let told: Vec<(&str, &Value)> =
            all.iter().filter_map(|(name, it)| Some((*name, it.get(key)?))).collect();
        let value = provider(&["workspace", "fileOperations", key], &told);
        united.extend(value.map(|it| (key.to_owned(), it)));
    }
    (!united.is_empty()).then_some(Value::Object(united))
}

/// Objects of which nothing is known: each key as the best rank has it that does not say *no*.
fn by_key(values: &[&Value]) -> Value {
    let objects: Vec<&Map<String, Value>> = values.iter().filter_map(|it| it.as_object()).collect();
    if objects.is_empty() {
        return yes(values.iter().copied()).first().map_or(Value::Null, |it| (*it).clone());
    }
    let best = |key: &str| {
        let all = || objects.iter().filter_map(|it| it.get(key));
        all().find(|it| is_yes(it)).or_else(|| all().next()).cloned().unwrap_or(Value::Null)
    };
    Value::Object(keys(objects.iter().copied()).into_iter().map(|it| (it.to_owned(), best(it))).collect())
}

fn yes<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<&'a Value> {
    values.filter(|it| is_yes(it)).collect()
}

/// The keys of some objects, each once.
fn keys<'a>(objects: impl Iterator<Item = &'a Map<String, Value>>) -> Vec<&'a str> {
    let mut keys: Vec<&str> = Vec::new();
    for key in objects.flat_map(Map::keys) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    keys
}

fn to_json(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value is always valid JSON")
}

/// A command as the editor is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) told: String,
    /// The place of the member that runs it.
    pub(crate) member: usize,
    pub(crate) own: String,
}

/// What the commands of all are called, in rank order of their members. Of a name that several have, the best rank keeps
/// it.
pub(crate) fn commands<'a>(members: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Vec<Command> {
    let mut all: Vec<Command> = Vec::new();
    for (member, (name, commands)) in members.into_iter().enumerate() {
        for own in commands {
            let is_told = |told: &str| all.iter().any(|it| it.told == *told);
            let is_repeated = all.iter().any(|it| it.member == member && it.own == *own);
            let told = if is_told(own) { format!("{own}@{name}") } else { own.clone() };
            if !is_repeated && !is_told(&told) {
                all.push(Command { told, member, own: own.clone() });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
