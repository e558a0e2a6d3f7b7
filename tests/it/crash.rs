//! The death of the real server: conversations and active turns continue in the next process.

mod cases;
mod chaos;
mod endings;
mod exact;
mod idle;
mod odd;

use std::{thread::sleep, time::Duration};

use lspool::core::CONTINUE;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{
    copilot::{ClientToolCall, Copilot, Options, Outcome},
    real::{self, Sandbox},
    stub::{Said, Script, Stub},
};

/// The processes of the server.
fn servers(session: &Copilot) -> Vec<super::support::processes::Process> {
    let server = real::copilot().display().to_string();
    session.mark().processes().into_iter().filter(|it| it.command.starts_with(&server)).collect()
}

/// Kills every process of the server.
pub(super) fn kill_servers(session: &Copilot) {
    let killed = servers(session);
    for it in &killed {
        it.kill(Signal::KILL);
    }
    assert!(!killed.is_empty(), "there is a server to kill");
    let is_gone = |pid: u32| servers(session).iter().all(|it| it.pid != pid);
    while !killed.iter().all(|it| is_gone(it.pid)) {
        sleep(Duration::from_millis(5));
    }
}

/// An editor, lspool and a stub that knows the continue message.
struct Scene {
    stub: Stub,
    sandbox: Sandbox,
    session: Copilot,
}

impl Scene {
    fn new(script: Script) -> Scene {
        Scene::with(script, |it| it)
    }

    fn with(script: Script, options: impl FnOnce(Options) -> Options) -> Scene {
        Scene::configured("", script, options)
    }

    /// With these further keys of `[server.copilot]`.
    fn configured(keys: &str, script: Script, options: impl FnOnce(Options) -> Options) -> Scene {
        let sandbox = Sandbox::new();
        let workspace = sandbox.workspace().display().to_string();
        let stub = Stub::start(script.continue_text(CONTINUE).workspace(workspace));
        let options = options(Options::in_workspace(sandbox.workspace()));
        let config = sandbox.home().join("lspool.toml");
        // So many deaths would otherwise take too long.
        let patient = "max_restarts = 60000\nbackoff = { initial = \"0s\" }";
        std::fs::write(&config, format!("[server.copilot]\n{patient}\n{keys}\n")).expect("the home is ours");
        let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stub);
        command.arg("--config").arg(config).arg("--").arg(real::copilot()).arg("--stdio");
        let session = Copilot::start(command, options);
        session
            .register_tools(&["fetch_ticket", "run_in_terminal", "insert_edit_into_file", "create_file"])
            .expect("the schemas are good");
        Scene { stub, sandbox, session }
    }

    /// Starts a turn in a conversation, and returns its request to the model as without a crash: without the message
    /// to continue, and with the texts around it joined.
    fn history(&self, conversation: &Value) -> Vec<String> {
        let question = format!("and now, {conversation}?");
        self.session.finish(&self.session.turn(conversation, &question, json!({}))).expect_success();
        let chat = self.stub.turns().into_iter().rfind(|it| it.user == question).expect("it was asked");
        let mut history = plain(&chat.history);
        assert_eq!(history.pop(), Some(format!("user {question}")));
        history
    }
}

/// A history without continue messages.
fn plain(history: &[Said]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for said in history {
        let line = match said {
            Said::User(text) if text == CONTINUE => continue,
            Said::User(text) => format!("user {text}"),
            Said::Assistant(text) => format!("assistant {text}"),
            Said::Call(name) => format!("call {name}"),
            Said::Result(text) => format!("result {text}"),
        };
        match (out.last_mut(), line.strip_prefix("assistant ")) {
            (Some(last), Some(text)) if last.starts_with("assistant ") => last.push_str(text),
            _ => out.push(line),
        }
    }
    out
}

/// The visible parts of a turn.
#[derive(Debug, PartialEq)]
struct Seen {
    text: String,
    calls: Vec<String>,
    /// The request to the model in the next turn.
    history: Vec<String>,
}

/// The client tools that were called in a conversation.
fn calls(calls: &[ClientToolCall], conversation: &str) -> Vec<String> {
    let own = calls.iter().filter(|it| it.params["conversationId"] == conversation);
    own.map(|it| format!("{} {}", it.name, it.input)).collect()
}

/// One begin, one end, one answer, with the same ids all over, and rounds that are counted on.
#[track_caller]
pub(super) fn expect_whole(outcome: &Outcome) {
    if let Err(error) = &outcome.answer {
        panic!("the turn failed: {error}; {:#?}", outcome.progress.values);
    }
    let answer = outcome.expect_success();
    let (conversation, turn) = (&outcome.progress.conversation, &outcome.progress.turn);
    assert_eq!((&answer["conversationId"], &answer["turnId"]), (conversation, turn));
    let (mut last, mut open) = (0, Vec::new());
    for value in outcome.progress.values.iter().filter(|it| it["parentTurnId"].is_null()) {
        assert_eq!((&value["conversationId"], &value["turnId"]), (conversation, turn), "{value}");
        for round in value["editAgentRounds"].as_array().into_iter().flatten() {
            let id = round["roundId"].as_u64().expect("rounds have numbers");
            assert!(id >= last, "round {id} comes after {last}: {:#?}", outcome.progress.values);
            last = id;
            for call in round["toolCalls"].as_array().into_iter().flatten() {
                open.retain(|it| *it != call["id"]);
                if call["status"] == "running" {
                    open.push(call["id"].clone());
                }
            }
        }
    }
    assert_eq!(open, Vec::<Value>::new(), "calls that never come to an end");
    let end = outcome.progress.values.last().expect("there is an end");
    assert_eq!(end["kind"], "end");
}
