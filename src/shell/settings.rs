//! How much and how long: the numbers of the shell.

use std::{path::PathBuf, time::Duration};

use super::{outbox::Limits, process::EndTimes};
use crate::{config::ServerConfig, rpc::Codec};

/// The numbers of the shell. The defaults are those of the product; tests use smaller ones.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The longest message that is read from the editor.
    pub max_message: usize,
    /// Of each outbox.
    pub limits: Limits,
    /// How long a process may take to end.
    pub end_times: EndTimes,
    /// How long a process may take to end that was told `exit`, until the configuration says it.
    pub exit_grace: Duration,
    /// How long the editor may take to read what is left, at our end.
    pub farewell: Duration,
    /// How long our end may take at most, beside what processes have to end by themselves.
    pub last_call: Duration,
    /// What control clients may cost.
    pub control: ControlLimits,
    /// How long the configuration files must be quiet before they are looked at again.
    pub debounce: Duration,
    /// Where state is kept that outlives lspool, if anywhere.
    pub state: Option<PathBuf>,
}

/// What control clients may cost.
#[derive(Clone, Debug)]
pub struct ControlLimits {
    /// So many at once.
    pub clients: usize,
    /// The longest message that is read from one.
    pub max_message: usize,
    /// Of the outbox of each.
    pub outbox: Limits,
    /// How long one may take no byte although some wait for it.
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
