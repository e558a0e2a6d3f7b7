//! A dialogue by cause: for each request of the client, the messages of the server that follow from it.
//!
//! A *scene* is a request of the client and everything that belongs to it: its progress, questions of the server and
//! the client's answers, a cancellation, the answer. Scenes are independent, so a client may start them in another
//! order than the recorded one. Messages outside scenes (status, log, diagnostics) stay where they stood between the
//! messages of the client.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;

use super::likeness::fingerprint;
use crate::{
    recording::{
        reader::Problem,
        source::{Dialogue, Entry, Side, What, parsed},
    },
    rpc::{Frame, Kind},
};

/// A recording, ready to play.
#[derive(Debug, Default)]
pub struct Script {
    pub(super) entries: Vec<Entry>,
    pub(super) scenes: Vec<Scene>,
    /// The scenes in order, by method.
    pub(super) by_method: BTreeMap<String, Vec<usize>>,
    /// The notifications of the client in order, by method: entry and fingerprint.
    pub(super) notices: BTreeMap<String, Vec<(usize, u64)>>,
    /// The messages of the server outside scenes, in order.
    pub(super) aside: Vec<usize>,
    /// All messages of the client, in order.
    pub(super) cues: Vec<usize>,
    /// The client's answer to each request of the server.
    pub(super) replies: HashMap<usize, usize>,
    /// The end of the first process's part. Unasked messages of the others are left out.
    pub(super) first_part: usize,
    /// Whether the texts are masked.
    pub(super) is_masked: bool,
    /// When the process died unasked, and its exit status.
    pub(super) death: Option<(Duration, u8)>,
}

/// A request of the client and the messages that follow from it.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) request: usize,
    pub(super) method: String,
    pub(super) look: u64,
    /// The messages of the server and the waits for the client, in order.
    pub(super) steps: Vec<Step>,
    /// Whether its progress uses a token of the client.
    pub(super) has_token: bool,
    /// The conversations that it names, its own first.
    pub(super) conversations: Vec<Value>,
    /// The turns that it names, its own first.
    pub(super) turns: Vec<Value>,
    pub(super) is_answered: bool,
}

/// A step of a scene, with its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The server sends a message.
    Say(usize),
    /// The server waits for the answer to one of its requests.
    Hear(usize),
    /// The server waits for the request to be cancelled.
    Cancelled(usize),
}

impl Step {
    pub(super) fn entry(self) -> usize {
        match self {
            Step::Say(it) | Step::Hear(it) | Step::Cancelled(it) => it,
        }
    }
}

/// The members that decide where a message belongs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Belongs {
    token: Option<Value>,
    work_done_token: Option<Value>,
    partial_result_token: Option<Value>,
    conversation_id: Option<Value>,
    turn_id: Option<Value>,
    value: Option<Value>,
    id: Option<Value>,
}

/// The message of an entry.
pub(super) fn frame(entry: &Entry) -> &Frame {
    match &entry.what {
        What::Said(_, frame) => frame,
        What::Happened(..) | What::Unreadable { .. } => unreachable!("a dialogue holds nothing but messages"),
    }
}

impl Script {
    /// Takes a dialogue apart.
    pub fn new(dialogue: Dialogue) -> Result<Script, Problem> {
        let entries: Vec<Entry> = dialogue.entries;
        let is_first = |it: &Entry| it.process == entries[0].process;
        let script = Script {
            first_part: entries.iter().take_while(|it| is_first(it)).count(),
            entries,
            is_masked: dialogue.is_masked,
            death: dialogue.death,
            ..Script::default()
        };
        Sorting { script, ..Sorting::default() }.sort()
    }

    /// The message of an entry.
    pub(super) fn frame(&self, entry: usize) -> &Frame {
        frame(&self.entries[entry])
    }

    /// The parameters of an entry.
    pub(super) fn params(&self, entry: usize) -> Value {
        parsed(self.frame(entry).params())
    }

    /// The entry before which all messages may be sent once this one of the client has come.
    pub(super) fn next_cue(&self, cue: usize) -> usize {
        if cue >= self.first_part {
            return 0;
        }
        let next = self.cues.partition_point(|it| *it <= cue);
        self.cues.get(next).copied().unwrap_or(self.entries.len()).min(self.first_part)
    }
}

/// The state while entries are sorted. Names are recorded ones, as JSON.
#[derive(Default)]
struct Sorting {
    script: Script,
    /// The client's open requests, by id.
    asked: HashMap<String, usize>,
    /// The server's open requests with their scenes, by id.
    asking: HashMap<String, (usize, Option<usize>)>,
    /// The last scene, by token and by conversation.
    tokens: HashMap<String, usize>,
    conversations: HashMap<String, usize>,
    /// The scene of the client's last message.
    current: Option<usize>,
}

impl Sorting {
    fn sort(mut self) -> Result<Script, Problem> {
        for n in 0..self.script.entries.len() {
            let entry = &self.script.entries[n];
            let What::Said(side, frame) = &entry.what else { continue };
            let (side, frame, line) = (*side, frame.clone(), entry.line);
            // Another process has its own ids.
            if n > 0 && self.script.entries[n - 1].process != entry.process {
                self = Sorting { script: self.script, ..Sorting::default() };
            }
            if side == Side::Client {
                self.script.cues.push(n);
            }
            match (side, frame.kind()) {
                (Side::Client, Kind::Request) => self.request(n, &frame),
                (Side::Client, Kind::Notification) => self.notice(n, &frame),
                (Side::Client, Kind::Response) => self.reply(n, &frame),
                (Side::Server, Kind::Response) => self.answer(n, line, &frame)?,
                (Side::Server, Kind::Request) => self.question(n, &frame),
                (Side::Server, Kind::Notification) => self.told(n, &frame),
            }
        }
        Ok(self.script)
    }

    fn request(&mut self, n: usize, frame: &Frame) {
        let method = frame.method().unwrap_or_default().to_owned();
        let params = parsed(frame.params());
        let look = fingerprint(&params);
        let belongs = Belongs::deserialize(&params).unwrap_or_default();
        let scene = self.script.scenes.len();
        let has_token = belongs.work_done_token.is_some();
        for token in [belongs.work_done_token, belongs.partial_result_token].into_iter().flatten() {
            self.tokens.insert(token.to_string(), scene);
        }
        self.script.scenes.push(Scene {
            request: n,
            method: method.clone(),
            look,
            steps: Vec::new(),
            has_token,
            conversations: Vec::new(),
            turns: Vec::new(),
            is_answered: false,
        });
        self.name(scene, belongs.conversation_id, belongs.turn_id);
        self.script.by_method.entry(method).or_default().push(scene);
        if let Some(id) = frame.id() {
            self.asked.insert(id.to_string(), scene);
        }
        self.current = Some(scene);
    }

    /// Notes that a scene is about a conversation.
    fn name(&mut self, scene: usize, conversation: Option<Value>, turn: Option<Value>) {
        let it = &mut self.script.scenes[scene];
        if let Some(conversation) = conversation.filter(|it| !it.is_null()) {
            // A request about a conversation, such as a rating, is not the turn that continues it.
            if it.has_token || !self.conversations.contains_key(&conversation.to_string()) {
                self.conversations.insert(conversation.to_string(), scene);
            }
            if !it.conversations.contains(&conversation) {
                it.conversations.push(conversation);
            }
        }
        if let Some(turn) = turn.filter(|turn| !turn.is_null() && !it.turns.contains(turn)) {
            it.turns.push(turn);
        }
    }

    fn notice(&mut self, n: usize, frame: &Frame) {
        let method = frame.method().unwrap_or_default();
        let params = parsed(frame.params());
        let belongs = Belongs::deserialize(&params).unwrap_or_default();
        let cancelled = match method {
            "$/cancelRequest" => Some(belongs.id.and_then(|it| self.asked.get(&it.to_string()))),
            "window/workDoneProgress/cancel" => {
                Some(belongs.token.and_then(|it| self.tokens.get(&it.to_string())))
            }
            _ => None,
        };
        match cancelled {
            Some(Some(&scene)) if !self.script.scenes[scene].is_answered => {
                self.script.scenes[scene].steps.push(Step::Cancelled(n));
                self.current = Some(scene);
            }
            // A late answer is not an error.
            Some(_) => {}
            None => {
                let look = fingerprint(&params);
                self.script.notices.entry(method.to_owned()).or_default().push((n, look));
                self.current = None;
            }
        }
    }

    fn reply(&mut self, n: usize, frame: &Frame) {
        // lspool dropped an answer without a request.
        let Some((question, scene)) = frame.id().and_then(|it| self.asking.remove(&it.to_string())) else {
            return;
        };
        self.script.replies.insert(question, n);
        if let Some(scene) = scene {
            self.script.scenes[scene].steps.push(Step::Hear(n));
        }
        self.current = scene;
    }

    fn answer(&mut self, n: usize, line: usize, frame: &Frame) -> Result<(), Problem> {
        let id = frame.id().map(|it| it.to_string()).unwrap_or_default();
        let Some(scene) = self.asked.remove(&id) else {
            let what = format!(
                "an answer to request {id}, which is not in the recording: lines before it are missing"
            );
            return Err(Problem { line, what });
        };
        let belongs = Belongs::deserialize(parsed(frame.result())).unwrap_or_default();
        self.name(scene, belongs.conversation_id, belongs.turn_id);
        self.script.scenes[scene].is_answered = true;
        self.script.scenes[scene].steps.push(Step::Say(n));
        Ok(())
    }

    fn question(&mut self, n: usize, frame: &Frame) {
        let belongs = Belongs::deserialize(parsed(frame.params())).unwrap_or_default();
        let scene = self.scene_of(&belongs);
        // A request of the server right after one of the client belongs to it.
        let is_open = |it: &usize| !self.script.scenes[*it].is_answered;
        let scene = scene.or_else(|| self.current.filter(is_open));
        if let Some(id) = frame.id() {
            self.asking.insert(id.to_string(), (n, scene));
        }
        self.say(n, scene, belongs);
    }

    fn told(&mut self, n: usize, frame: &Frame) {
        let mut belongs = Belongs::deserialize(parsed(frame.params())).unwrap_or_default();
        if frame.method() == Some("$/cancelRequest") {
            let question = belongs.id.take().and_then(|it| self.asking.get(&it.to_string()));
            let scene = question.and_then(|(_, scene)| *scene);
            self.say(n, scene, Belongs::default());
            return;
        }
        let is_progress = frame.method() == Some("$/progress");
        let scene = if is_progress || belongs.token.is_none() { self.scene_of(&belongs) } else { None };
        if let Some(value) = belongs.value.take().filter(|_| is_progress) {
            let inner = Belongs::deserialize(value).unwrap_or_default();
            belongs = Belongs { token: belongs.token, ..inner };
        }
        self.say(n, scene, belongs);
    }

    /// The scene of a server's message, by its token or its conversation.
    fn scene_of(&self, belongs: &Belongs) -> Option<usize> {
        let by_token = belongs.token.as_ref().and_then(|it| self.tokens.get(&it.to_string()));
        let by_conversation =
            belongs.conversation_id.as_ref().and_then(|it| self.conversations.get(&it.to_string()));
        by_token.or(by_conversation).copied()
    }

    fn say(&mut self, n: usize, scene: Option<usize>, belongs: Belongs) {
        match scene {
            Some(scene) => {
                self.name(scene, belongs.conversation_id, belongs.turn_id);
                self.script.scenes[scene].steps.push(Step::Say(n));
            }
            None if n < self.script.first_part => self.script.aside.push(n),
            None => {}
        }
    }
}
