//! The hub as a whole, with clients and a server of the tests.

pub mod model;
#[cfg(test)]
mod sessions;
mod stage;
