//! Servers that several clients use.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Variables that change what a server says about a project.
const VARIABLES: [&str; 9] = [
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "RUSTUP_TOOLCHAIN",
    "GOFLAGS",
    "GOWORK",
    "JAVA_HOME",
    "NODE_OPTIONS",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
];

/// The keys of `[server.NAME]` that begin with `share`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShareConfig {
    /// Whether several clients use one process.
    pub mode: ShareMode,
    /// How long a process without clients keeps running.
    pub idle: Duration,
    /// The variables that must be equal for two clients to use one process.
    pub env: Vec<String>,
    /// What becomes of clients whose unsaved texts differ.
    pub views: ShareViews,
    /// The limit of clients of one process.
    pub limit: usize,
}

impl Default for ShareConfig {
    fn default() -> ShareConfig {
        ShareConfig {
            mode: ShareMode::Off,
            idle: Duration::from_mins(5),
            env: VARIABLES.map(str::to_owned).to_vec(),
            views: ShareViews::default(),
            limit: 16,
        }
    }
}

impl ShareConfig {
    /// Whether no key is set.
    pub(super) fn is_default(&self) -> bool {
        *self == ShareConfig::default()
    }

    /// Whether several clients use one process.
    pub fn is_on(&self) -> bool {
        self.mode != ShareMode::Off
    }
}

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
