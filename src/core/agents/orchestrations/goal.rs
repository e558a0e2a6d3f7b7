//! Reads the goal of an orchestration from a request. An error is one sentence.

use serde_json::{Value, json};

use crate::{
    agents::orchestration::{
        Before, Tasks,
        plan::{self, Plan, Step},
    },
    config::{AgentSource, WorkerConfig, nearest},
    core::{agents::conversations::INHERITED, ids::Token},
    rpc::member,
    util::json,
};

/// `lspool/orchestrate`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GoalRequest {
    pub(super) goal: String,
    /// The workers in the given order, at least one.
    pub(super) workers: Vec<WorkerConfig>,
    pub(super) model: Option<String>,
    pub(super) max_parallel: Option<usize>,
    pub(super) retries: Option<usize>,
    /// Where its tasks come from.
    pub(super) tasks: Tasks,
    /// The editor wants to see what workers write.
    pub(super) events: bool,
    pub(super) token: Option<Token>,
}

impl GoalRequest {
    /// Reads the parameters. `known` are the configured workers.
    pub(super) fn read(params: &[u8], known: &[WorkerConfig]) -> Result<GoalRequest, String> {
        let asked: Value = json::read(params).map_err(|_| "`params` must be an object")?;
        let keys = asked.as_object().ok_or("`params` must be an object")?.keys();
        let is_known = |it: &&String| KEYS.iter().chain(&INHERITED).any(|known| known == it);
        if let Some(key) = keys.into_iter().find(|it| !is_known(it)) {
            let hint = match nearest(key, KEYS) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("expected one of {}", KEYS.join(", ")),
            };
            return Err(format!("unknown key {key:?}; {hint}"));
        }
        let goal = text(&asked, "goal")?.ok_or("`goal` is missing: put the goal there")?;
        let max_parallel = match given(&asked, "maxParallel") {
            None => None,
            Some(it) => {
                let n = it.as_u64().and_then(|it| usize::try_from(it).ok()).filter(|it| *it > 0);
                Some(n.ok_or("`maxParallel` must be an integer of at least 1")?)
            }
        };
        let retries = match given(&asked, "retries") {
            None => None,
            Some(it) => {
                let n = it.as_u64().and_then(|it| usize::try_from(it).ok());
                Some(n.ok_or("`retries` must be an integer of at least 0")?)
            }
        };
        let events = match given(&asked, "events") {
            None => false,
            Some(it) => it.as_bool().ok_or("`events` must be true or false")?,
        };
        let workers = workers(given(&asked, "workers"), known)?;
        let tasks = match (text(&asked, "worker")?, given(&asked, "tasks")) {
            (None, None) => Tasks::Planned,
            (Some(role), None) => Tasks::One(one(&role, &goal, &workers)?),
            (None, Some(tasks)) => prepared(tasks, &workers)?,
            (Some(_), Some(_)) => return Err("give `worker` or `tasks`, not both".to_owned()),
        };
        let token = member(params, "workDoneToken").and_then(|it| Token::from_raw(&params[it]));
        Ok(GoalRequest {
            goal,
            workers,
            model: text(&asked, "model")?,
            max_parallel,
            retries,
            tasks,
            events,
            token: token.filter(|it| !it.as_ref().is_null()),
        })
    }
}

/// What a request may say; beside it, what the conversations that work for it inherit.
const KEYS: [&str; 10] = [
    "goal",
    "workers",
    "worker",
    "tasks",
    "model",
    "modelInfo",
    "maxParallel",
    "retries",
    "events",
    "workDoneToken",
];

/// How many tasks a request may bring. No model has to be kept from making too many.
const MOST: usize = 1000;

fn given<'a>(of: &'a Value, key: &str) -> Option<&'a Value> {
    of.get(key).filter(|it| !it.is_null())
}

fn text(of: &Value, key: &str) -> Result<Option<String>, String> {
    match given(of, key) {
        None => Ok(None),
        Some(Value::String(it)) if !it.trim().is_empty() => Ok(Some(it.clone())),
        Some(Value::String(_)) => Err(format!("{key} is empty")),
        Some(_) => Err(format!("`{key}` must be a string")),
    }
}

/// The goal as the only task of one worker.
fn one(role: &str, goal: &str, workers: &[WorkerConfig]) -> Result<Plan, String> {
    let role = named(role, workers)?.role;
    Ok(Plan { steps: vec![Step { role, task: goal.to_owned(), needs: [].into() }] })
}

/// Tasks as a result lists them. Those that are done stay so.
fn prepared(tasks: &Value, workers: &[WorkerConfig]) -> Result<Tasks, String> {
    let tasks = tasks.as_array().ok_or("`tasks` must be a list of tasks, like `tasks` of a result")?;
    let written = |it: &Value| json!({"worker_role": it["role"], "task": it["text"], "depends_on": given(it, "dependsOn").unwrap_or(&json!([]))});
    let written: Vec<Value> = tasks.iter().map(written).collect();
    let roles: Vec<&str> = workers.iter().map(|it| it.role.as_str()).collect();
    let plan = plan::checked(&written, &roles, MOST).map_err(|it| format!("`tasks`: {}", it.join("; ")))?;
    let before = |it: &Value| match (it["state"].as_str(), it["result"].as_str(), it["reason"].as_str()) {
        (Some("done"), Some(result), _) => Before::Done(result.to_owned()),
        (Some("skipped"), _, _) | (_, _, None) => Before::Nothing,
        (_, _, Some(reason)) => Before::Begun(reason.to_owned()),
    };
    Ok(Tasks::Given(plan, tasks.iter().map(before).collect()))
}

fn workers(asked: Option<&Value>, known: &[WorkerConfig]) -> Result<Vec<WorkerConfig>, String> {
    const SHAPE: &str = "`workers` must be a list of roles or of {\"role\": …} objects";
    let Some(asked) = asked else {
        let all: Vec<_> = known.iter().filter(|it| it.enabled).cloned().collect();
        return if all.is_empty() { Err("every worker is disabled".to_owned()) } else { Ok(all) };
    };
    let mut workers: Vec<WorkerConfig> = Vec::new();
    for it in asked.as_array().ok_or(SHAPE)? {
        let worker = match it {
            Value::String(role) => named(role, known)?,
            Value::Object(_) => defined(it, known)?,
            _ => return Err(SHAPE.to_owned()),
        };
        if workers.iter().any(|it| it.role == worker.role) {
            return Err(format!("`workers` names {:?} twice", worker.role));
        }
        workers.push(worker);
    }
    workers.retain(|it| it.enabled);
    if workers.is_empty() { Err("`workers` must not be empty".to_owned()) } else { Ok(workers) }
}

fn named(role: &str, known: &[WorkerConfig]) -> Result<WorkerConfig, String> {
    match known.iter().find(|it| it.role == role) {
        Some(it) if it.enabled => Ok(it.clone()),
        Some(_) => Err(format!("the configuration disables worker {role:?}")),
        None => {
            let roles: Vec<_> = known.iter().map(|it| it.role.as_str()).collect();
            Err(format!("unknown worker {role:?}; use one of {}", roles.join(", ")))
        }
    }
}

/// A worker in the request. A known one keeps its other settings.
fn defined(it: &Value, known: &[WorkerConfig]) -> Result<WorkerConfig, String> {
    const KEYS: [&str; 7] = ["role", "description", "systemPrompt", "model", "tools", "agentMode", "enabled"];
    let role = text(it, "role")?.ok_or("a worker lacks `role`")?;
    let of = |problem: String| format!("worker {role:?}: {problem}");
    let fresh = || WorkerConfig::of(&role, AgentSource::User);
    let mut worker = known.iter().find(|it| it.role == role).cloned().unwrap_or_else(fresh);
    // A worker in the request is enabled by that.
    worker.enabled = true;
    if let Some(key) = it.as_object().and_then(|it| it.keys().find(|it| !KEYS.contains(&it.as_str()))) {
        return Err(of(format!("unknown key {key:?}; expected one of {}", KEYS.join(", "))));
    }
    for (key, field) in [
        ("description", &mut worker.description),
        ("systemPrompt", &mut worker.system_prompt),
        ("model", &mut worker.model),
    ] {
        if let Some(text) = text(it, key).map_err(of)? {
            *field = Some(text);
        }
    }
    for (key, field) in [("agentMode", &mut worker.agent_mode), ("enabled", &mut worker.enabled)] {
        if let Some(flag) = given(it, key) {
            *field = flag.as_bool().ok_or_else(|| of(format!("`{key}` must be true or false")))?;
        }
    }
    if let Some(tools) = given(it, "tools") {
        let tools = serde_json::from_value::<Vec<String>>(tools.clone());
        worker.tools = Some(tools.map_err(|_| of("`tools` must be a list of names".to_owned()))?);
    }
    Ok(worker)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Config;

    fn read(params: &Value) -> Result<GoalRequest, String> {
        let mut known = Config::default().workers;
        known.push(WorkerConfig { enabled: false, ..WorkerConfig::of("off", AgentSource::User) });
        GoalRequest::read(params.to_string().as_bytes(), &known)
    }

    #[test]
    fn orchestrate_params_accept_named_and_defined_workers() {
        let roles = |it: &GoalRequest| it.workers.iter().map(|it| it.role.clone()).collect::<Vec<_>>();
        let all = read(&json!({"goal": "g", "workers": null})).unwrap();
        assert_eq!(roles(&all), ["coder", "reviewer", "tester"]);
        assert_eq!((all.model, all.max_parallel, all.token), (None, None, None));
        let some = json!({"goal": "g", "model": "m", "maxParallel": 2, "workDoneToken": 7, "workers": [
            "tester",
            {"role": "reviewer", "model": "small", "tools": []},
            {"role": "poet", "description": "d", "systemPrompt": "p", "agentMode": false},
            {"role": "coder", "enabled": false},
            {"role": "off"},
        ]});
        let some = read(&some).unwrap();
        assert_eq!(roles(&some), ["tester", "reviewer", "poet", "off"]);
        let [_, reviewer, poet, _] = &*some.workers else { panic!() };
        assert_eq!((reviewer.model.as_deref(), reviewer.tools.as_deref()), (Some("small"), Some(&[][..])));
        assert!(reviewer.system_prompt.is_some(), "what is not said stays");
        assert_eq!((poet.system_prompt.as_deref(), poet.agent_mode), (Some("p"), false));
        assert_eq!((some.model.as_deref(), some.max_parallel), (Some("m"), Some(2)));
        assert_eq!(some.token, Token::from_raw(b"7"));
    }

    #[test]
    fn orchestrate_params_accept_one_worker_or_earlier_tasks() {
        let one = read(&json!({"goal": "g", "worker": "tester", "retries": 2, "events": true})).unwrap();
        let step = |role: &str, task: &str, needs: &[usize]| Step {
            role: role.to_owned(),
            task: task.to_owned(),
            needs: needs.iter().copied().collect(),
        };
        assert_eq!(one.tasks, Tasks::One(Plan { steps: vec![step("tester", "g", &[])] }));
        assert_eq!((one.retries, one.events), (Some(2), true));
        let tasks = json!([
            {"task": 0, "role": "coder", "text": "a", "dependsOn": [], "state": "done", "result": "r", "durationMs": 7},
            {"task": 1, "role": "coder", "text": "b", "dependsOn": [0], "state": "failed", "reason": "no quota"},
            {"task": 2, "role": "tester", "text": "c", "dependsOn": [1], "state": "skipped", "reason": "task 1 failed"},
            {"role": "tester", "text": "d"},
        ]);
        let again = read(&json!({"goal": "g", "tasks": tasks})).unwrap();
        let steps = vec![
            step("coder", "a", &[]),
            step("coder", "b", &[0]),
            step("tester", "c", &[1]),
            step("tester", "d", &[]),
        ];
        let before = vec![
            Before::Done("r".to_owned()),
            Before::Begun("no quota".to_owned()),
            Before::Nothing,
            Before::Nothing,
        ];
        assert_eq!(again.tasks, Tasks::Given(Plan { steps }, before));
    }

    #[test]
    fn orchestrate_params_report_invalid_values() {
        for (params, told) in [
            (json!([]), "`params` must be an object"),
            (json!({}), "`goal` is missing: put the goal there"),
            (
                json!({"goal": "g", "maxparallel": 1}),
                "unknown key \"maxparallel\"; did you mean \"maxParallel\"?",
            ),
            (
                json!({"goal": "g", "speed": 1}),
                "unknown key \"speed\"; expected one of goal, workers, worker, tasks, model, modelInfo, maxParallel, \
                 retries, events, workDoneToken",
            ),
            (json!({"goal": 1}), "`goal` must be a string"),
            (json!({"goal": " "}), "goal is empty"),
            (json!({"goal": "g", "maxParallel": 0}), "`maxParallel` must be an integer of at least 1"),
            (json!({"goal": "g", "model": 1}), "`model` must be a string"),
            (json!({"goal": "g", "retries": -1}), "`retries` must be an integer of at least 0"),
            (json!({"goal": "g", "events": 1}), "`events` must be true or false"),
            (
                json!({"goal": "g", "worker": "boss"}),
                "unknown worker \"boss\"; use one of coder, reviewer, tester",
            ),
            (json!({"goal": "g", "worker": "coder", "tasks": []}), "give `worker` or `tasks`, not both"),
            (json!({"goal": "g", "tasks": {}}), "`tasks` must be a list of tasks, like `tasks` of a result"),
            (json!({"goal": "g", "tasks": []}), "`tasks`: the plan has no tasks"),
            (
                json!({"goal": "g", "workers": "coder"}),
                "`workers` must be a list of roles or of {\"role\": …} objects",
            ),
            (
                json!({"goal": "g", "workers": [1]}),
                "`workers` must be a list of roles or of {\"role\": …} objects",
            ),
            (json!({"goal": "g", "workers": []}), "`workers` must not be empty"),
            (
                json!({"goal": "g", "workers": ["boss"]}),
                "unknown worker \"boss\"; use one of coder, reviewer, tester, off",
            ),
            (json!({"goal": "g", "workers": ["off"]}), "the configuration disables worker \"off\""),
            (
                json!({"goal": "g", "workers": ["coder", {"role": "coder"}]}),
                "`workers` names \"coder\" twice",
            ),
            (json!({"goal": "g", "workers": [{}]}), "a worker lacks `role`"),
            (
                json!({"goal": "g", "workers": [{"role": "a", "Tools": []}]}),
                "worker \"a\": unknown key \"Tools\"; expected one of role, description, systemPrompt, model, tools, agentMode, enabled",
            ),
            (
                json!({"goal": "g", "workers": [{"role": "a", "tools": "x"}]}),
                "worker \"a\": `tools` must be a list of names",
            ),
            (
                json!({"goal": "g", "workers": [{"role": "a", "agentMode": 1}]}),
                "worker \"a\": `agentMode` must be true or false",
            ),
            (
                json!({"goal": "g", "workers": [{"role": "a", "model": 1}]}),
                "worker \"a\": `model` must be a string",
            ),
        ] {
            assert_eq!(read(&params).unwrap_err(), told, "{params}");
        }
        assert!(GoalRequest::read(b"no json", &[]).is_err());
    }
}
