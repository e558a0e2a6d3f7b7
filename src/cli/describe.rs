//! `lspool completions`, `man` and `config schema`: descriptions of lspool for other programs.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{args, print};
use crate::config;

/// Prints the completions for a shell.
pub(super) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut args::definition(), "lspool", &mut text);
    print(&String::from_utf8(text).context("completions are text")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page of a command, or of lspool.
pub(super) fn man(command: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut all = args::definition().disable_help_subcommand(true);
    all.build();
    let page = match command {
        None => all,
        Some(name) => {
            let known: Vec<&str> = all.get_subcommands().map(clap::Command::get_name).collect();
            let unknown = || anyhow!("unknown command {name:?}; expected one of {}", known.join(", "));
            all.find_subcommand(name).cloned().ok_or_else(unknown)?
        }
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    print(&String::from_utf8(text).context("the page is not UTF-8")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the JSON schema of the configuration.
pub(super) fn schema() -> anyhow::Result<ExitCode> {
    print(&config::schema())?;
    Ok(ExitCode::SUCCESS)
}
