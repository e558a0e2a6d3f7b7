//! A process that took the place of another, and offers something else than that one: it was updated meanwhile, or
//! reads another configuration.
//!
//! The editor goes by the answer to `initialize` that it has read, which is the first. Where lspool can put the
//! messages of the one into the terms of the other it does so. The rest the user is told.

use serde_json::Value;

use crate::{
    core::mux::session::documents::Encoding,
    rpc::{Frame, Patch, member},
};

/// What a question is answered with of which the process knows nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nothing {
    Result(&'static [u8]),
    /// The item that is asked about.
    Itself,
}

/// Requests that need a capability of the server.
#[derive(Debug)]
struct Provider {
    /// The capability, and the member of it, if that is meant.
    capability: [&'static str; 2],
    methods: &'static [&'static str],
    nothing: Nothing,
}

const fn provider(
    capability: [&'static str; 2],
    methods: &'static [&'static str],
    nothing: Nothing,
) -> Provider {
    Provider { capability, methods, nothing }
}

const NULL: Nothing = Nothing::Result(b"null");
const NO_LIST: Nothing = Nothing::Result(b"[]");

/// Not among them: commands, of which the server says best what became of them.
const PROVIDERS: [Provider; 37] = [
    provider(
        ["callHierarchyProvider", ""],
        &["textDocument/prepareCallHierarchy", "callHierarchy/incomingCalls", "callHierarchy/outgoingCalls"],
        NULL,
    ),
    provider(["codeActionProvider", ""], &["textDocument/codeAction"], NULL),
    provider(["codeActionProvider", "resolveProvider"], &["codeAction/resolve"], Nothing::Itself),
    provider(["codeLensProvider", ""], &["textDocument/codeLens"], NULL),
    provider(["codeLensProvider", "resolveProvider"], &["codeLens/resolve"], Nothing::Itself),
    provider(
        ["colorProvider", ""],
        &["textDocument/documentColor", "textDocument/colorPresentation"],
        NO_LIST,
    ),
    provider(["completionProvider", ""], &["textDocument/completion"], NULL),
    provider(["completionProvider", "resolveProvider"], &["completionItem/resolve"], Nothing::Itself),
    provider(["declarationProvider", ""], &["textDocument/declaration"], NULL),
    provider(["definitionProvider", ""], &["textDocument/definition"], NULL),
    provider(
        ["diagnosticProvider", ""],
        &["textDocument/diagnostic"],
        Nothing::Result(br#"{"kind":"full","items":[]}"#),
    ),
    provider(
        ["diagnosticProvider", "workspaceDiagnostics"],
        &["workspace/diagnostic"],
        Nothing::Result(br#"{"items":[]}"#),
    ),
    provider(["documentFormattingProvider", ""], &["textDocument/formatting"], NULL),
    provider(["documentHighlightProvider", ""], &["textDocument/documentHighlight"], NULL),
    provider(["documentLinkProvider", ""], &["textDocument/documentLink"], NULL),
    provider(["documentLinkProvider", "resolveProvider"], &["documentLink/resolve"], Nothing::Itself),
    provider(["documentOnTypeFormattingProvider", ""], &["textDocument/onTypeFormatting"], NULL),
    provider(
        ["documentRangeFormattingProvider", ""],
        &["textDocument/rangeFormatting", "textDocument/rangesFormatting"],
        NULL,
    ),
    provider(["documentSymbolProvider", ""], &["textDocument/documentSymbol"], NULL),
    provider(["foldingRangeProvider", ""], &["textDocument/foldingRange"], NULL),
    provider(["hoverProvider", ""], &["textDocument/hover"], NULL),
    provider(["implementationProvider", ""], &["textDocument/implementation"], NULL),
    provider(["inlayHintProvider", ""], &["textDocument/inlayHint"], NULL),
    provider(["inlayHintProvider", "resolveProvider"], &["inlayHint/resolve"], Nothing::Itself),
    provider(["inlineCompletionProvider", ""], &["textDocument/inlineCompletion"], NULL),
    provider(["inlineValueProvider", ""], &["textDocument/inlineValue"], NULL),
    provider(["linkedEditingRangeProvider", ""], &["textDocument/linkedEditingRange"], NULL),
    provider(["monikerProvider", ""], &["textDocument/moniker"], NULL),
    provider(["referencesProvider", ""], &["textDocument/references"], NULL),
    provider(["renameProvider", ""], &["textDocument/rename", "textDocument/prepareRename"], NULL),
    provider(["selectionRangeProvider", ""], &["textDocument/selectionRange"], NULL),
    provider(["semanticTokensProvider", "full"], &[FULL_TOKENS, DELTA_OF_TOKENS], NULL),
    provider(["semanticTokensProvider", "range"], &[RANGE_OF_TOKENS], NULL),
    provider(["signatureHelpProvider", ""], &["textDocument/signatureHelp"], NULL),
    provider(["typeDefinitionProvider", ""], &["textDocument/typeDefinition"], NULL),
    provider(
        ["typeHierarchyProvider", ""],
        &["textDocument/prepareTypeHierarchy", "typeHierarchy/subtypes", "typeHierarchy/supertypes"],
        NULL,
    ),
    provider(["workspaceSymbolProvider", ""], &["workspace/symbol"], NULL),
];

const FULL_TOKENS: &str = "textDocument/semanticTokens/full";
const DELTA_OF_TOKENS: &str = "textDocument/semanticTokens/full/delta";
const RANGE_OF_TOKENS: &str = "textDocument/semanticTokens/range";

/// What is different about a process.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// It cannot take the editor's changes as they are, but whole texts.
    pub(super) wants_whole_texts: bool,
    /// It cannot be asked for the difference to earlier tokens.
    wants_full_tokens: bool,
    legend: Option<LegendMap>,
    missing: Vec<&'static Provider>,
    /// What the editor gets wrong about it, as people read it.
    told: Vec<String>,
}

impl Differences {
    /// Of two answers to `initialize`: what the editor has read, and what the process has said.
    pub(super) fn between(first: &[u8], next: &[u8]) -> Differences {
        let encodings = [first, next].map(Encoding::of_result);
        let capabilities = |it: &[u8]| -> Option<Value> {
            serde_json::from_slice(&it[member(it, "capabilities")?]).ok().filter(Value::is_object)
        };
        let (Some(first), Some(next)) = (capabilities(first), capabilities(next)) else {
            return Differences::default();
        };
        let mut told: Vec<String> = first
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| {
                key.ends_with("Provider") && is_offered(value) && !is_offered(&next[key.as_str()])
            })
            .map(|(key, _)| format!("`{key}` is missing"))
            .collect();
        let missing = PROVIDERS.iter().filter(|it| is_offered(it.of(&first)) && !is_offered(it.of(&next)));
        let sync = (sync_kind(&first), sync_kind(&next));
        if sync.0 != sync.1 && (sync.0 == NO_SYNC || sync.1 == NO_SYNC) {
            told.push("`textDocumentSync` is another".to_owned());
        }
        if encodings[0] != encodings[1] {
            told.push("`positionEncoding` is another".to_owned());
        }
        let tokens = "semanticTokensProvider";
        let is_both = is_offered(&first[tokens]) && is_offered(&next[tokens]);
        let legend = LegendMap::between(&first[tokens]["legend"], &next[tokens]["legend"]);
        let legend = legend.filter(|_| is_both);
        if legend.as_ref().is_some_and(LegendMap::loses) {
            told.push("the legend of semantic tokens is another".to_owned());
        }
        Differences {
            wants_whole_texts: encodings[0] != encodings[1] || sync == (INCREMENTAL_SYNC, FULL_SYNC),
            wants_full_tokens: is_both && (legend.is_some() || !is_offered(&next[tokens]["full"]["delta"])),
            legend,
            missing: missing.collect(),
            told,
        }
    }

    /// What the editor gets wrong about it, as people read it.
    pub(super) fn told(&self) -> &[String] {
        &self.told
    }

    /// A request as the process is asked it, if it must not be asked as it is.
    pub(super) fn asked(&self, request: &Frame) -> Option<Frame> {
        let method = request.method().filter(|it| is_about_tokens(it))?;
        let (params, id) = (request.params()?, request.id()?);
        let becomes_full = self.wants_full_tokens && method == DELTA_OF_TOKENS;
        let is_in_parts = self.legend.is_some() && member(params, PARTS).is_some();
        if !becomes_full && !is_in_parts {
            return None;
        }
        let mut patch = Patch::of(params);
        if becomes_full {
            patch.remove("previousResultId");
        }
        if is_in_parts {
            patch.remove(PARTS);
        }
        let method = if becomes_full { FULL_TOKENS } else { method };
        Some(Frame::request(id, method, Some(&patch.finish())))
    }

    /// An answer in the words of the first process, if it is not.
    pub(super) fn answered(&self, asked: &Frame, answer: &Frame) -> Option<Frame> {
        self.empty_answer(asked, answer).or_else(|| self.mapped_tokens(asked, answer))
    }

    /// What the first process could be asked, and this one does not know.
    fn empty_answer(&self, asked: &Frame, answer: &Frame) -> Option<Frame> {
        let error = answer.error_value()?;
        let is_unknown = member(error, "code").is_some_and(|it| &error[it] == METHOD_NOT_FOUND);
        let method = asked.method().filter(|_| is_unknown)?;
        let missing = self.missing.iter().find(|it| it.methods.contains(&method))?;
        let result = match missing.nothing {
            Nothing::Result(result) => result,
            Nothing::Itself => asked.params()?,
        };
        Some(Frame::response(answer.id()?, result))
    }

    fn mapped_tokens(&self, asked: &Frame, answer: &Frame) -> Option<Frame> {
        let legend = self.legend.as_ref().filter(|_| asked.method().is_some_and(is_about_tokens))?;
        let result = answer.result()?;
        let data = legend.mapped(&result[member(result, "data")?])?;
        Some(answer.with_result(&Patch::of(result).set("data", &data).finish()))
    }
}

const METHOD_NOT_FOUND: &[u8] = b"-32601";

/// Under which an editor asks for the parts of an answer.
const PARTS: &str = "partialResultToken";

fn is_about_tokens(method: &str) -> bool {
    [FULL_TOKENS, DELTA_OF_TOKENS, RANGE_OF_TOKENS].contains(&method)
}

impl Provider {
    fn of<'a>(&self, capabilities: &'a Value) -> &'a Value {
        match self.capability {
            [name, ""] => &capabilities[name],
            [name, member] => &capabilities[name][member],
        }
    }
}

fn is_offered(capability: &Value) -> bool {
    !capability.is_null() && *capability != false
}

const NO_SYNC: u64 = 0;
const FULL_SYNC: u64 = 1;
const INCREMENTAL_SYNC: u64 = 2;

fn sync_kind(capabilities: &Value) -> u64 {
    let it = &capabilities["textDocumentSync"];
    it.get("change").unwrap_or(it).as_u64().unwrap_or(NO_SYNC)
}

/// What the numbers of a legend are in another one.
#[derive(Debug, PartialEq)]
struct LegendMap {
    types: Vec<Option<u32>>,
    modifiers: Vec<Option<u32>>,
}

impl LegendMap {
    /// From the numbers of the next legend to those of the first. `None`: they are the same.
    fn between(first: &Value, next: &Value) -> Option<LegendMap> {
        let names = |of: &Value, key: &str| -> Vec<Value> { of[key].as_array().cloned().unwrap_or_default() };
        let map = |key: &str| -> Vec<Option<u32>> {
            let first = names(first, key);
            let place = |it: &Value| u32::try_from(first.iter().position(|known| known == it)?).ok();
            names(next, key).iter().map(place).collect()
        };
        let it = LegendMap { types: map("tokenTypes"), modifiers: map("tokenModifiers") };
        let is_same =
            |all: &[Option<u32>]| all.iter().enumerate().all(|(n, it)| it.is_some_and(|it| it as usize == n));
        (!is_same(&it.types) || !is_same(&it.modifiers)).then_some(it)
    }

    /// Whether the first legend lacks something.
    fn loses(&self) -> bool {
        self.types.iter().chain(&self.modifiers).any(Option::is_none)
    }

    /// The data of tokens in the numbers of the first legend, without those that it has no type for.
    fn mapped(&self, data: &[u8]) -> Option<Vec<u8>> {
        let data: Vec<u32> = serde_json::from_slice(data).ok()?;
        let mut out = Vec::with_capacity(data.len());
        // What the tokens that are left out have moved on.
        let (mut lines, mut characters) = (0_u32, 0_u32);
        for token in data.chunks_exact(5) {
            let [down, right, length, kind, modifiers] = *token else { continue };
            characters = if down == 0 { characters.saturating_add(right) } else { right };
            lines = lines.saturating_add(down);
            let Some(kind) = self.types.get(kind as usize).copied().flatten() else { continue };
            out.extend([lines, characters, length, kind, self.modifiers(modifiers)]);
            (lines, characters) = (0, 0);
        }
        serde_json::to_vec(&out).ok()
    }

    fn modifiers(&self, bits: u32) -> u32 {
        let known = self.modifiers.iter().enumerate().filter(|(n, _)| bits >> (n & 31) & 1 == 1);
        known.filter_map(|(_, it)| *it).filter(|it| *it < 32).fold(0, |all, it| all | 1 << it)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rpc::RawId;

    fn between(first: Value, next: Value) -> Differences {
        let of = |it| json!({"capabilities": it}).to_string().into_bytes();
        Differences::between(&of(first), &of(next))
    }

    fn told(first: Value, next: Value) -> Vec<String> {
        between(first, next).told
    }

    #[test]
    fn only_what_the_editor_gets_wrong_is_told() {
        let first = json!({"textDocumentSync": 2, "hoverProvider": true, "renameProvider": false});
        assert!(told(first.clone(), first.clone()).is_empty());
        let more = json!({"textDocumentSync": {"change": 2}, "hoverProvider": {}, "codeLensProvider": {}});
        assert!(told(first.clone(), more).is_empty());
        let less = told(first, json!({"positionEncoding": "utf-8"}));
        assert_eq!(less.len(), 3, "{less:?}");
        let legend = |it: &str| json!({"semanticTokensProvider": {"legend": {"tokenTypes": [it]}}});
        assert_eq!(told(legend("a"), legend("b")), ["the legend of semantic tokens is another"]);
        assert!(Differences::between(b"{}", b"{}").told.is_empty());
    }

    #[test]
    fn whole_texts_are_sent_where_changes_would_be_misread() {
        let wants = |first, next| {
            let it = between(first, next);
            (it.wants_whole_texts, it.told.len())
        };
        assert_eq!(
            wants(json!({"textDocumentSync": 2}), json!({"textDocumentSync": {"change": 1}})),
            (true, 0)
        );
        assert_eq!(wants(json!({"textDocumentSync": 1}), json!({"textDocumentSync": 2})), (false, 0));
        assert_eq!(wants(json!({"textDocumentSync": 2}), json!({"textDocumentSync": 2})), (false, 0));
        let utf8 = json!({"textDocumentSync": 2, "positionEncoding": "utf-8"});
        assert_eq!(wants(json!({"textDocumentSync": 2}), utf8), (true, 1));
    }

    #[test]
    fn tokens_are_told_in_the_first_legend() {
        let tokens = |types: &[&str], modifiers: &[&str]| {
            json!({"semanticTokensProvider": {
                "legend": {"tokenTypes": types, "tokenModifiers": modifiers}, "full": {"delta": true}}})
        };
        let first = tokens(&["class", "variable"], &["static", "async"]);
        assert_eq!(between(first.clone(), first.clone()).legend, None);
        let it = between(first, tokens(&["new", "variable", "class"], &["async", "fresh", "static"]));
        assert!(it.told == ["the legend of semantic tokens is another"], "{:?}", it.told);
        let mapped = |data: &str| {
            let asked = Frame::request(RawId::from(1), RANGE_OF_TOKENS, None);
            let answer = Frame::response(RawId::from(1), format!(r#"{{"data":{data},"x":1}}"#).as_bytes());
            let answer = it.answered(&asked, &answer).unwrap();
            String::from_utf8(answer.result().unwrap().to_vec()).unwrap()
        };
        assert_eq!(mapped("[0,1,2,1,1, 0,4,2,2,6]"), r#"{"data":[0,1,2,1,2,0,4,2,0,1],"x":1}"#);
        // The second is left out, and the others stay where they are.
        assert_eq!(mapped("[1,3,2,1,0, 0,4,2,0,0, 0,5,1,2,0]"), r#"{"data":[1,3,2,1,0,0,9,1,0,0],"x":1}"#);
        assert_eq!(mapped("[1,3,2,0,0, 2,4,2,1,0]"), r#"{"data":[3,4,2,1,0],"x":1}"#);
        assert_eq!(mapped("[0,3,2,9,0]"), r#"{"data":[],"x":1}"#, "no legend has it");
        let delta = br#"{"textDocument":{"uri":"u"},"previousResultId":"1","partialResultToken":2}"#;
        let asked = it.asked(&Frame::request(RawId::from(1), DELTA_OF_TOKENS, Some(delta))).unwrap();
        assert_eq!(
            (asked.method(), asked.params()),
            (Some(FULL_TOKENS), Some(&br#"{"textDocument":{"uri":"u"}}"#[..]))
        );
    }

    #[test]
    fn missing_providers_are_answered_with_nothing() {
        let first = json!({"hoverProvider": true, "completionProvider": {"resolveProvider": true},
            "diagnosticProvider": {}, "executeCommandProvider": {}});
        let it = between(first, json!({"completionProvider": {}}));
        let answer = |method: &str, code: i32| {
            let request = Frame::request(RawId::from(1), method, Some(b"{\"label\":1}"));
            let error = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"no"}}}}"#);
            let answer = it.answered(&request, &Frame::parse(error.into()).unwrap());
            answer.map(|it| String::from_utf8_lossy(it.result().unwrap()).into_owned())
        };
        assert_eq!(answer("textDocument/hover", -32601).as_deref(), Some("null"));
        assert_eq!(answer("textDocument/hover", -32603), None);
        assert_eq!(answer("completionItem/resolve", -32601).as_deref(), Some(r#"{"label":1}"#));
        assert_eq!(answer("textDocument/completion", -32601), None, "it is not missing");
        assert!(answer("textDocument/diagnostic", -32601).unwrap().contains("items"));
        assert_eq!(answer("workspace/executeCommand", -32601), None, "the server says what became of it");
        assert_eq!(answer("my/method", -32601), None);
    }
}
