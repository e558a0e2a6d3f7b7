//! Compares requests and ignores values that differ from session to session.
//!
//! Ids, tokens, files, times, ports, secrets and versions of documents are compared by their form. A member that is
//! `null` counts as missing, and the order of members does not matter.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt::{self, Write as _},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use serde_json::{Map, Value};

use super::names::{Class, Names, Pair};
use crate::{recording::is_secret_name, util::redact::redact, util::text::shorten};

/// Whether a member does not matter, because it belongs to the client or to the moment.
fn is_free(key: &str, beside: &Map<String, Value>, parent: &str) -> bool {
    match key {
        "processId" | "workDoneToken" | "partialResultToken" | "sessionId" | "machineId" | "timestamp" => {
            true
        }
        "version" => beside.contains_key("uri"),
        // The name of a folder depends on its path.
        "name" => parent == "workspaceFolders",
        _ => Class::of(key).is_some(),
    }
}

/// The form of a text that differs from session to session, if it has one.
fn look(key: &str, text: &str) -> Option<&'static str> {
    if is_place(key, text) {
        Some("<place>")
    } else if is_uuid(text) {
        Some("<uuid>")
    } else if is_time(text) {
        Some("<time>")
    } else if is_secret(key, text) {
        Some("<secret>")
    } else {
        None
    }
}

fn is_place(key: &str, text: &str) -> bool {
    let is_uri = ["file://", "untitled:", "vscode-"].iter().any(|it| text.starts_with(it));
    let lower = key.to_ascii_lowercase();
    let is_said = ["path", "uri", "directory", "cwd", "folder"].iter().any(|it| lower.ends_with(it));
    let is_path = text.starts_with('/') && !text.contains(char::is_whitespace);
    is_uri || is_path && (is_said || text.matches('/').count() > 1)
}

fn is_uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == 36
        && text.bytes().enumerate().all(
            |(n, it)| {
                if dashes.contains(&n) { it == b'-' } else { it.is_ascii_hexdigit() }
            },
        )
}

fn is_time(text: &str) -> bool {
    let form = b"dddd-dd-ddTdd:dd";
    text.len() >= form.len()
        && text
            .bytes()
            .zip(form)
            .all(|(it, form)| if *form == b'd' { it.is_ascii_digit() } else { it == *form })
}

fn is_secret(key: &str, text: &str) -> bool {
    is_secret_name(key) || text.contains("<secret") || matches!(redact(text), Cow::Owned(_))
}

/// The name that counts for a member: everything below the name of a secret is secret.
fn named<'a>(key: &'a str, outer: &'a str) -> &'a str {
    if is_secret_name(outer) { outer } else { key }
}

/// A URL of this machine without its port.
fn without_port(text: &str) -> Option<String> {
    let hosts = ["http://127.0.0.1:", "http://localhost:"];
    let rest = hosts.iter().find_map(|it| text.strip_prefix(it))?;
    let end = rest.find('/').unwrap_or(rest.len());
    Some(format!("<loopback>{}", &rest[end..]))
}

/// The part of a value that must be the same.
fn shape(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort();
            let kept = keys.into_iter().filter(|it| !is_free(it, members, key) && !members[*it].is_null());
            Value::Object(kept.map(|it| (it.clone(), shape(named(it, key), &members[it]))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|it| shape(key, it)).collect()),
        Value::String(text) => Value::String(match look(key, text) {
            Some(look) => look.to_owned(),
            None => without_port(text).unwrap_or_else(|| text.clone()),
        }),
        other => other.clone(),
    }
}

/// A number that is equal for equal shapes.
pub(super) fn fingerprint(params: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    shape("", params).to_string().hash(&mut hasher);
    hasher.finish()
}

/// The differences of two values. In `live` the names are those of the recording.
pub(super) fn differences(recorded: &Value, live: &Value) -> Vec<Difference> {
    let mut all = Vec::new();
    collect(&mut String::new(), "", recorded, live, &mut all);
    all
}

fn collect(path: &mut String, key: &str, recorded: &Value, live: &Value, all: &mut Vec<Difference>) {
    let len = path.len();
    match (recorded, live) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in keys {
                if is_free(name, a, key) || is_free(name, b, key) {
                    continue;
                }
                path.push_str(if len == 0 { "" } else { "." });
                path.push_str(name);
                let null = Value::Null;
                let (a, b) = (a.get(name).unwrap_or(&null), b.get(name).unwrap_or(&null));
                collect(path, named(name, key), a, b, all);
                path.truncate(len);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for n in 0..a.len().max(b.len()) {
                write!(path, "[{n}]").ok();
                let null = Value::Null;
                collect(path, key, a.get(n).unwrap_or(&null), b.get(n).unwrap_or(&null), all);
                path.truncate(len);
            }
        }
        (a, b) if shape(key, a) == shape(key, b) => {}
        (a, b) => all.push(Difference { path: path.clone(), recorded: a.clone(), live: b.clone() }),
    }
}

/// A difference between recorded and live values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) path: String,
    pub(super) recorded: Value,
    pub(super) live: Value,
}

impl Difference {
    /// The size of the difference: the characters between the common beginning and end.
    pub(super) fn size(&self) -> usize {
        let (a, b) = (self.recorded.to_string(), self.live.to_string());
        let (longest, shortest) = (a.len().max(b.len()), a.len().min(b.len()));
        let start = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let end = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
        longest - (start + end).min(shortest)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "params" } else { &self.path };
        write!(f, "{path}: recorded {}, here {}", short(&self.recorded), short(&self.live))
    }
}

/// An excerpt of a value.
pub(super) fn short(value: &Value) -> String {
    const LONGEST: usize = 60;
    if value.is_null() {
        return "nothing".to_owned();
    }
    shorten(&redact(&value.to_string()), LONGEST)
}

/// The names that must be pairs for two values of one shape to be equal.
pub(super) fn pairs(recorded: &Value, live: &Value, names: &Names) -> Vec<Pair> {
    let mut all = Vec::new();
    pair_up("", recorded, live, names, &mut all);
    all
}

fn pair_up(key: &str, recorded: &Value, live: &Value, names: &Names, all: &mut Vec<Pair>) {
    let is_there = !recorded.is_null() && !live.is_null();
    if let Some(class) = Class::of(key).filter(|_| is_there) {
        all.push(Pair { class, recorded: recorded.clone(), live: live.clone() });
        return;
    }
    match (recorded, live) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, it) in a {
                if let Some(other) = b.get(key) {
                    pair_up(key, it, other, names, all);
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for (it, other) in a.iter().zip(b) {
                pair_up(key, it, other, names, all);
            }
        }
        (Value::String(a), Value::String(b))
            // A place may also be the name of its folder. An equal id is one of ours.
            if is_place(key, a) || is_uuid(a) && names.text_to_recorded(b) != *a =>
        {
            all.push(Pair { class: Class::Place, recorded: recorded.clone(), live: live.clone() });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn are_same(a: &Value, b: &Value) -> bool {
        let is_same = fingerprint(a) == fingerprint(b);
        assert_eq!(is_same, differences(a, b).is_empty(), "{a} {b}");
        is_same
    }

    #[test]
    fn comparison_ignores_values_that_vary_between_sessions() {
        for (a, b) in [
            (json!({"workDoneToken": 1, "x": 1}), json!({"x": 1, "workDoneToken": "t"})),
            (json!({"conversationId": "a"}), json!({})),
            (json!({"x": null}), json!({})),
            (json!({"uri": "file:///a", "version": 1}), json!({"uri": "file:///b/c", "version": 7})),
            (
                json!(["8c805c1e-b8c0-4376-9df8-f7f3a6d1ed21"]),
                json!(["00000000-b8c0-4376-9df8-f7f3a6d1ed21"]),
            ),
            (json!({"at": "2026-01-01T10:00:00Z"}), json!({"at": "2026-11-28T06:00:00.123+02:00"})),
            (json!({"accessToken": "<secret-1>"}), json!({"accessToken": "gho_abcdef"})),
            (json!({"apiKey": "<secret-1>"}), json!({"apiKey": "letters"})),
            (json!({"userCode": "<secret-1>"}), json!({"userCode": "AB-12"})),
            (json!({"headers": {"X": ["<secret-1>"]}}), json!({"headers": {"X": ["any"]}})),
            (json!("http://127.0.0.1:PORT/login"), json!("http://127.0.0.1:4711/login")),
            (
                json!({"workspaceFolders": [{"uri": "file:///w", "name": "w"}]}),
                json!({"workspaceFolders": [{"uri": "file:///tmp/q", "name": "q"}]}),
            ),
        ] {
            assert!(are_same(&a, &b), "{a} {b}");
        }
        for (a, b) in [
            (json!({"x": 1}), json!({"x": 2})),
            (json!({"x": 1}), json!({})),
            (json!([1]), json!([1, 2])),
            (json!({"version": 1}), json!({"version": 2})),
            (json!("/fix"), json!("/explain")),
            (json!({"name": "w"}), json!({"name": "q"})),
            (json!("http://127.0.0.1:1/login"), json!("http://127.0.0.1:1/other")),
        ] {
            assert!(!are_same(&a, &b), "{a} {b}");
        }
    }

    #[test]
    fn differences_are_readable_and_without_secrets() {
        let recorded = json!({"turns": [{"request": "one"}], "b": {"c": 1}, "gone": true});
        let live = json!({"turns": [{"request": "two gho_abcdef123"}, 2], "b": 7});
        let all = differences(&recorded, &live);
        let text: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                r#"b: recorded {"c":1}, here 7"#,
                "gone: recorded true, here nothing",
                r#"turns[0].request: recorded "one", here "two <secret>""#,
                "turns[1]: recorded nothing, here 2",
            ]
        );
        let long = Difference { path: String::new(), recorded: json!("é".repeat(100)), live: json!(null) };
        assert_eq!(long.to_string(), format!("params: recorded \"{}…, here nothing", "é".repeat(58)));
    }
}
