//! The documentation and the JSON schema of a configuration file, from the [table of keys](super::keys).

use serde_json::{Map, Value, json};

use super::{
    Config, features,
    keys::{
        AGENT, BACKOFF, BUILTIN_TOOLS, CLEANUPS, COMBINES, DELEGATIONS, ENGINES, FOLDER, GROUP, ISOLATIONS,
        Key, LOG, LOG_LEVELS, LSP_TOOLS, MEMBER, ON_LIMITS, ON_LOADING, ORCHESTRATION, PROFILES, REMOTE,
        RESTARTS, ROOT, ROUTE, SERVER, SERVER_KINDS, SHARE_VIEWS, SHARES, STARTS, SUB_AGENTS, Section, TOOLS,
        TURN_RECOVERIES, Type, UNMAPPED, WORKER, Workspace,
    },
    units::{show_duration, show_size},
};

/// `docs/configuration.md`.
pub fn markdown() -> String {
    let chapters = [
        INTRODUCTION.to_owned(),
        chapter(&ROOT),
        chapter(&SERVER),
        chapter(&REMOTE),
        chapter(&BACKOFF),
        chapter(&GROUP),
        chapter(&FOLDER),
        chapter(&AGENT),
        builtin_agents(),
        chapter(&SUB_AGENTS),
        chapter(&WORKER),
        builtin_workers(),
        chapter(&ORCHESTRATION),
        chapter(&TOOLS),
        chapter(&LSP_TOOLS),
        chapter(&ROUTE),
        chapter(&LOG),
    ];
    chapters.join("\n")
}

/// `docs/config.schema.json`, for editors that complete and check TOML.
pub fn schema() -> String {
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "lspool configuration",
    });
    if let (Some(schema), Value::Object(root)) = (schema.as_object_mut(), object(&ROOT)) {
        schema.extend(root);
    }
    format!("{schema:#}\n")
}

const INTRODUCTION: &str = r#"<!-- Generated from src/config/keys.rs by `UPDATE_EXPECT=1 cargo nextest run config`. -->

# Configuration

lspool works without a configuration file. It reads one from `--config FILE`, or from
`$XDG_CONFIG_HOME/lspool/config.toml` (by default `~/.config/lspool/config.toml`; on macOS
`~/Library/Application Support/lspool/config.toml`). The file is [TOML](https://toml.io):

```toml
[server.copilot]
max_processes = 4
idle_timeout = "10m"
```

lspool reports every error with its line, and does not start with an invalid file. It applies a later valid
change at once ([control.md](control.md)).

`lspool config schema` prints [`config.schema.json`](config.schema.json), with which editors complete and
check the file. With Taplo, make `#:schema FILE` the first line.

After each key stands its default, or else its type. A path is absolute, or starts with `~/`. A duration is a
number with `ms`, `s`, `m`, or `h`. A size has `B`, `KiB`, `MiB`, or `GiB`. Integers are at least 1, unless
the default is 0.

## Workspace files

A workspace folder can have a file `.lspool.toml`. An author of the repository or an agent can change it, so
it cannot set commands, arguments, environment variables, paths, or the log. Each section below says what it
can set. lspool ignores its agents and workers with a name that is builtin or in your own file, and reports
them as *shadowed*. Its routes come after yours.

lspool reads the file when the editor sends `initialize` or adds the folder. If the file has an error,
`initialize` fails, because a conversation without its route may use every tool; for a folder that the editor
adds later, lspool shows a message and keeps its configuration. A file from `initialize` applies until the
editor starts lspool again.
"#;

fn chapter<T>(section: &Section<T>) -> String {
    let heading = match section.doc {
        "" => format!("## {}\n\n", section.header),
        doc => format!("## `{}`\n\n{}\n", section.header, wrapped(doc, "")),
    };
    let mut fresh = (section.fresh)();
    // The chapter of a section says more than the key that holds it.
    let keys = section.keys.iter().filter(|key| !ty(key).starts_with("`["));
    let (mut entries, mut in_groups) = (String::new(), String::new());
    for key in keys {
        let value = value_of(key, &mut fresh);
        let entry = |doc: &str| wrapped(&format!("- `{}` ({value}). {doc}", key.name), "  ");
        match key.doc.strip_prefix(IN_GROUP) {
            Some(doc) => in_groups += &entry(&capitalized(doc)),
            None => entries += &entry(key.doc),
        }
    }
    if !in_groups.is_empty() {
        in_groups.insert_str(0, "\nIn a [group](groups.md):\n\n");
    }
    heading + &entries + &in_groups + &in_workspace(section)
}

/// What the documentation of a key begins with if the key applies only in a group.
const IN_GROUP: &str = "In a group: ";

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|it| it.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// What stands after a key: its default, with what a default does not show of its type.
fn value_of<T>(key: &Key<T>, fresh: &mut T) -> String {
    let ty = ty(key);
    match default(key, fresh) {
        Some(default) => match &key.ty {
            Type::Factor(..) => format!("`{default}`; {ty}"),
            _ => {
                let default = format!("`{default}`");
                let others: Vec<_> =
                    ty.split(", ").filter(|it| it.starts_with("`\"") && *it != default).collect();
                [vec![default.as_str()], others].concat().join(" or ")
            }
        },
        None if key.is_required() => format!("{ty}; required"),
        None if matches!(key.absent, "none" | "any") => ty,
        None => format!("{ty}; default: {}", key.absent),
    }
}

/// Wraps text at 110 columns, with an indent for all lines but the first.
fn wrapped(text: &str, indent: &str) -> String {
    // A code span stays on one line.
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut().filter(|it| it.matches('`').count() % 2 == 1) {
            Some(span) => {
                span.push(' ');
                span.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
    }
    let mut lines = vec![String::new()];
    for word in &words {
        if let Some(line) = lines.last_mut() {
            if line.is_empty() {
                line.push_str(word);
            } else if line.chars().count() + 1 + word.chars().count() <= 110 {
                line.push(' ');
                line.push_str(word);
            } else {
                lines.push(format!("{indent}{word}"));
            }
        }
    }
    lines.join("\n") + "\n"
}

/// The keys of a section that a workspace file may set.
fn in_workspace<T>(section: &Section<T>) -> String {
    let names = |of: Workspace, is: fn(&Type<T>) -> bool| {
        let keys = section.keys.iter().filter(|key| key.workspace == of && is(&key.ty));
        keys.map(|key| format!("`{}`", key.name)).collect::<Vec<_>>()
    };
    let any = names(Workspace::Yes, |_| true);
    let smaller = names(Workspace::Smaller, |it| !is_features(it) && !matches!(it, Type::Flag(_)));
    let off = names(Workspace::Smaller, |it| matches!(it, Type::Flag(_)));
    let narrower = names(Workspace::Smaller, is_features);
    let mut said = Vec::new();
    if any.len() == section.keys.len() {
        said.push("set every key".to_owned());
    } else if !any.is_empty() {
        said.push(format!("set {}", any.join(", ")));
    }
    if !smaller.is_empty() {
        said.push(format!("lower {}", smaller.join(", ")));
    }
    if !off.is_empty() {
        said.push(format!("turn off {}", off.join(", ")));
    }
    if !narrower.is_empty() {
        said.push(format!("narrow {}", narrower.join(", ")));
    }
    match said.is_empty() {
        true => String::new(),
        false => "\n".to_owned() + &wrapped(&format!("A workspace file can {}.", said.join(", and ")), ""),
    }
}

fn is_features<T>(ty: &Type<T>) -> bool {
    matches!(ty, Type::Only(_) | Type::Except(_))
}

fn builtin_agents() -> String {
    let agents = Config::default().agents.into_iter();
    let items = agents.map(|(name, agent)| builtin(&name, agent.tools.as_deref()));
    builtins("Builtin, unless your file has one of that name", items)
}

fn builtin_workers() -> String {
    let workers = Config::default().workers.into_iter();
    builtins("Builtin", workers.map(|it| builtin(&it.role, it.tools.as_deref())))
}

fn builtins(what: &str, items: impl Iterator<Item = String>) -> String {
    wrapped(&format!("{what}: {}.", items.collect::<Vec<_>>().join("; ")), "")
}

fn builtin(name: &str, tools: Option<&[String]>) -> String {
    let tools = tools.map_or_else(|| "every tool".to_owned(), |it| format!("`{}`", it.join("`, `")));
    format!("`{name}` with {tools}")
}

fn ty<T>(key: &Key<T>) -> String {
    fn words<V>(choices: &[(&str, V)]) -> String {
        choices.iter().map(|(word, _)| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
    }
    let text = match &key.ty {
        Type::Text(_) | Type::Command(_) => "string",
        Type::Path(_) | Type::RequiredPath(_) => "path",
        Type::Paths(_) => "list of paths",
        Type::Args(_) => "list of strings",
        Type::Names(_) | Type::ToolNames(_) | Type::OptionalToolNames(_) => "list of names",
        Type::Variables(_) => "table of strings",
        Type::Duration(_) | Type::OptionalDuration(_) => "duration",
        Type::Size(_) | Type::TextSize(_) | Type::OptionalSize(_) => "size",
        Type::Flag(_) => "`true`, `false`",
        Type::Factor(_, (from, to)) => {
            return format!("number from {} to {}", thousandths(*from), thousandths(*to));
        }
        Type::Restart(_) => return words(&RESTARTS),
        Type::Profile(_) => return words(&PROFILES),
        Type::Backoff(_) => BACKOFF.header,
        Type::Count(_) | Type::CountOrLess(..) | Type::OptionalCount(_) => "integer from 1",
        Type::Amount(_) => "integer",
        Type::ServerKind(_) => return words(&SERVER_KINDS),
        Type::TurnRecovery(_) => return words(&TURN_RECOVERIES),
        Type::Delegation(_) => return words(&DELEGATIONS),
        Type::Isolation(_) | Type::OptionalIsolation(_) => return words(&ISOLATIONS),
        Type::OnLimit(_) => return words(&ON_LIMITS),
        Type::Share(_) => return words(&SHARES),
        Type::ShareViews(_) => return words(&SHARE_VIEWS),
        Type::BuiltinTools(_) => return words(&BUILTIN_TOOLS),
        Type::OnLoading(_) => return words(&ON_LOADING),
        Type::CodeTools(_) => "list of tools",
        Type::LogLevel(_) => return words(&LOG_LEVELS),
        Type::ServerName(_) => "name of a server",
        Type::AgentName(_) => "name of an agent",
        Type::GroupName(_) => "name of a group",
        Type::MemberName(_) => "name of a server",
        Type::Only(_) | Type::Except(_) => "list of features",
        Type::Json(_) => "table",
        Type::Members(_) => "list of servers",
        Type::Order(_) => "table of lists of servers",
        Type::Combine(_) => "table of `\"all\"`, `\"first\"`",
        Type::Waits(_) => "table of durations",
        Type::Globs(_) => "list of globs",
        Type::Methods(_) => "list of methods",
        Type::Markers(_) => "list of paths",
        Type::StartAt(_) => return words(&STARTS),
        Type::Remote(_) => REMOTE.header,
        Type::Engine(_) => return words(&ENGINES),
        Type::PathPairs(_) => "list of `{ local, remote }`",
        Type::Cleanup(_) => return words(&CLEANUPS),
        Type::Unmapped(_) => return words(&UNMAPPED),
        Type::Groups(_) => GROUP.header,
        Type::Servers(_) => SERVER.header,
        Type::Agents(_) => AGENT.header,
        Type::Folders(_) => FOLDER.header,
        Type::Routes(_) => ROUTE.header,
        Type::SubAgents(_) => SUB_AGENTS.header,
        Type::Workers(_) => WORKER.header,
        Type::Orchestration(_) => ORCHESTRATION.header,
        Type::Tools(_) => TOOLS.header,
        Type::LspTools(_) => LSP_TOOLS.header,
        Type::Log(_) => LOG.header,
    };
    if text.starts_with('[') { format!("`{text}`") } else { text.to_owned() }
}

/// The default of a key, as in a file, if it has one.
fn default<T>(key: &Key<T>, fresh: &mut T) -> Option<String> {
    match &key.ty {
        Type::Duration(field) => Some(format!("{:?}", show_duration(*field(fresh)))),
        Type::Size(field) | Type::TextSize(field) => Some(format!("{:?}", show_size(*field(fresh)))),
        Type::Count(field) | Type::CountOrLess(field, _) | Type::Amount(field) => {
            Some(field(fresh).to_string())
        }
        Type::Flag(field) => Some(field(fresh).to_string()),
        Type::Factor(field, _) => Some(thousandths(*field(fresh)).to_string()),
        Type::Restart(field) => said(&RESTARTS, *field(fresh)),
        Type::TurnRecovery(field) => said(&TURN_RECOVERIES, *field(fresh)),
        Type::Delegation(field) => said(&DELEGATIONS, *field(fresh)),
        Type::Isolation(field) => said(&ISOLATIONS, *field(fresh)),
        Type::OnLimit(field) => said(&ON_LIMITS, *field(fresh)),
        Type::Share(field) => said(&SHARES, *field(fresh)),
        Type::ShareViews(field) => said(&SHARE_VIEWS, *field(fresh)),
        Type::BuiltinTools(field) => said(&BUILTIN_TOOLS, *field(fresh)),
        Type::OnLoading(field) => said(&ON_LOADING, *field(fresh)),
        Type::LogLevel(field) => said(&LOG_LEVELS, *field(fresh)),
        Type::StartAt(field) => said(&STARTS, *field(fresh)),
        Type::Cleanup(field) => said(&CLEANUPS, *field(fresh)),
        Type::Unmapped(field) => said(&UNMAPPED, *field(fresh)),
        _ => None,
    }
}

/// Finds the word for a value.
fn said<V: Copy + PartialEq>(words: &[(&str, V)], value: V) -> Option<String> {
    words.iter().find(|(_, it)| *it == value).map(|(word, _)| format!("{word:?}"))
}

fn thousandths(number: u32) -> f64 {
    f64::from(number) / 1000.0
}

fn object<T>(section: &Section<T>) -> Value {
    let mut fresh = (section.fresh)();
    let mut properties = Map::new();
    for key in section.keys {
        let mut property = value(&key.ty);
        if let Some(property) = property.as_object_mut() {
            property.insert("description".to_owned(), json!(key.doc));
            let default = default(key, &mut fresh).and_then(|it| serde_json::from_str::<Value>(&it).ok());
            property.extend(default.map(|it| ("default".to_owned(), it)));
        }
        properties.insert(key.name.to_owned(), property);
    }
    let required: Vec<_> = section.keys.iter().filter(|key| key.is_required()).map(|key| key.name).collect();
    let mut object = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn value<T>(ty: &Type<T>) -> Value {
    fn words<V>(choices: &[(&str, V)]) -> Value {
        json!({ "enum": choices.iter().map(|(word, _)| word).collect::<Vec<_>>() })
    }
    let texts = |min: usize| json!({ "type": "array", "items": { "type": "string", "minLength": min } });
    let feature = || {
        let names: Vec<_> = features::names().collect();
        let kind = json!({ "type": "string", "pattern": "^code-action:[A-Za-z0-9._-]+$" });
        json!({ "anyOf": [{ "enum": names }, kind] })
    };
    let list_of_features = |min: usize| json!({ "type": "array", "items": feature(), "minItems": min });
    let named = |it: Value| json!({ "type": "object", "additionalProperties": it });
    let list = |it: Value| json!({ "type": "array", "items": it });
    match ty {
        Type::Text(_)
        | Type::Command(_)
        | Type::ServerName(_)
        | Type::AgentName(_)
        | Type::GroupName(_)
        | Type::MemberName(_) => json!({ "type": "string", "minLength": 1 }),
        Type::Only(_) => list_of_features(1),
        Type::Except(_) => list_of_features(0),
        Type::Json(_) => json!({ "type": "object" }),
        Type::Members(_) => {
            let member = json!({ "anyOf": [{ "type": "string", "minLength": 1 }, object(&MEMBER)] });
            json!({ "type": "array", "items": member, "minItems": 1 })
        }
        Type::Order(_) => {
            json!({ "type": "object", "propertyNames": feature(), "additionalProperties": texts(1) })
        }
        Type::Combine(_) => {
            json!({ "type": "object", "propertyNames": feature(), "additionalProperties": words(&COMBINES) })
        }
        Type::Waits(_) => {
            let duration = json!({ "type": "string", "pattern": "^[0-9]+ *(ms|s|m|h)$" });
            json!({ "type": "object", "propertyNames": feature(), "additionalProperties": duration })
        }
        Type::Globs(_) | Type::Methods(_) | Type::Markers(_) => texts(1),
        Type::Groups(_) => named(object(&GROUP)),
        Type::Path(_) | Type::RequiredPath(_) => json!({ "type": "string", "minLength": 1 }),
        Type::Args(_) => texts(0),
        Type::Names(_) | Type::ToolNames(_) | Type::OptionalToolNames(_) | Type::Paths(_) => texts(1),
        Type::Variables(_) => named(json!({ "type": "string" })),
        Type::Duration(_) | Type::OptionalDuration(_) => {
            json!({ "type": "string", "pattern": "^[0-9]+ *(ms|s|m|h)$" })
        }
        Type::Flag(_) => json!({ "type": "boolean" }),
        Type::Factor(_, (from, to)) => {
            json!({ "type": "number", "minimum": thousandths(*from), "maximum": thousandths(*to) })
        }
        Type::Restart(_) => words(&RESTARTS),
        Type::Profile(_) => words(&PROFILES),
        Type::Backoff(_) => object(&BACKOFF),
        Type::Size(_) | Type::TextSize(_) | Type::OptionalSize(_) => {
            json!({ "type": "string", "pattern": "^[0-9]+ *(B|KiB|MiB|GiB)$" })
        }
        Type::Amount(_) => json!({ "type": "integer", "minimum": 0, "maximum": u16::MAX }),
        Type::Count(_) | Type::CountOrLess(..) | Type::OptionalCount(_) => {
            json!({ "type": "integer", "minimum": 1, "maximum": u16::MAX })
        }
        Type::ServerKind(_) => words(&SERVER_KINDS),
        Type::TurnRecovery(_) => words(&TURN_RECOVERIES),
        Type::Delegation(_) => words(&DELEGATIONS),
        Type::Isolation(_) | Type::OptionalIsolation(_) => words(&ISOLATIONS),
        Type::OnLimit(_) => words(&ON_LIMITS),
        Type::Share(_) => words(&SHARES),
        Type::ShareViews(_) => words(&SHARE_VIEWS),
        Type::BuiltinTools(_) => words(&BUILTIN_TOOLS),
        Type::OnLoading(_) => words(&ON_LOADING),
        Type::CodeTools(_) => texts(1),
        Type::LogLevel(_) => words(&LOG_LEVELS),
        Type::StartAt(_) => words(&STARTS),
        Type::Remote(_) => object(&REMOTE),
        Type::Engine(_) => words(&ENGINES),
        Type::PathPairs(_) => json!({"oneOf": [
            {"const": "auto"},
            {"type": "array", "items": {
                "type": "object",
                "properties": {"local": {"type": "string"}, "remote": {"type": "string"}},
                "required": ["local", "remote"],
                "additionalProperties": false
            }}
        ]}),
        Type::Cleanup(_) => words(&CLEANUPS),
        Type::Unmapped(_) => words(&UNMAPPED),
        Type::Servers(_) => named(object(&SERVER)),
        Type::Agents(_) => named(object(&AGENT)),
        Type::Folders(_) => list(object(&FOLDER)),
        Type::Routes(_) => list(object(&ROUTE)),
        Type::SubAgents(_) => object(&SUB_AGENTS),
        Type::Workers(_) => named(object(&WORKER)),
        Type::Orchestration(_) => object(&ORCHESTRATION),
        Type::Tools(_) => object(&TOOLS),
        Type::LspTools(_) => object(&LSP_TOOLS),
        Type::Log(_) => object(&LOG),
    }
}
