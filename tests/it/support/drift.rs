//! The stable part of a server's behavior in a session, and its differences from that of another server.
//!
//! - **By request.** The messages that belong to a request of the client (progress, questions of the server, the
//!   answer) are compared in their order. All others are compared by their members, at any place.
//! - **Orders of the others** are compared over all sessions: an order that all recorded sessions have, and none of
//!   the new ones, has changed. An order that changes from run to run does not count.
//! - Ids, tokens, places, times, versions, token counts, and the pieces of a text are not compared.

mod check;
mod normal;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use lspool::{
    recording::source::{EDITOR, Side, Source, What, parsed},
    rpc::Kind,
};
use serde_json::Value;

pub use check::Check;
use normal::{Fields, Item};

/// The behavior of a server in a session.
#[derive(Debug, Default)]
pub struct Behavior {
    /// By process.
    processes: BTreeMap<String, Process>,
}

#[derive(Debug, Default)]
struct Process {
    /// The messages that belong to each request, in the order of the requests.
    strands: Vec<Strand>,
    /// The other messages.
    aside: BTreeMap<String, Fields>,
    /// The same, and the answer to `initialize`, in the order of their first appearance.
    order: Vec<String>,
}

/// The consequences of a request.
#[derive(Debug)]
struct Strand {
    /// The method, and which of its requests it is.
    key: (String, usize),
    /// Its name for people.
    title: String,
    items: Vec<Item>,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Drift {
    /// The request or notification.
    of: String,
    /// In which part of it, and what kind of difference.
    part: String,
    /// In words.
    words: String,
}

impl Drift {
    /// Whether it is the same difference, with any new value.
    pub fn is_like(&self, other: &Drift) -> bool {
        (&self.of, &self.part) == (&other.of, &other.part)
    }

    /// The method that it is about.
    fn method(&self) -> &str {
        self.of.split(" \"").next().unwrap_or_default()
    }

    fn new(of: &str, part: impl Into<String>, words: impl Into<String>) -> Drift {
        Drift { of: of.to_owned(), part: part.into(), words: words.into() }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.of, self.words)
    }
}

impl Behavior {
    /// The content of a fixture.
    pub fn of(text: &str) -> Result<Behavior, String> {
        let mut source = Source::new(text.as_bytes());
        let mut all: BTreeMap<String, Listener> = BTreeMap::new();
        while let Some(entry) = source.next().transpose().map_err(|it| it.to_string())? {
            let is_of_lspool = &*entry.process == EDITOR && source.is_of_lspool();
            let What::Said(side, frame) = &entry.what else { continue };
            if is_of_lspool {
                continue;
            }
            let message = parsed(Some(frame.body()));
            let listener = all.entry(entry.process.to_string()).or_default();
            match (side, frame.kind()) {
                (Side::Client, Kind::Request) => listener.asked(&message),
                (Side::Client, Kind::Notification | Kind::Response) => {}
                (Side::Server, _) => listener.said(&message),
            }
        }
        let processes = all.into_iter().map(|(name, it)| (name, it.process));
        Ok(Behavior { processes: processes.collect() })
    }

    /// The differences of another server, without orders beyond one request.
    pub fn drift(&self, other: &Behavior) -> Vec<Drift> {
        let mut all = Vec::new();
        let names: BTreeSet<&String> = self.processes.keys().chain(other.processes.keys()).collect();
        for name in names {
            let was = self.processes.get(name);
            match (was, other.processes.get(name)) {
                (Some(was), Some(is)) => was.drift(is, &mut all),
                (None, _) => {
                    all.push(Drift::new("the session", name, format!("there is a process {name} now")));
                }
                (_, None) => all.push(Drift::new("the session", name, format!("there is no process {name}"))),
            }
        }
        all.sort();
        all.dedup();
        all
    }
}

/// The changed orders: all recorded sessions have one, and all of these the other.
pub fn orders(recorded: &[Behavior], now: &[Behavior]) -> Vec<Drift> {
    let (was, is) = (precedences(recorded), precedences(now));
    let never = |all: &BTreeMap<(&str, &str), usize>, pair| !all.contains_key(&pair);
    let turned = was.keys().filter(|(first, second)| {
        let back = (*second, *first);
        never(&was, back) && never(&is, (*first, *second)) && is.contains_key(&back)
    });
    let mut after: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (first, second) in turned {
        after.entry(first).or_default().push(second);
    }
    let words = |(first, later): (&str, Vec<&str>)| {
        Drift::new(first, "order", format!("comes after {} now, and came before", later.join(", ")))
    };
    after.into_iter().map(words).collect()
}

/// How often the first was said before the second.
fn precedences(all: &[Behavior]) -> BTreeMap<(&str, &str), usize> {
    let mut counts = BTreeMap::new();
    for process in all.iter().flat_map(|it| it.processes.values()) {
        for (n, first) in process.order.iter().enumerate() {
            for second in &process.order[n + 1..] {
                *counts.entry((first.as_str(), second.as_str())).or_default() += 1;
            }
        }
    }
    counts
}

impl Process {
    fn drift(&self, other: &Process, all: &mut Vec<Drift>) {
        for strand in &self.strands {
            match other.strands.iter().find(|it| it.key == strand.key) {
                Some(now) => strand.drift(now, all),
                None => all.push(Drift::new(
                    &strand.title,
                    "asked",
                    "the session did not get so far as to ask it",
                )),
            }
        }
        let labels: BTreeSet<&String> = self.aside.keys().chain(other.aside.keys()).collect();
        for label in labels {
            match (self.aside.get(label), other.aside.get(label)) {
                (Some(was), Some(is)) => normal::drift(was, is, label, "", all),
                (Some(_), None) => all.push(Drift::new(label, "said", "is not said any more")),
                (None, Some(_)) => all.push(Drift::new(label, "said", "is said now, and was not")),
                (None, None) => {}
            }
        }
    }
}

impl Strand {
    fn drift(&self, now: &Strand, all: &mut Vec<Drift>) {
        let pairs = common(&self.items, &now.items);
        for (was, is) in &pairs {
            normal::drift(
                &self.items[*was].fields,
                &now.items[*is].fields,
                &self.title,
                &self.items[*was].label,
                all,
            );
        }
        let gone: Vec<usize> =
            (0..self.items.len()).filter(|n| pairs.iter().all(|(was, _)| was != n)).collect();
        let mut come: Vec<usize> =
            (0..now.items.len()).filter(|n| pairs.iter().all(|(_, is)| is != n)).collect();
        let place = |items: &[Item], n: usize| match n.checked_sub(1) {
            Some(before) => format!("after {}", items[before].label),
            None => "first".to_owned(),
        };
        for n in gone {
            let label = &self.items[n].label;
            let moved = come.iter().position(|it| now.items[*it].label == *label).map(|at| come.remove(at));
            let words = match moved {
                Some(is) => {
                    let (was, is) = (place(&self.items, n), place(&now.items, is));
                    format!("{label} comes {is} now, and came {was}")
                }
                None => format!("{label} does not come any more; it came {}", place(&self.items, n)),
            };
            all.push(Drift::new(&self.title, label, words));
        }
        for n in come {
            let label = &now.items[n].label;
            let words = format!("{label} comes {} now, and did not", place(&now.items, n));
            all.push(Drift::new(&self.title, label, words));
        }
    }
}

/// Which of these are the same: the longest series that both have.
fn common(was: &[Item], is: &[Item]) -> Vec<(usize, usize)> {
    let mut lengths = vec![vec![0; is.len() + 1]; was.len() + 1];
    for a in (0..was.len()).rev() {
        for b in (0..is.len()).rev() {
            lengths[a][b] = match was[a].label == is[b].label {
                true => lengths[a + 1][b + 1] + 1,
                false => lengths[a + 1][b].max(lengths[a][b + 1]),
            };
        }
    }
    let (mut a, mut b, mut pairs) = (0, 0, Vec::new());
    while a < was.len() && b < is.len() {
        if was[a].label == is[b].label {
            pairs.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if lengths[a + 1][b] >= lengths[a][b + 1] {
            a += 1;
        } else {
            b += 1;
        }
    }
    pairs
}

/// Sorts a server's messages by the request that they belong to.
#[derive(Default)]
struct Listener {
    process: Process,
    /// By id, token and conversation: the strand.
    open: HashMap<String, usize>,
    tokens: HashMap<String, usize>,
    conversations: HashMap<String, usize>,
    asked: HashMap<String, usize>,
}

impl Listener {
    fn asked(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default();
        let params = &message["params"];
        let strand = self.process.strands.len();
        let count = self.asked.entry(method.to_owned()).or_default();
        *count += 1;
        let says = params["message"]
            .as_str()
            .or(params["turns"].as_array().and_then(|it| it.last()?["request"].as_str()));
        let title = match says {
            Some(says) => format!("{method} {says:?}"),
            None => method.to_owned(),
        };
        self.process.strands.push(Strand { key: (method.to_owned(), *count), title, items: Vec::new() });
        self.open.insert(message["id"].to_string(), strand);
        if let Some(token) = params.get("workDoneToken") {
            self.tokens.insert(token.to_string(), strand);
        }
        if let Some(conversation) = params.get("conversationId") {
            self.conversations.insert(conversation.to_string(), strand);
        }
    }

    fn said(&mut self, message: &Value) {
        let params = &message["params"];
        let (strand, label) = match (message["method"].as_str(), message.get("id")) {
            (None, id) => {
                let strand = id.and_then(|it| self.open.remove(&it.to_string()));
                (strand, if message.get("error").is_some() { "an error" } else { "the answer" }.to_owned())
            }
            (Some("$/progress"), _) => {
                let strand = self.tokens.get(&params["token"].to_string()).copied();
                if let (Some(strand), Some(conversation)) = (strand, params["value"].get("conversationId")) {
                    self.conversations.insert(conversation.to_string(), strand);
                }
                (strand, normal::progress(&params["value"]))
            }
            (Some(method), _) => {
                let conversation = params.get("conversationId").map(ToString::to_string);
                let strand = conversation.and_then(|it| self.conversations.get(&it)).copied();
                (strand, normal::label(method, params))
            }
        };
        let item = Item::new(label, message);
        match strand {
            Some(strand) => {
                let strand = &mut self.process.strands[strand];
                if strand.key.0 == "initialize" {
                    self.process.order.push("the answer to initialize".to_owned());
                }
                match strand.items.last_mut().filter(|it| it.label == item.label) {
                    Some(last) => last.join(item),
                    None => strand.items.push(item),
                }
            }
            None if normal::is_log(&item.label) => {}
            None => {
                if !self.process.order.contains(&item.label) {
                    self.process.order.push(item.label.clone());
                }
                let fields = self.process.aside.entry(item.label).or_default();
                normal::merge(fields, item.fields);
            }
        }
    }
}
