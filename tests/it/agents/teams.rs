//! Teams, with the real Copilot server.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{expect_whole, servers};
use crate::support::{
    copilot::{Copilot, Options},
    real::{self, Sandbox},
    stub::{Chat, Round, Rule, Said, Script, Stub},
};
use lspool::core::CONTINUE;

/// Ann writes to Bob, who writes to Cy, who writes to the lead.
fn script() -> Script {
    let member = |name: &str, kind: &str| json!({"name": name, "agentType": kind, "initialPrompt": format!("{name}-first")});
    let team = json!({"name": "abc", "members": [member("ann", "explore"), member("bob", "bash"), member("cy", "explore")]});
    let send = |to: &str, text: &str| json!({"to": to, "text": text});
    Script::default()
        .rule(
            Rule::on("[lead]")
                .then(Round::default().call("create_team", team))
                .then(Round::text("They work.\n")),
        )
        .rule(Rule::on("[again]").then(Round::text("Back.\n")))
        .rule(Rule::on("cy-to-lead").then(Round::text("The team is done.\n")))
        .rule(
            Rule::on("ann-first")
                .then(Round::text("ann writes\n").call("send_message", send("bob", "ann-to-bob")))
                .then(Round::text("ann waits\n")),
        )
        .rule(Rule::on("bob-first").then(Round::text("bob waits\n")))
        .rule(Rule::on("cy-first").then(Round::text("cy waits\n")))
        .rule(
            Rule::on("ann-to-bob")
                .then(Round::default().call("send_message", send("cy", "bob-to-cy")))
                .then(Round::text("bob has written\n")),
        )
        .rule(
            Rule::on("bob-to-cy")
                .then(Round::default().call("send_message", send("lead", "cy-to-lead")).gate("cy"))
                .then(Round::text("cy has written\n")),
        )
}

fn start(sandbox: &Sandbox, stub: &Stub) -> Copilot {
    let file = sandbox.home().join("lspool.toml");
    // The text of a message decides, so the recording must contain it.
    let patient =
        "record_texts = true\n[server.copilot]\nmax_restarts = 60000\nbackoff = { initial = \"0s\" }\n";
    std::fs::write(&file, patient).expect("the home is ours");
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), stub);
    command.arg("--config").arg(file).arg("--").arg(real::copilot()).arg("--stdio");
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    session.register_tools(&["run_in_terminal", "ide_look"]).expect("the schemas are good");
    session
}

fn asked(chat: &Chat, text: &str) -> usize {
    let of_user = |it: &&Said| matches!(it, Said::User(said) if said.contains(text));
    chat.history.iter().filter(of_user).count()
}

/// Each agent gets each message once.
fn expect_read_once(stub: &Stub) {
    let turns = stub.turns();
    for (name, texts) in [
        ("ann", vec!["ann-first"]),
        ("bob", vec!["bob-first", "ann-to-bob"]),
        ("cy", vec!["cy-first", "bob-to-cy"]),
    ] {
        let own = format!("You are {name}, a member");
        let last = turns.iter().rfind(|it| asked(it, &own) > 0).unwrap_or_else(|| panic!("{name} was asked"));
        for text in texts {
            assert_eq!(asked(last, text), 1, "{text} in {:?}", last.history);
        }
        assert!(
            last.tools.contains(&"send_message".to_owned())
                && !last.tools.contains(&"create_team".to_owned())
        );
    }
    let lead = turns.iter().rfind(|it| it.user.contains("cy-to-lead")).expect("the lead was told");
    for text in ["bob waits", "cy waits", "cy-to-lead"] {
        assert_eq!(lead.user.matches(&format!("\n{text}")).count(), 1, "{text} in {}", lead.user);
    }
    let told = turns.iter().filter(|it| it.user.contains("cy-to-lead")).count();
    assert_eq!(told, 1);
}

fn wait_for_cy(stub: &Stub) {
    stub.wait_for("what Bob has written", |log| {
        log.iter().any(|it| it.chat.as_ref().is_some_and(|chat| chat.user.contains("bob-to-cy")))
    });
}

#[test]
fn team_members_exchange_messages_across_crashes_real() {
    for kills in [false, true] {
        let sandbox = Sandbox::new();
        let stub = Stub::start(script().continue_text(CONTINUE));
        let session = start(&sandbox, &stub);
        let lead = json!({"conversationId": "lead", "lspool": {"lead": true}});
        let turn = session.create("[lead] go", lead);
        wait_for_cy(&stub);
        if kills {
            for it in servers(&session) {
                it.kill(Signal::KILL);
            }
        }
        stub.open("cy");
        let outcome = session.finish(&turn);
        expect_whole(&outcome);
        assert_eq!(outcome.progress.text, "They work.\nThe team is done.\n");
        expect_read_once(&stub);
        let turn = session.turn(&json!("lead"), "[history]", json!({}));
        session.finish(&turn).expect_success();
        assert!(session.shutdown().success());
    }
}

#[test]
fn team_members_exchange_messages_across_lspool_restart_real() {
    let sandbox = Sandbox::new();
    let stub = Stub::start(script().continue_text(CONTINUE));
    {
        let session = start(&sandbox, &stub);
        session.create("[lead] go", json!({"conversationId": "lead", "lspool": {"lead": true}}));
        wait_for_cy(&stub);
        // Another one cannot have it meanwhile.
        let other = start(&sandbox, &stub);
        let script = json!({"conversationId": "other", "lspool": {"lead": true}});
        let outcome = other.finish(&other.create("[lead] go", script));
        let said: Vec<&Value> = outcome.progress.tool_calls.iter().map(|it| &it["error"]).collect();
        assert!(format!("{said:?}").contains("another lspool owns it"), "{:?}", outcome.progress.tool_calls);
        assert!(other.shutdown().success());
        session.forgive_unanswered();
        session.kill(Signal::KILL);
        session.wait_exit();
    }
    stub.open("cy");
    let session = start(&sandbox, &stub);
    let outcome = session.finish(
        &session.create("[again] hello", json!({"conversationId": "next", "lspool": {"lead": true}})),
    );
    expect_whole(&outcome);
    assert_eq!(outcome.progress.text, "Back.\nThe team is done.\n");
    expect_read_once(&stub);
    assert!(session.shutdown().success());
}
