//! `lspool setup`: prints the settings for an editor.
//!
//! Owns the syntax of the editors' settings, and a table of servers. Reads only `PATH`; starts and writes nothing.

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

use self::servers::{COPILOT, SERVERS, Server};
use super::{print, tell};
use crate::config::nearest;

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

/// Prints the settings for these servers, or for the installed ones.
pub(super) fn run(editor: Editor, names: &[String]) -> anyhow::Result<ExitCode> {
    let servers = if names.is_empty() { found(editor) } else { named(names)? };
    if let Some(why) = servers.iter().filter(|it| it.name == COPILOT).find_map(|_| without_copilot(editor)) {
        bail!("{why}");
    }
    print(&text(editor, &program(), &servers))?;
    Ok(ExitCode::SUCCESS)
}

/// Finds servers by name.
fn named(names: &[String]) -> anyhow::Result<Vec<&'static Server>> {
    let mut servers = Vec::new();
    for name in names {
        let Some(server) = SERVERS.iter().find(|it| it.is_called(name)) else {
            let known: Vec<&str> = SERVERS.iter().map(|it| it.name).collect();
            let hint = match nearest(name, known.iter().copied()) {
                Some(meant) => format!("did you mean {meant}?"),
                None => "for another server, put `lspool --` before its command".to_owned(),
            };
            bail!("unknown server {name:?}; expected one of {}\nhint: {hint}", known.join(", "));
        };
        servers.push(server);
    }
    Ok(servers)
}

/// The known servers on PATH, or Pyright as an example.
fn found(editor: Editor) -> Vec<&'static Server> {
    let is_usable = |it: &&Server| it.name != COPILOT || without_copilot(editor).is_none();
    let servers: Vec<_> =
        SERVERS.iter().filter(is_usable).filter(|it| on_path(it.command[0]).is_some()).collect();
    if servers.is_empty() {
        tell("found no known server on PATH; this example uses Pyright");
        return SERVERS.iter().take(1).collect();
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
    env::split_paths(&path).map(|folder| folder.join(program)).find(|it| it.is_file())
}

/// The command for this lspool: its name, if PATH leads to it.
pub(super) fn program() -> String {
    let name = "lspool";
    let real = |it: &Path| it.canonicalize().ok();
    let Ok(this) = env::current_exe() else { return name.to_owned() };
    match on_path(name) {
        Some(found) if real(&found) == real(&this) => name.to_owned(),
        Some(_) | None => this.display().to_string(),
    }
}

/// The settings.
fn text(editor: Editor, program: &str, servers: &[&Server]) -> String {
    let parts: Vec<String> = match editor {
        Editor::Nvim => return nvim(program, servers),
        Editor::Helix => return helix(program, servers),
        Editor::Zed => return zed(program, servers),
        Editor::Emacs => servers.iter().map(|it| emacs(program, it)).collect(),
        Editor::Vscode => servers.iter().map(|it| vscode(program, it)).collect(),
    };
    parts.join("\n")
}

/// The words of a command as JSON strings, which are also strings in Lua, TOML, Lisp and TypeScript.
fn words(program: &str, server: &Server) -> Vec<String> {
    let words = [program, "--"].into_iter().chain(server.command.iter().copied());
    words.map(|it| json!(it).to_string()).collect()
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|it| json!(it).to_string()).collect::<Vec<_>>().join(", ")
}

fn nvim(program: &str, servers: &[&Server]) -> String {
    let mut parts = vec!["-- ~/.config/nvim/init.lua, Neovim 0.11 or later\n".to_owned()];
    for it in servers {
        parts.push(format!("vim.lsp.config({}, {{\n", json!(it.nvim)));
        parts.push(format!("  cmd = {{ {} }},\n", words(program, it).join(", ")));
        if !it.filetypes.is_empty() {
            parts.push(format!("  filetypes = {{ {} }},\n", quoted(it.filetypes)));
        }
        parts.push(format!("  root_markers = {{ {} }},\n", quoted(it.markers)));
        if it.name == COPILOT {
            let about = "  init_options = {\n    \
                         editorInfo = { name = \"Neovim\", version = tostring(vim.version()) },\n    \
                         editorPluginInfo = { name = \"lspool\", version = \"1.0\" },\n  },\n";
            parts.push(about.to_owned());
        }
        parts.push("})\n".to_owned());
    }
    let names: Vec<&str> = servers.iter().map(|it| it.nvim).collect();
    parts.push(format!("vim.lsp.enable({{ {} }})\n", quoted(&names)));
    parts.concat()
}

fn helix(program: &str, servers: &[&Server]) -> String {
    let mut parts = Vec::new();
    for it in servers {
        parts.push(format!(
            "[language-server.{}]\ncommand = {}\nargs = [{}]\n",
            it.name,
            json!(program),
            words(program, it)[1..].join(", ")
        ));
    }
    let mut languages: Vec<&str> = servers.iter().flat_map(|it| it.helix.iter().copied()).collect();
    languages.sort_unstable();
    languages.dedup();
    for language in languages {
        let of = servers.iter().filter(|it| it.helix.contains(&language)).map(|it| it.name);
        let of: Vec<&str> = of.collect();
        parts.push(format!(
            "[[language]]\nname = {}\nlanguage-servers = [{}]\n",
            json!(language),
            quoted(&of)
        ));
    }
    format!("# ~/.config/helix/languages.toml\n{}", parts.join("\n"))
}

fn emacs(program: &str, it: &Server) -> String {
    if it.name == COPILOT {
        return format!(
            ";; init.el, copilot.el\n(setq copilot-server-executable (executable-find {})\n      \
             copilot-server-args '(\"--stdio\"))\n",
            json!(program)
        );
    }
    let modes = match it.modes {
        [one] => (*one).to_owned(),
        several => format!("({})", several.join(" ")),
    };
    format!(
        ";; init.el, eglot\n(with-eval-after-load 'eglot\n  (add-to-list 'eglot-server-programs\n               \
         '({modes} . ({}))))\n",
        words(program, it).join(" ")
    )
}

fn zed(program: &str, servers: &[&Server]) -> String {
    let lsp = servers.iter().map(|it| {
        let arguments: Vec<&str> = ["--"].into_iter().chain(it.command.iter().copied()).collect();
        (it.name.to_owned(), json!({"binary": {"path": program, "arguments": arguments}}))
    });
    let lsp: serde_json::Map<String, Value> = lsp.collect();
    format!("// ~/.config/zed/settings.json\n{:#}\n", json!({"lsp": lsp}))
}

fn vscode(program: &str, it: &Server) -> String {
    let words = words(program, it);
    if it.name == "clangd" {
        return format!(
            "// settings.json, extension clangd\n\"clangd.path\": {},\n\"clangd.arguments\": [{}]\n",
            words[0],
            words[1..].join(", ")
        );
    }
    format!(
        "// VS Code has no setting for the command of a server. In an extension with vscode-languageclient:\n\
         const run: Executable = {{ command: {}, args: [{}] }};\n\
         const client = new LanguageClient({}, {{ run, debug: run }}, {{ documentSelector: [{}] }});\n",
        words[0],
        words[1..].join(", "),
        json!(it.name),
        quoted(it.vscode)
    )
}
