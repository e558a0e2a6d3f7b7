//! A member that starts late, in an editor that registers nothing: it is used for what it could do at its last start.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::{Value, json};

use crate::support::{
    copilot::uri,
    editor::TestEditor,
    real::{self, Sandbox},
};

const TEXT: &str = "def greet(name: str) -> str:\n    return name\n";

/// Ruff, and a Basedpyright that starts when a file is there.
fn configure(sandbox: &Sandbox, start_wait: &str) {
    let program = gated(sandbox);
    let text = format!(
        "[group.g]\nservers = [\"ruff\", \"basedpyright\"]\nstart_wait = \"{start_wait}\"\n\
         [server.ruff]\ncommand = {}\nargs = [\"server\"]\n[server.basedpyright]\ncommand = {}\n",
        json!(real::ruff()),
        json!(program)
    );
    fs::write(sandbox.home().join("lspool.toml"), text).expect("the home is writable");
}

fn gate(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join("gate")
}

fn gated(sandbox: &Sandbox) -> PathBuf {
    let program = sandbox.home().join("late-basedpyright");
    if !program.exists() {
        let (gate, server) = (gate(sandbox), real::basedpyright());
        let wait = format!("while [ ! -e '{}' ]; do sleep 0.05; done", gate.display());
        fs::write(&program, format!("#!/bin/sh\n{wait}\nexec '{}' --stdio\n", server.display()))
            .expect("the home is writable");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    program
}

fn start(sandbox: &Sandbox) -> (TestEditor, Value) {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    command.args(["--record-texts", "yes", "--group", "g", "--config"]);
    let editor = TestEditor::spawn({
        command.arg(sandbox.home().join("lspool.toml"));
        command
    });
    editor.agree();
    let workspace = uri(&sandbox.workspace());
    let initialized = editor.ok(
        "initialize",
        json!({
            "processId": std::process::id(), "rootUri": workspace,
            "workspaceFolders": [{"uri": workspace, "name": "workspace"}],
            "capabilities": {"textDocument": {"hover": {"contentFormat": ["markdown"]}}},
        }),
    );
    editor.notify("initialized", json!({}));
    (editor, initialized["capabilities"].clone())
}

#[test]
fn late_server_loses_nothing_at_its_second_start_real() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "80s");
    fs::write(gate(&sandbox), "").expect("the home is writable");
    let (editor, all) = start(&sandbox);
    assert!(editor.shutdown().success());

    fs::remove_file(gate(&sandbox)).expect("it is there");
    configure(&sandbox, "0s");
    let (editor, capabilities) = start(&sandbox);
    let providers =
        |it: &Value| -> Vec<String> { it.as_object().expect("an object").keys().cloned().collect() };
    assert_eq!(providers(&capabilities), providers(&all), "the editor is told all, though one is not there");
    let document = uri(&sandbox.write("a.py", TEXT));
    let item = json!({"uri": document, "languageId": "python", "version": 1, "text": TEXT});
    editor.notify("textDocument/didOpen", json!({"textDocument": item}));
    let place = json!({"textDocument": {"uri": document}, "position": {"line": 0, "character": 5}});
    // Only Basedpyright has references: the request waits for it.
    let mut params = place.clone();
    params["context"] = json!({"includeDeclaration": true});
    let asked = editor.request("textDocument/references", params);
    fs::write(gate(&sandbox), "").expect("the home is writable");
    let found = editor.wait(&asked).expect("it comes");
    assert_eq!(found[0]["uri"], document, "{found}");
    let hover = editor.ok("textDocument/hover", place);
    assert!(hover.to_string().contains("greet"), "{hover}");
    let told = editor.notifications("window/showMessage");
    assert!(told.is_empty(), "nothing is missing: {told:?}");
    assert!(editor.shutdown().success());
}

#[test]
fn server_that_a_reload_adds_serves_and_one_that_it_removes_ends_real() {
    let sandbox = Sandbox::new();
    fs::write(gate(&sandbox), "").expect("the home is writable");
    configure(&sandbox, "80s");
    let file = sandbox.home().join("lspool.toml");
    let both = fs::read_to_string(&file).expect("it is there");
    let (editor, _) = start(&sandbox);
    let document = uri(&sandbox.write("a.py", TEXT));
    let item = json!({"uri": document, "languageId": "python", "version": 1, "text": TEXT});
    editor.notify("textDocument/didOpen", json!({"textDocument": item}));
    let place = json!({"textDocument": {"uri": document}, "position": {"line": 0, "character": 5}});
    let backends = || {
        let status = editor.ok("lspool/status", json!({}));
        let names = status["backends"].as_array().expect("a list").iter().map(|it| it["name"].clone());
        names.collect::<Vec<_>>()
    };
    let reload = |text: &str| {
        fs::write(&file, text).expect("the home is writable");
        editor.ok("lspool/reload", json!({}));
        backends()
    };
    assert!(editor.ok("textDocument/hover", place.clone()).to_string().contains("greet"));
    assert_eq!(reload(&both.replace(", \"basedpyright\"]", "]")), ["ruff"]);
    assert_eq!(editor.ok("textDocument/hover", place.clone()), json!(null), "ruff knows no names");
    assert_eq!(reload(&both), ["ruff", "basedpyright"]);
    // It is not known from before in this session, so the hover may be asked before it is ready.
    let mut hover = editor.ok("textDocument/hover", place.clone());
    while !hover.to_string().contains("greet") {
        std::thread::sleep(std::time::Duration::from_millis(50));
        hover = editor.ok("textDocument/hover", place.clone());
    }
    assert!(editor.shutdown().success());
}
