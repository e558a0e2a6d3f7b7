//! The command lines of engines that run a server elsewhere.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde::Deserialize;

use crate::{
    config::{Cleanup, Engine, RemoteConfig},
    rpc::PathPair,
};

/// Runs the server, and ends it when the input is over: 2 s later with SIGTERM, 2 s later with SIGKILL. Engines leave
/// a server behind whose client is killed. Also ends what a server leaves in its group, and keeps the exit code, unless
/// the engine is in that group too.
///
/// `cat` must let go of the pipe when its input ends, or the server never sees the end.
const TAIL: &str = r#"trap : TERM; { trap - TERM; cat; exec >&-; sleep 2; trap "" TERM; kill -TERM 0; trap - TERM; sleep 2; kill -KILL 0; } | { trap : TERM; "$@"; s=$?; kill -TERM 0; (sleep 1; kill -KILL 0) </dev/null >/dev/null 2>&1 & exit $s; }"#;

/// How long an engine may take to describe a container.
const INSPECT: Duration = Duration::from_secs(5);

/// So much of what an engine says is read.
const MOST: u64 = 1 << 20;

/// The server, as its section says it.
pub(super) struct Words<'a> {
    pub(super) name: &'a str,
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) cwd: Option<&'a Path>,
    pub(super) env: &'a BTreeMap<String, String>,
    /// The first workspace folder.
    pub(super) folder: Option<&'a Path>,
}

/// The arguments with which an engine runs a server: never with a terminal, which would change the bytes.
pub(super) fn engine_args(remote: &RemoteConfig, words: &Words<'_>) -> Result<Vec<String>, String> {
    let target = remote.target.as_deref().unwrap_or_default();
    let cwd = words.cwd.map(|it| it.to_string_lossy().into_owned());
    if words.command.starts_with("~/") {
        let command = words.command;
        return Err(format!(
            "{command:?} is of the other side, where lspool does not know `~`: write the whole path"
        ));
    }
    let passes_env = matches!(remote.engine, Engine::Docker | Engine::Podman | Engine::Command);
    if !passes_env && !words.env.is_empty() {
        return Err(format!(
            "{} cannot pass on `env` of [server.{}]: set the variables on the other side",
            remote.engine.name(),
            words.name
        ));
    }
    let mut args: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| args.extend(more.iter().map(ToString::to_string));
    match remote.engine {
        Engine::Docker | Engine::Podman => {
            add(&["exec", "-i"]);
            let is_known = cwd.as_ref().is_some_and(|it| it.starts_with('/'));
            if let Some(cwd) = cwd.as_ref().filter(|_| is_known) {
                add(&["-w", cwd]);
            }
            for (name, value) in words.env {
                match is_for_engine(name) {
                    true => add(&["-e", &format!("{name}={value}")]),
                    // By name: a value may be secret, and everybody can read a command line.
                    false => add(&["-e", name]),
                }
            }
            args.extend_from_slice(&remote.engine_args);
            args.push(target.to_owned());
            args.extend(wrapped(remote.cleanup, cwd.as_deref().filter(|_| !is_known), words));
        }
        Engine::Kubectl => {
            let parts: Vec<&str> = target.split('/').collect();
            let (namespace, pod, container) = match parts[..] {
                [pod] => (None, pod, None),
                [namespace, pod] => (Some(namespace), pod, None),
                [namespace, pod, container] => (Some(namespace), pod, Some(container)),
                _ => {
                    return Err(format!(
                        "expected POD, NAMESPACE/POD or NAMESPACE/POD/CONTAINER, found {target:?}"
                    ));
                }
            };
            add(&["exec", "-i"]);
            if let Some(namespace) = namespace {
                add(&["-n", namespace]);
            }
            if let Some(container) = container {
                add(&["-c", container]);
            }
            args.extend_from_slice(&remote.engine_args);
            args.extend([pod.to_owned(), "--".to_owned()]);
            args.extend(wrapped(remote.cleanup, cwd.as_deref(), words));
        }
        Engine::Ssh => {
            add(&["-T", "-e", "none", "-o", "BatchMode=yes", "-o", "ControlPath=none"]);
            add(&["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]);
            args.extend_from_slice(&remote.engine_args);
            args.push(target.to_owned());
            let there = wrapped(remote.cleanup, cwd.as_deref(), words);
            let quoted: Vec<String> = there.iter().map(|it| quoted(it)).collect();
            args.push(format!("exec {}", quoted.join(" ")));
        }
        Engine::Devcontainer => {
            let folder = words.folder.map(|it| it.to_string_lossy().into_owned());
            let folder = remote.target.clone().or(folder).unwrap_or_else(|| ".".to_owned());
            add(&["exec", "--workspace-folder", &folder]);
            args.extend_from_slice(&remote.engine_args);
            args.extend(wrapped(remote.cleanup, cwd.as_deref(), words));
        }
        Engine::Command => {
            args.extend_from_slice(&remote.engine_args);
            args.extend(wrapped(remote.cleanup, cwd.as_deref(), words));
        }
    }
    Ok(args)
}

/// The words that run the server on the other side, in a folder.
fn wrapped(cleanup: Cleanup, cwd: Option<&str>, words: &Words<'_>) -> Vec<String> {
    let server = || std::iter::once(words.command.to_owned()).chain(words.args.iter().cloned());
    let run = match (cleanup, cwd) {
        (Cleanup::Sh, _) => TAIL,
        (Cleanup::None, Some(_)) => "exec \"$@\"",
        (Cleanup::None, None) => return server().collect(),
    };
    let folder = |it: &str| match it.strip_prefix('~') {
        Some(rest) => format!("\"$HOME\"{}", quoted(rest)),
        None => quoted(it),
    };
    let enter = cwd.map(|it| format!("cd {} || exit 1; ", folder(it))).unwrap_or_default();
    let shell = ["sh".to_owned(), "-c".to_owned(), enter + run, "lspool".to_owned()];
    shell.into_iter().chain(server()).collect()
}

/// Variables that would change what the client of docker or podman does. Their values are no secrets.
pub(super) fn is_for_engine(name: &str) -> bool {
    [
        "PATH",
        "HOME",
        "TMPDIR",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
        "DOCKER_HOST",
        "DOCKER_CONTEXT",
        "CONTAINER_HOST",
    ]
    .contains(&name)
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./:=,@%+".contains(it);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The place for people.
pub(super) fn place_name(remote: &RemoteConfig) -> String {
    match (remote.engine, &remote.target) {
        (Engine::Command, _) => remote.engine_command.first().cloned().unwrap_or_default(),
        (engine, Some(target)) => format!("{} {target}", engine.name()),
        (engine, None) => engine.name().to_owned(),
    }
}

/// The folders as messages name them: without `.` and repeated slashes, and under their real path too.
pub(super) fn usable(pairs: Vec<PathPair>, folders: &[PathBuf]) -> Vec<PathPair> {
    let mut all = Vec::new();
    for PathPair { local, remote } in pairs {
        let (local, remote) = (plain(&local), plain(&remote));
        let real = fs::canonicalize(&local).ok().map(|it| it.to_string_lossy().into_owned());
        let real = real.filter(|it| *it != local);
        // A remote path becomes the first: the one that the editor uses.
        let is_used = |it: &String| folders.iter().any(|folder| folder.starts_with(it));
        let mut names = vec![local];
        match real {
            Some(real) if is_used(&real) => names.insert(0, real),
            Some(real) => names.push(real),
            None => {}
        }
        all.extend(names.into_iter().map(|local| PathPair { local, remote: remote.clone() }));
    }
    all
}

fn plain(path: &str) -> String {
    let parts = Path::new(path).components().filter(|it| *it != Component::CurDir);
    parts.collect::<PathBuf>().to_string_lossy().into_owned()
}

/// A mount, as docker and podman describe it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Mount {
    r#type: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    destination: String,
}

/// The bind mounts of a container. Other engines do not tell.
pub(super) fn mounts(
    remote: &RemoteConfig,
    engine: &Path,
    first: &[String],
) -> Result<Vec<PathPair>, String> {
    let (Engine::Docker | Engine::Podman, Some(target)) = (remote.engine, &remote.target) else {
        return Ok(Vec::new());
    };
    let mut command = Command::new(engine);
    command.args(first).args(["inspect", "--type", "container", "--format", "{{json .Mounts}}", target]);
    let failed = |why: &str| {
        let name = remote.engine.name();
        format!("{name} cannot read the mounts of {target:?}: {why}; start the container, or set `paths`")
    };
    let output = output_within(command, INSPECT).map_err(|it| failed(&it))?;
    read_mounts(&output).map_err(|it| failed(&it))
}

fn read_mounts(json: &[u8]) -> Result<Vec<PathPair>, String> {
    let all: Option<Vec<Mount>> = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let is_bind =
        |it: &Mount| it.r#type == "bind" && it.source.starts_with('/') && it.destination.starts_with('/');
    let binds = all.into_iter().flatten().filter(is_bind);
    Ok(binds.map(|it| PathPair { local: it.source, remote: it.destination }).collect())
}

/// What a command writes to its stdout.
fn output_within(mut command: Command, limit: Duration) -> Result<Vec<u8>, String> {
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| error.to_string())?;
    let pid = child.id();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (tell_errors, errors) = mpsc::channel();
    thread::spawn(move || tell_errors.send(read_some(stderr)));
    let (tell, told) = mpsc::channel();
    // It may hang. Nobody waits for the thread then.
    thread::spawn(move || {
        let output = read_some(stdout);
        tell.send((output, child.wait()))
    });
    let (output, status) = told.recv_timeout(limit).map_err(|_| {
        end(pid);
        format!("no answer within {} s", limit.as_secs())
    })?;
    match status.map_err(|error| error.to_string())?.success() {
        true => Ok(output),
        false => {
            let errors = errors.recv_timeout(limit).unwrap_or_default();
            let text = String::from_utf8_lossy(&errors);
            // Warnings come before the error.
            let last = text.lines().rfind(|it| !it.trim().is_empty());
            Err(last.unwrap_or("it failed without an error message").trim().to_owned())
        }
    }
}

/// The beginning of a stream: an engine says little. The rest is lost with the pipe.
fn read_some(stream: Option<impl Read>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(stream) = stream {
        stream.take(MOST).read_to_end(&mut out).ok();
    }
    out
}

fn end(pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::KILL).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(remote: &RemoteConfig, cwd: Option<&str>, env: &[&str]) -> Result<String, String> {
        let env = env.iter().map(|it| (it.to_string(), "secret".to_owned())).collect();
        let args = ["--stdio".to_owned(), "it's".to_owned()];
        let words = Words {
            name: "pyright",
            command: "pyright-langserver",
            args: &args,
            cwd: cwd.map(Path::new),
            env: &env,
            folder: Some(Path::new("/w")),
        };
        engine_args(remote, &words).map(|it| it.join(" | ").replace(TAIL, "TAIL"))
    }

    fn remote(engine: Engine, target: &str, cleanup: Cleanup) -> RemoteConfig {
        let target = (!target.is_empty()).then(|| target.to_owned());
        RemoteConfig {
            engine,
            target,
            cleanup,
            engine_args: vec!["-x".to_owned()],
            ..RemoteConfig::default()
        }
    }

    #[test]
    fn engines_are_called_without_a_terminal() {
        let all = [
            (
                remote(Engine::Docker, "web", Cleanup::Sh),
                "exec | -i | -w | /app | -x | web | sh | -c | TAIL | lspool | pyright-langserver | --stdio | it's",
            ),
            (
                remote(Engine::Podman, "web", Cleanup::None),
                "exec | -i | -w | /app | -x | web | pyright-langserver | --stdio | it's",
            ),
            (
                remote(Engine::Kubectl, "dev/web-1/main", Cleanup::Sh),
                "exec | -i | -n | dev | -c | main | -x | web-1 | -- | sh | -c | cd /app || exit 1; TAIL | lspool \
                 | pyright-langserver | --stdio | it's",
            ),
            (
                remote(Engine::Ssh, "box", Cleanup::None),
                "-T | -e | none | -o | BatchMode=yes | -o | ControlPath=none | -o | ServerAliveInterval=5 | -o \
                 | ServerAliveCountMax=3 | -x | box | exec sh -c 'cd /app || exit 1; exec \"$@\"' lspool \
                 pyright-langserver --stdio 'it'\\''s'",
            ),
            (
                remote(Engine::Devcontainer, "", Cleanup::None),
                "exec | --workspace-folder | /w | -x | sh | -c | cd /app || exit 1; exec \"$@\" | lspool \
                 | pyright-langserver | --stdio | it's",
            ),
            (
                remote(Engine::Command, "", Cleanup::Sh),
                "-x | sh | -c | cd /app || exit 1; TAIL | lspool | pyright-langserver | --stdio | it's",
            ),
        ];
        for (remote, expected) in all {
            assert_eq!(words(&remote, Some("/app"), &[]).unwrap(), expected);
        }
    }

    #[test]
    fn values_of_variables_are_on_no_command_line() {
        let docker = remote(Engine::Docker, "web", Cleanup::None);
        let said = words(&docker, None, &["TOKEN"]).unwrap();
        assert!(said.contains("-e | TOKEN | ") && !said.contains("secret"), "{said}");
        let path = words(&docker, None, &["PATH"]).unwrap();
        assert!(path.contains("-e | PATH=secret | "), "the client needs its own: {path}");
        let error = words(&remote(Engine::Ssh, "box", Cleanup::Sh), None, &["TOKEN"]).unwrap_err();
        assert!(error.starts_with("ssh cannot pass on `env` of [server.pyright]"), "{error}");
    }

    #[test]
    fn pod_is_named_in_three_ways() {
        let of = |target: &str| words(&remote(Engine::Kubectl, target, Cleanup::None), None, &[]);
        assert!(of("web").unwrap().starts_with("exec | -i | -x | web | -- | "));
        assert!(of("dev/web").unwrap().starts_with("exec | -i | -n | dev | -x | web | -- | "));
        assert!(of("a/b/c/d").unwrap_err().contains("NAMESPACE/POD"));
    }

    #[test]
    fn only_bind_mounts_map_folders() {
        let json = br#"[{"Type":"bind","Source":"/home/u/shop","Destination":"/app","RW":true},
            {"Type":"volume","Name":"v","Source":"/var/lib/v","Destination":"/data"}]"#;
        let expected = vec![PathPair { local: "/home/u/shop".to_owned(), remote: "/app".to_owned() }];
        assert_eq!(read_mounts(json), Ok(expected));
        assert!(read_mounts(b"no json").is_err());
    }

    #[test]
    fn mounts_of_any_shape_are_read() {
        assert_eq!(read_mounts(b"null"), Ok(Vec::new()));
        let odd = br#"[{"Type":"bind"},{"Type":"bind","Source":"","Destination":"/"},{"Type":"tmpfs"}]"#;
        assert_eq!(read_mounts(odd), Ok(Vec::new()));
    }

    #[test]
    fn folder_counts_under_each_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().canonicalize().unwrap().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let text = |it: &Path| it.to_str().unwrap().to_owned();
        let pair = || vec![PathPair { local: text(&link) + "//./", remote: "/app//x".to_owned() }];
        let locals = |folders: &[PathBuf]| -> Vec<String> {
            let all = usable(pair(), folders);
            assert!(all.iter().all(|it| it.remote == "/app/x"), "{all:?}");
            all.into_iter().map(|it| it.local).collect()
        };
        assert_eq!(locals(std::slice::from_ref(&link)), [text(&link), text(&real)]);
        assert_eq!(locals(&[real.join("below")]), [text(&real), text(&link)]);
    }

    #[test]
    fn home_of_the_other_side_is_not_known_here() {
        let docker = words(&remote(Engine::Docker, "web", Cleanup::Sh), Some("~/my x"), &[]).unwrap();
        assert!(
            docker.starts_with("exec | -i | -x | web | sh | -c | cd \"$HOME\"'/my x' || exit 1; TAIL"),
            "{docker}"
        );
    }

    #[test]
    fn engine_that_fails_or_hangs_is_an_error() {
        let mut fails = Command::new("sh");
        fails.args(["-c", "echo WARNING: old >&2; echo no such container >&2; exit 1"]);
        assert_eq!(output_within(fails, INSPECT), Err("no such container".to_owned()));
        let mut hangs = Command::new("sleep");
        hangs.arg("60");
        assert!(output_within(hangs, Duration::from_millis(50)).unwrap_err().contains("no answer"));
        let mut talks = Command::new("sh");
        talks.args(["-c", "exec cat /dev/zero"]);
        assert!(output_within(talks, INSPECT).is_err());
    }
}
