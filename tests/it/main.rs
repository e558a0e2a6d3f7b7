//! All integration tests, in one binary: it is linked once.

mod cancel;
mod catalogue;
mod clients;
mod control;
mod conversations;
mod crash;
mod emacs;
mod faults;
mod generic;
mod golden;
mod guard;
mod lifetime;
mod neovim;
mod one_voice;
mod partitions;
mod processes;
mod real_server;
mod recordings;
mod replay;
mod revive;
mod same_answers;
mod sign_in;
mod support;
mod tidy;
mod tool_calls;
mod tools;
