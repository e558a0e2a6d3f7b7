//! Text edits of the protocol, from a text to the text after them.
//!
//! **All edits are checked before any is made**: their places exist, and none overlaps another one. Line ends stay as the
//! text has them.

use serde_json::Value;

use super::{Position, Range, Text};

/// How a server counts the characters of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// In bytes.
    Utf8,
    /// In UTF-16 units.
    Utf16,
    /// In Unicode characters.
    Utf32,
}

impl Encoding {
    /// Reads the name in the capabilities of a server. Without one, it is UTF-16.
    pub fn named(name: Option<&str>) -> Option<Encoding> {
        match name {
            None | Some("utf-16") => Some(Encoding::Utf16),
            Some("utf-8") => Some(Encoding::Utf8),
            Some("utf-32") => Some(Encoding::Utf32),
            Some(_) => None,
        }
    }

    pub(super) fn units(self, it: char) -> usize {
        match self {
            Encoding::Utf8 => it.len_utf8(),
            Encoding::Utf16 => it.len_utf16(),
            Encoding::Utf32 => 1,
        }
    }
}

/// A new text for a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    /// What it replaces, counted as the server does.
    pub range: Range,
    /// What comes there.
    pub text: String,
}

impl TextEdit {
    /// Reads an edit, also one with an annotation. Refuses what is not plain text.
    pub fn read(value: &Value) -> Result<TextEdit, String> {
        let range =
            Range::read(&value["range"]).ok_or_else(|| format!("an edit has no range: {}", brief(value)))?;
        match &value["newText"] {
            Value::String(text) => Ok(TextEdit { range, text: text.clone() }),
            _ if !value["snippet"].is_null() => Err("an edit is a snippet".to_owned()),
            _ => Err(format!("an edit has no text: {}", brief(value))),
        }
    }
}

/// The beginning of a value, for an error.
pub(super) fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// An edit in bytes of the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// The first byte that it replaces.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
    /// What comes there.
    pub text: String,
}

/// Checks edits and sorts them by place. Inserts at one place keep their order, and come before what is replaced there.
pub fn splices(text: &Text, edits: &[TextEdit], encoding: Encoding) -> Result<Vec<Splice>, String> {
    let line_end = LineEnd::of(text.as_str());
    let mut all = Vec::new();
    for edit in edits {
        let start = byte_at(text, edit.range.start, encoding)?;
        let end = byte_at(text, edit.range.end, encoding)?;
        if start > end {
            return Err(format!("an edit ends before it begins, at line {}", edit.range.start.line + 1));
        }
        all.push(Splice { start, end, text: line_end.apply(&edit.text) });
    }
    all.sort_by_key(|it| (it.start, it.end));
    // Some servers report a place twice.
    all.dedup_by(|one, other| one == other && one.start < one.end);
    if let Some(pair) = all.windows(2).find(|it| it[0].end > it[1].start) {
        let line = text.as_str()[..pair[1].start].matches('\n').count() + 1;
        return Err(format!("two edits overlap at line {line}"));
    }
    Ok(all)
}

/// The text after the edits.
pub fn spliced(text: &str, splices: &[Splice]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for it in splices {
        out.push_str(&text[at..it.start]);
        out.push_str(&it.text);
        at = it.end;
    }
    out.push_str(&text[at..]);
    out
}

/// The byte of a place. The protocol lets a character be after the end of its line, which it means then: typescript inserts
/// functions there. The line after the last one is the end of the text.
fn byte_at(text: &Text, place: Position, encoding: Encoding) -> Result<usize, String> {
    let Some(start) = text.start_of(place.line) else {
        let is_end = place.line == text.n_lines() && place.character == 0;
        return match is_end {
            true => Ok(text.as_str().len()),
            false => Err(format!("line {} does not exist: there are {}", place.line + 1, text.n_lines())),
        };
    };
    let (line, wanted) = (text.line(place.line), place.character as usize);
    let mut units = 0;
    for (at, it) in line.char_indices() {
        if units == wanted {
            return Ok(start + at);
        }
        units += encoding.units(it);
        if units > wanted {
            return Err(format!("line {} has no place {wanted}: it is inside of {it:?}", place.line + 1));
        }
    }
    Ok(start + line.len())
}

/// How the lines of a text end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnd {
    /// There is one line.
    Unknown,
    Line,
    ReturnAndLine,
    Return,
}

impl LineEnd {
    /// As most lines end.
    fn of(text: &str) -> LineEnd {
        let both = text.matches("\r\n").count();
        let lines = text.matches('\n').count() - both;
        let returns = text.matches('\r').count() - both;
        match lines.max(returns).max(both) {
            0 => LineEnd::Unknown,
            most if most == lines => LineEnd::Line,
            most if most == both => LineEnd::ReturnAndLine,
            _ => LineEnd::Return,
        }
    }

    /// A text with these line ends.
    fn apply(self, text: &str) -> String {
        let end = match self {
            LineEnd::Unknown => return text.to_owned(),
            LineEnd::Line => "\n",
            LineEnd::ReturnAndLine => "\r\n",
            LineEnd::Return => "\r",
        };
        let plain = text.replace("\r\n", "\n").replace('\r', "\n");
        if end == "\n" { plain } else { plain.replace('\n', end) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn edit(start: (u32, u32), end: (u32, u32), text: &str) -> TextEdit {
        let place = |(line, character)| Position { line, character };
        TextEdit { range: Range { start: place(start), end: place(end) }, text: text.to_owned() }
    }

    fn apply(text: &str, edits: &[TextEdit]) -> Result<String, String> {
        splices(&Text::new(text), edits, Encoding::Utf16).map(|it| spliced(text, &it))
    }

    #[test]
    fn edits_are_made_at_their_places() {
        let edits = [edit((1, 0), (1, 1), "B"), edit((0, 0), (0, 0), "1"), edit((0, 0), (0, 0), "2")];
        assert_eq!(apply("a\nb\nc", &edits).unwrap(), "12a\nB\nc");
        // What is inserted where something is replaced comes before it, in either order.
        let edits = [edit((0, 0), (0, 1), "x"), edit((0, 0), (0, 0), "1")];
        assert_eq!(apply("ab", &edits).unwrap(), "1xb");
        // Of the whole text, as formatters say it.
        for end in [(2, 0), (1, 3), (1, u32::MAX)] {
            assert_eq!(apply("a\nb", &[edit((0, 0), end, "new")]).unwrap(), "new", "{end:?}");
        }
        assert_eq!(apply("a\nb", &[edit((0, 9), (0, 9), "!")]).unwrap(), "a!\nb");
        assert_eq!(apply("aa", &[edit((0, 0), (0, 1), "x"), edit((0, 0), (0, 1), "x")]).unwrap(), "xa");
    }

    #[test]
    fn places_that_do_not_exist_are_refused() {
        for (start, end, expected) in [
            ((5, 0), (5, 0), "line 6 does not exist"),
            ((2, 1), (2, 1), "line 3 does not exist"),
            ((1, 1), (1, 2), "line 2 has no place 1"),
            ((1, 0), (1, 1), "line 2 has no place 1"),
            ((1, 0), (0, 0), "ends before it begins"),
        ] {
            let why = apply("a\n😀", &[edit(start, end, "")]).unwrap_err();
            assert!(why.contains(expected), "{start:?} {end:?}: {why}");
        }
        let overlapping = [edit((0, 0), (0, 2), "x"), edit((0, 1), (0, 3), "y")];
        assert_eq!(apply("abc", &overlapping).unwrap_err(), "two edits overlap at line 1");
    }

    #[test]
    fn line_ends_stay_as_they_are() {
        for (text, new, expected) in [
            ("a\r\nb\r\n", "x\ny", "x\r\ny\r\nb\r\n"),
            ("a\nb\n", "x\r\ny", "x\ny\nb\n"),
            ("a\rb\r", "x\ny", "x\ry\rb\r"),
            ("a", "x\r\ny", "x\r\ny"),
        ] {
            assert_eq!(apply(text, &[edit((0, 0), (0, 1), new)]).unwrap(), expected);
        }
    }

    #[test]
    fn only_plain_edits_are_read() {
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
        let plain = json!({"range": range, "newText": "x", "annotationId": "a"});
        assert_eq!(TextEdit::read(&plain).unwrap(), edit((0, 0), (0, 1), "x"));
        let snippet = json!({"range": range, "snippet": {"kind": "snippet", "value": "$0"}});
        assert_eq!(TextEdit::read(&snippet).unwrap_err(), "an edit is a snippet");
        for wrong in [json!({"newText": "x"}), json!({"range": range}), json!(3)] {
            assert!(TextEdit::read(&wrong).is_err(), "{wrong}");
        }
    }

    /// The same, slowly: character by character from the end, on a text whose lines end with `\n`.
    fn slowly(text: &str, edits: &[TextEdit], encoding: Encoding) -> Option<String> {
        let mut lines: Vec<Vec<char>> = vec![Vec::new()];
        for it in text.chars() {
            match it {
                '\n' => lines.push(Vec::new()),
                other => lines.last_mut().unwrap().push(other),
            }
        }
        let before = |line: usize| lines[..line].iter().map(|it| it.len() + 1).sum::<usize>();
        let at = |place: Position| {
            let line = place.line as usize;
            if line >= lines.len() {
                let length = text.chars().count();
                return (line == lines.len() && place.character == 0).then_some(length);
            }
            let mut left = i64::from(place.character);
            for n in 0..=lines[line].len() {
                if left == 0 {
                    return Some(before(line) + n);
                }
                let Some(it) = lines[line].get(n) else { break };
                left -= i64::try_from(encoding.units(*it)).unwrap();
                if left < 0 {
                    return None;
                }
            }
            Some(before(line) + lines[line].len())
        };
        let mut all: Vec<(usize, usize, &str)> = Vec::new();
        for it in edits {
            let (start, end) = (at(it.range.start)?, at(it.range.end)?);
            if start > end {
                return None;
            }
            if start < end && all.contains(&(start, end, &it.text)) {
                continue;
            }
            all.push((start, end, &it.text));
        }
        for (n, one) in all.iter().enumerate() {
            for other in &all[n + 1..] {
                let (first, second) =
                    if (one.0, one.1) <= (other.0, other.1) { (one, other) } else { (other, one) };
                if first.1 > second.0 {
                    return None;
                }
            }
        }
        let mut out: Vec<char> = text.chars().collect();
        all.sort_by_key(|it| (it.0, it.1));
        for (start, end, new) in all.into_iter().rev() {
            out.splice(start..end, new.chars());
        }
        Some(out.into_iter().collect())
    }

    proptest! {
        #[test]
        fn edits_give_what_a_slow_way_gives(
            text in "[aé😀\n]{0,12}",
            edits in prop::collection::vec(((0_u32..4, 0_u32..5), (0_u32..4, 0_u32..5), "[xü\n]{0,2}"), 0..5),
            encoding in prop::sample::select(vec![Encoding::Utf8, Encoding::Utf16, Encoding::Utf32]),
        ) {
            // Without a line end there is nothing to be kept.
            let edits: Vec<TextEdit> = edits.iter().map(|(start, end, new)| edit(*start.min(end), *start.max(end), new)).collect();
            let fast = splices(&Text::new(text.as_str()), &edits, encoding).map(|it| spliced(&text, &it));
            prop_assert_eq!(fast.ok(), slowly(&text, &edits, encoding));
        }
    }
}
