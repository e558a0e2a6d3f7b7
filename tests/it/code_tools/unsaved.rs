//! Beside a running editor: its unsaved texts count, and it changes the documents that it has open.

use serde_json::json;

use super::*;
use crate::support::{
    editor::{ServerRequest, TestEditor},
    puppet::{Puppet, PuppetHost},
};

const ON_DISK: &str = "def area(size: int) -> int:\n    return size\n";
const IN_EDITOR: &str = "def surface(size: int) -> int:\n    return size\n";
const USE: &str = "from shapes import surface\n\nprint(surface(2))\n";

/// An editor with an lspool in the workspace of the shell. It has the definition open and not saved.
struct Beside {
    shell: Shell,
    editor: TestEditor,
    server: Puppet,
    _host: PuppetHost,
}

impl Beside {
    fn new(capabilities: &Value) -> Beside {
        let shell = python_server();
        shell.sandbox.write("shapes.py", ON_DISK);
        shell.sandbox.write("use.py", USE);
        let host = PuppetHost::new();
        let mut lspool = shell.sandbox.command(env!("CARGO_BIN_EXE_lspool"));
        lspool.args(["--", env!("CARGO_BIN_EXE_lspool-puppet")]);
        host.tie(&mut lspool);
        let editor = TestEditor::spawn(lspool);
        editor.hold_requests("workspace/applyEdit");
        let initialize = editor.request(
            "initialize",
            json!({"processId": null, "rootUri": null, "capabilities": {"workspace": capabilities}}),
        );
        let server = host.accept();
        server.answer(&server.expect("initialize"), json!({"capabilities": {"textDocumentSync": 1}}));
        editor.wait(&initialize).expect("the puppet has said yes");
        editor.notify("initialized", json!({}));
        let beside = Beside { shell, editor, server, _host: host };
        let document =
            json!({"uri": beside.uri("shapes.py"), "languageId": "python", "version": 1, "text": IN_EDITOR});
        beside.editor.notify("textDocument/didOpen", json!({"textDocument": document}));
        // A document of another workspace is nobody's business.
        let other =
            json!({"uri": "file:///elsewhere/a.py", "languageId": "python", "version": 1, "text": "x"});
        beside.editor.notify("textDocument/didOpen", json!({"textDocument": other}));
        // lspool has read both.
        server_has(&beside.server, 2);
        beside
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}", self.shell.sandbox.workspace().join(name).display())
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.shell.sandbox.workspace().join(name)).expect("it is there")
    }

    /// Runs a command that has the editor make an edit.
    fn while_edited(&self, words: &[&str], make: impl FnOnce(&ServerRequest)) -> (i32, String) {
        let (mut command, mark) = self.shell.command(words);
        let running = command.spawn().expect("lspool starts");
        make(&self.editor.expect_request("workspace/applyEdit"));
        let done = running.wait_with_output().expect("lspool ends");
        mark.wait_gone(PATIENCE);
        let text =
            String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        (done.status.code().unwrap_or(-1), text)
    }
}

fn server_has(server: &Puppet, n: usize) {
    server.wait_received("the documents", |all| {
        all.iter().filter(|it| it["method"] == "textDocument/didOpen").count() == n
    });
}

#[test]
fn unsaved_text_of_running_editor_counts_for_real_pyright() {
    let beside = Beside::new(&json!({}));
    let (status, answer) = beside.shell.json(&["references", "surface"]);
    assert_eq!((status, &answer["complete"], &answer["total"]), (0, &true.into(), &3.into()), "{answer}");
    let (status, text) = beside.shell.lsp(&["diagnostics", "use.py"]);
    assert_eq!(status, 0, "{text}");
    // The editor cannot make edits, and nobody else may change what it has open.
    let (status, text) = beside.shell.lsp(&["rename", "surface", "extent", "--yes"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("makes no edits for servers"), "{text}");
    assert_eq!((beside.text("shapes.py").as_str(), beside.text("use.py").as_str()), (ON_DISK, USE));
    // Without the document, the file counts.
    beside.editor.notify("textDocument/didClose", json!({"textDocument": {"uri": beside.uri("shapes.py")}}));
    beside.server.expect("textDocument/didClose");
    let (status, text) = beside.shell.lsp(&["diagnostics", "use.py"]);
    assert!(status == 1 && text.contains("unknown import symbol"), "{text}");
    beside.editor.forgive_unanswered();
}

#[test]
fn running_editor_makes_edit_of_its_documents_for_real_pyright() {
    let able = json!({"applyEdit": true, "workspaceEdit": {"documentChanges": true}});
    let beside = Beside::new(&able);
    let (status, text) = beside.while_edited(&["rename", "surface", "extent", "--yes"], |request| {
        let changes = request.params["edit"]["documentChanges"].as_array().expect("a list");
        let versions: Vec<_> = changes
            .iter()
            .map(|it| (it["textDocument"]["uri"].clone(), it["textDocument"]["version"].clone()))
            .collect();
        let expected = [(beside.uri("shapes.py"), json!(1)), (beside.uri("use.py"), Value::Null)];
        for (uri, version) in expected {
            assert!(versions.contains(&(uri.into(), version)), "{versions:?}");
        }
        let named = json!({"uri": beside.uri("shapes.py"), "version": 2});
        let text = IN_EDITOR.replace("surface", "extent");
        beside.editor.notify(
            "textDocument/didChange",
            json!({"textDocument": named, "contentChanges": [{"text": text}]}),
        );
        beside.shell.sandbox.write("use.py", &USE.replace("surface", "extent"));
        beside.editor.answer(request, Ok(json!({"applied": true})));
    });
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("no new errors"), "{text}");
    assert_eq!(beside.text("shapes.py"), ON_DISK, "only the editor may write what it has open");
    let (status, text) = beside.while_edited(&["rename", "extent", "size_of", "--yes"], |request| {
        beside.editor.answer(request, Ok(json!({"applied": false, "failureReason": "not now"})));
    });
    assert!(status == 1 && text.contains("not now"), "{text}");
    beside.editor.forgive_unanswered();
}

#[test]
fn stopped_lspool_of_editor_makes_answers_of_real_pyright_unsure() {
    let beside = Beside::new(&json!({}));
    beside.editor.kill(Signal::STOP);
    let (status, text) = beside.shell.lsp(&["references", "area"]);
    let (failing, error) = beside.shell.lsp(&["references", "surface"]);
    let (renaming, why) = beside.shell.lsp(&["rename", "area", "extent", "--yes"]);
    beside.editor.kill(Signal::CONT);
    assert!(status == 3 && text.contains("INCOMPLETE") && text.contains("cannot be asked"), "{text}");
    assert!(failing == 3 && error.contains("no_symbol") && error.contains("cannot be asked"), "{error}");
    assert!(renaming != 0 && beside.text("shapes.py") == ON_DISK, "{why}");
    beside.editor.forgive_unanswered();
}
