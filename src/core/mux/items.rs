//! Items that the editor asks about later: completions, lenses, hints, links, actions, symbols, the items of call and
//! type hierarchies, and diagnostics, which come back with a question for code actions.
//!
//! An item contains data for the process that made it. Another process would take the data for its own, because it
//! numbers its answers like the dead one. So a successor gets only questions about its own items, and only the data
//! of its own diagnostics.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use serde_json::Value;

use crate::rpc::{Frame, Patch, elements, member, members, path, values};

/// How many items to keep at least.
const MOST: usize = 50_000;

/// A kind of item.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The requests whose answers contain such items, with the member of each element that holds the item, if any.
    made_by: &'static [(&'static str, &'static str)],
    asked_by: &'static [&'static str],
    /// The members that identify an item. An editor returns them unchanged.
    keys: [&'static str; 4],
    pub(crate) foreign: Foreign,
}

/// The answer to a question about an item of a dead process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// The unchanged item.
    Itself,
    /// An error.
    Outdated,
}

const RULES: [Rule; 8] = [
    Rule {
        made_by: &[("textDocument/codeAction", "")],
        asked_by: &["codeAction/resolve"],
        keys: ["title", "kind", "data", ""],
        foreign: Foreign::Itself,
    },
    Rule {
        made_by: &[("textDocument/codeLens", "")],
        asked_by: &["codeLens/resolve"],
        keys: ["range", "data", "", ""],
        foreign: Foreign::Itself,
    },
    Rule {
        made_by: &[("textDocument/completion", "")],
        asked_by: &["completionItem/resolve"],
        keys: ["label", "data", "", ""],
        foreign: Foreign::Itself,
    },
    Rule {
        made_by: &[("textDocument/documentLink", "")],
        asked_by: &["documentLink/resolve"],
        keys: ["range", "data", "", ""],
        foreign: Foreign::Itself,
    },
    Rule {
        made_by: &[("textDocument/inlayHint", "")],
        asked_by: &["inlayHint/resolve"],
        keys: ["position", "data", "", ""],
        foreign: Foreign::Itself,
    },
    Rule {
        made_by: &[("workspace/symbol", "")],
        asked_by: &["workspaceSymbol/resolve"],
        keys: ["name", "data", "", ""],
        foreign: Foreign::Itself,
    },
    Rule {
        made_by: &[
            ("textDocument/prepareCallHierarchy", ""),
            ("callHierarchy/incomingCalls", "from"),
            ("callHierarchy/outgoingCalls", "to"),
        ],
        asked_by: &["callHierarchy/incomingCalls", "callHierarchy/outgoingCalls"],
        keys: ["name", "uri", "selectionRange", "data"],
        foreign: Foreign::Outdated,
    },
    Rule {
        made_by: &[
            ("textDocument/prepareTypeHierarchy", ""),
            ("typeHierarchy/subtypes", ""),
            ("typeHierarchy/supertypes", ""),
        ],
        asked_by: &["typeHierarchy/subtypes", "typeHierarchy/supertypes"],
        keys: ["name", "uri", "selectionRange", "data"],
        foreign: Foreign::Outdated,
    },
];

const CODE_ACTION: &str = "textDocument/codeAction";

/// The members that identify a diagnostic. An editor moves its range when the text changes.
const OF_DIAGNOSTIC: [&str; 3] = ["code", "message", "data"];

/// A number that is equal for equal diagnostics. `None`: it has no data.
fn hash_of_diagnostic(it: &[u8]) -> Option<u64> {
    let values = values(it, OF_DIAGNOSTIC);
    values[2].filter(|it| *it != b"null")?;
    let mut hasher = DefaultHasher::new();
    // Not the number of a rule.
    u8::MAX.hash(&mut hasher);
    for value in values {
        hash(&value.map_or(Value::Null, parsed), &mut hasher);
    }
    Some(hasher.finish())
}

impl Rule {
    /// The rule for a question about an item.
    pub(crate) fn of_question(method: &str) -> Option<&'static Rule> {
        // Most methods are not such questions.
        let may_be = method.ends_with("/resolve") || method.contains("Hierarchy/");
        if may_be { RULES.iter().find(|it| it.asked_by.contains(&method)) } else { None }
    }

    /// Whether a request is answered with items.
    pub(super) fn makes_items(method: &str) -> bool {
        Rule::of_answer(method).is_some()
    }

    fn of_answer(method: &str) -> Option<(&'static Rule, &'static str)> {
        RULES.iter().find_map(|it| {
            let (_, place) = it.made_by.iter().find(|(name, _)| *name == method)?;
            Some((it, *place))
        })
    }

    fn number(&self) -> u8 {
        RULES.iter().position(|it| it.asked_by == self.asked_by).map_or(0, |it| u8::try_from(it).unwrap_or(0))
    }

    /// A number that is equal for equal items. `defaults` applies to missing members.
    fn hash(&self, item: &[u8], defaults: Option<&[u8]>) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.number().hash(&mut hasher);
        for (key, value) in self.keys.iter().zip(values(item, self.keys)) {
            let value = value.or_else(|| defaults.filter(|_| *key == "data"));
            hash(&value.map_or(Value::Null, parsed), &mut hasher);
        }
        hasher.finish()
    }
}

/// An editor may write a value in another form than the server.
fn parsed(raw: &[u8]) -> Value {
    serde_json::from_slice(raw).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(raw).into_owned()))
}

fn hash(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(it) => (1_u8, it).hash(hasher),
        // `1.0` equals `1`.
        Value::Number(it) => (2_u8, it.as_f64().unwrap_or_default().to_bits()).hash(hasher),
        Value::String(it) => (3_u8, it).hash(hasher),
        Value::Array(all) => {
            (4_u8, all.len()).hash(hasher);
            for it in all {
                hash(it, hasher);
            }
        }
        Value::Object(all) => {
            (5_u8, all.len()).hash(hasher);
            let mut all: Vec<_> = all.iter().collect();
            all.sort_unstable_by_key(|it| it.0);
            for (key, it) in all {
                key.hash(hasher);
                hash(it, hasher);
            }
        }
    }
}

/// The items of a process.
#[derive(Debug, Default)]
pub(crate) struct Items {
    newer: BTreeSet<u64>,
    older: BTreeSet<u64>,
}

impl Items {
    pub(crate) fn clear(&mut self) {
        *self = Items::default();
    }

    /// The process has answered a request with this result, or with this part of it.
    pub(crate) fn note(&mut self, asked: &Frame, result: &[u8]) {
        match asked.method() {
            Some("textDocument/diagnostic") => {
                self.note_diagnostics(result, "items");
                let [related] = values(result, ["relatedDocuments"]);
                for (_, range) in related.into_iter().flat_map(members) {
                    self.note_diagnostics(&related.unwrap_or_default()[range], "items");
                }
            }
            Some("workspace/diagnostic") => {
                let list = values(result, ["items"])[0].unwrap_or(b"[]");
                for it in elements(list) {
                    self.note_diagnostics(&list[it], "items");
                }
            }
            _ => {}
        }
        let Some((rule, place)) = asked.method().and_then(Rule::of_answer) else { return };
        let [list, defaults] = values(result, ["items", "itemDefaults"]);
        let defaults = defaults.and_then(|it| Some(&it[member(it, "data")?]));
        let list = list.unwrap_or(result);
        for range in elements(list) {
            let element = &list[range];
            let item = match place {
                "" => element,
                place => member(element, place).map_or(element, |it| &element[it]),
            };
            self.newer.insert(rule.hash(item, defaults));
        }
        self.forget_oldest();
    }

    /// The process has published, or answered with, the diagnostics in this member.
    pub(crate) fn note_diagnostics(&mut self, of: &[u8], key: &str) {
        let Some(list) = member(of, key).map(|it| &of[it]) else { return };
        self.newer.extend(elements(list).filter_map(|it| hash_of_diagnostic(&list[it])));
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        if self.newer.len() > MOST {
            self.older = std::mem::take(&mut self.newer);
        }
    }

    /// Removes the data of foreign diagnostics from a request, if it has any.
    pub(crate) fn without_foreign_data(&self, request: &Frame) -> Option<Frame> {
        let params = request.params().filter(|_| request.method() == Some(CODE_ACTION))?;
        let list = &params[path(params, &["context", "diagnostics"])?];
        let is_foreign = |it: &[u8]| hash_of_diagnostic(it).is_some_and(|it| !self.has(it));
        if !elements(list).any(|it| is_foreign(&list[it])) {
            return None;
        }
        let each = elements(list).map(|it| match is_foreign(&list[it.clone()]) {
            true => Patch::of(&list[it]).remove("data").finish(),
            false => list[it].to_vec(),
        });
        let each: Vec<Vec<u8>> = each.collect();
        let list = [b"[".as_slice(), &each.join(b",".as_slice()), b"]"].concat();
        Some(request.with_params(&Patch::of(params).set_path(&["context", "diagnostics"], &list).finish()))
    }

    fn has(&self, hash: u64) -> bool {
        self.newer.contains(&hash) || self.older.contains(&hash)
    }

    /// Whether the process has made the item in these parameters.
    pub(crate) fn have(&self, rule: &Rule, params: &[u8]) -> bool {
        let item = match rule.foreign {
            Foreign::Itself => params,
            Foreign::Outdated => member(params, "item").map_or(params, |it| &params[it]),
        };
        self.has(rule.hash(item, None))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rpc::RawId;

    fn request(method: &str, params: &Value) -> Frame {
        Frame::request(RawId::from(1), method, Some(params.to_string().as_bytes()))
    }

    fn made(items: &mut Items, method: &str, params: &Value, result: &Value) {
        items.note(&request(method, params), result.to_string().as_bytes());
    }

    fn have(items: &Items, method: &str, params: &str) -> bool {
        items.have(Rule::of_question(method).unwrap(), params.as_bytes())
    }

    #[test]
    fn items_are_known_however_they_are_written() {
        let mut items = Items::default();
        let item = json!({"label": "l", "data": {"a": 1, "b": [2]}, "detail": "d"});
        made(&mut items, "textDocument/completion", &json!({}), &json!([item]));
        let resolve = "completionItem/resolve";
        assert!(have(&items, resolve, r#"{"data":{"b":[2.0],"a":1},"label":"\u006c","more":{}}"#));
        assert!(!have(&items, resolve, r#"{"data":{"b":[2],"a":2},"label":"l"}"#));
        assert!(!have(&items, resolve, r#"{"data":{"b":[2],"a":1},"label":"other"}"#));
        assert!(!have(&items, "codeLens/resolve", r#"{"label":"l","data":{"a":1,"b":[2]}}"#));
        items.clear();
        assert!(!have(&items, resolve, &item.to_string()));
    }

    #[test]
    fn items_get_the_defaults_of_their_list() {
        let mut items = Items::default();
        let list = json!({"isIncomplete": false, "itemDefaults": {"data": 7}, "items": [{"label": "l"}]});
        made(&mut items, "textDocument/completion", &json!({}), &list);
        assert!(have(&items, "completionItem/resolve", r#"{"label":"l","data":7}"#));
        assert!(!have(&items, "completionItem/resolve", r#"{"label":"l"}"#));
    }

    #[test]
    fn hierarchies_are_made_of_items_too() {
        let mut items = Items::default();
        let item = |name: &str| json!({"name": name, "uri": "u", "selectionRange": {}, "data": 1});
        made(&mut items, "textDocument/prepareCallHierarchy", &json!({}), &json!([item("f")]));
        made(&mut items, "callHierarchy/incomingCalls", &json!({}), &json!([{"from": item("g")}]));
        for (name, known) in [("f", true), ("g", true), ("h", false)] {
            let params = json!({"item": item(name)}).to_string();
            assert_eq!(have(&items, "callHierarchy/outgoingCalls", &params), known);
            assert!(!have(&items, "typeHierarchy/subtypes", &params));
        }
    }

    #[test]
    fn questions_for_actions_omit_data_of_foreign_diagnostics() {
        let mut items = Items::default();
        let one = |n: u32| json!({"message": "m", "range": {"start": n}, "data": {"n": n}});
        let ask = |all: &Value| request(CODE_ACTION, &json!({"context": {"diagnostics": all, "only": []}}));
        let told = |items: &Items, all: &Value| -> Option<Value> {
            let frame = items.without_foreign_data(&ask(all))?;
            let params: Value = serde_json::from_slice(frame.params()?).unwrap();
            assert_eq!(params["context"]["only"], json!([]));
            Some(params["context"]["diagnostics"].clone())
        };
        let bare = json!({"message": "m", "range": {"start": 2}});
        assert_eq!(
            told(&items, &json!([one(1), bare])).unwrap(),
            json!([{"message": "m", "range": {"start": 1}}, bare])
        );
        assert_eq!(told(&items, &json!([bare])), None);
        let published = json!({"uri": "u", "diagnostics": [one(1)]});
        items.note_diagnostics(published.to_string().as_bytes(), "diagnostics");
        made(
            &mut items,
            "textDocument/diagnostic",
            &json!({}),
            &json!({"items": [one(2)], "relatedDocuments": {"v": {"items": [one(3)]}}}),
        );
        made(&mut items, "workspace/diagnostic", &json!({}), &json!({"items": [{"items": [one(4)]}]}));
        let moved = json!({"range": {"start": 9}, "data": {"n": 1.0}, "message": "m"});
        assert_eq!(told(&items, &json!([moved, one(2), one(3), one(4)])), None);
        assert_eq!(told(&items, &json!([one(1), one(5)])).unwrap()[1]["data"], Value::Null);
    }

    #[test]
    fn old_items_are_forgotten_at_last() {
        let mut items = Items::default();
        let lens = |n: usize| json!({"range": {}, "data": n});
        let all: Vec<Value> = (0..MOST).map(lens).collect();
        made(&mut items, "textDocument/codeLens", &json!({}), &json!(all));
        made(&mut items, "textDocument/codeLens", &json!({}), &json!([lens(MOST)]));
        assert!(have(&items, "codeLens/resolve", &lens(0).to_string()));
        let all: Vec<Value> = (MOST..=2 * MOST).map(lens).collect();
        made(&mut items, "textDocument/codeLens", &json!({}), &json!(all));
        assert!(!have(&items, "codeLens/resolve", &lens(0).to_string()));
        assert!(have(&items, "codeLens/resolve", &lens(MOST).to_string()));
    }
}
