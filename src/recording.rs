//! Sessions as files: what the core was told and what it answered, in order, one JSON object per line.
//!
//! - [`format`]: what a line is. `docs/fixtures.md` says the same for people

pub mod format;
