//! Processes kept ready: started, signed in, told the session, without tools. A partition that is new, or a backend
//! whose process has died, takes one in milliseconds instead of starting one.
//!
//! A spare is a backend of its own until it is taken: the shell is then told that its process is another one's. Only
//! a quiet one is taken, of which nothing is owed in either direction.
//!
//! Starting one is what keeps a machine busiest, and nobody waits for it: it comes after whatever else has just
//! started, the process that took the last spare included.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use tracing::{debug, info};

use crate::core::{Backend, PRIMARY, Proxy, ToolSet};
use crate::{
    core::{
        event::{BackendId, Effect, Effects, ProcessId},
        lifecycle::{Handshake, State},
        processes::BRINGS,
        requests::{Owner, To},
    },
    rpc::path,
};

/// How long a process that serves has been ready before a spare is started. Its first answer is waited for.
const CALM: Duration = Duration::from_secs(1);

/// Which of the capabilities that bring tools of their own a process is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kit([bool; BRINGS.len()]);

impl Kit {
    /// What a process with this set is told of by an editor that has said this in `initialize`.
    pub(crate) fn of(set: &ToolSet, initialize: &[u8]) -> Kit {
        let offers = |capability: &str| {
            path(initialize, &["initializationOptions", "copilotCapabilities", capability]).is_some()
                || path(initialize, &["capabilities", "copilot", capability]).is_some()
        };
        Kit(BRINGS.map(|(capability, tool)| offers(capability) && set.contains(tool)))
    }

    /// Whether it holds the capability that brings this tool.
    pub(crate) fn contains(self, tool: &str) -> bool {
        BRINGS.iter().zip(self.0).any(|((_, it), held)| held && *it == tool)
    }
}

impl Proxy {
    /// Starts and stops spares, so that there are as many of each kind as are wanted, as far as there is room.
    pub(crate) fn keep_spares(&mut self, now: Instant, out: &mut Effects) {
        let Some(server) = self.server.as_ref().filter(|_| self.backends.have_changed()) else { return };
        let (wanted, most) = (server.settings.warm_spares, server.settings.max_processes);
        let is_ready = self.backend(PRIMARY).is_some_and(Backend::is_ready) && self.session.initialized;
        if wanted == 0 && self.backends.values().all(|it| it.spare.is_none()) || self.phase.is_shut_down() {
            return;
        }
        self.forget_dead_spares();
        self.stop_surplus(wanted, now, out);
        if !is_ready || !self.is_copilot() {
            return;
        }
        if !self.is_calm(now) {
            return;
        }
        for kit in self.kits(Backend::accepts) {
            let have = self.backends.values().filter(|it| it.spare == Some(kit) && it.accepts()).count();
            let in_use = self.backends.values().filter(|it| it.accepts() || it.life.is_alive()).count();
            if have < wanted && in_use < most && self.may_start_spares(now) {
                self.start_spare(kit, now, out);
            }
        }
    }

    /// Whether what serves has had its time to itself. Else `next_spare` is when it will have, if that is known.
    fn is_calm(&mut self, now: Instant) -> bool {
        let (mut starts, mut calm) = (false, now);
        for it in self.backends.values().filter(|it| it.spare.is_none()) {
            match it.life.state() {
                State::Waiting | State::Spawning { .. } | State::Initializing { .. } => starts = true,
                State::Ready | State::Degraded => calm = calm.max(it.life.since() + CALM),
                State::Stopped | State::Restarting { .. } | State::Failed => {}
            }
        }
        self.next_spare = Some(calm).filter(|at| *at > now && !starts);
        calm == now && !starts
    }

    /// The machine may have come to rest.
    pub(crate) fn on_spare_deadline(&mut self, now: Instant) {
        if self.next_spare.take_if(|at| *at <= now).is_some() {
            self.backends.note_change();
        }
    }

    /// Spares that die one after another are not replaced for ever.
    fn may_start_spares(&mut self, now: Instant) -> bool {
        let Some(policy) = self.server.as_ref().map(|it| &it.settings.policy) else { return false };
        self.spare_deaths.allows_another(now, policy)
    }

    pub(crate) fn note_lost_spare(&mut self, now: Instant) {
        let Some(server) = &self.server else { return };
        self.spare_deaths.spend(now, &server.settings.policy, 0);
    }

    fn start_spare(&mut self, kit: Kit, now: Instant, out: &mut Effects) {
        self.last_backend += 1;
        let id = BackendId(self.last_backend);
        let server = self.server.as_ref().map_or("", |it| &it.name);
        let mut spare = Backend::new(id, format!("spare {} of {server}", id.0), ToolSet::none(), now);
        debug!(spare.name, ?kit, "keeping a process ready");
        spare.spare = Some(kit);
        spare.life.start(now);
        self.backends.insert(id, spare);
        self.start_waiting(now, out);
    }

    /// Fewer may be wanted than before, and none of a kind that nothing is of any more.
    fn stop_surplus(&mut self, wanted: usize, now: Instant, out: &mut Effects) {
        let kinds = self.kits(|_| true);
        let mut have: BTreeMap<Kit, usize> = BTreeMap::new();
        let mut surplus = Vec::new();
        for it in self.backends.values().filter(|it| it.accepts()) {
            let Some(kit) = it.spare else { continue };
            let n = have.entry(kit).or_default();
            *n += 1;
            surplus.extend((*n > wanted || !kinds.contains(&kit)).then_some(it.id));
        }
        for id in surplus {
            self.stop(id, "there are enough spares", now, out);
        }
    }

    /// Of which kinds these of the backends are that serve.
    fn kits(&self, which: impl Fn(&Backend) -> bool) -> BTreeSet<Kit> {
        let serving = self.backends.values().filter(|it| it.spare.is_none() && which(it));
        serving.map(|it| Kit::of(&it.set, &self.session.initialize)).collect()
    }

    fn forget_dead_spares(&mut self) {
        let is_dead = |it: &&Backend| it.spare.is_some() && !it.accepts() && !it.life.is_alive();
        let dead: Vec<BackendId> = self.backends.values().filter(is_dead).map(|it| it.id).collect();
        for id in dead {
            self.backends.remove(&id);
        }
    }

    /// A spare that can take the place of a process of this backend.
    pub(crate) fn spare_for(&self, id: BackendId) -> Option<BackendId> {
        let backend = self.backend(id).filter(|it| it.spare.is_none())?;
        let is_first = id == PRIMARY && !self.session.is_open;
        if is_first { None } else { self.spare_with(&backend.set) }
    }

    /// A spare that can serve this set at once.
    pub(crate) fn spare_with(&self, set: &ToolSet) -> Option<BackendId> {
        // Its MCP servers would have to be started first, and that is what takes time.
        if self.session.mcp_servers().iter().any(|it| set.wants_mcp_server(it)) {
            return None;
        }
        let kit = Kit::of(set, &self.session.initialize);
        let fits = |it: &&Backend| {
            let is_well = it.life.state() == State::Ready && !it.is_condemned;
            it.spare == Some(kit) && is_well && self.is_quiet(it.process())
        };
        self.backends.values().find(fits).map(|it| it.id)
    }

    fn is_quiet(&self, process: ProcessId) -> bool {
        let open = self.requests.iter().any(|(_, it)| {
            it.to == To::Process(process) || matches!(&it.owner, Owner::Backend(by, _) if *by == process)
        });
        !open && self.backend(process.backend).is_some_and(Backend::gate_is_empty)
    }

    /// The process of a spare is this backend's from now on.
    pub(crate) fn adopt_spare(&mut self, id: BackendId, spare: BackendId, now: Instant, out: &mut Effects) {
        let Some((theirs, pid)) = self.backend(spare).map(|it| (it.process(), it.pid)) else { return };
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.life.spawn(now, Handshake::Own, now);
        backend.begin(now);
        backend.pid = pid;
        backend.life.spawned(now);
        backend.life.ready(now);
        backend.failure_told = false;
        let (process, name) = (backend.process(), backend.name.clone());
        info!(backend = name, "takes a process that was kept ready");
        out.push(Effect::Adopt { spare: theirs, process });
        self.registrations.rename(theirs, process);
        self.diagnostics.rename(theirs, process);
        self.tokens.rename(spare, id);
        self.backends.remove(&spare);
        self.project_all(id, out);
        self.begin_reconciling(process, b"{}", out);
        self.flush(id, out);
    }
}
