//! All integration tests, in one binary: it is linked once.

mod faults;
mod guard;
mod partitions;
mod processes;
mod generic;
mod real_server;
mod support;
mod tools;
