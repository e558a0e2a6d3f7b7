//! Those who work on a plan: `[worker.ROLE]`, the presets, and what an orchestration may cost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::AgentSource;

/// `[worker.ROLE]`: who can be given a task of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    /// What a plan calls it.
    pub role: String,
    /// What it is good for: whoever makes the plan is told this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it is told before its first task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The model: an id, or a tier of `[models]`; absent: that of the orchestration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tools it may use; `None` is every tool, an empty list none.
    pub tools: Option<Vec<String>>,
    /// Whether it works with tools. One that does not answers from what it is told.
    pub agent_mode: bool,
    /// Whether a plan may use it.
    pub enabled: bool,
    /// Who defined it.
    pub source: AgentSource,
}

impl WorkerConfig {
    /// A worker with every tool, of which nothing is said.
    pub fn of(role: &str, source: AgentSource) -> WorkerConfig {
        WorkerConfig {
            role: role.to_owned(),
            description: None,
            system_prompt: None,
            model: None,
            tools: None,
            agent_mode: true,
            enabled: true,
            source,
        }
    }

    /// The workers there are without any file. The first is given everything that no plan can be made for.
    pub(super) fn presets() -> Vec<WorkerConfig> {
        const READING: &[&str] = &["ide", "read_file", "list_dir", "grep_search", "file_search"];
        let preset = |role, tools: Option<&[&str]>, description: &str, prompt: &str| WorkerConfig {
            description: Some(description.to_owned()),
            system_prompt: Some(prompt.to_owned()),
            tools: tools.map(|tools| tools.iter().map(ToString::to_string).collect()),
            ..WorkerConfig::of(role, AgentSource::Builtin)
        };
        vec![
            preset(
                "coder",
                None,
                "Writes and changes code and other files.",
                "You are a careful programmer. Do what the task says and nothing beyond it. Read what is there before you \
                 change it, and keep to its style. Say in the end what you have changed, file by file.",
            ),
            preset(
                "reviewer",
                Some(READING),
                "Reads code and says what is wrong with it. Changes nothing.",
                "You are a careful reviewer. Read what the task names, and what you need to understand it. Report what is \
                 wrong, the worst first, each with its file and line and what would be right. Report nothing that you \
                 have not seen yourself. If all is well, say so in one sentence.",
            ),
            preset(
                "tester",
                None,
                "Writes tests and runs them, and says what fails.",
                "You are a careful tester. Find out how tests are written and run here. Write those that the task asks \
                 for, run them, and report what was run and what failed, with the messages. Do not mend the code under \
                 test.",
            ),
        ]
    }
}

/// `[orchestration]`: what one goal may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OrchestrationConfig {
    /// So many tasks at once.
    pub max_parallel: usize,
    /// So many tasks in a plan.
    pub max_tasks: usize,
    /// How long one task, the plan and the summary may take, each.
    pub time_limit: Duration,
    /// How often a task that has failed starts again.
    pub retries: usize,
}

impl Default for OrchestrationConfig {
    fn default() -> OrchestrationConfig {
        OrchestrationConfig {
            max_parallel: 4,
            max_tasks: 20,
            time_limit: Duration::from_mins(15),
            retries: 0,
        }
    }
}
