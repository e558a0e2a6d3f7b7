//! Open folders, and operations on the names in them, which follow no link.
//!
//! Files are opened, and looked at, through the handle of their folder. The system has no such way to list, to rename
//! and to remove, which go by the path of the folder. **While a folder is open, nobody can move or remove it or what it
//! is in**: the handle is not shared for that. So the path leads to it.
//!
//! Junctions are links, like symbolic ones.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use cap_fs_ext::{DirExt as _, FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _};
use cap_std::{
    ambient_authority,
    fs::{Dir, FileType, Metadata, OpenOptions},
};

use super::files::simple;
use crate::shell::os::fault::{Access, Fault, Kind, Unlike, Why};

/// Links, as the system calls errors about them.
const STOPPED_ON_SYMLINK: i32 = 681;
const CANT_RESOLVE_FILENAME: i32 = 1921;

/// Names of devices, which are in every folder.
const DEVICES: [&str; 7] = ["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"];

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: Dir,
    /// In the form that the system takes as it is: `\\?\C:\x`.
    path: PathBuf,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    kind: Kind,
    size: u64,
    identity: (u64, u64),
    modified: u64,
}

/// By what a change of a file is noticed.
pub(crate) type Version = (u64, u64, u64, u64);

/// What the system would say.
pub(crate) fn error(why: Why) -> io::Error {
    use io::ErrorKind;
    match why {
        Why::Missing => ErrorKind::NotFound.into(),
        Why::NotFolder => ErrorKind::NotADirectory.into(),
        Why::IsFolder => ErrorKind::IsADirectory.into(),
        Why::Exists => ErrorKind::AlreadyExists.into(),
        Why::Denied => ErrorKind::PermissionDenied.into(),
        Why::Links => io::Error::from_raw_os_error(CANT_RESOLVE_FILENAME),
        Why::TooLong | Why::BadName => ErrorKind::InvalidFilename.into(),
        Why::TooLarge => ErrorKind::FileTooLarge.into(),
        Why::NotPlain => io::Error::other("not a regular file"),
        Why::Stale => io::Error::other("it was replaced meanwhile"),
        Why::Unsupported => ErrorKind::Unsupported.into(),
        Why::Other => io::Error::other("failed"),
    }
}

pub(crate) fn is_about_links(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(STOPPED_ON_SYMLINK | CANT_RESOLVE_FILENAME))
}

/// Whether a file can have this name. The system takes other names for streams and devices, or drops their ends.
pub(crate) fn is_name(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let has_sign =
        name.contains(['<', '>', ':', '"', '/', '\\', '|', '?', '*']) || name.contains(|it: char| it < ' ');
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let is_port = ["com", "lpt"].iter().any(|port| {
        let number = stem.strip_prefix(port);
        number.is_some_and(|it| it.chars().count() == 1 && it.contains(|it: char| it.is_numeric()))
    });
    let is_device = is_port || DEVICES.contains(&stem.as_str());
    !name.is_empty() && !has_sign && !is_device && !name.ends_with(['.', ' '])
}

impl Stat {
    fn of(it: &Metadata) -> Stat {
        use cap_std::fs::MetadataExt as _;
        let kind = kind(it.file_type());
        Stat { kind, size: it.len(), identity: (it.dev(), it.ino()), modified: it.last_write_time() }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The volume, and the number of the file there.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    pub(crate) fn version(&self) -> Version {
        (self.identity.0, self.identity.1, self.size, self.modified)
    }
}

fn kind(it: FileType) -> Kind {
    match it {
        it if it.is_symlink() => Kind::Link,
        it if it.is_dir() => Kind::Folder,
        it if it.is_file() => Kind::File,
        _ => Kind::Other,
    }
}

impl Folder {
    /// Opens a folder. A link at the end is an error.
    pub(crate) fn open(path: &Path) -> Result<Folder, Fault> {
        if fs::symlink_metadata(path)?.is_symlink() {
            return Err(Why::Links.into());
        }
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        // Only after it is open nobody can replace it.
        let real = fs::canonicalize(path)?;
        match fs::symlink_metadata(path)?.is_symlink() || simple(&real) != simple(path) {
            true => Err(Why::Links.into()),
            false => Ok(Folder { dir, path: real }),
        }
    }

    pub(crate) fn try_clone(&self) -> Result<Folder, Fault> {
        Ok(Folder { dir: self.dir.try_clone()?, path: self.path.clone() })
    }

    /// Opens a folder in it, which must not be a link.
    pub(crate) fn enter(&self, name: &OsStr) -> Result<Folder, Fault> {
        if self.stat(name)?.kind() == Kind::Link {
            return Err(Why::NotFolder.into());
        }
        Ok(Folder { dir: self.dir.open_dir_nofollow(name)?, path: self.path.join(name) })
    }

    /// Opens a folder in it, or itself, so that it can be listed and synced.
    pub(crate) fn to_list(&self, name: Option<&OsStr>) -> Result<Folder, Fault> {
        match name {
            Some(name) => self.enter(name),
            None => self.try_clone(),
        }
    }

    /// The names in it, in any order.
    pub(crate) fn entries(
        &self,
    ) -> Result<impl Iterator<Item = Result<(OsString, Kind), Fault>> + '_, Fault> {
        Ok(fs::read_dir(&self.path)?.map(|entry| {
            let entry = entry?;
            let kind = match entry.file_type()? {
                it if it.is_symlink() => Kind::Link,
                it if it.is_dir() => Kind::Folder,
                _ => Kind::File,
            };
            Ok((entry.file_name(), kind))
        }))
    }

    /// What it is known by.
    pub(crate) fn identity(&self) -> Result<(u64, u64), Fault> {
        Ok(Stat::of(&self.dir.dir_metadata()?).identity())
    }

    pub(crate) fn stat(&self, name: &OsStr) -> Result<Stat, Fault> {
        Ok(Stat::of(&self.dir.symlink_metadata(name)?))
    }

    /// Whether a name is another spelling of this one, such as `GIT~1`.
    pub(crate) fn is_spelling_of(&self, name: &OsStr, other: &OsStr) -> bool {
        self.stat(name).is_ok_and(|it| self.stat(other).is_ok_and(|other| it.identity() == other.identity()))
    }

    pub(crate) fn read_link(&self, name: &OsStr) -> Result<PathBuf, Fault> {
        Ok(simple(&self.dir.read_link_contents(name)?))
    }

    /// Makes a folder.
    pub(crate) fn make(&self, name: &OsStr) -> Result<(), Fault> {
        Ok(fs::create_dir(self.path.join(name))?)
    }

    /// Opens a plain file for reading.
    pub(crate) fn open_plain(&self, name: &OsStr) -> Result<(File, Stat), Fault> {
        let is_plain = |stat: &Stat| match stat.kind() {
            Kind::File => Ok(()),
            Kind::Folder => Err(Why::IsFolder),
            Kind::Link | Kind::Other => Err(Why::NotPlain),
        };
        is_plain(&self.stat(name)?)?;
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        let file = self.dir.open_with(name, &options)?.into_std();
        let stat = Stat::of(&Metadata::from_file(&file)?);
        is_plain(&stat)?;
        Ok((file, stat))
    }

    /// Makes a file, for writing. It has the permissions of the folder in any case.
    pub(crate) fn create(&self, name: &OsStr, _access: Access) -> Result<File, Fault> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        Ok(self.dir.open_with(name, &options)?.into_std())
    }

    /// Gives a file another name, and replaces what has that name.
    pub(crate) fn rename(&self, name: &OsStr, to: &Folder, new: &OsStr) -> Result<(), Fault> {
        Ok(fs::rename(self.path.join(name), to.path.join(new))?)
    }

    /// Gives a file or folder a name that nothing has.
    pub(crate) fn rename_new(&self, name: &OsStr, to: &Folder, new: &OsStr) -> Result<(), Fault> {
        Ok(renamore::rename_exclusive(self.path.join(name), to.path.join(new))?)
    }

    /// The system cannot exchange files at once.
    pub(crate) fn exchange(&self, _one: &OsStr, _other: &OsStr) -> Result<(), Fault> {
        Err(Why::Unsupported.into())
    }

    /// Gives a file a second name. [`Why::Unsupported`]: that cannot be done here.
    pub(crate) fn link(&self, name: &OsStr, new: &OsStr) -> Result<(), Fault> {
        fs::hard_link(self.path.join(name), self.path.join(new)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => error.into(),
            _ => Why::Unsupported.into(),
        })
    }

    pub(crate) fn remove_file(&self, name: &OsStr) -> Result<(), Fault> {
        Ok(fs::remove_file(self.path.join(name))?)
    }

    pub(crate) fn remove_folder(&self, name: &OsStr) -> Result<(), Fault> {
        Ok(fs::remove_dir(self.path.join(name))?)
    }

    pub(crate) fn is_writable(&self, name: &OsStr) -> bool {
        let mut options = OpenOptions::new();
        options.write(true).follow(FollowSymlinks::No);
        self.dir.open_with(name, &options).is_ok()
    }

    /// Does nothing: the system keeps its own journal of names.
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "other systems can fail")]
    pub(crate) fn sync(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// Does nothing: a new file has the permissions of its folder, and a file with others of its own loses them. A read-only
/// file is not replaced.
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
pub(crate) fn make_like(_file: &File, _like: &Stat) -> Result<(), Unlike> {
    Ok(())
}

/// Does nothing, like [`make_like`].
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
pub(crate) fn permit_like(_file: &File, _like: &Stat) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_streams_and_devices_are_no_names() {
        for name in [
            "a:b",
            "a::$DATA",
            "a.",
            "a ",
            "NUL",
            "com1.txt",
            "COM\u{b9}",
            "aux .rs",
            "a\\b",
            "",
            "a*",
            "CONIN$",
        ] {
            assert!(!is_name(OsStr::new(name)), "{name:?}");
        }
        for name in ["a.rs", ".gitignore", "console", "comx", "com10", "nulls.rs", "a b", "ä", "lpt"] {
            assert!(is_name(OsStr::new(name)), "{name:?}");
        }
    }

    #[test]
    fn open_folder_stays_where_it_is() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        let folder =
            Folder::open(&super::super::files::canonicalize(&root.path().join("a")).unwrap()).unwrap();
        assert!(fs::rename(root.path().join("a"), root.path().join("c")).is_err());
        drop(folder);
        fs::rename(root.path().join("a"), root.path().join("c")).unwrap();
    }
}
