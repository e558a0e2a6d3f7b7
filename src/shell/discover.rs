//! Finding what to start: the configuration files, the section that holds, the executable.
//!
//! Owns the rules on what may be started. It starts nothing, and changes nothing in the file system.
//!
//! **What a repository brought is never found by a search.** Only absolute entries of `PATH` count, and nothing
//! that lies in a workspace folder, or that is reached through a link in one. A path that the user wrote is
//! taken as it is if it is absolute.

mod agents;
mod env;
mod files;
mod path;
mod places;
mod plan;
mod prepare;
mod search;
#[cfg(test)]
mod tests;

pub use agents::agent_folders;
pub use env::Env;
pub use files::{UserConfig, read_user, user_file, workspace_files};
pub use path::{Skipped, Workspace};
pub use plan::GroupPlan;
pub use prepare::{
    CliServer, CliServers, Missing, Target, Targets, known_agents, named_targets, prepare, target, targets,
};
pub use search::{Found, NotFound, search};
