//! The list of tools for MCP: titles, hints, and what each answers.
//!
//! The list is the same in each session, byte by byte: each change costs a model its prompt cache.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::{
    builtin_tools::lsp::LspTool,
    cli::code_tools::{ToolInfo, tools},
    config::LspToolsConfig,
};

/// The tools that the settings offer, by name.
pub(super) fn list(settings: &LspToolsConfig) -> Vec<Tool> {
    tools(settings).into_iter().map(tool).collect()
}

fn tool(info: ToolInfo) -> Tool {
    let of = LspTool::named(info.name).expect("the list is made of these");
    let hints = match of.writes() {
        true => ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(false),
        false => ToolAnnotations::new().read_only(true).open_world(false),
    };
    Tool::new(info.name, info.description, object(info.input_schema))
        .with_title(title(of))
        .with_raw_output_schema(object(output_schema(of)))
        .with_annotations(hints)
}

fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(members) => Arc::new(members),
        _ => Arc::default(),
    }
}

/// Its name for people.
fn title(tool: LspTool) -> &'static str {
    match tool {
        LspTool::ApplyEdit => "Make an edit",
        LspTool::CallHierarchy => "Find callers and callees",
        LspTool::CodeActions => "List fixes and refactorings",
        LspTool::Format => "Format a file",
        LspTool::Rename => "Rename a symbol",
        LspTool::Definition => "Find a definition",
        LspTool::Diagnostics => "Report errors and warnings",
        LspTool::DocumentSymbols => "List the symbols of a file",
        LspTool::Hover => "Show type and documentation",
        LspTool::Implementations => "Find implementations",
        LspTool::References => "Find all references",
        LspTool::Search => "Search texts",
        LspTool::Request => "Ask a language server",
        LspTool::Start => "Join a language server",
        LspTool::Stop => "Let go of a language server",
        LspTool::TypeHierarchy => "Find supertypes and subtypes",
        LspTool::Workspace => "Show language servers",
        LspTool::WorkspaceSymbols => "Find symbols by name",
    }
}

/// What an answer has beside what all have: each member and its type.
fn members(tool: LspTool) -> &'static [(&'static str, &'static str)] {
    const COMPLETE: (&str, &str) = ("complete", "boolean");
    const WHY: (&str, &str) = ("why", "string");
    const NEXT: (&str, &str) = ("next", "string");
    const SYMBOL: (&str, &str) = ("symbol", "object");
    const APPLIED: (&str, &str) = ("applied", "boolean");
    const EDIT: (&str, &str) = ("edit", "string");
    const CHANGES: (&str, &str) = ("changes", "array");
    const DIAGNOSTICS: (&str, &str) = ("diagnostics", "array");
    const LEFT: (&str, &str) = ("left", "array");
    match tool {
        LspTool::ApplyEdit => &[APPLIED, CHANGES, DIAGNOSTICS, LEFT],
        LspTool::CodeActions => &[("actions", "array")],
        LspTool::Format => &[APPLIED, EDIT, CHANGES, DIAGNOSTICS],
        LspTool::Rename => &[APPLIED, EDIT, CHANGES, DIAGNOSTICS, LEFT],
        LspTool::CallHierarchy | LspTool::TypeHierarchy => &[COMPLETE, WHY, SYMBOL],
        LspTool::Definition => &[SYMBOL, ("definitions", "array")],
        LspTool::Diagnostics => &[COMPLETE, WHY, ("files", "array")],
        LspTool::DocumentSymbols => &[("symbols", "array")],
        LspTool::Hover => &[SYMBOL, ("hover", "string")],
        LspTool::Implementations => &[COMPLETE, WHY, SYMBOL, ("implementations", "array"), NEXT],
        // A result may be of any type.
        LspTool::Request => &[],
        LspTool::Start => &[("server_id", "string")],
        LspTool::Stop => &[],
        LspTool::Search => &[COMPLETE, WHY, ("hits", "array"), NEXT],
        LspTool::References => &[COMPLETE, WHY, SYMBOL, ("references", "array"), NEXT],
        LspTool::Workspace => &[("folders", "array"), ("servers", "array"), ("missing", "object")],
        LspTool::WorkspaceSymbols => &[COMPLETE, WHY, ("symbols", "array")],
    }
}

/// A schema that holds for errors as well. It leaves open what the elements of lists are, to stay small.
fn output_schema(tool: LspTool) -> Value {
    const COMMON: [(&str, &str); 3] = [("ok", "boolean"), ("notes", "array"), ("error", "object")];
    let properties =
        COMMON.iter().chain(members(tool)).map(|(name, is)| ((*name).to_owned(), json!({"type": is})));
    let properties: JsonObject = properties.collect();
    json!({"type": "object", "properties": properties, "required": ["ok"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_small_and_the_same_each_time() {
        let usual = LspToolsConfig::default();
        let text = serde_json::to_string(&list(&usual)).unwrap();
        assert!(text.len() <= 14 << 10, "{} bytes", text.len());
        assert_eq!(text, serde_json::to_string(&list(&usual)).unwrap());
        let all = LspToolsConfig { offer: vec!["all".to_owned()], raw: true, ..usual };
        assert_eq!(list(&all).len(), LspTool::ALL.len());
        for tool in list(&all) {
            let value = serde_json::to_value(&tool).unwrap();
            assert!(value["title"].is_string() && value["description"].is_string(), "{value}");
            assert_eq!(value["outputSchema"]["type"], "object");
            let expected = match LspTool::named(&tool.name).unwrap().writes() {
                true => json!({
                    "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false,
                }),
                false => json!({"readOnlyHint": true, "openWorldHint": false}),
            };
            assert_eq!(value["annotations"], expected);
        }
    }
}
