//! All integration tests, in one binary: it is linked once.

mod guard;
mod processes;
mod real_server;
mod support;
