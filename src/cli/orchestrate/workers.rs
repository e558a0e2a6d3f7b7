//! `--workers FILE`: workers for one goal.

use serde_json::{Value, json};

use crate::config::{AgentSource, Config, WorkerConfig};

/// Reads the workers of a file, in the form of a request. A configured worker keeps the settings that the file leaves
/// out.
pub(super) fn read(text: &str, file: &str, config: &Config) -> Result<Value, String> {
    let alone = Config::parse_user(text, file).map_err(|it| it.to_string())?;
    let named = alone.workers.iter().filter(|it| it.source == AgentSource::User);
    let roles: Vec<String> = named.map(|it| it.role.clone()).collect();
    let nothing = Config { workers: alone.workers.clone(), ..Config::default() };
    if alone != nothing {
        return Err(format!("{file}: only [worker.ROLE] sections are allowed"));
    }
    if roles.is_empty() {
        return Err(format!("{file}: no [worker.ROLE] section found"));
    }
    let (merged, _) = config.clone().merge_user(text, file).map_err(|it| it.to_string())?;
    let of_role = |role: &String| merged.workers.iter().find(|it| it.role == *role).map(as_asked);
    Ok(roles.iter().filter_map(of_role).collect())
}

fn as_asked(it: &WorkerConfig) -> Value {
    json!({
        "role": it.role,
        "description": it.description,
        "systemPrompt": it.system_prompt,
        "model": it.model,
        "tools": it.tools,
        "agentMode": it.agent_mode,
        "enabled": it.enabled,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_file_defines_exactly_its_workers() {
        let config = Config::parse_user("[worker.coder]\nmodel = \"m\"\n[worker.other]\n", "").unwrap();
        let text = "[worker.poet]\ntools = []\n[worker.coder]\ndescription = \"d\"\n";
        let workers = read(text, "w.toml", &config).unwrap();
        let roles: Vec<_> =
            workers.as_array().unwrap().iter().map(|it| it["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["coder", "poet"]);
        assert_eq!((&workers[0]["model"], &workers[0]["description"]), (&json!("m"), &json!("d")));
        assert_eq!(workers[1]["tools"], json!([]));
    }

    #[test]
    fn workers_file_with_other_content_is_refused() {
        let error = |text| read(text, "w.toml", &Config::default()).unwrap_err();
        assert_eq!(error(""), "w.toml: no [worker.ROLE] section found");
        assert_eq!(error("[worker.a]\n[agent.b]\n"), "w.toml: only [worker.ROLE] sections are allowed");
        assert!(error("[worker.a]\nx = 1\n").starts_with("w.toml:2: `worker.a.x`: unknown key"));
    }
}
