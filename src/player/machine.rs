//! The state machine: takes messages of the client, and gives the recorded messages that follow from them.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    likeness::{Difference, differences, fingerprint, pairs, short},
    names::{Class, Names, Pair},
    script::{Script, Step},
};
use crate::{
    recording::{
        redactor::{About, Redactor},
        source::parsed,
    },
    rpc::{ErrorCode, Frame, Kind, RawId, path},
};

mod roots;

/// The speed of the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// With the delays of the recorded server.
    Real,
    /// At once.
    #[default]
    Fast,
}

impl Speed {
    /// The time for a message that the recorded server sent after this delay.
    fn due(self, now: Duration, gap: Duration) -> Duration {
        match self {
            Speed::Real => now + gap,
            Speed::Fast => now,
        }
    }
}

/// How many differences to report.
const TOLD: usize = 6;
/// How many recorded requests to compare in a search for the nearest.
const LOOKED_AT: usize = 500;

/// A language server from a recording.
#[derive(Debug)]
pub struct Player {
    script: Script,
    speed: Speed,
    names: Names,
    runs: Vec<Run>,
    /// How often each scene was played.
    played: Vec<usize>,
    /// The entries of the client that have come.
    heard: Vec<bool>,
    /// How many notifications of the client have come, by method, from the beginning.
    waiting: HashMap<String, usize>,
    /// How many entries outside scenes were sent, and when the last of them is due.
    aside: usize,
    aside_due: Duration,
    queue: BinaryHeap<Reverse<Cue>>,
    turn: u64,
    /// The requests to the client that it has not answered, by id.
    questions: HashMap<u64, Question>,
    /// The last id of each request to the client, by entry.
    asked: HashMap<usize, u64>,
    next_id: u64,
    /// The number of our own messages so far.
    own: usize,
    deviations: Vec<String>,
    is_dying: bool,
    was_shut_down: bool,
    end: Option<u8>,
}

/// A scene in progress.
#[derive(Debug)]
struct Run {
    scene: usize,
    at: usize,
    id: RawId,
    /// Pairs of recorded and live tokens.
    tokens: Vec<(Value, Value)>,
    names: Names,
    /// Steps of the client that came early.
    heard: BTreeSet<usize>,
    due: Duration,
    /// The value that began its progress, until its end.
    open: Option<Value>,
    is_over: bool,
}

#[derive(Debug)]
struct Question {
    entry: usize,
    run: Option<usize>,
}

/// A planned message: ordered by time, then by the client's messages, then by place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cue {
    due: Duration,
    turn: u64,
    place: Place,
    run: Option<usize>,
    what: What,
}

/// The place among the messages that follow from one message of the client.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Before all others.
    First,
    /// At its recorded place.
    At(usize),
    /// After all others, in the order of planning.
    Last(usize),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// An entry of the recording.
    Recorded(usize),
    /// A message of our own.
    Own(Bytes),
    /// The end of the process with this status.
    End(u8),
}

/// How long the player waits with an answer that the recorded server did not live to give. Then it dies, unless the
/// client differs from the recorded one, which the player must report.
const GRACE: Duration = Duration::from_secs(1);

impl Player {
    /// A player at the beginning.
    pub fn new(script: Script, speed: Speed) -> Player {
        let mut player = Player {
            played: vec![0; script.scenes.len()],
            heard: vec![false; script.entries.len()],
            waiting: HashMap::new(),
            script,
            speed,
            names: Names::default(),
            runs: Vec::new(),
            aside: 0,
            aside_due: Duration::ZERO,
            queue: BinaryHeap::new(),
            turn: 0,
            questions: HashMap::new(),
            asked: HashMap::new(),
            next_id: 0,
            own: 0,
            deviations: Vec::new(),
            is_dying: false,
            was_shut_down: false,
            end: None,
        };
        let first = player.script.cues.first().copied().unwrap_or(player.script.entries.len());
        player.say_aside(Duration::ZERO, Duration::ZERO, first);
        player
    }

    /// Takes a message of the client.
    pub fn hear(&mut self, now: Duration, frame: &Frame) {
        self.turn += 1;
        match (frame.kind(), frame.method(), frame.id()) {
            (Kind::Request, Some(method), Some(id)) => {
                self.request(now, method, &id, &parsed(frame.params()));
            }
            (Kind::Notification, Some(method), _) => self.notification(now, method, frame),
            (Kind::Response, _, Some(id)) => self.reply(now, &id, frame),
            _ => {}
        }
        self.die(now);
    }

    /// Dies like the recorded process, once the client has sent everything that the process got.
    fn die(&mut self, now: Duration) {
        let Some((at, status)) = self.script.death else { return };
        if self.is_dying || !self.heard_all() {
            return;
        }
        self.is_dying = true;
        // The client does not wait for the messages to the requests that are left.
        self.queue.retain(|Reverse(it)| it.due <= now || !matches!(it.what, What::Own(_)));
        let last = self.script.cues.last().map_or(Duration::ZERO, |it| self.script.entries[*it].at);
        let before = self.queue.iter().map(|Reverse(it)| it.due).max().unwrap_or_default();
        let due = self.speed.due(now, at.saturating_sub(last)).max(before);
        self.queue.push(Reverse(Cue {
            due,
            turn: u64::MAX,
            place: Place::Last(usize::MAX),
            run: None,
            what: What::End(status),
        }));
    }

    /// Whether the client has sent all its recorded messages.
    fn heard_all(&self) -> bool {
        !self.script.cues.iter().any(|it| self.is_owed(*it))
    }

    /// Whether this message of the client is missing.
    fn is_owed(&self, entry: usize) -> bool {
        let it = self.script.frame(entry);
        let may_be_late = matches!(it.method(), Some("$/cancelRequest" | "window/workDoneProgress/cancel"));
        !self.heard[entry] && !may_be_late
    }

    /// Takes an invalid message of the client.
    pub fn hear_junk(&mut self, what: &str) {
        self.deviations.push(format!("the client sent an invalid message: {what}"));
    }

    /// When the next message is due.
    pub fn due(&self) -> Option<Duration> {
        self.queue.peek().map(|Reverse(it)| it.due)
    }

    /// Gives the next due message.
    pub fn say(&mut self, now: Duration) -> Option<Frame> {
        while self.due().is_some_and(|it| it <= now) {
            let Reverse(cue) = self.queue.pop()?;
            let frame = match cue.what {
                What::Own(body) => Frame::parse(body).ok(),
                What::Recorded(entry) => self.render(entry, cue.run),
                What::End(status) => {
                    self.queue.clear();
                    self.end = self.end.or(Some(status));
                    return None;
                }
            };
            if frame.is_some() {
                return frame;
            }
        }
        None
    }

    /// Notes that the client has closed its stream.
    pub fn close(&mut self) {
        self.end = self.end.or(Some(0));
    }

    /// The exit status, if the server must end.
    pub fn end(&self) -> Option<u8> {
        self.end
    }

    /// The differences from the recording, and the missing messages.
    pub fn deviations(&self) -> Vec<String> {
        let missing = self.script.cues.iter().filter(|it| self.is_owed(**it)).map(|entry| {
            let it = self.script.frame(*entry);
            let what = it
                .method()
                .map_or_else(|| "the answer to a request of the server".to_owned(), ToOwned::to_owned);
            format!("line {}: {what} did not come", self.line(*entry))
        });
        self.deviations.iter().cloned().chain(missing).collect()
    }

    fn line(&self, entry: usize) -> usize {
        self.script.entries[entry].line
    }

    fn request(&mut self, now: Duration, method: &str, id: &RawId, params: &Value) {
        match self.choose(method, params) {
            Ok(scene) => self.start(now, scene, id, params),
            Err(_) if method == "shutdown" => {
                self.was_shut_down = true;
                self.say_own(now, &Frame::response(id.clone(), b"null"));
            }
            Err(unknown) => {
                self.deviations.push(unknown.message.clone());
                let data = unknown.data.to_string();
                self.say_own(
                    now,
                    &Frame::error(id.clone(), unknown.code, &unknown.message, Some(data.as_bytes())),
                );
            }
        }
    }

    /// Puts the recorded names into a part of a client's message.
    fn as_recorded(&self, method: &str, part: &str, mut value: Value) -> Value {
        self.names.to_recorded(&mut value);
        if !self.script.is_masked {
            return value;
        }
        let about = About { method, is_answer: part != "params" };
        let message = json!({part: value}).to_string();
        let masked = Redactor::new(false, []).message(about, &message);
        masked.map_or(value, |it| parsed(Some(&it))[part].take())
    }

    /// Finds the recorded request for this one.
    fn choose(&self, method: &str, params: &Value) -> Result<usize, Unknown> {
        let Some(scenes) = self.script.by_method.get(method) else {
            let known: Vec<&str> = self.script.by_method.keys().map(String::as_str).collect();
            let message = format!("the recording has no request {method}; it has: {}", known.join(", "));
            let data = json!({"method": method, "known": known});
            return Err(Unknown { code: ErrorCode::MethodNotFound, message, data });
        };
        // The identity of a client does not matter.
        if matches!(method, "initialize" | "shutdown") {
            return Ok(scenes.iter().copied().min_by_key(|it| self.played[*it]).unwrap_or(scenes[0]));
        }
        let known = self.as_recorded(method, "params", params.clone());
        let look = fingerprint(&known);
        let mut alike: Vec<usize> =
            scenes.iter().copied().filter(|it| self.script.scenes[*it].look == look).collect();
        // The least played one, and of those the one with known names. Requests that cannot match are skipped.
        alike.sort_by_key(|it| self.played[*it]);
        let mut best: Option<(usize, usize, usize)> = None;
        for scene in alike {
            if best.is_some_and(|(played, unknown, _)| unknown == 0 || played < self.played[scene]) {
                break;
            }
            let pairs = self.pairs(scene, params);
            if pairs.iter().all(|it| self.names.agrees(it)) {
                let this = (self.played[scene], self.unknown(&pairs), scene);
                best = Some(best.map_or(this, |it| it.min(this)));
            }
        }
        best.map(|(_, _, scene)| scene).ok_or_else(|| self.nearest(method, scenes, params, &known))
    }

    fn pairs(&self, scene: usize, params: &Value) -> Vec<Pair> {
        pairs(&self.script.params(self.script.scenes[scene].request), params, &self.names)
    }

    /// The number of pairs that are not known.
    fn unknown(&self, pairs: &[Pair]) -> usize {
        let is_known = |it: &Pair| match (&it.recorded, &it.live) {
            (Value::String(recorded), Value::String(live)) => self.names.text_to_recorded(live) == *recorded,
            _ => self.names.recorded(it.class, &it.live).is_some(),
        };
        pairs.iter().filter(|it| !is_known(it)).count()
    }

    fn nearest(&self, method: &str, scenes: &[usize], params: &Value, known: &Value) -> Unknown {
        let candidates = scenes.iter().take(LOOKED_AT).map(|scene| {
            let recorded = self.script.params(self.script.scenes[*scene].request);
            let differences = differences(&recorded, known);
            let size: usize = differences.iter().map(Difference::size).sum();
            let mut told: Vec<String> = differences.iter().map(Difference::to_string).collect();
            for pair in self.pairs(*scene, params).iter().filter(|it| !self.names.agrees(it)) {
                told.push(format!(
                    "recorded {}, here {}, which has been another one",
                    short(&pair.recorded),
                    short(&pair.live)
                ));
            }
            (told, size, *scene)
        });
        let best = candidates.min_by_key(|(told, size, scene)| (told.len(), *size, *scene));
        let (told, _, scene) = best.unwrap_or_default();
        let line = self.line(self.script.scenes[scene].request);
        let mut message =
            format!("the recording has no such {method}; the nearest is on line {line}, and differs in");
        for it in told.iter().take(TOLD) {
            message = message + "\n  " + it;
        }
        if told.len() > TOLD {
            message = format!("{message}\n  and {} more", told.len() - TOLD);
        }
        let data = json!({"method": method, "line": line, "differences": told});
        Unknown { code: ErrorCode::RequestFailed, message, data }
    }

    /// Starts a scene for a request of the client.
    fn start(&mut self, now: Duration, scene: usize, id: &RawId, params: &Value) {
        let it = &self.script.scenes[scene];
        let (request, recorded) = (it.request, self.script.params(it.request));
        if self.played[scene] > 0 {
            let (line, method) = (self.line(request), &it.method);
            self.deviations.push(format!("line {line}: {method} came more often than recorded"));
        }
        match it.method.as_str() {
            "initialize" => {
                for (recorded, live) in roots::pairs(&recorded, params) {
                    self.names.bind_text(&recorded, &live);
                }
            }
            "shutdown" => self.was_shut_down = true,
            _ => {}
        }
        let names = self.name_scene(scene, &recorded, params);
        let tokens = ["workDoneToken", "partialResultToken"].iter();
        let tokens = tokens.filter(|key| !recorded[**key].is_null());
        let tokens = tokens.map(|key| (recorded[*key].clone(), params[*key].clone())).collect();
        self.played[scene] += 1;
        self.heard[request] = true;
        self.runs.push(Run {
            scene,
            at: 0,
            id: id.clone(),
            tokens,
            names,
            heard: BTreeSet::new(),
            due: now,
            open: None,
            is_over: false,
        });
        self.go_on(now, self.runs.len() - 1, request);
        self.cue(now, request);
    }

    /// Gives the conversation and the turn of a scene the client's names, or new ones.
    fn name_scene(&mut self, scene: usize, recorded: &Value, params: &Value) -> Names {
        let mut pairs: Vec<Pair> =
            pairs(recorded, params, &self.names).into_iter().filter(|it| self.names.agrees(it)).collect();
        let is_again = self.played[scene] > 0;
        let last_turn =
            &params["turns"].as_array().and_then(|it| it.last()).unwrap_or(&Value::Null)["turnId"];
        let given = [
            &params["conversationId"],
            if params["turnId"].is_null() { last_turn } else { &params["turnId"] },
        ];
        let it = &self.script.scenes[scene];
        for (class, all, given) in
            [(Class::Conversation, &it.conversations, given[0]), (Class::Turn, &it.turns, given[1])]
        {
            let mut given = Some(given).filter(|it| !it.is_null());
            given = given.filter(|given| !pairs.iter().any(|it| it.class == class && it.live == **given));
            for recorded in all {
                if pairs.iter().any(|it| it.class == class && it.recorded == *recorded) {
                    continue;
                }
                let is_taken =
                    is_again || self.names.recorded(class, recorded).is_some_and(|it| it != recorded);
                let live = match given.take() {
                    Some(given) => given.clone(),
                    None if is_taken => self.fresh(class, recorded),
                    None => recorded.clone(),
                };
                pairs.push(Pair { class, recorded: recorded.clone(), live });
            }
        }
        let mut names = Names::default();
        for pair in &pairs {
            if pair.class != Class::Place {
                names.bind(pair);
            }
            self.names.bind(pair);
        }
        names
    }

    /// A new name of the same form.
    fn fresh(&self, class: Class, recorded: &Value) -> Value {
        let text = recorded.as_str().map_or_else(|| recorded.to_string(), ToOwned::to_owned);
        let stem = if text.len() == 36 { text.get(..32) } else { None };
        let name = |n: usize| json!(stem.map_or_else(|| format!("{text}-{n}"), |it| format!("{it}{n:04x}")));
        let is_free = |it: &Value| self.names.recorded(class, it).is_none();
        (2..usize::MAX).map(name).find(is_free).unwrap_or_default()
    }

    fn notification(&mut self, now: Duration, method: &str, frame: &Frame) {
        let params = &parsed(frame.params());
        match method {
            "exit" => {
                if let Some((entry, _)) = self.script.notices.get(method).and_then(|it| it.first()) {
                    self.heard[*entry] = true;
                }
                self.queue.retain(|Reverse(it)| match it.what {
                    What::Recorded(entry) => self.script.frame(entry).kind() == Kind::Response,
                    What::Own(_) => true,
                    What::End(_) => false,
                });
                self.end = Some(u8::from(!self.was_shut_down));
                return;
            }
            "$/cancelRequest" => {
                // In its written form, because not every number survives parsing.
                let id = frame.params().and_then(|it| RawId::from_raw(&it[path(it, &["id"])?]));
                let run = self.runs.iter().rposition(|it| !it.is_over && Some(&it.id) == id.as_ref());
                return run.into_iter().for_each(|it| self.cancel(now, it));
            }
            "window/workDoneProgress/cancel" => {
                let is_it = |it: &Run| it.tokens.iter().any(|(_, live)| *live == params["token"]);
                let run = self.runs.iter().rposition(|it| !it.is_over && is_it(it));
                return run.into_iter().for_each(|it| self.cancel(now, it));
            }
            _ => {}
        }
        let known = self.as_recorded(method, "params", params.clone());
        let look = fingerprint(&known);
        let notices = self.script.notices.get(method).map_or(&[][..], Vec::as_slice);
        let first = self.waiting.entry(method.to_owned()).or_default();
        *first += notices[*first..].iter().take_while(|(entry, _)| self.heard[*entry]).count();
        let mut waiting = notices[*first..].iter().filter(|(entry, _)| !self.heard[*entry]);
        let same = waiting.clone().find(|(_, it)| *it == look);
        let Some(&(entry, recorded)) = same.or_else(|| waiting.next()) else {
            self.deviations.push(format!("{method} came, and is not in the recording, or not so often"));
            return;
        };
        let recorded_params = self.script.params(entry);
        if recorded != look {
            self.deviates(entry, method, &differences(&recorded_params, &known));
        }
        for pair in pairs(&recorded_params, params, &self.names) {
            if pair.class == Class::Place && self.names.agrees(&pair) {
                self.names.bind(&pair);
            }
        }
        self.heard[entry] = true;
        self.cue(now, entry);
    }

    /// Notes that the client's message differs from an entry.
    fn deviates(&mut self, entry: usize, what: &str, differences: &[Difference]) {
        let told: Vec<String> = differences.iter().take(TOLD).map(|it| format!("\n  {it}")).collect();
        let line = self.line(entry);
        self.deviations.push(format!("line {line}: {what} is not as recorded{}", told.concat()));
    }

    /// Takes the client's answer to a request.
    fn reply(&mut self, now: Duration, id: &RawId, frame: &Frame) {
        let Some(question) = id.as_u64().and_then(|it| self.questions.remove(&it)) else {
            self.deviations.push(format!("the client answers request {id}, which the server did not send"));
            return;
        };
        let Some(entry) = self.script.replies.get(&question.entry).copied() else { return };
        let value = |frame: &Frame| -> (&str, Value) {
            let part = if frame.result().is_some() { "result" } else { "error" };
            let raw = frame.result().or(frame.error_value());
            (part, parsed(raw))
        };
        let method = self.script.frame(question.entry).method().unwrap_or_default();
        let ((_, recorded), (part, live)) = (value(self.script.frame(entry)), value(frame));
        let live = self.as_recorded(method, part, live);
        let differences = differences(&recorded, &live);
        if !differences.is_empty() {
            self.deviates(entry, "the answer", &differences);
        }
        self.heard[entry] = true;
        if let Some(run) = question.run {
            self.runs[run].heard.insert(entry);
            self.go_on(now, run, entry);
        }
        self.cue(now, entry);
    }

    fn cancel(&mut self, now: Duration, run: usize) {
        let it = &self.runs[run];
        let steps = &self.script.scenes[it.scene].steps;
        let ahead = steps.iter().skip(it.at).position(|it| matches!(it, Step::Cancelled(_)));
        self.queue.retain(|Reverse(cue)| cue.run != Some(run));
        match ahead {
            Some(ahead) => {
                let entry = steps[it.at + ahead].entry();
                self.runs[run].at += ahead;
                self.runs[run].heard.insert(entry);
                self.runs[run].due = now;
                self.heard[entry] = true;
                self.go_on(now, run, entry);
                self.cue(now, entry);
            }
            None => self.cancel_unlike_recorded(now, run),
        }
    }

    /// Ends a scene that was not cancelled in the recording, in the way of the real server.
    fn cancel_unlike_recorded(&mut self, now: Duration, run: usize) {
        let it = &self.runs[run];
        let request = self.script.scenes[it.scene].request;
        let (line, method) = (self.line(request), &self.script.scenes[it.scene].method);
        self.deviations.push(format!("line {line}: {method} was cancelled, unlike in the recording"));
        let is_answer = |it: &usize| self.script.frame(*it).kind() == Kind::Response;
        let said = self.script.scenes[it.scene].steps.iter().filter_map(|it| match it {
            Step::Say(entry) => Some(*entry),
            Step::Hear(_) | Step::Cancelled(_) => None,
        });
        let answer = said.rev().find(is_answer);
        let is_turn = it.open.is_some();
        if let (Some(open), Some((_, token))) = (&it.open, it.tokens.first()) {
            let end = json!({
                "token": token,
                "value": {
                    "kind": "end",
                    "conversationId": open["conversationId"],
                    "turnId": open["turnId"],
                    "cancellationReason": "CancelledByUser",
                },
            });
            let end = Frame::notification("$/progress", Some(end.to_string().as_bytes()));
            self.push(now, Place::First, None, What::Own(end.to_bytes()));
        }
        let it = &mut self.runs[run];
        it.open = None;
        it.at = usize::MAX;
        match answer.filter(|_| is_turn) {
            Some(entry) => {
                self.push(now, Place::At(entry), Some(run), What::Recorded(entry));
            }
            None => {
                it.is_over = true;
                let id = it.id.clone();
                self.say_own(now, &Frame::error(id, ErrorCode::RequestCancelled, "cancelled", None));
            }
        }
    }

    /// Continues a scene up to where it waits for the client. `cue` is the entry that has just come.
    fn go_on(&mut self, now: Duration, run: usize, cue: usize) {
        let it = &mut self.runs[run];
        let steps = &self.script.scenes[it.scene].steps;
        let mut since = self.script.entries[cue].at;
        while let Some(step) = steps.get(it.at) {
            match *step {
                Step::Say(entry) => {
                    let gap = self.script.entries[entry].at.saturating_sub(since);
                    it.due = it.due.max(self.speed.due(now, gap));
                    self.queue.push(Reverse(Cue {
                        due: it.due,
                        turn: self.turn,
                        place: Place::At(entry),
                        run: Some(run),
                        what: What::Recorded(entry),
                    }));
                }
                Step::Hear(entry) | Step::Cancelled(entry) if it.heard.remove(&entry) => {
                    since = since.max(self.script.entries[entry].at);
                }
                Step::Hear(_) | Step::Cancelled(_) => return,
            }
            it.at += 1;
        }
        if !self.script.scenes[it.scene].is_answered && !it.is_over {
            self.break_off(run);
        }
    }

    /// Answers with an error, because a client that waits forever learns nothing.
    fn break_off(&mut self, run: usize) {
        let grace = if self.script.death.is_some() { GRACE } else { Duration::ZERO };
        let it = &mut self.runs[run];
        it.is_over = true;
        let (due, id) = (it.due + grace, it.id.clone());
        let scene = &self.script.scenes[it.scene];
        let (line, method) = (self.line(scene.request), &scene.method);
        let message = format!("the recording ends before this {method}, on line {line}, is answered");
        let error = Frame::error(id, ErrorCode::RequestFailed, &message, None);
        let place = self.last();
        self.push(due, place, Some(run), What::Own(error.to_bytes()));
    }

    /// Notes that this entry of the client has come: messages outside scenes may follow up to its next one.
    fn cue(&mut self, now: Duration, entry: usize) {
        let (since, end) = (self.script.entries[entry].at, self.script.next_cue(entry));
        self.say_aside(now, since, end);
    }

    fn say_aside(&mut self, now: Duration, since: Duration, end: usize) {
        while let Some(&entry) = self.script.aside.get(self.aside).filter(|it| **it < end) {
            let gap = self.script.entries[entry].at.saturating_sub(since);
            self.aside_due = self.aside_due.max(self.speed.due(now, gap));
            self.push(self.aside_due, Place::At(entry), None, What::Recorded(entry));
            self.aside += 1;
        }
    }

    fn say_own(&mut self, now: Duration, frame: &Frame) {
        let place = self.last();
        self.push(now, place, None, What::Own(frame.to_bytes()));
    }

    fn last(&mut self) -> Place {
        self.own += 1;
        Place::Last(self.own)
    }

    fn push(&mut self, due: Duration, place: Place, run: Option<usize>, what: What) {
        self.queue.push(Reverse(Cue { due, turn: self.turn, place, run, what }));
    }

    /// A recorded message for this client. Parts without names are unchanged.
    fn render(&mut self, entry: usize, run: Option<usize>) -> Option<Frame> {
        let frame = self.script.frame(entry).clone();
        let recorded = parsed(Some(frame.body()));
        let mut message = recorded.clone();
        let nothing = Names::default();
        let names = run.map_or(&nothing, |it| &self.runs[it].names);
        for part in ["params", "result", "error"] {
            if let Some(it) = message.get_mut(part) {
                self.names.to_live(names, it);
            }
        }
        let id = match frame.kind() {
            Kind::Request => {
                self.questions.insert(self.next_id, Question { entry, run });
                self.asked.insert(entry, self.next_id);
                self.next_id += 1;
                Some(RawId::from(self.next_id - 1))
            }
            Kind::Response => {
                let it = &mut self.runs[run?];
                it.is_over = true;
                Some(it.id.clone())
            }
            Kind::Notification if frame.method() == Some("$/cancelRequest") => {
                let recorded = message["params"]["id"].to_string();
                let question = self.script.entries[..entry].iter().rposition(|it| {
                    let it = super::script::frame(it);
                    it.kind() == Kind::Request
                        && it.id().is_some_and(|it| it.as_bytes() == recorded.as_bytes())
                });
                let id = question.and_then(|it| self.asked.get(&it))?;
                message["params"]["id"] = json!(id);
                None
            }
            Kind::Notification => {
                if let Some(run) = run {
                    self.follow_progress(run, &mut message["params"]);
                }
                None
            }
        };
        let frame = match message == recorded {
            true => frame,
            false => Frame::parse(message.to_string().into()).ok()?,
        };
        Some(match id {
            Some(id) => frame.with_id(id),
            None => frame,
        })
    }

    /// Puts in the client's token, and notes begins and ends.
    fn follow_progress(&mut self, run: usize, params: &mut Value) {
        let run = &mut self.runs[run];
        let Some(token) = params.get_mut("token") else { return };
        if let Some((_, live)) = run.tokens.iter().find(|(recorded, _)| recorded == token) {
            *token = live.clone();
        }
        match params["value"]["kind"].as_str() {
            Some("begin") if run.open.is_none() => run.open = Some(params["value"].clone()),
            Some("end") => run.open = None,
            _ => {}
        }
    }
}

/// A request that is not in the recording.
#[derive(Debug)]
struct Unknown {
    code: ErrorCode,
    message: String,
    data: Value,
}
