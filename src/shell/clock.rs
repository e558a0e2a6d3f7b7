//! The clock of the core: the real one, without the time in which lspool itself stood still.
//!
//! lspool may be stopped and continued (SIGSTOP, Ctrl-Z), or have no time. The others went on meanwhile, and what they
//! have said is not read yet: **what is due then is due only after everything that is there was read**, and nobody is
//! judged by the time that passed. While a machine sleeps, the real clock stands still, too.

use std::time::{Duration, Instant};

/// What is due is done later than this only if lspool itself stood still.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// How long lspool reads what is there after it stood still.
const CATCH_UP: Duration = Duration::from_millis(500);

/// The time as the core knows it.
#[derive(Debug)]
pub(super) struct Clock {
    stood_still: Duration,
    /// Nothing is due before.
    catches_up_until: Instant,
    /// When something is due, in real time, while the loop waits.
    due: Option<Instant>,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock { stood_still: Duration::ZERO, catches_up_until: real(), due: None }
    }

    /// The time for the core.
    pub(super) fn now(&self) -> Instant {
        real().checked_sub(self.stood_still).expect("it stood still for no longer than there was time")
    }

    /// The loop waits, at most until something is due for the core. Gives when that is in real time.
    pub(super) fn await_due(&mut self, at: Option<Instant>) -> Option<Instant> {
        self.due = at.map(|it| (it + self.stood_still).max(self.catches_up_until));
        self.due
    }

    /// The loop goes on. Whether lspool has stood still: what was due is not due any more.
    pub(super) fn goes_on(&mut self) -> bool {
        let Some(due) = self.due.take() else { return false };
        let late = real().saturating_duration_since(due);
        if late < STOOD_STILL {
            return false;
        }
        tracing::warn!(?late, "lspool did not run for a while");
        self.stood_still += late;
        self.catches_up_until = due + late + CATCH_UP;
        true
    }
}

fn real() -> Instant {
    tokio::time::Instant::now().into_std()
}
