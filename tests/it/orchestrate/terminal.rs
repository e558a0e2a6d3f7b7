//! `lspool orchestrate`, with the real Copilot server and builtin tools.

use std::{
    fs,
    process::{Child, Command, Output, Stdio},
};

use lspool::agents::orchestration::{End, Event, Notice};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    super::support::{
        real::{self, Sandbox},
        stub::{Round, Rule, Script, Stub},
    },
    says, script, task,
};

/// A new folder with its environment.
struct Fresh {
    stub: Stub,
    sandbox: Sandbox,
}

impl Fresh {
    fn new(script: Script) -> Fresh {
        let sandbox = Sandbox::new();
        let stub = Stub::start(script.workspace(sandbox.workspace().display().to_string()));
        Fresh { stub, sandbox }
    }

    fn command(&self, more: &[&str]) -> Command {
        self.bare_command(&[&["[goal] greet the world"], more].concat())
    }

    fn bare_command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &self.stub);
        command.current_dir(self.sandbox.workspace());
        command.arg("orchestrate").args(words);
        command.arg("--").arg(real::copilot()).arg("--stdio");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, more: &[&str]) -> Ran {
        let child = self.command(more).spawn().expect("lspool starts");
        Ran::of(child)
    }
}

/// The output of a command, and its exit status.
#[derive(Debug)]
struct Ran {
    status: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(child: Child) -> Ran {
        let Output { status, stdout, stderr } = child.wait_with_output().expect("it is ours");
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        Ran { status: status.code(), out: text(&stdout), err: text(&stderr) }
    }

    /// The lines of the progress without their times.
    fn lines(&self) -> Vec<String> {
        let times = |it: &str| {
            let words: Vec<&str> = it.split(' ').filter(|it| !it.is_empty()).collect();
            let is_time = |it: &&str| it.chars().all(|it| it.is_ascii_digit() || it == '.');
            let mut kept = Vec::new();
            for (at, word) in words.iter().enumerate() {
                let is_unit = *word == "s" && at > 0 && is_time(&words[at - 1]);
                if is_unit {
                    kept.pop();
                } else {
                    kept.push(*word);
                }
            }
            kept.join(" ")
        };
        self.err.lines().map(times).collect()
    }
}

fn shell(command: &str) -> Value {
    json!({"command": command, "explanation": "to see it", "isBackground": false})
}

/// A script is written, tried and read.
fn greeting() -> Script {
    let plan = json!([
        task("coder", "[t0] Write greet.sh", &[]),
        task("tester", "[t1] Run it", &[0]),
        task("reviewer", "[t2] Read it", &[0]),
    ]);
    let file = json!({"filePath": "{ws}/greet.sh", "content": "echo hello, world\n"});
    let range = json!({"filePath": "{ws}/greet.sh", "startLine": 1, "endLine": 9});
    script(&plan)
        .rule(
            Rule::on("[t0]")
                .then(Round::text("I write it.\n").call("create_file", file))
                .then(Round::text("greet.sh is there\n")),
        )
        .rule(
            Rule::on("[t1]")
                .then(Round::default().call("run_in_terminal", shell("sh greet.sh > said; cat said")))
                .then(Round::text("It says: {results}\n")),
        )
        .rule(
            Rule::on("[t2]")
                .then(Round::default().call("read_file", range))
                .then(Round::text("It reads: {results}\n")),
        )
}

#[test]
fn terminal_orchestration_edits_files_and_runs_commands_real() {
    let fresh = Fresh::new(greeting());
    let ran = fresh.run(&["--yes"]);
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    let read = |name: &str| fs::read_to_string(fresh.sandbox.workspace().join(name)).unwrap_or_default();
    assert_eq!(
        (read("greet.sh"), read("said")),
        ("echo hello, world\n".to_owned(), "hello, world\n".to_owned())
    );
    let lines = ran.lines();
    let begin = ["planning", "[goal] greet the world", "○ 0 [t0] Write greet.sh coder"];
    assert_eq!(lines[..3], begin, "{ran:#?}");
    for line in [
        "task 0: coder-1 begins: [t0] Write greet.sh",
        "task 0: coder-1 runs create_file",
        "task 0: done in",
        "task 1: tester-1 runs run_in_terminal",
        "task 1: done in",
        "task 2: done in",
        "done · 3 tasks ·",
    ] {
        assert!(lines.iter().any(|it| it == line), "{line} in {lines:#?}");
    }
    assert_eq!(ran.out, "It is done.\n");
}

#[test]
fn unconfirmed_command_does_not_run_real() {
    let fresh = Fresh::new(greeting());
    let ran = fresh.run(&[]);
    assert!(!fresh.sandbox.workspace().join("said").exists(), "{ran:#?}");
    assert!(ran.err.contains("sh greet.sh > said; cat said"), "{ran:#?}");
    assert!(ran.err.contains("was refused: without a terminal, allow it with --yes"), "{ran:#?}");
    // A worker whose tool was refused continues without it.
    assert_eq!(ran.status, Some(0), "{ran:#?}");
}

#[test]
fn orchestrate_prints_json_events_with_workers_of_file_real() {
    let plan = json!([task("poet", "[t0] Write", &[]), task("poet", "[t1] Again", &[0])]);
    let script = script(&plan).rule(says("[t0]", "a poem")).rule(Rule::on("[t1]").then(Round::status(500)));
    let fresh = Fresh::new(script);
    let file = fresh.sandbox.write("workers.toml", "[worker.poet]\ntools = []\n");
    let ran = fresh.run(&["--json", "--workers", &file.display().to_string(), "--model", "gpt-4.1"]);
    // One task has failed.
    assert_eq!(ran.status, Some(1), "{ran:#?}");
    let told: Vec<Notice> = ran
        .out
        .lines()
        .map(|it| serde_json::from_str(it).unwrap_or_else(|error| panic!("{it}: {error}")))
        .collect();
    let Event::PlanStarted { workers, .. } = &told[0].event else { panic!("{told:?}") };
    assert_eq!(workers, &["poet"]);
    let Some(Event::Finished { state: End::Failed, done: 1, failed: 1, .. }) =
        told.last().map(|it| &it.event)
    else {
        panic!("{told:?}")
    };
    assert!(fresh.stub.turns().iter().all(|it| it.model == "gpt-4.1"));
}

#[test]
fn ctrl_c_cancels_orchestration_real() {
    let plan = json!([task("coder", "[t0]", &[]), task("tester", "[t1]", &[0])]);
    let fresh = Fresh::new(script(&plan).rule(Rule::on("[t0]").then(Round::text("I begin.\n").hang())));
    let child = fresh.command(&[]).spawn().expect("lspool starts");
    fresh.stub.wait_for("the coder", |log| {
        log.iter().any(|it| it.chat.as_ref().is_some_and(|chat| chat.user.ends_with("[t0]")))
    });
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).expect("it runs");
    let ran = Ran::of(child);
    assert_eq!(ran.status, Some(130), "{ran:#?}");
    assert!(ran.lines().iter().any(|it| it == "cancelled · 0 of 2 done · 2 cancelled ·"), "{ran:#?}");
}

#[test]
fn orchestrate_reports_invalid_options_real() {
    let fresh = Fresh::new(Script::default());
    let ran = fresh.run(&["--workers", "/nowhere/workers.toml"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("cannot read /nowhere/workers.toml"), "{ran:?}");
    let ran = fresh.run(&["--model", "gpt-nobody"]);
    assert_eq!(ran.status, Some(2), "{ran:#?}");
    assert!(ran.err.contains("unknown model \"gpt-nobody\""), "{ran:?}");
}

#[test]
fn one_worker_does_goal_without_plan_real() {
    let fresh = Fresh::new(Script::default().rule(says("[goal]", "hello, world")));
    let ran = fresh.run(&["--worker", "reviewer"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "hello, world\n"), "{ran:#?}");
    assert_eq!(fresh.stub.turns().len(), 1, "nobody makes a plan or a summary");
    let ran = fresh.run(&["--worker", "boss"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("unknown worker \"boss\"; use one of coder, reviewer, tester"), "{ran:?}");
}

#[test]
fn killed_goal_resumes_with_tasks_that_are_done_real() {
    let plan = json!([task("coder", "[t0]", &[]), task("tester", "[t1]", &[0])]);
    let gated = Rule::on("[t1]").then(Round::text("tested\n").gate("tests"));
    let fresh = Fresh::new(script(&plan).rule(says("[t0]", "coded")).rule(gated));
    let mut child = fresh.command(&[]).spawn().expect("lspool starts");
    fresh.stub.wait_for("the tester", |log| {
        log.iter().any(|it| it.chat.as_ref().is_some_and(|chat| chat.user.ends_with("[t1]")))
    });
    child.kill().expect("it runs");
    child.wait().expect("it is ours");
    fresh.stub.open("tests");
    let asked = |marker: &str| fresh.stub.turns().iter().filter(|it| it.user.contains(marker)).count();
    let (coders, before) = (asked("[t0]"), fresh.stub.turns().len());
    let resumed = || Ran::of(fresh.bare_command(&["--resume"]).spawn().expect("lspool starts"));
    let ran = resumed();
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "It is done.\n"), "{ran:#?}");
    let turns = fresh.stub.turns();
    // The tester, who is told what the coder has said, and the summary, which names the coder's task.
    assert_eq!((turns.len() - before, asked("[t0]") - coders), (2, 1));
    assert!(turns[before].user.contains("coded"), "{:?}", turns[before]);
    let ran = resumed();
    assert_eq!(ran.status, Some(2), "{ran:#?}");
    assert!(ran.err.contains("this folder has no unfinished goal"), "{ran:#?}");
}

#[test]
fn worker_of_orchestration_asks_language_server_real() {
    let plan = json!([task("reviewer", "[t0] Find the uses", &[])]);
    let script = script(&plan).rule(
        Rule::on("[t0]")
            .then(Round::text("I look.\n").call("lsp_references", json!({"symbol": "area"})))
            .then(Round::text("It says: {results}\n")),
    );
    let fresh = Fresh::new(script);
    fresh.sandbox.write("pkg/__init__.py", "");
    fresh.sandbox.write("pkg/shapes.py", "def area(side: int) -> int:\n    return side * side\n");
    fresh.sandbox.write("pkg/use.py", "from pkg.shapes import area\n\nprint(area(2))\n");
    let file = fresh.sandbox.home().join("lspool.toml");
    let pyright = real::pyright().display().to_string();
    fs::write(&file, format!("[server.pyright]\ncommand = {pyright:?}\nargs = [\"--stdio\"]\n"))
        .expect("the home is ours");
    let ran = fresh.run(&["--yes", "--config", &file.display().to_string()]);
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    let asked = fresh.stub.turns();
    let of_worker: Vec<_> = asked.iter().filter(|it| it.user.ends_with("[t0] Find the uses")).collect();
    let tools = &of_worker.first().expect("the worker is asked").tools;
    assert!(tools.iter().any(|it| it == "lsp_references"), "{tools:?}");
    assert!(tools.iter().all(|it| it != "lsp_rename" && it != "lsp_apply_edit"), "{tools:?}");
    let results = of_worker.iter().flat_map(|it| &it.results).cloned().collect::<String>();
    assert!(results.starts_with("3 references to area") && results.contains("complete"), "{results}");
}
