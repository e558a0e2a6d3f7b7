//! One internal conversation: its next question, and its events.
//!
//! ```text
//!          say                  model known
//!   Idle ───────→ Choosing ─────────────────→ Turning ⟲ once, for a text
//!    ↑ └──────────────── say ────────────────→  │
//!    └──────────── answered, or abandoned ───────┘
//! ```

use std::{collections::BTreeMap, time::Instant};

use bytes::Bytes;

use super::{ConversationOwner, Limits, Opening};
use crate::{
    config::AgentConfig,
    core::{
        copilot::{history::History, progress::ProgressReport},
        event::ClientId,
        ids::{ConversationId, RequestId, TurnId},
    },
    rpc::{RawId, path, text},
    util::json,
};

/// An internal conversation. As a client of the pool it sends requests under its own id, gets progress under the id
/// of its conversation, and gets answers like an editor.
#[derive(Debug)]
pub(crate) struct InternalConversation {
    pub(super) client: ClientId,
    /// `None`: it is closing, without an owner.
    pub(super) owner: Option<ConversationOwner>,
    pub(super) agent: AgentConfig,
    pub(super) editor_ids: EditorIds,
    pub(super) limits: Limits,
    /// The id of its conversation, and its token. A new one each time that it is created.
    pub(super) conversation: ConversationId,
    /// Its history, while no partition has it.
    pub(super) history: Option<History>,
    /// The parameters of each of its requests.
    pub(super) usual: Bytes,
    /// Whether the model is known, or need not be.
    pub(super) has_model: bool,
    pub(super) state: InternalState,
    /// Why its turn is to end.
    pub(super) stop: Option<String>,
    /// The deadline of its turn.
    pub(super) due: Option<Instant>,
    /// The number of its last request.
    pub(super) asked: u64,
    pub(super) report: TurnReport,
    pub(super) is_asked_again: bool,
}

/// The state of an internal conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InternalState {
    /// No turn runs.
    Idle,
    /// It waits for the list of models, and then sends this.
    Choosing(String),
    /// A turn runs.
    Turning,
}

/// The ids by which the editor knows an internal conversation. They replace lspool's ids in tool calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EditorIds {
    pub(crate) conversation: ConversationId,
    pub(crate) turn: TurnId,
    pub(crate) round: u64,
    /// The name of the agent: `explore-1`.
    pub(crate) name: String,
    /// The type of the agent: `explore`.
    pub(crate) agent: String,
}

/// Separates the reason of a failure from the text before it.
pub(crate) const SAID_BEFORE: &str = ". Its output until then:";

/// An event for the owner of an internal conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentEvent {
    /// More text of the answer.
    Text(String),
    /// The running tool.
    Tool(Option<String>),
    /// The end of the turn: its last text, or the reason why there is none.
    Ended(Result<String, String>),
}

/// The reports on a turn.
#[derive(Debug, Default)]
pub(super) struct TurnReport {
    /// The texts, by round.
    texts: BTreeMap<u64, String>,
    /// The number of rounds before the second question.
    rounds_before: u64,
    /// The last request whose answer called a tool, counted from 1.
    called: u64,
    /// Tools that are running, by call.
    tools: Vec<(String, String)>,
    /// Why it failed.
    fault: Option<String>,
}

impl InternalConversation {
    pub(super) fn new(client: ClientId, opening: Opening) -> InternalConversation {
        let Opening { owner, agent, editor_ids, usual, limits, history } = opening;
        InternalConversation {
            client,
            owner: Some(owner),
            has_model: agent.model.is_none(),
            agent,
            editor_ids,
            limits,
            conversation: RawId::null().into(),
            history: history.filter(History::has_begun),
            usual,
            state: InternalState::Idle,
            stop: None,
            due: None,
            asked: 0,
            report: TurnReport::default(),
            is_asked_again: false,
        }
    }

    /// The number of its next request.
    pub(super) fn next_id(&mut self) -> RequestId {
        self.asked += 1;
        RawId::from(self.asked).into()
    }

    /// Whether it waits for an answer.
    pub(super) fn is_owed(&self) -> bool {
        self.state != InternalState::Idle
    }

    /// Why its model may not be asked again, if so.
    pub(super) fn has_asked_too_often(&self) -> Option<String> {
        let most = self.limits.rounds?;
        let is_spent = self.report.rounds() > count(most) || self.report.called >= count(most);
        is_spent.then(|| too_often(most))
    }

    /// Why it is not asked once more for an answer, if so.
    pub(super) fn has_no_request_left(&self) -> Option<String> {
        let most = self.limits.rounds?;
        (self.report.rounds() >= count(most)).then(|| too_often(most))
    }

    /// Whether the request that follows the running one is the last that it has.
    pub(super) fn is_before_last_request(&self) -> bool {
        self.limits.rounds.is_some_and(|most| self.report.rounds() + 1 >= count(most))
    }

    /// The end of its turn for the owner. `None`: a success without a text.
    pub(super) fn outcome(&mut self, error: Option<&str>) -> Option<Result<String, String>> {
        let failed = error.map(|it| format!("its turn failed: {it}")).or(self.report.fault.take());
        match self.stop.take().or(failed) {
            Some(why) => Some(Err(self.report.with_words(why))),
            None => self.report.answer().map(|it| Ok(it.to_owned())),
        }
    }
}

fn count(most: usize) -> u64 {
    u64::try_from(most).unwrap_or(u64::MAX)
}

fn too_often(most: usize) -> String {
    format!("it was stopped after {most} model requests, the limit")
}

impl TurnReport {
    /// Handles progress of this conversation.
    pub(super) fn hear(&mut self, conversation: &ConversationId, params: &[u8]) -> Vec<AgentEvent> {
        let progress = ProgressReport::of(params);
        // Sub-agents of the server count as its tools.
        if progress.conversation().as_ref() != Some(conversation) {
            return Vec::new();
        }
        match progress.kind {
            Some(b"\"report\"") => self.report(&progress),
            Some(b"\"end\"") => {
                self.fault = match path(params, &["value", "error"]) {
                    Some(_) => {
                        let why = text(params, &["value", "error", "message"]);
                        Some(format!("its model failed: {}", why.as_deref().unwrap_or("no reason")))
                    }
                    None => {
                        text(params, &["value", "cancellationReason"]).map(|_| "it was cancelled".to_owned())
                    }
                };
                Vec::new()
            }
            Some(_) | None => Vec::new(),
        }
    }

    fn report(&mut self, progress: &ProgressReport<'_>) -> Vec<AgentEvent> {
        let before = self.tool().map(str::to_owned);
        let mut words = String::new();
        let decoded = |it: Option<&[u8]>| json::read::<String>(it?).ok();
        let mut say = |texts: &mut BTreeMap<u64, String>, round: u64, reply: Option<&[u8]>| {
            let reply = decoded(reply).unwrap_or_default();
            words.push_str(&reply);
            texts.entry(round).or_default().push_str(&reply);
        };
        if progress.report.reply.is_some() {
            say(&mut self.texts, 1, progress.report.reply);
        }
        for round in progress.report.rounds() {
            say(&mut self.texts, round.id, round.reply);
            for call in round.calls() {
                self.called = self.called.max(self.rounds_before.saturating_add(round.id));
                let [id, name, status] = ["id", "name", "status"].map(|key| text(call, &[key]));
                let (Some(id), Some(name), Some(status)) = (id, name, status) else { continue };
                self.tools.retain(|(of, _)| *of != id);
                if status == "running" {
                    self.tools.push((id, name));
                }
            }
        }
        let mut agent_event = Vec::new();
        if !words.is_empty() {
            agent_event.push(AgentEvent::Text(words));
        }
        if before.as_deref() != self.tool() {
            agent_event.push(AgentEvent::Tool(self.tool().map(str::to_owned)));
        }
        agent_event
    }

    /// The last started tool among the running ones.
    fn tool(&self) -> Option<&str> {
        self.tools.last().map(|(_, name)| &**name)
    }

    /// The number of requests to the model.
    fn rounds(&self) -> u64 {
        self.rounds_before.saturating_add(self.texts.keys().next_back().copied().unwrap_or(0))
    }

    /// Its last text. Texts between calls are not an answer.
    fn answer(&self) -> Option<&str> {
        self.texts.values().next_back().filter(|it| !it.trim().is_empty()).map(String::as_str)
    }

    /// The reason, with the last text.
    fn with_words(&self, why: String) -> String {
        match self.texts.values().rev().find(|it| !it.trim().is_empty()) {
            Some(said) => format!("{why}{SAID_BEFORE}\n{said}"),
            None => why,
        }
    }

    /// Prepares a second question.
    pub(super) fn again(&mut self) {
        *self = TurnReport { rounds_before: self.rounds(), ..TurnReport::default() };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hear(report: &mut TurnReport, value: &Value) -> Vec<AgentEvent> {
        let mut value = value.clone();
        value["conversationId"] = json!("c");
        report.hear(&ConversationId::text("c"), json!({"token": "c", "value": value}).to_string().as_bytes())
    }

    fn tool(name: &str) -> AgentEvent {
        AgentEvent::Tool(Some(name.to_owned()))
    }

    #[test]
    fn report_reader_skips_only_unreadable_tool_calls() {
        let mut report = TurnReport::default();
        let calls = json!([{"id": 7}, "x", {"id": "a", "name": "grep", "status": "running"}]);
        let rounds = json!([{"roundId": "odd"}, {"roundId": 2, "reply": "found", "toolCalls": calls}]);
        let agent_event = hear(&mut report, &json!({"kind": "report", "editAgentRounds": rounds}));
        assert_eq!(agent_event, [AgentEvent::Text("found".to_owned()), tool("grep")]);
        assert_eq!((report.answer(), report.rounds()), (Some("found"), 2));
        hear(&mut report, &json!({"kind": "report", "editAgentRounds": [{"roundId": 3, "reply": " \n"}]}));
        assert_eq!(report.answer(), None, "white space is no answer");
        report.again();
        hear(&mut report, &json!({"kind": "report", "editAgentRounds": [{"roundId": u64::MAX}]}));
        assert_eq!(report.rounds(), u64::MAX);
    }

    #[test]
    fn report_reader_names_last_running_tool() {
        let mut report = TurnReport::default();
        let mut report = |calls: &[(&str, &str)]| {
            let calls: Vec<Value> = calls
                .iter()
                .map(|(id, status)| json!({"id": id, "name": format!("tool {id}"), "status": status}))
                .collect();
            let round = json!([{"roundId": 1, "toolCalls": calls}]);
            hear(&mut report, &json!({"kind": "report", "editAgentRounds": round}))
        };
        assert_eq!(report(&[("a", "running"), ("b", "running")]), [tool("tool b")]);
        assert_eq!(report(&[("a", "completed")]), []);
        assert_eq!(report(&[("b", "error")]), [AgentEvent::Tool(None)]);
    }
}
