//! One server for several projects of a workspace.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::{
    copilot::uri,
    editor::{PATIENCE, TestEditor},
    real::{self, Sandbox},
};

const MAIN: &str = "import helper\n\nhelper.help_me()\n";
const HELPER: &str = "def help_me() -> None:\n    pass\n";

/// Basedpyright finds the modules in `src` of each folder that it works in.
#[test]
fn server_resolves_imports_of_each_project_real() {
    let sandbox = Sandbox::new();
    let text = format!(
        "[group.g]\nservers = [\"basedpyright\", \"ruff\"]\nstart_wait = \"80s\"\n\
         [server.basedpyright]\ncommand = {}\nargs = [\"--stdio\"]\nroot_markers = [\"pyproject.toml\"]\n\
         [server.ruff]\ncommand = {}\nargs = [\"server\"]\n",
        json!(real::basedpyright()),
        json!(real::ruff()),
    );
    let config = sandbox.home().join("lspool.toml");
    fs::write(&config, text).expect("the home is writable");
    for project in ["one", "two"] {
        sandbox.write(&format!("packages/{project}/pyproject.toml"), "[project]\nname = \"p\"\n");
        sandbox.write(&format!("packages/{project}/src/helper.py"), HELPER);
    }
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    command.args(["--record-texts", "yes", "--group", "g", "--config"]).arg(&config);
    let editor = TestEditor::spawn(command);
    editor.agree();
    let workspace = uri(&sandbox.workspace());
    editor.ok(
        "initialize",
        json!({
            "processId": std::process::id(), "rootUri": workspace,
            "workspaceFolders": [{"uri": workspace, "name": "workspace"}],
            "capabilities": {"workspace": {"workspaceFolders": true}, "textDocument": {"publishDiagnostics": {}}},
        }),
    );
    editor.notify("initialized", json!({}));
    for project in ["one", "two"] {
        let document = uri(&sandbox.write(&format!("packages/{project}/app/main.py"), MAIN));
        let item = json!({"uri": document, "languageId": "python", "version": 1, "text": MAIN});
        editor.notify("textDocument/didOpen", json!({"textDocument": item}));
        let place = json!({"textDocument": {"uri": document}, "position": {"line": 2, "character": 8}});
        let expected = format!("packages/{project}/src/helper.py");
        let since = Instant::now();
        // It may look at the document first, and at the project then.
        loop {
            let found = editor.ok("textDocument/definition", place.clone());
            if found[0]["uri"].as_str().is_some_and(|it| it.ends_with(&expected)) {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "{found}");
            // It looks at projects only while it is asked nothing.
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    let told = editor.notifications("window/showMessage");
    assert!(told.is_empty(), "{told:?}");
    assert!(editor.shutdown().success());
}
