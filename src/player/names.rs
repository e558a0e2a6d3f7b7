//! Names that differ between client and recording: conversations, turns, files, ids.

use std::collections::BTreeMap;

use serde_json::Value;

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Conversation,
    Turn,
    /// A file, a folder, or an id that its form reveals.
    Place,
}

impl Class {
    /// The kind of a member's value, by its key.
    pub(super) fn of(key: &str) -> Option<Class> {
        match key {
            "conversationId" => Some(Class::Conversation),
            "turnId" | "parentTurnId" | "restoreToTurnId" => Some(Class::Turn),
            _ => None,
        }
    }
}

/// A recorded name with the client's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) class: Class,
    pub(super) recorded: Value,
    pub(super) live: Value,
}

/// Shorter ids might be words, and are replaced only as whole values.
const SHORTEST: usize = 6;

/// Names in both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    live: BTreeMap<(Class, String), Value>,
    recorded: BTreeMap<(Class, String), Value>,
    /// Pairs of recorded and live texts to replace anywhere, the longest first.
    texts: Vec<(String, String)>,
}

fn key(class: Class, value: &Value) -> (Class, String) {
    (class, value.to_string())
}

impl Names {
    /// The client's name.
    pub(super) fn live(&self, class: Class, recorded: &Value) -> Option<&Value> {
        self.live.get(&key(class, recorded))
    }

    /// The recorded name.
    pub(super) fn recorded(&self, class: Class, live: &Value) -> Option<&Value> {
        self.recorded.get(&key(class, live))
    }

    /// Whether a pair fits all earlier ones. A place has one name; a recorded conversation may be used several times.
    pub(super) fn agrees(&self, pair: &Pair) -> bool {
        let back = self.recorded(pair.class, &pair.live).is_none_or(|it| *it == pair.recorded);
        let is_one = pair.class == Class::Place;
        back && (!is_one || self.live(pair.class, &pair.recorded).is_none_or(|it| *it == pair.live))
    }

    /// Adds a pair.
    pub(super) fn bind(&mut self, pair: &Pair) {
        self.live.insert(key(pair.class, &pair.recorded), pair.live.clone());
        self.recorded.insert(key(pair.class, &pair.live), pair.recorded.clone());
        if let (Value::String(recorded), Value::String(live)) = (&pair.recorded, &pair.live)
            && (pair.class == Class::Place || recorded.len().min(live.len()) >= SHORTEST)
        {
            self.bind_text(recorded, live);
        }
    }

    /// Replaces a text as a word anywhere.
    pub(super) fn bind_text(&mut self, recorded: &str, live: &str) {
        if recorded == live || recorded.len() < 2 || live.len() < 2 {
            return;
        }
        self.texts.retain(|(it, _)| it != recorded);
        self.texts.push((recorded.to_owned(), live.to_owned()));
        self.texts.sort_by_key(|(it, _)| std::cmp::Reverse(it.len()));
    }

    /// Puts the client's names into a recorded value. Those of `first` have priority.
    pub(super) fn to_live(&self, first: &Names, value: &mut Value) {
        let lookup = |class, it: &Value| first.live(class, it).or_else(|| self.live(class, it)).cloned();
        let texts: Vec<(&str, &str)> =
            first.texts.iter().chain(&self.texts).map(|(from, to)| (from.as_str(), to.as_str())).collect();
        rewrite(value, "", &lookup, &texts);
    }

    /// Puts the recorded names into a value of the client.
    pub(super) fn to_recorded(&self, value: &mut Value) {
        let lookup = |class, it: &Value| self.recorded(class, it).cloned();
        rewrite(value, "", &lookup, &self.backwards());
    }

    /// Puts the recorded names into a text.
    pub(super) fn text_to_recorded(&self, text: &str) -> String {
        replaced(text, &self.backwards()).unwrap_or_else(|| text.to_owned())
    }

    fn backwards(&self) -> Vec<(&str, &str)> {
        let mut texts: Vec<(&str, &str)> =
            self.texts.iter().map(|(to, from)| (from.as_str(), to.as_str())).collect();
        texts.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        texts
    }
}

fn rewrite(
    value: &mut Value,
    key: &str,
    lookup: &dyn Fn(Class, &Value) -> Option<Value>,
    texts: &[(&str, &str)],
) {
    if let Some(class) = Class::of(key)
        && let Some(name) = lookup(class, value)
    {
        *value = name;
        return;
    }
    match value {
        Value::String(text) => {
            if let Some(fresh) = replaced(text, texts) {
                *text = fresh;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|it| rewrite(it, key, lookup, texts)),
        Value::Object(members) => {
            // Edits are listed by file.
            if members.keys().any(|it| replaced(it, texts).is_some()) {
                let old = std::mem::take(members);
                members.extend(old.into_iter().map(|(key, it)| (replaced(&key, texts).unwrap_or(key), it)));
            }
            for (key, it) in members.iter_mut() {
                rewrite(it, key, lookup, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces all of these texts, if any occurs. At each place the first that fits counts.
fn replaced(text: &str, texts: &[(&str, &str)]) -> Option<String> {
    if !texts.iter().any(|(from, _)| text.contains(from)) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let fits = |from: &str| {
            text[at..].starts_with(from) && is_start(&text[..at], from) && is_end(&text[at + from.len()..])
        };
        match texts.iter().find(|(from, _)| fits(from)) {
            Some((from, to)) => {
                out.push_str(to);
                at += from.len();
            }
            None => {
                out.push(next);
                at += next.len_utf8();
            }
        }
    }
    Some(out)
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_' || it == '-'
}

fn is_start(before: &str, name: &str) -> bool {
    // A name that starts with a slash must not follow a part of a path.
    let is_path = name.starts_with('/');
    before.chars().next_back().is_none_or(|it| !is_word(it) && !(is_path && (it == '/' || it == '.')))
}

fn is_end(after: &str) -> bool {
    let mut rest = after.chars();
    match rest.next() {
        None => true,
        // A period ends a sentence, or belongs to the name of a file.
        Some('.') => rest.next().is_none_or(|it| !is_word(it)),
        Some(it) => !is_word(it),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn names(pairs: &[(Class, &str, &str)]) -> Names {
        let mut names = Names::default();
        for (class, recorded, live) in pairs {
            names.bind(&Pair { class: *class, recorded: json!(recorded), live: json!(live) });
        }
        names
    }

    #[test]
    fn names_are_replaced_everywhere_and_back() {
        let mut names = names(&[
            (Class::Conversation, "conv-one", "mine-00"),
            (Class::Conversation, "c", "a much longer one"),
            (Class::Place, "file:///workspace/b.py", "file:///home/x/other.py"),
        ]);
        names.bind_text("file:///workspace", "file:///home/x");
        names.bind_text("/workspace", "/home/x");
        let recorded = json!({
            "conversationId": "conv-one",
            "title": "Conversation conv-one Turn 1",
            "other": ["conv-one2", "my-conv-one", "c"],
            "nested": {"conversationId": "c"},
            "changes": {"file:///workspace/b.py": [], "file:///workspace/a.py": []},
            "text": "see /workspace/a.py in /workspace. Not /workspace2, /workspace.d or ../workspace",
        });
        let mut value = recorded.clone();
        names.to_live(&Names::default(), &mut value);
        assert_eq!(
            value,
            json!({
                "conversationId": "mine-00",
                "title": "Conversation mine-00 Turn 1",
                "other": ["conv-one2", "my-conv-one", "c"],
                "nested": {"conversationId": "a much longer one"},
                "changes": {"file:///home/x/other.py": [], "file:///home/x/a.py": []},
                "text": "see /home/x/a.py in /home/x. Not /workspace2, /workspace.d or ../workspace",
            })
        );
        names.to_recorded(&mut value);
        assert_eq!(value, recorded);
    }

    #[test]
    fn conversation_may_have_two_names_and_file_only_one() {
        let names =
            names(&[(Class::Conversation, "conv-one", "a"), (Class::Place, "file:///a", "file:///b")]);
        let agrees = |class, recorded: &str, live: &str| {
            names.agrees(&Pair { class, recorded: json!(recorded), live: json!(live) })
        };
        assert!(agrees(Class::Conversation, "conv-one", "again"));
        assert!(!agrees(Class::Conversation, "conv-two", "a"));
        assert!(agrees(Class::Place, "file:///a", "file:///b"));
        assert!(!agrees(Class::Place, "file:///a", "file:///c"));
        assert!(!agrees(Class::Place, "file:///c", "file:///b"));
    }

    proptest! {
        #[test]
        fn names_round_trip_through_live_names(text in "[a-z/ .]{0,12}(/recorded|conv-one)[a-z/ .]{0,12}") {
            let mut names = names(&[(Class::Conversation, "conv-one", "live-one")]);
            names.bind_text("/recorded", "/live/folder");
            let mut value = json!({"text": text.clone()});
            names.to_live(&Names::default(), &mut value);
            names.to_recorded(&mut value);
            prop_assert_eq!(value, json!({"text": text}));
        }
    }
}
