//! Texts by line and character, as the Language Server Protocol counts them: in UTF-16 units, from 0.

use std::sync::Arc;

use serde_json::{Value, json};

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 0.
    pub line: u32,
    /// UTF-16 units before it in the line.
    pub character: u32,
}

impl Position {
    /// Reads a position of the protocol.
    pub fn read(value: &Value) -> Option<Position> {
        let number = |key: &str| value[key].as_u64().and_then(|it| u32::try_from(it).ok());
        Some(Position { line: number("line")?, character: number("character")? })
    }

    /// The position as the protocol writes it.
    pub fn value(self) -> Value {
        json!({"line": self.line, "character": self.character})
    }
}

/// Two places in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The first.
    pub start: Position,
    /// The one after the last.
    pub end: Position,
}

impl Range {
    /// Reads a range of the protocol.
    pub fn read(value: &Value) -> Option<Range> {
        Some(Range { start: Position::read(&value["start"])?, end: Position::read(&value["end"])? })
    }

    /// Whether a place is in it, or at its end.
    pub fn holds(&self, place: Position) -> bool {
        self.start <= place && place <= self.end
    }
}

/// A text with its lines.
#[derive(Clone, Debug)]
pub struct Text {
    text: Arc<str>,
    /// Where each line begins and ends, without its line end.
    lines: Vec<(usize, usize)>,
}

impl Text {
    /// Splits a text into lines. A line ends with `\n`, `\r\n` or `\r`.
    pub fn new(text: impl Into<Arc<str>>) -> Text {
        let text = text.into();
        let bytes = text.as_bytes();
        let (mut lines, mut start, mut at) = (Vec::new(), 0, 0);
        while at < bytes.len() {
            let length = match (bytes[at], bytes.get(at + 1)) {
                (b'\r', Some(b'\n')) => 2,
                (b'\n' | b'\r', _) => 1,
                _ => 0,
            };
            if length > 0 {
                lines.push((start, at));
                start = at + length;
            }
            at += length.max(1);
        }
        lines.push((start, bytes.len()));
        Text { text, lines }
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The whole text, shared.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// How many lines there are. A text that ends with a line end has an empty last line.
    pub fn n_lines(&self) -> u32 {
        u32::try_from(self.lines.len()).unwrap_or(u32::MAX)
    }

    /// A line without its end; empty if there is none.
    pub fn line(&self, line: u32) -> &str {
        self.lines.get(line as usize).map_or("", |(start, end)| &self.text[*start..*end])
    }

    /// The byte of the whole text at which a line begins.
    pub(super) fn start_of(&self, line: u32) -> Option<usize> {
        self.lines.get(line as usize).map(|(start, _)| *start)
    }

    /// All lines with their ends, without the empty one after the last end.
    pub(super) fn whole_lines(&self) -> Vec<&str> {
        let starts = self.lines.iter().map(|(start, _)| *start);
        let ends = starts.clone().skip(1).chain([self.text.len()]);
        starts.zip(ends).map(|(start, end)| &self.text[start..end]).filter(|it| !it.is_empty()).collect()
    }

    /// The lines of a range, whole.
    pub fn lines_of(&self, first: u32, last: u32) -> String {
        (first..=last.min(self.n_lines().saturating_sub(1)))
            .map(|it| self.line(it))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The place of a character of a line, counted in characters from 0. Past the end, it is the end.
    pub fn place(&self, line: u32, character: u32) -> Position {
        let units = self.line(line).chars().take(character as usize).map(char::len_utf16).sum::<usize>();
        Position { line, character: u32::try_from(units).unwrap_or(u32::MAX) }
    }

    /// The number of characters before a place in its line.
    pub fn characters(&self, place: Position) -> u32 {
        let mut units = 0;
        let before = self.line(place.line).chars().take_while(|it| {
            units += u32::try_from(it.len_utf16()).unwrap_or(2);
            units <= place.character
        });
        u32::try_from(before.count()).unwrap_or(u32::MAX)
    }

    /// The byte in its line at which a place is.
    fn byte(&self, place: Position) -> usize {
        let characters = self.characters(place) as usize;
        let line = self.line(place.line);
        line.char_indices().nth(characters).map_or(line.len(), |(at, _)| at)
    }

    fn place_of_byte(&self, line: u32, byte: usize) -> Position {
        let units: usize = self.line(line)[..byte].chars().map(char::len_utf16).sum();
        Position { line, character: u32::try_from(units).unwrap_or(u32::MAX) }
    }

    /// The word at a place, or that touches it, or is at most two characters away in the same line.
    pub fn word_at(&self, place: Position) -> Option<(Position, &str)> {
        let line = self.line(place.line);
        let at = self.byte(place);
        let words = words(line);
        let distance = |(start, end): &(usize, usize)| {
            let apart = |from: usize, to: usize| line[from..to].chars().count();
            if at < *start {
                apart(at, *start)
            } else if at > *end {
                apart(*end, at)
            } else {
                0
            }
        };
        // Between two words, the one that begins there.
        let near = words.iter().rev().min_by_key(|it| distance(it)).filter(|it| distance(it) <= 2)?;
        Some((self.place_of_byte(place.line, near.0), &line[near.0..near.1]))
    }

    /// Where a word stands in a line, the first time at or after a byte.
    pub fn find_word(&self, line: u32, word: &str, from: usize) -> Option<Position> {
        let text = self.line(line);
        let found =
            words(text).into_iter().find(|(start, end)| *start >= from && &text[*start..*end] == word);
        // A name need not be a word: `operator+`, `#private`.
        let start = found.map(|it| it.0).or_else(|| {
            let is_plain = is_word(word);
            text.get(from..).filter(|_| !is_plain).and_then(|it| it.find(word)).map(|it| it + from)
        })?;
        Some(self.place_of_byte(line, start))
    }

    /// The lines that hold a piece of text, with the byte at which it begins.
    pub fn lines_with(&self, piece: &str) -> Vec<(u32, usize)> {
        (0..self.n_lines()).filter_map(|it| self.line(it).find(piece).map(|at| (it, at))).collect()
    }

    /// The text of a range within one line.
    pub fn slice(&self, range: Range) -> &str {
        if range.start.line != range.end.line {
            return "";
        }
        let (start, end) = (self.byte(range.start), self.byte(range.end));
        self.line(range.start.line).get(start..end).unwrap_or_default()
    }
}

fn is_part(it: char) -> bool {
    it.is_alphanumeric() || it == '_' || it == '$'
}

/// Whether a text is one word.
pub fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_part)
}

/// The words of a line, as byte ranges.
fn words(line: &str) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut start = None;
    for (at, it) in line.char_indices().chain([(line.len(), ' ')]) {
        match (start, is_part(it)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                all.push((from, at));
                start = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_end_in_three_ways() {
        let text = Text::new("a\r\nb\rc\n");
        assert_eq!((0..text.n_lines()).map(|it| text.line(it)).collect::<Vec<_>>(), ["a", "b", "c", ""]);
        assert_eq!(text.line(9), "");
        assert_eq!(text.lines_of(1, 7), "b\nc\n");
    }

    #[test]
    fn characters_are_not_units() {
        let text = Text::new("\t😀é = pairwise(x)");
        assert_eq!(text.place(0, 2), Position { line: 0, character: 3 });
        assert_eq!(text.characters(Position { line: 0, character: 3 }), 2);
        let (start, word) = text.word_at(text.place(0, 9)).unwrap();
        assert_eq!((start.character, word), (7, "pairwise"));
        assert_eq!(text.find_word(0, "x", 0), Some(Position { line: 0, character: 16 }));
        assert_eq!(text.find_word(0, "pair", 0), None);
        assert_eq!(text.place(0, 99).character, 18);
    }

    #[test]
    fn word_snaps_two_characters_at_most() {
        let text = Text::new("a  = (  b");
        let word = |character| text.word_at(Position { line: 0, character }).map(|it| it.1);
        assert_eq!(
            [word(0), word(1), word(3), word(4), word(6), word(8)],
            [Some("a"), Some("a"), Some("a"), None, Some("b"), Some("b")]
        );
        assert_eq!(Text::new("").word_at(Position::default()), None);
    }

    proptest! {
        #[test]
        fn places_and_characters_agree(text in "[a-zé😀 \\n\\r_.]{0,30}", line in 0_u32..6, character in 0_u32..12) {
            let text = Text::new(text);
            let place = text.place(line, character);
            let length = u32::try_from(text.line(line).chars().count()).unwrap();
            prop_assert_eq!(text.characters(place), character.min(length));
            if let Some((start, word)) = text.word_at(place) {
                prop_assert!(is_word(word));
                prop_assert_eq!(text.find_word(line, word, text.byte(start)), Some(start));
            }
        }
    }
}
