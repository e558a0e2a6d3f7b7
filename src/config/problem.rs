//! Errors in a configuration file, for the person who wrote it.

use std::{fmt, path::PathBuf};

use super::AgentSource;

/// One error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The key, from the root of the file; empty if the text is not TOML.
    pub key: String,
    /// What lspool expected and found.
    pub message: String,
}

/// All errors in a file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The name of the file in messages.
    pub file: String,
    /// In the order of the lines.
    pub list: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.list.iter().enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            let Problem { line, key, message } = problem;
            write!(f, "{separator}{}:{line}: ", self.file)?;
            if !key.is_empty() {
                write!(f, "`{key}`: ")?;
            }
            f.write_str(message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A definition that lspool ignores, because its name is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// The name of the file in messages.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The kind of the definition.
    pub kind: ShadowedKind,
    /// The taken name.
    pub name: String,
    /// Where the definition with this name stands.
    pub by: AgentSource,
}

/// The kinds of definitions that can be shadowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowedKind {
    /// An agent.
    Agent,
    /// A worker.
    Worker,
}

impl ShadowedKind {
    /// The word for it in messages.
    pub fn name(self) -> &'static str {
        match self {
            ShadowedKind::Agent => "agent",
            ShadowedKind::Worker => "worker",
        }
    }
}

impl fmt::Display for Shadowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shadowed { file, line, kind, name, by } = self;
        let has_one = match kind {
            ShadowedKind::Agent => "has an agent of that name",
            ShadowedKind::Worker => "has a worker of that name",
        };
        write!(f, "{file}:{line}: {} {name:?} is shadowed: ", kind.name())?;
        match by {
            AgentSource::Builtin => write!(f, "lspool {has_one}"),
            AgentSource::User => write!(f, "the user's configuration {has_one}"),
            AgentSource::UserFile(other) | AgentSource::Workspace(other) => {
                write!(f, "{} {has_one}", other.display())
            }
        }
    }
}

/// The author of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// The user of lspool.
    User,
    /// The author of the repository.
    Workspace(PathBuf),
}
