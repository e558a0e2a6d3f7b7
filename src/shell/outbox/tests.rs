use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::BytesMut;
use proptest::prelude::*;
use tokio_util::codec::Decoder as _;

use super::*;
use crate::{
    rpc::{Codec, Incoming},
    shell::inbox::inbox,
};

fn progress(params: &str) -> Frame {
    Frame::notification("$/progress", Some(params.as_bytes()))
}

fn report(token: &str, members: &str) -> Frame {
    progress(&format!(r#"{{"token":{token},"value":{{"kind":"report"{members}}}}}"#))
}

fn log() -> Frame {
    Frame::notification("window/logMessage", Some(br#"{"type":3,"message":"x"}"#))
}

fn note(text: &str) -> Frame {
    Frame::notification("test/note", Some(format!("\"{text}\"").as_bytes()))
}

fn queue(high_water: usize) -> Queue {
    Queue::new(Limits { high_water, low_water: high_water / 2, hard_cap: 1 << 20 })
}

/// All messages that the peer would get now.
fn written(queue: &mut Queue) -> Vec<String> {
    let (mut batch, mut bytes) = (Batch::default(), BytesMut::new());
    while queue.take(&mut batch) {
        batch.segments.iter().for_each(|it| bytes.extend_from_slice(Batch::bytes(it)));
    }
    let mut codec = Codec::new(1 << 20);
    let read = std::iter::from_fn(|| codec.decode(&mut bytes).unwrap());
    let text = |it: Incoming| match it {
        Incoming::Body(body) => String::from_utf8(body.to_vec()).unwrap(),
        Incoming::Junk(junk) => panic!("{junk}"),
    };
    read.map(text).collect()
}

#[test]
fn log_messages_and_plain_reports_are_droppable() {
    let says = |message, percentage, cancellable| Says { message, percentage, cancellable };
    let reports = [
        (report("1", ""), says(false, false, false)),
        (report("\"a\"", r#","message":"m""#), says(true, false, false)),
        (report("1", r#","percentage":3,"cancellable":true"#), says(false, true, true)),
        (
            progress(r#" { "value" : { "percentage" : 1, "kind" : "report" } , "token" : 1 } "#),
            says(false, true, false),
        ),
    ];
    for (frame, expected) in reports {
        let Some(Expendable::Report { says, .. }) = Expendable::of(&frame) else { panic!("{frame:?}") };
        assert_eq!(says, expected, "{frame:?}");
    }
    assert_eq!(Expendable::of(&log()), Some(Expendable::LogMessage));
}

#[test]
fn replies_and_results_are_not_droppable() {
    let frames = [
        // Copilot's replies are deltas.
        report("1", r#","conversationId":"c","reply":"x""#),
        report("1", r#","steps":[]"#),
        // Members outside the value may matter.
        progress(r#"{"token":1,"value":{"kind":"report"},"conversationId":"c"}"#),
        progress(r#"{"token":1,"value":{"kind":"begin","title":"t"}}"#),
        progress(r#"{"token":1,"value":{"kind":"begin"}}"#),
        progress(r#"{"token":1,"value":{"kind":"end","message":"m"}}"#),
        // Partial results.
        progress(r#"{"token":1,"value":[1,2]}"#),
        progress(r#"{"token":1,"value":{"items":[]}}"#),
        progress(r#"{"token":1,"value":{}}"#),
        progress(r#"{"token":1,"value":{"message":"m"}}"#),
        progress(r#"{"token":1}"#),
        progress(r#"{"value":{"kind":"report"}}"#),
        progress(r#"{"token":[1],"value":{"kind":"report"}}"#),
        progress("[1,2]"),
        Frame::notification("$/progress", None),
        Frame::notification("window/showMessage", Some(br#"{"type":3,"message":"x"}"#)),
        Frame::notification("window/logMessages", None),
        Frame::request(RawId::from(1), "window/logMessage", Some(b"{}")),
        Frame::request(RawId::from(1), "$/progress", Some(br#"{"token":1,"value":{"kind":"report"}}"#)),
        Frame::response(RawId::from(1), b"null"),
    ];
    for frame in frames {
        assert_eq!(Expendable::of(&frame), None, "{:?}", frame.body());
    }
}

#[test]
fn queue_drops_nothing_below_high_water() {
    let mut queue = queue(1 << 20);
    let frames = [report("1", ""), log(), report("1", ""), report("1", "")];
    for frame in &frames {
        assert_eq!(queue.push(frame.clone()), Pushed::Taken);
    }
    assert_eq!(written(&mut queue).len(), frames.len());
    assert_eq!(queue.dropped, Dropped::default());
}

#[test]
fn queue_keeps_long_log_message_when_empty() {
    let mut queue = queue(10);
    for n_dropped in [0, 1] {
        assert_eq!(queue.push(log()), Pushed::Taken);
        assert_eq!(queue.dropped, Dropped { log_messages: n_dropped, reports: 0 });
    }
    assert_eq!(written(&mut queue).len(), 1);
}

#[test]
fn queue_replaces_covered_reports_above_high_water() {
    let mut queue = queue(10);
    let frames = [
        report("1", r#","message":"a""#),
        note("between"),
        log(),
        report("2", r#","message":"b""#),
        // Neither covers it: another token, another type of token.
        report("\"1\"", r#","message":"c""#),
        // It does not repeat the message, which would be lost with the first report.
        report("1", r#","percentage":1"#),
        // It covers the previous one, not the first.
        report("1", r#","message":"d","percentage":2"#),
        report("1", r#","percentage":3,"message":"e","cancellable":false"#),
    ];
    for frame in &frames {
        assert_eq!(queue.push(frame.clone()), Pushed::Taken);
    }
    let kept = [&frames[0], &frames[1], &frames[3], &frames[4], &frames[7]];
    let kept: Vec<String> = kept.iter().map(|it| String::from_utf8(it.body().to_vec()).unwrap()).collect();
    let wire = |it: &String| format!("Content-Length: {}\r\n\r\n{it}", it.len()).len();
    assert_eq!(queue.waiting, kept.iter().map(wire).sum::<usize>());
    assert_eq!(written(&mut queue), kept);
    assert_eq!(queue.dropped, Dropped { log_messages: 1, reports: 2 });
}

#[test]
fn queue_keeps_report_that_is_being_written() {
    let mut queue = queue(10);
    queue.push(report("1", ""));
    let mut batch = Batch::default();
    assert!(queue.take(&mut batch));
    queue.push(report("1", ""));
    assert_eq!((queue.dropped, written(&mut queue).len()), (Dropped::default(), 1));
}

#[test]
fn hard_cap_excludes_message_being_written() {
    let kept = size_of::<Option<Piece>>();
    let limits = Limits { high_water: 1, low_water: 0, hard_cap: 1000 + 2 * kept };
    let big = note(&"x".repeat(100_000));
    let mut queue = Queue::new(limits);
    assert_eq!(queue.push(big.clone()), Pushed::Taken);
    assert_eq!(queue.push(note(&"x".repeat(900))), Pushed::Taken);
    assert_eq!(queue.push(note(&"x".repeat(100))), Pushed::Stalled);
    assert_eq!(queue.push(note("x")), Pushed::Discarded);
    assert_eq!(queue.n_bytes(), 0, "it will never be written, so it is not kept");

    let mut queue = Queue::new(limits);
    let mut batch = Batch::default();
    queue.push(big.clone());
    queue.take(&mut batch);
    assert_eq!(queue.push(note("x")), Pushed::Taken, "the head is in the hands of the writer");
    assert_eq!(queue.push(big), Pushed::Stalled);
}

#[test]
fn hard_cap_counts_overhead_of_small_messages() {
    let mut queue = Queue::new(Limits { high_water: 1, low_water: 0, hard_cap: 1 << 20 });
    let report = |n: usize| report(&format!("{}", 10_000 + n), "");
    let n = (0..1 << 20).take_while(|n| queue.push(report(*n)) == Pushed::Taken).count();
    let each = wire_len(&report(0)) + size_of::<Option<Piece>>();
    assert!((n * each).abs_diff(1 << 20) < 2 * each, "{n}");
}

#[test]
fn queue_packs_small_messages_above_high_water() {
    let mut queue = Queue::new(Limits { high_water: 1, low_water: 0, hard_cap: 1 << 20 });
    let n = (0..1 << 20).take_while(|_| queue.push(note("")) == Pushed::Taken).count();
    let each = wire_len(&note(""));
    assert!((n * each).abs_diff(1 << 20) < PACK, "{n}");

    let frame = |n: usize| match n % 1000 {
        500 => note(&"y".repeat(LARGE)),
        999 => report("1", ""),
        _ => note(&"x".repeat(n * 7 % 300)),
    };
    let mut queue = self::queue(1);
    for n in 0..3000 {
        queue.push(frame(n));
        let mut is_behind_another = false;
        for piece in queue.pieces.iter().flatten() {
            if let Piece::Pack(bytes) = piece {
                let most = if is_behind_another { PACK } else { PACK.min(2 * bytes.len()) };
                assert!(bytes.capacity() <= most, "{n}");
            }
            is_behind_another = matches!(piece, Piece::Pack(_));
        }
    }
    let n_pieces = queue.pieces.iter().flatten().count();
    assert!(n_pieces <= queue.waiting / PACK + 3 * 4, "{n_pieces}");
    let is_covered = |n: &usize| n % 1000 == 999 && *n < 2999;
    let expected = (0..3000).filter(|n| !is_covered(n)).map(|n| frame(n).body().to_vec());
    let expected: Vec<String> = expected.map(|it| String::from_utf8(it).unwrap()).collect();
    assert_eq!(written(&mut queue), expected);
    assert_eq!(queue.dropped, Dropped { log_messages: 0, reports: 2 });
}

#[test]
fn wire_length_is_known_before_writing() {
    for len in [0, 7, 8, 9, 10, 98, 99, 100, 999, 1000, 100_000] {
        let frame = note(&"x".repeat(len));
        let mut batch = Batch::default();
        batch.push(&frame);
        let bytes: usize = batch.segments.iter().map(|it| Batch::bytes(it).len()).sum();
        assert_eq!(bytes, wire_len(&frame));
    }
}

/// A stream that accepts at most so many bytes at once.
struct Trickle {
    taken: Vec<u8>,
    steps: Vec<usize>,
    n: usize,
}

impl AsyncWrite for Trickle {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let step = self.steps[self.n % self.steps.len()];
        self.n += 1;
        let before = self.taken.len();
        for slice in slices {
            let room = before + step - self.taken.len();
            self.taken.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        Poll::Ready(Ok(self.taken.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any sizes, ids, and reading speed, the bytes are those of the messages, in order.
    #[test]
    fn outbox_writes_exactly_what_was_pushed(
        frames in prop::collection::vec((0usize..40_000, any::<Option<u64>>()), 1..12),
        steps in prop::collection::vec(100usize..50_000, 1..5),
        high_water in prop::sample::select(vec![1, 256 << 10]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outbox = Outbox::new(Limits { high_water, ..Limits::default() });
        let mut expected = Vec::new();
        for (len, id) in frames {
            let frame = Frame::request(RawId::from(1), "m", Some(format!("\"{}\"", "x".repeat(len)).as_bytes()));
            let frame = id.map_or(frame.clone(), |id| frame.with_id(RawId::from(id)));
            let body = frame.to_bytes();
            expected.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            expected.extend_from_slice(&body);
            prop_assert_eq!(outbox.push(frame), Pushed::Taken);
        }
        prop_assert_eq!(outbox.n_bytes(), expected.len());
        outbox.close();
        let mut stream = Trickle { taken: Vec::new(), steps, n: 0 };
        runtime.block_on(outbox.clone().write_to(&mut stream, None)).unwrap();
        prop_assert!(stream.taken == expected);
        prop_assert_eq!(outbox.n_bytes(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn outbox_signals_high_and_low_water() {
    use tokio::io::AsyncReadExt as _;

    let outbox = Outbox::new(Limits { high_water: 10_000, low_water: 5_000, hard_cap: 1 << 20 });
    let over = outbox.over_high_water();
    for _ in 0..9 {
        outbox.push(note(&"x".repeat(1000)));
    }
    assert!(!*over.borrow());
    outbox.push(note(&"x".repeat(1000)));
    assert!(*over.borrow());
    let (ours, mut theirs) = tokio::io::duplex(1);
    let writing = outbox.clone().write_to(ours, None);
    tokio::pin!(writing);
    let mut n_read = 0;
    let mut below_at = None;
    while n_read < 10_000 {
        tokio::select! {
            result = &mut writing => panic!("{result:?}"),
            byte = theirs.read_u8() => {
                byte.unwrap();
                n_read += 1;
            }
        }
        if !*over.borrow() && below_at.is_none() {
            below_at = Some(outbox.n_bytes());
        }
    }
    assert_eq!(below_at, Some(4_999));
}

#[tokio::test(start_paused = true)]
async fn stall_clock_restarts_with_each_byte_taken() {
    use tokio::io::AsyncReadExt as _;

    let (events, mut told) = inbox(0);
    let peer = Peer::Client(crate::core::event::ClientId::EDITOR);
    let running = watch::Sender::new(false);
    let clock = StallClock { after: Duration::from_mins(1), stopped: running.subscribe(), events, peer };
    let outbox = Outbox::new(Limits::default());
    outbox.push(note(&"x".repeat(1000)));
    let (ours, mut theirs) = tokio::io::duplex(1);
    let reading = async {
        for _ in 0..100 {
            sleep(Duration::from_secs(59)).await;
            theirs.read_u8().await.unwrap();
        }
        assert!(tokio::time::timeout(Duration::ZERO, told.next()).await.is_err());
        let start = tokio::time::Instant::now();
        assert!(matches!(told.next().await, Event::Stalled(_)));
        assert_eq!(start.elapsed(), Duration::from_mins(1));
        // It continues if the peer does, and is not reported again.
        while outbox.n_bytes() > 0 {
            theirs.read_u8().await.unwrap();
        }
        assert!(tokio::time::timeout(Duration::ZERO, told.next()).await.is_err());
    };
    tokio::select! {
        result = outbox.clone().write_to(ours, Some(clock)) => panic!("{result:?}"),
        () = reading => {}
    }
}

/// A stream that accepts all bytes and flushes for three seconds.
struct Slow(Option<Pin<Box<tokio::time::Sleep>>>);

impl AsyncWrite for Slow {
    fn poll_write(mut self: Pin<&mut Self>, _cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0 = Some(Box::pin(sleep(Duration::from_secs(3))));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().map_or(Poll::Ready(()), |sleep| sleep.as_mut().poll(cx)).map(Ok)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn outbox_is_drained_only_after_write_completes() {
    let outbox = Outbox::new(Limits::default());
    let start = tokio::time::Instant::now();
    outbox.push(note("x"));
    tokio::select! {
        result = outbox.clone().write_to(Slow(None), None) => panic!("{result:?}"),
        () = outbox.drained() => {}
    }
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[test]
fn outbox_accepts_all_messages_of_one_event_once() {
    let message = || Frame::notification("m", Some(format!("\"{}\"", "x".repeat(20_000)).as_bytes()));
    let outbox = Outbox::new(Limits { high_water: 1, low_water: 0, hard_cap: 100_000 });
    for _ in 0..20 {
        assert_eq!(outbox.push_of(Some(1), message()), Pushed::Taken);
    }
    // Later events have the usual room.
    for event in 2..6 {
        assert_eq!(outbox.push_of(Some(event), message()), Pushed::Taken);
    }
    let rest = (0..20).map(|_| outbox.push_of(Some(6), message()));
    assert!(rest.collect::<Vec<_>>().contains(&Pushed::Stalled));
}
