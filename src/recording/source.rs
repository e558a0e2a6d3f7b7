//! Reads recordings and transcripts, line by line, into one form.
//!
//! Reads recordings of lspool (`docs/fixtures.md`), and transcripts, in which each line is a message:
//! `{"t": ms, "dir": "c2s"|"s2c", "msg": {…}, "proc"?: "name"}`. Keeps one line in memory. Leaves out an incomplete
//! last line, as after a kill, and notes it. Any other error names its line.

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
/// Instead of a process: all processes.
pub const EVERY: &str = "*";

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The editor, or another client.
    Client,
    /// The language server, or lspool instead of it.
    Server,
}

/// A recorded entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its line.
    pub line: usize,
    /// The time since the beginning.
    pub at: Duration,
    /// The peer: [`EDITOR`] or a process such as `0.1` in a recording of lspool; the `proc` of a transcript, or
    /// nothing.
    pub process: Arc<str>,
    /// The content.
    pub what: What,
}

/// The content of an entry.
#[derive(Clone, Debug)]
pub enum What {
    /// A message.
    Said(Side, Frame),
    /// Not a message, or a message whose parameters, result or error are invalid JSON.
    Unreadable {
        /// The sender.
        side: Side,
        /// Its id, as JSON, if it may be a request.
        id: Option<String>,
        /// The error.
        reason: String,
    },
    /// Another event or effect: its kind and its data.
    Happened(Kind, Value),
}

/// Parses a part of a message; `null` if it is missing or invalid. Half a character, as where a server cuts the text
/// of a model, becomes a replacement character.
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

/// The adoption of a process.
#[derive(Deserialize)]
struct OfSpare {
    spare: ProcessName,
}

/// An event of a process.
#[derive(Deserialize)]
struct OfProcess {
    process: ProcessName,
}

impl<R: BufRead> Source<R> {
    /// Reads from the beginning.
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

    /// Whether it is a recording of lspool. Known once something was read.
    pub fn is_of_lspool(&self) -> bool {
        self.form == Form::Lspool
    }

    /// Whether the texts are masked.
    pub fn is_masked(&self) -> bool {
        self.is_masked
    }

    /// A note for the user about a usable file.
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
            // Control clients are not part of the session.
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
