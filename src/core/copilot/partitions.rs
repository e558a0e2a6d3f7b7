//! Partitions: which process serves a tool set, for how many there is room, and which of them nobody needs.

use std::time::{Duration, Instant};

use tracing::{debug, info};

use crate::core::{Backend, Cause, Failure, PRIMARY, Proxy, Server, ToolSet};
use crate::core::{
    backend::Idling,
    event::{BackendId, Effects},
    lifecycle::State,
};

impl Proxy {
    /// The partition that serves conversations with this tool set; started if there is none.
    pub(crate) fn partition(
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
        // A spare becomes its process: that takes no room.
        if self.spare_with(set).is_none() {
            self.make_room(now, out)?;
        }
        if known.is_none() {
            // Nothing happens to one whose deaths are long ago.
            self.backends.keys().copied().collect::<Vec<_>>().into_iter().for_each(|it| self.forget(it, now));
        }
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

    /// Sees to it that one more backend may have a process, if need be by stopping one that is idle.
    pub(crate) fn make_room(&mut self, now: Instant, out: &mut Effects) -> Result<(), Failure> {
        let Some(server) = &self.server else { return Ok(()) };
        let most = server.settings.max_processes;
        let in_use = self.backends.values().filter(|it| it.accepts()).count();
        if in_use < most {
            return Ok(());
        }
        let Some(idle) = self.dispensable() else { return Err(no_room(server)) };
        info!(backend = self.name_of(idle), "stopping an idle partition to make room");
        self.stop(idle, "to make room for another one", now, out);
        Ok(())
    }

    /// After `max_processes` was made smaller: stops what is not needed, until there are no more than may be.
    pub(crate) fn shrink(&mut self, now: Instant, out: &mut Effects) {
        let Some(most) = self.server.as_ref().filter(|it| it.shrinks).map(|it| it.settings.max_processes)
        else {
            return;
        };
        while self.backends.values().filter(|it| it.accepts()).count() > most {
            if let Some(id) = self.dispensable() {
                info!(backend = self.name_of(id), "stopping it: there are more than max_processes");
                self.stop(id, "max_processes was made smaller", now, out);
            } else if let Some(id) = self.last_waiting() {
                self.deny_room(id, now, out);
            } else {
                return;
            }
        }
        let held = self.backends.values().filter(|it| it.holds_a_place()).count();
        if let Some(server) = self.server.as_mut().filter(|_| held <= most) {
            server.shrinks = false;
        }
    }

    /// The partition that was the last to be promised room, and has not got it.
    fn last_waiting(&self) -> Option<BackendId> {
        let waits = |it: &&Backend| it.id != PRIMARY && it.life.state() == State::Waiting;
        self.backends.values().filter(waits).map(|it| it.id).max()
    }

    fn deny_room(&mut self, id: BackendId, now: Instant, out: &mut Effects) {
        let (Some(server), Some(backend)) = (&self.server, self.backends.get_mut(&id)) else { return };
        let failure = Failure { partition: Some(backend.name.clone()), ..no_room(server) };
        backend.life.stop(now);
        backend.stopped = Some("max_processes was made smaller");
        self.let_go(id, &failure, out);
        self.forget(id, now);
    }

    /// What is rather ended than anything else: a spare, or the partition that has been idle for the longest time.
    fn dispensable(&self) -> Option<BackendId> {
        let spare = self.backends.values().find(|it| it.spare.is_some() && it.accepts()).map(|it| it.id);
        spare.or_else(|| self.longest_idle())
    }

    /// The partition that has been without work for the longest time.
    fn longest_idle(&self) -> Option<BackendId> {
        let idle = self.backends.values().filter(|it| it.accepts() && !self.is_busy(it));
        idle.filter_map(|it| Some((it.idle_since?, it.id))).min().map(|(_, id)| id)
    }

    /// Whether a partition is needed: answers are owed, such as that of a turn.
    pub(crate) fn is_busy(&self, backend: &Backend) -> bool {
        self.requests.n_owed_by(backend.id) > 0
    }

    /// Where there is no idle time, a partition ends with its last conversation.
    pub(crate) fn idling(&self, backend: &Backend) -> Idling {
        let is_bound = self.conversations.count(backend.id) > 0;
        if is_bound && self.idle_timeout() == Duration::ZERO { Idling::GoesOn } else { Idling::Ends }
    }

    /// Starts what waits for room, as far as there is room.
    pub(crate) fn start_waiting(&mut self, now: Instant, out: &mut Effects) {
        let due = |it: &&Backend| it.life.is_due(now);
        if self.phase.is_shut_down() {
            let due: Vec<_> = self.backends.values().filter(due).map(|it| it.id).collect();
            for id in due {
                self.stop(id, "the editor is at its end", now, out);
            }
            return;
        }
        let most = self.server.as_ref().map_or(1, |it| it.settings.max_processes);
        let held = self.backends.values().filter(|it| it.holds_a_place()).count();
        let (again, waiting): (Vec<_>, Vec<_>) = self
            .backends
            .values()
            .filter(due)
            .map(|it| (it.id, matches!(it.life.state(), State::Restarting { .. })))
            .partition(|(_, is_again)| *is_again);
        let mut room = most.saturating_sub(held);
        for (id, has_place) in again.into_iter().chain(waiting) {
            let takes = usize::from(!has_place && self.spare_for(id).is_none());
            if takes <= room {
                room -= takes;
                self.spawn(id, now, out);
            }
        }
    }

    /// What has come to be needed, and what is needed no more.
    pub(crate) fn note_changes(&mut self, now: Instant, out: &mut Effects) {
        if !self.requests.have_changed() && !self.conversations.have_changed() {
            return self.shrink(now, out);
        }
        let owing = self.requests.take_changed();
        for id in &owing {
            self.note_debts(*id, now);
        }
        let is_to_be_replaced = |id| self.backend(id).is_some_and(|it| it.health.renewal.is_some());
        if owing.iter().any(|id| is_to_be_replaced(*id)) {
            self.renew(now, out);
        }
        let mut changed = self.conversations.take_changed();
        changed.extend(owing);
        for id in changed {
            self.note_use(id, now);
            self.forget(id, now);
        }
        self.shrink(now, out);
    }

    /// Whether a partition is in use may have changed.
    pub(crate) fn note_use(&mut self, id: BackendId, now: Instant) {
        let Some(backend) = self.backend(id).filter(|it| it.id != PRIMARY && it.spare.is_none()) else {
            return;
        };
        let idle_since = if self.is_busy(backend) { None } else { backend.idle_since.or(Some(now)) };
        let idling = self.idling(backend);
        if let Some(backend) = self.backends.get_mut(&id) {
            backend.idle_since = idle_since;
            backend.idling = idling;
        }
    }

    /// A partition without a process and without conversations is no more, unless it has died of late: what is left of
    /// its restarts is not had anew by asking for it once more.
    pub(crate) fn forget(&mut self, id: BackendId, now: Instant) {
        let Some(window) = self.server.as_ref().map(|it| it.settings.policy.restart_window) else { return };
        let is_bare = |it: &Backend| {
            it.id != PRIMARY
                && it.life.state() == State::Stopped
                && !it.life.is_alive()
                && !it.life.has_died(now, window)
        };
        let bound = |id| self.conversations.iter().any(|(_, it)| it.backend == id);
        if self.backend(id).is_some_and(is_bare) && !bound(id) {
            self.backends.remove(&id);
        }
    }
}

fn no_room(server: &Server) -> Failure {
    let (most, name) = (server.settings.max_processes, &server.name);
    if most == 1 {
        let message = format!(
            "no room for another process: the one that there may be serves the editor itself; raise max_processes in \
             [server.{name}]"
        );
        return Failure::new(Cause::Limit, message);
    }
    let message = format!(
        "no room for another process: all {most} of {name} have something to do; let a turn come to its end, or raise \
         max_processes in [server.{name}]"
    );
    Failure { retry: true, ..Failure::new(Cause::Limit, message) }
}

/// What a partition is called.
fn name(set: &ToolSet, server: &str) -> String {
    format!("partition \"{}\" of {server}", set.shown())
}
