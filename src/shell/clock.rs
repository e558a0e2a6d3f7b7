//! The clock of the core: the real one, without the time in which lspool itself did not run.
//!
//! lspool may be stopped and continued (SIGSTOP, Ctrl-Z), or get no CPU. Peers continue meanwhile, and their messages
//! are unread: **a deadline passes only after lspool has read all waiting input**, and no peer is judged by the time
//! in between. While a machine sleeps, the real clock stops too.

use std::time::{Duration, Instant};

/// A deadline that is handled later than this means that lspool did not run.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// How long lspool reads after it did not run.
const CATCH_UP: Duration = Duration::from_millis(500);

/// The time as the core knows it.
#[derive(Debug)]
pub(super) struct Clock {
    stood_still: Duration,
    /// No deadline passes before this time.
    catches_up_until: Instant,
    /// The next deadline in real time, while the loop waits.
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

    /// Notes that the loop waits for a deadline of the core, if any. Returns the deadline in real time.
    pub(super) fn await_due(&mut self, at: Option<Instant>) -> Option<Instant> {
        self.due = at.map(|it| (it + self.stood_still).max(self.catches_up_until));
        self.due
    }

    /// Notes that the loop continues. Returns whether lspool did not run for a while, so that the deadline has moved.
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
