//! How much is answered: the beginning of a text, or the beginning and the end of what a command writes.

use std::collections::VecDeque;

/// The text, or as much of its beginning as may be answered, and a word on that.
pub fn cut(mut text: String, most: usize, more: &str) -> String {
    if text.len() <= most {
        return text;
    }
    let end = text.floor_char_boundary(most);
    // Rather whole lines.
    let end = text[..end].rfind('\n').map_or(end, |it| it + 1);
    text.truncate(end);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
    text
}

/// What is kept of a stream: its first and its last bytes.
#[derive(Debug)]
pub struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    most_head: usize,
    most_tail: usize,
    total: u64,
}

impl Kept {
    /// Keeps so many bytes: a quarter of them from the beginning. What matters is mostly at the end.
    pub fn new(most: usize) -> Kept {
        let most_head = most / 4;
        Kept { head: Vec::new(), tail: VecDeque::new(), most_head, most_tail: most - most_head, total: 0 }
    }

    /// How many bytes there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What was written next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.most_head - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.most_tail)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.most_tail);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// As text. What is no text is marked in it.
    pub fn text(&self) -> String {
        let (first, second) = self.tail.as_slices();
        let kept = (self.head.len() + self.tail.len()) as u64;
        if kept == self.total {
            return String::from_utf8_lossy(&[&self.head, first, second].concat()).into_owned();
        }
        let tail = [first, second].concat();
        // A character that was cut in two says nothing.
        let start = tail.iter().take(3).take_while(|it| **it & 0xc0 == 0x80).count();
        let whole = String::from_utf8_lossy(&self.head);
        let (head, tail) = (whole.trim_end_matches('\u{fffd}'), String::from_utf8_lossy(&tail[start..]));
        format!("{head}\n[… {} bytes left out …]\n{tail}", self.total - kept)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn what_is_too_long_is_cut_at_a_line() {
        assert_eq!(cut("abc".to_owned(), 3, "more"), "abc");
        assert_eq!(cut("ab\ncd\nef".to_owned(), 7, "more"), "ab\ncd\nmore");
        assert_eq!(cut("aäöü".to_owned(), 4, "more"), "aä\nmore");
        assert_eq!(cut("ä".to_owned(), 1, "more"), "more");
    }

    #[test]
    fn the_middle_is_left_out() {
        let mut it = Kept::new(8);
        it.push(b"0123456789abcdef");
        assert_eq!(it.text(), "01\n[… 8 bytes left out …]\nabcdef");
    }

    proptest! {
        /// However it comes, the same is kept, and never more than may be.
        #[test]
        fn what_is_kept_does_not_depend_on_the_pieces(
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
            if all.len() <= most {
                prop_assert_eq!(one.text(), String::from_utf8_lossy(&all));
            } else {
                let tail: Vec<u8> = one.tail.iter().copied().collect();
                prop_assert!(all.starts_with(&one.head) && all.ends_with(&tail));
            }
        }

        #[test]
        fn what_is_cut_is_a_beginning(text in "[a-zä\n]{0,40}", most in 0..40_usize) {
            let it = cut(text.clone(), most, "…");
            if it != text {
                let kept = it.strip_suffix('…').unwrap();
                prop_assert!(kept.len() <= most + 1 && text.starts_with(kept.trim_end_matches('\n')));
            }
        }
    }
}
