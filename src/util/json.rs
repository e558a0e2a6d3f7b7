//! Reads JSON that other programs write.
//!
//! JavaScript writes half a surrogate pair as `\ud83d`, which is not Unicode, and serde refuses the whole value. This
//! module replaces such a half, and bytes that are not UTF-8, by U+FFFD.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// Reads a value.
pub fn read<T: DeserializeOwned>(raw: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(raw).or_else(|error| match mended(raw) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(mended) => serde_json::from_slice(&mended),
    })
}

/// Replaces everything that is not Unicode by U+FFFD.
fn mended(raw: &[u8]) -> Cow<'_, [u8]> {
    let mut out = match String::from_utf8_lossy(raw) {
        Cow::Borrowed(_) => Cow::Borrowed(raw),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    };
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &out[at..]) {
        at += found;
        at += match (unit(&out[at..]), unit(out.get(at + 6..).unwrap_or_default())) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                out.to_mut()[at..at + 6].copy_from_slice(br"\ufffd");
                6
            }
            // The escaped character may be a backslash.
            (_, _) => 2,
        };
        at = at.min(out.len());
    }
    out
}

/// The number of a `\u` escape at the beginning of a text.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(br"\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn halves_of_surrogate_pairs_become_replacement_characters() {
        for (raw, expected) in [
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ud83db""#, "\u{fffd}b"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ud83d\n\\ud83d""#, "\u{fffd}\n\\ud83d"),
        ] {
            assert_eq!(read::<String>(raw.as_bytes()).unwrap(), expected, "{raw}");
        }
        assert_eq!(read::<String>(b"\"caf\xe9\"").unwrap(), "caf\u{fffd}");
        for broken in ["", "\"", r#""\ud83d"#, r#""\ud8"#, "\\", r#"{"a":"\ud83d""#] {
            assert!(read::<Value>(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    proptest! {
        /// Only invalid text changes.
        #[test]
        fn readable_values_are_read_as_they_are(text in "\\PC{0,20}|[\\\\ud8c\"]{0,12}") {
            let raw = serde_json::to_vec(&text).unwrap();
            prop_assert_eq!(mended(&raw), &raw[..]);
            prop_assert_eq!(read::<String>(&raw).unwrap(), text);
        }

        #[test]
        fn any_escapes_make_a_text(units in prop::collection::vec(0xD7F0_u16..0xE010, 0..8)) {
            let escapes: Vec<String> = units.iter().map(|it| format!("\\u{it:04x}")).collect();
            let read = read::<String>(format!("\"{}\"", escapes.concat()).as_bytes()).unwrap();
            prop_assert_eq!(read, String::from_utf16_lossy(&units));
        }
    }
}
