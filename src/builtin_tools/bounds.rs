//! Limits results: the beginning of a text, or the beginning and the end of a command's output.

use std::collections::VecDeque;

/// The text, cut to the limit with a note.
pub fn cut(mut text: String, most: usize, more: &str) -> String {
    if text.len() <= most {
        return text;
    }
    let end = text.floor_char_boundary(most);
    // Prefers whole lines.
    let end = text[..end].rfind('\n').map_or(end, |it| it + 1);
    text.truncate(end);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
    text
}

/// The kept part of a stream: its first and its last bytes.
#[derive(Debug)]
pub struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    most_head: usize,
    most_tail: usize,
    total: u64,
}

impl Kept {
    /// Keeps this many bytes, a quarter of them from the beginning. The end matters most.
    pub fn new(most: usize) -> Kept {
        let most_head = most / 4;
        Kept { head: Vec::new(), tail: VecDeque::new(), most_head, most_tail: most - most_head, total: 0 }
    }

    /// The number of bytes in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds output.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.most_head - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.most_tail)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.most_tail);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// The kept output as text, with invalid bytes marked.
    pub fn text(&self) -> String {
        let (first, second) = self.tail.as_slices();
        let kept = (self.head.len() + self.tail.len()) as u64;
        if kept == self.total {
            let bytes = [&self.head, first, second].concat();
            let text = String::from_utf8_lossy(&bytes);
            // An invalid byte takes three bytes in the text.
            if text.len() <= self.most_head + self.most_tail {
                return text.into_owned();
            }
        }
        let tail = [first, second].concat();
        // Half a character is left out.
        let start = tail.iter().take(3).take_while(|it| **it & 0xc0 == 0x80).count();
        let tail = &tail[start..];
        let (head, n_head) = beginning(&self.head, self.most_head);
        let text = String::from_utf8_lossy(tail);
        let from = text.ceil_char_boundary(text.len().saturating_sub(self.most_tail));
        let (_, n_more) = beginning(tail, from);
        let n_left_out = self.total - kept + (self.head.len() - n_head + n_more) as u64;
        format!("{}\n[… {n_left_out} bytes left out …]\n{}", head.trim_end_matches('\u{fffd}'), &text[from..])
    }
}

/// The text of the first bytes, and their number.
fn beginning(bytes: &[u8], most: usize) -> (String, usize) {
    let (mut text, mut n) = (String::new(), 0);
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        let end = valid.floor_char_boundary(most - text.len());
        text.push_str(&valid[..end]);
        n += end;
        let has_room = end == valid.len() && text.len() + char::REPLACEMENT_CHARACTER.len_utf8() <= most;
        if chunk.invalid().is_empty() || !has_room {
            return (text, n);
        }
        text.push(char::REPLACEMENT_CHARACTER);
        n += chunk.invalid().len();
    }
    (text, n)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn cut_shortens_text_at_line_end() {
        assert_eq!(cut("abc".to_owned(), 3, "more"), "abc");
        assert_eq!(cut("ab\ncd\nef".to_owned(), 7, "more"), "ab\ncd\nmore");
        assert_eq!(cut("aäöü".to_owned(), 4, "more"), "aä\nmore");
        assert_eq!(cut("ä".to_owned(), 1, "more"), "more");
    }

    #[test]
    fn kept_output_omits_the_middle() {
        let mut it = Kept::new(8);
        it.push(b"0123456789abcdef");
        assert_eq!(it.text(), "01\n[… 8 bytes left out …]\nabcdef");
    }

    #[test]
    fn kept_output_stays_within_limit_for_invalid_utf8() {
        let mut it = Kept::new(8);
        it.push(b"\xff\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(it.text(), "\n[… 6 bytes left out …]\n\u{fffd}\u{fffd}");
    }

    proptest! {
        /// For any chunks, the kept part is the same, and within the limit.
        #[test]
        fn kept_output_does_not_depend_on_pieces(
            pieces in vec(vec(any::<u8>(), 0..20), 0..10),
            most in 1..40_usize,
        ) {
            let all: Vec<u8> = pieces.concat();
            let (mut one, mut other) = (Kept::new(most), Kept::new(most));
            one.push(&all);
            for it in &pieces {
                other.push(it);
            }
            prop_assert_eq!(one.text(), other.text());
            prop_assert_eq!(one.total(), all.len() as u64);
            prop_assert!(one.head.len() + one.tail.len() <= most);
            prop_assert!(one.text().len() <= most + "\n[… 999 bytes left out …]\n".len());
            if String::from_utf8_lossy(&all).len() <= most {
                prop_assert_eq!(one.text(), String::from_utf8_lossy(&all));
            } else if all.len() > most {
                let tail: Vec<u8> = one.tail.iter().copied().collect();
                prop_assert!(all.starts_with(&one.head) && all.ends_with(&tail));
            }
        }

        #[test]
        fn cut_returns_a_prefix(text in "[a-zä\n]{0,40}", most in 0..40_usize) {
            let it = cut(text.clone(), most, "…");
            if it != text {
                let kept = it.strip_suffix('…').unwrap();
                prop_assert!(kept.len() <= most + 1 && text.starts_with(kept.trim_end_matches('\n')));
            }
        }
    }
}
