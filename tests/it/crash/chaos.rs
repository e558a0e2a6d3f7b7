//! The server is killed again and again, at any moment. `LSPOOL_KILLS` says how often, and `LSPOOL_SEED` when.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Scene, calls, expect_whole, plain, servers};
use crate::{
    partitions::tools,
    support::{
        copilot::Copilot,
        stub::{Round, Rule, Script},
    },
};

/// Numbers that look like chance, and are the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The conversations: one in the primary, two in partitions.
fn conversations() -> [(&'static str, Value); 3] {
    [
        ("lead", json!({})),
        ("tickets", tools(&["fetch_ticket", "read_file"])),
        ("terminal", tools(&["run_in_terminal", "fetch_ticket", "list_dir"])),
    ]
}

fn script() -> Script {
    let ticket = |key: &str| json!({"key": key});
    let shell = json!({"command": "make", "explanation": "make", "isBackground": false});
    Script::default()
        .rule(Rule::on("<talk").then(Round::text("Line of an answer to {user}.\n").repeat(12).chunks(20, 15)))
        .rule(
            Rule::on("<tool")
                .then(Round::text("Asking.\n").repeat(3).chunks(8, 20).call("fetch_ticket", ticket("A")))
                .then(
                    Round::text("Again.\n")
                        .repeat(3)
                        .chunks(7, 20)
                        .call("fetch_ticket", ticket("B"))
                        .call("fetch_ticket", ticket("C")),
                )
                .then(Round::text("It was {results}.\n").repeat(2).chunks(9, 10)),
        )
        .rule(
            Rule::on("<shell")
                .then(Round::text("Running.\n").chunks(8, 20).call("run_in_terminal", shell))
                .then(Round::text("Made {results}.\n").chunks(9, 10)),
        )
        .rule(
            Rule::on("<read")
                .then(
                    Round::text("Reading.\n")
                        .call("read_file", json!({"filePath": "{ws}/a.txt", "startLine": 1, "endLine": 2})),
                )
                .then(Round::text("Read.\n").repeat(4).chunks(3, 20)),
        )
}

/// What the turns of a conversation ask.
fn questions(name: &str, turns: u64) -> Vec<String> {
    let kinds: &[&str] = match name {
        "lead" => &["<talk", "<tool", "<shell", "<read"],
        "tickets" => &["<tool", "<talk", "<read"],
        _ => &["<shell", "<tool"],
    };
    let kind = |n: u64| kinds[usize::try_from(n).expect("a small number") % kinds.len()];
    (1..=turns).map(|n| format!("{}-{name}-{n}", kind(n))).map(|it| format!("q {it}>")).collect()
}

/// How a conversation ended: what its turns showed, which tools were called, what the model is shown of it.
#[derive(Debug, PartialEq)]
struct Ended {
    texts: Vec<String>,
    calls: Vec<String>,
    history: Vec<String>,
}

fn play(scene: &Scene, turns: u64) -> Vec<Ended> {
    let session = &scene.session;
    std::thread::scope(|scope| {
        let playing = conversations().map(|(name, mut create)| {
            scope.spawn(move || {
                create["conversationId"] = json!(name);
                let mut texts = Vec::new();
                for question in questions(name, turns) {
                    let turn = match texts.is_empty() {
                        true => session.create(&question, create.clone()),
                        false => session.turn(&json!(name), &question, json!({})),
                    };
                    let outcome = session.finish(&turn);
                    expect_whole(&outcome);
                    texts.push(outcome.progress.text);
                }
                texts
            })
        });
        let texts = playing.map(|it| it.join().expect("a conversation ends well"));
        conversations().into_iter().zip(texts).map(|((name, _), texts)| ended(scene, name, texts)).collect()
    })
}

fn ended(scene: &Scene, name: &str, texts: Vec<String>) -> Ended {
    let session = &scene.session;
    let last = format!("last of {name}");
    session.finish(&session.turn(&json!(name), &last, json!({}))).expect_success();
    let chat = scene.stub.turns().into_iter().rfind(|it| it.user == last).expect("it was asked");
    let workspace = scene.sandbox.workspace().display().to_string();
    let history = plain(&chat.history).iter().map(|it| it.replace(&workspace, "WORKSPACE")).collect();
    Ended { texts, calls: calls(&session.tool_calls(), name), history }
}

/// Kills one process or all, after any time, until it has been done so often; gives how often it was.
fn kill(session: &Copilot, random: &mut Random, kills: u64, is_over: &dyn Fn() -> bool) -> u64 {
    // A process that has never been ready is not brought back for ever.
    for (name, _) in conversations() {
        session.wait_notification("$/progress", |it| it["value"]["conversationId"] == name);
    }
    let (mut n, mut heard) = (0, 0);
    while n < kills && !is_over() {
        // Mostly when something has come of the last restart, so that there is an end to it.
        let now = session.notifications("$/progress").len();
        if now <= heard && random.below(200) > 0 {
            sleep(Duration::from_millis(10));
            continue;
        }
        sleep(Duration::from_millis(random.below(1500)));
        heard = session.notifications("$/progress").len();
        let living = servers(session);
        let Some(one) = usize::try_from(random.below(8)).ok() else { continue };
        match living.get(one) {
            Some(it) => it.kill(Signal::KILL),
            None => living.iter().for_each(|it| it.kill(Signal::KILL)),
        }
        n += u64::from(!living.is_empty());
    }
    n
}

#[test]
fn whenever_it_dies() {
    let kills = number("LSPOOL_KILLS").unwrap_or(20);
    let seed = number("LSPOOL_SEED").unwrap_or(1);
    let turns = (kills / 4).max(6);
    println!("LSPOOL_KILLS={kills} LSPOOL_SEED={seed}: {turns} turns of each conversation");
    let keys = "max_restarts = 60000\nbackoff = { initial = \"0s\" }";
    let run = |kills: u64| {
        let scene = Scene::configured(keys, script(), |it| it);
        scene.sandbox.write("a.txt", "one\ntwo\n");
        scene.session.on_tool("fetch_ticket", |input| Ok(format!("ticket {}", input["key"])));
        let over = std::sync::atomic::AtomicBool::new(false);
        let start = Instant::now();
        let (ended, killed) = std::thread::scope(|scope| {
            let killing = scope.spawn(|| {
                let is_over = || over.load(std::sync::atomic::Ordering::Relaxed);
                kill(&scene.session, &mut Random(seed), kills, &is_over)
            });
            let ended = play(&scene, turns);
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            (ended, killing.join().expect("killing is simple"))
        });
        println!("{killed} kills, {:.1} s", start.elapsed().as_secs_f64());
        assert!(scene.session.shutdown().success());
        ended
    };
    let undisturbed = run(0);
    let disturbed = run(kills);
    for (was, is) in undisturbed.iter().zip(&disturbed) {
        for (was, is) in was.history.iter().zip(&is.history) {
            assert_eq!(is, was);
        }
        assert_eq!(is, was);
    }
}
