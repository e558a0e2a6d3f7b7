//! Back pressure: slow peers wait only for themselves, nothing is lost, and memory stays bounded. See
//! `docs/architecture.md`.

use serde_json::{Value, json};

use super::{Pair, copilot, frame};
use crate::support::editor::Pending;

/// The memory of an idle lspool with the high-water mark of the editor's outbox, and room to spare, in KiB. Less than
/// a test forwards.
const BOUNDED: u64 = 12 * 1024;

#[test]
fn slow_editor_blocks_nobody_and_gets_everything() {
    let (pair, server) = Pair::measured();
    let reply = "r".repeat(16 * 1024);
    server.on("textDocument/hover", move |it| Ok(json!([it["n"], reply])));
    pair.editor.set_reading(false);
    let asked: Vec<Pending> =
        (0..2000).map(|n| pair.editor.request("textDocument/hover", json!({"n": n}))).collect();
    pair.editor.notify("fake/last", json!({}));
    // lspool reads and forwards all of it, although nobody reads the 32 MiB of answers.
    server.expect("fake/last");
    assert_eq!(server.received_of("textDocument/hover").len(), 2000);
    assert!(pair.peak_kib() < BOUNDED, "{} KiB", pair.peak_kib());
    pair.editor.set_reading(true);
    for (pending, n) in asked.iter().zip(0..) {
        let answer = pair.editor.wait(pending).expect("every request is answered");
        assert_eq!((&answer[0], answer[1].as_str().map(str::len)), (&json!(n), Some(16 * 1024)));
    }
    assert!(pair.peak_kib() < BOUNDED, "{} KiB", pair.peak_kib());
    pair.end(&server);
}

#[test]
fn slow_editor_loses_only_logs_and_outdated_reports() {
    let (pair, server) = Pair::started();
    pair.editor.set_reading(false);
    let fill = "f".repeat(4000);
    let progress = |value: Value| json!({"token": "t", "value": value});
    server.notify("$/progress", progress(json!({"kind": "begin", "title": "x"})));
    for n in 0..1500 {
        server.notify("window/logMessage", json!({"type": 4, "message": n.to_string()}));
        server.notify("fake/kept", json!({"n": n, "fill": fill}));
        server.notify("$/progress", progress(json!({"kind": "report", "message": n.to_string()})));
        // A part of a conversation or of a result is never outdated.
        server.notify(
            "$/progress",
            json!({"token": "c", "value": {"kind": "report", "conversationId": "c", "n": n}}),
        );
        server.notify("$/progress", json!({"token": "p", "value": [n]}));
    }
    server.notify("$/progress", progress(json!({"kind": "end"})));
    server.notify("fake/last", json!({}));
    // The pipes are full now, and lspool has stopped to read.
    pair.check_that_editor_is_read(&server);
    pair.editor.set_reading(true);
    pair.editor.wait_notification("fake/last", |_| true);
    let numbers = |method: &str, number: fn(&Value) -> Option<i64>| -> Vec<i64> {
        pair.editor.notifications(method).iter().filter_map(number).collect()
    };
    let all: Vec<i64> = (0..1500).collect();
    assert_eq!(numbers("fake/kept", |it| it["n"].as_i64()), all);
    let of = |token: &'static str| move |it: &Value| it["token"] == token;
    let progress: Vec<Value> = pair.editor.notifications("$/progress");
    let conversation: Vec<i64> =
        progress.iter().filter(|it| of("c")(it)).filter_map(|it| it["value"]["n"].as_i64()).collect();
    let partial: Vec<i64> =
        progress.iter().filter(|it| of("p")(it)).filter_map(|it| it["value"][0].as_i64()).collect();
    assert_eq!((conversation, partial), (all.clone(), all));
    let work: Vec<&Value> = progress.iter().filter(|it| of("t")(it)).map(|it| &it["value"]).collect();
    assert_eq!(work[0]["kind"], "begin");
    assert_eq!(work[work.len() - 1]["kind"], "end");
    assert_eq!(work[work.len() - 2]["message"], "1499", "the last report stays");
    let reports: Vec<i64> = work.iter().filter_map(|it| it["message"].as_str()?.parse().ok()).collect();
    assert!(reports.is_sorted());
    let missing = |there: usize| json!(1500 - there);
    let logs = pair.editor.notifications("window/logMessage").len();
    assert!(logs < 1500 && reports.len() < 1500, "nothing was dropped: {logs}, {}", reports.len());
    let status = pair.editor.ok("lspool/status", json!({}));
    assert_eq!(
        status["dropped"]["editor"],
        json!({"log_messages": missing(logs), "reports": missing(reports.len())})
    );
    assert_eq!(status["backends"][0]["dropped"], json!({"log_messages": 0, "reports": 0}));
    pair.end(&server);
}

#[test]
fn slow_server_blocks_nobody_and_gets_everything() {
    let (pair, server) = Pair::started();
    server.set_reading(false);
    let fill = "f".repeat(10 * 1024);
    for n in 0..1000 {
        pair.editor.notify("fake/told", json!({"n": n, "fill": fill}));
    }
    // It speaks, and is heard.
    for n in 0..100 {
        server.notify("fake/said", json!(n));
    }
    pair.editor.wait_notification("fake/said", |it| *it == 99);
    server.set_reading(true);
    pair.check_alive(&server);
    let told = server.received_of("fake/told");
    assert!(told.iter().zip(0..).all(|(it, n)| it["params"]["n"] == n));
    assert_eq!(told.len(), 1000);
    pair.end(&server);
}

#[test]
fn slow_server_loses_only_outdated_reports_and_status_counts_them() {
    let (pair, server) = Pair::started();
    server.set_reading(false);
    let fill = "f".repeat(10 * 1024);
    for n in 0..1000 {
        pair.editor.notify("fake/told", json!({"n": n, "fill": fill}));
        let report = json!({"kind": "report", "message": n.to_string()});
        pair.editor.notify("$/progress", json!({"token": "t", "value": report}));
        pair.editor.notify("$/progress", json!({"token": "p", "value": [n]}));
    }
    // It is asked for behind all that, and answered although the server does not read.
    let counted = |status: &Value| status["backends"][0]["dropped"].clone();
    let dropped = counted(&pair.editor.ok("lspool/status", json!({})));
    server.set_reading(true);
    pair.check_alive(&server);
    assert_eq!(server.received_of("fake/told").len(), 1000);
    let progress = server.received_of("$/progress");
    let of = |token: &str| progress.iter().filter(|it| it["params"]["token"] == token).count();
    assert_eq!(of("p"), 1000);
    assert!(of("t") < 1000, "nothing was dropped");
    assert_eq!(dropped, json!({"log_messages": 0, "reports": 1000 - of("t")}));
    assert_eq!(counted(&pair.editor.ok("lspool/status", json!({}))), dropped);
    pair.end(&server);
}

#[test]
fn partition_that_stops_reading_blocks_no_other() {
    let pair = copilot::Pair::started();
    let (stuck, _turn) = pair.partition("stuck", &["read_file"]);
    let (other, turn) = pair.partition("other", &["list_dir"]);
    stuck.set_reading(false);
    let fill = "f".repeat(100 * 1024);
    let item = json!({"uri": "file:///x", "languageId": "x", "version": 0, "text": ""});
    pair.editor.notify("textDocument/didOpen", json!({"textDocument": item}));
    for version in 1..=30 {
        let document = json!({"uri": "file:///x", "version": version});
        let change = json!({"textDocument": document, "contentChanges": [{"text": fill}]});
        pair.editor.notify("textDocument/didChange", change);
    }
    let done = json!({"textDocument": {"uri": "file:///x"}});
    pair.editor.notify("textDocument/didSave", done);
    pair.primary.expect("textDocument/didSave");
    other.expect("textDocument/didSave");
    pair.end_turn(&other, &turn);
    assert_eq!(stuck.received_of("textDocument/didSave"), [] as [Value; 0]);
    stuck.set_reading(true);
    stuck.expect("textDocument/didSave");
    assert_eq!(stuck.received_of("textDocument/didChange").len(), 30);
    pair.leave();
}

#[test]
fn memory_is_bounded_while_partition_does_not_read() {
    let pair = copilot::Pair::measured();
    let (stuck, _turn) = pair.partition("stuck", &["read_file"]);
    let (other, turn) = pair.partition("other", &["list_dir"]);
    stuck.set_reading(false);
    let fill = "f".repeat(100 * 1024);
    let uri = "file:///x";
    let item = json!({"uri": uri, "languageId": "x", "version": 0, "text": ""});
    pair.editor.notify("textDocument/didOpen", json!({"textDocument": item}));
    for n in 0..300 {
        // Both get messages, and both send; 30 MiB each.
        let change = json!({"textDocument": {"uri": uri, "version": n}, "contentChanges": [{"text": fill}]});
        pair.editor.notify("textDocument/didChange", change);
        pair.primary.notify("fake/said", json!({"by": "primary", "n": n, "fill": fill}));
        other.notify("fake/said", json!({"by": "other", "n": n, "fill": fill}));
    }
    pair.editor.notify("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    for server in [&pair.primary, &other] {
        server.expect("textDocument/didSave");
        assert_eq!(server.received_of("textDocument/didChange").len(), 300);
    }
    pair.end_turn(&other, &turn);
    for by in ["primary", "other"] {
        pair.editor.wait_notification("fake/said", |it| it["by"] == by && it["n"] == 299);
        let said = pair.editor.notifications("fake/said");
        let numbers: Vec<_> = said.iter().filter(|it| it["by"] == by).map(|it| &it["n"]).collect();
        assert!(numbers.iter().zip(0..).all(|(it, n)| **it == n) && numbers.len() == 300, "{numbers:?}");
    }
    // Half of the 64 MiB that may wait for one; buffers are larger than their content.
    assert!(pair.peak_kib() < 64 * 1024 + BOUNDED, "{} KiB", pair.peak_kib());
    stuck.set_reading(true);
    stuck.expect("textDocument/didSave");
    let changes = stuck.received_of("textDocument/didChange");
    assert!(changes.iter().zip(0..).all(|(it, n)| it["params"]["textDocument"]["version"] == n));
    assert_eq!(changes.len(), 300);
    let status = pair.editor.ok("lspool/status", json!({}));
    let nothing = json!({"log_messages": 0, "reports": 0});
    let all = status["backends"].as_array().expect("a list").iter().map(|it| &it["dropped"]);
    assert!(all.chain([&status["dropped"]["editor"]]).all(|it| *it == nothing), "{status}");
    pair.leave();
}

#[test]
fn queue_of_stuck_partition_frees_memory_of_delivered_messages() {
    let pair = copilot::Pair::measured();
    let (stuck, _turn) = pair.partition("stuck", &["read_file"]);
    stuck.set_reading(false);
    let fill = "f".repeat(100 * 1024);
    let note =
        |method: &str, params: Value| frame(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    for round in 0..30 {
        // 2 MiB for the primary, and 80 KiB for both in between.
        let mut bytes = Vec::new();
        for n in 0..20 {
            bytes.extend(note("fake/told", json!({"fill": fill})));
            let uri = (20 * round + n).to_string();
            let text = &fill[..4096];
            bytes.extend(note("textDocument/didSave", json!({"textDocument": {"uri": uri}, "text": text})));
        }
        pair.editor.raw_write(bytes);
        let last = (20 * round + 19).to_string();
        pair.primary.expect_where("textDocument/didSave", |it| it["textDocument"]["uri"] == *last);
    }
    assert!(pair.peak_kib() < BOUNDED, "{} KiB", pair.peak_kib());
    stuck.set_reading(true);
    stuck.expect_where("textDocument/didSave", |it| it["textDocument"]["uri"] == "599");
    assert_eq!(stuck.received_of("textDocument/didSave").len(), 600);
    pair.leave();
}

#[test]
fn server_that_never_reads_is_terminated_before_memory_fills() {
    let (pair, server) = Pair::measured();
    server.set_reading(false);
    let command = pair.editor.request("workspace/executeCommand", json!({}));
    let fill = "f".repeat(1 << 20);
    for _ in 0..80 {
        pair.editor.notify("fake/told", json!(fill));
    }
    let error = pair.editor.wait(&command).unwrap_err();
    assert_eq!(error.data["lspool"]["retry"], true, "{error}");
    server.wait_gone();
    let next = pair.host.accept();
    next.on("initialize", |_| Ok(json!({"capabilities": {}})));
    pair.check_alive(&next);
    assert!(pair.peak_kib() < (64 + 12) * 1024, "{} KiB", pair.peak_kib());
    pair.end(&next);
}

#[test]
fn editor_and_server_can_write_before_reading() {
    let (pair, server) = Pair::started();
    pair.editor.set_reading(false);
    server.set_reading(false);
    let fill = "f".repeat(300);
    let asked: Vec<Pending> =
        (0..3000).map(|n| pair.editor.request("textDocument/hover", json!({"n": n, "fill": fill}))).collect();
    for n in 0..3000 {
        server.notify("fake/said", json!({"n": n, "fill": fill}));
    }
    server.on("textDocument/hover", |it| Ok(it["n"].clone()));
    server.set_reading(true);
    server.wait_received("all requests", |all| {
        all.iter().filter(|it| it["method"] == "textDocument/hover").count() == 3000
    });
    pair.editor.set_reading(true);
    for (pending, n) in asked.iter().zip(0..) {
        assert_eq!(pair.editor.wait(pending), Ok(json!(n)));
    }
    assert_eq!(pair.editor.notifications("fake/said").len(), 3000);
    pair.end(&server);
}

#[test]
fn flood_on_stderr_blocks_nothing() {
    let pair = Pair::new();
    let initialize = pair.initialize();
    let server = pair.host.accept();
    let asked = server.expect("initialize");
    server.mutter(vec![b'x'; 32 << 20]);
    server.mutter(b"\n\xff\xfe and no end of line".as_slice());
    // It says this only when all that is written.
    server.answer(&asked, json!({"capabilities": {}}));
    pair.editor.wait(&initialize).unwrap();
    assert!(pair.peak_kib() < BOUNDED, "{} KiB", pair.peak_kib());
    pair.check_alive(&server);
    pair.end(&server);
}

#[test]
fn session_larger_than_the_cap_is_replayed() {
    const DOCUMENTS: usize = 35;
    let (pair, server) = Pair::measured();
    let text = "x".repeat(2 << 20);
    for n in 0..DOCUMENTS {
        let item = json!({"uri": n.to_string(), "languageId": "x", "version": 1, "text": text});
        pair.editor.notify("textDocument/didOpen", json!({"textDocument": item}));
        pair.check_alive(&server);
    }
    super::reviving::kill(&server);
    let next = pair.host.accept();
    let asked = next.expect("initialize");
    next.answer(&asked, json!({"capabilities": {}}));
    pair.check_alive(&next);
    assert_eq!(next.received_of("textDocument/didOpen").len(), DOCUMENTS);
    pair.end(&next);
}
