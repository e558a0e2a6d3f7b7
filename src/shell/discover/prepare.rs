//! Chooses the server to start from the command line, the configuration, and the workspace.

use std::{
    path::{MAIN_SEPARATOR, Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;

use super::{
    Env, agents,
    files::{UserConfig, merge_workspace},
    path::{Skipped, Workspace, is_executable, on_path, real},
    places::PACKAGE,
    plan::{GroupPlan, Plan, plan},
    remote::{Words, call, copies, known_folders, place_name, recognized, usable},
    roots,
    search::{EXECUTABLE, Found, NotFound, resolve_named, search},
    share::share,
};
use crate::{
    agents::{Registry, unknown_tiers, unused_by_leads},
    config::{Config, MemberConfig, RemoteConfig, ServerConfig, ServerKind, Unmapped, presets::package_of},
    core::event::{Group, Launch, Member, Prepared, Remote},
    rpc::PathPair,
};

/// The section of Copilot servers.
const COPILOT: &str = "copilot";

/// The servers that the command line names: `[--group NAME] [-- COMMAND [ARG…]]…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CliServers {
    /// A group of the configuration, or a preset.
    pub group: Option<String>,
    /// Commands, which come after the members of the group.
    pub commands: Vec<CliServer>,
}

impl CliServers {
    /// The command of one server. Without words, the configuration decides.
    pub fn one(words: Vec<String>) -> CliServers {
        let mut words = words.into_iter();
        let command = words.next().map(|command| CliServer { command, args: words.collect() });
        CliServers { group: None, commands: command.into_iter().collect() }
    }

    /// Whether the configuration decides.
    pub fn is_empty(&self) -> bool {
        self.group.is_none() && self.commands.is_empty()
    }
}

/// The command of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliServer {
    /// The executable.
    pub command: String,
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
    /// The place of the executable, in words.
    pub place: &'static str,
    /// Skipped executables.
    pub skipped: Vec<Skipped>,
}

/// A missing server, with the skipped executables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The error and a hint.
    pub message: String,
    /// Skipped executables.
    pub skipped: Vec<Skipped>,
}

/// Answers [`Effect::Prepare`](crate::core::event::Effect::Prepare): reads the workspace files of the folders,
/// chooses the sections, finds the servers.
pub fn prepare(
    cli: &CliServers,
    user: &UserConfig,
    folders: &[PathBuf],
    env: &Env,
) -> Result<Prepared, String> {
    let workspace = Workspace::new(folders);
    let mut config = config_in(&workspace, user, env)?;
    let overlooked = overlooked(cli, &config);
    let plan = plan(cli, &mut config, &workspace, env)?;
    prepare_plan(plan, config, overlooked, &Place { user, workspace: &workspace, env })
}

/// Where servers are looked for.
pub(super) struct Place<'a> {
    pub(super) user: &'a UserConfig,
    pub(super) workspace: &'a Workspace,
    pub(super) env: &'a Env,
}

/// Finds the servers of a plan, and adds the workspace files to the configuration.
pub(super) fn prepare_plan(
    plan: Plan,
    mut config: Config,
    overlooked: Vec<String>,
    at: &Place<'_>,
) -> Result<Prepared, String> {
    let Place { user, workspace, env } = *at;
    let agents = merge_agents(&mut config, user, workspace, env)?;
    let Members { first, others } = find_members(&plan, &config, workspace, env)?;
    // No other server has agents.
    let is_copilot =
        [&first].into_iter().chain(&others).any(|it| it.server.kind == Some(ServerKind::Copilot));
    let agents: Vec<String> = if is_copilot { agents.for_editor() } else { Vec::new() };
    let missing: Vec<String> = match &plan.group {
        Some(_) => [&first].into_iter().chain(&others).filter_map(missing_member).collect(),
        None => Vec::new(),
    };
    let group = plan.group.map(|it| {
        let GroupPlan { name, start_wait, diagnostics_wait, order, combine, wait } = it;
        Group { name, start_wait, diagnostics_wait, order, combine, wait, others }
    });
    Ok(Prepared {
        config: Arc::new(config),
        name: first.name,
        server: first.server,
        launch: Arc::new(first.launch),
        missing: first.missing,
        warnings: missing.into_iter().chain(overlooked).chain(agents).collect(),
        transcripts: None,
        group,
        has_code_tools: false,
    })
}

/// The servers of a [`Plan`], by rank.
struct Members {
    first: Member,
    others: Vec<Member>,
}

/// Finds the servers. One that is alone and required must be there; of a group, one must.
fn find_members(plan: &Plan, config: &Config, workspace: &Workspace, env: &Env) -> Result<Members, String> {
    let is_alone = plan.group.is_none();
    let mut members = Vec::new();
    for (name, server) in sections(plan, config, workspace, env) {
        let member = match target(&name, &server, workspace, env) {
            Ok(Target { server, mut launch, .. }) => {
                launch.root = if is_alone { None } else { own_root(&server, workspace) };
                launch.share = share(&name, &server, &launch, workspace, env);
                Member { name, server, launch, missing: None }
            }
            Err(missing) if is_alone && server.policy.required => return Err(missing.message),
            Err(missing) => {
                let launch = nothing(&server);
                let missing = Some(with_alternatives(missing.message, plan.alternatives.get(&name)));
                Member { name, server, launch, missing }
            }
        };
        members.push(member);
    }
    if !is_alone && members.iter().all(|it| it.missing.is_some()) {
        let missing =
            members.iter().map(|it| format!("\n{}: {}", it.name, it.missing.as_deref().unwrap_or_default()));
        return Err(format!("no server of the group could start:{}", missing.collect::<String>()));
    }
    let mut members = members.into_iter();
    let first = members.next().ok_or("no server is chosen")?;
    Ok(Members { first, others: members.collect() })
}

/// The warning about a missing member.
fn missing_member(member: &Member) -> Option<String> {
    member.missing.as_ref().map(|it| format!("lspool: {} could not start: {it}", member.name))
}

/// Says what could stand in the place of a server that is missing.
fn with_alternatives(message: String, alternatives: Option<&Vec<&'static str>>) -> String {
    match alternatives.map(Vec::as_slice) {
        None | Some([]) => message,
        Some(others) => {
            format!("{message}\nhint: the group also takes {}", others.join(" or "))
        }
    }
}

/// The sections of the chosen servers, as they hold in their group.
fn sections(plan: &Plan, config: &Config, workspace: &Workspace, env: &Env) -> Vec<(String, ServerConfig)> {
    let package = |name: &str| {
        let server = config.servers.get(name)?;
        let launch = target(name, server, workspace, env).ok()?.launch;
        let script = launch.args.first().map(PathBuf::from).filter(|it| it.is_absolute());
        let program = real(&script.unwrap_or(launch.program));
        program.ancestors().skip(1).find(|it| it.join("package.json").is_file()).map(Path::to_owned)
    };
    let section = |member: &MemberConfig| {
        let mut server = config.servers.get(&member.server).cloned().unwrap_or_default();
        server.narrow(member);
        server.init_options.values_mut().for_each(|it| name_packages(it, &package));
        (member.server.clone(), server)
    };
    plan.members.iter().map(section).collect()
}

/// Writes the folders of packages where they are named.
fn name_packages(value: &mut Value, package: &dyn Fn(&str) -> Option<PathBuf>) {
    match value {
        Value::String(text) => {
            if let Some(name) = package_of(text) {
                *text = package(name).map_or_else(String::new, |it| it.to_string_lossy().into_owned());
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|it| name_packages(it, package)),
        Value::Object(all) => all.values_mut().for_each(|it| name_packages(it, package)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The folder that a member works in, if it is not that of the workspace.
fn own_root(server: &ServerConfig, workspace: &Workspace) -> Option<PathBuf> {
    match roots::place_of(&server.root_markers, workspace) {
        roots::Place::At(folder) => Some(folder).filter(|it| !workspace.folders().contains(it)),
        roots::Place::Below | roots::Place::Nowhere => None,
    }
}

/// The agents that hold in a workspace, and what became of the files that define agents.
pub fn known_agents(user: &UserConfig, folders: &[PathBuf], env: &Env) -> Result<(Config, Registry), String> {
    let mut config = user.config.clone();
    let agents = merge_agents(&mut config, user, &Workspace::new(folders), env)?;
    Ok((config, agents))
}

/// Adds the agents and the configuration of the workspace. The agent files come first, because the configuration may
/// name their agents.
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

/// Servers to try, with their launches.
#[derive(Debug)]
pub struct Targets {
    /// What serves the editor, by rank.
    pub servers: Vec<(String, Result<Target, Missing>)>,
    /// The other configured servers, by name.
    pub others: Vec<(String, Result<Target, Missing>)>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The group that the first are, if they are one.
    pub group: Option<GroupPlan>,
    /// Members of a group that are left out.
    pub absent: Absent,
}

/// Members of a group that are left out.
#[derive(Debug, Default)]
pub struct Absent {
    /// The name of the group.
    pub group: String,
    /// Each with the reason.
    pub members: Vec<String>,
}

/// Finds the default group and all configured servers, those of single folders included. Without any, the Copilot server.
pub fn targets(user: &UserConfig, folders: &[PathBuf], env: &Env) -> Result<Targets, String> {
    let workspace = Workspace::new(folders);
    let (servers, group, absent) = match config_in(&workspace, user, env)?.default_group {
        Some(_) => {
            let it = named_targets(&CliServers::default(), user, folders, env)?;
            (it.servers, it.group, it.absent)
        }
        None => (Vec::new(), None, Absent::default()),
    };
    let mut config = user.config.clone();
    let is_empty = config.servers.is_empty() && config.folders.iter().all(|it| it.servers.is_empty());
    if servers.is_empty() && is_empty {
        config.servers.insert(COPILOT.to_owned(), ServerConfig::default());
    }
    let agents = merge_agents(&mut config, user, &workspace, env)?;
    let warnings = misnamed(&config).chain(agents.all()).collect();
    let general = config.servers.iter().map(|(name, server)| (name.clone(), name, server));
    let special = config.folders.iter().flat_map(|folder| {
        let label = move |name: &str| format!("{name} in {}", folder.path.display());
        folder.servers.iter().map(move |(name, server)| (label(name), name, server))
    });
    let is_other = |(label, ..): &(String, &String, &ServerConfig)| servers.iter().all(|(it, _)| it != label);
    let found = |(label, name, server): (String, &String, &ServerConfig)| {
        (label, target(name, server, &workspace, env))
    };
    let others = general.chain(special).filter(is_other).map(found).collect();
    Ok(Targets { servers, others, warnings, group, absent })
}

/// The servers that a command line names, with what there is to start. Reads the workspace files as for an editor.
pub fn named_targets(
    cli: &CliServers,
    user: &UserConfig,
    folders: &[PathBuf],
    env: &Env,
) -> Result<Targets, String> {
    let workspace = Workspace::new(folders);
    let mut config = config_in(&workspace, user, env)?;
    let overlooked = overlooked(cli, &config);
    let plan = plan(cli, &mut config, &workspace, env)?;
    let agents = merge_agents(&mut config, user, &workspace, env)?;
    let found = |(name, server): (String, ServerConfig)| {
        let found = target(&name, &server, &workspace, env);
        let found = found.map_err(|it| Missing {
            message: with_alternatives(it.message, plan.alternatives.get(&name)),
            ..it
        });
        (name, found)
    };
    let servers: Vec<_> = sections(&plan, &config, &workspace, env).into_iter().map(found).collect();
    // No other server has agents.
    let is_copilot = |it: &Target| it.server.kind == Some(ServerKind::Copilot);
    let has_agents = servers.iter().any(|(_, it)| it.as_ref().is_ok_and(is_copilot));
    let warnings = overlooked.into_iter().chain(agents.all().filter(|_| has_agents)).collect();
    let absent = Absent { group: plan.name, members: plan.absent };
    Ok(Targets { servers, others: Vec::new(), warnings, group: plan.group, absent })
}

/// Finds the server of a section.
pub fn target(
    name: &str,
    server: &ServerConfig,
    workspace: &Workspace,
    env: &Env,
) -> Result<Target, Missing> {
    if let Some(remote) = &server.remote {
        return elsewhere(name, server, remote, workspace, env);
    }
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
    let remote = recognized(&found.program, &args, workspace.folders());
    let launch = Launch {
        program: found.program,
        args,
        env,
        cwd,
        max_message: server.max_message,
        write_stall: server.write_stall,
        root: None,
        remote,
        share: None,
    };
    Ok(Target { name: name.to_owned(), server, launch, place: found.place, skipped: found.skipped })
}

/// The engine that starts the server of a section elsewhere.
fn elsewhere(
    name: &str,
    server: &ServerConfig,
    remote: &RemoteConfig,
    workspace: &Workspace,
    env: &Env,
) -> Result<Target, Missing> {
    let plain = |message: String| Missing { message, skipped: Vec::new() };
    let (engine, first) = match remote.engine_command.split_first() {
        Some((engine, first)) => (engine.as_str(), first),
        None => (remote.engine.name(), &[][..]),
    };
    let found = find_command(engine, workspace, env).map_err(|missing| {
        let message = format!("{} (the engine of [server.{name}.remote])", missing.message);
        Missing { message, ..missing }
    })?;
    let (paths, inspect) = match &remote.paths {
        Some(pairs) => {
            let expanded = |it: &PathPair| {
                let local = env.expand(Path::new(&it.local))?;
                Ok(PathPair { local: local.to_string_lossy().into_owned(), remote: it.remote.clone() })
            };
            (pairs.iter().map(expanded).collect::<Result<Vec<_>, String>>().map_err(plain)?, None)
        }
        None => known_folders(remote, &found.program, first, workspace.folders()).map_err(plain)?,
    };
    let words = Words {
        name,
        command: server.command.as_deref().unwrap_or(name),
        args: &server.args,
        cwd: server.cwd.as_deref(),
        env: &server.env,
        folder: workspace.folders().first().map(PathBuf::as_path),
        paths: &paths,
    };
    let call = call(remote, first, &words).map_err(plain)?;
    let wants_copies = remote.unmapped == Unmapped::Fetch && !call.shell.is_empty();
    let copies = if wants_copies { copies(name, remote, env) } else { None };
    let paths = usable(paths, workspace.folders());
    let place = place_name(remote);
    let launch = Launch {
        program: found.program,
        args: call.args,
        env: call.env,
        cwd: None,
        max_message: server.max_message,
        write_stall: server.write_stall,
        root: None,
        remote: Some(Remote {
            engine: remote.engine,
            name: place,
            paths,
            shell: call.shell,
            farewell: call.farewell,
            env: call.told,
            inspect,
            skips_settings: !remote.map_settings,
            copies,
        }),
        share: None,
    };
    let (name, server) = (name.to_owned(), server.clone());
    Ok(Target { name, server, launch, place: found.place, skipped: found.skipped })
}

/// The launch for a missing executable.
fn nothing(server: &ServerConfig) -> Launch {
    Launch {
        program: PathBuf::new(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
        max_message: server.max_message,
        write_stall: server.write_stall,
        root: None,
        remote: None,
        share: None,
    }
}

/// The user's configuration with the `[[folder]]` section of this workspace.
pub(super) fn config_in(workspace: &Workspace, user: &UserConfig, env: &Env) -> Result<Config, String> {
    let mut config = user.config.clone();
    let mut best: Option<(usize, usize)> = None;
    let Some(first) = workspace.real().first() else { return Ok(config) };
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
    Ok(config)
}

/// The section that holds where nobody names a server. It is there afterwards.
pub(super) fn choose(config: &mut Config) -> Result<String, String> {
    let mut names = config.servers.keys();
    let name = match (&config.default_server, names.next(), names.next()) {
        (Some(name), _, _) => name.clone(),
        (None, None, _) => COPILOT.to_owned(),
        _ if config.servers.contains_key(COPILOT) => COPILOT.to_owned(),
        (None, Some(only), None) => only.clone(),
        (None, Some(_), Some(_)) => {
            let names: Vec<_> = config.servers.keys().map(String::as_str).collect();
            return Err(format!(
                "several servers are configured ({}); choose one with `lspool -- COMMAND`, or with \
                 `default_server` in the configuration",
                names.join(", ")
            ));
        }
    };
    config.servers.entry(name.clone()).or_default();
    Ok(name)
}

/// Sections that were written for commands on the command line, as it seems, but are not those commands'.
fn overlooked(cli: &CliServers, config: &Config) -> Vec<String> {
    cli.commands.iter().filter_map(|it| overlooked_of(it, config)).collect()
}

fn overlooked_of(CliServer { command, args }: &CliServer, config: &Config) -> Option<String> {
    let own = section_of(command, args).ok()?;
    if config.servers.contains_key(&own) {
        return None;
    }
    let starts_it = |(name, server): &(&String, &ServerConfig)| {
        let command = server.command.as_ref().unwrap_or(name);
        section_of(command, &server.args).is_ok_and(|it| it == own)
    };
    let (name, _) = config.servers.iter().find(starts_it)?;
    Some(format!("[server.{name}] does not apply to `lspool -- {command}`, whose section is [server.{own}]"))
}

/// Warns of sections whose name looks like a command, but is not its section.
fn misnamed(config: &Config) -> impl Iterator<Item = String> {
    let is_default = |name: &String| config.default_server.as_ref() == Some(name);
    config.servers.iter().filter(move |(name, _)| !is_default(name)).filter_map(|(name, _)| {
        let own = section_of(name, &[]).ok()?;
        let is_misnamed = own != *name && !config.servers.contains_key(&own);
        is_misnamed.then(|| {
            format!("[server.{name}] does not apply to `lspool -- {name}`, whose section is [server.{own}]")
        })
    })
}

/// The section a command belongs to.
pub(super) fn section_of(command: &str, args: &[String]) -> Result<String, String> {
    if is_copilot(Path::new(command), args) {
        return Ok(COPILOT.to_owned());
    }
    let stem = Path::new(command).file_stem().map(|it| it.to_string_lossy().into_owned());
    stem.ok_or_else(|| format!("{command:?} names no executable"))
}

/// Whether a command starts a Copilot server: by its executable, or by a later word: a script
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
        return at_path(path, "the named path", Vec::new());
    }
    if command.contains(['/', MAIN_SEPARATOR]) {
        let path = env.cwd.join(path);
        // Without `.` and `..`, which depend on the working folder.
        let folder = real(path.parent().unwrap_or(&env.cwd));
        let path = path.file_name().map_or_else(|| folder.clone(), |name| folder.join(name));
        let mut skipped = Vec::new();
        if workspace.refuses(&path, &mut skipped) {
            let message = format!(
                "{command:?} is inside the workspace, where a repository can put executables; to use it, \
                 write its absolute path, {}",
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
            _ if command.contains(char::is_whitespace) => "set its arguments in `args`".to_owned(),
            _ => "install it".to_owned(),
        };
        let message = format!("{command:?} is not on PATH: {what}, or write its absolute path");
        let hints = skipped.iter().map(|it| format!("\n{it}; to use it, write its absolute path"));
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
        format!("{} is not executable", program.display())
    } else if program.exists() {
        format!("{} is not a file", program.display())
    } else {
        format!("{} does not exist", program.display())
    };
    Err(Missing { message, skipped })
}
