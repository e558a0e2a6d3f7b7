//! Workers, `[worker.ROLE]`, with their presets, and the limits of an orchestration.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::AgentSource;

/// `[worker.ROLE]`: a worker that can do a task of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    /// Its name in a plan.
    pub role: String,
    /// What the worker is good for. The planner reads this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The instructions before its first task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The model: an id, a name, or a tier of `[models]`. Without it, that of the orchestration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tools that it may use; `None` is every tool, an empty list none.
    pub tools: Option<Vec<String>>,
    /// Whether it uses tools. Without tools it answers from its prompt.
    pub agent_mode: bool,
    /// Whether a plan may use it.
    pub enabled: bool,
    /// Where it is defined.
    pub source: AgentSource,
}

impl WorkerConfig {
    /// A worker with every tool and no instructions.
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

    /// The builtin workers. Without a valid plan, the first one gets the whole goal.
    pub(super) fn presets() -> Vec<WorkerConfig> {
        const READING: &[&str] = &["ide", "lsp_read", "read_file", "list_dir", "grep_search", "file_search"];
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
                "You are a careful programmer. Do exactly what the task says. Read code before you change it, and keep to its \
                 style. At the end, list your changes, file by file.",
            ),
            preset(
                "reviewer",
                Some(READING),
                "Reviews code and reports defects. Changes nothing.",
                "You are a careful reviewer. Read the code that the task names, and all code that you need to understand it. \
                 Report each defect with its file, its line, and a fix, the worst defect first. Report only defects \
                 that you have seen yourself. If you find none, say so in one sentence.",
            ),
            preset(
                "tester",
                None,
                "Writes and runs tests, and reports failures.",
                "You are a careful tester. Find out how this project writes and runs tests. Write the tests that the task asks \
                 for, run them, and report which tests ran and which failed, with the messages. Do not change the code \
                 under test.",
            ),
        ]
    }
}

/// `[orchestration]`: the limits of the work on one goal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OrchestrationConfig {
    /// How many tasks run at once.
    pub max_parallel: usize,
    /// How many tasks a plan may have.
    pub max_tasks: usize,
    /// How long one task, the plan, or the summary may take.
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
