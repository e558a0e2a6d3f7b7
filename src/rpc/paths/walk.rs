//! Visits the strings of JSON text, and replaces some.

use std::borrow::Cow;

use memchr::memmem;

use super::super::scan::{Cursor, Structure, decode};

/// What a string may hold that is to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing.
    Never,
    /// Nothing, whatever is in it: what a server keeps with an item.
    Data,
    /// A URI, as a whole.
    Plain,
    /// The same, under any keys.
    Uris,
    /// A URI or an absolute path, as a whole.
    Paths,
    /// A text with links.
    Prose,
}

/// Replaces strings.
pub(super) trait Mapping {
    /// A decoded string. `None`: it stays.
    fn string(&self, text: &str, class: Class) -> Option<String>;

    /// Whether links in texts are replaced.
    fn has_prose(&self) -> bool;

    /// Whether settings are left out.
    fn skips_settings(&self) -> bool {
        false
    }

    /// Whether plain paths may begin with a drive letter.
    fn has_drives(&self) -> bool {
        false
    }
}

/// Under these keys are texts of documents.
const TEXTS: [&str; 7] =
    ["text", "newText", "insertText", "textEditText", "snippet", "placeholder", "newName"];

/// Under these keys are names, or what only a server understands.
const NAMES: [&str; 16] = [
    "annotationId",
    "changeAnnotations",
    "id",
    "label",
    "filterText",
    "sortText",
    "query",
    "name",
    "detail",
    "languageId",
    "partialResultToken",
    "resultId",
    "previousResultId",
    "title",
    "token",
    "workDoneToken",
];

/// Under these keys servers and editors write paths.
const PATHS: [&str; 14] = [
    "arguments",
    "cargoArgs",
    "cwd",
    "file",
    "filePath",
    "filePaths",
    "globPattern",
    "initializationOptions",
    "path",
    "pattern",
    "projectRoot",
    "rootPath",
    "settings",
    "workspaceRoot",
];

/// Under these keys are settings, which may have paths too.
const SETTINGS: [&str; 2] = ["initializationOptions", "settings"];

/// Under these keys servers write texts for people.
const PROSE: [&str; 4] = ["contents", "documentation", "message", "value"];

/// The JSON text with mapped strings. `None`: nothing changes, or the text cannot be read up to the last of them.
pub(super) fn walk(json: &[u8], root: Class, mapping: &impl Mapping) -> Option<Vec<u8>> {
    let structure = Structure::of(json);
    let mut walk =
        Walk { json, structure, mapping, root, open: Vec::new(), known: 0, out: Vec::new(), copied: 0 };
    let mut candidates = Candidates::of(json, mapping.has_drives());
    let mut at = 0;
    while let Some(candidate) = candidates.next(at) {
        at = walk.string_at(candidate)?.max(candidate + 1);
    }
    let Walk { mut out, copied, .. } = walk;
    (copied > 0).then(|| {
        out.extend_from_slice(&json[copied..]);
        out
    })
}

/// Where a string may be, or contain, a URI or a path: at `:/`, at a slash at its beginning, and at escapes. Some servers
/// write a slash as `\/`.
struct Candidates<'a> {
    json: &'a [u8],
    has_drives: bool,
    /// Where the next of each kind is. Behind the text: there is none.
    slash: usize,
    escape: usize,
    drive: usize,
}

impl<'a> Candidates<'a> {
    fn of(json: &'a [u8], has_drives: bool) -> Candidates<'a> {
        let mut candidates = Candidates { json, has_drives, slash: 0, escape: 0, drive: 0 };
        (candidates.slash, candidates.escape, candidates.drive) =
            (candidates.slash(0), candidates.escape(0), candidates.drive(0));
        candidates
    }

    /// The next one. `from` never moves back.
    fn next(&mut self, from: usize) -> Option<usize> {
        if self.slash < from {
            self.slash = self.slash(from);
        }
        if self.escape < from {
            self.escape = self.escape(from);
        }
        if self.drive < from {
            self.drive = self.drive(from);
        }
        let next = self.slash.min(self.escape).min(self.drive);
        (next < self.json.len()).then_some(next)
    }

    fn slash(&self, from: usize) -> usize {
        let is_one =
            |at: &usize| matches!(at.checked_sub(1).map(|it| self.json[it]), Some(b':' | b'"' | b'\\'));
        memchr::memchr_iter(b'/', &self.json[from..])
            .map(|it| from + it)
            .find(is_one)
            .unwrap_or(self.json.len())
    }

    fn escape(&self, from: usize) -> usize {
        memmem::find(&self.json[from..], b"\\u").map_or(self.json.len(), |it| from + it)
    }

    fn drive(&self, from: usize) -> usize {
        let found = if self.has_drives { memmem::find(&self.json[from..], b":\\") } else { None };
        found.map_or(self.json.len(), |it| from + it)
    }
}

/// Reads the strings with candidates, and of the text between them only the structure.
struct Walk<'a, M> {
    json: &'a [u8],
    structure: Structure<'a>,
    mapping: &'a M,
    root: Class,
    /// The containers around the last candidate.
    open: Vec<Container>,
    /// The number of containers, from the outermost on, whose class is set.
    known: usize,
    out: Vec<u8>,
    /// So much of the text is in `out`, mapped.
    copied: usize,
}

#[derive(Clone, Copy)]
struct Container {
    /// The colon of the last member. `None`: this is an array, or an object without a member so far.
    colon: Option<usize>,
    /// The class of the value behind that colon, if it has been asked for.
    member: Option<Class>,
    /// The class of the elements.
    class: Class,
}

impl<M: Mapping> Walk<'_, M> {
    /// Maps the string with this candidate. Gives its end.
    fn string_at(&mut self, candidate: usize) -> Option<usize> {
        while let Some((mark, at)) = self.structure.next_before(candidate) {
            match mark {
                b'{' | b'[' => self.open.push(Container { colon: None, member: None, class: Class::Never }),
                b':' => {
                    let object = self.open.last_mut()?;
                    (object.colon, object.member) = (Some(at), None);
                }
                _ => {
                    self.open.pop()?;
                    self.known = self.known.min(self.open.len());
                }
            }
        }
        if self.innermost() == Class::Data {
            return Some(candidate);
        }
        // In malformed text, the quote may be in a string that has been read.
        let start = self.start_of_string(candidate).filter(|it| *it >= self.copied)?;
        let mut cursor = Cursor::of(self.json);
        cursor.skip_to(&self.json[start..]);
        cursor.string().ok()?;
        let end = self.json.len() - cursor.rest().len();
        cursor.skip_space();
        let class = self.class_of_string(cursor.peek() == Some(b':'));
        if matches!(class, Class::Never | Class::Data) {
            return Some(end);
        }
        let text = decode(&self.json[start..end]).unwrap_or_default();
        if let Some(mapped) = self.mapping.string(&text, class) {
            if self.copied == 0 {
                self.out.reserve(self.json.len() + self.json.len() / 16);
            }
            self.out.extend_from_slice(&self.json[self.copied..start]);
            serde_json::to_writer(&mut self.out, &mapped).ok()?;
            self.copied = end;
        }
        Some(end)
    }

    /// The quote before a byte in a string.
    fn start_of_string(&self, mut at: usize) -> Option<usize> {
        loop {
            at = memchr::memrchr(b'"', &self.json[..at])?;
            let backslashes = self.json[..at].iter().rev().take_while(|it| **it == b'\\').count();
            if backslashes % 2 == 0 {
                return Some(at);
            }
        }
    }

    /// The class of the elements of the innermost container.
    fn innermost(&mut self) -> Class {
        for n in self.known..self.open.len() {
            let class = n.checked_sub(1).map_or(self.root, |around| self.class_in(around));
            self.open[n].class = class;
        }
        self.known = self.open.len();
        self.open.last().map_or(self.root, |it| it.class)
    }

    fn class_of_string(&mut self, is_key: bool) -> Class {
        match self.innermost() {
            Class::Never if is_key => Class::Never,
            _ if is_key => Class::Plain,
            class => self.open.len().checked_sub(1).map_or(class, |last| self.class_in(last)),
        }
    }

    /// The class of the value that follows in container `n`.
    fn class_in(&mut self, n: usize) -> Class {
        let Container { colon, member, class } = self.open[n];
        let Some(colon) = colon else { return class };
        let member =
            member.unwrap_or_else(|| class_of(self.mapping, class, &self.key(colon).unwrap_or_default()));
        self.open[n].member = Some(member);
        member
    }

    /// The key before a colon.
    fn key(&self, colon: usize) -> Option<Cow<'_, str>> {
        let end = self.json[..colon].iter().rposition(|it| !it.is_ascii_whitespace())?;
        let start = self.start_of_string(end)?;
        decode(&self.json[start..=end])
    }
}

/// The class of the value under a key.
fn class_of(mapping: &impl Mapping, around: Class, key: &str) -> Class {
    let is_in = |keys: &[&str]| keys.contains(&key);
    match around {
        Class::Data => Class::Data,
        _ if key == "data" => Class::Data,
        _ if is_in(&TEXTS) => Class::Never,
        // A part of a label leads to a place.
        Class::Never if is_in(&["location", "command"]) => Class::Plain,
        Class::Never => Class::Never,
        _ if mapping.skips_settings() && is_in(&SETTINGS) => Class::Never,
        Class::Paths => Class::Paths,
        Class::Uris => Class::Uris,
        _ if is_in(&PATHS) => Class::Paths,
        _ if is_in(&NAMES) => Class::Never,
        _ if mapping.has_prose() && is_in(&PROSE) => Class::Prose,
        Class::Plain | Class::Prose => Class::Plain,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;
    use crate::rpc::scan::arbitrary;

    /// Marks each string with its class.
    struct Marks;

    impl Mapping for Marks {
        fn string(&self, text: &str, class: Class) -> Option<String> {
            Some(format!("{text} {class:?}"))
        }

        fn has_prose(&self) -> bool {
            true
        }
    }

    fn has_candidate(text: &str) -> bool {
        let json = Value::from(text).to_string();
        [":/", "\"/", "\\/", "\\u"].iter().any(|it| json.contains(it))
    }

    fn marked(text: &str, class: Class) -> String {
        match class {
            Class::Never | Class::Data => text.to_owned(),
            _ if !has_candidate(text) => text.to_owned(),
            _ => format!("{text} {class:?}"),
        }
    }

    /// The same, slowly.
    fn model(value: &Value, class: Class) -> Value {
        match value {
            Value::String(text) => marked(text, class).into(),
            Value::Array(all) => all.iter().map(|it| model(it, class)).collect(),
            Value::Object(all) => {
                let of_key =
                    if matches!(class, Class::Never | Class::Data) { Class::Never } else { Class::Plain };
                let member = |(key, value): (&String, &Value)| {
                    (marked(key, of_key), model(value, class_of(&Marks, class, key)))
                };
                Value::Object(all.iter().map(member).collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let word = prop::sample::select(vec![
            "a",
            "uri",
            "data",
            "label",
            "text",
            "location",
            "command",
            "arguments",
            "settings",
            "message",
            "/a",
            "",
            "file:///a",
            "x:/y",
            "\"/\\",
            "\\:/",
            "[{",
            "}",
            ":",
            "\u{1}",
            "http://a",
            "\\\"/b",
        ]);
        let leaf = prop_oneof![
            word.clone().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            Just(Value::Null)
        ];
        leaf.prop_recursive(6, 48, 6, move |inner| {
            let member = (word.clone().prop_map(str::to_owned), inner.clone());
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Value::from),
                prop::collection::vec(member, 0..6).prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn each_string_is_mapped_by_the_keys_around_it(value in any_json(), pretty: bool) {
            let json = if pretty { serde_json::to_vec_pretty(&value).unwrap() } else { value.to_string().into_bytes() };
            let walked = walk(&json, Class::Plain, &Marks).unwrap_or(json);
            prop_assert_eq!(serde_json::from_slice::<Value>(&walked).unwrap(), model(&value, Class::Plain));
        }

        #[test]
        fn any_text_can_be_walked(text in arbitrary::soup()) {
            walk(&text, Class::Plain, &Marks);
        }
    }
}
