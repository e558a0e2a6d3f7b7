//! Possible places of a Copilot server: npm's global folder, and the folders of editor plug-ins.
//!
//! Owns the places; the [search](mod@super::search) checks them.

use std::{
    ffi::OsStr,
    fs,
    path::{Component, Path, PathBuf},
};

use super::{
    Env,
    env::npm_platform,
    path::{Skipped, Workspace, on_path, real},
};

/// The npm package of the server.
pub(super) const PACKAGE: &str = "@github/copilot-language-server";

/// A possible place of a server.
pub(super) struct Place {
    /// Its name in messages.
    pub(super) name: &'static str,
    pub(super) what: What,
}

/// The kind of a place.
pub(super) enum What {
    /// The folder of the npm package.
    Package(PathBuf),
    /// The server itself.
    Binary(PathBuf),
    /// A script for node.
    Script(PathBuf),
}

/// The global folders of npm, found without running npm.
pub(super) fn npm(env: &Env, workspace: &Workspace) -> Vec<Place> {
    let mut prefixes = Vec::new();
    prefixes.extend(env.folder("npm_config_prefix"));
    prefixes.extend(env.folder("NPM_CONFIG_PREFIX"));
    prefixes.extend(env.at_home(".npmrc").and_then(|file| npmrc_prefix(&file, env)));
    if cfg!(windows) {
        prefixes.extend(env.roaming().map(|it| it.join("npm")));
    }
    // npm's default is the folder above node's: of the link on PATH, or of its target.
    for node in on_path("node", env, workspace, &mut Vec::<Skipped>::new()) {
        let prefix = |node: &Path| {
            let folder = node.parent()?;
            if cfg!(windows) { Some(folder.to_owned()) } else { folder.parent().map(Path::to_owned) }
        };
        prefixes.extend(prefix(&node));
        prefixes.extend(prefix(&real(&node)));
    }
    let modules = if cfg!(windows) { "node_modules" } else { "lib/node_modules" };
    let mut packages: Vec<PathBuf> = Vec::new();
    for prefix in prefixes {
        let package = prefix.join(modules).join(PACKAGE);
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    packages.into_iter().map(|it| Place { name: "npm's global folder", what: What::Package(it) }).collect()
}

/// `prefix` in npm's configuration.
fn npmrc_prefix(file: &Path, env: &Env) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().rev().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "prefix").then(|| unquoted(value))
    })?;
    let home = env.home.as_ref()?.to_str()?;
    let value = with_variables(value, env).replace("${HOME}", home).replace("$HOME", home);
    env.expand(Path::new(&value)).ok().filter(|it| it.is_absolute())
}

/// A value without quotes and comments.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some((inner, _)) = value.strip_prefix(quote).and_then(|it| it.split_once(quote)) {
            return inner;
        }
    }
    value.split([';', '#']).next().unwrap_or_default().trim_end()
}

/// Replaces `${NAME}` by the variable. An unset variable stays, as with npm.
fn with_variables(value: &str, env: &Env) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some((before, (name, after))) =
        rest.split_once("${").and_then(|(before, it)| Some((before, it.split_once('}')?)))
    {
        out.push_str(before);
        match env.var(name).and_then(OsStr::to_str) {
            Some(value) => out.push_str(value),
            None => out.extend(["${", name, "}"]),
        }
        rest = after;
    }
    out + rest
}

/// The folders of other package managers and of editor plug-ins.
pub(super) fn plugins(env: &Env) -> Vec<Place> {
    let mut places = Places { found: Vec::new(), platform: npm_platform() };
    let data = data_folder(env);
    places.packages("pnpm's global folder", env.folder("PNPM_HOME"), "global/*/node_modules");
    places.packages("pnpm's global folder", data.clone(), "pnpm/global/*/node_modules");
    places.packages("bun's global folder", env.at_home(".bun/install/global"), "node_modules");
    places.packages("yarn's global folder", env.at_home(".config/yarn/global"), "node_modules");

    let nvim = nvim_data(env);
    places.binaries(
        "the folder of copilot.lua",
        nvim.clone(),
        "copilot.lua/lsp/*/PLATFORM/*/copilot-language-server",
    );
    places.scripts("the folder of copilot.lua", nvim.clone(), "copilot.lua/lsp/*/js/*/language-server.js");
    places.packages("mason.nvim", nvim.clone(), "mason/packages/copilot-language-server/node_modules");
    let managers = [
        (nvim.clone(), "lazy"),
        (nvim.clone(), "site/pack/*/start"),
        (nvim.clone(), "site/pack/*/opt"),
        (nvim, "plugged"),
        (env.at_home(".config/nvim"), "pack/*/start"),
        (env.at_home(".config/nvim"), "pack/*/opt"),
        (env.at_home(".config/nvim"), "plugged"),
        (env.at_home(".vim"), "pack/*/start"),
        (env.at_home(".vim"), "pack/*/opt"),
        (env.at_home(".vim"), "plugged"),
        (env.at_home(".vim"), "bundle"),
    ];
    for (root, folder) in managers {
        let of = |rest: &str| format!("{folder}/{rest}");
        let lua = of("copilot.lua/copilot/PLATFORM/copilot-language-server*");
        places.binaries("the folder of copilot.lua", root.clone(), &lua);
        places.scripts(
            "the folder of copilot.lua",
            root.clone(),
            &of("copilot.lua/copilot/js/language-server.js"),
        );
        places.package("the folder of copilot.vim", root, &of("copilot.vim/copilot-language-server"));
    }

    for emacs in [".emacs.d", ".config/emacs"] {
        for cache in [".cache/copilot", ".local/cache/copilot"] {
            let modules = format!("{cache}/lib/node_modules");
            places.packages("the folder of copilot.el", env.at_home(emacs), &modules);
        }
    }
    let zed = if cfg!(target_os = "linux") { "zed" } else { "Zed" };
    places.packages("the folder of Zed", data.clone(), &format!("{zed}/copilot/node_modules"));
    for plugins in ["JetBrains/*", "JetBrains/*/plugins"] {
        let native = "github-copilot-intellij/copilot-agent/native/PLATFORM/copilot-language-server";
        places.binaries("a JetBrains plug-in", data.clone(), &format!("{plugins}/{native}"));
    }
    places.found
}

/// The folder for user data.
fn data_folder(env: &Env) -> Option<PathBuf> {
    if cfg!(windows) {
        env.local()
    } else if cfg!(target_os = "macos") {
        env.at_home("Library/Application Support")
    } else {
        xdg_data(env)
    }
}

fn xdg_data(env: &Env) -> Option<PathBuf> {
    env.folder("XDG_DATA_HOME").or_else(|| env.at_home(".local/share"))
}

/// `stdpath("data")` of Neovim.
fn nvim_data(env: &Env) -> Option<PathBuf> {
    let name = env.var("NVIM_APPNAME").unwrap_or(OsStr::new("nvim"));
    if cfg!(windows) {
        let mut name = name.to_owned();
        name.push("-data");
        env.local().map(|it| it.join(name))
    } else {
        xdg_data(env).map(|it| it.join(name))
    }
}

struct Places {
    found: Vec<Place>,
    platform: String,
}

impl Places {
    fn package(&mut self, name: &'static str, root: Option<PathBuf>, pattern: &str) {
        self.add(name, root, pattern, What::Package);
    }

    fn packages(&mut self, name: &'static str, root: Option<PathBuf>, modules: &str) {
        self.add(name, root, &format!("{modules}/{PACKAGE}"), What::Package);
    }

    fn binaries(&mut self, name: &'static str, root: Option<PathBuf>, pattern: &str) {
        let extension = if cfg!(windows) && !pattern.ends_with('*') { ".exe" } else { "" };
        self.add(
            name,
            root,
            &format!("{}{extension}", pattern.replace("PLATFORM", &self.platform)),
            What::Binary,
        );
    }

    fn scripts(&mut self, name: &'static str, root: Option<PathBuf>, pattern: &str) {
        self.add(name, root, pattern, What::Script);
    }

    fn add(&mut self, name: &'static str, root: Option<PathBuf>, pattern: &str, what: fn(PathBuf) -> What) {
        let paths = root.into_iter().flat_map(|root| matching(root, pattern));
        self.found.extend(paths.map(|path| Place { name, what: what(path) }));
    }
}

/// Finds the paths for a pattern, in which `*` is any text in one name. The newest version comes first.
fn matching(root: PathBuf, pattern: &str) -> Vec<PathBuf> {
    let mut paths = vec![root];
    for component in Path::new(pattern).components() {
        let Component::Normal(name) = component else { continue };
        let name = name.to_string_lossy();
        paths = match name.split_once('*') {
            None => paths.into_iter().map(|path| path.join(&*name)).collect(),
            Some((start, end)) => paths.iter().flat_map(|path| entries(path, start, end)).collect(),
        };
    }
    paths
}

fn entries(folder: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let is_meant =
        |name: &str| name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end);
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names.filter(|name| name.to_str().is_some_and(is_meant)).collect();
    names.sort_by_key(|name| std::cmp::Reverse(version(&name.to_string_lossy())));
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The numbers in a name, so that 1.10 comes after 1.9; then the name, for a stable order.
fn version(name: &str) -> (Vec<u64>, String) {
    let numbers = name.split(|c: char| !c.is_ascii_digit()).filter_map(|it| it.parse().ok());
    (numbers.collect(), name.to_owned())
}
