//! What a line of a recording is.
//!
//! The first line is the [`Header`]. Each other one is a [`Line`]: an event, an effect, or the end. All lines have the same few
//! members, so that a reader of messages need know nothing of the rest; what else an event or effect carries is in
//! `data`, as the type here that is named like its [`Kind`].

use std::{borrow::Cow, path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

use crate::{
    config::{Config, ServerConfig},
    core::{
        Identity,
        event::{BackendId, ClientId, Drops, Exit, Generation, KeptMode, Launch, Peer, ProcessId, TeamFault},
    },
};

/// The number of the format that this lspool writes and reads.
pub const FORMAT: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The number of the format: [`FORMAT`].
    #[serde(rename = "lspool-recording")]
    pub format: u32,
    /// Of the lspool that wrote it.
    pub version: String,
    /// Process id of that lspool; with `started`, the seed of all ids it made up.
    pub pid: u32,
    /// When it started, in milliseconds since 1970.
    pub started: u64,
    /// Whether texts are as they were, not masked.
    pub texts: bool,
    /// The user's configuration at the start. What holds for the workspace is told by a line [`Kind::Prepared`].
    pub config: Box<Config>,
}

impl Header {
    /// What makes ids.
    pub fn identity(&self) -> Identity {
        Identity { pid: self.pid, started: self.started }
    }
}

/// Any line but the first. Borrows from the text it was read from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line<'a> {
    /// When, since the first line was written.
    pub t: Time,
    /// Whether the core was told it, or answered it.
    pub dir: Dir,
    /// What it is.
    pub kind: Kind,
    /// Who sent it, or whom it is for: of messages and of what happens to streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerName>,
    /// The message, of a line [`Kind::Message`], [`Kind::RunTool`] or [`Kind::ToolRan`].
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub msg: Option<&'a RawValue>,
    /// Instead of `msg`: the body of a message whose parameters, result or error are no valid JSON.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Cow<'a, str>>,
    /// What else there is to say.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
}

/// Time since the start of a recording: in milliseconds, with all digits that were measured.
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

/// Which way a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dir {
    /// The core was told it: an event.
    In,
    /// The core answered it: an effect of the last event.
    Out,
    /// Neither: the recording ends here.
    End,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// In or out: a message. Has a `peer`, and `msg` or `raw`.
    Message,

    /// In: `peer` sent something that is no message. [`Malformed`].
    Malformed,
    /// In: `peer` will send no more. [`Closed`].
    Closed,
    /// In: `peer` cannot be written to.
    Unwritable,
    /// In: the server was found. [`Prepared`].
    Prepared,
    /// In: it was not. [`Unprepared`].
    Unprepared,
    /// In: `peer` is about to run, and not in its working folder. [`Displaced`](crate::core::event::Displaced).
    Displaced,
    /// In: a process runs. [`Spawned`].
    Spawned,
    /// In: it could not be started. [`SpawnFailed`].
    SpawnFailed,
    /// In: it is gone. [`Exited`].
    Exited,
    /// In: a history was written to a file. [`TranscriptWritten`].
    TranscriptWritten,
    /// In: the teams of the workspace. [`TeamsLoaded`].
    TeamsLoaded,
    /// In: a team is stored, or not. [`TeamWritten`].
    TeamWritten,
    /// In: the file of a chat mode is as it is to be. [`ModeKept`].
    ModeKept,
    /// In: what came of a call of one of lspool's own tools, as a client's answer. Has `msg` or `raw`.
    ToolRan,
    /// In: how much memory processes hold, and what was dropped. [`Measured`].
    Measured,
    /// In: a configuration file has changed.
    FilesChanged,
    /// In: the editor reads again, or not. [`EditorReads`].
    EditorReads,
    /// In: `peer` writes to stderr while it starts.
    Muttered,
    /// In: `peer` has read nearly all that it was told.
    Drained,
    /// In: `peer` takes nothing.
    Stalled,
    /// In: the editor's process is gone.
    EditorGone,
    /// In: a signal. [`Quit`].
    Quit,
    /// In: what the core waited for has become due.
    Timeout,

    /// Out: find the server. [`Prepare`].
    Prepare,
    /// Out: tell when the editor's process is gone. [`WatchEditor`].
    WatchEditor,
    /// Out: start a process. [`Spawn`].
    Spawn,
    /// Out: a process that was kept ready is another one from now on. [`Adopt`].
    Adopt,
    /// Out: write a history to a file. [`WriteTranscript`].
    WriteTranscript,
    /// Out: remove one. [`RemoveTranscript`].
    RemoveTranscript,
    /// Out: remove all of a process. [`OfProcess`].
    RemoveTranscripts,
    /// Out: read the teams of the workspace. [`Prepare`].
    LoadTeams,
    /// Out: store one. [`WriteTeam`].
    WriteTeam,
    /// Out: remove one. [`RemoveTeam`].
    RemoveTeam,
    /// Out: see to the file of a chat mode. [`KeepMode`](crate::core::event::KeepMode).
    KeepMode,
    /// Out: carry out a call of one of lspool's own tools. Has `msg` or `raw`, the request as a client would be asked, and
    /// [`Scope`].
    RunTool,
    /// Out: nobody wants it any more. [`CancelTool`].
    CancelTool,
    /// Out: measure the memory of processes. [`Measure`].
    Measure,
    /// Out: show `peer` what a backend has written to stderr. [`Logs`].
    Logs,
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
    /// End: the file is as large as it may become.
    Full,
    /// End: the disk did not keep up.
    TooSlow,
}

/// The far end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum PeerName {
    /// `{"client": 0}` is the editor; others are control clients, such as `lspool status`.
    Client {
        /// Its number.
        client: u32,
    },
    /// `{"backend": 1, "generation": 2}`. The line [`Kind::Spawn`] or [`Kind::Adopt`] of the process says what it is.
    Process(ProcessName),
}

/// A process: which backend it serves, and which of its processes it is, counted from 1.
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

/// Of [`Kind::Malformed`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Malformed {
    /// The id, if one could be read: a string, a number or `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Box<RawId>>,
    /// Whether it seems to be a request.
    #[serde(default)]
    pub request: bool,
    /// What is wrong with it.
    pub reason: String,
}

/// Of [`Kind::Closed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// Absent: a plain end of file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Of [`Kind::Prepared`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    /// Name of the server.
    pub name: String,
    /// The configuration that holds in the workspace.
    pub config: Box<Config>,
    /// The server's section of it.
    pub server: Box<ServerConfig>,
    /// How it is started.
    pub launch: Box<Launch>,
    /// Why it cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// What the user should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Where it keeps what it tells the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcripts: Option<PathBuf>,
}

/// Of [`Kind::Unprepared`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unprepared {
    /// Why.
    pub error: String,
}

/// Of [`Kind::Spawned`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawned {
    /// Which.
    pub process: ProcessName,
    /// Its process id.
    pub pid: u32,
}

/// Of [`Kind::SpawnFailed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnFailed {
    /// Which.
    pub process: ProcessName,
    /// Whether trying again cannot help.
    pub permanent: bool,
    /// What went wrong.
    pub message: String,
}

/// Of [`Kind::Exited`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exited {
    /// Which.
    pub process: ProcessName,
    /// How: `{"code": 0}`, `{"signal": 9}` or `"unknown"`.
    pub exit: Exit,
    /// The last that it wrote to stderr.
    pub stderr: String,
}

/// Of [`Kind::TranscriptWritten`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranscriptWritten {
    /// For which process.
    pub process: ProcessName,
    /// Of which conversation.
    pub conversation: String,
    /// Where it is: `{"Ok": folder}`, or `{"Err": why it is nowhere}`.
    pub folder: Result<PathBuf, String>,
}

/// Of [`Kind::TeamsLoaded`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamsLoaded {
    /// Each by name, with its state: `{"Ok": state}`, or `{"Err": why it cannot be had}`.
    pub teams: Vec<(String, Result<String, TeamFault>)>,
}

/// Of [`Kind::TeamWritten`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamWritten {
    /// The number of the effect.
    pub number: u64,
    /// Which.
    pub team: String,
    /// `{"Ok": null}`, or `{"Err": why it is not}`.
    pub written: Result<(), TeamFault>,
}

/// Of [`Kind::ModeKept`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeKept {
    /// The number of the effect that asked for it.
    pub number: u64,
    /// The file: `{"Ok": …}`, or `{"Err": why there is none}`.
    pub kept: Result<KeptMode, String>,
}

/// Of [`Kind::Measured`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Each process and its bytes.
    pub processes: Vec<(ProcessName, u64)>,
    /// What was dropped since lspool started.
    #[serde(default, skip_serializing_if = "Drops::is_empty")]
    pub dropped: Drops,
}

/// Of [`Kind::EditorReads`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditorReads {
    /// Whether it does.
    pub reads: bool,
}

/// Of [`Kind::Quit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quit {
    /// The signal's number.
    pub signal: i32,
}

/// Of [`Kind::Prepare`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// The workspace folders.
    pub folders: Vec<PathBuf>,
}

/// Of [`Kind::WatchEditor`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchEditor {
    /// The process.
    pub pid: u32,
}

/// Of [`Kind::Spawn`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    /// Which.
    pub process: ProcessName,
    /// What the backend is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<About>,
    /// How it is started.
    pub launch: Box<Launch>,
}

/// Of [`Kind::Adopt`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adopt {
    /// What the process was.
    pub spare: ProcessName,
    /// What it is from now on.
    pub process: ProcessName,
    /// What the backend is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<About>,
}

/// What a backend is, for those who read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// As people read it.
    pub name: String,
    /// The tools of its conversations: names as they were declared, `!` before those taken out, `["*"]` for every tool.
    /// That of a process kept ready is empty.
    pub tools: Vec<String>,
}

/// Of [`Kind::WriteTranscript`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteTranscript {
    /// For which process.
    pub process: ProcessName,
    /// Of which conversation.
    pub conversation: String,
    /// What is written: lines of JSON.
    pub content: String,
    /// Where, if not in a folder of the process's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathBuf>,
}

/// Of [`Kind::WriteTeam`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteTeam {
    /// No other one has it.
    pub number: u64,
    /// The folders of its workspace.
    pub folders: Vec<PathBuf>,
    /// Which.
    pub team: String,
    /// Its state, as JSON.
    pub content: String,
    /// It is made.
    pub is_new: bool,
}

/// Of [`Kind::RemoveTeam`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveTeam {
    /// The folders of its workspace.
    pub folders: Vec<PathBuf>,
    /// Which.
    pub team: String,
}

/// Of [`Kind::RemoveTranscript`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveTranscript {
    /// Where.
    pub kept: PathBuf,
    /// Of which conversation.
    pub conversation: String,
}

pub use crate::core::event::Scope;

/// Of [`Kind::CancelTool`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelTool {
    /// Under which id it was asked for.
    pub id: Box<RawId>,
}

/// Of [`Kind::Measure`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Which.
    pub processes: Vec<ProcessName>,
}

/// Of [`Kind::Logs`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// Whose.
    pub backend: u32,
    /// The id of the request that asked for them.
    pub id: Box<RawId>,
    /// Whether to go on.
    pub follow: bool,
}

/// Of the kinds that say nothing but which process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfProcess {
    /// Which.
    pub process: ProcessName,
}

/// Of [`Kind::Exit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitCode {
    /// The exit status.
    pub code: i32,
}

/// An id as it stands in a message.
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
