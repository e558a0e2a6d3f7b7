//! From the command line, the configuration and the workspace to what is to be started.

use std::{
    path::{MAIN_SEPARATOR, Path, PathBuf},
    sync::Arc,
};

use super::{
    Env, agents,
    files::{UserConfig, merge_workspace},
    path::{Skipped, Workspace, is_executable, on_path, real},
    places::PACKAGE,
    search::{EXECUTABLE, Found, NotFound, resolve_named, search},
};
use crate::{
    agents::{Registry, unknown_tiers, unused_by_leads},
    config::{Config, ServerConfig, ServerKind},
    core::event::{Launch, Prepared},
};

/// The section of Copilot servers.
const COPILOT: &str = "copilot";

/// The server that the command line names: `-- COMMAND [ARG…]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CliServer {
    /// The executable, if one is named.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
}

/// A server that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of its section.
    pub name: String,
    /// The section.
    pub server: ServerConfig,
    /// How to start it.
    pub launch: Launch,
    /// Where it was found.
    pub place: &'static str,
    /// What else was found, and why it is not used.
    pub skipped: Vec<Skipped>,
}

/// What [`target`] could not find, and what it came across.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What is wrong and what to do.
    pub message: String,
    /// What was found, and why it is not used.
    pub skipped: Vec<Skipped>,
}

/// Answers [`Effect::Prepare`](crate::core::event::Effect::Prepare): reads the workspace files of the folders,
/// chooses the section, finds the server.
pub fn prepare(
    cli: &CliServer,
    user: &UserConfig,
    folders: &[PathBuf],
    env: &Env,
) -> Result<Prepared, String> {
    let workspace = Workspace::new(folders);
    let mut config = user.config.clone();
    enter_folder(&mut config, &workspace, env)?;
    let overlooked = overlooked(cli, &config);
    let name = choose(cli, &mut config)?;
    let agents = merge_agents(&mut config, user, &workspace, env)?;
    let server = config.servers.get(&name).cloned().unwrap_or_default();
    let (server, launch, missing) = match target(&name, &server, &workspace, env) {
        Ok(target) => (target.server, target.launch, None),
        Err(missing) if server.policy.required => return Err(missing.message),
        Err(missing) => {
            let launch = nothing(&server);
            (server, launch, Some(missing.message))
        }
    };
    // No other server has agents.
    let is_copilot = server.kind == Some(ServerKind::Copilot);
    let agents: Vec<String> = if is_copilot { agents.for_editor() } else { Vec::new() };
    Ok(Prepared {
        config: Arc::new(config),
        name,
        server,
        launch: Arc::new(launch),
        missing,
        warnings: overlooked.into_iter().chain(agents).collect(),
        transcripts: None,
    })
}

/// The agents that hold in a workspace, and what became of the files that define agents.
pub fn known_agents(user: &UserConfig, folders: &[PathBuf], env: &Env) -> Result<(Config, Registry), String> {
    let mut config = user.config.clone();
    let agents = merge_agents(&mut config, user, &Workspace::new(folders), env)?;
    Ok((config, agents))
}

/// Takes in what the workspace says: its files of agents first, for its configuration may name them.
fn merge_agents(
    config: &mut Config,
    user: &UserConfig,
    workspace: &Workspace,
    env: &Env,
) -> Result<Registry, String> {
    let mut registry = user.agents.clone();
    agents::add_workspace(config, &mut registry, workspace, env);
    registry.shadowed.extend(merge_workspace(config, workspace)?);
    registry.warnings.extend(unknown_tiers(config));
    registry.warnings.extend(unused_by_leads(config));
    Ok(registry)
}

/// Everything that is configured, with what there is to start.
#[derive(Debug)]
pub struct Targets {
    /// What each is called, and what there is. Without a configured server, the Copilot server.
    pub servers: Vec<(String, Result<Target, Missing>)>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// All servers that are configured, those of single folders included.
pub fn targets(user: &UserConfig, folders: &[PathBuf], env: &Env) -> Result<Targets, String> {
    let workspace = Workspace::new(folders);
    let mut config = user.config.clone();
    if config.servers.is_empty() && config.folders.iter().all(|it| it.servers.is_empty()) {
        config.servers.insert(COPILOT.to_owned(), ServerConfig::default());
    }
    let agents = merge_agents(&mut config, user, &workspace, env)?;
    let warnings = misnamed(&config).chain(agents.all()).collect();
    let general = config.servers.iter().map(|(name, server)| (name.clone(), name, server));
    let special = config.folders.iter().flat_map(|folder| {
        let label = move |name: &str| format!("{name} in {}", folder.path.display());
        folder.servers.iter().map(move |(name, server)| (label(name), name, server))
    });
    let found = |(label, name, server): (String, &String, &ServerConfig)| {
        (label, target(name, server, &workspace, env))
    };
    Ok(Targets { servers: general.chain(special).map(found).collect(), warnings })
}

/// The server that a command line names, with what there is to start.
pub fn named_target(
    cli: &CliServer,
    user: &UserConfig,
    folders: &[PathBuf],
    env: &Env,
) -> Result<Targets, String> {
    let workspace = Workspace::new(folders);
    let mut config = user.config.clone();
    enter_folder(&mut config, &workspace, env)?;
    let warnings = overlooked(cli, &config).into_iter().collect();
    let name = choose(cli, &mut config)?;
    let server = config.servers.get(&name).cloned().unwrap_or_default();
    let found = target(&name, &server, &workspace, env);
    Ok(Targets { servers: vec![(name, found)], warnings })
}

/// What there is to start for a section.
pub fn target(
    name: &str,
    server: &ServerConfig,
    workspace: &Workspace,
    env: &Env,
) -> Result<Target, Missing> {
    let plain = |message: String| Missing { message, skipped: Vec::new() };
    let found = match &server.command {
        Some(command) => find_command(command, workspace, env)?,
        None if name == COPILOT || server.kind == Some(ServerKind::Copilot) => {
            search(env, workspace).map_err(not_found)?
        }
        None => find_command(name, workspace, env).map_err(|missing| {
            let message = format!("{} (`command` under [server.{name}])", missing.message);
            Missing { message, skipped: missing.skipped }
        })?,
    };
    let cwd = server.cwd.as_ref().map(|it| env.expand(it)).transpose().map_err(plain)?;
    let mut server = server.clone();
    let is_searched = server.command.is_none() && name == COPILOT;
    if server.kind.is_none() && (is_searched || is_copilot(&found.program, &server.args)) {
        server.kind = Some(ServerKind::Copilot);
    }
    let script = found.script.as_ref().map(|it| it.to_string_lossy().into_owned());
    let mut args: Vec<_> = script.into_iter().chain(server.args.iter().cloned()).collect();
    if server.args.is_empty() && server.kind == Some(ServerKind::Copilot) {
        args.push("--stdio".to_owned());
    }
    let env = server.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let launch = Launch {
        program: found.program,
        args,
        env,
        cwd,
        max_message: server.max_message,
        write_stall: server.write_stall,
    };
    Ok(Target { name: name.to_owned(), server, launch, place: found.place, skipped: found.skipped })
}

/// Stands for the executable that there is not.
fn nothing(server: &ServerConfig) -> Launch {
    Launch {
        program: PathBuf::new(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
        max_message: server.max_message,
        write_stall: server.write_stall,
    }
}

/// Makes what the user says about the folder of this workspace hold.
fn enter_folder(config: &mut Config, workspace: &Workspace, env: &Env) -> Result<(), String> {
    let mut best: Option<(usize, usize)> = None;
    let Some(first) = workspace.real().first() else { return Ok(()) };
    for (n, folder) in config.folders.iter().enumerate() {
        let path = real(&env.expand(&folder.path)?);
        let depth = path.components().count();
        if first.starts_with(&path) && best.is_none_or(|(_, deepest)| depth > deepest) {
            best = Some((n, depth));
        }
    }
    if let Some((n, _)) = best {
        let folder = config.folders[n].clone();
        config.enter_folder(&folder);
    }
    Ok(())
}

/// The section that holds. It is there afterwards, with what the command line says.
fn choose(cli: &CliServer, config: &mut Config) -> Result<String, String> {
    if let Some(command) = &cli.command {
        let name = section_of(command, &cli.args)?;
        let server = config.servers.entry(name.clone()).or_default();
        server.command = Some(command.clone());
        server.args.clone_from(&cli.args);
        return Ok(name);
    }
    let mut names = config.servers.keys();
    let name = match (&config.default_server, names.next(), names.next()) {
        (Some(name), _, _) => name.clone(),
        (None, None, _) => COPILOT.to_owned(),
        _ if config.servers.contains_key(COPILOT) => COPILOT.to_owned(),
        (None, Some(only), None) => only.clone(),
        (None, Some(_), Some(_)) => {
            let names: Vec<_> = config.servers.keys().map(String::as_str).collect();
            return Err(format!(
                "several servers are configured ({}); say which one to stand in front of: `lspool -- COMMAND`, or \
                 `default_server` in the configuration file",
                names.join(", ")
            ));
        }
    };
    config.servers.entry(name.clone()).or_default();
    Ok(name)
}

/// A section that was written for the command on the command line, as it seems, but is not that command's.
fn overlooked(cli: &CliServer, config: &Config) -> Option<String> {
    let command = cli.command.as_ref()?;
    let own = section_of(command, &cli.args).ok()?;
    if config.servers.contains_key(&own) {
        return None;
    }
    let starts_it = |(name, server): &(&String, &ServerConfig)| {
        let command = server.command.as_ref().unwrap_or(name);
        section_of(command, &server.args).is_ok_and(|it| it == own)
    };
    let (name, _) = config.servers.iter().find(starts_it)?;
    Some(format!("[server.{name}] does not hold for `lspool -- {command}`, whose section is [server.{own}]"))
}

/// Sections that are named like a command, but are not that command's.
fn misnamed(config: &Config) -> impl Iterator<Item = String> {
    let is_default = |name: &String| config.default_server.as_ref() == Some(name);
    config.servers.iter().filter(move |(name, _)| !is_default(name)).filter_map(|(name, _)| {
        let own = section_of(name, &[]).ok()?;
        let is_misnamed = own != *name && !config.servers.contains_key(&own);
        is_misnamed.then(|| {
            format!("[server.{name}] does not hold for `lspool -- {name}`, whose section is [server.{own}]")
        })
    })
}

/// The section a command belongs to.
fn section_of(command: &str, args: &[String]) -> Result<String, String> {
    if is_copilot(Path::new(command), args) {
        return Ok(COPILOT.to_owned());
    }
    let stem = Path::new(command).file_stem().map(|it| it.to_string_lossy().into_owned());
    stem.ok_or_else(|| format!("{command:?} names no executable"))
}

/// Do the words of a command name a Copilot server? The executable itself, or what it is told to start: a script
/// (`node …/language-server.js`), a package (`npx @github/copilot-language-server`), a command (`env …`).
fn is_copilot(program: &Path, args: &[String]) -> bool {
    let is_named = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains(EXECUTABLE) || name == "language-server.js" && path.to_string_lossy().contains(COPILOT)
    };
    let words = args.iter().filter(|it| !it.starts_with('-')).map(Path::new);
    is_named(program) || words.into_iter().any(is_named)
}

fn find_command(command: &str, workspace: &Workspace, env: &Env) -> Result<Found, Missing> {
    let path = env.expand(Path::new(command)).map_err(|message| Missing { message, skipped: Vec::new() })?;
    if path.is_absolute() {
        return at_path(path, "the path that was named", Vec::new());
    }
    if command.contains(['/', MAIN_SEPARATOR]) {
        let path = env.cwd.join(path);
        // Without the `.` and `..` that mean something only to who knows the working folder.
        let folder = real(path.parent().unwrap_or(&env.cwd));
        let path = path.file_name().map_or_else(|| folder.clone(), |name| folder.join(name));
        let mut skipped = Vec::new();
        if workspace.refuses(&path, &mut skipped) {
            let message = format!(
                "{command:?} lies inside the workspace, where it may come from whoever wrote the repository; if that is \
                 meant, write its absolute path, {}",
                path.display()
            );
            return Err(Missing { message, skipped });
        }
        return at_path(path, "the working folder", skipped);
    }
    let mut skipped = Vec::new();
    let Some(path) = on_path(command, env, workspace, &mut skipped).into_iter().next() else {
        let what = match command {
            EXECUTABLE => format!("install it (npm install -g {PACKAGE})"),
            _ if command.contains(char::is_whitespace) => {
                "if it has arguments, write them in `args`".to_owned()
            }
            _ => "install it".to_owned(),
        };
        let message = format!("{command:?} was not found on PATH: {what}, or name it by its absolute path");
        let hints = skipped.iter().map(|it| format!("\n{it}; if it is meant, write its absolute path"));
        let message = hints.fold(message, |message, hint| message + &hint);
        return Err(Missing { message, skipped });
    };
    if command == EXECUTABLE {
        return resolve_named(&path, env, workspace, skipped).map_err(not_found);
    }
    Ok(Found { program: path, script: None, place: "PATH", skipped })
}

fn not_found(it: NotFound) -> Missing {
    Missing { message: it.to_string(), skipped: it.skipped }
}

fn at_path(program: PathBuf, place: &'static str, skipped: Vec<Skipped>) -> Result<Found, Missing> {
    let message = if is_executable(&program) {
        return Ok(Found { program, script: None, place, skipped });
    } else if program.is_file() {
        format!("{} may not be executed", program.display())
    } else if program.exists() {
        format!("{} is no file", program.display())
    } else {
        format!("{} does not exist", program.display())
    };
    Err(Missing { message, skipped })
}
