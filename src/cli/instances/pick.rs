//! Finds the running lspools and the backend that a name means.

use std::{collections::BTreeSet, io, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};

use super::{
    Failure,
    client::{Client, Error},
    report::{Backend, Status},
};
use crate::{
    shell::control::{Instance, check, instances},
    util::text::plain,
};

/// How long an lspool may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// A running lspool.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) instance: Instance,
    /// Its status, or why there is no answer.
    pub(super) answer: Result<Answer, String>,
}

/// The status of a running lspool, and the connection.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) client: Client,
    pub(super) raw: Value,
    pub(super) status: Status,
}

/// All running lspools.
#[derive(Debug)]
pub(super) struct Found {
    /// The older ones first.
    pub(super) seen: Vec<Seen>,
    /// Untrusted folders, with reasons.
    pub(super) refused: Vec<String>,
}

/// The tools of a backend and its state, as `lspool status` shows them.
pub(super) fn serves(backend: &Backend) -> Option<(String, String)> {
    let pid = backend.pid()?;
    Some((backend.tools(), format!("{}, pid {pid}", backend.state())))
}

/// All sockets, the older ones first, and the untrusted folders.
pub(in crate::cli) fn sockets(folders: &[PathBuf], pid: Option<u32>) -> (Vec<Instance>, Vec<String>) {
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for folder in folders.iter().filter(|it| it.symlink_metadata().is_ok()) {
        match check(folder) {
            Ok(()) => all.extend(instances(folder)),
            Err(problem) => refused.push(problem),
        }
    }
    all.retain(|it| pid.is_none_or(|pid| it.pid == pid));
    all.sort();
    (all, refused)
}

/// Asks all lspools at once for their status.
pub(super) async fn look(folders: &[PathBuf], pid: Option<u32>) -> Found {
    let (all, refused) = sockets(folders, pid);
    let mut asking = JoinSet::new();
    for instance in all {
        asking.spawn(ask(instance));
    }
    let mut seen: Vec<_> = asking.join_all().await.into_iter().flatten().collect();
    seen.sort_by(|a, b| a.instance.cmp(&b.instance));
    Found { seen, refused }
}

/// Asks one lspool for its status. `None`: it has ended.
pub(super) async fn ask(instance: Instance) -> Option<Seen> {
    let answer = match timeout(PATIENCE, hear(&instance)).await {
        Err(_) => Err("it does not answer".to_owned()),
        Ok(Ok(answer)) => Ok(answer?),
        Ok(Err(problem)) => Err(problem),
    };
    Some(Seen { instance, answer })
}

/// Reads the status of one lspool. `None`: it was killed, or has ended meanwhile.
async fn hear(instance: &Instance) -> Result<Option<Answer>, String> {
    let mut client = match Client::connect(&instance.socket).await {
        Ok(client) => client,
        Err(error) if is_nobody(&error) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    match client.request("lspool/status", &json!({})).await {
        Ok(raw) => Status::read(&raw).map(|status| Some(Answer { client, raw, status })),
        // A living lspool that closed the connection still listens.
        Err(Error::Gone(why)) => match Client::connect(&instance.socket).await {
            Err(error) if is_nobody(&error) => Ok(None),
            Ok(_) | Err(_) => Err(why),
        },
        Err(error) => Err(error.to_string()),
    }
}

pub(in crate::cli) fn is_nobody(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound};
    matches!(error.kind(), ConnectionRefused | NotFound | ConnectionReset)
}

/// How well a name fits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Begins,
    Is,
}

/// Whether a name fits a backend: its whole name, its tools, or the beginning of either.
fn fit(backend: &Backend, wanted: &str) -> Option<Fit> {
    let names = [Some(backend.name.as_str()), backend.tools_in_name()];
    let fits = names.into_iter().flatten().filter_map(|name| match name {
        _ if name == wanted => Some(Fit::Is),
        _ if !wanted.is_empty() && name.starts_with(wanted) => Some(Fit::Begins),
        _ => None,
    });
    fits.max()
}

/// The backends whose names fit best: the place of the lspool, and the whole name.
fn best(seen: &[Seen], wanted: &str) -> Vec<(usize, String)> {
    // A hub is asked by its clients.
    let status =
        |it: &Seen| it.answer.as_ref().ok().map(|it| it.status.clone()).filter(|it| it.hub.is_none());
    let backends = |it: &Seen| status(it).map(|it| it.backends).unwrap_or_default();
    let all = seen.iter().enumerate().flat_map(|(n, it)| backends(it).into_iter().map(move |it| (n, it)));
    let mut fitting: Vec<(Fit, usize, String)> =
        all.filter_map(|(n, it)| Some((fit(&it, wanted)?, n, it.name))).collect();
    let best = fitting.iter().map(|it| it.0).max();
    fitting.retain(|it| Some(it.0) == best);
    fitting.into_iter().map(|(_, n, name)| (n, name)).collect()
}

/// Why no backend fits.
fn unknown(seen: &[Seen], wanted: &str) -> Failure {
    let silent = seen.iter().filter_map(|it| Some((it.instance.pid, it.answer.as_ref().err()?)));
    let silent: Vec<_> = silent.map(|(pid, problem)| format!("lspool {pid}: {problem}")).collect();
    if silent.len() == seen.len() {
        return Failure::Failed(silent.join("\n"));
    }
    let known = seen.iter().filter_map(|it| it.answer.as_ref().ok()).flat_map(|it| &it.status.backends);
    let mut known: Vec<_> = known.map(|it| format!("  {}", plain(&it.name))).collect();
    let mut seen_names = BTreeSet::new();
    known.retain(|it| seen_names.insert(it.clone()));
    let there_is = if known.is_empty() { "none has started yet" } else { "expected one of" };
    let head = format!("unknown server {wanted:?}; {there_is}");
    Failure::Usage(lines([head].into_iter().chain(known).chain(silent)))
}

/// The only backend that fits, with the connection to its lspool and its whole name. `choices` says how to choose one
/// of several.
pub(super) fn backend(seen: Vec<Seen>, wanted: &str, choices: &str) -> Result<(Client, String), Failure> {
    let mut fitting = best(&seen, wanted);
    prefer_here(&mut fitting, &seen);
    match fitting.as_slice() {
        [(n, name)] => {
            let (n, name) = (*n, name.clone());
            let answer = seen.into_iter().nth(n).and_then(|it| it.answer.ok());
            let answer = answer.ok_or_else(|| Failure::Failed("it does not answer".to_owned()))?;
            Ok((answer.client, name))
        }
        [] => Err(unknown(&seen, wanted)),
        [(first, _), rest @ ..] if rest.iter().all(|(n, _)| n == first) => {
            let names = fitting.iter().map(|(_, name)| format!("  {}", plain(name)));
            Err(Failure::Usage(lines(
                [format!("{wanted:?} is ambiguous; expected one of")].into_iter().chain(names),
            )))
        }
        several => {
            let choice = |(n, name): &(usize, String)| {
                let it = &seen[*n];
                let workspace = it.answer.as_ref().ok().and_then(|it| it.status.workspace.as_deref());
                let workspace = plain(workspace.unwrap_or("no workspace"));
                format!("  --pid {}  {workspace}  {}", it.instance.pid, plain(name))
            };
            let head = format!("several lspools have a {wanted:?}; {choices}");
            Err(Failure::Usage(lines([head].into_iter().chain(several.iter().map(choice)))))
        }
    }
}

/// The connection to an lspool and the names of its backends that fit, or why it does not answer.
type Fitting = Result<(Client, Vec<String>), String>;

/// All backends that fit, by the pid of their lspool.
pub(super) fn backends(seen: Vec<Seen>, wanted: &str) -> Result<Vec<(u32, Fitting)>, Failure> {
    let fitting = best(&seen, wanted);
    if fitting.is_empty() {
        return Err(unknown(&seen, wanted));
    }
    let names = |n: usize| fitting.iter().filter(|it| it.0 == n).map(|it| it.1.clone()).collect::<Vec<_>>();
    let all = seen.into_iter().enumerate().map(|(n, it)| {
        let fitting = it.answer.map(|answer| (answer.client, names(n)));
        (it.instance.pid, fitting)
    });
    Ok(all.collect())
}

/// The one lspool that has an agent of this name at work.
pub(super) fn agent(seen: Vec<Seen>, name: &str) -> Result<Client, Failure> {
    let has_it = |it: &Seen| it.answer.as_ref().is_ok_and(|it| it.status.has_agent(name));
    let mut fitting: Vec<(usize, String)> =
        (0..seen.len()).filter(|n| has_it(&seen[*n])).map(|n| (n, name.to_owned())).collect();
    prefer_here(&mut fitting, &seen);
    match fitting[..] {
        [(n, _)] => {
            let answer = seen.into_iter().nth(n).and_then(|it| it.answer.ok());
            answer.map(|it| it.client).ok_or_else(|| Failure::Failed("it does not answer".to_owned()))
        }
        [] => {
            Err(Failure::Usage(format!("no agent {name:?} is at work; `lspool status` shows those that are")))
        }
        _ => Err(Failure::Usage(format!("several lspools have an agent {name:?}; choose one with --pid"))),
    }
}

/// Of several lspools, the one whose workspace holds the current folder is meant.
fn prefer_here(fitting: &mut Vec<(usize, String)>, seen: &[Seen]) {
    let Ok(here) = std::env::current_dir() else { return };
    let is_here = |n: usize| {
        let status = seen[n].answer.as_ref().ok().map(|it| &it.status);
        status.and_then(|it| it.workspace.as_deref()).is_some_and(|it| here.starts_with(it))
    };
    let mut those: Vec<usize> = fitting.iter().map(|it| it.0).filter(|n| is_here(*n)).collect();
    those.dedup();
    if let [only] = those[..] {
        fitting.retain(|it| it.0 == only);
    }
}

fn lines(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join("\n")
}
