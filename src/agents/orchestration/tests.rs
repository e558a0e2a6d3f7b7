//! Orchestrations with simulated workers and a virtual clock.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect;
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::{plan::tests::plan as some_plan, *};
use crate::config::AgentSource;

/// A request with its answer and time.
struct Asked {
    conversation: usize,
    at: Instant,
    answer: Result<String, String>,
}

/// An orchestration with its conversations.
struct World {
    it: Orchestration,
    now: Instant,
    began: Instant,
    open: BTreeMap<usize, Vec<String>>,
    closed: BTreeSet<usize>,
    asked: Vec<Asked>,
    told: Vec<Notice>,
    /// The texts of the planner, in order.
    plans: Vec<String>,
    /// The duration of each task in seconds, and its result.
    tasks: BTreeMap<usize, (u64, Result<String, String>)>,
    summary: Result<String, String>,
}

fn fails() -> Result<String, String> {
    Err("it has crashed".to_owned())
}

fn worker(role: &str, tools: Option<&[&str]>) -> WorkerConfig {
    WorkerConfig {
        system_prompt: Some(format!("You are {role}.")),
        tools: tools.map(|it| it.iter().map(ToString::to_string).collect()),
        ..WorkerConfig::of(role, AgentSource::User)
    }
}

fn order(workers: Vec<WorkerConfig>, max_parallel: usize) -> Order {
    Order {
        goal: "the goal".to_owned(),
        workers,
        max_parallel,
        max_tasks: 20,
        retries: 0,
        tasks: Tasks::Planned,
    }
}

fn written(plan: &Plan) -> String {
    let step = |it: &Step| json!({"worker_role": it.role, "task": it.task, "depends_on": it.needs});
    plan.steps.iter().map(step).collect::<Value>().to_string()
}

impl World {
    fn new(order: Order, plans: &[String], tasks: BTreeMap<usize, (u64, Result<String, String>)>) -> World {
        #[expect(clippy::disallowed_methods, reason = "any moment is one to begin at")]
        let now = Instant::now();
        let (it, todo) = Orchestration::start("o".to_owned(), order, now);
        let mut world = World {
            it,
            now,
            began: now,
            open: BTreeMap::new(),
            closed: BTreeSet::new(),
            asked: Vec::new(),
            told: Vec::new(),
            plans: plans.iter().rev().cloned().collect(),
            tasks,
            summary: Ok("all is well".to_owned()),
        };
        world.carry_out(todo);
        world
    }

    fn carry_out(&mut self, todo: Vec<Do>) {
        for it in todo {
            let is_over = matches!(self.told.last(), Some(Notice { event: Event::Finished { .. }, .. }));
            assert!(!is_over, "{it:?} comes after the end");
            match it {
                Do::Tell(told) => self.told.push(told),
                Do::Close { conversation } => {
                    assert!(self.open.contains_key(&conversation), "{conversation} was never opened");
                    assert!(self.closed.insert(conversation), "{conversation} is closed twice");
                    self.asked.retain(|it| it.conversation != conversation);
                }
                Do::Ask { conversation, text } => {
                    assert!(!self.closed.contains(&conversation), "{conversation} is closed");
                    let is_asked = self.asked.iter().any(|it| it.conversation == conversation);
                    assert!(!is_asked, "{conversation} does two things at once");
                    self.open.entry(conversation).or_default().push(text);
                    let (seconds, answer) = self.answer(conversation);
                    let at = self.now + Duration::from_secs(seconds);
                    self.asked.push(Asked { conversation, at, answer });
                }
            }
        }
    }

    fn answer(&mut self, conversation: usize) -> (u64, Result<String, String>) {
        match self.it.who(conversation).unwrap().0 {
            Who::Planner => (0, self.plans.pop().ok_or_else(|| "it has crashed".to_owned())),
            Who::Summarizer => (0, self.summary.clone()),
            Who::Worker(_) => {
                let task = self.it.task_of(conversation).unwrap();
                let usual = || (1, Ok(format!("result-{task};")));
                self.tasks.get(&task).cloned().unwrap_or_else(usual)
            }
        }
    }

    /// Handles the next answer. Returns whether there was one.
    fn step(&mut self) -> bool {
        let next = (0..self.asked.len()).min_by_key(|it| (self.asked[*it].at, *it));
        let Some(next) = next else { return false };
        let Asked { conversation, at, answer } = self.asked.remove(next);
        self.now = at;
        let todo = self.it.heard(self.now, conversation, WorkerEvent::Answer(answer));
        self.carry_out(todo);
        true
    }

    fn run(mut self) -> World {
        while self.step() {}
        self
    }

    fn seconds(&self) -> u64 {
        self.now.duration_since(self.began).as_secs()
    }

    /// The message with a task: its conversation, its number there, and its text.
    fn given(&self, task: usize) -> (usize, usize, &str) {
        let name = self.told.iter().find_map(|it| match &it.event {
            Event::TaskAssigned { task: of, worker, turn, .. } if *of == task => {
                Some((worker.clone(), *turn))
            }
            _ => None,
        });
        let (name, turn) = name.expect("it was assigned");
        let conversation = (0..self.open.len()).find(|it| self.it.who(*it).unwrap().1 == name).unwrap();
        let at = turn as usize - 1;
        (conversation, at, &self.open[&conversation][at])
    }

    fn events(&self) -> String {
        let line = |it: &Notice| {
            let (at, event) = (it.at_ms / 1000, &it.event);
            match event {
                Event::PlanStarted { attempt, problems, .. } => format!("{at} plan {attempt} {problems:?}"),
                Event::PlanCompleted { tasks, fallback } => {
                    format!("{at} {} tasks {fallback:?}", tasks.len())
                }
                Event::TaskAssigned { task, worker, turn, .. } => format!("{at} {task} → {worker} ({turn})"),
                Event::TaskProgress { task, worker, tool, .. } => format!("{at} {task} {worker}: {tool:?}"),
                Event::TaskRetried { task, reason, .. } => format!("{at} {task} again: {reason}"),
                Event::TaskCompleted { task, state, reason, duration_ms, .. } => {
                    let why = reason.as_deref().map(|it| format!(": {it}")).unwrap_or_default();
                    let took = duration_ms.map(|it| format!(" in {}", it / 1000)).unwrap_or_default();
                    format!("{at} {task} {}{took}{why}", state.word())
                }
                Event::SummarizeCompleted { summary } => format!("{at} summary: {summary}"),
                Event::Error { message } => format!("{at} error: {message}"),
                Event::Finished { state, done, failed, skipped, cancelled } => {
                    format!("{at} {}: {done} {failed} {skipped} {cancelled}", state.word())
                }
            }
        };
        self.told.iter().map(|it| line(it) + "\n").collect()
    }
}

fn step(role: &str, needs: &[usize]) -> Step {
    Step { role: role.to_owned(), task: format!("[{role}]"), needs: needs.iter().copied().collect() }
}

/// Twelve tasks with two diamonds, a branch that fails, and a worker with four tasks.
#[test]
fn orchestration_runs_twelve_tasks_and_skips_dependents_of_failure() {
    let mut steps = vec![
        step("coder", &[]),       // 0
        step("reviewer", &[0]),   // 1  ┐ a diamond
        step("tester", &[0]),     // 2  ┘
        step("coder", &[1, 2]),   // 3
        step("docs", &[]),        // 4  fails
        step("docs", &[4]),       // 5  is skipped
        step("reviewer", &[5]),   // 6  is skipped
        step("coder", &[3]),      // 7  ┐ another one
        step("tester", &[3]),     // 8  ┘
        step("coder", &[7, 8]),   // 9
        step("reviewer", &[9]),   // 10
        step("tester", &[9, 10]), // 11
    ];
    for (at, step) in steps.iter_mut().enumerate() {
        step.task = format!("task {at}");
    }
    let plan = Plan { steps };
    let tasks = (0..12).map(|it| {
        let says = if it == 4 { fails() } else { Ok(format!("result-{it};")) };
        // Long tasks are off the critical path, except 2 and 7.
        (it, (if [2, 4, 7].contains(&it) { 5 } else { 1 }, says))
    });
    let workers = vec![
        worker("coder", None),
        worker("reviewer", Some(&["read_file"])),
        worker("tester", None),
        worker("docs", None),
    ];
    let world = World::new(order(workers, 9), &[written(&plan)], tasks.collect()).run();
    expect![[r#"
        0 plan 1 []
        0 12 tasks None
        0 0 → coder-1 (1)
        0 4 → docs-1 (1)
        1 0 done in 1
        1 1 → reviewer-1 (1)
        1 2 → tester-1 (1)
        2 1 done in 1
        5 4 failed in 5: it has crashed
        5 5 skipped: task 4 failed
        5 6 skipped: task 5 was skipped
        6 2 done in 5
        6 3 → coder-1 (2)
        7 3 done in 1
        7 7 → coder-1 (3)
        7 8 → tester-1 (2)
        8 8 done in 1
        12 7 done in 5
        12 9 → coder-1 (4)
        13 9 done in 1
        13 10 → reviewer-1 (2)
        14 10 done in 1
        14 11 → tester-1 (3)
        15 11 done in 1
        15 summary: all is well
        15 failed: 9 1 2 0
    "#]]
    .assert_eq(&world.events());
    // 0, 2, 3, 7, 9, 10, 11
    assert_eq!(world.seconds(), 1 + 5 + 1 + 5 + 1 + 1 + 1);
    let text = world.given(3).2;
    assert!(
        text.contains("result-1;") && text.contains("result-2;") && !text.contains("result-0;"),
        "{text}"
    );
    let outcome = world.it.outcome(world.now);
    assert_eq!((outcome.state, outcome.tasks.len(), outcome.duration_ms), (End::Failed, 12, 15_000));
    assert_eq!(outcome.tasks[9].worker.as_deref(), Some("coder-1"));
    assert_eq!(outcome.tasks[6].reason.as_deref(), Some("task 5 was skipped"));
}

#[test]
fn orchestration_retries_bad_plan_once_then_uses_first_worker() {
    let workers = || vec![worker("coder", None), worker("tester", None)];
    let good = written(&Plan { steps: vec![step("tester", &[])] });
    let mended =
        World::new(order(workers(), 2), &["I would rather not.".to_owned(), good], BTreeMap::new()).run();
    expect![[r#"
        0 plan 1 []
        0 plan 2 ["found no JSON array of tasks such as [{\"worker_role\": …, \"task\": …, \"depends_on\": []}]"]
        0 1 tasks None
        0 0 → tester-1 (1)
        1 0 done in 1
        1 summary: all is well
        1 done: 1 0 0 0
    "#]]
    .assert_eq(&mended.events());
    assert!(mended.open[&0][1].contains("found no JSON array"), "{:?}", mended.open[&0]);
    let bad = || "[{\"worker_role\": \"boss\", \"task\": \"x\"}]".to_owned();
    let twice = World::new(order(workers(), 2), &[bad(), bad()], BTreeMap::new()).run();
    expect![[r#"
        0 plan 1 []
        0 plan 2 ["task 0: unknown `worker_role` \"boss\"; use one of coder, tester"]
        0 1 tasks Some("task 0: unknown `worker_role` \"boss\"; use one of coder, tester")
        0 0 → coder-1 (1)
        1 0 done in 1
        1 summary: all is well
        1 done: 1 0 0 0
    "#]]
    .assert_eq(&twice.events());
    assert_eq!(twice.given(0).2, "<system_instructions>\nYou are coder.\n</system_instructions>\n\nthe goal");
    assert!(twice.it.outcome(twice.now).fallback.is_some());
    let none = World::new(order(workers(), 2), &[], BTreeMap::new()).run();
    expect![[r"
        0 plan 1 []
        0 error: planning failed: it has crashed
        0 failed: 0 0 0 0
    "]]
    .assert_eq(&none.events());
}

#[test]
fn tasks_of_one_role_run_in_parallel_and_reuse_workers() {
    // 0 and 1 at once; 2 needs 1, 3 needs 0.
    let plan = Plan { steps: vec![step("a", &[]), step("a", &[]), step("a", &[1]), step("a", &[0])] };
    let tasks = [(0, (2, Ok("zero".to_owned()))), (1, (2, Ok("one".to_owned())))].into();
    let world = World::new(order(vec![worker("a", None)], 4), &[written(&distinct(plan))], tasks).run();
    let place = |task| world.it.who(world.given(task).0).unwrap().1.to_owned();
    assert_eq!([0, 1, 2, 3].map(place), ["a-1", "a-2", "a-2", "a-1"]);
    // The conversation does not repeat known texts.
    assert!(world.given(0).2.contains("You are a.") && !world.given(3).2.contains("You are a."));
}

/// Makes the texts of the tasks unique.
fn distinct(mut plan: Plan) -> Plan {
    for (at, step) in plan.steps.iter_mut().enumerate() {
        step.task = format!("task {at}");
    }
    plan
}

#[test]
fn events_serialize_to_json_and_back() {
    let plan = distinct(Plan { steps: vec![step("a", &[])] });
    let mut world = World::new(order(vec![worker("a", None)], 1), &[written(&plan)], BTreeMap::new());
    world.step();
    let todo = world.it.heard(world.now, 1, WorkerEvent::Tool(Some("read_file".to_owned())));
    world.carry_out(todo);
    let world = world.run();
    let sent: String = world.told.iter().map(|it| serde_json::to_string(it).unwrap() + "\n").collect();
    expect![[r#"
        {"orchestration":"o","atMs":0,"event":"planStarted","goal":"the goal","workers":["a"],"attempt":1}
        {"orchestration":"o","atMs":0,"event":"planCompleted","tasks":[{"task":0,"role":"a","text":"task 0","dependsOn":[]}]}
        {"orchestration":"o","atMs":0,"event":"taskAssigned","task":0,"role":"a","worker":"a-1","turn":1}
        {"orchestration":"o","atMs":0,"event":"taskProgress","task":0,"role":"a","worker":"a-1","tool":"read_file","durationMs":0}
        {"orchestration":"o","atMs":1000,"event":"taskCompleted","task":0,"role":"a","worker":"a-1","state":"done","result":"result-0;","durationMs":1000}
        {"orchestration":"o","atMs":1000,"event":"summarizeCompleted","summary":"all is well"}
        {"orchestration":"o","atMs":1000,"event":"finished","state":"done","done":1,"failed":0,"skipped":0,"cancelled":0}
    "#]].assert_eq(&sent);
    for (line, told) in sent.lines().zip(&world.told) {
        assert_eq!(serde_json::from_str::<Notice>(line).unwrap(), *told);
    }
    let outcome = serde_json::to_string(&world.it.outcome(world.now)).unwrap();
    expect![[r#"{"orchestration":"o","state":"done","summary":"all is well","tasks":[{"task":0,"role":"a","text":"task 0","dependsOn":[],"worker":"a-1","state":"done","result":"result-0;","durationMs":1000}],"durationMs":1000}"#]].assert_eq(&outcome);
}

/// When each task would end if it waited only for its dependencies.
fn critical_path(plan: &Plan, seconds: impl Fn(usize) -> u64) -> u64 {
    let mut ends: BTreeMap<usize, u64> = BTreeMap::new();
    while ends.len() < plan.steps.len() {
        for (at, step) in plan.steps.iter().enumerate() {
            if let Some(needs) = step.needs.iter().map(|it| ends.get(it).copied()).collect::<Option<Vec<_>>>()
            {
                ends.insert(at, needs.into_iter().max().unwrap_or(0) + seconds(at));
            }
        }
    }
    ends.into_values().max().unwrap_or(0)
}

/// The events are in a possible order.
fn check_events(world: &World, plan: &Plan) -> Result<(), TestCaseError> {
    let mut planned = None;
    let mut assigned: BTreeMap<usize, String> = BTreeMap::new();
    let mut ended: BTreeMap<usize, End> = BTreeMap::new();
    let mut last = 0;
    let n = world.told.len();
    for (at, Notice { orchestration, at_ms, event }) in world.told.iter().enumerate() {
        prop_assert!(orchestration == "o" && *at_ms >= last);
        last = *at_ms;
        match event {
            Event::PlanStarted { attempt, problems, .. } => {
                prop_assert!(at < 2 && *attempt as usize == at + 1 && problems.is_empty() == (at == 0));
            }
            Event::PlanCompleted { tasks, .. } => {
                prop_assert!(planned.is_none() && (1..=2).contains(&at));
                planned = Some(tasks.len());
            }
            Event::TaskAssigned { task, role, worker, .. } => {
                prop_assert!(plan.steps[*task].role == *role && worker.starts_with(role.as_str()));
                let needs = &plan.steps[*task].needs;
                prop_assert!(
                    needs.iter().all(|it| ended.get(it) == Some(&End::Done)),
                    "{} is too early",
                    task
                );
                let is_busy = assigned.iter().any(|(it, by)| by == worker && !ended.contains_key(it));
                prop_assert!(!is_busy, "{} does two things at once", worker);
                prop_assert!(assigned.insert(*task, worker.clone()).is_none());
            }
            Event::TaskProgress { task, worker, .. } => {
                prop_assert!(assigned.get(task) == Some(worker) && !ended.contains_key(task));
            }
            Event::TaskRetried { task, .. } => prop_assert!(assigned.remove(task).is_some()),
            Event::TaskCompleted { task, worker, state, result, reason, duration_ms, .. } => {
                prop_assert!(ended.insert(*task, *state).is_none(), "{} ends twice", task);
                prop_assert_eq!(assigned.get(task), worker.as_ref());
                prop_assert_eq!(worker.is_some(), duration_ms.is_some());
                prop_assert_eq!(*state == End::Done, result.is_some());
                prop_assert_eq!(matches!(state, End::Failed | End::Skipped), reason.is_some());
                prop_assert!(*state != End::Skipped || worker.is_none());
            }
            Event::SummarizeCompleted { .. } => prop_assert!(at == n - 2 && Some(ended.len()) == planned),
            Event::Error { .. } => prop_assert_eq!(at, n - 2),
            Event::Finished { state, done, failed, skipped, cancelled } => {
                prop_assert_eq!(at, n - 1);
                let count = |end| ended.values().filter(|it| **it == end).count();
                let counts = [End::Done, End::Failed, End::Skipped, End::Cancelled].map(count);
                prop_assert_eq!(counts, [*done, *failed, *skipped, *cancelled]);
                prop_assert_eq!(ended.len(), planned.unwrap_or(0));
                prop_assert!(*state != End::Done || planned == Some(*done));
            }
        }
    }
    let is_finished = matches!(world.told.last(), Some(Notice { event: Event::Finished { .. }, .. }));
    prop_assert!(is_finished);
    Ok(())
}

/// The right worker gets each task, with exactly its dependencies.
fn check_texts(world: &World, plan: &Plan) -> Result<(), TestCaseError> {
    let assigned = world.told.iter().filter_map(|it| match it.event {
        Event::TaskAssigned { task, .. } => Some(task),
        _ => None,
    });
    for task in assigned {
        let (conversation, at, text) = world.given(task);
        let step = &plan.steps[task];
        let Some((Who::Worker(worker), _)) = world.it.who(conversation) else {
            return Err(TestCaseError::fail("a task was given to somebody who is no worker"));
        };
        prop_assert_eq!(&worker.role, &step.role);
        prop_assert!(text.ends_with(&step.task));
        prop_assert_eq!(text.contains("<system_instructions>"), at == 0);
        prop_assert_eq!(text.contains("<tool_restrictions>"), at == 0 && worker.tools.is_some());
        prop_assert_eq!(text.contains("<shared_context>"), !step.needs.is_empty());
        for other in 0..plan.steps.len() {
            prop_assert_eq!(
                text.contains(&format!("result-{other};")),
                step.needs.contains(&other),
                "{} in {}",
                other,
                text
            );
        }
    }
    Ok(())
}

proptest! {
    /// For any texts, failures and cancellations, order, context, skips and events are right, and no conversation
    /// stays open.
    #[test]
    fn any_orchestration_sends_consistent_events_and_ends(
        plan in some_plan(),
        most in 1..6_usize,
        seconds in vec(0..9_u64, 14),
        fails_at in vec(prop::bool::weighted(0.15), 14),
        bad_plans in 0..3_usize,
        has_summary in any::<bool>(),
        cancelled_at in proptest::option::of(0..30_usize),
        tools_at in vec(any::<bool>(), 30),
    ) {
        let workers = (0..4).map(|it| worker(&format!("role{it}"), [None, Some(&["read_file"][..])][it % 2])).collect();
        let tasks = (0..plan.steps.len()).map(|it| {
            let says = if fails_at[it] { fails() } else { Ok(format!("result-{it};")) };
            (it, (seconds[it], says))
        });
        let plans = if bad_plans == 0 { vec![] } else { vec!["no".to_owned(); bad_plans.min(2)] };
        let plans: Vec<String> = plans.into_iter().chain([written(&plan)]).collect();
        let mut world = World::new(order(workers, most), &plans, tasks.collect());
        if !has_summary {
            world.summary = Err("it has crashed".to_owned());
        }
        let is_fallback = bad_plans == 2;
        let mut round = 0;
        loop {
            if cancelled_at == Some(round) {
                let todo = world.it.cancel(world.now);
                world.carry_out(todo);
                break;
            }
            if tools_at.get(round) == Some(&true) && let Some(asked) = world.asked.first() {
                let todo = world.it.heard(world.now, asked.conversation, WorkerEvent::Tool(Some("t".to_owned())));
                world.carry_out(todo);
            }
            round += 1;
            if !world.step() {
                break;
            }
        }
        prop_assert!(world.asked.is_empty() && world.it.end().is_some());
        prop_assert_eq!(world.closed.len(), world.open.len(), "a conversation is left open");
        // Late events have no effect.
        for conversation in 0..world.open.len() {
            prop_assert!(world.it.heard(world.now, conversation, WorkerEvent::Answer(Ok("late".to_owned()))).is_empty());
        }
        prop_assert!(world.it.cancel(world.now).is_empty());
        let plan = match is_fallback {
            true => Plan { steps: vec![Step { role: "role0".to_owned(), task: "the goal".to_owned(), needs: [].into() }] },
            false => plan,
        };
        check_events(&world, &plan)?;
        check_texts(&world, &plan)?;
        let outcome = world.it.outcome(world.now);
        prop_assert_eq!(outcome.summary.is_some(), has_summary && outcome.error.is_none() && outcome.state != End::Cancelled);
    }

    /// Without a limit, the duration is that of the longest chain of tasks.
    #[test]
    fn orchestration_takes_as_long_as_its_critical_path(plan in some_plan(), seconds in vec(1..99_u64, 14)) {
        let workers = (0..4).map(|it| worker(&format!("role{it}"), None)).collect();
        let tasks = (0..plan.steps.len()).map(|it| (it, (seconds[it], Ok("x".to_owned()))));
        let world = World::new(order(workers, 14), &[written(&plan)], tasks.collect()).run();
        prop_assert_eq!(world.seconds(), critical_path(&plan, |it| seconds[it]));
        prop_assert_eq!(world.it.end(), Some(End::Done));
    }
}

fn named(role: &str, task: &str, needs: &[usize]) -> Step {
    Step { role: role.to_owned(), task: task.to_owned(), needs: needs.iter().copied().collect() }
}

fn names(told: &[Notice]) -> Vec<String> {
    let name = |it: &Notice| {
        let it = json!(it);
        let state = it["state"].as_str().map(|it| format!(" {it}")).unwrap_or_default();
        let task = it["task"].as_u64().map(|it| format!(" {it}")).unwrap_or_default();
        format!("{}{task}{state}", it["event"].as_str().unwrap())
    };
    told.iter().map(name).collect()
}

#[test]
fn one_worker_does_goal_without_plan_or_summary() {
    let run = |comes_to: Result<String, String>| {
        let plan = Plan { steps: vec![named("b", "the goal", &[])] };
        let workers = vec![worker("a", None), worker("b", None)];
        let order = Order { tasks: Tasks::One(plan), ..order(workers, 2) };
        World::new(order, &[], [(0, (1, comes_to))].into()).run()
    };
    let world = run(Ok("it is so".to_owned()));
    assert_eq!(
        names(&world.told),
        [
            "planStarted",
            "planCompleted",
            "taskAssigned 0",
            "taskCompleted 0 done",
            "summarizeCompleted",
            "finished done"
        ]
    );
    let outcome = world.it.outcome(world.now);
    assert_eq!((outcome.state, outcome.summary.as_deref()), (End::Done, Some("it is so")));
    assert_eq!(world.open.len(), 1, "nobody else is asked");
    let outcome = {
        let world = run(fails());
        world.it.outcome(world.now)
    };
    assert_eq!((outcome.state, outcome.summary, outcome.error), (End::Failed, None, None));
}

#[test]
fn failed_task_starts_again_as_often_as_ordered() {
    let plan = Plan { steps: vec![named("a", "t0", &[]), named("a", "t1", &[0])] };
    let order = Order { retries: 2, ..order(vec![worker("a", None)], 2) };
    let world = World::new(order, &[written(&plan)], [(0, (1, fails()))].into()).run();
    let tasks: Vec<String> = names(&world.told).into_iter().filter(|it| it.starts_with("task")).collect();
    assert_eq!(
        tasks,
        [
            "taskAssigned 0",
            "taskRetried 0",
            "taskAssigned 0",
            "taskRetried 0",
            "taskAssigned 0",
            "taskCompleted 0 failed",
            "taskCompleted 1 skipped"
        ]
    );
    // Each attempt has a new conversation, which gets the reason.
    let asked: Vec<&String> = world.open.values().flatten().filter(|it| it.contains("t0")).collect();
    let told = |it: &&&String| it.contains("An earlier attempt at this task did not finish: it has crashed");
    assert_eq!(asked.iter().filter(told).count(), 2, "{asked:?}");
}

#[test]
fn task_that_succeeds_at_second_try_is_done() {
    let plan = Plan { steps: vec![named("a", "t0", &[])] };
    let order = Order { retries: 1, ..order(vec![worker("a", None)], 1) };
    let mut world = World::new(order, &[written(&plan)], [(0, (1, fails()))].into());
    // The planner answers, and the worker is asked, who fails. The next one does not.
    assert!(world.step());
    world.tasks.clear();
    let world = world.run();
    assert!(names(&world.told).contains(&"taskRetried 0".to_owned()));
    assert_eq!(world.it.outcome(world.now).state, End::Done);
}

#[test]
fn given_tasks_continue_where_they_ended() {
    let steps = vec![named("a", "t0", &[]), named("a", "t1", &[0]), named("a", "t2", &[1])];
    let before = vec![
        Before::Done("result of before".to_owned()),
        Before::Begun("lspool ended".to_owned()),
        Before::Nothing,
    ];
    let order = Order { tasks: Tasks::Given(Plan { steps }, before), ..order(vec![worker("a", None)], 2) };
    let world = World::new(order, &[], BTreeMap::new()).run();
    assert_eq!(
        names(&world.told),
        [
            "planStarted",
            "planCompleted",
            "taskCompleted 0 done",
            "taskAssigned 1",
            "taskCompleted 1 done",
            "taskAssigned 2",
            "taskCompleted 2 done",
            "summarizeCompleted",
            "finished done"
        ]
    );
    let first = &world.open[&0][0];
    assert!(first.contains("result of before") && first.contains("did not finish: lspool ended"), "{first}");
}

#[test]
fn cancelled_worker_fails_alone_and_is_not_retried() {
    let steps = vec![named("a", "t0", &[]), named("a", "t1", &[]), named("a", "t2", &[0])];
    let order = Order { retries: 3, ..order(vec![worker("a", None)], 2) };
    let mut world = World::new(order, &[written(&Plan { steps })], BTreeMap::new());
    while world.it.at_work().count() < 2 {
        assert!(world.step());
    }
    let conversation = world.it.at_work().find(|(_, task, ..)| *task == 0).unwrap().0;
    let todo = world.it.cancel_worker(world.now, conversation, "the user cancelled it");
    world.carry_out(todo);
    assert!(world.it.cancel_worker(world.now, conversation, "again").is_empty());
    let world = world.run();
    let ends: Vec<String> =
        names(&world.told).into_iter().filter(|it| it.starts_with("taskCompleted")).collect();
    assert_eq!(ends, ["taskCompleted 0 failed", "taskCompleted 2 skipped", "taskCompleted 1 done"]);
}
