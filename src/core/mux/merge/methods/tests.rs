//! The table against the names of the Language Server Protocol 3.18, from its meta model.

use super::*;
use crate::config::features::{feature_of, names};

/// Requests of an editor.
const ASKED_OF_SERVERS: &[&str] = &[
    "callHierarchy/incomingCalls",
    "callHierarchy/outgoingCalls",
    "codeAction/resolve",
    "codeLens/resolve",
    "completionItem/resolve",
    "documentLink/resolve",
    "initialize",
    "inlayHint/resolve",
    "shutdown",
    "textDocument/codeAction",
    "textDocument/codeLens",
    "textDocument/colorPresentation",
    "textDocument/completion",
    "textDocument/declaration",
    "textDocument/definition",
    "textDocument/diagnostic",
    "textDocument/documentColor",
    "textDocument/documentHighlight",
    "textDocument/documentLink",
    "textDocument/documentSymbol",
    "textDocument/foldingRange",
    "textDocument/formatting",
    "textDocument/hover",
    "textDocument/implementation",
    "textDocument/inlayHint",
    "textDocument/inlineCompletion",
    "textDocument/inlineValue",
    "textDocument/linkedEditingRange",
    "textDocument/moniker",
    "textDocument/onTypeFormatting",
    "textDocument/prepareCallHierarchy",
    "textDocument/prepareRename",
    "textDocument/prepareTypeHierarchy",
    "textDocument/rangeFormatting",
    "textDocument/rangesFormatting",
    "textDocument/references",
    "textDocument/rename",
    "textDocument/selectionRange",
    "textDocument/semanticTokens/full",
    "textDocument/semanticTokens/full/delta",
    "textDocument/semanticTokens/range",
    "textDocument/signatureHelp",
    "textDocument/typeDefinition",
    "textDocument/willSaveWaitUntil",
    "typeHierarchy/subtypes",
    "typeHierarchy/supertypes",
    "workspace/diagnostic",
    "workspace/executeCommand",
    "workspace/symbol",
    "workspace/textDocumentContent",
    "workspace/willCreateFiles",
    "workspace/willDeleteFiles",
    "workspace/willRenameFiles",
    "workspaceSymbol/resolve",
];

/// Requests of a server.
const ASKED_OF_EDITORS: &[&str] = &[
    "client/registerCapability",
    "client/unregisterCapability",
    "window/showDocument",
    "window/showMessageRequest",
    "window/workDoneProgress/create",
    "workspace/applyEdit",
    "workspace/codeLens/refresh",
    "workspace/configuration",
    "workspace/diagnostic/refresh",
    "workspace/foldingRange/refresh",
    "workspace/inlayHint/refresh",
    "workspace/inlineValue/refresh",
    "workspace/semanticTokens/refresh",
    "workspace/textDocumentContent/refresh",
    "workspace/workspaceFolders",
];

/// Notifications of an editor.
const TOLD_TO_SERVERS: &[&str] = &[
    "$/cancelRequest",
    "$/progress",
    "$/setTrace",
    "exit",
    "initialized",
    "notebookDocument/didChange",
    "notebookDocument/didClose",
    "notebookDocument/didOpen",
    "notebookDocument/didSave",
    "textDocument/didChange",
    "textDocument/didClose",
    "textDocument/didOpen",
    "textDocument/didSave",
    "textDocument/willSave",
    "window/workDoneProgress/cancel",
    "workspace/didChangeConfiguration",
    "workspace/didChangeWatchedFiles",
    "workspace/didChangeWorkspaceFolders",
    "workspace/didCreateFiles",
    "workspace/didDeleteFiles",
    "workspace/didRenameFiles",
];

/// Notifications of a server.
const TOLD_TO_EDITORS: &[&str] = &[
    "$/cancelRequest",
    "$/logTrace",
    "$/progress",
    "telemetry/event",
    "textDocument/publishDiagnostics",
    "window/logMessage",
    "window/showMessage",
];

/// Requests about the session: they have no row.
const SESSION: [&str; 2] = ["initialize", "shutdown"];

#[test]
fn lists_have_all_messages_of_the_protocol() {
    assert_eq!(ASKED_OF_SERVERS.len() + ASKED_OF_EDITORS.len(), 69);
    // Two go both ways.
    assert_eq!(TOLD_TO_SERVERS.len() + TOLD_TO_EDITORS.len() - 2, 26);
}

#[test]
fn table_has_each_request_of_an_editor_and_no_other() {
    let names: Vec<&str> = methods().map(|it| it.name).collect();
    let expected: Vec<&str> = ASKED_OF_SERVERS.iter().copied().filter(|it| !SESSION.contains(it)).collect();
    assert_eq!(names, expected, "sorted, as they are searched for");
    for (index, row) in methods().enumerate() {
        assert_eq!(usize::from(row.id.0), index);
        assert!(std::ptr::eq(method(row.name).unwrap(), row));
    }
    let foreign = ASKED_OF_EDITORS.iter().chain(TOLD_TO_SERVERS).chain(TOLD_TO_EDITORS).chain(&SESSION);
    assert!(foreign.copied().all(|it| method(it).is_none()));
    assert!(method("rust-analyzer/expandMacro").is_none() && method("").is_none());
}

#[test]
fn editors_refresh_with_requests_that_servers_have() {
    for row in methods() {
        if let Late::Refresh(request) = row.late {
            assert!(ASKED_OF_EDITORS.contains(&request), "{request}");
            assert!(row.budget.is_some(), "{} is never late", row.name);
        }
    }
    let refreshes = ASKED_OF_EDITORS.iter().filter(|it| it.ends_with("/refresh"));
    let used: Vec<&str> = methods()
        .filter_map(|row| match row.late {
            Late::Refresh(request) => Some(request),
            Late::Cancel => None,
        })
        .collect();
    let rest: Vec<_> = refreshes.filter(|it| !used.contains(it)).collect();
    assert_eq!(rest, [&"workspace/textDocumentContent/refresh"], "only one member is asked for a text");
}

#[test]
fn only_reads_have_a_budget() {
    for row in methods() {
        let waits = match row.plan {
            Plan::Own | Plan::Maker => true,
            Plan::First => false,
            Plan::All(shape) => matches!(shape, Shape::Edits | Shape::WorkspaceEdit),
        };
        assert_eq!(row.budget.is_none(), waits, "{}", row.name);
        assert!(row.combined.is_none() || row.plan == Plan::First, "{}", row.name);
    }
}

#[test]
fn registrations_are_of_methods_of_the_protocol() {
    // Two that stand for several.
    let families = ["notebookDocument/sync", "textDocument/semanticTokens"];
    for it in of::ALL {
        let known = ASKED_OF_SERVERS.contains(&it.registered) || TOLD_TO_SERVERS.contains(&it.registered);
        assert!(known || families.contains(&it.registered), "{}", it.registered);
        let same = of::registered(it.registered).expect("it is in the table");
        assert!(std::ptr::eq(same, it), "{} is there twice", it.registered);
    }
}

#[test]
fn features_name_methods() {
    let names = |feature: &str| -> Vec<&str> {
        let found = feature_methods(feature).expect("it is a feature").methods;
        methods().filter(|it| found.has(it.id)).map(|it| it.name).collect()
    };
    assert_eq!(names("hover"), ["textDocument/hover"]);
    assert_eq!(names("completion"), ["completionItem/resolve", "textDocument/completion"]);
    assert_eq!(names("rename-symbol"), ["textDocument/prepareRename", "textDocument/rename"]);
    assert_eq!(names("textDocument/semanticTokens/*").len(), 3);
    assert_eq!(names("diagnostics"), names("pull-diagnostics"));
    let pushes = |feature| feature_methods(feature).unwrap().methods.has(MethodId::PUBLISH);
    assert!(pushes("diagnostics") && !pushes("pull-diagnostics"));
    let organize = feature_methods("code-action:source.organizeImports").unwrap();
    assert_eq!(organize.kind, Some("source.organizeImports"));
    assert_eq!(organize.methods, feature_methods("code-action").unwrap().methods);
    for unknown in ["", "hovers", "code-action:", "hover:x", "textDocument/hover", "initialize"] {
        assert_eq!(feature_methods(unknown), None, "{unknown}");
    }
}

#[test]
fn features_are_those_of_the_configuration() {
    for row in methods() {
        assert_eq!(feature_of(row.name), Some(row.feature), "{}", row.name);
    }
    assert!(names().all(|it| feature_methods(it).is_some()));
}

#[test]
fn reference_page_has_every_request() {
    let page = include_str!("../../../../../docs/groups-reference.md");
    for it in methods() {
        assert!(
            page.contains(&format!("`{}`", it.name)),
            "{} is missing in docs/groups-reference.md",
            it.name
        );
    }
}
