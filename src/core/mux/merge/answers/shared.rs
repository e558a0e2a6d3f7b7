//! What the shapes share: lists, ranges, places and texts, found in bytes.

use std::{borrow::Cow, collections::HashMap, hash::Hash, ops::Range};

use foldhash::fast::RandomState;
use serde_json::Value;

use super::{Part, Reading};
use crate::{
    core::mux::merge::owners::{Tag, has_items},
    rpc::{decode, elements, values},
};

pub(super) fn is_null(raw: &[u8]) -> bool {
    raw.trim_ascii() == b"null"
}

pub(super) fn is_object(raw: &[u8]) -> bool {
    raw.trim_ascii_start().starts_with(b"{")
}

/// A member that is there, and is not `null`.
pub(super) fn some(raw: Option<&[u8]>) -> Option<&[u8]> {
    raw.filter(|it| !is_null(it))
}

/// What is between these brackets, if they are the first and the last byte.
pub(super) fn inside(raw: &[u8], brackets: [u8; 2]) -> Option<&[u8]> {
    match raw.trim_ascii() {
        [first, inside @ .., last] if [*first, *last] == brackets => Some(inside.trim_ascii()),
        _ => None,
    }
}

/// The elements of an array.
#[derive(Debug)]
pub(in crate::core::mux::merge) struct List<'a> {
    pub(super) raw: &'a [u8],
    pub(super) items: Vec<Item>,
}

#[derive(Debug)]
pub(super) struct Item {
    at: Range<usize>,
    pub(super) is_kept: bool,
    data: Data,
}

/// Where in an element its `data` is.
#[derive(Debug)]
pub(super) enum Data {
    /// Nobody has looked.
    Unread,
    Read(Option<Range<usize>>),
}

impl<'a> List<'a> {
    /// `None` if it is no array, from its first byte to its last.
    pub(in crate::core::mux::merge) fn of(raw: &'a [u8]) -> Option<List<'a>> {
        let open = raw.len() - raw.trim_ascii_start().len();
        if raw.get(open) != Some(&b'[') {
            return None;
        }
        let items: Vec<Item> =
            elements(raw).map(|at| Item { at, is_kept: true, data: Data::Unread }).collect();
        let end = items.last().map_or(open + 1, |it| it.at.end);
        (raw[end..].trim_ascii() == b"]").then_some(List { raw, items })
    }

    /// What is no list, as the only element of one.
    pub(super) fn of_one(raw: &'a [u8]) -> List<'a> {
        let raw = raw.trim_ascii();
        List { raw, items: vec![Item { at: 0..raw.len(), is_kept: true, data: Data::Unread }] }
    }

    /// A list of objects; others are left out.
    pub(super) fn read(raw: &'a [u8]) -> Reading<List<'a>> {
        let Some(mut list) = List::of(raw) else { return Reading::Malformed };
        if list.items.is_empty() {
            return Reading::Nothing;
        }
        let mut left_out = 0;
        for item in &mut list.items {
            if raw[item.at.start] != b'{' {
                item.is_kept = false;
                left_out += 1;
            }
        }
        match left_out {
            0 => Reading::Whole(list),
            n if n == list.items.len() => Reading::Malformed,
            _ => Reading::Partly(list),
        }
    }

    pub(super) fn bytes(&self, item: &Item) -> &'a [u8] {
        &self.raw[item.at.clone()]
    }

    /// The elements that are kept.
    pub(super) fn kept(&self) -> impl Iterator<Item = &'a [u8]> {
        self.items.iter().filter(|it| it.is_kept).map(|it| self.bytes(it))
    }

    /// The list with each element written anew. `more`: about how many bytes that adds to each.
    pub(in crate::core::mux::merge) fn rewritten(
        &self,
        more: usize,
        put: impl Fn(&[u8], &mut Vec<u8>),
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.raw.len() + self.items.len() * more);
        let mut copied = 0;
        for item in &self.items {
            out.extend_from_slice(&self.raw[copied..item.at.start]);
            put(self.bytes(item), &mut out);
            copied = item.at.end;
        }
        out.extend_from_slice(&self.raw[copied..]);
        out
    }

    /// Writes the kept elements: what stands side by side in one piece.
    pub(super) fn write(&self, out: &mut Joined) {
        for run in self.items.chunk_by(|a, b| a.is_kept == b.is_kept).filter(|it| it[0].is_kept) {
            let [first, .., last] = run else {
                out.push(self.bytes(&run[0]));
                continue;
            };
            out.push(&self.raw[first.at.start..last.at.end]);
        }
    }

    /// The same, each with this tag.
    pub(super) fn write_tagged(&self, tag: &Tag, out: &mut Joined) {
        out.text.reserve(self.items.len() * tag.len());
        for item in self.items.iter().filter(|it| it.is_kept) {
            match &item.data {
                Data::Unread => tag.put_item(self.bytes(item), out.element()),
                Data::Read(at) => tag.put_item_with(self.bytes(item), at.clone(), out.element()),
            }
        }
    }
}

/// The tag for the items of a part, if they get one.
pub(super) fn tag_of(method: &str, part: &Part<'_>) -> Option<Tag> {
    part.maker.filter(|_| has_items(method)).map(Tag::of_maker)
}

/// An array in the making, or the inside of one.
pub(super) struct Joined {
    text: Vec<u8>,
    is_first: bool,
}

impl Joined {
    /// `opening`: what comes before the first element.
    pub(super) fn new(opening: &[u8], room: usize) -> Joined {
        let mut text = Vec::with_capacity(opening.len() + room + 16);
        text.extend_from_slice(opening);
        Joined { text, is_first: true }
    }

    /// Where the next element is to be written.
    pub(super) fn element(&mut self) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_first) {
            self.text.push(b',');
        }
        &mut self.text
    }

    pub(super) fn push(&mut self, element: &[u8]) {
        self.element().extend_from_slice(element);
    }

    /// A member of an object.
    pub(super) fn push_member(&mut self, key: &str, value: &[u8]) {
        let key = serde_json::to_vec(key).expect("a string is always valid JSON");
        let out = self.element();
        out.extend_from_slice(&key);
        out.push(b':');
        out.extend_from_slice(value);
    }

    pub(super) fn finish(mut self, closing: &[u8]) -> Vec<u8> {
        self.text.extend_from_slice(closing);
        self.text
    }
}

/// Leaves out each element that is the same as one of a better rank. What has no key is the same as nothing. Who makes
/// the key may also say where the data are.
pub(super) fn leave_out_repeated<'a, K: Hash + Eq>(
    lists: &mut [&mut List<'a>],
    key: impl Fn(usize, &'a [u8], &mut Data) -> Option<K>,
) {
    let mut seen: HashMap<K, usize, RandomState> = HashMap::default();
    let last = lists.len().saturating_sub(1);
    if last == 0 {
        return;
    }
    for (n, list) in lists.iter_mut().enumerate() {
        for item in list.items.iter_mut().filter(|it| it.is_kept) {
            let element = &list.raw[item.at.clone()];
            let Some(key) = key(n, element, &mut item.data) else { continue };
            match seen.get(&key) {
                Some(by) => item.is_kept = *by == n,
                None if n < last => drop(seen.insert(key, n)),
                None => {}
            }
        }
    }
}

/// A text to compare: what the JSON string says, or its bytes if it says nothing that is Unicode.
pub(super) fn text_of(raw: &[u8]) -> Cow<'_, [u8]> {
    match decode(raw) {
        Some(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
        Some(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
        None => Cow::Borrowed(raw),
    }
}

/// Line and character.
pub(super) type Position = [u32; 2];

/// Start and end.
pub(super) type Extent = [Position; 2];

pub(super) fn number(raw: &[u8]) -> Option<u32> {
    let is_plain = !raw.is_empty() && raw.iter().all(u8::is_ascii_digit);
    is_plain.then(|| std::str::from_utf8(raw).ok()?.parse().ok()).flatten()
}

pub(super) fn position(raw: &[u8]) -> Option<Position> {
    let [line, character] = values(raw, ["line", "character"]);
    Some([number(line?)?, number(character?)?])
}

pub(super) fn extent(raw: &[u8]) -> Option<Extent> {
    let [start, end] = values(raw, ["start", "end"]);
    Some([position(start?)?, position(end?)?])
}

/// A URI as it is compared: escapes undone, scheme and drive letter in lower case.
pub(super) fn uri_of(raw: &[u8]) -> Option<Vec<u8>> {
    let text = decode(raw)?;
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some((&first, tail)) = rest.split_first() {
        let hex = |it: u8| char::from(it).to_digit(16).and_then(|it| u8::try_from(it).ok());
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            (_, _) => None,
        };
        out.push(escaped.map_or(first, |(high, low)| high << 4 | low));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    if let Some(end) = out.iter().position(|it| *it == b':') {
        out[..end].make_ascii_lowercase();
        // As in `file:///C:/x`.
        if let [b':', b'/', b'/', b'/', drive, b':', ..] = &mut out[end..] {
            drive.make_ascii_lowercase();
        }
    }
    Some(out)
}

/// Whether two values are the same, in whatever way they are written.
pub(super) fn are_same(a: &[u8], b: &[u8]) -> bool {
    let parsed = |it| serde_json::from_slice::<Value>(it).ok();
    a == b || parsed(a).is_some_and(|a| parsed(b) == Some(a))
}

/// A value written in one way, so that it is the same as others by its bytes.
pub(super) fn canonical(raw: &[u8]) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(raw) else { return raw.to_vec() };
    value.sort_all_objects();
    serde_json::to_vec(&value).unwrap_or_else(|_| raw.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_read_only_as_whole() {
        for (raw, count) in [("[]", 0), (" [ ] ", 0), ("[1,2]", 2), ("\n[ {} , [] ]\n", 2)] {
            assert_eq!(List::of(raw.as_bytes()).expect(raw).items.len(), count);
        }
        for raw in ["", "{}", "x[]", "[1,]", "[1 2]", "[1", "[1]]", "[] x", "[,]", "null", "["] {
            assert!(List::of(raw.as_bytes()).is_none(), "{raw}");
        }
    }

    #[test]
    fn uris_are_compared_unescaped() {
        let same = [r#""file:///C%3A/a%20b""#, r#""FILE:///c:/a b""#, r#""file:\/\/\/c%3a/a b""#];
        for raw in same {
            assert_eq!(uri_of(raw.as_bytes()).unwrap(), b"file:///c:/a b", "{raw}");
        }
        assert_eq!(uri_of(br#""file:///a%2""#).unwrap(), b"file:///a%2");
        assert_eq!(uri_of(br#""untitled:A""#).unwrap(), b"untitled:A");
        assert_eq!(uri_of(b"1"), None);
    }

    #[test]
    fn canonical_form_ignores_order_and_escapes() {
        assert_eq!(canonical(br#"{"b":1, "a":"\u0061"}"#), canonical(br#"{"a":"a","b":1}"#));
        assert!(are_same(br#"{"b":1, "a":"\u0061"}"#, br#"{"a":"a","b":1}"#));
        assert!(!are_same(b"1", b"2") && !are_same(b"x", b"y"));
    }
}
