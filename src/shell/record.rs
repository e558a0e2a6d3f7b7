//! Writes a recording of all that the core is told and answers, while it happens.
//!
//! - **The core is never held up**: what happens is handed to a thread of its own, which makes lines of it, takes
//!   secrets and texts out, and writes. What waits for that thread is bounded in bytes; beyond that the recording
//!   ends, and says so in its last line.
//! - **A file that is there is never touched**, nor a link followed: the next free name is taken.
//! - Lines are written whole, so a recording of a killed lspool can be read up to where it ends.

use std::{
    env,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use super::driver::Core;
use crate::{
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

/// The variable that says where to record if no flag does. For editors that give no flags to their servers.
pub const VARIABLE: &str = "LSPOOL_RECORD";

/// Bytes of messages that may wait to be written, usually.
pub const WAITING: usize = 64 << 20;

/// How long the end of lspool may be held up by what is not yet written.
const FAREWELL: Duration = Duration::from_secs(1);

/// Names that are tried beside the one that was asked for.
const NAMES: usize = 1000;

/// What the last line needs.
const LAST_LINE: usize = 128;

/// What a recording is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whether texts stay as they are.
    pub texts: bool,
    /// How long the file may become, in bytes.
    pub max_size: usize,
    /// How much may wait to be written, in bytes.
    pub max_waiting: usize,
}

/// Something that happened, on its way to the file.
enum Happening {
    Event(Event),
    Timeout,
    Effect(Effect, Option<About>),
    Panic,
}

enum Note {
    Step(Duration, Vec<Happening>, usize),
    /// Nothing more comes, for this reason.
    End(Duration, Kind),
}

/// Where to tell what happens.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    /// Absent once the recording has ended.
    notes: Option<mpsc::Sender<Note>>,
    waiting: Arc<AtomicUsize>,
    max_waiting: usize,
    written: mpsc::Receiver<()>,
}

impl Recorder {
    /// Begins a recording in a new file that only this user can read. Its name may be another one: `FILE-2` and so on.
    pub fn create(
        file: &Path,
        plan: &Plan,
        identity: Identity,
        config: &Config,
    ) -> io::Result<(Recorder, PathBuf)> {
        let (out, path) = create(file)?;
        // Only those that are text can be told apart from one.
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
        // A file without a header is none, however short it is to be.
        let left = plan.max_size.saturating_sub(header.len());
        let mut writer = Writer { out, encoder, left, unwritten: header, waiting: waiting.clone() };
        writer.flush()?;
        thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            // Why it ends is in its last line, or cannot be told.
            writer
                .write(&incoming)
                .unwrap_or_else(|error| tracing::warn!(%error, "could not write the recording"));
            done.send(()).ok();
        })?;
        let start = tokio::time::Instant::now().into_std();
        Ok(Recorder { start, notes: Some(notes), waiting, max_waiting: plan.max_waiting, written })
    }

    /// Whether nothing more is recorded.
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
        // A writer that is gone has said why.
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

/// What it holds in memory, roughly.
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
    let open = |path: &PathBuf| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
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
    /// Bytes that may still be written.
    left: usize,
    /// Whole lines.
    unwritten: Vec<u8>,
    waiting: Arc<AtomicUsize>,
}

/// So long the writer sleeps when something has come: who forwards messages need not wake it for each of them.
const NAP: Duration = Duration::from_millis(2);

/// Lines are gathered until they have come to this, unless there is nothing more to do.
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

    /// Takes a line if there is room for it, and for a last one.
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

/// A core, and a recording of what it does.
#[derive(Debug)]
pub struct Recorded<C> {
    core: C,
    recorder: Recorder,
}

impl<C: Core> Recorded<C> {
    /// Nothing has happened to the core yet.
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

/// Recorded when it is dropped, so that what makes the core panic is recorded too.
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
