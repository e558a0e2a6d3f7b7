//! Messages of servers elsewhere, and those among them that wait for copies of files.
//!
//! A place in a file that only the other side has is no use to an editor. Before it gets the answer, the shell copies
//! the file. **Only that answer waits**, the shell bounds the wait, and what has no copy then keeps its path.

use std::collections::BTreeMap;

use super::Mux;
use crate::{
    core::{
        event::{Effect, Fetch, Fetched, ProcessId},
        purpose::SentId,
    },
    rpc::{Frame, Kind, PathMap},
};

/// Messages that wait.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// The number of fetches so far.
    n: u64,
    /// By the number of their fetch.
    waiting: BTreeMap<u64, Waiting>,
}

/// A message that waits for copies.
#[derive(Debug)]
struct Waiting {
    by: ProcessId,
    /// As the server wrote it.
    frame: Frame,
    files: Vec<String>,
}

impl Fetches {
    pub(super) fn rename(&mut self, old: ProcessId, new: ProcessId) {
        self.waiting.values_mut().filter(|it| it.by == old).for_each(|it| it.by = new);
    }
}

impl Mux {
    /// A message of a process, before anybody looks at it: from here on, all paths are of this machine, and all
    /// positions count as the editor does. `None`: it waits for files.
    pub(crate) fn received(&mut self, process: ProcessId, frame: Frame) -> Option<Frame> {
        let frame = self.with_our_paths(process, frame)?;
        self.in_our_encoding(process, frame)
    }

    fn with_our_paths(&mut self, process: ProcessId, frame: Frame) -> Option<Frame> {
        let now = self.now();
        let Some(paths) = self.backends.paths_of(process.backend) else { return Some(frame) };
        let method = match frame.kind() {
            Kind::Response => SentId::of(&frame).and_then(|it| self.requests.get(it)?.frame.method()),
            Kind::Request => frame.method(),
            Kind::Notification => None,
        };
        let files = match method.is_some_and(PathMap::leads) {
            true => paths.without_copy(&frame, now),
            false => Vec::new(),
        };
        let launch = self.backends.launch_elsewhere(process.backend).filter(|_| !files.is_empty());
        let Some(launch) = launch.filter(|_| self.is_current(process)) else {
            return Some(self.mapped(process, frame));
        };
        self.heard(process);
        self.fetches.n += 1;
        let number = self.fetches.n;
        let waiting = Waiting { by: process, frame, files: files.clone() };
        self.fetches.waiting.insert(number, waiting);
        self.act(Effect::Fetch(Box::new(Fetch { number, launch, files })));
        None
    }

    /// Takes the message that has waited for these copies.
    pub(crate) fn on_fetched(&mut self, fetched: Fetched) -> Option<(ProcessId, Frame)> {
        let now = self.now();
        let Waiting { by: process, frame, files } = self.fetches.waiting.remove(&fetched.number)?;
        // The next process may be elsewhere, with other files.
        if self.is_current(process)
            && let Some(paths) = self.backends.paths_of(process.backend)
        {
            let tried = files.into_iter().filter(|it| !fetched.untried.contains(it));
            paths.note_copies(tried, fetched.files, now);
        }
        let frame = self.mapped(process, frame);
        Some((process, self.in_our_encoding(process, frame)?))
    }

    fn mapped(&mut self, process: ProcessId, frame: Frame) -> Frame {
        self.backends.paths_of(process.backend).and_then(|it| it.incoming(&frame)).unwrap_or(frame)
    }
}
