//! How far one backend has come, and what its process is told to do about it: a state machine that knows nothing of
//! messages.
//!
//! ```text
//!            start                    spawned                answers initialize
//!  Stopped ─────────▶ Waiting ──room──▶ Spawning ─▶ Initializing ─▶ Ready ◀──heard── Degraded
//!     ▲                  ▲                   │            │          │ └──silent──────▶ │
//!     │                  │                   └────────────┴──exit────┴─────────exit────┘
//!     │ stop             │ time has come, and the old process is gone  │
//!     │ (from anywhere)  └───────────── Restarting ◀── budget allows ──┤
//!     │                                     ▲                          │
//!     │                       restart (from anywhere)    budget spent, or no start possible
//!     └──────────────────────────────── Failed ◀──────────────────────┘
//! ```
//!
//! People see them as `stopped`, `starting` (`Waiting`, `Spawning`, `Initializing`), `ready`, `degraded`,
//! `restarting`, `failed`.
//!
//! What waits for room or for its time is spawned by whoever holds the room; nothing else is left to be done there.
//!
//! **At most one process of a backend exists**: whether it does is kept apart from the state, and nothing is
//! spawned while it does. What an older process does is told by its generation, and harmless.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    config::{Backoff, Policy, Restart},
    core::event::Generation,
};

/// Whose `initialize` opens a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// The editor's own, passed through with all that follows: the first process of the primary.
    Editor,
    /// lspool's, from the recorded session.
    Own,
}

/// How far a backend has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifecycleState {
    /// Nobody wants a process. The one there was may not have ended yet.
    Stopped,
    /// `max_processes` are alive; an idle one is being stopped for this one.
    Waiting,
    Spawning {
        handshake: Handshake,
        /// When it is to be ready. None once that has passed, and the process is being ended.
        deadline: Option<Instant>,
    },
    Initializing {
        handshake: Handshake,
        /// The same.
        deadline: Option<Instant>,
    },
    Ready,
    /// It owes an answer, says nothing, and has been asked whether it lives.
    Degraded,
    /// Another process follows when this time has come and the one there was is gone.
    Restarting {
        at: Instant,
    },
    /// It is started again only if somebody says so.
    Failed,
}

impl LifecycleState {
    /// As people read it.
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

/// What is to be done with the process after a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    Nothing,
    Terminate,
}

/// What a death comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// It was asked for.
    Expected,
    /// Another process follows.
    Restarts,
    /// None does, but one may be started.
    Stops,
    /// It will not be started again.
    Fails,
}

/// Who waits for the process after one that is gone.
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
    /// Whether a process of it exists.
    alive: bool,
    has_been_ready: bool,
    /// The last process died unasked, and none has taken its place.
    died: bool,
    budget: Budget,
    n_restarts: u64,
    /// How many processes have died unasked.
    n_crashes: u64,
    /// How many processes have failed by themselves before any was ready.
    n_failed_starts: u32,
}

/// A server that has failed so often before it was ever ready fails by itself: that is no accident.
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
            n_restarts: 0,
            n_crashes: 0,
            n_failed_starts: 0,
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

    /// How many times another process has taken the place of one.
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

    /// Whether any process of it has ever been ready.
    pub(super) fn has_been_ready(&self) -> bool {
        self.has_been_ready
    }

    /// How many processes have died unasked within the window, when the last one did.
    pub(super) fn n_deaths(&self) -> usize {
        self.budget.deaths.len()
    }

    /// How long it is until the next process is started, if that is for later.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.next_start()?.checked_duration_since(now)
    }

    /// Whether it has failed before it was ever ready.
    pub(crate) fn has_failed_to_start(&self) -> bool {
        self.state == LifecycleState::Failed && !self.has_been_ready
    }

    /// Whether it has died so lately that it must not be forgotten.
    pub(crate) fn has_died(&self, now: Instant, window: Duration) -> bool {
        self.budget.deaths.back().is_some_and(|at| now.duration_since(*at) <= window)
    }

    fn enter(&mut self, now: Instant, state: LifecycleState) {
        self.state = state;
        self.since = now;
    }

    /// Somebody needs it. What has failed stays so.
    pub(crate) fn start(&mut self, now: Instant) {
        if self.state == LifecycleState::Stopped {
            self.enter(now, LifecycleState::Waiting);
        }
    }

    /// Whether it may be spawned now, if there is room.
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

    /// A process is being spawned. It is to be ready by this time.
    pub(crate) fn spawn(&mut self, now: Instant, handshake: Handshake, deadline: Instant) {
        debug_assert!(self.is_due(now), "{self:?}");
        let takes_a_place = matches!(self.state, LifecycleState::Restarting { .. }) || self.died;
        self.n_restarts += u64::from(takes_a_place);
        self.died = false;
        self.generation = Generation(self.generation.0 + 1);
        self.alive = true;
        self.enter(now, LifecycleState::Spawning { handshake, deadline: Some(deadline) });
    }

    /// The process runs. Gives whose handshake follows, if one does.
    pub(crate) fn spawned(&mut self, now: Instant) -> Option<Handshake> {
        let LifecycleState::Spawning { handshake, deadline } = self.state else { return None };
        self.enter(now, LifecycleState::Initializing { handshake, deadline });
        Some(handshake)
    }

    /// It has this long to answer `initialize`, for it has shown that it lives.
    pub(super) fn put_off(&mut self, until: Instant) {
        if let LifecycleState::Initializing { deadline: Some(deadline), .. } = &mut self.state {
            *deadline = until;
        }
    }

    /// The process ends before it was ready, and nobody else has ended it.
    pub(super) fn note_failed_start(&mut self) {
        self.n_failed_starts += 1;
    }

    /// What has failed to start may be started again.
    pub(crate) fn try_again(&mut self, now: Instant) {
        if self.has_failed_to_start() {
            self.reset_restarts();
            let is_ending = LifecycleState::Restarting { at: now };
            self.enter(now, if self.alive { is_ending } else { LifecycleState::Stopped });
        }
    }

    /// The process has had its time to start and to answer `initialize`.
    pub(super) fn overdue(&mut self) {
        if let LifecycleState::Spawning { deadline, .. } | LifecycleState::Initializing { deadline, .. } =
            &mut self.state
        {
            *deadline = None;
        }
    }

    /// The process has answered `initialize`. Gives whose, if that was awaited.
    pub(crate) fn ready(&mut self, now: Instant) -> Option<Handshake> {
        let LifecycleState::Initializing { handshake, .. } = self.state else { return None };
        self.has_been_ready = true;
        self.enter(now, LifecycleState::Ready);
        Some(handshake)
    }

    /// It has not said anything although it was asked.
    pub(crate) fn silent(&mut self, now: Instant) {
        if self.state == LifecycleState::Ready {
            self.enter(now, LifecycleState::Degraded);
        }
    }

    /// It has said something.
    pub(crate) fn heard(&mut self, now: Instant) {
        if self.state == LifecycleState::Degraded {
            self.enter(now, LifecycleState::Ready);
        }
    }

    /// Nobody wants it any more.
    pub(crate) fn stop(&mut self, now: Instant) -> Todo {
        self.enter(now, LifecycleState::Stopped);
        if self.alive { Todo::Terminate } else { Todo::Nothing }
    }

    /// Its failures are forgotten.
    pub(crate) fn reset_restarts(&mut self) {
        self.budget = Budget::default();
        self.n_failed_starts = 0;
    }

    /// It shall be another process, whatever was before. This is none of its failures.
    pub(crate) fn restart(&mut self, now: Instant) -> Todo {
        match self.alive {
            true => self.enter(now, LifecycleState::Restarting { at: now }),
            false => self.enter(now, LifecycleState::Waiting),
        }
        if self.alive { Todo::Terminate } else { Todo::Nothing }
    }

    /// It cannot be used.
    pub(crate) fn fail(&mut self, now: Instant) -> Todo {
        self.enter(now, LifecycleState::Failed);
        if self.alive { Todo::Terminate } else { Todo::Nothing }
    }

    /// There is no process, and none can be started.
    pub(super) fn fail_to_start(&mut self, now: Instant) {
        self.alive = false;
        self.enter(now, LifecycleState::Failed);
    }

    /// A process is gone, or could not be started. `demand`: who waits for the next one. `None`: it was an
    /// older one, whose end changes nothing.
    pub(crate) fn exited(
        &mut self,
        now: Instant,
        generation: Generation,
        policy: &Policy,
        demand: Demand,
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
            | LifecycleState::Degraded => Some(self.died(now, policy, demand, chance)),
        }
    }

    fn died(&mut self, now: Instant, policy: &Policy, demand: Demand, chance: u64) -> Death {
        self.died = true;
        self.n_crashes += 1;
        let wait = match policy.restart {
            Restart::Never => None,
            Restart::OnFailure | Restart::Always if self.is_hopeless() => None,
            Restart::OnFailure | Restart::Always => self.budget.spend(now, policy, chance),
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

    /// Whether what is wrong with it is no accident.
    fn is_hopeless(&self) -> bool {
        !self.has_been_ready && self.n_failed_starts >= HOPELESS
    }

    /// Whether a process that dies now would be followed by another one.
    pub(super) fn would_restart(&self, now: Instant, policy: &Policy) -> bool {
        policy.restart != Restart::Never && !self.is_hopeless() && self.budget.allows_another(now, policy)
    }
}

/// The deaths of one backend within the window. It is a rate: a server that answers its handshake and dies again
/// spends it too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    deaths: VecDeque<Instant>,
}

impl Budget {
    pub(crate) fn allows_another(&self, now: Instant, policy: &Policy) -> bool {
        let recent = |at: &&Instant| now.duration_since(**at) <= policy.restart_window;
        self.deaths.iter().filter(recent).count() < policy.max_restarts
    }

    /// A process died unasked at `now`: how long to wait before the next one, `None` if there shall be none.
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

/// The wait after `n` others. `chance` is anything.
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
