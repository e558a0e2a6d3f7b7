//! A language server made of a recording: it says to any client what a server once said to the recorded one.
//!
//! A pure state machine ([`Player`]) hears messages and says others; `lspool serve-recording` puts it on streams.
//!
//! - `script`: the recording, taken apart: for each request of the client what the server said because of it
//! - `likeness`: whether two requests are the same but for ids, places, times and secrets, and if not, why
//! - `names`: the client's ids and places for the recorded ones, and back
//! - `machine`: who is where in the script

mod likeness;
mod machine;
mod names;
mod script;

pub use machine::{Player, Speed};
pub use script::Script;

/// A session of four agents in front of three processes of the real Copilot server, whose models were a stub: what is
/// served where no recording is named. It is a transcript.
pub const SESSION: &str = include_str!("player/session.jsonl");

#[cfg(test)]
mod tests;
