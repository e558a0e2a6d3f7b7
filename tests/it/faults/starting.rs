//! Servers that do not start, and configurations that cannot be served with.

use serde_json::{Value, json};

use super::{PUPPET, Pair, copilot};

#[test]
fn server_that_never_answers_initialize_is_reported_and_stopped() {
    let config = format!("[server.lspool-puppet]\ncommand = {PUPPET:?}\nstartup_timeout = \"1s\"\n");
    let pair = Pair::with(&config, &[]);
    let initialize = pair.initialize();
    let server = pair.host.accept();
    server.expect("initialize");
    let error = pair.editor.wait(&initialize).unwrap_err();
    assert_eq!(error.data["lspool"]["cause"], "init timeout");
    assert!(error.message.contains("lspool-puppet") && error.message.contains("1 s"), "{error}");
    server.wait_gone();
    // lspool itself is there.
    let error = pair.editor.call("textDocument/hover", json!({})).unwrap_err();
    assert!(error.message.contains("initialize"), "{error}");
    assert_eq!(pair.editor.call("shutdown", Value::Null), Ok(Value::Null));
    pair.editor.notify_bare("exit");
    assert_eq!(pair.editor.wait_exit().code(), Some(0));
}

#[test]
fn partition_that_never_answers_initialize_fails_only_its_conversations() {
    let pair = copilot::Pair::with("startup_timeout = \"1s\"\n");
    let create = pair.create("c", Some(&["read_file"]));
    let silent = pair.host.accept();
    silent.expect("initialize");
    let error = pair.editor.wait(&create).unwrap_err();
    assert_eq!(error.data["lspool"]["cause"], "init timeout", "{error}");
    assert!(error.message.contains("read_file"), "{error}");
    silent.wait_gone();
    let (other, turn) = pair.partition("d", &["list_dir"]);
    pair.end_turn(&other, &turn);
    pair.leave();
}

#[test]
fn error_quotes_server_that_dies_at_start() {
    let pair = Pair::with("", &["sh", "-c", "echo 'Error: Node.js 99 is needed' >&2; exit 7"]);
    let error = pair.editor.wait(&pair.initialize()).unwrap_err();
    assert_eq!(error.data["lspool"]["cause"], "crashed");
    assert!(
        error.message.contains("Node.js 99 is needed") && error.message.contains("exit code 7"),
        "{error}"
    );
    assert_eq!(pair.editor.call("shutdown", Value::Null), Ok(Value::Null));
    pair.editor.notify_bare("exit");
    assert_eq!(pair.editor.wait_exit().code(), Some(0));
}

#[test]
fn refused_initialize_reaches_editor_unchanged() {
    let pair = Pair::new();
    let initialize = pair.initialize();
    let server = pair.host.accept();
    let asked = server.expect("initialize");
    server.fail(&asked, json!({"code": 1, "message": "no license", "data": {"retry": false}}));
    let error = pair.editor.wait(&initialize).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str(), &error.data),
        (1, "no license", &json!({"retry": false}))
    );
    pair.editor.notify_bare("exit");
    assert_eq!(pair.editor.wait_exit().code(), Some(1));
}

/// An error, with its words.
fn hopeless() -> Vec<(&'static str, Vec<&'static str>, &'static str)> {
    vec![
        ("", vec!["/no/such/server"], "/no/such/server"),
        ("", vec!["no-such-server-at-all"], "no-such-server-at-all"),
        ("", vec![], "copilot-language-server"),
        ("[server.x]\ncommadn = \"x\"\n", vec![PUPPET], "command"),
        ("[server.x\n", vec![PUPPET], "lspool.toml"),
        ("[server.x]\nmax_processes = 0\nidle_timeout = 5\n", vec![PUPPET], "idle_timeout"),
    ]
}

#[test]
fn unusable_configuration_is_reported_to_editor_and_stderr() {
    for (config, command, told) in hopeless() {
        let pair = Pair::with(config, &command);
        let error = pair.editor.wait(&pair.initialize()).unwrap_err();
        assert!(error.message.contains(told), "{told}: {error}");
        assert_eq!(pair.editor.wait_exit().code(), Some(2), "{told}");
        let stderr = pair.editor.wait_stderr();
        assert!(stderr.contains(told) && stderr.starts_with("lspool: "), "{told}: {stderr}");
    }
}

#[test]
fn unusable_configuration_is_reported_on_stderr_to_silent_editor() {
    for (config, command, told) in hopeless() {
        let pair = Pair::with(config, &command);
        pair.editor.close_stdin();
        assert_eq!(pair.editor.wait_exit().code(), Some(2), "{told}");
        assert!(pair.editor.wait_stderr().contains(told), "{told}: {}", pair.editor.wait_stderr());
        assert!(pair.editor.transcript().is_empty(), "nothing on stdout");
    }
}

#[test]
fn unreadable_configuration_file_is_reported() {
    // A folder cannot be read as a file, not even by root.
    let sandbox = crate::support::real::Sandbox::new();
    for (file, told) in [(sandbox.home(), "home"), (sandbox.home().join("none.toml"), "none.toml")] {
        let mut lspool = super::lspool(&sandbox, "", &[]);
        lspool.arg("--config").arg(&file).args(["--", PUPPET]);
        let editor = crate::support::editor::TestEditor::spawn(lspool);
        let error = editor.call("initialize", json!({"capabilities": {}})).unwrap_err();
        assert!(error.message.contains(told), "{error}");
        assert_eq!(editor.wait_exit().code(), Some(2));
        assert!(editor.wait_stderr().contains(told), "{}", editor.wait_stderr());
    }
}
