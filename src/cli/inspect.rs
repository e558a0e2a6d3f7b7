//! `lspool inspect`: a recording as a timeline for people.
//!
//! Shows requests with their results, grouped by conversation, tool calls, and processes. Reads the file once, and
//! keeps only the shown part of each message. `--html` makes a page for a browser.

mod goals;
mod html;
mod table;
#[cfg(test)]
mod tests;
mod timeline;

use std::{
    io::{self, BufRead, IsTerminal as _},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context as _, bail};

use self::timeline::Timeline;
use super::{print, replay, screen::Screen};
use crate::recording::{reader::Problem, source::Source};

/// The filter of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    /// Only this conversation.
    pub(super) conversation: Option<String>,
    /// Only messages of these methods, notifications included; `*` matches anything.
    pub(super) method: Option<String>,
    /// Only errors.
    pub(super) only_errors: bool,
}

/// Prints the timeline.
pub(super) fn run(file: &Path, filter: &Filter, html: bool, screen: Screen) -> anyhow::Result<ExitCode> {
    if html && io::stdout().is_terminal() {
        bail!("the page needs a file\nhint: lspool inspect --html {} > page.html", file.display());
    }
    let form = if html { Form::Page } else { Form::Text(screen) };
    let text = text(replay::open(file)?, filter, form);
    let text = text.with_context(|| file.display().to_string())?;
    match text {
        Ok(text) => print(&text)?,
        Err(unknown) => bail!("{}: {unknown}", file.display()),
    }
    Ok(ExitCode::SUCCESS)
}

/// The form of a timeline.
#[derive(Clone, Copy, Debug)]
enum Form {
    Text(Screen),
    Page,
}

/// A conversation that is not in the recording, and those that are.
#[derive(Debug, thiserror::Error)]
#[error("no conversation {wanted:?}; {}", listed(.known))]
struct Unknown {
    wanted: String,
    known: Vec<String>,
}

fn listed(all: &[String]) -> String {
    match all {
        [] => "it has no conversation".to_owned(),
        all => format!("expected one of\n  {}", all.join("\n  ")),
    }
}

/// The text for a recording.
fn text(input: impl BufRead, filter: &Filter, form: Form) -> Result<Result<String, Unknown>, Problem> {
    let mut source = Source::new(input);
    let mut timeline = Timeline::new(filter.method.as_deref());
    while let Some(entry) = source.next().transpose()? {
        timeline.add(&entry, source.is_of_lspool());
    }
    let (timeline, note) = (timeline.finish(), source.note());
    if let Some(wanted) = &filter.conversation {
        let known = timeline.conversations();
        if !known.contains(wanted) {
            return Ok(Err(Unknown { wanted: wanted.clone(), known }));
        }
    }
    Ok(Ok(match form {
        Form::Text(screen) => table::text(&timeline, filter, note.as_deref(), screen),
        Form::Page => html::page(&timeline, filter, note.as_deref()),
    }))
}

/// Whether a text matches a pattern with `*` for anything.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
