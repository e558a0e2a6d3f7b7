//! lspool's stdin and stdout as asynchronous streams.
//!
//! A thread reads and one writes: Windows has no other way for a stream that another program made. **The process must not
//! wait for these threads at its end**: a read cannot be cancelled.

use std::{io, os::windows::io::AsHandle};

use crate::shell::stdio::{Input, Output};

/// The streams to and from the editor.
pub struct Stdio {
    /// The editor's messages.
    pub input: Input,
    /// The messages to the editor.
    pub output: Output,
    /// lspool changes no mode of the streams here.
    pub modes: Modes,
}

/// Nothing to restore.
#[derive(Debug, Default)]
pub struct Modes;

/// Opens stdin and stdout. Must be called within the runtime.
pub fn open() -> Stdio {
    Stdio { input: Box::new(tokio::io::stdin()), output: Box::new(tokio::io::stdout()), modes: Modes }
}

/// A write to a pipe waits here for its reader, which does nothing else.
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
pub(crate) fn never_wait(_pipe: impl AsHandle) -> io::Result<()> {
    Ok(())
}

/// Gives stdin and stdout up. On this system, whoever is at their other ends reads a line and asks for no end.
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
pub(crate) fn leave() -> io::Result<()> {
    Ok(())
}
