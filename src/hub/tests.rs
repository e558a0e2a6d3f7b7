//! The hub as a whole, with clients and a server of the tests.
#![allow(clippy::unwrap_used, reason = "tests and the fuzz target play these, and a panic is their finding")]

pub mod model;
#[cfg(test)]
mod sessions;
mod stage;
