//! Features: what lspool uses the servers of a group for.
//!
//! A feature has the name that Helix gives it. What Helix has no name for is called by its method.

use super::Combine;

/// All features, each with the methods that it stands for.
const FEATURES: [(&str, &[&str]); 39] = [
    ("format", &["textDocument/formatting", "textDocument/rangeFormatting", "textDocument/rangesFormatting"]),
    ("goto-definition", &["textDocument/definition"]),
    ("goto-declaration", &["textDocument/declaration"]),
    ("goto-type-definition", &["textDocument/typeDefinition"]),
    ("goto-reference", &["textDocument/references"]),
    ("goto-implementation", &["textDocument/implementation"]),
    ("signature-help", &["textDocument/signatureHelp"]),
    ("hover", &["textDocument/hover"]),
    ("document-highlight", &["textDocument/documentHighlight"]),
    ("completion", &["textDocument/completion", "completionItem/resolve"]),
    (CODE_ACTION, &["textDocument/codeAction", "codeAction/resolve"]),
    ("workspace-command", &["workspace/executeCommand"]),
    ("document-symbols", &["textDocument/documentSymbol"]),
    ("workspace-symbols", &["workspace/symbol", "workspaceSymbol/resolve"]),
    (DIAGNOSTICS, &["textDocument/publishDiagnostics"]),
    (PULL_DIAGNOSTICS, &["textDocument/diagnostic", "workspace/diagnostic"]),
    ("rename-symbol", &["textDocument/rename", "textDocument/prepareRename"]),
    ("inlay-hints", &["textDocument/inlayHint", "inlayHint/resolve"]),
    ("document-colors", &["textDocument/documentColor", "textDocument/colorPresentation"]),
    ("document-links", &["textDocument/documentLink", "documentLink/resolve"]),
    ("textDocument/codeLens", &["codeLens/resolve"]),
    ("textDocument/foldingRange", &[]),
    ("textDocument/inlineCompletion", &[]),
    ("textDocument/inlineValue", &[]),
    ("textDocument/linkedEditingRange", &[]),
    ("textDocument/moniker", &[]),
    ("textDocument/onTypeFormatting", &[]),
    ("textDocument/prepareCallHierarchy", &["callHierarchy/incomingCalls", "callHierarchy/outgoingCalls"]),
    ("textDocument/prepareTypeHierarchy", &["typeHierarchy/subtypes", "typeHierarchy/supertypes"]),
    ("textDocument/selectionRange", &[]),
    (
        "textDocument/semanticTokens/*",
        &[
            "textDocument/semanticTokens/full",
            "textDocument/semanticTokens/full/delta",
            "textDocument/semanticTokens/range",
        ],
    ),
    ("textDocument/willSaveWaitUntil", &[]),
    ("workspace/textDocumentContent", &[]),
    ("workspace/didCreateFiles", &[]),
    ("workspace/didDeleteFiles", &[]),
    ("workspace/didRenameFiles", &[]),
    ("workspace/willCreateFiles", &[]),
    ("workspace/willDeleteFiles", &[]),
    ("workspace/willRenameFiles", &[]),
];

const CODE_ACTION: &str = "code-action";
const DIAGNOSTICS: &str = "diagnostics";
const PULL_DIAGNOSTICS: &str = "pull-diagnostics";

/// The names of all features. A kind of code actions, `code-action:KIND`, is one too.
pub(crate) fn names<'a>() -> impl Iterator<Item = &'a str> {
    FEATURES.iter().map(|(name, _)| *name)
}

/// Whether there is a feature of this name.
pub(crate) fn is_feature(name: &str) -> bool {
    let is_kind = |kind: &str| {
        !kind.is_empty() && kind.bytes().all(|it| it.is_ascii_alphanumeric() || b"._-".contains(&it))
    };
    kind_of(name).is_some_and(is_kind) || names().any(|it| it == name)
}

/// The feature that a method belongs to.
pub(crate) fn feature_of(method: &str) -> Option<&'static str> {
    let has_it = |(name, methods): &&(&str, &[&str])| *name == method || methods.contains(&method);
    FEATURES.iter().find(has_it).map(|(name, _)| *name)
}

/// How the answers of several servers become one for a feature; `None`: they go to one server, or change something.
pub(crate) fn usual_combine(feature: &str) -> Option<Combine> {
    match feature {
        "goto-definition"
        | "goto-declaration"
        | "goto-type-definition"
        | "goto-reference"
        | "goto-implementation"
        | "hover"
        | "completion"
        | "code-action"
        | "workspace-symbols"
        | "inlay-hints"
        | "document-colors"
        | "document-links"
        | "textDocument/codeLens"
        | "textDocument/inlineCompletion"
        | "textDocument/semanticTokens/*" => Some(Combine::All),
        "signature-help"
        | "document-highlight"
        | "document-symbols"
        | "textDocument/foldingRange"
        | "textDocument/inlineValue"
        | "textDocument/linkedEditingRange"
        | "textDocument/moniker"
        | "textDocument/prepareCallHierarchy"
        | "textDocument/prepareTypeHierarchy"
        | "textDocument/selectionRange" => Some(Combine::First),
        _ => None,
    }
}

/// Whether answers can be joined of which usually the first is taken.
pub(crate) fn is_joinable(feature: &str) -> bool {
    matches!(feature, "document-symbols" | "textDocument/foldingRange" | "textDocument/inlineValue")
}

/// What is in both lists.
pub(crate) fn common(one: &[String], other: &[String]) -> Vec<String> {
    let within = |list: &[String], it: &String| list.iter().any(|wide| covers(wide, it));
    let mut both: Vec<String> = one.iter().filter(|it| within(other, it)).cloned().collect();
    let more: Vec<String> =
        other.iter().filter(|it| within(one, it) && !both.contains(it)).cloned().collect();
    both.extend(more);
    both
}

/// Whether a feature contains another one, or is the same.
pub(crate) fn covers(wide: &str, narrow: &str) -> bool {
    let is_kind_within = || match (kind_of(wide), kind_of(narrow)) {
        (Some(wide), Some(narrow)) => narrow.strip_prefix(wide).is_some_and(|it| it.starts_with('.')),
        (None, Some(_)) => wide == CODE_ACTION,
        (_, None) => false,
    };
    wide == narrow || (wide, narrow) == (DIAGNOSTICS, PULL_DIAGNOSTICS) || is_kind_within()
}

/// The kind of code actions that a feature is about.
fn kind_of(feature: &str) -> Option<&str> {
    feature.strip_prefix(CODE_ACTION).and_then(|it| it.strip_prefix(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_belong_to_one_feature_each() {
        let mut all: Vec<&str> =
            FEATURES.iter().flat_map(|(name, methods)| methods.iter().chain([name])).copied().collect();
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n);
        assert_eq!(feature_of("textDocument/rangeFormatting"), Some("format"));
        assert_eq!(feature_of("textDocument/foldingRange"), Some("textDocument/foldingRange"));
        assert_eq!(feature_of("custom/method"), None);
    }

    #[test]
    fn features_cover_their_parts_only() {
        for (wide, narrow, expected) in [
            ("hover", "hover", true),
            ("hover", "completion", false),
            ("diagnostics", "pull-diagnostics", true),
            ("pull-diagnostics", "diagnostics", false),
            ("code-action", "code-action:source.organizeImports", true),
            ("code-action:source", "code-action:source.organizeImports", true),
            ("code-action:source", "code-action:sourcery", false),
            ("code-action:source.organizeImports", "code-action:source", false),
            ("code-action:source", "code-action", false),
        ] {
            assert_eq!(covers(wide, narrow), expected, "{wide} {narrow}");
        }
    }

    #[test]
    fn common_features_are_the_narrower_ones() {
        let list = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let one = list(&["code-action:source", "diagnostics", "format"]);
        let other = list(&["pull-diagnostics", "code-action", "hover", "format"]);
        assert_eq!(common(&one, &other), list(&["code-action:source", "format", "pull-diagnostics"]));
        assert_eq!(common(&one, &list(&["hover"])), list(&[]));
    }

    #[test]
    fn features_have_one_name() {
        for name in ["format", "code-action:source.fixAll.ruff", "textDocument/foldingRange"] {
            assert!(is_feature(name), "{name}");
        }
        for name in ["code-action:", "code-action: x", "code-actions", "textDocument/hover", ""] {
            assert!(!is_feature(name), "{name}");
        }
    }
}
