//! Conversations: which partition serves each, which turn runs, which turns wait.
//!
//! **At most one turn of a conversation is with the server**: a second one would break the first one's progress.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::{
    core::{
        copilot::{
            active_turn::ActiveTurn,
            history::History,
            modes::Wish,
            progress::{Report, Round},
            tools::tool_set::ToolSet,
        },
        event::{BackendId, ProcessId},
        ids::{ConversationId, TurnId},
        mux::pool::usage::Usage,
        purpose::{ModeId, SentId},
    },
    rpc::{Frame, path, text},
};

/// How ids of internal conversations begin, which are their tokens as well.
pub(crate) const INTERNAL: &str = "lspool-inside-";

/// Whether this, as it stands in a message, is the id of an internal conversation, be it of one that is no more.
pub(crate) fn is_internal(raw: &[u8]) -> bool {
    raw.strip_prefix(b"\"").is_some_and(|it| it.starts_with(INTERNAL.as_bytes()))
}

/// Turns whose partition is remembered, for ratings and the like.
const TURNS_REMEMBERED: usize = 10_000;

/// Models of which an answer is remembered.
const MODELS_REMEMBERED: usize = 100;

/// One conversation that a partition serves.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) backend: BackendId,
    /// The tools it may use, whichever process serves it.
    pub(crate) set: ToolSet,
    /// The mode that keeps it to them; else its process does.
    pub(crate) mode: Option<ModeId>,
    /// What is wanted of how it is kept to them.
    pub(crate) wish: Wish,
    known_by: Option<ProcessId>,
    pub(crate) history: History,
    active: Option<SentId>,
    /// How far the running turn has come.
    pub(crate) active_turn: ActiveTurn,
    /// Turns that wait for it.
    pub(crate) waiting: VecDeque<Frame>,
    /// The editor wants to be told what its sub-agents do.
    pub(crate) events: bool,
    pub(crate) watch: Watch,
    /// Whether it counts as bound. The server's `destroy` takes strings only, so a numeric conversation lives on.
    counted: bool,
    /// A sub-agent's conversation lives in the one that called it.
    pub(crate) parent: Option<ConversationId>,
    /// The turn that called the sub-agent.
    pub(crate) caller: Option<TurnId>,
    /// The tools that the model called in the running turn, by call id. Kept for restricted partitions only.
    pub(crate) called: BTreeMap<String, String>,
    /// The MCP servers of calls in the running turn, by call id, as the server has asked about them.
    pub(crate) mcp_servers: BTreeMap<String, String>,
}

/// Who wants to know when anything may have become of a conversation: [`Conversations::take_touched`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Nobody,
    /// Its turn has started sub-agents.
    Lead,
}

/// **The running turn is that of the last create**: one that was replaced runs on at its process, and nothing that
/// comes of its request concerns the conversation any more. So whatever is done for a request asks whether it
/// [runs](Conversation::runs) here.
impl Conversation {
    /// The request of the running turn.
    pub(crate) fn active(&self) -> Option<SentId> {
        self.active
    }

    /// Whether this is the request of the running turn.
    pub(crate) fn runs(&self, sent: SentId) -> bool {
        self.active == Some(sent)
    }

    /// The process that knows it. Another one is told its history before its next turn.
    pub(super) fn known_by(&self) -> Option<ProcessId> {
        self.known_by
    }

    /// A turn is asked while none runs.
    pub(crate) fn ask(&mut self, sent: SentId) {
        self.active = Some(sent);
    }

    /// A turn is asked under another number. Whether it is the running one.
    pub(super) fn ask_again(&mut self, sent: SentId, again: SentId) -> bool {
        let runs = self.runs(sent);
        if runs {
            self.active = Some(again);
        }
        runs
    }

    /// The running turn is over: gives the next one, if one waited.
    fn advance(&mut self) -> Option<Frame> {
        self.called.clear();
        self.mcp_servers.clear();
        self.active_turn = ActiveTurn::default();
        let next = self.waiting.pop_front();
        self.active = next.as_ref().and_then(SentId::of);
        next
    }

    /// The next turn waits after all.
    pub(crate) fn hold(&mut self, next: Frame) {
        self.active = None;
        self.waiting.push_front(next);
    }

    /// A process is told what was said.
    pub(super) fn told_to(&mut self, process: ProcessId) {
        self.known_by = Some(process);
    }

    /// The process that knew it does not any more.
    pub(super) fn forgotten(&mut self) {
        self.known_by = None;
    }

    /// Remembers which tool the model called under which call id.
    pub(super) fn note_calls(&mut self, report: &Report<'_>) {
        for call in report.rounds().flat_map(Round::calls) {
            if let (Some(id), Some(name)) = (text(call, &["id"]), text(call, &["name"])) {
                self.called.insert(id, name);
            }
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    /// By hash, for there may be a thousand. In an order that does not depend on it, for what is done for each is
    /// told in that order.
    bound: IndexMap<ConversationId, Conversation, RandomState>,
    /// Those of sub-agents, by the conversation that called them.
    sub_agents: HashMap<ConversationId, Vec<ConversationId>, RandomState>,
    /// By backend: those that count.
    served: Usage,
    /// What turns were answered, by model: apart from its ids, an answer says only what the model is.
    answers: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Those that are watched, and were changed, or are gone.
    touched: BTreeSet<ConversationId>,
    turns: HashMap<TurnId, BackendId, RandomState>,
    turns_by_age: VecDeque<TurnId>,
}

impl Conversations {
    /// Binds a conversation to a partition; gives back the one it replaces.
    pub(crate) fn bind(
        &mut self,
        id: ConversationId,
        backend: BackendId,
        set: ToolSet,
        parent: Option<ConversationId>,
    ) -> Option<Conversation> {
        let replaced = self.take(&id);
        if let Some(parent) = &parent {
            self.sub_agents.entry(parent.clone()).or_default().push(id.clone());
        }
        let fresh = Conversation {
            backend,
            set,
            mode: None,
            wish: Wish::default(),
            known_by: None,
            history: History::default(),
            active: None,
            active_turn: ActiveTurn::default(),
            waiting: VecDeque::new(),
            events: false,
            watch: Watch::Nobody,
            counted: true,
            parent,
            caller: None,
            called: BTreeMap::new(),
            mcp_servers: BTreeMap::new(),
        };
        self.served.add(backend);
        self.bound.insert(id, fresh);
        replaced
    }

    fn take(&mut self, id: &ConversationId) -> Option<Conversation> {
        let gone = self.bound.swap_remove(id)?;
        if gone.watch == Watch::Lead {
            self.touched.insert(id.clone());
        }
        if gone.counted {
            self.served.remove(gone.backend);
        }
        if let Some(parent) = &gone.parent
            && let Some(of_parent) = self.sub_agents.get_mut(parent)
        {
            of_parent.retain(|it| it != id);
            if of_parent.is_empty() {
                self.sub_agents.remove(parent);
            }
        }
        Some(gone)
    }

    pub(crate) fn get(&self, id: &ConversationId) -> Option<&Conversation> {
        self.bound.get(id)
    }

    /// All that are bound.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ConversationId, &Conversation)> {
        self.bound.iter()
    }

    /// What is known elsewhere of a conversation may have changed.
    pub(crate) fn touch(&mut self, id: &ConversationId) {
        self.get_mut(id);
    }

    pub(crate) fn get_mut(&mut self, id: &ConversationId) -> Option<&mut Conversation> {
        let found = self.bound.get_mut(id)?;
        if found.watch == Watch::Lead {
            self.touched.insert(id.clone());
        }
        Some(found)
    }

    /// The conversations that are watched, and may have changed since this was last asked.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<ConversationId> {
        std::mem::take(&mut self.touched)
    }

    /// Forgets a conversation and those of its sub-agents; gives the turns that waited in them.
    pub(super) fn unbind(&mut self, id: &ConversationId) -> Vec<(BackendId, Frame)> {
        let gone: Vec<_> = self.family(id).iter().filter_map(|it| self.take(it)).collect();
        let waiting = |it: Conversation| it.waiting.into_iter().map(move |frame| (it.backend, frame));
        gone.into_iter().flat_map(waiting).collect()
    }

    /// Forgets the sub-agents that this conversation called.
    pub(super) fn forget_sub_agents(&mut self, id: &ConversationId) {
        for child in self.family(id).iter().skip(1) {
            self.take(child);
        }
    }

    /// Remembers how a turn was answered.
    pub(crate) fn learn_answer(&mut self, result: &[u8]) {
        let Some(model) = path(result, &["modelInfo", "id"]).map(|it| result[it].to_vec()) else { return };
        if self.answers.len() < MODELS_REMEMBERED || self.answers.contains_key(&model) {
            self.answers.insert(model, result.to_vec());
        }
    }

    /// How turns with this model are answered.
    pub(crate) fn answer_of(&self, model: &[u8]) -> Option<&Vec<u8>> {
        self.answers.get(model)
    }

    /// The process of a partition is gone. What was said stays, for the next process; what was not begun, and the
    /// conversations of sub-agents, are forgotten. The turns of those for which `stays` holds have yet to reach a
    /// process; what their sub-agents have done is still to be told. Gives the turns that waited in the others.
    pub(super) fn detach(&mut self, backend: BackendId, stays: impl Fn(&Conversation) -> bool) -> Vec<Frame> {
        self.turns.retain(|_, it| *it != backend);
        let of_backend = self.bound.iter().filter(|(_, it)| it.backend == backend);
        let staying: BTreeSet<ConversationId> =
            of_backend.filter(|(_, it)| stays(it)).map(|(id, _)| id.clone()).collect();
        let mut waited = Vec::new();
        let (served, touched) = (&mut self.served, &mut self.touched);
        self.bound.retain(|id, it| {
            if it.backend != backend {
                return true;
            }
            if it.watch == Watch::Lead {
                touched.insert(id.clone());
            }
            it.known_by = None;
            it.called.clear();
            if stays(it) || it.parent.as_ref().is_some_and(|it| staying.contains(it)) {
                return true;
            }
            waited.extend(it.waiting.drain(..));
            it.active = None;
            it.active_turn = ActiveTurn::default();
            // It counts again with its next turn.
            if std::mem::take(&mut it.counted) {
                served.remove(backend);
            }
            it.parent.is_none() && it.history.has_begun()
        });
        self.sub_agents.retain(|_, all| {
            all.retain(|it| self.bound.contains_key(it));
            !all.is_empty()
        });
        waited
    }

    /// How many conversations a partition serves.
    pub(crate) fn count(&self, backend: BackendId) -> usize {
        self.served.of(backend)
    }

    /// The same, with those that come back to it with their next turn.
    pub(crate) fn n_belonging_to(&self, backend: BackendId) -> usize {
        let belongs = |it: &&Conversation| it.backend == backend && (it.counted || it.known_by.is_none());
        self.bound.values().filter(belongs).count()
    }

    /// Whether [`Conversations::take_changed`] has any.
    pub(crate) fn have_changed(&self) -> bool {
        self.served.has_changed()
    }

    /// Partitions that came to serve a conversation, or serve none any more, since this was last asked.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<BackendId> {
        self.served.take_changed()
    }

    /// It is in use, and served by this partition from now on.
    pub(super) fn move_to(&mut self, id: &ConversationId, backend: BackendId) {
        self.count_out(id);
        if let Some(it) = self.bound.get_mut(id) {
            it.backend = backend;
            it.counted = true;
            self.served.add(backend);
        }
    }

    /// It is not wanted any more, but lives on: it does not count.
    pub(super) fn count_out(&mut self, id: &ConversationId) {
        if let Some(it) = self.bound.get_mut(id).filter(|it| it.counted) {
            it.counted = false;
            self.served.remove(it.backend);
        }
    }

    /// Whether the count is right, and each sub-agent is found by its caller.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.served.check(self.bound.values().filter(|it| it.counted).map(|it| it.backend))?;
        let called = self.bound.iter().filter_map(|(id, it)| Some((it.parent.clone()?, id)));
        let mut known: Vec<(ConversationId, &ConversationId)> = called.collect();
        let pairs = self.sub_agents.iter().flat_map(|(by, all)| all.iter().map(|id| (by.clone(), id)));
        let mut noted: Vec<(ConversationId, &ConversationId)> = pairs.collect();
        known.sort();
        noted.sort();
        if noted == known { Ok(()) } else { Err(format!("callers are {known:?}, noted are {noted:?}")) }
    }

    /// Takes a waiting turn out.
    pub(super) fn take_waiting(&mut self, id: &ConversationId, turn: SentId) -> Option<Frame> {
        let waiting = &mut self.bound.get_mut(id)?.waiting;
        let at = waiting.iter().position(|it| SentId::of(it) == Some(turn))?;
        waiting.remove(at)
    }

    /// The conversation that is answered in the end: that of a sub-agent lives in the one that called it.
    pub(crate) fn top(&self, id: &ConversationId) -> ConversationId {
        let mut top = id;
        while let Some(parent) = self.bound.get(top).and_then(|it| it.parent.as_ref()) {
            top = parent;
        }
        top.clone()
    }

    /// Lets the next turn go; gives it if one waited. What sub-agents have done was told in the one before.
    pub(crate) fn advance(&mut self, id: &ConversationId) -> Option<(BackendId, Frame)> {
        self.forget_sub_agents(id);
        let conversation = self.get_mut(id)?;
        let next = conversation.advance();
        Some((conversation.backend, next?))
    }

    /// The conversations of the sub-agents that this conversation called, and itself.
    pub(crate) fn family(&self, id: &ConversationId) -> Vec<ConversationId> {
        let mut family = vec![id.clone()];
        let mut next = 0;
        while let Some(caller) = family.get(next) {
            let own = self.sub_agents.get(caller).map_or(&[][..], |it| it);
            family.extend_from_slice(own);
            next += 1;
        }
        family
    }

    /// Remembers which partition made a turn.
    pub(super) fn learn_turn(&mut self, turn: TurnId, backend: BackendId) {
        if self.turns.insert(turn.clone(), backend).is_none() {
            self.turns_by_age.push_back(turn);
        }
        if self.turns_by_age.len() > TURNS_REMEMBERED
            && let Some(oldest) = self.turns_by_age.pop_front()
        {
            self.turns.remove(&oldest);
        }
    }

    /// The partition that made a turn.
    pub(super) fn of_turn(&self, turn: &TurnId) -> Option<BackendId> {
        self.turns.get(turn).copied()
    }
}
