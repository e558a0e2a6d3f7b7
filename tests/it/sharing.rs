//! One pyright for several lspools: each editor is answered, whoever else comes, goes, or dies, and nothing is left.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests live in real time, and what they cannot have they fail for"
)]

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{
    copilot::uri,
    editor::TestEditor,
    processes::{Mark, Process},
    real::{self, Sandbox},
};

const LSPOOL: &str = env!("CARGO_BIN_EXE_lspool");

/// Nothing takes as long.
const PATIENCE: Duration = Duration::from_mins(1);

const FILE: &str = "greeting.py";
const TEXT: &str =
    "def greet(name: str) -> str:\n    return \"Hello, \" + name\n\n\nmessage = greet(\"you\")\n";

/// A user with a project.
struct Room {
    sandbox: Sandbox,
    mark: Mark,
    /// The variable of the mark, so that all processes of the test have one.
    variable: (String, String),
}

impl Room {
    /// `keys`: more keys of the section.
    fn new(keys: &str) -> Room {
        let sandbox = Sandbox::new();
        sandbox.write(FILE, TEXT);
        let config = sandbox.home().join(".config/lspool");
        fs::create_dir_all(&config).unwrap();
        let section = format!("[server.pyright-langserver]\nshare = \"same-client\"\n{keys}");
        fs::write(config.join("config.toml"), section).unwrap();
        let mut command = Command::new(LSPOOL);
        let mark = Mark::of(&mut command);
        let text = |it: &std::ffi::OsStr| it.to_string_lossy().into_owned();
        let variable = command.get_envs().find_map(|(name, value)| Some((text(name), text(value?)))).unwrap();
        Room { sandbox, mark, variable }
    }

    fn command(&self) -> Command {
        let mut command = self.sandbox.command(LSPOOL);
        command.env(&self.variable.0, &self.variable.1);
        command
    }

    /// An editor that is there.
    fn editor(&self) -> TestEditor {
        self.editor_with(&[], &Value::Null)
    }

    fn editor_with(&self, vars: &[(&str, &str)], options: &Value) -> TestEditor {
        let editor = self.begin(vars);
        self.initialize(&editor, options);
        editor
    }

    fn begin(&self, vars: &[(&str, &str)]) -> TestEditor {
        let mut command = self.command();
        command.envs(vars.iter().copied());
        command.args(["--log-level", "debug", "--log-file"]).arg(self.sandbox.home().join("log"));
        command.arg("--").arg(real::pyright()).arg("--stdio");
        let editor = TestEditor::spawn(command);
        editor.agree();
        editor
    }

    fn initialize(&self, editor: &TestEditor, options: &Value) {
        let folder = uri(&self.sandbox.workspace());
        let params = json!({
            "processId": null,
            "clientInfo": {"name": "Test"},
            "rootUri": folder,
            "workspaceFolders": [{"uri": folder, "name": "workspace"}],
            "initializationOptions": options,
            "capabilities": {"textDocument": {"hover": {"contentFormat": ["plaintext"]}}},
        });
        editor.ok("initialize", params);
        editor.notify("initialized", json!({}));
        let document = json!({"uri": self.file(), "languageId": "python", "version": 1, "text": TEXT});
        editor.notify("textDocument/didOpen", json!({"textDocument": document}));
    }

    fn file(&self) -> String {
        uri(&self.sandbox.workspace().join(FILE))
    }

    /// The server answers this editor.
    #[track_caller]
    fn check_hover(&self, editor: &TestEditor) {
        self.check_hover_says(editor, "greet(name: str) -> str");
    }

    #[track_caller]
    fn check_hover_says(&self, editor: &TestEditor, expected: &str) {
        let place = json!({"textDocument": {"uri": self.file()}, "position": {"line": 4, "character": 11}});
        let answer = editor.ok("textDocument/hover", place);
        assert!(answer.to_string().contains(expected), "{answer}");
    }

    fn servers(&self) -> Vec<Process> {
        let all = self.mark.processes_running("langserver");
        all.into_iter().filter(|it| it.command.contains("node") && !it.command.contains("lspool")).collect()
    }

    fn hubs(&self) -> Vec<Process> {
        let all = self.mark.processes_running(LSPOOL);
        all.into_iter().filter(|it| it.command.ends_with(" hub")).collect()
    }

    #[track_caller]
    fn check_servers(&self, n: usize) {
        let all = self.servers();
        assert_eq!(all.len(), n, "{all:?}");
    }

    fn sockets(&self) -> PathBuf {
        self.sandbox.runtime().join("lspool")
    }

    /// The socket of the only hub.
    fn socket(&self) -> PathBuf {
        let all = fs::read_dir(self.sockets()).unwrap().map(|it| it.unwrap().path());
        let is_hub = |it: &PathBuf| {
            it.file_name().unwrap().to_string_lossy().starts_with("hub-") && it.extension().unwrap() == "sock"
        };
        all.into_iter().find(is_hub).unwrap()
    }

    fn status(&self) -> Vec<Value> {
        let output = self.command().args(["status", "--json"]).stdin(Stdio::null()).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status["instances"].as_array().unwrap().clone()
    }

    fn status_text(&self) -> String {
        let output = self.command().arg("status").stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Why the server of this editor is private; `None` if it is shared.
    #[track_caller]
    fn private(&self, editor: &TestEditor) -> Option<String> {
        let status = self.status();
        let of = status.iter().find(|it| it["pid"] == editor.pid()).unwrap();
        let backend = &of["backends"][0];
        assert!(backend["shared"] == true || backend["private"].is_string(), "{backend}");
        backend["private"].as_str().map(ToOwned::to_owned)
    }

    /// No process, no socket, no lock is left.
    #[track_caller]
    fn check_nothing_left(&self) {
        self.mark.wait_gone(PATIENCE);
        let left: Vec<_> = fs::read_dir(self.sockets()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn two_editors_share_one_pyright_and_the_first_may_leave() {
    let room = Room::new("share_idle = \"0s\"\n");
    let (one, other) = (room.editor(), room.editor());
    room.check_hover(&one);
    room.check_hover(&other);
    room.check_servers(1);
    assert_eq!((room.private(&one), room.private(&other)), (None, None));
    let text = room.status_text();
    assert!(text.contains("hub, 2 clients") && text.contains("shared: by a hub"), "{text}");
    let server = room.servers();
    assert!(one.shutdown().success());
    room.check_hover(&other);
    wait_until("one client is left", || room.status_text().contains("hub, 1 client"));
    assert_eq!(room.servers(), server);
    assert!(other.notifications("window/showMessage").is_empty());
    assert!(other.shutdown().success());
    room.check_nothing_left();
}

#[test]
fn ten_editors_that_start_at_once_start_one_pyright() {
    let room = Room::new("share_idle = \"0s\"\n");
    let editors: Vec<TestEditor> = (0..10).map(|_| room.begin(&[])).collect();
    thread::scope(|scope| {
        for editor in &editors {
            scope.spawn(|| {
                room.initialize(editor, &Value::Null);
                room.check_hover(editor);
            });
        }
    });
    room.check_servers(1);
    assert_eq!(room.hubs().len(), 1);
    for editor in &editors {
        assert!(editor.shutdown().success());
    }
    room.check_nothing_left();
}

#[test]
fn killed_client_costs_the_others_nothing() {
    let room = Room::new("share_idle = \"0s\"\n");
    let (one, other) = (room.editor(), room.editor());
    room.check_hover(&other);
    let server = room.servers();
    one.forgive_unanswered();
    one.kill(Signal::KILL);
    one.wait_exit();
    room.check_hover(&other);
    assert_eq!(room.servers(), server);
    other.forgive_unanswered();
    other.kill(Signal::KILL);
    other.wait_exit();
    wait_until("no process is left", || room.mark.processes().is_empty());
    // The guards have removed the sockets of the lspools, and the hub its own.
    room.check_nothing_left();
}

#[test]
fn editors_are_answered_after_server_and_hub_are_killed() {
    let at_once = "max_restarts = 99\nbackoff = { initial = \"0s\", max = \"0s\" }\n";
    let room = Room::new(&format!("share_idle = \"0s\"\n{at_once}"));
    let editors = [room.editor(), room.editor()];
    for round in 0..3 {
        for editor in &editors {
            room.check_hover(editor);
        }
        let (servers, hubs) = (room.servers(), room.hubs());
        assert_eq!((servers.len(), hubs.len()), (1, 1), "{servers:?} {hubs:?}");
        // Not at once: what comes in between is lost with the process.
        let victims = [&servers[..], &hubs[..], &[&servers[..], &hubs[..]].concat()[..]][round].to_vec();
        for victim in &victims {
            victim.kill(Signal::KILL);
        }
        wait_until("they are dead", || victims.iter().all(|it| room.mark.process(it.pid).is_none()));
        for editor in &editors {
            room.check_hover(editor);
        }
        wait_until("only one server is left", || room.servers().len() == 1);
    }
    for editor in &editors {
        assert_eq!(room.private(editor), None);
        assert!(editor.shutdown().success());
    }
    room.check_nothing_left();
}

/// Both go on with one server, which is another.
#[test]
fn restart_by_one_editor_restarts_the_server_for_both() {
    let room = Room::new("share_idle = \"0s\"\n");
    let editors = [room.editor(), room.editor()];
    for editor in &editors {
        room.check_hover(editor);
    }
    let before = room.servers();
    editors[0].ok("lspool/restart", json!({}));
    wait_until("the server is another", || {
        let now = room.servers();
        now.len() == 1 && now[0].pid != before[0].pid
    });
    for editor in &editors {
        room.check_hover(editor);
        assert_eq!(room.private(editor), None);
    }
    room.check_servers(1);
    for editor in &editors {
        assert!(editor.shutdown().success());
    }
    room.check_nothing_left();
}

#[test]
fn each_editor_is_answered_from_its_own_unsaved_text() {
    let room = Room::new("share_idle = \"0s\"\n");
    let (one, other) = (room.editor(), room.editor());
    let document = json!({"uri": room.file(), "version": 2});
    let changes = json!([{"text": TEXT.replace("greet(name", "greet(whom")}]);
    other.notify("textDocument/didChange", json!({"textDocument": document, "contentChanges": changes}));
    // So often that one of them gets its own process in the end.
    for _ in 0..15 {
        room.check_hover_says(&one, "greet(name: str) -> str");
        room.check_hover_says(&other, "greet(whom: str) -> str");
    }
    for editor in [&one, &other] {
        assert!(editor.notifications("window/showMessage").is_empty());
        assert!(editor.shutdown().success());
    }
    room.check_nothing_left();
}

#[test]
fn clients_that_ask_something_else_of_pyright_have_another() {
    let room = Room::new("share_idle = \"0s\"\n");
    let options = json!({"a": 1});
    let editors = [
        room.editor(),
        room.editor_with(&[], &options),
        room.editor_with(&[("VIRTUAL_ENV", "/x")], &options),
    ];
    for editor in &editors {
        room.check_hover(editor);
    }
    room.check_servers(3);
    for editor in &editors {
        assert_eq!(room.private(editor), None);
        assert!(editor.shutdown().success());
    }
    room.check_nothing_left();
}

#[test]
fn warm_pyright_waits_for_the_next_client_and_ends_on_request() {
    let room = Room::new("");
    let one = room.editor();
    room.check_hover(&one);
    let server = room.servers();
    assert!(one.shutdown().success());
    assert_eq!(room.servers(), server);
    let other = room.editor();
    room.check_hover(&other);
    assert_eq!(room.servers(), server);
    assert!(other.shutdown().success());
    for hub in room.hubs() {
        hub.kill(Signal::TERM);
    }
    room.check_nothing_left();
}

#[test]
fn pyright_is_private_with_a_reason_if_its_socket_cannot_be_trusted() {
    let room = Room::new("share_idle = \"0s\"\n");
    let first = room.editor();
    let socket = room.socket();
    assert!(first.shutdown().success());
    room.check_nothing_left();

    // A dead socket is no hindrance.
    drop(UnixListener::bind(&socket).unwrap());
    let editor = room.editor();
    room.check_hover(&editor);
    assert_eq!(room.private(&editor), None);
    assert!(editor.shutdown().success());
    room.check_nothing_left();

    let private = |why: &str| {
        let editor = room.editor();
        room.check_hover(&editor);
        let told = room.private(&editor).unwrap_or_default();
        assert!(told.contains(why), "{told}");
        assert!(room.status_text().contains(&format!("private: {told}")));
        assert!(room.hubs().is_empty());
        room.check_servers(1);
        assert!(editor.shutdown().success());
    };
    let target = room.sandbox.home().join("other.sock");
    let listener = UnixListener::bind(&target).unwrap();
    symlink(&target, &socket).unwrap();
    private("is not a socket");
    fs::remove_file(&socket).unwrap();
    drop(listener);

    let foreign = UnixListener::bind(&socket).unwrap();
    let hub = thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = foreign.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        let body = json!({"id": 0, "result": {"protocol": 2, "pid": 1, "server_pid": 1}}).to_string();
        write!(stream, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        // Until the client leaves.
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
        drop(foreign);
    });
    private("its hub speaks protocol 2, not 1");
    hub.join().unwrap();
    fs::remove_file(&socket).unwrap();
    room.check_nothing_left();
}
