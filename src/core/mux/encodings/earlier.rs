//! What the documents of a process were before its last messages about them.
//!
//! A server answers with places in the text that it knew then. So the last changes can be undone, **as far back as a
//! number and a size allow**; beyond that, the oldest text that is known stands in.

use std::collections::VecDeque;

use crate::core::mux::session::documents::{Edited, Replaced};

/// How many changes are kept.
const CHANGES: usize = 4096;

/// How many bytes of replaced text are kept.
const BYTES: usize = 16 << 20;

/// How much one entry counts beside its text.
const ENTRY: usize = 128;

/// The changes of all documents, in the order in which lspool sent them to the process.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// How many were forgotten.
    n_forgotten: u64,
    all: VecDeque<Before>,
    bytes: usize,
}

/// A document before a change.
#[derive(Debug)]
struct Before {
    key: String,
    version: Option<u32>,
    was: Previous,
}

/// How to get the text from the one after it.
#[derive(Debug)]
pub(super) enum Previous {
    Text(Edited),
    Changed(Replaced),
}

impl Previous {
    fn len(&self) -> usize {
        ENTRY
            + match self {
                Previous::Text(it) => it.len(),
                Previous::Changed(it) => it.len(),
            }
    }
}

impl Earlier {
    /// How many changes there have been.
    pub(super) fn n(&self) -> u64 {
        self.n_forgotten + self.all.len() as u64
    }

    /// A document changes, or is closed.
    pub(super) fn note(&mut self, key: String, version: Option<u32>, was: Previous) {
        self.bytes += was.len();
        self.all.push_back(Before { key, version, was });
        while self.all.len() > CHANGES || self.bytes > BYTES {
            let Some(it) = self.all.pop_front() else { return };
            self.bytes -= it.was.len();
            self.n_forgotten += 1;
        }
    }

    /// How many changes there had been when a document last had this version. `None`: it is not known.
    pub(super) fn when(&self, key: &str, version: u32) -> Option<u64> {
        let at = self.all.iter().rposition(|it| it.key == key && it.version == Some(version))?;
        Some(self.n_forgotten + at as u64)
    }

    /// The text of a document after the first `n` changes. `None`: no kept change concerns it.
    pub(super) fn text(&self, key: &str, n: u64, now: Option<&Edited>) -> Option<Edited> {
        let n = usize::try_from(n.saturating_sub(self.n_forgotten)).unwrap_or(usize::MAX);
        let since: Vec<&Previous> =
            self.all.iter().skip(n).filter(|it| it.key == key).map(|it| &it.was).collect();
        let first = since.iter().position(|it| matches!(it, Previous::Text(_)));
        let mut text = match first.map(|it| since[it]) {
            Some(Previous::Text(text)) => text.clone(),
            Some(Previous::Changed(_)) | None if since.is_empty() => return None,
            Some(Previous::Changed(_)) | None => now?.clone(),
        };
        for was in since[..first.unwrap_or(since.len())].iter().rev() {
            if let Previous::Changed(it) = was {
                text.undo(it);
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::mux::session::documents::{Encoding, Position};

    fn edited(text: &str) -> Edited {
        Edited::new(text.as_bytes().to_vec(), Encoding::Utf16)
    }

    proptest! {
        /// Any text since a document was opened can be had again.
        #[test]
        fn every_earlier_text_is_known(
            first in "[aé😀\n]{0,8}",
            steps in prop::collection::vec((prop::bool::weighted(0.2), 0..4_u32, 0..6_u32, 0..4_u32, 0..6_u32, "[bè🦀\r\n]{0,4}"), 0..12),
        ) {
            let (mut earlier, mut now) = (Earlier::default(), edited(&first));
            let mut texts = vec![first.into_bytes()];
            for (is_whole, line, character, last_line, last_character, with) in steps {
                let version = u32::try_from(texts.len()).ok();
                let [from, to] = [(line, character), (last_line, last_character)]
                    .map(|(line, character)| Position { line, character });
                let changed = if is_whole { None } else { now.change(from, to, with.as_bytes()) };
                let was = match changed {
                    Some(it) => Previous::Changed(it),
                    None => Previous::Text(std::mem::replace(&mut now, edited(&with))),
                };
                earlier.note("u".to_owned(), version, was);
                earlier.note("other".to_owned(), version, Previous::Text(edited("x")));
                texts.push(now.clone().finish());
            }
            for (index, text) in texts.iter().enumerate() {
                let n = 2 * index as u64;
                let found = earlier.text("u", n, Some(&now));
                prop_assert_eq!(&found.unwrap_or_else(|| now.clone()).finish(), text);
                let version = u32::try_from(index + 1).unwrap();
                prop_assert_eq!(earlier.when("u", version), (index + 1 < texts.len()).then_some(n));
            }
            prop_assert!(earlier.text("unknown", 0, None).is_none());
        }
    }

    #[test]
    fn texts_are_kept_up_to_a_number_and_a_size() {
        let mut earlier = Earlier::default();
        for n in 0..5 {
            earlier.note("u".to_owned(), Some(n), Previous::Text(edited(&"x".repeat(BYTES / 4))));
        }
        assert!(earlier.bytes <= BYTES && earlier.n() == 5);
        assert_eq!((earlier.when("u", 0), earlier.when("u", 4)), (None, Some(4)));
        assert!(earlier.text("u", 0, None).is_some(), "the oldest one stands in");
        for n in 0..10_000 {
            earlier.note("v".to_owned(), Some(n), Previous::Text(edited("")));
        }
        assert!(earlier.all.len() <= CHANGES && earlier.n() == 10_005);
    }
}
