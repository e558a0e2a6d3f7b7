//! Reads what was recorded, line by line, into one form.
//!
//! Two kinds of files are understood: what lspool records itself (`docs/fixtures.md` says what its lines are), and
//! transcripts, in which each line is a message: `{"t": ms, "dir": "c2s"|"s2c", "msg": {…}, "proc"?: "name"}`. No more than
//! one line is held. A last line that was torn, as by a kill, is left out and noted; anything else that does not
//! belong there is an error that names its line.

mod dialogue;

use std::{borrow::Cow, collections::BTreeMap, io::BufRead, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    format::{Dir, Kind, Line, PeerName, ProcessName, Time},
    mask,
    reader::{Problem, Reader, words},
};
use crate::rpc::{self, Frame};

pub use dialogue::{Dialogue, NoDialogue, dialogue};

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
        self.torn.map(|line| format!("line {line}, the last one, is incomplete; lspool ignored it"))
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
    frame.map(|it| What::Said(side, it)).map_err(|it| format!("`msg` is not a message: {it}"))
}

fn without_json(side: Side, message: &str) -> What {
    let parts = rpc::scan(message).unwrap_or_default();
    let (id, method) = (parts.id.get(message), parts.method.get(message));
    What::Unreadable {
        side,
        id: id.filter(|_| method.is_some()).map(ToOwned::to_owned),
        reason: method
            .map_or_else(|| "no JSON".to_owned(), |it| format!("invalid JSON in {}", it.trim_matches('"'))),
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

#[cfg(test)]
mod tests;
