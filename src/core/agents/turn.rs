//! The turn of a lead: when it rests, and how it goes on.

use std::time::Instant;

use serde_json::json;
use tracing::info;

use super::{Lead, Phase, Proxy};
use crate::{
    agents,
    core::{
        conversations::Conversation,
        event::Effects,
        modes::Entry,
        recovery::{Over, Part},
        requests::{Pending, Purpose, SentId, To},
        tell_editor,
    },
    rpc::{Frame, Patch, RawId, path},
};

/// What of a lead's request is not asked again when it goes on.
const ASKED_ONCE: [&str; 9] = [
    "turns",
    "message",
    "restoreToTurnId",
    "references",
    "followUp",
    "confirmationResponse",
    "selection",
    "visibleRanges",
    "todoList",
];

impl Proxy {
    /// Whether the running turn of a conversation has runs whose results it is still to be told.
    pub(in crate::core) fn is_followed_up(&self, id: &RawId) -> bool {
        let lead = self.agents.lead_of(id).and_then(|it| self.agents.leads.get(&it));
        let (Some(lead), Some(conversation)) = (lead, self.conversations.get(id)) else { return false };
        let ended_well = lead.phase == Phase::Ended || conversation.flight.over != Over::Ended;
        ended_well && lacks_results(lead, conversation)
    }

    /// Whether the turn of a conversation waits for the results of its runs.
    pub(in crate::core) fn waits_for_results(&self, id: &RawId) -> bool {
        self.agents
            .lead_of(id)
            .and_then(|it| self.agents.leads.get(&it))
            .is_some_and(|it| it.phase == Phase::Resting)
    }

    /// The server ends a turn. Whether that is not the end for the editor.
    pub(in crate::core) fn goes_on_with_results(&mut self, id: &RawId, params: &[u8]) -> bool {
        let ends_well =
            ["error", "cancellationReason"].iter().all(|it| path(params, &["value", it]).is_none());
        let Some(no) = self.agents.lead_of(id).filter(|_| ends_well) else { return false };
        let (Some(lead), Some(conversation)) = (self.agents.leads.get_mut(&no), self.conversations.get(id))
        else {
            return false;
        };
        let goes_on = lacks_results(lead, conversation);
        if goes_on {
            lead.phase = Phase::Ended;
        }
        goes_on
    }

    /// A server has answered. Where that is the end of a turn that is to be told results, it rests; else the request is
    /// given back.
    pub(in crate::core) fn rests_for_results(
        &mut self,
        sent: SentId,
        pending: Pending,
        answer: &Frame,
        out: &mut Effects,
    ) -> Option<Pending> {
        let Purpose::Turn { conversation: id, .. } = &pending.purpose else { return Some(pending) };
        let Some(no) = self.agents.lead_of(id) else { return Some(pending) };
        let Some(conversation) = self.conversations.get(id).filter(|it| it.active == Some(sent)) else {
            return Some(pending);
        };
        let (id, is_cancelled) = (id.clone(), conversation.cancelled);
        if let Some(result) = answer.result().filter(|_| self.is_followed_up(&id)) {
            self.conversations.learn_answer(result);
            if let To::Process(process) = pending.to {
                self.clear_transcripts(process, out);
            }
            self.rest(&id, pending, out);
            return None;
        }
        self.give_up_runs(no, is_cancelled, out);
        Some(pending)
    }

    /// The turn of a lead comes to its end without results: the editor hears of its calls, and the `end` that was kept
    /// back.
    pub(super) fn give_up_runs(&mut self, no: u32, is_cancelled: bool, out: &mut Effects) {
        let Some(phase) = self.agents.leads.get(&no).map(|it| it.phase) else { return };
        self.close_calls_of(no, out);
        let Some(lead) = self.agents.leads.get(&no) else { return };
        if phase == Phase::Ended {
            let why = is_cancelled.then(|| ("cancellationReason", "\"CancelledByUser\"".to_owned()));
            if let Some(params) = self.tokens.ended(lead.backend, &lead.conversation, why) {
                tell_editor(Frame::notification("$/progress", Some(&params)), out);
            }
        }
    }

    /// The turn that was asked with this request waits for its runs.
    pub(in crate::core) fn rest(&mut self, id: &RawId, pending: Pending, out: &mut Effects) {
        self.withdraw_kept(id, out);
        let Some(no) = self.agents.lead_of(id) else { return };
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let Purpose::Turn { token, .. } = pending.purpose else { return };
        let mut params = Patch::of(pending.frame.params().unwrap_or(b"{}"));
        for key in ASKED_ONCE {
            params.remove(key);
        }
        if let Some(turn) = &conversation.flight.turn {
            params.set("turnId", turn.as_bytes());
        }
        let params = params.set("message", b"\"\"").set("conversationId", id.as_bytes()).finish();
        let frame = Frame::request(RawId::from(0), "conversation/turn", Some(&params));
        // Those who start sub-agents are in no mode.
        let entry = Entry::Process;
        let purpose = Purpose::Turn { conversation: id.clone(), token, create: false, entry };
        let (sent, frame) =
            self.requests.sent(To::Gate(conversation.backend), pending.owner, purpose, &frame);
        conversation.active = Some(sent);
        let flight = &mut conversation.flight;
        (flight.over, flight.continues, flight.restored) = (Over::No, false, false);
        flight.resting = Some(frame);
        if let Some(lead) = self.agents.leads.get_mut(&no) {
            (lead.phase, lead.is_due) = (Phase::Resting, true);
        }
        info!(conversation = %id, "a lead waits for its sub-agents");
    }

    /// All runs of a turn that rests have ended: it goes on.
    pub(super) fn feed(&mut self, now: Instant, no: u32, out: &mut Effects) {
        let most = self.limits();
        let Some(lead) = self.agents.leads.get_mut(&no) else { return };
        let runs = lead.runs[lead.fed..].iter().filter_map(|it| self.agents.runs.get(it));
        let outcomes: Vec<_> = runs.filter_map(|it| it.result(now)).collect();
        lead.follow_ups += 1;
        let more = lead.follow_ups < most.max_followups && lead.runs.len() < most.max_subagents;
        let message = json!(agents::results(&outcomes, more));
        (lead.fed, lead.phase) = (lead.runs.len(), Phase::Asked);
        let Some(conversation) = self.conversations.get_mut(&lead.conversation) else { return };
        let backend = conversation.backend;
        let flight = &mut conversation.flight;
        let Some(frame) = flight.resting.take() else { return };
        let params = Patch::of(frame.params().unwrap_or(b"{}"))
            .set("message", message.to_string().as_bytes())
            .finish();
        let frame = frame.with_params(&params);
        if let Some(sent) = conversation.active {
            self.requests.reword(sent, &frame);
        }
        if let Some(record) = conversation.history.turn(&lead.turn) {
            flight.part = Some(Part::following(flight.part.take(), record));
            record.follow_up(message);
        }
        self.release(backend, frame, out);
    }
}

/// Whether there are runs whose results the turn of a lead is to be told.
fn lacks_results(lead: &Lead, conversation: &Conversation) -> bool {
    lead.fed < lead.runs.len() && !conversation.cancelled && is_turn_of(lead, conversation)
}

/// Whether the running turn of a conversation is the one that has started these runs.
pub(super) fn is_turn_of(lead: &Lead, conversation: &Conversation) -> bool {
    conversation.active.is_some() && conversation.flight.turn.as_ref() == Some(&lead.turn)
}
