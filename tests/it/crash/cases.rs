//! In every moment of a turn.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Scene, Seen, expect_whole, kill_servers, plain, play};
use crate::{
    partitions::tools,
    support::{
        copilot::{Turn, tool_answer},
        stub::{Round, Rule, Script},
    },
};

const ALL: &[&str] =
    &["fetch_ticket", "run_in_terminal", "list_dir", "read_file", "insert_edit_into_file", "create_file"];

/// Kills the server in the middle of a turn, in the primary and in a partition, and compares what there is to see with
/// what there is without. `disturb` is told whether to kill.
fn same(script: &dyn Fn() -> Script, question: &str, disturb: &dyn Fn(&Scene, &Turn, bool)) {
    let run = |more: &Value, kills: bool| -> Seen {
        let scene = Scene::new(script());
        let (seen, _) = play(&scene, more, question, |scene, turn| disturb(scene, turn, kills));
        assert!(scene.session.shutdown().success());
        seen
    };
    let undisturbed = run(&json!({}), false);
    for more in [json!({}), tools(ALL)] {
        let disturbed = run(&more, true);
        assert_eq!(disturbed, undisturbed);
    }
}

fn kill(scene: &Scene, kills: bool) {
    if kills {
        kill_servers(&scene.session);
    }
}

fn shows(scene: &Scene, turn: &Turn, text: &str) {
    scene.session.wait_progress(turn, text, |it| it.text.contains(text));
}

#[test]
fn a_turn_of_which_nothing_has_come() {
    let script = || Script::default().rule(Rule::on("[a]").then(Round::text("Hello.\n").gate("go")));
    same(&script, "[a]", &|scene, turn, kills| {
        scene.session.wait_progress(turn, "begin", |it| it.begins == 1);
        scene.stub.wait_for("the model is asked", |log| {
            log.iter().any(|it| it.chat.as_ref().is_some_and(|it| it.user == "[a]"))
        });
        kill(scene, kills);
        scene.stub.open("go");
    });
}

#[test]
fn text_that_is_cut_off() {
    let round = || Round::text("Line one.\nLine t").gate_after_text("go").more("wo.\nThree.\n");
    let script = || Script::default().rule(Rule::on("[b]").then(round()));
    same(&script, "[b]", &|scene, turn, kills| {
        shows(scene, turn, "Line one.\n");
        kill(scene, kills);
        scene.stub.open("go");
    });
}

#[test]
fn text_that_was_complete() {
    let script = || Script::default().rule(Rule::on("[b]").then(Round::text("All.\n").gate_after_text("go")));
    same(&script, "[b]", &|scene, turn, kills| {
        shows(scene, turn, "All.\n");
        kill(scene, kills);
        scene.stub.open("go");
    });
}

#[test]
fn a_client_tool_that_is_pending() {
    let rule = || {
        Rule::on("[c]")
            .then(Round::text("Asking.").call("fetch_ticket", json!({"key": "A b"})))
            .then(Round::text("Got {results}."))
    };
    let script = || Script::default().rule(rule());
    same(&script, "[c]", &|scene, turn, kills| {
        let handler = "conversation/invokeClientTool";
        scene.session.hold_tools();
        let call = scene.session.expect_request(handler);
        kill(scene, kills);
        scene.session.answer(&call, Ok(tool_answer(Ok("a late answer".to_owned()))));
        scene.session.wait_progress(turn, "the call", |it| it.tool_calls[0]["status"] == "completed");
    });
}

#[test]
fn the_second_round_is_cut_off() {
    let rule = || {
        Rule::on("[d]")
            .then(Round::text("Asking.").call("fetch_ticket", json!({"key": "1"})))
            .then(Round::text("Got it: {results}\nSo").gate_after_text("go").more(" be it.\n"))
    };
    let script = || Script::default().rule(rule());
    same(&script, "[d]", &|scene, turn, kills| {
        shows(scene, turn, "Got it");
        kill(scene, kills);
        scene.stub.open("go");
    });
}

#[test]
fn the_second_of_two_calls_is_pending() {
    same(&Script::default, "[parallel]", &|scene, _, kills| {
        scene.session.hold_tools();
        for n in 1..=2 {
            let call = scene.session.expect_request("conversation/invokeClientTool");
            if n == 2 {
                kill(scene, kills);
            }
            scene.session.answer(&call, Ok(tool_answer(Ok(format!("answer {n}")))));
        }
    });
}

#[test]
fn a_tool_of_the_server_runs() {
    let rule = || {
        Rule::on("[f]")
            .then(
                Round::text("Reading.\n")
                    .call("read_file", json!({"filePath": "{ws}/a.txt", "startLine": 1, "endLine": 2})),
            )
            .then(Round::text("It says {results}"))
    };
    let script = || Script::default().rule(rule());
    same(&script, "[f]", &|scene, _, kills| {
        scene.sandbox.write("a.txt", "one\ntwo\n");
        if !kills {
            return;
        }
        // The server asks for the encoding of a file that it reads.
        scene.session.hold_requests("workspace/configuration");
        let asked = scene
            .session
            .expect_request_where("workspace/configuration", |it| it.to_string().contains("encoding"));
        kill(scene, kills);
        scene.session.on_request("workspace/configuration", |it| {
            Ok(it["items"].as_array().into_iter().flatten().map(|_| Value::Null).collect())
        });
        scene.session.answer(&asked, Ok(json!([null])));
    });
}
