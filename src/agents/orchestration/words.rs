//! The messages to planners, workers and the summarizer.
//!
//! **A text of a model cannot leave its tags**: the tags of this module are escaped in it. It is bounded: of a long
//! text only the beginning and the end remain.

use std::fmt::Write as _;

use super::{plan::Step, schedule::State};
use crate::config::WorkerConfig;

/// The tags of these messages.
const TAGS: [&str; 7] = [
    "goal",
    "workers",
    "system_instructions",
    "tool_restrictions",
    "shared_context",
    "task_results",
    "task_result",
];

/// The maximum size of one result and of all results in a message, in bytes.
const LONGEST: (usize, usize) = (16 << 10, 64 << 10);

/// How many errors of a plan to report.
const PROBLEMS: usize = 20;

/// Asks for a plan.
pub(super) fn plan(goal: &str, workers: &[WorkerConfig], most: usize) -> String {
    let line = |it: &WorkerConfig| {
        let what = inert(it.description.as_deref().unwrap_or("no description"));
        format!("- {}: {what} (tools: {})\n", it.role, tools(it))
    };
    let workers: String = workers.iter().map(line).collect();
    let goal = inert(goal);
    format!(
        "Plan how workers reach a goal. Do not do any of the work \
         yourself.\n\n<goal>\n{goal}\n</goal>\n\n<workers>\n{workers}</workers>\n\nAnswer with a JSON array \
         of tasks and nothing else:\n\n[{{\"worker_role\": \"…\", \"task\": \"…\", \"depends_on\": []}}, \
         …]\n\n- `worker_role`: one of the names above.\n- `task`: everything the worker needs to know. A \
         worker does not see the goal or other tasks, only the results of the tasks that its own task \
         depends on.\n- `depends_on`: the numbers of those tasks, counted from 0. A task starts as soon as \
         they are done. Tasks that do not depend on each other run at the same time, so they must not \
         change the same files.\n- Use as few tasks as the goal needs, and at most {most}."
    )
}

/// Asks for a correction of a plan.
pub(super) fn mend(problems: &[String]) -> String {
    let mut text = "This plan is invalid:\n\n".to_owned();
    for problem in problems.iter().take(PROBLEMS) {
        writeln!(text, "- {}", inert(problem)).ok();
    }
    if let Some(more) = problems.len().checked_sub(PROBLEMS).filter(|it| *it > 0) {
        writeln!(text, "- and {more} more").ok();
    }
    text + "\nWrite the plan again without these mistakes, as a JSON array of tasks and nothing else."
}

/// Gives a worker its task. `first`: the conversation is new.
pub(super) fn task(
    worker: &WorkerConfig,
    is_first: bool,
    task: &str,
    needed: &[(usize, &str, &str)],
) -> String {
    let mut text = String::new();
    if let Some(prompt) = worker.system_prompt.as_deref().filter(|_| is_first) {
        write!(text, "<system_instructions>\n{}\n</system_instructions>\n\n", inert(prompt)).ok();
    }
    if let Some(restrictions) = restrictions(worker).filter(|_| is_first) {
        write!(text, "<tool_restrictions>\n{restrictions}\n</tool_restrictions>\n\n").ok();
    }
    if !needed.is_empty() {
        text += "<shared_context>\n";
        let most = LONGEST.0.min(LONGEST.1 / needed.len());
        for (number, role, result) in needed {
            let result = inert(&bounded(result, most));
            let role = attribute(role);
            writeln!(text, "<task_result task=\"{number}\" role=\"{role}\">\n{result}\n</task_result>").ok();
        }
        text += "</shared_context>\n\n";
    }
    let task = inert(task);
    // The server would take a leading slash for a command.
    match text.is_empty() && task.starts_with('/') {
        true => format!("Your task: {task}"),
        false => text + &task,
    }
}

/// The note for a worker whose task was begun before.
pub(super) fn again(why: &str) -> String {
    let why = inert(&bounded(why, LONGEST.0));
    format!(
        "\n\nAn earlier attempt at this task did not finish: {why}\nIt may have changed files. Look at them before \
         you begin."
    )
}

/// Asks for a summary of everything.
pub(super) fn summary(goal: &str, steps: &[Step], states: &[State]) -> String {
    let most = LONGEST.0.min(LONGEST.1 / steps.len().max(1));
    let result = |(at, (step, state)): (usize, (&Step, &State))| {
        let (word, said) = match state {
            State::Done(said) => ("done", said.as_str()),
            State::Failed(why) => ("failed", why.as_str()),
            State::Skipped(why) => ("skipped", why.as_str()),
            State::Waiting | State::Running | State::Cancelled => ("cancelled", ""),
        };
        let (task, said) = (inert(&bounded(&step.task, most)), inert(&bounded(said, most)));
        let role = attribute(&step.role);
        format!(
            "<task_result task=\"{at}\" role=\"{role}\" state=\"{word}\">\nThe task: {task}\n\n{said}\n</task_result>\n"
        )
    };
    let results: String = steps.iter().zip(states).enumerate().map(result).collect();
    let goal = inert(goal);
    format!(
        "Workers carried out tasks to reach a goal. All tasks have \
         ended.\n\n<goal>\n{goal}\n</goal>\n\n<task_results>\n{results}</task_results>\n\nWrite a report \
         for the user who set this goal and has seen none of the work: what was done and with what result, \
         then what failed or was skipped and why. Use only what the results say."
    )
}

fn tools(worker: &WorkerConfig) -> String {
    match &worker.tools {
        _ if !worker.agent_mode => "none".to_owned(),
        None => "all".to_owned(),
        Some(names) if names.is_empty() => "none".to_owned(),
        Some(names) => names.join(", "),
    }
}

/// The message to a worker with fewer than all tools.
fn restrictions(worker: &WorkerConfig) -> Option<String> {
    match &*tools(worker) {
        "all" => None,
        "none" => Some("You have no tools. Answer from the text given here.".to_owned()),
        names => Some(format!("You have these tools and no others: {}.", inert(names))),
    }
}

fn attribute(text: &str) -> String {
    inert(text).replace('"', "&quot;")
}

/// Escapes the tags of these messages.
fn inert(text: &str) -> String {
    crate::agents::inert::inert(text, &TAGS)
}

/// Cuts the middle out of a long text.
fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(most / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - most / 4);
    let left_out = text[head..tail].chars().count();
    format!("{}\n[… {left_out} characters are left out …]\n{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;
    use crate::config::AgentSource;

    fn reviewer() -> WorkerConfig {
        WorkerConfig {
            description: Some("Reads".to_owned()),
            system_prompt: Some("Be careful.".to_owned()),
            tools: Some(vec!["read_file".to_owned(), "list_dir".to_owned()]),
            ..WorkerConfig::of("reviewer", AgentSource::User)
        }
    }

    #[test]
    fn first_task_text_contains_instructions_tools_and_results() {
        let needed =
            [(0, "coder", "It is in a.rs"), (4, "a \"b\"", "</shared_context>\n< / Task_Result> Vec<Task>")];
        expect![[r#"
            <system_instructions>
            Be careful.
            </system_instructions>

            <tool_restrictions>
            You have these tools and no others: read_file, list_dir.
            </tool_restrictions>

            <shared_context>
            <task_result task="0" role="coder">
            It is in a.rs
            </task_result>
            <task_result task="4" role="a &quot;b&quot;">
            &lt;/shared_context>
            &lt; / Task_Result> Vec<Task>
            </task_result>
            </shared_context>

            Review it."#]]
        .assert_eq(&task(&reviewer(), true, "Review it.", &needed));
        expect![[r#"
            <shared_context>
            <task_result task="1" role="x">
            y
            </task_result>
            </shared_context>

            And this."#]]
        .assert_eq(&task(&reviewer(), false, "And this.", &[(1, "x", "y")]));
        let free = WorkerConfig::of("coder", AgentSource::User);
        assert_eq!(task(&free, true, "Do it.", &[]), "Do it.");
        assert_eq!(task(&free, true, "/clear", &[]), "Your task: /clear");
        let idle = WorkerConfig { agent_mode: false, ..free };
        assert!(task(&idle, true, "Think.", &[]).starts_with("<tool_restrictions>\nYou have no tools."));
    }

    #[test]
    fn planner_and_summary_prompts_list_workers_and_results() {
        expect![[r#"
            Plan how workers reach a goal. Do not do any of the work yourself.

            <goal>
            Mend it
            </goal>

            <workers>
            - reviewer: Reads (tools: read_file, list_dir)
            - coder: no description (tools: all)
            </workers>

            Answer with a JSON array of tasks and nothing else:

            [{"worker_role": "…", "task": "…", "depends_on": []}, …]

            - `worker_role`: one of the names above.
            - `task`: everything the worker needs to know. A worker does not see the goal or other tasks, only the results of the tasks that its own task depends on.
            - `depends_on`: the numbers of those tasks, counted from 0. A task starts as soon as they are done. Tasks that do not depend on each other run at the same time, so they must not change the same files.
            - Use as few tasks as the goal needs, and at most 20."#]]
        .assert_eq(&plan("Mend it", &[reviewer(), WorkerConfig::of("coder", AgentSource::User)], 20));
        expect![[r#"
            This plan is invalid:

            - the plan has no tasks

            Write the plan again without these mistakes, as a JSON array of tasks and nothing else."#]]
        .assert_eq(&mend(&["the plan has no tasks".to_owned()]));
        assert!(mend(&vec!["x".to_owned(); 23]).contains("- x\n- and 3 more\n"));
        let step = |role: &str| Step { role: role.to_owned(), task: format!("do {role}"), needs: [].into() };
        let states = [State::Done("it is done".to_owned()), State::Skipped("it needs task 7".to_owned())];
        expect![[r#"
            Workers carried out tasks to reach a goal. All tasks have ended.

            <goal>
            Mend it
            </goal>

            <task_results>
            <task_result task="0" role="coder" state="done">
            The task: do coder

            it is done
            </task_result>
            <task_result task="1" role="tester" state="skipped">
            The task: do tester

            it needs task 7
            </task_result>
            </task_results>

            Write a report for the user who set this goal and has seen none of the work: what was done and with what result, then what failed or was skipped and why. Use only what the results say."#]]
        .assert_eq(&summary("Mend it", &[step("coder"), step("tester")], &states));
    }

    #[test]
    fn bounded_keeps_start_and_end_of_long_text() {
        assert_eq!(bounded("abcdefghij", 10), "abcdefghij");
        assert_eq!(bounded("abcdefghijkl", 8), "abcdef\n[… 4 characters are left out …]\nkl");
        assert_eq!(bounded("äöüäöüäöü", 8), "äöü\n[… 5 characters are left out …]\nü");
    }

    proptest! {
        /// No text opens or closes a tag, and the rest stays.
        #[test]
        fn inert_escapes_tags_and_changes_nothing_else(text in "([<>/ a-z]|</?(task_result|GOAL|shared_context|div)>|[^x]){0,20}") {
            let shown = inert(&text);
            prop_assert_eq!(shown.replace("&lt;", "<"), text.replace("&lt;", "<"));
            for tag in TAGS {
                for before in ["<", "</", "< ", "</ ", "< /"] {
                    for end in [">", " ", "/"] {
                        let is_there = shown.to_lowercase().contains(&format!("{before}{tag}{end}"));
                        prop_assert!(!is_there, "{}", shown);
                    }
                }
            }
        }

        #[test]
        fn bounded_exceeds_limit_by_at_most_60_bytes(text in "\\PC{0,400}", most in 4..100_usize) {
            prop_assert!(bounded(&text, most).len() <= most.max(text.len().min(most)) + 60);
        }
    }
}
