//! A text with efficient changes.
//!
//! Successive changes are close together: one key after another, or all places of a word from the last to the first.
//! So the text has a gap at the last change, and so has the table of its lines, and the last long line has marks:
//! **a change costs the distance from the last one, not the length of the text or of its line**.

use std::ops::Range;

use super::{
    Encoding,
    changes::{Place, Position},
};
use crate::rpc::LooseText;

/// A full gap grows by at least this many bytes, and by an eighth of the text.
const ROOM: usize = 256;

/// A long line has a mark after about this many bytes, again and again.
const STRIDE: usize = if cfg!(test) { 8 } else { 4096 };

/// A place in a line, and how many units are before it in the line.
#[derive(Clone, Copy, Debug)]
struct Mark {
    byte: usize,
    utf8: usize,
    utf16: usize,
    utf32: usize,
}

impl Mark {
    fn past(self, bytes: usize, utf16: usize, utf32: usize) -> Mark {
        Mark {
            byte: self.byte + bytes,
            utf8: self.utf8 + bytes,
            utf16: self.utf16 + utf16,
            utf32: self.utf32 + utf32,
        }
    }

    fn units(self, encoding: Encoding) -> usize {
        match encoding {
            Encoding::Utf8 => self.utf8,
            Encoding::Utf16 => self.utf16,
            Encoding::Utf32 => self.utf32,
        }
    }
}

/// The place of a position.
#[derive(Clone, Copy)]
struct At {
    byte: usize,
    /// The halves of the surrogate pair that starts there, if the position is in the middle of it.
    pair: Option<[u8; 6]>,
}

/// What a change has replaced.
#[derive(Clone, Debug)]
pub(in crate::core::mux) struct Replaced {
    /// The new text, by its bytes.
    range: Range<usize>,
    before: Vec<u8>,
}

impl Replaced {
    /// How many bytes are kept for it.
    pub(in crate::core::mux) fn len(&self) -> usize {
        self.before.len()
    }
}

/// A text with the data for changing it.
#[derive(Clone, Debug)]
pub(in crate::core::mux) struct Edited {
    encoding: Encoding,
    /// The text before the gap, the gap, and the text after it.
    bytes: Vec<u8>,
    gap: Range<usize>,
    /// The starts of the lines before the gap. A line ends with `\n`, `\r\n` or a lone `\r`.
    above: Vec<usize>,
    /// The starts of the other lines, from the last to the first, counted from the end of the text.
    below: Vec<usize>,
    /// The marks of one line in their order, the first one at its start.
    marks: Vec<Mark>,
    #[cfg(test)]
    n_moved: usize,
    #[cfg(test)]
    n_marked: usize,
}

impl Edited {
    pub(in crate::core::mux) fn new(text: Vec<u8>, encoding: Encoding) -> Edited {
        let mut above = vec![0];
        above.extend(line_starts(&text, None));
        Edited {
            encoding,
            gap: text.len()..text.len(),
            bytes: text,
            above,
            below: Vec::new(),
            marks: Vec::new(),
            #[cfg(test)]
            n_moved: 0,
            #[cfg(test)]
            n_marked: 0,
        }
    }

    /// The current text.
    pub(in crate::core::mux) fn finish(self) -> Vec<u8> {
        let Edited { mut bytes, gap, .. } = self;
        bytes.drain(gap);
        bytes
    }

    pub(in crate::core::mux) fn apply(&mut self, place: Place, with: &[u8]) {
        match place {
            None => *self = Edited::new(with.to_owned(), self.encoding),
            Some((one, other)) => {
                let range = self.range(one.min(other), other.max(one));
                self.replace(range, with);
            }
        }
    }

    /// Replaces what is between two positions, so that it can be undone. `None`: one of them cuts a surrogate pair.
    pub(in crate::core::mux) fn change(
        &mut self,
        one: Position,
        other: Position,
        with: &[u8],
    ) -> Option<Replaced> {
        let [start, end] = [one.min(other), other.max(one)].map(|it| self.offset(it));
        if start.pair.or(end.pair).is_some() {
            return None;
        }
        let range = start.byte..end.byte;
        self.seek(range.start);
        let before = self.bytes[self.gap.end..][..range.len()].to_vec();
        self.replace(range.clone(), with);
        Some(Replaced { range: range.start..range.start + with.len(), before })
    }

    /// Undoes a change. Later ones must have been undone.
    pub(in crate::core::mux) fn undo(&mut self, it: &Replaced) {
        self.replace(it.range.clone(), &it.before);
    }

    pub(in crate::core::mux) fn len(&self) -> usize {
        self.bytes.len() - self.gap.len()
    }

    /// The character of a position, counted in another way. Past the end of a line it is that of the end.
    pub(in crate::core::mux) fn recounted(&mut self, at: Position, from: Encoding, to: Encoding) -> u32 {
        let Some(start) = self.start_of(at.line) else { return at.character };
        let mark = self.mark_before(start, at.character as usize, from);
        let rest = self.after(mark.byte);
        let (n, _) = from.prefix(rest, at.character as usize - mark.units(from));
        let units = mark.units(to) + to.units(&rest[..n]);
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// The bytes between two positions in order.
    fn range(&mut self, first: Position, last: Position) -> Range<usize> {
        let start = self.offset(first);
        let end = if first == last { start } else { self.offset(last) };
        for At { byte, pair } in [end, start] {
            if let Some(halves) = pair {
                self.replace(byte..byte + 4, &halves);
                // Only these two positions can be within a pair.
                return self.range(first, last);
            }
        }
        start.byte..end.byte
    }

    /// The start of a line, if it exists.
    fn start_of(&self, line: u32) -> Option<usize> {
        let line = line as usize;
        let Some(behind) = line.checked_sub(self.above.len()) else { return Some(self.above[line]) };
        let index = self.below.len().checked_sub(behind + 1)?;
        Some(self.len() - self.below[index])
    }

    /// The byte at a position. A position past the end of a line means the end of the line, and past the last line the
    /// end of the text.
    fn offset(&mut self, position: Position) -> At {
        let Some(start) = self.start_of(position.line) else { return At { byte: self.len(), pair: None } };
        let encoding = self.encoding;
        let mark = self.mark_before(start, position.character as usize, encoding);
        let rest = self.after(mark.byte);
        let (n, left) = encoding.prefix(rest, position.character as usize - mark.units(encoding));
        let is_within = left == 1 && encoding == Encoding::Utf16;
        let next = if is_within { rest[n..].first_chunk() } else { None };
        At { byte: mark.byte + n, pair: next.and_then(|it| LooseText::halves(*it)) }
    }

    /// The last mark that is not behind a character of a line.
    fn mark_before(&mut self, start: usize, character: usize, encoding: Encoding) -> Mark {
        let first = Mark { byte: start, utf8: 0, utf16: 0, utf32: 0 };
        if character < STRIDE {
            return first;
        }
        if self.marks.first().is_none_or(|it| it.byte != start) {
            self.marks = vec![first];
        }
        while let Some(last) = self.marks.last().copied().filter(|it| it.units(encoding) <= character) {
            let rest = self.after(last.byte);
            let line = &rest[..rest.len().min(STRIDE + 4)];
            let line = memchr::memchr2(b'\n', b'\r', line).map_or(line, |end| &line[..end]);
            let mut next = last;
            if line.get(..STRIDE).is_some_and(<[u8]>::is_ascii) {
                next = last.past(STRIDE, STRIDE, STRIDE);
            }
            // The character at the end may be cut.
            while next.byte - last.byte < STRIDE && line.len() - (next.byte - last.byte) > 4 {
                let (bytes, utf16) = first_character(&line[next.byte - last.byte..]);
                next = next.past(bytes, utf16, 1);
            }
            if next.byte == last.byte {
                break;
            }
            #[cfg(test)]
            {
                self.n_marked += next.byte - last.byte;
            }
            self.marks.push(next);
        }
        let n = self.marks.partition_point(|it| it.units(encoding) <= character);
        self.marks[n - 1]
    }

    /// The text from a byte on.
    fn after(&mut self, byte: usize) -> &[u8] {
        if byte < self.gap.start {
            self.seek(byte);
        }
        &self.bytes[byte + self.gap.len()..]
    }

    /// Moves the gap.
    fn seek(&mut self, to: usize) {
        let (Range { start, end }, len) = (self.gap.clone(), self.len());
        if to < start {
            let n = start - to;
            self.slide(to..start, end - n);
            self.gap = to..end - n;
            while let Some(line) = self.above.pop_if(|it| *it > to) {
                self.below.push(len - line);
            }
        } else {
            let n = to - start;
            self.slide(end..end + n, start);
            self.gap = to..end + n;
            while let Some(line) = self.below.pop_if(|it| len - *it <= to) {
                self.above.push(len - line);
            }
        }
    }

    /// Moves bytes across the gap, or to enlarge it.
    fn slide(&mut self, from: Range<usize>, to: usize) {
        if from.start == to {
            return;
        }
        #[cfg(test)]
        {
            self.n_moved += from.len();
        }
        self.bytes.copy_within(from, to);
    }

    fn replace(&mut self, range: Range<usize>, with: &[u8]) {
        // What comes before a change may be read as another character with it.
        let is_near = |it: &Mark| it.byte + 4 > range.start;
        if self.marks.first().is_some_and(is_near) {
            self.marks.clear();
        }
        while self.marks.pop_if(|it| is_near(it)).is_some() {}
        self.seek(range.start);
        let tail = self.len() - range.end;
        while self.below.pop_if(|it| *it >= tail).is_some() {}
        // A new `\n` after a `\r` removes a line start. The first line always starts.
        self.above.pop_if(|it| *it == range.start && *it > 0);
        self.gap.end += range.len();
        self.make_room(with.len());
        self.bytes[self.gap.start..][..with.len()].copy_from_slice(with);
        self.gap.start += with.len();

        let next = self.bytes.get(self.gap.end).copied();
        let starts_here = match range.start.checked_sub(1).map(|it| self.bytes[it]) {
            Some(b'\n') => true,
            Some(b'\r') => with.first().copied().or(next) != Some(b'\n'),
            Some(_) | None => false,
        };
        self.above.extend(starts_here.then_some(range.start));
        self.above.extend(line_starts(with, next).map(|it| range.start + it));
    }

    fn make_room(&mut self, n: usize) {
        if n <= self.gap.len() {
            return;
        }
        let (behind, more) = (self.gap.end..self.bytes.len(), n + ROOM.max(self.len() / 8));
        self.bytes.resize(self.bytes.len() + more, 0);
        self.slide(behind, self.gap.end + more);
        self.gap.end += more;
    }
}

impl Encoding {
    /// The units of a character.
    fn width(self, bytes: usize, utf16: usize) -> usize {
        match self {
            Encoding::Utf8 => bytes,
            Encoding::Utf16 => utf16,
            Encoding::Utf32 => 1,
        }
    }

    /// How many units a part of a line has.
    fn units(self, mut text: &[u8]) -> usize {
        let mut units = 0;
        while !text.is_empty() {
            let (bytes, utf16) = first_character(text);
            units += self.width(bytes, utf16);
            text = &text[bytes..];
        }
        units
    }

    /// How many bytes the first `units` units of a line take (all of them if it has less), and how many units are
    /// missing or cut.
    fn prefix(self, text: &[u8], units: usize) -> (usize, usize) {
        /// The size of a block to test, in bytes.
        const ASCII: usize = 64;
        // No unit is longer than 4 bytes, so the rest of the line need not be read.
        let reach = &text[..text.len().min(units.saturating_mul(4))];
        let line = memchr::memchr2(b'\n', b'\r', reach).map_or(reach, |end| &reach[..end]);
        let (mut at, mut left) = (0, units);
        loop {
            while left >= ASCII && line.get(at..at + ASCII).is_some_and(<[u8]>::is_ascii) {
                (at, left) = (at + ASCII, left - ASCII);
            }
            if at == line.len() {
                return (at, left);
            }
            let (bytes, utf16) = first_character(&line[at..]);
            let width = self.width(bytes, utf16);
            if left < width {
                return (at, left);
            }
            (at, left) = (at + bytes, left - width);
        }
    }
}

/// How many bytes the first character takes, and how many units of UTF-16.
fn first_character(text: &[u8]) -> (usize, usize) {
    let (bytes, utf16) = match text[0] {
        0..0xC0 => (1, 1),
        0xC0..0xE0 => (2, 1),
        0xE0..0xF0 => (3, 1),
        0xF0.. => (4, 2),
    };
    // A byte that is not UTF-8 counts as one character.
    let rest = text.get(1..bytes).unwrap_or_default();
    let is_text = rest.len() + 1 == bytes && rest.iter().all(|it| it & 0xC0 == 0x80);
    if is_text { (bytes, utf16) } else { (1, 1) }
}

/// The starts of lines after line ends in a text that `next` follows.
fn line_starts(text: &[u8], next: Option<u8>) -> impl Iterator<Item = usize> {
    let ends = memchr::memchr2_iter(b'\n', b'\r', text);
    // The `\n` of a `\r\n` ends the line.
    let is_end = move |at: &usize| text[*at] == b'\n' || text.get(at + 1).copied().or(next) != Some(b'\n');
    ends.filter(is_end).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    #[test]
    fn many_changes_move_less_than_ten_text_lengths() {
        const LINES: u32 = 10_000;
        let replace_all = |lines: &mut dyn Iterator<Item = u32>| {
            let mut text =
                Edited::new("let old = old;\n".repeat(LINES as usize).into_bytes(), Encoding::Utf16);
            let length = text.len();
            for line in lines {
                // Some editors send the last change first.
                text.apply(Some((at(line, 10), at(line, 13))), b"renewed");
                text.apply(Some((at(line, 4), at(line, 7))), b"renewed");
            }
            let n_moved = text.n_moved;
            assert_eq!(text.finish(), "let renewed = renewed;\n".repeat(LINES as usize).into_bytes());
            assert!(n_moved < 10 * length, "{n_moved} bytes were moved, of {length}");
        };
        replace_all(&mut (0..LINES));
        replace_all(&mut (0..LINES).rev());
    }

    #[test]
    fn many_changes_in_one_line_read_and_move_less_than_twenty_text_lengths() {
        const WORDS: u32 = 10_000;
        let replace_all = |words: &mut dyn Iterator<Item = u32>, width: u32| {
            let mut text = Edited::new("é old;".repeat(WORDS as usize).into_bytes(), Encoding::Utf16);
            let length = text.len();
            for word in words {
                text.apply(Some((at(0, word * width + 2), at(0, word * width + 5))), b"renewed");
            }
            let n = text.n_moved + text.n_marked;
            assert_eq!(text.finish(), "é renewed;".repeat(WORDS as usize).into_bytes());
            assert!(n < 20 * length, "{n} bytes were read or moved, of {length}");
        };
        replace_all(&mut (0..WORDS), 10);
        replace_all(&mut (0..WORDS).rev(), 6);
    }

    /// The character of a position, counted from the start of its line.
    fn counted(text: &[u8], at: Position, from: Encoding, to: Encoding) -> u32 {
        let Some(start) = Edited::new(text.to_vec(), from).start_of(at.line) else { return at.character };
        let (n, _) = from.prefix(&text[start..], at.character as usize);
        u32::try_from(to.units(&text[start..start + n])).unwrap()
    }

    proptest! {
        /// `�` becomes a byte that is not UTF-8, and the first one of two bytes of a character.
        #[test]
        fn characters_are_counted_as_from_the_start_of_the_line(
            text in "[aé😀�\n]{0,60}",
            changes in prop::collection::vec((0..2_u32, 0..40_u32, 0..2_u32, 0..40_u32, "[bè🦀�\r\n]{0,9}"), 1..6),
        ) {
            let loose = |text: &str| {
                let parts: Vec<&[u8]> = text.split('�').map(str::as_bytes).collect();
                parts.join(&b"\xc3"[..])
            };
            let encodings = [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32];
            let mut text = Edited::new(loose(&text), Encoding::Utf16);
            for (line, character, last_line, last_character, with) in changes {
                text.apply(Some((at(line, character), at(last_line, last_character))), &loose(&with));
                let now = text.clone().finish();
                for character in [60, 0, 30, 9, 44, 17] {
                    for (from, to) in encodings.into_iter().flat_map(|from| encodings.map(|to| (from, to))) {
                        let place = at(line, character);
                        prop_assert_eq!(text.recounted(place, from, to), counted(&now, place, from, to));
                    }
                }
            }
        }

        #[test]
        fn line_table_matches_fresh_one_after_changes(
            text in "[ab\r\n]{0,20}",
            changes in prop::collection::vec((0..6_u32, 0..6_u32, 0..6_u32, 0..6_u32, "[ab\r\n]{0,4}"), 1..12),
        ) {
            let mut text = Edited::new(text.into_bytes(), Encoding::Utf16);
            for (line, character, last_line, last_character, with) in changes {
                text.apply(Some((at(line, character), at(last_line, last_character))), with.as_bytes());
                let starts: Vec<usize> = (0..).map_while(|line| text.start_of(line)).collect();
                let fresh = Edited::new(text.clone().finish(), Encoding::Utf16);
                prop_assert_eq!(starts, fresh.above);
            }
        }
    }
}
