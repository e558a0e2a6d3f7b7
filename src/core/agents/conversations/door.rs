//! What is said to those inside, taken out of the effects; and what their processes ask the editor.
//!
//! - Answers and progress of a conversation inside go to whoever holds it.
//! - What its process asks the editor is asked under ids that the editor knows ([`Face`]), with the name of the agent.
//! - What is said of a conversation that is no more goes nowhere.

use std::time::Instant;

use serde_json::json;

use super::{Face, Proxy, is_own};
use crate::{
    core::{
        EDITOR,
        event::{Effect, Effects, Peer},
        tell_editor,
    },
    rpc::{Frame, Kind, Patch, RawId, member, text},
};

/// What one inside is told.
pub(super) enum Said {
    Answer(u32, Frame),
    Progress(u32, Vec<u8>),
}

pub(super) fn is_for_one_inside(effect: &Effect) -> bool {
    matches!(effect, Effect::Send(Peer::Client(client), _) if client.is_inside())
}

/// How methods begin that may be about a conversation.
const OF_CONVERSATIONS: [&str; 3] = ["conversation/", "copilot/", "$/copilot/"];

/// Whether an effect may be meant for one inside, or be about its conversation. Most are neither.
pub(super) fn may_concern_one_inside(effect: &Effect) -> bool {
    let is_of_one = |method: &str| method == "$/progress" || is_of_conversations(method);
    match effect {
        Effect::Send(EDITOR, frame) => frame.method().is_some_and(is_of_one),
        other => is_for_one_inside(other),
    }
}

fn is_of_conversations(method: &str) -> bool {
    OF_CONVERSATIONS.iter().any(|it| method.starts_with(it))
}

impl Proxy {
    /// Takes what is meant for those inside out of the effects from a place on, and makes of what their processes say to
    /// the editor what it can understand.
    pub(super) fn take_said(&mut self, now: Instant, from: usize, out: &mut Effects) -> Vec<Said> {
        let mut said = Vec::new();
        for effect in out.split_off(from) {
            match effect {
                Effect::Send(Peer::Client(client), frame) if client.is_inside() => {
                    said.push(Said::Answer(client.inside(), frame));
                }
                Effect::Send(EDITOR, frame) if frame.kind() != Kind::Response => {
                    self.take_of_editor(now, frame, &mut said, out);
                }
                other => out.push(other),
            }
        }
        said
    }

    /// Whether this is a conversation of one inside that is no more.
    pub(crate) fn is_of_none_inside(&self, id: &RawId) -> bool {
        let top = self.conversations.top(id);
        is_own(top.as_bytes()) && self.inside.of(&top).is_none()
    }

    fn take_of_editor(&mut self, now: Instant, frame: Frame, said: &mut Vec<Said>, out: &mut Effects) {
        let params = frame.params().unwrap_or(b"{}");
        let method = frame.method().unwrap_or_default();
        if method == "$/progress" {
            let token = member(params, "token").map_or(&b""[..], |it| &params[it]);
            if !is_own(token) {
                return self.show_lead(now, frame, out);
            }
            if let Some(no) = RawId::from_raw(token).and_then(|it| self.inside.of(&it)) {
                said.push(Said::Progress(no, params.to_vec()));
            }
            return;
        }
        if !is_of_conversations(method) {
            return tell_editor(frame, out);
        }
        let conversation = member(params, "conversationId");
        let top = conversation.and_then(|it| RawId::from_raw(&params[it]));
        let top = top.map(|it| self.conversations.top(&it)).filter(|it| is_own(it.as_bytes()));
        let talk = top.as_ref().and_then(|it| self.inside.talks.get(&self.inside.of(it)?));
        match (top.is_some(), frame.kind()) {
            // What it was told of a conversation that it does not know would help no editor.
            (true, Kind::Notification) => {}
            (true, _) => {
                let asked = talk.map(|it| frame.with_params(&asked_for(&it.face, params)));
                tell_editor(asked.unwrap_or(frame), out);
            }
            (false, _) => tell_editor(frame, out),
        }
    }
}

/// What the process of one inside asks the editor, under ids that it knows.
fn asked_for(face: &Face, params: &[u8]) -> Vec<u8> {
    let Face { conversation, turn, round, name, agent } = face;
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
