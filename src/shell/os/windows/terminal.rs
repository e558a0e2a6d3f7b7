//! The console of a command.

use std::io;

use terminal_size::{Height, Width, terminal_size_of};

/// The columns and rows of stdout.
pub(crate) fn size() -> Option<(usize, usize)> {
    let (Width(columns), Height(rows)) = terminal_size_of(io::stdout())?;
    Some((usize::from(columns), usize::from(rows)))
}

/// What was typed and not read stays: only `unsafe` calls could drop it.
pub(crate) fn flush_input() {}
