//! The editor's open documents, kept so that a fresh process can be told their current text.
//!
//! Nothing is parsed while nobody asks: a document is its `didOpen` and the `didChange`s since, as they came.
//! They are folded into a text when a process needs it, or when the changes outweigh the text.

use std::{collections::BTreeMap, ops::Range};

use bytes::Bytes;
use serde::Deserialize;
use tracing::warn;

use crate::rpc::{Patch, path};

/// Changes are kept unfolded up to the size of the text, and at least up to this many bytes.
const UNFOLDED_BYTES: usize = 64 * 1024;

/// And not more of them than this: each may take time in proportion to the text.
const UNFOLDED: usize = 256;

/// How positions count characters, as negotiated in `initialize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    #[default]
    Utf16,
    Utf32,
}

impl Encoding {
    /// Reads `capabilities.positionEncoding` of an `initialize` result.
    pub(crate) fn of_result(result: &[u8]) -> Encoding {
        match path(result, &["capabilities", "positionEncoding"]).map(|range| &result[range]) {
            Some(b"\"utf-8\"") => Encoding::Utf8,
            Some(b"\"utf-32\"") => Encoding::Utf32,
            Some(_) | None => Encoding::Utf16,
        }
    }
}

#[derive(Debug)]
struct Document {
    /// Parameters of `didOpen`, text and version as of the last fold.
    open: Bytes,
    /// Parameters of each `didChange` since.
    changes: Vec<Bytes>,
    change_bytes: usize,
}

/// Open documents by URI, and notebooks likewise.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    encoding: Encoding,
    texts: BTreeMap<String, Document>,
    notebooks: BTreeMap<String, Vec<(&'static str, Bytes)>>,
}

impl Documents {
    pub(crate) fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    pub(crate) fn opened(&mut self, params: &Bytes) {
        if let Some(uri) = uri(params, "textDocument") {
            let document = Document { open: params.clone(), changes: Vec::new(), change_bytes: 0 };
            self.texts.insert(uri, document);
        }
    }

    pub(crate) fn changed(&mut self, params: &Bytes) {
        let encoding = self.encoding;
        let Some(document) = uri(params, "textDocument").and_then(|uri| self.texts.get_mut(&uri)) else {
            return;
        };
        document.changes.push(params.clone());
        document.change_bytes += params.len();
        let is_much = document.change_bytes > UNFOLDED_BYTES.max(document.open.len());
        if is_much || document.changes.len() >= UNFOLDED {
            document.fold(encoding);
        }
    }

    pub(crate) fn closed(&mut self, params: &[u8]) {
        if let Some(uri) = uri(params, "textDocument") {
            self.texts.remove(&uri);
        }
    }

    pub(crate) fn notebook_opened(&mut self, params: &Bytes) {
        if let Some(uri) = uri(params, "notebookDocument") {
            self.notebooks.insert(uri, vec![("notebookDocument/didOpen", params.clone())]);
        }
    }

    pub(crate) fn notebook_changed(&mut self, params: &Bytes) {
        if let Some(log) = uri(params, "notebookDocument").and_then(|uri| self.notebooks.get_mut(&uri)) {
            log.push(("notebookDocument/didChange", params.clone()));
        }
    }

    pub(crate) fn notebook_closed(&mut self, params: &[u8]) {
        if let Some(uri) = uri(params, "notebookDocument") {
            self.notebooks.remove(&uri);
        }
    }

    /// What a fresh process is told: every open document with its current text and version.
    pub(crate) fn restored(&mut self) -> Vec<(&'static str, Bytes)> {
        let encoding = self.encoding;
        let texts = self.texts.values_mut().map(|document| {
            document.fold(encoding);
            ("textDocument/didOpen", document.open.clone())
        });
        let mut out: Vec<_> = texts.collect();
        out.extend(self.notebooks.values().flatten().cloned());
        out
    }
}

/// The `uri` of the document identifier under this key.
pub(crate) fn uri(params: &[u8], key: &str) -> Option<String> {
    serde_json::from_slice(&params[path(params, &[key, "uri"])?]).ok()
}

impl Document {
    fn fold(&mut self, encoding: Encoding) {
        if self.changes.is_empty() {
            return;
        }
        let text = path(&self.open, &["textDocument", "text"]);
        let text = text.and_then(|range| serde_json::from_slice(&self.open[range]).ok()).unwrap_or_default();
        let mut text = Edited { text, encoding, known: Line::FIRST };
        let mut version = None;
        for params in self.changes.drain(..) {
            match serde_json::from_slice::<DidChange>(&params) {
                Ok(change) => change.content_changes.into_iter().for_each(|it| text.apply(it)),
                Err(error) => {
                    warn!(%error, "a didChange that cannot be read is left out of the tracked text");
                }
            }
            if let Some(range) = path(&params, &["textDocument", "version"]) {
                version = Some(params.slice(range));
            }
        }
        self.change_bytes = 0;
        let text = serde_json::to_vec(&text.text).expect("a string is always representable");
        let mut patch = Patch::of(&self.open);
        patch.set_path(&["textDocument", "text"], &text);
        if let Some(version) = version {
            patch.set_path(&["textDocument", "version"], &version);
        }
        self.open = Bytes::from(patch.finish());
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidChange {
    content_changes: Vec<Change>,
}

#[derive(Deserialize)]
struct Change {
    range: Option<Span>,
    text: String,
}

#[derive(Deserialize)]
struct Span {
    start: Position,
    end: Position,
}

#[derive(Deserialize)]
struct Position {
    line: u32,
    character: u32,
}

/// A text that changes are made to, mostly near one another.
struct Edited {
    text: String,
    encoding: Encoding,
    /// Where lines are counted from, if it is not behind the one that is looked for.
    known: Line,
}

/// Where a line starts.
#[derive(Clone, Copy)]
struct Line {
    number: u32,
    start: usize,
}

impl Line {
    const FIRST: Line = Line { number: 0, start: 0 };
}

impl Edited {
    fn apply(&mut self, change: Change) {
        match change.range {
            None => {
                self.text = change.text;
                self.known = Line::FIRST;
            }
            Some(span) => {
                let range = self.byte_range(&span);
                self.text.replace_range(range, &change.text);
            }
        }
    }

    fn byte_range(&mut self, span: &Span) -> Range<usize> {
        let (first, last) = if span.start.line <= span.end.line {
            (&span.start, &span.end)
        } else {
            (&span.end, &span.start)
        };
        let from = if first.line < self.known.number { Line::FIRST } else { self.known };
        let line = self.line(from, first.line);
        let (one, other) =
            (self.offset(line, first), self.offset(line.and_then(|it| self.line(it, last.line)), last));
        let (start, end) = (one.min(other), other.max(one));
        // What is changed right behind a `\r` may make a `\r\n` of it, or be its end.
        let is_sure = |it: &Line| it.start < start || !self.text[..start].ends_with('\r');
        self.known = line.filter(is_sure).unwrap_or(Line::FIRST);
        start..end
    }

    /// The line with this number, counted from one that is not behind it. A line ends with `\n`, `\r\n` or a lone
    /// `\r`.
    fn line(&self, from: Line, number: u32) -> Option<Line> {
        let bytes = self.text.as_bytes();
        let mut start = from.start;
        for _ in from.number..number {
            let end = start + memchr::memchr2(b'\n', b'\r', &bytes[start..])?;
            let crlf = bytes[end] == b'\r' && bytes.get(end + 1) == Some(&b'\n');
            start = end + if crlf { 2 } else { 1 };
        }
        Some(Line { number, start })
    }

    /// The byte at a position; past the end of a line is the end of the line, past the last line the end of the text.
    fn offset(&self, line: Option<Line>, position: &Position) -> usize {
        let Some(Line { start, .. }) = line else { return self.text.len() };
        let line = &self.text[start..];
        let line = &line[..line.find(['\n', '\r']).unwrap_or(line.len())];
        let mut left = position.character as usize;
        for (at, c) in line.char_indices() {
            let width = match self.encoding {
                Encoding::Utf8 => c.len_utf8(),
                Encoding::Utf16 => c.len_utf16(),
                Encoding::Utf32 => 1,
            };
            if left < width {
                return start + at;
            }
            left -= width;
        }
        start + line.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bytes(value: &Value) -> Bytes {
        Bytes::from(value.to_string())
    }

    fn edited(encoding: Encoding, text: &str, edits: &[(u32, u32, u32, u32, &str)]) -> String {
        let mut documents = Documents::default();
        documents.set_encoding(encoding);
        let open =
            json!({"textDocument": {"uri": "u", "languageId": "x", "version": 1, "text": text, "extra": 7}});
        documents.opened(&bytes(&open));
        for (n, (l1, c1, l2, c2, with)) in edits.iter().enumerate() {
            let range = json!({"start": {"line": l1, "character": c1}, "end": {"line": l2, "character": c2}});
            let change = json!({"textDocument": {"uri": "u", "version": n + 2}, "contentChanges": [{"range": range, "text": with}]});
            documents.changed(&bytes(&change));
        }
        let restored = documents.restored();
        let open: Value = serde_json::from_slice(&restored[0].1).unwrap();
        assert_eq!(open["textDocument"]["version"], json!(edits.len() + 1));
        assert_eq!(open["textDocument"]["extra"], json!(7));
        open["textDocument"]["text"].as_str().unwrap().to_owned()
    }

    #[test]
    fn edits_count_characters_as_negotiated() {
        for (encoding, character) in [(Encoding::Utf8, 6), (Encoding::Utf16, 4), (Encoding::Utf32, 3)] {
            // `é` is 2, 1 and 1 units, `😀` is 4, 2 and 1.
            assert_eq!(
                edited(encoding, "é😀x\n", &[(0, character - 1 + 1, 0, 99, "!")]),
                edited(encoding, "é😀x\n", &[(0, character, 0, 99, "!")])
            );
        }
        assert_eq!(edited(Encoding::Utf16, "é😀x", &[(0, 3, 0, 4, "y")]), "é😀y");
        assert_eq!(edited(Encoding::Utf8, "é😀x", &[(0, 6, 0, 7, "y")]), "é😀y");
        assert_eq!(edited(Encoding::Utf32, "é😀x", &[(0, 2, 0, 3, "y")]), "é😀y");
    }

    #[test]
    fn lines_end_with_any_of_the_three() {
        assert_eq!(
            edited(Encoding::Utf16, "a\r\nb\rc\nd", &[(1, 0, 1, 1, "B"), (3, 0, 3, 1, "D")]),
            "a\r\nB\rc\nD"
        );
        assert_eq!(edited(Encoding::Utf16, "a\r\nb", &[(0, 1, 1, 0, "")]), "ab");
    }

    #[test]
    fn positions_past_the_end_are_the_end() {
        assert_eq!(edited(Encoding::Utf16, "a\nb", &[(0, 9, 0, 9, "x"), (7, 0, 7, 0, "!")]), "ax\nb!");
    }

    #[test]
    fn a_closed_document_is_forgotten_and_many_changes_are_folded() {
        let mut documents = Documents::default();
        documents.opened(&bytes(&json!({"textDocument": {"uri": "u", "text": "", "version": 0}})));
        let long = "x".repeat(1000);
        for n in 1..200 {
            let change =
                json!({"textDocument": {"uri": "u", "version": n}, "contentChanges": [{"text": long}]});
            documents.changed(&bytes(&change));
            assert!(documents.texts["u"].change_bytes <= UNFOLDED_BYTES + 2000);
        }
        assert_eq!(documents.restored().len(), 1);
        documents.closed(br#"{"textDocument":{"uri":"u"}}"#);
        assert!(documents.restored().is_empty());
    }
}
