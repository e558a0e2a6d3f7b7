//! Searches for an unnamed Copilot server.

use std::{
    fmt, fs,
    io::Read,
    path::{Path, PathBuf},
};

use super::{
    Env,
    env::npm_platform,
    path::{Skipped, Workspace, is_executable, on_path, real},
    places::{PACKAGE, Place, What, npm, plugins},
};

/// Name of the executable.
pub(super) const EXECUTABLE: &str = "copilot-language-server";

/// A server that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The executable.
    pub program: PathBuf,
    /// The script, which comes before the server's arguments, if `program` is node.
    pub script: Option<PathBuf>,
    /// The place, in words.
    pub place: &'static str,
    /// Skipped executables.
    pub skipped: Vec<Skipped>,
}

/// No server was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    /// Skipped executables.
    pub skipped: Vec<Skipped>,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "found no copilot-language-server on PATH, in npm's global folder, or in the folders of editor \
             plug-ins; install it (npm install -g @github/copilot-language-server), or name it: as \
             `lspool -- /absolute/path/copilot-language-server --stdio`, or as `command` under [server.copilot] in \
             the configuration file",
        )?;
        self.skipped.iter().try_for_each(|it| write!(f, "\n{it}"))
    }
}

/// The kind of a candidate.
#[derive(PartialEq, Eq)]
enum Form {
    /// The native server, or another program that starts it.
    Native,
    /// A script for node. An old node only starts the native server and waits.
    Script,
}

struct Candidate {
    path: PathBuf,
    form: Form,
    place: &'static str,
}

/// Searches `PATH`, npm's global folder, then the places of plug-ins. Takes the first candidate that is not a script,
/// or else the first script.
pub fn search(env: &Env, workspace: &Workspace) -> Result<Found, NotFound> {
    let mut skipped = Vec::new();
    let mut candidates = Vec::new();
    for path in on_path(EXECUTABLE, env, workspace, &mut skipped) {
        from_path(&path, workspace, &mut candidates, &mut skipped);
    }
    for place in npm(env, workspace).into_iter().chain(plugins(env)) {
        from_place(place, workspace, &mut candidates, &mut skipped);
    }
    in_workspace(workspace, &mut skipped);
    choose(candidates, skipped, env, workspace)
}

/// The launch for an executable with the server's name on `PATH`.
pub(super) fn resolve_named(
    path: &Path,
    env: &Env,
    workspace: &Workspace,
    mut skipped: Vec<Skipped>,
) -> Result<Found, NotFound> {
    let mut candidates = Vec::new();
    from_path(path, workspace, &mut candidates, &mut skipped);
    choose(candidates, skipped, env, workspace)
}

fn from_path(
    path: &Path,
    workspace: &Workspace,
    candidates: &mut Vec<Candidate>,
    skipped: &mut Vec<Skipped>,
) {
    // npm's shims on Windows start the script of a package beside them.
    let is_shim = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("cmd"));
    let package = path.parent().map(|it| it.join("node_modules").join(PACKAGE)).filter(|_| is_shim);
    if let Some(package) = package {
        native(&package, "PATH", workspace, candidates, skipped);
    }
    if !is_node_script(path) {
        candidates.push(Candidate { path: path.to_owned(), form: Form::Native, place: "PATH" });
        return;
    }
    // npm's link to `<package>/dist/language-server.js`.
    let script = real(path);
    if let Some(package) = script.parent().and_then(Path::parent) {
        native(package, "PATH", workspace, candidates, skipped);
    }
    candidates.push(Candidate { path: script, form: Form::Script, place: "PATH" });
}

fn from_place(
    place: Place,
    workspace: &Workspace,
    candidates: &mut Vec<Candidate>,
    skipped: &mut Vec<Skipped>,
) {
    let name = place.name;
    match place.what {
        What::Binary(path) if is_executable(&path) => {
            if !workspace.refuses(&path, skipped) {
                candidates.push(Candidate { path, form: Form::Native, place: name });
            }
        }
        What::Script(path) => script(&path, name, workspace, candidates, skipped),
        What::Package(package) => {
            native(&package, name, workspace, candidates, skipped);
            script(&package.join("dist/language-server.js"), name, workspace, candidates, skipped);
        }
        What::Binary(_) => {}
    }
}

/// The native executable of an npm package: in a package of its own, in `node_modules` below it or beside it.
fn native(
    package: &Path,
    place: &'static str,
    workspace: &Workspace,
    candidates: &mut Vec<Candidate>,
    skipped: &mut Vec<Skipped>,
) {
    let platform = npm_platform();
    let file = if cfg!(windows) { "copilot-language-server.exe" } else { EXECUTABLE };
    let nested = package.join(format!("node_modules/{PACKAGE}-{platform}"));
    let package = real(package);
    let beside = package.parent().map(|it| it.join(format!("{EXECUTABLE}-{platform}")));
    for path in [Some(nested), beside].into_iter().flatten().map(|it| it.join(file)) {
        let is_known = candidates.iter().any(|it| real(&it.path) == real(&path));
        if is_executable(&path) && !is_known && !workspace.refuses(&path, skipped) {
            candidates.push(Candidate { path, form: Form::Native, place });
        }
    }
}

fn script(
    path: &Path,
    place: &'static str,
    workspace: &Workspace,
    candidates: &mut Vec<Candidate>,
    skipped: &mut Vec<Skipped>,
) {
    let script = real(path);
    let is_known = candidates.iter().any(|it| it.path == script);
    if path.is_file() && !is_known && !workspace.refuses(path, skipped) {
        candidates.push(Candidate { path: script, form: Form::Script, place });
    }
}

/// Notes the executables in the workspace that another search would have found, so that a user sees why lspool does
/// not.
fn in_workspace(workspace: &Workspace, skipped: &mut Vec<Skipped>) {
    for folder in workspace.folders() {
        for path in ["node_modules/.bin/copilot-language-server", EXECUTABLE] {
            let path = folder.join(path);
            if is_executable(&path) {
                workspace.refuses(&path, skipped);
            }
        }
    }
}

fn choose(
    candidates: Vec<Candidate>,
    mut skipped: Vec<Skipped>,
    env: &Env,
    workspace: &Workspace,
) -> Result<Found, NotFound> {
    let node = on_path("node", env, workspace, &mut Vec::new()).into_iter().next();
    let native = candidates.iter().position(|it| it.form == Form::Native);
    let script = candidates.iter().position(|it| it.form == Form::Script).filter(|_| node.is_some());
    let chosen = native.or(script);
    let mut found = None;
    for (n, candidate) in candidates.into_iter().enumerate() {
        if Some(n) == chosen {
            found = Some(candidate);
            continue;
        }
        let reason = match candidate.form {
            Form::Script if native.is_some() => "a script for node, which would only start the native server",
            Form::Script if node.is_none() => "a script for node, which is not on PATH",
            Form::Native | Form::Script => "an earlier one goes first",
        };
        skipped.push(Skipped { path: candidate.path, reason: reason.to_owned() });
    }
    match (found, node) {
        (Some(Candidate { path, form: Form::Native, place }), _) => {
            Ok(Found { program: path, script: None, place, skipped })
        }
        (Some(Candidate { path, form: Form::Script, place }), Some(node)) => {
            Ok(Found { program: node, script: Some(path), place, skipped })
        }
        _ => Err(NotFound { skipped }),
    }
}

/// Whether a file starts with a line that names node, such as `#!/usr/bin/env -S node --no-warnings`.
fn is_node_script(path: &Path) -> bool {
    let mut start = [0; 256];
    let n = fs::File::open(path).and_then(|mut file| file.read(&mut start)).unwrap_or(0);
    let line = start[..n].split(|&byte| byte == b'\n').next().unwrap_or_default();
    let words = line.strip_prefix(b"#!").into_iter().flat_map(|it| it.split(u8::is_ascii_whitespace));
    let names = words.map(|it| it.rsplit(|&byte| byte == b'/').next());
    names.into_iter().any(|it| it == Some(b"node"))
}
