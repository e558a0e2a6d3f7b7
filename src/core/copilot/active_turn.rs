//! The turn of a conversation that runs: how far it has come, and what it waits for. How it goes on when its process
//! dies is in [`resume`](super::resume).

use std::collections::BTreeSet;

use super::resume::TurnSegment;
use crate::{
    core::{ids::TurnId, purpose::SentId},
    rpc::Frame,
};

/// The running turn of a conversation, as the editor knows it.
#[derive(Debug, Default)]
pub(crate) struct ActiveTurn {
    /// Its id, once it has begun.
    pub(crate) turn: Option<TurnId>,
    pub(crate) over: Over,
    /// Another process had it before.
    pub(crate) segment: Option<TurnSegment>,
    /// The process is asked to continue it; else it is asked from its start.
    pub(crate) continues: bool,
    /// The process got the earlier turns before it.
    pub(crate) restored: bool,
    pub(crate) suspended: Option<Suspended>,
    /// Confirmations that the editor has given to the process. If that dies before it acts on one, it still counts.
    pub(super) confirmed: Vec<(Frame, Frame)>,
    pub(super) waits_for: BTreeSet<SentId>,
    pub(super) dialogues: Vec<Dialogue>,
    /// How many calls of sub-agents belong to processes that are gone.
    pub(super) sub_agents: usize,
    /// What its model is told with the result of each call.
    pub(crate) note: Option<&'static str>,
}

/// A turn that waits for something else than a process.
#[derive(Debug)]
pub(crate) struct Suspended {
    /// The request, which no process is asked meanwhile.
    pub(crate) request: Frame,
    pub(crate) until: Until,
}

/// What a suspended turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The editor's answers to what a process that is gone has asked.
    Answers,
    /// The results of sub-agents or teams.
    Results,
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

/// A confirmation that the editor was asked by a process that is gone.
#[derive(Debug)]
pub(super) enum Dialogue {
    Open(SentId),
    /// What was asked, and the answer, for which nobody has asked yet.
    Answered(Box<(Frame, Frame)>),
}

impl Dialogue {
    pub(super) fn answered(asked: Frame, answer: Frame) -> Dialogue {
        Dialogue::Answered(Box::new((asked, answer)))
    }

    pub(super) fn open(&self) -> Option<SentId> {
        match self {
            Dialogue::Open(sent) => Some(*sent),
            Dialogue::Answered(_) => None,
        }
    }
}

impl ActiveTurn {
    /// Confirmations that the editor, or the list of what is allowed, has given: what was asked, and the answer.
    pub(super) fn confirmed(&self) -> &[(Frame, Frame)] {
        &self.confirmed
    }

    /// A call that was confirmed is made.
    pub(super) fn forget_confirmed(&mut self, is_made: impl Fn(&Frame) -> bool) {
        self.confirmed.retain(|(asked, _)| !is_made(asked));
    }

    /// Requests to the editor that the turn has kept from a process that is gone.
    pub(super) fn kept(&self) -> impl Iterator<Item = SentId> {
        self.waits_for.iter().copied().chain(self.dialogues.iter().filter_map(Dialogue::open))
    }
}
