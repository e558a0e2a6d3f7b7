//! `[worker.ROLE]` and `[orchestration]`.

use super::{Key, Section, Type, Workspace};
use crate::config::{AgentSource, OrchestrationConfig, WorkerConfig};

pub(in crate::config) static WORKER: Section<WorkerConfig> = Section {
    header: "[worker.ROLE]",
    doc: "Who can be given a task of a plan: see [orchestration.md](orchestration.md). Those that are built in keep what \
          your own file does not say of them. A workspace file adds workers, and changes none.",
    fresh: || WorkerConfig::of("", AgentSource::User),
    keys: &[
        Key {
            name: "description",
            ty: Type::Text(|it| &mut it.description),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "What it is good for: whoever makes the plan is told this.",
        },
        Key {
            name: "system_prompt",
            ty: Type::Text(|it| &mut it.system_prompt),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "What it is told before its first task.",
        },
        Key {
            name: "model",
            ty: Type::Text(|it| &mut it.model),
            workspace: Workspace::Yes,
            absent: "that of the orchestration",
            doc: "The id or the name of a model, or a tier of `[models]`.",
        },
        Key {
            name: "tools",
            ty: Type::OptionalToolNames(|it| &mut it.tools),
            workspace: Workspace::Yes,
            absent: "every tool",
            doc: "The tools it may use, as those of an agent; `[]` is none.",
        },
        Key {
            name: "agent_mode",
            ty: Type::Flag(|it| &mut it.agent_mode),
            workspace: Workspace::Yes,
            absent: "",
            doc: "Whether it works with tools. One that does not has none, and answers from what it is told.",
        },
        Key {
            name: "enabled",
            ty: Type::Flag(|it| &mut it.enabled),
            workspace: Workspace::Yes,
            absent: "",
            doc: "Whether a plan may use it.",
        },
    ],
};

pub(in crate::config) static ORCHESTRATION: Section<OrchestrationConfig> = Section {
    header: "[orchestration]",
    doc: "What the work on one goal may cost: see [orchestration.md](orchestration.md).",
    fresh: OrchestrationConfig::default,
    keys: &[
        Key {
            name: "max_parallel",
            ty: Type::Count(|it| &mut it.max_parallel),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many tasks are worked on at once.",
        },
        Key {
            name: "max_tasks",
            ty: Type::Count(|it| &mut it.max_tasks),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many tasks a plan may have.",
        },
        Key {
            name: "time_limit",
            ty: Type::Duration(|it| &mut it.time_limit),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How long one task may take; likewise the plan, and the summary. Then it is stopped, and has failed.",
        },
    ],
};
