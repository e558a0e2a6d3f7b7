//! Cancelled turns of the real Copilot server: one end, one answer, and the conversation continues.

use serde_json::{Value, json};

use super::{
    conversations::{delegation, with_helper},
    partitions::{servers, through_lspool, tools},
    support::{
        copilot::{Copilot, Outcome, Turn, tool_answer},
        editor::{ServerRequest, TestEditor},
        real::Sandbox,
        stub::{Outcome as Fate, Round, Rule, Script, Stub},
    },
};

/// The code of a request that was cancelled before anybody had begun on it.
const CANCELLED: i64 = -32800;

/// The two ways to cancel a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Request,
    Token,
}

const WAYS: [By; 2] = [By::Request, By::Token];

impl By {
    fn cancel(self, session: &TestEditor, turn: &Turn) {
        match self {
            By::Request => session.cancel(&turn.pending),
            By::Token => session.notify("window/workDoneProgress/cancel", json!({"token": turn.token})),
        }
    }
}

/// The primary and a partition.
fn sets() -> [(&'static str, Value); 2] {
    [("lead", json!({})), ("agent", tools(&["fetch_ticket", "run_in_terminal"]))]
}

fn script() -> Script {
    Script::default().rule(Rule::on("[wait]").then(Round::text("Working.\n").gate_after_text("go")))
}

fn start(sandbox: &Sandbox, stub: &Stub) -> Copilot {
    let session = through_lspool(sandbox, stub);
    session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
    session
}

/// A turn that was begun and cancelled: one answer, one end, which says so.
#[track_caller]
fn expect_cancelled(outcome: &Outcome) {
    assert_eq!((outcome.progress.begins, outcome.progress.ends.len()), (1, 1), "{outcome:#?}");
    assert_eq!(outcome.progress.ends[0]["cancellationReason"], "CancelledByUser");
}

/// A turn that was cancelled before it had begun.
#[track_caller]
fn expect_never_begun(outcome: &Outcome) {
    assert_eq!(outcome.answer.as_ref().expect_err("it was cancelled").code, CANCELLED);
    assert!(outcome.progress.values.is_empty(), "{outcome:#?}");
}

#[track_caller]
fn expect_goes_on(session: &Copilot, conversation: &str) {
    let next = session.finish(&session.turn(&json!(conversation), "and now?", Value::Null));
    next.expect_success();
    assert_eq!(next.progress.text, "Echo: and now?");
}

/// The editor gets the server's cancellation.
#[track_caller]
fn expect_withdrawn(session: &Copilot, request: &ServerRequest) {
    session.wait_notification("$/cancelRequest", |params| params["id"] == request.id);
}

#[test]
fn cancel_ends_turn_while_model_answers() {
    let stub = Stub::start(script());
    let sandbox = Sandbox::new();
    let session = start(&sandbox, &stub);
    for (name, set) in sets() {
        for by in WAYS {
            let id = format!("{name} {by:?}");
            let mut more = set.clone();
            more["conversationId"] = id.as_str().into();
            let turn = session.create("[hang]", more);
            session.wait_progress(&turn, "the text", |it| !it.text.is_empty());
            by.cancel(&session, &turn);
            expect_cancelled(&session.finish(&turn));
            expect_goes_on(&session, &id);

            let turn = session.turn(&json!(id), "[hang]", Value::Null);
            session.wait_progress(&turn, "the text", |it| !it.text.is_empty());
            by.cancel(&session, &turn);
            // It has been answered; a second cancellation does nothing.
            by.cancel(&session, &turn);
            expect_cancelled(&session.finish(&turn));
            expect_goes_on(&session, &id);
        }
    }
    stub.wait_for("that all four models twice were left alone", |log| {
        log.iter().filter(|it| it.outcome == Fate::Aborted).count() == 8
    });
    assert!(session.shutdown().success());
}

#[test]
fn cancel_ends_turn_while_tool_call_is_pending() {
    let stub = Stub::start(script());
    let sandbox = Sandbox::new();
    let session = start(&sandbox, &stub);
    session.hold_tools();
    for (name, set) in sets() {
        for by in WAYS {
            let id = format!("{name} {by:?}");
            let mut more = set.clone();
            more["conversationId"] = id.as_str().into();
            let turn = session.create("[multi]", more);
            let call = session.expect_request("conversation/invokeClientTool");
            by.cancel(&session, &turn);
            expect_cancelled(&session.finish(&turn));
            expect_withdrawn(&session, &call);
            // The editor answers too late.
            session.answer(&call, Ok(tool_answer(Ok("late".to_owned()))));
            expect_goes_on(&session, &id);

            // The next tool call of the conversation is none of that.
            let turn = session.turn(&json!(id), "[custom]", Value::Null);
            let call = session.expect_request("conversation/invokeClientTool");
            session.answer(&call, Ok(tool_answer(Ok("in time".to_owned()))));
            let outcome = session.finish(&turn);
            outcome.expect_success();
            assert_eq!(outcome.progress.text, "Ticket: in time");
        }
    }
    assert!(stub.turns().iter().all(|it| !it.results.iter().any(|it| it.contains("late"))));
    assert!(session.shutdown().success());
}

#[test]
fn cancel_ends_turn_while_sub_agent_tool_call_is_pending() {
    let stub = Stub::start(Script::default().rule(delegation()));
    let sandbox = Sandbox::new();
    let session = with_helper(&sandbox, &stub);
    session.hold_tools();
    for (name, set) in [("lead", json!({})), ("agent", tools(&["fetch_ticket", "run_subagent"]))] {
        for by in WAYS {
            let id = format!("{name} {by:?}");
            let mut more = set.clone();
            more["conversationId"] = id.as_str().into();
            let turn = session.create("[delegate]", more);
            let call = session.expect_request("conversation/invokeClientTool");
            assert_ne!(call.params["conversationId"], id);
            by.cancel(&session, &turn);
            let outcome = session.finish(&turn);
            assert!(outcome.answer.is_ok(), "{outcome:#?}");
            assert_eq!(outcome.progress.ends.len(), 1, "{outcome:#?}");
            assert_eq!(outcome.progress.ends[0]["cancellationReason"], "CancelledByUser");
            expect_withdrawn(&session, &call);
            session.answer(&call, Ok(tool_answer(Ok("late".to_owned()))));
            expect_goes_on(&session, &id);
        }
    }
    assert!(session.shutdown().success());
}

#[test]
fn cancel_ends_turn_while_confirmation_is_pending() {
    let stub = Stub::start(script());
    let sandbox = Sandbox::new();
    let session = start(&sandbox, &stub);
    session.hold_requests("conversation/invokeClientToolConfirmation");
    for (name, set) in sets() {
        for by in WAYS {
            let id = format!("{name} {by:?}");
            let mut more = set.clone();
            more["conversationId"] = id.as_str().into();
            let turn = session.create("[run]", more);
            let call = session.expect_request("conversation/invokeClientToolConfirmation");
            by.cancel(&session, &turn);
            expect_cancelled(&session.finish(&turn));
            expect_withdrawn(&session, &call);
            session.answer(&call, Ok(json!([{"result": "accept"}, null])));
            expect_goes_on(&session, &id);
        }
    }
    assert!(session.tool_calls().is_empty(), "what was not confirmed does not run");
    assert!(session.shutdown().success());
}

#[test]
fn cancel_removes_turn_queued_behind_another() {
    let stub = Stub::start(script());
    let sandbox = Sandbox::new();
    let session = start(&sandbox, &stub);
    let firsts: Vec<(String, Turn)> = sets()
        .into_iter()
        .map(|(name, mut more)| {
            more["conversationId"] = name.into();
            (name.to_owned(), session.create("[wait]", more))
        })
        .collect();
    let mut fourths = Vec::new();
    for (name, first) in &firsts {
        session.wait_progress(first, "its first line", |it| !it.text.is_empty());
        let ask = |question: &str| session.turn(&json!(name), question, Value::Null);
        let (second, third, fourth) = (ask("second"), ask("third"), ask("fourth"));
        By::Request.cancel(&session, &second);
        By::Token.cancel(&session, &third);
        expect_never_begun(&session.finish(&second));
        expect_never_begun(&session.finish(&third));
        assert!(session.progress(&first.token).ends.is_empty(), "the first one goes on");
        fourths.push(fourth);
    }
    stub.open("go");
    for ((name, first), fourth) in firsts.iter().zip(&fourths) {
        session.finish(first).expect_success();
        session.finish(fourth).expect_success();
        expect_goes_on(&session, name);
    }
    assert!(stub.turns().iter().all(|it| it.user != "second" && it.user != "third"));
    assert!(session.shutdown().success());
}

#[test]
fn cancel_removes_turn_before_partition_is_ready() {
    let stub = Stub::start(script());
    let sandbox = Sandbox::new();
    let session = start(&sandbox, &stub);
    for by in WAYS {
        let id = format!("{by:?}");
        let more = json!({"conversationId": id, "lspool": {"tools": [id]}});
        let turn = session.create("never asked", more.clone());
        by.cancel(&session, &turn);
        expect_never_begun(&session.finish(&turn));
        session.finish(&session.create("asked", more)).expect_success();
        expect_goes_on(&session, &id);
    }
    assert!(stub.turns().iter().all(|it| it.user != "never asked"));
    assert_eq!(servers(&session), 3);
    assert!(session.shutdown().success());
}
