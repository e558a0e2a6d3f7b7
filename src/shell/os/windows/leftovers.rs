//! What a dead lspool has left running: nothing. The system ends the job of each server when the last handle of the job
//! is closed, and lspool has the only one.

use std::{ffi::OsStr, time::Duration};

use crate::shell::process::Request;

/// No processes.
pub(crate) struct Leftovers;

impl Leftovers {
    pub(crate) fn new(_groups: impl IntoIterator<Item = u32>, _name: &str, _value: &OsStr) -> Leftovers {
        Leftovers
    }

    /// Has nothing to end.
    #[expect(clippy::unused_self, reason = "other systems have something to end")]
    pub(crate) fn end(&mut self, _request: Request, _at_most: Duration, _poll: Duration) {}
}
