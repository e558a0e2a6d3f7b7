//! Whether several clients may use one process of a server.

use toml::de::DeValue;

use super::{Reader, choice, join};
use crate::config::{BuiltinTools, ServerConfig, ServerKind, ShareMode, keys::SHARES};

/// The section that is a Copilot server without a command.
const COPILOT: &str = "copilot";

/// The word for what is planned.
const ANY_CLIENT: &str = "any-client";

/// Reads `share`.
pub(super) fn mode(raw: &DeValue<'_>) -> Result<ShareMode, String> {
    match raw.as_str() {
        Some(ANY_CLIENT) => Err(format!("{ANY_CLIENT:?} is not available yet; \"same-client\" is")),
        Some(_) | None => choice(raw, &SHARES),
    }
}

impl Reader<'_> {
    /// Refuses to share a server whose processes are not alike.
    pub(super) fn check_share(&mut self, line: usize, path: &str, name: &str, server: &ServerConfig) {
        let is_copilot = match server.kind {
            Some(kind) => kind == ServerKind::Copilot,
            None => name == COPILOT && server.command.is_none(),
        };
        let why = match server {
            _ if !server.share.is_on() => return,
            _ if is_copilot => "a Copilot server has the conversations of one editor",
            _ if server.builtin_tools != BuiltinTools::Off => "`builtin_tools` are for one editor",
            _ => return,
        };
        self.problem(line, &join(path, "share"), format!("must be \"off\": {why}"));
    }
}
