//! `lspool setup`: prints the settings for an editor.
//!
//! Owns the syntax of the editors' settings, and a table of servers. Reads only `PATH` and the user's configuration;
//! starts and writes nothing.

mod choice;
mod groups;
mod servers;
#[cfg(test)]
mod tests;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::bail;
use clap::ValueEnum;
use serde_json::{Value, json};

use self::{
    choice::{Choice, Entry},
    servers::{COPILOT, SERVERS},
};
use super::{args::Args, print, tell};
use crate::{
    config::{Config, nearest},
    shell::{
        discover::{Env, read_user},
        os::files::{canonicalize, executable_names},
    },
};

/// An editor with known settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Editor {
    /// Neovim 0.11 or later
    Nvim,
    /// Helix
    Helix,
    /// Emacs with eglot
    Emacs,
    /// Visual Studio Code
    Vscode,
    /// Zed
    Zed,
}

/// Prints the settings for these servers and groups, or for the installed servers.
pub(super) fn run(args: &Args, editor: Editor, names: &[String]) -> anyhow::Result<ExitCode> {
    let choice = if names.is_empty() {
        Choice::of(found(editor), &groups::installed(&|it| on_path(it).is_some()))
    } else {
        let config = || read_user(args.config.as_deref(), &Env::real()).map(|it| it.config);
        let named = named(names, config)?;
        match editor {
            // The last one that is added for a mode would be the only one.
            Editor::Emacs => Choice::of(named, &[]),
            Editor::Nvim | Editor::Helix | Editor::Vscode | Editor::Zed => Choice::all(named),
        }
    };
    let is_copilot = choice.active.iter().any(|it| it.name == COPILOT);
    if let Some(why) = without_copilot(editor).filter(|_| is_copilot) {
        bail!("{why}");
    }
    print(&text(editor, &program(), &choice)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Finds servers and groups by name. Reads the configuration for groups only, so its errors keep nobody from a server.
fn named(names: &[String], config: impl Fn() -> Result<Config, String>) -> anyhow::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for name in names {
        if let Some(server) = SERVERS.iter().find(|it| it.is_called(name)) {
            entries.push(Entry::of(server));
            continue;
        }
        let config = config().map_err(anyhow::Error::msg)?;
        if let Some(group) = groups::find(name, &config) {
            entries.push(group?);
            continue;
        }
        let servers: Vec<&str> = SERVERS.iter().map(|it| it.name).collect();
        let groups = groups::names(&config);
        let known = servers.iter().copied().chain(groups.iter().map(String::as_str));
        let hint = match nearest(name, known) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "for another server, put `lspool --` before its command".to_owned(),
        };
        bail!(
            "unknown server or group {name:?}; expected one of {}; or a group, {}\nhint: {hint}",
            servers.join(", "),
            groups.join(", ")
        );
    }
    Ok(entries)
}

/// The known servers on PATH, or Pyright as an example.
fn found(editor: Editor) -> Vec<Entry> {
    let is_usable = |name: &str| name != COPILOT || without_copilot(editor).is_none();
    let usable = SERVERS.iter().filter(|it| is_usable(it.name));
    let servers: Vec<_> = usable.filter(|it| on_path(it.command[0]).is_some()).map(Entry::of).collect();
    if servers.is_empty() {
        tell("found no known server on PATH; this example uses Pyright");
        return SERVERS.iter().take(1).map(Entry::of).collect();
    }
    servers
}

/// Why this editor cannot use lspool for its Copilot server.
fn without_copilot(editor: Editor) -> Option<&'static str> {
    match editor {
        Editor::Nvim | Editor::Emacs => None,
        Editor::Helix => Some("Helix has no support for the Copilot server"),
        Editor::Vscode => Some("GitHub's Copilot extension has no setting for its server"),
        Editor::Zed => Some("Zed has no setting for its Copilot server"),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let names = executable_names(program, env::var_os("PATHEXT").as_deref());
    let found = |folder: PathBuf| names.iter().map(|it| folder.join(it)).find(|it| it.is_file());
    env::split_paths(&path).find_map(found)
}

/// The command for this lspool: its name, if PATH leads to it.
pub(super) fn program() -> String {
    let name = "lspool";
    let real = |it: &Path| canonicalize(it).ok();
    let Ok(this) = env::current_exe() else { return name.to_owned() };
    match on_path(name) {
        Some(found) if real(&found) == real(&this) => name.to_owned(),
        Some(_) | None => this.display().to_string(),
    }
}

/// The settings.
fn text(editor: Editor, program: &str, choice: &Choice) -> anyhow::Result<String> {
    let active = &choice.active;
    let (settings, comment) = match editor {
        Editor::Nvim => (nvim(program, active), "--"),
        Editor::Helix => (helix(program, active), "#"),
        Editor::Emacs => {
            let parts: Vec<String> = active.iter().map(|it| emacs(program, it)).collect();
            (parts.join("\n"), ";;")
        }
        Editor::Vscode => (vscode(program, active), "//"),
        Editor::Zed => (zed(program, active)?, "//"),
    };
    let editor = editor.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default();
    Ok(settings + &choice.comment(comment, &editor))
}

/// Words as JSON strings, which are also strings in Lua, TOML, Lisp and TypeScript.
fn quoted<T: AsRef<str>>(words: &[T]) -> Vec<String> {
    words.iter().map(|it| json!(it.as_ref()).to_string()).collect()
}

fn listed<T: AsRef<str>>(words: &[T]) -> String {
    quoted(words).join(", ")
}

fn nvim(program: &str, entries: &[Entry]) -> String {
    let mut parts = vec!["-- ~/.config/nvim/init.lua, Neovim 0.11 or later\n".to_owned()];
    for it in entries {
        parts.push(format!("vim.lsp.config({}, {{\n", json!(it.nvim)));
        parts.push(format!("  cmd = {{ {}, {} }},\n", json!(program), listed(&it.args)));
        if !it.filetypes.is_empty() {
            parts.push(format!("  filetypes = {{ {} }},\n", listed(&it.filetypes)));
        }
        parts.push(format!("  root_markers = {{ {} }},\n", listed(&it.markers)));
        if it.name == COPILOT {
            let about = "  init_options = {\n    \
                         editorInfo = { name = \"Neovim\", version = tostring(vim.version()) },\n    \
                         editorPluginInfo = { name = \"lspool\", version = \"1.0\" },\n  },\n";
            parts.push(about.to_owned());
        }
        parts.push("})\n".to_owned());
    }
    let names: Vec<&str> = entries.iter().map(|it| it.nvim.as_str()).collect();
    parts.push(format!("vim.lsp.enable({{ {} }})\n", listed(&names)));
    parts.concat()
}

fn helix(program: &str, entries: &[Entry]) -> String {
    let mut parts = Vec::new();
    for it in entries {
        let (name, args) = (&it.name, listed(&it.args));
        parts.push(format!("[language-server.{name}]\ncommand = {}\nargs = [{args}]\n", json!(program)));
    }
    let mut languages: Vec<&String> = entries.iter().flat_map(|it| &it.helix).collect();
    languages.sort_unstable();
    languages.dedup();
    for language in languages {
        let of: Vec<_> = entries.iter().filter(|it| it.helix.contains(language)).map(|it| &it.name).collect();
        let name = json!(language);
        parts.push(format!("[[language]]\nname = {name}\nlanguage-servers = [{}]\n", listed(&of)));
    }
    format!("# ~/.config/helix/languages.toml\n{}", parts.join("\n"))
}

fn emacs(program: &str, it: &Entry) -> String {
    let program = json!(program);
    if it.name == COPILOT {
        return format!(
            ";; init.el, copilot.el\n(setq copilot-server-executable (executable-find {program})\n      \
             copilot-server-args '(\"--stdio\"))\n"
        );
    }
    let modes = match it.modes.as_slice() {
        [one] => one.clone(),
        several => format!("({})", several.join(" ")),
    };
    let args = quoted(&it.args).join(" ");
    format!(
        ";; init.el, eglot\n(with-eval-after-load 'eglot\n  (add-to-list 'eglot-server-programs\n               \
         '({modes} . ({program} {args}))))\n"
    )
}

fn zed(program: &str, entries: &[Entry]) -> anyhow::Result<String> {
    let mut lsp = serde_json::Map::new();
    for it in entries {
        let Some(name) = &it.zed else {
            bail!(
                "Zed starts only servers that it knows, and it does not know the first server of {}",
                it.name
            );
        };
        let server = json!({"binary": {"path": program, "arguments": it.args}});
        if lsp.insert(name.clone(), server).is_some() {
            bail!("Zed has one command for {name}, and two of these servers would set it: name one of them");
        }
    }
    let settings: Value = json!({"lsp": lsp});
    Ok(format!("// ~/.config/zed/settings.json\n{settings:#}\n"))
}

fn vscode(program: &str, entries: &[Entry]) -> String {
    let program = json!(program);
    let (clangd, others): (Vec<_>, Vec<_>) = entries.iter().partition(|it| it.name == "clangd");
    let settings = clangd.iter().map(|it| {
        let args = listed(&it.args);
        format!("// settings.json, extension clangd\n\"clangd.path\": {program},\n\"clangd.arguments\": [{args}]\n")
    });
    let mut parts: Vec<String> = settings.collect();
    let clients = others.iter().map(|it| {
        let (name, args, languages) = (json!(it.name), listed(&it.args), listed(&it.vscode));
        format!("  client({name}, [{args}], [{languages}]),\n")
    });
    let clients: String = clients.collect();
    if !clients.is_empty() {
        parts.push(format!(
            "// VS Code has no setting for the command of a server. In an extension with vscode-languageclient:\n\
             const client = (name: string, args: string[], documentSelector: string[]) => {{\n  \
             const run: Executable = {{ command: {program}, args }};\n  \
             return new LanguageClient(name, {{ run, debug: run }}, {{ documentSelector }});\n\
             }};\nconst clients = [\n{clients}];\n"
        ));
    }
    parts.join("\n")
}
