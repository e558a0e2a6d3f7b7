//! All integration tests, in one binary: it is linked once.

mod faults;
mod generic;
mod guard;
mod partitions;
mod processes;
mod real_server;
mod support;
mod tools;
