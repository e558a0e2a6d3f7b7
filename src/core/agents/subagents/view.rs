//! What the editor sees of sub-agents: the lead's call that has started one is shown as running for as long as that is.

use std::time::Instant;

use serde_json::json;

use super::{Lead, Proxy};
use crate::{
    core::{conversations::Conversation, event::Effects, recovery::round_with, tell_editor},
    rpc::{Frame, Patch, RawId, elements, member, path, text},
};

impl Proxy {
    /// Passes progress on to the editor. Calls of a lead that have started sub-agents are shown as those are doing.
    pub(crate) fn show_lead(&mut self, now: Instant, frame: Frame, out: &mut Effects) {
        if self.agents.leads.is_empty() {
            return tell_editor(frame, out);
        }
        let params = frame.params().unwrap_or(b"{}");
        let conversation =
            path(params, &["value", "conversationId"]).and_then(|it| RawId::from_raw(&params[it]));
        let Some(no) = conversation.and_then(|it| self.agents.lead_of(&it)) else {
            return tell_editor(frame, out);
        };
        if text(params, &["value", "kind"]).as_deref() == Some("end") {
            let is_cut_off = self.is_cut_off(no);
            self.end_runs(now, no, out);
            let says_why =
                ["error", "cancellationReason"].iter().any(|it| path(params, &["value", it]).is_some());
            if is_cut_off && !says_why {
                let params = Patch::of(params)
                    .set_path(&["value", "cancellationReason"], b"\"CancelledByUser\"")
                    .finish();
                return tell_editor(frame.with_params(&params), out);
            }
        }
        let shown = self.with_runs(now, no, params);
        tell_editor(shown.map_or_else(|| frame.clone(), |it| frame.with_params(&it)), out);
    }

    /// A report of a lead, with the calls that have started runs as those are doing.
    fn with_runs(&mut self, now: Instant, lead: u32, params: &[u8]) -> Option<Vec<u8>> {
        let rounds = path(params, &["value", "editAgentRounds"])?;
        let doing = self.agents.leads.get(&lead).filter(|it| it.team_call.is_some());
        let doing = doing.and_then(|it| self.teams_at_work(&it.conversation));
        let lead = self.agents.leads.get_mut(&lead)?;
        let mut shown: Option<Vec<u8>> = None;
        for round in elements(&params[rounds.clone()]).collect::<Vec<_>>().into_iter().rev() {
            let start = rounds.start + round.start;
            let round = &params[start..rounds.start + round.end];
            let Some(calls) = member(round, "toolCalls") else { continue };
            for call in elements(&round[calls.clone()]).collect::<Vec<_>>().into_iter().rev() {
                let at = start + calls.start + call.start..start + calls.start + call.end;
                let Some(id) = text(&params[at.clone()], &["id"]) else { continue };
                if let Some(run) = lead.calls.get(&id).and_then(|it| self.agents.runs.get_mut(it)) {
                    run.entry = params[at.clone()].to_vec();
                    shown.get_or_insert_with(|| params.to_vec()).splice(at, run.shown(now));
                } else if let Some(call) = lead.team_call.as_mut().filter(|it| it.id == id) {
                    // Made here.
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

    /// Shows what the teams of a lead are doing, if that is news.
    pub(super) fn show_teams(&mut self, conversation: &RawId, out: &mut Effects) {
        let doing = self.teams_at_work(conversation);
        let lead = self.agents.lead_of(conversation).and_then(|it| self.agents.leads.get_mut(&it));
        let Some((lead, mut call)) = lead.and_then(|it| it.team_call.take().map(|call| (it, call))) else {
            return;
        };
        let shown = doing.map_or_else(|| at_rest(&call.entry), |it| at_work(&call.entry, &it));
        if shown != call.shown
            && let Some(report) = report(lead, &round_with(call.round, &shown))
        {
            tell_editor(report, out);
        }
        call.shown = shown;
        lead.team_call = Some(call);
    }

    /// Whether a turn was cancelled that is to be told results. The server may have come to its end before it heard of that.
    fn is_cut_off(&self, no: u32) -> bool {
        let Some(lead) = self.agents.leads.get(&no) else { return false };
        let active = self.conversations.get(&lead.conversation).and_then(Conversation::active);
        self.is_cancelled(active) && lead.fed < lead.runs.len()
    }

    /// Shows what a sub-agent is doing.
    pub(super) fn show(&self, now: Instant, no: u32, out: &mut Effects) {
        let Some(run) = self.agents.runs.get(&no) else { return };
        let Some(lead) = self.agents.leads.get(&run.lead) else { return };
        if let Some(report) = report(lead, &round_with(run.round, &run.shown(now))) {
            tell_editor(report, out);
        }
        if lead.events {
            let event = Patch::of(run.event(now).to_string().as_bytes())
                .set("turnId", lead.turn.as_bytes())
                .set("conversationId", lead.conversation.as_bytes())
                .finish();
            tell_editor(Frame::notification("lspool/agentEvent", Some(&event)), out);
        }
    }
}

/// A call that has set a team to work, as it is shown while that is at work.
fn at_work(entry: &[u8], doing: &str) -> Vec<u8> {
    let doing = json!(doing).to_string();
    let mut call = Patch::of(entry);
    call.remove("result").remove("error");
    call.set("progressMessage", doing.as_bytes()).set("status", b"\"running\"").finish()
}

/// The same when nobody is at work any more: as it was reported, unless that has not come.
pub(super) fn at_rest(entry: &[u8]) -> Vec<u8> {
    match text(entry, &["status"]).as_deref() {
        Some("running") => Patch::of(entry).set("status", b"\"completed\"").finish(),
        Some(_) | None => entry.to_vec(),
    }
}

/// A report of a lead's turn, if it has a token. The turn itself may be over already.
pub(super) fn report(lead: &Lead, round: &[u8]) -> Option<Frame> {
    let value = Patch::of(br#"{"kind":"report"}"#)
        .set("editAgentRounds", &[b"[", round, b"]"].concat())
        .set("turnId", lead.turn.as_bytes())
        .set("conversationId", lead.conversation.as_bytes())
        .finish();
    let token = lead.token.as_ref()?;
    let params = Patch::of(b"{}").set("value", &value).set("token", token.as_bytes()).finish();
    Some(Frame::notification("$/progress", Some(&params)))
}
