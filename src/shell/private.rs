//! Files that only this user can read, for as long as lspool runs: what was said in conversations.
//!
//! They lie on a memory file system where there is one. The folder is removed when lspool ends, by its guard if
//! need be.

use std::{
    env, fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;

use crate::core::event::ProcessId;

/// Makes a folder that nobody else can enter. `name` is new.
pub(super) fn folder(name: &str) -> io::Result<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|it| is_ours(it));
    let memory = || Some(PathBuf::from("/dev/shm")).filter(|it| it.is_dir());
    let folder = runtime.or_else(memory).unwrap_or_else(env::temp_dir).join(name);
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

/// Whether a folder is absolute, and closed to others.
fn is_ours(folder: &Path) -> bool {
    let mode = fs::metadata(folder).map(|it| it.permissions().mode() & 0o077);
    folder.is_absolute() && mode.is_ok_and(|it| it == 0)
}

/// The folder of one process.
pub(super) fn of_process(root: &Path, process: ProcessId) -> PathBuf {
    root.join(format!("{}-{}", process.backend.0, process.generation.0))
}

/// Writes the transcript of a conversation, whole or not at all.
pub(super) fn write(folder: &Path, conversation: &str, content: &Bytes) -> io::Result<()> {
    let folder = folder.join(conversation);
    fs::DirBuilder::new().mode(0o700).recursive(true).create(&folder)?;
    let (file, half) = (folder.join("partition-1.jsonl"), folder.join("partition-1.new"));
    let mut out = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
    out.write_all(content)?;
    fs::rename(half, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::{BackendId, Generation};

    #[test]
    fn a_transcript_is_for_its_user_alone() {
        let root = tempfile::tempdir().unwrap();
        let process = ProcessId { backend: BackendId(3), generation: Generation(2) };
        let folder = of_process(root.path(), process);
        write(&folder, "c", &Bytes::from_static(b"one\n")).unwrap();
        write(&folder, "c", &Bytes::from_static(b"two\n")).unwrap();
        let file = folder.join("c/partition-1.jsonl");
        assert_eq!(fs::read(&file).unwrap(), b"two\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(folder.join("c")).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(folder.join("c")).unwrap().count(), 1);
    }
}
