//! Visits the positions in JSON text of the protocol, and replaces their characters.
//!
//! Knows no method: **a position is an object with a line and a character**, and the document that it is in is the one
//! that the objects around it name. What only its maker understands (`data`, `arguments`) stays as it is.

use std::{borrow::Cow, ops::Range};

use crate::{
    core::mux::session::documents::number,
    rpc::{decode, elements, members, path},
};

/// Nested deeper than any message of the protocol: what is inside stays as it is.
const DEEPEST: usize = 300;

/// Under these keys is what only a server, or only a person understands.
const OPAQUE: [&str; 4] = ["arguments", "data", "initializationOptions", "settings"];

/// Line and character of both ends of a folding range, which has no positions.
const FOLDING: [(&str, &str); 2] = [("startLine", "startCharacter"), ("endLine", "endCharacter")];

/// Gives the new character of a position in a document. `None`: it stays.
pub(super) type Recount<'a> = &'a mut dyn FnMut(&str, u32, u32) -> Option<u32>;

/// The text with other characters in its positions. `None`: nothing changes. `document` is the one that is meant where
/// no other is named.
pub(super) fn recounted(json: &[u8], document: Option<&str>, recount: Recount<'_>) -> Option<Vec<u8>> {
    let mut walk = Walk { json, recount, found: Vec::new() };
    walk.value(0..json.len(), document, 0);
    let Walk { mut found, .. } = walk;
    if found.is_empty() {
        return None;
    }
    found.sort_by_key(|(at, _)| at.start);
    let (mut out, mut copied) = (Vec::with_capacity(json.len() + found.len()), 0);
    for (at, character) in found {
        out.extend_from_slice(&json[copied..at.start]);
        out.extend_from_slice(character.to_string().as_bytes());
        copied = at.end;
    }
    out.extend_from_slice(&json[copied..]);
    Some(out)
}

struct Walk<'a, 'r> {
    json: &'a [u8],
    recount: Recount<'r>,
    /// The characters that change, and what they become.
    found: Vec<(Range<usize>, u32)>,
}

impl<'a> Walk<'a, '_> {
    fn value(&mut self, at: Range<usize>, document: Option<&str>, depth: usize) {
        let raw: &'a [u8] = &self.json[at.clone()];
        match raw.trim_ascii_start().first() {
            Some(b'{' | b'[') if depth == DEEPEST => {}
            Some(b'{') => self.object(raw, at.start, document, depth + 1),
            Some(b'[') => {
                for it in elements(raw) {
                    self.value(at.start + it.start..at.start + it.end, document, depth + 1);
                }
            }
            Some(_) | None => {}
        }
    }

    fn object(&mut self, raw: &'a [u8], start: usize, document: Option<&str>, depth: usize) {
        let all: Vec<(Cow<'a, str>, Range<usize>)> = members(raw).collect();
        // The last one counts.
        let get = |key: &str| all.iter().rfind(|(name, _)| name == key).map(|(_, at)| at.clone());
        let number_at = |key: &str| number(&raw[get(key)?]);
        let text_at = |key: &str| decode(&raw[get(key)?]);
        if let (Some(line), Some(_), Some(at)) = (number_at("line"), number_at("character"), get("character"))
        {
            return self.position(raw, at, start, document, line);
        }
        for (line, character) in FOLDING {
            if let (Some(line), Some(at)) = (number_at(line), get(character)) {
                self.position(raw, at, start, document, line);
            }
        }
        let inner = |key: &str| get(key).and_then(|at| decode(&raw[at.clone()][path(&raw[at], &["uri"])?]));
        let own = text_at("uri").or_else(|| inner("textDocument"));
        let document = own.as_deref().or(document);
        let target = text_at("targetUri");
        let caller = inner("from");
        for (key, at) in &all {
            let at = start + at.start..start + at.end;
            match &**key {
                key if OPAQUE.contains(&key) => {}
                "targetRange" | "targetSelectionRange" => {
                    self.value(at, target.as_deref().or(document), depth);
                }
                "fromRanges" => self.value(at, caller.as_deref().or(document), depth),
                "changes" | "relatedDocuments" if self.json[at.start] == b'{' => self.by_document(at, depth),
                _ => self.value(at, document, depth),
            }
        }
    }

    /// An object whose keys are documents.
    fn by_document(&mut self, at: Range<usize>, depth: usize) {
        let raw: &'a [u8] = &self.json[at.clone()];
        for (uri, it) in members(raw) {
            self.value(at.start + it.start..at.start + it.end, Some(&uri), depth + 1);
        }
    }

    fn position(&mut self, raw: &[u8], at: Range<usize>, start: usize, document: Option<&str>, line: u32) {
        let (Some(document), Some(character)) = (document, number(&raw[at.clone()])) else { return };
        // The beginning of a line is that in any encoding.
        if character == 0 {
            return;
        }
        let counted = (self.recount)(document, line, character).filter(|it| *it != character);
        self.found.extend(counted.map(|it| (start + at.start..start + at.end, it)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Each character becomes that of its document: 100 more in `a`, 200 more in `b`.
    fn walked(document: Option<&str>, value: &Value) -> Value {
        let mut recount = |document: &str, _: u32, character: u32| match document {
            "a" => Some(character + 100),
            "b" => Some(character + 200),
            _ => None,
        };
        let json = value.to_string();
        match recounted(json.as_bytes(), document, &mut recount) {
            Some(it) => serde_json::from_slice(&it).unwrap(),
            None => value.clone(),
        }
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
        let mut recount = |_: &str, _: u32, character: u32| Some(character + 1);
        let json = br#" { "x" : 1.50e1, "\u0075ri":"a" , "range":{"end":{ "character" : 9,"line":1.0},"start":{"line":7,"character":1.0}} , "n":null} "#;
        let after = br#" { "x" : 1.50e1, "\u0075ri":"a" , "range":{"end":{ "character" : 10,"line":1.0},"start":{"line":7,"character":2}} , "n":null} "#;
        assert_eq!(recounted(json, None, &mut recount).as_deref(), Some(&after[..]));
    }

    #[test]
    fn deep_nesting_is_left_alone() {
        let json = [b"[".repeat(10_000), b"]".repeat(10_000)].concat();
        assert_eq!(recounted(&json, Some("a"), &mut |_, _, _| None), None);
    }
}
