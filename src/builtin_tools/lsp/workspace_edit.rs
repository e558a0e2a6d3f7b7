//! A `WorkspaceEdit` of the protocol, and the plan of what it does to each file.
//!
//! **The whole edit is understood and checked before there is a plan**: each kind of change, each version, each place.
//! The steps of an edit are carried out on the files as they were seen, and the plan says what is different in the end.
//! So a plan has no order: each file is named once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Encoding, Text, TextEdit,
    text_edits::{brief, spliced, splices},
};
use crate::{rpc::file_path, util::fnv::fnv1a};

/// An edit as a server gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceEdit {
    steps: Vec<Step>,
    /// What the server wants the user to confirm.
    pub confirm: Vec<String>,
}

/// What an edit does to files.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Text { file: PathBuf, version: Option<i64>, edits: Vec<TextEdit> },
    Create { file: PathBuf, if_exists: IfExists },
    Rename { from: PathBuf, to: PathBuf, if_exists: IfExists },
    Delete { file: PathBuf, if_missing: IfMissing },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfExists {
    Overwrite,
    Ignore,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfMissing {
    Ignore,
    Fail,
}

impl WorkspaceEdit {
    /// Reads an edit. `null` is an edit without changes.
    pub fn read(value: &Value) -> Result<WorkspaceEdit, String> {
        let mut edit = WorkspaceEdit::default();
        match value {
            Value::Null => return Ok(edit),
            Value::Object(_) => {}
            other => return Err(format!("it is no edit: {}", brief(other))),
        }
        if let Value::Array(changes) = &value["documentChanges"] {
            for it in changes {
                edit.steps.push(Step::read(it)?);
                edit.note_annotations(it, &value["changeAnnotations"])?;
            }
        } else if let Value::Object(changes) = &value["changes"] {
            for (uri, edits) in changes {
                edit.steps.push(Step::Text {
                    file: path(&uri.as_str().into())?,
                    version: None,
                    edits: read_edits(edits)?,
                });
            }
        } else if !value["documentChanges"].is_null() || !value["changes"].is_null() {
            return Err(format!("its changes are no list: {}", brief(value)));
        }
        Ok(edit)
    }

    /// Text edits of one file.
    pub fn of_file(file: &Path, edits: &Value) -> Result<WorkspaceEdit, String> {
        let edits = if edits.is_null() { Vec::new() } else { read_edits(edits)? };
        let step = Step::Text { file: file.to_owned(), version: None, edits };
        Ok(WorkspaceEdit { steps: vec![step], confirm: Vec::new() })
    }

    fn note_annotations(&mut self, change: &Value, annotations: &Value) -> Result<(), String> {
        let edits = change["edits"].as_array().into_iter().flatten();
        for id in edits.chain([change]).filter_map(|it| it["annotationId"].as_str()) {
            let annotation = &annotations[id];
            if annotation.is_null() {
                return Err(format!("it has no annotation {id:?}"));
            }
            let label = annotation["label"].as_str().unwrap_or(id);
            if annotation["needsConfirmation"] == true && !self.confirm.iter().any(|it| it == label) {
                self.confirm.push(label.to_owned());
            }
        }
        Ok(())
    }

    /// The files that it names.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let mut all = BTreeSet::new();
        for step in &self.steps {
            match step {
                Step::Text { file, .. } | Step::Create { file, .. } | Step::Delete { file, .. } => {
                    all.insert(file.clone());
                }
                Step::Rename { from, to, .. } => all.extend([from.clone(), to.clone()]),
            }
        }
        all
    }

    /// The files whose texts it changes.
    pub fn texts(&self) -> BTreeSet<PathBuf> {
        let texts = self.steps.iter().filter_map(|step| match step {
            Step::Text { file, edits, .. } if !edits.is_empty() => Some(file.clone()),
            Step::Text { .. } | Step::Create { .. } | Step::Rename { .. } | Step::Delete { .. } => None,
        });
        texts.collect()
    }

    /// The text edits of a file.
    pub fn edits_of<'a>(&'a self, of: &'a Path) -> impl Iterator<Item = &'a TextEdit> {
        let edits = self.steps.iter().filter_map(move |step| match step {
            Step::Text { file, edits, .. } if file == of => Some(edits),
            Step::Text { .. } | Step::Create { .. } | Step::Rename { .. } | Step::Delete { .. } => None,
        });
        edits.flatten()
    }

    /// Leaves out the text edits of a file.
    pub fn leave_out(&mut self, of: &Path) {
        self.steps.retain(|step| !matches!(step, Step::Text { file, .. } if file == of));
    }

    /// Checks the edit on the files as they are, and plans it.
    pub fn plan(&self, facts: impl Fn(&Path) -> Fact, encoding: Encoding) -> Result<EditPlan, PlanError> {
        let mut disk =
            Disk { facts, encoding, files: BTreeMap::new(), folders: Vec::new(), plan: EditPlan::default() };
        for step in &self.steps {
            disk.take(step)?;
        }
        disk.finish()
    }
}

impl Step {
    fn read(value: &Value) -> Result<Step, String> {
        let options = &value["options"];
        let is = |key: &str| options[key] == true;
        // To overwrite wins over to ignore.
        let if_exists = match (is("overwrite"), is("ignoreIfExists")) {
            (true, _) => IfExists::Overwrite,
            (false, true) => IfExists::Ignore,
            (false, false) => IfExists::Fail,
        };
        match &value["kind"] {
            Value::Null => {
                let document = &value["textDocument"];
                let version = match &document["version"] {
                    Value::Null => None,
                    version => {
                        Some(version.as_i64().ok_or_else(|| format!("a version is no number: {version}"))?)
                    }
                };
                Ok(Step::Text { file: path(&document["uri"])?, version, edits: read_edits(&value["edits"])? })
            }
            Value::String(kind) if kind == "create" => {
                Ok(Step::Create { file: path(&value["uri"])?, if_exists })
            }
            Value::String(kind) if kind == "rename" => {
                Ok(Step::Rename { from: path(&value["oldUri"])?, to: path(&value["newUri"])?, if_exists })
            }
            Value::String(kind) if kind == "delete" => {
                let if_missing = if is("ignoreIfNotExists") { IfMissing::Ignore } else { IfMissing::Fail };
                Ok(Step::Delete { file: path(&value["uri"])?, if_missing })
            }
            other => Err(format!("lspool does not know changes of kind {other}")),
        }
    }
}

fn read_edits(value: &Value) -> Result<Vec<TextEdit>, String> {
    let Value::Array(edits) = value else { return Err(format!("its edits are no list: {}", brief(value))) };
    edits.iter().map(TextEdit::read).collect()
}

/// The path of a URI. One with `..` or such is no path of a file.
fn path(uri: &Value) -> Result<PathBuf, String> {
    let path = uri.as_str().and_then(file_path);
    let is_plain = |it: &PathBuf| {
        it.is_absolute()
            && !it.as_os_str().as_encoded_bytes().contains(&0)
            && it
                .components()
                .all(|it| !matches!(it, std::path::Component::ParentDir | std::path::Component::CurDir))
    };
    path.filter(is_plain).ok_or_else(|| format!("{uri} is not the URI of a file"))
}

/// What is known of a file before the edit.
#[derive(Clone, Debug)]
pub enum Fact {
    /// There is no such file.
    Missing,
    /// It has this text, and this version at the server, if it is open there.
    Text(Arc<Text>, Option<i64>),
    /// It is a folder.
    Folder,
    /// It exists, and its text cannot be changed for this reason.
    Other(&'static str),
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The edit is of other texts than those that are there.
    Changed(String),
    /// lspool does not make such an edit.
    Refused(String),
}

/// What happens to files. Each file is named once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FileChange {
    /// A file gets this text.
    Put {
        /// The file.
        file: PathBuf,
        /// The hash of the text that must be there. `None`: there must be no such file.
        before: Option<u64>,
        /// The text.
        text: String,
        /// The file whose permissions it takes, as it is before all changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        like: Option<PathBuf>,
    },
    /// A file is removed.
    Remove {
        /// The file.
        file: PathBuf,
        /// The hash of its text, if it has one.
        before: Option<u64>,
    },
    /// A file or a folder gets another name, after all other changes.
    Move {
        /// The old name.
        from: PathBuf,
        /// The new name, under which there must be nothing.
        to: PathBuf,
        /// The hash of its text, if it has one.
        before: Option<u64>,
    },
}

/// What an edit does.
#[derive(Clone, Debug, Default)]
pub struct EditPlan {
    /// All changes.
    pub changes: Vec<FileChange>,
    /// The same for people, by file.
    pub files: Vec<PlannedFile>,
    /// Files and folders with another name: old and new.
    pub renamed: Vec<(PathBuf, PathBuf)>,
}

/// What an edit does to a file.
#[derive(Clone, Debug)]
pub struct PlannedFile {
    /// The file, by its name after the edit, or its last one.
    pub file: PathBuf,
    /// Its name before, if that was another one.
    pub from: Option<PathBuf>,
    /// Its text before. `None`: it is new, or has no text.
    pub before: Option<Arc<Text>>,
    /// Its text after. `None`: it is removed, or has no text.
    pub after: Option<Arc<Text>>,
    /// How many places are changed.
    pub n_edits: usize,
    /// Whether it exists after the edit.
    pub is_left: bool,
}

/// The hash by which a text is known again.
pub fn hash_of(text: &str) -> u64 {
    fnv1a(text.as_bytes())
}

/// The files in the course of an edit.
struct Disk<F> {
    facts: F,
    encoding: Encoding,
    /// Each file that the edit names. `None`: it is not there.
    files: BTreeMap<PathBuf, Option<Node>>,
    /// Folders with their new names.
    folders: Vec<(PathBuf, PathBuf)>,
    plan: EditPlan,
}

/// A file in the course of an edit.
#[derive(Clone, Debug)]
struct Node {
    /// Its name before the edit; `None` if it is new.
    origin: Option<PathBuf>,
    content: Content,
    version: Option<i64>,
    /// Edits of its text as it is.
    pending: Vec<TextEdit>,
    n_edits: usize,
    is_edited: bool,
}

#[derive(Clone, Debug)]
enum Content {
    Text(Arc<Text>),
    Folder,
    Other(&'static str),
}

fn refused<T>(why: String) -> Result<T, PlanError> {
    Err(PlanError::Refused(why))
}

impl<F: Fn(&Path) -> Fact> Disk<F> {
    fn take(&mut self, step: &Step) -> Result<(), PlanError> {
        match step {
            Step::Text { file, version, edits } => self.edit(file, *version, edits),
            Step::Create { file, if_exists } => {
                self.refuse_in_moved(file)?;
                let is_there = self.node(file).is_some();
                match if_exists {
                    IfExists::Fail if is_there => refused(format!("{} exists", file.display())),
                    IfExists::Ignore if is_there => Ok(()),
                    IfExists::Fail | IfExists::Ignore | IfExists::Overwrite => {
                        self.overwritable(file)?;
                        let content = Content::Text(Arc::new(Text::new("")));
                        let node = Node {
                            origin: None,
                            content,
                            version: None,
                            pending: Vec::new(),
                            n_edits: 0,
                            is_edited: true,
                        };
                        self.files.insert(file.clone(), Some(node));
                        Ok(())
                    }
                }
            }
            Step::Rename { from, to, if_exists } => self.rename(from, to, *if_exists),
            Step::Delete { file, if_missing } => {
                self.refuse_in_moved(file)?;
                match (self.node(file).as_ref().map(|it| it.content.clone()), if_missing) {
                    (None, IfMissing::Ignore) => Ok(()),
                    (None, IfMissing::Fail) => {
                        Err(PlanError::Changed(format!("{} does not exist", file.display())))
                    }
                    (Some(Content::Folder), _) => {
                        refused(format!("{} is a folder: lspool removes no folder", file.display()))
                    }
                    (Some(Content::Text(_) | Content::Other(_)), _) => {
                        self.files.insert(file.clone(), None);
                        Ok(())
                    }
                }
            }
        }
    }

    fn node(&mut self, file: &Path) -> &mut Option<Node> {
        let facts = &self.facts;
        self.files.entry(file.to_owned()).or_insert_with(|| {
            let (content, version) = match facts(file) {
                Fact::Missing => return None,
                Fact::Text(text, version) => (Content::Text(text), version),
                Fact::Folder => (Content::Folder, None),
                Fact::Other(why) => (Content::Other(why), None),
            };
            let origin = Some(file.to_owned());
            Some(Node { origin, content, version, pending: Vec::new(), n_edits: 0, is_edited: false })
        })
    }

    /// What is moved with its folder is edited before, and not moved once more.
    fn refuse_in_moved(&self, file: &Path) -> Result<(), PlanError> {
        match self.folders.iter().find(|(from, to)| file.starts_with(from) || file.starts_with(to)) {
            Some((from, _)) => {
                refused(format!("it moves the folder {} and changes files in it", from.display()))
            }
            None => Ok(()),
        }
    }

    fn overwritable(&mut self, file: &Path) -> Result<(), PlanError> {
        match self.node(file).as_ref().map(|it| &it.content) {
            Some(Content::Folder) => refused(format!("{} is a folder", file.display())),
            Some(Content::Other(why)) => {
                refused(format!("it would overwrite {}, which {why}", file.display()))
            }
            Some(Content::Text(_)) | None => Ok(()),
        }
    }

    fn edit(&mut self, file: &Path, version: Option<i64>, edits: &[TextEdit]) -> Result<(), PlanError> {
        let moved = self.folders.iter().find_map(|(from, to)| Some(from.join(file.strip_prefix(to).ok()?)));
        let file = moved.as_deref().unwrap_or(file);
        let shown = file.display();
        let Some(node) = self.node(file) else {
            return Err(PlanError::Changed(format!("{shown} does not exist")));
        };
        match &node.content {
            Content::Text(_) => {}
            Content::Folder => return refused(format!("{shown} is a folder")),
            Content::Other(why) => return refused(format!("{shown} {why}")),
        }
        if !node.is_edited && version.is_some() && version != node.version {
            return Err(PlanError::Changed(format!("the edit is of another version of {shown}")));
        }
        node.pending.extend(edits.iter().cloned());
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path, if_exists: IfExists) -> Result<(), PlanError> {
        self.refuse_in_moved(from)?;
        self.refuse_in_moved(to)?;
        if from == to {
            return Ok(());
        }
        self.settle(from)?;
        let Some(node) = self.node(from).clone() else {
            return Err(PlanError::Changed(format!("{} does not exist", from.display())));
        };
        let is_there = self.node(to).is_some();
        match (is_there, if_exists) {
            (true, IfExists::Fail) => return refused(format!("{} exists", to.display())),
            (true, IfExists::Ignore) => return Ok(()),
            (true, IfExists::Overwrite) => self.overwritable(to)?,
            (false, IfExists::Fail | IfExists::Ignore | IfExists::Overwrite) => {}
        }
        if matches!(node.content, Content::Folder) {
            let is_touched =
                |it: &PathBuf| it != from && it != to && (it.starts_with(from) || it.starts_with(to));
            let has_operations = self.files.iter().any(|(file, it)| {
                is_touched(file) && it.as_ref().is_none_or(|it| it.origin.as_ref() != Some(file))
            });
            if is_there || has_operations || to.starts_with(from) {
                return refused(format!(
                    "it moves the folder {} in a way that lspool does not",
                    from.display()
                ));
            }
            self.folders.push((from.to_owned(), to.to_owned()));
            self.plan.renamed.push((from.to_owned(), to.to_owned()));
            self.files.remove(from);
            self.files.remove(to);
            return Ok(());
        }
        self.files.insert(from.to_owned(), None);
        self.files.insert(to.to_owned(), Some(node));
        Ok(())
    }

    /// Makes the pending edits of a file.
    fn settle(&mut self, file: &Path) -> Result<(), PlanError> {
        let encoding = self.encoding;
        let Some(node) = self.node(file) else { return Ok(()) };
        let Content::Text(text) = &node.content else { return Ok(()) };
        let edits = std::mem::take(&mut node.pending);
        let all = splices(text, &edits, encoding)
            .map_err(|why| PlanError::Changed(format!("{}: {why}", file.display())))?;
        let after = spliced(text.as_str(), &all);
        node.n_edits += all.len();
        if after != text.as_str() {
            node.is_edited = true;
            node.content = Content::Text(Arc::new(Text::new(after)));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<EditPlan, PlanError> {
        for file in self.files.keys().cloned().collect::<Vec<_>>() {
            self.settle(&file)?;
        }
        let files = std::mem::take(&mut self.files);
        // Where each file that was there is in the end.
        let places: BTreeMap<&Path, &Path> = files
            .iter()
            .filter_map(|(file, node)| Some((node.as_ref()?.origin.as_deref()?, file.as_path())))
            .collect();
        let mut moves = Vec::new();
        for (file, node) in &files {
            let fact = (self.facts)(file);
            let is_there = !matches!(fact, Fact::Missing);
            let text_before = match fact {
                Fact::Text(text, _) => Some(text),
                Fact::Missing | Fact::Folder | Fact::Other(_) => None,
            };
            let before = text_before.as_ref().map(|it| hash_of(it.as_str()));
            let Some(node) = node else {
                if is_there {
                    self.plan.changes.push(FileChange::Remove { file: file.clone(), before });
                }
                if is_there && !places.contains_key(file.as_path()) {
                    self.plan.files.push(PlannedFile {
                        file: file.clone(),
                        from: None,
                        before: text_before,
                        after: None,
                        n_edits: 0,
                        is_left: false,
                    });
                }
                continue;
            };
            let from = node.origin.clone().filter(|it| it != file);
            let text = match &node.content {
                Content::Text(text) => Some(text),
                Content::Folder | Content::Other(_) => None,
            };
            let origin_text = node.origin.as_deref().and_then(|it| match (self.facts)(it) {
                Fact::Text(text, _) => Some(text),
                Fact::Missing | Fact::Folder | Fact::Other(_) => None,
            });
            if let Some(from) = &from {
                self.plan.renamed.push((from.clone(), file.clone()));
            }
            // A name that is free in the end, and was in the beginning, needs no new text.
            let can_move =
                before.is_none() && from.as_deref().is_some_and(|it| matches!(files.get(it), Some(None)));
            match (text, &from) {
                (None, None) => continue,
                (Some(text), None) if Some(text.as_str()) == text_before.as_ref().map(|it| it.as_str()) => {
                    continue;
                }
                (_, Some(from)) if can_move && !node.is_edited => moves.push(FileChange::Move {
                    from: from.clone(),
                    to: file.clone(),
                    before: origin_text.as_ref().map(|it| hash_of(it.as_str())),
                }),
                (Some(text), _) => self.plan.changes.push(FileChange::Put {
                    file: file.clone(),
                    before,
                    text: text.as_str().to_owned(),
                    like: from.clone(),
                }),
                (None, Some(from)) => {
                    return refused(format!("{} changes places with other files", from.display()));
                }
            }
            self.plan.files.push(PlannedFile {
                file: file.clone(),
                before: if from.is_some() { origin_text } else { text_before },
                from,
                after: text.cloned(),
                n_edits: node.n_edits,
                is_left: true,
            });
        }
        // Of a file that gets a new text under a new name, the old one is removed.
        let moved: BTreeSet<&PathBuf> = moves
            .iter()
            .filter_map(|it| match it {
                FileChange::Move { from, .. } => Some(from),
                FileChange::Put { .. } | FileChange::Remove { .. } => None,
            })
            .collect();
        self.plan.changes.retain(|it| !matches!(it, FileChange::Remove { file, .. } if moved.contains(file)));
        self.plan.changes.extend(moves);
        for (from, to) in std::mem::take(&mut self.folders) {
            self.plan.changes.push(FileChange::Move { from, to, before: None });
        }
        Ok(self.plan)
    }
}

#[cfg(test)]
mod tests;
