//! The journals of edits, which survive the death of lspool.
//!
//! A journal names all changes of one edit before the first of them is carried out. Its writer holds a lock on it, which
//! the system releases in any case. So a journal without a lock is of a lspool that has died.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf, is_separator},
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};

use super::{
    Plan, distinct,
    entry::{Done, Entry, Spot},
};
use crate::shell::{
    goals::NO_STATE,
    os::files::{private_file, sync_folder},
    private,
    teams::folder_name,
    tools::workspace::Workspace,
};

const ENDING: &str = "json";
const HALF: &str = "half";

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The journals of a workspace.
#[derive(Clone, Debug)]
pub(in crate::shell::tools) struct Journals {
    folder: Option<PathBuf>,
}

/// The journal of an edit under way.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

/// A change as a journal has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Noted {
    Put { file: PathBuf, draft: String, backup: Option<String>, before: Option<u64>, after: u64 },
    Remove { file: PathBuf, backup: String, inode: (u64, u64) },
    Move { from: PathBuf, to: PathBuf, inode: (u64, u64) },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    changes: Vec<Noted>,
    /// Folders that are made for it.
    made: Vec<PathBuf>,
}

impl Journals {
    /// Those of a workspace, below the folder for the user's state.
    pub(in crate::shell::tools) fn of(state: Option<&Path>, folders: &[PathBuf]) -> Journals {
        let folder = state.zip(folders.first());
        let folder = folder.map(|(state, first)| state.join("lspool").join("edits").join(folder_name(first)));
        Journals { folder }
    }

    /// Writes the journal of an edit.
    pub(super) fn begin(&self, plan: &Plan) -> Result<Journal, String> {
        let Some(folder) = &self.folder else {
            return Err(format!("no folder for the journal of edits: {NO_STATE}"));
        };
        let text = |it: &std::ffi::OsString| it.to_string_lossy().into_owned();
        let noted = |entry: &Entry| match entry {
            Entry::Put { spot, draft, backup, before, after } => Noted::Put {
                file: spot.path.clone(),
                draft: text(draft),
                backup: backup.as_ref().map(text),
                before: *before,
                after: *after,
            },
            Entry::Remove { spot, backup, inode } => {
                Noted::Remove { file: spot.path.clone(), backup: text(backup), inode: *inode }
            }
            Entry::Move { from, to, inode } => {
                Noted::Move { from: from.path.clone(), to: to.path.clone(), inode: *inode }
            }
        };
        let notes = Notes { changes: plan.entries.iter().map(noted).collect(), made: plan.made.clone() };
        let content = serde_json::to_vec(&notes).map_err(|it| format!("cannot write the journal: {it}"))?;
        write(folder, &content).map_err(|it| format!("cannot write a journal in {}: {it}", folder.display()))
    }
}

fn write(folder: &Path, content: &[u8]) -> io::Result<Journal> {
    private::make(folder)?;
    let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let (half, path) = (folder.join(&name).with_extension(HALF), folder.join(&name).with_extension(ENDING));
    // A process of this number may have left one.
    fs::remove_file(&half).ok();
    let mut file = private_file().write(true).create_new(true).open(&half)?;
    // Before it has its name: nobody takes it for that of a dead lspool.
    file.try_lock()?;
    file.write_all(content)?;
    file.sync_all()?;
    if path.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(&half, &path)?;
    sync_folder(folder)?;
    Ok(Journal { path, _file: file })
}

impl Journal {
    /// The edit is made, or is undone.
    pub(super) fn remove(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, journal = %self.path.display(), "could not remove the journal of an edit");
        }
    }

    /// The edit is neither.
    pub(super) fn keep(&mut self) {
        tracing::error!(journal = %self.path.display(), "an edit could not be undone");
    }
}

/// Finishes or undoes the edits of a lspool that was killed.
pub(in crate::shell::tools) fn recover(workspace: &Workspace, journals: &Journals) {
    let Some(folder) = &journals.folder else { return };
    let Ok(all) = fs::read_dir(folder) else { return };
    for path in distinct(all.flatten().map(|it| it.path())) {
        let Ok(mut file) = File::open(&path) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        match path.extension().and_then(|it| it.to_str()) {
            Some(HALF) => drop(fs::remove_file(&path)),
            Some(ENDING) => {
                let mut content = Vec::new();
                let read = file.read_to_end(&mut content);
                let notes = read.ok().and_then(|_| serde_json::from_slice::<Notes>(&content).ok());
                let Some(notes) = notes else {
                    tracing::warn!(journal = %path.display(), "ignored an unreadable journal of an edit");
                    continue;
                };
                settle(workspace, &path, notes);
            }
            Some(_) | None => {}
        }
    }
}

fn settle(workspace: &Workspace, path: &Path, notes: Notes) {
    let (journal, n_changes) = (path.display(), notes.changes.len());
    let is_here = |it: &PathBuf| workspace.folders().any(|folder| it.starts_with(folder));
    if !notes.changes.iter().all(|it| is_here(it.path())) {
        return;
    }
    let moved = notes.changes.iter().filter_map(|it| it.moved(workspace)).collect::<Vec<_>>();
    // A change in a folder that is missing was not carried out.
    let entries: Vec<Entry> =
        notes.changes.into_iter().filter_map(|it| it.entry(workspace, &moved)).collect();
    let states: Vec<Done> = entries.iter().map(Entry::state).collect();
    let with = |state: Done| {
        let states = states.iter();
        entries.iter().zip(states).filter(move |(_, it)| **it == state).map(|(entry, _)| entry)
    };
    let is_all_there = entries.len() == n_changes;
    let is_begun = states.iter().any(|it| matches!(it, Done::Yes | Done::ChangedSince));
    let is_ended = is_all_there && !states.iter().any(|it| matches!(it, Done::No | Done::ChangedInstead));
    let can_undo = with(Done::ChangedSince).next().is_none() && with(Done::Yes).all(Entry::can_undo);
    let can_finish =
        is_all_there && with(Done::ChangedInstead).next().is_none() && with(Done::No).all(Entry::can_finish);
    let (what, done) = if is_ended {
        ("found an edit of a killed lspool that was whole", Ok(()))
    } else if !is_begun {
        ("removed an edit that a killed lspool had not begun", Ok(()))
    } else if can_undo {
        let undone: Vec<&Entry> = with(Done::Yes).collect();
        ("undid an edit of a killed lspool", undone.into_iter().rev().try_for_each(Entry::undo))
    } else if can_finish {
        ("finished an edit of a killed lspool", with(Done::No).try_for_each(Entry::replace))
    } else {
        tracing::error!(%journal, "an edit of a killed lspool is half done, and others have changed its files");
        fs::rename(path, path.with_extension("left")).ok();
        return;
    };
    if let Err(error) = done {
        tracing::error!(%journal, %error, "could not settle an edit of a killed lspool");
        return;
    }
    tracing::warn!(%journal, "{what}");
    entries.iter().for_each(Entry::clean);
    // Some systems do not remove a folder that is open.
    drop(entries);
    remove_folders(workspace, &notes.made);
    fs::remove_file(path).ok();
}

impl Noted {
    fn path(&self) -> &PathBuf {
        match self {
            Noted::Put { file, .. } | Noted::Remove { file, .. } => file,
            Noted::Move { from, .. } => from,
        }
    }

    /// A folder that has its new name, under which the files of other changes are.
    fn moved(&self, workspace: &Workspace) -> Option<(PathBuf, PathBuf)> {
        let Noted::Move { from, to, inode } = self else { return None };
        let there = Spot::new(workspace.found(to)?).ok()?.inode()?;
        (there == *inode).then(|| (from.clone(), to.clone()))
    }

    /// The change with its places, if they can be reached without links.
    fn entry(self, workspace: &Workspace, moved: &[(PathBuf, PathBuf)]) -> Option<Entry> {
        let spot = |path: &Path| Spot::new(workspace.found(path)?).ok();
        let moved_spot = |path: &Path| {
            let new = |(from, to): &(PathBuf, PathBuf)| Some(to.join(path.strip_prefix(from).ok()?));
            spot(moved.iter().find_map(new).as_deref().unwrap_or(path))
        };
        // Names beside the file only.
        let plain = |it: &String| !it.contains(is_separator) && it.starts_with(".lspool-");
        Some(match self {
            Noted::Put { file, draft, backup, before, after } => {
                if !plain(&draft) || !backup.iter().all(plain) {
                    return None;
                }
                let (draft, backup) = (draft.into(), backup.map(Into::into));
                Entry::Put { spot: moved_spot(&file)?, draft, backup, before, after }
            }
            Noted::Remove { file, backup, inode } => {
                let backup = Some(backup).filter(plain)?.into();
                Entry::Remove { spot: moved_spot(&file)?, backup, inode }
            }
            Noted::Move { from, to, inode } => Entry::Move { from: spot(&from)?, to: spot(&to)?, inode },
        })
    }
}

/// Removes folders that are empty, the inner ones first.
pub(super) fn remove_folders(workspace: &Workspace, made: &[PathBuf]) {
    for folder in made.iter().rev() {
        if let Some(place) = workspace.found(folder)
            && let Ok(name) = place.to_write()
        {
            place.folder().remove_folder(name).ok();
        }
    }
}
