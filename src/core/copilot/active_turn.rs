//! The active turn of a conversation: its progress, and its waits. [`resume`](super::resume) continues it after a
//! crash.

use std::collections::BTreeSet;

use super::segment::TurnSegment;
use crate::{
    core::{ids::TurnId, purpose::SentId},
    rpc::Frame,
};

/// The active turn of a conversation, as the editor has seen it.
#[derive(Debug, Default)]
pub(crate) struct ActiveTurn {
    /// Its id, after its begin.
    pub(crate) turn: Option<TurnId>,
    pub(crate) over: Over,
    /// Set if another process had it before.
    pub(crate) segment: Option<TurnSegment>,
    /// Whether the process continues it, instead of starting it again.
    pub(crate) continues: bool,
    /// Whether the process got the earlier turns before it.
    pub(crate) restored: bool,
    pub(crate) suspended: Option<Suspended>,
    /// Confirmations that the editor has given to the process. They count after a crash, if the process has not used
    /// them.
    pub(super) confirmed: Vec<(Frame, Frame)>,
    pub(super) waits_for: BTreeSet<SentId>,
    pub(super) dialogues: Vec<Dialogue>,
    /// How many calls of sub-agents belong to dead processes.
    pub(super) sub_agents: usize,
    /// What its model is told with the result of each call.
    pub(crate) note: Option<&'static str>,
}

/// A turn that does not wait for a process.
#[derive(Debug)]
pub(crate) struct Suspended {
    /// The request, which no process has meanwhile.
    pub(crate) request: Frame,
    pub(crate) until: Until,
}

/// What a suspended turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The editor's answers to questions of a dead process.
    Answers,
    /// The results of sub-agents or teams.
    Results,
}

/// The server's messages about the end of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Over {
    #[default]
    No,
    /// The token count has come: no request to the model follows.
    Counted,
    Ended,
}

/// A question to the editor from a dead process.
#[derive(Debug)]
pub(super) enum Dialogue {
    Open(SentId),
    /// The question and the answer, before another process has asked.
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
    /// Confirmations by the editor or the allow list: the questions and the answers.
    pub(super) fn confirmed(&self) -> &[(Frame, Frame)] {
        &self.confirmed
    }

    /// Forgets a confirmation whose call has come.
    pub(super) fn forget_confirmed(&mut self, is_made: impl Fn(&Frame) -> bool) {
        self.confirmed.retain(|(asked, _)| !is_made(asked));
    }

    /// The requests to the editor that the turn has kept from a dead process.
    pub(super) fn kept(&self) -> impl Iterator<Item = SentId> {
        self.waits_for.iter().copied().chain(self.dialogues.iter().filter_map(Dialogue::open))
    }
}
