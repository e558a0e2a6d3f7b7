//! `lspool agents`: the agents and workers of the current folder.

mod listing;

use std::process::ExitCode;

use self::listing::{Listing, Row};
use super::{args::Args, instances, print, screen::Screen, world};
use crate::{
    agents::likely_tools,
    config::{AgentConfig, Config},
    core::partition_of,
    shell::{
        control,
        discover::{Env, known_agents, read_user},
    },
};

/// Prints them, for people or as JSON. With `check`, an unreadable file is a failure.
pub(super) fn run(args: &Args, json: bool, check: bool, screen: Screen) -> anyhow::Result<ExitCode> {
    let env = Env::real();
    let user = read_user(args.config.as_deref(), &env).map_err(anyhow::Error::msg)?;
    let (config, registry) =
        known_agents(&user, std::slice::from_ref(&env.cwd), &env).map_err(anyhow::Error::msg)?;
    let doubts: Vec<String> = doubts(&config).collect();
    let running = world::runtime()?.block_on(instances::partitions(&control::folders(&env), &env.cwd));
    let row = |(name, agent): (String, AgentConfig)| {
        let partition = partition_of(&agent);
        let running = running.get(&partition).cloned().unwrap_or_default();
        Row { name, agent, partition, running }
    };
    let listing = Listing {
        rows: config.agents.into_iter().map(row).collect(),
        workers: config.workers,
        shadowed: registry.shadowed,
        problems: registry.problems,
        warnings: registry.warnings.into_iter().chain(doubts).collect(),
    };
    match json {
        true => print(&format!("{:#}\n", listing.json()))?,
        false => print(&listing.text(screen))?,
    }
    let has_failed = check && !listing.problems.is_empty();
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reports tool names that may be mistyped. None is an error, because an editor may register any name.
fn doubts(config: &Config) -> impl Iterator<Item = String> {
    let agents = config.agents.iter().map(|(name, it)| (format!("agent {name:?}"), it.tools.as_deref()));
    let workers = config.workers.iter().map(|it| (format!("worker {:?}", it.role), it.tools.as_deref()));
    agents.chain(workers).flat_map(|(owner, tools)| {
        let doubt = move |name: &String| match likely_tools(name) {
            meant if meant.is_empty() => None,
            meant => Some(format!("{owner}: unknown tool {name:?}; did you mean {}?", meant.join(", "))),
        };
        tools.unwrap_or_default().iter().filter_map(doubt)
    })
}
