//! Positions that move along with the edits of a text.
//!
//! Knows no document: it is given what has been changed, and says where a diagnostic is since then.

use crate::rpc::{Patch, decode, elements, member, values};

/// Line and character, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    line: u32,
    character: u32,
}

impl Place {
    fn read(raw: &[u8]) -> Option<Place> {
        let number = |it: Option<&[u8]>| std::str::from_utf8(it?).ok()?.parse().ok();
        let [line, character] = values(raw, ["line", "character"]);
        Some(Place { line: number(line)?, character: number(character)? })
    }

    fn json(self) -> String {
        format!(r#"{{"line":{},"character":{}}}"#, self.line, self.character)
    }
}

/// A part of a text is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    start: Place,
    end: Place,
    /// Where the new part ends.
    now: Place,
}

/// The edits in the parameters of a `didChange`. `None`: the whole text is another one, or they cannot be read.
pub(super) fn edits(params: &[u8]) -> Option<Vec<Edit>> {
    let list = &params[member(params, "contentChanges")?];
    elements(list).map(|it| Edit::read(&list[it])).collect()
}

impl Edit {
    fn read(change: &[u8]) -> Option<Edit> {
        let [range, text] = values(change, ["range", "text"]);
        let (start, end) = read_range(range?)?;
        let text = decode(text?)?;
        let last = text.rfind(['\n', '\r']).map_or(0, |it| it + 1);
        let breaks = text.matches(['\n', '\r']).count() - text.matches("\r\n").count();
        let units = u32::try_from(text[last..].encode_utf16().count()).ok()?;
        let now = match u32::try_from(breaks).ok()? {
            0 => Place { character: start.character.checked_add(units)?, ..start },
            breaks => Place { line: start.line.checked_add(breaks)?, character: units },
        };
        Some(Edit { start, end, now })
    }

    /// Whether it may replace the whole text, as a formatter does. Like a change without a range, it says nothing about
    /// the places in it.
    fn may_rewrite_all(&self) -> bool {
        let beginning = Place { line: 0, character: 0 };
        self.start == beginning && self.end.line > 0 && self.now != beginning
    }

    /// A place that is not before the end of what was replaced.
    fn behind(&self, at: Place) -> Place {
        let line = self.now.line.saturating_add(at.line.saturating_sub(self.end.line));
        match at.line == self.end.line {
            true => Place {
                line,
                character: self.now.character.saturating_add(at.character - self.end.character),
            },
            false => Place { line, ..at },
        }
    }

    /// Where a range is after this. `None`: all of it was replaced.
    fn moved(&self, (start, end): (Place, Place)) -> Option<(Place, Place)> {
        let is_covered = match start == end {
            true => self.start < start && end < self.end,
            false => self.start <= start && end <= self.end,
        };
        if is_covered {
            return self.may_rewrite_all().then_some((start, end));
        }
        let moved_start = match start {
            it if it >= self.end => self.behind(it),
            it if it <= self.start => it,
            _ => self.now,
        };
        let moved_end = match end {
            it if it <= self.start => it,
            it if it >= self.end => self.behind(it),
            _ => self.start,
        };
        Some((moved_start, moved_end.max(moved_start)))
    }
}

fn read_range(raw: &[u8]) -> Option<(Place, Place)> {
    let [start, end] = values(raw, ["start", "end"]);
    Some((Place::read(start?)?, Place::read(end?)?))
}

/// A list of diagnostics, without its brackets, after these edits. What was replaced is left out.
pub(super) fn moved(inner: &[u8], edits: &[Edit]) -> Vec<u8> {
    let list = [b"[".as_slice(), inner, b"]"].concat();
    let all = elements(&list).filter_map(|it| one_moved(&list[it], edits));
    all.collect::<Vec<_>>().join(b",".as_slice())
}

fn one_moved(diagnostic: &[u8], edits: &[Edit]) -> Option<Vec<u8>> {
    let Some(range) = member(diagnostic, "range").and_then(|it| read_range(&diagnostic[it])) else {
        return Some(diagnostic.to_vec());
    };
    let (start, end) = edits.iter().try_fold(range, |range, edit| edit.moved(range))?;
    if (start, end) == range {
        return Some(diagnostic.to_vec());
    }
    let range = format!(r#"{{"start":{},"end":{}}}"#, start.json(), end.json());
    Some(Patch::of(diagnostic).set("range", range.as_bytes()).finish())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn place(line: u32, character: u32) -> Value {
        json!({"line": line, "character": character})
    }

    fn change(from: (u32, u32), to: (u32, u32), text: &str) -> Value {
        let range = json!({"start": place(from.0, from.1), "end": place(to.0, to.1)});
        json!({"contentChanges": [{"range": range, "text": text}]})
    }

    /// Where the range 5:4 to 5:8 is after a change.
    fn after(change: &Value) -> Option<(u64, u64, u64, u64)> {
        let edits = edits(change.to_string().as_bytes()).expect("they can be read");
        let it = json!({"range": {"start": place(5, 4), "end": place(5, 8)}, "message": "m"});
        let list = moved(it.to_string().as_bytes(), &edits);
        let it: Value = serde_json::from_slice(&list).ok()?;
        assert_eq!(it["message"], "m");
        let number = |end: &str, of: &str| it["range"][end][of].as_u64().unwrap();
        Some((
            number("start", "line"),
            number("start", "character"),
            number("end", "line"),
            number("end", "character"),
        ))
    }

    #[test]
    fn range_moves_with_what_is_before_it() {
        for (from, to, text, expected) in [
            ((6, 0), (6, 0), "x\n", (5, 4, 5, 8)),
            ((5, 8), (5, 8), "x", (5, 4, 5, 8)),
            ((5, 4), (5, 4), "x", (5, 5, 5, 9)),
            ((5, 0), (5, 2), "é😀", (5, 5, 5, 9)),
            ((1, 0), (1, 0), "a\r\nb\nc\rd", (8, 4, 8, 8)),
            ((5, 2), (5, 2), "a\nbc", (6, 4, 6, 8)),
            ((3, 1), (5, 2), "", (3, 3, 3, 7)),
            ((5, 6), (5, 6), "xy", (5, 4, 5, 10)),
            ((5, 6), (6, 3), "", (5, 4, 5, 6)),
            ((5, 0), (5, 6), "", (5, 0, 5, 2)),
        ] {
            assert_eq!(after(&change(from, to, text)), Some(expected), "{from:?} {to:?} {text:?}");
        }
    }

    #[test]
    fn what_is_replaced_is_left_out() {
        assert_eq!(after(&change((5, 4), (5, 8), "word")), None);
        assert_eq!(after(&change((0, 0), (9, 0), "")), None);
    }

    #[test]
    fn rewriting_whole_text_leaves_ranges_as_they_are() {
        assert_eq!(after(&change((0, 0), (9, 0), "other\n")), Some((5, 4, 5, 8)));
    }

    #[test]
    fn whole_text_has_no_edits() {
        assert_eq!(edits(json!({"contentChanges": [{"text": "x"}]}).to_string().as_bytes()), None);
        assert_eq!(edits(b"{}"), None);
    }

    /// The offset of a place in a text of short lines.
    fn offset(text: &str, at: Place) -> usize {
        let begins: usize = text.split_inclusive('\n').take(at.line as usize).map(str::len).sum();
        begins + at.character as usize
    }

    fn place_of(text: &str, offset: usize) -> Place {
        let before = &text[..offset];
        let line = before.matches('\n').count();
        let character = offset - before.rfind('\n').map_or(0, |it| it + 1);
        Place { line: u32::try_from(line).unwrap(), character: u32::try_from(character).unwrap() }
    }

    proptest! {
        /// A range that an edit does not touch has the same text afterwards.
        #[test]
        fn untouched_range_keeps_its_text(
            text in "[a-z\n]{0,40}", new in "[A-Z\n]{0,6}", cuts in prop::array::uniform4(any::<prop::sample::Index>()),
        ) {
            let [a, b, s, e] = cuts.map(|it| it.index(text.len() + 1));
            let ((a, b), (s, e)) = ((a.min(b), a.max(b)), (s.min(e), s.max(e)));
            prop_assume!(s < e && (e <= a || b <= s));
            let after = format!("{}{new}{}", &text[..a], &text[b..]);
            let (from, to) = (place_of(&text, a), place_of(&text, b));
            let change = change((from.line, from.character), (to.line, to.character), &new);
            let edit = edits(change.to_string().as_bytes()).unwrap()[0];
            let (start, end) = edit.moved((place_of(&text, s), place_of(&text, e))).unwrap();
            prop_assert_eq!(&after[offset(&after, start)..offset(&after, end)], &text[s..e]);
        }
    }
}
