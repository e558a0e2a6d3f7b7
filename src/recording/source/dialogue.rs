//! Extracts the dialogue between one process, or all, and its client from a recording.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::BufRead,
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;

use super::{EDITOR, EVERY, Entry, OfSpare, Side, Source, What, called};
use crate::{
    recording::{format::Kind, reader::Problem},
    rpc,
};

/// The messages between one client and one server.
#[derive(Debug, Default)]
pub struct Dialogue {
    /// The messages in order, or process by process if there are several.
    pub entries: Vec<Entry>,
    /// Whether the texts are masked.
    pub is_masked: bool,
    /// A note for the user about a usable file.
    pub note: Option<String>,
    /// When the only process died unasked, and the exit status of a program that dies so.
    pub death: Option<(Duration, u8)>,
}

/// Why there is no dialogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDialogue {
    /// The file has an error.
    #[error(transparent)]
    Wrong(#[from] Problem),
    /// The wanted process is unclear.
    #[error("{0}")]
    Choice(String),
}

/// The dialogue with one process, or with [`EVERY`] one. Without a name, with the only one, or the editor of lspool.
pub fn dialogue<R: BufRead>(input: R, wanted: Option<&str>) -> Result<Dialogue, NoDialogue> {
    let mut source = Source::new(input);
    let mut collector = Collector { wanted, ..Collector::default() };
    while let Some(entry) = source.next().transpose()? {
        collector.is_of_lspool = source.is_of_lspool();
        collector.add(entry);
    }
    collector.add_unused_spares();
    if collector.is_unclear() {
        return Err(NoDialogue::Choice(choice(wanted, &collector.processes)));
    }
    if collector.entries.is_empty() {
        return Err(NoDialogue::Choice("the recording has no messages".to_owned()));
    }
    let (entries, death) = collector.finish();
    Ok(Dialogue { entries, is_masked: source.is_masked(), note: source.note(), death })
}

/// The entries so far.
#[derive(Default)]
struct Collector<'a> {
    wanted: Option<&'a str>,
    is_of_lspool: bool,
    entries: Vec<Entry>,
    /// The processes, with their descriptions.
    processes: BTreeMap<Arc<str>, String>,
    /// The messages of spares, which other processes may adopt.
    spares: BTreeMap<Arc<str>, Vec<Entry>>,
    ends: BTreeMap<Arc<str>, End>,
    /// Unreadable requests, which no client can repeat. Their answers are not part of the dialogue.
    unreadable: BTreeSet<(Arc<str>, String)>,
}

impl Collector<'_> {
    fn add(&mut self, entry: Entry) {
        match &entry.what {
            What::Unreadable { side: Side::Client, id: Some(id), .. } => {
                self.unreadable.insert((entry.process, id.clone()));
            }
            What::Unreadable { .. } => {}
            What::Happened(kind, data) => self.happened(&entry.process, *kind, entry.at, data),
            What::Said(..) if self.answers_unreadable(&entry) => {}
            What::Said(..) => self.said(entry),
        }
    }

    fn answers_unreadable(&mut self, entry: &Entry) -> bool {
        let What::Said(Side::Server, it) = &entry.what else { return false };
        let id = it.id().filter(|_| it.kind() == rpc::Kind::Response);
        id.is_some_and(|id| self.unreadable.remove(&(entry.process.clone(), id.to_string())))
    }

    fn happened(&mut self, process: &Arc<str>, kind: Kind, at: Duration, data: &Value) {
        self.ends.entry(process.clone()).or_default().note(kind, at, data);
        match kind {
            Kind::Spawn if is_spare(data) => {
                self.spares.entry(process.clone()).or_default();
            }
            Kind::Spawn | Kind::Adopt => {
                let name = data["backend"]["name"].as_str().unwrap_or_default().to_owned();
                let is_meant =
                    self.wanted.is_some_and(|it| it == EVERY || is_called(process, Some(&name), it));
                self.processes.insert(process.clone(), name);
                let spare =
                    OfSpare::deserialize(data).ok().and_then(|it| self.spares.remove(&*called(it.spare)));
                let said = spare.into_iter().flatten().filter(|_| is_meant);
                self.entries.extend(said.map(|it| Entry { process: process.clone(), ..it }));
            }
            _ => {}
        }
    }

    fn said(&mut self, entry: Entry) {
        if matches!(&entry.what, What::Said(Side::Client, it) if it.method() == Some("exit")) {
            self.ends.entry(entry.process.clone()).or_default().was_told = true;
        }
        if let Some(spare) = self.spares.get_mut(&entry.process) {
            return spare.push(entry);
        }
        // lspool computed these lines in a transcript.
        if &*entry.process == EDITOR && !self.is_of_lspool {
            return;
        }
        self.processes.entry(entry.process.clone()).or_default();
        if self.is_meant(&entry.process) {
            self.entries.push(entry);
        }
    }

    fn is_meant(&self, process: &Arc<str>) -> bool {
        match self.wanted {
            Some(EVERY) => &**process != EDITOR,
            Some(wanted) => is_called(process, self.processes.get(process), wanted),
            None if self.is_of_lspool => &**process == EDITOR,
            None => self.entries.first().is_none_or(|first| first.process == *process),
        }
    }

    /// Adds the spares that no process has adopted.
    fn add_unused_spares(&mut self) {
        for (process, said) in std::mem::take(&mut self.spares) {
            let is_meant = self.wanted.is_some_and(|it| it == EVERY || it == &*process);
            self.entries.extend(said.into_iter().filter(|_| is_meant));
            self.processes.insert(process, "spare".to_owned());
        }
    }

    /// Whether the wanted process is unclear.
    fn is_unclear(&self) -> bool {
        let several = || self.entries.iter().any(|it| it.process != self.entries[0].process);
        match self.wanted {
            Some(EVERY) => false,
            Some(_) => self.entries.is_empty() || several(),
            None if self.is_of_lspool => false,
            None => self.processes.len() > 1,
        }
    }

    /// The entries process by process, in the order of their first messages; and the death of the only one.
    fn finish(mut self) -> (Vec<Entry>, Option<(Duration, u8)>) {
        let mut order: Vec<Arc<str>> = Vec::new();
        for it in &self.entries {
            if !order.contains(&it.process) {
                order.push(it.process.clone());
            }
        }
        self.entries.sort_by_key(|it| order.iter().position(|process| *process == it.process));
        let death = match order.as_slice() {
            [process] => self.ends.get(process).and_then(|it| it.death),
            _ => None,
        };
        (self.entries, death)
    }
}

/// Whether a line `spawn` is of a spare: no conversation has its tools.
fn is_spare(data: &Value) -> bool {
    data["backend"]["tools"].as_array().is_some_and(Vec::is_empty)
}

/// The end of a process.
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
                // As in a shell.
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
        None => format!("the recording has several processes; choose one with --proc: {known}"),
        Some(EDITOR) => {
            format!("the lines of {EDITOR:?} are computed from the others; --proc may be: {known}")
        }
        Some(wanted) => {
            format!("--proc {wanted} does not name exactly one process; expected one of: {known}")
        }
    }
}
