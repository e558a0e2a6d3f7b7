use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::{config::Config, core::Identity, recording::encode::Encoder};

fn inspect(text: &str, filter: &Filter) -> String {
    super::text(text.as_bytes(), filter, Form::Text(Screen::default())).unwrap().unwrap()
}

fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/transcripts");
    std::fs::read_to_string(format!("{folder}/{name}.jsonl")).unwrap()
}

fn check(text: &str, filter: &Filter, expected: &Expect) {
    expected.assert_eq(&inspect(text, filter));
}

fn header() -> String {
    let header = Encoder::new(false, []).header(Identity { pid: 1, started: 2 }, &Config::default());
    String::from_utf8(header).unwrap().trim_end().to_owned()
}

/// A partition's process dies in the middle of a turn.
fn crash() -> String {
    let said = |t: u32, dir: &str, peer: &str, msg: &str| {
        format!(r#"{{"t":{t},"dir":"{dir}","kind":"message","peer":{peer},"msg":{msg}}}"#)
    };
    let happened = |t: u32, dir: &str, kind: &str, data: &str| {
        format!(r#"{{"t":{t},"dir":"{dir}","kind":"{kind}","data":{data}}}"#)
    };
    let create = |id: u32| {
        format!(
            r#"{{"id":{id},"method":"conversation/create","params":{{"workDoneToken":1,"conversationId":"c","turns":[{{"request":"go\non"}}]}}}}"#
        )
    };
    let editor = r#"{"client":0}"#;
    let process = |generation: u32| format!(r#"{{"backend":1,"generation":{generation}}}"#);
    let of = |generation: u32| format!(r#"{{"process":{}}}"#, process(generation)).replace("}}", "},");
    let spawn = |generation: u32| {
        of(generation)
            + r#""backend":{"name":"partition \"read_file\" of copilot","tools":["read_file"]},"launch":{}}"#
    };
    [
        header(),
        said(1, "in", editor, &create(7)),
        happened(1, "out", "spawn", &spawn(1)),
        happened(2, "in", "spawned", &(of(1) + r#""pid":4711}"#)),
        said(1000, "out", &process(1), &create(40)),
        said(1001, "in", &process(1), r#"{"id":0,"method":"conversation/invokeClientTool","params":{"name":"read_file","input":{"a":1},"conversationId":"c"}}"#),
        said(1001, "out", editor, r#"{"id":3,"method":"conversation/invokeClientTool","params":{"name":"read_file","input":{"a":1},"conversationId":"c"}}"#),
        said(1003, "in", editor, r#"{"id":3,"result":[{"status":"error"},null]}"#),
        happened(2000, "in", "exited", &(of(1) + r#""exit":{"signal":6},"stderr":"at x\nout of memory\n"}"#)),
        happened(2500, "out", "spawn", &spawn(2)),
        happened(2501, "in", "spawned", &(of(2) + r#""pid":4712}"#)),
        said(3500, "out", &process(2), &create(41)),
        said(63_500, "out", editor, r#"{"id":7,"result":{"conversationId":"c"}}"#),
        said(63_600, "in", editor, r#"{"id":8,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///a/b.py"}}}"#),
        said(63_600, "out", editor, r#"{"id":8,"error":{"code":-32801,"message":"modified"}}"#),
        happened(63_700, "out", "terminate", &(of(2) + r#""x":0}"#)),
        happened(63_900, "in", "exited", &(of(2) + r#""exit":{"signal":15},"stderr":""}"#)),
        r#"{"t":64000,"dir":"end","kind":"done"}"#.to_owned(),
    ]
    .join("\n")
}

#[test]
fn inspect_shows_crash_and_restart() {
    check(
        &crash(),
        &Filter::default(),
        &expect![[r#"
        recording of lspool: 6 messages with the editor in 1.1 min; lspool has ended
          1.1   partition "read_file" of copilot
          1.2   partition "read_file" of copilot

        conversation c  served by 1.1, then 1.2
             0.001   1.1 min  conversation/create "go"
             1.001      2 ms    tool read_file {"a":1}  error

        session
            63.600     <1 ms  textDocument/hover b.py  error -32801: modified

        processes
             0.002  1.1  started (process 4711)
             2.000  1.1  ended by signal 6: out of memory
             2.501  1.2  started again (process 4712)
            63.900  1.2  ended by signal 15
    "#]],
    );
}

#[test]
fn inspect_omits_stderr_when_somebody_killed_server() {
    let killed = crash().replace(r#""exit":{"signal":6}"#, r#""exit":{"signal":9}"#);
    let shown = inspect(&killed, &Filter::default());
    assert!(shown.contains("1.1  ended by signal 9\n"), "{shown}");
}

#[test]
fn inspect_shows_only_errors_on_request() {
    check(
        &crash(),
        &Filter { only_errors: true, ..Filter::default() },
        &expect![[r#"
        recording of lspool: 6 messages with the editor in 1.1 min; lspool has ended
          1.1   partition "read_file" of copilot
          1.2   partition "read_file" of copilot

        conversation c  served by 1.1, then 1.2
             1.001      2 ms    tool read_file {"a":1}  error

        session
            63.600     <1 ms  textDocument/hover b.py  error -32801: modified

        processes
             2.000  1.1  ended by signal 6: out of memory
    "#]],
    );
}

#[test]
fn inspect_separates_parallel_conversations() {
    check(
        &fixture("parallel"),
        &Filter::default(),
        &expect![[r#"
            transcript: 54 messages in 2.24 s

            session
                 0.000    1.33 s  initialize
                 1.670     14 ms  checkStatus
                 1.684      9 ms  conversation/registerTools
                 2.239      3 ms  shutdown

            conversation conv-one
                 1.694    245 ms  conversation/create "[slow] one"

            conversation conv-two
                 1.752    159 ms  conversation/create "[multi] two"
                 1.771     <1 ms    tool fetch_ticket {"key":"STEP-1"}  success
                 1.870     <1 ms    confirm run_in_terminal {"command":"true","explanation":"true","isBackground":false,"to…  accept
                 1.871      1 ms    tool run_in_terminal {"command":"true","explanation":"true","isBackground":false}  success
        "#]],
    );
}

#[test]
fn inspect_groups_messages_by_process() {
    let filter = Filter { method: Some("conversation/*".to_owned()), ..Filter::default() };
    check(
        &fixture("crash"),
        &filter,
        &expect![[r#"
            transcript: 121 messages in 5.47 s

            A: session
                 1.458              < conversation/preconditionsNotification
                 1.500     22 ms  conversation/registerTools

            A: conversation conv-crash
                 1.524     60 ms  conversation/create "[custom] what is ABC-1?"
                 1.559     <1 ms    tool fetch_ticket {"key":"ABC-1"}  success
                 1.584            conversation/turn "[slow] tell me more"  no answer

            B: session
                 3.059              < conversation/preconditionsNotification
                 3.124      9 ms  conversation/registerTools

            B: conversation conv-crash
                 3.133     99 ms  conversation/create "[history] tell me more (again)"
                 3.233     24 ms  conversation/turn "[history] go on"

            C: session
                 4.949              < conversation/preconditionsNotification
                 4.971     12 ms  conversation/registerTools

            C: conversation conv-full
                 4.984    126 ms  conversation/create "[history] full fidelity"
                 5.111     54 ms  conversation/create "[history] x"
        "#]],
    );
}

#[test]
fn inspect_shows_only_the_chosen_conversation() {
    let conversation = Some("conv-two".to_owned());
    let filter = Filter { conversation, method: Some("$/progress".to_owned()), only_errors: false };
    check(
        &fixture("parallel"),
        &filter,
        &expect![[r#"
            transcript: 54 messages in 2.24 s

            conversation conv-two
                 1.756              < $/progress begin
                 1.770              < $/progress report
                 1.771              < $/progress report
                 1.771              < $/progress report
                 1.817              < $/progress report
                 1.871              < $/progress report
                 1.872              < $/progress report
                 1.893              < $/progress report
                 1.893              < $/progress report
                 1.910              < $/progress end
        "#]],
    );
}

#[test]
fn inspect_reports_torn_last_line() {
    let all = crash();
    let cut = &all[..all.len() - 20];
    let text = inspect(cut, &Filter { method: Some("nothing".to_owned()), ..Filter::default() });
    expect![[r#"
        recording of lspool: 6 messages with the editor in 1.1 min; it was cut off
          1.1   partition "read_file" of copilot
          1.2   partition "read_file" of copilot

        no message matches

        line 18, the last one, is incomplete; lspool ignored it
    "#]]
    .assert_eq(&text);
}

#[test]
fn inspect_colors_change_no_text() {
    let screen = Screen { size: Some((40, 24)), is_colored: true };
    let text = super::text(crash().as_bytes(), &Filter::default(), Form::Text(screen)).unwrap().unwrap();
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain += before;
        rest = after.split_once('m').unwrap().1;
    }
    plain += rest;
    assert_ne!(plain, text);
    let without = inspect(&crash(), &Filter::default());
    assert!(!without.contains('\x1b'));
    assert_eq!(plain, without);
}

#[test]
fn is_like_matches_wildcards() {
    for (text, pattern) in [
        ("a/b", "a/b"),
        ("a/b", "*"),
        ("a/b", "a*"),
        ("a/b", "*b"),
        ("a/bc/d", "a*c*d"),
        ("aa", "a*a"),
        ("", "*"),
    ] {
        assert!(is_like(text, pattern), "{text} {pattern}");
    }
    for (text, pattern) in [("a/b", "a"), ("a", "a*a"), ("ab", "b*"), ("a/b", ""), ("abc", "a*c*c")] {
        assert!(!is_like(text, pattern), "{text} {pattern}");
    }
}

#[test]
fn page_has_lanes_and_loads_nothing() {
    let evil = crash().replace("out of memory", "</script><script>alert(1)");
    let page = super::text(evil.as_bytes(), &Filter::default(), Form::Page).unwrap().unwrap();
    assert_eq!(page.matches("</script>").count(), 2, "the data and the program");
    for loading in ["http:", "https:", "src=", "import ", "url(", "fetch("] {
        assert!(!page.contains(loading), "{loading}");
    }
    let (_, data) = page.split_once("type=\"application/json\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    expect![[r#"
        {
          "title": "recording of lspool: 6 messages with the editor in 1.1 min; lspool has ended",
          "length": 64000.0,
          "lanes": [
            "conversation c  served by 1.1, then 1.2",
            "session",
            "process 1.1 partition \"read_file\" of copilot",
            "process 1.2 partition \"read_file\" of copilot"
          ],
          "rows": [
            [
              1.0,
              63499.0,
              0,
              1,
              "conversation/create \"go\"",
              "",
              false,
              999.0
            ],
            [
              2.0,
              1998.0,
              2,
              3,
              "process 1.1",
              "",
              false
            ],
            [
              2.0,
              null,
              2,
              4,
              "started (process 4711)",
              "",
              false,
              null
            ],
            [
              1001.0,
              2.0,
              0,
              2,
              "tool read_file {\"a\":1}",
              "error",
              true,
              null
            ],
            [
              2000.0,
              null,
              2,
              4,
              "ended by signal 6: </script><script>alert(1)",
              "",
              true,
              null
            ],
            [
              2501.0,
              61399.0,
              3,
              3,
              "process 1.2",
              "",
              false
            ],
            [
              2501.0,
              null,
              3,
              4,
              "started again (process 4712)",
              "",
              false,
              null
            ],
            [
              63600.0,
              0.0,
              1,
              0,
              "textDocument/hover b.py",
              "error -32801: modified",
              true,
              null
            ],
            [
              63900.0,
              null,
              3,
              4,
              "ended by signal 15",
              "",
              false,
              null
            ]
          ]
        }
    "#]]
    .assert_eq(&format!("{data:#}\n"));
}

#[test]
fn unknown_conversation_is_an_error_that_lists_known_ones() {
    let filter = Filter { conversation: Some("nope".to_owned()), ..Filter::default() };
    let form = Form::Text(Screen::default());
    let unknown = super::text(crash().as_bytes(), &filter, form).unwrap().unwrap_err();
    assert_eq!(unknown.to_string(), "no conversation \"nope\"; expected one of\n  c");
    let empty = super::text(header().as_bytes(), &filter, form).unwrap().unwrap_err();
    assert_eq!(empty.to_string(), "no conversation \"nope\"; it has no conversation");
}

#[test]
fn page_shows_how_long_request_waited_for_process() {
    let page = super::text(crash().as_bytes(), &Filter::default(), Form::Page).unwrap().unwrap();
    let (_, data) = page.split_once(r#"<script id="data" type="application/json">"#).unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let waited = |what: &str| {
        let rows = data["rows"].as_array().unwrap();
        rows.iter().find(|it| it[4].as_str().unwrap().contains(what)).unwrap()[7].clone()
    };
    // It came at 1 ms and went to the process at 1000 ms; that the next process got it again changes nothing.
    assert_eq!(waited("conversation/create"), 999.0);
    assert_eq!(waited("textDocument/hover"), Value::Null);
    assert_eq!(waited("started (process 4711)"), Value::Null);
}

#[test]
fn inspect_shows_tasks_and_workers_of_orchestration() {
    let said = |t: u32, dir: &str, msg: &Value| {
        format!(r#"{{"t":{t},"dir":"{dir}","kind":"message","peer":{{"client":0}},"msg":{msg}}}"#)
    };
    let event = |t: u32, what: Value| {
        let mut params = what;
        params["orchestration"] = json!("o");
        said(t, "out", &json!({"method": "lspool/orchestratorEvent", "params": params}))
    };
    let planned =
        |task: u32, text: &str| json!({"task": task, "role": "coder", "text": text, "dependsOn": []});
    let of =
        |name: &str, task: u32| json!({"event": name, "task": task, "role": "coder", "worker": "coder-1"});
    let with = |mut it: Value, more: Value| {
        it.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        it
    };
    let text = [
        header(),
        said(1, "in", &json!({"id": 1, "method": "lspool/orchestrate", "params": {"goal": "do it\nwell"}})),
        event(1, json!({"event": "planStarted", "goal": "do it", "attempt": 1})),
        event(2000, json!({"event": "planCompleted", "tasks": [planned(0, "write\nit"), planned(1, "test"), planned(2, "praise")]})),
        event(2001, of("taskAssigned", 0)),
        said(2500, "out", &json!({"id": 7, "method": "conversation/invokeClientTool", "params": {
            "name": "read_file", "input": {}, "conversationId": "o", "lspool": {"agent": "coder-1"}}})),
        said(2600, "in", &json!({"id": 7, "result": [{"status": "success"}, null]})),
        event(4001, with(of("taskCompleted", 0), json!({"state": "done"}))),
        event(4002, of("taskAssigned", 1)),
        event(4500, with(of("taskRetried", 1), json!({"reason": "no words", "attempt": 2}))),
        event(4501, of("taskAssigned", 1)),
        event(5001, with(of("taskCompleted", 1), json!({"state": "failed", "reason": "its model failed"}))),
        event(5001, json!({"event": "taskCompleted", "task": 2, "state": "skipped", "reason": "task 1 failed"})),
        event(6000, json!({"event": "summarizeCompleted", "summary": "s"})),
        said(6001, "out", &json!({"id": 1, "result": {"orchestration": "o", "state": "failed"}})),
        r#"{"t":7000,"dir":"end","kind":"done"}"#.to_owned(),
    ]
    .join("\n");
    check(
        &text,
        &Filter::default(),
        &expect![[r#"
        recording of lspool: 14 messages with the editor in 7.00 s; lspool has ended

        orchestration o
             0.001    6.00 s  lspool/orchestrate "do it"  failed
             0.001    2.00 s    plan  3 tasks
             2.001    2.00 s    task 0 coder-1: write  done
             2.500    100 ms    tool coder-1: read_file {}  success
             4.002    498 ms    task 1 coder-1: test  failed, and starts again: no words
             4.501    500 ms    task 1 coder-1: test  failed: its model failed
             5.001              task 2: praise  skipped: task 1 failed
             6.000              summary
    "#]],
    );
    let failures = inspect(&text, &Filter { only_errors: true, ..Filter::default() });
    assert_eq!(failures.lines().filter(|it| it.contains("task ")).count(), 3, "{failures}");
}
