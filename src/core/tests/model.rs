//! Properties of the core under any behavior of an editor, servers and the system, checked against small models of
//! these peers that know which messages may and must come.
//!
//! `PROPTEST_CASES` sets the number of runs. A failing run is shrunk to the necessary steps, and `MODEL_TRACE=1`
//! shows its messages.

mod editor;
mod message;
mod people;
mod script;
mod server;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proptest::{
    prelude::*,
    test_runner::{RngSeed, TestRunner},
};

use self::{
    script::{Editor, Script, script},
    world::World,
};

/// Plays a script, and then lets everybody come to an end. `MODEL_TRACE` prints what happened until it failed.
fn run(script: &Script) -> World {
    let mut world = World::new(script);
    let played = catch_unwind(AssertUnwindSafe(|| play(&mut world, script)));
    if let Err(panic) = played {
        if std::env::var_os("MODEL_TRACE").is_some() {
            eprintln!("{}\n", world.trace.join("\n"));
        }
        resume_unwind(panic);
    }
    world
}

fn play(world: &mut World, script: &Script) {
    script.steps.iter().for_each(|it| world.step(it));
    world.settle();
    if world.is_over() {
        return;
    }
    world.check_editor();
    world.check_servers();
    world.check_people();
    world.check_tables();
    if script.polite {
        world.step(&script::Step::Editor(Editor::Shutdown { id: 0 }));
        world.until_quiet();
        assert!(world.editor.open.is_empty(), "shutdown is not answered");
        world.step(&script::Step::Editor(Editor::Exit));
    } else {
        world.step(&script::Step::Editor(Editor::EndOfFile));
        world.until_quiet();
    }
    assert!(world.is_over(), "it does not end");
}

/// `PROPTEST_CASES` of them, each time others; or some seconds' worth, the same each time: what chance finds is found
/// in a campaign, not in a change that has nothing to do with it.
fn runs(usually: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => ProptestConfig { cases: usually, rng_seed: RngSeed::Fixed(1), ..config },
    }
}

/// Runs hundreds of scripts until enough faults have happened. Each hundred has a seed, which a failure prints.
#[test]
fn survives_requested_number_of_faults() {
    let number = |name| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let wanted = number("LSPOOL_FAULTS").unwrap_or(500);
    let first = number("LSPOOL_SEED").unwrap_or(0);
    let (mut faults, mut seed) = (0, first);
    while faults < wanted {
        let config = ProptestConfig { cases: 100, rng_seed: RngSeed::Fixed(seed), ..runs(100) };
        let counted = std::cell::Cell::new(0);
        let played = TestRunner::new(config).run(&script(), |script| {
            counted.set(counted.get() + run(&script).faults);
            Ok(())
        });
        assert!(played.is_ok(), "LSPOOL_SEED={seed} plays this again: {}", played.unwrap_err());
        faults += counted.get();
        seed += 1;
    }
    println!("{faults} faults in {} hundred scripts", seed - first);
}

proptest! {
    #![proptest_config(runs(200))]

    #[test]
    fn core_keeps_invariants_in_any_script(script in script()) {
        run(&script);
    }
}

proptest! {
    #![proptest_config(runs(40))]

    #[test]
    fn same_events_have_same_effects(script in script()) {
        prop_assert_eq!(run(&script).trace, run(&script).trace);
    }
}
