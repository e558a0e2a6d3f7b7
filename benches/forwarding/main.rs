//! What it costs to have lspool between an editor and its server, beside a program that only copies bytes, and beside
//! whatever else is named. `scripts/bench --help`.
//!
//! Every round runs each peer once through all scenarios, one after the other, so that what else the machine does
//! falls upon all of them. Figures are given as quotients to the relay of the same round. The server, the relay and the
//! editor are this program too.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program whose output is the figures")]

mod instructions;
mod load;
mod picture;
mod procfs;
mod relay;
mod report;
mod scale;
mod server;
mod session;
mod wire;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use clap::{Parser, Subcommand};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    load::{SCENARIOS, Scenario, Setting},
    report::Results,
    session::Session,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Parser)]
#[command(name = "scripts/bench")]
#[expect(clippy::struct_excessive_bools, reason = "they are flags")]
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
    /// Instead: what a message costs with many processes, conversations and documents, in CPU time; with --instructions
    /// in these
    #[arg(long)]
    scale: bool,
    /// With --instructions: write what was counted to that file
    #[arg(long, requires = "instructions")]
    update: bool,
    /// Write the figures to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the figures into this file, too
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Measure nothing: draw the figures that --json wrote to this file
    #[arg(long, value_name = "FILE", requires = "svg")]
    from: Option<PathBuf>,
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
        None if flags.scale => scale::run(flags.rounds, flags.instructions),
        None if flags.instructions => instructions::run(flags.update, &flags.only),
        None if let Some(figures) = &flags.from => {
            draw(&serde_json::from_slice(&fs::read(figures)?)?, flags.svg.as_deref())
        }
        None => compare(&flags),
    }
}

/// Who stands between, and how it is started.
struct Peer {
    name: String,
    command: Vec<String>,
    /// The same, if it is told that the server is a Copilot server.
    copilot: Option<Vec<String>>,
    /// The same, in front of a group of so many servers: ends in `--group`.
    groups: Option<Vec<String>>,
    /// The same, in front of a server that has other paths.
    elsewhere: Option<Vec<String>>,
}

impl Peer {
    fn command(&self, setting: Setting) -> Vec<String> {
        let with = |command: &Option<Vec<String>>| command.as_ref().unwrap_or(&self.command).clone();
        match setting {
            Setting::Plain | Setting::Slow => self.command.clone(),
            Setting::Partitions => with(&self.copilot),
            Setting::Group(n) => [with(&self.groups), vec![format!("of-{n}")]].concat(),
            Setting::Elsewhere => with(&self.elsewhere),
        }
    }

    /// Whether it knows what a setting is about.
    fn knows(&self, scenario: &Scenario) -> bool {
        match scenario.setting {
            Setting::Plain | Setting::Slow => true,
            Setting::Partitions => self.copilot.is_some() || !scenario.needs_partitions(),
            Setting::Group(_) => self.groups.is_some(),
            Setting::Elsewhere => self.elsewhere.is_some(),
        }
    }
}

/// lspool, and the folder of its configuration.
struct Lspool {
    peer: Peer,
    _folder: TempDir,
}

impl Lspool {
    fn new() -> Result<Lspool> {
        let folder = TempDir::new()?;
        let us = us()?;
        let config = folder.path().join("config.toml");
        let program = env!("CARGO_BIN_EXE_lspool").to_owned();
        fs::write(
            &config,
            format!(
                "default_server = 'bench'\n[server.bench]\nkind = 'copilot'\ncommand = '{us}'\nargs = ['server']\nmax_processes = 100\n"
            ),
        )?;
        let copilot = [&program, "--config", &config.display().to_string()].map(str::to_owned).to_vec();
        // Whatever else is configured on this machine does not count.
        let none = folder.path().join("none.toml");
        fs::write(&none, "")?;
        let command = [&program, "--config", &none.display().to_string(), "--", &us, "server"]
            .map(str::to_owned)
            .to_vec();
        let groups = folder.path().join("groups.toml");
        let servers = ["a", "b", "c"].map(|it| {
            format!("[server.{it}]\nkind = 'generic'\nrequired = true\ncommand = '{us}'\nargs = ['server']\n")
        });
        let of = "[group.of-2]\nservers = ['a', 'b']\n[group.of-3]\nservers = ['a', 'b', 'c']\n";
        fs::write(&groups, servers.concat() + of)?;
        let groups =
            [&program, "--config", &groups.display().to_string(), "--group"].map(str::to_owned).to_vec();
        // Without the shell beside the server, which would be a further hop.
        let elsewhere = folder.path().join("elsewhere.toml");
        let remote = "engine = 'command'\nengine_command = ['env']\ncleanup = 'none'\n\
                      paths = [{ local = '/bench', remote = '/far' }]\n";
        let section = format!(
            "default_server = 'far'\n[server.far]\nkind = 'generic'\ncommand = '{us}'\nargs = ['server']\n"
        );
        fs::write(&elsewhere, section + "[server.far.remote]\n" + remote)?;
        let elsewhere = [&program, "--config", &elsewhere.display().to_string()].map(str::to_owned).to_vec();
        let peer = Peer {
            name: "lspool".to_owned(),
            command,
            copilot: Some(copilot),
            groups: Some(groups),
            elsewhere: Some(elsewhere),
        };
        Ok(Lspool { peer, _folder: folder })
    }
}

fn us() -> Result<String> {
    Ok(std::env::current_exe()?.display().to_string())
}

fn compare(flags: &Flags) -> Result<()> {
    let us = us()?;
    let relay = [&us, "relay", "--", &us, "server"].map(String::from).to_vec();
    let mut peers =
        vec![Peer { name: "relay".to_owned(), command: relay, copilot: None, groups: None, elsewhere: None }];
    let lspool = Lspool::new()?;
    peers.push(lspool.peer);
    for peer in &flags.peers {
        let (name, command) = peer.split_once('=').ok_or("--peer NAME=COMMAND")?;
        let command = command.replace("{server}", &format!("{us} server"));
        let command = command.split_whitespace().map(str::to_owned).collect();
        peers.push(Peer { name: name.to_owned(), command, copilot: None, groups: None, elsewhere: None });
    }
    let mut results: Vec<Results> = peers.iter().map(|it| Results::new(&it.name)).collect();
    let settings = [
        Setting::Plain,
        Setting::Slow,
        Setting::Partitions,
        Setting::Group(2),
        Setting::Group(3),
        Setting::Elsewhere,
    ];
    for round in 1..=flags.rounds {
        for setting in settings {
            for (peer, results) in peers.iter().zip(&mut results) {
                eprint!("\r\x1b[Kround {round} of {}: {}", flags.rounds, peer.name);
                one_round(peer, setting, &flags.only, results)?;
            }
        }
    }
    eprint!("\r\x1b[K");
    report::print(&results);
    let figures = report::json(&results);
    if let Some(file) = &flags.json {
        fs::write(file, serde_json::to_vec_pretty(&figures)?)?;
    }
    draw(&figures, flags.svg.as_deref())
}

fn draw(figures: &Value, file: Option<&Path>) -> Result<()> {
    if let Some(file) = file {
        fs::write(file, picture::svg(figures))?;
    }
    Ok(())
}

/// One peer once through all scenarios of a setting.
fn one_round(peer: &Peer, setting: Setting, only: &str, results: &mut Results) -> Result<()> {
    let is_wanted = |it: &Scenario| it.setting == setting && it.name.contains(only) && peer.knows(it);
    if !SCENARIOS.iter().any(is_wanted) {
        return Ok(());
    }
    let mut session = Session::start_in(setting, &peer.command(setting))?;
    for (scenario, figures) in SCENARIOS.iter().zip(&mut results.figures).filter(|(it, _)| is_wanted(it)) {
        let figure = session.run(scenario, scenario.n);
        figures.push(figure.map_err(|it| format!("{}, {}: {it}", peer.name, scenario.name))?);
    }
    if setting == Setting::Plain {
        results.resident.push(session.family.resident());
        results.private.push(session.family.private());
    }
    session.end()
}
