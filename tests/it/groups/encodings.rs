//! A member that counts in UTF-8, whatever it is offered.

use serde_json::json;

use crate::support::{
    copilot::uri,
    editor::TestEditor,
    puppet::{Puppet, PuppetHost},
    real::Sandbox,
};

const PUPPET: &str = env!("CARGO_BIN_EXE_lspool-puppet");

/// A place behind `é😀`, in a file that the editor has not opened.
#[test]
fn places_in_files_on_the_disk_are_converted() {
    let (host, sandbox) = (PuppetHost::new(), Sandbox::new());
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    command.args(["--record-texts", "yes", "--", PUPPET, "odd", "--", PUPPET, "plain"]);
    host.tie(&mut command);
    let editor = TestEditor::spawn(command);
    editor.agree();
    let asked = editor.request("initialize", json!({"processId": std::process::id(), "capabilities": {}}));
    let mut all = [host.accept(), host.accept()];
    all.sort_by(|one, other| one.args.cmp(&other.args));
    let [odd, plain] = all;
    let ready = |puppet: &Puppet, more: serde_json::Value| {
        let mut capabilities = json!({"textDocumentSync": 2, "definitionProvider": true});
        capabilities.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        puppet.answer(&puppet.expect("initialize"), json!({"capabilities": capabilities}));
        puppet.on("shutdown", |_| Ok(json!(null)));
    };
    ready(&odd, json!({"positionEncoding": "utf-8"}));
    ready(&plain, json!({}));
    editor.wait(&asked).expect("an answer");
    editor.notify("initialized", json!({}));
    let text = "\"é😀\" x\n";
    let open = uri(&sandbox.write("open.txt", text));
    let item = json!({"uri": open, "languageId": "x", "version": 1, "text": text});
    editor.notify("textDocument/didOpen", json!({"textDocument": item}));

    let other = uri(&sandbox.write("other.txt", text));
    let at = |character: u32| json!({"line": 0, "character": character});
    let asked =
        editor.request("textDocument/definition", json!({"textDocument": {"uri": open}, "position": at(6)}));
    let [of_odd, of_plain] = [&odd, &plain].map(|it| it.expect("textDocument/definition"));
    assert_eq!((&of_odd["params"]["position"], &of_plain["params"]["position"]), (&at(9), &at(6)));
    odd.answer(&of_odd, json!({"uri": other, "range": {"start": at(9), "end": at(10)}}));
    plain.answer(&of_plain, json!({"uri": open, "range": {"start": at(6), "end": at(7)}}));
    let found = editor.wait(&asked).expect("an answer");
    let place = |uri: &str| json!({"uri": uri, "range": {"start": at(6), "end": at(7)}});
    assert_eq!(found, json!([place(&other), place(&open)]));
}
