//! One lspool for all languages of a project, as an agent starts it: each document has its servers, which start with it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::{
    copilot::uri,
    editor::{PATIENCE, TestEditor},
    real::{self, Sandbox},
};

/// A client that takes registrations, without documents.
fn client(sandbox: &Sandbox, servers: &[&str]) -> TestEditor {
    let config = sandbox.home().join(".config/lspool/config.toml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("the home is writable");
    let mut text = format!("[group.all]\nservers = {}\n", json!(servers));
    for (name, languages) in
        [("basedpyright", json!(["python"])), ("typescript", json!(["typescript"])), ("css", json!(["css"]))]
    {
        writeln!(text, "[server.{name}]\nlanguages = {languages}\nstart = \"document\"")
            .expect("a string takes all");
    }
    std::fs::write(config, text).expect("the home is writable");
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    super::presets::with_servers_on_path(command.args(["--record-texts", "yes", "--group", "all"]));
    let editor = TestEditor::spawn(command);
    editor.agree();
    editor.refuse_others();
    let workspace = uri(&sandbox.workspace());
    let registers = json!({"dynamicRegistration": true});
    editor.ok(
        "initialize",
        json!({
            "processId": std::process::id(), "rootUri": workspace,
            "workspaceFolders": [{"uri": workspace, "name": "workspace"}],
            "capabilities": {
                "textDocument": {
                    "synchronization": registers, "hover": registers, "colorProvider": registers,
                    "documentSymbol": registers, "publishDiagnostics": {},
                },
                "workspace": {"configuration": true},
            },
        }),
    );
    editor.notify("initialized", json!({}));
    editor
}

fn open(sandbox: &Sandbox, editor: &TestEditor, name: &str, language: &str, text: &str) -> String {
    let uri = uri(&sandbox.write(name, text));
    let document = json!({"uri": uri, "languageId": language, "version": 1, "text": text});
    editor.notify("textDocument/didOpen", json!({"textDocument": document}));
    uri
}

/// What is said of the beginning of a document. Servers that have just started say nothing yet.
#[track_caller]
fn hover(editor: &TestEditor, uri: &str, character: u32, expected: &str) {
    let start = std::time::Instant::now();
    let place = json!({"textDocument": {"uri": uri}, "position": {"line": 0, "character": character}});
    loop {
        // A member that the group does not have yet can do nothing.
        let answer = editor.call("textDocument/hover", place.clone()).unwrap_or(Value::Null);
        if answer.to_string().contains(expected) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{uri}: {answer}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn each_document_has_its_servers_which_start_with_it_real() {
    for servers in [["basedpyright", "typescript", "css"], ["css", "typescript", "basedpyright"]] {
        let sandbox = Sandbox::new();
        sandbox.write("tsconfig.json", "{}");
        let link = sandbox.workspace().join("node_modules");
        std::os::unix::fs::symlink(real::node_modules(), link).expect("the workspace is writable");
        let editor = client(&sandbox, &servers);
        let runs = |name: &str| {
            let all = editor.mark().processes_running(name);
            all.iter().any(|it| it.parent == editor.pid())
        };
        let commands = [
            ("basedpyright", "basedpyright-langserver"),
            ("typescript", "typescript-language-server"),
            ("css", "vscode-css-language-server"),
        ];
        let late = commands.iter().filter(|it| it.0 != servers[0]);
        for (name, command) in late.clone() {
            assert!(!runs(command), "{name} has nothing to do");
        }
        let script = open(&sandbox, &editor, "a.ts", "typescript", "const total: number = 1;\n");
        hover(&editor, &script, 7, "const total: number");
        let python = open(&sandbox, &editor, "a.py", "python", "total: int = wrong\n");
        hover(&editor, &python, 1, "(variable) total:");
        let style = open(&sandbox, &editor, "a.css", "css", "a { color: red }\n");
        hover(&editor, &style, 5, "color");
        // Each is about its own document.
        let told = editor.wait_notification("textDocument/publishDiagnostics", |params| {
            params["uri"] == python.as_str() && params["diagnostics"].to_string().contains("wrong")
        });
        let list = told["diagnostics"].as_array().expect("a list");
        assert!(list.iter().all(|it| it["source"] == "basedpyright"), "{told}");
        let others = editor.notifications("textDocument/publishDiagnostics");
        assert!(
            others.iter().all(|it| it["uri"] == python.as_str() || it["diagnostics"] == json!([])),
            "{others:?}"
        );
        assert!(editor.shutdown().success());
        editor.mark().wait_gone(std::time::Duration::from_secs(5));
    }
}
