//! Files by their paths: who may use them, what they are known by, which can be run.
//!
//! Private files are below the user's profile, whose permissions they inherit: files have no modes here.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io,
    os::windows::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use cap_fs_ext::MetadataExt as _;

/// Endings of files that [`std::process::Command`] can run, the preferred ones first.
const ENDINGS: [&str; 4] = ["com", "exe", "bat", "cmd"];

/// When a file was changed, in units of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) modified: (i64, i64),
    /// When it was made: a file that replaces it is younger.
    pub(crate) changed: (i64, i64),
}

pub(crate) fn times(it: &Metadata) -> Times {
    let time = |it: u64| (i64::try_from(it).unwrap_or(i64::MAX), 0);
    Times { modified: time(it.last_write_time()), changed: time(it.creation_time()) }
}

/// Always the same: the system tells it of open files only.
pub(crate) fn identity(_it: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// Whether a path leads to this open file.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |file: &File| {
        let it = cap_std::fs::Metadata::from_file(file).ok()?;
        Some((it.dev(), it.ino()))
    };
    File::open(path).is_ok_and(|there| identity(file).is_some() && identity(file) == identity(&there))
}

/// The path without links, as other programs write it: `C:\x`, not `\\?\C:\x`.
pub(crate) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path).map(|it| simple(&it))
}

/// A path as other programs write it, if they can.
pub(super) fn simple(path: &Path) -> PathBuf {
    // `dunce` leaves shares as they are.
    match path.to_str().and_then(|it| it.strip_prefix(r"\\?\UNC\")) {
        Some(rest) if rest.len() < 250 && !rest.split('\\').any(|it| it.ends_with(['.', ' '])) => {
            PathBuf::from(format!(r"\\{rest}"))
        }
        Some(_) | None => dunce::simplified(path).to_owned(),
    }
}

/// What follows a folder in a path, by their texts: in any case. `None`: it is not below the folder.
pub(crate) fn rest_of(path: &Path, folder: &Path) -> Option<PathBuf> {
    let (path, folder) = (simple(path), simple(folder));
    let lower = |it: Component<'_>| it.as_os_str().to_string_lossy().to_lowercase();
    let mut rest = path.components();
    for wanted in folder.components() {
        let it = rest.next()?;
        if it != wanted && lower(it) != lower(wanted) {
            return None;
        }
    }
    Some(rest.as_path().to_owned())
}

/// To make a folder with the permissions of the one that it is in.
pub(crate) fn private_folder() -> DirBuilder {
    DirBuilder::new()
}

/// To make a file with the permissions of its folder.
pub(crate) fn private_file() -> OpenOptions {
    OpenOptions::new()
}

/// The same: nothing could replace a file that is read-only.
pub(crate) fn private_copy() -> OpenOptions {
    OpenOptions::new()
}

/// To append to a file.
pub(crate) fn log_file() -> OpenOptions {
    let mut options = private_file();
    options.append(true).create(true);
    options
}

/// Whether a folder is closed to others: it is in the profile of the user.
pub(crate) fn is_private(folder: &Path) -> bool {
    let profile = std::env::home_dir().and_then(|it| canonicalize(&it).ok());
    profile.is_some_and(|it| canonicalize(folder).is_ok_and(|folder| rest_of(&folder, &it).is_some()))
}

/// A folder for what lasts as long as lspool. It is on the disk: the system has none in memory.
pub(crate) fn memory_folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("LOCALAPPDATA")?).join("lspool").join("private");
    fs::create_dir_all(&folder).ok().filter(|()| is_private(&folder)).map(|()| folder)
}

/// Does nothing: the system keeps its own journal of names.
pub(crate) fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Whether a path is an executable file.
pub(crate) fn is_executable(path: &Path) -> bool {
    let can_run = |it: &OsStr| ENDINGS.iter().any(|ending| it.eq_ignore_ascii_case(ending));
    path.extension().is_some_and(can_run) && fs::metadata(path).is_ok_and(|it| it.is_file())
}

/// The possible names of a command's file, the preferred one first. `endings` is `PATHEXT`.
pub(crate) fn executable_names(name: &str, endings: Option<&OsStr>) -> Vec<String> {
    let is_known = |it: &str| ENDINGS.iter().any(|ending| it.eq_ignore_ascii_case(ending));
    if Path::new(name).extension().and_then(OsStr::to_str).is_some_and(is_known) {
        return vec![name.to_owned()];
    }
    let endings = endings.map(|it| it.to_string_lossy().to_ascii_lowercase());
    let of_user: Vec<&str> =
        endings.iter().flat_map(|it| it.split(';')).map(|it| it.trim_start_matches('.')).collect();
    let wanted = of_user.into_iter().filter(|it| is_known(it)).collect::<Vec<_>>();
    let wanted = if wanted.is_empty() { ENDINGS.to_vec() } else { wanted };
    wanted.into_iter().map(|ending| format!("{name}.{ending}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_as_other_programs_write_them() {
        for (path, wanted) in [
            (r"\\?\C:\a b\ä", r"C:\a b\ä"),
            (r"\\?\UNC\server\share\x", r"\\server\share\x"),
            (r"\\?\UNC\server\share\x.", r"\\?\UNC\server\share\x."),
            (r"C:\x", r"C:\x"),
        ] {
            assert_eq!(simple(Path::new(path)), Path::new(wanted));
        }
    }

    #[test]
    fn case_of_paths_does_not_count() {
        let rest = |path: &str, folder: &str| rest_of(Path::new(path), Path::new(folder));
        assert_eq!(rest(r"c:\Users\Ä\x.rs", r"C:\users\ä"), Some("x.rs".into()));
        assert_eq!(rest("C:/a/b", r"\\?\C:\a"), Some("b".into()));
        assert_eq!(rest(r"D:\a", r"C:\a"), None);
        assert_eq!(rest(r"\\Server\share\x", r"\\server\share"), Some("x".into()));
    }

    #[test]
    fn commands_have_the_endings_of_the_user() {
        let names = |name: &str, endings: Option<&str>| executable_names(name, endings.map(OsStr::new));
        assert_eq!(names("npx", Some(".COM;.EXE;.JS;.CMD")), ["npx.com", "npx.exe", "npx.cmd"]);
        assert_eq!(names("npx", None), ["npx.com", "npx.exe", "npx.bat", "npx.cmd"]);
        assert_eq!(names("NPX.CMD", None), ["NPX.CMD"]);
        assert_eq!(names("python3.11", Some(".exe")), ["python3.11.exe"]);
    }
}
