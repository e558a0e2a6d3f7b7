//! Slow starts, and failing ones.

use super::*;

/// Relays; notes what comes of the start; the editor's `end` and `close` are the core's to the first server.
fn noting(log: &Log) -> impl FnMut(Event) -> Vec<Effect> + use<> {
    let log = log.clone();
    move |event| {
        log.note(&event);
        match event {
            Event::Received(EDITOR, frame) => match frame.method() {
                Some("end") => vec![Effect::Terminate(FIRST)],
                Some("close") => vec![Effect::CloseInput(FIRST)],
                Some("other") => vec![Effect::Spawn(process(1), launch())],
                Some("own") => vec![Effect::Send(EDITOR, answer(id(&frame), 10))],
                _ => relay(Event::Received(EDITOR, frame)),
            },
            other => relay(other),
        }
    }
}

fn own(id: u64) -> Frame {
    Frame::request(RawId::from(id), "own", None)
}

fn hanging() -> Stage {
    let stage = Stage::new();
    stage.start.send_replace(Start::Hangs);
    stage
}

async fn a_minute() {
    tokio::time::sleep(Duration::from_mins(1)).await;
}

/// Answers each request, until its input ends.
async fn obliging(mut it: Streams) -> Exit {
    while let Some(frame) = it.stream.hear().await {
        it.stream.say(&answer(id(&frame), 10)).await;
    }
    Exit::Code(0)
}

#[tokio::test(start_paused = true)]
async fn slow_start_delays_only_its_own_process() {
    let mut stage = hanging();
    let (start, log) = (stage.start.clone(), stage.log.clone());
    let editor = async move |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        stream.say(&request(1, 10)).await;
        stream.say(&request(2, 10)).await;
        stream.say(&own(3)).await;
        assert_eq!(id(&stream.hear().await.unwrap()), 3, "the editor is answered");
        start.send_replace(Start::Works);
        let (first, second) = (stream.hear().await.unwrap(), stream.hear().await.unwrap());
        assert_eq!((id(&first), id(&second)), (1, 2));
        assert_eq!(log.lines(), ["spawned"]);
    };
    let (code, ()) = stage.play(Script(noting(&stage.log)), editor, obliging).await;
    assert_eq!((code, stage.log.lines().last().unwrap().as_str()), (0, "closed the world"));
}

#[tokio::test(start_paused = true)]
async fn closing_process_first_receives_queued_messages() {
    let mut stage = hanging();
    let (start, heard) = (stage.start.clone(), Log::default());
    let server = |mut it: Streams| {
        let heard = heard.clone();
        async move {
            while let Some(frame) = it.stream.hear().await {
                heard.add(frame.method().unwrap());
            }
            Exit::Code(0)
        }
    };
    let editor = async move |mut stream: FrameStream| {
        stream.say(&note("start")).await;
        stream.say(&note("hello")).await;
        stream.say(&note("close")).await;
        a_minute().await;
        start.send_replace(Start::Works);
        a_minute().await;
    };
    stage.play(Script(noting(&stage.log)), editor, server).await;
    let lines = ["spawned", "exited: exit code 0, \"\"", "closed editor None", "closed the world"];
    assert_eq!(
        (stage.log.lines(), heard.lines()),
        (lines.map(str::to_owned).to_vec(), vec!["hello".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn failed_or_cancelled_start_is_reported_once() {
    for is_called_off in [false, true] {
        let mut stage = hanging();
        let (start, log) = (stage.start.clone(), stage.log.clone());
        let editor = async move |mut stream: FrameStream| {
            stream.say(&note("start")).await;
            stream.say(&request(1, 10)).await;
            if is_called_off {
                stream.say(&note("end")).await;
            } else {
                start.send_replace(Start::Fails);
            }
            a_minute().await;
            let failed = match is_called_off {
                true => {
                    "SpawnFailure { permanent: false, message: \"its start was called off\", moved: None }"
                }
                false => "SpawnFailure { permanent: true, message: \"no such file\", moved: None }",
            };
            assert_eq!(log.lines(), [failed]);
            start.send_replace(Start::Works);
            stream.say(&note("start")).await;
            stream.say(&request(2, 10)).await;
            assert_eq!(id(&stream.hear().await.unwrap()), 2, "what the other was told is gone with it");
        };
        let (code, ()) = stage.play(Script(noting(&stage.log)), editor, obliging).await;
        let lines = stage.log.lines();
        assert_eq!(lines[1..], ["spawned", "closed editor None", "closed the world"]);
        assert_eq!(code, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn exit_does_not_wait_for_starting_process() {
    for signals in [1, 2] {
        let mut stage = hanging();
        let signal = stage.signals.clone();
        let editor = async move |mut stream: FrameStream| {
            stream.say(&note("start")).await;
            stream.say(&own(1)).await;
            stream.hear().await.unwrap();
            let told = tokio::time::Instant::now();
            for _ in 0..signals {
                signal.send(15).await.unwrap();
            }
            assert!(stream.hear().await.is_none());
            told.elapsed()
        };
        let (code, took) = stage.play(Script(noting(&stage.log)), editor, deaf).await;
        assert_eq!((code, took), (143, Duration::ZERO));
        assert_eq!(stage.log.lines().last().unwrap(), "closed the world");
    }
}
