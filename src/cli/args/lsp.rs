//! The options of `lspool lsp`. The comments here are the help texts.

use std::path::PathBuf;

use clap::{ArgAction, Subcommand, builder::PossibleValuesParser};

/// `lspool lsp`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
// The command has a group of this name.
#[group(skip)]
pub(in crate::cli) struct Lsp {
    #[command(subcommand)]
    pub(in crate::cli) task: LspTask,
    /// The workspace folder [default: the current folder, or the one above it that has a .git]
    #[arg(long, value_name = "DIR", global = true)]
    pub(in crate::cli) root: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(in crate::cli) json: bool,
}

/// What to ask.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(in crate::cli) enum LspTask {
    /// List all uses of a symbol
    References {
        #[command(flatten)]
        target: TargetWords,
        /// Show N lines around each place
        #[arg(long, value_name = "N")]
        context: Option<u32>,
        /// Show only places in these files
        #[arg(long, value_name = "GLOB")]
        path: Option<String>,
        /// Show N places at most [default: 1000]
        #[arg(long, value_name = "N")]
        max: Option<u32>,
    },
    /// Show where a symbol is defined
    Definition {
        #[command(flatten)]
        target: TargetWords,
        /// Show its whole text
        #[arg(long)]
        body: bool,
        /// Show its declaration or its type instead
        #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(["definition", "declaration", "type"]))]
        kind: Option<String>,
    },
    /// List the implementations of a symbol
    Implementations {
        #[command(flatten)]
        target: TargetWords,
    },
    /// List the callers of a function, or what it calls
    Calls {
        #[command(flatten)]
        target: TargetWords,
        /// List what it calls
        #[arg(long)]
        outgoing: bool,
    },
    /// Show the type and documentation of a symbol
    Hover {
        #[command(flatten)]
        target: TargetWords,
    },
    /// Find symbols by a part of their name
    Symbols {
        /// A part of the name, or a file whose symbols to list
        #[arg(value_name = "QUERY|FILE")]
        query: String,
    },
    /// Rename a symbol in all files
    #[command(override_usage = "lspool lsp rename [OPTIONS] <TARGET> <NEW_NAME>")]
    Rename {
        #[expect(clippy::doc_markdown, reason = "it is a help text")]
        /// FILE:LINE:CHARACTER, FILE NAME, or NAME; and the new name
        #[arg(value_name = "WORD", required = true, num_args = 2..=3, action = ArgAction::Append)]
        words: Vec<String>,
        /// Only show the changes, as without --yes
        #[arg(long, conflicts_with = "yes")]
        preview: bool,
        /// Make the changes
        #[arg(long)]
        yes: bool,
    },
    /// Format a file, or lines of it
    Format {
        /// A file
        #[arg(value_name = "FILE")]
        file: String,
        /// Only these lines
        #[arg(long, value_name = "FIRST[-LAST]")]
        lines: Option<String>,
        /// Show the changes and do not make them
        #[arg(long)]
        preview: bool,
    },
    /// List the fixes and refactorings for a line
    Actions {
        /// A file and a line, or lines
        #[arg(value_name = "FILE:FIRST[-LAST]")]
        place: String,
        /// List only this kind, such as quickfix or source.organizeImports
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
        /// Make the action whose title begins with this
        #[arg(long, value_name = "TITLE")]
        apply: Option<String>,
    },
    /// Report the errors and warnings of files
    #[command(
        after_help = "Exit status: 0 if there are none, 1 if there are some, 3 if a file could not be checked."
    )]
    Diagnostics {
        /// Files, or patterns in quotes
        #[arg(value_name = "FILE", required = true)]
        files: Vec<String>,
        /// The least severity
        #[arg(
            long,
            value_name = "SEVERITY",
            default_value = "warning",
            value_parser = PossibleValuesParser::new(["error", "warning", "information", "hint"])
        )]
        severity: String,
    },
    /// Call a tool with JSON arguments
    Call {
        /// Such as `lsp_references`
        #[arg(value_name = "TOOL")]
        tool: String,
        /// A JSON object
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
    },
    /// List the servers for the languages of the workspace
    Servers,
    /// List the tools that `call` takes, with their arguments
    Tools,
}

/// A symbol or a place on the command line.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(in crate::cli) struct TargetWords {
    #[expect(clippy::doc_markdown, reason = "it is a help text")]
    /// FILE:LINE:CHARACTER, FILE NAME, or NAME, such as Graph/add_node
    #[arg(value_name = "TARGET", required = true, num_args = 1..=2, action = ArgAction::Append)]
    pub(in crate::cli) words: Vec<String>,
}
