//! A loopback stand-in for the HTTP services of GitHub and Copilot.
//!
//! It lets the real `copilot-language-server` sign in, hold scripted agent conversations with tool calls, and
//! complete code, without a network. [`Script`] has its answers, [`Stub::log`] the requests. As an HTTP proxy it also
//! answers for GitHub's hosts: always in the clear, over TLS only if started by [`Stub::start_with_tls`]; it refuses
//! other tunnels. It never opens a connection.

mod chat;
mod http;
mod routes;
mod script;
mod stream;
mod tls;

use std::{
    collections::{HashMap, HashSet},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

pub use chat::{Chat, Said};
pub use script::{Alternatives, Completion, Model, Override, Round, Rule, Script, ToolCall};

use super::editor::PATIENCE;

/// A running stub. Ends when dropped.
pub struct Stub {
    shared: Arc<Shared>,
}

/// A request that was made of the stub.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Counts from 0 in the order of arrival.
    pub number: usize,
    /// `GET`, `POST`, `CONNECT`…
    pub method: String,
    /// Path without query; host and port for `CONNECT`.
    pub path: String,
    /// The `Host` header.
    pub host: String,
    /// The client's port; see [`Process::has_port`](super::processes::Process::has_port).
    pub port: u16,
    /// The `Authorization` header. All secrets here are made up.
    pub authorization: Option<String>,
    /// The body as sent.
    pub body: Arc<[u8]>,
    /// The content of a model request.
    pub chat: Option<Chat>,
    /// How far it has got.
    pub outcome: Outcome,
}

/// How far a request has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Being answered.
    Open,
    /// Answered to the end, with this status.
    Answered(u16),
    /// Cut off by the script.
    Dropped,
    /// A tunnel that the proxy did not open.
    Refused,
    /// The client went away first.
    Aborted,
}

impl LogEntry {
    /// Whether it asks a model for an answer of a conversation (not for its title).
    pub fn is_turn(&self) -> bool {
        self.chat.as_ref().is_some_and(|chat| !chat.title)
    }

    /// One line for people: everything but the credential.
    pub fn to_json(&self) -> Value {
        let mut line = json!({
            "number": self.number, "method": self.method, "path": self.path, "host": self.host,
            "outcome": format!("{:?}", self.outcome),
        });
        if let Some(chat) = &self.chat {
            line["chat"] = json!({
                "model": chat.model, "user": chat.user, "round": chat.round, "tools": chat.tools,
                "results": chat.results, "title": chat.title, "interaction": chat.interaction,
            });
        }
        line
    }
}

impl Stub {
    /// Starts a stub on a free port. Tunnels to TLS hosts are refused.
    pub fn start(script: Script) -> Stub {
        Stub::serve(script, None)
    }

    /// Starts a stub that also answers for GitHub's hosts over TLS, for clients that trust [`Stub::ca_path`].
    pub fn start_with_tls(script: Script) -> Stub {
        Stub::serve(script, Some(tls::Tls::new()))
    }

    fn serve(script: Script, tls: Option<tls::Tls>) -> Stub {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on loopback");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let shared = Arc::new(Shared {
            port,
            rules: script.all_rules(),
            script,
            tls,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.state().ended {
                    return;
                }
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || routes::serve(&shared, stream));
            }
        });
        Stub { shared }
    }

    /// `http://127.0.0.1:PORT`, for API and proxy settings alike.
    pub fn url(&self) -> String {
        self.shared.url()
    }

    /// The certificate to trust, if this stub speaks TLS.
    pub fn ca_path(&self) -> Option<PathBuf> {
        self.shared.tls.as_ref().map(tls::Tls::ca_path)
    }

    /// All requests so far, in the order of their arrival.
    pub fn log(&self) -> Vec<LogEntry> {
        self.shared.state().log.clone()
    }

    /// Waits, for however long it takes, for the request with this number.
    pub fn entry(&self, number: usize) -> LogEntry {
        let state = self.shared.changed.wait_while(self.shared.state(), |state| state.log.len() <= number);
        state.unwrap_or_else(PoisonError::into_inner).log[number].clone()
    }

    /// The model requests of conversations so far (title requests apart).
    pub fn turns(&self) -> Vec<Chat> {
        self.log().into_iter().filter(LogEntry::is_turn).filter_map(|entry| entry.chat).collect()
    }

    /// Waits until the log is as wanted and returns it.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&[LogEntry]) -> bool) -> Vec<LogEntry> {
        let (state, timeout) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.state(), PATIENCE, |state| !wanted(&state.log))
            .unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> = state.log.iter().map(|entry| entry.to_json().to_string()).collect();
        assert!(!timeout.timed_out(), "the stub never saw {what}; it saw\n{}", lines.join("\n"));
        state.log.clone()
    }

    /// Opens a gate that a scripted answer waits for; it stays open.
    pub fn open(&self, gate: &str) {
        self.shared.state().open_gates.insert(gate.to_owned());
        self.shared.changed.notify_all();
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        // Wakes the thread that accepts; if it cannot be reached it has ended already.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.shared.port)));
    }
}

struct Shared {
    port: u16,
    script: Script,
    rules: Vec<Rule>,
    tls: Option<tls::Tls>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    log: Vec<LogEntry>,
    open_gates: HashSet<String>,
    hits: HashMap<String, u32>,
    calls: usize,
    ended: bool,
}

impl Shared {
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A thread that panicked here has failed its test; the others continue.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, entry: impl FnOnce(usize) -> LogEntry) -> usize {
        let mut state = self.state();
        let number = state.log.len();
        state.log.push(entry(number));
        self.changed.notify_all();
        number
    }

    fn finish(&self, number: usize, outcome: Outcome) {
        self.state().log[number].outcome = outcome;
        self.changed.notify_all();
    }

    /// Counts a use; whether it is among the first `times`.
    fn take(&self, key: String, times: Option<u32>) -> bool {
        let mut state = self.state();
        let used = state.hits.entry(key).or_default();
        *used += 1;
        times.is_none_or(|times| *used <= times)
    }

    fn call_id(&self) -> String {
        let mut state = self.state();
        state.calls += 1;
        format!("call_{:04}", state.calls)
    }

    fn ended(&self) -> bool {
        self.state().ended
    }

    /// Waits a moment, or for a gate; an error if the client goes away or the stub ends.
    fn pause(
        &self,
        connection: &http::Connection,
        pause: Duration,
        gate: Option<&str>,
    ) -> std::io::Result<()> {
        if pause.is_zero() && gate.is_none() {
            return Ok(());
        }
        connection.wait(|elapsed| {
            let state = self.state();
            state.ended || (elapsed >= pause && gate.is_none_or(|gate| state.open_gates.contains(gate)))
        })?;
        if self.ended() { Err(std::io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}
