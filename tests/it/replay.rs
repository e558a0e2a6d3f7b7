//! `lspool --record` and `lspool replay`, with the real Copilot server.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{
    copilot::{Copilot, Options, uri},
    real::{self, Sandbox},
    stub::{Script, Stub},
};

/// Secrets of each kind and place, which no recording may contain.
const TOKENS: [&str; 6] = [
    "gho_environment",
    "planted-environment-1",
    "planted-access-token",
    "planted-mcp-secret",
    "planted-header-token",
    "ghu_plantedindocument1",
];

/// And what only may with `--record-texts=yes`.
const TEXTS: [&str; 4] = ["PLANTEDDOCUMENT", "PLANTEDEDIT", "PLANTEDPROMPT", "PLANTEDRESULT"];

fn lspool() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lspool"))
}

fn replay(args: &[&str], file: &Path) -> Output {
    lspool().arg("replay").arg(file).args(args).output().expect("lspool runs")
}

#[track_caller]
fn status(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A session with all these secrets, in which a server dies.
fn session(sandbox: &Sandbox, file: &Path, texts: &str) {
    let stub = Stub::start(Script::default().workspace(sandbox.workspace().display().to_string()));
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stub);
    command.env("MY_API_KEY", "planted-environment-1").env("UNRELATED", "words");
    command.arg("--record").arg(file).arg(format!("--record-texts={texts}"));
    command.arg("--").arg(real::copilot()).arg("--stdio");
    let mut options = Options::in_workspace(sandbox.workspace());
    let server = json!({"servers": {"mini": {
        "command": "/nonexistent", "args": ["--token", "planted-header-token"],
        "env": {"KEY": "planted-mcp-secret"},
    }}});
    options.settings["github"] = json!({"copilot": {"mcp": server.to_string()}});
    let session = Copilot::start(command, options);
    session.register_tools(&["fetch_ticket"]).expect("the schemas are good");
    session.on_tool("fetch_ticket", |_| Ok("PLANTEDRESULT planted-environment-1".to_owned()));
    let document = uri(&sandbox.write("a.rs", ""));
    session.notify(
        "textDocument/didOpen",
        json!({"textDocument": {
            "uri": document, "languageId": "rust", "version": 1,
            "text": "// PLANTEDDOCUMENT é\r\nlet t = \"ghu_plantedindocument1\";\n",
        }}),
    );
    let range = json!({"start": {"line": 0, "character": 19}, "end": {"line": 1, "character": 3}});
    session.notify(
        "textDocument/didChange",
        json!({"textDocument": {"uri": document, "version": 2},
            "contentChanges": [{"range": range, "text": "PLANTEDEDIT"}]}),
    );
    let first = session.finish(&session.create("[custom] PLANTEDPROMPT", Value::Null));
    let conversation = first.conversation();
    let server = real::copilot().display().to_string();
    for process in session.mark().processes() {
        if process.command.starts_with(&server) {
            process.kill(Signal::KILL);
        }
    }
    session.finish(&session.turn(&conversation, "[history] PLANTEDPROMPT", Value::Null)).expect_success();
    session.notify(
        "github/didChangeAuth",
        json!({"accessToken": "planted-access-token", "githubAppId": "x", "user": "planted-access-token"}),
    );
    session.ok("checkStatus", json!({}));
    assert!(session.shutdown().success());
}

#[test]
fn real_session_is_recorded_without_secrets_and_replays() {
    let sandbox = Sandbox::new();
    let file = sandbox.home().join("bug.jsonl");
    session(&sandbox, &file, "no");
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    let recording = fs::read_to_string(&file).expect("a text");
    for planted in TOKENS.iter().chain(&TEXTS) {
        let found = recording.lines().find(|it| it.contains(planted));
        assert_eq!(found, None, "{planted} is recorded");
    }
    assert!(recording.ends_with("\"dir\":\"end\",\"kind\":\"done\"}\n"), "it says that it is complete");
    // The history of the conversation went to the next process.
    assert!(recording.contains("\"kind\":\"write-transcript\""));
    let same = replay(&[], &file);
    let (code, said) = status(&same);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("all effects are the same"), "{said}");
    // The output equals the file.
    let printed = String::from_utf8(same.stdout).expect("a text");
    let recorded: Vec<&str> = recording.lines().filter(|it| it.contains("\"dir\":\"out\"")).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), recorded);

    let expected = sandbox.home().join("expected");
    fs::write(&expected, &printed).expect("the home is writable");
    let expected = expected.display().to_string();
    assert_eq!(status(&replay(&["--diff", &expected], &file)).0, Some(0));
    fs::write(&expected, printed.replacen("\"code\":0", "\"code\":9", 1)).expect("the home is writable");
    let (code, said) = status(&replay(&["--diff", &expected], &file));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("\"code\":9") && said.contains("\"code\":0"), "{said}");
    let until = replay(&["--until", "2"], &file);
    let first: Vec<&str> =
        recording.lines().skip(2).take_while(|it| it.contains("\"dir\":\"out\"")).collect();
    assert_eq!(String::from_utf8_lossy(&until.stdout).lines().collect::<Vec<_>>(), first);

    // Cut off, as by a kill.
    let cut = sandbox.home().join("cut.jsonl");
    fs::write(&cut, &recording.as_bytes()[..recording.len() * 2 / 3]).expect("the home is writable");
    let (code, said) = status(&replay(&[], &cut));
    assert_eq!(code, Some(0), "{said}");
    // Edited, and no recording at all.
    fs::write(&cut, recording.replacen("\"dir\":\"in\"", "\"dir\":\"inn\"", 1))
        .expect("the home is writable");
    let (code, said) = status(&replay(&[], &cut));
    assert!(code == Some(2) && said.contains("line 2: unknown variant `inn`"), "{said}");
    let (code, said) = status(&replay(&[], Path::new(env!("CARGO_BIN_EXE_lspool"))));
    assert!(code == Some(2) && said.contains("line 1: not a recording of lspool"), "{said}");
}

#[test]
fn real_session_is_recorded_with_texts_on_request() {
    let sandbox = Sandbox::new();
    let file = sandbox.home().join("bug.jsonl");
    session(&sandbox, &file, "yes");
    let recording = fs::read_to_string(&file).expect("a text");
    for planted in TOKENS {
        let found = recording.lines().find(|it| it.contains(planted));
        assert_eq!(found, None, "{planted} is recorded");
    }
    for planted in TEXTS {
        assert!(recording.contains(planted), "{planted} is not recorded");
    }
    let (code, said) = status(&replay(&[], &file));
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn recording_failure_is_reported_to_editor() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    command.args(["--record", "/nonexistent/bug.jsonl", "--", "cat"]);
    let editor = super::support::editor::TestEditor::spawn(command);
    let error = editor.call("initialize", json!({"capabilities": {}})).expect_err("it fails");
    assert!(error.message.contains("cannot record to /nonexistent/bug.jsonl"), "{error}");
}
