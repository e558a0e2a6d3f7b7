//! Starts a hub.
//!
//! The hub gets its errand on its stdin, so no command line shows a secret. It says on its stdout that it listens, or
//! why it does not. It has its own session and outlives this lspool.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
};

use super::place::HubPlace;
use crate::{
    config::LogLevel,
    core::event::Launch,
    shell::{
        guard::MARK,
        os::{paths, processes},
    },
};

/// The subcommand.
pub const SUBCOMMAND: &str = "hub";

/// What a hub says when it listens.
const LISTENING: &str = "listening";

/// The longest line from a hub.
const LONGEST: u64 = 4 << 10;

/// The longest errand. A command line is shorter than 2 MiB.
const LONGEST_ERRAND: u64 = 16 << 20;

/// The log of an lspool, which is its hubs' too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubLog {
    /// Its file.
    pub file: PathBuf,
    /// Its level.
    pub level: LogLevel,
}

/// What a hub is started for.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// Where it listens.
    pub socket: PathBuf,
    /// Its server.
    pub launch: Launch,
    /// Where its log goes.
    pub log: Option<HubLog>,
}

impl Errand {
    /// Reads the errand of this process from its stdin.
    pub fn read() -> io::Result<Errand> {
        let mut line = String::new();
        BufReader::new(io::stdin().lock().take(LONGEST_ERRAND)).read_line(&mut line)?;
        serde_json::from_str(&line).map_err(|error| {
            // Without the text, which may have a secret.
            io::Error::other(format!("the errand cannot be read at column {}", error.column()))
        })
    }

    /// Says that this process listens.
    pub fn note_listening() {
        say(LISTENING);
    }

    /// Says why this process does not listen.
    pub fn note_failure(why: &str) {
        say(&why.replace('\n', " "));
    }
}

fn say(line: &str) {
    // The client may be gone; the hub ends when nobody comes.
    writeln!(io::stdout(), "{line}").ok();
}

/// Starts a hub, and waits until it listens. The error says why it does not.
pub(super) async fn start(
    program: &Path,
    place: &HubPlace,
    launch: &Launch,
    log: Option<&HubLog>,
) -> Result<(), String> {
    let fault = |error: &dyn std::fmt::Display| format!("its hub could not start: {error}");
    let mut child = Command::from(processes::command(program))
        .arg(SUBCOMMAND)
        // The guard of this lspool must not end it.
        .env_remove(MARK)
        .current_dir(paths::root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| fault(&error))?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        unreachable!("the streams of a child were asked for");
    };
    let errand = Errand { socket: place.socket().to_owned(), launch: launch.clone(), log: log.cloned() };
    let mut line = serde_json::to_vec(&errand).map_err(|error| fault(&error))?;
    line.push(b'\n');
    // One that does not read it says why on its stdout.
    stdin.write_all(&line).await.ok();
    drop(stdin);
    let mut answer = String::new();
    tokio::io::BufReader::new(stdout.take(LONGEST))
        .read_line(&mut answer)
        .await
        .map_err(|error| fault(&error))?;
    match answer.trim_end() {
        LISTENING => Ok(()),
        "" => Err(fault(&"it ended")),
        why => Err(fault(&why)),
    }
}
