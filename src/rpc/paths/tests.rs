use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::rpc::file_path;

fn pair(local: &str, remote: &str) -> PathPair {
    PathPair { local: local.to_owned(), remote: remote.to_owned() }
}

fn map() -> PathMap {
    PathMap::new(&[pair("/home/u/my shop", "/app"), pair("/home/u/lib", "/opt/lib ä")], None).unwrap()
}

fn notification(params: &Value) -> Frame {
    Frame::notification("x", Some(params.to_string().as_bytes()))
}

fn params(frame: &Frame) -> Value {
    serde_json::from_slice(frame.params().unwrap()).unwrap()
}

fn remote(params_here: &Value) -> Value {
    let frame = notification(params_here);
    params(map().outgoing(&frame).as_ref().unwrap_or(&frame))
}

fn local(params_there: &Value) -> Value {
    let frame = notification(params_there);
    params(map().incoming(&frame).as_ref().unwrap_or(&frame))
}

const HERE: &str = "file:///home/u/my%20shop";

/// What a message has on both sides.
#[test]
fn paths_in_messages_are_mapped_both_ways() {
    let uri = |rest: &str| (format!("{HERE}{rest}"), format!("file:///app{rest}"));
    let (a, b) = (uri("/a.py"), uri("/x%20y/b%23.py"));
    let of = |get: fn(&(String, String)) -> &String| {
        let (a, b) = (get(&a), get(&b));
        let path = |uri: &str| file_path(uri).unwrap().to_str().unwrap().to_owned();
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
        [
            json!({"processId": 1, "rootUri": a, "rootPath": path(a), "workspaceFolders": [{"uri": a, "name": path(a)}],
                "initializationOptions": {"python": {"path": path(b), "args": [path(a), "-x"]}}}),
            json!({"textDocument": {"uri": a}, "position": {"line": 1, "character": 2}}),
            json!({"changes": [{"uri": a, "type": 1}, {"uri": b, "type": 2}]}),
            json!({"event": {"added": [{"uri": a, "name": "a"}], "removed": [{"uri": b, "name": "b"}]}}),
            json!({"files": [{"oldUri": a, "newUri": b}]}),
            json!({"items": [{"scopeUri": a, "section": "python"}]}),
            json!({"uri": a, "diagnostics": [{"range": range, "relatedInformation": [{"location": {"uri": b}}]}]}),
            json!({"kind": "full", "items": [], "relatedDocuments": {a: {"kind": "unchanged", "resultId": "1"}}}),
            json!([{"targetUri": a, "targetRange": range}, {"uri": b, "range": range}]),
            json!([{"range": range, "target": b}]),
            json!([{"label": [{"value": "x", "location": {"uri": a, "range": range}}]}]),
            json!({"changes": {a: [{"range": range, "newText": "x"}]}}),
            json!({"documentChanges": [{"textDocument": {"uri": a, "version": 1}, "edits": []},
                {"kind": "rename", "oldUri": a, "newUri": b}, {"kind": "delete", "uri": b}]}),
            json!({"command": {"title": "t", "command": "c", "arguments": [a, path(b), {"file": path(a)}]}}),
            json!({"label": "l", "edit": {"changes": {b: []}}}),
            json!({"notebookDocument": {"uri": a, "cells": [{"document":
                a.replacen("file:", "vscode-notebook-cell:", 1) + "#W0"}]}}),
            json!({"settings": {"python": {"pythonPath": path(b), "paths": [path(a)]}}}),
            json!({"registrations": [{"id": "1", "method": "m", "registerOptions": {"watchers": [
                {"globPattern": path(a) + "/**/*.py"}, {"globPattern": {"baseUri": a, "pattern": "*"}}]}}]}),
            json!({"documentSelector": [{"scheme": "file", "pattern": path(a) + "/**"}]}),
            json!({"uri": format!("jar:{a}!/x.java"), "external": false}),
            json!({"uri": format!("zipfile:{b}::x.py"), "notebook": a.replacen("file:", "vscode-notebook:", 1)}),
            json!({"items": [{"uri": a, "version": null, "kind": "full", "items": []}]}),
            json!([{"name": "f", "kind": 12, "uri": a, "range": range, "selectionRange": range, "data": 1},
                {"from": {"uri": b}, "fromRanges": []}, {"location": {"uri": a}}]),
            json!([{"label": "run", "kind": "cargo", "args": {"workspaceRoot": path(a), "cwd": path(a),
                "cargoArgs": ["test", path(b)], "executableArgs": ["x"]}}]),
            json!({"file": path(a), "projectRoot": path(b), "startLine": 1}),
            json!({"fileOperations": {"didRename": {"filters": [{"scheme": "file", "pattern": {"glob": path(a) + "/**"}}]}}}),
            json!({"documentSelector": [{"pattern": {"baseUri": a, "pattern": "**"}}]}),
        ]
    };
    for (here, there) in of(|it| &it.0).iter().zip(of(|it| &it.1)) {
        let is_text = |it: &Value| it["workspaceFolders"][0]["name"].clone();
        let mut expected = there.clone();
        if !is_text(here).is_null() {
            expected["workspaceFolders"][0]["name"] = is_text(here);
        }
        assert_eq!(remote(here), expected);
        assert_eq!(local(&expected), *here);
    }
}

#[test]
fn what_is_no_path_stays_byte_for_byte() {
    for text in [
        r#"{"textDocument":{"uri":"untitled:1","text":"file:///home/u/my%20shop/a"}}"#,
        r#"{"contentChanges":[{"text":"file:///home/u/my%20shop"}], "x" : "/home/u/my shop/a"}"#,
        r#"{"uri":"file:///home/u/my%20shopping/a"}"#,
        r#"{"uri":"file://server/home/u/my%20shop"}"#,
        r#"{"data":{"uri":"file:///home/u/my%20shop/a"},"token":"/home/u/my shop"}"#,
        r#"{"label":"file:///home/u/my%20shop","insertText":"/home/u/my shop","sortText":"file:///home/u/my%20shop"}"#,
        r#"{"uri":"https://file:///home/u/my%20shop/a"}"#,
        r#"[{"uri":7},"/home/u/my shop"]"#,
        r#"{"token":"file:///home/u/my%20shop/a","id":"file:///home/u/my%20shop/a","workDoneToken":"file:///home/u/my%20shop"}"#,
        r#"{"changeAnnotations":{"file:///home/u/my%20shop/a":{"label":"x"}},"annotationId":"file:///home/u/my%20shop/a"}"#,
        "",
        "null",
    ] {
        let frame = Frame::notification("x", Some(text.as_bytes()));
        assert!(map().outgoing(&frame).is_none(), "{text}");
    }
}

#[test]
fn rest_of_a_uri_stays_as_it_was_spelled() {
    let spelled = |uri: &str| remote(&json!({"uri": uri}))["uri"].as_str().unwrap().to_owned();
    for (here, there) in [
        ("file:///home/u/my%20shop", "file:///app"),
        ("file:///home/%75/my%20shop/%61%2Fb c", "file:///app/%61%2Fb c"),
        ("file:/home/u/my%20shop/a", "file:/app/a"),
        ("FILE://localhost/home/u/my%20shop/a?q#f", "FILE://localhost/app/a?q#f"),
        ("file:///home/u/lib/ä", "file:///opt/lib%20%C3%A4/ä"),
        ("file:///home/u/my shop/x", "file:///app/x"),
    ] {
        assert_eq!(spelled(here), there);
    }
    let escaped = Frame::notification("x", Some(br#"{"uri":"file:\/\/\/app\/a.php"}"#));
    assert_eq!(params(&map().incoming(&escaped).unwrap())["uri"], format!("{HERE}/a.php"));
    let raw = json!({"uri": "file:///opt/lib ä/x"});
    assert_eq!(local(&raw)["uri"], "file:///home/u/lib/x");
}

#[test]
fn open_document_comes_back_as_the_editor_spells_it() {
    let mut it = map();
    let uri = "file:///home/u/my%20shop/%5Bid%5D/a+b.ts";
    let message = |method: &str| {
        Frame::notification(method, Some(json!({"textDocument": {"uri": uri}}).to_string().as_bytes()))
    };
    let there = notification(&json!({"uri": "file:///app/[id]/a%2Bb.ts"}));
    it.outgoing(&message("textDocument/didOpen"));
    assert_eq!(params(&it.incoming(&there).unwrap())["uri"], uri);
    it.outgoing(&message("textDocument/didClose"));
    assert_eq!(params(&it.incoming(&there).unwrap())["uri"], format!("{HERE}/[id]/a%2Bb.ts"));
}

/// Otherwise two files would become one.
#[test]
fn local_file_with_the_name_of_a_remote_one_is_another_file() {
    let ours = json!({"uri": "file:///app/b.py", "cwd": "/app"});
    let there = json!({"uri": "file:///.lspool/local/app/b.py", "cwd": "/.lspool/local/app"});
    assert_eq!(remote(&ours), there);
    assert_eq!(local(&there), ours);
    let upwards = json!({"uri": "file:///app/../etc/x", "cwd": "/app/../etc"});
    assert_eq!(local(&upwards), upwards);
}

#[test]
fn texts_for_documents_stay_as_they_are() {
    let texts = json!({
        "insertText": {"kind": "snippet", "value": "see file:///app/x"}, "textEditText": "file:///app/x",
        "label": [{"value": "file:///app/x", "tooltip": "t"}], "placeholder": "/app/x", "newName": "file:///app",
        "arguments": [{"newText": "/app/x", "edits": [{"snippet": {"value": "file:///app/x"}}]}],
    });
    assert_eq!(local(&texts), texts);
}

#[test]
fn links_in_texts_lead_to_local_files() {
    let hover = json!({"contents": {"kind": "markdown", "value":
        "see [a](file:///app/a.py#L1) and <file:///app/b> and file:///usr/x, file:///apple"}});
    let expected = format!("see [a]({HERE}/a.py#L1) and <{HERE}/b> and file:///usr/x, file:///apple");
    assert_eq!(local(&hover)["contents"]["value"], expected);
    assert_eq!(remote(&json!({"message": HERE})), json!({"message": "file:///app"}), "a whole URI is one");
    let told = json!({"type": 1, "message": format!("cannot read {HERE}/a")});
    assert_eq!(remote(&told), told);
}

/// What a server has said in a diagnostic or in an item is the same when it comes back.
#[test]
fn server_finds_its_own_words_again() {
    let diagnostics = json!([{
        "message": "see file:///app/x%20y/a.py and /app/b, file:///usr/x", "source": "/app/tool",
        "code": {"value": "file:///app/rules/1", "target": "file:///app/rules/1#L3"},
        "relatedInformation": [{"location": {"uri": "file:///app/c"}, "message": "[it](file:///opt/lib%20%C3%A4/c)"}],
        "data": {"path": "/app/d", "uri": "file:///app/d"},
    }]);
    let item = json!({"label": "file:///app/l", "documentation": {"kind": "markdown", "value": "<file:///app/d>"},
        "command": {"title": "t", "command": "c", "arguments": ["/app/e", "file:///app/f", {"message": "file:///app g"}]}});
    for (method, said) in [
        ("textDocument/codeAction", json!({"context": {"diagnostics": diagnostics}})),
        ("completionItem/resolve", item),
    ] {
        let shown = local(&said);
        assert_ne!(shown, said);
        let asked = Frame::notification(method, Some(shown.to_string().as_bytes()));
        assert_eq!(params(&map().outgoing(&asked).unwrap()), said, "{method}");
    }
}

#[test]
fn answers_of_the_editor_have_paths() {
    let answer =
        Frame::response(1.into(), br#"[{"pythonPath":"/home/u/lib/bin/python"}, "/home/u/my shop"]"#);
    let there: Value = serde_json::from_slice(map().outgoing(&answer).unwrap().result().unwrap()).unwrap();
    assert_eq!(there, json!([{"pythonPath": "/opt/lib ä/bin/python"}, "/app"]));
    let answer = Frame::response(1.into(), br#"{"uri":"file:///app/x","path":"/app/x"}"#);
    let here: Value = serde_json::from_slice(map().incoming(&answer).unwrap().result().unwrap()).unwrap();
    assert_eq!(here, json!({"uri": format!("{HERE}/x"), "path": "/home/u/my shop/x"}));
}

#[test]
fn watchers_of_files_that_only_the_server_has_are_left_out() {
    let register = |watchers: &Value| {
        let params = json!({"registrations": [{"id": "1", "method": "workspace/didChangeWatchedFiles",
            "registerOptions": {"watchers": watchers}}]});
        Frame::notification("client/registerCapability", Some(params.to_string().as_bytes()))
    };
    let told = register(&json!([
        {"globPattern": "**/*.py"}, {"globPattern": "/usr/lib/**"}, {"globPattern": "/app/**"},
        {"globPattern": {"baseUri": "file:///usr/lib/python3.11", "pattern": "**"}},
        {"globPattern": {"baseUri": {"uri": "file:///app", "name": "a"}, "pattern": "**"}},
    ]));
    let expected = register(&json!([
        {"globPattern": "**/*.py"}, {"globPattern": "/home/u/my shop/**"},
        {"globPattern": {"baseUri": {"uri": HERE, "name": "a"}, "pattern": "**"}},
    ]));
    assert_eq!(params(&map().incoming(&told).unwrap()), params(&expected));
}

#[test]
fn longest_folder_counts_and_root_can_be_mapped() {
    let nested = [pair("/w", "/app"), pair("/w/gen", "/gen")];
    let mut it = PathMap::new(&nested, None).unwrap();
    let mut there =
        |uri: &str| params(&it.outgoing(&notification(&json!({"uri": uri}))).unwrap())["uri"].clone();
    assert_eq!(
        (there("file:///w/gen/a"), there("file:///w/x")),
        ("file:///gen/a".into(), "file:///app/x".into())
    );
    let mut root = PathMap::new(&[pair("/host", "/")], None).unwrap();
    let frame = notification(&json!({"uri": "file:///host", "other": "file:///host/a"}));
    let mapped = root.outgoing(&frame).unwrap();
    assert_eq!(params(&mapped), json!({"uri": "file:///", "other": "file:///a"}));
    assert!(PathMap::new(&[pair("/a", "/a")], None).is_none(), "nothing is elsewhere");
}

/// Editors on Windows write the drive letter in either case, and its colon in two ways.
#[test]
fn drive_letters_have_any_case_and_spelling() {
    let map = || PathMap::new(&[pair(r"C:\src\my shop", "/app"), pair("d:/", "/data")], None).unwrap();
    let there = |params: &Value| params_of(map().outgoing(&notification(params)).as_ref(), params);
    let here = |params: &Value| params_of(map().incoming(&notification(params)).as_ref(), params);
    for (uri, expected) in [
        ("file:///c%3A/src/my%20shop/a.py", "file:///app/a.py"),
        ("file:///C:/src/my%20shop/a.py", "file:///app/a.py"),
        ("file:///D%3a/x/y", "file:///data/x/y"),
        ("file:///c:/src/my%20shopping", "file:///c:/src/my%20shopping"),
        ("file:///e:/src", "file:///e:/src"),
    ] {
        assert_eq!(there(&json!({"uri": uri}))["uri"], expected, "{uri}");
    }
    for (path, expected) in [
        (r"c:\src\my shop\a\b.py", "/app/a/b.py"),
        (r"C:/src/my shop", "/app"),
        (r"D:\x", "/data/x"),
        (r"C:\src\my shopping", r"C:\src\my shopping"),
    ] {
        assert_eq!(there(&json!({"rootPath": path}))["rootPath"], expected, "{path}");
    }
    assert_eq!(here(&json!({"uri": "file:///app/a.py"}))["uri"], "file:///C%3A/src/my%20shop/a.py");
    assert_eq!(here(&json!({"cwd": "/app/a/b"}))["cwd"], r"C:\src\my shop\a\b");
    assert_eq!(here(&json!({"cwd": "/data"}))["cwd"], r"d:\");
    assert_eq!(here(&json!({"globPattern": "/app/**/*.py"}))["globPattern"], "C:/src/my shop/**/*.py");
    // An open document is as the editor spells it.
    let mut it = map();
    let uri = "file:///c%3A/src/my%20shop/a.py";
    let opened = json!({"textDocument": {"uri": uri}}).to_string();
    it.outgoing(&Frame::notification("textDocument/didOpen", Some(opened.as_bytes())));
    assert_eq!(params(&it.incoming(&notification(&json!({"uri": "file:///app/a.py"}))).unwrap())["uri"], uri);
}

fn params_of(mapped: Option<&Frame>, as_it_was: &Value) -> Value {
    mapped.map_or_else(|| as_it_was.clone(), params)
}

#[test]
fn contradicting_folders_are_named() {
    assert_eq!(conflict(&[pair("/a", "/x"), pair("/a/b", "/x/b"), pair("/c", "/y")]), None);
    for pairs in [
        [pair("/a", "/x"), pair("/b", "/x/")],
        [pair("/a", "/x"), pair("/a/", "/y")],
        [pair("/a", "/x/y"), pair("/a/b", "/x")],
    ] {
        let error = conflict(&pairs).unwrap();
        assert!(error.contains("contradict each other"), "{error}");
    }
}

#[test]
fn deep_text_takes_linear_time() {
    let archives = format!(r#"{{"uri":"{}file:///app/x"}}"#, "jar:".repeat(1_000_000));
    assert!(map().incoming(&Frame::notification("x", Some(archives.as_bytes()))).is_none());
    let depth = 200_000;
    let text = format!(r#"{}"file:///app/x"{}"#, "[".repeat(depth), "]".repeat(depth));
    let frame = Frame::notification("x", Some(text.as_bytes()));
    assert!(map().incoming(&frame).is_some());
}

/// JSON of any shape with URIs and paths in it.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!("file:///home/u/my%20shop/a%20b.py")),
        Just(json!("/home/u/lib/x")),
        Just(json!("file:///elsewhere/a")),
        Just(json!("file:///.lspool/local/x")),
        Just(json!("see file:///home/u/lib/a")),
        Just(json!("/app/../home/u/lib")),
        Just(json!(null)),
        Just(json!(12)),
        "[a-z/:\\\\\" ]{0,12}".prop_map(Value::from),
    ];
    let keys = prop_oneof![
        Just("uri"),
        Just("data"),
        Just("text"),
        Just("arguments"),
        Just("label"),
        Just("value"),
        Just("settings"),
        Just("file:///home/u/my%20shop/key"),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..5).prop_map(|all| Value::Object(
                all.into_iter().map(|(key, it)| (key.to_owned(), it)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn message_there_and_back_is_the_same(json in any_json()) {
        prop_assert_eq!(local(&remote(&json!({"x": json}))), json!({"x": json}));
        check::check(json.to_string().as_bytes());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), Just(b'{'), Just(b'/')], 0..64)) {
        let text = [br#"{"a":"file:///app/"#.as_slice(), &bytes].concat();
        let frame = Frame::notification("x", Some(&text));
        drop((map().outgoing(&frame), map().incoming(&frame)));
        check::check(&text);
        check::check(&bytes);
    }
}

#[test]
fn file_of_the_other_side_becomes_its_copy() {
    let mut it = PathMap::new(&[pair("/w", "/app")], Some("/home/u/.cache/far one")).unwrap();
    let places = json!([
        {"uri": "file:///usr/lib/a%20b.py"}, {"targetUri": "file:///usr/lib/c.py#L1"}, {"uri": "file:///app/x.py"},
        {"uri": "file:///usr/../etc/passwd"}, {"uri": "https://x/y"}, {"uri": "file:///.lspool/local/app/b"},
        {"data": {"uri": "file:///usr/lib/d.py"}}, {"uri": "file:///usr/lib/"},
    ]);
    let answer = Frame::response(1.into(), places.to_string().as_bytes());
    let now = Instant::now();
    let files = it.without_copy(&answer, now);
    assert_eq!(files, ["/usr/lib/a b.py", "/usr/lib/c.py"]);
    // The second one could not be copied.
    it.note_copies(files, vec!["/usr/lib/a b.py".to_owned()], now);
    assert!(it.without_copy(&answer, now).is_empty(), "nobody waits for it again so soon");
    assert_eq!(it.without_copy(&answer, now + Duration::from_secs(10)), ["/usr/lib/c.py"]);
    let told: Value = serde_json::from_slice(it.incoming(&answer).unwrap().result().unwrap()).unwrap();
    let copy = "file:///home/u/.cache/far%20one/usr/lib/a%20b.py";
    assert_eq!(told[0]["uri"], copy);
    assert_eq!(told[1]["targetUri"], "file:///usr/lib/c.py#L1");
    assert_eq!(told[2]["uri"], "file:///w/x.py");

    // Also one of an earlier process, or of another lspool.
    for path in ["usr/lib/a%20b.py", "usr/lib/of-before.py"] {
        let here = format!("file:///home/u/.cache/far%20one/{path}");
        let asked = notification(&json!({"uri": here}));
        assert_eq!(params(&it.outgoing(&asked).unwrap())["uri"], format!("file:///{path}"));
    }
    let many: Vec<Value> = (0..51).map(|n| json!({"uri": format!("file:///usr/{n}")})).collect();
    let many = Frame::response(1.into(), json!(many).to_string().as_bytes());
    assert!(it.without_copy(&many, now).is_empty(), "nobody opens so many");
}

#[test]
fn nothing_is_copied_if_that_is_not_wanted() {
    let answer = Frame::response(1.into(), br#"{"uri":"file:///usr/lib/a.py"}"#);
    assert!(map().without_copy(&answer, Instant::now()).is_empty());
}

#[test]
fn settings_stay_if_that_is_wanted() {
    let mut it = map().without_settings();
    let told = notification(
        &json!({"rootUri": HERE, "rootPath": "/home/u/lib", "settings": {"a": {"path": "/home/u/lib"}},
        "initializationOptions": {"cwd": "/home/u/lib", "uri": HERE}}),
    );
    let expected = json!({"rootUri": "file:///app", "rootPath": "/opt/lib ä", "settings": {"a": {"path": "/home/u/lib"}},
        "initializationOptions": {"cwd": "/home/u/lib", "uri": HERE}});
    assert_eq!(params(&it.outgoing(&told).unwrap()), expected);
    let answer = format!(r#"[{{"path":"/home/u/lib"}},{{"uri":{HERE:?}}}]"#);
    let answer = it.outgoing(&Frame::response(1.into(), answer.as_bytes())).unwrap();
    assert_eq!(answer.result().unwrap(), br#"[{"path":"/home/u/lib"},{"uri":"file:///app"}]"#);
}
