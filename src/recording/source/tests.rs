use super::*;
use crate::{config::Config, core::Identity, recording::encode::Encoder};

fn header() -> String {
    let header = Encoder::new(false, []).header(Identity { pid: 1, started: 2 }, &Config::default());
    String::from_utf8(header).unwrap().trim_end().to_owned()
}

fn transcript(process: &str, id: u32) -> String {
    format!(
        r#"{{"t": {id}.5, "dir": "c2s", "msg": {{"jsonrpc":"2.0","id":{id},"method":"m"}}, "proc": "{process}"}}"#
    )
}

fn error_of(text: &str) -> String {
    Source::new(text.as_bytes()).find_map(Result::err).expect("an error").to_string()
}

#[test]
fn source_reads_transcript() {
    let text = "{\"t\": 1, \"dir\": \"c2s\", \"msg\": {\"id\":1,\"method\":\"a\"}}\n\n{\"t\":2.5,\"dir\":\"s2c\",\"msg\":{\"id\":1,\"result\":null}}";
    let mut source = Source::new(text.as_bytes());
    let all: Vec<Entry> = source.by_ref().map(Result::unwrap).collect();
    assert_eq!(all.len(), 2);
    assert_eq!((all[1].line, all[1].at), (3, Duration::from_micros(2500)));
    assert!(matches!(&all[0].what, What::Said(Side::Client, it) if it.method() == Some("a")));
    assert!(matches!(&all[1].what, What::Said(Side::Server, _)));
    assert!(!source.is_of_lspool() && source.note().is_none());
}

#[test]
fn source_skips_torn_last_line() {
    let text = format!("{}\n{}", transcript("", 1), &transcript("", 2)[..40]);
    let dialogue = dialogue(text.as_bytes(), None).unwrap();
    assert_eq!(dialogue.entries.len(), 1);
    assert_eq!(dialogue.note.as_deref(), Some("line 2, the last one, is incomplete; lspool ignored it"));
}

#[test]
fn source_reports_invalid_line_with_its_number() {
    let good = transcript("", 1);
    for (text, expected) in [
        (String::new(), "line 1: the recording is empty"),
        ("#!/bin/sh\n".to_owned(), "line 1: this is neither the header of a recording of lspool nor"),
        ("{\"name\": \"package\"}".to_owned(), "line 1: this is neither"),
        (format!("{good}\nhello\n{good}"), "line 2: expected value (column 1)"),
        (format!("{good}\n{{\"t\":1,\"dir\":\"up\",\"msg\":{{}}}}\n"), "line 2: `dir` is \"up\""),
        (format!("{good}\n{{\"t\":1,\"dir\":\"c2s\",\"msg\":{{}}}}\n"), "line 2: `msg` is not a message"),
        (
            format!("{good}\n{{\"t\":-1,\"dir\":\"c2s\",\"msg\":{{\"method\":\"m\"}}}}\n"),
            "line 2: cannot convert float seconds to Duration",
        ),
        (format!("{good}\n{{\"t\":1,\"dir\":\"c2s\"}}\n"), "line 2: missing field `msg`"),
        (
            "{\"lspool-recording\":9}\n".to_owned(),
            "line 1: it has format 9, of lspool ; this one reads format 1",
        ),
        (format!("{}\n{good}\n", header()), "line 2: unknown variant `c2s`"),
    ] {
        let error = error_of(&text);
        assert!(error.starts_with(expected), "{error}\nexpected {expected}");
    }
    let mut bytes = good.into_bytes();
    bytes.extend(b"\n\xff\n");
    let error = Source::new(bytes.as_slice()).find_map(Result::err).unwrap();
    assert_eq!(error.line, 2);
}

#[test]
fn recording_of_several_processes_needs_a_choice() {
    let text =
        [transcript("A", 1), transcript("B", 2), transcript("A", 3), transcript("editor", 4)].join("\n");
    let choice = |wanted| dialogue(text.as_bytes(), wanted).unwrap_err().to_string();
    assert_eq!(choice(None), "the recording has several processes; choose one with --proc: A, B");
    assert_eq!(choice(Some("C")), "--proc C does not name exactly one process; expected one of: A, B");
    assert!(choice(Some("editor")).starts_with("the lines of \"editor\" are computed"));
    let lines = |wanted| -> Vec<usize> {
        dialogue(text.as_bytes(), Some(wanted)).unwrap().entries.iter().map(|it| it.line).collect()
    };
    assert_eq!(lines("A"), [1, 3]);
    assert_eq!(lines(EVERY), [1, 3, 2]);
}

#[test]
fn lspool_recording_has_one_dialogue_per_peer() {
    let line = |dir: &str, peer: &str, msg: &str| {
        format!(r#"{{"t":1.25,"dir":"{dir}","kind":"message","peer":{peer},"msg":{msg}}}"#)
    };
    let (editor, process) = (r#"{"client":0}"#, r#"{"backend":0,"generation":1}"#);
    let text = [
        header(),
        line("in", editor, r#"{"id":1,"method":"initialize"}"#),
        r#"{"t":1.25,"dir":"out","kind":"spawn","data":{"process":{"backend":0,"generation":1},"backend":{"name":"copilot","tools":["*"]}}}"#.to_owned(),
        line("out", process, r#"{"id":40,"method":"initialize"}"#),
        line("in", process, r#"{"id":40,"result":1}"#),
        line("out", editor, r#"{"id":1,"result":1}"#),
        line("in", r#"{"client":3}"#, r#"{"id":1,"method":"lspool/status"}"#),
        r#"{"t":2,"dir":"in","kind":"exited","data":{"process":{"backend":0,"generation":1},"exit":{"signal":9},"stderr":""}}"#.to_owned(),
        r#"{"t":3,"dir":"end","kind":"done"}"#.to_owned(),
    ]
    .join("\n");
    let sides = |wanted| {
        let dialogue = dialogue(text.as_bytes(), wanted).unwrap();
        assert!(dialogue.is_masked);
        let said = |it: &Entry| match &it.what {
            What::Said(side, frame) => (it.line, *side, frame.id().unwrap().to_string()),
            other => panic!("{other:?}"),
        };
        dialogue.entries.iter().map(said).collect::<Vec<_>>()
    };
    let of_editor = [(2, Side::Client, "1".to_owned()), (6, Side::Server, "1".to_owned())];
    assert_eq!(sides(None), of_editor);
    assert_eq!(sides(Some("editor")), of_editor);
    let of_process = [(4, Side::Client, "40".to_owned()), (5, Side::Server, "40".to_owned())];
    assert_eq!(sides(Some("0.1")), of_process);
    assert_eq!(sides(Some("copilot")), of_process);
    let error = dialogue(text.as_bytes(), Some("pyright")).unwrap_err().to_string();
    assert_eq!(
        error,
        "--proc pyright does not name exactly one process; expected one of: 0.1 (copilot), editor"
    );
    let kinds = Source::new(text.as_bytes()).filter_map(|it| match it.unwrap().what {
        What::Happened(kind, _) => Some(kind),
        What::Said(..) | What::Unreadable { .. } => None,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [Kind::Spawn, Kind::Exited, Kind::Done]);
}

#[test]
fn adopted_spare_dialogue_belongs_to_its_partition() {
    let line = |dir: &str, backend: u32, msg: &str| {
        format!(
            r#"{{"t":1,"dir":"{dir}","kind":"message","peer":{{"backend":{backend},"generation":1}},"msg":{msg}}}"#
        )
    };
    let spawn = |backend: u32| {
        format!(
            r#"{{"t":1,"dir":"out","kind":"spawn","data":{{"process":{{"backend":{backend},"generation":1}},"backend":{{"name":"copilot","tools":[]}}}}}}"#
        )
    };
    let text = [
        header(),
        spawn(7),
        spawn(8),
        line("out", 7, r#"{"id":1,"method":"initialize"}"#),
        line("out", 8, r#"{"id":1,"method":"initialize"}"#),
        line("in", 7, r#"{"id":1,"result":1}"#),
        r#"{"t":1,"dir":"out","kind":"adopt","data":{"spare":{"backend":7,"generation":1},"process":{"backend":2,"generation":1},"backend":{"name":"copilot","tools":["a"]}}}"#.to_owned(),
        line("out", 2, r#"{"id":2,"method":"conversation/create"}"#),
    ]
    .join("\n");
    let lines = |wanted| -> Vec<usize> {
        let dialogue = dialogue(text.as_bytes(), Some(wanted)).unwrap();
        assert!(dialogue.entries.windows(2).all(|it| it[0].process == it[1].process) || wanted == EVERY);
        dialogue.entries.iter().map(|it| it.line).collect()
    };
    assert_eq!(lines("2.1"), [4, 6, 8]);
    assert_eq!(lines("8.1"), [5]);
    assert_eq!(lines(EVERY), [4, 6, 8, 5]);
    let error = dialogue(text.as_bytes(), Some("7.1")).unwrap_err().to_string();
    assert_eq!(
        error,
        "--proc 7.1 does not name exactly one process; expected one of: 2.1 (copilot), 8.1 (spare)"
    );
}

#[test]
fn ordered_exit_does_not_count_as_death() {
    let exited = r#"{"t":3,"dir":"in","kind":"exited","data":{"process":{"backend":0,"generation":1},"exit":{"code":7},"stderr":""}}"#;
    let said = |method: &str| {
        format!(
            r#"{{"t":1,"dir":"out","kind":"message","peer":{{"backend":0,"generation":1}},"msg":{{"method":"{method}"}}}}"#
        )
    };
    let told = r#"{"t":2,"dir":"out","kind":"terminate","data":{"process":{"backend":0,"generation":1}}}"#;
    let death = |lines: &[&str]| {
        let text = [&[header().as_str()], lines].concat().join("\n");
        dialogue(text.as_bytes(), Some("0.1")).unwrap().death
    };
    assert_eq!(death(&[&said("m"), exited]), Some((Duration::from_millis(3), 7)));
    assert_eq!(death(&[&said("m"), told, exited]), None);
    assert_eq!(death(&[&said("exit"), exited]), None);
}

#[test]
fn dialogue_omits_unreadable_requests_and_their_answers() {
    let editor = r#"{"client":0}"#;
    let line = |dir: &str, kind: &str, rest: &str| {
        format!(r#"{{"t":1,"dir":"{dir}","kind":"{kind}","peer":{editor},{rest}}}"#)
    };
    let text = [
        header(),
        line("in", "message", r#""raw":"{\"id\":7,\"method\":\"x\",\"params\":{,}}""#),
        line("out", "message", r#""msg":{"id":7,"result":null}"#),
        line("in", "malformed", r#""data":{"id":"a","request":true,"reason":"method that is not a string"}"#),
        line("out", "message", r#""msg":{"id":"a","error":{"code":1,"message":""}}"#),
        line("in", "message", r#""msg":{"id":7,"method":"y"}"#),
        line("out", "message", r#""msg":{"id":7,"result":null}"#),
    ];
    let text = text.join("\n");
    let dialogue = dialogue(text.as_bytes(), None).unwrap();
    assert_eq!(dialogue.entries.iter().map(|it| it.line).collect::<Vec<_>>(), [6, 7]);
    let unreadable = Source::new(text.as_bytes()).filter_map(|it| match it.unwrap().what {
        What::Unreadable { side, id, reason } => Some((side, id?, reason)),
        What::Said(..) | What::Happened(..) => None,
    });
    let said = |id: &str, reason: &str| (Side::Client, id.to_owned(), reason.to_owned());
    assert_eq!(
        unreadable.collect::<Vec<_>>(),
        [said("7", "invalid JSON in x"), said("\"a\"", "method that is not a string")]
    );
}
