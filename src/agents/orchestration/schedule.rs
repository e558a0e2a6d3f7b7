//! Decides which tasks of a plan start.
//!
//! There are no waves: **a task starts when its own dependencies are done**. If a task fails, the tasks that depend
//! on it are skipped, and no others. Under the limit, tasks with the longest chain of dependents start first.

use std::cmp::Reverse;

use super::plan::{Plan, Step};

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A dependency is not done, or the limit is reached.
    Waiting,
    /// A worker does it.
    Running,
    /// It is done, with this result.
    Done(String),
    /// It failed, for this reason.
    Failed(String),
    /// A dependency failed or was skipped.
    Skipped(String),
    /// It was cancelled before its end.
    Cancelled,
}

impl State {
    /// Whether the state is final.
    pub fn is_over(&self) -> bool {
        !matches!(self, State::Waiting | State::Running)
    }
}

/// The execution of a plan.
#[derive(Clone, Debug)]
pub struct Schedule {
    plan: Plan,
    states: Vec<State>,
    /// The length of the longest chain of dependents, for each task.
    heights: Vec<usize>,
    most: usize,
}

impl Schedule {
    /// A plan before its start. At most `most` tasks run at once.
    pub fn new(plan: Plan, most: usize) -> Schedule {
        let states = vec![State::Waiting; plan.steps.len()];
        let heights = heights(&plan.steps);
        Schedule { plan, states, heights, most: most.max(1) }
    }

    /// The tasks.
    pub fn steps(&self) -> &[Step] {
        &self.plan.steps
    }

    /// The state of each task.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// Starts tasks; returns them.
    pub fn start(&mut self) -> Vec<usize> {
        let running = self.states.iter().filter(|it| **it == State::Running).count();
        let is_ready = |it: &usize| {
            let mut needs = self.plan.steps[*it].needs.iter();
            self.states[*it] == State::Waiting && needs.all(|it| matches!(self.states[*it], State::Done(_)))
        };
        let mut ready: Vec<usize> = (0..self.states.len()).filter(is_ready).collect();
        ready.sort_by_key(|it| Reverse(self.heights[*it]));
        ready.truncate(self.most.saturating_sub(running));
        for at in &ready {
            self.states[*at] = State::Running;
        }
        ready
    }

    /// Ends a task. After a failure, returns the skipped tasks, each after its dependencies.
    pub fn end(&mut self, at: usize, result: Result<String, String>) -> Vec<usize> {
        if self.states.get(at) != Some(&State::Running) {
            return Vec::new();
        }
        self.states[at] = match result {
            Ok(result) => State::Done(result),
            Err(why) => State::Failed(why),
        };
        let mut skipped = Vec::new();
        while let Some((at, why)) = self.lost() {
            self.states[at] = State::Skipped(why);
            skipped.push(at);
        }
        skipped
    }

    /// A task was done before.
    pub fn was_done(&mut self, at: usize, result: String) {
        if let Some(state) = self.states.get_mut(at) {
            *state = State::Done(result);
        }
    }

    /// A running task is to start again.
    pub fn again(&mut self, at: usize) {
        if let Some(state) = self.states.get_mut(at).filter(|it| **it == State::Running) {
            *state = State::Waiting;
        }
    }

    /// A task that can never start, and why.
    fn lost(&self) -> Option<(usize, String)> {
        let waiting = (0..self.states.len()).filter(|it| self.states[*it] == State::Waiting);
        waiting.into_iter().find_map(|at| {
            let why = |it: &usize| match &self.states[*it] {
                State::Failed(_) => Some(format!("task {it} failed")),
                State::Skipped(_) => Some(format!("task {it} was skipped")),
                State::Waiting | State::Running | State::Done(_) | State::Cancelled => None,
            };
            self.plan.steps[at].needs.iter().find_map(why).map(|why| (at, why))
        })
    }

    /// Cancels everything. Returns the cancelled tasks.
    pub fn cancel(&mut self) -> Vec<usize> {
        let open: Vec<usize> = (0..self.states.len()).filter(|it| !self.states[*it].is_over()).collect();
        for at in &open {
            self.states[*at] = State::Cancelled;
        }
        open
    }

    /// The results of a task's dependencies, with their numbers.
    pub fn needed(&self, at: usize) -> Vec<(usize, &str)> {
        let Some(step) = self.plan.steps.get(at) else { return Vec::new() };
        let result = |it: &usize| match &self.states[*it] {
            State::Done(result) => Some((*it, result.as_str())),
            _ => None,
        };
        step.needs.iter().filter_map(result).collect()
    }

    /// Whether all tasks have ended.
    pub fn is_over(&self) -> bool {
        self.states.iter().all(State::is_over)
    }
}

/// The length of the longest chain of dependents, for each task. The plan has no cycles.
fn heights(steps: &[Step]) -> Vec<usize> {
    let mut heights = vec![0; steps.len()];
    loop {
        let mut changed = false;
        for (at, step) in steps.iter().enumerate() {
            for need in &step.needs {
                // A limit, in case of a cycle.
                if heights[*need] <= heights[at] && heights[at] < steps.len() {
                    heights[*need] = heights[at] + 1;
                    changed = true;
                }
            }
        }
        if !changed {
            return heights;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::agents::orchestration::plan::tests::plan;

    fn step(role: &str, needs: &[usize]) -> Step {
        Step { role: role.to_owned(), task: "x".to_owned(), needs: needs.iter().copied().collect() }
    }

    #[test]
    fn task_starts_when_its_own_dependencies_are_done() {
        // 0 → 2, 1 → 3: 2 does not wait for 1.
        let steps = vec![step("a", &[]), step("b", &[]), step("c", &[0]), step("d", &[1])];
        let mut it = Schedule::new(Plan { steps }, 9);
        assert_eq!(it.start(), [0, 1]);
        assert_eq!(it.end(0, Ok("zero".to_owned())), [0_usize; 0]);
        assert_eq!(it.start(), [2]);
        assert_eq!(it.needed(2), [(0, "zero")]);
        assert_eq!(it.end(1, Err("no".to_owned())), [3]);
        assert_eq!(it.states()[3], State::Skipped("task 1 failed".to_owned()));
        it.end(2, Ok(String::new()));
        assert!(it.is_over());
    }

    #[test]
    fn schedule_starts_longest_chain_first() {
        // 3 and 4 wait for 2, one after the other.
        let steps = vec![step("a", &[]), step("a", &[]), step("a", &[]), step("a", &[2]), step("a", &[3])];
        let mut it = Schedule::new(Plan { steps }, 2);
        assert_eq!(it.start(), [2, 0]);
        it.end(2, Ok(String::new()));
        assert_eq!(it.start(), [3]);
    }

    proptest! {
        /// For any order of ends, failures and cancellations, no task starts too early or twice, the limit holds, all
        /// tasks end, and only dependents of a failure are skipped.
        #[test]
        fn schedule_runs_any_plan_within_limits_to_its_end(
            plan in plan(),
            most in 1..5_usize,
            ends in vec((any::<u8>(), prop::bool::weighted(0.8)), 14),
            cancelled_at in proptest::option::of(0..14_usize),
        ) {
            let mut it = Schedule::new(plan.clone(), most);
            let mut running: Vec<usize> = Vec::new();
            let mut begun = BTreeSet::new();
            let mut ends = ends.into_iter().enumerate();
            loop {
                for at in it.start() {
                    prop_assert!(begun.insert(at), "{} starts twice", at);
                    let done = |it: &State| matches!(it, State::Done(_));
                    prop_assert!(plan.steps[at].needs.iter().all(|need| done(&it.states()[*need])));
                    prop_assert_eq!(it.needed(at).len(), plan.steps[at].needs.len());
                    running.push(at);
                }
                prop_assert!(running.len() <= most);
                // Every task that can run runs.
                for (at, step) in plan.steps.iter().enumerate() {
                    let is_ready = it.states()[at] == State::Waiting
                        && step.needs.iter().all(|need| matches!(it.states()[*need], State::Done(_)));
                    prop_assert!(!is_ready || running.len() == most, "{} could run", at);
                }
                if running.is_empty() {
                    break;
                }
                let (round, (which, is_done)) = ends.next().unwrap_or((0, (0, true)));
                if cancelled_at == Some(round) {
                    let before = it.states().to_vec();
                    let cancelled = it.cancel();
                    prop_assert_eq!(cancelled.len(), before.iter().filter(|it| !it.is_over()).count());
                    prop_assert!(it.is_over() && it.start().is_empty());
                    return Ok(());
                }
                let at = running.remove(usize::from(which) % running.len());
                let skipped = it.end(at, if is_done { Ok("r".to_owned()) } else { Err("e".to_owned()) });
                prop_assert!(!is_done || skipped.is_empty());
                prop_assert!(it.end(at, Ok("again".to_owned())).is_empty());
            }
            prop_assert!(it.is_over());
            for (at, step) in plan.steps.iter().enumerate() {
                let is_lost = step.needs.iter().any(|need| !matches!(it.states()[*need], State::Done(_)));
                prop_assert_eq!(matches!(it.states()[at], State::Skipped(_)), is_lost);
            }
        }
    }
}
