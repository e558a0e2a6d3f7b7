//! Whether an answer says anything.

use super::{
    hover,
    shared::{inside, is_null, is_object, some},
};
use crate::rpc::values;

/// Whether an answer says nothing, for this method.
///
/// Of methods that lspool does not know, only `null` says nothing: who answers a list answers.
pub(crate) fn is_empty(method: &str, result: &[u8]) -> bool {
    if is_null(result) {
        return true;
    }
    let lists: &[&str] = match method {
        "textDocument/hover" => return hover::is_empty(result),
        "textDocument/completion" | "textDocument/inlineCompletion" => &["items"],
        "textDocument/signatureHelp" => &["signatures"],
        "textDocument/linkedEditingRange" => &["ranges"],
        "textDocument/semanticTokens/full" | "textDocument/semanticTokens/range" => &["data"],
        "textDocument/rename"
        | "workspace/willCreateFiles"
        | "workspace/willDeleteFiles"
        | "workspace/willRenameFiles" => return is_empty_edit(result),
        "textDocument/diagnostic" => return is_empty_report(result),
        "workspace/diagnostic" => &["items"],
        "callHierarchy/incomingCalls"
        | "callHierarchy/outgoingCalls"
        | "typeHierarchy/subtypes"
        | "typeHierarchy/supertypes"
        | "workspace/symbol" => &[],
        _ if method.starts_with("textDocument/") => &[],
        _ => return false,
    };
    if !is_object(result) {
        return inside(result, *b"[]").is_some_and(<[u8]>::is_empty);
    }
    lists.iter().any(|key| match some(values(result, [key])[0]) {
        Some(list) => inside(list, *b"[]").is_some_and(<[u8]>::is_empty),
        None => true,
    })
}

/// The answer to a request of this method that says nothing. `None`: there must be something in it.
pub(crate) fn nothing<'a>(method: &str, params: &'a [u8]) -> Option<&'a [u8]> {
    match method {
        "textDocument/diagnostic" => Some(br#"{"kind":"full","items":[]}"#),
        "workspace/diagnostic" => Some(br#"{"items":[]}"#),
        "textDocument/colorPresentation" | "textDocument/documentColor" => Some(b"[]"),
        "workspace/textDocumentContent" => None,
        // Nothing is added to the item.
        _ if method.ends_with("/resolve") => Some(params),
        _ => Some(b"null"),
    }
}

fn is_empty_edit(result: &[u8]) -> bool {
    let [changes, document_changes] = values(result, ["changes", "documentChanges"]);
    let nothing = |it: &[u8], brackets| inside(it, brackets).is_some_and(<[u8]>::is_empty);
    is_object(result)
        && some(changes).is_none_or(|it| nothing(it, *b"{}"))
        && some(document_changes).is_none_or(|it| nothing(it, *b"[]"))
}

/// An unchanged report says something: what was said before.
fn is_empty_report(result: &[u8]) -> bool {
    let [kind, items, related] = values(result, ["kind", "items", "relatedDocuments"]);
    kind == Some(br#""full""#)
        && items.and_then(|it| inside(it, *b"[]")).is_some_and(<[u8]>::is_empty)
        && some(related).is_none_or(|it| inside(it, *b"{}").is_some_and(<[u8]>::is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_say_nothing_are_told_by_method() {
        for (method, result) in [
            ("textDocument/hover", r#"{"contents":""}"#),
            ("textDocument/hover", r#"{"contents":[]}"#),
            ("textDocument/hover", r#"{"contents":{"kind":"markdown","value":" \n"}}"#),
            ("textDocument/hover", r#"{"contents":["",{"language":"rust","value":""}]}"#),
            ("textDocument/completion", " [ ] "),
            ("textDocument/completion", r#"{"isIncomplete":true,"items":[]}"#),
            ("textDocument/signatureHelp", r#"{"signatures":[]}"#),
            ("textDocument/semanticTokens/full", r#"{"resultId":"1","data":[ ]}"#),
            ("textDocument/rename", r#"{"changes":{},"documentChanges":null}"#),
            ("textDocument/rename", "{}"),
            ("textDocument/diagnostic", r#"{"kind":"full","items":[]}"#),
            ("textDocument/definition", "[]"),
            ("workspace/symbol", "[]"),
            ("x/y", " null"),
        ] {
            assert!(is_empty(method, result.as_bytes()), "{method} {result}");
        }
        for (method, result) in [
            ("textDocument/hover", r#"{"contents":"a"}"#),
            ("textDocument/completion", r#"{"isIncomplete":false,"items":[{}]}"#),
            ("textDocument/definition", r#"{"uri":"a","range":{}}"#),
            ("textDocument/rename", r#"{"changes":{"u":[]}}"#),
            ("textDocument/diagnostic", r#"{"kind":"unchanged","resultId":"1"}"#),
            ("textDocument/diagnostic", r#"{"kind":"full","items":[],"relatedDocuments":{"u":{}}}"#),
            ("x/y", "[]"),
            ("workspace/executeCommand", "{}"),
            ("textDocument/completion", "5"),
        ] {
            assert!(!is_empty(method, result.as_bytes()), "{method} {result}");
        }
    }
}
