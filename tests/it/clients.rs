//! What Copilot clients do, played with the real server and through lspool: it works as it does without.

mod chat;
mod endings;
mod opening;
mod suggestions;

use serde_json::Value;

use super::support::{
    copilot::{Copilot, Options},
    editor::{Entry, Sent},
    names::Names,
    own,
    real::{self, Sandbox},
    stub::{Script, Stub},
};

/// A server, signed in by its environment, in a sandbox with its own stand-in for the services.
struct Stage {
    stub: Stub,
    sandbox: Sandbox,
    through_lspool: bool,
}

impl Stage {
    fn new(script: Script, through_lspool: bool) -> Stage {
        let sandbox = Sandbox::new();
        let script = script.workspace(sandbox.workspace().display().to_string());
        Stage { stub: Stub::start(script), sandbox, through_lspool }
    }

    fn command(&self) -> std::process::Command {
        if !self.through_lspool {
            return self.sandbox.copilot(&self.stub);
        }
        let mut command = self.sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &self.stub);
        command.arg("--log-file").arg(self.log_file());
        command.arg("--").arg(real::copilot()).arg("--stdio");
        command
    }

    fn log_file(&self) -> std::path::PathBuf {
        self.sandbox.runtime().join("log")
    }

    /// A session that has begun as usual.
    fn start(&self) -> Copilot {
        Copilot::start(self.command(), Options::in_workspace(self.sandbox.workspace()))
    }

    /// A session in which nothing has been said.
    fn start_silent(&self) -> Copilot {
        Copilot::start_silent(self.command(), Options::in_workspace(self.sandbox.workspace()))
    }

    /// Values as text, without what differs from run to run: folders, ports, UUIDs, durations.
    fn normal(&self, values: &[Value]) -> Vec<String> {
        let mut names = Names::default();
        let folder = self.sandbox.home().parent().expect("it is in a folder").display().to_string();
        let text = |value: &Value| {
            let text = value.to_string().replace(&folder, "FOLDER").replace(&self.stub.url(), "STUB");
            names.normal(&without_duration(&text))
        };
        values.iter().map(text).collect()
    }
}

/// `conversation/compress` says how long it took.
fn without_duration(text: &str) -> String {
    let mut parts = text.split("\"durationMs\":");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + part.trim_start_matches(|it: char| it.is_ascii_digit()))
}

/// Plays the same with the bare server and through lspool: what comes of it must be equal. Gives the latter.
#[track_caller]
fn same(script: impl Fn() -> Script, play: impl Fn(&Stage) -> Vec<Value>) -> Vec<Value> {
    let [without, with] = [false, true].map(|through_lspool| {
        let stage = Stage::new(script(), through_lspool);
        let came = play(&stage);
        (stage.normal(&came), came)
    });
    assert!(!with.0.is_empty(), "something must come of it");
    for (with, without) in with.0.iter().zip(&without.0) {
        assert_eq!(&own::stripped(with), without);
    }
    assert_eq!(with.0.len(), without.0.len());
    with.1
}

/// An answer as the protocol writes it.
fn answer(answer: super::support::editor::Answer) -> Value {
    match answer {
        Ok(result) => serde_json::json!({"result": result}),
        Err(error) => {
            serde_json::json!({"error": {"code": error.code, "message": error.message, "data": error.data}})
        }
    }
}

/// The server's messages of these methods, in order.
fn said(session: &Copilot, wanted: &[&str]) -> Vec<Value> {
    let transcript = session.transcript();
    let by_server = transcript.iter().filter(|it| it.sent == Sent::ByServer);
    let chosen = by_server.filter(|it| it.method().is_some_and(|it| wanted.contains(&it)));
    chosen.map(|it| serde_json::json!([it.method(), it.message["params"]])).collect()
}

/// The framing of the server's messages.
fn header(entry: &Entry) -> String {
    let header = &entry.raw[..entry.raw.len() - entry.body().len()];
    String::from_utf8_lossy(header).into_owned()
}
