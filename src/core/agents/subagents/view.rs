//! The editor's view of sub-agents: the call that started one shows as running as long as the sub-agent.

use std::time::Duration;

use serde_json::{Value, json};

use super::sub_agent::{SubAgent, SubAgentState};
use crate::{
    core::{
        agents::{Agents, subagents::Lead},
        copilot::{Copilot, conversation::Conversation, resume::round_with},
        ids::ConversationId,
        mux::Mux,
    },
    rpc::{Frame, Patch, elements, member, path, text},
};

/// How often the editor sees how long a sub-agent has been at work.
pub(in crate::core::agents) const EVERY: Duration = Duration::from_secs(5);

impl Agents {
    /// Forwards progress to the editor. Calls that started sub-agents show the state of these.
    pub(crate) fn show_lead(&mut self, copilot: &mut Copilot, mux: &mut Mux, frame: Frame) {
        if self.subagents.leads.is_empty() {
            return mux.tell_editor(frame);
        }
        let params = frame.params().unwrap_or(b"{}");
        let conversation =
            path(params, &["value", "conversationId"]).and_then(|it| ConversationId::from_raw(&params[it]));
        let Some(no) = conversation.and_then(|it| self.subagents.lead_of(&it)) else {
            return mux.tell_editor(frame);
        };
        if text(params, &["value", "kind"]).as_deref() == Some("end") {
            let is_cut_off = self.is_cut_off(copilot, mux, no);
            self.end_sub_agents(copilot, mux, no);
            let says_why =
                ["error", "cancellationReason"].iter().any(|it| path(params, &["value", it]).is_some());
            if is_cut_off && !says_why {
                let params = Patch::of(params)
                    .set_path(&["value", "cancellationReason"], b"\"CancelledByUser\"")
                    .finish();
                return mux.tell_editor(frame.with_params(&params));
            }
        }
        let shown = self.with_sub_agents(mux, no, params);
        mux.tell_editor(shown.map_or_else(|| frame.clone(), |it| frame.with_params(&it)));
    }

    /// Replaces the calls in a lead's report by the state of their sub-agents.
    fn with_sub_agents(&mut self, mux: &mut Mux, lead: u32, params: &[u8]) -> Option<Vec<u8>> {
        let rounds = path(params, &["value", "editAgentRounds"])?;
        let doing = self.subagents.leads.get(&lead).filter(|it| it.team_call.is_some());
        let doing = doing.and_then(|it| self.teams_at_work(&it.conversation));
        let lead = self.subagents.leads.get_mut(&lead)?;
        let mut shown: Option<Vec<u8>> = None;
        for round in elements(&params[rounds.clone()]).collect::<Vec<_>>().into_iter().rev() {
            let start = rounds.start + round.start;
            let round = &params[start..rounds.start + round.end];
            let Some(calls) = member(round, "toolCalls") else { continue };
            for call in elements(&round[calls.clone()]).collect::<Vec<_>>().into_iter().rev() {
                let at = start + calls.start + call.start..start + calls.start + call.end;
                let Some(id) = text(&params[at.clone()], &["id"]) else { continue };
                if let Some(sub_agent) = lead.calls.get(&id).and_then(|it| self.subagents.all.get_mut(it)) {
                    sub_agent.entry = params[at.clone()].to_vec();
                    shown.get_or_insert_with(|| params.to_vec()).splice(at, sub_agent.shown(mux.now()));
                } else if let Some(call) = lead.team_call.as_mut().filter(|it| it.id == id) {
                    // lspool made this report.
                    if params[at.clone()] == *call.shown {
                        continue;
                    }
                    call.entry = params[at.clone()].to_vec();
                    call.shown = call.entry.clone();
                    if let Some(doing) = &doing {
                        call.shown = at_work(&call.entry, doing);
                        shown.get_or_insert_with(|| params.to_vec()).splice(at, call.shown.clone());
                    }
                }
            }
        }
        shown.filter(|it| it != params)
    }

    /// Shows the state of a lead's teams, if it has changed.
    pub(in crate::core::agents) fn show_teams(&mut self, mux: &mut Mux, conversation: &ConversationId) {
        let doing = self.teams_at_work(conversation);
        let lead = self.subagents.lead_of(conversation).and_then(|it| self.subagents.leads.get_mut(&it));
        let Some((lead, mut call)) = lead.and_then(|it| it.team_call.take().map(|call| (it, call))) else {
            return;
        };
        let shown = doing.map_or_else(|| when_ended(&call.entry), |it| at_work(&call.entry, &it));
        if shown != call.shown
            && let Some(report) = report(lead, &round_with(call.round, &shown))
        {
            mux.tell_editor(report);
        }
        call.shown = shown;
        lead.team_call = Some(call);
    }

    /// Whether a turn that must get results was cancelled. The server may have ended it before the cancellation
    /// arrived.
    fn is_cut_off(&self, copilot: &Copilot, mux: &Mux, no: u32) -> bool {
        let Some(lead) = self.subagents.leads.get(&no) else { return false };
        let active = copilot.conversations().get(&lead.conversation).and_then(Conversation::active);
        mux.is_cancelled(active) && lead.n_delivered < lead.sub_agents.len()
    }

    /// Shows what a sub-agent is doing.
    pub(in crate::core::agents) fn show_sub_agent(&mut self, mux: &mut Mux, no: u32) {
        self.have_changed = true;
        let Some(sub_agent) = self.subagents.all.get(&no) else { return };
        let Some(lead) = self.subagents.leads.get(&sub_agent.lead) else { return };
        if let Some(report) = report(lead, &round_with(sub_agent.round, &sub_agent.shown(mux.now()))) {
            mux.tell_editor(report);
        }
        if lead.events {
            mux.tell_editor(agent_event(lead, &sub_agent.event(mux.now())));
        }
    }

    /// Shows what a sub-agent writes to an editor that wants to see it.
    pub(super) fn show_text(&self, mux: &mut Mux, no: u32, words: &str) {
        let Some(sub_agent) = self.subagents.all.get(&no) else { return };
        let Some(lead) = self.subagents.leads.get(&sub_agent.lead).filter(|it| it.events) else { return };
        let mut event = sub_agent.event(mux.now());
        event["text"] = json!(words);
        mux.tell_editor(agent_event(lead, &event));
    }

    /// Shows how long sub-agents have been at work, from time to time.
    pub(in crate::core::agents) fn show_time(&mut self, mux: &mut Mux) {
        if self.subagents.tick.is_none_or(|at| mux.now() < at) {
            return;
        }
        let is_working = |it: &SubAgent| matches!(it.state, SubAgentState::Working(_));
        let working: Vec<u32> =
            self.subagents.all.iter().filter(|(_, it)| is_working(it)).map(|(no, _)| *no).collect();
        self.subagents.tick = (!working.is_empty()).then(|| mux.now() + EVERY);
        for no in working {
            self.show_sub_agent(mux, no);
        }
    }
}

/// What programs are told of an agent that works for a lead.
pub(in crate::core::agents) fn agent_event(lead: &Lead, event: &Value) -> Frame {
    let event = Patch::of(event.to_string().as_bytes())
        .set("turnId", lead.turn.as_bytes())
        .set("conversationId", lead.conversation.as_bytes())
        .finish();
    Frame::notification("lspool/agentEvent", Some(&event))
}

/// The report of a team call while members work.
fn at_work(entry: &[u8], doing: &str) -> Vec<u8> {
    let doing = json!(doing).to_string();
    let mut call = Patch::of(entry);
    call.remove("result").remove("error");
    call.set("progressMessage", doing.as_bytes()).set("status", b"\"running\"").finish()
}

/// The report of a team call when all members are idle: its last report, if it has come.
pub(in crate::core::agents) fn when_ended(entry: &[u8]) -> Vec<u8> {
    match text(entry, &["status"]).as_deref() {
        Some("running") => Patch::of(entry).set("status", b"\"completed\"").finish(),
        Some(_) | None => entry.to_vec(),
    }
}

/// A report of a lead's turn, if it has a token. The turn may have ended.
pub(in crate::core::agents) fn report(lead: &Lead, round: &[u8]) -> Option<Frame> {
    let value = Patch::of(br#"{"kind":"report"}"#)
        .set("editAgentRounds", &[b"[", round, b"]"].concat())
        .set("turnId", lead.turn.as_bytes())
        .set("conversationId", lead.conversation.as_bytes())
        .finish();
    let token = lead.token.as_ref()?;
    let params = Patch::of(b"{}").set("value", &value).set("token", token.as_bytes()).finish();
    Some(Frame::notification("$/progress", Some(&params)))
}
