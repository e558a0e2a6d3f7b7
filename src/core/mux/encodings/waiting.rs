//! Messages of one direction that wait for files, in their order, and the bounds on that.

use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::conversion::Conversion;
use crate::{core::mux::session::documents::Edited, rpc::Frame};

/// How many messages may wait.
const MESSAGES: usize = 10_000;

/// How many bytes of messages may wait.
const BYTES: usize = 16 << 20;

/// How long a message waits for its next file. lspool looks at that whenever a file is read.
const LONGEST: Duration = Duration::from_secs(5);

/// For how many of the messages files are read at the same time.
const AHEAD: usize = 8;

/// A message that may wait for files.
pub(super) trait Waiting {
    /// How many bytes it takes.
    fn len(&self) -> usize;
    fn files(&self) -> impl Iterator<Item = &PathBuf>;
    /// A file was read, or cannot be. Gives whether it has waited for that.
    fn on_read(&mut self, path: &Path, text: Option<&mut Edited>) -> bool;
    /// Waits no more.
    fn stop_waiting(&mut self);
}

/// Messages in their order, each with the time at which it came, or at which the last file for it was read.
#[derive(Debug)]
pub(super) struct FileQueue<T> {
    all: VecDeque<(Instant, T)>,
    bytes: usize,
}

impl<T> Default for FileQueue<T> {
    fn default() -> FileQueue<T> {
        FileQueue { all: VecDeque::new(), bytes: 0 }
    }
}

impl<T: Waiting> FileQueue<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// If too many wait, the first ones wait no more.
    pub(super) fn push(&mut self, it: T, now: Instant) {
        self.bytes += it.len();
        self.all.push_back((now, it));
        let (mut n, mut bytes) = (self.all.len(), self.bytes);
        for (_, it) in &mut self.all {
            if n <= MESSAGES && bytes <= BYTES {
                break;
            }
            it.stop_waiting();
            (n, bytes) = (n - 1, bytes - it.len());
        }
    }

    /// Takes the first message, if it waits for no file.
    pub(super) fn pop(&mut self) -> Option<(Instant, T)> {
        self.all.front().filter(|(_, it)| it.files().next().is_none())?;
        let (since, it) = self.all.pop_front()?;
        self.bytes -= it.len();
        Some((since, it))
    }

    /// Puts back the first message.
    pub(super) fn put_back(&mut self, since: Instant, it: T) {
        self.bytes += it.len();
        self.all.push_front((since, it));
    }

    /// The files that are to be read now.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.all.iter().take(AHEAD).flat_map(|(_, it)| it.files())
    }

    /// A file was read, or cannot be. Gives whether one has waited for that.
    pub(super) fn on_read(&mut self, path: &Path, mut text: Option<&mut Edited>, now: Instant) -> bool {
        let mut is_used = false;
        for (since, it) in self.all.iter_mut().take(AHEAD) {
            if it.on_read(path, text.as_deref_mut()) {
                (is_used, *since) = (true, now);
            }
        }
        let is_old = |since: Instant| now.saturating_duration_since(since) >= LONGEST;
        self.all.iter_mut().take_while(|(since, _)| is_old(*since)).for_each(|(_, it)| it.stop_waiting());
        is_used
    }

    /// Drops the messages for which `is_kept` is false.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.all.retain(|(_, it)| is_kept(it));
        self.bytes = self.all.iter().map(|(_, it)| it.len()).sum();
    }

    pub(super) fn stop_waiting(&mut self) {
        self.all.iter_mut().for_each(|(_, it)| it.stop_waiting());
    }
}

/// A message to a process.
#[derive(Debug)]
pub(super) struct ToSend {
    pub(super) frame: Frame,
    /// The files that it waits for. `None`: that is not known before its turn.
    pub(super) files: Option<BTreeSet<PathBuf>>,
}

impl Waiting for ToSend {
    fn len(&self) -> usize {
        self.frame.body().len()
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().flatten()
    }

    fn on_read(&mut self, path: &Path, _: Option<&mut Edited>) -> bool {
        self.files.as_mut().is_some_and(|it| it.remove(path))
    }

    fn stop_waiting(&mut self) {
        self.files = Some(BTreeSet::new());
    }
}

impl Waiting for Conversion {
    fn len(&self) -> usize {
        self.n_bytes()
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.missing()
    }

    fn on_read(&mut self, path: &Path, text: Option<&mut Edited>) -> bool {
        self.settle_file(path, text)
    }

    fn stop_waiting(&mut self) {
        self.stop_waiting_for_files();
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests are the clock")]
mod tests {
    use super::*;

    fn message(body: &str, files: &[&str]) -> ToSend {
        let files = (!files.is_empty()).then(|| files.iter().map(PathBuf::from).collect());
        ToSend { frame: Frame::notification("m", Some(body.as_bytes())), files }
    }

    fn n_ready(line: &mut FileQueue<ToSend>) -> usize {
        std::iter::from_fn(|| line.pop()).count()
    }

    #[test]
    fn messages_wait_in_order_for_files_of_the_first_ones() {
        let (mut line, now) = (FileQueue::default(), Instant::now());
        for file in ["a", "b"] {
            line.push(message("1", &[file, "c"]), now);
        }
        line.push(message("1", &[]), now);
        assert_eq!(line.files().count(), 4);
        for file in ["c", "b"] {
            assert!(line.on_read(Path::new(file), None, now));
            assert_eq!(n_ready(&mut line), 0);
        }
        assert!(!line.on_read(Path::new("other"), None, now));
        assert!(line.on_read(Path::new("a"), None, now));
        assert_eq!(n_ready(&mut line), 3);
        for n in 0..20 {
            line.push(message("1", &[&n.to_string()]), now);
        }
        assert_eq!(line.files().count(), AHEAD, "not for all at once");
    }

    #[test]
    fn first_messages_go_on_if_too_many_or_too_much_waits() {
        let (mut line, now) = (FileQueue::default(), Instant::now());
        for _ in 0..MESSAGES + 3 {
            line.push(message("1", &["a"]), now);
        }
        assert_eq!(n_ready(&mut line), 3);
        let (mut line, large) = (FileQueue::default(), format!("\"{}\"", "x".repeat(BYTES / 4)));
        for _ in 0..6 {
            line.push(message(&large, &["a"]), now);
        }
        assert_eq!(n_ready(&mut line), 3);
        assert!(line.bytes <= BYTES);
        line.stop_waiting();
        assert_eq!((n_ready(&mut line), line.bytes), (3, 0));
    }

    #[test]
    fn message_that_has_waited_long_goes_on_when_any_file_is_read() {
        let (mut line, start) = (FileQueue::default(), Instant::now());
        line.push(message("1", &["a"]), start);
        line.push(message("1", &["a"]), start + Duration::from_secs(1));
        line.on_read(Path::new("other"), None, start + LONGEST);
        assert_eq!(n_ready(&mut line), 1);
    }
}
