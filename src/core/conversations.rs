//! Conversations: which partition serves each, which turn runs, which turns wait.
//!
//! **At most one turn of a conversation is with the server**: a second one would break the first one's progress.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    core::{event::BackendId, requests::SentId},
    rpc::{Frame, RawId},
};

/// Turns whose partition is remembered, for ratings and the like.
const TURNS_REMEMBERED: usize = 10_000;

/// One conversation that a partition serves.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) backend: BackendId,
    /// The request of the running turn.
    pub(crate) active: Option<SentId>,
    /// Turns that wait for it, under the editor's ids.
    pub(crate) waiting: VecDeque<Frame>,
    /// A sub-agent's conversation lives in the one that called it.
    pub(crate) parent: Option<RawId>,
    /// The tools that the model called in the running turn, by call id. Kept for restricted partitions only.
    pub(crate) called: BTreeMap<String, String>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    bound: BTreeMap<RawId, Conversation>,
    turns: BTreeMap<RawId, BackendId>,
    turns_by_age: VecDeque<RawId>,
}

impl Conversations {
    /// Binds a conversation to a partition; gives back the one it replaces.
    pub(crate) fn bind(&mut self, id: RawId, backend: BackendId, parent: Option<RawId>) -> Option<Conversation> {
        let fresh =
            Conversation { backend, active: None, waiting: VecDeque::new(), parent, called: BTreeMap::new() };
        self.bound.insert(id, fresh)
    }

    pub(crate) fn get(&self, id: &RawId) -> Option<&Conversation> {
        self.bound.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &RawId) -> Option<&mut Conversation> {
        self.bound.get_mut(id)
    }

    /// Forgets a conversation and those of its sub-agents.
    pub(crate) fn unbind(&mut self, id: &RawId) -> Option<Conversation> {
        let gone = self.bound.remove(id)?;
        self.bound.retain(|_, it| it.parent.as_ref() != Some(id));
        Some(gone)
    }

    /// Forgets all conversations of a partition; gives back those that were bound.
    pub(crate) fn unbind_all(&mut self, backend: BackendId) -> Vec<(RawId, Conversation)> {
        let (gone, kept) = std::mem::take(&mut self.bound).into_iter().partition(|(_, it)| it.backend == backend);
        self.bound = BTreeMap::from_iter::<Vec<_>>(kept);
        self.turns.retain(|_, it| *it != backend);
        gone
    }

    /// How many conversations a partition serves.
    pub(crate) fn count(&self, backend: BackendId) -> usize {
        self.bound.values().filter(|it| it.backend == backend).count()
    }

    /// The conversation whose running turn is this request.
    pub(crate) fn with_turn(&self, turn: SentId) -> Option<&RawId> {
        self.bound.iter().find(|(_, it)| it.active == Some(turn)).map(|(id, _)| id)
    }

    /// Takes a waiting turn out by the editor's id.
    pub(crate) fn take_waiting(&mut self, wanted: impl Fn(&Frame) -> bool) -> Option<Frame> {
        self.bound.values_mut().find_map(|it| {
            let at = it.waiting.iter().position(&wanted)?;
            it.waiting.remove(at)
        })
    }

    /// Remembers which partition made a turn.
    pub(crate) fn learn_turn(&mut self, turn: RawId, backend: BackendId) {
        if self.turns.insert(turn.clone(), backend).is_none() {
            self.turns_by_age.push_back(turn);
        }
        if self.turns_by_age.len() > TURNS_REMEMBERED {
            if let Some(oldest) = self.turns_by_age.pop_front() {
                self.turns.remove(&oldest);
            }
        }
    }

    /// The partition that made a turn.
    pub(crate) fn of_turn(&self, turn: &RawId) -> Option<BackendId> {
        self.turns.get(turn).copied()
    }
}
