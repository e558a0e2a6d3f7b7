//! The properties of a Copilot server's methods: the route of a message, and what later processes get. All as data,
//! in one place.

use crate::core::mux::routes::{CallRule, Dialect, Keep, Names};

/// The route of an editor's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The conversation's partition if the parameters have a `conversationId`, else the primary.
    Default,
    /// `conversation/create`: chooses a partition.
    Create,
    /// `conversation/turn`: one at a time in a conversation.
    Turn,
    /// `conversation/destroy`: unbinds the conversation.
    Destroy,
    /// `conversation/turnDelete`: deletes the turn in the history.
    TurnDelete,
    /// The partition of the turn in `turnId`.
    Turns,
    /// The tool catalog: the primary decides, the partitions follow with their projections.
    Tools(Tools),
    /// A sign-in in the primary. When it is done, the partitions check it.
    SignIn,
    /// `workspace/executeCommand`: the primary; one of its commands finishes a device flow.
    Command,
}

/// The three calls that change the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tools {
    Register,
    Unregister,
    Status,
}

/// Methods that are not for every process, and not [`Route::Default`].
const ROUTES: &[(&str, Route)] = &[
    ("auth/removeToken", Route::SignIn),
    ("auth/useExistingToken", Route::SignIn),
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
    ("signInConfirm", Route::SignIn),
    ("signInWithCodeFlow", Route::SignIn),
    ("signInWithDeviceFlow", Route::SignIn),
    ("signInWithGithubToken", Route::SignIn),
    ("workspace/executeCommand", Route::Command),
];

/// The route of a method that is not for every process.
pub(crate) fn route(method: &str) -> Route {
    let at = ROUTES.binary_search_by_key(&method, |(name, _)| name);
    at.map_or(Route::Default, |at| ROUTES[at].1)
}

/// What the names of a Copilot server's own methods begin with.
const PREFIXES: &[&str] = &[
    "auth/",
    "checkQuota",
    "checkStatus",
    "context/",
    "conversation/",
    "copilot/",
    "customAgent/",
    "getCompletions",
    "github/",
    "mcp/",
    "notifyAccepted",
    "notifyRejected",
    "notifyShown",
    "signIn",
    "signOut",
    "vs/",
];

/// Whether a method is one that only a Copilot server has.
pub(super) fn is_own(method: &str) -> bool {
    let is_route = method != "workspace/executeCommand" && route(method) != Route::Default;
    is_route
        || PREFIXES.iter().any(|it| method.starts_with(it))
        || DIALECT.session.binary_search_by_key(&method, |it| it.0).is_ok()
        || DIALECT.reads.binary_search(&method).is_ok()
}

/// What a Copilot server has beyond the Language Server Protocol.
pub(crate) static DIALECT: Dialect = Dialect {
    session: &[
        ("context/registerProviders", Keep::All),
        ("context/unregisterProviders", Keep::All),
        ("copilot/didChangeToken", Keep::Never),
        ("copilot/ide/register", Keep::All),
        ("copilot/workspace/didChangeTrust", Keep::All),
        ("customAgent/registerExtensionAgents", Keep::All),
        ("customAgent/unregisterExtensionAgents", Keep::All),
        ("github/didChangeAuth", Keep::Elsewhere),
        ("mcp/serverAction", Keep::Never),
        ("mcp/updateToolsStatus", Keep::Never),
        ("setEditorInfo", Keep::Latest),
        ("signOut", Keep::Elsewhere),
        ("textDocument/didFocus", Keep::LatestOfDocument),
        ("vs/didAddWorkspaceFolder", Keep::All),
        ("vs/didRemoveWorkspaceFolder", Keep::All),
    ],
    reads: &[
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
        "textDocument/copilotInlineEdit",
        "textDocument/copilotPanelCompletion",
    ],
    token_keys: &[
        ("context/update", "partialResultToken"),
        ("copilot/fetch", "workDoneToken"),
        ("copilot/watchedFiles", "partialResultToken"),
    ],
    calls: &[
        CallRule {
            method: "context/registerProviders",
            names: Names::Each { list: "providers", key: "id" },
            undoes: None,
            restates: false,
        },
        CallRule {
            method: "context/unregisterProviders",
            names: Names::Each { list: "providers", key: "id" },
            undoes: Some("context/registerProviders"),
            restates: false,
        },
        CallRule {
            method: "copilot/workspace/didChangeTrust",
            names: Names::Each { list: "items", key: "folderUri" },
            undoes: None,
            restates: true,
        },
        CallRule {
            method: "customAgent/registerExtensionAgents",
            names: Names::One("extensionId"),
            undoes: None,
            restates: false,
        },
        CallRule {
            method: "customAgent/unregisterExtensionAgents",
            names: Names::One("extensionId"),
            undoes: Some("customAgent/registerExtensionAgents"),
            restates: false,
        },
    ],
};

/// Notifications of every process about itself. The editor gets the primary's.
const ABOUT_PROCESS: &[&str] = &[
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

/// Whether a notification of another partition than the primary stays in lspool.
pub(super) fn is_about_process(method: &str) -> bool {
    ABOUT_PROCESS.binary_search(&method).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_tables_are_sorted() {
        assert!(ROUTES.is_sorted_by_key(|it| it.0) && DIALECT.session.is_sorted_by_key(|it| it.0));
        assert!(ABOUT_PROCESS.is_sorted() && DIALECT.reads.is_sorted());
    }
}
