//! The output of `lspool agents`.

use serde_json::{Value, json};

use crate::{
    agents::{allowed, tools},
    cli::{
        columns::wrap,
        screen::{Screen, Tone},
        table::{Cell, table},
    },
    config::{AgentConfig, AgentSource, Shadowed, WorkerConfig},
};

/// One agent.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Its name.
    pub(super) name: String,
    /// Its definition.
    pub(super) agent: AgentConfig,
    /// The tools of its partition, as `lspool status` shows them.
    pub(super) partition: String,
    /// The state of that partition in each lspool of this folder that has it: `ready, pid 4711`.
    pub(super) running: Vec<String>,
}

/// The whole output.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    /// The agents, by name.
    pub(super) rows: Vec<Row>,
    /// The workers, in the order of the planner's list.
    pub(super) workers: Vec<WorkerConfig>,
    /// Agents that lspool ignores, because their name is taken.
    pub(super) shadowed: Vec<Shadowed>,
    /// Errors in files. Such a file defines nothing.
    pub(super) problems: Vec<String>,
    /// Parts of valid files that lspool left out.
    pub(super) warnings: Vec<String>,
}

impl Listing {
    /// The output as JSON.
    pub(super) fn json(&self) -> Value {
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
        let worker = |it: &WorkerConfig| {
            json!({
                "role": it.role,
                "description": it.description,
                "source": source(&it.source),
                "tools": tools_of(it),
                "model": it.model,
                "agent_mode": it.agent_mode,
                "enabled": it.enabled,
                "system_prompt": it.system_prompt,
            })
        };
        let shadowed = |it: &Shadowed| {
            let kind = it.kind.name();
            json!({"kind": kind, "name": it.name, "file": it.file, "line": it.line, "by": source(&it.by)})
        };
        json!({
            "agents": self.rows.iter().map(agent).collect::<Vec<_>>(),
            "workers": self.workers.iter().map(worker).collect::<Vec<_>>(),
            "shadowed": self.shadowed.iter().map(shadowed).collect::<Vec<_>>(),
            "problems": self.problems,
            "warnings": self.warnings,
        })
    }

    /// The output as text.
    pub(super) fn text(&self, screen: Screen) -> String {
        let head = ["AGENT", "MODEL", "SOURCE", "PARTITION", "TOOLS"];
        let row = |it: &Row| {
            let model = it.agent.model.clone().unwrap_or_else(|| "inherit".to_owned());
            let partition = match &*it.running {
                [] => Cell::new("not running", Tone::Faint),
                running => Cell::plain(running.join("; ")),
            };
            let name = if it.agent.lead { format!("{} (lead)", it.name) } else { it.name.clone() };
            let [model, source, tools] = [model, source(&it.agent.source), tools(&it.agent)].map(Cell::plain);
            [Cell::plain(name), model, source, partition, tools]
        };
        let mut text = table(head, self.rows.iter().map(row), &[4, 2, 3], screen);
        if !self.workers.is_empty() {
            let head = ["WORKER", "MODEL", "SOURCE", "TOOLS"];
            let row = |it: &WorkerConfig| {
                let model = it.model.clone().unwrap_or_else(|| "inherit".to_owned());
                let role = if it.enabled { it.role.clone() } else { format!("{} (off)", it.role) };
                [role, model, source(&it.source), allowed(tools_of(it))].map(Cell::plain)
            };
            text.push('\n');
            text += &table(head, self.workers.iter().map(row), &[3, 2], screen);
        }
        let problems = self.problems.iter().map(|it| (format!("ignored: {it}"), Tone::Bad));
        let shadowed = self.shadowed.iter().map(|it| (it.to_string(), Tone::Passing));
        let warnings = self.warnings.iter().map(|it| (it.clone(), Tone::Passing));
        let told: Vec<_> = problems.chain(shadowed).chain(warnings).collect();
        if !told.is_empty() {
            text.push('\n');
        }
        let columns = screen.columns().unwrap_or(usize::MAX);
        for (it, tone) in told {
            for line in wrap(&it, columns, "  ") {
                text += &screen.paint(&line, tone);
                text.push('\n');
            }
        }
        text
    }
}

/// A worker without agent mode has no tools, whatever its definition says.
fn tools_of(worker: &WorkerConfig) -> Option<&[String]> {
    if worker.agent_mode { worker.tools.as_deref() } else { Some(&[]) }
}

fn source(source: &AgentSource) -> String {
    match source {
        AgentSource::Builtin => "builtin".to_owned(),
        AgentSource::User => "your configuration".to_owned(),
        AgentSource::UserFile(file) | AgentSource::Workspace(file) => file.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::config::Config;

    #[test]
    fn listing_shows_workers_with_their_tools() {
        let mut workers = Config::default().workers;
        workers[0].model = Some("m".to_owned());
        workers[1].enabled = false;
        let mut writer = WorkerConfig::of("writer", AgentSource::Workspace("/w/.lspool.toml".into()));
        writer.agent_mode = false;
        workers.push(writer);
        let agent = AgentConfig { max_turns: Some(3), ..AgentConfig::of(AgentSource::User) };
        let running = vec!["ready, pid 1".to_owned()];
        let row = Row { name: "a".to_owned(), agent, partition: "*".to_owned(), running };
        let listing = Listing { rows: vec![row], workers, ..Listing::default() };
        expect![[r#"
            AGENT  MODEL    SOURCE              PARTITION     TOOLS
            a      inherit  your configuration  ready, pid 1  all

            WORKER          MODEL    SOURCE           TOOLS
            coder           m        builtin          all
            reviewer (off)  inherit  builtin          ide, lsp_read, read_file, list_dir, grep_search, file_search
            tester          inherit  builtin          all
            writer          inherit  /w/.lspool.toml  none
        "#]]
        .assert_eq(&listing.text(Screen::default()));
        let json = listing.json();
        assert_eq!(json["workers"][1]["enabled"], false);
        assert_eq!((&json["workers"][3]["tools"], &json["workers"][0]["tools"]), (&json!([]), &Value::Null));
    }
}
