//! What is stored of the work on a goal that a terminal has given, so that it can continue.
//!
//! One file for each workspace, in `lspool/goals` below [`state_folder`]. Only the user can read it. What it says is its
//! writer's.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::{discover::Env, private, teams::folder_name};

/// The file of one workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalFile(PathBuf);

impl GoalFile {
    /// That of a folder; `None` if there is no place for it.
    pub fn of(env: &Env, workspace: &Path) -> Option<GoalFile> {
        let folder = state_folder(env)?.join("lspool").join("goals");
        Some(GoalFile(folder.join(format!("{}.json", folder_name(workspace)))))
    }

    /// What it says; `None` if it is missing.
    pub fn load(&self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(&self.0) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes it, whole or not at all.
    pub fn save(&self, content: &[u8]) -> io::Result<()> {
        private::make(self.0.parent().unwrap_or(Path::new("")))?;
        private::replace(&self.0, |out| out.write_all(content))
    }

    /// Removes it.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Where the user's programs keep their state.
pub fn state_folder(env: &Env) -> Option<PathBuf> {
    match cfg!(windows) {
        true => env.local(),
        false => env.folder("XDG_STATE_HOME").or_else(|| env.at_home(".local/state")),
    }
}

/// What to do if there is no such place.
pub(super) const NO_STATE: &str =
    if cfg!(windows) { "set LOCALAPPDATA" } else { "set XDG_STATE_HOME or HOME" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_file_is_private_and_of_one_workspace() {
        let root = tempfile::tempdir().unwrap();
        let env = Env { home: Some(root.path().to_owned()), ..Env::default() };
        let [one, other] = ["a", "b"].map(|it| GoalFile::of(&env, &root.path().join(it)).unwrap());
        assert_ne!(one, other);
        assert_eq!(one.load().unwrap(), None);
        one.save(b"1").unwrap();
        one.save(b"2").unwrap();
        assert_eq!((one.load().unwrap(), other.load().unwrap()), (Some(b"2".to_vec()), None));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&one.0).unwrap().permissions().mode() & 0o777, 0o600);
        }
        one.remove().unwrap();
        one.remove().unwrap();
        assert_eq!(one.load().unwrap(), None);
        assert_eq!(GoalFile::of(&Env::default(), root.path()), None);
    }
}
