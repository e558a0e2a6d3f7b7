//! A server elsewhere to which there is no way: how long requests wait for it, and what the user hears.
//!
//! **Unreachable is not crashed**: it spends no restart budget, and lspool tries again for as long as it runs. A request
//! of a client waits for a limited time, a turn included, and makes lspool try at once.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::info;

use super::backend::{Backend, Deadline};
use crate::{
    config::{Engine, RemoteConfig, ServerConfig},
    core::{
        event::BackendId,
        mux::{
            Mux, Severity,
            failure::{Cause, Failure},
            pool::{processes::Due, refusal::is_refusable},
            requests::{Pending, To},
        },
        purpose::SentId,
    },
    rpc::{Frame, PathPair},
};

/// How long it may be away before the user hears of it.
const UNTOLD: Duration = Duration::from_secs(5);

/// The shortest time between two attempts that requests cause.
const BETWEEN: Duration = Duration::from_secs(2);

/// A place whose folders change more often is not asked at once.
const MOVING: Duration = Duration::from_secs(10);

/// How far a server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not answered `initialize`.
    Starting,
    /// It has.
    Ready,
}

/// Whether this exit code means that the engine has not reached its target.
pub(super) fn is_unreachable(engine: Engine, code: i32, stage: Stage) -> bool {
    let is_starting = stage == Stage::Starting;
    match engine {
        Engine::Ssh => code == 255,
        Engine::Docker => is_starting && matches!(code, 1 | 125),
        Engine::Podman => is_starting && code == 125,
        Engine::Kubectl => is_starting && code == 1,
        Engine::Devcontainer | Engine::Command => false,
    }
}

/// Whether a shell or an engine says by this exit code that the server is not installed there.
pub(super) fn is_missing(code: i32) -> bool {
    matches!(code, 126 | 127)
}

/// Whether the other side is there, and does not let lspool in. Time alone does not help then.
pub(super) fn is_refused(engine: Engine, stderr: &str) -> bool {
    // Not `Permission denied (os error 13)`, which a server may write.
    const SAYS: [&str; 6] = [
        "Host key verification failed",
        "Permission denied (publickey",
        "Permission denied (password",
        "Permission denied (keyboard-interactive",
        "Permission denied (gssapi",
        "Too many authentication failures",
    ];
    engine == Engine::Ssh && SAYS.iter().any(|it| stderr.contains(it))
}

/// The settings of a server elsewhere, also of one that a plain command line starts there.
pub(super) fn remote_of(settings: &ServerConfig) -> Cow<'_, RemoteConfig> {
    settings.remote.as_ref().map_or_else(|| Cow::Owned(RemoteConfig::default()), Cow::Borrowed)
}

/// Since there has been no way to a server that was ready before.
#[derive(Debug)]
pub(crate) struct Away {
    since: Instant,
    request_wait: Duration,
    is_told: bool,
    /// Requests of clients, with the time when they began to wait.
    waiting: VecDeque<(Instant, SentId)>,
}

impl Away {
    pub(super) fn new(now: Instant, request_wait: Duration) -> Away {
        Away { since: now, request_wait, is_told: false, waiting: VecDeque::new() }
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let told = (!self.is_told).then(|| (self.since + UNTOLD, "nobody knows that a server is away"));
        let waits = self.waiting.front().map(|(at, _)| (*at + self.request_wait, "requests have waited"));
        told.into_iter().chain(waits).min_by_key(|(at, _)| *at)
    }
}

impl Mux {
    /// The way to a server is gone. What clients have asked waits from now on.
    pub(super) fn note_away(&mut self, id: BackendId) {
        let now = self.now();
        let Some(backend) = self.backends.get_mut(id) else { return };
        let request_wait = remote_of(&self.servers.get(backend.server).settings).request_wait;
        let away = backend.away.get_or_insert_with(|| Away::new(now, request_wait));
        let known: Vec<SentId> = away.waiting.iter().map(|(_, sent)| *sent).collect();
        let is_new = |it: &Pending| it.to == To::Queue(id) && can_wait(it);
        let new = self.requests.filter(is_new).into_iter().filter(|it| !known.contains(it));
        away.waiting.extend(new.map(|sent| (now, sent)));
    }

    /// Notes a request of a client to a backend. If there is no way to it, lspool tries at once.
    pub(crate) fn note_wanted(&mut self, id: BackendId, sent: SentId) {
        if self.backend(id).is_none_or(|it| it.away.is_none())
            || self.requests.get(sent).is_none_or(|it| !can_wait(it))
        {
            return;
        }
        let now = self.now();
        let Some(backend) = self.backends.get_mut(id) else { return };
        if now.duration_since(backend.life.since()) >= BETWEEN {
            backend.life.hasten(now);
        }
        if let Some(away) = &mut backend.away {
            away.waiting.push_back((now, sent));
        }
    }

    /// A server has other folders there than when its place was last looked at. The next process starts at once, but
    /// not again and again.
    pub(super) fn note_moved(&mut self, id: BackendId, paths: &[PathPair]) {
        let now = self.now();
        let Some(backend) = self.backends.get_mut(id) else { return };
        let server = self.servers.get_mut(backend.server);
        info!(backend = backend.name, ?paths, "its folders have changed");
        if let Some(remote) = &mut Arc::make_mut(&mut server.launch).remote {
            paths.clone_into(&mut remote.paths);
        }
        if server.moved.replace(now).is_none_or(|at| now.duration_since(at) >= MOVING) {
            backend.life.note_way();
        }
    }

    /// The way is there again.
    pub(super) fn note_back(&mut self, id: BackendId) {
        let Some(backend) = self.backends.get_mut(id) else { return };
        if backend.away.take().is_some_and(|it| it.is_told) {
            let message = format!("lspool: {} can be reached again", backend.name);
            self.show(Severity::Info, &message);
        }
    }

    /// Does what is due while there is no way: the user hears of it, and requests have waited long enough. Returns the
    /// turns among them, which the caller ends.
    pub(super) fn look_after_away(&mut self, id: BackendId) -> Option<Due> {
        let now = self.now();
        let backend = self.backends.get_mut(id)?;
        let name = backend.name.clone();
        let place = self.servers.get(backend.server).launch.remote.as_ref().map(|it| it.name.clone());
        let away = backend.away.as_mut()?;
        let is_new = !away.is_told && away.since + UNTOLD <= now;
        away.is_told |= is_new;
        let mut late = Vec::new();
        while let Some((at, sent)) = away.waiting.front()
            && *at + away.request_wait <= now
        {
            late.push(*sent);
            away.waiting.pop_front();
        }
        let what = format!("{name} cannot be reached ({})", place.unwrap_or_default());
        if is_new {
            self.show(Severity::Warning, &format!("lspool: {what}; lspool keeps trying"));
        }
        let failure = Failure {
            cause: Cause::Unreachable,
            partition: Some(name),
            message: format!("{what}; send the request again later"),
            retry: true,
        };
        let mut turns = Vec::new();
        for sent in late {
            match self.requests.get(sent) {
                Some(it) if it.to == To::Queue(id) && it.purpose.is_turn() => {
                    turns.push(sent);
                    continue;
                }
                Some(it) if it.to == To::Queue(id) => {}
                Some(_) | None => continue,
            }
            let Some(pending) = self.requests.take(sent) else { continue };
            if let Some(backend) = self.backends.get_mut(id) {
                backend.queue().retain(|it: &Frame| SentId::of(it) != Some(sent));
            }
            self.fail_request(&pending.owner, &pending.purpose, &failure);
        }
        (!turns.is_empty()).then_some(Due::Late { turns, failure })
    }
}

/// Whether a request fails after some time. The client can ask it again then.
fn can_wait(pending: &Pending) -> bool {
    is_refusable(&pending.owner, &pending.purpose)
}

impl Backend {
    /// Since when there has been no way to its server elsewhere.
    pub(crate) fn away_since(&self) -> Option<Instant> {
        self.away.as_ref().map(|it| it.since)
    }
}
