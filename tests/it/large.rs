//! A recording that is longer than what anybody should hold in memory: made, done again, served and shown.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::support::{
    editor::{PATIENCE, TestEditor},
    puppet::PuppetHost,
    real::Sandbox,
};

const LSPOOL: &str = env!("CARGO_BIN_EXE_lspool");

/// Letters in a question and in an answer: each is recorded twice, on its way in and out.
const LETTERS: usize = 64 << 10;

/// How many questions may be unrecorded.
const AHEAD: usize = 50;

/// The question of the editor. Every tenth question is the same but for its names.
fn question(n: usize) -> Value {
    json!({"textDocument": {"uri": "file:///a.txt"}, "position": {"line": n % 10, "character": 1}, "text": "q".repeat(LETTERS)})
}

/// The session with a server, or with one made of its recording; gives the answers.
fn hold(editor: &TestEditor, questions: usize) -> Vec<Value> {
    editor.ok("initialize", json!({"processId": null, "rootUri": null, "capabilities": {}}));
    editor.notify("initialized", json!({}));
    (0..questions).map(|n| editor.ok("textDocument/hover", question(n))).collect()
}

/// Makes a recording of this many bytes; gives the answers.
fn record(sandbox: &Sandbox, file: &Path, questions: usize) -> Vec<Value> {
    let host = PuppetHost::new();
    let mut command = sandbox.command(LSPOOL);
    command.arg("--record").arg(file).arg("--").arg(env!("CARGO_BIN_EXE_lspool-puppet"));
    host.tie(&mut command);
    let editor = TestEditor::spawn(command);
    let pending =
        editor.request("initialize", json!({"processId": null, "rootUri": null, "capabilities": {}}));
    let server = host.accept();
    server.on("initialize", |_| Ok(json!({"capabilities": {}})));
    server.on("shutdown", |_| Ok(Value::Null));
    server.on("textDocument/hover", |_| Ok(json!({"contents": "a".repeat(LETTERS)})));
    editor.wait(&pending).expect("it starts");
    editor.notify("initialized", json!({}));
    let ask = |n: usize| {
        // No recording waits for a slow writer, such as that of a debug build.
        wait_for(file, n.saturating_sub(AHEAD));
        editor.ok("textDocument/hover", question(n))
    };
    let answers = (0..questions).map(ask).collect();
    // The end of lspool waits a second for the disk, and no longer.
    wait_for(file, questions);
    editor.notify_bare("exit");
    server.wait_closed();
    server.exit(0);
    editor.wait_exit();
    answers
}

/// Waits until so many questions and answers are in the file.
fn wait_for(file: &Path, questions: usize) {
    let start = Instant::now();
    while fs::metadata(file).expect("it is there").len() < (questions * LETTERS * 4) as u64 {
        assert!(start.elapsed() < PATIENCE, "the recording does not grow");
        sleep(Duration::from_millis(10));
    }
}

/// Runs lspool with this much memory, in addition to the mapped program. It dies if it asks for more.
fn within(mebibytes: usize, sandbox: &Sandbox, words: &[&str]) -> Command {
    let mut command = sandbox.command("sh");
    command.args(["-c", "ulimit -d $(($1 * 1024)); shift; exec \"$@\"", "-", &mebibytes.to_string(), LSPOOL]);
    command.args(words);
    command
}

fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().expect("it starts")
}

fn check(questions: usize) {
    let sandbox = Sandbox::new();
    let file = sandbox.home().join("large.jsonl");
    let answers = record(&sandbox, &file, questions);
    let file = file.display().to_string();
    let size =
        usize::try_from(fs::metadata(&file).expect("it is there").len() >> 20).expect("it is no larger");

    let replayed = run(within(8, &sandbox, &["replay", &file]));
    let told = String::from_utf8_lossy(&replayed.stderr).into_owned();
    assert!(replayed.status.success() && told.contains("all effects are the same"), "{told}");

    let shown = run(within(8, &sandbox, &["inspect", &file]));
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert_eq!(text.matches("textDocument/hover").count(), questions);

    // It holds the possible answers, which are half of the recording.
    let served = TestEditor::spawn(within(32 + size, &sandbox, &["serve-recording", "--strict", &file]));
    let masked = json!({"contents": "x".repeat(LETTERS)});
    for (heard, said) in hold(&served, questions).iter().zip(&answers) {
        assert!(*heard == masked && said["contents"].as_str().map(str::len) == Some(LETTERS));
    }
    served.notify_bare("exit");
    assert_eq!(served.wait_exit().code(), Some(1), "it was not shut down");
    assert_eq!(served.stderr(), "");
}

#[test]
fn recording_of_20_mb_is_written_replayed_shown_and_served() {
    check(80);
}

#[test]
#[ignore = "it takes a minute: cargo nextest run --all-features --run-ignored only large"]
fn recording_of_100_mb_is_written_replayed_shown_and_served() {
    check(400);
}
