//! The turn of a lead: lspool suspends it, and continues it with results.

use std::collections::BTreeSet;

use serde_json::json;
use tracing::info;

use super::LeadPhase;
use crate::{
    agents::{self, team},
    core::{
        agents::{Agents, subagents::Lead},
        copilot::{
            Copilot,
            active_turn::Over,
            conversation::{Conversation, Watch},
        },
        ids::ConversationId,
        mux::{
            Mux,
            requests::{Pending, To},
        },
        purpose::{CopilotPurpose, Purpose, SentId},
    },
    rpc::{Frame, path},
};

/// The end of a lead's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeadEnd {
    Answered,
    Cancelled,
}

impl Agents {
    /// Whether the running turn of a conversation lacks results of its sub-agents.
    fn is_followed_up(&self, copilot: &Copilot, mux: &Mux, id: &ConversationId) -> bool {
        let lead = self.subagents.lead_of(id).and_then(|it| self.subagents.leads.get(&it));
        let (Some(lead), Some(conversation)) = (lead, copilot.conversations().get(id)) else { return false };
        let ended_well = lead.phase == LeadPhase::Ended || conversation.active_turn.over != Over::Ended;
        ended_well && self.lacks_results(copilot, mux, lead, conversation)
    }

    /// Handles the server's `end` of a turn. Returns whether the turn continues for the editor.
    pub(crate) fn hold_end_for_results(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        id: &ConversationId,
        params: &[u8],
    ) -> bool {
        let ends_well =
            ["error", "cancellationReason"].iter().all(|it| path(params, &["value", it]).is_none());
        if !ends_well {
            return false;
        }
        self.adopt_teams(copilot, mux, id);
        let Some(no) = self.subagents.lead_of(id) else { return false };
        let lead = self.subagents.leads.get(&no).zip(copilot.conversations().get(id));
        let goes_on =
            lead.is_some_and(|(lead, conversation)| self.lacks_results(copilot, mux, lead, conversation));
        if let Some(lead) = self.subagents.leads.get_mut(&no).filter(|_| goes_on) {
            lead.phase = LeadPhase::Ended;
        }
        goes_on
    }

    /// Handles a server's answer. If the turn must get results, suspends it; if not, returns the request.
    pub(crate) fn suspend_for_results(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        sent: SentId,
        pending: Pending,
        answer: &Frame,
    ) -> Option<Pending> {
        let Purpose::Copilot(CopilotPurpose::Turn { conversation: id, .. }) = &pending.purpose else {
            return Some(pending);
        };
        let is_running = copilot.conversations().get(id).is_some_and(|it| it.runs(sent));
        if is_running && answer.result().is_some() {
            self.adopt_teams(copilot, mux, id);
        }
        let Some(no) = self.subagents.lead_of(id) else { return Some(pending) };
        if !is_running {
            return Some(pending);
        }
        let (id, is_cancelled) = (id.clone(), pending.marks.cancelled);
        if let Some(result) =
            answer.result().filter(|_| !is_cancelled && self.is_followed_up(copilot, mux, &id))
        {
            copilot.conversations_mut().learn_answer(result);
            if let To::Process(process) = pending.to {
                copilot.clear_transcripts(mux, process);
            }
            copilot.suspend(mux, sent, &id, pending);
            self.note_suspended(&id);
            return None;
        }
        let end = if is_cancelled { LeadEnd::Cancelled } else { LeadEnd::Answered };
        self.end_lead(copilot, mux, no, end);
        Some(pending)
    }

    /// Ends the turn of a lead: reports its calls, and then the kept `end`.
    pub(super) fn end_lead(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, end: LeadEnd) {
        self.end_sub_agents(copilot, mux, no);
        let Some(lead) = self.subagents.leads.remove(&no) else { return };
        if lead.phase == LeadPhase::Ended {
            let why =
                (end == LeadEnd::Cancelled).then(|| ("cancellationReason", "\"CancelledByUser\"".to_owned()));
            if let Some(params) = mux.tokens_mut().ended(lead.backend, &lead.conversation, why) {
                mux.tell_editor(Frame::notification("$/progress", Some(&params)));
            }
        }
        for sub_agent in lead.sub_agents {
            self.subagents.all.remove(&sub_agent);
        }
        self.subagents.by_conversation.remove(&lead.conversation);
        self.store_again(&lead.conversation);
        if let Some(conversation) = copilot.conversations_mut().get_mut(&lead.conversation) {
            conversation.watch = Watch::Nobody;
        }
    }

    /// Notes that the turn of this conversation is suspended.
    pub(crate) fn note_suspended(&mut self, id: &ConversationId) {
        let Some(no) = self.subagents.lead_of(id) else { return };
        if let Some(lead) = self.subagents.leads.get_mut(&no) {
            lead.phase = LeadPhase::Suspended;
        }
        self.subagents.due.insert(no);
        info!(conversation = %id, "lead suspended until its sub-agents end");
    }

    /// The conversations whose ended turn must get results.
    pub(crate) fn followed_up(&self, copilot: &Copilot, mux: &Mux) -> BTreeSet<ConversationId> {
        let leads = self.subagents.leads.values().map(|it| &it.conversation);
        leads.filter(|it| self.is_followed_up(copilot, mux, it)).cloned().collect()
    }

    /// Continues a suspended turn with its results, after all sub-agents have ended and its teams are idle.
    pub(super) fn deliver_results(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) {
        let most = Self::limits(copilot, mux);
        let Some(lead) = self.subagents.leads.get(&no) else { return };
        let (id, may_be_told) = (lead.conversation.clone(), lead.follow_ups < most.max_followups);
        let letters = if may_be_told { self.read_by_lead(&id) } else { Vec::new() };
        let Some(lead) = self.subagents.leads.get_mut(&no) else { return };
        if letters.is_empty() && lead.n_delivered == lead.sub_agents.len() {
            return copilot.end_suspended(mux, &id);
        }
        let sub_agents =
            lead.sub_agents[lead.n_delivered..].iter().filter_map(|it| self.subagents.all.get(it));
        let outcomes: Vec<_> = sub_agents.filter_map(|it| it.result(mux.now())).collect();
        lead.follow_ups += 1;
        let more = lead.follow_ups < most.max_followups && lead.sub_agents.len() < most.max_subagents;
        let results = (!outcomes.is_empty()).then(|| agents::results(&outcomes, more));
        let letters = (!letters.is_empty()).then(|| team::new_messages(&letters));
        let told: Vec<String> = letters.into_iter().chain(results).collect();
        let message = json!(told.join("\n\n"));
        (lead.n_delivered, lead.phase) = (lead.sub_agents.len(), LeadPhase::Asked);
        let turn = lead.turn.clone();
        copilot.resume_with(mux, &id, &turn, message);
    }

    /// Whether the turn of a lead must wait, or get results.
    fn lacks_results(&self, copilot: &Copilot, mux: &Mux, lead: &Lead, conversation: &Conversation) -> bool {
        let lacks_any =
            lead.n_delivered < lead.sub_agents.len() || self.has_teams_to_wait_for(copilot, mux, lead);
        lacks_any && !mux.is_cancelled(conversation.active()) && is_turn_of(lead, conversation)
    }
}

/// Whether the running turn of a conversation is the one that started these sub-agents.
pub(super) fn is_turn_of(lead: &Lead, conversation: &Conversation) -> bool {
    conversation.active().is_some() && conversation.active_turn.turn.as_ref() == Some(&lead.turn)
}
