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
            absent: "`copilot` if it is configured, else the only server there is",
            doc: "The server to stand in front of when the command line names no command.",
        },
        Key {
            name: "server",
            ty: Type::Servers(|it| &mut it.servers),
            workspace: Workspace::Yes,
            absent: "`copilot-language-server` is searched for",
            doc: "The servers.",
        },
        Key {
            name: "folder",
            ty: Type::Folders(|it| &mut it.folders),
            workspace: Workspace::No,
            absent: "none",
            doc: "What holds in one project only.",
        },
        Key {
            name: "agent",
            ty: Type::Agents(|it| &mut it.agents),
            workspace: Workspace::Yes,
            absent: "the built-in agents",
            doc: "The agents.",
        },
        Key {
            name: "models",
            ty: Type::Variables(|it| &mut it.models),
            workspace: Workspace::No,
            absent: "none",
            doc: "Tiers: names that agents may use instead of a model, such as `fast = \"gpt-4.1\"`.",
        },
        Key {
            name: "subagents",
            ty: Type::SubAgents(|it| &mut it.subagents),
            workspace: Workspace::Yes,
            absent: "see there",
            doc: "What sub-agents may cost.",
        },
        Key {
            name: "worker",
            ty: Type::Workers(|it| &mut it.workers),
            workspace: Workspace::Yes,
            absent: "the workers that are built in",
            doc: "Who can be given a task of a plan.",
        },
        Key {
            name: "orchestration",
            ty: Type::Orchestration(|it| &mut it.orchestration),
            workspace: Workspace::Yes,
            absent: "see there",
            doc: "What the work on one goal may cost.",
        },
        Key {
            name: "tools",
            ty: Type::Tools(|it| &mut it.tools),
            workspace: Workspace::Yes,
            absent: "see there",
            doc: "What lspool's own tools may do.",
        },
        Key {
            name: "route",
            ty: Type::Routes(|it| &mut it.routes),
            workspace: Workspace::Yes,
            absent: "none: such a conversation may use every tool",
            doc: "Which conversations belong to which agent.",
        },
        Key {
            name: "log",
            ty: Type::Log(|it| &mut it.log),
            workspace: Workspace::No,
            absent: "see there",
            doc: "The log.",
        },
        Key {
            name: "record",
            ty: Type::Path(|it| &mut it.record.file),
            workspace: Workspace::No,
            absent: "nothing is recorded",
            doc: "Record each session in a file of this name, or in the next free one of `NAME-2` and so on: an absolute path, or \
                  one that starts with `~/`. Read when lspool starts; `--record` on the command line, and the variable `LSPOOL_RECORD`, go first. See \
                  [fixtures.md](fixtures.md).",
        },
        Key {
            name: "record_texts",
            ty: Type::Flag(|it| &mut it.record.texts),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a recording has documents, prompts and answers as they are. Else each of their characters is an \
                  `x`. Secrets are taken out in either case.",
        },
        Key {
            name: "record_max_size",
            ty: Type::Size(|it| &mut it.record.max_size),
            workspace: Workspace::No,
            absent: "",
            doc: "How long a recording may become. It ends there, with a line that says so.",
        },
    ],
};

pub(super) static SERVER: Section<ServerConfig> = Section {
    header: "[server.NAME]",
    doc: "How a server is started, and its limits. A command on the command line (`lspool -- COMMAND …`) takes \
          the place of `command` and `args` of the section it belongs to: `copilot` for a Copilot server, else \
          the section named like the executable without folder and extension. The other keys still hold. If there \
          is no such section, but one that starts that server under another name, a warning says so.",
    fresh: ServerConfig::default,
    keys: &[
        Key {
            name: "command",
            ty: Type::Command(|it| &mut it.command),
            workspace: Workspace::No,
            absent: "the section's name; for `copilot`, `copilot-language-server` is searched for",
            doc: "The executable: an absolute path, a path that starts with `~/`, or a bare name. A bare name is \
                  looked up in the absolute entries of `PATH` that lie outside the workspace folders.",
        },
        Key {
            name: "args",
            ty: Type::Args(|it| &mut it.args),
            workspace: Workspace::No,
            absent: "none; a Copilot server gets `--stdio`",
            doc: "Its arguments.",
        },
        Key {
            name: "env",
            ty: Type::Variables(|it| &mut it.env),
            workspace: Workspace::No,
            absent: "none",
            doc: "Variables set on top of lspool's own environment.",
        },
        Key {
            name: "cwd",
            ty: Type::Path(|it| &mut it.cwd),
            workspace: Workspace::No,
            absent: "lspool's own working folder",
            doc: "Its working folder.",
        },
        Key {
            name: "kind",
            ty: Type::ServerKind(|it| &mut it.kind),
            workspace: Workspace::No,
            absent: "told from the words of its command",
            doc: "What it is. Conversations of a Copilot server are divided by tool set; any other server is \
                  passed through.",
        },
        Key {
            name: "max_processes",
            ty: Type::Count(|it| &mut it.max_processes),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many processes of it may run at once. For one more, the one that has been without a \
                  turn for the longest time is stopped; if none is, `on_limit` says what happens. Nothing in use is \
                  stopped.",
        },
        Key {
            name: "isolation",
            ty: Type::Isolation(|it| &mut it.isolation),
            workspace: Workspace::No,
            absent: "",
            doc: "What keeps a conversation with a Copilot server to its tools ([isolation.md](isolation.md)). \
                  `\"process\"`: a process of its own, which it shares with those that have the same. `\"mode\"`: a \
                  custom chat mode in the process that serves the editor itself, which costs no memory; where that \
                  would not be as good, a process all the same.",
        },
        Key {
            name: "on_limit",
            ty: Type::OnLimit(|it| &mut it.on_limit),
            workspace: Workspace::No,
            absent: "",
            doc: "What becomes of a conversation that needs one more process than there may be. `\"mode\"`: it is kept \
                  to its tools by a chat mode, where that is as good; else, and with `\"error\"`, it is refused.",
        },
        Key {
            name: "warm_spares",
            ty: Type::Amount(|it| &mut it.warm_spares),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many processes of a Copilot server are kept started and signed in, without tools: a new partition or \
                  a restart takes one in milliseconds. They count as processes, and make room when another one is \
                  needed. An editor that offers the capabilities `subAgent`, `manageTodoListTool` or `watchedFiles` has \
                  as many of each kind that is in use.",
        },
        Key {
            name: "idle_timeout",
            ty: Type::Duration(|it| &mut it.idle_timeout),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a process without an open request, such as a turn, goes on; the one that serves the editor \
                  itself always does. Its conversations come back at their next turn. `\"0s\"`: it ends with its last \
                  conversation, and between the turns of one only if `max_processes` leaves no room for another.",
        },
        Key {
            name: "startup_timeout",
            ty: Type::Duration(|it| &mut it.startup_timeout),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a process may take to start and to answer `initialize`. After that it is stopped, and what \
                  waits for it fails.",
        },
        Key {
            name: "max_message",
            ty: Type::Size(|it| &mut it.max_message),
            workspace: Workspace::No,
            absent: "",
            doc: "The longest message that is accepted from it.",
        },
        Key {
            name: "turn_recovery",
            ty: Type::TurnRecovery(|it| &mut it.turn_recovery),
            workspace: Workspace::No,
            absent: "",
            doc: "What becomes of a turn of a conversation when its Copilot server dies in the middle of it. \
                  `\"continue\"`: the next process goes on with it, and no tool of the editor or of an MCP server \
                  runs twice. `\"fail\"`: it ends with an error.",
        },
        Key {
            name: "delegation",
            ty: Type::Delegation(|it| &mut it.delegation),
            workspace: Workspace::No,
            absent: "",
            doc: "The tool with which a lead starts sub-agents ([agents.md](agents.md)). `\"run_in_terminal\"` is for older servers, \
                  which forward no calls of tools that they do not know: a command `delegate --type NAME --prompt \"TASK\"` \
                  is carried out by lspool then, any other one by the editor.",
        },
        Key {
            name: "builtin_tools",
            ty: Type::BuiltinTools(|it| &mut it.builtin_tools),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a Copilot server is offered lspool's own tools ([tools.md](tools.md)). `\"fallback\"`: each of them, unless the \
                  editor has registered one of that name. `lspool orchestrate` has them always.",
        },
        Key {
            name: "exact_restore",
            ty: Type::Flag(|it| &mut it.exact_restore),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a Copilot server keeps what it tells the model, on a memory file system where there is \
                  one, so that after its death the next one tells the model the same, byte for byte: attachments \
                  and context are then not lost, and the model's prompt cache is used. Without it, the questions \
                  come back without what the server had put around them.",
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
            doc: "What its death means. `resilient`: it is brought back. `strict`: it is not, and `initialize` fails \
                  if it cannot be started. `best-effort`: it is not, and `initialize` is answered without it. The \
                  six keys below change one thing each.",
        },
        Key {
            name: "restart",
            ty: Type::Restart(|it| &mut it.policy.restart),
            workspace: Workspace::No,
            absent: "",
            doc: "Which deaths a process is brought back from. `never`: none. `on-failure`: any that nobody asked \
                  for, an exit with code 0 too; a partition comes back when it is needed. `always`: the same, and a \
                  partition comes back at once.",
        },
        Key {
            name: "required",
            ty: Type::Flag(|it| &mut it.policy.required),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether `initialize` fails if the server cannot be started. Else it is answered with no \
                  capabilities, and a message tells the user.",
        },
        Key {
            name: "max_restarts",
            ty: Type::Count(|it| &mut it.policy.max_restarts),
            workspace: Workspace::No,
            absent: "",
            doc: "How often a process may be restarted within `restart_window`; after that it has failed until \
                  somebody restarts it. One that has never been ready is given up after its second start.",
        },
        Key {
            name: "restart_window",
            ty: Type::Duration(|it| &mut it.policy.restart_window),
            workspace: Workspace::No,
            absent: "",
            doc: "The window moves with the time: a server that comes up and dies again fails too.",
        },
        Key {
            name: "immediate_first",
            ty: Type::Flag(|it| &mut it.policy.immediate_first),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether the first restart in a window comes at once.",
        },
        Key {
            name: "backoff",
            ty: Type::Backoff(|it| &mut it.policy.backoff),
            workspace: Workspace::No,
            absent: "see there",
            doc: "How long the others wait.",
        },
        Key {
            name: "stall_timeout",
            ty: Type::Duration(|it| &mut it.stall_timeout),
            workspace: Workspace::No,
            absent: "",
            doc: "A process that owes an answer and has said nothing for this long is asked whether it lives \
                  (`$/lspool/ping`, to which any message is an answer). `\"0s\"`: never.",
        },
        Key {
            name: "probe_timeout",
            ty: Type::Duration(|it| &mut it.probe_timeout),
            workspace: Workspace::No,
            absent: "",
            doc: "How long it may take to say anything then. After that it is *degraded*.",
        },
        Key {
            name: "hang_timeout",
            ty: Type::OptionalDuration(|it| &mut it.hang_timeout),
            workspace: Workspace::No,
            absent: "`\"1m\"` for a Copilot server, `\"0s\"` for others",
            doc: "How long a degraded process may go on saying nothing before it is ended, and restarted. `\"0s\"`: \
                  for ever.",
        },
        Key {
            name: "write_stall",
            ty: Type::Duration(|it| &mut it.write_stall),
            workspace: Workspace::No,
            absent: "",
            doc: "How long a process may read nothing although something waits for it. After that it is ended, and \
                  restarted.",
        },
        Key {
            name: "shutdown_grace",
            ty: Type::Duration(|it| &mut it.shutdown_grace),
            workspace: Workspace::No,
            absent: "",
            doc: "How long its answer to `shutdown` is waited for. The end of its input, SIGTERM and SIGKILL follow.",
        },
        Key {
            name: "memory_limit",
            ty: Type::OptionalSize(|it| &mut it.memory_limit),
            workspace: Workspace::No,
            absent: "none",
            doc: "How much memory a process, with what it has started, may hold. One that holds more is replaced as \
                  soon as no request is open. One that already holds more within `restart_window` of its start (a \
                  minute, if that is shorter) needs that much: it is replaced once it holds twice that, and a message \
                  says so.",
        },
    ],
};

pub(super) static BACKOFF: Section<Backoff> = Section {
    header: "[server.NAME.backoff]",
    doc: "How long a restart waits, or inline: `backoff = { initial = \"1s\", max = \"32s\" }`.",
    fresh: || Profile::Resilient.policy().backoff,
    keys: &[
        Key {
            name: "initial",
            ty: Type::Duration(|it| &mut it.initial),
            workspace: Workspace::No,
            absent: "",
            doc: "The first wait.",
        },
        Key {
            name: "max",
            ty: Type::Duration(|it| &mut it.max),
            workspace: Workspace::No,
            absent: "",
            doc: "The longest wait.",
        },
        Key {
            name: "multiplier",
            ty: Type::Factor(|it| &mut it.multiplier, (1000, 10_000)),
            workspace: Workspace::No,
            absent: "",
            doc: "How much longer each wait is than the one before.",
        },
        Key {
            name: "jitter",
            ty: Type::Factor(|it| &mut it.jitter, (0, 1000)),
            workspace: Workspace::No,
            absent: "",
            doc: "By which share a wait may be longer or shorter, so that several do not start in step.",
        },
    ],
};

pub(super) static FOLDER: Section<FolderConfig> = Section {
    header: "[[folder]]",
    doc: "What holds in one project only. Of several that contain the first workspace folder, the innermost one \
          is taken.",
    fresh: || FolderConfig { path: PathBuf::new(), servers: BTreeMap::new(), default_server: None },
    keys: &[
        Key {
            name: "path",
            ty: Type::RequiredPath(|it| &mut it.path),
            workspace: Workspace::No,
            absent: "",
            doc: "The project's folder: an absolute path, or one that starts with `~/`.",
        },
        Key {
            name: "default_server",
            ty: Type::ServerName(|it| &mut it.default_server),
            workspace: Workspace::No,
            absent: "the general one",
            doc: "Takes the place of the general `default_server`.",
        },
        Key {
            name: "server",
            ty: Type::Servers(|it| &mut it.servers),
            workspace: Workspace::No,
            absent: "none",
            doc: "`[folder.server.NAME]` takes the place of the whole section `[server.NAME]`.",
        },
    ],
};

pub(super) static TOOLS: Section<ToolsConfig> = Section {
    header: "[tools]",
    doc: "What lspool's own tools may do, where they are in use (`builtin_tools`): see [tools.md](tools.md).",
    fresh: ToolsConfig::default,
    keys: &[
        Key {
            name: "allow",
            ty: Type::Names(|it| &mut it.allow),
            workspace: Workspace::No,
            absent: "none: each command is asked about",
            doc: "Commands that are run without asking, such as `\"git status\"`, or `\"cargo test *\"` with any further words. How \
                  they are compared is told in [tools.md](tools.md#commands).",
        },
        Key {
            name: "confine",
            ty: Type::Flag(|it| &mut it.confine),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether commands are kept from writing outside the workspace, where the system can do that (Landlock, on Linux).",
        },
        Key {
            name: "writable",
            ty: Type::Paths(|it| &mut it.writable),
            workspace: Workspace::No,
            absent: "none",
            doc: "Folders beside the workspace and those for temporary files that commands may write to, such as `\"~/.cargo\"`.",
        },
        Key {
            name: "time_limit",
            ty: Type::Duration(|it| &mut it.time_limit),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a command may take before it is ended with all that it has started, or a search.",
        },
        Key {
            name: "max_output",
            ty: Type::Size(|it| &mut it.max_output),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How much one call may answer. Of what a command writes beyond that, the middle is left out.",
        },
        Key {
            name: "max_file",
            ty: Type::Size(|it| &mut it.max_file),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How large a file may be that is read, searched or edited.",
        },
    ],
};

pub(super) static ROUTE: Section<RouteConfig> = Section {
    header: "[[route]]",
    doc: "Says which conversations belong to which agent where the editor does not. A route matches a \
          `conversation/create` that has all the values it names, one without any matches every one; the first \
          that matches wins, and those of workspace files come after the user's.",
    fresh: RouteConfig::default,
    keys: &[
        Key {
            name: "agent",
            ty: Type::AgentName(|it| &mut it.agent),
            workspace: Workspace::Yes,
            absent: "",
            doc: "The agent: one that is built in or has an `[agent.NAME]`.",
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
            doc: "`agentSlug` of the create's turn.",
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
    doc: "The log. `--log-file` and `--log-level` on the command line go first.",
    fresh: LogConfig::default,
    keys: &[
        Key {
            name: "file",
            ty: Type::Path(|it| &mut it.file),
            workspace: Workspace::No,
            absent: "no file",
            doc: "Where it is written: an absolute path, or one that starts with `~/`.",
        },
        Key {
            name: "level",
            ty: Type::LogLevel(|it| &mut it.level),
            workspace: Workspace::No,
            absent: "",
            doc: "From which severity on.",
        },
    ],
};
