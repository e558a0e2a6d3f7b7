//! Who made an item: a tag in its `data`.
//!
//! The editor gives an item back when it wants to know more of it, and the question goes to the member that made it. The
//! tag is `{"lspool":"<member>.<generation>","data":<what was there>}`; without `data` before, there is none inside.

use std::{borrow::Cow, ops::Range};

use super::answers::{completion, shared::List};
use crate::rpc::{Patch, decode, member, values};

/// A process of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Maker {
    pub(crate) member: u32,
    pub(crate) generation: u32,
}

impl Maker {
    fn read(tag: &[u8]) -> Option<Maker> {
        let text = decode(tag)?;
        let (member, generation) = text.split_once('.')?;
        let number = |it: &str| it.bytes().all(|it| it.is_ascii_digit()).then(|| it.parse().ok()).flatten();
        Some(Maker { member: number(member)?, generation: number(generation)? })
    }
}

/// A tag in the making.
pub(in crate::core::mux) struct Tag {
    /// Without its last brace.
    opening: Vec<u8>,
}

impl Tag {
    pub(super) fn of_maker(maker: Maker) -> Tag {
        let Maker { member, generation } = maker;
        Tag { opening: format!(r#"{{"lspool":"{member}.{generation}""#).into_bytes() }
    }

    /// Another tag, with this text under this key.
    pub(in crate::core::mux) fn of(key: &str, text: &str) -> Tag {
        Tag { opening: format!(r#"{{"{key}":{}"#, serde_json::json!(text)).into_bytes() }
    }

    /// Tags all items in an answer.
    pub(in crate::core::mux) fn put_answer(&self, method: &str, result: &[u8]) -> Vec<u8> {
        let Some(place) = Place::of(method) else { return result.to_vec() };
        let put = |element: &[u8], out: &mut Vec<u8>| match place {
            Place::Completions | Place::Whole => self.put_item(element, out),
            Place::Elements if is_command(element) => out.extend_from_slice(element),
            Place::Elements => self.put_item(element, out),
            Place::Inside(key) => match member(element, key) {
                Some(at) => {
                    out.extend_from_slice(&element[..at.start]);
                    self.put_item(&element[at.clone()], out);
                    out.extend_from_slice(&element[at.end..]);
                }
                None => out.extend_from_slice(element),
            },
        };
        match place {
            Place::Whole => self.put_alone(result),
            Place::Completions if !result.trim_ascii_start().starts_with(b"[") => {
                completion::tagged(result, self).map_or_else(|| result.to_vec(), Cow::into_owned)
            }
            Place::Completions | Place::Elements | Place::Inside(_) => {
                List::of(result).map_or_else(|| result.to_vec(), |it| it.rewritten(self.len(), put))
            }
        }
    }

    fn put_alone(&self, item: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(item.len() + self.len());
        self.put_item(item, &mut out);
        out
    }

    /// Writes the tag, around the data that was there.
    fn put(&self, data: Option<&[u8]>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.opening);
        if let Some(data) = data {
            out.extend_from_slice(br#","data":"#);
            out.extend_from_slice(data);
        }
        out.push(b'}');
    }

    /// Writes an item with the tag in it. What is no object is written as it is.
    pub(super) fn put_item(&self, item: &[u8], out: &mut Vec<u8>) {
        self.put_item_with(item, member(item, "data"), out);
    }

    /// The same, if it is known where in the item its `data` is, or that there is none.
    pub(super) fn put_item_with(&self, item: &[u8], data: Option<Range<usize>>, out: &mut Vec<u8>) {
        if let Some(data) = data {
            out.extend_from_slice(&item[..data.start]);
            self.put(Some(&item[data.clone()]), out);
            out.extend_from_slice(&item[data.end..]);
            return;
        }
        let Some(inside) = item.trim_ascii_start().strip_prefix(b"{") else {
            return out.extend_from_slice(item);
        };
        out.extend_from_slice(br#"{"data":"#);
        self.put(None, out);
        if !inside.trim_ascii_start().starts_with(b"}") {
            out.push(b',');
        }
        out.extend_from_slice(inside);
    }

    /// How many bytes it adds to an item, at most.
    pub(super) fn len(&self) -> usize {
        self.opening.len() + r#""data":,"data":},"#.len()
    }
}

/// Where the items of an answer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a list, or in that of a `CompletionList`, which may have data for all.
    Completions,
    Elements,
    /// In this member of each element.
    Inside(&'static str),
    /// The answer is one.
    Whole,
}

impl Place {
    fn of(method: &str) -> Option<Place> {
        Some(match method {
            "textDocument/completion" => Place::Completions,
            "textDocument/codeAction"
            | "textDocument/codeLens"
            | "textDocument/documentLink"
            | "textDocument/inlayHint"
            | "textDocument/prepareCallHierarchy"
            | "textDocument/prepareTypeHierarchy"
            | "typeHierarchy/subtypes"
            | "typeHierarchy/supertypes"
            | "workspace/symbol" => Place::Elements,
            "callHierarchy/incomingCalls" => Place::Inside("from"),
            "callHierarchy/outgoingCalls" => Place::Inside("to"),
            "codeAction/resolve"
            | "codeLens/resolve"
            | "completionItem/resolve"
            | "documentLink/resolve"
            | "inlayHint/resolve"
            | "workspaceSymbol/resolve" => Place::Whole,
            _ => return None,
        })
    }
}

/// Whether the elements of such an answer are items that are asked about later.
pub(super) fn has_items(method: &str) -> bool {
    matches!(Place::of(method), Some(Place::Completions | Place::Elements))
}

/// Whether an element is a bare `Command`, which has no data and is never asked about.
pub(super) fn is_command(element: &[u8]) -> bool {
    member(element, "command").is_some_and(|it| element[it.start] == b'"')
}

/// Whether the answers to such requests have items that may be asked about later.
pub(crate) fn makes_items(method: &str) -> bool {
    match Place::of(method) {
        Some(Place::Completions | Place::Elements | Place::Inside(_)) => true,
        Some(Place::Whole) | None => false,
    }
}

/// Puts the tag into the `data` of one item.
#[cfg(test)]
pub(super) fn tagged(item: &[u8], maker: Maker) -> Vec<u8> {
    Tag::of_maker(maker).put_alone(item)
}

/// Who made the item in the parameters of a question about it, and the parameters as the maker knows them. `None`:
/// there is no item in them, or it has no tag.
pub(crate) fn untagged(method: &str, params: &[u8]) -> Option<(Maker, Vec<u8>)> {
    let is_nested = match method {
        "callHierarchy/incomingCalls"
        | "callHierarchy/outgoingCalls"
        | "typeHierarchy/subtypes"
        | "typeHierarchy/supertypes" => true,
        _ if Place::of(method) == Some(Place::Whole) => false,
        _ => return None,
    };
    if !is_nested {
        return untagged_item(params);
    }
    let at = member(params, "item")?;
    let (maker, item) = untagged_item(&params[at.clone()])?;
    Some((maker, [&params[..at.start], &item, &params[at.end..]].concat()))
}

fn untagged_item(item: &[u8]) -> Option<(Maker, Vec<u8>)> {
    let at = member(item, "data")?;
    let [tag, data] = values(&item[at.clone()], ["lspool", "data"]);
    let maker = Maker::read(tag?)?;
    let item = match data {
        Some(data) => [&item[..at.start], data, &item[at.end..]].concat(),
        None => Patch::of(item).remove("data").finish(),
    };
    Some((maker, item))
}

/// Tags all items in an answer of one member.
pub(crate) fn tag_answer(method: &str, result: &[u8], maker: Maker) -> Vec<u8> {
    Tag::of_maker(maker).put_answer(method, result)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const MAKER: Maker = Maker { member: 3, generation: 12 };

    fn tagged_text(item: &str) -> String {
        String::from_utf8(tagged(item.as_bytes(), MAKER)).unwrap()
    }

    #[test]
    fn tag_wraps_data_or_is_inserted() {
        assert_eq!(tagged_text(r#"{"label":"a"}"#), r#"{"data":{"lspool":"3.12"},"label":"a"}"#);
        assert_eq!(tagged_text("{}"), r#"{"data":{"lspool":"3.12"}}"#);
        assert_eq!(
            tagged_text(r#"{"label":"a", "data" : [1, "b"],"x":1}"#),
            r#"{"label":"a", "data" : {"lspool":"3.12","data":[1, "b"]},"x":1}"#
        );
        assert_eq!(tagged_text(r#"{"data":null}"#), r#"{"data":{"lspool":"3.12","data":null}}"#);
        assert_eq!(tagged_text("null"), "null");
    }

    #[test]
    fn tag_is_taken_off_item_and_nested_item() {
        for item in [r#"{"label":"a"}"#, r#"{"label":"a","data":"x"}"#, r#"{"data":null,"a":1}"#, "{}"] {
            let (maker, bare) = untagged("completionItem/resolve", tagged_text(item).as_bytes()).unwrap();
            assert_eq!((maker, std::str::from_utf8(&bare).unwrap()), (MAKER, item));
            let params = format!(r#"{{"workDoneToken":1,"item":{}}}"#, tagged_text(item));
            let (maker, bare) = untagged("callHierarchy/incomingCalls", params.as_bytes()).unwrap();
            let expected = format!(r#"{{"workDoneToken":1,"item":{item}}}"#);
            assert_eq!((maker, String::from_utf8(bare).unwrap()), (MAKER, expected));
        }
    }

    #[test]
    fn data_without_tag_is_nobodys() {
        for data in [
            "1",
            "{}",
            r#"{"lspool":1}"#,
            r#"{"lspool":"1"}"#,
            r#"{"lspool":"+1.2"}"#,
            r#"{"lspool":"1.99999999999"}"#,
        ] {
            let item = format!(r#"{{"label":"a","data":{data}}}"#);
            assert_eq!(untagged("completionItem/resolve", item.as_bytes()), None, "{data}");
        }
        let item = tagged_text("{}");
        assert_eq!(untagged("textDocument/hover", item.as_bytes()), None);
        assert_eq!(untagged("callHierarchy/incomingCalls", item.as_bytes()), None);
    }

    fn answer(method: &str, result: &Value) -> Value {
        serde_json::from_slice(&tag_answer(method, result.to_string().as_bytes(), MAKER)).unwrap()
    }

    #[test]
    fn answers_are_tagged_where_their_items_are() {
        let tag = json!({"lspool": "3.12"});
        assert_eq!(
            answer("textDocument/codeLens", &json!([{}, {"a": 1}])),
            json!([
                {"data": tag}, {"data": tag, "a": 1},
            ])
        );
        assert_eq!(
            answer("callHierarchy/outgoingCalls", &json!([{"to": {"name": "f"}, "fromRanges": []}])),
            json!([{"to": {"name": "f", "data": tag}, "fromRanges": []}])
        );
        assert_eq!(answer("inlayHint/resolve", &json!({"label": "a"})), json!({"label": "a", "data": tag}));
        let command = json!({"title": "run", "command": "x"});
        assert_eq!(
            answer("textDocument/codeAction", &json!([command, {"title": "fix", "command": command}])),
            json!([command, {"title": "fix", "command": command, "data": tag}])
        );
        for nothing in [json!(null), json!([]), json!(5)] {
            assert_eq!(answer("textDocument/completion", &nothing), nothing);
        }
        assert_eq!(answer("textDocument/hover", &json!({"contents": ""})), json!({"contents": ""}));
    }

    #[test]
    fn default_data_moves_into_tagged_items() {
        let list = json!({
            "isIncomplete": true,
            "itemDefaults": {"data": {"uri": "u"}, "insertTextMode": 1},
            "items": [{"label": "a"}, {"label": "b", "data": 7}, {"label": "c", "data": null}],
        });
        assert_eq!(
            answer("textDocument/completion", &list),
            json!({
                "isIncomplete": true,
                "itemDefaults": {"insertTextMode": 1},
                "items": [
                    {"label": "a", "data": {"lspool": "3.12", "data": {"uri": "u"}}},
                    {"label": "b", "data": {"lspool": "3.12", "data": 7}},
                    {"label": "c", "data": {"lspool": "3.12", "data": {"uri": "u"}}},
                ],
            })
        );
    }

    proptest! {
        #[test]
        fn tags_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), text in r#"[\[\]{}":,a1 ]{0,40}"#) {
            for raw in [&bytes[..], text.as_bytes()] {
                for method in ["textDocument/completion", "callHierarchy/incomingCalls", "codeLens/resolve"] {
                    tag_answer(method, raw, MAKER);
                    untagged(method, raw);
                }
            }
        }
    }
}
