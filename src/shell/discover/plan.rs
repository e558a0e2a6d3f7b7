//! Which servers are to stand behind the editor: one, or the members of a group.
//!
//! Reads the command line and the configuration. Looks for executables only where a preset names alternatives.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Env, Workspace,
    prepare::{CliServer, CliServers, choose, section_of, target},
    roots::{Place, place_of},
};
use crate::config::{
    Combine, Config, GroupConfig, MemberConfig, ServerConfig, nearest,
    presets::{Choice, complete, preset, preset_names},
};

/// The servers that were chosen. Each has a section.
#[derive(Debug)]
pub(super) struct Plan {
    /// By rank; there is one at least.
    pub(super) members: Vec<MemberConfig>,
    /// The name of the group, or those of the members.
    pub(super) name: String,
    /// What they are together, if they are several.
    pub(super) group: Option<GroupPlan>,
    /// By name of a member: what could stand in its place.
    pub(super) alternatives: BTreeMap<String, Vec<&'static str>>,
    /// Members that are left out, and why.
    pub(super) absent: Vec<String>,
}

/// What holds for a group as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// Its name, or those of its members.
    pub name: String,
    /// How long `initialize` is held.
    pub start_wait: Duration,
    /// How long the first diagnostics wait for others.
    pub diagnostics_wait: Duration,
    /// Who goes first for a feature.
    pub order: BTreeMap<String, Vec<String>>,
    /// How the answers for a feature become one.
    pub combine: BTreeMap<String, Combine>,
    /// How long others are waited for.
    pub wait: BTreeMap<String, Duration>,
}

impl GroupPlan {
    /// A group without settings, which waits for nobody.
    pub(crate) fn of(name: &str) -> GroupPlan {
        GroupPlan {
            name: name.to_owned(),
            start_wait: Duration::ZERO,
            diagnostics_wait: Duration::ZERO,
            order: BTreeMap::new(),
            combine: BTreeMap::new(),
            wait: BTreeMap::new(),
        }
    }
}

/// Chooses the servers; their sections are there afterwards, with what the command line says.
pub(super) fn plan(
    cli: &CliServers,
    config: &mut Config,
    workspace: &Workspace,
    env: &Env,
) -> Result<Plan, String> {
    let named = match (&cli.group, cli.commands.as_slice(), &config.default_group) {
        (Some(name), _, _) | (None, [], Some(name)) => Some(name.clone()),
        (None, [], None) => {
            let name = choose(config)?;
            let (members, alternatives) = (vec![MemberConfig::of(&name)], BTreeMap::new());
            return Ok(Plan { members, name, group: None, alternatives, absent: Vec::new() });
        }
        (None, [_, ..], _) => None,
    };
    let mut alternatives = BTreeMap::new();
    let mut group = match &named {
        Some(name) => group_named(name, config, workspace, env, &mut alternatives)?,
        None => GroupConfig::default(),
    };
    for member in &group.servers {
        complete(&member.server, config.servers.entry(member.server.clone()).or_default());
    }
    for command in &cli.commands {
        let name = add_command(command, &group, config)?;
        group.servers.push(MemberConfig::of(&name));
    }
    let absent = leave_out(&mut group, config, workspace);
    let names: Vec<&str> = group.servers.iter().map(|it| it.server.as_str()).collect();
    let name = named.unwrap_or_else(|| names.join("+"));
    let is_group = names.len() > 1;
    let GroupConfig { servers, order, combine, wait, start_wait, diagnostics_wait } = group;
    let group = is_group.then(|| {
        let name = name.clone();
        GroupPlan { name, start_wait, diagnostics_wait, order, combine, wait }
    });
    Ok(Plan { members: servers, name, group, alternatives, absent })
}

/// Takes those out of the group that the workspace has no use for, unless that leaves nobody. Gives why.
fn leave_out(group: &mut GroupConfig, config: &Config, workspace: &Workspace) -> Vec<String> {
    let is_wanted = |member: &MemberConfig| {
        let server = config.servers.get(&member.server);
        server.is_none_or(|it| !it.root_required || place_of(&it.root_markers, workspace) != Place::Nowhere)
    };
    let (wanted, others): (Vec<_>, Vec<_>) = group.servers.iter().cloned().partition(is_wanted);
    if wanted.is_empty() {
        return Vec::new();
    }
    group.servers = wanted;
    let why = |member: &MemberConfig| {
        let markers = config.servers.get(&member.server).map(|it| it.root_markers.join(", "));
        format!("{} is not used here: the workspace has no {}", member.server, markers.unwrap_or_default())
    };
    others.iter().map(why).collect()
}

/// Adds the section of a command that is not in the group yet, and gives its name.
fn add_command(command: &CliServer, group: &GroupConfig, config: &mut Config) -> Result<String, String> {
    let own = section_of(&command.command, &command.args)?;
    let is_free = |name: &String| group.servers.iter().all(|it| it.server != *name);
    let mut numbered = (2..).map(|n| format!("{own}#{n}"));
    let name = if is_free(&own) { own.clone() } else { numbered.find(is_free).unwrap_or_default() };
    let server: &mut ServerConfig = config.servers.entry(name.clone()).or_default();
    server.command = Some(command.command.clone());
    server.args.clone_from(&command.args);
    Ok(name)
}

/// The user's own group of this name, else the preset.
fn group_named(
    name: &str,
    config: &Config,
    workspace: &Workspace,
    env: &Env,
    alternatives: &mut BTreeMap<String, Vec<&'static str>>,
) -> Result<GroupConfig, String> {
    if let Some(group) = config.groups.get(name) {
        return Ok(group.clone());
    }
    if let Some(preset) = preset(name) {
        let mut group = GroupConfig::default();
        for choice in preset {
            let chosen = first_installed(choice, config, workspace, env);
            let others = choice.iter().copied().filter(|it| *it != chosen);
            alternatives.insert(chosen.to_owned(), others.collect());
            group.servers.push(MemberConfig::of(chosen));
        }
        return Ok(group);
    }
    let mut known: Vec<&str> = config.groups.keys().map(String::as_str).chain(preset_names()).collect();
    known.sort_unstable();
    known.dedup();
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("expected one of {}", known.join(", ")),
    };
    Err(format!("unknown group {name:?}; {hint}"))
}

/// The first of these servers that is installed; if none is, the first.
fn first_installed(choice: &Choice, config: &Config, workspace: &Workspace, env: &Env) -> &'static str {
    let is_installed = |name: &str| {
        let mut server = config.servers.get(name).cloned().unwrap_or_default();
        complete(name, &mut server);
        target(name, &server, workspace, env).is_ok()
    };
    choice.iter().copied().find(|it| is_installed(it)).unwrap_or(choice[0])
}
