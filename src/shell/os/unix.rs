//! Linux and macOS.

pub(crate) mod command;
pub(crate) mod files;
pub(crate) mod folder;
