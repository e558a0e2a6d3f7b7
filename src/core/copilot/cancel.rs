//! Cancels turns, by request id and by progress token, and handles the editor's answers to servers.

use serde_json::json;

use super::{
    Copilot,
    session::{mcp_servers, section_without_foreign_mcp},
    tools::tool_set::ToolSet,
    turns::tool_calls::cancelled_call,
};
use crate::{
    core::{
        event::{BackendId, ProcessId},
        ids::{ConversationId, Token},
        mux::{
            Mux,
            answers::{section_values, with_values},
            failure::Failure,
            from_client::field,
            requests::{Owner, Pending, To},
        },
        purpose::{CopilotPurpose, Purpose, SentId, ToolQuestion},
    },
    rpc::{Frame, elements, member},
};

impl Copilot {
    /// Cancels a request of a client. `frame` is its `$/cancelRequest`, for the process.
    pub(crate) fn cancel(&mut self, mux: &mut Mux, sent: SentId, frame: Option<&Frame>) {
        let Some(pending) = mux.requests().get(sent) else { return };
        let conversation = match &pending.purpose {
            Purpose::Copilot(CopilotPurpose::Turn { conversation, .. }) => Some(conversation.clone()),
            _ => None,
        };
        match (pending.to, conversation) {
            (To::Queue(backend), Some(conversation)) => {
                self.unqueue_turn(mux, backend, sent, &conversation);
                if !self.cancel_kept(mux, sent, &conversation) {
                    self.fail_unsent(mux, sent);
                }
            }
            (To::Queue(_), None) if !matches!(pending.purpose, Purpose::Initialize) => {
                mux.cancel_queued(sent);
                self.fail_unsent(mux, sent);
            }
            // The process was asked about the sign-in: no process has the create itself.
            (To::Process(process), _)
                if matches!(pending.purpose, Purpose::Copilot(CopilotPurpose::SignInCheck(_))) =>
            {
                mux.cancel_at(process, sent, frame);
                self.fail_unsent(mux, sent);
            }
            (To::Process(process), _) => {
                mux.cancel_at(process, sent, frame);
                self.note_cancelled(mux, sent, process);
            }
            (To::Queue(_) | To::Client(_) | To::BuiltinTools, _) => {}
        }
    }

    /// Ends turns that have waited too long for a process.
    pub(crate) fn end_late_turns(&mut self, mux: &mut Mux, turns: &[SentId], failure: &Failure) {
        for &sent in turns {
            let Some(pending) = mux.requests().get(sent) else { continue };
            let Purpose::Copilot(CopilotPurpose::Turn { conversation: id, kind, .. }) = &pending.purpose
            else {
                continue;
            };
            let (to, id, kind) = (pending.to, id.clone(), *kind);
            if let To::Queue(backend) = to {
                self.unqueue_turn(mux, backend, sent, &id);
            }
            self.close_kept(mux, sent, &id, failure);
            if let Some(pending) = mux.requests_mut().take(sent) {
                mux.fail(&pending.owner, failure);
            }
            self.on_turn_failed(mux, &id, sent, kind);
        }
    }

    /// Answers a queued request with an error.
    fn fail_unsent(&mut self, mux: &mut Mux, sent: SentId) {
        let Some(Pending { purpose: Purpose::Copilot(purpose), .. }) = mux.fail_unsent(sent) else { return };
        match purpose {
            CopilotPurpose::Tools(_) => self.tool_change_decided(mux),
            CopilotPurpose::Turn { conversation, kind, .. } => {
                self.on_turn_failed(mux, &conversation, sent, kind);
            }
            CopilotPurpose::Project
            | CopilotPurpose::Narrow
            | CopilotPurpose::Mode(_)
            | CopilotPurpose::Prove
            | CopilotPurpose::SignIn
            | CopilotPurpose::SignInCheck(_)
            | CopilotPurpose::ToolCall { .. } => {}
        }
    }

    /// Removes a turn from the place where it waits for its process.
    pub(super) fn unqueue_turn(
        &mut self,
        mux: &mut Mux,
        backend: BackendId,
        sent: SentId,
        conversation: &ConversationId,
    ) {
        mux.unqueue(backend, sent);
        self.forget_restore(backend, conversation, sent);
        self.conversations.take_waiting(conversation, sent);
    }

    /// Handles a turn that was cancelled at its process. The server does not withdraw its questions about tools, so
    /// lspool answers them, and withdraws them at the editor. Otherwise the turn would wait on.
    pub(super) fn note_cancelled(&mut self, mux: &mut Mux, sent: SentId, process: ProcessId) {
        mux.requests_mut().mark(sent, |it| it.cancelled = true);
        let purpose = mux.requests().get(sent).map(|it| &it.purpose);
        let Some(Purpose::Copilot(CopilotPurpose::Turn { conversation: id, .. })) = purpose else { return };
        let id = id.clone();
        let family = self.conversations.family(&id);
        let open = |it: &Pending| match (&it.owner, &it.purpose) {
            (
                Owner::Backend(by, _),
                Purpose::Copilot(CopilotPurpose::ToolCall { conversation: Some(of), .. }),
            ) => {
                *by == process
                    && family.contains(of)
                    && self.turn_of_call(mux, process, of, field(&it.frame, "turnId")) == Some(sent)
            }
            _ => false,
        };
        for sent in mux.requests().filter(open) {
            let Some(Pending { owner: Owner::Backend(_, wire), purpose, to, .. }) =
                mux.requests_mut().take(sent)
            else {
                continue;
            };
            let kind = match purpose {
                Purpose::Copilot(CopilotPurpose::ToolCall { kind, .. }) => kind,
                _ => ToolQuestion::Call,
            };
            mux.tell(process, cancelled_call(wire, kind));
            mux.withdraw(sent, to);
        }
        if self.conversations.get(&id).is_some_and(|it| it.runs(sent)) {
            self.conversations.touch(&id);
            self.cancelled.push((process, family));
        }
    }

    /// Sends `window/workDoneProgress/cancel` and `$/progress` of the editor to the owner of the token.
    pub(crate) fn on_editor_progress(&mut self, mux: &mut Mux, frame: &Frame) {
        if mux.on_editor_progress(frame) {
            return;
        }
        let token: Option<Token> = field(frame, "token");
        let cancels = frame.method() == Some("window/workDoneProgress/cancel");
        let turn = |it: &Pending| match &it.purpose {
            Purpose::Copilot(CopilotPurpose::Turn { token: of, .. }) => token.is_some() && *of == token,
            _ => false,
        };
        let turns = if token.is_some() { mux.requests().filter(turn) } else { Vec::new() };
        // Of two turns with one token the server takes the later one.
        match turns.last().copied() {
            Some(sent) if cancels => {
                if let Some(To::Process(process)) = mux.requests().get(sent).map(|it| it.to) {
                    mux.tell(process, frame.clone());
                }
                self.cancel(mux, sent, None);
            }
            Some(_) => mux.notify_backend(self.primary, frame),
            None if mux.on_progress_in_group(frame) => {}
            None => {
                if mux.is_group() {
                    mux.notify_group(frame, Some(self.server));
                }
                mux.notify_backend(self.primary, frame);
            }
        }
    }

    /// Handles the answer of the editor, or of a builtin tool, to a process that may have died.
    pub(crate) fn on_question_answered(
        &mut self,
        mux: &mut Mux,
        sent: SentId,
        pending: Pending,
        answer: &Frame,
    ) {
        let Owner::Backend(process, _) = pending.owner else {
            return self.on_late_answer(mux, sent, pending, Some(answer));
        };
        match &pending.purpose {
            _ if !self.has(mux, process.backend) => mux.answer_server(&pending, answer),
            Purpose::Copilot(CopilotPurpose::ToolCall { conversation: Some(id), kind }) => {
                if !mux.is_waited_for(process, answer) {
                    return;
                }
                match kind {
                    ToolQuestion::Call => {
                        let noted = self.with_note(id, answer);
                        let answer = noted.as_ref().unwrap_or(answer);
                        self.on_tool_answered(id, &pending.frame, Some(answer));
                        return mux.answer_server(&pending, answer);
                    }
                    ToolQuestion::Confirmation => self.on_confirmed(id, &pending.frame, answer),
                }
                mux.answer_server(&pending, answer);
            }
            Purpose::Configuration { sections } => {
                if !mux.is_waited_for(process, answer) {
                    return;
                }
                let answer = self.configuration(mux, process, sections, answer);
                mux.answer_server(&pending, &answer);
            }
            _ => mux.answer_server(&pending, answer),
        }
    }

    /// The answer to a call, with what the model of its turn is to be told beside it, if anything.
    pub(super) fn with_note(&self, id: &ConversationId, answer: &Frame) -> Option<Frame> {
        let note = self.conversations.get(id)?.active_turn.note?;
        let result = answer.result()?;
        let first = elements(result).next()?;
        let content = member(&result[first.clone()], "content")?;
        let items = &result[first.start + content.start..first.start + content.end];
        if !items.starts_with(b"[") {
            return None;
        }
        let comma = if elements(items).next().is_some() { "," } else { "" };
        let note = format!("{comma}{}", json!({"value": format!("\n\n{note}")}));
        let end = first.start + content.end - 1;
        let noted = [&result[..end], note.as_bytes(), &result[end..]].concat();
        Some(Frame::response(answer.id()?, &noted))
    }

    /// The answer to `workspace/configuration` as a process gets it: one value per section, without the MCP servers
    /// that its set has no use for.
    fn configuration(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        sections: &[Option<String>],
        answer: &Frame,
    ) -> Frame {
        self.session.pulled(sections, answer.result().unwrap_or(b"[]"));
        let set = self.partitions.set(process.backend).cloned().unwrap_or_else(ToolSet::all);
        let keeping = |it| self.session.keeping_section(it);
        let answer = with_own_sections(answer, sections, &set, keeping);
        if let Some(servers) = answered_mcp_servers(&answer, sections) {
            self.await_mcp(mux, process.backend, servers);
        }
        answer
    }
}

/// The MCP servers in an answer to `workspace/configuration`, if it contains any section with them.
fn answered_mcp_servers(answer: &Frame, sections: &[Option<String>]) -> Option<Vec<String>> {
    let values = answer.result()?;
    let at = sections.iter().position(|it| it.as_deref() == Some("github.copilot"))?;
    mcp_servers(&values[elements(values).nth(at)?])
}

/// The answer to `workspace/configuration` for a process with this set.
fn with_own_sections(
    answer: &Frame,
    sections: &[Option<String>],
    set: &ToolSet,
    keeping: impl Fn(Vec<u8>) -> Vec<u8>,
) -> Frame {
    let given = section_values(answer, sections.len());
    let kept = |(section, value): (&Option<String>, &&[u8])| match section.as_deref() {
        Some("github.copilot") => keeping(section_without_foreign_mcp(value, set)),
        Some("github") => match member(value, "copilot") {
            Some(range) => {
                let mut kept = value.to_vec();
                kept.splice(range.clone(), keeping(section_without_foreign_mcp(&value[range], set)));
                kept
            }
            None => value.to_vec(),
        },
        Some(_) | None => value.to_vec(),
    };
    let values: Vec<Vec<u8>> = sections.iter().zip(&given).map(kept).collect();
    if values == given {
        return answer.clone();
    }
    with_values(answer, &values).unwrap_or_else(|| answer.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RawId;

    #[test]
    fn restricted_partition_gets_no_foreign_mcp_servers() {
        let sections = ["github.copilot", "http"].map(|it| Some(it.to_owned()));
        let frame = Frame::response(RawId::from(1), br#"[{"mcp":"{\"x\":{}}","a":1},null]"#);
        let set = ToolSet::new::<&str>(Some(&[]), &[]);
        let answer = with_own_sections(&frame, &sections, &set, |it| it);
        let expected = br#"[{"mcp":"{}","a":1},null]"#;
        assert_eq!(answer.result(), Some(expected.as_slice()));
    }
}
