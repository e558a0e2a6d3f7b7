//! Members that count characters in another way than they were asked to.

use serde_json::{Value, json};

use super::*;
use crate::core::event::Event;

#[test]
fn member_that_insists_on_unknown_encoding_is_not_used_and_named() {
    let mut it = group(&["a", "b"]);
    initialize(&mut it, &json!({"general": {"positionEncodings": ["utf-8", "utf-16"]}}));
    let offered = it.take(backend(A)).pop().unwrap();
    assert_eq!(offered["params"]["capabilities"]["general"]["positionEncodings"], json!(["utf-16"]));
    it.put_back(backend(A), offered);
    let mut odd = documents();
    odd["positionEncoding"] = json!("utf-7");
    ready(&mut it, A, &odd);
    assert_eq!(it.terminated, [A], "nothing that it says is right");
    ready(&mut it, B, &documents());
    let told = it.take(EDITOR);
    let message = told.iter().find(|it| name(it) == "window/showMessageRequest").unwrap();
    let text = message["params"]["message"].as_str().unwrap();
    assert!(text.contains("a counts characters in utf-7, although lspool asked for utf-16"), "{text}");
    let answer = told.iter().find(|it| it["id"] == "i").unwrap();
    assert_eq!(answer["result"]["capabilities"]["positionEncoding"].as_str().unwrap_or("utf-16"), "utf-16");
    it.editor(json!({"method": "initialized", "params": {}}));
    it.take(backend(A));
    it.take(backend(B));
    ask(&mut it, 1, "textDocument/hover", &at("u"));
    assert_eq!((it.told(A).len(), it.told(B).len()), (0, 1));
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let params = json!({"uri": "u", "diagnostics": [{"range": range, "message": "m"}]});
    it.server(A, json!({"method": "textDocument/publishDiagnostics", "params": params}));
    it.exited(A, Exit::Signal(15));
    it.pass(Duration::from_mins(5));
    assert!(it.take(EDITOR).is_empty(), "it stays away");
}

#[test]
fn group_of_members_that_all_insist_on_unknown_encodings_says_so() {
    let mut it = group(&["a", "b"]);
    initialize(&mut it, &json!({}));
    for (process, odd) in [
        (A, json!({"capabilities": {"positionEncoding": "utf-5"}})),
        (B, json!({"capabilities": {}, "offsetEncoding": "utf-9"})),
    ] {
        let asked = it.take(backend(process)).pop().unwrap();
        it.server(process, json!({"id": asked["id"], "result": odd}));
    }
    let told = it.take(EDITOR);
    let error = told.iter().find(|it| it["id"] == "i").unwrap()["error"]["message"].as_str().unwrap();
    assert!(error.contains("utf-5") && error.contains("utf-9"), "{error}");
}

/// A group in which the first member counts in this encoding whatever it is offered, with a document that it knows.
fn with_odd(encoding: &str, text: &str) -> Stage {
    let mut it = group(&["a", "b"]);
    initialize(&mut it, &json!({"general": {"positionEncodings": ["utf-16"]}}));
    let mut odd = json!({
        "textDocumentSync": 2, "completionProvider": {"resolveProvider": true}, "definitionProvider": true,
        "renameProvider": true, "callHierarchyProvider": true, "codeActionProvider": true,
        "semanticTokensProvider": {"legend": {"tokenTypes": ["t"], "tokenModifiers": []}, "full": {"delta": true}},
    });
    odd["positionEncoding"] = json!(encoding);
    ready(&mut it, A, &odd);
    ready(&mut it, B, &json!({"textDocumentSync": 2, "hoverProvider": true}));
    let told = it.take(EDITOR);
    let capabilities = &told.iter().find(|it| it["id"] == "i").unwrap()["result"]["capabilities"];
    assert_ne!(capabilities["positionEncoding"], json!(encoding));
    assert_eq!(capabilities["semanticTokensProvider"]["full"], json!(true));
    it.editor(json!({"method": "initialized", "params": {}}));
    let open = json!({"textDocument": {"uri": OPEN, "languageId": "x", "version": 1, "text": text}});
    it.editor(json!({"method": "textDocument/didOpen", "params": open}));
    for process in [A, B] {
        it.take(backend(process));
    }
    it
}

const OPEN: &str = "file:///w/open";
const OTHER: &str = "file:///w/other";

fn place(line: u32, character: u32) -> Value {
    json!({"line": line, "character": character})
}

fn span(line: u32, from: u32, to: u32) -> Value {
    json!({"start": place(line, from), "end": place(line, to)})
}

/// The only answer that the editor gets.
fn result(it: &mut Stage) -> Value {
    let mut told = it.take(EDITOR);
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["answer"], "{told:?}");
    told.pop().unwrap()["result"].take()
}

/// Answers all that the shell is asked to read.
fn read(it: &mut Stage, text: Option<&str>) {
    while !it.to_read.is_empty() {
        let path = it.to_read.remove(0);
        it.event(Event::FileRead { path, text: text.map(str::to_owned) });
    }
}

fn publish(uri: &str, range: &Value) -> Value {
    let params = json!({"uri": uri, "diagnostics": [{"range": range, "message": "m"}]});
    json!({"method": "textDocument/publishDiagnostics", "params": params})
}

#[test]
fn member_that_counts_in_another_way_hears_and_says_places_of_its_own() {
    // `x` is at 3 in UTF-16, at 6 in UTF-8, at 2 in UTF-32.
    for (encoding, x) in [("utf-8", 6), ("utf-32", 2)] {
        let mut it = with_odd(encoding, "é😀x\n");
        let params = json!({"textDocument": {"uri": OPEN}, "position": place(0, 3)});
        ask(&mut it, 1, "textDocument/definition", &params);
        let asked = only(&mut it, A);
        assert_eq!(asked["params"]["position"], place(0, x), "{encoding}");
        answer(&mut it, A, &asked, &json!({"uri": OPEN, "range": span(0, x, x + 1)}));
        assert_eq!(result(&mut it)["range"], span(0, 3, 4), "{encoding}");

        // Two changes, the second in the text that the first makes.
        let changes = json!([
            {"range": span(0, 3, 3), "rangeLength": 0, "text": "😀"}, {"range": span(0, 5, 6), "text": "é\ny"},
        ]);
        let params = json!({"textDocument": {"uri": OPEN, "version": 2}, "contentChanges": changes});
        it.editor(json!({"method": "textDocument/didChange", "params": params}));
        let told = only(&mut it, A);
        let more = if encoding == "utf-8" { 4 } else { 1 };
        let told = &told["params"]["contentChanges"];
        assert_eq!(told[0], json!({"range": span(0, x, x), "text": "😀"}));
        assert_eq!(told[1]["range"], span(0, x + more, x + more + 1));
        assert_eq!(only(&mut it, B)["params"]["contentChanges"], changes, "another member hears it as it is");

        it.server(A, publish(OPEN, &json!({"start": place(0, x + more), "end": place(1, 1)})));
        let told = it.take(EDITOR).pop().unwrap();
        let expected = json!({"start": place(0, 5), "end": place(1, 1)});
        assert_eq!(told["params"]["diagnostics"][0]["range"], expected);
    }
}

#[test]
fn item_of_such_a_member_is_asked_about_with_places_of_its_document() {
    let mut it = with_odd("utf-8", "é😀x\n");
    ask(&mut it, 1, "textDocument/completion", &at(OPEN));
    let asked = only(&mut it, A);
    let item = json!({"label": "l", "data": 7, "textEdit": {"range": span(0, 0, 6), "newText": "l"}});
    answer(&mut it, A, &asked, &json!([item, {"label": "bare"}]));
    let items = result(&mut it);
    assert_eq!(items[0]["textEdit"]["range"], span(0, 0, 3));
    for (index, own) in [item, json!({"label": "bare"})].iter().enumerate() {
        ask(&mut it, 2, "completionItem/resolve", &items[index]);
        let asked = only(&mut it, A);
        assert_eq!(&asked["params"], own);
        let mut resolved = own.clone();
        resolved["additionalTextEdits"] = json!([{"range": span(0, 2, 6), "newText": ""}]);
        answer(&mut it, A, &asked, &resolved);
        let resolved = result(&mut it);
        assert_eq!(resolved["additionalTextEdits"][0]["range"], span(0, 1, 3));
        ask(&mut it, 3, "completionItem/resolve", &resolved);
        let asked = only(&mut it, A);
        assert_eq!(asked["params"]["data"], own["data"], "once more");
        answer(&mut it, A, &asked, own);
        it.take(EDITOR);
    }
}

#[test]
fn places_in_a_file_that_is_not_open_wait_for_its_text_in_order() {
    let mut it = with_odd("utf-8", "");
    it.server(A, publish(OTHER, &span(0, 6, 7)));
    it.server(A, publish(OTHER, &span(0, 0, 0)));
    it.server(A, json!({"method": "window/logMessage", "params": {"type": 3, "message": "behind"}}));
    assert!(it.take(EDITOR).is_empty(), "the second list would be taken for the first");
    assert_eq!(it.to_read, [std::path::Path::new("/w/other")]);
    read(&mut it, Some("é😀x"));
    it.pass(Duration::from_millis(11));
    let told = it.take(EDITOR);
    let lists: Vec<&Value> = told.iter().filter(|it| name(it) == "textDocument/publishDiagnostics").collect();
    assert_eq!(lists.last().unwrap()["params"]["diagnostics"][0]["range"], span(0, 0, 0));
    assert!(told.iter().any(|it| it["params"]["message"] == "behind"), "{told:?}");

    // A place that the editor gives back.
    ask(&mut it, 1, "textDocument/prepareCallHierarchy", &at(OPEN));
    let asked = only(&mut it, A);
    let item = json!({"name": "n", "kind": 1, "uri": OTHER, "range": span(0, 2, 6), "selectionRange": span(0, 6, 7)});
    answer(&mut it, A, &asked, &json!([item]));
    read(&mut it, Some("é😀x"));
    let items = result(&mut it);
    assert_eq!((&items[0]["range"], &items[0]["selectionRange"]), (&span(0, 1, 3), &span(0, 3, 4)));
    ask(&mut it, 2, "callHierarchy/outgoingCalls", &json!({"item": items[0]}));
    let asked = only(&mut it, A);
    assert_eq!(asked["params"]["item"], item);
    let to =
        json!({"name": "o", "kind": 1, "uri": OPEN, "range": span(0, 0, 0), "selectionRange": span(0, 0, 0)});
    answer(&mut it, A, &asked, &json!([{"to": to, "fromRanges": [span(0, 2, 6)]}]));
    read(&mut it, Some("é😀x"));
    assert_eq!(result(&mut it)[0]["fromRanges"], json!([span(0, 1, 3)]));
}

/// A change of the open document, which both members hear.
fn change(it: &mut Stage, version: u32, range: &Value, text: &str) {
    let document = json!({"uri": OPEN, "version": version});
    let params = json!({"textDocument": document, "contentChanges": [{"range": range, "text": text}]});
    it.editor(json!({"method": "textDocument/didChange", "params": params}));
    it.take(backend(A));
    it.take(backend(B));
}

/// A list of the first version of the document has places of that text.
#[track_caller]
fn check_first_list(it: &mut Stage) {
    let mut list = publish(OPEN, &span(0, 6, 7));
    list["params"]["version"] = json!(1);
    it.server(A, list);
    let told = it.take(EDITOR).pop().unwrap();
    assert_eq!(told["params"]["diagnostics"][0]["range"], span(0, 3, 4), "{told}");
}

#[test]
fn answer_has_places_of_the_text_before_the_request() {
    let mut it = with_odd("utf-8", "é😀x\n");
    ask(&mut it, 1, "textDocument/definition", &at(OPEN));
    let asked = only(&mut it, A);
    change(&mut it, 2, &span(0, 0, 1), "abcd");
    change(&mut it, 3, &span(0, 0, 0), "\n");
    ask(&mut it, 2, "textDocument/definition", &at(OPEN));
    let later = only(&mut it, A);
    change(&mut it, 4, &span(0, 0, 0), "\n");
    answer(&mut it, A, &asked, &json!({"uri": OPEN, "range": span(0, 6, 7)}));
    assert_eq!(result(&mut it)["range"], span(0, 3, 4));
    answer(&mut it, A, &later, &json!({"uri": OPEN, "range": span(1, 8, 9)}));
    assert_eq!(result(&mut it)["range"], span(1, 6, 7));
    // The list says of which text it is.
    check_first_list(&mut it);
}

/// Between two changes of one message, a document has no version.
#[test]
fn list_of_the_version_before_several_changes_has_places_of_its_text() {
    let mut it = with_odd("utf-8", "é😀x\n");
    let document = json!({"uri": OPEN, "version": 2});
    let changes = json!([{"range": span(0, 0, 1), "text": "abcd"}, {"range": span(0, 0, 0), "text": "\n"}]);
    let params = json!({"textDocument": document, "contentChanges": changes});
    it.editor(json!({"method": "textDocument/didChange", "params": params}));
    check_first_list(&mut it);
}

#[test]
fn notification_of_a_process_that_ends_waits_no_more() {
    let mut it = with_odd("utf-8", "é😀x\n");
    it.server(A, publish(OTHER, &span(0, 1, 1)));
    assert_eq!(it.take(EDITOR), Vec::<Value>::new());
    it.exited(A, Exit::Signal(9));
    let told = it.take(EDITOR);
    assert!(told.iter().any(|it| it["params"]["uri"] == OTHER), "{told:?}");
}

#[test]
fn answer_that_waits_for_a_file_has_places_of_the_text_before_the_request() {
    let mut it = with_odd("utf-8", "é😀x\n");
    ask(&mut it, 1, "textDocument/definition", &at(OPEN));
    let asked = only(&mut it, A);
    answer(&mut it, A, &asked, &json!([OPEN, OTHER].map(|uri| json!({"uri": uri, "range": span(0, 6, 7)}))));
    change(&mut it, 2, &span(0, 0, 1), "");
    read(&mut it, Some("éééx"));
    let found = result(&mut it);
    assert_eq!((&found[0]["range"], &found[1]["range"]), (&span(0, 3, 4), &span(0, 3, 4)));
}

#[test]
fn place_in_a_file_without_text_stays_and_the_others_are_right() {
    let mut it = with_odd("utf-8", "é😀x\n");
    ask(&mut it, 1, "textDocument/definition", &at(OPEN));
    let asked = only(&mut it, A);
    let places = [OPEN, "file:///w/binary", OTHER, "untitled:1"];
    let places = places.map(|uri| json!({"uri": uri, "range": span(0, 6, 7)}));
    answer(&mut it, A, &asked, &json!(places));
    assert!(it.take(EDITOR).is_empty());
    assert_eq!(it.to_read, ["/w/binary", "/w/other"].map(std::path::PathBuf::from));
    for (path, text) in it.to_read.clone().into_iter().zip([None, Some("éééx".to_owned())]) {
        it.event(Event::FileRead { path, text });
    }
    let found = result(&mut it);
    let found: Vec<&Value> = found.as_array().unwrap().iter().map(|it| &it["range"]).collect();
    assert_eq!(found, [&span(0, 3, 4), &span(0, 6, 7), &span(0, 3, 4), &span(0, 6, 7)]);

    it.to_read.clear();
    it.server(A, publish(OTHER, &span(0, 6, 7)));
    read(&mut it, None);
    it.pass(Duration::from_millis(11));
    let told = it.take(EDITOR).pop().unwrap();
    assert_eq!(told["params"]["diagnostics"][0]["range"], span(0, 6, 7));
}

#[test]
fn edit_in_a_file_without_text_reaches_nobody() {
    let mut it = with_odd("utf-8", "é😀x\n");
    let edit = |uri: &str| json!({"changes": {uri: [{"range": span(0, 2, 6), "newText": ""}]}});
    ask(
        &mut it,
        1,
        "textDocument/rename",
        &json!({"textDocument": {"uri": OPEN}, "position": place(0, 0), "newName": "n"}),
    );
    let asked = only(&mut it, A);
    let mut both = edit(OPEN);
    both["changes"][OTHER] = edit(OTHER)["changes"][OTHER].clone();
    answer(&mut it, A, &asked, &both);
    read(&mut it, None);
    let told = it.take(EDITOR).pop().unwrap();
    assert!(told["error"]["message"].as_str().unwrap().contains(OTHER), "half of a rename does harm: {told}");

    it.server(A, json!({"id": 9, "method": "workspace/applyEdit", "params": {"edit": edit("untitled:1")}}));
    assert!(it.take(EDITOR).is_empty());
    assert!(only(&mut it, A)["error"]["message"].as_str().unwrap().contains("untitled:1"));

    // Of a list of actions only that one is left out.
    ask(
        &mut it,
        2,
        "textDocument/codeAction",
        &json!({"textDocument": {"uri": OPEN}, "range": span(0, 0, 0), "context": {"diagnostics": []}}),
    );
    let asked = only(&mut it, A);
    let actions = [OTHER, OPEN].map(|uri| json!({"title": uri, "edit": edit(uri)}));
    answer(&mut it, A, &asked, &json!([actions[0], {"title": "bare"}, actions[1]]));
    read(&mut it, None);
    let told = result(&mut it);
    let titles: Vec<&Value> = told.as_array().unwrap().iter().map(|it| &it["title"]).collect();
    assert_eq!(titles, ["bare", OPEN]);
    assert_eq!(told[1]["edit"]["changes"][OPEN][0]["range"], span(0, 1, 3));
}

#[test]
fn files_are_read_a_few_at_a_time_and_the_rest_after_them() {
    let mut it = with_odd("utf-8", "");
    ask(&mut it, 1, "textDocument/definition", &at(OPEN));
    let asked = only(&mut it, A);
    let places = (0..30).map(|n| json!({"uri": format!("file:///w/{n}"), "range": span(0, 6, 7)}));
    answer(&mut it, A, &asked, &places.collect::<Value>());
    assert_eq!(it.to_read.len(), 8);
    read(&mut it, Some("éééx"));
    let found = result(&mut it);
    assert!(found.as_array().unwrap().iter().all(|it| it["range"] == span(0, 3, 4)), "{found}");
}

#[test]
fn message_with_a_place_in_an_unopened_file_waits_for_its_text_in_order() {
    for (text, expected) in [(Some("éééx"), span(0, 6, 7)), (None, span(0, 3, 4))] {
        let mut it = with_odd("utf-8", "é");
        let item = json!({"name": "n", "kind": 1, "uri": OTHER, "range": span(0, 3, 4), "selectionRange": span(0, 3, 4)});
        ask(&mut it, 1, "callHierarchy/incomingCalls", &json!({"item": item}));
        change(&mut it, 2, &span(0, 1, 1), "é");
        ask(
            &mut it,
            2,
            "textDocument/definition",
            &json!({"textDocument": {"uri": OPEN}, "position": place(0, 2)}),
        );
        assert!(it.told(A).is_empty(), "what comes behind must not overtake it");
        read(&mut it, text);
        let told = it.take(backend(A));
        let methods: Vec<String> = told.iter().map(name).collect();
        assert_eq!(
            methods,
            ["callHierarchy/incomingCalls", "textDocument/didChange", "textDocument/definition"]
        );
        assert_eq!(told[0]["params"]["item"]["range"], expected);
        assert_eq!(told[1]["params"]["contentChanges"][0]["range"], span(0, 2, 2));
        assert_eq!(told[2]["params"]["position"], place(0, 4), "in the text with the change");
    }
}

#[test]
fn messages_that_wait_are_sent_before_a_process_ends() {
    let mut it = with_odd("utf-8", "");
    let item = json!({"name": "n", "kind": 1, "uri": OTHER, "range": span(0, 3, 4), "selectionRange": span(0, 3, 4)});
    ask(&mut it, 1, "callHierarchy/incomingCalls", &json!({"item": item}));
    it.editor(json!({"id": 2, "method": "shutdown"}));
    it.editor(json!({"method": "exit"}));
    it.pass(Duration::from_mins(1));
    let told = it.told(A);
    assert_eq!(told[..2], ["callHierarchy/incomingCalls", "shutdown"], "{told:?}");
    assert!(told.contains(&"exit".to_owned()), "{told:?}");
}

#[test]
fn tokens_of_such_a_member_have_lengths_of_the_editor() {
    let mut it = with_odd("utf-8", "é😀x 😀é\nx\n");
    ask(&mut it, 1, "textDocument/semanticTokens/full", &at(OPEN));
    let asked = only(&mut it, A);
    answer(&mut it, A, &asked, &json!({"data": [0, 0, 6, 0, 0, 0, 8, 6, 0, 0, 1, 0, 1, 0, 0]}));
    assert_eq!(result(&mut it)["data"], json!([0, 0, 3, 0, 0, 0, 5, 3, 0, 0, 1, 0, 1, 0, 0]));
}

#[test]
fn process_of_such_a_member_that_dies_leaves_nothing_waiting() {
    let mut it = with_odd("utf-8", "é😀x\n");
    ask(&mut it, 1, "textDocument/definition", &at(OPEN));
    let asked = only(&mut it, A);
    answer(&mut it, A, &asked, &json!({"uri": OTHER, "range": span(0, 6, 7)}));
    it.exited(A, Exit::Signal(9));
    read(&mut it, Some("é😀x"));
    it.pass(Duration::from_secs(2));
    let next = process(0, 2);
    // This one does as it is asked.
    ready(&mut it, next, &json!({"textDocumentSync": 2, "definitionProvider": true}));
    let told = it.take(backend(next));
    let asked = told.iter().find(|it| it["method"] == "textDocument/definition").unwrap();
    answer(&mut it, next, asked, &json!({"uri": OTHER, "range": span(0, 6, 7)}));
    let told = it.take(EDITOR);
    assert_eq!(told.iter().find(|it| it["id"] == 1).unwrap()["result"]["range"], span(0, 6, 7), "{told:?}");
}
