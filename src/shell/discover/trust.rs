//! The folders that the user trusts: language servers may run the programs of their projects.
//!
//! One absolute path in each line of a file beside the user's configuration. **No file of a workspace adds one.**

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::{Env, user_file};
use crate::shell::{os::files::canonicalize, private};

/// The name of the file.
const FILE: &str = "trusted-folders";

/// The trusted folders, and their file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    file: PathBuf,
    /// Absolute and without links.
    pub folders: Vec<PathBuf>,
}

impl Trust {
    /// Reads the file. A missing one trusts nothing.
    pub fn read(env: &Env) -> Result<Trust, String> {
        let config = user_file(env).ok_or("there is no folder for the user's configuration")?;
        let file = config.with_file_name(FILE);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
        };
        let folders = text.lines().map(PathBuf::from).filter(|it| it.is_absolute()).collect();
        Ok(Trust { file, folders })
    }

    /// Whether a folder, or one above it, is trusted.
    pub fn holds(&self, folder: &Path) -> bool {
        canonicalize(folder).is_ok_and(|it| self.folders.iter().any(|trusted| it.starts_with(trusted)))
    }

    /// Trusts a folder from now on.
    pub fn add(&mut self, folder: PathBuf) -> Result<(), String> {
        if folder.to_str().is_none_or(|it| it.contains(['\n', '\r'])) {
            return Err(format!("{} has a name that lspool cannot store", folder.display()));
        }
        if !self.folders.contains(&folder) {
            self.folders.push(folder);
        }
        self.write()
    }

    /// Trusts a folder no longer. Fails if it is trusted because of one above it.
    pub fn remove(&mut self, folder: &Path) -> Result<(), String> {
        self.folders.retain(|it| it != folder);
        self.write()?;
        match self.folders.iter().find(|it| folder.starts_with(it)) {
            Some(above) => Err(format!("{} is trusted with {}", folder.display(), above.display())),
            None => Ok(()),
        }
    }

    /// The folders, one in each line.
    pub fn lines(&self) -> String {
        self.folders.iter().flat_map(|it| [it.to_string_lossy(), "\n".into()]).collect()
    }

    fn write(&self) -> Result<(), String> {
        let text = self.lines();
        let written = private::make(self.file.parent().unwrap_or(Path::new("")))
            .and_then(|()| private::replace(&self.file, |out| out.write_all(text.as_bytes())));
        written.map_err(|error| format!("cannot write {}: {error}", self.file.display()))
    }
}

/// Whether the user trusts all of a workspace.
pub(super) fn is_trusted(folders: &[PathBuf], env: &Env) -> bool {
    let trust = Trust::read(env).inspect_err(|error| tracing::warn!(error, "trusting no folder"));
    !folders.is_empty() && trust.is_ok_and(|trust| folders.iter().all(|it| trust.holds(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn folder_is_trusted_with_those_below_until_it_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let env = Env { home: Some(root.clone()), cwd: root.clone(), ..Env::default() };
        for name in ["a/deep", "ab"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("ab"), root.join("a/link")).unwrap();
        let trusted =
            |names: &[&str]| is_trusted(&names.iter().map(|it| root.join(it)).collect::<Vec<_>>(), &env);
        assert!(!trusted(&["a"]) && !trusted(&[]));
        Trust::read(&env).unwrap().add(root.join("a")).unwrap();
        assert!(trusted(&["a"]) && trusted(&["a/deep"]));
        // Neither a similar name, nor a link out of it, nor one folder of two.
        assert!(
            !trusted(&["ab"]) && !trusted(&["a/link"]) && !trusted(&["a", "ab"]) && !trusted(&["a/gone"])
        );
        let mut trust = Trust::read(&env).unwrap();
        assert!(trust.remove(&root.join("a/deep")).unwrap_err().contains("is trusted with"));
        trust.remove(&root.join("a")).unwrap();
        assert!(!trusted(&["a"]));
        assert!(trust.add(root.join("b\nc")).is_err());
    }
}
