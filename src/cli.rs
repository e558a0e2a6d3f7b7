//! The command line and its commands, one file each; the only place that prints to people.
//!
//! Decides nothing about messages. A command that serves puts [`core`](crate::core) and [`shell`](crate::shell)
//! together and lets them run; the others ask a running lspool, or read a file. Nothing else uses this module.
//!
//! - `args`: what a command line asks for
//! - `serve`, `orchestrate`, `login`: lspool for an editor, for a goal typed at a terminal, and for signing in
//! - `demo`, `setup`: lspool for somebody who does not know it yet
//! - `hub`: a server for several lspools
//! - `check`, `agents`: what is configured
//! - `lsp`, `mcp`, `code_tools`: questions about code to language servers, without an editor; `conversation_tools` brings
//!   them to the conversations of one
//! - `instances`: `status`, `restart`, `stop`, `cancel`, `move`, `logs` and `reload`, which talk to a running lspool
//! - `inspect`, `replay`, `serve_recording`: what recordings are for
//! - `describe`: completions, manual pages and the schema
//! - `world`, `log`, `search`: shared by the commands that start servers
//! - `client`: a connection to lspool, for commands that act as its editor
//! - `screen`, `table`, `columns`: the layout of output

mod agents;
mod args;
mod check;
mod client;
mod code_tools;
mod columns;
mod conversation_tools;
mod demo;
mod describe;
mod editor_link;
mod hub;
mod inspect;
mod instances;
mod log;
mod login;
mod lsp;
mod mcp;
mod orchestrate;
mod replay;
mod screen;
mod search;
mod serve;
mod serve_recording;
mod setup;
mod table;
mod trust;
mod world;

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;

use self::{args::Command, screen::Screen};
use crate::shell::{discover::Env, guard, shared, tools};

/// Exit status without a server, or if a command cannot begin.
const NOTHING_TO_SERVE: u8 = 2;

/// Runs a command line, with the name of the program first. Exits at once after an error or help.
pub fn run(words: &[OsString]) -> ExitCode {
    // This comes first: the guard should be small and start quickly.
    if let [_, first, rest @ ..] = words {
        if first == OsStr::new(guard::SUBCOMMAND) {
            return guard::serve(rest.first().map_or(OsStr::new(""), OsString::as_os_str));
        }
        if first == OsStr::new(shared::SUBCOMMAND) && rest.is_empty() {
            return hub::run();
        }
        if first == OsStr::new(tools::SUBCOMMAND) {
            return tools::serve(rest.iter().cloned());
        }
    }
    let args = args::parse(words).at_home(&Env::real());
    let screen = Screen::stdout(args.color);
    let done = match args.command.clone() {
        Command::Serve(servers) => serve::run(&args, servers),
        Command::Demo => demo::run(screen),
        Command::Setup { editor, servers } => setup::run(&args, editor, &servers),
        Command::Check { is_verbose, servers } => check::run(&args, &servers, is_verbose, screen),
        Command::Agents { json, check } => agents::run(&args, json, check, screen),
        Command::Replay(task) => replay::run(&task),
        Command::Orchestrate(task) => orchestrate::run(&args, task, screen),
        Command::Lsp(asked) => lsp::run(&args, &asked),
        Command::Mcp(asked) => mcp::run(&args, &asked),
        Command::Trust(task) => trust::run(&task),
        Command::Login(server) => login::run(&args, server),
        Command::Instances { task, pid } => instances::run(&task, pid, screen),
        Command::ServeRecording { file, process, speed, is_strict } => {
            serve_recording::run(file.as_deref(), process.as_deref(), speed, is_strict)
        }
        Command::Inspect { file, filter, html } => inspect::run(&file, &filter, html, screen),
        Command::Schema => describe::schema(),
        Command::Completions(shell) => describe::completions(shell),
        Command::Man(command) => describe::man(command.as_deref()),
    };
    done.unwrap_or_else(|error| {
        tell(&format!("{error:#}"));
        ExitCode::from(NOTHING_TO_SERVE)
    })
}

/// Writes to stderr, and ignores a closed pipe.
fn tell(words: &str) {
    writeln!(io::stderr(), "lspool: {words}").ok();
}

/// Prints the result of a command. Ignores a reader that has closed the pipe, as `head` does; fails on a full disk.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
