use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::core::mux::merge::methods::methods;

fn of(capabilities: &Value) -> Abilities {
    Abilities::of_result(json!({"capabilities": capabilities}).to_string().as_bytes())
}

fn can(it: &Abilities, name: &str, params: &Value) -> bool {
    let params = params.to_string().into_bytes();
    it.can(method(name).expect("it is in the table"), &params, &TextDocument::of(&params))
}

fn can_in(it: &Abilities, name: &str, uri: &str, language: Option<&str>) -> bool {
    can(it, name, &json!({"textDocument": {"uri": uri, "languageId": language}}))
}

fn register(it: &mut Abilities, id: &str, method: &str, options: &Value) {
    let one = json!({"id": id, "method": method, "registerOptions": options});
    it.register(json!({"registrations": [one]}).to_string().as_bytes());
}

fn unregister(it: &mut Abilities, id: &str, method: &str) {
    let one = json!({"id": id, "method": method});
    it.unregister(json!({"unregisterations": [one]}).to_string().as_bytes());
}

fn limited(it: &mut Abilities, only: Option<&[&str]>, except: &[&str]) {
    let list = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    it.limit(Limit::new(only.map(list).as_deref(), &list(except)));
}

fn wants(it: &Abilities, method: &str, params: &Value) -> bool {
    let params = params.to_string().into_bytes();
    it.wants_notification(method, &params, &TextDocument::of(&params))
}

#[test]
fn absent_null_and_false_are_no_and_an_object_is_yes() {
    let hover = method("textDocument/hover").unwrap();
    for (value, expected) in [
        (json!({}), true),
        (json!(true), true),
        (json!({"workDoneProgress": false}), true),
        (json!("of a shape that nobody knows"), true),
        (json!(false), false),
        (Value::Null, false),
    ] {
        assert_eq!(of(&json!({"hoverProvider": value})).has(hover), expected, "{value}");
    }
    assert!(!of(&json!({})).has(hover));
    for broken in [&b""[..], b"null", b"[]", b"{}", br#"{"capabilities":7}"#, b"{\"capabilities\":{"] {
        assert!(methods().all(|it| !Abilities::of_result(broken).has(it)));
    }
}

#[test]
fn requests_need_their_options() {
    let needs = |method, without: &Value, with: &Value| {
        assert!(!can(&of(without), method, &json!({})), "{method}");
        assert!(can(&of(with), method, &json!({})), "{method}");
    };
    let resolve = |key: &str| (json!({key: {}}), json!({key: {"resolveProvider": true}}));
    for (method, key) in [
        ("codeAction/resolve", "codeActionProvider"),
        ("codeLens/resolve", "codeLensProvider"),
        ("completionItem/resolve", "completionProvider"),
        ("documentLink/resolve", "documentLinkProvider"),
        ("inlayHint/resolve", "inlayHintProvider"),
        ("workspaceSymbol/resolve", "workspaceSymbolProvider"),
    ] {
        let (without, with) = resolve(key);
        needs(method, &without, &with);
    }
    let tokens = |options: Value| json!({"semanticTokensProvider": options});
    needs("textDocument/semanticTokens/full", &tokens(json!({"range": true})), &tokens(json!({"full": {}})));
    needs("textDocument/semanticTokens/range", &tokens(json!({"full": true})), &tokens(json!({"range": {}})));
    let delta = tokens(json!({"full": {"delta": true}}));
    needs("textDocument/semanticTokens/full/delta", &tokens(json!({"full": true})), &delta);
    let rename = |options: Value| json!({"renameProvider": options});
    needs("textDocument/prepareRename", &rename(json!(true)), &rename(json!({"prepareProvider": true})));
    let workspace = json!({"diagnosticProvider": {"workspaceDiagnostics": true}});
    needs("workspace/diagnostic", &json!({"diagnosticProvider": {"identifier": "ty"}}), &workspace);
    needs(
        "textDocument/rangesFormatting",
        &json!({"documentRangeFormattingProvider": true}),
        &json!({"documentRangeFormattingProvider": {"rangesSupport": true}}),
    );
}

#[test]
fn typed_character_asks_those_that_have_it() {
    let it = of(&json!({
        "completionProvider": {"triggerCharacters": ["."]},
        "signatureHelpProvider": {"triggerCharacters": ["("], "retriggerCharacters": [","]},
        "documentOnTypeFormattingProvider": {"firstTriggerCharacter": "}", "moreTriggerCharacter": [";"]},
    }));
    let typed = |c: &str| json!({"context": {"triggerKind": 2, "triggerCharacter": c}});
    assert!(can(&it, "textDocument/completion", &typed(".")));
    assert!(!can(&it, "textDocument/completion", &typed(":")));
    for context in [json!({}), json!({"context": {"triggerKind": 1}}), json!({"context": {"triggerKind": 3}})]
    {
        assert!(can(&it, "textDocument/completion", &context), "{context}");
    }
    assert!(can(&it, "textDocument/signatureHelp", &typed("(")));
    assert!(!can(&it, "textDocument/signatureHelp", &typed(",")));
    let again = json!({"context": {"triggerKind": 2, "triggerCharacter": ",", "isRetrigger": true}});
    assert!(can(&it, "textDocument/signatureHelp", &again));
    for (ch, expected) in [("}", true), (";", true), ("x", false)] {
        assert_eq!(can(&it, "textDocument/onTypeFormatting", &json!({"ch": ch})), expected, "{ch}");
    }
}

#[test]
fn code_actions_are_asked_by_kind() {
    let only = |kinds: &[&str]| json!({"context": {"only": kinds}});
    let some = of(&json!({"codeActionProvider": {"codeActionKinds": ["quickfix", "source.fixAll"]}}));
    for (kinds, expected) in [
        (&[][..], true),
        (&["quickfix"], true),
        (&["quickfix.unused"], true),
        (&["source"], true),
        (&["source.organizeImports"], false),
        (&["source.organizeImports", "source.fixAll"], true),
        (&["quickfixes"], false),
    ] {
        assert_eq!(can(&some, "textDocument/codeAction", &only(kinds)), expected, "{kinds:?}");
    }
    let any = of(&json!({"codeActionProvider": true}));
    assert!(can(&any, "textDocument/codeAction", &only(&["refactor"])));
    assert!(can(&some, "textDocument/codeAction", &json!({"context": {"diagnostics": []}})));
}

#[test]
fn file_operations_are_asked_by_their_filters() {
    let filters = json!({"filters": [
        {"scheme": "file", "pattern": {"glob": "**/*.{py,pyi}", "matches": "file"}},
        {"pattern": {"glob": "**/TESTS/**", "options": {"ignoreCase": true}}},
    ]});
    let it = of(&json!({"workspace": {"fileOperations": {"willRename": filters, "didDelete": filters}}}));
    let renamed = |uri: &str| json!({"files": [{"oldUri": uri, "newUri": "file:///b.txt"}]});
    for (uri, expected) in [
        ("file:///a/b%20c.py", true),
        ("file:///a.pyi", true),
        ("file:///a.js", false),
        ("untitled:a.py", false),
        ("file:///x/tests/a.js", true),
        ("file:///x/tests/", false),
    ] {
        assert_eq!(can(&it, "workspace/willRenameFiles", &renamed(uri)), expected, "{uri}");
        let deleted = json!({"files": [{"uri": uri}]});
        assert_eq!(wants(&it, "workspace/didDeleteFiles", &deleted), expected, "{uri}");
    }
    assert!(!can(&it, "workspace/willCreateFiles", &renamed("file:///a.py")));
    assert!(!wants(&it, "workspace/didCreateFiles", &json!({"files": [{"uri": "file:///a.py"}]})));
    let both = json!({"files": [{"uri": "file:///a.js"}, {"uri": "file:///a.py"}], "x": 1});
    let Portion::Some(cut) = it.operated("workspace/didDeleteFiles", both.to_string().as_bytes()) else {
        panic!("one of two");
    };
    assert_eq!(json::read::<Value>(&cut).unwrap(), json!({"files": [{"uri": "file:///a.py"}], "x": 1}));
}

#[test]
fn registrations_come_and_go() {
    let mut it = of(&json!({}));
    let hover = method("textDocument/hover").unwrap();
    register(&mut it, "1", "textDocument/hover", &json!(null));
    register(&mut it, "2", "textDocument/hover", &json!({"documentSelector": [{"language": "css"}]}));
    assert!(it.has(hover));
    unregister(&mut it, "1", "textDocument/formatting");
    unregister(&mut it, "3", "textDocument/hover");
    assert!(can_in(&it, "textDocument/hover", "file:///a", Some("html")));
    unregister(&mut it, "1", "textDocument/hover");
    assert!(!can_in(&it, "textDocument/hover", "file:///a", Some("html")));
    assert!(can_in(&it, "textDocument/hover", "file:///a", Some("css")));
    unregister(&mut it, "2", "textDocument/hover");
    assert!(!it.has(hover));

    let mut it = of(&json!({"colorProvider": {"id": "static"}}));
    unregister(&mut it, "static", "textDocument/documentColor");
    assert!(!can(&it, "textDocument/documentColor", &json!({})));
    assert!(!can(&it, "textDocument/colorPresentation", &json!({})));
}

#[test]
fn repeated_registration_takes_the_place_of_the_old_one() {
    let mut it = of(&json!({}));
    register(&mut it, "1", "workspace/executeCommand", &json!({"commands": ["a"]}));
    register(&mut it, "1", "workspace/executeCommand", &json!({"commands": ["b"]}));
    register(&mut it, "2", "workspace/executeCommand", &json!({"commands": ["c"]}));
    assert_eq!(it.commands(), ["b", "c"]);
}

#[test]
fn families_of_requests_are_registered_by_one_name() {
    let mut it = of(&json!({}));
    register(&mut it, "1", "textDocument/semanticTokens", &json!({"full": {"delta": true}}));
    register(&mut it, "2", "textDocument/prepareCallHierarchy", &json!({}));
    register(&mut it, "3", "textDocument/documentColor", &json!({}));
    for method in [
        "textDocument/semanticTokens/full",
        "textDocument/semanticTokens/full/delta",
        "callHierarchy/outgoingCalls",
        "textDocument/colorPresentation",
    ] {
        assert!(can(&it, method, &json!({})), "{method}");
    }
    assert!(!can(&it, "textDocument/semanticTokens/range", &json!({})));
}

#[test]
fn selectors_choose_documents() {
    let fits = |selector: Value, uri: &str, language: Option<&str>| {
        let mut it = of(&json!({}));
        register(&mut it, "1", "textDocument/hover", &json!({"documentSelector": selector}));
        can_in(&it, "textDocument/hover", uri, language)
    };
    let python = json!([{"language": "python", "scheme": "file"}]);
    assert!(fits(python.clone(), "file:///a.py", Some("python")));
    assert!(fits(python.clone(), "file:///a.py", None), "what is not known is no reason");
    assert!(!fits(python.clone(), "file:///a.py", Some("rust")));
    assert!(!fits(python, "untitled:1", Some("python")));
    let pattern = json!([{"pattern": "**/*.{html,vue}"}, "css"]);
    assert!(fits(pattern.clone(), "file:///x/a%2Eb.vue", Some("vue")));
    assert!(fits(pattern.clone(), "file:///x/a.b", Some("css")));
    assert!(!fits(pattern, "file:///x/a.ts", Some("typescript")));
    assert!(!fits(json!([]), "file:///a", Some("x")));
    assert!(fits(Value::Null, "file:///a", Some("x")));
    let relative = json!([{"pattern": {"baseUri": "file:///x", "pattern": "*"}}]);
    assert!(fits(relative, "file:///a", Some("x")), "not known to us: whoever registered it decides");
    assert!(fits(json!([{"pattern": "{".repeat(10_000)}]), "file:///a", Some("x")));
    assert!(fits(json!([{"pattern": "[a"}, 7]), "file:///b", Some("x")));
}

#[test]
fn watchers_choose_changes() {
    let mut it = of(&json!({}));
    let created = Some(FileChange::Created);
    assert_eq!(it.watches("file:///a.py", created), None);
    register(
        &mut it,
        "1",
        "workspace/didChangeWatchedFiles",
        &json!({"watchers": [
            {"globPattern": "**/*.py", "kind": 1},
            {"globPattern": {"baseUri": "file:///p%5Bx%5D", "pattern": "*.toml"}},
            {"globPattern": {"baseUri": {"uri": "file:///folder", "name": "n"}, "pattern": "**/*.cfg"}, "kind": 4},
        ]}),
    );
    for (uri, change, expected) in [
        ("file:///a.py", FileChange::Created, true),
        ("file:///a.py", FileChange::Changed, false),
        ("file:///p%5Bx%5D/a.toml", FileChange::Changed, true),
        ("file:///p%5Bx%5D/b/a.toml", FileChange::Changed, false),
        ("file:///px/a.toml", FileChange::Changed, false),
        ("file:///folder/b/a.cfg", FileChange::Deleted, true),
        ("file:///folder/b/a.cfg", FileChange::Created, false),
    ] {
        assert_eq!(it.watches(uri, Some(change)), Some(expected), "{uri} {change:?}");
    }
    let changes = |types: &[u64]| {
        let change = |kind: &u64| json!({"uri": "file:///a.py", "type": kind});
        json!({"changes": types.iter().map(change).collect::<Vec<_>>()}).to_string().into_bytes()
    };
    assert_eq!(it.watched(&changes(&[1, 1])), Some(Portion::Whole));
    assert_eq!(it.watched(&changes(&[2, 3])), Some(Portion::Nothing));
    assert_eq!(it.watched(&changes(&[2, 1])), Some(Portion::Some(changes(&[1]))));
    // One that cannot be read wants everything.
    register(&mut it, "2", "workspace/didChangeWatchedFiles", &json!({"watchers": [{"globPattern": 7}]}));
    assert_eq!(it.watches("file:///z", Some(FileChange::Deleted)), Some(true));
    unregister(&mut it, "2", "workspace/didChangeWatchedFiles");
    unregister(&mut it, "1", "workspace/didChangeWatchedFiles");
    assert_eq!(it.watched(&changes(&[1])), None);
}

#[test]
fn documents_are_told_as_a_server_takes_them() {
    let sync = |told: Value| of(&json!({"textDocumentSync": told})).sync();
    let whole = sync(json!(1));
    assert_eq!(
        (whole.open_close, whole.change, whole.save),
        (true, SyncKind::Full, Some(IncludeText::Without))
    );
    assert_eq!(sync(json!(2)).change, SyncKind::Incremental);
    assert_eq!((sync(json!(0)), sync(Value::Null)), (Sync::default(), Sync::default()));
    let all = json!({
        "openClose": true, "change": 2, "willSave": true, "willSaveWaitUntil": true, "save": {"includeText": true},
    });
    let expected = Sync {
        open_close: true,
        change: SyncKind::Incremental,
        will_save: true,
        will_save_wait_until: true,
        save: Some(IncludeText::With),
    };
    assert_eq!(sync(all), expected);
    assert_eq!(sync(json!({"save": {}})).save, Some(IncludeText::Without));
    assert_eq!(sync(json!({"save": false, "change": 1})).save, None);
    assert_eq!(sync(json!({"save": [], "change": 9})).change, SyncKind::Full, "whole texts are always right");

    let mut it = of(&json!({}));
    register(&mut it, "1", "textDocument/didChange", &json!({"syncKind": 1, "documentSelector": null}));
    register(&mut it, "2", "textDocument/didSave", &json!({"documentSelector": [{"language": "css"}]}));
    assert_eq!((it.sync().change, it.sync().save), (SyncKind::Full, Some(IncludeText::Without)));
    let saved = |language: &str| {
        wants(&it, "textDocument/didSave", &json!({"textDocument": {"languageId": language}}))
    };
    assert!(saved("css") && !saved("html"));
    assert!(!wants(&it, "textDocument/willSave", &json!({})));
}

#[test]
fn notifications_go_to_those_that_asked() {
    let nobody = of(&json!({}));
    for method in [
        "notebookDocument/didChange",
        "notebookDocument/didClose",
        "notebookDocument/didOpen",
        "notebookDocument/didSave",
        "textDocument/didChange",
        "textDocument/didClose",
        "textDocument/didOpen",
        "textDocument/didSave",
        "textDocument/willSave",
        "workspace/didChangeWorkspaceFolders",
        "workspace/didCreateFiles",
        "workspace/didDeleteFiles",
        "workspace/didRenameFiles",
    ] {
        assert!(!wants(&nobody, method, &json!({"files": [{"uri": "file:///a"}]})), "{method}");
    }
    for method in
        ["$/setTrace", "workspace/didChangeConfiguration", "workspace/didChangeWatchedFiles", "own/x"]
    {
        assert!(wants(&nobody, method, &json!({"changes": []})), "{method}");
    }
    let folders =
        |told: Value| of(&json!({"workspace": {"workspaceFolders": {"changeNotifications": told}}}));
    let told = |it: &Abilities| wants(it, "workspace/didChangeWorkspaceFolders", &json!({}));
    assert!(told(&folders(json!(true))) && !told(&folders(json!(false))));
    let mut by_id = folders(json!("an id"));
    assert!(told(&by_id));
    unregister(&mut by_id, "an id", "workspace/didChangeWorkspaceFolders");
    assert!(!told(&by_id));
}

#[test]
fn notebooks_are_told_by_selector() {
    let it = of(&json!({"notebookDocumentSync": {"notebookSelector": [
        {"notebook": {"notebookType": "jupyter-notebook", "scheme": "file"}, "cells": [{"language": "python"}]},
        {"cells": [{"language": "sql"}]},
    ]}}));
    let opened = |kind: &str, uri: &str, language: &str| {
        let cells = json!([{"uri": "x:1", "languageId": language}]);
        json!({"notebookDocument": {"uri": uri, "notebookType": kind}, "cellTextDocuments": cells})
    };
    for (kind, uri, language, expected) in [
        ("jupyter-notebook", "file:///a.ipynb", "python", true),
        ("jupyter-notebook", "file:///a.ipynb", "r", false),
        ("jupyter-notebook", "untitled:a", "python", false),
        ("other", "untitled:a", "sql", true),
    ] {
        assert_eq!(
            wants(&it, "notebookDocument/didOpen", &opened(kind, uri, language)),
            expected,
            "{kind} {uri}"
        );
    }
    let changed = json!({"notebookDocument": {"uri": "file:///a.ipynb", "version": 2}});
    assert!(wants(&it, "notebookDocument/didChange", &changed));
    assert!(!wants(&it, "notebookDocument/didSave", &changed), "it has not asked for that");
    let saves = of(&json!({"notebookDocumentSync": {"notebookSelector": [{"notebook": "*"}], "save": true}}));
    assert!(wants(&saves, "notebookDocument/didSave", &changed));
}

#[test]
fn limits_take_features_away() {
    let all = json!({
        "hoverProvider": true, "completionProvider": {}, "codeActionProvider": true, "diagnosticProvider": {},
        "executeCommandProvider": {"commands": ["a"]},
        "workspace": {"fileOperations": {"didCreate": {"filters": [{"pattern": {"glob": "**"}}]}}},
    });
    let mut it = of(&all);
    limited(&mut it, None, &["hover", "diagnostics", "workspace-command", "workspace/didCreateFiles"]);
    assert!(!can(&it, "textDocument/hover", &json!({})) && can(&it, "textDocument/completion", &json!({})));
    assert!(!can(&it, "textDocument/diagnostic", &json!({})) && !it.publishes());
    assert!(it.commands().is_empty());
    assert!(!wants(&it, "workspace/didCreateFiles", &json!({"files": [{"uri": "file:///a"}]})));
    limited(&mut it, None, &["pull-diagnostics"]);
    assert!(!can(&it, "textDocument/diagnostic", &json!({})) && it.publishes());
    limited(&mut it, Some(&["hover"]), &[]);
    assert!(can(&it, "textDocument/hover", &json!({})) && !can(&it, "textDocument/completion", &json!({})));
    assert!(!it.publishes());
    limited(&mut it, Some(&["hover"]), &["hover"]);
    assert!(!can(&it, "textDocument/hover", &json!({})));
    register(&mut it, "1", "textDocument/hover", &json!({}));
    assert!(!can(&it, "textDocument/hover", &json!({})), "it holds for registrations, too");
    limited(&mut it, None, &[]);
    assert_eq!(it.commands(), ["a"]);
}

#[test]
fn limits_take_kinds_of_code_actions_away() {
    let only = |kind: &str| json!({"context": {"only": [kind]}});
    let asks = |it: &Abilities, params: &Value| can(it, "textDocument/codeAction", params);
    let mut it = of(&json!({"codeActionProvider": true}));
    limited(&mut it, None, &["code-action:source.organizeImports"]);
    assert!(!asks(&it, &only("source.organizeImports")) && !asks(&it, &only("source.organizeImports.ruff")));
    assert!(asks(&it, &only("source")) && asks(&it, &json!({})));
    assert!(!it.allows_kind(Some("source.organizeImports.ruff")) && it.allows_kind(None));
    limited(&mut it, Some(&["code-action:quickfix"]), &[]);
    assert!(asks(&it, &only("quickfix.x")) && !asks(&it, &only("refactor")) && asks(&it, &json!({})));
    assert!(it.allows_kind(Some("quickfix")) && !it.allows_kind(Some("quickfixes")) && !it.allows_kind(None));
    assert!(!can(&it, "textDocument/hover", &json!({})));
    limited(&mut it, Some(&["code-action:quickfix", "code-action"]), &[]);
    assert!(asks(&it, &only("refactor")));
}

#[test]
fn encoding_and_commit_characters_are_known() {
    let it =
        of(&json!({"positionEncoding": "utf-8", "completionProvider": {"allCommitCharacters": [";", "."]}}));
    assert_eq!((it.encoding(), it.commit_characters()), ("utf-8", Some(&br#"[";","."]"#[..])));
    let it = of(&json!({"completionProvider": {"allCommitCharacters": null}}));
    assert_eq!((it.encoding(), it.commit_characters()), ("utf-16", None));
}

/// Values as no server should write them.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(7)),
        Just(json!(-1.5)),
        Just(json!("x")),
        Just(json!([null, {}, [1], "y"])),
        Just(json!({"id": 1, "change": "2", "filters": {}, "legend": [], "triggerCharacters": {"a": 1}})),
        Just(json!({"notebookSelector": [{"notebook": 3}], "schemes": "s", "commands": [1, "c"]})),
        Just(
            json!({"filters": [null, {"pattern": 1}], "full": "x", "codeActionKinds": [[]], "documentSelector": 5})
        ),
    ]
}

proptest! {
    #[test]
    fn odd_capability_loses_no_other(at in 0..capabilities::ALL.len(), value in odd()) {
        let one = &capabilities::ALL[at];
        let others = || capabilities::ALL.iter().filter(|it| it.server[0] != one.server[0]);
        let mut told = json!({});
        for it in others() {
            put(&mut told, it.server, json!({}));
        }
        put(&mut told, one.server, value);
        let it = of(&told);
        for other in others() {
            for method in methods().filter(|it| it.capability == other && it.option.is_empty()) {
                prop_assert!(it.has(method), "{} is lost", method.name);
            }
        }
    }

    #[test]
    fn nothing_panics(value in odd(), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut told = json!({});
        for it in capabilities::ALL {
            put(&mut told, it.server, value.clone());
        }
        let registrations: Vec<Value> = capabilities::ALL
            .iter()
            .map(|it| json!({"id": "1", "method": it.registered, "registerOptions": value}))
            .collect();
        let params = json!({"capabilities": told, "registrations": registrations, "files": value,
            "context": value, "changes": [value], "textDocument": value, "notebookDocument": value});
        let whole = params.to_string().into_bytes();
        let mut broken = whole.clone();
        let at = cut.index(whole.len());
        broken[at] = byte;
        for text in [&whole[..], &broken, &whole[..at]] {
            let mut it = Abilities::of_result(text);
            it.register(text);
            let document = TextDocument::of(text);
            for method in methods() {
                it.can(method, text, &document);
            }
            for notification in ["textDocument/didSave", "notebookDocument/didOpen", "workspace/didCreateFiles"] {
                it.wants_notification(notification, text, &document);
            }
            it.watched(text);
            it.watches("x", None);
            it.unregister(text);
        }
    }
}

/// Sets a member of nested objects.
fn put(value: &mut Value, path: &[&str], inner: Value) {
    match path {
        [] => *value = inner,
        [key, rest @ ..] => {
            if !value.is_object() {
                *value = json!({});
            }
            put(&mut value[*key], rest, inner);
        }
    }
}
