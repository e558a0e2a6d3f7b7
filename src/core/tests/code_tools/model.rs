//! Random files, edits, servers, and deaths: **each answer is true, or says that it is not sure**.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde_json::{Value, json};

use super::{
    edits::is_whole_rename,
    world::{Publishes, World, errors, found},
};

/// How many sessions are played. `LSPOOL_MODEL=N` plays more.
const SESSIONS: u64 = 40;

/// How many things happen in each.
const STEPS: u64 = 14;

const WORDS: [&str; 6] = ["use foo", "use foo", "# foo", "use bar", "bad", "pass"];

fn text(world: &mut World, lines: u64) -> String {
    let n = world.rng.below(lines);
    let word = |world: &mut World| {
        let n = usize::try_from(world.rng.below(WORDS.len() as u64)).unwrap();
        WORDS[n]
    };
    (0..n).map(|_| word(world)).collect::<Vec<_>>().join("\n")
}

fn edit(world: &mut World) {
    let n = world.rng.below(8);
    let name = format!("m{n}.py");
    match world.rng.below(6) {
        0 if n > 0 => world.remove(&name),
        1 if n > 0 && world.is_unsaved(&name) => world.discard(&name),
        2 if world.is_unsaved(&name) => world.save(&name),
        way => {
            let rest = text(world, 5);
            // The first file defines the symbol.
            let text = if n == 0 { format!("def foo\n{rest}") } else { rest };
            match way {
                3 => world.type_text(&name, &text),
                _ => world.write(&name, &text),
            }
        }
    }
}

/// The states of the disk since a call began.
fn states(world: &World, since: usize) -> &[BTreeMap<PathBuf, String>] {
    &world.history[since..]
}

fn check_references(world: &World, since: usize, answer: &Value) -> Result<(), String> {
    let it = &answer["structured"];
    if it["ok"] != true {
        // The symbol is always there, and so is the server, sooner or later.
        let code = it["error"]["code"].as_str().unwrap_or_default();
        return match code {
            "changed" | "server_failed" | "timeout" => Ok(()),
            _ => Err(format!("failed: {answer}")),
        };
    }
    if it["complete"] != true {
        return Ok(());
    }
    let all = it["references"].as_array().into_iter().flatten();
    let said: BTreeSet<(PathBuf, usize)> = all
        .map(|it| {
            let file = PathBuf::from("/ws").join(it["file"].as_str().unwrap());
            (file, usize::try_from(it["line"].as_u64().unwrap()).unwrap() - 1)
        })
        .collect();
    let truths: Vec<_> = states(world, since).iter().map(|it| found(it, "foo")).collect();
    match truths.contains(&said) {
        true => Ok(()),
        false => Err(format!("wrong and complete\nsaid {said:?}\ntruths {truths:?}")),
    }
}

fn check_diagnostics(world: &World, since: usize, file: &str, answer: &Value) -> Result<(), String> {
    let it = &answer["structured"];
    if it["ok"] != true {
        let code = it["error"]["code"].as_str().unwrap_or_default();
        return match code {
            "changed" | "server_failed" | "timeout" | "no_file" => Ok(()),
            _ => Err(format!("failed: {answer}")),
        };
    }
    let report = &it["files"][0];
    if report["freshness"] == "unknown" {
        return Ok(());
    }
    let all = report["diagnostics"].as_array().into_iter().flatten();
    let said: Vec<usize> = all.map(|it| usize::try_from(it["line"].as_u64().unwrap()).unwrap() - 1).collect();
    let path = PathBuf::from("/ws").join(file);
    let truths: Vec<_> = states(world, since).iter().map(|it| it.get(&path).map(|it| errors(it))).collect();
    match truths.contains(&Some(said.clone())) {
        true => Ok(()),
        false => Err(format!("wrong and {}\nsaid {said:?}\ntruths {truths:?}", report["freshness"])),
    }
}

fn check_rename(world: &World, n_writes: usize, answer: &Value) -> Result<(), String> {
    let it = &answer["structured"];
    let writes = &world.writes[n_writes..];
    if let Some(write) = writes.iter().find(|it| !is_whole_rename(it, "foo", "foo2")) {
        return Err(format!("not the whole rename: {write:?}"));
    }
    match (it["ok"] == true, it["error"]["code"].as_str().unwrap_or_default()) {
        (true, _) if it["applied"] == true && writes.len() == 1 => Ok(()),
        (false, "changed" | "server_failed" | "timeout" | "loading" | "no_symbol" | "no_file")
            if writes.is_empty() =>
        {
            Ok(())
        }
        (_, _) => Err(format!("{} writes: {answer}", writes.len())),
    }
}

fn play(seed: u64) -> Result<[usize; 3], String> {
    let mut world = World::new(seed).file("m0.py", "def foo");
    for n in 1..world.rng.below(7) {
        let text = text(&mut world, 5);
        world.write(&format!("m{n}.py"), &text);
    }
    world.server.index_takes = [1, 500, 3_000, 20_000][usize::try_from(world.rng.below(4)).unwrap()];
    world.server.watch_takes = [1, 300, 5_000][usize::try_from(world.rng.below(3)).unwrap()];
    world.server.reports_work = world.rng.below(2) == 0;
    world.server.watches = world.rng.below(6) > 0;
    let ways = [
        Publishes::OnRequest,
        Publishes::Versions,
        Publishes::Plain,
        Publishes::BeforeAnswers,
        Publishes::OldVersions,
        Publishes::Never,
    ];
    world.server.publishes = ways[usize::try_from(world.rng.below(6)).unwrap()];
    let (mut n_sure, mut n_all) = (0, 0);
    for _ in 0..STEPS {
        match world.rng.below(9) {
            0..3 => edit(&mut world),
            3 => {
                let wait = world.rng.below(3_000);
                world.pass(wait);
            }
            4 if world.rng.below(3) == 0 => world.kill(),
            step => {
                let since = world.history.len() - 1;
                let names = world.names();
                let file = names[usize::try_from(world.rng.below(names.len() as u64)).unwrap()].clone();
                let (tool, arguments) = match step {
                    5 => ("lsp_diagnostics", json!({"files": [file]})),
                    6 => ("lsp_references", json!({"symbol": "foo", "file": "m0.py", "max_results": 1000})),
                    8 => ("lsp_rename", json!({"symbol": "foo", "file": "m0.py", "new_name": "foo2"})),
                    _ => ("lsp_references", json!({"symbol": "foo", "max_results": 1000})),
                };
                let n_writes = world.writes.len();
                let id = world.begin(tool, &arguments);
                for n in 0..800 {
                    if world.answer(id).is_some() {
                        break;
                    }
                    let wait = 20 + world.rng.below(200);
                    world.pass(wait);
                    if n < 10 && world.rng.below(12) == 0 {
                        edit(&mut world);
                    }
                    if n < 10 && world.rng.below(60) == 0 {
                        world.kill();
                    }
                }
                let answer = world.answer(id).ok_or("not answered")?["result"].clone();
                let checked = match tool {
                    "lsp_diagnostics" => check_diagnostics(&world, since, &file, &answer),
                    "lsp_rename" => check_rename(&world, n_writes, &answer),
                    _ => check_references(&world, since, &answer),
                };
                checked
                    .map_err(|why| format!("seed {seed}: {tool} {arguments}: {why}\n{:?}", world.server))?;
                n_all += 1;
                let it = &answer["structured"];
                let is_sure = it["complete"] == true
                    || it["applied"] == true
                    || it["files"][0]["freshness"].as_str().is_some_and(|it| it != "unknown");
                n_sure += usize::from(is_sure);
                if tool == "lsp_rename" {
                    // The name is the same in each step.
                    for name in world.names() {
                        let text = world.text(&name).unwrap_or_default().replace("foo2", "foo");
                        match world.is_unsaved(&name) {
                            true => world.type_text(&name, &text),
                            false => world.write(&name, &text),
                        }
                    }
                }
            }
        }
    }
    Ok([n_sure, n_all, world.writes.len()])
}

#[test]
fn answers_are_true_or_say_that_they_are_not_sure() {
    let sessions = std::env::var("LSPOOL_MODEL").ok().and_then(|it| it.parse().ok()).unwrap_or(SESSIONS);
    let first = std::env::var("LSPOOL_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    let (mut n_sure, mut n_all, mut n_written) = (0, 0, 0);
    for seed in first..first + sessions {
        match play(seed) {
            Ok([sure, all, written]) => {
                n_sure += sure;
                n_all += all;
                n_written += written;
            }
            Err(why) => panic!("{why}"),
        }
    }
    // Doubt without a reason would pass, too.
    assert!(n_sure * 10 >= n_all * 6, "{n_sure} of {n_all} answers were sure");
    // A single session may have none.
    assert!(sessions < SESSIONS || n_written > 10, "{n_written} renames in {sessions} sessions");
}
