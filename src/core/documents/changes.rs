//! Reads a `didChange` in one pass, for this is done for each key that is pressed: which document, which version, and
//! what has changed where.
//!
//! Bytes are looked at one by one: nearly all that there is are short keys and small numbers.

use std::{borrow::Cow, ops::Range};

use crate::rpc::decode;

/// One element of `contentChanges`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change<'a> {
    /// What is replaced; all of the text if there is none.
    pub(super) range: Option<(Position, Position)>,
    pub(super) text: Cow<'a, str>,
}

/// Counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) character: u32,
}

/// Parameters of a `didChange`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DidChange<'a> {
    pub(super) uri: Cow<'a, str>,
    /// Raw.
    pub(super) version: &'a [u8],
    /// `contentChanges`, raw.
    pub(super) changes: &'a [u8],
}

impl<'a> DidChange<'a> {
    /// `None` if this is no JSON, or a member has another type.
    pub(super) fn of(params: &'a [u8]) -> Option<DidChange<'a>> {
        let mut it = DidChange::default();
        Reader { text: params, at: 0 }.object(|reader, key| {
            match key {
                b"textDocument" => reader.object(|reader, key| {
                    match key {
                        b"uri" => it.uri = reader.string()?,
                        b"version" => it.version = reader.skip()?,
                        _ => drop(reader.skip()?),
                    }
                    Some(())
                })?,
                b"contentChanges" => it.changes = reader.skip()?,
                _ => drop(reader.skip()?),
            }
            Some(())
        })?;
        Some(it)
    }
}

/// Tells each of the changes, up to the first that cannot be read; gives whether there is none such.
pub(super) fn each<'a>(changes: &'a [u8], mut tell: impl FnMut(Change<'a>)) -> bool {
    let mut reader = Reader { text: changes, at: 0 };
    reader.array(|reader| reader.change().map(&mut tell)).is_some()
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn change(&mut self) -> Option<Change<'a>> {
        let (mut range, mut text) = (None, None);
        self.object(|reader, key| {
            match key {
                b"range" if reader.peek() == Some(b'n') => drop(reader.skip()?),
                b"range" => range = Some(reader.range()?),
                b"text" => text = Some(reader.string()?),
                _ => drop(reader.skip()?),
            }
            Some(())
        })?;
        Some(Change { range, text: text? })
    }

    fn range(&mut self) -> Option<(Position, Position)> {
        let (mut start, mut end) = (None, None);
        self.object(|reader, key| {
            match key {
                b"start" => start = Some(reader.position()?),
                b"end" => end = Some(reader.position()?),
                _ => drop(reader.skip()?),
            }
            Some(())
        })?;
        Some((start?, end?))
    }

    fn position(&mut self) -> Option<Position> {
        let (mut line, mut character) = (None, None);
        self.object(|reader, key| {
            match key {
                b"line" => line = Some(reader.number()?),
                b"character" => character = Some(reader.number()?),
                _ => drop(reader.skip()?),
            }
            Some(())
        })?;
        Some(Position { line: line?, character: character? })
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    /// Stands in front of the value each time a member is told.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &[u8]) -> Option<()>) -> Option<()> {
        self.eat(b'{')?;
        if self.eat(b'}').is_some() {
            return Some(());
        }
        loop {
            let key = self.key()?;
            self.eat(b':')?;
            member(self, &key)?;
            if self.eat(b',').is_none() {
                return self.eat(b'}');
            }
        }
    }

    fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.eat(b'[')?;
        if self.eat(b']').is_some() {
            return Some(());
        }
        loop {
            element(self)?;
            if self.eat(b',').is_none() {
                return self.eat(b']');
            }
        }
    }

    fn number(&mut self) -> Option<u32> {
        self.peek()?;
        let digits = self.text[self.at..].iter().take_while(|it| it.is_ascii_digit());
        let (n, value) = digits.fold((0, 0_u64), |(n, value), digit| {
            (n + 1, value.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
        });
        self.at += n;
        if n > 0 { u32::try_from(value).ok() } else { None }
    }

    /// A key is only compared, so that it need be no text.
    fn key(&mut self) -> Option<Cow<'a, [u8]>> {
        let (span, is_plain) = self.quoted()?;
        if is_plain {
            return Some(Cow::Borrowed(&self.text[span.start + 1..span.end - 1]));
        }
        decode(&self.text[span]).map(|it| Cow::Owned(it.into_owned().into_bytes()))
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        let (span, is_plain) = self.quoted()?;
        if is_plain {
            return std::str::from_utf8(&self.text[span.start + 1..span.end - 1]).ok().map(Cow::Borrowed);
        }
        decode(&self.text[span])
    }

    /// A string with its quotes, and whether it is written without escapes.
    fn quoted(&mut self) -> Option<(Range<usize>, bool)> {
        self.eat(b'"')?;
        let start = self.at - 1;
        let mut is_plain = true;
        loop {
            match self.text.get(self.at)? {
                b'"' => break,
                b'\\' => {
                    is_plain = false;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some((start..self.at, is_plain))
    }

    /// Any value; gives it as it is written.
    fn skip(&mut self) -> Option<&'a [u8]> {
        self.peek()?;
        let (start, mut depth) = (self.at, 0_usize);
        loop {
            match self.peek()? {
                b'"' => {
                    self.quoted()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => self.at += 1,
                _ => {
                    let is_part = |it: &&u8| it.is_ascii_alphanumeric() || b"+-.".contains(it);
                    let n = self.text[self.at..].iter().take_while(is_part).count();
                    if n == 0 {
                        return None;
                    }
                    self.at += n;
                }
            }
            if depth == 0 {
                return Some(&self.text[start..self.at]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(changes: &[u8]) -> Option<Vec<Change<'_>>> {
        let mut all = Vec::new();
        each(changes, |it| all.push(it)).then_some(all)
    }

    #[test]
    fn a_change_is_read_however_it_is_written() {
        let odd = br#" [ { "\u0074ext" : "\u0061\n" , "x" : [ { "}": "\"" } , -1.5e+3 ] , "range" :
            { "end" : { "character" : 4, "line" : 3 } , "start" : { "line" : 1, "character" : 2, "y" : null } } } ] "#;
        let change = &read(odd).unwrap()[0];
        assert_eq!(change.text, "a\n");
        let (start, end) = (Position { line: 1, character: 2 }, Position { line: 3, character: 4 });
        assert_eq!(change.range, Some((start, end)));
        assert_eq!(read(br#"[{"text":"","range":null}]"#).unwrap()[0].range, None);
        let bad: [&[u8]; 7] = [
            br#"[{}]"#,
            br#"[{"text":1}]"#,
            br#"[{"text":"","range":{}}]"#,
            br#"[{"text":"","range":7}]"#,
            br#"[{"text":"#,
            br#"{"text":""}"#,
            br#"[{"text":"","range":{"start":{"line":-1,"character":0},"end":{"line":0,"character":0}}}]"#,
        ];
        for bad in bad {
            assert_eq!(read(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_notification_says_which_document_and_version() {
        let params =
            br#"{"contentChanges":[{"text":"]"}],"x":{},"textDocument":{"version":7,"uri":"file:\/\/a"}}"#;
        let it = DidChange::of(params).unwrap();
        assert_eq!((&*it.uri, it.version, it.changes), ("file://a", &b"7"[..], &br#"[{"text":"]"}]"#[..]));
        assert_eq!(DidChange::of(b"{}"), Some(DidChange::default()));
        assert_eq!(DidChange::of(br#"{"textDocument":[]}"#), None);
    }

    proptest! {
        #[test]
        fn what_serde_writes_is_read(text in ".*", lines in any::<[u32; 4]>(), pretty in any::<bool>()) {
            let [a, b, c, d] = lines;
            let range = json!({"start": {"line": a, "character": b}, "end": {"line": c, "character": d}});
            let value = json!([{"range": range, "rangeLength": 3, "text": text}, {"text": text}]);
            let written = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
            let written = written.unwrap();
            let changes = read(&written).unwrap();
            let (start, end) = (Position { line: a, character: b }, Position { line: c, character: d });
            prop_assert_eq!(&changes[0], &Change { range: Some((start, end)), text: text.clone().into() });
            prop_assert_eq!(&changes[1], &Change { range: None, text: text.into() });
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(prop::sample::select(br#"{}[]":,\0n "#.to_vec()), 0..40)) {
            read(&bytes);
            DidChange::of(&bytes);
        }

        #[test]
        fn a_value_is_skipped_as_a_whole(text in ".*") {
            let value = json!({"a": [1, {"b": text}, null, true], "c": text});
            let written = serde_json::to_vec(&value).unwrap();
            let skipped = Reader { text: &written, at: 0 }.skip().unwrap();
            prop_assert_eq!(serde_json::from_slice::<Value>(skipped).unwrap(), value);
        }
    }
}
