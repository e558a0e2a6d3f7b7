//! Edits texts. Keeps the line ends and the byte order mark of the file.

/// A placeholder that models write for omitted text.
const OMISSION: &str = "...existing code...";

const MARK: char = '\u{feff}';

/// Replaces `old` by `new`. `old` must occur exactly once.
pub fn replaced(text: &str, old: &str, new: &str) -> Result<String, String> {
    let (old, new) = match has_windows_ends(text) {
        true => (with_windows_ends(old), with_windows_ends(new)),
        false => (old.to_owned(), new.to_owned()),
    };
    if old == new {
        return Err("`oldString` and `newString` are equal".to_owned());
    }
    let find = |from: usize| {
        let at = memchr::memmem::find(text.as_bytes().get(from..)?, old.as_bytes())?;
        Some(from + at)
    };
    // Matches may overlap.
    let first = find(0);
    match (first, first.and_then(|at| find(at + 1))) {
        (None, _) => Err("`oldString` does not occur in the file: read the file again and copy the text \
                          exactly, including white space"
            .to_owned()),
        (Some(at), None) => Ok([&text[..at], &new, &text[at + old.len()..]].concat()),
        (Some(_), Some(_)) => {
            Err("`oldString` occurs more than once in the file: include more lines around the change"
                .to_owned())
        }
    }
}

/// The new content of a file that contained `text`.
pub fn rewritten(text: &str, new: &str) -> Result<String, String> {
    if new.contains(OMISSION) && !text.contains(OMISSION) {
        return Err(format!("`code` must be the whole text of the file, without {OMISSION:?}"));
    }
    let mark = text.starts_with(MARK) && !new.starts_with(MARK);
    let new = match has_windows_ends(text) {
        true => with_windows_ends(new),
        false => new.to_owned(),
    };
    Ok(if mark { format!("{MARK}{new}") } else { new })
}

/// Whether all lines end as on Windows.
fn has_windows_ends(text: &str) -> bool {
    let n = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    n > 0 && n == text.matches("\r\n").count()
}

fn with_windows_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn replaced_changes_only_a_unique_match() {
        assert_eq!(replaced("a b c", "b", "x").as_deref(), Ok("a x c"));
        assert_eq!(replaced("a b c", " b", "").as_deref(), Ok("a c"));
        for (text, old, new, why) in [
            ("a b c", "d", "x", "does not occur"),
            ("a b a", "a", "x", "more than once"),
            ("aaa", "aa", "x", "more than once"),
            ("a", "a", "a", "are equal"),
            ("", "a", "b", "does not occur"),
        ] {
            let told = replaced(text, old, new).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn edit_keeps_windows_line_endings() {
        assert_eq!(replaced("a\r\nb\r\n", "a\nb", "x\ny\nz").as_deref(), Ok("x\r\ny\r\nz\r\n"));
        assert_eq!(replaced("a\r\nb\r\n", "b", "x\ny").as_deref(), Ok("a\r\nx\r\ny\r\n"));
        assert_eq!(rewritten("\u{feff}a\r\n", "b\nc\n").as_deref(), Ok("\u{feff}b\r\nc\r\n"));
        assert_eq!(rewritten("a\r\nb\n", "c\n").as_deref(), Ok("c\n"), "mixed: as it is given");
        assert_eq!(rewritten("a\n", "b\r\n").as_deref(), Ok("b\r\n"));
    }

    #[test]
    fn rewrite_refuses_text_with_placeholders() {
        assert!(rewritten("a", "// ...existing code...\nb").unwrap_err().contains("whole text"));
        assert!(rewritten("a ...existing code...", "b ...existing code...").is_ok());
    }

    fn windows(text: &str) -> String {
        with_windows_ends(text)
    }

    proptest! {
        /// The text around the edit stays.
        #[test]
        fn replaced_changes_nothing_else(
            before in "[ab\n]{0,12}",
            after in "[ab\n]{0,12}",
            new in "[abX\n]{0,6}",
        ) {
            let text = format!("{before}X{after}");
            prop_assume!(new != "X");
            prop_assert_eq!(replaced(&text, "X", &new), Ok(format!("{before}{new}{after}")));
        }

        /// Edits work with line ends of Windows.
        #[test]
        fn edit_gives_same_result_for_any_line_endings(
            text in "[ab\n]{0,20}",
            old in "[ab\n]{1,4}",
            new in "[ab\n]{0,4}",
        ) {
            prop_assume!(text.contains('\n'));
            let one = replaced(&text, &old, &new).map(|it| windows(&it));
            prop_assert_eq!(replaced(&windows(&text), &old, &new), one.clone());
            prop_assert_eq!(replaced(&windows(&text), &windows(&old), &windows(&new)), one);
            prop_assert_eq!(rewritten(&windows(&text), &new), Ok(windows(&new)));
        }
    }
}
