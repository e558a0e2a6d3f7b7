//! The events of an orchestration, in the form of notifications and progress.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// An event with the id of its orchestration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The id of the orchestration.
    pub orchestration: String,
    /// The time, in milliseconds since the start.
    pub at_ms: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// A model makes a plan, or corrects it.
    PlanStarted {
        /// The goal.
        goal: String,
        /// The roles that the plan may use.
        workers: Vec<String>,
        /// 1, or 2 if correcting the plan.
        attempt: u32,
        /// The errors in the first plan.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        problems: Vec<String>,
    },
    /// The plan is complete.
    PlanCompleted {
        /// The tasks in the order of their numbers from 0.
        tasks: Vec<Planned>,
        /// Why the plan is one task for the first worker instead of the model's plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fallback: Option<String>,
    },
    /// A worker starts a task.
    TaskAssigned {
        /// The number of the task.
        task: usize,
        /// The role of the worker.
        role: String,
        /// The worker, such as `coder-1`. Each is a conversation.
        worker: String,
        /// The number of the task for this worker, from 1.
        turn: u32,
    },
    /// A worker starts or ends a call of a tool.
    TaskProgress {
        /// The number of the task.
        task: usize,
        /// The role of the worker.
        role: String,
        /// The worker.
        worker: String,
        /// The tool in use.
        tool: Option<String>,
        /// The time since the task started, in milliseconds.
        duration_ms: u64,
    },
    /// A task has failed, and starts again.
    TaskRetried {
        /// Its number.
        task: usize,
        /// Its role.
        role: String,
        /// Who was at it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<String>,
        /// Why it has failed.
        reason: String,
        /// How often it has failed.
        attempt: usize,
    },
    /// A task has come to its end, or never will.
    TaskCompleted {
        /// The number of the task.
        task: usize,
        /// The role of the task.
        role: String,
        /// The worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<String>,
        /// The end.
        state: End,
        /// The text of the worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        /// Why the task failed or was skipped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The duration in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// The summary is complete.
    SummarizeCompleted {
        /// The summary for the user.
        summary: String,
    },
    /// An error that concerns more than one task.
    Error {
        /// The error.
        message: String,
    },
    /// The last event.
    Finished {
        /// The end: `done` if every task is done and there is a summary.
        state: End,
        /// The number of done tasks.
        done: usize,
        /// The number of failed tasks.
        failed: usize,
        /// The number of skipped tasks.
        skipped: usize,
        /// The number of cancelled tasks.
        cancelled: usize,
    },
}

/// A task of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    /// The number of the task.
    pub task: usize,
    /// The role of its worker.
    pub role: String,
    /// The task.
    pub text: String,
    /// The numbers of its dependencies.
    pub depends_on: BTreeSet<usize>,
}

/// The end of a task or of the orchestration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
    /// It did not start, because a dependency failed or was skipped.
    Skipped,
    /// It was cancelled.
    Cancelled,
}

impl End {
    /// The word in messages.
    pub fn word(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Failed => "failed",
            End::Skipped => "skipped",
            End::Cancelled => "cancelled",
        }
    }
}
