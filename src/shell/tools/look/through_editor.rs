//! Edits of documents that the editor has open: the editor makes all of the edit, for only it can change their texts.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{
    text,
    unsaved::{Unsaved, documents_in},
};
use crate::{
    builtin_tools::lsp::{EditorDocument, EditorId, Editors, FileChange, NotEditable},
    core::event::{Write, WriteFault},
    shell::{process::EditorLink, tools::workspace::Workspace},
};

/// How long the texts of an edit may take to appear after the editor has made it.
const APPEARS: Duration = Duration::from_secs(3);
/// How often lspool looks for them.
const EVERY: Duration = Duration::from_millis(20);

/// Opens the workspace folders of a write.
pub(super) type Opener = Arc<dyn Fn(&Write) -> Result<Workspace, String> + Send + Sync>;

/// What becomes of an edit.
pub(super) enum Way {
    /// No file of it is open: this is what has come of it.
    Written(Result<(), WriteFault>),
    /// This editor makes it, in these terms.
    Editor(EditorId, serde_json::Value),
}

/// The edit for an editor, if one has a file of the edit open.
pub(super) fn way(
    write: &Write,
    editors: &Editors,
    workspace: &Workspace,
) -> Result<Option<Way>, WriteFault> {
    let unsaved = Unsaved::new(editors, workspace);
    let is_meant = |open: &Path, it: &FileChange| match it {
        FileChange::Put { file, .. } | FileChange::Remove { file, .. } => open == file,
        // It may be a folder.
        FileChange::Move { from, to, .. } => open.starts_with(from) || open.starts_with(to),
    };
    let is_of_edit = |open: &Path| write.changes.iter().any(|it| is_meant(open, it));
    let of_edit: Vec<_> = unsaved.open.iter().filter(|(path, _)| is_of_edit(path)).collect();
    if of_edit.is_empty() {
        return Ok(None);
    }
    let open_in = |editor| -> BTreeMap<PathBuf, EditorDocument> {
        documents_in(editor, workspace).map(|(path, it)| (path, it.clone())).collect()
    };
    // One editor may have an lspool for each of its servers, and each of these knows a part of its documents.
    let has_all = |open: &BTreeMap<PathBuf, EditorDocument>| {
        of_edit.iter().all(|(path, it)| open.get(*path).is_some_and(|has| has.text == it.text))
    };
    let able = editors.all.iter().map(|it| (it, open_in(it))).filter(|(_, open)| has_all(open));
    let Some((editor, open)) = able.max_by_key(|(it, _)| it.applies) else {
        let why = "several editors have files of this edit open, and none of them has all of these";
        return Err(WriteFault::Refused(why.to_owned()));
    };
    let disk = |file: &Path| text(workspace, file).ok().map(Arc::from);
    match editor.edit(&write.changes, &open, disk) {
        Ok(edit) => Ok(Some(Way::Editor(editor.editor, edit))),
        Err(NotEditable::Changed(file)) => Err(WriteFault::Changed(file)),
        Err(NotEditable::Refused(why)) => Err(WriteFault::Refused(why)),
    }
}

/// Has the editor make the edit, and waits until its texts are there.
pub(super) async fn make(
    write: &Arc<Write>,
    (editor, edit): (EditorId, serde_json::Value),
    editors: &Rc<dyn EditorLink>,
    open: &Opener,
) -> Result<(), WriteFault> {
    editors.edit(editor, edit).await?;
    let until = Instant::now() + APPEARS;
    loop {
        let documents = editors.documents(write.folders.clone()).await.map_err(WriteFault::Unseen)?;
        let (write, open) = (Arc::clone(write), Arc::clone(open));
        let looking = spawn_blocking(move || {
            let workspace = open(&write).map_err(WriteFault::Unseen)?;
            Ok::<_, WriteFault>(is_made(&write, &documents, &workspace))
        });
        if looking.await.map_err(|error| WriteFault::Unseen(error.to_string()))?? {
            return Ok(());
        }
        if Instant::now() >= until {
            let seconds = APPEARS.as_secs();
            let what =
                format!("the editor has accepted the edit, but after {seconds} s some files differ from it");
            return Err(WriteFault::Unseen(what));
        }
        sleep(EVERY).await;
    }
}

fn is_made(write: &Write, editors: &Editors, workspace: &Workspace) -> bool {
    let unsaved = Unsaved::new(editors, workspace);
    let now = |file: &Path| match unsaved.text(file) {
        Some(text) => text.ok().map(ToOwned::to_owned),
        None => text(workspace, file).ok(),
    };
    let is_there = |file: &Path| std::fs::symlink_metadata(file).is_ok();
    let moved = |file: &Path| {
        write.changes.iter().any(|it| matches!(it, FileChange::Move { from, .. } if file.starts_with(from)))
    };
    write.changes.iter().all(|it| match it {
        FileChange::Put { file, .. } if moved(file) => true,
        FileChange::Put { file, text, .. } => now(file).as_deref() == Some(text.as_str()),
        FileChange::Remove { file, .. } => !is_there(file),
        FileChange::Move { from, to, .. } => !is_there(from) && is_there(to),
    })
}
