//! Agents that lspool runs itself: internal conversations, and the sub-agents, teams and orchestrations that use
//! them.
//!
//! It acts through the public methods of [`Copilot`] and [`Mux`].

mod activity;
mod conversations;
mod orchestrations;
mod subagents;
mod teams;

use std::time::Instant;

use self::{
    conversations::InternalConversations, orchestrations::Orchestrations, subagents::SubAgents, teams::Teams,
};
use crate::core::{copilot::Copilot, ids::RequestId, mux::Mux};

/// Internal conversations, sub-agents, teams and orchestrations.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    internal: InternalConversations,
    subagents: SubAgents,
    teams: Teams,
    orchestrations: Orchestrations,
    /// Who is at work, or what at, has changed.
    have_changed: bool,
}

impl Agents {
    /// Whether the editor is owed an answer under this id.
    pub(crate) fn owes(&self, id: &RequestId) -> bool {
        self.orchestrations.is_owed(id)
    }

    /// How many answers the editor is owed.
    pub(crate) fn n_owed(&self) -> usize {
        self.orchestrations.n_owed()
    }

    /// The next deadline and its reason.
    pub(crate) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let deadline = self.internal.deadline().map(|at| (at, "an agent has had its time"));
        let tick = self.subagents.tick.map(|at| (at, "people see how long sub-agents take"));
        deadline.into_iter().chain(tick).min_by_key(|(at, _)| *at)
    }

    /// Handles the consequences of an event: messages to internal conversations, and next steps of leads. Returns
    /// whether there were any. `seen` is the number of effects that were read.
    pub(crate) fn settle(&mut self, copilot: &mut Copilot, mux: &mut Mux, seen: &mut usize) -> bool {
        self.settle_cancelled_calls(copilot, mux);
        self.run_internal(copilot, mux, seen) || self.tend_leads(copilot, mux)
    }

    /// Whether there is nothing to do, as for nearly every message.
    fn is_idle(&self) -> bool {
        self.subagents.is_idle() && !self.subagents.is_closing() && !self.teams.is_dirty()
    }

    /// Checks that these tables agree with the others.
    pub(crate) fn check(&self, copilot: &Copilot, mux: &Mux) -> Result<(), String> {
        self.check_agents(copilot)?;
        self.check_internal(copilot, mux)?;
        self.check_orchestrations()
    }
}
