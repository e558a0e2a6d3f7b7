//! Restricts every partition to its tools: sends projections of the catalog, and removes tools outside a set.
//!
//! **A partition takes no turn while it offers a tool outside its set**: its turns are queued until its answer has
//! shown that it does not.

use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{
    agents::{self, TERMINAL, team as words},
    config::{Config, Delegation},
    core::{
        copilot::{
            Copilot,
            routes::Tools,
            tools::{
                catalog::{Catalog, outside},
                tool_set::{BuiltinToolsFor, ToolSet},
            },
        },
        event::{BackendId, ProcessId},
        mux::{
            Mux,
            failure::{Cause, Failure, reason},
            pool::backend::{Backend, Role},
            requests::Owner,
        },
        purpose::{CopilotPurpose, Purpose, ToolChange},
    },
    rpc::Frame,
};

/// How often lspool removes tools before it stops the partition.
const CORRECTIONS: u8 = 4;

impl Copilot {
    /// Holds restricted partitions while the primary decides about a change: their next turn must see it.
    pub(super) fn tool_change_begun(&mut self, mux: &mut Mux) {
        self.catalog.undecided += 1;
        self.sync_holds(mux);
    }

    /// Handles the primary's decision about a change.
    pub(in crate::core::copilot) fn tool_change_decided(&mut self, mux: &mut Mux) {
        self.catalog.undecided = self.catalog.undecided.saturating_sub(1);
        if self.catalog.undecided == 0 {
            self.sync_holds(mux);
            for id in self.backends(mux).map(|it| it.id).collect::<Vec<_>>() {
                self.flush(mux, id);
            }
            self.follow_catalog(mux);
        }
    }

    /// Handles a change of the catalog by the editor.
    pub(in crate::core::copilot) fn on_tools(
        &mut self,
        mux: &mut Mux,
        tools: Tools,
        owner: Owner,
        frame: &Frame,
    ) {
        let params = frame.params().unwrap_or(b"{}");
        let change = match tools {
            Tools::Register => ToolChange::register(params),
            Tools::Unregister => ToolChange::unregister(params),
            Tools::Status => ToolChange::status(params),
        };
        self.send_tool_change(mux, owner, change, frame);
    }

    /// Sends a change of the catalog to the primary, which decides.
    pub(super) fn send_tool_change(
        &mut self,
        mux: &mut Mux,
        owner: Owner,
        change: ToolChange,
        frame: &Frame,
    ) {
        self.tool_change_begun(mux);
        let purpose = Purpose::Copilot(CopilotPurpose::Tools(change));
        mux.send_to_backend(self.primary, owner, purpose, frame);
        self.settle_dropped(mux);
    }

    /// Handles the primary's answer to a change of the catalog.
    pub(in crate::core::copilot) fn on_tools_answered(
        &mut self,
        mux: &mut Mux,
        change: &ToolChange,
        accepted: bool,
    ) {
        if accepted {
            self.catalog.apply(change);
            let partitions: Vec<BackendId> = Self::ready_partitions(mux);
            for &id in &partitions {
                let call = self.partitions.set(id).and_then(|it| change.projected(it));
                self.project(mux, id, call);
                self.project_builtin_tools(mux, id);
            }
            self.on_named_statuses(mux, change, &partitions);
        }
        self.tool_change_decided(mux);
    }

    /// The partitions that follow a change of the catalog.
    pub(super) fn ready_partitions(mux: &Mux) -> Vec<BackendId> {
        let follows = |it: &&Backend| it.role == Role::Partition && it.is_ready();
        mux.backends().iter().filter(follows).map(|it| it.id).collect()
    }

    /// Sends the whole catalog to a new process.
    pub(in crate::core::copilot) fn project_all(&mut self, mux: &mut Mux, id: BackendId) {
        let Some(set) = self.partitions.set(id) else { return };
        let calls = self.catalog.projection(set);
        self.project(mux, id, calls);
        self.project_builtin_tools(mux, id);
    }

    /// Registers lspool's tools for the conversations of a process: they replace tools of the editor with their
    /// names.
    fn project_builtin_tools(&mut self, mux: &mut Mux, id: BackendId) {
        let Some(set) = self.partitions.set(id) else { return };
        let server = self.server(mux);
        let through = server.settings.delegation;
        let tools = builtin_tools(set.used_by(), &server.config, through, &self.catalog);
        self.project(mux, id, tools.map(|it| ("conversation/registerTools", it)));
    }

    /// Updates the descriptions for leads after a change of the agents.
    pub(crate) fn describe_agents(&mut self, mux: &mut Mux) {
        let is_lead = |id: BackendId| self.partitions.served(id).is_some_and(ToolSet::is_lead);
        let leads: Vec<BackendId> =
            Self::ready_partitions(mux).into_iter().filter(|id| is_lead(*id)).collect();
        for id in leads {
            self.project_builtin_tools(mux, id);
        }
    }

    fn project(
        &mut self,
        mux: &mut Mux,
        id: BackendId,
        calls: impl IntoIterator<Item = (&'static str, Vec<u8>)>,
    ) {
        for (method, params) in calls {
            self.change_partition(mux, id, |it| it.projecting += 1);
            mux.ask_backend(id, Purpose::Copilot(CopilotPurpose::Project), method, &params);
        }
    }

    /// Handles the answer to a projection, with the offered tools.
    pub(in crate::core::copilot) fn on_projected(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        answer: &Frame,
    ) {
        let id = process.backend;
        self.change_partition(mux, id, |it| it.projecting = it.projecting.saturating_sub(1));
        if !mux.backend(id).is_some_and(Backend::accepts) {
            return;
        }
        let Some(offered) = answer.result() else {
            let why = reason(answer);
            warn!(backend = mux.name_of(id), why, "server refused a projection of the catalog");
            return self.cannot_restrict(mux, id, &why);
        };
        let Some(partition) = self.partitions.get(id) else { return };
        let extra = outside(offered, &partition.set);
        if id == self.primary {
            self.learn_offered(mux, offered);
        }
        let Some(partition) = self.partitions.get_mut(id) else { return };
        if !extra.is_empty() && partition.corrections >= CORRECTIONS {
            return self.cannot_restrict(mux, id, &format!("the server still offers {}", extra.join(", ")));
        }
        if !extra.is_empty() {
            partition.corrections += 1;
            info!(backend = mux.name_of(id), ids = extra.join(","), "removed tools outside the set");
            let call = ToolChange::Unregister(extra).projected(&partition.set);
            return self.project(mux, id, call);
        }
        if partition.projecting == 0 {
            partition.corrections = 0;
            if id != self.primary && partition.spare.is_none() {
                self.note_offered(mux, id, offered);
            }
            self.flush(mux, id);
        }
    }

    /// Stops a partition that would have more tools than its agents may use.
    fn cannot_restrict(&mut self, mux: &mut Mux, id: BackendId, why: &str) {
        if id == self.primary {
            return self.flush(mux, id);
        }
        let name = mux.name_of(id).to_owned();
        let message = format!("{name} was stopped because lspool cannot restrict its tools: {why}");
        let failure = Failure { cause: Cause::Unrestricted, partition: Some(name), message, retry: false };
        self.fail_backend(mux, id, &failure);
    }
}

/// The parameters that register lspool's tools for a partition. Without them, those that unregister a tool, if it is
/// the editor's.
fn builtin_tools(
    used_by: BuiltinToolsFor,
    config: &Config,
    through: Delegation,
    catalog: &Catalog,
) -> Option<Vec<u8>> {
    let tools = match (used_by, through) {
        (BuiltinToolsFor::Nobody, _) => return None,
        (BuiltinToolsFor::Member, _) => words::member_tools(),
        (BuiltinToolsFor::Lead, Delegation::DelegateTask) => {
            std::iter::once(agents::tool(&config.agents)).chain(words::tools(&config.agents)).collect()
        }
        (BuiltinToolsFor::Lead, Delegation::RunInTerminal) => {
            let mut tool: Value = serde_json::from_slice(catalog.tool(TERMINAL)?).ok()?;
            let usage = agents::usage(&agents::list(&config.agents));
            let said = tool["description"].as_str().unwrap_or_default();
            tool["description"] = json!(format!("{said}{usage}"));
            vec![tool]
        }
    };
    Some(json!({"tools": tools}).to_string().into_bytes())
}
