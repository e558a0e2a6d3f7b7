//! Builtin tools as words and values: their definitions, arguments, and results.
//!
//! For conversations without an editor, or with an editor that has no such tools. Owns the definitions, the reading
//! of arguments, the edits of text, the commands that need no question, and the size of results. Touches no file:
//! `shell::tools` does.

mod allow;
mod bounds;
mod call;
mod code;
mod edit;
pub mod lsp;

#[cfg(test)]
pub(crate) use self::allow::words;
pub use self::{
    allow::is_allowed,
    bounds::{Kept, cut},
    call::{Call, Lines},
    code::CodeTool,
    edit::{replaced, rewritten},
};
use serde_json::{Value, json};

/// What the terminal tool is for. Its shell differs between systems, and so does what confines it.
const TERMINAL: &str = if cfg!(windows) {
    "Run a command in PowerShell in the workspace folder and return its output and exit code. The command gets no \
     input and is stopped when it takes too long; do not start background processes."
} else {
    "Run a command in a new shell in the workspace folder and return its output and exit code. \
     The command gets no input and is stopped when it takes too long; do not start background \
     processes. It can write only in the workspace and to temporary files."
};

/// The name of a tool without the prefix of the server.
pub fn bare(name: &str) -> &str {
    name.strip_prefix("copilot.").unwrap_or(name)
}

/// A builtin tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// Reads lines of a file.
    ReadFile,
    /// Lists a folder.
    ListDir,
    /// Finds files by name.
    FileSearch,
    /// Finds lines by content.
    GrepSearch,
    /// Makes a file.
    CreateFile,
    /// Replaces a piece of text.
    ReplaceString,
    /// Writes a whole file. A Copilot server computes each edit itself, and calls this.
    InsertEdit,
    /// Runs a command.
    Terminal,
}

impl Tool {
    /// All builtin tools.
    pub const ALL: [Tool; 8] = [
        Tool::ReadFile,
        Tool::ListDir,
        Tool::FileSearch,
        Tool::GrepSearch,
        Tool::CreateFile,
        Tool::ReplaceString,
        Tool::InsertEdit,
        Tool::Terminal,
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Tool::ReadFile => "read_file",
            Tool::ListDir => "list_dir",
            Tool::FileSearch => "file_search",
            Tool::GrepSearch => "grep_search",
            Tool::CreateFile => "create_file",
            Tool::ReplaceString => "replace_string_in_file",
            Tool::InsertEdit => "insert_edit_into_file",
            Tool::Terminal => crate::agents::TERMINAL,
        }
    }

    /// The tool of this name.
    pub fn named(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The definition for a model, in the form of `conversation/registerTools`: each parameter has a type and a
    /// description.
    pub fn definition(self) -> Value {
        let (description, properties, required): (&str, &[Parameter], &[&str]) = match self {
            Tool::ReadFile => (
                "Read lines of a text file in the workspace. Each answer has a limited size: if there is \
                 more, the answer gives the `startLine` for the next call.",
                &[
                    (
                        "filePath",
                        "string",
                        "The file: an absolute path, or a path relative to the workspace \
                                            folder.",
                    ),
                    ("startLine", "number", "The first line to read, counted from 1. Default: 1."),
                    ("endLine", "number", "The last line to read. Default: the last line of the file."),
                ],
                &["filePath"],
            ),
            Tool::ListDir => (
                "List the contents of a folder in the workspace, sorted by name. Folder names end in /.",
                &[(
                    "path",
                    "string",
                    "The folder: an absolute path, or a path relative to the workspace \
                                      folder.",
                )],
                &["path"],
            ),
            Tool::FileSearch => (
                "Find files in the workspace by a glob pattern such as **/*.{js,ts} or src/**. Skips files \
                 that .gitignore excludes.",
                &[
                    (
                        "query",
                        "string",
                        "The glob pattern, matched against the path relative to the \
                                         workspace folder.",
                    ),
                    ("maxResults", "number", "The maximum number of files to return."),
                ],
                &["query"],
            ),
            Tool::GrepSearch => (
                "Find lines in the files of the workspace by text or regular expression, ignoring case. \
                 Skips binary files and files that .gitignore excludes.",
                &[
                    ("query", "string", "The text or regular expression to find."),
                    ("isRegexp", "boolean", "Whether `query` is a regular expression. Default: false."),
                    ("includePattern", "string", "Search only files whose path matches this glob pattern."),
                ],
                &["query"],
            ),
            Tool::CreateFile => (
                "Create a new file in the workspace, with any missing folders. Fails if the file exists: \
                 edit the file instead.",
                &[
                    (
                        "filePath",
                        "string",
                        "The file: an absolute path, or a path relative to the workspace \
                                            folder.",
                    ),
                    ("content", "string", "The whole text of the file."),
                ],
                &["filePath", "content"],
            ),
            Tool::ReplaceString => (
                "Replace a piece of text in a file of the workspace. `oldString` must occur exactly once in \
                 the file, so include some lines around the change.",
                &[
                    (
                        "filePath",
                        "string",
                        "The file: an absolute path, or a path relative to the workspace \
                                            folder.",
                    ),
                    (
                        "oldString",
                        "string",
                        "The text to replace, exactly as in the file, including white space.",
                    ),
                    ("newString", "string", "The new text."),
                ],
                &["filePath", "oldString", "newString"],
            ),
            Tool::InsertEdit => (
                "Replace the whole text of a file in the workspace.",
                &[
                    ("explanation", "string", "The purpose of the edit, in a few words."),
                    (
                        "filePath",
                        "string",
                        "The file: an absolute path, or a path relative to the workspace \
                                            folder.",
                    ),
                    ("code", "string", "The whole text of the file."),
                ],
                &["explanation", "filePath", "code"],
            ),
            Tool::Terminal => (
                TERMINAL,
                &[
                    ("command", "string", "The command line to run."),
                    (
                        "explanation",
                        "string",
                        "The purpose of the command in a few words, shown to the user.",
                    ),
                ],
                &["command", "explanation"],
            ),
        };
        let property = |(name, kind, description): &Parameter| {
            ((*name).to_owned(), json!({"type": kind, "description": description}))
        };
        let properties: serde_json::Map<String, Value> = properties.iter().map(property).collect();
        json!({
            "name": self.name(),
            "description": description,
            "inputSchema": {"type": "object", "properties": properties, "required": required},
        })
    }
}

/// The name, type and description of a parameter.
type Parameter = (&'static str, &'static str, &'static str);

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A success, with the text for the model.
    Done(String),
    /// A failure, with the reason.
    Failed(String),
    /// Cancelled.
    Cancelled,
}

impl From<Result<String, String>> for Outcome {
    fn from(it: Result<String, String>) -> Outcome {
        match it {
            Ok(text) => Outcome::Done(text),
            Err(why) => Outcome::Failed(why),
        }
    }
}

impl Outcome {
    /// Adds a note for the model.
    #[must_use]
    pub fn noting(self, note: &str) -> Outcome {
        let with = |text: String| format!("{text}\n[{note}]");
        match self {
            Outcome::Done(text) => Outcome::Done(with(text)),
            Outcome::Failed(why) => Outcome::Failed(with(why)),
            Outcome::Cancelled => Outcome::Cancelled,
        }
    }

    /// The `result` of the answer to `conversation/invokeClientTool`.
    pub fn answer(&self) -> Value {
        let (status, text) = match self {
            Outcome::Done(text) => ("success", text.as_str()),
            Outcome::Failed(why) => ("error", why.as_str()),
            Outcome::Cancelled => ("cancelled", "cancelled by the user"),
        };
        json!([{"content": [{"value": text}], "status": status}, null])
    }
}

/// The answer to `conversation/invokeClientToolConfirmation`, for a command that needs no question or is refused.
pub fn accepted(is_allowed: bool) -> Value {
    json!([{"result": if is_allowed { "accept" } else { ASK }}, null])
}

/// Instead of `accept` or `dismiss`: lspool must ask the user.
pub const ASK: &str = "ask";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_definition_has_typed_described_properties() {
        for tool in Tool::ALL {
            let it = tool.definition();
            assert_eq!(Tool::named(it["name"].as_str().unwrap()), Some(tool));
            let schema = &it["inputSchema"];
            let properties = schema["properties"].as_object().unwrap();
            for (name, property) in properties {
                assert!(property["type"].is_string(), "{name}");
                assert!(property["description"].as_str().is_some_and(|it| it.ends_with('.')), "{name}");
            }
            for required in schema["required"].as_array().unwrap() {
                assert!(properties.contains_key(required.as_str().unwrap()), "{tool:?}: {required}");
            }
        }
        assert_eq!(Tool::named("apply_patch"), None);
    }
}
