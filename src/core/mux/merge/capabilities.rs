//! What a server says that it can do, read one capability at a time: one that has an unknown shape loses no other.
//!
//! A row of the table joins the three places where the protocol speaks of one ability: the answer to `initialize`, what
//! an editor says of registering it later, and the registration itself.

use serde_json::{Map, Value};

use crate::{
    rpc::{member, members},
    util::json,
};

/// An ability of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capability {
    /// Where the answer to `initialize` has it, below `capabilities`.
    pub(crate) server: &'static [&'static str],
    /// Where `initialize` says what the editor knows of it, below `capabilities`.
    pub(crate) client: &'static [&'static str],
    /// The method of its registrations.
    pub(crate) registered: &'static str,
    /// What the configuration calls it.
    pub(crate) feature: &'static str,
    pub(crate) options: Options,
}

/// What the options of a capability are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Options {
    /// Flags.
    Plain,
    CodeActions,
    Commands,
    Completion,
    Diagnostics,
    /// Which files an operation is on.
    Files,
    Folders,
    Notebooks,
    /// Characters that are typed.
    OnType,
    /// Schemes of URIs.
    Schemes,
    /// Characters that are typed, too.
    Signatures,
    /// A part of `textDocumentSync`, which has a shape of its own.
    Sync,
    Tokens,
}

const fn row(
    server: &'static [&'static str],
    client: &'static [&'static str],
    registered: &'static str,
    feature: &'static str,
    options: Options,
) -> Capability {
    Capability { server, client, registered, feature, options }
}

/// A provider of a language feature that the configuration calls by its method.
const fn own(
    server: &'static [&'static str],
    client: &'static [&'static str],
    registered: &'static str,
) -> Capability {
    row(server, client, registered, registered, Options::Plain)
}

/// A kind of file operation.
const fn files(server: &'static [&'static str], registered: &'static str) -> Capability {
    row(server, &["workspace", "fileOperations"], registered, registered, Options::Files)
}

macro_rules! capabilities {
    ($($name:ident = $row:expr;)*) => {
        $(pub(crate) const $name: Capability = $row;)*
        /// All of them.
        pub(crate) static ALL: &[Capability] = &[$($name),*];
    };
}

capabilities! {
    CALL_HIERARCHY =
        own(&["callHierarchyProvider"], &["textDocument", "callHierarchy"], "textDocument/prepareCallHierarchy");
    CODE_ACTION = row(
        &["codeActionProvider"],
        &["textDocument", "codeAction"],
        "textDocument/codeAction",
        "code-action",
        Options::CodeActions,
    );
    CODE_LENS = own(&["codeLensProvider"], &["textDocument", "codeLens"], "textDocument/codeLens");
    COLOR = row(
        &["colorProvider"],
        &["textDocument", "colorProvider"],
        "textDocument/documentColor",
        "document-colors",
        Options::Plain,
    );
    COMPLETION = row(
        &["completionProvider"],
        &["textDocument", "completion"],
        "textDocument/completion",
        "completion",
        Options::Completion,
    );
    DECLARATION = row(
        &["declarationProvider"],
        &["textDocument", "declaration"],
        "textDocument/declaration",
        "goto-declaration",
        Options::Plain,
    );
    DEFINITION = row(
        &["definitionProvider"],
        &["textDocument", "definition"],
        "textDocument/definition",
        "goto-definition",
        Options::Plain,
    );
    DIAGNOSTIC = row(
        &["diagnosticProvider"],
        &["textDocument", "diagnostic"],
        "textDocument/diagnostic",
        "pull-diagnostics",
        Options::Diagnostics,
    );
    DID_CREATE_FILES = files(&["workspace", "fileOperations", "didCreate"], "workspace/didCreateFiles");
    DID_DELETE_FILES = files(&["workspace", "fileOperations", "didDelete"], "workspace/didDeleteFiles");
    DID_RENAME_FILES = files(&["workspace", "fileOperations", "didRename"], "workspace/didRenameFiles");
    DOCUMENT_HIGHLIGHT = row(
        &["documentHighlightProvider"],
        &["textDocument", "documentHighlight"],
        "textDocument/documentHighlight",
        "document-highlight",
        Options::Plain,
    );
    DOCUMENT_LINK = row(
        &["documentLinkProvider"],
        &["textDocument", "documentLink"],
        "textDocument/documentLink",
        "document-links",
        Options::Plain,
    );
    DOCUMENT_SYMBOL = row(
        &["documentSymbolProvider"],
        &["textDocument", "documentSymbol"],
        "textDocument/documentSymbol",
        "document-symbols",
        Options::Plain,
    );
    EXECUTE_COMMAND = row(
        &["executeCommandProvider"],
        &["workspace", "executeCommand"],
        "workspace/executeCommand",
        "workspace-command",
        Options::Commands,
    );
    FOLDERS = row(
        &["workspace", "workspaceFolders", "changeNotifications"],
        &["workspace", "workspaceFolders"],
        "workspace/didChangeWorkspaceFolders",
        "",
        Options::Folders,
    );
    FOLDING_RANGE =
        own(&["foldingRangeProvider"], &["textDocument", "foldingRange"], "textDocument/foldingRange");
    FORMATTING = row(
        &["documentFormattingProvider"],
        &["textDocument", "formatting"],
        "textDocument/formatting",
        "format",
        Options::Plain,
    );
    HOVER =
        row(&["hoverProvider"], &["textDocument", "hover"], "textDocument/hover", "hover", Options::Plain);
    IMPLEMENTATION = row(
        &["implementationProvider"],
        &["textDocument", "implementation"],
        "textDocument/implementation",
        "goto-implementation",
        Options::Plain,
    );
    INLAY_HINT = row(
        &["inlayHintProvider"],
        &["textDocument", "inlayHint"],
        "textDocument/inlayHint",
        "inlay-hints",
        Options::Plain,
    );
    INLINE_COMPLETION = own(
        &["inlineCompletionProvider"],
        &["textDocument", "inlineCompletion"],
        "textDocument/inlineCompletion",
    );
    INLINE_VALUE =
        own(&["inlineValueProvider"], &["textDocument", "inlineValue"], "textDocument/inlineValue");
    LINKED_EDITING_RANGE = own(
        &["linkedEditingRangeProvider"],
        &["textDocument", "linkedEditingRange"],
        "textDocument/linkedEditingRange",
    );
    MONIKER = own(&["monikerProvider"], &["textDocument", "moniker"], "textDocument/moniker");
    NOTEBOOKS = row(
        &["notebookDocumentSync"],
        &["notebookDocument", "synchronization"],
        "notebookDocument/sync",
        "",
        Options::Notebooks,
    );
    ON_TYPE_FORMATTING = row(
        &["documentOnTypeFormattingProvider"],
        &["textDocument", "onTypeFormatting"],
        "textDocument/onTypeFormatting",
        "textDocument/onTypeFormatting",
        Options::OnType,
    );
    RANGE_FORMATTING = row(
        &["documentRangeFormattingProvider"],
        &["textDocument", "rangeFormatting"],
        "textDocument/rangeFormatting",
        "format",
        Options::Plain,
    );
    REFERENCES = row(
        &["referencesProvider"],
        &["textDocument", "references"],
        "textDocument/references",
        "goto-reference",
        Options::Plain,
    );
    RENAME = row(
        &["renameProvider"],
        &["textDocument", "rename"],
        "textDocument/rename",
        "rename-symbol",
        Options::Plain,
    );
    SELECTION_RANGE =
        own(&["selectionRangeProvider"], &["textDocument", "selectionRange"], "textDocument/selectionRange");
    SEMANTIC_TOKENS = row(
        &["semanticTokensProvider"],
        &["textDocument", "semanticTokens"],
        "textDocument/semanticTokens",
        "textDocument/semanticTokens/*",
        Options::Tokens,
    );
    SIGNATURE_HELP = row(
        &["signatureHelpProvider"],
        &["textDocument", "signatureHelp"],
        "textDocument/signatureHelp",
        "signature-help",
        Options::Signatures,
    );
    TEXT_DOCUMENT_CONTENT = row(
        &["workspace", "textDocumentContent"],
        &["workspace", "textDocumentContent"],
        "workspace/textDocumentContent",
        "workspace/textDocumentContent",
        Options::Schemes,
    );
    TYPE_DEFINITION = row(
        &["typeDefinitionProvider"],
        &["textDocument", "typeDefinition"],
        "textDocument/typeDefinition",
        "goto-type-definition",
        Options::Plain,
    );
    TYPE_HIERARCHY =
        own(&["typeHierarchyProvider"], &["textDocument", "typeHierarchy"], "textDocument/prepareTypeHierarchy");
    WILL_CREATE_FILES = files(&["workspace", "fileOperations", "willCreate"], "workspace/willCreateFiles");
    WILL_DELETE_FILES = files(&["workspace", "fileOperations", "willDelete"], "workspace/willDeleteFiles");
    WILL_RENAME_FILES = files(&["workspace", "fileOperations", "willRename"], "workspace/willRenameFiles");
    WILL_SAVE_WAIT_UNTIL = row(
        &["textDocumentSync", "willSaveWaitUntil"],
        &["textDocument", "synchronization"],
        "textDocument/willSaveWaitUntil",
        "textDocument/willSaveWaitUntil",
        Options::Sync,
    );
    WORKSPACE_SYMBOL = row(
        &["workspaceSymbolProvider"],
        &["workspace", "symbol"],
        "workspace/symbol",
        "workspace-symbols",
        Options::Plain,
    );
}

impl Capability {
    /// What this answer to `initialize` says of it, unless that is *no*.
    pub(crate) fn of<'a>(&self, capabilities: &'a Map<String, Value>) -> Option<&'a Value> {
        let [first, rest @ ..] = self.server else { return None };
        at(capabilities.get(*first)?, rest).filter(|it| is_yes(it))
    }

    /// Whether the editor lets servers register it later.
    pub(crate) fn is_dynamic(&self, client: &Map<String, Value>) -> bool {
        let [first, rest @ ..] = self.client else { return false };
        let Some(told) = client.get(*first).and_then(|it| at(it, rest)) else { return false };
        match self.options {
            // An editor with folders takes it: the protocol has no flag for it.
            Options::Folders => is_yes(told),
            _ => told.get("dynamicRegistration").is_some_and(is_yes),
        }
    }
}

/// The capability that a registration of this method is about.
pub(crate) fn registered(method: &str) -> Option<&'static Capability> {
    ALL.iter().find(|it| it.registered == method)
}

/// The capabilities in an answer to `initialize`, or in what it is asked with. One that cannot be read is there, and says
/// nothing of itself.
pub(crate) fn capabilities(of: &[u8]) -> Map<String, Value> {
    let Some(range) = member(of, "capabilities") else { return Map::new() };
    let all = &of[range];
    let read = |raw: &[u8]| json::read(raw).unwrap_or(Value::Bool(true));
    members(all).map(|(key, range)| (key.into_owned(), read(&all[range]))).collect()
}

/// `false`, `null`, and an empty place are *no*. An object is *yes*, empty or not.
pub(crate) fn is_yes(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(it) => *it,
        Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// What is at the end of a path of member names.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |outer, key| outer.get(key))
}

/// Whether there is a *yes* at the end of a path of member names.
pub(crate) fn flag(value: &Value, path: &[&str]) -> bool {
    at(value, path).is_some_and(is_yes)
}

/// The strings in a list, if it is one. What is no string is not among them.
pub(crate) fn strings(value: &Value, key: &str) -> Option<Vec<String>> {
    let all = value.get(key)?.as_array()?;
    Some(all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}
