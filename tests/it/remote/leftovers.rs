//! Nothing stays on the other side: a link that drops, and an lspool that is killed with its guard.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::json;

use super::{Bubble, Host, found, hover, kill, open, processes, start, wait_until};
use crate::{
    generic::pyright,
    support::{copilot::uri, real, real::Sandbox},
};

const TEXT: &str = "import os\nvalue = os.getcwd()\n";

/// Two network namespaces with a link between them. `sshd` runs in one, the client in the other.
pub(super) struct Link {
    here: String,
    there: String,
    device: String,
    sshd: Option<Child>,
}

impl Link {
    /// `None`: it cannot be made here.
    pub(super) fn new() -> Option<Link> {
        if found("ip").is_none() || !rustix::process::geteuid().is_root() {
            eprintln!("NOT RUN: a network that drops needs iproute2, and root");
            return None;
        }
        let id = std::process::id();
        let names = |side: &str| (format!("lspool-{side}-{id}"), format!("v{side}{id}"));
        let ((here, near), (there, distant)) = (names("a"), names("b"));
        let it = Link { here, there, device: near, sshd: None };
        let Link { here, there, device: near, .. } = &it;
        let script = format!(
            "set -e; ip netns add {here}; ip netns add {there}\n\
             ip link add {near} netns {here} type veth peer name {distant} netns {there}\n\
             ip -n {here} addr add 10.77.0.1/24 dev {near}; ip -n {there} addr add 10.77.0.2/24 dev {distant}\n\
             ip -n {here} link set {near} up; ip -n {there} link set {distant} up\n\
             ip -n {here} link set lo up; ip -n {there} link set lo up; ip netns exec {here} true\n"
        );
        let made = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
        if !made.is_ok_and(|it| it.success()) {
            eprintln!("NOT RUN: no network namespaces can be made here");
            return None;
        }
        Some(it)
    }

    fn run(words: &str) {
        let mut words = words.split_whitespace();
        let mut command = Command::new(words.next().expect("there is one"));
        assert!(command.args(words).status().expect("it starts").success());
    }

    /// The link breaks, without a word to anybody.
    pub(super) fn drop_out(&self) {
        Link::run(&format!("ip -n {} link set {} down", self.here, self.device));
    }

    /// The same link is there again.
    pub(super) fn come_back_as_it_was(&self) {
        Link::run(&format!("ip -n {} link set {} up", self.here, self.device));
    }

    /// A configuration for pyright on the host behind the link, and the command line of that server. `options` are
    /// those of `ssh`.
    pub(super) fn config(
        &mut self,
        sandbox: &Sandbox,
        host: &Host,
        options: &str,
        more: &str,
    ) -> (PathBuf, String) {
        let server = real::pyright().to_str().expect("it is text").to_owned();
        let config = host.config(sandbox, &server, "");
        // The same host, in the namespace.
        let folder = host.config.parent().expect("it is in a folder");
        let of = |name: &str| fs::read_to_string(folder.join(name)).expect("it was written");
        fs::write(folder.join("sshd_there"), of("sshd_config").replace("127.0.0.1", "10.77.0.2"))
            .expect("it is ours");
        fs::write(folder.join("known"), of("known").replace("127.0.0.1", "10.77.0.2")).expect("it is ours");
        fs::write(folder.join("ssh_config"), of("ssh_config").replace("127.0.0.1", "10.77.0.2"))
            .expect("it is ours");
        let mut sshd = Command::new("ip");
        sshd.args(["netns", "exec", &self.there])
            .arg(found("sshd").expect("it was found"))
            .arg("-D")
            .arg("-f");
        sshd.arg(folder.join("sshd_there")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.sshd = Some(sshd.spawn().expect("it starts"));
        let text = fs::read_to_string(&config).expect("it was written");
        let text = text.replace("engine_args = [", &format!("engine_args = [{options}"));
        let text =
            format!("{text}engine_command = [\"ip\", \"netns\", \"exec\", {:?}, \"ssh\"]\n{more}", self.here);
        fs::write(&config, text.replace("[server.far]", "[server.far]\nmax_restarts = 1"))
            .expect("it is ours");
        wait_until("sshd listens there", || {
            let mut ssh = Command::new("ip");
            ssh.args(["netns", "exec", &self.here, "ssh", "-F"]).arg(&host.config).args(["box", "true"]);
            ssh.stderr(Stdio::null()).status().is_ok_and(|it| it.success())
        });
        (config, server)
    }

    /// The servers that run behind the link.
    pub(super) fn servers(&self, server: &str) -> Vec<u32> {
        let there = Command::new("ip").args(["netns", "pids", &self.there]).output().expect("it runs");
        let there = String::from_utf8_lossy(&there.stdout).into_owned();
        let pids: Vec<u32> = there.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        let is_node = |line: &str| line.contains(server) && line.starts_with("node");
        processes(is_node).into_iter().filter(|it| pids.contains(it)).collect()
    }

    /// There is a link again, under another address: what was sent under the old one arrives nowhere.
    pub(super) fn come_back(&self) {
        Link::run(&format!("ip -n {} addr del 10.77.0.1/24 dev {}", self.here, self.device));
        Link::run(&format!("ip -n {} addr add 10.77.0.3/24 dev {}", self.here, self.device));
        Link::run(&format!("ip -n {} link set {} up", self.here, self.device));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(mut sshd) = self.sshd.take() {
            sshd.kill().ok();
            sshd.wait().ok();
        }
        for name in [&self.here, &self.there] {
            // Sessions of sshd outlive it.
            let pids = Command::new("ip").args(["netns", "pids", name]).output();
            let pids = pids.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
            kill(&pids.split_whitespace().filter_map(|it| it.parse().ok()).collect::<Vec<_>>());
            Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status().ok();
        }
    }
}

/// Requests and edits wait while the link is down. The next start ends the server that stayed over there: its host
/// does not know that the connection is gone.
#[test]
fn link_that_drops_loses_no_edit_and_leaves_no_server() {
    let sandbox = Sandbox::new();
    let Some(mut link) = Link::new() else { return };
    let Some(host) = Host::start(&sandbox) else { return };
    let document = uri(&sandbox.write("a.py", TEXT));
    let options =
        r#""-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2", "-o", "ConnectTimeout=2", "#;
    let (config, server) =
        link.config(&sandbox, &host, options, "reconnect_max = \"1s\"\nrequest_wait = \"5m\"\n");
    let there = || link.servers(&server);
    let editor = start(&sandbox, &config);
    open(&editor, &sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));
    let first = there();
    assert_eq!(first.len(), 1);
    link.drop_out();
    let at = json!({"textDocument": {"uri": document}, "position": {"line": 1, "character": 13}});
    let mut waiting = Vec::new();
    for (version, name) in [(2, "getpid"), (3, "getppid"), (4, "getlogin")] {
        let text = format!("import os\nvalue = os.{name}()\n");
        let changed = json!({"uri": document, "version": version});
        editor.notify(
            "textDocument/didChange",
            json!({"textDocument": changed, "contentChanges": [{"text": text}]}),
        );
        waiting.push(editor.request("textDocument/hover", at.clone()));
    }
    let state = || editor.ok("lspool/status", json!({}))["backends"][0].clone();
    wait_until("lspool knows", || state()["last_error"].to_string().contains("cannot be reached"));
    editor.wait_notification("window/showMessage", |it| it.to_string().contains("keeps trying"));
    assert_eq!(there(), first, "nobody has told the server");
    link.come_back();
    for asked in waiting {
        let answer = editor.wait(&asked).expect("it is answered").to_string();
        assert!(answer.contains("getlogin"), "{answer}");
    }
    editor.wait_notification("window/showMessage", |it| it.to_string().contains("reached again"));
    let now = there();
    assert!(now.len() == 1 && now != first, "one server is there, and it is another: {now:?} {first:?}");
    assert_eq!(state()["crashes"], 0);
    editor.shutdown();
}

/// Without its guard, too, an lspool that is killed leaves no server on another host: the shell there sees the end.
#[test]
fn lspool_that_is_killed_with_its_guard_leaves_no_server() {
    let sandbox = Sandbox::new();
    let Some(host) = Host::start(&sandbox) else { return };
    let document = uri(&sandbox.write("a.py", TEXT));
    let stubborn = sandbox.home().join("stubborn");
    let pyright = real::pyright();
    executable(
        &stubborn,
        &format!("trap '' TERM HUP\n{} \"$@\"\nwhile :; do sleep 1; done\n", pyright.display()),
    );
    let config = host.config(&sandbox, stubborn.to_str().expect("it is text"), "");
    let editor = start(&sandbox, &config);
    open(&editor, &sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));
    let name = stubborn.to_str().expect("it is text").to_owned();
    assert!(!processes(|line| line.contains(&name)).is_empty());
    let lspool = editor.pid();
    let guard = processes(|line| line.contains(&format!("\0guard\0{lspool}-")));
    assert_eq!(guard.len(), 1);
    kill(&[guard[0], lspool]);
    wait_until("no server is left", || processes(|line| line.contains(&name)).is_empty());
}

pub(super) fn executable(file: &Path, script: &str) {
    fs::write(file, format!("#!/bin/sh\n{script}")).expect("it is ours");
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// A stand-in for docker that makes containers of an image. It notes their names, and what is removed.
fn docker_with_image(bubble: &Bubble, sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let (docker, notes) = (sandbox.home().join("docker"), sandbox.home().join("notes"));
    let workspace = sandbox.workspace().display().to_string();
    let words = bubble.words(sandbox).join(" ");
    executable(
        &docker,
        &format!(
            "case \"$*\" in\n\
             'run --rm -i --init --name '*) echo \"run $6\" >>{notes}; shift 6 ;;\n\
             'run --rm -i --init '*) shift 4 ;;\n\
             'rm -f '*) echo \"removed $3\" >>{notes}; exit ;;\n\
             *) echo \"unknown: $*\" >&2; exit 1 ;;\nesac\n\
             case \"$1 $2\" in '--mount type=bind,\"source={workspace}\",\"target=/app\"') shift 2 ;; *) exit 1 ;; esac\n\
             [ \"$1\" = python:3 ] || exit 1\nshift\nexec {words} \"$@\"\n",
            notes = notes.display()
        ),
    );
    let remote = format!(
        "engine = \"docker\"\nimage = \"python:3\"\nengine_command = [{:?}]\n\
         paths = [{{ local = {workspace:?}, remote = \"/app\" }}]\n",
        docker.display().to_string()
    );
    (super::configured(sandbox, &pyright().command, &remote), notes)
}

/// Each process is in a new container, which the guard removes for an lspool that was killed.
#[test]
fn container_of_an_image_is_removed_with_its_lspool() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("a.py", TEXT));
    let (config, notes) = docker_with_image(&bubble, &sandbox);
    let editor = start(&sandbox, &config);
    open(&editor, &sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));
    let told = || fs::read_to_string(&notes).unwrap_or_default();
    let name = told().trim().strip_prefix("run ").expect("one was made").to_owned();
    assert!(name.starts_with(&format!("lspool-{}-", editor.pid())), "{name}");
    kill(&[editor.pid()]);
    wait_until("it is removed", || told().contains(&format!("removed {name}")));
}

/// Variables for a server on another host are on no command line, here or there.
#[test]
fn secret_variable_reaches_a_server_on_another_host_unseen() {
    let sandbox = Sandbox::new();
    let Some(host) = Host::start(&sandbox) else { return };
    let document = uri(&sandbox.write("a.py", TEXT));
    let (server, seen) = (sandbox.home().join("server"), sandbox.home().join("seen"));
    executable(
        &server,
        &format!("printf %s \"$TOKEN\" >{}\nexec {} \"$@\"\n", seen.display(), real::pyright().display()),
    );
    let config = host.config(&sandbox, server.to_str().expect("it is text"), "");
    let text = fs::read_to_string(&config).expect("it was written");
    let secret = "s3cret 'quoted' $HOME";
    let env = format!("[server.far]\nenv = {{ TOKEN = {secret:?} }}");
    fs::write(&config, text.replace("[server.far]", &env)).expect("it is ours");
    let tape = sandbox.home().join("tape");
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    command.arg("--record").arg(&tape).arg("--config").arg(&config);
    let editor = crate::support::editor::TestEditor::spawn(command);
    editor.agree();
    open(&editor, &sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));
    assert_eq!(fs::read_to_string(&seen).expect("it was written"), secret);
    assert!(processes(|line| line.contains("s3cret")).is_empty());
    editor.shutdown();
    let recorded = fs::read_to_string(&tape).expect("it was written");
    assert!(recorded.contains("TOKEN") && !recorded.contains("s3cret"));
}
