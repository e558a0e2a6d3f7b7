//! How processes of the operating system start and end under the driver, with a scripted core.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests live in real time, and what they cannot have they fail for"
)]

use std::{
    collections::VecDeque,
    fs,
    os::unix::fs::PermissionsExt as _,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use lspool::{
    core::event::{
        BackendId, Effect, Effects, Event, Exit, Generation, Launch, Peer, ProcessId, SpawnFailure,
    },
    shell::{
        Settings,
        driver::{Core, Driver},
        guard::{Guard, Mark},
        system::System,
    },
};
use tokio::{io::empty, sync::mpsc};

use crate::support::processes;

const SERVER: ProcessId = ProcessId { backend: BackendId(0), generation: Generation(1) };

/// Starts one process, and notes what happens until it is gone.
struct Script {
    first: VecDeque<Effect>,
    /// The action at the first message.
    at_message: Vec<Effect>,
    /// Ends when this holds for an event.
    is_last: fn(&Event) -> bool,
}

/// The core shares its notes with the test when it is dropped.
struct Noting {
    script: Script,
    notes: mpsc::UnboundedSender<Event>,
}

impl Core for Noting {
    fn handle(&mut self, _now: Instant, event: Event, out: &mut Effects) {
        let script = &mut self.script;
        // The first event is the end of the editor's empty stream.
        out.extend(script.first.drain(..));
        if matches!(event, Event::Received(Peer::Backend(_), _)) {
            out.append(&mut script.at_message);
        }
        if (script.is_last)(&event) {
            out.push(Effect::Exit(0));
        }
        self.notes.send(event).unwrap();
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Effects) {}

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        None
    }
}

fn shell(script: &str, mark: &Command) -> Effect {
    let env = mark.get_envs().filter_map(|(name, value)| Some((text(name), text(value?)))).collect();
    let launch = Launch {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env,
        cwd: None,
        max_message: 1 << 20,
        write_stall: Duration::from_mins(1),
        root: None,
        remote: None,
        share: None,
    };
    Effect::Spawn(SERVER, Arc::new(launch))
}

fn text(words: &std::ffi::OsStr) -> String {
    words.to_string_lossy().into_owned()
}

fn is_exit(event: &Event) -> bool {
    matches!(event, Event::Exited { .. } | Event::SpawnFailed(..))
}

/// Plays a script; what happened but for the end of the editor's stream.
fn play(first: Vec<Effect>, at_message: Vec<Effect>, is_last: fn(&Event) -> bool) -> Vec<Event> {
    let (notes, mut noted) = mpsc::unbounded_channel();
    let script = Script { first: first.into(), at_message, is_last };
    let guard = Guard::new(env!("CARGO_BIN_EXE_lspool").into(), Mark::new(std::process::id(), 0));
    let driver = Driver::new(Noting { script, notes }, System::new(guard), Arc::new(()), Settings::default());
    let (_signals, listening) = mpsc::channel(1);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all();
    let runtime = runtime.build_local(tokio::runtime::LocalOptions::default()).unwrap();
    let code = runtime.block_on(async {
        let run = driver.run(Box::new(empty()), Box::new(tokio::io::sink()), listening);
        tokio::time::timeout(Duration::from_mins(1), run).await.expect("hangs")
    });
    assert_eq!(code, 0);
    let mut events = Vec::new();
    while let Ok(event) = noted.try_recv() {
        if !matches!(event, Event::Closed { peer: Peer::Client(_), .. }) {
            events.push(event);
        }
    }
    events
}

#[track_caller]
fn exit(events: &[Event]) -> (Exit, &str) {
    let [.., Event::Exited { exit, stderr, .. }] = events else { panic!("{events:?}") };
    (*exit, stderr)
}

const FRAME: &str = r#"printf 'Content-Length: 14\r\n\r\n{"method":"m"}'"#;

#[test]
fn server_ignoring_signals_is_killed_with_its_helpers() {
    let mut command = Command::new("sh");
    let mark = processes::Mark::of(&mut command);
    let script = format!("trap '' TERM HUP INT; sleep 1000 & {FRAME}; while :; do sleep 1000; done");
    let started = Instant::now();
    let events = play(vec![shell(&script, &command)], vec![Effect::Terminate(SERVER)], is_exit);
    assert_eq!(exit(&events), (Exit::Signal(9), ""));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    mark.wait_gone(Duration::from_secs(1));
}

#[test]
fn server_that_ends_with_its_input_gets_no_signal() {
    let script = format!("trap 'echo signalled >&2' TERM; {FRAME}; cat >/dev/null; echo done >&2; exit 4");
    let events = play(vec![shell(&script, &Command::new("sh"))], vec![Effect::Terminate(SERVER)], is_exit);
    assert_eq!(exit(&events), (Exit::Code(4), "done"));
}

#[test]
fn server_may_clean_up_after_sigterm() {
    let script = format!("trap 'echo bye >&2; exit 5' TERM; {FRAME}; while :; do sleep 0.05; done");
    let events = play(vec![shell(&script, &Command::new("sh"))], vec![Effect::Terminate(SERVER)], is_exit);
    let (exit, stderr) = exit(&events);
    // The shell may say what became of its `sleep`.
    assert!(exit == Exit::Code(5) && stderr.ends_with("bye"), "{exit}: {stderr}");
}

#[test]
fn helpers_end_with_their_server() {
    let mut command = Command::new("sh");
    let mark = processes::Mark::of(&mut command);
    let events = play(vec![shell("sleep 1000 & exit 3", &command)], vec![], is_exit);
    assert_eq!(exit(&events), (Exit::Code(3), ""));
    mark.wait_gone(Duration::from_secs(1));
}

#[test]
fn helper_outside_group_does_not_delay_exit_event() {
    let mut command = Command::new("sh");
    let mark = processes::Mark::of(&mut command);
    // Without the mark, which would lead to it at the end.
    let script = format!("env -u LSPOOL_GUARD_MARK setsid sleep 1000 & sleep 0.2; {FRAME}; exit 6");
    let started = Instant::now();
    let events = play(vec![shell(&script, &command)], vec![], is_exit);
    let took = started.elapsed();
    assert_eq!(mark.processes_running("sleep 1000").len(), 1, "it holds stdout open");
    mark.kill_all();
    assert_eq!(exit(&events), (Exit::Code(6), ""));
    assert!(matches!(events[..], [Event::Spawned { .. }, Event::Received(..), Event::Exited { .. }]));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn messages_before_exit_are_delivered() {
    let script = format!("i=0; while [ $i -lt 3000 ]; do {FRAME}; i=$((i+1)); done; kill -9 $$");
    let events = play(vec![shell(&script, &Command::new("sh"))], vec![], is_exit);
    assert_eq!(exit(&events), (Exit::Signal(9), ""));
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Received(..))).count(), 3000);
}

#[test]
fn ten_megabytes_on_stderr_block_nothing() {
    let flood = "head -c 10000000 /dev/zero | tr '\\0' x >&2";
    let script = format!("{flood}; echo >&2; for i in 1 2 3; do echo \"line $i\" >&2; done; {FRAME}; exit 7");
    let events = play(vec![shell(&script, &Command::new("sh"))], vec![], is_exit);
    assert_eq!(exit(&events), (Exit::Code(7), "line 1\nline 2\nline 3"));
    assert!(events.iter().any(|event| matches!(event, Event::Received(..))));
}

#[test]
fn script_without_first_line_for_the_system_runs_in_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("später 😀");
    fs::write(&script, "# a comment\necho \"$0 $1\" >&2; exit 5\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let launch = Launch {
        program: script.clone(),
        args: vec!["--stdio".into()],
        env: vec![],
        cwd: None,
        max_message: 1 << 20,
        write_stall: Duration::from_mins(1),
        root: None,
        remote: None,
        share: None,
    };
    let events = play(vec![Effect::Spawn(SERVER, Arc::new(launch))], vec![], is_exit);
    assert_eq!(exit(&events), (Exit::Code(5), &*format!("{} --stdio", script.display())));
}

#[test]
fn spawn_failure_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage");
    fs::write(&garbage, [0xff; 16]).unwrap();
    fs::set_permissions(&garbage, fs::Permissions::from_mode(0o755)).unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let missing = folder.path().join("missing");
    for (program, cwd, what) in [
        (&missing, None, "No such file"),
        (&plain, None, "Permission denied"),
        (&garbage, None, "Exec format error"),
        (&"/bin/sh".into(), Some(missing.clone()), "working folder"),
    ] {
        let launch = Launch {
            program: program.clone(),
            args: vec![],
            env: vec![],
            cwd,
            max_message: 1 << 20,
            write_stall: Duration::from_mins(1),
            root: None,
            remote: None,
            share: None,
        };
        let events = play(vec![Effect::Spawn(SERVER, Arc::new(launch))], vec![], is_exit);
        let [Event::SpawnFailed(SERVER, SpawnFailure { permanent: true, message, moved: None })] =
            &events[..]
        else {
            panic!("{program:?}: {events:?}");
        };
        assert!(message.contains(what) && message.contains(&*program.to_string_lossy()), "{message}");
    }
}

#[test]
fn editor_process_is_watched_only_if_alive() {
    let mut editor = Command::new("sleep").arg("0.3").spawn().unwrap();
    let watch = vec![Effect::WatchEditor(editor.id())];
    let events = play(watch, vec![], |event| matches!(event, Event::EditorGone));
    assert!(matches!(events[..], [Event::EditorGone]), "{events:?}");
    let status = editor.wait().unwrap();
    assert!(status.success());

    // Reaped, so its number is free: it needs no signal.
    let gone = Effect::WatchEditor(editor.id());
    let events = play(vec![gone, shell("sleep 0.2", &Command::new("sh"))], vec![], is_exit);
    assert!(matches!(events[..], [Event::Spawned { .. }, Event::Exited { .. }]), "{events:?}");
}
