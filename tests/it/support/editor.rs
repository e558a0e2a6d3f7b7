//! An editor for tests: starts a language server, talks to it over stdio and remembers every byte.
//!
//! It does not know its server. It fails the test, at the latest when dropped, if the server breaks the base
//! protocol: bytes between frames, an answer without a request or a second one, a request without an answer (see
//! [`TestEditor::forgive_unanswered`]).

pub mod frames;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Sender},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use super::{processes::Mark, tape::Tape};

/// How long anything may take before a test gives up. A guard against hanging, never a measure.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// An editor with its language server.
pub struct TestEditor {
    shared: Arc<Shared>,
    to_server: Sender<ToServer>,
    child: Mutex<Child>,
    pid: Pid,
    mark: Mark,
    tape: Tape,
    next_id: Mutex<i64>,
    threads: Vec<JoinHandle<()>>,
}

/// A request that the editor has made.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// Its id.
    pub id: Value,
    /// Its method.
    pub method: String,
}

/// A request that the server has made.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRequest {
    /// Its id.
    pub id: Value,
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// An answer's error.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// JSON-RPC code.
    pub code: i64,
    /// The text for people.
    pub message: String,
    /// The values for programs.
    pub data: Value,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), data: Value::Null }
    }

    fn of(error: &Value) -> Self {
        RpcError {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error["data"].clone(),
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

/// The result of a request.
pub type Answer = Result<Value, RpcError>;

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The editor.
    ByEditor,
    /// The server.
    ByServer,
}

/// One message of the transcript.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Since the editor started.
    pub at: Duration,
    /// The sender.
    pub sent: Sent,
    /// The whole frame, header and all.
    pub raw: Arc<[u8]>,
    /// The message; null if the body is none.
    pub message: Value,
}

impl Entry {
    /// The method, if it is a request or a notification.
    pub fn method(&self) -> Option<&str> {
        self.message["method"].as_str()
    }

    /// Whether it is a notification.
    pub fn is_notification(&self) -> bool {
        self.method().is_some() && self.message.get("id").is_none()
    }

    /// The bytes after the header.
    pub fn body(&self) -> &[u8] {
        let end = self.raw.windows(4).position(|window| window == b"\r\n\r\n");
        end.map_or(&[], |end| &self.raw[end + 4..])
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrow = match self.sent {
            Sent::ByEditor => "-->",
            Sent::ByServer => "<--",
        };
        let message = self.message.to_string();
        let short: String = message.chars().take(400).collect();
        let rest = if short.len() < message.len() { "…" } else { "" };
        write!(f, "{:>6} {arrow} {short}{rest}", self.at.as_millis())
    }
}

/// The transcript at some moment, to look only at later messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(usize);

/// See [`TestEditor::witness`].
pub struct Witness(Arc<Shared>);

impl Witness {
    /// Everything said so far.
    pub fn transcript(&self) -> Vec<Entry> {
        self.0.state().transcript.clone()
    }
}

enum ToServer {
    Bytes(Vec<u8>),
    Close,
}

type Handler = Arc<Mutex<dyn FnMut(&Value) -> Answer + Send>>;

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    to_server: Sender<ToServer>,
}

struct State {
    start: Instant,
    transcript: Vec<Entry>,
    /// The editor's requests by the text of their id; several if an id was used again.
    asked: HashMap<String, VecDeque<Asked>>,
    handlers: HashMap<String, Handler>,
    /// Methods of requests that a test takes by hand.
    held: HashSet<String>,
    refuses_others: bool,
    /// Requests of the server that no test has looked at yet, oldest first.
    unclaimed: VecDeque<ServerRequest>,
    /// Ids of the server's requests that are not answered yet.
    open: Vec<(Value, String)>,
    problems: Vec<String>,
    stderr: String,
    stderr_ended: bool,
    closed: bool,
    reading: bool,
    forgive_unanswered: bool,
}

struct Asked {
    method: String,
    answer: Option<Answer>,
}

impl TestEditor {
    /// Starts a language server in its own process group.
    pub fn spawn(mut command: Command) -> TestEditor {
        use std::os::unix::process::CommandExt;
        let mark = Mark::of(&mut command);
        let tape = Tape::of(&mut command);
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let pid = Pid::from_child(&child);
        let (to_server, from_editor) = mpsc::channel();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                start: Instant::now(),
                transcript: Vec::new(),
                asked: HashMap::new(),
                handlers: HashMap::new(),
                held: HashSet::new(),
                refuses_others: false,
                unclaimed: VecDeque::new(),
                open: Vec::new(),
                problems: Vec::new(),
                stderr: String::new(),
                stderr_ended: false,
                closed: false,
                reading: true,
                forgive_unanswered: false,
            }),
            changed: Condvar::new(),
            to_server: to_server.clone(),
        });
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (reader, listener) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            std::thread::spawn(move || frames::write_all(stdin, &from_editor)),
            std::thread::spawn(move || reader.read(stdout.expect("stdout is piped"))),
            std::thread::spawn(move || listener.listen(stderr.expect("stderr is piped"))),
        ];
        let (child, next_id) = (Mutex::new(child), Mutex::new(1));
        TestEditor { shared, to_server, child, pid, mark, tape, next_id, threads }
    }

    /// The process id of the server.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The common mark of all processes of this server.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    // ---- messages of the editor

    /// Makes a request with the next number as its id.
    pub fn request(&self, method: &str, params: Value) -> Pending {
        let mut next = self.next_id.lock().unwrap_or_else(PoisonError::into_inner);
        let id = *next;
        *next += 1;
        drop(next);
        self.request_as(id.into(), method, params)
    }

    /// Makes a request with this id.
    pub fn request_as(&self, id: Value, method: &str, params: Value) -> Pending {
        let pending = self.asked(id.clone(), method);
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        pending
    }

    /// Makes a request and waits for its answer.
    pub fn call(&self, method: &str, params: Value) -> Answer {
        let pending = self.request(method, params);
        self.wait(&pending)
    }

    /// Makes a request that must succeed.
    #[track_caller]
    pub fn ok(&self, method: &str, params: Value) -> Value {
        self.call(method, params).unwrap_or_else(|error| panic!("{method} failed: {error}"))
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a notification with no `params` at all.
    pub fn notify_bare(&self, method: &str) {
        self.send(json!({"jsonrpc": "2.0", "method": method}));
    }

    /// Cancels a request.
    pub fn cancel(&self, pending: &Pending) {
        self.notify("$/cancelRequest", json!({"id": pending.id}));
    }

    /// Answers a request of the server.
    pub fn answer(&self, request: &ServerRequest, answer: Answer) {
        self.shared.answer(&request.id, answer);
    }

    /// Sends bytes as they are. They stand in the transcript with a null message; answers to requests among
    /// them must be announced with [`TestEditor::asked`].
    pub fn raw_write(&self, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        self.shared.state().note(Sent::ByEditor, &bytes, Value::Null);
        self.shared.queue(bytes);
    }

    /// Says that a request was written by [`TestEditor::raw_write`].
    pub fn asked(&self, id: Value, method: &str) -> Pending {
        let asked = Asked { method: method.to_owned(), answer: None };
        self.shared.state().asked.entry(id.to_string()).or_default().push_back(asked);
        Pending { id, method: method.to_owned() }
    }

    /// Closes the server's stdin once everything is written.
    pub fn close_stdin(&self) {
        drop(self.to_server.send(ToServer::Close));
    }

    fn send(&self, message: Value) {
        let bytes = frames::frame(&message);
        self.shared.state().note(Sent::ByEditor, &bytes, message);
        self.shared.queue(bytes);
    }

    // ---- messages to the editor

    /// Waits for the answer to a request. May be asked again.
    #[track_caller]
    pub fn wait(&self, pending: &Pending) -> Answer {
        let what = format!("the answer to {} {}", pending.method, pending.id);
        self.wait_until(&what, |state| state.answer_to(pending))
    }

    /// The answer to a request, if it is there already.
    pub fn answer_to(&self, pending: &Pending) -> Option<Answer> {
        self.shared.state().answer_to(pending)
    }

    /// Says yes to what servers usually ask, and has no settings.
    pub fn agree(&self) {
        self.on_request("workspace/configuration", |params| {
            Ok(params["items"].as_array().into_iter().flatten().map(|_| Value::Null).collect())
        });
        for method in [
            "client/registerCapability",
            "client/unregisterCapability",
            "window/workDoneProgress/create",
            "workspace/codeLens/refresh",
            "workspace/diagnostic/refresh",
            "workspace/inlayHint/refresh",
            "workspace/semanticTokens/refresh",
        ] {
            self.on_request(method, |_| Ok(Value::Null));
        }
    }

    /// Answers each request without a handler with an error for an unknown method, unless it is held.
    pub fn refuse_others(&self) {
        self.shared.state().refuses_others = true;
    }

    /// Answers all requests of a method, also the waiting ones. The handler runs on the reading thread: it must not
    /// wait.
    pub fn on_request(&self, method: &str, handler: impl FnMut(&Value) -> Answer + Send + 'static) {
        let handler: Handler = Arc::new(Mutex::new(handler));
        let mut state = self.shared.state();
        state.handlers.insert(method.to_owned(), Arc::clone(&handler));
        let (waiting, others) = state.unclaimed.drain(..).partition(|request| request.method == method);
        state.unclaimed = others;
        drop(state);
        let waiting: VecDeque<ServerRequest> = waiting;
        for request in waiting {
            self.shared.handle(&handler, &request);
        }
    }

    /// Takes the handler of a method away: its requests wait for [`TestEditor::expect_request`] from now on.
    pub fn hold_requests(&self, method: &str) {
        let mut state = self.shared.state();
        state.handlers.remove(method);
        state.held.insert(method.to_owned());
    }

    /// Waits for a request that no handler answers, and takes it over: answer it with [`TestEditor::answer`].
    #[track_caller]
    pub fn expect_request(&self, method: &str) -> ServerRequest {
        self.expect_request_where(method, |_| true)
    }

    /// Like [`TestEditor::expect_request`], for a request with such parameters.
    #[track_caller]
    pub fn expect_request_where(&self, method: &str, wanted: impl Fn(&Value) -> bool) -> ServerRequest {
        self.wait_until(&format!("the request {method}"), |state| {
            let at = state.unclaimed.iter().position(|it| it.method == method && wanted(&it.params))?;
            state.unclaimed.remove(at)
        })
    }

    /// Waits for a notification, also an earlier one, and returns its parameters.
    #[track_caller]
    pub fn wait_notification(&self, method: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait_notification_after(Moment(0), method, wanted)
    }

    /// Waits for a notification that came after a moment.
    #[track_caller]
    pub fn wait_notification_after(
        &self,
        after: Moment,
        method: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        self.wait_until(&format!("the notification {method}"), |state| {
            state.notifications(after, method).find(|params| wanted(params)).cloned()
        })
    }

    /// The parameters of all notifications of a method so far.
    pub fn notifications(&self, method: &str) -> Vec<Value> {
        self.notifications_after(Moment(0), method)
    }

    /// The parameters of those that came after a moment.
    pub fn notifications_after(&self, after: Moment, method: &str) -> Vec<Value> {
        self.shared.state().notifications(after, method).cloned().collect()
    }

    /// Now.
    pub fn moment(&self) -> Moment {
        Moment(self.shared.state().transcript.len())
    }

    /// Everything said so far.
    pub fn transcript(&self) -> Vec<Entry> {
        self.shared.state().transcript.clone()
    }

    /// The transcript outlives the editor, for the message of a failed wait.
    pub fn witness(&self) -> Witness {
        Witness(Arc::clone(&self.shared))
    }

    /// Waits until the transcript is as wanted; returns the result.
    #[track_caller]
    pub fn wait_transcript<T>(&self, what: &str, found: impl Fn(&[Entry]) -> Option<T>) -> T {
        self.wait_until(what, |state| found(&state.transcript))
    }

    /// Stops reading the server's stdout, or continues. Up to 64 KiB may still be read.
    pub fn set_reading(&self, reading: bool) {
        self.shared.state().reading = reading;
        self.shared.changed.notify_all();
    }

    /// The server's stderr so far.
    pub fn stderr(&self) -> String {
        self.shared.state().stderr.clone()
    }

    /// Waits for the end of the server's stderr: everything that it wrote there.
    #[track_caller]
    pub fn wait_stderr(&self) -> String {
        let start = Instant::now();
        let mut state = self.shared.state();
        while !state.stderr_ended {
            if start.elapsed() > PATIENCE {
                state.give_up("the end of stderr");
            }
            let waited = self.shared.changed.wait_timeout(state, Duration::from_secs(1));
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.stderr.clone()
    }

    /// Waits for the end of the server's stdout.
    #[track_caller]
    pub fn wait_closed(&self) {
        self.wait_until("the end of stdout", |state| state.closed.then_some(()));
    }

    // ---- the end

    /// Sends a signal to the server alone.
    pub fn kill(&self, signal: Signal) {
        kill_process(self.pid, signal).ok();
    }

    /// Sends a signal to the server's process group.
    pub fn kill_group(&self, signal: Signal) {
        kill_process_group(self.pid, signal).ok();
    }

    /// Waits for the end of the server.
    #[track_caller]
    pub fn wait_exit(&self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            if start.elapsed() > PATIENCE {
                self.shared.state().give_up("the end of the server");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How the server ended, if it has.
    pub fn exited(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().expect("the server is our child")
    }

    /// `shutdown`, `exit`, and the end of the server.
    #[track_caller]
    pub fn shutdown(&self) -> ExitStatus {
        self.ok("shutdown", Value::Null);
        self.notify_bare("exit");
        self.wait_exit()
    }

    /// Requests may stay unanswered, on both sides: the test is about that.
    pub fn forgive_unanswered(&self) {
        self.shared.state().forgive_unanswered = true;
    }

    /// The server's faults so far; taken, so that dropping the editor does not fail for them.
    pub fn take_problems(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().problems)
    }

    #[track_caller]
    fn wait_until<T>(&self, what: &str, mut found: impl FnMut(&mut State) -> Option<T>) -> T {
        let start = Instant::now();
        let mut state = self.shared.state();
        loop {
            if let Some(found) = found(&mut state) {
                return found;
            }
            // The pipe is read to its end when `closed` is set: nothing can follow.
            if state.closed || start.elapsed() > PATIENCE {
                state.give_up(what);
            }
            (state, _) = self
                .shared
                .changed
                .wait_timeout(state, Duration::from_secs(1))
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for TestEditor {
    fn drop(&mut self) {
        let problems = self.shared.state().all_problems();
        self.kill_group(Signal::KILL);
        self.mark.kill_all();
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.wait().expect("the server is our child");
        drop(child);
        drop(self.to_server.send(ToServer::Close));
        self.set_reading(true);
        for thread in self.threads.drain(..) {
            // A handler that panicked has set a problem; the panic is on stderr.
            drop(thread.join());
        }
        if std::thread::panicking() {
            eprintln!("{}", self.shared.state().last_words());
            return;
        }
        assert!(problems.is_empty(), "{}\n{}", problems.join("\n"), self.shared.state().last_words());
        self.tape.check();
    }
}

/// Reading has ended, at the end of the stream or by a handler's panic.
struct Closed<'a>(&'a Shared);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        if std::thread::panicking() {
            state.problems.push("a handler of the test panicked".to_owned());
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails only when stdin is closed; then nobody can read it.
    fn queue(&self, bytes: Vec<u8>) {
        drop(self.to_server.send(ToServer::Bytes(bytes)));
    }

    fn read(&self, stdout: impl std::io::Read) {
        let _closed = Closed(self);
        let mut frames = frames::Frames::new(stdout);
        loop {
            drop(
                self.changed
                    .wait_while(self.state(), |state| !state.reading)
                    .unwrap_or_else(PoisonError::into_inner),
            );
            match frames.next() {
                frames::Read::Frame { raw, message } => self.received(&raw, &message),
                frames::Read::Stray(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    self.state().problems.push(format!("no frame, on the server's stdout: {text:?}"));
                }
                frames::Read::End => return,
            }
            self.changed.notify_all();
        }
    }

    fn received(&self, raw: &[u8], message: &Value) {
        let mut state = self.state();
        state.note(Sent::ByServer, raw, message.clone());
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => {
                let request = ServerRequest {
                    id: id.clone(),
                    method: method.to_owned(),
                    params: message["params"].clone(),
                };
                state.requested(&request);
                let Some(handler) = state.handlers.get(method).cloned() else {
                    if state.refuses_others && !state.held.contains(method) {
                        drop(state);
                        return self.answer(id, Err(RpcError::new(-32601, "not in this session")));
                    }
                    state.unclaimed.push_back(request);
                    return;
                };
                drop(state);
                self.handle(&handler, &request);
            }
            (Some(_), None) => {}
            (None, Some(id)) => state.answered(id, message),
            (None, None) => state.problems.push(format!("neither request nor answer: {message}")),
        }
    }

    /// Without the lock of the state: a handler may look at the editor.
    fn handle(&self, handler: &Handler, request: &ServerRequest) {
        let mut handler = handler.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = handler(&request.params);
        drop(handler);
        self.answer(&request.id, answer);
    }

    fn answer(&self, id: &Value, answer: Answer) {
        let message = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => {
                let mut members = json!({"code": error.code, "message": error.message});
                if !error.data.is_null() {
                    members["data"] = error.data;
                }
                json!({"jsonrpc": "2.0", "id": id, "error": members})
            }
        };
        let bytes = frames::frame(&message);
        let mut state = self.state();
        if let Some(at) = state.open.iter().position(|(open, _)| open == id) {
            state.open.remove(at);
        }
        state.note(Sent::ByEditor, &bytes, message);
        drop(state);
        self.queue(bytes);
    }

    fn listen(&self, mut stderr: impl std::io::Read) {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stderr.read(&mut buffer) {
            self.state().stderr += &String::from_utf8_lossy(&buffer[..n]);
        }
        self.state().stderr_ended = true;
        self.changed.notify_all();
    }
}

impl State {
    fn note(&mut self, sent: Sent, raw: &[u8], message: Value) {
        self.transcript.push(Entry { at: self.start.elapsed(), sent, raw: Arc::from(raw), message });
    }

    fn requested(&mut self, request: &ServerRequest) {
        if self.open.iter().any(|(id, _)| *id == request.id) {
            self.problems.push(format!("the server used id {} while it was in use", request.id));
        }
        self.open.push((request.id.clone(), request.method.clone()));
    }

    fn answered(&mut self, id: &Value, message: &Value) {
        let answer = match (message.get("result"), message.get("error")) {
            (Some(result), None) => Ok(result.clone()),
            (None, Some(error)) => Err(RpcError::of(error)),
            (Some(_), Some(_)) | (None, None) => {
                self.problems.push(format!("an answer needs a result or an error: {message}"));
                return;
            }
        };
        let Some(asked) = self.asked.get_mut(&id.to_string()) else {
            self.problems.push(format!("an answer to nobody's request: {message}"));
            return;
        };
        match asked.iter_mut().find(|asked| asked.answer.is_none()) {
            Some(asked) => asked.answer = Some(answer),
            None => self.problems.push(format!("a second answer to request {id}: {message}")),
        }
    }

    fn answer_to(&self, pending: &Pending) -> Option<Answer> {
        let asked = self.asked.get(&pending.id.to_string())?;
        asked.iter().rfind(|asked| asked.method == pending.method)?.answer.clone()
    }

    fn notifications<'a>(&'a self, after: Moment, method: &'a str) -> impl Iterator<Item = &'a Value> {
        self.transcript[after.0..]
            .iter()
            .filter(move |entry| {
                entry.sent == Sent::ByServer && entry.is_notification() && entry.method() == Some(method)
            })
            .map(|entry| &entry.message["params"])
    }

    fn all_problems(&self) -> Vec<String> {
        let mut problems = self.problems.clone();
        if self.forgive_unanswered {
            return problems;
        }
        let mut unanswered: Vec<String> = self
            .asked
            .iter()
            .flat_map(|(id, asked)| asked.iter().filter(|it| it.answer.is_none()).map(move |it| (id, it)))
            .map(|(id, asked)| format!("the server never answered {} {id}", asked.method))
            .collect();
        unanswered.sort();
        problems.extend(unanswered);
        problems.extend(
            self.open.iter().map(|(id, method)| format!("nobody answered the server's {method} {id}")),
        );
        problems
    }

    #[track_caller]
    fn give_up(&self, what: &str) -> ! {
        let why = if self.closed { "the server closed its stdout" } else { "patience ended" };
        panic!("waited for {what}, but {why}")
    }

    /// Details for a failure.
    fn last_words(&self) -> String {
        let skip = self.transcript.len().saturating_sub(60);
        let said: Vec<String> = self.transcript[skip..].iter().map(Entry::to_string).collect();
        let stderr_from = self.stderr.len().saturating_sub(4000);
        let stderr = self.stderr.get(stderr_from..).unwrap_or(&self.stderr);
        format!("---- said last\n{}\n---- stderr of the server\n{stderr}\n----", said.join("\n"))
    }
}
