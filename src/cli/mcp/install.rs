//! `lspool mcp --install`: the settings of agents.
//!
//! Owns the places and the syntax of the settings. **What a file has stays as it is, byte by byte**: lspool adds its
//! entry to the text, and writes nothing if the result would differ in anything else.

mod merge;

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use self::merge::{Merged, json_with, toml_with};
use super::super::{args::Agent, print, setup::program};
use crate::shell::{discover::Env, os::files::canonicalize};

/// The name of the entry.
const NAME: &str = "lspool";

/// An entry of a settings file.
struct Entry {
    file: PathBuf,
    syntax: Syntax,
    /// The tables around it, from the outermost.
    tables: &'static [&'static str],
    value: Value,
    /// Another way to add it.
    hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    Json,
    Toml,
}

/// Prints the entry of an agent, or writes it.
pub(super) fn run(agent: Agent, is_written: bool, env: &Env) -> anyhow::Result<ExitCode> {
    let entry = entry(agent, &program(), env)?;
    if is_written {
        print(&write(&entry)?)?;
    } else {
        print(&entry.shown())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn entry(agent: Agent, program: &str, env: &Env) -> anyhow::Result<Entry> {
    let at_home = |path: &str| env.at_home(path).context("the home folder is unknown: set HOME");
    let plain = json!({"command": program, "args": ["mcp"]});
    let json = |file: PathBuf, tables, value| Entry { file, syntax: Syntax::Json, tables, value, hint: None };
    Ok(match agent {
        Agent::Claude => Entry {
            hint: Some(format!("or, for all projects: claude mcp add --scope user {NAME} -- {program} mcp")),
            ..json(env.cwd.join(".mcp.json"), &["mcpServers"], plain)
        },
        Agent::Codex => Entry {
            file: match env.folder("CODEX_HOME") {
                Some(folder) => folder.join("config.toml"),
                None => at_home(".codex/config.toml")?,
            },
            syntax: Syntax::Toml,
            tables: &["mcp_servers"],
            value: plain,
            hint: Some(format!("or: codex mcp add {NAME} -- {program} mcp")),
        },
        Agent::Gemini => json(at_home(".gemini/settings.json")?, &["mcpServers"], plain),
        Agent::Cursor => {
            // Cursor does not start servers in the folder of the project.
            let value = json!({"command": program, "args": ["mcp", "--root", "${workspaceFolder}"]});
            json(env.cwd.join(".cursor/mcp.json"), &["mcpServers"], value)
        }
        Agent::Vscode => {
            let value = json!({"type": "stdio", "command": program, "args": ["mcp"]});
            json(env.cwd.join(".vscode/mcp.json"), &["servers"], value)
        }
        Agent::Opencode => {
            let with_comments = env.cwd.join("opencode.jsonc");
            let file = if with_comments.exists() { with_comments } else { env.cwd.join("opencode.json") };
            json(file, &["mcp"], json!({"type": "local", "command": [program, "mcp"], "enabled": true}))
        }
    })
}

impl Entry {
    /// The entry as a person adds it.
    fn shown(&self) -> String {
        let merged = self.merged("").expect("an empty file can have any entry");
        let Merged::Changed(text) = merged else { return String::new() };
        let comment = if self.syntax == Syntax::Json { "//" } else { "#" };
        let hint = self.hint.as_ref().map_or_else(String::new, |it| format!("{comment} {it}\n"));
        format!("{comment} {}\n{text}{hint}", self.file.display())
    }

    fn merged(&self, text: &str) -> Result<Merged, String> {
        match self.syntax {
            Syntax::Json => json_with(text, self.tables, NAME, &self.value),
            Syntax::Toml => toml_with(text, self.tables, NAME, &self.value),
        }
    }
}

/// Adds the entry to its file. Returns a message for the user.
fn write(entry: &Entry) -> anyhow::Result<String> {
    // Settings are often links into a folder of dotfiles.
    let file = followed(&entry.file)?;
    let shown = entry.file.display();
    let before = read(&file)?;
    let merged = entry.merged(before.as_deref().unwrap_or_default()).map_err(|why| {
        anyhow::anyhow!("{shown}: {why}\nhint: `lspool mcp --install` without --write prints the entry")
    })?;
    match merged {
        Merged::Same => Ok(format!("{shown} has it already\n")),
        Merged::Changed(text) => {
            replace(&file, before.as_deref(), &text).with_context(|| format!("cannot write {shown}"))?;
            Ok(format!("wrote {shown}\n"))
        }
    }
}

/// Where links lead from a path, whether there is a file or not.
fn followed(path: &Path) -> anyhow::Result<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut file = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&file) {
            Ok(target) => {
                let folder = file.parent().map_or_else(PathBuf::new, Path::to_owned);
                // `..` in a target is of the folder that holds the link, which may be reached through links.
                file = canonicalize(&folder).unwrap_or(folder).join(target);
            }
            Err(_) => return Ok(file),
        }
    }
    bail!("{} leads through too many links", path.display())
}

fn read(file: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Puts a file in the place of another at once: a reader sees the old text or the new one.
fn replace(file: &Path, before: Option<&str>, text: &str) -> anyhow::Result<()> {
    let folder = file.parent().context("it has no folder")?;
    fs::create_dir_all(folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let new = folder.join(format!(".{name}.lspool-{}", std::process::id()));
    let written = write_new(&new, file, text).map_err(anyhow::Error::from).and_then(|()| {
        if read(file)?.as_deref() != before {
            bail!("another program has changed it meanwhile: try again");
        }
        Ok(fs::rename(&new, file)?)
    });
    if written.is_err() {
        fs::remove_file(&new).ok();
    }
    written
}

fn write_new(new: &Path, old: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(new)?;
    if let Ok(old) = old.metadata() {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(folder: &Path) -> Env {
        Env { cwd: folder.join("project"), home: Some(folder.join("home")), ..Env::default() }
    }

    #[test]
    fn each_agent_gets_its_entry_once() {
        let folder = tempfile::tempdir().unwrap();
        let env = env(folder.path());
        for (agent, file, part) in [
            (
                Agent::Claude,
                "project/.mcp.json",
                r#"{"mcpServers":{"lspool":{"command":"lspool","args":["mcp"]}}}"#,
            ),
            (
                Agent::Codex,
                "home/.codex/config.toml",
                "[mcp_servers.lspool]\ncommand = \"lspool\"\nargs = [\"mcp\"]\n",
            ),
            (
                Agent::Gemini,
                "home/.gemini/settings.json",
                r#"{"mcpServers":{"lspool":{"command":"lspool","args":["mcp"]}}}"#,
            ),
            (
                Agent::Cursor,
                "project/.cursor/mcp.json",
                r#"{"mcpServers":{"lspool":{"command":"lspool","args":["mcp","--root","${workspaceFolder}"]}}}"#,
            ),
            (
                Agent::Vscode,
                "project/.vscode/mcp.json",
                r#"{"servers":{"lspool":{"type":"stdio","command":"lspool","args":["mcp"]}}}"#,
            ),
            (
                Agent::Opencode,
                "project/opencode.json",
                r#"{"mcp":{"lspool":{"type":"local","command":["lspool","mcp"],"enabled":true}}}"#,
            ),
        ] {
            let entry = entry(agent, "lspool", &env).unwrap();
            let file = folder.path().join(file);
            assert!(entry.shown().contains(&file.display().to_string()));
            assert_eq!(write(&entry).unwrap(), format!("wrote {}\n", file.display()));
            let text = fs::read_to_string(&file).unwrap();
            match entry.syntax {
                Syntax::Json => assert_eq!(serde_json::from_str::<Value>(&text).unwrap().to_string(), part),
                Syntax::Toml => assert_eq!(text, part),
            }
            assert_eq!(write(&entry).unwrap(), format!("{} has it already\n", file.display()));
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_settings_stays_a_link_and_modes_stay() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let env = env(folder.path());
        let (real, link) =
            (folder.path().join("dotfiles.json"), folder.path().join("home/.gemini/settings.json"));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        fs::write(&real, "{\"theme\": \"dark\"}").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&real, &link).unwrap();
        write(&entry(Agent::Gemini, "lspool", &env).unwrap()).unwrap();
        assert!(link.is_symlink());
        let value: Value = serde_json::from_str(&fs::read_to_string(&real).unwrap()).unwrap();
        assert_eq!(
            (&value["theme"], &value["mcpServers"]["lspool"]["args"]),
            (&json!("dark"), &json!(["mcp"]))
        );
        assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_missing_settings_stays_a_link() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let env = env(folder.path());
        let link = folder.path().join("home/.gemini/settings.json");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink("../../dotfiles/between.json", &link).unwrap();
        fs::create_dir(folder.path().join("dotfiles")).unwrap();
        symlink("new/settings.json", folder.path().join("dotfiles/between.json")).unwrap();
        let gemini = entry(Agent::Gemini, "lspool", &env).unwrap();
        write(&gemini).unwrap();
        assert!(link.is_symlink() && folder.path().join("dotfiles/between.json").is_symlink());
        let written = fs::read_to_string(folder.path().join("dotfiles/new/settings.json")).unwrap();
        assert!(written.contains("lspool"), "{written}");
        assert!(write(&gemini).unwrap().contains("already"));
        // A loop leads nowhere.
        fs::remove_file(&link).unwrap();
        symlink("settings.json", &link).unwrap();
        let error = write(&gemini).unwrap_err();
        assert!(error.to_string().contains("too many links"), "{error}");
        assert!(link.is_symlink());
    }

    #[test]
    fn a_file_that_changes_meanwhile_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        fs::write(&file, "{\"new\": 1}").unwrap();
        let error = replace(&file, Some("{}"), "{\"ours\": 1}").unwrap_err();
        assert!(error.to_string().contains("meanwhile"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "{\"new\": 1}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
