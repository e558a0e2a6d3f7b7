//! The tools of the tests themselves: what they are there to notice, they notice.

use std::{
    io::{Read, Write},
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{
    editor::{RpcError, Sent, TestEditor},
    stub::{Chat, Outcome, Override, Round, Rule, Said, Script, Stub},
};

/// A server that reads a line, writes these bytes and then reads until its stdin ends.
fn server_that_writes(bytes: &str) -> TestEditor {
    let mut command = Command::new("sh");
    command.args(["-c", r#"read go; printf %s "$0"; cat >/dev/null"#, bytes]);
    TestEditor::spawn(command)
}

const GO: &str = "go\n";

fn frame(message: &Value) -> String {
    let body = message.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

fn problems_after(bytes: &str) -> Vec<String> {
    let editor = server_that_writes(bytes);
    editor.asked(json!(1), "hover");
    editor.raw_write(GO);
    editor.close_stdin();
    editor.wait_closed();
    editor.forgive_unanswered();
    editor.take_problems()
}

#[test]
fn test_editor_detects_protocol_violations() {
    let answer = frame(&json!({"jsonrpc": "2.0", "id": 1, "result": null}));
    let request = frame(&json!({"jsonrpc": "2.0", "id": 7, "method": "window/showDocument"}));
    assert_eq!(problems_after(&answer), [""; 0]);
    for (bytes, expected) in [
        (format!("warning: {answer}"), "no frame"),
        (format!("{answer}\n"), "no frame"),
        ("Content-Length: 100\r\n\r\n{}".to_owned(), "no frame"),
        (format!("{answer}{answer}"), "a second answer to request 1"),
        (frame(&json!({"jsonrpc": "2.0", "id": "1", "result": null})), "an answer to nobody's request"),
        (frame(&json!({"jsonrpc": "2.0", "id": 1})), "an answer needs a result or an error"),
        (frame(&json!({"jsonrpc": "2.0"})), "neither request nor answer"),
        (format!("{request}{request}"), "the server used id 7 while it was in use"),
    ] {
        let problems = problems_after(&bytes);
        assert!(problems.first().is_some_and(|it| it.starts_with(expected)), "{bytes:?} gave {problems:?}");
    }
}

#[test]
fn test_editor_fails_on_unanswered_requests() {
    let request =
        frame(&json!({"jsonrpc": "2.0", "id": 0, "method": "client/registerCapability", "params": {}}));
    let failure = |bytes: &str, play: fn(&TestEditor)| {
        let editor = server_that_writes(bytes);
        editor.raw_write(GO);
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            play(&editor);
            drop(editor);
        }));
        dropped.err().and_then(|panic| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    };
    let ask = |editor: &TestEditor| drop(editor.request("textDocument/hover", json!({})));
    assert!(failure("", ask).contains("the server never answered textDocument/hover 1"));
    let ignore = |editor: &TestEditor| drop(editor.expect_request("client/registerCapability"));
    assert!(failure(&request, ignore).contains("nobody answered the server's client/registerCapability 0"));
    let answer = |editor: &TestEditor| {
        let request = editor.expect_request("client/registerCapability");
        editor.answer(&request, Ok(Value::Null));
    };
    assert_eq!(failure(&request, answer), "");
    let forgive = |editor: &TestEditor| {
        editor.request("textDocument/hover", json!({}));
        editor.forgive_unanswered();
    };
    assert_eq!(failure("", forgive), "");
}

#[test]
fn test_editor_answers_in_any_order_and_keeps_every_byte() {
    let requests: String =
        (0..3).map(|id| frame(&json!({"jsonrpc": "2.0", "id": id, "method": "ask", "params": id}))).collect();
    let handled = frame(&json!({"jsonrpc": "2.0", "id": "x", "method": "handled", "params": {"n": 1}}));
    let editor = server_that_writes(&(requests.clone() + &handled));
    editor.on_request("handled", |params| Err(RpcError::new(-1, format!("n is {}", params["n"]))));
    editor.raw_write(GO);
    let held: Vec<_> = (0..3).map(|_| editor.expect_request("ask")).collect();
    for request in held.iter().rev() {
        editor.answer(request, Ok(json!(request.params)));
    }
    let answered = editor.wait_transcript("four answers", |entries| {
        let by_us: Vec<Value> = entries
            .iter()
            .filter(|entry| entry.sent == Sent::ByEditor && !entry.message.is_null())
            .map(|entry| entry.message.clone())
            .collect();
        (by_us.len() == 4).then_some(by_us)
    });
    let mut results: Vec<&Value> = answered.iter().map(|answer| &answer["result"]).collect();
    results.retain(|result| !result.is_null());
    assert_eq!(results, [2, 1, 0]);
    assert!(answered.iter().any(|answer| answer["error"]["message"] == "n is 1"));
    let heard: Vec<u8> = editor
        .transcript()
        .iter()
        .filter(|entry| entry.sent == Sent::ByServer)
        .flat_map(|entry| entry.raw.to_vec())
        .collect();
    assert_eq!(heard, (requests + &handled).into_bytes());
    editor.kill(Signal::TERM);
    assert!(!editor.wait_exit().success());
}

#[test]
fn mark_finds_processes_outside_their_group() {
    let mut command = Command::new("sh");
    command.args(["-c", "setsid sleep 1000 & echo $! >&2; cat >/dev/null"]);
    let editor = TestEditor::spawn(command);
    let mark = editor.mark().clone();
    let left = || mark.processes_running("sleep 1000");
    editor.close_stdin();
    editor.wait_exit();
    while left().is_empty() {
        std::thread::yield_now();
    }
    let waited = catch_unwind(AssertUnwindSafe(|| mark.wait_gone(Duration::from_millis(50))));
    assert!(waited.is_err());
    drop(editor);
    mark.wait_gone(Duration::from_secs(5));
}

// ---- the stub

/// Sends a request on a new connection, and reads the whole answer.
fn exchange(stub: &Stub, head: &str, body: &str) -> String {
    let mut stream = connect(stub);
    let head = format!("{head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).expect("the stub reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the stub answers");
    answer
}

fn connect(stub: &Stub) -> TcpStream {
    TcpStream::connect(stub.url().trim_start_matches("http://")).expect("the stub listens")
}

fn chat_body(text: &str) -> String {
    json!({"model": "gpt-4.1", "messages": [{"role": "user", "content": text}]}).to_string()
}

const CHAT: &str = "POST /chat/completions HTTP/1.1";

#[test]
fn stub_refuses_tunnels_and_unknown_paths() {
    let stub = Stub::start(Script::default().http("/user", Override::status(401).times(1)));
    assert!(exchange(&stub, "CONNECT example.com:443 HTTP/1.1", "").starts_with("HTTP/1.1 403"));
    assert!(exchange(&stub, "GET /nowhere?a=b HTTP/1.1", "").starts_with("HTTP/1.1 404"));
    assert!(exchange(&stub, "GET http://api.example/user HTTP/1.1", "").starts_with("HTTP/1.1 401"));
    assert!(exchange(&stub, "GET /user HTTP/1.1", "").contains(r#""login":"stub-user""#));
    let log = stub.log();
    let outcomes: Vec<(&str, Outcome)> =
        log.iter().map(|entry| (entry.path.as_str(), entry.outcome)).collect();
    let (refused, answered) = (Outcome::Refused, Outcome::Answered);
    assert_eq!(
        outcomes,
        [
            ("example.com:443", refused),
            ("/nowhere", answered(404)),
            ("/user", answered(401)),
            ("/user", answered(200))
        ]
    );
}

#[test]
fn stub_reads_chunked_requests_on_one_connection() {
    let stub = Stub::start(Script::default());
    let mut stream = connect(&stub);
    let body = chat_body("in chunks");
    let (first, second) = body.split_at(10);
    let chunked = format!(
        "{CHAT}\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:X};x=y\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    for byte in chunked.bytes() {
        stream.write_all(&[byte]).expect("the stub reads");
    }
    write!(stream, "GET /agents HTTP/1.1\r\n\r\n").expect("the stub reads");
    stream.shutdown(std::net::Shutdown::Write).expect("a connection");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("the stub answers");
    assert!(answers.contains("Echo: in chunks") && answers.ends_with(r#"{"agents":[]}"#), "{answers}");
    assert_eq!(&*stub.log()[0].body, body.as_bytes());
}

#[test]
fn stub_holds_gated_answer_and_notices_lost_client() {
    let rule = Rule::on("wait").then(Round::text("late").gate("go"));
    let stub = Stub::start(Script::default().rule(rule));
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| exchange(&stub, CHAT, &chat_body("please wait")));
        stub.wait_for("the request", |log| !log.is_empty());
        assert_eq!(stub.log()[0].outcome, Outcome::Open);
        stub.open("go");
        waiting.join().expect("an answer")
    });
    assert!(waiting.contains("late"));

    let mut gone = connect(&stub);
    let body = chat_body("[hang]");
    write!(gone, "{CHAT}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).expect("the stub reads");
    stub.wait_for("the request", |log| log.len() == 2);
    drop(gone);
    stub.wait_for("the loss", |log| log[1].outcome == Outcome::Aborted);
}

#[test]
fn chat_reads_the_same_from_both_apis() {
    let request = "<attachments>x</attachments>\n<userRequest>\n[multi] go\n</userRequest>";
    let tools = ["fetch_ticket", "run"];
    let messages = json!({
        "model": "m",
        "tools": tools.map(|name| json!({"type": "function", "function": {"name": name}})),
        "messages": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "<environment>linux</environment>"},
            {"role": "user", "content": "before"},
            {"role": "assistant", "content": "said"},
            {"role": "user", "content": [{"type": "text", "text": request}]},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"name": "fetch_ticket"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "one"},
            {"role": "assistant", "tool_calls": [{"id": "2", "function": {"name": "run"}}]},
            {"role": "tool", "tool_call_id": "2", "content": "two"},
        ],
    });
    let input = json!({
        "model": "m",
        "tools": tools.map(|name| json!({"type": "function", "name": name})),
        "input": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "<environment>linux</environment>"},
            {"role": "user", "content": [{"type": "input_text", "text": "before"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "said"}]},
            {"role": "user", "content": [{"type": "input_text", "text": request}]},
            {"type": "function_call", "name": "fetch_ticket", "call_id": "1"},
            {"type": "function_call_output", "call_id": "1", "output": "one"},
            {"type": "function_call", "name": "run", "call_id": "2"},
            {"type": "function_call_output", "call_id": "2", "output": "two"},
        ],
    });
    let chat = Chat::read(&messages, None);
    assert_eq!(chat, Chat::read(&input, None));
    assert_eq!((chat.user.as_str(), chat.round, chat.title), ("[multi] go", 2, false));
    assert_eq!(chat.results, ["one", "two"]);
    assert_eq!(chat.tools, tools);
    let user = |text: &str| Said::User(text.to_owned());
    assert_eq!(chat.history[..3], [user("before"), Said::Assistant("said".to_owned()), user("[multi] go")]);
}

#[test]
fn stub_refuses_what_model_apis_refuse() {
    let call = |id: &str| json!({"role": "assistant", "content": "", "tool_calls": [{"id": id, "function": {"name": "f"}}]});
    let answer = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "(empty)"});
    let user = |text: &str| json!({"role": "user", "content": text});
    for (messages, refused) in [
        (json!([user("q"), call("a"), answer("a"), user("q")]), None),
        (json!([call("a")]), Some("no answer")),
        (json!([call("a"), user("q")]), Some("no answer")),
        (json!([answer("a")]), Some("was not called")),
        (json!([call("a"), answer("a"), call("a"), answer("a")]), Some("two calls")),
        (json!([user("")]), Some("empty")),
        (json!([{"role": "user", "content": [{"type": "text", "text": ""}]}]), Some("empty")),
    ] {
        let told = Chat::read(&json!({"messages": messages}), None).refused;
        assert!(
            told.as_deref().map(|it| refused.is_some_and(|why| it.contains(why))) == refused.map(|_| true),
            "{messages}: {told:?}"
        );
    }
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "x"});
    let call = json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"});
    assert_eq!(Chat::read(&json!({"input": [call, output]}), None).refused, None);
    assert!(Chat::read(&json!({"input": [call]}), None).refused.is_some());
}

#[test]
fn chat_ignores_continuing_message() {
    let chat = |messages: Value| Chat::read(&json!({"messages": messages}), Some("Go on."));
    let (asked, called, result, go_on) = (
        json!({"role": "user", "content": "[multi]"}),
        json!({"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "t"}}]}),
        json!({"role": "tool", "content": "one"}),
        json!({"role": "user", "content": "<userRequest>Go on.</userRequest>"}),
    );
    let before = chat(json!([asked, called, result]));
    let after = chat(json!([asked, called, result, go_on]));
    assert_eq!((after.user.as_str(), after.round), (before.user.as_str(), before.round));
    assert!(after.continued && !before.continued);
    let twice = chat(json!([asked, go_on, called, result, go_on]));
    assert_eq!((twice.user.as_str(), twice.round), ("[multi]", 1));
    let next = chat(json!([asked, go_on, {"role": "user", "content": "<userRequest>new</userRequest>"}]));
    assert_eq!((next.user.as_str(), next.round, next.continued), ("new", 0, false));
}
