//! Restores conversations whose process is gone: the next process gets the history before their next turn.
//!
//! A Copilot server takes a conversation only by `conversation/create`. So the turn becomes a create, with
//! `restoreToTurnId` and a file with the history, tool calls and results included:
//!
//! 1. The shell writes the file into a folder of the process.
//! 2. The setting `agent.transcriptDirectory` names the folder; the create follows.
//! 3. When the create has begun, lspool resets the setting and removes the folder. Not earlier: the server reads the
//!    file some time after the create.
//!
//! None of this is done before it is [proven](proof) that the server restores conversations in this way. Where it does
//! not, or could not restore this one, the history goes as text: the turn is asked again if the server has begun another
//! conversation, or has answered with an error before it began.

pub(crate) mod proof;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{
    core::{
        copilot::{
            Copilot,
            history::History,
            messages::{CONTINUE, destruction, question_in},
            modes::Modes,
            progress::ProgressReport,
        },
        event::{BackendId, Effect, ProcessId},
        ids::{ConversationId, Token},
        mux::{
            Mux,
            cancel::cancellation,
            failure::{Cause, Failure},
            from_client::field,
            pool::backend::Backend,
            requests::{Owner, Pending, To},
        },
        purpose::{CopilotPurpose, Purpose, Restriction, SentId, TurnKind},
    },
    rpc::{ErrorCode, Frame, Patch, RawId, member},
};
use proof::Proven;

/// The server's error for a conversation that it does not know, or has forgotten.
const UNKNOWN: &str = "does not exist";

/// The restores of one process.
#[derive(Debug, Default)]
pub(crate) struct Restores {
    under_way: BTreeMap<ConversationId, Restore>,
    /// Turns that wait until their mode is verified, or they move to another process.
    pub(crate) held_for_mode: BTreeMap<SentId, Restriction>,
    /// Whether the setting names the folder.
    is_set: bool,
    /// Whether the server may have written to the folder after the reset of the setting, in a continued turn.
    is_left: bool,
    /// The process has been asked whether it restores from transcripts, and has not answered.
    is_proving: bool,
    /// Orphans: conversations that the server made of creates that it could not restore, or that nobody wants. The
    /// editor does not see them.
    orphans: BTreeSet<ConversationId>,
}

#[derive(Debug)]
struct Restore {
    /// The request of the turn.
    sent: SentId,
    step: RestoreStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestoreStep {
    Proving,
    Writing,
    Asked(Told),
}

/// How a process is told a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Transcript,
    Text,
}

impl RestoreStep {
    /// Whether no process has been asked yet.
    fn is_to_come(self) -> bool {
        match self {
            RestoreStep::Proving | RestoreStep::Writing => true,
            RestoreStep::Asked(_) => false,
        }
    }
}

impl Restores {
    /// The numbers of the turns that no process has got yet.
    pub(super) fn to_come(&self) -> impl Iterator<Item = SentId> {
        let to_come = self.under_way.values().filter(|it| it.step.is_to_come()).map(|it| it.sent);
        to_come.chain(self.held_for_mode.keys().copied())
    }

    /// The number of orphans.
    #[cfg(test)]
    pub(crate) fn n_orphans(&self) -> usize {
        self.orphans.len()
    }

    /// Whether a conversation of this id is an orphan.
    pub(super) fn is_orphan(&self, id: &ConversationId) -> bool {
        self.orphans.contains(id)
    }
}

impl Copilot {
    /// Sends a message to a process. A turn of an unknown conversation is preceded by its history.
    pub(crate) fn deliver(&mut self, mux: &mut Mux, process: ProcessId, frame: Frame) {
        let Some(frame) = mux.for_successor(process, frame) else { return };
        let sent = SentId::of(&frame);
        let pending = sent.filter(|_| frame.method().is_some()).and_then(|it| mux.requests().get(it));
        match (sent, pending.map(|it| &it.purpose)) {
            (Some(sent), Some(Purpose::Copilot(CopilotPurpose::Turn { restriction, .. }))) => {
                match *restriction {
                    Restriction::Process => self.hand_over(mux, process, sent, frame),
                    restriction @ (Restriction::Mode(_) | Restriction::Leaves) => {
                        self.hold_for_mode(mux, process, sent, restriction);
                    }
                }
            }
            (Some(sent), Some(_)) => {
                mux.requests_mut().mark_written(sent, process);
                mux.tell(process, frame);
            }
            (_, _) => mux.tell(process, frame),
        }
    }

    /// Sends a turn to a process, after all checks.
    pub(super) fn hand_over(&mut self, mux: &mut Mux, process: ProcessId, sent: SentId, frame: Frame) {
        let mut told = frame;
        if let Some(Purpose::Copilot(CopilotPurpose::Turn { conversation, kind, restriction, .. })) =
            mux.requests().get(sent).map(|it| &it.purpose)
        {
            let (id, kind) = (conversation.clone(), *kind);
            told = self.in_mode(*restriction, &told);
            if let Some(conversation) = self.conversations.get_mut(&id) {
                // The server judges turns of a replaced conversation.
                let is_its_turn = conversation.runs(sent);
                let tells = kind == TurnKind::Later || conversation.active_turn.continues;
                if tells && is_its_turn && conversation.known_by() != Some(process) {
                    return self.restore_conversation(mux, process, sent, &id);
                }
                if is_its_turn {
                    conversation.told_to(process);
                    self.heed(process, &id);
                }
            }
        }
        mux.requests_mut().mark_written(sent, process);
        mux.tell(process, told);
    }

    fn restore_conversation(&mut self, mux: &mut Mux, process: ProcessId, sent: SentId, id: &ConversationId) {
        let name = id.as_text().filter(|_| History::is_file_name(id));
        let proven = name.as_ref().map_or(Proven::Text, |_| self.proven(process));
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let step = match (&name, proven) {
            (Some(name), Proven::Transcript) => {
                let content = Bytes::from(conversation.history.transcript(name));
                let kept = self.session.kept_transcripts.clone();
                mux.act(Effect::WriteTranscript { process, conversation: name.to_string(), content, kept });
                RestoreStep::Writing
            }
            (Some(_), Proven::Ask) => RestoreStep::Proving,
            (Some(_), Proven::Text) | (None, _) => RestoreStep::Asked(Told::Text),
        };
        info!(conversation = %id, ?step, "telling a process what was said");
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        partition.restores.under_way.insert(id.clone(), Restore { sent, step });
        match step {
            RestoreStep::Proving => self.ask_for_proof(mux, process),
            RestoreStep::Writing => {}
            RestoreStep::Asked(_) => self.ask_restored(mux, process, sent, id, History::plain_turns),
        }
    }

    /// Handles the shell's answer about the file of a conversation.
    pub(crate) fn on_transcript(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        conversation: &str,
        written: Result<PathBuf, String>,
    ) {
        if !mux.is_current(process) {
            return;
        }
        let id = ConversationId::text(conversation);
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        let writing = |it: &&mut Restore| it.step == RestoreStep::Writing;
        let Some(restore) = partition.restores.under_way.get_mut(&id).filter(writing) else {
            // The turn was cancelled meanwhile.
            if partition.restores.under_way.is_empty() && self.session.kept_transcripts.is_none() {
                mux.act(Effect::RemoveTranscripts(process));
            }
            return;
        };
        let told = if written.is_ok() { Told::Transcript } else { Told::Text };
        restore.step = RestoreStep::Asked(told);
        let sent = restore.sent;
        let modes = &self.modes;
        let is_held =
            mux.requests().get(sent).is_some_and(|it| needs_verification(modes, &it.purpose, process));
        if is_held || !mux.backend(process.backend).is_some_and(Backend::is_open) {
            // The tools will change. The file is written again then.
            partition.restores.under_way.remove(&id);
            mux.queue_first(process.backend, sent);
            return self.flush(mux, process.backend);
        }
        match written {
            Ok(folder) => {
                self.set_transcripts(mux, process, Some(&folder));
                self.ask_restored(mux, process, sent, &id, |_| Vec::new());
            }
            Err(error) => {
                warn!(conversation, error, "could not write the history to a file; restoring it as text");
                self.ask_restored(mux, process, sent, &id, History::plain_turns);
            }
        }
    }

    /// Sends the turn as a create. `earlier` are the turns before it; without any, they come from the file.
    fn ask_restored(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        sent: SentId,
        id: &ConversationId,
        earlier: impl Fn(&mut History) -> Vec<Value>,
    ) {
        mux.requests_mut().mark_written(sent, process);
        let Some(Pending {
            frame: turn,
            purpose: Purpose::Copilot(CopilotPurpose::Turn { restriction, .. }),
            ..
        }) = mux.requests().get(sent)
        else {
            return;
        };
        let (turn, restriction) = (turn.clone(), *restriction);
        let Some(conversation) = self.conversations.get_mut(id) else {
            // It was destroyed meanwhile: the server reports an error.
            self.end_restore(mux, process, id);
            let turn = self.in_mode(restriction, &turn);
            return mux.tell(process, turn);
        };
        let earlier = earlier(&mut conversation.history);
        let params = turn.params().unwrap_or(b"{}");
        let create = conversation.history.create.clone();
        let mut patch = Patch::of(params);
        for key in ["source", "capabilities", "userLanguage"] {
            if let (None, Some(range)) = (member(params, key), member(&create, key)) {
                patch.set(key, &create[range]);
            }
        }
        patch.remove("message").remove("turnId").remove("restoreToTurnId");
        if earlier.is_empty()
            && let Some(last) = conversation.history.last()
        {
            patch.set("restoreToTurnId", json!(last).to_string().as_bytes());
        }
        let mut turns = earlier.iter().map(|it| it.to_string().into_bytes()).collect::<Vec<_>>();
        turns.push(match (&conversation.active_turn.turn, conversation.active_turn.continues) {
            (Some(turn), true) => {
                let question = json!(CONTINUE).to_string();
                Patch::of(b"{}").set("turnId", turn.as_bytes()).set("request", question.as_bytes()).finish()
            }
            (Some(_) | None, _) => question_of_turn(params),
        });
        patch.set("turns", &[b"[".as_slice(), &turns.join(b",".as_slice()), b"]"].concat());
        let frame = Frame::request(RawId::from(sent), "conversation/create", Some(&patch.finish()));
        conversation.told_to(process);
        conversation.active_turn.restored = true;
        let frame = self.in_mode(restriction, &frame);
        mux.tell(process, frame);
    }

    /// Handles the begin of a turn. Returns whether the editor gets it.
    pub(super) fn on_begun(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        id: &ConversationId,
        token: Option<&Token>,
    ) -> bool {
        let Some(partition) = self.partitions.get(process.backend) else { return true };
        // A conversation that was destroyed meanwhile still counts as the one that was asked for.
        if self.conversations.get(id).is_some() || partition.restores.under_way.contains_key(id) {
            self.end_restore(mux, process, id);
            return true;
        }
        let of_token = |it: &&SentId| match mux.requests().get(**it).map(|it| &it.purpose) {
            Some(Purpose::Copilot(CopilotPurpose::Turn { token: of, .. })) => of.as_ref() == token,
            _ => false,
        };
        let asked = partition.restores.under_way.iter().filter(|(_, it)| !it.step.is_to_come());
        let found = asked.map(|(id, it)| (id.clone(), it.sent)).find(|(_, sent)| of_token(&sent));
        let Some((meant, sent)) = found else { return true };
        self.on_orphan(mux, process, &meant, sent, id);
        false
    }

    /// Handles another conversation than the one to restore.
    fn on_orphan(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        meant: &ConversationId,
        sent: SentId,
        orphan: &ConversationId,
    ) {
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        partition.restores.orphans.insert(orphan.clone());
        mux.tell(process, cancellation(sent));
        Self::make_forget(mux, process, orphan);
        if let Some(pending) = mux.requests_mut().take(sent) {
            self.ask_again_as_text(mux, process, meant, sent, pending);
        }
    }

    /// A turn was asked with a transcript, and the process could not restore the conversation.
    fn ask_again_as_text(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        meant: &ConversationId,
        sent: SentId,
        pending: Pending,
    ) {
        warn!(conversation = %meant, "the server could not read what was said: telling it as text");
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        partition.restores.under_way.remove(meant);
        let Pending { owner, purpose, frame, marks, .. } = pending;
        let is_held = needs_verification(&self.modes, &purpose, process);
        let conversation = self.conversations.get_mut(meant).filter(|it| it.runs(sent));
        let is_wanted = conversation.is_some() && !marks.cancelled;
        let to = match is_wanted && !is_held {
            true => To::Process(process),
            false => To::Queue(process.backend),
        };
        let (again, turn) = mux.requests_mut().register(to, owner, purpose, &frame);
        mux.requests_mut().mark(again, |it| *it = marks);
        if let Some(conversation) = conversation {
            conversation.ask_again(sent, again);
            conversation.forgotten();
        }
        match (is_wanted, is_held) {
            (false, _) => self.cancel(mux, again, None),
            (true, true) => self.release(mux, process.backend, turn),
            (true, false) => self.ask_restored(mux, process, again, meant, History::plain_turns),
        }
        self.stop_transcripts(mux, process);
    }

    /// Makes a process forget a conversation.
    pub(super) fn make_forget(mux: &mut Mux, process: ProcessId, id: &ConversationId) {
        let to = To::Process(process);
        let (_, frame) = mux.requests_mut().register(to, Owner::Proxy, Purpose::Plain, &destruction(id));
        mux.tell(process, frame);
    }

    /// The answer to `conversation/turnDelete` if only the history knows the conversation: the turn is deleted there.
    pub(crate) fn deleted(&self, pending: &Pending, answer: &Frame) -> Option<Frame> {
        let error = answer.error_value()?;
        let asked = Some(&pending.frame).filter(|it| it.method() == Some("conversation/turnDelete"))?;
        let message = String::from_utf8_lossy(error);
        let is_kept =
            message.contains(UNKNOWN) && self.conversations.get(&field(asked, "conversationId")?).is_some();
        is_kept.then(|| Frame::response(RawId::from(0), b"\"OK\""))
    }

    /// Handles the answer to `conversation/compress`, which is the server's new history.
    pub(super) fn on_compressed(&mut self, asked: &Frame, answer: &Frame) {
        let is_done = |it: &&[u8]| member(it, "success").is_some_and(|range| &it[range] == b"true");
        let result = answer.result().filter(is_done);
        let summary = result.and_then(|it| Some(&it[member(it, "summaryContent")?]));
        let conversation = field(asked, "conversationId").and_then(|it| self.conversations.get_mut(&it));
        if let (Some(conversation), Some(summary)) =
            (conversation, summary.filter(|it| it.starts_with(b"\"")))
        {
            conversation.history.compress(summary, conversation.active_turn.turn.as_ref());
        }
    }

    /// Ignores further messages of a process about a conversation.
    pub(super) fn ignore_restored(&mut self, mux: &mut Mux, process: ProcessId, id: &ConversationId) {
        self.end_restore(mux, process, id);
        if let Some(partition) = self.partitions.get_mut(process.backend) {
            partition.restores.orphans.insert(id.clone());
        }
    }

    /// Accepts messages about a conversation again.
    fn heed(&mut self, process: ProcessId, id: &ConversationId) {
        if let Some(partition) = self.partitions.get_mut(process.backend) {
            partition.restores.orphans.remove(id);
        }
    }

    /// Whether progress belongs to an orphan.
    pub(super) fn is_of_orphan(&mut self, process: ProcessId, progress: &ProgressReport<'_>) -> bool {
        let Some(partition) =
            self.partitions.get(process.backend).filter(|it| !it.restores.orphans.is_empty())
        else {
            return false;
        };
        let Some(id) = progress.conversation().filter(|it| partition.restores.is_orphan(it)) else {
            return false;
        };
        // The end of its turn is its last message.
        if progress.kind == Some(b"\"end\"") {
            self.heed(process, &id);
        }
        true
    }

    /// Forgets a turn that waits for its file.
    pub(super) fn forget_restore(&mut self, backend: BackendId, id: &ConversationId, sent: SentId) {
        let Some(partition) = self.partitions.get_mut(backend) else { return };
        if partition.restores.under_way.get(id).is_some_and(|it| it.sent == sent) {
            partition.restores.under_way.remove(id);
        }
        partition.restores.held_for_mode.remove(&sent);
    }

    /// Drops a turn whose conversation was destroyed or replaced before it was sent.
    pub(super) fn drop_unsent(&mut self, mux: &mut Mux, id: &ConversationId) {
        let Some(conversation) = self.conversations.get(id) else { return };
        let Some((backend, sent)) = conversation.active().map(|it| (conversation.backend, it)) else {
            return;
        };
        let Some(restores) = self.partitions.get(backend).map(|it| &it.restores) else { return };
        if !restores.to_come().any(|it| it == sent) {
            return;
        }
        self.forget_restore(backend, id, sent);
        let Some(pending) = mux.requests_mut().take(sent) else { return };
        let failure = Failure::new(Cause::Cancelled, "destroyed before a server got it");
        mux.fail(&pending.owner, &failure);
        if let Purpose::Copilot(CopilotPurpose::Turn { kind, .. }) = pending.purpose {
            self.on_turn_failed(mux, id, sent, kind);
        }
    }

    /// Notes that a create for this conversation has begun, or has failed.
    pub(super) fn end_restore(&mut self, mux: &mut Mux, process: ProcessId, id: &ConversationId) {
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        if partition.restores.under_way.remove(id).is_some() {
            self.stop_transcripts(mux, process);
        }
    }

    /// Resets the setting after the last restore has begun.
    fn stop_transcripts(&mut self, mux: &mut Mux, process: ProcessId) {
        let Some(partition) = self.partitions.get(process.backend) else { return };
        if partition.restores.under_way.is_empty() && partition.restores.is_set {
            self.set_transcripts(mux, process, None);
            mux.act(Effect::RemoveTranscripts(process));
        }
    }

    /// Removes the folder after the end of a turn, because nobody writes to it.
    pub(crate) fn clear_transcripts(&mut self, mux: &mut Mux, process: ProcessId) {
        let Some(restores) = self.partitions.get(process.backend).map(|it| &it.restores) else { return };
        if restores.is_left && restores.under_way.is_empty() {
            mux.act(Effect::RemoveTranscripts(process));
            if let Some(partition) = self.partitions.get_mut(process.backend) {
                partition.restores.is_left = false;
            }
        }
    }

    fn set_transcripts(&mut self, mux: &mut Mux, process: ProcessId, folder: Option<&Path>) {
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        // A kept record stays.
        if self.session.kept_transcripts.is_none() && partition.restores.is_set != folder.is_some() {
            partition.restores.is_set = folder.is_some();
            partition.restores.is_left = true;
            let frame = self.session.transcripts(mux.session(self.server), &partition.set, folder);
            mux.tell(process, frame);
        }
    }

    /// Removes the record of a conversation.
    pub(super) fn forget_transcript(&self, mux: &mut Mux, id: &ConversationId) {
        if let (Some(kept), Some(name)) = (&self.session.kept_transcripts, id.as_text())
            && History::is_file_name(id)
        {
            mux.act(Effect::RemoveTranscript { kept: kept.clone(), conversation: name.into_owned() });
        }
    }

    /// Servers before 1.472 answer a create that they cannot restore with an error. Whether this is one; then the
    /// history goes as text.
    pub(crate) fn ask_unrestored(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        asked: SentId,
        pending: &Pending,
        answer: &Frame,
    ) -> bool {
        let Purpose::Copilot(CopilotPurpose::Turn { conversation: id, .. }) = &pending.purpose else {
            return false;
        };
        let code = ErrorCode::InternalError.code().to_string();
        let has_failed = answer
            .error_value()
            .is_some_and(|it| member(it, "code").is_some_and(|range| it[range] == *code.as_bytes()));
        let Some(partition) = self.partitions.get(process.backend).filter(|_| has_failed) else {
            return false;
        };
        // It has not begun: what has begun is not under way.
        let is_it = |it: &Restore| it.sent == asked && it.step == RestoreStep::Asked(Told::Transcript);
        if pending.marks.cancelled || !partition.restores.under_way.get(id).is_some_and(is_it) {
            return false;
        }
        self.ask_again_as_text(mux, process, id, asked, pending.clone());
        true
    }

    /// A server keeps a hundred conversations and forgets the oldest silently. Whether this answer says so of a
    /// conversation that can be restored; then it is.
    pub(crate) fn ask_forgotten(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        asked: SentId,
        pending: &Pending,
        answer: &Frame,
    ) -> bool {
        let Purpose::Copilot(CopilotPurpose::Turn { conversation: id, kind: TurnKind::Later, .. }) =
            &pending.purpose
        else {
            return false;
        };
        let message = answer.error_value().map(String::from_utf8_lossy);
        let forgotten = message.is_some_and(|it| it.contains(UNKNOWN))
            && !pending.marks.cancelled
            && pending.frame.method() == Some("conversation/turn");
        let Some(conversation) = self
            .conversations
            .get_mut(id)
            .filter(|it| forgotten && it.runs(asked) && it.history.has_begun() && !it.active_turn.restored)
        else {
            return false;
        };
        conversation.forgotten();
        let (owner, purpose) = (pending.owner.clone(), pending.purpose.clone());
        let (sent, turn) =
            mux.requests_mut().register(To::Queue(process.backend), owner, purpose, &pending.frame);
        conversation.ask_again(asked, sent);
        self.release(mux, process.backend, turn);
        true
    }
}

/// Whether the mode of a turn has to be verified first.
fn needs_verification(modes: &Modes, purpose: &Purpose, process: ProcessId) -> bool {
    let Purpose::Copilot(CopilotPurpose::Turn { restriction: Restriction::Mode(mode), .. }) = purpose else {
        return false;
    };
    !modes.is_verified(*mode, process)
}

/// The question of a `conversation/turn`, as an element of `turns`.
fn question_of_turn(params: &[u8]) -> Vec<u8> {
    let mut turn = Patch::of(b"{}");
    for (key, name) in [("turnId", "turnId"), ("agentSlug", "agentSlug"), ("message", "request")] {
        if let Some(range) = member(params, key) {
            turn.set(name, &params[range]);
        }
    }
    turn.finish()
}

/// What is asked by a `conversation/create` or `conversation/turn`.
pub(crate) fn question(frame: &Frame) -> Option<&[u8]> {
    let params = frame.params()?;
    if let Some(range) = member(params, "message") {
        return Some(&params[range]);
    }
    let last = &params[question_in(params)?];
    Some(&last[member(last, "request")?])
}
