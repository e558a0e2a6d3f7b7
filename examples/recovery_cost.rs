//! How long the death of the real Copilot server holds up a turn, beside how long the bare server takes to its first
//! text: `cargo build --release && cargo run --release --example recovery_cost [-- RUNS [TRACES]]`.
//!
//! The models are the stub of the tests, which answers at once. Each run takes every figure once, in a home of its
//! own that servers have started in before, so that what else the machine does falls upon all of them alike. TRACES is a
//! folder for lspool's logs.

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
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use lspool::core::CONTINUE;
use rustix::process::Signal;
use serde_json::{Value, json};

use support::{
    copilot::{Copilot, Options, Turn, tool},
    processes::Process,
    real::{self, Sandbox},
    stub::{Round, Rule, Script, Stub},
};

const FIGURES: [&str; 9] = [
    "bare server, from its start to its first text",
    "bare server, from SIGKILL to the end of its stdout",
    "all tools: from SIGKILL to the next text",
    "all tools, with a spare: the same",
    "restricted: from SIGKILL to the next text",
    "restricted, with a spare: the same",
    "new tool set: from the create to its first text",
    "new tool set, with a spare: the same",
    "living server: from the create to its first text",
];

type Figures = [Duration; FIGURES.len()];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let runs = arguments.next().map_or(9, |it| it.parse().expect("RUNS is a number"));
    let traces = arguments.next().map(PathBuf::from);
    println!("medians of {runs} runs in ms, and their 10th and 90th percentiles; load {}", load());
    let all: Vec<Figures> = (0..runs).map(|run| figures(run, traces.as_deref())).collect();
    let column = |at: usize| {
        let mut column: Vec<f64> = all.iter().map(|it| it[at].as_secs_f64() * 1e3).collect();
        column.sort_by(f64::total_cmp);
        column
    };
    for (at, name) in FIGURES.iter().enumerate() {
        let column = column(at);
        let [low, median, high] = [0.1, 0.5, 0.9].map(|it| quantile(&column, it));
        println!("{name:<50} {median:7.0}   {low:5.0} - {high:5.0}");
    }
    let mut more: Vec<f64> = all.iter().map(|it| (it[2].as_secs_f64() - it[0].as_secs_f64()) * 1e3).collect();
    more.sort_by(f64::total_cmp);
    println!("beyond the bare start of the same run, all tools: median {:+.0}", quantile(&more, 0.5));
    println!("load at the end: {}", load());
}

/// Of sorted values: the nearest one.
fn quantile(sorted: &[f64], at: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * at).round() as usize]
}

fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!("{} on {cores} cores", load.split(' ').take(2).collect::<Vec<_>>().join(" "))
}

fn figures(run: usize, traces: Option<&Path>) -> Figures {
    let place = Place::new();
    let trace = |name: &str| traces.map(|it| it.join(format!("{run}-{name}.log")));
    // The first start in a home takes longer.
    place.bare();
    let (dies, dies_restricted, new, living) = place.through("", [1, 2], trace("without"));
    let (bare, end) = place.bare();
    let (spare, spare_restricted, spare_new, _) = place.through("warm_spares = 1", [3, 4], trace("with"));
    [bare, end, dies, spare, dies_restricted, spare_restricted, new, spare_new, living]
}

/// A home, and models.
struct Place {
    stub: Stub,
    sandbox: Sandbox,
}

impl Place {
    fn new() -> Place {
        let rule = |n: usize| {
            Rule::on(format!("[{n}]"))
                .then(Round::text("One.\n").gate_after_text(format!("gate {n}")).more("Two.\n"))
        };
        let script = Script::default().rule(rule(1)).rule(rule(2)).rule(rule(3)).rule(rule(4));
        Place { stub: Stub::start(script.continue_text(CONTINUE)), sandbox: Sandbox::new() }
    }

    /// Everything in one burst, as nobody can be faster.
    fn bare(&self) -> (Duration, Duration) {
        let start = Instant::now();
        let options = Options::in_workspace(self.sandbox.workspace());
        let settings = json!({"settings": options.settings});
        let initialize = options.initialize();
        let session = Copilot::start_silent(self.sandbox.copilot(&self.stub), options);
        let asked = session.request("initialize", initialize);
        session.notify("initialized", json!({}));
        session.notify("workspace/didChangeConfiguration", settings);
        let tools = session.request("conversation/registerTools", json!({"tools": [tool("fetch_ticket")]}));
        let turn = session.create("Hello.", json!({}));
        let took = text_after(&session, &turn, "", start);
        session.wait(&asked).expect("the server initializes");
        session.wait(&tools).expect("the schema is good");
        session.finish(&turn).expect_success();
        self.expect_tools(&["fetch_ticket"]);
        session.ok("checkStatus", json!({}));
        let killed = Instant::now();
        session.kill(Signal::KILL);
        session.wait_closed();
        let end = killed.elapsed();
        session.wait_exit();
        (took, end)
    }

    /// Deaths of the process with all tools and of a restricted one; the start of the latter; a turn in between.
    fn through(
        &self,
        keys: &str,
        turns: [usize; 2],
        trace: Option<PathBuf>,
    ) -> (Duration, Duration, Duration, Duration) {
        let config = self.sandbox.home().join("lspool.toml");
        fs::write(&config, format!("[server.copilot]\n{keys}\n")).expect("the home is ours");
        let session =
            Copilot::start(self.command(&config, trace), Options::in_workspace(self.sandbox.workspace()));
        session.register_tools(&["fetch_ticket"]).expect("the schema is good");
        let spares = usize::from(!keys.is_empty());

        await_servers(&session, 1 + spares);
        let dies = self.death(&session, turns[0], json!({}), |_| 0);
        let living = Instant::now();
        let turn = session.create("Hello.", json!({}));
        let living = text_after(&session, &turn, "", living);
        session.finish(&turn).expect_success();

        await_servers(&session, 1 + spares);
        let restricted = json!({"lspool": {"tools": ["fetch_ticket"]}});
        let new = Instant::now();
        let turn = session.create("Hello.", restricted.clone());
        let new = text_after(&session, &turn, "", new);
        session.finish(&turn).expect_success();
        await_servers(&session, 2 + spares);
        // In the order of their start, the last ones are spares.
        let restricted = self.death(&session, turns[1], restricted, |n| n - 1 - spares);
        assert!(session.shutdown().success(), "lspool ends well");
        (dies, restricted, new, living)
    }

    /// What the model was offered last.
    fn expect_tools(&self, expected: &[&str]) {
        let offered = self.stub.turns().pop().map(|it| it.tools).unwrap_or_default();
        assert!(expected.iter().all(|it| offered.iter().any(|name| name == it)), "{offered:?}");
    }

    fn command(&self, config: &Path, trace: Option<PathBuf>) -> Command {
        let own = std::env::current_exe().expect("this program has a path");
        let lspool = own.ancestors().nth(2).expect("it lies in examples").join("lspool");
        let mut command = self.sandbox.signed_in_command(lspool, &self.stub);
        command.arg("--config").arg(config);
        if let Some(trace) = trace {
            command.arg("--log-level").arg("trace").arg("--log-file").arg(trace);
        }
        command.arg("--").arg(real::copilot()).arg("--stdio");
        command
    }

    /// The process that serves the new conversation `n` dies in the middle of its turn.
    fn death(&self, session: &Copilot, n: usize, more: Value, which: impl Fn(usize) -> usize) -> Duration {
        let before = servers(session);
        let turn = session.create(&format!("[{n}]"), more);
        session.wait_progress(&turn, "text", |it| it.text == "One.\n");
        let victim = &before[which(before.len())];
        let start = Instant::now();
        victim.kill(Signal::KILL);
        self.stub.open(&format!("gate {n}"));
        let took = text_after(session, &turn, "One.\n", start);
        let outcome = session.finish(&turn);
        outcome.expect_success();
        assert_eq!(outcome.progress.text, "One.\nTwo.\n", "nothing is lost, nothing comes twice");
        self.expect_tools(&["fetch_ticket"]);
        took
    }
}

/// From `start` to more text than this.
fn text_after(session: &Copilot, turn: &Turn, text: &str, start: Instant) -> Duration {
    session.wait_progress(turn, "text", |it| it.text.len() > text.len());
    start.elapsed()
}

fn servers(session: &Copilot) -> Vec<Process> {
    let server = real::copilot().display().to_string();
    let mut all: Vec<_> =
        session.mark().processes().into_iter().filter(|it| it.command.starts_with(&server)).collect();
    all.sort_by_key(|it| it.pid);
    all
}

/// Waits until there are so many, and they have nothing more to do.
fn await_servers(session: &Copilot, n: usize) {
    let mut last = None;
    loop {
        let busy: u64 = servers(session).iter().map(busy).sum();
        if servers(session).len() == n && last.is_some_and(|last| busy <= last + 2) {
            return;
        }
        last = Some(busy);
        thread::sleep(Duration::from_millis(1500));
    }
}

/// For how long a process has computed, in hundredths of a second.
fn busy(process: &Process) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum()
}
