//! The signals that ask lspool to end.

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Numbers of the signals as they come. Must be called within the runtime; what cannot be had is left out.
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
