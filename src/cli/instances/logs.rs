//! `lspool logs`: the stderr of a server.

use std::io::Write;

use serde_json::{Value, json};

use super::{
    Failure, Interrupts,
    client::Client,
    pick::{self, Seen},
};
use crate::util::text::plain;

pub(super) async fn run(
    seen: Vec<Seen>,
    name: &str,
    follow: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (mut client, name) = pick::backend(seen, name, "choose one with --pid")?;
    let mut interrupts = Interrupts::listen();
    let params = json!({"name": name, "follow": follow});
    let answer = tokio::select! {
        answer = client.request("lspool/logs", &params) => answer?,
        () = interrupts.next() => return Ok(()),
    };
    let lines = answer["lines"].as_array().map(Vec::as_slice).unwrap_or_default();
    for line in lines.iter().filter_map(Value::as_str) {
        writeln!(out, "{}", plain(line))?;
    }
    out.flush()?;
    if follow { listen(&mut client, &mut interrupts, out).await } else { Ok(()) }
}

/// Writes each new line until lspool ends.
async fn listen(
    client: &mut Client,
    interrupts: &mut Interrupts,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    loop {
        let told = tokio::select! {
            told = client.told() => told,
            () = interrupts.next() => return Ok(()),
        };
        let Ok((method, params)) = told else { return Ok(()) };
        if method == "lspool/log"
            && let Some(line) = params["line"].as_str()
        {
            writeln!(out, "{}", plain(line))?;
            out.flush()?;
        }
    }
}
