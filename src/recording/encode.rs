//! Turns events and effects into lines.
//!
//! Owns the methods of open requests, and the secrets.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use serde::Serialize;

use super::{
    format::{self, Dir, FORMAT, Header, Kind, PeerName, RawId, Time},
    redactor::{About, Redactor},
};
use crate::{
    builtin_tools::lsp::FileChange,
    config::Config,
    core::{
        Identity, Proxy,
        event::{ClientId, Effect, Event, Look, Peer, Seen, StoredTeam, Write},
    },
    rpc::{self, Frame},
    util::redact::is_name,
};

/// The limit of open requests.
const REMEMBERED: usize = 100_000;

/// A peer that stands for the builtin tools.
const TOOLS: Peer = Peer::Client(ClientId(u32::MAX));

/// Writes lines. Each ends with a line end.
#[derive(Debug)]
pub struct Encoder {
    redactor: Redactor,
    /// The method of each open request, by peer, direction, and id.
    asked: HashMap<(Peer, bool, rpc::RawId), VecDeque<String>>,
}

/// The backend of an effect that starts or renames a process.
pub fn about(core: &Proxy, effect: &Effect) -> Option<format::About> {
    let process = match effect {
        Effect::Spawn(process, _) | Effect::Adopt { process, .. } => process,
        Effect::Send(..)
        | Effect::Prepare { .. }
        | Effect::WatchEditor(_)
        | Effect::WriteTranscript { .. }
        | Effect::RemoveTranscript { .. }
        | Effect::RemoveTranscripts(_)
        | Effect::LoadTeams { .. }
        | Effect::WriteTeam { .. }
        | Effect::RemoveTeam { .. }
        | Effect::KeepMode(_)
        | Effect::Recall(_)
        | Effect::FindRoot(_)
        | Effect::Remember(..)
        | Effect::RunTool { .. }
        | Effect::Look(_)
        | Effect::Write(_)
        | Effect::Fetch(_)
        | Effect::CancelTool(_)
        | Effect::Measure(_)
        | Effect::Logs { .. }
        | Effect::ReadFile(_)
        | Effect::HangUp(_)
        | Effect::CloseInput(_)
        | Effect::AwaitDrained(_)
        | Effect::Terminate(_)
        | Effect::Exit(_) => return None,
    };
    let (name, tools) = core.about(process.backend)?;
    Some(format::About { name: name.to_owned(), tools })
}

impl Encoder {
    /// `secrets` are known secrets, such as tokens in variables.
    pub fn new(texts: bool, secrets: impl IntoIterator<Item = String>) -> Encoder {
        Encoder { redactor: Redactor::new(texts, secrets), asked: HashMap::new() }
    }

    /// The values of variables whose names look secret.
    pub fn secrets(variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
        variables.into_iter().filter(|(name, _)| is_name(name)).map(|(_, value)| value).collect()
    }

    /// The first line.
    pub fn header(&mut self, identity: Identity, config: &Config) -> Vec<u8> {
        let header = Header {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: identity.pid,
            started: identity.started,
            texts: self.redactor.keeps_texts(),
            config: Box::new(config.clone()),
        };
        let mut line = self.own(&header);
        line.push(b'\n');
        line
    }

    /// An event.
    pub fn event(&mut self, at: Duration, event: &Event) -> Vec<u8> {
        let line = |kind| LineOut::new(at, Dir::In, kind);
        match event {
            Event::Received(peer, frame) => self.body(line(Kind::Message).peer(*peer), *peer, frame).finish(),
            Event::Malformed { peer, id, reason } => {
                let data = self.own(&format::Malformed {
                    id: id.as_ref().map(|(id, _)| Box::new(RawId(id.clone()))),
                    request: id.as_ref().is_some_and(|(_, is_request)| *is_request),
                    reason: reason.clone(),
                });
                line(Kind::Malformed).peer(*peer).data(&data).finish()
            }
            Event::Closed { peer, error } => {
                let data = self.own(&format::Closed { error: error.clone() });
                line(Kind::Closed).peer(*peer).data(&data).finish()
            }
            Event::Unwritable(client) => line(Kind::Unwritable).peer(Peer::Client(*client)).finish(),
            Event::Prepared(Ok(it)) => {
                let data = self.own(&format::Prepared {
                    name: it.name.clone(),
                    config: Box::new(it.config.as_ref().clone()),
                    server: Box::new(it.server.clone()),
                    launch: Box::new(it.launch.masked()),
                    missing: it.missing.clone(),
                    warnings: it.warnings.clone(),
                    transcripts: it.transcripts.clone(),
                    group: it.group.clone().map(crate::core::event::Group::masked),
                    has_code_tools: it.has_code_tools,
                });
                line(Kind::Prepared).data(&data).finish()
            }
            Event::Prepared(Err(error)) => {
                let data = self.own(&format::Unprepared { error: error.clone() });
                line(Kind::Unprepared).data(&data).finish()
            }
            Event::Displaced(process, displaced) => {
                let data = self.own(displaced);
                line(Kind::Displaced).peer(Peer::Backend(*process)).data(&data).finish()
            }
            Event::Unshared(process, why) => {
                let data = self.own(&format::Unshared { why: why.clone() });
                line(Kind::Unshared).peer(Peer::Backend(*process)).data(&data).finish()
            }
            Event::Spawned { process, pid } => {
                let data = self.own(&format::Spawned { process: (*process).into(), pid: *pid });
                line(Kind::Spawned).data(&data).finish()
            }
            Event::SpawnFailed(process, failure) => {
                let data = self.own(&format::SpawnFailed {
                    process: (*process).into(),
                    permanent: failure.permanent,
                    message: failure.message.clone(),
                    moved: failure.moved.clone(),
                });
                line(Kind::SpawnFailed).data(&data).finish()
            }
            Event::Exited { process, exit, stderr } => {
                let data = self.own(&format::Exited {
                    process: (*process).into(),
                    exit: *exit,
                    stderr: stderr.clone(),
                });
                line(Kind::Exited).data(&data).finish()
            }
            Event::TranscriptWritten { process, conversation, folder } => {
                let data = self.own(&format::TranscriptWritten {
                    process: (*process).into(),
                    conversation: conversation.clone(),
                    folder: folder.clone(),
                });
                line(Kind::TranscriptWritten).data(&data).finish()
            }
            Event::TeamsLoaded(all) => {
                let state = |it: &StoredTeam| {
                    let text = it.state.as_ref().map(|it| String::from_utf8_lossy(it));
                    let state = text.map(|it| self.redactor.transcript(&it)).map_err(Clone::clone);
                    (it.name.clone(), state)
                };
                let data = json(&format::TeamsLoaded { teams: all.iter().map(state).collect() });
                line(Kind::TeamsLoaded).data(&data).finish()
            }
            Event::TeamWritten { number, team, written } => {
                let (number, team, written) = (*number, team.clone(), written.clone());
                let data = self.own(&format::TeamWritten { number, team, written });
                line(Kind::TeamWritten).data(&data).finish()
            }
            Event::ModeKept { number, kept } => {
                let data = self.own(&format::ModeKept { number: *number, kept: kept.clone() });
                line(Kind::ModeKept).data(&data).finish()
            }
            Event::Recalled(members) => {
                let data = self.own(&format::Recalled { members: members.clone() });
                line(Kind::Recalled).data(&data).finish()
            }
            Event::RootFound(it) => line(Kind::RootFound).data(&self.own(it)).finish(),
            Event::ToolRan(answer) => self.body(line(Kind::ToolRan), TOOLS, answer).finish(),
            Event::Looked(seen) => {
                let data = self.seen(seen);
                line(Kind::Looked).data(&data).finish()
            }
            Event::Wrote(wrote) => line(Kind::Wrote).data(&self.own(wrote)).finish(),
            Event::Fetched(fetched) => line(Kind::Fetched).data(&self.own(fetched)).finish(),
            Event::FileRead { path, text } => {
                let masked = |it: &String| match self.redactor.keeps_texts() {
                    true => it.clone(),
                    false => self.redactor.content(it),
                };
                let text = text.as_ref().map(masked);
                line(Kind::FileRead).data(&self.own(&format::FileRead { path: path.clone(), text })).finish()
            }
            Event::Measured(all) => {
                let processes = all.resident.iter().map(|(process, bytes)| ((*process).into(), *bytes));
                let dropped = all.dropped.clone();
                let data = self.own(&format::Measured { processes: processes.collect(), dropped });
                line(Kind::Measured).data(&data).finish()
            }
            Event::FilesChanged => line(Kind::FilesChanged).finish(),
            Event::EditorReads(reads) => {
                let data = self.own(&format::EditorReads { reads: *reads });
                line(Kind::EditorReads).data(&data).finish()
            }
            Event::Muttered(process) => line(Kind::Muttered).peer(Peer::Backend(*process)).finish(),
            Event::Drained(process) => line(Kind::Drained).peer(Peer::Backend(*process)).finish(),
            Event::Stalled(peer) => line(Kind::Stalled).peer(*peer).finish(),
            Event::EditorGone => line(Kind::EditorGone).finish(),
            Event::Quit(signal) => {
                let data = self.own(&format::Quit { signal: *signal });
                line(Kind::Quit).data(&data).finish()
            }
        }
    }

    /// A timeout.
    pub fn timeout(at: Duration) -> Vec<u8> {
        LineOut::new(at, Dir::In, Kind::Timeout).finish()
    }

    /// The core has panicked.
    pub fn panic(at: Duration) -> Vec<u8> {
        LineOut::new(at, Dir::Out, Kind::Panic).finish()
    }

    /// The last line.
    pub fn end(at: Duration, kind: Kind) -> Vec<u8> {
        LineOut::new(at, Dir::End, kind).finish()
    }

    /// An effect. `backend` is the result of [`about`].
    pub fn effect(&mut self, at: Duration, effect: &Effect, backend: Option<format::About>) -> Vec<u8> {
        let line = |kind| LineOut::new(at, Dir::Out, kind);
        match effect {
            Effect::Send(peer, frame) => self.body(line(Kind::Message).peer(*peer), *peer, frame).finish(),
            Effect::Prepare { folders } => {
                let data = self.own(&format::Prepare { folders: folders.clone() });
                line(Kind::Prepare).data(&data).finish()
            }
            Effect::WatchEditor(pid) => {
                let data = self.own(&format::WatchEditor { pid: *pid });
                line(Kind::WatchEditor).data(&data).finish()
            }
            Effect::Spawn(process, launch) => {
                let launch = Box::new(launch.masked());
                let data = self.own(&format::Spawn { process: (*process).into(), backend, launch });
                line(Kind::Spawn).data(&data).finish()
            }
            Effect::Adopt { spare, process } => {
                let (spare, process) = ((*spare).into(), (*process).into());
                let data = self.own(&format::Adopt { spare, process, backend });
                line(Kind::Adopt).data(&data).finish()
            }
            Effect::WriteTranscript { process, conversation, content, kept } => {
                let content = self.redactor.transcript(&String::from_utf8_lossy(content));
                let data = json(&format::WriteTranscript {
                    process: (*process).into(),
                    conversation: conversation.clone(),
                    content,
                    kept: kept.clone(),
                });
                line(Kind::WriteTranscript).data(&data).finish()
            }
            Effect::RemoveTranscript { kept, conversation } => {
                let (kept, conversation) = (kept.clone(), conversation.clone());
                let data = self.own(&format::RemoveTranscript { kept, conversation });
                line(Kind::RemoveTranscript).data(&data).finish()
            }
            Effect::LoadTeams { folders } => {
                let data = self.own(&format::Prepare { folders: folders.clone() });
                line(Kind::LoadTeams).data(&data).finish()
            }
            Effect::WriteTeam { number, folders, team, content, is_new } => {
                let content = self.redactor.transcript(&String::from_utf8_lossy(content));
                let (number, folders, team) = (*number, folders.clone(), team.clone());
                let data = json(&format::WriteTeam { number, folders, team, content, is_new: *is_new });
                line(Kind::WriteTeam).data(&data).finish()
            }
            Effect::RemoveTeam { folders, team } => {
                let data = self.own(&format::RemoveTeam { folders: folders.clone(), team: team.clone() });
                line(Kind::RemoveTeam).data(&data).finish()
            }
            Effect::RemoveTranscripts(process) => {
                let data = self.own(&format::OfProcess { process: (*process).into() });
                line(Kind::RemoveTranscripts).data(&data).finish()
            }
            Effect::KeepMode(it) => line(Kind::KeepMode).data(&self.own(it)).finish(),
            Effect::FindRoot(it) => line(Kind::FindRoot).data(&self.own(it)).finish(),
            Effect::Recall(all) => {
                let members = all.iter().map(|it| it.member.clone()).collect();
                line(Kind::Recall).data(&self.own(&format::Members { members })).finish()
            }
            // The message before this line has the result.
            Effect::Remember(it, _) => {
                let members = vec![it.member.clone()];
                line(Kind::Remember).data(&self.own(&format::Members { members })).finish()
            }
            Effect::RunTool { call, scope } => {
                let data = self.own(scope);
                self.body(line(Kind::RunTool), TOOLS, call).data(&data).finish()
            }
            Effect::CancelTool(id) => {
                let data = self.own(&format::CancelTool { id: Box::new(RawId(id.clone())) });
                line(Kind::CancelTool).data(&data).finish()
            }
            Effect::Look(look) => line(Kind::Look).data(&self.look(look)).finish(),
            Effect::Write(write) => {
                let data = self.write(write);
                line(Kind::Write).data(&data).finish()
            }
            Effect::Fetch(fetch) => {
                let data = self.own(&format::Fetch { number: fetch.number, files: fetch.files.clone() });
                line(Kind::Fetch).data(&data).finish()
            }
            Effect::Measure(all) => {
                let processes = all.iter().map(|it| (*it).into()).collect();
                let data = self.own(&format::Measure { processes });
                line(Kind::Measure).data(&data).finish()
            }
            Effect::Logs { backend, client, id, follow } => {
                let id = Box::new(RawId(id.clone()));
                let data = self.own(&format::Logs { backend: backend.0, id, follow: *follow });
                line(Kind::Logs).peer(Peer::Client(*client)).data(&data).finish()
            }
            Effect::ReadFile(path) => line(Kind::ReadFile).data(&self.own(path)).finish(),
            Effect::HangUp(client) => line(Kind::HangUp).peer(Peer::Client(*client)).finish(),
            Effect::CloseInput(process) => {
                let data = self.own(&format::OfProcess { process: (*process).into() });
                line(Kind::CloseInput).data(&data).finish()
            }
            Effect::AwaitDrained(process) => {
                let data = self.own(&format::OfProcess { process: (*process).into() });
                line(Kind::AwaitDrained).data(&data).finish()
            }
            Effect::Terminate(process) => {
                let data = self.own(&format::OfProcess { process: (*process).into() });
                line(Kind::Terminate).data(&data).finish()
            }
            Effect::Exit(code) => {
                let data = self.own(&format::ExitCode { code: *code });
                line(Kind::Exit).data(&data).finish()
            }
        }
    }

    fn body(&mut self, line: LineOut, peer: Peer, frame: &Frame) -> LineOut {
        let is_in = line.dir == Dir::In;
        let is_own = frame.method() == Some("workspace/executeCommand")
            && frame
                .params()
                .and_then(|it| rpc::text(it, &["command"]))
                .is_some_and(|it| it.starts_with("lspool."));
        let method = if is_own { Some("lspool/command") } else { frame.method() };
        let (method, is_answer) = match (method, frame.id()) {
            (Some(method), Some(id)) => {
                if self.asked.len() < REMEMBERED {
                    let asked = self.asked.entry((peer, is_in, id)).or_default();
                    asked.push_back(method.to_owned());
                    asked.truncate(REMEMBERED);
                }
                (method.to_owned(), false)
            }
            (Some(method), None) => (method.to_owned(), false),
            (None, Some(id)) => (self.answered(&(peer, !is_in, id), frame), true),
            (None, None) => (String::new(), false),
        };
        let bytes = frame.to_bytes();
        let body = String::from_utf8_lossy(&bytes);
        match self.redactor.message(About { method: &method, is_answer }, &body) {
            Some(msg) => line.raw_member("msg", &msg),
            None => line.raw_member("raw", &json(&self.redactor.broken(&body))),
        }
    }

    /// The method of the request that this answers. If several have the id, it is the first; but lspool refuses an id
    /// in use at once.
    fn answered(&mut self, key: &(Peer, bool, rpc::RawId), answer: &Frame) -> String {
        let Some(asked) = self.asked.get_mut(key) else { return String::new() };
        let cause = answer.error_value().and_then(|it| rpc::text(it, &["data", "lspool", "cause"]));
        let method = match cause.as_deref() {
            Some("invalid request") => asked.pop_back(),
            Some(_) | None => asked.pop_front(),
        };
        if asked.is_empty() {
            self.asked.remove(key);
        }
        method.unwrap_or_default()
    }

    /// What was seen of files. Their texts are masked like those of documents.
    fn seen(&mut self, seen: &Seen) -> Vec<u8> {
        if self.redactor.keeps_texts() {
            return self.own(seen);
        }
        let mut seen = seen.clone();
        for (_, text) in &mut seen.texts {
            if let Ok(text) = text {
                *text = self.redactor.content(text);
            }
        }
        for (_, text) in seen.hits.iter_mut().flat_map(|it| &mut it.lines) {
            *text = self.redactor.content(text);
        }
        self.own(&seen)
    }

    /// A look at files. A text that is searched for is masked like those of documents.
    fn look(&mut self, look: &Look) -> Vec<u8> {
        let mut look = look.clone();
        if let Some(grep) = look.grep.as_mut().filter(|_| !self.redactor.keeps_texts()) {
            grep.query = self.redactor.content(&grep.query);
        }
        self.own(&look)
    }

    fn write(&mut self, write: &Write) -> Vec<u8> {
        let mut write = write.clone();
        if !self.redactor.keeps_texts() {
            for change in &mut write.changes {
                if let FileChange::Put { text, .. } = change {
                    *text = self.redactor.content(text);
                }
            }
        }
        self.own(&write)
    }

    /// A value of lspool itself, without secrets.
    fn own(&mut self, it: &impl Serialize) -> Vec<u8> {
        let json = json(it);
        let text = String::from_utf8_lossy(&json);
        self.redactor.own(&text).unwrap_or_default()
    }
}

/// Leaves out values that are not text, such as a path in another encoding.
fn json(it: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(it).unwrap_or_else(|error| {
        tracing::warn!(%error, "could not record a value");
        b"null".to_vec()
    })
}

/// A line to write.
struct LineOut {
    dir: Dir,
    text: Vec<u8>,
}

impl LineOut {
    fn new(at: Duration, dir: Dir, kind: Kind) -> LineOut {
        let mut line = LineOut { dir, text: Vec::new() };
        line.text.extend_from_slice(b"{\"t\":");
        line.text.extend_from_slice(&json(&Time(at)));
        line.raw_member("dir", &json(&dir)).raw_member("kind", &json(&kind))
    }

    fn peer(self, peer: Peer) -> LineOut {
        self.raw_member("peer", &json(&PeerName::from(peer)))
    }

    fn data(self, data: &[u8]) -> LineOut {
        if data == b"{}" {
            return self;
        }
        self.raw_member("data", data)
    }

    fn raw_member(mut self, name: &str, json: &[u8]) -> LineOut {
        self.text.extend_from_slice(b",\"");
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
        self.text.extend_from_slice(json);
        self
    }

    fn finish(mut self) -> Vec<u8> {
        self.text.extend_from_slice(b"}\n");
        self.text
    }
}
