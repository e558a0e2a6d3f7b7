//! The stable part of a message: its members, each with its values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Drift;

/// By path, the values.
pub(super) type Fields = BTreeMap<String, BTreeSet<String>>;

/// Messages of one kind, one after the other.
#[derive(Debug)]
pub(super) struct Item {
    /// The kinds of reports.
    pub(super) label: String,
    pub(super) fields: Fields,
    /// Their texts, which may be cut anywhere.
    text: String,
}

/// The place of the text.
const TEXT: &str = "the text";

impl Item {
    pub(super) fn new(label: String, message: &Value) -> Item {
        let mut item = Item { label, fields: Fields::new(), text: String::new() };
        for part in ["params", "result", "error"] {
            let Some(value) = message.get(part) else { continue };
            let value =
                if part == "params" && value.get("value").is_some() { &value["value"] } else { value };
            item.take("", if part == "params" { "" } else { part }, value);
        }
        item.say();
        item
    }

    /// Takes another one in.
    pub(super) fn join(&mut self, other: Item) {
        self.text += &other.text;
        merge(&mut self.fields, other.fields);
        self.say();
    }

    fn say(&mut self) {
        if !self.text.is_empty() {
            self.fields.insert(TEXT.to_owned(), BTreeSet::from([format!("{:?}", text(&self.text))]));
        }
    }

    fn take(&mut self, path: &str, key: &str, value: &Value) {
        let path = match (path, key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        };
        match value {
            Value::String(text) if key == "reply" => self.text += text,
            Value::Object(members) if !members.is_empty() => {
                for (name, it) in members {
                    self.take(&path, name, it);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for it in items {
                    self.take(&format!("{path}[{}]", name(it)), "", it);
                }
            }
            value => {
                self.fields.entry(path).or_default().insert(scalar(key, value));
            }
        }
    }
}

/// By what an item of a list is known.
fn name(item: &Value) -> &str {
    ["name", "section", "category", "method"].iter().find_map(|it| item[*it].as_str()).unwrap_or_default()
}

/// Puts the values of one into those of another.
pub(super) fn merge(fields: &mut Fields, more: Fields) {
    for (path, values) in more {
        if path != TEXT {
            fields.entry(path).or_default().extend(values);
        }
    }
}

/// Names of numbers that vary each time, or that only people read.
const COUNTS: [&str; 6] = ["tokens", "percentage", "tokenlimit", "time", "_at", "timestamp"];

fn scalar(key: &str, value: &Value) -> String {
    let lower = key.to_ascii_lowercase();
    match value {
        Value::Number(_) if COUNTS.iter().any(|it| lower.ends_with(it)) => "a number".to_owned(),
        Value::String(it) => format!("{:?}", text(it)),
        other => other.to_string(),
    }
}

/// A text without its varying parts.
fn text(text: &str) -> String {
    let is_word = |it: char| it.is_ascii_alphanumeric() || "-_.+:".contains(it);
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        out += &rest[..start];
        let end = rest[start..].find(|it| !is_word(it)).map_or(rest.len(), |it| start + it);
        out += word(&rest[start..end]);
        rest = &rest[end..];
    }
    out + rest
}

fn word(word: &str) -> &str {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let parts: Vec<&str> = word.split('-').collect();
    let is_hex = |it: &str| it.bytes().all(|it| it.is_ascii_hexdigit());
    if parts.iter().map(|it| it.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|it| is_hex(it)) {
        return "ID";
    }
    // A call of a tool, a date, a version, and what lspool calls something.
    let is_call = word.strip_prefix("call_").is_some_and(|it| digits == it.len());
    let is_date = digits >= 8 && word.contains('-') && word.as_bytes()[0].is_ascii_digit();
    let is_version = word.split('.').count() == 3
        && word.split('.').all(|it| it.starts_with(|it: char| it.is_ascii_digit()));
    match () {
        () if is_call => "CALL",
        () if is_date => "TIME",
        () if is_version => "VERSION",
        () if word.starts_with("lspool-") => "ID",
        () if word.starts_with("secret-") => "SECRET",
        () => word,
    }
}

/// The kind of a progress report.
pub(super) fn progress(value: &Value) -> String {
    let rounds = value["editAgentRounds"].as_array().into_iter().flatten();
    let mut calls = rounds.flat_map(|it| it["toolCalls"].as_array().into_iter().flatten());
    let whose = if value["parentTurnId"].is_null() { "" } else { " of the sub-agent" };
    let what = match (value["kind"].as_str(), calls.next()) {
        (Some("report"), Some(call)) => {
            let word = |it: &Value| it.as_str().unwrap_or("?").to_owned();
            format!("the report that {} is {}", word(&call["name"]), word(&call["status"]))
        }
        (Some("report"), None) if value.get("tokenUsage").is_some() => "the report of tokens".to_owned(),
        (Some("report"), None) => "the report of text".to_owned(),
        (Some(kind), _) => format!("the {kind}"),
        (None, _) => "a progress without a kind".to_owned(),
    };
    what + whose
}

/// The kind of a notification or a request of the server.
pub(super) fn label(method: &str, params: &Value) -> String {
    let categories = params["statuses"].as_array().into_iter().flatten();
    let categories: Vec<&str> = categories.filter_map(|it| it["category"].as_str()).collect();
    match (params["name"].as_str(), categories.is_empty()) {
        (Some(name), _) => format!("{method} {name}"),
        (None, false) => format!("{method} of {}", categories.join(" and ")),
        (None, true) => method.to_owned(),
    }
}

/// Whether only people read it.
pub(super) fn is_log(label: &str) -> bool {
    matches!(label, "window/logMessage" | "copilot/mcpRuntimeLogs")
}

/// Compares members.
pub(super) fn drift(was: &Fields, is: &Fields, of: &str, item: &str, all: &mut Vec<Drift>) {
    let place = |path: &str| match (item, path) {
        ("", path) => format!("`{path}`"),
        (item, TEXT) => format!("{TEXT} in {item}"),
        (item, path) => format!("`{path}` of {item}"),
    };
    let mut say = |path: &str, kind: &str, words: String| {
        all.push(Drift::new(of, format!("{item} {path} {kind}"), words));
    };
    let gone: Vec<&String> = was.keys().filter(|it| !is.contains_key(*it)).collect();
    let mut come: Vec<&String> = is.keys().filter(|it| !was.contains_key(*it)).collect();
    for path in gone {
        // The same value beside it, under another name.
        let is_it = |it: &&String| parent(it) == parent(path) && is[*it] == was[path];
        let words = match come.iter().position(is_it).map(|at| come.remove(at)) {
            Some(other) => format!("{} is called `{other}` now", place(path)),
            None => format!("{} is gone; it was {}", place(path), shown(&was[path], None)),
        };
        say(path, "gone", words);
    }
    for path in come {
        say(path, "new", format!("{} is new: {}", place(path), shown(&is[path], None)));
    }
    for (path, values) in was {
        let Some(now) = is.get(path).filter(|it| *it != values) else { continue };
        say(
            path,
            "changed",
            format!(
                "{} is {} now, and was {}",
                place(path),
                shown(now, Some(values)),
                shown(values, Some(now))
            ),
        );
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(parent, _)| parent)
}

/// Values, as far as a difference needs them: `other` is the compared value.
fn shown(values: &BTreeSet<String>, other: Option<&BTreeSet<String>>) -> String {
    const LONGEST: usize = 100;
    let mut all = Vec::new();
    for it in values {
        if it.chars().count() <= LONGEST {
            all.push(it.clone());
            continue;
        }
        let alike = |other: &String| it.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
        let alike = other.and_then(|all| all.iter().map(alike).max()).unwrap_or_default();
        let start = alike.saturating_sub(LONGEST / 2);
        let before = if start > 0 { "…" } else { "" };
        all.push(before.chars().chain(it.chars().skip(start).take(LONGEST)).chain(['…']).collect());
    }
    all.join(" or ")
}
