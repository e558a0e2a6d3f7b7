//! What comes less often: sub-agents, MCP servers, two deaths in one turn, many conversations, odd ids.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{CONTINUE, Scene, expect_whole, kill_servers, plain, servers};
use crate::{
    conversations::delegation,
    one_voice::{ask_until_up, mcp},
    partitions::tools,
    support::{
        copilot::{Copilot, Turn, tool_answer, uri},
        editor::ServerRequest,
        stub::{Round, Rule, Said, Script},
    },
};

const INVOKE: &str = "conversation/invokeClientTool";

fn ticket() -> Round {
    Round::text("Asking.").call("fetch_ticket", json!({"key": "1"}))
}

#[test]
fn sub_agent_is_not_run_again_after_crash() {
    let scene = Scene::with(Script::default().rule(delegation()), |mut options| {
        options.copilot_capabilities = json!({"subAgent": true});
        options
    });
    let session = &scene.session;
    let helper =
        scene.sandbox.write("helper.agent.md", "---\nname: helper\ndescription: Helps.\n---\nHelp.\n");
    let helper = json!({"uri": uri(&helper), "name": "helper", "description": "Helps."});
    session.ok("customAgent/registerExtensionAgents", json!({"extensionId": "test", "agents": [helper]}));
    session.hold_tools();
    let turn = session.create("[delegate]", json!({"conversationId": "mine"}));
    let call = session.expect_request(INVOKE);
    assert_ne!(call.params["conversationId"], "mine");
    kill_servers(session);
    session.answer(&call, Ok(tool_answer(Ok("a late answer".to_owned()))));
    let outcome = session.finish(&turn);
    let own: Vec<&Value> =
        outcome.progress.values.iter().filter(|it| it["conversationId"] == "mine").collect();
    let n = |kind: &str| own.iter().filter(|it| it["kind"] == kind).count();
    assert_eq!((n("begin"), n("end")), (1, 1));
    assert_eq!(outcome.answer.as_ref().expect("success")["turnId"], outcome.progress.turn);
    let text = &outcome.progress.text;
    assert!(
        text.contains("Delegated: A technical fault stopped the sub-agent") && text.contains("a late answer"),
        "{text}"
    );
    let states: Vec<_> = outcome.progress.tool_calls.iter().map(|it| (&it["name"], &it["status"])).collect();
    assert_eq!(
        states,
        [(&json!("run_subagent"), &json!("completed")), (&json!("fetch_ticket"), &json!("completed"))]
    );
    assert_eq!(session.tool_calls().len(), 0, "nothing was called again");
    assert!(session.shutdown().success());
}

#[test]
fn mcp_call_is_not_repeated_after_crash() {
    let input = json!({"text": "slow and dangerous"});
    let script = Script::default().rule(
        Rule::on("[mcp]")
            .then(Round::text("Calling.").call("mcp_mini_mini_echo", input))
            .then(Round::text("Got {results}")),
    );
    let started = tempfile::tempdir().expect("a folder");
    let started = started.path().join("started");
    let scene = Scene::with(script, |mut options| {
        options.settings["github"] = json!({"copilot": mcp(&started)});
        options
    });
    let session = &scene.session;
    session.finish(&session.create("hello", json!({"conversationId": "mine"}))).expect_success();
    ask_until_up(session, &scene.stub, "mine", &json!("mine"));
    let turn = session.turn(&json!("mine"), "[mcp]", json!({}));
    let calls = || std::fs::read_to_string(started.with_extension("calls")).unwrap_or_default();
    while calls().is_empty() {
        std::thread::yield_now();
    }
    session.wait_progress(&turn, "the call", |it| !it.tool_calls.is_empty());
    kill_servers(session);
    std::fs::write(started.with_extension("go"), "").expect("the folder is ours");
    let outcome = session.finish(&turn);
    expect_whole(&outcome);
    assert!(outcome.progress.text.contains("may or may not have happened"), "{}", outcome.progress.text);
    assert_eq!(calls().lines().count(), 1);
    let restored = scene.stub.turns().pop().expect("it was asked").history;
    assert!(restored.contains(&Said::Call("mcp_mini_mini_echo".to_owned())), "{restored:?}");
    assert!(session.shutdown().success());
}

#[test]
fn restored_tool_results_are_those_that_the_model_was_shown() {
    let results = [
        json!({"content": [], "status": "success"}),
        json!({"content": [{"value": ""}], "status": "success"}),
        json!({"content": [{"value": "one"}, {"value": "two"}], "status": "success"}),
        json!({"content": [], "status": "error"}),
        json!({"content": [{"value": "half"}], "status": "cancelled"}),
    ];
    let mut rule = Rule::on("[r]");
    for _ in &results {
        rule = rule.then(ticket());
    }
    let scene = Scene::new(Script::default().rule(rule.then(Round::text("Done."))));
    let session = &scene.session;
    for model in ["gpt-4.1", "gpt-stub-responses"] {
        let mut rest = results.clone().into_iter();
        session.on_request(INVOKE, move |_| Ok(json!([rest.next(), null])));
        let model = json!({"modelInfo": {"id": model}});
        let mut create = model.clone();
        create["conversationId"] = model["modelInfo"]["id"].clone();
        session.finish(&session.create("[r]", create.clone())).expect_success();
        let ask = |question: &str| {
            session
                .finish(&session.turn(&create["conversationId"], question, model.clone()))
                .expect_success();
            let mut history = scene.stub.turns().pop().expect("it was asked").history;
            history.truncate(3 * results.len() + 2);
            history
        };
        let live = ask("live?");
        let is_result = |it: &&Said| matches!(it, Said::Result(_));
        assert_eq!(live.iter().filter(is_result).count(), results.len());
        kill_servers(session);
        assert_eq!(ask("restored?"), live);
    }
    assert!(session.shutdown().success());
}

#[test]
fn image_in_question_is_shown_to_model_after_crash() {
    let mut script = Script::default();
    script.models.iter_mut().for_each(|it| it.vision = true);
    let scene = Scene::new(script);
    let session = &scene.session;
    let image = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
    let question =
        json!([{"type": "text", "text": "what is this?"}, {"type": "image_url", "imageUrl": {"url": image}}]);
    let turns = json!([{"request": question}]);
    session.finish(&session.create("", json!({"conversationId": "mine", "turns": turns}))).expect_success();
    let n_images = || {
        let bodies = scene.stub.log().into_iter().filter(super::super::support::stub::LogEntry::is_turn);
        let last = String::from_utf8_lossy(&bodies.last().expect("it was asked").body).into_owned();
        last.matches("iVBORw0KGgo").count()
    };
    assert_eq!(n_images(), 1);
    for asked in ["and now?", "and then?"] {
        session.finish(&session.turn(&json!("mine"), asked, json!({}))).expect_success();
        assert_eq!(n_images(), 1);
        kill_servers(session);
        session.finish(&session.turn(&json!("mine"), &format!("{asked} again"), json!({}))).expect_success();
        assert_eq!(n_images(), 1, "after a crash");
    }
    assert!(session.shutdown().success());
}

#[test]
fn compressed_conversation_is_restored_as_its_summary() {
    let summary = Rule::on("create a comprehensive summary").then(Round::text("In short."));
    let scene = Scene::new(Script::default().rule(summary));
    let session = &scene.session;
    session.finish(&session.create("[custom] first", json!({"conversationId": "mine"}))).expect_success();
    assert_eq!(session.ok("conversation/compress", json!({"conversationId": "mine"}))["success"], true);
    session.finish(&session.turn(&json!("mine"), "second", json!({}))).expect_success();
    kill_servers(session);
    let expected = ["user In short.", "user second", "assistant Echo: second"];
    assert_eq!(scene.history(&json!("mine")), expected);
    assert!(session.shutdown().success());
}

#[test]
fn turn_survives_three_crashes() {
    let script = Script::default().rule(
        Rule::on("[twice]")
            .then(
                Round::text("First.\n")
                    .gate_after_text("one")
                    .more("Second.\n")
                    .call("fetch_ticket", json!({"key": "1"})),
            )
            .then(Round::text("Got {results}.\n").gate_after_text("two").more("Done.\n")),
    );
    let scene = Scene::new(script);
    let session = &scene.session;
    session.hold_tools();
    let turn = session.create("[twice]", json!({"conversationId": "mine"}));
    session.wait_progress(&turn, "text", |it| it.text.contains("First"));
    kill_servers(session);
    scene.stub.open("one");
    let call = session.expect_request(INVOKE);
    kill_servers(session);
    // And while it waits.
    while servers(session).is_empty() {
        std::thread::yield_now();
    }
    kill_servers(session);
    session.answer(&call, Ok(tool_answer(Ok("late".to_owned()))));
    session.wait_progress(&turn, "text", |it| it.text.contains("Got late"));
    kill_servers(session);
    scene.stub.open("two");
    let outcome = session.finish(&turn);
    expect_whole(&outcome);
    assert_eq!(outcome.progress.text, "First.\nSecond.\nGot late.\nDone.\n");
    let expected = [
        "user [twice]",
        "assistant First.\nSecond.\n",
        "call fetch_ticket",
        "result late",
        "assistant Got late.\nDone.\n",
    ];
    assert_eq!(scene.history(&json!("mine")), expected);
    // In yet another process it is one turn, without what continued it.
    kill_servers(session);
    session.finish(&session.turn(&json!("mine"), "and then?", json!({}))).expect_success();
    let last = scene.stub.turns().pop().expect("it was asked");
    assert!(!last.history.contains(&Said::User(CONTINUE.to_owned())));
    assert_eq!(plain(&last.history)[..5], expected[..5]);
    assert!(session.shutdown().success());
}

#[test]
fn five_conversations_survive_crash_at_once() {
    let names = ["a", "b", "c", "d", "e"];
    let script = names.iter().fold(Script::default(), |script, name| {
        let round = match *name {
            "a" => Round::text("Five.\n").gate(*name),
            _ => Round::text(format!("{name} one.\n")).gate_after_text(*name).more(format!("{name} two.\n")),
        };
        script.rule(Rule::on(format!("[{name}] go")).then(round))
    });
    let scene = Scene::new(script);
    let session = &scene.session;
    let turns = names.map(|name| {
        session
            .finish(&session.create(&format!("[{name}] first"), json!({"conversationId": name})))
            .expect_success();
        session.turn(&json!(name), &format!("[{name}] go"), json!({}))
    });
    for (name, turn) in names.iter().zip(&turns) {
        session.wait_progress(turn, "it runs", |it| it.begins == 1 && (*name == "a" || !it.text.is_empty()));
    }
    kill_servers(session);
    for name in names {
        scene.stub.open(name);
    }
    for (name, turn) in names.iter().zip(&turns) {
        let outcome = session.finish(turn);
        expect_whole(&outcome);
        let expected =
            if *name == "a" { "Five.\n".to_owned() } else { format!("{name} one.\n{name} two.\n") };
        assert_eq!(outcome.progress.text, expected);
        let expected = [
            format!("user [{name}] first"),
            format!("assistant Echo: [{name}] first"),
            format!("user [{name}] go"),
            format!("assistant {expected}"),
        ];
        assert_eq!(scene.history(&json!(name)), expected);
    }
    assert!(session.shutdown().success());
}

fn asks_for_a_ticket() -> Scene {
    Scene::new(Script::default().rule(Rule::on("[c]").then(ticket()).then(Round::text("Got {results}"))))
}

/// A turn whose server is killed while the editor is asked its tool; the next one has been started.
fn dies_over_its_tool(session: &Copilot) -> (Turn, ServerRequest) {
    session.hold_tools();
    let turn = session.create("[c]", json!({"conversationId": "mine"}));
    let call = session.expect_request(INVOKE);
    kill_servers(session);
    while servers(session).is_empty() {
        std::thread::yield_now();
    }
    (turn, call)
}

#[test]
fn turn_survives_crash_at_start_and_during_sign_in() {
    let scene = asks_for_a_ticket();
    let session = &scene.session;
    let (turn, call) = dies_over_its_tool(session);
    // The next one has hardly begun.
    kill_servers(session);
    session.answer(&call, Ok(tool_answer(Ok("late".to_owned()))));
    let outcome = session.finish(&turn);
    expect_whole(&outcome);
    assert_eq!(outcome.progress.text, "Asking.Got late");
    // A sign-in is asked of a process that dies over it: answered, one way or the other, and a turn works after it.
    let sign_in = session.request("signInWithGithubToken", json!({"githubToken": "gho_other", "user": "x"}));
    kill_servers(session);
    drop(session.wait(&sign_in));
    session.finish(&session.turn(&json!("mine"), "hello", json!({}))).expect_success();
    assert!(session.shutdown().success());
}

#[test]
fn cancelled_turn_ends_at_once_after_crash() {
    let scene = asks_for_a_ticket();
    let session = &scene.session;
    let (turn, call) = dies_over_its_tool(session);
    session.cancel(&turn.pending);
    let outcome = session.finish(&turn);
    expect_whole(&outcome);
    assert_eq!(outcome.progress.ends[0]["cancellationReason"], "CancelledByUser");
    session.answer(&call, Ok(tool_answer(Ok("late".to_owned()))));
    assert_eq!(
        scene.history(&json!("mine")),
        ["user [c]", "assistant Asking.", "call fetch_ticket", "result late"]
    );
    assert!(session.shutdown().success());
}

/// The server makes a path of the conversation's id. If that is impossible, the history goes as text.
#[test]
fn conversation_with_unsafe_file_name_survives_crash() {
    let ids: [Value; 3] = [json!("a b/../ü"), json!(7), json!("..")];
    let script = ids.iter().enumerate().fold(Script::default(), |script, (n, _)| {
        let round = Round::text("One.\n").gate_after_text("go").more("Two.\n");
        script.rule(Rule::on(format!("[{n}] go")).then(round))
    });
    let scene = Scene::new(script);
    let session = &scene.session;
    let turns: Vec<_> = ids
        .iter()
        .enumerate()
        .map(|(n, id)| {
            let more = if n == 0 { tools(&["fetch_ticket"]) } else { json!({}) };
            let mut create = more;
            create["conversationId"] = id.clone();
            session.finish(&session.create("[custom] first", create)).expect_success();
            session.turn(id, &format!("[{n}] go"), json!({}))
        })
        .collect();
    for turn in &turns {
        session.wait_progress(turn, "text", |it| it.text == "One.\n");
    }
    kill_servers(session);
    scene.stub.open("go");
    for (n, (id, turn)) in ids.iter().zip(&turns).enumerate() {
        let outcome = session.finish(turn);
        expect_whole(&outcome);
        assert_eq!(outcome.progress.text, "One.\nTwo.\n", "{id}");
        let history = scene.history(id);
        assert_eq!(
            history[history.len() - 2..],
            [format!("user [{n}] go"), "assistant One.\nTwo.\n".to_owned()]
        );
    }
    assert!(session.shutdown().success());
}

#[test]
fn turn_fails_with_its_server_when_configured() {
    let script = Script::default().rule(Rule::on("[b]").then(Round::text("One.\n").gate_after_text("go")));
    let scene = Scene::configured("turn_recovery = \"fail\"", script, |it| it);
    let session = &scene.session;
    let turn = session.create("[b]", json!({"conversationId": "mine"}));
    session.wait_progress(&turn, "text", |it| it.text == "One.\n");
    servers(session)[0].kill(Signal::KILL);
    let outcome = session.finish(&turn);
    assert!(outcome.answer.is_err());
    assert_eq!((outcome.progress.begins, outcome.progress.ends.len()), (1, 1));
    scene.stub.open("go");
    assert_eq!(scene.history(&json!("mine")), ["user [b]", "assistant One.\n"]);
    assert!(session.shutdown().success());
}
