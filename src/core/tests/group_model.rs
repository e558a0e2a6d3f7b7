//! Random sessions of a group: edits, questions, answers, publications and deaths in any order.
//!
//! Each request of the editor is answered once, with what the members have said about it in time, by rank; what is about
//! an item, a command or a diagnostic reaches the member that has made it, and nobody else; each member has the editor's
//! texts; the editor sees the diagnostics of all, where the text is that they are about.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::{
    groups::group,
    stage::{EDITOR, Stage},
};
use crate::core::event::{Exit, Peer, ProcessId};

/// A request of which each able member gets a part, or one member all.
const QUESTIONS: [(&str, &str, Fan); 6] = [
    ("textDocument/hover", "hoverProvider", Fan::All),
    ("textDocument/completion", "completionProvider", Fan::All),
    ("textDocument/definition", "definitionProvider", Fan::All),
    ("textDocument/codeAction", "codeActionProvider", Fan::All),
    ("textDocument/formatting", "documentFormattingProvider", Fan::One),
    ("textDocument/documentSymbol", "documentSymbolProvider", Fan::One),
];

/// How long others are waited for once a member has something to say.
fn budget(method: &str) -> Duration {
    Duration::from_millis(match method {
        "textDocument/completion" => 300,
        "textDocument/hover" => 500,
        "textDocument/codeAction" => 1000,
        _ => 3000,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fan {
    All,
    One,
}

/// What a member can do: its sync kind, and the questions that it answers.
#[derive(Clone, Debug)]
struct Skill {
    whole_texts: bool,
    answers: [bool; QUESTIONS.len()],
    /// Whether it offers the command that all call by the same name.
    runs: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Insert(usize, usize),
    Delete(usize, usize),
    Close(usize),
    Ask(usize, usize),
    Cancel(usize),
    /// A completion that the editor has got is resolved, or the command of a code action is run.
    Follow(usize),
    /// The member answers one of its open requests.
    Answer(usize, usize, Reply),
    Publish(usize, usize, usize),
    Die(usize),
    Wait(u64),
    /// A member that is late answers `initialize`.
    Rise,
}

#[derive(Clone, Copy, Debug)]
enum Reply {
    Something,
    Nothing,
    Error,
    /// A message that answers no request.
    Wrong,
}

const DOCUMENTS: usize = 2;

fn step() -> impl Strategy<Value = Step> {
    let document = 0..DOCUMENTS;
    let other = prop_oneof![Just(Reply::Nothing), Just(Reply::Error), Just(Reply::Wrong)];
    let reply = prop_oneof![4 => Just(Reply::Something), 3 => other];
    prop_oneof![
        2 => document.clone().prop_map(Step::Open),
        4 => (document.clone(), any::<usize>()).prop_map(|(it, at)| Step::Insert(it, at)),
        2 => (document.clone(), any::<usize>()).prop_map(|(it, at)| Step::Delete(it, at)),
        1 => document.clone().prop_map(Step::Close),
        6 => (0..QUESTIONS.len(), document.clone()).prop_map(|(it, of)| Step::Ask(it, of)),
        1 => any::<usize>().prop_map(Step::Cancel),
        3 => any::<usize>().prop_map(Step::Follow),
        8 => (0..3_usize, any::<usize>(), reply).prop_map(|(by, at, reply)| Step::Answer(by, at, reply)),
        4 => (0..3_usize, document, 0..40_usize).prop_map(|(by, of, n)| Step::Publish(by, of, n)),
        1 => (0..3_usize).prop_map(Step::Die),
        1 => Just(Step::Rise),
        2 => prop::sample::select(vec![5_u64, 60, 400, 2500, 9000]).prop_map(Step::Wait),
    ]
}

fn skill() -> impl Strategy<Value = Skill> {
    (any::<bool>(), any::<[bool; QUESTIONS.len()]>(), any::<bool>())
        .prop_map(|(whole_texts, answers, runs)| Skill { whole_texts, answers, runs })
}

impl Skill {
    fn capabilities(&self) -> Value {
        let mut all = json!({"textDocumentSync": if self.whole_texts { 1 } else { 2 }});
        for ((_, provider, _), can) in QUESTIONS.iter().zip(self.answers) {
            all[provider] = if can { json!({}) } else { json!(false) };
        }
        if self.answers[1] {
            all["completionProvider"] = json!({"resolveProvider": true});
        }
        if self.runs {
            all["executeCommandProvider"] = json!({"commands": ["run"]});
        }
        all
    }
}

/// A text as one side has it.
type Texts = BTreeMap<String, String>;

/// A process of a member.
struct Server {
    process: ProcessId,
    texts: Texts,
    /// Its open requests: the id, the method, the number of the editor's request.
    open: Vec<(Value, String, u64)>,
    /// What it has published and not taken back.
    published: BTreeMap<String, Vec<Value>>,
}

/// A request of the editor's.
#[derive(Default)]
struct Asked {
    method: String,
    cancelled: bool,
    /// The members that it was sent to.
    members: BTreeSet<u32>,
    /// The parts with something in them, as their members have marked them.
    parts: Vec<String>,
    /// The request whose answer had the item that this is about.
    about: Option<u64>,
    /// When a member first had something to say, and who has answered.
    first_said: Option<Instant>,
    answered: BTreeSet<u32>,
    answer: Option<Value>,
}

struct Session {
    stage: Stage,
    skills: Vec<Skill>,
    servers: BTreeMap<u32, Server>,
    n_spawned: usize,
    texts: Texts,
    version: i64,
    asked: Vec<Asked>,
    shown: BTreeMap<String, Vec<Value>>,
    n_published: u64,
    has_died: bool,
    /// The request for `initialize` that the last member has not answered yet.
    late: Option<Value>,
    /// Publications of several members within a moment may wait.
    is_hasty: bool,
    /// Items of answers that can be followed up: the request, the method of that, and the parameters.
    items: Vec<(u64, &'static str, Value)>,
}

const RESOLVE: &str = "completionItem/resolve";
const RUN: &str = "workspace/executeCommand";

/// What a member has put into its item of an answer; some have nothing there.
fn data(n: u64, member: u32) -> Option<Value> {
    (!n.is_multiple_of(3)).then(|| json!({"of": member}))
}

fn uri(document: usize) -> String {
    format!("file:///d{document}")
}

fn offset(place: &Value) -> usize {
    usize::try_from(place["character"].as_u64().expect("a column")).expect("a small one")
}

/// The number of the member that has made something that is marked.
fn maker(text: &str) -> Option<u32> {
    text.split_once('<')?.1.split_once('>')?.0.split('.').nth(1)?.parse().ok()
}

/// Diagnostics after a part of the only line is replaced by another one of this length: each is where its text is.
fn moved(list: &mut Vec<Value>, (from, to): (usize, usize), length: usize) {
    list.retain(|it| {
        let (start, end) = (offset(&it["range"]["start"]), offset(&it["range"]["end"]));
        !(from <= start && end <= to) || (start == end && (start == from || start == to))
    });
    for it in list {
        let (start, end) = (offset(&it["range"]["start"]), offset(&it["range"]["end"]));
        let new_start = match start {
            it if it >= to => it + length + from - to,
            it if it <= from => it,
            _ => from + length,
        };
        let new_end = match end {
            it if it <= from => it,
            it if it >= to => it + length + from - to,
            _ => from,
        };
        it["range"]["start"]["character"] = new_start.into();
        it["range"]["end"]["character"] = new_end.max(new_start).into();
    }
}

/// The numbers of requests that a text names, written `<7>`.
fn numbers(text: &str) -> BTreeSet<u64> {
    text.split('<').skip(1).filter_map(|it| it.split_once('>')?.0.split('.').next()?.parse().ok()).collect()
}

impl Session {
    /// `before`: what the last member could do, which starts late.
    fn new(skills: Vec<Skill>, before: Option<&Skill>) -> Session {
        let names = &["a", "b", "c"][..skills.len()];
        let mut stage = group(names);
        if let (Some(before), Some(last)) = (before, names.last()) {
            stage.remembered.insert((*last).to_owned(), json!({"capabilities": before.capabilities()}));
        }
        let mut it = Session {
            stage,
            skills,
            servers: BTreeMap::new(),
            n_spawned: 0,
            texts: Texts::new(),
            version: 0,
            asked: Vec::new(),
            shown: BTreeMap::new(),
            n_published: 0,
            // Of a late member is not waited for either.
            has_died: before.is_some(),
            late: before.map(|_| Value::Null),
            is_hasty: false,
            items: Vec::new(),
        };
        let params = json!({"processId": 1, "capabilities": {}});
        it.stage.editor(json!({"id": "i", "method": "initialize", "params": params}));
        it.pump();
        it.stage.pass(Duration::from_secs(3));
        it.pump();
        it.stage.editor(json!({"method": "initialized", "params": {}}));
        it.pump();
        it
    }

    fn capabilities(&self, member: u32) -> Value {
        self.skills[member as usize].capabilities()
    }

    /// The late member answers.
    fn rise(&mut self) {
        let last = u32::try_from(self.skills.len() - 1).expect("a small number");
        let process = self.servers.get(&last).map(|it| it.process);
        if let (Some(id @ Value::Number(_)), Some(process)) = (self.late.take(), process) {
            let answer = json!({"id": id, "result": {"capabilities": self.capabilities(last)}});
            self.stage.server(process, answer);
        }
    }

    /// Everybody hears what was said to them, until nothing more is said.
    fn pump(&mut self) {
        loop {
            let spawned = self.stage.spawned[self.n_spawned..].to_vec();
            self.n_spawned += spawned.len();
            for process in spawned {
                let server =
                    Server { process, texts: Texts::new(), open: Vec::new(), published: BTreeMap::new() };
                self.servers.insert(process.backend.0, server);
            }
            let members: Vec<u32> = self.servers.keys().copied().collect();
            let mut is_quiet = true;
            for member in members {
                let process = self.servers[&member].process;
                for message in self.stage.take(Peer::Backend(process)) {
                    is_quiet = false;
                    self.member_hears(member, &message);
                }
            }
            for message in self.stage.take(EDITOR) {
                is_quiet = false;
                self.editor_hears(&message);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn member_hears(&mut self, member: u32, message: &Value) {
        let capabilities = self.capabilities(member);
        let Some(server) = self.servers.get_mut(&member) else { return };
        let params = &message["params"];
        let uri = params["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
        match message["method"].as_str().unwrap_or_default() {
            "initialize" if self.late.is_some() && member as usize + 1 == self.skills.len() => {
                self.late = Some(message["id"].clone());
            }
            "initialize" => {
                let answer = json!({"id": message["id"], "result": {"capabilities": capabilities}});
                let process = server.process;
                self.stage.server(process, answer);
            }
            "textDocument/didOpen" => {
                let text = params["textDocument"]["text"].as_str().expect("a text").to_owned();
                assert_eq!(server.texts.insert(uri, text), None, "opened twice");
            }
            "textDocument/didChange" => {
                let text = server.texts.get_mut(&uri).expect("it is open");
                for change in params["contentChanges"].as_array().expect("a list") {
                    let new = change["text"].as_str().expect("a text");
                    match change.get("range") {
                        Some(range) => {
                            assert_eq!(capabilities["textDocumentSync"], 2, "{change}");
                            text.replace_range(offset(&range["start"])..offset(&range["end"]), new);
                        }
                        None => new.clone_into(text),
                    }
                }
            }
            "textDocument/didClose" => assert!(server.texts.remove(&uri).is_some(), "it is open"),
            "$/cancelRequest" => {
                let open = server.open.iter().position(|it| it.0 == params["id"]);
                if let Some(at) = open {
                    let (id, ..) = server.open.remove(at);
                    let error = json!({"code": -32800, "message": "cancelled"});
                    let process = server.process;
                    self.stage.server(process, json!({"id": id, "error": error}));
                }
            }
            RESOLVE | RUN => self.member_is_followed_up(member, message),
            method => {
                let Some((_, provider, _)) = QUESTIONS.iter().find(|it| it.0 == method) else {
                    if message.get("id").is_some() && message.get("method").is_some() {
                        let process = server.process;
                        self.stage.server(process, json!({"id": message["id"], "result": null}));
                    }
                    return;
                };
                assert_ne!(capabilities[provider], json!(false), "{method} is asked of a member without it");
                let n = params["n"].as_u64().expect("its number");
                server.open.push((message["id"].clone(), method.to_owned(), n));
                if !self.has_died && !self.is_hasty {
                    self.check_asked(member, method, params);
                }
                self.asked[usize::try_from(n).expect("a small one")].members.insert(member);
            }
        }
    }

    /// A question about an item, or a command: it is the member's own, as the member has written it.
    fn member_is_followed_up(&mut self, member: u32, message: &Value) {
        let (params, method) = (&message["params"], message["method"].as_str().expect("a method"));
        let text = params.to_string();
        assert_eq!(maker(&text), Some(member), "another one has made it: {text}");
        let n = numbers(&text).into_iter().next().expect("a number");
        match method {
            RUN => assert_eq!(params["command"], "run"),
            _ => assert_eq!(params.get("data"), data(n, member).as_ref(), "{text}"),
        }
        let follows = params["n"].as_u64().or_else(|| params["arguments"][1].as_u64()).expect("its number");
        let server = self.servers.get_mut(&member).expect("it hears");
        server.open.push((message["id"].clone(), method.to_owned(), follows));
    }

    /// Only the best member that can is asked to format. Each member gets all of its own diagnostics.
    fn check_asked(&self, member: u32, method: &str, params: &Value) {
        if method == "textDocument/formatting" {
            let best = self.skills.iter().position(|it| it.answers[4]).expect("one can");
            assert_eq!(member as usize, best, "who formats");
        }
        if method == "textDocument/codeAction" {
            let own = format!("{member}: ");
            let is_own = |it: &&Value| it["message"].as_str().is_some_and(|it| it.starts_with(&own));
            let uri = params["textDocument"]["uri"].as_str().expect("a uri");
            let shown = self.shown.get(uri).into_iter().flatten().filter(is_own);
            let told = params["context"]["diagnostics"].as_array().expect("a list");
            assert_eq!(told.iter().collect::<Vec<_>>(), shown.collect::<Vec<_>>(), "whose diagnostics");
        }
    }

    fn editor_hears(&mut self, message: &Value) {
        let params = &message["params"];
        match (message["method"].as_str(), message["id"].as_u64()) {
            (Some("textDocument/publishDiagnostics"), _) => {
                let uri = params["uri"].as_str().expect("a uri").to_owned();
                let list = params["diagnostics"].as_array().expect("a list").clone();
                self.shown.insert(uri, list);
            }
            (Some(_), None) if message["id"].is_null() => {}
            (Some(_), _) => self.stage.editor(json!({"id": message["id"], "result": null})),
            (None, Some(n)) => self.editor_is_answered(n, message),
            (None, None) => {}
        }
    }

    fn editor_is_answered(&mut self, n: u64, message: &Value) {
        let asked = &mut self.asked[usize::try_from(n).expect("a small one")];
        assert!(asked.answer.is_none(), "answered twice: {message}");
        let text = message["result"].to_string();
        let others = numbers(&text).into_iter().find(|it| *it != asked.about.unwrap_or(n));
        assert_eq!(others, None, "{n} is answered with another's answer: {message}");
        let fan = QUESTIONS.iter().find(|it| it.0 == asked.method).map(|it| it.2);
        if fan == Some(Fan::All) && !asked.cancelled {
            let missing = asked.parts.iter().find(|it| !text.contains(*it));
            assert_eq!(missing, None, "said in time, and left out: {message}");
            let mut ranked = asked.parts.clone();
            ranked.sort_by_key(|it| maker(it));
            let places: Vec<_> = ranked.iter().map(|it| text.find(it.as_str())).collect();
            assert!(places.is_sorted(), "by rank: {message}");
            let is_late = asked.first_said.is_some_and(|it| it + budget(&asked.method) <= self.stage.now);
            let is_complete = asked.members.is_subset(&asked.answered);
            assert!(is_complete || is_late || self.has_died, "not all were waited for: {message}");
        }
        asked.answer = Some(message.clone());
        self.note_items(n, &message["result"]);
    }

    /// What of an answer can be followed up.
    fn note_items(&mut self, n: u64, result: &Value) {
        let method = self.asked[usize::try_from(n).expect("a small one")].method.clone();
        let list = result["items"].as_array().or_else(|| result.as_array()).into_iter().flatten();
        match method.as_str() {
            "textDocument/completion" => {
                self.items.extend(list.map(|it| (n, RESOLVE, it.clone())));
            }
            "textDocument/codeAction" => {
                let commands = list.filter_map(|it| it.get("command"));
                self.items.extend(commands.map(|it| (n, RUN, it.clone())));
            }
            _ => {}
        }
    }

    fn follow(&mut self, at: usize) {
        if self.items.is_empty() {
            return;
        }
        let (about, method, mut params) = self.items[at % self.items.len()].clone();
        let n = self.asked.len();
        match method {
            RUN => params["arguments"].as_array_mut().expect("a list").push(n.into()),
            _ => params["n"] = n.into(),
        }
        self.asked.push(Asked { method: method.to_owned(), about: Some(about), ..Asked::default() });
        self.stage.editor(json!({"id": n, "method": method, "params": params}));
    }

    /// The member answers one of its open requests.
    fn answer(&mut self, member: u32, at: usize, reply: Reply) {
        let Some(server) = self.servers.get_mut(&member).filter(|it| !it.open.is_empty()) else { return };
        let at = at % server.open.len();
        let (id, method, n) = server.open.remove(at);
        let mark = format!("<{n}.{member}>");
        let place = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}});
        let result = match method.as_str() {
            "textDocument/hover" => json!({"contents": {"kind": "markdown", "value": mark}}),
            "textDocument/completion" => {
                let mut item = json!({"label": mark});
                if let Some(data) = data(n, member) {
                    item["data"] = data;
                }
                json!({"isIncomplete": false, "items": [item]})
            }
            "textDocument/definition" => json!([{"uri": format!("file:///{mark}"), "range": place}]),
            "textDocument/codeAction" if self.skills[member as usize].runs => {
                let command = json!({"title": "t", "command": "run", "arguments": [mark]});
                json!([{"title": mark, "kind": "quickfix", "command": command}])
            }
            "textDocument/codeAction" => json!([{"title": mark, "kind": "quickfix"}]),
            RESOLVE | RUN => json!({"detail": "d"}),
            "textDocument/formatting" => json!([{"range": place, "newText": mark}]),
            _ => json!([{"name": mark, "kind": 12, "range": place, "selectionRange": place}]),
        };
        let asked = &mut self.asked[usize::try_from(n).expect("a small one")];
        asked.answered.insert(member);
        let message = match reply {
            Reply::Something => {
                asked.first_said.get_or_insert(self.stage.now);
                asked.parts.push(mark);
                json!({"id": id, "result": result})
            }
            Reply::Nothing => json!({"id": id, "result": null}),
            Reply::Error => json!({"id": id, "error": {"code": -32001, "message": "no"}}),
            Reply::Wrong => json!({"id": id, "result": 5}),
        };
        let process = server.process;
        self.stage.server(process, message);
    }

    fn publish(&mut self, member: u32, document: usize, n: usize) {
        let Some(server) = self.servers.get_mut(&member) else { return };
        let list: Vec<Value> = (0..n % 3)
            .map(|it| {
                self.n_published += 1;
                let start = (n / 3 + it) % 5;
                let end = start + n % 4;
                let at = |character: usize| json!({"line": 0, "character": character});
                let place = json!({"start": at(start), "end": at(end)});
                json!({"range": place, "message": format!("{member}: {it} of {}", self.n_published)})
            })
            .collect();
        server.published.insert(uri(document), list.clone());
        let process = server.process;
        let params = json!({"uri": uri(document), "diagnostics": list});
        self.stage.server(process, json!({"method": "textDocument/publishDiagnostics", "params": params}));
    }

    fn edit(&mut self, document: usize, at: usize, inserted: &str) {
        let uri = uri(document);
        let Some(text) = self.texts.get_mut(&uri) else { return };
        let at = at % (text.len() + 1);
        let end = if inserted.is_empty() { (at + 2).min(text.len()) } else { at };
        text.replace_range(at..end, inserted);
        let marked = self.servers.values_mut().filter_map(|it| it.published.get_mut(&uri));
        // Nobody knows what has become of a whole text.
        if !self.skills.iter().all(|it| it.whole_texts) {
            let all = marked.chain(self.shown.get_mut(&uri));
            all.for_each(|it| moved(it, (at, end), inserted.len()));
        }
        self.version += 1;
        let range = json!({"start": {"line": 0, "character": at}, "end": {"line": 0, "character": end}});
        let params = json!({
            "textDocument": {"uri": uri, "version": self.version},
            "contentChanges": [{"range": range, "text": inserted}],
        });
        // An editor sends what the answer to `initialize` has asked for.
        let whole = self.skills.iter().all(|it| it.whole_texts);
        let changed = json!({
            "textDocument": {"uri": uri, "version": self.version},
            "contentChanges": [{"text": self.texts[&uri]}],
        });
        let params = if whole { changed } else { params };
        self.stage.editor(json!({"method": "textDocument/didChange", "params": params}));
    }

    fn play(&mut self, step: &Step) {
        let n_members = self.skills.len();
        let member = |it: usize| u32::try_from(it % n_members).expect("a small one");
        match *step {
            Step::Open(document) => {
                if !self.texts.contains_key(&uri(document)) {
                    self.version += 1;
                    self.texts.insert(uri(document), "text".to_owned());
                    let document = json!({"uri": uri(document), "languageId": "x", "version": self.version, "text": "text"});
                    let params = json!({"textDocument": document});
                    self.stage.editor(json!({"method": "textDocument/didOpen", "params": params}));
                }
            }
            Step::Insert(document, at) => self.edit(document, at, "ab"),
            Step::Delete(document, at) => self.edit(document, at, ""),
            Step::Close(document) => {
                if self.texts.remove(&uri(document)).is_some() {
                    let params = json!({"textDocument": {"uri": uri(document)}});
                    self.stage.editor(json!({"method": "textDocument/didClose", "params": params}));
                }
            }
            Step::Ask(question, document) => {
                let (method, ..) = QUESTIONS[question];
                let n = self.asked.len();
                self.asked.push(Asked { method: method.to_owned(), ..Asked::default() });
                let params = json!({
                    "textDocument": {"uri": uri(document)},
                    "position": {"line": 0, "character": 0},
                    "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}},
                    "context": {"diagnostics": self.shown.get(&uri(document)).cloned().unwrap_or_default()},
                    "n": n,
                });
                self.stage.editor(json!({"id": n, "method": method, "params": params}));
            }
            Step::Cancel(at) => {
                if !self.asked.is_empty() {
                    let n = at % self.asked.len();
                    self.asked[n].cancelled = true;
                    self.stage.editor(json!({"method": "$/cancelRequest", "params": {"id": n}}));
                }
            }
            Step::Follow(at) => self.follow(at),
            Step::Answer(by, at, reply) => self.answer(member(by), at, reply),
            Step::Publish(by, document, n) => self.publish(member(by), document, n),
            Step::Die(by) => {
                if let Some(server) = self.servers.remove(&member(by)) {
                    self.has_died = true;
                    self.late = self.late.take().filter(|_| member(by) as usize + 1 < n_members);
                    self.stage.exited(server.process, Exit::Signal(9));
                }
            }
            Step::Rise => self.rise(),
            Step::Wait(time) => self.stage.pass(Duration::from_millis(time)),
        }
        self.pump();
        self.is_hasty |= matches!(step, Step::Publish(_, _, n) if n % 2 == 1);
        self.is_hasty &= !matches!(step, Step::Answer(..) | Step::Wait(_));
        if !self.has_died && !self.is_hasty {
            self.stage.pass(Duration::from_millis(20));
            self.pump();
            self.check_shown();
        }
    }

    /// The editor sees what all members have published, in their order.
    fn check_shown(&self) {
        let uris: BTreeSet<&String> =
            self.servers.values().flat_map(|it| it.published.keys()).chain(self.shown.keys()).collect();
        for uri in uris {
            let all: Vec<&Value> =
                self.servers.values().filter_map(|it| it.published.get(uri)).flatten().collect();
            let shown: Vec<&Value> = self.shown.get(uri).into_iter().flatten().collect();
            assert_eq!(shown, all, "{uri}");
        }
    }

    /// Members answer, dead ones come back, time passes.
    fn settle(&mut self) {
        self.rise();
        for _ in 0..60 {
            self.pump();
            for member in 0..u32::try_from(self.skills.len()).expect("a small number") {
                self.answer(member, 0, Reply::Nothing);
                self.pump();
            }
            self.stage.pass(Duration::from_secs(4));
        }
        self.pump();
        for (n, asked) in self.asked.iter().enumerate() {
            assert!(asked.answer.is_some(), "{n} is not answered");
        }
        for (member, server) in &self.servers {
            assert_eq!(server.texts, self.texts, "texts of member {member}");
        }
        self.check_shown();
    }
}

fn run(skills: Vec<Skill>, before: Option<&Skill>, steps: &[Step]) {
    let mut session = Session::new(skills, before);
    for step in steps {
        session.play(step);
    }
    session.settle();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn members_of_any_session_are_told_all_and_heard_together(
        skills in vec(skill(), 2..=3),
        steps in vec(step(), 1..60),
    ) {
        run(skills, None, &steps);
    }

    #[test]
    fn late_member_of_any_session_is_told_all_and_asked_what_it_can(
        skills in vec(skill(), 2..=3),
        before in skill(),
        steps in vec(step(), 1..40),
    ) {
        run(skills, Some(&before), &steps);
    }
}
