//! Files that only the other side has, with a real server.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::json;

use super::{Bubble, hover, open, start, wait_until};
use crate::{
    generic::pyright,
    support::{copilot::uri, editor::TestEditor, real::Sandbox},
};

/// Where `getcwd` is defined. A copy takes as long as its engine, so the first answer may be without it.
fn definition(editor: &TestEditor, document: &str) -> PathBuf {
    let at = json!({"textDocument": {"uri": document}, "position": {"line": 1, "character": 13}});
    let mut found = PathBuf::new();
    let place = std::cell::RefCell::new(&mut found);
    wait_until("the definition is in a copy", || {
        let answer = editor.ok("textDocument/definition", at.clone());
        let first = &answer[0];
        let uri = first["uri"].as_str().or(first["targetUri"].as_str()).expect("there is a place");
        **place.borrow_mut() = PathBuf::from(uri.strip_prefix("file://").expect("it is a file"));
        uri.contains("/lspool/remote/far-")
    });
    found
}

/// The stubs of Python's standard library are under the root of the server alone.
#[test]
fn definition_in_a_library_opens_a_copy_in_which_hover_works() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("a.py", "import os\nvalue = os.getcwd()\n"));
    let config = bubble.config(&sandbox, &pyright().command);
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    // Texts name files, which such a recording needs to replay.
    command.args(["--record-texts", "yes", "--config"]).arg(&config);
    let editor = TestEditor::spawn(command);
    editor.agree();
    open(&editor, &sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));
    let copy = definition(&editor, &document);
    assert!(copy.starts_with(sandbox.home().join(".cache/lspool/remote")), "{}", copy.display());
    assert_eq!(fs::metadata(&copy).expect("it exists").permissions().mode() & 0o777, 0o400);
    let text = fs::read_to_string(&copy).expect("it is text");
    let line = text.lines().position(|it| it.starts_with("def getcwd()")).expect("it is the right file");

    let copied = uri(&copy);
    let opened = json!({"uri": copied, "languageId": "python", "version": 1, "text": text});
    editor.notify("textDocument/didOpen", json!({"textDocument": opened}));
    let at = json!({"textDocument": {"uri": copied}, "position": {"line": line, "character": 5}});
    let shown = editor.ok("textDocument/hover", at.clone());
    assert!(shown.to_string().contains("getcwd"), "{shown}");
    // What the server says about it comes back under the name that the editor knows.
    let marked = editor.ok("textDocument/references", json!({
        "textDocument": at["textDocument"], "position": at["position"], "context": {"includeDeclaration": true},
    }));
    let places = marked.as_array().expect("there are some");
    assert!(places.iter().any(|it| it["uri"] == copied.as_str()), "{marked}");
    assert!(places.iter().any(|it| it["uri"] == document.as_str()), "{marked}");
}

/// `unmapped = "pass"`: the editor gets the path as the server has it.
#[test]
fn file_of_the_server_keeps_its_path_if_that_is_wanted() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("a.py", "import os\nvalue = os.getcwd()\n"));
    let config = bubble.config(&sandbox, &pyright().command);
    let text = fs::read_to_string(&config).expect("it was written");
    fs::write(&config, format!("{text}unmapped = \"pass\"\n")).expect("it is ours");
    let editor = start(&sandbox, &config);
    open(&editor, &sandbox, &document);
    let at = json!({"textDocument": {"uri": document}, "position": {"line": 1, "character": 13}});
    let found = editor.ok("textDocument/definition", at).to_string();
    assert!(found.contains("/typeshed-fallback/stdlib/") && !found.contains(".cache"), "{found}");
}
