//! The commands that talk to a running lspool, and its socket.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _, symlink},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{
    editor::TestEditor,
    puppet::{Puppet, PuppetHost},
    real::Sandbox,
};

const LSPOOL: &str = env!("CARGO_BIN_EXE_lspool");
const PUPPET: &str = env!("CARGO_BIN_EXE_lspool-puppet");

// ---- An lspool made of what a test says.

type Answer = Box<dyn Fn(&Value) -> Vec<Value> + Send>;

/// Answers each request of a method with a list of messages; the first without an id gets that of the request.
struct Fake {
    socket: PathBuf,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Fake {
    fn new(sandbox: &Sandbox, pid: u32, started: u64, answers: Vec<(&'static str, Answer)>) -> Fake {
        let socket = folder(sandbox).join(format!("{pid}-{started}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers: Arc<Mutex<BTreeMap<_, _>>> = Arc::new(Mutex::new(answers.into_iter().collect()));
        thread::spawn({
            let asked = asked.clone();
            move || {
                for stream in listener.incoming().flatten() {
                    let (asked, answers) = (asked.clone(), answers.clone());
                    thread::spawn(move || serve(&stream, &asked, &answers));
                }
            }
        });
        Fake { socket, asked }
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        fs::remove_file(&self.socket).ok();
    }
}

fn serve(stream: &UnixStream, asked: &Mutex<Vec<Value>>, answers: &Mutex<BTreeMap<&'static str, Answer>>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = hear(&mut reader) {
        let method = request["method"].as_str().unwrap();
        let said = answers.lock().unwrap().get(method).map(|answer| answer(&request["params"]));
        asked.lock().unwrap().push(json!([method, request["params"]]));
        for mut message in said.unwrap_or_default() {
            if message.get("method").is_none() {
                message["id"] = request["id"].clone();
            }
            message["jsonrpc"] = "2.0".into();
            if (&*stream).write_all(frame(&message).as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn frame(message: &Value) -> String {
    let body = message.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

fn hear(reader: &mut impl std::io::BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((_, value)) => length = value.parse().ok()?,
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// The folder of sockets, made as lspool would.
fn folder(sandbox: &Sandbox) -> PathBuf {
    let folder = sandbox.runtime().join("lspool");
    fs::DirBuilder::new().mode(0o700).recursive(true).create(&folder).unwrap();
    folder
}

fn backend(name: &str) -> Value {
    json!({
        "name": name, "toolset": null, "state": "ready", "since": 0, "pid": 4712, "rss_bytes": 1 << 20,
        "restarts": 0, "conversations": 0, "in_flight": 0, "refused": 0, "last_error": null,
    })
}

fn status(pid: u32, workspace: &str, names: &[&str]) -> Value {
    let backends: Vec<_> = names.iter().map(|it| backend(it)).collect();
    json!({
        "pid": pid, "version": "0.1.0", "workspace": workspace, "editor": "Vim 9", "started": 1,
        "config": {"error": null}, "backends": backends,
    })
}

fn answers(method: &'static str, message: Value) -> (&'static str, Answer) {
    (method, Box::new(move |_| vec![message.clone()]))
}

fn has(pid: u32, workspace: &str, names: &[&str]) -> (&'static str, Answer) {
    answers("lspool/status", json!({"result": status(pid, workspace, names)}))
}

fn refusal(code: i64, message: &str) -> Value {
    json!({"error": {"code": code, "message": message, "data": {"lspool": {"cause": "crashed"}}}})
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

const COPILOT: [&str; 3] =
    ["copilot", "partition \"list_dir,read_file\" of copilot", "partition \"list_dir\" of copilot"];

// ---- The commands.

#[test]
fn without_a_running_lspool() {
    let sandbox = Sandbox::new();
    for line in [
        &["status"] as &[_],
        &["status", "--json"],
        &["status", "--watch"],
        &["restart", "copilot"],
        &["stop", "copilot"],
        &["logs", "copilot", "-f"],
        &["reload"],
    ] {
        says(&sandbox, line, 3, "", "lspool: no lspool is running\n");
    }
    // A socket that somebody left behind is nobody.
    drop(UnixListener::bind(folder(&sandbox).join("4711-1.sock")).unwrap());
    says(&sandbox, &["status", "--watch"], 3, "", "lspool: no lspool is running\n");
    says(&sandbox, &["status", "--pid", "4711"], 3, "", "lspool: no lspool with pid 4711 is running\n");
}

#[test]
fn a_folder_that_is_not_ours_alone_is_not_looked_into() {
    let sandbox = Sandbox::new();
    let fake = Fake::new(&sandbox, 4711, 1, vec![has(4711, "/w", &["x"])]);
    let folder = folder(&sandbox);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let output = run(&sandbox, &["status"]);
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("has mode 755, which should be 700, so nothing in there is asked"), "{told}");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(&folder, sandbox.runtime().join("elsewhere")).unwrap();
    symlink(sandbox.runtime().join("elsewhere"), &folder).unwrap();
    let output = run(&sandbox, &["restart", "x"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is no folder"));
    assert_eq!(fake.asked(), Vec::<Value>::new());
}

#[test]
fn one_that_does_not_answer_keeps_nobody_from_being_shown() {
    let sandbox = Sandbox::new();
    let _silent = Fake::new(&sandbox, 11, 1, vec![]);
    let _well = Fake::new(&sandbox, 12, 2, vec![has(12, "/w", &["pyright"])]);
    let _confused = Fake::new(&sandbox, 13, 3, vec![answers("lspool/status", json!({"result": 7}))]);
    let output = run(&sandbox, &["status", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["instances"][0], json!({"pid": 11, "error": "it does not answer"}));
    assert_eq!(document["instances"][1], status(12, "/w", &["pyright"]));
    assert_eq!(document["instances"][2]["pid"], 13);
    let output = run(&sandbox, &["status"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("lspool 11  it does not answer\n\nlspool 12  /w  Vim 9\n"), "{text}");
    says(&sandbox, &["restart", "--pid", "11", "pyright"], 1, "", "lspool: lspool 11: it does not answer\n");
}

#[test]
fn names_are_matched_and_errors_name_what_exists() {
    let sandbox = Sandbox::new();
    let ready = || answers("lspool/restart", json!({"result": {"name": "x", "state": "ready"}}));
    let first = Fake::new(&sandbox, 11, 1, vec![has(11, "/one", &COPILOT), ready()]);
    let second = Fake::new(&sandbox, 12, 2, vec![has(12, "/two", &["pyright"]), ready()]);
    let restarted = |fake: &Fake| fake.asked().iter().rfind(|it| it[0] == "lspool/restart").cloned();

    says(&sandbox, &["restart", "pyright"], 0, "pyright: ready\n", "");
    assert_eq!(restarted(&second), Some(json!(["lspool/restart", {"name": "pyright"}])));
    for (name, meant) in [
        (COPILOT[0], 0),
        ("cop", 0),
        (COPILOT[1], 1),
        ("list_dir,read_file", 1),
        ("list_dir,", 1),
        // A whole name goes before the beginning of another.
        ("list_dir", 2),
    ] {
        says(&sandbox, &["restart", name], 0, &format!("{}: ready\n", COPILOT[meant]), "");
        assert_eq!(restarted(&first), Some(json!(["lspool/restart", {"name": COPILOT[meant]}])));
    }
    let ambiguous = format!("lspool: \"list\" may be any of\n  {}\n  {}\n", COPILOT[1], COPILOT[2]);
    says(&sandbox, &["restart", "list"], 2, "", &ambiguous);
    let unknown = |name| {
        let [a, b, c] = COPILOT;
        format!("lspool: nothing is called {name:?}; there is\n  {a}\n  {b}\n  {c}\n  pyright\n")
    };
    says(&sandbox, &["stop", "ruff"], 2, "", &unknown("ruff"));
    says(&sandbox, &["logs", ""], 2, "", &unknown(""));
    says(&sandbox, &["logs", "x", "--pid", "13"], 3, "", "lspool: no lspool with pid 13 is running\n");
}

#[test]
fn several_that_have_it_are_listed() {
    let sandbox = Sandbox::new();
    let ready = || answers("lspool/stop", json!({"result": {"name": "copilot", "state": "stopped"}}));
    let first = Fake::new(&sandbox, 11, 1, vec![has(11, "/one", &COPILOT), ready()]);
    let second = Fake::new(&sandbox, 12, 2, vec![has(12, "/two", &["copilot"]), ready()]);
    says(
        &sandbox,
        &["stop", "copilot"],
        2,
        "",
        "lspool: several have a \"copilot\"; say which one is meant\n  --pid 11  /one  copilot\n  --pid 12  /two  copilot\n",
    );
    says(&sandbox, &["stop", "copilot", "--pid", "12"], 0, "copilot: stopped\n", "");
    let is_asked = |fake: &Fake| fake.asked().iter().any(|it| it[0] == "lspool/stop");
    assert!(is_asked(&second) && !is_asked(&first));
}

#[test]
fn what_fails_is_said_with_the_reason() {
    let sandbox = Sandbox::new();
    let fails = answers("lspool/restart", refusal(-32803, "exit code 1\u{1b}[2J:\n  no licence"));
    let unknown = answers("lspool/stop", refusal(-32602, "there is only \"y\""));
    let has_failed = answers("lspool/restart", refusal(-32803, "x has failed: exit code 1"));
    let _fake = Fake::new(&sandbox, 11, 1, vec![has(11, "/w", &["x"]), fails, unknown]);
    let _other = Fake::new(&sandbox, 12, 1, vec![has(12, "/w", &["x"]), has_failed]);
    says(
        &sandbox,
        &["restart", "x", "--pid=11"],
        1,
        "x: failed: exit code 1\u{fffd}[2J:\n  no licence\n",
        "",
    );
    says(&sandbox, &["restart", "x", "--pid=12"], 1, "x: failed: exit code 1\n", "");
    // Gone since it was looked for.
    says(&sandbox, &["stop", "x", "--pid=11"], 2, "", "lspool: there is only \"y\"\n");
}

#[test]
fn reload_is_for_all() {
    let sandbox = Sandbox::new();
    let changed = |words: Value| answers("lspool/reload", json!({"result": {"changed": words}}));
    let _a =
        Fake::new(&sandbox, 11, 1, vec![has(11, "/a", &["x"]), changed(json!(["x: restarted", "routes"]))]);
    let _b = Fake::new(&sandbox, 12, 2, vec![has(12, "/b", &["x"]), changed(json!([]))]);
    says(&sandbox, &["reload"], 0, "lspool 11: x: restarted; routes\nlspool 12: nothing has changed\n", "");
    let bad = answers("lspool/reload", refusal(-32803, "config.toml: line 1: no"));
    let _c = Fake::new(&sandbox, 13, 3, vec![has(13, "/c", &["x"]), bad]);
    says(&sandbox, &["reload", "--pid", "13"], 1, "lspool 13: failed: config.toml: line 1: no\n", "");
    let output = run(&sandbox, &["reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3);
}

#[test]
fn logs_are_shown_and_followed() {
    let sandbox = Sandbox::new();
    let logs: (_, Answer) = (
        "lspool/logs",
        Box::new(|params| {
            let mut all = vec![json!({"result": {"lines": ["one", "two\u{1b}[31m"]}})];
            if params["follow"] == true {
                let line = |line: &str| json!({"method": "lspool/log", "params": {"id": 1, "line": line}});
                all.extend([line("three"), json!({"method": "lspool/else", "params": {}}), line("four")]);
            }
            all
        }),
    );
    let fake = Fake::new(&sandbox, 11, 1, vec![has(11, "/w", &["x"]), logs]);
    says(&sandbox, &["logs", "x"], 0, "one\ntwo\u{fffd}[31m\n", "");
    let mut following = Running::start(&sandbox, &["logs", "-f", "x"]);
    for line in ["one", "two\u{fffd}[31m", "three", "four"] {
        assert_eq!(following.line(), line);
    }
    // Ctrl-C is how one ends it.
    assert_eq!(following.end(Signal::INT), Some(0));
    assert_eq!(fake.asked().last(), Some(&json!(["lspool/logs", {"name": "x", "follow": true}])));
}

/// A command that goes on.
struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(sandbox: &Sandbox, line: &[&str]) -> Running {
        let mut command = sandbox.command(LSPOOL);
        let mut child = command.args(line).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn watching_tells_each_change() {
    let sandbox = Sandbox::new();
    let with = |state: &str, memory: u64| {
        let mut it = status(11, "/w", &["x"]);
        it["backends"][0]["state"] = state.into();
        it["backends"][0]["rss_bytes"] = memory.into();
        it
    };
    let changed = || json!({"method": "lspool/didChangeStatus", "params": {}});
    let first_said = with("ready", 1);
    let watch: (_, Answer) =
        ("lspool/watch", Box::new(move |_| vec![json!({"result": first_said}), changed(), changed()]));
    // Memory alone is no change.
    let then = Mutex::new(vec![with("failed", 3), with("ready", 2)]);
    let states: (_, Answer) = (
        "lspool/status",
        Box::new(move |_| {
            let mut then = then.lock().unwrap();
            let now = if then.len() > 1 { then.pop() } else { then.last().cloned() };
            vec![json!({"result": now})]
        }),
    );
    let first = Fake::new(&sandbox, 11, 1, vec![watch, states]);
    let mut watching = Running::start(&sandbox, &["status", "--watch", "--json"]);
    let mut state = || {
        let document: Value = serde_json::from_str(&watching.line()).unwrap();
        let states = document["instances"].as_array().unwrap().iter();
        states.map(|it| it["backends"][0]["state"].as_str().unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(state(), ["ready"]);
    assert_eq!(state(), ["failed"]);
    // Another one comes, and says no more after a while.
    let second = Fake::new(
        &sandbox,
        12,
        2,
        vec![answers("lspool/watch", json!({"result": status(12, "/w", &["y"])}))],
    );
    assert_eq!(state(), ["failed", "ready"]);
    assert_eq!(state(), ["failed", "-"]);
    assert_eq!(watching.end(Signal::INT), Some(0));
    drop((first, second));
}

#[test]
fn who_reads_no_more_is_no_error() {
    let sandbox = Sandbox::new();
    let _fake = Fake::new(&sandbox, 11, 1, vec![has(11, "/w", &["x"])]);
    for flag in [&["status"] as &[_], &["status", "--json"]] {
        let mut command = sandbox.command(LSPOOL);
        let mut child = command
            .args(flag)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    }
}

// ---- The socket of the real one.

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

#[test]
fn the_socket_is_for_its_user_and_there_as_long_as_lspool() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let (editor, server, socket) = start(&sandbox, &host);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    wait_until("closed to others", || mode(&socket) == 0o600);
    assert_eq!(mode(&sandbox.runtime().join("lspool")), 0o700);
    end(&editor, &server);
    assert!(!socket.exists());

    let (editor, server, socket) = start(&sandbox, &host);
    editor.forgive_unanswered();
    editor.kill(Signal::TERM);
    editor.wait_exit();
    assert!(!socket.exists());
    drop(server);

    // The guard tidies up.
    let (editor, server, socket) = start(&sandbox, &host);
    wait_until("a guard", || !editor.mark().processes_running("lspool guard").is_empty());
    // It has been told by the time it has started something it was told of later.
    check_alive(&editor, &server);
    editor.forgive_unanswered();
    editor.kill(Signal::KILL);
    editor.wait_exit();
    wait_until("removed by the guard", || !socket.exists());
}

#[test]
fn leftovers_are_swept_at_start() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let folder = folder(&sandbox);
    let gone = {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let left = folder.join(format!("{gone}-1.sock"));
    drop(UnixListener::bind(&left).unwrap());
    let lives = Fake::new(&sandbox, gone, 2, vec![]);
    let (editor, server, socket) = start(&sandbox, &host);
    let mut expected = vec![lives.socket.clone(), socket];
    expected.sort();
    let mut there = sockets(&folder);
    there.sort();
    assert_eq!(there, expected);
    end(&editor, &server);
}

#[test]
fn a_folder_that_is_not_ours_alone_means_no_control_and_no_harm() {
    let wrong: [(&str, fn(&Path)); 5] = [
        ("mode 755", |folder| {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("mode 720", |folder| {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o720)).unwrap();
        }),
        ("is no folder", |folder| {
            let elsewhere = folder.with_file_name("elsewhere");
            fs::DirBuilder::new().mode(0o700).create(&elsewhere).unwrap();
            symlink(elsewhere, folder).unwrap();
        }),
        ("is no folder", |folder| symlink("/nonexistent/x", folder).unwrap()),
        ("is no folder", |folder| fs::write(folder, "").unwrap()),
    ];
    for (what, make) in wrong {
        let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
        let folder = sandbox.runtime().join("lspool");
        make(&folder);
        let editor = TestEditor::spawn(lspool(&sandbox, &host));
        let server = handshake(&editor, &host);
        check_alive(&editor, &server);
        let told = || log(&sandbox).lines().any(|it| it.contains("no control socket") && it.contains(what));
        wait_until(what, told);
        assert_eq!(sockets(&folder), Vec::<PathBuf>::new());
        assert!(!fs::symlink_metadata("/nonexistent").is_ok());
        end(&editor, &server);
    }
}

#[test]
fn the_socket_goes_where_there_is_room_for_it() {
    let uid = rustix::process::geteuid().as_raw();
    let temporary = |sandbox: &Sandbox| sandbox.home().join(format!("lspool-{uid}"));
    let long = |sandbox: &Sandbox| {
        let folder = sandbox.runtime().join("x".repeat(120));
        fs::create_dir(&folder).unwrap();
        folder
    };
    let runtimes: [Option<&dyn Fn(&Sandbox) -> PathBuf>; 4] =
        [None, Some(&|_| "relative".into()), Some(&|_| "/nonexistent/runtime".into()), Some(&long)];
    for runtime in runtimes {
        let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
        let mut command = lspool(&sandbox, &host);
        command.env("TMPDIR", sandbox.home());
        match runtime {
            Some(runtime) => command.env("XDG_RUNTIME_DIR", runtime(&sandbox)),
            None => command.env_remove("XDG_RUNTIME_DIR").env_remove("HOME"),
        };
        let editor = TestEditor::spawn(command);
        let server = handshake(&editor, &host);
        wait_until("a socket", || sockets(&temporary(&sandbox)).len() == 1);
        end(&editor, &server);
        assert_eq!(sockets(&temporary(&sandbox)), Vec::<PathBuf>::new());
    }
    // Nowhere.
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let mut command = lspool(&sandbox, &host);
    command.env("TMPDIR", "/proc/nonexistent").env("XDG_RUNTIME_DIR", "/proc/nonexistent");
    let editor = TestEditor::spawn(command);
    let server = handshake(&editor, &host);
    wait_until("a word", || log(&sandbox).contains("no control socket"));
    end(&editor, &server);
}

#[test]
fn whatever_comes_through_the_socket_the_editor_is_served() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let (editor, server, socket) = start(&sandbox, &host);
    let connect = || {
        let stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    };
    let is_hung_up = |mut stream: UnixStream| {
        let mut rest = Vec::new();
        // It may be reset while there is more to read than was read.
        stream.read_to_end(&mut rest).map_or_else(|it| it.kind() != std::io::ErrorKind::WouldBlock, |_| true)
    };
    // Garbage, and more than is read of one message.
    for bytes in [vec![0xff; 100_000], b"Content-Length: 1048577\r\n\r\n".to_vec()] {
        let mut stream = connect();
        stream.write_all(&bytes).ok();
        assert!(is_hung_up(stream));
    }
    // Half a message, and then nothing, or the end.
    let mut half = connect();
    half.write_all(b"Content-Length: 100\r\n\r\n{").unwrap();
    let mut cut = connect();
    cut.write_all(b"Content-Len").unwrap();
    drop(cut);
    check_alive(&editor, &server);
    // As many as there may be, and many more.
    let mut held: Vec<UnixStream> = Vec::new();
    for _ in 0..1000 {
        let stream = connect();
        stream.set_nonblocking(true).unwrap();
        held.push(stream);
    }
    wait_until("most are hung up on", || {
        let lives = |mut it: &UnixStream| matches!(it.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        held.iter().filter(|it| lives(it)).count() < 32
    });
    check_alive(&editor, &server);
    drop((half, held));
    end(&editor, &server);
}
