//! Small functions that every layer may use.
//!
//! - [`redact`]: removes secrets from text that is shown
//! - [`text`]: shortens text to what fits a screen
//! - [`fnv`]: hashes names for files on a disk
//! - [`json`]: reads JSON of other programs, half surrogate pairs included

pub mod fnv;
pub mod json;
pub mod redact;
pub mod text;
