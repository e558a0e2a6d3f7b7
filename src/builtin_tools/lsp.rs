//! The code tools as words and values: their definitions and arguments, names of symbols, places in texts, answers.
//!
//! Touches no file and asks no server: `core::code_tools` does.

mod answer;
mod arguments;
mod diff;
mod edit_answer;
mod editor;
mod outline;
mod pattern;
mod raw;
mod text;
mod text_edits;
mod workspace_edit;

use serde_json::{Map, Value, json};

pub use self::{
    answer::{
        Answer, Candidate, Code, Diagnostic, FileReport, Found, Freshness, PlaceShown, ToolError, clipped,
        visible,
    },
    arguments::{Apply, DefinitionKind, Direction, LspCall, RawTarget, Severity, Target},
    diff::diff,
    edit_answer::{
        ActionShown, ChangeShown, EditAnswer, EditState, Left, NewErrors, actions_answer, how_to_make,
    },
    editor::{EditorDocument, EditorDocuments, EditorId, Editors, NotEditable},
    outline::{NamePath, Outline, Symbol, kind_name},
    pattern::Pattern,
    raw::{RawNeed, clipped_list, raw_need},
    text::{Position, Range, Text, is_word},
    text_edits::{Encoding, Splice, TextEdit, spliced, splices},
    workspace_edit::{EditPlan, Fact, FileChange, PlanError, PlannedFile, WorkspaceEdit, hash_of},
};

/// A code tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LspTool {
    /// `code_search`
    Search,
    /// `lsp_apply_edit`
    ApplyEdit,
    /// `lsp_call_hierarchy`
    CallHierarchy,
    /// `lsp_code_actions`
    CodeActions,
    /// `lsp_definition`
    Definition,
    /// `lsp_diagnostics`
    Diagnostics,
    /// `lsp_document_symbols`
    DocumentSymbols,
    /// `lsp_format`
    Format,
    /// `lsp_hover`
    Hover,
    /// `lsp_implementations`
    Implementations,
    /// `lsp_references`
    References,
    /// `lsp_rename`
    Rename,
    /// `lsp_request`
    Request,
    /// `lsp_start`
    Start,
    /// `lsp_stop`
    Stop,
    /// `lsp_type_hierarchy`
    TypeHierarchy,
    /// `lsp_workspace`
    Workspace,
    /// `lsp_workspace_symbols`
    WorkspaceSymbols,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterType {
    Text,
    Integer,
    Flag,
    Texts,
    Object,
}

/// A parameter of a tool.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) is: ParameterType,
    pub(crate) required: bool,
    about: &'static str,
}

const fn optional(name: &'static str, is: ParameterType, about: &'static str) -> Parameter {
    Parameter { name, is, required: false, about }
}

const fn required(name: &'static str, is: ParameterType, about: &'static str) -> Parameter {
    Parameter { name, is, required: true, about }
}

use ParameterType::{Flag, Integer, Object, Text as Word, Texts};

const SYMBOL: Parameter = optional(
    "symbol",
    Word,
    "The symbol's name, or a path such as `Graph/add_node`. With `line` or `line_text`: the word in that line.",
);
const FILE: Parameter = optional("file", Word, "A file of the workspace.");
const LINE: Parameter = optional("line", Integer, "A line of `file`, counted from 1.");
const CHARACTER: Parameter = optional("character", Integer, "A character of `line`, counted from 1.");
const LINE_TEXT: Parameter =
    optional("line_text", Word, "A piece of a line that occurs once in `file`, instead of `line`.");
const MOST: Parameter = optional("max_results", Integer, "How many to show at most.");
const AFTER: Parameter = optional("after", Word, "The `next` of an earlier answer: shows what follows it.");
const DEPTH: Parameter = optional("depth", Integer, "How many steps to follow, at most 3 [default: 1].");

const TARGET: [Parameter; 5] = [SYMBOL, FILE, LINE, CHARACTER, LINE_TEXT];

/// The names of the target's parameters.
pub(crate) fn is_of_target(name: &str) -> bool {
    TARGET.iter().any(|it| it.name == name)
}

impl LspTool {
    /// All tools, by name.
    pub const ALL: [LspTool; 18] = [
        LspTool::Search,
        LspTool::ApplyEdit,
        LspTool::CallHierarchy,
        LspTool::CodeActions,
        LspTool::Definition,
        LspTool::Diagnostics,
        LspTool::DocumentSymbols,
        LspTool::Format,
        LspTool::Hover,
        LspTool::Implementations,
        LspTool::References,
        LspTool::Rename,
        LspTool::Request,
        LspTool::Start,
        LspTool::Stop,
        LspTool::TypeHierarchy,
        LspTool::Workspace,
        LspTool::WorkspaceSymbols,
    ];

    /// Its name for a model.
    pub fn name(self) -> &'static str {
        match self {
            LspTool::Search => "code_search",
            LspTool::ApplyEdit => "lsp_apply_edit",
            LspTool::CallHierarchy => "lsp_call_hierarchy",
            LspTool::CodeActions => "lsp_code_actions",
            LspTool::Format => "lsp_format",
            LspTool::Rename => "lsp_rename",
            LspTool::Definition => "lsp_definition",
            LspTool::Diagnostics => "lsp_diagnostics",
            LspTool::DocumentSymbols => "lsp_document_symbols",
            LspTool::Hover => "lsp_hover",
            LspTool::Implementations => "lsp_implementations",
            LspTool::References => "lsp_references",
            LspTool::Request => "lsp_request",
            LspTool::Start => "lsp_start",
            LspTool::Stop => "lsp_stop",
            LspTool::TypeHierarchy => "lsp_type_hierarchy",
            LspTool::Workspace => "lsp_workspace",
            LspTool::WorkspaceSymbols => "lsp_workspace_symbols",
        }
    }

    /// The tool of this name.
    pub fn named(name: &str) -> Option<LspTool> {
        LspTool::ALL.into_iter().find(|it| it.name() == name)
    }

    /// What a server must be able to do for it, if not each can.
    pub fn ability(self) -> Option<&'static str> {
        match self {
            LspTool::CallHierarchy => Some("call hierarchy"),
            LspTool::CodeActions => Some("code actions"),
            LspTool::Format => Some("formatting"),
            LspTool::Implementations => Some("implementations"),
            LspTool::Rename => Some("rename"),
            LspTool::TypeHierarchy => Some("type hierarchy"),
            LspTool::Search
            | LspTool::ApplyEdit
            | LspTool::Definition
            | LspTool::Diagnostics
            | LspTool::DocumentSymbols
            | LspTool::Hover
            | LspTool::References
            | LspTool::Request
            | LspTool::Start
            | LspTool::Stop
            | LspTool::Workspace
            | LspTool::WorkspaceSymbols => None,
        }
    }

    /// Whether it may change files.
    pub fn writes(self) -> bool {
        match self {
            LspTool::ApplyEdit | LspTool::Format | LspTool::Rename => true,
            LspTool::Search
            | LspTool::CallHierarchy
            | LspTool::CodeActions
            | LspTool::Definition
            | LspTool::Diagnostics
            | LspTool::DocumentSymbols
            | LspTool::Hover
            | LspTool::Implementations
            | LspTool::References
            | LspTool::Request
            | LspTool::Start
            | LspTool::Stop
            | LspTool::TypeHierarchy
            | LspTool::Workspace
            | LspTool::WorkspaceSymbols => false,
        }
    }

    /// What a model reads of it.
    pub fn description(self) -> &'static str {
        match self {
            LspTool::Search => {
                "Searches the texts of all files for a text or a regular expression. For uses of a symbol, lsp_references knows \
                 better."
            }
            LspTool::ApplyEdit => {
                "Makes the edit of a preview or an action, or nothing if a file has changed since."
            }
            LspTool::CodeActions => {
                "Lists fixes and refactorings for lines, each with the `edit` for lsp_apply_edit."
            }
            LspTool::Format => "Formats a file, or lines of it.",
            LspTool::Rename => {
                "Renames a symbol in all files, or changes nothing. Reports new errors and where the old name is left."
            }
            LspTool::CallHierarchy => {
                "Lists the functions that call a function, or that it calls. The answer says whether it is complete."
            }
            LspTool::Definition => {
                "Finds where a symbol is defined, declared, or where its type is. With `body`, shows the whole text."
            }
            LspTool::Diagnostics => {
                "Reports errors and warnings of files as they are now. A file that is NOT CHECKED may have errors."
            }
            LspTool::DocumentSymbols => "Lists the symbols of a file: its outline, with lines.",
            LspTool::Hover => "Shows the signature, the type and the documentation of a symbol.",
            LspTool::Implementations => {
                "Finds the implementations of an interface, a class or a method. The answer says whether it is complete."
            }
            LspTool::References => {
                "Finds all uses of a symbol, as the language server understands the code. The answer says whether it is \
                 complete."
            }
            LspTool::Request => {
                "Asks a language server in terms of the Language Server Protocol, and passes its answer on as it is. Only \
                 reads. Positions count from 0, in UTF-16."
            }
            LspTool::Start => {
                "Joins a language server of the workspace, by its name or a language. Gives the `server_id` for \
                 `lsp_request`, and what the server can do."
            }
            LspTool::Stop => "Lets go of a language server that `lsp_start` has given.",
            LspTool::TypeHierarchy => "Lists the supertypes or subtypes of a type.",
            LspTool::Workspace => {
                "Reports the languages of the workspace, their servers, what these can do, and why a language has none."
            }
            LspTool::WorkspaceSymbols => "Finds symbols of the whole workspace by a part of their name.",
        }
    }

    pub(crate) fn parameters(self) -> Vec<&'static Parameter> {
        const DIRECTION_OF_CALLS: Parameter =
            required("direction", Word, "`incoming` for callers, `outgoing` for what it calls.");
        const DIRECTION_OF_TYPES: Parameter = required("direction", Word, "`supertypes` or `subtypes`.");
        const DEFINITION: [Parameter; 2] = [
            optional("body", Flag, "Whether to show the whole text of the symbol [default: false]."),
            optional("kind", Word, "`definition`, `declaration` or `type` [default: definition]."),
        ];
        const DIAGNOSTICS: [Parameter; 3] = [
            optional(
                "files",
                Texts,
                "Files or glob patterns. Without it: all files that have changed since the last call.",
            ),
            optional(
                "severity",
                Word,
                "The least severity: `error`, `warning`, `information` or `hint` [default: warning].",
            ),
            optional("max_results", Integer, "How many to show at most."),
        ];
        const SYMBOLS: [Parameter; 2] = [
            required("file", Word, "A file of the workspace."),
            optional("depth", Integer, "How many levels of nested symbols to list [default: 2]."),
        ];
        const REFERENCES: [Parameter; 5] = [
            optional("include_declaration", Flag, "Whether the declaration counts [default: true]."),
            optional("context", Integer, "Lines to show around each place, at most 5 [default: 0]."),
            MOST,
            AFTER,
            optional("path", Word, "A glob pattern: only places in these files."),
        ];
        const QUERY: [Parameter; 3] = [
            required("query", Word, "A part of the name."),
            optional("kind", Word, "Only symbols of this kind, such as `function` or `class`."),
            MOST,
        ];
        const SEARCH: [Parameter; 7] = [
            required("query", Word, "The text; case does not matter."),
            optional("is_regex", Flag, "Whether `query` is a regular expression [default: false]."),
            optional("glob", Word, "A glob pattern: only these files."),
            optional("path", Word, "A file or folder of the workspace: only there."),
            optional("context", Integer, "Lines to show around each place, at most 5 [default: 0]."),
            MOST,
            AFTER,
        ];
        const SERVER_ID: Parameter = required("server_id", Word, "The name from `lsp_start`.");
        const REQUEST: [Parameter; 4] = [
            SERVER_ID,
            required("method", Word, "Such as `textDocument/hover`."),
            optional("params", Object, "The parameters, as the protocol has them."),
            optional("timeout", Integer, "How many seconds to wait at most."),
        ];
        const START: [Parameter; 3] = [
            optional("language", Word, "A language, such as `python`."),
            optional("server", Word, "The name of a server, instead of `language`."),
            optional("root", Word, "A folder of the workspace."),
        ];
        const EDIT: [Parameter; 1] = [required("edit", Word, "The `edit` of a preview or an action.")];
        const PREVIEW: Parameter =
            optional("preview", Flag, "Whether to show the edit and not make it [default: false].");
        const RENAME: [Parameter; 2] = [required("new_name", Word, "The new name."), PREVIEW];
        const ACTIONS: [Parameter; 4] = [
            required("file", Word, "A file of the workspace."),
            required("start_line", Integer, "The first line, counted from 1."),
            optional("end_line", Integer, "The last line [default: start_line]."),
            optional("kind", Word, "Only this kind, such as `quickfix` or `source.organizeImports`."),
        ];
        const FORMAT: [Parameter; 4] = [
            required("file", Word, "A file of the workspace."),
            optional("start_line", Integer, "The first line, counted from 1 [default: the whole file]."),
            optional("end_line", Integer, "The last line [default: start_line]."),
            PREVIEW,
        ];
        match self {
            LspTool::ApplyEdit => EDIT.iter().collect(),
            LspTool::CodeActions => ACTIONS.iter().collect(),
            LspTool::Format => FORMAT.iter().collect(),
            LspTool::Rename => TARGET.iter().chain(&RENAME).collect(),
            LspTool::Search => SEARCH.iter().collect(),
            LspTool::CallHierarchy => TARGET.iter().chain([&DIRECTION_OF_CALLS, &DEPTH]).collect(),
            LspTool::TypeHierarchy => TARGET.iter().chain([&DIRECTION_OF_TYPES, &DEPTH]).collect(),
            LspTool::Definition => TARGET.iter().chain(&DEFINITION).collect(),
            LspTool::Diagnostics => DIAGNOSTICS.iter().collect(),
            LspTool::DocumentSymbols => SYMBOLS.iter().collect(),
            LspTool::Hover => TARGET.iter().collect(),
            LspTool::Implementations => TARGET.iter().chain([&MOST, &AFTER]).collect(),
            LspTool::References => TARGET.iter().chain(&REFERENCES).collect(),
            LspTool::Request => REQUEST.iter().collect(),
            LspTool::Start => START.iter().collect(),
            LspTool::Stop => vec![&SERVER_ID],
            LspTool::Workspace => Vec::new(),
            LspTool::WorkspaceSymbols => QUERY.iter().collect(),
        }
    }

    /// The schema of its arguments: an object, each member of one type.
    pub fn input_schema(self) -> Value {
        let parameters = self.parameters();
        let mut properties = Map::new();
        for it in &parameters {
            let property = match it.is {
                Word => json!({"type": "string", "description": it.about}),
                Integer => json!({"type": "integer", "description": it.about}),
                Flag => json!({"type": "boolean", "description": it.about}),
                Object => json!({"type": "object", "description": it.about}),
                Texts => json!({"type": "array", "items": {"type": "string"}, "description": it.about}),
            };
            properties.insert(it.name.to_owned(), property);
        }
        let required: Vec<&str> = parameters.iter().filter(|it| it.required).map(|it| it.name).collect();
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CORE_TOOLS, MORE_TOOLS, RAW_TOOLS};

    #[test]
    fn definitions_are_flat_sorted_and_small() {
        let names = LspTool::ALL.map(LspTool::name);
        let mut sets = [&CORE_TOOLS[..], &MORE_TOOLS, &RAW_TOOLS].concat();
        sets.sort_unstable();
        assert_eq!(names.as_slice(), sets, "the configuration names all");
        assert!(names.is_sorted(), "{names:?}");
        let mut size = 0;
        for tool in LspTool::ALL {
            assert_eq!(LspTool::named(tool.name()), Some(tool));
            let schema = tool.input_schema();
            for (name, property) in schema["properties"].as_object().unwrap() {
                assert!(property["type"].is_string(), "{name}");
                assert!(property["description"].as_str().is_some_and(|it| it.ends_with('.')), "{name}");
            }
            let whole =
                json!({"name": tool.name(), "description": tool.description(), "inputSchema": schema});
            size += whole.to_string().len();
        }
        assert!(size <= 14 << 10, "{size} bytes");
    }
}
