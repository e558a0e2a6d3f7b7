//! The real Copilot server in another root: completions and conversations. Tools run where the editor is.

use std::fs;

use serde_json::json;

use super::Bubble;
use crate::support::{
    copilot::{Copilot, Options, uri},
    real::{self, Sandbox},
    stub::{Round, Rule, Script, Stub},
};

const TEXT: &str = "def add(a, b):\n    ";

#[test]
fn copilot_in_another_root_completes_and_calls_tools_with_local_paths() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("add.py", TEXT));
    let script = Script::default().workspace("/app".to_owned()).rule(
        Rule::on("[go]")
            .then(Round::text("I read.\n").call("fetch_ticket", json!({"filePath": "/app/add.py"})))
            .then(Round::text("It says {results}")),
    );
    let stub = Stub::start(script);
    // The network of the stub, and its variables.
    let kept = bubble.words(&sandbox).into_iter().filter(|it| it != "--unshare-net" && it != "--clearenv");
    let remote = format!(
        "engine = \"command\"\nengine_command = {:?}\npaths = [{{ local = {:?}, remote = \"/app\" }}]\n",
        kept.collect::<Vec<_>>(),
        sandbox.workspace().display().to_string()
    );
    let config = sandbox.home().join("lspool.toml");
    let program = real::copilot().display().to_string();
    let section =
        format!("[server.copilot]\ncommand = {program:?}\nargs = [\"--stdio\"]\n[server.copilot.remote]\n");
    fs::write(&config, section + &remote).expect("the home is ours");
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stub);
    command.args(["--record-texts", "yes", "--config"]).arg(config);
    let mut options = Options::in_workspace(sandbox.workspace());
    options.capabilities["textDocument"] = json!({"inlineCompletion": {}});
    let session = Copilot::start(command, options);
    session.check_signed_in();
    session.register_tools(&["fetch_ticket"]).expect("the schemas are good");

    let opened = json!({"uri": document, "languageId": "python", "version": 1, "text": TEXT});
    session.notify("textDocument/didOpen", json!({"textDocument": opened}));
    let asked = json!({
        "textDocument": {"uri": document, "version": 1}, "position": {"line": 1, "character": 4},
        "context": {"triggerKind": 1}, "formattingOptions": {"tabSize": 4, "insertSpaces": true},
    });
    let found = session.ok("textDocument/inlineCompletion", asked);
    assert!(
        found["items"][0]["insertText"].as_str().is_some_and(|it| it.contains("return a + b")),
        "{found}"
    );

    let file = sandbox.workspace().join("add.py").display().to_string();
    session.on_tool("fetch_ticket", move |input| match input["filePath"] == file.as_str() {
        true => Ok("the file".to_owned()),
        false => Err(format!("{input} is not of this machine")),
    });
    let turn = session.create("[go]", json!(null));
    let outcome = session.finish(&turn);
    outcome.expect_success();
    assert!(outcome.progress.text.ends_with("It says the file"), "{}", outcome.progress.text);
    assert!(session.shutdown().success());
}
