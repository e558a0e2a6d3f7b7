//! Open folders, and operations on the names in them, which follow no link.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, accessat, fchmod, fchown, fstat, fsync, linkat,
        mkdirat, openat, readlinkat, renameat, statat, unlinkat,
    },
    io::Errno,
};

use crate::shell::os::fault::{Access, Fault, Kind, Unlike, Why};

/// A folder need not be readable to open its entries.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

/// What is known of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat(rustix::fs::Stat);

/// By what a change of a file is noticed.
pub(crate) type Version = (u64, u64, i64, i64, i64);

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        io::Error::from(errno).into()
    }
}

/// What the system would say.
pub(crate) fn error(why: Why) -> io::Error {
    match why {
        Why::Missing => Errno::NOENT,
        Why::NotFolder => Errno::NOTDIR,
        Why::IsFolder => Errno::ISDIR,
        Why::Exists => Errno::EXIST,
        Why::Denied => Errno::PERM,
        Why::Links => Errno::LOOP,
        Why::TooLong => Errno::NAMETOOLONG,
        Why::TooLarge => Errno::FBIG,
        Why::NotPlain => Errno::NODEV,
        Why::Stale => Errno::STALE,
        Why::Unsupported => Errno::NOTSUP,
        Why::BadName => Errno::INVAL,
        Why::Other => Errno::IO,
    }
    .into()
}

pub(crate) fn is_about_links(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// Whether a file can have this name.
pub(crate) fn is_name(_name: &OsStr) -> bool {
    true
}

impl Stat {
    pub(crate) fn kind(&self) -> Kind {
        kind(FileType::from_raw_mode(self.0.st_mode))
    }

    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.0.st_size).unwrap_or(u64::MAX)
    }

    /// The device and the inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        // Its type differs between systems.
        #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "macOS has a signed number")]
        let device = self.0.st_dev as u64;
        (device, self.0.st_ino)
    }

    pub(crate) fn version(&self) -> Version {
        let (device, inode) = self.identity();
        #[allow(
            clippy::cast_possible_wrap,
            clippy::unnecessary_cast,
            reason = "some systems have it unsigned"
        )]
        let nanoseconds = self.0.st_mtime_nsec as i64;
        (device, inode, self.0.st_size, self.0.st_mtime, nanoseconds)
    }
}

fn kind(it: FileType) -> Kind {
    match it {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

impl Folder {
    /// Opens a folder. A link at the end is an error.
    pub(crate) fn open(path: &Path) -> Result<Folder, Fault> {
        Ok(Folder(openat(CWD, path, FOLDER, Mode::empty())?))
    }

    pub(crate) fn try_clone(&self) -> Result<Folder, Fault> {
        Ok(Folder(rustix::io::fcntl_dupfd_cloexec(&self.0, 0)?))
    }

    /// Opens a folder in it, which must not be a link.
    pub(crate) fn enter(&self, name: &OsStr) -> Result<Folder, Fault> {
        Ok(Folder(openat(&self.0, name, FOLDER, Mode::empty())?))
    }

    /// Opens a folder in it, or itself, so that it can be listed and synced.
    pub(crate) fn to_list(&self, name: Option<&OsStr>) -> Result<Folder, Fault> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Folder(openat(&self.0, name.unwrap_or(OsStr::new(".")), flags, Mode::empty())?))
    }

    /// The names in it, in any order.
    pub(crate) fn entries(
        &self,
    ) -> Result<impl Iterator<Item = Result<(OsString, Kind), Fault>> + '_, Fault> {
        let dir = Dir::read_from(&self.0)?;
        Ok(dir.filter_map(|entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => return Some(Err(errno.into())),
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                return None;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report it.
                FileType::Unknown => self.stat(name).map_or(Kind::Other, |it| it.kind()),
                known => kind(known),
            };
            Some(Ok((name.to_owned(), kind)))
        }))
    }

    /// What it is known by.
    pub(crate) fn identity(&self) -> Result<(u64, u64), Fault> {
        Ok(Stat(fstat(&self.0)?).identity())
    }

    pub(crate) fn stat(&self, name: &OsStr) -> Result<Stat, Fault> {
        Ok(Stat(statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Whether a name is another spelling of this one.
    pub(crate) fn is_spelling_of(&self, name: &OsStr, other: &OsStr) -> bool {
        // macOS leaves out characters that cannot be seen.
        cfg!(target_vendor = "apple")
            && self
                .stat(name)
                .is_ok_and(|it| self.stat(other).is_ok_and(|other| it.identity() == other.identity()))
    }

    pub(crate) fn read_link(&self, name: &OsStr) -> Result<PathBuf, Fault> {
        Ok(OsString::from_vec(readlinkat(&self.0, name, Vec::new())?.into_bytes()).into())
    }

    /// Makes a folder.
    pub(crate) fn make(&self, name: &OsStr) -> Result<(), Fault> {
        Ok(mkdirat(&self.0, name, Mode::from_raw_mode(0o777))?)
    }

    /// Opens a plain file for reading: a pipe or a device may wait forever.
    pub(crate) fn open_plain(&self, name: &OsStr) -> Result<(File, Stat), Fault> {
        let is_plain = |stat: &Stat| match stat.kind() {
            Kind::File => Ok(()),
            Kind::Folder => Err(Why::IsFolder),
            Kind::Link | Kind::Other => Err(Why::NotPlain),
        };
        is_plain(&self.stat(name)?)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::empty())?;
        let stat = Stat(fstat(&file)?);
        is_plain(&stat)?;
        Ok((file.into(), stat))
    }

    /// Makes a file, for writing.
    pub(crate) fn create(&self, name: &OsStr, access: Access) -> Result<File, Fault> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = match access {
            Access::Private => 0o600,
            Access::Usual => 0o666,
        };
        Ok(openat(&self.0, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Gives a file another name, and replaces what has that name.
    pub(crate) fn rename(&self, name: &OsStr, to: &Folder, new: &OsStr) -> Result<(), Fault> {
        Ok(renameat(&self.0, name, &to.0, new)?)
    }

    /// Gives a file or folder a name that nothing has.
    pub(crate) fn rename_new(&self, name: &OsStr, to: &Folder, new: &OsStr) -> Result<(), Fault> {
        #[cfg(any(target_os = "linux", target_vendor = "apple"))]
        {
            use rustix::fs::{RenameFlags, renameat_with};
            match renameat_with(&self.0, name, &to.0, new, RenameFlags::NOREPLACE) {
                // Some file systems cannot do that at once.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                done => return Ok(done?),
            }
        }
        match to.stat(new) {
            Err(fault) if fault.why() == Why::Missing => self.rename(name, to, new),
            Ok(_) | Err(_) => Err(Why::Exists.into()),
        }
    }

    /// Exchanges two files at once. [`Why::Unsupported`]: that cannot be done here.
    pub(crate) fn exchange(&self, one: &OsStr, other: &OsStr) -> Result<(), Fault> {
        #[cfg(any(target_os = "linux", target_vendor = "apple"))]
        {
            use rustix::fs::{RenameFlags, renameat_with};
            match renameat_with(&self.0, one, &self.0, other, RenameFlags::EXCHANGE) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Err(Why::Unsupported.into()),
                done => Ok(done?),
            }
        }
        #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
        Err(Why::Unsupported.into())
    }

    /// Gives a file a second name. [`Why::Unsupported`]: that cannot be done here.
    pub(crate) fn link(&self, name: &OsStr, new: &OsStr) -> Result<(), Fault> {
        match linkat(&self.0, name, &self.0, new, AtFlags::empty()) {
            Err(Errno::PERM | Errno::NOTSUP | Errno::MLINK | Errno::NOSYS | Errno::ACCESS) => {
                Err(Why::Unsupported.into())
            }
            done => Ok(done?),
        }
    }

    pub(crate) fn remove_file(&self, name: &OsStr) -> Result<(), Fault> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    pub(crate) fn remove_folder(&self, name: &OsStr) -> Result<(), Fault> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    pub(crate) fn is_writable(&self, name: &OsStr) -> bool {
        accessat(&self.0, name, rustix::fs::Access::WRITE_OK, AtFlags::empty()).is_ok()
    }

    /// Waits until its names are on the disk. It was opened by [`Folder::to_list`].
    pub(crate) fn sync(&self) -> Result<(), Fault> {
        Ok(fsync(&self.0)?)
    }
}

/// Gives a file the permissions and the owner of another one.
pub(crate) fn make_like(file: &File, like: &Stat) -> Result<(), Unlike> {
    let failed = |errno: Errno| Unlike::Failed(errno.into());
    let own = fstat(file).map_err(failed)?;
    if (own.st_uid, own.st_gid) != (like.0.st_uid, like.0.st_gid) {
        let (user, group) = (Uid::from_raw(like.0.st_uid), Gid::from_raw(like.0.st_gid));
        fchown(file, Some(user), Some(group)).map_err(|_| Unlike::Owner)?;
    }
    permit_like(file, like).map_err(Unlike::Failed)
}

/// Gives a file the permissions of another one.
pub(crate) fn permit_like(file: &File, like: &Stat) -> io::Result<()> {
    Ok(fchmod(file, Mode::from_raw_mode(like.0.st_mode & 0o777))?)
}
