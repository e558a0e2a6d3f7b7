//! What must be equal for two clients to use one process of a server, as far as the file system and the environment
//! show it. The core adds what it knows of the editor.

use std::path::{Path, PathBuf};

use super::{
    Env,
    path::{Workspace, real},
};
use crate::{
    config::{ServerConfig, ServerKind},
    core::event::{Launch, Share},
    util::{fnv::hashed, redact::redact},
};

/// A longer value is told as a hash.
const LONGEST: usize = 200;

/// The variables that lead an engine to its target, by itself or by its configuration files.
const OF_ENGINES: [&str; 9] = [
    "CONTAINER_CONNECTION",
    "CONTAINER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "HOME",
    "KUBECONFIG",
    "PATH",
    "XDG_CONFIG_HOME",
];

/// Parts of the names of variables that hold secrets.
const SECRET: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"];

/// How a server is shared, if its section wants that.
pub(super) fn share(
    name: &str,
    server: &ServerConfig,
    launch: &Launch,
    workspace: &Workspace,
    env: &Env,
) -> Option<Share> {
    let it = &server.share;
    if !it.is_on() {
        return None;
    }
    if server.kind == Some(ServerKind::Copilot) {
        tracing::warn!(name, "a Copilot server is not shared: it has the conversations of one editor");
        return None;
    }
    if launch.cwd.is_none() && launch.root.is_none() && workspace.real().is_empty() {
        tracing::info!(name, "not shared: there is no workspace folder");
        return None;
    }
    let key = key(server, launch, workspace, env);
    Some(Share {
        server: name.to_owned(),
        key,
        idle: it.idle,
        views: it.views,
        limit: it.limit,
        editor: None,
    })
}

fn key(server: &ServerConfig, launch: &Launch, workspace: &Workspace, env: &Env) -> Vec<(String, String)> {
    let pair = |name: &str, value: String| (name.to_owned(), value);
    // Some programs go by the name of their link: a rustup proxy, a Python of a virtual environment.
    let program = launch.program.parent().map(real).unwrap_or_default();
    let program = program.join(launch.program.file_name().unwrap_or_default());
    let executable = real(&launch.program);
    let mut key = vec![pair("program", shown(&program))];
    key.extend((executable != program).then(|| pair("executable", shown(&executable))));
    key.extend(launch.args.iter().map(|it| pair("argument", plain("", it))));
    key.extend(launch.cwd.iter().map(|it| pair("cwd", shown(&real(it)))));
    // The values may be secret.
    let env_there = launch.remote.iter().flat_map(|it| &it.env);
    let all_env = launch.env.iter().chain(env_there);
    key.extend(all_env.map(|(name, value)| pair(&format!("env {name}"), hashed(value.as_bytes()))));
    let is_set = |name: &&String| launch.env.iter().all(|(it, _)| it != *name);
    key.extend(server.share.env.iter().filter(is_set).filter_map(|name| {
        let value = env.var(name)?;
        Some(pair(&format!("${name}"), plain(name, &value.to_string_lossy())))
    }));
    if let Some(remote) = &launch.remote {
        let engine = OF_ENGINES
            .iter()
            .filter_map(|name| Some(pair(&format!("${name}"), hashed(env.var(name)?.as_encoded_bytes()))));
        key.extend(engine);
        key.extend(remote.skips_settings.then(|| pair("map_settings", "no".to_owned())));
    }
    if !server.settings.is_empty() {
        let settings = serde_json::to_vec(&server.settings).unwrap_or_default();
        key.push(pair("settings", hashed(&settings)));
    }
    let mut folders: Vec<PathBuf> = match &launch.root {
        Some(root) => vec![real(root)],
        None => workspace.real().to_vec(),
    };
    folders.sort();
    folders.dedup();
    key.extend(folders.iter().map(|it| pair("folder", shown(it))));
    key
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A value as people can read it, unless it is long or may be secret.
fn plain(name: &str, value: &str) -> String {
    let name = name.to_uppercase();
    let is_secret = SECRET.iter().any(|it| name.contains(it)) || redact(value) != value;
    if is_secret || value.len() > LONGEST { hashed(value.as_bytes()) } else { value.to_owned() }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::{ShareConfig, ShareMode};

    fn launch(program: &Path) -> Launch {
        Launch {
            program: program.to_owned(),
            args: vec!["--stdio".to_owned(), "--token=ghp_16C7e42F292c6912E7710c838347Ae178B4a".to_owned()],
            env: vec![("A".to_owned(), "1".to_owned())],
            cwd: None,
            max_message: 1,
            write_stall: std::time::Duration::from_mins(1),
            root: None,
            remote: None,
            share: None,
        }
    }

    fn server() -> ServerConfig {
        let share = ShareConfig {
            mode: ShareMode::SameClient,
            env: ["VIRTUAL_ENV", "MY_TOKEN", "A", "UNSET"].map(str::to_owned).to_vec(),
            ..ShareConfig::default()
        };
        ServerConfig { share, ..ServerConfig::default() }
    }

    fn env(all: &[(&str, &str)]) -> Env {
        Env { vars: all.iter().map(|(name, value)| (name.into(), value.into())).collect(), ..Env::default() }
    }

    #[test]
    fn server_is_shared_only_if_its_section_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(&[folder.path().to_owned()]);
        let launch = launch(Path::new("/x"));
        let of = |it: &ServerConfig| share("a", it, &launch, &workspace, &Env::default());
        assert_eq!(of(&ServerConfig::default()), None);
        assert_eq!(of(&ServerConfig { kind: Some(ServerKind::Copilot), ..server() }), None);
        assert_eq!(of(&server()).unwrap().limit, 16);
        // It would work in any folder, for strangers to each other.
        assert_eq!(share("a", &server(), &launch, &Workspace::new(&[]), &Env::default()), None);
    }

    #[cfg(unix)]
    #[test]
    fn share_key_is_equal_through_links_to_folders_and_tells_no_secret() {
        let root = tempfile::tempdir().unwrap();
        let at = |it: &str| std::fs::canonicalize(root.path()).unwrap().join(it);
        std::fs::create_dir(at("project")).unwrap();
        std::fs::create_dir(at("bin")).unwrap();
        std::fs::write(at("bin/real"), "").unwrap();
        symlink(at("bin/real"), at("bin/server")).unwrap();
        symlink(at("bin/real"), at("bin/other")).unwrap();
        symlink(at("bin"), at("tools")).unwrap();
        symlink(at("project"), at("link")).unwrap();
        let vars = env(&[("VIRTUAL_ENV", "/venv"), ("MY_TOKEN", "abc"), ("A", "2")]);
        let of = |program: &str, folder: &str, vars: &Env| {
            let workspace = Workspace::new(&[at(folder)]);
            key(&server(), &launch(&at(program)), &workspace, vars)
        };
        let one = of("bin/server", "project", &vars);
        assert_eq!(one, of("tools/server", "link", &vars));
        assert_ne!(one, of("bin/other", "project", &vars), "a program may go by its name");
        assert_ne!(one, of("bin/server", "bin", &vars));
        assert_ne!(one, of("bin/server", "project", &env(&[("VIRTUAL_ENV", "/other"), ("MY_TOKEN", "abc")])));
        assert_ne!(one, of("bin/server", "project", &env(&[("VIRTUAL_ENV", "/venv"), ("MY_TOKEN", "abd")])));
        let text = format!("{one:?}");
        assert!(!text.contains("abc") && !text.contains("ghp_"), "{text}");
        let names: Vec<_> = one.iter().map(|(name, _)| name.as_str()).collect();
        let expected =
            ["program", "executable", "argument", "argument", "env A", "$VIRTUAL_ENV", "$MY_TOKEN", "folder"];
        assert_eq!(names, expected);
        assert_eq!(one[5].1, "/venv");
    }
}
