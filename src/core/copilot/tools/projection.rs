//! Keeping every partition to its tools: projections of the catalogue, and taking away what lies outside a set.
//!
//! **A partition takes no turn while it offers a tool outside its set**: its gate stays shut until its own answer
//! has shown that it does not.

use std::time::Instant;

use tracing::{info, warn};

use crate::core::{Cause, Failure, PRIMARY, Proxy, subagents::own_tools};
use crate::{
    core::{
        catalogue::{ToolChange, outside},
        event::{BackendId, Effects, ProcessId},
        failure::reason,
        requests::Purpose,
        route::Tools,
    },
    rpc::Frame,
};

/// How often a partition is told to drop tools before it counts as impossible to restrict.
const CORRECTIONS: u8 = 4;

impl Proxy {
    pub(crate) fn tool_change(tools: Tools, params: &[u8]) -> ToolChange {
        match tools {
            Tools::Register => ToolChange::register(params),
            Tools::Unregister => ToolChange::unregister(params),
            Tools::Status => ToolChange::status(params),
        }
    }

    /// While the primary has not decided about a change, restricted partitions take no turns: the next one must
    /// see the change.
    pub(crate) fn tool_change_undecided(&mut self, begins: bool, out: &mut Effects) {
        let undecided = &mut self.catalogue.undecided;
        *undecided = if begins { *undecided + 1 } else { undecided.saturating_sub(1) };
        if *undecided == 0 {
            for id in self.backends.keys().copied().collect::<Vec<_>>() {
                self.flush(id, out);
            }
            self.follow_catalogue(out);
        }
    }

    /// The primary has answered a change of the catalogue.
    pub(crate) fn on_tools_answered(&mut self, change: &ToolChange, accepted: bool, out: &mut Effects) {
        if accepted {
            self.catalogue.apply(change);
            let partitions: Vec<BackendId> = self
                .backends
                .values()
                .filter(|it| it.id != PRIMARY && it.spare.is_none() && it.is_ready())
                .map(|it| it.id)
                .collect();
            for &id in &partitions {
                let call = self.backend(id).and_then(|it| change.projected(&it.set));
                self.project(id, call, out);
                self.project_own_tools(id, out);
            }
            self.on_named_statuses(change, &partitions, out);
        }
        self.tool_change_undecided(false, out);
    }

    /// Tells a fresh process the whole catalogue.
    pub(crate) fn project_all(&mut self, id: BackendId, out: &mut Effects) {
        let Some(backend) = self.backend(id) else { return };
        let calls = self.catalogue.projection(&backend.set);
        self.project(id, calls, out);
        self.project_own_tools(id, out);
    }

    /// Tells a process of the tools that lspool has for its conversations: whatever the editor has under their names, here
    /// they are lspool's.
    fn project_own_tools(&mut self, id: BackendId, out: &mut Effects) {
        let (Some(server), Some(backend)) = (&self.server, self.backend(id)) else { return };
        let through = server.settings.delegation;
        let tools = own_tools(backend.set.own(), &server.config, through, &self.catalogue);
        self.project(id, tools.map(|it| ("conversation/registerTools", it)), out);
    }

    /// The agents have changed, and with them what leads are told of them.
    pub(crate) fn describe_agents(&mut self, out: &mut Effects) {
        let leads =
            self.backends.values().filter(|it| it.set.is_lead() && it.spare.is_none() && it.is_ready());
        for id in leads.map(|it| it.id).collect::<Vec<_>>() {
            self.project_own_tools(id, out);
        }
    }

    pub(crate) fn project(
        &mut self,
        id: BackendId,
        calls: impl IntoIterator<Item = (&'static str, Vec<u8>)>,
        out: &mut Effects,
    ) {
        for (method, params) in calls {
            if let Some(backend) = self.backends.get_mut(&id) {
                backend.projecting += 1;
            }
            self.ask_backend(id, Purpose::Project, method, &params, out);
        }
    }

    /// A process has answered a projection with what it offers now.
    pub(crate) fn on_projected(
        &mut self,
        now: Instant,
        process: ProcessId,
        answer: &Frame,
        out: &mut Effects,
    ) {
        let id = process.backend;
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.projecting = backend.projecting.saturating_sub(1);
        if !backend.accepts() {
            return;
        }
        let Some(offered) = answer.result() else {
            let why = reason(answer);
            warn!(backend = backend.name, why, "a projection of the tool catalogue was refused");
            return self.cannot_restrict(now, id, &why, out);
        };
        let extra = outside(offered, &backend.set);
        if id == PRIMARY {
            self.learn_offered(offered, out);
        }
        let Some(backend) = self.backends.get_mut(&id) else { return };
        if !extra.is_empty() && backend.corrections >= CORRECTIONS {
            return self.cannot_restrict(now, id, &format!("it keeps offering {}", extra.join(", ")), out);
        }
        if !extra.is_empty() {
            backend.corrections += 1;
            info!(backend = backend.name, ids = extra.join(","), "taking away tools outside the set");
            let call = ToolChange::Unregister(extra).projected(&backend.set);
            return self.project(id, call, out);
        }
        if backend.projecting == 0 {
            backend.corrections = 0;
            if id != PRIMARY && backend.spare.is_none() {
                self.note_offered(id, offered, out);
            }
            self.flush(id, out);
        }
    }

    /// Rather no partition than one with more tools than its agents may use.
    fn cannot_restrict(&mut self, now: Instant, id: BackendId, why: &str, out: &mut Effects) {
        let Some(backend) = self.backend(id) else { return };
        if id == PRIMARY {
            return self.flush(id, out);
        }
        let name = backend.name.clone();
        let message = format!("{name} cannot be kept to its tools and is stopped: {why}");
        let failure = Failure { cause: Cause::Unrestricted, partition: Some(name), message, retry: false };
        self.give_up(id, now, &failure, out);
    }
}
