//! The texts of one process: what it has been told of, and the files that were read for it.
//!
//! Converts messages of both directions, and knows neither requests nor processes.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
};

use super::{
    conversion::Conversion,
    earlier::{Earlier, Previous},
    walk::{self, Named},
};
use crate::{
    core::mux::session::documents::{Edited, Encoding, Position, number},
    rpc::{Frame, LooseText, Patch, elements, file_path, member, path, text, values},
};

/// How much text of files is kept that are not open.
const READ_BYTES: usize = 16 << 20;

/// How the side of the editor counts.
pub(super) const EDITORS: Encoding = Encoding::Utf16;

/// The document of an item that is asked about later stands in its `data`.
pub(super) const DOCUMENT: &str = "lspoolDocument";

/// Requests whose answers have items that do not say in which document they are.
pub(super) const ITEMS: [&str; 10] = [
    "codeAction/resolve",
    "codeLens/resolve",
    "completionItem/resolve",
    "documentLink/resolve",
    "inlayHint/resolve",
    "textDocument/codeAction",
    "textDocument/codeLens",
    "textDocument/completion",
    "textDocument/documentLink",
    "textDocument/inlayHint",
];

/// The texts of a process that counts in another way than the editor.
#[derive(Debug)]
pub(super) struct Texts {
    encoding: Encoding,
    open: BTreeMap<String, Open>,
    earlier: Earlier,
    /// Files that are not open, in the order in which they were read.
    read: VecDeque<(String, Edited)>,
}

/// An open document.
#[derive(Debug)]
struct Open {
    text: Edited,
    version: Option<u32>,
    /// Half surrogate pairs are in it, which the process has as U+FFFD.
    has_halves: bool,
}

/// A request that the process answers.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) frame: &'a Frame,
    /// How many changes the process had been told before.
    pub(super) n_changes: u64,
}

/// Whether a message may wait for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    Wanted,
    /// They have been read, or cannot be.
    Tried,
}

/// A message to the process.
#[derive(Debug)]
pub(super) enum Outgoing {
    AsItIs,
    Converted(Frame),
    /// It has positions in these files.
    Needs(BTreeSet<PathBuf>),
}

/// What names a document, in whatever way its URI is escaped.
pub(super) fn key(uri: &str) -> String {
    file_path(uri).map_or_else(|| uri.to_owned(), |it| key_of_path(&it))
}

pub(super) fn key_of_path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Texts {
    pub(super) fn new(encoding: Encoding) -> Texts {
        Texts { encoding, open: BTreeMap::new(), earlier: Earlier::default(), read: VecDeque::new() }
    }

    /// How many changes the process has been told.
    pub(super) fn n_changes(&self) -> u64 {
        self.earlier.n()
    }

    /// A file was read. Forgets the files that were read first.
    pub(super) fn note_read(&mut self, path: &Path, text: Edited) {
        let key = key_of_path(path);
        self.read.retain(|(name, _)| *name != key);
        self.read.push_back((key, text));
        let mut bytes: usize = self.read.iter().map(|(_, it)| it.len()).sum();
        while bytes > READ_BYTES
            && let Some((_, text)) = self.read.pop_front()
        {
            bytes -= text.len();
        }
    }

    /// A message of the process, to be counted as the editor does. `asked`: what it answers.
    pub(super) fn incoming(&mut self, mut frame: Frame, asked: Option<Asked<'_>>) -> Conversion {
        if frame.method() == Some("client/registerCapability")
            && let Some(params) = frame.params().and_then(without_deltas)
        {
            frame = frame.with_params(&params);
        }
        let n_changes = asked.map_or_else(|| self.n_changes(), |it| it.n_changes);
        let mut conversion = Conversion::new(frame, self.encoding, asked.map(|it| it.frame));
        for (named, left) in conversion.take_left() {
            let key = key(&named.uri);
            let open = self.open.get_mut(&key);
            let is_now =
                open.as_ref().is_some_and(|it| named.version.is_some() && it.version == named.version);
            let mut before = None;
            if !is_now {
                let n = named.version.and_then(|it| self.earlier.when(&key, it)).unwrap_or(n_changes);
                before = self.earlier.text(&key, n, open.as_ref().map(|it| &it.text));
            }
            conversion.settle(left, before.as_mut().or(open.map(|it| &mut it.text)));
        }
        conversion
    }

    /// A message as the process gets it. A document whose text cannot be known counts as ASCII.
    pub(super) fn outgoing(&mut self, frame: &Frame, files: Files) -> Outgoing {
        let (Some(method), Some(params)) = (frame.method(), frame.params()) else { return Outgoing::AsItIs };
        let told = match method {
            "textDocument/didOpen" => {
                self.opened(params, &["textDocument"]);
                None
            }
            "textDocument/didClose" => {
                self.closed(params, &["textDocument"]);
                None
            }
            "textDocument/didChange" => self.document_changed(params),
            "notebookDocument/didOpen" => {
                self.each(params, &["cellTextDocuments"], Texts::opened);
                None
            }
            "notebookDocument/didClose" => {
                self.each(params, &["cellTextDocuments"], Texts::closed);
                None
            }
            "notebookDocument/didChange" => self.notebook_changed(params),
            "workspace/didChangeConfiguration" => None,
            _ => match self.asked(frame, method, params, files) {
                Ok(told) => told,
                Err(files) => return Outgoing::Needs(files),
            },
        };
        told.map_or(Outgoing::AsItIs, |it| Outgoing::Converted(frame.with_params(&it)))
    }

    fn opened(&mut self, params: &[u8], place: &[&str]) {
        let item = path(params, place).map_or(&b"{}"[..], |it| &params[it]);
        let [name, said, version] = values(item, ["uri", "text", "version"]);
        let name = name.and_then(|it| text(it, &[]));
        let said = said.and_then(LooseText::of).map(LooseText::into_bytes);
        let (Some(name), Some(mut said)) = (name, said) else { return };
        let text = Edited::new(said.clone(), EDITORS);
        let has_halves = LooseText::replace_halves(&mut said);
        self.forget(key(&name));
        self.read.retain(|(it, _)| *it != key(&name));
        self.open.insert(key(&name), Open { text, version: version.and_then(number), has_halves });
    }

    fn closed(&mut self, params: &[u8], place: &[&str]) {
        if let Some(name) = text(params, &[place, &["uri"]].concat()) {
            self.forget(key(&name));
        }
    }

    fn forget(&mut self, key: String) {
        if let Some(it) = self.open.remove(&key) {
            self.earlier.note(key, it.version, Previous::Text(it.text));
        }
    }

    fn each(&mut self, params: &[u8], place: &[&str], note: fn(&mut Texts, &[u8], &[&str])) {
        let list = path(params, place).map_or(&b"[]"[..], |it| &params[it]);
        elements(list).for_each(|it| note(self, &list[it], &[]));
    }

    fn document_changed(&mut self, params: &[u8]) -> Option<Vec<u8>> {
        let list = member(params, "contentChanges")?;
        let document = &params[member(params, "textDocument")?];
        let list = self.changed(document, &params[list])?;
        Some(Patch::of(params).set("contentChanges", &list).finish())
    }

    fn notebook_changed(&mut self, params: &[u8]) -> Option<Vec<u8>> {
        let cells = path(params, &["change", "cells"])?;
        let cells = self.cells_changed(&params[cells])?;
        Some(Patch::of(params).set_path(&["change", "cells"], &cells).finish())
    }

    /// The changes of a document as the process gets them. `None`: as they are. A text that has become unknown is
    /// forgotten.
    fn changed(&mut self, document: &[u8], list: &[u8]) -> Option<Vec<u8>> {
        let [name, version] = values(document, ["uri", "version"]);
        let key = key(&text(name?, &[])?);
        let mut all = Vec::new();
        for it in elements(list) {
            let open = self.open.get_mut(&key)?;
            let before = open.version;
            let Some((told, was)) = open.change(&list[it], self.encoding) else {
                self.forget(key);
                return None;
            };
            // A text between two changes of one message has no version.
            open.version = None;
            self.earlier.note(key.clone(), before, was);
            all.push(told);
        }
        self.open.get_mut(&key)?.version = version.and_then(number);
        Some([b"[".as_slice(), &all.join(b",".as_slice()), b"]"].concat())
    }

    fn cells_changed(&mut self, cells: &[u8]) -> Option<Vec<u8>> {
        self.each(cells, &["structure", "didOpen"], Texts::opened);
        self.each(cells, &["structure", "didClose"], Texts::closed);
        let list = &cells[member(cells, "textContent")?];
        let mut one = |it: &[u8]| {
            let changes = &it[member(it, "changes")?];
            let changes = self.changed(&it[member(it, "document")?], changes)?;
            Some(Patch::of(it).set("changes", &changes).finish())
        };
        let all = elements(list).map(|at| one(&list[at.clone()]).unwrap_or_else(|| list[at].to_vec()));
        let list = [b"[".as_slice(), &all.collect::<Vec<_>>().join(b",".as_slice()), b"]"].concat();
        Some(Patch::of(cells).set("textContent", &list).finish())
    }

    /// A request, or a notification that is about no text. `None`: it stays. An error: the files that are to be read
    /// first.
    fn asked(
        &mut self,
        frame: &Frame,
        method: &str,
        params: &[u8],
        files: Files,
    ) -> Result<Option<Vec<u8>>, BTreeSet<PathBuf>> {
        let (named, places) = walk::places(params, document_of(frame).as_deref());
        let (encoding, mut parts, mut needed) = (self.encoding, Vec::new(), BTreeSet::new());
        for (index, place) in places {
            let Named { uri, .. } = &named[index];
            match self.known(&key(uri)) {
                Some(text) => parts.extend(place.counted(text, EDITORS, encoding)),
                None => needed.extend(file_path(uri)),
            }
        }
        if files == Files::Wanted && !needed.is_empty() {
            return Err(needed);
        }
        let recounted = (!parts.is_empty()).then(|| walk::rewritten(params, parts));
        let params = recounted.as_deref().unwrap_or(params);
        let bare = untagged(method, params);
        // What it streams would not be converted.
        let params = bare.as_deref().unwrap_or(params);
        let whole = member(params, "partialResultToken")
            .map(|_| Patch::of(params).remove("partialResultToken").finish());
        Ok(whole.or(bare).or(recounted))
    }

    /// The current text of an open document, or the text that was read last.
    fn known(&mut self, key: &str) -> Option<&mut Edited> {
        match self.open.get_mut(key) {
            Some(open) => Some(&mut open.text),
            None => self.read.iter_mut().find(|(name, _)| name == key).map(|(_, text)| text),
        }
    }
}

/// Semantic tokens may be registered, but no changes of them: a part of the numbers cannot be converted.
fn without_deltas(params: &[u8]) -> Option<Vec<u8>> {
    let list = &params[member(params, "registrations")?];
    let full = ["registerOptions", "full"];
    let mut has_some = false;
    let one = |it: &[u8]| {
        let is_it = text(it, &["method"]).is_some_and(|it| it == "textDocument/semanticTokens");
        let has_delta = is_it && path(it, &full).is_some_and(|at| it[at].starts_with(b"{"));
        has_some |= has_delta;
        if has_delta { Patch::of(it).set_path(&full, b"true").finish() } else { it.to_vec() }
    };
    let all: Vec<Vec<u8>> = elements(list).map(|it| &list[it]).map(one).collect();
    let list = [b"[".as_slice(), &all.join(b",".as_slice()), b"]"].concat();
    has_some.then(|| Patch::of(params).set("registrations", &list).finish())
}

/// The document that a request is about.
pub(super) fn document_of(frame: &Frame) -> Option<String> {
    let params = frame.params()?;
    text(params, &["textDocument", "uri"])
        .or_else(|| text(params, &["item", "uri"]))
        .or_else(|| text(params, &["data", DOCUMENT]))
}

/// The parameters of a question about an item as its maker knows them.
fn untagged(method: &str, params: &[u8]) -> Option<Vec<u8>> {
    let at = member(params, "data").filter(|_| ITEMS.contains(&method))?;
    let [tag, data] = values(&params[at.clone()], [DOCUMENT, "data"]);
    tag?;
    Some(match data {
        Some(data) => [&params[..at.start], data, &params[at.end..]].concat(),
        None => Patch::of(params).remove("data").finish(),
    })
}

impl Open {
    /// Applies a change. Gives it as the process gets it, and how to get the text before it. `None`: it cannot be read.
    ///
    /// A process cannot have half a surrogate pair. As long as there is one, it gets the whole text instead.
    fn change(&mut self, change: &[u8], to: Encoding) -> Option<(Vec<u8>, Previous)> {
        let [range, with] = values(change, ["range", "text"]);
        let with = LooseText::of(with?)?.into_bytes();
        let has_halves = self.has_halves || LooseText::replace_halves(&mut with.clone());
        let Some(range) = range.filter(|it| *it != b"null") else {
            let was = Previous::Text(std::mem::replace(&mut self.text, Edited::new(with.clone(), EDITORS)));
            self.has_halves = false;
            let told = if has_halves { self.whole() } else { change.to_vec() };
            return Some((told, was));
        };
        let place = |key| {
            let [line, character] = values(&range[member(range, key)?], ["line", "character"]);
            Some(Position { line: number(line?)?, character: number(character?)? })
        };
        let (start, end) = (place("start")?, place("end")?);
        let mut json = |at: Position| {
            let character = self.text.recounted(at, EDITORS, to);
            format!(r#"{{"line":{},"character":{character}}}"#, at.line)
        };
        let told = format!(r#"{{"start":{},"end":{}}}"#, json(start), json(end));
        if !has_halves && let Some(replaced) = self.text.change(start, end, &with) {
            // Its length would be that of the editor's text.
            let told = Patch::of(change).set("range", told.as_bytes()).remove("rangeLength").finish();
            return Some((told, Previous::Changed(replaced)));
        }
        let was = Previous::Text(self.text.clone());
        self.text.apply(Some((start, end)), &with);
        Some((self.whole(), was))
    }

    /// A change to the whole text, in which halves that have met are a pair.
    fn whole(&mut self) -> Vec<u8> {
        let text = LooseText::quoted(&self.text.clone().finish());
        let mut text = LooseText::of(&text).unwrap_or_default().into_bytes();
        self.text = Edited::new(text.clone(), EDITORS);
        self.has_halves = LooseText::replace_halves(&mut text);
        [br#"{"text":"#.as_slice(), &LooseText::quoted(&text), b"}"].concat()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// A server that keeps the text as its characters, and counts in one way.
    struct Slow {
        text: Vec<char>,
        encoding: Encoding,
    }

    fn units(encoding: Encoding, text: &[char]) -> usize {
        let text: String = text.iter().collect();
        match encoding {
            Encoding::Utf8 => text.len(),
            Encoding::Utf16 => text.encode_utf16().count(),
            Encoding::Utf32 => text.chars().count(),
        }
    }

    impl Slow {
        fn place(&self, index: usize) -> Value {
            let before = &self.text[..index];
            let line = before.iter().filter(|it| **it == '\n').count();
            let start = before.iter().rposition(|it| *it == '\n').map_or(0, |it| it + 1);
            json!({"line": line, "character": units(self.encoding, &before[start..])})
        }

        /// Panics if there is no character boundary.
        fn index(&self, place: &Value) -> usize {
            (0..=self.text.len()).find(|it| self.place(*it) == *place).expect("a character begins there")
        }

        fn apply(&mut self, change: &Value) {
            let with = change["text"].as_str().unwrap().chars();
            let range = match &change["range"] {
                Value::Null => 0..self.text.len(),
                range => self.index(&range["start"])..self.index(&range["end"]),
            };
            self.text.splice(range, with);
        }
    }

    fn notification(method: &str, params: &Value) -> Frame {
        Frame::notification(method, Some(params.to_string().as_bytes()))
    }

    fn params(frame: &Frame) -> Value {
        serde_json::from_slice(frame.params().unwrap()).unwrap()
    }

    fn told(texts: &mut Texts, frame: &Frame) -> Value {
        match texts.outgoing(frame, Files::Tried) {
            Outgoing::Converted(it) => params(&it),
            Outgoing::AsItIs => params(frame),
            Outgoing::Needs(files) => panic!("{files:?} have been tried"),
        }
    }

    /// What the editor hears of a message of the process.
    fn heard(texts: &mut Texts, frame: Frame) -> Value {
        params(&texts.incoming(frame, None).finish().result.unwrap())
    }

    proptest! {
        /// After any edits the server has the editor's text, and a place of one is the place of the other.
        #[test]
        fn server_and_editor_mean_the_same_places(
            first in "[aé😀\n]{0,12}",
            steps in prop::collection::vec(
                (prop::bool::weighted(0.1), any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[bè🦀\n]{0,4}"), 0..8,
            ),
            encoding in prop::sample::select(vec![Encoding::Utf8, Encoding::Utf32]),
        ) {
            let mut editor = Slow { text: first.chars().collect(), encoding: Encoding::Utf16 };
            let mut server = Slow { text: first.chars().collect(), encoding };
            let mut texts = Texts::new(encoding);
            let item = json!({"uri": "file:///a%20b", "languageId": "x", "version": 1, "text": first});
            told(&mut texts, &notification("textDocument/didOpen", &json!({"textDocument": item})));
            for (is_whole, from, to, text) in steps {
                let (from, to) = (from.index(editor.text.len() + 1), to.index(editor.text.len() + 1));
                let range = json!({"start": editor.place(from.min(to)), "end": editor.place(from.max(to))});
                let change = match is_whole {
                    true => json!({"text": text}),
                    false => json!({"range": range, "text": text}),
                };
                editor.apply(&change);
                let changes = json!({"textDocument": {"uri": "file:///a%20b", "version": 2}, "contentChanges": [change]});
                let changes = told(&mut texts, &notification("textDocument/didChange", &changes));
                server.apply(&changes["contentChanges"][0]);
                prop_assert_eq!(&server.text, &editor.text);
                for index in 0..=editor.text.len() {
                    // The server spells the URI in another way.
                    let said = json!({"uri": "file:///a b", "range": {"start": server.place(index), "end": server.place(index)}});
                    let heard = heard(&mut texts, notification("window/showDocument", &said));
                    prop_assert_eq!(&heard["range"]["start"], &editor.place(index));
                    let asked = json!({"textDocument": {"uri": "file:///a%20b"}, "position": editor.place(index)});
                    let asked = told(&mut texts, &notification("textDocument/hover", &asked));
                    prop_assert_eq!(&asked["position"], &server.place(index));
                }
            }
        }
    }

    #[test]
    fn place_past_the_end_of_a_line_is_the_end() {
        let mut texts = Texts::new(Encoding::Utf8);
        let item = json!({"uri": "u", "languageId": "x", "version": 1, "text": "é😀\r\nx"});
        told(&mut texts, &notification("textDocument/didOpen", &json!({"textDocument": item})));
        let place = |line: u32, character: u32| json!({"line": line, "character": character});
        for (said, heard) in [
            (place(0, u32::MAX), place(0, 6)),
            (place(0, 2), place(0, 2)),
            (place(1, 9), place(1, 1)),
            (place(7, 9), place(7, 9)),
        ] {
            let asked = json!({"textDocument": {"uri": "u"}, "position": said});
            assert_eq!(told(&mut texts, &notification("textDocument/hover", &asked))["position"], heard);
        }
    }

    #[test]
    fn cells_of_notebooks_are_documents() {
        let mut texts = Texts::new(Encoding::Utf8);
        let cell = |uri: &str| json!({"uri": uri, "languageId": "x", "version": 1, "text": "é"});
        let open = json!({"notebookDocument": {"uri": "n"}, "cellTextDocuments": [cell("one")]});
        told(&mut texts, &notification("notebookDocument/didOpen", &open));
        let end = |character: u32| json!({"start": {"line": 0, "character": character}, "end": {"line": 0, "character": character}});
        let content = |uri: &str, character: u32| json!({"document": {"uri": uri, "version": 2}, "changes": [{"range": end(character), "text": "é"}]});
        let change = json!({"notebookDocument": {"uri": "n"}, "change": {"cells": {
            "structure": {"array": {}, "didOpen": [cell("two")]},
            "textContent": [content("one", 1), content("two", 1), content("unknown", 1)],
        }}});
        let heard = told(&mut texts, &notification("notebookDocument/didChange", &change));
        let heard = &heard["change"]["cells"]["textContent"];
        assert_eq!(heard, &json!([content("one", 2), content("two", 2), content("unknown", 1)]));
        told(&mut texts, &notification("notebookDocument/didClose", &open));
        let asked =
            |uri: &str| json!({"textDocument": {"uri": uri}, "position": {"line": 0, "character": 2}});
        let mut at = |uri: &str| {
            told(&mut texts, &notification("textDocument/hover", &asked(uri)))["position"].clone()
        };
        assert_eq!(
            (at("one"), at("two")),
            (json!({"line": 0, "character": 2}), json!({"line": 0, "character": 4}))
        );
    }

    #[test]
    fn tokens_are_registered_without_changes_of_them() {
        let mut texts = Texts::new(Encoding::Utf8);
        let of = |method: &str, full: &Value| {
            let one = json!({"id": "1", "method": method, "registerOptions": {"full": full, "range": true}});
            json!({"registrations": [{"id": "2", "method": "x"}, one]})
        };
        let tokens = "textDocument/semanticTokens";
        let (delta, whole) = (json!({"delta": true}), json!(true));
        for (said, expected) in [
            (of(tokens, &delta), of(tokens, &whole)),
            (of(tokens, &whole), of(tokens, &whole)),
            (of("other", &delta), of("other", &delta)),
        ] {
            let frame = notification("client/registerCapability", &said);
            assert_eq!(heard(&mut texts, frame), expected);
        }
    }

    #[test]
    fn files_that_were_read_are_kept_up_to_a_size() {
        let mut texts = Texts::new(Encoding::Utf8);
        for name in ["/a", "/b", "/c"] {
            let text = Edited::new(vec![b'x'; READ_BYTES / 2], EDITORS);
            texts.note_read(Path::new(name), text);
        }
        assert!(texts.known("/a").is_none() && texts.known("/c").is_some());
        let said = json!({"uri": "file:///c", "range": {"start": {"line": 0, "character": 1}}});
        let conversion = texts.incoming(notification("window/showDocument", &said), None);
        assert_eq!(conversion.missing().count(), 1, "it may have changed");
    }

    fn edit(version: u32, from: u32, to: u32, text: &str) -> Frame {
        let at = |character: u32| json!({"line": 0, "character": character});
        // Halves of pairs are written as they are.
        let change = json!({"range": {"start": at(from), "end": at(to)}, "text": "T"});
        let document = json!({"uri": "u", "version": version});
        let params = json!({"textDocument": document, "contentChanges": [change]}).to_string();
        Frame::notification("textDocument/didChange", Some(params.replace('T', text).as_bytes()))
    }

    #[test]
    fn change_that_cuts_a_character_is_told_as_the_whole_text() {
        for encoding in [Encoding::Utf8, Encoding::Utf32] {
            let mut texts = Texts::new(encoding);
            let item = json!({"uri": "u", "languageId": "x", "version": 1, "text": "a😀b"});
            told(&mut texts, &notification("textDocument/didOpen", &json!({"textDocument": item})));
            for (change, whole) in [
                (edit(2, 2, 3, ""), Some("a\u{fffd}b")),
                // As long as a half is in it.
                (edit(3, 3, 3, "c"), Some("a\u{fffd}bc")),
                (edit(4, 2, 2, r"\ude00"), Some("a😀bc")),
                (edit(5, 1, 2, ""), Some("a\u{fffd}bc")),
                (edit(6, 0, 1, r"\ud83d"), Some("😀bc")),
                (edit(7, 1, 1, "x"), Some("\u{fffd}x\u{fffd}bc")),
                (edit(8, 0, 3, "é"), Some("ébc")),
                (edit(9, 3, 3, "d"), None),
            ] {
                let change = &told(&mut texts, &change)["contentChanges"][0];
                assert_eq!(change["text"].as_str().filter(|_| change["range"].is_null()), whole);
            }
            let end = json!({"textDocument": {"uri": "u"}, "position": {"line": 0, "character": 4}});
            let end = told(&mut texts, &notification("textDocument/hover", &end));
            let expected = if encoding == Encoding::Utf8 { 5 } else { 4 };
            assert_eq!(end["position"]["character"], expected);
        }
    }

    #[test]
    fn half_of_a_character_has_the_place_of_what_stands_for_it() {
        let mut texts = Texts::new(Encoding::Utf8);
        let item = json!({"uri": "u", "languageId": "x", "version": 1, "text": "😀b"});
        told(&mut texts, &notification("textDocument/didOpen", &json!({"textDocument": item})));
        let at = |texts: &mut Texts, character: u32| {
            let asked =
                json!({"textDocument": {"uri": "u"}, "position": {"line": 0, "character": character}});
            told(texts, &notification("textDocument/hover", &asked))["position"]["character"].clone()
        };
        assert_eq!([0, 1, 2, 3].map(|it| at(&mut texts, it)), [0, 0, 4, 5], "the start of the character");
        told(&mut texts, &edit(2, 1, 1, "x"));
        assert_eq!([0, 1, 2, 3, 4].map(|it| at(&mut texts, it)), [0, 3, 4, 7, 8]);
    }

    #[test]
    fn place_is_in_the_text_of_its_version_or_of_the_request() {
        let mut texts = Texts::new(Encoding::Utf8);
        let item = json!({"uri": "u", "languageId": "x", "version": 1, "text": "éééx"});
        told(&mut texts, &notification("textDocument/didOpen", &json!({"textDocument": item})));
        let asked = notification("textDocument/hover", &json!({"textDocument": {"uri": "u"}}));
        let asked = Asked { frame: &asked, n_changes: texts.n_changes() };
        told(&mut texts, &edit(2, 0, 1, "xx"));
        let said = |version: Value| {
            let place = json!({"line": 0, "character": 4});
            json!({"uri": "u", "version": version, "range": {"start": place, "end": place}})
        };
        let character = |it: &Value| it["range"]["start"]["character"].clone();
        let publish = |version: Value| notification("textDocument/publishDiagnostics", &said(version));
        assert_eq!(character(&heard(&mut texts, publish(json!(null)))), 3);
        for is_open in [true, false] {
            let [one, two] = [1, 2].map(|it| character(&heard(&mut texts, publish(json!(it)))));
            assert_eq!((one, two), (json!(2), json!(3)), "{is_open}");
            for (version, expected) in [(json!(null), 2), (json!(2), 3), (json!(7), 2)] {
                let said = said(version).to_string();
                let answer = Frame::response(crate::rpc::RawId::from(1), said.as_bytes());
                let answer = texts.incoming(answer, Some(asked)).finish().result.unwrap();
                let answer: Value = serde_json::from_slice(answer.result().unwrap()).unwrap();
                assert_eq!(character(&answer), expected, "{is_open}: {said}");
            }
            let close = json!({"textDocument": {"uri": "u"}});
            texts.outgoing(&notification("textDocument/didClose", &close), Files::Tried);
        }
    }
}
