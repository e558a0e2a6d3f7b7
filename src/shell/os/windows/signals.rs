//! What the user does to end lspool, or a command.

use std::{future::pending, io};

use tokio::{
    signal::windows::{CtrlC, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff, ctrl_shutdown},
    sync::mpsc,
};

/// The numbers of the signals that these events are on other systems, for the exit code.
const INTERRUPT: i32 = 2;
const HANGUP: i32 = 1;
const TERMINATE: i32 = 15;

/// Listens for Ctrl-C, Ctrl-Break, the end of the console, of the session, and of the system. Must be called within the
/// runtime. Skips an event that it cannot listen to.
pub(crate) fn listen() -> mpsc::Receiver<i32> {
    let (sender, receiver) = mpsc::channel(8);
    macro_rules! pass_on {
        ($listen:expr, $number:expr) => {
            match $listen {
                Ok(mut events) => {
                    let sender = sender.clone();
                    tokio::spawn(async move {
                        while events.recv().await.is_some() && sender.send($number).await.is_ok() {}
                    });
                }
                Err(error) => tracing::warn!(%error, "could not listen to an event of the console"),
            }
        };
    }
    pass_on!(ctrl_c(), INTERRUPT);
    pass_on!(ctrl_break(), INTERRUPT);
    pass_on!(ctrl_close(), HANGUP);
    pass_on!(ctrl_logoff(), TERMINATE);
    pass_on!(ctrl_shutdown(), TERMINATE);
    receiver
}

/// Ctrl-C, for commands that continue until the user ends them.
///
/// Made once and kept: the first listener removes the default effect for good.
pub(crate) struct Interrupts(io::Result<CtrlC>);

impl Interrupts {
    /// Must be called within the runtime.
    pub(crate) fn listen() -> Interrupts {
        Interrupts(ctrl_c())
    }

    /// Waits for Ctrl-C. One since the last call is not lost.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Ok(events) => drop(events.recv().await),
            Err(_) => pending().await,
        }
    }
}
