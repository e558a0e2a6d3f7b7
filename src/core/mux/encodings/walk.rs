//! Finds the positions in JSON text of the protocol.
//!
//! Knows no method: **a position is an object with a line and a character**, and the document that it is in is the one
//! that the objects around it name. What only its maker understands (`data`, `arguments`) has no positions.

use std::{borrow::Cow, ops::Range};

use crate::{
    core::mux::session::documents::{Position, number},
    rpc::{decode, elements, members, path},
};

/// Nested deeper than any message of the protocol: what is inside stays as it is.
const DEEPEST: usize = 300;

/// Under these keys is what only a server, or only a person understands.
const OPAQUE: [&str; 4] = ["arguments", "data", "initializationOptions", "settings"];

/// Only the replacement of a range has one of these.
const EDITS: [&str; 2] = ["newText", "snippet"];

/// Line and character of both ends of a folding range, which has no positions.
const FOLDING: [(&str, &str); 2] = [("startLine", "startCharacter"), ("endLine", "endCharacter")];

/// A document as a message names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) uri: String,
    pub(super) version: Option<u32>,
}

/// A position in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where its character stands in the text of the message.
    pub(super) at: Range<usize>,
    pub(super) position: Position,
    pub(super) of: Of,
}

/// What a position is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// An edit, which does harm in a wrong place.
    Edit,
    Other,
}

/// The positions in a message that may count in another way, each with the index of its document. `document` is the one
/// that is meant where no other is named.
pub(super) fn places(json: &[u8], document: Option<&str>) -> (Vec<Named>, Vec<(usize, Place)>) {
    let named = document.map(|it| Named { uri: it.to_owned(), version: None });
    let around = Around { document: named.as_ref().map(|_| 0), of: Of::Other };
    let mut walk = Walk { json, named: named.into_iter().collect(), found: Vec::new() };
    walk.value(0..json.len(), around, 0);
    (walk.named, walk.found)
}

/// What the objects around a value say.
#[derive(Clone, Copy)]
struct Around {
    /// The index of the document.
    document: Option<usize>,
    of: Of,
}

struct Walk<'a> {
    json: &'a [u8],
    named: Vec<Named>,
    found: Vec<(usize, Place)>,
}

impl<'a> Walk<'a> {
    fn value(&mut self, at: Range<usize>, around: Around, depth: usize) {
        let raw: &'a [u8] = &self.json[at.clone()];
        match raw.trim_ascii_start().first() {
            Some(b'{' | b'[') if depth == DEEPEST => {}
            Some(b'{') => self.object(raw, at.start, around, depth + 1),
            Some(b'[') => {
                for it in elements(raw) {
                    self.value(at.start + it.start..at.start + it.end, around, depth + 1);
                }
            }
            Some(_) | None => {}
        }
    }

    fn object(&mut self, raw: &'a [u8], start: usize, around: Around, depth: usize) {
        let all: Vec<(Cow<'a, str>, Range<usize>)> = members(raw).collect();
        // The last one counts.
        let get = |key: &str| all.iter().rfind(|(name, _)| name == key).map(|(_, at)| at.clone());
        let number_at = |key: &str| number(&raw[get(key)?]);
        let text_at = |key: &str| decode(&raw[get(key)?]);
        if let (Some(line), Some(_), Some(at)) = (number_at("line"), number_at("character"), get("character"))
        {
            return self.position(raw, at, start, around, line);
        }
        for (line, character) in FOLDING {
            if let (Some(line), Some(at)) = (number_at(line), get(character)) {
                self.position(raw, at, start, around, line);
            }
        }
        let inner = |key: &str| {
            let object = &raw[get(key)?];
            let uri = decode(&object[path(object, &["uri"])?])?.into_owned();
            let version = path(object, &["version"]).and_then(|it| number(&object[it]));
            Some(Named { uri, version })
        };
        let own = text_at("uri").map(|it| Named { uri: it.into_owned(), version: number_at("version") });
        let own = own.or_else(|| inner("textDocument")).map(|it| self.name(it));
        let is_edit = around.of == Of::Edit || EDITS.iter().any(|it| get(it).is_some());
        let around =
            Around { document: own.or(around.document), of: if is_edit { Of::Edit } else { Of::Other } };
        let of_other = |walk: &mut Self, other: Option<Named>| match other {
            Some(it) => Around { document: Some(walk.name(it)), ..around },
            None => around,
        };
        let target = text_at("targetUri").map(|it| Named { uri: it.into_owned(), version: None });
        let target = of_other(self, target);
        let caller = of_other(self, inner("from"));
        for (key, at) in &all {
            let at = start + at.start..start + at.end;
            match &**key {
                key if OPAQUE.contains(&key) => {}
                "targetRange" | "targetSelectionRange" => self.value(at, target, depth),
                "fromRanges" => self.value(at, caller, depth),
                "changes" | "relatedDocuments" if self.json[at.start] == b'{' => {
                    self.by_document(at, around, depth);
                }
                _ => self.value(at, around, depth),
            }
        }
    }

    /// An object whose keys are documents.
    fn by_document(&mut self, at: Range<usize>, around: Around, depth: usize) {
        let raw: &'a [u8] = &self.json[at.clone()];
        for (uri, it) in members(raw) {
            let document = Some(self.name(Named { uri: uri.into_owned(), version: None }));
            self.value(at.start + it.start..at.start + it.end, Around { document, ..around }, depth + 1);
        }
    }

    fn name(&mut self, it: Named) -> usize {
        self.named.push(it);
        self.named.len() - 1
    }

    fn position(&mut self, raw: &[u8], at: Range<usize>, start: usize, around: Around, line: u32) {
        let (Some(document), Some(character)) = (around.document, number(&raw[at.clone()])) else { return };
        // The beginning of a line is that in any encoding.
        if character == 0 {
            return;
        }
        let position = Position { line, character };
        let at = start + at.start..start + at.end;
        self.found.push((document, Place { at, position, of: around.of }));
    }
}

/// The text with other parts in these places.
pub(super) fn rewritten(json: &[u8], mut parts: Vec<(Range<usize>, Vec<u8>)>) -> Vec<u8> {
    parts.sort_by_key(|(at, _)| at.start);
    let (mut out, mut copied) = (Vec::with_capacity(json.len() + parts.len()), 0);
    for (at, with) in parts {
        out.extend_from_slice(&json[copied..at.start]);
        out.extend_from_slice(&with);
        copied = at.end;
    }
    out.extend_from_slice(&json[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Each character becomes that of its document: 100 more in `a`, 200 more in `b`.
    fn walked(document: Option<&str>, value: &Value) -> Value {
        let json = value.to_string();
        let (named, found) = places(json.as_bytes(), document);
        let more = |document: &str| match document {
            "a" => 100,
            "b" => 200,
            _ => 0,
        };
        let part = |(document, it): (usize, Place)| {
            let character = it.position.character + more(&named[document].uri);
            (it.at, character.to_string().into_bytes())
        };
        let parts = found.into_iter().map(part).collect();
        serde_json::from_slice(&rewritten(json.as_bytes(), parts)).unwrap()
    }

    fn place(character: u32) -> Value {
        json!({"line": 3, "character": character})
    }

    fn range(character: u32) -> Value {
        json!({"start": place(character), "end": place(character + 1)})
    }

    #[test]
    fn position_is_of_the_nearest_document_that_is_named() {
        let (own, a, b) = (range(5), range(105), range(205));
        for (before, after) in [
            (json!([{"range": own}]), json!([{"range": a}])),
            (json!({"uri": "b", "range": own}), json!({"uri": "b", "range": b})),
            (json!({"uri": "unknown", "range": own}), json!({"uri": "unknown", "range": own})),
            (
                json!({"targetUri": "b", "targetRange": own, "targetSelectionRange": own, "originSelectionRange": own}),
                json!({"targetUri": "b", "targetRange": b, "targetSelectionRange": b, "originSelectionRange": a}),
            ),
            (
                json!({"textDocument": {"uri": "b", "version": 1}, "edits": [{"range": own, "newText": ""}]}),
                json!({"textDocument": {"uri": "b", "version": 1}, "edits": [{"range": b, "newText": ""}]}),
            ),
            (
                json!({"changes": {"a": [{"range": own}], "b": [{"range": own}]}, "changeAnnotations": {}}),
                json!({"changes": {"a": [{"range": a}], "b": [{"range": b}]}, "changeAnnotations": {}}),
            ),
            (
                json!({"items": [{"range": own}], "relatedDocuments": {"b": {"items": [{"range": own}]}}}),
                json!({"items": [{"range": a}], "relatedDocuments": {"b": {"items": [{"range": b}]}}}),
            ),
            (
                json!([{"from": {"uri": "b", "range": own, "selectionRange": own}, "fromRanges": [own]}]),
                json!([{"from": {"uri": "b", "range": b, "selectionRange": b}, "fromRanges": [b]}]),
            ),
            (
                json!([{"to": {"uri": "b", "range": own}, "fromRanges": [own]}]),
                json!([{"to": {"uri": "b", "range": b}, "fromRanges": [a]}]),
            ),
            (
                json!({"uri": "b", "diagnostics": [{"range": own, "relatedInformation": [{"location": {"uri": "a", "range": own}}]}]}),
                json!({"uri": "b", "diagnostics": [{"range": b, "relatedInformation": [{"location": {"uri": "a", "range": a}}]}]}),
            ),
            (
                json!([{"startLine": 1, "startCharacter": 5, "endLine": 2, "endCharacter": 6}, {"startLine": 1, "endLine": 2}]),
                json!([{"startLine": 1, "startCharacter": 105, "endLine": 2, "endCharacter": 106}, {"startLine": 1, "endLine": 2}]),
            ),
            (json!({"range": own, "parent": {"range": own}}), json!({"range": a, "parent": {"range": a}})),
            (
                json!({"range": own, "data": own, "command": {"command": "c", "arguments": [own]}}),
                json!({"range": a, "data": own, "command": {"command": "c", "arguments": [own]}}),
            ),
            (json!({"changes": [{"uri": "b", "type": 1}]}), json!({"changes": [{"uri": "b", "type": 1}]})),
            (place(0), place(0)),
        ] {
            assert_eq!(walked(Some("a"), &before), after);
        }
        assert_eq!(walked(None, &json!({"range": own})), json!({"range": own}));
    }

    #[test]
    fn text_stays_byte_for_byte_but_for_characters() {
        let json = br#" { "x" : 1.50e1, "\u0075ri":"a" , "range":{"end":{ "character" : 9,"line":1.0},"start":{"line":7,"character":1.0}} , "n":null} "#;
        let after = br#" { "x" : 1.50e1, "\u0075ri":"a" , "range":{"end":{ "character" : 10,"line":1.0},"start":{"line":7,"character":2}} , "n":null} "#;
        let (_, found) = places(json, None);
        let one_more = |it: &Place| (it.position.character + 1).to_string().into_bytes();
        let parts = found.into_iter().map(|(_, it)| (it.at.clone(), one_more(&it))).collect();
        assert_eq!(rewritten(json, parts), after);
    }

    #[test]
    fn position_has_the_version_of_its_document_and_may_be_of_an_edit() {
        let named = |value: &Value| {
            let (named, found) = places(value.to_string().as_bytes(), Some("a"));
            found.into_iter().map(|(index, it)| (named[index].version, it.of)).collect::<Vec<_>>()
        };
        let (range, of) = (json!({"start": place(0), "end": place(5)}), Of::Other);
        let edits = json!([{"range": range, "newText": ""}]);
        for (value, expected) in [
            (json!({"range": range}), (None, of)),
            (json!({"uri": "b", "version": 3, "diagnostics": [{"range": range}]}), (Some(3), of)),
            (json!({"uri": "b", "version": null, "diagnostics": [{"range": range}]}), (None, of)),
            (json!({"textDocument": {"uri": "b", "version": 4}, "edits": edits}), (Some(4), Of::Edit)),
            (json!({"changes": {"b": edits}}), (None, Of::Edit)),
            (json!({"range": range, "snippet": {"kind": "snippet", "value": ""}}), (None, Of::Edit)),
        ] {
            assert_eq!(named(&value), [expected], "{value}");
        }
    }

    #[test]
    fn deep_nesting_is_left_alone() {
        let within = |depth: usize| {
            let place = br#"{"line":1,"character":5}"#;
            [b"[".repeat(depth), place.to_vec(), b"]".repeat(depth)].concat()
        };
        let n_found = |depth| places(&within(depth), Some("a")).1.len();
        assert_eq!((n_found(DEEPEST - 1), n_found(DEEPEST), n_found(10_000)), (1, 0, 0));
    }
}
