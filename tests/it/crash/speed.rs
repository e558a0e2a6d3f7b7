//! How long a turn stands still over a death, beside how long the bare server takes to its first text. Nothing here
//! depends on the time; the numbers are printed.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::json;

use super::{CONTINUE, Scene, expect_whole, servers};
use crate::support::{
    copilot::{Copilot, Options},
    real::Sandbox,
    stub::{Round, Rule, Script, Stub},
};

#[test]
fn from_the_death_to_the_next_text() {
    let script = || {
        Script::default()
            .rule(Rule::on("[b]").then(Round::text("One.\n").gate_after_text("go").more("Two.\n")))
    };
    let (mut bare, mut through) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let stub = Stub::start(script().continue_text(CONTINUE));
        let sandbox = Sandbox::new();
        let start = Instant::now();
        let session = Copilot::start(sandbox.copilot(&stub), Options::in_workspace(sandbox.workspace()));
        session.register_tools(&["fetch_ticket"]).expect("the schema is good");
        let turn = session.create("[b]", json!({"conversationId": "mine"}));
        session.wait_progress(&turn, "text", |it| it.text == "One.\n");
        bare.push(start.elapsed());
        stub.open("go");
        session.finish(&turn).expect_success();
        assert!(session.shutdown().success());

        let scene = Scene::new(script());
        let turn = scene.session.create("[b]", json!({"conversationId": "mine"}));
        scene.session.wait_progress(&turn, "text", |it| it.text == "One.\n");
        let start = Instant::now();
        servers(&scene.session)[0].kill(Signal::KILL);
        scene.stub.open("go");
        scene.session.wait_progress(&turn, "text", |it| it.text.contains("Two"));
        through.push(start.elapsed());
        expect_whole(&scene.session.finish(&turn));
        assert!(scene.session.shutdown().success());
    }
    println!("bare server to its first text: {bare:.2?}; from the death to the next text: {through:.2?}");
}
