//! Internal conversations: lspool holds them for sub-agents, members of teams, and workers of orchestrations.
//!
//! An [`InternalConversation`] is a client of the pool like the editor: it uses the partition of its tools, and
//! survives crashes like any other conversation. It has no stream: lspool takes its messages out of the effects of
//! each event, and handles them at once ([`delivery`]). Its owner ([`ConversationOwner`]) decides what to ask, and
//! gets [`AgentEvent`]s.
//!
//! - [`Agents::open_internal`] makes one, without any cost.
//! - [`Agents::say`] starts a turn. The first creates the conversation, in the partition of its tools; later ones
//!   continue it, or restore it.
//! - [`Agents::stop_internal`] ends a turn early. Its owner gets the end soon: lspool does not wait for a server that
//!   does not answer.
//! - [`Agents::close_internal`] ends the conversation in any state, and destroys it. Its owner gets no further
//!   events.
//!
//! **Each turn ends with one event**, unless the conversation is closed before.

mod delivery;
mod internal;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use bytes::Bytes;
use foldhash::fast::RandomState;
use serde_json::json;
use tracing::warn;

pub(crate) use self::internal::{AgentEvent, EditorIds, InternalConversation, SAID_BEFORE};
use self::{delivery::Delivery, internal::InternalState};
use crate::{
    agents::{self, LAST_REQUEST, ORCHESTRATION, SUMMARY},
    config::AgentConfig,
    core::{
        agents::Agents,
        copilot::{
            Copilot, SIGN_IN,
            conversation::{INTERNAL, Wish, is_internal},
            history::History,
            messages::destruction,
            selection::{Choice, agent_set},
            sign_in::is_signed_out,
            tools::tool_set::ToolSet,
        },
        event::ClientId,
        ids::{ConversationId, RequestId},
        mux::{
            Mux,
            failure::{Failure, reason},
            requests::Owner,
        },
        purpose::Purpose,
    },
    rpc::{Frame, Patch, RawId, elements, member, path, text},
};

/// How long a server may take to answer a cancelled turn.
const PATIENCE: Duration = Duration::from_secs(1);

/// Members of the editor's request, and of the create before it, that internal conversations inherit.
pub(super) const INHERITED: [&str; 6] = [
    "source",
    "capabilities",
    "userLanguage",
    "workspaceFolder",
    "workspaceFolders",
    "needToolCallConfirmation",
];

/// The default model of a server, unless this is a tier of the configuration.
pub(super) const DEFAULT_MODEL: &str = "default";

/// The members of a request that name a model.
const MODEL: [&str; 3] = ["modelInfo", "model", "modelProviderName"];

/// The owner of an internal conversation, which gets its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConversationOwner {
    /// A sub-agent.
    SubAgent(u32),
    /// The planner, a worker or the summarizer of an orchestration: its number, and the number of the conversation
    /// there.
    Orchestration(u32, usize),
    /// A member of a team.
    Member(u32),
}

/// The limits and the duty of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// The limit of time.
    pub(crate) time: Option<Duration>,
    /// The limit of requests to its model.
    pub(crate) rounds: Option<usize>,
    /// Whether a turn without a text is asked once for one, and fails without it.
    pub(crate) needs_words: bool,
}

/// The parameters of a new conversation.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) owner: ConversationOwner,
    /// Its tools, its model, and its instructions.
    pub(crate) agent: AgentConfig,
    pub(crate) editor_ids: EditorIds,
    pub(crate) limits: Limits,
    /// The parameters of each of its requests: [`usual`].
    pub(crate) usual: Bytes,
    /// Its history so far.
    pub(crate) history: Option<History>,
}

/// All internal conversations.
#[derive(Debug, Default)]
pub(crate) struct InternalConversations {
    conversations: BTreeMap<u32, InternalConversation>,
    by_conversation: HashMap<ConversationId, u32, RandomState>,
    due: BTreeSet<(Instant, u32)>,
    /// The number of conversations so far.
    last: u32,
    /// The number of created conversations so far.
    n_conversations: u64,
}

impl InternalConversations {
    /// Whether there has never been one.
    pub(crate) fn is_unused(&self) -> bool {
        self.last == 0
    }

    /// The internal conversation with this id, which is also its token.
    pub(crate) fn of(&self, conversation: &ConversationId) -> Option<u32> {
        self.by_conversation.get(conversation).copied()
    }

    /// The next deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    fn set_due(&mut self, no: u32, at: Option<Instant>) {
        let Some(internal) = self.conversations.get_mut(&no) else { return };
        if let Some(before) = std::mem::replace(&mut internal.due, at) {
            self.due.remove(&(before, no));
        }
        self.due.extend(at.map(|at| (at, no)));
    }
}

/// The parameters of each request of an internal conversation, from the create and the turn that it works for.
pub(crate) fn usual(chat_mode: &str, create: &[u8], asked: &[u8]) -> Bytes {
    let mut usual = Patch::of(br#"{"computeSuggestions":false}"#);
    usual.set("chatMode", json!(chat_mode).to_string().as_bytes());
    // Members of the current request come last, and override others.
    for (keys, from) in [(&INHERITED[..], create), (&INHERITED[..], asked), (&MODEL[..], asked)] {
        for key in keys {
            if let Some(range) = member(from, key) {
                usual.set(key, &from[range]);
            }
        }
    }
    usual.finish().into()
}

impl Agents {
    /// Adds a conversation without a turn of this process.
    pub(super) fn open_internal(&mut self, opening: Opening) -> u32 {
        self.internal.last += 1;
        let no = self.internal.last;
        self.internal
            .conversations
            .insert(no, InternalConversation::new(ClientId(ClientId::INTERNAL + no), opening));
        no
    }

    /// Starts a turn. Not while one is running.
    pub(crate) fn say(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, words: &str) {
        let config = copilot.server(mux).config.clone();
        let Some(internal) =
            self.internal.conversations.get_mut(&no).filter(|it| it.state == InternalState::Idle)
        else {
            return;
        };
        internal.is_asked_again = false;
        internal.report = internal::TurnReport::default();
        let due = internal.limits.time.map(|it| mux.now() + it);
        let model = internal.agent.model.clone().filter(|_| !internal.has_model);
        self.internal.set_due(no, due);
        let Some(model) = model else { return self.ask(copilot, mux, no, words) };
        let model = config.models.get(&model).cloned().unwrap_or(model);
        let Some(internal) = self.internal.conversations.get_mut(&no) else { return };
        internal.agent.model = Some(model);
        internal.state = InternalState::Choosing(words.to_owned());
        let id = internal.next_id();
        let frame = Frame::request(id.clone().into(), "copilot/models", Some(b"{}"));
        let owner = Owner::Client(internal.client, id);
        mux.send_to_backend(copilot.primary(), owner, Purpose::Plain, &frame);
    }

    /// Sends the question to its model, in its conversation or in a new one.
    fn ask(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, words: &str) {
        let Some(internal) = self.internal.conversations.get(&no) else { return };
        let is_new = copilot.conversations().get(&internal.conversation).is_none();
        let set = Self::internal_tool_set(copilot, &internal.agent, internal.owner);
        let wish = Wish { agent: Some(internal.editor_ids.agent.clone()), ..Wish::default() };
        if is_new {
            self.internal.n_conversations += 1;
            let it = mux.identity();
            let id = format!("{INTERNAL}{}-{}-{}", it.pid, it.started, self.internal.n_conversations);
            self.rename_internal(copilot, no, ConversationId::text(&id));
        }
        let Some(internal) = self.internal.conversations.get_mut(&no) else { return };
        internal.state = InternalState::Turning;
        let owner = Owner::Client(internal.client, internal.next_id());
        let id = internal.conversation.clone();
        let mut params = Patch::of(&internal.usual);
        params.set("conversationId", id.as_bytes()).set("workDoneToken", id.as_bytes());
        let history = internal.history.take().filter(|_| is_new);
        match history {
            None if is_new => {
                let request = json!([{"request": agents::request(&internal.agent, words)}]).to_string();
                let params = params.set("turns", request.as_bytes()).finish();
                let frame = Frame::request(RawId::from(0), "conversation/create", Some(&params));
                copilot.create(mux, owner, Choice { set, events: false, wish }, &frame);
            }
            history => {
                if let Some(history) = history
                    && let Err((history, failure)) =
                        Self::bind_again(copilot, mux, &id, Choice { set, events: false, wish }, history)
                {
                    self.keep_history(no, history);
                    return mux.fail(&owner, &failure);
                }
                let params = params.set("message", json!(words).to_string().as_bytes()).finish();
                let frame = Frame::request(RawId::from(0), "conversation/turn", Some(&params));
                copilot.on_turn(mux, owner, &frame);
            }
        }
    }

    /// Binds a conversation that no process knows, with its history.
    fn bind_again(
        copilot: &mut Copilot,
        mux: &mut Mux,
        id: &ConversationId,
        choice: Choice,
        history: History,
    ) -> Result<(), (History, Failure)> {
        let Choice { set, events: _, wish } = choice;
        let isolation = copilot.wish(mux, &wish);
        match copilot.place(mux, &set, isolation, b"{}") {
            Ok(place) => drop(copilot.conversations_mut().bind(id.clone(), place.backend, set, None)),
            Err(failure) => return Err((history, failure)),
        }
        if let Some(conversation) = copilot.conversations_mut().get_mut(id) {
            (conversation.history, conversation.wish) = (history, wish);
        }
        Ok(())
    }

    fn keep_history(&mut self, no: u32, history: History) {
        if let Some(internal) = self.internal.conversations.get_mut(&no) {
            internal.history = Some(history).filter(History::has_begun);
        }
    }

    fn rename_internal(&mut self, copilot: &mut Copilot, no: u32, id: ConversationId) {
        let Some(internal) = self.internal.conversations.get_mut(&no) else { return };
        self.internal.by_conversation.remove(&internal.conversation);
        copilot.release_internal(&internal.conversation);
        copilot.hold_internal(id.clone());
        internal.conversation = id.clone();
        self.internal.by_conversation.insert(id, no);
    }

    /// The tools of an internal conversation: those of its agent, without tools for starting or steering others.
    fn internal_tool_set(
        copilot: &Copilot,
        agent: &AgentConfig,
        owner: Option<ConversationOwner>,
    ) -> ToolSet {
        let set = Self::set_without_others(copilot, agent);
        match owner {
            Some(ConversationOwner::Member(_)) => set.with_member(),
            Some(ConversationOwner::SubAgent(_) | ConversationOwner::Orchestration(..)) | None => set,
        }
    }

    fn set_without_others(copilot: &Copilot, agent: &AgentConfig) -> ToolSet {
        let set = agent_set(agent);
        let has = |it: &&str| set.contains(it) && (!set.is_open() || copilot.catalog().is_clients(it));
        let others: Vec<String> = ORCHESTRATION.iter().copied().filter(has).map(str::to_owned).collect();
        if others.is_empty() {
            return set;
        }
        let denied: Vec<String> = agent.disallowed_tools.iter().cloned().chain(others).collect();
        ToolSet::new(agent.tools.as_deref(), &denied)
    }

    /// Ends the running turn. Returns whether there was one that was not ending yet.
    pub(super) fn stop_internal(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, why: &str) -> bool {
        let running = |it: &&mut InternalConversation| it.is_owed() && it.stop.is_none();
        let Some(internal) = self.internal.conversations.get_mut(&no).filter(running) else { return false };
        internal.stop = Some(why.to_owned());
        let (client, params) = (internal.client, json!({"id": internal.asked}).to_string());
        self.internal.set_due(no, Some(mux.now() + PATIENCE));
        let frame = Frame::notification("$/cancelRequest", Some(params.as_bytes()));
        if let Some(sent) = mux.cancelled_by(client, &frame) {
            copilot.cancel(mux, sent, Some(&frame));
        }
        true
    }

    /// Closes a conversation in any state.
    pub(super) fn close_internal(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) {
        let Some(internal) = self.internal.conversations.get_mut(&no) else { return };
        internal.owner = None;
        match internal.is_owed() {
            true => drop(self.stop_internal(copilot, mux, no, "it was cancelled")),
            false => self.end_internal(copilot, mux, no),
        }
    }

    /// Removes the conversation here and at its server.
    fn end_internal(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) {
        self.internal.set_due(no, None);
        let Some(internal) = self.internal.conversations.remove(&no) else { return };
        self.internal.by_conversation.remove(&internal.conversation);
        copilot.release_internal(&internal.conversation);
        Self::destroy_internal(copilot, mux, &internal.conversation);
    }

    fn destroy_internal(copilot: &mut Copilot, mux: &mut Mux, id: &ConversationId) {
        if copilot.conversations().get(id).is_some() {
            copilot.on_destroy(mux, Owner::Proxy, &destruction(id));
        }
    }

    /// Handles messages for internal conversations in the effects. Returns whether there were any. `seen` is the
    /// number of effects that were read.
    pub(super) fn run_internal(&mut self, copilot: &mut Copilot, mux: &mut Mux, seen: &mut usize) -> bool {
        if (self.internal.is_unused() && self.subagents.is_idle()) || mux.clients().is_exiting() {
            return false;
        }
        if !mux.effects()[*seen..].iter().any(delivery::may_concern_internal) {
            *seen = mux.effects().len();
            return false;
        }
        let deliveries = self.take_deliveries(copilot, mux, *seen);
        // A message may have ended a sub-agent, which affects its conversation.
        let is_left = mux.effects()[*seen..].iter().any(delivery::is_for_internal);
        if !is_left {
            *seen = mux.effects().len();
        }
        let has_changed = is_left || !deliveries.is_empty();
        for it in deliveries {
            match it {
                Delivery::Answer(no, answer) => self.on_internal_answered(copilot, mux, no, &answer),
                Delivery::Progress(no, params) => self.on_internal_progress(copilot, mux, no, &params),
            }
        }
        has_changed
    }

    fn on_internal_progress(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, params: &[u8]) {
        let Some(internal) = self.internal.conversations.get_mut(&no) else { return };
        let conversation = internal.conversation.clone();
        let agent_event = internal.report.hear(&conversation, params);
        let too_many = internal.has_asked_too_often();
        let note = internal.is_before_last_request().then_some(LAST_REQUEST);
        if let Some(conversation) = copilot.conversations_mut().get_mut(&conversation) {
            conversation.active_turn.note = note;
        }
        for it in agent_event {
            self.tell_owner(copilot, mux, no, it);
        }
        if let Some(why) = too_many {
            self.stop_internal(copilot, mux, no, &why);
        }
    }

    fn tell_owner(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, agent_event: AgentEvent) {
        match self.internal.conversations.get(&no).and_then(|it| it.owner) {
            Some(ConversationOwner::SubAgent(run)) => self.on_sub_agent_event(copilot, mux, run, agent_event),
            Some(ConversationOwner::Orchestration(no, conversation)) => {
                self.on_orchestration_agent_event(copilot, mux, (no, conversation), agent_event);
            }
            Some(ConversationOwner::Member(desk)) => self.on_member_event(mux, desk, agent_event),
            None => {}
        }
    }

    fn on_internal_answered(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, answer: &Frame) {
        let Some(internal) = self.internal.conversations.get_mut(&no) else { return };
        if !internal.is_owed() || answer.id().and_then(|it| it.as_u64()) != Some(internal.asked) {
            return;
        }
        let error = answer.error_value().map(|_| reason(answer));
        match &internal.state {
            InternalState::Choosing(words) if internal.stop.is_none() => {
                let words = words.clone();
                let found = match (answer.result(), &internal.agent.model) {
                    (Some(models), Some(model)) => chosen(model, models),
                    _ => Err(unknown_models(answer)),
                };
                match found {
                    Ok(model) => {
                        let info = json!({"id": model}).to_string();
                        let mut usual = Patch::of(&internal.usual);
                        for key in MODEL {
                            usual.remove(key);
                        }
                        internal.usual = usual.set("modelInfo", info.as_bytes()).finish().into();
                        internal.has_model = true;
                        self.ask(copilot, mux, no, &words);
                    }
                    Err(why) => self.turn_ended(copilot, mux, no, Err(why)),
                }
            }
            InternalState::Choosing(_) | InternalState::Turning => {
                let spent = internal.has_no_request_left();
                match internal.outcome(error.as_deref()) {
                    Some(result) => self.turn_ended(copilot, mux, no, result),
                    None if !internal.limits.needs_words => {
                        self.turn_ended(copilot, mux, no, Ok(String::new()));
                    }
                    None if internal.is_asked_again || spent.is_some() => {
                        let why = spent.unwrap_or_else(|| "it ended twice without an answer".to_owned());
                        self.turn_ended(copilot, mux, no, Err(why));
                    }
                    None => {
                        internal.is_asked_again = true;
                        internal.report.again();
                        self.ask(copilot, mux, no, SUMMARY);
                    }
                }
            }
            InternalState::Idle => {}
        }
    }

    fn turn_ended(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, result: Result<String, String>) {
        self.internal.set_due(no, None);
        let Some(internal) = self.internal.conversations.get_mut(&no) else { return };
        (internal.state, internal.stop) = (InternalState::Idle, None);
        match internal.owner {
            Some(_) => self.tell_owner(copilot, mux, no, AgentEvent::Ended(result)),
            None => self.end_internal(copilot, mux, no),
        }
    }

    pub(crate) fn on_internal_deadlines(&mut self, copilot: &mut Copilot, mux: &mut Mux) {
        self.show_time(mux);
        while let Some((_, no)) = self.internal.due.first().copied().filter(|(at, _)| *at <= mux.now()) {
            self.internal.set_due(no, None);
            let Some(internal) = self.internal.conversations.get(&no) else { continue };
            if internal.stop.is_some() {
                self.abandon_turn(copilot, mux, no);
            } else {
                let limit = internal.limits.time.unwrap_or_default().as_secs();
                self.stop_internal(
                    copilot,
                    mux,
                    no,
                    &format!("it was stopped after {limit} s: time limit reached"),
                );
            }
        }
    }

    /// Abandons a turn whose server does not answer its cancellation. The text so far stays.
    fn abandon_turn(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) {
        let Some(internal) = self.internal.conversations.get_mut(&no) else { return };
        let (client, id, asked) =
            (internal.client, internal.conversation.clone(), RequestId::from(RawId::from(internal.asked)));
        warn!(conversation = %id, "server did not answer a cancelled turn; continuing without it");
        let result = internal.outcome(None).unwrap_or_else(|| Ok(String::new()));
        if let Some(conversation) = copilot.conversations_mut().get_mut(&id) {
            let history = std::mem::take(&mut conversation.history);
            self.keep_history(no, history);
        }
        Self::destroy_internal(copilot, mux, &id);
        // Further messages of its server belong to a forgotten conversation.
        self.internal.by_conversation.remove(&id);
        copilot.release_internal(&id);
        if let Some(internal) = self.internal.conversations.get_mut(&no) {
            internal.conversation = RawId::null().into();
        }
        // A late answer matches nothing.
        if let Some(sent) = mux.requests().of_client(client, &asked) {
            mux.requests_mut().take(sent);
        }
        self.turn_ended(copilot, mux, no, result);
    }

    /// Whether this owner has this conversation.
    pub(super) fn is_owned_by(&self, no: u32, owner: ConversationOwner) -> bool {
        self.owner_of(no) == Some(owner)
    }

    /// The owner of a conversation, if it still has one.
    pub(super) fn owner_of(&self, no: u32) -> Option<ConversationOwner> {
        self.internal.conversations.get(&no)?.owner
    }

    /// Whether a turn of a conversation is running, or ending.
    pub(super) fn is_talking(&self, no: u32) -> bool {
        self.internal.conversations.get(&no).is_some_and(InternalConversation::is_owed)
    }

    /// Sets the ids under which the editor knows a conversation.
    pub(super) fn editor_ids(&mut self, no: u32, editor_ids: EditorIds) {
        if let Some(internal) = self.internal.conversations.get_mut(&no) {
            internal.editor_ids = editor_ids;
        }
    }

    /// The history of a conversation, and whether a begun turn is running.
    pub(super) fn said_in<'a>(&'a self, copilot: &'a Copilot, no: u32) -> Option<(&'a History, bool)> {
        let internal = self.internal.conversations.get(&no)?;
        match copilot.conversations().get(&internal.conversation) {
            Some(conversation) => Some((&conversation.history, conversation.active_turn.turn.is_some())),
            None => internal.history.as_ref().map(|it| (it, false)),
        }
    }

    /// Checks that internal conversations agree with the other tables.
    pub(super) fn check_internal(&self, copilot: &Copilot, mux: &Mux) -> Result<(), String> {
        for (no, internal) in &self.internal.conversations {
            let name = &internal.editor_ids.name;
            let is_owed = mux
                .requests()
                .of_client(internal.client, &RequestId::from(RawId::from(internal.asked)))
                .is_some();
            if internal.is_owed() && !is_owed {
                return Err(format!("{name} waits for an answer that nobody owes: {:?}", internal.state));
            }
            if !internal.is_owed() && internal.owner.is_none() {
                return Err(format!("{name} has ended, and nobody wants it"));
            }
            let is_known = self.internal.of(&internal.conversation) == Some(*no);
            if !is_known && !internal.conversation.as_ref().is_null() {
                return Err(format!("the conversation of {name} is not found"));
            }
            if internal.due.is_some_and(|at| !self.internal.due.contains(&(at, *no))) {
                return Err(format!("{name} has a deadline that nobody looks at"));
            }
        }
        let n_due = self.internal.conversations.values().filter(|it| it.due.is_some()).count();
        let n_bound =
            self.internal.conversations.values().filter(|it| !it.conversation.as_ref().is_null()).count();
        if n_due != self.internal.due.len() || n_bound != self.internal.by_conversation.len() {
            return Err("an index of the conversations inside holds one that is no more".to_owned());
        }
        let lost = |id: &ConversationId| is_internal(id.as_bytes()) && self.internal.of(id).is_none();
        match copilot.conversations().iter().find(|(id, _)| lost(id)) {
            Some((id, _)) => Err(format!("nobody holds conversation {id}")),
            None => Ok(()),
        }
    }
}

/// Why a server does not say which models there are, and what can be done about it.
fn unknown_models(answer: &Frame) -> String {
    match is_signed_out(answer) {
        true => format!("not signed in to Copilot: {SIGN_IN}"),
        false => format!("cannot list the models: {}", reason(answer)),
    }
}

/// The id of the wanted model among those of a server; else an error.
fn chosen(model: &str, models: &[u8]) -> Result<String, String> {
    let known = |it: &[u8]| Some((text(it, &["id"])?, text(it, &["modelName"]).unwrap_or_default()));
    let known: Vec<_> = elements(models).filter_map(|it| known(&models[it])).collect();
    let name = model.strip_suffix(" (copilot)").unwrap_or(model);
    let is_default = |it: &&[u8]| path(it, &["isChatDefault"]).is_some_and(|at| &it[at] == b"true");
    let all = || elements(models).map(|it| &models[it]);
    if model == DEFAULT_MODEL
        && let Some(id) = all().find(is_default).or_else(|| all().next()).and_then(|it| text(it, &["id"]))
    {
        return Ok(id);
    }
    if known.is_empty() {
        return Err("the server offers no model that this account may use".to_owned());
    }
    let by_id = known.iter().find(|(id, _)| id == model);
    let found = by_id.or_else(|| known.iter().find(|(_, it)| it.eq_ignore_ascii_case(name)));
    found.map(|(id, _)| id.clone()).ok_or_else(|| {
        let ids: Vec<&str> = known.iter().map(|(id, _)| id.as_str()).collect();
        let ids = ids.join(", ");
        format!(
            "unknown model {model:?}: neither a model of the server nor a tier of [models] in the \
             configuration; the server offers {ids}"
        )
    })
}

#[cfg(test)]
impl Agents {
    /// Checks that no internal conversation is left.
    pub(in crate::core::agents) fn check_quiet_internal(&self) {
        let left: Vec<_> =
            self.internal.conversations.values().map(|it| (&it.editor_ids.name, &it.state)).collect();
        assert!(left.is_empty(), "{left:?} are left");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_lookup_distinguishes_no_models_from_unknown_model() {
        for none in ["[]", "{}", "null", r#"[{"modelName":"M"}]"#] {
            for model in [DEFAULT_MODEL, "m"] {
                let why = chosen(model, none.as_bytes()).unwrap_err();
                assert_eq!(why, "the server offers no model that this account may use", "{none}");
            }
        }
        let one = br#"[{"id":"m","modelName":"M"}]"#;
        assert_eq!(chosen(DEFAULT_MODEL, one).as_deref(), Ok("m"));
        assert!(chosen("n", one).unwrap_err().ends_with("offers m"));
    }
}
