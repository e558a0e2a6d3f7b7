//! A fake editor: sends requests, edits, cancels, reads slowly, and knows its owed answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::BytesMut;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt as _, DuplexStream},
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::spawn_local,
    time::{Instant, sleep, sleep_until},
};

use super::{
    ground::{Alive, Ground, Rng},
    server::{apply, hear},
};
use crate::{config::ServerKind, rpc::Codec};

/// The way it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// When everything has come to rest.
    AtLast,
    /// In the middle; then it may still be owed something.
    Abruptly,
}

/// Everything that ends at all ends within this time.
const LONG: Duration = Duration::from_hours(3);

pub(super) struct Editor {
    ground: Ground,
    rng: Rng,
    output: DuplexStream,
    to_write: UnboundedReceiver<Value>,
    last: u64,
    conversations: Vec<String>,
}

impl Editor {
    pub(super) fn new(ground: Ground, mut rng: Rng, ear: DuplexStream, mouth: DuplexStream) -> Editor {
        let (replies, to_write) = mpsc::unbounded_channel();
        let reader = Reader::new(ground.clone(), rng.fork(), ear, replies);
        let alive = Alive { n: 0, ground: ground.clone() };
        spawn_local(async move {
            let _alive = alive;
            reader.run().await;
        });
        Editor { ground, rng, output: mouth, to_write, last: 0, conversations: Vec::new() }
    }

    pub(super) async fn run(mut self) -> End {
        let params = json!({"n": 1, "processId": null, "capabilities": {}});
        self.ask("initialize", params).await;
        if self.rng.chance(70) {
            self.wait_until_answered().await;
        }
        self.notify("initialized", json!({})).await;
        for _ in 0..self.rng.within(20, 150) {
            self.act().await;
            let most = *self.rng.pick(&[0, 20, 20, 200, 2000, 30_000]).expect("there are some");
            let time = self.rng.millis(0, most);
            self.pass(time).await;
        }
        let end = if self.rng.chance(15) { End::Abruptly } else { End::AtLast };
        if end == End::AtLast {
            self.ground.borrow_mut().is_calm = true;
            self.wait_until_answered().await;
            // Idle partitions are stopped, hanging processes are ended.
            self.pass(Duration::from_mins(20)).await;
            self.ground.borrow().check_rest();
        }
        if self.rng.chance(50) {
            let id = self.ask("shutdown", Value::Null).await;
            let deadline = Instant::now() + LONG;
            while self.ground.borrow().open.contains_key(&id) {
                assert!(Instant::now() < deadline, "shutdown is not answered");
                self.pass(Duration::from_millis(10)).await;
            }
            self.notify("exit", Value::Null).await;
        }
        end
    }

    async fn wait_until_answered(&mut self) {
        let deadline = Instant::now() + LONG;
        while !self.ground.borrow().open.is_empty() {
            assert!(Instant::now() < deadline, "never answered: {}", self.ground.borrow().told());
            self.pass(Duration::from_millis(50)).await;
        }
    }

    /// Time passes, in which it only answers.
    async fn pass(&mut self, time: Duration) {
        self.ground.borrow().check();
        let until = Instant::now() + time;
        loop {
            tokio::select! {
                biased;
                Some(reply) = self.to_write.recv() => self.write(&reply).await,
                () = sleep_until(until) => return,
            }
        }
    }

    async fn act(&mut self) {
        let kind = self.ground.borrow().kind;
        let conversations = if kind == ServerKind::Copilot { 30 } else { 0 };
        match self.rng.below(100 + conversations) {
            0..25 => self.ask_about_documents("textDocument/hover").await,
            25..32 => self.ask_about_documents("textDocument/rename").await,
            32..40 => {
                let n = self.last + 1;
                self.ask("x/any", json!({"n": n})).await;
            }
            40..50 => {
                self.last += 1;
                let params = json!({"n": self.last});
                self.notify("x/note", params).await;
            }
            50..60 => self.open().await,
            60..80 => self.change().await,
            80..85 => self.close().await,
            85..92 => {
                let open: Vec<u64> = self.ground.borrow().open.keys().copied().collect();
                if let Some(id) = self.rng.pick(&open) {
                    self.notify("$/cancelRequest", json!({"id": id})).await;
                }
            }
            92..96 => {
                self.ground.borrow_mut().fault("the configuration is read again");
                if self.rng.chance(70) {
                    self.ground.borrow().relaunch();
                }
                self.ask("lspool/reload", json!({})).await;
            }
            96..98 => {
                self.ground.borrow_mut().fault("somebody restarts everything");
                self.ask("lspool/restart", json!({})).await;
            }
            98 if self.rng.chance(30) => {
                self.ground.borrow_mut().fault("somebody stops everything");
                self.ask("lspool/stop", json!({})).await;
            }
            98..100 => {
                // Much at once.
                for _ in 0..30 {
                    self.ask_about_documents("textDocument/hover").await;
                }
            }
            _ => self.converse().await,
        }
    }

    /// A request that an answer is right to only if it knows the documents as they are.
    async fn ask_about_documents(&mut self, method: &str) {
        let sees: BTreeMap<String, u64> =
            self.ground.borrow().documents.iter().map(|(uri, it)| (uri.clone(), it.0)).collect();
        let n = self.last + 1;
        self.ask(method, json!({"n": n, "sees": sees})).await;
    }

    async fn converse(&mut self) {
        let n = self.last + 1;
        let token = format!("token {n}");
        let known = self.rng.pick(&self.conversations).cloned();
        match (self.rng.below(10), known) {
            (0, Some(known)) => {
                self.ask("conversation/destroy", json!({"n": n, "conversationId": known})).await;
            }
            (1..6, Some(known)) => {
                let params =
                    json!({"n": n, "conversationId": known, "workDoneToken": token, "message": "go on"});
                self.ask("conversation/turn", params).await;
            }
            _ => {
                let id = format!("conversation {n}");
                let sets =
                    [json!(null), json!(["list_dir"]), json!(["file_search"]), json!(["list_dir", "a"])];
                let tools = self.rng.pick(&sets).expect("there are some").clone();
                let params = json!({"n": n, "conversationId": id, "workDoneToken": token,
                    "turns": [{"request": "what?"}], "lspool": {"tools": tools}});
                self.conversations.push(id);
                self.ask("conversation/create", params).await;
            }
        }
    }

    fn uri(&mut self) -> String {
        format!("file:///{}", self.rng.below(3))
    }

    async fn open(&mut self) {
        let uri = self.uri();
        if self.ground.borrow().documents.contains_key(&uri) {
            return;
        }
        self.last += 1;
        let text = format!("text {}\n", self.last);
        let item = json!({"uri": uri, "languageId": "x", "version": self.last, "text": text});
        self.edit("textDocument/didOpen", json!({"textDocument": item})).await;
    }

    async fn change(&mut self) {
        let uri = self.uri();
        if !self.ground.borrow().documents.contains_key(&uri) {
            return;
        }
        self.last += 1;
        let start = json!({"line": 0, "character": 0});
        let mut change = json!({"text": format!("{} ", self.last)});
        if self.rng.chance(80) {
            change["range"] = json!({"start": start, "end": start});
        }
        let document = json!({"uri": uri, "version": self.last});
        let params = json!({"textDocument": document, "contentChanges": [change]});
        self.edit("textDocument/didChange", params).await;
    }

    async fn close(&mut self) {
        let uri = self.uri();
        if self.ground.borrow().documents.contains_key(&uri) {
            self.edit("textDocument/didClose", json!({"textDocument": {"uri": uri}})).await;
        }
    }

    async fn edit(&mut self, method: &str, params: Value) {
        apply(&mut self.ground.borrow_mut().documents, method, &params);
        self.notify(method, params).await;
    }

    /// Under another number of its own, which it puts back.
    async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.ground.borrow_mut().open.insert(id, method.to_owned());
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    async fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    async fn write(&mut self, message: &Value) {
        self.ground.borrow_mut().note(&format!("editor > {message}"));
        let body = message.to_string();
        let text = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        // It ends when the stream is closed: nobody reads then.
        self.output.write_all(text.as_bytes()).await.ok();
    }
}

/// Progress of one of its turns.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    has_begun: bool,
    has_ended: bool,
    is_answered: bool,
}

struct Reader {
    ground: Ground,
    rng: Rng,
    input: DuplexStream,
    replies: UnboundedSender<Value>,
    turns: BTreeMap<String, Turn>,
    /// The number of messages of each process, and its requests.
    said: BTreeMap<u64, u64>,
    asked: BTreeSet<(u64, u64)>,
}

impl Reader {
    fn new(ground: Ground, rng: Rng, input: DuplexStream, replies: UnboundedSender<Value>) -> Reader {
        let (turns, said, asked) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Reader { ground, rng, input, replies, turns, said, asked }
    }

    async fn run(mut self) {
        let (mut codec, mut buffer) = (Codec::new(Codec::DEFAULT_MAX), BytesMut::new());
        while let Some(message) = hear(&mut self.input, &mut codec, &mut buffer).await {
            self.ground.borrow_mut().note(&format!("editor < {message}"));
            self.on_message(&message);
            if self.rng.chance(2) && !self.ground.borrow().is_calm {
                self.ground.borrow_mut().fault("the editor does not read");
                sleep(self.rng.millis(1, 20_000)).await;
            }
        }
    }

    fn on_message(&mut self, message: &Value) {
        let params = &message["params"];
        let Some(method) = message["method"].as_str() else { return self.on_answer(message) };
        match method {
            "x/said" => {
                let (process, says) = (params["process"].as_u64(), params["says"].as_u64());
                let (process, says) = (process.expect("a number"), says.expect("a number"));
                let heard = self.said.entry(process).or_default();
                assert_eq!(says, *heard + 1, "of process {process}");
                *heard = says;
                let n = u32::try_from(process).expect("it is small");
                self.ground.borrow_mut().processes.get_mut(&n).expect("it spoke").heard = says;
            }
            "x/ask" => {
                let (process, asks) = (params["process"].as_u64(), params["asks"].as_u64());
                let (process, asks) = (process.expect("a number"), asks.expect("a number"));
                assert!(self.asked.insert((process, asks)), "asked twice: {message}");
                self.reply(message, &json!({"asks": asks}));
            }
            "$/progress" => self.on_progress(params),
            "window/showMessageRequest" => {
                let action = if self.rng.chance(50) { json!({"title": "Restart"}) } else { Value::Null };
                self.reply(message, &action);
            }
            _ if message.get("id").is_some() => self.reply(message, &Value::Null),
            _ => {}
        }
    }

    fn on_answer(&mut self, message: &Value) {
        let id = message["id"].as_u64().unwrap_or_else(|| panic!("whose is it? {message}"));
        let method = self.ground.borrow_mut().open.remove(&id);
        let method = method.unwrap_or_else(|| panic!("nobody waits for {message}"));
        let token = format!("token {id}");
        if matches!(method.as_str(), "conversation/create" | "conversation/turn") {
            let turn = self.turns.entry(token).or_default();
            turn.is_answered = true;
            assert_eq!(turn.has_begun, turn.has_ended, "{message} comes in the middle of {turn:?}");
            assert!(turn.has_begun || message.get("error").is_some(), "{message} without a turn");
        }
        let is_ours = method.starts_with("lspool/") || matches!(method.as_str(), "initialize" | "shutdown");
        // A turn whose process died between its end and its answer is answered by lspool.
        let is_ours = is_ours || message["result"]["conversationId"].is_string();
        if !is_ours && message.get("error").is_none() {
            assert_eq!(message["result"]["n"], id, "{message}");
        }
    }

    fn on_progress(&mut self, params: &Value) {
        let token = params["token"].as_str().expect("a token of its own").to_owned();
        let turn = self.turns.entry(token).or_default();
        let kind = params["value"]["kind"].as_str().expect("a kind");
        assert!(!turn.is_answered, "{params} comes after the answer");
        match kind {
            "begin" => assert!(!std::mem::replace(&mut turn.has_begun, true), "{params} begins twice"),
            "end" => assert!(
                turn.has_begun && !std::mem::replace(&mut turn.has_ended, true),
                "{params} ends twice"
            ),
            _ => assert!(turn.has_begun && !turn.has_ended, "{params} is of no turn"),
        }
    }

    fn reply(&mut self, message: &Value, result: &Value) {
        let id = message["id"].clone();
        let reply = match self.rng.chance(10) {
            true => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no"}}),
            false => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        };
        let (replies, time) = (self.replies.clone(), self.rng.millis(0, 3000));
        spawn_local(async move {
            sleep(time).await;
            replies.send(reply).ok();
        });
    }
}
