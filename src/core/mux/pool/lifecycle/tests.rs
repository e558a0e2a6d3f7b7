use proptest::{collection::vec, prelude::*};

use super::*;
use crate::config::Profile;

fn policy() -> Policy {
    Policy {
        backoff: Backoff { jitter: 0, ..Profile::Resilient.policy().backoff },
        ..Profile::Resilient.policy()
    }
}

fn ready(now: Instant) -> Lifecycle {
    let mut it = Lifecycle::new(now);
    it.start(now);
    it.spawn(now, Handshake::Own, now);
    it.spawned(now);
    assert_eq!(it.ready(now), Some(Handshake::Own));
    it
}

#[test]
fn crash_loop_ends_although_handshakes_succeed() {
    let mut now = Instant::now();
    let (mut it, policy) = (ready(now), policy());
    let mut waits = Vec::new();
    loop {
        now += Duration::from_secs(2);
        let death = it.exited(now, it.generation(), &policy, Demand::Somebody, End::Crash, 0);
        let LifecycleState::Restarting { at } = it.state() else {
            assert_eq!((death, it.state()), (Some(Death::Fails), LifecycleState::Failed));
            break;
        };
        waits.push((at - now).as_secs());
        now = at;
        it.spawn(now, Handshake::Own, now);
        it.spawned(now);
        it.ready(now);
    }
    assert_eq!(waits, [0, 1, 2, 4, 8]);
    assert_eq!(it.restart(now), Todo::Nothing);
    assert!(it.is_due(now), "what has failed is started by whoever says so");
}

#[test]
fn restart_budget_recovers_as_window_slides() {
    let mut now = Instant::now();
    let (mut it, policy) = (ready(now), policy());
    for _ in 0..50 {
        assert_eq!(
            it.exited(now, it.generation(), &policy, Demand::Somebody, End::Crash, 0),
            Some(Death::Restarts)
        );
        now += policy.restart_window / 4;
        it.spawn(now, Handshake::Own, now);
        it.spawned(now);
        it.ready(now);
    }
    assert_eq!(it.n_restarts(), 50);
}

#[test]
fn server_that_was_never_ready_starts_at_most_twice() {
    let now = Instant::now();
    let mut it = Lifecycle::new(now);
    it.start(now);
    it.spawn(now, Handshake::Editor, now);
    it.spawned(now);
    it.note_failed_start();
    assert_eq!(
        it.exited(now, it.generation(), &policy(), Demand::Somebody, End::Crash, 0),
        Some(Death::Restarts)
    );
    it.spawn(now, Handshake::Own, now);
    it.note_failed_start();
    assert_eq!(
        it.exited(now, it.generation(), &policy(), Demand::Somebody, End::Crash, 0),
        Some(Death::Fails)
    );
    assert!(it.has_failed_to_start());
    it.try_again(now);
    it.start(now);
    assert!(it.is_due(now));
}

#[test]
fn server_killed_from_outside_before_it_was_ready_has_its_whole_budget() {
    let mut now = Instant::now();
    let (mut it, policy) = (Lifecycle::new(now), policy());
    it.start(now);
    for _ in 0..policy.max_restarts {
        it.spawn(now, Handshake::Own, now);
        it.spawned(now);
        assert_eq!(
            it.exited(now, it.generation(), &policy, Demand::Somebody, End::Crash, 0),
            Some(Death::Restarts)
        );
        now += it.wait(now).unwrap();
    }
    it.spawn(now, Handshake::Own, now);
    assert_eq!(it.exited(now, it.generation(), &policy, Demand::Somebody, End::Crash, 0), Some(Death::Fails));
}

#[test]
fn unneeded_process_restarts_only_with_policy_always() {
    let now = Instant::now();
    let (mut it, mut policy) = (ready(now), policy());
    assert_eq!(it.exited(now, it.generation(), &policy, Demand::Nobody, End::Crash, 0), Some(Death::Stops));
    it = ready(now);
    policy.restart = Restart::Always;
    assert_eq!(
        it.exited(now, it.generation(), &policy, Demand::Nobody, End::Crash, 0),
        Some(Death::Restarts)
    );
    it = ready(now);
    policy.restart = Restart::Never;
    assert_eq!(it.exited(now, it.generation(), &policy, Demand::Somebody, End::Crash, 0), Some(Death::Fails));
}

#[test]
fn backoff_grows_to_maximum_within_jitter() {
    let backoff = Profile::Resilient.policy().backoff;
    for chance in [0, 1, 250, 500, u64::MAX] {
        for (n, usual) in [1, 2, 4, 8, 16, 32, 32, 32].into_iter().enumerate() {
            let (wait, usual) = (wait(&backoff, n, chance), Duration::from_secs(usual));
            assert!(usual * 3 / 4 <= wait && wait <= (usual * 5 / 4).min(backoff.max), "{n}: {wait:?}");
        }
    }
    let none = Backoff { initial: Duration::ZERO, ..backoff };
    assert_eq!(wait(&none, 7, 3), Duration::ZERO);
}

/// Possible events of a backend, in any order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    Stop,
    Restart,
    Fail,
    /// `capacity` spawns the due process.
    Spawn,
    Spawned,
    Ready,
    Silent,
    Heard,
    /// The current process exits, on request or by a crash.
    Exits {
        wanted: bool,
    },
    /// An older process exits.
    LateExit(u32),
    Pass(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Start),
        2 => Just(Step::Stop),
        2 => Just(Step::Restart),
        1 => Just(Step::Fail),
        8 => Just(Step::Spawn),
        6 => Just(Step::Spawned),
        6 => Just(Step::Ready),
        1 => Just(Step::Silent),
        1 => Just(Step::Heard),
        6 => any::<bool>().prop_map(|wanted| Step::Exits { wanted }),
        2 => (1..4_u32).prop_map(Step::LateExit),
        3 => any::<u16>().prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn lifecycle_never_runs_two_processes(steps in vec(step(), 0..60), never in any::<bool>()) {
        let mut now = Instant::now();
        let mut it = Lifecycle::new(now);
        let policy = Policy { restart: if never { Restart::Never } else { Restart::OnFailure }, ..policy() };
        // The real state: the living process, and the last command of a user.
        let mut lives: Option<Generation> = None;
        let mut said: Option<Step> = None;
        for step in steps {
            match step {
                Step::Start => it.start(now),
                Step::Stop => {
                    prop_assert_eq!(it.stop(now) == Todo::Terminate, lives.is_some());
                    said = Some(step);
                }
                Step::Restart => {
                    prop_assert_eq!(it.restart(now) == Todo::Terminate, lives.is_some());
                    said = Some(step);
                }
                Step::Fail => {
                    prop_assert_eq!(it.fail(now) == Todo::Terminate, lives.is_some());
                    said = None;
                }
                Step::Spawn => if it.is_due(now) {
                    prop_assert!(lives.is_none(), "a second process");
                    prop_assert!(!matches!(said, Some(Step::Stop)) || it.state() == LifecycleState::Waiting, "stopped, and starts");
                    it.spawn(now, Handshake::Own, now);
                    lives = Some(it.generation());
                    said = None;
                },
                Step::Spawned => drop(it.spawned(now)),
                Step::Ready => drop(it.ready(now)),
                Step::Silent => it.silent(now),
                Step::Heard => it.heard(now),
                Step::Exits { wanted } => if let Some(generation) = lives.take() {
                    let (before, death) = (it.state(), it.exited(now, generation, &policy, if wanted { Demand::Somebody } else { Demand::Nobody }, End::Crash, 0));
                    let asked = matches!(before, LifecycleState::Stopped | LifecycleState::Failed | LifecycleState::Restarting { .. } | LifecycleState::Waiting);
                    prop_assert_eq!(death == Some(Death::Expected), asked, "{:?} {:?}", before, death);
                    prop_assert!(!matches!(said, Some(Step::Stop)) || matches!(it.state(), LifecycleState::Stopped | LifecycleState::Waiting));
                    prop_assert!(!matches!(said, Some(Step::Restart)) || it.is_due(now) || it.state() == LifecycleState::Stopped);
                },
                Step::LateExit(ago) => if let Some(older) = it.generation().0.checked_sub(ago) {
                    let before = format!("{it:?}");
                    prop_assert_eq!(it.exited(now, Generation(older), &policy, Demand::Somebody, End::Crash, 0), None);
                    prop_assert_eq!(format!("{it:?}"), before);
                },
                Step::Pass(millis) => now += Duration::from_millis(millis.into()),
            }
            prop_assert_eq!(it.is_alive(), lives.is_some());
        }
        // A restart starts it from any state.
        it.restart(now);
        if let Some(generation) = lives {
            it.exited(now, generation, &policy, Demand::Nobody, End::Crash, 0);
        }
        prop_assert!(it.is_due(now), "{:?}", it);
    }
}

#[test]
fn server_without_a_way_to_it_spends_no_budget() {
    let mut now = Instant::now();
    let (mut it, policy) = (ready(now), Policy { max_restarts: 1, ..policy() });
    let mut waits = Vec::new();
    for _ in 0..8 {
        let death = it.exited(
            now,
            it.generation(),
            &policy,
            Demand::Somebody,
            End::Unreachable { longest: Duration::from_secs(30) },
            0,
        );
        let LifecycleState::Restarting { at } = it.state() else { panic!("{death:?}") };
        waits.push((at - now).as_secs());
        now = at;
        it.spawn(now, Handshake::Own, now);
        it.spawned(now);
    }
    assert_eq!(waits, [0, 1, 2, 4, 8, 16, 30, 30]);
    let mut wait_after = |ready: Duration| {
        it.ready(now);
        now += ready;
        it.exited(
            now,
            it.generation(),
            &policy,
            Demand::Somebody,
            End::Unreachable { longest: Duration::from_secs(30) },
            0,
        );
        let LifecycleState::Restarting { at } = it.state() else { panic!("{it:?}") };
        let wait = at - now;
        now = at;
        it.spawn(now, Handshake::Own, now);
        it.spawned(now);
        wait.as_secs()
    };
    assert_eq!(
        wait_after(Duration::from_secs(1)),
        30,
        "one that ends at once is not started at once for ever"
    );
    assert_eq!(wait_after(STABLE), 0);
    it.ready(now);
    assert_eq!(
        it.exited(now, it.generation(), &policy, Demand::Somebody, End::Crash, 0),
        Some(Death::Restarts)
    );
    assert_eq!(it.n_crashes(), 1);
}
