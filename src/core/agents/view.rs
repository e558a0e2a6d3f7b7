//! What the editor sees of sub-agents: the lead's call that has started one is shown as running for as long as that is.

use std::time::Instant;

use super::{Lead, Proxy};
use crate::{
    core::{event::Effects, recovery::round_with, tell_editor},
    rpc::{Frame, Patch, RawId, elements, member, path, text},
};

impl Proxy {
    /// Passes progress on to the editor. Calls of a lead that have started sub-agents are shown as those are doing.
    pub(in crate::core) fn show_lead(&mut self, now: Instant, frame: Frame, out: &mut Effects) {
        let params = frame.params().unwrap_or(b"{}");
        let conversation = path(params, &["value", "conversationId"])
            .filter(|_| !self.agents.leads.is_empty())
            .and_then(|it| RawId::from_raw(&params[it]));
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
        let lead = self.agents.leads.get(&lead)?;
        let mut shown = params.to_vec();
        for round in elements(&params[rounds.clone()]).collect::<Vec<_>>().into_iter().rev() {
            let start = rounds.start + round.start;
            let round = &params[start..rounds.start + round.end];
            let Some(calls) = member(round, "toolCalls") else { continue };
            for call in elements(&round[calls.clone()]).collect::<Vec<_>>().into_iter().rev() {
                let at = start + calls.start + call.start..start + calls.start + call.end;
                let run = text(&params[at.clone()], &["id"]).and_then(|it| lead.calls.get(&it));
                if let Some(run) = run.and_then(|it| self.agents.runs.get_mut(it)) {
                    run.entry = params[at.clone()].to_vec();
                    shown.splice(at, run.shown(now));
                }
            }
        }
        (shown != params).then_some(shown)
    }

    /// Whether a turn was cancelled that is to be told results. The server may have come to its end before it heard of that.
    fn is_cut_off(&self, no: u32) -> bool {
        let Some(lead) = self.agents.leads.get(&no) else { return false };
        let is_cancelled = self.conversations.get(&lead.conversation).is_some_and(|it| it.cancelled);
        is_cancelled && lead.fed < lead.runs.len()
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

/// A report of a lead's turn, if it has a token. The turn itself may be over already.
fn report(lead: &Lead, round: &[u8]) -> Option<Frame> {
    let value = Patch::of(br#"{"kind":"report"}"#)
        .set("editAgentRounds", &[b"[", round, b"]"].concat())
        .set("turnId", lead.turn.as_bytes())
        .set("conversationId", lead.conversation.as_bytes())
        .finish();
    let token = lead.token.as_ref()?;
    let params = Patch::of(b"{}").set("value", &value).set("token", token.as_bytes()).finish();
    Some(Frame::notification("$/progress", Some(&params)))
}
