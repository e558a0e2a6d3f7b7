//! The core as a script: what the editor and the servers say, and what they are told.

mod agents;
mod cancelling;
mod code_tools;
mod control;
mod delegating;
mod documents;
mod elsewhere;
mod endings;
mod far_restarts;
mod group_model;
mod groups;
mod mcp;
mod model;
mod modes;
mod moments;
mod partitions;
mod passing;
mod recovering;
mod restoring;
mod reviving;
mod sharing;
mod spares;
mod stage;
mod supervision;
mod taped;
mod tools;

use super::{Proxy, copilot::conversation::Conversation, event::BackendId};
use crate::core::ids::ConversationId;

/// What tests look at.
impl Proxy {
    fn all_conversations(&self) -> impl Iterator<Item = (&ConversationId, &Conversation)> {
        self.copilot.iter().flat_map(|it| it.conversations().iter())
    }

    fn n_served_by(&self, id: BackendId) -> usize {
        self.copilot.as_ref().map_or(0, |it| it.conversations().count(id))
    }

    /// The tools of the conversations that a backend serves.
    fn set_of(&self, id: BackendId) -> String {
        self.copilot.as_ref().map_or_else(|| "*".to_owned(), |it| it.set_of(id))
    }

    fn check_quiet(&self) {
        if let Some(copilot) = &self.copilot {
            self.agents.check_quiet(copilot);
        }
    }
}
