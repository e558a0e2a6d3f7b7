//! Leads and their sub-agents.
//!
//! A *lead* is a conversation with the tool `delegate_task`. lspool registers it, in partitions for leads, and
//! carries it out: a call returns at once, and starts a *sub-agent* ([`sub_agent`]), which works in an internal
//! conversation ([`conversations`](super::conversations)).
//!
//! If the lead's turn ends before it has the results of all its sub-agents, the turn is *suspended*: lspool keeps its
//! `end` and its request until all sub-agents have ended. Then lspool continues it with the results, in a turn of the
//! same id, which is another [segment](crate::core::copilot::resume) of the turn.
//!
//! **For the editor it is one turn**: one `begin`, one `end`, one answer, and rounds that count on.
//!
//! **A sub-agent never outlives the turn that started it.**

mod sub_agent;
mod turn;
pub(super) mod view;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use foldhash::fast::RandomState;
use serde_json::json;
use tracing::info;

use self::{
    sub_agent::{SubAgent, SubAgentState},
    turn::is_turn_of,
};
use crate::{
    agents::{self, Command, DELEGATE, ORCHESTRATION, TERMINAL, Task, team as words},
    builtin_tools::bare,
    config::{Delegation, SubAgentsConfig},
    core::{
        agents::{Agents, conversations::ConversationOwner, teams::TeamToolCall},
        copilot::{Copilot, conversation::Watch, turns::tool_calls::ToolCall},
        event::{BackendId, ProcessId},
        ids::{ConversationId, RequestId, Token, TurnId},
        mux::Mux,
        purpose::{CopilotPurpose, Purpose, ToolQuestion},
    },
    rpc::{Frame, Patch, member, path, text},
};

/// The leads whose turn has started sub-agents, and the sub-agents.
#[derive(Debug, Default)]
pub(crate) struct SubAgents {
    pub(super) leads: BTreeMap<u32, Lead>,
    pub(super) by_conversation: HashMap<ConversationId, u32, RandomState>,
    pub(super) all: BTreeMap<u32, SubAgent>,
    /// Leads that may have a next step.
    pub(super) due: BTreeSet<u32>,
    pub(super) last: u32,
    /// Conversations to close.
    pub(super) closing: Vec<u32>,
    /// When the editor is next shown how long sub-agents have been at work.
    pub(super) tick: Option<Instant>,
}

/// The state of a lead's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeadPhase {
    /// Its model works.
    Asked,
    /// The server has ended it, and the editor has not got the end.
    Ended,
    /// It waits for its sub-agents.
    Suspended,
}

/// A call that has started a team.
#[derive(Debug)]
pub(super) struct TeamCall {
    pub(super) id: String,
    pub(super) round: u64,
    /// Its last report.
    pub(super) entry: Vec<u8>,
    /// The last report to the editor.
    pub(super) shown: Vec<u8>,
}

/// A turn that has started sub-agents.
#[derive(Debug)]
pub(super) struct Lead {
    pub(super) conversation: ConversationId,
    pub(super) backend: BackendId,
    pub(super) turn: TurnId,
    /// The token of its progress.
    pub(super) token: Option<Token>,
    /// Its sub-agents, in the order of their starts.
    pub(super) sub_agents: Vec<u32>,
    /// How many results it has got, or is getting.
    pub(super) n_delivered: usize,
    /// How often it has got results.
    pub(super) follow_ups: usize,
    /// How often it has started turns of members.
    pub(super) wakes: usize,
    pub(super) phase: LeadPhase,
    /// Whether the editor wants notifications about its sub-agents.
    pub(super) events: bool,
    /// Its last call of a team tool, shown as running while members work.
    pub(super) team_call: Option<TeamCall>,
    /// Its sub-agents, by the calls that started them.
    pub(super) calls: BTreeMap<String, u32>,
    /// How many sub-agents of each agent it has started.
    pub(super) names: BTreeMap<String, usize>,
}

impl SubAgents {
    /// Whether there is no lead.
    pub(crate) fn is_idle(&self) -> bool {
        self.leads.is_empty()
    }

    /// Whether internal conversations must be closed.
    pub(super) fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// The lead for the running turn of a conversation.
    pub(super) fn lead_of(&self, conversation: &ConversationId) -> Option<u32> {
        self.by_conversation.get(conversation).copied()
    }
}

/// The answer to a call of a tool.
pub(super) fn answer_of(wire: &RequestId, status: &str, text: &str) -> Frame {
    let result = json!([{"content": [{"value": text}], "status": status}, null]);
    Frame::response(wire.clone().into(), result.to_string().as_bytes())
}

impl Agents {
    pub(super) fn limits(copilot: &Copilot, mux: &Mux) -> SubAgentsConfig {
        copilot.server(mux).config.subagents.clone()
    }

    /// Answers a call, or a confirmation, of a tool for starting or steering agents. Returns whether it is one.
    pub(crate) fn answer_call(&mut self, copilot: &mut Copilot, mux: &mut Mux, call: &ToolCall) -> bool {
        let ToolCall { process, ref wire, ref conversation, ref frame, kind } = *call;
        let conversation = conversation.as_ref();
        let params = frame.params().unwrap_or(b"{}");
        let name = text(params, &["name"]).unwrap_or_default();
        let command = Self::command_of(copilot, mux, process, &name, params);
        if command.is_none() && !ORCHESTRATION.contains(&&*name) {
            return false;
        }
        let top = conversation.map(|it| copilot.conversations().top(it));
        // The server's own sub-agents live in the process of their caller, and see its tools.
        let caller = conversation.filter(|it| top.as_ref() == Some(it));
        let internal = top.as_ref().and_then(|it| self.internal.of(it));
        let live_member = match internal.map(|it| self.owner_of(it)) {
            None => None,
            Some(Some(ConversationOwner::Member(live_member))) if name == words::SEND && caller.is_some() => {
                Some(live_member)
            }
            Some(_) => {
                let set = conversation.and_then(|it| copilot.conversations().get(it));
                let set = set.map_or_else(String::new, |it| it.set.to_string());
                copilot.refuse(mux, process, wire.clone(), &name, &set, kind);
                return true;
            }
        };
        let leads = live_member.is_none() && copilot.serves_leads(process.backend);
        let through = Some(copilot.server(mux).settings.delegation);
        let is_of_teams = name != DELEGATE && command.is_none();
        if live_member.is_none() && (!leads || (is_of_teams && through != Some(Delegation::DelegateTask))) {
            return false;
        }
        if kind == ToolQuestion::Confirmation {
            let accepted = Frame::response(wire.clone().into(), br#"[{"result":"accept"},null]"#);
            mux.tell(process, accepted);
            return true;
        }
        if let Some(caller) = caller.filter(|_| is_of_teams) {
            let call = TeamToolCall {
                process,
                wire: wire.clone(),
                frame: frame.clone(),
                conversation: caller.clone(),
                live_member,
                is_again: false,
            };
            self.on_team_call(copilot, mux, call);
            return true;
        }
        let started = match caller {
            Some(lead) => self.delegate(copilot, mux, lead, params, command),
            None => Err("a sub-agent cannot start sub-agents".to_owned()),
        };
        let answer = match started {
            Ok(text) => answer_of(wire, "success", &text),
            Err(text) => answer_of(wire, "error", &text),
        };
        if let Some(conversation) = conversation {
            copilot.on_tool_answered(conversation, frame, Some(&answer));
        }
        mux.tell(process, answer);
        true
    }

    /// Reads a command that starts a sub-agent, if that is how a lead does it.
    pub(super) fn command_of(
        copilot: &Copilot,
        mux: &Mux,
        process: ProcessId,
        name: &str,
        params: &[u8],
    ) -> Option<Command> {
        let server =
            Some(copilot.server(mux)).filter(|it| it.settings.delegation == Delegation::RunInTerminal)?;
        let is_leads = copilot.serves_leads(process.backend);
        if !is_leads || bare(name) != TERMINAL || server.config.agents.is_empty() {
            return None;
        }
        agents::command(&text(params, &["input", "command"])?)
    }

    /// Adds a sub-agent, which starts after the event. Returns the text or the error for the lead's model.
    pub(super) fn delegate(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        id: &ConversationId,
        params: &[u8],
        command: Option<Command>,
    ) -> Result<String, String> {
        let limits = Self::limits(copilot, mux);
        let agents = &copilot.server(mux).config.agents;
        let task = match command {
            Some(it) => Task::of(it.agent, it.prompt, agents)?,
            None => Task::read(path(params, &["input"]).map_or(b"{}", |it| &params[it]), agents)?,
        };
        let call = text(params, &["toolCallId"]).unwrap_or_default();
        let round = member(params, "roundId").and_then(|it| serde_json::from_slice(&params[it]).ok());
        let not_running = || "no turn is running".to_owned();
        let turn = copilot
            .conversations()
            .get(id)
            .and_then(|it| it.active_turn.turn.clone())
            .ok_or_else(not_running)?;
        let no = self.lead(copilot, mux, id, turn);
        self.subagents.last += 1;
        let sub_agent = self.subagents.last;
        let lead = self.subagents.leads.get_mut(&no).ok_or_else(not_running)?;
        if lead.sub_agents.len() >= limits.max_subagents {
            let most = limits.max_subagents;
            return Err(format!(
                "you have started {most} sub-agents, the limit: continue with the results you \
                                have"
            ));
        }
        if lead.follow_ups >= limits.max_followups {
            return Err(
                "you have reached the limit of rounds of sub-agents: answer with the results you have"
                    .to_owned(),
            );
        }
        let n = lead.names.entry(task.agent.clone()).or_default();
        *n += 1;
        let name = format!("{}-{n}", task.agent);
        let is_open = |it: &&u32| self.subagents.all.get(it).is_some_and(|it| !it.has_ended());
        let is_full = lead.sub_agents.iter().filter(is_open).count() >= limits.max_parallel;
        lead.sub_agents.push(sub_agent);
        lead.calls.insert(call.clone(), sub_agent);
        info!(lead = %id, sub_agent = name, "sub-agent started");
        self.subagents.due.insert(no);
        let entry = Self::entry(copilot, id, &call, params);
        let new = SubAgent {
            lead: no,
            name: name.clone(),
            agent: task.agent,
            prompt: task.prompt,
            call,
            round: round.unwrap_or(1),
            entry,
            state: SubAgentState::Waiting,
            tool: None,
            is_shown: false,
            started: None,
            ended: None,
        };
        self.subagents.all.insert(sub_agent, new);
        Ok(match is_full {
            true => format!("sub-agent {name} is queued and starts when another one has finished"),
            false => format!("sub-agent {name} started"),
        })
    }

    /// The lead of this turn, added if necessary.
    pub(super) fn lead(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        id: &ConversationId,
        turn: TurnId,
    ) -> u32 {
        if let Some(no) = self.subagents.lead_of(id) {
            return no;
        }
        let active = copilot.conversations().get(id).and_then(|it| mux.requests().get(it.active()?));
        let token = match active.map(|it| &it.purpose) {
            Some(Purpose::Copilot(CopilotPurpose::Turn { token, .. })) => token.clone(),
            _ => None,
        };
        self.subagents.last += 1;
        let lead = Lead {
            conversation: id.clone(),
            backend: copilot.conversations().get(id).map_or(copilot.primary(), |it| it.backend),
            turn,
            token,
            sub_agents: Vec::new(),
            n_delivered: 0,
            follow_ups: 0,
            wakes: 0,
            phase: LeadPhase::Asked,
            events: copilot.conversations().get(id).is_some_and(|it| it.events),
            team_call: None,
            calls: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        if let Some(conversation) = copilot.conversations_mut().get_mut(id) {
            conversation.watch = Watch::Lead;
        }
        self.subagents.by_conversation.insert(id.clone(), self.subagents.last);
        self.subagents.leads.insert(self.subagents.last, lead);
        self.subagents.last
    }

    /// The last report of the call, or else a new one.
    pub(super) fn entry(copilot: &mut Copilot, id: &ConversationId, call: &str, params: &[u8]) -> Vec<u8> {
        let turn = copilot.conversations().get(id).and_then(|it| it.active_turn.turn.clone());
        let turn = turn.and_then(|it| copilot.conversations_mut().get_mut(id)?.history.turn(&it));
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

    /// Checks that leads and sub-agents agree with the other tables.
    pub(super) fn check_agents(&self, copilot: &Copilot) -> Result<(), String> {
        for (no, sub_agent) in &self.subagents.all {
            if !self.subagents.leads.get(&sub_agent.lead).is_some_and(|it| it.sub_agents.contains(no)) {
                return Err(format!("run {} has no lead", sub_agent.name));
            }
            if let SubAgentState::Working(internal) = sub_agent.state
                && !self.is_owned_by(internal, ConversationOwner::SubAgent(*no))
            {
                return Err(format!("run {} works in a conversation that is not its own", sub_agent.name));
            }
        }
        self.check_teams()?;
        for (no, lead) in &self.subagents.leads {
            let conversation = copilot.conversations().get(&lead.conversation);
            if self.subagents.lead_of(&lead.conversation) != Some(*no)
                || conversation.is_some_and(|it| it.watch != Watch::Lead)
            {
                return Err(format!("lead {} is not found, or not watched", lead.conversation));
            }
        }
        if self.subagents.by_conversation.len() != self.subagents.leads.len() {
            return Err("a conversation leads to a lead that is no more".to_owned());
        }
        for lead in self.subagents.leads.values().filter(|it| it.phase == LeadPhase::Suspended) {
            let conversation = copilot.conversations().get(&lead.conversation);
            let rests = conversation.is_some_and(|it| it.active_turn.suspended.is_some());
            if !rests && conversation.is_some_and(|it| is_turn_of(lead, it)) {
                return Err(format!("lead {} waits for its runs, and does not rest", lead.conversation));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Agents {
    /// Checks that no lead is left.
    pub(crate) fn check_quiet(&self, copilot: &Copilot) {
        let names: Vec<_> = self.subagents.all.values().map(|it| (&it.name, &it.state)).collect();
        assert!(self.subagents.leads.is_empty() && names.is_empty(), "{names:?} are left");
        self.check_quiet_internal();
        let is_ours = |id: &ConversationId| id.as_text().is_some_and(|it| it.starts_with("lspool"));
        let left = copilot.conversations().iter().find(|(id, _)| is_ours(id));
        assert!(left.is_none(), "a conversation is left: {:?}", left.map(|it| it.0));
    }
}
