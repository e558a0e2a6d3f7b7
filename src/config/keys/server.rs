//! The keys of `[server.NAME]`.

use super::{Key, Section, Type, Workspace};
use crate::config::ServerConfig;

pub(in crate::config) static SERVER: Section<ServerConfig> = Section {
    header: "[server.NAME]",
    doc: "How lspool starts a server, and its limits. A command on the command line (`lspool -- COMMAND …`) \
          replaces only `command` and `args` of a section: `copilot` for a Copilot server, else the one with the \
          name of the executable without extension.",
    fresh: ServerConfig::default,
    keys: &[
        Key {
            name: "command",
            ty: Type::Command(|it| &mut it.command),
            workspace: Workspace::No,
            absent: "the name of the section; for `copilot`, lspool searches for `copilot-language-server`",
            doc: "A path, or a name, which lspool looks up in the absolute entries of `PATH` outside the \
                  workspace folders.",
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
            name: "remote",
            ty: Type::Remote(|it| &mut it.remote),
            workspace: Workspace::No,
            absent: "",
            doc: "Where the server runs, if not beside lspool.",
        },
        Key {
            name: "kind",
            ty: Type::ServerKind(|it| &mut it.kind),
            workspace: Workspace::No,
            absent: "derived from the command",
            doc: "Tool sets apply only to a Copilot server.",
        },
        Key {
            name: "share",
            ty: Type::Share(|it| &mut it.share.mode),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether several clients use one process ([sharing.md](sharing.md)). `same-client`: those with \
                  equal capabilities. Not for a Copilot server.",
        },
        Key {
            name: "share_idle",
            ty: Type::Duration(|it| &mut it.share.idle),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a shared process without clients keeps running.",
        },
        Key {
            name: "share_env",
            ty: Type::Names(|it| &mut it.share.env),
            workspace: Workspace::No,
            absent: "as in [sharing.md](sharing.md#which-clients-share)",
            doc: "Variables that must be equal for clients to share.",
        },
        Key {
            name: "share_views",
            ty: Type::ShareViews(|it| &mut it.share.views),
            workspace: Workspace::No,
            absent: "",
            doc: "What happens to clients whose unsaved texts differ. `exact`: the server gets the texts of the \
                  client whose request it handles. `private`: the later client gets a process of its own.",
        },
        Key {
            name: "share_limit",
            ty: Type::Count(|it| &mut it.share.limit),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many clients a shared process has at most.",
        },
        Key {
            name: "max_processes",
            ty: Type::CountOrLess(|it| &mut it.max_processes, |it| &mut it.max_large_processes),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many processes may run. For one more, lspool stops the one whose last turn is longest ago. \
                  If all are in use, `on_limit` decides. The default is 4 for a [Copilot server before \
                  1.520](copilot-server.md#versions).",
        },
        Key {
            name: "isolation",
            ty: Type::Isolation(|it| &mut it.isolation),
            workspace: Workspace::No,
            absent: "",
            doc: "What [keeps a conversation to its tools](isolation.md): a process for each tool set, or a chat \
                  mode where that is as safe.",
        },
        Key {
            name: "on_limit",
            ty: Type::OnLimit(|it| &mut it.on_limit),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a chat mode serves a conversation beyond `max_processes`, where that is as safe, or \
                  lspool refuses it.",
        },
        Key {
            name: "warm_spares",
            ty: Type::Amount(|it| &mut it.warm_spares),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many processes of a Copilot server lspool keeps ready for a new partition or a restart. \
                  Spares count for `max_processes`, and make room for others. Tool sets that need different \
                  capabilities of the editor get this number each.",
        },
        Key {
            name: "idle_timeout",
            ty: Type::Duration(|it| &mut it.idle_timeout),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a process without an open request keeps running, except the one that serves the \
                  editor. `\"0s\"`: until its last conversation ends, or another process needs its place.",
        },
        Key {
            name: "startup_timeout",
            ty: Type::Duration(|it| &mut it.startup_timeout),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a process may be silent, on stdout and stderr, before it has answered `initialize`. \
                  Then lspool stops it, and the waiting requests fail.",
        },
        Key {
            name: "mcp_wait",
            ty: Type::Duration(|it| &mut it.mcp_wait),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long turns of a restricted tool set wait for its MCP servers. Then they run without the \
                  missing ones, which a message names.",
        },
        Key {
            name: "max_message",
            ty: Type::Size(|it| &mut it.max_message),
            workspace: Workspace::No,
            absent: "",
            doc: "The longest message from the server.",
        },
        Key {
            name: "turn_recovery",
            ty: Type::TurnRecovery(|it| &mut it.turn_recovery),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a turn continues in the next process when its Copilot server dies, or ends with an \
                  error.",
        },
        Key {
            name: "delegation",
            ty: Type::Delegation(|it| &mut it.delegation),
            workspace: Workspace::No,
            absent: "",
            doc: "The tool with which a lead starts sub-agents. `\"run_in_terminal\"` is for [older \
                  servers](agents.md#older-servers).",
        },
        Key {
            name: "builtin_tools",
            ty: Type::BuiltinTools(|it| &mut it.builtin_tools),
            workspace: Workspace::No,
            absent: "",
            doc: "`\"fallback\"`: a Copilot server gets each [builtin tool](tools.md), unless the editor has \
                  registered one of that name.",
        },
        Key {
            name: "exact_restore",
            ty: Type::Flag(|it| &mut it.exact_restore),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a Copilot server records its requests to the model, on a memory file system if \
                  possible. After a crash the next process then sends the same bytes, with attachments and \
                  context, and the model's prompt cache applies. Otherwise only questions, answers, and tool \
                  calls come back.",
        },
        Key {
            name: "repeat",
            ty: Type::Args(|it| &mut it.repeat),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "Further methods whose latest message a restarted server gets before the open documents, such \
                  as `[\"my/setUp\"]`. lspool knows those of the Language Server Protocol and of common CSS, \
                  HTML, JSON, YAML, and C# servers.",
        },
        Key {
            name: "languages",
            ty: Type::Names(|it| &mut it.languages),
            workspace: Workspace::No,
            absent: "all",
            doc: "The `languageId`s of its documents, in a group and for [code tools](code-tools.md#servers).",
        },
        Key {
            name: "files",
            ty: Type::Globs(|it| &mut it.files),
            workspace: Workspace::No,
            absent: "all",
            doc: "In a group: globs of its documents, such as `**/*.test.ts`. A document must fit `languages` \
                  too.",
        },
        Key {
            name: "root_markers",
            ty: Type::Markers(|it| &mut it.root_markers),
            workspace: Workspace::No,
            absent: "none",
            doc: "In a group: files or folders that mark the root of a project, such as `biome.json`. The server \
                  works in the workspace folder, or in the nearest one above that has a marker. It gets each \
                  project below, once a document in it is open, as a further workspace folder.",
        },
        Key {
            name: "root_required",
            ty: Type::Flag(|it| &mut it.root_required),
            workspace: Workspace::No,
            absent: "",
            doc: "In a group: whether only workspaces with one of `root_markers`, at most two levels below, use the \
                  server. Projects below a workspace folder that has a marker itself then belong to that.",
        },
        Key {
            name: "handles",
            ty: Type::Methods(|it| &mut it.handles),
            workspace: Workspace::No,
            absent: "none",
            doc: "In a group: methods for this server alone, such as `rust-analyzer/*`.",
        },
        Key {
            name: "start",
            ty: Type::StartAt(|it| &mut it.start),
            workspace: Workspace::No,
            absent: "",
            doc: "In a group: whether the server starts with the others, or with its first document; few editors \
                  can take features that come later.",
        },
        Key {
            name: "only",
            ty: Type::Only(|it| &mut it.only),
            workspace: Workspace::Smaller,
            absent: "every feature",
            doc: "In a group: the only [features](groups.md#features) for which lspool uses the server.",
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
            doc: "In a group: settings that override those of the editor. Section `a.b` is the table `b` in the \
                  table `a`.",
        },
        Key {
            name: "init_options",
            ty: Type::Json(|it| &mut it.init_options),
            workspace: Workspace::No,
            absent: "none",
            doc: "In a group: the same for `initializationOptions`.",
        },
        Key {
            name: "profile",
            ty: Type::Profile(|it| &mut it.policy),
            workspace: Workspace::No,
            absent: "`\"resilient\"`",
            doc: "What happens when the server dies. `resilient`: lspool restarts it. `strict`, `best-effort`: \
                  it does not. With `best-effort`, `initialize` succeeds even if the server cannot start. The \
                  next five keys and `backoff` override this.",
        },
        Key {
            name: "restart",
            ty: Type::Restart(|it| &mut it.policy.restart),
            workspace: Workspace::No,
            absent: "",
            doc: "`on-failure`: after any exit that nobody asked for, also with code 0; a partition only when it \
                  is needed. `always`: a partition at once too.",
        },
        Key {
            name: "required",
            ty: Type::Flag(|it| &mut it.policy.required),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether `initialize` fails if the server cannot start. Otherwise lspool shows a message.",
        },
        Key {
            name: "max_restarts",
            ty: Type::Count(|it| &mut it.policy.max_restarts),
            workspace: Workspace::No,
            absent: "",
            doc: "How many restarts lspool attempts within `restart_window`. Then the server has failed, until a \
                  user restarts it. A server that was never ready gets two starts.",
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
            ty: Type::OptionalDuration(|it| &mut it.stall_timeout),
            workspace: Workspace::No,
            absent: "`\"15s\"` with `remote`, else `\"1m\"`",
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
            absent: "`\"1m\"` for a Copilot server and in containers, `\"0s\"` for others",
            doc: "How long a degraded process may stay silent before lspool restarts it. `\"0s\"`: forever.",
        },
        Key {
            name: "write_stall",
            ty: Type::Duration(|it| &mut it.write_stall),
            workspace: Workspace::No,
            absent: "",
            doc: "How long a process may read nothing while messages wait before lspool restarts it.",
        },
        Key {
            name: "shutdown_grace",
            ty: Type::Duration(|it| &mut it.shutdown_grace),
            workspace: Workspace::No,
            absent: "",
            doc: "How long lspool waits for the answer to `shutdown`, and again for the end after `exit`. Then \
                  it sends SIGTERM, and SIGKILL 1.5 s later.",
        },
        Key {
            name: "memory_limit",
            ty: Type::OptionalSize(|it| &mut it.memory_limit),
            workspace: Workspace::No,
            absent: "none",
            doc: "How much memory a process may use, with those that it has started. lspool replaces a larger \
                  process when no request is open. If the process gets larger within a minute of its start, \
                  lspool shows a message, and replaces it only at twice the limit.",
        },
    ],
};
