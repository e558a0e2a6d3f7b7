//! The editor's answers to questions of a dead process.
//!
//! lspool waits for the result of a client's tool without a limit, like the server. It acts on a confirmation of a
//! client's tool: it calls the tool. Any other confirmation stays open: if the next process asks the same, it gets
//! the answer.

use serde_json::{Value, json};

use super::reports;
use crate::{
    core::{
        copilot::{
            Copilot,
            active_turn::{Dialogue, Suspended, Until},
        },
        event::ProcessId,
        ids::{ConversationId, RequestId},
        mux::{
            Mux,
            requests::{Owner, Pending},
        },
        purpose::{CopilotPurpose, Purpose, SentId, ToolQuestion},
    },
    rpc::{Frame, Patch, RawId, elements, member, path, text},
    util::json,
};

/// Members that a server adds to the input in a confirmation.
const ADDED: [&str; 2] = ["toolType", "commandLineType"];

impl Copilot {
    /// Handles the editor's answer to a question of a dead process.
    pub(crate) fn on_late_answer(
        &mut self,
        mux: &mut Mux,
        sent: SentId,
        pending: Pending,
        answer: Option<&Frame>,
    ) {
        if let Purpose::Allow(call) = pending.purpose {
            return self.on_allowed(mux, call, answer);
        }
        let Purpose::Copilot(CopilotPurpose::ToolCall { conversation: Some(of), kind }) = pending.purpose
        else {
            return;
        };
        let id = self.conversations.top(&of);
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        let is_it = |it: &&mut Dialogue| it.open() == Some(sent);
        if let Some(dialogue) = conversation.active_turn.dialogues.iter_mut().find(is_it) {
            if let Some(answer) = answer {
                *dialogue = Dialogue::answered(pending.frame, answer.clone());
            } else {
                conversation.active_turn.dialogues.retain(|it| it.open() != Some(sent));
            }
            return;
        }
        let is_waited_for = conversation.active_turn.waits_for.remove(&sent);
        match (kind, is_waited_for) {
            (ToolQuestion::Confirmation, true) => self.on_late_confirmation(mux, &id, &pending.frame, answer),
            (ToolQuestion::Confirmation, false) => {}
            (ToolQuestion::Call, _) => {
                let noted = answer.and_then(|it| self.with_note(&of, it));
                self.on_tool_answered(&of, &pending.frame, noted.as_ref().or(answer));
                if is_waited_for {
                    let call = text(pending.frame.params().unwrap_or(b"{}"), &["toolCallId"]);
                    self.close_calls(mux, &id, &of, |it| Some(&it.id) == call.as_ref());
                }
            }
        }
        self.go_on_if_settled(mux, &id);
    }

    fn go_on_if_settled(&mut self, mux: &mut Mux, id: &ConversationId) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let (backend, active_turn) = (conversation.backend, &mut conversation.active_turn);
        if !active_turn.waits_for.is_empty() {
            return;
        }
        if let Some(Suspended { request, .. }) =
            active_turn.suspended.take_if(|it| it.until == Until::Answers)
        {
            self.go_on(mux, id);
            self.release(mux, backend, request);
        }
    }

    /// Acts on the user's decision about a client's tool, like the server.
    pub(super) fn on_late_confirmation(
        &mut self,
        mux: &mut Mux,
        id: &ConversationId,
        asked: &Frame,
        answer: Option<&Frame>,
    ) {
        let params = asked.params().unwrap_or(b"{}");
        let result = answer.and_then(Frame::result).unwrap_or(b"[]");
        let first = elements(result).next().map_or(&b"{}"[..], |it| &result[it]);
        let accepted = text(first, &["result"]).as_deref() == Some("accept");
        let Some((round, call)) = confirmed(params, accepted) else { return };
        if let Some(turn) = self.running_turn(id) {
            turn.called(round, &call);
        }
        self.report(mux, id, id, &reports::round_with(round, &call));
        if let Some(answer) = answer.filter(|_| accepted) {
            self.on_confirmed(id, asked, answer);
            self.invoke(mux, id, params);
        }
    }

    /// Calls a client's tool instead of the dead process.
    fn invoke(&mut self, mux: &mut Mux, id: &ConversationId, params: &[u8]) {
        let mut call = Patch::of(b"{}");
        for key in ["toolCallId", "roundId", "turnId", "conversationId"] {
            if let Some(range) = member(params, key) {
                call.set(key, &params[range]);
            }
        }
        call.set("input", &input(params));
        if let Some(range) = member(params, "name") {
            call.set("name", &params[range]);
        }
        let purpose = Purpose::Copilot(CopilotPurpose::ToolCall {
            conversation: Some(id.clone()),
            kind: ToolQuestion::Call,
        });
        let call = Frame::request(RawId::from(0), "conversation/invokeClientTool", Some(&call.finish()));
        let sent = self.ask_tool(mux, Owner::Proxy, purpose, &call);
        if let Some(conversation) = self.conversations.get_mut(id) {
            conversation.active_turn.waits_for.insert(sent);
        }
    }

    /// Answers a confirmation with the editor's answer to the same one of the previous process. Returns whether there
    /// was one.
    pub(crate) fn answer_confirmation(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        wire: &RequestId,
        id: &ConversationId,
        frame: &Frame,
    ) -> bool {
        let Some(conversation) = self.conversations.get_mut(id) else { return false };
        let requests = mux.requests();
        let same = |it: &Dialogue| match it {
            Dialogue::Open(sent) => requests.get(*sent).is_some_and(|it| is_same(&it.frame, frame)),
            Dialogue::Answered(it) => is_same(&it.0, frame),
        };
        let dialogues = &mut conversation.active_turn.dialogues;
        let Some(at) = dialogues.iter().position(same) else { return false };
        match dialogues.remove(at) {
            Dialogue::Open(sent) => mux.requests_mut().give_to(sent, Owner::Backend(process, wire.clone())),
            Dialogue::Answered(it) => {
                mux.tell(process, it.1.with_id(wire.clone().into()));
            }
        }
        true
    }
}

/// Whether two confirmations are about the same call.
fn is_same(one: &Frame, other: &Frame) -> bool {
    let what = |it: &Frame, key: &str| -> Option<Value> {
        let params = it.params()?;
        json::read(&params[member(params, key)?]).ok()
    };
    ["name", "input"].into_iter().all(|key| what(one, key) == what(other, key))
}

/// The report of a confirmed call, with its round.
fn confirmed(params: &[u8], accepted: bool) -> Option<(u64, Vec<u8>)> {
    let round: u64 = serde_json::from_slice(&params[member(params, "roundId")?]).ok()?;
    let (id, name) = (text(params, &["toolCallId"])?, text(params, &["name"])?);
    let input = input(params);
    let pretty: Value = json::read(&input).ok()?;
    let status = if accepted { "running" } else { "cancelled" };
    let call = json!({
        "id": id, "name": name, "toolType": "client", "status": status, "input": {},
        "inputMessage": serde_json::to_string_pretty(&pretty).unwrap_or_default(),
        "progressMessage": format!("Running {name} tool"),
    });
    Some((round, Patch::of(call.to_string().as_bytes()).set("input", &input).finish()))
}

/// The input of the tool, without members that the server adds for the dialog.
fn input(params: &[u8]) -> Vec<u8> {
    let mut patch = Patch::of(path(params, &["input"]).map_or(b"{}", |it| &params[it]));
    for key in ADDED {
        patch.remove(key);
    }
    patch.finish()
}
