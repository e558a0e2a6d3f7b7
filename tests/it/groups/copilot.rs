//! Copilot beside Pyright, in both orders: what each of them does alone, and the death of Copilot in a turn.

use std::{collections::BTreeSet, path::PathBuf, process::Command};

use lspool::core::CONTINUE;
use serde_json::{Value, json};

use super::says;
use crate::{
    crash::{expect_whole, kill_servers},
    partitions::{offered, servers, tools},
    same_answers,
    support::{
        copilot::{Copilot, Options, uri},
        processes::Process,
        real::{self, Sandbox},
        stub::{Round, Rule, Script, Stub},
    },
};

/// Where Copilot is among the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    First,
    Second,
}

fn lspool(place: Place, sandbox: &Sandbox, stub: &Stub) -> Command {
    let config = sandbox.home().join("lspool.toml");
    let members = match place {
        Place::First => ["copilot", "pyright"],
        Place::Second => ["pyright", "copilot"],
    };
    let section = |name: &str, program: PathBuf| {
        format!("[server.{name}]\ncommand = {}\nargs = [\"--stdio\"]\n", json!(program))
    };
    let text = [
        // However long a server takes to start here, the editor learns what it can do.
        format!("[group.g]\nservers = {}\nstart_wait = \"80s\"\n", json!(members)),
        section("pyright", real::pyright()),
        section("copilot", real::copilot()),
        // Otherwise what dies twice comes back after a while only.
        "backoff = { initial = \"0s\" }\n".to_owned(),
    ];
    std::fs::write(&config, text.concat()).expect("the home is ours");
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), stub);
    // Members are merged by their texts, which such a recording needs to replay.
    command.arg("--config").arg(config).args(["--record-texts", "yes", "--group", "g"]);
    command
}

fn options(sandbox: &Sandbox) -> Options {
    let mut options = Options::in_workspace(sandbox.workspace());
    options.capabilities["workspace"]["configuration"] = true.into();
    options.capabilities["textDocument"] = json!({
        "synchronization": {"didSave": true}, "hover": {"contentFormat": ["markdown"]},
        "publishDiagnostics": {"versionSupport": true}, "inlineCompletion": {},
    });
    options
}

const TEXT: &str = "wrong: int = undefined_name\n\n\ndef add(a, b):\n    ";

/// An editor with one document, a group, and a stub.
struct Session {
    editor: Copilot,
    stub: Stub,
    sandbox: Sandbox,
    uri: String,
}

impl Session {
    fn start(place: Place) -> Session {
        let sandbox = Sandbox::new();
        let script = Script::default()
            .continue_text(CONTINUE)
            .workspace(sandbox.workspace().display().to_string())
            .rule(
                Rule::on("[go]").then(Round::text("Line one.\nLine t").gate_after_text("turn").more("wo.\n")),
            );
        let stub = Stub::start(script);
        let uri = uri(&sandbox.write("add.py", TEXT));
        let session = Copilot::start(lspool(place, &sandbox, &stub), options(&sandbox));
        session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
        let document = json!({"uri": uri, "languageId": "python", "version": 1, "text": TEXT});
        session.notify("textDocument/didOpen", json!({"textDocument": document}));
        Session { editor: session, stub, sandbox, uri }
    }

    /// What Pyright knows of the function.
    #[track_caller]
    fn hover(&self) {
        let place = json!({"textDocument": {"uri": self.uri}, "position": {"line": 3, "character": 5}});
        let hover = self.editor.ok("textDocument/hover", place);
        assert_eq!(hover.to_string().matches("(function)").count(), 1, "{hover}");
    }

    /// What Copilot completes, and the command of an accepted completion.
    #[track_caller]
    fn complete(&self) {
        let found = self.editor.ok(
            "textDocument/inlineCompletion",
            json!({
                "textDocument": {"uri": self.uri, "version": 1}, "position": {"line": 4, "character": 4},
                "context": {"triggerKind": 1}, "formattingOptions": {"tabSize": 4, "insertSpaces": true},
            }),
        );
        let item = &found["items"][0];
        assert!(item["insertText"].as_str().is_some_and(|it| it.contains("return a + b")), "{found}");
        let command =
            json!({"command": item["command"]["command"], "arguments": item["command"]["arguments"]});
        self.editor.ok("workspace/executeCommand", command);
    }

    #[track_caller]
    fn pyright(&self) -> Process {
        let mut found = self.editor.mark().processes_running("pyright-langserver");
        found.retain(|it| it.command.starts_with("node "));
        let [found] = found.as_slice() else { panic!("{found:?}") };
        found.clone()
    }
}

#[test]
fn copilot_and_pyright_are_one_server() {
    are_one_server(Place::First);
}

#[test]
fn pyright_and_copilot_are_one_server() {
    are_one_server(Place::Second);
}

fn are_one_server(place: Place) {
    let it = Session::start(place);
    let session = &it.editor;
    session.check_signed_in();
    let told = &session.initialized["capabilities"];
    for provider in ["hoverProvider", "inlineCompletionProvider", "renameProvider"] {
        assert!(!told[provider].is_null() && told[provider] != false, "{provider}: {told}");
    }
    session.wait_notification("textDocument/publishDiagnostics", |params| {
        let list = params["diagnostics"].as_array().expect("a list");
        params["uri"] == it.uri.as_str() && list.iter().any(|it| says(it, "undefined_name"))
    });
    it.hover();
    it.complete();

    // A tool is called, and one conversation has only its own.
    let outcome = session.finish(&session.create("[custom] which ticket?", json!({"conversationId": "all"})));
    expect_whole(&outcome);
    assert!(outcome.progress.text.contains("Ticket: "), "{}", outcome.progress.text);
    assert_eq!(session.tool_calls().len(), 1);
    let mut few = tools(&["fetch_ticket"]);
    few["conversationId"] = json!("few");
    expect_whole(&session.finish(&session.create("[few] hello", few)));
    let turns = it.stub.turns();
    let turn = turns.iter().find(|it| it.user == "[few] hello").expect("it was asked");
    assert_eq!(offered(turn), BTreeSet::from(["fetch_ticket"]));
    assert_eq!(servers(session), 2);

    assert!(session.shutdown().success());
    session.mark().wait_gone(std::time::Duration::from_secs(10));
    drop(it.sandbox);
}

#[test]
fn turns_beside_pyright_survive_death_of_copilot() {
    for place in [Place::First, Place::Second] {
        let it = Session::start(place);
        let session = &it.editor;
        it.hover();
        let pyright = it.pyright();
        let begin = |name: &str, more: Value| {
            let mut create = more;
            create["conversationId"] = json!(name);
            session.finish(&session.create(&format!("[{name}] first"), create)).expect_success();
            let turn = session.turn(&json!(name), &format!("[{name}] [go]"), json!({}));
            session.wait_progress(&turn, "a line", |it| it.text.contains("Line one."));
            turn
        };
        let turns = [("lead", begin("lead", json!({}))), ("part", begin("part", tools(&["fetch_ticket"])))];
        assert_eq!(servers(session), 2);
        let before = session.moment();
        kill_servers(session);
        it.hover();
        it.stub.open("turn");
        for (name, turn) in &turns {
            let outcome = session.finish(turn);
            expect_whole(&outcome);
            assert_eq!(outcome.progress.text, "Line one.\nLine two.\n", "{name}, {place:?}");
            // The next turn knows it.
            let more = session.turn(&json!(name), &format!("[{name}] [history]"), json!({}));
            let text = session.finish(&more).progress.text;
            assert!(text.contains("Line t") && text.contains("wo."), "{name}, {place:?}: {text}");
        }
        it.complete();
        it.hover();
        assert_eq!(it.pyright().pid, pyright.pid, "{place:?}");
        let shown = session.notifications_after(before, "window/showMessage");
        assert_eq!(shown, Vec::<Value>::new(), "{place:?}");
        assert!(session.shutdown().success());
    }
}

#[test]
fn death_of_pyright_does_not_touch_a_turn() {
    let it = Session::start(Place::Second);
    let session = &it.editor;
    it.hover();
    let turn = session.create("[go]", json!({}));
    session.wait_progress(&turn, "a line", |it| it.text.contains("Line one."));
    let killed = it.pyright();
    killed.kill(rustix::process::Signal::KILL);
    it.hover();
    assert_ne!(it.pyright().pid, killed.pid);
    it.stub.open("turn");
    let outcome = session.finish(&turn);
    expect_whole(&outcome);
    assert_eq!(outcome.progress.text, "Line one.\nLine two.\n");
    let asked = it.stub.turns().iter().filter(|it| it.user == "[go]").count();
    assert_eq!(asked, 1, "the model was asked once");
    assert!(session.shutdown().success());
}

#[test]
fn copilot_says_in_a_group_what_it_says_alone() {
    let without = same_answers::play(Sandbox::copilot, false);
    for place in [Place::First, Place::Second] {
        let with = same_answers::play(|sandbox, stub| lspool(place, sandbox, stub), false);
        same_answers::expect_same_beside_others(&with, &without);
    }
}
