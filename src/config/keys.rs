//! The table of all keys.
//!
//! Each key is described once: its name, its type and the field it sets, what its absence means, whether a
//! workspace file may have it, what it is for. The checks, the documentation and the schema follow the table.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::{
    AgentConfig, AgentSource, Config, FolderConfig, LogConfig, LogLevel, RouteConfig, ServerConfig,
    ServerKind, TurnRecovery,
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
    /// A list of any texts.
    Args(Field<T, Vec<String>>),
    /// A list of names.
    Names(Field<T, Vec<String>>),
    /// A list of names that means something else when it is empty than when it is absent.
    OptionalNames(Field<T, Option<Vec<String>>>),
    /// Variables of an environment.
    Variables(Field<T, BTreeMap<String, String>>),
    Duration(Field<T, Duration>),
    Size(Field<T, usize>),
    /// A number from 1 on.
    Count(Field<T, usize>),
    Bool(Field<T, bool>),
    ServerKind(Field<T, Option<ServerKind>>),
    TurnRecovery(Field<T, TurnRecovery>),
    LogLevel(Field<T, LogLevel>),
    /// The name of a server that is configured.
    ServerName(Field<T, Option<String>>),
    /// The name of an agent that exists; must be there.
    AgentName(Field<T, String>),
    Servers(Field<T, BTreeMap<String, ServerConfig>>),
    Agents(Field<T, BTreeMap<String, AgentConfig>>),
    Folders(Field<T, Vec<FolderConfig>>),
    Routes(Field<T, Vec<RouteConfig>>),
    Log(Field<T, LogConfig>),
}

/// Words for the kinds of servers.
pub(super) const SERVER_KINDS: [(&str, ServerKind); 2] =
    [("copilot", ServerKind::Copilot), ("generic", ServerKind::Generic)];

/// Words for what becomes of a turn whose process dies.
pub(super) const TURN_RECOVERIES: [(&str, TurnRecovery); 2] =
    [("continue", TurnRecovery::Continue), ("fail", TurnRecovery::Fail)];

/// Words for the levels of the log.
pub(super) const LOG_LEVELS: [(&str, LogLevel); 5] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

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
    ],
};

pub(super) static SERVER: Section<ServerConfig> = Section {
    header: "[server.NAME]",
    doc: "How a server is started, and its limits. A command on the command line (`lspool -- COMMAND …`) takes \
          the place of `command` and `args` of the section it belongs to: `copilot` for a Copilot server, else \
          the section named like the executable without folder and extension. The other keys still hold.",
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
            doc: "How many processes of it may run at once. For one more, the idle one that was used least \
                  recently is stopped; if none is idle, the conversation is refused. Nothing in use is stopped.",
        },
        Key {
            name: "idle_timeout",
            ty: Type::Duration(|it| &mut it.idle_timeout),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a process without a conversation goes on; the one that serves the editor itself always \
                  does. `\"0s\"`: it ends with its last conversation.",
        },
        Key {
            name: "startup_timeout",
            ty: Type::Duration(|it| &mut it.startup_timeout),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a process may take to answer `initialize`. After that it is stopped, and what waits for it \
                  fails.",
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
            name: "exact_restore",
            ty: Type::Bool(|it| &mut it.exact_restore),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a Copilot server keeps what it tells the model, on a memory file system where there is \
                  one, so that after its death the next one tells the model the same, byte for byte: attachments \
                  and context are then not lost, and the model's prompt cache is used. Without it, the questions \
                  come back without what the server had put around them.",
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

pub(super) static AGENT: Section<AgentConfig> = Section {
    header: "[agent.NAME]",
    doc: "A named tool set. Agents with equal tool sets share a process; that process knows no other tools.",
    fresh: || AgentConfig { tools: None, disallowed_tools: Vec::new(), source: AgentSource::User },
    keys: &[
        Key {
            name: "tools",
            ty: Type::OptionalNames(|it| &mut it.tools),
            workspace: Workspace::Yes,
            absent: "every tool",
            doc: "The tools it may use; `[]` is none. `ide` stands for every tool whose name starts with `ide_`, \
                  and a name that ends in `*` for every tool whose name starts so.",
        },
        Key {
            name: "disallowed_tools",
            ty: Type::Names(|it| &mut it.disallowed_tools),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "Tools taken out of these.",
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
