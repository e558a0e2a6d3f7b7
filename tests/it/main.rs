//! All integration tests, in one binary: it is linked once.

mod catalogue;
mod partitions;
mod real_server;
mod support;
mod tool_calls;
mod tools;
