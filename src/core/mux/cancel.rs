//! Cancellation by request id and by progress token, in both directions.

use super::Mux;
use crate::{
    core::{
        event::{BackendId, ClientId, Effect, ProcessId},
        ids::{RequestId, Token},
        mux::{
            failure::{Cause, Failure},
            from_client::field,
            requests::{Pending, To},
        },
        purpose::{Purpose, SentId},
    },
    rpc::{Frame, Patch, RawId, member},
};

const CANCEL: &str = "window/workDoneProgress/cancel";

impl Mux {
    /// Whether the sender has cancelled the request.
    pub(crate) fn is_cancelled(&self, sent: Option<SentId>) -> bool {
        sent.and_then(|it| self.requests.get(it)).is_some_and(|it| it.marks.cancelled)
    }

    /// Finds the request of a client's `$/cancelRequest`. A missing request has been answered already.
    pub(crate) fn cancelled_by(&self, client: ClientId, frame: &Frame) -> Option<SentId> {
        self.requests.of_client(client, &field(frame, "id")?)
    }

    /// Cancels a request of a client. `frame` is its `$/cancelRequest`, for the process.
    pub(crate) fn cancel(&mut self, sent: SentId, frame: Option<&Frame>) {
        let Some(Pending { to, purpose, .. }) = self.requests.get(sent) else { return };
        match *to {
            // Without `initialize`, the process would be useless.
            To::Queue(_) if matches!(purpose, Purpose::Initialize) => {}
            To::Queue(_) => {
                self.cancel_queued(sent);
                self.fail_unsent(sent);
            }
            To::Process(process) => self.cancel_at(process, sent, frame),
            To::Client(_) | To::BuiltinTools => {}
        }
    }

    /// Removes a queued request.
    pub(crate) fn cancel_queued(&mut self, sent: SentId) {
        if let Some(To::Queue(backend)) = self.requests.get(sent).map(|it| it.to) {
            self.unqueue(backend, sent);
        }
    }

    /// Answers a queued request with an error; returns it.
    pub(crate) fn fail_unsent(&mut self, sent: SentId) -> Option<Pending> {
        let pending = self.requests.take(sent)?;
        self.fail(&pending.owner, &Failure::new(Cause::Cancelled, "cancelled before a server got it"));
        Some(pending)
    }

    /// Sends the cancellation of a request to a process.
    pub(crate) fn cancel_at(&mut self, process: ProcessId, sent: SentId, frame: Option<&Frame>) {
        if let Some(frame) = frame {
            let params =
                Patch::of(frame.params().unwrap_or(b"{}")).set("id", RawId::from(sent).as_bytes()).finish();
            self.tell(process, frame.with_params(&params));
        }
        self.requests.mark(sent, |it| it.cancelled = true);
    }

    /// Removes a request from the queue of its backend.
    pub(crate) fn unqueue(&mut self, backend: BackendId, sent: SentId) {
        let Some(queue) = self.backends.get_mut(backend).map(super::pool::backend::Backend::queue) else {
            return;
        };
        if let Some(at) = queue.iter().position(|it| SentId::of(it) == Some(sent)) {
            queue.remove(at);
        }
    }

    /// Handles `window/workDoneProgress/cancel` and `$/progress` of the editor with a token that a server chose.
    /// Returns whether the message is one.
    pub(crate) fn on_editor_progress(&mut self, frame: &Frame) -> bool {
        let Some(token) = field(frame, "token") else { return false };
        let Some((backend, theirs)) = self.tokens.owner(&token) else { return false };
        let frame = if theirs == token {
            frame.clone()
        } else {
            let params = frame.params().unwrap_or(b"{}");
            frame.with_params(&Patch::of(params).set("token", theirs.as_bytes()).finish())
        };
        self.notify_backend(backend, &frame);
        true
    }

    /// Handles `window/workDoneProgress/cancel` and `$/progress` with a token of the editor's, for the member of a group
    /// that works under it. Returns whether nobody else is to be told.
    pub(crate) fn on_progress_in_group(&mut self, frame: &Frame) -> bool {
        if !self.is_group() {
            return false;
        }
        let token: Option<Token> = field(frame, "token");
        let worker = token.as_ref().and_then(|it| self.worker(it));
        if let Some(backend) = worker {
            self.notify_backend(backend, frame);
        }
        // The work is done: others may use the same token for something else.
        worker.is_some() || frame.method() == Some(CANCEL)
    }

    /// The backend that a client has asked under this token, or that still reports under it.
    fn worker(&self, token: &Token) -> Option<BackendId> {
        let is_it = |it: &Pending| {
            let params = it.frame.params().filter(|_| it.owner.is_client());
            params.and_then(|it| Token::from_raw(&it[member(it, "workDoneToken")?])).as_ref() == Some(token)
        };
        let asked = self.requests.iter().filter(|(_, it)| is_it(it)).filter_map(|(_, it)| it.to.backend());
        asked.last().or_else(|| self.tokens.reporter(token))
    }

    /// Handles `$/cancelRequest` of a server, for a request that the editor knows under another id, or for a call of
    /// a builtin tool. Returns the id of a call that does not run yet, and so gets no other answer.
    pub(crate) fn on_server_cancel(&mut self, process: ProcessId, frame: &Frame) -> Option<RequestId> {
        let wire = field(frame, "id")?;
        let sent = self.requests.of_process(process, &wire)?;
        if self.requests.get(sent).is_some_and(|it| it.to == To::BuiltinTools) {
            self.withdraw(sent, To::BuiltinTools);
            // The call does not run yet, because the user has the question about it.
            return self.requests.get(sent).is_none().then_some(wire);
        }
        let params = frame.params().unwrap_or(b"{}");
        let params = Patch::of(params).set("id", RawId::from(sent).as_bytes()).finish();
        self.tell_editor(frame.with_params(&params));
        None
    }

    /// Withdraws a request to the editor or to a builtin tool.
    pub(crate) fn withdraw(&mut self, sent: SentId, to: To) {
        if to != To::BuiltinTools {
            return self.tell_editor(cancellation(sent));
        }
        let questions = self.requests.filter(|it| matches!(it.purpose, Purpose::Allow(of) if of == sent));
        if questions.is_empty() {
            return self.act(Effect::CancelTool(RawId::from(sent)));
        }
        // It does not run yet, so no answer will come.
        self.requests.take(sent);
        for question in questions {
            self.requests.take(question);
            self.tell_editor(cancellation(question));
        }
    }
}

/// The `$/cancelRequest` for a request.
pub(crate) fn cancellation(sent: SentId) -> Frame {
    let params = format!(r#"{{"id":{sent}}}"#);
    Frame::notification("$/cancelRequest", Some(params.as_bytes()))
}
