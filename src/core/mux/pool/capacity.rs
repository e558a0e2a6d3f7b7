//! Decides how many processes of a server may run, and which backends get one.

use std::collections::BTreeSet;

use crate::core::{
    event::{BackendId, ServerId},
    mux::{
        Mux,
        failure::{Cause, Failure},
        pool::{backend::Backend, lifecycle::LifecycleState},
        servers::Server,
    },
};

/// The processes to start.
#[derive(Debug)]
pub(crate) struct Startable {
    /// How many more processes may run.
    pub(crate) room: usize,
    /// The backends in order: those whose process died and left its place, then those that wait for a place.
    pub(crate) due: Vec<(BackendId, StartPlace)>,
}

/// Whether a backend has a place in `max_processes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartPlace {
    Kept,
    Needed,
}

impl Mux {
    /// Starts the due processes, as far as there is room.
    pub(crate) fn start_waiting(&mut self) {
        if self.clients.is_shut_down() {
            for id in self.due_to_start() {
                self.stop(id, "the session has ended");
            }
            return;
        }
        self.start_waiting_of(|_| true);
    }

    /// The same for all servers but this one, whose processes a higher owner starts.
    pub(crate) fn start_waiting_beside(&mut self, other: ServerId) {
        if self.clients.is_shut_down() {
            let is_meant = |it: &BackendId| self.backend(*it).is_some_and(|it| it.server != other);
            for id in self.due_to_start().into_iter().filter(is_meant).collect::<Vec<_>>() {
                self.stop(id, "the editor is at its end");
            }
            return;
        }
        self.start_waiting_of(|it| it != other);
    }

    pub(in crate::core::mux) fn start_waiting_of(&mut self, is_meant: impl Fn(ServerId) -> bool) {
        for server in self.servers.ids().filter(|it| is_meant(*it)) {
            let Startable { mut room, due } = self.startable(server);
            for (id, place) in due {
                let takes = usize::from(place == StartPlace::Needed);
                if takes > room {
                    continue;
                }
                room -= takes;
                if let Err(failure) = self.spawn(id) {
                    self.fail_backend(id, &failure);
                    self.on_shutdown_progress();
                }
            }
        }
    }

    /// The backends whose process may start, if there is room.
    pub(crate) fn due_to_start(&self) -> Vec<BackendId> {
        let now = self.now();
        self.backends.iter().filter(|it| it.life.is_due(now)).map(|it| it.id).collect()
    }

    /// The processes of a server to start.
    pub(crate) fn startable(&self, server: ServerId) -> Startable {
        let now = self.now();
        let of_server = || self.backends.iter().filter(|it| it.server == server);
        let most = self.servers.get(server).max_processes();
        let held = of_server().filter(|it| it.holds_a_place()).count();
        let due = of_server().filter(|it| it.life.is_due(now));
        let (kept, needed): (Vec<&Backend>, Vec<&Backend>) =
            due.partition(|it| matches!(it.life.state(), LifecycleState::Restarting { .. }));
        let kept = kept.into_iter().map(|it| (it.id, StartPlace::Kept));
        let needed = needed.into_iter().map(|it| (it.id, StartPlace::Needed));
        Startable { room: most.saturating_sub(held), due: kept.chain(needed).collect() }
    }

    /// Whether one more backend of a server may have a process.
    pub(crate) fn has_room(&self, server: ServerId) -> bool {
        self.n_accepting(server) < self.servers.get(server).max_processes()
    }

    /// How many backends of a server have, or will have, a process.
    pub(crate) fn n_accepting(&self, server: ServerId) -> usize {
        self.backends.iter().filter(|it| it.server == server && it.accepts()).count()
    }

    /// How many backends of a server have a place in `max_processes`.
    fn n_held(&self, server: ServerId) -> usize {
        self.backends.iter().filter(|it| it.server == server && it.holds_a_place()).count()
    }

    /// Notes that `max_processes` is lower, and the backends fit again.
    pub(crate) fn note_shrunk(&mut self, server: ServerId) {
        let held = self.n_held(server);
        let server = self.servers.get_mut(server);
        server.shrinks &= held > server.max_processes();
    }

    /// Whether a backend is needed, because it owes answers such as that of a turn.
    pub(crate) fn is_busy(&self, id: BackendId) -> bool {
        self.requests.n_owed_by(id) > 0
    }

    /// Notes which backends owe answers, or owe none.
    pub(crate) fn note_all_debts(&mut self) -> BTreeSet<BackendId> {
        let owing = self.requests.take_changed();
        for id in &owing {
            self.note_debts(*id);
        }
        owing
    }

    /// Starts a backend, or replaces its process.
    pub(crate) fn restart(&mut self, id: BackendId) -> Result<(), Failure> {
        let Some(backend) = self.backend(id) else { return Ok(()) };
        if !backend.accepts() && !self.has_room(backend.server) {
            return Err(no_room(self.servers.of(backend)));
        }
        self.reset_restarts(id);
        self.note_wanted_restart(id);
        self.replace(id);
        self.start_waiting();
        Ok(())
    }
}

/// Why one more process cannot start.
pub(crate) fn no_room(server: &Server) -> Failure {
    let (most, name) = (server.max_processes(), &server.name);
    if most == 1 {
        let message = format!(
            "no room for another process: the only one serves the editor; raise max_processes in \
             [server.{name}]"
        );
        return Failure::new(Cause::Limit, message);
    }
    let message = format!(
        "no room for another process: all {most} processes of {name} are busy; wait for a turn to end, or raise \
         max_processes in [server.{name}]"
    );
    Failure { retry: true, ..Failure::new(Cause::Limit, message) }
}
