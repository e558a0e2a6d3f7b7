//! All of lspool except the operating system, with an editor and servers in which everything goes wrong: they die
//! within a message, hang, stop reading, send slowly, answer twice, send junk, cannot start, and their configuration
//! is read again in the middle. The results are checked against the knowledge of the editor and the servers.
//!
//! The seed of a run decides who does what at which moment. The runtime decides partly who of several ready tasks
//! continues first, so a run may have to be repeated. A failing run prints its seed: `LSPOOL_SEED=…` plays that run
//! alone. `LSPOOL_FAULTS=100000` plays until that many faults have happened.

mod editor;
mod ground;
mod server;

use std::{cell::RefCell, rc::Rc, sync::Arc};

use tokio::{sync::mpsc, task::LocalSet};

use self::ground::{Ground, Plant, Rng, Searched, Watched};
use super::*;
use crate::core::{Identity, Proxy};

/// Faults in a run of the tests.
const USUALLY: u64 = 500;

/// Plays one run; gives how many faults happened in it.
fn play(seed: u64) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        let mut rng = Rng::new(seed);
        let ground: Ground = Rc::new(RefCell::new(ground::Inner::new(&mut rng)));
        let settings = ground::shell_settings(&mut rng);
        let core = Watched::new(Proxy::new(Identity { pid: 77, started: seed }), ground.clone());
        let plant = Plant::new(ground.clone(), rng.fork());
        let search = Arc::new(Searched::new(&ground));
        let pipe = rng.pipe();
        let (mouth, stdin) = duplex(pipe);
        let (stdout, ear) = duplex(rng.pipe());
        let driver = Driver::new(core, plant, search, settings);
        let (_signals, listening) = mpsc::channel(1);
        let editor_rng = rng.fork();
        let everybody = LocalSet::new();
        let editor = async {
            let editor = editor::Editor::new(ground.clone(), editor_rng, ear, mouth);
            editor.run().await
        };
        let served = async {
            let run = Box::pin(driver.run(Box::new(stdin), Box::new(stdout), listening));
            LocalSet::new().run_until(run).await
        };
        let both = Box::pin(async { tokio::join!(served, editor) });
        let Ok((code, end)) = everybody.run_until(timeout(Duration::from_hours(48), both)).await else {
            panic!("deadlock: {}", ground.borrow().told());
        };
        ground.borrow().check_end(code, end);
        ground.borrow().faults
    })
}

/// The same, with the seed in the failure.
fn play_telling(seed: u64) -> u64 {
    let played = std::panic::catch_unwind(|| play(seed));
    played.unwrap_or_else(|panic| {
        eprintln!("LSPOOL_SEED={seed} plays this again, LSPOOL_TRACE=1 shows what is said");
        std::panic::resume_unwind(panic)
    })
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn each_request_is_answered_once_despite_any_fault() {
    if let Some(seed) = number("LSPOOL_SEED") {
        play_telling(seed);
        return;
    }
    let wanted = number("LSPOOL_FAULTS").unwrap_or(USUALLY);
    let (mut faults, mut seed) = (0, 0);
    while faults < wanted {
        seed += 1;
        faults += play_telling(seed);
    }
    println!("{faults} faults in {seed} runs");
}
