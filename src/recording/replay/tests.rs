use std::time::Duration;

use bytes::Bytes;
use expect_test::expect;

use super::*;
use crate::{
    config::Config,
    core::{
        Identity,
        event::{ClientId, Event, Peer},
    },
    rpc::Frame,
};

/// A session without a server.
fn recording() -> String {
    let identity = Identity { pid: 7, started: 8 };
    let mut encoder = Encoder::new(false, []);
    let mut core = Proxy::new(identity);
    let mut out = encoder.header(identity, &Config::default());
    let said = |body: &'static str| {
        Event::Received(Peer::Client(ClientId::EDITOR), Frame::parse(Bytes::from(body)).unwrap())
    };
    let events = [
        said(r#"{"id":1,"method":"initialize","params":{"capabilities":{}}}"#),
        Event::Prepared(Err("there is none".to_owned())),
        said(r#"{"id":2,"method":"textDocument/hover","params":{}}"#),
        said(r#"{"id":3,"method":"shutdown"}"#),
        said(r#"{"method":"exit"}"#),
    ];
    let start = Instant::now();
    for (event, at) in events.into_iter().zip((0..).map(Duration::from_millis)) {
        out.extend(encoder.event(at, &event));
        let mut effects = Effects::new();
        core.handle(start + at, event, &mut effects);
        for it in &effects {
            out.extend(encoder.effect(at, it, None));
        }
    }
    out.extend(Encoder::end(Duration::from_millis(9), Kind::Done));
    String::from_utf8(out).unwrap()
}

fn difference(text: &str) -> Result<Option<Difference>, Problem> {
    first_difference(text.as_bytes(), Instant::now())
}

#[test]
fn replay_reproduces_any_prefix_of_session() {
    let recording = recording();
    assert_eq!(difference(&recording), Ok(None));
    assert_eq!(renewed(recording.as_bytes(), Instant::now()).unwrap(), recording.as_bytes());
    // A recording that is cut off anywhere has no difference.
    for cut in recording.find('\n').unwrap() + 1..recording.len() {
        assert_eq!(difference(&recording[..cut]), Ok(None), "{}", &recording[..cut]);
    }
    // Written again by another program.
    assert_eq!(difference(&recording.replace(':', ": ").replace("\",\"", "\" , \"")), Ok(None));
}

#[test]
fn replay_shows_first_difference() {
    let recording = recording();
    let changed = recording.replacen("\"id\":1,\"error\"", "\"id\":1,\"eror\"", 1);
    assert_ne!(changed, recording);
    let shown = difference(&changed).unwrap().unwrap().to_string();
    expect![[r#"
        the first difference is in the effects of line 4:

               2   {"dir":"in","kind":"message","peer":{"client":0},"msg":{"id":1,"method":"initialize","params":{"capabilities":{}}}}
               3   {"dir":"out","kind":"prepare","data":{"folders":[]}}
               4   {"dir":"in","kind":"unprepared","data":{"error":"there is none"}}
               5 - …ir":"out","kind":"message","peer":{"client":0},"msg":{"jsonrpc":"2.0","id":1,"eror":{"code":-32803,"message":"there is none","data":{"lspool":{"partition":null,"cause":"unavailable","retry":false}}}}}
                 + …r":"out","kind":"message","peer":{"client":0},"msg":{"jsonrpc":"2.0","id":1,"error":{"code":-32803,"message":"there is none","data":{"lspool":{"partition":null,"cause":"unavailable","retry":false}}}}}

        The first 83 bytes are equal.

        The recording has no texts, so it cannot repeat an effect that depends on one (a plan, a call of a team's tool). Record again with --record-texts=yes.
    "#]].assert_eq(&shown);
    let missing: Vec<&str> = recording.lines().filter(|it| !it.contains("\"kind\":\"exit\"")).collect();
    let shown = difference(&missing.join("\n")).unwrap().unwrap();
    assert_eq!(shown.expected, None);
    let more = recording.replacen(
        "{\"t\":9",
        "{\"t\":4,\"dir\":\"out\",\"kind\":\"exit\",\"data\":{\"code\":0}}\n{\"t\":9",
        1,
    );
    let shown = difference(&more).unwrap().unwrap();
    assert_eq!(shown.actual, None);
    // `renewed` makes the recording expect the current effects.
    let renewed = renewed(changed.as_bytes(), Instant::now()).unwrap();
    assert_eq!(String::from_utf8(renewed).unwrap(), recording);
}

#[test]
fn replay_compares_effects_with_another_file() {
    let recording = recording();
    let compare = |other: &str| {
        let (mut replay, _) = Replay::new(recording.as_bytes(), Instant::now()).unwrap();
        let mut expected = Reader::new(other.as_bytes());
        while let Some(step) = replay.step().unwrap() {
            if let Some(found) = replay.difference_from(&step, &mut expected).unwrap() {
                return Some(found);
            }
        }
        replay.left_over(&mut expected).unwrap()
    };
    assert_eq!(compare(&recording), None);
    let effects: Vec<&str> = recording.lines().filter(|it| it.contains("\"dir\":\"out\"")).collect();
    assert_eq!(compare(&effects.join("\n")), None);
    assert_eq!(compare(&effects[1..].join("\n")).unwrap().event, 2);
    assert_eq!(compare(&effects[..effects.len() - 1].join("\n")).unwrap().expected, None);
    assert_eq!(compare(&[&effects[..], &effects[..1]].concat().join("\n")).unwrap().actual, None);
}

#[test]
fn replay_reports_invalid_line_with_its_number() {
    let recording = recording();
    let problem = |text: &str| difference(text).unwrap_err().to_string();
    let lines: Vec<&str> = recording.lines().collect();
    let effect = lines.iter().position(|it| it.contains("\"dir\":\"out\"")).unwrap();
    assert_eq!(problem(&[lines[0], lines[effect]].join("\n")), "line 2: an effect before any event");
    let changed = |from: &str, to: &str| problem(&recording.replacen(from, to, 1));
    assert_eq!(
        changed("\"msg\":{\"id\":1", "\"msg\":{\"id\":[1]"),
        "line 2: `msg` is not a message: id that is not a string, number, or null at byte 6"
    );
    assert_eq!(
        changed("\"peer\":{\"client\":0},\"msg\":{\"id\":1", "\"msg\":{\"id\":1"),
        "line 2: `peer` is missing"
    );
    assert_eq!(
        changed("\"kind\":\"unprepared\",", "\"kind\":\"spawned\","),
        "line 4: `data`: unknown field `error`, expected `process` or `pid` at line 1 column 8"
    );
    assert_eq!(
        changed("\"kind\":\"unprepared\",", "\"kind\":\"terminate\","),
        "line 4: expected an event in a line `in`"
    );
    let late = r#"{"t":1e22,"dir":"in","kind":"timeout"}"#;
    assert_eq!(problem(&[lines[0], late].join("\n")), "line 2: its time is too far away");
}
