//! Visits the strings of JSON text, and replaces some.

use memchr::memmem;

use super::super::scan::{Cursor, decode};

/// What a string may hold that is to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing.
    Never,
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

/// In containers within so many others, all strings are visited: a look into each would take time by the square.
const LOOKED_INTO: usize = 12;

/// The JSON text with mapped strings. `None`: nothing changes, or it is not JSON.
pub(super) fn walk(json: &[u8], root: Class, mapping: &impl Mapping) -> Option<Vec<u8>> {
    if !may_have_paths(json, mapping.has_drives()) {
        return None;
    }
    let mut walk = Walk { cursor: Cursor::of(json), mapping, open: Vec::new(), out: Vec::new(), copied: 0 };
    walk.all(root)?;
    let Walk { mut out, copied, .. } = walk;
    (copied > 0).then(|| {
        out.extend_from_slice(&json[copied..]);
        out
    })
}

/// Whether a string of this text may be a URI or a path. Some servers write a slash as `\/`.
fn may_have_paths(json: &[u8], has_drives: bool) -> bool {
    let has = |it: &str| memmem::find(json, it.as_bytes()).is_some();
    [":/", "\"/", "\\/", "\\u"].into_iter().any(has) || has_drives && has(":\\")
}

struct Walk<'a, M> {
    cursor: Cursor<'a>,
    mapping: &'a M,
    /// The containers around the cursor.
    open: Vec<Container>,
    out: Vec<u8>,
    /// So much of the text is in `out`, mapped.
    copied: usize,
}

#[derive(Clone, Copy)]
struct Container {
    end: u8,
    /// Of its elements.
    class: Class,
}

/// What comes next.
enum Next {
    Value(Class),
    /// An element, or the end of an empty container.
    First,
    Element,
    Separator,
}

impl<M: Mapping> Walk<'_, M> {
    fn all(&mut self, root: Class) -> Option<()> {
        let mut next = Next::Value(root);
        loop {
            self.cursor.skip_space();
            next = match next {
                Next::Value(class) => self.value(class)?,
                Next::First if self.closes()? => Next::Separator,
                Next::First | Next::Element => self.element()?,
                Next::Separator if self.open.is_empty() => {
                    return self.cursor.rest().is_empty().then_some(());
                }
                Next::Separator if self.closes()? => Next::Separator,
                Next::Separator => {
                    self.cursor.take(b',', "expected a comma").ok()?;
                    Next::Element
                }
            };
        }
    }

    fn closes(&mut self) -> Option<bool> {
        let closes = self.cursor.peek()? == self.open.last()?.end;
        if closes {
            self.cursor.take(self.open.pop()?.end, "expected a bracket").ok()?;
        }
        Some(closes)
    }

    fn value(&mut self, class: Class) -> Option<Next> {
        let end = match self.cursor.peek()? {
            b'"' => {
                self.string(class)?;
                return Some(Next::Separator);
            }
            b'{' => b'}',
            b'[' => b']',
            _ => {
                self.cursor.value().ok()?;
                return Some(Next::Separator);
            }
        };
        if self.open.len() < LOOKED_INTO {
            let mut behind = self.cursor.clone();
            let span = behind.value().ok()?;
            if !may_have_paths(&self.cursor.text()[span], self.mapping.has_drives()) {
                self.cursor = behind;
                return Some(Next::Separator);
            }
        }
        self.cursor.take(self.cursor.peek()?, "expected a bracket").ok()?;
        self.open.push(Container { end, class });
        Some(Next::First)
    }

    fn element(&mut self) -> Option<Next> {
        let Container { end, class } = *self.open.last()?;
        if end == b']' {
            return Some(Next::Value(class));
        }
        let key = self.string(if class == Class::Never { Class::Never } else { Class::Plain })?;
        self.cursor.skip_space();
        self.cursor.take(b':', "expected a colon").ok()?;
        if key == "data" {
            self.cursor.skip_space();
            self.cursor.value().ok()?;
            return Some(Next::Separator);
        }
        Some(Next::Value(self.class_of(class, &key)))
    }

    fn class_of(&self, around: Class, key: &str) -> Class {
        let is_in = |keys: &[&str]| keys.contains(&key);
        match around {
            _ if is_in(&TEXTS) => Class::Never,
            // A part of a label leads to a place.
            Class::Never if is_in(&["location", "command"]) => Class::Plain,
            Class::Never => Class::Never,
            _ if self.mapping.skips_settings() && is_in(&SETTINGS) => Class::Never,
            Class::Paths => Class::Paths,
            Class::Uris => Class::Uris,
            _ if is_in(&PATHS) => Class::Paths,
            _ if is_in(&NAMES) => Class::Never,
            _ if self.mapping.has_prose() && is_in(&PROSE) => Class::Prose,
            Class::Plain | Class::Prose => Class::Plain,
        }
    }

    /// Reads a string, and writes another in its place. Gives the text that was read.
    fn string(&mut self, class: Class) -> Option<String> {
        let before = self.cursor.rest().len();
        self.cursor.string().ok()?;
        let (json, end) = (self.cursor.text(), self.cursor.text().len() - self.cursor.rest().len());
        let start = json.len() - before;
        let text = decode(&json[start..end]).unwrap_or_default();
        if let Some(mapped) = self.mapping.string(&text, class) {
            self.out.extend_from_slice(&json[self.copied..start]);
            self.out.extend_from_slice(serde_json::Value::from(mapped).to_string().as_bytes());
            self.copied = end;
        }
        Some(text.into_owned())
    }
}
