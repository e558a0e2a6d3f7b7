//! Turns lines into inputs of the core.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use super::format::{self, Kind, Line, PeerName};
use crate::{
    core::event::{Event, Measured, Peer, Prepared, ProcessId, SpawnFailure, StoredTeam, TeamFault},
    rpc::Frame,
};

/// An input of the core.
#[derive(Clone, Debug)]
pub enum Input {
    /// An event.
    Event(Event),
    /// A timeout.
    Timeout,
}

/// The input in a line `in`, or its error.
pub fn input(line: &Line<'_>) -> Result<Input, String> {
    let event = match line.kind {
        Kind::Message => Event::Received(peer(line)?, frame(line)?),
        Kind::Malformed => {
            let it: format::Malformed = data(line)?;
            let id = it.id.map(|id| (id.0, it.request));
            Event::Malformed { peer: peer(line)?, id, reason: it.reason }
        }
        Kind::Closed => {
            let it: format::Closed = match line.data {
                Some(_) => data(line)?,
                None => format::Closed { error: None },
            };
            Event::Closed { peer: peer(line)?, error: it.error }
        }
        Kind::Unwritable => match peer(line)? {
            Peer::Client(client) => Event::Unwritable(client),
            Peer::Backend(_) => return Err("`unwritable` is of clients".to_owned()),
        },
        Kind::Prepared => {
            let it: format::Prepared = data(line)?;
            Event::Prepared(Ok(Box::new(Prepared {
                config: Arc::new(*it.config),
                name: it.name,
                server: *it.server,
                launch: Arc::new(*it.launch),
                missing: it.missing,
                warnings: it.warnings,
                transcripts: it.transcripts,
                group: it.group,
                has_code_tools: it.has_code_tools,
            })))
        }
        Kind::Unprepared => Event::Prepared(Err(data::<format::Unprepared>(line)?.error)),
        Kind::Spawned => {
            let it: format::Spawned = data(line)?;
            Event::Spawned { process: it.process.into(), pid: it.pid }
        }
        Kind::SpawnFailed => {
            let it: format::SpawnFailed = data(line)?;
            let failure = SpawnFailure { permanent: it.permanent, message: it.message, moved: it.moved };
            Event::SpawnFailed(it.process.into(), failure)
        }
        Kind::Exited => {
            let it: format::Exited = data(line)?;
            Event::Exited { process: it.process.into(), exit: it.exit, stderr: it.stderr }
        }
        Kind::TranscriptWritten => {
            let it: format::TranscriptWritten = data(line)?;
            let format::TranscriptWritten { process, conversation, folder } = it;
            Event::TranscriptWritten { process: process.into(), conversation, folder }
        }
        Kind::TeamsLoaded => {
            let it: format::TeamsLoaded = data(line)?;
            let team = |(name, state): (String, Result<String, TeamFault>)| StoredTeam {
                name,
                state: state.map(Into::into),
            };
            Event::TeamsLoaded(it.teams.into_iter().map(team).collect())
        }
        Kind::TeamWritten => {
            let it: format::TeamWritten = data(line)?;
            Event::TeamWritten { number: it.number, team: it.team, written: it.written }
        }
        Kind::ModeKept => {
            let format::ModeKept { number, kept } = data(line)?;
            Event::ModeKept { number, kept }
        }
        Kind::RootFound => Event::RootFound(data(line)?),
        Kind::Recalled => Event::Recalled(data::<format::Recalled>(line)?.members),
        Kind::ToolRan => Event::ToolRan(frame(line)?),
        Kind::Looked => Event::Looked(Box::new(data(line)?)),
        Kind::Wrote => Event::Wrote(Box::new(data(line)?)),
        Kind::Fetched => Event::Fetched(data(line)?),
        Kind::FileRead => {
            let it: format::FileRead = data(line)?;
            Event::FileRead { path: it.path, text: it.text }
        }
        Kind::Measured => {
            let it: format::Measured = data(line)?;
            let resident = it.processes.into_iter().map(|(process, bytes)| (process.into(), bytes));
            Event::Measured(Box::new(Measured { resident: resident.collect(), dropped: it.dropped }))
        }
        Kind::FilesChanged => Event::FilesChanged,
        Kind::EditorReads => Event::EditorReads(data::<format::EditorReads>(line)?.reads),
        Kind::Displaced => Event::Displaced(process(line)?, data(line)?),
        Kind::Unshared => Event::Unshared(process(line)?, data::<format::Unshared>(line)?.why),
        Kind::Muttered => Event::Muttered(process(line)?),
        Kind::Drained => Event::Drained(process(line)?),
        Kind::Stalled => Event::Stalled(peer(line)?),
        Kind::EditorGone => Event::EditorGone,
        Kind::Quit => Event::Quit(data::<format::Quit>(line)?.signal),
        Kind::Timeout => return Ok(Input::Timeout),
        Kind::Prepare
        | Kind::WatchEditor
        | Kind::Spawn
        | Kind::Adopt
        | Kind::WriteTranscript
        | Kind::RemoveTranscript
        | Kind::RemoveTranscripts
        | Kind::LoadTeams
        | Kind::WriteTeam
        | Kind::RemoveTeam
        | Kind::KeepMode
        | Kind::FindRoot
        | Kind::Recall
        | Kind::Remember
        | Kind::RunTool
        | Kind::CancelTool
        | Kind::Look
        | Kind::Write
        | Kind::Fetch
        | Kind::Measure
        | Kind::Logs
        | Kind::ReadFile
        | Kind::HangUp
        | Kind::CloseInput
        | Kind::AwaitDrained
        | Kind::Terminate
        | Kind::Exit
        | Kind::Panic
        | Kind::Done
        | Kind::Full
        | Kind::TooSlow => return Err("expected an event in a line `in`".to_owned()),
    };
    Ok(Input::Event(event))
}

fn peer(line: &Line<'_>) -> Result<Peer, String> {
    line.peer.map(PeerName::into).ok_or_else(|| "`peer` is missing".to_owned())
}

fn process(line: &Line<'_>) -> Result<ProcessId, String> {
    match peer(line)? {
        Peer::Backend(process) => Ok(process),
        Peer::Client(_) => Err("`peer` is no process".to_owned()),
    }
}

fn data<'a, T: Deserialize<'a>>(line: &Line<'a>) -> Result<T, String> {
    let data = line.data.ok_or("`data` is missing")?;
    // From bytes like everything else, or the compiler would generate the code twice.
    serde_json::from_slice(data.get().as_bytes()).map_err(|error| format!("`data`: {error}"))
}

fn frame(line: &Line<'_>) -> Result<Frame, String> {
    let (name, body) = match (line.msg, &line.raw) {
        (Some(msg), None) => ("msg", msg.get()),
        (None, Some(raw)) => ("raw", &**raw),
        (Some(_), Some(_)) | (None, None) => return Err("one of `msg` and `raw` is needed".to_owned()),
    };
    let body = Bytes::copy_from_slice(body.as_bytes());
    Frame::parse(body).map_err(|error| format!("`{name}` is not a message: {error}"))
}
