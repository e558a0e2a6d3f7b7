//! `lspool`: a Language Server Protocol proxy and multiplexer.
//!
//! A pure core ([`core::Proxy`]) takes events and returns effects; a thin shell ([`shell`]) turns bytes, exits,
//! timers and signals into events and carries the effects out. `docs/architecture.md` has the map and the invariants.
//!
//! In reading order:
//! - [`rpc`]: one message as bytes with an envelope; framing; byte-exact edits
//! - [`util`]: redaction, text that fits a screen, hashes of names
//! - [`config`]: TOML text to a checked configuration; [`agents`]: definitions of agents in other files
//! - [`mode_file`]: the text of the files of custom chat modes
//! - [`builtin_tools`]: the builtin tools, as words and values
//! - [`core`]: everything that is decided
//! - [`hub`]: one server process for several clients
//! - [`shell`]: everything that touches the world
//! - [`recording`]: sessions as files
//! - [`player`]: a language server made of such a file
//! - [`cli`]: the command line and its commands

pub mod agents;
pub mod builtin_tools;
pub mod cli;
pub mod config;
pub mod core;
pub mod hub;
pub mod mode_file;
pub mod player;
pub mod recording;
pub mod rpc;
pub mod shell;
pub mod util;
