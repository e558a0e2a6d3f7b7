//! Writes an edit of several files: all of it, or nothing.
//!
//! First each place is found by the walk of [`Workspace`], and must hold what the edit was made for. A journal in the
//! folder for state names all changes before the first of them. The new texts are written beside the old ones, then take
//! their places, and the old ones are kept until the last has. **A failure puts back what was replaced**, and so does the
//! next start of lspool if this one was killed, or it finishes what was begun.

mod entry;
mod journal;
// They move folders with files that they change too, which Windows refuses: such an edit is undone there.
#[cfg(unix)]
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use self::entry::{Done, Entry, Spot, read};
pub(super) use self::journal::{Journals, recover};
use super::workspace::{Missing, Place, Workspace};
use crate::{
    builtin_tools::lsp::FileChange,
    core::event::{Write, WriteFault},
    shell::os::{
        fault::{Fault, Why},
        folder::Stat,
    },
};

/// A moment at which tests let it fail, or end lspool.
pub(super) type Moment<'a> = &'a dyn Fn() -> Result<(), Fault>;

/// Never fails.
pub(super) const UNDISTURBED: Moment<'static> = &|| Ok(());

/// The mark at the beginning of a text file, which texts of the core do not have.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Writes an edit.
pub(super) fn write(
    write: &Write,
    workspace: &Workspace,
    journals: &Journals,
    moment: Moment<'_>,
) -> Result<(), WriteFault> {
    let mut plan = Plan::check(write, workspace)?;
    let mut journal = journals.begin(&plan).map_err(WriteFault::Failed)?;
    match plan.carry_out(workspace, moment) {
        Ok(()) => {
            plan.clean();
            journal.remove();
            Ok(())
        }
        Err(fault) => match plan.undo() {
            Ok(()) => {
                plan.clean();
                plan.remove_made(workspace);
                journal.remove();
                Err(fault)
            }
            // The next start tries it again.
            Err(why) => {
                journal.keep();
                Err(WriteFault::Broken(format!("{}; {why}", fault.what())))
            }
        },
    }
}

/// An edit whose places are found and checked.
#[derive(Debug)]
struct Plan {
    entries: Vec<Entry>,
    /// New texts, by the place of their entries.
    texts: BTreeMap<usize, NewText>,
    /// Folders to make, the outer ones first.
    made: Vec<PathBuf>,
    /// How many entries may have been carried out.
    n_begun: usize,
    /// The paths of entries whose folders are not there yet.
    waiting: BTreeMap<usize, PathBuf>,
}

/// A text to write, and the file whose permissions it takes.
#[derive(Debug)]
struct NewText {
    bytes: Vec<u8>,
    like: Option<Stat>,
    /// What the file is by, while it waits.
    seen: Option<Stat>,
}

fn changed<T>(file: &Path) -> Result<T, WriteFault> {
    Err(WriteFault::Changed(file.to_owned()))
}

impl Plan {
    /// Finds each place, and checks what is there. Changes nothing.
    fn check(write: &Write, workspace: &Workspace) -> Result<Plan, WriteFault> {
        let mut plan = Plan {
            entries: Vec::new(),
            texts: BTreeMap::new(),
            made: Vec::new(),
            n_begun: 0,
            waiting: BTreeMap::new(),
        };
        let mut likes = BTreeMap::new();
        for change in &write.changes {
            if let FileChange::Put { like: Some(like), .. } = change {
                let place = find(workspace, like)?;
                let Some((bytes, stat)) = read(&place).map_err(failed(like))? else { return changed(like) };
                likes.insert(like.clone(), (bytes.starts_with(BYTE_ORDER_MARK), stat));
            }
        }
        let mut puts: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for change in &write.changes {
            match change {
                FileChange::Put { file, before: None, text, like } => {
                    let (has_mark, like) = like.as_ref().and_then(|it| likes.get(it)).copied().unzip();
                    plan.put_new(workspace, file, text, (has_mark.unwrap_or(false), like))?;
                }
                FileChange::Put { file, before: Some(before), text, .. } => {
                    let place = find(workspace, file)?;
                    let Some((bytes, stat)) = read(&place).map_err(failed(file))? else {
                        return changed(file);
                    };
                    if entry::hash(&bytes) != *before {
                        return changed(file);
                    }
                    let bytes = content(text, bytes.starts_with(BYTE_ORDER_MARK));
                    // Two names may lead to one file.
                    if let Some(at) = puts.insert(place.path.clone(), plan.entries.len()) {
                        if plan.texts.get(&at).is_some_and(|it| it.bytes == bytes) {
                            puts.insert(place.path, at);
                            continue;
                        }
                        let what = format!("{} is one file under two names", file.display());
                        return Err(WriteFault::Refused(what));
                    }
                    let spot = Spot::new(place)?;
                    if !spot.folder().is_writable(&spot.name) {
                        return Err(WriteFault::Refused(format!("{} is read-only", file.display())));
                    }
                    let (draft, backup) = (beside(&spot.name, "new"), Some(beside(&spot.name, "old")));
                    let after = entry::hash(&bytes);
                    plan.texts
                        .insert(plan.entries.len(), NewText { bytes, like: Some(stat), seen: Some(stat) });
                    plan.entries.push(Entry::Put { spot, draft, backup, before: Some(*before), after });
                }
                FileChange::Remove { file, before } => {
                    let (spot, inode) = there(workspace, file, *before)?;
                    let backup = beside(&spot.name, "old");
                    plan.entries.push(Entry::Remove { spot, backup, inode });
                }
                FileChange::Move { from, to, before } => {
                    let (from, inode) = there(workspace, from, *before)?;
                    let to = plan.free(workspace, to)?;
                    plan.entries.push(Entry::Move { from, to, inode });
                }
            }
        }
        Ok(plan)
    }

    fn put_new(
        &mut self,
        workspace: &Workspace,
        file: &Path,
        text: &str,
        (has_mark, like): (bool, Option<Stat>),
    ) -> Result<(), WriteFault> {
        let bytes = content(text, has_mark);
        let spot = self.free(workspace, file)?;
        let draft = beside(&spot.name, "new");
        let after = entry::hash(&bytes);
        self.texts.insert(self.entries.len(), NewText { bytes, like, seen: None });
        self.entries.push(Entry::Put { spot, draft, backup: None, before: None, after });
        Ok(())
    }

    /// A place where nothing is. Its folders are made later.
    fn free(&mut self, workspace: &Workspace, file: &Path) -> Result<Spot, WriteFault> {
        let missing = missing_folders(workspace, file);
        match missing.last() {
            None => {
                let spot = Spot::new(find(workspace, file)?)?;
                match spot.folder().stat(&spot.name) {
                    Err(fault) if fault.why() == Why::Missing => Ok(spot),
                    Ok(_) => changed(file),
                    Err(fault) => Err(failed(file)(fault)),
                }
            }
            Some(outer) => {
                // The place is in the first folder that exists, until the others do.
                let place = find(workspace, outer)?;
                let is_history = |it: &OsStr| it.as_encoded_bytes().eq_ignore_ascii_case(b".git");
                if file.iter().any(is_history) {
                    return Err(WriteFault::Refused(format!("{} is in .git", file.display())));
                }
                let name = file.file_name().unwrap_or_default().to_owned();
                self.waiting.insert(self.entries.len(), file.to_owned());
                for folder in missing.into_iter().rev() {
                    if !self.made.contains(&folder) {
                        self.made.push(folder);
                    }
                }
                Ok(Spot::later(place, name, file))
            }
        }
    }

    /// Carries all changes out, until the first failure.
    fn carry_out(&mut self, workspace: &Workspace, moment: Moment<'_>) -> Result<(), WriteFault> {
        self.make_folders(workspace)?;
        let mut folders = Vec::new();
        for (at, text) in &self.texts {
            moment().map_err(failed(self.entries[*at].path()))?;
            self.entries[*at].write_draft(&text.bytes, text.like.as_ref())?;
        }
        moment().map_err(|it| WriteFault::Failed(it.to_string()))?;
        for (at, entry) in self.entries.iter().enumerate() {
            if let Some(seen) = self.texts.get(&at).and_then(|it| it.seen.as_ref())
                && !entry.is_as_seen(seen)
            {
                return changed(entry.path());
            }
        }
        for entry in &self.entries {
            // From here on it must be put back.
            self.n_begun += 1;
            entry.keep_old().map_err(failed(entry.path()))?;
            moment().map_err(failed(entry.path()))?;
            entry.replace().map_err(|fault| match fault.why() {
                Why::Stale => WriteFault::Changed(entry.path().to_owned()),
                _ => failed(entry.path())(fault),
            })?;
            moment().map_err(failed(entry.path()))?;
            folders.extend(entry.open_folders());
        }
        for folder in folders {
            folder.sync().map_err(|it| WriteFault::Failed(format!("cannot sync a folder: {it}")))?;
        }
        moment().map_err(|it| WriteFault::Failed(it.to_string()))
    }

    fn make_folders(&mut self, workspace: &Workspace) -> Result<(), WriteFault> {
        for (at, file) in std::mem::take(&mut self.waiting) {
            let name = file.to_str().unwrap_or_default();
            let place = workspace.find(name, Missing::Make).map_err(WriteFault::Failed)?;
            let found = Spot::new(place)?;
            match &mut self.entries[at] {
                Entry::Put { spot, .. } => *spot = found,
                Entry::Move { to, .. } => *to = found,
                Entry::Remove { .. } => {}
            }
        }
        Ok(())
    }

    /// Puts back what was replaced.
    fn undo(&self) -> Result<(), String> {
        let mut problems = Vec::new();
        for entry in self.entries[..self.n_begun].iter().rev() {
            let undone = match entry.state() {
                Done::No | Done::ChangedInstead => Ok(()),
                Done::Yes => entry.undo().map_err(|it| it.to_string()),
                Done::ChangedSince => Err("it was changed meanwhile".to_owned()),
            };
            if let Err(why) = undone {
                problems.push(format!("{} cannot be put back: {why}", entry.path().display()));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    /// Removes new texts that are not needed, and old ones.
    fn clean(&self) {
        self.entries.iter().for_each(Entry::clean);
    }

    fn remove_made(&mut self, workspace: &Workspace) {
        // Some systems do not remove a folder that is open.
        self.entries.clear();
        journal::remove_folders(workspace, &self.made);
    }
}

/// A name beside a file, which no language server takes for code.
fn beside(name: &OsStr, ending: &str) -> OsString {
    let n = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut beside = OsString::from(format!(".lspool-{}-{n}-", std::process::id()));
    // A name may have 255 bytes.
    if name.len() < 200 {
        beside.push(name);
    }
    beside.push(".");
    beside.push(ending);
    beside
}

fn content(text: &str, has_mark: bool) -> Vec<u8> {
    let mark = if has_mark { BYTE_ORDER_MARK } else { b"" };
    [mark, text.as_bytes()].concat()
}

fn failed(file: &Path) -> impl FnOnce(Fault) -> WriteFault {
    move |fault| WriteFault::Failed(super::workspace::told(file, &fault))
}

/// The place of a file, through links inside the workspace.
fn find(workspace: &Workspace, file: &Path) -> Result<Place, WriteFault> {
    let outside = || WriteFault::Outside(file.to_owned());
    workspace.find(file.to_str().ok_or_else(outside)?, Missing::Refuse).map_err(|why| {
        match std::fs::symlink_metadata(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                WriteFault::Changed(file.to_owned())
            }
            _ if why.contains("outside the workspace") => outside(),
            _ => WriteFault::Failed(why),
        }
    })
}

/// A file or folder that is there under its own name, and what it is known by.
fn there(workspace: &Workspace, file: &Path, before: Option<u64>) -> Result<(Spot, (u64, u64)), WriteFault> {
    let Some(place) = workspace.found(file) else {
        // Tells whether it is outside.
        find(workspace, file)?;
        return Err(WriteFault::Refused(format!("a link leads to {}", file.display())));
    };
    if let Some(before) = before {
        match read(&place).map_err(failed(file))? {
            Some((bytes, _)) if entry::hash(&bytes) == before => {}
            Some(_) | None => return changed(file),
        }
    }
    let spot = Spot::new(place)?;
    match spot.inode() {
        Some(inode) => Ok((spot, inode)),
        None => changed(file),
    }
}

/// The folders above a file that do not exist, the inner ones first.
fn missing_folders(workspace: &Workspace, file: &Path) -> Vec<PathBuf> {
    let is_missing = |it: &&Path| {
        it.to_str().is_some_and(|name| match workspace.find(name, Missing::Refuse) {
            Ok(place) => place
                .to_write()
                .is_ok_and(|name| place.folder().stat(name).is_err_and(|fault| fault.why() == Why::Missing)),
            Err(_) => matches!(
                std::fs::symlink_metadata(it),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound
            ),
        })
    };
    file.ancestors().skip(1).take_while(is_missing).map(Path::to_owned).collect()
}

/// The folders of several paths, each once.
fn distinct(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}
