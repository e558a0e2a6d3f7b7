//! Members of a group that count characters in another way than they were asked to.
//!
//! Everybody else counts as the editor does. A message to such a process is converted last, and a message of it
//! first, each **with the texts that the process has been told by then**: answers with the texts from before their
//! requests. For a document that is not open the shell reads the file. Meanwhile all later messages of the same direction
//! wait, **as long and as many as a bound allows**; then the first one goes on without its files.

mod conversion;
mod earlier;
mod texts;
mod waiting;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use tracing::{info, warn};

use self::{
    conversion::{Conversion, Converted},
    texts::{Asked, EDITORS, Files, Outgoing, Texts},
    waiting::{FileQueue, ToSend},
};
use super::{
    Mux,
    merge::group::foreign_encoding,
    session::documents::{Edited, Encoding},
};
use crate::{
    core::{
        event::{Effect, ProcessId},
        purpose::{Purpose, SentId},
    },
    rpc::{ErrorCode, Frame, Kind, Patch, path},
};

/// How many files the shell reads at the same time.
const READS: usize = 8;

/// The processes that count in another way, and what waits of their messages.
#[derive(Debug, Default)]
pub(super) struct Encodings {
    processes: BTreeMap<ProcessId, ConvertedProcess>,
    /// The files that the shell reads.
    reading: BTreeSet<PathBuf>,
}

/// A process that counts in another way.
#[derive(Debug)]
struct ConvertedProcess {
    texts: Texts,
    /// Messages to it.
    outgoing: FileQueue<ToSend>,
    /// Messages of it.
    incoming: FileQueue<Conversion>,
}

impl Encodings {
    /// A process is gone.
    pub(super) fn forget(&mut self, process: ProcessId) {
        self.processes.remove(&process);
    }

    fn all(&self) -> Vec<ProcessId> {
        self.processes.keys().copied().collect()
    }

    pub(super) fn rename(&mut self, old: ProcessId, new: ProcessId) {
        if let Some(it) = self.processes.remove(&old) {
            self.processes.insert(new, it);
        }
    }
}

impl Mux {
    /// A message as a process counts. `None`: it waits for files.
    pub(super) fn in_its_encoding(&mut self, process: ProcessId, frame: Frame) -> Option<Frame> {
        // Runs for each message, and mostly in an empty table.
        let Some(it) = self.encodings.processes.get_mut(&process) else { return Some(frame) };
        let waiting = match it.outgoing.is_empty() {
            true => match self.as_it_counts(process, frame, Files::Wanted) {
                Ok(frame) => return Some(frame),
                Err(waiting) => waiting,
            },
            false => ToSend { frame, files: None },
        };
        let now = self.wire.now();
        if let Some(it) = self.encodings.processes.get_mut(&process) {
            it.outgoing.push(waiting, now);
        }
        self.send_waiting(process);
        self.read_on();
        None
    }

    /// A message that is sent now, as its process counts. An error: it needs files first.
    fn as_it_counts(&mut self, process: ProcessId, frame: Frame, files: Files) -> Result<Frame, ToSend> {
        let Some(it) = self.encodings.processes.get_mut(&process) else { return Ok(frame) };
        let n_changes = it.texts.n_changes();
        let told = match it.texts.outgoing(&frame, files) {
            Outgoing::AsItIs => frame,
            Outgoing::Converted(told) => told,
            Outgoing::Needs(files) => return Err(ToSend { frame, files: Some(files) }),
        };
        if let (Kind::Request, Some(sent)) = (told.kind(), SentId::of(&told)) {
            self.requests.mark(sent, |it| it.n_changes = n_changes);
        }
        Ok(told)
    }

    /// Sends the messages to a process that wait for no file.
    fn send_waiting(&mut self, process: ProcessId) {
        while let Some(it) = self.encodings.processes.get_mut(&process)
            && let Some((since, ToSend { frame, files })) = it.outgoing.pop()
        {
            let files = if files.is_some() { Files::Tried } else { Files::Wanted };
            match self.as_it_counts(process, frame, files) {
                Ok(frame) => self.send_counted(process, frame),
                Err(waiting) => {
                    if let Some(it) = self.encodings.processes.get_mut(&process) {
                        it.outgoing.put_back(since, waiting);
                    }
                    return;
                }
            }
        }
    }

    /// Sends all messages to a process that ends, as far as they can be converted. `None`: to all.
    pub(super) fn send_without_files(&mut self, process: Option<ProcessId>) {
        for it in self.encodings.all().into_iter().filter(|it| process.is_none_or(|process| *it == process)) {
            if let Some(it) = self.encodings.processes.get_mut(&it) {
                it.outgoing.stop_waiting();
            }
            self.send_waiting(it);
        }
    }

    /// A message of a process as the editor counts. `None`: it waits for files, and comes from
    /// [`Mux::next_converted`].
    pub(super) fn in_our_encoding(&mut self, process: ProcessId, frame: Frame) -> Option<Frame> {
        if !self.is_group() {
            return Some(frame);
        }
        let asked = match frame.kind() {
            Kind::Response => SentId::of(&frame).and_then(|it| self.requests.get(it)),
            Kind::Request | Kind::Notification => None,
        };
        if asked.is_some_and(|it| matches!(it.purpose, Purpose::Initialize)) {
            return Some(self.negotiated(process, frame));
        }
        let Some(it) = self.encodings.processes.get_mut(&process) else { return Some(frame) };
        let asked = asked.map(|it| Asked { frame: &it.frame, n_changes: it.marks.n_changes });
        let conversion = it.texts.incoming(frame, asked);
        if it.incoming.is_empty() && conversion.missing().next().is_none() {
            return self.finished(process, conversion);
        }
        let now = self.wire.now();
        it.incoming.push(conversion, now);
        self.heard(process);
        self.read_on();
        None
    }

    /// Asks for files that messages wait for.
    fn read_on(&mut self) {
        let Encodings { processes, reading } = &mut self.encodings;
        let mut wanted = Vec::new();
        let queues = || processes.values().map(|it| (it.outgoing.files(), it.incoming.files()));
        // Each queue gets one, so that none waits for the many files of another.
        let firsts = queues().flat_map(|(mut out, mut come)| [out.next(), come.next()]).flatten();
        wanted.extend(firsts.filter(|it| reading.insert(PathBuf::clone(it))).cloned());
        for path in queues().flat_map(|(out, come)| out.chain(come)) {
            if reading.len() >= READS {
                break;
            }
            if reading.insert(path.clone()) {
                wanted.push(path.clone());
            }
        }
        for path in wanted {
            self.act(Effect::ReadFile(path));
        }
    }

    /// A file has been read, or cannot be. Messages of processes that waited for the file come from
    /// [`Mux::next_converted`].
    pub(crate) fn on_file_read(&mut self, path: &Path, text: Option<&str>) {
        let now = self.now();
        self.encodings.reading.remove(path);
        let mut text = text.map(|it| Edited::new(it.as_bytes().to_vec(), EDITORS));
        for it in self.encodings.processes.values_mut() {
            let is_used = it.incoming.on_read(path, text.as_mut(), now);
            if (it.outgoing.on_read(path, text.as_mut(), now) || is_used)
                && let Some(text) = &text
            {
                it.texts.note_read(path, text.clone());
            }
        }
        self.encodings.all().into_iter().for_each(|it| self.send_waiting(it));
        self.read_on();
    }

    /// A process has ended: what it has sent goes on. Answers that wait for files count as lost, since the next process
    /// can be asked again.
    pub(crate) fn stop_waiting_for_files(&mut self, process: ProcessId) {
        if let Some(it) = self.encodings.processes.get_mut(&process) {
            it.incoming.retain(|it| !it.is_answer() || it.missing().next().is_none());
            it.incoming.stop_waiting();
        }
    }

    /// Takes a message of a process that has waited for files.
    pub(crate) fn next_converted(&mut self) -> Option<(ProcessId, Frame)> {
        loop {
            let mut all = self.encodings.processes.iter_mut();
            let (process, (_, it)) = all.find_map(|(process, it)| Some((*process, it.incoming.pop()?)))?;
            self.read_on();
            if let Some(frame) = self.finished(process, it) {
                return Some((process, frame));
            }
        }
    }

    /// A message of a process, converted. `None`: nobody gets it.
    fn finished(&mut self, process: ProcessId, conversion: Conversion) -> Option<Frame> {
        let Converted { result, unknown } = conversion.finish();
        let name = self.name_of(process.backend);
        if !unknown.is_empty() {
            let method = result.as_ref().map_or_else(Frame::method, Frame::method);
            warn!(name, method, ?unknown, "could not convert positions in documents without a text");
        }
        let frame = match result {
            Ok(frame) => return Some(frame),
            Err(frame) => frame,
        };
        let listed: Vec<&str> = unknown.iter().map(String::as_str).collect();
        let message = format!("cannot convert edits of {name}: no text of {}", listed.join(", "));
        let id = frame.id();
        let error = |id| Frame::error(id, ErrorCode::RequestFailed, &message, None);
        match frame.kind() {
            Kind::Response => id.map(error),
            Kind::Request => {
                if let Some(answer) = id.map(error) {
                    self.tell(process, answer);
                }
                None
            }
            Kind::Notification => None,
        }
    }

    /// The answer to `initialize` of a member that insists on another encoding, as if it did not. Ones that lspool does
    /// not know stay.
    fn negotiated(&mut self, process: ProcessId, frame: Frame) -> Frame {
        let Some(result) = frame.result() else { return frame };
        let encoding = match foreign_encoding(result).as_deref() {
            Some("utf-8") => Encoding::Utf8,
            Some("utf-32") => Encoding::Utf32,
            Some(_) | None => return frame,
        };
        info!(
            name = self.name_of(process.backend),
            ?encoding,
            "converts positions, as the server ignores the offer"
        );
        let foreign = ConvertedProcess {
            texts: Texts::new(encoding),
            outgoing: FileQueue::default(),
            incoming: FileQueue::default(),
        };
        self.encodings.processes.insert(process, foreign);
        let mut told = Patch::of(result);
        told.remove("offsetEncoding");
        if path(result, &["capabilities", "positionEncoding"]).is_some() {
            told.set_path(&["capabilities", "positionEncoding"], br#""utf-16""#);
        }
        // A part of the numbers cannot be converted.
        let full = ["capabilities", "semanticTokensProvider", "full"];
        if path(result, &full).is_some_and(|it| result[it].starts_with(b"{")) {
            told.set_path(&full, b"true");
        }
        frame.with_result(&told.finish())
    }
}
