//! Text files of the workspace, for a hub that wants to know which text is on the disk.

use std::{fs::File, io::Read as _, path::Path};

/// The largest file that is read, in bytes.
const MOST: u64 = 16 * 1024 * 1024;

/// The text of a regular file that is not too large.
pub(super) fn small_text(path: &Path) -> Option<String> {
    let is_small_file = |it: &std::fs::Metadata| it.is_file() && it.len() <= MOST;
    // A pipe would wait for a writer.
    std::fs::metadata(path).ok().filter(is_small_file)?;
    let mut text = String::new();
    File::open(path).ok()?.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}
