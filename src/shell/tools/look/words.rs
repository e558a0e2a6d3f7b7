//! Searches files for a word.
//!
//! **A file that cannot be read and may hold the word is not passed over in silence.**

use std::{io::Read as _, path::Path};

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use memchr::memmem::Finder;

use super::{
    super::{search::Until, workspace::Place},
    MOST_LINES, MOST_OF_LINE, content,
};
use crate::core::event::{Unreadable, Word, WordHits, WordMatch};

/// How many matching lines of a file are reported.
const MOST_MATCHES: usize = 1000;

/// The lines of a text that match. Bytes that are no text have none.
pub(super) fn lines_matching(matcher: &RegexMatcher, path: &Path, bytes: &[u8]) -> Option<WordHits> {
    if bytes.contains(&0) {
        return None;
    }
    let mut hits = WordHits { file: path.to_owned(), n_lines: 0, lines: Vec::new() };
    let text = String::from_utf8_lossy(bytes);
    for (number, line) in text.lines().enumerate() {
        if matcher.is_match(line.as_bytes()).unwrap_or(false) {
            hits.n_lines += 1;
            if hits.lines.len() < MOST_MATCHES {
                hits.lines.push((u32::try_from(number).unwrap_or(u32::MAX), String::new()));
            }
        }
    }
    (hits.n_lines > 0).then_some(hits)
}

/// A search for a word.
pub(super) struct WordSearch {
    finder: Finder<'static>,
    matching: WordMatch,
}

impl WordSearch {
    pub(super) fn new(word: &Word) -> WordSearch {
        let text = match word.matching {
            WordMatch::Whole | WordMatch::Any => word.text.clone(),
            WordMatch::Part => word.text.to_lowercase(),
        };
        WordSearch { finder: Finder::new(text.as_bytes()).into_owned(), matching: word.matching }
    }

    /// Searches a file. Fails if its text cannot be read and it may hold the word.
    pub(super) fn file(
        &self,
        path: &Path,
        place: &Place,
        until: &Until<'_>,
    ) -> Result<Option<WordHits>, Unreadable> {
        match content(place) {
            Ok(bytes) if self.may_hold_unread(&bytes) => Err(Unreadable::Binary),
            Ok(bytes) => Ok(self.hits(path, &bytes)),
            Err(Unreadable::Large) if !self.is_in_large(place, until) => Ok(None),
            Err(Unreadable::Missing | Unreadable::Outside | Unreadable::Folder) => Ok(None),
            Err(why @ (Unreadable::Large | Unreadable::Denied | Unreadable::Binary)) => Err(why),
        }
    }

    /// Whether bytes that are not UTF-8 may hold the word for a reader who knows their encoding.
    fn may_hold_unread(&self, bytes: &[u8]) -> bool {
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            let is_little = bytes[0] == 0xff;
            let units = bytes.chunks_exact(2).map(|it| match is_little {
                true => u16::from_le_bytes([it[0], it[1]]),
                false => u16::from_be_bytes([it[0], it[1]]),
            });
            let text: String = char::decode_utf16(units).map(|it| it.unwrap_or('\u{fffd}')).collect();
            return self.is_in(text.as_bytes());
        }
        if bytes.contains(&0) {
            return self.is_in(bytes);
        }
        // A file in another encoding holds the other letters under other bytes.
        !self.finder.needle().is_ascii() && std::str::from_utf8(bytes).is_err()
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        match self.matching {
            WordMatch::Part => self.finder.find(&bytes.to_ascii_lowercase()).is_some(),
            WordMatch::Whole | WordMatch::Any => self.finder.find(bytes).is_some(),
        }
    }

    /// Whether a file that is too large to be read holds the bytes of the word, or that is not known.
    fn is_in_large(&self, place: &Place, until: &Until<'_>) -> bool {
        let Ok((mut file, _)) = place.open_plain() else { return true };
        let overlap = self.finder.needle().len().saturating_sub(1);
        let (mut buffer, mut kept) = (vec![0; (1 << 20) + overlap], 0);
        while until.check().is_ok() {
            let end = match file.read(&mut buffer[kept..]) {
                Ok(0) => return false,
                Ok(n) => kept + n,
                Err(_) => return true,
            };
            if self.is_in(&buffer[..end]) {
                return true;
            }
            kept = end.min(overlap);
            buffer.copy_within(end - kept..end, 0);
        }
        true
    }

    pub(super) fn hits(&self, path: &Path, bytes: &[u8]) -> Option<WordHits> {
        let is_quick = self.matching == WordMatch::Whole;
        if bytes.contains(&0) || is_quick && self.finder.find(bytes).is_none() {
            return None;
        }
        let text = String::from_utf8_lossy(bytes);
        let holds = |line: &&str| match self.matching {
            WordMatch::Whole => self.is_word_in(line),
            WordMatch::Part => self.finder.find(line.to_lowercase().as_bytes()).is_some(),
            WordMatch::Any => true,
        };
        let mut hits = WordHits { file: path.to_owned(), n_lines: 0, lines: Vec::new() };
        for (number, line) in text.lines().enumerate().filter(|(_, line)| holds(line)) {
            hits.n_lines += 1;
            if hits.lines.len() < MOST_LINES {
                let end = line.floor_char_boundary(MOST_OF_LINE);
                hits.lines.push((u32::try_from(number).unwrap_or(u32::MAX), line[..end].to_owned()));
            }
        }
        (hits.n_lines > 0).then_some(hits)
    }

    fn is_word_in(&self, line: &str) -> bool {
        let is_part = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
        let length = self.finder.needle().len();
        let stands = |at: usize| {
            !is_part(line[..at].chars().next_back()) && !is_part(line[at + length..].chars().next())
        };
        self.finder.find_iter(line.as_bytes()).any(stands)
    }
}
