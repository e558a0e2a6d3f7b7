//! Takes messages for internal conversations out of the effects, and translates requests of their processes to the
//! editor.
//!
//! - Answers and progress of an internal conversation go to its owner.
//! - Requests of its process to the editor get ids that the editor knows ([`EditorIds`]), with the name of the agent.
//! - Messages about a forgotten conversation are dropped.

use serde_json::json;

use super::EditorIds;
use crate::{
    core::{
        agents::Agents,
        copilot::{Copilot, conversation::is_internal},
        event::{Effect, Peer},
        ids::ConversationId,
        mux::Mux,
    },
    rpc::{Frame, Kind, Patch, member, text},
};

/// A message for an internal conversation, by its number.
pub(super) enum Delivery {
    Answer(u32, Frame),
    Progress(u32, Vec<u8>),
}

pub(super) fn is_for_internal(effect: &Effect) -> bool {
    matches!(effect, Effect::Send(Peer::Client(client), _) if client.is_internal())
}

/// Prefixes of methods that may be about a conversation.
const OF_CONVERSATIONS: [&str; 3] = ["conversation/", "copilot/", "$/copilot/"];

/// Whether an effect may be for an internal conversation, or about one. Most are not.
pub(super) fn may_concern_internal(effect: &Effect) -> bool {
    let is_of_one = |method: &str| method == "$/progress" || is_of_conversations(method);
    match effect {
        Effect::Send(Peer::EDITOR, frame) => frame.method().is_some_and(is_of_one),
        other => is_for_internal(other),
    }
}

fn is_of_conversations(method: &str) -> bool {
    OF_CONVERSATIONS.iter().any(|it| method.starts_with(it))
}

impl Agents {
    /// Takes the messages for internal conversations out of the effects from a position on. Translates requests of
    /// their processes to the editor.
    pub(super) fn take_deliveries(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        from: usize,
    ) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        for effect in mux.take_effects(from) {
            match effect {
                Effect::Send(Peer::Client(client), frame) if client.is_internal() => {
                    deliveries.push(Delivery::Answer(client.internal(), frame));
                }
                Effect::Send(Peer::EDITOR, frame) if frame.kind() != Kind::Response => {
                    self.take_of_editor(copilot, mux, frame, &mut deliveries);
                }
                other => mux.act(other),
            }
        }
        deliveries
    }

    fn take_of_editor(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        frame: Frame,
        deliveries: &mut Vec<Delivery>,
    ) {
        let params = frame.params().unwrap_or(b"{}");
        let method = frame.method().unwrap_or_default();
        if method == "$/progress" {
            let token = member(params, "token").map_or(&b""[..], |it| &params[it]);
            if !is_internal(token) {
                return self.show_lead(copilot, mux, frame);
            }
            if let Some(no) = ConversationId::from_raw(token).and_then(|it| self.internal.of(&it)) {
                deliveries.push(Delivery::Progress(no, params.to_vec()));
            }
            return;
        }
        if !is_of_conversations(method) {
            return mux.tell_editor(frame);
        }
        let conversation = member(params, "conversationId");
        let top = conversation.and_then(|it| ConversationId::from_raw(&params[it]));
        let top = top.map(|it| copilot.conversations().top(&it)).filter(|it| is_internal(it.as_bytes()));
        let internal = top.as_ref().and_then(|it| self.internal.conversations.get(&self.internal.of(it)?));
        match (top.is_some(), frame.kind()) {
            // The editor does not know the conversation of this notification.
            (true, Kind::Notification) => {}
            (true, _) => {
                let asked = internal.map(|it| frame.with_params(&asked_for(&it.editor_ids, params)));
                mux.tell_editor(asked.unwrap_or(frame));
            }
            (false, _) => mux.tell_editor(frame),
        }
    }
}

/// A request of an internal conversation's process, with ids that the editor knows.
fn asked_for(editor_ids: &EditorIds, params: &[u8]) -> Vec<u8> {
    let EditorIds { conversation, turn, round, name, agent } = editor_ids;
    let mut asked = Patch::of(params);
    asked.set("conversationId", conversation.as_bytes());
    if member(params, "turnId").is_some() {
        asked.set("turnId", turn.as_bytes());
    }
    if member(params, "roundId").is_some() {
        asked.set("roundId", round.to_string().as_bytes());
    }
    if let Some(call) = text(params, &["toolCallId"]) {
        asked.set("toolCallId", json!(format!("{name}/{call}")).to_string().as_bytes());
    }
    if let Some(title) = text(params, &["title"]) {
        asked.set("title", json!(format!("{name}: {title}")).to_string().as_bytes());
    }
    asked.set("lspool", json!({"agent": name, "agentType": agent}).to_string().as_bytes()).finish()
}
