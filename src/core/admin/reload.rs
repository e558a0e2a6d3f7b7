//! The configuration is read again: what it changes, and what it cannot change while an editor is there.
//!
//! A file that has a mistake, or says what cannot hold now, changes nothing.

use std::time::{Duration, Instant};

use serde_json::json;
use tracing::{info, warn};

use crate::core::{
    Cause, Failure, Proxy,
    control::{answer, not_initialized, show},
};
use crate::core::{
    event::{BackendId, Effect, Effects, Prepared},
    health::Renewal,
    lifecycle::State,
};

/// How long a process may go on with its open requests when it is to be replaced by one with another configuration.
const RELOAD_GRACE: Duration = Duration::from_secs(30);

impl Proxy {
    /// A file may have changed, or somebody says that it has; or there are other workspace folders than before.
    pub(crate) fn reload(&mut self, out: &mut Effects) {
        if self.server.is_none() {
            // The first reading is under way, or in vain.
            let failure = not_initialized();
            for owner in std::mem::take(&mut self.control.reloads) {
                self.fail(&owner, &failure, out);
            }
            return;
        }
        if self.control.is_reading {
            self.control.read_again = true;
            return;
        }
        self.control.is_reading = true;
        // Those of `initialize` stay: the first of them has chosen the server, and what they restrict holds.
        out.push(Effect::Prepare { folders: self.session.with_added(self.folders.clone()) });
    }

    /// The configuration has been read again. What is wrong with it changes nothing.
    pub(crate) fn on_reloaded(
        &mut self,
        now: Instant,
        prepared: Result<Box<Prepared>, String>,
        out: &mut Effects,
    ) {
        self.control.is_reading = false;
        if std::mem::take(&mut self.control.read_again) {
            return self.reload(out);
        }
        let waiting = std::mem::take(&mut self.control.reloads);
        let prepared = prepared.and_then(|it| self.is_adoptable(&it).map(|()| it));
        let mut relaunches = false;
        match prepared {
            Ok(prepared) => {
                self.control.problem = None;
                let changed = self.adopt(now, *prepared, out);
                relaunches = changed.contains(&"processes");
                info!(?changed, "the configuration was read again");
                for it in &waiting {
                    answer(it, &json!({"changed": changed}), out);
                }
            }
            Err(problem) => {
                warn!(problem, "the configuration was read again, and nothing is changed");
                let failure = Failure::new(Cause::Unavailable, problem.clone());
                for it in &waiting {
                    self.fail(it, &failure, out);
                }
                if self.control.problem.as_ref() != Some(&problem) {
                    show(1, &format!("lspool goes on with the configuration it has: {problem}"), out);
                }
                self.control.problem = Some(problem);
            }
        }
        self.restart_found(now, relaunches, out);
    }

    /// Whether a configuration can take the place of the one that holds. What the editor was told at its start about
    /// the server cannot be taken back: another server, or another kind, is for the next session.
    fn is_adoptable(&self, prepared: &Prepared) -> Result<(), String> {
        let Some(server) = &self.server else { return Ok(()) };
        let hint = "holds when the editor starts lspool again";
        match (&prepared.missing, prepared.server.kind) {
            _ if prepared.name != server.name => {
                Err(format!("the server is now {}, no longer {}; that {hint}", prepared.name, server.name))
            }
            (Some(missing), _) if server.missing.is_none() => Err(missing.clone()),
            (None, kind) if server.missing.is_none() && kind.is_some_and(|it| it != server.kind) => {
                Err(format!("another kind for {}: that {hint}", server.name))
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Tells the user what is new among the warnings of a reading.
    pub(crate) fn warn_of(&mut self, warnings: &[String], out: &mut Effects) {
        let before = std::mem::replace(&mut self.control.warned, warnings.iter().cloned().collect());
        for warning in warnings.iter().filter(|it| !before.contains(*it)) {
            warn!("{warning}");
            show(2, warning, out);
        }
    }

    /// Makes a configuration hold; gives what it changes. Only what is started otherwise is started anew.
    fn adopt(&mut self, now: Instant, prepared: Prepared, out: &mut Effects) -> Vec<&'static str> {
        self.warn_of(&prepared.warnings, out);
        let Some(server) = &mut self.server else { return Vec::new() };
        let mut changed = Vec::new();
        if server.config.agents != prepared.config.agents {
            changed.push("agents");
        }
        if server.config.routes != prepared.config.routes {
            changed.push("routes");
        }
        let changes_tools = server.settings.builtin_tools != prepared.server.builtin_tools;
        if server.config.tools != prepared.config.tools {
            changed.push("tools");
        }
        let relaunch = server.launch != prepared.launch;
        if server.settings != prepared.server {
            changed.push("settings");
        }
        if relaunch {
            changed.push("processes");
        }
        let tells_agents = changed.contains(&"agents");
        self.limit_told &= server.settings.memory_limit == prepared.server.memory_limit;
        if let Some(kind) = prepared.server.kind {
            server.kind = kind;
        }
        server.shrinks |= prepared.server.max_processes < server.settings.max_processes;
        server.settings = prepared.server;
        server.config = prepared.config;
        server.launch = prepared.launch;
        server.missing = prepared.missing;
        server.is_gone = false;
        for backend in self.backends.values_mut().filter(|_| relaunch) {
            backend.life.forgive();
            let why = "its configuration has changed".to_owned();
            backend.health.renewal = Some(Renewal { why, until: Some(now + RELOAD_GRACE) });
        }
        if changes_tools {
            self.change_own_tools(out);
        }
        if tells_agents {
            self.describe_agents(out);
        }
        self.note_isolation(now, out);
        // What counts as in use is a setting.
        for id in self.backends.keys().copied().collect::<Vec<_>>() {
            self.note_use(id, now);
        }
        if relaunch {
            self.renew_all(now, out);
        }
        self.shrink(now, out);
        changed
    }

    /// What waits to be replaced is replaced as it comes to be quiet; what has failed has another chance.
    fn renew_all(&mut self, now: Instant, out: &mut Effects) {
        self.renew(now, out);
        let others: Vec<(BackendId, State)> = self
            .backends
            .values()
            .filter(|it| it.health.renewal.is_some() && !it.is_ready())
            .map(|it| (it.id, it.life.state()))
            .collect();
        for (id, state) in others {
            match state {
                State::Spawning { .. } | State::Initializing { .. } => self.replace(id, now, out),
                State::Failed => {
                    if let Err(failure) = self.restart(id, now, out) {
                        warn!(failure.message, "not restarted");
                    }
                }
                // The next process has the new configuration.
                State::Stopped | State::Waiting | State::Restarting { .. } => {}
                State::Ready | State::Degraded => {}
            }
        }
    }
}
