//! Reads a `didChange` in one pass, because it comes with each pressed key: the document, the version, and the
//! changes.
//!
//! Unlike [`members`](crate::rpc::members) it does not skip an object before it reads the members.

use std::borrow::Cow;

use serde::Deserialize;

use crate::rpc::{Cursor, decimal};

/// The replaced range; `None` is the whole text.
pub(in crate::core::mux) type Place = Option<(Position, Position)>;

/// Line and character, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(in crate::core::mux) struct Position {
    pub(in crate::core::mux) line: u32,
    pub(in crate::core::mux) character: u32,
}

/// Changes that were not applied yet, in order.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The range of each change, and the end of its new text in `text`.
    all: Vec<(Place, usize)>,
    /// The new texts, in the form of [`LooseText`](crate::rpc::LooseText).
    text: Vec<u8>,
}

impl Changes {
    pub(super) fn n(&self) -> usize {
        self.all.len()
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.text.len() + self.all.len() * size_of::<(Place, usize)>()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &[u8])> {
        let mut start = 0;
        self.all
            .iter()
            .map(move |(place, end)| (*place, &self.text[std::mem::replace(&mut start, *end)..*end]))
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.text.clear();
    }

    /// Frees the memory of a burst.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        self.text.shrink_to(bytes);
        self.all.shrink_to(bytes / size_of::<(Place, usize)>());
    }

    pub(super) fn extend(&mut self, by: &Changes) {
        let start = self.text.len();
        self.text.extend_from_slice(&by.text);
        self.all.extend(by.all.iter().map(|(place, end)| (*place, start + end)));
    }

    fn push(&mut self, place: Place, text: &[u8]) {
        self.text.extend_from_slice(text);
        self.all.push((place, self.text.len()));
    }
}

/// The parameters of a `didChange` without the changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DidChange<'a> {
    pub(super) uri: Cow<'a, str>,
    /// The raw version.
    pub(super) version: &'a [u8],
    /// Whether a change was unreadable. The ones before it were read.
    pub(super) is_torn: bool,
}

impl<'a> DidChange<'a> {
    /// `None` if this is invalid JSON, or a member has the wrong type. Replaces the content of `changes`.
    pub(super) fn read(params: &'a [u8], changes: &mut Changes) -> Option<DidChange<'a>> {
        let mut it = DidChange::default();
        changes.clear();
        Reader::of(params).object(|reader, key| {
            match key {
                b"textDocument" => reader.object(|reader, key| {
                    match key {
                        b"uri" => it.uri = reader.string()?,
                        b"version" => it.version = reader.raw()?,
                        _ => drop(reader.raw()?),
                    }
                    Some(())
                })?,
                b"contentChanges" => {
                    changes.clear();
                    let start = reader.0.clone();
                    it.is_torn = reader.array(|reader| reader.change(changes)).is_none();
                    if it.is_torn {
                        reader.0 = start;
                        reader.raw()?;
                    }
                }
                _ => drop(reader.raw()?),
            }
            Some(())
        })?;
        Some(it)
    }
}

struct Reader<'a>(Cursor<'a>);

impl<'a> Reader<'a> {
    fn of(text: &'a [u8]) -> Reader<'a> {
        Reader(Cursor::of(text))
    }

    fn change(&mut self, changes: &mut Changes) -> Option<()> {
        let (mut range, mut text) = (None, None);
        self.object(|reader, key| {
            match key {
                b"range" if reader.peek() == Some(b'n') => drop(reader.raw()?),
                b"range" => range = Some(reader.range()?),
                b"text" => text = Some(reader.loose_string()?),
                _ => drop(reader.raw()?),
            }
            Some(())
        })?;
        changes.push(range, &text?);
        Some(())
    }

    fn range(&mut self) -> Option<(Position, Position)> {
        self.usual_range().or_else(|| self.both([b"start", b"end"], Reader::position))
    }

    /// A range in its usual form. Any other form is left unread.
    fn usual_range(&mut self) -> Option<(Position, Position)> {
        let (start, rest) = usual_position(self.0.rest().strip_prefix(br#"{"start":"#)?)?;
        let (end, rest) = usual_position(rest.strip_prefix(br#","end":"#)?)?;
        self.0.skip_to(rest.strip_prefix(b"}")?);
        Some((start, end))
    }

    fn position(&mut self) -> Option<Position> {
        let (line, character) = self.both([b"line", b"character"], Reader::number)?;
        Some(Position { line, character })
    }

    /// Two members of an object.
    fn both<T>(&mut self, keys: [&[u8]; 2], read: fn(&mut Self) -> Option<T>) -> Option<(T, T)> {
        let (mut one, mut other) = (None, None);
        self.object(|reader, key| {
            match keys.iter().position(|it| *it == key) {
                Some(0) => one = Some(read(reader)?),
                Some(_) => other = Some(read(reader)?),
                None => drop(reader.raw()?),
            }
            Some(())
        })?;
        Some((one?, other?))
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        self.0.skip_space();
        self.0.peek()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        self.0.skip_space();
        self.0.take(byte, "something else").ok()
    }

    /// Calls `member` with the cursor before each value.
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

    /// Any raw value.
    fn raw(&mut self) -> Option<&'a [u8]> {
        self.0.skip_space();
        self.0.value().ok().map(|span| &self.0.text()[span])
    }

    fn number(&mut self) -> Option<u32> {
        number(self.raw()?)
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.0.skip_space();
        self.0.string().ok()?.decode_lossily(self.0.text()).ok()
    }

    fn loose_string(&mut self) -> Option<Cow<'a, [u8]>> {
        self.0.skip_space();
        self.0.string().ok()?.decode_loosely(self.0.text())
    }

    /// A key is only compared, so it need not be valid text.
    fn key(&mut self) -> Option<Cow<'a, [u8]>> {
        self.0.skip_space();
        let (key, text) = (self.0.string().ok()?, self.0.text());
        match key.plain(text) {
            Some(plain) => Some(Cow::Borrowed(plain)),
            None => key.decode_lossily(text).ok().map(|it| Cow::Owned(it.into_owned().into_bytes())),
        }
    }
}

/// A position in its usual form, and the rest.
fn usual_position(text: &[u8]) -> Option<(Position, &[u8])> {
    let (line, rest) = digits(text.strip_prefix(br#"{"line":"#)?)?;
    let (character, rest) = digits(rest.strip_prefix(br#","character":"#)?)?;
    Some((Position { line, character }, rest.strip_prefix(b"}")?))
}

/// A number that cannot overflow, and the rest.
fn digits(text: &[u8]) -> Option<(u32, &[u8])> {
    let n = text.iter().take(10).take_while(|it| it.is_ascii_digit()).count();
    let number = || text[..n].iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    (1..10).contains(&n).then(|| (number(), &text[n..]))
}

/// A number in any form. Some editors write `1.0`, and some a huge number for the end.
pub(in crate::core::mux) fn number(raw: &[u8]) -> Option<u32> {
    if let Some(number) = decimal(raw) {
        return Some(u32::try_from(number).unwrap_or(u32::MAX));
    }
    let is_number = raw.first().is_some_and(u8::is_ascii_digit);
    let number = is_number.then(|| std::str::from_utf8(raw).ok()?.parse::<f64>().ok())??;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it takes the nearest number that there is"
    )]
    let number = number as u32;
    Some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The readable changes, and whether all are readable.
    fn read(changes: &[u8]) -> (Vec<(Place, String)>, bool) {
        let params = [br#"{"contentChanges":"#, changes, br#","textDocument":{"uri":"u"}}"#].concat();
        let mut all = Changes::default();
        let it = DidChange::read(&params, &mut all);
        let is_whole = it.is_some_and(|it| !it.is_torn && it.uri == "u");
        let text = |it: &[u8]| String::from_utf8(it.to_vec()).unwrap();
        (all.iter().map(|(place, it)| (place, text(it))).collect(), is_whole)
    }

    #[test]
    fn changes_reader_accepts_any_json_notation() {
        let odd = br#" [ { "\u0074ext" : "\u0061\n" , "x" : [ { "}": "\"" } , -1.5e+3 ] , "range" :
            { "end" : { "character" : 4, "line" : 3 } , "start" : { "line" : 1, "character" : 2, "y" : null } } } ] "#;
        let (start, end) = (Position { line: 1, character: 2 }, Position { line: 3, character: 4 });
        assert_eq!(read(odd), (vec![(Some((start, end)), "a\n".to_owned())], true));
        assert_eq!(read(br#"[{"text":"","range":null}]"#), (vec![(None, String::new())], true));
        let floats = br#"[{"text":"","range":{"start":{"line":1.0,"character":2e0},"end":{"line":99999999999,"character":1.8e308}}}]"#;
        let end = Position { line: u32::MAX, character: u32::MAX };
        let start = Position { line: 1, character: 2 };
        assert_eq!(read(floats), (vec![(Some((start, end)), String::new())], true));
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
            assert_eq!(read(bad), (vec![], false), "{}", String::from_utf8_lossy(bad));
        }
        assert_eq!(read(br#"[{"text":"a"},{"text":1},{"text":"b"}]"#), (vec![(None, "a".to_owned())], false));
    }

    #[test]
    fn did_change_reader_finds_uri_and_version() {
        let params =
            br#"{"contentChanges":[{"text":"]"}],"x":{},"textDocument":{"version":7,"uri":"file:\/\/a"}}"#;
        let mut changes = Changes::default();
        let it = DidChange::read(params, &mut changes).unwrap();
        assert_eq!((&*it.uri, it.version, changes.n()), ("file://a", &b"7"[..], 1));
        assert_eq!(DidChange::read(b"{}", &mut changes), Some(DidChange::default()));
        assert_eq!((DidChange::read(br#"{"textDocument":[]}"#, &mut changes), changes.n()), (None, 0));
    }

    proptest! {
        #[test]
        fn changes_reader_reads_what_serde_writes(
            text in ".*",
            lines in any::<[u32; 4]>(),
            pretty in any::<bool>(),
        ) {
            let [a, b, c, d] = lines;
            let range = json!({"start": {"line": a, "character": b}, "end": {"line": c, "character": d}});
            let value = json!([{"range": range, "rangeLength": 3, "text": text}, {"text": text}]);
            let written = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
            let written = written.unwrap();
            let (start, end) = (Position { line: a, character: b }, Position { line: c, character: d });
            prop_assert_eq!(read(&written), (vec![(Some((start, end)), text.clone()), (None, text)], true));
        }

        #[test]
        fn changes_reader_never_panics(bytes in prop::collection::vec(prop::sample::select(br#"{}[]":,\0n "#.to_vec()), 0..40)) {
            read(&bytes);
            DidChange::read(&bytes, &mut Changes::default());
        }

        #[test]
        fn changes_reader_skips_whole_values(text in ".*") {
            let value = json!({"a": [1, {"b": text}, null, true], "c": text});
            let written = serde_json::to_vec(&value).unwrap();
            let skipped = Reader::of(&written).raw().unwrap();
            prop_assert_eq!(serde_json::from_slice::<Value>(skipped).unwrap(), value);
        }
    }
}
