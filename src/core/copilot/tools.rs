//! The tools of conversations.

pub(crate) mod brought;
pub(crate) mod calls;
pub(crate) mod catalog;
pub(crate) mod mcp;
pub(crate) mod projection;
pub(crate) mod tool_set;
pub(crate) mod unknown;
