//! All integration tests, in one binary: it is linked once.

#[cfg(feature = "testing")]
mod faults;
mod partitions;
mod real_server;
mod support;
mod tools;
