//! Items in answers that the editor asks about later: completions, lenses, hints, links, actions, symbols, and the
//! items of call and type hierarchies.
//!
//! An item contains data for the process that made it. Another process would take the data for its own, because it
//! numbers its answers like the dead one. So a successor gets only questions about its own items.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use serde_json::Value;

use crate::rpc::{Frame, elements, member, values};

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
        if self.newer.len() > MOST {
            self.older = std::mem::take(&mut self.newer);
        }
    }

    /// Whether the process has made the item in these parameters.
    pub(crate) fn have(&self, rule: &Rule, params: &[u8]) -> bool {
        let item = match rule.foreign {
            Foreign::Itself => params,
            Foreign::Outdated => member(params, "item").map_or(params, |it| &params[it]),
        };
        let hash = rule.hash(item, None);
        self.newer.contains(&hash) || self.older.contains(&hash)
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
