//! `lspool exec-child`: a process that drops rights, and becomes a command.
//!
//! The process drops its rights before it becomes another program, so that no code has to run between fork and exec.
//! Where a process cannot become another one, it starts the command, waits for it, and ends like it.
//! It writes errors to its stdout, like the command.
//!
//! Arguments: `--write FOLDER` for each writable folder, `--in FOLDER` for the working folder, then `--` and the
//! command with its arguments. Without a writable folder it drops no rights.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, ExitCode},
};

use crate::{
    shell::os::command::{become_command, confine, prepare},
    util::redact::{is_name, redact},
};

/// The subcommand that runs [`serve`].
pub const SUBCOMMAND: &str = "exec-child";

/// The exit status of shells for a command that cannot run.
const CANNOT: u8 = 126;

/// Variables that keep a command from waiting for input or drawing on the screen.
const QUIET: [(&str, &str); 6] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// Variables that lead to other programs, which could act for a confined command.
const WAYS_OUT: [&str; 5] =
    ["TMUX", "NVIM", "NVIM_LISTEN_ADDRESS", "DBUS_SESSION_BUS_ADDRESS", "VSCODE_IPC_HOOK_CLI"];

/// Becomes the command.
pub fn serve(words: impl Iterator<Item = OsString>) -> ExitCode {
    if let Err(why) = prepare() {
        return cannot(&why);
    }
    let (mut writable, mut command) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match (word.to_str(), words.next()) {
            (Some("--write"), Some(folder)) => writable.push(PathBuf::from(folder)),
            (Some("--in"), Some(folder)) => {
                if let Err(error) = std::env::set_current_dir(&folder) {
                    return cannot(&format!("{}: {error}", folder.display()));
                }
            }
            (Some("--"), Some(program)) => {
                command.push(program);
                command.extend(words.by_ref());
            }
            _ => return cannot("wrong arguments"),
        }
    }
    if !writable.is_empty()
        && let Err(error) = confine(&writable)
    {
        return cannot(&format!("cannot confine it: {error}"));
    }
    let Some((program, args)) = command.split_first() else { return cannot("the command is missing") };
    let mut command = Command::new(program);
    command.args(args).envs(QUIET);
    for (name, value) in std::env::vars_os() {
        if is_secret(&name, &value) || WAYS_OUT.iter().any(|it| name == *it) {
            command.env_remove(name);
        }
    }
    become_command(command).unwrap_or_else(|error| cannot(&error.to_string()))
}

fn cannot(why: &str) -> ExitCode {
    writeln!(io::stdout(), "lspool: cannot run the command: {why}").ok();
    ExitCode::from(CANNOT)
}

/// Whether a variable looks like a token or a password.
fn is_secret(name: &OsStr, value: &OsStr) -> bool {
    let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
    is_name(&name) || redact(&value) != value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognized_by_name_or_shape() {
        for (name, value) in [
            ("GH_TOKEN", "x"),
            ("GITHUB_TOKEN", "x"),
            ("GITHUB_COPILOT_TOKEN", "x"),
            ("GH_COPILOT_TOKEN", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("DB_PASSWORD", "x"),
            ("ANYTHING", "ghu_0123456789"),
            ("HTTPS_PROXY", "http://user:password1@proxy:8080"),
        ] {
            assert!(is_secret(OsStr::new(name), OsStr::new(value)), "{name}={value}");
        }
        for (name, value) in
            [("PATH", "/usr/bin:/bin"), ("HOME", "/home/a"), ("HTTPS_PROXY", "http://proxy:8080")]
        {
            assert!(!is_secret(OsStr::new(name), OsStr::new(value)), "{name}={value}");
        }
    }
}
