//! Tools for tests and examples: a stand-in for the Copilot services, an editor that drives a language server, and
//! the real servers in a sandbox.
//!
//! Only `tape`, `sessions` and `drift` know lspool: every tool takes a command line, so one script can run against a
//! bare server and against the same server behind lspool.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::missing_panics_doc,
    clippy::needless_pass_by_value,
    clippy::struct_excessive_bools,
    reason = "a toolbox: each user takes a part of it; it lives in real time, its panics are failed tests, and \
              a test says `json!` in the middle of a call"
)]

pub mod browser;
pub mod copilot;
pub mod drift;
pub mod editor;
pub mod names;
pub mod own;
pub mod processes;
pub mod puppet;
pub mod real;
pub mod sessions;
pub mod stub;
pub mod tape;
