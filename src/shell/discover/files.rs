//! The configuration files: their places and contents.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::{Env, Workspace, agents};
use crate::{
    agents::Registry,
    config::{Config, Shadowed},
};

/// The name of the file in a workspace folder.
const WORKSPACE_FILE: &str = ".lspool.toml";

/// The maximum size of a configuration file.
const LONGEST: u64 = 1 << 20;

/// The content of the user's file.
#[derive(Clone, Debug)]
pub struct UserConfig {
    /// The configuration, with the agents of the user's agent files.
    pub config: Config,
    /// The result of reading the agent files.
    pub agents: Registry,
    /// The file, if it exists.
    pub file: Option<PathBuf>,
}

impl From<Config> for UserConfig {
    fn from(config: Config) -> UserConfig {
        UserConfig { config, agents: Registry::default(), file: None }
    }
}

/// The usual place of the user's file.
pub fn user_file(env: &Env) -> Option<PathBuf> {
    let folder = if cfg!(windows) {
        env.roaming()
    } else if cfg!(target_os = "macos") {
        env.at_home("Library/Application Support")
    } else {
        env.folder("XDG_CONFIG_HOME").or_else(|| env.at_home(".config"))
    };
    folder.map(|folder| folder.join("lspool").join("config.toml"))
}

/// Reads the user's file: the named one, which must exist, or the one at the usual place.
pub fn read_user(named: Option<&Path>, env: &Env) -> Result<UserConfig, String> {
    let (mut base, mut agents) = (Config::default(), Registry::default());
    agents::add_user(&mut base, &mut agents, env);
    let Some(file) = named.map(Path::to_owned).or_else(|| user_file(env)) else {
        return Ok(UserConfig { config: base, agents, file: None });
    };
    // A named file may be a pipe.
    match fs::File::open(&file).and_then(read) {
        Ok(text) => {
            let config = base.merge_user(&text, &file.display().to_string());
            let (config, shadowed) =
                config.map_err(|problems| format!("the configuration has errors:\n{problems}"))?;
            agents.shadowed.extend(shadowed);
            Ok(UserConfig { config, agents, file: Some(file) })
        }
        Err(error) if named.is_none() && is_absent(&error) => {
            Ok(UserConfig { config: base, agents, file: None })
        }
        Err(error) => Err(unreadable(&file, &error)),
    }
}

/// The places of the files of these workspace folders.
pub fn workspace_files(folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    folders.iter().map(|folder| folder.join(WORKSPACE_FILE))
}

/// Merges the files of the workspace folders into the configuration.
pub(super) fn merge_workspace(config: &mut Config, workspace: &Workspace) -> Result<Vec<Shadowed>, String> {
    let mut shadowed = Vec::new();
    let mut seen = Vec::new();
    for (folder, real) in workspace.folders().iter().zip(workspace.real()) {
        if seen.contains(&real) {
            continue;
        }
        seen.push(real);
        let file = folder.join(WORKSPACE_FILE);
        match open_regular(&file).and_then(read) {
            Ok(text) => {
                let merged = config.merge_workspace(&text, &file);
                let refused = "the workspace's configuration has errors; without it agents might get more \
                               tools than it allows";
                shadowed.extend(merged.map_err(|problems| format!("{refused}:\n{problems}"))?);
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(unreadable(&file, &error)),
        }
    }
    Ok(shadowed)
}

fn unreadable(file: &Path, error: &io::Error) -> String {
    format!("cannot read the configuration file {}: {error}", file.display())
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Opens a file of a repository. A pipe in its place would block, and a device might never end.
pub(super) fn open_regular(file: &Path) -> io::Result<fs::File> {
    if fs::metadata(file)?.is_file() {
        fs::File::open(file)
    } else {
        Err(io::Error::other("it is not a file"))
    }
}

pub(super) fn read(file: fs::File) -> io::Result<String> {
    let mut text = String::new();
    let n = file.take(LONGEST + 1).read_to_string(&mut text)?;
    let is_too_long = n as u64 > LONGEST;
    if is_too_long { Err(io::Error::other("it is longer than 1 MiB")) } else { Ok(text) }
}
