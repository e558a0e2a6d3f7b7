//! Finds values in JSON text without parsing it: spans of members, of elements, and of a message's envelope.
//!
//! Reads one level exactly, and skips nested values 64 bytes at a time. So it overlooks a wrong bracket within a body,
//! which is for the reader of the body to find. For any bytes, nothing here allocates (except for keys with escapes),
//! recurses or panics.
//!
//! Skipping a container: each block becomes four 64-bit masks (quotes, backslashes, opening and closing brackets). Runs
//! of backslashes show which quotes are escaped, a prefix xor over the other quotes shows the insides of strings, and
//! the remaining brackets move the depth.

mod block;
mod envelope;
mod loose;
mod structure;

use std::{borrow::Cow, ops::Range};

pub use self::envelope::{Envelope, Span};
use self::{block::Block, structure::Strings};
pub(crate) use self::{loose::LooseText, structure::Structure};

/// Why bytes are not a JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct Malformed {
    /// The offset of the wrong byte.
    pub at: usize,
    /// The error.
    pub what: &'static str,
}

/// Reads the top level of a message.
///
/// A duplicate member of the envelope is malformed, because two readers could disagree about it.
pub fn scan(body: &str) -> Result<Envelope, Malformed> {
    scan_bytes(body.as_bytes())
}

/// The same, for a body in which strings may hold bytes that are no UTF-8.
pub(super) fn scan_bytes(body: &[u8]) -> Result<Envelope, Malformed> {
    if u32::try_from(body.len()).is_err() {
        return Err(Malformed { at: body.len(), what: "message of more than 4 GiB" });
    }
    match usual(body) {
        Some(envelope) => Ok(envelope),
        None => unusual(body),
    }
}

/// Reads a message in its usual form: members in the usual order, without white space or escapes.
fn usual(body: &[u8]) -> Option<Envelope> {
    let mut cursor = Cursor::of(body);
    let mut envelope = Envelope::default();
    if !cursor.passes(br#"{"jsonrpc":"2.0""#) {
        return None;
    }
    if cursor.passes(br#","id":"#) {
        envelope.id = match cursor.peek()? {
            b'"' => cursor.plain_string()?,
            b'-' | b'0'..=b'9' => Span::of(cursor.value().ok()?),
            _ => return None,
        };
    }
    if cursor.passes(br#","method":"#) {
        envelope.method = cursor.plain_string()?;
    }
    let value = if cursor.passes(br#","params":"#) {
        &mut envelope.params
    } else if cursor.passes(br#","result":"#) {
        &mut envelope.result
    } else if cursor.passes(br#","error":"#) {
        &mut envelope.error
    } else {
        return None;
    };
    *value = Span::of(cursor.value().ok()?);
    (cursor.rest() == b"}").then_some(envelope)
}

fn unusual(body: &[u8]) -> Result<Envelope, Malformed> {
    let mut envelope = Envelope::default();
    let mut object = Object::open(body)?;
    while let Some(Entry { key, value }) = object.next()? {
        let slot = match key.plain(body).and_then(|it| envelope.slot(it)) {
            Some(slot) => Some(slot),
            None => envelope.slot(key.decode_lossily(body)?.as_bytes()),
        };
        let Some(slot) = slot else { continue };
        if !slot.is_absent() {
            return Err(Malformed { at: key.span.start, what: "duplicate member" });
        }
        *slot = Span::of(value);
    }
    if !envelope.id.is_absent() {
        check_id(body, &envelope.id.range())?;
    }
    // Some implementations write an answer so.
    if body[envelope.method.range()] == *b"null" {
        envelope.method = Span::default();
    }
    if !envelope.method.is_absent() {
        let method = envelope.method.range();
        if body[method.start] != b'"' {
            return Err(Malformed { at: method.start, what: "method that is not a string" });
        }
        let text = Text::of(body, &method);
        text.decode_lossily(body)?;
        envelope.rewritten_method = text.escaped;
    }
    Ok(envelope)
}

fn check_id(body: &[u8], id: &Range<usize>) -> Result<(), Malformed> {
    match body[id.start] {
        b'"' => Text::of(body, id).decode_lossily(body).map(drop),
        b'-' | b'0'..=b'9' | b'n' => Ok(()),
        _ => Err(Malformed { at: id.start, what: "id that is not a string, number, or null" }),
    }
}

/// The members of an object in order, with the spans of their values in `object`.
///
/// Ends at the first wrong byte, so a value that is not an object has no members.
pub fn members(object: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, Range<usize>)> {
    let mut rest = Object::open(object).ok();
    std::iter::from_fn(move || {
        let entry = rest.as_mut()?.next().ok().flatten();
        let decoded = entry.and_then(|Entry { key, value }| Some((key.decode_lossily(object).ok()?, value)));
        if decoded.is_none() {
            rest = None;
        }
        decoded
    })
}

/// The value of a member of an object. The last duplicate counts, as in JavaScript.
pub fn member(object: &[u8], key: &str) -> Option<Range<usize>> {
    let mut rest = Object::open(object).ok()?;
    let mut found = None;
    while let Ok(Some(entry)) = rest.next() {
        if entry.key.is(object, key) {
            found = Some(entry.value);
        }
    }
    found
}

/// The values of several members of an object, like [`member`], in one pass.
pub fn values<'a, const N: usize>(object: &'a [u8], keys: [&str; N]) -> [Option<&'a [u8]>; N] {
    spans(object, keys).map(|it| it.map(|at| &object[at]))
}

/// Where the values of several members of an object are, likewise.
pub fn spans<const N: usize>(object: &[u8], keys: [&str; N]) -> [Option<Range<usize>>; N] {
    let mut found = [const { None }; N];
    let Ok(mut rest) = Object::open(object) else { return found };
    while let Ok(Some(Entry { key, value })) = rest.next() {
        if let Some(n) = keys.iter().position(|it| key.is(object, it)) {
            found[n] = Some(value);
        }
    }
    found
}

/// The value at the end of a path of member names; the span is one of `value`.
pub fn path(value: &[u8], keys: &[&str]) -> Option<Range<usize>> {
    keys.iter().try_fold(0..value.len(), |outer, key| {
        let inner = member(&value[outer.clone()], key)?;
        Some(outer.start + inner.start..outer.start + inner.end)
    })
}

/// The string at the end of a path of member names.
pub fn text(value: &[u8], keys: &[&str]) -> Option<String> {
    LooseText::of(&value[path(value, keys)?]).map(LooseText::into_text)
}

/// The elements of an array in order, as spans of `array`.
///
/// Ends at the first wrong byte, so a value that is not an array has no elements.
pub fn elements(array: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut rest = Array::open(array);
    std::iter::from_fn(move || {
        let element = rest.as_mut()?.next();
        if element.is_none() {
            rest = None;
        }
        element
    })
}

/// The limit of messages in a batch.
const LARGEST_BATCH: usize = 10_000;

/// The messages of a batch, which is an array of objects, as spans of `body`. `None`: it is not a batch, or too
/// large.
pub fn batch(body: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut array = Array::open(body)?;
    let mut messages = Vec::new();
    while let Some(message) = array.next() {
        if body[message.start] != b'{' || messages.len() == LARGEST_BATCH {
            return None;
        }
        messages.push(message);
    }
    let cursor = &mut array.cursor;
    cursor.take(b']', "expected an array").ok()?;
    cursor.skip_space();
    (cursor.at == body.len() && !messages.is_empty()).then_some(messages)
}

/// Whether the bytes are exactly one JSON string, number or `null`.
pub(super) fn is_id(raw: &[u8]) -> bool {
    let mut cursor = Cursor::of(raw);
    let whole = cursor.value().is_ok_and(|span| span == (0..raw.len()));
    whole && check_id(raw, &(0..raw.len())).is_ok()
}

/// Decodes a raw JSON string with its quotes.
pub fn decode(raw: &[u8]) -> Option<Cow<'_, str>> {
    let mut cursor = Cursor::of(raw);
    let text = cursor.string().ok()?;
    if cursor.at == raw.len() { text.decode(raw).ok() } else { None }
}

/// The text of a raw JSON string with its quotes, if it has no escapes.
pub fn without_escapes(raw: &[u8]) -> Option<&str> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let is_plain = memchr::memchr(b'\\', inner).is_none();
    std::str::from_utf8(inner).ok().filter(|_| is_plain)
}

/// A member: its key and the span of its value.
pub(super) struct Entry {
    pub(super) key: Text,
    pub(super) value: Range<usize>,
}

/// The span of a JSON string.
pub(crate) struct Text {
    /// With the quotes.
    pub(super) span: Range<usize>,
    escaped: bool,
}

impl Text {
    /// `span` must be a whole string.
    fn of(text: &[u8], span: &Range<usize>) -> Text {
        Text { span: span.clone(), escaped: memchr::memchr(b'\\', &text[span.clone()]).is_some() }
    }

    /// The text, unchecked, if it has no escapes.
    pub(crate) fn plain<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        (!self.escaped).then(|| &text[self.span.start + 1..self.span.end - 1])
    }

    pub(crate) fn decode<'a>(&self, text: &'a [u8]) -> Result<Cow<'a, str>, Malformed> {
        let Some(inner) = self.plain(text) else {
            let decoded = serde_json::from_slice::<String>(&text[self.span.clone()]);
            return decoded.map(Cow::Owned).map_err(|_| self.bad("undecodable string"));
        };
        self.no_control(inner)?;
        std::str::from_utf8(inner).map(Cow::Borrowed).map_err(|_| self.bad("invalid UTF-8"))
    }

    /// The text, decoded also if it is not Unicode.
    pub(crate) fn decode_loosely<'a>(&self, text: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self.plain(text) {
            Some(inner) => self.no_control(inner).ok().map(|()| Cow::Borrowed(inner)),
            None => LooseText::of(&text[self.span.clone()]).map(|it| Cow::Owned(it.into_bytes())),
        }
    }

    /// The text, with U+FFFD in place of what is no Unicode.
    pub(crate) fn decode_lossily<'a>(&self, text: &'a [u8]) -> Result<Cow<'a, str>, Malformed> {
        self.decode(text).or_else(|error| {
            self.no_control(&text[self.span.start + 1..self.span.end - 1])?;
            let loose = self.decode_loosely(text).ok_or(error)?;
            Ok(Cow::Owned(LooseText::from(loose.into_owned()).into_text()))
        })
    }

    fn no_control(&self, inner: &[u8]) -> Result<(), Malformed> {
        match inner.iter().any(|&byte| byte < b' ') {
            true => Err(self.bad("control character in a string")),
            false => Ok(()),
        }
    }

    fn bad(&self, what: &'static str) -> Malformed {
        Malformed { at: self.span.start, what }
    }

    /// Whether the decoded text is `key`.
    pub(super) fn is(&self, text: &[u8], key: &str) -> bool {
        if self.escaped {
            return self.decode(text).is_ok_and(|decoded| decoded == key);
        }
        &text[self.span.start + 1..self.span.end - 1] == key.as_bytes()
    }
}

/// Reads the members of an object one by one, and checks that only white space surrounds it.
pub(super) struct Object<'a> {
    cursor: Cursor<'a>,
    state: State,
}

enum State {
    Opened,
    Between,
    Closed,
}

impl<'a> Object<'a> {
    pub(super) fn open(text: &'a [u8]) -> Result<Object<'a>, Malformed> {
        let mut cursor = Cursor::of(text);
        cursor.skip_space();
        cursor.take(b'{', "expected an object")?;
        Ok(Object { cursor, state: State::Opened })
    }

    /// The next member. `None` after the closing brace, if the rest is valid.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, Malformed> {
        let cursor = &mut self.cursor;
        cursor.skip_space();
        match self.state {
            State::Closed => return Ok(None),
            State::Opened | State::Between if cursor.peek() == Some(b'}') => {
                cursor.at += 1;
                self.state = State::Closed;
                cursor.skip_space();
                return if cursor.at == cursor.text.len() { Ok(None) } else { cursor.fail("trailing bytes") };
            }
            State::Opened => {}
            State::Between => {
                cursor.take(b',', "expected a comma or brace after a member")?;
                cursor.skip_space();
            }
        }
        self.state = State::Between;
        let key = cursor.string()?;
        cursor.skip_space();
        cursor.take(b':', "expected a colon after a key")?;
        cursor.skip_space();
        let value = cursor.value()?;
        Ok(Some(Entry { key, value }))
    }

    /// The offset of the first byte after the brace, if no member was read yet.
    pub(super) fn at(&self) -> usize {
        self.cursor.at
    }
}

struct Array<'a> {
    cursor: Cursor<'a>,
    first: bool,
}

impl<'a> Array<'a> {
    fn open(text: &'a [u8]) -> Option<Array<'a>> {
        let mut cursor = Cursor::of(text);
        cursor.skip_space();
        cursor.take(b'[', "expected an array").ok()?;
        Some(Array { cursor, first: true })
    }

    fn next(&mut self) -> Option<Range<usize>> {
        let cursor = &mut self.cursor;
        cursor.skip_space();
        if !self.first {
            cursor.take(b',', "expected a comma").ok()?;
            cursor.skip_space();
        }
        self.first = false;
        cursor.value().ok()
    }
}

/// Most keys and names end within so many blocks of 16 bytes. A search would need a setup.
const SHORT: usize = 2;

#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Moves to where only `rest` is left.
    pub(crate) fn skip_to(&mut self, rest: &[u8]) {
        self.at = self.text.len() - rest.len();
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(crate) fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Moves behind these bytes, if they come next.
    fn passes(&mut self, bytes: &[u8]) -> bool {
        let comes = self.rest().starts_with(bytes);
        if comes {
            self.at += bytes.len();
        }
        comes
    }

    /// A string without escapes and control characters.
    fn plain_string(&mut self) -> Option<Span> {
        let text = self.string().ok()?;
        text.no_control(text.plain(self.text)?).ok()?;
        Some(Span::of(text.span))
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, Malformed> {
        Err(Malformed { at: self.at, what })
    }

    pub(crate) fn take(&mut self, byte: u8, otherwise: &'static str) -> Result<(), Malformed> {
        if self.peek() != Some(byte) {
            return self.fail(if self.at == self.text.len() { "unexpected end" } else { otherwise });
        }
        self.at += 1;
        Ok(())
    }

    pub(crate) fn string(&mut self) -> Result<Text, Malformed> {
        let start = self.at;
        self.take(b'"', "expected a string")?;
        for _ in 0..SHORT {
            let Some(block) = self.text[self.at..].first_chunk() else { break };
            let Some(n) = block::end_of_string(block) else {
                self.at += block.len();
                continue;
            };
            self.at += n;
            if self.text[self.at] == b'"' {
                self.at += 1;
                return Ok(Text { span: start..self.at, escaped: false });
            }
            break;
        }
        let mut escaped = false;
        while let Some(n) = memchr::memchr2(b'"', b'\\', self.text.get(self.at..).unwrap_or_default()) {
            self.at += n;
            if self.text[self.at] == b'"' {
                self.at += 1;
                return Ok(Text { span: start..self.at, escaped });
            }
            escaped = true;
            self.at += 2;
        }
        Err(Malformed { at: self.text.len(), what: "unexpected end in a string" })
    }

    pub(crate) fn value(&mut self) -> Result<Range<usize>, Malformed> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => return Ok(self.string()?.span),
            Some(b'{' | b'[') => self.container()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal(b"true")?,
            Some(b'f') => self.literal(b"false")?,
            Some(b'n') => self.literal(b"null")?,
            Some(_) => return self.fail("expected a value"),
            None => return self.fail("unexpected end"),
        }
        Ok(start..self.at)
    }

    fn literal(&mut self, literal: &[u8]) -> Result<(), Malformed> {
        if !self.text[self.at..].starts_with(literal) {
            return self.fail("expected a value");
        }
        self.at += literal.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Malformed> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { self.fail("expected a digit in a number") } else { Ok(()) }
    }

    /// Moves behind the closing bracket of the one at the cursor.
    fn container(&mut self) -> Result<(), Malformed> {
        let mut skipper = Skipper::default();
        let (blocks, tail) = self.text[self.at..].as_chunks::<64>();
        for block in blocks {
            if let Some(bit) = skipper.feed(block) {
                self.at += bit + 1;
                return Ok(());
            }
            self.at += 64;
        }
        let mut block = [b' '; 64];
        block[..tail.len()].copy_from_slice(tail);
        if let Some(bit) = skipper.feed(&block) {
            self.at += bit + 1;
            return Ok(());
        }
        self.at = self.text.len();
        self.fail("unexpected end in an object or array")
    }
}

/// The state between blocks. The first block starts with an opening bracket.
#[derive(Default)]
struct Skipper {
    depth: usize,
    strings: Strings,
}

impl Skipper {
    /// The offset of the bracket that closes the first one, if it is in this block.
    #[inline]
    fn feed(&mut self, block: &[u8; 64]) -> Option<usize> {
        let block = Block::of(block);
        let strings = self.strings.feed(block)?;
        // Square brackets and braces differ in one bit.
        let braces = block.or(0x20);
        let opening = braces.equal(b'{') & !strings;
        let mut brackets = (opening | braces.equal(b'}')) & !strings;
        while brackets != 0 {
            let bit = brackets.trailing_zeros();
            brackets &= brackets - 1;
            let opens = (opening >> bit & 1) as usize;
            self.depth = self.depth + 2 * opens - 1;
            if self.depth == 0 {
                return Some(bit as usize);
            }
        }
        None
    }
}

#[cfg(test)]
pub(super) mod arbitrary;

#[cfg(test)]
mod tests;
