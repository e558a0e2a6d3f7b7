//! How a process runs a command in its place.
//!
//! A process cannot become another program here, and nothing confines it. The job of this process ends the command with
//! it.

use std::{
    io,
    os::windows::io::AsHandle as _,
    path::PathBuf,
    process::{Command, ExitCode, Stdio, exit},
};

/// Said of the first command: [`confine`] has no effect.
pub(crate) const UNCONFINED: &str = "commands can write anywhere: nothing confines them on Windows";

/// The words of the usual shell.
pub(crate) fn shell() -> Vec<String> {
    ["powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command"].map(str::to_owned).into()
}

/// A command line for the usual shell: its output is UTF-8, and it ends with the exit code of the last program.
pub(crate) fn line(command: &str) -> String {
    format!(
        "try {{ [Console]::OutputEncoding = [Text.Encoding]::UTF8 }} catch {{}}\n\
         {command}\n\
         if (-not $?) {{ if ($LASTEXITCODE) {{ exit $LASTEXITCODE }} else {{ exit 1 }} }}"
    )
}

/// No folders: a command may write to all.
pub(crate) fn temporary() -> Vec<PathBuf> {
    Vec::new()
}

/// Does nothing: [`become_command`] joins the streams, and there is no terminal to leave.
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
pub(crate) fn prepare() -> Result<(), String> {
    Ok(())
}

/// Runs the command, and ends with its exit code. Returns only after an error.
pub(crate) fn become_command(mut command: Command) -> Result<ExitCode, io::Error> {
    // One stream keeps the order of the output.
    let stdout = io::stdout().as_handle().try_clone_to_owned()?;
    let status = command.stderr(Stdio::from(stdout)).status()?;
    #[expect(clippy::exit, reason = "an `ExitCode` has eight bits, and codes of programs have more")]
    exit(status.code().unwrap_or(1));
}

/// Whether [`confine`] has an effect on this system.
pub(crate) fn can_confine() -> bool {
    false
}

/// Has no effect.
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
pub(crate) fn confine(_writable: &[PathBuf]) -> Result<(), String> {
    Ok(())
}
