//! What the shell remembers of members of groups.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Launch;

/// A member of a group as lspool starts it. A member that starts in the same way can do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Name of its section.
    pub member: String,
    /// How it is started.
    pub launch: Arc<Launch>,
    /// Parameters of its `initialize`.
    pub params: Bytes,
}

/// What a member has answered to `initialize` when it was started in the same way before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recalled {
    /// Name of its section.
    pub member: String,
    /// The result.
    pub result: Value,
}
