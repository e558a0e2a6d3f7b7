//! Servers that several clients use.

use serde::{Deserialize, Serialize};

/// `share`: whether several clients use one process of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareMode {
    /// Each client has a process of its own.
    #[default]
    Off,
    /// Clients with equal capabilities use one process.
    SameClient,
    /// Clients with other capabilities use it as well, if lspool can make up for what they lack.
    AnyClient,
}

/// `share_views`: what becomes of clients whose unsaved texts differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareViews {
    /// A server has the texts of a client while it handles a request of that client.
    #[default]
    Exact,
    /// The later of two clients with different texts gets a process of its own.
    Private,
}
