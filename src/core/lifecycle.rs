//! How often a server may be started again, and how soon.
//!
//! The budget is a rate: a server that answers its handshake and dies again spends it too.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// At most this many restarts …
const MAX_RESTARTS: usize = 5;
/// … within this time.
const WINDOW: Duration = Duration::from_mins(3);
/// The second restart in a window waits this long, each further one twice as long …
const INITIAL: Duration = Duration::from_secs(1);
/// … up to this.
const LONGEST: Duration = Duration::from_secs(32);

/// The restarts of one backend within the window.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    restarts: VecDeque<Instant>,
}

impl Budget {
    /// Whether a process that dies at `now` is started again.
    pub(crate) fn allows_another(&self, now: Instant) -> bool {
        self.restarts.iter().filter(|at| now.duration_since(**at) <= WINDOW).count() < MAX_RESTARTS
    }

    /// A process died unasked at `now`: how long to wait before the next one, `None` if there shall be none.
    /// The first restart in a window comes at once.
    pub(crate) fn spend(&mut self, now: Instant) -> Option<Duration> {
        while self.restarts.front().is_some_and(|at| now.duration_since(*at) > WINDOW) {
            self.restarts.pop_front();
        }
        let used = self.restarts.len();
        if used >= MAX_RESTARTS {
            return None;
        }
        self.restarts.push_back(now);
        let doublings = u32::try_from(used.saturating_sub(1)).unwrap_or(u32::MAX);
        let wait = INITIAL.saturating_mul(2u32.saturating_pow(doublings)).min(LONGEST);
        Some(if used == 0 { Duration::ZERO } else { wait })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests are the clock")]
mod tests {
    use super::*;

    #[test]
    fn a_crash_loop_ends_even_if_every_handshake_succeeds() {
        let (mut budget, mut now) = (Budget::default(), Instant::now());
        let mut waits = Vec::new();
        while let Some(wait) = budget.spend(now) {
            waits.push(wait.as_secs());
            now += wait + Duration::from_secs(2);
        }
        assert_eq!(waits, [0, 1, 2, 4, 8]);
        assert!(!budget.allows_another(now) && budget.allows_another(now + WINDOW));
        assert_eq!(budget.spend(now + WINDOW), Some(Duration::ZERO));
    }
}
