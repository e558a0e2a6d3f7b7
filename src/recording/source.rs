//! Reads what was recorded, line by line, into one form.
//!
//! Two kinds of files are understood: what lspool records itself (`docs/fixtures.md` says what its lines are), and
//! transcripts, in which each line is a message: `{"t": ms, "dir": "c2s"|"s2c", "msg": {…}, "proc"?: "name"}`. No more than
//! one line is held. A last line that was torn, as by a kill, is left out and noted; anything else that does not
//! belong there is an error that names its line.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io::BufRead,
    ops::Range,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    format::{Dir, Kind, Line, PeerName, ProcessName, Time},
    mask,
    reader::{Problem, Reader, words},
};
use crate::rpc::{self, Frame};

/// The editor's side of a recording of lspool.
pub const EDITOR: &str = "editor";
/// In the place of a process: every one.
pub const EVERY: &str = "*";

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The editor, or whoever is in its place.
    Client,
    /// The language server, or lspool in its place.
    Server,
}

/// One thing that was recorded.
#[derive(Clone, Debug)]
pub struct Entry {
    /// On which line it stands.
    pub line: usize,
    /// When it was, from the beginning.
    pub at: Duration,
    /// With whom: [`EDITOR`] or a process such as `0.1` in a recording of lspool; the `proc` of a transcript, or nothing.
    pub process: Arc<str>,
    /// What.
    pub what: What,
}

/// What was recorded.
#[derive(Clone, Debug)]
pub enum What {
    /// A message.
    Said(Side, Frame),
    /// Something that is no message, or is one whose parameters, result or error are no JSON.
    Unreadable {
        /// Who said it.
        side: Side,
        /// Its id, as JSON, if it may be a request.
        id: Option<String>,
        /// What is wrong with it.
        reason: String,
    },
    /// Anything else that lspool was told or did: its kind, and what there is to say of it.
    Happened(Kind, Value),
}

/// A part of a message; `null` if it is not there, or no JSON. Half a character, as where a server cuts what a model
/// says, is a replacement character.
pub fn parsed(raw: Option<&[u8]>) -> Value {
    let Some(raw) = raw else { return Value::Null };
    serde_json::from_slice(raw).unwrap_or_else(|_| {
        let whole = str::from_utf8(raw).map(mask::without_halves);
        whole.ok().and_then(|it| serde_json::from_str(&it).ok()).unwrap_or_default()
    })
}

/// The lines of a recording.
#[derive(Debug)]
pub struct Source<R> {
    lines: Reader<R>,
    names: BTreeMap<String, Arc<str>>,
    form: Form,
    is_masked: bool,
    torn: Option<usize>,
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Nothing has been read.
    Unknown,
    Transcript,
    Lspool,
}

/// A line of a transcript.
#[derive(Deserialize)]
struct Said<'a> {
    t: Time,
    dir: Cow<'a, str>,
    #[serde(default, borrow)]
    proc: Option<Cow<'a, str>>,
    #[serde(borrow)]
    msg: &'a RawValue,
}

/// Of the adoption of a process.
#[derive(Deserialize)]
struct OfSpare {
    spare: ProcessName,
}

/// Of what happens to a process.
#[derive(Deserialize)]
struct OfProcess {
    process: ProcessName,
}

impl<R: BufRead> Source<R> {
    /// Reads from its beginning on.
    pub fn new(input: R) -> Source<R> {
        Source {
            lines: Reader::new(input),
            names: BTreeMap::new(),
            form: Form::Unknown,
            is_masked: false,
            torn: None,
            is_over: false,
        }
    }

    /// Whether it is one of lspool's own. Known once something was read.
    pub fn is_of_lspool(&self) -> bool {
        self.form == Form::Lspool
    }

    /// Whether letters of texts were replaced by `x` when it was recorded.
    pub fn is_masked(&self) -> bool {
        self.is_masked
    }

    /// What a user should know of the file although it can be used.
    pub fn note(&self) -> Option<String> {
        self.torn.map(|line| format!("line {line}, the last one, was torn and is left out"))
    }

    fn read(&mut self) -> Result<Option<Entry>, Problem> {
        while self.lines.read()? {
            match self.entry() {
                Ok(None) => {}
                Err(_) if self.lines.is_torn() && self.form != Form::Unknown => {
                    self.torn = Some(self.lines.number());
                    return Ok(None);
                }
                entry => return entry,
            }
        }
        match self.form {
            Form::Unknown => Err(Problem { line: 1, what: "the recording is empty".to_owned() }),
            Form::Transcript | Form::Lspool => Ok(None),
        }
    }

    fn entry(&mut self) -> Result<Option<Entry>, Problem> {
        match self.form {
            Form::Lspool => self.line_of_lspool(),
            Form::Transcript => self.line_of_transcript().map(Some),
            Form::Unknown => match self.lines.header()? {
                Ok(header) => {
                    self.form = Form::Lspool;
                    self.is_masked = !header.texts;
                    Ok(None)
                }
                Err(_) => {
                    let entry = self.line_of_transcript().map_err(|problem| {
                        self.lines.problem(&format!(
                            "this is neither the header of a recording of lspool nor a line of a transcript: {}",
                            problem.what
                        ))
                    })?;
                    self.form = Form::Transcript;
                    Ok(Some(entry))
                }
            },
        }
    }

    fn line_of_transcript(&mut self) -> Result<Entry, Problem> {
        let said: Said<'_> =
            serde_json::from_slice(self.lines.text()).map_err(|error| self.lines.problem(&words(&error)))?;
        let side = match said.dir.as_ref() {
            "c2s" => Side::Client,
            "s2c" => Side::Server,
            other => {
                let what = format!("`dir` is {other:?}, neither \"c2s\" nor \"s2c\"");
                return Err(self.lines.problem(&what));
            }
        };
        let what = what_is_said(side, said.msg.get()).map_err(|it| self.lines.problem(&it))?;
        let (at, process) = (said.t.0, said.proc.unwrap_or_default().into_owned());
        Ok(Entry { line: self.lines.number(), at, process: self.name(&process), what })
    }

    fn line_of_lspool(&mut self) -> Result<Option<Entry>, Problem> {
        let number = self.lines.number();
        let line = self.lines.line()?;
        let (process, is_client) = match line.peer {
            Some(PeerName::Client { client: 0 }) => (EDITOR.to_owned(), true),
            // Who controls lspool takes no part in the session.
            Some(PeerName::Client { .. }) => return Ok(None),
            Some(PeerName::Process(process)) => (called(process), false),
            None => {
                let of = line.data.and_then(|it| serde_json::from_str::<OfProcess>(it.get()).ok());
                (of.map_or_else(|| EDITOR.to_owned(), |it| called(it.process)), false)
            }
        };
        let side = if (line.dir == Dir::In) == is_client { Side::Client } else { Side::Server };
        let what = match (line.kind, line.msg) {
            (Kind::Message, Some(msg)) => {
                what_is_said(side, msg.get()).map_err(|what| Problem { line: number, what })?
            }
            (Kind::Message, None) => without_json(side, line.raw.as_deref().unwrap_or_default()),
            (Kind::Malformed, _) => malformed(side, &data(&line)),
            (kind, _) => What::Happened(kind, data(&line)),
        };
        let at = line.t.0;
        Ok(Some(Entry { line: number, at, process: self.name(&process), what }))
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let fresh: Arc<str> = name.into();
        self.names.insert(name.to_owned(), fresh.clone());
        fresh
    }
}

fn what_is_said(side: Side, message: &str) -> Result<What, String> {
    let frame = Frame::parse(Bytes::copy_from_slice(message.as_bytes()));
    frame.map(|it| What::Said(side, it)).map_err(|it| format!("`msg` is no message: {it}"))
}

fn without_json(side: Side, message: &str) -> What {
    let parts = rpc::scan(message).unwrap_or_default();
    let part = |it: Option<Range<usize>>| it.and_then(|it| message.get(it));
    let (id, method) = (part(parts.id), part(parts.method));
    What::Unreadable {
        side,
        id: id.filter(|_| method.is_some()).map(ToOwned::to_owned),
        reason: method
            .map_or_else(|| "no JSON".to_owned(), |it| format!("no JSON in {}", it.trim_matches('"'))),
    }
}

fn malformed(side: Side, data: &Value) -> What {
    let is_request = data["request"] == true && !data["id"].is_null();
    let reason = data["reason"].as_str().unwrap_or_default().to_owned();
    What::Unreadable { side, id: is_request.then(|| data["id"].to_string()), reason }
}

fn called(process: ProcessName) -> String {
    format!("{}.{}", process.backend, process.generation)
}

fn data(line: &Line<'_>) -> Value {
    line.data.and_then(|it| serde_json::from_str(it.get()).ok()).unwrap_or_default()
}

impl<R: BufRead> Iterator for Source<R> {
    type Item = Result<Entry, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let read = self.read();
        self.is_over = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}

/// The messages between one client and one server.
#[derive(Debug, Default)]
pub struct Dialogue {
    /// In order, and process by process if there are several. No entry is anything but a message.
    pub entries: Vec<Entry>,
    /// Whether letters of texts were replaced by `x`.
    pub is_masked: bool,
    /// What a user should know of the file although it can be used.
    pub note: Option<String>,
    /// When the one process died that nobody had told to end, and the exit status of a program that dies so.
    pub death: Option<(Duration, u8)>,
}

/// Why there is no dialogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDialogue {
    /// The file is wrong.
    #[error(transparent)]
    Wrong(#[from] Problem),
    /// It must be said whose dialogue is meant.
    #[error("{0}")]
    Choice(String),
}

/// The dialogue with one process, or with [`EVERY`] one; with the only one, or the editor of lspool, if none is named.
pub fn dialogue<R: BufRead>(input: R, wanted: Option<&str>) -> Result<Dialogue, NoDialogue> {
    let mut source = Source::new(input);
    let mut entries: Vec<Entry> = Vec::new();
    // All there are, and what is known of them.
    let mut processes: BTreeMap<Arc<str>, String> = BTreeMap::new();
    // What was said with processes that are kept ready, and may become others.
    let mut spares: BTreeMap<Arc<str>, Vec<Entry>> = BTreeMap::new();
    let mut ends: BTreeMap<Arc<str>, End> = BTreeMap::new();
    // Requests that nobody can ask again. Their answers are no part of the dialogue.
    let mut unreadable: BTreeSet<(Arc<str>, String)> = BTreeSet::new();
    while let Some(entry) = source.next().transpose()? {
        let is_of_lspool = source.is_of_lspool();
        if let What::Unreadable { side: Side::Client, id: Some(id), .. } = &entry.what {
            unreadable.insert((entry.process.clone(), id.clone()));
        }
        let mut is_answer_to = |id: String| unreadable.remove(&(entry.process.clone(), id));
        match &entry.what {
            What::Unreadable { .. } => continue,
            What::Said(Side::Server, it) if it.kind() == rpc::Kind::Response => {
                if it.id().is_some_and(|id| is_answer_to(id.to_string())) {
                    continue;
                }
            }
            What::Said(..) | What::Happened(..) => {}
        }
        if let What::Happened(kind, data) = &entry.what {
            ends.entry(entry.process.clone()).or_default().note(*kind, entry.at, data);
            match kind {
                Kind::Spawn if is_spare(data) => {
                    spares.entry(entry.process.clone()).or_default();
                }
                Kind::Spawn | Kind::Adopt => {
                    let name = data["backend"]["name"].as_str().unwrap_or_default().to_owned();
                    let is_meant = wanted == Some(EVERY)
                        || wanted.is_some_and(|it| is_called(&entry.process, Some(&name), it));
                    processes.insert(entry.process.clone(), name);
                    let spare =
                        OfSpare::deserialize(data).ok().and_then(|it| spares.remove(&*called(it.spare)));
                    let said = spare.into_iter().flatten().filter(|_| is_meant);
                    entries.extend(said.map(|it| Entry { process: entry.process.clone(), ..it }));
                }
                _ => {}
            }
            continue;
        }
        if matches!(&entry.what, What::Said(Side::Client, it) if it.method() == Some("exit")) {
            ends.entry(entry.process.clone()).or_default().was_told = true;
        }
        if let Some(spare) = spares.get_mut(&entry.process) {
            spare.push(entry);
            continue;
        }
        // In a transcript these lines were computed, and nobody said them.
        if &*entry.process == EDITOR && !is_of_lspool {
            continue;
        }
        processes.entry(entry.process.clone()).or_default();
        let is_meant = match wanted {
            Some(EVERY) => &*entry.process != EDITOR,
            Some(wanted) => is_called(&entry.process, processes.get(&entry.process), wanted),
            None if is_of_lspool => &*entry.process == EDITOR,
            None => entries.first().is_none_or(|first| first.process == entry.process),
        };
        if is_meant {
            entries.push(entry);
        }
    }
    // Nobody has needed these.
    for (process, said) in spares {
        let is_meant = wanted.is_some_and(|it| it == EVERY || it == &*process);
        entries.extend(said.into_iter().filter(|_| is_meant));
        processes.insert(process, "kept ready".to_owned());
    }
    let is_of_lspool = source.is_of_lspool();
    let several = |entries: &[Entry]| entries.iter().any(|it| it.process != entries[0].process);
    let is_unclear = match wanted {
        Some(EVERY) => false,
        Some(_) => entries.is_empty() || several(&entries),
        None if is_of_lspool => false,
        None => processes.len() > 1,
    };
    if is_unclear {
        return Err(NoDialogue::Choice(choice(wanted, &processes)));
    }
    if entries.is_empty() {
        return Err(NoDialogue::Choice("nobody says anything in this recording".to_owned()));
    }
    let order: Vec<Arc<str>> = entries.iter().map(|it| it.process.clone()).fold(Vec::new(), |mut all, it| {
        if !all.contains(&it) {
            all.push(it);
        }
        all
    });
    entries.sort_by_key(|it| order.iter().position(|process| *process == it.process));
    let death = match order.as_slice() {
        [process] => ends.get(process).and_then(|it| it.death),
        _ => None,
    };
    Ok(Dialogue { entries, is_masked: source.is_masked(), note: source.note(), death })
}

/// Whether a line `spawn` is of a process that is kept ready: no conversation has its tools.
fn is_spare(data: &Value) -> bool {
    data["backend"]["tools"].as_array().is_some_and(Vec::is_empty)
}

/// How a process ends.
#[derive(Default)]
struct End {
    was_told: bool,
    death: Option<(Duration, u8)>,
}

impl End {
    fn note(&mut self, kind: Kind, at: Duration, data: &Value) {
        match kind {
            Kind::CloseInput | Kind::Terminate => self.was_told = true,
            Kind::Exited if !self.was_told => {
                let exit = &data["exit"];
                // As a shell has it.
                let signal = exit["signal"].as_u64().map(|it| it.saturating_add(128));
                let status = exit["code"].as_u64().or(signal).unwrap_or(1);
                self.death = Some((at, u8::try_from(status).unwrap_or(1)));
            }
            _ => {}
        }
    }
}

fn is_called(process: &str, backend: Option<&String>, wanted: &str) -> bool {
    process == wanted || backend.is_some_and(|it| it == wanted)
}

fn choice(wanted: Option<&str>, processes: &BTreeMap<Arc<str>, String>) -> String {
    let known: Vec<String> = processes
        .iter()
        .map(|(process, about)| match (process.as_ref(), about.as_str()) {
            ("", _) => "one without a name".to_owned(),
            (process, "") => process.to_owned(),
            (process, about) => format!("{process} ({about})"),
        })
        .collect();
    let known = known.join(", ");
    match wanted {
        None => format!("several processes are in this recording; say which one with --proc: {known}"),
        Some(EDITOR) => format!(
            "the lines of {EDITOR:?} were computed from the others, and not recorded; --proc may be: {known}"
        ),
        Some(wanted) => format!("--proc {wanted} names not exactly one process; there is: {known}"),
    }
}

#[cfg(test)]
mod tests;
