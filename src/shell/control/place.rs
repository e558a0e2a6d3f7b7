//! The place of the control sockets of a user, and the check that the place can be trusted.
//!
//! A socket is called `<pid>-<start>.sock`. Both the listener and the client check the folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::shell::os::{
    processes::exists,
    sockets::{check, is_refused, make_folder},
};

const SUFFIX: &str = ".sock";

/// An lspool that has a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    /// When it started, in milliseconds since 1970.
    pub started: u64,
    /// Its process id.
    pub pid: u32,
    /// Its socket, if it still listens.
    pub socket: PathBuf,
}

/// The name of a socket.
pub(in crate::shell) fn name(pid: u32, started: u64) -> String {
    format!("{pid}-{started}{SUFFIX}")
}

/// Makes the first possible folder. Fails if it exists and others can use it.
pub(in crate::shell) fn make(folders: &[PathBuf]) -> Result<&Path, String> {
    let mut problems = Vec::new();
    for folder in folders {
        match make_folder(folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                problems.push(format!("cannot make {}: {error}", folder.display()));
                continue;
            }
        }
        return check(folder).map(|()| folder.as_path());
    }
    if problems.is_empty() {
        problems.push("every folder has too long a path for a socket".to_owned());
    }
    Err(problems.join("; "))
}

/// The sockets in a folder of this user; the older instances first.
pub fn instances(folder: &Path) -> Vec<Instance> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let instance = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let (pid, started) = name.to_str()?.strip_suffix(SUFFIX)?.split_once('-')?;
        let (pid, started) = (pid.parse().ok()?, started.parse().ok()?);
        Some(Instance { started, pid, socket: entry.path() })
    };
    let mut all: Vec<_> = entries.filter_map(instance).collect();
    all.sort();
    all
}

/// Removes the sockets without a listener. The process id does not tell: another container may share the folder, and
/// the system reuses numbers. A new socket without a listener may belong to an lspool that is about to listen.
pub(super) fn sweep(folder: &Path, now: u64) {
    for it in instances(folder) {
        let is_new = now.saturating_sub(it.started) < 10_000;
        if is_refused(&it.socket) && !(is_new && exists(it.pid)) {
            tracing::debug!(socket = %it.socket.display(), "removed the socket of a dead lspool");
            // Another lspool may have removed it.
            fs::remove_file(&it.socket).ok();
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};

    use rustix::process::geteuid;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn control_folder_must_be_private_to_user() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("lspool");
        let all = [root.path().join("missing/lspool"), folder.clone()];
        assert_eq!(make(&all), Ok(&*folder));
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(make(&all), Ok(&*folder));
        for wrong in [0o750, 0o701, 0o722, 0o777, 0o600] {
            mode(&folder, wrong);
            let problem = make(&all).unwrap_err();
            assert!(problem.contains("has mode"), "{problem}");
        }
        fs::remove_dir(&folder).unwrap();
        let other = root.path().join("other");
        fs::DirBuilder::new().mode(0o700).create(&other).unwrap();
        symlink(&other, &folder).unwrap();
        assert!(make(&all).unwrap_err().ends_with("is not a folder"));
        fs::remove_file(&folder).unwrap();
        symlink("/nowhere", &folder).unwrap();
        assert!(make(&all).unwrap_err().ends_with("is not a folder"));
        fs::remove_file(&folder).unwrap();
        fs::write(&folder, "").unwrap();
        assert!(make(&all).unwrap_err().ends_with("is not a folder"));
        assert!(make(&[]).is_err());
        if geteuid().is_root() {
            std::os::unix::fs::chown(&other, Some(12345), None).unwrap();
            assert!(check(&other).unwrap_err().ends_with("belongs to user 12345"));
        }
    }

    #[test]
    fn sweep_removes_only_leftover_sockets() {
        use std::os::unix::net::UnixListener;
        let root = tempfile::tempdir().unwrap();
        let at = |pid: u32, started: u64| root.path().join(name(pid, started));
        let own = std::process::id();
        let gone = {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            child.id()
        };
        drop(UnixListener::bind(at(gone, 1)).unwrap());
        drop(UnixListener::bind(at(gone, 96_000)).unwrap());
        let _of_another_container = UnixListener::bind(at(gone, 4)).unwrap();
        drop(UnixListener::bind(at(own, 2)).unwrap());
        // It may be about to listen.
        drop(UnixListener::bind(at(own, 95_000)).unwrap());
        let _lives = UnixListener::bind(at(own, 3)).unwrap();
        for name in ["notes.txt", "1-2", "x-3.sock", "4.sock", "-1-2.sock"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        sweep(root.path(), 100_000);
        let left: Vec<_> = instances(root.path()).into_iter().map(|it| (it.pid, it.started)).collect();
        assert_eq!(left, [(own, 3), (gone, 4), (own, 95_000)]);
        assert!(root.path().join("notes.txt").exists() && root.path().join("-1-2.sock").exists());
    }
}
