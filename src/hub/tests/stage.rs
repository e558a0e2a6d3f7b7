//! Clients and a server beside a hub, played by a test.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    config::ShareViews,
    core::{
        Identity,
        event::{
            BackendId, ClientId, Effect, Effects, Event, Exit, Generation, Launch, Peer, ProcessId, Share,
        },
    },
    hub::Hub,
    rpc::Frame,
};

pub(super) const PROCESS: ProcessId = ProcessId { backend: BackendId(0), generation: Generation(1) };

pub(super) fn launch(views: ShareViews) -> Launch {
    Launch {
        program: "/bin/server".into(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
        max_message: 1 << 20,
        write_stall: Duration::from_mins(1),
        root: None,
        remote: None,
        share: Some(Share {
            server: "stub".to_owned(),
            key: vec![("workspace".to_owned(), "/w".to_owned())],
            idle: Duration::from_mins(1),
            views,
            limit: 4,
            editor: None,
        }),
    }
}

/// A hub, what it has sent, and the time.
pub(super) struct Stage {
    pub(super) hub: Hub,
    pub(super) now: Instant,
    /// What each client has got and no test has looked at.
    pub(super) sent: BTreeMap<ClientId, Vec<Value>>,
    /// What the server has got.
    pub(super) told: Vec<Value>,
    pub(super) hung_up: Vec<ClientId>,
    /// Files that the hub wants to read.
    pub(super) reads: Vec<PathBuf>,
    pub(super) exit: Option<i32>,
    /// Answers `initialize`, `shutdown`, and the end of the process by itself. `null`: never answers `initialize`.
    capabilities: Value,
}

impl Stage {
    pub(super) fn new(views: ShareViews, capabilities: Value) -> Stage {
        Stage::of(launch(views), capabilities)
    }

    pub(super) fn of(launch: Launch, capabilities: Value) -> Stage {
        let identity = Identity { pid: 7, started: 1_000 };
        Stage {
            hub: Hub::new(identity, Arc::new(launch)),
            #[expect(clippy::disallowed_methods, reason = "a moment to begin at")]
            now: Instant::now(),
            sent: BTreeMap::new(),
            told: Vec::new(),
            hung_up: Vec::new(),
            reads: Vec::new(),
            exit: None,
            capabilities,
        }
    }

    pub(super) fn event(&mut self, event: Event) {
        if self.exit.is_some() {
            return;
        }
        let mut out = Effects::new();
        self.hub.handle(self.now, event, &mut out);
        self.carry_out(out);
    }

    fn carry_out(&mut self, out: Effects) {
        self.hub.check().expect("the tables agree");
        for effect in out {
            match effect {
                Effect::Send(Peer::Client(client), frame) => {
                    let value = serde_json::from_slice(&frame.to_bytes()[header(&frame)..]).unwrap();
                    self.sent.entry(client).or_default().push(value);
                }
                Effect::Send(Peer::Backend(_), frame) => {
                    let value: Value = serde_json::from_slice(&frame.to_bytes()[header(&frame)..]).unwrap();
                    match value["method"].as_str() {
                        Some("initialize") if self.capabilities.is_null() => {}
                        Some("initialize") => {
                            let capabilities = self.capabilities.clone();
                            self.server(
                                &json!({"id": value["id"], "result": {"capabilities": capabilities}}),
                            );
                        }
                        Some("shutdown") => self.server(&json!({"id": value["id"], "result": null})),
                        Some(_) | None => self.told.push(value),
                    }
                }
                Effect::Spawn(process, _) => self.event(Event::Spawned { process, pid: 100 }),
                Effect::Terminate(process) => {
                    self.event(Event::Exited { process, exit: Exit::Code(0), stderr: String::new() });
                }
                Effect::HangUp(client) => {
                    self.hung_up.push(client);
                    self.event(Event::Closed { peer: Peer::Client(client), error: None });
                }
                Effect::ReadFile(path) => self.reads.push(path),
                Effect::Exit(code) => self.exit = Some(code),
                Effect::Measure(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    pub(super) fn client(&mut self, client: u32, message: &Value) {
        let frame = frame(message);
        self.event(Event::Received(Peer::Client(ClientId(client)), frame));
    }

    pub(super) fn server(&mut self, message: &Value) {
        let frame = frame(message);
        self.event(Event::Received(Peer::Backend(PROCESS), frame));
    }

    /// Time passes, and deadlines with it.
    pub(super) fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        for _ in 0..1000 {
            let next = self.hub.poll_timeout().filter(|it| it.0 <= until && self.exit.is_none());
            let Some((at, _)) = next else { break };
            self.now = self.now.max(at);
            let mut out = Effects::new();
            self.hub.handle_timeout(self.now, &mut out);
            self.carry_out(out);
        }
        let next = self.hub.poll_timeout().filter(|it| it.0 <= until && self.exit.is_none());
        assert!(next.is_none(), "a timeout at which nothing is done: {next:?}");
        self.now = until;
    }

    /// A client attaches and initializes.
    pub(super) fn join(&mut self, client: u32) {
        let key = json!([["workspace", "/w"]]);
        self.client(
            client,
            &json!({"id": 0, "method": "lspool/attach", "params": {"protocol": 1, "key": key}}),
        );
        let initialize =
            json!({"processId": 1, "capabilities": {"general": {"positionEncodings": ["utf-8"]}}});
        self.client(client, &json!({"id": 1, "method": "initialize", "params": initialize}));
        self.client(client, &json!({"method": "initialized", "params": {}}));
    }

    pub(super) fn leave(&mut self, client: u32) {
        self.event(Event::Closed { peer: Peer::Client(ClientId(client)), error: None });
    }

    /// What a client has got since the last look.
    pub(super) fn got(&mut self, client: u32) -> Vec<Value> {
        self.sent.remove(&ClientId(client)).unwrap_or_default()
    }

    /// What the server has got since the last look.
    pub(super) fn take_told(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.told)
    }
}

fn header(frame: &Frame) -> usize {
    frame.to_bytes().windows(4).position(|it| it == b"\r\n\r\n").map_or(0, |it| it + 4)
}

fn frame(message: &Value) -> Frame {
    let mut message = message.clone();
    message["jsonrpc"] = json!("2.0");
    Frame::parse(Bytes::from(message.to_string())).unwrap()
}

pub(super) fn open(uri: &str, version: i64, text: &str) -> Value {
    let document = json!({"uri": uri, "languageId": "x", "version": version, "text": text});
    json!({"method": "textDocument/didOpen", "params": {"textDocument": document}})
}

pub(super) fn change(uri: &str, version: i64, text: &str) -> Value {
    let document = json!({"uri": uri, "version": version});
    let params = json!({"textDocument": document, "contentChanges": [{"text": text}]});
    json!({"method": "textDocument/didChange", "params": params})
}

pub(super) fn about(method: &str, uri: &str) -> Value {
    json!({"method": method, "params": {"textDocument": {"uri": uri}}})
}

pub(super) fn hover(id: u32, uri: &str) -> Value {
    let params = json!({"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}});
    json!({"id": id, "method": "textDocument/hover", "params": params})
}
