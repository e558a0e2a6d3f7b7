//! Servers that run elsewhere: in a container, in a pod, on another host.

use std::{path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use crate::rpc::PathPair;

/// `[server.NAME.remote]`: where a server runs, if not beside lspool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemoteConfig {
    /// What starts it there.
    pub engine: Engine,
    /// Where: a container, a pod, a host, or the folder of a dev container.
    pub target: Option<String>,
    /// An image, from which a container is made for each process.
    pub image: Option<String>,
    /// The engine's executable and its first arguments. Without it, the engine's name.
    pub engine_command: Vec<String>,
    /// More arguments for the engine, before the target.
    pub engine_args: Vec<String>,
    /// Which folders it has. Without it, lspool asks the engine, or they are the same.
    pub paths: Option<Vec<PathPair>>,
    /// What an editor gets for files that only the other side has.
    pub unmapped: Unmapped,
    /// Whether plain paths in settings are mapped.
    pub map_settings: bool,
    /// Who ends the server when its connection is lost.
    pub cleanup: Cleanup,
    /// The longest wait between two attempts to get there.
    pub reconnect_max: Duration,
    /// How long a request waits while there is no way there.
    pub request_wait: Duration,
}

impl Default for RemoteConfig {
    fn default() -> RemoteConfig {
        RemoteConfig {
            engine: Engine::default(),
            target: None,
            image: None,
            engine_command: Vec::new(),
            engine_args: Vec::new(),
            paths: None,
            unmapped: Unmapped::default(),
            map_settings: true,
            cleanup: Cleanup::default(),
            reconnect_max: Duration::from_secs(30),
            request_wait: Duration::from_secs(10),
        }
    }
}

/// What an editor gets for files that only the other side has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unmapped {
    /// A read-only copy.
    #[default]
    Fetch,
    /// Their path there.
    Pass,
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
    /// All of them.
    const ALL: [Engine; 6] =
        [Engine::Docker, Engine::Podman, Engine::Kubectl, Engine::Ssh, Engine::Devcontainer, Engine::Command];

    /// The engine that has this executable.
    pub(crate) fn of(program: &Path) -> Option<Engine> {
        let name = name_of(program);
        Engine::ALL.into_iter().find(|it| *it != Engine::Command && it.name() == name)
    }

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
        let has_image = matches!(self.engine, Engine::Docker | Engine::Podman);
        match (&self.image, &self.target) {
            (Some(_), _) if !has_image => {
                return Some(format!("`image` has no meaning with `engine = {engine:?}`"));
            }
            (Some(_), Some(_)) => return Some("expected one of `target` and `image`, found both".to_owned()),
            (Some(image), None) if image.starts_with('-') => {
                return Some(
                    "`image` begins with a dash, so the engine would take it as an option".to_owned(),
                );
            }
            (Some(_), None) => return None,
            (None, _) => {}
        }
        match (self.engine, &self.target) {
            (Engine::Docker | Engine::Podman | Engine::Kubectl | Engine::Ssh, None) => {
                let what = if has_image { "`target` or `image`" } else { "`target`" };
                return Some(format!("expected {what}, because `engine` is {engine:?}"));
            }
            (Engine::Command, Some(_)) => {
                return Some(format!(
                    "`target` has no meaning with `engine = {engine:?}`: use `engine_command`"
                ));
            }
            (Engine::Command, None) if self.engine_command.is_empty() => {
                return Some(format!("expected `engine_command`, because `engine` is {engine:?}"));
            }
            (Engine::Kubectl, Some(target)) if !is_pod(target) => {
                return Some(format!(
                    "expected `target` as POD, NAMESPACE/POD or NAMESPACE/POD/CONTAINER, found {target:?}"
                ));
            }
            (_, _) => {}
        }
        if self.target.as_ref().is_some_and(|it| it.starts_with('-')) {
            return Some("`target` begins with a dash, so the engine would take it as an option".to_owned());
        }
        None
    }
}

/// Whether a target names a pod.
fn is_pod(target: &str) -> bool {
    let mut parts = target.split('/');
    parts.clone().count() <= 3 && parts.all(|it| !it.is_empty() && !it.starts_with('-'))
}

/// Whether a server that this program starts sees other processes than lspool does. Such a server must not watch the
/// process of its client: it would not find it, and end.
pub fn runs_elsewhere(program: &Path) -> bool {
    Engine::of(program).is_some() || LEADING_ELSEWHERE.contains(&name_of(program).as_str())
}

/// Other programs that start a command among other processes, or may do so.
const LEADING_ELSEWHERE: [&str; 16] = [
    "apptainer",
    "bwrap",
    "distrobox",
    "distrobox-enter",
    "docker-compose",
    "doas",
    "firejail",
    "flatpak",
    "nerdctl",
    "nsenter",
    "podman-compose",
    "singularity",
    "sudo",
    "toolbox",
    "unshare",
    "wsl",
];

/// The name of an executable.
fn name_of(program: &Path) -> String {
    let name = program.file_name().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase();
    let bare = [".exe", ".cmd", ".bat"].iter().find_map(|it| name.strip_suffix(it)).map(ToOwned::to_owned);
    bare.unwrap_or(name)
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
            ("/usr/bin/bwrap", true),
            ("wsl.exe", true),
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
