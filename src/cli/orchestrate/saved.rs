//! The goal of a terminal as it is stored, for `lspool orchestrate --resume`: what was asked for, and what has come of
//! each task. It is written after each step, and removed when all is done.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agents::orchestration::{End, Event, Planned};

/// Why a task is not done that nobody has reported an end of.
const CUT_OFF: &str = "lspool ended before the task was done";

/// What is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Saved {
    pub(super) goal: String,
    /// Workers that the configuration does not have.
    pub(super) workers: Option<Value>,
    /// The only worker.
    pub(super) worker: Option<String>,
    pub(super) model: Option<String>,
    pub(super) retries: Option<u32>,
    /// `None` as long as there is no plan.
    pub(super) tasks: Option<Vec<SavedTask>>,
}

/// A task, as a request takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedTask {
    #[serde(flatten)]
    planned: Planned,
    state: Option<End>,
    result: Option<String>,
    reason: Option<String>,
}

/// What becomes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    Write,
    /// Nothing is left to do.
    Remove,
}

impl Saved {
    /// Takes in what has happened.
    pub(super) fn apply(&mut self, event: &Event) -> Change {
        match event {
            Event::PlanStarted { .. } => Change::Write,
            Event::PlanCompleted { tasks, .. } => {
                let task =
                    |it: &Planned| SavedTask { planned: it.clone(), state: None, result: None, reason: None };
                self.tasks = Some(tasks.iter().map(task).collect());
                Change::Write
            }
            Event::TaskAssigned { task, .. } => self.note(*task, None, None, Some(CUT_OFF.to_owned())),
            Event::TaskRetried { task, reason, .. } => self.note(*task, None, None, Some(reason.clone())),
            Event::TaskCompleted { task, state: End::Cancelled, worker, .. } => {
                let reason = worker.as_ref().map(|_| "it was cancelled".to_owned());
                self.note(*task, None, None, reason)
            }
            Event::TaskCompleted { task, state, result, reason, .. } => {
                self.note(*task, Some(*state), result.clone(), reason.clone())
            }
            Event::Finished { state: End::Done, .. } => Change::Remove,
            Event::TaskProgress { .. }
            | Event::SummarizeCompleted { .. }
            | Event::Error { .. }
            | Event::Finished { .. } => Change::Nothing,
        }
    }

    fn note(
        &mut self,
        task: usize,
        state: Option<End>,
        result: Option<String>,
        reason: Option<String>,
    ) -> Change {
        let Some(it) = self.tasks.as_mut().and_then(|it| it.get_mut(task)) else { return Change::Nothing };
        (it.state, it.result, it.reason) = (state, result, reason);
        Change::Write
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn saved_goal_keeps_results_and_says_what_was_begun() {
        let planned = |task: usize| Planned {
            task,
            role: "coder".to_owned(),
            text: format!("t{task}"),
            depends_on: [].into(),
        };
        let mut saved = Saved { goal: "g".to_owned(), ..Saved::default() };
        let plan = Event::PlanCompleted { tasks: (0..3).map(planned).collect(), fallback: None };
        assert_eq!(saved.apply(&plan), Change::Write);
        for task in 0..2 {
            let (role, worker) = ("coder".to_owned(), "coder-1".to_owned());
            assert_eq!(saved.apply(&Event::TaskAssigned { task, role, worker, turn: 1 }), Change::Write);
        }
        let done = Event::TaskCompleted {
            task: 0,
            role: "coder".to_owned(),
            worker: None,
            state: End::Done,
            result: Some("r".to_owned()),
            reason: None,
            duration_ms: None,
        };
        assert_eq!(saved.apply(&done), Change::Write);
        let stored = json!(saved);
        assert_eq!(
            (&stored["tasks"][0]["state"], &stored["tasks"][0]["result"]),
            (&json!("done"), &json!("r"))
        );
        assert_eq!(stored["tasks"][1]["reason"], CUT_OFF);
        assert_eq!(stored["tasks"][2]["reason"], Value::Null);
        assert_eq!(serde_json::from_value::<Saved>(stored).unwrap(), saved);
        let end = |state| Event::Finished { state, done: 1, failed: 0, skipped: 0, cancelled: 2 };
        assert_eq!(saved.apply(&end(End::Failed)), Change::Nothing, "it can be resumed");
        assert_eq!(saved.apply(&end(End::Done)), Change::Remove);
    }
}
