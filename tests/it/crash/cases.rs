//! Crashes at every moment of a turn, in the primary and in a partition at once: the result looks like that of a
//! conversation without a crash.

use serde_json::{Value, json};

use super::{Scene, Seen, calls, expect_whole, kill_servers};
use crate::{
    partitions::tools,
    support::{
        copilot::{Turn, tool_answer},
        editor::ServerRequest,
        stub::{Round, Rule, Script},
    },
};

/// Every tool that there is in a [`Scene`]: the set of a partition that can do all that the primary can.
const ALL: &[&str] = &[
    "fetch_ticket",
    "run_in_terminal",
    "list_dir",
    "read_file",
    "file_search",
    "grep_search",
    "validate_cves",
    "insert_edit_into_file",
    "create_file",
    "run_subagent",
    "mini/*",
];

/// The conversation without a crash, that of the primary, and that of the partition.
const NAMES: [&str; 3] = ["calm", "lead", "part"];

const INVOKE: &str = "conversation/invokeClientTool";
const CONFIRM: &str = "conversation/invokeClientToolConfirmation";

/// The request of the server that a test waits for, if any.
type Reached = Option<ServerRequest>;

/// One moment of a turn.
struct Case<'a> {
    /// The answers of the model to `[NAME] go`.
    rule: &'a dyn Fn(Rule, &str) -> Rule,
    /// Whether the requests to the editor are held back.
    holds: &'a [&'a str],
    /// Waits for the moment.
    reach: &'a dyn Fn(&Scene, &Turn, &str) -> Reached,
    /// The event after it.
    go: &'a dyn Fn(&Scene, &Turn, &str, Reached),
}

impl Case<'_> {
    fn script(&self) -> Script {
        NAMES.iter().fold(Script::default(), |script, name| {
            script.rule((self.rule)(Rule::on(format!("[{name}] go")), name))
        })
    }

    fn check(&self) {
        self.check_in(&Scene::new(self.script()));
    }

    fn check_in(&self, scene: &Scene) {
        let session = &scene.session;
        let begin = |name: &str| {
            let mut create = if name == "part" { tools(ALL) } else { json!({}) };
            create["conversationId"] = json!(name);
            session.finish(&session.create(&format!("[{name}] first"), create)).expect_success();
            self.holds.iter().for_each(|it| session.hold_requests(it));
            session.turn(&json!(name), &format!("[{name}] go"), json!({}))
        };
        let calm = begin("calm");
        let reached = (self.reach)(scene, &calm, "calm");
        (self.go)(scene, &calm, "calm", reached);
        let expected = see(scene, &calm, "calm");
        let turns = ["lead", "part"].map(|name| (name, begin(name)));
        let reached: Vec<Reached> = turns.iter().map(|(name, it)| (self.reach)(scene, it, name)).collect();
        kill_servers(session);
        for ((name, turn), reached) in turns.iter().zip(reached) {
            (self.go)(scene, turn, name, reached);
        }
        for (name, turn) in &turns {
            assert_eq!(see(scene, turn, name), expected, "{name}");
        }
        assert!(session.shutdown().success());
    }
}

/// Waits for the end of a turn, and returns the request to the model in the next one, without names.
fn see(scene: &Scene, turn: &Turn, name: &str) -> Seen {
    let session = &scene.session;
    let outcome = session.finish(turn);
    expect_whole(&outcome);
    let without_name = |lines: Vec<String>| lines.iter().map(|it| it.replace(name, "NAME")).collect();
    Seen {
        text: outcome.progress.text.replace(name, "NAME"),
        calls: without_name(calls(&session.tool_calls(), name)),
        history: without_name(scene.history(&json!(name))),
    }
}

fn shows(text: &'static str) -> impl Fn(&Scene, &Turn, &str) -> Reached {
    move |scene, turn, _| {
        scene.session.wait_progress(turn, text, |it| it.text.contains(text));
        None
    }
}

fn open(scene: &Scene, _: &Turn, name: &str, _: Reached) {
    scene.stub.open(name);
}

/// The server asks the editor something for this conversation.
fn asks(method: &'static str) -> impl Fn(&Scene, &Turn, &str) -> Reached {
    move |scene, _, name| Some(scene.session.expect_request_where(method, |it| it["conversationId"] == name))
}

fn answer(text: &'static str) -> impl Fn(&Scene, &Turn, &str, Reached) {
    move |scene, _, _, asked| {
        scene.session.answer(&asked.expect("it was asked"), Ok(tool_answer(Ok(text.to_owned()))));
    }
}

fn ticket(key: &str) -> Round {
    Round::text("Asking.").call("fetch_ticket", json!({"key": key}))
}

#[test]
fn turn_survives_crash_before_any_output() {
    Case {
        rule: &|rule, name| rule.then(Round::text("Hello.\n").gate(name)),
        holds: &[],
        reach: &|scene, turn, name| {
            scene.session.wait_progress(turn, "begin", |it| it.begins == 1);
            let asked = format!("[{name}] go");
            scene.stub.wait_for("the model is asked", |log| {
                log.iter().any(|it| it.chat.as_ref().is_some_and(|it| it.user == asked))
            });
            None
        },
        go: &open,
    }
    .check();
}

#[test]
fn turn_survives_crash_amid_text() {
    Case {
        rule: &|rule, name| {
            rule.then(Round::text("Line one.\nLine t").gate_after_text(name).more("wo.\nThree.\n"))
        },
        holds: &[],
        reach: &shows("Line one.\n"),
        go: &open,
    }
    .check();
}

#[test]
fn turn_survives_crash_after_complete_text() {
    Case {
        rule: &|rule, name| rule.then(Round::text("All.\n").gate_after_text(name)),
        holds: &[],
        reach: &shows("All.\n"),
        go: &open,
    }
    .check();
}

#[test]
fn turn_survives_crash_while_client_tool_is_pending() {
    Case {
        rule: &|rule, _| rule.then(ticket("A b")).then(Round::text("Got {results}.")),
        holds: &[INVOKE],
        reach: &asks(INVOKE),
        go: &answer("a late answer"),
    }
    .check();
}

#[test]
fn turn_survives_crash_in_second_round() {
    Case {
        rule: &|rule, name| {
            rule.then(ticket("1"))
                .then(Round::text("Got it: {results}\nSo").gate_after_text(name).more(" be it.\n"))
        },
        holds: &[],
        reach: &shows("Got it"),
        go: &open,
    }
    .check();
}

#[test]
fn turn_survives_crash_during_second_of_two_calls() {
    Case {
        rule: &|rule, _| {
            rule.then(ticket("1").call("fetch_ticket", json!({"key": "2"})))
                .then(Round::text("Got {results}."))
        },
        holds: &[INVOKE],
        reach: &|scene, turn, name| {
            let first = asks(INVOKE)(scene, turn, name);
            answer("the first")(scene, turn, name, first);
            asks(INVOKE)(scene, turn, name)
        },
        go: &answer("the second"),
    }
    .check();
}

#[test]
fn turn_survives_crash_while_server_tool_runs() {
    let case = Case {
        rule: &|rule, name| {
            let file = json!({"filePath": format!("{{ws}}/{name}.txt"), "startLine": 1, "endLine": 2});
            rule.then(Round::text("Reading.\n").call("read_file", file))
                .then(Round::text("It says {results}"))
        },
        // The server asks for the encoding of a file that it reads.
        holds: &["workspace/configuration"],
        reach: &|scene, _, name| {
            let session = &scene.session;
            loop {
                let asked = session.expect_request("workspace/configuration");
                if asked.params.to_string().contains(&format!("{name}.txt")) {
                    return Some(asked);
                }
                nothing(scene, &asked);
            }
        },
        go: &|scene, _, _, asked| {
            nothing(scene, &asked.expect("it was asked"));
            scene.session.on_request("workspace/configuration", |it| Ok(nulls(it)));
        },
    };
    let scene = Scene::with(case.script(), |mut options| {
        options.capabilities["workspace"]["configuration"] = json!(true);
        options
    });
    for name in NAMES {
        scene.sandbox.write(&format!("{name}.txt"), "one\ntwo\n");
    }
    case.check_in(&scene);
}

fn nulls(params: &Value) -> Value {
    params["items"].as_array().into_iter().flatten().map(|_| Value::Null).collect()
}

fn nothing(scene: &Scene, asked: &ServerRequest) {
    scene.session.answer(asked, Ok(nulls(&asked.params)));
}

fn terminal() -> Round {
    let input = json!({"command": "echo hello", "explanation": "say hello", "isBackground": false});
    Round::text("Running it.").call("run_in_terminal", input)
}

fn confirm(result: &'static str) -> impl Fn(&Scene, &Turn, &str, Reached) {
    move |scene, _, _, asked| {
        scene.session.answer(&asked.expect("it was asked"), Ok(json!([{"result": result}, null])));
    }
}

#[test]
fn turn_survives_crash_before_tool_is_confirmed() {
    Case {
        rule: &|rule, _| rule.then(terminal()).then(Round::text("Output: {results}")),
        holds: &[CONFIRM],
        reach: &asks(CONFIRM),
        go: &confirm("accept"),
    }
    .check();
}

#[test]
fn turn_survives_crash_before_tool_is_dismissed() {
    Case {
        rule: &|rule, _| rule.then(terminal()).then(Round::text("Output: {results}")),
        holds: &[CONFIRM],
        reach: &asks(CONFIRM),
        go: &confirm("dismiss"),
    }
    .check();
}

#[test]
fn turn_survives_crash_while_edit_is_pending() {
    edit_in("rs");
}

#[test]
fn turn_survives_crash_while_edit_of_plain_text_is_pending() {
    edit_in("txt");
}

fn edit_in(extension: &str) {
    let file = |name: &str| format!("{{ws}}/{name}.{extension}");
    let case = Case {
        rule: &|rule, name| {
            let edit = json!({"filePath": file(name), "code": "fn b() {}\n", "explanation": "b"});
            rule.then(Round::text("Editing.").call("insert_edit_into_file", edit)).then(Round::text("Done."))
        },
        holds: &[INVOKE],
        reach: &asks(INVOKE),
        go: &answer("fn a() {}\nfn b() {}\n"),
    };
    let scene = Scene::new(case.script());
    for name in NAMES {
        scene.sandbox.write(&format!("{name}.{extension}"), "fn a() {}\n");
    }
    case.check_in(&scene);
}
