//! Servers that run elsewhere, with real ones: bubblewrap gives them another root, other processes and no network,
//! and `sshd` on loopback another host.

mod clock;
mod copies;
mod copilot;
mod engines;
mod leftovers;
mod shared;
mod trouble;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    generic::{Session, Subject, capabilities, pyright, typescript},
    support::{
        copilot::uri,
        editor::TestEditor,
        own,
        real::{self, Sandbox},
    },
};

/// A session under `/app` answers as one beside the editor, by the byte: also URIs in results and edits.
fn same_elsewhere(mut subject: Subject, configure: fn(&Bubble, &Sandbox, &[OsString]) -> PathBuf) {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    sandbox.write(subject.file, subject.text);
    let here = Session::play(&sandbox, &subject, &[]);
    let config = configure(&bubble, &sandbox, &subject.command);
    // Paths in texts are mapped, which such a recording needs to replay.
    let lspool = [
        env!("CARGO_BIN_EXE_lspool"),
        "--record-texts",
        "yes",
        "--config",
        config.to_str().expect("it is text"),
    ];
    let lspool = lspool.map(OsString::from);
    subject.command.clear();
    let mut there = Session::play(&sandbox, &subject, &lspool);
    there.answers[0].1 = own::without_commands(&there.answers[0].1);
    assert!(here.answers.len() > 15, "the session took place: {:#?}", here.answers);
    for ((step, there), (_, here)) in there.answers.iter().zip(&here.answers) {
        assert_eq!(without_data(there), without_data(here), "{step}");
    }
    let published = "textDocument/publishDiagnostics";
    assert_eq!(there.said.get(published), here.said.get(published));
    assert_eq!(there.answers.len(), here.answers.len());
    assert_eq!(there.exit, Some(0));
}

/// `data` of items goes back to the server, so its paths stay the server's. Its libraries are copies here.
fn without_data(message: &str) -> Value {
    const COPIES: &str = "/home/.cache/lspool/remote/far-";
    fn remove(value: &mut Value) {
        match value {
            Value::Array(all) => all.iter_mut().for_each(remove),
            Value::Object(all) => {
                all.remove("data");
                all.values_mut().for_each(remove);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut message = message.to_owned();
    while let Some(at) = message.find(COPIES) {
        let start = message[..at].rfind("file://").expect("it is in a URI") + "file://".len();
        let end = at + COPIES.len();
        let end = end + message[end..].find('/').expect("a folder has files");
        message.replace_range(start..end, "");
    }
    let message = message.as_str();
    let mut message = serde_json::from_str(message).expect("it is JSON");
    remove(&mut message);
    message
}

#[test]
fn pyright_in_another_root_answers_the_same() {
    same_elsewhere(pyright(), Bubble::config);
}

#[test]
fn typescript_in_another_root_answers_the_same() {
    same_elsewhere(typescript(), Bubble::config);
}

/// A stand-in for docker: it tells a mount, and runs commands in another root.
#[test]
fn pyright_in_a_container_answers_the_same() {
    same_elsewhere(pyright(), Bubble::docker);
}

/// The words of a known engine need no section.
#[test]
fn pyright_in_a_container_of_a_command_line_answers_the_same() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("a.py", "import os\nvalue = os.getcwd()\n"));
    let config = bubble.docker(&sandbox, &pyright().command);
    fs::write(&config, "").expect("it is ours");
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    command
        .arg("--config")
        .arg(&config)
        .arg("--")
        .arg(sandbox.home().join("docker"))
        .args(["exec", "-i", "web"]);
    let editor = TestEditor::spawn({
        command.args(&pyright().command);
        command
    });
    editor.agree();
    open(&editor, &sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));
    let at = json!({"textDocument": {"uri": document}, "position": {"line": 1, "character": 1}});
    let found = editor.ok("textDocument/definition", at);
    assert_eq!(found[0]["uri"], document.as_str(), "{found}");
}

/// Another root and other processes.
struct Bubble {
    program: PathBuf,
}

impl Bubble {
    /// `None`: it cannot be made here.
    fn new() -> Option<Bubble> {
        let Some(program) = found("bwrap") else {
            eprintln!("NOT RUN: bubblewrap is not installed");
            return None;
        };
        let words = "--unshare-pid --unshare-net --ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
                     --proc /proc /usr/bin/true"
            .split_whitespace();
        let tried = Command::new(&program).args(words).stderr(Stdio::null()).status();
        if !tried.is_ok_and(|it| it.success()) {
            eprintln!("NOT RUN: bubblewrap may not make namespaces here");
            return None;
        }
        Some(Bubble { program })
    }

    /// The words that run a command where the workspace is at `/app`.
    fn words(&self, sandbox: &Sandbox) -> Vec<String> {
        let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
        let (servers, workspace) = (servers.display().to_string(), sandbox.workspace().display().to_string());
        let program = self.program.display();
        let words = format!(
            "{program} --unshare-pid --unshare-net --ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 \
             /lib64 --symlink usr/bin /bin --proc /proc --dev /dev --tmpfs /tmp --ro-bind {servers} {servers} --bind \
             {workspace} /app --chdir /app --clearenv --setenv PATH /usr/bin --setenv HOME /tmp"
        );
        words.split_whitespace().map(ToOwned::to_owned).collect()
    }

    /// A configuration for a server that has the workspace at `/app`.
    fn config(&self, sandbox: &Sandbox, command: &[OsString]) -> PathBuf {
        let remote = format!(
            "engine = \"command\"\nengine_command = {:?}\npaths = [{{ local = {:?}, remote = \"/app\" }}]\n",
            self.words(sandbox),
            sandbox.workspace().display().to_string()
        );
        configured(sandbox, command, &remote)
    }

    /// The same in a container, whose mounts the engine tells.
    fn docker(&self, sandbox: &Sandbox, command: &[OsString]) -> PathBuf {
        let docker = sandbox.home().join("docker");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n\
             'inspect --type container --format {{{{json .Mounts}}}} web') echo '[{{\"Type\":\"bind\",\"Source\":\"{}\",\
             \"Destination\":\"/app\"}}]' ;;\n\
             'exec -i web '*) shift 3; exec {1} \"$@\" ;;\n\
             'exec -i -e API_TOKEN web '*) shift 5; exec {1} \"$@\" ;;\n\
             *) echo \"unknown: $*\" >&2; exit 1 ;;\nesac\n",
            sandbox.workspace().display(),
            self.words(sandbox).join(" ")
        );
        fs::write(&docker, script).expect("the system does it");
        fs::set_permissions(&docker, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("it is ours");
        let docker = docker.display().to_string();
        let remote = format!("engine = \"docker\"\ntarget = \"web\"\nengine_command = [{docker:?}]\n");
        configured(sandbox, command, &remote)
    }
}

fn configured(sandbox: &Sandbox, command: &[OsString], remote: &str) -> PathBuf {
    let words: Vec<&str> = command.iter().map(|it| it.to_str().expect("it is text")).collect();
    let (program, args) = words.split_first().expect("it has words");
    let file = sandbox.home().join("lspool.toml");
    let config =
        format!("[server.far]\ncommand = {program:?}\nargs = {args:?}\n[server.far.remote]\n{remote}");
    fs::write(&file, config).expect("the system does it");
    file
}

/// pyright ends three seconds after it has not found the process of its client.
#[test]
fn server_among_other_processes_lives_on() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("a.py", "import os\nvalue = os.getcwd()\n"));
    let config = bubble.config(&sandbox, &pyright().command);
    let editor = start(&sandbox, &config);
    open(&editor, &sandbox, &document);
    let first = hover(&editor, &document);
    assert!(first.contains("getcwd"), "{first}");
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(hover(&editor, &document), first);
    let status = editor.ok("lspool/status", json!({}));
    assert_eq!(status["backends"][0]["restarts"], 0, "{status}");
    let program = status["backends"][0].to_string();
    assert!(!program.contains("failed"), "{program}");
}

fn start(sandbox: &Sandbox, config: &Path) -> TestEditor {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    command.arg("--config").arg(config);
    let editor = TestEditor::spawn(command);
    editor.agree();
    editor
}

fn open(editor: &TestEditor, sandbox: &Sandbox, document: &str) {
    let workspace = uri(&sandbox.workspace());
    let initialize = json!({
        "processId": std::process::id(), "rootUri": workspace, "capabilities": capabilities(),
        "workspaceFolders": [{"uri": workspace, "name": "workspace"}],
    });
    editor.ok("initialize", initialize);
    editor.notify("initialized", json!({}));
    let text = fs::read_to_string(Path::new(document.strip_prefix("file://").expect("the system does it")))
        .expect("the system does it");
    let opened = json!({"uri": document, "languageId": "python", "version": 1, "text": text});
    editor.notify("textDocument/didOpen", json!({"textDocument": opened}));
}

fn hover(editor: &TestEditor, document: &str) -> String {
    let at = json!({"textDocument": {"uri": document}, "position": {"line": 1, "character": 13}});
    editor.ok("textDocument/hover", at)["contents"]["value"].as_str().unwrap_or_default().to_owned()
}

/// `sshd` on loopback with keys of its own.
struct Host {
    command: Command,
    sshd: Child,
    config: PathBuf,
}

impl Host {
    /// `None`: it cannot be started here.
    fn start(sandbox: &Sandbox) -> Option<Host> {
        let (Some(sshd), Some(_), Some(_)) = (found("sshd"), found("ssh"), found("ssh-keygen")) else {
            eprintln!("NOT RUN: openssh-server is not installed");
            return None;
        };
        if !rustix::process::geteuid().is_root() {
            eprintln!("NOT RUN: sshd wants to be root");
            return None;
        }
        let folder = sandbox.home().join("ssh");
        fs::create_dir(&folder).expect("the system does it");
        fs::create_dir_all("/run/sshd").expect("the system does it");
        let of = |name: &str| folder.join(name).to_str().expect("it is text").to_owned();
        for key in ["host", "key"] {
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &of(key)]).status();
            assert!(made.expect("the system does it").success());
        }
        fs::copy(of("key.pub"), of("authorized")).expect("the system does it");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .expect("the system does it")
            .local_addr()
            .expect("the system does it")
            .port();
        let server = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\n",
            of("host"),
            of("authorized")
        );
        fs::write(of("sshd_config"), server).expect("the system does it");
        let public = fs::read_to_string(of("host.pub")).expect("the system does it");
        let public = public.split(' ').take(2).collect::<Vec<_>>().join(" ");
        fs::write(of("known"), format!("[127.0.0.1]:{port} {public}\n")).expect("the system does it");
        let client = format!(
            "Host box\n HostName 127.0.0.1\n Port {port}\n IdentityFile {}\n IdentitiesOnly yes\n \
             UserKnownHostsFile {}\n StrictHostKeyChecking yes\n",
            of("key"),
            of("known")
        );
        fs::write(of("ssh_config"), client).expect("the system does it");
        let mut command = Command::new(sshd);
        command.args(["-D", "-f", &of("sshd_config"), "-E", &of("sshd.log")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let sshd = command.spawn().expect("sshd starts");
        let host = Host { command, sshd, config: folder.join("ssh_config") };
        let is_up = || {
            let mut ssh = Command::new("ssh");
            ssh.arg("-F").arg(&host.config).args(["box", "true"]);
            ssh.stderr(Stdio::null()).status().is_ok_and(|it| it.success())
        };
        wait_until("sshd accepts connections", is_up);
        Some(host)
    }

    fn config(&self, sandbox: &Sandbox, command: &str, more: &str) -> PathBuf {
        let config = format!(
            "[server.far]\ncommand = {command:?}\nargs = [\"--stdio\"]\ncwd = {:?}\n[server.far.remote]\n\
             engine = \"ssh\"\ntarget = \"box\"\nengine_args = [\"-F\", {:?}]\n{more}",
            sandbox.workspace().display().to_string(),
            self.config.display().to_string()
        );
        let file = sandbox.home().join("lspool.toml");
        fs::write(&file, config).expect("the system does it");
        file
    }
}

impl Host {
    /// Nobody listens any more, and all connections break.
    fn go_away(&mut self) {
        self.sshd.kill().ok();
        self.sshd.wait().ok();
        let config = self.config.to_str().expect("it is text").to_owned();
        kill(&processes(|line| line.contains(&config)));
    }

    fn come_back(&mut self) {
        self.sshd = self.command.spawn().expect("sshd starts");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.sshd.kill().ok();
        self.sshd.wait().ok();
    }
}

/// Neither the end of the connection nor of lspool leaves the server behind, which ignores the end of its input and
/// SIGTERM.
#[test]
fn server_on_another_host_survives_no_connection() {
    let sandbox = Sandbox::new();
    let Some(host) = Host::start(&sandbox) else { return };
    let document = uri(&sandbox.write("a.py", "import os\nvalue = os.getcwd()\n"));
    let stubborn = sandbox.home().join("stubborn");
    let script = format!(
        "#!/bin/sh\ntrap '' TERM HUP\n{} \"$@\"\nwhile :; do sleep 1; done\n",
        real::pyright().display()
    );
    fs::write(&stubborn, script).expect("the system does it");
    fs::set_permissions(&stubborn, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("the system does it");
    let config = host.config(&sandbox, stubborn.to_str().expect("it is text"), "");
    let editor = start(&sandbox, &config);
    open(&editor, &sandbox, &document);
    let first = hover(&editor, &document);
    assert!(first.contains("getcwd"), "{first}");
    let client = || processes(|line| line.contains(host.config.to_str().expect("it is text")));
    let servers = || {
        let clients = client();
        let all = processes(|line| line.contains(stubborn.to_str().expect("it is text")));
        all.into_iter().filter(|it| !clients.contains(it)).collect::<Vec<_>>()
    };
    let before = servers();
    assert!(!before.is_empty());

    // The client of the engine dies: the next server answers, and the first one ends.
    kill(&client());
    assert_eq!(hover(&editor, &document), first);
    wait_until("the first server is gone", || servers().iter().all(|it| !before.contains(it)));

    kill(&[editor.pid()]);
    wait_until("no server is left", || servers().is_empty());
}

/// As long as nobody listens, lspool tries again, more often than the server may crash. Edits meanwhile count.
#[test]
fn server_on_a_host_that_was_away_knows_all_edits() {
    let sandbox = Sandbox::new();
    let Some(mut host) = Host::start(&sandbox) else { return };
    let document = uri(&sandbox.write("a.py", "import os\nvalue = os.getcwd()\n"));
    let config = host.config(&sandbox, real::pyright().to_str().expect("it is text"), "");
    let text = fs::read_to_string(&config).expect("it was written");
    // The end of the connection itself counts as a crash, because something has killed the engine's client.
    fs::write(&config, text.replace("[server.far]", "[server.far]\nmax_restarts = 1")).expect("it is ours");
    let editor = start(&sandbox, &config);
    open(&editor, &sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));

    host.go_away();
    let state = || editor.ok("lspool/status", json!({}))["backends"][0].clone();
    for name in ["getpid", "getppid", "getlogin"] {
        let text = format!("import os\nvalue = os.{name}()\n");
        let document = json!({"uri": document, "version": 2});
        let change = json!({"textDocument": document, "contentChanges": [{"text": text}]});
        editor.notify("textDocument/didChange", change);
        let before = state()["restarts"].as_u64();
        wait_until("another attempt fails", || state()["restarts"].as_u64() > before);
    }
    wait_until("an attempt has failed", || state().to_string().contains("cannot be reached"));
    host.come_back();
    wait_until("the server is back", || state()["state"] == "ready");
    assert!(hover(&editor, &document).contains("getlogin"));
    assert_eq!(state()["crashes"], 1, "{}", state());
}

#[test]
fn missing_server_on_another_host_is_a_clear_error() {
    let sandbox = Sandbox::new();
    let Some(host) = Host::start(&sandbox) else { return };
    let config = host.config(&sandbox, "no-such-server", "");
    let editor = start(&sandbox, &config);
    let initialize = json!({"processId": null, "rootUri": uri(&sandbox.workspace()), "capabilities": {}});
    let error = editor.call("initialize", initialize).unwrap_err();
    assert!(error.message.contains("no-such-server: not found"), "{error}");
}

/// The processes with such a command line.
fn processes(is_wanted: impl Fn(&str) -> bool) -> Vec<u32> {
    let is_one = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_wanted(&String::from_utf8_lossy(&line))
    };
    let all = fs::read_dir("/proc")
        .expect("the system does it")
        .filter_map(|it| it.expect("the system does it").file_name().to_str()?.parse().ok());
    all.filter(is_one).collect()
}

fn kill(pids: &[u32]) {
    use rustix::process::{Pid, Signal, kill_process};
    for pid in pids.iter().filter_map(|it| Pid::from_raw(i32::try_from(*it).ok()?)) {
        kill_process(pid, Signal::KILL).ok();
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_mins(1), "still waiting: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An executable on `PATH` or where Debian has those of the system.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect::<Vec<_>>();
    folders.iter().map(|it| it.join(name)).find(|it| it.is_file())
}

/// The command of the server, and the folders that it has, not the words of the engine.
#[test]
fn check_says_where_a_server_is_and_which_folders_it_has() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a.py", "import os\n");
    let config = bubble.config(&sandbox, &pyright().command);
    let mut check = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    let output = check.args(["check", "--config"]).arg(config).output().expect("lspool starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("far     ok"), "{said}");
    assert!(said.contains("pyright-langserver --stdio (with "), "{said}");
    let folders = format!("folders: {} is /app there", sandbox.workspace().display());
    assert!(said.contains(&folders), "{said}");
    assert!(said.contains("/app/a.py is the same file on both sides"), "{said}");
    assert!(!said.contains("stays there"), "{said}");
}
