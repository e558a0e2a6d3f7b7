//! Executables: which files are executable, which are in a workspace, and which a bare name finds.

use std::{
    collections::VecDeque,
    fmt, fs,
    path::{Component, Path, PathBuf},
};

use super::Env;
pub(super) use crate::shell::os::files::is_executable;
use crate::shell::os::files::{canonicalize, executable_names};

/// An executable that lspool does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its path.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped {}: {}", self.path.display(), self.reason)
    }
}

/// The untrusted folders.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// The folders, as the editor named them.
    folders: Vec<PathBuf>,
    /// The folders, with all links resolved.
    real: Vec<PathBuf>,
}

impl Workspace {
    /// A workspace of these folders.
    pub fn new(folders: &[PathBuf]) -> Workspace {
        Workspace { folders: folders.to_vec(), real: folders.iter().map(|it| real(it)).collect() }
    }

    /// The folders, as the editor named them.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The folders, with all links resolved.
    pub(super) fn real(&self) -> &[PathBuf] {
        &self.real
    }

    /// The workspace folder that contains this path, or that its links lead through.
    pub fn holds(&self, path: &Path) -> Option<&Path> {
        self.leads_through(path).or_else(|| self.folder_of(&real(path)))
    }

    /// Follows every link on the way, also of folders: the owner of a link chooses its target.
    fn leads_through(&self, path: &Path) -> Option<&Path> {
        // The system does not follow longer chains.
        const LINKS: usize = 40;
        let mut links = 0;
        let mut at = PathBuf::new();
        let mut ahead: VecDeque<PathBuf> = names(path).collect();
        while let Some(name) = ahead.pop_front() {
            if name == Path::new("..") {
                at.pop();
                continue;
            }
            // An absolute target of a link replaces the path before it.
            let place = at.join(name);
            if let Some(folder) = self.folder_of(&place) {
                return Some(folder);
            }
            match fs::read_link(&place) {
                Ok(target) if links < LINKS => {
                    links += 1;
                    for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                        ahead.push_front(name);
                    }
                }
                Ok(_) | Err(_) => at = place,
            }
        }
        None
    }

    /// The workspace folder that contains this path, which has no links.
    fn folder_of(&self, path: &Path) -> Option<&Path> {
        let mut folders = self.folders.iter().zip(&self.real);
        folders.find(|(_, real)| path.starts_with(real)).map(|(folder, _)| folder.as_path())
    }

    /// Notes an executable in the workspace. Returns whether it is in the workspace.
    pub(super) fn refuses(&self, path: &Path, skipped: &mut Vec<Skipped>) -> bool {
        let Some(folder) = self.holds(path) else { return false };
        let reason = format!("inside the workspace {}", folder.display());
        let skip = Skipped { path: path.to_owned(), reason };
        if !skipped.contains(&skip) {
            skipped.push(skip);
        }
        true
    }
}

/// Resolves all links of a path. A missing path stays unchanged.
pub(super) fn real(path: &Path) -> PathBuf {
    canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The components of a path.
fn names(path: &Path) -> impl Iterator<Item = PathBuf> {
    path.components().filter(|it| *it != Component::CurDir).map(|it| PathBuf::from(it.as_os_str()))
}

/// A path without `.` components.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|it| *it != Component::CurDir).collect()
}

/// All executables of this name on `PATH`, the preferred one first.
pub(super) fn on_path(
    name: &str,
    env: &Env,
    workspace: &Workspace,
    skipped: &mut Vec<Skipped>,
) -> Vec<PathBuf> {
    let names = executable_names(name, env.var("PATHEXT"));
    let mut found = Vec::new();
    for entry in env.var("PATH").into_iter().flat_map(std::env::split_paths) {
        for name in &names {
            if entry.is_relative() {
                let path = plain(&env.cwd.join(&entry).join(name));
                if is_executable(&path) && !workspace.refuses(&path, skipped) {
                    skipped.push(Skipped { path, reason: "its entry of PATH is relative".to_owned() });
                }
                continue;
            }
            let path = entry.join(name);
            if is_executable(&path) && !found.contains(&path) && !workspace.refuses(&path, skipped) {
                found.push(path);
            }
        }
    }
    found
}
