//! The command lines of engines that run a server elsewhere.

use std::{
    collections::BTreeMap,
    io::{Read, Write as _},
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde::Deserialize;

use super::{
    super::elsewhere::{MARK_HERE, TAIL, quoted, with_prelude},
    Env,
};
use crate::{
    config::{Cleanup, Engine, RemoteConfig},
    core::event::{Inspect, Launch, Remote},
    rpc::PathPair,
    shell::os::files::canonicalize,
    shell::os::processes,
    util::fnv::fnv1a,
};

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
    /// The bind mounts for a new container.
    pub(super) paths: &'a [PathPair],
}

/// How an engine is called.
pub(super) struct Call {
    /// Its arguments that run the server.
    pub(super) args: Vec<String>,
    /// The variables of the engine's client.
    pub(super) env: Vec<(String, String)>,
    /// The variables that the shell there reads.
    pub(super) told: Vec<(String, String)>,
    /// Its arguments that run a shell there, which reads commands from its stdin. Empty: there is none.
    pub(super) shell: Vec<String>,
    /// Its arguments that end a server without its client. Those of the shell get commands for that.
    pub(super) farewell: Vec<String>,
}

/// How an engine runs a server.
pub(super) fn call(remote: &RemoteConfig, first: &[String], words: &Words<'_>) -> Result<Call, String> {
    let after_first = |args: Vec<String>| if args.is_empty() { args } else { [first, &args].concat() };
    let args = after_first(engine_args(remote, words)?);
    let shell = after_first(shell_args(remote, words)?);
    let farewell = match remote.image {
        Some(_) => after_first(["rm", "-f", &container()].map(ToOwned::to_owned).to_vec()),
        None => shell.clone(),
    };
    let is_for_client = |name: &str| match remote.engine {
        // Those for the engine are on its command line: its client needs its own.
        Engine::Docker | Engine::Podman => !is_for_engine(name),
        Engine::Command => true,
        Engine::Kubectl | Engine::Ssh | Engine::Devcontainer => false,
    };
    let env = words.env.iter().filter(|(name, _)| is_for_client(name));
    let env = env.map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(Call { args, env, told: told_env(remote, words)?, shell, farewell })
}

/// The name of a new container.
fn container() -> String {
    format!("lspool-{MARK_HERE}")
}

/// The arguments with which an engine runs a server: never with a terminal, which would change the bytes.
fn engine_args(remote: &RemoteConfig, words: &Words<'_>) -> Result<Vec<String>, String> {
    if words.command.starts_with("~/") {
        let command = words.command;
        return Err(format!(
            "{command:?} is of the other side, where lspool does not know `~`: write the whole path"
        ));
    }
    let cwd = words.cwd.map(|it| it.to_string_lossy().into_owned());
    let takes_folder = matches!(remote.engine, Engine::Docker | Engine::Podman);
    let is_known = takes_folder && cwd.as_ref().is_some_and(|it| it.starts_with('/'));
    let mut options = Vec::new();
    if remote.image.is_some() {
        options.extend(["--name".to_owned(), container()]);
    }
    if takes_folder {
        if let Some(cwd) = cwd.as_ref().filter(|_| is_known) {
            options.extend(["-w".to_owned(), cwd.clone()]);
        }
        for (name, value) in words.env {
            options.push("-e".to_owned());
            // By name: a value may be secret, and everybody can read a command line.
            options.push(if is_for_engine(name) { format!("{name}={value}") } else { name.clone() });
        }
    }
    let there = wrapped(remote.cleanup, cwd.as_deref().filter(|_| !is_known), words);
    around(remote, words, options, there)
}

/// The arguments with which an engine runs a shell that reads commands from its stdin. Empty: there is none.
fn shell_args(remote: &RemoteConfig, words: &Words<'_>) -> Result<Vec<String>, String> {
    match remote.cleanup {
        Cleanup::Sh => around(remote, words, Vec::new(), vec!["sh".to_owned()]),
        Cleanup::None => Ok(Vec::new()),
    }
}

/// The variables that the shell there reads, because the engine passes none on.
fn told_env(remote: &RemoteConfig, words: &Words<'_>) -> Result<Vec<(String, String)>, String> {
    let name = remote.engine.name();
    let passes = matches!(remote.engine, Engine::Docker | Engine::Podman | Engine::Command);
    if passes || words.env.is_empty() {
        return Ok(Vec::new());
    }
    if remote.cleanup == Cleanup::None {
        return Err(format!(
            "{name} cannot pass on `env` of [server.{}] without a shell: set the variables on the other side",
            words.name
        ));
    }
    if let Some((name, _)) = words.env.iter().find(|(_, value)| value.contains('\n')) {
        return Err(format!(
            "`env.{name}` of [server.{}] has a line break, which cannot be passed on",
            words.name
        ));
    }
    Ok(words.env.clone().into_iter().collect())
}

/// The arguments with which an engine runs these words there. `options` are for the words alone.
fn around(
    remote: &RemoteConfig,
    words: &Words<'_>,
    options: Vec<String>,
    there: Vec<String>,
) -> Result<Vec<String>, String> {
    let target = remote.target.as_deref().unwrap_or_default();
    let mut args: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| args.extend(more.iter().map(ToString::to_string));
    match remote.engine {
        Engine::Docker | Engine::Podman => {
            match &remote.image {
                Some(_) => add(&["run", "--rm", "-i", "--init"]),
                None => add(&["exec", "-i"]),
            }
            args.extend(options);
            if let Some(image) = &remote.image {
                let mounts = words.paths.iter().flat_map(|PathPair { local, remote }| {
                    ["--mount".to_owned(), format!("type=bind,\"source={local}\",\"target={remote}\"")]
                });
                args.extend(mounts);
                args.extend_from_slice(&remote.engine_args);
                args.push(image.clone());
            } else {
                args.extend_from_slice(&remote.engine_args);
                args.push(target.to_owned());
            }
            args.extend(there);
        }
        Engine::Kubectl => {
            let parts: Vec<&str> = target.split('/').collect();
            let (namespace, pod, container) = match parts[..] {
                [pod] => (None, pod, None),
                [namespace, pod] => (Some(namespace), pod, None),
                [namespace, pod, container] => (Some(namespace), pod, Some(container)),
                // The configuration has refused it.
                _ => return Err(format!("{target:?} names no pod")),
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
            args.extend(there);
        }
        Engine::Ssh => {
            args.extend(["-T", "-e", "none"].map(ToOwned::to_owned));
            // ssh takes the first value of an option: the user's.
            args.extend_from_slice(&remote.engine_args);
            let options = ["BatchMode=yes", "ControlPath=none", "ConnectTimeout=10", "ServerAliveInterval=5"];
            for option in options.iter().chain(&["ServerAliveCountMax=3"]) {
                args.extend(["-o".to_owned(), (*option).to_owned()]);
            }
            args.push(target.to_owned());
            let quoted: Vec<String> = there.iter().map(|it| quoted(it)).collect();
            args.push(format!("exec {}", quoted.join(" ")));
        }
        Engine::Devcontainer => {
            add(&["exec", "--workspace-folder", &dev_folder(remote, words.folder)]);
            args.extend_from_slice(&remote.engine_args);
            args.extend(there);
        }
        Engine::Command => {
            args.extend_from_slice(&remote.engine_args);
            args.extend(there);
        }
    }
    Ok(args)
}

/// The words that run the server on the other side, in a folder.
fn wrapped(cleanup: Cleanup, cwd: Option<&str>, words: &Words<'_>) -> Vec<String> {
    let server = std::iter::once(words.command.to_owned()).chain(words.args.iter().cloned());
    let folder = |it: &str| match it.strip_prefix('~') {
        Some(rest) => format!("\"$HOME\"{}", quoted(rest)),
        None => quoted(it),
    };
    let enter = cwd.map(|it| format!("cd {} || exit 1; ", folder(it))).unwrap_or_default();
    match (cleanup, cwd) {
        (Cleanup::Sh, _) => with_prelude(&(enter + TAIL), server),
        (Cleanup::None, Some(_)) => {
            let shell = ["sh".to_owned(), "-c".to_owned(), enter + "exec \"$@\"", "lspool".to_owned()];
            shell.into_iter().chain(server).collect()
        }
        (Cleanup::None, None) => server.collect(),
    }
}

/// Variables that would change what the client of docker or podman does. Their values are no secrets.
fn is_for_engine(name: &str) -> bool {
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

/// The place for people.
pub(super) fn place_name(remote: &RemoteConfig) -> String {
    match (remote.engine, remote.image.as_ref().or(remote.target.as_ref())) {
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
        let real = canonicalize(Path::new(&local)).ok().map(|it| it.to_string_lossy().into_owned());
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

/// The container of a plain command line, such as `docker exec -i web pyright-langserver`, if its folders are known.
pub(super) fn recognized(program: &Path, args: &[String], folders: &[PathBuf]) -> Option<Remote> {
    let engine = match Engine::of(program)? {
        engine @ (Engine::Docker | Engine::Podman) => engine,
        Engine::Kubectl | Engine::Ssh | Engine::Devcontainer | Engine::Command => return None,
    };
    let target = container_of(args)?.to_owned();
    let remote = RemoteConfig { engine, target: Some(target), ..RemoteConfig::default() };
    let found = known_folders(&remote, program, &[], folders).map_err(|error| tracing::warn!(error));
    let (paths, inspect) = found.ok()?;
    let (name, paths) = (place_name(&remote), usable(paths, folders));
    Some(Remote { engine, name, paths, inspect, ..Remote::default() })
}

/// The container of `exec`. `None`: it is another command, or has an option that lspool does not know.
fn container_of(args: &[String]) -> Option<&str> {
    const WITH_VALUE: [&str; 9] =
        ["-e", "--env", "--env-file", "-u", "--user", "-w", "--workdir", "--detach-keys", "--preserve-fds"];
    const ALONE: [&str; 4] = ["--interactive", "--tty", "--privileged", "-it"];
    let mut words = args.strip_prefix(&["exec".to_owned()])?.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            _ if WITH_VALUE.contains(&word) => drop(words.next()),
            "-i" | "-t" => {}
            _ if ALONE.contains(&word) => {}
            _ if word.starts_with("--") && word.contains('=') => {}
            _ if word.starts_with('-') => return None,
            _ => return Some(word),
        }
    }
    None
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

/// The folder for copies of files that only this place has.
pub(super) fn copies(name: &str, remote: &RemoteConfig, env: &Env) -> Option<String> {
    let cache = match cfg!(windows) {
        true => env.local()?,
        false => env.folder("XDG_CACHE_HOME").or_else(|| env.at_home(".cache"))?,
    };
    let place = format!(
        "{:?}",
        (remote.engine, &remote.target, &remote.image, &remote.engine_command, &remote.engine_args)
    );
    let folder = cache.join("lspool/remote").join(format!("{name}-{:016x}", fnv1a(place.as_bytes())));
    folder.into_os_string().into_string().ok()
}

/// The folders of a place, as far as its engine knows, and how to ask for them again. Of a new container, these are the
/// workspace folders; `ssh`, `kubectl` and `command` do not tell.
pub(super) fn known_folders(
    remote: &RemoteConfig,
    engine: &Path,
    first: &[String],
    folders: &[PathBuf],
) -> Result<(Vec<PathPair>, Option<Inspect>), String> {
    if remote.image.is_some() {
        let same = |it: &PathBuf| {
            let path = it.to_string_lossy().into_owned();
            PathPair { local: path.clone(), remote: path }
        };
        return Ok((folders.iter().map(same).collect(), None));
    }
    let Some(args) = inspect_args(remote, folders.first().map(PathBuf::as_path)) else {
        return Ok((Vec::new(), None));
    };
    let inspect = Inspect { args: [first, &args].concat(), folders: folders.to_vec() };
    let found = inspected(remote.engine, engine, &inspect);
    let name = remote.engine.name();
    let found = found.map_err(|why| match &remote.target {
        Some(target) => {
            format!("{name} cannot read the mounts of {target:?}: {why}; start the container, or set `paths`")
        }
        None => format!("{name} cannot read its configuration: {why}; or set `paths`"),
    });
    Ok((found?, Some(inspect)))
}

/// The arguments with which an engine describes a place. `None`: it cannot.
fn inspect_args(remote: &RemoteConfig, folder: Option<&Path>) -> Option<Vec<String>> {
    match (remote.engine, &remote.target) {
        (Engine::Docker | Engine::Podman, Some(target)) => {
            let words = ["inspect", "--type", "container", "--format", "{{json .Mounts}}", target];
            Some(words.map(ToOwned::to_owned).to_vec())
        }
        (Engine::Devcontainer, _) => {
            let mut args = vec!["read-configuration".to_owned()];
            args.extend_from_slice(&remote.engine_args);
            args.extend(["--workspace-folder".to_owned(), dev_folder(remote, folder)]);
            Some(args)
        }
        _ => None,
    }
}

/// The workspace folder of a dev container.
fn dev_folder(remote: &RemoteConfig, folder: Option<&Path>) -> String {
    let folder = folder.map(|it| it.to_string_lossy().into_owned());
    remote.target.clone().or(folder).unwrap_or_else(|| ".".to_owned())
}

/// The folders that an engine tells now.
fn inspected(engine: Engine, program: &Path, inspect: &Inspect) -> Result<Vec<PathPair>, String> {
    let mut command = processes::command(program);
    command.args(&inspect.args);
    let output = output_within(command, None, INSPECT)?;
    match engine {
        Engine::Devcontainer => read_workspace(&output, inspect.args.last().map_or(".", |it| it)),
        _ => read_mounts(&output),
    }
}

/// The folders of a place, if they are others than when it was last asked. `None`, too: it cannot be asked. Its start
/// says why then.
pub(in crate::shell) fn moved(launch: &Launch) -> Option<Vec<PathPair>> {
    let remote = launch.remote.as_ref()?;
    let inspect = remote.inspect.as_ref()?;
    let found = inspected(remote.engine, &launch.program, inspect)
        .map_err(|error| tracing::warn!(error, place = remote.name, "could not ask for its folders"));
    let found = usable(found.ok()?, &inspect.folders);
    let is_same = found.len() == remote.paths.len() && found.iter().all(|it| remote.paths.contains(it));
    (!is_same).then_some(found)
}

fn read_mounts(json: &[u8]) -> Result<Vec<PathPair>, String> {
    let all: Option<Vec<Mount>> = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let is_bind =
        |it: &Mount| it.r#type == "bind" && it.source.starts_with('/') && it.destination.starts_with('/');
    let binds = all.into_iter().flatten().filter(is_bind);
    Ok(binds.map(|it| PathPair { local: it.source, remote: it.destination }).collect())
}

/// The workspace folder of a dev container, from what `devcontainer read-configuration` writes.
fn read_workspace(json: &[u8], local: &str) -> Result<Vec<PathPair>, String> {
    #[derive(Deserialize)]
    struct Configuration {
        workspace: Option<Workspace>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Workspace {
        workspace_folder: String,
    }
    let read: Configuration = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let Some(Workspace { workspace_folder: remote }) = read.workspace else { return Ok(Vec::new()) };
    if !remote.starts_with('/') {
        return Err(format!("the workspace folder {remote:?} is not an absolute path"));
    }
    let local = std::path::absolute(local).map_err(|error| error.to_string())?;
    Ok(vec![PathPair { local: local.to_string_lossy().into_owned(), remote }])
}

/// What a command writes to its stdout. `input`: what it reads.
pub(super) fn output_within(
    mut command: Command,
    input: Option<String>,
    limit: Duration,
) -> Result<Vec<u8>, String> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let started = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| error.to_string())?;
    let pid = child.id();
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
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
    // It may have ended.
    processes::kill(pid).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(args: &[String]) -> String {
        let begin = with_prelude(TAIL, []).remove(2);
        args.join(" | ").replace(TAIL, "TAIL").replace(&begin, "BEGIN").replace(&quoted(&begin), "BEGIN")
    }

    fn words(remote: &RemoteConfig, cwd: Option<&str>, env: &[&str]) -> Result<String, String> {
        called(remote, cwd, env).map(|it| shown(&it.args))
    }

    fn called(remote: &RemoteConfig, cwd: Option<&str>, env: &[&str]) -> Result<Call, String> {
        let env = env.iter().map(|it| (it.to_string(), "secret".to_owned())).collect();
        let args = ["--stdio".to_owned(), "it's".to_owned()];
        let words = Words {
            name: "pyright",
            command: "pyright-langserver",
            args: &args,
            cwd: cwd.map(Path::new),
            env: &env,
            folder: Some(Path::new("/w")),
            paths: &[PathPair { local: "/w".to_owned(), remote: "/app".to_owned() }],
        };
        call(remote, &[], &words)
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
                "exec | -i | -w | /app | -x | web | sh | -c | BEGIN | lspool | -c | TAIL | lspool | pyright-langserver | --stdio | it's",
            ),
            (
                remote(Engine::Podman, "web", Cleanup::None),
                "exec | -i | -w | /app | -x | web | pyright-langserver | --stdio | it's",
            ),
            (
                remote(Engine::Kubectl, "dev/web-1/main", Cleanup::Sh),
                "exec | -i | -n | dev | -c | main | -x | web-1 | -- | sh | -c | BEGIN | lspool | -c | cd /app || exit 1; TAIL \
                 | lspool | pyright-langserver | --stdio | it's",
            ),
            (
                remote(Engine::Ssh, "box", Cleanup::None),
                "-T | -e | none | -x | -o | BatchMode=yes | -o | ControlPath=none | -o | ConnectTimeout=10 | -o \
                 | ServerAliveInterval=5 | -o | ServerAliveCountMax=3 | box | exec sh -c 'cd /app || exit 1; exec \"$@\"' lspool \
                 pyright-langserver --stdio 'it'\\''s'",
            ),
            (
                remote(Engine::Devcontainer, "", Cleanup::None),
                "exec | --workspace-folder | /w | -x | sh | -c | cd /app || exit 1; exec \"$@\" | lspool \
                 | pyright-langserver | --stdio | it's",
            ),
            (
                remote(Engine::Command, "", Cleanup::Sh),
                "-x | sh | -c | BEGIN | lspool | -c | cd /app || exit 1; TAIL | lspool | pyright-langserver | --stdio | it's",
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
        let ssh = called(&remote(Engine::Ssh, "box", Cleanup::Sh), None, &["TOKEN"]).unwrap();
        assert!(!shown(&ssh.args).contains("secret") && ssh.env.is_empty());
        assert_eq!(ssh.told, [("TOKEN".to_owned(), "secret".to_owned())]);
        let error = words(&remote(Engine::Ssh, "box", Cleanup::None), None, &["TOKEN"]).unwrap_err();
        assert!(error.starts_with("ssh cannot pass on `env` of [server.pyright]"), "{error}");
    }

    #[test]
    fn image_becomes_a_container_with_a_name() {
        let image = Some("py:3".to_owned());
        let remote = RemoteConfig { target: None, image, ..remote(Engine::Podman, "", Cleanup::Sh) };
        let call = called(&remote, Some("/app"), &["TOKEN"]).unwrap();
        assert_eq!(
            shown(&call.args),
            "run | --rm | -i | --init | --name | lspool-@lspool-mark@ | -w | /app | -e | TOKEN | --mount \
             | type=bind,\"source=/w\",\"target=/app\" | -x | py:3 | sh | -c | BEGIN | lspool | -c | TAIL | lspool \
             | pyright-langserver | --stdio | it's"
        );
        assert_eq!(call.farewell, ["rm", "-f", "lspool-@lspool-mark@"]);
        assert_eq!(
            call.shell.join(" "),
            "run --rm -i --init --mount type=bind,\"source=/w\",\"target=/app\" -x py:3 sh"
        );
    }

    #[test]
    fn container_of_a_command_line_is_found() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
            container_of(&words).map(ToOwned::to_owned)
        };
        for (line, expected) in [
            ("exec -i web pyright-langserver --stdio", Some("web")),
            ("exec -i -e A=b --env=C=d -w /app --user root web x -y", Some("web")),
            ("exec -it web x", Some("web")),
            ("exec -iu root web x", None),
            ("exec -i", None),
            ("run --rm -i image x", None),
            ("--context far exec -i web x", None),
        ] {
            assert_eq!(of(line).as_deref(), expected, "{line}");
        }
        assert_eq!(recognized(Path::new("/usr/bin/ssh"), &["exec".to_owned(), "web".to_owned()], &[]), None);
    }

    #[test]
    fn pod_is_named_in_three_ways() {
        let of = |target: &str| words(&remote(Engine::Kubectl, target, Cleanup::None), None, &[]);
        assert!(of("web").unwrap().starts_with("exec | -i | -x | web | -- | "));
        assert!(of("dev/web").unwrap().starts_with("exec | -i | -n | dev | -x | web | -- | "));
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
    fn workspace_folder_of_a_dev_container_is_read() {
        let json = br#"{"configuration":{"image":"x"},"workspace":{"workspaceFolder":"/workspaces/shop",
            "workspaceMount":"type=bind,source=/home/u/shop,target=/workspaces/shop"}}"#;
        let pair = PathPair { local: "/home/u/shop".to_owned(), remote: "/workspaces/shop".to_owned() };
        assert_eq!(read_workspace(json, "/home/u/shop"), Ok(vec![pair]));
        assert_eq!(read_workspace(b"{}", "/w"), Ok(Vec::new()));
        assert!(read_workspace(br#"{"workspace":{"workspaceFolder":"${x}"}}"#, "/w").is_err());
    }

    /// A container that was made again, as its engine tells it.
    #[test]
    fn folders_that_have_changed_are_noticed() {
        let pair = |remote: &str| PathPair { local: "/w".to_owned(), remote: remote.to_owned() };
        let told = r#"[{"Type":"bind","Source":"/w","Destination":"/app"}]"#;
        let inspect = |script: &str, paths: &[PathPair]| {
            let args = vec!["-c".to_owned(), script.to_owned()];
            let inspect = Some(Inspect { args, folders: Vec::new() });
            let remote =
                Remote { engine: Engine::Podman, paths: paths.to_vec(), inspect, ..Remote::default() };
            let text = r#"{"program":"/bin/sh","args":[],"env":{},"cwd":null,"max_message":1,"write_stall":{"secs":1,"nanos":0}}"#;
            moved(&Launch { remote: Some(remote), ..serde_json::from_str(text).unwrap() })
        };
        let tells = format!("echo '{told}'");
        assert_eq!(inspect(&tells, &[pair("/app")]), None);
        assert_eq!(inspect(&tells, &[pair("/old")]), Some(vec![pair("/app")]));
        assert_eq!(inspect("echo '[]'", &[pair("/old")]), Some(Vec::new()));
        assert_eq!(inspect("exit 1", &[pair("/old")]), None, "its start says what is wrong");
    }

    #[test]
    fn mounts_of_any_shape_are_read() {
        assert_eq!(read_mounts(b"null"), Ok(Vec::new()));
        let odd = br#"[{"Type":"bind"},{"Type":"bind","Source":"","Destination":"/"},{"Type":"tmpfs"}]"#;
        assert_eq!(read_mounts(odd), Ok(Vec::new()));
    }

    #[cfg(unix)]
    #[test]
    fn folder_counts_under_each_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().canonicalize().unwrap().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
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
            docker.starts_with(
                "exec | -i | -x | web | sh | -c | BEGIN | lspool | -c | cd \"$HOME\"'/my x' || exit 1; TAIL"
            ),
            "{docker}"
        );
    }

    #[test]
    fn engine_that_fails_or_hangs_is_an_error() {
        let mut fails = Command::new("sh");
        fails.args(["-c", "echo WARNING: old >&2; echo no such container >&2; exit 1"]);
        assert_eq!(output_within(fails, None, INSPECT), Err("no such container".to_owned()));
        let mut hangs = Command::new("sleep");
        hangs.arg("60");
        assert!(output_within(hangs, None, Duration::from_millis(50)).unwrap_err().contains("no answer"));
        let mut talks = Command::new("sh");
        talks.args(["-c", "exec cat /dev/zero"]);
        assert!(output_within(talks, None, INSPECT).is_err());
    }
}
