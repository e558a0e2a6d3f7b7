//! Hanging starts of processes, as with a disk that does not answer: only the requests that need the process wait.
//!
//! The test leases the executable (`F_SETLEASE`): opening it, for reading or execution, waits until the lease is
//! returned, 45 s at most.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{PUPPET, Pair, copilot};

/// Reports when it holds the lease, and when another process waits for it. Returns it at the end of its input.
const HOLDER: &str = r#"
import fcntl, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
file = open(sys.argv[1])
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
signal.sigwait([signal.SIGIO])
print("awaited", flush=True)
sys.stdin.read()
"#;

/// A server that is a puppet.
struct Executable {
    folder: TempDir,
}

impl Executable {
    fn new() -> Executable {
        let it = Executable { folder: tempfile::tempdir().expect("a temporary folder") };
        fs::write(it.path(), format!("#!/bin/sh\nexec {PUPPET}\n")).expect("it is writable");
        fs::set_permissions(it.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
        it
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("server")
    }

    /// From now on it cannot be started.
    fn hold(&self) -> Held {
        let mut holder = Command::new("python3")
            .args(["-c", HOLDER])
            .arg(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let said = BufReader::new(holder.stdout.take().expect("it was asked for"));
        let mut held = Held { holder, said };
        held.expect("held");
        held
    }
}

/// Starts of the executable wait until this is dropped.
struct Held {
    holder: Child,
    said: BufReader<ChildStdout>,
}

impl Held {
    /// Waits until another process starts the executable.
    fn wait_awaited(&mut self) {
        self.expect("awaited");
    }

    #[track_caller]
    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it can be read");
        assert_eq!(line.trim_end(), word);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        self.holder.wait().ok();
    }
}

#[test]
fn hanging_start_blocks_no_other_process() {
    let executable = Executable::new();
    let config = format!("[server.copilot]\nkind = \"copilot\"\ncommand = {:?}\n", executable.path());
    let pair = copilot::Pair::handshake(Pair::with(&config, &[]));
    let mut held = executable.hold();
    let create = pair.create("c", Some(&["read_file"]));
    held.wait_awaited();
    pair.check_alive(&pair.primary);
    assert!(pair.host.try_accept().is_none());
    assert!(pair.editor.answer_to(&create).is_none());
    drop(held);
    let server = pair.host.accept();
    copilot::play(&server);
    let asked = server.expect("conversation/create");
    let result = json!({"conversationId": "c", "turnId": "t", "modelInfo": {}});
    server.answer(&asked, result.clone());
    assert_eq!(pair.editor.wait(&create), Ok(result), "it was only late");
    pair.leave();
}

#[test]
fn exit_does_not_wait_for_hanging_start() {
    let executable = Executable::new();
    let mut held = executable.hold();
    let pair = Pair::with("", &[executable.path().to_str().expect("it is text")]);
    pair.initialize();
    held.wait_awaited();
    pair.editor.forgive_unanswered();
    pair.editor.kill(Signal::TERM);
    assert_eq!(pair.editor.wait_exit().code(), Some(143));
    // The lease is still held.
    pair.editor.mark().wait_gone(Duration::from_secs(2));
    drop(held);
    assert!(pair.host.try_accept().is_none());
}

#[test]
fn hanging_start_fails_after_startup_timeout() {
    let executable = Executable::new();
    let mut held = executable.hold();
    let config = format!("[server.x]\ncommand = {:?}\nstartup_timeout = \"500ms\"\n", executable.path());
    let pair = Pair::with(&config, &[]);
    let initialize = pair.initialize();
    held.wait_awaited();
    let error = pair.editor.wait(&initialize).unwrap_err();
    assert_eq!(error.data["lspool"]["cause"], "init timeout");
    assert!(error.message.contains("did not start within 0.5 s"), "{error}");
    assert_eq!(pair.editor.call("shutdown", Value::Null), Ok(Value::Null));
    pair.editor.notify_bare("exit");
    assert_eq!(pair.editor.wait_exit().code(), Some(0));
    pair.editor.mark().wait_gone(Duration::from_secs(2));
    drop(held);
}
