//! The lines of a recording.
//!
//! The first line is the [`Header`]. Each other line is a [`Line`]: an event, an effect, or the end. All lines have
//! the same few members, so a reader of messages can ignore the rest. The other values of an event or effect are in
//! `data`, as the type in this module with the name of its [`Kind`].

use std::{borrow::Cow, path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

use crate::{
    config::{Config, ServerConfig},
    core::{
        Identity,
        event::{
            self, BackendId, ClientId, Drops, Exit, Generation, Group, KeptMode, Launch, Peer, ProcessId,
            TeamFault,
        },
    },
    rpc::PathPair,
};

/// The number of the format.
pub const FORMAT: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The number of the format: [`FORMAT`].
    #[serde(rename = "lspool-recording")]
    pub format: u32,
    /// The version of the lspool that wrote it.
    pub version: String,
    /// The process id of that lspool. It makes its ids from this and `started`.
    pub pid: u32,
    /// When it started, in milliseconds since 1970.
    pub started: u64,
    /// Whether texts are unmasked.
    pub texts: bool,
    /// The user's configuration at the start. A line [`Kind::Prepared`] has the one of the workspace.
    pub config: Box<Config>,
}

impl Header {
    /// The seed of lspool's ids.
    pub fn identity(&self) -> Identity {
        Identity { pid: self.pid, started: self.started }
    }
}

/// Any line but the first. Borrows from the text of the line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line<'a> {
    /// The time since the first line.
    pub t: Time,
    /// Event, effect, or end.
    pub dir: Dir,
    /// The kind of the event or effect.
    pub kind: Kind,
    /// The sender of an event, or the receiver of an effect, if it is about a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerName>,
    /// The message, of a line [`Kind::Message`], [`Kind::RunTool`] or [`Kind::ToolRan`].
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub msg: Option<&'a RawValue>,
    /// Instead of `msg`: the body of a message whose parameters, result or error are invalid JSON.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Cow<'a, str>>,
    /// The other values.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
}

/// Time since the start of a recording, in milliseconds with all measured digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = format!("{}.{:06}", self.0.as_millis(), self.0.subsec_nanos() % 1_000_000);
        serializer.serialize_f64(text.parse().unwrap_or(f64::MAX))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let millis = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(millis / 1000.0).map(Time).map_err(D::Error::custom)
    }
}

/// The direction of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dir {
    /// An event for the core.
    In,
    /// An effect of the last event.
    Out,
    /// The end of the recording.
    End,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// In or out: a message. Has a `peer`, and `msg` or `raw`.
    Message,

    /// In: `peer` sent something that is not a message. [`Malformed`].
    Malformed,
    /// In: the stream of `peer` ended. [`Closed`].
    Closed,
    /// In: writing to `peer` failed.
    Unwritable,
    /// In: lspool found the server. [`Prepared`].
    Prepared,
    /// In: lspool did not find the server. [`Unprepared`].
    Unprepared,
    /// In: `peer` is about to run, and not in its working folder. [`Displaced`](crate::core::event::Displaced).
    Displaced,
    /// In: `peer` is about to run, and no other client uses it. [`Unshared`].
    Unshared,
    /// In: a process runs. [`Spawned`].
    Spawned,
    /// In: a process could not start. [`SpawnFailed`].
    SpawnFailed,
    /// In: a process exited. [`Exited`].
    Exited,
    /// In: a history is in a file, or not. [`TranscriptWritten`].
    TranscriptWritten,
    /// In: the teams of the workspace. [`TeamsLoaded`].
    TeamsLoaded,
    /// In: a team is stored, or not. [`TeamWritten`].
    TeamWritten,
    /// In: the file of a chat mode is correct, or not. [`ModeKept`].
    ModeKept,
    /// In: what members of a group could do before. [`Recalled`].
    Recalled,
    /// In: the project of a document. [`RootFound`](crate::core::event::RootFound).
    RootFound,
    /// In: the result of a call of a builtin tool, as a client's answer. Has `msg` or `raw`.
    ToolRan,
    /// In: the files of the workspace. [`Seen`](crate::core::event::Seen).
    Looked,
    /// In: an edit of files is made, or not. [`Wrote`](crate::core::event::Wrote).
    Wrote,
    /// In: copies of files of the other side are made, or not. [`Fetched`](crate::core::event::Fetched).
    Fetched,
    /// In: the memory of processes, and the dropped messages. [`Measured`].
    Measured,
    /// In: a configuration file has changed.
    FilesChanged,
    /// In: the editor's queue is over high water, or below again. [`EditorReads`].
    EditorReads,
    /// In: `peer` writes to stderr while it starts.
    Muttered,
    /// In: `peer` has read nearly all that it was told.
    Drained,
    /// In: `peer` takes nothing.
    Stalled,
    /// In: the editor's process exited.
    EditorGone,
    /// In: a signal. [`Quit`].
    Quit,
    /// In: a deadline of the core passed.
    Timeout,

    /// Out: find the server. [`Prepare`].
    Prepare,
    /// Out: watch the editor's process. [`WatchEditor`].
    WatchEditor,
    /// Out: start a process. [`Spawn`].
    Spawn,
    /// Out: rename a spare's process. [`Adopt`].
    Adopt,
    /// Out: write a history to a file. [`WriteTranscript`].
    WriteTranscript,
    /// Out: remove a history. [`RemoveTranscript`].
    RemoveTranscript,
    /// Out: remove all histories of a process. [`OfProcess`].
    RemoveTranscripts,
    /// Out: read the teams of the workspace. [`Prepare`].
    LoadTeams,
    /// Out: store a team. [`WriteTeam`].
    WriteTeam,
    /// Out: remove a team. [`RemoveTeam`].
    RemoveTeam,
    /// Out: correct the file of a chat mode. [`KeepMode`](crate::core::event::KeepMode).
    KeepMode,
    /// Out: look for the project of a document. [`FindRoot`](crate::core::event::FindRoot).
    FindRoot,
    /// Out: look up what members of a group could do before. [`Members`].
    Recall,
    /// Out: remember what a member of a group can do. [`Members`].
    Remember,
    /// Out: run a call of a builtin tool. Has `msg` or `raw`, the request as for a client, and [`Scope`].
    RunTool,
    /// Out: cancel a call of a builtin tool. [`CancelTool`].
    CancelTool,
    /// Out: look at the files of the workspace. [`Look`](crate::core::event::Look).
    Look,
    /// Out: make an edit of files. [`Write`](crate::core::event::Write).
    Write,
    /// Out: copy files of the other side. [`Fetch`].
    Fetch,
    /// Out: measure the memory of processes. [`Measure`].
    Measure,
    /// Out: send a backend's stderr to `peer`. [`Logs`].
    Logs,
    /// In: a file was read. [`FileRead`].
    FileRead,
    /// Out: read a file. Its path.
    ReadFile,
    /// Out: close the connection of `peer`.
    HangUp,
    /// Out: close the stdin of a process. [`OfProcess`].
    CloseInput,
    /// Out: tell when a process has read nearly all that it was told. [`OfProcess`].
    AwaitDrained,
    /// Out: end a process. [`OfProcess`].
    Terminate,
    /// Out: lspool ends. [`ExitCode`].
    Exit,
    /// Out: the core has panicked.
    Panic,

    /// End: lspool has ended.
    Done,
    /// End: the file reached its maximum size.
    Full,
    /// End: the disk was too slow.
    TooSlow,
}

/// The peer of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "`peer` must be {\"client\": 0} or {\"backend\": 0, \"generation\": 1}"
)]
pub enum PeerName {
    /// `{"client": 0}` is the editor; others are control clients, such as `lspool status`.
    Client {
        /// Its number.
        client: u32,
    },
    /// `{"backend": 1, "generation": 2}`. The line [`Kind::Spawn`] or [`Kind::Adopt`] of the process has its name.
    Process(ProcessName),
}

/// A process, by its backend and its number there, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessName {
    /// Number of the backend; 0 is the primary, or the only one.
    pub backend: u32,
    /// Number of the process.
    pub generation: u32,
}

impl From<ProcessId> for ProcessName {
    fn from(it: ProcessId) -> ProcessName {
        ProcessName { backend: it.backend.0, generation: it.generation.0 }
    }
}

impl From<ProcessName> for ProcessId {
    fn from(it: ProcessName) -> ProcessId {
        ProcessId { backend: BackendId(it.backend), generation: Generation(it.generation) }
    }
}

impl From<Peer> for PeerName {
    fn from(it: Peer) -> PeerName {
        match it {
            Peer::Client(client) => PeerName::Client { client: client.0 },
            Peer::Backend(process) => PeerName::Process(process.into()),
        }
    }
}

impl From<PeerName> for Peer {
    fn from(it: PeerName) -> Peer {
        match it {
            PeerName::Client { client } => Peer::Client(ClientId(client)),
            PeerName::Process(process) => Peer::Backend(process.into()),
        }
    }
}

/// `data` of [`Kind::Malformed`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Malformed {
    /// The id, if it is readable: a string, a number or `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Box<RawId>>,
    /// Whether it seems to be a request.
    #[serde(default)]
    pub request: bool,
    /// The error.
    pub reason: String,
}

/// `data` of [`Kind::Closed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// `None`: a plain end of file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `data` of [`Kind::Prepared`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    /// The name of the server.
    pub name: String,
    /// The configuration of the workspace.
    pub config: Box<Config>,
    /// The server's section.
    pub server: Box<ServerConfig>,
    /// How to start the server.
    pub launch: Box<Launch>,
    /// Why the server cannot start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The folder for its records of requests to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcripts: Option<PathBuf>,
    /// The group whose first member it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// Whether conversations get code tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_code_tools: bool,
}

/// `data` of [`Kind::FileRead`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRead {
    /// The file.
    pub path: PathBuf,
    /// Its text, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// `data` of [`Kind::Recalled`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recalled {
    /// What they have answered to `initialize`.
    pub members: Vec<event::Recalled>,
}

/// `data` of [`Kind::Recall`] and [`Kind::Remember`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Members {
    /// Their names.
    pub members: Vec<String>,
}

/// `data` of [`Kind::Unprepared`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unprepared {
    /// The error.
    pub error: String,
}

/// `data` of [`Kind::Unshared`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unshared {
    /// The reason.
    pub why: String,
}

/// `data` of [`Kind::Spawned`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawned {
    /// The process.
    pub process: ProcessName,
    /// Its process id.
    pub pid: u32,
}

/// `data` of [`Kind::SpawnFailed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnFailed {
    /// The process.
    pub process: ProcessName,
    /// Whether another attempt is useless.
    pub permanent: bool,
    /// The error.
    pub message: String,
    /// The folders that the server has elsewhere, if they have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Vec<PathPair>>,
}

/// `data` of [`Kind::Exited`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exited {
    /// The process.
    pub process: ProcessName,
    /// Its exit: `{"code": 0}`, `{"signal": 9}` or `"unknown"`.
    pub exit: Exit,
    /// The end of its stderr.
    pub stderr: String,
}

/// `data` of [`Kind::TranscriptWritten`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranscriptWritten {
    /// The process.
    pub process: ProcessName,
    /// The conversation.
    pub conversation: String,
    /// The folder: `{"Ok": folder}` or `{"Err": reason}`.
    pub folder: Result<PathBuf, String>,
}

/// `data` of [`Kind::TeamsLoaded`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamsLoaded {
    /// The teams by name, each with its state: `{"Ok": state}` or `{"Err": reason}`.
    pub teams: Vec<(String, Result<String, TeamFault>)>,
}

/// `data` of [`Kind::TeamWritten`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamWritten {
    /// The number of the effect.
    pub number: u64,
    /// The team.
    pub team: String,
    /// `{"Ok": null}` or `{"Err": reason}`.
    pub written: Result<(), TeamFault>,
}

/// `data` of [`Kind::ModeKept`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeKept {
    /// The number of the effect.
    pub number: u64,
    /// The file: `{"Ok": …}` or `{"Err": reason}`.
    pub kept: Result<KeptMode, String>,
}

/// `data` of [`Kind::Measured`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Each process and its bytes.
    pub processes: Vec<(ProcessName, u64)>,
    /// The messages dropped since lspool started.
    #[serde(default, skip_serializing_if = "Drops::is_empty")]
    pub dropped: Drops,
}

/// `data` of [`Kind::EditorReads`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditorReads {
    /// Whether the queue is below high water.
    pub reads: bool,
}

/// `data` of [`Kind::Quit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quit {
    /// The number of the signal.
    pub signal: i32,
}

/// `data` of [`Kind::Prepare`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// The workspace folders.
    pub folders: Vec<PathBuf>,
}

/// `data` of [`Kind::WatchEditor`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchEditor {
    /// The process.
    pub pid: u32,
}

/// `data` of [`Kind::Spawn`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    /// The process.
    pub process: ProcessName,
    /// Its backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<About>,
    /// How to start it.
    pub launch: Box<Launch>,
}

/// `data` of [`Kind::Fetch`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// The number for the answer.
    pub number: u64,
    /// The files, by their paths there.
    pub files: Vec<String>,
}

/// `data` of [`Kind::Adopt`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adopt {
    /// The old name of the process.
    pub spare: ProcessName,
    /// The new name of the process.
    pub process: ProcessName,
    /// Its new backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<About>,
}

/// A backend, for readers of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Its name for people.
    pub name: String,
    /// The tools of its conversations: declared names, `!` before removed ones, `["*"]` for every tool. A spare has
    /// none.
    pub tools: Vec<String>,
}

/// `data` of [`Kind::WriteTranscript`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteTranscript {
    /// The process.
    pub process: ProcessName,
    /// The conversation.
    pub conversation: String,
    /// The content: lines of JSON.
    pub content: String,
    /// The folder, if it is not the process's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathBuf>,
}

/// `data` of [`Kind::WriteTeam`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteTeam {
    /// A unique number.
    pub number: u64,
    /// The folders of its workspace.
    pub folders: Vec<PathBuf>,
    /// The team.
    pub team: String,
    /// Its state, as JSON.
    pub content: String,
    /// Whether the team is new.
    pub is_new: bool,
}

/// `data` of [`Kind::RemoveTeam`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveTeam {
    /// The folders of its workspace.
    pub folders: Vec<PathBuf>,
    /// The team.
    pub team: String,
}

/// `data` of [`Kind::RemoveTranscript`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveTranscript {
    /// The folder.
    pub kept: PathBuf,
    /// The conversation.
    pub conversation: String,
}

pub use crate::core::event::Scope;

/// `data` of [`Kind::CancelTool`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelTool {
    /// The id of the call.
    pub id: Box<RawId>,
}

/// `data` of [`Kind::Measure`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The processes.
    pub processes: Vec<ProcessName>,
}

/// `data` of [`Kind::Logs`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// The backend.
    pub backend: u32,
    /// The id of the request.
    pub id: Box<RawId>,
    /// Whether to send further lines.
    pub follow: bool,
}

/// `data` of kinds that name only a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfProcess {
    /// The process.
    pub process: ProcessName,
}

/// `data` of [`Kind::Exit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitCode {
    /// The exit status.
    pub code: i32,
}

/// An id as in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawId(pub crate::rpc::RawId);

impl Serialize for RawId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: Option<&RawValue> = serde_json::from_slice(self.0.as_bytes()).ok();
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawId, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let id = crate::rpc::RawId::from_raw(raw.get().as_bytes());
        id.map(RawId).ok_or_else(|| D::Error::custom("an id is a string, a number or null"))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn message_serializes_to_one_line() {
        let msg = RawValue::from_string(r#"{"method":"x"}"#.to_owned()).unwrap();
        let line = Line {
            t: Time(Duration::from_nanos(12_345_678)),
            dir: Dir::In,
            kind: Kind::Message,
            peer: Some(Peer::Backend(ProcessId { backend: BackendId(1), generation: Generation(2) }).into()),
            msg: Some(&msg),
            raw: None,
            data: None,
        };
        expect![[r#"{"t":12.345678,"dir":"in","kind":"message","peer":{"backend":1,"generation":2},"msg":{"method":"x"}}"#]]
            .assert_eq(&serde_json::to_string(&line).unwrap());
    }

    #[test]
    fn invalid_lines_are_refused_with_reason() {
        let check = |text: &str, expected: &str| {
            let error = serde_json::from_str::<Line<'_>>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(r#"{"t":1,"dir":"in"}"#, "missing field `kind`");
        check(r#"{"t":1,"dir":"c2s","msg":{}}"#, "unknown variant `c2s`");
        check(r#"{"t":1,"dir":"in","kind":"hello"}"#, "unknown variant `hello`");
        check(r#"{"t":-1,"dir":"in","kind":"timeout"}"#, "negative");
        check(r#"{"t":1,"dir":"in","kind":"timeout","more":1}"#, "unknown field `more`");
    }

    proptest! {
        #[test]
        fn time_keeps_every_nanosecond(nanos in 0..1_000_000_000_000_000u64) {
            let time = Time(Duration::from_nanos(nanos));
            let text = serde_json::to_string(&time).unwrap();
            prop_assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), time, "{}", text);
        }
    }
}
