//! The command line: what the flags are, and what a line of them asks for.
//!
//! Does nothing of what is asked for. The command lines of the guard and of a confined command are their own:
//! they are looked at before this one.

mod flags;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, path::PathBuf};

use clap::{
    CommandFactory as _, Parser as _,
    error::{ContextKind, ContextValue, ErrorKind},
};

use self::flags::Flags;
pub(super) use self::flags::{Orchestrate, Replay};
use super::{inspect, instances};
use crate::{
    config::{LogLevel, nearest},
    player::Speed,
    shell::discover::{CliServer, Env},
};

/// What lspool is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Args {
    /// The configuration file, if it is not at its usual place.
    pub(super) config: Option<PathBuf>,
    /// Where the log goes; before what the configuration says.
    pub(super) log_file: Option<PathBuf>,
    /// How much is logged; before what the configuration says.
    pub(super) log_level: Option<LogLevel>,
    /// Where the session is recorded; before what the configuration says.
    pub(super) record: Option<PathBuf>,
    /// Whether the recording has texts as they are; before what the configuration says.
    pub(super) record_texts: Option<bool>,
    /// The task itself.
    pub(super) command: Command,
}

impl Args {
    /// An option that the command has no use for, and why.
    fn unused(&self) -> Option<(&'static str, &'static str)> {
        const UNREAD: &str = "reads no configuration";
        const UNSERVED: &str = "does not serve an editor";
        let (is_configured, serves) = match &self.command {
            Command::Serve(_) | Command::Orchestrate(_) => (true, true),
            Command::Check | Command::Agents { .. } => (true, false),
            Command::Replay(_)
            | Command::Instances { .. }
            | Command::ServeRecording { .. }
            | Command::Inspect { .. } => (false, false),
        };
        let given = [
            (self.config.is_some() && !is_configured, ("--config", UNREAD)),
            (self.log_file.is_some() && !serves, ("--log-file", UNSERVED)),
            (self.log_level.is_some() && !serves, ("--log-level", UNSERVED)),
            (self.record.is_some() && !serves, ("--record", UNSERVED)),
            (self.record_texts.is_some() && !serves, ("--record-texts", UNSERVED)),
        ];
        given.into_iter().find(|(is_unused, _)| *is_unused).map(|(_, option)| option)
    }

    /// `~/` in paths expanded: editors pass them as they are written, where a shell would do it.
    #[must_use]
    pub(super) fn at_home(mut self, env: &Env) -> Args {
        for file in [&mut self.config, &mut self.log_file, &mut self.record].into_iter().flatten() {
            *file = env.expand(file).unwrap_or_else(|_| file.clone());
        }
        self
    }
}

/// The tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Serve the editor on stdin and stdout.
    Serve(CliServer),
    /// Try the configuration and tell what there is.
    Check,
    /// List the agents of the current folder.
    Agents {
        /// For a program.
        json: bool,
    },
    /// Do again what a recording says, and compare.
    Replay(Replay),
    /// Work on a goal.
    Orchestrate(Orchestrate),
    /// Say something to the lspools that are running.
    Instances {
        /// What.
        task: instances::Task,
        /// To the one with this process id.
        pid: Option<u32>,
    },
    /// Be a language server made of a recording.
    ServeRecording {
        /// The recording; none: the one that lspool has with it.
        file: Option<PathBuf>,
        /// Which process of it.
        process: Option<String>,
        /// When things are said.
        speed: Speed,
        /// Whether a client that is not like the recorded one is a failure.
        is_strict: bool,
    },
    /// Show what a recording holds.
    Inspect {
        /// The recording.
        file: PathBuf,
        /// What of it.
        filter: inspect::Filter,
    },
}

/// Reads a command line, the name of the program included. Tells what is wrong with it on stderr and exits with 2;
/// `--help` and `--version` are answered on stdout.
pub(super) fn parse(words: &[OsString]) -> Args {
    try_parse(words).unwrap_or_else(|error| error.exit())
}

fn try_parse(words: &[OsString]) -> Result<Args, clap::Error> {
    let flags = Flags::try_parse_from(words).map_err(|error| explained(error, words))?;
    if let Some(way) = flags.other_way() {
        let message = format!("lspool speaks with the editor on stdin and stdout (--stdio); it has no {way}");
        return Err(Flags::command().error(ErrorKind::ArgumentConflict, message));
    }
    let mut words = flags.command.into_iter();
    let command = match flags.task {
        None => Command::Serve(CliServer { command: words.next(), args: words.collect() }),
        Some(task) => task.command(),
    };
    let args = Args {
        config: flags.config,
        log_file: flags.log_file,
        log_level: flags.log_level,
        record: flags.record,
        record_texts: flags.record_texts,
        command,
    };
    match args.unused() {
        Some((option, why)) => {
            let message = format!("{option} would do nothing: this command {why}");
            Err(Flags::command().error(ErrorKind::ArgumentConflict, message))
        }
        None => Ok(args),
    }
}

/// A word that is no task, with what was probably meant by it.
fn explained(error: clap::Error, words: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(odd)) = error.get(ContextKind::InvalidArg) else { return error };
    let is_odd = |(_, it): &(usize, &OsString)| it.to_str() == Some(odd);
    let Some((at, _)) = words.iter().enumerate().skip(1).find(is_odd) else { return error };
    let command = Flags::command();
    let is_task = |word: &OsString| word.to_str().is_some_and(|it| command.find_subcommand(it).is_some());
    if error.kind() != ErrorKind::UnknownArgument || odd.starts_with('-') || words[1..at].iter().any(is_task)
    {
        return error;
    }
    let tasks = command.get_subcommands().map(clap::Command::get_name);
    let hint = match (odd.as_str(), nearest(odd, tasks)) {
        ("help", _) => "did you mean `lspool --help`?".to_owned(),
        (_, Some(task)) => format!("did you mean `lspool {task}`?"),
        (_, None) => {
            let rest: Vec<_> = words[at..].iter().map(|it| it.to_string_lossy()).collect();
            format!(
                "to stand in front of a server, put -- before its command: `lspool -- {}`",
                rest.join(" ")
            )
        }
    };
    Flags::command().error(ErrorKind::UnknownArgument, format!("there is no task {odd:?}; {hint}"))
}
