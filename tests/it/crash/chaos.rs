//! The server is killed again and again, at any moment. `LSPOOL_KILLS` says how often, and `LSPOOL_SEED` when.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
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

/// One call in a round: if a server dies with two calls, of which it has not reported the second, the second is
/// unknown, and the model decides whether to repeat it.
fn script() -> Script {
    let ticket = |key: &str| json!({"key": key});
    let shell = json!({"command": "make", "explanation": "make", "isBackground": false});
    Script::default()
        .rule(Rule::on("<talk").then(Round::text("Line of an answer to {user}.\n").repeat(12).chunks(20, 15)))
        .rule(
            Rule::on("<tool")
                .then(Round::text("Asking.\n").repeat(3).chunks(8, 20).call("fetch_ticket", ticket("A")))
                .then(Round::text("Again.\n").repeat(3).chunks(7, 20).call("fetch_ticket", ticket("B")))
                .then(Round::text("And again.\n").chunks(7, 20).call("fetch_ticket", ticket("C")))
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

/// The question of a turn, counted from 1.
fn question(name: &str, n: usize) -> String {
    let kinds: &[&str] = match name {
        "lead" => &["<talk", "<tool", "<shell", "<read"],
        "tickets" => &["<tool", "<talk", "<read"],
        _ => &["<shell", "<tool"],
    };
    format!("q {}-{name}-{n}>", kinds[n % kinds.len()])
}

/// The end of a conversation: its visible turns, the called tools, and the request to the model.
#[derive(Debug, PartialEq)]
struct Ended {
    texts: Vec<String>,
    calls: Vec<String>,
    history: Vec<String>,
}

/// Plays all conversations. `goes_on` gets the number of a conversation and of its turns, and decides whether it
/// continues.
fn play(scene: &Scene, goes_on: &(dyn Fn(usize, usize) -> bool + Sync)) -> Vec<Ended> {
    let session = &scene.session;
    std::thread::scope(|scope| {
        let playing = [0, 1, 2].map(|at| {
            let (name, mut create) = conversations()[at].clone();
            scope.spawn(move || {
                create["conversationId"] = json!(name);
                let mut texts = Vec::new();
                while goes_on(at, texts.len()) {
                    let question = question(name, texts.len() + 1);
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

/// Kills one process or all, again and again, at any time.
fn kill(session: &Copilot, random: &mut Random, kills: u64) {
    // A process that has never been ready is not restarted without a limit.
    for (name, _) in conversations() {
        session.wait_notification("$/progress", |it| it["value"]["conversationId"] == name);
    }
    let heard = || {
        let all = session.notifications("$/progress");
        conversations().map(|(name, _)| all.iter().filter(|it| it["value"]["conversationId"] == name).count())
    };
    let (mut n, mut before) = (0, [0; 3]);
    while n < kills {
        // Mostly when every conversation has got on since, so that there is an end to it.
        let now = heard();
        if (0..3).any(|at| now[at] <= before[at]) && random.below(300) > 0 {
            sleep(Duration::from_millis(20));
            continue;
        }
        sleep(Duration::from_millis(random.below(1200)));
        before = heard();
        let living = servers(session);
        let one = usize::try_from(random.below(8)).expect("a small number");
        match living.get(one) {
            Some(it) => it.kill(Signal::KILL),
            None => living.iter().for_each(|it| it.kill(Signal::KILL)),
        }
        n += u64::from(!living.is_empty());
    }
}

fn scene() -> Scene {
    let scene = Scene::new(script());
    scene.sandbox.write("a.txt", "one\ntwo\n");
    scene.session.on_tool("fetch_ticket", |input| Ok(format!("ticket {}", input["key"])));
    scene
}

#[test]
fn conversations_survive_kills_at_random_moments() {
    let kills = number("LSPOOL_KILLS").unwrap_or(5);
    let seed = number("LSPOOL_SEED").unwrap_or(1);
    println!("LSPOOL_KILLS={kills} LSPOOL_SEED={seed}");
    let disturbed = scene();
    let (is_done, start) = (AtomicBool::new(false), Instant::now());
    let ends = std::thread::scope(|scope| {
        scope.spawn(|| {
            kill(&disturbed.session, &mut Random(seed), kills);
            is_done.store(true, Relaxed);
        });
        // Some turns more, to see what all that has left behind.
        play(&disturbed, &|_, turns| turns < 4 || !is_done.load(Relaxed))
    });
    let turns: Vec<usize> = ends.iter().map(|it| it.texts.len()).collect();
    println!("{kills} kills over {turns:?} turns in {:.1} s", start.elapsed().as_secs_f64());
    assert!(disturbed.session.shutdown().success());

    let calm = scene();
    let expected = play(&calm, &|at, had| had < turns[at]);
    assert!(calm.session.shutdown().success());
    for (was, is) in expected.iter().zip(&ends) {
        for (was, is) in was.history.iter().zip(&is.history) {
            assert_eq!(is, was);
        }
        assert_eq!(is, was);
    }
}
