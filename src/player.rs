//! A language server from a recording: it answers any client as the recorded server answered its client.
//!
//! A pure state machine ([`Player`]) takes and gives messages; `lspool serve-recording` puts it on streams.
//!
//! - `script`: the recording by cause: each request of the client with the messages that follow from it
//! - `likeness`: whether two requests are the same except for ids, places, times and secrets
//! - `names`: the client's ids and places for the recorded ones, and back
//! - `machine`: the position of each client's request in the script

mod likeness;
mod machine;
mod names;
mod script;

pub use machine::{Player, Speed};
pub use script::Script;

/// The builtin transcript: a session of four agents with three processes of the real Copilot server and a stub of the
/// models.
pub const SESSION: &str = include_str!("player/session.jsonl");

#[cfg(test)]
mod tests;
