//! All integration tests, in one binary: it is linked once.

mod cancel;
mod catalogue;
mod conversations;
mod one_voice;
mod partitions;
mod real_server;
mod same_answers;
mod sign_in;
mod support;
mod tool_calls;
mod tools;
