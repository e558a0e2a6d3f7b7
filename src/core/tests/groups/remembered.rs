//! Members that answer `initialize` too late, whose capabilities are known from an earlier start.

use super::*;

/// An editor that takes no registrations, and `b`, which has not answered within `start_wait`.
fn with_silent(before: &Value) -> (Stage, Value) {
    let mut it = group(&["a", "b"]);
    it.remembered.insert("b".to_owned(), json!({"capabilities": before, "serverInfo": {"name": "B"}}));
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &documents());
    assert!(it.take(EDITOR).is_empty(), "it is waited for all the same");
    it.pass(START_WAIT);
    let told = it.take(EDITOR);
    assert_eq!((told.len(), &told[0]["id"]), (1, &json!("i")), "{told:?}");
    it.editor(json!({"method": "initialized", "params": {}}));
    it.take(backend(A));
    let capabilities = told[0]["result"]["capabilities"].clone();
    (it, capabilities)
}

#[test]
fn late_member_is_used_for_what_it_could_do_before() {
    let able = json!({
        "textDocumentSync": 2, "documentFormattingProvider": true, "hoverProvider": true,
        "executeCommandProvider": {"commands": ["fix"]},
    });
    let (mut it, capabilities) = with_silent(&able);
    assert_eq!(capabilities["documentFormattingProvider"], true, "{capabilities}");
    assert_eq!(it.remembered["a"]["capabilities"], documents(), "news is remembered");
    // Only it can format: the request waits. Another one answers the hover, after a moment.
    ask(&mut it, 1, "textDocument/formatting", &at("u"));
    ask(&mut it, 2, "textDocument/hover", &at("u"));
    let hover = only(&mut it, A);
    answer(&mut it, A, &hover, &json!({"contents": "a"}));
    assert!(it.take(EDITOR).is_empty());
    it.pass(Duration::from_millis(501));
    let told = it.take(EDITOR);
    assert_eq!((told.len(), &told[0]["id"]), (1, &json!(2)), "{told:?}");
    it.pass(Duration::from_secs(5));
    let told = it.take(backend(B));
    it.server(B, json!({"id": told[0]["id"], "result": {"capabilities": able}}));
    let told = it.take(EDITOR);
    assert!(told.is_empty(), "nothing is new, and nothing is missing: {told:?}");
    let told = it.take(backend(B));
    let format = told.iter().find(|it| name(it) == "textDocument/formatting").expect("it has waited");
    answer(&mut it, B, format, &json!([]));
    assert_eq!(it.take(EDITOR), [json!({"jsonrpc": "2.0", "id": 1, "result": []})]);
    ask(&mut it, 3, "workspace/executeCommand", &json!({"command": "fix"}));
    assert_eq!(only(&mut it, B)["params"]["command"], "fix");
    assert_eq!(it.remembered["b"]["capabilities"], able);
}

#[test]
fn member_that_starts_is_waited_for_while_the_others_say_nothing() {
    let able = json!({"hoverProvider": true, "diagnosticProvider": {}});
    for comes in [true, false] {
        let (mut it, _) = with_silent(&able);
        ask(&mut it, 1, "textDocument/hover", &at("u"));
        let hover = only(&mut it, A);
        answer(&mut it, A, &hover, &Value::Null);
        it.pass(Duration::from_secs(2));
        assert!(it.take(EDITOR).is_empty(), "it may have something to say");
        if !comes {
            for generation in 1..=6 {
                it.exited(process(1, generation), Exit::Code(1));
                it.pass(Duration::from_secs(9));
            }
            let told = it.take(EDITOR);
            let answers: Vec<&Value> = told.iter().filter(|it| it["id"] == 1).collect();
            assert_eq!((answers.len(), &answers[0]["result"]), (1, &Value::Null), "{told:?}");
            continue;
        }
        ready(&mut it, B, &able);
        it.take(EDITOR);
        let told = it.take(backend(B));
        let hover = told.iter().find(|it| name(it) == "textDocument/hover").expect("it was waited for");
        answer(&mut it, B, hover, &json!({"contents": "b"}));
        assert_eq!(it.take(EDITOR)[0]["result"]["contents"], "b");
    }
}

#[test]
fn abilities_that_a_member_has_lost_are_answered_with_nothing() {
    let (mut it, capabilities) = with_silent(&json!({
        "documentFormattingProvider": true, "colorProvider": true, "inlayHintProvider": {"resolveProvider": true},
        "diagnosticProvider": {"workspaceDiagnostics": true, "interFileDependencies": false},
    }));
    assert_eq!(capabilities["colorProvider"], true);
    let own = json!({"renameProvider": true});
    ready(&mut it, B, &own);
    let told = it.take(EDITOR);
    let said = told.iter().map(|it| it["params"]["message"].to_string()).collect::<String>();
    assert!(said.contains("features later: rename symbol"), "{told:?}");
    let hint = json!({"position": {"line": 0, "character": 0}, "label": "x"});
    for (id, (method, params, result)) in (1..).zip([
        ("textDocument/formatting", at("u"), Value::Null),
        ("textDocument/documentColor", at("u"), json!([])),
        ("textDocument/inlayHint", at("u"), Value::Null),
        ("inlayHint/resolve", hint.clone(), hint),
        ("textDocument/diagnostic", at("u"), json!({"kind": "full", "items": []})),
        ("workspace/diagnostic", json!({"previousResultIds": []}), json!({"items": []})),
    ]) {
        ask(&mut it, id, method, &params);
        assert_eq!(it.take(EDITOR), [json!({"jsonrpc": "2.0", "id": id, "result": result})], "{method}");
    }
    // Of what nobody has ever offered there is no answer.
    ask(&mut it, 9, "textDocument/codeLens", &at("u"));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32601);
    assert!(it.told(A).is_empty());
    assert_eq!(it.remembered["b"]["capabilities"], own, "the next start knows better");
}

#[test]
fn requests_that_wait_for_a_lost_ability_are_answered_without_it() {
    let (mut it, _) = with_silent(&json!({
        "documentFormattingProvider": true, "hoverProvider": true, "renameProvider": true,
        "executeCommandProvider": {"commands": ["fix"]},
    }));
    ask(&mut it, 1, "textDocument/formatting", &at("u"));
    ask(
        &mut it,
        2,
        "textDocument/rename",
        &json!({"textDocument": {"uri": "u"}, "position": {"line": 0, "character": 0}, "newName": "n"}),
    );
    ask(&mut it, 3, "workspace/executeCommand", &json!({"command": "fix"}));
    assert!(it.take(EDITOR).is_empty());
    ready(&mut it, B, &json!({"hoverProvider": true}));
    let told = it.take(EDITOR);
    let result = |n: u32| told.iter().find(|it| it["id"] == n).map(|it| it["result"].clone());
    assert_eq!((result(1), result(2)), (Some(Value::Null), Some(Value::Null)), "{told:?}");
    // Nobody offers the command any more: those that are well may know it.
    assert_eq!(only(&mut it, A)["params"]["command"], "fix");
    let told = it.told(B);
    assert!(!told.iter().any(|it| it == "textDocument/formatting"), "{told:?}");
}

#[test]
fn tokens_of_a_member_with_another_legend_than_before_have_the_editors_numbers() {
    let tokens = |types: &[&str]| json!({"semanticTokensProvider": {"legend": {"tokenTypes": types, "tokenModifiers": []}, "full": true}});
    let (mut it, _) = with_silent(&tokens(&["class", "variable"]));
    ready(&mut it, B, &tokens(&["variable", "unknown", "class"]));
    it.take(EDITOR);
    it.take(backend(B));
    ask(&mut it, 1, "textDocument/semanticTokens/full", &at("u"));
    let asked = only(&mut it, B);
    answer(&mut it, B, &asked, &json!({"data": [0, 0, 3, 0, 0, 0, 4, 3, 1, 0, 0, 4, 3, 2, 0]}));
    assert_eq!(it.take(EDITOR)[0]["result"]["data"], json!([0, 0, 3, 1, 0, 0, 8, 3, 0, 0]));
}

#[test]
fn tokens_of_the_only_member_that_can_be_asked_have_the_editors_numbers() {
    let tokens = |types: &[&str]| json!({"semanticTokensProvider": {"legend": {"tokenTypes": types, "tokenModifiers": []}, "full": true}});
    let mut it = pair_of(&tokens(&["class", "variable"]), &tokens(&["variable"]));
    it.editor(json!({"id": "s", "method": "lspool/stop", "params": {"name": "a"}}));
    it.take(EDITOR);
    ask(&mut it, 1, "textDocument/semanticTokens/full", &at("u"));
    let asked = only(&mut it, B);
    answer(&mut it, B, &asked, &json!({"data": [0, 0, 3, 0, 0]}));
    assert_eq!(it.take(EDITOR)[0]["result"]["data"], json!([0, 0, 3, 1, 0]));
}

#[test]
fn new_abilities_of_a_remembered_member_are_registered_once() {
    let before = json!({
        "executeCommandProvider": {"commands": ["fix"]}, "diagnosticProvider": {"identifier": "b"},
    });
    let mut it = group(&["a", "b"]);
    it.remembered.insert("b".to_owned(), json!({"capabilities": before}));
    let dynamic = json!({"dynamicRegistration": true});
    initialize(
        &mut it,
        &json!({"textDocument": {"diagnostic": dynamic, "hover": dynamic}, "workspace": {"executeCommand": dynamic}}),
    );
    ready(&mut it, A, &json!({}));
    it.pass(START_WAIT);
    it.editor(json!({"method": "initialized", "params": {}}));
    it.take(EDITOR);
    let mut own = before.clone();
    own["executeCommandProvider"]["commands"] = json!(["fix", "more"]);
    own["hoverProvider"] = json!(true);
    ready(&mut it, B, &own);
    let told = it.take(EDITOR);
    assert_eq!(told.len(), 1, "{told:?}");
    let registrations = told[0]["params"]["registrations"].as_array().unwrap();
    let mut asked: Vec<_> = registrations.iter().map(|it| it["method"].as_str().unwrap()).collect();
    asked.sort_unstable();
    assert_eq!(asked, ["textDocument/hover", "workspace/executeCommand"], "{registrations:?}");
    let commands = registrations.iter().find(|it| it["method"] == "workspace/executeCommand").unwrap();
    assert_eq!(commands["registerOptions"]["commands"], json!(["more"]));
}

#[test]
fn wrong_memory_is_ignored() {
    for before in
        [json!(5), json!({}), json!({"capabilities": []}), json!({"capabilities": {"hoverProvider": null}})]
    {
        let mut it = group(&["a", "b"]);
        it.remembered.insert("b".to_owned(), before.clone());
        it.remembered.insert("stranger".to_owned(), json!({"capabilities": {"monikerProvider": true}}));
        initialize(&mut it, &json!({}));
        ready(&mut it, A, &json!({"hoverProvider": true}));
        it.pass(START_WAIT);
        let told = it.take(EDITOR);
        let mut capabilities = told[0]["result"]["capabilities"].clone();
        capabilities.as_object_mut().unwrap().retain(|key, _| key.ends_with("Provider"));
        capabilities.as_object_mut().unwrap().remove("executeCommandProvider");
        assert_eq!(capabilities, json!({"hoverProvider": true}), "{before}");
        ready(&mut it, B, &json!({"hoverProvider": true}));
        ask(&mut it, 1, "textDocument/hover", &at("u"));
        it.editor(json!({"method": "initialized", "params": {}}));
        it.take(EDITOR);
    }
}

#[test]
fn member_that_starts_with_a_document_needs_no_registration_if_it_is_remembered() {
    let able = json!({"textDocumentSync": 2, "documentFormattingProvider": true});
    let mut it = group(&["a", "b"]);
    let other = &mut it.group.as_mut().unwrap().others[0].server;
    (other.start, other.languages) = (crate::config::StartAt::Document, vec!["x".to_owned()]);
    it.remembered.insert("b".to_owned(), json!({"capabilities": able}));
    initialize(&mut it, &json!({}));
    ready(&mut it, A, &documents());
    let told = it.take(EDITOR);
    assert_eq!(told[0]["result"]["capabilities"]["documentFormattingProvider"], true, "{told:?}");
    it.editor(json!({"method": "initialized", "params": {}}));
    // Nobody can answer before there is a document for it.
    ask(&mut it, 1, "textDocument/formatting", &at("u"));
    assert_eq!(it.take(EDITOR), [json!({"jsonrpc": "2.0", "id": 1, "result": null})]);
    let open = json!({"textDocument": {"uri": "u", "languageId": "x", "version": 1, "text": ""}});
    it.editor(json!({"method": "textDocument/didOpen", "params": open}));
    ask(&mut it, 2, "textDocument/formatting", &at("u"));
    ready(&mut it, B, &able);
    let told = it.take(EDITOR);
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(it.told(B), ["initialized", "textDocument/didOpen", "textDocument/formatting"]);
}

#[test]
fn death_of_a_remembered_member_before_its_answer_costs_its_part() {
    let (mut it, _) = with_silent(&json!({"documentFormattingProvider": true}));
    ask(&mut it, 1, "textDocument/formatting", &at("u"));
    for generation in 1..=6 {
        it.exited(process(1, generation), Exit::Code(1));
        it.pass(Duration::from_mins(1));
    }
    let told = it.take(EDITOR);
    assert_eq!(told.iter().filter(|it| it["id"] == 1).count(), 1, "{told:?}");
    ask(&mut it, 2, "textDocument/formatting", &at("u"));
    let told = it.take(EDITOR);
    assert_eq!(told, [json!({"jsonrpc": "2.0", "id": 2, "result": null})]);
}

#[test]
fn late_copilot_keeps_its_inline_completions() {
    let able = json!({"textDocumentSync": 2, "inlineCompletionProvider": {}});
    let mut it = group(&["a", "copilot"]);
    it.group.as_mut().unwrap().others[0].server.kind = Some(ServerKind::Copilot);
    it.remembered.insert("copilot".to_owned(), json!({"capabilities": able}));
    initialize(&mut it, &json!({"textDocument": {"inlineCompletion": {}}}));
    ready(&mut it, A, &documents());
    it.pass(START_WAIT);
    let told = it.take(EDITOR);
    let answer_of = told.iter().find(|it| it["id"] == "i").expect("it is answered");
    assert!(answer_of["result"]["capabilities"]["inlineCompletionProvider"].is_object(), "{answer_of}");
    it.editor(json!({"method": "initialized", "params": {}}));
    let open = json!({"textDocument": {"uri": "u", "languageId": "x", "version": 1, "text": ""}});
    it.editor(json!({"method": "textDocument/didOpen", "params": open}));
    ask(&mut it, 1, "textDocument/inlineCompletion", &at("u"));
    assert!(it.take(EDITOR).is_empty(), "it waits for Copilot");
    ready(&mut it, B, &able);
    let told = it.take(backend(B));
    let names: Vec<String> = told.iter().map(name).collect();
    let place = |method: &str| names.iter().position(|it| it == method).expect("it is told so");
    assert!(place("textDocument/didOpen") < place("textDocument/inlineCompletion"), "{names:?}");
    answer(
        &mut it,
        B,
        &told[place("textDocument/inlineCompletion")],
        &json!({"items": [{"insertText": "x"}]}),
    );
    let told = it.take(EDITOR);
    assert_eq!(told[0]["result"]["items"][0]["insertText"], "x", "{told:?}");
}
