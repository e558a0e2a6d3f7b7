//! Sessions as files: what the core was told and what it answered, in order, one JSON object per line.
//!
//! - [`format`]: what a line is. `docs/fixtures.md` says the same for people
//! - [`source`]: the messages in a file, be it one of these or a transcript

pub mod format;
pub mod source;
