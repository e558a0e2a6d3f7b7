//! The editor's open documents with their current texts, for new processes.
//!
//! A document is its `didOpen` and the changes since. The changes are applied to the text when a process needs it, or
//! when they are large.

mod changes;
mod edited;
mod notebooks;

use std::collections::BTreeMap;

use bytes::Bytes;
use tracing::warn;

use self::{
    changes::{Changes, DidChange},
    notebooks::Notebook,
};
pub(in crate::core::mux) use self::{
    changes::{Position, number},
    edited::{Edited, Replaced},
};
use crate::rpc::{LooseText, Patch, member, path, text};

/// Changes may wait up to half the size of the text, and at least up to this many bytes.
const UNFOLDED_BYTES: usize = 16 * 1024;

/// The limit of waiting changes: each may take time in proportion to the text.
const UNFOLDED: usize = 256;

/// How positions count characters, as `initialize` has negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    #[default]
    Utf16,
    Utf32,
}

impl Encoding {
    /// Reads the encoding in an answer to `initialize`: `capabilities.positionEncoding`, else `offsetEncoding`, an
    /// older extension of clangd.
    pub(crate) fn of_result(result: &[u8]) -> Encoding {
        let standard = path(result, &["capabilities", "positionEncoding"]).map(|range| &result[range]);
        let older = || member(result, "offsetEncoding").map(|range| &result[range]);
        match standard.filter(|it| *it != b"null").or_else(older) {
            Some(b"\"utf-8\"") => Encoding::Utf8,
            Some(b"\"utf-32\"") => Encoding::Utf32,
            Some(_) | None => Encoding::Utf16,
        }
    }
}

#[derive(Debug)]
struct Document {
    /// The parameters of `didOpen`, with the version at the last application.
    open: Bytes,
    /// The text at the last application; `None` if it is the one in `open`.
    text: Option<Vec<u8>>,
    /// The changes since.
    changes: Changes,
    /// The version after them.
    version: Vec<u8>,
    /// A change was unreadable, and the whole text has not come since.
    is_torn: bool,
    /// Grows with each change of any document, so that nobody takes one text for another.
    revision: u64,
}

/// A `didChange`, read once for all sessions with the document.
#[derive(Debug, Default)]
pub(crate) struct ReadChange<'a> {
    params: &'a [u8],
    /// `None`: it cannot be read.
    change: Option<DidChange<'a>>,
    said: Changes,
}

impl<'a> ReadChange<'a> {
    pub(crate) fn of(params: &'a [u8]) -> ReadChange<'a> {
        let mut it = ReadChange::default();
        it.read(params);
        it
    }

    /// The document, if it can be read.
    pub(crate) fn uri(&self) -> Option<&str> {
        self.change.as_ref().map(|it| &*it.uri).filter(|it| !it.is_empty())
    }

    fn read(&mut self, params: &'a [u8]) {
        self.params = params;
        self.change = DidChange::read(params, &mut self.said);
    }
}

/// What names an open document: its URI.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DocumentKey {
    Text(String),
    Notebook(String),
}

/// Open documents by URI, and notebooks likewise.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    encoding: Encoding,
    texts: BTreeMap<String, Document>,
    notebooks: BTreeMap<String, Notebook>,
    /// Memory for the changes in one message.
    said: Changes,
    /// A document whose text has just become unknown.
    torn: Option<String>,
    /// The last revision of any document.
    last_revision: u64,
}

impl Documents {
    pub(crate) fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    pub(crate) fn opened(&mut self, params: &Bytes) {
        if let Some(uri) = uri(params, "textDocument") {
            let (changes, version) = (Changes::default(), Vec::new());
            self.last_revision += 1;
            let document = Document {
                open: params.clone(),
                text: None,
                changes,
                version,
                is_torn: false,
                revision: self.last_revision,
            };
            self.texts.insert(uri, document);
        }
    }

    pub(crate) fn changed(&mut self, params: &[u8]) {
        let mut change = ReadChange { said: std::mem::take(&mut self.said), ..ReadChange::default() };
        change.read(params);
        self.apply(&change);
        self.said = change.said;
        self.said.shrink_to(UNFOLDED_BYTES);
    }

    /// Notes a change that was read already.
    pub(crate) fn apply(&mut self, ReadChange { params, change, said }: &ReadChange<'_>) {
        let Some(change) = change else {
            warn!("skipped an unreadable didChange in the tracked text");
            return self.tear(uri(params, "textDocument"));
        };
        if change.is_torn {
            warn!("skipped an unreadable change in the tracked text");
            let uri = change.uri.clone().into_owned();
            self.tear(Some(uri));
        }
        let Some(document) = self.texts.get_mut(&*change.uri) else { return };
        document.is_torn &= change.is_torn || said.iter().all(|(place, _)| place.is_some());
        self.last_revision += 1;
        document.revision = self.last_revision;
        document.version.clear();
        document.version.extend_from_slice(change.version);
        document.changes.extend(said);
        let length = document.text.as_ref().map_or(document.open.len(), Vec::len);
        let is_much = document.changes.n_bytes() > UNFOLDED_BYTES.max(length / 2);
        if is_much || document.changes.n() >= UNFOLDED {
            document.fold(self.encoding);
        }
    }

    fn tear(&mut self, uri: Option<String>) {
        let document = uri.as_ref().and_then(|it| self.texts.get_mut(it));
        if document.is_some_and(|it| !std::mem::replace(&mut it.is_torn, true)) {
            self.torn = uri;
        }
    }

    /// The document whose text has become unknown since the last call.
    pub(crate) fn take_torn(&mut self) -> Option<String> {
        self.torn.take()
    }

    /// Whether this document is open.
    pub(crate) fn has(&self, uri: &str) -> bool {
        self.texts.contains_key(uri)
    }

    /// The version of an open document, if it is a number.
    pub(crate) fn version(&self, uri: &str) -> Option<i64> {
        let document = self.texts.get(uri)?;
        let version = match &document.version[..] {
            b"" => &document.open[path(&document.open, &VERSION)?],
            version => version,
        };
        std::str::from_utf8(version).ok()?.parse().ok()
    }

    /// Parameters of a `didChange` that say the whole text as it is. None: it is not known.
    pub(crate) fn as_whole(&mut self, params: &[u8]) -> Option<Vec<u8>> {
        let text = self.text(&uri(params, "textDocument")?)?;
        let change = [br#"[{"text":"#.as_slice(), &text, b"}]"].concat();
        Some(Patch::of(params).set("contentChanges", &change).finish())
    }

    pub(crate) fn closed(&mut self, params: &[u8]) {
        if let Some(uri) = uri(params, "textDocument") {
            self.texts.remove(&uri);
        }
    }

    pub(super) fn notebook_opened(&mut self, params: &Bytes) {
        if let Some(uri) = uri(params, "notebookDocument") {
            self.notebooks.insert(uri, Notebook::opened(params));
        }
    }

    pub(super) fn notebook_changed(&mut self, params: &Bytes) {
        let uri = uri(params, "notebookDocument");
        if let Some(notebook) = uri.and_then(|uri| self.notebooks.get_mut(&uri)) {
            notebook.changed(params, self.encoding);
        }
    }

    pub(super) fn notebook_closed(&mut self, params: &[u8]) {
        if let Some(uri) = uri(params, "notebookDocument") {
            self.notebooks.remove(&uri);
        }
    }

    /// The text of an open document, as a raw JSON string.
    pub(crate) fn text(&mut self, uri: &str) -> Option<Vec<u8>> {
        let document = self.texts.get_mut(uri)?;
        document.fold(self.encoding);
        let params = document.params();
        path(&params, &TEXT).map(|range| params[range].to_vec())
    }

    /// The URIs of the open documents, with the revisions of their texts.
    pub(crate) fn revisions(&self) -> impl Iterator<Item = (&str, u64)> {
        self.texts.iter().map(|(uri, it)| (uri.as_str(), it.revision))
    }

    /// Whether the text of an open document is known.
    pub(crate) fn is_whole(&self, uri: &str) -> bool {
        self.texts.get(uri).is_some_and(|it| !it.is_torn)
    }

    /// How positions count characters, by its name in the protocol.
    pub(crate) fn encoding_name(&self) -> &'static str {
        match self.encoding {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf16 => "utf-16",
            Encoding::Utf32 => "utf-32",
        }
    }

    /// Every open document, in the order in which a fresh process is told them.
    pub(crate) fn open(&self) -> Vec<DocumentKey> {
        let texts = self.texts.keys().cloned().map(DocumentKey::Text);
        texts.chain(self.notebooks.keys().cloned().map(DocumentKey::Notebook)).collect()
    }

    /// What a fresh process is told of an open document: its current text and version.
    pub(crate) fn restored(&mut self, key: &DocumentKey) -> Option<(&'static str, Bytes)> {
        match key {
            DocumentKey::Text(uri) => {
                let document = self.texts.get_mut(uri)?;
                document.fold(self.encoding);
                Some(("textDocument/didOpen", document.params()))
            }
            DocumentKey::Notebook(uri) => {
                let notebook = self.notebooks.get_mut(uri)?;
                Some(("notebookDocument/didOpen", notebook.params(self.encoding)))
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn all_restored(&mut self) -> Vec<(&'static str, Bytes)> {
        self.open().iter().filter_map(|it| self.restored(it)).collect()
    }
}

/// The `uri` of the document identifier under this key.
pub(crate) fn uri(params: &[u8], key: &str) -> Option<String> {
    text(params, &[key, "uri"])
}

/// The path to the text in the parameters of `didOpen`.
const TEXT: [&str; 2] = ["textDocument", "text"];
const VERSION: [&str; 2] = ["textDocument", "version"];

impl Document {
    fn fold(&mut self, encoding: Encoding) {
        if self.changes.n() == 0 && self.version.is_empty() {
            return;
        }
        let mut text = Edited::new(self.take_text(), encoding);
        self.changes.iter().for_each(|(place, with)| text.apply(place, with));
        self.changes.clear();
        self.changes.shrink_to(UNFOLDED_BYTES);
        if !self.version.is_empty() {
            let version = std::mem::take(&mut self.version);
            self.open = Bytes::from(Patch::of(&self.open).set_path(&VERSION, &version).finish());
        }
        let mut text = text.finish();
        if text.capacity() - text.len() > text.len() / 8 {
            text.shrink_to_fit();
        }
        self.text = Some(text);
    }

    /// Takes the text out, so that edits of the rest need not scan it.
    fn take_text(&mut self) -> Vec<u8> {
        if let Some(text) = self.text.take() {
            return text;
        }
        let Some(range) = path(&self.open, &TEXT) else { return Vec::new() };
        let text = LooseText::of(&self.open[range.clone()]).unwrap_or_default().into_bytes();
        let rest = [&self.open[..range.start], br#""""#, &self.open[range.end..]].concat();
        self.open = Bytes::from(rest);
        text
    }

    /// The parameters of the `didOpen` for the current text.
    fn params(&self) -> Bytes {
        let Some(text) = &self.text else { return self.open.clone() };
        Bytes::from(Patch::of(&self.open).set_path(&TEXT, &LooseText::quoted(text)).finish())
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
        let restored = documents.all_restored();
        let open: Value = serde_json::from_slice(&restored[0].1).unwrap();
        assert_eq!(open["textDocument"]["version"], json!(edits.len() + 1));
        assert_eq!(open["textDocument"]["extra"], json!(7));
        open["textDocument"]["text"].as_str().unwrap().to_owned()
    }

    #[test]
    fn revision_is_another_after_each_change_and_after_opening_again() {
        let mut documents = Documents::default();
        let named = json!({"textDocument": {"uri": "u", "version": 2, "text": "a"}, "contentChanges": [{"text": "b"}]});
        let params = bytes(&named);
        let revision = |it: &Documents| it.revisions().next().map(|it| it.1);
        let mut seen = Vec::new();
        documents.opened(&params);
        seen.push(revision(&documents));
        documents.changed(&params);
        seen.push(revision(&documents));
        documents.closed(&params);
        documents.opened(&params);
        seen.push(revision(&documents));
        seen.dedup();
        assert_eq!(seen.len(), 3, "{seen:?}");
    }

    #[test]
    fn edits_count_characters_in_negotiated_encoding() {
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
    fn encoding_is_that_of_either_extension() {
        let of = |result: &str| Encoding::of_result(result.as_bytes());
        assert_eq!(of(r#"{"capabilities":{}}"#), Encoding::Utf16);
        assert_eq!(of(r#"{"capabilities":{"positionEncoding":"utf-8"}}"#), Encoding::Utf8);
        assert_eq!(of(r#"{"capabilities":{},"offsetEncoding":"utf-8"}"#), Encoding::Utf8);
        assert_eq!(
            of(r#"{"capabilities":{"positionEncoding":null},"offsetEncoding":"utf-32"}"#),
            Encoding::Utf32
        );
        let both = r#"{"capabilities":{"positionEncoding":"utf-16"},"offsetEncoding":"utf-8"}"#;
        assert_eq!(of(both), Encoding::Utf16, "the standard counts");
    }

    #[test]
    fn edits_accept_all_three_line_endings() {
        assert_eq!(
            edited(Encoding::Utf16, "a\r\nb\rc\nd", &[(1, 0, 1, 1, "B"), (3, 0, 3, 1, "D")]),
            "a\r\nB\rc\nD"
        );
        assert_eq!(edited(Encoding::Utf16, "a\r\nb", &[(0, 1, 1, 0, "")]), "ab");
    }

    #[test]
    fn edits_count_characters_in_long_lines() {
        let long = "x".repeat(200);
        let text = format!("{long}😀{long}é\nz");
        for (encoding, width) in [(Encoding::Utf8, 4), (Encoding::Utf16, 2), (Encoding::Utf32, 1)] {
            let at = 200 + width + 200;
            let expected = format!("{long}😀{long}!\nz");
            assert_eq!(edited(encoding, &text, &[(0, at, 0, at + 2, "!")]), expected);
            let expected = format!("{long}!{long}é\nz");
            assert_eq!(edited(encoding, &text, &[(0, 200, 0, 200 + width, "!")]), expected);
        }
    }

    #[test]
    fn any_text_of_a_document_is_mirrored() {
        let mirrored = |open: &[u8], edits: &[(u32, u32, &[u8])]| {
            let mut documents = Documents::default();
            let open =
                [br#"{"textDocument":{"uri":"u","version":1,"text":""#.as_slice(), open, br#""}}"#].concat();
            documents.opened(&Bytes::from(open));
            for (start, end, text) in edits {
                let range = format!(
                    r#"{{"start":{{"line":0,"character":{start}}},"end":{{"line":0,"character":{end}}}}}"#
                );
                let head = format!(
                    r#"{{"textDocument":{{"uri":"u","version":2}},"contentChanges":[{{"range":{range},"text":""#
                );
                documents.changed(&[head.as_bytes(), text, br#""}]}"#].concat());
            }
            let params = documents.all_restored().pop().unwrap().1;
            let range = path(&params, &TEXT).unwrap();
            params[range.start + 1..range.end - 1].to_vec()
        };
        assert_eq!(mirrored(br"a\ud83d", &[]), br"a\ud83d");
        assert_eq!(mirrored(br"a\ud83db", &[(2, 3, b"c")]), br"a\ud83dc");
        assert_eq!(
            mirrored(b"ab", &[(1, 1, br"\ud83d"), (2, 2, br"\ude00"), (3, 4, b"!")]),
            br"a\ud83d\ude00!"
        );
        // An edit cuts a pair in two, and another one joins it.
        let emoji = "😀b".as_bytes();
        assert_eq!(mirrored(emoji, &[(1, 2, b"")]), br"\ud83db");
        assert_eq!(mirrored(emoji, &[(0, 1, b"")]), br"\ude00b");
        assert_eq!(mirrored(emoji, &[(1, 2, b""), (1, 1, br"\ude00"), (2, 3, b"c")]), br"\ud83d\ude00c");
        assert_eq!(mirrored("😀".as_bytes(), &[(1, 1, b"x")]), br"\ud83dx\ude00");
        // Bytes that are not UTF-8 stay, and count as one character each.
        assert_eq!(mirrored(b"caf\xe9 x", &[(5, 6, b"y")]), b"caf\xe9 y");
        assert_eq!(mirrored(b"x", &[(0, 0, b"\xff\xfe"), (2, 3, b"y")]), b"\xff\xfey");
        assert_eq!(mirrored(b"\xe9\\nab", &[(9, 9, b"!")]), b"\xe9!\\nab");
    }

    #[test]
    fn edits_clamp_positions_past_the_end() {
        assert_eq!(edited(Encoding::Utf16, "a\nb", &[(0, 9, 0, 9, "x"), (7, 0, 7, 0, "!")]), "ax\nb!");
    }

    #[test]
    fn documents_fold_many_changes_and_forget_closed_document() {
        let mut documents = Documents::default();
        documents.opened(&bytes(&json!({"textDocument": {"uri": "u", "text": "", "version": 0}})));
        let long = "x".repeat(1000);
        for n in 1..200 {
            let change =
                json!({"textDocument": {"uri": "u", "version": n}, "contentChanges": [{"text": long}]});
            documents.changed(&bytes(&change));
            assert!(documents.texts["u"].changes.n_bytes() <= UNFOLDED_BYTES + 2000);
        }
        assert_eq!(documents.all_restored().len(), 1);
        documents.closed(br#"{"textDocument":{"uri":"u"}}"#);
        assert!(documents.all_restored().is_empty());
    }
}
