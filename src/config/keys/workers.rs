//! `[worker.ROLE]` and `[orchestration]`.

use super::{Key, Section, Type, Workspace};
use crate::config::{AgentSource, OrchestrationConfig, WorkerConfig};

pub(in crate::config) static WORKER: Section<WorkerConfig> = Section {
    header: "[worker.ROLE]",
    doc: "A worker for tasks of a [plan](orchestration.md). Builtin workers keep the settings that your file \
          does not change. A workspace file only adds workers.",
    fresh: || WorkerConfig::of("", AgentSource::User),
    keys: &[
        Key {
            name: "description",
            ty: Type::Text(|it| &mut it.description),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "Its abilities. The planner reads this.",
        },
        Key {
            name: "system_prompt",
            ty: Type::Text(|it| &mut it.system_prompt),
            workspace: Workspace::Yes,
            absent: "none",
            doc: "The instructions that come before its first task.",
        },
        Key {
            name: "model",
            ty: Type::Text(|it| &mut it.model),
            workspace: Workspace::Yes,
            absent: "the model of the orchestration",
            doc: "The id or name of a model, or a tier of `[models]`.",
        },
        Key {
            name: "tools",
            ty: Type::OptionalToolNames(|it| &mut it.tools),
            workspace: Workspace::Yes,
            absent: "every tool",
            doc: "Its tools, written as for an agent. `[]` is none.",
        },
        Key {
            name: "agent_mode",
            ty: Type::Flag(|it| &mut it.agent_mode),
            workspace: Workspace::Yes,
            absent: "",
            doc: "Whether the worker uses tools.",
        },
        Key {
            name: "enabled",
            ty: Type::Flag(|it| &mut it.enabled),
            workspace: Workspace::Yes,
            absent: "",
            doc: "Whether a plan may use the worker.",
        },
    ],
};

pub(in crate::config) static ORCHESTRATION: Section<OrchestrationConfig> = Section {
    header: "[orchestration]",
    doc: "Limits for the work on one goal.",
    fresh: OrchestrationConfig::default,
    keys: &[
        Key {
            name: "max_parallel",
            ty: Type::Count(|it| &mut it.max_parallel),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How many tasks run at once.",
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
            doc: "How long one task, the plan, or the summary may take.",
        },
        Key {
            name: "retries",
            ty: Type::Amount(|it| &mut it.retries),
            workspace: Workspace::Smaller,
            absent: "",
            doc: "How often a failed task starts again, in a new conversation.",
        },
    ],
};
