//! Linux and macOS.

pub(crate) mod command;
pub(crate) mod editor;
pub(crate) mod files;
pub(crate) mod folder;
pub(crate) mod keys;
pub(crate) mod leftovers;
pub(crate) mod paths;
pub(crate) mod processes;
pub(crate) mod signals;
pub(crate) mod sockets;
pub(crate) mod streams;
pub(crate) mod terminal;
