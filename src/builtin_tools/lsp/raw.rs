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

/// The capability that a server needs for a method; or why lspool does not pass the method on.
pub fn capability_for(method: &str) -> Result<&'static str, String> {
    if let Some((_, provider)) = READS.iter().find(|(name, _)| *name == method) {
        return Ok(provider);
    }
    let why = match method {
        "initialize" | "initialized" | "shutdown" | "exit" => "lspool starts and ends servers",
        "workspace/executeCommand" => "a command may do anything",
        _ if EDITS.contains(&method) => "it answers with an edit",
        _ if method.starts_with("$/") => "lspool itself cancels and reports progress",
        _ if method.starts_with("textDocument/did")
            || method.starts_with("textDocument/will")
            || method.starts_with("notebookDocument/")
            || method.starts_with("workspace/did") =>
        {
            "lspool sends servers the files as they are on the disk"
        }
        _ => "lspool passes on only the reads of the Language Server Protocol",
    };
    Err(format!("{method} is not passed on: {why}"))
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
    use super::*;

    #[test]
    fn only_reads_are_passed_on() {
        assert!(READS.is_sorted());
        assert_eq!(capability_for("textDocument/hover"), Ok("hoverProvider"));
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
            let told = capability_for(method).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn results_are_cut_at_elements() {
        use serde_json::json;
        let ten = json!(["0123456789", "0123456789", "0123456789"]);
        assert_eq!(clipped_list(ten.clone(), 100), (ten.clone(), 3, false));
        assert_eq!(clipped_list(ten.clone(), 30), (json!(["0123456789", "0123456789"]), 3, true));
        let items = json!({"isIncomplete": false, "items": ten});
        let (cut, total, is_cut) = clipped_list(items, 30);
        assert_eq!((cut["items"].as_array().unwrap().len(), total, is_cut), (2, 3, true));
        assert_eq!(clipped_list(json!("x".repeat(100)), 10), (json!("\"xxxxxxxxx"), 1, true));
        assert_eq!(clipped_list(Value::Null, 10), (Value::Null, 1, false));
    }
}
