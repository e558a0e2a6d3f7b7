//! Conversations: their partitions, running turns, and waiting turns.
//!
//! **At most one turn of a conversation is with the server**: a second one would mix up the progress of the first.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::{
    config::Isolation,
    core::{
        copilot::{
            active_turn::ActiveTurn,
            history::History,
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

/// The prefix of the ids of internal conversations, which are also their tokens.
pub(crate) const INTERNAL: &str = "lspool-inside-";

/// Whether this raw value is the id of an internal conversation, current or past.
pub(crate) fn is_internal(raw: &[u8]) -> bool {
    raw.strip_prefix(b"\"").is_some_and(|it| it.starts_with(INTERNAL.as_bytes()))
}

/// How many turns to keep with their partition, for ratings and the like.
const TURNS_REMEMBERED: usize = 10_000;

/// How many models to keep with an answer.
const MODELS_REMEMBERED: usize = 100;

/// A conversation of a partition.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) backend: BackendId,
    /// Its tools, in any process.
    pub(crate) set: ToolSet,
    /// The mode that restricts it, if not its process.
    pub(crate) mode: Option<ModeId>,
    /// The wanted isolation.
    pub(crate) wish: Wish,
    known_by: Option<ProcessId>,
    pub(crate) history: History,
    active: Option<SentId>,
    /// The active turn.
    pub(crate) active_turn: ActiveTurn,
    /// The turns that wait for it.
    pub(crate) waiting: VecDeque<Frame>,
    /// Whether the editor wants events of its sub-agents.
    pub(crate) events: bool,
    pub(crate) watch: Watch,
    /// Whether it counts for its backend. The server's `destroy` takes strings only, so a numeric conversation lives
    /// on.
    counted: bool,
    /// The conversation that called this sub-agent.
    pub(crate) parent: Option<ConversationId>,
    /// The turn that called this sub-agent.
    pub(crate) caller: Option<TurnId>,
    /// The tools that the model called in the running turn, by call id. Only for restricted partitions.
    pub(crate) called: BTreeMap<String, String>,
    /// The MCP servers of calls in the running turn, by call id, as the server has asked about them.
    pub(crate) mcp_servers: BTreeMap<String, String>,
}

/// Observers of changes of a conversation: see [`Conversations::take_touched`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Nobody,
    /// Its turn has started sub-agents.
    Lead,
}

/// The wishes for the isolation of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Its agent.
    pub(crate) agent: Option<String>,
    /// Its own wish.
    pub(crate) isolation: Option<Isolation>,
    /// Whether it is elsewhere, and moves with its next turn.
    pub(crate) moves: bool,
}

/// **The running turn is that of the last create.** A replaced turn still runs at its process, and its messages do
/// not concern the conversation. So every action for a request checks that it [runs](Conversation::runs) here.
impl Conversation {
    /// The request of the running turn.
    pub(crate) fn active(&self) -> Option<SentId> {
        self.active
    }

    /// Whether this is the request of the running turn.
    pub(crate) fn runs(&self, sent: SentId) -> bool {
        self.active == Some(sent)
    }

    /// The process that knows it. Another one gets its history before its next turn.
    pub(super) fn known_by(&self) -> Option<ProcessId> {
        self.known_by
    }

    /// Starts a turn while none runs.
    pub(crate) fn ask(&mut self, sent: SentId) {
        self.active = Some(sent);
    }

    /// Changes the number of a turn. Returns whether it is the running one.
    pub(super) fn ask_again(&mut self, sent: SentId, again: SentId) -> bool {
        let runs = self.runs(sent);
        if runs {
            self.active = Some(again);
        }
        runs
    }

    /// Ends the running turn. Returns the next one, if one waits.
    fn advance(&mut self) -> Option<Frame> {
        self.called.clear();
        self.mcp_servers.clear();
        self.active_turn = ActiveTurn::default();
        let next = self.waiting.pop_front();
        self.active = next.as_ref().and_then(SentId::of);
        next
    }

    /// Puts the next turn back.
    pub(crate) fn hold(&mut self, next: Frame) {
        self.active = None;
        self.waiting.push_front(next);
    }

    /// Notes that a process has got the history.
    pub(super) fn told_to(&mut self, process: ProcessId) {
        self.known_by = Some(process);
    }

    /// Notes that no process knows it.
    pub(super) fn forgotten(&mut self) {
        self.known_by = None;
    }

    /// Notes the tools that the model called, by call id.
    pub(super) fn note_calls(&mut self, report: &Report<'_>) {
        for call in report.rounds().flat_map(Round::calls) {
            if let (Some(id), Some(name)) = (text(call, &["id"]), text(call, &["name"])) {
                self.called.insert(id, name);
            }
        }
    }
}

/// All conversations.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    /// By hash, because there may be a thousand. The order does not depend on the hash, because it decides the order
    /// of messages.
    bound: IndexMap<ConversationId, Conversation, RandomState>,
    /// The conversations of sub-agents, by the calling conversation.
    sub_agents: HashMap<ConversationId, Vec<ConversationId>, RandomState>,
    /// The number of counting conversations, by backend.
    served: Usage,
    /// The answers to turns, by model: except for its ids, an answer depends only on the model.
    answers: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Watched conversations that were changed or removed.
    touched: BTreeSet<ConversationId>,
    turns: HashMap<TurnId, BackendId, RandomState>,
    turns_by_age: VecDeque<TurnId>,
}

impl Conversations {
    /// Binds a conversation to a partition; returns the replaced one.
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

    /// All bound conversations.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ConversationId, &Conversation)> {
        self.bound.iter()
    }

    /// Notes that another owner's data about a conversation may have changed.
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

    /// Takes the watched conversations that may have changed.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<ConversationId> {
        std::mem::take(&mut self.touched)
    }

    /// Forgets a conversation and those of its sub-agents; returns their waiting turns.
    pub(super) fn unbind(&mut self, id: &ConversationId) -> Vec<(BackendId, Frame)> {
        let gone: Vec<_> = self.family(id).iter().filter_map(|it| self.take(it)).collect();
        let waiting = |it: Conversation| it.waiting.into_iter().map(move |frame| (it.backend, frame));
        gone.into_iter().flat_map(waiting).collect()
    }

    /// Forgets the sub-agents of a conversation.
    pub(super) fn forget_sub_agents(&mut self, id: &ConversationId) {
        for child in self.family(id).iter().skip(1) {
            self.take(child);
        }
    }

    /// Notes the answer to a turn.
    pub(crate) fn learn_answer(&mut self, result: &[u8]) {
        let Some(model) = path(result, &["modelInfo", "id"]).map(|it| result[it].to_vec()) else { return };
        if self.answers.len() < MODELS_REMEMBERED || self.answers.contains_key(&model) {
            self.answers.insert(model, result.to_vec());
        }
    }

    /// The answer to turns with this model.
    pub(crate) fn answer_of(&self, model: &[u8]) -> Option<&Vec<u8>> {
        self.answers.get(model)
    }

    /// Detaches the conversations of a partition whose process is gone. Their histories stay, for the next process.
    /// Turns that had not begun, and the conversations of sub-agents, are forgotten. Where `stays` holds, the turn
    /// has not reached a process, and the work of its sub-agents must still be told. Returns the waiting turns of the
    /// others.
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

    /// The partitions that got their first conversation or lost their last one since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<BackendId> {
        self.served.take_changed()
    }

    /// Moves it to a partition, and counts it.
    pub(super) fn move_to(&mut self, id: &ConversationId, backend: BackendId) {
        self.count_out(id);
        if let Some(it) = self.bound.get_mut(id) {
            it.backend = backend;
            it.counted = true;
            self.served.add(backend);
        }
    }

    /// Stops counting a conversation that lives on.
    pub(super) fn count_out(&mut self, id: &ConversationId) {
        if let Some(it) = self.bound.get_mut(id).filter(|it| it.counted) {
            it.counted = false;
            self.served.remove(it.backend);
        }
    }

    /// Checks the count, and that each caller has its sub-agents.
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

    /// Takes a waiting turn.
    pub(super) fn take_waiting(&mut self, id: &ConversationId, turn: SentId) -> Option<Frame> {
        let waiting = &mut self.bound.get_mut(id)?.waiting;
        let at = waiting.iter().position(|it| SentId::of(it) == Some(turn))?;
        waiting.remove(at)
    }

    /// The top conversation: for a sub-agent, the one that called it.
    pub(crate) fn top(&self, id: &ConversationId) -> ConversationId {
        let mut top = id;
        while let Some(parent) = self.bound.get(top).and_then(|it| it.parent.as_ref()) {
            top = parent;
        }
        top.clone()
    }

    /// Starts the next turn; returns it if one waits. The previous turn has told the work of its sub-agents.
    pub(crate) fn advance(&mut self, id: &ConversationId) -> Option<(BackendId, Frame)> {
        self.forget_sub_agents(id);
        let conversation = self.get_mut(id)?;
        let next = conversation.advance();
        Some((conversation.backend, next?))
    }

    /// The conversation with those of its sub-agents.
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

    /// Notes the partition of a turn.
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

    /// The partition of a turn.
    pub(super) fn of_turn(&self, turn: &TurnId) -> Option<BackendId> {
        self.turns.get(turn).copied()
    }
}
