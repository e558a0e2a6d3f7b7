//! Definitions of agents: reads the files of several dialects, and decides which of several agents with one name
//! applies.
//!
//! Owns the reading of Markdown files with YAML front matter into [`AgentConfig`]s, the meanings of other programs'
//! tool names, and the order of sources. Reads no file. `core` runs the agents.
//!
//! **User over builtin over workspace**: a repository, or an agent that edits one, can add agents and redefine none.
//!
//! **An unknown name never widens a tool set**: it is left out and reported.

mod aliases;
mod delegation;
mod file;
mod inert;
mod limits;
pub mod orchestration;
mod registry;
pub mod team;
#[cfg(test)]
mod tests;
mod words;
mod yaml;

pub(crate) use aliases::{likely_tools, tool_names};
pub use delegation::{LAST_REQUEST, Outcome, SUMMARY, Task, list, request, results, tool};
pub(crate) use file::front_matter;
pub use file::{Definition, Problem, parse};
pub use registry::{Author, Registry};
pub use words::{Command, command, usage};

use crate::config::{AgentConfig, Config};

/// The tool with which a lead starts sub-agents.
pub const DELEGATE: &str = "delegate_task";

/// The tool that runs commands.
pub const TERMINAL: &str = "run_in_terminal";

/// The tools for starting and steering other agents. No sub-agent has them, so there is no recursion.
pub const ORCHESTRATION: [&str; 4] = [DELEGATE, team::CREATE, team::SEND, team::DELETE];

/// Claude's names for models. They are tiers, which a server does not know.
const TIERS: [&str; 3] = ["haiku", "opus", "sonnet"];

/// Unknown models of agents and workers, as far as they can be found without the server.
pub fn unknown_tiers(config: &Config) -> Vec<String> {
    let is_unknown = |it: &&str| TIERS.contains(it) && !config.models.contains_key(*it);
    let agents = config.agents.iter().map(|(name, it)| ("agent", name, &it.model));
    let workers = config.workers.iter().map(|it| ("worker", &it.role, &it.model));
    let told = |(kind, name, model): (&str, &String, &Option<String>)| {
        let model = model.as_deref().filter(is_unknown)?;
        Some(format!("{kind} {name:?}: its model {model:?} is unknown; define it under [models]"))
    };
    agents.chain(workers).filter_map(told).collect()
}

/// Settings of leads that do not hold where their user may expect it.
pub fn unused_by_leads(config: &Config) -> Vec<String> {
    let told = |(name, it): (&String, &AgentConfig)| {
        let given = [
            ("model", it.model.is_some()),
            ("prompt", it.prompt.is_some()),
            ("max_turns", it.max_turns.is_some()),
        ];
        let given: Vec<&str> = given.iter().filter(|(_, is_given)| *is_given).map(|(key, _)| *key).collect();
        (it.lead && !given.is_empty()).then(|| {
            format!(
                "agent {name:?}: {} of a lead: no effect in its own conversations, only when another lead starts it",
                given.join(", ")
            )
        })
    };
    config.agents.iter().filter_map(told).collect()
}

/// A list of tools, for people. None: there is no list, so these are all.
pub(crate) fn allowed(tools: Option<&[String]>) -> String {
    match tools {
        None => "all".to_owned(),
        Some([]) => "none".to_owned(),
        Some(names) => names.join(", "),
    }
}

/// The tools of an agent, for people.
pub fn tools(agent: &AgentConfig) -> String {
    let allowed = allowed(agent.tools.as_deref());
    match &*agent.disallowed_tools {
        [] => allowed,
        denied => format!("{allowed}, without {}", denied.join(", ")),
    }
}
