//! The terminal of a command.

use std::io;

/// The columns and rows of stdout.
pub(crate) fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some((usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Drops what was typed and not read yet.
pub(crate) fn flush_input() {
    rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush).ok();
}
