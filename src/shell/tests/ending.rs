//! How servers end, and how we do.

use super::*;

fn noting(log: &Log) -> impl FnMut(Event) -> Vec<Effect> + use<> {
    let log = log.clone();
    move |event| {
        log.note(&event);
        relay(event)
    }
}

#[tokio::test(start_paused = true)]
async fn crash_is_reported_once_after_all_messages() {
    let mut stage = Stage::new();
    let log = stage.log.clone();
    let core = Script(move |event: Event| {
        log.note(&event);
        match event {
            Event::Received(Peer::Backend(_), frame) => {
                log.add(format!("message {}", id(&frame)));
                vec![]
            }
            Event::Exited { .. } => vec![Effect::Exit(3)],
            other => relay(other),
        }
    });
    let server = async |mut it: Streams| {
        it.stderr.write_all(b"panic: \xff\nat line 1\n").await.unwrap();
        for n in 0..3 {
            it.stream.say(&request(n, 1000)).await;
        }
        it.stream.output.write_all(b"Content-Length: 100\r\n\r\n{\"cut").await.unwrap();
        Exit::Signal(11)
    };
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        stream.hear().await
    };
    let (code, _) = stage.play(core, editor, server).await;
    let expected = [
        "spawned",
        "message 0",
        "message 1",
        "message 2",
        "exited: signal 11, \"panic: \u{fffd}\\nat line 1\"",
        "closed the world",
    ];
    assert_eq!((code, stage.log.lines()), (3, expected.map(str::to_owned).to_vec()));
}

#[tokio::test(start_paused = true)]
async fn end_of_stdout_is_reported_while_server_lives() {
    let mut stage = Stage::new();
    let server = async |it: Streams| {
        let FrameStream { input, output, .. } = it.stream;
        drop(output);
        let _keep = input;
        std::future::pending().await
    };
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    let (_, ()) = stage.play(Script(noting(&stage.log.clone())), editor, server).await;
    assert_eq!(stage.log.lines()[..3], ["spawned", "closed server 0 None", "closed editor None"]);
}

#[tokio::test(start_paused = true)]
async fn end_of_stdin_is_reported_on_next_write() {
    let mut stage = Stage::new();
    let server = async |it: Streams| {
        let FrameStream { input, output, .. } = it.stream;
        drop(input);
        let _keep = output;
        std::future::pending().await
    };
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        stream.say(&note("hello")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    let (_, ()) = stage.play(Script(noting(&stage.log.clone())), editor, server).await;
    let lines = stage.log.lines();
    assert!(lines[1].starts_with("closed server 0 Some(\"it reads no more: "), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn huge_length_is_reported_at_once_and_server_can_exit() {
    let mut stage = Stage::new();
    let server = async |mut it: Streams| {
        it.stream.output.write_all(b"Content-Length: 99999999999\r\n\r\n").await.unwrap();
        // More than the pipe holds.
        it.stream.output.write_all(&"x".repeat(100_000).into_bytes()).await.unwrap();
        while it.stream.hear().await.is_some() {}
        Exit::Code(0)
    };
    let log = stage.log.clone();
    let core = Script(move |event: Event| {
        log.note(&event);
        match event {
            Event::Closed { peer: Peer::Backend(id), .. } => vec![Effect::Terminate(id)],
            Event::Exited { .. } => vec![Effect::Exit(0)],
            other => relay(other),
        }
    });
    let editor = async |mut stream: FrameStream| {
        let started = tokio::time::Instant::now();
        stream.say(&note("start")).await;
        stream.hear().await;
        started.elapsed()
    };
    let (_, took) = stage.play(core, editor, server).await;
    let lines = stage.log.lines();
    assert!(lines[1].starts_with("closed server 0 Some(\"a message has 99999999999 bytes"), "{lines:?}");
    assert_eq!(lines[2..], ["exited: exit code 0, \"\"", "closed the world"]);
    assert_eq!(took, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn queued_messages_are_written_before_stdin_closes() {
    let mut stage = Stage::new();
    let log = stage.log.clone();
    let server = |mut it: Streams| {
        let log = log.clone();
        async move {
            let mut n = 0;
            while it.stream.hear().await.is_some() {
                n += 1;
            }
            log.add(format!("{n} messages heard"));
            Exit::Code(0)
        }
    };
    let core = Script(|event: Event| match event {
        Event::Received(EDITOR, frame) if frame.method() == Some("start") => {
            let send = |n| Effect::Send(Peer::Backend(FIRST), request(n, 1000));
            let mut effects = vec![Effect::Spawn(FIRST, launch())];
            effects.extend((0..100).map(send));
            effects.push(Effect::Terminate(FIRST));
            effects
        }
        Event::Exited { .. } => vec![Effect::Exit(0)],
        _ => vec![],
    });
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        stream.hear().await
    };
    stage.play(core, editor, server).await;
    assert_eq!(stage.log.lines(), ["100 messages heard", "closed the world"]);
}

#[tokio::test(start_paused = true)]
async fn exit_does_not_wait_for_peers_that_do_not_read() {
    let mut stage = Stage::new();
    let core = Script(|event: Event| match event {
        Event::Received(EDITOR, frame) if frame.method() == Some("start") => {
            vec![Effect::Spawn(process(0), launch()), Effect::Spawn(process(1), launch())]
        }
        Event::Received(EDITOR, _) => vec![
            Effect::Send(EDITOR, answer(1, 100_000)),
            Effect::Send(Peer::Backend(process(0)), request(1, 100_000)),
            Effect::Exit(5),
        ],
        _ => vec![],
    });
    let started = tokio::time::Instant::now();
    // Its stdin stays open, and it does not read.
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        stream.say(&note("exit")).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(stream.output.write_all(b"x").await.is_err(), "its streams are closed by now");
    };
    let signals = stage.signals.clone();
    let (code, ()) = stage.play(core, editor, deaf).await;
    drop(signals);
    assert_eq!(code, 5);
    assert_eq!(stage.log.lines(), ["Terminate", "Terminate", "Kill", "Kill", "closed the world"]);
    assert!(started.elapsed() >= Duration::from_mins(1));
}

#[tokio::test(start_paused = true)]
async fn exit_does_not_wait_for_server_that_ends_meanwhile() {
    let core = Script(|event: Event| match event {
        Event::Received(EDITOR, _) => {
            vec![Effect::Spawn(process(0), launch()), Effect::Spawn(process(1), launch())]
        }
        Event::Exited { .. } => vec![Effect::Exit(0)],
        _ => vec![],
    });
    let editor = async |mut stream: FrameStream| {
        let started = tokio::time::Instant::now();
        stream.say(&note("start")).await;
        assert!(stream.hear().await.is_none());
        started.elapsed()
    };
    let mut stage = Stage::new();
    // Both end at once, and the core gets no event for the end of the second.
    let (code, took) = stage.play(core, editor, async |_: Streams| Exit::Code(0)).await;
    assert_eq!((code, took), (0, Duration::ZERO));
    assert_eq!(stage.log.lines(), ["closed the world"]);
}

#[tokio::test(start_paused = true)]
async fn pending_answer_is_written_before_exit() {
    let core = Script(|event: Event| match event {
        Event::Received(..) => vec![Effect::Send(EDITOR, answer(1, 1 << 20)), Effect::Exit(0)],
        _ => vec![],
    });
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("exit")).await;
        let answer = stream.hear().await.unwrap();
        assert!(stream.hear().await.is_none());
        answer.wire_len()
    };
    let (code, len) = Stage::new().play(core, editor, deaf).await;
    assert_eq!((code, len), (0, answer(1, 1 << 20).wire_len()));
}

#[tokio::test(start_paused = true)]
async fn core_answers_first_signal_and_second_one_kills() {
    for is_second in [false, true] {
        let mut stage = Stage::new();
        let signals = stage.signals.clone();
        let core = Script(move |event: Event| match event {
            Event::Quit(_) if is_second => vec![],
            other => relay(other),
        });
        let editor = async move |mut stream: FrameStream| {
            stream.say(&note("start")).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let told = tokio::time::Instant::now();
            signals.send(15).await.unwrap();
            if is_second {
                tokio::time::sleep(Duration::from_secs(1)).await;
                signals.send(2).await.unwrap();
            }
            assert!(stream.hear().await.is_none());
            told.elapsed()
        };
        let (code, took) = stage.play(core, editor, deaf).await;
        if is_second {
            assert_eq!((code, took), (130, Duration::from_secs(1)));
            assert_eq!(stage.log.lines(), ["Kill", "closed the world"]);
        } else {
            assert_eq!((code, took), (143, Duration::from_secs(2)));
            assert_eq!(stage.log.lines(), ["Terminate", "Kill", "closed the world"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn core_panic_ends_lspool_and_servers() {
    let core = Script(|event: Event| match event {
        Event::Received(EDITOR, frame) if frame.method() == Some("bug") => panic!("a bug, on purpose"),
        other => relay(other),
    });
    let mut stage = Stage::new();
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        stream.say(&note("bug")).await;
        stream.hear().await
    };
    let (code, _) = stage.play(core, editor, deaf).await;
    assert_eq!(code, 70);
    assert_eq!(stage.log.lines(), ["Terminate", "Kill", "closed the world"]);
}

#[tokio::test(start_paused = true)]
async fn editor_that_stopped_reading_is_reported() {
    let mut stage = Stage::new();
    let log = stage.log.clone();
    let core = Script(move |event: Event| {
        log.note(&event);
        match event {
            Event::Received(..) => vec![Effect::Send(EDITOR, answer(1, 10))],
            Event::Unwritable(_) => vec![Effect::Exit(0)],
            _ => vec![],
        }
    });
    let editor = async |stream: FrameStream| {
        let FrameStream { input, mut output, .. } = stream;
        drop(input);
        output.write_all(&wire(&note("hello"))).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    stage.play(core, editor, deaf).await;
    assert_eq!(stage.log.lines(), ["Unwritable(ClientId(0))", "closed the world"]);
}

#[tokio::test(start_paused = true)]
async fn lspool_survives_junk_and_broken_bodies_from_server() {
    let mut stage = Stage::new();
    let server = async |mut it: Streams| {
        it.stream.output.write_all(b"Loading...\n").await.unwrap();
        it.stream.output.write_all(b"Content-Length: 16\r\n\r\n{\"id\":7,\"method\"").await.unwrap();
        it.stream.say(&note("fine")).await;
        it.stream.hear().await;
        Exit::Code(0)
    };
    let editor = async |mut stream: FrameStream| exchange_once(&mut stream).await;
    let (_, heard) = stage.play(Script(noting(&stage.log.clone())), editor, server).await;
    assert_eq!(heard, "fine");
    let lines = stage.log.lines();
    assert_eq!(lines[1], "malformed server 0 Some((RawId(7), false))");
    assert_eq!(lines[2..], ["closed editor None", "closed the world"]);
}

async fn exchange_once(stream: &mut FrameStream) -> String {
    stream.say(&note("start")).await;
    stream.hear().await.unwrap().method().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn server_told_to_exit_may_take_its_time() {
    for (method, lines) in
        [("exit", &["saved", "closed the world"][..]), ("other", &["Terminate", "Kill", "closed the world"])]
    {
        let mut stage = Stage::new();
        stage.settings.exit_grace = Duration::from_secs(4);
        let core = Script(move |event: Event| match event {
            Event::Received(EDITOR, frame) if frame.method() == Some("end") => {
                vec![Effect::Send(Peer::Backend(FIRST), note(method)), Effect::Exit(0)]
            }
            other => relay(other),
        });
        let log = stage.log.clone();
        let server = |mut it: Streams| {
            let log = log.clone();
            async move {
                while it.stream.hear().await.is_some() {}
                tokio::time::sleep(Duration::from_secs(3)).await;
                log.add("saved");
                Exit::Code(0)
            }
        };
        let editor = async |mut stream: FrameStream| {
            stream.say(&note("start")).await;
            stream.say(&note("end")).await;
            stream.hear().await
        };
        stage.play(core, editor, server).await;
        assert_eq!(stage.log.lines(), lines, "{method}");
    }
}

/// A core that expects a message of a server within ten seconds.
struct Impatient {
    log: Log,
    until: Option<Instant>,
}

impl Core for Impatient {
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        if matches!(event, Event::Spawned { .. }) {
            self.until = Some(now + Duration::from_secs(10));
        }
        if matches!(event, Event::Received(Peer::Backend(_), _)) {
            let in_time = self.until.take().is_some_and(|it| now <= it);
            self.log.add(if in_time { "heard in time" } else { "heard too late" });
        }
        out.extend(relay(event));
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Effects) {
        self.until = None;
        self.log.add("judged");
    }

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        self.until.map(|it| (it, "a server is silent"))
    }
}

#[tokio::test(start_paused = true)]
async fn pause_of_lspool_ends_no_server() {
    for (speaks, expected) in [(true, "heard in time"), (false, "judged")] {
        let mut stage = Stage::new();
        let core = Impatient { log: stage.log.clone(), until: None };
        let server = move |mut it: Streams| async move {
            tokio::time::sleep(Duration::from_secs(30)).await;
            if speaks {
                it.stream.say(&note("here")).await;
            }
            while it.stream.hear().await.is_some() {}
            Exit::Code(0)
        };
        let editor = async |mut stream: FrameStream| {
            stream.say(&note("start")).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            // lspool is stopped, and the others are not.
            tokio::time::advance(Duration::from_mins(1)).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
        };
        stage.play(core, editor, server).await;
        assert_eq!(stage.log.lines()[0], expected);
    }
}
