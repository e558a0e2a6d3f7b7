//! Sessions as files: what the core was told and what it answered, in order, one JSON object per line.
//!
//! - [`mod@format`]: what a line is. `docs/fixtures.md` says the same for people
//! - [`source`]: the messages in a file, be it one of these or a transcript
//! - [`encode`], [`decode`]: events and effects to lines, and back
//! - [`redactor`]: secrets and texts out of lines
//! - [`reader`]: the lines of a file, and what is wrong with it
//! - [`replay`]: the same events once more
//!
//! The shell writes recordings (`shell::record`).

pub mod decode;
pub mod encode;
pub mod format;
mod mask;
pub mod reader;
pub mod redactor;
pub mod replay;
mod rules;
pub mod source;

pub use rules::is_secret_name;
