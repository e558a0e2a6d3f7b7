//! Files that define agents: their places and order.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    Env, Workspace,
    files::{open_regular, read},
    path::real,
};
use crate::{
    agents::{Author, Registry},
    config::Config,
};

/// Folders in the user's home, with the file name suffix. The first definition of a name applies.
const USER: [(&str, &str); 2] = [(".claude/agents", ".md"), (".copilot/agents", ".md")];
const WORKSPACE: [(&str, &str); 2] = [(".claude/agents", ".md"), (".github/agents", ".md")];

/// The limit of files in a folder.
const MOST: usize = 1000;

/// The folders of agent files.
pub fn agent_folders(folders: &[PathBuf], env: &Env) -> Vec<PathBuf> {
    let user = USER.iter().filter_map(|(path, _)| env.at_home(path));
    let workspace = folders.iter().flat_map(|folder| WORKSPACE.iter().map(|(path, _)| folder.join(path)));
    user.chain(workspace).collect()
}

/// Adds the agents of the user's files.
pub(super) fn add_user(config: &mut Config, registry: &mut Registry, env: &Env) {
    for (path, ending) in USER {
        let Some(folder) = env.at_home(path) else { continue };
        for file in files(&folder, ending, registry) {
            let text = open_regular(&file).and_then(read).map_err(|error| error.to_string());
            registry.add(config, Author::User, &file, text.as_deref().map_err(Clone::clone));
        }
    }
}

/// Adds the agents of the workspace's files.
pub(super) fn add_workspace(config: &mut Config, registry: &mut Registry, workspace: &Workspace, env: &Env) {
    let home = env.home.as_deref().map(real);
    let mut seen = Vec::new();
    for (folder, real_folder) in workspace.folders().iter().zip(workspace.real()) {
        // The user's files are read already.
        if seen.contains(&real_folder) || home.as_ref() == Some(real_folder) {
            continue;
        }
        seen.push(real_folder);
        for (path, ending) in WORKSPACE {
            for file in files(&folder.join(path), ending, registry) {
                let text = match real(&file).starts_with(real_folder) {
                    true => open_regular(&file).and_then(read).map_err(|error| error.to_string()),
                    false => Err("it is a link out of the workspace; lspool ignores it".to_owned()),
                };
                registry.add(config, Author::Workspace, &file, text.as_deref().map_err(Clone::clone));
            }
        }
    }
}

/// The files of a folder with this suffix, by name.
fn files(folder: &Path, ending: &str, registry: &mut Registry) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_agent = |name: &str| name.ends_with(ending) && !name.eq_ignore_ascii_case("README.md");
    let named = |it: &fs::DirEntry| is_agent(&it.file_name().to_string_lossy());
    let mut files: Vec<PathBuf> = entries.flatten().filter(named).map(|it| it.path()).collect();
    files.sort();
    if let Some(first) = files.get(MOST) {
        let (folder, first, n) = (folder.display(), first.display(), files.len());
        let problem = format!(
            "{folder}: there are {n} files, and no more than {MOST} are read: not {first}, nor any after it"
        );
        registry.problems.push(problem);
    }
    files.truncate(MOST);
    files
}
