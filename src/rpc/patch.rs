//! Byte-preserving edits of one JSON object: all other members stay, with white space and order.
//!
//! For bodies that pass with a changed member or two. It does not check the new values.

use std::ops::Range;

use super::scan::{Entry, Object};

/// An object to edit. Edits take effect one after the other.
///
/// A value that is not an object, or is invalid, never changes: [`finish`](Patch::finish) returns it.
///
/// ```
/// # use lspool::rpc::Patch;
/// let patched = Patch::of(br#"{ "a": 1, "b": 2 }"#).set("b", b"3").remove("a").finish();
/// assert_eq!(patched, br#"{ "b": 3 }"#);
/// ```
#[derive(Clone, Debug)]
pub struct Patch {
    text: Vec<u8>,
}

impl Patch {
    /// Starts editing a copy of `object`.
    pub fn of(object: &[u8]) -> Patch {
        Patch { text: object.to_vec() }
    }

    /// Replaces the value of a member (of each duplicate), or adds it as the first member.
    pub fn set(&mut self, key: &str, raw: &[u8]) -> &mut Patch {
        if let Some(members) = Members::of(&self.text) {
            self.text = members.with(&self.text, key, raw);
        }
        self
    }

    /// Removes a member and one comma beside it; all duplicates too.
    pub fn remove(&mut self, key: &str) -> &mut Patch {
        while let Some(range) = Members::of(&self.text).and_then(|it| it.removal(&self.text, key)) {
            self.text.drain(range);
        }
        self
    }

    /// Like [`set`](Patch::set), for a member of nested objects. Creates missing objects on the way, and replaces
    /// other values by objects.
    pub fn set_path(&mut self, keys: &[&str], raw: &[u8]) -> &mut Patch {
        match keys {
            [] => self,
            [key] => self.set(key, raw),
            [key, rest @ ..] => {
                let inner = self.object(key).unwrap_or_else(|| b"{}".to_vec());
                let inner = Patch { text: inner }.set_path(rest, raw).finish();
                self.set(key, &inner)
            }
        }
    }

    /// Like [`remove`](Patch::remove), for a member of nested objects.
    pub fn remove_path(&mut self, keys: &[&str]) -> &mut Patch {
        match keys {
            [] => self,
            [key] => self.remove(key),
            [key, rest @ ..] => {
                let Some(inner) = self.object(key) else { return self };
                let inner = Patch { text: inner }.remove_path(rest).finish();
                self.set(key, &inner)
            }
        }
    }

    /// Takes the edited text. The patch is empty afterwards.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    /// The value of the last member of that name, if it is a valid object.
    fn object(&self, key: &str) -> Option<Vec<u8>> {
        let value = super::member(&self.text, key)?;
        let value = &self.text[value];
        Members::of(value).map(|_| value.to_vec())
    }
}

/// The members of a valid object.
struct Members {
    /// The offset after the opening brace.
    start: usize,
    entries: Vec<Entry>,
}

impl Members {
    fn of(text: &[u8]) -> Option<Members> {
        let mut object = Object::open(text).ok()?;
        let start = object.at();
        let mut entries = Vec::new();
        while let Some(entry) = object.next().ok()? {
            entries.push(entry);
        }
        Some(Members { start, entries })
    }

    fn with(&self, text: &[u8], key: &str, raw: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + raw.len() + key.len() + 4);
        let mut copied = 0;
        for entry in self.entries.iter().filter(|it| it.key.is(text, key)) {
            out.extend_from_slice(&text[copied..entry.value.start]);
            out.extend_from_slice(raw);
            copied = entry.value.end;
        }
        if copied == 0 {
            out.extend_from_slice(&text[..self.start]);
            out.extend_from_slice(&quoted(key));
            out.push(b':');
            out.extend_from_slice(raw);
            if !self.entries.is_empty() {
                out.push(b',');
            }
            copied = self.start;
        }
        out.extend_from_slice(&text[copied..]);
        out
    }

    /// The span to cut to remove the last member of that name.
    fn removal(&self, text: &[u8], key: &str) -> Option<Range<usize>> {
        let n = self.entries.iter().rposition(|it| it.key.is(text, key))?;
        let entry = &self.entries[n];
        if let Some(next) = self.entries.get(n + 1) {
            return Some(entry.key.span.start..next.key.span.start);
        }
        let comma = n.checked_sub(1).map(|before| {
            let end = self.entries[before].value.end;
            // Only white space can be before the comma.
            end + memchr::memchr(b',', &text[end..]).expect("a comma divides two members")
        });
        Some(comma.unwrap_or(entry.key.span.start)..entry.value.end)
    }
}

/// A string as JSON.
pub(super) fn quoted(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).expect("a string is always valid JSON")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;
    use crate::rpc::scan::arbitrary;

    fn check(object: &str, edit: impl Fn(&mut Patch) -> &mut Patch, expected: &Expect) {
        let mut patch = Patch::of(object.as_bytes());
        expected.assert_eq(&String::from_utf8(edit(&mut patch).finish()).unwrap());
    }

    #[test]
    fn set_replaces_or_inserts_member() {
        let object = "{ \"a\" : 1 ,\n \"b\":[ ] }\n";
        check(object, |it| it.set("a", b"{}"), &expect![["{ \"a\" : {} ,\n \"b\":[ ] }\n"]]);
        check(object, |it| it.set("b", b"\"x\""), &expect![["{ \"a\" : 1 ,\n \"b\":\"x\" }\n"]]);
        check(object, |it| it.set("c\"", b"0"), &expect![["{\"c\\\"\":0, \"a\" : 1 ,\n \"b\":[ ] }\n"]]);
        check(" { } ", |it| it.set("a", b"1").set("b", b"2"), &expect![[r#" {"b":2,"a":1 } "#]]);
        check(r#"{"a":1,"\u0061":2}"#, |it| it.set("a", b"3"), &expect![[r#"{"a":3,"\u0061":3}"#]]);
    }

    #[test]
    fn remove_deletes_member_and_its_duplicates() {
        let object = r#"{ "a" : 1 , "b" : 2 , "c" : 3 }"#;
        check(object, |it| it.remove("a"), &expect![[r#"{ "b" : 2 , "c" : 3 }"#]]);
        check(object, |it| it.remove("b"), &expect![[r#"{ "a" : 1 , "c" : 3 }"#]]);
        check(object, |it| it.remove("c"), &expect![[r#"{ "a" : 1 , "b" : 2  }"#]]);
        check(object, |it| it.remove("c").remove("a").remove("b"), &expect!["{   }"]);
        check(object, |it| it.remove("d"), &expect![[r#"{ "a" : 1 , "b" : 2 , "c" : 3 }"#]]);
        check(r#"{"a":1,"a":[2],"b":1,"a":3}"#, |it| it.remove("a"), &expect![[r#"{"b":1}"#]]);
        check(r#"{"a":1,"a":2}"#, |it| it.remove("a").set("a", b"4"), &expect![[r#"{"a":4}"#]]);
    }

    #[test]
    fn set_path_and_remove_path_reach_nested_members() {
        let object = r#"{"a": {"b" :{"c":1 }} , "d":2}"#;
        check(
            object,
            |it| it.set_path(&["a", "b", "c"], b"9"),
            &expect![[r#"{"a": {"b" :{"c":9 }} , "d":2}"#]],
        );
        check(
            object,
            |it| it.set_path(&["a", "x", "y"], b"9"),
            &expect![[r#"{"a": {"x":{"y":9},"b" :{"c":1 }} , "d":2}"#]],
        );
        check(
            object,
            |it| it.set_path(&["d", "y"], b"9"),
            &expect![[r#"{"a": {"b" :{"c":1 }} , "d":{"y":9}}"#]],
        );
        check("{}", |it| it.set_path(&["a", "b", "c"], b"1"), &expect![[r#"{"a":{"b":{"c":1}}}"#]]);
        check(object, |it| it.remove_path(&["a", "b", "c"]), &expect![[r#"{"a": {"b" :{ }} , "d":2}"#]]);
        check(object, |it| it.remove_path(&["d", "b"]), &expect![[r#"{"a": {"b" :{"c":1 }} , "d":2}"#]]);
        check(
            object,
            |it| it.remove_path(&[]).set_path(&[], b"1"),
            &expect![[r#"{"a": {"b" :{"c":1 }} , "d":2}"#]],
        );
    }

    #[test]
    fn patch_leaves_non_objects_alone() {
        for text in ["", "[1]", "null", "{", r#"{"a":1"#, r#"{"a":1} x"#, r#"{"a":1,}"#] {
            let mut patch = Patch::of(text.as_bytes());
            patch.set("a", b"2").remove("a").set_path(&["a", "b"], b"2").remove_path(&["a", "b"]);
            assert_eq!(patch.finish(), text.as_bytes());
        }
    }

    fn parsed(text: &[u8]) -> BTreeMap<String, Box<RawValue>> {
        serde_json::from_slice(text).unwrap()
    }

    fn raw(members: &BTreeMap<String, Box<RawValue>>) -> BTreeMap<&str, &str> {
        members.iter().map(|(key, value)| (key.as_str(), value.get())).collect()
    }

    proptest! {
        #[test]
        fn patch_changes_only_named_members(
            object in arbitrary::message(),
            key in prop::sample::select(vec!["id", "method", "params", "x", "i\\d", "new", "q\"é"]),
            value in arbitrary::value(),
        ) {
            let before = parsed(object.as_bytes());
            let mut expected = raw(&before);

            let set = Patch::of(object.as_bytes()).set(key, value.as_bytes()).finish();
            expected.insert(key, &value);
            let after = parsed(&set);
            prop_assert_eq!(raw(&after), expected.clone());

            let removed = Patch::of(&set).remove(key).finish();
            expected.remove(key);
            let after = parsed(&removed);
            prop_assert_eq!(raw(&after), expected);
        }

        #[test]
        fn patch_sets_and_removes_path(object in arbitrary::message(), value in arbitrary::value()) {
            let keys = ["params", "a\"", "b"];
            let set = Patch::of(object.as_bytes()).set_path(&keys, value.as_bytes()).finish();
            let after = parsed(&set);
            prop_assert_eq!(super::super::path(&set, &keys).map(|at| &set[at]), Some(value.as_bytes()));
            let removed = Patch::of(&set).remove_path(&keys).finish();
            prop_assert_eq!(super::super::path(&removed, &keys), None);
            let (before, last) = (parsed(object.as_bytes()), parsed(&removed));
            for members in [&before, &after, &last] {
                let others = raw(members).into_iter().filter(|(key, _)| *key != "params");
                prop_assert!(others.eq(raw(&before).into_iter().filter(|(key, _)| *key != "params")));
            }
        }

        #[test]
        fn patch_never_panics(bytes in arbitrary::soup(), key in "[a-z\"]{0,2}") {
            let mut patch = Patch::of(&bytes);
            patch.set(&key, b"1").remove("id").set_path(&["method", &key], &bytes).remove_path(&[&key, "id"]);
            patch.finish();
        }
    }
}
