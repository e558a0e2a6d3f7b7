//! One change of an edit: how far it is, forwards, and back.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use super::BYTE_ORDER_MARK;
use crate::{
    core::event::WriteFault,
    shell::{
        os::{
            fault::{Access, Fault, Unlike, Why},
            folder::{Folder, Stat, make_like, permit_like},
        },
        tools::workspace::Place,
    },
    util::fnv::fnv1a,
};

/// The largest file that is written, in bytes.
const MOST_OF_FILE: u64 = 16 << 20;

/// A name in an open folder.
#[derive(Debug)]
pub(super) struct Spot {
    place: Place,
    pub(super) name: OsString,
    pub(super) path: PathBuf,
}

impl Spot {
    pub(super) fn new(place: Place) -> Result<Spot, WriteFault> {
        let name = place.to_write().map_err(WriteFault::Refused)?.to_owned();
        let path = place.path.clone();
        Ok(Spot { place, name, path })
    }

    /// A place whose folder is not there yet.
    pub(super) fn later(place: Place, name: OsString, path: &Path) -> Spot {
        Spot { place, name, path: path.to_owned() }
    }

    pub(super) fn folder(&self) -> &Folder {
        self.place.folder()
    }

    fn stat(&self, name: &OsStr) -> Option<Stat> {
        self.folder().stat(name).ok()
    }

    fn is_missing(&self, name: &OsStr) -> bool {
        self.folder().stat(name).is_err_and(|fault| fault.why() == Why::Missing)
    }

    /// What the file there is known by.
    pub(super) fn inode(&self) -> Option<(u64, u64)> {
        self.stat(&self.name).map(|it| it.identity())
    }

    fn hash(&self, name: &OsStr) -> Option<u64> {
        read_at(self.folder(), name).ok().flatten().map(|(bytes, _)| hash(&bytes))
    }

    fn remove(&self, name: &OsStr) {
        self.folder().remove_file(name).ok();
    }
}

/// The hash of a text, without its byte order mark: as the core knows it.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    fnv1a(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes))
}

/// Reads a plain file. `None`: it is missing.
pub(super) fn read(place: &Place) -> Result<Option<(Vec<u8>, Stat)>, Fault> {
    take(place.open_plain())
}

fn read_at(folder: &Folder, name: &OsStr) -> Result<Option<(Vec<u8>, Stat)>, Fault> {
    take(folder.open_plain(name))
}

fn take(opened: Result<(File, Stat), Fault>) -> Result<Option<(Vec<u8>, Stat)>, Fault> {
    let (file, stat) = match opened {
        Ok(opened) => opened,
        Err(fault) if fault.why() == Why::Missing => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let mut bytes = Vec::new();
    file.take(MOST_OF_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_OF_FILE { Err(Why::TooLarge.into()) } else { Ok(Some((bytes, stat))) }
}

/// Whether a change has been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    No,
    Yes,
    /// It was not, and others have changed the file.
    ChangedInstead,
    /// It was, and others have changed the file since.
    ChangedSince,
}

/// A change. `draft` and `backup` are names beside the file.
#[derive(Debug)]
pub(super) enum Entry {
    Put { spot: Spot, draft: OsString, backup: Option<OsString>, before: Option<u64>, after: u64 },
    Remove { spot: Spot, backup: OsString, inode: (u64, u64) },
    Move { from: Spot, to: Spot, inode: (u64, u64) },
}

impl Entry {
    pub(super) fn path(&self) -> &Path {
        match self {
            Entry::Put { spot, .. } | Entry::Remove { spot, .. } => &spot.path,
            Entry::Move { from, .. } => &from.path,
        }
    }

    /// Its folders, to be synced.
    pub(super) fn open_folders(&self) -> Vec<Folder> {
        let spots = match self {
            Entry::Put { spot, .. } | Entry::Remove { spot, .. } => vec![spot],
            Entry::Move { from, to, .. } => vec![from, to],
        };
        spots.into_iter().filter_map(|it| it.folder().to_list(None).ok()).collect()
    }

    /// Writes the new text beside the file, with permissions and owner of the old one.
    pub(super) fn write_draft(&self, bytes: &[u8], like: Option<&Stat>) -> Result<(), WriteFault> {
        let Entry::Put { spot, draft, .. } = self else { return Ok(()) };
        let shown = spot.path.display();
        let failed = |what: std::io::Error| WriteFault::Failed(format!("{shown}: {what}"));
        let access = if like.is_some() { Access::Private } else { Access::Usual };
        let mut file = spot.folder().create(draft, access).map_err(|it| failed(it.into_error()))?;
        if let Some(like) = like {
            make_like(&file, like).map_err(|unlike| match unlike {
                Unlike::Owner => {
                    WriteFault::Refused(format!("{shown} belongs to another user, who would lose it"))
                }
                Unlike::Failed(error) => failed(error),
            })?;
        }
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Whether the file is as it was when its text was read.
    pub(super) fn is_as_seen(&self, seen: &Stat) -> bool {
        match self {
            Entry::Put { spot, .. } => {
                spot.stat(&spot.name).is_some_and(|now| now.version() == seen.version())
            }
            Entry::Remove { .. } | Entry::Move { .. } => true,
        }
    }

    /// Keeps the old text under another name.
    pub(super) fn keep_old(&self) -> Result<(), Fault> {
        let Entry::Put { spot, backup: Some(backup), .. } = self else { return Ok(()) };
        let folder = spot.folder();
        match folder.link(&spot.name, backup) {
            // Some file systems know no hard links.
            Err(fault) if fault.why() == Why::Unsupported => copy(folder, &spot.name, backup),
            done => done,
        }
    }

    /// Carries it out. [`Why::Stale`]: there is something else than what was seen.
    pub(super) fn replace(&self) -> Result<(), Fault> {
        match self {
            Entry::Put { spot, draft, before: Some(before), .. } => exchange(spot, draft, *before),
            Entry::Put { spot, draft, before: None, .. } => rename((spot, draft), (spot, &spot.name)),
            Entry::Remove { spot, backup, inode } => match spot.inode() == Some(*inode) {
                true => rename((spot, &spot.name), (spot, backup)),
                false => Err(Why::Stale.into()),
            },
            Entry::Move { from, to, inode } => match from.inode() == Some(*inode) {
                true => rename((from, &from.name), (to, &to.name)),
                false => Err(Why::Stale.into()),
            },
        }
    }

    pub(super) fn state(&self) -> Done {
        match self {
            Entry::Put { spot, draft, backup, before, after } => {
                // The new text takes its place by its name, and before that the old one has got another.
                let is_taken =
                    spot.is_missing(draft) && backup.as_ref().is_none_or(|it| !spot.is_missing(it));
                match spot.hash(&spot.name) {
                    Some(now) if now == *after => Done::Yes,
                    Some(now) if Some(now) == *before => Done::No,
                    None if before.is_none() && spot.is_missing(&spot.name) => Done::No,
                    Some(_) | None if is_taken => Done::ChangedSince,
                    Some(_) | None => Done::ChangedInstead,
                }
            }
            Entry::Remove { spot, inode, .. } => match spot.inode() {
                Some(now) if now == *inode => Done::No,
                None => Done::Yes,
                Some(_) if self.can_undo() => Done::ChangedSince,
                Some(_) => Done::ChangedInstead,
            },
            Entry::Move { from, to, inode } => match (from.inode(), to.inode()) {
                (Some(now), None) if now == *inode => Done::No,
                (None, Some(now)) if now == *inode => Done::Yes,
                (Some(now), Some(_)) if now == *inode => Done::ChangedInstead,
                (_, _) => Done::ChangedSince,
            },
        }
    }

    /// Whether what was replaced can be put back.
    pub(super) fn can_undo(&self) -> bool {
        match self {
            Entry::Put { spot, backup: Some(backup), before, .. } => spot.hash(backup) == *before,
            Entry::Put { backup: None, .. } | Entry::Move { .. } => true,
            Entry::Remove { spot, backup, inode } => {
                spot.stat(backup).is_some_and(|it| it.identity() == *inode)
            }
        }
    }

    /// Whether it can still be carried out.
    pub(super) fn can_finish(&self) -> bool {
        match self {
            Entry::Put { spot, draft, after, .. } => spot.hash(draft) == Some(*after),
            Entry::Remove { .. } | Entry::Move { .. } => true,
        }
    }

    /// Puts back what was there.
    pub(super) fn undo(&self) -> Result<(), Fault> {
        match self {
            Entry::Put { spot, backup: Some(backup), .. } => {
                spot.folder().rename(backup, spot.folder(), &spot.name)
            }
            Entry::Put { spot, backup: None, .. } => spot.folder().remove_file(&spot.name),
            Entry::Remove { spot, backup, .. } => rename((spot, backup), (spot, &spot.name)),
            Entry::Move { from, to, .. } => rename((to, &to.name), (from, &from.name)),
        }
    }

    /// Removes what is beside the file.
    pub(super) fn clean(&self) {
        match self {
            Entry::Put { spot, draft, backup, .. } => {
                spot.remove(draft);
                if let Some(backup) = backup {
                    spot.remove(backup);
                }
            }
            Entry::Remove { spot, backup, .. } => spot.remove(backup),
            Entry::Move { .. } => {}
        }
    }
}

fn copy(folder: &Folder, from: &OsStr, to: &OsStr) -> Result<(), Fault> {
    let (bytes, stat) = read_at(folder, from)?.ok_or(Why::Missing)?;
    let mut file = folder.create(to, Access::Private)?;
    permit_like(&file, &stat)?;
    Ok(file.write_all(&bytes).and_then(|()| file.sync_all())?)
}

/// Puts a new text in the place of the old one. Whatever is replaced is looked at: another program may have written it in
/// the last moment.
fn exchange(spot: &Spot, draft: &OsStr, before: u64) -> Result<(), Fault> {
    let folder = spot.folder();
    match folder.exchange(draft, &spot.name) {
        Ok(()) if spot.hash(draft) == Some(before) => return folder.remove_file(draft),
        Ok(()) => {
            folder.exchange(draft, &spot.name)?;
            return Err(Why::Stale.into());
        }
        Err(fault) if fault.why() == Why::Unsupported => {}
        Err(fault) => return Err(fault),
    }
    match spot.hash(&spot.name) == Some(before) {
        true => folder.rename(draft, folder, &spot.name),
        false => Err(Why::Stale.into()),
    }
}

/// Gives something a name that nothing has.
fn rename((from, name): (&Spot, &OsStr), (to, new): (&Spot, &OsStr)) -> Result<(), Fault> {
    from.folder().rename_new(name, to.folder(), new)
}
