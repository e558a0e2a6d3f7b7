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

/// In containers within so many others, all values are visited: a look into each would take time by the square.
const LOOKED_INTO: usize = 12;

/// The JSON text with mapped strings. `None`: nothing changes, or it cannot be read up to the last of them.
pub(super) fn walk(json: &[u8], root: Class, mapping: &impl Mapping) -> Option<Vec<u8>> {
    let signs = Signs::of(json, mapping.has_drives());
    let mut walk =
        Walk { cursor: Cursor::of(json), signs, mapping, open: Vec::new(), out: Vec::new(), copied: 0 };
    walk.all(root)?;
    let Walk { mut out, copied, .. } = walk;
    (copied > 0).then(|| {
        out.extend_from_slice(&json[copied..]);
        out
    })
}

/// Signs that a string may be a URI or a path, or have one in it: `:/`, a slash at its beginning, and escapes. Some
/// servers write a slash as `\/`.
struct Signs<'a> {
    json: &'a [u8],
    has_drives: bool,
    /// Where the next of each kind is. Behind the text: there is none.
    slash: usize,
    escape: usize,
    drive: usize,
}

impl<'a> Signs<'a> {
    fn of(json: &'a [u8], has_drives: bool) -> Signs<'a> {
        let mut signs = Signs { json, has_drives, slash: 0, escape: 0, drive: 0 };
        (signs.slash, signs.escape, signs.drive) = (signs.slash(0), signs.escape(0), signs.drive(0));
        signs
    }

    /// Where the next one is. It never moves back.
    fn next(&mut self, from: usize) -> usize {
        if self.slash < from {
            self.slash = self.slash(from);
        }
        if self.escape < from {
            self.escape = self.escape(from);
        }
        if self.drive < from {
            self.drive = self.drive(from);
        }
        self.slash.min(self.escape).min(self.drive)
    }

    fn slash(&self, from: usize) -> usize {
        let is_sign =
            |at: &usize| matches!(at.checked_sub(1).map(|it| self.json[it]), Some(b':' | b'"' | b'\\'));
        memchr::memchr_iter(b'/', &self.json[from..])
            .map(|it| from + it)
            .find(is_sign)
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

struct Walk<'a, M> {
    cursor: Cursor<'a>,
    signs: Signs<'a>,
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

impl<'a, M: Mapping> Walk<'a, M> {
    fn all(&mut self, root: Class) -> Option<()> {
        let mut next = Next::Value(root);
        loop {
            if self.next_sign() == self.cursor.text().len() {
                return Some(());
            }
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

    fn at(&self) -> usize {
        self.cursor.text().len() - self.cursor.rest().len()
    }

    fn next_sign(&mut self) -> usize {
        self.signs.next(self.at())
    }

    /// Moves behind the next value, if it has no sign.
    fn passes(&mut self) -> bool {
        if self.open.len() >= LOOKED_INTO && matches!(self.cursor.peek(), Some(b'{' | b'[')) {
            return false;
        }
        let (start, sign, text) = (self.at(), self.next_sign(), self.cursor.text());
        // A value that goes on at the sign is cut.
        let mut before = Cursor::of(&text[start..sign]);
        let passes = before.value().is_ok();
        if passes {
            self.cursor.skip_to(&text[sign - before.rest().len()..]);
        }
        passes
    }

    fn closes(&mut self) -> Option<bool> {
        let closes = self.cursor.peek()? == self.open.last()?.end;
        if closes {
            self.cursor.take(self.open.pop()?.end, "expected a bracket").ok()?;
        }
        Some(closes)
    }

    fn value(&mut self, class: Class) -> Option<Next> {
        if self.passes() { Some(Next::Separator) } else { self.visit(class) }
    }

    fn visit(&mut self, class: Class) -> Option<Next> {
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
        self.cursor.skip_space();
        if self.passes() {
            return Some(Next::Separator);
        }
        let key = decode(key).unwrap_or_default();
        if key == "data" {
            self.cursor.value().ok()?;
            return Some(Next::Separator);
        }
        self.visit(self.class_of(class, &key))
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

    /// Reads a string, and writes another in its place. Gives the one that was read, with its quotes.
    fn string(&mut self, class: Class) -> Option<&'a [u8]> {
        let (json, start, sign) = (self.cursor.text(), self.at(), self.next_sign());
        self.cursor.string().ok()?;
        let end = self.at();
        let read = &json[start..end];
        if sign < end
            && class != Class::Never
            && let Some(mapped) = self.mapping.string(&decode(read).unwrap_or_default(), class)
        {
            self.out.extend_from_slice(&json[self.copied..start]);
            self.out.extend_from_slice(serde_json::Value::from(mapped).to_string().as_bytes());
            self.copied = end;
        }
        Some(read)
    }
}
