//! What is not as it was, as people read it.

use std::fmt;

use serde_json::Value;

/// As much of a line is shown.
const SHOWN: usize = 200;

/// Something that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Line of the event.
    pub event: usize,
    /// Line and text of the effect that was expected, if one was.
    pub expected: Option<(usize, String)>,
    /// The effect that came instead, if one did.
    pub actual: Option<String>,
    /// What was before it: the event last, unless effects of it were as expected.
    pub context: Vec<(usize, String)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the first difference is in what follows from line {}:\n", self.event)?;
        for (line, text) in &self.context {
            writeln!(f, "{line:>8}   {}", around(text, 0))?;
        }
        let at = match (&self.expected, &self.actual) {
            (Some((_, expected)), Some(actual)) => common(expected, actual),
            _ => 0,
        };
        match &self.expected {
            Some((line, text)) => writeln!(f, "{line:>8} - {}", around(text, at))?,
            None => writeln!(f, "         - (nothing more)")?,
        }
        match &self.actual {
            Some(text) => writeln!(f, "         + {}", around(text, at))?,
            None => writeln!(f, "         + (nothing more)")?,
        }
        if at > 0 {
            writeln!(f, "\nThey are alike in the first {at} bytes.")?;
        }
        Ok(())
    }
}

/// A line as it is shown: without its time, which is that of the event.
pub(super) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.trim_ascii_end());
    match text.split_once(",\"dir\"") {
        Some((_, rest)) => format!("{{\"dir\"{rest}"),
        None => text.into_owned(),
    }
}

/// Whether two effects are the same but for their time.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (one.trim_ascii_end(), other.trim_ascii_end());
    if one == other || tail(one).is_some_and(|it| tail(other) == Some(it)) {
        return true;
    }
    // White space, and the order of members, may have been edited.
    let value = |it: &[u8]| {
        let mut value: Value = serde_json::from_slice(it).ok()?;
        value.as_object_mut()?.remove("t");
        Some(value)
    };
    value(one).is_some_and(|it| value(other) == Some(it))
}

/// A line as lspool writes it, from behind its time on.
fn tail(line: &[u8]) -> Option<&[u8]> {
    memchr::memmem::find(line, b",\"dir\"").map(|at| &line[at..])
}

/// How many bytes two texts have in common.
fn common(one: &str, other: &str) -> usize {
    let n = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    one.floor_char_boundary(n)
}

/// A piece of a text with what is at a byte.
fn around(text: &str, at: usize) -> String {
    let start = text.floor_char_boundary(at.saturating_sub(SHOWN / 3));
    let start = if text.len() - start.min(text.len()) < SHOWN && text.len() > SHOWN {
        text.floor_char_boundary(text.len() - SHOWN)
    } else if text.len() <= SHOWN {
        0
    } else {
        start
    };
    let end = text.floor_char_boundary((start + SHOWN).min(text.len()));
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
    format!("{before}{}{after}", &text[start..end])
}
