//! The key `q`, for a command that redraws a terminal until the user ends it.
//!
//! Owns the mode of the terminal, and gives it back at the end: also after a panic, and after a signal that would end
//! the command. Ctrl-C stays a signal.

use std::{io, thread};

use rustix::{
    io::{Errno, read},
    process::getpgrp,
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// A terminal that gives each key at once.
pub(crate) struct Keys {
    quit: mpsc::Receiver<()>,
    /// Signals that would leave the terminal in this mode.
    hangup: Signal,
    terminate: Signal,
    before: Termios,
}

impl Keys {
    /// Must be called within the runtime. `None`: stdin is no terminal, or another command has it.
    pub(crate) fn listen() -> Option<Keys> {
        if !is_ours() {
            return None;
        }
        let (hangup, terminate) = (signal(SignalKind::hangup()).ok()?, signal(SignalKind::terminate()).ok()?);
        let before = tcgetattr(io::stdin()).ok()?;
        let mut mode = before.clone();
        mode.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        mode.special_codes[SpecialCodeIndex::VMIN] = 1;
        mode.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &mode).ok()?;
        let (pressed, quit) = mpsc::channel(1);
        // Not a task: the runtime would wait for the next key at its end.
        thread::spawn(move || {
            if waits_for(b'q') {
                pressed.blocking_send(()).ok();
            }
        });
        Some(Keys { quit, hangup, terminate, before })
    }

    /// Waits for the end: `q`, or a signal.
    pub(crate) async fn end(&mut self) {
        tokio::select! {
            Some(()) = self.quit.recv() => {}
            _ = self.hangup.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // The command that has the terminal now sets its own mode.
        if is_ours() {
            tcsetattr(io::stdin(), OptionalActions::Now, &self.before).ok();
        }
    }
}

/// Waits for a key. `false`: there will be none.
fn waits_for(key: u8) -> bool {
    let mut keys = [0; 64];
    loop {
        match read(io::stdin(), &mut keys) {
            Ok(n) if keys[..n].contains(&key) => return true,
            Ok(0) => return false,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Whether stdin is a terminal, and this command is in its foreground.
fn is_ours() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|it| it == getpgrp())
}
