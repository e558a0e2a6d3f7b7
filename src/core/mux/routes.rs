//! The routing table: an editor's method to where it goes and what lspool remembers of it. Data, in one place.

/// Where a message of the editor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// What belongs to the process, or is unknown: the conversation's partition when the parameters carry a
    /// `conversationId`, else the primary.
    Default,
    /// Every partition. A request is answered with the primary's answer.
    Everyone(Keep),
    /// `conversation/create`: chooses a partition.
    Create,
    /// `conversation/turn`: one at a time in a conversation.
    Turn,
    /// `conversation/destroy`: unbinds.
    Destroy,
    /// `conversation/turnDelete`: what was said is forgotten.
    TurnDelete,
    /// The partition that made the turn named by `turnId`.
    Turns,
    /// The tool catalogue: the primary decides, the partitions follow with their projections.
    Tools(Tools),
    /// A sign-in that happens in the primary alone; when it is done, the partitions are made to use it.
    SignIn,
    /// `workspace/executeCommand`: the primary, and a device flow is finished by one of its commands.
    Command,
}

/// What is remembered for processes that start later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Nothing,
    /// The latest parameters of this method.
    Latest,
    /// Every call, in order, but for what later ones undo or say again; a repeated one counts as its last occurrence.
    All,
    Configuration,
    Folders,
    Auth,
    SignOut,
    Open,
    Change,
    Close,
    NotebookOpen,
    NotebookChange,
    NotebookClose,
}

/// The three calls that change the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tools {
    Register,
    Unregister,
    Status,
}

/// What any language server keeps of its session.
const SESSION: &[(&str, Route)] = &[
    ("$/setTrace", Route::Everyone(Keep::Latest)),
    ("notebookDocument/didChange", Route::Everyone(Keep::NotebookChange)),
    ("notebookDocument/didClose", Route::Everyone(Keep::NotebookClose)),
    ("notebookDocument/didOpen", Route::Everyone(Keep::NotebookOpen)),
    ("notebookDocument/didSave", Route::Everyone(Keep::Nothing)),
    ("textDocument/didChange", Route::Everyone(Keep::Change)),
    ("textDocument/didClose", Route::Everyone(Keep::Close)),
    ("textDocument/didOpen", Route::Everyone(Keep::Open)),
    ("textDocument/didSave", Route::Everyone(Keep::Nothing)),
    ("textDocument/willSave", Route::Everyone(Keep::Nothing)),
    ("workspace/didChangeConfiguration", Route::Everyone(Keep::Configuration)),
    ("workspace/didChangeWatchedFiles", Route::Everyone(Keep::Nothing)),
    ("workspace/didChangeWorkspaceFolders", Route::Everyone(Keep::Folders)),
    ("workspace/didCreateFiles", Route::Everyone(Keep::Nothing)),
    ("workspace/didDeleteFiles", Route::Everyone(Keep::Nothing)),
    ("workspace/didRenameFiles", Route::Everyone(Keep::Nothing)),
];

/// What a Copilot server has besides.
const COPILOT: &[(&str, Route)] = &[
    ("auth/removeToken", Route::SignIn),
    ("auth/useExistingToken", Route::SignIn),
    ("context/registerProviders", Route::Everyone(Keep::All)),
    ("context/unregisterProviders", Route::Everyone(Keep::All)),
    ("conversation/copyCode", Route::Turns),
    ("conversation/create", Route::Create),
    ("conversation/destroy", Route::Destroy),
    ("conversation/insertCode", Route::Turns),
    ("conversation/notifyCodeAcceptance", Route::Turns),
    ("conversation/rating", Route::Turns),
    ("conversation/registerTools", Route::Tools(Tools::Register)),
    ("conversation/turn", Route::Turn),
    ("conversation/turnDelete", Route::TurnDelete),
    ("conversation/unregisterTools", Route::Tools(Tools::Unregister)),
    ("conversation/updateToolsStatus", Route::Tools(Tools::Status)),
    ("copilot/didChangeToken", Route::Everyone(Keep::Nothing)),
    ("copilot/ide/register", Route::Everyone(Keep::All)),
    ("copilot/workspace/didChangeTrust", Route::Everyone(Keep::All)),
    ("customAgent/registerExtensionAgents", Route::Everyone(Keep::All)),
    ("customAgent/unregisterExtensionAgents", Route::Everyone(Keep::All)),
    ("github/didChangeAuth", Route::Everyone(Keep::Auth)),
    ("mcp/serverAction", Route::Everyone(Keep::Nothing)),
    ("mcp/updateToolsStatus", Route::Everyone(Keep::Nothing)),
    ("setEditorInfo", Route::Everyone(Keep::Latest)),
    ("signInConfirm", Route::SignIn),
    ("signInWithCodeFlow", Route::SignIn),
    ("signInWithDeviceFlow", Route::SignIn),
    ("signInWithGithubToken", Route::SignIn),
    ("signOut", Route::Everyone(Keep::SignOut)),
    ("textDocument/didFocus", Route::Everyone(Keep::Latest)),
    ("vs/didAddWorkspaceFolder", Route::Everyone(Keep::All)),
    ("vs/didRemoveWorkspaceFolder", Route::Everyone(Keep::All)),
    ("workspace/executeCommand", Route::Command),
];

/// Where a method goes.
pub(crate) fn route(method: &str, copilot: bool) -> Route {
    let find = |table: &[(&str, Route)]| {
        table.binary_search_by_key(&method, |(name, _)| name).ok().map(|index| table[index].1)
    };
    let own = if copilot { find(COPILOT) } else { None };
    own.or_else(|| find(SESSION)).unwrap_or(Route::Default)
}

/// Requests that complete an item of an earlier answer, and what that answered.
const RESOLVES: &[(&str, &str)] = &[
    ("codeAction/resolve", "textDocument/codeAction"),
    ("codeLens/resolve", "textDocument/codeLens"),
    ("completionItem/resolve", "textDocument/completion"),
    ("documentLink/resolve", "textDocument/documentLink"),
    ("inlayHint/resolve", "textDocument/inlayHint"),
    ("workspaceSymbol/resolve", "workspace/symbol"),
];

/// What made the items that this method completes.
pub(crate) fn source_of(method: &str) -> Option<&'static str> {
    RESOLVES.iter().find(|(name, _)| *name == method).map(|(_, source)| *source)
}

/// Whether the answers to this method have items that can be completed.
pub(crate) fn source(method: &str) -> Option<&'static str> {
    RESOLVES.iter().find(|(_, source)| *source == method).map(|(_, source)| *source)
}

/// Requests that change nothing and whose answer nobody acts on unasked: a process that died with one may have done
/// anything, and the next one is asked the same. Not among them: what edits the text (formatting, rename, and what is
/// done before a save), commands, and questions about an item that the dead process made.
const READS: &[&str] = &[
    "checkFileStatus",
    "checkQuota",
    "checkStatus",
    "conversation/agents",
    "conversation/modes",
    "conversation/preconditions",
    "conversation/templates",
    "copilot/models",
    "getCompletions",
    "getCompletionsCycling",
    "getVersion",
    "mcp/getTools",
    "textDocument/codeAction",
    "textDocument/codeLens",
    "textDocument/colorPresentation",
    "textDocument/completion",
    "textDocument/copilotInlineEdit",
    "textDocument/copilotPanelCompletion",
    "textDocument/declaration",
    "textDocument/definition",
    "textDocument/diagnostic",
    "textDocument/documentColor",
    "textDocument/documentHighlight",
    "textDocument/documentLink",
    "textDocument/documentSymbol",
    "textDocument/foldingRange",
    "textDocument/hover",
    "textDocument/implementation",
    "textDocument/inlayHint",
    "textDocument/inlineCompletion",
    "textDocument/inlineValue",
    "textDocument/linkedEditingRange",
    "textDocument/moniker",
    "textDocument/prepareCallHierarchy",
    "textDocument/prepareRename",
    "textDocument/prepareTypeHierarchy",
    "textDocument/references",
    "textDocument/selectionRange",
    "textDocument/semanticTokens/full",
    "textDocument/semanticTokens/full/delta",
    "textDocument/semanticTokens/range",
    "textDocument/signatureHelp",
    "textDocument/typeDefinition",
    "workspace/diagnostic",
    "workspace/symbol",
];

/// Whether a request may be asked twice.
pub(crate) fn is_read(method: &str) -> bool {
    READS.binary_search(&method).is_ok()
}

/// Notifications in which every process of a Copilot server speaks about itself. The editor hears the primary's.
const OWN_AFFAIRS: &[&str] = &[
    "backgroundAgent/sessionUpdate",
    "backgroundAgent/todosChanged",
    "conversation/preconditionsNotification",
    "copilot/customAgent/didChange",
    "copilot/customInstruction/didChange",
    "copilot/customPrompt/didChange",
    "copilot/customSkill/didChange",
    "copilot/didChangeFeatureFlags",
    "copilot/didChangeManagedSettings",
    "copilot/hook/didChange",
    "copilot/mcpRuntimeLogs",
    "copilot/mcpTools",
    "copilot/plugins/didChange",
    "copilot/quotaChange",
    "didChangeStatus",
    "didChangeStatus/v2",
    "featureFlagsNotification",
    "mcpGateway/serversChanged",
    "policy/didChange",
    "statusNotification",
    "window/logMessage",
];

/// Whether a notification of a partition other than the primary stays inside lspool.
pub(crate) fn is_own_affair(method: &str) -> bool {
    OWN_AFFAIRS.binary_search(&method).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_tables_are_sorted() {
        assert!(SESSION.is_sorted_by_key(|it| it.0) && COPILOT.is_sorted_by_key(|it| it.0));
        assert!(OWN_AFFAIRS.is_sorted() && READS.is_sorted());
    }

    #[test]
    fn generic_server_has_no_conversation_routes() {
        assert_eq!(route("conversation/create", false), Route::Default);
        assert_eq!(route("conversation/create", true), Route::Create);
        assert_eq!(route("textDocument/didOpen", true), route("textDocument/didOpen", false));
        assert_eq!(route("textDocument/hover", true), Route::Default);
    }
}
