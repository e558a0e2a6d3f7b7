//! What is known of each method of a Copilot server: where a message of the editor's goes, what is remembered of it.
//! Data, in one place.

use crate::core::mux::routes::{CallRule, Dialect, Keep, Names};

/// Where a message of the editor's goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// What belongs to the process, or is unknown: the conversation's partition when the parameters carry a
    /// `conversationId`, else the primary.
    Default,
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
    /// The tool catalog: the primary decides, the partitions follow with their projections.
    Tools(Tools),
    /// A sign-in that happens in the primary alone; when it is done, the partitions are made to use it.
    SignIn,
    /// `workspace/executeCommand`: the primary, and a device flow is finished by one of its commands.
    Command,
}

/// The three calls that change the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tools {
    Register,
    Unregister,
    Status,
}

/// Methods that do not concern every process, and that are not [`Route::Default`].
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

/// Where a method goes that does not concern every process.
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
        ("copilot/didChangeToken", Keep::Nothing),
        ("copilot/ide/register", Keep::All),
        ("copilot/workspace/didChangeTrust", Keep::All),
        ("customAgent/registerExtensionAgents", Keep::All),
        ("customAgent/unregisterExtensionAgents", Keep::All),
        ("github/didChangeAuth", Keep::Elsewhere),
        ("mcp/serverAction", Keep::Nothing),
        ("mcp/updateToolsStatus", Keep::Nothing),
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

/// Notifications in which every process of a Copilot server speaks about itself. The editor hears the primary's.
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

/// Whether a notification of a partition other than the primary stays inside lspool.
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
