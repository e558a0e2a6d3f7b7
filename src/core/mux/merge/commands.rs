//! Commands of several members: what the editor calls them, and whose they are.
//!
//! Of a name that several members offer, the best rank keeps it. The others' are `NAME@SERVER`, in the capabilities and in
//! the items that they make. A name that no member offers belongs to the member that has last made an item with it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use memchr::memmem;

use super::{
    abilities::Abilities,
    group::Group,
    union::{self, Command},
};
use crate::{
    core::{event::ServerId, mux::requests::Pending},
    rpc::{Frame, Patch, RawId, elements, member, text},
};

/// By member: its commands that have another name at the editor.
#[derive(Debug, Default)]
pub(super) struct Renamed(BTreeMap<ServerId, BTreeMap<String, String>>);

impl Group {
    fn all_commands(&self) -> Vec<(ServerId, Command)> {
        let able: Vec<_> =
            self.members().iter().filter_map(|it| Some((it, it.abilities.as_ref()?))).collect();
        let told =
            union::commands(able.iter().map(|(it, abilities)| (it.name.as_str(), abilities.commands())));
        told.into_iter().map(|it| (able[it.member].0.server, it)).collect()
    }

    /// Whose command this is, and what that member calls it.
    pub(super) fn command(&self, told: &str) -> Option<(ServerId, String)> {
        let found = self.all_commands().into_iter().find(|(_, it)| it.told == told);
        found.map(|(server, it)| (server, it.own))
    }

    /// What the editor calls a command of a member.
    pub(super) fn told_command<'a>(&'a self, server: ServerId, own: &'a str) -> &'a str {
        self.renamed.0.get(&server).and_then(|it| it.get(own)).map_or(own, String::as_str)
    }

    /// Members offer other commands than before.
    pub(super) fn note_commands(&mut self) {
        let mut renamed = Renamed::default();
        for (server, Command { told, own, .. }) in self.all_commands() {
            if told != own {
                renamed.0.entry(server).or_default().insert(own, told);
            }
        }
        self.renamed = renamed;
    }

    /// Whether an answer of this member to such a request may not reach the editor as it is: what it streams would.
    pub(super) fn changes_answers(&self, server: ServerId, method: &str) -> bool {
        let has_kinds = || self.abilities(server).is_some_and(Abilities::has_kinds);
        // What a report says is remembered.
        method == "textDocument/diagnostic"
            || METHODS.contains(&method) && self.renamed.0.contains_key(&server)
            || method == "textDocument/codeAction" && has_kinds()
    }

    /// Notes who has made items with commands that no member offers.
    pub(super) fn note_makers(&mut self, server: ServerId, method: &str, answer: &Frame) {
        let is_maker = METHODS.contains(&method);
        let result = answer.result().filter(|it| is_maker && memmem::find(it, b"\"command\"").is_some());
        let names = RefCell::new(BTreeSet::new());
        let note = |own: &str| {
            names.borrow_mut().insert(own.to_owned());
            None
        };
        drop(result.map(|it| told_in_answer(method, it, &note)));
        for name in names.into_inner() {
            if self.command(&name).is_none() {
                self.known.note_command(&name, server);
            }
        }
    }

    /// An answer with the commands in its items as the editor calls them. `None`: as it is.
    pub(super) fn with_told_commands(
        &self,
        server: Option<ServerId>,
        pending: &Pending,
        answer: &Frame,
    ) -> Option<Frame> {
        let renamed = self.renamed.0.get(&server?)?;
        let told = |own: &str| renamed.get(own).map(String::as_str);
        let result = told_in_answer(pending.frame.method()?, answer.result()?, &told)?;
        Some(answer.with_result(&result))
    }
}

/// Requests whose answers have commands.
const METHODS: [&str; 9] = [
    "codeAction/resolve",
    "codeLens/resolve",
    "completionItem/resolve",
    "inlayHint/resolve",
    "textDocument/codeAction",
    "textDocument/codeLens",
    "textDocument/completion",
    "textDocument/inlayHint",
    "textDocument/inlineCompletion",
];

type Told<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

fn told_in_answer(method: &str, result: &[u8], told: Told<'_>) -> Option<Vec<u8>> {
    match method {
        "textDocument/codeAction" | "textDocument/codeLens" | "textDocument/inlineCompletion"
            if result.starts_with(b"[") =>
        {
            in_list(result, &|it| in_item(it, told))
        }
        "textDocument/completion" | "textDocument/inlineCompletion" if result.starts_with(b"{") => {
            in_member(result, "items", &|list| in_list(list, &|it| in_item(it, told)))
        }
        "textDocument/completion" => in_list(result, &|it| in_item(it, told)),
        "textDocument/inlayHint" => in_list(result, &|it| in_hint(it, told)),
        "inlayHint/resolve" => in_hint(result, told),
        "codeAction/resolve" | "codeLens/resolve" | "completionItem/resolve" => in_item(result, told),
        _ => None,
    }
}

/// An item is a `Command`, or has one.
fn in_item(item: &[u8], told: Told<'_>) -> Option<Vec<u8>> {
    match text(item, &["command"]) {
        Some(own) => Some(Patch::of(item).set("command", RawId::text(told(&own)?).as_bytes()).finish()),
        None => in_member(item, "command", &|it| in_item(it, told)),
    }
}

fn in_hint(hint: &[u8], told: Told<'_>) -> Option<Vec<u8>> {
    in_member(hint, "label", &|parts| in_list(parts, &|it| in_member(it, "command", &|it| in_item(it, told))))
}

type Change<'a> = &'a dyn Fn(&[u8]) -> Option<Vec<u8>>;

fn in_member(object: &[u8], key: &str, change: Change<'_>) -> Option<Vec<u8>> {
    let at = member(object, key)?;
    if !matches!(object[at.start], b'{' | b'[') {
        return None;
    }
    Some(Patch::of(object).set(key, &change(&object[at])?).finish())
}

fn in_list(list: &[u8], change: Change<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut copied = 0;
    for at in elements(list) {
        if let Some(changed) = change(&list[at.clone()]) {
            out.extend_from_slice(&list[copied..at.start]);
            out.extend_from_slice(&changed);
            copied = at.end;
        }
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&list[copied..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn commands_in_items_are_renamed_and_nothing_else() {
        let told = |method: &str, result: &Value| {
            let told = |own: &str| (own == "run").then_some("run@b");
            let changed = told_in_answer(method, result.to_string().as_bytes(), &told)?;
            Some(serde_json::from_slice::<Value>(&changed).unwrap())
        };
        let command = |name: &str| json!({"title": "t", "command": name, "arguments": ["run"]});
        let (own, renamed) = (command("run"), command("run@b"));
        let (item, done) = (json!({"x": 1, "command": own}), json!({"x": 1, "command": renamed}));
        for (method, before, after) in [
            ("textDocument/codeAction", json!([own, item, {"a": 1}]), json!([renamed, done, {"a": 1}])),
            ("textDocument/codeLens", json!([item]), json!([done])),
            ("textDocument/completion", json!([item]), json!([done])),
            ("textDocument/completion", json!({"items": [{}, item]}), json!({"items": [{}, done]})),
            ("textDocument/inlineCompletion", json!({"items": [item]}), json!({"items": [done]})),
            (
                "textDocument/inlayHint",
                json!([{"label": [item, {"value": "v"}]}]),
                json!([{"label": [done, {"value": "v"}]}]),
            ),
            ("inlayHint/resolve", json!({"label": [item]}), json!({"label": [done]})),
            ("codeAction/resolve", item.clone(), done.clone()),
        ] {
            assert_eq!(told(method, &before), Some(after), "{method}");
        }
        for (method, it) in [
            ("textDocument/codeAction", json!([command("other"), null, 5])),
            ("textDocument/codeAction", json!(null)),
            ("textDocument/inlayHint", json!([{"label": "run"}])),
            ("textDocument/hover", own),
        ] {
            assert_eq!(told(method, &it), None, "{method}");
        }
    }
}
