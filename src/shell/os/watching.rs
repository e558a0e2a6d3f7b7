//! Reports changes in the folders that decide about the content of files.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
mod notify;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

#[cfg(target_os = "linux")]
pub(crate) use self::inotify::WatchedFolders;
#[cfg(not(target_os = "linux"))]
pub(crate) use self::notify::WatchedFolders;

/// How many links a path may lead through, as in Linux.
const LINKS: u32 = 40;

/// How many links in one folder count.
const MOST_LINKS_IN_FOLDER: usize = 1000;

/// Instead of a name: all names in the folder.
const ANY: &str = "/";

/// The watched names in a folder.
type Names = BTreeSet<OsString>;

/// The folders and names to watch for these files.
fn wanted<'a>(files: impl Iterator<Item = &'a Path>) -> BTreeMap<PathBuf, Names> {
    let mut wanted: BTreeMap<PathBuf, Names> = BTreeMap::new();
    for (folder, name) in files.flat_map(all_hinges) {
        wanted.entry(folder).or_default().insert(name);
    }
    wanted
}

/// The hinges of a file, or of a folder and the links in it.
fn all_hinges(file: &Path) -> Vec<(PathBuf, OsString)> {
    let mut all = hinges(file);
    let entries = std::fs::read_dir(file).into_iter().flatten().flatten();
    let is_link = |it: &std::fs::DirEntry| it.file_type().is_ok_and(|it| it.is_symlink());
    let links = entries.filter(is_link).take(MOST_LINKS_IN_FOLDER);
    all.extend(links.flat_map(|it| hinges(&it.path())));
    all
}

/// The places that decide what a path leads to: the name of each link on the way and of the file, with their
/// folders; or the first missing name.
pub(crate) fn hinges(file: &Path) -> Vec<(PathBuf, OsString)> {
    let Ok(file) = std::path::absolute(file) else { return Vec::new() };
    let mut all = Vec::new();
    // A path without links.
    let mut at = root(&file);
    let mut rest: VecDeque<OsString> = names(&file);
    let mut n_links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        if let Ok(target) = std::fs::read_link(&next) {
            all.push((at.clone(), name));
            n_links += 1;
            if n_links > LINKS {
                break;
            }
            if target.is_absolute() {
                at = root(&target);
            }
            for name in names(&target).into_iter().rev() {
                rest.push_front(name);
            }
        } else if !rest.is_empty() && next.is_dir() {
            at = next;
        } else {
            all.push((at, name));
            if next.is_dir() {
                all.push((next, ANY.into()));
            }
            break;
        }
    }
    all
}

/// The root of an absolute path: on Windows, with the drive.
fn root(path: &Path) -> PathBuf {
    path.ancestors().last().unwrap_or(path).to_owned()
}

/// The steps of a path below its root.
fn names(path: &Path) -> VecDeque<OsString> {
    let step = |it: Component<'_>| match it {
        Component::Normal(_) | Component::ParentDir => Some(it.as_os_str().to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().filter_map(step).collect()
}
