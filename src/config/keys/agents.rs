//! `[agent.NAME]` and `[subagents]`.

use super::{Key, Section, Type, Workspace};
use crate::config::{AgentConfig, AgentSource, SubAgentsConfig};

pub(in crate::config) static AGENT: Section<AgentConfig> = Section {
    header: "[agent.NAME]",
    doc: "A tool set, and instructions for a sub-agent of this name. Agents with equal tool sets share a \
          process. [Files](agents.md#files) can also define agents.",
    fresh: || AgentConfig::of(AgentSource::User),
    keys: &[
        Key {
            name: "tools",
            ty: Type::OptionalToolNames(|it| &mut it.tools),
            workspace: Workspace::Yes,
            absent: "every tool",
            doc: "The [names](agents.md#tool-names) of its tools, also with `*` at the end. `[]` is none.",
        },
        Key {
            name: "disallowed_tools",
            ty: Type::ToolNames(|it| &mut it.disallowed_tools),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "Tools to remove from `tools`, in the same form.",
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
            doc: "The id or name of a model, or a tier of `[models]`.",
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
            doc: "Whether a conversation with this agent may start sub-agents.",
        },
        Key {
            name: "isolation",
            ty: Type::OptionalIsolation(|it| &mut it.isolation),
            workspace: Workspace::No,
            absent: "as for the server",
            doc: "See `isolation` of `[server.NAME]`.",
        },
    ],
};

pub(in crate::config) static SUB_AGENTS: Section<SubAgentsConfig> = Section {
    header: "[subagents]",
    doc: "Limits for the [sub-agents](agents.md#leads-and-sub-agents) that a lead starts in one turn.",
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
            doc: "How many one turn may start in all. Then the tool returns an error.",
        },
        Key {
            name: "max_followups",
            ty: Type::Count(|it| &mut it.max_followups),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How often in one turn the lead gets results and continues.",
        },
        Key {
            name: "time_limit",
            ty: Type::Duration(|it| &mut it.time_limit),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long a sub-agent may take. Then the lead gets its text so far.",
        },
    ],
};
