//! Spares: processes that are started and signed in, with the session but without tools. A new partition, or a
//! backend whose process died, takes one within milliseconds.
//!
//! A spare is a backend until it is taken: then the shell renames its process. Only a quiet one is taken, without
//! open requests in either direction.
//!
//! A start is expensive for the machine, and nobody waits for that of a spare. So it comes after every other start,
//! that of the process that took the last spare included.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use tracing::debug;

use super::Copilot;
use crate::core::{
    copilot::tools::{brought::SpareKind, tool_set::ToolSet},
    event::{BackendId, ProcessId},
    mux::{
        Mux,
        pool::{
            backend::{Backend, NewBackend, Role},
            lifecycle::{Budget, LifecycleState},
        },
        requests::{Owner, To},
    },
};

/// How long a serving process must have been ready before a spare starts, because a user waits for its first answer.
const CALM: Duration = Duration::from_secs(1);

/// The state of all spares.
#[derive(Debug, Default)]
pub(super) struct Spares {
    /// The crashes of spares.
    deaths: Budget,
    /// When the next spare may start.
    next: Option<Instant>,
    /// Nobody was signed in when a spare was due.
    waits_for_sign_in: bool,
}

impl Copilot {
    /// Starts and stops spares, up to the wanted number of each kind, as far as there is room.
    pub(super) fn keep_spares(&mut self, mux: &mut Mux) {
        let has_come = self.spares.waits_for_sign_in && self.may_start_spares();
        if !mux.backends().have_changed() && !has_come {
            return;
        }
        self.spares.waits_for_sign_in = false;
        let server = mux.server(self.server);
        let (wanted, most) = (server.settings.warm_spares, server.max_processes());
        if wanted == 0 && mux.backends().iter().all(|it| !it.is_spare()) || mux.clients().is_shut_down() {
            return;
        }
        self.forget_dead_spares(mux);
        self.stop_surplus(mux, wanted);
        let is_ready = mux.backend(self.primary).is_some_and(Backend::is_ready);
        if !is_ready || !self.generic_session(mux).is_initialized() || !self.is_calm(mux) {
            return;
        }
        for spare_kind in self.spare_kinds(mux, Backend::accepts) {
            let is_of_kind = |it: &&Backend| self.kind_of_spare(it.id) == Some(spare_kind) && it.accepts();
            let have = mux.backends().iter().filter(is_of_kind).count();
            let in_use = self.backends(mux).filter(|it| it.accepts() || it.life.is_alive()).count();
            let policy = &mux.server(self.server).settings.policy;
            // The budget ends a series of crashes.
            if have >= wanted || in_use >= most || !self.spares.deaths.allows_another(mux.now(), policy) {
                continue;
            }
            match self.may_start_spares() {
                true => self.start_spare(mux, spare_kind),
                false => self.spares.waits_for_sign_in = true,
            }
        }
    }

    /// Whether somebody is signed in, as far as is known: without a sign-in a spare could do nothing.
    pub(crate) fn may_start_spares(&self) -> bool {
        !self.session.may_be_signed_out
    }

    fn kind_of_spare(&self, id: BackendId) -> Option<SpareKind> {
        self.partitions.get(id)?.spare
    }

    /// Whether the serving processes have been ready for long enough. If not, the next spare is due when they will
    /// have been.
    fn is_calm(&mut self, mux: &Mux) -> bool {
        let now = mux.now();
        let (mut starts, mut calm) = (false, now);
        for it in self.backends(mux).filter(|it| !it.is_spare()) {
            match it.life.state() {
                LifecycleState::Waiting
                | LifecycleState::Spawning { .. }
                | LifecycleState::Initializing { .. } => starts = true,
                LifecycleState::Ready | LifecycleState::Degraded => calm = calm.max(it.life.since() + CALM),
                LifecycleState::Stopped | LifecycleState::Restarting { .. } | LifecycleState::Failed => {}
            }
        }
        self.spares.next = Some(calm).filter(|at| *at > now && !starts);
        calm == now && !starts
    }

    /// When the next spare may start.
    pub(super) fn spare_deadline(&self) -> Option<Instant> {
        self.spares.next
    }

    /// Starts spares after the other starts.
    pub(crate) fn on_spare_deadline(&mut self, mux: &mut Mux) {
        let now = mux.now();
        if self.spares.next.take_if(|at| *at <= now).is_some() {
            mux.backends_mut().note_change();
        }
    }

    pub(super) fn note_lost_spare(&mut self, mux: &Mux) {
        self.spares.deaths.spend(mux.now(), &mux.server(self.server).settings.policy, 0);
    }

    fn start_spare(&mut self, mux: &mut Mux, spare_kind: SpareKind) {
        let server = self.server;
        let name = format!("spare {} of {}", mux.backends().next_id().0, mux.server(server).name);
        debug!(name, ?spare_kind, "started a spare");
        let now = mux.now();
        let id =
            mux.backends_mut().add(NewBackend { server, role: Role::Spare, name, alias: String::new() }, now);
        self.add_partition(mux, id, ToolSet::none(), Some(spare_kind));
        mux.start(id);
        self.start_waiting(mux);
    }

    /// Stops spares beyond the wanted number, or of an unneeded kind.
    fn stop_surplus(&mut self, mux: &mut Mux, wanted: usize) {
        let kinds = self.spare_kinds(mux, |_| true);
        let mut have: BTreeMap<SpareKind, usize> = BTreeMap::new();
        let mut surplus = Vec::new();
        for it in mux.backends().iter().filter(|it| it.accepts()) {
            let Some(spare_kind) = self.kind_of_spare(it.id) else { continue };
            let n = have.entry(spare_kind).or_default();
            *n += 1;
            surplus.extend((*n > wanted || !kinds.contains(&spare_kind)).then_some(it.id));
        }
        for id in surplus {
            self.stop(mux, id, "enough spares are ready");
        }
    }

    /// The kinds of these serving backends.
    fn spare_kinds(&self, mux: &Mux, which: impl Fn(&Backend) -> bool) -> BTreeSet<SpareKind> {
        let initialize = self.generic_session(mux).initialize();
        let serving = mux.backends().iter().filter(|it| !it.is_spare() && which(it));
        serving.filter_map(|it| Some(SpareKind::of(self.partitions.set(it.id)?, initialize))).collect()
    }

    fn forget_dead_spares(&mut self, mux: &mut Mux) {
        let is_dead = |it: &&Backend| it.is_spare() && !it.accepts() && !it.life.is_alive();
        let dead: Vec<BackendId> = mux.backends().iter().filter(is_dead).map(|it| it.id).collect();
        for id in dead {
            self.remove_backend(mux, id);
        }
    }

    /// A spare that can replace a process of this backend.
    pub(super) fn spare_for(&self, mux: &Mux, id: BackendId) -> Option<BackendId> {
        let set = self.partitions.served(id)?;
        let is_first = id == self.primary && !self.generic_session(mux).is_open();
        if is_first { None } else { self.spare_with(mux, set) }
    }

    /// A spare that can serve this set at once.
    pub(super) fn spare_with(&self, mux: &Mux, set: &ToolSet) -> Option<BackendId> {
        let session = self.generic_session(mux);
        // It would have to start the MCP servers of the set first, which takes time.
        if self.session.mcp_servers(session).iter().any(|it| set.wants_mcp_server(it)) {
            return None;
        }
        let spare_kind = SpareKind::of(set, session.initialize());
        let fits = |it: &&Backend| {
            let is_well = it.life.state() == LifecycleState::Ready && !it.is_terminated();
            self.kind_of_spare(it.id) == Some(spare_kind) && is_well && is_quiet(mux, it.process())
        };
        mux.backends().iter().find(fits).map(|it| it.id)
    }

    /// Gives a backend the process of a spare.
    pub(super) fn adopt_spare(&mut self, mux: &mut Mux, id: BackendId, spare: BackendId) {
        let Some(process) = mux.adopt(id, spare) else { return };
        let version = self.partitions.get(spare).and_then(|it| it.version.clone());
        self.partitions.remove(spare);
        self.begin_partition(mux, id);
        self.touch_partition(id, version);
        self.project_all(mux, id);
        mux.begin_reconciling(process, b"{}");
        self.flush(mux, id);
    }
}

/// Whether there are no open requests in either direction, and an empty queue.
fn is_quiet(mux: &Mux, process: ProcessId) -> bool {
    let open = mux.requests().iter().any(|(_, it)| {
        it.to == To::Process(process) || matches!(&it.owner, Owner::Backend(by, _) if *by == process)
    });
    !open && mux.backend(process.backend).is_some_and(|it| it.queued().is_empty() && it.feed.is_over())
}
