//! `lspool restart`, `stop`, `cancel`, `move` and `reload`: what is asked for once, and what comes of it.

use std::io::Write;

use serde_json::{Value, json};

use super::{
    Failure, Reach,
    client::{Client, Error},
    pick::{self, Seen},
};
use crate::util::text::plain;

/// Restarts or stops a backend, or each of that name, and waits for the new state.
pub(super) async fn act(
    seen: Vec<Seen>,
    method: &str,
    name: &str,
    reach: Reach,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if reach == Reach::One {
        let (mut client, name) = pick::backend(seen, name, "choose one with --pid, or all with --all")?;
        let (said, is_done) = change(&mut client, method, &name).await?;
        writeln!(out, "{said}")?;
        return if is_done { Ok(()) } else { Err(Failure::Failed(String::new())) };
    }
    let mut is_done = true;
    for (pid, fitting) in pick::backends(seen, name)? {
        let (mut client, names) = match fitting {
            Ok(fitting) => fitting,
            Err(problem) => {
                is_done = false;
                writeln!(out, "lspool {pid}: {}", plain(&problem))?;
                continue;
            }
        };
        for name in names {
            // One that has ended meanwhile must not keep the others from it.
            let said = change(&mut client, method, &name).await;
            let (said, is_changed) = match said {
                Ok(it) => it,
                Err(failure) => (plain(failure.message().unwrap_or_default()), false),
            };
            is_done &= is_changed;
            writeln!(out, "lspool {pid}: {said}")?;
        }
    }
    if is_done { Ok(()) } else { Err(Failure::Failed(String::new())) }
}

/// Asks for a new state, and waits for it: the words for the user, and whether it came.
async fn change(client: &mut Client, method: &str, name: &str) -> Result<(String, bool), Failure> {
    match client.request(method, &json!({"name": name})).await {
        Ok(answer) => {
            let state = answer["state"].as_str().unwrap_or("done");
            Ok((format!("{}: {}", plain(name), plain(state)), true))
        }
        Err(Error::Refused(why)) => {
            // `NAME has failed: why`, or a reason why lspool did not try.
            let why =
                why.strip_prefix(&format!("{name} has ")).map_or(format!("failed: {why}"), ToOwned::to_owned);
            Ok((format!("{}: {}", plain(name), plain(&why)), false))
        }
        Err(other) => Err(other.into()),
    }
}

/// Cancels one agent alone.
pub(super) async fn cancel(
    seen: Vec<Seen>,
    name: &str,
    of: Option<&str>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut client = pick::agent(seen, name)?;
    client.request("lspool/cancelAgent", &json!({"name": name, "of": of})).await?;
    Ok(writeln!(out, "{}: cancelled", plain(name))?)
}

/// Asks all for it: whoever has what is meant does it.
pub(super) async fn relocate(
    seen: Vec<Seen>,
    name: Option<&str>,
    to: &str,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut problems = Vec::new();
    let (mut is_done, mut is_named) = (false, false);
    for it in seen {
        let pid = it.instance.pid;
        let answer = match it.answer {
            Ok(mut answer) => answer.client.request("lspool/move", &json!({"name": name, "to": to})).await,
            Err(problem) => Err(Error::Refused(problem)),
        };
        match answer {
            Ok(answer) => {
                is_done = true;
                let moved = answer["conversations"].as_array().map(Vec::len).unwrap_or_default();
                let what =
                    if moved == 1 { "1 conversation".to_owned() } else { format!("{moved} conversations") };
                writeln!(out, "lspool {pid}: {what}: {to}")?;
                for it in answer["refused"].as_array().into_iter().flatten() {
                    let [id, why] =
                        ["conversation", "why"].map(|key| plain(it[key].as_str().unwrap_or_default()));
                    writeln!(out, "lspool {pid}: not moved: {id}: {why}")?;
                }
            }
            Err(error) => {
                is_named |= !matches!(error, Error::Invalid(_));
                problems.push(format!("lspool {pid}: {}", plain(&error.to_string())));
            }
        }
    }
    match (is_done, is_named) {
        (true, _) => Ok(()),
        (false, true) => Err(Failure::Failed(problems.join("\n"))),
        (false, false) => Err(Failure::Usage(problems.join("\n"))),
    }
}

pub(super) async fn reload(seen: &mut [Seen], out: &mut dyn Write) -> Result<(), Failure> {
    let mut has_failed = false;
    for it in seen {
        let answer = match &mut it.answer {
            Ok(answer) => {
                answer.client.request("lspool/reload", &json!({})).await.map_err(|error| error.to_string())
            }
            Err(problem) => Err(problem.clone()),
        };
        let pid = it.instance.pid;
        match answer {
            Ok(answer) => {
                let changed = answer["changed"].as_array().map(Vec::as_slice).unwrap_or_default();
                let words: Vec<_> = changed.iter().filter_map(Value::as_str).map(plain).collect();
                let what = match words.as_slice() {
                    [] => "nothing has changed".to_owned(),
                    words => format!("changed: {}", words.join(", ")),
                };
                writeln!(out, "lspool {pid}: {what}")?;
            }
            Err(why) => {
                has_failed = true;
                writeln!(out, "lspool {pid}: failed: {}", plain(&why))?;
            }
        }
    }
    if has_failed { Err(Failure::Failed(String::new())) } else { Ok(()) }
}
