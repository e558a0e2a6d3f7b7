//! Paths as bytes.

use std::path::{Path, PathBuf};

/// The bytes of a path: UTF-8, but for names that are no text.
pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// The path with these bytes, if they are text.
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

/// A folder that is always there and that nobody removes.
pub(crate) fn root() -> PathBuf {
    std::env::var_os("SystemRoot").map_or_else(|| PathBuf::from(r"C:\"), PathBuf::from)
}

/// The executable of this process, where its path is unknown.
pub(crate) fn own_program() -> PathBuf {
    PathBuf::from("lspool.exe")
}
