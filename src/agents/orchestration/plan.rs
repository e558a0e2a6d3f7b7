//! A plan: tasks for workers, with dependencies.
//!
//! A model writes it as JSON, perhaps with text around it ([`read`]). Reading finds all errors, which the model gets
//! with the request for a correction.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::util::json;

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The role of its worker.
    pub role: String,
    /// The task.
    pub task: String,
    /// The numbers of its dependencies, from 0.
    pub needs: BTreeSet<usize>,
}

/// Valid tasks: the roles exist, and there is no cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The tasks in the order of the plan.
    pub steps: Vec<Step>,
}

/// Reads the text of a model. `roles` are the valid roles; a plan has at most `most` tasks.
pub fn read(text: &str, roles: &[&str], most: usize) -> Result<Plan, Vec<String>> {
    checked(&find(text).map_err(|it| vec![it])?, roles, most)
}

/// The same of tasks that are there already.
pub fn checked(items: &[Value], roles: &[&str], most: usize) -> Result<Plan, Vec<String>> {
    let mut problems = Vec::new();
    if items.is_empty() {
        problems.push("the plan has no tasks".to_owned());
    }
    if items.len() > most {
        problems.push(format!("the plan has {} tasks; the limit is {most}", items.len()));
    }
    let n = items.len();
    let steps: Vec<Step> =
        items.iter().enumerate().map(|(at, it)| step(at, n, it, roles, &mut problems)).collect();
    for (at, step) in steps.iter().enumerate() {
        let same = |it: &&Step| it.role == step.role && it.task == step.task && !step.task.is_empty();
        if let Some(first) = steps[..at].iter().position(|it| same(&it)) {
            problems.push(format!("task {at} repeats task {first}"));
        }
    }
    if problems.is_empty()
        && let Some(cycle) = cycle(&steps)
    {
        let cycle: Vec<String> = cycle.iter().map(ToString::to_string).collect();
        problems.push(format!("tasks {} depend on each other in a cycle", cycle.join(", ")));
    }
    if problems.is_empty() { Ok(Plan { steps }) } else { Err(problems) }
}

/// Thinking tags of models.
const THOUGHTS: [&str; 4] = ["think", "thinking", "thought", "reasoning"];

/// How many levels of arrays and objects are read.
const DEPTH: usize = 16;

/// The first array of objects in a text with anything around it, or the error. Text in thinking tags does not count.
fn find(text: &str) -> Result<Vec<Value>, String> {
    let thoughts = thoughts(text);
    let is_said = |at: &usize| !thoughts.iter().any(|it| it.contains(at));
    let starts = text.match_indices('[').map(|(at, _)| at).filter(is_said);
    let (mut empty, mut broken) = (None, None);
    for text in starts.map(|at| &text[at..]) {
        match array(text) {
            Ok(items) if items.is_empty() => empty = Some(items),
            Ok(items) if items.iter().all(Value::is_object) => return Ok(items),
            Ok(_) => {}
            Err(why) if text[1..].trim_start().starts_with(['{', '/']) => {
                broken.get_or_insert(why);
            }
            Err(_) => {}
        }
    }
    let none = || {
        "found no JSON array of tasks such as [{\"worker_role\": …, \"task\": …, \"depends_on\": []}]"
            .to_owned()
    };
    match (empty, broken) {
        (Some(empty), None) => Ok(empty),
        (_, Some(why)) => Err(format!("the JSON array is invalid: {why}")),
        (None, None) => Err(none()),
    }
}

/// The spans of a text in thinking tags. A tag counts only at the beginning of a line, because a task may mention
/// one. A span may begin before the text or end after it.
fn thoughts(text: &str) -> Vec<std::ops::Range<usize>> {
    let (mut spans, mut begun, mut at) = (Vec::new(), None, 0);
    for line in text.split_inclusive('\n') {
        let start = at + line.len() - line.trim_start().len();
        let mut rest = line.trim_start();
        if let Some(after) = tag(rest, "<") {
            begun.get_or_insert(start);
            rest = after;
        }
        let close = match begun {
            Some(_) => rest.match_indices("</").find_map(|(at, _)| tag(&rest[at..], "</")),
            None => tag(rest, "</"),
        };
        if let Some(after) = close {
            let end = at + line.len() - after.len();
            spans.push(begun.take().unwrap_or(0)..end);
        }
        at += line.len();
    }
    spans.extend(begun.map(|from| from..text.len()));
    spans
}

/// The text after one of the tags, if the text begins with it.
fn tag<'a>(text: &'a str, opening: &str) -> Option<&'a str> {
    let (name, after) = text.strip_prefix(opening)?.split_once('>')?;
    THOUGHTS.iter().any(|it| name.trim().eq_ignore_ascii_case(it)).then_some(after)
}

/// The array at the beginning of a text. Comments and a trailing comma are allowed.
fn array(text: &str) -> Result<Vec<Value>, String> {
    if let Some(Ok(Value::Array(items))) =
        serde_json::Deserializer::from_str(text).into_iter::<Value>().next()
    {
        return Ok(items);
    }
    json::read(&plain(text)).map_err(|it| it.to_string())
}

/// The array at the beginning of a text, with blanks instead of comments and trailing commas, so that positions stay.
fn plain(text: &str) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    let (mut at, mut depth, mut comma) = (0, 0_usize, None);
    let blank = |out: &mut Vec<u8>, from: usize, to: usize| {
        out[from..to].iter_mut().filter(|it| !it.is_ascii_whitespace()).for_each(|it| *it = b' ');
    };
    while let Some(&byte) = out.get(at) {
        let rest = &text.as_bytes()[at..];
        let end = |of: &[u8]| memchr::memmem::find(&rest[1..], of).map_or(out.len(), |it| at + 1 + it);
        match byte {
            b'"' => {
                comma = None;
                at = string_end(rest).map_or(out.len(), |it| at + it);
                continue;
            }
            b'/' if rest.starts_with(b"//") => {
                let end = end(b"\n");
                blank(&mut out, at, end);
                at = end;
                continue;
            }
            b'/' if rest.starts_with(b"/*") => {
                let end = end(b"*/").saturating_add(2).min(out.len());
                blank(&mut out, at, end);
                at = end;
                continue;
            }
            b'[' | b'{' => (depth, comma) = (depth + 1, None),
            b']' | b'}' => {
                if let Some(comma) = comma.take() {
                    blank(&mut out, comma, comma + 1);
                }
                depth = depth.saturating_sub(1);
            }
            b',' => comma = Some(at),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => comma = None,
        }
        at += 1;
        if depth == 0 || depth > DEPTH {
            out.truncate(at);
        }
    }
    out
}

/// The end of the string at the beginning of the text.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        match text[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

fn step(at: usize, n: usize, item: &Value, roles: &[&str], problems: &mut Vec<String>) -> Step {
    let role = item["worker_role"].as_str().unwrap_or_default().to_owned();
    if !roles.contains(&&*role) {
        let roles = roles.join(", ");
        problems.push(match role.is_empty() {
            true => format!("task {at}: `worker_role` is missing; use one of {roles}"),
            false => format!("task {at}: unknown `worker_role` {role:?}; use one of {roles}"),
        });
    }
    let task = item["task"].as_str().map(str::trim).unwrap_or_default().to_owned();
    if task.is_empty() {
        problems.push(format!("task {at}: `task` is missing"));
    }
    let mut needs = BTreeSet::new();
    match &item["depends_on"] {
        Value::Null => {}
        Value::Array(items) => {
            for it in items {
                match it.as_u64().and_then(|it| usize::try_from(it).ok()).filter(|it| *it < n) {
                    Some(it) if it == at => {
                        problems.push(format!("task {at}: `depends_on` contains the task itself"));
                    }
                    Some(it) => drop(needs.insert(it)),
                    None => problems.push(format!(
                        "task {at}: `depends_on` contains {it}, which is not the \
                                                   number of a task"
                    )),
                }
            }
        }
        _ => problems.push(format!("task {at}: `depends_on` must be a list of numbers")),
    }
    Step { role, task, needs }
}

/// Finds tasks that wait for one another.
fn cycle(steps: &[Step]) -> Option<Vec<usize>> {
    let mut left: BTreeMap<usize, BTreeSet<usize>> =
        steps.iter().map(|it| it.needs.clone()).enumerate().collect();
    loop {
        let free: Vec<usize> = left.iter().filter(|(_, needs)| needs.is_empty()).map(|(at, _)| *at).collect();
        if free.is_empty() {
            break;
        }
        for at in &free {
            left.remove(at);
        }
        for needs in left.values_mut() {
            needs.retain(|it| !free.contains(it));
        }
    }
    // A task that only waits for a cycle is not in it.
    loop {
        let before = left.len();
        let needed: BTreeSet<usize> = left.values().flatten().copied().collect();
        left.retain(|at, _| needed.contains(at));
        if left.len() == before {
            break;
        }
    }
    (!left.is_empty()).then(|| left.into_keys().collect())
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const ROLES: [&str; 3] = ["coder", "reviewer", "tester"];

    fn problems(text: &str) -> Vec<String> {
        read(text, &ROLES, 4).unwrap_err()
    }

    #[test]
    fn plan_parser_ignores_text_around_the_plan() {
        let plan = r#"[{"worker_role": "coder", "task": "a"}, {"worker_role": "tester", "task": "b [x]", "depends_on": [0]}]"#;
        let bare = read(plan, &ROLES, 4).unwrap();
        for text in [
            format!("```json\n{plan}\n```"),
            format!("Here [as you asked] is the plan:\n{plan}\nI hope it helps [really]."),
            format!("Not [1, 2] but\n\n{plan}"),
            format!("[] or rather {plan}"),
        ] {
            assert_eq!(read(&text, &ROLES, 4).as_ref(), Ok(&bare), "{text}");
        }
        assert_eq!(bare.steps[1].needs, [0].into());
    }

    #[test]
    fn plan_parser_leaves_thoughts_out() {
        let plan = r#"[{"worker_role": "coder", "task": "strip <think>a</think> tags"}]"#;
        let draft = r#"[{"worker_role": "tester", "task": "draft"}]"#;
        let bare = read(plan, &ROLES, 4).unwrap();
        for text in [
            format!("<think>\nPerhaps {draft}?\n</think>\n{plan}"),
            format!("<Thinking>{draft}</Thinking>{plan}"),
            format!("Maybe {draft}\n</think>\n\n{plan}"),
            format!("{plan}\n<reasoning>\nor {draft}"),
        ] {
            assert_eq!(read(&text, &ROLES, 4).as_ref(), Ok(&bare), "{text}");
        }
        assert!(problems(&format!("<think>\n{draft}\n</think>\nI cannot."))[0].contains("no JSON array"));
        assert!(problems(&format!("<think>\n{draft}"))[0].contains("no JSON array"));
    }

    #[test]
    fn plan_parser_reads_comments_and_trailing_commas() {
        let plan = r#"[{"worker_role": "coder", "task": "see http://a/*b*/, ]"}, {"worker_role": "tester", "task": "a\ud83d", "depends_on": [0]}]"#;
        let loose = r#"[ // the plan
            {"worker_role": "coder", "task": "see http://a/*b*/, ]",}, /* then,
            ] */ {"worker_role": "tester", "task": "a\ud83d", "depends_on": [0, ], },
        ] // [{}]"#;
        let read_loosely = read(loose, &ROLES, 4).unwrap();
        assert_eq!(read(plan, &ROLES, 4).unwrap(), read_loosely);
        assert_eq!(read_loosely.steps[1].task, "a\u{fffd}");
        assert_eq!(
            problems("Here:\n[{\"worker_role\": \"coder\",\n \"task\": \"a\" \"b\"}]"),
            ["the JSON array is invalid: expected `,` or `}` at line 2 column 14"]
        );
    }

    #[test]
    fn plan_parser_reports_every_problem() {
        assert!(problems("I cannot do that.")[0].contains("no JSON array"));
        assert_eq!(problems("[]"), ["the plan has no tasks"]);
        let text = r#"[{"worker_role": "boss", "task": "a", "depends_on": [0, 7, "x"]}, {"task": " ", "depends_on": 1},
            {"worker_role": "coder", "task": "a"}, {"worker_role": "coder", "task": "a"}, {"worker_role": "coder", "task": "b"}]"#;
        assert_eq!(
            problems(text),
            [
                "the plan has 5 tasks; the limit is 4",
                "task 0: unknown `worker_role` \"boss\"; use one of coder, reviewer, tester",
                "task 0: `depends_on` contains the task itself",
                "task 0: `depends_on` contains 7, which is not the number of a task",
                "task 0: `depends_on` contains \"x\", which is not the number of a task",
                "task 1: `worker_role` is missing; use one of coder, reviewer, tester",
                "task 1: `task` is missing",
                "task 1: `depends_on` must be a list of numbers",
                "task 3 repeats task 2",
            ]
        );
        let text = r#"[{"worker_role": "coder", "task": "a", "depends_on": [1]}, {"worker_role": "coder", "task": "b", "depends_on": [0]},
            {"worker_role": "coder", "task": "c", "depends_on": [1]}, {"worker_role": "coder", "task": "d"}]"#;
        assert_eq!(problems(text), ["tasks 0, 1 depend on each other in a cycle"]);
    }

    /// Plans without cycles: each task depends on earlier ones.
    pub(in crate::agents) fn plan() -> impl Strategy<Value = Plan> {
        let step = (0..4_usize, vec(any::<u8>(), 0..4));
        vec(step, 1..14).prop_map(|steps| {
            let step = |(at, (role, needs)): (usize, (usize, Vec<u8>))| Step {
                role: format!("role{role}"),
                task: format!("task {at}"),
                needs: needs.iter().filter(|_| at > 0).map(|it| usize::from(*it) % at.max(1)).collect(),
            };
            Plan { steps: steps.into_iter().enumerate().map(step).collect() }
        })
    }

    proptest! {
        #[test]
        fn plan_parser_returns_plan_or_reasons_for_any_text(text in "\\PC{0,60}|\\[\\{[ -~]{0,40}\\}\\]|\\[\\{[/*\\[\\]{},\"\\\\ a\n]{0,40}|<think>[</>a-z\n\\[]{0,30}") {
            match read(&text, &ROLES, 4) {
                Ok(plan) => prop_assert!(!plan.steps.is_empty()),
                Err(problems) => prop_assert!(!problems.is_empty()),
            }
        }

        /// Reading restores a written plan, and a plan with a cycle is an error.
        #[test]
        fn plan_parser_reads_written_plans_and_refuses_cycles(
            plan in plan(),
            back in any::<prop::sample::Index>(),
        ) {
            let text = |plan: &Plan| {
                let step = |it: &Step| serde_json::json!({"worker_role": it.role, "task": it.task, "depends_on": it.needs});
                plan.steps.iter().map(step).collect::<Value>().to_string()
            };
            let roles = ["role0", "role1", "role2", "role3"];
            prop_assert_eq!(read(&text(&plan), &roles, 20), Ok(plan.clone()));
            let edges: Vec<(usize, usize)> =
                plan.steps.iter().enumerate().flat_map(|(at, it)| it.needs.iter().map(move |need| (at, *need))).collect();
            if !edges.is_empty() {
                let (at, need) = edges[back.index(edges.len())];
                let mut cyclic = plan;
                cyclic.steps[need].needs.insert(at);
                let problems = read(&text(&cyclic), &roles, 20).unwrap_err();
                prop_assert!(problems[0].ends_with("depend on each other in a cycle"), "{problems:?}");
            }
        }
    }
}
