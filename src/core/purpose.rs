//! Why a request was sent: what its answer means to lspool besides being passed on.
//!
//! These are data. The mux carries them with its requests; what belongs to a higher owner it never looks into.

use std::fmt;

use bytes::Bytes;

use crate::{
    core::{
        event::BackendId,
        ids::{ConversationId, Token},
    },
    rpc::{Frame, RawId},
};

/// The number under which lspool sent a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SentId(u64);

impl SentId {
    /// More than any request has.
    pub(crate) const MAX: SentId = SentId(u64::MAX);

    /// The number of a message that lspool sends, or of an answer to it.
    pub(crate) fn of(frame: &Frame) -> Option<SentId> {
        SentId::read(&frame.id()?)
    }

    /// The number in an answer, if it is one.
    pub(crate) fn read(id: &RawId) -> Option<SentId> {
        id.as_u64().map(SentId)
    }

    /// The number of the next request.
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

/// What the answer to a request means to lspool.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// Nothing.
    Plain,
    /// The handshake of a process: the editor's own for the first process of a primary, lspool's for others.
    Initialize,
    /// `shutdown`.
    Shutdown,
    /// The user was told that a backend has failed, and what can be done.
    Offer(BackendId),
    /// lspool itself asks the editor whether this call of a builtin tool may be carried out.
    Allow(SentId),
    /// `workspace/configuration`: one answer per section.
    Configuration { sections: Vec<Option<String>> },
    /// Something that concerns conversations with a Copilot server.
    Copilot(CopilotPurpose),
}

/// What the answer means to the Copilot half.
#[derive(Clone, Debug)]
pub(crate) enum CopilotPurpose {
    /// A `conversation/create` or `conversation/turn`; its answer ends the turn.
    Turn { conversation: ConversationId, token: Option<Token>, kind: TurnKind, restriction: Restriction },
    /// A change of the tool catalog, which partitions follow once the primary has accepted it.
    Tools(ToolChange),
    /// A partition was told its projection; the answer lists what it offers now.
    Project,
    /// A partition was told to drop tools of its MCP servers.
    Narrow,
    /// The primary was asked something for the sake of a mode.
    Mode(Ask),
    /// A sign-in that one process has done and the others must follow.
    SignIn,
    /// Whether somebody is signed in, before this conversation is created, which needs a process.
    Create(Frame),
    /// A tool call or confirmation of this conversation, asked of the editor.
    ToolCall { conversation: Option<ConversationId>, kind: ToolQuestion },
}

/// How a turn is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnKind {
    /// `conversation/create`: the conversation begins with it.
    First,
    /// `conversation/turn`.
    Later,
}

/// What a process asks of whoever has a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolQuestion {
    /// Whether a call may be made: `conversation/invokeClientToolConfirmation`.
    Confirmation,
    /// To make it: `conversation/invokeClientTool`.
    Call,
}

/// One chat mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModeId(pub(in crate::core) u32);

/// What keeps a turn to its tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Restriction {
    /// The process that it is asked of.
    #[default]
    Process,
    /// A mode in the primary.
    Mode(ModeId),
    /// Its conversation is in a mode, and this turn cannot be: it goes to a process when it is its turn.
    Leaves,
}

/// What the primary is asked for the sake of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// To know it.
    Register,
    /// Whether it knows it as it is to be. `number`: of the file.
    Verify { mode: ModeId, number: u64 },
    /// What it offers.
    List,
}

/// One of the three calls that change the tool catalog.
#[derive(Clone, Debug)]
pub(crate) enum ToolChange {
    /// Names with their definitions as written; merges.
    Register(Vec<(String, Bytes)>),
    /// By id.
    Unregister(Vec<String>),
    /// By name: enabled or not.
    Status(Vec<(String, bool)>),
    /// The call changes no registry (it edits the file of a custom mode).
    Nothing,
}
