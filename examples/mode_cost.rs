//! What one more tool set costs that a chat mode keeps conversations to, with the real Copilot server:
//! `cargo build --release && cargo run --release --example mode_cost [-- RUNS]`.
//!
//! The models are the stub of the tests, which answers at once. Each run has an lspool for twenty sets, and another one for
//! a single set with as many conversations and turns: what a conversation holds is no cost of a set.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a program whose output is the figures"
)]

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use support::{
    copilot::{Copilot, Options, tool},
    processes::Process,
    real::{self, Sandbox},
    stub::{Script, Stub},
};

const SETS: usize = 20;

/// What one run has measured.
struct Run {
    one: f64,
    twenty: f64,
    /// From a create to the first request to the model: in a set that is new, and in one that is not.
    new: Vec<f64>,
    known: Vec<f64>,
}

fn main() {
    let runs = std::env::args().nth(1).map_or(5, |it| it.parse().expect("RUNS is a number"));
    let all: Vec<Run> = (0..runs).map(|_| run()).collect();
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (one, twenty) =
        (median(all.iter().map(|it| it.one).collect()), median(all.iter().map(|it| it.twenty).collect()));
    let of = |which: fn(&Run) -> &Vec<f64>| median(all.iter().flat_map(which).copied().collect());
    let (new, known) = (of(|it| &it.new), of(|it| &it.known));
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("medians of {runs} runs; load {}", load.split(' ').next().unwrap_or_default());
    println!(
        "resident, the whole tree: one set {one:.0} MiB, twenty sets {twenty:.0} MiB, ratio {:.3}",
        twenty / one
    );
    println!(
        "create to the first model request: known set {known:.1} ms, new set {new:.1} ms, more {:.1} ms",
        new - known
    );
}

fn run() -> Run {
    let (one, _, _) = session(1);
    let (twenty, new, known) = session(SETS);
    Run { one, twenty, new, known }
}

/// Two conversations of a turn for each of twenty sets, or as many of one. Resident MiB, and the two times in ms.
fn session(sets: usize) -> (f64, Vec<f64>, Vec<f64>) {
    let sandbox = Sandbox::new();
    let stub = Stub::start(Script::default());
    let config = sandbox.home().join("lspool.toml");
    fs::write(&config, "[server.copilot]\nisolation = \"mode\"\n").expect("the home is ours");
    let lspool = std::env::current_exe().expect("there is one");
    let lspool = lspool.ancestors().nth(2).expect("target/release").join("lspool");
    let mut command = sandbox.signed_in_command(lspool, &stub);
    command.arg("--config").arg(config).arg("--").arg(real::copilot()).arg("--stdio");
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    let tools: Vec<Value> = (0..=SETS).map(|n| tool(&format!("tool_{n}"))).collect();
    session.ok("conversation/registerTools", json!({"tools": tools}));
    session.check_signed_in();
    let create = |n: usize| {
        let tools = [format!("tool_{n}"), "list_dir".to_owned()];
        let before = stub.turns().len();
        let start = Instant::now();
        let turn = session.create("hello", json!({"lspool": {"tools": tools}}));
        stub.wait_for("the model is asked", |log| log.iter().filter(|it| it.is_turn()).count() > before);
        let took = start.elapsed();
        session.finish(&turn).expect_success();
        took.as_secs_f64() * 1e3
    };
    // What only the first conversations cost.
    for _ in 0..10 {
        create(SETS);
    }
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for n in 0..SETS {
        let n = if sets == 1 { SETS } else { n };
        new.push(create(n));
        known.push(create(n));
    }
    thread::sleep(Duration::from_secs(1));
    let resident: u64 = session.mark().processes().iter().map(Process::resident_kib).sum();
    assert!(session.shutdown().success());
    (resident as f64 / 1024.0, new, known)
}
