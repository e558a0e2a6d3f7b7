//! `lspool status`, `restart`, `stop`, `move`, `logs` and `reload`: what is said to those that are running.
//!
//! Owns how they are found, which of them is meant, and what is shown. They do the work: each is asked over its
//! control socket, in the same words that an editor may use (`docs/control.md`).

mod agents;
mod client;
mod pick;
mod report;
mod screen;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    io::{self, Write},
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use agents::partitions;
use client::{Client, Error};
use pick::{Found, Seen};
pub(crate) use report::{plain, shorten};
pub use screen::Screen;
pub(crate) use screen::{NO_WRAP, Tone, WRAP};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// What all of them are doing.
    Status {
        /// For a program.
        json: bool,
        /// Again whenever it changes.
        watch: bool,
        /// With the ids of conversations.
        long: bool,
    },
    /// Start a backend anew.
    Restart(String),
    /// End a backend's process.
    Stop(String),
    /// How conversations are kept to their tools.
    Move {
        /// A conversation or a tool set; all of them.
        name: Option<String>,
        /// By what.
        to: String,
    },
    /// What a backend's processes have written to stderr.
    Logs {
        /// Which backend.
        name: String,
        /// And what they go on to write.
        follow: bool,
    },
    /// Read the configuration anew.
    Reload,
}

/// Why a command did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The backend, or lspool, did not do it.
    Failed(String),
    /// Nobody can be meant, or several.
    Usage(String),
    /// No lspool is running.
    Nobody(String),
    /// Whoever read what was written reads no more.
    Unread,
}

impl Failure {
    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Unread => 0,
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Nobody(_) => 3,
        }
    }

    /// What to tell, if anything.
    pub fn message(&self) -> Option<&str> {
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
            _ => Failure::Failed(format!("cannot write what there is to say: {error}")),
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

/// Does it. `folders` are where sockets may be; `pid` is the one that is meant.
pub async fn run(
    task: &Task,
    pid: Option<u32>,
    folders: &[PathBuf],
    out: &mut dyn Write,
    screen: Screen,
) -> Result<(), Failure> {
    let done = perform(task, pid, folders, out, screen).await;
    // A program gets its document all the same.
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
        // Nobody may read it any more.
        writeln!(io::stderr(), "lspool: {problem}, so nothing in there is asked").ok();
    }
    match task {
        Task::Status { json: true, .. } => writeln!(out, "{:#}", report::json(&seen))?,
        Task::Status { json: false, long, .. } => {
            for it in seen.iter_mut().filter_map(|it| it.answer.as_mut().ok()) {
                it.status.is_long = *long;
            }
            write!(out, "{}", report::text(&seen, now(), screen))?;
        }
        Task::Restart(name) => act(seen, "lspool/restart", name, out).await?,
        Task::Stop(name) => act(seen, "lspool/stop", name, out).await?,
        Task::Logs { name, follow } => logs(seen, name, *follow, out).await?,
        Task::Move { name, to } => relocate(seen, name.as_deref(), to, out).await?,
        Task::Reload => reload(&mut seen, out).await?,
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
        message.push_str(", so nothing in there is asked");
    }
    Failure::Nobody(message)
}

/// Asks for a backend's state to be changed, and waits until it has.
async fn act(seen: Vec<Seen>, method: &str, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let (mut client, name) = pick::backend(seen, name)?;
    match client.request(method, &json!({"name": name})).await {
        Ok(answer) => {
            let state = answer["state"].as_str().unwrap_or("done");
            Ok(writeln!(out, "{}: {}", plain(&name), plain(state))?)
        }
        Err(Error::Refused(why)) => {
            // `NAME has failed: why`, or something that kept it from being tried.
            let why =
                why.strip_prefix(&format!("{name} has ")).map_or(format!("failed: {why}"), ToOwned::to_owned);
            writeln!(out, "{}: {}", plain(&name), plain(&why))?;
            Err(Failure::Failed(String::new()))
        }
        Err(other) => Err(other.into()),
    }
}

/// Asks all for it: whoever has what is meant does it.
async fn relocate(seen: Vec<Seen>, name: Option<&str>, to: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let mut problems = Vec::new();
    let (mut is_done, mut is_named) = (false, false);
    for it in seen {
        let pid = it.instance.pid;
        let answer = match it.answer {
            Ok(mut answer) => answer.client.request("lspool/move", &json!({"name": name, "to": to})).await,
            Err(problem) => Err(Error::Refused(problem)),
        };
        match answer {
            Ok(answer) => {
                is_done = true;
                let moved = answer["conversations"].as_array().map(Vec::len).unwrap_or_default();
                let what =
                    if moved == 1 { "1 conversation".to_owned() } else { format!("{moved} conversations") };
                writeln!(out, "lspool {pid}: {what}: {to}")?;
                for it in answer["refused"].as_array().into_iter().flatten() {
                    let [id, why] =
                        ["conversation", "why"].map(|key| plain(it[key].as_str().unwrap_or_default()));
                    writeln!(out, "lspool {pid}: not moved: {id}: {why}")?;
                }
            }
            Err(error) => {
                is_named |= !matches!(error, Error::Invalid(_));
                problems.push(format!("lspool {pid}: {}", plain(&error.to_string())));
            }
        }
    }
    match (is_done, is_named) {
        (true, _) => Ok(()),
        (false, true) => Err(Failure::Failed(problems.join("\n"))),
        (false, false) => Err(Failure::Usage(problems.join("\n"))),
    }
}

async fn logs(seen: Vec<Seen>, name: &str, follow: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let (mut client, name) = pick::backend(seen, name)?;
    let mut interrupts = Interrupts::listen();
    let params = json!({"name": name, "follow": follow});
    let answer = tokio::select! {
        answer = client.request("lspool/logs", &params) => answer?,
        () = interrupts.next() => return Ok(()),
    };
    let lines = answer["lines"].as_array().map(Vec::as_slice).unwrap_or_default();
    for line in lines.iter().filter_map(Value::as_str) {
        writeln!(out, "{}", plain(line))?;
    }
    out.flush()?;
    if follow { listen(&mut client, &mut interrupts, out).await } else { Ok(()) }
}

/// Writes each further line until lspool ends, and with it its logs.
async fn listen(
    client: &mut Client,
    interrupts: &mut Interrupts,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    loop {
        let told = tokio::select! {
            told = client.told() => told,
            () = interrupts.next() => return Ok(()),
        };
        let Ok((method, params)) = told else { return Ok(()) };
        if method == "lspool/log"
            && let Some(line) = params["line"].as_str()
        {
            writeln!(out, "{}", plain(line))?;
            out.flush()?;
        }
    }
}

async fn reload(seen: &mut [Seen], out: &mut dyn Write) -> Result<(), Failure> {
    let mut has_failed = false;
    for it in seen {
        let answer = match &mut it.answer {
            Ok(answer) => {
                answer.client.request("lspool/reload", &json!({})).await.map_err(|error| error.to_string())
            }
            Err(problem) => Err(problem.clone()),
        };
        let pid = it.instance.pid;
        match answer {
            Ok(answer) => {
                let changed = answer["changed"].as_array().map(Vec::as_slice).unwrap_or_default();
                let words: Vec<_> = changed.iter().filter_map(Value::as_str).map(plain).collect();
                let what = match words.as_slice() {
                    [] => "nothing has changed".to_owned(),
                    words => format!("changed: {}", words.join(", ")),
                };
                writeln!(out, "lspool {pid}: {what}")?;
            }
            Err(why) => {
                has_failed = true;
                writeln!(out, "lspool {pid}: failed: {}", plain(&why))?;
            }
        }
    }
    if has_failed { Err(Failure::Failed(String::new())) } else { Ok(()) }
}

/// Ctrl-C, which is how one ends what goes on for ever.
///
/// Made once and kept: the first that listens takes the signal's default effect away for good, so that one which comes
/// while nobody listens would have none.
struct Interrupts(io::Result<Signal>);

impl Interrupts {
    /// Must be called within the runtime.
    fn listen() -> Interrupts {
        Interrupts(signal(SignalKind::interrupt()))
    }

    /// Waits for one; what has come since the last is not lost.
    async fn next(&mut self) {
        match &mut self.0 {
            Ok(signals) => drop(signals.recv().await),
            Err(_) => std::future::pending().await,
        }
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "there is no core here; what is shown is relative to now")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
