//! Makes texts unreadable and keeps their length.
//!
//! Each character becomes an `x` of the same width in UTF-8 and UTF-16, so that positions stay valid. Line ends stay,
//! and so does a text of white space alone, because lspool decides by it whether a model has said anything.

/// The character that replaces another one.
fn masked(it: char) -> char {
    match it {
        // The last one stands for half a character.
        '\n' | '\r' | char::REPLACEMENT_CHARACTER => it,
        _ => match it.len_utf8() {
            1 => 'x',
            2 => '\u{d7}',
            3 => '\u{ff58}',
            _ => '\u{1d5d1}',
        },
    }
}

/// Masks a raw JSON string with its quotes. An escape counts as its character. A lone surrogate has no meaning, and
/// stays.
pub(super) fn literal(raw: &str, out: &mut Vec<u8>) {
    let inner = raw.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or_default();
    if is_blank(inner) {
        return out.extend_from_slice(raw.as_bytes());
    }
    out.push(b'"');
    let mut rest = inner;
    loop {
        // The common case.
        let letters = rest.bytes().position(|it| !matches!(it, b' '..=b'\x7f') || it == b'\\');
        let letters = letters.unwrap_or(rest.len());
        out.resize(out.len() + letters, b'x');
        rest = &rest[letters..];
        let Some(it) = rest.chars().next() else { break };
        let length = if it == '\\' { escape(rest, out) } else { plain(it, out) };
        rest = rest.get(length..).unwrap_or_default();
    }
    out.push(b'"');
}

/// Whether the inside of a string is nothing but white space.
fn is_blank(inner: &str) -> bool {
    let mut rest = inner;
    while let Some(it) = rest.chars().next() {
        let (it, length) = match (it, rest.as_bytes().get(1)) {
            ('\\', Some(b'n' | b'r' | b't' | b'f')) => (' ', 2),
            ('\\', _) => match unit(rest).and_then(|it| char::from_u32(u32::from(it))) {
                Some(it) => (it, 6),
                None => return false,
            },
            (it, _) => (it, it.len_utf8()),
        };
        if !it.is_whitespace() {
            return false;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    true
}

fn plain(it: char, out: &mut Vec<u8>) -> usize {
    let mut bytes = [0; 4];
    out.extend_from_slice(masked(it).encode_utf8(&mut bytes).as_bytes());
    it.len_utf8()
}

/// Masks the escape at the start; returns its length.
fn escape(rest: &str, out: &mut Vec<u8>) -> usize {
    let kind = rest[1..].chars().next().unwrap_or('\\');
    if kind == 'n' || kind == 'r' {
        out.extend_from_slice(&rest.as_bytes()[..2]);
        return 2;
    }
    if kind != 'u' {
        plain('x', out);
        return 1 + kind.len_utf8();
    }
    let Some(unit) = unit(rest) else {
        plain('x', out);
        return 2;
    };
    match char::from_u32(u32::from(unit)) {
        Some('\n') => out.extend_from_slice(br"\n"),
        Some('\r') => out.extend_from_slice(br"\r"),
        Some(it) => drop(plain(it, out)),
        None => match pair(rest) {
            Some(it) => {
                plain(it, out);
                return 12;
            }
            None => out.extend_from_slice(&rest.as_bytes()[..6]),
        },
    }
    6
}

/// Replaces each lone surrogate in JSON by a replacement character.
pub(super) fn without_halves(json: &str) -> String {
    let (mut out, mut rest) = (String::new(), json);
    while let Some(at) = rest.find('\\') {
        out += &rest[..at];
        rest = &rest[at..];
        let is_half = unit(rest).is_some_and(|it| char::from_u32(u32::from(it)).is_none());
        let (as_it_is, length) = match (is_half, pair(rest)) {
            (true, None) => (r"\ufffd", 6),
            (true, Some(_)) => (&rest[..12], 12),
            // The escaped character may be a backslash.
            (false, _) => (rest.get(..2).unwrap_or(rest), 2),
        };
        out += as_it_is;
        rest = rest.get(length..).unwrap_or_default();
    }
    out + rest
}

/// The character of two surrogates at the start.
fn pair(rest: &str) -> Option<char> {
    let units = [unit(rest)?, unit(rest.get(6..)?)?];
    char::decode_utf16(units).next()?.ok()
}

/// The number in the `\u1234` at the start.
fn unit(rest: &str) -> Option<u16> {
    u16::from_str_radix(rest.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// Masks a text that resembles JSON. Its brackets and string delimiters stay.
pub(super) fn broken(text: &str) -> String {
    let is_structure = |it: char| "{}[]\":,\\ \t\n\r".contains(it);
    text.chars().map(|it| if is_structure(it) { it } else { masked(it) }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> String {
        match text.trim().is_empty() {
            true => text.to_owned(),
            false => text.chars().map(masked).collect(),
        }
    }

    fn masked_literal(raw: &str) -> String {
        let mut out = Vec::new();
        literal(raw, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn mask_decodes_escapes() {
        assert_eq!(
            masked_literal(r#""a\"\\\t\n\r\u000a\u00e9\u20ac\ud83d\ude00b""#),
            "\"xxxx\\n\\r\\n×ｘ𝗑x\""
        );
        assert_eq!(masked_literal(r#""\ud83d.\ude00""#), r#""\ud83dx\ude00""#);
        for blank in [r#"" \t\n\u00a0\u000b\f""#, r#""""#] {
            assert_eq!(masked_literal(blank), blank);
        }
    }

    proptest! {
        #[test]
        fn mask_keeps_widths_and_line_breaks(original: String) {
            let raw = serde_json::to_string(&original).unwrap();
            let masked: String = serde_json::from_str(&masked_literal(&raw)).unwrap();
            prop_assert_eq!(&masked, &text(&original));
            prop_assert_eq!(masked.chars().count(), original.chars().count());
            for (it, was) in masked.chars().zip(original.chars()) {
                prop_assert_eq!((it.len_utf8(), it.len_utf16()), (was.len_utf8(), was.len_utf16()));
                prop_assert_eq!(it == '\n' || it == '\r', was == '\n' || was == '\r');
                prop_assert!(it == was || "x×ｘ𝗑".contains(it));
            }
            prop_assert_eq!(text(&masked), masked);
        }

        #[test]
        fn mask_never_panics(raw: String) {
            literal(&raw, &mut Vec::new());
            literal(&format!("\"{raw}\""), &mut Vec::new());
            broken(&raw);
        }
    }
}
