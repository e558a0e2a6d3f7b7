//! The search for the project of a document.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A search for the project that a document belongs to, for a member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindRoot {
    /// The name of the member.
    pub member: String,
    /// The folder of the document.
    pub folder: PathBuf,
    /// The folders that the member works in.
    pub within: Vec<PathBuf>,
    /// The names that mark a project.
    pub markers: Vec<String>,
    /// Whether a marker in one of the folders `within` makes all of it one project.
    pub is_whole: bool,
}

/// The project of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootFound {
    /// The name of the member.
    pub member: String,
    /// A folder below one of those that it works in, if there is one with a marker.
    pub root: Option<PathBuf>,
}
