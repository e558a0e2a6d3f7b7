//! `lspool status`, `restart`, `stop`, `cancel`, `move`, `logs` and `reload`: what is said to those that are running.
//!
//! Owns finding and choosing a running lspool, and the output. The commands use its control socket, with the same
//! requests that an editor may send (`docs/control.md`).

mod client;
mod commands;
mod logs;
mod partitions;
mod pick;
mod report;
#[cfg(unix)]
#[cfg(test)]
mod tests;
mod watch;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use self::{client::Error, pick::Found};
pub(super) use self::{
    partitions::partitions,
    pick::{is_nobody, sockets},
};
use super::{
    screen::Screen,
    tell,
    world::{self, unix_millis},
};
use crate::shell::{
    control,
    discover::Env,
    os::{keys::Keys, signals::Interrupts},
};

/// The request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Show the state of all.
    Status {
        /// Whether to print JSON.
        json: bool,
        /// Whether to print each change.
        watch: bool,
        /// Whether to print the ids of conversations.
        long: bool,
    },
    /// Restart a backend.
    Restart {
        /// Its name.
        name: String,
        reach: Reach,
    },
    /// Stop a backend.
    Stop {
        /// Its name.
        name: String,
        reach: Reach,
    },
    /// End the work of one agent.
    Cancel {
        /// Its name.
        name: String,
        /// Whose it is, if several have the name.
        of: Option<String>,
    },
    /// How conversations are kept to their tools.
    Move {
        /// A conversation or a tool set. Without a name, all.
        name: Option<String>,
        /// `process` or `mode`.
        to: String,
    },
    /// Print the stderr of a backend's processes.
    Logs {
        /// The backend.
        name: String,
        /// Whether to continue with new lines.
        follow: bool,
    },
    /// Reload the configuration.
    Reload,
}

/// The lspools that a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The only one that fits, or of several the one of the current folder.
    One,
    /// All that fit.
    All,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The backend, or lspool, failed.
    Failed(String),
    /// The name matches none, or several.
    Usage(String),
    /// No lspool is running.
    Nobody(String),
    /// The reader of the output has closed the pipe.
    Unread,
}

impl Failure {
    /// The exit status.
    fn status(&self) -> u8 {
        match self {
            Failure::Unread => 0,
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Nobody(_) => 3,
        }
    }

    /// The message to print, if any.
    fn message(&self) -> Option<&str> {
        match self {
            Failure::Unread => None,
            Failure::Failed(message) | Failure::Usage(message) | Failure::Nobody(message) => Some(message),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Unread,
            _ => Failure::Failed(format!("cannot write to stdout: {error}")),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Invalid(message) => Failure::Usage(message),
            Error::Refused(message) => Failure::Failed(message),
            Error::Gone(reason) => Failure::Failed(format!("lspool is gone: {reason}")),
        }
    }
}

/// Runs the request and prints the result.
pub(super) fn run(task: &Task, pid: Option<u32>, screen: Screen) -> anyhow::Result<ExitCode> {
    let folders = control::folders(&Env::real());
    let mut out = io::stdout();
    let asking = ask(task, pid, &folders, &mut out, screen);
    let Err(failure) = world::runtime()?.block_on(asking) else { return Ok(ExitCode::SUCCESS) };
    // A failure that was printed with the result has no message.
    if let Some(message) = failure.message().filter(|it| !it.is_empty()) {
        tell(message);
    }
    Ok(ExitCode::from(failure.status()))
}

/// Runs the request. `folders` are those with sockets; `pid` chooses one lspool.
async fn ask(
    task: &Task,
    pid: Option<u32>,
    folders: &[PathBuf],
    out: &mut dyn Write,
    screen: Screen,
) -> Result<(), Failure> {
    let done = perform(task, pid, folders, out, screen).await;
    // A program gets its JSON document also after a failure.
    match (task, &done) {
        (Task::Status { json: true, watch: true, .. }, Err(Failure::Nobody(_))) => {
            writeln!(out, "{}", report::json(&[]))?;
        }
        (Task::Status { json: true, watch: false, .. }, Err(Failure::Nobody(_))) => {
            writeln!(out, "{:#}", report::json(&[]))?;
        }
        _ => {}
    }
    done
}

async fn perform(
    task: &Task,
    pid: Option<u32>,
    folders: &[PathBuf],
    out: &mut dyn Write,
    screen: Screen,
) -> Result<(), Failure> {
    if let Task::Status { json, watch: true, .. } = task {
        return watch::run(folders, pid, *json, out, screen).await;
    }
    let Found { mut seen, refused } = pick::look(folders, pid).await;
    if seen.is_empty() {
        return Err(nobody(pid, &refused));
    }
    for problem in refused {
        // The reader may have closed the pipe.
        writeln!(io::stderr(), "lspool: {problem}; lspool ignores the sockets there").ok();
    }
    match task {
        Task::Status { json: true, .. } => writeln!(out, "{:#}", report::json(&seen))?,
        Task::Status { json: false, long, .. } => {
            for it in seen.iter_mut().filter_map(|it| it.answer.as_mut().ok()) {
                it.status.is_long = *long;
            }
            write!(out, "{}", report::text(&seen, unix_millis(), screen))?;
        }
        Task::Restart { name, reach } => commands::act(seen, "lspool/restart", name, *reach, out).await?,
        Task::Stop { name, reach } => commands::act(seen, "lspool/stop", name, *reach, out).await?,
        Task::Cancel { name, of } => commands::cancel(seen, name, of.as_deref(), out).await?,
        Task::Logs { name, follow } => logs::run(seen, name, *follow, out).await?,
        Task::Move { name, to } => commands::relocate(seen, name.as_deref(), to, out).await?,
        Task::Reload => commands::reload(&mut seen, out).await?,
    }
    Ok(())
}

fn nobody(pid: Option<u32>, refused: &[String]) -> Failure {
    let mut message = match pid {
        Some(pid) => format!("no lspool with pid {pid} is running"),
        None => "no lspool is running".to_owned(),
    };
    for problem in refused {
        message.push_str("; ");
        message.push_str(problem);
        message.push_str("; lspool ignores the sockets there");
    }
    Failure::Nobody(message)
}
