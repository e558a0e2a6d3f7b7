//! The table of all keys.
//!
//! Each key is described once: its name, its type and the field it sets, what its absence means, whether a
//! workspace file may have it, what it is for. The checks, the documentation and the schema follow the table.

mod agents;
mod words;
mod workers;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

pub(super) use self::{
    agents::{AGENT, SUB_AGENTS},
    words::*,
    workers::{ORCHESTRATION, WORKER},
};
use super::{
    AgentConfig, Backoff, BuiltinTools, Config, Delegation, FolderConfig, Isolation, LogConfig, LogLevel,
    OnLimit, OrchestrationConfig, Policy, Profile, Restart, RouteConfig, ServerConfig, ServerKind,
    SubAgentsConfig, ToolsConfig, TurnRecovery, WorkerConfig,
};

/// A table of the file, and the type that it is read into.
pub(super) struct Section<T: 'static> {
    /// How it is written in a file.
    pub(super) header: &'static str,
    /// What it is for.
    pub(super) doc: &'static str,
    /// What it holds before a key is read.
    pub(super) fresh: fn() -> T,
    /// Its keys, in the order of the documentation.
    pub(super) keys: &'static [Key<T>],
}

/// One key of a section.
pub(super) struct Key<T: 'static> {
    pub(super) name: &'static str,
    pub(super) ty: Type<T>,
    pub(super) workspace: Workspace,
    /// What holds without it, where the field's value does not say so.
    pub(super) absent: &'static str,
    pub(super) doc: &'static str,
}

impl<T> Key<T> {
    pub(super) fn is_required(&self) -> bool {
        matches!(self.ty, Type::RequiredPath(_) | Type::AgentName(_))
    }
}

/// Whether a workspace file may have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workspace {
    Yes,
    /// Only to make the value smaller.
    Smaller,
    No,
}

/// A field of `T`.
pub(super) type Field<T, V> = fn(&mut T) -> &mut V;

/// The type of a key's value, and the field that it sets.
pub(super) enum Type<T: 'static> {
    Text(Field<T, Option<String>>),
    /// An absolute path, one that starts with `~/`, or the bare name of an executable.
    Command(Field<T, Option<String>>),
    /// An absolute path, or one that starts with `~/`.
    Path(Field<T, Option<PathBuf>>),
    /// A path that must be there.
    RequiredPath(Field<T, PathBuf>),
    /// A list of such paths.
    Paths(Field<T, Vec<PathBuf>>),
    /// A list of any texts.
    Args(Field<T, Vec<String>>),
    /// A list of names.
    Names(Field<T, Vec<String>>),
    /// A list of names of tools, also as other programs call them.
    ToolNames(Field<T, Vec<String>>),
    /// Such a list that means something else when it is empty than when it is absent.
    OptionalToolNames(Field<T, Option<Vec<String>>>),
    /// Variables of an environment.
    Variables(Field<T, BTreeMap<String, String>>),
    Duration(Field<T, Duration>),
    /// No duration: lspool decides.
    OptionalDuration(Field<T, Option<Duration>>),
    Size(Field<T, usize>),
    /// A size that there need not be.
    OptionalSize(Field<T, Option<usize>>),
    Flag(Field<T, bool>),
    /// A number, kept in thousandths, from the first to the second.
    Factor(Field<T, u32>, (u32, u32)),
    Restart(Field<T, Restart>),
    /// Sets the whole policy; keys that are there too go first.
    Profile(Field<T, Policy>),
    Backoff(Field<T, Backoff>),
    /// A number from 1 on.
    Count(Field<T, usize>),
    /// A number from 1 on that there need not be.
    OptionalCount(Field<T, Option<usize>>),
    /// A number from 0 on.
    Amount(Field<T, usize>),
    ServerKind(Field<T, Option<ServerKind>>),
    TurnRecovery(Field<T, TurnRecovery>),
    Delegation(Field<T, Delegation>),
    Isolation(Field<T, Isolation>),
    /// Isolation, where another section says it in general.
    OptionalIsolation(Field<T, Option<Isolation>>),
    OnLimit(Field<T, OnLimit>),
    BuiltinTools(Field<T, BuiltinTools>),
    LogLevel(Field<T, LogLevel>),
    /// The name of a server that is configured.
    ServerName(Field<T, Option<String>>),
    /// The name of an agent that exists; must be there.
    AgentName(Field<T, String>),
    Servers(Field<T, BTreeMap<String, ServerConfig>>),
    Agents(Field<T, BTreeMap<String, AgentConfig>>),
    Folders(Field<T, Vec<FolderConfig>>),
    Routes(Field<T, Vec<RouteConfig>>),
    SubAgents(Field<T, SubAgentsConfig>),
    Workers(Field<T, Vec<WorkerConfig>>),
    Orchestration(Field<T, OrchestrationConfig>),
    Tools(Field<T, ToolsConfig>),
    Log(Field<T, LogConfig>),
}

pub(super) static ROOT: Section<Config> = Section {
    header: "(top of the file)",
    doc: "",
    fresh: Config::default,
    keys: &[
        Key {
            name: "default_server",
            ty: Type::ServerName(|it| &mut it.default_server),
            workspace: Workspace::No,
            absent: "`copilot` if it is configured, else the only configured server",
            doc: "The server to use when the command line names no command.",
        },
        Key {
            name: "server",
            ty: Type::Servers(|it| &mut it.servers),
            workspace: Workspace::Yes,
            absent: "lspool searches for `copilot-language-server`",
            doc: "The servers.",
        },
        Key {
            name: "folder",
            ty: Type::Folders(|it| &mut it.folders),
            workspace: Workspace::No,
            absent: "none",
            doc: "Settings for one project.",
        },
        Key {
            name: "agent",
            ty: Type::Agents(|it| &mut it.agents),
            workspace: Workspace::Yes,
            absent: "the builtin agents",
            doc: "The agents.",
        },
        Key {
            name: "models",
            ty: Type::Variables(|it| &mut it.models),
            workspace: Workspace::No,
            absent: "none",
            doc: "Tiers: names for models that agents can use, such as `fast = \"gpt-4.1\"`.",
        },
        Key {
            name: "subagents",
            ty: Type::SubAgents(|it| &mut it.subagents),
            workspace: Workspace::Yes,
            absent: "see the section",
            doc: "Limits for sub-agents.",
        },
        Key {
            name: "worker",
            ty: Type::Workers(|it| &mut it.workers),
            workspace: Workspace::Yes,
            absent: "the builtin workers",
            doc: "The workers that can do a task of a plan.",
        },
        Key {
            name: "orchestration",
            ty: Type::Orchestration(|it| &mut it.orchestration),
            workspace: Workspace::Yes,
            absent: "see the section",
            doc: "Limits for the work on one goal.",
        },
        Key {
            name: "tools",
            ty: Type::Tools(|it| &mut it.tools),
            workspace: Workspace::Yes,
            absent: "see the section",
            doc: "Limits for builtin tools.",
        },
        Key {
            name: "route",
            ty: Type::Routes(|it| &mut it.routes),
            workspace: Workspace::Yes,
            absent: "every tool for every conversation",
            doc: "Which conversations use which agent.",
        },
        Key {
            name: "log",
            ty: Type::Log(|it| &mut it.log),
            workspace: Workspace::No,
            absent: "see the section",
            doc: "The log.",
        },
        Key {
            name: "record",
            ty: Type::Path(|it| &mut it.record.file),
            workspace: Workspace::No,
            absent: "no recording",
            doc: "Records each session to this file: an absolute path, or a path that starts with `~/`. \
                  `--record` and the variable `LSPOOL_RECORD` override it. lspool reads it at its start. \
                  See [fixtures.md](fixtures.md).",
        },
        Key {
            name: "record_texts",
            ty: Type::Flag(|it| &mut it.record.texts),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a recording keeps documents, prompts, and answers. Otherwise each of their \
                  characters becomes an `x`. A recording never keeps secrets.",
        },
        Key {
            name: "record_max_size",
            ty: Type::Size(|it| &mut it.record.max_size),
            workspace: Workspace::No,
            absent: "",
            doc: "The maximum size. The recording ends there, and its last line says so.",
        },
    ],
};

pub(super) static SERVER: Section<ServerConfig> = Section {
    header: "[server.NAME]",
    doc: "How lspool starts a server, and its limits. A command on the command line (`lspool -- COMMAND \
          …`) replaces `command` and `args` of one section: `copilot` for a Copilot server, else the \
          section with the name of the executable, without folder and extension. The other keys of that \
          section still apply.",
    fresh: ServerConfig::default,
    keys: &[
        Key {
            name: "command",
            ty: Type::Command(|it| &mut it.command),
            workspace: Workspace::No,
            absent: "the name of the section; for `copilot`, lspool searches for `copilot-language-server`",
            doc: "The executable: an absolute path, a path that starts with `~/`, or a bare name. lspool \
                  looks a bare name up in the absolute entries of `PATH` outside the workspace folders.",
        },
        Key {
            name: "args",
            ty: Type::Args(|it| &mut it.args),
            workspace: Workspace::No,
            absent: "none; `--stdio` for a Copilot server",
            doc: "The arguments.",
        },
        Key {
            name: "env",
            ty: Type::Variables(|it| &mut it.env),
            workspace: Workspace::No,
            absent: "none",
            doc: "Environment variables, in addition to those of lspool.",
        },
        Key {
            name: "cwd",
            ty: Type::Path(|it| &mut it.cwd),
            workspace: Workspace::No,
            absent: "the working folder of lspool",
            doc: "The working folder.",
        },
        Key {
            name: "kind",
            ty: Type::ServerKind(|it| &mut it.kind),
            workspace: Workspace::No,
            absent: "derived from the command",
            doc: "The kind of server. Tool sets apply only to a Copilot server.",
        },
        Key {
            name: "max_processes",
            ty: Type::Count(|it| &mut it.max_processes),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many processes of the server may run at once. For one more, lspool stops the one \
                  whose last turn is longest ago. If all are in use, `on_limit` decides.",
        },
        Key {
            name: "isolation",
            ty: Type::Isolation(|it| &mut it.isolation),
            workspace: Workspace::No,
            absent: "",
            doc: "What keeps a conversation with a Copilot server to its tools \
                  ([isolation.md](isolation.md)): a process for each tool set, or a chat mode where that \
                  is as safe.",
        },
        Key {
            name: "on_limit",
            ty: Type::OnLimit(|it| &mut it.on_limit),
            workspace: Workspace::No,
            absent: "",
            doc: "What happens to a conversation that needs a process beyond `max_processes`: a chat mode \
                  serves it where that is as safe, or lspool refuses it.",
        },
        Key {
            name: "warm_spares",
            ty: Type::Amount(|it| &mut it.warm_spares),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many processes of a Copilot server lspool keeps started and signed in. A new \
                  partition or a restart takes one within milliseconds. Spares count for `max_processes`, \
                  and make room for others. If tool sets need different capabilities of the editor, this \
                  is the number for each kind.",
        },
        Key {
            name: "idle_timeout",
            ty: Type::Duration(|it| &mut it.idle_timeout),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a process without an open request keeps running, except the one that serves the \
                  editor. Its conversations come back at their next turn. `\"0s\"`: it stops with its last \
                  conversation, or when `max_processes` needs room.",
        },
        Key {
            name: "startup_timeout",
            ty: Type::Duration(|it| &mut it.startup_timeout),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a process may be silent before it has answered `initialize`: a server that sends \
                  messages, or writes to stderr, may take longer. Then lspool stops it, and the waiting requests fail.",
        },
        Key {
            name: "mcp_wait",
            ty: Type::Duration(|it| &mut it.mcp_wait),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long turns of a restricted tool set wait for the MCP servers that the set names. \
                  After that they run without the tools of these servers, and a message names the missing \
                  ones.",
        },
        Key {
            name: "max_message",
            ty: Type::Size(|it| &mut it.max_message),
            workspace: Workspace::No,
            absent: "",
            doc: "The longest message that lspool accepts from the server.",
        },
        Key {
            name: "turn_recovery",
            ty: Type::TurnRecovery(|it| &mut it.turn_recovery),
            workspace: Workspace::No,
            absent: "",
            doc: "What happens to a turn when its Copilot server dies: the next process continues it, or \
                  it ends with an error.",
        },
        Key {
            name: "delegation",
            ty: Type::Delegation(|it| &mut it.delegation),
            workspace: Workspace::No,
            absent: "",
            doc: "The tool with which a lead starts sub-agents ([agents.md](agents.md)). \
                  `\"run_in_terminal\"` is for older servers, which do not forward calls of unknown tools.",
        },
        Key {
            name: "builtin_tools",
            ty: Type::BuiltinTools(|it| &mut it.builtin_tools),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether lspool offers its builtin tools to a Copilot server ([tools.md](tools.md)). \
                  `\"fallback\"`: each tool, unless the editor has registered one of that name. `lspool \
                  orchestrate` always offers them.",
        },
        Key {
            name: "exact_restore",
            ty: Type::Flag(|it| &mut it.exact_restore),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a Copilot server records what it sends to the model, on a memory file system if \
                  possible. After a crash the next process then sends the same bytes, so attachments, \
                  context, and the model's prompt cache stay. Otherwise only the questions and answers \
                  come back.",
        },
        Key {
            name: "repeat",
            ty: Type::Args(|it| &mut it.repeat),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "Methods that are part of a session and that lspool cannot know, such as `[\"my/setUp\"]`. After a \
                  restart, lspool sends the server the editor's latest message of each, before the open documents. \
                  lspool does so for the Language Server Protocol without this key, and for \
                  `css/customDataChanged`, `html/customDataChanged`, `json/schemaAssociations`, `project/open`, \
                  `solution/open`, `yaml/registerContentRequest`, `yaml/registerCustomSchemaRequest` and \
                  `yaml/supportSchemaSelection`.",
        },
        Key {
            name: "profile",
            ty: Type::Profile(|it| &mut it.policy),
            workspace: Workspace::No,
            absent: "`\"resilient\"`",
            doc: "What happens when the server dies. `resilient`: lspool restarts it. `strict`: lspool \
                  does not. `best-effort`: lspool does not, and `initialize` succeeds even if the server \
                  cannot start. The six keys below override single settings.",
        },
        Key {
            name: "restart",
            ty: Type::Restart(|it| &mut it.policy.restart),
            workspace: Workspace::No,
            absent: "",
            doc: "When lspool restarts a process. `on-failure`: after any exit that nobody asked for, also \
                  with code 0; a partition restarts when it is needed. `always`: the same, but a partition \
                  restarts at once.",
        },
        Key {
            name: "required",
            ty: Type::Flag(|it| &mut it.policy.required),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether `initialize` fails if the server cannot start. Otherwise lspool answers with no \
                  capabilities and shows a message.",
        },
        Key {
            name: "max_restarts",
            ty: Type::Count(|it| &mut it.policy.max_restarts),
            workspace: Workspace::No,
            absent: "",
            doc: "How many restarts lspool attempts within `restart_window`. After that the process has \
                  failed, until a user restarts it. A process that has never been ready gets two starts.",
        },
        Key {
            name: "restart_window",
            ty: Type::Duration(|it| &mut it.policy.restart_window),
            workspace: Workspace::No,
            absent: "",
            doc: "The period for `max_restarts`. It moves with the time.",
        },
        Key {
            name: "immediate_first",
            ty: Type::Flag(|it| &mut it.policy.immediate_first),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether the first restart in a window has no delay.",
        },
        Key {
            name: "backoff",
            ty: Type::Backoff(|it| &mut it.policy.backoff),
            workspace: Workspace::No,
            absent: "see the section",
            doc: "The delays of the other restarts.",
        },
        Key {
            name: "stall_timeout",
            ty: Type::Duration(|it| &mut it.stall_timeout),
            workspace: Workspace::No,
            absent: "",
            doc: "How long a process that owes an answer may be silent before lspool probes it with \
                  `$/lspool/ping`. Any message counts as an answer. `\"0s\"`: never.",
        },
        Key {
            name: "probe_timeout",
            ty: Type::Duration(|it| &mut it.probe_timeout),
            workspace: Workspace::No,
            absent: "",
            doc: "How long a probed process may stay silent before it is *degraded*.",
        },
        Key {
            name: "hang_timeout",
            ty: Type::OptionalDuration(|it| &mut it.hang_timeout),
            workspace: Workspace::No,
            absent: "`\"1m\"` for a Copilot server, `\"0s\"` for others",
            doc: "How long a degraded process may stay silent before lspool ends and restarts it. \
                  `\"0s\"`: forever.",
        },
        Key {
            name: "write_stall",
            ty: Type::Duration(|it| &mut it.write_stall),
            workspace: Workspace::No,
            absent: "",
            doc: "How long a process may read nothing while messages wait for it. After that lspool ends \
                  and restarts it.",
        },
        Key {
            name: "shutdown_grace",
            ty: Type::Duration(|it| &mut it.shutdown_grace),
            workspace: Workspace::No,
            absent: "",
            doc: "How long lspool waits for the answer to `shutdown`, and again for a process to end after \
                  `exit`. Then it sends SIGTERM, and SIGKILL 1.5 s later.",
        },
        Key {
            name: "memory_limit",
            ty: Type::OptionalSize(|it| &mut it.memory_limit),
            workspace: Workspace::No,
            absent: "none",
            doc: "How much memory a process may use, with the processes that it has started. Above the \
                  limit, lspool replaces it when no request is open. A process that exceeds the limit \
                  within a minute of its start needs that much: lspool shows a message, and replaces it at \
                  twice the limit.",
        },
    ],
};

pub(super) static BACKOFF: Section<Backoff> = Section {
    header: "[server.NAME.backoff]",
    doc: "The delay before a restart. Inline: `backoff = { initial = \"1s\", max = \"32s\" }`.",
    fresh: || Profile::Resilient.policy().backoff,
    keys: &[
        Key {
            name: "initial",
            ty: Type::Duration(|it| &mut it.initial),
            workspace: Workspace::No,
            absent: "",
            doc: "The first delay.",
        },
        Key {
            name: "max",
            ty: Type::Duration(|it| &mut it.max),
            workspace: Workspace::No,
            absent: "",
            doc: "The longest delay.",
        },
        Key {
            name: "multiplier",
            ty: Type::Factor(|it| &mut it.multiplier, (1000, 10_000)),
            workspace: Workspace::No,
            absent: "",
            doc: "The factor from each delay to the next.",
        },
        Key {
            name: "jitter",
            ty: Type::Factor(|it| &mut it.jitter, (0, 1000)),
            workspace: Workspace::No,
            absent: "",
            doc: "The random share by which a delay is longer or shorter, so that several servers do not \
                  start at the same moment.",
        },
    ],
};

pub(super) static FOLDER: Section<FolderConfig> = Section {
    header: "[[folder]]",
    doc: "Settings for one project. If several sections contain the first workspace folder, the innermost \
          one applies.",
    fresh: || FolderConfig { path: PathBuf::new(), servers: BTreeMap::new(), default_server: None },
    keys: &[
        Key {
            name: "path",
            ty: Type::RequiredPath(|it| &mut it.path),
            workspace: Workspace::No,
            absent: "",
            doc: "The folder of the project: an absolute path, or a path that starts with `~/`.",
        },
        Key {
            name: "default_server",
            ty: Type::ServerName(|it| &mut it.default_server),
            workspace: Workspace::No,
            absent: "the general one",
            doc: "Replaces the general `default_server`.",
        },
        Key {
            name: "server",
            ty: Type::Servers(|it| &mut it.servers),
            workspace: Workspace::No,
            absent: "none",
            doc: "`[folder.server.NAME]` replaces the whole section `[server.NAME]`.",
        },
    ],
};

pub(super) static TOOLS: Section<ToolsConfig> = Section {
    header: "[tools]",
    doc: "Limits for builtin tools, where they are in use (`builtin_tools`). See [tools.md](tools.md).",
    fresh: ToolsConfig::default,
    keys: &[
        Key {
            name: "allow",
            ty: Type::Names(|it| &mut it.allow),
            workspace: Workspace::No,
            absent: "a question about each command",
            doc: "Commands that run without a question, such as `\"git status\"`, or `\"cargo test *\"` \
                  with any further words. [tools.md](tools.md#commands) says how lspool compares them.",
        },
        Key {
            name: "confine",
            ty: Type::Flag(|it| &mut it.confine),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether commands are prevented from writing outside the workspace, where the system \
                  supports it (Landlock on Linux).",
        },
        Key {
            name: "writable",
            ty: Type::Paths(|it| &mut it.writable),
            workspace: Workspace::No,
            absent: "none",
            doc: "Further folders that commands may write to, such as `\"~/.cargo\"`, beside the workspace \
                  and the temporary folders.",
        },
        Key {
            name: "time_limit",
            ty: Type::Duration(|it| &mut it.time_limit),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a command or a search may take. lspool then ends it, with all processes of the \
                  command.",
        },
        Key {
            name: "max_output",
            ty: Type::Size(|it| &mut it.max_output),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "The maximum size of a result. lspool leaves out the middle of a longer output.",
        },
        Key {
            name: "max_file",
            ty: Type::Size(|it| &mut it.max_file),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "The maximum size of a file to read, search, or edit.",
        },
    ],
};

pub(super) static ROUTE: Section<RouteConfig> = Section {
    header: "[[route]]",
    doc: "Which agent a conversation uses, where the editor does not say. A route matches a \
          `conversation/create` that has all its values; without values it matches each. The first match \
          applies, and yours come before those of workspace files.",
    fresh: RouteConfig::default,
    keys: &[
        Key {
            name: "agent",
            ty: Type::AgentName(|it| &mut it.agent),
            workspace: Workspace::Yes,
            absent: "",
            doc: "The agent: a builtin agent, or one with a section `[agent.NAME]`.",
        },
        Key {
            name: "chat_mode",
            ty: Type::Text(|it| &mut it.chat_mode),
            workspace: Workspace::Yes,
            absent: "any",
            doc: "`chatMode` of the create, such as `Agent`.",
        },
        Key {
            name: "custom_chat_mode",
            ty: Type::Text(|it| &mut it.custom_chat_mode),
            workspace: Workspace::Yes,
            absent: "any",
            doc: "`customChatModeId` of the create.",
        },
        Key {
            name: "source",
            ty: Type::Text(|it| &mut it.source),
            workspace: Workspace::Yes,
            absent: "any",
            doc: "`source` of the create, such as `panel` or `inline`.",
        },
        Key {
            name: "agent_slug",
            ty: Type::Text(|it| &mut it.agent_slug),
            workspace: Workspace::Yes,
            absent: "any",
            doc: "`agentSlug` of the turn in the create.",
        },
        Key {
            name: "model",
            ty: Type::Text(|it| &mut it.model),
            workspace: Workspace::Yes,
            absent: "any",
            doc: "The model of the create: `modelInfo.id`, or the older `model`.",
        },
    ],
};

pub(super) static LOG: Section<LogConfig> = Section {
    header: "[log]",
    doc: "The log. `--log-file` and `--log-level` override it.",
    fresh: LogConfig::default,
    keys: &[
        Key {
            name: "file",
            ty: Type::Path(|it| &mut it.file),
            workspace: Workspace::No,
            absent: "no log",
            doc: "The log file: an absolute path, or a path that starts with `~/`.",
        },
        Key {
            name: "level",
            ty: Type::LogLevel(|it| &mut it.level),
            workspace: Workspace::No,
            absent: "",
            doc: "The lowest severity in the log.",
        },
    ],
};
