//! Reads what was recorded, line by line, into one form.
//!
//! Two kinds of files are understood: what lspool records itself (`docs/fixtures.md` says what its lines are), and
//! transcripts, in which each line is a message: `{"t": ms, "dir": "c2s"|"s2c", "msg": {…}, "proc"?: "name"}`. No more than
//! one line is held. A last line that was torn, as by a kill, is left out and noted; anything else that does not
//! belong there is an error that names its line.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{BufRead, Read as _},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::format::FORMAT;
use crate::rpc::Frame;

/// No message is longer.
const LONGEST: u64 = 512 << 20;
/// The editor's side of a recording of lspool.
pub const EDITOR: &str = "editor";
/// In the place of a process: every one.
pub const EVERY: &str = "*";

/// What is wrong with a recording, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Problem {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

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
    /// Anything else that lspool was told or did: its kind, and what there is to say of it.
    Happened(String, Value),
}

/// The lines of a recording.
#[derive(Debug)]
pub struct Source<R> {
    input: R,
    line: usize,
    buffer: Vec<u8>,
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

#[derive(Deserialize)]
struct Said<'a> {
    t: f64,
    dir: &'a str,
    #[serde(default, borrow)]
    proc: Option<Cow<'a, str>>,
    #[serde(borrow)]
    msg: &'a RawValue,
}

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "lspool-recording")]
    format: u32,
    #[serde(default)]
    texts: bool,
}

#[derive(Deserialize)]
struct Line<'a> {
    t: f64,
    dir: &'a str,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    peer: Option<Peer>,
    #[serde(default, borrow)]
    msg: Option<&'a RawValue>,
    #[serde(default)]
    raw: Option<String>,
    #[serde(default)]
    data: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Peer {
    Client { client: u32 },
    Process(Process),
}

#[derive(Deserialize)]
struct Process {
    backend: u32,
    generation: u32,
}

impl Process {
    fn name(&self) -> String {
        format!("{}.{}", self.backend, self.generation)
    }
}

impl<R: BufRead> Source<R> {
    /// Reads from its beginning on.
    pub fn new(input: R) -> Source<R> {
        Source {
            input,
            line: 0,
            buffer: Vec::new(),
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

    /// The last line, if it was torn: it was left out.
    pub fn torn(&self) -> Option<usize> {
        self.torn
    }

    fn problem(&self, what: impl Into<String>) -> Problem {
        Problem { line: self.line, what: what.into() }
    }

    fn read(&mut self) -> Result<Option<Entry>, Problem> {
        loop {
            self.line += 1;
            self.buffer.clear();
            let read = (&mut self.input).take(LONGEST).read_until(b'\n', &mut self.buffer);
            let len = read.map_err(|error| self.problem(format!("cannot be read: {error}")))?;
            if len == 0 {
                let is_empty = self.form == Form::Unknown;
                return if is_empty { Err(self.problem("the recording is empty")) } else { Ok(None) };
            }
            let is_whole = self.buffer.ends_with(b"\n");
            if !is_whole && u64::try_from(len).is_ok_and(|it| it >= LONGEST) {
                return Err(self.problem("it is too long for a line of a recording"));
            }
            if self.buffer.trim_ascii().is_empty() {
                continue;
            }
            let text = std::mem::take(&mut self.buffer);
            let entry = self.entry(&text);
            self.buffer = text;
            match entry {
                Ok(None) => {}
                Err(problem) if is_whole || self.form == Form::Unknown => return Err(problem),
                Err(_) => {
                    self.torn = Some(self.line);
                    return Ok(None);
                }
                entry @ Ok(Some(_)) => return entry,
            }
        }
    }

    fn entry(&mut self, text: &[u8]) -> Result<Option<Entry>, Problem> {
        let text = std::str::from_utf8(text).map_err(|_| self.problem("it is no UTF-8"))?;
        match self.form {
            Form::Lspool => self.line_of_lspool(text),
            Form::Transcript => self.line_of_transcript(text).map(Some),
            Form::Unknown => {
                if let Ok(header) = serde_json::from_str::<Header>(text) {
                    if header.format != FORMAT {
                        let what = format!("the format is {}; this lspool reads {FORMAT}", header.format);
                        return Err(self.problem(what));
                    }
                    self.form = Form::Lspool;
                    self.is_masked = !header.texts;
                    return Ok(None);
                }
                let entry = self.line_of_transcript(text).map_err(|problem| {
                    self.problem(format!(
                        "this is neither the header of a recording of lspool nor a line of a transcript ({})",
                        problem.what
                    ))
                })?;
                self.form = Form::Transcript;
                Ok(Some(entry))
            }
        }
    }

    fn line_of_transcript(&mut self, text: &str) -> Result<Entry, Problem> {
        let said: Said<'_> = serde_json::from_str(text).map_err(|error| self.no_line(&error))?;
        let side = match said.dir {
            "c2s" => Side::Client,
            "s2c" => Side::Server,
            other => return Err(self.problem(format!("`dir` is {other:?}, neither \"c2s\" nor \"s2c\""))),
        };
        let what = self.said(side, said.msg.get())?;
        let process = self.name(said.proc.as_deref().unwrap_or_default());
        Ok(Entry { line: self.line, at: self.time(said.t)?, process, what })
    }

    fn line_of_lspool(&mut self, text: &str) -> Result<Option<Entry>, Problem> {
        let line: Line<'_> = serde_json::from_str(text).map_err(|error| self.no_line(&error))?;
        let is_in = match line.dir {
            "in" => true,
            "out" => false,
            "end" => {
                let (at, process) = (self.time(line.t)?, self.name(EDITOR));
                let what = What::Happened(line.kind.into_owned(), Value::Null);
                return Ok(Some(Entry { line: self.line, at, process, what }));
            }
            other => return Err(self.problem(format!("`dir` is {other:?}: neither in, out nor end"))),
        };
        let named = line.data.as_ref().and_then(|it| Process::deserialize(&it["process"]).ok());
        let (process, is_client) = match line.peer {
            Some(Peer::Client { client: 0 }) => (EDITOR.to_owned(), true),
            // Who controls lspool takes no part in the session.
            Some(Peer::Client { .. }) => return Ok(None),
            Some(Peer::Process(process)) => (process.name(), false),
            None => (named.map_or_else(|| EDITOR.to_owned(), |it| it.name()), false),
        };
        let what = match (line.kind.as_ref(), line.msg, line.raw.as_deref()) {
            ("message", Some(msg), _) => {
                let side = if is_in == is_client { Side::Client } else { Side::Server };
                self.said(side, msg.get())?
            }
            // Such a message has no parameters that could be compared.
            ("message", None, Some(_)) => What::Happened("malformed".to_owned(), Value::Null),
            ("message", None, None) => return Err(self.problem("a message without `msg` or `raw`")),
            (kind, _, _) => What::Happened(kind.to_owned(), line.data.unwrap_or_default()),
        };
        Ok(Some(Entry { line: self.line, at: self.time(line.t)?, process: self.name(&process), what }))
    }

    fn said(&self, side: Side, message: &str) -> Result<What, Problem> {
        let frame = Frame::parse(Bytes::copy_from_slice(message.as_bytes()));
        let frame = frame.map_err(|it| self.problem(format!("`msg` is no message: {it}")))?;
        Ok(What::Said(side, frame))
    }

    fn no_line(&self, error: &serde_json::Error) -> Problem {
        // serde_json counts lines too, of which there is one.
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or_default();
        let what = if error.is_data() { "a member is wrong" } else { "this is no JSON object" };
        self.problem(format!("{what}: {text}, column {}", error.column()))
    }

    fn time(&self, millis: f64) -> Result<Duration, Problem> {
        let wrong = |_| self.problem("`t` is no time in milliseconds");
        Duration::try_from_secs_f64(millis / 1000.0).map_err(wrong)
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
    while let Some(entry) = source.next().transpose()? {
        let is_of_lspool = source.is_of_lspool();
        if let What::Happened(kind, data) = &entry.what {
            if let ("spawn" | "adopt", Some(name)) = (kind.as_str(), data["backend"]["name"].as_str()) {
                processes.insert(entry.process.clone(), name.to_owned());
            }
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
    let note = source.torn().map(|line| format!("line {line}, the last one, was torn and is left out"));
    Ok(Dialogue { entries, is_masked: source.is_masked(), note })
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
