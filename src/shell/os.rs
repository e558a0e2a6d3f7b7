//! What differs between operating systems, behind small functions. The rest of lspool calls no system by itself, and asks
//! `cfg!` only for the usual places of files.
//!
//! Each system has the same modules with the same functions. Decides nothing: a caller cannot tell on which system it
//! runs, except by a result that says what the system cannot do.

pub(crate) mod fault;
pub(crate) mod memory;
#[cfg(test)]
mod tests;
#[cfg(unix)]
mod unix;
pub(crate) mod watching;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// What a new process leads, for signals to all that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leads {
    /// A group of its own.
    Group,
    /// Nothing: it will lead a session, and the leader of a group cannot.
    Nothing,
}
