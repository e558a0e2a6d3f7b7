//! Ctrl-C, for commands that continue until the user ends them.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for Ctrl-C.
///
/// Made once and kept: the first listener removes the default effect of the signal for good. Without a listener, a
/// signal would have no effect.
pub(super) struct Interrupts(io::Result<Signal>);

impl Interrupts {
    /// Must be called within the runtime.
    pub(super) fn listen() -> Interrupts {
        Interrupts(signal(SignalKind::interrupt()))
    }

    /// Waits for a signal. A signal since the last call is not lost.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Ok(signals) => drop(signals.recv().await),
            Err(_) => std::future::pending().await,
        }
    }
}
