//! The texts of one process: what it has been told of, and the files that were read for it.
//!
//! Converts messages of both directions, and knows neither requests nor processes.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
};

use super::walk;
use crate::{
    core::mux::{
        merge::owners::Tag,
        session::documents::{Edited, Encoding, Position, number, uri},
    },
    rpc::{Frame, LooseText, Patch, elements, file_path, member, path, text, values},
};

/// How much text of files is kept that are not open.
const READ_BYTES: usize = 16 << 20;

/// How the side of the editor counts.
const EDITORS: Encoding = Encoding::Utf16;

/// The document of an item that is asked about later stands in its `data`.
const DOCUMENT: &str = "lspoolDocument";

/// Requests whose answers have items that do not say in which document they are.
const ITEMS: [&str; 10] = [
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

/// Which texts may be used for a message of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usable {
    /// Those of open documents. Files may have changed since they were read.
    Open,
    All,
}

/// The texts of a process that counts in another way than the editor.
#[derive(Debug)]
pub(super) struct Texts {
    encoding: Encoding,
    open: BTreeMap<String, Edited>,
    /// Files that are not open, in the order in which they were read.
    read: VecDeque<(String, Edited)>,
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
        Texts { encoding, open: BTreeMap::new(), read: VecDeque::new() }
    }

    /// A file was read.
    pub(super) fn note_read(&mut self, key: String, text: String) {
        self.read.retain(|(name, _)| *name != key);
        self.read.push_back((key, Edited::new(text.into_bytes(), EDITORS)));
    }

    /// Forgets the files that were read first.
    pub(super) fn trim(&mut self) {
        let mut bytes: usize = self.read.iter().map(|(_, it)| it.len()).sum();
        while bytes > READ_BYTES
            && let Some((_, text)) = self.read.pop_front()
        {
            bytes -= text.len();
        }
    }

    fn get_mut(&mut self, uri: &str, usable: Usable) -> Option<&mut Edited> {
        let key = key(uri);
        match self.open.get_mut(&key) {
            Some(text) => Some(text),
            None if usable == Usable::All => {
                self.read.iter_mut().find(|(name, _)| *name == key).map(|(_, text)| text)
            }
            None => None,
        }
    }

    /// A message of the process as the editor counts. `None`: as it is. An error: the documents whose texts it takes.
    /// `asked`: what it answers.
    pub(super) fn incoming(
        &mut self,
        frame: &Frame,
        asked: Option<&Frame>,
        usable: Usable,
    ) -> Result<Option<Frame>, BTreeSet<String>> {
        let Some(body) = frame.params().or_else(|| frame.result()) else { return Ok(None) };
        if frame.method() == Some("client/registerCapability") {
            return Ok(without_deltas(body).map(|it| frame.with_params(&it)));
        }
        let document = asked.and_then(document_of);
        let (encoding, mut unknown) = (self.encoding, BTreeSet::new());
        let mut recount = |uri: &str, line: u32, character: u32| match self.get_mut(uri, usable) {
            Some(text) => Some(text.recounted(Position { line, character }, encoding, EDITORS)),
            None => {
                unknown.insert(uri.to_owned());
                None
            }
        };
        let recounted = walk::recounted(body, document.as_deref(), &mut recount);
        let method = asked.and_then(Frame::method).unwrap_or_default();
        let tokens = match &document {
            Some(document) if method.starts_with("textDocument/semanticTokens/") => {
                tokens(body, |line, character| recount(document, line, character))
            }
            Some(_) | None => None,
        };
        if !unknown.is_empty() {
            return Err(unknown);
        }
        let tagged = document.filter(|_| ITEMS.contains(&method)).map(|document| {
            let tag = Tag::of(DOCUMENT, &document);
            tag.put_answer(method, recounted.as_deref().unwrap_or(body))
        });
        let converted = tagged.or(tokens).or(recounted);
        Ok(converted.map(|it| match frame.params() {
            Some(_) => frame.with_params(&it),
            None => frame.with_result(&it),
        }))
    }

    /// A message as the process gets it. `None`: as it is. A document that is not known counts as ASCII.
    pub(super) fn outgoing(&mut self, frame: &Frame) -> Option<Frame> {
        let (method, params) = (frame.method()?, frame.params()?);
        match method {
            "textDocument/didOpen" => self.opened(&params[member(params, "textDocument")?]),
            "textDocument/didClose" => self.closed(&params[member(params, "textDocument")?]),
            "textDocument/didChange" => {
                let list = member(params, "contentChanges")?;
                let list = self.changed(&uri(params, "textDocument")?, &params[list])?;
                return Some(frame.with_params(&Patch::of(params).set("contentChanges", &list).finish()));
            }
            "notebookDocument/didOpen" => self.each(params, &["cellTextDocuments"], Texts::opened),
            "notebookDocument/didClose" => self.each(params, &["cellTextDocuments"], Texts::closed),
            "notebookDocument/didChange" => {
                let cells = path(params, &["change", "cells"])?;
                let cells = self.cells_changed(&params[cells])?;
                return Some(
                    frame.with_params(&Patch::of(params).set_path(&["change", "cells"], &cells).finish()),
                );
            }
            "workspace/didChangeConfiguration" => {}
            _ => return self.asked(frame, method, params),
        }
        None
    }

    fn opened(&mut self, item: &[u8]) {
        let [name, said] = values(item, ["uri", "text"]);
        let name = name.and_then(|it| text(it, &[]));
        let said = said.and_then(LooseText::of).map(LooseText::into_bytes);
        if let (Some(name), Some(said)) = (name, said) {
            self.open.insert(key(&name), Edited::new(said, EDITORS));
        }
    }

    fn closed(&mut self, item: &[u8]) {
        if let Some(name) = text(item, &["uri"]) {
            self.open.remove(&key(&name));
        }
    }

    fn each(&mut self, params: &[u8], place: &[&str], note: fn(&mut Texts, &[u8])) {
        let list = path(params, place).map_or(&b"[]"[..], |it| &params[it]);
        elements(list).for_each(|it| note(self, &list[it]));
    }

    /// The changes of a document as the process gets them. `None`: as they are. A text that has become unknown is
    /// forgotten.
    fn changed(&mut self, uri: &str, list: &[u8]) -> Option<Vec<u8>> {
        let key = key(uri);
        let text = self.open.get_mut(&key)?;
        let all: Option<Vec<Vec<u8>>> =
            elements(list).map(|it| change(text, &list[it], self.encoding)).collect();
        if all.is_none() {
            self.open.remove(&key);
        }
        Some([b"[".as_slice(), &all?.join(b",".as_slice()), b"]"].concat())
    }

    fn cells_changed(&mut self, cells: &[u8]) -> Option<Vec<u8>> {
        self.each(cells, &["structure", "didOpen"], Texts::opened);
        self.each(cells, &["structure", "didClose"], Texts::closed);
        let list = &cells[member(cells, "textContent")?];
        let one = |it: &[u8]| {
            let changes = &it[member(it, "changes")?];
            let changes = self.changed(&uri(it, "document")?, changes)?;
            Some(Patch::of(it).set("changes", &changes).finish())
        };
        let mut one = one;
        let all = elements(list).map(|at| one(&list[at.clone()]).unwrap_or_else(|| list[at].to_vec()));
        let list = [b"[".as_slice(), &all.collect::<Vec<_>>().join(b",".as_slice()), b"]"].concat();
        Some(Patch::of(cells).set("textContent", &list).finish())
    }

    /// A request, or a notification that is about no text.
    fn asked(&mut self, frame: &Frame, method: &str, params: &[u8]) -> Option<Frame> {
        let document = document_of(frame);
        let encoding = self.encoding;
        let mut recount = |uri: &str, line: u32, character: u32| {
            let text = self.get_mut(uri, Usable::All)?;
            Some(text.recounted(Position { line, character }, EDITORS, encoding))
        };
        let recounted = walk::recounted(params, document.as_deref(), &mut recount);
        let params = recounted.as_deref().unwrap_or(params);
        let bare = untagged(method, params);
        // What it streams would not be converted.
        let params = bare.as_deref().unwrap_or(params);
        let whole = member(params, "partialResultToken")
            .map(|_| Patch::of(params).remove("partialResultToken").finish());
        whole.or(bare).or(recounted).map(|it| frame.with_params(&it))
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
fn document_of(frame: &Frame) -> Option<String> {
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

/// One change as the process gets it. Changes the text.
fn change(text: &mut Edited, change: &[u8], to: Encoding) -> Option<Vec<u8>> {
    let [range, with] = values(change, ["range", "text"]);
    let with = LooseText::of(with?)?.into_bytes();
    let Some(range) = range.filter(|it| *it != b"null") else {
        text.apply(None, &with);
        return Some(change.to_vec());
    };
    let place = |key| {
        let [line, character] = values(&range[member(range, key)?], ["line", "character"]);
        Some(Position { line: number(line?)?, character: number(character?)? })
    };
    let (start, end) = (place("start")?, place("end")?);
    let mut json = |at: Position| {
        let character = text.recounted(at, EDITORS, to);
        format!(r#"{{"line":{},"character":{character}}}"#, at.line)
    };
    let told = format!(r#"{{"start":{},"end":{}}}"#, json(start), json(end));
    text.apply(Some((start, end)), &with);
    // Its length would be that of the editor's text.
    Some(Patch::of(change).set("range", told.as_bytes()).remove("rangeLength").finish())
}

/// A report of semantic tokens, counted in another way. `None`: it has none, or they cannot be read.
fn tokens(result: &[u8], mut recount: impl FnMut(u32, u32) -> Option<u32>) -> Option<Vec<u8>> {
    let data = &result[member(result, "data")?];
    let numbers: Vec<u32> = elements(data).map(|it| number(&data[it])).collect::<Option<_>>()?;
    let (mut line, mut at) = (0_u32, 0_u32);
    let mut told = Vec::with_capacity(numbers.len());
    let (mut told_line, mut told_at) = (0, 0);
    for token in numbers.as_chunks::<5>().0 {
        let [lines, characters, length, kind, modifiers] = *token;
        (line, at) = match lines {
            0 => (line, at.checked_add(characters)?),
            _ => (line.checked_add(lines)?, characters),
        };
        let start = recount(line, at).unwrap_or(at);
        let end = at.checked_add(length)?;
        let end = recount(line, end).unwrap_or(end);
        let before = if line == told_line { told_at } else { 0 };
        // Tokens may be in any order only within what the protocol can say.
        told.extend([
            line - told_line,
            start.checked_sub(before)?,
            end.saturating_sub(start),
            kind,
            modifiers,
        ]);
        (told_line, told_at) = (line, start);
    }
    let data: Vec<String> = told.iter().map(u32::to_string).collect();
    Some(Patch::of(result).set("data", format!("[{}]", data.join(",")).as_bytes()).finish())
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
        params(texts.outgoing(frame).as_ref().unwrap_or(frame))
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
                    let frame = notification("window/showDocument", &said);
                    let heard = texts.incoming(&frame, None, Usable::Open).unwrap();
                    let heard = params(heard.as_ref().unwrap_or(&frame));
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
            let heard = texts.incoming(&frame, None, Usable::Open).unwrap();
            assert_eq!(params(heard.as_ref().unwrap_or(&frame)), expected);
        }
    }

    #[test]
    fn files_that_were_read_are_kept_up_to_a_size() {
        let mut texts = Texts::new(Encoding::Utf8);
        for name in ["a", "b", "c"] {
            texts.note_read(name.to_owned(), "x".repeat(READ_BYTES / 2));
            texts.trim();
        }
        assert!(texts.get_mut("a", Usable::All).is_none() && texts.get_mut("c", Usable::All).is_some());
        assert!(texts.get_mut("c", Usable::Open).is_none(), "it may have changed");
    }
}
