#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Condvar, Mutex},
};

use bytes::Bytes;

use super::*;
use crate::{
    core::{
        Proxy,
        event::{ClientId, Peer},
    },
    recording::{
        format::{Dir, Line},
        replay::Replay,
    },
    rpc::Frame,
};

const IDENTITY: Identity = Identity { pid: 7, started: 8 };
const PLAN: Plan = Plan { texts: false, max_size: 1 << 20, max_waiting: 1 << 20 };

fn said(body: impl Into<Bytes>) -> Event {
    Event::Received(Peer::Client(ClientId::EDITOR), Frame::parse(body.into()).unwrap())
}

/// The written bytes. While it is shut, writing waits.
#[derive(Clone, Default)]
struct Disk(Arc<Platter>);

#[derive(Default)]
struct Platter {
    written: Mutex<Vec<u8>>,
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Disk {
    fn shut(&self, is_shut: bool) {
        *self.0.is_shut.lock().unwrap() = is_shut;
        self.0.opened.notify_all();
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.written.lock().unwrap().clone()).unwrap()
    }

    fn last(&self) -> (Dir, Kind) {
        let text = self.text();
        let line: Line<'_> = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        (line.dir, line.kind)
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_shut = self.0.is_shut.lock().unwrap();
        drop(self.0.opened.wait_while(is_shut, |it| *it).unwrap());
        self.0.written.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn recorded<C: Core>(core: C, disk: &Disk, plan: &Plan) -> Recorded<C> {
    let encoder = Encoder::new(plan.texts, []);
    let recorder = Recorder::start(disk.clone(), encoder, plan, IDENTITY, &Config::default()).unwrap();
    Recorded::new(core, recorder)
}

#[test]
fn recorder_refuses_folder_as_file() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("recordings");
    std::fs::create_dir(&folder).unwrap();
    let error = Recorder::create(&folder, &PLAN, IDENTITY, &Config::default()).unwrap_err();
    assert_eq!(error.to_string(), "it is a folder: name a file in it");
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1, "nothing beside it");
}

#[cfg(unix)]
#[test]
fn recording_is_private_and_overwrites_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, folder.path().join("bug.jsonl")).unwrap();
    std::fs::write(folder.path().join("bug-2.jsonl"), "mine").unwrap();
    let file = folder.path().join("bug.jsonl");
    let (recorder, path) = Recorder::create(&file, &PLAN, IDENTITY, &Config::default()).unwrap();
    drop(recorder);
    assert_eq!(path, folder.path().join("bug-3.jsonl"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read(folder.path().join("bug-2.jsonl")).unwrap(), b"mine");
    assert!(!elsewhere.exists());
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 2);
}

#[test]
fn recorded_session_replays_without_difference() {
    let disk = Disk::default();
    let mut core = recorded(Proxy::new(IDENTITY), &disk, &PLAN);
    let mut out = Effects::new();
    core.handle(
        Instant::now(),
        said(r#"{"id":1,"method":"initialize","params":{"capabilities":{}}}"#),
        &mut out,
    );
    core.handle(Instant::now(), Event::Prepared(Err("there is none".to_owned())), &mut out);
    core.handle_timeout(Instant::now(), &mut out);
    assert!(!out.is_empty());
    drop(core);
    assert_eq!(disk.last(), (Dir::End, Kind::Done));
    let text = disk.text();
    let (mut replay, header) = Replay::new(text.as_bytes(), Instant::now()).unwrap();
    assert_eq!((header.pid, header.started, header.texts), (7, 8, false));
    let mut events = 0;
    while let Some(step) = replay.step().unwrap() {
        assert_eq!(replay.difference(&step), None);
        events += 1;
    }
    assert_eq!(events, 3);
}

#[test]
fn recording_ends_at_its_size_limit() {
    let disk = Disk::default();
    let mut core = recorded(Proxy::new(IDENTITY), &disk, &Plan { max_size: 3000, ..PLAN });
    for _ in 0..100 {
        core.handle(Instant::now(), said(r#"{"method":"x"}"#), &mut Effects::new());
    }
    drop(core);
    assert_eq!(disk.last(), (Dir::End, Kind::Full));
    let length = disk.text().len();
    assert!((2500..=3000).contains(&length), "{length}");
}

#[test]
fn recording_smaller_than_its_header_is_still_valid() {
    let disk = Disk::default();
    let mut core = recorded(Proxy::new(IDENTITY), &disk, &Plan { max_size: 1, ..PLAN });
    core.handle(Instant::now(), said(r#"{"method":"x"}"#), &mut Effects::new());
    drop(core);
    let text = disk.text();
    assert_eq!((text.lines().count(), disk.last()), (2, (Dir::End, Kind::Full)));
    assert!(Replay::new(text.as_bytes(), Instant::now()).is_ok());
}

/// Answers each timeout, and counts the questions about it.
#[derive(Clone, Default)]
struct Asked(Arc<AtomicUsize>);

impl Core for Asked {
    fn handle(&mut self, _now: Instant, _event: Event, _out: &mut Effects) {}

    fn handle_timeout(&mut self, _now: Instant, out: &mut Effects) {
        out.push(Effect::WatchEditor(1));
    }

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        None
    }

    fn about(&self, _effect: &Effect) -> Option<About> {
        self.0.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[test]
fn recorder_keeps_nothing_after_recording_ends() {
    let (disk, asked) = (Disk::default(), Asked::default());
    let mut core = recorded(asked.clone(), &disk, &Plan { max_size: 1, ..PLAN });
    // The writer ends some time after the first note.
    while !core.recorder.has_ended() {
        core.handle_timeout(Instant::now(), &mut Effects::new());
    }
    let before = asked.0.load(Ordering::Relaxed);
    let mut out = Effects::new();
    core.handle_timeout(Instant::now(), &mut out);
    assert_eq!((out.len(), asked.0.load(Ordering::Relaxed)), (1, before));
}

#[test]
fn slow_disk_does_not_block_lspool() {
    let disk = Disk::default();
    let plan = Plan { max_size: usize::MAX, ..PLAN };
    let mut core = recorded(Proxy::new(IDENTITY), &disk, &plan);
    disk.shut(true);
    let text = "a".repeat(plan.max_waiting / 8);
    let message = Bytes::from(format!(r#"{{"method":"x","params":"{text}"}}"#));
    for _ in 0..100 {
        core.handle(Instant::now(), said(message.clone()), &mut Effects::new());
    }
    assert!(core.recorder.notes.is_none(), "nothing more is taken");
    disk.shut(false);
    drop(core);
    assert_eq!(disk.last(), (Dir::End, Kind::TooSlow));
}

/// Panics at a timeout, after an effect.
struct Panics;

impl Core for Panics {
    fn handle(&mut self, _now: Instant, _event: Event, _out: &mut Effects) {}

    fn handle_timeout(&mut self, _now: Instant, out: &mut Effects) {
        out.push(Effect::WatchEditor(1));
        panic!("a bug");
    }

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        None
    }
}

#[test]
fn recording_contains_the_panicking_event() {
    let disk = Disk::default();
    let mut core = recorded(Panics, &disk, &PLAN);
    let called = catch_unwind(AssertUnwindSafe(|| core.handle_timeout(Instant::now(), &mut Effects::new())));
    assert!(called.is_err());
    drop(core);
    let text = disk.text();
    let kinds: Vec<Kind> =
        text.lines().skip(1).map(|it| serde_json::from_str::<Line<'_>>(it).unwrap().kind).collect();
    assert_eq!(kinds, [Kind::Timeout, Kind::WatchEditor, Kind::Panic, Kind::Done]);
}
