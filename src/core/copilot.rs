//! Conversations with a Copilot server.

pub(crate) mod conversation;
pub(crate) mod history;
pub(crate) mod modes;
pub(crate) mod partitions;
pub(crate) mod progress;
pub(crate) mod restore;
pub(crate) mod resume;
pub(crate) mod selection;
pub(crate) mod spares;
pub(crate) mod tools;
pub(crate) mod turns;
