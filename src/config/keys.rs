//! The table of all keys.
//!
//! A row describes a key: its name, its type and field, its default, its documentation, and whether a workspace file
//! may set it. The checks, the documentation, and the schema follow from the table.

mod agents;
mod groups;
mod remote;
mod server;
mod words;
mod workers;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde_json::{Map, Value};

use crate::rpc::PathPair;

pub(super) use self::{
    agents::{AGENT, SUB_AGENTS},
    groups::{GROUP, MEMBER},
    remote::REMOTE,
    server::SERVER,
    words::*,
    workers::{ORCHESTRATION, WORKER},
};
use super::{
    AgentConfig, Backoff, BuiltinTools, Cleanup, Combine, Config, Delegation, Engine, FolderConfig,
    GroupConfig, Isolation, LogConfig, LogLevel, LspToolsConfig, MemberConfig, OnLimit, OnLoading,
    OrchestrationConfig, Policy, Profile, RemoteConfig, Restart, RouteConfig, ServerConfig, ServerKind,
    ShareMode, ShareViews, StartAt, SubAgentsConfig, ToolsConfig, TurnRecovery, Unmapped, WorkerConfig,
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
        matches!(
            self.ty,
            Type::Engine(_)
                | Type::RequiredPath(_)
                | Type::AgentName(_)
                | Type::Members(_)
                | Type::MemberName(_)
        )
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
    /// The size of a text.
    TextSize(Field<T, usize>),
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
    /// An integer from 1, and a lower default that holds instead until the user sets it.
    CountOrLess(Field<T, usize>, Field<T, usize>),
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
    Share(Field<T, ShareMode>),
    ShareViews(Field<T, ShareViews>),
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
    /// By feature: how answers become one.
    Combine(Field<T, BTreeMap<String, Combine>>),
    /// By feature: a duration.
    Waits(Field<T, BTreeMap<String, Duration>>),
    /// A list of globs.
    Globs(Field<T, Vec<String>>),
    /// A list of methods; `*` at the end stands for anything.
    Methods(Field<T, Vec<String>>),
    /// A list of relative paths.
    Markers(Field<T, Vec<String>>),
    StartAt(Field<T, StartAt>),
    /// Where a server runs.
    Remote(Field<T, Option<RemoteConfig>>),
    /// What starts a server elsewhere; must be there.
    Engine(Field<T, Engine>),
    /// Folders here and there, or `"auto"`.
    PathPairs(Field<T, Option<Vec<PathPair>>>),
    Cleanup(Field<T, Cleanup>),
    Unmapped(Field<T, Unmapped>),
    Groups(Field<T, BTreeMap<String, GroupConfig>>),
    Servers(Field<T, BTreeMap<String, ServerConfig>>),
    Agents(Field<T, BTreeMap<String, AgentConfig>>),
    Folders(Field<T, Vec<FolderConfig>>),
    Routes(Field<T, Vec<RouteConfig>>),
    SubAgents(Field<T, SubAgentsConfig>),
    Workers(Field<T, Vec<WorkerConfig>>),
    Orchestration(Field<T, OrchestrationConfig>),
    Tools(Field<T, ToolsConfig>),
    LspTools(Field<T, LspToolsConfig>),
    /// A list of code tools.
    CodeTools(Field<T, Vec<String>>),
    OnLoading(Field<T, OnLoading>),
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
            doc: "Tiers: names for models, such as `fast = \"gpt-4.1\"`.",
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
            name: "lsp_tools",
            ty: Type::LspTools(|it| &mut it.lsp_tools),
            workspace: Workspace::Yes,
            absent: "",
            doc: "The code tools.",
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
            doc: "Records each session to this file ([fixtures.md](fixtures.md)). `--record` and the variable \
                  `LSPOOL_RECORD` override it. A change applies to the next start of lspool.",
        },
        Key {
            name: "record_texts",
            ty: Type::Flag(|it| &mut it.record.texts),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a recording keeps documents, prompts, and answers, instead of an `x` for each \
                  character.",
        },
        Key {
            name: "record_max_size",
            ty: Type::Size(|it| &mut it.record.max_size),
            workspace: Workspace::No,
            absent: "",
            doc: "The size at which a recording ends.",
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
            doc: "The random share by which a delay is longer or shorter.",
        },
    ],
};

pub(super) static FOLDER: Section<FolderConfig> = Section {
    header: "[[folder]]",
    doc: "Settings for one project. If several sections contain the first workspace folder, the innermost one \
          applies. `[folder.server.NAME]` replaces the whole section `[server.NAME]`.",
    fresh: || FolderConfig { path: PathBuf::new(), servers: BTreeMap::new(), default_server: None },
    keys: &[
        Key {
            name: "path",
            ty: Type::RequiredPath(|it| &mut it.path),
            workspace: Workspace::No,
            absent: "",
            doc: "The folder.",
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
    doc: "Limits for [builtin tools](tools.md).",
    fresh: ToolsConfig::default,
    keys: &[
        Key {
            name: "allow",
            ty: Type::Names(|it| &mut it.allow),
            workspace: Workspace::No,
            absent: "a question about each command",
            doc: "[Commands](tools.md#permission) that run without a question, such as `\"git status\"`.",
        },
        Key {
            name: "confine",
            ty: Type::Flag(|it| &mut it.confine),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether [commands can write](tools.md#confinement) only to the workspace and the temporary \
                  folders.",
        },
        Key {
            name: "writable",
            ty: Type::Paths(|it| &mut it.writable),
            workspace: Workspace::No,
            absent: "none",
            doc: "Further folders that commands can write to, such as `\"~/.cargo\"`.",
        },
        Key {
            name: "shell",
            ty: Type::Args(|it| &mut it.shell),
            workspace: Workspace::No,
            absent: "Bash or `sh`; on Windows PowerShell",
            doc: "The program that runs commands, and its arguments; the command line is added at the end.",
        },
        Key {
            name: "time_limit",
            ty: Type::Duration(|it| &mut it.time_limit),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a command or a search may take.",
        },
        Key {
            name: "max_output",
            ty: Type::Size(|it| &mut it.max_output),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "The maximum size of a result.",
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

pub(super) static LSP_TOOLS: Section<LspToolsConfig> = Section {
    header: "[lsp_tools]",
    doc: "The [code tools](code-tools.md) of `lspool lsp` and `lspool mcp`.",
    fresh: LspToolsConfig::default,
    keys: &[
        Key {
            name: "enabled",
            ty: Type::Flag(|it| &mut it.enabled),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "Whether there are code tools. Otherwise each call is refused.",
        },
        Key {
            name: "offer",
            ty: Type::CodeTools(|it| &mut it.offer),
            workspace: Workspace::No,
            absent: "`[\"core\"]`",
            doc: "The tools that `lspool mcp` lists: `core`, `all`, or names of tools. `all` adds `code_search`.",
        },
        Key {
            name: "raw",
            ty: Type::Flag(|it| &mut it.raw),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether an agent can send [raw requests](code-tools.md#settings): `lsp_start`, \
                  `lsp_request`, `lsp_stop`.",
        },
        Key {
            name: "raw_methods",
            ty: Type::Methods(|it| &mut it.raw_methods),
            workspace: Workspace::No,
            absent: "none",
            doc: "Further methods for `lsp_request`, such as `[\"rust-analyzer/viewHir\"]`.",
        },
        Key {
            name: "raw_commands",
            ty: Type::Names(|it| &mut it.raw_commands),
            workspace: Workspace::No,
            absent: "none",
            doc: "Commands of servers that `lsp_request` runs. Their edits are refused.",
        },
        Key {
            name: "time_limit",
            ty: Type::Duration(|it| &mut it.time_limit),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a call may take.",
        },
        Key {
            name: "ready_wait",
            ty: Type::Duration(|it| &mut it.ready_wait),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a call waits for a server that loads its project before it asks anyway.",
        },
        Key {
            name: "diagnostics_wait",
            ty: Type::Duration(|it| &mut it.diagnostics_wait),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a server may say nothing about a file before it counts as not checked.",
        },
        Key {
            name: "settle",
            ty: Type::Duration(|it| &mut it.settle),
            workspace: Workspace::No,
            absent: "",
            doc: "How long a server that publishes diagnostics without a version must then be silent before \
                  lspool believes it.",
        },
        Key {
            name: "max_output",
            ty: Type::TextSize(|it| &mut it.max_output),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "The maximum size of an answer's text. The rest can be asked for.",
        },
        Key {
            name: "max_results",
            ty: Type::Count(|it| &mut it.max_results),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many results a call shows by default; of diagnostics, twice as many.",
        },
        Key {
            name: "max_edit_files",
            ty: Type::Count(|it| &mut it.max_edit_files),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many files an edit changes. lspool refuses a larger one.",
        },
        Key {
            name: "max_servers",
            ty: Type::Count(|it| &mut it.max_servers),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many servers a session starts. Further languages have none.",
        },
        Key {
            name: "max_open",
            ty: Type::Count(|it| &mut it.max_open),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many documents are open at one server.",
        },
        Key {
            name: "on_loading",
            ty: Type::OnLoading(|it| &mut it.on_loading),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a call waits while a server loads its project, or fails with `loading`.",
        },
    ],
};

pub(super) static ROUTE: Section<RouteConfig> = Section {
    header: "[[route]]",
    doc: "Which agent a conversation uses, if the editor names none. A route matches a `conversation/create` \
          with all its values, or without values any. The first match applies; yours come before those of \
          workspace files. Without a match, the conversation has every tool.",
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
            doc: "The log file.",
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
