//! The core as a script: what the editor and the servers say, and what they are told.

mod agents;
mod cancelling;
mod control;
mod delegating;
mod documents;
mod endings;
mod mcp;
mod model;
mod modes;
mod moments;
mod partitions;
mod passing;
mod recovering;
mod restoring;
mod reviving;
mod spares;
mod stage;
mod supervision;
mod taped;
mod tools;
