//! Partitions: finds or makes the backend for a tool set, stops unneeded ones, and acts on a backend as a whole: on
//! its process by the mux, on its conversations here.

use std::time::Duration;

use tracing::{debug, info};

use super::Copilot;
use crate::core::{
    copilot::tools::tool_set::ToolSet,
    event::BackendId,
    mux::{
        Mux,
        failure::Failure,
        pool::{
            backend::{Backend, Idling, NewBackend, Role},
            capacity::{StartPlace, Startable, no_room},
            lifecycle::LifecycleState,
        },
    },
};

impl Copilot {
    /// The partition for this tool set; started if it does not exist.
    pub(super) fn partition(&mut self, mux: &mut Mux, set: &ToolSet) -> Result<BackendId, Failure> {
        if set.is_all() {
            return Ok(self.primary);
        }
        let known = self.partitions.iter().find(|(_, it)| it.spare.is_none() && it.set == *set);
        let known = known.map(|(id, _)| id);
        // A failed one gives its reason to the request; one that has failed to start gets another chance.
        let is_startable =
            |it: &Backend| it.life.state() == LifecycleState::Stopped || it.life.has_failed_to_start();
        if let Some(known) = known.filter(|id| !mux.backend(*id).is_none_or(is_startable)) {
            return Ok(known);
        }
        // A spare becomes its process without a further place.
        if self.spare_with(mux, set).is_none() {
            self.make_room(mux)?;
        }
        let id = known.unwrap_or_else(|| {
            // A backend whose crashes are long ago is forgotten.
            mux.backends().ids().into_iter().for_each(|it| self.forget(mux, it));
            debug!(%set, "made a partition");
            let server = self.server;
            let name = format!("partition \"{}\" of {}", set.shown(), mux.server(server).name);
            let new = NewBackend { server, role: Role::Partition, name, alias: set.to_string() };
            let now = mux.now();
            let id = mux.backends_mut().add(new, now);
            self.add_partition(mux, id, set.clone(), None);
            id
        });
        let now = mux.now();
        if let Some(backend) = mux.backend_mut(id) {
            backend.life.try_again(now);
        }
        mux.start(id);
        self.start_waiting(mux);
        Ok(id)
    }

    /// Makes room for one more process, if necessary by stopping an idle one.
    fn make_room(&mut self, mux: &mut Mux) -> Result<(), Failure> {
        if mux.has_room(self.server) {
            return Ok(());
        }
        let Some(idle) = Self::dispensable(mux) else { return Err(no_room(mux.server(self.server))) };
        info!(backend = mux.name_of(idle), "stopped an idle partition to make room");
        self.stop(mux, idle, "to make room for another partition");
        Ok(())
    }

    /// Stops unneeded processes until they fit into a lower `max_processes`.
    pub(crate) fn shrink(&mut self, mux: &mut Mux) {
        let server = mux.server(self.server);
        if !server.shrinks {
            return;
        }
        let most = server.max_processes();
        while mux.n_accepting(self.server) > most {
            if let Some(id) = Self::dispensable(mux) {
                info!(backend = mux.name_of(id), "stopped: more processes than max_processes");
                self.stop(mux, id, SMALLER);
            } else if let Some(id) = last_waiting(mux) {
                self.deny_room(mux, id);
            } else {
                return;
            }
        }
        mux.note_shrunk(self.server);
    }

    fn deny_room(&mut self, mux: &mut Mux, id: BackendId) {
        let failure =
            Failure { partition: Some(mux.name_of(id).to_owned()), ..no_room(mux.server(self.server)) };
        self.drop_backend(mux, id);
        mux.deny(id, SMALLER, &failure);
        self.settle_dropped(mux);
        self.forget(mux, id);
    }

    /// The first backend to stop: a spare, or the partition that is idle for the longest time.
    fn dispensable(mux: &Mux) -> Option<BackendId> {
        let spare = mux.backends().iter().find(|it| it.is_spare() && it.accepts()).map(|it| it.id);
        spare.or_else(|| longest_idle(mux))
    }

    /// Without an idle time, a partition ends with its last conversation.
    pub(super) fn idling(&self, mux: &Mux, id: BackendId) -> Idling {
        let is_bound = self.conversations.count(id) > 0;
        if is_bound && mux.idle_timeout() == Duration::ZERO { Idling::GoesOn } else { Idling::Ends }
    }

    /// Starts waiting processes, as far as there is room. A spare becomes the process of a fitting backend.
    pub(crate) fn start_waiting(&mut self, mux: &mut Mux) {
        if mux.clients().is_shut_down() {
            for id in mux.due_to_start().into_iter().filter(|it| self.has(mux, *it)).collect::<Vec<_>>() {
                self.stop_backend(mux, id, "the editor is at its end");
            }
            return;
        }
        let Startable { mut room, due } = mux.startable(self.server);
        for (id, place) in due {
            let spare = self.spare_for(mux, id);
            let takes = usize::from(place == StartPlace::Needed && spare.is_none());
            if takes <= room {
                room -= takes;
                self.begin_process(mux, id, spare);
            }
        }
    }

    /// Starts a process of a backend, or gives it that of a spare.
    fn begin_process(&mut self, mux: &mut Mux, id: BackendId, spare: Option<BackendId>) {
        if id == self.primary {
            self.modes.begin();
        }
        if let Some(spare) = spare {
            return self.adopt_spare(mux, id, spare);
        }
        match mux.spawn(id) {
            Ok(()) => self.begin_partition(mux, id),
            Err(failure) => self.fail_backend(mux, id, &failure),
        }
    }

    /// Notes new and ended needs.
    pub(super) fn note_changes(&mut self, mux: &mut Mux) {
        if !mux.requests().have_changed() && !self.conversations.have_changed() {
            return self.shrink(mux);
        }
        let owing = mux.note_all_debts();
        if owing.iter().any(|id| mux.is_to_be_replaced(*id)) {
            self.renew(mux);
        }
        let mut changed = self.conversations.take_changed();
        changed.extend(owing);
        for id in changed {
            self.note_use(mux, id);
            self.forget(mux, id);
        }
        self.shrink(mux);
    }

    /// Notes that a partition may be needed or unneeded.
    pub(super) fn note_use(&self, mux: &mut Mux, id: BackendId) {
        let Some(backend) = mux.backend(id).filter(|it| it.role == Role::Partition) else { return };
        let is_busy = mux.is_busy(id);
        let idle_since = if is_busy { None } else { backend.idle_since.or(Some(mux.now())) };
        let idling = self.idling(mux, id);
        if let Some(backend) = mux.backend_mut(id) {
            (backend.idle_since, backend.idling) = (idle_since, idling);
        }
    }

    /// Forgets a partition without a process and conversations, unless it crashed recently: a new one would have a
    /// full restart budget.
    pub(super) fn forget(&mut self, mux: &mut Mux, id: BackendId) {
        let window = mux.server(self.server).settings.policy.restart_window;
        let is_bare = |it: &Backend| {
            !it.is_primary()
                && it.life.state() == LifecycleState::Stopped
                && !it.life.is_alive()
                && !it.life.has_died(mux.now(), window)
        };
        let is_bound = || self.conversations.iter().any(|(_, it)| it.backend == id);
        if mux.backend(id).is_some_and(is_bare) && !is_bound() {
            self.remove_backend(mux, id);
        }
    }

    pub(super) fn remove_backend(&mut self, mux: &mut Mux, id: BackendId) {
        mux.backends_mut().remove(id);
        self.partitions.remove(id);
    }

    /// Stops an unneeded process. The next one gets its state.
    pub(crate) fn stop(&mut self, mux: &mut Mux, id: BackendId, why: &'static str) {
        self.stop_backend(mux, id, why);
        self.start_waiting(mux);
    }

    fn stop_backend(&mut self, mux: &mut Mux, id: BackendId, why: &'static str) {
        if mux.backend(id).is_none() {
            return;
        }
        self.drop_backend(mux, id);
        mux.stop(id, why);
        self.settle_dropped(mux);
        self.forget(mux, id);
    }

    /// Fails a backend with its open and queued requests.
    pub(crate) fn fail_backend(&mut self, mux: &mut Mux, id: BackendId, failure: &Failure) {
        if mux.backend(id).is_none() {
            return;
        }
        if mux.backend(id).is_some_and(Backend::is_spare) {
            self.note_lost_spare(mux);
        }
        self.drop_backend(mux, id);
        mux.fail_backend(id, failure);
        self.settle_dropped(mux);
        self.start_waiting(mux);
        mux.on_shutdown_progress();
    }

    /// Starts a backend, or replaces its process.
    pub(crate) fn restart(&mut self, mux: &mut Mux, id: BackendId) -> Result<(), Failure> {
        let is_stopped = mux.backend(id).is_some_and(|it| !it.accepts());
        if is_stopped && self.partitions.set(id).is_some_and(|it| self.spare_with(mux, it).is_none()) {
            self.make_room(mux)?;
        }
        mux.reset_restarts(id);
        self.replace(mux, id);
        Ok(())
    }

    /// Replaces the process.
    pub(crate) fn replace(&mut self, mux: &mut Mux, id: BackendId) {
        // Another spare follows then.
        if mux.backend(id).is_some_and(Backend::is_spare) {
            return self.stop(mux, id, "another process replaces it");
        }
        let again = mux.replace(id);
        self.note_asked_again(mux, &again);
        self.start_waiting(mux);
    }

    /// Replaces the processes that are due and have no open request, or cannot wait longer.
    pub(crate) fn renew(&mut self, mux: &mut Mux) {
        for id in mux.due_renewals().into_iter().filter(|it| self.has(mux, *it)).collect::<Vec<_>>() {
            mux.log_renewal(id);
            self.replace(mux, id);
        }
    }

    /// Stops listening to a process: its turns end, and histories stay for the next one.
    fn drop_backend(&mut self, mux: &mut Mux, id: BackendId) {
        if let Some(partition) = self.partitions.get_mut(id) {
            partition.restores = super::restore::Restores::default();
        }
        self.drop_turns(mux, id);
        self.conversations.detach(id, |_| false);
    }
}

/// Why a partition without room is stopped.
const SMALLER: &str = "max_processes is lower";

/// The last partition that waits for room.
fn last_waiting(mux: &Mux) -> Option<BackendId> {
    let waits = |it: &&Backend| !it.is_primary() && it.life.state() == LifecycleState::Waiting;
    mux.backends().iter().filter(waits).map(|it| it.id).max()
}

/// The partition that is idle for the longest time.
fn longest_idle(mux: &Mux) -> Option<BackendId> {
    let idle = mux.backends().iter().filter(|it| it.accepts() && !mux.is_busy(it.id));
    idle.filter_map(|it| Some((it.idle_since?, it.id))).min().map(|(_, id)| id)
}
