//! What `lspool agents` shows.

use serde_json::{Value, json};

use super::tools;
use crate::config::{AgentConfig, AgentSource, Shadowed};

/// One agent.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// What it is.
    pub agent: AgentConfig,
    /// The tools of its partition, as `lspool status` shows them.
    pub partition: String,
    /// What that partition is doing, in each lspool of this folder that has it: `ready, pid 4711`.
    pub running: Vec<String>,
}

/// All there is to show.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The agents, by name.
    pub rows: Vec<Row>,
    /// Agents that do not hold, because their name is taken.
    pub shadowed: Vec<Shadowed>,
    /// What is wrong with files, which define nothing then.
    pub problems: Vec<String>,
    /// What was left out of files that are used.
    pub warnings: Vec<String>,
}

impl Listing {
    /// For a program.
    pub fn json(&self) -> Value {
        let agent = |it: &Row| {
            json!({
                "name": it.name,
                "description": it.agent.description,
                "source": source(&it.agent.source),
                "tools": it.agent.tools,
                "disallowed_tools": it.agent.disallowed_tools,
                "model": it.agent.model,
                "max_turns": it.agent.max_turns,
                "lead": it.agent.lead,
                "prompt": it.agent.prompt,
                "other": it.agent.other,
                "partition": it.partition,
                "running": it.running,
            })
        };
        let shadowed = |it: &Shadowed| {
            let kind = it.kind.name();
            json!({"kind": kind, "name": it.name, "file": it.file, "line": it.line, "by": source(&it.by)})
        };
        json!({
            "agents": self.rows.iter().map(agent).collect::<Vec<_>>(),
            "shadowed": self.shadowed.iter().map(shadowed).collect::<Vec<_>>(),
            "problems": self.problems,
            "warnings": self.warnings,
        })
    }

    /// For people.
    pub fn text(&self) -> String {
        let head = ["AGENT", "MODEL", "SOURCE", "PARTITION", "TOOLS"].map(str::to_owned);
        let row = |it: &Row| {
            let model = it.agent.model.clone().unwrap_or_else(|| "inherit".to_owned());
            let partition = match &*it.running {
                [] => "not running".to_owned(),
                running => running.join("; "),
            };
            let name = if it.agent.lead { format!("{} (lead)", it.name) } else { it.name.clone() };
            [name, model, source(&it.agent.source), partition, tools(&it.agent)]
        };
        let cells: Vec<[String; 5]> = std::iter::once(head).chain(self.rows.iter().map(row)).collect();
        let width = |n: usize| cells.iter().map(|it| it[n].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3].map(width);
        let [a, b, c, d] = widths;
        let line = |[name, model, source, partition, tools]: &[String; 5]| {
            format!("{name:a$}  {model:b$}  {source:c$}  {partition:d$}  {tools}\n")
        };
        let mut text: String = cells.iter().map(line).collect();
        let told = self.problems.iter().map(|it| format!("not read: {it}"));
        let told = told.chain(self.shadowed.iter().map(ToString::to_string));
        let told: Vec<String> = told.chain(self.warnings.iter().cloned()).collect();
        if !told.is_empty() {
            text.push('\n');
        }
        told.iter().fold(text, |text, it| text + it + "\n")
    }
}

fn source(source: &AgentSource) -> String {
    match source {
        AgentSource::Builtin => "built in".to_owned(),
        AgentSource::User => "your configuration".to_owned(),
        AgentSource::UserFile(file) | AgentSource::Workspace(file) => file.display().to_string(),
    }
}
