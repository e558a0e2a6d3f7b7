//! A difference between effects, for people.

use std::{collections::HashMap, fmt};

use serde_json::Value;

use crate::recording::redactor::SEARCHED;

/// How many characters of a line to show.
const SHOWN: usize = 200;

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line of the event.
    pub event: usize,
    /// The line and text of the expected effect, if any.
    pub expected: Option<(usize, String)>,
    /// The actual effect, if any.
    pub actual: Option<String>,
    /// The lines before it: equal effects, or the event.
    pub context: Vec<(usize, String)>,
    /// Whether the recording has no texts.
    pub is_masked: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the first difference is in the effects of line {}:\n", self.event)?;
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
            writeln!(f, "\nThe first {at} bytes are equal.")?;
        }
        if self.is_masked {
            writeln!(
                f,
                "\nThe recording has no texts, so it cannot repeat an effect that depends on one (a plan, \
                 a call of a team's tool). Record again with --record-texts=yes."
            )?;
        }
        Ok(())
    }
}

/// A line without its time, which is that of the event.
pub(super) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.trim_ascii_end());
    match text.split_once(",\"dir\"") {
        Some((_, rest)) => format!("{{\"dir\"{rest}"),
        None => text.into_owned(),
    }
}

/// Compares effects.
#[derive(Debug, Default)]
pub(super) struct Same {
    /// Values that were recorded before lspool knew that they were secret, by their later placeholder: lspool repeats
    /// them when it replays a session.
    late: HashMap<String, String>,
}

impl Same {
    /// Whether an effect equals the recorded one but for its time.
    pub(super) fn is_same(&mut self, recorded: &[u8], effect: &[u8]) -> bool {
        let (recorded, effect) = (recorded.trim_ascii_end(), effect.trim_ascii_end());
        if recorded == effect || tail(recorded).is_some_and(|it| tail(effect) == Some(it)) {
            return true;
        }
        // An editor may have changed white space and the order of members.
        let value = |it: &[u8]| {
            let mut value: Value = serde_json::from_slice(it).ok()?;
            value.as_object_mut()?.remove("t");
            Some(value)
        };
        value(recorded).is_some_and(|it| value(effect) == Some(it))
            || self.is_same_with_secrets(recorded, effect).is_some()
    }

    fn is_same_with_secrets(&mut self, recorded: &[u8], effect: &[u8]) -> Option<()> {
        let mut recorded = str::from_utf8(tail(recorded)?).ok()?;
        let mut effect = str::from_utf8(tail(effect)?).ok()?;
        let mut found = Vec::new();
        while let Some((before, placeholder, behind)) = next_placeholder(recorded) {
            effect = effect.strip_prefix(before)?;
            recorded = behind;
            if let Some(rest) = effect.strip_prefix(placeholder) {
                effect = rest;
                continue;
            }
            let known = found.iter().find(|(it, _)| *it == placeholder).map(|(_, it)| *it);
            let text = match known.or_else(|| self.late.get(placeholder).map(String::as_str)) {
                Some(text) => text,
                None => {
                    let end = match next_placeholder(behind) {
                        Some((between, ..)) => effect.find(between)?,
                        None => effect.len().checked_sub(behind.len())?,
                    };
                    effect.get(..end).filter(|it| it.len() >= SEARCHED && !it.contains(['"', '<']))?
                }
            };
            effect = effect.strip_prefix(text)?;
            found.push((placeholder, text));
        }
        if effect != recorded {
            return None;
        }
        let found: Vec<_> = found.into_iter().map(|(it, text)| (it.to_owned(), text.to_owned())).collect();
        self.late.extend(found);
        Some(())
    }
}

/// Splits a text at its first placeholder of a secret.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find("<secret-")?;
    let end = start + text[start..].find('>')? + 1;
    Some((&text[..start], &text[start..end], &text[end..]))
}

/// A line of lspool without its time.
fn tail(line: &[u8]) -> Option<&[u8]> {
    memchr::memmem::find(line, b",\"dir\"").map(|at| &line[at..])
}

/// The length of the common beginning of two texts, in bytes.
fn common(one: &str, other: &str) -> usize {
    let n = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    one.floor_char_boundary(n)
}

/// An excerpt of a text around a byte.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_accepts_secrets_recognized_later() {
        let mut same = Same::default();
        let mut is_same = |recorded: &str, effect: &str| {
            let line =
                |t: u8, it: &str| format!("{{\"t\":{t},\"dir\":\"out\",\"kind\":\"message\",\"msg\":{it}}}");
            same.is_same(line(1, recorded).as_bytes(), line(2, effect).as_bytes())
        };
        assert!(is_same(
            r#"{"a":"x <secret-1>","b":"<secret-2>"}"#,
            r#"{"a":"x correcthorse","b":"<secret-2>"}"#
        ));
        assert!(is_same(r#"["<secret-1>","<secret-1>"]"#, r#"["correcthorse","<secret-1>"]"#));
        for (recorded, effect) in [
            (r#"["<secret-1>"]"#, r#"["batterystaple"]"#),
            (r#"["<secret-3>","<secret-3>"]"#, r#"["correcthorse","batterystaple"]"#),
            (r#"["<secret-3>"]"#, r#"["<secret-4>"]"#),
            (r#"["<secret-3>"]"#, r#"[""]"#),
            (r#"["<secret-3>"]"#, r#"["short"]"#),
            (r#"["<secret-3>"]"#, r#"["correct","horse"]"#),
            (r#"["<secret-3>"]"#, r#"["correcthorse"}"#),
        ] {
            assert!(!is_same(recorded, effect), "{recorded} {effect}");
        }
    }
}
