//! How many instructions lspool executes for each message: a figure that does not depend on what else the machine does.
//!
//! Counted by `valgrind --tool=callgrind`, as the difference of a longer and a shorter run. It is a guard: more than a
//! tenth above what was committed fails. Figures hold for one kind of processor and one version of the compiler.

use std::{collections::BTreeMap, error::Error, fs};

use tempfile::TempDir;

use crate::{
    Lspool, Peer,
    load::{SCENARIOS, Scenario, as_f64},
    session::Session,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.json");
/// Of these, so many are sent, and four times as many.
const COUNTED: [(&str, usize); 12] = [
    ("round trip, 200 B", 1_000),
    ("flood, 200 B", 10_000),
    ("64 requests in flight", 5_000),
    ("didChange", 10_000),
    ("2 partitions: reports, 200 B", 10_000),
    ("group of 2: round trip, 200 B", 1_000),
    ("group of 2: hover of both", 1_000),
    ("group of 2: didChange", 10_000),
    ("references, 200 B", 1_000),
    ("elsewhere: references, 200 B", 1_000),
    ("completion, 64 KB", 100),
    ("elsewhere: completion, 64 KB", 100),
];
const ROOM: f64 = 1.1;

/// Counts scenarios whose name contains `only`.
pub(crate) fn run(update: bool, only: &str) -> Result<()> {
    let committed: BTreeMap<String, f64> = match fs::read(COMMITTED) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(_) if update => BTreeMap::new(),
        Err(error) => return Err(format!("{COMMITTED}: {error}").into()),
    };
    let mut counted = committed.clone();
    let mut worse = Vec::new();
    let lspool = Lspool::new()?;
    for (name, n) in COUNTED.into_iter().filter(|(name, _)| name.contains(only)) {
        let scenario = SCENARIOS.iter().find(|it| it.name == name).ok_or("there is no such scenario")?;
        let each =
            (count(&lspool.peer, scenario, 4 * n)? - count(&lspool.peer, scenario, n)?) / as_f64(3 * n);
        let before = committed.get(name).copied();
        let change = before.map_or("new".to_owned(), |it| format!("{:+.1} %", (each / it - 1.0) * 100.0));
        println!("{name:<30} {each:>8.0} instructions {change:>10}");
        if before.is_some_and(|it| each > it * ROOM) {
            worse.push(name);
        }
        counted.insert(name.to_owned(), each.round());
    }
    if update {
        fs::write(COMMITTED, serde_json::to_string_pretty(&counted)? + "\n")?;
    } else if !worse.is_empty() {
        return Err(format!("more than a tenth above benches/instructions.json: {}", worse.join("; ")).into());
    }
    Ok(())
}

fn count(lspool: &Peer, scenario: &Scenario, n: usize) -> Result<f64> {
    count_by(&lspool.command(scenario.setting), |command| {
        let mut session = Session::start_in(scenario.setting, command)?;
        session.run(scenario, n)?;
        session.end()
    })
}

/// The instructions of a command from its start to its end.
pub(crate) fn count_by(command: &[String], session: impl FnOnce(&[String]) -> Result<()>) -> Result<f64> {
    let folder = TempDir::new()?;
    let file = folder.path().join("out");
    let out = format!("--callgrind-out-file={}", file.display());
    let valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--trace-children=no", &out];
    let command = [&valgrind.map(str::to_owned)[..], command].concat();
    session(&command).map_err(|it| format!("valgrind is wanted for this: {it}"))?;
    let profile = fs::read_to_string(file)?;
    let total = profile.lines().find_map(|it| it.strip_prefix("summary:").or(it.strip_prefix("totals:")));
    Ok(total.ok_or("callgrind has counted nothing")?.trim().parse()?)
}
