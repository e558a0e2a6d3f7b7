//! The words that are values of keys, with their meanings.

use crate::config::{
    BuiltinTools, Cleanup, Combine, Delegation, Engine, Isolation, LogLevel, OnLimit, OnLoading, Profile,
    Restart, ServerKind, ShareMode, ShareViews, StartAt, TurnRecovery, Unmapped,
};

/// Words for the kinds of servers.
pub(in crate::config) const SERVER_KINDS: [(&str, ServerKind); 2] =
    [("copilot", ServerKind::Copilot), ("generic", ServerKind::Generic)];

/// Words for what happens to a turn when its process dies.
pub(in crate::config) const TURN_RECOVERIES: [(&str, TurnRecovery); 2] =
    [("continue", TurnRecovery::Continue), ("fail", TurnRecovery::Fail)];
/// Words for the tools with which leads start sub-agents.
pub(in crate::config) const DELEGATIONS: [(&str, Delegation); 2] =
    [("delegate_task", Delegation::DelegateTask), ("run_in_terminal", Delegation::RunInTerminal)];

/// Words for what keeps a conversation to its tools.
pub(in crate::config) const ISOLATIONS: [(&str, Isolation); 2] =
    [("process", Isolation::Process), ("mode", Isolation::Mode)];

/// Words for what happens to a conversation beyond `max_processes`.
pub(in crate::config) const ON_LIMITS: [(&str, OnLimit); 2] =
    [("mode", OnLimit::Mode), ("error", OnLimit::Error)];

/// Words for whether several clients use one process.
pub(in crate::config) const SHARES: [(&str, ShareMode); 2] =
    [("off", ShareMode::Off), ("same-client", ShareMode::SameClient)];

/// Words for what becomes of clients with different texts.
pub(in crate::config) const SHARE_VIEWS: [(&str, ShareViews); 2] =
    [("exact", ShareViews::Exact), ("private", ShareViews::Private)];

/// Words for whether lspool offers builtin tools.
pub(in crate::config) const BUILTIN_TOOLS: [(&str, BuiltinTools); 2] =
    [("off", BuiltinTools::Off), ("fallback", BuiltinTools::Fallback)];

/// Words for what a call does while a server loads its project.
pub(in crate::config) const ON_LOADING: [(&str, OnLoading); 2] =
    [("wait", OnLoading::Wait), ("error", OnLoading::Error)];

/// Words for the exits after which lspool restarts a process.
pub(in crate::config) const RESTARTS: [(&str, Restart); 3] =
    [("never", Restart::Never), ("on-failure", Restart::OnFailure), ("always", Restart::Always)];

/// Words for the profiles.
pub(in crate::config) const PROFILES: [(&str, Profile); 3] =
    [("resilient", Profile::Resilient), ("strict", Profile::Strict), ("best-effort", Profile::BestEffort)];

/// Words for when a member of a group is started.
pub(in crate::config) const STARTS: [(&str, StartAt); 2] =
    [("now", StartAt::Now), ("document", StartAt::Document)];

/// Words for what starts a server elsewhere.
pub(in crate::config) const ENGINES: [(&str, Engine); 6] = [
    ("docker", Engine::Docker),
    ("podman", Engine::Podman),
    ("kubectl", Engine::Kubectl),
    ("ssh", Engine::Ssh),
    ("devcontainer", Engine::Devcontainer),
    ("command", Engine::Command),
];

/// Words for who ends a server elsewhere.
pub(in crate::config) const UNMAPPED: [(&str, Unmapped); 2] =
    [("fetch", Unmapped::Fetch), ("pass", Unmapped::Pass)];

pub(in crate::config) const CLEANUPS: [(&str, Cleanup); 2] = [("sh", Cleanup::Sh), ("none", Cleanup::None)];

/// Words for how answers become one.
pub(in crate::config) const COMBINES: [(&str, Combine); 2] =
    [("all", Combine::All), ("first", Combine::First)];

/// Words for the levels of the log.
pub(in crate::config) const LOG_LEVELS: [(&str, LogLevel); 5] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
