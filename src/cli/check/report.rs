//! The results of the trials, as a table and notes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use super::members::{Able, clashes, reach};
use crate::{
    cli::{
        columns::wrap,
        screen::{Screen, Tone},
        table::{Cell, table},
    },
    core::{
        FIRST_WITH_MODES, FIRST_WITH_TRANSCRIPTS, SIGN_IN, Version, mux::merge::abilities::Limit,
        reads_member,
    },
    rpc::Frame,
    shell::discover::{Absent, GroupPlan, Missing, Skipped, Target},
    util::text::plain,
};

/// What is said of versions before 1.520.
const LARGE: &str = "uses about 1 GB of memory for each process, three times as much as versions from 1.520: \
                     at most 4 run, unless you set `max_processes`";

/// What came of it all.
#[derive(Debug)]
pub(super) struct Report {
    /// The user's file, or the path without a file.
    pub(super) file: Result<PathBuf, Option<PathBuf>>,
    pub(super) warnings: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// How many of the rows, from the first, serve an editor together.
    pub(super) n_members: usize,
    /// The group that these are.
    pub(super) group: Option<GroupPlan>,
    /// Members of the group that are left out.
    pub(super) absent: Absent,
    /// Exit status of an interrupted check.
    pub(super) interrupted: Option<i32>,
}

/// One server.
#[derive(Debug)]
pub(super) struct Row {
    name: String,
    /// The command, and where lspool found it.
    /// What is started, and where.
    command: Vec<String>,
    has_args: bool,
    skipped: Vec<Skipped>,
    /// What a group uses it for.
    limit: Limit,
    /// Which messages it gets in a group, in lines.
    reach: Vec<String>,
    pub(super) state: State,
}

/// The result of one trial.
#[derive(Debug)]
pub(super) enum State {
    Untried,
    Well {
        version: String,
        after: Duration,
        /// The result of `initialize`.
        answer: Vec<u8>,
        /// The problem with the account of a Copilot server, if any.
        account: Option<Account>,
        abilities: Abilities,
    },
    Missing(String),
    Failed(String),
}

/// What a Copilot server can do, as far as it has shown it. Versions differ.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Abilities {
    version: Option<Version>,
    /// It reads transcripts.
    restores: Option<bool>,
    /// It takes chat modes.
    modes: Option<bool>,
}

impl Abilities {
    fn notes(self) -> impl Iterator<Item = String> {
        let restores = self.restores.map(|it| match it {
            true => "restores conversations with their tool calls",
            false => {
                "restores conversations as text, without their tool calls; versions from 1.449 restore these too"
            }
        });
        let modes = self.modes.map(|it| match it {
            true => "has chat modes for tool sets (`isolation = \"mode\"`)",
            false => "has no chat modes: each tool set has a process; versions from 1.520 have them",
        });
        let is_large = self.version.is_some_and(|it| it < FIRST_WITH_MODES);
        let memory = is_large.then_some(LARGE);
        [restores, modes, memory].into_iter().flatten().map(ToOwned::to_owned)
    }
}

/// Why nobody can use a Copilot server.
#[derive(Debug)]
pub(super) struct Account {
    state: &'static str,
    message: String,
}

/// What is started, and where.
fn command(target: &Target) -> Vec<String> {
    let line = |program: &str, args: &[String]| [&[program.to_owned()], args].concat().join(" ");
    let Target { name, server, launch, place, .. } = target;
    let program = launch.program.display().to_string();
    let Some(remote) = &launch.remote else {
        return vec![format!("{} (from {place})", line(&program, &launch.args))];
    };
    let there = line(server.command.as_deref().unwrap_or(name), &server.args);
    let pairs = remote.paths.iter().map(|it| format!("{} is {} there", it.local, it.remote));
    let pairs = pairs.collect::<Vec<_>>().join(", ");
    let folders = if pairs.is_empty() { "the same on both sides" } else { &pairs };
    vec![format!("{}: {there} (with {program})", remote.name), format!("folders: {folders}")]
}

impl Row {
    pub(super) fn found(name: String, target: &Target) -> Row {
        let limit = Limit::new(target.server.only.as_deref(), &target.server.except);
        let (skipped, reach) = (target.skipped.clone(), reach(&target.server));
        let args = if target.launch.remote.is_some() { &target.server.args } else { &target.launch.args };
        let (command, has_args) = (command(target), !args.is_empty());
        Row { name, command, has_args, skipped, limit, reach, state: State::Untried }
    }

    /// Notes where its clients meet, or why they cannot.
    pub(super) fn note_sharing(&mut self, place: Result<&Path, String>) {
        self.command.push(match place {
            Ok(folder) => format!("shared: clients meet in {}", folder.display()),
            Err(why) => format!("not shared, although `share` is set: {why}"),
        });
    }

    /// Notes what was found in its place elsewhere, if it works there.
    pub(super) fn note_place(&mut self, notes: impl FnOnce() -> Vec<String>) {
        if let State::Well { .. } = self.state {
            self.command.extend(notes());
        }
    }

    pub(super) fn missing(name: String, missing: Missing) -> Row {
        let Missing { message, skipped } = missing;
        let (limit, reach) = (Limit::default(), Vec::new());
        Row {
            name,
            command: Vec::new(),
            has_args: true,
            skipped,
            limit,
            reach,
            state: State::Missing(message),
        }
    }

    /// Notes an error, if it is the first: later errors are consequences.
    pub(super) fn fail(&mut self, message: String) {
        if let State::Untried = self.state {
            self.state = State::Failed(message);
        }
    }

    /// The server exited before it answered.
    pub(super) fn ended(&mut self, how: &str) {
        let advice = match self.has_args {
            false => {
                "\nhint: it may need an argument such as --stdio: write it after the command, or in `args`"
            }
            true => "",
        };
        self.fail(format!("it exited before it answered `initialize` ({how}){advice}"));
    }

    /// Notes the account that a Copilot server reports.
    pub(super) fn note_account(&mut self, answer: &Frame) {
        let State::Well { account, .. } = &mut self.state else { return };
        let said: Value = answer.result().and_then(|it| serde_json::from_slice(it).ok()).unwrap_or_default();
        let of = |state, message: String| Some(Account { state, message });
        *account = match said["status"].as_str() {
            Some("OK" | "MaybeOK" | "AlreadySignedIn") | None => None,
            Some("NotSignedIn") => of("signed out", format!("nobody is signed in\nhint: {SIGN_IN}")),
            Some("NotAuthorized") => {
                let user = said["user"].as_str().unwrap_or("the user");
                of("no access", format!("{user} has no access to Copilot"))
            }
            Some(other) => of("no access", format!("the server reports the account status {other:?}")),
        };
    }

    /// A Copilot server has said its version.
    pub(super) fn note_version(&mut self, version: Version) {
        self.change_abilities(|it| it.version = Some(version));
    }

    /// A Copilot server has answered whether it reads transcripts.
    pub(super) fn note_proof(&mut self, answer: &Frame) {
        self.change_abilities(|it| {
            let is_old = it.version.is_some_and(|it| it < FIRST_WITH_TRANSCRIPTS);
            it.restores = Some(!is_old && reads_member(answer).is_ok());
        });
    }

    /// A Copilot server has been told of agents, as it is of chat modes.
    pub(super) fn note_agents(&mut self, answer: &Frame) {
        self.change_abilities(|it| it.modes = Some(answer.result().is_some()));
    }

    fn change_abilities(&mut self, change: impl FnOnce(&mut Abilities)) {
        if let State::Well { abilities, .. } = &mut self.state {
            change(abilities);
        }
    }

    fn cells(&self) -> [Cell; 4] {
        let (state, tone, after, version) = match &self.state {
            State::Untried => ("not tried", Tone::Faint, None, None),
            State::Well { version, after, account, .. } => {
                let (state, tone) =
                    account.as_ref().map_or(("ok", Tone::Good), |it| (it.state, Tone::Passing));
                (state, tone, Some(*after), Some(version.as_str()))
            }
            State::Missing(_) => ("missing", Tone::Bad, None, None),
            State::Failed(_) => ("failed", Tone::Bad, None, None),
        };
        let none = || "-".to_owned();
        [
            Cell::plain(self.name.clone()),
            Cell::new(state, tone),
            Cell::plain(after.map_or_else(none, |it| format!("{:.2} s", it.as_secs_f64()))),
            Cell::plain(version.filter(|it| !it.is_empty()).map_or_else(none, plain)),
        ]
    }

    /// What it can do as a member of a group, if it works.
    fn able(&self) -> Option<Able> {
        match &self.state {
            State::Well { answer, .. } => Some(Able::new(&self.name, answer, self.limit.clone())),
            State::Untried | State::Missing(_) | State::Failed(_) => None,
        }
    }

    fn notes(&self, is_verbose: bool) -> Vec<String> {
        let mut notes = self.command.clone();
        match &self.state {
            // The message names the path.
            State::Missing(message) | State::Failed(message) => notes.push(message.clone()),
            State::Well { account, abilities, .. } => {
                notes.extend(account.as_ref().map(|it| it.message.clone()));
                notes.extend(abilities.notes());
            }
            State::Untried => {}
        }
        if is_verbose && !matches!(self.state, State::Missing(_)) {
            notes.extend(self.skipped.iter().map(ToString::to_string));
        }
        notes
    }
}

impl Report {
    /// The exit status: 0 only if every server works.
    pub(super) fn status(&self) -> i32 {
        let is_well = self.rows.iter().all(|row| matches!(row.state, State::Well { .. }));
        self.interrupted.unwrap_or(i32::from(!is_well))
    }

    /// The report. If verbose, with the skipped executables.
    pub(super) fn text(&self, is_verbose: bool, screen: Screen) -> String {
        let columns = screen.columns().unwrap_or(usize::MAX);
        let mut lines = Vec::new();
        let configuration = match &self.file {
            Ok(file) => format!("configuration: {}", file.display()),
            Err(None) => "configuration: defaults".to_owned(),
            Err(Some(file)) => format!("configuration: defaults (no file {})", file.display()),
        };
        lines.extend(wrap(&configuration, columns, "  "));
        for it in &self.warnings {
            let wrapped = wrap(&format!("warning: {}", plain(it)), columns, "  ");
            lines.extend(wrapped.iter().map(|it| screen.paint(it, Tone::Passing)));
        }
        lines.push(String::new());
        let head = ["SERVER", "STATE", "START-UP", "VERSION"];
        let table = table(head, self.rows.iter().map(Row::cells), &[3, 0], screen);
        lines.extend(table.lines().map(ToOwned::to_owned));
        let mut section = |name: &str, notes: &[String]| {
            lines.push(String::new());
            lines.push(screen.paint(name, Tone::Strong));
            for note in notes {
                let note = plain(note);
                lines.extend(note.lines().flat_map(|it| wrap(&format!("  {it}"), columns, "    ")));
            }
        };
        for (n, row) in self.rows.iter().enumerate() {
            let mut notes = row.notes(is_verbose);
            if self.group.is_some() && n < self.n_members {
                notes.extend(row.able().iter().flat_map(Able::told));
                notes.extend(row.reach.iter().cloned());
            }
            section(&row.name, &notes);
        }
        if let Some(group) = &self.group {
            let members: Vec<Able> = self.rows.iter().take(self.n_members).filter_map(Row::able).collect();
            let mut notes = clashes(&members, group);
            if notes.is_empty() {
                notes.push("no feature has several members".to_owned());
            }
            notes.extend(self.absent.members.iter().cloned());
            section(&format!("group {}", group.name), &notes);
        } else if !self.absent.members.is_empty() {
            section(&format!("group {}", self.absent.group), &self.absent.members);
        }
        lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }
}
