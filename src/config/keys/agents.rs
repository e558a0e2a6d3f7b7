//! `[agent.NAME]` and `[subagents]`.

use super::{Key, Section, Type, Workspace};
use crate::config::{AgentConfig, AgentSource, SubAgentsConfig};

pub(in crate::config) static AGENT: Section<AgentConfig> = Section {
    header: "[agent.NAME]",
    doc: "An agent: a tool set, and what is said to a sub-agent of this name. Agents with equal tool sets share a \
          process; that process knows no other tools. Files define agents as well: see [agents.md](agents.md).",
    fresh: || AgentConfig::of(AgentSource::User),
    keys: &[
        Key {
            name: "tools",
            ty: Type::OptionalToolNames(|it| &mut it.tools),
            workspace: Workspace::Yes,
            absent: "every tool",
            doc: "The tools it may use; `[]` is none. `ide` stands for every tool whose name starts with `ide_`, \
                  and a name that ends in `*` for every tool whose name starts so. Names that other programs give tools \
                  (`Read`, `Bash`) stand for those in [agents.md](agents.md).",
        },
        Key {
            name: "disallowed_tools",
            ty: Type::ToolNames(|it| &mut it.disallowed_tools),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "Tools taken out of these, in the same words.",
        },
        Key {
            name: "description",
            ty: Type::Text(|it| &mut it.description),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "When to use it: an agent that may start it is told this.",
        },
        Key {
            name: "prompt",
            ty: Type::Text(|it| &mut it.prompt),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "What it is told before its task.",
        },
        Key {
            name: "model",
            ty: Type::Text(|it| &mut it.model),
            workspace: Workspace::Yes,
            absent: "that of the agent that starts it",
            doc: "The id or the name of a model, or a tier of `[models]`.",
        },
        Key {
            name: "max_turns",
            ty: Type::OptionalCount(|it| &mut it.max_turns),
            workspace: Workspace::Yes,
            absent: "no limit of lspool's",
            doc: "How many times its model may be asked for one task.",
        },
        Key {
            name: "lead",
            ty: Type::Flag(|it| &mut it.lead),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether a conversation with this agent may start sub-agents: it gets the tool `delegate_task`.",
        },
        Key {
            name: "isolation",
            ty: Type::OptionalIsolation(|it| &mut it.isolation),
            workspace: Workspace::No,
            absent: "that of the server",
            doc: "What keeps its conversations to its tools: see `isolation` of `[server.NAME]`.",
        },
    ],
};

pub(in crate::config) static SUB_AGENTS: Section<SubAgentsConfig> = Section {
    header: "[subagents]",
    doc: "What the sub-agents that a lead starts in one turn may cost: see [agents.md](agents.md).",
    fresh: SubAgentsConfig::default,
    keys: &[
        Key {
            name: "max_parallel",
            ty: Type::Count(|it| &mut it.max_parallel),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many run at once; others wait for one of them to end.",
        },
        Key {
            name: "max_subagents",
            ty: Type::Count(|it| &mut it.max_subagents),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many one turn may start in all. After that the tool fails, and says so.",
        },
        Key {
            name: "max_followups",
            ty: Type::Count(|it| &mut it.max_followups),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How often in one turn the lead is told results and asked to go on.",
        },
        Key {
            name: "time_limit",
            ty: Type::Duration(|it| &mut it.time_limit),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long one may take. Then it is stopped, and the lead is told what it has said so far.",
        },
    ],
};
