//! Text of a configuration file to a checked [`Config`].
//!
//! Owns the keys, their values, and the merging of a workspace file into the user's. One table of keys gives the checks,
//! the suggestions, the documentation, and the JSON schema. Reads no file and no environment: the shell expands `~` in
//! paths.
//!
//! **A workspace file is not trusted**: it can only add agents and routes, and lower limits.

mod code_tools;
mod docs;
pub(crate) mod features;
mod groups;
mod keys;
pub(crate) mod languages;
pub(crate) mod presets;
mod problem;
mod read;
mod remote;
mod share;
mod suggest;
#[cfg(test)]
mod tests;
mod units;
mod workers;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

#[cfg(test)]
pub(crate) use code_tools::{CORE_TOOLS, MORE_TOOLS, RAW_TOOLS};
pub use code_tools::{LspToolsConfig, OnLoading};
pub use docs::{markdown, schema};
pub use groups::{Combine, GroupConfig, MemberConfig};
pub use problem::{Problem, Problems, Shadowed, ShadowedKind};
pub use remote::{Cleanup, Engine, RemoteConfig, Unmapped, runs_elsewhere};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
pub use share::{ShareConfig, ShareMode, ShareViews};
pub(crate) use suggest::nearest;
pub use workers::{OrchestrationConfig, WorkerConfig};

/// The settings of the user's file and of the workspace files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The servers, by name.
    pub servers: BTreeMap<String, ServerConfig>,
    /// The server to use without a command on the command line.
    pub default_server: Option<String>,
    /// Several servers behind one editor, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, GroupConfig>,
    /// The one to take where no command says which; before `default_server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_group: Option<String>,
    /// Servers for one project, in the order of the file.
    pub folders: Vec<FolderConfig>,
    /// The agents, builtin ones included.
    pub agents: BTreeMap<String, AgentConfig>,
    /// The models of the tiers that agents can name instead of a model.
    pub models: BTreeMap<String, String>,
    /// The limits of sub-agents.
    pub subagents: SubAgentsConfig,
    /// The workers: the presets, then others in the order of their files.
    pub workers: Vec<WorkerConfig>,
    /// The limits of the work on one goal.
    pub orchestration: OrchestrationConfig,
    /// The limits of builtin tools.
    pub tools: ToolsConfig,
    /// The code tools.
    pub lsp_tools: LspToolsConfig,
    /// The routes of conversations to agents; the first that matches applies.
    pub routes: Vec<RouteConfig>,
    /// The log.
    pub log: LogConfig,
    /// The recording.
    pub record: RecordConfig,
}

/// The result of adding an agent to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Its name is free.
    Free,
    /// It replaces this one of the same name.
    Over(AgentSource),
    /// It is left out, because this one has its name.
    TakenBy(AgentSource),
    /// Its file has another agent of that name, written like this.
    Twice(String),
}

impl Config {
    /// Decides about an agent that is added to `agents`. Sources have a rank: the user's configuration, the user's files,
    /// builtin agents, the workspace.
    pub(crate) fn place(agents: &BTreeMap<String, AgentConfig>, name: &str, newcomer: &AgentSource) -> Place {
        // A model may change the case of a name.
        let same = agents.iter().find(|(it, _)| it.to_lowercase() == name.to_lowercase());
        let Some((other, by)) = same.map(|(other, it)| (other, it.source.clone())) else {
            return Place::Free;
        };
        match newcomer {
            AgentSource::User if by == AgentSource::User && other != name => Place::Twice(other.clone()),
            AgentSource::User if matches!(by, AgentSource::UserFile(_)) => Place::Over(by),
            AgentSource::UserFile(_) if by != AgentSource::Builtin => Place::TakenBy(by),
            AgentSource::Workspace(_) => Place::TakenBy(by),
            AgentSource::User | AgentSource::UserFile(_) | AgentSource::Builtin => Place::Free,
        }
    }

    /// Finds an agent by its name in any case, with the name as its definition writes it.
    pub(crate) fn agent_named<'a>(
        agents: &'a BTreeMap<String, AgentConfig>,
        name: &str,
    ) -> Option<(&'a String, &'a AgentConfig)> {
        let same = || agents.iter().find(|(it, _)| it.to_lowercase() == name.to_lowercase());
        agents.get_key_value(name).or_else(same)
    }

    /// Adds an agent, and removes one of the same name in any case.
    pub(crate) fn put(agents: &mut BTreeMap<String, AgentConfig>, name: String, agent: AgentConfig) {
        agents.retain(|it, _| it.to_lowercase() != name.to_lowercase());
        agents.insert(name, agent);
    }

    /// Reads the user's file. Messages call it `file`.
    pub fn parse_user(text: &str, file: &str) -> Result<Config, Problems> {
        Config::default().merge_user(text, file).map(|(config, _)| config)
    }

    /// Overrides this configuration by the user's file. Returns the agents that the file replaces.
    pub fn merge_user(self, text: &str, file: &str) -> Result<(Config, Vec<Shadowed>), Problems> {
        read::read(text, file, problem::Author::User, self)
    }

    /// Adds the agents, routes, and lower limits of a workspace file. Returns the agents that it left out because their
    /// name is taken.
    ///
    /// A file with errors changes nothing. The caller must not continue without it: without its routes a conversation
    /// has more tools than it should.
    pub fn merge_workspace(&mut self, text: &str, file: &Path) -> Result<Vec<Shadowed>, Problems> {
        let author = problem::Author::Workspace(file.to_owned());
        let (merged, shadowed) = read::read(text, &file.display().to_string(), author, self.clone())?;
        *self = merged;
        Ok(shadowed)
    }

    /// Applies a `[[folder]]`: its servers and its default.
    pub fn enter_folder(&mut self, folder: &FolderConfig) {
        self.servers.extend(folder.servers.clone());
        if folder.default_server.is_some() {
            self.default_server.clone_from(&folder.default_server);
            self.default_group = None;
        }
    }
}

impl Default for Config {
    /// The builtin configuration: no server, the builtin agents.
    fn default() -> Self {
        Config {
            servers: BTreeMap::new(),
            default_server: None,
            groups: BTreeMap::new(),
            default_group: None,
            folders: Vec::new(),
            agents: AgentConfig::builtin(),
            models: BTreeMap::new(),
            subagents: SubAgentsConfig::default(),
            workers: WorkerConfig::presets(),
            orchestration: OrchestrationConfig::default(),
            tools: ToolsConfig::default(),
            lsp_tools: LspToolsConfig::default(),
            routes: Vec::new(),
            log: LogConfig::default(),
            record: RecordConfig::default(),
        }
    }
}

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerKind {
    /// A `copilot-language-server`, with a process for each tool set.
    Copilot,
    /// Any other language server.
    Generic,
}

/// `[server.NAME]`: how lspool starts a server, and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The executable. Without it, the section's name, or for a Copilot server the result of a search.
    pub command: Option<String>,
    /// Its arguments; a Copilot server without any gets `--stdio`.
    pub args: Vec<String>,
    /// Variables in addition to lspool's environment.
    pub env: BTreeMap<String, String>,
    /// Its working folder. Without it, lspool's.
    pub cwd: Option<PathBuf>,
    /// Its kind. Without it, lspool derives the kind from the command.
    pub kind: Option<ServerKind>,
    /// How many processes may run at once, the primary's included. At least 1.
    pub max_processes: usize,
    /// The same for a server whose processes are large. Equal to `max_processes` if the user has set that.
    pub max_large_processes: usize,
    /// How many spares lspool keeps for a partition or a restart.
    pub warm_spares: usize,
    /// How long an idle partition keeps running.
    pub idle_timeout: Duration,
    /// How long a process may take to answer `initialize`.
    pub startup_timeout: Duration,
    /// How long turns of a restricted set wait for the MCP servers of the set.
    pub mcp_wait: Duration,
    /// The longest message that it may send, in bytes.
    pub max_message: usize,
    /// What happens when it dies.
    pub policy: Policy,
    /// How many bytes of memory a process and its children may use before lspool replaces it.
    pub memory_limit: Option<usize>,
    /// How long a process may read nothing while messages wait for it.
    pub write_stall: Duration,
    /// How long lspool waits for the answer to `shutdown`, and again after `exit`.
    pub shutdown_grace: Duration,
    /// How long a process that owes an answer may be silent before lspool probes it. Without it, a minute, and less for
    /// a server elsewhere.
    pub stall_timeout: Option<Duration>,
    /// How long a probed process may be silent before it is degraded.
    pub probe_timeout: Duration,
    /// How long a process may be degraded before lspool ends it. Without it, a minute for a Copilot server and
    /// in a container, and no limit for others.
    pub hang_timeout: Option<Duration>,
    /// What happens to a turn when its process dies.
    pub turn_recovery: TurnRecovery,
    /// The tool with which leads start sub-agents.
    pub delegation: Delegation,
    /// Whether lspool offers builtin tools that the editor does not have.
    pub builtin_tools: BuiltinTools,
    /// Whether a process records its requests to the model, so that the next one can repeat them.
    pub exact_restore: bool,
    /// Methods whose latest message from the editor each new process gets, in addition to those that lspool knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeat: Vec<String>,
    /// What keeps a conversation to its tools.
    pub isolation: Isolation,
    /// What happens to a conversation beyond `max_processes`.
    pub on_limit: OnLimit,
    /// Where it runs, if not beside lspool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteConfig>,
    /// Whether several clients use one process, and how.
    #[serde(skip_serializing_if = "ShareConfig::is_default")]
    pub share: ShareConfig,
    /// In a group: the `languageId`s of the documents that lspool opens in it; all if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<String>,
    /// In a group: globs of the files that it is used for; all if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// In a group: files or folders that show where its root is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub root_markers: Vec<String>,
    /// In a group: it is used only where there is one of its `root_markers`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub root_required: bool,
    /// In a group: methods of the editor that go to it and to no other member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<String>,
    /// In a group: when it is started.
    #[serde(skip_serializing_if = "StartAt::is_now")]
    pub start: StartAt,
    /// In a group: the only features that it is used for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// In a group: features that it is not used for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// In a group: laid over the editor's settings, by section.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// In a group: laid over `initializationOptions`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub init_options: Map<String, Value>,
}

/// When a member of a group is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartAt {
    /// With the others.
    #[default]
    Now,
    /// With the first document that it is used for.
    Document,
}

impl StartAt {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_now(&self) -> bool {
        *self == StartAt::Now
    }
}

/// When lspool restarts a process, and what a failed start means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The exits after which lspool restarts it.
    pub restart: Restart,
    /// Whether `initialize` fails if the server cannot start.
    pub required: bool,
    /// How many restarts lspool attempts within `restart_window`.
    pub max_restarts: usize,
    /// The moving period for `max_restarts`.
    pub restart_window: Duration,
    /// Whether the first restart in a window has no delay.
    pub immediate_first: bool,
    /// The delays of the other restarts.
    pub backoff: Backoff,
}

/// The exits after which lspool restarts a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// None.
    Never,
    /// Every unasked exit; a partition restarts when it is needed.
    OnFailure,
    /// Every unasked exit; a partition restarts at once.
    Always,
}

/// The growing delays of restarts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// The first delay.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
    /// The factor from each delay to the next, in thousandths.
    pub multiplier: u32,
    /// The random share by which a delay is longer or shorter, in thousandths.
    pub jitter: u32,
}

/// A named [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// lspool restarts the server.
    Resilient,
    /// lspool does not restart the server, and `initialize` fails without it.
    Strict,
    /// lspool does not restart the server, and `initialize` succeeds without it.
    BestEffort,
}

impl Profile {
    /// The settings of the profile.
    pub fn policy(self) -> Policy {
        let (restart, required) = match self {
            Profile::Resilient => (Restart::OnFailure, true),
            Profile::Strict => (Restart::Never, true),
            Profile::BestEffort => (Restart::Never, false),
        };
        Policy {
            restart,
            required,
            max_restarts: 5,
            restart_window: Duration::from_mins(3),
            immediate_first: true,
            backoff: Backoff {
                initial: Duration::from_secs(1),
                max: Duration::from_secs(32),
                multiplier: 2000,
                jitter: 250,
            },
        }
    }
}

/// What happens to a turn when its process dies after the turn has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnRecovery {
    /// The next process continues it.
    #[default]
    Continue,
    /// It ends with an error.
    Fail,
}

/// What keeps a conversation to its tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// A process that has no other tools.
    #[default]
    Process,
    /// A chat mode in the primary, where that is as safe.
    Mode,
}

impl Isolation {
    /// The word in a file.
    pub fn word(self) -> &'static str {
        match self {
            Isolation::Process => "process",
            Isolation::Mode => "mode",
        }
    }
}

/// What happens to a conversation beyond `max_processes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLimit {
    /// A chat mode serves it, where that is as safe.
    #[default]
    Mode,
    /// lspool refuses it.
    Error,
}

/// The tool with which leads start sub-agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delegation {
    /// `delegate_task`.
    #[default]
    DelegateTask,
    /// `run_in_terminal`, because older servers do not forward calls of unknown tools.
    RunInTerminal,
}

/// Whether lspool offers builtin tools that the editor does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuiltinTools {
    /// It offers none.
    #[default]
    Off,
    /// It offers each tool, unless the editor has registered one of that name.
    Fallback,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            kind: None,
            max_processes: 8,
            max_large_processes: 4,
            warm_spares: 0,
            idle_timeout: Duration::from_mins(5),
            startup_timeout: Duration::from_secs(35),
            mcp_wait: Duration::from_secs(10),
            max_message: 256 << 20,
            policy: Profile::Resilient.policy(),
            memory_limit: None,
            write_stall: Duration::from_mins(1),
            shutdown_grace: Duration::from_secs(5),
            stall_timeout: None,
            probe_timeout: Duration::from_secs(10),
            hang_timeout: None,
            turn_recovery: TurnRecovery::default(),
            delegation: Delegation::default(),
            builtin_tools: BuiltinTools::default(),
            exact_restore: false,
            repeat: Vec::new(),
            isolation: Isolation::default(),
            on_limit: OnLimit::default(),
            remote: None,
            share: ShareConfig::default(),
            languages: Vec::new(),
            files: Vec::new(),
            root_markers: Vec::new(),
            root_required: false,
            handles: Vec::new(),
            start: StartAt::Now,
            only: None,
            except: Vec::new(),
            settings: Map::new(),
            init_options: Map::new(),
        }
    }
}

/// `[[folder]]`: settings for one project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderConfig {
    /// The project's folder; may start with `~/`.
    pub path: PathBuf,
    /// Its servers. Each replaces the section of the same name.
    pub servers: BTreeMap<String, ServerConfig>,
    /// Replaces the general `default_server`.
    pub default_server: Option<String>,
}

/// The place that defines an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentSource {
    /// lspool.
    Builtin,
    /// The user's configuration.
    User,
    /// This agent file of the user.
    UserFile(PathBuf),
    /// This file of a workspace.
    Workspace(PathBuf),
}

/// `[agent.NAME]`, or an agent file: a tool set, and instructions for sub-agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// The tools that it may use; `None` is every tool, an empty list none.
    pub tools: Option<Vec<String>>,
    /// Tools to remove from `tools`.
    pub disallowed_tools: Vec<String>,
    /// When to use it. Its own name keeps it readable in recordings, which mask descriptions.
    #[serde(default, rename = "agentPurpose", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The instructions before its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The model: an id, a name, or a tier of `[models]`. Without it, the lead's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many requests to its model one task may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<usize>,
    /// Whether it may start sub-agents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lead: bool,
    /// What keeps its conversations to its tools. Without it, the setting of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The other keys of its file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other: BTreeMap<String, Value>,
    /// Where it is defined.
    pub source: AgentSource,
}

impl AgentConfig {
    /// The builtin agents.
    fn builtin() -> BTreeMap<String, AgentConfig> {
        const READING: &[&str] = &["ide", "lsp_read", "read_file", "list_dir", "grep_search", "file_search"];
        let agents: [(&str, Option<&[&str]>, &str); 4] = [
            (
                "explore",
                Some(READING),
                "Explores the code and reports where something is and how it works. Changes nothing.",
            ),
            (
                "plan",
                Some(READING),
                "Reads the code and plans how to do something, step by step. Changes nothing.",
            ),
            ("bash", Some(&["run_in_terminal"]), "Runs commands in a terminal and reports the results."),
            ("general-purpose", None, "Does a task of several steps on its own, with every tool."),
        ];
        let agent = |tools: Option<&[&str]>, description: &str| AgentConfig {
            tools: tools.map(|tools| tools.iter().map(ToString::to_string).collect()),
            description: Some(description.to_owned()),
            ..AgentConfig::of(AgentSource::Builtin)
        };
        let all = agents.into_iter();
        all.map(|(name, tools, description)| (name.to_owned(), agent(tools, description))).collect()
    }

    /// An agent with every tool and no instructions.
    pub fn of(source: AgentSource) -> AgentConfig {
        AgentConfig {
            tools: None,
            disallowed_tools: Vec::new(),
            description: None,
            prompt: None,
            model: None,
            max_turns: None,
            lead: false,
            isolation: None,
            other: BTreeMap::new(),
            source,
        }
    }
}

/// `[subagents]`: the limits for the sub-agents of one turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SubAgentsConfig {
    /// How many run at once.
    pub max_parallel: usize,
    /// How many one turn may start in all.
    pub max_subagents: usize,
    /// How often lspool gives results to the lead and lets it continue.
    pub max_followups: usize,
    /// How long one sub-agent may take.
    pub time_limit: Duration,
}

impl Default for SubAgentsConfig {
    fn default() -> SubAgentsConfig {
        SubAgentsConfig {
            max_parallel: 4,
            max_subagents: 20,
            max_followups: 10,
            time_limit: Duration::from_mins(15),
        }
    }
}

/// `[tools]`: the limits of builtin tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Commands that run without a question.
    pub allow: Vec<String>,
    /// Further folders that commands may write to; each may start with `~/`.
    pub writable: Vec<PathBuf>,
    /// The words of the shell for commands, which get the command line as their last argument. Empty: the usual one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shell: Vec<String>,
    /// Whether commands can write only to these folders, where the system supports this.
    pub confine: bool,
    /// How long a command or a search may take.
    pub time_limit: Duration,
    /// The maximum size of a result, in bytes.
    pub max_output: usize,
    /// The maximum size of a file to read, search, or edit, in bytes.
    pub max_file: usize,
}

impl Default for ToolsConfig {
    fn default() -> ToolsConfig {
        ToolsConfig {
            allow: Vec::new(),
            writable: Vec::new(),
            shell: Vec::new(),
            confine: true,
            time_limit: Duration::from_mins(2),
            max_output: 64 << 10,
            max_file: 8 << 20,
        }
    }
}

/// `[[route]]`: a conversation with all of these values uses `agent`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// `chatMode` of the create.
    pub chat_mode: Option<String>,
    /// `customChatModeId` of the create.
    pub custom_chat_mode: Option<String>,
    /// `source` of the create.
    pub source: Option<String>,
    /// `agentSlug` of the create.
    pub agent_slug: Option<String>,
    /// The model of the create.
    pub model: Option<String>,
    /// The name of an existing agent.
    pub agent: String,
}

/// `record` and the keys that begin with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordConfig {
    /// The file. Without it, lspool does not record.
    pub file: Option<PathBuf>,
    /// Whether it keeps texts.
    pub texts: bool,
    /// The maximum size, in bytes.
    pub max_size: usize,
}

impl Default for RecordConfig {
    fn default() -> RecordConfig {
        RecordConfig { file: None, texts: false, max_size: 256 << 20 }
    }
}

/// `[log]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The file. Without it, lspool does not log. stderr of lspool is for errors that end it.
    pub file: Option<PathBuf>,
    /// The lowest severity in the log.
    pub level: LogLevel,
}

/// A severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// A broken invariant, or lost work of a client.
    Error,
    /// The misbehavior of a peer.
    Warn,
    /// A change of a lifecycle.
    #[default]
    Info,
    /// Decisions.
    Debug,
    /// Every frame.
    Trace,
}

impl LogLevel {
    /// The words for the levels, from the fewest to the most messages.
    pub const WORDS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

    /// The level for a word.
    pub fn from_word(word: &str) -> Option<LogLevel> {
        keys::LOG_LEVELS.iter().find(|(it, _)| *it == word).map(|(_, level)| *level)
    }

    /// The word for the level.
    pub fn word(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}
