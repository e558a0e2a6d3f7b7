//! Makes the fixtures anew, or tells how a server behaves otherwise than they say: `scripts/record` builds and starts this.

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::{ffi::OsString, fs, io::Write as _, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Parser;

use support::{
    drift::Check,
    sessions::{SESSIONS, Servers, Session},
};

/// A difference counts if it is there each time.
const TIMES: usize = 3;

#[derive(Parser)]
struct Arguments {
    /// Compare with the fixtures, and write nothing.
    #[arg(long)]
    check: bool,
    /// This session, and no other but those that are named as well.
    #[arg(long = "session", value_name = "NAME")]
    sessions: Vec<String>,
    /// The command of the server; without arguments, `--stdio` is put behind it. The pinned one, if none is given.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    server: Vec<OsString>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut servers = Servers::pinned(lspool()?);
    if !arguments.server.is_empty() {
        servers.copilot = arguments.server;
        if servers.copilot.len() == 1 {
            servers.copilot.push("--stdio".into());
        }
    }
    let named = |name: &String| Session::named(name).with_context(|| unknown(name));
    let sessions: Vec<&Session> = match arguments.sessions.as_slice() {
        [] => SESSIONS.iter().collect(),
        names => names.iter().map(named).collect::<anyhow::Result<_>>()?,
    };
    let mut out = std::io::stdout();
    if arguments.check {
        let check = Check::run(&sessions, &servers, TIMES);
        write!(out, "{check}")?;
        return Ok(if check.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) });
    }
    for session in sessions {
        let played = session.play(&servers);
        if let Some(problem) = played.problem {
            bail!("{}: {problem}", session.name);
        }
        fs::write(session.fixture(), &played.text)?;
        writeln!(out, "{}: {} lines", session.name, played.text.lines().count())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = SESSIONS.iter().map(|it| it.name).collect();
    format!("there is no session {name}; there are: {}", names.join(", "))
}

/// It was built together with this.
fn lspool() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe()?;
    let folder =
        this.parent().and_then(|it| it.parent()).context("examples are built into a folder of their own")?;
    Ok(folder.join("lspool"))
}
