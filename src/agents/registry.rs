//! Decides which of several agents with one name applies.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::file;
use crate::config::{AgentSource, Config, Place, Shadowed, ShadowedKind};

/// How many warnings an editor shows.
const SHOWN: usize = 5;

/// Who wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The user of lspool.
    User,
    /// The author of the repository.
    Workspace,
}

/// The result of reading agent files.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// Agents that were left out, because their name is taken.
    pub shadowed: Vec<Shadowed>,
    /// Errors in files: `FILE:LINE: error`. Such a file defines nothing.
    pub problems: Vec<String>,
    /// Parts of valid files that were left out.
    pub warnings: Vec<String>,
    /// Invalid files of the user, by agent name. They reserve the name.
    broken: BTreeMap<String, PathBuf>,
}

impl Registry {
    /// Adds a file after all earlier ones, which have priority. `text` is its content, or why it is unreadable.
    pub fn add(&mut self, config: &mut Config, author: Author, path: &Path, text: Result<&str, String>) {
        let shown = path.display();
        let parsed = match text {
            Ok(text) => {
                file::parse(text, path).map_err(|it| it.iter().map(|it| format!("{shown}:{it}")).collect())
            }
            Err(error) => Err(vec![format!("{shown}: {error}")]),
        };
        let file::Definition { name, mut agent, warnings } = match parsed {
            Ok(it) => it,
            Err(problems) => {
                self.problems.extend::<Vec<_>>(problems);
                if let (Author::User, Some(name)) = (author, path.file_name()) {
                    self.broken.insert(called(&name.to_string_lossy()), path.to_owned());
                }
                return;
            }
        };
        self.warnings.extend(warnings.iter().map(|it| format!("{shown}:{it}")));
        agent.source = match author {
            Author::User => AgentSource::UserFile(path.to_owned()),
            Author::Workspace => AgentSource::Workspace(path.to_owned()),
        };
        let broken = self.broken.get(&called(&name)).filter(|_| author == Author::Workspace);
        let place = match broken.cloned() {
            Some(file) => Place::TakenBy(AgentSource::UserFile(file)),
            None => Config::place(&config.agents, &name, &agent.source),
        };
        match place {
            Place::Free | Place::Over(_) | Place::Twice(_) => Config::put(&mut config.agents, name, agent),
            Place::TakenBy(by) => {
                let file = path.display().to_string();
                self.shadowed.push(Shadowed { file, line: 1, kind: ShadowedKind::Agent, name, by });
            }
        }
    }

    /// The errors and the shadowed agents.
    pub fn serious(&self) -> impl Iterator<Item = String> {
        self.problems.iter().cloned().chain(self.shadowed.iter().map(ToString::to_string))
    }

    /// The same for an editor, and the warnings in one message, because each is a window.
    pub fn for_editor(&self) -> Vec<String> {
        let shown = &self.warnings[..self.warnings.len().min(SHOWN)];
        let more = self.warnings.len() - shown.len();
        let more = (more > 0).then(|| format!("{more} more; `lspool agents` shows them all"));
        let warnings: Vec<String> = shown.iter().cloned().chain(more).collect();
        let warnings = (!warnings.is_empty()).then(|| warnings.join("\n"));
        self.serious().chain(warnings).collect()
    }

    /// Everything that is to be told.
    pub fn all(&self) -> impl Iterator<Item = String> {
        self.serious().chain(self.warnings.iter().cloned())
    }
}

/// A name in the form for comparisons.
fn called(name: &str) -> String {
    name.split('.').next().unwrap_or(name).to_lowercase()
}
