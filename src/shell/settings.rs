//! The limits of the shell.

use std::{path::PathBuf, time::Duration};

use super::{outbox::Limits, process::EndTimes};
use crate::{config::ServerConfig, rpc::Codec};

/// The limits of the shell. The defaults are for users; tests use smaller ones.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The longest message of the editor.
    pub max_message: usize,
    /// The limits of each outbox.
    pub limits: Limits,
    /// How long a process may take to end.
    pub end_times: EndTimes,
    /// How long a process may take to end after `exit`, until the configuration sets it.
    pub exit_grace: Duration,
    /// How long the editor may take to read its last messages.
    pub farewell: Duration,
    /// How long the end of lspool may take, in addition to the time for processes to end by themselves.
    pub last_call: Duration,
    /// The limits of control clients.
    pub control: ControlLimits,
    /// How long the configuration files must be quiet before lspool reads them again.
    pub debounce: Duration,
    /// The folder for state that outlives lspool.
    pub state: Option<PathBuf>,
}

/// The limits of control clients.
#[derive(Clone, Debug)]
pub struct ControlLimits {
    /// The number of clients at once.
    pub clients: usize,
    /// The longest message of a client.
    pub max_message: usize,
    /// The limits of the outbox of each client.
    pub outbox: Limits,
    /// How long a client may read nothing while messages wait for it.
    pub stall: Duration,
}

impl Default for ControlLimits {
    fn default() -> ControlLimits {
        ControlLimits {
            clients: 32,
            max_message: 1 << 20,
            outbox: Limits { high_water: 256 << 10, low_water: 64 << 10, hard_cap: 4 << 20 },
            stall: Duration::from_secs(10),
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_message: Codec::DEFAULT_MAX,
            limits: Limits::default(),
            end_times: EndTimes::default(),
            exit_grace: ServerConfig::default().shutdown_grace,
            farewell: Duration::from_secs(1),
            last_call: Duration::from_millis(2400),
            control: ControlLimits::default(),
            debounce: Duration::from_millis(100),
            state: None,
        }
    }
}
