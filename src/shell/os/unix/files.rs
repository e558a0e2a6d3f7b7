//! Files by their paths: who may use them, what they are known by, which can be run.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{Access, OFlags, access};

/// When a file was changed, in seconds and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) modified: (i64, i64),
    /// The last change of its content, its names, or its permissions.
    pub(crate) changed: (i64, i64),
}

pub(crate) fn times(it: &Metadata) -> Times {
    Times { modified: (it.mtime(), it.mtime_nsec()), changed: (it.ctime(), it.ctime_nsec()) }
}

/// The device and the inode.
pub(crate) fn identity(it: &Metadata) -> (u64, u64) {
    (it.dev(), it.ino())
}

/// Whether a path leads to this open file.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| file.metadata().is_ok_and(|own| identity(&own) == identity(&it)))
}

/// The path without links, as other programs write it.
pub(crate) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// What follows a folder in a path, by their texts. `None`: it is not below the folder.
pub(crate) fn rest_of(path: &Path, folder: &Path) -> Option<PathBuf> {
    path.strip_prefix(folder).ok().map(Path::to_owned)
}

/// To make a folder that is closed to others.
pub(crate) fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// To make a file that is closed to others.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// To make a file that is closed to others and that nobody writes to.
pub(crate) fn private_copy() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o400);
    options
}

/// To append to a file that may be a pipe. A pipe without a reader does not hold up lspool.
pub(crate) fn log_file() -> OpenOptions {
    let mut options = private_file();
    options.append(true).create(true);
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    options
}

/// Whether a folder is closed to others.
pub(crate) fn is_private(folder: &Path) -> bool {
    let mode = fs::metadata(folder).map(|it| it.permissions().mode() & 0o077);
    mode.is_ok_and(|it| it == 0)
}

/// A folder that is in memory only.
pub(crate) fn memory_folder() -> Option<PathBuf> {
    Some(PathBuf::from("/dev/shm")).filter(|it| it.is_dir())
}

/// Waits until the names in a folder are on the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Whether a path is an executable file.
pub(crate) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file()) && access(path, Access::EXEC_OK).is_ok()
}

/// The possible names of a command's file, the preferred one first. `endings` is `PATHEXT`.
pub(crate) fn executable_names(name: &str, _endings: Option<&OsStr>) -> Vec<String> {
    vec![name.to_owned()]
}
