//! Control clients: their limits, and that nothing waits for them.

use super::*;
use crate::shell::outbox::Limits;

/// Someone who connects.
async fn connect(connect: &mpsc::Sender<Connection>, pipe: usize) -> FrameStream {
    let (mouth, input) = duplex(pipe);
    let (output, ear) = duplex(pipe);
    connect.send((Box::new(input), Box::new(output))).await.unwrap();
    FrameStream::new(ear, mouth)
}

/// A core that answers every request, and notes everything else.
fn answering(log: &Log) -> impl FnMut(Event) -> Vec<Effect> + use<> {
    let log = log.clone();
    move |event| {
        log.note(&event);
        match event {
            Event::Received(peer @ Peer::Client(client), frame) => match (frame.method(), client) {
                (Some("start"), _) => vec![Effect::Spawn(FIRST, launch())],
                (Some("logs"), _) => {
                    let id = frame.id().unwrap();
                    vec![Effect::Logs { backend: BackendId(0), client, id, follow: true }]
                }
                (Some("to server"), _) => vec![Effect::Send(Peer::Backend(FIRST), frame)],
                (Some("measure"), _) => vec![Effect::Measure(vec![FIRST, process(7)])],
                _ => vec![Effect::Send(peer, answer(id(&frame), 100))],
            },
            Event::Received(Peer::Backend(_), _) => vec![],
            Event::Closed { peer: EDITOR, .. } => vec![Effect::Exit(0)],
            _ => vec![],
        }
    }
}

/// Knows a backend as long as it has a process.
struct Forgetful<C> {
    inner: C,
    has_exited: bool,
    forgets: bool,
}

impl<C: Core> Core for Forgetful<C> {
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        self.has_exited |= matches!(event, Event::Exited { .. });
        self.inner.handle(now, event, out);
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Effects) {}

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        None
    }

    fn knows(&self, _backend: BackendId) -> bool {
        !(self.forgets && self.has_exited)
    }
}

#[tokio::test(start_paused = true)]
async fn backend_log_is_kept_while_backend_is_known() {
    for forgets in [false, true] {
        let mut stage = Stage::new();
        let log = stage.log.clone();
        let inner = Script(answering(&stage.log));
        let core = Forgetful { inner, has_exited: false, forgets };
        let server = async |mut it: Streams| {
            it.stderr.write_all(b"oh no\n").await.unwrap();
            Exit::Code(1)
        };
        let editor = async move |mut editor: FrameStream| {
            editor.say(&note("start")).await;
            // Time passes when all else is done.
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert!(log.lines().iter().any(|it| it.starts_with("exited")), "{:?}", log.lines());
            editor.say(&Frame::request(RawId::from(1), "logs", None)).await;
            let answer = editor.hear().await.unwrap();
            String::from_utf8(answer.result().unwrap().to_vec()).unwrap()
        };
        let (_, told) = stage.play(core, editor, server).await;
        assert_eq!(told.contains("oh no"), !forgets, "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn control_clients_get_own_answers_and_fresh_numbers() {
    let mut stage = Stage::new();
    let (log, to) = (stage.log.clone(), stage.connect.clone());
    let editor = async move |mut editor: FrameStream| {
        for n in 1..=3 {
            let mut one = connect(&to, 4096).await;
            let mut other = connect(&to, 4096).await;
            one.say(&request(n, 10)).await;
            other.say(&request(n + 10, 10)).await;
            assert_eq!(id(&other.hear().await.unwrap()), n + 10);
            assert_eq!(id(&one.hear().await.unwrap()), n);
            editor.say(&request(5, 10)).await;
            assert_eq!(id(&editor.hear().await.unwrap()), 5);
        }
        let mut last = connect(&to, 4096).await;
        last.output.write_all(b"Content-Length: 5\r\n\r\n{]}[{").await.unwrap();
        last.output.write_all(b"Content-Length: 9999999\r\n\r\n").await.unwrap();
        assert!(last.hear().await.is_none());
    };
    let (code, ()) = Box::pin(stage.play(Script(answering(&log)), editor, deaf)).await;
    assert_eq!(code, 0);
    let mut lines = log.lines();
    lines.sort();
    let closed: Vec<_> = (1..=6).map(|n| format!("closed client {n} None")).collect();
    assert_eq!(lines[..6], closed);
    assert!(lines[6].starts_with("closed client 7 Some(\"a message has 9999999 bytes"), "{lines:?}");
    assert_eq!(lines[7..], ["closed editor None", "closed the world", "malformed client 7 None"]);
}

#[tokio::test(start_paused = true)]
async fn control_refuses_more_than_32_clients() {
    let mut stage = Stage::new();
    let (log, to) = (stage.log.clone(), stage.connect.clone());
    let editor = async move |editor: FrameStream| {
        let mut all = Vec::new();
        for _ in 0..32 {
            all.push(connect(&to, 4096).await);
        }
        for _ in 0..1000 {
            let mut refused = connect(&to, 4096).await;
            assert!(refused.hear().await.is_none());
        }
        for it in &mut all {
            it.say(&request(1, 10)).await;
            assert_eq!(id(&it.hear().await.unwrap()), 1);
        }
        drop(all.pop());
        // Hung up on until the other's place is free.
        loop {
            let mut next = connect(&to, 4096).await;
            next.output.write_all(&wire(&request(2, 10))).await.ok();
            if next.hear().await.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(editor);
    };
    let (code, ()) = Box::pin(stage.play(Script(answering(&log)), editor, deaf)).await;
    assert_eq!(code, 0);
}

#[tokio::test(start_paused = true)]
async fn control_client_that_does_not_read_is_dropped() {
    let mut stage = Stage::new();
    stage.settings.control.outbox = Limits { high_water: 2000, low_water: 1000, hard_cap: 40_000 };
    let (log, to) = (stage.log.clone(), stage.connect.clone());
    let editor = async move |mut editor: FrameStream| {
        let start = tokio::time::Instant::now();
        let mut flood = connect(&to, 4096).await;
        let mut n = 0;
        // Until nothing listens.
        while flood.output.write_all(&wire(&request(n, 10))).await.is_ok() {
            n += 1;
        }
        assert_eq!(start.elapsed().as_secs(), 10);
        // The content of the pipes, and everything over high water.
        assert!(n < 400, "{n}");
        editor.say(&request(5, 10)).await;
        assert_eq!(id(&editor.hear().await.unwrap()), 5);
    };
    let (code, ()) = Box::pin(stage.play(Script(answering(&log)), editor, deaf)).await;
    assert_eq!(code, 0);
    assert!(
        log.lines().contains(&"closed client 1 Some(\"it does not read\")".to_owned()),
        "{:?}",
        log.lines()
    );
}

#[tokio::test(start_paused = true)]
async fn control_client_over_hard_cap_is_dropped() {
    let mut stage = Stage::new();
    stage.settings.control.outbox = Limits { high_water: 2000, low_water: 1000, hard_cap: 10_000 };
    let (log, to) = (stage.log.clone(), stage.connect.clone());
    let noted = log.clone();
    let core = move |event: Event| {
        noted.note(&event);
        match event {
            Event::Received(peer, frame) if peer != EDITOR && frame.method() == Some("watch") => {
                (0..200).map(|n| Effect::Send(peer, request(n, 100))).collect()
            }
            Event::Received(EDITOR, frame) => vec![Effect::Send(EDITOR, answer(id(&frame), 10))],
            Event::Closed { peer: EDITOR, .. } => vec![Effect::Exit(0)],
            _ => vec![],
        }
    };
    let editor = async move |mut editor: FrameStream| {
        let mut client = connect(&to, 512).await;
        client.say(&note("watch")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.output.write_all(b"x").await.unwrap_err();
        editor.say(&request(5, 10)).await;
        assert_eq!(id(&editor.hear().await.unwrap()), 5);
    };
    let (code, ()) = Box::pin(stage.play(Script(core), editor, deaf)).await;
    assert_eq!(code, 0);
    let told: Vec<_> = log.lines().into_iter().filter(|it| it.contains("client 1")).collect();
    assert_eq!(told, ["closed client 1 Some(\"its queue exceeded the limit\")"]);
}

#[tokio::test(start_paused = true)]
async fn flood_of_control_requests_does_not_delay_editor() {
    let mut stage = Stage::new();
    let (log, to) = (stage.log.clone(), stage.connect.clone());
    let served = Rc::new(Cell::new(0_u64));
    let mut core = answering(&log);
    let counted = {
        let served = served.clone();
        move |event: Event| {
            if let Event::Received(Peer::Client(ClientId(1..)), _) = &event {
                served.set(served.get() + 1);
            }
            core(event)
        }
    };
    let flood = async move |mut editor: FrameStream| {
        for _ in 0..32 {
            let FrameStream { mut input, mut output, .. } = connect(&to, 1 << 16).await;
            spawn_local(async move { while output.write_all(&wire(&request(1, 10))).await.is_ok() {} });
            spawn_local(async move {
                let mut buffer = [0; 4096];
                while input.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
            });
        }
        while served.get() < 1000 {
            tokio::task::yield_now().await;
        }
        let before = served.get();
        for n in 0..100 {
            editor.say(&request(n, 10)).await;
            assert_eq!(id(&editor.hear().await.unwrap()), n);
        }
        served.get() - before
    };
    let editor = async move |editor| tokio::task::LocalSet::new().run_until(flood(editor)).await;
    let (code, between) = Box::pin(stage.play(Script(counted), editor, deaf)).await;
    assert_eq!(code, 0);
    // Each message of the editor waits for a few turns of the driver, in each of which few of theirs are taken.
    assert!(between < 100 * 64, "{between}");
}

#[tokio::test(start_paused = true)]
async fn control_client_that_hangs_up_gets_its_answer() {
    let mut stage = Stage::new();
    let (log, to) = (stage.log.clone(), stage.connect.clone());
    let editor = async move |editor: FrameStream| {
        let FrameStream { input, mut output, .. } = connect(&to, 4096).await;
        output.write_all(&wire(&request(1, 10))).await.unwrap();
        drop(output);
        let (unheard, _) = duplex(1);
        let mut it = FrameStream::new(input, unheard);
        assert_eq!(id(&it.hear().await.unwrap()), 1);
        assert!(it.hear().await.is_none());
        drop(editor);
    };
    let (code, ()) = Box::pin(stage.play(Script(answering(&log)), editor, deaf)).await;
    assert_eq!(code, 0);
}

#[tokio::test(start_paused = true)]
async fn logs_outlive_process_and_can_be_followed() {
    let mut stage = Stage::new();
    let (log, to) = (stage.log.clone(), stage.connect.clone());
    let server = async |mut it: Streams| {
        it.stderr.write_all(b"one\nGH_TOKEN=ghu_abc12345\n").await.unwrap();
        while it.stream.hear().await.is_some() {
            it.stderr.write_all(b"more\n").await.unwrap();
            if it.stream.hear().await.is_some() {
                it.stderr.write_all(b"last words").await.unwrap();
                return Exit::Code(3);
            }
        }
        Exit::Code(0)
    };
    let noted = log.clone();
    let editor = async move |mut editor: FrameStream| {
        let texts = |frame: &Frame| -> serde_json::Value {
            serde_json::from_slice(frame.result().or(frame.params()).unwrap()).unwrap()
        };
        editor.say(&note("start")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut client = connect(&to, 4096).await;
        let logs = |id: u64| Frame::request(RawId::from(id), "logs", None);
        client.say(&logs(4)).await;
        let lines = texts(&client.hear().await.unwrap())["lines"].take();
        assert!(lines[0].as_str().unwrap().starts_with("[lspool] process 1 started ("), "{lines}");
        assert_eq!(
            (&lines[1], &lines[2], &lines[3]),
            (&"one".into(), &"GH_TOKEN=<secret>".into(), &serde_json::Value::Null)
        );
        client.say(&note("to server")).await;
        let told = client.hear().await.unwrap();
        assert_eq!(told.method(), Some("lspool/log"));
        assert_eq!(texts(&told), serde_json::json!({"id": 4, "line": "more"}));
        client.say(&note("to server")).await;
        assert_eq!(texts(&client.hear().await.unwrap())["line"], "last words");
        let end = texts(&client.hear().await.unwrap())["line"].take();
        let expected = "[lspool] process 1 ended by itself: exit code 3 (";
        assert!(end.as_str().unwrap().starts_with(expected), "{end}");
        // The editor may ask as well, and later.
        editor.say(&logs(9)).await;
        let all = texts(&editor.hear().await.unwrap());
        assert_eq!(all["lines"].as_array().unwrap().len(), 6);
    };
    let (code, ()) = Box::pin(stage.play(Script(answering(&log)), editor, server)).await;
    assert_eq!(code, 0);
    assert!(
        noted.lines().iter().any(|it| it.starts_with("exited: exit code 3, \"one\\n")),
        "{:?}",
        noted.lines()
    );
}

#[tokio::test]
async fn memory_is_measured_only_for_running_processes() {
    let mut stage = Stage::new();
    let log = stage.log.clone();
    let noted = log.clone();
    let editor = async move |mut editor: FrameStream| {
        let until = async |what: &str| {
            while !noted.lines().iter().any(|it| it.starts_with(what)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        editor.say(&note("start")).await;
        until("spawned").await;
        editor.say(&note("measure")).await;
        editor.say(&request(1, 1)).await;
        editor.hear().await.unwrap();
        until("Measured").await;
    };
    let core = Script(answering(&log));
    stage.play(core, editor, deaf).await;
    // Process 1, which the fake has the number of, is there wherever `/proc` is.
    let measured = log.lines().into_iter().find(|it| it.starts_with("Measured")).unwrap();
    assert_eq!(measured.matches("ProcessId").count(), usize::from(cfg!(target_os = "linux")), "{measured}");
}
