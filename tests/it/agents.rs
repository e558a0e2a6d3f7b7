//! Leads and their sub-agents, with the real Copilot server.

mod client;
mod files;
mod teams;

use std::time::{Duration, Instant};

use lspool::core::CONTINUE;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{
    copilot::{Copilot, Options, Outcome, Progress, Turn},
    processes::Process,
    real::{self, Sandbox},
    stub::{Chat, Round, Rule, Said, Script, Stub},
};

/// The processes of the server.
fn servers(session: &Copilot) -> Vec<Process> {
    let server = real::copilot().display().to_string();
    session.mark().processes().into_iter().filter(|it| it.command.starts_with(&server)).collect()
}

struct Scene {
    stub: Stub,
    session: Copilot,
    _sandbox: Sandbox,
}

impl Scene {
    fn new(config: &str, script: Script) -> Scene {
        let sandbox = Sandbox::new();
        let workspace = sandbox.workspace().display().to_string();
        let stub = Stub::start(script.continue_text(CONTINUE).workspace(workspace));
        let file = sandbox.home().join("lspool.toml");
        // So many deaths would otherwise take too long.
        let patient = "[server.copilot]\nmax_restarts = 60000\nbackoff = { initial = \"0s\" }\n";
        std::fs::write(&file, format!("{patient}{config}")).expect("the home is ours");
        let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stub);
        command.arg("--config").arg(file).arg("--").arg(real::copilot()).arg("--stdio");
        let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
        session
            .register_tools(&["fetch_ticket", "run_in_terminal", "ide_look"])
            .expect("the schemas are good");
        Scene { stub, session, _sandbox: sandbox }
    }

    fn lead(&self, question: &str) -> Turn {
        self.session.create(question, json!({"conversationId": "lead", "lspool": {"lead": true}}))
    }

    /// The model requests of sub-agents whose task begins so.
    fn tasks(&self, start: &str) -> Vec<Chat> {
        self.stub.turns().into_iter().filter(|it| it.user.starts_with(start)).collect()
    }
}

fn shell(command: &str) -> Value {
    json!({"command": command, "explanation": "why not", "isBackground": false})
}

fn task(agent: &str, prompt: &str) -> Value {
    json!({"subagent_type": agent, "prompt": prompt, "description": "a task"})
}

/// Three tasks in one reply, then two that depend on their results, then an answer.
fn script() -> Script {
    Script::default()
        .rule(
            Rule::on("[lead]")
                .then(
                    Round::text("I start three.\n")
                        .call("delegate_task", task("explore", "look around"))
                        .call("delegate_task", task("bash", "run something"))
                        .call("delegate_task", task("general-purpose", "think")),
                )
                .then(Round::text("Three are at work.\n")),
        )
        .rule(
            Rule::on("seen: all of it")
                .then(
                    Round::text("Now two more.\n")
                        .call("delegate_task", task("explore", "check what was seen"))
                        .call("delegate_task", task("explore", "check what was run")),
                )
                .then(Round::text("Two are at work.\n")),
        )
        .rule(Rule::on("it is right").then(Round::text("That is the answer.\n")))
        .rule(
            Rule::on("look around")
                .then(Round::text("Looking.\n").call("ide_look", json!({"key": "k"})))
                .then(Round::text("seen: all of it\n")),
        )
        .rule(
            Rule::on("run something")
                .then(Round::text("Running.\n").call("run_in_terminal", shell("true")))
                .then(Round::text("it ran\n")),
        )
        .rule(Rule::on("think").then(Round::text("thought\n").delay(200)))
        .rule(Rule::on("check what was").then(Round::text("it is right\n").delay(100)))
}

/// One begin, one end, one answer, with the same ids all over; new rounds are counted on, and no call is left running.
#[track_caller]
fn expect_whole(outcome: &Outcome) {
    let answer = outcome.expect_success();
    let Progress { conversation, turn, values, .. } = &outcome.progress;
    assert_eq!((&answer["conversationId"], &answer["turnId"]), (conversation, turn));
    assert_eq!((outcome.progress.begins, outcome.progress.ends.len()), (1, 1));
    assert_eq!((&values[0]["kind"], &values[values.len() - 1]["kind"]), (&json!("begin"), &json!("end")));
    let mut last = 0;
    for value in values {
        assert_eq!((&value["conversationId"], &value["turnId"]), (conversation, turn), "{value}");
        for round in value["editAgentRounds"].as_array().into_iter().flatten() {
            let id = round["roundId"].as_u64().expect("rounds have numbers");
            assert!(id <= last + 1, "round {id} comes after {last}");
            // The sub-agent's work is reported for its call, wherever the lead is by then.
            let is_update = round["toolCalls"].is_array() && round["reply"] == "";
            assert!(id >= last || is_update, "round {id} comes after {last}: {value}");
            last = last.max(id);
        }
    }
    for call in &outcome.progress.tool_calls {
        assert_ne!(call["status"], "running", "{call}");
    }
}

const TEXT: &str =
    "I start three.\nThree are at work.\nNow two more.\nTwo are at work.\nThat is the answer.\n";

/// The editor ends with the same messages as without an event.
#[track_caller]
fn expect_the_same_end(scene: &Scene, outcome: &Outcome) {
    expect_whole(outcome);
    assert_eq!(outcome.progress.text, TEXT);
    let results: Vec<&str> = outcome
        .progress
        .tool_calls
        .iter()
        .map(|it| it["result"][0]["value"].as_str().unwrap_or("none"))
        .collect();
    assert_eq!(
        results,
        ["Looking.\nseen: all of it\n", "Running.\nit ran\n", "thought\n", "it is right\n", "it is right\n"]
            .map(|it| {
                // The last text counts.
                it.split_inclusive('\n').next_back().expect("a line")
            })
    );
    // The next turn shows the history of the lead's model.
    let turn = scene.session.turn(&json!("lead"), "[history]", json!({}));
    scene.session.finish(&turn).expect_success();
    let chat = scene.stub.turns().into_iter().rfind(|it| it.user == "[history]").expect("it was asked");
    let said: Vec<String> = chat.history.iter().map(|it| format!("{it:?}")).collect();
    let said = said.join("\n");
    for text in ["seen: all of it", "it ran", "thought", "it is right", "That is the answer"] {
        assert!(said.contains(text), "{text} in {said}");
    }
    let asked =
        chat.history.iter().filter(|it| matches!(it, Said::User(text) if text.contains("sub_agent_results")));
    assert_eq!(asked.count(), 2, "{said}");
}

#[test]
fn lead_delegates_three_then_two_tasks_real() {
    let scene = Scene::new("", script());
    let outcome = scene.session.finish(&scene.lead("[lead] go"));
    expect_the_same_end(&scene, &outcome);
    // The offered tools, with their processes.
    let offered = |start: &str| scene.tasks(start)[0].tools.clone();
    let (explore, bash, all) = (offered("look around"), offered("run something"), offered("think"));
    assert_eq!(bash, ["run_in_terminal"]);
    assert!(explore.contains(&"ide_look".to_owned()) && !explore.contains(&"fetch_ticket".to_owned()));
    assert!(all.contains(&"fetch_ticket".to_owned()));
    for tools in [&explore, &bash, &all] {
        assert!(!tools.contains(&"delegate_task".to_owned()), "{tools:?}");
    }
    let lead = scene.stub.turns().into_iter().find(|it| it.user == "[lead] go").expect("it was asked");
    assert!(lead.tools.contains(&"delegate_task".to_owned()));
    // The primary, leads, readers, the shell.
    assert_eq!(servers(&scene.session).len(), 4);
    // The editor got their calls under the lead's ids.
    for call in scene.session.tool_calls() {
        assert_eq!(call.params["conversationId"], "lead", "{call:?}");
        assert_eq!(call.params["turnId"], outcome.progress.turn, "{call:?}");
        assert!(call.params["lspool"]["agent"].is_string(), "{call:?}");
    }
    assert_eq!(scene.session.tool_calls().len(), 2);
    assert!(scene.session.shutdown().success());
}

#[test]
fn sub_agents_run_in_parallel_real() {
    let script = Script::default()
        .rule(
            Rule::on("[lead]")
                .then(
                    Round::default()
                        .call("delegate_task", task("explore", "first task"))
                        .call("delegate_task", task("explore", "second task")),
                )
                .then(Round::text("They run.\n")),
        )
        .rule(Rule::on("first said").then(Round::text("Good.\n")))
        .rule(Rule::on("first task").then(Round::text("first said\n").gate("first")))
        .rule(Rule::on("second task").then(Round::text("second said\n").gate("second")));
    let scene = Scene::new("", script);
    let turn = scene.lead("[lead] go");
    scene.stub.wait_for("both tasks", |log| {
        ["first task", "second task"]
            .iter()
            .all(|task| log.iter().any(|it| it.chat.as_ref().is_some_and(|chat| chat.user.starts_with(task))))
    });
    scene.stub.open("second");
    scene.session.wait_progress(&turn, "the second result", |it| {
        it.tool_calls.iter().any(|it| it["status"] == "completed")
    });
    scene.stub.open("first");
    let outcome = scene.session.finish(&turn);
    expect_whole(&outcome);
    assert_eq!(outcome.progress.text, "They run.\nGood.\n");
}

#[test]
fn max_turns_counts_model_requests_and_last_asks_for_report_real() {
    let look = || Round::text("I look.\n").call("ide_look", json!({"key": "k"}));
    let script = Script::default()
        .rule(
            Rule::on("[lead]")
                .then(
                    Round::default()
                        .call("delegate_task", task("brief", "look once"))
                        .call("delegate_task", task("brief", "look for ever")),
                )
                .then(Round::text("They run.\n")),
        )
        .rule(Rule::on("stopped after 2 model requests").then(Round::text("Good.\n")))
        .rule(Rule::on("look once").then(look()).then(Round::text("seen\n")))
        .rule(Rule::on("look for ever").then(look()).then(look()).then(look()));
    let scene = Scene::new("[agent.brief]\ntools = [\"ide_look\"]\nmax_turns = 2\n", script);
    let outcome = scene.session.finish(&scene.lead("[lead] go"));
    expect_whole(&outcome);
    assert_eq!(outcome.progress.text, "They run.\nGood.\n");
    for task in ["look once", "look for ever"] {
        let asked = scene.tasks(task);
        assert_eq!(asked.len(), 2, "{task}");
        let told = |it: &Chat| format!("{:?}", it.history).contains("Write your report now");
        assert_eq!((told(&asked[0]), told(&asked[1])), (false, true), "{:?}", asked[1].history);
    }
    assert!(scene.session.shutdown().success());
}

/// Kills one process, or all, when the editor has seen this much of the turn.
fn kill_when(
    what: &str,
    reached: impl Fn(&Scene, &Progress) -> bool,
    which: impl Fn(&[Process]) -> Vec<u32>,
) {
    let scene = Scene::new("", script());
    let turn = scene.lead("[lead] go");
    scene.session.wait_progress(&turn, what, |it| reached(&scene, it));
    let all = servers(&scene.session);
    let killed = which(&all);
    for it in all.iter().filter(|it| killed.contains(&it.pid)) {
        it.kill(Signal::KILL);
    }
    let outcome = scene.session.finish(&turn);
    expect_the_same_end(&scene, &outcome);
    assert!(scene.session.shutdown().success());
}

fn every(all: &[Process]) -> Vec<u32> {
    all.iter().map(|it| it.pid).collect()
}

#[test]
fn turn_survives_crash_of_every_process_at_first_call_real() {
    kill_when("three calls", |_, it| it.tool_calls.len() == 3, every);
}

#[test]
fn turn_survives_crash_of_every_process_while_lead_waits_real() {
    kill_when("the wait", |_, it| it.text.contains("Three are at work."), every);
}

#[test]
fn turn_survives_crash_of_every_process_in_follow_up_real() {
    // Calls are reported one by one: one that the server had not reached would be unknown.
    kill_when("five calls", |_, it| it.tool_calls.len() == 5, every);
}

#[test]
fn turn_survives_crash_of_every_process_in_second_wait_real() {
    kill_when("the second wait", |_, it| it.text.contains("Two are at work."), every);
}

/// The primary, leads, readers, the shell: in the order in which they started.
fn nth(n: usize) -> impl Fn(&[Process]) -> Vec<u32> {
    move |all: &[Process]| {
        let mut all = every(all);
        all.sort_unstable();
        all.into_iter().skip(n).take(1).collect()
    }
}

#[test]
fn turn_survives_crash_of_lead_while_it_waits_real() {
    kill_when("the wait", |_, it| it.text.contains("Three are at work."), nth(1));
}

#[test]
fn turn_survives_crash_of_sub_agent_while_lead_waits_real() {
    kill_when("the wait", |_, it| it.text.contains("Three are at work."), nth(2));
}

#[test]
fn lead_can_be_cancelled_at_any_moment_real() {
    type Reached = fn(&Progress) -> bool;
    let moments: [(&str, Reached); 5] = [
        ("the begin", |it| it.begins > 0),
        ("a call", |it| !it.tool_calls.is_empty()),
        ("the wait", |it| it.text.contains("Three are at work.")),
        ("the second part", |it| it.text.contains("Now two more.")),
        ("the second wait", |it| it.text.contains("Two are at work.")),
    ];
    let scene = Scene::new("", script());
    for (n, (what, reached)) in moments.into_iter().enumerate() {
        let id = format!("lead-{n}");
        let turn = scene.session.create("[lead] go", json!({"conversationId": id, "lspool": {"lead": true}}));
        scene.session.wait_progress(&turn, what, reached);
        scene.session.cancel(&turn.pending);
        let since = Instant::now();
        let outcome = scene.session.finish(&turn);
        outcome.expect_success();
        let answered = since.elapsed();
        assert!(answered < Duration::from_secs(20), "a guard: {answered:?}");
        expect_whole(&outcome);
        assert_eq!(outcome.progress.ends[0]["cancellationReason"], "CancelledByUser", "{what}");
        // No conversation of a sub-agent is left.
        let status = scene.session.ok("lspool/status", json!({}));
        let count = |it: &Value| it["conversations"].as_u64().unwrap_or(0);
        let left: u64 = status["backends"].as_array().into_iter().flatten().map(count).sum();
        // Calls that are being cancelled are nearly gone; the next look shows it.
        let waited = Instant::now();
        let mut left = left;
        while left > n as u64 + 1 && waited.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
            let status = scene.session.ok("lspool/status", json!({}));
            left = status["backends"].as_array().into_iter().flatten().map(count).sum();
        }
        assert_eq!(left, n as u64 + 1, "{what}");
        println!("cancelled at {what}: answered after {answered:?}, all gone after {:?}", since.elapsed());
    }
    assert!(scene.session.shutdown().success());
}

#[test]
fn sub_agents_make_200_tool_calls_without_stalling_real() {
    let mut script = Script::default()
        .rule(
            Rule::on("[lead]")
                .then((0..4).fold(Round::default(), |round, n| {
                    round.call("delegate_task", task("bash", &format!("job {n}")))
                }))
                .then(Round::text("They run.\n")),
        )
        .rule(Rule::on("job is done").then(Round::text("All done.\n")));
    let long = "a line of text that says nothing\n".repeat(200);
    for n in 0..4 {
        let mut rule = Rule::on(format!("job {n}"));
        // The server allows 25 rounds in a turn.
        for _ in 0..10 {
            let round = (0..5).fold(Round::text(long.clone()), |round, k| {
                round.call("run_in_terminal", shell(&format!("echo {k}")))
            });
            rule = rule.then(round);
        }
        script = script.rule(rule.then(Round::text("job is done\n")));
    }
    let scene = Scene::new("", script);
    let turn = scene.lead("[lead] go");
    // In steps: a machine with much else to do takes longer for all of it than one wait may last.
    for n in [1, 25, 50, 75, 100, 125, 150, 175, 200] {
        scene.session.wait_transcript(&format!("{n} calls"), |entries| {
            let calls = entries.iter().filter(|it| it.method() == Some("conversation/invokeClientTool"));
            (calls.count() >= n).then_some(())
        });
    }
    let outcome = scene.session.finish(&turn);
    expect_whole(&outcome);
    assert!(outcome.progress.text.ends_with("All done.\n"), "{}", outcome.progress.text);
    assert_eq!(scene.session.tool_calls().len(), 200);
}

#[test]
fn unknown_model_gives_error_to_lead_real() {
    let config = "[models]\nfast = \"gpt-4.1\"\n[agent.quick]\ntools = []\nmodel = \"fast\"\n[agent.lost]\nmodel = \"gpt-nobody\"\n";
    let script = Script::default()
        .rule(
            Rule::on("[lead]")
                .then(
                    Round::default()
                        .call("delegate_task", task("quick", "be quick"))
                        .call("delegate_task", task("lost", "be lost")),
                )
                .then(Round::text("They run.\n")),
        )
        .rule(Rule::on("neither a model of the server").then(Round::text("One is lost.\n")))
        .rule(Rule::on("be quick").then(Round::text("quick\n")));
    let scene = Scene::new(config, script);
    let outcome = scene.session.finish(&scene.lead("[lead] go"));
    expect_whole(&outcome);
    assert_eq!(outcome.progress.text, "They run.\nOne is lost.\n");
    assert_eq!(scene.tasks("be quick")[0].model, "gpt-4.1");
}
