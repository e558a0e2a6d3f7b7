//! Where in a workspace a project is, by the files that mark one.

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
};

use super::Workspace;
use crate::core::event::FindRoot;

/// How deep below a workspace folder a marker may be.
const DEPTH: usize = 2;

/// How many folders are looked at, at most.
const FOLDERS: usize = 500;

/// Where there is a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In this folder, which is a workspace folder or the nearest one above it.
    At(PathBuf),
    /// In a folder below a workspace folder.
    Below,
    Nowhere,
}

/// Where the first of the workspace folders that has one of these has it.
pub(super) fn place_of(markers: &[String], workspace: &Workspace) -> Place {
    let has = |folder: &Path| markers.iter().any(|it| folder.join(it).symlink_metadata().is_ok());
    let folders = workspace.folders();
    let above = folders.iter().find_map(|it| it.ancestors().find(|it| has(it)));
    match above {
        Some(folder) => Place::At(folder.to_owned()),
        None if folders.iter().any(|it| is_below(it, &has)) => Place::Below,
        None => Place::Nowhere,
    }
}

/// Whether a folder below this one has a marker. Packages of others and hidden folders do not count.
fn is_below(folder: &Path, has: &dyn Fn(&Path) -> bool) -> bool {
    let mut ahead = VecDeque::from([(folder.to_owned(), 0)]);
    let mut left = FOLDERS;
    while let Some((folder, depth)) = ahead.pop_front() {
        if depth > 0 && has(&folder) {
            return true;
        }
        if depth == DEPTH || left == 0 {
            continue;
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
        for entry in folders.filter(|it| !is_foreign(&it.file_name().to_string_lossy())) {
            if left == 0 {
                break;
            }
            left -= 1;
            ahead.push_back((entry.path(), depth + 1));
        }
    }
    false
}

/// The nearest folder with a marker that a document is in, below the workspace folder. In packages of others and in
/// hidden folders there are no projects.
pub fn nearest_root(it: &FindRoot) -> Option<PathBuf> {
    let has = |folder: &&Path| it.markers.iter().any(|name| folder.join(name).symlink_metadata().is_ok());
    let within = it.within.iter().filter(|within| it.folder.starts_with(within));
    let workspace = within.max_by_key(|within| within.as_os_str().len())?;
    let is_one = it.is_whole && has(&workspace.as_path());
    let mut below = it.folder.strip_prefix(workspace).ok()?.components();
    if is_one || below.any(|part| is_foreign(&part.as_os_str().to_string_lossy())) {
        return None;
    }
    let folders = it.folder.ancestors().take_while(|folder| folder != workspace);
    folders.into_iter().find(has).map(Path::to_owned)
}

fn is_foreign(name: &str) -> bool {
    name.starts_with('.') || matches!(name, "node_modules" | "target" | "vendor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_is_found_in_workspace_above_and_near_below() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        for it in ["a/b/c/d/e", "a/b/node_modules/x", "a/b/.git"] {
            fs::create_dir_all(root.path().join(it)).unwrap();
        }
        let place =
            |marker: &str| place_of(&[marker.to_owned()], &Workspace::new(std::slice::from_ref(&folder)));
        for (file, marker, expected) in [
            ("a/b/here", "here", Place::At(folder.clone())),
            ("a/above", "above", Place::At(root.path().join("a"))),
            ("a/b/c/d/near", "near", Place::Below),
            ("a/b/c/d/e/far", "far", Place::Nowhere),
            ("a/b/node_modules/x/foreign", "foreign", Place::Nowhere),
            ("a/b/.git/hidden", "hidden", Place::Nowhere),
            ("a/b/node_modules/x/y", "node_modules/x", Place::At(folder.clone())),
        ] {
            fs::write(root.path().join(file), "").unwrap();
            assert_eq!(place(marker), expected, "{file}");
        }
    }

    #[test]
    fn nearest_root_is_the_project_of_a_document_below_the_workspace() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for it in ["w/a/b/c", "w/plain", "w/node_modules/p", "w/.git/x", "v/w"] {
            fs::create_dir_all(at(it)).unwrap();
        }
        for it in ["m", "w/a/m", "w/a/b/m", "w/node_modules/p/m", "w/.git/x/m"] {
            fs::write(at(it), "").unwrap();
        }
        let find = |folder: &str, is_whole| {
            let markers = vec!["other".to_owned(), "m".to_owned()];
            let folder = at(folder);
            nearest_root(&FindRoot {
                member: String::new(),
                folder,
                within: vec![at("v/w"), at("w")],
                markers,
                is_whole,
            })
        };
        for (folder, expected) in [
            ("w/a", Some("w/a")),
            ("w/a/b/c", Some("w/a/b")),
            ("w/plain", None),
            ("w", None),
            ("w/node_modules/p", None),
            ("w/.git/x", None),
            ("elsewhere", None),
        ] {
            assert_eq!(
                (find(folder, false), find(folder, true)),
                (expected.map(at), expected.map(at)),
                "{folder}"
            );
        }
        fs::write(at("w/m"), "").unwrap();
        assert_eq!((find("w/a", false), find("w/a", true)), (Some(at("w/a")), None));
    }
}
