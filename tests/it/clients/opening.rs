//! Habits 1 to 5: the command, messages before the answer to `initialize`, its forms, configuration, framing.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{Stage, answer, header, said, same};
use crate::support::{
    copilot::{Copilot, Options, uri},
    editor::{Sent, TestEditor},
    real,
    stub::Script,
};

/// A client that takes one path and appends `--stdio`.
fn lspool_alone(stage: &Stage) -> std::process::Command {
    let mut command = stage.sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stage.stub);
    command.arg("--stdio");
    command
}

#[track_caller]
fn finds_the_native_server(command: std::process::Command) {
    let session = Copilot::start(command, Options::default());
    session.check_signed_in();
    let running = session.mark().processes_running("copilot-language-server");
    assert_eq!(running.len(), 1, "{running:?}");
    let program = std::fs::read_link(format!("/proc/{}/exe", running[0].pid)).expect("it runs");
    let native = real::copilot().canonicalize().expect("it is installed");
    assert_eq!(program, native, "not the script that would start it");
    assert!(session.shutdown().success());
}

#[test]
fn lspool_finds_server_in_npm_global_folder() {
    let stage = Stage::new(Script::default(), true);
    let packages = stage.sandbox.home().join("npm/lib/node_modules/@github");
    std::fs::create_dir_all(&packages).expect("the home is writable");
    let native = real::copilot();
    let native = native.parent().expect("it is in a package");
    symlink(native, packages.join("copilot-language-server-linux-x64")).expect("a link");
    let script = real::copilot_wrapper();
    let package = script.parent().and_then(|it| it.parent()).expect("it is in a package");
    symlink(package, packages.join("copilot-language-server")).expect("a link");
    std::fs::write(stage.sandbox.home().join(".npmrc"), "prefix=${HOME}/npm\n")
        .expect("the home is writable");
    finds_the_native_server(lspool_alone(&stage));
}

#[test]
fn lspool_finds_server_on_path() {
    let stage = Stage::new(Script::default(), true);
    let folder = stage.sandbox.home().join("bin");
    std::fs::create_dir_all(&folder).expect("the home is writable");
    // npm links to the script, beside which the native server is.
    symlink(real::copilot_wrapper(), folder.join("copilot-language-server")).expect("a link");
    let mut command = lspool_alone(&stage);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.display()));
    finds_the_native_server(command);
}

/// copilot.vim 1.26 sends `textDocument/didFocus` and copilot.lua `checkStatus` without waiting.
#[test]
fn requests_before_initialize_answer_get_same_replies() {
    let came = same(Script::default, |stage| {
        let session = stage.start_silent();
        let asked = session.request("initialize", session.options().initialize());
        let file = uri(&stage.sandbox.workspace().join("a.txt"));
        session.notify("textDocument/didFocus", json!({"textDocument": {"uri": file}}));
        let status = session.request("checkStatus", json!({}));
        let early = answer(session.wait(&status));
        // The first things heard: hooks, then the two answers.
        let heard = session.wait_transcript("the answer to checkStatus", |entries| {
            let heard = entries.iter().filter(|it| it.sent == Sent::ByServer);
            let wanted =
                heard.filter(|it| it.method().is_none() || it.method() == Some("copilot/hook/didChange"));
            let names: Vec<Value> = wanted
                .map(|it| if it.method().is_some() { json!(it.method()) } else { it.message["id"].clone() })
                .collect();
            names.contains(&status.id).then_some(names)
        });
        session.wait(&asked).expect("initialize succeeds");
        session.notify("initialized", json!({}));
        session.check_signed_in();
        assert!(session.shutdown().success());
        vec![early, json!(heard)]
    });
    assert_eq!(came[0]["error"]["code"], -32002);
    assert_eq!(came[1], json!(["copilot/hook/didChange", "copilot/hook/didChange", 1, 2]));
}

/// `initialize` as five clients write it.
#[test]
fn unusual_initialize_requests_get_same_answers() {
    let editor = |name: &str| json!({"editorInfo": {"name": name, "version": "1"}, "editorPluginInfo": {"name": name, "version": "2"}});
    let forms = |folder: &str| {
        [
            // Vim: no clientInfo, no capabilities to speak of, another way to name the folder.
            json!({"processId": std::process::id(), "rootUri": folder, "capabilities": {"workspace": {"workspaceFolders": true}}, "initializationOptions": editor("Vim")}),
            // Emacs outside a project.
            json!({"processId": std::process::id(), "capabilities": {"copilot": {"ipCodeCitation": true, "watchedFiles": true}}, "initializationOptions": editor("Emacs")}),
            // A command line agent that poses as another editor.
            json!({"processId": null, "rootUri": null, "workspaceFolders": [{"uri": folder, "name": "w"}], "clientInfo": {"name": "cli"}, "capabilities": {}, "initializationOptions": {"editorInfo": {"name": "JetBrains-IC", "version": "1"}, "editorPluginInfo": {"name": "copilot-intellij", "version": "2"}, "githubAppId": "Iv1.b507a08c87ecfe98", "copilotCapabilities": {}}}),
            // No folders.
            json!({"processId": std::process::id(), "workspaceFolders": [], "rootPath": null, "trace": "verbose", "capabilities": {}, "initializationOptions": editor("Neovim")}),
            // Nothing at all: requests fail until setEditorInfo.
            json!({"capabilities": {}}),
        ]
    };
    same(Script::default, |stage| {
        let folder = uri(&stage.sandbox.workspace());
        let mut came = Vec::new();
        for form in forms(&folder) {
            let session = stage.start_silent();
            came.push(answer(session.call("initialize", form)));
            session.notify("initialized", json!({}));
            came.push(answer(session.call("checkStatus", json!({"_": true}))));
            let info = json!({"name": "late", "version": "1"});
            let info = json!({"editorInfo": info, "editorPluginInfo": info, "editorConfiguration": {}});
            came.push(answer(session.call("setEditorInfo", info)));
            came.push(answer(session.call("checkStatus", json!({}))));
            assert!(session.shutdown().success());
        }
        came
    });
}

/// The server asks only clients with the capability. Emacs writes `null` for no parameters.
#[test]
fn pulled_configuration_may_be_null() {
    let came = same(Script::default, |stage| {
        let options = Options {
            capabilities: json!({"workspace": {"configuration": true, "didChangeConfiguration": {"dynamicRegistration": true}}}),
            ..Options::default()
        };
        let session = Copilot::start_silent(stage.command(), options);
        session.ok("initialize", session.options().initialize());
        session.notify("initialized", Value::Null);
        session.notify("workspace/didChangeConfiguration", json!({"settings": null}));
        session.check_signed_in();
        session.wait_transcript("the configuration is asked for", |entries| {
            entries.iter().any(|it| it.method() == Some("workspace/configuration")).then_some(())
        });
        session.ok("shutdown", Value::Null);
        session.notify("exit", Value::Null);
        assert!(session.wait_exit().success());
        said(&session, &["workspace/configuration", "client/registerCapability"])
    });
    let items: Vec<&Value> = came.iter().filter(|it| it[0] == "workspace/configuration").collect();
    assert_eq!(items[0][1]["items"][0]["section"], "github.copilot");
}

/// Vim adds a `Content-Type`; Emacs 28 finds a length only near the beginning of the header.
#[test]
fn framing_variants_are_read_and_plain_header_is_written() {
    same(Script::default, |stage| {
        let session = stage.start_silent();
        let send = |session: &TestEditor, message: &Value| {
            let body = message.to_string();
            let length = body.len();
            session.raw_write(format!(
                "Content-Length: {length}\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n{body}"
            ));
        };
        let ask = |id: i64, method: &str, params: &Value| {
            let pending = session.asked(id.into(), method);
            send(&session, &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
            answer(session.wait(&pending))
        };
        let mut came = vec![ask(1001, "initialize", &session.options().initialize())];
        send(&session, &json!({"jsonrpc": "2.0", "method": "initialized", "params": {}}));
        came.push(ask(1002, "checkStatus", &json!({})));
        came.push(ask(1003, "conversation/modes", &json!({})));
        for entry in session.transcript().iter().filter(|it| it.sent == Sent::ByServer) {
            assert_eq!(header(entry), format!("Content-Length: {}\r\n\r\n", entry.body().len()));
        }
        assert!(session.shutdown().success());
        came
    });
}
