//! The keys of `[group.NAME]`.

use super::{Key, Section, Type, Workspace};
use crate::config::{GroupConfig, MemberConfig};

pub(in crate::config) static GROUP: Section<GroupConfig> = Section {
    header: "[group.NAME]",
    doc: "Several servers that the editor sees as [one](groups.md). `lspool --group NAME` starts them. A group \
          of one is that server, without the features of a group. Your group replaces a preset of its name.",
    fresh: GroupConfig::default,
    keys: &[
        Key {
            name: "servers",
            ty: Type::Members(|it| &mut it.servers),
            workspace: Workspace::No,
            absent: "",
            doc: "The members, best rank first: names of servers, or `{ server = \"ruff\", except = [\"hover\"] \
                  }`, where `only` and `except` narrow those of the server's section.",
        },
        Key {
            name: "order",
            ty: Type::Order(|it| &mut it.order),
            workspace: Workspace::No,
            absent: "the order of `servers`",
            doc: "Which members go first for a feature, such as `{ format = [\"ruff\"] }`.",
        },
        Key {
            name: "combine",
            ty: Type::Combine(|it| &mut it.combine),
            workspace: Workspace::No,
            absent: "as [groups.md](groups.md) says",
            doc: "How lspool combines answers for a feature: `\"all\"` joins them, `\"first\"` takes the best \
                  that is not empty. Not for features that change files, and `\"all\"` not for those with one \
                  answer.",
        },
        Key {
            name: "wait",
            ty: Type::Waits(|it| &mut it.wait),
            workspace: Workspace::No,
            absent: "300 ms to 3 s",
            doc: "How long, by feature, lspool waits for other members once one has something to say, such as `{ \
                  completion = \"500ms\" }`.",
        },
        Key {
            name: "start_wait",
            ty: Type::Duration(|it| &mut it.start_wait),
            workspace: Workspace::No,
            absent: "",
            doc: "How long the answer to `initialize` waits for other members once one has answered.",
        },
        Key {
            name: "diagnostics_wait",
            ty: Type::Duration(|it| &mut it.diagnostics_wait),
            workspace: Workspace::No,
            absent: "",
            doc: "How long the first diagnostics for a version of a document wait for the other members that \
                  have published some for it before.",
        },
    ],
};

pub(in crate::config) static MEMBER: Section<MemberConfig> = Section {
    header: "{ server = NAME, only = [FEATURE], except = [FEATURE] }",
    doc: "",
    fresh: MemberConfig::default,
    keys: &[
        Key {
            name: "server",
            ty: Type::MemberName(|it| &mut it.server),
            workspace: Workspace::No,
            absent: "",
            doc: "The name of the server.",
        },
        Key {
            name: "only",
            ty: Type::Only(|it| &mut it.only),
            workspace: Workspace::No,
            absent: "every feature",
            doc: "The only features for which this group uses the server.",
        },
        Key {
            name: "except",
            ty: Type::Except(|it| &mut it.except),
            workspace: Workspace::No,
            absent: "none",
            doc: "Features for which this group does not use the server.",
        },
    ],
};
