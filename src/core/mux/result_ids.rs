//! Result ids: names of earlier answers, with which an editor asks only for the changes.
//!
//! A process knows only its own ids. Servers that count give the same ids again, so a successor would compare with
//! the wrong answer. So a successor gets no id until it has answered the same question about the same document
//! itself.

use std::collections::BTreeSet;

use crate::{
    core::mux::session::documents::uri,
    rpc::{Frame, Patch, elements, member, text},
};

/// The answers of a successor.
#[derive(Debug, Default)]
pub(crate) struct Results(BTreeSet<Key>);

/// The kind of a question, its document, and the `identifier` of those diagnostics that it asks for.
type Key = (Kind, Option<String>, Option<String>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Diagnostic,
    WorkspaceDiagnostic,
    SemanticTokens,
}

/// The id of the next answer stands for the editor's current state.
const DIAGNOSTIC: &str = "textDocument/diagnostic";
const WORKSPACE_DIAGNOSTIC: &str = "workspace/diagnostic";
const FULL: &str = "textDocument/semanticTokens/full";
const DELTA: &str = "textDocument/semanticTokens/full/delta";

impl Results {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The process has answered a request with this result, or with this part of it.
    pub(crate) fn note(&mut self, asked: &Frame, result: &[u8]) {
        let Some(key) = Results::key(asked) else { return };
        if key.0 != Kind::WorkspaceDiagnostic {
            self.0.insert(key);
            return;
        }
        let list = member(result, "items").map_or(&b"[]"[..], |it| &result[it]);
        let uris = elements(list).filter_map(|it| text(&list[it], &["uri"]));
        self.0.extend(uris.map(|uri| (Kind::WorkspaceDiagnostic, Some(uri), key.2.clone())));
    }

    /// Whether the editor's id for this document is from this process.
    fn has_given(&self, document: Option<&str>, identifier: Option<&String>) -> bool {
        let kinds = [Kind::WorkspaceDiagnostic, Kind::Diagnostic];
        let all = kinds.map(|it| (it, document.map(str::to_owned), identifier.cloned()));
        document.is_some() && all.iter().any(|it| self.0.contains(it))
    }

    /// The key of the answer to this request, if it has a result id.
    pub(crate) fn key(request: &Frame) -> Option<Key> {
        let of = |it| uri(it, "textDocument");
        let identifier = |it| text(it, &["identifier"]);
        match request.method()? {
            DIAGNOSTIC => request.params().map(|it| (Kind::Diagnostic, of(it), identifier(it))),
            WORKSPACE_DIAGNOSTIC => {
                Some((Kind::WorkspaceDiagnostic, None, request.params().and_then(identifier)))
            }
            FULL | DELTA => request.params().map(|it| (Kind::SemanticTokens, of(it), None)),
            _ => None,
        }
    }

    /// Removes foreign ids from a request, if it has any.
    pub(super) fn without_foreign_ids(&self, request: &Frame) -> Option<Frame> {
        let key = Results::key(request)?;
        let (params, id) = (request.params()?, request.id()?);
        if self.0.contains(&key) {
            return None;
        }
        match key.0 {
            Kind::Diagnostic => {
                member(params, "previousResultId")?;
                Some(request.with_params(&Patch::of(params).remove("previousResultId").finish()))
            }
            // The request still names the documents with diagnostics.
            Kind::WorkspaceDiagnostic => {
                let list = &params[member(params, "previousResultIds")?];
                let own = |one: &[u8]| match self.has_given(text(one, &["uri"]).as_deref(), key.2.as_ref()) {
                    true => one.to_vec(),
                    false => Patch::of(one).set("value", b"\"\"").finish(),
                };
                let unknown = |it| own(&list[it]);
                let all: Vec<Vec<u8>> = elements(list).map(unknown).collect();
                let list = [b"[".as_slice(), &all.join(b",".as_slice()), b"]"].concat();
                Some(request.with_params(&Patch::of(params).set("previousResultIds", &list).finish()))
            }
            // A full answer is a valid answer to a request for changes.
            Kind::SemanticTokens if request.method() == Some(DELTA) => {
                let params = Patch::of(params).remove("previousResultId").finish();
                Some(Frame::request(id, FULL, Some(&params)))
            }
            Kind::SemanticTokens => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RawId;

    fn asked(results: &Results, method: &str, params: &str) -> Option<String> {
        let frame = Frame::request(RawId::from(7), method, Some(params.as_bytes()));
        results.without_foreign_ids(&frame).map(|it| String::from_utf8(it.to_bytes().to_vec()).unwrap())
    }

    #[test]
    fn requests_omit_result_ids_of_another_process() {
        let mut it = Results::default();
        let delta = r#"{"textDocument":{"uri":"u"},"previousResultId":"1"}"#;
        let told = asked(&it, DELTA, delta).unwrap();
        assert!(told.contains(FULL) && !told.contains("delta") && !told.contains("previous"), "{told}");
        assert_eq!(asked(&it, FULL, r#"{"textDocument":{"uri":"u"}}"#), None);
        let told = asked(&it, DIAGNOSTIC, delta).unwrap();
        assert!(told.contains(r#""uri":"u""#) && !told.contains("previous"), "{told}");
        let told =
            asked(&it, WORKSPACE_DIAGNOSTIC, r#"{"previousResultIds":[{"uri":"u","value":"9"}]}"#).unwrap();
        assert!(told.contains(r#"[{"uri":"u","value":""}]"#), "{told}");
        it.0.extend(Results::key(&Frame::request(RawId::from(8), DELTA, Some(delta.as_bytes()))));
        assert_eq!(asked(&it, DELTA, delta), None);
        let pull = Frame::request(RawId::from(9), DIAGNOSTIC, Some(delta.as_bytes()));
        it.note(&pull, br#"{"kind":"full","items":[]}"#);
        assert_eq!(asked(&it, DIAGNOSTIC, delta), None);
        let identified = delta.replace('{', r#"{"identifier":"other","#);
        let identified = identified.replacen(r#":{"identifier":"other","#, ":{", 1);
        assert!(asked(&it, DIAGNOSTIC, &identified).is_some(), "{identified}");
        it.0.retain(|it| it.0 != Kind::Diagnostic);
        let other = delta.replace("\"u\"", "\"v\"");
        assert!(asked(&it, DELTA, &other).is_some() && asked(&it, DIAGNOSTIC, delta).is_some());
    }
}
