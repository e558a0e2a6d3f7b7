//! Headers and bodies, well and badly made, in both directions. See `rpc/codec.rs` for the rules.

use std::time::Duration;

use serde_json::json;

use super::{PUPPET, Pair, frame, framed};

/// Pieces of one byte, with room between them for everything else.
const DRIP: Duration = Duration::from_micros(200);

#[test]
fn messages_arriving_byte_by_byte_are_read() {
    let (pair, server) = Pair::started();
    let text = "héllo 😀 漢字 \u{1}\"\\";
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let asked = server.expect("textDocument/hover");
    let answer = frame(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": text}));
    let mut noise = Vec::new();
    for n in 0..50 {
        noise.extend(frame(
            &json!({"jsonrpc": "2.0", "method": "fake/dripped", "params": {"n": n, "x": text}}),
        ));
    }
    server.write_in_pieces(&noise[..noise.len() / 2], 7, DRIP);
    server.write_in_pieces(&noise[noise.len() / 2..], 61, DRIP);
    server.write_in_pieces(&answer, 1, DRIP);
    let mut n_told = 0;
    while pair.editor.answer_to(&hover).is_none() {
        pair.editor.notify("fake/told", json!({"n": n_told}));
        n_told += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(pair.editor.wait(&hover), Ok(json!(text)));
    let dripped = pair.editor.notifications("fake/dripped");
    assert_eq!(dripped.len(), 50);
    assert!(dripped.iter().zip(0..).all(|(it, n)| it["n"] == n && it["x"] == text));
    pair.check_alive(&server);
    let told = server.received_of("fake/told");
    assert_eq!(told.len(), n_told);
    assert!(told.iter().zip(0..).all(|(it, n)| it["params"]["n"] == n));
    pair.end(&server);
}

#[test]
fn header_and_body_in_separate_writes_are_read() {
    let (pair, server) = Pair::started();
    for n in 0..3000 {
        let body = json!({"jsonrpc": "2.0", "method": "$/progress", "params": {"token": "p", "value": [n]}});
        let body = body.to_string();
        server.write(format!("Content-Length: {}\r\n\r\n", body.len()));
        server.write(body);
        if n % 50 == 0 {
            pair.editor.notify("fake/meanwhile", json!({}));
        }
    }
    pair.editor.wait_notification("$/progress", |it| it["value"][0] == 2999);
    let values = pair.editor.notifications("$/progress");
    assert!(values.iter().zip(0..).all(|(it, n)| it["value"][0] == n));
    assert_eq!(values.len(), 3000);
    pair.end(&server);
}

#[test]
fn editor_messages_arriving_byte_by_byte_are_read() {
    let (pair, server) = Pair::started();
    let hover = pair.editor.asked(json!(77), "textDocument/hover");
    let asked =
        frame(&json!({"jsonrpc": "2.0", "id": 77, "method": "textDocument/hover", "params": {"x": "é😀"}}));
    for byte in &asked {
        pair.editor.raw_write([*byte]);
        server.notify("fake/meanwhile", json!({}));
        std::thread::sleep(DRIP);
    }
    let asked = server.expect("textDocument/hover");
    assert_eq!(asked["params"]["x"], "é😀");
    server.answer(&asked, json!(1));
    assert_eq!(pair.editor.wait(&hover), Ok(json!(1)));
    pair.editor.wait_transcript("all notifications", |entries| {
        let n = entries.iter().filter(|it| it.method() == Some("fake/meanwhile")).count();
        (n == frame(
            &json!({"jsonrpc": "2.0", "id": 77, "method": "textDocument/hover", "params": {"x": "é😀"}}),
        )
        .len())
        .then_some(())
    });
    pair.end(&server);
}

#[test]
fn batch_is_taken_apart_in_both_directions() {
    let (pair, server) = Pair::started();
    let hover = pair.editor.request("textDocument/hover", json!({}));
    let asked = server.expect("textDocument/hover");
    server.write(frame(&json!([
        {"jsonrpc": "2.0", "method": "fake/said", "params": 1},
        {"jsonrpc": "2.0", "id": asked["id"], "result": 2},
    ])));
    assert_eq!(pair.editor.wait(&hover), Ok(json!(2)));
    assert_eq!(pair.editor.notifications("fake/said"), [json!(1)]);
    let rename = pair.editor.asked(json!(77), "textDocument/rename");
    pair.editor.raw_write(frame(&json!([
        {"jsonrpc": "2.0", "method": "fake/told", "params": {}},
        {"jsonrpc": "2.0", "id": 77, "method": "textDocument/rename", "params": {}},
    ])));
    let asked = server.expect("textDocument/rename");
    assert_eq!(server.received_of("fake/told").len(), 1);
    server.answer(&asked, json!(3));
    assert_eq!(pair.editor.wait(&rename), Ok(json!(3)));
    pair.check_alive(&server);
    pair.end(&server);
}

#[test]
fn headers_are_read_in_any_case_and_spacing() {
    let (pair, server) = Pair::started();
    let headers = [
        "content-length:#\r\n\r\n",
        "CONTENT-LENGTH:   #  \r\n\r\n",
        "Content-Length : #\r\n\r\n",
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: #\r\n\r\n",
        "Content-Length: #\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\n\r\n",
        "X-Other: 1\r\ncontent-Length:#\r\nX-Content-Length: 3\r\n\r\n",
        "Content-Length: #\n\n",
        "Content-Length: #\r\r\n\r\r\n",
    ];
    for header in headers {
        let said = json!({"jsonrpc": "2.0", "method": "fake/said", "params": header}).to_string();
        let head = header.replace('#', &said.len().to_string());
        server.write([head.as_bytes(), said.as_bytes()].concat());
        pair.editor.wait_notification("fake/said", |it| it == header);
        pair.editor.raw_write([head.as_bytes(), said.as_bytes()].concat());
        server.expect_where("fake/said", |it| it == header);
    }
    pair.end(&server);
}

#[test]
fn junk_on_server_stdout_loses_no_message() {
    let (pair, server) = Pair::started();
    let strays: [&[u8]; 9] = [
        b"Info: 35 declarations\n\n",
        b"cont\n",
        b"\r\n\r\n\n",
        b"warning without an end of line ",
        b"X-Other: 1\r\n\r\n",
        b"Content-Length: abc\r\n\r\n",
        b"Content-Length:\r\n\r\n",
        b"Content-Length: 0\r\n\r\n",
        b"\xff\xfe not UTF-8\n",
    ];
    for (n, stray) in strays.iter().enumerate() {
        server.write(*stray);
        server.notify("fake/after", json!(n));
        pair.editor.wait_notification("fake/after", |it| *it == n);
    }
    pair.check_alive(&server);
    let log = std::fs::read_to_string(pair.sandbox.runtime().join("log")).unwrap();
    assert!(log.contains("35 declarations") && log.contains("lspool-puppet"), "{log}");
    pair.end(&server);
}

#[test]
fn editor_header_without_length_is_skipped() {
    let (pair, server) = Pair::started();
    for junk in
        ["X-Other: 1\r\n\r\n", "Content-Length: -5\r\n\r\n", "hello\r\n", "Content-Length: 1.5\r\n\r\n"]
    {
        pair.editor.raw_write(junk);
    }
    pair.check_alive(&server);
    pair.end(&server);
}

#[test]
fn huge_length_ends_server_without_using_memory() {
    for length in ["99999999999", "268435457", "99999999999999999999999999"] {
        let (pair, server) = Pair::started();
        let command = pair.editor.request("workspace/executeCommand", json!({}));
        server.expect("workspace/executeCommand");
        server.write(format!("Content-Length: {length}\r\n\r\n{{"));
        let error = pair.editor.wait(&command).unwrap_err();
        assert_eq!(error.data["lspool"]["retry"], true, "{error}");
        // The next one serves.
        let next = pair.host.accept();
        let asked = next.expect("initialize");
        next.answer(&asked, json!({"capabilities": {}}));
        pair.check_alive(&next);
        assert!(!server.is_alive());
        assert!(pair.peak_kib() < 20 * 1024, "{} KiB", pair.peak_kib());
        pair.end(&next);
    }
}

#[test]
fn unfilled_length_within_limit_uses_no_memory() {
    let (pair, server) = Pair::started();
    let before = pair.peak_kib();
    server.write("Content-Length: 268435456\r\n\r\n{\"jsonrpc\"");
    // The editor's side continues.
    for n in 0..20 {
        pair.editor.notify("fake/told", json!(n));
    }
    server.expect_where("fake/told", |it| *it == 19);
    assert!(pair.peak_kib() < before + 8 * 1024, "{} → {} KiB", before, pair.peak_kib());
    pair.editor.notify_bare("exit");
    assert_eq!(pair.editor.wait_exit().code(), Some(1));
    drop(server);
}

#[test]
fn huge_length_from_editor_ends_lspool_with_message() {
    let (pair, server) = Pair::started();
    pair.editor.raw_write("Content-Length: 99999999999\r\n\r\n{");
    assert_eq!(pair.editor.wait_exit().code(), Some(2));
    assert!(pair.editor.wait_stderr().contains("99999999999"), "{}", pair.editor.wait_stderr());
    server.wait_gone();
    pair.editor.mark().wait_gone(Duration::from_secs(2));
}

#[test]
fn endless_junk_ends_server() {
    let (pair, server) = Pair::started();
    let command = pair.editor.request("workspace/executeCommand", json!({}));
    server.expect("workspace/executeCommand");
    server.write(vec![b'x'; 100_000]);
    let error = pair.editor.wait(&command).unwrap_err();
    assert_eq!(error.data["lspool"]["cause"], "transport", "{error}");
    let next = pair.host.accept();
    let asked = next.expect("initialize");
    next.answer(&asked, json!({"capabilities": {}}));
    pair.check_alive(&next);
    pair.end(&next);
}

#[test]
fn malformed_answer_fails_its_request() {
    let bodies: [(&[u8], &str); 3] = [
        (br#"{"jsonrpc":"2.0","id":ID,"result":}"#, "a missing value"),
        (br#"{"jsonrpc":"2.0","id":ID,"result":1}}"#, "a brace too many"),
        (br#"{"jsonrpc":"2.0","id":ID,"result":1"#, "no end"),
    ];
    let (pair, server) = Pair::started();
    for (body, what) in bodies {
        let hover = pair.editor.request("textDocument/hover", json!({}));
        let asked = server.expect("textDocument/hover");
        server.write(framed(&replace(body, b"ID", asked["id"].to_string().as_bytes())));
        let answer = pair.editor.wait(&hover);
        let error = answer.expect_err(what);
        assert_eq!(error.data["lspool"]["cause"], "malformed", "{what}: {error}");
        pair.check_alive(&server);
    }
    pair.end(&server);
}

#[test]
fn unreadable_message_ends_only_server_with_pending_requests() {
    let (pair, server) = Pair::started();
    server.write(framed(b"not JSON at all"));
    server.write(framed(b"[]"));
    server.write(framed(b"\xff\xff"));
    server.notify("fake/after", json!({}));
    pair.editor.wait_notification("fake/after", |_| true);
    pair.check_alive(&server);
    let command = pair.editor.request("workspace/executeCommand", json!({}));
    server.expect("workspace/executeCommand");
    server.write(framed(b"not JSON at all"));
    let error = pair.editor.wait(&command).unwrap_err();
    assert_eq!(error.data["lspool"]["retry"], true, "{error}");
    let next = pair.host.accept();
    let asked = next.expect("initialize");
    next.answer(&asked, json!({"capabilities": {}}));
    pair.check_alive(&next);
    pair.end(&next);
}

#[test]
fn malformed_request_is_refused_on_both_sides() {
    let (pair, server) = Pair::started();
    server.write(framed(br#"{"jsonrpc":"2.0","id":"mine","method":"window/showMessageRequest","params":}"#));
    assert_eq!(server.expect_answer("mine")["error"]["code"], -32600);
    let asked = pair.editor.asked(json!("x"), "textDocument/hover");
    pair.editor.raw_write(framed(br#"{"jsonrpc":"2.0","id":"x","method":"textDocument/hover","params":}"#));
    assert_eq!(pair.editor.wait(&asked).unwrap_err().code, -32600);
    pair.editor.raw_write(framed(b"nonsense"));
    pair.check_alive(&server);
    pair.end(&server);
}

#[test]
fn eight_mebibytes_pass_both_ways_byte_for_byte() {
    let (pair, server) = Pair::measured();
    let text = "0123456789äöü😀\\\"\n".repeat((8 << 20) / 24);
    let hover = pair.editor.request("textDocument/hover", json!({"text": text}));
    let asked = server.expect("textDocument/hover");
    assert!(asked["params"]["text"] == text.as_str(), "up");
    server.answer(&asked, json!(text));
    assert!(pair.editor.wait(&hover) == Ok(json!(text)), "down");
    // The read buffer doubles as it grows; nothing else is copied.
    assert!(pair.peak_kib() < 28 * 1024, "{} KiB", pair.peak_kib());
    pair.end(&server);
}

#[test]
fn max_message_limits_server_messages() {
    let config = format!("[server.lspool-puppet]\ncommand = {PUPPET:?}\nmax_message = \"1 MiB\"\n");
    let pair = Pair::with(&config, &[]);
    let server = pair.handshake();
    let command = pair.editor.request("workspace/executeCommand", json!({}));
    let asked = server.expect("workspace/executeCommand");
    server.answer(&asked, json!("x".repeat(1_100_000)));
    let error = pair.editor.wait(&command).unwrap_err();
    assert_eq!(error.data["lspool"]["cause"], "transport", "{error}");
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes.windows(from.len()).position(|it| it == from).expect("the pattern is there");
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}
