//! One sub-agent at work: what it is asked, and what is heard of it. It decides nothing about others.
//!
//! ```text
//! Waiting ─room→ Choosing ─model known→ Turning ─answer→ Ended
//!    │              │                      │ ⟲ once, for a summary
//!    └──────────────┴──── stopped ─────────┴────────→ Ended
//! ```
//!
//! It is a client of the pool: it asks under its own id, hears progress under its own token, and is answered as an
//! editor is.

use std::{collections::BTreeMap, time::Instant};

use bytes::Bytes;
use serde::Deserialize;

use crate::{
    agents::Outcome,
    core::event::ClientId,
    rpc::{Patch, RawId, member, path, text},
};

/// A sub-agent.
#[derive(Debug)]
pub(super) struct Run {
    /// Of its lead.
    pub(super) lead: u32,
    /// What it is called: `explore-1`.
    pub(super) name: String,
    /// Which agent it is.
    pub(super) agent: String,
    pub(super) prompt: String,
    /// Its id among the clients.
    pub(super) client: ClientId,
    /// Of its conversation, and its token.
    pub(super) conversation: RawId,
    /// The lead's call that has started it, as the editor knows it.
    pub(super) call: String,
    pub(super) round: u64,
    /// That call as it was last reported.
    pub(super) entry: Vec<u8>,
    pub(super) state: State,
    /// Why it is to end, or was ended.
    pub(super) stop: Option<String>,
    pub(super) started: Option<Instant>,
    pub(super) ended: Option<Instant>,
    /// The parameters that each of its requests has.
    pub(super) usual: Bytes,
    /// What it has said in its turn, by round.
    texts: BTreeMap<u64, String>,
    /// Rounds of its earlier turns.
    rounds_before: u64,
    /// The tool that it has called, and that is running.
    tool: Option<(String, String)>,
    /// Why its turn ended, if that is no good reason.
    fault: Option<String>,
    pub(super) is_asked_again: bool,
    /// The number of its last request.
    pub(super) asked: u64,
    /// The editor has been told how it ended.
    pub(super) is_closed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is no room for it yet.
    Waiting,
    /// The server is asked which models there are. This one is meant.
    Choosing(String),
    /// Its model is asked.
    Turning,
    Ended(Result<String, String>),
}

/// What is told of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing that anybody wants to know.
    None,
    /// It has begun or ended a tool.
    Tool,
}

impl Run {
    pub(super) fn new(lead: u32, name: String, agent: String, prompt: String, client: ClientId) -> Run {
        Run {
            lead,
            name,
            agent,
            prompt,
            client,
            conversation: RawId::null(),
            call: String::new(),
            round: 1,
            entry: b"{}".to_vec(),
            state: State::Waiting,
            stop: None,
            started: None,
            ended: None,
            usual: Bytes::from_static(b"{}"),
            texts: BTreeMap::new(),
            rounds_before: 0,
            tool: None,
            fault: None,
            is_asked_again: false,
            asked: 0,
            is_closed: false,
        }
    }

    /// The number of its next request.
    pub(super) fn next_id(&mut self) -> RawId {
        self.asked += 1;
        RawId::from(self.asked)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// Whether an answer is owed to it.
    pub(super) fn is_owed(&self) -> bool {
        matches!(self.state, State::Choosing(_) | State::Turning)
    }

    /// Progress of its conversation.
    pub(super) fn hear(&mut self, params: &[u8]) -> News {
        let Some(value) = member(params, "value").map(|range| &params[range]) else { return News::None };
        let of = member(value, "conversationId").and_then(|range| RawId::from_raw(&value[range]));
        // The server's own sub-agents are its tools.
        if of.as_ref() != Some(&self.conversation) {
            return News::None;
        }
        match text(value, &["kind"]).as_deref() {
            Some("report") => self.report(value),
            Some("end") => {
                self.fault = match path(value, &["error"]) {
                    Some(_) => {
                        let why =
                            text(value, &["error", "message"]).unwrap_or_else(|| "no reason".to_owned());
                        Some(format!("its model failed: {why}"))
                    }
                    None => text(value, &["cancellationReason"]).map(|_| "it was cancelled".to_owned()),
                };
                News::None
            }
            Some(_) | None => News::None,
        }
    }

    fn report(&mut self, value: &[u8]) -> News {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Report {
            #[serde(default)]
            edit_agent_rounds: Vec<Round>,
            reply: Option<String>,
        }
        #[derive(Deserialize)]
        struct Round {
            #[serde(rename = "roundId")]
            number: u64,
            #[serde(default)]
            reply: String,
            #[serde(default, rename = "toolCalls")]
            calls: Vec<Call>,
        }
        #[derive(Deserialize)]
        struct Call {
            id: String,
            name: String,
            status: String,
        }
        let Ok(report) = serde_json::from_slice::<Report>(value) else { return News::None };
        let before = self.tool.clone();
        if let Some(reply) = report.reply {
            self.texts.entry(1).or_default().push_str(&reply);
        }
        for round in report.edit_agent_rounds {
            self.texts.entry(round.number).or_default().push_str(&round.reply);
            for call in round.calls {
                match (&*call.status, &self.tool) {
                    ("running", _) => self.tool = Some((call.id, call.name)),
                    (_, Some((id, _))) if *id == call.id => self.tool = None,
                    _ => {}
                }
            }
        }
        if before == self.tool { News::None } else { News::Tool }
    }

    /// The tool that is running.
    pub(super) fn tool(&self) -> Option<&str> {
        self.tool.as_ref().map(|(_, name)| &**name)
    }

    /// How often its model was asked.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds_before + self.texts.keys().next_back().copied().unwrap_or(0)
    }

    /// What it has said last.
    fn said(&self) -> &str {
        self.texts.values().rev().find(|it| !it.is_empty()).map_or("", String::as_str)
    }

    /// Its turn is over: what it has said in the end, or why it says nothing. `None`: it ended well, without a word.
    pub(super) fn outcome(&mut self, error: Option<&str>) -> Option<Result<String, String>> {
        let fault = self.fault.take();
        let failed = error.map(|it| format!("its turn failed: {it}")).or(fault);
        if let Some(why) = self.stop.clone().or(failed) {
            let said = self.said();
            let why = if said.is_empty() { why } else { format!("{why}. What it had said before:\n{said}") };
            return Some(Err(why));
        }
        // What it said between its calls is no answer.
        let last = self.texts.values().next_back().filter(|it| !it.is_empty());
        last.map(|it| Ok(it.clone()))
    }

    /// It is asked once more.
    pub(super) fn begin_again(&mut self) {
        self.rounds_before = self.rounds();
        self.is_asked_again = true;
        self.texts.clear();
        self.tool = None;
    }

    /// It does nothing any more.
    pub(super) fn end(&mut self, result: Result<String, String>, now: Instant) {
        self.state = State::Ended(result);
        self.ended = Some(now);
        self.tool = None;
    }

    fn seconds(&self, now: Instant) -> u64 {
        let until = self.ended.unwrap_or(now);
        self.started.map_or(0, |it| until.saturating_duration_since(it).as_secs())
    }

    /// What the lead is told of it.
    pub(super) fn result(&self, now: Instant) -> Option<Outcome<'_>> {
        let State::Ended(result) = &self.state else { return None };
        let result = result.as_deref().map_err(String::as_str);
        Some(Outcome { name: &self.name, result, seconds: self.seconds(now) })
    }

    /// What it is doing, as a word, and for people.
    pub(super) fn doing(&self, now: Instant) -> (&'static str, String) {
        let (name, seconds) = (&self.name, self.seconds(now));
        match &self.state {
            State::Waiting => ("waiting", format!("{name} waits for another sub-agent to end")),
            State::Choosing(_) | State::Turning => match self.tool() {
                Some(tool) => ("running", format!("{name} runs {tool} ({seconds} s)")),
                None => ("running", format!("{name} is at work ({seconds} s)")),
            },
            State::Ended(Ok(_)) => ("done", format!("{name}: done in {seconds} s")),
            State::Ended(Err(_)) if self.is_cancelled() => {
                ("cancelled", format!("{name}: cancelled after {seconds} s"))
            }
            State::Ended(Err(_)) => ("failed", format!("{name}: failed after {seconds} s")),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.stop.as_deref() == Some(CANCELLED)
    }

    /// The lead's call, as the editor is told it.
    pub(super) fn shown(&self, now: Instant) -> Vec<u8> {
        let mut call = Patch::of(&self.entry);
        call.remove("result").remove("error");
        let json = |it: &str| serde_json::Value::from(it).to_string().into_bytes();
        let (_, message) = self.doing(now);
        call.set("progressMessage", &json(&message));
        let status = match &self.state {
            State::Ended(Ok(said)) => {
                let result = serde_json::json!([{"type": "text", "value": said}]).to_string();
                call.set("result", result.as_bytes());
                "completed"
            }
            State::Ended(Err(_)) if self.is_cancelled() => "cancelled",
            State::Ended(Err(why)) => {
                call.set("error", &json(&format!("The sub-agent failed: {why}")));
                "error"
            }
            State::Waiting | State::Choosing(_) | State::Turning => "running",
        };
        call.set("status", &json(status));
        call.finish()
    }

    /// The same, when nobody waits for the run any more.
    pub(super) fn given_up(&self) -> Vec<u8> {
        let message = serde_json::Value::from(format!("{}: cancelled", self.name)).to_string();
        let mut call = Patch::of(&self.entry);
        call.remove("result").remove("error").set("progressMessage", message.as_bytes());
        call.set("status", b"\"cancelled\"").finish()
    }
}

/// Why a run ends whose lead does not wait for it any more.
pub(super) const CANCELLED: &str = "it was cancelled";
