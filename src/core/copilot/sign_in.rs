//! Whether somebody is signed in, as far as the primary says: by the kind of its status, and by the code of its errors.
//!
//! A server also says at its start that nobody is, until it has read what is stored. So before lspool refuses a
//! conversation it asks the primary something that needs a sign-in.

use super::{Copilot, tools::tool_set::ToolSet, turns::Placed};
use crate::{
    config::Isolation,
    core::{
        copilot::selection::Choice,
        event::ProcessId,
        ids::ConversationId,
        mux::{
            Mux,
            failure::{Cause, Failure},
            from_client::field,
            pool::backend::Backend,
            requests::{Owner, Pending},
        },
        purpose::{CopilotPurpose, Purpose},
    },
    rpc::{Frame, RawId, elements, member, path},
};

/// Codes of errors that a sign-in mends: no token of Copilot, no token of GitHub.
const SIGNED_OUT: [&[u8]; 2] = [b"1000", b"1003"];

/// Without a sign-in it is answered as a create is.
const NEEDS_SIGN_IN: &str = "copilot/models";

/// Whether a server has refused something because nobody is signed in.
pub(crate) fn is_signed_out(answer: &Frame) -> bool {
    let code = answer.error_value().and_then(|it| Some(&it[member(it, "code")?]));
    code.is_some_and(|it| SIGNED_OUT.contains(&it))
}

/// Whether a status of a server is an error, such as a missing sign-in.
pub(super) fn is_error(params: &[u8]) -> bool {
    member(params, "kind").is_some_and(|range| &params[range] == b"\"Error\"")
}

impl Copilot {
    /// The primary has said how it stands.
    pub(super) fn note_status(&mut self, process: ProcessId, method: &str, params: &[u8]) {
        if process.backend != self.primary {
            return;
        }
        let kind = match method {
            "didChangeStatus" => member(params, "kind").map(|range| &params[range]),
            "didChangeStatus/v2" => {
                let all = member(params, "statuses").map_or(&b"[]"[..], |range| &params[range]);
                let of_sign_in = elements(all)
                    .map(|range| &all[range])
                    .find(|it| member(it, "category").is_some_and(|range| &it[range] == b"\"auth\""));
                of_sign_in.and_then(|it| Some(&it[member(it, "kind")?]))
            }
            _ => None,
        };
        match kind {
            Some(b"\"Error\"") => self.session.may_be_signed_out = true,
            Some(b"\"Normal\"") => self.session.may_be_signed_out = false,
            Some(_) | None => {}
        }
    }

    /// Somebody signs out, or in.
    pub(super) fn note_sign_out(&mut self, method: &str, params: &[u8]) {
        let has_token = path(params, &["accessToken"]).is_some_and(|range| &params[range] != b"null");
        self.session.may_be_signed_out |= method == "signOut" || !has_token;
    }

    /// A create that needs a process, while nobody may be signed in: the primary is asked first. Whether it is.
    pub(super) fn asks_for_sign_in(
        &mut self,
        mux: &mut Mux,
        owner: &Owner,
        choice: &Choice,
        frame: &Frame,
    ) -> bool {
        let is_new = !self.has_process(mux, &choice.set);
        let needs_process = is_new && self.wish(mux, &choice.wish) == Isolation::Process;
        if !needs_process || !self.session.may_be_signed_out || !self.generic_session(mux).is_initialized() {
            return false;
        }
        self.ask_for_sign_in(mux, owner, frame);
        true
    }

    /// A request about a conversation whose create waits for the sign-in waits with it. Whether it does.
    pub(super) fn waits_for_create(&self, mux: &mut Mux, owner: &Owner, frame: &Frame) -> bool {
        // Two creates with one id would wait for each other for ever.
        if frame.method() == Some("conversation/create") {
            return false;
        }
        let Some(id) = field::<ConversationId>(frame, "conversationId") else { return false };
        let creates = |it: &Pending| match &it.purpose {
            Purpose::Copilot(CopilotPurpose::SignInCheck(request)) => {
                request.method() == Some("conversation/create")
                    && field(request, "conversationId").as_ref() == Some(&id)
            }
            _ => false,
        };
        let waits = self.conversations.get(&id).is_none() && mux.requests().iter().any(|(_, it)| creates(it));
        if waits {
            self.ask_for_sign_in(mux, owner, frame);
        }
        waits
    }

    /// A turn in a conversation whose process was stopped needs one again. Whether it waits for the sign-in.
    pub(super) fn turn_asks_for_sign_in(&self, mux: &mut Mux, owner: &Owner, frame: &Frame) -> bool {
        let id = field::<ConversationId>(frame, "conversationId");
        let Some(conversation) = id.and_then(|it| self.conversations.get(&it)) else { return false };
        let has_process = mux.backend(conversation.backend).is_some_and(Backend::accepts);
        if has_process || !self.session.may_be_signed_out {
            return false;
        }
        self.ask_for_sign_in(mux, owner, frame);
        true
    }

    fn ask_for_sign_in(&self, mux: &mut Mux, owner: &Owner, waiting: &Frame) {
        let asked = Frame::request(RawId::from(0), NEEDS_SIGN_IN, Some(b"{}"));
        let purpose = Purpose::Copilot(CopilotPurpose::SignInCheck(waiting.clone()));
        mux.send_to_backend(self.primary, owner.clone(), purpose, &asked);
    }

    fn has_process(&self, mux: &Mux, set: &ToolSet) -> bool {
        let of_set = self.partitions.iter().filter(|(_, it)| it.spare.is_none() && it.set == *set);
        set.is_all() || of_set.map(|(id, _)| id).any(|id| mux.backend(id).is_some_and(Backend::accepts))
    }

    /// The primary has answered whether somebody is signed in: the request that waits for it goes on. Gives the place
    /// of a conversation that is to be created.
    pub(crate) fn on_sign_in_answered(
        &mut self,
        mux: &mut Mux,
        pending: &Pending,
        request: &Frame,
        answer: &Frame,
    ) -> Option<Placed> {
        if pending.marks.cancelled {
            let failure = Failure::new(Cause::Cancelled, "cancelled before it was sent on");
            mux.fail(&pending.owner, &failure);
            return None;
        }
        if is_signed_out(answer) {
            mux.answer_client(pending, answer);
            return None;
        }
        self.session.may_be_signed_out = false;
        self.on_client_request(mux, pending.owner.clone(), None, request)
    }
}
