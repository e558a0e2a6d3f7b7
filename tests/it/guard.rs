//! After lspool is killed or ends, no process is left, and those of others are unharmed.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests live in real time, and what they cannot have they fail for"
)]

use std::{
    fs,
    io::{Read as _, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    fs::{OFlags, fcntl_getfl},
    process::{Pid, Signal, kill_process},
};

use crate::support::processes::Mark;

const LSPOOL: &str = env!("CARGO_BIN_EXE_lspool");

/// Ignores the end of its input and all signals that can be ignored; has a helper in its group and one outside.
const STUBBORN: &str = "trap '' TERM HUP INT; sleep 1001 & setsid sleep 1002 & while :; do sleep 1003; done";

fn message(body: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

fn initialize() -> String {
    message(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":null,"rootUri":null,"capabilities":{}}}"#,
    )
}

/// lspool in front of a shell script, without a configuration of the user's.
fn lspool(script: &str) -> (Command, Mark) {
    let mut command = Command::new(LSPOOL);
    let mark = Mark::of(&mut command);
    command.args(["--stdio", "--", "/bin/sh", "-c", script]);
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    (command, mark)
}

fn start(script: &str) -> (Child, Mark) {
    let (mut command, mark) = lspool(script);
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(initialize().as_bytes()).unwrap();
    (child, mark)
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process runs this command; a shell that has it in its script does not count.
fn runs(mark: &Mark, command: &str) -> bool {
    mark.processes().iter().any(|it| it.command.starts_with(command))
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn no_process_survives_lspool_killed_at_its_first_start() {
    let (mut child, mark) = start("kill -KILL $PPID; trap '' TERM HUP INT; while :; do sleep 1003; done");
    child.wait().unwrap();
    mark.wait_gone(Duration::from_secs(5));
}

#[test]
fn no_process_survives_sigkill_of_lspool() {
    let (mut child, mark) = start(STUBBORN);
    for helper in ["sleep 1001", "sleep 1002", "sleep 1003"] {
        wait_until(helper, || runs(&mark, helper));
    }
    wait_until("guard", || !mark.processes_running("lspool guard").is_empty());
    let killed = Instant::now();
    send(&child, Signal::KILL);
    child.wait().unwrap();
    // The editor sees the end at once, while the guard is still at work.
    let mut rest = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    assert!(!mark.processes().is_empty(), "the guard gives them a second");
    assert_eq!(rest, b"");
    mark.wait_gone(Duration::from_secs(2).saturating_sub(killed.elapsed()));
}

#[test]
fn no_process_survives_signals_to_lspool() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let (mut child, mark) = start(STUBBORN);
        for helper in ["sleep 1001", "sleep 1002", "sleep 1003"] {
            wait_until(helper, || runs(&mark, helper));
        }
        let told = Instant::now();
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert!(told.elapsed() < Duration::from_secs(4), "{:?}", told.elapsed());
        mark.wait_gone(Duration::from_secs(1));
    }
}

#[test]
fn killed_guard_is_replaced() {
    let (mut child, mark) = start(STUBBORN);
    wait_until("started", || runs(&mark, "sleep 1003"));
    let guards = || mark.processes_running("lspool guard");
    wait_until("guard", || !guards().is_empty());
    let first = guards().remove(0);
    first.kill(Signal::KILL);
    wait_until("another guard", || guards().iter().any(|it| it.pid != first.pid));
    send(&child, Signal::KILL);
    child.wait().unwrap();
    mark.wait_gone(Duration::from_secs(4));
}

#[test]
fn second_signal_ends_lspool_at_once() {
    let (mut child, mark) = start("trap '' TERM HUP INT; while :; do sleep 1003; done");
    wait_until("started", || runs(&mark, "sleep 1003"));
    send(&child, Signal::TERM);
    std::thread::sleep(Duration::from_millis(100));
    let told = Instant::now();
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    mark.wait_gone(Duration::from_secs(1));
}

#[test]
fn killed_guard_is_replaced_when_group_is_added() {
    // A server that crashes at once restarts, so the guard gets a new group.
    let (mut child, mark) = start("echo x >&2; sleep 0.3; exit 1");
    wait_until("guard", || !mark.processes_running("lspool guard").is_empty());
    let first = mark.processes_running("lspool guard")[0].clone();
    first.kill(Signal::KILL);
    wait_until("another guard", || {
        mark.processes_running("lspool guard").iter().any(|it| it.pid != first.pid)
    });
    send(&child, Signal::KILL);
    child.wait().unwrap();
    mark.wait_gone(Duration::from_secs(3));
}

/// The guard on its own, as its lspool would start it.
struct Alone {
    guard: Child,
    victim: Child,
}

fn alone(name: &str) -> Alone {
    use std::os::unix::process::CommandExt as _;
    let guard = Command::new(LSPOOL).args(["guard", name]).stdin(Stdio::piped()).spawn().unwrap();
    let victim = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    Alone { guard, victim }
}

impl Alone {
    fn tell(&mut self, line: &str) {
        self.guard.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// Closes the pipe and waits for the guard; says whether the victim still lives.
    fn finish(mut self) -> bool {
        drop(self.guard.stdin.take());
        assert!(self.guard.wait().unwrap().success());
        let is_alive = self.victim.try_wait().unwrap().is_none();
        self.victim.kill().unwrap();
        self.victim.wait().unwrap();
        is_alive
    }
}

#[test]
fn guard_kills_known_groups_and_removes_private_folders() {
    let folder = tempfile::tempdir().unwrap();
    let (private, forgotten) = (folder.path().join("a private one"), folder.path().join("forgotten"));
    for folder in [&private, &forgotten] {
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::write(folder.join("below/file"), "secret").unwrap();
    }
    let mut it = alone("test-1");
    it.tell(&format!("+{}\nd {}\n", it.victim.id(), private.display()));
    it.tell(&format!("d {0}\nD {0}\n", forgotten.display()));
    assert!(!it.finish());
    assert!(!private.exists());
    assert!(forgotten.exists());
}

#[test]
fn guard_ignores_group_it_was_told_to_forget() {
    let mut it = alone("test-2");
    it.tell(&format!("+{0}\n-{0}\n", it.victim.id()));
    assert!(it.finish());
}

#[test]
fn guard_kills_nothing_after_quit() {
    let mut it = alone("test-3");
    it.tell(&format!("+{}\nquit\n", it.victim.id()));
    assert!(it.finish());
}

#[test]
fn guard_ignores_incomplete_and_invalid_lines() {
    for line in ["+{}", "+-{}\n", "+0\n+1\n+x\n\n+\n{}\n"] {
        let mut it = alone("test-4");
        it.tell(&line.replace("{}", &it.victim.id().to_string()));
        assert!(it.finish(), "{line:?}");
    }
}

#[test]
fn socket_streams_keep_their_mode_after_exit() {
    let (mut command, mark) = lspool("cat >/dev/null");
    let (ours, theirs) = UnixStream::pair().unwrap();
    let theirs = OwnedFd::from(theirs);
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    drop(command);
    (&ours).write_all(initialize().as_bytes()).unwrap();
    wait_until("started", || runs(&mark, "cat"));
    assert!(fcntl_getfl(&theirs).unwrap().contains(OFlags::NONBLOCK), "it is at work");
    send(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!fcntl_getfl(&theirs).unwrap().contains(OFlags::NONBLOCK));
    mark.wait_gone(Duration::from_secs(1));
}

#[test]
fn mode_of_shared_pipe_is_not_changed() {
    let (mut command, mark) = lspool("cat >/dev/null");
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdin(reader.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    drop(command);
    (&writer).write_all(initialize().as_bytes()).unwrap();
    wait_until("started", || runs(&mark, "cat"));
    assert!(!fcntl_getfl(&reader).unwrap().contains(OFlags::NONBLOCK));
    drop((reader, writer));
    assert!(child.wait().unwrap().code().is_some());
    mark.wait_gone(Duration::from_secs(1));
}

#[test]
fn streams_may_be_files() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("input"), folder.path().join("output"));
    let unknown = message(r#"{"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{}}"#);
    fs::write(&input, unknown + &message(r#"{"jsonrpc":"2.0","method":"exit"}"#)).unwrap();
    let (mut command, mark) = lspool("cat >/dev/null");
    command.stdin(fs::File::open(&input).unwrap()).stdout(fs::File::create(&output).unwrap());
    assert_eq!(command.spawn().unwrap().wait().unwrap().code(), Some(1));
    assert!(fs::read_to_string(&output).unwrap().contains("-32002"), "{:?}", fs::read_to_string(&output));
    mark.wait_gone(Duration::from_secs(1));
}

#[test]
fn unread_stderr_does_not_prevent_error_answer() {
    let mut command = Command::new(LSPOOL);
    command.args(["--config", "/nonexistent.toml"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = command.stderr(writer).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(initialize().as_bytes()).unwrap();
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"error\"") && answer.contains("/nonexistent.toml"), "{answer}");
    assert_eq!(child.wait().unwrap().code(), Some(2));
}
