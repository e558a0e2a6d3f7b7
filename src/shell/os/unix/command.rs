//! How a process becomes a command, and what the command may not do then.

use std::{
    env, io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// Said of the first command if [`confine`] has no effect.
pub(crate) const UNCONFINED: &str = "commands can write anywhere: this system has no means to confine them";

/// The words of the usual shell.
pub(crate) fn shell() -> Vec<String> {
    let bash = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|it| Path::new(it).exists());
    match bash {
        Some(bash) => [bash, "--noprofile", "--norc", "-c"].map(str::to_owned).into(),
        None => ["/bin/sh", "-c"].map(str::to_owned).into(),
    }
}

/// A command line for the usual shell.
pub(crate) fn line(command: &str) -> String {
    command.to_owned()
}

/// The folders for temporary files, which each command may write to.
pub(crate) fn temporary() -> Vec<PathBuf> {
    let of_user = env::var_os("TMPDIR").map(PathBuf::from).filter(|it| it.is_absolute());
    let usual = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
    of_user.into_iter().chain(usual).filter(|it| it.is_dir()).collect()
}

/// Prepares this process for a command: one stream, and no terminal.
pub(crate) fn prepare() -> Result<(), String> {
    // One stream keeps the order of the output.
    rustix::stdio::dup2_stderr(rustix::stdio::stdout()).map_err(|error| error.to_string())?;
    // In a session without a terminal it cannot use lspool's terminal.
    rustix::process::setsid().map_err(|error| format!("cannot leave the terminal: {error}"))?;
    Ok(())
}

/// Becomes the command. Returns only after an error.
pub(crate) fn become_command(mut command: Command) -> Result<ExitCode, io::Error> {
    Err(command.exec())
}

/// Whether [`confine`] has an effect on this system.
#[cfg(target_os = "linux")]
pub(crate) fn can_confine() -> bool {
    use landlock::{ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _};
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create).is_ok()
}

/// Limits this process and its children: they can write only below these folders, signal only each other, and use no
/// abstract socket of another process.
#[cfg(target_os = "linux")]
pub(crate) fn confine(writable: &[PathBuf]) -> Result<(), String> {
    use landlock::{
        ABI, Access as _, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
        Scope, path_beneath_rules,
    };
    // Older kernels do what they can.
    let abi = ABI::V6;
    let told = |error: landlock::RulesetError| error.to_string();
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(abi)).map_err(told)?;
    let ruleset =
        ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket).map_err(told)?.create().map_err(told)?;
    let ruleset = ruleset.add_rules(path_beneath_rules(["/"], AccessFs::from_read(abi))).map_err(told)?;
    let mut ruleset =
        ruleset.add_rules(path_beneath_rules(writable, AccessFs::from_all(abi))).map_err(told)?;
    for device in DEVICES.iter().map(Path::new).filter(|it| it.exists()) {
        let Ok(file) = PathFd::new(device) else { continue };
        let access = AccessFs::WriteFile | AccessFs::ReadFile;
        ruleset = ruleset.add_rule(PathBeneath::new(file, access)).map_err(told)?;
    }
    ruleset.restrict_self().map(drop).map_err(told)
}

/// Files outside that everybody may write to without harm.
#[cfg(target_os = "linux")]
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

#[cfg(not(target_os = "linux"))]
pub(crate) fn can_confine() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "Linux can fail")]
pub(crate) fn confine(_writable: &[PathBuf]) -> Result<(), String> {
    Ok(())
}
