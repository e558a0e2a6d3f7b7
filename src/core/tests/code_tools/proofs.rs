//! What an answer says of what lspool or the server cannot know.

use serde_json::{Value, json};

use super::{
    check, codes, freshness, places, references,
    world::{Publishes, World},
};
use crate::core::event::Unreadable;

#[track_caller]
fn check_incomplete(answer: &Value, why: &str) {
    let it = &answer["structured"];
    assert_eq!(it["complete"], false, "{answer}");
    assert!(it["why"].as_str().is_some_and(|it| it.contains(why)), "{answer}");
    assert!(answer["text"].as_str().unwrap().starts_with("INCOMPLETE: "), "{answer}");
}

#[test]
fn file_that_holds_word_and_cannot_be_read_makes_answer_incomplete() {
    for why in [Unreadable::Binary, Unreadable::Large, Unreadable::Denied] {
        let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo").file("c.py", "# foo");
        world.forbid("c.py", why);
        let answer = world.call("lsp_references", &references("foo"));
        check_incomplete(&answer, "c.py");
        assert_eq!(places(&answer).len(), 2, "{answer}");
        assert_eq!(answer["structured"]["text_only"]["total"], 0, "{answer}");
        // What the server has read itself is in its answer.
        world.write("c.py", "use foo");
        let answer = world.call("lsp_references", &references("foo"));
        assert_eq!((&answer["structured"]["complete"], places(&answer).len()), (&json!(true), 3), "{answer}");
        let answer = world.call("lsp_workspace_symbols", &json!({"query": "foo"}));
        check_incomplete(&answer, "c.py");
    }
}

#[test]
fn look_that_is_not_whole_makes_each_answer_doubtful() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo");
    world.partial = Some("too many files".to_owned());
    for (tool, arguments) in [
        ("lsp_definition", json!({"symbol": "foo", "file": "a.py"})),
        ("lsp_hover", json!({"symbol": "foo", "file": "a.py"})),
        ("lsp_document_symbols", json!({"file": "a.py"})),
        ("lsp_diagnostics", check("a.py")),
        ("lsp_references", references("foo")),
    ] {
        check_incomplete(&world.call(tool, &arguments), "too many files");
    }
    // What it has not seen to change is asked about again.
    world.write("b.py", "bad");
    world.call("lsp_diagnostics", &json!({}));
    world.partial = None;
    let answer = world.call("lsp_diagnostics", &json!({}));
    assert_eq!(answer["structured"]["files"][0]["file"], "b.py", "{answer}");
}

#[test]
fn pattern_with_a_limit_is_not_whole() {
    let mut world = World::new(1).file("a.py", "bad");
    world.call("lsp_workspace", &json!({}));
    world.partial = Some("too many files".to_owned());
    let answer = world.call("lsp_diagnostics", &json!({"files": ["*.py"]}));
    assert!(answer["text"].as_str().unwrap().contains("NOT CHECKED: files that fit a pattern"), "{answer}");
    // Nothing fits among those that were looked at: that proves nothing either.
    let answer = world.call("lsp_diagnostics", &json!({"files": ["x*.py"]}));
    assert_eq!(
        (codes(&answer).as_str(), &answer["structured"]["complete"]),
        ("none", &json!(false)),
        "{answer}"
    );
}

#[test]
fn paths_through_links_above_the_workspace_are_inside() {
    let mut world = World::new(1).file("a.py", "def foo\nbad").file("sub/b.py", "use foo");
    for (from, to) in
        [("/link/a.py", "/ws/a.py"), ("/link", "/ws"), ("/link/sub", "/ws/sub"), ("/trap", "/etc")]
    {
        world.links.insert(from.into(), to.into());
    }
    let answer = world.call("lsp_hover", &json!({"symbol": "foo", "file": "/link/a.py"}));
    assert_eq!(answer["structured"]["symbol"]["file"], "a.py", "{answer}");
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("/link/a.py"))), ("exact".to_owned(), 1));
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("/link/*.py"))), ("exact".to_owned(), 1));
    let of = |world: &mut World, path: &str| {
        let answer = world.call("lsp_references", &json!({"symbol": "foo", "path": path}));
        (codes(&answer), places(&answer).len())
    };
    for (path, expected) in [("/link/sub/**", 1), ("/ws/sub/*.py", 1), ("/link/*.py", 1), ("sub/**", 1)] {
        assert_eq!(of(&mut world, path), ("none".to_owned(), expected), "{path}");
    }
    for outside in ["/trap", "/other/a.py", "/trap/*.py"] {
        let answer = world.call("lsp_hover", &json!({"symbol": "foo", "file": outside}));
        assert_eq!(codes(&answer), "outside_workspace", "{outside}: {answer}");
        assert_eq!(of(&mut world, outside).0, "outside_workspace", "{outside}");
    }
}

#[test]
fn server_that_watches_no_files_is_shown_what_has_changed() {
    let mut world = World::new(1).file("a.py", "need foo").file("b.py", "def foo").file("c.py", "pass");
    world.server.watches = false;
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))), ("exact".to_owned(), 0));
    world.write("b.py", "def bar");
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))), ("exact".to_owned(), 1));
    world.write("b.py", "def foo");
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))), ("exact".to_owned(), 0));
    // Nothing tells it that a closed file is gone.
    world.remove("c.py");
    let answer = world.call("lsp_diagnostics", &check("a.py"));
    assert_eq!(freshness(&answer).0, "unknown", "{answer}");
    check_incomplete(&world.call("lsp_references", &references("foo")), "c.py changed");
    // Another process reads what is there.
    world.kill();
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))), ("exact".to_owned(), 0));
}

#[test]
fn server_that_watches_no_files_is_not_believed_after_many_changes() {
    let mut world = World::new(1).file("a.py", "need foo");
    world.server.watches = false;
    for n in 0..100 {
        world.write(&format!("m{n}.py"), "pass");
    }
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))).0, "exact");
    for n in 0..100 {
        world.write(&format!("m{n}.py"), "def foo");
    }
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))).0, "unknown");
}

#[test]
fn change_before_a_server_registers_for_changes_is_reported_to_it() {
    let mut world = World::new(1).file("a.py", "need foo").file("b.py", "pass");
    world.server.watches = false;
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))), ("exact".to_owned(), 1));
    world.write("b.py", "def foo");
    world.call("lsp_workspace", &json!({}));
    world.register_for_changes();
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))), ("exact".to_owned(), 0));
}

#[test]
fn error_of_symbols_is_an_error_and_no_empty_outline() {
    let mut world = World::new(1).file("a.py", "def foo\nbad");
    world.server.refuses = vec!["textDocument/documentSymbol"];
    let answer = world.call("lsp_document_symbols", &json!({"file": "a.py"}));
    assert_eq!(codes(&answer), "server_error", "{answer}");
    assert!(answer["text"].as_str().unwrap().contains("it broke"), "{answer}");
    assert_eq!(codes(&world.call("lsp_hover", &json!({"symbol": "foo", "file": "a.py"}))), "server_error");
    check_incomplete(&world.call("lsp_workspace_symbols", &json!({"query": "foo"})), "it broke");
    // What needs no symbols is answered.
    let place = json!({"file": "a.py", "line": 1, "character": 5});
    assert_eq!(codes(&world.call("lsp_definition", &place)), "none");
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))), ("exact".to_owned(), 1));
}

#[test]
fn definition_in_unreadable_file_is_a_place_without_text() {
    let mut world = World::new(1).file("a.py", "use foo").file("b.py", "def foo");
    world.forbid("b.py", Unreadable::Large);
    let answer =
        world.call("lsp_definition", &json!({"symbol": "foo", "file": "a.py", "line": 1, "body": true}));
    let definition = &answer["structured"]["definitions"][0];
    assert_eq!((&definition["file"], &definition["line"]), (&json!("b.py"), &json!(1)), "{answer}");
    assert!(definition["text"].is_null(), "{answer}");
    assert!(answer["text"].as_str().unwrap().contains("larger than lspool reads"), "{answer}");
}

#[test]
fn long_lines_of_definitions_are_clipped() {
    let name = "x".repeat(30_000);
    let mut world = World::new(1).file("a.py", &format!("def {name}"));
    for body in [false, true] {
        let answer =
            world.call("lsp_definition", &json!({"file": "a.py", "line": 1, "character": 6, "body": body}));
        let text = answer["structured"]["definitions"][0]["text"].as_str().unwrap();
        assert!((100..300).contains(&text.chars().count()), "{}", text.len());
    }
}

#[test]
fn further_steps_of_hierarchies_are_proven() {
    let mut world = World::new(1)
        .file("a.py", "def foo")
        .file("b.py", "def bar\nuse foo")
        .file("c.py", "def baz\nuse bar");
    world.server.late = Some("c.py");
    let calls = |depth: u64| json!({"symbol": "foo", "direction": "incoming", "depth": depth});
    let answer = world.call("lsp_call_hierarchy", &calls(2));
    let names = |answer: &Value| -> Vec<String> {
        let all = answer["structured"]["symbols"].as_array().unwrap();
        all.iter().map(|it| it["symbol"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (names(&answer), &answer["structured"]["complete"]),
        (vec!["bar".to_owned(), "baz".to_owned()], &json!(true)),
        "{answer}"
    );
}

#[test]
fn further_steps_of_wide_hierarchies_are_not_called_complete() {
    let mut world = World::new(1).file("a.py", "def foo");
    for n in 0..30 {
        world = world.file(&format!("m{n}.py"), &format!("def caller{n}\nuse foo"));
    }
    let calls = |depth: u64| json!({"symbol": "foo", "direction": "incoming", "depth": depth});
    let answer = world.call("lsp_call_hierarchy", &calls(1));
    assert_eq!(answer["structured"]["complete"], true, "{answer}");
    check_incomplete(&world.call("lsp_call_hierarchy", &calls(2)), "30 symbols");
}

#[test]
fn language_without_server_is_named() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.go", "func bar");
    let answer = world.call("lsp_workspace_symbols", &json!({"query": "bar"}));
    assert!(
        answer["structured"]["notes"][0].as_str().unwrap().starts_with("Go has no language server"),
        "{answer}"
    );
    let answer = world.call("lsp_references", &references("bar"));
    assert!(answer["text"].as_str().unwrap().contains("Go files were not searched"), "{answer}");
    assert_eq!(codes(&world.call("lsp_document_symbols", &json!({"file": "b.go"}))), "no_server");
    let answer = world.call("lsp_workspace", &json!({}));
    assert_eq!(answer["structured"]["missing"], json!({"Go": "not installed"}));
    world.remove("b.go");
    let answer = world.call("lsp_workspace", &json!({}));
    assert_eq!(answer["structured"]["missing"], json!({}));
}

#[test]
fn language_that_appears_is_reported_instead_of_an_answer() {
    let mut world = World::new(1).file("a.py", "def foo");
    world.options["chosenFor"] = json!("workspace");
    assert_eq!(codes(&world.call("lsp_document_symbols", &json!({"file": "a.py"}))), "none");
    // There is no server for it.
    world.write("b.go", "func bar");
    assert_eq!(world.call("lsp_workspace", &json!({}))["structured"]["appeared"], Value::Null);
    world.write("c.ts", "let x");
    assert_eq!(world.call("lsp_workspace", &json!({}))["structured"]["appeared"], json!(["TypeScript"]));
}

#[test]
fn publishing_server_without_watching_is_not_believed_either() {
    let mut world = World::new(1).file("a.py", "bad").file("c.py", "pass");
    world.server.watches = false;
    world.server.publishes = Publishes::Versions;
    world.call("lsp_diagnostics", &check("a.py"));
    world.remove("c.py");
    assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))).0, "unknown");
}

#[test]
fn server_gets_unsaved_texts_and_keeps_them() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "pass");
    world.settings.max_open = 1;
    world.type_text("b.py", "use foo");
    world.type_text("c.py", "use foo");
    let answer = world.call("lsp_references", &json!({"symbol": "foo", "file": "a.py"}));
    let it = &answer["structured"];
    assert_eq!((&it["complete"], it["references"].as_array().map(Vec::len)), (&json!(true), Some(3)), "{it}");
    // What is not on the disk is not said to be saved, and a change makes servers look again.
    assert!(world.server.told.iter().any(|it| it == "textDocument/didChange"));
    assert!(world.server.told.iter().all(|it| it != "textDocument/didSave"), "{:?}", world.server.told);
    world.discard("b.py");
    let answer = world.call("lsp_references", &json!({"symbol": "foo", "file": "a.py"}));
    assert_eq!(answer["structured"]["references"].as_array().map(Vec::len), Some(2));
    // Also where no call asks for them: one file needs what only the editor has in another.
    let mut world = World::new(1).file("a.py", "need bar").file("b.py", "pass");
    world.type_text("b.py", "def bar");
    let answer = world.call("lsp_diagnostics", &json!({"files": ["a.py"]}));
    let report = &answer["structured"]["files"][0];
    assert_eq!((&report["freshness"], &report["diagnostics"]), (&json!("exact"), &json!([])), "{answer}");
}

#[test]
fn server_that_starts_late_gets_unsaved_texts() {
    let mut world = World::new(1).file("a.py", "need bar").file("b.py", "pass");
    world.server.starts_late = 1_000;
    world.type_text("b.py", "def bar");
    let answer = world.call("lsp_diagnostics", &json!({"files": ["a.py"]}));
    let report = &answer["structured"]["files"][0];
    assert_eq!((&report["freshness"], &report["diagnostics"]), (&json!("exact"), &json!([])), "{answer}");
}

#[test]
fn missing_symbol_is_doubted_if_files_may_have_been_missed() {
    let mut world = World::new(1).file("a.py", "def foo");
    let missing = json!({"symbol": "bar", "file": "a.py"});
    let error = |answer: &Value| answer["structured"]["error"].clone();
    assert_eq!(error(&world.call("lsp_hover", &missing))["retry"], false);
    world.partial = Some("a text is unknown".to_owned());
    let rename = json!({"symbol": "bar", "file": "a.py", "new_name": "baz"});
    for (tool, arguments) in [("lsp_hover", &missing), ("lsp_rename", &rename)] {
        let error = error(&world.call(tool, arguments));
        let message = error["message"].as_str().unwrap_or_default();
        assert!(error["retry"] == true && message.contains("a text is unknown"), "{tool}: {error}");
    }
}
