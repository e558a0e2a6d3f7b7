//! What is said to those inside, taken out of the effects; and what the editor sees of them.
//!
//! - Answers and progress for a run go to it.
//! - What the process of a run asks the editor is asked under the ids of the lead's turn, with the name of the sub-agent.
//! - The lead's call that has started a run is shown as running for as long as the run is.

use std::time::Instant;

use serde_json::json;

use super::{Lead, Phase, Proxy};
use crate::{
    core::{
        EDITOR,
        event::{Effect, Effects, Peer},
        recovery::round_with,
        tell_editor,
    },
    rpc::{Frame, Kind, Patch, RawId, elements, member, path, text},
};

/// What a run is told.
pub(super) enum Said {
    Answer(u32, Frame),
    Progress(u32, Vec<u8>),
}

impl Proxy {
    /// Takes what is meant for those inside out of the effects, and makes of what their processes say to the editor what it
    /// can understand.
    pub(super) fn take_said(&mut self, now: Instant, out: &mut Effects) -> Vec<Said> {
        let mut said = Vec::new();
        for effect in std::mem::take(out) {
            match effect {
                Effect::Send(Peer::Client(client), frame) if client.is_inside() => {
                    said.push(Said::Answer(client.inside(), frame));
                }
                Effect::Send(EDITOR, frame) => self.take_of_editor(now, frame, &mut said, out),
                other => out.push(other),
            }
        }
        said
    }

    fn take_of_editor(&mut self, now: Instant, frame: Frame, said: &mut Vec<Said>, out: &mut Effects) {
        let params = frame.params().filter(|_| frame.kind() != Kind::Response).unwrap_or(b"{}");
        let id = |it: std::ops::Range<usize>| RawId::from_raw(&params[it]);
        if frame.method() == Some("$/progress") {
            let token = member(params, "token").and_then(id);
            if let Some(no) = token.and_then(|it| self.agents.run_of(&it)) {
                return said.push(Said::Progress(no, params.to_vec()));
            }
            let conversation = path(params, &["value", "conversationId"]).and_then(id);
            let Some(no) = conversation.and_then(|it| self.agents.lead_of(&it)) else {
                return tell_editor(frame, out);
            };
            if text(params, &["value", "kind"]).as_deref() == Some("end") {
                let is_cut_off = self.is_cut_off(no);
                self.close_calls_of(no, out);
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
            return tell_editor(shown.map_or_else(|| frame.clone(), |it| frame.with_params(&it)), out);
        }
        let conversation = member(params, "conversationId").and_then(id);
        let top = conversation.map(|it| self.conversations.top(&it));
        match top.and_then(|it| self.agents.run_of(&it)) {
            None => tell_editor(frame, out),
            // What it was told of a conversation that it does not know would help no editor.
            Some(_) if frame.kind() == Kind::Notification => {}
            Some(no) => {
                let asked = self.asked_for(no, params).map(|it| frame.with_params(&it));
                tell_editor(asked.unwrap_or(frame), out);
            }
        }
    }

    /// What the process of a run asks the editor, under the ids that it knows.
    fn asked_for(&self, no: u32, params: &[u8]) -> Option<Vec<u8>> {
        let run = self.agents.runs.get(&no)?;
        let Lead { conversation, turn, .. } = self.agents.leads.get(&run.lead)?;
        let mut asked = Patch::of(params);
        asked.set("conversationId", conversation.as_bytes());
        if member(params, "turnId").is_some() {
            asked.set("turnId", turn.as_bytes());
        }
        if member(params, "roundId").is_some() {
            asked.set("roundId", run.round.to_string().as_bytes());
        }
        if let Some(call) = text(params, &["toolCallId"]) {
            asked.set("toolCallId", json!(format!("{}/{call}", run.name)).to_string().as_bytes());
        }
        if let Some(title) = text(params, &["title"]) {
            asked.set("title", json!(format!("{}: {title}", run.name)).to_string().as_bytes());
        }
        let agent = json!({"agent": run.name, "agentType": run.agent});
        Some(asked.set("lspool", agent.to_string().as_bytes()).finish())
    }

    /// A report of a lead, with the calls that have started runs as those are doing.
    fn with_runs(&mut self, now: Instant, lead: u32, params: &[u8]) -> Option<Vec<u8>> {
        let rounds = path(params, &["value", "editAgentRounds"])?;
        let mut shown = params.to_vec();
        for round in elements(&params[rounds.clone()]).collect::<Vec<_>>().into_iter().rev() {
            let start = rounds.start + round.start;
            let round = &params[start..rounds.start + round.end];
            let Some(calls) = member(round, "toolCalls") else { continue };
            for call in elements(&round[calls.clone()]).collect::<Vec<_>>().into_iter().rev() {
                let at = start + calls.start + call.start..start + calls.start + call.end;
                let id = text(&params[at.clone()], &["id"]);
                let of = |it: &&mut super::Run| it.lead == lead && Some(&it.call) == id.as_ref();
                if let Some(run) = self.agents.runs.values_mut().find(of) {
                    run.entry = params[at.clone()].to_vec();
                    let call = match run.is_closed && !run.has_ended() {
                        true => run.given_up(),
                        false => run.shown(now),
                    };
                    shown.splice(at, call);
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

    /// The turn of a lead ends: no call of it is left running.
    pub(super) fn close_calls_of(&mut self, no: u32, out: &mut Effects) {
        let Some(lead) = self.agents.leads.get_mut(&no) else { return };
        lead.phase = Phase::Over;
        for run in lead.runs.clone() {
            let Some(run) = self.agents.runs.get_mut(&run).filter(|it| !it.is_closed) else { continue };
            run.is_closed = true;
            let round = round_with(run.round, &run.given_up());
            if let Some(report) = self.report_of(no, &round) {
                tell_editor(report, out);
            }
        }
    }

    /// A report of a lead's turn. The turn itself may be over already.
    fn report_of(&self, no: u32, round: &[u8]) -> Option<Frame> {
        let Lead { conversation, turn, token, .. } = self.agents.leads.get(&no)?;
        let value = Patch::of(br#"{"kind":"report"}"#)
            .set("editAgentRounds", &[b"[", round, b"]"].concat())
            .set("turnId", turn.as_bytes())
            .set("conversationId", conversation.as_bytes())
            .finish();
        let token = token.as_ref()?;
        let params = Patch::of(b"{}").set("value", &value).set("token", token.as_bytes()).finish();
        Some(Frame::notification("$/progress", Some(&params)))
    }

    /// Shows what a run is doing.
    pub(super) fn show(&mut self, now: Instant, no: u32, out: &mut Effects) {
        let Some(run) = self.agents.runs.get_mut(&no).filter(|it| !it.is_closed) else { return };
        run.is_closed = run.has_ended();
        let (lead, round) = (run.lead, round_with(run.round, &run.shown(now)));
        let (state, _) = run.doing(now);
        let mut event = json!({
            "agent": run.name, "agentType": run.agent, "toolCallId": run.call, "state": state,
        });
        if let Some(tool) = run.tool() {
            event["tool"] = json!(tool);
        }
        if let Some(started) = run.started {
            let millis = now.saturating_duration_since(started).as_millis();
            event["durationMs"] = json!(u64::try_from(millis).unwrap_or(u64::MAX));
        }
        let Some(Lead { conversation, turn, phase, .. }) = self.agents.leads.get(&lead) else { return };
        if *phase == Phase::Over {
            return;
        }
        let wants_events = self.conversations.get(conversation).is_some_and(|it| it.events);
        let event = Patch::of(event.to_string().as_bytes())
            .set("turnId", turn.as_bytes())
            .set("conversationId", conversation.as_bytes())
            .finish();
        if let Some(report) = self.report_of(lead, &round) {
            tell_editor(report, out);
        }
        if wants_events {
            tell_editor(Frame::notification("lspool/agentEvent", Some(&event)), out);
        }
    }
}
