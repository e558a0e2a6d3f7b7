//! All integration tests, in one binary: it is linked once.

mod generic;
mod neovim;
mod real_server;
mod support;
