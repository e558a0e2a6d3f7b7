//! The keys of `[server.NAME.remote]`.

use super::{Key, Section, Type, Workspace};
use crate::config::RemoteConfig;

pub(in crate::config) static REMOTE: Section<RemoteConfig> = Section {
    header: "[server.NAME.remote]",
    doc: "A server in a container, in a pod, or on another host ([remote.md](remote.md)). `command`, `args` and \
          `cwd` of the server are of the other side then.",
    fresh: RemoteConfig::default,
    keys: &[
        Key {
            name: "engine",
            ty: Type::Engine(|it| &mut it.engine),
            workspace: Workspace::No,
            absent: "",
            doc: "What starts the server there. `command` starts the words of `engine_command`, followed by the \
                  server's.",
        },
        Key {
            name: "target",
            ty: Type::Text(|it| &mut it.target),
            workspace: Workspace::No,
            absent: "none; for `devcontainer`, the workspace folder",
            doc: "The container; for `kubectl`, `POD`, `NAMESPACE/POD` or `NAMESPACE/POD/CONTAINER`; the host of \
                  `ssh`; the workspace folder of a dev container.",
        },
        Key {
            name: "engine_command",
            ty: Type::Args(|it| &mut it.engine_command),
            workspace: Workspace::No,
            absent: "the name of the engine",
            doc: "The engine's executable and its first arguments.",
        },
        Key {
            name: "engine_args",
            ty: Type::Args(|it| &mut it.engine_args),
            workspace: Workspace::No,
            absent: "none",
            doc: "More arguments for the engine, before the target.",
        },
        Key {
            name: "paths",
            ty: Type::PathPairs(|it| &mut it.paths),
            workspace: Workspace::No,
            absent: "`\"auto\"`",
            doc: "Which folders of this machine the server has, and where. `\"auto\"` takes the bind mounts of the \
                  container (`docker`, `podman`), and otherwise maps nothing.",
        },
        Key {
            name: "cleanup",
            ty: Type::Cleanup(|it| &mut it.cleanup),
            workspace: Workspace::No,
            absent: "",
            doc: "`\"sh\"` puts a shell beside the server, which ends it when its connection is lost. \
                  `\"none\"` is for images without a shell.",
        },
    ],
};
