//! A fake server: does its work, and at some moment something goes wrong.

use std::{collections::BTreeSet, pin::Pin};

use bytes::BytesMut;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    time::{Duration, Instant, sleep, sleep_until},
};
use tokio_util::codec::Decoder as _;

use super::ground::{Documents, Ground, Rng};
use crate::{
    core::event::Exit,
    rpc::{Codec, Incoming},
};

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// It dies with so many bytes written, wherever that is.
    CutOff(usize),
    /// It dies then.
    Death(Instant),
    /// From then on it neither reads nor writes.
    Hang(Instant),
    /// For a while it neither reads nor writes.
    Stall(Instant, Duration),
    /// It closes its stdout then, and lives on.
    Mute(Instant),
    /// It refuses to initialize.
    Refusal,
}

pub(super) struct Server {
    n: u32,
    ground: Ground,
    rng: Rng,
    input: DuplexStream,
    output: Option<DuplexStream>,
    codec: Codec,
    buffer: BytesMut,
    written: usize,
    fault: Fault,
    documents: Documents,
    /// Requests that are not answered.
    owed: Vec<Value>,
    answered: Vec<Value>,
    told: u64,
    last_asked: u64,
    /// The latest of the editor's messages of this kind.
    last_heard: u64,
    tools: BTreeSet<String>,
    exits: bool,
}

/// Why it goes no further.
type Ended<T> = Result<T, Exit>;

const KILLED: Exit = Exit::Signal(9);

impl Server {
    pub(super) fn new(
        n: u32,
        ground: Ground,
        mut rng: Rng,
        input: DuplexStream,
        output: DuplexStream,
    ) -> Server {
        let is_calm = ground.borrow().is_calm;
        let in_time = |rng: &mut Rng| {
            let most = if rng.chance(30) { 20 } else { 20_000 };
            Instant::now() + rng.millis(0, most)
        };
        let fault = match rng.below(if is_calm { 1 } else { 14 }) {
            0..=2 => Fault::None,
            3..=6 => Fault::CutOff(usize::try_from(rng.below(8000)).expect("it is small")),
            7..=8 => Fault::Death(in_time(&mut rng)),
            9 => Fault::Hang(in_time(&mut rng)),
            10..=11 => Fault::Stall(in_time(&mut rng), rng.millis(1, 150_000)),
            12 => Fault::Mute(in_time(&mut rng)),
            _ if rng.chance(20) => Fault::Refusal,
            _ => Fault::None,
        };
        Server {
            n,
            ground,
            rng,
            input,
            output: Some(output),
            codec: Codec::new(Codec::DEFAULT_MAX),
            buffer: BytesMut::new(),
            written: 0,
            fault,
            documents: Documents::new(),
            owed: Vec::new(),
            answered: Vec::new(),
            told: 0,
            last_asked: 0,
            last_heard: 0,
            tools: ["list_dir", "file_search"].map(|it| format!("copilot.{it}")).into(),
            exits: false,
        }
    }

    pub(super) async fn run(mut self) -> Exit {
        match self.serve().await {
            Ok(()) => Exit::Code(0),
            Err(exit) => exit,
        }
    }

    async fn serve(&mut self) -> Ended<()> {
        let ground = self.ground.clone();
        let mut act = Instant::now() + self.rng.millis(0, 50);
        loop {
            let trouble = match self.fault {
                Fault::Death(at) | Fault::Hang(at) | Fault::Stall(at, _) | Fault::Mute(at) => Some(at),
                Fault::None | Fault::CutOff(_) | Fault::Refusal => None,
            };
            let trouble: Pin<Box<dyn Future<Output = ()>>> = match trouble {
                Some(at) => Box::pin(sleep_until(at)),
                None => Box::pin(std::future::pending()),
            };
            let is_calm = self.ground.borrow().is_calm;
            tokio::select! {
                biased;
                // A faulty server is ended by then; the others continue without a fault.
                () = until_calm(&ground), if !is_calm => {
                    if self.output.is_none() {
                        return Err(KILLED);
                    }
                    self.fault = Fault::None;
                }
                () = trouble => self.trouble().await?,
                message = hear(&mut self.input, &mut self.codec, &mut self.buffer) => match message {
                    Some(message) => self.on_message(message).await?,
                    None => return Ok(()),
                },
                () = sleep_until(act) => {
                    act = Instant::now() + self.rng.millis(1, 200);
                    self.act().await?;
                }
            }
            if self.exits {
                return Ok(());
            }
        }
    }

    async fn trouble(&mut self) -> Ended<()> {
        let fault = std::mem::replace(&mut self.fault, Fault::None);
        let what = match fault {
            Fault::None | Fault::CutOff(_) | Fault::Refusal => "nothing",
            Fault::Death(_) => "dies",
            Fault::Hang(_) => "hangs",
            Fault::Stall(..) => "stalls",
            Fault::Mute(_) => "closes its stdout",
        };
        self.ground.borrow_mut().fault(&format!("process {}: {what}", self.n));
        match fault {
            Fault::Death(_) => return Err(KILLED),
            Fault::Hang(_) => {
                until_calm(&self.ground).await;
                return Err(KILLED);
            }
            Fault::Stall(_, time) => {
                // A server that still stalls when all others are well counts as hanging.
                tokio::select! {
                    biased;
                    () = until_calm(&self.ground) => return Err(KILLED),
                    () = sleep(time) => {}
                }
            }
            Fault::Mute(_) => self.output = None,
            Fault::None | Fault::CutOff(_) | Fault::Refusal => {}
        }
        Ok(())
    }

    /// Sends a notification or a request, or an answer.
    async fn act(&mut self) -> Ended<()> {
        let is_calm = self.ground.borrow().is_calm;
        let is_open = self.ground.borrow().processes[&self.n].is_open;
        let odd = !is_calm && is_open && self.rng.chance(6);
        if odd {
            return self.be_odd().await;
        }
        if !is_calm && is_open && self.rng.chance(20) {
            return self.speak().await;
        }
        // Sometimes the last one first.
        while !self.owed.is_empty() && (is_calm || self.rng.chance(60)) {
            let at = if self.rng.chance(80) { 0 } else { self.owed.len() - 1 };
            let request = self.owed.remove(at);
            self.answer(&request).await?;
            self.answered.push(request);
        }
        Ok(())
    }

    async fn be_odd(&mut self) -> Ended<()> {
        let what = self.rng.below(5);
        self.ground.borrow_mut().fault(&format!("process {}: odd {what}", self.n));
        match what {
            0 | 1 => {
                let Some(request) = self.rng.pick(&self.answered).cloned() else { return Ok(()) };
                let result = json!({"n": request["params"]["n"], "again": true});
                self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await
            }
            2 => {
                let id = 100_000 + self.rng.below(9);
                self.say(&json!({"jsonrpc": "2.0", "id": id, "result": 1})).await
            }
            3 => self.write(b"warning: what is said here is no message\r\n").await,
            _ => self.write(b"Content-Length: 9\r\n\r\n{\"ix\": 7,").await,
        }
    }

    async fn speak(&mut self) -> Ended<()> {
        if self.rng.chance(50) {
            self.last_asked += 1;
            let id = self.last_asked;
            self.ground.borrow_mut().processes.get_mut(&self.n).expect("it lives").asked.insert(id);
            let params = json!({"process": self.n, "asks": id});
            return self.say(&json!({"jsonrpc": "2.0", "id": id, "method": "x/ask", "params": params})).await;
        }
        let params = json!({"process": self.n, "says": self.told + 1, "more": "x".repeat(300)});
        self.say(&json!({"jsonrpc": "2.0", "method": "x/said", "params": params})).await?;
        self.told += 1;
        self.ground.borrow_mut().processes.get_mut(&self.n).expect("it lives").told = self.told;
        Ok(())
    }

    async fn on_message(&mut self, message: Value) -> Ended<()> {
        self.ground.borrow_mut().note(&format!("process {} < {message}", self.n));
        let params = &message["params"];
        let Some(method) = message["method"].as_str() else {
            let asks = message["id"].as_u64().expect("an id of its own");
            let mut ground = self.ground.borrow_mut();
            let known = ground.processes.get_mut(&self.n).expect("it lives");
            assert!(
                known.asked.remove(&asks),
                "process {} is answered {message}, which it does not wait for",
                self.n
            );
            let echo = &message["result"]["asks"];
            assert!(message.get("error").is_some() || *echo == asks, "{message}");
            return Ok(());
        };
        match method {
            "exit" => self.exits = true,
            "textDocument/didOpen" | "textDocument/didChange" | "textDocument/didClose" => {
                apply(&mut self.documents, method, params);
                let mut ground = self.ground.borrow_mut();
                ground.processes.get_mut(&self.n).expect("it lives").documents.clone_from(&self.documents);
            }
            "textDocument/hover" | "textDocument/rename" | "x/note" => self.check_order(params),
            _ => {}
        }
        if message.get("id").is_none() {
            return Ok(());
        }
        let waits = matches!(
            method,
            "textDocument/hover"
                | "textDocument/rename"
                | "conversation/create"
                | "conversation/turn"
                | "x/any"
        );
        if waits {
            self.owed.push(message);
            return Ok(());
        }
        if method == "initialize" && self.rng.chance(10) && !self.ground.borrow().is_calm {
            self.ground.borrow_mut().fault(&format!("process {}: slow to start", self.n));
            sleep(self.rng.millis(1, 10_000)).await;
        }
        self.answer(&message).await?;
        if method == "initialize" {
            self.ground.borrow_mut().processes.get_mut(&self.n).expect("it lives").is_open = true;
        }
        Ok(())
    }

    /// The editor's messages come in order, and after the edits before them.
    fn check_order(&mut self, params: &Value) {
        let n = params["n"].as_u64().expect("a number");
        assert!(n > self.last_heard, "{n} comes after {} at process {}", self.last_heard, self.n);
        self.last_heard = n;
        for (uri, version) in params["sees"].as_object().into_iter().flatten() {
            let version = version.as_u64().expect("a version");
            let ground = self.ground.borrow();
            let is_there = self.documents.get(uri).is_some_and(|it| it.0 >= version);
            let was_closed = ground.documents.get(uri).is_none_or(|it| it.0 > version);
            assert!(is_there || was_closed, "process {} does not see version {version} of {uri}", self.n);
        }
    }

    async fn answer(&mut self, request: &Value) -> Ended<()> {
        let (id, params) = (&request["id"], &request["params"]);
        let method = request["method"].as_str().expect("a request has a method");
        let n = &params["n"];
        let result = match method {
            "initialize" if self.fault == Fault::Refusal => {
                self.ground.borrow_mut().fault(&format!("process {}: refuses", self.n));
                let error = json!({"code": -32603, "message": "not today"});
                return self.say(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
            }
            "initialize" => json!({"capabilities": {}, "n": n}),
            "shutdown" => Value::Null,
            "conversation/registerTools"
            | "conversation/unregisterTools"
            | "conversation/updateToolsStatus" => self.offer(method, params),
            "conversation/create" if params["restoreToTurnId"] == 0 => {
                let error = json!({"code": -32602, "message": "- /restoreToTurnId: Expected string"});
                return self.say(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
            }
            "conversation/create" | "conversation/turn" => {
                let turn = self.converse(params).await?;
                json!({"n": n, "turnId": turn})
            }
            "$/lspool/ping" => {
                let error = json!({"code": -32601, "message": "what?"});
                return self.say(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
            }
            _ => json!({"n": n}),
        };
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await
    }

    fn offer(&mut self, method: &str, params: &Value) -> Value {
        let names = |key: &str| params[key].as_array().cloned().unwrap_or_default();
        if method == "conversation/registerTools" {
            let ids = names("tools");
            let ids = ids.iter().map(|it| format!("copilot-editor.{}", it["name"].as_str().expect("a name")));
            self.tools.extend(ids);
        }
        for id in names("toolIds") {
            self.tools.remove(id.as_str().expect("an id"));
        }
        let tool = |id: &String| json!({"id": id, "name": id.split_once('.').expect("a dot").1});
        self.tools.iter().map(tool).collect()
    }

    /// A turn, from its beginning to its end; gives its id.
    async fn converse(&mut self, params: &Value) -> Ended<Value> {
        let turns = params["turns"].as_array();
        let asked = turns.and_then(|it| it.last()).map_or(&params["turnId"], |it| &it["turnId"]);
        let turn =
            if asked.is_null() { json!(format!("turn {}", self.rng.below(1 << 40))) } else { asked.clone() };
        for kind in ["begin", "report", "end"] {
            let mut value = json!({"kind": kind, "conversationId": params["conversationId"], "turnId": turn});
            if kind == "report" {
                value["editAgentRounds"] = json!([{"roundId": 1, "reply": "words"}]);
            }
            let params = json!({"token": params["workDoneToken"], "value": value});
            self.say(&json!({"jsonrpc": "2.0", "method": "$/progress", "params": params})).await?;
            if self.rng.chance(30) {
                sleep(self.rng.millis(1, 300)).await;
            }
        }
        Ok(turn)
    }

    async fn say(&mut self, message: &Value) -> Ended<()> {
        let body = message.to_string();
        self.write(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await
    }

    async fn write(&mut self, mut bytes: &[u8]) -> Ended<()> {
        while !bytes.is_empty() {
            let most = if self.rng.chance(50) {
                bytes.len()
            } else {
                usize::try_from(self.rng.within(1, 40)).expect("it is small")
            };
            let (now, later) = bytes.split_at(most.min(bytes.len()));
            if let Fault::CutOff(at) = self.fault
                && self.written + now.len() >= at
            {
                let last = &now[..at.saturating_sub(self.written)];
                self.ground.borrow_mut().fault(&format!("process {}: cut off at {at}", self.n));
                if let Some(output) = &mut self.output {
                    output.write_all(last).await.ok();
                }
                return Err(KILLED);
            }
            let Some(output) = &mut self.output else { return Ok(()) };
            if output.write_all(now).await.is_err() {
                return Err(Exit::Code(1));
            }
            self.written += now.len();
            bytes = later;
            if self.rng.chance(5) {
                sleep(self.rng.millis(1, 20)).await;
            }
        }
        Ok(())
    }
}

/// Looked at from time to time: who waits for a thing together with others is woken by chance.
async fn until_calm(ground: &Ground) {
    while !ground.borrow().is_calm {
        sleep(Duration::from_millis(50)).await;
    }
}

/// The next message; `None` at the end of the stream, wherever that is.
pub(super) async fn hear(
    input: &mut DuplexStream,
    codec: &mut Codec,
    buffer: &mut BytesMut,
) -> Option<Value> {
    loop {
        if let Some(incoming) = codec.decode(buffer).expect("lspool frames its messages") {
            let Incoming::Body(body) = incoming else { panic!("junk: {incoming:?}") };
            return Some(serde_json::from_slice(&body).expect("lspool speaks JSON"));
        }
        if !matches!(input.read_buf(buffer).await, Ok(1..)) {
            return None;
        }
    }
}

/// Follows the documents that an editor has open.
pub(super) fn apply(documents: &mut Documents, method: &str, params: &Value) {
    let document = &params["textDocument"];
    let uri = document["uri"].as_str().expect("a URI").to_owned();
    let version = || document["version"].as_u64().expect("a version");
    match method {
        "textDocument/didOpen" => {
            let text = document["text"].as_str().expect("a text").to_owned();
            assert!(documents.insert(uri, (version(), text)).is_none(), "opened twice: {params}");
        }
        "textDocument/didChange" => {
            let before = documents.get_mut(&uri).unwrap_or_else(|| panic!("not open: {params}"));
            assert!(version() > before.0, "changed twice: {params}");
            before.0 = version();
            for change in params["contentChanges"].as_array().expect("changes") {
                let text = change["text"].as_str().expect("a text");
                before.1 = match change.get("range") {
                    Some(_) => format!("{text}{}", before.1),
                    None => text.to_owned(),
                };
            }
        }
        _ => assert!(documents.remove(&uri).is_some(), "not open: {params}"),
    }
}
