//! How much and how long: the numbers of the shell.

use std::time::Duration;

use super::{outbox::Limits, process::EndTimes};
use crate::rpc::Codec;

/// The numbers of the shell. The defaults are those of the product; tests use smaller ones.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The longest message that is read from the editor.
    pub max_message: usize,
    /// Of each outbox.
    pub limits: Limits,
    /// How long a process may take to end.
    pub end_times: EndTimes,
    /// How long the editor may take to read what is left, at our end.
    pub farewell: Duration,
    /// How long our end may take at most.
    pub last_call: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_message: Codec::DEFAULT_MAX,
            limits: Limits::default(),
            end_times: EndTimes::default(),
            farewell: Duration::from_secs(1),
            last_call: Duration::from_millis(2900),
        }
    }
}
