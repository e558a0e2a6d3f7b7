//! What it costs to have lspool between an editor and its server, beside a program that only copies bytes, and beside
//! whatever else is named. `scripts/bench --help`.
//!
//! Every round runs each peer once through all scenarios, one after the other, so that what else the machine does
//! falls upon all of them. Figures are given as quotients to the relay of the same round. The server, the relay and the
//! editor are this program too.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program whose output is the figures")]

mod instructions;
mod load;
mod procfs;
mod relay;
mod report;
mod server;
mod wire;

use std::{error::Error, fs, path::PathBuf};

use clap::{Parser, Subcommand};

use crate::{
    load::{SCENARIOS, Session},
    report::Results,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Parser)]
#[command(name = "scripts/bench")]
struct Flags {
    /// How often each peer runs through all scenarios
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// A further peer: a command line that ends in {server}, which becomes that of the server
    #[arg(long = "peer", value_name = "NAME=COMMAND")]
    peers: Vec<String>,
    /// Only scenarios whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Instead: count the instructions of lspool for each message, and compare with benches/instructions.json
    #[arg(long)]
    instructions: bool,
    /// With --instructions: write what was counted to that file
    #[arg(long, requires = "instructions")]
    update: bool,
    /// Write the figures to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What `cargo bench` says.
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What this program is besides.
#[derive(Subcommand)]
enum Role {
    /// The server at the far end
    Server,
    /// The floor
    Relay { command: Vec<String> },
}

fn main() -> Result<()> {
    let flags = Flags::parse();
    match &flags.role {
        Some(Role::Server) => Ok(server::run()?),
        Some(Role::Relay { command }) => Ok(relay::run(command)?),
        None if flags.instructions => instructions::run(flags.update),
        None => compare(&flags),
    }
}

fn compare(flags: &Flags) -> Result<()> {
    let us = std::env::current_exe()?.display().to_string();
    let server = [us.clone(), "server".to_owned()];
    let in_front =
        |words: &[&str]| [words.iter().map(|it| (*it).to_owned()).collect(), server.to_vec()].concat();
    let lspool = env!("CARGO_BIN_EXE_lspool");
    let mut peers: Vec<(String, Vec<String>)> = vec![
        ("relay".to_owned(), in_front(&[&us, "relay", "--"])),
        ("lspool".to_owned(), in_front(&[lspool, "--"])),
    ];
    for peer in &flags.peers {
        let (name, command) = peer.split_once('=').ok_or("--peer NAME=COMMAND")?;
        let command = command.replace("{server}", &server.join(" "));
        peers.push((name.to_owned(), command.split_whitespace().map(str::to_owned).collect()));
    }
    let mut results: Vec<Results> = peers.iter().map(|(name, _)| Results::new(name)).collect();
    for round in 1..=flags.rounds {
        for ((name, command), results) in peers.iter().zip(&mut results) {
            eprint!("\r\x1b[Kround {round} of {}: {name}", flags.rounds);
            let mut session = Session::start(command)?;
            for (scenario, figures) in SCENARIOS.iter().zip(&mut results.figures) {
                if scenario.name.contains(&flags.only) {
                    figures.push(
                        session
                            .run(scenario, scenario.n)
                            .map_err(|it| format!("{name}, {}: {it}", scenario.name))?,
                    );
                }
            }
            results.resident.push(session.resident());
            session.end()?;
        }
    }
    eprint!("\r\x1b[K");
    report::print(&results);
    if let Some(file) = &flags.json {
        fs::write(file, serde_json::to_vec_pretty(&report::json(&results))?)?;
    }
    Ok(())
}
