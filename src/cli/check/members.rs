//! What the members of a group can do, and who is asked where several can do the same.

use crate::{
    config::{Combine, ServerConfig},
    core::mux::merge::{
        abilities::{Abilities, Limit, SyncKind},
        methods::{Method, Plan, methods},
    },
    shell::discover::GroupPlan,
};

/// A member that has answered `initialize`.
#[derive(Debug)]
pub(super) struct Able {
    pub(super) name: String,
    abilities: Abilities,
}

impl Able {
    /// `result`: the answer. `limit`: what the configuration uses the member for.
    pub(super) fn new(name: &str, result: &[u8], limit: Limit) -> Able {
        let mut abilities = Abilities::of_result(result);
        abilities.limit(limit);
        Able { name: name.to_owned(), abilities }
    }

    /// What it does in the group, in two lines.
    pub(super) fn told(&self) -> Vec<String> {
        let changes = match self.abilities.sync().change {
            SyncKind::None => "no changes of documents",
            SyncKind::Full => "whole texts",
            SyncKind::Incremental => "incremental changes",
        };
        let features = unique(methods().filter(|it| self.abilities.has(it)).map(|it| it.feature));
        let features = if features.is_empty() { "nothing".to_owned() } else { features.join(", ") };
        let encoding = match self.abilities.encoding() {
            it @ ("utf-8" | "utf-32") => format!("{it}, which lspool converts"),
            it => it.to_owned(),
        };
        vec![format!("serves {features}"), format!("takes {changes}, counts in {encoding}")]
    }
}

/// What the configuration sends to a member, and what not.
pub(super) fn reach(server: &ServerConfig) -> Vec<String> {
    let documents = match (server.languages.as_slice(), server.files.as_slice()) {
        ([], []) => None,
        (languages, []) => Some(format!("of the languages {}", languages.join(", "))),
        ([], files) => Some(format!("that fit {}", files.join(", "))),
        (languages, files) => {
            Some(format!("of the languages {} that fit {}", languages.join(", "), files.join(", ")))
        }
    };
    let documents = documents.map(|it| format!("gets documents {it}"));
    let handles = (!server.handles.is_empty()).then(|| format!("alone gets {}", server.handles.join(", ")));
    documents.into_iter().chain(handles).collect()
}

/// Who is asked for each feature that several members have, a line each.
pub(super) fn clashes(members: &[Able], group: &GroupPlan) -> Vec<String> {
    let mut seen = Vec::new();
    let mut told = Vec::new();
    for method in methods().filter(|it| is_main(it) && it.feature != COMMANDS) {
        if !seen.contains(&method.feature) {
            seen.push(method.feature);
            told.extend(clash(method, members, group));
        }
    }
    told
}

/// Commands go to the member that offers them.
const COMMANDS: &str = "workspace-command";

/// Whether it is the method that a feature is about: others follow from it.
fn is_main(method: &Method) -> bool {
    method.name == method.capability.registered || method.name == "textDocument/semanticTokens/full"
}

fn clash(method: &Method, members: &[Able], group: &GroupPlan) -> Option<String> {
    let feature = method.feature;
    let first = group.order.get(feature).map_or(&[][..], Vec::as_slice);
    let able = members.iter().filter(|it| it.abilities.has(method));
    let mut able: Vec<&str> = able.map(|it| it.name.as_str()).collect();
    // Stable: those who are not named keep their rank.
    able.sort_by_key(|name| first.iter().position(|it| it == name).unwrap_or(first.len()));
    let [best, rest @ .., last] = able.as_slice() else { return None };
    let combine = group.combine.get(feature);
    let how = match (combine, method.plan) {
        (None, Plan::Own | Plan::Maker) => format!("asks {best}"),
        (Some(Combine::First), _) | (None, Plan::First) => {
            format!("takes the answer of {}", able.join(", else of "))
        }
        (Some(Combine::All), _) | (None, Plan::All(_)) => {
            let all: Vec<&str> = [*best].into_iter().chain(rest.iter().copied()).collect();
            format!("joins the answers of {} and {last}", all.join(", "))
        }
    };
    let wait = group.wait.get(feature);
    let how = how + &wait.map_or_else(String::new, |it| format!(", for which it waits {it:?}"));
    let named = [("order", !first.is_empty()), ("combine", combine.is_some()), ("wait", wait.is_some())];
    let keys: Vec<String> =
        named.iter().filter(|(_, is_set)| *is_set).map(|(key, _)| format!("{key}.{feature}")).collect();
    let why = if keys.is_empty() { String::new() } else { format!(" ({})", keys.join(", ")) };
    Some(format!("{feature}: lspool {how}{why}"))
}

/// Each once, in its order.
fn unique<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for it in all {
        if !seen.contains(&it) {
            seen.push(it);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn group_tells_who_is_asked() {
        let types = br#"{"capabilities":{"hoverProvider":true,"renameProvider":{"prepareProvider":true},"documentSymbolProvider":true,"textDocumentSync":2,"documentFormattingProvider":false}}"#;
        let linter = br#"{"capabilities":{"hoverProvider":{},"positionEncoding":"utf-8","textDocumentSync":{"openClose":true,"change":1},"documentFormattingProvider":true}}"#;
        let python = br#"{"capabilities":{"hoverProvider":true,"documentFormattingProvider":true,"documentSymbolProvider":true}}"#;
        let all = |names: [&str; 3], except: &[String]| {
            let of = |name: &str| match name {
                "types" => Able::new(name, types, Limit::default()),
                "linter" => Able::new(name, linter, Limit::new(None, except)),
                _ => Able::new(name, python, Limit::default()),
            };
            names.map(of)
        };
        let mut group = GroupPlan::of("g");
        group.order.insert("format".to_owned(), vec!["linter".to_owned()]);
        let members = all(["types", "python", "linter"], &[]);
        let told = clashes(&members, &group).join("\n");
        expect![[r"
            document-symbols: lspool takes the answer of types, else of python
            format: lspool asks linter (order.format)
            hover: lspool joins the answers of types, python and linter"]]
        .assert_eq(&told);
        let lines: Vec<String> = members.iter().flat_map(Able::told).collect();
        expect![[r"
            serves document-symbols, hover, rename-symbol
            takes incremental changes, counts in utf-16
            serves document-symbols, format, hover
            takes no changes of documents, counts in utf-16
            serves format, hover
            takes whole texts, counts in utf-8, which lspool converts"]]
        .assert_eq(&lines.join("\n"));
        let members = all(["python", "linter", "types"], &["hover".to_owned(), "format".to_owned()]);
        let mut group = GroupPlan::of("g");
        group.combine.insert("document-symbols".to_owned(), Combine::All);
        group.combine.insert("hover".to_owned(), Combine::First);
        group.wait.insert("hover".to_owned(), std::time::Duration::from_millis(200));
        let told = clashes(&members, &group).join("\n");
        expect![[r"
            document-symbols: lspool joins the answers of python and types (combine.document-symbols)
            hover: lspool takes the answer of python, else of types, for which it waits 200ms (combine.hover, wait.hover)"]]
        .assert_eq(&told);
    }
}
