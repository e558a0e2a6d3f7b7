//! Definitions of agents: what the files of several dialects say, and which of several with one name holds.
//!
//! Owns how a Markdown file with YAML front matter becomes an [`AgentConfig`], what the tool names of other programs
//! mean, and the order of precedence. Reads no file. How agents are run is `core`'s.
//!
//! **User over built-in over workspace**: a repository, or an agent that edits one, adds agents, and redefines none.
//!
//! **What is not understood never widens a tool set**: a name that stands for nothing is left out and told.

mod aliases;
mod delegation;
mod file;
mod inert;
mod listing;
pub mod orchestration;
mod registry;
pub mod team;
#[cfg(test)]
mod tests;
mod words;
mod yaml;

pub use delegation::{Outcome, SUMMARY, Task, list, request, results, tool};
pub(crate) use file::front_matter;
pub use file::{Definition, Problem, parse};
pub use listing::{Listing, Row};
pub use registry::{Author, Registry};
pub use words::{Command, command, usage};

use crate::config::AgentConfig;

/// The tool with which a lead starts sub-agents.
pub const DELEGATE: &str = "delegate_task";

/// The tool that runs commands.
pub const TERMINAL: &str = "run_in_terminal";

/// The tools with which agents start and steer others. No sub-agent has them: there is no recursion.
pub const ORCHESTRATION: [&str; 4] = [DELEGATE, team::CREATE, team::SEND, team::DELETE];

/// A list of tools, for people. None: there is no list, so these are all.
fn allowed(tools: Option<&[String]>) -> String {
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
