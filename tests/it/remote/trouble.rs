//! What goes wrong on the way to a server: wrong keys, stopped containers, noise. Each is one clear error, or none.

use std::{fs, path::Path};

use serde_json::json;

use super::{
    Bubble, Host, configured, hover, kill, leftovers::executable, open, processes, start, wait_until,
};
use crate::{
    generic::pyright,
    support::{copilot::uri, editor::TestEditor, real, real::Sandbox},
};

const TEXT: &str = "import os\nvalue = os.getcwd()\n";

/// Why the editor's `initialize` fails, which comes once.
fn refused(sandbox: &Sandbox, config: &Path) -> String {
    let editor = start(sandbox, config);
    let initialize = json!({"processId": null, "rootUri": uri(&sandbox.workspace()), "capabilities": {}});
    editor.call("initialize", initialize).expect_err("it cannot start").message
}

#[test]
fn wrong_key_and_changed_host_are_clear_errors() {
    let sandbox = Sandbox::new();
    let Some(host) = Host::start(&sandbox) else { return };
    let config = host.config(&sandbox, real::pyright().to_str().expect("it is text"), "");
    let folder = host.config.parent().expect("it is in a folder");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it was written");
    let (client, known) = (read("ssh_config"), read("known"));

    let host_key = folder.join("host").display().to_string();
    let key = folder.join("key").display().to_string();
    fs::write(&host.config, client.replace(&key, &host_key)).expect("it is ours");
    let error = refused(&sandbox, &config);
    assert!(error.contains("Permission denied (publickey"), "{error}");

    fs::write(&host.config, &client).expect("it is ours");
    let public = |name: &str| read(name).split(' ').nth(1).expect("it has a key").to_owned();
    fs::write(folder.join("known"), known.replace(&public("host.pub"), &public("key.pub")))
        .expect("it is ours");
    let error = refused(&sandbox, &config);
    assert!(error.contains("Host key verification failed"), "{error}");
}

/// The exit code of the server, not that of the engine, which is in the same group.
#[test]
fn missing_server_in_another_root_has_its_exit_code() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let error = refused(&sandbox, &bubble.config(&sandbox, &["no-such-server".into()]));
    assert!(error.contains("no-such-server: not found") && error.contains("exit code 127"), "{error}");
}

#[test]
fn stopped_container_is_a_clear_error_and_may_be_started_meanwhile() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("a.py", TEXT));
    let config = bubble.docker(&sandbox, &pyright().command);
    let (docker, running) = (sandbox.home().join("docker"), sandbox.home().join("running"));
    let script = fs::read_to_string(&docker).expect("it was written");
    let no_container = "echo 'Error response from daemon: container web is not running' >&2; exit 1";
    let script = script.replace("#!/bin/sh\n", "").replace(
        "shift 3; exec",
        &format!("shift 3; [ -e {} ] || {{ {no_container}; }}; exec", running.display()),
    );
    executable(&docker, &script);
    let error = refused(&sandbox, &config);
    assert!(error.contains("container web is not running"), "{error}");

    // It is stopped under a running server, and started again.
    fs::write(&running, "").expect("it is ours");
    let editor = start(&sandbox, &config);
    open(&editor, &sandbox, &document);
    let first = hover(&editor, &document);
    assert!(first.contains("getcwd"), "{first}");
    fs::remove_file(&running).expect("it is ours");
    let workspace = sandbox.workspace().display().to_string();
    kill(&processes(|line| {
        line.starts_with("bwrap") || line.contains("/bwrap\0") && line.contains(&workspace)
    }));
    let state = || editor.ok("lspool/status", json!({}))["backends"][0].clone();
    wait_until("lspool notices", || state()["state"] == "unreachable");
    fs::write(&running, "").expect("it is ours");
    assert_eq!(hover(&editor, &document), first);
    editor.shutdown();
}

/// What a login script writes is skipped, and kept for people. A server that fills stderr is read on.
#[test]
fn noise_on_the_way_disturbs_nobody() {
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("a.py", TEXT));
    let login = sandbox.home().join("login");
    executable(
        &login,
        "echo 'Welcome to box'; echo\nhead -c 1000000 /dev/zero | tr '\\0' x >&2; echo >&2; exec \"$@\"\n",
    );
    let remote = format!("engine = \"command\"\nengine_command = [{:?}]\n", login.display().to_string());
    let editor = start(&sandbox, &configured(&sandbox, &pyright().command, &remote));
    open(&editor, &sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));
    let mut logs = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    let pid = editor.pid().to_string();
    let said = logs.args(["logs", "far", "--pid", &pid]).output().expect("lspool starts");
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("Welcome to box"), "{}", said.chars().take(500).collect::<String>());
    editor.shutdown();
}

/// Neither the log nor the recording of any kind of engine has the value of a variable, at the loudest level.
#[test]
fn no_log_or_command_line_holds_the_value_of_a_variable() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("a.py", TEXT));
    for engine in ["command", "docker", "ssh"] {
        let host = if engine == "ssh" { Host::start(&sandbox) } else { None };
        let config = match (engine, &host) {
            ("docker", _) => bubble.docker(&sandbox, &pyright().command),
            ("command", _) => bubble.config(&sandbox, &pyright().command),
            (_, Some(host)) => host.config(&sandbox, real::pyright().to_str().expect("it is text"), ""),
            (_, None) => continue,
        };
        let text = fs::read_to_string(&config).expect("it was written");
        let env = "[server.far]\nenv = { API_TOKEN = \"s3cret-of-mine\" }";
        fs::write(&config, text.replace("[server.far]", env)).expect("it is ours");
        let (log, tape) =
            (sandbox.home().join(format!("{engine}.log")), sandbox.home().join(format!("{engine}.tape")));
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
        command.args(["--log-level", "trace", "--log-file"]).arg(&log).arg("--record").arg(&tape);
        command.arg("--config").arg(&config);
        let editor = TestEditor::spawn(command);
        editor.agree();
        open(&editor, &sandbox, &document);
        assert!(hover(&editor, &document).contains("getcwd"), "{engine}");
        let lines = processes(|line| line.contains("s3cret-of-mine"));
        assert!(lines.is_empty(), "{engine}: {lines:?}");
        let mut status = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
        let status = status.args(["status", "--long"]).output().expect("lspool starts");
        editor.shutdown();
        let said = String::from_utf8_lossy(&status.stdout).into_owned();
        let read = |file: &Path| fs::read_to_string(file).expect("it was written");
        let (logged, recorded) = (read(&log), read(&tape));
        assert!(logged.lines().count() > 20 && recorded.contains("API_TOKEN"), "{engine}: {logged}");
        for text in [logged, recorded, said] {
            assert!(!text.contains("s3cret-of-mine"), "{engine}: {text}");
        }
    }
}
