//! What comes after the first `--`: the commands of servers.

use std::{iter::once, mem::take};

use crate::shell::discover::CliServer;

const SEPARATOR: &str = "--";

/// Each further `--` begins another server. Two in a row are one that belongs to the server; one at the end is ignored.
pub(super) fn commands(words: Vec<String>) -> Result<Vec<CliServer>, String> {
    let mut commands = Vec::new();
    let mut current = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if word != SEPARATOR {
            current.push(word);
        } else if let Some(own) = words.next_if(|it| it == SEPARATOR) {
            if current.is_empty() {
                return Err(NO_COMMAND.to_owned());
            }
            current.push(own);
        } else if words.peek().is_some() {
            commands.push(command(take(&mut current))?);
        }
    }
    if !current.is_empty() || !commands.is_empty() {
        commands.push(command(current)?);
    }
    Ok(commands)
}

/// The same for somebody who works with one server: its words.
pub(super) fn one_command(words: Vec<String>) -> Result<Vec<String>, String> {
    let mut commands = commands(words)?;
    if commands.len() > 1 {
        return Err("this command works with one server: write a `--` that belongs to it twice".to_owned());
    }
    let words = commands.pop().map(|CliServer { command, args }| once(command).chain(args));
    Ok(words.into_iter().flatten().collect())
}

const NO_COMMAND: &str = "the command of a server is missing before `--`";

fn command(words: Vec<String>) -> Result<CliServer, String> {
    let mut words = words.into_iter();
    let command = words.next().ok_or(NO_COMMAND)?;
    Ok(CliServer { command, args: words.collect() })
}
