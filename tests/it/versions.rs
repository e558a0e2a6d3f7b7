//! Servers of other versions, which plug-ins bundle. They are installed by hand: `scripts/install-servers versions`.
//!
//! Each test runs all of them and prints what it has found, so run it with `--no-capture`.

use std::{
    fs,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;

use super::{
    partitions::{offered, tools},
    support::{
        copilot::{Copilot, Options},
        editor::PATIENCE,
        processes::Process,
        real::{self, Sandbox},
        stub::{Chat, Said, Script, Stub},
    },
};

/// A server, by its version.
struct Version {
    name: String,
    server: PathBuf,
}

/// The oldest first, the pinned one last.
fn versions() -> Vec<Version> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/versions/node_modules");
    let found = fs::read_dir(&folder).expect("run scripts/install-servers versions").flatten();
    let names = found.filter_map(|it| it.file_name().into_string().ok());
    let mut versions: Vec<Version> = names
        .filter_map(|it| Some(it.strip_prefix("copilot-")?.to_owned()))
        .map(|name| Version { server: folder.join(format!("copilot-{name}/copilot-language-server")), name })
        .collect();
    versions.sort_by_key(|it| it.name.clone());
    versions.push(Version { name: "pinned".to_owned(), server: real::copilot() });
    versions
}

impl Version {
    /// lspool in front of it.
    fn session(&self, sandbox: &Sandbox, stub: &Stub) -> Copilot {
        let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), stub);
        command.arg("--").arg(&self.server).arg("--stdio");
        let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
        session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
        session.on_tool("fetch_ticket", |_| Ok("it is about colors".to_owned()));
        session
    }

    fn processes(&self, session: &Copilot) -> Vec<Process> {
        let server = self.server.display().to_string();
        session.mark().processes().into_iter().filter(|it| it.command.starts_with(&server)).collect()
    }

    fn kill(&self, session: &Copilot) {
        let killed = self.processes(session);
        for it in &killed {
            it.kill(Signal::KILL);
        }
        assert!(!killed.is_empty(), "there is a server to kill");
        let start = Instant::now();
        while self.processes(session).iter().any(|it| killed.iter().any(|killed| killed.pid == it.pid)) {
            assert!(start.elapsed() < PATIENCE, "{} does not die", self.name);
            sleep(Duration::from_millis(5));
        }
    }
}

fn history(chat: &Chat) -> Vec<String> {
    let said = |it: &Said| match it {
        Said::User(text) => format!("user {text}"),
        Said::Assistant(text) => format!("assistant {text}"),
        Said::Call(name) => format!("call {name}"),
        Said::Result(text) => format!("result {text}"),
    };
    chat.history.iter().map(said).collect()
}

#[test]
#[ignore = "other versions are installed by hand"]
fn conversation_survives_idle_crash_of_every_version() {
    for version in versions() {
        let stub = Stub::start(Script::default());
        let sandbox = Sandbox::new();
        let session = version.session(&sandbox, &stub);
        for (id, more) in [("mine", json!({})), ("other", tools(&["fetch_ticket"]))] {
            let mut all = json!({"conversationId": id});
            all.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
            session.finish(&session.create("[custom] which ticket?", all)).expect_success();
            if id == "other" {
                assert_eq!(offered(&stub.turns()[2]), ["fetch_ticket"].into(), "{}", version.name);
            }
        }
        let each = version.processes(&session).iter().map(|it| it.resident_kib() / 1024).collect::<Vec<_>>();
        version.kill(&session);
        for id in ["mine", "other"] {
            let outcome = session.finish(&session.turn(&json!(id), "and now?", json!({})));
            assert_eq!(outcome.conversation(), id, "{}", version.name);
            assert_eq!((outcome.progress.begins, outcome.progress.ends.len()), (1, 1), "{}", version.name);
            let chat = stub.turns().pop().expect("it was asked");
            let told = history(&chat);
            // As text, a history has no calls.
            let calls = ["call fetch_ticket", "result it is about colors"];
            let is_full = told.iter().any(|it| it == calls[0]);
            println!(
                "{:8} {id:6} {} history, {each:?} MiB",
                version.name,
                if is_full { "full" } else { "text" }
            );
            let mut expected = vec!["user [custom] which ticket?"];
            expected.extend(calls.iter().filter(|_| is_full));
            expected.extend(["assistant Ticket: it is about colors", "user and now?"]);
            assert_eq!(told, expected, "{}", version.name);
            assert_eq!(is_full, !["1.403.0", "1.419.0"].contains(&version.name.as_str()), "{}", version.name);
        }
        let turn = session.turn(&json!("mine"), "a third", json!({}));
        session.finish(&turn).expect_success();
        assert!(session.shutdown().success());
    }
}
