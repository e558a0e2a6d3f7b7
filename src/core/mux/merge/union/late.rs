//! What the editor has been told of the group's abilities, and what a member adds to that later.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{commands, options::unite, to_json};
use crate::{
    core::mux::merge::{
        abilities::{IncludeText, Sync, SyncKind},
        capabilities::{self, Capability, Options, WILL_SAVE_WAIT_UNTIL, capabilities, is_yes, strings},
    },
    rpc::{decode, values},
    util::json,
};

/// What a member that has come late adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LateMember {
    /// Parameters of the `client/registerCapability` for what this editor can take.
    pub(crate) register: Option<Vec<u8>>,
    /// Features that it cannot take, as people read them.
    pub(crate) missing: Vec<String>,
}

/// What a member adds that was not there when the editor was told. `told`: the answer to its `initialize`; `editor`: the
/// parameters of that; `result`: what the member has answered; `before`: its answer of an earlier start, with which the
/// editor was told.
///
/// More characters, kinds or names of something that was told are added to nothing: they are used for routing alone.
pub(crate) fn late(
    told: &[u8],
    editor: &[u8],
    member: &str,
    (before, result): (Option<&[u8]>, &[u8]),
) -> LateMember {
    let (told, client, own) = (capabilities(told), capabilities(editor), capabilities(result));
    let before = before.map(capabilities).unwrap_or_default();
    let (registrations, missing) = (Vec::new(), Vec::new());
    let mut late = Late { client: &client, before: &before, member, registrations, missing };
    late.add_documents(&told, &own);
    for capability in capabilities::ALL {
        if let Some(own) = capability.of(&own) {
            late.add(capability, capability.of(&told), own);
        }
    }
    let params = json!({"registrations": late.registrations});
    LateMember { register: (!late.registrations.is_empty()).then(|| to_json(&params)), missing: late.missing }
}

struct Late<'a> {
    client: &'a Map<String, Value>,
    before: &'a Map<String, Value>,
    member: &'a str,
    registrations: Vec<Value>,
    missing: Vec<String>,
}

impl Late<'_> {
    fn add(&mut self, capability: &Capability, told: Option<&Value>, own: &Value) {
        let can_take = capability.is_dynamic(self.client);
        match told {
            None if can_take => self.register(capability, options_of(capability, own)),
            None => self.miss(capability.feature),
            Some(told) if can_take => {
                let own = match capability.of(self.before) {
                    Some(before) => unknown_before(capability, before, own),
                    None => Some(Cow::Borrowed(own)),
                };
                if let Some(options) = own.and_then(|own| more(capability, told, &own, self.member)) {
                    self.register(capability, options);
                }
            }
            Some(_) => {}
        }
    }

    /// What `textDocumentSync` is about has methods of its own.
    fn add_documents(&mut self, told: &Map<String, Value>, own: &Map<String, Value>) {
        let sync = |it: &Map<String, Value>| it.get("textDocumentSync").filter(|it| is_yes(it)).map(Sync::of);
        let (told, own) = (sync(told).unwrap_or_default(), sync(own).unwrap_or_default());
        let mut added: Vec<(&str, Value)> = Vec::new();
        if own.open_close && !told.open_close {
            added.extend([("textDocument/didOpen", json!({})), ("textDocument/didClose", json!({}))]);
        }
        if own.change != SyncKind::None && told.change == SyncKind::None {
            let kind = if own.change == SyncKind::Full { 1 } else { 2 };
            added.push(("textDocument/didChange", json!({"syncKind": kind})));
        }
        if own.will_save && !told.will_save {
            added.push(("textDocument/willSave", json!({})));
        }
        // lspool has the text, if only that is missing.
        if let (Some(text), None) = (own.save, told.save) {
            let options = json!({"includeText": text == IncludeText::With});
            added.push(("textDocument/didSave", options));
        }
        for (method, options) in added {
            match WILL_SAVE_WAIT_UNTIL.is_dynamic(self.client) {
                true => self.push(method, options, &["textDocument"]),
                false => self.miss(method),
            }
        }
    }

    fn register(&mut self, capability: &Capability, options: Value) {
        self.push(capability.registered, options, capability.client);
    }

    fn push(&mut self, method: &str, mut options: Value, client: &[&str]) {
        if let (["textDocument", ..], Value::Object(options)) = (client, &mut options) {
            options.entry("documentSelector").or_insert(Value::Null);
        }
        let id = format!("lspool/{}/{method}", self.member);
        self.registrations.push(json!({"id": id, "method": method, "registerOptions": options}));
    }

    fn miss(&mut self, feature: &str) {
        let words = words(feature);
        if !words.is_empty() && !self.missing.contains(&words) {
            self.missing.push(words);
        }
    }
}

/// What an answer to `initialize` says, as options of a registration.
fn options_of(capability: &Capability, own: &Value) -> Value {
    let mut options = own.as_object().cloned().unwrap_or_default();
    if capability.options != Options::Folders {
        options.remove("id");
    }
    Value::Object(options)
}

/// What the editor was not told with an earlier answer of the member.
fn unknown_before<'a>(capability: &Capability, before: &Value, own: &'a Value) -> Option<Cow<'a, Value>> {
    match capability.options {
        Options::Commands => {
            let before = strings(before, "commands").unwrap_or_default();
            let mut own = strings(own, "commands").unwrap_or_default();
            own.retain(|it| !before.contains(it));
            Some(Cow::Owned(json!({"commands": own})))
        }
        Options::Diagnostics => None,
        Options::Plain
        | Options::CodeActions
        | Options::Completion
        | Options::Files
        | Options::Folders
        | Options::Notebooks
        | Options::OnType
        | Options::Schemes
        | Options::Signatures
        | Options::Sync
        | Options::Tokens => Some(Cow::Borrowed(own)),
    }
}

/// What there is in these options beyond what was told, if each registration of the capability stands for itself.
fn more(capability: &Capability, told: &Value, own: &Value, member: &str) -> Option<Value> {
    match capability.options {
        Options::Commands => {
            let told = strings(told, "commands").unwrap_or_default();
            let own = strings(own, "commands").unwrap_or_default();
            // Of a name that is taken, the first keeps it.
            let all = commands([("", &told[..]), (member, &own[..])]);
            let more: Vec<String> = all.into_iter().filter(|it| it.member == 1).map(|it| it.told).collect();
            (!more.is_empty()).then(|| json!({"commands": more}))
        }
        Options::Files => only_new("filters", told, own),
        Options::Schemes => only_new("schemes", told, own),
        Options::Notebooks => only_new("notebookSelector", told, own),
        // An editor that takes registrations asks each provider by itself.
        Options::Diagnostics => Some(options_of(capability, own)),
        Options::Plain
        | Options::CodeActions
        | Options::Completion
        | Options::Folders
        | Options::OnType
        | Options::Signatures
        | Options::Sync
        | Options::Tokens => None,
    }
}

fn only_new(key: &str, told: &Value, own: &Value) -> Option<Value> {
    let told = told.get(key).and_then(Value::as_array);
    let is_new = |it: &&Value| told.is_none_or(|all| !all.contains(it));
    let new: Vec<Value> = own.get(key)?.as_array()?.iter().filter(is_new).cloned().collect();
    let mut options = own.as_object()?.clone();
    options.remove("id");
    options.insert(key.to_owned(), Value::Array(new.clone()));
    (!new.is_empty()).then_some(Value::Object(options))
}

/// A feature or a method as people read it.
fn words(feature: &str) -> String {
    let name = feature.trim_end_matches("/*");
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.strip_prefix("prepare").unwrap_or(name);
    let mut words = String::new();
    for letter in name.chars() {
        match letter {
            '-' => words.push(' '),
            letter if letter.is_ascii_uppercase() => {
                if !words.is_empty() {
                    words.push(' ');
                }
                words.push(letter.to_ascii_lowercase());
            }
            letter => words.push(letter),
        }
    }
    words
}

/// What a registration of a member is to an editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Addition {
    /// It has been told of that: the registration is for lspool alone.
    Known,
    /// It stands for itself.
    New,
    /// It stands for itself, with the names that the editor has for these commands.
    Commands(Vec<String>),
    /// It is added to those that the editor has of this method: `registerOptions`. An editor that has two asks twice.
    Shared(Value),
}

/// What a registration adds to what the editor has been told. `told`: the answer to its `initialize`; `one`: `{id, method,
/// registerOptions}`.
pub(crate) fn addition(told: &[u8], one: &[u8]) -> Addition {
    let Some((method, own)) = registration(one) else { return Addition::New };
    let Some(capability) = capabilities::registered(&method) else { return Addition::New };
    let told = capabilities(told);
    let told = capability.of(&told);
    let has_name = |it: &Value| it.get("identifier").is_some_and(Value::is_string);
    match capability.options {
        Options::Commands => Addition::Commands(strings(&own, "commands").unwrap_or_default()),
        // It has a name of its own, under which it is asked.
        Options::Diagnostics if has_name(&own) => Addition::New,
        Options::Diagnostics if told.is_some_and(has_name) => Addition::Shared(own),
        Options::Files | Options::Notebooks | Options::Schemes => match told {
            Some(told) => more(capability, told, &own, "").map_or(Addition::Known, Addition::Shared),
            None => Addition::Shared(own),
        },
        Options::Plain
        | Options::CodeActions
        | Options::Completion
        | Options::Diagnostics
        | Options::Folders
        | Options::OnType
        | Options::Signatures
        | Options::Sync
        | Options::Tokens => match told {
            Some(_) => Addition::Known,
            None => Addition::Shared(own),
        },
    }
}

/// What several members have registered of a method, by rank, as one registration.
pub(crate) fn shared(method: &str, all: &[&Value]) -> Value {
    let (Some(capability), [_, _, ..]) = (capabilities::registered(method), all) else {
        return all.first().map_or(Value::Null, |it| (*it).clone());
    };
    let all: Vec<(&str, &Value)> = all.iter().map(|it| ("", *it)).collect();
    let united = unite(capability.options, &all);
    if united.is_object() { united } else { json!({}) }
}

fn registration(raw: &[u8]) -> Option<(String, Value)> {
    let [method, options] = values(raw, ["method", "registerOptions"]);
    let options = options.map_or(Value::Null, |it| json::read(it).unwrap_or(Value::Null));
    Some((decode(method?)?.into_owned(), options))
}
