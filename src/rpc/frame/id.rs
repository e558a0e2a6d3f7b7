//! The id of a request, or another value that is only compared.

use std::{
    borrow::Cow,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

use bytes::Bytes;

use crate::rpc::{
    patch::quoted,
    scan::{LooseText, decode, is_id},
};

/// A JSON string, number or `null` in its written form: ids of requests, progress tokens, ids of conversations.
///
/// Two of them are equal if they mean the same: strings are compared decoded (`"a"` is `"\u0061"`), numbers by value
/// (`1.0` is `1`, and integers are exact), and a string never equals a number.
#[derive(Clone)]
pub struct RawId(Repr);

/// The size of a quoted UUID.
const INLINE: usize = 38;

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE] },
    Shared(Bytes),
}

impl RawId {
    /// `None` unless `raw` is exactly one JSON string, number or `null`.
    pub fn from_raw(raw: &[u8]) -> Option<RawId> {
        is_id(raw).then(|| RawId::keep(raw))
    }

    /// The JSON string for `text`.
    pub fn text(text: &str) -> RawId {
        RawId::keep(&quoted(text))
    }

    /// `null`.
    pub fn null() -> RawId {
        RawId::keep(b"null")
    }

    /// Copies the bytes, because an id in a table must not keep a whole body alive.
    pub(super) fn keep(raw: &[u8]) -> RawId {
        let mut bytes = [0; INLINE];
        match (bytes.get_mut(..raw.len()), u8::try_from(raw.len())) {
            (Some(start), Ok(len)) => {
                start.copy_from_slice(raw);
                RawId(Repr::Inline { len, bytes })
            }
            _ => RawId(Repr::Shared(Bytes::copy_from_slice(raw))),
        }
    }

    /// The raw JSON.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Shared(bytes) => bytes,
        }
    }

    /// The decoded text of a string.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        decode(self.as_bytes())
    }

    /// The number, if it is an integer in any form.
    pub fn as_u64(&self) -> Option<u64> {
        decimal(&number(self.as_bytes()))
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.as_bytes() == b"null"
    }

    /// Like [`RawId::meaning`], for an id with only one written form: nearly every id.
    fn plain(&self) -> Option<(bool, &[u8])> {
        match self.as_bytes() {
            [b'"', text @ .., b'"'] => (!text.contains(&b'\\')).then_some((true, text)),
            number => number.iter().all(u8::is_ascii_digit).then_some((false, number)),
        }
    }

    /// The basis of equality, order and hash: `true` and the decoded text for a string.
    fn meaning(&self) -> (bool, Cow<'_, [u8]>) {
        match self.as_text() {
            Some(Cow::Borrowed(text)) => (true, Cow::Borrowed(text.as_bytes())),
            Some(Cow::Owned(text)) => (true, Cow::Owned(text.into_bytes())),
            // A string that is no Unicode, or a number.
            None => match LooseText::of(self.as_bytes()) {
                Some(text) => (true, Cow::Owned(text.into_bytes())),
                None => (false, number(self.as_bytes())),
            },
        }
    }
}

/// The number in decimal digits.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// A number, or `null`, in one form. A server may answer with another form of a number: one that knows only floats
/// answers `1` with `1.0`.
fn number(raw: &[u8]) -> Cow<'_, [u8]> {
    let digits = raw.strip_prefix(b"-").filter(|it| *it != b"0").unwrap_or(raw);
    let value = || std::str::from_utf8(raw).ok()?.parse::<f64>().ok();
    match digits.iter().all(u8::is_ascii_digit) {
        true => Cow::Borrowed(raw),
        // The sum turns -0 into 0.
        false => value().map_or(Cow::Borrowed(raw), |it| Cow::Owned((it + 0.0).to_string().into_bytes())),
    }
}

impl From<u64> for RawId {
    fn from(number: u64) -> RawId {
        RawId::keep(itoa::Buffer::new().format(number).as_bytes())
    }
}

impl PartialEq for RawId {
    fn eq(&self, other: &RawId) -> bool {
        self.as_bytes() == other.as_bytes()
            || (self.plain().is_none() || other.plain().is_none()) && self.meaning() == other.meaning()
    }
}

impl Eq for RawId {}

impl PartialOrd for RawId {
    fn partial_cmp(&self, other: &RawId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RawId {
    fn cmp(&self, other: &RawId) -> Ordering {
        match (self.plain(), other.plain()) {
            (Some(this), Some(other)) => this.cmp(&other),
            (_, _) => self.meaning().cmp(&other.meaning()),
        }
    }
}

impl Hash for RawId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (is_text, bytes) =
            self.plain().map_or_else(|| self.meaning(), |(is_text, bytes)| (is_text, Cow::Borrowed(bytes)));
        // Most ids are numbers.
        match decimal(&bytes).filter(|_| !is_text) {
            Some(number) => number.hash(state),
            None => (is_text, bytes).hash(state),
        }
    }
}

impl fmt::Display for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawId({self})")
    }
}
