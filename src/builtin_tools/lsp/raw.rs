//! The methods that `lsp_request` passes on, and why it passes on no others.
//!
//! **Only reads**: what changes documents, runs commands, or answers with an edit has a tool of its own, or none.

use serde_json::Value;

/// A method with the capability of a server that answers it.
const READS: [(&str, &str); 37] = [
    ("callHierarchy/incomingCalls", "callHierarchyProvider"),
    ("callHierarchy/outgoingCalls", "callHierarchyProvider"),
    ("codeLens/resolve", "codeLensProvider"),
    ("completionItem/resolve", "completionProvider"),
    ("documentLink/resolve", "documentLinkProvider"),
    ("inlayHint/resolve", "inlayHintProvider"),
    ("textDocument/codeLens", "codeLensProvider"),
    ("textDocument/colorPresentation", "colorProvider"),
    ("textDocument/completion", "completionProvider"),
    ("textDocument/declaration", "declarationProvider"),
    ("textDocument/definition", "definitionProvider"),
    ("textDocument/diagnostic", "diagnosticProvider"),
    ("textDocument/documentColor", "colorProvider"),
    ("textDocument/documentHighlight", "documentHighlightProvider"),
    ("textDocument/documentLink", "documentLinkProvider"),
    ("textDocument/documentSymbol", "documentSymbolProvider"),
    ("textDocument/foldingRange", "foldingRangeProvider"),
    ("textDocument/hover", "hoverProvider"),
    ("textDocument/implementation", "implementationProvider"),
    ("textDocument/inlayHint", "inlayHintProvider"),
    ("textDocument/inlineValue", "inlineValueProvider"),
    ("textDocument/linkedEditingRange", "linkedEditingRangeProvider"),
    ("textDocument/moniker", "monikerProvider"),
    ("textDocument/prepareCallHierarchy", "callHierarchyProvider"),
    ("textDocument/prepareRename", "renameProvider"),
    ("textDocument/prepareTypeHierarchy", "typeHierarchyProvider"),
    ("textDocument/references", "referencesProvider"),
    ("textDocument/selectionRange", "selectionRangeProvider"),
    ("textDocument/semanticTokens/full", "semanticTokensProvider"),
    ("textDocument/semanticTokens/range", "semanticTokensProvider"),
    ("textDocument/signatureHelp", "signatureHelpProvider"),
    ("textDocument/typeDefinition", "typeDefinitionProvider"),
    ("typeHierarchy/subtypes", "typeHierarchyProvider"),
    ("typeHierarchy/supertypes", "typeHierarchyProvider"),
    ("workspace/diagnostic", "diagnosticProvider"),
    ("workspace/symbol", "workspaceSymbolProvider"),
    ("workspaceSymbol/resolve", "workspaceSymbolProvider"),
];

/// Methods that answer with an edit.
const EDITS: [&str; 11] = [
    "textDocument/codeAction",
    "codeAction/resolve",
    "textDocument/formatting",
    "textDocument/rangeFormatting",
    "textDocument/rangesFormatting",
    "textDocument/onTypeFormatting",
    "textDocument/rename",
    "textDocument/inlineCompletion",
    "workspace/willCreateFiles",
    "workspace/willRenameFiles",
    "workspace/willDeleteFiles",
];

/// What a server must offer for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawNeed {
    /// This capability.
    Capability(&'static str),
    /// This command.
    Command(String),
    /// The user says that it answers.
    Nothing,
}

/// What a server must offer for a request, or why lspool does not pass it on. The user allows further methods and commands.
pub fn raw_need(
    method: &str,
    params: &Value,
    methods: &[String],
    commands: &[String],
) -> Result<RawNeed, String> {
    if let Some((_, provider)) = READS.iter().find(|(name, _)| *name == method) {
        return Ok(RawNeed::Capability(provider));
    }
    if let (EXECUTE, Some(command)) = (method, params["command"].as_str())
        && commands.iter().any(|it| it == command)
    {
        return Ok(RawNeed::Command(command.to_owned()));
    }
    match never(method) {
        None if methods.iter().any(|it| fits(method, it)) => Ok(RawNeed::Nothing),
        why => {
            let why = why.unwrap_or("lspool passes on only the reads of the Language Server Protocol");
            Err(format!("{method} is not passed on: {why}"))
        }
    }
}

/// Whether a name, or the beginning of names before a `*`, means a method.
fn fits(method: &str, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(beginning) => method.starts_with(beginning),
        None => method == name,
    }
}

const EXECUTE: &str = "workspace/executeCommand";

/// Why lspool never passes a method on, if so.
fn never(method: &str) -> Option<&'static str> {
    match method {
        "initialize" | "initialized" | "shutdown" | "exit" => Some("lspool starts and ends servers"),
        EXECUTE => Some("a command may do anything, so the user names each in `raw_commands`"),
        _ if EDITS.contains(&method) => Some("it answers with an edit"),
        _ if method.starts_with("$/") => Some("lspool itself cancels and reports progress"),
        _ if method.starts_with("textDocument/did")
            || method.starts_with("textDocument/will")
            || method.starts_with("notebookDocument/")
            || method.starts_with("workspace/did") =>
        {
            Some("lspool sends servers the files as they are on the disk")
        }
        _ => None,
    }
}

/// The result of a request within a size in bytes, cut at an element of its outermost list. Gives how many elements that
/// has, and whether it is cut.
pub fn clipped_list(mut result: Value, most: usize) -> (Value, usize, bool) {
    let list = match &mut result {
        Value::Array(all) => Some(all),
        Value::Object(members) => members.values_mut().find_map(Value::as_array_mut),
        _ => None,
    };
    let total = list.as_ref().map_or(1, |it| it.len());
    let size = |it: &Value| it.to_string().len();
    if let Some(list) = list {
        let mut left = most;
        let fits = list.iter().take_while(|it| {
            let size = size(it) + 1;
            let fits = size <= left;
            left = left.saturating_sub(size);
            fits
        });
        let n = fits.count();
        list.truncate(n);
        if n < total && size(&result) <= 2 * most {
            return (result, total, true);
        }
    }
    if size(&result) <= 2 * most {
        return (result, total, false);
    }
    let text = result.to_string();
    (text[..text.floor_char_boundary(most)].into(), total, true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_reads_are_passed_on() {
        assert!(READS.is_sorted());
        let need = |method: &str| raw_need(method, &json!({"command": "x"}), &[], &[]);
        assert_eq!(need("textDocument/hover"), Ok(RawNeed::Capability("hoverProvider")));
        for (method, why) in [
            ("shutdown", "starts and ends"),
            ("workspace/executeCommand", "anything"),
            ("textDocument/rename", "edit"),
            ("textDocument/didOpen", "on the disk"),
            ("workspace/didChangeConfiguration", "on the disk"),
            ("$/cancelRequest", "cancels"),
            ("rust-analyzer/expandMacro", "only the reads"),
            ("TextDocument/hover", "only the reads"),
            ("", "only the reads"),
        ] {
            let told = need(method).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn results_are_cut_at_elements() {
        let ten = json!(["0123456789", "0123456789", "0123456789"]);
        assert_eq!(clipped_list(ten.clone(), 100), (ten.clone(), 3, false));
        assert_eq!(clipped_list(ten.clone(), 30), (json!(["0123456789", "0123456789"]), 3, true));
        let items = json!({"isIncomplete": false, "items": ten});
        let (cut, total, is_cut) = clipped_list(items, 30);
        assert_eq!((cut["items"].as_array().unwrap().len(), total, is_cut), (2, 3, true));
        assert_eq!(clipped_list(json!("x".repeat(100)), 10), (json!("\"xxxxxxxxx"), 1, true));
        assert_eq!(clipped_list(Value::Null, 10), (Value::Null, 1, false));
    }

    #[test]
    fn user_allows_further_methods_and_commands_but_no_edits() {
        let (methods, commands) = (["my/read", "other/*"].map(str::to_owned), ["my.command".to_owned()]);
        let need = |method: &str, command: &str| {
            raw_need(method, &json!({"command": command}), &methods, &commands).ok()
        };
        for method in ["my/read", "other/one", "other/two"] {
            assert_eq!(need(method, ""), Some(RawNeed::Nothing));
        }
        assert_eq!(need("my/readMore", ""), None);
        assert_eq!(need(EXECUTE, "my.command"), Some(RawNeed::Command("my.command".to_owned())));
        assert_eq!(need(EXECUTE, "another.command"), None);
        let all =
            ["*", EXECUTE, "textDocument/rename", "textDocument/didOpen", "shutdown"].map(str::to_owned);
        for method in &all[1..] {
            assert!(raw_need(method, &json!({"command": "x"}), &all, &[]).is_err(), "{method}");
        }
    }
}
