//! All integration tests, in one binary: it is linked once.

mod real_server;
mod support;
mod tools;
