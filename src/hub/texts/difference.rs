//! The smallest change of whole lines that makes one text of another.

use serde_json::json;

use crate::rpc::decode;

/// A content change that replaces a text, given as raw JSON, by another one; of the whole text if the old one is not
/// known.
pub(super) fn replacement(old: Option<&[u8]>, new: &[u8]) -> Vec<u8> {
    let whole = || [br#"{"text":"#.as_slice(), new, b"}"].concat();
    let (Some(old), Some(text)) = (old.and_then(decode), decode(new)) else { return whole() };
    // Not every reader takes a lone carriage return for the end of a line.
    if has_lone_return(&old) || has_lone_return(&text) {
        return whole();
    }
    let (before, after) = (lines(&old), lines(&text));
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = before.iter().zip(&after).take_while(same).count();
    let (before_rest, after_rest) = (&before[head..], &after[head..]);
    let tail = before_rest.iter().rev().zip(after_rest.iter().rev()).take_while(same).count();
    // The last line has no end, so text that begins after it would have to begin within it.
    let is_at_end = head == before.len() || head == after.len();
    if is_at_end {
        return whole();
    }
    let gone = &before_rest[..before_rest.len() - tail];
    let come = &after_rest[..after_rest.len() - tail];
    let start = json!({"line": head, "character": 0});
    // With no common tail, the last line is part of the change, up to its end.
    let end = match (tail, gone.last()) {
        (0, Some(last)) => json!({"line": head + gone.len() - 1, "character": last.encode_utf16().count()}),
        (_, _) => json!({"line": head + gone.len(), "character": 0}),
    };
    json!({"range": {"start": start, "end": end}, "text": come.concat()}).to_string().into_bytes()
}

/// The lines of a text with their ends. The last one has none, and may be empty.
fn lines(text: &str) -> Vec<&str> {
    let mut all: Vec<&str> = text.split_inclusive('\n').collect();
    if text.is_empty() || text.ends_with('\n') {
        all.push("");
    }
    all
}

fn has_lone_return(text: &str) -> bool {
    text.split('\r').skip(1).any(|it| !it.starts_with('\n'))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::core::mux::session::documents::Documents;

    /// The text that a server has after the change.
    fn applied(old: &str, new: &str) -> String {
        let mut documents = Documents::default();
        let open = json!({"textDocument": {"uri": "u", "languageId": "x", "version": 1, "text": old}});
        documents.opened(&Bytes::from(open.to_string()));
        let change = replacement(Some(json!(old).to_string().as_bytes()), json!(new).to_string().as_bytes());
        let change: Value = serde_json::from_slice(&change).unwrap();
        let params = json!({"textDocument": {"uri": "u", "version": 2}, "contentChanges": [change]});
        documents.changed(params.to_string().as_bytes());
        serde_json::from_slice::<String>(&documents.text("u").unwrap()).unwrap()
    }

    #[test]
    fn change_is_of_differing_lines() {
        let change = |old: &str, new: &str| {
            let raw = replacement(Some(json!(old).to_string().as_bytes()), json!(new).to_string().as_bytes());
            String::from_utf8(raw).unwrap()
        };
        assert_eq!(
            change("a\nb\nc\n", "a\nx\nc\n"),
            r#"{"range":{"start":{"line":1,"character":0},"end":{"line":2,"character":0}},"text":"x\n"}"#
        );
        assert_eq!(
            change("a\nbé😀", "a\nc"),
            r#"{"range":{"start":{"line":1,"character":0},"end":{"line":1,"character":4}},"text":"c"}"#
        );
        assert_eq!(change("a\rb", "a\rc"), r#"{"text":"a\rc"}"#);
    }

    proptest! {
        #[test]
        fn change_makes_new_text_of_old_one(
            old in prop::collection::vec("(a|b|é😀|\r\n|\n|\r|)", 0..12),
            new in prop::collection::vec("(a|b|é😀|\r\n|\n|\r|)", 0..12),
        ) {
            let (old, new) = (old.concat(), new.concat());
            prop_assert_eq!(applied(&old, &new), new);
        }
    }
}
