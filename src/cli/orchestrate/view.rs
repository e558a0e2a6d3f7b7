//! Draws an orchestration as lines, from its events.
//!
//! The plan is a tree: each task stands below the dependency that it waits for longest, and names the others.

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

/// The columns of a time.
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

    /// The error of the whole orchestration, if any.
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
        if !self.tasks.is_empty() {
            parts.push(format!("{done} of {} done", self.tasks.len()));
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
            (seconds(at_ms.saturating_sub(*since)), task.tool.as_deref().map(first_line).unwrap_or_default())
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

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn told(at_ms: u64, event: Event) -> Notice {
        Notice { orchestration: "o".to_owned(), at_ms, event }
    }

    fn planned(task: usize, role: &str, text: &str, needs: &[usize]) -> Planned {
        let depends_on = needs.iter().copied().collect();
        Planned { task, role: role.to_owned(), text: text.to_owned(), depends_on }
    }

    fn assigned(task: usize, worker: &str) -> Event {
        let role = worker.split('-').next().unwrap_or_default().to_owned();
        Event::TaskAssigned { task, role, worker: worker.to_owned(), turn: 1 }
    }

    fn runs(task: usize, worker: &str, tool: Option<&str>) -> Event {
        let (role, worker) = (String::new(), worker.to_owned());
        Event::TaskProgress { task, role, worker, tool: tool.map(str::to_owned), duration_ms: 1 }
    }

    fn completed(task: usize, state: End, reason: Option<&str>, duration_ms: Option<u64>) -> Event {
        let (role, worker) = (String::new(), None);
        let reason = reason.map(str::to_owned);
        Event::TaskCompleted { task, role, worker, state, result: None, reason, duration_ms }
    }

    /// The events of an orchestration with every state.
    fn story() -> Vec<Notice> {
        let workers = vec!["coder".to_owned(), "reviewer".to_owned(), "tester".to_owned()];
        let goal = "Add a --json flag to the list command\nand all that.".to_owned();
        let tasks = vec![
            planned(0, "coder", "Write the flag, and what it prints", &[]),
            planned(1, "tester", "Test that what is printed is JSON", &[0]),
            planned(2, "coder", "Describe the flag in docs/list.md", &[0]),
            planned(3, "reviewer", "Read all changes", &[1, 2]),
            planned(4, "coder", "Look for other commands that print lists", &[]),
            planned(5, "coder", "Add the flag to these", &[4]),
            planned(6, "tester", "Test these as well", &[5]),
        ];
        vec![
            told(0, Event::PlanStarted { goal, workers, attempt: 1, problems: vec![] }),
            told(4_200, Event::PlanCompleted { tasks, fallback: None }),
            told(4_200, assigned(0, "coder-1")),
            told(4_200, assigned(4, "coder-2")),
            told(6_000, runs(0, "coder-1", Some("replace_string_in_file"))),
            told(9_000, runs(0, "coder-1", None)),
            told(16_700, completed(0, End::Done, None, Some(12_500))),
            told(16_700, assigned(1, "tester-1")),
            told(16_700, assigned(2, "coder-1")),
            told(18_000, completed(4, End::Failed, Some("its model failed: quota\nmore"), Some(13_800))),
            told(18_000, completed(5, End::Skipped, Some("task 4 failed"), None)),
            told(18_000, completed(6, End::Skipped, Some("task 5 was skipped"), None)),
            told(19_000, runs(1, "tester-1", Some("run_in_terminal"))),
            told(80_000, completed(2, End::Done, None, Some(63_300))),
            told(90_000, completed(1, End::Done, None, Some(73_300))),
            told(90_000, assigned(3, "reviewer-1")),
            told(99_000, completed(3, End::Done, None, Some(9_000))),
            told(105_000, Event::SummarizeCompleted { summary: "s".to_owned() }),
            told(
                105_000,
                Event::Finished { state: End::Failed, done: 4, failed: 1, skipped: 2, cancelled: 0 },
            ),
        ]
    }

    fn drawn(until: usize, at_ms: u64, screen: Screen) -> String {
        let mut view = View::default();
        story()[..until].iter().for_each(|it| view.apply(it));
        view.lines(at_ms, screen).iter().map(|it| it.clone() + "\n").collect()
    }

    #[test]
    fn view_draws_plan_as_tree() {
        let plain = Screen::default();
        expect![[r#"
            Add a --json flag to the list command
            ⠋ planning · 1 s
        "#]]
        .assert_eq(&drawn(1, 1_000, plain));
        expect![[r#"
            Add a --json flag to the list command
            ⠸ 0  Write the flag, and what it prints        coder-1          3 s  replace_string_in_file
            ├─ ○ 1  Test that what is printed is JSON      tester
            └─ ○ 2  Describe the flag in docs/list.md      coder
               └─ ○ 3  Read all changes                    reviewer    after 1, 2
            ⠸ 4  Look for other commands that print lists  coder-2          3 s
            └─ ○ 5  Add the flag to these                  coder
               └─ ○ 6  Test these as well                  tester
            0 of 7 done · 2 running · 5 waiting · 7 s
        "#]]
        .assert_eq(&drawn(5, 7_300, plain));
        expect![[r#"
            Add a --json flag to the list command
            ✓ 0  Write the flag, and what it prints        coder-1         12 s
            ├─ ⠋ 1  Test that what is printed is JSON      tester-1        13 s  run_in_terminal
            └─ ⠋ 2  Describe the flag in docs/list.md      coder-1         13 s
               └─ ○ 3  Read all changes                    reviewer    after 1, 2
            ✗ 4  Look for other commands that print lists  coder-2         13 s  its model failed: quota
            └─ – 5  Add the flag to these                  coder       task 4 failed
               └─ – 6  Test these as well                  tester      task 5 was skipped
            1 of 7 done · 2 running · 1 waiting · 1 failed · 2 skipped · 30 s
        "#]]
        .assert_eq(&drawn(13, 30_000, plain));
        expect![[r#"
            Add a --json flag to the list command
            ✓ 0  Write the flag, and what it prints        coder-1         12 s
            ├─ ✓ 1  Test that what is printed is JSON      tester-1    1 m 13 s
            └─ ✓ 2  Describe the flag in docs/list.md      coder-1     1 m 03 s
               └─ ✓ 3  Read all changes                    reviewer-1       9 s
            ✗ 4  Look for other commands that print lists  coder-2         13 s  its model failed: quota
            └─ – 5  Add the flag to these                  coder       task 4 failed
               └─ – 6  Test these as well                  tester      task 5 was skipped
            ⠋ summarizing · 4 of 7 done · 1 failed · 2 skipped · 1 m 40 s
        "#]]
        .assert_eq(&drawn(17, 100_000, plain));
        expect![[r#"
            Add a --json flag to the list command
            ✓ 0  Write the flag, and what it prints        coder-1         12 s
            ├─ ✓ 1  Test that what is printed is JSON      tester-1    1 m 13 s
            └─ ✓ 2  Describe the flag in docs/list.md      coder-1     1 m 03 s
               └─ ✓ 3  Read all changes                    reviewer-1       9 s
            ✗ 4  Look for other commands that print lists  coder-2         13 s  its model failed: quota
            └─ – 5  Add the flag to these                  coder       task 4 failed
               └─ – 6  Test these as well                  tester      task 5 was skipped
            failed · 4 of 7 done · 1 failed · 2 skipped · 1 m 45 s
        "#]]
        .assert_eq(&drawn(19, 200_000, plain));
    }

    #[test]
    fn documentation_shows_current_view() {
        let text = include_str!("../../../docs/orchestration.md");
        let mut view = View::default();
        let mut lines = String::new();
        for it in story() {
            view.apply(&it);
            lines.extend(view.line(&it).map(|it| it + "\n"));
        }
        let shown = [drawn(13, 30_000, Screen::default()), lines];
        for it in shown {
            assert!(text.contains(&format!("```\n{it}```\n")), "docs/orchestration.md does not show\n{it}");
        }
    }

    #[test]
    fn view_strips_control_characters_from_model_text() {
        let evil = "a\u{1b}[2J\rb\nc";
        let mut view = View::default();
        let tasks = vec![planned(0, "coder", evil, &[])];
        for event in [
            Event::PlanCompleted { tasks, fallback: Some(evil.to_owned()) },
            assigned(0, evil),
            runs(0, evil, Some(evil)),
            Event::Error { message: evil.to_owned() },
            completed(0, End::Failed, Some(evil), None),
        ] {
            let it = told(1, event);
            view.apply(&it);
            let lines = view.lines(1, Screen::default()).into_iter().chain(view.line(&it));
            for line in lines {
                assert!(!line.contains(char::is_control), "{line:?}");
            }
        }
    }

    #[test]
    fn view_lines_fit_the_screen() {
        for columns in (1..=60).chain([79, 200]) {
            let screen = Screen { size: Some((columns, 24)), is_colored: false };
            for until in 0..=story().len() {
                for line in drawn(until, 30_000, screen).lines() {
                    assert!(columns_of(line) < columns, "{columns}: {line}");
                    assert!(!line.contains('\u{1b}'), "{line}");
                }
            }
        }
    }

    #[test]
    fn view_aligns_wide_characters_and_keeps_times_in_narrow_terminals() {
        let mut view = View::default();
        let tasks = vec![
            planned(0, "coder", "フラグを書いて、出力も書く 🎉", &[]),
            planned(1, "tester", "Test that what is printed is JSON", &[0]),
        ];
        for event in [
            Event::PlanCompleted { tasks, fallback: None },
            assigned(0, "coder-1"),
            completed(0, End::Done, None, Some(12_500)),
            assigned(1, "tester-1"),
        ] {
            view.apply(&told(1, event));
        }
        let drawn = |columns| {
            let screen = Screen { size: Some((columns, 24)), is_colored: false };
            view.lines(15_000, screen).iter().map(|it| it.clone() + "\n").collect::<String>()
        };
        expect![[r#"

            ✓ 0  フラグを書いて、出力も書く 🎉         coder-1       12 s
            └─ ⠋ 1  Test that what is printed is JSON  tester-1      14 s
            1 of 2 done · 1 running · 15 s
        "#]]
        .assert_eq(&drawn(80));
        expect![[r#"

            ✓ 0  フラグを書い…   coder-1       12 s
            └─ ⠋ 1  Test that …  tester-1      14 s
            1 of 2 done · 1 running · 15 s
        "#]]
        .assert_eq(&drawn(40));
    }

    #[test]
    fn view_looks_right_at_common_widths() {
        let at = |columns| drawn(12, 20_000, Screen { size: Some((columns, 24)), is_colored: false });
        expect![[r#"
            Add a --json flag to the list command
            ✓ 0  Write the flag, and what it p…  coder-1         12 s
            ├─ ⠋ 1  Test that what is printed …  tester-1         3 s
            └─ ⠋ 2  Describe the flag in docs/…  coder-1          3 s
               └─ ○ 3  Read all changes          reviewer    after 1, 2
            ✗ 4  Look for other commands that …  coder-2         13 s …
            └─ – 5  Add the flag to these        coder       task 4 fa…
               └─ – 6  Test these as well        tester      task 5 wa…
            1 of 7 done · 2 running · 1 waiting · 1 failed · 2 skipped…
        "#]]
        .assert_eq(&at(60));
        expect![[r#"
            Add a --json flag to the list command
            ✓ 0  Write the flag, and what it prints        coder-1         12 s
            ├─ ⠋ 1  Test that what is printed is JSON      tester-1         3 s
            └─ ⠋ 2  Describe the flag in docs/list.md      coder-1          3 s
               └─ ○ 3  Read all changes                    reviewer    after 1, 2
            ✗ 4  Look for other commands that print lists  coder-2         13 s  its model…
            └─ – 5  Add the flag to these                  coder       task 4 failed
               └─ – 6  Test these as well                  tester      task 5 was skipped
            1 of 7 done · 2 running · 1 waiting · 1 failed · 2 skipped · 20 s
        "#]]
        .assert_eq(&at(80));
        expect![[r#"
            Add a --json flag to the list command
            ✓ 0  Write the flag, and what it prints        coder-1         12 s
            ├─ ⠋ 1  Test that what is printed is JSON      tester-1         3 s
            └─ ⠋ 2  Describe the flag in docs/list.md      coder-1          3 s
               └─ ○ 3  Read all changes                    reviewer    after 1, 2
            ✗ 4  Look for other commands that print lists  coder-2         13 s  its model failed: quota
            └─ – 5  Add the flag to these                  coder       task 4 failed
               └─ – 6  Test these as well                  tester      task 5 was skipped
            1 of 7 done · 2 running · 1 waiting · 1 failed · 2 skipped · 20 s
        "#]]
        .assert_eq(&at(120));
    }

    #[test]
    fn view_lists_failures_in_full() {
        let mut view = View::default();
        for it in story() {
            view.apply(&it);
        }
        assert_eq!(view.failures(), ["task 4 (coder-2) failed: its model failed: quota\nmore"]);
    }

    #[test]
    fn view_colors_change_no_text() {
        let colored = Screen { size: Some((80, 24)), is_colored: true };
        for (columns, until) in
            [2, 9, 30, 80].iter().flat_map(|it| (0..=story().len()).map(move |n| (*it, n)))
        {
            let colored = Screen { size: Some((columns, 24)), ..colored };
            let plain = Screen { is_colored: false, ..colored };
            let mut bare = String::new();
            let drawn_so = drawn(until, 30_000, colored);
            let mut parts = drawn_so.split('\u{1b}');
            bare.push_str(parts.next().unwrap_or_default());
            parts.for_each(|it| bare.push_str(it.split_once('m').map_or("", |(_, it)| it)));
            let trimmed = |it: &str| it.lines().map(|it| it.trim_end().to_owned() + "\n").collect::<String>();
            assert_eq!(trimmed(&bare), trimmed(&drawn(until, 30_000, plain)));
        }
        expect![[r#"
            ␛[1mAdd a --json flag to the list command␛[0m
            ␛[32m✓␛[0m 0  Write the flag, and what it prints        ␛[2mcoder-1         12 s␛[0m
            ␛[2m├─ ␛[0m␛[33m⠋␛[0m 1  Test that what is printed is JSON      ␛[2mtester-1         3 s␛[0m
            ␛[2m└─ ␛[0m␛[33m⠋␛[0m 2  Describe the flag in docs/list.md      ␛[2mcoder-1          3 s␛[0m
            ␛[2m   └─ ␛[0m␛[2m○␛[0m␛[2m 3  Read all changes␛[0m                    ␛[2mreviewer    after 1, 2␛[0m
            ␛[31m✗␛[0m 4  Look for other commands that print lists  ␛[31mcoder-2         13 s  its model…␛[0m
            ␛[2m└─ ␛[0m␛[2m–␛[0m␛[2m 5  Add the flag to these␛[0m                  ␛[2mcoder       task 4 failed␛[0m
            ␛[2m   └─ ␛[0m␛[2m–␛[0m␛[2m 6  Test these as well␛[0m                  ␛[2mtester      task 5 was skipped␛[0m
            1 of 7 done · 2 running · 1 waiting · 1 failed · 2 skipped · 20 s
        "#]].assert_eq(&drawn(12, 20_000, colored).replace('\u{1b}', "␛"));
    }

    #[test]
    fn view_prints_lines_without_a_screen() {
        let mut view = View::default();
        let mut lines = String::new();
        for it in story() {
            view.apply(&it);
            lines.extend(view.line(&it).map(|it| it + "\n"));
        }
        expect![[r#"
                 0 s  planning
                 4 s  task 0: coder-1 begins: Write the flag, and what it prints
                 4 s  task 4: coder-2 begins: Look for other commands that print lists
                 6 s  task 0: coder-1 runs replace_string_in_file
                16 s  task 0: done in 12 s
                16 s  task 1: tester-1 begins: Test that what is printed is JSON
                16 s  task 2: coder-1 begins: Describe the flag in docs/list.md
                18 s  task 4: failed in 13 s: its model failed: quota
                18 s  task 5: skipped: task 4 failed
                18 s  task 6: skipped: task 5 was skipped
                19 s  task 1: tester-1 runs run_in_terminal
            1 m 20 s  task 2: done in 1 m 03 s
            1 m 30 s  task 1: done in 1 m 13 s
            1 m 30 s  task 3: reviewer-1 begins: Read all changes
            1 m 39 s  task 3: done in 9 s
            failed · 4 of 7 done · 1 failed · 2 skipped · 1 m 45 s
        "#]]
        .assert_eq(&lines);
    }

    #[test]
    fn view_shows_errors_before_the_plan() {
        let mut view = View::default();
        view.apply(&story()[0]);
        let problems = vec!["there is no task".to_owned()];
        let again = Event::PlanStarted { goal: "g".to_owned(), workers: vec![], attempt: 2, problems };
        view.apply(&told(1, again));
        let tasks = vec![planned(0, "coder", "g", &[])];
        view.apply(&told(2, Event::PlanCompleted { tasks, fallback: Some("there is no task".to_owned()) }));
        view.apply(&told(3, Event::Error { message: "there is no summary: it has crashed".to_owned() }));
        view.apply(&told(
            4,
            Event::Finished { state: End::Cancelled, done: 0, failed: 0, skipped: 0, cancelled: 1 },
        ));
        let drawn: String = view.lines(9, Screen::default()).iter().map(|it| it.clone() + "\n").collect();
        expect![[r#"
            g
            Planning failed, so one worker does everything: there is no task
            ○ 0  g      coder
            there is no summary: it has crashed
            cancelled · 0 of 1 done · 1 waiting · 0 s
        "#]]
        .assert_eq(&drawn);
    }
}
