//! `[agent.NAME]` and `[subagents]`.

use super::{Key, Section, Type, Workspace};
use crate::config::{AgentConfig, AgentSource, SubAgentsConfig};

pub(in crate::config) static AGENT: Section<AgentConfig> = Section {
    header: "[agent.NAME]",
    doc: "An agent: a tool set, and instructions for a sub-agent of this name. Agents with equal tool \
          sets share a process. Files can also define agents: see [agents.md](agents.md).",
    fresh: || AgentConfig::of(AgentSource::User),
    keys: &[
        Key {
            name: "tools",
            ty: Type::OptionalToolNames(|it| &mut it.tools),
            workspace: Workspace::Yes,
            absent: "every tool",
            doc: "The [names](agents.md#tool-names) of the tools that it may use, also with `*` at the end, or \
                  those of other programs (`Read`, `Bash`). `[]` is none.",
        },
        Key {
            name: "disallowed_tools",
            ty: Type::ToolNames(|it| &mut it.disallowed_tools),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "Tools to remove from `tools`, written in the same way.",
        },
        Key {
            name: "description",
            ty: Type::Text(|it| &mut it.description),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "When to use the agent. A lead reads this.",
        },
        Key {
            name: "prompt",
            ty: Type::Text(|it| &mut it.prompt),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "The instructions that come before its task.",
        },
        Key {
            name: "model",
            ty: Type::Text(|it| &mut it.model),
            workspace: Workspace::Yes,
            absent: "the model of the lead",
            doc: "The id or the name of a model, or a tier of `[models]`.",
        },
        Key {
            name: "max_turns",
            ty: Type::OptionalCount(|it| &mut it.max_turns),
            workspace: Workspace::Yes,
            absent: "no limit",
            doc: "How many requests to its model one task may take.",
        },
        Key {
            name: "lead",
            ty: Type::Flag(|it| &mut it.lead),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a conversation with this agent may start sub-agents, with the tool \
                  `delegate_task`.",
        },
        Key {
            name: "isolation",
            ty: Type::OptionalIsolation(|it| &mut it.isolation),
            workspace: Workspace::No,
            absent: "as for the server",
            doc: "What keeps its conversations to their tools: see `isolation` of `[server.NAME]`.",
        },
    ],
};

pub(in crate::config) static SUB_AGENTS: Section<SubAgentsConfig> = Section {
    header: "[subagents]",
    doc: "Limits for the sub-agents that a lead starts in one turn. See [agents.md](agents.md).",
    fresh: SubAgentsConfig::default,
    keys: &[
        Key {
            name: "max_parallel",
            ty: Type::Count(|it| &mut it.max_parallel),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many run at once. Others wait.",
        },
        Key {
            name: "max_subagents",
            ty: Type::Count(|it| &mut it.max_subagents),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many one turn may start in all. After that the tool returns an error.",
        },
        Key {
            name: "max_followups",
            ty: Type::Count(|it| &mut it.max_followups),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How often in one turn lspool gives results to the lead and lets it continue.",
        },
        Key {
            name: "time_limit",
            ty: Type::Duration(|it| &mut it.time_limit),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a sub-agent may take. lspool then stops it, and gives the lead its text so far.",
        },
    ],
};
