//! The interface between core and shell: [`Event`]s in, [`Effect`]s out.

mod launch;
mod roots;
mod started;

use std::{collections::BTreeMap, fmt, ops::AddAssign, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    builtin_tools::lsp::FileChange,
    config::{Combine, Config, ServerConfig, ToolsConfig},
    rpc::{Frame, PathPair, RawId},
};

pub use self::{
    launch::{Fetch, Fetched, Inspect, Launch, Remote, Share},
    roots::{FindRoot, RootFound},
    started::{Recalled, Started},
};

/// A client. The editor is client 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

impl ClientId {
    /// The process that launched lspool and speaks on its stdin and stdout.
    pub const EDITOR: ClientId = ClientId(0);

    /// The code tools. They have no stream, and their messages do not leave the core.
    pub(super) const CODE_TOOLS: ClientId = ClientId(ClientId::INTERNAL - 1);

    /// The first internal conversation. They have no stream, and their messages do not leave the core.
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

/// A backend: a server or one partition of it. Survives restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendId(pub u32);

/// A configured server: one executable with its settings. It has at least one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerId(pub(super) u32);

impl ServerId {
    /// Its number, counted from 0.
    pub(super) fn number(self) -> u32 {
        self.0
    }
}

/// The number of a backend's process, counted from 1. Events of older ones are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// One process of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// The backend.
    pub backend: BackendId,
    /// The number of the process.
    pub generation: Generation,
}

/// The peer of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A client.
    Client(ClientId),
    /// A process of a backend.
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
    /// Unknown to the operating system.
    Unknown,
}

impl Exit {
    /// Whether another program ended it, so that its output is not the cause.
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

/// Why a process could not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnFailure {
    /// Whether another attempt is useless: the executable is missing or not executable.
    pub permanent: bool,
    /// The attempt and the error of the operating system.
    pub message: String,
    /// The folders that the server has elsewhere now: it was not started, because they have changed.
    pub moved: Option<Vec<PathPair>>,
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

/// The result of the search for the server of an `initialize`.
#[derive(Clone)]
pub struct Prepared {
    /// User file and workspace files, merged.
    pub config: Arc<Config>,
    /// The name of the server's section.
    pub name: String,
    /// That section.
    pub server: ServerConfig,
    /// How to start it.
    pub launch: Arc<Launch>,
    /// Why the server cannot start, if it is not required.
    pub missing: Option<String>,
    /// Warnings for the user, such as shadowed agents.
    pub warnings: Vec<String>,
    /// The folder for the server's records of requests to the model, if wanted.
    pub transcripts: Option<PathBuf>,
    /// The group whose first member that server is, if it has others.
    pub group: Option<Group>,
    /// Whether conversations get code tools: builtin tools are wanted, and a language of the workspace has a server.
    pub has_code_tools: bool,
}

/// Several servers behind one editor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// As the configuration or the command line names it.
    pub name: String,
    /// How long lspool holds `initialize` for members that have not answered, once one has.
    pub start_wait: Duration,
    /// How long the first publication of diagnostics for a version waits for the other members.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub diagnostics_wait: Duration,
    /// Who goes first for a feature, by the feature's name; the other members follow by rank.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub order: BTreeMap<String, Vec<String>>,
    /// How the answers for a feature become one, if not as usual.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub combine: BTreeMap<String, Combine>,
    /// How long others are waited for, by feature, if not as usual.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wait: BTreeMap<String, Duration>,
    /// The members after the first, by rank.
    pub others: Vec<Member>,
}

impl Group {
    /// As in a recording.
    pub(crate) fn masked(mut self) -> Group {
        self.others.iter_mut().for_each(|it| it.launch = it.launch.masked());
        self
    }
}

/// A server of a group.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Name of its section.
    pub name: String,
    /// That section.
    pub server: ServerConfig,
    /// How to start it.
    pub launch: Launch,
    /// Why it cannot be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("name", &self.name)
            .field("launch", &self.launch)
            .finish_non_exhaustive()
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

/// The environment and the limits of a call of a builtin tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// The workspace folders. The tool opens nothing outside.
    pub folders: Vec<PathBuf>,
    /// Its limits.
    pub limits: ToolsConfig,
    /// Whether the user has allowed it.
    pub is_confirmed: bool,
}

/// A look at the files of the workspace, for the code tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// The number for the answer.
    pub number: u64,
    /// The workspace folders.
    pub folders: Vec<PathBuf>,
    /// The endings and the names of the files that count. A change of one of them is reported.
    pub endings: Vec<String>,
    /// Files whose text is wanted if they have changed since the last look.
    pub open: Vec<PathBuf>,
    /// Files whose text is wanted in any case.
    pub read: Vec<PathBuf>,
    /// The word to search for in the files that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word: Option<Word>,
    /// Absolute paths that may lead into a workspace folder through links above it: where they lead is wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolve: Vec<PathBuf>,
    /// Endings of files that do not count, and whose presence is reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// A text to search for in all files, whether they count or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grep: Option<Grep>,
}

/// A search for a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grep {
    /// The text, or a regular expression. Case does not matter.
    pub query: String,
    /// Whether it is a regular expression.
    pub is_regex: bool,
}

/// What to search for, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// The text.
    pub text: String,
    /// How it may stand in a line.
    pub matching: WordMatch,
    /// The endings of the files to search. An empty one fits each file, also one that does not count.
    pub endings: Vec<String>,
}

/// How a word may stand in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WordMatch {
    /// As a whole word.
    Whole,
    /// As a part of any word, in upper or lower case.
    Part,
    /// Not at all: each file is a hit, and is not read.
    Any,
}

/// The result of a [`Look`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// The number of the look.
    pub number: u64,
    /// Files that count and have come since the last look.
    pub created: Vec<PathBuf>,
    /// Files that have changed since the last look.
    pub changed: Vec<PathBuf>,
    /// Files that are gone since the last look.
    pub removed: Vec<PathBuf>,
    /// How many files count.
    pub n_files: usize,
    /// The wanted texts.
    pub texts: Vec<(PathBuf, Result<String, Unreadable>)>,
    /// The files that hold the word.
    pub hits: Vec<WordHits>,
    /// Why files may be missing above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Files that cannot be read and may hold the word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<(PathBuf, Unreadable)>,
    /// Folders that cannot be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<PathBuf>,
    /// Where paths lead, if that is below a workspace folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<(PathBuf, PathBuf)>,
    /// Why a text cannot be searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// The endings of other files that are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Files to which the editor has given another text than the disk has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsaved: Vec<PathBuf>,
}

/// The lines of a file that hold a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordHits {
    /// The file.
    pub file: PathBuf,
    /// How many lines hold it.
    pub n_lines: usize,
    /// The first of them: number from 0, and text.
    pub lines: Vec<(u32, String)>,
}

/// Why the text of a file is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unreadable {
    /// There is no such file.
    Missing,
    /// It is outside the workspace, or a link leads there.
    Outside,
    /// It is a folder.
    Folder,
    /// It is not text in UTF-8.
    Binary,
    /// It is larger than lspool reads.
    Large,
    /// The operating system refuses it.
    Denied,
}

/// An edit of files of the workspace, for the code tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The number for the answer.
    pub number: u64,
    /// The workspace folders.
    pub folders: Vec<PathBuf>,
    /// All of it.
    pub changes: Vec<FileChange>,
}

/// The result of a [`Write`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrote {
    /// Its number.
    pub number: u64,
    /// Whether all of it is made. Otherwise nothing is, except as the fault says.
    pub result: Result<(), WriteFault>,
}

/// Why an edit was not made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteFault {
    /// This file is not as the edit assumes.
    Changed(PathBuf),
    /// This file is outside the workspace, or a link leads out.
    Outside(PathBuf),
    /// lspool does not write there.
    Refused(String),
    /// An error of the operating system. What was replaced is put back.
    Failed(String),
    /// The same, and not all could be put back.
    Broken(String),
    /// The editor has accepted the edit, and lspool has not seen all of its texts.
    Unseen(String),
}

impl WriteFault {
    /// What it is about.
    pub(crate) fn what(&self) -> String {
        match self {
            WriteFault::Changed(file) => format!("{} has changed", file.display()),
            WriteFault::Outside(file) => format!("{} is outside the workspace", file.display()),
            WriteFault::Refused(why)
            | WriteFault::Failed(why)
            | WriteFault::Broken(why)
            | WriteFault::Unseen(why) => why.clone(),
        }
    }
}

/// The measurements of the shell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The resident bytes of living processes.
    pub resident: Vec<(ProcessId, u64)>,
    /// The messages dropped since lspool started.
    pub dropped: Drops,
}

/// Messages dropped because their readers were slow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drops {
    /// For the editor.
    pub editor: Dropped,
    /// For all control clients together.
    pub control: Dropped,
    /// For the processes of each backend, without zeros.
    pub backends: BTreeMap<BackendId, Dropped>,
}

impl Drops {
    /// Adds dropped messages of a backend.
    pub fn add(&mut self, backend: BackendId, dropped: Dropped) {
        if dropped != Dropped::default() {
            *self.backends.entry(backend).or_default() += dropped;
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Drops::default()
    }
}

/// Counts of dropped messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropped {
    /// Lines for the editor's log window.
    pub log_messages: u64,
    /// Progress reports that later ones replace.
    pub reports: u64,
}

impl AddAssign for Dropped {
    fn add_assign(&mut self, other: Dropped) {
        self.log_messages += other.log_messages;
        self.reports += other.reports;
    }
}

/// A stored team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTeam {
    /// Its name.
    pub name: String,
    /// Its state. This lspool owns it now.
    pub state: Result<Bytes, TeamFault>,
}

/// Why a team cannot be loaded or stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TeamFault {
    /// Another lspool owns it.
    Busy(String),
    /// Its file is unusable.
    Unreadable(String),
    /// An error of the operating system.
    Failed(String),
}

impl fmt::Display for TeamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TeamFault::Busy(who) => write!(f, "another lspool owns it ({who})"),
            TeamFault::Unreadable(why) | TeamFault::Failed(why) => f.write_str(why),
        }
    }
}

/// The wanted file of a custom chat mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeepMode {
    /// The number for the answer.
    pub number: u64,
    /// A plain file name without extension.
    pub name: String,
    /// The tools of a turn in this mode.
    pub tools: Vec<String>,
    /// The file of an editor's mode to narrow: only those of its tools that are in `tools` stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<PathBuf>,
}

/// The current file of a custom chat mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptMode {
    /// Its path.
    pub file: PathBuf,
    /// The title of the mode.
    pub title: String,
    /// Its tools.
    pub tools: Vec<String>,
    /// Whether it was changed.
    pub is_new: bool,
}

/// An input of the core.
#[derive(Clone, Debug)]
pub enum Event {
    /// A whole message arrived.
    Received(Peer, Frame),
    /// A whole frame arrived, and its body is not a valid message.
    Malformed {
        /// The sender.
        peer: Peer,
        /// Its `id`, if it is readable, and whether it is a request rather than an answer.
        id: Option<(RawId, bool)>,
        /// The error and its place.
        reason: String,
    },
    /// The stream of a peer ended: end of file, or a fatal framing error.
    Closed {
        /// The peer.
        peer: Peer,
        /// `None` for a plain end of file.
        error: Option<String>,
    },
    /// Writing to a client failed (broken pipe).
    Unwritable(ClientId),
    /// The answer to [`Effect::Prepare`].
    Prepared(Result<Box<Prepared>, String>),
    /// The process of an [`Effect::Spawn`], which is told next, is not in its working folder.
    Displaced(ProcessId, Displaced),
    /// Why the process of an [`Effect::Spawn`] is not shared. The event of its start comes next.
    Unshared(ProcessId, String),
    /// The process of an [`Effect::Spawn`] runs.
    Spawned {
        /// The process.
        process: ProcessId,
        /// Its process id.
        pid: u32,
    },
    /// The process of an [`Effect::Spawn`] could not start.
    SpawnFailed(ProcessId, SpawnFailure),
    /// A process exited and is reaped. Comes exactly once after each [`Event::Spawned`].
    Exited {
        /// The process.
        process: ProcessId,
        /// Its exit.
        exit: Exit,
        /// The last lines of its stderr, without secrets.
        stderr: String,
    },
    /// The answer to [`Effect::WriteTranscript`].
    TranscriptWritten {
        /// The process.
        process: ProcessId,
        /// The conversation.
        conversation: String,
        /// The folder with the transcripts of the process, or the error.
        folder: Result<PathBuf, String>,
    },
    /// The answer to [`Effect::LoadTeams`].
    TeamsLoaded(Vec<StoredTeam>),
    /// The answer to [`Effect::WriteTeam`].
    TeamWritten {
        /// The number of that effect.
        number: u64,
        /// The team.
        team: String,
        /// The result.
        written: Result<(), TeamFault>,
    },
    /// The answer to [`Effect::KeepMode`].
    ModeKept {
        /// The number of that effect.
        number: u64,
        /// The file, or the error.
        kept: Result<KeptMode, String>,
    },
    /// The answer to [`Effect::Recall`]: the members of which something is remembered.
    Recalled(Vec<Recalled>),
    /// The answer to [`Effect::FindRoot`].
    RootFound(RootFound),
    /// The answer to [`Effect::RunTool`], in the form of a client's answer.
    ToolRan(Frame),
    /// The answer to [`Effect::Look`].
    Looked(Box<Seen>),
    /// The answer to [`Effect::Write`].
    Wrote(Box<Wrote>),
    /// The answer to [`Effect::Fetch`].
    Fetched(Fetched),
    /// The answer to [`Effect::ReadFile`].
    FileRead {
        /// The file.
        path: PathBuf,
        /// Its text, if it is one.
        text: Option<String>,
    },
    /// The answer to [`Effect::Measure`].
    Measured(Box<Measured>),
    /// A configuration file has changed, appeared, or disappeared.
    FilesChanged,
    /// The editor's queue is below high water again, or above, so that servers are not read.
    EditorReads(bool),
    /// A process that starts has written something to stderr. Told now and then, not for each line.
    Muttered(ProcessId),
    /// The answer to [`Effect::AwaitDrained`].
    Drained(ProcessId),
    /// A peer takes no bytes although some wait for it (or far too many do).
    Stalled(Peer),
    /// The process in the editor's `initialize.processId` exited.
    EditorGone,
    /// This signal told lspool to end.
    Quit(i32),
}

/// An action for the shell. Effects are data: the shell carries them out in order, without a decision.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Queue a message for a peer. Never waits.
    Send(Peer, Frame),
    /// Read the configuration files for these folders, choose and find the server; answered by [`Event::Prepared`].
    /// The files are watched from then on. Repeated to read them again.
    Prepare {
        /// Workspace folders of `initialize`, as paths.
        folders: Vec<PathBuf>,
    },
    /// Report [`Event::EditorGone`] when this existing process exits.
    WatchEditor(u32),
    /// Start a process; answered by [`Event::Spawned`] or [`Event::SpawnFailed`].
    Spawn(ProcessId, Arc<Launch>),
    /// Rename this running process: its messages, in both directions, belong to the new name.
    Adopt {
        /// The old name.
        spare: ProcessId,
        /// The new name.
        process: ProcessId,
    },
    /// Write the history of a conversation into a private file; answered by [`Event::TranscriptWritten`].
    WriteTranscript {
        /// The process.
        process: ProcessId,
        /// A plain file name.
        conversation: String,
        /// Prompts, answers, and results of tools.
        content: Bytes,
        /// The folder for servers' records of requests to the model ([`Prepared::transcripts`]). The record stays
        /// after the content. `None`: a folder for the process.
        kept: Option<PathBuf>,
    },
    /// Remove the record of a conversation.
    RemoveTranscript {
        /// The folder.
        kept: PathBuf,
        /// A plain file name.
        conversation: String,
    },
    /// Remove the transcripts for this process.
    RemoveTranscripts(ProcessId),
    /// Load the teams of a workspace, and own them; answered by [`Event::TeamsLoaded`].
    LoadTeams {
        /// Its folders.
        folders: Vec<PathBuf>,
    },
    /// Store the state of a team, whole or not at all; answered by [`Event::TeamWritten`].
    WriteTeam {
        /// A unique number.
        number: u64,
        /// The folders of its workspace.
        folders: Vec<PathBuf>,
        /// A plain file name.
        team: String,
        /// The state.
        content: Bytes,
        /// Whether there must be no team of that name yet.
        is_new: bool,
    },
    /// Remove a stored team.
    RemoveTeam {
        /// The folders of its workspace.
        folders: Vec<PathBuf>,
        /// A plain file name.
        team: String,
    },
    /// Correct the file of a custom chat mode, in a private folder; answered by [`Event::ModeKept`]. A reader finds
    /// the old or the new content.
    KeepMode(KeepMode),
    /// Look up what these members have answered to `initialize`; answered by [`Event::Recalled`].
    Recall(Vec<Started>),
    /// Remember what a member has answered to `initialize`: this result.
    Remember(Started, Bytes),
    /// Look for the project of a document; answered by [`Event::RootFound`].
    FindRoot(FindRoot),
    /// Run a call of a builtin tool, or decide whether it needs a question; answered once by [`Event::ToolRan`].
    RunTool {
        /// `conversation/invokeClientTool` or `conversation/invokeClientToolConfirmation`, in the form for a client.
        call: Frame,
        /// Its environment and limits.
        scope: Box<Scope>,
    },
    /// Cancel the call with this id.
    CancelTool(RawId),
    /// Look at the files of the workspace; answered by [`Event::Looked`], in the order of the looks.
    Look(Box<Look>),
    /// Make an edit of files, whole or not at all, between two looks; answered by [`Event::Wrote`].
    Write(Box<Write>),
    /// Copy files from the other side, as far as possible within a short time; answered by [`Event::Fetched`].
    Fetch(Box<Fetch>),
    /// Measure the memory of these processes, and count the dropped messages; answered by [`Event::Measured`].
    Measure(Vec<ProcessId>),
    /// Answer this request with the backend's stderr: `{"lines": […]}`. A follower gets each further line in a
    /// notification `lspool/log`, `{"id": …, "line": …}`, with the id of the request.
    Logs {
        /// The backend.
        backend: BackendId,
        /// The client.
        client: ClientId,
        /// The id of the request.
        id: RawId,
        /// Whether to send further lines.
        follow: bool,
    },
    /// Read a text file; answered by [`Event::FileRead`] within a few seconds.
    ReadFile(PathBuf),
    /// Write the queue of a client, and close its connection; answered by [`Event::Closed`] of that client.
    HangUp(ClientId),
    /// Close the stdin of a process after its queue. It may handle its messages, and end.
    CloseInput(ProcessId),
    /// Tell [`Event::Drained`] when little is left to be written to a process.
    AwaitDrained(ProcessId),
    /// End a process: what is queued is written, stdin closed, then signals to its group. Answered by
    /// [`Event::Exited`]; if it has not come to be, by [`Event::SpawnFailed`].
    Terminate(ProcessId),
    /// Write the editor's queue, end all processes, then exit with this code.
    Exit(i32),
}

/// Effects of one event, in order.
pub type Effects = Vec<Effect>;
