//! Keys of a command that redraws a terminal. Here only Ctrl-C ends it.

use std::{convert::Infallible, future::pending};

/// A terminal that gives each key at once.
pub(crate) struct Keys(Infallible);

impl Keys {
    /// A terminal of Windows gives whole lines.
    pub(crate) fn listen() -> Option<Keys> {
        None
    }

    /// Waits for the end.
    pub(crate) async fn end(&mut self) {
        pending().await
    }
}
