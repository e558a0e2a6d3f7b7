//! The backends of all servers and their processes: how far each has come, whether it still lives, what its end means.

pub(crate) mod backend;
pub(crate) mod capacity;
pub(crate) mod feed;
pub(crate) mod health;
pub(crate) mod lifecycle;
pub(crate) mod processes;
pub(crate) mod reconcile;
pub(crate) mod refusal;
mod retry;
pub(crate) mod usage;
