//! The options, as clap reads them. The comments here are the help texts.
//!
//! A command lists only the options that it takes. Those of all commands are last, under a heading of their own.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    ArgAction, ColorChoice, Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use clap_complete::Shell;

use super::{
    Command, Lsp, Mcp,
    servers::{commands, one_command},
};
use crate::{
    cli::{
        inspect,
        instances::{self, Reach},
        setup::Editor,
        trust,
    },
    config::LogLevel,
    player::Speed,
    shell::discover::CliServers,
};

/// The heading of the options that every command takes.
const GLOBAL: &str = "Global options";

#[derive(Debug, Parser)]
#[command(
    name = "lspool",
    version,
    about = "A language server proxy: a crashed server comes back, agents keep to their tools",
    long_about = "lspool stands between an editor and a language server: the editor starts lspool instead of the server. \
                  lspool restarts a server that crashes, with its documents and settings, and runs the conversations of a \
                  Copilot server in one process for each tool set.\n\n\
                  SERVER is the command of the server. It comes after --. Each further -- begins another server: the \
                  editor sees them as one. A -- that belongs to a server is written twice. Without SERVER, lspool takes \
                  the server from the configuration file, or searches for copilot-language-server.",
    after_help = "Run `lspool demo` to see it work, and `lspool setup EDITOR` for the settings of an editor.",
    override_usage = "lspool [OPTIONS] [-- SERVER [ARG]...]...\n       lspool COMMAND [OPTIONS]",
    max_term_width = 100,
    disable_help_flag = true,
    disable_version_flag = true
)]
pub(super) struct Flags {
    /// Start the servers of this group, and then those of the command line
    #[arg(long, value_name = "NAME")]
    pub(super) group: Option<String>,

    #[command(flatten)]
    pub(super) serving: Serving,

    /// Accepted and ignored: lspool always uses stdin and stdout
    #[arg(long, overrides_with = "stdio")]
    stdio: bool,

    /// Accepted and ignored: `initialize` names the process
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
    #[arg(last = true, value_name = "SERVER", hide = true)]
    pub(super) command: Vec<String>,

    /// When to use color [default: auto]
    #[arg(long, value_name = "WHEN", global = true, help_heading = GLOBAL)]
    pub(super) color: Option<ColorChoice>,

    /// Print help
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = GLOBAL)]
    help: Option<bool>,

    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = GLOBAL)]
    version: Option<bool>,

    #[command(subcommand)]
    pub(super) task: Option<Task>,
}

/// The place of the configuration.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ConfigFile {
    /// The configuration file [default: lspool/config.toml in the user's configuration folder]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

/// The options of commands that start servers.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Serving {
    #[command(flatten)]
    pub(super) file: ConfigFile,

    /// Write the log to this file [default: no log]
    #[arg(long, value_name = "FILE")]
    pub(super) log_file: Option<PathBuf>,

    /// How much to log [default: info]
    #[arg(
        long,
        value_name = "LEVEL",
        value_parser = PossibleValuesParser::new(LogLevel::WORDS)
            .try_map(|it| LogLevel::from_word(&it).ok_or("no level"))
    )]
    pub(super) log_level: Option<LogLevel>,

    #[arg(
        long,
        value_name = "FILE",
        help = "Record the session in this file, or in FILE-2 and so on if it exists [env: LSPOOL_RECORD]"
    )]
    pub(super) record: Option<PathBuf>,

    /// Record documents, prompts and answers as they are [default: no]
    #[arg(
        long,
        value_name = "yes|no",
        value_parser = PossibleValuesParser::new(["yes", "no"]).map(|it| it == "yes"),
        hide_possible_values = true
    )]
    pub(super) record_texts: Option<bool>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Task {
    /// Show a crash that the editor does not notice
    #[command(long_about = "Show a crash that the editor does not notice\n\n\
                      Plays an editor, kills its language server, and checks what the editor sees. The servers are recordings \
                      inside lspool: the demo needs no account, no server and no network, and leaves nothing behind.")]
    Demo,
    /// Print the settings for an editor
    #[command(long_about = "Print the settings for an editor\n\n\
                      Prints what to write into the settings of an editor so that it starts lspool in front of its servers. \
                      Without a name, it takes the first known server on PATH for each language, and names the others.")]
    Setup {
        /// The editor
        #[arg(value_name = "EDITOR")]
        editor: Editor,
        /// A server such as pyright, gopls or copilot, or a group such as python
        #[arg(value_name = "SERVER|GROUP")]
        servers: Vec<String>,
    },
    /// Start every configured server and report whether it works
    #[command(
        after_help = "Exit status: 0 if every server works, 1 if one does not, 2 if the configuration cannot be used. A server \
                      where nobody is signed in works."
    )]
    Check {
        /// Also report executables that lspool found but does not use
        #[arg(short, long)]
        verbose: bool,
        /// Check the servers of this group, and report which member serves what
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
        #[command(flatten)]
        file: ConfigFile,
        /// Check this server instead of the configured ones; further ones after another --
        #[arg(last = true, value_name = "SERVER")]
        server: Vec<String>,
    },
    /// List the agents of the current folder
    #[command(long_about = "List the agents of the current folder\n\n\
                      Shows where each agent and worker is defined, its model, its tools, and its process.")]
    Agents {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Exit with 1 if an agent file has an error
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Show each running lspool and its servers
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Keep running until q or Ctrl-C, and redraw on changes
        #[arg(long)]
        watch: bool,
        /// Also show the ids of conversations with fewer than all tools
        #[arg(short, long, conflicts_with = "watch")]
        long: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Restart a server or partition
    #[command(long_about = "Restart a server or partition\n\n\
                      Also starts one that was stopped or has failed.")]
    Restart {
        #[command(flatten)]
        backend: Named,
        /// Act on every lspool that has such a server
        #[arg(long, conflicts_with = "pid")]
        all: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Stop a server, or a partition until its next turn
    #[command(long_about = "Stop a server until you restart it, or a partition until its next turn")]
    Stop {
        #[command(flatten)]
        backend: Named,
        /// Act on every lspool that has such a server
        #[arg(long, conflicts_with = "pid")]
        all: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Cancel one sub-agent, team member or worker
    #[command(
        long_about = "Cancel one sub-agent, the turn of one team member, or the task of one worker\n\n\
                      The others continue."
    )]
    Cancel {
        /// The agent, as `lspool status` shows it
        #[arg(value_name = "NAME")]
        name: String,
        /// The lead's conversation, team, or orchestration of the agent, if several have one of this name
        #[arg(long, value_name = "ID")]
        of: Option<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Move conversations to a process or a chat mode
    #[command(long_about = "Move conversations to a process or a chat mode, from their next turn on")]
    Move {
        /// A conversation, or a tool set as `lspool status` shows it under TOOLS [default: all]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// What keeps them to their tools
        #[arg(long, value_name = "KIND", value_parser = ["process", "mode"])]
        to: String,
        #[command(flatten)]
        which: Which,
    },
    /// Print what a server wrote to stderr
    Logs {
        #[command(flatten)]
        backend: Named,
        /// Keep running and print new lines
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Read the configuration files again
    Reload {
        #[command(flatten)]
        which: Which,
    },
    /// Show a recording as a timeline
    #[command(
        long_about = "Show a recording as a timeline: conversations, requests and their times, tool calls, crashes",
        after_help = "For example, for a browser:\n  lspool inspect --html session.jsonl > session.html"
    )]
    Inspect {
        /// A recording of lspool, or a transcript
        file: PathBuf,
        /// Show only this conversation
        #[arg(long, value_name = "ID")]
        conversation: Option<String>,
        /// Show only messages of these methods; `*` matches anything
        #[arg(long, value_name = "GLOB")]
        method: Option<String>,
        /// Show only what went wrong
        #[arg(long)]
        errors: bool,
        /// Print a page for a browser instead
        #[arg(long)]
        html: bool,
    },
    /// Replay a recording and compare
    #[command(
        long_about = "Replay a recording and compare\n\n\
                      Gives the recorded events to lspool, and reports the first effect that differs from the recording. If \
                      stdout is not a terminal, it also prints each effect.",
        after_help = "Exit status: 0 if all effects are the same, 1 if one differs, 2 if a file cannot be used."
    )]
    Replay(Replay),
    /// Act as a server from a recording
    #[command(long_about = "Act as a server from a recording\n\n\
                      Answers on stdin and stdout as the recorded server did.")]
    ServeRecording {
        /// A recording of lspool, or a transcript [default: a session with four agents, inside lspool]
        file: Option<PathBuf>,
        /// The recorded process to play, or `*` to answer each request like the process that got it [default: lspool
        /// itself, in a recording of lspool]
        #[arg(long, value_name = "NAME")]
        proc: Option<String>,
        /// Whether to answer at once or at the recorded times
        #[arg(
            long,
            value_name = "SPEED",
            default_value = "fast",
            value_parser = PossibleValuesParser::new(["real", "fast"])
                .map(|it| if it == "real" { Speed::Real } else { Speed::Fast })
        )]
        speed: Speed,
        /// Exit with 1 if the client differs from the recorded one, and say how
        #[arg(long)]
        strict: bool,
        /// Accepted and ignored
        #[arg(long, hide = true)]
        stdio: bool,
    },
    /// Sign in to GitHub Copilot, without an editor
    #[command(
        long_about = "Sign in to GitHub Copilot, without an editor\n\n\
                      lspool shows a code, which you enter in a browser on any machine.",
        after_help = "Exit status: 0 if you are signed in, 1 if you are not, 2 if the server could not start, 130 after Ctrl-C."
    )]
    Login {
        #[command(flatten)]
        serving: Serving,
        /// The server and its arguments [default: the configured one, or copilot-language-server]
        #[arg(last = true, value_name = "SERVER")]
        command: Vec<String>,
    },
    /// Ask language servers about code, without an editor
    #[command(
        long_about = "Ask language servers about code, without an editor\n\n\
                      Starts the servers for the languages of the workspace, asks, and ends them. An answer says whether it is \
                      complete.",
        after_help = "For example:\n  lspool lsp references Graph/add_node\n  lspool lsp definition src/app.py:10:4 --body\n  \
                      lspool lsp diagnostics src/app.py\n\n\
                      Exit status: 0 if done, 1 if there is no such symbol or there are diagnostics, 2 if the command is wrong, \
                      3 if the answer may not be complete or not be true, 4 if there is no server."
    )]
    Lsp {
        #[command(flatten)]
        asked: Lsp,
        #[command(flatten)]
        serving: Serving,
    },
    /// Serve the code tools to an agent, over MCP
    #[command(
        long_about = "Serve the code tools to an agent, over MCP\n\n\
                      An agent starts this command and speaks the Model Context Protocol on stdin and stdout. lspool starts the \
                      servers for the languages of the workspace, and ends when stdin does.\n\n\
                      The workspace is what --root says; else the folders that the agent tells; else CLAUDE_PROJECT_DIR; else \
                      the current folder, or the one above it that has a .git.",
        after_help = "For example:\n  lspool mcp --install codex\n  lspool mcp --install claude --write"
    )]
    Mcp {
        #[command(flatten)]
        asked: Mcp,
        #[command(flatten)]
        serving: Serving,
    },
    /// Let language servers run programs of a project
    #[command(
        long_about = "Let language servers run programs of a project\n\n\
                      rust-analyzer runs build scripts and macros, and gopls runs the go command. `lspool lsp`, `lspool mcp` and \
                      conversations use them only in folders that you trust.",
        after_help = "Exit status: 0 if done, 1 if a folder above is trusted, too, 2 if the command is wrong."
    )]
    Trust {
        /// The folder [default: the current one]
        #[arg(value_name = "DIR", conflicts_with = "list")]
        folder: Option<PathBuf>,
        /// Trust it no longer
        #[arg(long, conflicts_with = "list")]
        remove: bool,
        /// List the trusted folders
        #[arg(long)]
        list: bool,
    },
    /// Let workers reach a goal in the current folder
    #[command(
        long_about = "Let workers reach a goal in the current folder\n\n\
                      lspool makes a plan, gives its tasks to workers, and prints a summary.",
        after_help = "Workers create and overwrite files in the current folder without asking. They ask before they run a \
                      command. Begin with a clean git tree.\n\n\
                      Exit status: 0 if all tasks are done, 1 if one has failed or was skipped, 2 if nothing could be done, 130 \
                      after Ctrl-C."
    )]
    Orchestrate {
        #[command(flatten)]
        task: Orchestrate,
        #[command(flatten)]
        serving: Serving,
    },
    /// Print what a configuration file may contain
    Config {
        #[command(subcommand)]
        task: ConfigTask,
    },
    /// Print completions for a shell
    #[command(
        after_help = "For example, for bash:\n  lspool completions bash > ~/.local/share/bash-completion/completions/lspool"
    )]
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print a manual page
    #[command(after_help = "For example:\n  lspool man status | man -l -")]
    Man {
        /// A command [default: lspool itself]
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
}

/// `lspool config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(super) enum ConfigTask {
    /// Print the JSON schema
    #[command(after_help = "An editor with TOML support checks and completes a file that begins with\n  \
                      #:schema /path/to/config.schema.json")]
    Schema,
}

/// `lspool replay`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(in crate::cli) struct Replay {
    /// The recording
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
    /// Compare with the effects in this file: a recording, or the output of an earlier replay
    #[arg(long, value_name = "EXPECTED")]
    pub(in crate::cli) diff: Option<PathBuf>,
    /// Print each effect, also to a terminal
    #[arg(long, conflicts_with = "diff")]
    pub(in crate::cli) effects: bool,
    /// Stop after the event on line N
    #[arg(long, value_name = "N")]
    pub(in crate::cli) until: Option<usize>,
}

/// `lspool orchestrate`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
// The command has a group of this name.
#[group(skip)]
pub(in crate::cli) struct Orchestrate {
    /// The goal, in quotes
    #[arg(value_name = "GOAL", required_unless_present = "resume")]
    pub(in crate::cli) goal: Option<String>,
    /// Continue the last unfinished goal of this folder; tasks that are done stay done
    #[arg(long, conflicts_with_all = ["goal", "worker", "workers"])]
    pub(in crate::cli) resume: bool,
    /// Give the goal to this worker as its only task, without a plan
    #[arg(long, value_name = "ROLE")]
    pub(in crate::cli) worker: Option<String>,
    /// How often a failed task starts again [default: `retries` of the configuration]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) retries: Option<u32>,
    /// A file with [worker.ROLE] sections [default: the workers of the configuration]
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) workers: Option<PathBuf>,
    /// The model for the plan, the summary, and workers without a model: an id, a name, or a tier
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) model: Option<String>,
    /// Print events as JSON, one per line
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Run the commands of workers without asking
    #[arg(long)]
    pub(in crate::cli) yes: bool,
    /// The server and its arguments [default: the configured one, or copilot-language-server]
    #[arg(last = true, value_name = "SERVER")]
    pub(in crate::cli) command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// Use the lspool with this process id
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Named {
    /// A server as `lspool status` shows it under SERVER, or a partition as under TOOLS; its beginning is enough
    #[arg(value_name = "NAME")]
    name: String,
}

fn reach(all: bool) -> Reach {
    if all { Reach::All } else { Reach::One }
}

impl Task {
    /// What is to be done, and the options of lspool itself that were given with it.
    pub(super) fn command(self) -> Result<(Command, Serving), String> {
        let nothing = Serving::default();
        let with = |file: ConfigFile| Serving { file, ..Serving::default() };
        let (task, which) = match self {
            Task::Demo => return Ok((Command::Demo, nothing)),
            Task::Setup { editor, servers } => return Ok((Command::Setup { editor, servers }, nothing)),
            Task::Check { verbose, group, file, server } => {
                let servers = CliServers { group, commands: commands(server)? };
                return Ok((Command::Check { is_verbose: verbose, servers }, with(file)));
            }
            Task::Agents { json, check, file } => return Ok((Command::Agents { json, check }, with(file))),
            Task::Replay(replay) => return Ok((Command::Replay(replay), nothing)),
            Task::Trust { list: true, .. } => return Ok((Command::Trust(trust::Task::List), nothing)),
            Task::Trust { folder, remove: true, list: false } => {
                return Ok((Command::Trust(trust::Task::Remove(folder)), nothing));
            }
            Task::Trust { folder, remove: false, list: false } => {
                return Ok((Command::Trust(trust::Task::Add(folder)), nothing));
            }
            Task::Mcp { asked, serving } => return Ok((Command::Mcp(asked), serving)),
            Task::Lsp { asked, serving } => return Ok((Command::Lsp(asked), serving)),
            Task::Login { serving, command } => return Ok((Command::Login(one_command(command)?), serving)),
            Task::Orchestrate { mut task, serving } => {
                task.command = one_command(task.command)?;
                return Ok((Command::Orchestrate(task), serving));
            }
            Task::Config { task: ConfigTask::Schema } => return Ok((Command::Schema, nothing)),
            Task::Completions { shell } => return Ok((Command::Completions(shell), nothing)),
            Task::Man { command } => return Ok((Command::Man(command), nothing)),
            Task::Inspect { file, conversation, method, errors, html } => {
                let filter = inspect::Filter { conversation, method, only_errors: errors };
                return Ok((Command::Inspect { file, filter, html }, nothing));
            }
            Task::ServeRecording { file, proc: process, speed, strict: is_strict, stdio: _ } => {
                return Ok((Command::ServeRecording { file, process, speed, is_strict }, nothing));
            }
            Task::Status { json, watch, long, which } => {
                (instances::Task::Status { json, watch, long }, which)
            }
            Task::Restart { backend, all, which } => {
                (instances::Task::Restart { name: backend.name, reach: reach(all) }, which)
            }
            Task::Stop { backend, all, which } => {
                (instances::Task::Stop { name: backend.name, reach: reach(all) }, which)
            }
            Task::Cancel { name, of, which } => (instances::Task::Cancel { name, of }, which),
            Task::Move { name, to, which } => (instances::Task::Move { name, to }, which),
            Task::Logs { backend, follow, which } => {
                (instances::Task::Logs { name: backend.name, follow }, which)
            }
            Task::Reload { which } => (instances::Task::Reload, which),
        };
        Ok((Command::Instances { task, pid: which.pid }, nothing))
    }
}

impl Flags {
    /// A transport that other language servers have.
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
