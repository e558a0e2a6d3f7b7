//! The signals that end lspool.

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Listens for the signals; returns their numbers. Must be called within the runtime. Leaves out a signal that fails.
pub fn listen() -> mpsc::Receiver<i32> {
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
