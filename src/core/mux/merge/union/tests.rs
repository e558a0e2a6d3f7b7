//! Each row of the union: what several members say of a capability, and that their order matters only where a rank
//! decides.

mod late;
mod offer;

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::core::mux::merge::{
    abilities::{Abilities, Limit},
    capabilities::{Capability, Options, at, flag, strings},
    methods::methods,
};

/// What the editor is told if members have these capabilities, in rank order.
fn told(members: &[Value]) -> Value {
    let results: Vec<Vec<u8>> = members.iter().map(|it| to_json(&json!({"capabilities": it}))).collect();
    let names = ["a", "b", "c", "d"];
    let all: Vec<(&str, &[u8])> = names.into_iter().zip(results.iter().map(|it| &it[..])).collect();
    let united: Value = json::read(&union(&all)).expect("it is JSON");
    united["capabilities"].clone()
}

/// Two to four members that say these things of one capability, and what the editor is told of it.
fn told_of(capability: &Capability, values: &[Value]) -> Option<Value> {
    let members: Vec<Value> = values.iter().map(|it| with(capability.server, it.clone())).collect();
    at(&told(&members), capability.server).cloned()
}

fn with(path: &[&str], value: Value) -> Value {
    path.iter().rfold(value, |inner, key| json!({*key: inner}))
}

fn yes_of(values: &[Value]) -> Vec<&Value> {
    yes(values.iter())
}

fn any_has(values: &[Value], path: &[&str]) -> bool {
    values.iter().any(|it| flag(it, path))
}

fn set(value: &Value, key: &str) -> BTreeSet<String> {
    strings(value, key).unwrap_or_default().into_iter().collect()
}

fn sets(values: &[Value], key: &str) -> BTreeSet<String> {
    values.iter().flat_map(|it| set(it, key)).collect()
}

/// No, in each way that there is; yes without options; and yes with some of these.
fn says(options: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
    let plain = select(vec![json!(false), Value::Null, json!({}), json!(true)]);
    prop_oneof![1 => plain, 2 => options]
}

fn members(options: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Vec<Value>> {
    vec(says(options), 2..=4)
}

/// An object with some of these members.
fn some(pairs: Vec<(&'static str, Vec<Value>)>) -> impl Strategy<Value = Value> {
    let one = |(key, values): (&'static str, Vec<Value>)| {
        proptest::option::of(select(values)).prop_map(move |it| it.map(|it| (key.to_owned(), it)))
    };
    let all: Vec<_> = pairs.into_iter().map(one).collect();
    all.prop_map(|it| Value::Object(it.into_iter().flatten().collect()))
}

fn flags() -> Vec<Value> {
    vec![json!(true), json!(false)]
}

fn letters() -> Vec<Value> {
    vec![json!([]), json!(["a"]), json!(["b", "a"]), json!(["c", 7, "c"])]
}

/// Lists whose order is that of the ranks, in one order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(all) => {
            let mut all: Vec<Value> = all.iter().map(sorted).collect();
            all.sort_by_key(Value::to_string);
            Value::Array(all)
        }
        Value::Object(all) => {
            let mut pairs: Vec<(String, Value)> =
                all.iter().map(|(key, it)| (key.clone(), sorted(it))).collect();
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(pairs.into_iter().collect())
        }
        other => other.clone(),
    }
}

/// Whether all say the same in another order, but for these members.
fn has_no_order(capability: &Capability, values: &[Value], by_rank: &[&str]) -> bool {
    let plain = |values: &[Value]| {
        let mut told = told_of(capability, values);
        if let Some(Value::Object(told)) = &mut told {
            told.retain(|key, _| !by_rank.contains(&key.as_str()));
        }
        told.as_ref().map(sorted)
    };
    let mut other = values.to_vec();
    other.reverse();
    let mut third = values.to_vec();
    third.rotate_left(1);
    plain(values) == plain(&other) && plain(values) == plain(&third)
}

/// Who says yes: what the editor is told of it, if there is more than one.
fn several(capability: &Capability, values: &[Value]) -> Result<Option<Value>, TestCaseError> {
    let told = told_of(capability, values);
    match &yes_of(values)[..] {
        [] => {
            prop_assert_eq!(told, None);
            Ok(None)
        }
        [only] => {
            prop_assert_eq!(told.as_ref(), Some(*only), "alone it stays as it is");
            Ok(None)
        }
        _ => {
            let told = told.expect("two can");
            prop_assert!(is_yes(&told));
            Ok(Some(told))
        }
    }
}

proptest! {
    #[test]
    fn completion_unites_characters_and_flags(values in members(some(vec![
        ("triggerCharacters", letters()),
        ("allCommitCharacters", letters()),
        ("resolveProvider", flags()),
        ("completionItem", vec![json!({}), json!({"labelDetailsSupport": true})]),
    ]))) {
        let it = &capabilities::COMPLETION;
        prop_assert!(has_no_order(it, &values, &[]));
        if let Some(told) = several(it, &values)? {
            prop_assert_eq!(set(&told, "triggerCharacters"), sets(&values, "triggerCharacters"));
            prop_assert_eq!(flag(&told, &["resolveProvider"]), any_has(&values, &["resolveProvider"]));
            let details = &["completionItem", "labelDetailsSupport"];
            prop_assert_eq!(flag(&told, details), any_has(&values, details));
            prop_assert!(told.get("allCommitCharacters").is_none());
        }
    }

    #[test]
    fn signature_help_unites_both_lists(values in members(some(vec![
        ("triggerCharacters", letters()),
        ("retriggerCharacters", letters()),
    ]))) {
        let it = &capabilities::SIGNATURE_HELP;
        prop_assert!(has_no_order(it, &values, &[]));
        if let Some(told) = several(it, &values)? {
            for key in ["triggerCharacters", "retriggerCharacters"] {
                prop_assert_eq!(set(&told, key), sets(&values, key));
            }
        }
    }

    #[test]
    fn code_action_names_kinds_if_all_do(values in members(some(vec![
        ("codeActionKinds", letters()),
        ("resolveProvider", flags()),
    ]))) {
        let it = &capabilities::CODE_ACTION;
        prop_assert!(has_no_order(it, &values, &[]));
        if let Some(told) = several(it, &values)? {
            let key = "codeActionKinds";
            let all_do = yes_of(&values).iter().all(|it| !set(it, key).is_empty());
            let expected = if all_do { sets(&values, key) } else { BTreeSet::new() };
            prop_assert_eq!(set(&told, key), expected);
            prop_assert_eq!(flag(&told, &["resolveProvider"]), any_has(&values, &["resolveProvider"]));
        }
    }

    #[test]
    fn flags_are_told_if_one_has_them(
        (at, key) in select(vec![
            (capabilities::CODE_LENS, "resolveProvider"),
            (capabilities::DOCUMENT_LINK, "resolveProvider"),
            (capabilities::INLAY_HINT, "resolveProvider"),
            (capabilities::WORKSPACE_SYMBOL, "resolveProvider"),
            (capabilities::RENAME, "prepareProvider"),
            (capabilities::RANGE_FORMATTING, "rangesSupport"),
            (capabilities::HOVER, "workDoneProgress"),
        ]),
        values in vec(select(vec![0, 1, 2, 3, 4, 5]), 2..=4),
    ) {
        let value = |it: &usize| match it {
            0 => json!({}),
            1 => json!(true),
            2 => json!(false),
            3 => Value::Null,
            4 => json!({key: false}),
            _ => json!({key: true}),
        };
        let values: Vec<Value> = values.iter().map(value).collect();
        prop_assert!(has_no_order(&at, &values, &[]));
        if let Some(told) = several(&at, &values)? {
            prop_assert_eq!(flag(&told, &[key]), any_has(&values, &[key]));
        }
    }

    #[test]
    fn formatting_on_type_keeps_all_characters(values in members(some(vec![
        ("firstTriggerCharacter", vec![json!("}"), json!(";")]),
        ("moreTriggerCharacter", letters()),
    ]))) {
        let it = &capabilities::ON_TYPE_FORMATTING;
        prop_assert!(has_no_order(it, &values, &["firstTriggerCharacter", "moreTriggerCharacter"]));
        if let Some(told) = several(it, &values)? {
            let first = |it: &Value| it["firstTriggerCharacter"].as_str().map(str::to_owned);
            let mut all = sets(&values, "moreTriggerCharacter");
            all.extend(values.iter().filter_map(first));
            let mut of_told = set(&told, "moreTriggerCharacter");
            of_told.extend(first(&told));
            prop_assert_eq!(of_told, all);
            if let Some(best) = yes_of(&values).first().and_then(|it| first(it)) {
                prop_assert_eq!(first(&told), Some(best));
            }
        }
    }

    #[test]
    fn commands_are_told_once_each(values in members(some(vec![("commands", letters())]))) {
        let it = &capabilities::EXECUTE_COMMAND;
        if let Some(told) = several(it, &values)? {
            let names = strings(&told, "commands").unwrap();
            let plain: BTreeSet<String> = names.iter().filter(|it| !it.contains('@')).cloned().collect();
            prop_assert_eq!(&plain, &sets(&values, "commands"));
            let offers: usize = values.iter().map(|it| set(it, "commands").len()).sum();
            prop_assert_eq!(names.len(), offers, "each of each member has a name");
            prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), offers);
        }
    }

    #[test]
    fn semantic_tokens_have_one_legend(values in members(some(vec![
        ("legend", vec![
            json!({"tokenTypes": ["x", "y"], "tokenModifiers": ["m"]}),
            json!({"tokenTypes": ["y", "z"], "tokenModifiers": ["n", "m"]}),
        ]),
        ("full", vec![json!(true), json!({}), json!({"delta": true}), json!(false)]),
        ("range", vec![json!(true), json!({}), json!(false)]),
    ]))) {
        let it = &capabilities::SEMANTIC_TOKENS;
        prop_assert!(has_no_order(it, &values, &[]));
        if let Some(told) = several(it, &values)? {
            for key in ["tokenTypes", "tokenModifiers"] {
                let legends: Vec<Value> = values.iter().filter_map(|it| it.get("legend")).cloned().collect();
                prop_assert_eq!(set(&told["legend"], key), sets(&legends, key));
            }
            prop_assert_eq!(told.get("full").cloned(), any_has(&values, &["full"]).then(|| json!(true)), "without delta");
            let all_have = yes_of(&values).iter().all(|it| flag(it, &["range"]));
            prop_assert_eq!(flag(&told, &["range"]), all_have);
        }
    }

    #[test]
    fn diagnostics_of_several_have_no_identifier(values in members(some(vec![
        ("identifier", vec![json!("x"), json!("y")]),
        ("interFileDependencies", flags()),
        ("workspaceDiagnostics", flags()),
    ]))) {
        let it = &capabilities::DIAGNOSTIC;
        prop_assert!(has_no_order(it, &values, &[]));
        if let Some(told) = several(it, &values)? {
            prop_assert!(told.get("identifier").is_none());
            for key in ["interFileDependencies", "workspaceDiagnostics"] {
                prop_assert_eq!(&told[key], &json!(any_has(&values, &[key])), "it must be there");
            }
        }
    }

    #[test]
    fn file_operations_have_all_filters(
        at in select(capabilities::ALL.iter().filter(|it| it.options == Options::Files).collect::<Vec<_>>()),
        values in members(some(vec![("filters", vec![
            json!([{"pattern": {"glob": "**/*.a"}}]),
            json!([{"pattern": {"glob": "**/*.b"}}, {"pattern": {"glob": "**/*.a"}}]),
        ])])),
    ) {
        prop_assert!(has_no_order(at, &values, &[]));
        if let Some(told) = several(at, &values)? {
            let filters = |it: &Value| -> BTreeSet<String> {
                it.get("filters").and_then(Value::as_array).into_iter().flatten().map(Value::to_string).collect()
            };
            prop_assert_eq!(filters(&told), values.iter().flat_map(filters).collect::<BTreeSet<_>>());
        }
    }

    #[test]
    fn folders_are_supported_if_one_wants_them(values in members(some(vec![
        ("supported", flags()),
        ("changeNotifications", vec![json!(true), json!(false), json!("id")]),
    ]))) {
        let members: Vec<Value> =
            values.iter().map(|it| with(&["workspace", "workspaceFolders"], it.clone())).collect();
        let told = told(&members);
        for key in ["supported", "changeNotifications"] {
            prop_assert_eq!(flag(&told, &["workspace", "workspaceFolders", key]), any_has(&values, &[key]));
        }
        let ids = values.iter().filter(|it| flag(it, &["changeNotifications"])).count();
        if ids > 1 {
            prop_assert_eq!(&told["workspace"]["workspaceFolders"]["changeNotifications"], &json!(true));
        }
    }

    #[test]
    fn schemes_and_notebooks_are_those_of_all(
        schemes in members(some(vec![("schemes", letters())])),
        notebooks in members(some(vec![
            ("notebookSelector", vec![json!([{"notebook": "x"}]), json!([{"notebook": "y"}, {"notebook": "x"}])]),
            ("save", flags()),
        ])),
    ) {
        prop_assert!(has_no_order(&capabilities::TEXT_DOCUMENT_CONTENT, &schemes, &[]));
        if let Some(told) = several(&capabilities::TEXT_DOCUMENT_CONTENT, &schemes)? {
            prop_assert_eq!(set(&told, "schemes"), sets(&schemes, "schemes"));
        }
        prop_assert!(has_no_order(&capabilities::NOTEBOOKS, &notebooks, &[]));
        if let Some(told) = several(&capabilities::NOTEBOOKS, &notebooks)? {
            prop_assert_eq!(flag(&told, &["save"]), any_has(&notebooks, &["save"]));
            let all = |it: &Value| -> BTreeSet<String> {
                let list = it.get("notebookSelector").and_then(Value::as_array);
                list.into_iter().flatten().map(Value::to_string).collect()
            };
            prop_assert_eq!(all(&told), notebooks.iter().flat_map(all).collect::<BTreeSet<_>>());
        }
    }

    #[test]
    fn documents_are_told_as_the_most_demanding_wants(values in vec(prop_oneof![
        select(vec![json!(0), json!(1), json!(2), Value::Null]),
        some(vec![
            ("openClose", flags()),
            ("change", vec![json!(0), json!(1), json!(2)]),
            ("willSave", flags()),
            ("willSaveWaitUntil", flags()),
            ("save", vec![json!(true), json!(false), json!({}), json!({"includeText": true})]),
        ]),
    ], 2..=4)) {
        let of = |told: &Value| Abilities::of_result(&to_json(&json!({"capabilities": told}))).sync();
        let members: Vec<Value> = values.iter().map(|it| with(&["textDocumentSync"], it.clone())).collect();
        let expected = members.iter().map(of).reduce(Sync::or).unwrap();
        prop_assert_eq!(of(&told(&members)), expected);
        let mut other = members.clone();
        other.reverse();
        prop_assert_eq!(of(&told(&other)), expected);
    }

    /// The union can what one member can, for each capability, whatever the members say of the others.
    #[test]
    fn union_can_what_a_member_can(members in vec(anything(), 2..=4)) {
        let of = |it: &Value| Abilities::of_result(&to_json(&json!({"capabilities": it})));
        let united = of(&told(&members));
        let with_tokens = members.iter().filter(|it| flag(it, capabilities::SEMANTIC_TOKENS.server)).count();
        let members: Vec<Abilities> = members.iter().map(of).collect();
        for it in methods() {
            let able = members.iter().filter(|member| member.has(it)).count();
            let expected = match it.name {
                "textDocument/semanticTokens/full/delta" => able == 1 && with_tokens == 1,
                "textDocument/semanticTokens/range" => able > 0 && able == with_tokens,
                _ => able > 0,
            };
            prop_assert_eq!(united.has(it), expected, "{}", it.name);
        }
    }

    #[test]
    fn union_never_panics(value in anything(), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let whole = to_json(&json!({"capabilities": value, "serverInfo": value}));
        let at = cut.index(whole.len());
        let mut broken = whole.clone();
        broken[at] = byte;
        let limit = Limit::new(Some(&["hover".to_owned(), "code-action:x".to_owned()]), &[]);
        for text in [&whole[..], &broken, &whole[..at]] {
            let members = [("a", text), ("b", &whole[..])];
            let united = union(&members);
            prop_assert!(json::read::<Value>(&united).is_ok());
            legends(&united, members.map(|it| it.1));
            narrow(text, &limit);
            super::late(&united, text, "c", (None, text));
            super::late(text, &whole, "c", (Some(text), &whole));
            addition(text, text);
            super::offer(text, "a", Some(&value));
        }
    }
}

/// Some capabilities, as servers say them and as none should.
fn anything() -> impl Strategy<Value = Value> {
    let value = select(vec![
        json!(true),
        json!(false),
        json!({}),
        Value::Null,
        json!({"full": {"delta": true}, "legend": {"tokenTypes": ["t"]}, "workspaceDiagnostics": true}),
        json!({"resolveProvider": true, "prepareProvider": true, "rangesSupport": true}),
        json!({"commands": ["c"], "schemes": ["s"], "filters": [{"pattern": {"glob": "*"}}]}),
        json!("odd"),
        json!([1, {"a": 2}]),
    ]);
    let all = vec(proptest::option::of(value), capabilities::ALL.len());
    all.prop_map(|values| {
        let mut told = json!({});
        for (it, value) in capabilities::ALL.iter().zip(values) {
            if let Some(value) = value {
                put(&mut told, it.server, value);
            }
        }
        told
    })
}

fn put(value: &mut Value, path: &[&str], inner: Value) {
    match path {
        [] => *value = inner,
        [key, rest @ ..] => put(&mut value[*key], rest, inner),
    }
}

#[test]
fn other_providers_keep_the_options_of_the_best_rank() {
    let told = told(&[
        json!({"documentSymbolProvider": true, "hoverProvider": false}),
        json!({"documentSymbolProvider": {"label": "b", "id": "1"}, "hoverProvider": {}}),
        json!({"documentSymbolProvider": {"label": "c", "workDoneProgress": true}, "hoverProvider": true}),
    ]);
    assert_eq!(told["documentSymbolProvider"], json!({"label": "b", "workDoneProgress": true}));
    assert_eq!(told["hoverProvider"], json!(true));
    assert_eq!(told["positionEncoding"], json!("utf-16"));
}

#[test]
fn selectors_are_told_if_all_have_them() {
    let css = json!([{"language": "css"}]);
    let html = json!([{"language": "html"}]);
    let hover = |selectors: [&Value; 2]| {
        told(&selectors.map(|it| json!({"hoverProvider": {"documentSelector": it}})))["hoverProvider"].clone()
    };
    assert_eq!(
        hover([&css, &html]),
        json!({"documentSelector": [{"language": "css"}, {"language": "html"}]})
    );
    assert_eq!(hover([&css, &Value::Null]), json!({}));
}

#[test]
fn unknown_keys_are_of_the_best_rank() {
    let told = told(&[
        json!({"experimental": {"x": false, "y": 1}, "ownProvider": false, "z": {"a": 1}}),
        json!({"experimental": {"x": true, "y": 2, "z": 3}, "ownProvider": {"b": 1}, "z": {"b": 2}}),
        json!({"experimental": "odd", "other": false}),
    ]);
    assert_eq!(told["experimental"], json!({"x": true, "y": 1, "z": 3}));
    assert_eq!(told["ownProvider"], json!({"b": 1}));
    assert_eq!((&told["z"], &told["other"]), (&json!({"a": 1}), &json!(false)));
}

#[test]
fn servers_are_named_by_rank() {
    let a =
        br#"{"capabilities":{},"serverInfo":{"name":"A","version":"1"},"own":1,"offsetEncoding":"utf-8"}"#;
    let b = br#"{"capabilities":{},"own":2}"#;
    let c = br#"{"capabilities":{},"serverInfo":{"name":"C","version":"2.0"}}"#;
    let told: Value = json::read(&union(&[("a", a), ("b", b), ("c", c)])).unwrap();
    assert_eq!(told["serverInfo"], json!({"name": "A+b+C", "version": "1,2.0"}));
    assert_eq!((&told["own"], told.get("offsetEncoding")), (&json!(1), None));
    assert_eq!(union(&[("a", a)]), a, "alone it stays as it is");
}

#[test]
fn commands_that_several_have_are_named_after_their_server() {
    let own = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (a, b, c) = (own(&["x", "y", "y"]), own(&["y", "z"]), own(&["y", "y@b"]));
    let all = commands([("a", &a[..]), ("b", &b), ("c", &c)]);
    let told: Vec<_> = all.iter().map(|it| (it.told.as_str(), it.member, it.own.as_str())).collect();
    let expected =
        [("x", 0, "x"), ("y", 0, "y"), ("y@b", 1, "y"), ("z", 1, "z"), ("y@c", 2, "y"), ("y@b@c", 2, "y@b")];
    assert_eq!(told, expected);
}

#[test]
fn legends_are_told_if_several_have_tokens() {
    let with = |types: &[&str], modifiers: &[&str]| {
        let legend = json!({"tokenTypes": types, "tokenModifiers": modifiers});
        to_json(&json!({"capabilities": {"semanticTokensProvider": {"legend": legend, "full": true}}}))
    };
    let (a, b) = (with(&["x", "y"], &["m"]), with(&["y", "z"], &["n", "m"]));
    let none = br#"{"capabilities":{}}"#;
    let legends_of = |members: &[(&str, &[u8])]| legends(&union(members), members.iter().map(|it| it.1));
    assert_eq!(legends_of(&[("a", &a), ("c", none)]), None);
    assert!(legends(&a, [&b[..]]).is_some(), "the editor was told another one");
    let all = legends_of(&[("a", &a), ("c", none), ("b", &b)]).unwrap();
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    assert_eq!(text(&all.united), r#"{"tokenTypes":["x","y","z"],"tokenModifiers":["m","n"]}"#);
    let own = all.members.iter().map(|it| it.as_deref().map(text)).collect::<Vec<_>>();
    let expected = |it: &str| Some(it.to_owned());
    assert_eq!(
        own,
        [
            expected(r#"{"tokenTypes":["x","y"],"tokenModifiers":["m"]}"#),
            None,
            expected(r#"{"tokenTypes":["y","z"],"tokenModifiers":["n","m"]}"#),
        ]
    );
    let many: Vec<String> = (0..40).map(|it| it.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let all = legends_of(&[("a", &a), ("b", &with(&[], &many))]).unwrap();
    let united: Value = json::read(&all.united).unwrap();
    assert_eq!(united["tokenModifiers"].as_array().unwrap().len(), 31, "there is no bit for more");
}

#[test]
fn limits_take_capabilities_away() {
    let list = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let result = to_json(&json!({"capabilities": {
        "hoverProvider": true,
        "diagnosticProvider": {},
        "codeActionProvider": {"codeActionKinds": ["quickfix", "source.organizeImports"]},
        "semanticTokensProvider": {"full": true},
        "textDocumentSync": {"change": 2, "willSaveWaitUntil": true},
        "workspace": {"fileOperations": {"didCreate": {}, "willCreate": {}}},
        "own": 1,
    }, "serverInfo": {"name": "x"}}));
    let narrowed = |only: Option<&[&str]>, except: &[&str]| -> Value {
        let limit = Limit::new(only.map(list).as_deref(), &list(except));
        json::read(&narrow(&result, &limit)).unwrap()
    };
    assert_eq!(narrow(&result, &Limit::default()), result);
    let except = [
        "diagnostics",
        "textDocument/semanticTokens/*",
        "code-action:source.organizeImports",
        "textDocument/willSaveWaitUntil",
        "workspace/didCreateFiles",
    ];
    let expected = json!({"capabilities": {
        "hoverProvider": true,
        "codeActionProvider": {"codeActionKinds": ["quickfix"]},
        "textDocumentSync": {"change": 2},
        "workspace": {"fileOperations": {"willCreate": {}}},
        "own": 1,
    }, "serverInfo": {"name": "x"}});
    assert_eq!(narrowed(None, &except), expected);
    let expected = json!({"capabilities": {
        "hoverProvider": true,
        "textDocumentSync": {"change": 2},
        "workspace": {"fileOperations": {}},
        "own": 1,
    }, "serverInfo": {"name": "x"}});
    assert_eq!(narrowed(Some(&["hover"]), &[]), expected);
}
