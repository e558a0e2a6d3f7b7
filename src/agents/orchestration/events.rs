//! What is told of an orchestration, as it stands in notifications and in progress.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// One event, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Id of the orchestration.
    pub orchestration: String,
    /// When, in milliseconds since it began.
    pub at_ms: u64,
    /// What has happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// A plan is asked for; once more if the first could not be used.
    PlanStarted {
        /// What is to be done.
        goal: String,
        /// The roles that the plan may use.
        workers: Vec<String>,
        /// 1, or 2 if the plan is to be mended.
        attempt: u32,
        /// What was wrong with the first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        problems: Vec<String>,
    },
    /// There is a plan.
    PlanCompleted {
        /// In the order of their numbers, which begin with 0.
        tasks: Vec<Planned>,
        /// Why it is not the model's, but one task for the first worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fallback: Option<String>,
    },
    /// A task has been given to a worker.
    TaskAssigned {
        /// Its number.
        task: usize,
        /// Its role.
        role: String,
        /// Which worker of that role, such as `coder-1`: each is a conversation.
        worker: String,
        /// Which task of this worker's it is, from 1.
        turn: u32,
    },
    /// A worker has begun to use a tool, or has ended it.
    TaskProgress {
        /// The number of its task.
        task: usize,
        /// Its role.
        role: String,
        /// Its name.
        worker: String,
        /// The tool that it is using.
        tool: Option<String>,
        /// How long it has been at the task.
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
        /// Its number.
        task: usize,
        /// Its role.
        role: String,
        /// Who was at it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<String>,
        /// How it has ended.
        state: End,
        /// What the worker has said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        /// Why it has failed or was skipped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How long it took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// There is a summary.
    SummarizeCompleted {
        /// What was done, for whoever had the goal.
        summary: String,
    },
    /// Something has gone wrong that concerns more than one task.
    Error {
        /// What.
        message: String,
    },
    /// Nothing follows.
    Finished {
        /// How it has ended: `done` if every task is done and there is a summary.
        state: End,
        /// So many tasks are done.
        done: usize,
        /// So many have failed.
        failed: usize,
        /// So many were skipped.
        skipped: usize,
        /// So many were called off.
        cancelled: usize,
    },
}

/// A task of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    /// Its number.
    pub task: usize,
    /// Who does it.
    pub role: String,
    /// What is to be done.
    pub text: String,
    /// The numbers of the tasks whose results it needs.
    pub depends_on: BTreeSet<usize>,
}

/// How a task, or the whole, has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// Well.
    Done,
    /// Not so.
    Failed,
    /// It was not begun, for what it needs has failed or was skipped.
    Skipped,
    /// Somebody called it off.
    Cancelled,
}

impl End {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Failed => "failed",
            End::Skipped => "skipped",
            End::Cancelled => "cancelled",
        }
    }
}
