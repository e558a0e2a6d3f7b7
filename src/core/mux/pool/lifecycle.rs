//! The lifecycle of one backend, with the next action for its process: a state machine that knows no messages.
//!
//! ```text
//!            start                    spawned                answers initialize
//!  Stopped ─────────▶ Waiting ──room──▶ Spawning ─▶ Initializing ─▶ Ready ◀──heard── Degraded
//!     ▲                  ▲                   │            │          │ └──silent──────▶ │
//!     │                  │                   └────────────┴──exit────┴─────────exit────┘
//!     │ stop             │ delay over, and the old process is gone     │
//!     │ (from anywhere)  └───────────── Restarting ◀── budget allows ──┤
//!     │                                     ▲                          │
//!     │                       restart (from anywhere)    budget spent, or no start possible
//!     └──────────────────────────────── Failed ◀──────────────────────┘
//! ```
//!
//! The status shows them as `stopped`, `starting` (`Waiting`, `Spawning`, `Initializing`), `ready`, `degraded`,
//! `restarting`, `failed`.
//!
//! `capacity` spawns the process of a backend that waits for room or for its delay.
//!
//! **At most one process of a backend exists**: a flag beside the state says whether it does, and nothing is spawned
//! while it does. The generation of an older process makes its events harmless.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    config::{Backoff, Policy, Restart},
    core::event::Generation,
};

/// The origin of a process's `initialize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// The editor, whose messages pass: for the first process of the primary.
    Editor,
    /// lspool, with the session.
    Own,
}

/// The state of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifecycleState {
    /// No process is wanted. The old one may still be ending.
    Stopped,
    /// `max_processes` exist; an idle one ends to make room.
    Waiting,
    Spawning {
        handshake: Handshake,
        /// The deadline for being ready. `None` once it has passed and the process is being ended.
        deadline: Option<Instant>,
    },
    Initializing {
        handshake: Handshake,
        /// The deadline for being ready.
        deadline: Option<Instant>,
    },
    Ready,
    /// It owes an answer, is silent, and was probed.
    Degraded,
    /// Another process starts after this time, when the old one is gone.
    Restarting {
        at: Instant,
    },
    /// It starts again only on request.
    Failed,
}

impl LifecycleState {
    /// The word in the status.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LifecycleState::Stopped => "stopped",
            LifecycleState::Waiting
            | LifecycleState::Spawning { .. }
            | LifecycleState::Initializing { .. } => "starting",
            LifecycleState::Ready => "ready",
            LifecycleState::Degraded => "degraded",
            LifecycleState::Restarting { .. } => "restarting",
            LifecycleState::Failed => "failed",
        }
    }
}

/// The action for the process after a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    Nothing,
    Terminate,
}

/// The consequence of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// It was requested.
    Expected,
    /// Another process starts.
    Restarts,
    /// No process starts, but one may.
    Stops,
    /// No process starts again.
    Fails,
}

/// Why a process is gone that was not asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Crash,
    /// It runs elsewhere, and there is no way to it. **That is no fault of the server**, so it spends no budget.
    Unreachable {
        /// The longest wait between two attempts.
        longest: Duration,
    },
}

/// After so long, the way to a server elsewhere is not to blame for earlier attempts.
const STABLE: Duration = Duration::from_secs(10);

/// How attempts to get to a server elsewhere follow each other: at once, then after 1 s, doubled up to the
/// longest.
fn connecting(policy: &Policy, max: Duration) -> Policy {
    let initial = Duration::from_secs(1);
    let backoff = Backoff { initial, max, multiplier: 2000, jitter: policy.backoff.jitter };
    Policy { max_restarts: usize::MAX, immediate_first: true, backoff, ..policy.clone() }
}

/// The demand for another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    Nobody,
    Somebody,
}

/// The lifecycle of one backend.
#[derive(Clone, Debug)]
pub(crate) struct Lifecycle {
    state: LifecycleState,
    since: Instant,
    generation: Generation,
    /// Whether its process exists.
    alive: bool,
    has_been_ready: bool,
    /// Whether the last process died unasked, without a successor yet.
    died: bool,
    budget: Budget,
    /// Attempts to get to a server elsewhere, since it was last there for a while.
    attempts: Budget,
    n_restarts: u64,
    /// How many processes have died unasked.
    n_crashes: u64,
    /// How many processes have failed by themselves before any was ready.
    n_failed_starts: u32,
    /// What the last process has found where it is to run.
    server: Found,
}

/// What a process has found where its server is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Something,
    Nothing,
}

/// After so many failed starts without a success the server fails: another attempt is useless.
const HOPELESS: u32 = 2;

impl Lifecycle {
    pub(crate) fn new(now: Instant) -> Lifecycle {
        Lifecycle {
            state: LifecycleState::Stopped,
            since: now,
            generation: Generation(0),
            alive: false,
            has_been_ready: false,
            died: false,
            budget: Budget::default(),
            attempts: Budget::default(),
            n_restarts: 0,
            n_crashes: 0,
            n_failed_starts: 0,
            server: Found::Something,
        }
    }

    pub(crate) fn state(&self) -> LifecycleState {
        self.state
    }

    /// Since when it is in this state.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive
    }

    /// The number of restarts.
    pub(crate) fn n_restarts(&self) -> u64 {
        self.n_restarts
    }

    /// How many processes have died unasked, since lspool started.
    pub(crate) fn n_crashes(&self) -> u64 {
        self.n_crashes
    }

    /// When the next process is started, if that is for later.
    pub(crate) fn next_start(&self) -> Option<Instant> {
        match self.state {
            LifecycleState::Restarting { at } => Some(at),
            LifecycleState::Stopped
            | LifecycleState::Waiting
            | LifecycleState::Spawning { .. }
            | LifecycleState::Initializing { .. }
            | LifecycleState::Ready
            | LifecycleState::Degraded
            | LifecycleState::Failed => None,
        }
    }

    /// How often it has crashed, in words that continue a sentence, if it is given up because of that.
    pub(super) fn spent(&self, policy: &Policy) -> Option<String> {
        let is_spent = policy.max_restarts > 0 && self.budget.deaths.len() >= policy.max_restarts;
        (self.state == LifecycleState::Failed && is_spent).then(|| {
            let window = policy.restart_window.as_secs_f64();
            format!("; it crashed {} times within {window} s", policy.max_restarts + 1)
        })
    }

    /// The time until the next attempt to get to it, which is not limited in number.
    fn wait_for_way(&mut self, now: Instant, policy: &Policy, chance: u64) -> Option<Duration> {
        self.attempts.spend(now, policy, chance)
    }

    /// Whether any process of it has ever been ready.
    pub(crate) fn has_been_ready(&self) -> bool {
        self.has_been_ready
    }

    /// The number of crashes within the window, at the last crash.
    pub(super) fn n_deaths(&self) -> usize {
        self.budget.deaths.len()
    }

    /// The time until the next start, if it is delayed.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.next_start()?.checked_duration_since(now)
    }

    /// Whether it has failed before it was ever ready.
    pub(crate) fn has_failed_to_start(&self) -> bool {
        self.state == LifecycleState::Failed && !self.has_been_ready
    }

    /// Whether it died so recently that it must not be forgotten.
    pub(crate) fn has_died(&self, now: Instant, window: Duration) -> bool {
        self.budget.deaths.back().is_some_and(|at| now.duration_since(*at) <= window)
    }

    fn enter(&mut self, now: Instant, state: LifecycleState) {
        self.state = state;
        self.since = now;
    }

    /// Starts it on demand. A failed backend stays failed.
    pub(crate) fn start(&mut self, now: Instant) {
        if self.state == LifecycleState::Stopped {
            self.enter(now, LifecycleState::Waiting);
        }
    }

    /// Whether it may spawn now, if there is room.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let due = match self.state {
            LifecycleState::Waiting => true,
            LifecycleState::Restarting { at } => at <= now,
            LifecycleState::Stopped
            | LifecycleState::Spawning { .. }
            | LifecycleState::Initializing { .. }
            | LifecycleState::Ready
            | LifecycleState::Degraded
            | LifecycleState::Failed => false,
        };
        due && !self.alive
    }

    /// Notes that there is a way to a server elsewhere.
    pub(super) fn note_way(&mut self) {
        self.attempts = Budget::default();
    }

    /// Lets the next process start now.
    pub(super) fn hasten(&mut self, now: Instant) {
        if let LifecycleState::Restarting { at } = &mut self.state {
            *at = now.min(*at);
        }
    }

    /// Notes that a process spawns. It must be ready by the deadline.
    pub(crate) fn spawn(&mut self, now: Instant, handshake: Handshake, deadline: Instant) {
        debug_assert!(self.is_due(now), "{self:?}");
        let takes_a_place = matches!(self.state, LifecycleState::Restarting { .. }) || self.died;
        self.n_restarts += u64::from(takes_a_place);
        (self.died, self.server) = (false, Found::Something);
        self.generation = Generation(self.generation.0 + 1);
        self.alive = true;
        self.enter(now, LifecycleState::Spawning { handshake, deadline: Some(deadline) });
    }

    /// Notes that the process runs. Returns the handshake that follows, if any.
    pub(crate) fn spawned(&mut self, now: Instant) -> Option<Handshake> {
        let LifecycleState::Spawning { handshake, deadline } = self.state else { return None };
        self.enter(now, LifecycleState::Initializing { handshake, deadline });
        Some(handshake)
    }

    /// Extends the deadline for `initialize`, because the process has shown that it lives.
    pub(super) fn put_off(&mut self, until: Instant) {
        if let LifecycleState::Initializing { deadline: Some(deadline), .. } = &mut self.state {
            *deadline = until;
        }
    }

    /// Notes that the process ended by itself before it was ready.
    pub(super) fn note_failed_start(&mut self) {
        self.n_failed_starts += 1;
    }

    /// Notes that the server is not installed where it is to run.
    pub(super) fn note_missing(&mut self) {
        self.server = Found::Nothing;
    }

    /// Lets a backend that has failed to start try again.
    pub(crate) fn try_again(&mut self, now: Instant) {
        if self.has_failed_to_start() {
            self.reset_restarts();
            let is_ending = LifecycleState::Restarting { at: now };
            self.enter(now, if self.alive { is_ending } else { LifecycleState::Stopped });
        }
    }

    /// Notes that the deadline for being ready has passed.
    pub(super) fn overdue(&mut self) {
        if let LifecycleState::Spawning { deadline, .. } | LifecycleState::Initializing { deadline, .. } =
            &mut self.state
        {
            *deadline = None;
        }
    }

    /// Notes the answer to `initialize`. Returns its origin, if it was expected.
    pub(crate) fn ready(&mut self, now: Instant) -> Option<Handshake> {
        let LifecycleState::Initializing { handshake, .. } = self.state else { return None };
        self.has_been_ready = true;
        self.enter(now, LifecycleState::Ready);
        Some(handshake)
    }

    /// Notes that the probe got no answer.
    pub(crate) fn silent(&mut self, now: Instant) {
        if self.state == LifecycleState::Ready {
            self.enter(now, LifecycleState::Degraded);
        }
    }

    /// Notes a message.
    pub(crate) fn heard(&mut self, now: Instant) {
        if self.state == LifecycleState::Degraded {
            self.enter(now, LifecycleState::Ready);
        }
    }

    /// Stops it.
    pub(crate) fn stop(&mut self, now: Instant) -> Todo {
        self.enter(now, LifecycleState::Stopped);
        if self.alive { Todo::Terminate } else { Todo::Nothing }
    }

    /// Resets the restart budget.
    pub(crate) fn reset_restarts(&mut self) {
        self.budget = Budget::default();
        self.n_failed_starts = 0;
    }

    /// Replaces its process in any state. Does not count as a failure.
    pub(crate) fn restart(&mut self, now: Instant) -> Todo {
        match self.alive {
            true => self.enter(now, LifecycleState::Restarting { at: now }),
            false => self.enter(now, LifecycleState::Waiting),
        }
        if self.alive { Todo::Terminate } else { Todo::Nothing }
    }

    /// Fails it.
    pub(crate) fn fail(&mut self, now: Instant) -> Todo {
        self.enter(now, LifecycleState::Failed);
        if self.alive { Todo::Terminate } else { Todo::Nothing }
    }

    /// Fails it without a process, because none can start.
    pub(super) fn fail_to_start(&mut self, now: Instant) {
        self.alive = false;
        self.enter(now, LifecycleState::Failed);
    }

    /// Notes that a process exited, or failed to start. `demand` is the demand for the next one. `None`: it was an
    /// older process, whose exit changes nothing.
    pub(crate) fn exited(
        &mut self,
        now: Instant,
        generation: Generation,
        policy: &Policy,
        demand: Demand,
        end: End,
        chance: u64,
    ) -> Option<Death> {
        if generation != self.generation || !self.alive {
            return None;
        }
        self.alive = false;
        match self.state {
            LifecycleState::Stopped
            | LifecycleState::Failed
            | LifecycleState::Restarting { .. }
            | LifecycleState::Waiting => Some(Death::Expected),
            LifecycleState::Spawning { .. }
            | LifecycleState::Initializing { .. }
            | LifecycleState::Ready
            | LifecycleState::Degraded => Some(self.died(now, policy, demand, end, chance)),
        }
    }

    fn died(&mut self, now: Instant, policy: &Policy, demand: Demand, end: End, chance: u64) -> Death {
        let was_ready = matches!(self.state, LifecycleState::Ready | LifecycleState::Degraded);
        if was_ready && now.duration_since(self.since) >= STABLE {
            self.attempts = Budget::default();
        }
        self.died = true;
        self.n_crashes += u64::from(end == End::Crash);
        let wait = match (policy.restart, end) {
            (Restart::Never, _) => None,
            (Restart::OnFailure | Restart::Always, _) if self.is_hopeless() => None,
            (Restart::OnFailure | Restart::Always, End::Unreachable { longest }) => {
                self.wait_for_way(now, &connecting(policy, longest), chance)
            }
            (Restart::OnFailure | Restart::Always, End::Crash) => self.budget.spend(now, policy, chance),
        };
        let (death, state) = match wait {
            None => (Death::Fails, LifecycleState::Failed),
            Some(_) if demand == Demand::Nobody && policy.restart != Restart::Always => {
                (Death::Stops, LifecycleState::Stopped)
            }
            Some(wait) => (Death::Restarts, LifecycleState::Restarting { at: now + wait }),
        };
        self.enter(now, state);
        death
    }

    /// Whether another attempt is useless.
    fn is_hopeless(&self) -> bool {
        self.server == Found::Nothing || !self.has_been_ready && self.n_failed_starts >= HOPELESS
    }

    /// Whether another process would follow if the process died now.
    pub(super) fn would_restart(&self, now: Instant, policy: &Policy, end: End) -> bool {
        let is_allowed = matches!(end, End::Unreachable { .. }) || self.budget.allows_another(now, policy);
        policy.restart != Restart::Never && !self.is_hopeless() && is_allowed
    }
}

/// The crashes of one backend within the window. The budget is a rate: a server that answers its handshake and dies
/// again spends it too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    deaths: VecDeque<Instant>,
}

impl Budget {
    pub(crate) fn allows_another(&self, now: Instant, policy: &Policy) -> bool {
        let recent = |at: &&Instant| now.duration_since(**at) <= policy.restart_window;
        self.deaths.iter().filter(recent).count() < policy.max_restarts
    }

    /// Notes a crash at `now`. Returns the delay of the next process; `None` if none may start.
    pub(crate) fn spend(&mut self, now: Instant, policy: &Policy, chance: u64) -> Option<Duration> {
        while self.deaths.front().is_some_and(|at| now.duration_since(*at) > policy.restart_window) {
            self.deaths.pop_front();
        }
        let used = self.deaths.len();
        if used >= policy.max_restarts {
            return None;
        }
        self.deaths.push_back(now);
        match (policy.immediate_first, used.checked_sub(1)) {
            (true, None) => Some(Duration::ZERO),
            (true, Some(n)) => Some(wait(&policy.backoff, n, chance)),
            (false, _) => Some(wait(&policy.backoff, used, chance)),
        }
    }
}

/// The delay after `n` others. `chance` is any number.
fn wait(backoff: &Backoff, n: usize, chance: u64) -> Duration {
    let grow = |wait: Duration| (wait * backoff.multiplier / 1000).min(backoff.max);
    let longest = (0..n.min(64)).fold(backoff.initial.min(backoff.max), |wait, _| grow(wait));
    let (span, jitter) = (2 * u64::from(backoff.jitter) + 1, u64::from(backoff.jitter));
    let thousandths = u32::try_from(1000 + chance % span - jitter).unwrap_or(1000);
    (longest * thousandths / 1000).min(backoff.max)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests are the clock")]
mod tests;
