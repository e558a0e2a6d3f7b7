//! Puppet servers: processes that a test controls.
//!
//! The process itself is `tests/puppet.rs`. A [`PuppetHost`] gives the command that starts one, and a [`Puppet`] for
//! each started one. A puppet does nothing by itself: it answers nothing, and does not even end with its stdin. Its
//! input is read strictly; its output may be any bytes.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{BufRead as _, BufReader, ErrorKind, Write as _},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        mpsc::{self, Receiver, Sender},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::editor::{
    PATIENCE,
    frames::{self, Frames, Read},
};

/// The variable with the address of the host.
const VARIABLE: &str = "LSPOOL_PUPPET";

/// The address for puppets.
pub struct PuppetHost {
    listener: TcpListener,
    /// The connections that end with their processes, by port.
    lives: Mutex<BTreeMap<u64, TcpStream>>,
}

impl PuppetHost {
    /// A host without puppets.
    pub fn new() -> PuppetHost {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        listener.set_nonblocking(true).expect("a socket can be asked without waiting");
        PuppetHost { listener, lives: Mutex::default() }
    }

    /// Makes the puppets of this command connect here.
    pub fn tie(&self, command: &mut Command) {
        command.env(VARIABLE, self.address());
    }

    /// Where puppets connect.
    pub fn address(&self) -> String {
        self.listener.local_addr().expect("it listens").to_string()
    }

    /// Waits for the next puppet that is started.
    #[track_caller]
    pub fn accept(&self) -> Puppet {
        let start = Instant::now();
        loop {
            if let Some(puppet) = self.try_accept() {
                return puppet;
            }
            assert!(start.elapsed() < PATIENCE, "no puppet was started");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The next puppet that has been started, if there is one.
    pub fn try_accept(&self) -> Option<Puppet> {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (stream, peer) = self.listener.accept().ok()?;
            stream.set_nonblocking(false).expect("a socket can be waited for");
            stream.set_nodelay(true).expect("a socket");
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            // A process that is killed in this moment says nothing.
            if stream.read_line(&mut line).unwrap_or_default() == 0 {
                continue;
            }
            if line.trim_end() == "life" {
                lives.insert(peer.port().into(), stream.into_inner());
                continue;
            }
            let hello: Value = serde_json::from_str(&line).expect("a puppet says who it is");
            let life = hello["life"].as_u64().and_then(|it| lives.remove(&it));
            return Some(Puppet::new(stream, &hello, life.expect("a puppet says first that it lives")));
        }
    }
}

impl Default for PuppetHost {
    fn default() -> Self {
        PuppetHost::new()
    }
}

/// One process on strings. It ends when the last copy of this is dropped.
#[derive(Clone)]
pub struct Puppet {
    shared: Arc<Shared>,
    orders: Arc<Sender<Order>>,
    /// Its process id.
    pub pid: u32,
    /// Its arguments.
    pub args: Vec<String>,
    life: Arc<TcpStream>,
}

enum Order {
    Do(u8, Vec<u8>),
    Pause(Duration),
}

/// Answers requests of one method, and hears notifications of it. It must not touch its puppet.
type Handler = Box<dyn FnMut(&Value) -> Result<Value, Value> + Send>;

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    received: Vec<Value>,
    /// The messages that no handler and no test has taken, oldest first.
    unclaimed: VecDeque<Value>,
    handlers: BTreeMap<String, Handler>,
    stray: Option<String>,
    closed: bool,
    held: bool,
}

impl Puppet {
    fn new(stream: BufReader<TcpStream>, hello: &Value, life: TcpStream) -> Puppet {
        let (orders, queue) = mpsc::channel();
        let writing = stream.get_ref().try_clone().expect("a socket can be shared");
        std::thread::spawn(move || carry_out(writing, &queue));
        life.set_nonblocking(true).expect("a socket can be asked without waiting");
        let args = hello["args"].as_array().into_iter().flatten();
        let args = args.filter_map(|it| Some(it.as_str()?.to_owned())).collect();
        let pid = hello["pid"].as_u64().and_then(|it| u32::try_from(it).ok()).expect("a process has an id");
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let orders = Arc::new(orders);
        let (reader, answers) = (Arc::clone(&shared), Arc::downgrade(&orders));
        std::thread::spawn(move || reader.read(stream, &answers));
        Puppet { shared, orders, pid, args, life: Arc::new(life) }
    }

    // ---- its input

    /// Waits for an untaken request or notification of this method, and takes it.
    #[track_caller]
    pub fn expect(&self, method: &str) -> Value {
        self.expect_where(method, |_| true)
    }

    /// The same, for such parameters.
    #[track_caller]
    pub fn expect_where(&self, method: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.take(method, |it| it["method"] == method && wanted(&it["params"]))
    }

    /// Waits for the answer to the request that it made under this id.
    #[track_caller]
    pub fn expect_answer(&self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.take(&format!("the answer to {id}"), |it| it.get("method").is_none() && it["id"] == id)
    }

    #[track_caller]
    fn take(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait(what, |state| {
            let at = state.unclaimed.iter().position(&wanted)?;
            state.unclaimed.remove(at)
        })
    }

    /// All that it has heard, in order.
    pub fn received(&self) -> Vec<Value> {
        self.state().received.clone()
    }

    /// The messages of one method that it has got.
    pub fn received_of(&self, method: &str) -> Vec<Value> {
        self.received().into_iter().filter(|it| it["method"] == method).collect()
    }

    /// Waits until it has heard such messages.
    #[track_caller]
    pub fn wait_received(&self, what: &str, wanted: impl Fn(&[Value]) -> bool) {
        self.wait(what, |state| wanted(&state.received).then_some(()));
    }

    /// Waits for the end of its stdin, or its own.
    #[track_caller]
    pub fn wait_closed(&self) {
        self.wait("the end of a puppet's stdin", |state| state.closed.then_some(()));
    }

    /// Whether its process is there.
    pub fn is_alive(&self) -> bool {
        // It writes nothing, so there is something to read only at its end.
        matches!(self.life.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Waits for the end of its process.
    #[track_caller]
    pub fn wait_gone(&self) {
        let start = Instant::now();
        while self.is_alive() {
            assert!(start.elapsed() < PATIENCE, "the puppet {} lives on", self.pid);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops reading its stdin, or continues. Some hundred KiB may still be read.
    pub fn set_reading(&self, reading: bool) {
        self.state().held = !reading;
        self.shared.changed.notify_all();
    }

    // ---- its output

    /// Says a message.
    pub fn say(&self, message: &Value) {
        self.write(frames::frame(message));
    }

    /// Answers a request.
    pub fn answer(&self, request: &Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Answers a request with an error.
    pub fn fail(&self, request: &Value, error: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    }

    /// Makes a request.
    pub fn ask(&self, id: impl Into<Value>, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}));
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers all requests of a method from now on, those included that wait already.
    pub fn on(&self, method: &str, mut handler: impl FnMut(&Value) -> Result<Value, Value> + Send + 'static) {
        let mut state = self.state();
        let (waiting, rest): (Vec<Value>, _) =
            state.unclaimed.drain(..).partition(|it| it["method"] == method);
        state.unclaimed = rest.into();
        for message in waiting {
            reply(&message, handler(&message["params"]), &self.orders);
        }
        state.handlers.insert(method.to_owned(), Box::new(handler));
    }

    /// Writes bytes to stdout.
    pub fn write(&self, bytes: impl Into<Vec<u8>>) {
        self.order(Order::Do(b'o', bytes.into()));
    }

    /// Writes bytes to stdout, so many at a time, with a pause after each piece.
    pub fn write_in_pieces(&self, bytes: &[u8], length: usize, pause: Duration) {
        for piece in bytes.chunks(length) {
            self.write(piece);
            self.order(Order::Pause(pause));
        }
    }

    /// Writes bytes to stderr.
    pub fn mutter(&self, bytes: impl Into<Vec<u8>>) {
        self.order(Order::Do(b'e', bytes.into()));
    }

    /// Closes its stdout.
    pub fn close_stdout(&self) {
        self.order(Order::Do(b'c', Vec::new()));
    }

    /// Exits, once it has said everything.
    pub fn exit(&self, code: u8) {
        self.order(Order::Do(b'x', vec![code]));
    }

    /// Ends without the end of anything, like a process that is killed.
    pub fn abort(&self) {
        self.order(Order::Do(b'k', Vec::new()));
    }

    fn order(&self, order: Order) {
        // It may be gone; the test will see.
        drop(self.orders.send(order));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, mut found: impl FnMut(&mut State) -> Option<T>) -> T {
        let start = Instant::now();
        let mut state = self.state();
        loop {
            if let Some(found) = found(&mut state) {
                return found;
            }
            if let Some(stray) = &state.stray {
                panic!("waited for {what}, but the puppet heard no frame: {stray:?}");
            }
            if state.closed || start.elapsed() > PATIENCE {
                let why = if state.closed { "its stdin is closed" } else { "patience ended" };
                let last: Vec<String> = state.unclaimed.iter().rev().take(20).map(Value::to_string).collect();
                panic!("a puppet waited for {what}, but {why}; not taken yet: {}", last.join("\n"));
            }
            (state, _) = self
                .shared
                .changed
                .wait_timeout(state, Duration::from_millis(200))
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn carry_out(mut stream: TcpStream, queue: &Receiver<Order>) {
    for order in queue {
        let done = match order {
            Order::Do(what, bytes) => {
                let length = u32::try_from(bytes.len()).expect("a test says less than 4 GiB at once");
                let head = [&[what], &length.to_be_bytes()[..]].concat();
                stream.write_all(&head).and_then(|()| stream.write_all(&bytes))
            }
            Order::Pause(pause) => {
                std::thread::sleep(pause);
                Ok(())
            }
        };
        if done.is_err() {
            return;
        }
    }
    // The test has ended: the puppet ends, and so does its input.
    stream.shutdown(Shutdown::Both).ok();
}

fn reply(message: &Value, answer: Result<Value, Value>, orders: &Sender<Order>) {
    let Some(id) = message.get("id") else { return };
    let answer = match answer {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    };
    drop(orders.send(Order::Do(b'o', frames::frame(&answer))));
}

impl Shared {
    fn read(&self, stream: BufReader<TcpStream>, answers: &Weak<Sender<Order>>) {
        let mut frames = Frames::new(stream);
        loop {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.changed.wait_while(state, |it| it.held).unwrap_or_else(PoisonError::into_inner));
            let next = frames.next();
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match next {
                Read::Frame { message, .. } => {
                    state.received.push(message.clone());
                    let method = message["method"].as_str().unwrap_or_default();
                    match (state.handlers.get_mut(method), answers.upgrade()) {
                        (Some(handler), Some(orders)) => {
                            reply(&message, handler(&message["params"]), &orders);
                        }
                        (Some(_) | None, _) => state.unclaimed.push_back(message),
                    }
                }
                Read::Stray(bytes) => state.stray = Some(String::from_utf8_lossy(&bytes).into_owned()),
                Read::End => state.closed = true,
            }
            let ended = state.closed;
            drop(state);
            self.changed.notify_all();
            if ended {
                return;
            }
        }
    }
}
