//! Chooses the servers of the code tools: one for each language, from the configuration or the well-known ones.
//!
//! **Nothing of a repository is run**: an executable inside the workspace is no candidate, and a server that would run
//! another program of the workspace is told to run its own.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use super::{
    Env, Workspace,
    files::UserConfig,
    path::real,
    plan::{GroupPlan, Plan},
    prepare::{Place, config_in, prepare_plan, target},
    trust::is_trusted,
};
use crate::{
    config::{
        Config, LspToolsConfig, MemberConfig, ServerConfig,
        languages::{Language, languages},
        presets::complete,
    },
    core::event::Prepared,
};

/// The name of the group of all servers of the code tools.
const GROUP: &str = "code tools";

/// A language, and its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLanguage {
    /// For people.
    pub name: &'static str,
    /// Endings of its files.
    pub endings: Vec<&'static str>,
    /// The section of the server; or why there is none, and what to do.
    pub server: Result<String, String>,
}

/// Whether the user trusts the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trusted {
    Yes,
    No,
}

/// The languages, and the user's settings as the workspace limits them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTools {
    /// Each language with the server that lspool uses for it.
    pub languages: Vec<FoundLanguage>,
    /// The settings.
    pub settings: LspToolsConfig,
}

/// Finds a server for each language.
pub fn languages_found(user: &UserConfig, folders: &[PathBuf], env: &Env) -> Result<FoundTools, String> {
    let workspace = Workspace::new(folders);
    let config = config_in(&workspace, user, env)?;
    let trust = match is_trusted(folders, env) {
        true => Trusted::Yes,
        false => Trusted::No,
    };
    let found = |language: &'static Language| FoundLanguage {
        name: language.name,
        endings: language.files.iter().map(|(ending, _)| *ending).collect(),
        server: server_for(language, &config, &workspace, (env, trust)),
    };
    let languages = languages().map(found).collect();
    Ok(FoundTools { languages, settings: config.lsp_tools })
}

/// Prepares these servers, by the names of their sections.
pub fn prepare_tools(
    names: &[String],
    user: &UserConfig,
    folders: &[PathBuf],
    env: &Env,
) -> Result<Prepared, String> {
    let workspace = Workspace::new(folders);
    let mut config = config_in(&workspace, user, env)?;
    for name in names {
        let server = completed(name, &config);
        let server = confined(name, server, &workspace, env)?;
        config.servers.insert(name.clone(), server);
    }
    let group = GroupPlan { start_wait: Duration::from_secs(3), ..GroupPlan::of(GROUP) };
    let members = names.iter().map(|it| MemberConfig::of(it)).collect();
    let (name, group, alternatives) = (GROUP.to_owned(), Some(group), BTreeMap::new());
    let plan = Plan { members, name, group, alternatives, absent: Vec::new() };
    prepare_plan(plan, config, Vec::new(), &Place { user, workspace: &workspace, env })
}

/// A section as it holds, with what lspool knows of its server.
fn completed(name: &str, config: &Config) -> ServerConfig {
    let mut server = config.servers.get(name).cloned().unwrap_or_default();
    complete(name, &mut server);
    server
}

/// The server of a language: one that the user configures for it, else the first that is installed.
fn server_for(
    language: &Language,
    config: &Config,
    workspace: &Workspace,
    (env, trust): (&Env, Trusted),
) -> Result<String, String> {
    let serves = |it: &ServerConfig| {
        language.files.iter().any(|(_, id)| it.languages.iter().any(|language| language == id))
    };
    let configured = config.servers.iter().filter(|(_, it)| serves(it)).map(|(name, _)| name.as_str());
    let mut reasons = Vec::new();
    for name in configured.chain(language.servers.iter().copied()) {
        let server = completed(name, config);
        match target(name, &server, workspace, env) {
            Ok(_) => match confined(name, server, workspace, env) {
                Ok(_) => return Ok(name.to_owned()),
                Err(why) => reasons.push(why),
            },
            Err(missing) => reasons.extend(missing.skipped.iter().map(ToString::to_string)),
        }
    }
    for name in language.runs_project {
        let server = completed(name, config);
        match (target(name, &server, workspace, env), trust) {
            (Ok(_), Trusted::Yes) => return Ok((*name).to_owned()),
            (Ok(_), Trusted::No) => {
                return Err(format!(
                    "{name} runs programs of the project, such as build scripts: if you trust it, run `lspool trust`"
                ));
            }
            (Err(missing), _) => reasons.extend(missing.skipped.iter().map(ToString::to_string)),
        }
    }
    Err([language.hint.to_owned()].into_iter().chain(reasons).collect::<Vec<_>>().join("; "))
}

/// Keeps a server from running programs of the workspace.
fn confined(
    name: &str,
    mut server: ServerConfig,
    workspace: &Workspace,
    env: &Env,
) -> Result<ServerConfig, String> {
    // Launchers such as `env node` look there for an interpreter.
    if let (Some(path), false) = (safe_path(workspace, env), server.env.contains_key("PATH")) {
        server.env.insert("PATH".to_owned(), path);
    }
    if !["typescript", "typescript-language-server"].contains(&name)
        || server.init_options.contains_key("tsserver")
    {
        return Ok(server);
    }
    // By itself it prefers the `typescript` in the workspace's `node_modules`.
    let found = target(name, &server, workspace, env).map_err(|it| it.message)?;
    let beside = tsserver_beside(&found.launch.program);
    let own = beside.into_iter().find(|it| workspace.holds(it).is_none()).ok_or_else(|| {
        format!("{name} has no typescript beside it: install typescript where {name} is installed")
    })?;
    server.init_options.insert("tsserver".to_owned(), json!({"path": own}));
    Ok(server)
}

/// `PATH` without entries that a repository can fill, if it has such.
fn safe_path(workspace: &Workspace, env: &Env) -> Option<String> {
    let path = env.var("PATH")?;
    let is_safe = |it: &PathBuf| it.is_absolute() && workspace.holds(it).is_none();
    let entries: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let safe: Vec<PathBuf> = entries.iter().filter(|it| is_safe(it)).cloned().collect();
    (safe.len() < entries.len()).then(|| std::env::join_paths(safe).ok()?.into_string().ok()).flatten()
}

/// The `tsserver.js` files that an installation has beside an executable, the nearest first.
fn tsserver_beside(program: &Path) -> Vec<PathBuf> {
    let program = real(program);
    let places = program.ancestors().map(|it| it.join("node_modules/typescript/lib/tsserver.js"));
    places.filter(|it| it.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn server_that_runs_project_is_used_only_where_user_trusts() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (bin, project) = (root.join("bin"), root.join("project"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&project).unwrap();
        let program = bin.join("rust-analyzer");
        let mut env = Env { home: Some(root.clone()), cwd: project.clone(), ..Env::default() };
        env.vars.insert("PATH".into(), bin.into());
        let user = crate::shell::discover::read_user(None, &env).unwrap();
        let rust = || {
            let found = languages_found(&user, std::slice::from_ref(&project), &env).unwrap().languages;
            found.into_iter().find(|it| it.name == "Rust").unwrap().server
        };
        assert_eq!(rust(), Err("install rust-analyzer".to_owned()));
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(rust().unwrap_err().contains("`lspool trust`"));
        let mut trust = crate::shell::discover::Trust::read(&env).unwrap();
        trust.add(project.clone()).unwrap();
        assert_eq!(rust(), Ok("rust-analyzer".to_owned()));
    }

    #[test]
    fn typescript_is_taken_from_beside_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = |path: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        let program = file("lib/node_modules/typescript-language-server/lib/cli.mjs");
        assert_eq!(tsserver_beside(&program), Vec::<PathBuf>::new());
        let own = file("lib/node_modules/typescript/lib/tsserver.js");
        assert_eq!(tsserver_beside(&program), [own]);
    }
}
