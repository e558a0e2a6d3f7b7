//! Work on a goal: a model makes a plan, workers do its tasks, and a model writes a summary.
//!
//! A pure state machine. It takes the answers of conversations, and returns the next steps ([`Do`]). It knows no
//! server and no clock.
//!
//! ```text
//! Planning ─plan→ Working ─all tasks have ended→ Summarizing ─→ Over
//!   │ ⟲ once, to correct the plan; then one task for the first worker
//!   └──────────── the planner fails; cancelled at any moment ────→ Over
//! ```
//!
//! With tasks that are there already it begins with Working. One task for one worker has no summary but its result.
//!
//! - **A task starts when its own dependencies are done**; there are no waves ([`schedule`]).
//! - A worker is a conversation. A later task of a role uses a free conversation, preferably one that did a
//!   dependency. If all are busy, another one is opened, so no task waits for a conversation.
//! - A conversation with a failed task is closed and not used again. So is one without further tasks.
//! - **The last event is `finished`**, and no request follows it.

mod events;
pub mod plan;
pub mod schedule;
#[cfg(test)]
mod tests;
mod words;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::Serialize;

pub use self::events::{End, Event, Notice, Planned};
use self::{
    plan::{Plan, Step},
    schedule::{Schedule, State},
};
use crate::config::WorkerConfig;

/// The goal with its workers and limits.
#[derive(Clone, Debug)]
pub struct Order {
    /// The goal.
    pub goal: String,
    /// The workers, at least one.
    pub workers: Vec<WorkerConfig>,
    /// How many tasks run at once.
    pub max_parallel: usize,
    /// How many tasks a plan may have.
    pub max_tasks: usize,
    /// How often a task that has failed starts again.
    pub retries: usize,
    /// Where its tasks come from.
    pub tasks: Tasks,
}

/// Where the tasks of an order come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// A model makes a plan.
    Planned,
    /// The goal is the only task, of this worker.
    One(Plan),
    /// They are there, each with what has come of it before.
    Given(Plan, Vec<Before>),
}

/// What has come of a task before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// It is done.
    Done(String),
    /// It was begun, and this is why it is not done.
    Begun(String),
}

/// The role of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who<'a> {
    /// Makes the plan, without tools.
    Planner,
    /// Does tasks.
    Worker(&'a WorkerConfig),
    /// Writes the summary, without tools.
    Summarizer,
}

/// The next step. Conversations are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Do {
    /// Send this to a conversation, which starts with it if it is new. [`Orchestration::heard`] takes the answer.
    Ask {
        /// The conversation.
        conversation: usize,
        /// The message.
        text: String,
    },
    /// Stop and destroy a conversation. No event of it follows.
    Close {
        /// The conversation.
        conversation: usize,
    },
    /// Report an event.
    Tell(Notice),
}

/// An event of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEvent {
    /// It uses this tool, or none.
    Tool(Option<String>),
    /// The turn has ended, with a text or the reason why there is none.
    Answer(Result<String, String>),
}

/// The result for the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Its id.
    pub orchestration: String,
    /// The end.
    pub state: End,
    /// The summary.
    pub summary: Option<String>,
    /// The error, if it concerns more than one task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the plan is not the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The tasks in the order of the plan.
    pub tasks: Vec<TaskOutcome>,
    /// The duration in milliseconds.
    pub duration_ms: u64,
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskOutcome {
    /// The task.
    #[serde(flatten)]
    pub planned: Planned,
    /// Its worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Its end.
    pub state: End,
    /// The text of the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The reason for an end without a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its duration in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The work on one goal.
#[derive(Clone, Debug)]
pub struct Orchestration {
    id: String,
    order: Order,
    phase: Phase,
    conversations: Vec<Conversation>,
    schedule: Schedule,
    tasks: Vec<Task>,
    fallback: Option<String>,
    summary: Option<String>,
    error: Option<String>,
    began: Instant,
    ended: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Planning,
    /// The plan was invalid, and the planner corrects it.
    Mending,
    Working,
    Summarizing,
    Over(End),
}

#[derive(Clone, Debug)]
struct Conversation {
    who: Role,
    name: String,
    turn: Turn,
    /// The number of its tasks so far.
    tasks: u32,
    tool: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Planner,
    /// The worker, by its position.
    Worker(usize),
    Summarizer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No turn is running.
    Free,
    Asked {
        /// The task of a worker.
        task: Option<usize>,
        since: Instant,
    },
    Closed,
}

/// The history of a task.
#[derive(Clone, Debug, Default)]
struct Task {
    conversation: Option<usize>,
    began: Option<Instant>,
    took: Option<Duration>,
    n_failures: usize,
    /// Why it is not done although it was begun before.
    before: Option<String>,
}

impl Orchestration {
    /// Starts the work.
    pub fn start(id: String, order: Order, now: Instant) -> (Orchestration, Vec<Do>) {
        let mut it = Orchestration {
            id,
            order,
            phase: Phase::Planning,
            conversations: Vec::new(),
            schedule: Schedule::new(Plan::default(), 1),
            tasks: Vec::new(),
            fallback: None,
            summary: None,
            error: None,
            began: now,
            ended: None,
        };
        let mut out = Vec::new();
        it.tell_plan_started(now, &[], &mut out);
        match it.order.tasks.clone() {
            Tasks::Planned => {}
            Tasks::One(plan) => {
                it.work(now, plan, &[], &mut out);
                return (it, out);
            }
            Tasks::Given(plan, before) => {
                it.work(now, plan, &before, &mut out);
                return (it, out);
            }
        }
        let text = words::plan(&it.order.goal, &it.order.workers, it.order.max_tasks);
        let planner = it.open(Role::Planner, "planner".to_owned());
        it.ask(now, planner, None, text, &mut out);
        (it, out)
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The role and the name of a conversation: `planner`, `coder-1`, `summarizer`.
    pub fn who(&self, conversation: usize) -> Option<(Who<'_>, &str)> {
        let it = self.conversations.get(conversation)?;
        let who = match it.who {
            Role::Planner => Who::Planner,
            Role::Worker(worker) => Who::Worker(self.order.workers.get(worker)?),
            Role::Summarizer => Who::Summarizer,
        };
        Some((who, &it.name))
    }

    /// The current task of a conversation.
    pub fn task_of(&self, conversation: usize) -> Option<usize> {
        match self.conversations.get(conversation)?.turn {
            Turn::Asked { task, .. } => task,
            Turn::Free | Turn::Closed => None,
        }
    }

    /// The number of ended tasks, and of all tasks.
    pub fn progress(&self) -> (usize, usize) {
        let states = self.schedule.states();
        (states.iter().filter(|it| it.is_over()).count(), states.len())
    }

    /// The end, if it has ended.
    pub fn end(&self) -> Option<End> {
        match self.phase {
            Phase::Over(end) => Some(end),
            Phase::Planning | Phase::Mending | Phase::Working | Phase::Summarizing => None,
        }
    }

    /// The result.
    pub fn outcome(&self, now: Instant) -> Outcome {
        let task = |(at, planned): (usize, Planned)| {
            let (state, result, reason) = ended(&self.schedule.states()[at]);
            let task = &self.tasks[at];
            TaskOutcome {
                planned,
                worker: task.conversation.map(|it| self.conversations[it].name.clone()),
                state,
                result,
                reason,
                duration_ms: task.took.map(millis),
            }
        };
        Outcome {
            orchestration: self.id.clone(),
            state: self.end().unwrap_or(End::Cancelled),
            summary: self.summary.clone(),
            error: self.error.clone(),
            fallback: self.fallback.clone(),
            tasks: planned(self.schedule.steps()).into_iter().enumerate().map(task).collect(),
            duration_ms: millis(self.ended.unwrap_or(now).saturating_duration_since(self.began)),
        }
    }

    /// Handles an event of a conversation.
    pub fn heard(&mut self, now: Instant, conversation: usize, heard: WorkerEvent) -> Vec<Do> {
        let mut out = Vec::new();
        match heard {
            WorkerEvent::Tool(tool) => self.on_tool(now, conversation, tool, &mut out),
            WorkerEvent::Answer(answer) => self.answered(now, conversation, answer, &mut out),
        }
        out
    }

    /// Stops everything.
    pub fn cancel(&mut self, now: Instant) -> Vec<Do> {
        let mut out = Vec::new();
        if self.end().is_some() {
            return out;
        }
        for task in self.schedule.cancel() {
            self.tell_completed(now, task, &mut out);
        }
        self.finish(now, End::Cancelled, &mut out);
        out
    }

    fn on_tool(&mut self, now: Instant, conversation: usize, tool: Option<String>, out: &mut Vec<Do>) {
        let Some(it) = self.conversations.get_mut(conversation) else { return };
        let Turn::Asked { task: Some(task), since } = it.turn else { return };
        if it.tool == tool {
            return;
        }
        it.tool.clone_from(&tool);
        let (worker, role) = (it.name.clone(), self.schedule.steps()[task].role.clone());
        let duration_ms = millis(now.saturating_duration_since(since));
        self.tell(now, Event::TaskProgress { task, role, worker, tool, duration_ms }, out);
    }

    fn answered(
        &mut self,
        now: Instant,
        conversation: usize,
        answer: Result<String, String>,
        out: &mut Vec<Do>,
    ) {
        let Some(it) = self.conversations.get_mut(conversation) else { return };
        let Turn::Asked { task, .. } = it.turn else { return };
        it.tool = None;
        it.turn = Turn::Free;
        if answer.is_err() {
            self.close(conversation, out);
        }
        match (self.conversations[conversation].who, task) {
            (Role::Planner, _) => self.on_plan(now, conversation, answer, out),
            (Role::Worker(_), Some(task)) => self.on_task_ended(now, task, answer, out),
            (Role::Worker(_), None) => {}
            (Role::Summarizer, _) => self.on_summary(now, answer, out),
        }
    }

    fn on_plan(&mut self, now: Instant, planner: usize, answer: Result<String, String>, out: &mut Vec<Do>) {
        let text = match answer {
            Ok(text) => text,
            Err(why) => {
                self.fail(now, format!("planning failed: {why}"), out);
                return self.finish(now, End::Failed, out);
            }
        };
        let roles: Vec<&str> = self.order.workers.iter().map(|it| it.role.as_str()).collect();
        match (plan::read(&text, &roles, self.order.max_tasks), self.phase) {
            (Ok(plan), _) => {
                self.close(planner, out);
                self.work(now, plan, &[], out);
            }
            (Err(problems), Phase::Planning) => {
                self.phase = Phase::Mending;
                self.tell_plan_started(now, &problems, out);
                self.ask(now, planner, None, words::mend(&problems), out);
            }
            (Err(problems), _) => {
                self.fallback = Some(problems.join("; "));
                let role = self.order.workers.first().map(|it| it.role.clone()).unwrap_or_default();
                let step = Step { role, task: self.order.goal.clone(), needs: [].into() };
                self.close(planner, out);
                self.work(now, Plan { steps: vec![step] }, &[], out);
            }
        }
    }

    fn work(&mut self, now: Instant, plan: Plan, before: &[Before], out: &mut Vec<Do>) {
        self.phase = Phase::Working;
        self.tasks = vec![Task::default(); plan.steps.len()];
        self.schedule = Schedule::new(plan, self.order.max_parallel);
        let tasks = planned(self.schedule.steps());
        self.tell(now, Event::PlanCompleted { tasks, fallback: self.fallback.clone() }, out);
        for (at, before) in before.iter().enumerate().take(self.tasks.len()) {
            match before {
                Before::Nothing => {}
                Before::Done(result) => {
                    self.schedule.was_done(at, result.clone());
                    self.tell_completed(now, at, out);
                }
                Before::Begun(why) => self.tasks[at].before = Some(why.clone()),
            }
        }
        self.go_on(now, out);
    }

    fn on_task_ended(&mut self, now: Instant, at: usize, answer: Result<String, String>, out: &mut Vec<Do>) {
        let Some(task) = self.tasks.get_mut(at) else { return };
        match answer {
            Err(reason) if task.n_failures < self.order.retries => {
                task.n_failures += 1;
                task.before = Some(reason.clone());
                let (attempt, conversation) = (task.n_failures, task.conversation.take());
                self.schedule.again(at);
                let role = self.schedule.steps()[at].role.clone();
                let worker = conversation.map(|it| self.conversations[it].name.clone());
                self.tell(now, Event::TaskRetried { task: at, role, worker, reason, attempt }, out);
                self.go_on(now, out);
            }
            answer => self.end_task(now, at, answer, out),
        }
    }

    fn end_task(&mut self, now: Instant, at: usize, answer: Result<String, String>, out: &mut Vec<Do>) {
        let skipped = self.schedule.end(at, answer);
        if let Some(task) = self.tasks.get_mut(at) {
            task.took = task.began.map(|it| now.saturating_duration_since(it));
        }
        self.tell_completed(now, at, out);
        for skipped in skipped {
            self.tell_completed(now, skipped, out);
        }
        self.go_on(now, out);
    }

    /// Those who are at a task: the number of its conversation, the task, the tool that is running, and since when.
    pub fn at_work(&self) -> impl Iterator<Item = (usize, usize, Option<&str>, Instant)> {
        self.conversations.iter().enumerate().filter_map(|(at, it)| match it.turn {
            Turn::Asked { task: Some(task), since } => Some((at, task, it.tool.as_deref(), since)),
            Turn::Asked { task: None, .. } | Turn::Free | Turn::Closed => None,
        })
    }

    /// The task of one worker fails, and is not tried again.
    pub fn cancel_worker(&mut self, now: Instant, conversation: usize, why: &str) -> Vec<Do> {
        let mut out = Vec::new();
        if let Some(task) = self.task_of(conversation) {
            self.close(conversation, &mut out);
            self.end_task(now, task, Err(why.to_owned()), &mut out);
        }
        out
    }

    /// Starts what may start, and asks for a summary when nothing is left to do.
    fn go_on(&mut self, now: Instant, out: &mut Vec<Do>) {
        for task in self.schedule.start() {
            self.assign(now, task, out);
        }
        for conversation in 0..self.conversations.len() {
            if self.conversations[conversation].turn == Turn::Free && !self.is_needed(conversation) {
                self.close(conversation, out);
            }
        }
        if !self.schedule.is_over() {
            return;
        }
        if let Tasks::One(_) = self.order.tasks {
            return self.end_with_result(now, out);
        }
        self.phase = Phase::Summarizing;
        let text = words::summary(&self.order.goal, self.schedule.steps(), self.schedule.states());
        let summarizer = self.open(Role::Summarizer, "summarizer".to_owned());
        self.ask(now, summarizer, None, text, out);
    }

    /// Of one task the result is the summary.
    fn end_with_result(&mut self, now: Instant, out: &mut Vec<Do>) {
        let end = match self.schedule.states().first() {
            Some(State::Done(result)) => {
                let summary = result.clone();
                self.summary = Some(summary.clone());
                self.tell(now, Event::SummarizeCompleted { summary }, out);
                End::Done
            }
            Some(_) | None => End::Failed,
        };
        self.finish(now, end, out);
    }

    fn assign(&mut self, now: Instant, at: usize, out: &mut Vec<Do>) {
        let Step { role, task, .. } = self.schedule.steps()[at].clone();
        let Some(worker) = self.order.workers.iter().position(|it| it.role == role) else { return };
        let conversation = self.worker(worker, at);
        let is_first = self.conversations[conversation].tasks == 0;
        let roles = self.schedule.steps();
        let needed: Vec<(usize, &str, &str)> = self
            .schedule
            .needed(at)
            .iter()
            .map(|(it, said)| (*it, roles[*it].role.as_str(), *said))
            .collect();
        let mut text = words::task(&self.order.workers[worker], is_first, &task, &needed);
        if let Some(why) = &self.tasks[at].before {
            text += &words::again(why);
        }
        let it = &mut self.conversations[conversation];
        it.tasks += 1;
        let (worker, turn) = (it.name.clone(), it.tasks);
        let task = &mut self.tasks[at];
        (task.conversation, task.began, task.took) = (Some(conversation), Some(now), None);
        self.tell(now, Event::TaskAssigned { task: at, role, worker, turn }, out);
        self.ask(now, conversation, Some(at), text, out);
    }

    /// A free conversation of this worker: the last one that did a dependency of the task, else the first; a new one
    /// if all are busy.
    fn worker(&mut self, worker: usize, at: usize) -> usize {
        let of_worker = |it: &&usize| self.conversations[**it].who == Role::Worker(worker);
        let all: Vec<usize> = (0..self.conversations.len()).filter(|it| of_worker(&it)).collect();
        let free = all.iter().filter(|it| self.conversations[**it].turn == Turn::Free);
        let needs = self.schedule.steps()[at].needs.iter();
        let with_needed: BTreeMap<usize, usize> =
            needs.filter_map(|need| Some((self.tasks[*need].conversation?, *need))).collect();
        let mut found = None;
        for it in free {
            let knows = with_needed.get(it);
            if found.is_none_or(|(_, best)| knows > best) {
                found = Some((*it, knows));
            }
        }
        match found {
            Some((it, _)) => it,
            None => {
                let name = format!("{}-{}", self.order.workers[worker].role, all.len() + 1);
                self.open(Role::Worker(worker), name)
            }
        }
    }

    /// Whether a free conversation may get another task.
    fn is_needed(&self, conversation: usize) -> bool {
        let Role::Worker(worker) = self.conversations[conversation].who else { return false };
        let role = &self.order.workers[worker].role;
        let mut tasks = self.schedule.steps().iter().zip(self.schedule.states());
        tasks.any(|(step, state)| *state == State::Waiting && step.role == *role)
    }

    fn on_summary(&mut self, now: Instant, answer: Result<String, String>, out: &mut Vec<Do>) {
        let is_done = self.schedule.states().iter().all(|it| matches!(it, State::Done(_)));
        let end = match answer {
            Ok(summary) => {
                self.summary = Some(summary.clone());
                self.tell(now, Event::SummarizeCompleted { summary }, out);
                if is_done { End::Done } else { End::Failed }
            }
            Err(why) => {
                self.fail(now, format!("there is no summary: {why}"), out);
                End::Failed
            }
        };
        self.finish(now, end, out);
    }

    fn finish(&mut self, now: Instant, state: End, out: &mut Vec<Do>) {
        for conversation in 0..self.conversations.len() {
            self.close(conversation, out);
        }
        self.phase = Phase::Over(state);
        self.ended = Some(now);
        let count = |end: End| self.schedule.states().iter().filter(|it| ended(it).0 == end).count();
        let event = Event::Finished {
            state,
            done: count(End::Done),
            failed: count(End::Failed),
            skipped: count(End::Skipped),
            cancelled: count(End::Cancelled),
        };
        self.tell(now, event, out);
    }

    fn fail(&mut self, now: Instant, message: String, out: &mut Vec<Do>) {
        self.error = Some(message.clone());
        self.tell(now, Event::Error { message }, out);
    }

    fn open(&mut self, who: Role, name: String) -> usize {
        self.conversations.push(Conversation { who, name, turn: Turn::Free, tasks: 0, tool: None });
        self.conversations.len() - 1
    }

    fn ask(
        &mut self,
        now: Instant,
        conversation: usize,
        task: Option<usize>,
        text: String,
        out: &mut Vec<Do>,
    ) {
        self.conversations[conversation].turn = Turn::Asked { task, since: now };
        out.push(Do::Ask { conversation, text });
    }

    fn close(&mut self, conversation: usize, out: &mut Vec<Do>) {
        let it = &mut self.conversations[conversation];
        if it.turn != Turn::Closed {
            it.turn = Turn::Closed;
            out.push(Do::Close { conversation });
        }
    }

    fn tell_plan_started(&self, now: Instant, problems: &[String], out: &mut Vec<Do>) {
        let event = Event::PlanStarted {
            goal: self.order.goal.clone(),
            workers: self.order.workers.iter().map(|it| it.role.clone()).collect(),
            attempt: if self.phase == Phase::Planning { 1 } else { 2 },
            problems: problems.to_vec(),
        };
        self.tell(now, event, out);
    }

    fn tell_completed(&mut self, now: Instant, at: usize, out: &mut Vec<Do>) {
        let (state, result, reason) = ended(&self.schedule.states()[at]);
        let task = &mut self.tasks[at];
        if state == End::Cancelled {
            task.took = task.began.map(|it| now.saturating_duration_since(it));
        }
        let event = Event::TaskCompleted {
            task: at,
            role: self.schedule.steps()[at].role.clone(),
            worker: task.conversation.map(|it| self.conversations[it].name.clone()),
            state,
            result,
            reason,
            duration_ms: task.took.map(millis),
        };
        self.tell(now, event, out);
    }

    fn tell(&self, now: Instant, event: Event, out: &mut Vec<Do>) {
        let at_ms = millis(now.saturating_duration_since(self.began));
        out.push(Do::Tell(Notice { orchestration: self.id.clone(), at_ms, event }));
    }
}

fn planned(steps: &[Step]) -> Vec<Planned> {
    let planned = |(task, it): (usize, &Step)| Planned {
        task,
        role: it.role.clone(),
        text: it.task.clone(),
        depends_on: it.needs.clone(),
    };
    steps.iter().enumerate().map(planned).collect()
}

/// The end of a task, its result, and its reason. A task that has not ended never will.
fn ended(state: &State) -> (End, Option<String>, Option<String>) {
    match state {
        State::Done(result) => (End::Done, Some(result.clone()), None),
        State::Failed(why) => (End::Failed, None, Some(why.clone())),
        State::Skipped(why) => (End::Skipped, None, Some(why.clone())),
        State::Waiting | State::Running | State::Cancelled => (End::Cancelled, None, None),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
