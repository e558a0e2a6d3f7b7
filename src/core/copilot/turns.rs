//! Turns of conversations: binds a create to a partition, sends one turn at a time, and handles progress.

pub(crate) mod tool_calls;

use std::borrow::Cow;

use tracing::info;

use crate::{
    config::Isolation,
    core::{
        copilot::{
            Copilot,
            active_turn::Over,
            conversation::is_internal,
            history::{Answer, History},
            messages::{destruction, question_in},
            modes::{Placement, does_not_exist},
            partition::Partition,
            progress::{ProgressReport, ReplyDelta},
            restore::question,
            segment::TurnSegment,
            selection::Choice,
            tools::tool_set::mcp_model_name,
        },
        event::{BackendId, ProcessId},
        identity::Identity,
        ids::{ConversationId, Token, TurnId},
        mux::{
            Mux,
            failure::{Cause, Failure},
            from_client::field,
            requests::{Owner, To},
        },
        purpose::{CopilotPurpose, Purpose, Restriction, SentId, TurnKind},
    },
    rpc::{Frame, Patch, elements, member, text},
};

/// A new conversation with its place.
#[derive(Debug)]
pub(crate) struct Placed {
    owner: Owner,
    choice: Choice,
    place: Placement,
    id: ConversationId,
    frame: Frame,
}

impl Placed {
    /// Whether it may start sub-agents.
    pub(crate) fn is_lead(&self) -> bool {
        self.choice.set.is_lead()
    }
}

impl Copilot {
    /// Handles `conversation/create`: chooses the partition and binds the conversation before the create is sent, so
    /// that every tool call belongs to a bound conversation.
    pub(super) fn on_create(&mut self, mux: &mut Mux, owner: Owner, frame: &Frame) -> Option<Placed> {
        let params = frame.params().unwrap_or(b"{}");
        match self.choose(mux, params) {
            Ok(choice) if self.asks_for_sign_in(mux, &owner, &choice, frame) => None,
            Ok(choice) => self.place_create(mux, owner, choice, frame),
            Err(message) => {
                mux.fail(&owner, &Failure::new(Cause::InvalidParams, message));
                None
            }
        }
    }

    /// Creates a conversation with chosen tools.
    pub(crate) fn create(&mut self, mux: &mut Mux, owner: Owner, choice: Choice, frame: &Frame) {
        if let Some(placed) = self.place_create(mux, owner, choice, frame) {
            self.bind(mux, placed);
        }
    }

    /// Places a conversation with chosen tools; answers a request without a place.
    fn place_create(&mut self, mux: &mut Mux, owner: Owner, choice: Choice, frame: &Frame) -> Option<Placed> {
        let params = frame.params().unwrap_or(b"{}");
        let odd_id = member(params, "conversationId")
            .is_some_and(|it| ConversationId::from_raw(&params[it]).is_none());
        let refusal = match (odd_id, self.generic_session(mux).is_initialized()) {
            (false, true) => None,
            // The server refuses an invalid id, or a request that comes too early.
            _ if choice.set.is_all() => {
                mux.send_to_backend(self.primary, owner, Purpose::Plain, &without_lspool(frame));
                return None;
            }
            // lspool refuses it if the primary would give it more tools than it asks for.
            (_, false) => Some(Failure::new(Cause::NotInitialized, "send `initialized` first")),
            (true, true) => {
                let message = "`conversationId` must be a string or a number";
                Some(Failure::new(Cause::InvalidParams, message))
            }
        };
        let id: Option<ConversationId> = field(frame, "conversationId");
        let placed = match refusal {
            Some(failure) => Err(failure),
            None => self.place_with_id(mux, id, &choice, params),
        };
        match placed {
            Ok((id, place)) => Some(Placed { owner, choice, place, id, frame: frame.clone() }),
            Err(failure) => {
                mux.fail(&owner, &failure);
                None
            }
        }
    }

    fn place_with_id(
        &mut self,
        mux: &mut Mux,
        id: Option<ConversationId>,
        choice: &Choice,
        params: &[u8],
    ) -> Result<(ConversationId, Placement), Failure> {
        let id = id.unwrap_or_else(|| self.invent_id(mux));
        // The server makes a folder of this name.
        let leaves = |it: &str| it.contains('/') || it == "..";
        if self.session.kept_transcripts.is_some() && id.as_text().is_some_and(|it| leaves(&it)) {
            let message = "`conversationId` must be a valid folder name when `exact_restore` is on";
            return Err(Failure::new(Cause::InvalidParams, message));
        }
        let isolation = self.wish(mux, &choice.wish);
        Ok((id, self.place(mux, &choice.set, isolation, params)?))
    }

    /// Binds a conversation to its place, and sends its create.
    pub(crate) fn bind(&mut self, mux: &mut Mux, placed: Placed) {
        let Placed { owner, choice: Choice { set, events, wish }, place, id, frame } = placed;
        let backend = place.backend;
        let frame = self.with_ids(mux, &without_lspool(&frame), &id);
        let token = field(&frame, "workDoneToken");
        let (conversation, restriction) = (id.clone(), place.restriction());
        let purpose = Purpose::Copilot(CopilotPurpose::Turn {
            conversation,
            token,
            kind: TurnKind::First,
            restriction,
        });
        let Some((sent, frame)) = mux.accept(backend, owner, purpose, &frame) else { return };
        info!(conversation = %id, partition = %set, by_mode = place.mode.is_some(), "conversation bound");
        self.end_kept(mux, &id);
        self.drop_unsent(mux, &id);
        let replaced = self.conversations.bind(id.clone(), backend, set, None);
        if let Some(conversation) = self.conversations.get_mut(&id) {
            conversation.ask(sent);
            conversation.events = events;
            (conversation.mode, conversation.wish) = (place.mode, wish);
            conversation.history = History::new(frame.params().unwrap_or(b"{}"));
        }
        if let Some(replaced) = replaced {
            if replaced.mode.is_some() {
                self.modes.add_tombstone(&id);
            }
            self.on_replaced(mux, &id, backend, replaced.backend, replaced.waiting.into());
        }
        self.release(mux, backend, frame);
    }

    /// Handles a create with the id of a living conversation. The old one is destroyed if it is in another partition.
    fn on_replaced(
        &mut self,
        mux: &mut Mux,
        id: &ConversationId,
        new: BackendId,
        old: BackendId,
        waiting: Vec<Frame>,
    ) {
        for frame in waiting {
            self.release(mux, old, frame);
        }
        if new != old && id.as_text().is_some() {
            mux.send_to_backend(old, Owner::Proxy, Purpose::Plain, &destruction(id));
        }
    }

    /// Adds missing ids of the conversation and the turn: a turn needs a name to continue in another process.
    fn with_ids(&mut self, mux: &mut Mux, frame: &Frame, id: &ConversationId) -> Frame {
        let params = frame.params().unwrap_or(b"{}");
        let mut patch = Patch::of(params);
        if field::<ConversationId>(frame, "conversationId").is_none() {
            patch.set("conversationId", id.as_bytes());
        }
        let has_turn = |it: &[u8]| member(it, "turnId").is_some_and(|range| &it[range] != b"null");
        match (frame.method(), question_in(params)) {
            (Some("conversation/create"), Some(last))
                if params[last.start] == b'{' && !has_turn(&params[last.clone()]) =>
            {
                let turn =
                    Patch::of(&params[last.clone()]).set("turnId", self.invent_turn(mux).as_bytes()).finish();
                let turns = member(params, "turns").unwrap_or_else(|| last.clone());
                let before = &params[turns.start..last.start];
                patch.set("turns", &[before, &turn, &params[last.end..turns.end]].concat());
            }
            (Some("conversation/turn"), _) if !has_turn(params) => {
                patch.set("turnId", self.invent_turn(mux).as_bytes());
            }
            _ => {}
        }
        frame.with_params(&patch.finish())
    }

    fn invent_turn(&mut self, mux: &mut Mux) -> TurnId {
        self.n_turns += 1;
        TurnId::text(&uuid(mux.identity(), self.n_turns))
    }

    fn invent_id(&mut self, mux: &mut Mux) -> ConversationId {
        self.n_conversations += 1;
        let it = &mux.identity();
        ConversationId::text(&format!("lspool-{}-{}-{}", it.pid, it.started, self.n_conversations))
    }

    pub(crate) fn on_turn(&mut self, mux: &mut Mux, owner: Owner, frame: &Frame) {
        let id: Option<ConversationId> = field(frame, "conversationId");
        if let Some(id) =
            id.as_ref().filter(|it| self.conversations.get(it).is_none() && self.modes.has_tombstone(it))
        {
            return mux.fail(&owner, &does_not_exist(id));
        }
        let Some(id) = id.filter(|it| self.conversations.get(it).is_some()) else {
            mux.send_to_backend(self.primary, owner, Purpose::Plain, frame);
            return;
        };
        let (place, restriction) = match self.next_place(mux, &id, frame.params().unwrap_or(b"{}")) {
            Ok(place) => place,
            Err(failure) => return mux.fail(&owner, &failure),
        };
        let backend = place.backend;
        let frame = self.with_ids(mux, frame, &id);
        let token = field(&frame, "workDoneToken");
        let purpose = Purpose::Copilot(CopilotPurpose::Turn {
            conversation: id.clone(),
            token,
            kind: TurnKind::Later,
            restriction,
        });
        let Some((sent, frame)) = mux.accept(backend, owner, purpose, &frame) else { return };
        self.leave_behind(mux, &id, backend);
        let before = self.conversations.get(&id).map(|it| it.backend);
        self.conversations.move_to(&id, backend);
        if let Some(before) = before.filter(|it| *it != backend) {
            self.forget(mux, before);
        }
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        conversation.mode = place.mode;
        if conversation.active().is_some() {
            return conversation.waiting.push_back(frame);
        }
        conversation.wish.moves = false;
        conversation.ask(sent);
        self.release(mux, backend, frame);
    }

    /// The place and the restriction of a conversation's next turn.
    fn next_place(
        &mut self,
        mux: &mut Mux,
        id: &ConversationId,
        request: &[u8],
    ) -> Result<(Placement, Restriction), Failure> {
        let Some(conversation) = self.conversations.get(id) else {
            return Ok((Placement { backend: self.primary, mode: None }, Restriction::Process));
        };
        let (set, mode) = (conversation.set.clone(), conversation.mode);
        if conversation.active().is_some() && mode.is_some() {
            // It stays until the running turn has ended.
            let place = Placement { backend: conversation.backend, mode };
            let restriction =
                self.mode_for(mux, &set, request).map_or(Restriction::Leaves, Restriction::Mode);
            return Ok((place, restriction));
        }
        let is_known = conversation.known_by().is_some_and(|it| mux.is_current(it));
        let isolation = match mode {
            _ if conversation.active().is_some() => Isolation::Process,
            _ if conversation.wish.moves => self.wish(mux, &conversation.wish),
            Some(_) => Isolation::Mode,
            None if is_known => Isolation::Process,
            None => self.wish(mux, &conversation.wish),
        };
        let place = self.place(mux, &set, isolation, request)?;
        Ok((place, place.restriction()))
    }

    /// Deletes a turn in the history, like the server.
    pub(super) fn on_turn_delete(&mut self, frame: &Frame) {
        let conversation = field(frame, "conversationId").and_then(|it| self.conversations.get_mut(&it));
        if let (Some(conversation), Some(turn)) = (conversation, field(frame, "turnId")) {
            conversation.history.delete(&turn);
        }
    }

    /// Notes the editor's answer to a tool call: the result counts even if no process reports it.
    pub(crate) fn on_tool_answered(&mut self, id: &ConversationId, call: &Frame, answer: Option<&Frame>) {
        let params = call.params().unwrap_or(b"{}");
        let result = answer.and_then(Frame::result);
        let answer = match (result, answer.and_then(Frame::error_value)) {
            (Some(result), _) => match elements(result).next() {
                Some(first) => Answer::Result(&result[first]),
                None => Answer::Result(b"{}"),
            },
            (None, Some(error)) => Answer::Error(error),
            (None, None) => Answer::Error(br#"{"message":"the answer could not be read"}"#),
        };
        let file = text(params, &["input", "filePath"]);
        let turn = field(call, "turnId").and_then(|it| self.conversations.get_mut(id)?.history.turn(&it));
        if let (Some(turn), Some(call)) = (turn, text(params, &["toolCallId"])) {
            turn.answered(&call, answer, file.as_deref());
        }
    }

    /// Handles the answer to a create or turn, after which no message of the turn follows.
    pub(super) fn on_turn_answered(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        sent: SentId,
        id: &ConversationId,
        kind: TurnKind,
        answer: &Frame,
    ) {
        match answer.result() {
            Some(result) => {
                if let Some(turn) = member(result, "turnId").and_then(|it| TurnId::from_raw(&result[it])) {
                    self.conversations.learn_turn(turn, process.backend);
                }
                self.conversations.learn_answer(result);
                self.end_turn(mux, id, sent);
            }
            None => {
                self.end_restore(mux, process, id);
                self.on_turn_failed(mux, id, sent, kind);
            }
        }
        self.clear_transcripts(mux, process);
    }

    /// Starts the next turn of the conversation.
    pub(super) fn end_turn(&mut self, mux: &mut Mux, id: &ConversationId, sent: SentId) {
        if self.conversations.get(id).is_none_or(|it| !it.runs(sent)) {
            return;
        }
        self.withdraw_kept(mux, id);
        if let Some((backend, next)) = self.conversations.advance(id) {
            self.release(mux, backend, next);
        }
    }

    /// The server answers the turns that waited.
    fn unbind(&mut self, mux: &mut Mux, id: &ConversationId) {
        self.withdraw_kept(mux, id);
        for of in self.conversations.family(id) {
            self.forget_transcript(mux, &of);
            if self.conversations.get(&of).is_some_and(|it| it.mode.is_some()) {
                self.modes.add_tombstone(&of);
            }
        }
        for (backend, frame) in self.conversations.unbind(id) {
            self.release(mux, backend, frame);
        }
    }

    /// Handles a create or turn that was refused, or cancelled before a process got it. A conversation that does not
    /// exist must not keep its partition busy.
    pub(super) fn on_turn_failed(
        &mut self,
        mux: &mut Mux,
        id: &ConversationId,
        sent: SentId,
        kind: TurnKind,
    ) {
        match self.conversations.get(id) {
            Some(it) if kind == TurnKind::First && it.runs(sent) && it.active_turn.turn.is_none() => {
                self.unbind(mux, id);
            }
            Some(_) | None => self.end_turn(mux, id, sent),
        }
    }

    /// Handles `conversation/destroy`. The server takes strings only: a numeric conversation lives on, but stops
    /// counting.
    pub(crate) fn on_destroy(&mut self, mux: &mut Mux, owner: Owner, frame: &Frame) {
        let id: Option<ConversationId> = field(frame, "conversationId");
        let text = id.as_ref().and_then(ConversationId::as_text).map(std::borrow::Cow::into_owned);
        let found = id.as_ref().filter(|_| text.is_some()).and_then(|it| self.conversations.get(it));
        let backend = found.map(|it| it.backend);
        if let (Some(_), Some(id)) = (backend, &id) {
            self.end_kept(mux, id);
            self.drop_unsent(mux, id);
        }
        let served = self.served(mux, backend.unwrap_or(self.primary));
        mux.send_to_backend(served, owner, Purpose::Plain, frame);
        match (backend, &id) {
            (Some(_), Some(id)) => self.unbind(mux, id),
            (_, _) => {
                if let Some(number) = text.and_then(|it| ConversationId::from_raw(it.as_bytes())) {
                    self.conversations.count_out(&number);
                }
            }
        }
    }

    /// Handles progress of a Copilot server. Returns the part for the editor.
    pub(crate) fn on_progress<'a>(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        frame: &'a Frame,
    ) -> Option<Progress<'a>> {
        let params = frame.params().unwrap_or(b"{}");
        mux.note_streamed(process, params);
        if self.shapes.read(params).is_some_and(|it| self.note_told(mux, process, &it)) {
            return Some(Progress { params: Cow::Borrowed(params), kind: None, ends: None });
        }
        let progress = ProgressReport::of(params);
        let params = self.hear(mux, process, params, &progress)?;
        let ends = progress.turn().map(|(conversation, _)| conversation);
        let ends = ends.filter(|_| progress.kind == Some(b"\"end\""));
        Some(Progress { params, kind: progress.kind, ends })
    }

    /// Forwards progress to the editor.
    pub(crate) fn pass_progress(mux: &mut Mux, process: ProcessId, frame: &Frame, it: Progress<'_>) {
        let Progress { params, kind, ends: _ } = it;
        match (mux.tokens_mut().passed(process.backend, kind, &params), params) {
            (Some(params), _) | (None, Cow::Owned(params)) => mux.tell_editor(frame.with_params(&params)),
            (None, Cow::Borrowed(_)) => mux.tell_editor(frame.clone()),
        }
    }

    /// Notes new turns, conversations of sub-agents, and texts. Returns the parameters for the editor, if it gets
    /// any.
    fn hear<'a>(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        params: &'a [u8],
        progress: &ProgressReport<'_>,
    ) -> Option<Cow<'a, [u8]>> {
        let unchanged = Cow::Borrowed(params);
        let is_internal = progress.token.is_some_and(is_internal);
        if self.is_of_orphan(process, progress)
            || (is_internal && progress.token().is_none_or(|it| !self.internal.contains(&it.cast())))
        {
            return None;
        }
        let Some((conversation, turn)) = progress.turn() else { return Some(unchanged) };
        match progress.kind {
            Some(b"\"begin\"") => {
                let token = progress.token();
                let is_changed = match progress.caller() {
                    Some(caller) => {
                        self.on_sub_agent(mux, process, &conversation, &turn, caller, token.as_ref());
                        true
                    }
                    None => {
                        self.on_begun(mux, process, &conversation, token.as_ref())
                            && self.on_question(mux, &conversation, &turn, token.as_ref())
                    }
                };
                self.conversations.learn_turn(turn, process.backend);
                is_changed.then_some(unchanged)
            }
            Some(b"\"report\"") => {
                self.shapes.learn(params, progress);
                let segment = self.segment(&conversation, &turn);
                let Some(renumbered) = segment.and_then(|it| it.report(params)) else {
                    self.on_reported(mux, process, &conversation, &turn, progress);
                    return Some(unchanged);
                };
                self.on_reported(mux, process, &conversation, &turn, &ProgressReport::of(&renumbered));
                Some(Cow::Owned(renumbered))
            }
            Some(b"\"end\"") => {
                self.note_over(&conversation, &turn, Over::Ended);
                let end = member(params, "value").map_or(&b"{}"[..], |it| &params[it]);
                let history = self.conversations.get_mut(&conversation).map(|it| &mut it.history);
                if let Some(record) = history.and_then(|it| it.turn(&turn)) {
                    record.ended(end);
                }
                Some(unchanged)
            }
            Some(_) | None => Some(unchanged),
        }
    }

    /// Notes a few more words of an answer in a known shape, if the editor gets the report unchanged. Runs for each
    /// such report.
    fn note_told(&mut self, mux: &Mux, process: ProcessId, words: &ReplyDelta<'_>) -> bool {
        let ReplyDelta { conversation, turn, round, reply } = words;
        let is_orphan = |it: &Partition| it.restores.is_orphan(conversation);
        if mux.tokens().are_renamed() || self.partitions.get(process.backend).is_some_and(is_orphan) {
            return false;
        }
        let Some(conversation) = self.conversations.get_mut(conversation) else {
            return !is_internal(conversation.as_bytes());
        };
        if conversation.active_turn.segment.is_some() {
            return false;
        }
        if let Some(turn) = conversation.history.turn(turn) {
            turn.say(*round, reply);
        }
        true
    }

    /// The renumbering of this turn for the editor, if another process had begun it.
    fn segment(&self, id: &ConversationId, turn: &TurnId) -> Option<&TurnSegment> {
        let active_turn = &self.conversations.get(id)?.active_turn;
        active_turn.segment.as_ref().filter(|_| active_turn.turn.as_ref() == Some(turn))
    }

    fn note_over(&mut self, id: &ConversationId, turn: &TurnId, over: Over) {
        if let Some(it) =
            self.conversations.get_mut(id).filter(|it| it.active_turn.turn.as_ref() == Some(turn))
        {
            it.active_turn.over = it.active_turn.over.max(over);
        }
    }

    fn on_sub_agent(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        id: &ConversationId,
        turn: &TurnId,
        caller: TurnId,
        token: Option<&Token>,
    ) {
        let parent = Self::caller(mux, process.backend, token);
        let of_caller = parent.as_ref().and_then(|it| self.conversations.get(it)).map(|it| it.set.clone());
        let set = of_caller.or_else(|| self.partitions.set(process.backend).cloned());
        let (Some(set), None) = (set, self.conversations.get(id)) else { return };
        let lives_in_another = parent.is_some();
        self.conversations.bind(id.clone(), process.backend, set, parent);
        if let Some(conversation) = self.conversations.get_mut(id).filter(|_| lives_in_another) {
            conversation.caller = Some(caller);
            conversation.active_turn.turn = Some(turn.clone());
            conversation.history.begin(turn.clone(), b"\"\"");
        }
    }

    /// Handles the begin of a turn, whose question belongs to the history. Returns whether it is new to the editor.
    fn on_question(
        &mut self,
        mux: &mut Mux,
        id: &ConversationId,
        turn: &TurnId,
        token: Option<&Token>,
    ) -> bool {
        let Some(conversation) = self.conversations.get_mut(id) else { return true };
        let Some(asked) = conversation.active().and_then(|it| mux.requests().get(it)) else { return true };
        if !matches!(&asked.purpose, Purpose::Copilot(CopilotPurpose::Turn { token: of, .. }) if of.as_ref() == token)
        {
            return true;
        }
        if let Some(question) = question(&asked.frame) {
            conversation.history.begin(turn.clone(), question);
        }
        let active_turn = &mut conversation.active_turn;
        if active_turn.turn.is_some() && active_turn.segment.is_some() {
            return false;
        }
        // A server may begin an ended turn again.
        active_turn.over = Over::No;
        active_turn.turn = Some(turn.clone());
        true
    }

    fn on_reported(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        id: &ConversationId,
        turn: &TurnId,
        progress: &ProgressReport<'_>,
    ) {
        let mut is_in_mode = false;
        if let Some(conversation) = self.conversations.get_mut(id) {
            let restricted = !conversation.set.is_all();
            let (modes, set, confirmed) = (&self.modes, &conversation.set, &conversation.mcp_servers);
            let may_call = conversation.history.turn(turn).is_none_or(|it| {
                let told_of_calls = it.report(&progress.report);
                if told_of_calls {
                    it.name_mcp_calls(|call| match confirmed.get(&call.id) {
                        Some(server) => Some(mcp_model_name(server, &call.name)),
                        None => modes.mcp_name(set, &call.name),
                    });
                }
                told_of_calls
            });
            if restricted && may_call {
                conversation.note_calls(&progress.report);
                is_in_mode = conversation.mode.is_some();
            }
        }
        if is_in_mode {
            self.look_at_calls(mux, process, id, &progress.report);
        }
        if progress.is_counted {
            self.note_over(id, turn, Over::Counted);
        }
    }

    /// The conversation whose turn uses the token of this progress.
    fn caller(mux: &Mux, backend: BackendId, token: Option<&Token>) -> Option<ConversationId> {
        let running = mux.requests().filter(|it| match (&it.purpose, it.to) {
            (Purpose::Copilot(CopilotPurpose::Turn { token: of, .. }), To::Process(process)) => {
                process.backend == backend && of.as_ref() == token
            }
            _ => false,
        });
        match &mux.requests().get(*running.first()?)?.purpose {
            Purpose::Copilot(CopilotPurpose::Turn { conversation, .. }) => Some(conversation.clone()),
            _ => None,
        }
    }
}

/// The part of a server's progress for the editor.
#[derive(Debug)]
pub(crate) struct Progress<'a> {
    pub(crate) params: Cow<'a, [u8]>,
    kind: Option<&'a [u8]>,
    /// The conversation whose turn it ends.
    pub(crate) ends: Option<ConversationId>,
}

/// The turn in a create or turn.
fn turn_of(frame: &Frame) -> Option<TurnId> {
    let params = frame.params()?;
    let turn = question_in(params).map_or(params, |it| &params[it]);
    TurnId::from_raw(&turn[member(turn, "turnId")?])
}

/// An id of a turn in the server's form, which clients may expect.
fn uuid(identity: &Identity, n: u64) -> String {
    let high = identity.mixed(2 * n);
    let low = identity.mixed(2 * n + 1);
    // Version 4, variant 1.
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    let hex = format!("{high:016x}{low:016x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Removes the member `lspool` from a create.
fn without_lspool(frame: &Frame) -> Frame {
    match frame.params() {
        Some(params) if member(params, "lspool").is_some() => {
            frame.with_params(&Patch::of(params).remove("lspool").finish())
        }
        Some(_) | None => frame.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_turn_ids_are_version_4_uuids() {
        let ids: std::collections::BTreeSet<String> =
            (0..1000).map(|n| uuid(&Identity { pid: 77, started: 5 }, n)).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            let parts: Vec<usize> = id.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
            assert!(
                id.as_bytes()[14] == b'4' && matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'),
                "{id}"
            );
        }
    }
}
