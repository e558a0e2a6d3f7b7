//! `scripts/record --check` reports in words how another version of the server differs.

use std::fs;

use expect_test::{Expect, expect};

use super::support::{
    drift::{Behavior, Check, orders},
    real,
    sessions::{SESSIONS, Servers, Session},
};

fn fixture(name: &str) -> String {
    let session = Session::named(name).expect("there is such a session");
    fs::read_to_string(session.fixture()).expect("a fixture")
}

fn behavior(text: &str) -> Behavior {
    Behavior::of(text).expect("it can be read")
}

/// The report for a session with a change.
fn check_changed(name: &str, change: impl Fn(&str) -> String, expected: &Expect) {
    let recorded = fixture(name);
    let changed = change(&recorded);
    assert_ne!(recorded, changed);
    let drift = behavior(&recorded).drift(&behavior(&changed));
    let words: Vec<String> = drift.iter().map(|it| format!("{it}\n")).collect();
    expected.assert_eq(&words.concat());
}

/// The text without each line that has this in it.
fn without(text: &str, part: &str) -> String {
    text.split_inclusive('\n').filter(|it| !it.contains(part)).collect()
}

/// Swaps two lines of a text: the first one with this in it, after the line with `from`, and the one before it.
fn earlier(text: &str, from: &str, part: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let from = lines.iter().position(|it| it.contains(from)).expect("there is such a line");
    let at = from + lines[from..].iter().position(|it| it.contains(part)).expect("there is such a line");
    lines.swap(at - 1, at);
    lines.concat()
}

#[test]
fn fixture_matches_itself_under_other_names() {
    for session in &SESSIONS {
        let recorded = fixture(session.name);
        let other = recorded
            .replace("\"t\":", "\"t\":1")
            .replace("call_0", "call_1")
            .replace("-4", "-5")
            .replace("gpt-5", "gpt-4");
        assert_eq!(behavior(&recorded).drift(&behavior(&other)), [], "{}", session.name);
    }
}

#[test]
fn drift_reports_missing_new_and_renamed_members() {
    let renamed =
        |it: &str| it.replace("\"suggestedTitle\"", "\"title\"").replace("\"insertText\"", "\"text\"");
    check_changed(
        "completion",
        renamed,
        &expect![[r#"
        textDocument/inlineCompletion: `result.items[].insertText` of the answer is called `result.items[].text` now
    "#]],
    );
    let added = |it: &str| it.replace("\"status\":\"OK\"", "\"status\":\"OK\",\"plan\":\"pro\"");
    check_changed(
        "completion",
        added,
        &expect![[r#"
        checkStatus: `result.plan` of the answer is new: "pro"
        didChangeStatus/v2 of auth: `statuses[auth].result.plan` is new: "pro"
    "#]],
    );
    let other = |it: &str| it.replace("CancelledByUser", "cancelled");
    check_changed(
        "cancel",
        other,
        &expect![[r#"
        conversation/create "[custom] three": `cancellationReason` of the end is "cancelled" now, and was "CancelledByUser"
        conversation/create "[slow] one": `cancellationReason` of the end is "cancelled" now, and was "CancelledByUser"
        conversation/create "[slow] two": `cancellationReason` of the end is "cancelled" now, and was "CancelledByUser"
    "#]],
    );
    let gone = |it: &str| without(it, "copilot/customSkill/didChange");
    check_changed(
        "sign-in",
        gone,
        &expect![[r#"
        copilot/customSkill/didChange: is not said any more
    "#]],
    );
    let tool = |it: &str| it.replace("conversation/invokeClientTool\"", "conversation/callTool\"");
    check_changed(
        "parallel",
        tool,
        &expect![[r#"
        conversation/create "[multi] two": conversation/callTool fetch_ticket comes after the report that fetch_ticket is running now, and did not
        conversation/create "[multi] two": conversation/callTool run_in_terminal comes after the report that run_in_terminal is running now, and did not
        conversation/create "[multi] two": conversation/invokeClientTool fetch_ticket does not come any more; it came after the report that fetch_ticket is running
        conversation/create "[multi] two": conversation/invokeClientTool run_in_terminal does not come any more; it came after the report that run_in_terminal is running
    "#]],
    );
}

#[test]
fn drift_reports_changed_order_within_request() {
    let swapped = |it: &str| earlier(it, "[run] say hello", "\"kind\":\"end\"");
    check_changed(
        "agent-tools",
        swapped,
        &expect![[r#"
        conversation/create "[run] say hello": the report of tokens comes after the end now, and came after the report of text
    "#]],
    );
    // The pieces of a text, and unrelated events, do not matter.
    let recorded = fixture("parallel");
    let shuffled = earlier(&recorded, "conv-two", "\"token\":\"p-one\"");
    assert_eq!(behavior(&recorded).drift(&behavior(&shuffled)), []);
}

#[test]
fn drift_reports_changed_order_unless_one_session_keeps_it() {
    let recorded: Vec<Behavior> = SESSIONS.iter().map(|it| behavior(&fixture(it.name))).collect();
    let swapped = |it: &Session| behavior(&earlier(&fixture(it.name), "initialized", "\"didChangeStatus\""));
    let sessions =
        ["sign-in", "agent-tools", "cancel"].map(|it| Session::named(it).expect("there is such a session"));
    let mut all: Vec<Behavior> = sessions.into_iter().map(swapped).collect();
    let words: Vec<String> = orders(&recorded, &all).iter().map(ToString::to_string).collect();
    expect!["statusNotification: comes after didChangeStatus now, and came before"]
        .assert_eq(&words.join("\n"));
    all.push(behavior(&fixture("sign-in")));
    assert_eq!(orders(&recorded, &all), []);
}

#[test]
fn real_server_behaves_as_recorded_and_changed_one_does_not() {
    let sessions = [Session::named("completion").expect("there is such a session")];
    let mut servers = Servers::pinned(env!("CARGO_BIN_EXE_lspool"));
    let check = Check::run(&sessions, &servers, 1);
    assert!(check.is_clean(), "{check}");
    let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/changed_server.py");
    servers.copilot.splice(0..0, [real::python().into(), fake.into()]);
    let check = Check::run(&sessions, &servers, 1);
    expect![[r#"
        copilot/mcpTools: is not said any more (in completion)
        statusNotification: comes after didChangeStatus now, and came before
        textDocument/inlineCompletion: `result.items[].insertText` of the answer is called `result.items[].newText` now (in completion)
    "#]].assert_eq(&check.to_string());
}
