//! The fake server: its messages, and the messages that it may get.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    editor::re,
    message::{BUILTIN, N, TOOLS, allows, id, number, numbered},
    script::Server,
    world::{Life, World, asked_id, is_response, pick},
};
use crate::{
    core::{
        event::{Event, Peer, ProcessId},
        tests::stage::{asks_for_proof, proof},
    },
    rpc::{Frame, Kind, RawId},
};

/// Versions and texts by URI.
pub(super) type Documents = BTreeMap<String, (i64, String)>;

/// A request that a server has heard.
pub(super) struct Request {
    pub(super) id: String,
    /// The editor's message; lspool asks too.
    pub(super) n: Option<N>,
    pub(super) method: String,
    params: Value,
    answered: bool,
    /// The tools that it offered at that time.
    offered: BTreeSet<String>,
    /// Whether a turn has begun, and not ended.
    begun: bool,
    ended: bool,
    /// The last round of a turn.
    round: u64,
}

#[expect(clippy::struct_excessive_bools, reason = "what has happened to a process, in any combination")]
pub(super) struct ServerModel {
    process: ProcessId,
    pub(super) life: Life,
    pub(super) set: String,
    /// It is kept ready for others.
    pub(super) is_spare: bool,
    stubborn: bool,
    sub_agents: bool,
    /// lspool has asked the shell to end it.
    pub(super) ending: bool,
    closed: bool,
    /// Its input is closed: later messages are dropped.
    pub(super) deaf: bool,
    exit_told: bool,
    pub(super) initialized: bool,
    /// It has answered `initialize` before it was told to end.
    pub(super) opened: bool,
    /// Messages up to this one are part of the session it was told at its start.
    pub(super) restored: Option<N>,
    /// The latest of the editor's messages that it was told.
    pub(super) told_until: N,
    /// The latest of its messages that the editor has heard.
    pub(super) heard_until: N,
    requests: Vec<Request>,
    /// Its own requests, by id.
    asked: Vec<(String, N)>,
    /// Ids of tools.
    offered: BTreeSet<String>,
    /// The part of it that lspool knows.
    shown: Option<BTreeSet<String>>,
    documents: Documents,
    /// Methods by id.
    pub(super) registered: BTreeMap<String, String>,
    /// Whether they have begun.
    tokens: BTreeMap<String, bool>,
}

impl Request {
    /// The id of the turn that it asks for: the server has no say in it.
    fn turn(&self) -> String {
        let turns = self.params["turns"].as_array();
        let asked = turns.and_then(|it| it.last()).map_or(&self.params["turnId"], |it| &it["turnId"]);
        if asked.is_null() { "\"its own\"".to_owned() } else { asked.to_string() }
    }
}

impl ServerModel {
    pub(super) fn new(process: ProcessId, set: String, stubborn: bool) -> ServerModel {
        ServerModel {
            process,
            life: Life::Spawning,
            set,
            is_spare: false,
            stubborn,
            sub_agents: false,
            ending: false,
            closed: false,
            deaf: false,
            exit_told: false,
            initialized: false,
            opened: false,
            restored: None,
            told_until: 0,
            heard_until: 0,
            requests: Vec::new(),
            asked: Vec::new(),
            offered: BUILTIN.iter().map(|it| format!("copilot.{it}")).collect(),
            shown: None,
            documents: Documents::new(),
            registered: BTreeMap::new(),
            tokens: BTreeMap::new(),
        }
    }

    /// It is this process from now on, and nothing is owed in either direction.
    pub(super) fn adopted(&mut self, process: ProcessId, set: String, said: N) {
        assert!(self.owes().is_empty() && self.asked.is_empty(), "{:?} is busy", self.process);
        assert!(self.initialized, "{:?} was not told that it is initialized", self.process);
        assert!(!self.sub_agents || allows(&set, "run_subagent"), "{process:?} has a capability too many");
        self.process = process;
        self.is_spare = false;
        // It may already have got messages that waited for the backend and are not part of the session.
        self.restored = Some(said);
        self.told_until = 0;
        self.set = set;
    }

    /// The unanswered request that this message of the editor became.
    pub(super) fn request_of(&self, n: N) -> Option<&Request> {
        self.requests.iter().find(|it| it.n == Some(n) && !it.answered)
    }

    pub(super) fn is_to_end(&self) -> bool {
        self.ending || self.exit_told || self.closed
    }

    fn owes(&self) -> Vec<usize> {
        let open = self.requests.iter().enumerate().filter(|(_, it)| !it.answered);
        open.map(|(at, _)| at).collect()
    }

    /// Handles a call that changes its offered tools.
    fn offer(&mut self, method: &str, params: &Value) {
        let names = |key: &str| params[key].as_array().into_iter().flatten();
        match method {
            "conversation/registerTools" => {
                let ids = names("tools")
                    .map(|it| format!("copilot-editor.{}", it["name"].as_str().expect("a name")));
                self.offered.extend(ids);
            }
            "conversation/unregisterTools" => {
                let gone: BTreeSet<&str> = names("toolIds").filter_map(Value::as_str).collect();
                let stays = |it: &str| self.stubborn && self.set != "*" && it.starts_with("copilot.");
                self.offered = self
                    .offered
                    .iter()
                    .filter(|it| !gone.contains(it.as_str()) || stays(it))
                    .cloned()
                    .collect();
            }
            "initialize" => {
                let options = &params["initializationOptions"]["copilotCapabilities"];
                self.sub_agents = options["subAgent"] == true;
            }
            // The tools of a capability come back with every token.
            "initialized" | "checkStatus" if self.sub_agents => {
                self.offered.insert("copilot.run_subagent".to_owned());
            }
            _ => {}
        }
    }

    /// A process that might offer more than its set gets no conversation, as far as it is knowable.
    fn check_restricted(&self) {
        if self.set == "*" {
            return;
        }
        let inside = |ids: &BTreeSet<String>| {
            ids.iter().all(|it| allows(&self.set, it.split_once('.').expect("ids have a dot").1))
        };
        assert!(
            self.shown.as_ref().is_some_and(inside),
            "{:?} is offered, not only {:?}",
            self.shown,
            self.set
        );
        assert!(inside(&self.offered), "{:?} is offered, not only {:?}", self.offered, self.set);
        let telling = self.requests.iter().find(|it| it.n.is_none() && !it.answered && is_tools(&it.method));
        assert!(
            telling.is_none(),
            "a turn comes before {:?} is known to the partition",
            telling.map(|it| &it.method)
        );
    }
}

impl World {
    pub(super) fn server_does(&mut self, process: ProcessId, it: &Server) {
        let peer = Peer::Backend(process);
        let server = self.servers.get_mut(&process).expect("picked from there");
        if server.closed || server.exit_told {
            return;
        }
        match *it {
            Server::Answer { asked, fails } => {
                if let Some(at) = pick(&server.owes(), asked) {
                    self.answer(process, at, fails);
                }
            }
            Server::AnswerAgain { asked } => {
                let answered: Vec<String> =
                    server.requests.iter().filter(|it| it.answered).map(|it| it.id.clone()).collect();
                if let Some(id) = answered.get(usize::from(asked) % answered.len().max(1)) {
                    self.unwanted(peer, id);
                }
            }
            Server::AnswerUnknown { id } => self.unwanted(peer, &format!("{}", 100_000 + u32::from(id))),
            Server::AnswerForeign { process: other, asked } => {
                let others: Vec<ProcessId> =
                    self.servers.keys().copied().filter(|it| *it != process).collect();
                if let Some(other) = pick(&others, other) {
                    let requests: Vec<usize> = self.servers[&other].owes();
                    if let Some(at) = pick(&requests, asked) {
                        let id = self.servers[&other].requests[at].id.clone();
                        self.unwanted(peer, &id);
                    }
                }
            }
            Server::MalformedAnswer { asked } => {
                if let Some(at) = pick(&server.owes(), asked) {
                    server.requests[at].answered = true;
                    let id =
                        Some((RawId::from_raw(server.requests[at].id.as_bytes()).expect("an id"), false));
                    self.event(Event::Malformed { peer, id, reason: "odd".to_owned() });
                }
            }
            Server::Malformed => self.event(Event::Malformed { peer, id: None, reason: "odd".to_owned() }),
            Server::Request { id, method } => {
                let methods = ["window/showMessageRequest", "workspace/configuration", "copilot/token"];
                let method = pick(&methods, method).expect("there are some");
                self.server_asks(process, id, method, r#""items":[{"section":"x"}],"#);
            }
            Server::ToolCall { id, tool, conversation, confirmation } => {
                self.call_tool(process, id, tool, conversation, confirmation);
            }
            Server::Cancel { asked } => {
                let ids: Vec<String> = server.asked.iter().map(|(id, _)| id.clone()).collect();
                if let Some(id) = ids.get(usize::from(asked) % ids.len().max(1)) {
                    self.call(peer, None, "$/cancelRequest", &format!(r#""id":{id},"#));
                }
            }
            Server::Register { id, registration, method } => {
                let registration = format!("\"r{}\"", registration % 3);
                let method = format!("m{}", method % 3);
                if !server.registered.contains_key(&registration) {
                    server.registered.insert(registration.clone(), method.clone());
                    let one =
                        format!(r#"{{"id":{registration},"method":"{method}", "registerOptions":{{}}}}"#);
                    self.server_asks(
                        process,
                        id,
                        "client/registerCapability",
                        &format!(r#""registrations":[{one}],"#),
                    );
                }
            }
            Server::Unregister { id, registration } => {
                let registration = format!("\"r{}\"", registration % 3);
                let method = server.registered.remove(&registration).unwrap_or_else(|| "m0".to_owned());
                let members = format!(r#""unregisterations":[{{"id":{registration},"method":"{method}"}}],"#);
                self.server_asks(process, id, "client/unregisterCapability", &members);
            }
            Server::CreateToken { id, token } => {
                let token =
                    if token % 2 == 0 { (token % 6).to_string() } else { format!("\"{}\"", token % 6) };
                if !server.tokens.contains_key(&token) {
                    server.tokens.insert(token.clone(), false);
                    self.server_asks(
                        process,
                        id,
                        "window/workDoneProgress/create",
                        &format!(r#""token":{token},"#),
                    );
                }
            }
            Server::Begin { token } => self.work(process, token, false, "begin"),
            Server::Report { token } => self.work(process, token, true, "report"),
            Server::End { token } => self.work(process, token, true, "end"),
            Server::BeginTurn { turn } => {
                let turns = server.requests.iter().enumerate();
                let turns = turns.filter(|(_, it)| {
                    !it.answered
                        && !it.begun
                        && !it.ended
                        && it.method.starts_with("conversation/")
                        && !it.params["workDoneToken"].is_null()
                });
                if let Some(at) = pick(&turns.map(|(at, _)| at).collect::<Vec<_>>(), turn) {
                    server.requests[at].begun = true;
                    self.turn(process, at, "begin");
                }
            }
            Server::EndTurn { turn } => {
                let turns = server.requests.iter().enumerate().filter(|(_, it)| !it.answered && it.begun);
                if let Some(at) = pick(&turns.map(|(at, _)| at).collect::<Vec<_>>(), turn) {
                    server.requests[at].begun = false;
                    server.requests[at].ended = true;
                    self.turn(process, at, "end");
                }
            }
            Server::ReportTurn { turn, what } => {
                let turns = server.requests.iter().enumerate().filter(|(_, it)| !it.answered && it.begun);
                if let Some(at) = pick(&turns.map(|(at, _)| at).collect::<Vec<_>>(), turn) {
                    self.report_turn(process, at, what);
                }
            }
            Server::Notify { method } => {
                let methods = ["window/logMessage", "didChangeStatus", "x/any", "window/showMessage"];
                let method = pick(&methods, method).expect("there are some");
                self.call(peer, None, method, "");
            }
            Server::Publish { uri, empty } => {
                let all = if empty { "" } else { r#"{"message":"no"}"# };
                let members = format!(r#""uri":"d{}","diagnostics":[{all}],"#, uri % 3);
                self.call(peer, None, "textDocument/publishDiagnostics", &members);
            }
            Server::McpTools => self.offer_mcp_tools(process),
            Server::Close => {
                server.closed = true;
                self.event(Event::Closed { peer, error: None });
            }
            Server::Stall => self.event(Event::Stalled(peer)),
        }
    }

    /// An answer without a request.
    fn unwanted(&mut self, by: Peer, id: &str) {
        let n = self.respond(by, id, false, |n| numbered(n, ""));
        assert!(self.said[&n].heard.is_empty(), "nobody has asked: {:?}", self.sent);
    }

    fn server_asks(&mut self, process: ProcessId, id: u8, method: &str, members: &str) -> N {
        let asked = &self.servers[&process].asked;
        let ids = (0..).map(|n| u64::from(id % 4) + 4 * n);
        let ids = ids.map(|it| if it % 2 == 0 { it.to_string() } else { format!("\"{it}\"") });
        let id = ids.into_iter().find(|id| asked.iter().all(|(it, _)| it != id)).expect("they never end");
        let n = u64::try_from(self.said.len()).expect("not that many") + 1;
        self.servers.get_mut(&process).expect("it speaks").asked.push((id.clone(), n));
        self.call(Peer::Backend(process), Some(&id), method, members)
    }

    fn call_tool(&mut self, process: ProcessId, id: u8, tool: u8, conversation: u8, confirmation: bool) {
        let server = &self.servers[&process];
        let all = [TOOLS, BUILTIN].concat();
        let tool = pick(&all, tool).expect("there are some");
        let told = server.requests.iter().filter(|it| it.params.get("conversationId").is_some());
        let told: Vec<&Request> = told.collect();
        let asked = pick(&told, conversation);
        let conversation =
            asked.map_or_else(|| "\"none\"".to_owned(), |it| it.params["conversationId"].to_string());
        let turn = asked.map_or_else(|| "\"none\"".to_owned(), Request::turn);
        let round = asked.map_or(1, |it| it.round.max(1));
        let call = self.said.len();
        let members = format!(
            r#""name":"{tool}","conversationId":{conversation},"toolCallId":"call {call}","turnId":{turn},"roundId":{round},"input":{{"of":{conversation}}},"#
        );
        let method = match confirmation {
            true => "conversation/invokeClientToolConfirmation",
            false => "conversation/invokeClientTool",
        };
        let allowed = allows(&server.set, tool);
        let n = self.server_asks(process, id, method, &members);
        let server = &self.servers[&process];
        if self.is_over() || server.is_to_end() || server.life != Life::Running {
            return;
        }
        let answered =
            self.sent.iter().any(|(to, it)| *to == Peer::Backend(process) && it.get("method").is_none());
        let heard = !self.said[&n].heard.is_empty();
        assert!(answered != heard, "a call is neither answered nor asked, or both: {:?}", self.sent);
        assert!(allowed || answered);
    }

    /// Exactly the tools outside the set are removed.
    fn offer_mcp_tools(&mut self, process: ProcessId) {
        let tool = |name: &str| format!(r#"{{"name":"{name}","_status":"enabled"}}"#);
        let members = format!(r#""servers":[{{"name":"m","tools":[{},{}]}}],"#, tool("x"), tool("y"));
        self.call(Peer::Backend(process), None, "copilot/mcpTools", &members);
        let server = &self.servers[&process];
        if self.is_over() || server.is_to_end() || !self.script.copilot {
            return;
        }
        let told = self.sent.iter().filter(|(_, it)| it["method"] == "mcp/updateToolsStatus");
        let told: Vec<&Value> = told.map(|(_, it)| &it["params"]["servers"][0]["tools"]).collect();
        let off = |name: &str| json!({"name": name, "status": "disabled"});
        match allows(&server.set, "mcp_m_x") {
            true => assert_eq!(told, Vec::<&Value>::new()),
            false => assert_eq!(told, [&json!([off("x"), off("y")])]),
        }
    }

    fn work(&mut self, process: ProcessId, token: u8, begun: bool, kind: &str) {
        let tokens = &mut self.servers.get_mut(&process).expect("it speaks").tokens;
        let chosen: Vec<String> =
            tokens.iter().filter(|(_, it)| **it == begun).map(|it| it.0.clone()).collect();
        let Some(token) = chosen.get(usize::from(token) % chosen.len().max(1)) else { return };
        match kind {
            "begin" => drop(tokens.insert(token.clone(), true)),
            "end" => drop(tokens.remove(token)),
            _ => {}
        }
        let members = format!(r#""token":{token},"value":{{"kind":"{kind}"}},"#);
        self.call(Peer::Backend(process), None, "$/progress", &members);
    }

    fn turn(&mut self, process: ProcessId, at: usize, kind: &str) {
        self.progress(process, at, kind, "");
    }

    /// `more` is empty, or ends with a comma.
    fn progress(&mut self, process: ProcessId, at: usize, kind: &str, more: &str) {
        let request = &self.servers[&process].requests[at];
        let (token, conversation) = (&request.params["workDoneToken"], &request.params["conversationId"]);
        let turn = request.turn();
        let members = format!(
            r#""token":{token},"value":{{{more}"kind":"{kind}","conversationId":{conversation},"turnId":{turn}}},"#
        );
        self.call(Peer::Backend(process), None, "$/progress", &members);
    }

    fn report_turn(&mut self, process: ProcessId, at: usize, what: u8) {
        let request = &mut self.servers.get_mut(&process).expect("it speaks").requests[at];
        request.round = (request.round + u64::from(what % 2)).max(1);
        let round = request.round;
        let call = |status: &str| {
            let tool = if what.is_multiple_of(16) { "mcp" } else { "shared" };
            format!(
                r#","toolCalls":[{{"id":"own {round}","name":"b","toolType":"{tool}","status":"{status}","input":{{}}}}]"#
            )
        };
        let (text, calls) = match what / 2 % 4 {
            0 => ("", String::new()),
            1 => ("text", String::new()),
            2 => ("", call("running")),
            _ => ("", call("completed")),
        };
        let counts = if what.is_multiple_of(31) { r#""tokenUsage":{},"# } else { "" };
        let more = format!(r#"{counts}"editAgentRounds":[{{"roundId":{round},"reply":"{text}"{calls}}}],"#);
        self.progress(process, at, "report", &more);
    }

    fn answer(&mut self, process: ProcessId, at: usize, fails: bool) {
        if std::mem::take(&mut self.servers.get_mut(&process).expect("it speaks").requests[at].begun) {
            self.turn(process, at, "end");
        }
        let said = u64::try_from(self.said.len()).expect("not that many");
        let server = self.servers.get_mut(&process).expect("it speaks");
        let request = &mut server.requests[at];
        request.answered = true;
        let (id, method, re) = (request.id.clone(), request.method.clone(), request.n);
        let offered = request.offered.clone();
        if is_tools(&method) && !fails {
            server.shown = Some(offered.clone());
        }
        if method == "initialize" {
            server.opened |= !fails && !server.ending;
            server.restored = if re.is_none() { Some(said) } else { server.restored };
        }
        let tool = |id: &String| {
            json!({"id": id, "name": id.split_once('.').expect("ids have a dot").1}).to_string()
        };
        let re = re.map_or(String::new(), |re| format!(r#""re":{re},"#));
        let n = said + 1;
        if fails {
            if method == "initialize" {
                self.note_lost(process);
            }
            let error = format!(r#"{{ "code":-32001,"message":"no","data":{{{re}"n":{n}}}}}"#);
            self.say(Peer::Backend(process), Some(&id), |_| vec![("error", error)]);
            return;
        }
        if asks_for_proof(&json!({"params": server.requests[at].params})) {
            let error = proof().to_string();
            self.say(Peer::Backend(process), Some(&id), |_| vec![("error", error)]);
            return;
        }
        let result = match method.as_str() {
            // The first entry of the answer, a tool of every set, shows whom it concerns.
            it if is_tools(it) => {
                let first =
                    (!re.is_empty()).then(|| format!(r#"{{{re}"n":{n},"id":"copilot.own","name":"own"}}"#));
                let all: Vec<String> = first.into_iter().chain(offered.iter().map(tool)).collect();
                format!("[{}]", all.join(", "))
            }
            "conversation/create" | "conversation/turn" => {
                let turn = self.servers[&process].requests[at].turn();
                numbered(n, &format!(r#"{re}"turnId":{turn},"#))
            }
            _ => numbered(n, &re),
        };
        self.say(Peer::Backend(process), Some(&id), |_| vec![("result", result)]);
    }

    /// Answers what lspool itself wants, and the first `initialize`; whether there was anything.
    pub(super) fn answer_own(&mut self, process: ProcessId) -> bool {
        let own = |it: &Request| !it.answered && (it.n.is_none() || it.method == "initialize");
        // It may have been given another name meanwhile.
        let found = self.servers.get(&process).and_then(|it| it.requests.iter().position(own));
        if let Some(at) = found.filter(|_| !self.is_over()) {
            self.answer(process, at, false);
        }
        found.is_some()
    }

    pub(super) fn answer_all(&mut self, process: ProcessId) {
        while let Some(at) = self.servers.get(&process).and_then(|it| it.owes().first().copied()) {
            if self.is_over() || self.servers[&process].life != Life::Running {
                return;
            }
            self.answer(process, at, false);
        }
    }

    pub(super) fn server_hears(&mut self, process: ProcessId, frame: &Frame, message: &Value) {
        let undecided = self.is_undecided();
        let server = self.servers.get_mut(&process).expect("it runs");
        // The shell drops messages to a process that it ends.
        let late = server.ending
            && (is_response(frame)
                || matches!(frame.method(), Some("$/cancelRequest" | "window/workDoneProgress/cancel")));
        assert!(late || !server.exit_told, "told after its exit: {message}");
        if late || server.deaf {
            return;
        }
        let first = server.requests.is_empty();
        let method = frame.method().unwrap_or_default();
        assert!(!first || method == "initialize", "the first thing a process is told is {message}");
        let params = &message["params"];
        match frame.kind() {
            Kind::Request => {
                let id = asked_id(message).expect("a request has an id");
                assert!(server.requests.iter().all(|it| it.id != id), "an id is used twice: {message}");
                if matches!(method, "conversation/create" | "conversation/turn") && self.script.copilot {
                    server.check_restricted();
                    assert!(server.set == "*" || !undecided, "a turn passes a change of the catalog");
                }
                server.offer(method, params);
                // The editor's own `initialize` opens the very first process only.
                let own = method == "initialize" && process != crate::core::tests::stage::process(0, 1);
                server.requests.push(Request {
                    id,
                    n: number(message).filter(|_| !own),
                    method: method.to_owned(),
                    params: params.clone(),
                    answered: false,
                    offered: server.offered.clone(),
                    begun: false,
                    ended: false,
                    round: 0,
                });
            }
            Kind::Response => {
                let id = id(message);
                let asked = server
                    .asked
                    .iter()
                    // A confirmation may come from the previous process.
                    .position(|(it, n)| {
                        *it == id
                            && re(message).is_none_or(|re| re == *n || self.said[&re].method() == CONFIRM)
                    });
                let at = asked.unwrap_or_else(|| panic!("{process:?} has not asked: {message}"));
                server.asked.remove(at);
            }
            Kind::Notification => match method {
                "exit" => server.exit_told = true,
                "initialized" => {
                    assert!(!server.initialized || number(message).is_some(), "initialized twice");
                    server.initialized = true;
                    server.offer(method, params);
                }
                "$/cancelRequest" => {
                    let id = params["id"].to_string();
                    assert!(server.requests.iter().any(|it| it.id == id), "never asked: {message}");
                }
                _ => apply(&mut server.documents, method, params),
            },
        }
    }

    /// The conditions after the last message.
    pub(super) fn check_servers(&self) {
        for process in self.with(Life::Running) {
            let server = &self.servers[&process];
            assert_eq!(server.asked, [], "{process:?} was never answered");
            assert_eq!(server.documents, self.editor.documents, "documents of {process:?}");
            for method in server.registered.values() {
                let known = self.editor.registered.values().any(|(it, _)| it == method);
                assert!(known, "{process:?} has registered {method}, and the editor does not know");
            }
        }
        for (id, (method, _)) in &self.editor.registered {
            let mut held = self.servers.values().filter(|it| it.life == Life::Running);
            assert!(
                held.any(|it| it.registered.values().any(|it| it == method)),
                "nobody holds {id}, {method}"
            );
        }
        assert!(self.servers.iter().all(|(id, it)| it.process == *id));
    }
}

const CONFIRM: &str = "conversation/invokeClientToolConfirmation";

pub(super) fn is_tools(method: &str) -> bool {
    matches!(
        method,
        "conversation/registerTools" | "conversation/unregisterTools" | "conversation/updateToolsStatus"
    )
}

/// Follows the documents that an editor has open.
pub(super) fn apply(documents: &mut Documents, method: &str, params: &Value) {
    let document = &params["textDocument"];
    let uri = document["uri"].as_str().unwrap_or_default().to_owned();
    let version = || document["version"].as_i64().expect("a version");
    match method {
        "textDocument/didOpen" => {
            let text = document["text"].as_str().expect("a text").to_owned();
            assert!(documents.insert(uri, (version(), text)).is_none(), "opened twice: {params}");
        }
        "textDocument/didChange" => {
            let before = documents.get_mut(&uri).unwrap_or_else(|| panic!("not open: {params}"));
            before.0 = version();
            for change in params["contentChanges"].as_array().expect("changes") {
                let text = change["text"].as_str().expect("a text");
                before.1 = if change.get("range").is_some() {
                    format!("{text}{}", before.1)
                } else {
                    text.to_owned()
                };
            }
        }
        "textDocument/didClose" => assert!(documents.remove(&uri).is_some(), "not open: {params}"),
        _ => {}
    }
}
