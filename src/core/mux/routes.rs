//! The properties of methods of the Language Server Protocol: what later processes get, and whether a request only
//! reads. All as data, in one place.

/// What later processes get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing. Every running process gets the message.
    Never,
    /// The latest message of this method.
    Latest,
    /// The latest message of this method for each open document.
    LatestOfDocument,
    /// Every call in order, except those that later ones undo or repeat; a repeated one counts as its last
    /// occurrence.
    All,
    Configuration,
    Folders,
    Open,
    Change,
    Close,
    NotebookOpen,
    NotebookChange,
    NotebookClose,
    /// A higher owner keeps it.
    Elsewhere,
}

/// The methods of a server beyond the Language Server Protocol.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Methods for every process, sorted.
    pub(crate) session: &'static [(&'static str, Keep)],
    /// Read requests, sorted.
    pub(crate) reads: &'static [&'static str],
    /// Requests of a server with a token that it chose, and the member with the token.
    pub(crate) token_keys: &'static [(&'static str, &'static str)],
    /// Rules for calls of [`Keep::All`] that name things.
    pub(crate) calls: &'static [CallRule],
}

/// The things that a call names, and its effect on earlier calls.
#[derive(Debug)]
pub(crate) struct CallRule {
    pub(crate) method: &'static str,
    pub(crate) names: Names,
    /// The method whose calls it undoes.
    pub(crate) undoes: Option<&'static str>,
    /// Whether it replaces all earlier calls for the same things.
    pub(crate) restates: bool,
}

/// The place of the names in a call.
#[derive(Debug)]
pub(crate) enum Names {
    /// The member `key` of each element of `list`.
    Each {
        list: &'static str,
        key: &'static str,
    },
    One(&'static str),
}

/// A plain language server.
pub(crate) static LSP: Dialect = Dialect { session: &[], reads: &[], token_keys: &[], calls: &[] };

impl Dialect {
    /// What to keep of a method for every process; `None` for any other method.
    pub(crate) fn keep(&self, method: &str) -> Option<Keep> {
        let find = |table: &[(&str, Keep)]| {
            table.binary_search_by_key(&method, |(name, _)| name).ok().map(|index| table[index].1)
        };
        find(SESSION).or_else(|| find(self.session))
    }

    /// Whether a request may be sent twice.
    pub(crate) fn is_read(&self, method: &str) -> bool {
        READS.binary_search(&method).is_ok() || self.reads.binary_search(&method).is_ok()
    }

    /// The member with a token that a server chose, if the request has one.
    pub(super) fn token_key(&self, method: &str) -> Option<&'static str> {
        let mut all = TOKEN_KEYS.iter().chain(self.token_keys);
        all.find(|(name, _)| *name == method).map(|(_, key)| *key)
    }

    /// The rule for a call.
    pub(crate) fn call(&self, method: &str) -> Option<&'static CallRule> {
        self.calls.iter().find(|it| it.method == method)
    }
}

/// Methods for every process of any language server, sorted.
const SESSION: &[(&str, Keep)] = &[
    ("$/setTrace", Keep::Latest),
    // Beyond the protocol: messages of common servers.
    ("css/customDataChanged", Keep::Latest),
    ("html/customDataChanged", Keep::Latest),
    ("json/schemaAssociations", Keep::Latest),
    ("notebookDocument/didChange", Keep::NotebookChange),
    ("notebookDocument/didClose", Keep::NotebookClose),
    ("notebookDocument/didOpen", Keep::NotebookOpen),
    ("notebookDocument/didSave", Keep::Never),
    ("project/open", Keep::Latest),
    ("solution/open", Keep::Latest),
    ("textDocument/didChange", Keep::Change),
    ("textDocument/didClose", Keep::Close),
    ("textDocument/didOpen", Keep::Open),
    ("textDocument/didSave", Keep::Never),
    ("textDocument/willSave", Keep::Never),
    ("workspace/didChangeConfiguration", Keep::Configuration),
    ("workspace/didChangeWatchedFiles", Keep::Never),
    ("workspace/didChangeWorkspaceFolders", Keep::Folders),
    ("workspace/didCreateFiles", Keep::Never),
    ("workspace/didDeleteFiles", Keep::Never),
    ("workspace/didRenameFiles", Keep::Never),
    ("yaml/registerContentRequest", Keep::Latest),
    ("yaml/registerCustomSchemaRequest", Keep::Latest),
    ("yaml/supportSchemaSelection", Keep::Latest),
];

/// Requests of a server with a token that it chose, and the member with the token.
const TOKEN_KEYS: &[(&str, &str)] = &[("window/workDoneProgress/create", "token")];

/// Requests without effects, which the next process gets if a process dies with them. They do not include edits
/// (formatting, rename, and actions before a save), commands, and questions about an item of the dead process.
const READS: &[&str] = &[
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_tables_are_sorted() {
        assert!(SESSION.is_sorted_by_key(|it| it.0) && READS.is_sorted());
    }
}
