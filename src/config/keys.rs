//! The table of all keys.
//!
//! A row describes a key: its name, its type and field, its default, its documentation, and whether a workspace file
//! may set it. The checks, the documentation, and the schema follow from the table.

mod agents;
mod groups;
mod words;
mod workers;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde_json::{Map, Value};

pub(super) use self::{
    agents::{AGENT, SUB_AGENTS},
    groups::{GROUP, MEMBER},
    words::*,
    workers::{ORCHESTRATION, WORKER},
};
use super::{
    AgentConfig, Backoff, BuiltinTools, Config, Delegation, FolderConfig, GroupConfig, Isolation, LogConfig,
    LogLevel, MemberConfig, OnLimit, OrchestrationConfig, Policy, Profile, Restart, RouteConfig,
    ServerConfig, ServerKind, SubAgentsConfig, ToolsConfig, TurnRecovery, WorkerConfig,
};

/// A table of the file, read into a `T`.
pub(super) struct Section<T: 'static> {
    /// Its header in a file.
    pub(super) header: &'static str,
    /// The first paragraph of its documentation.
    pub(super) doc: &'static str,
    /// Its value without any key.
    pub(super) fresh: fn() -> T,
    /// Its keys, in the order of the documentation.
    pub(super) keys: &'static [Key<T>],
}

/// One key of a section.
pub(super) struct Key<T: 'static> {
    pub(super) name: &'static str,
    pub(super) ty: Type<T>,
    pub(super) workspace: Workspace,
    /// The default, if it is not the field's value. The documentation leaves out keys that hold a section.
    pub(super) absent: &'static str,
    pub(super) doc: &'static str,
}

impl<T> Key<T> {
    pub(super) fn is_required(&self) -> bool {
        matches!(self.ty, Type::RequiredPath(_) | Type::AgentName(_) | Type::Members(_) | Type::MemberName(_))
    }
}

/// Whether a workspace file may set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workspace {
    Yes,
    /// Only to a lower value.
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
    /// A required path.
    RequiredPath(Field<T, PathBuf>),
    /// A list of such paths.
    Paths(Field<T, Vec<PathBuf>>),
    /// A list of any strings.
    Args(Field<T, Vec<String>>),
    /// A list of names.
    Names(Field<T, Vec<String>>),
    /// A list of tools, also by the names of other programs.
    ToolNames(Field<T, Vec<String>>),
    /// A list of tools in which empty differs from absent.
    OptionalToolNames(Field<T, Option<Vec<String>>>),
    /// Environment variables.
    Variables(Field<T, BTreeMap<String, String>>),
    Duration(Field<T, Duration>),
    /// A duration with a computed default.
    OptionalDuration(Field<T, Option<Duration>>),
    Size(Field<T, usize>),
    /// A size without a default.
    OptionalSize(Field<T, Option<usize>>),
    Flag(Field<T, bool>),
    /// A number in a range. Both are in thousandths.
    Factor(Field<T, u32>, (u32, u32)),
    Restart(Field<T, Restart>),
    /// Sets the whole policy; single keys override it.
    Profile(Field<T, Policy>),
    Backoff(Field<T, Backoff>),
    /// An integer from 1.
    Count(Field<T, usize>),
    /// An integer from 1 without a default.
    OptionalCount(Field<T, Option<usize>>),
    /// An integer from 0.
    Amount(Field<T, usize>),
    ServerKind(Field<T, Option<ServerKind>>),
    TurnRecovery(Field<T, TurnRecovery>),
    Delegation(Field<T, Delegation>),
    Isolation(Field<T, Isolation>),
    /// An isolation that overrides the one of the server.
    OptionalIsolation(Field<T, Option<Isolation>>),
    OnLimit(Field<T, OnLimit>),
    BuiltinTools(Field<T, BuiltinTools>),
    LogLevel(Field<T, LogLevel>),
    /// The name of a configured server.
    ServerName(Field<T, Option<String>>),
    /// The required name of an existing agent.
    AgentName(Field<T, String>),
    /// The name of a group that is configured, or of a preset.
    GroupName(Field<T, Option<String>>),
    /// The name of a server that is configured, or known; must be there.
    MemberName(Field<T, String>),
    /// The only features that there are; a workspace file takes some out.
    Only(Field<T, Option<Vec<String>>>),
    /// Features that there are not; a workspace file adds some.
    Except(Field<T, Vec<String>>),
    /// What is passed on to a server.
    Json(Field<T, Map<String, Value>>),
    /// Servers of a group; must be there.
    Members(Field<T, Vec<MemberConfig>>),
    /// Members of a group by feature.
    Order(Field<T, BTreeMap<String, Vec<String>>>),
    Groups(Field<T, BTreeMap<String, GroupConfig>>),
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
            absent: "",
            doc: "The servers.",
        },
        Key {
            name: "default_group",
            ty: Type::GroupName(|it| &mut it.default_group),
            workspace: Workspace::No,
            absent: "`default_server`",
            doc: "The group to use when the command line names neither a group nor a command.",
        },
        Key {
            name: "group",
            ty: Type::Groups(|it| &mut it.groups),
            workspace: Workspace::No,
            absent: "the preset `python`",
            doc: "Several servers behind one editor.",
        },
        Key {
            name: "folder",
            ty: Type::Folders(|it| &mut it.folders),
            workspace: Workspace::No,
            absent: "",
            doc: "Settings for one project.",
        },
        Key {
            name: "agent",
            ty: Type::Agents(|it| &mut it.agents),
            workspace: Workspace::Yes,
            absent: "",
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
            absent: "",
            doc: "Limits for sub-agents.",
        },
        Key {
            name: "worker",
            ty: Type::Workers(|it| &mut it.workers),
            workspace: Workspace::Yes,
            absent: "",
            doc: "The workers that can do a task of a plan.",
        },
        Key {
            name: "orchestration",
            ty: Type::Orchestration(|it| &mut it.orchestration),
            workspace: Workspace::Yes,
            absent: "",
            doc: "Limits for the work on one goal.",
        },
        Key {
            name: "tools",
            ty: Type::Tools(|it| &mut it.tools),
            workspace: Workspace::Yes,
            absent: "",
            doc: "Limits for builtin tools.",
        },
        Key {
            name: "route",
            ty: Type::Routes(|it| &mut it.routes),
            workspace: Workspace::Yes,
            absent: "",
            doc: "Which conversations use which agent.",
        },
        Key {
            name: "log",
            ty: Type::Log(|it| &mut it.log),
            workspace: Workspace::No,
            absent: "",
            doc: "The log.",
        },
        Key {
            name: "record",
            ty: Type::Path(|it| &mut it.record.file),
            workspace: Workspace::No,
            absent: "no recording",
            doc: "Records each session to this file: an absolute path, or one that starts with `~/`. \
                  `--record` and the variable `LSPOOL_RECORD` override it. A change applies to the next \
                  start of lspool. See [fixtures.md](fixtures.md).",
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
            doc: "The size at which a recording ends. Its last line says so.",
        },
    ],
};

pub(super) static SERVER: Section<ServerConfig> = Section {
    header: "[server.NAME]",
    doc: "How lspool starts a server, and its limits. Without a section, lspool searches for \
          `copilot-language-server`. A command on the command line (`lspool -- COMMAND …`) replaces only \
          `command` and `args` of a section: `copilot` for a Copilot server, else the one with the name \
          of the executable, without folder and extension.",
    fresh: ServerConfig::default,
    keys: &[
        Key {
            name: "command",
            ty: Type::Command(|it| &mut it.command),
            workspace: Workspace::No,
            absent: "the name of the section; for `copilot`, lspool searches for `copilot-language-server`",
            doc: "The executable: an absolute path, a path that starts with `~/`, or a bare name, which \
                  lspool looks up in the absolute entries of `PATH` outside the workspace folders.",
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
            doc: "Additional environment variables.",
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
                  whose last turn is longest ago. If all are in use, `on_limit` decides. A process of a \
                  Copilot server uses about 360 MB of memory, and about 1 GB in versions before 1.520 \
                  ([versions](copilot-server.md#versions)): there, write 3 or so.",
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
            doc: "What happens to a conversation beyond `max_processes`: a chat mode serves it where that \
                  is as safe, or lspool refuses it.",
        },
        Key {
            name: "warm_spares",
            ty: Type::Amount(|it| &mut it.warm_spares),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many processes of a Copilot server lspool keeps started and signed in. A new \
                  partition or a restart takes one within milliseconds. Spares count for \
                  `max_processes`, and make room for others. Tool sets that need different capabilities \
                  of the editor have this number each.",
        },
        Key {
            name: "idle_timeout",
            ty: Type::Duration(|it| &mut it.idle_timeout),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a process without an open request keeps running, except the one that serves \
                  the editor. Its conversations come back at their next turn. `\"0s\"`: until its last \
                  conversation ends, or `max_processes` needs room.",
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
            doc: "How long turns of a restricted tool set wait for the MCP servers that it names. Then \
                  they run without the missing ones, and a message names these.",
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
            doc: "Whether a Copilot server records its requests to the model, on a memory file system if \
                  possible. After a crash the next process then sends the same bytes, so attachments, \
                  context, and the model's prompt cache stay. Otherwise only the questions and answers \
                  come back.",
        },
        Key {
            name: "repeat",
            ty: Type::Args(|it| &mut it.repeat),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "Further methods whose latest message a restarted server must get, before the open \
                  documents, such as `[\"my/setUp\"]`. lspool knows those of the Language Server \
                  Protocol, and `css/customDataChanged`, `html/customDataChanged`, \
                  `json/schemaAssociations`, `project/open`, `solution/open`, \
                  `yaml/registerContentRequest`, `yaml/registerCustomSchemaRequest`, and \
                  `yaml/supportSchemaSelection`.",
        },
        Key {
            name: "languages",
            ty: Type::Names(|it| &mut it.languages),
            workspace: Workspace::No,
            absent: "all",
            doc: "The `languageId`s of the documents for which lspool uses the server: in a group, and for \
                  [code tools](code-tools.md#servers).",
        },
        Key {
            name: "only",
            ty: Type::Only(|it| &mut it.only),
            workspace: Workspace::Smaller,
            absent: "every feature",
            doc: "In a group: the only features for which lspool uses the server. \
                  [groups.md](groups.md#features) lists the features.",
        },
        Key {
            name: "except",
            ty: Type::Except(|it| &mut it.except),
            workspace: Workspace::Smaller,
            absent: "none",
            doc: "In a group: features for which lspool does not use the server.",
        },
        Key {
            name: "settings",
            ty: Type::Json(|it| &mut it.settings),
            workspace: Workspace::No,
            absent: "none",
            doc: "In a group: settings that lspool lays over those of the editor when the server asks for its \
                  configuration. Section `a.b` is the table `b` in the table `a`.",
        },
        Key {
            name: "init_options",
            ty: Type::Json(|it| &mut it.init_options),
            workspace: Workspace::No,
            absent: "none",
            doc: "In a group: what lspool lays over the editor's `initializationOptions` for the server.",
        },
        Key {
            name: "profile",
            ty: Type::Profile(|it| &mut it.policy),
            workspace: Workspace::No,
            absent: "`\"resilient\"`",
            doc: "What happens when the server dies. `resilient`: lspool restarts it. `strict`: it does \
                  not. `best-effort`: it does not, and `initialize` succeeds even if the server cannot \
                  start. The next five keys and `backoff` override single settings.",
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
            doc: "How many restarts lspool attempts within `restart_window`. Then the server has failed, \
                  until a user restarts it. A server that has never been ready gets two starts.",
        },
        Key {
            name: "restart_window",
            ty: Type::Duration(|it| &mut it.policy.restart_window),
            workspace: Workspace::No,
            absent: "",
            doc: "The moving period for `max_restarts`.",
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
            absent: "",
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
                  limit, lspool replaces it when no request is open. If it exceeds the limit within a \
                  minute of its start, lspool shows a message, and replaces it only at twice the limit.",
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
            doc: "The random share by which a delay is longer or shorter, so that servers do not start \
                  together.",
        },
    ],
};

pub(super) static FOLDER: Section<FolderConfig> = Section {
    header: "[[folder]]",
    doc: "Settings for one project. If several sections contain the first workspace folder, the innermost \
          one applies. `[folder.server.NAME]` replaces the whole section `[server.NAME]`.",
    fresh: || FolderConfig { path: PathBuf::new(), servers: BTreeMap::new(), default_server: None },
    keys: &[
        Key {
            name: "path",
            ty: Type::RequiredPath(|it| &mut it.path),
            workspace: Workspace::No,
            absent: "",
            doc: "The folder: an absolute path, or one that starts with `~/`.",
        },
        Key {
            name: "default_server",
            ty: Type::ServerName(|it| &mut it.default_server),
            workspace: Workspace::No,
            absent: "the general one",
            doc: "Replaces the general `default_server` and `default_group`.",
        },
        Key {
            name: "server",
            ty: Type::Servers(|it| &mut it.servers),
            workspace: Workspace::No,
            absent: "",
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
                  with any further words ([tools.md](tools.md#permission)).",
        },
        Key {
            name: "confine",
            ty: Type::Flag(|it| &mut it.confine),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether commands can write only to the workspace and the temporary folders, where the \
                  system supports this (Landlock on Linux).",
        },
        Key {
            name: "writable",
            ty: Type::Paths(|it| &mut it.writable),
            workspace: Workspace::No,
            absent: "none",
            doc: "Further folders that commands can write to, such as `\"~/.cargo\"`.",
        },
        Key {
            name: "time_limit",
            ty: Type::Duration(|it| &mut it.time_limit),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a command or a search may take before lspool ends it.",
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
    doc: "Which agent a conversation uses, if the editor names none. A route matches a \
          `conversation/create` with all its values; without values it matches each. The first match \
          applies, and yours come before those of workspace files. Without a match, the conversation has \
          every tool.",
    fresh: RouteConfig::default,
    keys: &[
        Key {
            name: "agent",
            ty: Type::AgentName(|it| &mut it.agent),
            workspace: Workspace::Yes,
            absent: "",
            doc: "A builtin agent, or one with a section `[agent.NAME]`.",
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
            doc: "The log file: an absolute path, or one that starts with `~/`.",
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
