//! Conversations with a Copilot server: their processes, their restrictions, and their recovery after a crash.
//!
//! Acts through the public methods of [`Mux`], and knows no agent. `Proxy` calls it through [`hooks`].

pub(crate) mod active_turn;
mod cancel;
mod check;
pub(crate) mod conversation;
pub(crate) mod history;
pub(crate) mod hooks;
pub(crate) mod messages;
pub(crate) mod modes;
pub(crate) mod partition;
mod partitions;
pub(crate) mod progress;
pub(crate) mod restore;
pub(crate) mod resume;
pub(crate) mod routes;
mod segment;
pub(crate) mod selection;
mod session;
pub(crate) mod sign_in;
mod spares;
mod status;
pub(crate) mod tools;
pub(crate) mod turns;
pub(crate) mod versions;

use std::{collections::BTreeSet, path::PathBuf};

use self::{
    conversation::Conversations,
    modes::Modes,
    partition::Partitions,
    progress::Shapes,
    restore::proof::Proofs,
    session::CopilotSession,
    spares::Spares,
    tools::{catalog::Catalog, tool_set::ToolSet},
};
use crate::core::{
    event::{BackendId, ProcessId, ServerId},
    ids::ConversationId,
    mux::{Mux, pool::backend::Backend, servers::Server, session::Session},
};

/// What helps where nobody is signed in.
pub const SIGN_IN: &str = "run `lspool login`, sign in with your editor, or set GH_COPILOT_TOKEN";

/// The Copilot half of a server.
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
    proofs: Proofs,
    shapes: Shapes,
    /// Languages of documents that were opened, or saved, while conversations had no code tools.
    seen_languages: BTreeSet<(&'static str, bool)>,
    /// The number of generated ids of conversations, and of turns.
    n_conversations: u64,
    n_turns: u64,
    /// Unknown tools that the user knows about.
    unknown_tools: BTreeSet<String>,
    /// The current internal conversations. Any other internal id belongs to an orphan.
    internal: BTreeSet<ConversationId>,
    /// Turns that were cancelled at their process, with the conversations of their sub-agents: for the owner that
    /// answers their calls.
    cancelled: Vec<(ProcessId, Vec<ConversationId>)>,
}

impl Copilot {
    /// A Copilot half for an existing server.
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
            proofs: Proofs::default(),
            shapes: Shapes::default(),
            seen_languages: BTreeSet::new(),
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

    /// Sets the folder in which processes record their requests to the model.
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

    /// Its server.
    pub(crate) fn server<'a>(&self, mux: &'a Mux) -> &'a Server {
        mux.server(self.server)
    }

    /// Whether a backend is of its server. It is, if there is no other server.
    pub(crate) fn has(&self, mux: &Mux, id: BackendId) -> bool {
        !mux.is_group() || mux.backend(id).is_some_and(|it| it.server == self.server)
    }

    /// All backends of its server.
    fn backends<'a>(&self, mux: &'a Mux) -> impl Iterator<Item = &'a Backend> {
        let server = self.server;
        mux.backends().iter().filter(move |it| it.server == server)
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

    /// Takes the turns that were cancelled at their process.
    pub(crate) fn take_cancelled(&mut self) -> Vec<(ProcessId, Vec<ConversationId>)> {
        std::mem::take(&mut self.cancelled)
    }

    /// Adds an internal conversation.
    pub(crate) fn hold_internal(&mut self, id: ConversationId) {
        self.internal.insert(id);
    }

    /// Removes an internal conversation.
    pub(crate) fn release_internal(&mut self, id: &ConversationId) {
        self.internal.remove(id);
    }

    /// Whether this is an internal conversation, or one of its sub-agents, without an owner.
    pub(crate) fn is_unowned(&self, id: &ConversationId) -> bool {
        let top = self.conversations.top(id);
        conversation::is_internal(top.as_bytes()) && !self.internal.contains(&top)
    }
}
