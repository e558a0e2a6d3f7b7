//! Cancellation, by request id and by progress token, in both directions.

use crate::core::{Cause, Failure, Proxy, tell_editor};
use crate::{
    core::{
        editor::field,
        event::{BackendId, ClientId, Effect, Effects, Peer, ProcessId},
        requests::{Owner, Pending, Purpose, SentId, To},
    },
    rpc::{Frame, Patch, RawId},
    tools::Outcome,
};

impl Proxy {
    /// `$/cancelRequest` of a client. An id that is not in flight has been answered already.
    pub(crate) fn on_client_cancel(&mut self, client: ClientId, frame: &Frame, out: &mut Effects) {
        let wire = field(frame, "id");
        if let Some(sent) = wire.and_then(|it| self.requests.of_client(client, &it)) {
            self.cancel(sent, Some(frame), out);
        }
    }

    pub(crate) fn cancel(&mut self, sent: SentId, frame: Option<&Frame>, out: &mut Effects) {
        let Some(pending) = self.requests.get(sent).cloned() else { return };
        match pending.to {
            // A process that is never asked to initialize serves nobody.
            To::Gate(_) if matches!(pending.purpose, Purpose::Initialize) => {}
            To::Gate(backend) => {
                let conversation = match &pending.purpose {
                    Purpose::Turn { conversation, .. } => Some(conversation),
                    _ => None,
                };
                self.take_gated(backend, sent, conversation);
                if conversation.is_some_and(|it| self.cancel_kept(sent, it, out)) {
                    return;
                }
                self.requests.take(sent);
                self.fail(
                    &pending.owner,
                    &Failure::new(Cause::Cancelled, "cancelled before it was sent on"),
                    out,
                );
                self.on_never_sent(&pending, sent, out);
            }
            To::Process(process) => {
                if let Some(frame) = frame {
                    let params = Patch::of(frame.params().unwrap_or(b"{}"))
                        .set("id", RawId::from(sent).as_bytes())
                        .finish();
                    out.push(Effect::Send(Peer::Backend(process), frame.with_params(&params)));
                }
                self.note_cancelled(sent, process, out);
            }
            To::Client(_) | To::Tools => {}
        }
    }

    /// Takes a request out of wherever it waits for its process.
    pub(crate) fn take_gated(&mut self, backend: BackendId, sent: SentId, conversation: Option<&RawId>) {
        if let Some(gate) = self.backends.get_mut(&backend).map(crate::core::Backend::gate)
            && let Some(at) = gate.iter().position(|it| it.id().and_then(|it| it.as_u64()) == Some(sent))
        {
            gate.remove(at);
        }
        if let Some(conversation) = conversation {
            self.forget_restore(backend, conversation, sent);
            self.conversations.take_waiting(conversation, &RawId::from(sent));
        }
    }

    /// A request is not wanted any more, and its process has been told. A turn that waits for a tool would wait on: the
    /// server does not take its question back, so lspool answers it and takes it back at the editor.
    pub(crate) fn note_cancelled(&mut self, sent: SentId, process: ProcessId, out: &mut Effects) {
        self.requests.mark(sent, |it| it.cancelled = true);
        let Some(Purpose::Turn { conversation: id, .. }) = self.requests.get(sent).map(|it| &it.purpose)
        else {
            return;
        };
        let id = id.clone();
        let family = self.conversations.family(&id);
        let open = |it: &Pending| match (&it.owner, &it.purpose) {
            (Owner::Backend(by, _), Purpose::ToolCall { conversation: Some(of), .. }) => {
                *by == process
                    && family.contains(of)
                    && self.turn_of_call(process, of, field(&it.frame, "turnId")) == Some(sent)
            }
            _ => false,
        };
        for sent in self.requests.filter(open) {
            let Some(Pending { owner: Owner::Backend(_, wire), purpose, to, .. }) = self.requests.take(sent)
            else {
                continue;
            };
            let confirmation = matches!(purpose, Purpose::ToolCall { confirmation: true, .. });
            let answer = Self::cancelled_call(wire, confirmation);
            out.push(Effect::Send(Peer::Backend(process), answer));
            self.withdraw(sent, to, out);
        }
        if self.conversations.get(&id).is_some_and(|it| it.runs(sent)) {
            self.conversations.touch(&id);
            self.settle_team_calls(process, &family, out);
        }
    }

    /// The answer to a tool call or confirmation of a cancelled turn.
    pub(crate) fn cancelled_call(wire: RawId, confirmation: bool) -> Frame {
        let result = match confirmation {
            true => serde_json::json!([{"result": "dismiss"}, null]),
            false => Outcome::Cancelled.answer(),
        };
        Frame::response(wire, result.to_string().as_bytes())
    }

    /// `window/workDoneProgress/cancel` and `$/progress` of the editor: to whoever the token belongs to.
    pub(crate) fn on_editor_progress(&mut self, frame: &Frame, out: &mut Effects) {
        let Some(token) = field(frame, "token") else {
            return self.notify_backend(crate::core::PRIMARY, frame, out);
        };
        if let Some((backend, theirs)) = self.tokens.owner(&token) {
            let frame = if theirs == token {
                frame.clone()
            } else {
                let params = frame.params().unwrap_or(b"{}");
                frame.with_params(&Patch::of(params).set("token", theirs.as_bytes()).finish())
            };
            return self.notify_backend(backend, &frame, out);
        }
        let cancels = frame.method() == Some("window/workDoneProgress/cancel");
        let turn = |it: &Pending| match &it.purpose {
            Purpose::Turn { token: of, .. } => of.as_ref() == Some(&token),
            _ => false,
        };
        // Of two turns with one token the server itself takes the later one.
        match self.requests.filter(turn).last().copied() {
            Some(sent) if cancels => self.cancel_turn_by_token(sent, frame, out),
            Some(_) | None => self.notify_backend(crate::core::PRIMARY, frame, out),
        }
    }

    fn cancel_turn_by_token(&mut self, sent: SentId, frame: &Frame, out: &mut Effects) {
        if let Some(To::Process(process)) = self.requests.get(sent).map(|it| it.to) {
            out.push(Effect::Send(Peer::Backend(process), frame.clone()));
        }
        self.cancel(sent, None, out);
    }

    /// `$/cancelRequest` of a server, for a request that the editor knows under another id, or one of lspool's own tools.
    pub(crate) fn on_backend_cancel(&mut self, process: ProcessId, frame: &Frame, out: &mut Effects) {
        let Some(wire) = field(frame, "id") else { return };
        let Some(sent) = self.requests.of_process(process, &wire) else { return };
        if self.requests.get(sent).is_some_and(|it| it.to == To::Tools) {
            self.withdraw(sent, To::Tools, out);
            // It was not at work yet: the user was asked whether it may be.
            if self.requests.get(sent).is_none() {
                out.push(Effect::Send(Peer::Backend(process), Self::cancelled_call(wire, false)));
            }
            return;
        }
        let params = frame.params().unwrap_or(b"{}");
        let params = Patch::of(params).set("id", RawId::from(sent).as_bytes()).finish();
        tell_editor(frame.with_params(&params), out);
    }
}
