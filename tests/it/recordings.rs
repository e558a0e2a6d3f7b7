//! `lspool serve-recording` and `lspool inspect`, for a user who has only a file.

use std::{
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use super::support::{
    copilot::{Copilot, Options, Outcome, tool_answer},
    editor::{Sent, TestEditor},
    real::Sandbox,
};

mod client;

fn fixture(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/transcripts");
    PathBuf::from(folder).join(name).with_extension("jsonl")
}

/// `lspool` with this task, in a sandbox.
fn lspool(sandbox: &Sandbox, words: &[impl AsRef<OsStr>]) -> Command {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    command.args(words);
    command
}

fn serve(sandbox: &Sandbox, name: &str) -> Command {
    lspool(sandbox, &[OsStr::new("serve-recording"), fixture(name).as_os_str()])
}

/// lspool itself, in front of a server made of this recording.
fn proxied(sandbox: &Sandbox, name: &str) -> Command {
    let config = sandbox.write("../config.toml", "[server.lspool]\nkind = \"copilot\"\n");
    let mut command = lspool(sandbox, &[OsStr::new("--config"), config.as_os_str(), OsStr::new("--")]);
    command.arg(env!("CARGO_BIN_EXE_lspool")).arg("serve-recording").arg(fixture(name));
    command
}

fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().expect("it starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The tools that the recorded editor had registered.
fn recorded_tools(name: &str) -> Value {
    let text = std::fs::read_to_string(fixture(name)).expect("a fixture");
    let mut lines = text.lines().map(|it| serde_json::from_str::<Value>(it).expect("JSON"));
    let line = lines.find(|it| it["msg"]["method"] == "conversation/registerTools");
    line.expect("it registers tools")["msg"]["params"].clone()
}

/// An agent's turn with a tool of the editor, as the recording has it.
fn a_turn_with_a_tool(command: Command, sandbox: &Sandbox) -> Copilot {
    let (session, outcome) = turns(command, sandbox);
    assert_eq!(outcome.progress.text, "Ticket: Ticket ABC-1: fix the login page");
    session
}

/// The same with a masked recording.
fn a_masked_turn(command: Command, sandbox: &Sandbox) -> Copilot {
    let (session, outcome) = turns(command, sandbox);
    assert_eq!(outcome.progress.text, "x".repeat("Ticket: Ticket ABC-1: fix the login page".len()));
    session
}

fn turns(command: Command, sandbox: &Sandbox) -> (Copilot, Outcome) {
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    session.check_signed_in();
    session.ok("conversation/registerTools", recorded_tools("agent-tools"));
    session.hold_tools();
    let turn = session.create("[custom] what is ABC-1?", json!({}));
    let call = session.expect_request("conversation/invokeClientTool");
    assert_eq!(call.params["name"], "fetch_ticket");
    session.answer(&call, Ok(tool_answer(Ok("Ticket ABC-1: fix the login page".to_owned()))));
    let outcome = session.finish(&turn);
    outcome.expect_success();
    assert_eq!(call.params["conversationId"], outcome.conversation());
    let next = session.turn(&outcome.conversation(), "[history] and a second turn", json!({}));
    session.finish(&next).expect_success();
    (session, outcome)
}

#[test]
fn editor_holds_conversation_with_recording() {
    let sandbox = Sandbox::new();
    let session = a_turn_with_a_tool(serve(&sandbox, "agent-tools"), &sandbox);
    // It reads a file of this workspace, although another one was recorded.
    let read = session.create("[read] what does a.txt say?", json!({"conversationId": "mine"}));
    let call = session.expect_request("conversation/invokeClientTool");
    let file = format!("{}/a.txt", sandbox.workspace().display());
    assert_eq!(
        (&call.params["input"]["filePath"], &call.params["conversationId"]),
        (&json!(file), &json!("mine"))
    );
    session.answer(&call, Ok(tool_answer(Ok("hello".to_owned()))));
    assert_eq!(session.finish(&read).conversation(), "mine");
    let error = session.call("conversation/persistence", json!({})).expect_err("it was not recorded");
    assert_eq!(error.code, -32601);
    assert!(error.message.starts_with("the recording has no request conversation/persistence; it has: "));
    assert!(session.shutdown().success());
}

#[test]
fn lspool_serves_editor_in_front_of_recording() {
    let sandbox = Sandbox::new();
    let session = a_turn_with_a_tool(proxied(&sandbox, "agent-tools"), &sandbox);
    assert!(session.shutdown().success());
}

/// The builtin session needs only lspool.
#[test]
fn partitions_work_with_bundled_recording() {
    let sandbox = Sandbox::new();
    let config = sandbox.write("../config.toml", "[server.lspool]\nkind = \"copilot\"\n");
    let words = [OsStr::new("--config"), config.as_os_str(), OsStr::new("--")];
    let mut command = lspool(&sandbox, &words);
    command.arg(env!("CARGO_BIN_EXE_lspool")).arg("serve-recording");
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    session.check_signed_in();
    session.register_tools(&["read_file", "run_in_terminal", "fetch_ticket"]).expect("they are recorded");
    session.on_tool("run_in_terminal", |_| Ok("12 tests passed".to_owned()));
    session.on_tool("fetch_ticket", |_| Ok("ABC-1: the tests are slow".to_owned()));
    let lead = session.create("[ticket] what is to be done?", json!({}));
    let shell = json!({"lspool": {"tools": ["run_in_terminal"]}});
    let shell = session.create("[run] do the tests pass?", shell);
    assert_eq!(session.finish(&shell).progress.text, "12 tests passed");
    assert_eq!(session.finish(&lead).progress.text, "ABC-1: the tests are slow");
    let status = session.ok("lspool/status", json!({}));
    assert_eq!(status["backends"].as_array().map(Vec::len), Some(2), "{status}");
    assert!(session.shutdown().success());
}

/// A served recording that lspool made gives the recorded messages.
#[test]
fn session_recorded_by_lspool_can_be_served_again() {
    let sandbox = Sandbox::new();
    for texts in ["yes", "no"] {
        let file = sandbox.workspace().with_file_name(format!("texts-{texts}.jsonl"));
        let mut command = proxied(&sandbox, "agent-tools");
        // Before the command of the server.
        let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        command = lspool(
            &sandbox,
            &[OsStr::new("--record"), file.as_os_str(), OsStr::new("--record-texts"), OsStr::new(texts)],
        );
        command.args(words);
        let session = a_turn_with_a_tool(command, &sandbox);
        let recorded = said_in(&session);
        assert!(session.shutdown().success());
        let played =
            lspool(&sandbox, &[OsStr::new("serve-recording"), OsStr::new("--strict"), file.as_os_str()]);
        let session = if texts == "yes" {
            a_turn_with_a_tool(played, &sandbox)
        } else {
            a_masked_turn(played, &sandbox)
        };
        let again = said_in(&session);
        assert_eq!(recorded.len(), again.len());
        if texts == "yes" {
            assert_eq!(recorded, again);
        }
        assert!(session.shutdown().success(), "{}", session.stderr());
        let shown = run(lspool(&sandbox, &[OsStr::new("inspect"), file.as_os_str()]));
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("  tool fetch_ticket "), "{shown}");
        assert!(shown.contains("0.1  started (process "), "{shown}");
    }
}

/// The server's messages so far, without values that are new in each session.
fn said_in(session: &Copilot) -> Vec<String> {
    let entries = session.transcript();
    let said = entries.iter().filter(|it| it.sent == Sent::ByServer).map(|it| {
        let mut message = it.message.clone();
        if it.method().is_some() {
            message.as_object_mut().map(|it| it.remove("id"));
        }
        // lspool's ids contain its process id.
        without_ids(&message.to_string())
    });
    said.collect()
}

fn without_ids(text: &str) -> String {
    let mut parts = text.split("lspool-");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + "lspool-#" + part.trim_start_matches(|it: char| it.is_ascii_digit() || it == '-')
    })
}

#[test]
fn unrecorded_prompt_is_refused_with_nearest_match() {
    let sandbox = Sandbox::new();
    let session = Copilot::start(serve(&sandbox, "agent-tools"), Options::in_workspace(sandbox.workspace()));
    let turn = session.create("[custom] what is ABC-2?", json!({}));
    let error = session.wait(&turn.pending).expect_err("it was not recorded");
    assert_eq!(
        error.message,
        "the recording has no such conversation/create; the nearest is on line 51, and differs in\n  \
         turns[0].request: recorded \"[custom] what is ABC-1?\", here \"[custom] what is ABC-2?\""
    );
    session.shutdown();
}

/// Sends the recorded client's messages, except `without`.
fn strictly(sandbox: &Sandbox, without: &str) -> (Option<i32>, String) {
    let mut command = serve(sandbox, "completion");
    command.arg("--strict");
    let editor = TestEditor::spawn(command);
    let text = std::fs::read_to_string(fixture("completion")).expect("a fixture");
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let (method, params) = (line["msg"]["method"].as_str().unwrap_or_default(), &line["msg"]["params"]);
        if line["dir"] == "s2c" || method == without {
            continue;
        }
        match line["msg"].get("id") {
            Some(_) => drop(editor.ok(method, params.clone())),
            None => editor.notify(method, params.clone()),
        }
    }
    let status = editor.wait_exit();
    (status.code(), editor.stderr())
}

#[test]
fn strict_accepts_client_like_recorded_one() {
    assert_eq!(strictly(&Sandbox::new(), "nothing"), (Some(0), String::new()));
}

#[test]
fn strict_reports_deviations() {
    let sandbox = Sandbox::new();
    let (status, told) = strictly(&sandbox, "textDocument/didClose");
    let file = fixture("completion");
    assert_eq!(
        told,
        format!(
            "lspool: the client differed from the one in {}:\n  line 41: textDocument/didClose did not come\n",
            file.display()
        )
    );
    assert_eq!(status, Some(1));
}

#[test]
fn real_speed_plays_the_same_session() {
    let sandbox = Sandbox::new();
    let mut command = serve(&sandbox, "completion");
    command.args(["--speed", "real"]);
    let editor = TestEditor::spawn(command);
    let answer = editor.ok("initialize", json!({"processId": null, "rootUri": null, "capabilities": {}}));
    assert_eq!(answer["serverInfo"]["version"], "1.539.0");
    editor.notify("initialized", json!({}));
    assert!(editor.shutdown().success());
}

#[test]
fn unservable_file_is_reported() {
    let sandbox = Sandbox::new();
    let foreign = sandbox.write("foreign.jsonl", "{\"hello\": 1}\n");
    let edited = std::fs::read_to_string(fixture("completion")).expect("a fixture");
    let edited = sandbox.write("edited.jsonl", &edited.replacen("\"s2c\"", "s2c", 1));
    for (words, expected) in [
        (
            vec![fixture("crash").into_os_string()],
            "the recording has several processes; choose one with --proc: A, B, C",
        ),
        (vec![foreign.into_os_string()], "line 1: this is neither the header of a recording of lspool nor"),
        (vec![edited.clone().into_os_string()], "line 2: expected value"),
        (vec!["nothing.jsonl".into()], "cannot read nothing.jsonl"),
    ] {
        let words: Vec<_> = ["serve-recording".into()].into_iter().chain(words).collect();
        let output = run(lspool(&sandbox, &words));
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        let told = stderr(&output);
        assert!(told.starts_with("lspool: ") && told.contains(expected), "{told}");
    }
    let output = run(lspool(&sandbox, &["inspect".into(), edited.into_os_string()]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("edited.jsonl: line 2: "));
}

#[test]
fn one_of_several_recorded_processes_is_served() {
    let sandbox = Sandbox::new();
    let mut command = serve(&sandbox, "crash");
    command.args(["--proc", "B"]);
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    session.check_signed_in();
    assert!(session.shutdown().success());
}

#[test]
fn inspect_shows_recording() {
    let sandbox = Sandbox::new();
    let output = run(lspool(&sandbox, &[OsStr::new("inspect"), fixture("parallel").as_os_str()]));
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("conversation conv-one\n") && text.contains("conversation/create \"[slow] one\"\n"),
        "{text}"
    );
}
