//! Agents that lspool runs itself.

pub(crate) mod conversations;
pub(crate) mod orchestrations;
pub(crate) mod subagents;
