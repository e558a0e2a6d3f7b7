//! What came of the trials, as a table and what there is to say about it.

use std::{fmt, path::PathBuf, time::Duration};

use serde_json::Value;

use crate::{
    cli::table::table,
    core::SIGN_IN,
    rpc::Frame,
    shell::discover::{Missing, Skipped, Target},
};

/// What came of it all.
#[derive(Debug)]
pub(super) struct Report {
    /// The user's file, or where there is none.
    pub(super) file: Result<PathBuf, Option<PathBuf>>,
    pub(super) warnings: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Exit status of a check that was broken off.
    pub(super) interrupted: Option<i32>,
}

/// One server.
#[derive(Debug)]
pub(super) struct Row {
    name: String,
    /// What is started, and where it was found.
    command: Option<(PathBuf, Vec<String>, &'static str)>,
    skipped: Vec<Skipped>,
    pub(super) state: State,
}

/// What came of one trial.
#[derive(Debug)]
pub(super) enum State {
    Untried,
    Well {
        version: String,
        after: Duration,
        /// What a Copilot server says of whoever is signed in, if it is not all well.
        account: Option<String>,
    },
    Missing(String),
    Failed(String),
}

impl Row {
    pub(super) fn found(name: String, target: &Target) -> Row {
        let command = (target.launch.program.clone(), target.launch.args.clone(), target.place);
        Row { name, command: Some(command), skipped: target.skipped.clone(), state: State::Untried }
    }

    pub(super) fn missing(name: String, missing: Missing) -> Row {
        let Missing { message, skipped } = missing;
        Row { name, command: None, skipped, state: State::Missing(message) }
    }

    /// Notes what is wrong, if nothing is noted yet: what comes later is a consequence.
    pub(super) fn fail(&mut self, message: String) {
        if let State::Untried = self.state {
            self.state = State::Failed(message);
        }
    }

    /// It has ended before it answered.
    pub(super) fn ended(&mut self, how: &str) {
        let advice = match &self.command {
            Some((_, args, _)) if args.is_empty() => {
                "; it has no `args`: if your editor gives it some, such as --stdio, write them there"
            }
            Some(_) | None => "",
        };
        self.fail(format!("it ended before it answered initialize ({how}){advice}"));
    }

    /// A Copilot server has said who is signed in.
    pub(super) fn note_account(&mut self, answer: &Frame) {
        let State::Well { account, .. } = &mut self.state else { return };
        let said: Value = answer.result().and_then(|it| serde_json::from_slice(it).ok()).unwrap_or_default();
        *account = match said["status"].as_str() {
            Some("OK" | "MaybeOK" | "AlreadySignedIn") | None => None,
            Some("NotSignedIn") => Some(format!("nobody is signed in: {SIGN_IN}")),
            Some("NotAuthorized") => {
                let user = said["user"].as_str().unwrap_or("whoever is signed in");
                Some(format!("{user} has no access to Copilot"))
            }
            Some(other) => Some(format!("of the account it says {other:?}")),
        };
    }

    fn cells(&self) -> [String; 5] {
        let (state, after, version) = match &self.state {
            State::Untried => ("untried", None, None),
            State::Well { version, after, account } => {
                let state = if account.is_none() { "ok" } else { "ok, but" };
                (state, Some(*after), Some(version.as_str()))
            }
            State::Missing(_) => ("missing", None, None),
            State::Failed(_) => ("failed", None, None),
        };
        let none = || "-".to_owned();
        [
            self.name.clone(),
            state.to_owned(),
            after.map_or_else(none, |it| format!("{:.2} s", it.as_secs_f64())),
            version.filter(|it| !it.is_empty()).map_or_else(none, plain),
            self.command.as_ref().map_or_else(none, |(program, ..)| program.display().to_string()),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some((program, args, place)) = &self.command {
            let words = [program.display().to_string()].into_iter().chain(args.iter().cloned());
            notes.push(format!("started as: {} (from {place})", words.collect::<Vec<_>>().join(" ")));
        }
        match &self.state {
            // What was found is part of the message.
            State::Missing(message) | State::Failed(message) => notes.push(message.clone()),
            State::Well { account, .. } => notes.extend(account.clone()),
            State::Untried => {}
        }
        if !matches!(self.state, State::Missing(_)) {
            notes.extend(self.skipped.iter().map(ToString::to_string));
        }
        notes
    }
}

impl Report {
    /// The exit status: 0 only if all is well.
    pub(super) fn status(&self) -> i32 {
        let is_well = self.rows.iter().all(|row| matches!(row.state, State::Well { .. }));
        self.interrupted.unwrap_or(i32::from(!is_well))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Ok(file) => writeln!(f, "configuration: {}", file.display())?,
            Err(None) => writeln!(f, "configuration: built in")?,
            Err(Some(file)) => writeln!(f, "configuration: built in (there is no {})", file.display())?,
        }
        self.warnings.iter().try_for_each(|it| writeln!(f, "warning: {}", plain(it)))?;

        let head = ["SERVER", "STATE", "START-UP", "VERSION", "PATH"].map(ToOwned::to_owned);
        write!(f, "\n{}", table([head].into_iter().chain(self.rows.iter().map(Row::cells))))?;

        for row in &self.rows {
            writeln!(f)?;
            for note in row.notes() {
                writeln!(f, "{}: {}", row.name, plain(&note).replace('\n', "\n    "))?;
            }
        }
        Ok(())
    }
}

/// What a server says, without what would move the cursor of a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}
