//! The program at a prompt: its output, its streams, and its exit status.

use std::{
    fs::{File, OpenOptions},
    process::{Command, Output, Stdio},
};

use expect_test::expect;

use super::support::real::Sandbox;

const LSPOOL: &str = env!("CARGO_BIN_EXE_lspool");

fn run(sandbox: &Sandbox, words: &[&str]) -> Output {
    sandbox.command(LSPOOL).args(words).stdin(Stdio::null()).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The screen of a terminal after a command, and the exit status. Python has terminals.
fn at_terminal(sandbox: &Sandbox, words: &[&str]) -> (String, Option<i32>) {
    let spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let mut command = sandbox.command("python3");
    command.args(["-c", spawn, LSPOOL]).args(words);
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    (text(&output.stdout).replace("\r\n", "\n"), output.status.code())
}

/// The text with `PID` for each process.
fn without_pids(text: &str) -> String {
    let mut parts = text.split("process ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + "process PID" + part.trim_start_matches(|it: char| it.is_ascii_digit())
    })
}

#[test]
fn demo_shows_crashes_that_editor_does_not_notice() {
    let sandbox = Sandbox::new();
    let output = run(&sandbox, &["demo"]);
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new()),
        "{}",
        text(&output.stdout)
    );
    let told = text(&output.stdout);
    assert!(told.lines().all(|it| it.chars().count() <= 80), "{told}");
    expect![[r#"

        What an editor sees when its language server crashes: nothing
        The servers are recordings of Pyright and of the Copilot server, inside lspool.

        1  An editor opens a file through lspool
           editor  opens area.py, which calls area(3)
           server  process PID reports: Argument missing for parameter "height"

        2  The server crashes
           demo    kills process PID
           editor  asks for a hover, and knows of no crash
           lspool  has started process PID and opened area.py in it
           editor  gets the hover: (function) def area(width: int, height: int) -> int
           editor  types, so that the file calls area(3, 4)
           server  process PID reports: no problems
           ok      the hover was answered once, and the editor saw no error

        3  An agent's server crashes in the middle of an answer
           user    What is ticket ABC-1 about?
           agent   I look the ticket up.
           server  process PID calls the tool fetch_ticket
           demo    kills process PID
           tool    answers: ABC-1: the login page rejects long passwords
           lspool  has started process PID and restored the conversation in it
           agent   It is about the login page, which rejects long passwords.
           ok      the user saw one answer without a break, and the tool ran once

        Next: `lspool setup EDITOR` prints the settings for an editor, `lspool check`
        tries your servers.
    "#]]
    .assert_eq(&without_pids(&told));
    let left: Vec<_> =
        std::fs::read_dir(sandbox.temporary()).unwrap().flatten().map(|it| it.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(std::fs::read_dir(sandbox.home()).unwrap().next().is_none(), "nothing of the user's is written");
}

#[test]
fn alone_at_terminal_says_what_to_do_and_ends() {
    let (shown, status) = at_terminal(&Sandbox::new(), &[]);
    assert_eq!(status, Some(2), "{shown}");
    expect![[r#"
        lspool: an editor starts lspool; it speaks the Language Server Protocol on stdin

          lspool demo           shows a crash that the editor does not notice
          lspool setup EDITOR   prints the settings for an editor
          lspool check          starts your servers and reports whether they work
          lspool --help         lists the other commands
    "#]]
    .assert_eq(&shown);
}

#[test]
fn check_of_command_shows_progress_at_terminal() {
    let sandbox = Sandbox::new();
    let server = ["check", "--", LSPOOL, "serve-recording"];
    let (shown, status) = at_terminal(&sandbox, &server);
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.starts_with("\r\u{1b}[Kstarting lspool …\r\u{1b}[K"), "{shown:?}");
    assert!(shown.contains("\u{1b}[32mok\u{1b}[0m"), "{shown:?}");
    let output = run(&sandbox, &server);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let told = text(&output.stdout);
    assert!(!told.contains('\u{1b}') && told.contains("\nlspool  ok     "), "{told}");
    let colored = run(&sandbox, &["check", "--color=always", "--", LSPOOL, "serve-recording"]);
    assert!(text(&colored.stdout).contains("\u{1b}[32mok\u{1b}[0m"));
}

#[test]
fn check_explains_missing_commands() {
    let sandbox = Sandbox::new();
    let output = run(&sandbox, &["check", "--", "no-such-server --stdio"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stdout);
    let hint = "\"no-such-server --stdio\" is not on PATH: set its arguments in `args`";
    assert!(told.contains(hint), "{told}");
}

/// A server that can be started in any sandbox.
fn recorded(name: &str) -> String {
    format!("[server.{name}]\ncommand = {LSPOOL:?}\nargs = [\"serve-recording\"]\n")
}

/// The output and the exit status of `lspool check` with this configuration of the user.
fn check(sandbox: &Sandbox, user: &str, words: &[&str]) -> (String, Option<i32>) {
    let file = sandbox.home().join("config.toml");
    std::fs::write(&file, user).expect("the home is writable");
    let words = [&["--config", file.to_str().expect("UTF-8"), "check"], words].concat();
    let output = run(sandbox, &words);
    (text(&output.stdout) + &text(&output.stderr), output.status.code())
}

#[test]
fn check_of_command_reports_errors_of_workspace_file() {
    let sandbox = Sandbox::new();
    sandbox.write(".lspool.toml", "[server.y]\ncommand = \"z\"\n");
    let group = format!("[group.g]\nservers = [\"a\"]\n{}", recorded("a"));
    for words in [&[] as &[&str], &["--", LSPOOL, "serve-recording"], &["--group", "g"]] {
        let (told, status) = check(&sandbox, &group, words);
        assert_eq!(status, Some(2), "{words:?}: {told}");
        assert!(told.contains("the workspace's configuration has errors"), "{words:?}: {told}");
    }
}

#[test]
fn check_tries_default_group_and_other_servers() {
    let sandbox = Sandbox::new();
    let user = ["a", "b", "c"].map(recorded).concat();
    let group = "default_group = \"g\"\n[group.g]\nservers = [\"c\", \"a\"]\n";
    let (told, status) = check(&sandbox, &format!("{group}{user}"), &[]);
    assert_eq!(status, Some(0), "{told}");
    let rows: Vec<&str> = told.lines().filter(|it| it.contains(" ok ")).map(|it| &it[..1]).collect();
    assert_eq!(rows, ["c", "a", "b"], "{told}");
    let shared = told.split("group g\n").nth(1).expect("the group has a section");
    assert!(
        shared.contains("textDocument/inlineCompletion: lspool joins the answers of c and a\n"),
        "{told}"
    );
    let (told, status) = check(&sandbox, "default_group = \"python\"\n", &[]);
    assert!(!told.contains("copilot"), "{told}");
    assert!(told.contains("\nruff ") && status.is_some(), "{told}");
}

#[test]
fn check_names_group_whose_members_are_left_out() {
    let sandbox = Sandbox::new();
    let user = format!(
        "[group.g]\nservers = [\"a\", \"b\"]\n{}{}root_required = true\nroot_markers = [\"b.json\"]\n",
        recorded("a"),
        recorded("b")
    );
    let (told, status) = check(&sandbox, &user, &["--group", "g"]);
    assert_eq!(status, Some(0), "{told}");
    let end = "\ngroup g\n  b is not used here: the workspace has no b.json\n";
    assert!(told.ends_with(end), "{told}");
}

#[test]
fn trust_takes_no_folder_above_projects() {
    let sandbox = Sandbox::new();
    let home = sandbox.home();
    let above = home.parent().expect("the home is in a folder").to_owned();
    for folder in [home.as_path(), above.as_path(), std::path::Path::new("/")] {
        let mut command = sandbox.command(LSPOOL);
        let output = command.arg("trust").current_dir(folder).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{folder:?}");
        assert!(text(&output.stderr).contains("too much to trust\nhint: "), "{}", text(&output.stderr));
    }
    assert!(run(&sandbox, &["trust", "--list"]).stdout.is_empty());
    // Somebody may have trusted it before.
    let removed = run(&sandbox, &["trust", "--remove", home.to_str().expect("UTF-8")]);
    assert_eq!(removed.status.code(), Some(0), "{}", text(&removed.stderr));
}

#[test]
fn completions_are_valid_shell() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&sandbox, &["completions", shell]);
        assert!(output.status.success() && text(&output.stdout).contains("serve-recording"), "{shell}");
        if shell == "bash" {
            let file = sandbox.write("lspool.bash", &text(&output.stdout));
            let checked = Command::new("bash").arg("-n").arg(file).output().expect("bash is there");
            assert!(checked.status.success(), "{}", text(&checked.stderr));
        }
    }
}

#[test]
fn descriptions_are_printed() {
    let sandbox = Sandbox::new();
    let page = text(&run(&sandbox, &["man"]).stdout);
    assert!(page.contains(".TH lspool 1") && page.contains("serve\\-recording"), "{page}");
    let page = text(&run(&sandbox, &["man", "orchestrate"]).stdout);
    assert!(page.contains("lspool\\-orchestrate") && page.contains("record\\-texts"), "{page}");
    let unknown = run(&sandbox, &["man", "nothing"]);
    assert_eq!(unknown.status.code(), Some(2));
    let schema = run(&sandbox, &["config", "schema"]);
    let documented = include_str!("../../docs/config.schema.json");
    assert_eq!(text(&schema.stdout), documented);
    let help = run(&sandbox, &["help", "status"]);
    assert_eq!(text(&help.stdout), text(&run(&sandbox, &["status", "--help"]).stdout));
}

#[test]
fn full_disk_is_a_failure() {
    let sandbox = Sandbox::new();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/transcripts/parallel.jsonl");
    for words in [
        &["agents"] as &[_],
        &["check", "--", LSPOOL, "serve-recording"],
        &["inspect", recording],
        &["config", "schema"],
        &["completions", "bash"],
        &["man"],
        &["setup", "nvim", "pyright"],
        &["replay", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/crash-watched.jsonl")],
    ] {
        let full: File = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let mut command = sandbox.command(LSPOOL);
        command.args(words).stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
        let output = command.spawn().expect("it starts").wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).starts_with("lspool: cannot write to stdout: "), "{words:?}");
    }
}

#[test]
fn agents_check_fails_for_unreadable_files() {
    let sandbox = Sandbox::new();
    sandbox.write(".claude/agents/bad.md", "---\nname: [\n---\nx\n");
    assert_eq!(run(&sandbox, &["agents"]).status.code(), Some(0));
    let output = run(&sandbox, &["agents", "--check"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
}

#[test]
fn agents_suggests_names_for_unknown_tools() {
    let sandbox = Sandbox::new();
    sandbox.write(".lspool.toml", "[agent.reviewer]\ntools = [\"grep_searh\", \"my_own_tool\"]\n");
    let told = text(&run(&sandbox, &["agents"]).stdout);
    let doubt = "agent \"reviewer\": unknown tool \"grep_searh\"; did you mean grep_search?\n";
    assert!(told.contains(doubt) && !told.contains("unknown tool \"my_own_tool\""), "{told}");
}

#[test]
fn replay_prints_only_the_verdict_at_terminal() {
    let sandbox = Sandbox::new();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/crash-watched.jsonl");
    let (shown, status) = at_terminal(&sandbox, &["replay", recording]);
    assert_eq!((shown.lines().count(), status), (1, Some(0)), "{shown}");
    assert!(shown.contains("all effects are the same"), "{shown}");
    let (shown, _) = at_terminal(&sandbox, &["replay", "--effects", recording]);
    assert!(shown.lines().count() > 5, "{shown}");
    let (shown, status) = at_terminal(&sandbox, &["replay", "--until", "9", recording]);
    assert!(shown.contains("events up to line 9, and all effects are the same"), "{shown}");
    assert_eq!(status, Some(0));
}

#[test]
fn inspect_prints_page_for_browser() {
    let sandbox = Sandbox::new();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/crash-in-a-turn.jsonl");
    let output = run(&sandbox, &["inspect", "--html", recording]);
    let page = text(&output.stdout);
    assert!(output.status.success() && page.starts_with("<!doctype html>"), "{page}");
    assert!(page.contains("process 0.2 copilot") && page.contains("ended by signal 9"), "{page}");
    let (shown, status) = at_terminal(&sandbox, &["inspect", "--html", recording]);
    assert_eq!(status, Some(2));
    assert!(shown.contains("hint: lspool inspect --html"), "{shown}");
}
