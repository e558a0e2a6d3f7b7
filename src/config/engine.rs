//! Programs that run a server somewhere else: in a container, in a pod, on another host.

use std::path::Path;

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
