//! Ctrl-C, for commands that go on until somebody ends them.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, which is how one ends what goes on for ever.
///
/// Made once and kept: the first that listens takes the signal's default effect away for good, so that one which comes
/// while nobody listens would have none.
pub(super) struct Interrupts(io::Result<Signal>);

impl Interrupts {
    /// Must be called within the runtime.
    pub(super) fn listen() -> Interrupts {
        Interrupts(signal(SignalKind::interrupt()))
    }

    /// Waits for one; what has come since the last is not lost.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Ok(signals) => drop(signals.recv().await),
            Err(_) => std::future::pending().await,
        }
    }
}
