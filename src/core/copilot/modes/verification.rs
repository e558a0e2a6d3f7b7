//! Verifies modes before turns: checks the file, asks the server about it, and then releases the turn, or moves it to
//! a process.

use std::borrow::Cow;

use serde_json::{Value, json};
use tracing::{debug, info, warn};

use super::{Mode, Registering, Verification};
use crate::{
    core::{
        copilot::{Copilot, tools::tool_set::SUB_AGENT},
        event::{Effect, KeepMode, KeptMode, ProcessId},
        ids::ConversationId,
        mux::{
            Mux,
            failure::{Cause, Failure},
            pool::backend::Backend,
        },
        purpose::{Ask, CopilotPurpose, ModeId, Purpose, Restriction, SentId},
    },
    rpc::{Frame, Patch, elements, file_path, file_uri, member, text},
};

/// The extension that registers the modes.
const EXTENSION: &str = "lspool";

impl Copilot {
    /// Holds a turn that has reached its process, until its mode is verified or it moves.
    pub(crate) fn hold_for_mode(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        sent: SentId,
        restriction: Restriction,
    ) {
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        partition.restores.held_for_mode.insert(sent, restriction);
        match restriction {
            Restriction::Mode(mode) => self.keep_mode(mux, mode),
            Restriction::Process | Restriction::Leaves => self.modes.leaving.push(sent),
        }
    }

    /// Asks the shell to correct the file of a mode, as soon as its content is known.
    fn keep_mode(&mut self, mux: &mut Mux, id: ModeId) {
        let Some(mode) = self.modes.get(id) else { return };
        if let Some(why) = mode.why_not().cloned() {
            return self.invalidate_mode(id, why);
        }
        let set = mode.key.set.clone();
        if self.catalog.undecided > 0 {
            return;
        }
        if self.lacks_list(&set) {
            return self.ask_for_list(mux);
        }
        let tools = self.tools_in(mux, &set);
        if self.can_run_sub_agents(mux, &set, &tools) {
            return self.invalidate_mode(id, format!("{SUB_AGENT} is in its set"));
        }
        let number = self.modes.numbers + 1;
        let Some(mode) = self.modes.all.get_mut(&id) else { return };
        let is_asked = mode.asked > 0 && !mode.is_kept;
        if is_asked && mode.tools == tools {
            return;
        }
        self.modes.numbers = number;
        (mode.asked, mode.is_kept) = (number, false);
        mode.tools.clone_from(&tools);
        let of = mode.key.of.as_deref().and_then(file_path);
        mux.act(Effect::KeepMode(KeepMode { number, name: mode.name.clone(), tools, of }));
    }

    fn ask_for_list(&mut self, mux: &mut Mux) {
        if !std::mem::replace(&mut self.modes.is_listing, true) {
            let purpose = Purpose::Copilot(CopilotPurpose::Mode(Ask::List));
            mux.ask_backend(self.primary, purpose, "conversation/registerTools", br#"{"tools":[]}"#);
        }
    }

    /// Handles the shell's answer about the file of a mode.
    pub(crate) fn on_mode_kept(&mut self, mux: &mut Mux, number: u64, kept: Result<KeptMode, String>) {
        let Some((id, mode)) = self.modes.all.iter_mut().find(|(_, it)| it.asked == number) else { return };
        let id = *id;
        mode.is_kept = true;
        let KeptMode { file, title, tools, is_new } = match kept {
            Ok(kept) => kept,
            Err(why) => return self.invalidate_mode(id, why),
        };
        let uri = file_uri(&file);
        if is_new || uri != mode.uri || title != mode.title || tools != mode.written {
            mode.unverify();
        }
        (mode.title, mode.written) = (title, tools);
        self.modes.folder = uri.rfind('/').map(|at| uri[..=at].to_owned());
        mode.uri = uri;
        if self.has_held_turns(id) {
            self.verify(mux, id);
        }
    }

    /// Whether turns wait for a mode.
    fn has_held_turns(&self, id: ModeId) -> bool {
        let held_for_mode = self.partitions.get(self.primary).map(|it| &it.restores.held_for_mode);
        held_for_mode.is_some_and(|it| it.values().any(|it| *it == Restriction::Mode(id)))
    }

    /// Asks the primary about a mode, unless it has answered since the last possible change.
    fn verify(&mut self, mux: &mut Mux, id: ModeId) {
        let Some(process) = mux.backend(self.primary).map(Backend::process) else { return };
        if self.modes.is_verified(id, process) {
            return self.release_verified(mux, id, process);
        }
        let Some(mode) = self.modes.get(id) else { return };
        let agent = json!({"uri": mode.uri, "name": mode.title, "description": "tools"});
        let number = mode.asked;
        if self.modes.registering.of != Some(process) {
            self.modes.registering = Registering { of: Some(process), ..Registering::default() };
        }
        self.modes.registering.n += 1;
        self.modes.registering.changes += 1;
        let agents = json!({"extensionId": EXTENSION, "agents": [agent]}).to_string();
        let register = "customAgent/registerExtensionAgents";
        mux.ask_backend(
            self.primary,
            Purpose::Copilot(CopilotPurpose::Mode(Ask::Register)),
            register,
            agents.as_bytes(),
        );
        let verify = Purpose::Copilot(CopilotPurpose::Mode(Ask::Verify { mode: id, number }));
        let folders = self.folders_of(mux, id);
        mux.ask_backend(self.primary, verify, "conversation/modes", &folders);
    }

    /// The folders in the request, because a server lists the modes of a workspace only for its folders: those of a
    /// turn that waits for this mode.
    fn folders_of(&self, mux: &Mux, id: ModeId) -> Vec<u8> {
        let key = "workspaceFolders";
        let held_for_mode =
            self.partitions.get(self.primary).into_iter().flat_map(|it| &it.restores.held_for_mode);
        let waiting = held_for_mode
            .filter(|(_, it)| **it == Restriction::Mode(id))
            .filter_map(|(sent, _)| mux.requests().get(*sent));
        let of_turn =
            waiting.filter_map(|it| it.frame.params()).chain([&self.generic_session(mux).initialize()[..]]);
        let mut folders =
            of_turn.filter_map(|it| Some(&it[member(it, key)?])).filter(|it| it.starts_with(b"["));
        match folders.next() {
            Some(folders) => Patch::of(b"{}").set(key, folders).finish(),
            None => b"{}".to_vec(),
        }
    }

    /// Handles the primary's answer about modes. `None`: it was unreadable.
    pub(crate) fn on_mode_answered(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        ask: Ask,
        answer: Option<&Frame>,
    ) {
        let result = answer.and_then(Frame::result);
        match ask {
            Ask::Register => {
                let registering = &mut self.modes.registering;
                if registering.of == Some(process) {
                    registering.n = registering.n.saturating_sub(1);
                    registering.changes = registering.changes.min(registering.n);
                }
            }
            Ask::List => {
                self.modes.is_listing = false;
                match result {
                    Some(offered) => self.learn_offered(mux, offered),
                    None => self.invalidate_waited_for(mux, "the server did not list its tools"),
                }
            }
            Ask::Verify { mode: id, number } => {
                // Otherwise the file is being checked again, and the question follows.
                let Some(mode) = self.modes.get(id).filter(|it| it.asked == number && it.is_kept) else {
                    return;
                };
                if let Some(why) = mode.why_not().cloned() {
                    return self.invalidate_mode(id, why);
                }
                match result
                    .map_or(Err("the server did not list its modes".to_owned()), |it| mode.is_listed(it))
                {
                    Ok(()) => {
                        debug!(mode = mode.name, "mode verified");
                        if let Some(mode) = self.modes.all.get_mut(&id) {
                            mode.state = Verification::Verified(process);
                        }
                        if let (Some(set), Some(offered)) =
                            (self.modes.set(id).cloned(), self.modes.offered.clone())
                        {
                            self.tell_unknown_tools(mux, &set, &offered);
                        }
                        self.release_verified(mux, id, process);
                    }
                    Err(why) => self.invalidate_mode(id, why),
                }
            }
        }
    }

    /// Releases the turns that wait for a verified mode.
    fn release_verified(&mut self, mux: &mut Mux, id: ModeId, process: ProcessId) {
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        let held_for_mode = &mut partition.restores.held_for_mode;
        let all: Vec<SentId> = held_for_mode
            .iter()
            .filter(|(_, it)| **it == Restriction::Mode(id))
            .map(|(sent, _)| *sent)
            .collect();
        held_for_mode.retain(|sent, _| !all.contains(sent));
        if !mux.backend(process.backend).is_some_and(Backend::is_open) {
            // They return to their places in the queue.
            all.into_iter().rev().for_each(|sent| mux.queue_first(process.backend, sent));
            return;
        }
        let frame = |sent: SentId| Some((sent, mux.requests().get(sent)?.frame.clone()));
        for (sent, frame) in all.into_iter().filter_map(frame).collect::<Vec<_>>() {
            self.hand_over(mux, process, sent, frame);
        }
    }

    /// Marks a mode as invalid, and moves its turns to processes.
    pub(super) fn invalidate_mode(&mut self, id: ModeId, why: String) {
        let Some(mode) = self.modes.all.get_mut(&id) else { return };
        let why_now = Verification::Invalid(why);
        if mode.state != why_now && !matches!(mode.state, Verification::Quarantined(_)) {
            warn!(set = %mode.key.set, state = ?why_now, "mode is invalid");
            mode.state = why_now;
        }
        let held_for_mode =
            self.partitions.get(self.primary).into_iter().flat_map(|it| &it.restores.held_for_mode);
        let all = held_for_mode.filter(|(_, it)| **it == Restriction::Mode(id)).map(|(sent, _)| *sent);
        let all: Vec<SentId> = all.collect();
        self.modes.leaving.extend(all);
    }

    /// Quarantines a mode, because a turn has called a tool outside the set: this process does not get it again.
    pub(super) fn quarantine_mode(&mut self, _mux: &mut Mux, id: ModeId, why: String) {
        self.invalidate_mode(id, why.clone());
        if let Some(mode) = self.modes.all.get_mut(&id) {
            mode.state = Verification::Quarantined(why);
        }
    }

    fn invalidate_waited_for(&mut self, _mux: &mut Mux, why: &str) {
        for id in self.modes.all.keys().copied().collect::<Vec<_>>() {
            if self.has_held_turns(id) {
                self.invalidate_mode(id, why.to_owned());
            }
        }
    }

    /// Updates the files after a possible change of the offered tools.
    pub(crate) fn follow_catalog(&mut self, mux: &mut Mux) {
        if self.catalog.undecided > 0 {
            return;
        }
        for id in self.modes.all.keys().copied().collect::<Vec<_>>() {
            let Some(mode) = self.modes.get(id) else { continue };
            let differs = mode.asked > 0 && self.tools_in(mux, &mode.key.set) != mode.tools;
            if let Some(mode) = self.modes.all.get_mut(&id).filter(|_| differs) {
                mode.unverify();
            }
            if differs || self.has_held_turns(id) {
                self.keep_mode(mux, id);
            }
        }
    }

    /// Moves turns to processes that cannot be in a mode.
    pub(crate) fn evict_leaving(&mut self, mux: &mut Mux) {
        while !self.modes.leaving.is_empty() {
            for sent in std::mem::take(&mut self.modes.leaving) {
                self.evict(mux, sent);
            }
        }
    }

    fn evict(&mut self, mux: &mut Mux, sent: SentId) {
        let Some(primary) = self.partitions.get_mut(self.primary) else { return };
        let Some(restriction) = primary.restores.held_for_mode.remove(&sent) else { return };
        let Some(pending) = mux.requests().get(sent).cloned() else { return };
        let Purpose::Copilot(CopilotPurpose::Turn { conversation: id, kind, .. }) = &pending.purpose else {
            return;
        };
        let of_mode = match restriction {
            Restriction::Mode(mode) => self.modes.get(mode),
            Restriction::Process | Restriction::Leaves => None,
        };
        let Some(set) = self.conversations.get(id).filter(|it| it.runs(sent)).map(|it| it.set.clone()) else {
            // It was destroyed or replaced meanwhile.
            mux.requests_mut().take(sent);
            let failure = does_not_exist(id);
            return mux.fail(&pending.owner, &failure);
        };
        if let Some(why) = of_mode.and_then(Mode::why_not).cloned() {
            self.note_reason(&set, why);
        }
        let backend = match self.partition(mux, &set) {
            Ok(backend) => backend,
            Err(failure) => {
                mux.requests_mut().take(sent);
                let error = json!({"message": failure.message}).to_string();
                if let Some(end) = mux.tokens_mut().ended(self.primary, id, Some(("error", error))) {
                    mux.tell_editor(Frame::notification("$/progress", Some(&end)));
                }
                mux.fail(&pending.owner, &failure);
                return self.on_turn_failed(mux, id, sent, *kind);
            }
        };
        info!(conversation = %id, partition = %set, "conversation moved to a process");
        let mut all = vec![sent];
        self.leave_behind(mux, id, backend);
        self.conversations.move_to(id, backend);
        mux.tokens_mut().moved(id, self.primary, backend);
        if let Some(conversation) = self.conversations.get_mut(id) {
            conversation.mode = None;
            all.extend(conversation.waiting.iter().filter_map(SentId::of));
            conversation.waiting.clear();
        }
        for of in all {
            let Some(frame) = mux.requests_mut().moved(of, backend, kept_by_process) else { continue };
            let Some(again) = SentId::of(&frame) else { continue };
            let Some(conversation) = self.conversations.get_mut(id) else { continue };
            if !conversation.ask_again(of, again) {
                conversation.waiting.push_back(frame);
                continue;
            }
            self.release(mux, backend, frame);
        }
    }

    /// Makes the old process forget a conversation that another process serves.
    pub(crate) fn leave_behind(&mut self, mux: &mut Mux, id: &ConversationId, backend: super::BackendId) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let Some(process) = conversation.known_by().filter(|it| it.backend != backend) else { return };
        if process.backend == self.primary {
            self.modes.add_tombstone(id);
        }
        // A server that records its requests could remove the record for the restore.
        let is_kept = self.session.kept_transcripts.is_some();
        if mux.is_current(process) && id.as_text().is_some() && !is_kept {
            Self::make_forget(mux, process, id);
        }
    }
}

impl Mode {
    /// Checks that the server lists exactly this mode with exactly these tools.
    fn is_listed(&self, modes: &[u8]) -> Result<(), String> {
        let all = elements(modes).map(|range| &modes[range]);
        let mut found = all.filter(|it| text(it, &["id"]).as_deref() == Some(&self.uri));
        let mode = found.next().ok_or("the server does not list it")?;
        if found.next().is_some() {
            return Err("the server lists it twice".to_owned());
        }
        if text(mode, &["kind"]).as_deref() != Some("Agent") {
            return Err("the server lists it as another kind of mode".to_owned());
        }
        let tools = custom_tools(mode).ok_or("the server lists it with every tool")?;
        if tools != self.written {
            return Err("the server lists it with other tools".to_owned());
        }
        // The server must read the same in the editor's file as lspool.
        let Some(of) = &self.key.of else { return Ok(()) };
        let mut all = elements(modes).map(|range| &modes[range]);
        let of = all
            .find(|it| text(it, &["id"]).as_ref() == Some(of))
            .ok_or("the server does not list the editor's mode")?;
        let is_own = match custom_tools(of) {
            Some(own) => own.into_iter().filter(|it| self.tools.contains(it)).eq(tools),
            None => self.tools == tools,
        };
        if is_own { Ok(()) } else { Err("the server lists the editor's mode with other tools".to_owned()) }
    }
}

/// Changes the restriction of a turn to its process.
fn kept_by_process(mut purpose: Purpose) -> Purpose {
    if let Purpose::Copilot(CopilotPurpose::Turn { restriction, .. }) = &mut purpose {
        *restriction = Restriction::Process;
    }
    purpose
}

/// The error of a server for an unknown conversation.
pub(crate) fn does_not_exist(id: &ConversationId) -> Failure {
    let id = id.as_text().map_or_else(|| id.to_string(), Cow::into_owned);
    let message =
        format!("Request conversation/turn failed with message: Conversation with id {id} does not exist");
    Failure::new(Cause::Unknown, message)
}

/// The tools in the list entry of a mode; `None` is every tool. An entry that is not a string matches no tool.
fn custom_tools(mode: &[u8]) -> Option<Vec<String>> {
    let tools: Vec<Value> = serde_json::from_slice(&mode[member(mode, "customTools")?]).ok()?;
    Some(tools.into_iter().map(|it| it.as_str().unwrap_or_default().to_owned()).collect())
}
