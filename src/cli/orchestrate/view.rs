//! Draws an orchestration as lines, from its events.
//!
//! The plan is a tree: each task stands below the dependency that it waits for longest, and names the others.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{
    agents::orchestration::{End, Event, Notice, Planned},
    cli::{
        columns::{pad, shorten, width as columns_of},
        screen::{Screen, Tone},
    },
    util::text::plain,
};

/// The frames of the spinner.
const AT_WORK: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// The width of an unknown screen.
const WIDTH: usize = 100;

/// How many bytes of a line that a worker writes are kept.
const TEXT: usize = 400;

/// How wide a time is.
const TIME: usize = 8;

/// The state after all events so far.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    goal: String,
    /// The work beside the tasks: planning or summarizing.
    stage: Option<String>,
    tasks: Vec<Task>,
    fallback: Option<String>,
    error: Option<String>,
    /// The end and its time.
    end: Option<(End, u64)>,
}

#[derive(Clone, Debug)]
struct Task {
    planned: Planned,
    worker: Option<String>,
    tool: Option<String>,
    /// The line that its worker is writing.
    text: String,
    /// A command of its worker was refused.
    is_refused: bool,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// Running since this time.
    Running(u64),
    Ended(End, Option<u64>, Option<String>),
}

impl Task {
    /// The worker of the task, or its role.
    fn name(&self) -> &str {
        self.worker.as_deref().unwrap_or(&self.planned.role)
    }
}

impl View {
    /// Applies an event.
    pub(super) fn apply(&mut self, told: &Notice) {
        match &told.event {
            Event::PlanStarted { goal, attempt, .. } => {
                self.goal.clone_from(goal);
                let stage = if *attempt == 1 { "planning" } else { "correcting the plan" };
                self.stage = Some(stage.to_owned());
            }
            Event::PlanCompleted { tasks, fallback } => {
                self.stage = None;
                self.fallback.clone_from(fallback);
                let task = |it: &Planned| Task {
                    planned: Planned { role: first_line(&it.role), ..it.clone() },
                    worker: None,
                    tool: None,
                    text: String::new(),
                    is_refused: false,
                    state: State::Waiting,
                };
                self.tasks = tasks.iter().map(task).collect();
            }
            Event::TaskAssigned { task, worker, .. } => {
                if let Some(it) = self.tasks.get_mut(*task) {
                    (it.worker, it.state) = (Some(first_line(worker)), State::Running(told.at_ms));
                }
            }
            Event::TaskProgress { task, tool, .. } => {
                if let Some(it) = self.tasks.get_mut(*task) {
                    it.tool.clone_from(tool);
                    it.text.clear();
                }
            }
            Event::TaskRetried { task, .. } => {
                if let Some(it) = self.tasks.get_mut(*task) {
                    (it.worker, it.tool, it.state) = (None, None, State::Waiting);
                    it.text.clear();
                }
            }
            Event::TaskCompleted { task, state, reason, duration_ms, .. } => {
                if let Some(it) = self.tasks.get_mut(*task) {
                    it.tool = None;
                    it.state = State::Ended(*state, *duration_ms, reason.clone());
                }
                let is_over = self.tasks.iter().all(|it| matches!(it.state, State::Ended(..)));
                self.stage = is_over.then(|| "summarizing".to_owned());
            }
            Event::SummarizeCompleted { .. } => self.stage = None,
            Event::Error { message } => self.error = Some(message.clone()),
            Event::Finished { state, .. } => {
                self.stage = None;
                self.end = Some((*state, told.at_ms));
            }
        }
    }

    fn at_work(&mut self, worker: &str) -> Option<&mut Task> {
        let is_its =
            |it: &&mut Task| matches!(it.state, State::Running(_)) && it.worker.as_deref() == Some(worker);
        self.tasks.iter_mut().find(is_its)
    }

    /// Takes in what a worker writes. The last line with words is shown.
    pub(super) fn hear(&mut self, worker: &str, words: &str) {
        let Some(task) = self.at_work(worker) else { return };
        for (n, part) in words.split('\n').enumerate() {
            if n > 0 && !part.trim().is_empty() {
                task.text.clear();
            }
            let room = TEXT.saturating_sub(task.text.len());
            task.text.push_str(&part[..part.floor_char_boundary(room)]);
        }
    }

    /// A command of a worker was refused.
    pub(super) fn refuse(&mut self, worker: &str) {
        if let Some(task) = self.at_work(worker) {
            task.is_refused = true;
        }
    }

    /// What went wrong with all of it, if anything did.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Why each task failed, in full: a row has room for the beginning only.
    pub(super) fn failures(&self) -> Vec<String> {
        let why = |it: &Task| match &it.state {
            State::Ended(End::Failed, _, Some(reason)) => {
                let number = it.planned.task;
                Some(format!("task {number} ({}) failed: {}", it.name(), plain(reason.trim())))
            }
            State::Waiting | State::Running(_) | State::Ended(..) => None,
        };
        self.tasks.iter().filter_map(why).collect()
    }

    /// The end, if it has ended.
    pub(super) fn end(&self) -> Option<End> {
        self.end.map(|(end, _)| end)
    }

    /// Whether there is a plan.
    pub(super) fn has_plan(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// The drawing at a time in milliseconds since the start.
    pub(super) fn lines(&self, at_ms: u64, screen: Screen) -> Vec<String> {
        let width = screen.size.map_or(WIDTH, |(columns, _)| columns.saturating_sub(1));
        let mut lines = vec![screen.paint(&shorten(&first_line(&self.goal), width), Tone::Strong)];
        if let Some(why) = &self.fallback {
            let note = format!("Planning failed, so one worker does everything: {}", first_line(why));
            lines.push(screen.paint(&shorten(&note, width), Tone::Passing));
        }
        let rows: Vec<(String, &Task)> = self.tree();
        let label = |(prefix, it): &(String, &Task)| {
            format!("{} {}", prefix.clone() + symbol(it, at_ms).0, label(it))
        };
        let labels: Vec<String> = rows.iter().map(label).collect();
        // Leaves room for the number of a worker, so that nothing moves when a task starts.
        let name = |it: &Task| columns_of(it.name()).max(columns_of(&it.planned.role) + 2);
        let names = rows.iter().map(|(_, it)| name(it)).max().unwrap_or(0);
        let widest = labels.iter().map(|it| columns_of(it)).max().unwrap_or(0);
        // The worker and the time matter more than the end of a label.
        let room = width.saturating_sub(names + TIME + 4);
        let left = widest.min(width * 6 / 10).min(room).max(10).min(width);
        for ((prefix, task), label) in rows.iter().zip(labels) {
            let label = shorten(&label, left);
            let padding = " ".repeat(left.saturating_sub(columns_of(&label)) + 2);
            let right = shorten(said(task, at_ms, names).trim_end(), width.saturating_sub(left + 2));
            let (symbol, tone) = symbol(task, at_ms);
            let (faint, text) = match &task.state {
                State::Waiting | State::Ended(End::Skipped | End::Cancelled, ..) => {
                    (Tone::Faint, Tone::Faint)
                }
                State::Ended(End::Failed, ..) => (Tone::Bad, Tone::Plain),
                State::Running(_) | State::Ended(End::Done, ..) => (Tone::Faint, Tone::Plain),
            };
            let after = label.strip_prefix(prefix.as_str()).and_then(|it| it.strip_prefix(symbol));
            let (before, symbol, after) = match after {
                Some(after) => (prefix.as_str(), symbol, after),
                // Too narrow even for the symbol.
                None => (label.as_str(), "", ""),
            };
            let parts = [(before, Tone::Faint), (symbol, tone), (after, text), (&padding, Tone::Plain)];
            let parts = parts.into_iter().chain([(right.trim_end(), faint)]).filter(|it| !it.0.is_empty());
            let line: String = parts.map(|(it, tone)| screen.paint(it, tone)).collect();
            lines.push(line.trim_end().to_owned());
        }
        if let Some(error) = &self.error {
            lines.push(screen.paint(&shorten(&first_line(error), width), Tone::Bad));
        }
        lines.push(self.footer(at_ms, width, screen));
        lines
    }

    fn footer(&self, at_ms: u64, width: usize, screen: Screen) -> String {
        let at_ms = self.end.map_or(at_ms, |(_, at)| at);
        let count = |wanted: fn(&State) -> bool| self.tasks.iter().filter(|it| wanted(&it.state)).count();
        let counts = [
            ("running", count(|it| matches!(it, State::Running(_)))),
            ("waiting", count(|it| matches!(it, State::Waiting))),
            ("failed", count(|it| matches!(it, State::Ended(End::Failed, ..)))),
            ("skipped", count(|it| matches!(it, State::Ended(End::Skipped, ..)))),
            ("cancelled", count(|it| matches!(it, State::Ended(End::Cancelled, ..)))),
        ];
        let done = count(|it| matches!(it, State::Ended(End::Done, ..)));
        let mut parts = Vec::new();
        let (word, tone) = match (self.end(), &self.stage) {
            (Some(End::Done), _) => ("done".to_owned(), Tone::Good),
            (Some(End::Cancelled), _) => ("cancelled".to_owned(), Tone::Passing),
            (Some(End::Failed | End::Skipped), _) => ("failed".to_owned(), Tone::Bad),
            (None, Some(stage)) => (format!("{} {stage}", at_work(at_ms)), Tone::Passing),
            (None, None) => (String::new(), Tone::Plain),
        };
        if !word.is_empty() {
            parts.push(word.clone());
        }
        match (self.tasks.len(), self.end()) {
            (0, _) => {}
            (1, Some(End::Done)) => parts.push("1 task".to_owned()),
            (n, Some(End::Done)) => parts.push(format!("{n} tasks")),
            (n, _) => parts.push(format!("{done} of {n} done")),
        }
        parts.extend(counts.iter().filter(|(_, n)| *n > 0).map(|(word, n)| format!("{n} {word}")));
        parts.push(seconds(at_ms));
        let line = shorten(&parts.join(" · "), width);
        match line.strip_prefix(&word) {
            Some(rest) if !word.is_empty() => screen.paint(&word, tone) + rest,
            Some(_) => line,
            None => screen.paint(&line, tone),
        }
    }

    /// The tasks in the order of the tree, each with its prefix.
    fn tree(&self) -> Vec<(String, &Task)> {
        let mut below: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for at in 0..self.tasks.len() {
            below.entry(self.above(at)).or_default().push(at);
        }
        let mut rows = Vec::new();
        // The rest of the tree, the next task last.
        let roots = below.get(&None).into_iter().flatten().rev();
        let mut stack: Vec<(usize, String, String)> =
            roots.map(|it| (*it, String::new(), String::new())).collect();
        while let Some((at, prefix, indent)) = stack.pop() {
            rows.push((prefix, &self.tasks[at]));
            let children = below.get(&Some(at)).map_or(&[][..], Vec::as_slice);
            for (n, child) in children.iter().enumerate().rev() {
                let is_last = n + 1 == children.len();
                let branch = if is_last { "└─ " } else { "├─ " };
                let further = if is_last { "   " } else { "│  " };
                stack.push((*child, format!("{indent}{branch}"), format!("{indent}{further}")));
            }
        }
        rows
    }

    /// The parent in the tree: the dependency with the longest chain before it.
    fn above(&self, at: usize) -> Option<usize> {
        let needs = self.tasks[at].planned.depends_on.iter().copied().filter(|it| *it < self.tasks.len());
        needs.max_by_key(|it| (self.depth(*it, self.tasks.len()), *it))
    }

    /// The length of the longest chain that leads to a task. `most` is the longest possible one.
    fn depth(&self, at: usize, most: usize) -> usize {
        let mut depth = 0;
        let mut level = vec![at];
        while depth < most {
            let needs = level.iter().filter_map(|it| self.tasks.get(*it));
            let mut next: Vec<usize> = needs.flat_map(|it| it.planned.depends_on.iter().copied()).collect();
            next.sort_unstable();
            next.dedup();
            if next.is_empty() {
                break;
            }
            depth += 1;
            level = next;
        }
        depth
    }

    /// An event as one line, for output without a drawing.
    pub(super) fn line(&self, told: &Notice) -> Option<String> {
        let at = seconds(told.at_ms);
        let line = match &told.event {
            Event::PlanStarted { attempt: 1, .. } => "planning".to_owned(),
            Event::PlanStarted { problems, .. } => {
                format!("correcting the plan: {}", first_line(&problems.join("; ")))
            }
            // The lines of the tasks follow.
            Event::PlanCompleted { .. } => return None,
            Event::TaskAssigned { task, worker, .. } => {
                format!("task {task}: {} begins: {}", first_line(worker), self.text(*task))
            }
            Event::TaskProgress { task, worker, tool: Some(tool), .. } => {
                format!("task {task}: {} runs {}", first_line(worker), first_line(tool))
            }
            Event::TaskProgress { tool: None, .. } | Event::SummarizeCompleted { .. } => return None,
            Event::TaskRetried { task, reason, .. } => {
                format!("task {task}: failed, trying again: {}", first_line(reason))
            }
            Event::TaskCompleted { task, state, reason, duration_ms, .. } => {
                let took = duration_ms.map(|it| format!(" in {}", seconds(it))).unwrap_or_default();
                let why = reason.as_deref().map(|it| format!(": {}", first_line(it))).unwrap_or_default();
                format!("task {task}: {}{took}{why}", state.word())
            }
            Event::Error { message } => format!("error: {}", first_line(message)),
            Event::Finished { .. } => return Some(self.footer(told.at_ms, WIDTH, Screen::default())),
        };
        Some(format!("{at:>8}  {line}"))
    }

    fn text(&self, task: usize) -> String {
        self.tasks.get(task).map(|it| shorten(&first_line(&it.planned.text), WIDTH)).unwrap_or_default()
    }
}

fn label(task: &Task) -> String {
    let Planned { task: number, text, .. } = &task.planned;
    format!("{number}  {}", first_line(text))
}

fn symbol(task: &Task, at_ms: u64) -> (&'static str, Tone) {
    match task.state {
        State::Waiting => ("○", Tone::Faint),
        State::Running(_) => (at_work(at_ms), Tone::Passing),
        State::Ended(End::Done, ..) if task.is_refused => ("!", Tone::Passing),
        State::Ended(End::Done, ..) => ("✓", Tone::Good),
        State::Ended(End::Failed, ..) => ("✗", Tone::Bad),
        State::Ended(End::Skipped | End::Cancelled, ..) => ("–", Tone::Faint),
    }
}

fn at_work(at_ms: u64) -> &'static str {
    let n = usize::try_from(at_ms / 100).unwrap_or_default() % AT_WORK.len();
    AT_WORK[n]
}

/// The text of a row beside the label.
fn said(task: &Task, at_ms: u64, names: usize) -> String {
    let (time, more) = match &task.state {
        State::Waiting => (String::new(), waits(task)),
        State::Running(since) => {
            let does = task.tool.as_deref().unwrap_or(&task.text);
            (seconds(at_ms.saturating_sub(*since)), first_line(does))
        }
        State::Ended(End::Cancelled, took, _) => {
            (took.map(seconds).unwrap_or_default(), "cancelled".to_owned())
        }
        State::Ended(_, took, reason) => {
            (took.map(seconds).unwrap_or_default(), reason.as_deref().map(first_line).unwrap_or_default())
        }
    };
    match time.is_empty() {
        true => format!("{}  {more}", pad(task.name(), names)),
        false => format!("{}  {time:>TIME$}  {more}", pad(task.name(), names)),
    }
}

/// The other dependencies, which the tree does not show.
fn waits(task: &Task) -> String {
    let needs = &task.planned.depends_on;
    if needs.len() < 2 {
        return String::new();
    }
    let needs: Vec<String> = needs.iter().map(ToString::to_string).collect();
    format!("after {}", needs.join(", "))
}

fn seconds(millis: u64) -> String {
    match millis / 1000 {
        0 if millis >= 100 => format!("0.{} s", millis / 100),
        it if it < 60 => format!("{it} s"),
        it => format!("{} m {:02} s", it / 60, it % 60),
    }
}

fn first_line(text: &str) -> String {
    plain(text.trim().lines().next().unwrap_or_default()).replace('\t', " ")
}
