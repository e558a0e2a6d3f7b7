//! Records each lspool that a test starts. The recording must replay without a difference, and contain no secrets.
//!
//! `LSPOOL_TAPES=FOLDER` keeps the recordings.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use lspool::{recording::replay::first_difference, shell::record::VARIABLE};
use tempfile::TempDir;

/// A recording; `None` if the server is not lspool.
pub struct Tape {
    folder: TempDir,
    /// It is lspool that is started, and not what starts it, or something else.
    is_certain: bool,
}

/// How each token of the tests begins, and what else must never be in a recording.
const SECRETS: [&str; 5] = ["gho_", "ghu_", "ghp_", "tid=", "eyJ"];

impl Tape {
    /// Tells a server where to record.
    pub fn of(command: &mut Command) -> Tape {
        // Another place, or none.
        let is_elsewhere = command.get_args().any(|it| it == "--record")
            || command.get_envs().any(|(name, value)| name == VARIABLE && value.is_some());
        // A server made of a recording makes none.
        let is_server = command.get_args().next().is_some_and(|it| it == "serve-recording");
        let is_certain = Path::new(command.get_program()).ends_with("lspool") && !is_elsewhere && !is_server;
        let tape = Tape { folder: tempfile::tempdir().expect("a temporary folder"), is_certain };
        if !is_elsewhere {
            command.env(VARIABLE, tape.file());
        }
        tape
    }

    /// The recording.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("session.jsonl")
    }

    /// Replays what there is by now.
    #[track_caller]
    pub fn check(&self) {
        let recording = match std::fs::read(self.file()) {
            Ok(recording) => recording,
            Err(error) => return assert!(!self.is_certain, "there is no recording: {error}"),
        };
        if let Some(folder) = std::env::var_os("LSPOOL_TAPES") {
            let name = std::thread::current().name().unwrap_or("unknown").replace("::", "-");
            let file = Path::new(&folder).join(format!("{name}.jsonl"));
            std::fs::write(file, &recording).expect("LSPOOL_TAPES is a folder");
        }
        for secret in SECRETS {
            let found = memchr::memmem::find(&recording, secret.as_bytes());
            let line = found
                .map(|at| String::from_utf8_lossy(&recording[at.saturating_sub(200)..at + 40]).into_owned());
            assert_eq!(line, None, "the recording has a secret");
        }
        let replayed = first_difference(&recording, Instant::now());
        if let Some(difference) = replayed.unwrap_or_else(|problem| panic!("the recording: {problem}")) {
            panic!("the recording does not replay\n{difference}");
        }
    }
}
