//! Continues a turn whose process dies: the editor sees one `begin`, one stream of reports, one `end` and one answer.
//!
//! The fate of the turn is decided once, when the process is gone:
//!
//! - The server had reported the end: lspool makes the `end` and the answer.
//! - The turn has no result that counts: it starts again.
//! - Otherwise the next process gets the turn so far, with a short message to continue ([`CONTINUE`]). Running calls
//!   are settled first: lspool waits for a client's tool ([`late`]), and drops a tool of the server, so that no tool
//!   with side effects runs twice.
//!
//! The reports of the next process are renumbered ([`segment`](super::segment)). The history
//! ([`history`](crate::core::copilot::history)) has one turn, so [`CONTINUE`] is gone when the conversation is restored
//! again.
//!
//! [`CONTINUE`]: super::messages::CONTINUE

mod late;
mod reports;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tracing::info;

pub(crate) use self::reports::round_with;
use crate::{
    config::TurnRecovery,
    core::{
        copilot::{
            Copilot,
            active_turn::{ActiveTurn, Dialogue, Over, Suspended, Until},
            conversation::Conversation,
            history::{RecordedCall, Status, ToolKind},
            restore::Restores,
            segment::TurnSegment,
            tools::tool_set::{SUB_AGENT, is_edit_tool},
        },
        event::{BackendId, Peer, ProcessId},
        ids::{ConversationId, TurnId},
        mux::{
            Mux,
            cancel::cancellation,
            failure::Failure,
            pool::{lifecycle::Demand, processes::Outlook},
            requests::{Owner, Pending, To},
        },
        purpose::{CopilotPurpose, Purpose, Restriction, SentId, ToolQuestion, TurnKind},
    },
    rpc::{Frame, Patch, RawId, member, path, text},
};

/// The result of a call with an unknown outcome.
const INTERRUPTED: &str = "The call was interrupted by a technical fault. It may or may not have happened.";

/// The fate of a turn whose process is gone.
enum TurnFate {
    /// The next request of its conversation.
    Next(Frame),
    Suspended,
    Nothing,
}

impl TurnFate {
    fn next(frame: Option<Frame>) -> TurnFate {
        frame.map_or(TurnFate::Nothing, TurnFate::Next)
    }
}

/// Members of a request that are left out when its turn continues with results.
const ASKED_ONCE: [&str; 9] = [
    "turns",
    "message",
    "restoreToTurnId",
    "references",
    "followUp",
    "confirmationResponse",
    "selection",
    "visibleRanges",
    "todoList",
];

/// Why lspool ends a turn.
type Why = (&'static str, String);

fn cancelled_by_user() -> Why {
    ("cancellationReason", "\"CancelledByUser\"".to_owned())
}

impl Copilot {
    /// Decides about each turn of a process that is gone. Turns that had not begun, or continue, wait for the next
    /// process, if there can be one; returns whether any does. `followed_up`: conversations whose ended turn must get
    /// results; returns those that are suspended until then.
    pub(super) fn keep_turns(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        outlook: Outlook,
        followed_up: &BTreeSet<ConversationId>,
    ) -> (Vec<ConversationId>, Demand) {
        let (mut next, mut suspended) = (Vec::new(), Vec::new());
        for (sent, id) in self.turns_of(mux, process) {
            match self.keep_turn(mux, process, sent, &id, outlook, followed_up) {
                TurnFate::Next(frame) => next.push(frame),
                TurnFate::Suspended => suspended.push(id),
                TurnFate::Nothing => {}
            }
        }
        self.note_unanswered(process.backend);
        if let Some(partition) = self.partitions.get_mut(process.backend) {
            partition.restores = Restores::default();
        }
        if outlook == Outlook::Ends {
            self.drop_turns(mux, process.backend);
            return (suspended, Demand::Nobody);
        }
        let has_next = !next.is_empty();
        if let Some(backend) = mux.backend_mut(process.backend) {
            next.into_iter().rev().for_each(|it| backend.queue().push_front(it));
        }
        let waits = has_next || !self.kept_by(mux, process.backend).is_empty();
        (suspended, if waits { Demand::Somebody } else { Demand::Nobody })
    }

    /// The running turns of a process, or for it, in the order of sending.
    fn turns_of(&self, mux: &Mux, process: ProcessId) -> Vec<(SentId, ConversationId)> {
        let Some(partition) = self.partitions.get(process.backend) else { return Vec::new() };
        let to_come: BTreeSet<SentId> = partition.restores.to_come().collect();
        let running = mux
            .requests()
            .iter()
            .filter(|(sent, it)| it.to == To::Process(process) || to_come.contains(sent));
        let turn = |(sent, it): (SentId, &Pending)| match &it.purpose {
            Purpose::Copilot(CopilotPurpose::Turn { conversation, .. }) => Some((sent, conversation.clone())),
            _ => None,
        };
        let runs = |(sent, id): &(SentId, ConversationId)| {
            to_come.contains(sent) || self.conversations.get(id).is_some_and(|it| it.runs(*sent))
        };
        running.filter_map(turn).filter(runs).collect()
    }

    /// Decides about one turn.
    fn keep_turn(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        sent: SentId,
        id: &ConversationId,
        outlook: Outlook,
        followed_up: &BTreeSet<ConversationId>,
    ) -> TurnFate {
        let Some(conversation) = self.conversations.get(id).filter(|it| it.runs(sent)) else {
            // It was destroyed or replaced before it was sent: the server reports an error.
            return TurnFate::next(match outlook {
                Outlook::Follows => self.ask_next(mux, sent),
                Outlook::Ends => None,
            });
        };
        let has_begun = conversation.active_turn.turn.is_some();
        let is_over = conversation.active_turn.over != Over::No;
        if outlook == Outlook::Follows && is_over && followed_up.contains(id) {
            let Some(pending) = mux.requests_mut().take(sent) else { return TurnFate::Nothing };
            self.suspend(mux, sent, id, pending);
            return TurnFate::Suspended;
        }
        if is_over {
            info!(conversation = %id, "turn had ended when its process died");
            return TurnFate::next(self.finish_turn(mux, sent, id, None));
        }
        if mux.is_cancelled(Some(sent)) {
            return TurnFate::next(if has_begun { self.cancel_turn(mux, sent, id) } else { None });
        }
        let recovery = self.server(mux).settings.turn_recovery;
        if outlook == Outlook::Ends || (has_begun && recovery == TurnRecovery::Fail) {
            return TurnFate::Nothing;
        }
        let Some(request) = self.ask_next(mux, sent) else { return TurnFate::Nothing };
        if !has_begun {
            return TurnFate::Next(request);
        }
        info!(conversation = %id, "turn continues in the next process");
        if self.settle_calls(mux, process, id) {
            if let Some(conversation) = self.conversations.get_mut(id) {
                conversation.active_turn.suspended = Some(Suspended { request, until: Until::Answers });
            }
            return TurnFate::Nothing;
        }
        self.go_on(mux, id);
        TurnFate::Next(request)
    }

    /// Suspends the turn of this request until it gets results.
    pub(crate) fn suspend(&mut self, mux: &mut Mux, sent: SentId, id: &ConversationId, pending: Pending) {
        self.withdraw_kept(mux, id);
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let Purpose::Copilot(CopilotPurpose::Turn { token, .. }) = pending.purpose else { return };
        let mut params = Patch::of(pending.frame.params().unwrap_or(b"{}"));
        for key in ASKED_ONCE {
            params.remove(key);
        }
        if let Some(turn) = &conversation.active_turn.turn {
            params.set("turnId", turn.as_bytes());
        }
        let params = params.set("message", b"\"\"").set("conversationId", id.as_bytes()).finish();
        let frame = Frame::request(RawId::from(0), "conversation/turn", Some(&params));
        // A lead is never in a mode.
        let (conversation_id, restriction) = (id.clone(), Restriction::Process);
        let purpose = Purpose::Copilot(CopilotPurpose::Turn {
            conversation: conversation_id,
            token,
            kind: TurnKind::Later,
            restriction,
        });
        let to = To::Queue(conversation.backend);
        let (again, request) = mux.requests_mut().register(to, pending.owner, purpose, &frame);
        conversation.ask_again(sent, again);
        let active_turn = &mut conversation.active_turn;
        (active_turn.over, active_turn.continues, active_turn.restored) = (Over::No, false, false);
        active_turn.suspended = Some(Suspended { request, until: Until::Results });
    }

    /// Continues a suspended turn with this message of results.
    pub(crate) fn resume_with(&mut self, mux: &mut Mux, id: &ConversationId, turn: &TurnId, message: Value) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let (backend, active) = (conversation.backend, conversation.active());
        let active_turn = &mut conversation.active_turn;
        let Some(Suspended { request, .. }) = active_turn.suspended.take() else { return };
        let params = Patch::of(request.params().unwrap_or(b"{}"))
            .set("message", message.to_string().as_bytes())
            .finish();
        let frame = request.with_params(&params);
        if let Some(sent) = active {
            mux.requests_mut().reword(sent, &frame);
        }
        if let Some(record) = conversation.history.turn(turn) {
            active_turn.segment = Some(TurnSegment::following(active_turn.segment.take(), record));
            record.follow_up(message);
        }
        self.release(mux, backend, frame);
    }

    /// Ends a suspended turn without results.
    pub(crate) fn end_suspended(&mut self, mux: &mut Mux, id: &ConversationId) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let (backend, active) = (conversation.backend, conversation.active());
        conversation.active_turn.suspended = None;
        if let Some(sent) = active
            && let Some(next) = self.finish_turn(mux, sent, id, None)
        {
            self.release(mux, backend, next);
        }
    }

    /// The request under a new number, for the next process.
    fn ask_next(&mut self, mux: &mut Mux, sent: SentId) -> Option<Frame> {
        let frame = mux.requests_mut().renumber(sent)?;
        let again = SentId::of(&frame)?;
        if let Some(Purpose::Copilot(CopilotPurpose::Turn { conversation, .. })) =
            mux.requests().get(again).map(|it| &it.purpose)
            && let Some(conversation) = self.conversations.get_mut(conversation)
        {
            conversation.ask_again(sent, again);
        }
        Some(frame)
    }

    /// Whether the running turn of a conversation has begun, and waits for the next process.
    fn is_kept(mux: &Mux, id: &ConversationId, conversation: &Conversation) -> bool {
        let active = conversation.active().and_then(|it| mux.requests().get(it));
        let of = |it: &Pending| matches!(&it.purpose, Purpose::Copilot(CopilotPurpose::Turn { conversation, .. }) if conversation == id);
        let waits = |it: &Pending| it.to == To::Queue(conversation.backend) && of(it);
        conversation.active_turn.turn.is_some() && active.is_some_and(waits)
    }

    /// The same, by id.
    pub(crate) fn goes_on(&self, mux: &Mux, id: &ConversationId) -> bool {
        self.conversations.get(id).is_some_and(|it| Self::is_kept(mux, id, it))
    }

    /// The conversations of a backend whose running turn has begun, and waits for the next process.
    pub(super) fn kept_by(&self, mux: &Mux, backend: BackendId) -> Vec<ConversationId> {
        let of_backend = self.conversations.iter().filter(|(_, it)| it.backend == backend);
        of_backend.filter(|(id, it)| Self::is_kept(mux, id, it)).map(|(id, _)| id.clone()).collect()
    }

    /// Checks that the state of a running turn agrees with the other tables.
    pub(super) fn check_active_turn(
        mux: &Mux,
        id: &ConversationId,
        conversation: &Conversation,
    ) -> Result<(), String> {
        let active_turn = &conversation.active_turn;
        if let Some(Suspended { request, until }) = &active_turn.suspended {
            let sent = SentId::of(request);
            let waits = !active_turn.waits_for.is_empty() || *until == Until::Results;
            if sent != conversation.active() || !waits {
                return Err(format!(
                    "turn {sent:?} of conversation {id} is suspended, and waits for nothing"
                ));
            }
        }
        if active_turn.turn.is_none() && (active_turn.segment.is_some() || active_turn.over != Over::No) {
            return Err(format!("a turn of conversation {id} goes on, or is over, and has not begun"));
        }
        let is_asked = |it: &Pending| {
            it.owner == Owner::Proxy
                && matches!(
                    it.purpose,
                    Purpose::Copilot(CopilotPurpose::ToolCall { conversation: Some(_), .. })
                )
        };
        match active_turn.kept().find(|it| !mux.requests().get(*it).is_some_and(is_asked)) {
            Some(sent) => Err(format!("conversation {id} waits for {sent}, which the editor is not asked")),
            None => Ok(()),
        }
    }

    /// Settles the running calls of a turn whose process is gone. Returns whether the editor still owes it an answer.
    fn settle_calls(&mut self, mux: &mut Mux, process: ProcessId, id: &ConversationId) -> bool {
        let family = self.conversations.family(id);
        let asked = |it: &Pending| match (&it.owner, &it.purpose) {
            (
                Owner::Backend(by, _),
                Purpose::Copilot(CopilotPurpose::ToolCall { conversation: Some(of), .. }),
            ) => *by == process && family.contains(of),
            _ => false,
        };
        for sent in mux.requests().filter(asked) {
            self.keep_question(mux, sent, id);
        }
        self.act_on_confirmed(mux, id);
        for of in &family {
            let asked = self.asked_calls(mux, id, of);
            self.close_calls(mux, id, of, |it| !asked.contains(&it.id) && it.name != SUB_AGENT);
        }
        self.conversations.get(id).is_some_and(|it| !it.active_turn.waits_for.is_empty())
    }

    /// Keeps a question to the editor from a dead process, if its answer can be useful.
    fn keep_question(&mut self, mux: &mut Mux, sent: SentId, id: &ConversationId) {
        let Some(Pending {
            purpose: Purpose::Copilot(CopilotPurpose::ToolCall { conversation, kind }),
            frame,
            ..
        }) = mux.requests().get(sent)
        else {
            return;
        };
        let (of_sub_agent, is_confirmation) =
            (conversation.as_ref() != Some(id), *kind == ToolQuestion::Confirmation);
        if is_confirmation && of_sub_agent {
            // The sub-agent does not continue.
            return;
        }
        let is_dialogue = is_confirmation && !self.can_invoke(frame);
        mux.requests_mut().give_to(sent, Owner::Proxy);
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        match is_dialogue {
            true => conversation.active_turn.dialogues.push(Dialogue::Open(sent)),
            false => drop(conversation.active_turn.waits_for.insert(sent)),
        }
    }

    /// Notes the editor's answer to a confirmation of a living process.
    pub(super) fn on_confirmed(&mut self, id: &ConversationId, asked: &Frame, answer: &Frame) {
        if let Some(conversation) = self.conversations.get_mut(id) {
            conversation.active_turn.confirmed.push((asked.clone(), answer.clone()));
        }
    }

    /// Acts on confirmed calls that the process has not reported.
    fn act_on_confirmed(&mut self, mux: &mut Mux, id: &ConversationId) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        for (asked, answer) in std::mem::take(&mut conversation.active_turn.confirmed) {
            let params = asked.params().unwrap_or(b"{}");
            let call = text(params, &["toolCallId"]);
            let is_known = |it: &str| self.running_turn(id).is_some_and(|turn| turn.call(it).is_some());
            if call.as_deref().is_none_or(is_known) {
                continue;
            }
            if self.can_invoke(&asked) {
                self.on_late_confirmation(mux, id, &asked, Some(&answer));
            } else if let Some(conversation) = self.conversations.get_mut(id) {
                conversation.active_turn.dialogues.push(Dialogue::answered(asked, answer));
            }
        }
    }

    /// Whether lspool can call the tool of a confirmation itself: a client's tool.
    fn can_invoke(&self, confirmation: &Frame) -> bool {
        let params = confirmation.params().unwrap_or(b"{}");
        let of_mcp = path(params, &["input", "mcpServerName"]).is_some();
        text(params, &["name"])
            .is_some_and(|it| !of_mcp && !is_edit_tool(&it) && self.catalog.tool(&it).is_some())
    }

    /// Reports the end of calls that the editor sees as running.
    fn close_calls(
        &mut self,
        mux: &mut Mux,
        top: &ConversationId,
        of: &ConversationId,
        which: impl Fn(&RecordedCall) -> bool,
    ) {
        let Some(turn) = self.running_turn(of) else { return };
        let mut closed = Vec::new();
        for (round, call) in turn.calls().filter(|(_, it)| it.open.is_some() && which(it)) {
            if !call.has_result() {
                match call.tool {
                    ToolKind::Mcp => {
                        call.status = Status::Error;
                        INTERRUPTED.clone_into(&mut call.result);
                    }
                    ToolKind::Client | ToolKind::Shared | ToolKind::Unknown => call.status = Status::Dropped,
                }
            }
            closed.extend(reports::settled(round, call));
        }
        for round in closed {
            self.report(mux, top, of, &round);
        }
    }

    /// The calls of a conversation that wait for the editor's answer.
    fn asked_calls(&self, mux: &Mux, top: &ConversationId, of: &ConversationId) -> BTreeSet<String> {
        let Some(conversation) = self.conversations.get(top) else { return BTreeSet::new() };
        let call = |sent: &SentId| {
            let pending = mux.requests().get(*sent)?;
            let Purpose::Copilot(CopilotPurpose::ToolCall { conversation: Some(by), .. }) = &pending.purpose
            else {
                return None;
            };
            let params = pending.frame.params().filter(|_| by == of)?;
            text(params, &["toolCallId"])
        };
        conversation.active_turn.waits_for.iter().filter_map(call).collect()
    }

    /// Makes a turn with settled calls ready for the next process.
    fn go_on(&mut self, mux: &mut Mux, id: &ConversationId) {
        self.close_sub_agents(mux, id, id);
        self.conversations.forget_sub_agents(id);
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let active_turn = &mut conversation.active_turn;
        let Some(turn) = active_turn.turn.clone() else { return };
        let before = active_turn.segment.take();
        let segment = match conversation.history.turn(&turn) {
            Some(record) => {
                active_turn.sub_agents = record.calls().filter(|(_, it)| it.name == SUB_AGENT).count();
                active_turn.continues = !record.messages(None).is_empty() && !record.awaits_answer();
                TurnSegment::after(before, record)
            }
            None => TurnSegment::again(before),
        };
        active_turn.segment = Some(segment);
        active_turn.restored = false;
        if !active_turn.continues {
            active_turn.sub_agents = 0;
            if conversation.history.turn(&turn).is_some_and(|it| !it.awaits_answer()) {
                conversation.history.delete(&turn);
            }
        }
    }

    /// Ends a turn, with lspool's `end` and answer; returns the next turn of the conversation, which no process has
    /// got.
    fn finish_turn(
        &mut self,
        mux: &mut Mux,
        sent: SentId,
        id: &ConversationId,
        why: Option<Why>,
    ) -> Option<Frame> {
        let conversation = self.conversations.get_mut(id)?;
        let (backend, turn) = (conversation.backend, conversation.active_turn.turn.clone());
        if let Some(params) = mux.tokens_mut().ended(backend, id, why) {
            mux.tell_editor(Frame::notification("$/progress", Some(&params)));
        }
        let pending = mux.requests_mut().take(sent)?;
        if let Owner::Client(client, wire) = &pending.owner {
            let answer = self.made_answer(id, turn.as_ref(), pending.frame.params().unwrap_or(b"{}"));
            mux.send(Peer::Client(*client), Frame::response(wire.clone().into(), &answer));
        }
        self.withdraw_kept(mux, id);
        self.conversations.advance(id).map(|(_, next)| next)
    }

    /// The answer to a turn that no process will answer, like the server's answers for this model.
    fn made_answer(&self, id: &ConversationId, turn: Option<&TurnId>, asked: &[u8]) -> Vec<u8> {
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

    /// Ends a turn that the user has cancelled, after its process; returns the next turn.
    fn cancel_turn(&mut self, mux: &mut Mux, sent: SentId, id: &ConversationId) -> Option<Frame> {
        for of in self.conversations.family(id) {
            self.close_calls(mux, id, &of, |_| true);
        }
        self.finish_turn(mux, sent, id, Some(cancelled_by_user()))
    }

    /// Cancels a turn that waits for its process after it has begun in another. Returns whether it was one.
    pub(super) fn cancel_kept(&mut self, mux: &mut Mux, sent: SentId, id: &ConversationId) -> bool {
        let is_it = self.conversations.get(id).is_some_and(|it| it.runs(sent) && Self::is_kept(mux, id, it));
        if is_it
            && let Some(next) = self.cancel_turn(mux, sent, id)
            && let Some(backend) = self.conversations.get(id).map(|it| it.backend)
        {
            self.release(mux, backend, next);
        }
        is_it
    }

    /// Ends the progress of a turn that has begun, and that no process continues.
    pub(super) fn close_kept(&mut self, mux: &mut Mux, sent: SentId, id: &ConversationId, failure: &Failure) {
        let is_it = |it: &Conversation| it.runs(sent) && Self::is_kept(mux, id, it);
        let Some(conversation) = self.conversations.get(id).filter(|it| is_it(it)) else { return };
        let backend = conversation.backend;
        for of in self.conversations.family(id) {
            self.close_calls(mux, id, &of, |_| true);
        }
        let why = ("error", json!({"message": failure.message}).to_string());
        if let Some(params) = mux.tokens_mut().ended(backend, id, Some(why)) {
            mux.tell_editor(Frame::notification("$/progress", Some(&params)));
        }
    }

    /// Ends the begun turn of a dead process, because its conversation is destroyed or replaced: the renumbering of
    /// the next process needs the conversation.
    pub(super) fn end_kept(&mut self, mux: &mut Mux, id: &ConversationId) {
        let Some(conversation) = self.conversations.get(id) else { return };
        let (backend, goes_on) = (conversation.backend, conversation.active_turn.segment.is_some());
        let Some(sent) = conversation.active() else { return };
        if Self::is_kept(mux, id, conversation) {
            self.unqueue_turn(mux, backend, sent, id);
            self.cancel_kept(mux, sent, id);
        } else if goes_on {
            self.end_continued(mux, sent, id);
        }
    }

    /// Ends a turn for the editor that a process continues.
    fn end_continued(&mut self, mux: &mut Mux, sent: SentId, id: &ConversationId) {
        let Some(To::Process(process)) = mux.requests().get(sent).map(|it| it.to) else { return };
        mux.tell(process, cancellation(sent));
        self.note_cancelled(mux, sent, process);
        self.ignore_restored(mux, process, id);
        let next = self.finish_turn(mux, sent, id, Some(cancelled_by_user()));
        // The next turn starts when the conversation is gone: messages about the old turn are dropped until then.
        if let (Some(next), Some(conversation)) = (next, self.conversations.get_mut(id)) {
            conversation.hold(next);
        }
    }

    /// Withdraws the editor's open questions of an ended turn. A late answer belongs to the history.
    pub(super) fn withdraw_kept(&mut self, mux: &mut Mux, id: &ConversationId) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let active_turn = &mut conversation.active_turn;
        let kept: Vec<SentId> = active_turn.kept().collect();
        active_turn.waits_for.clear();
        active_turn.dialogues.clear();
        for sent in kept {
            let confirmation = |it: &Pending| {
                matches!(
                    it.purpose,
                    Purpose::Copilot(CopilotPurpose::ToolCall { kind: ToolQuestion::Confirmation, .. })
                )
            };
            let Some(pending) = mux.requests().get(sent) else { continue };
            let (to, is_confirmation) = (pending.to, confirmation(pending));
            if is_confirmation {
                mux.requests_mut().take(sent);
            }
            mux.withdraw(sent, to);
        }
    }

    /// Ends all turns of a failed backend.
    pub(super) fn drop_turns(&mut self, mux: &mut Mux, backend: BackendId) {
        let of = |(id, it): (&ConversationId, &Conversation)| (it.backend == backend).then(|| id.clone());
        let all: Vec<ConversationId> = self.conversations.iter().filter_map(of).collect();
        for id in all {
            self.withdraw_kept(mux, &id);
            if let Some(conversation) = self.conversations.get_mut(&id) {
                conversation.active_turn = ActiveTurn::default();
            }
        }
    }

    /// Ends a turn before its answer, if another process had begun it and the server has not ended it.
    pub(crate) fn end_before(
        &self,
        mux: &mut Mux,
        process: ProcessId,
        pending: &Pending,
        conversation: &ConversationId,
        answer: &Frame,
    ) {
        let error = answer
            .error_value()
            .map(|it| member(it, "message").map_or(&b"\"the turn failed\""[..], |range| &it[range]));
        let again = self.conversations.get(conversation).is_some_and(|it| it.active_turn.segment.is_some());
        if again {
            return mux.end_token(process, pending, Some(conversation), error);
        }
        let params = pending.frame.params().unwrap_or(b"{}");
        mux.tokens_mut().closed(process.backend, params, Some(conversation), None);
    }
}
