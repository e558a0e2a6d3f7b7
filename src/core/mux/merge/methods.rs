//! How each method goes to the members of a group: who is asked, and what becomes of their answers. Data, in one place.
//!
//! `initialize` and `shutdown` are not here: they are about the session, not about a member's abilities.

use std::time::Duration;

use super::{
    answers::{Same, Shape},
    capabilities::{self as of, Capability},
};

/// Who is asked, and which answer is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The best member that can: its answer, empty or an error.
    Own,
    /// All that can: the best-ranked answer that is not empty.
    First,
    /// All that can: their answers, put together in rank order.
    All(Shape),
    /// Who made the item.
    Maker,
}

/// What becomes of a part that comes after the others have been answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// The member is told that nobody waits for it.
    Cancel,
    /// The editor is asked to ask again, with this request.
    Refresh(&'static str),
}

/// A request of an editor.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) id: MethodId,
    pub(crate) plan: Plan,
    /// What the configuration may make of a method with the plan `First`.
    pub(crate) combined: Option<Shape>,
    /// What the configuration calls it.
    pub(crate) feature: &'static str,
    /// How long others are waited for once somebody has something to say; `None`: as long as it takes.
    pub(crate) budget: Option<Duration>,
    pub(crate) late: Late,
    /// What a member must be able to do.
    pub(crate) capability: &'static Capability,
    /// The option of the capability that it must have for this.
    pub(crate) option: &'static [&'static str],
}

/// A method of the table: small, for sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MethodId(u8);

impl MethodId {
    /// Publishing diagnostics.
    pub(crate) const PUBLISH: MethodId = MethodId(63);
}

/// What members do or are told without being asked, and the configuration may take away.
const UNASKED: [(&str, MethodId); 4] = [
    ("diagnostics", MethodId::PUBLISH),
    ("workspace/didCreateFiles", MethodId(62)),
    ("workspace/didDeleteFiles", MethodId(61)),
    ("workspace/didRenameFiles", MethodId(60)),
];

/// A set of methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Methods(u64);

impl Methods {
    pub(crate) const NONE: Methods = Methods(0);
    pub(crate) const ALL: Methods = Methods(u64::MAX);

    pub(crate) fn has(self, id: MethodId) -> bool {
        self.0 >> id.0 & 1 == 1
    }

    #[must_use]
    pub(crate) fn with(self, id: MethodId) -> Methods {
        Methods(self.0 | 1 << id.0)
    }

    #[must_use]
    pub(crate) fn and(self, others: Methods) -> Methods {
        Methods(self.0 | others.0)
    }

    #[must_use]
    pub(crate) fn without(self, others: Methods) -> Methods {
        Methods(self.0 & !others.0)
    }

    #[must_use]
    pub(crate) fn common(self, others: Methods) -> Methods {
        Methods(self.0 & others.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Methods::NONE
    }
}

impl FromIterator<MethodId> for Methods {
    fn from_iter<I: IntoIterator<Item = MethodId>>(ids: I) -> Methods {
        ids.into_iter().fold(Methods::NONE, Methods::with)
    }
}

/// What is known of a request; `None`: it is not one of the protocol's, or it is about the session.
pub(crate) fn method(name: &str) -> Option<&'static Method> {
    METHODS.binary_search_by_key(&name, |it| it.name).ok().map(|index| &METHODS[index])
}

/// All requests.
pub(crate) fn methods() -> impl Iterator<Item = &'static Method> {
    METHODS.iter()
}

/// A feature of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feature<'a> {
    pub(crate) methods: Methods,
    /// Of code actions: the only kind that is meant.
    pub(crate) kind: Option<&'a str>,
}

/// What the configuration means by a feature; `None`: there is none of that name.
pub(crate) fn feature_methods(feature: &str) -> Option<Feature<'_>> {
    let (name, kind) = match feature.split_once(':') {
        Some(("code-action", kind)) if !kind.is_empty() => ("code-action", Some(kind)),
        Some(_) | None => (feature, None),
    };
    // Pushed and pulled.
    let of_name =
        |it: &&Method| it.feature == name || (name, it.feature) == ("diagnostics", "pull-diagnostics");
    let unasked = UNASKED.iter().filter(|(feature, _)| *feature == name).map(|(_, id)| *id);
    let methods: Methods = METHODS.iter().filter(of_name).map(|it| it.id).chain(unasked).collect();
    (!methods.is_empty()).then_some(Feature { methods, kind })
}

const fn row(name: &'static str, plan: Plan, capability: &'static Capability) -> Method {
    Method {
        name,
        id: MethodId(0),
        plan,
        combined: None,
        feature: capability.feature,
        budget: None,
        late: Late::Cancel,
        capability,
        option: &[],
    }
}

impl Method {
    const fn within(mut self, millis: u64) -> Method {
        self.budget = Some(Duration::from_millis(millis));
        self
    }

    const fn refresh(mut self, request: &'static str) -> Method {
        self.late = Late::Refresh(request);
        self
    }

    const fn if_has(mut self, option: &'static [&'static str]) -> Method {
        self.option = option;
        self
    }

    const fn or_all(mut self, shape: Shape) -> Method {
        self.combined = Some(shape);
        self
    }
}

/// Gives each row its number.
const fn numbered<const N: usize>(mut rows: [Method; N]) -> [Method; N] {
    assert!(N + UNASKED.len() <= 64, "a set has room for all");
    let mut index = 0_u8;
    while (index as usize) < N {
        rows[index as usize].id = MethodId(index);
        index += 1;
    }
    rows
}

/// Sorted by name.
static METHODS: [Method; 52] = numbered([
    row("callHierarchy/incomingCalls", Plan::Maker, &of::CALL_HIERARCHY),
    row("callHierarchy/outgoingCalls", Plan::Maker, &of::CALL_HIERARCHY),
    row("codeAction/resolve", Plan::Maker, &of::CODE_ACTION).if_has(RESOLVE),
    row("codeLens/resolve", Plan::Maker, &of::CODE_LENS).if_has(RESOLVE),
    row("completionItem/resolve", Plan::Maker, &of::COMPLETION).if_has(RESOLVE),
    row("documentLink/resolve", Plan::Maker, &of::DOCUMENT_LINK).if_has(RESOLVE),
    row("inlayHint/resolve", Plan::Maker, &of::INLAY_HINT).if_has(RESOLVE),
    row("textDocument/codeAction", Plan::All(Shape::CodeActions), &of::CODE_ACTION).within(1000),
    row("textDocument/codeLens", Plan::All(Shape::List(Same::Bytes)), &of::CODE_LENS)
        .within(2000)
        .refresh("workspace/codeLens/refresh"),
    row("textDocument/colorPresentation", Plan::All(Shape::List(Same::Label)), &of::COLOR).within(2000),
    row("textDocument/completion", Plan::All(Shape::Completion), &of::COMPLETION).within(300),
    row("textDocument/declaration", Plan::All(Shape::Locations), &of::DECLARATION).within(3000),
    row("textDocument/definition", Plan::All(Shape::Locations), &of::DEFINITION).within(3000),
    row("textDocument/diagnostic", Plan::All(Shape::Diagnostics), &of::DIAGNOSTIC)
        .within(2000)
        .refresh("workspace/diagnostic/refresh"),
    // Links and colors have no request to refresh them.
    row("textDocument/documentColor", Plan::All(Shape::List(Same::Range)), &of::COLOR).within(2000),
    row("textDocument/documentHighlight", Plan::First, &of::DOCUMENT_HIGHLIGHT).within(500),
    row("textDocument/documentLink", Plan::All(Shape::List(Same::Range)), &of::DOCUMENT_LINK).within(2000),
    row("textDocument/documentSymbol", Plan::First, &of::DOCUMENT_SYMBOL).or_all(Shape::Symbols).within(3000),
    row("textDocument/foldingRange", Plan::First, &of::FOLDING_RANGE)
        .or_all(Shape::List(Same::Bytes))
        .within(2000)
        .refresh("workspace/foldingRange/refresh"),
    row("textDocument/formatting", Plan::Own, &of::FORMATTING),
    row("textDocument/hover", Plan::All(Shape::Hover), &of::HOVER).within(500),
    row("textDocument/implementation", Plan::All(Shape::Locations), &of::IMPLEMENTATION).within(3000),
    row("textDocument/inlayHint", Plan::All(Shape::List(Same::Hint)), &of::INLAY_HINT)
        .within(2000)
        .refresh("workspace/inlayHint/refresh"),
    row("textDocument/inlineCompletion", Plan::All(Shape::InlineCompletion), &of::INLINE_COMPLETION)
        .within(300),
    row("textDocument/inlineValue", Plan::First, &of::INLINE_VALUE)
        .or_all(Shape::List(Same::Bytes))
        .within(2000)
        .refresh("workspace/inlineValue/refresh"),
    row("textDocument/linkedEditingRange", Plan::First, &of::LINKED_EDITING_RANGE).within(500),
    row("textDocument/moniker", Plan::First, &of::MONIKER).within(3000),
    row("textDocument/onTypeFormatting", Plan::Own, &of::ON_TYPE_FORMATTING),
    row("textDocument/prepareCallHierarchy", Plan::First, &of::CALL_HIERARCHY).within(3000),
    row("textDocument/prepareRename", Plan::First, &of::RENAME).if_has(&["prepareProvider"]).within(500),
    row("textDocument/prepareTypeHierarchy", Plan::First, &of::TYPE_HIERARCHY).within(3000),
    row("textDocument/rangeFormatting", Plan::Own, &of::RANGE_FORMATTING),
    row("textDocument/rangesFormatting", Plan::Own, &of::RANGE_FORMATTING).if_has(&["rangesSupport"]),
    row("textDocument/references", Plan::All(Shape::Locations), &of::REFERENCES).within(3000),
    row("textDocument/rename", Plan::Own, &of::RENAME),
    row("textDocument/selectionRange", Plan::First, &of::SELECTION_RANGE).within(500),
    row("textDocument/semanticTokens/full", TOKENS, &of::SEMANTIC_TOKENS)
        .if_has(&["full"])
        .within(2000)
        .refresh("workspace/semanticTokens/refresh"),
    row("textDocument/semanticTokens/full/delta", Plan::Own, &of::SEMANTIC_TOKENS).if_has(&["full", "delta"]),
    row("textDocument/semanticTokens/range", TOKENS, &of::SEMANTIC_TOKENS)
        .if_has(&["range"])
        .within(2000)
        .refresh("workspace/semanticTokens/refresh"),
    row("textDocument/signatureHelp", Plan::First, &of::SIGNATURE_HELP).within(300),
    row("textDocument/typeDefinition", Plan::All(Shape::Locations), &of::TYPE_DEFINITION).within(3000),
    row("textDocument/willSaveWaitUntil", Plan::All(Shape::Edits), &of::WILL_SAVE_WAIT_UNTIL),
    row("typeHierarchy/subtypes", Plan::Maker, &of::TYPE_HIERARCHY),
    row("typeHierarchy/supertypes", Plan::Maker, &of::TYPE_HIERARCHY),
    row("workspace/diagnostic", Plan::Own, &of::DIAGNOSTIC).if_has(&["workspaceDiagnostics"]),
    row("workspace/executeCommand", Plan::Own, &of::EXECUTE_COMMAND),
    row("workspace/symbol", Plan::All(Shape::Symbols), &of::WORKSPACE_SYMBOL).within(3000),
    row("workspace/textDocumentContent", Plan::Own, &of::TEXT_DOCUMENT_CONTENT),
    row("workspace/willCreateFiles", Plan::All(Shape::WorkspaceEdit), &of::WILL_CREATE_FILES),
    row("workspace/willDeleteFiles", Plan::All(Shape::WorkspaceEdit), &of::WILL_DELETE_FILES),
    row("workspace/willRenameFiles", Plan::All(Shape::WorkspaceEdit), &of::WILL_RENAME_FILES),
    row("workspaceSymbol/resolve", Plan::Maker, &of::WORKSPACE_SYMBOL).if_has(RESOLVE),
]);

const RESOLVE: &[&str] = &["resolveProvider"];
const TOKENS: Plan = Plan::All(Shape::SemanticTokens);

#[cfg(test)]
mod tests;
