//! The documents of editors over the files on the disk: where both have a text, that of the editor counts.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{MOST_OF_FILE, Stamp, text};
use crate::{
    builtin_tools::lsp::{EditorDocument, EditorDocuments, Editors},
    core::event::Unreadable,
    shell::{
        os::files::{Times, canonicalize},
        tools::workspace::{Missing, Workspace},
    },
    util::fnv::fnv1a,
};

/// A stamp of an unsaved text never equals that of a file.
const NO_FILE: u64 = u64::MAX;

/// What editors have open in the workspace.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    /// All their documents, by paths without links. Of several for one file, the one whose text counts.
    pub(super) open: BTreeMap<PathBuf, EditorDocument>,
    /// The texts of those that differ from the disk.
    texts: BTreeMap<PathBuf, Result<Arc<str>, Unreadable>>,
    /// Those of them that are not on the disk.
    new: Vec<PathBuf>,
}

impl Unsaved {
    /// Compares the documents with the files. Reads the files.
    pub(super) fn new(editors: &Editors, workspace: &Workspace) -> Unsaved {
        let mut all = Unsaved::default();
        for (path, document) in editors.all.iter().flat_map(|it| documents_in(it, workspace)) {
            let known = match &document.text {
                Some(text) if text.len() as u64 > MOST_OF_FILE => Err(Unreadable::Large),
                Some(text) => Ok(Arc::clone(text)),
                None => Err(Unreadable::Denied),
            };
            let on_disk = text(workspace, &path);
            let is_unsaved = known.as_deref().ok() != on_disk.as_deref().ok();
            let counts = match all.texts.get(&path) {
                Some(Ok(_)) => false,
                Some(Err(_)) => is_unsaved && known.is_ok(),
                None => is_unsaved || !all.open.contains_key(&path),
            };
            if !counts {
                continue;
            }
            if on_disk == Err(Unreadable::Missing) && !all.new.contains(&path) {
                all.new.push(path.clone());
            }
            if is_unsaved {
                all.texts.insert(path.clone(), known);
            }
            all.open.insert(path, document.clone());
        }
        all
    }

    /// The text of a file, if it is not the one on the disk.
    pub(super) fn text(&self, path: &Path) -> Option<Result<&str, Unreadable>> {
        let text = self.texts.get(path)?;
        Some(text.as_deref().map_err(|why| *why))
    }

    /// The same, for a path that may lead through links.
    pub(super) fn text_through_links(
        &self,
        path: &Path,
        workspace: &Workspace,
    ) -> Option<Result<&str, Unreadable>> {
        if self.texts.is_empty() {
            return None;
        }
        let place = || Some(workspace.find(path.to_str()?, Missing::Refuse).ok()?.path);
        self.text(path).or_else(|| self.text(&place()?))
    }

    /// By what a change of the unsaved text of a file is noticed.
    pub(super) fn stamp(&self, path: &Path) -> Option<Stamp> {
        let content = fnv1a(self.text(path)?.unwrap_or_default().as_bytes());
        Some(Stamp {
            place: (NO_FILE, NO_FILE),
            size: NO_FILE,
            times: Times::default(),
            content: Some(content),
        })
    }

    /// The files whose texts are known and differ from the disk.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.texts.iter().filter(|(_, it)| it.is_ok()).map(|(path, _)| path)
    }

    /// The files that are not on the disk.
    pub(super) fn new_files(&self) -> &[PathBuf] {
        &self.new
    }
}

/// What one editor has open in the workspace, by paths without links.
pub(super) fn documents_in<'a>(
    editor: &'a EditorDocuments,
    workspace: &'a Workspace,
) -> impl Iterator<Item = (PathBuf, &'a EditorDocument)> {
    let all = editor.documents.iter().filter_map(|it| Some((real_path(&it.path)?, it)));
    all.filter(|(path, _)| workspace.folders().any(|it| path.starts_with(it)))
}

/// A path without links. Of a file that does not exist, its folder must.
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    canonicalize(path).ok().or_else(|| Some(canonicalize(path.parent()?).ok()?.join(path.file_name()?)))
}
