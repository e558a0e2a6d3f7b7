//! Habit 7: completions in the old dialect and in the new one, side by side.

use serde_json::{Value, json};

use super::{answer, said, same};
use crate::support::{copilot::uri, stub::Script};

const TEXT: &str = "def add(a, b):\n    ";

#[test]
fn old_and_new_completion_requests_get_same_answers() {
    let came = same(Script::default, |stage| {
        let session = stage.start();
        session.check_signed_in();
        let file = uri(&stage.sandbox.write("add.py", TEXT));
        let document = json!({"uri": file, "languageId": "python", "version": 3, "text": TEXT});
        session.notify("textDocument/didOpen", json!({"textDocument": document}));
        session.notify("textDocument/didFocus", json!({"textDocument": {"uri": file}}));
        let position = json!({"line": 1, "character": 4});
        let old = json!({
            "uri": file, "version": 3, "position": position, "insertSpaces": true, "tabSize": 4, "source": TEXT,
            "path": "add.py", "relativePath": "add.py", "languageId": "python",
        });
        let mut came = Vec::new();

        let found = session.call("getCompletions", json!({"doc": old, "_": true}));
        let uuid = found.as_ref().map(|it| it["completions"][0]["uuid"].clone()).unwrap_or_default();
        came.push(answer(found));
        came.push(answer(session.call("notifyShown", json!({"uuid": uuid}))));
        came.push(answer(session.call("notifyAccepted", json!({"uuid": uuid, "_": true}))));
        came.push(answer(session.call("notifyRejected", json!({"uuids": [uuid]}))));
        came.push(answer(session.call("getCompletionsCycling", json!({"doc": old}))));
        came.push(answer(
            session.call("getPanelCompletions", json!({"doc": old, "panelId": "copilot:///1"})),
        ));
        session.wait_notification("PanelSolutionsDone", |it| it["panelId"] == "copilot:///1");
        came.extend(said(&session, &["PanelSolution", "PanelSolutionsDone"]));

        let new = json!({"textDocument": {"uri": file, "version": 3}, "position": position, "context": {"triggerKind": 2}});
        let found = session.call("textDocument/inlineCompletion", new);
        let item = found.as_ref().map(|it| it["items"][0].clone()).unwrap_or_default();
        came.push(answer(found));
        session.notify("textDocument/didShowCompletion", json!({"item": item}));
        session
            .notify("textDocument/didPartiallyAcceptCompletion", json!({"item": item, "acceptedLength": 3}));
        came.push(answer(session.call("workspace/executeCommand", item["command"].clone())));
        let panel = json!({"textDocument": {"uri": file, "version": 3}, "position": position, "partialResultToken": 7});
        came.push(answer(session.call("textDocument/copilotPanelCompletion", panel)));
        came.extend(said(&session, &["$/progress"]));
        let stale = json!({"textDocument": {"uri": file, "version": 2}, "position": position, "context": {"triggerKind": 1}});
        came.push(answer(session.call("textDocument/inlineCompletion", stale)));
        assert!(session.shutdown().success());
        came
    });
    let text = Value::Array(came).to_string();
    assert!(
        text.contains("return a + b") && text.contains("PanelSolution") && text.contains("-32801"),
        "{text}"
    );
}
