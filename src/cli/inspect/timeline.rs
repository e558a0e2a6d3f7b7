//! Turns messages into rows. A request and its answer are one row.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{
    goals::{EVENT, Goals, ORCHESTRATE},
    is_like,
};
use crate::{
    core::event::Exit,
    recording::{
        format,
        source::{EDITOR, Entry, Side, What, parsed},
    },
    rpc::{Frame, Kind},
};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) at: Duration,
    pub(super) took: Option<Duration>,
    /// How long lspool held it until a process could take it.
    pub(super) waited: Option<Duration>,
    /// The process of a transcript.
    pub(super) process: Arc<str>,
    pub(super) group: Group,
    /// Whether the server sent it.
    pub(super) is_of_server: bool,
    pub(super) method: String,
    /// The subject of the row.
    pub(super) detail: String,
    pub(super) outcome: Outcome,
}

/// The group of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Group {
    Session,
    Conversation(String),
    /// Starts and ends of processes.
    Processes,
}

/// The outcome of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A success, with or without a note.
    Fine(String),
    /// A failure.
    Bad(String),
    /// No outcome was recorded.
    Open,
}

/// The whole timeline.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pub(super) rows: Vec<Row>,
    pub(super) messages: usize,
    pub(super) length: Duration,
    pub(super) is_of_lspool: bool,
    /// The processes that served each conversation, in order.
    pub(super) served: BTreeMap<String, Vec<Arc<str>>>,
    /// The processes in a recording of lspool, with their server and tools.
    pub(super) processes: BTreeMap<Arc<str>, String>,
    pub(super) goals: Goals,
    /// Why the recording ends.
    pub(super) end: Option<String>,
    /// A pattern of methods whose notifications are shown too.
    shown: Option<String>,
    /// The rows of open requests, by process, asking side, and id.
    open: HashMap<(Arc<str>, bool, String), usize>,
    /// The rows of turns, by process and token.
    tokens: HashMap<(Arc<str>, String), usize>,
    /// By method and what it is about: requests of the editor that no process has got.
    held: HashMap<(String, String), VecDeque<usize>>,
    /// Processes that were told to end.
    told_to_end: BTreeSet<Arc<str>>,
}

/// An id for people.
fn name(id: &Value) -> Option<String> {
    match id {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

impl Timeline {
    /// An empty timeline. `shown` is a pattern of methods whose notifications are shown too.
    pub(super) fn new(shown: Option<&str>) -> Timeline {
        Timeline { shown: shown.map(ToOwned::to_owned), ..Timeline::default() }
    }

    /// Adds a line of the recording.
    pub(super) fn add(&mut self, entry: &Entry, is_of_lspool: bool) {
        self.is_of_lspool = is_of_lspool;
        self.length = self.length.max(entry.at);
        let is_editor = &*entry.process == EDITOR;
        match &entry.what {
            What::Happened(kind, data) => self.happened(entry, *kind, data),
            What::Unreadable { reason, .. } => {
                self.note(entry, Outcome::Bad(format!("sent an invalid message: {reason}")));
            }
            What::Said(side, frame) if !is_of_lspool || is_editor => {
                self.messages += 1;
                self.said(entry, *side, frame);
            }
            What::Said(Side::Client, frame) => self.passed_on(entry, frame),
            What::Said(Side::Server, _) => {}
        }
    }

    /// The ids of all conversations, in the order in which they begin.
    pub(super) fn conversations(&self) -> Vec<String> {
        let mut ids: Vec<String> = Vec::new();
        for row in &self.rows {
            match &row.group {
                Group::Conversation(id) if !ids.contains(id) => ids.push(id.clone()),
                Group::Conversation(_) | Group::Session | Group::Processes => {}
            }
        }
        ids
    }

    /// All there is to show.
    pub(super) fn finish(mut self) -> Timeline {
        if self.is_of_lspool && self.end.is_none() {
            self.end = Some("it was cut off".to_owned());
        }
        self
    }

    /// lspool says something to a process: which conversations it serves, and how long a request waited.
    fn passed_on(&mut self, entry: &Entry, frame: &Frame) {
        let (Kind::Request, Some(method)) = (frame.kind(), frame.method()) else { return };
        let params = parsed(frame.params());
        // The ids differ, but requests of one kind keep their order.
        let key = (method.to_owned(), detail(method, &params));
        if let Some(row) = self.held.get_mut(&key).and_then(VecDeque::pop_front) {
            self.rows[row].waited = Some(entry.at.saturating_sub(self.rows[row].at));
        }
        if !matches!(method, "conversation/create" | "conversation/turn") {
            return;
        }
        let process = &entry.process;
        let Some(conversation) = name(&params["conversationId"]) else { return };
        let served = self.served.entry(conversation).or_default();
        if served.last() != Some(process) {
            served.push(process.clone());
        }
    }

    fn said(&mut self, entry: &Entry, side: Side, frame: &Frame) {
        let is_of_server = side == Side::Server;
        match frame.kind() {
            Kind::Request => {
                let row = self.row(entry, is_of_server, frame, Outcome::Open);
                if let (true, false, Some(of)) = (self.is_of_lspool, is_of_server, self.rows.get(row)) {
                    let key = (of.method.clone(), of.detail.clone());
                    self.held.entry(key).or_default().push_back(row);
                }
                if let Some(id) = frame.id() {
                    self.open.insert((entry.process.clone(), is_of_server, id.to_string()), row);
                }
            }
            Kind::Notification => {
                let method = frame.method().unwrap_or_default();
                match method {
                    "$/progress" => self.progress(entry, &parsed(frame.params())),
                    EVENT => return self.orchestrated(entry, &parsed(frame.params())),
                    _ => {}
                }
                if self.shown.as_ref().is_some_and(|it| is_like(method, it)) {
                    self.row(entry, is_of_server, frame, Outcome::Fine(String::new()));
                }
            }
            Kind::Response => {
                let id = frame.id().map(|it| it.to_string()).unwrap_or_default();
                if let Some(row) = self.open.remove(&(entry.process.clone(), !is_of_server, id)) {
                    self.answered(row, entry.at, frame);
                }
            }
        }
    }

    fn row(&mut self, entry: &Entry, is_of_server: bool, frame: &Frame, outcome: Outcome) -> usize {
        let method = frame.method().unwrap_or_default().to_owned();
        let params = parsed(frame.params());
        let conversation =
            name(&params["conversationId"]).or_else(|| name(&params["value"]["conversationId"]));
        let row = self.rows.len();
        if let Some(token) = params.get("workDoneToken").filter(|it| !it.is_null()) {
            self.tokens.insert((entry.process.clone(), token.to_string()), row);
        }
        self.rows.push(Row {
            at: entry.at,
            took: None,
            waited: None,
            process: entry.process.clone(),
            group: conversation.map_or(Group::Session, Group::Conversation),
            is_of_server,
            detail: detail(&method, &params),
            method,
            outcome,
        });
        row
    }

    /// Notes the conversation and the end of a turn.
    fn progress(&mut self, entry: &Entry, params: &Value) {
        let key = (entry.process.clone(), params["token"].to_string());
        let Some(row) = self.tokens.get(&key).and_then(|it| self.rows.get_mut(*it)) else { return };
        let value = &params["value"];
        if let (Group::Session, Some(conversation)) = (&row.group, name(&value["conversationId"])) {
            row.group = Group::Conversation(conversation);
        }
        if value["kind"] == "end" {
            let error = value["error"]["message"].as_str().or(value["cancellationReason"].as_str());
            if let Some(error) = error {
                row.outcome = Outcome::Bad(error.to_owned());
            }
        }
    }

    fn answered(&mut self, row: usize, at: Duration, frame: &Frame) {
        let of = &self.rows[row];
        // Cancelled while it waited, or not for a process.
        if of.waited.is_none()
            && let Some(held) = self.held.get_mut(&(of.method.clone(), of.detail.clone()))
        {
            held.retain(|it| *it != row);
        }
        let row = &mut self.rows[row];
        row.took = Some(at.saturating_sub(row.at));
        if let Some(error) = frame.error_value() {
            let error = parsed(Some(error));
            row.outcome = Outcome::Bad(format!(
                "error {}: {}",
                error["code"],
                error["message"].as_str().unwrap_or_default()
            ));
            return;
        }
        if row.outcome != Outcome::Open {
            return;
        }
        let result = parsed(frame.result());
        row.outcome = match row.method.as_str() {
            "conversation/invokeClientTool" | "conversation/invokeClientToolConfirmation" => tool(&result),
            ORCHESTRATE if result["state"] != "done" => Outcome::Bad(text(&result["state"], "failed")),
            _ => Outcome::Fine(String::new()),
        };
        if let (Group::Session, Some(conversation)) = (&row.group, name(&result["conversationId"])) {
            row.group = Group::Conversation(conversation);
        }
    }

    fn happened(&mut self, entry: &Entry, kind: format::Kind, data: &Value) {
        let process = &entry.process;
        let outcome = match kind {
            format::Kind::Spawn | format::Kind::Adopt => {
                let tools = data["backend"]["tools"].as_array().into_iter().flatten();
                let tools: Vec<&str> = tools.filter_map(Value::as_str).collect();
                let name = data["backend"]["name"].as_str().unwrap_or("spare");
                let about = match tools.as_slice() {
                    [] | ["*"] => name.to_owned(),
                    // The name of a partition contains its tools.
                    _ if name.contains('"') => name.to_owned(),
                    tools => format!("{name} ({})", tools.join(", ")),
                };
                self.processes.insert(process.clone(), about);
                if kind == format::Kind::Spawn {
                    return;
                }
                Outcome::Fine("adopted a spare".to_owned())
            }
            format::Kind::Spawned => {
                let again = if process.ends_with(".1") { "" } else { " again" };
                Outcome::Fine(format!("started{again} (process {})", data["pid"]))
            }
            format::Kind::SpawnFailed => Outcome::Bad(text(&data["message"], "could not start")),
            format::Kind::Terminate => {
                self.told_to_end.insert(process.clone());
                return;
            }
            format::Kind::Exited => self.exited(process, data),
            format::Kind::Stalled => Outcome::Bad("reads nothing".to_owned()),
            format::Kind::Unprepared => Outcome::Bad(text(&data["error"], "no server found")),
            format::Kind::Panic => Outcome::Bad("lspool has panicked".to_owned()),
            format::Kind::FilesChanged => Outcome::Fine("a configuration file has changed".to_owned()),
            format::Kind::Quit => {
                Outcome::Fine(format!("lspool was told to end by signal {}", data["signal"]))
            }
            format::Kind::EditorGone => Outcome::Bad("the editor has exited".to_owned()),
            format::Kind::Done => {
                self.end = Some("lspool has ended".to_owned());
                return;
            }
            format::Kind::Full => {
                self.end = Some("the recording reached its maximum size".to_owned());
                return;
            }
            format::Kind::TooSlow => {
                self.end = Some("the disk was too slow".to_owned());
                return;
            }
            format::Kind::Message
            | format::Kind::Malformed
            | format::Kind::Closed
            | format::Kind::Unwritable
            | format::Kind::Prepared
            | format::Kind::TranscriptWritten
            | format::Kind::TeamsLoaded
            | format::Kind::TeamWritten
            | format::Kind::ModeKept
            | format::Kind::Recalled
            | format::Kind::RootFound
            | format::Kind::ToolRan
            | format::Kind::Looked
            | format::Kind::Wrote
            | format::Kind::Fetched
            | format::Kind::Measured
            | format::Kind::EditorReads
            | format::Kind::Muttered
            | format::Kind::Displaced
            | format::Kind::Unshared
            | format::Kind::Drained
            | format::Kind::Timeout
            | format::Kind::Prepare
            | format::Kind::WatchEditor
            | format::Kind::WriteTranscript
            | format::Kind::RemoveTranscript
            | format::Kind::RemoveTranscripts
            | format::Kind::FileRead
            | format::Kind::ReadFile
            | format::Kind::HangUp
            | format::Kind::LoadTeams
            | format::Kind::WriteTeam
            | format::Kind::RemoveTeam
            | format::Kind::KeepMode
            | format::Kind::FindRoot
            | format::Kind::Recall
            | format::Kind::Remember
            | format::Kind::RunTool
            | format::Kind::CancelTool
            | format::Kind::Look
            | format::Kind::Write
            | format::Kind::Fetch
            | format::Kind::Measure
            | format::Kind::Logs
            | format::Kind::CloseInput
            | format::Kind::AwaitDrained
            | format::Kind::Exit => return,
        };
        self.note(entry, outcome);
    }

    /// Adds a row about a process or the editor.
    fn note(&mut self, entry: &Entry, outcome: Outcome) {
        self.rows.push(Row {
            at: entry.at,
            took: None,
            waited: None,
            process: entry.process.clone(),
            group: Group::Processes,
            is_of_server: true,
            method: String::new(),
            detail: String::new(),
            outcome,
        });
    }

    fn exited(&self, process: &Arc<str>, data: &Value) -> Outcome {
        let exit = &data["exit"];
        let how = match (exit["code"].as_i64(), exit["signal"].as_i64()) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        };
        if self.told_to_end.contains(process) || exit["code"] == 0 {
            return Outcome::Fine(how);
        }
        let signal = exit["signal"].as_i64().and_then(|it| i32::try_from(it).ok());
        if signal.is_some_and(|it| Exit::Signal(it).is_from_outside()) {
            return Outcome::Bad(how);
        }
        let last = data["stderr"]
            .as_str()
            .unwrap_or_default()
            .lines()
            .rfind(|it| it.contains(char::is_alphanumeric));
        Outcome::Bad(last.map_or_else(|| how.clone(), |last| format!("{how}: {last}")))
    }
}

fn text(value: &Value, otherwise: &str) -> String {
    value.as_str().unwrap_or(otherwise).to_owned()
}

/// The subject of a request, if a few words can say it.
fn detail(method: &str, params: &Value) -> String {
    let quoted = |it: &Value| it.as_str().map(|it| format!("{:?}", it.lines().next().unwrap_or_default()));
    let last_turn = params["turns"].as_array().and_then(|it| it.last());
    let file = params["textDocument"]["uri"].as_str().and_then(|it| it.rsplit('/').next());
    let found = match method {
        "conversation/create" => last_turn.and_then(|it| quoted(&it["request"])),
        "conversation/turn" => quoted(&params["message"]),
        "conversation/invokeClientTool" | "conversation/invokeClientToolConfirmation" => {
            let agent = params["lspool"]["agent"].as_str().map(|it| format!("{it}: ")).unwrap_or_default();
            params["name"].as_str().map(|it| format!("{agent}{it} {}", params["input"]))
        }
        ORCHESTRATE => quoted(&params["goal"]),
        "workspace/executeCommand" => params["command"].as_str().map(ToOwned::to_owned),
        "$/progress" => params["value"]["kind"].as_str().map(ToOwned::to_owned),
        _ => file.map(ToOwned::to_owned),
    };
    found.unwrap_or_default()
}

/// The outcome of a tool call or its confirmation.
fn tool(result: &Value) -> Outcome {
    let word = result[0]["status"].as_str().or(result[0]["result"].as_str());
    match word {
        None if result[0].is_null() => Outcome::Bad("no result".to_owned()),
        None => Outcome::Fine("success".to_owned()),
        Some(word @ ("error" | "cancelled" | "dismiss")) => Outcome::Bad(word.to_owned()),
        Some(word) => Outcome::Fine(word.to_owned()),
    }
}
