//! A stand-in for the Copilot server, for `scripts/demo` where npm is missing. It has no model and no network: a
//! turn calls the tool that the message names in brackets, says what came of it, and is over.
//!
//! It speaks as much of the protocol as that takes, and is worse than the real server in one point, on purpose: it
//! calls a tool whether it knows it or not.

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
};

use serde_json::{Value, json};

use support::editor::frames::{Frames, Read, frame};

/// The tools that it has of its own.
const OWN_TOOLS: [&str; 2] = ["list_dir", "grep_search"];

#[derive(Default)]
struct Server {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// All tools that it knows, by name, with their ids.
    tools: BTreeMap<String, String>,
    /// How many questions it has asked.
    asked: u64,
    /// Who waits for the answer to which.
    waiting: BTreeMap<u64, mpsc::Sender<Value>>,
    /// Requests that were cancelled.
    cancelled: BTreeSet<String>,
    turns: u64,
}

fn main() {
    let server = Arc::new(Server::default());
    server.state().tools = OWN_TOOLS.map(|name| (name.to_owned(), format!("copilot.{name}"))).into();
    let mut frames = Frames::new(io::stdin());
    while let Read::Frame { message, .. } = frames.next() {
        match message["method"].as_str() {
            Some("exit") => return,
            Some("$/cancelRequest") => {
                server.state().cancelled.insert(message["params"]["id"].to_string());
            }
            Some("conversation/create" | "conversation/turn") => {
                let server = Arc::clone(&server);
                std::thread::spawn(move || server.converse(&message["id"], &message["params"]));
            }
            Some(method) if !message["id"].is_null() => {
                let answer = server.answer(method, &message["params"]);
                say(&with(json!({"jsonrpc": "2.0", "id": message["id"]}), answer));
            }
            Some(_) => {}
            None => server.answered(message),
        }
    }
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, method: &str, params: &Value) -> Value {
        match method {
            "initialize" => json!({"result": {
                "capabilities": {}, "serverInfo": {"name": "scripted-server", "version": env!("CARGO_PKG_VERSION")},
            }}),
            "checkStatus" => json!({"result": {"status": "OK", "user": "nobody"}}),
            "conversation/registerTools" => {
                let names = params["tools"].as_array().into_iter().flatten();
                let names = names.filter_map(|it| Some(it["name"].as_str()?.to_owned()));
                self.state().tools.extend(names.map(|name| (name.clone(), format!("copilot-editor.{name}"))));
                self.tools()
            }
            "conversation/unregisterTools" => {
                let ids = params["toolIds"].as_array().cloned().unwrap_or_default();
                self.state().tools.retain(|_, id| !ids.contains(&Value::from(id.as_str())));
                self.tools()
            }
            "conversation/updateToolsStatus" => self.tools(),
            "conversation/destroy" => json!({"result": "OK"}),
            "shutdown" => json!({"result": null}),
            _ => {
                json!({"error": {"code": -32601, "message": format!("the scripted server has no {method}")}})
            }
        }
    }

    fn tools(&self) -> Value {
        let tools: Vec<Value> =
            self.state().tools.iter().map(|(name, id)| json!({"id": id, "name": name})).collect();
        json!({"result": tools})
    }

    /// A turn, from its first word to its last.
    fn converse(&self, request: &Value, params: &Value) {
        let (turn, tools) = {
            let mut state = self.state();
            state.turns += 1;
            (format!("{}-{}", std::process::id(), state.turns), state.tools.keys().cloned().collect())
        };
        let tools: Vec<String> = tools;
        let turns = params["turns"].as_array();
        let message = turns.and_then(|it| it.last()).map_or(&params["message"], |it| &it["request"]);
        let message = message.as_str().unwrap_or_default();
        let ids = json!({"conversationId": params["conversationId"], "turnId": turn});
        let report = |value: Value| {
            let value = with(value, ids.clone());
            let params = json!({"token": params["workDoneToken"], "value": value});
            say(&json!({"jsonrpc": "2.0", "method": "$/progress", "params": params}));
        };
        let round = |round: u8, rest: Value| {
            report(
                json!({"kind": "report", "editAgentRounds": [with(json!({"roundId": round, "reply": ""}), rest)]}),
            );
        };

        report(json!({"kind": "begin", "title": "scripted"}));
        // What a model would be offered; only this server says such a thing.
        report(json!({"kind": "report", "scripted": {"pid": std::process::id(), "tools": tools}}));
        let mut end = json!({"kind": "end"});
        match tool(message) {
            None => round(1, json!({"reply": format!("Echo: {message}")})),
            Some((name, input)) => {
                let call = json!({"id": turn, "name": name});
                let calls = |status| json!({"toolCalls": [with(call.clone(), json!({"status": status}))]});
                round(1, calls("running"));
                let asked = json!({"name": name, "input": input, "roundId": 1, "toolCallId": turn});
                let answer = self.ask("conversation/invokeClientTool", &with(asked, ids.clone()));
                let status = answer["result"][0]["status"].as_str().unwrap_or("error");
                round(1, calls(if status == "success" { "completed" } else { status }));
                let text = answer["result"][0]["content"][0]["value"].as_str().unwrap_or_default();
                round(2, json!({"reply": text}));
            }
        }
        if self.state().cancelled.remove(&request.to_string()) {
            end["cancellationReason"] = "CancelledByUser".into();
        }
        report(end);
        let result = with(json!({"modelName": "none: scripted"}), ids.clone());
        say(&json!({"jsonrpc": "2.0", "id": request, "result": result}));
    }

    fn ask(&self, method: &str, params: &Value) -> Value {
        let (answered, answer) = mpsc::channel();
        let id = {
            let mut state = self.state();
            let id = state.asked;
            state.asked += 1;
            state.waiting.insert(id, answered);
            id
        };
        say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        answer.recv().unwrap_or_default()
    }

    fn answered(&self, message: Value) {
        let waiting = message["id"].as_u64().and_then(|id| self.state().waiting.remove(&id));
        if let Some(waiting) = waiting {
            waiting.send(message).ok();
        }
    }
}

/// Fails only if nobody reads any more.
fn say(message: &Value) {
    let mut stdout = io::stdout().lock();
    stdout.write_all(&frame(message)).and_then(|()| stdout.flush()).ok();
}

/// The tool that the word in brackets stands for, and its input.
fn tool(message: &str) -> Option<(&'static str, Value)> {
    let (_, rest) = message.split_once('[')?;
    match rest.split_once(']')?.0 {
        "ticket" | "wait" => Some(("fetch_ticket", json!({"key": "ABC-1"}))),
        "read" => Some(("read_file", json!({"filePath": "notes.txt"}))),
        "run" | "outside" => Some(("run_in_terminal", json!({"command": "make test"}))),
        _ => None,
    }
}

/// The members of `more` put over those of `object`.
fn with(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}
