//! The rows of orchestrations: plans, and tasks with their workers. The tool calls of the workers are rows already.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::timeline::{Group, Outcome, Row, Timeline};
use crate::recording::source::Entry;

/// The notification with the events of an orchestration.
pub(super) const EVENT: &str = "lspool/orchestratorEvent";
/// The request for an orchestration, and the command for it.
pub(super) const ORCHESTRATE: &str = "lspool/orchestrate";

/// The orchestrations so far.
#[derive(Debug, Default)]
pub(super) struct Goals {
    known: BTreeSet<String>,
    /// The texts of tasks, as the plan has them.
    texts: HashMap<(String, u64), String>,
    /// The rows of plans and tasks that are not over. A plan has no number.
    open: HashMap<(String, Option<u64>), usize>,
}

impl Goals {
    /// Whether it is the id of an orchestration.
    pub(super) fn has(&self, id: &str) -> bool {
        self.known.contains(id)
    }
}

/// The subject of a task's row.
fn task(number: u64, worker: &Value, text: Option<&String>) -> String {
    let worker = worker.as_str().map_or_else(String::new, |it| format!(" {it}"));
    let text = text.and_then(|it| it.lines().next()).map_or_else(String::new, |it| format!(": {it}"));
    format!("task {number}{worker}{text}")
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Timeline {
    /// Adds an event of an orchestration.
    pub(super) fn orchestrated(&mut self, entry: &Entry, event: &Value) {
        let Some(id) = event["orchestration"].as_str().map(ToOwned::to_owned) else { return };
        if self.goals.known.insert(id.clone()) {
            // The first event comes with the request.
            let is_asked = |it: &&mut Row| {
                it.group == Group::Session && it.asks_for_goal() && it.outcome == Outcome::Open
            };
            if let Some(row) = self.rows.iter_mut().rfind(is_asked) {
                row.group = Group::Conversation(id.clone());
            }
        }
        let number = event["task"].as_u64();
        match (event["event"].as_str().unwrap_or_default(), number) {
            ("planStarted", _) => {
                let detail = if event["attempt"] == 2 { "plan, corrected" } else { "plan" };
                self.begin_of_goal(entry, id, None, detail.to_owned());
            }
            ("planCompleted", _) => {
                let tasks = event["tasks"].as_array().map_or(&[][..], Vec::as_slice);
                for it in tasks {
                    if let (Some(task), Some(text)) = (it["task"].as_u64(), it["text"].as_str()) {
                        self.goals.texts.insert((id.clone(), task), text.to_owned());
                    }
                }
                let outcome = match event["fallback"].as_str() {
                    Some(why) => Outcome::Bad(why.to_owned()),
                    None => Outcome::Fine(format!("{} tasks", tasks.len())),
                };
                self.end_of_goal(entry, id, None, "plan", outcome);
            }
            ("taskAssigned", Some(task_no)) => {
                let detail = task(task_no, &event["worker"], self.goals.texts.get(&(id.clone(), task_no)));
                self.begin_of_goal(entry, id, number, detail);
            }
            ("taskRetried", Some(task_no)) => {
                let detail = task(task_no, &event["worker"], self.goals.texts.get(&(id.clone(), task_no)));
                let outcome = Outcome::Bad(format!("failed, and starts again: {}", word(&event["reason"])));
                self.end_of_goal(entry, id, number, &detail, outcome);
            }
            ("taskCompleted", Some(task_no)) => {
                let detail = task(task_no, &event["worker"], self.goals.texts.get(&(id.clone(), task_no)));
                let state = word(&event["state"]);
                let outcome = match (state.as_str(), event["reason"].as_str()) {
                    ("done", _) => Outcome::Fine(state),
                    (_, Some(reason)) => Outcome::Bad(format!("{state}: {reason}")),
                    (_, None) => Outcome::Bad(state),
                };
                self.end_of_goal(entry, id, number, &detail, outcome);
            }
            ("summarizeCompleted", _) => {
                self.end_of_goal(entry, id, None, "summary", Outcome::Fine(String::new()));
            }
            ("error", _) => {
                let outcome = Outcome::Bad(word(&event["message"]));
                self.end_of_goal(entry, id, None, "error", outcome);
            }
            // The tools are rows, and the answer has the end.
            _ => {}
        }
    }

    fn begin_of_goal(&mut self, entry: &Entry, id: String, task: Option<u64>, detail: String) {
        let row = self.row_of_goal(entry, id.clone(), detail, Outcome::Open);
        self.goals.open.insert((id, task), row);
    }

    /// Ends a row, or adds one for something that had not begun, such as a skipped task.
    fn end_of_goal(&mut self, entry: &Entry, id: String, task: Option<u64>, detail: &str, outcome: Outcome) {
        let open = self.goals.open.remove(&(id.clone(), task));
        match open.and_then(|it| self.rows.get_mut(it)) {
            Some(row) => {
                row.took = Some(entry.at.saturating_sub(row.at));
                row.outcome = outcome;
            }
            None => drop(self.row_of_goal(entry, id, detail.to_owned(), outcome)),
        }
    }

    fn row_of_goal(&mut self, entry: &Entry, id: String, detail: String, outcome: Outcome) -> usize {
        self.rows.push(Row {
            at: entry.at,
            took: None,
            waited: None,
            process: entry.process.clone(),
            group: Group::Conversation(id),
            is_of_server: true,
            method: EVENT.to_owned(),
            detail,
            outcome,
        });
        self.rows.len() - 1
    }
}

impl Row {
    /// Whether it is a request for an orchestration.
    fn asks_for_goal(&self) -> bool {
        let is_command = self.method == "workspace/executeCommand" && self.detail.ends_with(".orchestrate");
        self.method == ORCHESTRATE || is_command
    }
}
