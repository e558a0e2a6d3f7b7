//! Partitions: which process serves a tool set, for how many there is room, and which of them nobody needs.

use std::time::{Duration, Instant};

use tracing::{debug, info};

use super::{Backend, Cause, Failure, PRIMARY, Proxy, ToolSet};
use crate::core::{
    event::{BackendId, Effects},
    lifecycle::State,
};

impl Proxy {
    /// The partition that serves conversations with this tool set; started if there is none.
    pub(super) fn partition(
        &mut self,
        set: &ToolSet,
        now: Instant,
        out: &mut Effects,
    ) -> Result<BackendId, Failure> {
        if set.is_all() {
            return Ok(PRIMARY);
        }
        let known = self.backends.values().find(|it| it.spare.is_none() && it.set == *set);
        // One that has failed says why, when it is asked.
        if let Some(known) = known.filter(|it| it.life.state() != State::Stopped) {
            return Ok(known.id);
        }
        let known = known.map(|it| it.id);
        self.make_room(set, now, out)?;
        let id = known.unwrap_or_else(|| {
            debug!(%set, "a partition for a new tool set");
            self.last_backend += 1;
            let id = BackendId(self.last_backend);
            let server = self.server.as_ref().map_or("", |it| &it.name);
            let backend = Backend::new(id, name(set, server), set.clone(), now);
            self.backends.insert(id, backend);
            id
        });
        if let Some(backend) = self.backends.get_mut(&id) {
            backend.life.start(now);
        }
        self.start_waiting(now, out);
        Ok(id)
    }

    /// Sees to it that one more backend, with this set, may have a process, if need be by stopping one that is idle.
    pub(super) fn make_room(
        &mut self,
        set: &ToolSet,
        now: Instant,
        out: &mut Effects,
    ) -> Result<(), Failure> {
        let Some(server) = &self.server else { return Ok(()) };
        if self.spare_with(set).is_some() {
            return Ok(());
        }
        let (most, name) = (server.settings.max_processes, server.name.clone());
        let is_dispensable =
            |it: &&Backend| it.spare.is_some() || it.idle_since.is_some() && !self.is_busy(it);
        let in_use = self.backends.values().filter(|it| it.accepts() && !is_dispensable(it)).count();
        if in_use >= most {
            let message = format!(
                "no room for another process: all {most} processes of {name} are in use; let a turn come to its end, \
                 or raise max_processes in [server.{name}]"
            );
            return Err(Failure { retry: true, ..Failure::new(Cause::Limit, message) });
        }
        self.leave_at_most(most - 1, now, out);
        Ok(())
    }

    /// Stops what nobody needs, so that not more than this many have or want a process, as far as that is possible.
    fn leave_at_most(&mut self, most: usize, now: Instant, out: &mut Effects) {
        while self.backends.values().filter(|it| it.accepts()).count() > most {
            let spare = self.backends.values().find(|it| it.spare.is_some() && it.accepts()).map(|it| it.id);
            let Some(idle) = spare.or_else(|| self.longest_idle()) else { return };
            info!(backend = self.backends[&idle].name, "stopping an idle partition to make room");
            self.stop(idle, now, out);
        }
    }

    /// If there are more processes than there may be now, those that come to be idle are stopped.
    pub(super) fn shrink(&mut self, now: Instant, out: &mut Effects) {
        let Some(most) = self.server.as_ref().map(|it| it.settings.max_processes) else { return };
        self.leave_at_most(most, now, out);
        let alive = self.backends.values().filter(|it| it.life.is_alive()).count();
        if let Some(server) = &mut self.server {
            server.granted = most.max(alive.min(server.granted));
        }
    }

    /// The partition that has been without work for the longest time.
    fn longest_idle(&self) -> Option<BackendId> {
        let idle = self.backends.values().filter(|it| it.accepts() && !self.is_busy(it));
        idle.filter_map(|it| Some((it.idle_since?, it.id))).min().map(|(_, id)| id)
    }

    /// Whether a partition is needed: answers are owed, such as that of a turn. Where nothing else is idle time, also
    /// while a conversation is bound to it.
    pub(super) fn is_busy(&self, backend: &Backend) -> bool {
        let binds = self.idle_timeout() == Duration::ZERO && self.conversations.count(backend.id) > 0;
        binds || self.requests.n_owed_by(backend.id) > 0
    }

    /// Starts what waits for room, as far as there is room.
    pub(super) fn start_waiting(&mut self, now: Instant, out: &mut Effects) {
        let due = |it: &&Backend| it.life.is_due(now);
        if self.phase.is_shut_down() {
            let due: Vec<_> = self.backends.values().filter(due).map(|it| it.id).collect();
            for id in due {
                self.stop(id, now, out);
            }
            return;
        }
        let most = self.server.as_ref().map_or(1, |it| it.settings.max_processes);
        // The place of a process that is to be restarted is taken.
        let holds = |it: &&Backend| it.life.is_alive() || matches!(it.life.state(), State::Restarting { .. });
        let is_again = |it: &Backend| matches!(it.life.state(), State::Restarting { .. });
        let (again, waiting): (Vec<_>, Vec<_>) =
            self.backends.values().filter(due).map(|it| (is_again(it), it.id)).partition(|it| it.0);
        for (is_again, id) in again.into_iter().chain(waiting) {
            let has_room = self.backends.values().filter(holds).count() < most;
            if is_again || has_room || self.spare_for(id).is_some() {
                self.spawn(id, now, out);
            }
        }
    }

    /// What has come to be needed, and what is needed no more.
    pub(super) fn note_changes(&mut self, now: Instant, out: &mut Effects) {
        let owing = self.requests.take_changed();
        for id in &owing {
            self.note_debts(*id, now);
        }
        if !owing.is_empty() {
            self.renew(now, out);
        }
        let mut changed = self.conversations.take_changed();
        changed.extend(owing);
        changed.remove(&PRIMARY);
        for id in changed {
            self.note_idle(id, now);
            self.forget(id);
        }
        if self.server.as_ref().is_some_and(|it| it.granted > it.settings.max_processes) {
            self.shrink(now, out);
        }
    }

    /// Whether a partition is needed may have changed.
    pub(super) fn note_idle(&mut self, id: BackendId, now: Instant) {
        let partition = self.backend(id).filter(|it| it.id != PRIMARY && it.spare.is_none());
        let Some(backend) = partition else { return };
        let idle_since = if self.is_busy(backend) { None } else { backend.idle_since.or(Some(now)) };
        if let Some(backend) = self.backends.get_mut(&id) {
            backend.idle_since = idle_since;
        }
    }

    /// A partition without a process and without conversations is no more.
    pub(super) fn forget(&mut self, id: BackendId) {
        let is_bare = |it: &Backend| {
            it.id != PRIMARY
                && it.life.state() == State::Stopped
                && !it.life.is_alive()
                && !it.life.has_died()
        };
        let bound = |id| self.conversations.iter().any(|(_, it)| it.backend == id);
        if self.backend(id).is_some_and(is_bare) && !bound(id) {
            self.backends.remove(&id);
        }
    }
}

/// What a partition is called.
fn name(set: &ToolSet, server: &str) -> String {
    format!("partition \"{set}\" of {server}")
}
