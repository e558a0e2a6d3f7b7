//! Sub-agents, members and workers that are at work: what people see of them, and cancelling one alone.

use std::{borrow::Cow, time::Instant};

use serde_json::{Value, json};

use crate::{
    config::nearest,
    core::{
        agents::Agents,
        copilot::Copilot,
        ids::ConversationId,
        mux::{
            Mux,
            failure::{Cause, Failure},
            requests::Owner,
        },
    },
    rpc::text,
};

/// Why an agent has no result that a person has cancelled.
pub(super) const BY_USER: &str = "the user cancelled it";

/// One agent at work.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) target: Target,
    /// `explore-1`.
    pub(super) name: String,
    /// The conversation of its lead, its team, or its orchestration.
    pub(super) of: String,
    /// The number of its task.
    pub(super) task: Option<usize>,
    pub(super) tool: Option<String>,
    /// `None`: it waits for room.
    pub(super) since: Option<Instant>,
}

/// Where an agent is found.
#[derive(Clone, Debug)]
pub(super) enum Target {
    SubAgent(u32),
    /// Of this team, with this number.
    Member(String, usize),
    /// Of this orchestration, in this conversation.
    Worker(u32, usize),
}

/// An id without quotes.
pub(super) fn plain(id: &ConversationId) -> String {
    id.as_text().map_or_else(|| id.to_string(), Cow::into_owned)
}

impl Activity {
    fn kind(&self) -> &'static str {
        match self.target {
            Target::SubAgent(_) => "sub-agent",
            Target::Member(..) => "member",
            Target::Worker(..) => "worker",
        }
    }
}

impl Agents {
    fn activities(&self) -> impl Iterator<Item = Activity> {
        self.sub_agents_at_work().chain(self.members_at_work()).chain(self.workers_at_work())
    }

    /// All that are at work, for a status. `millis`: a moment as a number.
    pub(crate) fn status(&self, millis: impl Fn(Instant) -> u64) -> Vec<Value> {
        let status = |it: Activity| {
            json!({
                "name": it.name,
                "kind": it.kind(),
                "of": it.of,
                "task": it.task,
                "tool": it.tool,
                "since": it.since.map(&millis),
            })
        };
        self.activities().map(status).collect()
    }

    /// Whether that has changed since it was last asked.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.have_changed)
    }

    /// `lspool/cancelAgent`.
    pub(crate) fn on_cancel_agent(
        &mut self,
        copilot: Option<&mut Copilot>,
        mux: &mut Mux,
        owner: &Owner,
        params: &[u8],
    ) {
        let [name, of] = ["name", "of"].map(|key| text(params, &[key]));
        let Some(name) = name else {
            let failure =
                Failure::new(Cause::InvalidParams, "`name` is missing: put the name of an agent there");
            return mux.fail(owner, &failure);
        };
        let is_meant = |it: &Activity| it.name == name && of.as_ref().is_none_or(|of| it.of == *of);
        let found: Vec<Activity> = self.activities().filter(is_meant).collect();
        match (&found[..], copilot) {
            ([one], Some(copilot)) => {
                self.cancel_one(copilot, mux, one.target.clone());
                mux.answer(owner, &json!({"name": one.name, "of": one.of, "state": "cancelled"}));
            }
            ([], _) | (_, None) => {
                let names: Vec<String> = self.activities().map(|it| it.name).collect();
                let hint = match (nearest(&name, names.iter().map(String::as_str)), &names[..]) {
                    (Some(near), _) => format!("did you mean {near:?}?"),
                    (None, []) => "no agent is at work".to_owned(),
                    (None, names) => format!("use one of {}", names.join(", ")),
                };
                let message = format!("unknown agent {name:?}; {hint}");
                mux.fail(owner, &Failure::new(Cause::InvalidParams, message));
            }
            (several, Some(_)) => {
                let all: Vec<&str> = several.iter().map(|it| it.of.as_str()).collect();
                let message =
                    format!("several agents are called {name:?}: add `of`, one of {}", all.join(", "));
                mux.fail(owner, &Failure::new(Cause::InvalidParams, message));
            }
        }
    }

    fn cancel_one(&mut self, copilot: &mut Copilot, mux: &mut Mux, target: Target) {
        match target {
            Target::SubAgent(no) => self.cancel_sub_agent(copilot, mux, no),
            Target::Member(team, at) => self.cancel_member(copilot, mux, &team, at),
            Target::Worker(no, conversation) => self.cancel_worker(copilot, mux, (no, conversation)),
        }
    }
}
