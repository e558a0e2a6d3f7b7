//! Leads and their sub-agents.
//!
//! A *lead* is a conversation that has the tool `delegate_task`. lspool registers it, in partitions of their own kind, and
//! carries it out: a call is answered at once, and starts a *run* ([`run`]). A run is a client of the pool like the
//! editor: it creates a conversation, in the partition of its tools, which survives crashes as any other does. It has
//! no stream: what it is told is taken out of the effects of each event, and acted on at once ([`view`]).
//!
//! When the lead's turn comes to its end, and there are runs whose results it does not know, the turn *rests*: its `end`
//! is kept back, and its request is held until all runs have ended. Then it is asked further, in a turn of the same
//! id, which is for the editor another [part](super::recovery) of the one that it knows.
//!
//! **To the editor it is one turn**: one `begin`, one `end`, one answer, rounds that are counted on.
//!
//! **A run never outlives the turn that has started it.**

mod run;
mod turn;
mod view;
mod work;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tracing::info;

use self::{run::Run, turn::is_turn_of};
use super::{PRIMARY, Proxy};
use crate::{
    agents::{self, Command, DELEGATE, ORCHESTRATION, TERMINAL, Task},
    config::{AgentConfig, Config, Delegation, SubAgentsConfig},
    core::{
        catalogue::Catalogue,
        event::{BackendId, ClientId, Effect, Effects, Peer, ProcessId},
        requests::Purpose,
        selection::agent_set,
        toolset::ToolSet,
    },
    rpc::{Frame, Patch, RawId, member, path, text},
};

/// All leads whose turn has started runs, and the runs.
#[derive(Debug, Default)]
pub(super) struct Agents {
    leads: BTreeMap<u32, Lead>,
    runs: BTreeMap<u32, Run>,
    last: u32,
    time_limit: Duration,
}

/// How far the turn of a lead has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its model is asked.
    Asked,
    /// The server has ended it, and the editor has not been told.
    Ended,
    /// It waits for its runs.
    Resting,
    /// Nobody waits for its runs any more.
    Over,
}

/// A turn that has started runs.
#[derive(Debug)]
struct Lead {
    conversation: RawId,
    backend: BackendId,
    turn: RawId,
    /// Under which it reports.
    token: Option<RawId>,
    /// In the order in which they were started.
    runs: Vec<u32>,
    /// The results of so many are known to it, or on the way.
    fed: usize,
    /// How often it was told results.
    follow_ups: usize,
    phase: Phase,
    /// There may be something to do for it.
    is_due: bool,
    /// How many of each agent it has started.
    names: BTreeMap<String, usize>,
}

impl Agents {
    fn is_idle(&self) -> bool {
        self.leads.is_empty()
    }

    /// The turn of a conversation that has started runs, and goes on.
    fn lead_of(&self, conversation: &RawId) -> Option<u32> {
        self.leads
            .iter()
            .find(|(_, it)| it.phase != Phase::Over && it.conversation == *conversation)
            .map(|(no, _)| *no)
    }

    /// The run whose conversation, and token, this is.
    fn run_of(&self, conversation: &RawId) -> Option<u32> {
        self.runs.iter().find(|(_, it)| it.conversation == *conversation).map(|(no, _)| *no)
    }

    /// When the first run has had its time.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let runs = self.runs.values().filter(|it| it.is_owed() && it.stop.is_none());
        runs.filter_map(|it| it.started).min().map(|it| it + self.time_limit)
    }
}

/// Parameters that register the tool of leads; none, if it is one of the editor's and that has none.
pub(super) fn delegation(config: &Config, through: Delegation, catalogue: &Catalogue) -> Option<Vec<u8>> {
    let tool = match through {
        Delegation::DelegateTask => agents::tool(&config.agents),
        Delegation::RunInTerminal => {
            let mut tool: Value = serde_json::from_slice(catalogue.tool(TERMINAL)?).ok()?;
            let usage = agents::usage(&agents::list(&config.agents));
            let said = tool["description"].as_str().unwrap_or_default();
            tool["description"] = json!(format!("{said}{usage}"));
            tool
        }
    };
    Some(json!({"tools": [tool]}).to_string().into_bytes())
}

impl Proxy {
    fn limits(&self) -> SubAgentsConfig {
        self.server.as_ref().map_or_else(SubAgentsConfig::default, |it| it.config.subagents.clone())
    }

    /// The tools of a sub-agent: those of its definition, without any that starts others.
    fn sub_agent_set(&self, agent: &AgentConfig) -> ToolSet {
        let set = agent_set(agent);
        let has = |it: &&str| set.contains(it) && (!set.is_open() || self.catalogue.is_clients(it));
        let others: Vec<String> = ORCHESTRATION.iter().copied().filter(has).map(str::to_owned).collect();
        if others.is_empty() {
            return set;
        }
        let denied: Vec<String> = agent.disallowed_tools.iter().cloned().chain(others).collect();
        ToolSet::new(agent.tools.as_deref(), &denied)
    }

    /// A call, or a confirmation, of a tool that starts or steers agents, if lspool is to answer it. Then it is answered.
    pub(super) fn is_orchestration(
        &mut self,
        process: ProcessId,
        wire: &RawId,
        conversation: Option<&RawId>,
        frame: &Frame,
        out: &mut Effects,
    ) -> bool {
        let params = frame.params().unwrap_or(b"{}");
        let name = text(params, &["name"]).unwrap_or_default();
        let command = self.command_of(process, &name, params);
        if command.is_none() && !ORCHESTRATION.contains(&&*name) {
            return false;
        }
        let is_confirmation = frame.method() == Some("conversation/invokeClientToolConfirmation");
        let top = conversation.map(|it| self.conversations.top(it));
        if top.as_ref().is_some_and(|it| self.agents.run_of(it).is_some()) {
            let set = conversation.and_then(|it| self.conversations.get(it));
            let set = set.map_or_else(String::new, |it| it.set.to_string());
            self.refuse(process, wire.clone(), &name, &set, is_confirmation, out);
            return true;
        }
        let has_tool = self.backend(process.backend).is_some_and(|it| it.set.is_lead());
        if !has_tool || (name != DELEGATE && command.is_none()) {
            return false;
        }
        let result = if is_confirmation {
            json!([{"result": "accept"}, null])
        } else {
            // The server's own sub-agents live in the process of their caller, and see its tools.
            let started = match conversation.filter(|it| top.as_ref() == Some(it)) {
                Some(lead) => self.delegate(lead, params, command),
                None => Err("a sub-agent cannot start others".to_owned()),
            };
            let (status, text) = match started {
                Ok(text) => ("success", text),
                Err(text) => ("error", text),
            };
            json!([{"content": [{"value": text}], "status": status}, null])
        };
        let answer = Frame::response(wire.clone(), result.to_string().as_bytes());
        if let Some(conversation) = conversation.filter(|_| !is_confirmation) {
            self.on_tool_answered(conversation, frame, Some(&answer));
        }
        out.push(Effect::Send(Peer::Backend(process), answer));
        true
    }

    /// A command that starts a sub-agent, where that is how a lead does it.
    fn command_of(&self, process: ProcessId, name: &str, params: &[u8]) -> Option<Command> {
        let server = self.server.as_ref().filter(|it| it.settings.delegation == Delegation::RunInTerminal)?;
        let is_leads = self.backend(process.backend).is_some_and(|it| it.set.is_lead());
        if !is_leads
            || name.strip_prefix("copilot.").unwrap_or(name) != TERMINAL
            || server.config.agents.is_empty()
        {
            return None;
        }
        agents::command(&text(params, &["input", "command"])?)
    }

    /// Notes a run; it starts as soon as the event is done with. Gives what the lead's model is told, be it an error.
    fn delegate(&mut self, id: &RawId, params: &[u8], command: Option<Command>) -> Result<String, String> {
        let limits = self.limits();
        self.agents.time_limit = limits.time_limit;
        let agents = self.server.as_ref().map(|it| &it.config.agents).ok_or("there are no agents")?;
        let task = match command {
            Some(it) => Task::of(it.agent, it.prompt, agents)?,
            None => Task::read(path(params, &["input"]).map_or(b"{}", |it| &params[it]), agents)?,
        };
        let call = text(params, &["toolCallId"]).unwrap_or_default();
        let round = member(params, "roundId").and_then(|it| serde_json::from_slice(&params[it]).ok());
        let not_running = || "no turn is running".to_owned();
        let turn =
            self.conversations.get(id).and_then(|it| it.flight.turn.clone()).ok_or_else(not_running)?;
        let no = self.lead(id, turn);
        let client = self.agents.last + 1;
        let lead = self.agents.leads.get_mut(&no).ok_or_else(not_running)?;
        if lead.runs.len() >= limits.max_subagents {
            let most = limits.max_subagents;
            return Err(format!("no more than {most} sub-agents may be started: go on with what there is"));
        }
        if lead.follow_ups >= limits.max_followups {
            return Err(
                "you have been told results too often to start more: answer with what there is".to_owned()
            );
        }
        let n = lead.names.entry(task.agent.clone()).or_default();
        *n += 1;
        let name = format!("{}-{n}", task.agent);
        let is_open = |it: &&u32| self.agents.runs.get(it).is_some_and(|it| !it.has_ended());
        let is_full = lead.runs.iter().filter(is_open).count() >= limits.max_parallel;
        lead.runs.push(client);
        lead.is_due = true;
        self.agents.last = client;
        info!(lead = %id, sub_agent = name, "a sub-agent");
        let mut run =
            Run::new(no, name.clone(), task.agent, task.prompt, ClientId(ClientId::INSIDE + client));
        run.conversation = self.invent_id();
        run.round = round.unwrap_or(1);
        run.entry = self.entry(id, &call, params);
        run.call = call;
        self.agents.runs.insert(client, run);
        Ok(match is_full {
            true => format!("sub-agent {name} starts as soon as another one has ended"),
            false => format!("sub-agent {name} started"),
        })
    }

    /// What is known of the runs of this turn.
    fn lead(&mut self, id: &RawId, turn: RawId) -> u32 {
        if let Some(no) = self.agents.lead_of(id) {
            return no;
        }
        let active = self.conversations.get(id).and_then(|it| self.requests.get(it.active?));
        let token = match active.map(|it| &it.purpose) {
            Some(Purpose::Turn { token, .. }) => token.clone(),
            _ => None,
        };
        self.agents.last += 1;
        let lead = Lead {
            conversation: id.clone(),
            backend: self.conversations.get(id).map_or(PRIMARY, |it| it.backend),
            turn,
            token,
            runs: Vec::new(),
            fed: 0,
            follow_ups: 0,
            phase: Phase::Asked,
            is_due: true,
            names: BTreeMap::new(),
        };
        self.agents.leads.insert(self.agents.last, lead);
        self.agents.last
    }

    /// The call as it was reported; of one that was not, what is known.
    fn entry(&mut self, id: &RawId, call: &str, params: &[u8]) -> Vec<u8> {
        let turn = self.conversations.get(id).and_then(|it| it.flight.turn.clone());
        let turn = turn.and_then(|it| self.conversations.get_mut(id)?.history.turn(&it));
        let reported = turn.and_then(|it| it.call(call)).and_then(|it| it.open.as_ref());
        match reported {
            Some(raw) => raw.get().as_bytes().to_vec(),
            None => {
                let entry = json!({"id": call, "name": DELEGATE, "toolType": "client", "status": "running"});
                let mut entry = Patch::of(entry.to_string().as_bytes());
                if let Some(input) = member(params, "input") {
                    entry.set("input", &params[input]);
                }
                entry.finish()
            }
        }
    }

    /// Whether leads and runs agree with the other tables.
    pub(super) fn check_agents(&self) -> Result<(), String> {
        for (no, run) in &self.agents.runs {
            if !self.agents.leads.get(&run.lead).is_some_and(|it| it.runs.contains(no)) {
                return Err(format!("run {} has no lead", run.name));
            }
            let is_owed = self.requests.of_client(run.client, &RawId::from(run.asked)).is_some();
            if run.is_owed() && !is_owed {
                return Err(format!(
                    "run {} waits for an answer that nobody owes: {:?}",
                    run.name, run.state
                ));
            }
            if run.has_ended() && self.conversations.get(&run.conversation).is_some() {
                return Err(format!("the conversation of run {} outlives it", run.name));
            }
        }
        for lead in self.agents.leads.values().filter(|it| it.phase == Phase::Resting) {
            let conversation = self.conversations.get(&lead.conversation);
            let rests = conversation.is_some_and(|it| it.flight.resting.is_some());
            if !rests && conversation.is_some_and(|it| is_turn_of(lead, it)) {
                return Err(format!("lead {} waits for its runs, and does not rest", lead.conversation));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Proxy {
    /// Nothing is left of any lead.
    pub(super) fn check_quiet(&self) {
        let names: Vec<_> = self.agents.runs.values().map(|it| (&it.name, &it.state)).collect();
        assert!(self.agents.leads.is_empty() && names.is_empty(), "{names:?} are left");
        let inside =
            self.conversations.iter().find(|(id, _)| id.as_text().is_some_and(|it| it.starts_with("lspool")));
        assert!(inside.is_none(), "a conversation is left: {:?}", inside.map(|it| it.0));
    }
}
