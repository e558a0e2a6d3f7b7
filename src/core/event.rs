//! The whole interface between the core and the shell: [`Event`]s in, [`Effect`]s out.

use std::{collections::BTreeMap, fmt, ops::AddAssign, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    config::{Config, ServerConfig, ToolsConfig},
    rpc::{Frame, RawId},
};

/// Somebody who asks: the editor is client 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

impl ClientId {
    /// The process that launched lspool and speaks on its stdin and stdout.
    pub const EDITOR: ClientId = ClientId(0);

    /// The first internal conversation. These have no stream, and no message to them leaves the core.
    pub(super) const INTERNAL: u32 = 1 << 31;

    /// The number of the internal conversation.
    pub(super) fn internal(self) -> u32 {
        self.0 - ClientId::INTERNAL
    }

    /// Whether it is an internal conversation.
    pub(super) fn is_internal(self) -> bool {
        self.0 >= ClientId::INTERNAL
    }
}

/// Somebody who answers: a configured server, or one partition of it. Survives restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendId(pub u32);

/// A configured server: one executable with its settings. It has one backend or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerId(pub(super) u32);

/// One incarnation of a backend, counted from 1. Events about an older one are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// One process of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// The backend it serves.
    pub backend: BackendId,
    /// Which incarnation it is.
    pub generation: Generation,
}

/// The far end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A client of the pool.
    Client(ClientId),
    /// A backend's process.
    Backend(ProcessId),
}

impl Peer {
    /// The process that launched lspool.
    pub(crate) const EDITOR: Peer = Peer::Client(ClientId::EDITOR);
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// The operating system did not say.
    Unknown,
}

impl Exit {
    /// Whether somebody else has ended it: what it said before is no cause.
    pub(crate) fn is_from_outside(self) -> bool {
        // SIGHUP, SIGINT, SIGKILL, SIGTERM.
        matches!(self, Exit::Signal(1 | 2 | 9 | 15))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
            Exit::Unknown => f.write_str("unknown exit status"),
        }
    }
}

/// Why a process could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnFailure {
    /// Trying again cannot help: the executable is missing or not executable.
    pub permanent: bool,
    /// What was tried and what the operating system said.
    pub message: String,
}

/// A process could not be started in its working folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Displaced {
    /// The folder, which is not there any more.
    pub missing: String,
    /// Where it was started.
    pub instead: String,
}

/// Everything needed to start a process of a server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Absolute path of the executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set on top of lspool's own environment.
    #[serde(with = "pairs")]
    pub env: Vec<(String, String)>,
    /// Working folder; lspool's own if absent.
    pub cwd: Option<PathBuf>,
    /// The longest message that is read from it, in bytes.
    pub max_message: usize,
    /// How long it may take no byte although some wait for it.
    pub write_stall: Duration,
}

/// Variables as a JSON object, in their order.
mod pairs {
    use std::fmt;

    use serde::{
        Deserializer, Serializer,
        de::{MapAccess, Visitor},
    };

    pub(super) fn serialize<S: Serializer>(
        it: &[(String, String)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(it.iter().map(|(name, value)| (name, value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(it: D) -> Result<Vec<(String, String)>, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(String, String)>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                std::iter::from_fn(|| map.next_entry().transpose()).collect()
            }
        }
        it.deserialize_map(Pairs)
    }
}

/// What the shell found when it looked at the workspace of an `initialize`.
#[derive(Clone)]
pub struct Prepared {
    /// User file and workspace files, merged.
    pub config: Arc<Config>,
    /// Name of the section of the server that is proxied.
    pub name: String,
    /// That section.
    pub server: ServerConfig,
    /// How to start it.
    pub launch: Arc<Launch>,
    /// Why it cannot be started, if it is not required.
    pub missing: Option<String>,
    /// What the user should know, such as agents of a workspace file that were kept out.
    pub warnings: Vec<String>,
    /// Where the server keeps what it tells the model, if it shall: a folder of the shell's.
    pub transcripts: Option<PathBuf>,
}

// The values of variables may be secrets.
impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env: Vec<&String> = self.env.iter().map(|(name, _)| name).collect();
        let mut it = f.debug_struct("Launch");
        it.field("program", &self.program).field("env", &env).finish_non_exhaustive()
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("name", &self.name)
            .field("launch", &self.launch)
            .finish_non_exhaustive()
    }
}

/// Where a call of a builtin tool is carried out, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// The workspace folders: what is outside does not exist for it.
    pub folders: Vec<PathBuf>,
    /// Its limits.
    pub limits: ToolsConfig,
    /// Somebody has allowed it.
    pub is_confirmed: bool,
}

/// What the shell has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The resident bytes of processes, of those that are still there.
    pub resident: Vec<(ProcessId, u64)>,
    /// What was dropped since lspool started.
    pub dropped: Drops,
}

/// Messages that were dropped because those for whom they were read too slowly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drops {
    /// For the editor.
    pub editor: Dropped,
    /// For all control clients together.
    pub control: Dropped,
    /// For the processes of each backend, but those for which there were none.
    pub backends: BTreeMap<BackendId, Dropped>,
}

impl Drops {
    /// More of them for a backend.
    pub fn add(&mut self, backend: BackendId, dropped: Dropped) {
        if dropped != Dropped::default() {
            *self.backends.entry(backend).or_default() += dropped;
        }
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        *self == Drops::default()
    }
}

/// How many messages were dropped, by what they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropped {
    /// Lines for a log window.
    pub log_messages: u64,
    /// Reports of work done that later ones have made stale.
    pub reports: u64,
}

impl AddAssign for Dropped {
    fn add_assign(&mut self, other: Dropped) {
        self.log_messages += other.log_messages;
        self.reports += other.reports;
    }
}

/// A team that the shell has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTeam {
    /// What it is called.
    pub name: String,
    /// Its state; it is this lspool's from now on.
    pub state: Result<Bytes, TeamFault>,
}

/// Why a team cannot be had, or stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TeamFault {
    /// Another lspool has it.
    Busy(String),
    /// What is stored of it cannot be used.
    Unreadable(String),
    /// The system has refused something.
    Failed(String),
}

impl fmt::Display for TeamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TeamFault::Busy(who) => write!(f, "another lspool has it ({who})"),
            TeamFault::Unreadable(why) | TeamFault::Failed(why) => f.write_str(why),
        }
    }
}

/// The file of a custom chat mode, as it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeepMode {
    /// What the answer is told by.
    pub number: u64,
    /// A plain file name without extension.
    pub name: String,
    /// The tools that a turn in this mode has.
    pub tools: Vec<String>,
    /// The file of a mode of the editor's own. It says the same otherwise, and has only those of its own tools that are
    /// among these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<PathBuf>,
}

/// The file of a custom chat mode, as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptMode {
    /// Its path.
    pub file: PathBuf,
    /// What the mode is called.
    pub title: String,
    /// The tools in it.
    pub tools: Vec<String>,
    /// It was not so before.
    pub is_new: bool,
}

/// What the core is told.
#[derive(Clone, Debug)]
pub enum Event {
    /// A whole message arrived.
    Received(Peer, Frame),
    /// A whole frame arrived whose body is no valid message.
    Malformed {
        /// Who sent it.
        peer: Peer,
        /// Its `id`, if that could be read, and whether it is a request rather than an answer.
        id: Option<(RawId, bool)>,
        /// What is wrong, and where.
        reason: String,
    },
    /// A peer will send no more: end of file, or an unrecoverable framing error.
    Closed {
        /// Whose stream ended.
        peer: Peer,
        /// `None` for a plain end of file.
        error: Option<String>,
    },
    /// A client's stream cannot be written any more (broken pipe).
    Unwritable(ClientId),
    /// The answer to [`Effect::Prepare`].
    Prepared(Result<Box<Prepared>, String>),
    /// The process of an [`Effect::Spawn`], which is told next, is not in its working folder.
    Displaced(ProcessId, Displaced),
    /// The process of an [`Effect::Spawn`] runs.
    Spawned {
        /// Which.
        process: ProcessId,
        /// Its process id.
        pid: u32,
    },
    /// The process of an [`Effect::Spawn`] could not be started.
    SpawnFailed(ProcessId, SpawnFailure),
    /// A spawned process is gone and reaped. Told exactly once per [`Event::Spawned`].
    Exited {
        /// Which.
        process: ProcessId,
        /// How.
        exit: Exit,
        /// The last lines it wrote to stderr, without secrets.
        stderr: String,
    },
    /// What came of an [`Effect::WriteTranscript`]: the folder.
    TranscriptWritten {
        /// Whose.
        process: ProcessId,
        /// Of which conversation.
        conversation: String,
        /// The folder that holds the transcripts of the process, or why there is none.
        folder: Result<PathBuf, String>,
    },
    /// The answer to [`Effect::LoadTeams`].
    TeamsLoaded(Vec<StoredTeam>),
    /// What came of an [`Effect::WriteTeam`].
    TeamWritten {
        /// The number of that effect.
        number: u64,
        /// Which.
        team: String,
        /// Whether it is stored.
        written: Result<(), TeamFault>,
    },
    /// The answer to [`Effect::KeepMode`].
    ModeKept {
        /// The number of that effect.
        number: u64,
        /// The file, or why there is none.
        kept: Result<KeptMode, String>,
    },
    /// The answer to [`Effect::RunTool`], as that of a client to the request.
    ToolRan(Frame),
    /// The answer to [`Effect::Measure`].
    Measured(Box<Measured>),
    /// A configuration file has changed, or has come or gone.
    FilesChanged,
    /// The editor reads again, or has let so much wait that servers are not read any more.
    EditorReads(bool),
    /// A process that starts has written something to stderr. Told now and then, not for each line.
    Muttered(ProcessId),
    /// The answer to [`Effect::AwaitDrained`].
    Drained(ProcessId),
    /// A peer takes no bytes although some wait for it (or far too many do).
    Stalled(Peer),
    /// The process named in the editor's `initialize.processId` is gone.
    EditorGone,
    /// lspool was told to end by this signal number.
    Quit(i32),
}

/// What the shell is told to do. Effects are data: they are carried out in order, without a decision.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Queue a message for a peer. Never waits.
    Send(Peer, Frame),
    /// Read the user's file and the workspace files of these folders, choose and find the server; answered by
    /// [`Event::Prepared`]. From then on these files are watched. Asked again when they are to be read anew.
    Prepare {
        /// Workspace folders of `initialize`, as paths.
        folders: Vec<PathBuf>,
    },
    /// Tell [`Event::EditorGone`] when this process, which exists now, is gone.
    WatchEditor(u32),
    /// Start a process; answered by [`Event::Spawned`] or [`Event::SpawnFailed`].
    Spawn(ProcessId, Arc<Launch>),
    /// From now on this process, which runs, is that one: all that is sent to it, and all that it says.
    Adopt {
        /// What it was.
        spare: ProcessId,
        /// What it is.
        process: ProcessId,
    },
    /// Write the history of a conversation where only this user can read it; answered by [`Event::TranscriptWritten`].
    WriteTranscript {
        /// For which process.
        process: ProcessId,
        /// A plain file name.
        conversation: String,
        /// Prompts, answers and results of tools.
        content: Bytes,
        /// The folder in which servers keep what they tell the model ([`Prepared::transcripts`]). What was kept there
        /// stays behind the content. `None`: a folder of the process's own.
        kept: Option<PathBuf>,
    },
    /// Remove what is kept of a conversation in the folder in which servers keep what they tell the model.
    RemoveTranscript {
        /// The folder.
        kept: PathBuf,
        /// A plain file name.
        conversation: String,
    },
    /// Remove what was written for this process.
    RemoveTranscripts(ProcessId),
    /// Read the teams of a workspace, and keep other lspools from having them; answered by [`Event::TeamsLoaded`].
    LoadTeams {
        /// Its folders.
        folders: Vec<PathBuf>,
    },
    /// Store the state of a team, whole or not at all; answered by [`Event::TeamWritten`].
    WriteTeam {
        /// No other one has it.
        number: u64,
        /// The folders of its workspace.
        folders: Vec<PathBuf>,
        /// A plain file name.
        team: String,
        /// The state.
        content: Bytes,
        /// There must be none of that name.
        is_new: bool,
    },
    /// Remove what is stored of a team.
    RemoveTeam {
        /// The folders of its workspace.
        folders: Vec<PathBuf>,
        /// A plain file name.
        team: String,
    },
    /// See to it that the file of a custom chat mode is as it is to be, in a folder that only this user can enter;
    /// answered by [`Event::ModeKept`]. It is there as a whole or as it was before.
    KeepMode(KeepMode),
    /// Carry out a call of a builtin tool, or say whether it needs no question; answered by
    /// [`Event::ToolRan`], once.
    RunTool {
        /// `conversation/invokeClientTool` or `conversation/invokeClientToolConfirmation`, as a client would be asked.
        call: Frame,
        /// Where.
        scope: Box<Scope>,
    },
    /// Nobody wants the call with this id any more.
    CancelTool(RawId),
    /// Find out how much memory these processes hold, and what was dropped; answered by [`Event::Measured`].
    Measure(Vec<ProcessId>),
    /// Answer this request with what processes of the backend have written to stderr: `{"lines": […]}`. To one who
    /// follows, each further line is told in a `lspool/log` notification, `{"id": …, "line": …}`, with the id of the
    /// request.
    Logs {
        /// Whose stderr.
        backend: BackendId,
        /// Who asked.
        client: ClientId,
        /// Under which id.
        id: RawId,
        /// Whether to go on.
        follow: bool,
    },
    /// Close the stdin of a process once what is queued is written. It may finish what it was told, and end.
    CloseInput(ProcessId),
    /// Tell [`Event::Drained`] when little is left to be written to a process.
    AwaitDrained(ProcessId),
    /// End a process: what is queued is written, stdin closed, then signals to its group. Answered by
    /// [`Event::Exited`]; if it has not come to be, by [`Event::SpawnFailed`].
    Terminate(ProcessId),
    /// Write what is queued for the editor, end all processes, then exit with this code.
    Exit(i32),
}

/// Effects of one event, in order.
pub type Effects = Vec<Effect>;
