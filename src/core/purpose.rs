//! The purposes of requests: what an answer means to lspool.
//!
//! Purposes are data. The mux carries them, and does not look into those of higher owners.

use std::fmt;

use bytes::Bytes;

use crate::{
    core::{
        event::{BackendId, ProcessId},
        ids::{ConversationId, Token},
    },
    rpc::{Frame, RawId},
};

/// The number of a request of lspool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SentId(u64);

impl SentId {
    /// Greater than the number of any request.
    pub(crate) const MAX: SentId = SentId(u64::MAX);

    /// The number of a message to a peer, or of its answer.
    pub(crate) fn of(frame: &Frame) -> Option<SentId> {
        SentId::read(&frame.id()?)
    }

    /// The number in an answer, if it has one. Some peers make a string of it, and other clients take that.
    pub(crate) fn read(id: &RawId) -> Option<SentId> {
        let written =
            || id.as_text().filter(|it| it.starts_with(|it: char| it.is_ascii_digit()))?.parse().ok();
        id.as_u64().or_else(written).map(SentId)
    }

    /// The next number.
    pub(crate) fn next(self) -> SentId {
        SentId(self.0 + 1)
    }
}

impl From<SentId> for u64 {
    fn from(sent: SentId) -> u64 {
        sent.0
    }
}

impl From<SentId> for RawId {
    fn from(sent: SentId) -> RawId {
        RawId::from(sent.0)
    }
}

impl fmt::Display for SentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The meaning of the answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// Nothing.
    Plain,
    /// The handshake of a process: the editor's for the first process of a primary, lspool's for others.
    Initialize,
    /// `shutdown`.
    Shutdown,
    /// The question to the user about a failed backend.
    Offer(BackendId),
    /// lspool's question to the editor whether to run this call of a builtin tool.
    Allow(SentId),
    /// An edit that a client has asked the editor to make.
    Edit,
    /// `workspace/configuration`: one answer per section.
    Configuration { sections: Vec<Option<String>> },
    /// lspool pulls the diagnostics of this document.
    Pull { uri: String },
    /// A command for another member of a group, which gets the result in this notification, under its own id.
    Relay { asker: ProcessId, answers: &'static str, id: Bytes },
    /// A purpose of the Copilot half.
    Copilot(CopilotPurpose),
}

impl Purpose {
    /// Whether the answer ends a turn of a conversation.
    pub(crate) fn is_turn(&self) -> bool {
        matches!(self, Purpose::Copilot(CopilotPurpose::Turn { .. }))
    }

    /// Whether it is a request of a client that means something to a higher owner.
    pub(crate) fn is_asked_by_client(&self) -> bool {
        use CopilotPurpose::{SignIn, SignInCheck, Tools, Turn};
        matches!(self, Purpose::Copilot(Turn { .. } | SignInCheck(_) | Tools(_) | SignIn))
    }
}

/// The meaning of an answer to the Copilot half.
#[derive(Clone, Debug)]
pub(crate) enum CopilotPurpose {
    /// A `conversation/create` or `conversation/turn`; its answer ends the turn.
    Turn { conversation: ConversationId, token: Option<Token>, kind: TurnKind, restriction: Restriction },
    /// A change of the catalog, which partitions follow once the primary has accepted it.
    Tools(ToolChange),
    /// A projection for a partition; the answer lists the offered tools.
    Project,
    /// The removal of MCP tools from a partition.
    Narrow,
    /// A request to the primary for a mode.
    Mode(Ask),
    /// A process was asked whether it restores conversations from transcripts.
    Prove,
    /// A sign-in that one process has done and the others must follow.
    SignIn,
    /// Whether somebody is signed in, before this request is sent on: a create or a turn that needs a process,
    /// or a request about the conversation that the create makes.
    SignInCheck(Frame),
    /// A tool call or confirmation of this conversation, asked of the editor.
    ToolCall { conversation: Option<ConversationId>, kind: ToolQuestion },
}

/// The request of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnKind {
    /// `conversation/create`, which starts the conversation.
    First,
    /// `conversation/turn`.
    Later,
}

/// A request of a process for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolQuestion {
    /// Asks for permission: `conversation/invokeClientToolConfirmation`.
    Confirmation,
    /// Calls the tool: `conversation/invokeClientTool`.
    Call,
}

/// A chat mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModeId(pub(in crate::core) u32);

/// What keeps a turn to its tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Restriction {
    /// The process that gets it.
    #[default]
    Process,
    /// A mode in the primary.
    Mode(ModeId),
    /// None yet: the conversation is in a mode, and this turn needs a process, which it gets when its turn comes.
    Leaves,
}

/// A request to the primary for a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Registers the mode.
    Register,
    /// Verifies the mode. `number` is that of the file.
    Verify { mode: ModeId, number: u64 },
    /// Lists the offered tools.
    List,
}

/// A call that changes the catalog.
#[derive(Clone, Debug)]
pub(crate) enum ToolChange {
    /// Names with their definitions as written; they are added.
    Register(Vec<(String, Bytes)>),
    /// Ids to remove.
    Unregister(Vec<String>),
    /// Names with whether they are enabled.
    Status(Vec<(String, bool)>),
    /// The call changes no catalog (it edits the file of a custom mode).
    Nothing,
}
