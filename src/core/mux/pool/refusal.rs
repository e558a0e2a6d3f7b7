//! A backend that crashes repeatedly: its next process starts only after a while, and until then nobody is kept
//! waiting.

use std::time::Duration;

use crate::{
    core::{
        event::BackendId,
        mux::{
            Mux, Severity,
            failure::{Cause, Failure},
            requests::{Owner, To},
        },
        purpose::{Purpose, SentId},
    },
    rpc::{Frame, Kind},
};

/// lspool refuses requests at once while the restart is further away than this.
const LONG_WAIT: Duration = Duration::from_secs(2);

/// How many crashes within the window make lspool tell the user.
const MANY_CRASHES: usize = 3;

impl Mux {
    /// A backend has begun to crash repeatedly: the editor's user hears of it once, until it has been well for long.
    pub(super) fn tell_crashing(&mut self, id: BackendId, what: &str) {
        let now = self.now();
        let Some(backend) = self.backends.get_mut(id) else { return };
        let (n, wait) = (backend.life.n_deaths(), backend.life.wait(now).unwrap_or_default());
        if n <= 1 {
            backend.crashes_told = false;
        }
        let is_repeated = n > 1 && (n >= MANY_CRASHES || wait > LONG_WAIT);
        if !is_repeated || std::mem::replace(&mut backend.crashes_told, true) {
            return;
        }
        let window = self.servers.get(backend.server).settings.policy.restart_window;
        let message = format!(
            "lspool: {} has crashed {n} times within {} s; it {what}; lspool restarts it in {} s",
            backend.name,
            window.as_secs_f64(),
            seconds(wait),
        );
        self.show(Severity::Warning, &message);
    }

    /// Why a request of a client is not taken now: the next process is started only after a while.
    pub(crate) fn restarts_later(&self, id: BackendId) -> Option<Failure> {
        // What is asked of a server without a way to it waits.
        let backend = self.backend(id).filter(|it| it.away_since().is_none())?;
        let wait = backend.life.wait(self.now()).filter(|it| *it > LONG_WAIT)?;
        let message = format!("{} has crashed: restarting in {} s", backend.name, seconds(wait));
        Some(Failure {
            cause: Cause::Restarting,
            partition: Some(backend.name.clone()),
            message,
            retry: true,
        })
    }

    /// What clients have asked of a process that is started only after a while is answered at once. `turns`: these of
    /// the turns.
    pub(super) fn refuse_queued(&mut self, id: BackendId, turns: &[SentId]) {
        let Some(failure) = self.restarts_later(id) else { return };
        let mut refused = self.requests.filter(|it| {
            it.to == To::Queue(id) && !it.purpose.is_turn() && is_refusable(&it.owner, &it.purpose)
        });
        refused.extend(turns);
        refused.sort_unstable();
        let Some(backend) = self.backends.get_mut(id) else { return };
        let is_refused = |it: &Frame| SentId::of(it).is_some_and(|it| refused.contains(&it));
        backend.queue().retain(|it| it.kind() != Kind::Request || !is_refused(it));
        for sent in refused {
            let Some(pending) = self.requests.take(sent) else { continue };
            self.fail_request(&pending.owner, &pending.purpose, &failure);
        }
    }
}

/// Whether the client that has asked this can ask it again later.
pub(crate) fn is_refusable(owner: &Owner, purpose: &Purpose) -> bool {
    match (owner, purpose) {
        (Owner::Client(..), Purpose::Plain | Purpose::Initialize) | (Owner::Part(_), Purpose::Plain) => true,
        // Internal conversations have nobody who would ask again.
        (Owner::Client(client, _), asked) if asked.is_asked_by_client() => !client.is_internal(),
        _ => false,
    }
}

/// Whole seconds for people, rounded up.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}
