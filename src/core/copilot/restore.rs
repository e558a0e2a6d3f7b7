//! Conversations whose process is gone: the next one is told what was said, before their next turn.
//!
//! A Copilot server has no way in for a conversation but `conversation/create`. So the turn becomes one, with
//! `restoreToTurnId` and a file that holds the history, tool calls and their results included:
//!
//! 1. The file is written, into a folder of the process's own.
//! 2. The setting `agent.transcriptDirectory` names the folder; the create follows.
//! 3. When the create has begun, the setting goes back to what it was, and the folder is removed. Not earlier: the
//!    server reads the file some time after it has read the create.
//!
//! A create that could not be restored has a new id and an empty history, and counts as a success. It is cancelled,
//! and asked again with the history as text.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::core::{Cause, Failure, Proxy};
use crate::{
    core::{
        chat::{destruction, question_in},
        editor::field,
        event::{BackendId, Effect, Effects, Peer, ProcessId},
        history::History,
        modes::Entry,
        processes::cancellation,
        recovery::CONTINUE,
        requests::{Owner, Pending, Purpose, SentId, To},
        said::Said,
    },
    rpc::{Frame, Patch, RawId, member},
};

/// What a server says of a conversation that it does not know, or has forgotten over a hundred others.
const UNKNOWN: &str = "does not exist";

/// What one process is being told of conversations that it does not know.
#[derive(Debug, Default)]
pub(crate) struct Restores {
    under_way: BTreeMap<RawId, Restore>,
    /// Turns that are on their way into a mode, or into another process.
    pub(crate) entering: BTreeMap<SentId, Entry>,
    /// The setting names the folder.
    is_set: bool,
    /// The server may have written to the folder since it was told to stop, in a turn that goes on.
    is_left: bool,
    /// What the server made of creates that it could not restore, or that are wanted no more. Nobody hears of them.
    strays: BTreeSet<RawId>,
}

#[derive(Debug)]
struct Restore {
    /// The request of the turn.
    sent: SentId,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Writing,
    Asked,
}

impl Restores {
    /// Numbers of the turns that no process has been asked yet.
    pub(crate) fn to_come(&self) -> impl Iterator<Item = SentId> {
        let writing = self.under_way.values().filter(|it| it.step == Step::Writing).map(|it| it.sent);
        writing.chain(self.entering.keys().copied())
    }

    /// How many conversations nobody hears of.
    #[cfg(test)]
    pub(crate) fn n_strays(&self) -> usize {
        self.strays.len()
    }

    /// Whether nobody asked for a conversation of this id, or nobody wants it any more.
    pub(crate) fn is_stray(&self, id: &RawId) -> bool {
        self.strays.contains(id)
    }
}

impl Proxy {
    /// Hands a message to a process. A turn of a conversation that it does not know is preceded by its history.
    pub(crate) fn deliver(&mut self, process: ProcessId, frame: Frame, out: &mut Effects) {
        let Some(frame) = self.for_successor(process, frame, out) else { return };
        let sent = frame.id().and_then(|it| it.as_u64());
        let pending = sent.filter(|_| frame.method().is_some()).and_then(|it| self.requests.get(it));
        match (sent, pending.map(|it| &it.purpose)) {
            (Some(sent), Some(Purpose::Turn { entry, .. })) => match *entry {
                Entry::Process => self.hand_over(process, sent, frame, out),
                entry @ (Entry::Mode(_) | Entry::Leaves) => self.enter(process, sent, entry, out),
            },
            (Some(sent), Some(_)) => {
                self.requests.written(sent, process);
                out.push(Effect::Send(Peer::Backend(process), frame));
            }
            (_, _) => out.push(Effect::Send(Peer::Backend(process), frame)),
        }
    }

    /// Hands a turn to a process that nothing speaks against.
    pub(crate) fn hand_over(&mut self, process: ProcessId, sent: SentId, frame: Frame, out: &mut Effects) {
        let mut told = frame;
        if let Some(Purpose::Turn { conversation, create, entry, .. }) =
            self.requests.get(sent).map(|it| &it.purpose)
        {
            let (id, create) = (conversation.clone(), *create);
            told = self.in_mode(*entry, &told);
            if let Some(conversation) = self.conversations.get_mut(&id) {
                // Turns of a conversation that another create has replaced are for the server to judge.
                let is_its_turn = conversation.runs(sent);
                let tells = !create || conversation.flight.continues;
                if tells && is_its_turn && conversation.known_by() != Some(process) {
                    return self.restore_conversation(process, sent, &id, out);
                }
                if is_its_turn {
                    conversation.told_to(process);
                    self.heed(process, &id);
                }
            }
        }
        self.requests.written(sent, process);
        out.push(Effect::Send(Peer::Backend(process), told));
    }

    fn restore_conversation(&mut self, process: ProcessId, sent: SentId, id: &RawId, out: &mut Effects) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let name = id.as_text().filter(|_| History::is_file_name(id));
        let step = match &name {
            Some(name) => {
                let content = Bytes::from(conversation.history.transcript(name));
                let kept = self.session.kept_transcripts.clone();
                out.push(Effect::WriteTranscript { process, conversation: name.to_string(), content, kept });
                Step::Writing
            }
            None => Step::Asked,
        };
        info!(conversation = %id, as_text = name.is_none(), "telling a process what was said");
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        backend.restores.under_way.insert(id.clone(), Restore { sent, step });
        if step == Step::Asked {
            self.ask_restored(process, sent, id, History::plain_turns, out);
        }
    }

    /// The shell has written the file of a conversation, or could not.
    pub(crate) fn on_transcript(
        &mut self,
        process: ProcessId,
        conversation: &str,
        written: Result<PathBuf, String>,
        out: &mut Effects,
    ) {
        if !self.is_current(process) {
            return;
        }
        let id = RawId::text(conversation);
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        let writing = |it: &&mut Restore| it.step == Step::Writing;
        let Some(restore) = backend.restores.under_way.get_mut(&id).filter(writing) else {
            // Cancelled meanwhile.
            if backend.restores.under_way.is_empty() && self.session.kept_transcripts.is_none() {
                out.push(Effect::RemoveTranscripts(process));
            }
            return;
        };
        restore.step = Step::Asked;
        let sent = restore.sent;
        let is_held = self.requests.get(sent).is_some_and(|it| self.lacks_proof(&it.purpose, process));
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        if is_held || !backend.is_open(self.catalogue.undecided > 0) {
            // Its tools are about to change. What is written now is written again then.
            backend.restores.under_way.remove(&id);
            if let Some(turn) = self.requests.get(sent) {
                backend.gate().push_front(turn.frame.clone());
            }
            return self.flush(process.backend, out);
        }
        match written {
            Ok(folder) => {
                self.set_transcripts(process, Some(&folder), out);
                self.ask_restored(process, sent, &id, |_| Vec::new(), out);
            }
            Err(error) => {
                warn!(conversation, error, "what was said cannot be written to a file: telling it as text");
                self.ask_restored(process, sent, &id, History::plain_turns, out);
            }
        }
    }

    /// Sends the turn as a create. `earlier`: the turns before it; none, and they come from the file.
    fn ask_restored(
        &mut self,
        process: ProcessId,
        sent: SentId,
        id: &RawId,
        earlier: impl Fn(&mut History) -> Vec<Value>,
        out: &mut Effects,
    ) {
        self.requests.written(sent, process);
        let Some(Pending { frame: turn, purpose: Purpose::Turn { entry, .. }, .. }) = self.requests.get(sent)
        else {
            return;
        };
        let (turn, entry) = (turn.clone(), *entry);
        let Some(conversation) = self.conversations.get_mut(id) else {
            // Destroyed meanwhile: the server says so.
            self.end_restore(process, id, out);
            let turn = self.in_mode(entry, &turn);
            return out.push(Effect::Send(Peer::Backend(process), turn));
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
        turns.push(match (&conversation.flight.turn, conversation.flight.continues) {
            (Some(turn), true) => {
                let question = json!(CONTINUE).to_string();
                Patch::of(b"{}").set("turnId", turn.as_bytes()).set("request", question.as_bytes()).finish()
            }
            (Some(_) | None, _) => question_of_turn(params),
        });
        patch.set("turns", &[b"[".as_slice(), &turns.join(b",".as_slice()), b"]"].concat());
        let frame = Frame::request(RawId::from(sent), "conversation/create", Some(&patch.finish()));
        conversation.told_to(process);
        conversation.flight.restored = true;
        let frame = self.in_mode(entry, &frame);
        out.push(Effect::Send(Peer::Backend(process), frame));
    }

    /// A turn has begun in this conversation. Whether the editor hears of it.
    pub(crate) fn on_begun(
        &mut self,
        process: ProcessId,
        id: &RawId,
        token: Option<&RawId>,
        out: &mut Effects,
    ) -> bool {
        let Some(backend) = self.backend(process.backend) else { return true };
        // One that was destroyed meanwhile is still the one that was meant.
        if self.conversations.get(id).is_some() || backend.restores.under_way.contains_key(id) {
            self.end_restore(process, id, out);
            return true;
        }
        let of_token = |it: &&SentId| match self.requests.get(**it).map(|it| &it.purpose) {
            Some(Purpose::Turn { token: of, .. }) => of.as_ref() == token,
            _ => false,
        };
        let asked = backend.restores.under_way.iter().filter(|(_, it)| it.step == Step::Asked);
        let found = asked.map(|(id, it)| (id.clone(), it.sent)).find(|(_, sent)| of_token(&sent));
        let Some((meant, sent)) = found else { return true };
        self.on_stray(process, &meant, sent, id, out);
        false
    }

    /// The server has begun another conversation than it was asked to restore.
    fn on_stray(
        &mut self,
        process: ProcessId,
        meant: &RawId,
        sent: SentId,
        stray: &RawId,
        out: &mut Effects,
    ) {
        warn!(conversation = %meant, "the server could not read what was said: telling it as text");
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        backend.restores.strays.insert(stray.clone());
        backend.restores.under_way.remove(meant);
        out.push(Effect::Send(Peer::Backend(process), cancellation(sent)));
        self.make_forget(process, stray, out);
        let Some(Pending { owner, purpose, frame, marks, .. }) = self.requests.take(sent) else { return };
        let is_held = self.lacks_proof(&purpose, process);
        let conversation = self.conversations.get_mut(meant).filter(|it| it.runs(sent));
        let is_wanted = conversation.is_some() && !marks.cancelled;
        let to = match is_wanted && !is_held {
            true => To::Process(process),
            false => To::Gate(process.backend),
        };
        let (again, turn) = self.requests.sent(to, owner, purpose, &frame);
        self.requests.mark(again, |it| *it = marks);
        if let Some(conversation) = conversation {
            conversation.ask_again(sent, again);
            conversation.forgotten();
        }
        match (is_wanted, is_held) {
            (false, _) => self.cancel(again, None, out),
            (true, true) => self.release(process.backend, turn, out),
            (true, false) => self.ask_restored(process, again, meant, History::plain_turns, out),
        }
        self.stop_transcripts(process, out);
    }

    /// A process is to forget a conversation.
    pub(crate) fn make_forget(&mut self, process: ProcessId, id: &RawId, out: &mut Effects) {
        let to = To::Process(process);
        let (_, frame) = self.requests.sent(to, Owner::Proxy, Purpose::Plain, &destruction(id));
        out.push(Effect::Send(Peer::Backend(process), frame));
    }

    /// The answer to `conversation/turnDelete`, where the process does not know the conversation and the history does: there the
    /// turn is deleted.
    pub(crate) fn deleted(&self, pending: &Pending, answer: &Frame) -> Option<Frame> {
        let error = answer.error_value()?;
        let asked = Some(&pending.frame).filter(|it| it.method() == Some("conversation/turnDelete"))?;
        let said = String::from_utf8_lossy(error);
        let is_kept =
            said.contains(UNKNOWN) && self.conversations.get(&field(asked, "conversationId")?).is_some();
        is_kept.then(|| Frame::response(RawId::from(0), b"\"OK\""))
    }

    /// A server has answered `conversation/compress`: that is what it knows of the conversation from now on.
    pub(crate) fn on_compressed(&mut self, asked: &Frame, answer: &Frame) {
        let is_done = |it: &&[u8]| member(it, "success").is_some_and(|range| &it[range] == b"true");
        let result = answer.result().filter(is_done);
        let summary = result.and_then(|it| Some(&it[member(it, "summaryContent")?]));
        let conversation = field(asked, "conversationId").and_then(|it| self.conversations.get_mut(&it));
        if let (Some(conversation), Some(summary)) =
            (conversation, summary.filter(|it| it.starts_with(b"\"")))
        {
            conversation.history.compress(summary, conversation.flight.turn.as_ref());
        }
    }

    /// Whether a turn is to be in a mode that has to be looked at before.
    fn lacks_proof(&self, purpose: &Purpose, process: ProcessId) -> bool {
        matches!(purpose, Purpose::Turn { entry: Entry::Mode(mode), .. } if !self.modes.is_proven(*mode, process))
    }

    /// What a process goes on to say of a conversation is not wanted any more.
    pub(crate) fn ignore_restored(&mut self, process: ProcessId, id: &RawId, out: &mut Effects) {
        self.end_restore(process, id, out);
        if let Some(backend) = self.backends.get_mut(&process.backend) {
            backend.restores.strays.insert(id.clone());
        }
    }

    /// A conversation of this name is wanted again.
    fn heed(&mut self, process: ProcessId, id: &RawId) {
        if self.backend(process.backend).is_some_and(|it| it.restores.is_stray(id))
            && let Some(backend) = self.backends.get_mut(&process.backend)
        {
            backend.restores.strays.remove(id);
        }
    }

    /// Whether progress belongs to a conversation that nobody asked for.
    pub(crate) fn is_stray(&mut self, process: ProcessId, said: &Said<'_>) -> bool {
        let Some(backend) = self.backend(process.backend).filter(|it| !it.restores.strays.is_empty()) else {
            return false;
        };
        let Some(id) = said.conversation().filter(|it| backend.restores.is_stray(it)) else { return false };
        // Nothing follows the end of its turn.
        if said.kind == Some(b"\"end\"") {
            self.heed(process, &id);
        }
        true
    }

    /// A turn is not wanted any more that was to be asked when its file is written.
    pub(crate) fn forget_restore(&mut self, backend: BackendId, id: &RawId, sent: SentId) {
        if let Some(backend) = self.backends.get_mut(&backend)
            && backend.restores.under_way.get(id).is_some_and(|it| it.sent == sent)
        {
            backend.restores.under_way.remove(id);
        }
        if let Some(backend) = self.backends.get_mut(&backend) {
            backend.restores.entering.remove(&sent);
        }
    }

    /// A conversation is destroyed, or replaced, before its turn has been sent on: it never is.
    pub(crate) fn drop_unsent(&mut self, id: &RawId, out: &mut Effects) {
        let Some(conversation) = self.conversations.get(id) else { return };
        let Some((backend, sent)) = conversation.active().map(|it| (conversation.backend, it)) else {
            return;
        };
        let Some(restores) = self.backend(backend).map(|it| &it.restores) else { return };
        if !restores.to_come().any(|it| it == sent) {
            return;
        }
        self.forget_restore(backend, id, sent);
        let Some(pending) = self.requests.take(sent) else { return };
        let failure = Failure::new(Cause::Cancelled, "destroyed before it was sent on");
        self.fail(&pending.owner, &failure, out);
        let is_create = matches!(pending.purpose, Purpose::Turn { create: true, .. });
        self.on_turn_failed(id, sent, is_create, out);
    }

    /// A create that was to restore this conversation has begun, or has come to nothing.
    pub(crate) fn end_restore(&mut self, process: ProcessId, id: &RawId, out: &mut Effects) {
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        if backend.restores.under_way.remove(id).is_some() {
            self.stop_transcripts(process, out);
        }
    }

    /// The setting holds until the last restore has begun.
    fn stop_transcripts(&mut self, process: ProcessId, out: &mut Effects) {
        let Some(backend) = self.backend(process.backend) else { return };
        if backend.restores.under_way.is_empty() && backend.restores.is_set {
            self.set_transcripts(process, None, out);
            out.push(Effect::RemoveTranscripts(process));
        }
    }

    /// A turn of this process has come to its end: nobody writes to the folder any more.
    pub(crate) fn clear_transcripts(&mut self, process: ProcessId, out: &mut Effects) {
        let Some(restores) = self.backend(process.backend).map(|it| &it.restores) else { return };
        if restores.is_left && restores.under_way.is_empty() {
            out.push(Effect::RemoveTranscripts(process));
            if let Some(backend) = self.backends.get_mut(&process.backend) {
                backend.restores.is_left = false;
            }
        }
    }

    fn set_transcripts(&mut self, process: ProcessId, folder: Option<&Path>, out: &mut Effects) {
        let Some(backend) = self.backends.get_mut(&process.backend) else { return };
        // Where it is kept, it stays.
        if self.session.kept_transcripts.is_none() && backend.restores.is_set != folder.is_some() {
            backend.restores.is_set = folder.is_some();
            backend.restores.is_left = true;
            let frame = self.session.transcripts(&backend.set, folder);
            out.push(Effect::Send(Peer::Backend(process), frame));
        }
    }

    /// A conversation is no more: what is kept of it goes.
    pub(crate) fn forget_transcript(&self, id: &RawId, out: &mut Effects) {
        if let (Some(kept), Some(name)) = (&self.session.kept_transcripts, id.as_text())
            && History::is_file_name(id)
        {
            out.push(Effect::RemoveTranscript { kept: kept.clone(), conversation: name.into_owned() });
        }
    }

    /// A server keeps a hundred conversations and forgets the oldest silently. Whether this answer says so of a
    /// conversation that can be restored; then it is.
    pub(crate) fn ask_as_text(
        &mut self,
        process: ProcessId,
        asked: SentId,
        pending: &Pending,
        answer: &Frame,
        out: &mut Effects,
    ) -> bool {
        let Purpose::Turn { conversation: id, create: false, .. } = &pending.purpose else { return false };
        let said = answer.error_value().map(String::from_utf8_lossy);
        let forgotten = said.is_some_and(|it| it.contains(UNKNOWN))
            && !pending.marks.cancelled
            && pending.frame.method() == Some("conversation/turn");
        let Some(conversation) = self
            .conversations
            .get_mut(id)
            .filter(|it| forgotten && it.runs(asked) && it.history.has_begun() && !it.flight.restored)
        else {
            return false;
        };
        conversation.forgotten();
        let (owner, purpose) = (pending.owner.clone(), pending.purpose.clone());
        let (sent, turn) = self.requests.sent(To::Gate(process.backend), owner, purpose, &pending.frame);
        conversation.ask_again(asked, sent);
        self.release(process.backend, turn, out);
        true
    }
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
