//! Reports of lspool about calls of a dead process.

use serde_json::{Value, json};

use super::super::active_turn::Over;
use crate::{
    core::{
        copilot::{
            Copilot,
            history::{RecordedCall, RecordedTurn, Status},
            tools::tool_set::SUB_AGENT,
        },
        ids::{ConversationId, TurnId},
        mux::Mux,
        purpose::{CopilotPurpose, Purpose},
    },
    rpc::{Frame, Patch},
};

/// A round with the end of a call that the editor sees as running.
pub(super) fn settled(round: u64, call: &mut RecordedCall) -> Option<Vec<u8>> {
    let open = call.open.take()?;
    let mut patch = Patch::of(open.get().as_bytes());
    patch.set("status", json!(call.status.word()).to_string().as_bytes());
    match call.status {
        Status::Completed => {
            patch.set("result", json!([{"type": "text", "value": call.result}]).to_string().as_bytes());
        }
        Status::Error => {
            patch.set("error", json!(call.result).to_string().as_bytes());
        }
        Status::Running | Status::Cancelled | Status::Dropped | Status::Unknown => {}
    }
    Some(round_with(round, &patch.finish()))
}

/// A round with one call.
pub(crate) fn round_with(round: u64, call: &[u8]) -> Vec<u8> {
    let start = format!(r#"{{"roundId":{round},"reply":"","toolCalls":["#);
    [start.as_bytes(), call, b"]}"].concat()
}

impl Copilot {
    /// The record of a conversation's running turn, also for a sub-agent.
    pub(super) fn running_turn(&mut self, id: &ConversationId) -> Option<&mut RecordedTurn> {
        let conversation = self.conversations.get_mut(id)?;
        let turn = conversation.active_turn.turn.clone()?;
        conversation.history.turn(&turn)
    }

    /// Reports one round of a turn to the editor.
    pub(super) fn report(&self, mux: &mut Mux, top: &ConversationId, of: &ConversationId, round: &[u8]) {
        let token =
            self.conversations.get(top).and_then(|it| match &mux.requests().get(it.active()?)?.purpose {
                Purpose::Copilot(CopilotPurpose::Turn { token, .. }) => token.clone(),
                _ => None,
            });
        let (Some(token), Some(conversation)) = (token, self.conversations.get(of)) else { return };
        let Some(turn) = &conversation.active_turn.turn else { return };
        let mut value = Patch::of(br#"{"kind":"report"}"#);
        if let Some(caller) = &conversation.caller {
            value.set("parentTurnId", caller.as_bytes());
        }
        value.set("editAgentRounds", &[b"[", round, b"]"].concat());
        value.set("turnId", turn.as_bytes()).set("conversationId", of.as_bytes());
        let params = Patch::of(b"{}").set("value", &value.finish()).set("token", token.as_bytes()).finish();
        mux.tell_editor(Frame::notification("$/progress", Some(&params)));
    }

    /// Closes the sub-agents of a dead process, which cannot be resumed. Their work is the result of the call that
    /// started them; a call without a sub-agent is dropped.
    pub(super) fn close_sub_agents(&mut self, mux: &mut Mux, top: &ConversationId, of: &ConversationId) {
        let Some(conversation) = self.conversations.get_mut(of) else { return };
        let (before, caller) = (conversation.active_turn.sub_agents, conversation.active_turn.turn.clone());
        let Some(turn) = self.running_turn(of) else { return };
        let (open, closed): (Vec<_>, Vec<_>) = turn
            .calls()
            .filter(|(_, it)| it.name == SUB_AGENT)
            .map(|(_, it)| (it.id.clone(), it.has_result()))
            .partition(|(_, has_result)| !has_result);
        let done = closed.len().saturating_sub(before);
        let mut agents = self.sub_agents(top, caller.as_ref(), done).into_iter();
        for (call, _) in open {
            let child = agents.next();
            let said = child.as_ref().map(|it| {
                self.close_sub_agents(mux, top, it);
                self.running_turn(it).map_or_else(Vec::new, |it| it.messages(None))
            });
            let Some(turn) = self.running_turn(of) else { return };
            let mut report = None;
            for (round, call) in turn.calls().filter(|(_, it)| it.id == call) {
                match &said {
                    Some(said) => {
                        call.status = Status::Completed;
                        call.result = stopped(said);
                    }
                    None => call.status = Status::Dropped,
                }
                report = settled(round, call);
            }
            if let Some(round) = report {
                self.report(mux, top, of, &round);
            }
        }
    }

    /// The sub-agents of a turn, without the first `done` ones.
    fn sub_agents(&self, top: &ConversationId, caller: Option<&TurnId>, done: usize) -> Vec<ConversationId> {
        let family = self.conversations.family(top);
        let over =
            |id: &ConversationId| self.conversations.get(id).map_or(Over::No, |it| it.active_turn.over);
        let called = |id: &&ConversationId| {
            self.conversations.get(id).is_some_and(|it| it.caller.as_ref() == caller && caller.is_some())
        };
        let mut called: Vec<(usize, ConversationId)> =
            family.iter().filter(called).cloned().enumerate().collect();
        called.sort_by_key(|(n, id)| (std::cmp::Reverse(over(id)), *n));
        let mut left: Vec<(usize, ConversationId)> = called.into_iter().skip(done).collect();
        left.sort_by_key(|(n, _)| *n);
        left.into_iter().map(|(_, id)| id).collect()
    }
}

fn stopped(said: &[Value]) -> String {
    let said = json!(said);
    format!(
        "A technical fault stopped the sub-agent before it finished. What it had done until then (all of it \
         really happened): {said}"
    )
}
