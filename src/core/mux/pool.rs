//! The backends of all servers, and their processes.

pub(crate) mod backend;
pub(crate) mod health;
pub(crate) mod lifecycle;
pub(crate) mod processes;
pub(crate) mod reconcile;
pub(crate) mod retry;
pub(crate) mod usage;
