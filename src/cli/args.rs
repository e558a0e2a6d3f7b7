//! The command line: its options and their meaning.
//!
//! Carries nothing out. The guard and a confined command have command lines of their own, which `cli::run` handles
//! first.

mod flags;
mod lsp;
mod mcp;
mod servers;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, path::PathBuf};

use clap::{
    ColorChoice, CommandFactory as _, FromArgMatches as _, ValueEnum as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use clap_complete::Shell;

use self::flags::{Flags, Serving};
pub(super) use self::{
    flags::{Orchestrate, Replay},
    lsp::{Lsp, LspTask, TargetWords},
    mcp::{Agent, Mcp},
};
use super::{inspect, instances, setup::Editor, trust};
use crate::{
    config::{LogLevel, nearest},
    player::Speed,
    shell::discover::{CliServers, Env},
};

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Args {
    /// The configuration file, if it is not at its usual place.
    pub(super) config: Option<PathBuf>,
    /// The log file. Overrides the configuration.
    pub(super) log_file: Option<PathBuf>,
    /// The log level. Overrides the configuration.
    pub(super) log_level: Option<LogLevel>,
    /// The file of the recording. Overrides the configuration.
    pub(super) record: Option<PathBuf>,
    /// Whether the recording keeps texts. Overrides the configuration.
    pub(super) record_texts: Option<bool>,
    /// When to use color.
    pub(super) color: ColorChoice,
    /// The command.
    pub(super) command: Command,
}

impl Args {
    /// An option before the command that has no effect, and the reason.
    fn unused(&self) -> Option<(&'static str, &'static str)> {
        const UNREAD: &str = "reads no configuration";
        const UNSERVED: &str = "does not serve an editor";
        let (is_configured, serves) = match &self.command {
            Command::Serve(_) | Command::Orchestrate(_) | Command::Login(_) | Command::Lsp(_) => (true, true),
            Command::Mcp(it) if it.install.is_none() => (true, true),
            Command::Check { .. } | Command::Agents { .. } | Command::Setup { .. } => (true, false),
            Command::Replay(_)
            | Command::Instances { .. }
            | Command::ServeRecording { .. }
            | Command::Inspect { .. }
            | Command::Demo
            | Command::Mcp(_)
            | Command::Trust(_)
            | Command::Schema
            | Command::Completions(_)
            | Command::Man(_) => (false, false),
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

    /// Expands `~/` in paths. A shell would do it, but editors pass paths unchanged.
    #[must_use]
    pub(super) fn at_home(mut self, env: &Env) -> Args {
        for file in [&mut self.config, &mut self.log_file, &mut self.record].into_iter().flatten() {
            *file = env.expand(file).unwrap_or_else(|_| file.clone());
        }
        self
    }
}

/// The commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Serve the editor on stdin and stdout.
    Serve(CliServers),
    /// Show a crash that an editor does not notice.
    Demo,
    /// Print the settings for an editor.
    Setup {
        /// The editor.
        editor: Editor,
        /// The servers and groups. Without any, the servers that lspool finds.
        servers: Vec<String>,
    },
    /// Try the configured servers, or some.
    Check {
        /// Whether to report skipped executables.
        is_verbose: bool,
        /// These.
        servers: CliServers,
    },
    /// List the agents of the current folder.
    Agents {
        /// Whether to print JSON.
        json: bool,
        /// Whether an error in a file is a failure.
        check: bool,
    },
    /// Replay a recording and compare.
    Replay(Replay),
    /// Work on a goal.
    Orchestrate(Orchestrate),
    /// Ask language servers about code.
    Lsp(Lsp),
    /// Be a tool server of an agent.
    Mcp(Mcp),
    /// Change the trusted folders.
    Trust(trust::Task),
    /// Sign in, with this server.
    Login(Vec<String>),
    /// Say something to the lspools that are running.
    Instances {
        /// The request.
        task: instances::Task,
        /// The process id of the only lspool to ask.
        pid: Option<u32>,
    },
    /// Act as a server from a recording.
    ServeRecording {
        /// The recording. Without one, the builtin recording.
        file: Option<PathBuf>,
        /// The process to play.
        process: Option<String>,
        /// The speed of the messages.
        speed: Speed,
        /// Whether a client that differs from the recorded one is a failure.
        is_strict: bool,
    },
    /// Show the contents of a recording.
    Inspect {
        /// The recording.
        file: PathBuf,
        /// The part to show.
        filter: inspect::Filter,
        /// Whether to print a page for a browser.
        html: bool,
    },
    /// Print the schema of the configuration.
    Schema,
    /// Print completions.
    Completions(Shell),
    /// Print the manual page of a command, or of lspool.
    Man(Option<String>),
}

/// All options and commands, for help, completions and manual pages.
pub(super) fn definition() -> clap::Command {
    Flags::command()
}

/// Reads a command line, the name of the program included. Reports mistakes on stderr and exits with 2; answers `--help`
/// and `--version` on stdout.
pub(super) fn parse(words: &[OsString]) -> Args {
    try_parse(words).unwrap_or_else(|error| error.exit())
}

fn try_parse(words: &[OsString]) -> Result<Args, clap::Error> {
    let definition = Flags::command().color(color(words));
    let mistake = |message: String| definition.clone().error(ErrorKind::ArgumentConflict, message);
    let mut matches =
        definition.clone().try_get_matches_from(words).map_err(|it| explained(it, words, &definition))?;
    let flags = Flags::from_arg_matches_mut(&mut matches)?;
    if let Some(way) = flags.other_way() {
        return Err(mistake(format!(
            "lspool speaks with the editor on stdin and stdout (--stdio); it has no {way}"
        )));
    }
    let (mut command, own) = match flags.task {
        None => {
            let commands = servers::commands(flags.command).map_err(&mistake)?;
            (Command::Serve(CliServers { group: None, commands }), Serving::default())
        }
        Some(task) => task.command().map_err(&mistake)?,
    };
    match (&mut command, flags.group) {
        (_, None) => {}
        (Command::Serve(servers) | Command::Check { servers, .. }, Some(group)) => {
            servers.group.get_or_insert(group);
        }
        (_, Some(_)) => {
            return Err(mistake("--group would do nothing: this command takes no group".to_owned()));
        }
    }
    let first = flags.serving;
    let args = Args {
        config: own.file.config.or(first.file.config),
        log_file: own.log_file.or(first.log_file),
        log_level: own.log_level.or(first.log_level),
        record: own.record.or(first.record),
        record_texts: own.record_texts.or(first.record_texts),
        color: flags.color.unwrap_or(ColorChoice::Auto),
        command,
    };
    match args.unused() {
        Some((option, why)) => Err(mistake(format!("{option} would do nothing: this command {why}"))),
        None => Ok(args),
    }
}

/// The value of `--color`, before the rest is read: help and errors have colors too.
fn color(words: &[OsString]) -> ColorChoice {
    let mut words = words.iter().skip(1).map_while(|it| it.to_str()).take_while(|it| *it != "--");
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--color") {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        if let Some(choice) = value.and_then(|it| ColorChoice::from_str(it, false).ok()) {
            return choice;
        }
    }
    ColorChoice::Auto
}

/// Adds a suggestion to an error.
fn explained(mut error: clap::Error, words: &[OsString], definition: &clap::Command) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    // `-- --confg` would start a server of that name.
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|it| !it.to_string().starts_with("to pass"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    let Some(ContextValue::String(odd)) = error.get(ContextKind::InvalidArg) else { return error };
    let is_odd = |(_, it): &(usize, &OsString)| it.to_str() == Some(odd);
    let Some((at, _)) = words.iter().enumerate().skip(1).find(is_odd) else { return error };
    if odd.starts_with('-') {
        return error;
    }
    let task = |word: &OsString| word.to_str().and_then(|it| definition.find_subcommand(it));
    let (what, tip) = match words[1..at].iter().find_map(task).map(clap::Command::get_name) {
        Some("orchestrate") => {
            (format!("unexpected argument '{odd}' found"), "put the goal in quotes".to_owned())
        }
        Some(_) => return error,
        None => {
            let known = definition.get_subcommands().map(clap::Command::get_name);
            let tip = match nearest(odd, known) {
                Some(meant) => format!("did you mean `lspool {meant}`?"),
                None => {
                    let rest: Vec<_> = words[at..].iter().map(|it| it.to_string_lossy()).collect();
                    format!("put -- before the command of a server: `lspool -- {}`", rest.join(" "))
                }
            };
            (format!("unknown command '{odd}'"), tip)
        }
    };
    definition.clone().error(ErrorKind::UnknownArgument, format!("{what}\n\n  tip: {tip}"))
}
