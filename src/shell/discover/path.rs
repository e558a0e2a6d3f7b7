//! Executables: what is one, which lie in a workspace, which are found by a bare name.

use std::{
    collections::VecDeque,
    fmt, fs,
    path::{Component, Path, PathBuf},
};

use super::Env;

/// Something that was found and is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// What was found.
    pub path: PathBuf,
    /// Why it is not used.
    pub reason: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped {}: {}", self.path.display(), self.reason)
    }
}

/// The folders whose content nobody vouches for.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// As the editor named them.
    folders: Vec<PathBuf>,
    /// Where they really are.
    real: Vec<PathBuf>,
}

impl Workspace {
    /// The workspace that consists of these folders.
    pub fn new(folders: &[PathBuf]) -> Workspace {
        Workspace { folders: folders.to_vec(), real: folders.iter().map(|it| real(it)).collect() }
    }

    /// The folders, as the editor named them.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The folders, where they really are.
    pub(super) fn real(&self) -> &[PathBuf] {
        &self.real
    }

    /// The folder that this path lies in or leads through.
    pub fn holds(&self, path: &Path) -> Option<&Path> {
        self.leads_through(path).or_else(|| self.folder_of(&real(path)))
    }

    /// Follows every link on the way, those of folders too: who owns a link chooses its target.
    fn leads_through(&self, path: &Path) -> Option<&Path> {
        // Longer chains than the system follows are no executables.
        const LINKS: usize = 40;
        let mut links = 0;
        let mut at = PathBuf::new();
        let mut ahead: VecDeque<PathBuf> = names(path).collect();
        while let Some(name) = ahead.pop_front() {
            if name == Path::new("..") {
                at.pop();
                continue;
            }
            // An absolute name, the target of a link, takes the place of all before it.
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

    /// The folder that holds this path, which has no links in it.
    fn folder_of(&self, path: &Path) -> Option<&Path> {
        let mut folders = self.folders.iter().zip(&self.real);
        folders.find(|(_, real)| path.starts_with(real)).map(|(folder, _)| folder.as_path())
    }

    /// Notes a find that lies in the workspace; tells whether it does.
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

/// Where a path really is; itself if it is nowhere.
pub(super) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The steps of a path.
fn names(path: &Path) -> impl Iterator<Item = PathBuf> {
    path.components().filter(|it| *it != Component::CurDir).map(|it| PathBuf::from(it.as_os_str()))
}

/// A path without `.` in it.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|it| *it != Component::CurDir).collect()
}

/// Is it a file that may be executed?
pub(super) fn is_executable(path: &Path) -> bool {
    let is_file = fs::metadata(path).is_ok_and(|it| it.is_file());
    #[cfg(unix)]
    let may = rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    #[cfg(not(unix))]
    let may = true;
    is_file && may
}

/// All executables of this name on `PATH`, best first.
pub(super) fn on_path(
    name: &str,
    env: &Env,
    workspace: &Workspace,
    skipped: &mut Vec<Skipped>,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in env.var("PATH").into_iter().flat_map(std::env::split_paths) {
        for name in file_names(name) {
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

/// The names that a file of a command may have.
fn file_names(name: &str) -> Vec<String> {
    if cfg!(windows) && Path::new(name).extension().is_none() {
        ["exe", "cmd", "bat"].map(|extension| format!("{name}.{extension}")).to_vec()
    } else {
        vec![name.to_owned()]
    }
}
