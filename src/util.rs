//! Small functions that every layer may use.
//!
//! - [`redact`]: removes secrets from text that is shown
//! - [`text`]: shortens text to what fits a screen
//! - [`fnv`]: hashes names for files on a disk

pub mod fnv;
pub mod redact;
pub mod text;
