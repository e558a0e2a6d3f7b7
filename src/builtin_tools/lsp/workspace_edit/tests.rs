use proptest::prelude::*;
use serde_json::json;

use super::*;

fn uri(name: &str) -> String {
    format!("file:///w/{name}")
}

fn insert(text: &str) -> Value {
    let start = json!({"line": 0, "character": 0});
    json!({"range": {"start": start, "end": start}, "newText": text})
}

#[allow(clippy::needless_pass_by_value, reason = "tests say `json!` in the middle of a call")]
fn text_edit(name: &str, version: Value, text: &str) -> Value {
    json!({"textDocument": {"uri": uri(name), "version": version}, "edits": [insert(text)]})
}

#[allow(clippy::needless_pass_by_value, reason = "tests say `json!` in the middle of a call")]
fn changes(all: Value) -> Value {
    json!({"documentChanges": all})
}

type Files = BTreeMap<PathBuf, String>;

fn disk(files: &[(&str, &str)]) -> Files {
    files.iter().map(|(name, text)| (Path::new("/w").join(name), (*text).to_owned())).collect()
}

fn planned(edit: &Value, files: &Files) -> Result<EditPlan, PlanError> {
    let facts = |file: &Path| match files.get(file) {
        Some(text) => Fact::Text(Arc::new(Text::new(text.as_str())), Some(3)),
        None if file.ends_with("folder") => Fact::Folder,
        None if file.ends_with("picture") => Fact::Other("is not text in UTF-8"),
        None => Fact::Missing,
    };
    WorkspaceEdit::read(edit).map_err(PlanError::Refused)?.plan(facts, Encoding::Utf16)
}

fn made(plan: &EditPlan, mut files: Files) -> Files {
    let before = files.clone();
    let is_there = |file: &Path, hash: Option<u64>| hash == before.get(file).map(|it| hash_of(it));
    let mut named = BTreeSet::new();
    for change in &plan.changes {
        let names: Vec<&PathBuf> = match change {
            FileChange::Put { file, .. } | FileChange::Remove { file, .. } => vec![file],
            FileChange::Move { from, to, .. } => vec![from, to],
        };
        assert!(names.into_iter().all(|it| named.insert(it.clone())), "each file is named once: {plan:?}");
    }
    let mut moves = Vec::new();
    for change in &plan.changes {
        match change {
            FileChange::Put { file, before, text, .. } => {
                assert!(is_there(file, *before), "{change:?}");
                files.insert(file.clone(), text.clone());
            }
            FileChange::Remove { file, before } => {
                assert!(is_there(file, *before), "{change:?}");
                assert!(files.remove(file).is_some(), "{change:?}");
            }
            FileChange::Move { from, to, before } => {
                assert!(is_there(from, *before), "{change:?}");
                moves.push((from, to));
            }
        }
    }
    for (from, to) in moves {
        let text = files.remove(from).expect("what is moved is there");
        assert!(files.insert(to.clone(), text).is_none(), "nothing is overwritten");
    }
    files
}

#[test]
fn both_forms_are_read() {
    let files = disk(&[("a", "1\n"), ("b", "2\n")]);
    let map = json!({"changes": {uri("a"): [insert("x")], "file:///w/b": []}});
    let plan = planned(&map, &files).unwrap();
    assert_eq!(made(&plan, files.clone())[Path::new("/w/a")], "x1\n");
    assert_eq!((plan.files.len(), plan.files[0].n_edits), (1, 1), "b does not change");
    let list = changes(json!([text_edit("a", json!(null), "x"), text_edit("b", json!(3), "y")]));
    let after = made(&planned(&list, &files).unwrap(), files.clone());
    assert_eq!(after, disk(&[("a", "x1\n"), ("b", "y2\n")]));
    assert_eq!(planned(&Value::Null, &files).unwrap().changes, []);
}

#[test]
fn what_is_not_understood_refuses_all() {
    let files = disk(&[("a", "1\n")]);
    let good = text_edit("a", json!(3), "x");
    let snippet =
        json!({"textDocument": {"uri": uri("a")}, "edits": [{"range": insert("")["range"], "snippet": {}}]});
    for (bad, expected) in [
        (json!({"kind": "link", "uri": uri("a")}), "kind \"link\""),
        (json!({"textDocument": {"uri": "untitled:a"}, "edits": []}), "not the URI of a file"),
        (json!({"textDocument": {"uri": "file:///w/%2e%2e/a"}, "edits": []}), "not the URI of a file"),
        (json!({"textDocument": {"uri": uri("a"), "version": "x"}, "edits": []}), "no number"),
        (json!({"textDocument": {"uri": uri("a")}, "edits": 3}), "no list"),
        (snippet, "snippet"),
        (json!({"kind": "create", "uri": uri("a")}), "/w/a exists"),
        (
            json!({"kind": "rename", "oldUri": uri("a"), "newUri": uri("picture"), "options": {"overwrite": true}}),
            "would overwrite",
        ),
        (json!({"kind": "delete", "uri": uri("folder")}), "removes no folder"),
        (text_edit("picture", json!(null), "x"), "is not text"),
        (json!({"kind": "create", "uri": uri("b"), "annotationId": "none"}), "annotation"),
    ] {
        match planned(&changes(json!([good, bad])), &files) {
            Err(PlanError::Refused(why)) => assert!(why.contains(expected), "{bad}: {why}"),
            other => panic!("{bad}: {other:?}"),
        }
    }
    for wrong in [json!([]), json!({"changes": 3}), json!({"documentChanges": {}})] {
        assert!(matches!(planned(&wrong, &files), Err(PlanError::Refused(_))), "{wrong}");
    }
}

#[test]
fn edits_of_another_text_are_not_made() {
    let files = disk(&[("a", "1\n")]);
    let far = json!({"range": {"start": {"line": 9, "character": 0}, "end": {"line": 9, "character": 0}}, "newText": ""});
    for it in [
        text_edit("a", json!(2), "x"),
        text_edit("gone", json!(null), "x"),
        json!({"textDocument": {"uri": uri("a")}, "edits": [far]}),
        json!({"kind": "delete", "uri": uri("gone")}),
        json!({"kind": "rename", "oldUri": uri("gone"), "newUri": uri("b")}),
    ] {
        let planned = planned(&changes(json!([it])), &files);
        assert!(matches!(planned, Err(PlanError::Changed(_))), "{it}: {planned:?}");
    }
}

#[test]
fn folder_moves_after_edits_of_its_files() {
    let files = disk(&[("folder/a", "1\n")]);
    let edit = changes(json!([
        text_edit("folder/a", json!(3), "x"),
        {"kind": "rename", "oldUri": uri("folder"), "newUri": uri("new")},
        text_edit("new/a", json!(null), "y"),
    ]));
    let plan = planned(&edit, &files).unwrap();
    let [FileChange::Put { file, text, .. }, FileChange::Move { from, to, .. }] = plan.changes.as_slice()
    else {
        panic!("{plan:?}");
    };
    assert_eq!((file.as_path(), text.as_str()), (Path::new("/w/folder/a"), "xy1\n"));
    assert_eq!((from.as_path(), to.as_path()), (Path::new("/w/folder"), Path::new("/w/new")));
    let mixed = changes(json!([
        {"kind": "rename", "oldUri": uri("folder"), "newUri": uri("new")},
        {"kind": "delete", "uri": uri("new/a")},
    ]));
    assert!(matches!(planned(&mixed, &files), Err(PlanError::Refused(_))));
}

#[test]
fn annotations_that_need_the_user_are_noted() {
    let mut edit = changes(json!([{"textDocument": {"uri": uri("a")}, "edits": [insert("x")]}]));
    edit["documentChanges"][0]["edits"][0]["annotationId"] = json!("1");
    edit["changeAnnotations"] = json!({"1": {"label": "in comments", "needsConfirmation": true}});
    assert_eq!(WorkspaceEdit::read(&edit).unwrap().confirm, ["in comments"]);
}

/// What happens to files, step by step.
#[derive(Clone, Debug)]
enum Slow {
    Insert(usize, char),
    Create(usize, bool, bool),
    Rename(usize, usize, bool, bool),
    Delete(usize, bool),
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl Slow {
    fn value(&self) -> Value {
        let options =
            |overwrite: bool, ignore: bool| json!({"overwrite": overwrite, "ignoreIfExists": ignore});
        match *self {
            Slow::Insert(file, text) => text_edit(NAMES[file], Value::Null, &text.to_string()),
            Slow::Create(file, overwrite, ignore) => {
                json!({"kind": "create", "uri": uri(NAMES[file]), "options": options(overwrite, ignore)})
            }
            Slow::Rename(from, to, overwrite, ignore) => json!({
                "kind": "rename", "oldUri": uri(NAMES[from]), "newUri": uri(NAMES[to]),
                "options": options(overwrite, ignore),
            }),
            Slow::Delete(file, ignore) => {
                json!({"kind": "delete", "uri": uri(NAMES[file]), "options": {"ignoreIfNotExists": ignore}})
            }
        }
    }

    /// Inserts between two operations on a file stand in their order.
    fn happen(&self, files: &mut BTreeMap<usize, (String, String)>) -> Option<()> {
        match *self {
            Slow::Insert(file, text) => files.get_mut(&file)?.0.push(text),
            Slow::Create(file, overwrite, ignore) => match files.contains_key(&file) {
                true if !overwrite => return ignore.then_some(()),
                true | false => drop(files.insert(file, Default::default())),
            },
            Slow::Rename(from, to, overwrite, ignore) => {
                if from == to {
                    return Some(());
                }
                let (first, rest) = files.get(&from)?.clone();
                files.insert(from, (String::new(), first.clone() + &rest));
                if files.contains_key(&to) && !overwrite {
                    return ignore.then_some(());
                }
                files.remove(&from);
                files.insert(to, (String::new(), first + &rest));
            }
            Slow::Delete(file, ignore) => {
                if files.remove(&file).is_none() {
                    return ignore.then_some(());
                }
            }
        }
        Some(())
    }
}

fn slow() -> impl Strategy<Value = Slow> {
    let file = || 0..NAMES.len();
    prop_oneof![
        2 => (file(), prop::char::range('x', 'z')).prop_map(|(file, text)| Slow::Insert(file, text)),
        1 => (file(), any::<bool>(), any::<bool>()).prop_map(|(file, one, two)| Slow::Create(file, one, two)),
        2 => (file(), file(), any::<bool>(), any::<bool>()).prop_map(|(from, to, one, two)| Slow::Rename(from, to, one, two)),
        1 => (file(), any::<bool>()).prop_map(|(file, ignore)| Slow::Delete(file, ignore)),
    ]
}

proptest! {
    #[test]
    fn plan_does_what_the_steps_do_one_by_one(steps in prop::collection::vec(slow(), 0..7), there in prop::collection::vec(any::<bool>(), 4)) {
        let files: Files = (0..4).filter(|it| there[*it]).map(|it| (Path::new("/w").join(NAMES[it]), format!("{it}\n"))).collect();
        let mut slowly: BTreeMap<usize, (String, String)> =
            (0..4).filter(|it| there[*it]).map(|it| (it, (String::new(), format!("{it}\n")))).collect();
        let done = steps.iter().try_for_each(|it| it.happen(&mut slowly));
        let edit = changes(steps.iter().map(Slow::value).collect());
        let plan = planned(&edit, &files);
        prop_assert_eq!(plan.is_ok(), done.is_some(), "{:?}", plan);
        if let Ok(plan) = plan {
            let expected: Files =
                slowly.iter().map(|(it, (first, rest))| (Path::new("/w").join(NAMES[*it]), first.clone() + rest)).collect();
            prop_assert_eq!(made(&plan, files), expected, "{:?}", plan);
        }
    }
}
