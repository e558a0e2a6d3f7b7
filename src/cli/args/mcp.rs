//! The options of `lspool mcp`. The comments here are the help texts.

use std::path::PathBuf;

use clap::ValueEnum;

/// `lspool mcp`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
// The command has a group of this name.
#[group(skip)]
pub(in crate::cli) struct Mcp {
    /// A folder of the workspace; may be given several times
    #[arg(long = "root", value_name = "DIR")]
    pub(in crate::cli) roots: Vec<PathBuf>,
    /// Print what to add to the settings of this agent, and where
    #[arg(long, value_name = "AGENT", conflicts_with = "roots")]
    pub(in crate::cli) install: Option<Agent>,
    /// Add it
    #[arg(long, requires = "install")]
    pub(in crate::cli) write: bool,
}

/// An agent with known settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Agent {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    // Clippy takes the name for code.
    #[value(help = "OpenCode")]
    Opencode,
}
