//! Whether an answer is something else than its method is answered with.

use super::{
    Reading, hover,
    shared::{List, inside, is_null, is_object, some},
};
use crate::rpc::values;

/// What a method is answered with, if with anything.
enum Expected {
    Anything,
    List,
    ListOrObject,
    Object,
    /// An object with this list of objects.
    ObjectWith(&'static str),
    /// A list of objects, or an object with one under this key.
    ListOrObjectWith(&'static str),
    Hover,
    Tokens,
}

fn expected(method: &str) -> Expected {
    match method {
        "textDocument/hover" => Expected::Hover,
        "textDocument/completion" | "textDocument/inlineCompletion" => Expected::ListOrObjectWith("items"),
        "textDocument/declaration"
        | "textDocument/definition"
        | "textDocument/implementation"
        | "textDocument/references"
        | "textDocument/typeDefinition" => Expected::ListOrObject,
        "textDocument/signatureHelp" => Expected::ObjectWith("signatures"),
        "textDocument/linkedEditingRange" => Expected::ObjectWith("ranges"),
        "textDocument/semanticTokens/full" | "textDocument/semanticTokens/range" => Expected::Tokens,
        "textDocument/prepareRename"
        | "textDocument/rename"
        | "workspace/willCreateFiles"
        | "workspace/willDeleteFiles"
        | "workspace/willRenameFiles" => Expected::Object,
        // What reports are is known where they are kept.
        "textDocument/diagnostic" => Expected::Anything,
        "workspace/symbol" => Expected::List,
        _ if method.starts_with("textDocument/") => Expected::List,
        _ => Expected::Anything,
    }
}

/// Whether an answer to this method of the protocol cannot be read at all. What has something wrong in it is not.
pub(crate) fn is_malformed(method: &str, result: &[u8]) -> bool {
    if is_null(result) {
        return false;
    }
    let lists = |key| values(result, [key])[0];
    match expected(method) {
        Expected::Anything => false,
        Expected::Object => !is_object(result),
        Expected::ObjectWith(key) => !is_object(result) || lists(key).is_some_and(is_no_list),
        Expected::ListOrObjectWith(key) if is_object(result) => some(lists(key)).is_none_or(is_no_list),
        Expected::ListOrObject if is_object(result) => false,
        Expected::List | Expected::ListOrObject | Expected::ListOrObjectWith(_) => is_no_list(result),
        Expected::Hover => hover::is_malformed(result),
        Expected::Tokens => !is_object(result) || lists("data").is_none_or(|it| inside(it, *b"[]").is_none()),
    }
}

/// Whether it is no list of objects: nothing in it is one.
fn is_no_list(raw: &[u8]) -> bool {
    match inside(raw, *b"[]") {
        None => true,
        // The first one is enough: those that are none among others are left out when it is read.
        Some([] | [b'{', ..]) => false,
        Some(_) => matches!(List::read(raw), Reading::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_answers_are_told_by_method() {
        for (method, wrong, right) in [
            ("textDocument/hover", r#"{"contents":5}"#, r#"{"contents":"a"}"#),
            ("textDocument/hover", "[]", r#"{"contents":[]}"#),
            ("textDocument/completion", r#"{"items":5}"#, r#"{"items":[]}"#),
            ("textDocument/completion", "{}", "[]"),
            ("textDocument/completion", "[1,null]", r#"[1,{"label":"a"}]"#),
            ("textDocument/definition", r#""u""#, r#"{"uri":"u"}"#),
            ("textDocument/definition", "[[]]", "[{}]"),
            ("textDocument/signatureHelp", r#"{"signatures":{}}"#, r#"{"signatures":[]}"#),
            ("textDocument/signatureHelp", "[]", "{}"),
            ("textDocument/linkedEditingRange", r#"{"ranges":[1]}"#, r#"{"ranges":[{}]}"#),
            ("textDocument/semanticTokens/full", r#"{"data":{}}"#, r#"{"data":[0]}"#),
            ("textDocument/semanticTokens/range", "[0]", r#"{"data":[]}"#),
            ("textDocument/prepareRename", "true", "{}"),
            ("textDocument/rename", "[]", "{}"),
            ("workspace/willRenameFiles", "5", r#"{"changes":{}}"#),
            ("workspace/symbol", "{}", "[{}]"),
            ("textDocument/foldingRange", "{}", "[{}]"),
            ("textDocument/codeAction", r#"["a"]"#, r#"["a",{}]"#),
        ] {
            assert!(is_malformed(method, wrong.as_bytes()), "{method} {wrong}");
            assert!(!is_malformed(method, right.as_bytes()), "{method} {right}");
            assert!(!is_malformed(method, b" null"), "{method}");
        }
        for method in ["workspace/executeCommand", "own/thing", "textDocument/diagnostic"] {
            assert!(!is_malformed(method, b"5"), "{method}");
        }
    }
}
