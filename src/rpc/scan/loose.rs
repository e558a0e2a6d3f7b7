//! JSON strings that are not Unicode: half a surrogate pair, which JavaScript writes as `\\ud83d`, and bytes that are
//! not UTF-8, which editors send from binary files.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// A decoded JSON string as bytes: UTF-8, except for invalid bytes, which stay, and half surrogate pairs, which take
/// three bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LooseText(Vec<u8>);

impl LooseText {
    /// Decodes a raw JSON string.
    pub(crate) fn of(raw: &[u8]) -> Option<LooseText> {
        serde_json::from_slice(raw).ok()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Replaces invalid bytes by U+FFFD.
    pub(crate) fn into_text(self) -> String {
        String::from_utf8(self.0).unwrap_or_else(|it| {
            let mut out = String::new();
            parts(it.as_bytes(), |part| match part {
                Part::Text(text) => out.push_str(text),
                Part::Half(_) | Part::Byte(_) => out.push(char::REPLACEMENT_CHARACTER),
            });
            out
        })
    }

    /// Encodes such bytes as a raw JSON string.
    pub(crate) fn quoted(bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![b'"'];
        parts(bytes, |part| match part {
            Part::Text(text) => {
                let text = serde_json::to_vec(text).expect("a string is always representable");
                out.extend_from_slice(&text[1..text.len() - 1]);
            }
            Part::Half(unit) => out.extend_from_slice(format!("\\u{unit:04x}").as_bytes()),
            Part::Byte(byte) => out.push(byte),
        });
        out.push(b'"');
        out
    }

    /// Replaces half surrogate pairs by U+FFFD, which takes as much in any encoding. Gives whether there were any.
    pub(crate) fn replace_halves(bytes: &mut [u8]) -> bool {
        let is_half = |it: &[u8]| matches!(it, [0xED, 0xA0..0xC0, 0x80..0xC0, ..]);
        let halves: Vec<usize> =
            memchr::memchr_iter(0xED, bytes).filter(|at| is_half(&bytes[*at..])).collect();
        for at in &halves {
            bytes[*at..at + 3].copy_from_slice("\u{fffd}".as_bytes());
        }
        !halves.is_empty()
    }

    /// Splits the four bytes of a surrogate pair into its halves.
    pub(crate) fn halves(pair: [u8; 4]) -> Option<[u8; 6]> {
        let mut units = [0; 2];
        std::str::from_utf8(&pair).ok()?.chars().next()?.encode_utf16(&mut units);
        let three = |unit: u16| {
            let six = |it: u16| 0x80 | u8::try_from(it & 0x3F).expect("six bits");
            [0xED, six(unit >> 6), six(unit)]
        };
        let mut halves = [0; 6];
        halves[..3].copy_from_slice(&three(units[0]));
        halves[3..].copy_from_slice(&three(units[1]));
        (units[1] != 0).then_some(halves)
    }
}

enum Part<'a> {
    Text(&'a str),
    Half(u16),
    Byte(u8),
}

fn parts(mut bytes: &[u8], mut each: impl FnMut(Part<'_>)) {
    while !bytes.is_empty() {
        let valid = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("it is valid up to there")
            }
        };
        if !valid.is_empty() {
            each(Part::Text(valid));
        }
        bytes = &bytes[valid.len()..];
        match *bytes {
            [0xED, middle @ 0xA0..0xC0, last @ 0x80..0xC0, ..] => {
                each(Part::Half(0xD000 | u16::from(middle & 0x3F) << 6 | u16::from(last & 0x3F)));
                bytes = &bytes[3..];
            }
            [byte, ..] => {
                each(Part::Byte(byte));
                bytes = &bytes[1..];
            }
            [] => {}
        }
    }
}

impl From<Vec<u8>> for LooseText {
    fn from(bytes: Vec<u8>) -> LooseText {
        LooseText(bytes)
    }
}

impl<'de> Deserialize<'de> for LooseText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LooseText, D::Error> {
        // For bytes, serde_json does not check a string, and writes halves in three bytes.
        deserializer.deserialize_bytes(Visitor)
    }
}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = LooseText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<LooseText, E> {
        Ok(LooseText(bytes.to_vec()))
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<LooseText, E> {
        Ok(LooseText(bytes))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<LooseText, E> {
        Ok(LooseText(text.as_bytes().to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_and_raw_bytes_survive_decoding_and_quoting() {
        for raw in
            [br#""a\ud83d""#.as_slice(), br#""\ude00b""#, b"\"caf\xe9\"", b"\"\xf0\x9f\x98\"", br#""\"\n""#]
        {
            let text = LooseText::of(raw).unwrap();
            assert_eq!(LooseText::quoted(&text.0), raw, "{}", String::from_utf8_lossy(raw));
        }
        assert_eq!(LooseText::of(br#""a\ud83d\ude00""#).unwrap().into_text(), "a😀");
        assert_eq!(LooseText::of(br#""a\ud83d!""#).unwrap().into_text(), "a\u{fffd}!");
        assert_eq!(LooseText::of(b"\"caf\xe9\"").unwrap().into_text(), "caf\u{fffd}");
        assert!(LooseText::of(b"[1]").is_none() && LooseText::of(b"1").is_none());
        let halves = LooseText::halves([0xF0, 0x9F, 0x98, 0x80]).unwrap();
        assert_eq!(LooseText::quoted(&halves), br#""\ud83d\ude00""#);
        assert_eq!(LooseText::halves(*b"abcd"), None);
        let mut replaced = [b"a", &halves[..], b"\xed"].concat();
        assert!(LooseText::replace_halves(&mut replaced));
        assert_eq!(replaced, [b"a".as_slice(), "\u{fffd}\u{fffd}".as_bytes(), b"\xed"].concat());
        assert!(
            !LooseText::replace_halves(&mut replaced)
                && !LooseText::replace_halves(&mut "한😀".to_owned().into_bytes())
        );
    }

    proptest! {
        #[test]
        fn quoting_any_bytes_is_undone_by_decoding(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let again = LooseText::of(&LooseText::quoted(&bytes)).unwrap();
            prop_assert_eq!(LooseText::quoted(&again.0), LooseText::quoted(&bytes));
        }
    }
}
