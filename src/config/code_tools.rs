//! `[lsp_tools]`: what the code tools offer, and their limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::nearest;

/// `[lsp_tools]`: the code tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LspToolsConfig {
    /// Whether there are code tools.
    pub enabled: bool,
    /// Names of tools and of sets of them.
    pub offer: Vec<String>,
    /// Whether `lsp_start`, `lsp_request` and `lsp_stop` are offered.
    pub raw: bool,
    /// Methods that `lsp_request` passes on beside the reads of the protocol.
    pub raw_methods: Vec<String>,
    /// Commands that `lsp_request` runs.
    pub raw_commands: Vec<String>,
    /// How long a call may take.
    pub time_limit: Duration,
    /// How long a call waits for a server that loads its project.
    pub ready_wait: Duration,
    /// How long a server may say nothing about a file.
    pub diagnostics_wait: Duration,
    /// How long a server must say nothing more about a file.
    pub settle: Duration,
    /// The size of an answer's text, in bytes.
    pub max_output: usize,
    /// How many results a call shows if it does not say.
    pub max_results: usize,
    /// How many files an edit changes.
    pub max_edit_files: usize,
    /// How many servers a session starts.
    pub max_servers: usize,
    /// How many documents are open at one server.
    pub max_open: usize,
    /// What a call does while a server loads its project.
    pub on_loading: OnLoading,
}

impl Default for LspToolsConfig {
    fn default() -> LspToolsConfig {
        LspToolsConfig {
            enabled: true,
            offer: vec![CORE.to_owned()],
            raw: false,
            raw_methods: Vec::new(),
            raw_commands: Vec::new(),
            time_limit: Duration::from_secs(50),
            ready_wait: Duration::from_secs(30),
            diagnostics_wait: Duration::from_secs(20),
            settle: Duration::from_millis(500),
            max_output: 16 << 10,
            max_results: 50,
            max_edit_files: 1000,
            max_servers: 6,
            max_open: 256,
            on_loading: OnLoading::Wait,
        }
    }
}

/// What a call does while a server loads its project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLoading {
    /// It waits.
    Wait,
    /// It fails at once.
    Error,
}

/// The tools that are offered without a configuration.
const CORE: &str = "core";
/// All tools but the raw ones.
const ALL: &str = "all";

/// The tools of `core`.
pub(crate) const CORE_TOOLS: [&str; 14] = [
    "lsp_apply_edit",
    "lsp_call_hierarchy",
    "lsp_code_actions",
    "lsp_definition",
    "lsp_diagnostics",
    "lsp_document_symbols",
    "lsp_format",
    "lsp_hover",
    "lsp_implementations",
    "lsp_references",
    "lsp_rename",
    "lsp_type_hierarchy",
    "lsp_workspace",
    "lsp_workspace_symbols",
];

/// Further tools of `all`.
pub(crate) const MORE_TOOLS: [&str; 1] = ["code_search"];

/// The tools of `raw`.
pub(crate) const RAW_TOOLS: [&str; 3] = ["lsp_request", "lsp_start", "lsp_stop"];

impl LspToolsConfig {
    /// Whether a tool of this name is offered.
    pub fn offers(&self, name: &str) -> bool {
        if RAW_TOOLS.contains(&name) {
            return self.raw;
        }
        self.offer.iter().any(|it| match it.as_str() {
            ALL => true,
            CORE => CORE_TOOLS.contains(&name),
            single => single == name,
        })
    }
}

/// Checks a word of `offer`.
pub(super) fn offered(word: String) -> Result<Option<String>, String> {
    let words = || [CORE, ALL].into_iter().chain(CORE_TOOLS).chain(MORE_TOOLS);
    if words().any(|it| it == word) {
        return Ok(Some(word));
    }
    if RAW_TOOLS.contains(&word.as_str()) {
        return Err(format!("{word:?} is offered by `raw = true`"));
    }
    Err(match nearest(&word, words()) {
        Some(near) => format!("unknown tool {word:?}; did you mean {near:?}?"),
        None => format!("expected \"core\", \"all\", or the name of a code tool, found {word:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_names_offer_tools() {
        let offers = |offer: &[&str], raw, name| {
            let offer = offer.iter().map(ToString::to_string).collect();
            LspToolsConfig { offer, raw, ..LspToolsConfig::default() }.offers(name)
        };
        assert!(offers(&["core"], false, "lsp_hover") && !offers(&["core"], false, "code_search"));
        assert!(offers(&["core", "code_search"], false, "code_search"));
        assert!(
            offers(&["lsp_hover"], false, "lsp_hover") && !offers(&["lsp_hover"], false, "lsp_definition")
        );
        assert!(offers(&["all"], false, "code_search") && !offers(&["all"], false, "lsp_start"));
        assert!(offers(&[], true, "lsp_start") && !offers(&[], true, "lsp_hover"));
        assert!(offered("lsp_hovr".to_owned()).unwrap_err().contains("lsp_hover"));
        assert!(offered("lsp_start".to_owned()).unwrap_err().contains("raw"));
    }
}
