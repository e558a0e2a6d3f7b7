//! Servers that run elsewhere: in a container, in a pod, on another host.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::rpc::PathPair;

/// `[server.NAME.remote]`: where a server runs, if not beside lspool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemoteConfig {
    /// What starts it there.
    pub engine: Engine,
    /// Where: a container, a pod, a host, or the folder of a dev container.
    pub target: Option<String>,
    /// The engine's executable and its first arguments. Without it, the engine's name.
    pub engine_command: Vec<String>,
    /// More arguments for the engine, before the target.
    pub engine_args: Vec<String>,
    /// Which folders it has. Without it, lspool asks the engine, or they are the same.
    pub paths: Option<Vec<PathPair>>,
    /// Who ends the server when its connection is lost.
    pub cleanup: Cleanup,
}

/// A program that runs another one elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// `docker exec`.
    #[default]
    Docker,
    /// `podman exec`.
    Podman,
    /// `kubectl exec`.
    Kubectl,
    /// `ssh`.
    Ssh,
    /// `devcontainer exec`.
    Devcontainer,
    /// The words of `engine_command`.
    Command,
}

impl Engine {
    /// The name of its executable.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Docker => "docker",
            Engine::Podman => "podman",
            Engine::Kubectl => "kubectl",
            Engine::Ssh => "ssh",
            Engine::Devcontainer => "devcontainer",
            Engine::Command => "command",
        }
    }

    /// Whether this exit code means that the engine has not reached its target.
    pub(crate) fn is_unreachable(self, code: i32, stage: Stage) -> bool {
        match self {
            Engine::Ssh => code == 255,
            Engine::Docker => stage == Stage::Starting && matches!(code, 1 | 125),
            Engine::Podman => stage == Stage::Starting && code == 125,
            Engine::Kubectl => stage == Stage::Starting && code == 1,
            Engine::Devcontainer | Engine::Command => false,
        }
    }
}

/// How far a server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not answered `initialize`.
    Starting,
    /// It has.
    Ready,
}

/// Who ends a server elsewhere when its connection is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cleanup {
    /// A shell beside it.
    #[default]
    Sh,
    /// Nobody.
    None,
}

impl RemoteConfig {
    /// What is missing or does not fit. `None`: nothing.
    pub(super) fn problem(&self) -> Option<String> {
        let engine = self.engine.name();
        match (self.engine, &self.target) {
            (Engine::Docker | Engine::Podman | Engine::Kubectl | Engine::Ssh, None) => {
                return Some(format!("expected `target`, because `engine` is {engine:?}"));
            }
            (Engine::Command, Some(_)) => {
                return Some(format!(
                    "`target` has no meaning with `engine = {engine:?}`: use `engine_command`"
                ));
            }
            (Engine::Command, None) if self.engine_command.is_empty() => {
                return Some(format!("expected `engine_command`, because `engine` is {engine:?}"));
            }
            (_, _) => {}
        }
        if self.target.as_ref().is_some_and(|it| it.starts_with('-')) {
            return Some("`target` begins with a dash, so the engine would take it as an option".to_owned());
        }
        None
    }
}

/// Engines, by the name of their executable.
const ENGINES: [&str; 6] = ["devcontainer", "docker", "kubectl", "nerdctl", "podman", "ssh"];

/// Whether a server that this program starts sees other processes than lspool does. Such a server must not watch the
/// process of its client: it would not find it, and end.
pub fn runs_elsewhere(program: &Path) -> bool {
    let name = program.file_name().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase();
    let name = [".exe", ".cmd", ".bat"].iter().find_map(|it| name.strip_suffix(it)).unwrap_or(&name);
    ENGINES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_known_by_name_of_executable() {
        for (program, expected) in [
            ("docker", true),
            ("/usr/bin/docker", true),
            ("/opt/podman/bin/podman", true),
            ("kubectl", true),
            ("nerdctl", true),
            ("/usr/bin/ssh", true),
            ("devcontainer", true),
            ("Docker.exe", true),
            ("devcontainer.cmd", true),
            ("/usr/bin/docker-langserver", false),
            ("docker-compose-langserver", false),
            ("/usr/bin/docker/pyright-langserver", false),
            ("sshd", false),
            ("my-ssh", false),
            ("docker.js", false),
            ("/", false),
            ("", false),
        ] {
            assert_eq!(runs_elsewhere(Path::new(program)), expected, "{program}");
        }
    }
}
