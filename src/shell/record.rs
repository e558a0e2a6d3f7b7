//! Writes a recording of all events and effects of the core, while they happen.
//!
//! - **It never delays the core**: a thread of its own gets the events, removes secrets and texts, and writes lines.
//!   The queue of that thread is bounded in bytes. Beyond that the recording ends, and its last line says so.
//! - **It changes no existing file**, and follows no link: it takes the next free name.
//! - It writes whole lines, so the recording of a killed lspool is readable up to its end.

use std::{
    env,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use super::{driver::Core, os::files::private_file};
use crate::{
    builtin_tools::lsp::FileChange,
    config::Config,
    core::{
        Identity,
        event::{BackendId, Effect, Effects, Event},
    },
    recording::{
        encode::Encoder,
        format::{About, Kind},
    },
};

/// The variable with the file of the recording, for editors that cannot pass options.
pub const VARIABLE: &str = "LSPOOL_RECORD";

/// How many bytes of messages may usually wait.
pub const WAITING: usize = 64 << 20;

/// How long unwritten lines may delay the end of lspool.
const FAREWELL: Duration = Duration::from_secs(1);

/// How many names to try.
const NAMES: usize = 1000;

/// Room for the last line.
const LAST_LINE: usize = 128;

/// The settings of a recording.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whether to keep texts.
    pub texts: bool,
    /// The maximum size, in bytes.
    pub max_size: usize,
    /// How many bytes may wait.
    pub max_waiting: usize,
}

/// An event or effect on its way to the file.
enum Happening {
    Event(Event),
    Timeout,
    Effect(Effect, Option<About>),
    Panic,
}

enum Note {
    Step(Duration, Vec<Happening>, usize),
    /// The end, with the reason.
    End(Duration, Kind),
}

/// The handle for the driver.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    /// `None` after the end of the recording.
    notes: Option<mpsc::Sender<Note>>,
    waiting: Arc<AtomicUsize>,
    max_waiting: usize,
    written: mpsc::Receiver<()>,
}

impl Recorder {
    /// Begins a recording in a new private file. Its name may be `FILE-2` and so on.
    pub fn create(
        file: &Path,
        plan: &Plan,
        identity: Identity,
        config: &Config,
    ) -> io::Result<(Recorder, PathBuf)> {
        let (out, path) = create(file)?;
        // Only variables that are text can look like a secret.
        let variables = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let encoder = Encoder::new(plan.texts, Encoder::secrets(variables));
        Ok((Recorder::start(out, encoder, plan, identity, config)?, path))
    }

    fn start(
        out: impl Write + Send + 'static,
        mut encoder: Encoder,
        plan: &Plan,
        identity: Identity,
        config: &Config,
    ) -> io::Result<Recorder> {
        let (notes, incoming) = mpsc::channel();
        let (done, written) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let header = encoder.header(identity, config);
        // The header is written in any case.
        let left = plan.max_size.saturating_sub(header.len());
        let mut writer = Writer { out, encoder, left, unwritten: header, waiting: waiting.clone() };
        writer.flush()?;
        thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            // The last line, if it can be written, says why it ends.
            writer
                .write(&incoming)
                .unwrap_or_else(|error| tracing::warn!(%error, "could not write the recording"));
            done.send(()).ok();
        })?;
        let start = tokio::time::Instant::now().into_std();
        Ok(Recorder { start, notes: Some(notes), waiting, max_waiting: plan.max_waiting, written })
    }

    /// Whether the recording has ended.
    fn has_ended(&self) -> bool {
        self.notes.is_none()
    }

    fn note(&mut self, now: Instant, happenings: Vec<Happening>) {
        let Some(notes) = &self.notes else { return };
        let at = now.saturating_duration_since(self.start);
        let size = happenings.iter().map(size).sum();
        let waiting = self.waiting.fetch_add(size, Ordering::Relaxed) + size;
        let (note, is_last) = match waiting > self.max_waiting && waiting > size {
            true => (Note::End(at, Kind::TooSlow), true),
            false => (Note::Step(at, happenings, size), false),
        };
        // An ended writer has logged the reason.
        if notes.send(note).is_err() || is_last {
            self.notes = None;
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(notes) = self.notes.take() {
            let now = tokio::time::Instant::now().into_std();
            notes.send(Note::End(now.saturating_duration_since(self.start), Kind::Done)).ok();
        }
        if self.written.recv_timeout(FAREWELL).is_err() {
            tracing::warn!("recording ended early: writing its file took too long");
        }
    }
}

/// The rough size in memory.
fn size(it: &Happening) -> usize {
    const REST: usize = 256;
    REST + match it {
        Happening::Event(Event::Received(_, frame)) | Happening::Effect(Effect::Send(_, frame), _) => {
            frame.wire_len()
        }
        Happening::Event(Event::ToolRan(frame))
        | Happening::Effect(Effect::RunTool { call: frame, .. }, _) => frame.wire_len(),
        Happening::Effect(Effect::WriteTranscript { content, .. } | Effect::WriteTeam { content, .. }, _) => {
            content.len()
        }
        Happening::Event(Event::TeamsLoaded(all)) => {
            all.iter().map(|it| it.state.as_ref().map_or(0, bytes::Bytes::len)).sum()
        }
        Happening::Event(Event::Looked(seen)) => {
            seen.texts.iter().map(|(_, it)| it.as_ref().map_or(0, String::len)).sum()
        }
        Happening::Effect(Effect::Write(write), _) => {
            let text = |it: &FileChange| match it {
                FileChange::Put { text, .. } => text.len(),
                FileChange::Remove { .. } | FileChange::Move { .. } => 0,
            };
            write.changes.iter().map(text).sum()
        }
        Happening::Event(Event::Exited { stderr, .. }) => stderr.len(),
        Happening::Event(_) | Happening::Effect(..) | Happening::Timeout | Happening::Panic => 0,
    }
}

/// Makes the file, under this name or the next free one.
fn create(file: &Path) -> io::Result<(File, PathBuf)> {
    if file.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder: name a file in it"));
    }
    let mut all = std::iter::once(file.to_owned()).chain((2..=NAMES).map(|n| numbered(file, n)));
    let open = |path: &PathBuf| private_file().write(true).create_new(true).open(path);
    let found = all.find_map(|path| match open(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
        other => Some(other.map(|it| (it, path))),
    });
    found.unwrap_or_else(|| {
        let message = format!("{NAMES} recordings of that name exist");
        Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
    })
}

/// `a/bug.jsonl` with a number: `a/bug-2.jsonl`.
fn numbered(file: &Path, n: usize) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{n}"));
    if let Some(extension) = file.extension() {
        name.push(".");
        name.push(extension);
    }
    file.with_file_name(name)
}

struct Writer<W> {
    out: W,
    encoder: Encoder,
    /// How many bytes may still be written.
    left: usize,
    /// Whole lines.
    unwritten: Vec<u8>,
    waiting: Arc<AtomicUsize>,
}

/// How long the writer sleeps after a note, so that not every message wakes it.
const NAP: Duration = Duration::from_millis(2);

/// How many bytes to gather before a write, unless the queue is empty.
const GATHERED: usize = 64 << 10;

impl<W: Write> Writer<W> {
    fn write(&mut self, notes: &mpsc::Receiver<Note>) -> io::Result<()> {
        loop {
            let note = match notes.try_recv() {
                Ok(note) => note,
                Err(_) => {
                    self.flush()?;
                    let Ok(note) = notes.recv() else { return Ok(()) };
                    thread::sleep(NAP);
                    note
                }
            };
            let (at, happenings, size) = match note {
                Note::Step(at, happenings, size) => (at, happenings, size),
                Note::End(at, kind) => {
                    self.unwritten.extend_from_slice(&Encoder::end(at, kind));
                    return self.flush();
                }
            };
            for it in happenings {
                let line = self.encode(at, it);
                if !self.line(&line) {
                    self.unwritten.extend_from_slice(&Encoder::end(at, Kind::Full));
                    return self.flush();
                }
            }
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            if self.unwritten.len() > GATHERED {
                self.flush()?;
            }
        }
    }

    fn encode(&mut self, at: Duration, it: Happening) -> Vec<u8> {
        match it {
            Happening::Event(event) => self.encoder.event(at, &event),
            Happening::Timeout => Encoder::timeout(at),
            Happening::Effect(effect, about) => self.encoder.effect(at, &effect, about),
            Happening::Panic => Encoder::panic(at),
        }
    }

    /// Adds a line, if there is room for it and for a last one.
    fn line(&mut self, line: &[u8]) -> bool {
        let has_room = self.left >= line.len() + LAST_LINE;
        if has_room {
            self.left -= line.len();
            self.unwritten.extend_from_slice(line);
        }
        has_room
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.write_all(&self.unwritten);
        self.unwritten.clear();
        done
    }
}

/// A core with a recording.
#[derive(Debug)]
pub struct Recorded<C> {
    core: C,
    recorder: Recorder,
}

impl<C: Core> Recorded<C> {
    /// Wraps a core before its first event.
    pub fn new(core: C, recorder: Recorder) -> Recorded<C> {
        Recorded { core, recorder }
    }

    fn step(
        &mut self,
        now: Instant,
        what: Happening,
        out: &mut Effects,
        call: impl FnOnce(&mut C, &mut Effects),
    ) {
        let before = out.len();
        let step = Step { recorded: self, now, what: Some(what), out, before };
        call(&mut step.recorded.core, step.out);
    }
}

/// Recorded when dropped, so that a panic of the core is recorded too.
struct Step<'a, C: Core> {
    recorded: &'a mut Recorded<C>,
    now: Instant,
    what: Option<Happening>,
    out: &'a mut Effects,
    before: usize,
}

impl<C: Core> Drop for Step<'_, C> {
    fn drop(&mut self) {
        let core = &self.recorded.core;
        let effects = self.out.iter().skip(self.before);
        let effects = effects.map(|it| Happening::Effect(it.clone(), core.about(it)));
        let panicked = thread::panicking().then_some(Happening::Panic);
        let happenings = self.what.take().into_iter().chain(effects).chain(panicked).collect();
        self.recorded.recorder.note(self.now, happenings);
    }
}

impl<C: Core> Core for Recorded<C> {
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        if self.recorder.has_ended() {
            return self.core.handle(now, event, out);
        }
        self.step(now, Happening::Event(event.clone()), out, |core, out| core.handle(now, event, out));
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        if self.recorder.has_ended() {
            return self.core.handle_timeout(now, out);
        }
        self.step(now, Happening::Timeout, out, |core, out| core.handle_timeout(now, out));
    }

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        self.core.poll_timeout()
    }

    fn knows(&self, backend: BackendId) -> bool {
        self.core.knows(backend)
    }
}

#[cfg(test)]
mod tests;
