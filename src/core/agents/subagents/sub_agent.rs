//! One sub-agent: its name, its state, and its reports to the editor.

use std::time::Instant;

use serde_json::{Value, json};

use crate::{agents::Outcome, core::agents::activity::BY_USER, rpc::Patch};

/// A sub-agent.
#[derive(Debug)]
pub(in crate::core::agents) struct SubAgent {
    /// Its lead.
    pub(super) lead: u32,
    /// Its name: `explore-1`.
    pub(super) name: String,
    /// The name of its agent.
    pub(super) agent: String,
    pub(super) prompt: String,
    /// The lead's call that started it, by the editor's id.
    pub(super) call: String,
    pub(super) round: u64,
    /// The last report of that call.
    pub(super) entry: Vec<u8>,
    pub(super) state: SubAgentState,
    /// The running tool.
    pub(super) tool: Option<String>,
    /// Whether the editor has seen that it waits.
    pub(super) is_shown: bool,
    pub(super) started: Option<Instant>,
    pub(super) ended: Option<Instant>,
}

/// The state of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::core::agents) enum SubAgentState {
    /// It waits for room.
    Waiting,
    /// It works in this conversation.
    Working(u32),
    Ended(Result<String, String>),
    /// It was cancelled.
    Cancelled,
    /// The user has cancelled it alone. lspool tells its lead.
    Withdrawn,
}

impl SubAgent {
    pub(super) fn has_ended(&self) -> bool {
        match self.state {
            SubAgentState::Ended(_) | SubAgentState::Cancelled | SubAgentState::Withdrawn => true,
            SubAgentState::Waiting | SubAgentState::Working(_) => false,
        }
    }

    fn seconds(&self, now: Instant) -> u64 {
        let until = self.ended.unwrap_or(now);
        self.started.map_or(0, |it| until.saturating_duration_since(it).as_secs())
    }

    /// The result for the lead.
    pub(super) fn result(&self, now: Instant) -> Option<Outcome<'_>> {
        let result = match &self.state {
            SubAgentState::Ended(result) => result.as_deref().map_err(String::as_str),
            SubAgentState::Withdrawn => Err(BY_USER),
            SubAgentState::Waiting | SubAgentState::Working(_) | SubAgentState::Cancelled => return None,
        };
        Some(Outcome { name: &self.name, result, seconds: self.seconds(now) })
    }

    /// Its state as a word, and for people.
    fn doing(&self, now: Instant) -> (&'static str, String) {
        let (name, seconds) = (&self.name, self.seconds(now));
        match &self.state {
            SubAgentState::Waiting => ("waiting", format!("{name} is queued")),
            SubAgentState::Working(_) => match &self.tool {
                Some(tool) => ("running", format!("{name} runs {tool} ({seconds} s)")),
                None => ("running", format!("{name} is working ({seconds} s)")),
            },
            SubAgentState::Ended(Ok(_)) => ("done", format!("{name}: done in {seconds} s")),
            SubAgentState::Ended(Err(_)) => ("failed", format!("{name}: failed after {seconds} s")),
            SubAgentState::Cancelled | SubAgentState::Withdrawn => {
                ("cancelled", format!("{name}: cancelled after {seconds} s"))
            }
        }
    }

    /// The report of the lead's call for the editor.
    pub(super) fn shown(&self, now: Instant) -> Vec<u8> {
        let mut call = Patch::of(&self.entry);
        call.remove("result").remove("error");
        let json = |it: &str| Value::from(it).to_string().into_bytes();
        let (_, message) = self.doing(now);
        call.set("progressMessage", &json(&message));
        let status = match &self.state {
            SubAgentState::Ended(Ok(said)) => {
                let result = json!([{"type": "text", "value": said}]).to_string();
                call.set("result", result.as_bytes());
                "completed"
            }
            SubAgentState::Ended(Err(why)) => {
                call.set("error", &json(&format!("The sub-agent failed: {why}")));
                "error"
            }
            SubAgentState::Cancelled | SubAgentState::Withdrawn => "cancelled",
            SubAgentState::Waiting | SubAgentState::Working(_) => "running",
        };
        call.set("status", &json(status));
        call.finish()
    }

    /// The notification for programs.
    pub(super) fn event(&self, now: Instant) -> Value {
        let (state, _) = self.doing(now);
        let mut event =
            json!({"agent": self.name, "agentType": self.agent, "toolCallId": self.call, "state": state});
        if let Some(tool) = &self.tool {
            event["tool"] = json!(tool);
        }
        if let Some(started) = self.started {
            let until = self.ended.unwrap_or(now);
            let millis = until.saturating_duration_since(started).as_millis();
            event["durationMs"] = json!(u64::try_from(millis).unwrap_or(u64::MAX));
        }
        event
    }
}
