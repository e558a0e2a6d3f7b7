//! Conversations with a Copilot server: which process serves each, what keeps it to its tools, and how it goes on when
//! its process dies.
//!
//! It acts through the public methods of [`Mux`], and knows no agent. What `Proxy` asks it is in [`hooks`].

pub(crate) mod active_turn;
mod cancel;
mod check;
pub(crate) mod conversation;
pub(crate) mod history;
pub(crate) mod hooks;
pub(crate) mod modes;
pub(crate) mod partition;
mod partitions;
pub(crate) mod progress;
pub(crate) mod restore;
pub(crate) mod resume;
pub(crate) mod routes;
pub(crate) mod selection;
mod session;
pub(crate) mod sign_in;
mod spares;
mod status;
pub(crate) mod tools;
pub(crate) mod turns;

use std::{collections::BTreeSet, path::PathBuf};

use self::{
    conversation::Conversations,
    modes::Modes,
    partition::Partitions,
    progress::Shapes,
    session::CopilotSession,
    spares::Spares,
    tools::{catalog::Catalog, tool_set::ToolSet},
};
use crate::core::{
    event::{BackendId, ProcessId, ServerId},
    ids::ConversationId,
    mux::{Mux, servers::Server, session::Session},
};

/// What helps where nobody is signed in.
pub const SIGN_IN: &str = "sign in once with the Copilot command of your editor, or set GH_COPILOT_TOKEN";

/// What there is of a Copilot server beside what any server has.
#[derive(Debug)]
pub(crate) struct Copilot {
    server: ServerId,
    primary: BackendId,
    session: CopilotSession,
    partitions: Partitions,
    spares: Spares,
    conversations: Conversations,
    catalog: Catalog,
    modes: Modes,
    shapes: Shapes,
    /// How many ids were invented for conversations, and for turns.
    n_conversations: u64,
    n_turns: u64,
    /// Names of tools that there are not, of which the user has been told.
    unknown_tools: BTreeSet<String>,
    /// Internal conversations that are held. The id of one that is not is an orphan's.
    internal: BTreeSet<ConversationId>,
    /// Turns that were cancelled at their process, with the conversations of their sub-agents: for whoever answers
    /// their calls.
    cancelled: Vec<(ProcessId, Vec<ConversationId>)>,
}

impl Copilot {
    /// A Copilot half of a server that is there already.
    pub(crate) fn new(mux: &mut Mux, server: ServerId) -> Copilot {
        let primary = mux.server(server).primary;
        let mut it = Copilot {
            server,
            primary,
            session: CopilotSession::default(),
            partitions: Partitions::default(),
            spares: Spares::default(),
            conversations: Conversations::default(),
            catalog: Catalog::default(),
            modes: Modes::default(),
            shapes: Shapes::default(),
            n_conversations: 0,
            n_turns: 0,
            unknown_tools: BTreeSet::new(),
            internal: BTreeSet::new(),
            cancelled: Vec::new(),
        };
        it.add_partition(mux, primary, ToolSet::all(), None);
        it.choose_tools(mux);
        mux.set_dialect(server, &routes::DIALECT, Some(hooks::HANG_TIMEOUT));
        it
    }

    /// Processes keep what they tell the model there.
    pub(crate) fn keep_transcripts(&mut self, folder: Option<PathBuf>) {
        self.session.kept_transcripts = folder;
    }

    #[cfg(test)]
    pub(crate) fn mode_reason(&self, set: &ToolSet) -> Option<&str> {
        self.modes.reason(set)
    }

    #[cfg(test)]
    pub(crate) fn n_orphans(&self, id: BackendId) -> usize {
        self.partitions.get(id).map_or(0, |it| it.restores.n_orphans())
    }

    #[cfg(test)]
    pub(crate) fn set_of(&self, id: BackendId) -> String {
        self.partitions.set(id).map(ToString::to_string).unwrap_or_default()
    }

    /// The server that it belongs to.
    pub(crate) fn server<'a>(&self, mux: &'a Mux) -> &'a Server {
        mux.server(self.server)
    }

    fn generic_session<'a>(&self, mux: &'a Mux) -> &'a Session {
        mux.session(self.server)
    }

    pub(crate) fn server_id(&self) -> ServerId {
        self.server
    }

    /// The editor's tool catalog.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Whether the conversations of a backend may start sub-agents.
    pub(crate) fn serves_leads(&self, id: BackendId) -> bool {
        self.partitions.set(id).is_some_and(ToolSet::is_lead)
    }

    pub(crate) fn primary(&self) -> BackendId {
        self.primary
    }

    pub(crate) fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    pub(crate) fn conversations_mut(&mut self) -> &mut Conversations {
        &mut self.conversations
    }

    /// The turns that were cancelled at their process since this was last asked.
    pub(crate) fn take_cancelled(&mut self) -> Vec<(ProcessId, Vec<ConversationId>)> {
        std::mem::take(&mut self.cancelled)
    }

    /// lspool itself holds a conversation of this id.
    pub(crate) fn hold_internal(&mut self, id: ConversationId) {
        self.internal.insert(id);
    }

    /// lspool itself does not hold a conversation of this id any more.
    pub(crate) fn release_internal(&mut self, id: &ConversationId) {
        self.internal.remove(id);
    }

    /// Whether this is an internal conversation, or of a sub-agent of one, that has no owner any more.
    pub(crate) fn is_unowned(&self, id: &ConversationId) -> bool {
        let top = self.conversations.top(id);
        conversation::is_internal(top.as_bytes()) && !self.internal.contains(&top)
    }
}
