//! Paths as bytes.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// The bytes of a path.
pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The path with these bytes.
#[expect(clippy::unnecessary_wraps, reason = "on other systems some bytes are no path")]
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    Some(OsStr::from_bytes(bytes).into())
}

/// A folder that is always there and that nobody removes.
pub(crate) fn root() -> PathBuf {
    PathBuf::from("/")
}

/// The executable of this process, where its path is unknown.
pub(crate) fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}
