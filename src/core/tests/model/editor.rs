//! The fake editor: its messages, and the messages that it may get.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    message::{N, SETS, TOOLS, allows, id, number, numbered},
    script::Editor,
    server::{Documents, apply, is_tools},
    world::{Life, World, is_response, pick},
};
use crate::{
    core::{
        event::{BackendId, Event, Peer, ProcessId},
        tests::stage::EDITOR,
    },
    rpc::{Frame, Kind, RawId},
};

/// The open requests of servers to the editor.
pub(super) struct Asked {
    /// The server's message; lspool asks too.
    pub(super) n: Option<N>,
    pub(super) withdrawn: bool,
    pub(super) answered: bool,
}

/// A turn, or work under a token that a server chose.
pub(super) struct Work {
    process: ProcessId,
    token: Value,
    conversation: Value,
    turn: Value,
    pub(super) open: bool,
}

#[derive(Default)]
pub(super) struct EditorModel {
    /// Requests that are not answered, by id.
    pub(super) open: BTreeMap<String, Vec<N>>,
    pub(super) asked: BTreeMap<String, Asked>,
    pub(super) documents: Documents,
    /// Methods by id, with the process that was first to register it.
    pub(super) registered: BTreeMap<String, (String, ProcessId)>,
    /// All tokens that it was ever asked to create.
    created: BTreeSet<String>,
    /// The editor's names for the tokens of servers.
    pub(super) tokens: BTreeMap<(BackendId, String), Value>,
    pub(super) work: Vec<Work>,
    /// The publisher of diagnostics, by URI.
    diagnostics: BTreeMap<String, BTreeSet<ProcessId>>,
    /// Turns that have begun: token, conversation, turn.
    begun: Vec<(Value, Value, Value)>,
    /// The last round of each turn.
    rounds: BTreeMap<String, u64>,
    /// Calls of the client's tools that it was asked to make.
    invoked: BTreeSet<String>,
    version: i64,
    has_shut_down: bool,
    /// It has closed its stream.
    gone: bool,
}

impl EditorModel {
    /// A process is called otherwise.
    pub(super) fn rename(&mut self, old: ProcessId, new: ProcessId) {
        let name = |it: ProcessId| if it == old { new } else { it };
        self.registered.values_mut().for_each(|(_, by)| *by = name(*by));
        self.work.iter_mut().for_each(|it| it.process = name(it.process));
        for publishers in self.diagnostics.values_mut() {
            *publishers = std::mem::take(publishers).into_iter().map(name).collect();
        }
        let backend = |it: BackendId| if it == old.backend { new.backend } else { it };
        let tokens = std::mem::take(&mut self.tokens);
        self.tokens = tokens.into_iter().map(|((by, theirs), ours)| ((backend(by), theirs), ours)).collect();
    }
}

impl World {
    /// The handshake, as it mostly goes.
    pub(super) fn start_up(&mut self) {
        self.editor_does(&Editor::Initialize { id: 0 });
        self.prepared(true);
        for process in self.with(Life::Spawning) {
            self.spawned(process);
            self.answer_own(process);
        }
        self.editor_does(&Editor::Initialized);
    }

    pub(super) fn editor_does(&mut self, it: &Editor) {
        if self.editor.gone {
            return;
        }
        match *it {
            Editor::Initialize { id } => {
                let options = r#""initializationOptions":{"copilotCapabilities":{"subAgent":true}},"#;
                self.ask(id, "initialize", &format!(r#""processId":1,"capabilities" : {{}},{options}"#));
            }
            Editor::Initialized => drop(self.call(EDITOR, None, "initialized", "")),
            Editor::Request { id, method, of } => self.editor_asks(id, method, of),
            Editor::Control { id, method, of } => {
                let (method, members) = self.control_members(method, of);
                if method == "lspool/watch" {
                    self.note_editor_watches();
                }
                self.ask(id, method, &members);
            }
            Editor::Notify { method } => {
                let methods = [
                    "$/setTrace",
                    "textDocument/didFocus",
                    "workspace/didChangeWatchedFiles",
                    "x/any",
                    "copilot/ide/register",
                ];
                let method = pick(&methods, method).expect("there are some");
                self.call(EDITOR, None, method, r#""textDocument":{"uri":"u1"},"#);
            }
            Editor::Create { id, set, conversation, token } => {
                let (set, _) = pick(SETS, set).expect("there are some");
                let conversation = match conversation % 6 {
                    0 => String::new(),
                    1 => r#""conversationId":null,"#.to_owned(),
                    _ => format!(r#""conversationId":{},"#, conversation_id(conversation)),
                };
                let members =
                    format!(r#"{set}{conversation}{}"turns":[{{"request":"q"}}],"#, turn_token(token));
                self.ask(id, "conversation/create", &members);
            }
            Editor::Turn { id, conversation, token } => {
                let conversation = self.some_conversation(conversation);
                let members = format!(r#""conversationId":{conversation},{}"#, turn_token(token));
                self.ask(id, "conversation/turn", &members);
            }
            Editor::Destroy { id, conversation } => {
                let conversation = self.some_conversation(conversation);
                self.ask(id, "conversation/destroy", &format!(r#""conversationId":{conversation},"#));
            }
            Editor::Cancel { open } => self.editor_cancels(open),
            Editor::CancelUnknown { id } => {
                self.call(EDITOR, None, "$/cancelRequest", &format!(r#""id":"unknown {id}","#));
            }
            Editor::CancelProgress { token } => {
                let chosen: Vec<&Value> = self.editor.tokens.values().collect();
                let token = match pick(&chosen, token) {
                    Some(chosen) if token % 2 == 0 => chosen.to_string(),
                    _ => format!("\"t{}\"", token % 4),
                };
                self.call(EDITOR, None, "window/workDoneProgress/cancel", &format!(r#""token":{token},"#));
            }
            Editor::Open { document } => self.editor_opens(document),
            Editor::Change { document, whole } => self.editor_changes(document, whole),
            Editor::Close { document } => {
                let uris: Vec<String> = self.editor.documents.keys().cloned().collect();
                if let Some(uri) = uris.get(usize::from(document) % uris.len().max(1)) {
                    self.call(
                        EDITOR,
                        None,
                        "textDocument/didClose",
                        &format!(r#""textDocument":{{"uri":"{uri}"}},"#),
                    );
                }
            }
            Editor::Register { id, tools } => {
                let of = |n: u8| TOOLS[usize::from(n) % TOOLS.len()];
                let tools = [json!({"name": of(tools)}), json!({"name": of(tools / 4), "x": tools})];
                self.ask(id, "conversation/registerTools", &format!(r#""tools":{},"#, json!(tools)));
            }
            Editor::Unregister { id, tool } => {
                let ids = ["copilot-editor.a", "copilot-editor.b", "copilot.list_dir", "copilot.none"];
                let tool = pick(&ids, tool).expect("there are some");
                self.ask(id, "conversation/unregisterTools", &format!(r#""toolIds":["{tool}"],"#));
            }
            Editor::Status { id, tool, on } => {
                let status = if on { "enabled" } else { "disabled" };
                let tool = pick(TOOLS, tool).expect("there are some");
                let members = format!(r#""tools":[{{"name":"{tool}","status":"{status}"}}],"#);
                self.ask(id, "conversation/updateToolsStatus", &members);
            }
            Editor::Configure { mcp } => {
                let mcp = if mcp { r#""mcp" : "{\"m\":{}}","# } else { "" };
                let members = format!(r#""settings":{{"http":{{}},"github":{{"copilot":{{{mcp}"y":1}}}}}},"#);
                self.call(EDITOR, None, "workspace/didChangeConfiguration", &members);
            }
            Editor::Answer { asked, fails } => {
                let open: Vec<String> = self.editor_owes();
                if let Some(id) = open.get(usize::from(asked) % open.len().max(1)) {
                    self.editor_answers(&id.clone(), fails, true);
                }
            }
            Editor::AnswerAgain { asked } => {
                let answered = self.editor.asked.iter().filter(|(_, it)| it.answered);
                let answered: Vec<String> = answered.map(|(id, _)| id.clone()).collect();
                if let Some(id) = answered.get(usize::from(asked) % answered.len().max(1)) {
                    self.respond(EDITOR, id, false, |n| numbered(n, ""));
                    assert!(self.sent.is_empty(), "passed on though it was answered before: {:?}", self.sent);
                }
            }
            Editor::AnswerUnknown { id } => {
                self.respond(EDITOR, &format!("\"unknown {id}\""), false, |n| numbered(n, ""));
                assert!(self.sent.is_empty(), "nobody has asked: {:?}", self.sent);
            }
            Editor::Malformed { asked } => {
                let open = self.editor_owes();
                if let Some(id) = open.get(usize::from(asked) % open.len().max(1)).cloned() {
                    self.answer_noted(&id);
                    let id = Some((RawId::from_raw(id.as_bytes()).expect("an id"), false));
                    self.event(Event::Malformed { peer: EDITOR, id, reason: "odd".to_owned() });
                }
            }
            // Under an id that is free.
            Editor::Shutdown { id } => {
                let id = if id % 2 == 0 { "-1" } else { "\"end\"" };
                if !self.editor.open.contains_key(id) {
                    self.call(EDITOR, Some(id), "shutdown", "");
                }
            }
            Editor::Exit => {
                self.leaving =
                    Some(self.now.checked_sub(std::time::Duration::from_secs(9)).unwrap_or(self.now));
                self.call(EDITOR, None, "exit", "");
            }
            Editor::EndOfFile => {
                // After shutdown nothing is waited for.
                let long_ago = self.now.checked_sub(std::time::Duration::from_secs(9));
                let since = if self.core.mux.clients().has_shut_down() { long_ago } else { Some(self.now) };
                self.leaving = self.leaving.or(since);
                self.editor.gone = true;
                self.event(Event::Closed { peer: EDITOR, error: None });
            }
        }
    }

    fn editor_asks(&mut self, id: u8, method: u8, of: u8) {
        let methods = [
            "textDocument/hover",
            "x/unknown",
            "conversation/rating",
            "signInConfirm",
            "copilot/models",
            "mcp/updateToolsStatus",
            "signOut",
            "github/didChangeAuth",
            "workspace/executeCommand",
        ];
        let method = pick(&methods, method).expect("there are some");
        let members = match of % 4 {
            0 => format!(r#""conversationId":{},"#, self.some_conversation(of / 4)),
            1 => format!(r#""turnId":"turn {}","#, of / 4),
            2 => r#""command":"github.copilot.finishDeviceFlow","#.to_owned(),
            _ => String::new(),
        };
        self.ask(id, method, &members);
    }

    fn ask(&mut self, number: u8, method: &str, members: &str) {
        let text = match number % 16 {
            n @ 0..8 => n.to_string(),
            n @ 8..15 => format!("\"{}\"", n - 8),
            _ => r#""\u0030""#.to_owned(),
        };
        // An editor that gives the id of `initialize` to other requests numbers none of them.
        let opening = |it: &N| self.said[it].method() == "initialize";
        let value: Value = serde_json::from_str(&text).expect("an id is JSON");
        let asked = self.editor.open.get(&id(&json!({"id": value})));
        let text = if asked.is_some_and(|it| it.iter().any(opening)) { "\"another\"" } else { &text };
        self.call(EDITOR, Some(text), method, members);
    }

    /// An id of a conversation that there is, or is not.
    fn some_conversation(&self, index: u8) -> String {
        let known = self.core.all_conversations().map(|(id, _)| id.to_string());
        let known: Vec<String> = known.collect();
        match known.get(usize::from(index / 2) % known.len().max(1)) {
            Some(id) if !index.is_multiple_of(4) => id.clone(),
            _ => conversation_id(index),
        }
    }

    pub(super) fn editor_has_said(&mut self, n: N, frame: &Frame) {
        let said = &self.said[&n];
        if frame.kind() == Kind::Request {
            self.editor.open.entry(id(&said.value)).or_default().push(n);
        }
        self.editor.has_shut_down |= said.method() == "shutdown" && self.editor_is_heard();
        if self.editor_is_heard() {
            apply(&mut self.editor.documents, said.method(), said.params());
        }
    }

    /// A message at the wrong time has no receiver.
    fn editor_is_heard(&self) -> bool {
        !self.editor.has_shut_down && self.core.mux.clients().is_serving()
    }

    fn editor_opens(&mut self, document: u8) {
        let uri = format!("u{}", document % 3);
        if !self.editor.documents.contains_key(&uri) {
            self.editor.version += 1;
            let version = self.editor.version;
            let item =
                format!(r#"{{"uri":"{uri}","languageId":"x", "version":{version},"text":"é{version}\n"}}"#);
            self.call(EDITOR, None, "textDocument/didOpen", &format!(r#""textDocument":{item},"#));
        }
    }

    fn editor_changes(&mut self, document: u8, whole: bool) {
        let uris: Vec<String> = self.editor.documents.keys().cloned().collect();
        let Some(uri) = uris.get(usize::from(document) % uris.len().max(1)) else { return };
        self.editor.version += 1;
        let version = self.editor.version;
        let start = r#"{"line":0,"character":0}"#;
        let range =
            if whole { String::new() } else { format!(r#""range":{{"start":{start},"end":{start}}},"#) };
        let members = format!(
            r#""textDocument":{{"uri":"{uri}","version":{version}}},"contentChanges":[{{{range}"text":"{version} "}}],"#
        );
        self.call(EDITOR, None, "textDocument/didChange", &members);
    }

    fn editor_cancels(&mut self, open: u8) {
        let ids: Vec<String> = self.editor.open.keys().cloned().collect();
        let Some(id) = ids.get(usize::from(open) % ids.len().max(1)).cloned() else { return };
        let first = self.editor.open[&id][0];
        let method = self.said[&first].method().to_owned();
        let asked: Vec<(ProcessId, String)> = self
            .with(Life::Running)
            .into_iter()
            .filter_map(|it| Some((it, self.servers[&it].request_of(first)?.id.clone())))
            .collect();
        self.call(EDITOR, None, "$/cancelRequest", &format!(r#""id":{id},"#));
        // Requests to lspool itself are not cancelled.
        let own = ["initialize", "shutdown", "workspace/executeCommand"].contains(&method.as_str())
            || method.starts_with("lspool/");
        if !self.core.mux.clients().is_open() || self.is_over() || own {
            return;
        }
        let told = |process: &ProcessId, id: &String| {
            let id: Value = serde_json::from_str(id).expect("an id is JSON");
            self.sent.iter().any(|(to, it)| {
                *to == Peer::Backend(*process)
                    && it["method"] == "$/cancelRequest"
                    && it["params"]["id"] == id
            })
        };
        let everyone = super::world::is_session(&method);
        for (process, id) in &asked {
            assert!(told(process, id) || everyone, "{process:?} is not told that {id} is cancelled");
        }
        if asked.is_empty() {
            let open = self.editor.open.get(&id).is_some_and(|it| it.contains(&first));
            assert!(
                !open,
                "cancelled before a server got it, and not answered: {:?}",
                self.said[&first].value
            );
        }
    }

    fn editor_owes(&self) -> Vec<String> {
        if self.editor.gone {
            return Vec::new();
        }
        self.editor.asked.iter().filter(|(_, it)| !it.answered).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn editor_answers_all(&mut self) {
        for id in self.editor_owes() {
            if !self.is_over() {
                self.editor_answers(&id, false, false);
            }
        }
    }

    /// Notes that it is answered; whether the answer has somewhere to go.
    fn answer_noted(&mut self, id: &str) -> bool {
        let asked = self.editor.asked.get_mut(id).expect("it was asked");
        asked.answered = true;
        let by = asked.n.map(|n| self.said[&n].by);
        let wanted =
            |by| matches!(by, Some(Peer::Backend(process)) if self.servers[&process].life == Life::Running);
        !asked.withdrawn && wanted(by)
    }

    fn editor_answers(&mut self, id: &str, fails: bool, restarts: bool) {
        let wanted = self.answer_noted(id);
        let re = self.editor.asked[id].n;
        let list = re.is_some_and(|n| self.said[&n].method() != "window/showMessageRequest");
        self.respond(EDITOR, id, fails, |n| {
            // An offer of lspool is accepted.
            let chosen = if restarts { r#""title":"Restart","# } else { "" };
            let result = numbered(n, &re.map_or(chosen.to_owned(), |re| format!("\"re\":{re},")));
            if list { format!("[{result}]") } else { result }
        });
        let confirms =
            re.is_some_and(|n| self.said[&n].method() == "conversation/invokeClientToolConfirmation");
        let passed = self
            .sent
            .iter()
            .any(|(to, it)| *to != EDITOR && it.get("method").is_none() && number(it).is_some());
        assert!(wanted || confirms || !passed, "passed on to one who does not wait: {:?}", self.sent);
    }

    pub(super) fn editor_hears(&mut self, frame: &Frame, message: &Value) {
        match frame.kind() {
            Kind::Response => self.editor_hears_answer(frame, message),
            Kind::Request => self.editor_hears_request(message),
            Kind::Notification => self.editor_hears_notification(message),
        }
        assert!(!is_response(frame) || message.get("method").is_none());
    }

    /// An answer is to a question, once, and from who was asked.
    fn editor_hears_answer(&mut self, frame: &Frame, message: &Value) {
        let id = id(message);
        let open = self.editor.open.get_mut(&id).filter(|it| !it.is_empty());
        let open = open.unwrap_or_else(|| panic!("nobody waits for {message}"));
        let answer = frame.id().expect("an answer has an id");
        // Type and spelling, too.
        let same =
            |n: &N| self.said[n].frame.id().expect("a request has an id").as_bytes() == answer.as_bytes();
        let at = match re(message) {
            Some(n) => open.iter().position(|it| *it == n && same(it)),
            // Prefers one that came while the first was open.
            None if message["error"]["code"] == -32600 => {
                (1..open.len()).chain([0]).find(|at| same(&open[*at]))
            }
            None => open.iter().position(same),
        };
        let asked = open.remove(at.unwrap_or_else(|| panic!("{message} answers another question")));
        if open.is_empty() {
            self.editor.open.remove(&id);
        }
        let asked = &self.said[&asked];
        if let Some(n) = number(message) {
            let by = self.said[&n].by;
            assert!(asked.heard.contains(&by), "{by:?} answers {} which it never heard", asked.value);
            let primary = matches!(by, Peer::Backend(it) if it.backend == crate::core::tests::stage::PRIMARY);
            assert!(primary || !super::world::is_session(asked.method()), "a partition speaks for all");
        }
    }

    /// By the shell.
    pub(super) fn editor_is_answered(&mut self, id: &str) {
        let open = self.editor.open.get_mut(id).unwrap_or_else(|| panic!("nobody waits for {id}"));
        let said = &self.said;
        let at = open.iter().position(|n| said[n].method() == "lspool/logs");
        open.remove(at.expect("logs were asked for"));
        if open.is_empty() {
            self.editor.open.remove(id);
        }
    }

    fn editor_hears_request(&mut self, message: &Value) {
        let id = id(message);
        let n = number(message);
        let asked = Asked { n, withdrawn: false, answered: false };
        assert!(self.editor.asked.insert(id, asked).is_none(), "an id is used twice: {message}");
        let by = n.map(|n| self.said[&n].by);
        let params = &message["params"];
        match (message["method"].as_str().expect("a request has a method"), by) {
            (
                "conversation/invokeClientTool" | "conversation/invokeClientToolConfirmation",
                Some(Peer::Backend(by)),
            ) => {
                let set = &self.servers[&by].set;
                let tool = params["name"].as_str().expect("calls are by name");
                let call = params["toolCallId"].to_string();
                if message["method"] == "conversation/invokeClientTool" {
                    assert!(self.editor.invoked.insert(call), "a tool is called twice: {message}");
                }
                assert!(allows(set, tool), "{tool} is not in {set:?}");
            }
            ("client/registerCapability", Some(Peer::Backend(by))) => {
                for it in params["registrations"].as_array().expect("a list") {
                    let method = it["method"].as_str().expect("a method").to_owned();
                    let before = self.editor.registered.insert(it["id"].to_string(), (method, by));
                    assert!(before.is_none(), "{} is registered twice", it["id"]);
                }
            }
            ("client/unregisterCapability", _) => {
                for it in params["unregisterations"].as_array().expect("a list") {
                    self.editor.registered.remove(&it["id"].to_string());
                }
            }
            ("window/workDoneProgress/create", Some(Peer::Backend(by))) => {
                let theirs = self.said[&n.expect("a server's")].params()["token"].to_string();
                let ours = params["token"].clone();
                let key = (by.backend, theirs);
                let lives = |backend| {
                    let mut running = self.servers.iter().filter(|(_, it)| it.life == Life::Running);
                    running.any(|(id, it)| id.backend == backend && !it.is_to_end())
                };
                let mut others = self.editor.tokens.iter().filter(|(other, _)| **other != key);
                let taken = others.any(|(other, it)| *it == ours && lives(other.0));
                assert!(!taken, "two servers have the token {ours}");
                self.editor.created.insert(ours.to_string());
                self.editor.tokens.insert(key, ours);
            }
            (_, Some(_)) | ("window/showMessageRequest", None) => {}
            // The calls that the user has allowed.
            ("conversation/invokeClientTool", None) => {
                let call = params["toolCallId"].to_string();
                assert!(self.editor.invoked.insert(call), "a tool is called twice: {message}");
            }
            (method, None) => panic!("lspool asks the editor {method}"),
        }
    }

    fn editor_hears_notification(&mut self, message: &Value) {
        let by = number(message).map(|n| self.said[&n].by);
        let params = &message["params"];
        match (message["method"].as_str().expect("a notification has a method"), by) {
            ("$/cancelRequest", by) => {
                let asked = self.editor.asked.get_mut(&params["id"].to_string());
                let asked = asked.unwrap_or_else(|| panic!("the editor was never asked: {message}"));
                match by {
                    None => {
                        assert!(!asked.answered && !asked.withdrawn, "{message} comes too late");
                        asked.withdrawn = true;
                    }
                    Some(by) => assert_eq!(self.said[&asked.n.expect("a server's")].by, by),
                }
            }
            ("$/progress", Some(Peer::Backend(by))) => self.editor_hears_progress(by, message),
            ("$/progress", None) if params["value"]["kind"] == "report" => {
                let works = |it: &Work| it.open && it.token == params["token"];
                assert!(self.editor.work.iter().any(works), "{message} is about nothing that runs");
                self.editor_hears_rounds(params);
            }
            ("$/progress", None) => {
                assert_eq!(params["value"]["kind"], "end");
                let servers = &self.servers;
                let ends =
                    |it: &Work| servers[&it.process].life == Life::Gone || servers[&it.process].is_to_end();
                let same = |it: &&mut Work| {
                    it.open
                        && it.token == params["token"]
                        && it.conversation == params["value"]["conversationId"]
                };
                // Of two processes with equal tokens, the one that is gone.
                let work = self.editor.work.iter_mut().filter(same).min_by_key(|it| !ends(it));
                let Some(work) = work else {
                    // It was created and has not begun, or it has outlived its answer.
                    let is_created = self.editor.created.contains(&params["token"].to_string());
                    let has_begun = self.editor.work.iter().any(|it| it.token == params["token"] && ends(it));
                    assert!(is_created || has_begun, "{message} ends what is not open");
                    return;
                };
                let ended = (work.process.backend, work.turn.clone());
                // A server that begins a turn twice has it ended once.
                let twice = |it: &&mut Work| same(it) && (it.process.backend, it.turn.clone()) == ended;
                self.editor.work.iter_mut().filter(twice).for_each(|it| it.open = false);
            }
            ("window/logMessage" | "didChangeStatus" | "copilot/mcpTools", Some(Peer::Backend(by))) => {
                assert!(
                    by.backend == crate::core::tests::stage::PRIMARY || !self.script.copilot,
                    "a partition is heard"
                );
            }
            ("textDocument/publishDiagnostics", by) => self.editor_hears_diagnostics(by, params),
            ("lspool/didChangeStatus", None) => self.editor_hears_status(),
            (_, Some(_)) | ("window/showMessage", None) => {}
            (method, None) => panic!("lspool tells the editor {method}"),
        }
    }

    fn editor_hears_diagnostics(&mut self, by: Option<Peer>, params: &Value) {
        let uri = params["uri"].as_str().expect("a URI").to_owned();
        let is_empty = params["diagnostics"] == json!([]);
        let publishers = self.editor.diagnostics.entry(uri).or_default();
        match by {
            Some(Peer::Backend(by)) => {
                publishers.retain(|it| it.backend != by.backend);
                publishers.extend((!is_empty).then_some(by));
            }
            Some(Peer::Client(_)) => panic!("the editor hears itself: {params}"),
            None => {
                assert!(is_empty, "lspool makes up {params}");
                self.withdrawn.extend(std::mem::take(publishers));
            }
        }
    }

    fn editor_hears_progress(&mut self, by: ProcessId, message: &Value) {
        let (theirs, params) =
            (self.said[&number(message).expect("a server's")].params(), &message["params"]);
        if let Some(ours) = self.editor.tokens.get(&(by.backend, theirs["token"].to_string())) {
            assert_eq!(*ours, params["token"], "the editor knows another name");
        } else {
            assert_eq!(theirs["token"], params["token"], "renamed, and nobody has said so");
        }
        let conversation = params["value"]["conversationId"].clone();
        match params["value"]["kind"].as_str() {
            Some("begin") => {
                let turn = params["value"]["turnId"].clone();
                let begun = (params["token"].clone(), conversation.clone(), turn.clone());
                let is_turn = !turn.is_null() && turn != "its own";
                assert!(!is_turn || !self.editor.begun.contains(&begun), "{message} begins twice");
                self.editor.begun.push(begun);
                self.editor.work.push(Work {
                    process: by,
                    token: params["token"].clone(),
                    conversation,
                    turn,
                    open: true,
                });
            }
            Some("end") => {
                let is_nameless = params["value"]["turnId"] == "its own";
                let same = |it: &&mut Work| {
                    it.open
                        && it.process.backend == by.backend
                        && it.token == params["token"]
                        && it.conversation == conversation
                        && (!is_nameless || it.turn == "its own")
                };
                // Turns without a name that are alike in all the rest are one, for lspool, too.
                let most = if is_nameless { usize::MAX } else { 1 };
                let ended = self.editor.work.iter_mut().filter(same).take(most).map(|it| it.open = false);
                assert!(ended.count() > 0 || is_nameless, "{message} ends what is not open");
                if conversation.is_null() {
                    self.editor.tokens.remove(&(by.backend, theirs["token"].to_string()));
                }
            }
            _ => self.editor_hears_rounds(params),
        }
    }

    /// Rounds are counted on, whichever process speaks of them. Only the end of a call comes in the call's own round.
    fn editor_hears_rounds(&mut self, params: &Value) {
        let turn = params["value"]["turnId"].to_string();
        // Turns without a name are not told apart.
        if turn == "\"its own\"" {
            return;
        }
        let ends_calls = |round: &&Value| {
            let calls = round["toolCalls"].as_array();
            calls.is_some_and(|it| it.iter().all(|it| it["status"] == "cancelled"))
        };
        let rounds = params["value"]["editAgentRounds"].as_array().into_iter().flatten();
        for round in rounds.filter(|it| !ends_calls(it)) {
            let round = round["roundId"].as_u64().expect("rounds have numbers");
            let last = self.editor.rounds.entry(turn.clone()).or_insert(round);
            assert!(round >= *last, "round {round} of {turn} comes after {last}");
            *last = round;
        }
    }

    /// The conditions after the last message.
    pub(super) fn check_editor(&self) {
        let open = self.editor.open.values().flatten().map(|n| &self.said[n].value);
        assert_eq!(open.collect::<Vec<_>>(), Vec::<&Value>::new(), "never answered");
        for work in self.editor.work.iter().filter(|it| it.open) {
            let lives = self.with(Life::Running).iter().any(|it| it.backend == work.process.backend);
            assert!(lives, "{} never ends", work.token);
        }
        let lives = |it: &ProcessId| self.servers[it].life == Life::Running;
        for (uri, publishers) in &self.editor.diagnostics {
            // An editor that is quitting takes them down itself.
            let shows = !publishers.is_empty() && !self.editor.has_shut_down;
            assert!(!shows || publishers.iter().any(lives), "{uri} shows what nobody says");
        }
    }

    /// Whether a change of the catalog is under way.
    pub(super) fn is_undecided(&self) -> bool {
        self.editor.open.values().flatten().any(|n| is_tools(self.said[n].method()))
    }
}

/// Which question an answer says it answers.
pub(super) fn re(message: &Value) -> Option<N> {
    let places = [&message["result"]["re"], &message["result"][0]["re"], &message["error"]["data"]["re"]];
    places.into_iter().find_map(Value::as_u64)
}

fn conversation_id(index: u8) -> String {
    let ids = [r#""c""#, "4711", r#""4711""#, r#""d""#];
    ids[usize::from(index) % ids.len()].to_owned()
}

fn turn_token(index: u8) -> String {
    match index % 5 {
        4 => String::new(),
        n => format!(r#""workDoneToken":"t{n}","#),
    }
}
