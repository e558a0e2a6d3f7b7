//! The turn of a lead: when it rests, and how it goes on.

use std::time::Instant;

use serde_json::json;
use tracing::info;

use super::{Lead, Phase, Proxy};
use crate::{
    agents::{self, team},
    core::{
        conversations::{Conversation, Watch},
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
    pub(crate) fn is_followed_up(&self, id: &RawId) -> bool {
        let lead = self.agents.lead_of(id).and_then(|it| self.agents.leads.get(&it));
        let (Some(lead), Some(conversation)) = (lead, self.conversations.get(id)) else { return false };
        let ended_well = lead.phase == Phase::Ended || conversation.flight.over != Over::Ended;
        ended_well && self.lacks_results(lead, conversation)
    }

    /// Whether the turn of a conversation waits for the results of its runs.
    pub(crate) fn waits_for_results(&self, id: &RawId) -> bool {
        self.agents
            .lead_of(id)
            .and_then(|it| self.agents.leads.get(&it))
            .is_some_and(|it| it.phase == Phase::Resting)
    }

    /// The server ends a turn. Whether that is not the end for the editor.
    pub(crate) fn hold_end_for_results(&mut self, id: &RawId, params: &[u8]) -> bool {
        let ends_well =
            ["error", "cancellationReason"].iter().all(|it| path(params, &["value", it]).is_none());
        if !ends_well {
            return false;
        }
        self.adopt_teams(id);
        let Some(no) = self.agents.lead_of(id) else { return false };
        let lead = self.agents.leads.get(&no).zip(self.conversations.get(id));
        let goes_on = lead.is_some_and(|(lead, conversation)| self.lacks_results(lead, conversation));
        if let Some(lead) = self.agents.leads.get_mut(&no).filter(|_| goes_on) {
            lead.phase = Phase::Ended;
        }
        goes_on
    }

    /// A server has answered. Where that is the end of a turn that is to be told results, it rests; else the request is
    /// given back.
    pub(crate) fn rest_for_results(
        &mut self,
        now: Instant,
        sent: SentId,
        pending: Pending,
        answer: &Frame,
        out: &mut Effects,
    ) -> Option<Pending> {
        let Purpose::Turn { conversation: id, .. } = &pending.purpose else { return Some(pending) };
        let is_running = self.conversations.get(id).is_some_and(|it| it.runs(sent));
        if is_running && answer.result().is_some() {
            self.adopt_teams(id);
        }
        let Some(no) = self.agents.lead_of(id) else { return Some(pending) };
        if !is_running {
            return Some(pending);
        }
        let (id, is_cancelled) = (id.clone(), pending.marks.cancelled);
        if let Some(result) = answer.result().filter(|_| !is_cancelled && self.is_followed_up(&id)) {
            self.conversations.learn_answer(result);
            if let To::Process(process) = pending.to {
                self.clear_transcripts(process, out);
            }
            self.rest(sent, &id, pending, out);
            return None;
        }
        self.end_lead(now, no, is_cancelled, out);
        Some(pending)
    }

    /// The turn of a lead comes to its end: the editor hears of its calls, and the `end` that was kept back.
    pub(super) fn end_lead(&mut self, now: Instant, no: u32, is_cancelled: bool, out: &mut Effects) {
        self.end_runs(now, no, out);
        let Some(lead) = self.agents.leads.remove(&no) else { return };
        if lead.phase == Phase::Ended {
            let why = is_cancelled.then(|| ("cancellationReason", "\"CancelledByUser\"".to_owned()));
            if let Some(params) = self.tokens.ended(lead.backend, &lead.conversation, why) {
                tell_editor(Frame::notification("$/progress", Some(&params)), out);
            }
        }
        for run in lead.runs {
            self.agents.runs.remove(&run);
        }
        self.agents.by_conversation.remove(&lead.conversation);
        self.store_again(&lead.conversation);
        if let Some(conversation) = self.conversations.get_mut(&lead.conversation) {
            conversation.watch = Watch::Nobody;
        }
    }

    /// The turn that was asked with this request waits for its runs.
    pub(crate) fn rest(&mut self, sent: SentId, id: &RawId, pending: Pending, out: &mut Effects) {
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
        let (again, frame) =
            self.requests.sent(To::Gate(conversation.backend), pending.owner, purpose, &frame);
        conversation.ask_again(sent, again);
        let flight = &mut conversation.flight;
        (flight.over, flight.continues, flight.restored) = (Over::No, false, false);
        flight.resting = Some(frame);
        if let Some(lead) = self.agents.leads.get_mut(&no) {
            lead.phase = Phase::Resting;
        }
        self.agents.due.insert(no);
        info!(conversation = %id, "a lead waits for its sub-agents");
    }

    /// All runs of a turn that rests have ended, and its teams are idle: it goes on, if there is anything to tell.
    pub(super) fn feed(&mut self, now: Instant, no: u32, out: &mut Effects) {
        let most = self.limits();
        let Some(lead) = self.agents.leads.get(&no) else { return };
        let (id, may_be_told) = (lead.conversation.clone(), lead.follow_ups < most.max_followups);
        let letters = if may_be_told { self.read_by_lead(&id) } else { Vec::new() };
        let Some(lead) = self.agents.leads.get_mut(&no) else { return };
        if letters.is_empty() && lead.fed == lead.runs.len() {
            return self.end_rest(&id, out);
        }
        let runs = lead.runs[lead.fed..].iter().filter_map(|it| self.agents.runs.get(it));
        let outcomes: Vec<_> = runs.filter_map(|it| it.result(now)).collect();
        lead.follow_ups += 1;
        let more = lead.follow_ups < most.max_followups && lead.runs.len() < most.max_subagents;
        let results = (!outcomes.is_empty()).then(|| agents::results(&outcomes, more));
        let letters = (!letters.is_empty()).then(|| team::news(&letters));
        let told: Vec<String> = letters.into_iter().chain(results).collect();
        let message = json!(told.join("\n\n"));
        (lead.fed, lead.phase) = (lead.runs.len(), Phase::Asked);
        let Some(conversation) = self.conversations.get_mut(&lead.conversation) else { return };
        let (backend, active) = (conversation.backend, conversation.active());
        let flight = &mut conversation.flight;
        let Some(frame) = flight.resting.take() else { return };
        let params = Patch::of(frame.params().unwrap_or(b"{}"))
            .set("message", message.to_string().as_bytes())
            .finish();
        let frame = frame.with_params(&params);
        if let Some(sent) = active {
            self.requests.reword(sent, &frame);
        }
        if let Some(record) = conversation.history.turn(&lead.turn) {
            flight.part = Some(Part::following(flight.part.take(), record));
            record.follow_up(message);
        }
        self.release(backend, frame, out);
    }

    /// A turn that rests has nothing to be told: it ends.
    fn end_rest(&mut self, id: &RawId, out: &mut Effects) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let (backend, active) = (conversation.backend, conversation.active());
        conversation.flight.resting = None;
        if let Some(sent) = active
            && let Some(next) = self.finish_turn(sent, id, None, out)
        {
            self.release(backend, next, out);
        }
    }

    /// Whether there is something that the turn of a lead is to wait for, or to be told.
    fn lacks_results(&self, lead: &Lead, conversation: &Conversation) -> bool {
        let lacks_any = lead.fed < lead.runs.len() || self.has_teams_to_wait_for(lead);
        lacks_any && !self.is_cancelled(conversation.active()) && is_turn_of(lead, conversation)
    }
}

/// Whether the running turn of a conversation is the one that has started these runs.
pub(super) fn is_turn_of(lead: &Lead, conversation: &Conversation) -> bool {
    conversation.active().is_some() && conversation.flight.turn.as_ref() == Some(&lead.turn)
}
