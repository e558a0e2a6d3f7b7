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
            name: "image",
            ty: Type::Text(|it| &mut it.image),
            workspace: Workspace::No,
            absent: "none",
            doc: "`docker`, `podman`: instead of `target`, an image. Each process gets a new container of it, with the \
                  local folders of `paths` as bind mounts; without `paths`, the workspace folders under their own paths.",
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
                  container (`docker`, `podman`), or what `devcontainer read-configuration` says.",
        },
        Key {
            name: "unmapped",
            ty: Type::Unmapped(|it| &mut it.unmapped),
            workspace: Workspace::No,
            absent: "",
            doc: "What the editor opens if the server names a file outside `paths`: `\"fetch\"` a read-only copy, \
                  `\"pass\"` the path as it is. Nothing is copied if no folders are known.",
        },
        Key {
            name: "map_settings",
            ty: Type::Flag(|it| &mut it.map_settings),
            workspace: Workspace::No,
            absent: "",
            doc: "Whether absolute paths in settings and `initializationOptions` are mapped too.",
        },
        Key {
            name: "reconnect_max",
            ty: Type::Duration(|it| &mut it.reconnect_max),
            workspace: Workspace::No,
            absent: "",
            doc: "The longest wait between two attempts to reach the other side.",
        },
        Key {
            name: "request_wait",
            ty: Type::Duration(|it| &mut it.request_wait),
            workspace: Workspace::No,
            absent: "",
            doc: "How long a request waits while the other side cannot be reached. Then it fails with `unreachable`.",
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
