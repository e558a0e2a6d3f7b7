//! The commands that talk to a running lspool, and its socket.

#![expect(clippy::unwrap_used, reason = "what the tests cannot have they fail for")]

mod commands;
mod fake;
mod live;
mod real;
mod socket;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{DirBuilderExt as _, FileTypeExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    programs::PUPPET,
    support::{
        editor::TestEditor,
        puppet::{Puppet, PuppetHost},
        real::Sandbox,
    },
};

/// Nothing takes as long.
const PATIENCE: Duration = Duration::from_secs(45);

const LSPOOL: &str = env!("CARGO_BIN_EXE_lspool");

/// The folder of sockets, made as lspool would.
fn folder(sandbox: &Sandbox) -> PathBuf {
    let folder = sandbox.runtime().join("lspool");
    fs::DirBuilder::new().mode(0o700).recursive(true).create(&folder).unwrap();
    folder
}

fn run(sandbox: &Sandbox, line: &[&str]) -> Output {
    sandbox.command(LSPOOL).args(line).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn says(sandbox: &Sandbox, line: &[&str], code: i32, stdout: &str, stderr: &str) {
    let output = run(sandbox, line);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*out, &*err), (Some(code), stdout, stderr), "{line:?}");
}

/// A command that continues.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(sandbox: &Sandbox, line: &[&str]) -> Running {
        let mut command = sandbox.command(LSPOOL);
        let mut child = command.args(line).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        Running { child, lines }
    }

    fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => String::new(),
            Err(RecvTimeoutError::Timeout) => panic!("it says nothing more"),
        }
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        self.wait()
    }

    fn wait(&mut self) -> Option<i32> {
        let mut ended = None;
        wait_until("an end", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.and_then(|it| it.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// lspool in front of a puppet, with an editor that has said nothing yet.
fn lspool(sandbox: &Sandbox, host: &PuppetHost) -> Command {
    let mut lspool = sandbox.command(LSPOOL);
    lspool.args(["--log-level", "debug", "--log-file"]).arg(sandbox.runtime().join("log"));
    lspool.args(["--", PUPPET]);
    host.tie(&mut lspool);
    lspool
}

/// The editor starts, the puppet answers.
fn handshake(editor: &TestEditor, host: &PuppetHost) -> Puppet {
    let params = json!({"processId": null, "rootUri": null, "capabilities": {}});
    let initialize = editor.request("initialize", params);
    let server = host.accept();
    let asked = server.expect("initialize");
    server.answer(&asked, json!({"capabilities": {}}));
    editor.wait(&initialize).expect("the puppet has said yes");
    editor.notify("initialized", json!({}));
    server.expect("initialized");
    server
}

#[track_caller]
fn check_alive(editor: &TestEditor, server: &Puppet) {
    let hover = editor.request("textDocument/hover", json!({"alive": true}));
    let asked = server.expect("textDocument/hover");
    server.answer(&asked, json!("alive"));
    assert_eq!(editor.wait(&hover), Ok(json!("alive")));
}

/// Ends lspool the way editors do.
fn end(editor: &TestEditor, server: &Puppet) {
    let shutdown = editor.request("shutdown", Value::Null);
    let asked = server.expect("shutdown");
    server.answer(&asked, Value::Null);
    editor.wait(&shutdown).expect("a shutdown cannot fail");
    editor.notify_bare("exit");
    server.expect("exit");
    server.exit(0);
    assert_eq!(editor.wait_exit().code(), Some(0));
}

fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|it| it.file_type().unwrap().is_socket()).map(|it| it.path()).collect()
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn log(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.runtime().join("log")).unwrap_or_default()
}

/// Starts lspool and waits for its socket.
fn start(sandbox: &Sandbox, host: &PuppetHost) -> (TestEditor, Puppet, PathBuf) {
    let editor = TestEditor::spawn(lspool(sandbox, host));
    let server = handshake(&editor, host);
    let name = format!("{}-", editor.pid());
    let mut own = None;
    wait_until("a socket", || {
        let all = sockets(&sandbox.runtime().join("lspool"));
        own = all.into_iter().find(|it| it.file_name().unwrap().to_string_lossy().starts_with(&name));
        own.is_some()
    });
    (editor, server, own.unwrap())
}
