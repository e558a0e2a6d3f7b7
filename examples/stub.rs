//! The stub of the tests, for experiments by hand: prints where it listens as a line of JSON, then one line per request.
//!
//! ```text
//! cargo run --example stub -- [--script FILE] [--workspace FOLDER] [--tls] [--quiet]
//! ```

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::{io::Write, path::PathBuf};

use clap::Parser;
use serde_json::json;

use support::stub::{Script, Stub};

#[derive(Parser)]
struct Arguments {
    /// A JSON file with rules, tried before the built-in ones.
    #[arg(long)]
    script: Option<PathBuf>,
    /// What {ws} in the script stands for.
    #[arg(long)]
    workspace: Option<String>,
    /// Answer for GitHub's hosts over TLS too.
    #[arg(long)]
    tls: bool,
    /// Print no requests.
    #[arg(long)]
    quiet: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut script = match arguments.script {
        Some(path) => serde_json::from_slice(&std::fs::read(path)?)?,
        None => Script::default(),
    };
    if let Some(workspace) = arguments.workspace {
        script = script.workspace(workspace);
    }
    let stub = if arguments.tls { Stub::start_with_tls(script) } else { Stub::start(script) };
    let mut out = std::io::stdout();
    writeln!(out, "{}", json!({"url": stub.url(), "ca": stub.ca_path()}))?;
    let mut printed = 0;
    loop {
        let entry = stub.entry(printed);
        printed += 1;
        if !arguments.quiet {
            writeln!(out, "{}", entry.to_json())?;
        }
    }
}
