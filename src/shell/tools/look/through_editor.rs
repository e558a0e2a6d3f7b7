//! Edits of documents that the editor has open: the editor makes all of the edit, for only it can change their texts.

use std::{path::Path, rc::Rc, sync::Arc, time::Duration};

use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{text, unsaved::Unsaved};
use crate::{
    builtin_tools::lsp::{EditorDocuments, FileChange, NotEditable},
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
    /// The editor makes it, in these terms.
    Editor(serde_json::Value),
}

/// The edit for the editor, if it has a file of the edit open.
pub(super) fn way(
    write: &Write,
    editor: &EditorDocuments,
    workspace: &Workspace,
) -> Result<Option<Way>, WriteFault> {
    let unsaved = Unsaved::new(editor, workspace);
    let is_open = |it: &Path| unsaved.open.contains_key(it);
    let concerns = |it: &FileChange| match it {
        FileChange::Put { file, .. } | FileChange::Remove { file, .. } => is_open(file),
        FileChange::Move { from, to, .. } => {
            // It may be a folder.
            unsaved.open.keys().any(|it| it.starts_with(from) || it.starts_with(to))
        }
    };
    if !write.changes.iter().any(concerns) {
        return Ok(None);
    }
    let disk = |file: &Path| text(workspace, file).ok().map(Arc::from);
    match editor.edit(&write.changes, &unsaved.open, disk) {
        Ok(edit) => Ok(Some(Way::Editor(edit))),
        Err(NotEditable::Changed(file)) => Err(WriteFault::Changed(file)),
        Err(NotEditable::Refused(why)) => Err(WriteFault::Refused(why)),
    }
}

/// Has the editor make the edit, and waits until its texts are there.
pub(super) async fn make(
    write: &Arc<Write>,
    edit: serde_json::Value,
    editor: &Rc<dyn EditorLink>,
    open: &Opener,
) -> Result<(), WriteFault> {
    editor.edit(edit).await?;
    let until = Instant::now() + APPEARS;
    loop {
        let documents = editor.documents().await.map_err(WriteFault::Unseen)?;
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

fn is_made(write: &Write, editor: &EditorDocuments, workspace: &Workspace) -> bool {
    let unsaved = Unsaved::new(editor, workspace);
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
