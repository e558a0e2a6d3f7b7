//! A server elsewhere that several editors share.

use std::{fs, path::Path};

use serde_json::json;

use super::{Bubble, hover, kill, open, processes, start, wait_until};
use crate::{
    generic::pyright,
    support::{copilot::uri, editor::TestEditor, real::Sandbox},
};

const TEXT: &str = "import os\nvalue = os.getcwd()\n";

/// Bubblewrap has two processes for each server.
const EACH: usize = 2;

/// The processes of bubblewrap.
fn servers(sandbox: &Sandbox) -> Vec<u32> {
    let folder = sandbox.workspace().display().to_string();
    processes(|line| line.contains("bwrap") && line.contains(&folder) && line.contains("langserver"))
}

fn definition(editor: &TestEditor, document: &str) -> String {
    let at = json!({"textDocument": {"uri": document}, "position": {"line": 1, "character": 1}});
    editor.ok("textDocument/definition", at)[0]["uri"].as_str().unwrap_or_default().to_owned()
}

fn is_shared(editor: &TestEditor) -> bool {
    editor.ok("lspool/status", json!({}))["backends"][0].to_string().contains("shared")
}

#[test]
fn two_editors_share_one_server_elsewhere() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("a.py", TEXT));
    let config = bubble.config(&sandbox, &pyright().command);
    share(&config);
    let (one, two) = (start(&sandbox, &config), start(&sandbox, &config));
    for editor in [&one, &two] {
        open(editor, &sandbox, &document);
        assert!(hover(editor, &document).contains("getcwd"));
        assert_eq!(definition(editor, &document), document);
        assert!(is_shared(editor));
    }
    let group = servers(&sandbox);
    assert_eq!(group.len(), EACH, "{group:?}");

    // Each is answered from its own text, and files on the disk are those of this machine.
    let change = json!({
        "textDocument": {"uri": document, "version": 2},
        "contentChanges": [{"text": "import os\nvalue = os.getpid()\n"}],
    });
    two.notify("textDocument/didChange", change);
    assert!(hover(&two, &document).contains("getpid"));
    assert!(hover(&one, &document).contains("getcwd"));

    // A definition in a library is a copy here, for each of them.
    let at = json!({"textDocument": {"uri": document}, "position": {"line": 1, "character": 13}});
    let library = one.ok("textDocument/definition", at)[0]["uri"].as_str().unwrap_or_default().to_owned();
    let file = library.strip_prefix("file://").unwrap_or_default();
    assert!(library.contains("/.cache/lspool/remote/") && Path::new(file).exists(), "{library}");

    kill(&group);
    assert!(hover(&one, &document).contains("getcwd"));
    assert!(hover(&two, &document).contains("getpid"));
    let next = servers(&sandbox);
    assert!(next.len() == EACH && next != group, "{next:?}");

    one.shutdown();
    assert!(hover(&two, &document).contains("getpid"));
    two.shutdown();
    wait_until("the server has ended with its last client", || servers(&sandbox).is_empty());
}

fn share(config: &Path) {
    let text = fs::read_to_string(config).expect("it is ours");
    let text = text
        .replace("[server.far.remote]", "share = \"same-client\"\nshare_idle = \"0s\"\n[server.far.remote]");
    fs::write(config, text).expect("it is ours");
}
