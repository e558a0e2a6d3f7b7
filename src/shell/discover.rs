//! Finds the server to start: the configuration files, the section, the executable.
//!
//! Owns the rules about executables. Starts nothing, and changes no file.
//!
//! **A search never finds an executable of a repository.** Only absolute entries of `PATH` count, and nothing in a
//! workspace folder, or behind a link in one. An absolute path that the user wrote is taken as it is.

mod agents;
mod env;
mod files;
mod path;
mod places;
mod plan;
mod prepare;
mod probe;
mod remote;
mod roots;
mod search;
mod share;
// Their paths and links are those of Unix.
#[cfg(unix)]
#[cfg(test)]
mod tests;
mod tools;
mod trust;

pub use agents::agent_folders;
pub use env::Env;
pub use files::{UserConfig, read_user, user_file, workspace_files};
pub use path::{Skipped, Workspace};
pub use plan::GroupPlan;
pub use prepare::{
    Absent, CliServer, CliServers, Missing, Target, Targets, known_agents, named_targets, prepare, target,
    targets,
};
pub use probe::probe;
pub(in crate::shell) use remote::moved;
pub use roots::nearest_root;
pub use search::{Found, NotFound, search};
pub use tools::{FoundLanguage, FoundTools, languages_found, prepare_tools};
pub use trust::Trust;
