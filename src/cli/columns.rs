//! Texts in columns of a terminal: measures, cuts, pads, and wraps them.
//!
//! A wide character takes two columns, so nothing here counts characters.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The number of columns of the text.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// The text, cut to the columns with an ellipsis.
pub(super) fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    let mut cut = prefix(text, room).to_owned();
    cut.push('…');
    cut
}

/// The text, padded with blanks to the columns.
pub(super) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Wraps the text between words. `indent` begins each line of a paragraph but the first. A word that is longer than a
/// line is broken.
pub(super) fn wrap(text: &str, columns: usize, indent: &str) -> Vec<String> {
    let columns = columns.max(width(indent) + 8);
    text.lines().flat_map(|line| wrap_line(line.trim_end(), columns, indent)).collect()
}

fn wrap_line(line: &str, columns: usize, indent: &str) -> Vec<String> {
    // The indent of a line stays: lists and code are indented.
    let start = line.len() - line.trim_start().len();
    let mut lines = Vec::new();
    let (mut row, mut is_empty) = (line[..start].to_owned(), true);
    for word in line[start..].split(' ') {
        let mut word = word;
        let gap = usize::from(!is_empty);
        if !is_empty && width(&row) + gap + width(word) > columns {
            lines.push(std::mem::replace(&mut row, indent.to_owned()));
            is_empty = true;
        }
        while is_empty && width(&row) + width(word) > columns {
            let fits = prefix(word, columns.saturating_sub(width(&row)).max(1));
            let fits = if fits.is_empty() { word } else { fits };
            row.push_str(fits);
            word = &word[fits.len()..];
            lines.push(std::mem::replace(&mut row, indent.to_owned()));
        }
        if !is_empty {
            row.push(' ');
        }
        row.push_str(word);
        is_empty = false;
    }
    lines.push(row);
    lines.iter().map(|it| it.trim_end().to_owned()).collect()
}

/// The longest beginning of the text that fits.
fn prefix(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, c)| {
        taken += c.width().unwrap_or(0);
        taken > columns
    });
    end.map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorten_counts_wide_characters_twice() {
        assert_eq!(shorten("コードを書く", 12), "コードを書く");
        assert_eq!(shorten("コードを書く", 8), "コード…");
        assert_eq!(shorten("コードを書く", 7), "コード…");
        assert_eq!(
            (shorten("abc", 2), shorten("abc", 1), shorten("abc", 0)),
            ("a…".into(), "…".into(), String::new())
        );
        assert_eq!(width(&pad("🎉", 5)), 5);
    }

    #[test]
    fn wrap_breaks_between_words() {
        assert_eq!(wrap("a bc def ghij klm", 10, "  "), ["a bc def", "  ghij klm"]);
        assert_eq!(wrap("  - one two three\nnext", 12, "    "), ["  - one two", "    three", "next"]);
        assert_eq!(wrap("/a/very/long/path", 10, "  "), ["/a/very/lo", "  ng/path"]);
        assert_eq!(wrap("a\n\nb", 10, ""), ["a", "", "b"]);
    }

    #[test]
    fn wrapped_lines_fit() {
        for columns in 8..60 {
            for line in wrap("one 二二二 three-and-a-half, 四四四四四四四四四四四四 five", columns, "  ")
            {
                assert!(width(&line) <= columns.max(10), "{columns}: {line}");
            }
        }
    }
}
