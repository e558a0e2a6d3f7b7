//! The documents that an editor has open, and edits that it makes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value, json};

use super::{
    Encoding, FileChange, Position, Text,
    diff::{Line, script},
    hash_of,
};
use crate::rpc::file_uri;

/// An editor, for as long as it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EditorId(pub u64);

/// What all editors have open.
#[derive(Clone, Debug, Default)]
pub struct Editors {
    /// Each editor. Of unsaved texts of one file, that of the first editor counts.
    pub all: Vec<EditorDocuments>,
    /// Why unsaved texts may be missing, if so.
    pub unknown: Option<String>,
}

/// What an editor has open, and what edits it makes.
#[derive(Clone, Debug, Default)]
pub struct EditorDocuments {
    /// The editor.
    pub editor: EditorId,
    /// The documents with a path.
    pub documents: Vec<EditorDocument>,
    /// Whether it makes edits for servers.
    pub applies: bool,
    /// Its `workspaceEdit` capability.
    pub capability: Value,
    /// The name of the encoding of its positions.
    pub encoding: Option<String>,
}

/// An open document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorDocument {
    /// Its name for the editor.
    pub uri: String,
    /// The path in it.
    pub path: PathBuf,
    /// Its version.
    pub version: Option<i64>,
    /// Its text. `None`: lspool does not know it.
    pub text: Option<Arc<str>>,
}

/// Why an editor cannot make an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotEditable {
    /// This file has another text than the edit assumes.
    Changed(PathBuf),
    /// The editor cannot, for this reason.
    Refused(String),
}

impl EditorDocuments {
    /// The changes as one edit of the protocol. `open` has the documents by real path; `disk` reads other files.
    pub fn edit(
        &self,
        changes: &[FileChange],
        open: &BTreeMap<PathBuf, EditorDocument>,
        disk: impl Fn(&Path) -> Option<Arc<str>>,
    ) -> Result<Value, NotEditable> {
        let refused = |why: &str| Err(NotEditable::Refused(format!("the editor {why}")));
        if !self.applies {
            return refused("has a file of this edit open, and makes no edits for servers");
        }
        let Some(encoding) = Encoding::named(self.encoding.as_deref()) else {
            return refused("counts characters in a way that lspool does not know");
        };
        let mut steps = Vec::new();
        for change in changes {
            let step = Step::of(change, open, &disk, encoding)?;
            if let Some(needed) = step.needs()
                && !self.can(needed)
            {
                return refused(&format!("has a file of this edit open, and does not {needed} files"));
            }
            steps.extend(step.values());
        }
        if self.capability["documentChanges"] == true {
            return Ok(json!({"documentChanges": steps}));
        }
        let texts = steps.into_iter().map(|mut it| {
            let uri = it["textDocument"]["uri"].as_str().map(ToOwned::to_owned);
            (uri.unwrap_or_default(), it["edits"].take())
        });
        Ok(json!({"changes": texts.collect::<Map<_, _>>()}))
    }

    fn can(&self, operation: &str) -> bool {
        let offered = self.capability["resourceOperations"].as_array();
        self.capability["documentChanges"] == true
            && offered.is_some_and(|it| it.iter().any(|it| it == operation))
    }
}

/// What happens to one file.
enum Step {
    Edit(Value),
    Create(Value, Value),
    Delete(Value),
    Rename(Value),
}

impl Step {
    fn of(
        change: &FileChange,
        open: &BTreeMap<PathBuf, EditorDocument>,
        disk: &impl Fn(&Path) -> Option<Arc<str>>,
        encoding: Encoding,
    ) -> Result<Step, NotEditable> {
        let uri = |file: &Path| open.get(file).map_or_else(|| file_uri(file), |it| it.uri.clone());
        let text_of = |file: &Path| match open.get(file) {
            Some(document) => document.text.clone(),
            None => disk(file),
        };
        let expect = |file: &Path, before: u64| {
            let text = text_of(file).filter(|it| hash_of(it) == before);
            text.ok_or_else(|| NotEditable::Changed(file.to_owned()))
        };
        let edit = |file: &Path, version: Option<i64>, before: &str, after: &str| {
            json!({
                "textDocument": {"uri": uri(file), "version": version},
                "edits": line_edits(before, after, encoding),
            })
        };
        match change {
            FileChange::Put { file, before: Some(before), text, .. } => {
                let known = expect(file, *before)?;
                let version = open.get(file).and_then(|it| it.version);
                Ok(Step::Edit(edit(file, version, &known, text)))
            }
            FileChange::Put { file, before: None, text, .. } => {
                if text_of(file).is_some() {
                    return Err(NotEditable::Changed(file.clone()));
                }
                Ok(Step::Create(json!({"kind": "create", "uri": uri(file)}), edit(file, None, "", text)))
            }
            FileChange::Remove { file, before } => {
                if let Some(before) = before {
                    expect(file, *before)?;
                }
                Ok(Step::Delete(json!({"kind": "delete", "uri": uri(file)})))
            }
            FileChange::Move { from, to, before } => {
                if let Some(before) = before {
                    expect(from, *before)?;
                }
                Ok(Step::Rename(json!({"kind": "rename", "oldUri": uri(from), "newUri": uri(to)})))
            }
        }
    }

    /// The operation on files that the editor must offer.
    fn needs(&self) -> Option<&'static str> {
        match self {
            Step::Edit(_) => None,
            Step::Create(..) => Some("create"),
            Step::Delete(_) => Some("delete"),
            Step::Rename(_) => Some("rename"),
        }
    }

    fn values(self) -> Vec<Value> {
        match self {
            Step::Edit(it) | Step::Delete(it) | Step::Rename(it) => vec![it],
            Step::Create(file, text) => vec![file, text],
        }
    }
}

/// Edits of whole lines, from one text to another: an editor keeps cursors and marks in all other lines.
fn line_edits(before: &str, after: &str, encoding: Encoding) -> Vec<Value> {
    let (old, new) = (Text::new(before), Text::new(after));
    let (lines, new_lines) = (old.whole_lines(), new.whole_lines());
    let place = |line: usize| match u32::try_from(line).unwrap_or(u32::MAX) {
        line if line < old.n_lines() => Position { line, character: 0 },
        _ => {
            let line = old.n_lines().saturating_sub(1);
            let units: usize = old.line(line).chars().map(|it| encoding.units(it)).sum();
            Position { line, character: u32::try_from(units).unwrap_or(u32::MAX) }
        }
    };
    let mut edits = Vec::new();
    let (mut at, mut at_new) = (0, 0);
    let mut open: Option<(usize, String)> = None;
    let mut close = |open: &mut Option<(usize, String)>, end: usize| {
        if let Some((start, text)) = open.take() {
            let range = json!({"start": place(start).value(), "end": place(end).value()});
            edits.push(json!({"range": range, "newText": text}));
        }
    };
    for it in script(&lines, &new_lines) {
        match it {
            Line::Same => {
                close(&mut open, at);
                (at, at_new) = (at + 1, at_new + 1);
            }
            Line::Old => {
                open.get_or_insert_with(|| (at, String::new()));
                at += 1;
            }
            Line::New => {
                open.get_or_insert_with(|| (at, String::new())).1.push_str(new_lines[at_new]);
                at_new += 1;
            }
        }
    }
    close(&mut open, at);
    edits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::builtin_tools::lsp::{TextEdit, spliced, splices};

    fn open(text: &str) -> BTreeMap<PathBuf, EditorDocument> {
        let path = PathBuf::from("/w/a.py");
        let uri = "file:///w/A.py".to_owned();
        let document = EditorDocument { uri, path: path.clone(), version: Some(7), text: Some(text.into()) };
        BTreeMap::from([(path, document)])
    }

    fn editor(capability: Value) -> EditorDocuments {
        EditorDocuments { applies: true, capability, ..EditorDocuments::default() }
    }

    fn put(file: &str, before: Option<&str>, text: &str) -> FileChange {
        FileChange::Put { file: file.into(), before: before.map(hash_of), text: text.to_owned(), like: None }
    }

    #[test]
    fn open_document_is_edited_under_its_own_name_and_version() {
        let changes = [put("/w/a.py", Some("a\nb\n"), "a\nc\n"), put("/w/b.py", Some("x"), "y")];
        let disk = |file: &Path| file.ends_with("b.py").then(|| Arc::from("x"));
        let edit = editor(json!({"documentChanges": true})).edit(&changes, &open("a\nb\n"), disk);
        let range = |l1: u32, c1: u32, l2: u32, c2: u32| json!({"start": {"line": l1, "character": c1}, "end": {"line": l2, "character": c2}});
        assert_eq!(
            edit,
            Ok(json!({"documentChanges": [
                {"textDocument": {"uri": "file:///w/A.py", "version": 7}, "edits": [{"range": range(1, 0, 2, 0), "newText": "c\n"}]},
                {"textDocument": {"uri": "file:///w/b.py", "version": null}, "edits": [{"range": range(0, 0, 0, 1), "newText": "y"}]},
            ]}))
        );
        let plain = editor(json!({})).edit(&changes, &open("a\nb\n"), disk).unwrap();
        assert_eq!(plain["changes"]["file:///w/A.py"][0]["newText"], "c\n");
        // Neither the text of the editor nor that of the disk may be another one.
        let edit = editor(json!({})).edit(&changes, &open("a\nB\n"), disk);
        assert_eq!(edit, Err(NotEditable::Changed("/w/a.py".into())));
        let edit = editor(json!({})).edit(&changes, &open("a\nb\n"), |_| None);
        assert_eq!(edit, Err(NotEditable::Changed("/w/b.py".into())));
    }

    #[test]
    fn editor_makes_only_what_it_offers() {
        let new = [put("/w/a.py", Some("a"), "b"), put("/w/new.py", None, "n")];
        let why = |capability: Value| match editor(capability).edit(&new, &open("a"), |_| None) {
            Err(NotEditable::Refused(why)) => why,
            other => format!("{other:?}"),
        };
        assert!(why(json!({"documentChanges": true})).contains("does not create files"));
        assert!(why(json!({"resourceOperations": ["create"]})).contains("does not create files"));
        let offered = json!({"documentChanges": true, "resourceOperations": ["create"]});
        let edit = editor(offered).edit(&new, &open("a"), |_| None).unwrap();
        assert_eq!(edit["documentChanges"][1], json!({"kind": "create", "uri": "file:///w/new.py"}));
        assert_eq!(edit["documentChanges"][2]["edits"][0]["newText"], "n");
        let none = EditorDocuments::default().edit(&new, &open("a"), |_| None);
        assert!(matches!(none, Err(NotEditable::Refused(why)) if why.contains("makes no edits")));
    }

    proptest! {
        #[test]
        fn line_edits_lead_to_the_new_text(before in "[ab😀\\n\\r]{0,16}", after in "[ab😀\\n\\r]{0,16}") {
            for encoding in [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32] {
                let edits: Vec<TextEdit> =
                    line_edits(&before, &after, encoding).iter().map(|it| TextEdit::read(it).unwrap()).collect();
                let text = Text::new(before.as_str());
                // Not through `splices`, which makes line ends alike.
                let places: Vec<_> = edits.iter().map(|it| {
                    let bare = TextEdit { text: String::new(), ..it.clone() };
                    let mut splice = splices(&text, &[bare], encoding).unwrap().remove(0);
                    splice.text.clone_from(&it.text);
                    splice
                }).collect();
                prop_assert_eq!(spliced(&before, &places), after.as_str());
            }
        }
    }
}
