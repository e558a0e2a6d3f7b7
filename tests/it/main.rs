//! All integration tests, in one binary: it is linked once.

#[cfg(feature = "testing")]
mod faults;
mod real_server;
mod support;
