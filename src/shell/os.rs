//! What differs between operating systems, behind small functions. The rest of lspool names no system.
//!
//! Each system has the same modules with the same functions. Decides nothing: a caller cannot tell on which system it
//! runs, except by a result that says what the system cannot do.

pub(crate) mod fault;
#[cfg(test)]
mod tests;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
