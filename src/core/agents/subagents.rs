//! Leads and their sub-agents.
//!
//! A *lead* is a conversation that has the tool `delegate_task`. lspool registers it, in partitions of their own kind, and
//! carries it out: a call is answered at once, and starts a *run* ([`run`]), which works in a conversation of its own
//! ([`inside`](crate::core::inside)).
//!
//! When the lead's turn comes to its end, and there are runs whose results it does not know, the turn *rests*: its `end`
//! is kept back, and its request is held until all runs have ended. Then it is asked further, in a turn of the same
//! id, which is for the editor another [part](crate::core::recovery) of the one that it knows.
//!
//! **To the editor it is one turn**: one `begin`, one `end`, one answer, rounds that are counted on.
//!
//! **A run never outlives the turn that has started it.**

mod run;
mod team;
mod turn;
mod view;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::RandomState;
use serde_json::{Value, json};
use tracing::info;

use self::{
    run::{Run, State},
    team::Teams,
    turn::is_turn_of,
};
use crate::core::{PRIMARY, Proxy};
use crate::{
    agents::{self, Command, DELEGATE, ORCHESTRATION, TERMINAL, Task, team as words},
    config::{Config, Delegation, SubAgentsConfig},
    core::{
        catalogue::Catalogue,
        conversations::Watch,
        event::{BackendId, Effect, Effects, Peer, ProcessId},
        inside::Holder,
        requests::Purpose,
        tools::CONFIRMATION,
        toolset::Own,
    },
    rpc::{Frame, Patch, RawId, member, path, text},
    tools::bare,
};

/// All leads whose turn has started runs, and the runs.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    leads: BTreeMap<u32, Lead>,
    by_conversation: HashMap<RawId, u32, RandomState>,
    runs: BTreeMap<u32, Run>,
    /// Leads for which there may be something to do.
    due: BTreeSet<u32>,
    last: u32,
    teams: Teams,
    /// Conversations that nobody wants any more.
    closing: Vec<u32>,
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
}

/// A call that has set a team to work.
#[derive(Debug)]
struct TeamCall {
    id: String,
    round: u64,
    /// As it was last reported.
    entry: Vec<u8>,
    /// What the editor was shown last.
    shown: Vec<u8>,
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
    /// How often it had a member of a team called.
    wakes: usize,
    phase: Phase,
    /// The editor wants to be told of its runs in notifications.
    events: bool,
    /// Its last call of a tool of teams: it counts as running for as long as they are at work.
    team_call: Option<TeamCall>,
    /// Its runs, by the calls that have started them.
    calls: BTreeMap<String, u32>,
    /// How many of each agent it has started.
    names: BTreeMap<String, usize>,
}

impl Agents {
    /// Whether there is no lead.
    pub(crate) fn is_idle(&self) -> bool {
        self.leads.is_empty()
    }

    /// Whether there is nothing to tend, as for nearly every message.
    fn is_at_rest(&self) -> bool {
        self.is_idle() && self.closing.is_empty() && self.teams.dirty.is_empty()
    }

    /// The turn of a conversation that has started runs, and goes on.
    fn lead_of(&self, conversation: &RawId) -> Option<u32> {
        self.by_conversation.get(conversation).copied()
    }
}

/// Parameters that register the tools that lspool has for a partition; none, if it has none, or if the tool is one of the
/// editor's and that has none.
pub(crate) fn own_tools(
    own: Own,
    config: &Config,
    through: Delegation,
    catalogue: &Catalogue,
) -> Option<Vec<u8>> {
    let tools = match (own, through) {
        (Own::Nobody, _) => return None,
        (Own::Member, _) => words::member_tools(),
        (Own::Lead, Delegation::DelegateTask) => {
            std::iter::once(agents::tool(&config.agents)).chain(words::tools(&config.agents)).collect()
        }
        (Own::Lead, Delegation::RunInTerminal) => {
            let mut tool: Value = serde_json::from_slice(catalogue.tool(TERMINAL)?).ok()?;
            let usage = agents::usage(&agents::list(&config.agents));
            let said = tool["description"].as_str().unwrap_or_default();
            tool["description"] = json!(format!("{said}{usage}"));
            vec![tool]
        }
    };
    Some(json!({"tools": tools}).to_string().into_bytes())
}

/// The answer to a call of a tool.
fn answer_of(wire: &RawId, status: &str, text: &str) -> Frame {
    let result = json!([{"content": [{"value": text}], "status": status}, null]);
    Frame::response(wire.clone(), result.to_string().as_bytes())
}

impl Proxy {
    fn limits(&self) -> SubAgentsConfig {
        self.server.as_ref().map_or_else(SubAgentsConfig::default, |it| it.config.subagents.clone())
    }

    /// A call, or a confirmation, of a tool that starts or steers agents, if lspool is to answer it. Then it is answered.
    pub(crate) fn answer_orchestration(
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
        let is_confirmation = frame.method() == Some(CONFIRMATION);
        let top = conversation.map(|it| self.conversations.top(it));
        // The server's own sub-agents live in the process of their caller, and see its tools.
        let caller = conversation.filter(|it| top.as_ref() == Some(it));
        let inside = top.as_ref().and_then(|it| self.inside.of(it));
        let desk = match inside.map(|it| self.holder_of(it)) {
            None => None,
            Some(Some(Holder::Member(desk))) if name == words::SEND && caller.is_some() => Some(desk),
            Some(_) => {
                let set = conversation.and_then(|it| self.conversations.get(it));
                let set = set.map_or_else(String::new, |it| it.set.to_string());
                self.refuse(process, wire.clone(), &name, &set, is_confirmation, out);
                return true;
            }
        };
        let leads = desk.is_none() && self.backend(process.backend).is_some_and(|it| it.set.is_lead());
        let through = self.server.as_ref().map(|it| it.settings.delegation);
        let is_of_teams = name != DELEGATE && command.is_none();
        if desk.is_none() && (!leads || (is_of_teams && through != Some(Delegation::DelegateTask))) {
            return false;
        }
        if is_confirmation {
            let accepted = Frame::response(wire.clone(), br#"[{"result":"accept"},null]"#);
            out.push(Effect::Send(Peer::Backend(process), accepted));
            return true;
        }
        if let Some(caller) = caller.filter(|_| is_of_teams) {
            self.on_team_call(process, wire, caller, desk, frame, out);
            return true;
        }
        let started = match caller {
            Some(lead) => self.delegate(lead, params, command),
            None => Err("a sub-agent cannot start others".to_owned()),
        };
        let answer = match started {
            Ok(text) => answer_of(wire, "success", &text),
            Err(text) => answer_of(wire, "error", &text),
        };
        if let Some(conversation) = conversation {
            self.on_tool_answered(conversation, frame, Some(&answer));
        }
        out.push(Effect::Send(Peer::Backend(process), answer));
        true
    }

    /// A command that starts a sub-agent, where that is how a lead does it.
    fn command_of(&self, process: ProcessId, name: &str, params: &[u8]) -> Option<Command> {
        let server = self.server.as_ref().filter(|it| it.settings.delegation == Delegation::RunInTerminal)?;
        let is_leads = self.backend(process.backend).is_some_and(|it| it.set.is_lead());
        if !is_leads || bare(name) != TERMINAL || server.config.agents.is_empty() {
            return None;
        }
        agents::command(&text(params, &["input", "command"])?)
    }

    /// Notes a run; it starts as soon as the event is done with. Gives what the lead's model is told, be it an error.
    fn delegate(&mut self, id: &RawId, params: &[u8], command: Option<Command>) -> Result<String, String> {
        let limits = self.limits();
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
        self.agents.last += 1;
        let run = self.agents.last;
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
        lead.runs.push(run);
        lead.calls.insert(call.clone(), run);
        info!(lead = %id, sub_agent = name, "a sub-agent");
        self.agents.due.insert(no);
        let entry = self.entry(id, &call, params);
        let new = Run {
            lead: no,
            name: name.clone(),
            agent: task.agent,
            prompt: task.prompt,
            call,
            round: round.unwrap_or(1),
            entry,
            state: State::Waiting,
            tool: None,
            is_shown: false,
            started: None,
            ended: None,
        };
        self.agents.runs.insert(run, new);
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
        let active = self.conversations.get(id).and_then(|it| self.requests.get(it.active()?));
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
            wakes: 0,
            phase: Phase::Asked,
            events: self.conversations.get(id).is_some_and(|it| it.events),
            team_call: None,
            calls: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        if let Some(conversation) = self.conversations.get_mut(id) {
            conversation.watch = Watch::Lead;
        }
        self.agents.by_conversation.insert(id.clone(), self.agents.last);
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
                let name = text(params, &["name"]).unwrap_or_default();
                let entry = json!({"id": call, "name": name, "toolType": "client", "status": "running"});
                let mut entry = Patch::of(entry.to_string().as_bytes());
                if let Some(input) = member(params, "input") {
                    entry.set("input", &params[input]);
                }
                entry.finish()
            }
        }
    }

    /// Whether leads and runs agree with the other tables.
    pub(crate) fn check_agents(&self) -> Result<(), String> {
        for (no, run) in &self.agents.runs {
            if !self.agents.leads.get(&run.lead).is_some_and(|it| it.runs.contains(no)) {
                return Err(format!("run {} has no lead", run.name));
            }
            if let State::Working(talk) = run.state
                && !self.is_held_by(talk, Holder::Run(*no))
            {
                return Err(format!("run {} works in a conversation that is not its own", run.name));
            }
        }
        self.check_teams()?;
        for (no, lead) in &self.agents.leads {
            let conversation = self.conversations.get(&lead.conversation);
            if self.agents.lead_of(&lead.conversation) != Some(*no)
                || conversation.is_some_and(|it| it.watch != Watch::Lead)
            {
                return Err(format!("lead {} is not found, or not watched", lead.conversation));
            }
        }
        if self.agents.by_conversation.len() != self.agents.leads.len() {
            return Err("a conversation leads to a lead that is no more".to_owned());
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
    pub(crate) fn check_quiet(&self) {
        let names: Vec<_> = self.agents.runs.values().map(|it| (&it.name, &it.state)).collect();
        assert!(self.agents.leads.is_empty() && names.is_empty(), "{names:?} are left");
        self.check_quiet_inside();
        let inside =
            self.conversations.iter().find(|(id, _)| id.as_text().is_some_and(|it| it.starts_with("lspool")));
        assert!(inside.is_none(), "a conversation is left: {:?}", inside.map(|it| it.0));
    }
}
