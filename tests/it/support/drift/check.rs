//! Repeats the sessions with a server, and collects the differences from the fixtures.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    sync::Mutex,
    thread,
};

use super::{
    super::sessions::{SESSIONS, Servers, Session},
    Behavior, Drift, orders,
};

/// Sessions at a time.
const WORKERS: usize = 2;

/// With so many sessions an order is not an accident.
const ENOUGH: usize = 4;

/// A difference.
#[derive(Debug, Default)]
pub struct Check {
    /// How many sessions were held.
    pub sessions: usize,
    /// Each difference, and in which sessions it is.
    drift: BTreeMap<Drift, Vec<&'static str>>,
}

/// The result of a session.
struct Held {
    name: &'static str,
    now: Option<Behavior>,
    drift: Vec<Drift>,
}

impl Check {
    /// Plays these sessions. A session with a difference is repeated so many times; a difference that does not appear
    /// each time does not count.
    pub fn run(sessions: &[&'static Session], servers: &Servers, times: usize) -> Check {
        let waiting = Mutex::new(sessions.iter());
        let next = || waiting.lock().map(|mut it| it.next().copied()).ok().flatten();
        let held = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..WORKERS.min(sessions.len()) {
                scope.spawn(|| {
                    while let Some(session) = next() {
                        let done = hold(session, servers, times);
                        held.lock().expect("nobody panics with it").push(done);
                    }
                });
            }
        });
        let held = held.into_inner().expect("nobody panics with it");
        let mut check = Check { sessions: sessions.len(), drift: BTreeMap::new() };
        for it in &held {
            for drift in &it.drift {
                check.drift.entry(drift.clone()).or_default().push(it.name);
            }
        }
        let recorded: Vec<Behavior> = SESSIONS.iter().filter_map(|it| recorded(it).ok()).collect();
        let mut now: Vec<Behavior> = held.into_iter().filter_map(|it| it.now).collect();
        let mut turned = orders(&recorded, &now);
        // Few sessions may all have come upon an order that is rare.
        for session in sessions.iter().cycle().take(ENOUGH.saturating_sub(now.len())) {
            if turned.is_empty() {
                break;
            }
            now.extend(Behavior::of(&session.play(servers).text).ok());
            turned = orders(&recorded, &now);
        }
        for drift in turned {
            check.drift.entry(drift).or_default();
        }
        check
    }

    /// Whether there is no difference.
    pub fn is_clean(&self) -> bool {
        self.drift.is_empty()
    }
}

fn recorded(session: &Session) -> Result<Behavior, String> {
    let file = session.fixture();
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    Behavior::of(&text).map_err(|error| format!("{}: {error}", file.display()))
}

fn hold(session: &'static Session, servers: &Servers, times: usize) -> Held {
    let stuck = |words: String| Drift::new("the session", "end", words);
    let was = match recorded(session) {
        Ok(was) => was,
        Err(problem) => {
            return Held { name: session.name, now: None, drift: vec![stuck(problem)] };
        }
    };
    let mut drift: Option<Vec<Drift>> = None;
    let mut last = None;
    for _ in 0..times {
        let played = session.play(servers);
        let now = Behavior::of(&played.text).unwrap_or_default();
        let mut found = was.drift(&now);
        let problem = played.problem.map(|it| stuck(format!("it did not come to its end: {it}")));
        let is_stuck = problem.is_some();
        found.extend(problem);
        let same = match drift {
            Some(before) => before.into_iter().filter(|it| found.iter().any(|now| now.is_like(it))).collect(),
            None => found,
        };
        let is_over = same.is_empty() || is_stuck;
        drift = Some(same);
        last = Some(now);
        if is_over {
            break;
        }
    }
    Held { name: session.name, now: last, drift: drift.unwrap_or_default() }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return writeln!(f, "{} sessions, and the server behaves as in the fixtures", self.sessions);
        }
        // The same difference in many requests and sessions is one line.
        let mut all: BTreeMap<(&str, &str), Places<'_>> = BTreeMap::new();
        for (drift, sessions) in &self.drift {
            let places = all.entry((drift.method(), &drift.words)).or_default();
            places.requests.insert(&drift.of);
            places.sessions.extend(sessions);
        }
        for ((method, words), places) in all {
            let of = match (places.requests.len(), places.requests.first()) {
                (1, Some(request)) => request,
                _ => method,
            };
            write!(f, "{of}: {words}")?;
            match places.sessions.len() {
                0 => writeln!(f)?,
                n if n == self.sessions && n > 1 => writeln!(f, " (in all sessions)")?,
                _ => writeln!(f, " (in {})", Vec::from_iter(places.sessions).join(", "))?,
            }
        }
        Ok(())
    }
}

/// The place of a difference.
#[derive(Default)]
struct Places<'a> {
    requests: BTreeSet<&'a str>,
    sessions: BTreeSet<&'a str>,
}
