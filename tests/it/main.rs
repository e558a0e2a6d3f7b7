//! All integration tests, in one binary: it is linked once.

mod clients;
mod emacs;
mod faults;
mod generic;
mod guard;
mod neovim;
mod partitions;
mod processes;
mod real_server;
mod support;
mod tools;
