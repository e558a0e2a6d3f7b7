//! Opens files of the workspace, and no others.
//!
//! Follows a path one name at a time: opens each folder from the one before, never through a link, and follows the
//! target of a link in the same way. `..` returns to the folder that was opened before. So renames and replacements
//! at any moment have no effect: **nothing outside the workspace folders is ever opened**, because no path is checked
//! first and used later.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::{OsStr, OsString},
    fs::File,
    path::{Component, Path, PathBuf, is_separator},
    sync::{Mutex, PoisonError},
};

use crate::shell::os::{
    fault::{Fault, Kind, Why},
    files::{canonicalize, rest_of},
    folder::{Folder, Stat, is_name},
};

/// How many links a path may lead through, as in Linux.
const MOST_LINKS: usize = 40;
/// How many names a path may have. Each is an open folder.
const MOST_NAMES: usize = 128;

/// The folder with the history of a repository, and commands that git runs. Tools may not write there.
const HISTORY: &str = ".git";

/// The workspace folders at their first use. A command may replace one by a link, which would then be the workspace.
///
/// **Nothing waits for a disk while this is locked**: a hanging disk would delay calls in other folders.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<BTreeMap<PathBuf, Identity>>);

/// A path without links, the device, and the inode.
type Identity = (PathBuf, u64, u64);

/// An open folder with its identity.
type Opened = (Folder, Identity);

impl Known {
    /// Opens a folder, if it is still the same. `None`: it does not exist.
    fn open(&self, path: &Path) -> Option<Result<Root, String>> {
        self.open_by(path, |real| match real {
            Some(real) => open_folder(real),
            None => open_folder(canonicalize(path).ok()?),
        })
    }

    /// `open` gets the path without links, if it is known.
    fn open_by(
        &self,
        path: &Path,
        open: impl FnOnce(Option<PathBuf>) -> Option<Result<Opened, Changed>>,
    ) -> Option<Result<Root, String>> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let real = lock().get(path).map(|(real, ..)| real.clone());
        let opened = open(real)?.and_then(|(folder, now)| {
            let is_same = *lock().entry(path.to_owned()).or_insert_with(|| now.clone()) == now;
            if is_same { Ok(Root { folder, path: path.to_owned(), real: now.0 }) } else { Err(Changed) }
        });
        let changed = |Changed| format!("{} was replaced by another folder: restart lspool", path.display());
        Some(opened.map_err(changed))
    }
}

/// A folder was replaced.
struct Changed;

fn open_folder(real: PathBuf) -> Option<Result<Opened, Changed>> {
    let folder = match Folder::open(&real) {
        Ok(folder) => folder,
        Err(fault) if matches!(fault.why(), Why::Links | Why::NotFolder) => return Some(Err(Changed)),
        Err(_) => return None,
    };
    let (device, inode) = folder.identity().ok()?;
    Some(Ok((folder, (real, device, inode))))
}

/// The workspace folders.
#[derive(Debug)]
pub(super) struct Workspace {
    roots: Vec<Root>,
}

#[derive(Debug)]
struct Root {
    folder: Folder,
    /// The editor's path.
    path: PathBuf,
    /// The path without links.
    real: PathBuf,
}

/// A name in a folder of the workspace, for an existing or a missing file.
#[derive(Debug)]
pub(super) struct Place {
    folder: Folder,
    /// `None`: the folder itself.
    name: Option<OsString>,
    /// The absolute path for people and models.
    pub(super) path: PathBuf,
    /// The names from the workspace folder on.
    names: Vec<OsString>,
}

/// What to do about missing folders in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Fail.
    Refuse,
    /// Make them.
    Make,
}

/// Whether to follow links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Follow,
    Refuse,
}

impl Workspace {
    /// Opens the folders. Leaves out a missing one.
    pub(super) fn open(folders: &[PathBuf], known: &Known) -> Result<Workspace, String> {
        let roots: Vec<Root> = folders.iter().filter_map(|it| known.open(it)).collect::<Result<_, _>>()?;
        match roots.is_empty() {
            true => Err("no workspace folder is open, so this tool cannot access files".to_owned()),
            false => Ok(Workspace { roots }),
        }
    }

    /// Their paths without links.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|it| it.real.as_path())
    }

    /// Where an absolute path leads, if links above a workspace folder lead into it. Of the path, only the way to the
    /// folder is resolved: the rest is for [`Workspace::find`].
    pub(super) fn entered(&self, path: &Path) -> Option<PathBuf> {
        for way in path.ancestors().take(MOST_NAMES) {
            let Ok(real) = canonicalize(way) else { continue };
            let Some(root) = self.roots.iter().find(|it| it.real == real) else { continue };
            let mut entered = root.path.clone();
            for part in path.strip_prefix(way).ok()?.components() {
                match part {
                    Component::Normal(name) => entered.push(name),
                    Component::ParentDir => drop(entered.pop()),
                    Component::CurDir => {}
                    Component::RootDir | Component::Prefix(_) => return None,
                }
            }
            return entered.starts_with(&root.path).then_some(entered);
        }
        None
    }

    /// Removes the workspace folder from the beginning of a pattern.
    pub(super) fn below<'a>(&self, pattern: &'a str) -> &'a str {
        let paths = self.roots.iter().flat_map(|it| [&it.path, &it.real]);
        let below = |root: &PathBuf| pattern.strip_prefix(root.to_str()?)?.strip_prefix(is_separator);
        paths.filter_map(below).min_by_key(|it| it.len()).unwrap_or(pattern)
    }

    /// Finds the place of a path: an absolute one, or one relative to the first folder.
    pub(super) fn find(&self, path: &str, missing: Missing) -> Result<Place, String> {
        let (root, rest) = self.enter(Path::new(path)).ok_or_else(|| self.outside(path))?;
        self.walk(root, &rest, missing, Links::Follow).map_err(|it| it.told(self, path))
    }

    /// Finds a listed file. No link may lead to it.
    pub(super) fn found(&self, path: &Path) -> Option<Place> {
        let (root, rest) = self.enter(path)?;
        self.walk(root, &rest, Missing::Refuse, Links::Refuse).ok()
    }

    /// The workspace folder of a path, by its text, and the rest of the path.
    fn enter(&self, path: &Path) -> Option<(usize, PathBuf)> {
        if path.is_relative() {
            return Some((0, path.to_owned()));
        }
        let below = |(at, root): (usize, &Root)| {
            let rest = rest_of(path, &root.path).or_else(|| rest_of(path, &root.real))?;
            Some((at, rest))
        };
        let found = self.roots.iter().enumerate().filter_map(below);
        // Of nested folders, the inner one.
        found.min_by_key(|(_, rest)| rest.as_os_str().len())
    }

    fn walk(&self, root: usize, path: &Path, missing: Missing, links: Links) -> Result<Place, Refusal> {
        let mut walk = Walk {
            workspace: self,
            root,
            folders: Vec::new(),
            names: Vec::new(),
            todo: VecDeque::new(),
            n_links: 0,
        };
        walk.follow(path)?;
        while let Some(step) = walk.todo.pop_front() {
            let Step::Into(name) = step else {
                walk.back()?;
                continue;
            };
            let name = walk.spelled(name)?;
            if walk.names.len() == MOST_NAMES {
                return Err(Why::TooLong.into());
            }
            let is_last = walk.todo.is_empty();
            if walk.is_link(&name)? {
                match links {
                    Links::Follow => walk.follow_link(&name)?,
                    Links::Refuse => return Err(Refusal::Outside),
                }
            } else if is_last {
                return walk.at(Some(name));
            } else {
                walk.enter(name, missing)?;
            }
        }
        walk.at(None)
    }

    fn outside(&self, path: &str) -> String {
        let folders: Vec<_> = self.roots.iter().map(|it| it.path.display().to_string()).collect();
        format!("{path} is outside the workspace: use paths inside {}", folders.join(", "))
    }
}

/// Why a place cannot be reached.
#[derive(Debug)]
enum Refusal {
    Outside,
    Fault(Fault),
}

impl Refusal {
    fn told(self, workspace: &Workspace, path: &str) -> String {
        match self {
            Refusal::Outside => workspace.outside(path),
            Refusal::Fault(fault) => told(Path::new(path), &fault),
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::Fault(fault)
    }
}

impl From<Why> for Refusal {
    fn from(why: Why) -> Refusal {
        Refusal::Fault(why.into())
    }
}

/// An error at a path, in words.
pub(super) fn told(path: &Path, fault: &Fault) -> String {
    let path = path.display();
    match fault.why() {
        Why::Missing => format!("{path}: no such file or folder"),
        Why::NotFolder => format!("{path}: a parent is not a folder"),
        Why::IsFolder => format!("{path} is a folder"),
        Why::Exists => format!("{path} already exists: edit it instead"),
        Why::Denied => format!("{path}: permission denied"),
        Why::Links => format!("{path}: too many levels of symbolic links"),
        Why::TooLong => format!("{path} is too long"),
        Why::BadName => format!("{path}: on this system a file cannot have such a name"),
        Why::TooLarge | Why::NotPlain | Why::Stale | Why::Unsupported | Why::Other => {
            format!("{path}: {fault}")
        }
    }
}

/// One step of a path.
#[derive(Debug)]
enum Step {
    Into(OsString),
    Back,
}

/// The walk along a path.
struct Walk<'a> {
    workspace: &'a Workspace,
    root: usize,
    /// The folders below the root, with their names.
    folders: Vec<Folder>,
    names: Vec<OsString>,
    todo: VecDeque<Step>,
    n_links: usize,
}

impl Walk<'_> {
    fn root(&self) -> &Root {
        &self.workspace.roots[self.root]
    }

    fn folder(&self) -> &Folder {
        self.folders.last().unwrap_or(&self.root().folder)
    }

    /// Adds the steps of a relative path before all others.
    fn follow(&mut self, path: &Path) -> Result<(), Refusal> {
        for component in path.components().rev() {
            let step = match component {
                Component::Normal(name) => Step::Into(name.to_owned()),
                Component::ParentDir => Step::Back,
                Component::CurDir => continue,
                Component::RootDir | Component::Prefix(_) => return Err(Refusal::Outside),
            };
            self.todo.push_front(step);
        }
        Ok(())
    }

    fn back(&mut self) -> Result<(), Refusal> {
        self.names.pop();
        self.folders.pop().map(drop).ok_or(Refusal::Outside)
    }

    fn is_link(&self, name: &OsStr) -> Result<bool, Refusal> {
        match self.folder().stat(name) {
            Ok(stat) => Ok(stat.kind() == Kind::Link),
            Err(fault) if fault.why() == Why::Missing => Ok(false),
            Err(fault) => Err(fault.into()),
        }
    }

    /// A name as it is. A system may have another name for the history, which must not lead into it.
    fn spelled(&self, name: OsString) -> Result<OsString, Refusal> {
        let history = OsStr::new(HISTORY);
        match is_name(&name) {
            true if self.folder().is_spelling_of(&name, history) => Ok(history.to_owned()),
            true => Ok(name),
            false => Err(Why::BadName.into()),
        }
    }

    fn follow_link(&mut self, name: &OsStr) -> Result<(), Refusal> {
        self.n_links += 1;
        if self.n_links > MOST_LINKS {
            return Err(Why::Links.into());
        }
        let target = self.folder().read_link(name)?;
        if target.is_relative() {
            return self.follow(&target);
        }
        let (root, rest) = self.workspace.enter(&target).ok_or(Refusal::Outside)?;
        self.root = root;
        self.folders.clear();
        self.names.clear();
        self.follow(&rest)
    }

    /// Enters a folder, which must not have become a link meanwhile.
    fn enter(&mut self, name: OsString, missing: Missing) -> Result<(), Refusal> {
        let folder = match self.folder().enter(&name) {
            Err(fault) if fault.why() == Why::Missing && missing == Missing::Make => {
                // A missing folder before `..` is an error.
                if self.todo.iter().any(|it| matches!(it, Step::Back)) {
                    return Err(fault.into());
                }
                is_writable(self.names.iter().chain([&name]))?;
                match self.folder().make(&name) {
                    Err(fault) if fault.why() != Why::Exists => return Err(fault.into()),
                    Ok(()) | Err(_) => {}
                }
                self.folder().enter(&name)?
            }
            other => other?,
        };
        self.folders.push(folder);
        self.names.push(name);
        Ok(())
    }

    /// The reached place.
    fn at(mut self, name: Option<OsString>) -> Result<Place, Refusal> {
        self.names.extend(name.clone());
        let path = self.names.iter().fold(self.root().path.clone(), |path, name| path.join(name));
        let folder = match self.folders.pop() {
            Some(folder) => folder,
            None => self.root().folder.try_clone()?,
        };
        Ok(Place { folder, name, path, names: self.names })
    }
}

fn is_writable<'a>(names: impl IntoIterator<Item = &'a OsString>) -> Result<(), Why> {
    match names.into_iter().any(|it| it.eq_ignore_ascii_case(HISTORY)) {
        true => Err(Why::Denied),
        false => Ok(()),
    }
}

impl Place {
    /// The folder that contains it, or that it is.
    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Its name in the folder, for writing.
    pub(super) fn to_write(&self) -> Result<&OsStr, String> {
        if is_writable(&self.names).is_err() {
            return Err(format!("{}: this tool does not access .git", self.path.display()));
        }
        self.name.as_deref().ok_or_else(|| self.told(&Why::IsFolder.into()))
    }

    /// An error there, in words.
    pub(super) fn told(&self, fault: &Fault) -> String {
        told(&self.path, fault)
    }

    /// Opens a plain file for reading: a pipe or a device may wait forever.
    pub(super) fn open_file(&self) -> Result<(File, Stat), String> {
        self.open_plain().map_err(|fault| match fault.why() {
            Why::NotPlain => format!("{} is not a regular file", self.path.display()),
            _ => self.told(&fault),
        })
    }

    /// The same, with the error as it is, or [`Why::NotPlain`].
    pub(super) fn open_plain(&self) -> Result<(File, Stat), Fault> {
        self.folder.open_plain(self.name.as_deref().ok_or(Why::IsFolder)?)
    }

    /// Opens the folder for listing.
    pub(super) fn open_folder(&self) -> Result<Folder, String> {
        self.folder.to_list(self.name.as_deref()).map_err(|fault| match fault.why() {
            Why::NotFolder => format!("{} is not a folder", self.path.display()),
            _ => self.told(&fault),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_is_read_without_holding_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let known = Known::default();
        for _ in 0..2 {
            let opened = known.open_by(root.path(), |real| {
                assert!(known.0.try_lock().is_ok(), "another folder can be opened meanwhile");
                open_folder(real.unwrap_or_else(|| root.path().canonicalize().unwrap()))
            });
            opened.unwrap().unwrap();
        }
        assert_eq!(known.0.lock().unwrap().len(), 1);
    }
}
