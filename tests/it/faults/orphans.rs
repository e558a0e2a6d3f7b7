//! The children of a server end with it, at each restart: each server has one process, and one of each of its
//! helpers.

use std::{
    collections::BTreeSet,
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;

use super::Pair;
use crate::support::{
    copilot::{Copilot, Options},
    editor::PATIENCE,
    processes::Process,
    puppet::Puppet,
    real::{self, Sandbox},
    stub::{Script, Stub},
};

/// Says in the file `left` if a process lives whose id a file in this folder names, before it starts anything.
const LOOKS_BACK: &str = r#"
for file in helper.*; do
    test -e "$file" || continue
    state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' /proc/$(cat $file)/status 2>/dev/null)
    case "$state" in ''|Z|X) ;; *) echo "$file lives ($state)" >> left ;; esac
done
"#;

/// A shell in front of a puppet, and three restarts; `dies` says which of them is ended, and how.
fn restarts(script: &str, dies: impl Fn(&Pair, &Puppet)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = format!("cd {}; {LOOKS_BACK}\n{script}", folder.path().display());
    let pair = Pair::stubborn(&script);
    let mut server = pair.handshake();
    for _ in 0..3 {
        pair.check_alive(&server);
        dies(&pair, &server);
        let next = pair.host.accept();
        assert!(!server.is_alive(), "its predecessor lives");
        next.on("initialize", |_| Ok(json!({"capabilities": {}})));
        server = next;
    }
    pair.check_alive(&server);
    let left = std::fs::read_to_string(folder.path().join("left")).unwrap_or_default();
    assert_eq!(left, "", "lived when the next process was started");
    // The last ones may be about to start.
    let (start, expected) = (Instant::now(), script.matches("sleep 4711").count());
    loop {
        let mut helpers = pair.editor.mark().processes();
        helpers.retain(|it| it.command == "sleep 4711");
        if helpers.len() == expected {
            break;
        }
        assert!(helpers.len() < expected && start.elapsed() < PATIENCE, "{helpers:?}");
        sleep(Duration::from_millis(5));
    }
    let mark = pair.editor.mark().clone();
    pair.editor.forgive_unanswered();
    pair.editor.kill(Signal::TERM);
    pair.editor.wait_exit();
    mark.wait_gone(Duration::from_secs(5));
}

/// The shell that lspool has started.
fn wrapper(pair: &Pair) -> Process {
    let lspool = pair.editor.pid();
    let all = pair.editor.mark().processes();
    let is_it = |it: &Process| it.parent == lspool && it.command.contains("sh -c trap");
    all.into_iter().find(is_it).expect("there is a shell")
}

/// The puppet is a child of the shell, and has helpers that have helpers.
const FAMILY: &str = r#"
sh -c 'sleep 4711 & echo $! > helper.$$; sleep 4711 & echo $! > helper.$!; wait' &
$PUPPET <&3 &
echo $! > helper.puppet.$$
wait
"#;

#[test]
fn killing_wrapper_ends_its_server_and_helpers() {
    restarts(&format!("exec 3<&0; {FAMILY}"), |pair, _| wrapper(pair).kill(Signal::KILL));
}

#[test]
fn server_ignoring_sigterm_is_gone_before_restart() {
    restarts(&format!("exec 3<&0; {FAMILY}"), |_, server| {
        server.write(format!("Content-Length: {}\r\n\r\n", u64::MAX));
    });
}

#[test]
fn helpers_of_exited_server_are_gone_before_restart() {
    let script = "sleep 4711 & echo $! > helper.$$; exec $PUPPET";
    restarts(script, |_, server| server.exit(1));
}

#[test]
fn wrapped_copilot_server_never_runs_twice() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stub);
    // A request waits for the next process as long as that is not far off.
    let config = sandbox.write("config.toml", "[server.copilot]\nbackoff = { initial = \"0s\" }\n");
    command.arg("--config").arg(config).args(["--", "node"]).arg(real::copilot_wrapper()).arg("--stdio");
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    session.ok("checkStatus", json!({}));
    let first = session.mark().processes_running("/copilot-language-server --stdio");
    let mut seen: BTreeSet<_> = first.iter().map(|it| it.pid).collect();
    for _ in 0..3 {
        let lspool = session.pid();
        let all = session.mark().processes();
        let wrapper = all.iter().find(|it| it.parent == lspool && it.command.contains("language-server.js"));
        wrapper.expect("there is a wrapper").kill(Signal::KILL);
        let status = session.request("checkStatus", json!({}));
        let start = Instant::now();
        loop {
            let all = session.mark().processes_running("/copilot-language-server --stdio");
            // A server that is about to start something else looks like two.
            let is_child = |it: &Process| all.iter().any(|other| other.pid == it.parent);
            let servers: Vec<&Process> = all.iter().filter(|it| !is_child(it)).collect();
            assert!(servers.len() <= 1, "{servers:#?}");
            let is_new = servers.iter().any(|it| !seen.contains(&it.pid));
            if session.answer_to(&status).is_some() && is_new {
                seen.extend(servers.iter().map(|it| it.pid));
                break;
            }
            assert!(start.elapsed() < PATIENCE, "it does not come back");
            sleep(Duration::from_millis(5));
        }
        session.wait(&status).expect("it only reads");
    }
    assert!(session.shutdown().success());
    session.mark().wait_gone(Duration::from_secs(5));
}
