//! Keys with which other programs limit an agent, and which lspool does not honor.

use serde_json::Value;

/// Keys in lower case without separators, and what lspool does instead.
const LIMITS: &[(&str, &str)] = &[
    ("disable", "lspool uses the agent; remove the file instead"),
    ("disablemodelinvocation", "a lead may start the agent"),
    ("infer", "a lead may start the agent"),
    ("isolation", "the agent works in the workspace itself"),
    ("maxsteps", "use maxTurns"),
    ("maxtimeminutes", "use `time_limit` of [subagents]"),
    ("permission", "the agent has all of its tools; use tools"),
    ("permissionmode", "lspool asks as for any agent; use tools"),
    ("permissions", "the agent has all of its tools; use tools"),
    ("readonly", "use tools"),
    ("sandbox", "use tools"),
    ("sandboxmode", "use tools"),
    ("steps", "use maxTurns"),
    ("timeout", "use `time_limit` of [subagents]"),
    ("timeoutmins", "use `time_limit` of [subagents]"),
];

/// Values of permission modes that limit nothing.
const OPEN: [&str; 4] = ["acceptEdits", "auto", "bypassPermissions", "default"];

/// The warning about a key that is a limit in other programs.
pub(super) fn not_honored(key: &str, value: &Value) -> Option<String> {
    let plain = key.to_lowercase().replace(['-', '_'], "");
    let (name, instead) = LIMITS.iter().find(|(it, _)| *it == plain)?;
    let limits = match (*name, value) {
        ("infer", value) => *value == Value::Bool(false),
        (_, Value::Null | Value::Bool(false)) => false,
        ("permissionmode", Value::String(mode)) => !OPEN.contains(&mode.as_str()),
        _ => true,
    };
    limits.then(|| format!("{key}: not honored: {instead}"))
}
