//! The signals that end lspool, or a command.

use std::{future::pending, io};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// Listens for the signals; returns their numbers. Must be called within the runtime. Leaves out a signal that fails.
pub(crate) fn listen() -> mpsc::Receiver<i32> {
    let (sender, receiver) = mpsc::channel(8);
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        match signal(kind) {
            Ok(mut signals) => {
                let sender = sender.clone();
                tokio::spawn(async move {
                    while signals.recv().await.is_some() && sender.send(kind.as_raw_value()).await.is_ok() {}
                });
            }
            Err(error) => tracing::warn!(%error, ?kind, "could not listen to a signal"),
        }
    }
    receiver
}

/// Ctrl-C, for commands that continue until the user ends them.
///
/// Made once and kept: the first listener removes the default effect of the signal for good. Without a listener, a
/// signal would have no effect.
pub(crate) struct Interrupts(io::Result<Signal>);

impl Interrupts {
    /// Must be called within the runtime.
    pub(crate) fn listen() -> Interrupts {
        Interrupts(signal(SignalKind::interrupt()))
    }

    /// Waits for a signal. A signal since the last call is not lost.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Ok(signals) => drop(signals.recv().await),
            Err(_) => pending().await,
        }
    }
}
