//! Back pressure: slow peers wait only for themselves, and nothing is lost.

use super::*;
use crate::shell::{outbox::Limits, read_throttle};

/// Reads requests; answers each with `n` messages before it reads the next.
async fn wordy(mut it: Streams, n: u64, len: usize) -> Exit {
    while let Some(frame) = it.stream.hear().await {
        for k in 0..n {
            it.stream.say(&answer(id(&frame) * n + k, len)).await;
        }
    }
    Exit::Code(0)
}

#[tokio::test(start_paused = true)]
async fn editor_and_server_that_write_before_reading_do_not_deadlock() {
    for high_water in [1, 4096, 4 << 20] {
        let mut stage = Stage::new();
        stage.settings.limits = Limits { high_water, low_water: high_water / 2, ..Limits::default() };
        let editor = async |mut stream: FrameStream| {
            stream.say(&note("start")).await;
            for n in 0..200 {
                stream.say(&request(n, 1000)).await;
            }
            let mut ids = Vec::new();
            while ids.len() < 800 {
                ids.push(id(&stream.hear().await.unwrap()));
            }
            ids
        };
        let (code, ids) = stage.play(Script(relay), editor, |it| wordy(it, 4, 2000)).await;
        assert_eq!((code, ids), (0, (0..800).collect()), "high water {high_water}");
    }
}

#[tokio::test(start_paused = true)]
async fn server_is_throttled_while_editor_does_not_read() {
    let mut stage = Stage::new();
    stage.settings.limits = Limits { high_water: 100_000, low_water: 50_000, ..Limits::default() };
    let said = Rc::new(Cell::new(0));
    let server = |mut it: Streams| {
        let said = said.clone();
        async move {
            for n in 0..2000 {
                it.stream.say(&request(n, 1000)).await;
                said.set(n + 1);
            }
            while it.stream.hear().await.is_some() {}
            Exit::Code(0)
        }
    };
    let editor = |mut stream: FrameStream| {
        let said = said.clone();
        async move {
            stream.say(&note("start")).await;
            tokio::time::sleep(Duration::from_mins(10)).await;
            let ahead = said.get();
            let mut ids = Vec::new();
            while ids.len() < 2000 {
                ids.push(id(&stream.hear().await.unwrap()));
            }
            (ahead, ids)
        }
    };
    let (code, (ahead, ids)) = stage.play(Script(relay), editor, server).await;
    assert_eq!((code, ids), (0, (0..2000).collect()));
    // High water, two pipes, and one read that was on its way.
    assert!((100..130).contains(&ahead), "{ahead} messages of 1 KB");
}

#[tokio::test(start_paused = true)]
async fn editor_is_throttled_while_server_reads_slowly() {
    let mut stage = Stage::new();
    stage.settings.limits = Limits { high_water: 100_000, low_water: 25_000, hard_cap: 1 << 20 };
    let heard = Rc::new(Cell::new(0_u64));
    let by_editor = heard.clone();
    let server = |mut it: Streams| {
        let heard = heard.clone();
        async move {
            while it.stream.hear().await.is_some() {
                heard.set(heard.get() + 1);
                if heard.get().is_multiple_of(100) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            Exit::Code(0)
        }
    };
    let editor = async move |mut stream: FrameStream| {
        let mut ahead = 0;
        stream.say(&note("start")).await;
        for n in 0..10_000 {
            stream.say(&request(n, 1000)).await;
            ahead = ahead.max(n - by_editor.get());
        }
        while by_editor.get() < 10_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        ahead
    };
    let (code, ahead) = stage.play(Script(relay), editor, server).await;
    assert_eq!(code, 0);
    // High water, two pipes, and one read that was on its way.
    assert!((100..350).contains(&ahead), "{ahead} messages of 1 KB");
}

#[tokio::test(start_paused = true)]
async fn stalled_server_does_not_delay_another_one() {
    let mut stage = Stage::new();
    let log = stage.log.clone();
    let mut n = 0;
    let core = Script(move |event: Event| {
        log.note(&event);
        match event {
            Event::Received(EDITOR, frame) => match frame.method() {
                Some("start") => {
                    vec![Effect::Spawn(process(0), launch()), Effect::Spawn(process(1), launch())]
                }
                Some("deaf") => vec![Effect::Send(Peer::Backend(process(0)), frame)],
                _ => vec![Effect::Send(Peer::Backend(process(1)), frame)],
            },
            Event::Stalled(Peer::Backend(id)) => vec![Effect::Terminate(id)],
            other => relay(other),
        }
    });
    let server = |it: Streams| {
        n += 1;
        let is_deaf = n == 1;
        async move { if is_deaf { std::future::pending().await } else { wordy(it, 1, 10).await } }
    };
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        let started = tokio::time::Instant::now();
        for _ in 0..100 {
            stream
                .say(&Frame::notification("deaf", Some(format!("\"{}\"", "x".repeat(100_000)).as_bytes())))
                .await;
        }
        stream.say(&request(7, 10)).await;
        assert_eq!(id(&stream.hear().await.unwrap()), 7);
        let waited = started.elapsed();
        assert!(
            waited <= read_throttle::PATIENCE,
            "{waited:?}: the editor is held up once, for it is of no use"
        );
        tokio::time::sleep(Duration::from_secs(70)).await;
    };
    let (code, ()) = stage.play(core, editor, server).await;
    let expected = [
        "spawned",
        "spawned",
        "stalled server 0",
        "Terminate",
        "Kill",
        "exited: signal 9, \"\"",
        "closed editor None",
        "closed the world",
    ];
    assert_eq!((code, stage.log.lines()), (0, expected.map(str::to_owned).to_vec()));
}

#[tokio::test(start_paused = true)]
async fn too_much_for_one_peer_stalls_it_at_once() {
    let mut stage = Stage::new();
    stage.settings.limits = Limits { high_water: 1000, low_water: 500, hard_cap: 50_000 };
    let log = stage.log.clone();
    let core = Script(move |event: Event| {
        log.note(&event);
        relay(event)
    });
    let editor = async |mut stream: FrameStream| {
        let started = tokio::time::Instant::now();
        stream.say(&note("start")).await;
        for n in 0..1000 {
            stream.say(&request(n, 1000)).await;
        }
        let waited = started.elapsed();
        assert!(waited <= read_throttle::PATIENCE, "{waited:?}");
    };
    let (code, ()) = stage.play(core, editor, deaf).await;
    let expected =
        ["spawned", "stalled server 0", "closed editor None", "Terminate", "Kill", "closed the world"];
    assert_eq!((code, stage.log.lines()), (0, expected.map(str::to_owned).to_vec()));
}

#[tokio::test(start_paused = true)]
async fn stall_clock_stops_while_editor_blocks_server() {
    let mut stage = Stage::new();
    stage.settings.limits = Limits { high_water: 1000, low_water: 500, ..Limits::default() };
    let log = stage.log.clone();
    let core = Script(move |event: Event| {
        log.note(&event);
        relay(event)
    });
    // The editor does not read, so the server cannot write, so it does not read: for ten minutes, and then all
    // is well again.
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        for n in 0..100 {
            stream.say(&request(n, 1000)).await;
        }
        tokio::time::sleep(Duration::from_mins(10)).await;
        for n in 0..400 {
            assert_eq!(id(&stream.hear().await.unwrap()), n);
        }
    };
    let (code, ()) = stage.play(core, editor, |it| wordy(it, 4, 1000)).await;
    let expected = ["spawned", "closed editor None", "exited: exit code 0, \"\"", "closed the world"];
    assert_eq!(code, 0);
    assert!(
        stage.log.lines().iter().all(|line| expected.contains(&line.as_str())),
        "{:?}",
        stage.log.lines()
    );
}

/// A core whose timer fires every millisecond.
struct Ticking<C> {
    inner: C,
    next: Option<Instant>,
    n_ticks: Rc<Cell<u32>>,
}

impl<C: Core> Core for Ticking<C> {
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        self.next = Some(now + Duration::from_millis(1));
        self.inner.handle(now, event, out);
    }

    fn handle_timeout(&mut self, now: Instant, _out: &mut Effects) {
        assert!(Some(now) >= self.next, "called before its time");
        self.n_ticks.set(self.n_ticks.get() + 1);
        self.next = Some(now + Duration::from_millis(1));
    }

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        self.next.map(|next| (next, "tick"))
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_arriving_one_by_one_are_never_lost() {
    let n_ticks = Rc::new(Cell::new(0));
    let core = Ticking { inner: Script(relay), next: None, n_ticks: n_ticks.clone() };
    let text = "{\"jsonrpc\":\"2.0\",\"method\":\"say\",\"params\":\"héllo 😀 漢字\"}";
    let server = |mut it: Streams| async move {
        for n in 0..300 {
            let bytes = format!("Content-Length: {}\r\n\r\n{text}", text.len());
            // Header and body apart, then cut everywhere, then each byte alone.
            let cut = if n < 100 { bytes.len() - text.len() } else { n % bytes.len() };
            let step = if n < 200 { bytes.len() } else { 1 };
            for part in [&bytes.as_bytes()[..cut], &bytes.as_bytes()[cut..]] {
                for bytes in part.chunks(step) {
                    it.stream.output.write_all(bytes).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        }
        while it.stream.hear().await.is_some() {}
        Exit::Code(0)
    };
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        for _ in 0..300 {
            assert_eq!(stream.hear().await.unwrap().body(), text.as_bytes());
            stream.say(&note("again")).await;
        }
    };
    let (code, ()) = Stage::new().play(core, editor, server).await;
    assert_eq!(code, 0);
    assert!(n_ticks.get() > 10_000, "only {} ticks", n_ticks.get());
}

#[tokio::test(start_paused = true)]
async fn eight_megabytes_pass_both_ways() {
    let editor = async |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        stream.say(&request(1, 8 << 20)).await;
        let frame = stream.hear().await.unwrap();
        (id(&frame), frame.wire_len())
    };
    let mut stage = Stage::new();
    let (code, got) = stage.play(Script(relay), editor, |it| echo_once(it, 8 << 20)).await;
    assert_eq!((code, got), (0, (1, answer(1, 8 << 20).wire_len())));
}

async fn echo_once(mut it: Streams, len: usize) -> Exit {
    let frame = it.stream.hear().await.unwrap();
    assert_eq!(frame.body(), request(1, len).body());
    it.stream.say(&answer(1, len)).await;
    while it.stream.hear().await.is_some() {}
    Exit::Code(0)
}

#[tokio::test(start_paused = true)]
async fn answers_to_burst_leave_in_one_write() {
    let outbox = crate::shell::outbox::Outbox::new(Limits::default());
    let (ours, mut theirs) = duplex(1 << 20);
    for n in 0..100 {
        outbox.push(answer(n, 10));
    }
    outbox.close();
    outbox.write_to(Counting { inner: ours, n_writes: 0, expected: 1 }, None).await.unwrap();
    let mut all = Vec::new();
    theirs.read_to_end(&mut all).await.unwrap();
    let expected: Vec<u8> = (0..100).flat_map(|n| wire(&answer(n, 10))).collect();
    assert_eq!(all, expected);
}

/// Panics on more writes than expected.
struct Counting {
    inner: DuplexStream,
    n_writes: u32,
    expected: u32,
}

impl tokio::io::AsyncWrite for Counting {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.n_writes += 1;
        assert!(self.n_writes <= self.expected);
        std::pin::Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}
