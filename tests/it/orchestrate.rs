//! Orchestrations, with the real Copilot server.

mod terminal;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{
    copilot::{Copilot, Options},
    editor::{Answer, Pending},
    processes::Process,
    real::{self, Sandbox},
    stub::{Chat, Round, Rule, Said, Script, Stub},
};

struct Scene {
    stub: Stub,
    session: Copilot,
    _sandbox: Sandbox,
}

impl Scene {
    fn new(config: &str, script: Script) -> Scene {
        let sandbox = Sandbox::new();
        let workspace = sandbox.workspace().display().to_string();
        let stub = Stub::start(script.continue_text(lspool::core::CONTINUE).workspace(workspace));
        let file = sandbox.home().join("lspool.toml");
        let patient = "[server.copilot]\nmax_restarts = 60000\nbackoff = { initial = \"0s\" }\n";
        std::fs::write(&file, format!("{patient}{config}")).expect("the home is ours");
        let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), &stub);
        // Without texts the recording would not contain the plan.
        command.arg("--config").arg(file).arg("--record-texts=yes");
        command.arg("--").arg(real::copilot()).arg("--stdio");
        let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
        session.register_tools(&["fetch_ticket", "ide_look"]).expect("the schemas are good");
        Scene { stub, session, _sandbox: sandbox }
    }

    fn orchestrate(&self, more: &Value) -> Pending {
        let mut params = json!({"goal": "[goal] reach it", "workDoneToken": "work"});
        let members = more.as_object().expect("an object").clone();
        params.as_object_mut().expect("an object").extend(members);
        self.session.request("lspool/orchestrate", params)
    }

    /// The request to the model for this task.
    fn chat(&self, marker: &str) -> Chat {
        self.chats(marker).into_iter().next().unwrap_or_else(|| panic!("nobody was asked for {marker}"))
    }

    /// Tasks are at the end of a message; the summarizer sees them too.
    fn chats(&self, marker: &str) -> Vec<Chat> {
        self.stub.turns().into_iter().filter(|it| it.user.ends_with(marker)).collect()
    }

    fn wait_asked(&self, markers: &[&str]) {
        self.stub.wait_for(&markers.join(", "), |log| {
            let is_asked = |marker: &&str| {
                log.iter().any(|it| it.chat.as_ref().is_some_and(|chat| chat.user.ends_with(*marker)))
            };
            markers.iter().all(is_asked)
        });
    }

    fn events(&self) -> Vec<Value> {
        self.session.notifications("lspool/orchestratorEvent")
    }

    /// Names of the events, with their task.
    fn story(&self) -> Vec<String> {
        let line = |it: &Value| {
            let name = it["event"].as_str().unwrap_or_default();
            [name.to_owned(), it["task"].to_string(), it["state"].as_str().unwrap_or_default().to_owned()]
                .iter()
                .filter(|it| !it.is_empty() && *it != "null")
                .cloned()
                .collect::<Vec<_>>()
                .join(" ")
        };
        self.events().iter().filter(|it| it["event"] != "taskProgress").map(line).collect()
    }

    /// All workers have ended: the processes have no conversation.
    fn expect_nobody_left(&self) {
        let since = std::time::Instant::now();
        loop {
            let status = self.session.ok("lspool/status", json!({}));
            let count = |it: &Value| it["conversations"].as_u64().unwrap_or(0);
            let left: u64 = status["backends"].as_array().into_iter().flatten().map(count).sum();
            if left == 0 {
                return;
            }
            assert!(since.elapsed().as_secs() < 20, "{left} conversations are left");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    fn servers(&self) -> Vec<Process> {
        let server = real::copilot().display().to_string();
        self.session.mark().processes().into_iter().filter(|it| it.command.starts_with(&server)).collect()
    }
}

fn task(role: &str, task: &str, needs: &[usize]) -> Value {
    json!({"worker_role": role, "task": task, "depends_on": needs})
}

const PLANNER: &str = "Plan how workers";
const SUMMARIZER: &str = "Workers carried out tasks";

/// A plan, and what those say who are asked for it and for a summary.
fn script(plan: &Value) -> Script {
    Script::default()
        .rule(Rule::on(PLANNER).then(Round::text(format!("Here it is:\n```json\n{plan}\n```\n"))))
        .rule(Rule::on(SUMMARIZER).then(Round::text("It is done.\n")))
}

/// A worker's answer.
fn says(marker: &str, text: &str) -> Rule {
    Rule::on(marker).then(Round::text(format!("{text}\n")))
}

/// The results of twelve tasks with two diamonds, a branch that fails, and a worker with four tasks.
fn twelve() -> Script {
    let plan = json!([
        task("coder", "[t0]", &[]),
        task("reviewer", "[t1]", &[0]),
        task("tester", "[t2]", &[0]),
        task("coder", "[t3]", &[1, 2]),
        task("docs", "[t4]", &[]),
        task("docs", "[t5]", &[4]),
        task("reviewer", "[t6]", &[5]),
        task("coder", "[t7]", &[3]),
        task("tester", "[t8]", &[3]),
        task("coder", "[t9]", &[7, 8]),
        task("reviewer", "[t10]", &[9]),
        task("tester", "[t11]", &[2]),
    ]);
    let gated = |n: u32, gate: &str| {
        Rule::on(format!("[t{n}]")).then(Round::text(format!("result-{n};\n")).gate(gate))
    };
    script(&plan)
        .rule(
            Rule::on("[t0]")
                .then(Round::text("I look.\n").call("fetch_ticket", json!({"key": "ABC-1"})))
                .then(Round::text("result-0;\n")),
        )
        .rule(gated(1, "first"))
        .rule(gated(2, "first"))
        .rule(says("[t3]", "result-3;"))
        .rule(Rule::on("[t4]").then(Round::status(500)))
        .rule(gated(7, "second"))
        .rule(gated(8, "second"))
        .rule(says("[t9]", "result-9;"))
        .rule(gated(10, "last"))
        .rule(gated(11, "slow"))
}

const DOCS: &str = "[worker.docs]\ndescription = \"Writes documents\"\ntools = []\n";

#[test]
fn orchestration_runs_twelve_tasks_in_order_with_context_real() {
    let scene = Scene::new(DOCS, twelve());
    let pending = scene.orchestrate(&json!({"events": true}));
    // Each pair is there before one of them has an answer.
    scene.wait_asked(&["[t1]", "[t2]"]);
    scene.stub.open("first");
    scene.wait_asked(&["[t7]", "[t8]", "[t11]"]);
    scene.stub.open("second");
    // 11 could start when 2 was done, and has no answer yet: tasks that do not need it have not waited.
    scene.wait_asked(&["[t10]", "[t11]"]);
    scene.stub.open("last");
    scene.stub.open("slow");
    let result = scene.session.wait(&pending).expect("it ends");
    assert_eq!((&result["state"], &result["summary"]), (&json!("failed"), &json!("It is done.\n")));
    let states: Vec<&str> = result["tasks"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| it["state"].as_str().unwrap_or_default())
        .collect();
    let expected: Vec<&str> = (0..12)
        .map(|it| match it {
            4 => "failed",
            5 | 6 => "skipped",
            _ => "done",
        })
        .collect();
    assert_eq!(states, expected);
    // What each writes streams.
    let written = scene.session.notifications("lspool/agentEvent");
    let of_coder = |it: &&Value| (&it["agent"], &it["task"]) == (&json!("coder-1"), &json!(0));
    let text: String = written.iter().filter(of_coder).filter_map(|it| it["text"].as_str()).collect();
    assert!(text.starts_with("I look.\n") && text.contains("result-0;"), "{written:?}");
    let reason = |n: usize| result["tasks"][n]["reason"].as_str().unwrap_or_default().to_owned();
    assert_eq!(reason(5), "task 4 failed");
    assert_eq!(reason(6), "task 5 was skipped");
    assert!(scene.chats("[t5]").is_empty() && scene.chats("[t6]").is_empty());

    // Each gets exactly the results that it needs.
    for (n, needs) in [
        (0, &[][..]),
        (1, &[0]),
        (2, &[0]),
        (3, &[1, 2]),
        (7, &[3]),
        (8, &[3]),
        (9, &[7, 8]),
        (10, &[9]),
        (11, &[2]),
    ] {
        let text = scene.chat(&format!("[t{n}]")).user;
        for other in 0..12 {
            let is_told = text.contains(&format!("result-{other};"));
            assert_eq!(is_told, needs.contains(&other), "{other} in {text}");
        }
        assert_eq!(text.contains("<shared_context>"), !needs.is_empty(), "{text}");
    }
    // The coder has one conversation for its four tasks.
    let last = scene.chat("[t9]");
    let asked: Vec<&String> = last
        .history
        .iter()
        .filter_map(|it| match it {
            Said::User(text) => Some(text),
            Said::Assistant(_) | Said::Call(_) | Said::Result(_) => None,
        })
        .collect();
    for marker in ["[t0]", "[t3]", "[t7]"] {
        assert!(asked.iter().any(|it| it.ends_with(marker)), "{marker} in {asked:?}");
    }
    let is_instructed = |marker: &str| scene.chat(marker).user.contains("<system_instructions>");
    assert_eq!(["[t0]", "[t3]", "[t7]", "[t9]"].map(is_instructed), [true, false, false, false]);
    // The tester is busy with 11 when 8 begins: another one does it.
    assert_eq!(["[t2]", "[t11]", "[t8]"].map(is_instructed), [true, false, true]);
    assert_eq!(result["tasks"][9]["worker"], "coder-1");
    assert_eq!(result["tasks"][8]["worker"], "tester-2");

    // Tools: the planner has none, the reviewer reads, the coder has all.
    let planner =
        scene.stub.turns().into_iter().find(|it| it.user.starts_with(PLANNER)).expect("it was asked");
    assert!(planner.tools.is_empty(), "{:?}", planner.tools);
    assert!(planner.user.contains("- docs: Writes documents (tools: none)"), "{}", planner.user);
    let reviewer = scene.chat("[t1]");
    assert!(
        reviewer.tools.contains(&"ide_look".to_owned())
            && !reviewer.tools.contains(&"fetch_ticket".to_owned())
    );
    assert!(reviewer.user.contains("<tool_restrictions>\nYou have these tools and no others: ide, "));
    assert!(scene.chat("[t0]").tools.contains(&"fetch_ticket".to_owned()));
    let calls = scene.session.tool_calls();
    assert_eq!(calls.len(), 1);
    let id = &scene.events()[0]["orchestration"];
    assert_eq!((&calls[0].params["conversationId"], &calls[0].params["turnId"]), (id, id));
    assert_eq!(calls[0].params["lspool"], json!({"agent": "coder-1", "agentType": "coder"}));

    expect_progress(&scene, "failed");
    scene.expect_nobody_left();
    assert!(scene.session.shutdown().success());
}

/// One begin, one end, and all events in between.
#[track_caller]
fn expect_progress(scene: &Scene, end: &str) {
    let values: Vec<Value> = scene
        .session
        .notifications("$/progress")
        .into_iter()
        .filter(|it| it["token"] == "work")
        .map(|it| it["value"].clone())
        .collect();
    let (first, last) = (&values[0], &values[values.len() - 1]);
    assert_eq!((&first["kind"], &first["title"]), (&json!("begin"), &json!("[goal] reach it")));
    assert_eq!((&last["kind"], &last["message"]), (&json!("end"), &json!(end)));
    let events: Vec<Value> = values[1..].iter().map(|it| it["lspool"].clone()).collect();
    assert_eq!(events, scene.events());
    let percentages: Vec<u64> = values.iter().filter_map(|it| it["percentage"].as_u64()).collect();
    assert!(percentages.is_sorted() && percentages.last() < Some(&101), "{percentages:?}");
}

#[test]
fn bad_plan_is_repaired_or_one_worker_does_everything_real() {
    let bad = json!([task("boss", "[bad]", &[])]);
    let good = json!([task("tester", "[good]", &[])]);
    let again = "This plan is invalid";
    let scene = Scene::new(
        "",
        Script::default()
            .rule(Rule::on(again).then(Round::text(good.to_string()).times(1)).or(Round::text("I cannot.\n")))
            .rule(Rule::on(PLANNER).then(Round::text(bad.to_string())))
            .rule(Rule::on(SUMMARIZER).then(Round::text("It is done.\n")))
            .rule(says("[good]", "good"))
            .rule(says("[goal] reach it", "all alone")),
    );
    let mended = scene.session.wait(&scene.orchestrate(&json!({}))).expect("it ends");
    assert_eq!((&mended["state"], &mended["fallback"]), (&json!("done"), &Value::Null));
    assert_eq!(mended["tasks"][0]["role"], "tester");
    let asked = scene.stub.turns().into_iter().find(|it| it.user.starts_with(again)).expect("it was asked");
    assert!(asked.user.contains("unknown `worker_role` \"boss\"; use one of coder, reviewer, tester"));
    // In the same conversation.
    assert!(asked.history.iter().any(|it| matches!(it, Said::User(text) if text.starts_with(PLANNER))));
    assert_eq!(
        scene.story(),
        [
            "planStarted",
            "planStarted",
            "planCompleted",
            "taskAssigned 0",
            "taskCompleted 0 done",
            "summarizeCompleted",
            "finished done"
        ]
    );
    let alone = scene.orchestrate(&json!({"workers": ["reviewer", "tester"], "workDoneToken": null}));
    let alone = scene.session.wait(&alone).expect("it ends");
    assert_eq!((&alone["state"], &alone["tasks"][0]["role"]), (&json!("done"), &json!("reviewer")));
    assert_eq!(alone["tasks"][0]["text"], "[goal] reach it");
    assert!(alone["fallback"].as_str().is_some_and(|it| it.contains("found no JSON array")), "{alone}");
    assert!(scene.session.shutdown().success());
}

/// A chain of two that is held up where the test wants.
fn chain() -> Script {
    script(&json!([task("coder", "[t0]", &[]), task("reviewer", "[t1]", &[0]), task("tester", "[t2]", &[])]))
        .rule(Rule::on("[t0]").then(Round::text("result-0;\n").gate("t0")))
        .rule(Rule::on("[t1]").then(Round::text("I begin.\n").gate_after_text("t1")))
        .rule(says("[t2]", "result-2;"))
}

#[test]
fn orchestration_can_be_cancelled_at_any_moment_real() {
    // While it plans, while two work, while the last one works.
    let scene = Scene::new("", chain().rule(Rule::on("[slow]").then(Round::default().hang())));
    let slow =
        scene.session.request("lspool/orchestrate", json!({"goal": "x", "workers": [{"role": "[slow]"}]}));
    expect_cancelled(&scene, &slow, 1, |scene| {
        scene.stub.wait_for("the planner", |log| log.iter().any(super::support::stub::LogEntry::is_turn));
        scene.session.cancel(&slow);
    });
    let two = scene.orchestrate(&json!({}));
    expect_cancelled(&scene, &two, 2, |scene| {
        scene.wait_asked(&["[t0]"]);
        scene.session.notify("window/workDoneProgress/cancel", json!({"token": "work"}));
    });
    scene.stub.open("t0");
    let last = scene.orchestrate(&json!({"workDoneToken": null}));
    expect_cancelled(&scene, &last, 3, |scene| {
        scene.wait_asked(&["[t1]"]);
        scene.session.cancel(&last);
    });
    assert!(scene.session.shutdown().success());
}

fn expect_cancelled(scene: &Scene, pending: &Pending, n: usize, cancel: impl FnOnce(&Scene)) {
    cancel(scene);
    let error = scene.session.wait(pending).expect_err("it was cancelled");
    assert_eq!((error.code, &error.data["lspool"]["cause"]), (-32800, &json!("cancelled")));
    let ends =
        scene.events().into_iter().filter(|it| it["event"] == "finished" && it["state"] == "cancelled");
    assert_eq!(ends.count(), n);
    scene.expect_nobody_left();
}

#[test]
fn orchestration_survives_crashes_real() {
    let scene = Scene::new("", chain());
    let pending = scene.orchestrate(&json!({}));
    scene.wait_asked(&["[t0]"]);
    for it in scene.servers() {
        it.kill(Signal::KILL);
    }
    scene.stub.open("t0");
    scene.wait_asked(&["[t1]"]);
    for it in scene.servers() {
        it.kill(Signal::KILL);
    }
    scene.stub.open("t1");
    let result = scene.session.wait(&pending).expect("it ends");
    assert_eq!(result["state"], "done", "{result}");
    assert!(scene.chat("[t1]").user.contains("result-0;"));
    assert_eq!(scene.story().last().map(String::as_str), Some("finished done"));
    assert!(scene.session.shutdown().success());
}

#[test]
fn invalid_orchestration_is_refused_real() {
    let scene = Scene::new("[models]\nfast = \"gpt-nobody\"\n", script(&json!([])));
    let error = |params: Value| {
        let answer: Answer = scene.session.call("lspool/orchestrate", params);
        let error = answer.expect_err("it is refused");
        (error.code, error.message)
    };
    assert_eq!(error(json!({})), (-32602, "`goal` is missing: put the goal there".to_owned()));
    let (code, message) = error(json!({"goal": "g", "workers": ["boss"]}));
    assert_eq!((code, &*message), (-32602, "unknown worker \"boss\"; use one of coder, reviewer, tester"));
    let (code, message) = error(json!({"goal": "g", "model": "fast"}));
    assert_eq!(code, -32803);
    assert!(
        message.starts_with(
            "planning failed: unknown model \"gpt-nobody\": neither a model of the server nor a tier of [models] in the configuration; the server offers "
        ),
        "{message}"
    );
    assert!(scene.session.shutdown().success());
}

#[test]
fn editor_command_starts_orchestration_real() {
    let scene = Scene::new("", script(&json!([task("reviewer", "[t0]", &[])])).rule(says("[t0]", "fine")));
    let params =
        json!({"command": "lspool.orchestrate", "arguments": ["[goal] reach it"], "workDoneToken": "work"});
    let result = scene.session.ok("workspace/executeCommand", params);
    assert_eq!((&result["state"], &result["tasks"][0]["result"]), (&json!("done"), &json!("fine\n")));
    expect_progress(&scene, "done");
    assert!(scene.session.shutdown().success());
}
