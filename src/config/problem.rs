//! What is wrong with a file, for the person who wrote it.

use std::{fmt, path::PathBuf};

use super::AgentSource;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The key, from the root of the file; empty where there is none.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Everything that is wrong with a file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// Name of the file, as it is to be shown.
    pub file: String,
    /// In the order of the lines.
    pub list: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.list.iter().enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            let colon = if problem.key.is_empty() { "" } else { ": " };
            write!(
                f,
                "{separator}{}:{}: {}{colon}{}",
                self.file, problem.line, problem.key, problem.message
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// What was kept out, because its name is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// Name of the file, as it is to be shown.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What it is.
    pub kind: ShadowedKind,
    /// Its name.
    pub name: String,
    /// Who has the name.
    pub by: AgentSource,
}

/// What may be kept out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowedKind {
    /// An agent.
    Agent,
    /// A worker.
    Worker,
}

impl ShadowedKind {
    /// A word for it.
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

/// Who wrote the file that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// Whoever runs lspool.
    User,
    /// Whoever wrote the repository.
    Workspace(PathBuf),
}
