//! The sessions behind the fixtures: the messages of an editor to the real server, and the answers of the stub's
//! models.
//!
//! Owns the messages and their recording. `drift` decides which parts must stay the same.

mod scripts;

use std::{
    cell::RefCell,
    ffi::OsString,
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    thread::sleep,
    time::{Duration, Instant},
};

use lspool::recording::redactor::{About, Redactor};
use serde_json::{Value, json};

pub use scripts::SESSIONS;

use super::{
    copilot::{Copilot, Options},
    editor::{Entry, Sent, Witness},
    real::{self, Sandbox},
    stub::Stub,
};

/// A session that can be held with any server that speaks as the Copilot server does.
pub struct Session {
    /// Name of its fixture.
    pub name: &'static str,
    /// Whether lspool stands in between and records it; else it is written down as a transcript.
    pub is_of_lspool: bool,
    play: fn(&Ground<'_>),
}

impl Session {
    /// The session of this name.
    pub fn named(name: &str) -> Option<&'static Session> {
        SESSIONS.iter().find(|it| it.name == name)
    }

    /// The place of its fixture.
    pub fn fixture(&self) -> PathBuf {
        let folder = if self.is_of_lspool { "tests/fixtures" } else { "tests/fixtures/transcripts" };
        Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(self.name).with_extension("jsonl")
    }

    /// Holds it.
    pub fn play(&self, servers: &Servers) -> Played {
        let ground = Ground::new(servers);
        let played = catch_unwind(AssertUnwindSafe(|| (self.play)(&ground)));
        let problem = played.err().map(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            text.unwrap_or_else(|| "it panicked".to_owned())
        });
        Played { text: ground.written(self.is_of_lspool), problem }
    }
}

/// The parties of a session.
pub struct Servers {
    /// The command of the server.
    pub copilot: Vec<OsString>,
    /// lspool.
    pub lspool: PathBuf,
}

impl Servers {
    /// The pinned server.
    pub fn pinned(lspool: impl Into<PathBuf>) -> Servers {
        Servers { copilot: vec![real::copilot().into(), "--stdio".into()], lspool: lspool.into() }
    }
}

/// A session that was held.
pub struct Played {
    /// The fixture that it would give.
    pub text: String,
    /// Why it did not come to its end.
    pub problem: Option<String>,
}

/// How long to wait for messages that may not come.
const A_WHILE: Duration = Duration::from_secs(10);

/// Messages that a server may send unasked at the end.
const AFTERTHOUGHTS: Duration = Duration::from_millis(300);

/// Their number varies, and they mean nothing to programs.
const LOGS: [&str; 2] = ["window/logMessage", "copilot/mcpRuntimeLogs"];

/// The folder of a session.
struct Ground<'a> {
    servers: &'a Servers,
    stub: RefCell<Option<Rc<Stub>>>,
    sandbox: Sandbox,
    /// By process, in the order in which they were started.
    said: RefCell<Vec<(&'static str, Witness)>>,
}

impl Ground<'_> {
    fn new(servers: &Servers) -> Ground<'_> {
        Ground { servers, stub: RefCell::default(), sandbox: Sandbox::new(), said: RefCell::default() }
    }

    /// The command of the server itself, signed in.
    fn server(&self, stub: &Stub) -> Command {
        let mut command = self.unsigned_server(stub);
        real::sign_in(&mut command, stub);
        command
    }

    fn unsigned_server(&self, stub: &Stub) -> Command {
        let mut words = self.servers.copilot.iter();
        let mut command = self.sandbox.copilot_command(words.next().expect("a command"), stub);
        command.args(words);
        command
    }

    /// lspool in front of it.
    fn lspool(&self, stub: &Stub) -> Command {
        let mut command = self.sandbox.signed_in_command(&self.servers.lspool, stub);
        // The server reports its kind; a fake in front of the real one may have any name.
        let config = self.sandbox.home().join("lspool.toml");
        let name = Path::new(&self.servers.copilot[0]).file_name().unwrap_or_default().to_string_lossy();
        std::fs::write(&config, format!("[server.\"{name}\"]\nkind = \"copilot\"\n"))
            .expect("the home is ours");
        command.arg("--config").arg(config);
        command.arg("--record").arg(self.recording()).arg("--record-texts=yes").arg("--");
        command.args(&self.servers.copilot);
        command
    }

    fn recording(&self) -> PathBuf {
        self.sandbox.home().join("recording.jsonl")
    }

    /// A session with a process of this name. `""`: the only one.
    fn start(&self, process: &'static str, command: Command, options: Options) -> Copilot {
        self.introduced(process, Copilot::start_silent(command, options))
    }

    /// The same with a session before its first message.
    fn introduced(&self, process: &'static str, session: Copilot) -> Copilot {
        session.refuse_others();
        self.said.borrow_mut().push((process, session.witness()));
        session.ok("initialize", session.options().initialize());
        session.notify("initialized", json!({}));
        session
    }

    /// The same, signed in and ready.
    fn signed_in(&self, process: &'static str, stub: &Stub, options: Options) -> Copilot {
        ready(self.start(process, self.server(stub), options))
    }

    /// The messages, in the form of a fixture.
    fn written(&self, is_of_lspool: bool) -> String {
        let recording = std::fs::read_to_string(self.recording());
        let text = match (is_of_lspool, recording) {
            (true, recording) => recording.unwrap_or_default(),
            (false, Ok(recording)) => transcript_of_editor(&recording),
            (false, Err(_)) => self.transcript(),
        };
        let sandbox = self.sandbox.workspace();
        let sandbox = sandbox.parent().expect("a workspace is in a sandbox");
        let port = self.stub.borrow().as_ref().map(|it| it.url());
        let mut places = vec![
            (self.sandbox.workspace().display().to_string(), "/workspace"),
            (sandbox.display().to_string(), "/home/user"),
            (env!("CARGO_MANIFEST_DIR").to_owned(), "/home/user/lspool"),
        ];
        places.extend(port.map(|it| (it, "http://127.0.0.1:PORT")));
        places.iter().fold(text, |text, (from, to)| text.replace(from, to))
    }

    fn transcript(&self) -> String {
        let mut redactor = Redactor::new(true, []);
        let said = self.said.borrow();
        let mut before = Duration::ZERO;
        let mut text = String::new();
        for (process, witness) in said.iter() {
            let entries = witness.transcript();
            let entries = entries.iter().filter(|it| it.method().is_none_or(|it| !LOGS.contains(&it)));
            let mut last = before;
            for it in entries {
                last = before + it.at;
                writeln!(text, "{}", line(process, last, it, &mut redactor)).ok();
            }
            // One after the other.
            before = last;
        }
        text
    }
}

/// The messages between lspool and its editor, from a recording of lspool.
fn transcript_of_editor(recording: &str) -> String {
    let mut text = String::new();
    for it in recording.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok()) {
        let is_log = it["msg"]["method"].as_str().is_some_and(|it| LOGS.contains(&it));
        if it["kind"] != "message" || it["peer"] != json!({"client": 0}) || is_log {
            continue;
        }
        let dir = if it["dir"] == "in" { "c2s" } else { "s2c" };
        let at: u64 = format!("{:.0}", it["t"].as_f64().unwrap_or_default()).parse().unwrap_or_default();
        writeln!(text, "{}", json!({"t": at, "dir": dir, "msg": it["msg"]})).ok();
    }
    text
}

/// Waits a while for a notification. That it does not come is for others to tell.
fn hear(session: &Copilot, method: &str) {
    let start = Instant::now();
    while session.notifications(method).is_empty() && start.elapsed() < A_WHILE {
        sleep(Duration::from_millis(5));
    }
}

/// The end of a session without a message.
fn leave(session: &Copilot) {
    session.forgive_unanswered();
    let problems = session.take_problems();
    assert!(problems.is_empty(), "{}", problems.join("; "));
}

/// A session with settings and a sign-in.
fn ready(session: Copilot) -> Copilot {
    session.notify("workspace/didChangeConfiguration", json!({"settings": session.options().settings}));
    hear(&session, "featureFlagsNotification");
    session.ok("checkStatus", json!({}));
    session
}

/// The end of a session.
fn end(session: &Copilot) {
    sleep(AFTERTHOUGHTS);
    session.shutdown();
    leave(session);
}

fn line(process: &str, at: Duration, entry: &Entry, redactor: &mut Redactor) -> Value {
    let dir = match entry.sent {
        Sent::ByEditor => "c2s",
        Sent::ByServer => "s2c",
    };
    let body = entry.message.to_string();
    let about = About { method: entry.method().unwrap_or_default(), is_answer: entry.method().is_none() };
    let redacted = redactor.message(about, &body).and_then(|it| serde_json::from_slice(&it).ok());
    let msg: Value = redacted.unwrap_or_default();
    let at = u64::try_from(at.as_millis()).unwrap_or_default();
    let mut line = json!({"t": at, "dir": dir, "msg": msg});
    if !process.is_empty() {
        line["proc"] = json!(process);
    }
    line
}
