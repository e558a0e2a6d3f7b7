//! All integration tests, in one binary: it is linked once.

mod partitions;
mod real_server;
mod support;
mod tools;
