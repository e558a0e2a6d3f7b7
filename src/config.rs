//! Text of a configuration file to a checked [`Config`].
//!
//! Owns what the keys are (one table, from which the checks, the suggestions, the documentation and
//! the JSON schema all come), what their values may be, and how a workspace file is merged into the user's.
//! Reads no file, knows no environment: `~` in a path is expanded by the shell.
//!
//! **A workspace file is not trusted**: it adds agents and routes and makes limits smaller, nothing else.

mod docs;
mod engine;
mod keys;
mod problem;
mod read;
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

pub use docs::{markdown, schema};
pub use engine::runs_elsewhere;
pub use problem::{Problem, Problems, Shadowed, ShadowedKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
pub(crate) use suggest::nearest;
pub use workers::{OrchestrationConfig, WorkerConfig};

/// Everything that the user's file and the workspace files say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The servers lspool can stand in front of, by name.
    pub servers: BTreeMap<String, ServerConfig>,
    /// The one to take where no command says which.
    pub default_server: Option<String>,
    /// Servers for one project, in the order of the file.
    pub folders: Vec<FolderConfig>,
    /// Named tool sets, the built-in ones included.
    pub agents: BTreeMap<String, AgentConfig>,
    /// What the tiers stand for that agents name instead of a model.
    pub models: BTreeMap<String, String>,
    /// What sub-agents may cost.
    pub subagents: SubAgentsConfig,
    /// Who can be given a task of a plan: the presets, then others in the order of their files.
    pub workers: Vec<WorkerConfig>,
    /// What the work on one goal may cost.
    pub orchestration: OrchestrationConfig,
    /// What lspool's own tools may do.
    pub tools: ToolsConfig,
    /// Which conversations belong to which agent; the first that matches wins.
    pub routes: Vec<RouteConfig>,
    /// What is logged, and where to.
    pub log: LogConfig,
    /// What is recorded, and where to.
    pub record: RecordConfig,
}

/// What becomes of an agent among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It holds.
    Free,
    /// It holds, and this one of the same name does not any more.
    Over(AgentSource),
    /// It is kept out.
    TakenBy(AgentSource),
    /// Its file has another one of that name, written like this.
    Twice(String),
}

impl Config {
    /// What becomes of an agent that is defined after those that there are. Whoever defines it comes with a rank: the
    /// user's configuration, the user's files, what is built in, the workspace.
    pub(crate) fn place(agents: &BTreeMap<String, AgentConfig>, name: &str, newcomer: &AgentSource) -> Place {
        // For a model a name is the same in capital letters.
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

    /// The agent of this name, however it is written, and how its definition writes it.
    pub(crate) fn agent_named<'a>(
        agents: &'a BTreeMap<String, AgentConfig>,
        name: &str,
    ) -> Option<(&'a String, &'a AgentConfig)> {
        let same = || agents.iter().find(|(it, _)| it.to_lowercase() == name.to_lowercase());
        agents.get_key_value(name).or_else(same)
    }

    /// Takes in an agent for which there is a place; one of that name, however it is written, is no more.
    pub(crate) fn put(agents: &mut BTreeMap<String, AgentConfig>, name: String, agent: AgentConfig) {
        agents.retain(|it, _| it.to_lowercase() != name.to_lowercase());
        agents.insert(name, agent);
    }

    /// Reads the user's own file. `file` is how it is called in messages.
    pub fn parse_user(text: &str, file: &str) -> Result<Config, Problems> {
        Config::default().merge_user(text, file).map(|(config, _)| config)
    }

    /// Makes what the user's own file says hold over what was known before. Tells the agents that it takes the place
    /// of.
    pub fn merge_user(self, text: &str, file: &str) -> Result<(Config, Vec<Shadowed>), Problems> {
        read::read(text, file, problem::Author::User, self)
    }

    /// Adds what a workspace file may say: agents, routes, smaller limits of servers that are configured.
    /// Tells the agents that were kept out because their name is taken.
    ///
    /// A file with problems changes nothing. Whoever calls this must not go on without it: a route that is
    /// left out gives a conversation more tools than it says.
    pub fn merge_workspace(&mut self, text: &str, file: &Path) -> Result<Vec<Shadowed>, Problems> {
        let author = problem::Author::Workspace(file.to_owned());
        let (merged, shadowed) = read::read(text, &file.display().to_string(), author, self.clone())?;
        *self = merged;
        Ok(shadowed)
    }

    /// Makes what a `[[folder]]` says hold: its servers and its default.
    pub fn enter_folder(&mut self, folder: &FolderConfig) {
        self.servers.extend(folder.servers.clone());
        if folder.default_server.is_some() {
            self.default_server.clone_from(&folder.default_server);
        }
    }
}

impl Default for Config {
    /// The built-in configuration: no server, the built-in agents.
    fn default() -> Self {
        Config {
            servers: BTreeMap::new(),
            default_server: None,
            folders: Vec::new(),
            agents: AgentConfig::builtin(),
            models: BTreeMap::new(),
            subagents: SubAgentsConfig::default(),
            workers: WorkerConfig::presets(),
            orchestration: OrchestrationConfig::default(),
            tools: ToolsConfig::default(),
            routes: Vec::new(),
            log: LogConfig::default(),
            record: RecordConfig::default(),
        }
    }
}

/// What a server is, as far as lspool treats it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerKind {
    /// A `copilot-language-server`: its conversations are partitioned by tool set.
    Copilot,
    /// Any other language server: passed through.
    Generic,
}

/// `[server.NAME]`: how a server is started, and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The executable; absent: the section's name, or for a Copilot server what a search finds.
    pub command: Option<String>,
    /// Its arguments; a Copilot server without any gets `--stdio`.
    pub args: Vec<String>,
    /// Variables set on top of lspool's own environment.
    pub env: BTreeMap<String, String>,
    /// Its working folder; lspool's own if absent.
    pub cwd: Option<PathBuf>,
    /// What it is; absent: told from the words of its command.
    pub kind: Option<ServerKind>,
    /// How many processes may run at once, the primary one included. At least 1.
    pub max_processes: usize,
    /// How many more are kept ready, without tools, for a partition or a restart.
    pub warm_spares: usize,
    /// How long a partition may be without work before it is stopped.
    pub idle_timeout: Duration,
    /// How long a process may take to answer `initialize`.
    pub startup_timeout: Duration,
    /// How long turns of a restricted set wait for the MCP servers of the set.
    pub mcp_wait: Duration,
    /// The longest message it may send, in bytes.
    pub max_message: usize,
    /// What its death means.
    pub policy: Policy,
    /// Bytes a process and what it started may hold before it is replaced.
    pub memory_limit: Option<usize>,
    /// How long a process may take no byte although some wait for it.
    pub write_stall: Duration,
    /// How long the answer to `shutdown` is waited for.
    pub shutdown_grace: Duration,
    /// How long a process that owes an answer may be silent before it is asked whether it lives.
    pub stall_timeout: Duration,
    /// How long it may take to say anything then, before it counts as degraded.
    pub probe_timeout: Duration,
    /// How long it may be degraded before it is ended. Absent: a minute for a Copilot server, for ever for others.
    pub hang_timeout: Option<Duration>,
    /// What becomes of a turn whose process dies.
    pub turn_recovery: TurnRecovery,
    /// The tool with which leads start sub-agents.
    pub delegation: Delegation,
    /// Whether lspool's own tools stand in for those that the editor does not have.
    pub builtin_tools: BuiltinTools,
    /// Whether a process keeps what it has told the model, so that the next one can say the same.
    pub exact_restore: bool,
    /// Methods whose latest message from the editor each new process gets, in addition to those that lspool knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeat: Vec<String>,
    /// What keeps a conversation to its tools.
    pub isolation: Isolation,
    /// What becomes of a conversation that needs a process for which there is no room.
    pub on_limit: OnLimit,
}

/// When a process that died is started again, and what it means if it cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Which deaths it is brought back from.
    pub restart: Restart,
    /// Without it `initialize` fails.
    pub required: bool,
    /// How often it is restarted …
    pub max_restarts: usize,
    /// … within this time.
    pub restart_window: Duration,
    /// The first restart in a window does not wait.
    pub immediate_first: bool,
    /// How long the others wait.
    pub backoff: Backoff,
}

/// Which deaths a process is brought back from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// From none.
    Never,
    /// From each that nobody asked for, once it is needed.
    OnFailure,
    /// From each that nobody asked for, at once.
    Always,
}

/// How long a restart waits: longer each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// The first time.
    pub initial: Duration,
    /// At most.
    pub max: Duration,
    /// Each further one waits so many times as long as the one before, in thousandths.
    pub multiplier: u32,
    /// By how much a wait may be longer or shorter, in thousandths of it.
    pub jitter: u32,
}

/// A named [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// It is brought back.
    Resilient,
    /// Its death is an error.
    Strict,
    /// It may be missing.
    BestEffort,
}

impl Profile {
    /// What the profile stands for.
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

/// What becomes of a turn whose process dies after it has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnRecovery {
    /// The next process goes on with it.
    #[default]
    Continue,
    /// It ends with an error.
    Fail,
}

/// What keeps a conversation to its tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// A process that knows no others.
    #[default]
    Process,
    /// A chat mode in the process that serves the editor itself, where that is as good.
    Mode,
}

impl Isolation {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Isolation::Process => "process",
            Isolation::Mode => "mode",
        }
    }
}

/// What becomes of a conversation that needs a process for which there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLimit {
    /// It is kept to its tools by a chat mode, where that is as good.
    #[default]
    Mode,
    /// It is refused.
    Error,
}

/// The tool with which leads start sub-agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delegation {
    /// One of lspool's own.
    #[default]
    DelegateTask,
    /// That which runs commands: older servers forward no others than they know.
    RunInTerminal,
}

/// Whether lspool's own tools stand in for those that the editor does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuiltinTools {
    /// There are none.
    #[default]
    Off,
    /// Each of them, unless the editor has registered one of its name.
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
            warm_spares: 0,
            idle_timeout: Duration::from_mins(5),
            startup_timeout: Duration::from_secs(35),
            mcp_wait: Duration::from_secs(10),
            max_message: 256 << 20,
            policy: Profile::Resilient.policy(),
            memory_limit: None,
            write_stall: Duration::from_mins(1),
            shutdown_grace: Duration::from_secs(5),
            stall_timeout: Duration::from_mins(1),
            probe_timeout: Duration::from_secs(10),
            hang_timeout: None,
            turn_recovery: TurnRecovery::default(),
            delegation: Delegation::default(),
            builtin_tools: BuiltinTools::default(),
            exact_restore: false,
            repeat: Vec::new(),
            isolation: Isolation::default(),
            on_limit: OnLimit::default(),
        }
    }
}

/// `[[folder]]`: what holds in one project only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderConfig {
    /// The project's folder; may start with `~/`.
    pub path: PathBuf,
    /// Its servers; each takes the place of the section of the same name.
    pub servers: BTreeMap<String, ServerConfig>,
    /// Takes the place of the general `default_server`.
    pub default_server: Option<String>,
}

/// Where an agent was defined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentSource {
    /// In lspool.
    Builtin,
    /// In the user's file.
    User,
    /// In this file of the user's.
    UserFile(PathBuf),
    /// In this workspace file.
    Workspace(PathBuf),
}

/// `[agent.NAME]`, or a file: what a kind of conversation is for, and which tools it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// The tools it may use; `None` is every tool, an empty list none.
    pub tools: Option<Vec<String>>,
    /// Tools taken out of these.
    pub disallowed_tools: Vec<String>,
    /// When to use it. Under a name of its own: it is read in recordings, where descriptions are not.
    #[serde(default, rename = "agentPurpose", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it is told before its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The model: an id, or a tier of `[models]`; absent: that of whoever starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many times its model may be asked for one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<usize>,
    /// Whether it may start others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lead: bool,
    /// What keeps its conversations to its tools; absent: what the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// What else its file says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other: BTreeMap<String, Value>,
    /// Who defined it.
    pub source: AgentSource,
}

impl AgentConfig {
    /// The agents there are without any file.
    fn builtin() -> BTreeMap<String, AgentConfig> {
        const READING: &[&str] = &["ide", "read_file", "list_dir", "grep_search", "file_search"];
        let agents: [(&str, Option<&[&str]>, &str); 4] = [
            (
                "explore",
                Some(READING),
                "Looks around in the code and reports what it has found: where something is, how it works. It changes \
                 nothing.",
            ),
            (
                "plan",
                Some(READING),
                "Reads the code and works out how something is to be done, step by step. It changes nothing.",
            ),
            (
                "bash",
                Some(&["run_in_terminal"]),
                "Runs commands in a terminal and reports what came of them.",
            ),
            ("general-purpose", None, "Does any task of several steps on its own, with every tool."),
        ];
        let agent = |tools: Option<&[&str]>, description: &str| AgentConfig {
            tools: tools.map(|tools| tools.iter().map(ToString::to_string).collect()),
            description: Some(description.to_owned()),
            ..AgentConfig::of(AgentSource::Builtin)
        };
        let all = agents.into_iter();
        all.map(|(name, tools, description)| (name.to_owned(), agent(tools, description))).collect()
    }

    /// An agent with every tool, of which nothing is said.
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

/// `[subagents]`: what the sub-agents of one turn may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SubAgentsConfig {
    /// So many at once.
    pub max_parallel: usize,
    /// So many in all.
    pub max_subagents: usize,
    /// How often the lead is told results and asked to go on.
    pub max_followups: usize,
    /// How long one may take.
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

/// `[tools]`: what lspool's own tools may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Commands that are run without asking.
    pub allow: Vec<String>,
    /// Folders beside the workspace that commands may write to; each may start with `~/`.
    pub writable: Vec<PathBuf>,
    /// Whether commands are kept from writing elsewhere, where the system can do so.
    pub confine: bool,
    /// How long a command, or a search, may take.
    pub time_limit: Duration,
    /// How many bytes a tool may answer with.
    pub max_output: usize,
    /// How large a file may be that is read, searched or edited.
    pub max_file: usize,
}

impl Default for ToolsConfig {
    fn default() -> ToolsConfig {
        ToolsConfig {
            allow: Vec::new(),
            writable: Vec::new(),
            confine: true,
            time_limit: Duration::from_mins(2),
            max_output: 64 << 10,
            max_file: 8 << 20,
        }
    }
}

/// `[[route]]`: conversations created with all of these values belong to `agent`.
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
    /// `model` of the create.
    pub model: Option<String>,
    /// Name of the agent; there is one of that name.
    pub agent: String,
}

/// `record` and the keys that begin so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordConfig {
    /// Where to; absent: nowhere.
    pub file: Option<PathBuf>,
    /// Whether texts stay as they are.
    pub texts: bool,
    /// How long a recording may become, in bytes.
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
    /// Where to; absent: nowhere. The stderr of lspool is for what ends it, or what it cannot begin with.
    pub file: Option<PathBuf>,
    /// From which severity on.
    pub level: LogLevel,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// An invariant was broken, or a client's work was lost.
    Error,
    /// A peer misbehaved.
    Warn,
    /// A lifecycle changed.
    #[default]
    Info,
    /// Decisions.
    Debug,
    /// Every frame.
    Trace,
}

impl LogLevel {
    /// The words for the levels, from the least to the most.
    pub const WORDS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

    /// The level that a word stands for.
    pub fn from_word(word: &str) -> Option<LogLevel> {
        keys::LOG_LEVELS.iter().find(|(it, _)| *it == word).map(|(_, level)| *level)
    }

    /// Its word.
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
