//! A turn that is in flight when its process dies: it goes on in the next one, and the editor sees one `begin`, one
//! stream of reports, one `end` and one answer.
//!
//! What becomes of it is decided once, when the process is gone:
//!
//! - The server had said that it is over: lspool makes the `end` and the answer.
//! - Nothing came of it that counts: it is asked again.
//! - Else it is restored as far as it had come, and continued with a short message ([`CONTINUE`]). Calls that were
//!   running are settled first: what the client was asked is waited for ([`late`]), what the server did itself is
//!   dropped, so that no tool with side effects runs twice.
//!
//! What the next process says of it is renumbered ([`ids`]). The record of the turn ([`crate::core::history`]) is that of
//! one turn, so [`CONTINUE`] is gone when the conversation is restored once more.

mod ids;
mod late;
mod reports;

use std::collections::BTreeSet;

use tracing::info;

pub(crate) use self::{ids::Part, reports::round_with};
use crate::core::{Proxy, processes::cancellation, tell_editor};
use crate::{
    config::TurnRecovery,
    core::{
        conversations::Conversation,
        event::{BackendId, Effect, Effects, Peer, ProcessId},
        history::{Call, Status, Tool},
        requests::{Owner, Pending, Purpose, SentId, To},
        restore::Restores,
        toolset::{SUB_AGENT, is_edit_tool},
    },
    rpc::{Frame, Patch, RawId, member, path, text},
};

/// What the model is told so that it goes on with an answer that a crash has cut off.
pub const CONTINUE: &str = "Resume directly where the text above stops: no apology, no recap. A technical fault cut \
                            the answer off. Everything above has been shown to the user, and every tool call above \
                            has run: repeat neither. Pick up mid-thought if that is where the cut happened.";

/// The result of a call that nobody can know the result of.
const INTERRUPTED: &str = "The call was interrupted by a technical fault. It may or may not have happened.";

/// The running turn of a conversation, as the editor knows it.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Its id, once it has begun.
    pub(crate) turn: Option<RawId>,
    pub(crate) over: Over,
    /// Another process had it before.
    pub(crate) part: Option<Part>,
    /// The process is asked to continue it; else it is asked from its start.
    pub(crate) continues: bool,
    /// The process was told what was said before it.
    pub(crate) restored: bool,
    /// The request, while it waits for the editor's answers to what a process that is gone has asked.
    pub(crate) resting: Option<Frame>,
    /// Confirmations that the editor has given to the process. If that dies before it acts on one, it still counts.
    confirmed: Vec<(Frame, Frame)>,
    waits_for: BTreeSet<SentId>,
    dialogues: Vec<late::Dialogue>,
    /// How many calls of sub-agents belong to processes that are gone.
    sub_agents: usize,
}

/// What the server has said about the end of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Over {
    #[default]
    No,
    /// It has counted the tokens: the model will not be asked again.
    Counted,
    Ended,
}

impl Flight {
    /// Confirmations that the editor, or the list of what is allowed, has given: what was asked, and the answer.
    pub(crate) fn confirmed(&self) -> &[(Frame, Frame)] {
        &self.confirmed
    }

    /// A call that was confirmed is made.
    pub(crate) fn forget_confirmed(&mut self, is_made: impl Fn(&Frame) -> bool) {
        self.confirmed.retain(|(asked, _)| !is_made(asked));
    }

    /// Requests to the editor that the turn has kept from a process that is gone.
    fn kept(&self) -> impl Iterator<Item = SentId> {
        self.waits_for.iter().copied().chain(self.dialogues.iter().filter_map(late::Dialogue::open))
    }
}

/// Why a turn ends at lspool's word.
type Why = (&'static str, String);

fn cancelled_by_user() -> Why {
    ("cancellationReason", "\"CancelledByUser\"".to_owned())
}

impl Proxy {
    /// A process is gone: decides about each turn that it was asked. What it had not begun, or what shall go on, waits
    /// for the next process, if there can be one; gives whether anything does.
    pub(crate) fn keep_turns(&mut self, process: ProcessId, restarts: bool, out: &mut Effects) -> bool {
        let mut next = Vec::new();
        for (sent, id) in self.turns_of(process) {
            next.extend(self.keep_turn(process, sent, &id, restarts, out));
        }
        let Some(backend) = self.backends.get_mut(&process.backend) else { return false };
        backend.restores = Restores::default();
        if !restarts {
            self.drop_turns(process.backend, out);
            return false;
        }
        let waits = !next.is_empty();
        next.into_iter().rev().for_each(|it| backend.gate().push_front(it));
        waits || !self.kept_by(process.backend).is_empty()
    }

    /// The running turns that a process was asked, or that were to be told it, in the order they were asked.
    fn turns_of(&self, process: ProcessId) -> Vec<(SentId, RawId)> {
        let Some(backend) = self.backend(process.backend) else { return Vec::new() };
        let to_come: BTreeSet<SentId> = backend.restores.to_come().collect();
        let running =
            self.requests.iter().filter(|(sent, it)| it.to == To::Process(process) || to_come.contains(sent));
        let turn = |(sent, it): (SentId, &Pending)| match &it.purpose {
            Purpose::Turn { conversation, .. } => Some((sent, conversation.clone())),
            _ => None,
        };
        let runs = |(sent, id): &(SentId, RawId)| {
            to_come.contains(sent) || self.conversations.get(id).is_some_and(|it| it.runs(*sent))
        };
        running.filter_map(turn).filter(runs).collect()
    }

    /// Decides about one turn; gives what is next in its conversation.
    fn keep_turn(
        &mut self,
        process: ProcessId,
        sent: SentId,
        id: &RawId,
        restarts: bool,
        out: &mut Effects,
    ) -> Option<Frame> {
        let Some(conversation) = self.conversations.get(id).filter(|it| it.runs(sent)) else {
            // Destroyed or replaced before it was asked: the server says so.
            return if restarts { self.ask_next(sent) } else { None };
        };
        let has_begun = conversation.flight.turn.is_some();
        if restarts && conversation.flight.over != Over::No && self.is_followed_up(id) {
            let pending = self.requests.take(sent)?;
            self.rest(sent, id, pending, out);
            return None;
        }
        let conversation = self.conversations.get(id)?;
        if conversation.flight.over != Over::No {
            info!(conversation = %id, "the turn was over when its process died");
            return self.finish_turn(sent, id, None, out);
        }
        if self.is_cancelled(Some(sent)) {
            return if has_begun { self.cancel_turn(sent, id, out) } else { None };
        }
        if !restarts || (has_begun && self.turn_recovery() == TurnRecovery::Fail) {
            return None;
        }
        let frame = self.ask_next(sent)?;
        if !has_begun {
            return Some(frame);
        }
        info!(conversation = %id, "a turn in flight goes on in the next process");
        if self.settle_calls(process, id, out) {
            self.conversations.get_mut(id)?.flight.resting = Some(frame);
            return None;
        }
        self.go_on(id, out);
        Some(frame)
    }

    fn turn_recovery(&self) -> TurnRecovery {
        self.server.as_ref().map_or(TurnRecovery::default(), |it| it.settings.turn_recovery)
    }

    /// The request under a number that the process that is gone has not heard.
    pub(crate) fn ask_next(&mut self, sent: SentId) -> Option<Frame> {
        let frame = self.requests.again(sent)?;
        let again = frame.id().and_then(|it| it.as_u64())?;
        if let Some(Purpose::Turn { conversation, .. }) = self.requests.get(again).map(|it| &it.purpose)
            && let Some(conversation) = self.conversations.get_mut(conversation)
        {
            conversation.ask_again(sent, again);
        }
        Some(frame)
    }

    /// Whether the running turn of a conversation has begun, and waits for the next process.
    fn is_kept(&self, id: &RawId, conversation: &Conversation) -> bool {
        let active = conversation.active().and_then(|it| self.requests.get(it));
        let of =
            |it: &Pending| matches!(&it.purpose, Purpose::Turn { conversation, .. } if conversation == id);
        let waits = |it: &Pending| it.to == To::Gate(conversation.backend) && of(it);
        conversation.flight.turn.is_some() && active.is_some_and(waits)
    }

    /// The same, by id.
    pub(crate) fn goes_on(&self, id: &RawId) -> bool {
        self.conversations.get(id).is_some_and(|it| self.is_kept(id, it))
    }

    /// The conversations of a backend whose running turn has begun, and waits for the next process.
    pub(crate) fn kept_by(&self, backend: BackendId) -> Vec<RawId> {
        let of_backend = self.conversations.iter().filter(|(_, it)| it.backend == backend);
        of_backend.filter(|(id, it)| self.is_kept(id, it)).map(|(id, _)| id.clone()).collect()
    }

    /// Whether what is kept of the running turn of a conversation agrees with the other tables.
    pub(crate) fn check_flight(&self, id: &RawId, conversation: &Conversation) -> Result<(), String> {
        let flight = &conversation.flight;
        let rests = flight.resting.as_ref().and_then(Frame::id).and_then(|it| it.as_u64());
        let waits = !flight.waits_for.is_empty() || self.waits_for_results(id);
        if flight.resting.is_some() && (rests != conversation.active() || !waits) {
            return Err(format!("turn {rests:?} of conversation {id} rests, and waits for nothing"));
        }
        if flight.turn.is_none() && (flight.part.is_some() || flight.over != Over::No) {
            return Err(format!("a turn of conversation {id} goes on, or is over, and has not begun"));
        }
        let is_asked = |it: &Pending| {
            it.owner == Owner::Proxy && matches!(it.purpose, Purpose::ToolCall { conversation: Some(_), .. })
        };
        match flight.kept().find(|it| !self.requests.get(*it).is_some_and(is_asked)) {
            Some(sent) => Err(format!("conversation {id} waits for {sent}, which the editor is not asked")),
            None => Ok(()),
        }
    }

    /// Settles what was running in a turn whose process is gone. Whether the editor still owes an answer to it.
    fn settle_calls(&mut self, process: ProcessId, id: &RawId, out: &mut Effects) -> bool {
        let family = self.conversations.family(id);
        let asked = |it: &Pending| match (&it.owner, &it.purpose) {
            (Owner::Backend(by, _), Purpose::ToolCall { conversation: Some(of), .. }) => {
                *by == process && family.contains(of)
            }
            _ => false,
        };
        for sent in self.requests.filter(asked) {
            self.keep_question(sent, id);
        }
        self.act_on_confirmed(id, out);
        for of in &family {
            let asked = self.asked_calls(id, of);
            self.close_calls(id, of, |it| !asked.contains(&it.id) && it.name != SUB_AGENT, out);
        }
        self.conversations.get(id).is_some_and(|it| !it.flight.waits_for.is_empty())
    }

    /// The editor is still asked what a process has asked that is gone, if its answer can be of use.
    fn keep_question(&mut self, sent: SentId, id: &RawId) {
        let Some(Pending { purpose: Purpose::ToolCall { conversation, confirmation }, frame, .. }) =
            self.requests.get(sent)
        else {
            return;
        };
        let (of_sub_agent, confirmation) = (conversation.as_ref() != Some(id), *confirmation);
        if confirmation && of_sub_agent {
            // The sub-agent does not go on.
            return;
        }
        let is_dialogue = confirmation && !self.can_invoke(frame);
        self.requests.give_to(sent, Owner::Proxy);
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        match is_dialogue {
            true => conversation.flight.dialogues.push(late::Dialogue::Open(sent)),
            false => drop(conversation.flight.waits_for.insert(sent)),
        }
    }

    /// The editor has answered a confirmation of a process that lives.
    pub(crate) fn on_confirmed(&mut self, id: &RawId, asked: &Frame, answer: &Frame) {
        if let Some(conversation) = self.conversations.get_mut(id) {
            conversation.flight.confirmed.push((asked.clone(), answer.clone()));
        }
    }

    /// What was confirmed, and of which the process has said no more.
    fn act_on_confirmed(&mut self, id: &RawId, out: &mut Effects) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        for (asked, answer) in std::mem::take(&mut conversation.flight.confirmed) {
            let params = asked.params().unwrap_or(b"{}");
            let call = text(params, &["toolCallId"]);
            let is_known = |it: &str| self.running_turn(id).is_some_and(|turn| turn.call(it).is_some());
            if call.as_deref().is_none_or(is_known) {
                continue;
            }
            if self.can_invoke(&asked) {
                self.on_late_confirmation(id, &asked, Some(&answer), out);
            } else if let Some(conversation) = self.conversations.get_mut(id) {
                conversation.flight.dialogues.push(late::Dialogue::answered(asked, answer));
            }
        }
    }

    /// Whether lspool itself can call the tool that a confirmation is about: a client's own.
    fn can_invoke(&self, confirmation: &Frame) -> bool {
        let params = confirmation.params().unwrap_or(b"{}");
        let of_mcp = path(params, &["input", "mcpServerName"]).is_some();
        text(params, &["name"])
            .is_some_and(|it| !of_mcp && !is_edit_tool(&it) && self.catalogue.tool(&it).is_some())
    }

    /// Tells the editor what became of calls that it takes for running.
    fn close_calls(&mut self, top: &RawId, of: &RawId, which: impl Fn(&Call) -> bool, out: &mut Effects) {
        let Some(turn) = self.running_turn(of) else { return };
        let mut closed = Vec::new();
        for (round, call) in turn.calls().filter(|(_, it)| it.open.is_some() && which(it)) {
            if !call.has_result() {
                match call.tool {
                    Tool::Mcp => {
                        call.status = Status::Error;
                        INTERRUPTED.clone_into(&mut call.result);
                    }
                    Tool::Client | Tool::Shared | Tool::Unknown => call.status = Status::Dropped,
                }
            }
            closed.extend(reports::settled(round, call));
        }
        for round in closed {
            self.report(top, of, &round, out);
        }
    }

    /// The calls of a conversation for which the editor's answer is waited for.
    fn asked_calls(&self, top: &RawId, of: &RawId) -> BTreeSet<String> {
        let Some(conversation) = self.conversations.get(top) else { return BTreeSet::new() };
        let call = |sent: &SentId| {
            let pending = self.requests.get(*sent)?;
            let Purpose::ToolCall { conversation: Some(by), .. } = &pending.purpose else { return None };
            let params = pending.frame.params().filter(|_| by == of)?;
            text(params, &["toolCallId"])
        };
        conversation.flight.waits_for.iter().filter_map(call).collect()
    }

    /// All calls of a turn are settled: it is ready for the next process.
    fn go_on(&mut self, id: &RawId, out: &mut Effects) {
        self.close_sub_agents(id, id, out);
        self.conversations.forget_sub_agents(id);
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let flight = &mut conversation.flight;
        let Some(turn) = flight.turn.clone() else { return };
        let before = flight.part.take();
        let part = match conversation.history.turn(&turn) {
            Some(record) => {
                flight.sub_agents = record.calls().filter(|(_, it)| it.name == SUB_AGENT).count();
                flight.continues = !record.messages(None).is_empty() && !record.awaits_answer();
                Part::after(before, record)
            }
            None => Part::again(before),
        };
        flight.part = Some(part);
        flight.restored = false;
        if !flight.continues {
            flight.sub_agents = 0;
            if conversation.history.turn(&turn).is_some_and(|it| !it.awaits_answer()) {
                conversation.history.delete(&turn);
            }
        }
    }

    /// Ends a turn at lspool's word; gives the next turn of the conversation, which no process has seen.
    pub(crate) fn finish_turn(
        &mut self,
        sent: SentId,
        id: &RawId,
        why: Option<Why>,
        out: &mut Effects,
    ) -> Option<Frame> {
        let conversation = self.conversations.get_mut(id)?;
        let (backend, turn) = (conversation.backend, conversation.flight.turn.clone());
        if let Some(params) = self.tokens.ended(backend, id, why) {
            tell_editor(Frame::notification("$/progress", Some(&params)), out);
        }
        let pending = self.requests.take(sent)?;
        if let Owner::Client(client, wire) = &pending.owner {
            let answer = self.made_answer(id, turn.as_ref(), pending.frame.params().unwrap_or(b"{}"));
            out.push(Effect::Send(Peer::Client(*client), Frame::response(wire.clone(), &answer)));
        }
        self.withdraw_kept(id, out);
        self.conversations.advance(id).map(|(_, next)| next)
    }

    /// The answer to a turn that no process will answer, as the server answered others with this model.
    fn made_answer(&self, id: &RawId, turn: Option<&RawId>, asked: &[u8]) -> Vec<u8> {
        let model = path(asked, &["modelInfo", "id"]).or_else(|| member(asked, "model"));
        let model = model.map(|range| &asked[range]);
        let like = model.and_then(|it| self.conversations.answer_of(it));
        let mut answer = like.cloned().unwrap_or_else(|| b"{}".to_vec());
        if let (None, Some(range)) = (like, member(asked, "modelInfo")) {
            answer = Patch::of(&answer).set("modelInfo", &asked[range]).finish();
        }
        let mut answer = Patch::of(&answer);
        if let Some(turn) = turn {
            answer.set("turnId", turn.as_bytes());
        }
        answer.set("conversationId", id.as_bytes()).finish()
    }

    /// The user does not want a turn whose process is gone; gives what is next in its conversation.
    fn cancel_turn(&mut self, sent: SentId, id: &RawId, out: &mut Effects) -> Option<Frame> {
        for of in self.conversations.family(id) {
            self.close_calls(id, &of, |_| true, out);
        }
        self.finish_turn(sent, id, Some(cancelled_by_user()), out)
    }

    /// A turn that waits for its process, having begun in another one, is cancelled. Whether it was one.
    pub(crate) fn cancel_kept(&mut self, sent: SentId, id: &RawId, out: &mut Effects) -> bool {
        let is_it = self.conversations.get(id).is_some_and(|it| it.runs(sent) && self.is_kept(id, it));
        if is_it
            && let Some(next) = self.cancel_turn(sent, id, out)
            && let Some(backend) = self.conversations.get(id).map(|it| it.backend)
        {
            self.release(backend, next, out);
        }
        is_it
    }

    /// A conversation is destroyed, or replaced, whose turn has begun in a process that is gone. It ends here: how the
    /// next process tells its part of it is known only as long as the conversation is.
    pub(crate) fn end_kept(&mut self, id: &RawId, out: &mut Effects) {
        let Some(conversation) = self.conversations.get(id) else { return };
        let (backend, goes_on) = (conversation.backend, conversation.flight.part.is_some());
        let Some(sent) = conversation.active() else { return };
        if self.is_kept(id, conversation) {
            self.take_gated(backend, sent, Some(id));
            self.cancel_kept(sent, id, out);
        } else if goes_on {
            self.end_continued(sent, id, out);
        }
    }

    /// Nobody hears any more of a turn that a process continues.
    fn end_continued(&mut self, sent: SentId, id: &RawId, out: &mut Effects) {
        let Some(To::Process(process)) = self.requests.get(sent).map(|it| it.to) else { return };
        out.push(Effect::Send(Peer::Backend(process), cancellation(sent)));
        self.note_cancelled(sent, process, out);
        self.ignore_restored(process, id, out);
        let next = self.finish_turn(sent, id, Some(cancelled_by_user()), out);
        // It is asked when the conversation is gone: what the process says of the old turn until then goes nowhere.
        if let (Some(next), Some(conversation)) = (next, self.conversations.get_mut(id)) {
            conversation.hold(next);
        }
    }

    /// The turn of a conversation is over: what the editor is still asked for it is not wanted any more. An answer
    /// that comes all the same is part of the history.
    pub(crate) fn withdraw_kept(&mut self, id: &RawId, out: &mut Effects) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let flight = &mut conversation.flight;
        let kept: Vec<SentId> = flight.kept().collect();
        flight.waits_for.clear();
        flight.dialogues.clear();
        for sent in kept {
            let confirmation =
                |it: &Pending| matches!(it.purpose, Purpose::ToolCall { confirmation: true, .. });
            let Some(pending) = self.requests.get(sent) else { continue };
            let (to, is_confirmation) = (pending.to, confirmation(pending));
            if is_confirmation {
                self.requests.take(sent);
            }
            self.withdraw(sent, to, out);
        }
    }

    /// A backend will not serve: no turn of it goes on.
    pub(crate) fn drop_turns(&mut self, backend: BackendId, out: &mut Effects) {
        let of = |(id, it): (&RawId, &Conversation)| (it.backend == backend).then(|| id.clone());
        let all: Vec<RawId> = self.conversations.iter().filter_map(of).collect();
        for id in all {
            self.withdraw_kept(&id, out);
            if let Some(conversation) = self.conversations.get_mut(&id) {
                conversation.flight = Flight::default();
            }
        }
    }

    /// The server has answered a turn that another process had begun. If it has not ended it before, it is ended.
    pub(crate) fn end_before(&mut self, pending: &Pending, answer: &Frame, out: &mut Effects) {
        let Purpose::Turn { conversation: id, .. } = &pending.purpose else { return };
        let again = self.conversations.get(id).filter(|it| it.flight.part.is_some());
        let Some(backend) = again.map(|it| it.backend) else { return };
        let message = answer.error_value().map(|it| match member(it, "message") {
            Some(range) => String::from_utf8_lossy(&it[range]).into_owned(),
            None => "\"the turn failed\"".to_owned(),
        });
        let why = message.map(|it| ("error", format!(r#"{{"message":{it}}}"#)));
        if let Some(params) = self.tokens.ended(backend, id, why) {
            tell_editor(Frame::notification("$/progress", Some(&params)), out);
        }
    }
}
