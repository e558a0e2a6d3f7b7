//! `lspool status --watch`.
//!
//! One task for each running lspool asks for its status after each change, and at intervals for the memory. On a
//! terminal a change redraws everything; elsewhere it prints another block, or another line of JSON. Memory and
//! requests alone are not a change.

use std::{collections::BTreeMap, fmt::Write as _, io::Write, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    Failure, Interrupts, Keys,
    client::{Client, Error},
    nobody,
    pick::{PATIENCE, sockets},
    report::{self, Status},
};
use crate::{
    cli::{
        screen::{NO_WRAP, Screen, WRAP},
        world::unix_millis,
    },
    shell::control::Instance,
};

/// How often to ask for the memory and look for other lspools.
const EVERY: Duration = Duration::from_secs(2);

/// The status of an lspool, or why there is no answer.
type Said = Result<Value, String>;

/// A watched lspool.
struct Watched {
    /// `None` before the first answer.
    said: Option<Said>,
    task: JoinHandle<()>,
}

pub(super) async fn run(
    folders: &[PathBuf],
    pid: Option<u32>,
    is_json: bool,
    out: &mut dyn Write,
    screen: Screen,
) -> Result<(), Failure> {
    let mut interrupts = Interrupts::listen();
    let (tell, mut told) = mpsc::channel(16);
    let mut all: BTreeMap<Instance, Watched> = BTreeMap::new();
    let mut shown = None;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let is_drawn = screen.size.is_some() && !is_json;
    let mut keys = is_drawn.then(Keys::listen).flatten();
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let (found, refused) = sockets(folders, pid);
                if found.is_empty() && shown.is_none() {
                    return Err(nobody(pid, &refused));
                }
                for it in found {
                    let task = |it: &Instance| tokio::spawn(follow(it.clone(), tell.clone()));
                    all.entry(it).or_insert_with_key(|it| Watched { said: None, task: task(it) });
                }
            }
            Some((instance, said)) = told.recv() => match said {
                Some(said) => {
                    all.entry(instance).and_modify(|it| it.said = Some(said));
                }
                None => {
                    all.remove(&instance).inspect(|it| it.task.abort());
                    if all.is_empty() && shown.is_none() {
                        return Err(nobody(pid, &[]));
                    }
                }
            },
            () = interrupts.next() => return Ok(()),
            () = end(&mut keys) => return Ok(()),
        }
        // The first output shows all.
        if shown.is_none() && all.values().any(|it| it.said.is_none()) {
            continue;
        }
        let what = essence(&all);
        if is_drawn {
            draw(&text(&all, screen.again()), screen.again(), shown.is_none(), out)?;
        } else if shown.as_ref() != Some(&what) {
            if is_json {
                writeln!(out, "{}", document(&all))?;
            } else {
                let gap = if shown.is_some() { "\n" } else { "" };
                write!(out, "{gap}{}", text(&all, screen))?;
            }
            out.flush()?;
        }
        shown = Some(what);
    }
}

async fn end(keys: &mut Option<Keys>) {
    match keys {
        Some(keys) => keys.end().await,
        None => std::future::pending().await,
    }
}

/// Watches one until it ends.
async fn follow(instance: Instance, tell: mpsc::Sender<(Instance, Option<Said>)>) {
    loop {
        let said = match attend(&instance, &tell).await {
            Ok(never) => match never {},
            Err(Attention::Gone) => None,
            Err(Attention::Silent(why)) => Some(Err(why)),
        };
        let is_gone = said.is_none();
        if tell.send((instance.clone(), said)).await.is_err() || is_gone {
            return;
        }
        sleep(EVERY).await;
    }
}

/// Why the connection ended.
enum Attention {
    Gone,
    Silent(String),
}

impl From<Error> for Attention {
    fn from(error: Error) -> Attention {
        match error {
            Error::Gone(_) => Attention::Gone,
            Error::Invalid(why) | Error::Refused(why) => Attention::Silent(why),
        }
    }
}

/// Reports the status as long as the connection lasts.
async fn attend(
    instance: &Instance,
    tell: &mpsc::Sender<(Instance, Option<Said>)>,
) -> Result<std::convert::Infallible, Attention> {
    let silent = |_| Attention::Silent("it does not answer".to_owned());
    let mut client = timeout(PATIENCE, Client::connect(&instance.socket))
        .await
        .map_err(silent)?
        .map_err(|_| Attention::Gone)?;
    let mut said = timeout(PATIENCE, client.request("lspool/watch", &json!({}))).await.map_err(silent)??;
    loop {
        if tell.send((instance.clone(), Some(Ok(said)))).await.is_err() {
            return Err(Attention::Gone);
        }
        // A notification leaves out the values that change all the time.
        while let Ok(told) = timeout(EVERY, client.told()).await {
            if told?.0 == "lspool/didChangeStatus" {
                break;
            }
        }
        let nothing = json!({});
        let asking = client.request("lspool/status", &nothing);
        said = timeout(PATIENCE, asking).await.map_err(silent)??;
    }
}

fn document(all: &BTreeMap<Instance, Watched>) -> Value {
    let one = |(instance, it): (&Instance, &Watched)| match &it.said {
        Some(Ok(said)) => Some(said.clone()),
        Some(Err(error)) => Some(json!({"pid": instance.pid, "error": error})),
        None => None,
    };
    json!({"instances": all.iter().filter_map(one).collect::<Vec<_>>()})
}

/// The values whose change is a change.
fn essence(all: &BTreeMap<Instance, Watched>) -> Value {
    let mut document = document(all);
    let instances = document["instances"].as_array_mut().into_iter().flatten();
    for backend in instances.filter_map(|it| it.get_mut("backends")?.as_array_mut()).flatten() {
        for passing in ["rss_bytes", "in_flight"] {
            backend.as_object_mut().and_then(|it| it.remove(passing));
        }
    }
    document
}

fn text(all: &BTreeMap<Instance, Watched>, screen: Screen) -> String {
    let status = |said: &Said| said.as_ref().map_err(Clone::clone).and_then(Status::read);
    let all = all.iter().filter_map(|(instance, it)| Some((instance.pid, status(it.said.as_ref()?))));
    let all: Vec<_> = all.collect();
    match all.is_empty() {
        true => "no lspool is running\n".to_owned(),
        false => report::text_of(&all, unix_millis(), screen),
    }
}

/// Draws over the last output, without flicker.
fn draw(text: &str, screen: Screen, is_first: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = screen.size.map_or(usize::MAX, |(_, rows)| rows.saturating_sub(1));
    let mut picture = String::from(NO_WRAP);
    picture.push_str(if is_first { "\x1b[2J\x1b[H" } else { "\x1b[H" });
    for line in text.lines().take(rows) {
        // Writing to a string cannot fail.
        writeln!(picture, "{line}\x1b[K").ok();
    }
    picture.push_str("\x1b[J");
    picture.push_str(WRAP);
    out.write_all(picture.as_bytes())?;
    Ok(out.flush()?)
}
