//! Sessions as files: the events and effects of the core, in order, one JSON object per line.
//!
//! - [`mod@format`]: the lines. `docs/fixtures.md` describes them for people
//! - [`source`]: the messages in a recording or a transcript
//! - [`encode`], [`decode`]: events and effects to lines, and back
//! - [`redactor`]: removes secrets and texts from lines
//! - [`reader`]: the lines of a file, and its errors
//! - [`replay`]: repeats the events
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
