//! The files of a workspace folder that are not ignored, sorted by name.
//!
//! Lists folders and reads ignore files through [`Workspace`], like every other file. So it follows no link, waits
//! for no pipe, and reads no endless file. It reads no ignore file outside the workspace except the user's global one
//! of git.

use std::{
    ffi::{OsStr, OsString},
    io::Read as _,
    path::{Path, PathBuf},
    rc::Rc,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::{search::Until, workspace::Workspace};
use crate::shell::os::fault::Kind;

/// The maximum size of an ignore file. A larger one has no effect.
const MOST_OF_LIST: u64 = 256 << 10;

/// All plain files below a workspace folder.
pub(super) struct Walk<'a> {
    workspace: &'a Workspace,
    until: &'a Until<'a>,
    /// The remaining entries, the next one at the end.
    todo: Vec<Found>,
    /// Folders that could not be listed.
    closed: Vec<PathBuf>,
}

struct Found {
    path: PathBuf,
    is_folder: bool,
    rules: Rc<Rules>,
}

/// The ignore rules of a folder and of its parents.
struct Rules {
    /// The rules of git, the weakest first.
    git: Vec<Gitignore>,
    others: Option<Gitignore>,
    above: Option<Rc<Rules>>,
    /// Whether the rules of git end here, because it is the folder of a repository.
    is_repository: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(workspace: &'a Workspace, root: &Path, until: &'a Until<'a>) -> Walk<'a> {
        let (of_user, _) = GitignoreBuilder::new(root).build_global();
        let rules = Rc::new(Rules { git: vec![of_user], others: None, above: None, is_repository: false });
        let todo = vec![Found { path: root.to_owned(), is_folder: true, rules }];
        Walk { workspace, until, todo, closed: Vec::new() }
    }

    /// The folders that could not be listed, at the end.
    pub(super) fn into_closed(self) -> Vec<PathBuf> {
        self.closed
    }

    /// Adds the entries of a folder. An unreadable folder is empty, and noted.
    fn list(&mut self, path: &Path, above: Rc<Rules>) {
        let Some(place) = self.workspace.found(path) else { return };
        let Ok(folder) = place.open_folder() else { return self.closed.push(path.to_owned()) };
        let Ok(entries) = folder.entries() else { return self.closed.push(path.to_owned()) };
        let mut names: Vec<(OsString, Kind)> = Vec::new();
        for entry in entries {
            if self.until.check().is_err() {
                return;
            }
            let Ok(entry) = entry else {
                self.closed.push(path.to_owned());
                break;
            };
            names.push(entry);
        }
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let rules = self.rules(path, &names, above);
        for (name, kind) in names.into_iter().rev() {
            let is_folder = match kind {
                Kind::Folder => true,
                Kind::File => false,
                Kind::Link | Kind::Other => continue,
            };
            let path = path.join(&name);
            if name != ".git" && !rules.ignores(&path, is_folder) {
                self.todo.push(Found { path, is_folder, rules: rules.clone() });
            }
        }
    }

    fn rules(&self, path: &Path, names: &[(OsString, Kind)], above: Rc<Rules>) -> Rc<Rules> {
        let has = |name: &str| names.binary_search_by(|it| it.0.as_os_str().cmp(OsStr::new(name))).is_ok();
        let read = |name: &str| self.rules_of(path, &path.join(name));
        let is_repository = has(".git");
        let exclude = is_repository.then(|| read(".git/info/exclude")).flatten();
        let git =
            exclude.into_iter().chain(has(".gitignore").then(|| read(".gitignore")).flatten()).collect();
        let others = has(".ignore").then(|| read(".ignore")).flatten();
        let rules = Rules { git, others, above: Some(above.clone()), is_repository };
        match rules.git.is_empty() && rules.others.is_none() && !is_repository {
            true => above,
            false => Rc::new(rules),
        }
    }

    fn rules_of(&self, folder: &Path, list: &Path) -> Option<Gitignore> {
        let (file, stat) = self.workspace.found(list)?.open_file().ok()?;
        if stat.size() > MOST_OF_LIST {
            tracing::debug!(list = %list.display(), "ignored a list that is too long");
            return None;
        }
        let mut bytes = Vec::new();
        file.take(MOST_OF_LIST).read_to_end(&mut bytes).ok()?;
        let mut builder = GitignoreBuilder::new(folder);
        for line in String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').lines() {
            // A line that is not a pattern has no effect.
            builder.add_line(None, line).ok();
        }
        builder.build().ok()
    }
}

impl Iterator for Walk<'_> {
    type Item = PathBuf;

    fn next(&mut self) -> Option<PathBuf> {
        while let Some(Found { path, is_folder, rules }) = self.todo.pop() {
            if !is_folder {
                return Some(path);
            }
            if self.until.check().is_err() {
                return None;
            }
            self.list(&path, rules);
        }
        None
    }
}

impl Rules {
    /// The innermost matching rule decides; `.ignore` goes before git.
    fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        let chain = || std::iter::successors(Some(self), |it| it.above.as_deref());
        let others = chain().filter_map(|it| it.others.as_ref());
        let mut is_outside = false;
        let git = chain().filter(move |it| {
            // The user's global list applies in each repository.
            let counts = !is_outside || it.above.is_none();
            is_outside |= it.is_repository;
            counts
        });
        let git = git.flat_map(|it| it.git.iter().rev());
        let said = others.chain(git).map(|it| it.matched(path, is_folder));
        let said = said.map(|it| match it {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        });
        said.flatten().next().unwrap_or(false)
    }
}
