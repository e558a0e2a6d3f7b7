//! One change of an edit: how far it is, forwards, and back.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{Read as _, Write as _},
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fstat, linkat, openat, renameat, statat,
        unlinkat,
    },
    io::Errno,
};

use super::{BYTE_ORDER_MARK, to_sync};
use crate::{core::event::WriteFault, shell::tools::workspace::Place, util::fnv::fnv1a};

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

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.place.folder()
    }

    fn stat(&self, name: &OsStr) -> Option<Stat> {
        statat(self.folder(), name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    fn is_missing(&self, name: &OsStr) -> bool {
        matches!(statat(self.folder(), name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
    }

    /// What the file there is known by.
    pub(super) fn inode(&self) -> Option<(u64, u64)> {
        self.stat(&self.name).map(|it| (it.st_dev, it.st_ino))
    }

    fn hash(&self, name: &OsStr) -> Option<u64> {
        read_at(self.folder(), name).ok().flatten().map(|(bytes, _)| hash(&bytes))
    }

    fn remove(&self, name: &OsStr) {
        unlinkat(self.folder(), name, AtFlags::empty()).ok();
    }
}

/// The hash of a text, without its byte order mark: as the core knows it.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    fnv1a(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes))
}

/// Reads a plain file. `None`: it is missing.
pub(super) fn read(place: &Place) -> Result<Option<(Vec<u8>, Stat)>, Errno> {
    match place.open_plain() {
        Ok((file, stat)) => take(file, stat).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn read_at(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Option<(Vec<u8>, Stat)>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(folder, name, flags, Mode::empty()) {
        Ok(file) => {
            let stat = fstat(&file)?;
            take(file, stat).map(Some)
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn take(file: OwnedFd, stat: Stat) -> Result<(Vec<u8>, Stat), Errno> {
    let mut bytes = Vec::new();
    let read = File::from(file).take(MOST_OF_FILE + 1).read_to_end(&mut bytes);
    read.map_err(|it| Errno::from_io_error(&it).unwrap_or(Errno::IO))?;
    if bytes.len() as u64 > MOST_OF_FILE { Err(Errno::FBIG) } else { Ok((bytes, stat)) }
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

    pub(super) fn open_folders(&self) -> Vec<OwnedFd> {
        match self {
            Entry::Put { spot, .. } | Entry::Remove { spot, .. } => to_sync(spot).into_iter().collect(),
            Entry::Move { from, to, .. } => to_sync(from).into_iter().chain(to_sync(to)).collect(),
        }
    }

    /// Writes the new text beside the file, with permissions and owner of the old one.
    pub(super) fn write_draft(&self, bytes: &[u8], like: Option<&Stat>) -> Result<(), WriteFault> {
        let Entry::Put { spot, draft, .. } = self else { return Ok(()) };
        let shown = spot.path.display();
        let failed = |what: std::io::Error| WriteFault::Failed(format!("{shown}: {what}"));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if like.is_some() { 0o600 } else { 0o666 });
        let file = openat(spot.folder(), draft, flags, mode).map_err(|it| failed(it.into()))?;
        if let Some(like) = like {
            let own = fstat(&file).map_err(|it| failed(it.into()))?;
            if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid) {
                let (user, group) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
                fchown(&file, Some(user), Some(group)).map_err(|_| {
                    WriteFault::Refused(format!("{shown} belongs to another user, who would lose it"))
                })?;
            }
            fchmod(&file, Mode::from_raw_mode(like.st_mode & 0o777)).map_err(|it| failed(it.into()))?;
        }
        let mut file = File::from(file);
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Whether the file is as it was when its text was read.
    pub(super) fn is_as_seen(&self, seen: &Stat) -> bool {
        let key = |it: &Stat| (it.st_dev, it.st_ino, it.st_size, it.st_mtime, it.st_mtime_nsec);
        match self {
            Entry::Put { spot, .. } => spot.stat(&spot.name).is_some_and(|now| key(&now) == key(seen)),
            Entry::Remove { .. } | Entry::Move { .. } => true,
        }
    }

    /// Keeps the old text under another name.
    pub(super) fn keep_old(&self) -> Result<(), Errno> {
        let Entry::Put { spot, backup: Some(backup), .. } = self else { return Ok(()) };
        let folder = spot.folder();
        match linkat(folder, &spot.name, folder, backup, AtFlags::empty()) {
            Ok(()) => Ok(()),
            // Some file systems know no hard links.
            Err(Errno::PERM | Errno::NOTSUP | Errno::MLINK | Errno::NOSYS | Errno::ACCESS) => {
                copy(folder, &spot.name, backup)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Carries it out. [`Errno::STALE`]: there is something else than what was seen.
    pub(super) fn replace(&self) -> Result<(), Errno> {
        match self {
            Entry::Put { spot, draft, before: Some(before), .. } => exchange(spot, draft, *before),
            Entry::Put { spot, draft, before: None, .. } => rename((spot, draft), (spot, &spot.name)),
            Entry::Remove { spot, backup, inode } => match spot.inode() == Some(*inode) {
                true => rename((spot, &spot.name), (spot, backup)),
                false => Err(Errno::STALE),
            },
            Entry::Move { from, to, inode } => match from.inode() == Some(*inode) {
                true => rename((from, &from.name), (to, &to.name)),
                false => Err(Errno::STALE),
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
                spot.stat(backup).is_some_and(|it| (it.st_dev, it.st_ino) == *inode)
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
    pub(super) fn undo(&self) -> Result<(), Errno> {
        match self {
            Entry::Put { spot, backup: Some(backup), .. } => {
                renameat(spot.folder(), backup, spot.folder(), &spot.name)
            }
            Entry::Put { spot, backup: None, .. } => unlinkat(spot.folder(), &spot.name, AtFlags::empty()),
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

fn copy(folder: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    let (bytes, stat) = read_at(folder, from)?.ok_or(Errno::NOENT)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, to, flags, Mode::from_raw_mode(0o600))?;
    fchmod(&file, Mode::from_raw_mode(stat.st_mode & 0o777))?;
    let mut file = File::from(file);
    let written = file.write_all(&bytes).and_then(|()| file.sync_all());
    written.map_err(|it| Errno::from_io_error(&it).unwrap_or(Errno::IO))
}

/// Puts a new text in the place of the old one. Whatever is replaced is looked at: another program may have written it in
/// the last moment.
fn exchange(spot: &Spot, draft: &OsStr, before: u64) -> Result<(), Errno> {
    let folder = spot.folder();
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        let exchange = || renameat_with(folder, draft, folder, &spot.name, RenameFlags::EXCHANGE);
        match exchange() {
            Ok(()) if spot.hash(draft) == Some(before) => return unlinkat(folder, draft, AtFlags::empty()),
            Ok(()) => {
                exchange()?;
                return Err(Errno::STALE);
            }
            // Some file systems cannot do that.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(errno) => return Err(errno),
        }
    }
    match spot.hash(&spot.name) == Some(before) {
        true => renameat(folder, draft, folder, &spot.name),
        false => Err(Errno::STALE),
    }
}

/// Gives something a name that nothing has.
fn rename((from, name): (&Spot, &OsStr), (to, new): (&Spot, &OsStr)) -> Result<(), Errno> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(from.folder(), name, to.folder(), new, RenameFlags::NOREPLACE) {
            // Some file systems cannot do that at once.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            done => return done,
        }
    }
    match to.is_missing(new) {
        true => renameat(from.folder(), name, to.folder(), new),
        false => Err(Errno::EXIST),
    }
}
