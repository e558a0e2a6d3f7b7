//! Calls that edit: whole renames or none, previews, actions, and their answers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    codes,
    world::{Publishes, World, found},
};
use crate::{
    builtin_tools::lsp::FileChange,
    core::event::{Write, WriteFault},
};

fn rename(world: &mut World) -> Value {
    world.call("lsp_rename", &json!({"symbol": "foo", "file": "a.py", "new_name": "bar"}))
}

fn preview(world: &mut World) -> (Value, String) {
    let call = json!({"symbol": "foo", "file": "a.py", "new_name": "bar", "preview": true});
    let answer = world.call("lsp_rename", &call);
    let id = answer["structured"]["edit"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    (answer, id)
}

fn example() -> World {
    World::new(1).file("a.py", "def foo\nuse foo").file("b.py", "\nuse foo").file("c.py", "# foo")
}

/// The text edit of a line of a file.
#[allow(clippy::needless_pass_by_value, reason = "tests say `json!` in the middle of a call")]
fn edit(file: &str, version: Value, line: u32, text: &str) -> Value {
    let range = json!({"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}});
    json!({"textDocument": {"uri": format!("file:///ws/{file}"), "version": version}, "edits": [{"range": range, "newText": text}]})
}

#[test]
fn rename_changes_all_files_and_tells_what_is_left() {
    let mut world = example();
    world.server.index_takes = 5_000;
    let answer = rename(&mut world);
    assert_eq!(answer["structured"]["applied"], true, "{answer}");
    assert_eq!(world.text("a.py"), Some("def bar\nuse bar"));
    assert_eq!(world.text("b.py"), Some("\nuse bar"));
    assert_eq!(answer["structured"]["changes"][0], json!({"file": "a.py", "edits": 2}));
    assert_eq!(answer["structured"]["left"][0], json!({"file": "c.py", "line": 1, "text": "# foo"}));
    assert_eq!(answer["structured"]["diagnostics"][1], json!({"file": "b.py", "diagnostics": []}));
    let text = answer["text"].as_str().unwrap();
    assert!(
        text.starts_with("rename foo (function, a.py:1) to bar · 3 edits in 2 files · made\nno new errors"),
        "{text}"
    );
    let references = world.call("lsp_references", &json!({"symbol": "bar"}));
    assert_eq!(references["structured"]["total"], 3, "the server knows it: {references}");
}

#[test]
fn rename_without_a_whole_index_is_not_made() {
    let mut world = example();
    world.server.index_takes = 10_000_000;
    world.server.reports_work = true;
    let answer = rename(&mut world);
    assert_eq!(codes(&answer), "loading", "{answer}");
    assert_eq!(answer["structured"]["error"]["retry"], true);
    assert!(world.writes.is_empty());
}

#[test]
fn rename_that_the_server_refuses_is_an_error() {
    let mut world = example();
    world.server.answers.insert("textDocument/prepareRename", Value::Null);
    assert_eq!(codes(&rename(&mut world)), "refused");
    let answer = world.call("lsp_rename", &json!({"symbol": "foo", "file": "a.py", "new_name": "foo"}));
    assert_eq!(codes(&answer), "bad_arguments", "{answer}");
    assert!(world.writes.is_empty());
}

#[test]
fn server_that_dies_during_a_rename_costs_a_delay() {
    for method in ["textDocument/rename", "textDocument/prepareRename", "textDocument/references"] {
        let mut world = example();
        world.server.index_takes = 5_000;
        world.server.dies_at = vec![method];
        let answer = rename(&mut world);
        assert_eq!(answer["structured"]["applied"], true, "{method}: {answer}");
        assert_eq!((world.text("b.py"), world.writes.len()), (Some("\nuse bar"), 1));
    }
}

#[test]
fn preview_is_made_later_once_and_only_on_the_same_texts() {
    let mut world = example();
    let (answer, id) = preview(&mut world);
    assert_eq!(answer["structured"]["applied"], false, "{answer}");
    assert_eq!(answer["structured"]["changes"][1]["diff"], "@@ -1,2 +1,2 @@\n \n-use foo\n+use bar\n");
    assert!(world.writes.is_empty());
    let apply = |world: &mut World| world.call("lsp_apply_edit", &json!({"edit": id}));
    world.write("b.py", "use foo\n");
    assert_eq!(codes(&apply(&mut world)), "changed");
    world.write("b.py", "\nuse foo");
    let made = apply(&mut world);
    assert_eq!(made["structured"]["applied"], true, "{made}");
    assert_eq!(world.text("b.py"), Some("\nuse bar"));
    assert_eq!(made["structured"]["left"][0]["file"], "c.py");
    let again = apply(&mut world);
    assert_eq!(codes(&again), "expired", "{again}");
    assert!(again["text"].as_str().unwrap().contains("made already"));
    assert_eq!(codes(&world.call("lsp_apply_edit", &json!({"edit": "e9999"}))), "expired");
    assert_eq!(codes(&world.call("lsp_apply_edit", &json!({"edit": "x"}))), "expired");
    assert_eq!(world.writes.len(), 1);
}

#[test]
fn preview_expires_after_half_an_hour() {
    let mut world = example();
    let (_, id) = preview(&mut world);
    world.pass(31 * 60_000);
    assert_eq!(codes(&world.call("lsp_apply_edit", &json!({"edit": id}))), "expired");
}

#[test]
fn change_at_the_last_moment_stops_the_write() {
    let mut world = example();
    world.before_write = Some(("b.py".to_owned(), "use foo\n# mine".to_owned()));
    let answer = rename(&mut world);
    assert_eq!(codes(&answer), "changed", "{answer}");
    assert_eq!((world.text("a.py"), world.text("b.py")), (Some("def foo\nuse foo"), Some("use foo\n# mine")));
    for (fault, code) in [
        (WriteFault::Outside("/ws/b.py".into()), "outside_workspace"),
        (WriteFault::Refused("/ws/b.py is read-only".to_owned()), "refused"),
        (WriteFault::Failed("no space".to_owned()), "refused"),
    ] {
        world.write_fault = Some(fault);
        assert_eq!(codes(&rename(&mut world)), code);
    }
    assert!(world.writes.is_empty());
}

#[test]
fn cancelled_rename_is_whole_or_not_made() {
    let mut world = example();
    let id = world.begin("lsp_rename", &json!({"symbol": "foo", "file": "a.py", "new_name": "bar"}));
    while world.writes.is_empty() {
        world.pass(1);
    }
    world.cancel(id);
    world.pass(10_000);
    let answer = world.answer(id).unwrap();
    assert_eq!(answer["result"]["structured"]["applied"], true, "{answer}");
    let mut world = example();
    let id = world.begin("lsp_rename", &json!({"symbol": "foo", "file": "a.py", "new_name": "bar"}));
    world.pass(5);
    world.cancel(id);
    world.pass(10_000);
    assert_eq!(world.answer(id).unwrap()["error"]["code"], -32800);
    assert!(world.writes.is_empty());
}

#[test]
fn edits_elsewhere_and_odd_edits_are_refused_whole() {
    let good = edit("a.py", Value::Null, 0, "x");
    let mut outside = good.clone();
    outside["textDocument"]["uri"] = json!("file:///etc/hosts");
    for (bad, code) in [
        (outside, "outside_workspace"),
        (edit(".git/config", Value::Null, 0, "x"), "refused"),
        (json!({"kind": "link", "uri": "file:///ws/a.py"}), "refused"),
        (json!({"kind": "create", "uri": "file:///ws/c.py"}), "refused"),
        (edit("b.py", json!(77), 0, "x"), "changed"),
        (edit("b.py", Value::Null, 9, "x"), "changed"),
        (edit("none.py", Value::Null, 0, "x"), "changed"),
    ] {
        let mut world = example();
        world.server.answers.insert("textDocument/rename", json!({"documentChanges": [good, bad]}));
        let answer = rename(&mut world);
        assert_eq!(codes(&answer), code, "{bad}: {answer}");
        assert!(world.writes.is_empty());
    }
}

#[test]
fn edit_that_needs_the_user_is_shown_only() {
    let mut world = example();
    let mut change = edit("a.py", Value::Null, 0, "x");
    change["edits"][0]["annotationId"] = json!("1");
    let annotations = json!({"1": {"label": "also in comments", "needsConfirmation": true}});
    let answer = json!({"documentChanges": [change], "changeAnnotations": annotations});
    world.server.answers.insert("textDocument/rename", answer);
    let answer = rename(&mut world);
    assert_eq!(answer["structured"]["applied"], false, "{answer}");
    assert!(answer["structured"]["notes"].to_string().contains("also in comments"));
    let made = world.call("lsp_apply_edit", &json!({"edit": answer["structured"]["edit"]}));
    assert_eq!(
        (made["structured"]["applied"].clone(), world.text("a.py")),
        (json!(true), Some("xdef foo\nuse foo"))
    );
}

#[test]
fn renamed_file_is_told_to_the_server() {
    let mut world = example();
    let changes = json!([
        edit("b.py", Value::Null, 0, "# new"),
        {"kind": "rename", "oldUri": "file:///ws/b.py", "newUri": "file:///ws/d.py"},
    ]);
    world.server.answers.insert("textDocument/rename", json!({"documentChanges": changes}));
    let answer = rename(&mut world);
    assert_eq!(
        answer["structured"]["changes"][0],
        json!({"file": "d.py", "from": "b.py", "edits": 1}),
        "{answer}"
    );
    assert_eq!((world.text("b.py"), world.text("d.py")), (None, Some("# new\nuse foo")));
    assert!(world.server.told.iter().any(|it| it == "workspace/didRenameFiles"), "{:?}", world.server.told);
}

#[test]
fn new_errors_are_told_and_old_ones_are_not() {
    for publishes in [Publishes::OnRequest, Publishes::Versions, Publishes::Plain] {
        let mut world = World::new(1).file("a.py", "bad\ndef foo");
        world.server.publishes = publishes;
        let changes = json!([edit("a.py", Value::Null, 1, "bad\n")]);
        world.server.answers.insert("textDocument/rename", json!({"documentChanges": changes}));
        let answer = rename(&mut world);
        let diagnostics = &answer["structured"]["diagnostics"][0]["diagnostics"];
        assert_eq!(diagnostics.as_array().map(Vec::len), Some(1), "{publishes:?} {answer}");
        assert!(answer["text"].as_str().unwrap().contains("NEW ERRORS: 1\n  a.py:"), "{answer}");
    }
    let mut world = World::new(1).file("a.py", "def foo");
    world.server.publishes = Publishes::Never;
    let answer = rename(&mut world);
    assert_eq!(answer["structured"]["applied"], true, "{answer}");
    assert!(answer["text"].as_str().unwrap().contains("NOT CHECKED: a.py"), "{answer}");
}

#[test]
fn actions_have_edits_reasons_or_commands() {
    let mut world = example();
    let actions = json!([
        {"title": "Add a line", "kind": "quickfix", "isPreferred": true, "edit": {"documentChanges": [edit("a.py", Value::Null, 0, "# new\n")]}},
        {"title": "Later", "kind": "refactor", "data": 1},
        {"title": "Not here", "kind": "refactor", "disabled": {"reason": "nothing is selected"}},
        {"title": "Run it", "command": "run.it", "arguments": []},
        {"title": "Outside", "edit": {"changes": {"file:///etc/hosts": []}}},
    ]);
    world.server.answers.insert("textDocument/codeAction", actions);
    let resolved = json!({"title": "Later", "kind": "refactor", "edit": {"documentChanges": [edit("b.py", Value::Null, 0, "# later")]}, "command": {"command": "then.this"}});
    world.server.answers.insert("codeAction/resolve", resolved);
    let answer = world.call("lsp_code_actions", &json!({"file": "a.py", "start_line": 1}));
    let all = answer["structured"]["actions"].as_array().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(all.len(), 5, "{answer}");
    assert_eq!((&all[0]["preferred"], &all[0]["changes"][0]["file"]), (&json!(true), &json!("a.py")));
    assert_eq!(all[2]["disabled"], "nothing is selected");
    assert_eq!(all[3]["disabled"], "it needs the command run.it, which lspool does not run");
    assert!(all[4]["disabled"].as_str().unwrap().contains("outside the workspace"), "{answer}");
    assert!(all[1]["notes"].to_string().contains("then.this"), "{answer}");
    let made = world.call("lsp_apply_edit", &json!({"edit": all[1]["edit"]}));
    assert_eq!(
        (made["structured"]["applied"].clone(), world.text("b.py")),
        (json!(true), Some("# later\nuse foo"))
    );
    let made = world.call("lsp_apply_edit", &json!({"edit": all[0]["edit"]}));
    assert_eq!(
        (made["structured"]["applied"].clone(), world.text("a.py")),
        (json!(true), Some("# new\ndef foo\nuse foo"))
    );
    assert_eq!(
        codes(&world.call("lsp_code_actions", &json!({"file": "a.py", "start_line": 99}))),
        "bad_arguments"
    );
}

#[test]
fn file_is_formatted() {
    let mut world = example();
    let edits = edit("a.py", Value::Null, 0, "# formatted\n")["edits"].clone();
    world.server.answers.insert("textDocument/formatting", edits);
    let shown = world.call("lsp_format", &json!({"file": "a.py", "preview": true}));
    assert_eq!(shown["structured"]["applied"], false, "{shown}");
    let answer = world.call("lsp_format", &json!({"file": "a.py"}));
    assert_eq!(
        (answer["structured"]["applied"].clone(), world.text("a.py")),
        (json!(true), Some("# formatted\ndef foo\nuse foo"))
    );
    world.server.answers.insert("textDocument/formatting", Value::Null);
    let answer = world.call("lsp_format", &json!({"file": "a.py"}));
    assert_eq!(answer["structured"]["applied"], false, "{answer}");
    assert!(answer["text"].as_str().unwrap().contains("nothing to change"));
    let answer = world.call("lsp_format", &json!({"file": "a.py", "start_line": 1}));
    assert_eq!(codes(&answer), "not_supported", "{answer}");
}

/// Whether a write is the whole rename of one of these states of the disk.
pub(super) fn is_whole_rename(
    (write, states): &(Write, Vec<BTreeMap<PathBuf, String>>),
    old: &str,
    new: &str,
) -> bool {
    states.iter().any(|state| {
        let mut expected: BTreeMap<&Path, String> = BTreeMap::new();
        for (file, line) in found(state, old) {
            let (file, text) = state.get_key_value(&file).unwrap();
            let text = expected.entry(file).or_insert_with(|| text.clone());
            let mut lines: Vec<String> = text.split('\n').map(ToOwned::to_owned).collect();
            lines[line] = lines[line].replace(old, new);
            *text = lines.join("\n");
        }
        let put = write.changes.iter().filter_map(|it| match it {
            FileChange::Put { file, text, .. } => Some((file.as_path(), text.clone())),
            FileChange::Remove { .. } | FileChange::Move { .. } => None,
        });
        put.collect::<BTreeMap<_, _>>() == expected && write.changes.len() == expected.len()
    })
}
