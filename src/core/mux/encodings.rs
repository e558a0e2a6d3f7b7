//! Members of a group that count characters in another way than they were asked to.
//!
//! Everybody else counts as the editor does. A message to such a process is converted last, and a message of it
//! first, each **with the texts that the process has been told by then**. For a document that is not open the shell
//! reads the file. Meanwhile all messages of the process wait, in their order.

mod texts;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
};

use tracing::{info, warn};

use self::texts::{Texts, Usable, key_of_path};
use super::{Mux, merge::group::foreign_encoding, session::documents::Encoding};
use crate::{
    core::{
        event::{Effect, ProcessId},
        purpose::{Purpose, SentId},
    },
    rpc::{ErrorCode, Frame, Kind, Patch, file_path, path},
};

/// The processes that count in another way, and what waits of their messages.
#[derive(Debug, Default)]
pub(super) struct Encodings {
    processes: BTreeMap<ProcessId, Texts>,
    waiting: VecDeque<Waiting>,
}

/// A message that waits for files, or for one before it that does.
#[derive(Debug)]
struct Waiting {
    process: ProcessId,
    frame: Frame,
    missing: BTreeSet<PathBuf>,
    read: Vec<(PathBuf, String)>,
}

impl Encodings {
    /// A process is gone.
    pub(super) fn forget(&mut self, process: ProcessId) {
        self.processes.remove(&process);
        self.waiting.retain(|it| it.process != process);
    }

    pub(super) fn rename(&mut self, old: ProcessId, new: ProcessId) {
        if let Some(texts) = self.processes.remove(&old) {
            self.processes.insert(new, texts);
        }
        self.waiting.iter_mut().filter(|it| it.process == old).for_each(|it| it.process = new);
    }
}

impl Mux {
    /// A message as a process counts. `None`: as it is.
    pub(super) fn in_its_encoding(&mut self, process: ProcessId, frame: &Frame) -> Option<Frame> {
        // Runs for each message, and mostly in an empty table.
        self.encodings.processes.get_mut(&process)?.outgoing(frame)
    }

    /// A message of a process as the editor counts. `None`: it waits for files.
    pub(super) fn in_our_encoding(&mut self, process: ProcessId, frame: Frame) -> Option<Frame> {
        if self.is_group() && frame.kind() == Kind::Response {
            let asked = SentId::of(&frame).and_then(|it| self.requests.get(it));
            if asked.is_some_and(|it| matches!(it.purpose, Purpose::Initialize)) {
                return Some(self.negotiated(process, frame));
            }
        }
        if !self.encodings.processes.contains_key(&process) {
            return Some(frame);
        }
        let unknown = match self.converted(process, &frame, Usable::Open) {
            Ok(_) if self.encodings.waiting.iter().any(|it| it.process == process) => BTreeSet::new(),
            Ok(converted) => return Some(converted.unwrap_or(frame)),
            Err(unknown) => unknown,
        };
        self.heard(process);
        let missing: BTreeSet<PathBuf> = unknown.iter().filter_map(|it| file_path(it)).collect();
        for path in &missing {
            // Another message waits for the same text.
            if !self.encodings.waiting.iter().any(|it| it.missing.contains(path)) {
                self.act(Effect::ReadFile(path.clone()));
            }
        }
        self.encodings.waiting.push_back(Waiting { process, frame, missing, read: Vec::new() });
        // Nothing can be read.
        let first = self.encodings.waiting.iter().position(|it| it.process == process)?;
        if self.encodings.waiting[first].missing.is_empty() {
            let it = self.encodings.waiting.remove(first)?;
            return self.released(it).map(|(_, frame)| frame);
        }
        None
    }

    /// A file has been read, or cannot be. Gives the messages that have waited for it.
    pub(crate) fn on_file_read(&mut self, path: &Path, text: Option<&str>) -> Vec<(ProcessId, Frame)> {
        for it in self.encodings.waiting.iter_mut().filter(|it| it.missing.contains(path)) {
            it.missing.remove(path);
            it.read.extend(text.map(|text| (path.to_owned(), text.to_owned())));
        }
        let (mut held, mut ready) = (BTreeSet::new(), Vec::new());
        for it in std::mem::take(&mut self.encodings.waiting) {
            if it.missing.is_empty() && !held.contains(&it.process) {
                ready.push(it);
            } else {
                held.insert(it.process);
                self.encodings.waiting.push_back(it);
            }
        }
        ready.into_iter().filter_map(|it| self.released(it)).collect()
    }

    /// A message that waits no more. `None`: nobody gets it.
    fn released(&mut self, it: Waiting) -> Option<(ProcessId, Frame)> {
        let Waiting { process, frame, read, .. } = it;
        let texts = self.encodings.processes.get_mut(&process)?;
        for (path, text) in read {
            texts.note_read(key_of_path(&path), text);
        }
        let converted = self.converted(process, &frame, Usable::All);
        self.encodings.processes.get_mut(&process)?.trim();
        match converted {
            Ok(converted) => Some((process, converted.unwrap_or(frame))),
            Err(unknown) => self.without_places(process, &frame, &unknown).map(|it| (process, it)),
        }
    }

    fn converted(
        &mut self,
        process: ProcessId,
        frame: &Frame,
        usable: Usable,
    ) -> Result<Option<Frame>, BTreeSet<String>> {
        let Some(texts) = self.encodings.processes.get_mut(&process) else { return Ok(None) };
        let asked = match frame.kind() {
            Kind::Response => SentId::of(frame).and_then(|it| self.requests.get(it)).map(|it| &it.frame),
            Kind::Request | Kind::Notification => None,
        };
        texts.incoming(frame, asked, usable)
    }

    /// A message with positions in texts that are not known: a wrong place is worse than none.
    fn without_places(
        &mut self,
        process: ProcessId,
        frame: &Frame,
        unknown: &BTreeSet<String>,
    ) -> Option<Frame> {
        let name = self.name_of(process.backend);
        warn!(name, method = frame.method(), ?unknown, "dropped positions in files that cannot be read");
        let listed: Vec<&str> = unknown.iter().map(String::as_str).collect();
        let message = format!("cannot convert positions of {name}: no text of {}", listed.join(", "));
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
        self.encodings.processes.insert(process, Texts::new(encoding));
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
