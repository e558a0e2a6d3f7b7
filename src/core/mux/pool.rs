//! The backends of all servers and their processes: lifecycle, health, and consequences of an exit.

pub(crate) mod away;
pub(crate) mod backend;
pub(crate) mod capacity;
mod exit;
pub(crate) mod feed;
pub(crate) mod health;
pub(crate) mod lifecycle;
pub(crate) mod processes;
pub(crate) mod reconcile;
pub(crate) mod refusal;
mod retry;
pub(crate) mod shared;
pub(crate) mod usage;
