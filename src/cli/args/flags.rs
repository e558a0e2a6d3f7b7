//! The flags, as clap reads them. What is said of each here is its help.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    ArgAction, Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser as _},
};

use super::Command;
use crate::{
    cli::{inspect, instances},
    config::LogLevel,
    player::Speed,
};

#[derive(Debug, Parser)]
#[command(
    name = "lspool",
    version,
    about = "A language server that stands in front of another one",
    // clap breaks no lines.
    long_about = "A language server that stands in front of another one: the editor starts lspool\n\
                  instead of its server. Conversations of a Copilot server run in processes of\n\
                  their own, one for each set of tools; everything else passes unchanged.\n\n\
                  COMMAND, which must come after --, is the server and its arguments. Without it the\n\
                  server is taken from the configuration file, or copilot-language-server is\n\
                  searched for.",
    after_long_help = "Example, for an editor's configuration:\n  lspool -- copilot-language-server --stdio",
    override_usage = "lspool [OPTIONS] [-- COMMAND [ARG]...]\n       lspool agents|check|status|restart|stop|move|logs|reload [OPTIONS]\n       lspool inspect|replay|serve-recording FILE [OPTIONS]\n       lspool orchestrate GOAL [OPTIONS] [-- COMMAND [ARG]...]",
    disable_help_subcommand = true
)]
pub(super) struct Flags {
    /// The configuration file [default: lspool/config.toml in the user's configuration folder]
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) config: Option<PathBuf>,

    /// Write the log to this file; without one there is no log
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) log_file: Option<PathBuf>,

    /// How much is logged [default: info]
    #[arg(
        long,
        value_name = "LEVEL",
        global = true,
        value_parser = PossibleValuesParser::new(LogLevel::WORDS)
            .try_map(|it| LogLevel::from_word(&it).ok_or("no level"))
    )]
    pub(super) log_level: Option<LogLevel>,

    #[arg(
        long,
        value_name = "FILE",
        help = "Record the session in this file, or in the next free one of FILE-2 and so on [env: LSPOOL_RECORD]"
    )]
    pub(super) record: Option<PathBuf>,

    /// Whether the recording has documents, prompts and answers as they are [default: no]
    #[arg(
        long,
        value_name = "yes|no",
        value_parser = PossibleValuesParser::new(["yes", "no"]).map(|it| it == "yes"),
        hide_possible_values = true
    )]
    pub(super) record_texts: Option<bool>,

    /// Accepted and ignored: lspool always speaks on stdin and stdout
    #[arg(long, overrides_with = "stdio")]
    stdio: bool,

    /// Accepted and ignored: the process is named in `initialize`
    #[arg(
        long = "clientProcessId",
        value_name = "N",
        action = ArgAction::Append,
        allow_hyphen_values = true
    )]
    client_process_id: Vec<OsString>,

    #[arg(long, hide = true)]
    node_ipc: bool,

    #[arg(long, hide = true)]
    acp: bool,

    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", value_name = "N")]
    socket: Option<OsString>,

    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", value_name = "N")]
    port: Option<OsString>,

    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", value_name = "NAME")]
    pipe: Option<OsString>,

    // Help would show it as if it needed no `--`.
    #[arg(last = true, value_name = "COMMAND", hide = true)]
    pub(super) command: Vec<String>,

    #[command(subcommand)]
    pub(super) task: Option<Task>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Task {
    /// Find and try all servers that are configured, and tell what there is
    Check,
    /// The agents of the current folder: where they come from, their tools, models and processes
    Agents {
        /// For a program: one JSON document
        #[arg(long)]
        json: bool,
    },
    /// What each running lspool and its servers are doing
    Status {
        /// For a program: one JSON document
        #[arg(long)]
        json: bool,
        /// Again and again, whenever something changes
        #[arg(long)]
        watch: bool,
        /// Also the ids of conversations that have not every tool
        #[arg(short, long, conflicts_with = "watch")]
        long: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Start a server, or a partition of it, anew; also one that was stopped or has failed
    Restart {
        #[command(flatten)]
        backend: Named,
        #[command(flatten)]
        which: Which,
    },
    /// Stop a server, or a partition of it, until it is needed again
    Stop {
        #[command(flatten)]
        backend: Named,
        #[command(flatten)]
        which: Which,
    },
    /// Keep conversations to their tools by a process of their own, or by a chat mode, from their next turn on
    Move {
        /// A conversation, or what `lspool status` shows under TOOLS; all, if it is left out
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// By what
        #[arg(long, value_name = "KIND", value_parser = ["process", "mode"])]
        to: String,
        #[command(flatten)]
        which: Which,
    },
    /// What a server has written to stderr
    Logs {
        #[command(flatten)]
        backend: Named,
        /// And what it goes on to write
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Read the configuration files anew
    Reload {
        #[command(flatten)]
        which: Which,
    },
    /// Show what a recording holds: conversations, requests, how long they took, crashes
    Inspect {
        /// A recording of lspool, or a transcript
        file: PathBuf,
        /// Only this conversation
        #[arg(long, value_name = "ID")]
        conversation: Option<String>,
        /// Only messages of these methods; `*` stands for anything
        #[arg(long, value_name = "GLOB")]
        method: Option<String>,
        /// Only what went wrong
        #[arg(long)]
        errors: bool,
    },
    /// Be a language server made of a recording: answer as the recorded one did, on stdin and stdout
    ServeRecording {
        /// A recording of lspool, or a transcript [default: a session with four agents that lspool has with it]
        file: Option<PathBuf>,
        /// The process whose part is played, where several are in the file, or `*` for each that is asked the same [default:
        /// of a recording of lspool, lspool itself]
        #[arg(long, value_name = "NAME")]
        proc: Option<String>,
        /// Take the time that it took, or none
        #[arg(
            long,
            default_value = "fast",
            value_parser = PossibleValuesParser::new(["real", "fast"])
                .map(|it| if it == "real" { Speed::Real } else { Speed::Fast })
        )]
        speed: Speed,
        /// Fail at the end, and say why on stderr, if the client was not like the recorded one
        #[arg(long)]
        strict: bool,
        /// Accepted and ignored
        #[arg(long, hide = true)]
        stdio: bool,
    },
    /// Do again what a recording says: prints each effect, and the first that is not as it was
    #[command(
        after_help = "Exit status: 0 if all is as it was, 1 if something is different, 2 if a file cannot be used."
    )]
    Replay(Replay),
    /// Have workers reach a goal in the current folder: a plan is made, its tasks are done, and you are told what has come of it
    #[command(
        after_help = "Workers create and overwrite files in the current folder without asking; only commands are asked about. Begin \
                      with a clean git tree.\n\n\
                      Exit status: 0 if all tasks are done, 1 if one has failed or was skipped, 2 if nothing could be done, 130 after \
                      Ctrl-C."
    )]
    Orchestrate(Orchestrate),
}

/// `lspool replay`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(in crate::cli) struct Replay {
    /// The recording
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
    /// Compare with the effects in another file: a recording, or what an earlier replay has printed
    #[arg(long, value_name = "EXPECTED")]
    pub(in crate::cli) diff: Option<PathBuf>,
    /// Stop after what follows from line N
    #[arg(long, value_name = "N")]
    pub(in crate::cli) until: Option<usize>,
}

/// `lspool orchestrate`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(in crate::cli) struct Orchestrate {
    /// What is to be done
    #[arg(value_name = "GOAL")]
    pub(in crate::cli) goal: String,
    /// Who can be given tasks: a file with [worker.ROLE] sections [default: those of the configuration]
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) workers: Option<PathBuf>,
    /// The model of the plan, the summary, and of workers that have none of their own: an id, a name, or a tier
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) model: Option<String>,
    /// For a program: one event per line
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Run every command that a worker wants to run, without asking; files are written without asking in any case
    #[arg(long)]
    pub(in crate::cli) yes: bool,
    /// The server, and its arguments [default: that of the configuration file, or copilot-language-server, which is searched for]
    #[arg(last = true, value_name = "COMMAND")]
    pub(in crate::cli) command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// The lspool with this process id, where several are running
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Named {
    /// What `lspool status` shows under SERVER; for a partition what it shows under TOOLS, or the beginning of it
    #[arg(value_name = "NAME")]
    name: String,
}

impl Task {
    pub(super) fn command(self) -> Command {
        let (task, which) = match self {
            Task::Check => return Command::Check,
            Task::Agents { json } => return Command::Agents { json },
            Task::Replay(replay) => return Command::Replay(replay),
            Task::Orchestrate(it) => return Command::Orchestrate(it),
            Task::Status { json, watch, long, which } => {
                (instances::Task::Status { json, watch, long }, which)
            }
            Task::Restart { backend, which } => (instances::Task::Restart(backend.name), which),
            Task::Stop { backend, which } => (instances::Task::Stop(backend.name), which),
            Task::Move { name, to, which } => (instances::Task::Move { name, to }, which),
            Task::Logs { backend, follow, which } => {
                (instances::Task::Logs { name: backend.name, follow }, which)
            }
            Task::Reload { which } => (instances::Task::Reload, which),
            Task::Inspect { file, conversation, method, errors } => {
                let filter = inspect::Filter { conversation, method, only_errors: errors };
                return Command::Inspect { file, filter };
            }
            Task::ServeRecording { file, proc: process, speed, strict: is_strict, stdio: _ } => {
                return Command::ServeRecording { file, process, speed, is_strict };
            }
        };
        Command::Instances { task, pid: which.pid }
    }
}

impl Flags {
    /// A way to speak that other language servers have.
    pub(super) fn other_way(&self) -> Option<&'static str> {
        let ways = [
            (self.node_ipc, "--node-ipc"),
            (self.acp, "--acp"),
            (self.socket.is_some(), "--socket"),
            (self.port.is_some(), "--port"),
            (self.pipe.is_some(), "--pipe"),
        ];
        ways.into_iter().find(|(is_there, _)| *is_there).map(|(_, way)| way)
    }
}
