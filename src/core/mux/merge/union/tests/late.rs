//! What is added to what the editor has been told.

use super::*;

fn come(told: &Value, editor: &Value, own: &Value) -> (Option<Value>, Vec<String>) {
    let bytes = |it: &Value| to_json(&json!({"capabilities": it}));
    let late = super::super::late(&bytes(told), &bytes(editor), "ruff", (None, &bytes(own)));
    (late.register.map(|it| json::read(&it).unwrap()), late.missing)
}

/// Methods and options of registrations.
fn asked(params: Option<Value>) -> Vec<(String, Value)> {
    let params = params.unwrap_or(json!({"registrations": []}));
    let one = |it: &Value| (it["method"].as_str().unwrap().to_owned(), it["registerOptions"].clone());
    params["registrations"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn late_member_registers_what_the_editor_can_take() {
    let editor = json!({"textDocument": {
        "hover": {"dynamicRegistration": true},
        "completion": {"dynamicRegistration": false},
        "rangeFormatting": {},
        "synchronization": {"dynamicRegistration": true},
    }, "workspace": {"workspaceFolders": true}});
    let own = json!({
        "hoverProvider": {"workDoneProgress": true, "id": "own"},
        "completionProvider": {"triggerCharacters": ["."]},
        "documentFormattingProvider": true,
        "documentRangeFormattingProvider": true,
        "definitionProvider": true,
        "referencesProvider": false,
        "textDocumentSync": {"openClose": true, "change": 1, "save": {"includeText": true}},
        "workspace": {"workspaceFolders": {"changeNotifications": "id"}},
        "callHierarchyProvider": {},
    });
    let told = json!({"definitionProvider": true, "textDocumentSync": 2});
    let (register, missing) = come(&told, &editor, &own);
    assert_eq!(
        asked(register.clone()),
        [
            ("workspace/didChangeWorkspaceFolders".to_owned(), json!({})),
            ("textDocument/hover".to_owned(), json!({"workDoneProgress": true, "documentSelector": null})),
        ]
    );
    assert_eq!(missing, ["call hierarchy", "completion", "format"]);
    let register = register.unwrap();
    let ids: BTreeSet<String> =
        register["registrations"].as_array().unwrap().iter().map(|it| it["id"].to_string()).collect();
    assert_eq!(ids.len(), 2);

    let (register, missing) = come(
        &json!({}),
        &editor,
        &json!({"textDocumentSync": {
            "openClose": true, "change": 1, "save": {"includeText": true}, "willSave": false,
        }}),
    );
    let expected = [
        ("textDocument/didOpen", json!({"documentSelector": null})),
        ("textDocument/didClose", json!({"documentSelector": null})),
        ("textDocument/didChange", json!({"syncKind": 1, "documentSelector": null})),
        ("textDocument/didSave", json!({"includeText": true, "documentSelector": null})),
    ];
    assert_eq!(asked(register), expected.map(|(method, options)| (method.to_owned(), options)));
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn late_member_adds_nothing_to_what_is_told() {
    let editor = json!({"textDocument": {
        "completion": {"dynamicRegistration": true}, "diagnostic": {"dynamicRegistration": true},
    }, "workspace": {
        "executeCommand": {"dynamicRegistration": true}, "fileOperations": {"dynamicRegistration": true},
    }});
    let filter = |glob: &str| json!({"pattern": {"glob": glob}});
    let operations = |filters: Value| json!({"fileOperations": {"willRename": {"filters": filters}}});
    let told = json!({
        "completionProvider": {"triggerCharacters": ["."]},
        "diagnosticProvider": {},
        "executeCommandProvider": {"commands": ["x", "y"]},
        "workspace": operations(json!([filter("*.a")])),
    });
    let own = json!({
        "completionProvider": {"triggerCharacters": [":"]},
        "diagnosticProvider": {"identifier": "Ruff"},
        "executeCommandProvider": {"commands": ["y", "z"]},
        "workspace": operations(json!([filter("*.a"), filter("*.b")])),
    });
    let (register, missing) = come(&told, &editor, &own);
    assert_eq!(
        asked(register),
        [
            ("textDocument/diagnostic".to_owned(), json!({"identifier": "Ruff", "documentSelector": null})),
            ("workspace/executeCommand".to_owned(), json!({"commands": ["y@ruff", "z"]})),
            ("workspace/willRenameFiles".to_owned(), json!({"filters": [filter("*.b")]})),
        ]
    );
    assert_eq!(missing, Vec::<String>::new());
    assert_eq!(
        come(&told, &editor, &told).0.map(|it| asked(Some(it)).len()),
        Some(2),
        "diagnostics, commands"
    );
    assert_eq!(come(&told, &json!({}), &own), (None, Vec::new()));
}

#[test]
fn features_are_told_in_words() {
    let mut own = json!({});
    for it in capabilities::ALL {
        put(&mut own, it.server, json!({}));
    }
    let (_, missing) = come(&json!({}), &json!({}), &own);
    for words in ["goto definition", "semantic tokens", "call hierarchy", "will rename files", "inlay hints"]
    {
        assert!(missing.iter().any(|it| it == words), "{words} of {missing:?}");
    }
    assert!(missing.iter().all(|it| it.chars().all(|c| c.is_lowercase() || c == ' ')), "{missing:?}");
}

fn added(told: &Value, method: &str, options: &Value) -> Addition {
    let one = to_json(&json!({"id": "1", "method": method, "registerOptions": options}));
    addition(&to_json(&json!({"capabilities": told})), &one)
}

#[test]
fn registration_of_what_was_told_is_for_routing_alone() {
    let told = json!({"hoverProvider": true, "completionProvider": {"triggerCharacters": ["."]}});
    let shared = |options: &Value| Addition::Shared(options.clone());
    for (method, options, expected) in [
        ("textDocument/hover", json!({}), Addition::Known),
        ("textDocument/completion", json!({"triggerCharacters": [":"]}), Addition::Known),
        ("textDocument/formatting", json!({}), shared(&json!({}))),
        ("textDocument/diagnostic", json!({"identifier": "x"}), Addition::New),
        ("textDocument/diagnostic", json!({}), shared(&json!({}))),
        ("workspace/didChangeWatchedFiles", json!({"watchers": []}), Addition::New),
        ("workspace/didChangeConfiguration", json!({}), Addition::New),
        ("workspace/executeCommand", json!({"commands": ["x", 5]}), Addition::Commands(vec!["x".to_owned()])),
        ("own/thing", json!({}), Addition::New),
    ] {
        assert_eq!(added(&told, method, &options), expected, "{method}");
    }
    let named = json!({"diagnosticProvider": {"identifier": "a"}});
    assert_eq!(
        added(&named, "textDocument/diagnostic", &json!({})),
        shared(&json!({})),
        "that is asked alone"
    );
    let plain = json!({"diagnosticProvider": {}});
    assert_eq!(added(&plain, "textDocument/diagnostic", &json!({})), Addition::Known);
    let filter = |glob: &str| json!({"pattern": {"glob": glob}});
    let told = json!({"workspace": {"fileOperations": {"didCreate": {"filters": [filter("a")]}}}});
    let create = "workspace/didCreateFiles";
    let both = json!({"filters": [filter("a"), filter("b")]});
    assert_eq!(added(&told, create, &both), shared(&json!({"filters": [filter("b")]})));
    assert_eq!(added(&told, create, &json!({"filters": [filter("a")]})), Addition::Known);
}

#[test]
fn shared_registration_has_what_all_say() {
    let completion = |all: &[Value]| shared("textDocument/completion", &all.iter().collect::<Vec<_>>());
    let one = json!({"triggerCharacters": ["."], "allCommitCharacters": [","], "documentSelector": null});
    assert_eq!(completion(std::slice::from_ref(&one)), one);
    let other = json!({"triggerCharacters": [":", "."], "resolveProvider": true});
    assert_eq!(completion(&[one, other]), json!({"triggerCharacters": [".", ":"], "resolveProvider": true}));
    let of = |language: &str| json!({"documentSelector": [{"language": language}]});
    let both = json!({"documentSelector": [{"language": "a"}, {"language": "b"}]});
    assert_eq!(shared("textDocument/hover", &[&of("a"), &of("b")]), both);
    assert_eq!(shared("textDocument/hover", &[&Value::Null, &Value::Null]), json!({}));
}
