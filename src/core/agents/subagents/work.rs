//! Sub-agents at work: starts them, handles their events, and ends them.

use std::collections::BTreeSet;

use tracing::info;

use super::{
    LeadPhase,
    sub_agent::SubAgentState,
    turn::{LeadEnd, is_turn_of},
    view::EVERY,
};
use crate::{
    config::{AgentConfig, Config},
    core::{
        agents::{
            Agents,
            activity::{Activity, Target, plain},
            conversations::{AgentEvent, ConversationOwner, EditorIds, Limits, Opening, usual},
        },
        copilot::Copilot,
        mux::Mux,
    },
};

impl Agents {
    /// Takes the next steps of leads with changes. Returns whether there were any.
    pub(crate) fn tend_leads(&mut self, copilot: &mut Copilot, mux: &mut Mux) -> bool {
        if mux.clients().is_exiting() || self.is_idle() {
            return false;
        }
        let closing = std::mem::take(&mut self.subagents.closing);
        let mut has_acted = !closing.is_empty();
        for internal in closing {
            self.close_internal(copilot, mux, internal);
        }
        let touched = copilot.conversations_mut().take_touched();
        let touched = touched.iter().filter_map(|it| self.subagents.lead_of(it));
        let mut due: BTreeSet<u32> = touched.collect();
        due.append(&mut self.subagents.due);
        for no in due {
            has_acted |= self.tend(copilot, mux, no);
        }
        self.store_teams(copilot, mux) || has_acted
    }

    /// Takes the next steps of a lead. Returns whether there were any.
    fn tend(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) -> bool {
        let Some(lead) = self.subagents.leads.get(&no) else { return false };
        let Some(conversation) =
            copilot.conversations().get(&lead.conversation).filter(|it| is_turn_of(lead, it))
        else {
            // It was destroyed or replaced, and the server still continues its turn.
            self.end_lead(copilot, mux, no, LeadEnd::Cancelled);
            return true;
        };
        if mux.is_cancelled(conversation.active()) {
            return self.end_sub_agents(copilot, mux, no);
        }
        if mux.clients().is_shut_down() {
            return false;
        }
        let is_open = |it: &&u32| self.subagents.all.get(it).is_some_and(|it| !it.has_ended());
        let open: Vec<u32> = lead.sub_agents.iter().filter(is_open).copied().collect();
        if lead.phase == LeadPhase::Suspended
            && open.is_empty()
            && !self.are_teams_at_work(copilot, mux, lead)
        {
            let conversation = lead.conversation.clone();
            self.show_teams(mux, &conversation);
            self.deliver_results(copilot, mux, no);
            return true;
        }
        let waits =
            |it: &u32| self.subagents.all.get(it).is_some_and(|it| it.state == SubAgentState::Waiting);
        let (mut waiting, at_work): (Vec<u32>, Vec<u32>) = open.into_iter().partition(waits);
        let room = Self::limits(copilot, mux).max_parallel.saturating_sub(at_work.len());
        let left = waiting.split_off(room.min(waiting.len()));
        let has_woken = self.wake_members(copilot, mux, no, room.saturating_sub(waiting.len()));
        for sub_agent in &waiting {
            self.start_sub_agent(copilot, mux, *sub_agent);
        }
        for sub_agent in left {
            let unshown = self.subagents.all.get_mut(&sub_agent).filter(|it| !it.is_shown);
            if let Some(it) = unshown {
                it.is_shown = true;
                self.show_sub_agent(mux, sub_agent);
            }
        }
        if let Some(conversation) = self.subagents.leads.get(&no).map(|it| it.conversation.clone()) {
            self.show_teams(mux, &conversation);
        }
        has_woken || !waiting.is_empty()
    }

    fn start_sub_agent(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) {
        let time = Some(Self::limits(copilot, mux).time_limit);
        let Some(sub_agent) = self.subagents.all.get_mut(&no) else { return };
        sub_agent.started = Some(mux.now());
        let agent = Config::agent_named(&copilot.server(mux).config.agents, &sub_agent.agent);
        let agent = agent.map(|(_, it)| it.clone());
        let (Some(agent), Some(lead)) = (agent, self.subagents.leads.get(&sub_agent.lead)) else {
            let why = format!("the configuration no longer has an agent {}", sub_agent.agent);
            return self.end_sub_agent(copilot, mux, no, SubAgentState::Ended(Err(why)));
        };
        let conversation = copilot.conversations().get(&lead.conversation);
        let asked =
            conversation.and_then(|it| mux.requests().get(it.active()?)).and_then(|it| it.frame.params());
        let create = conversation.map_or(&b"{}"[..], |it| &it.history.create);
        let editor_ids = EditorIds {
            conversation: lead.conversation.clone(),
            turn: lead.turn.clone(),
            round: sub_agent.round,
            name: sub_agent.name.clone(),
            agent: sub_agent.agent.clone(),
        };
        let AgentConfig { max_turns: rounds, .. } = agent;
        let (usual, words) = (usual("Agent", create, asked.unwrap_or(b"{}")), sub_agent.prompt.clone());
        let limits = Limits { time, rounds, needs_words: true };
        let internal = self.open_internal(Opening {
            owner: ConversationOwner::SubAgent(no),
            agent,
            editor_ids,
            limits,
            usual,
            history: None,
        });
        if let Some(sub_agent) = self.subagents.all.get_mut(&no) {
            sub_agent.state = SubAgentState::Working(internal);
        }
        self.subagents.tick.get_or_insert(mux.now() + EVERY);
        self.show_sub_agent(mux, no);
        self.say(copilot, mux, internal, &words);
    }

    /// Handles an event of a sub-agent's conversation.
    pub(crate) fn on_sub_agent_event(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        no: u32,
        agent_event: AgentEvent,
    ) {
        match agent_event {
            AgentEvent::Text(words) => self.show_text(mux, no, &words),
            AgentEvent::Tool(tool) => {
                if let Some(sub_agent) = self.subagents.all.get_mut(&no) {
                    sub_agent.tool = tool;
                    self.show_sub_agent(mux, no);
                }
            }
            AgentEvent::Ended(result) => self.end_sub_agent(copilot, mux, no, SubAgentState::Ended(result)),
        }
    }

    /// Those that are at work or wait for room.
    pub(in crate::core::agents) fn sub_agents_at_work(&self) -> impl Iterator<Item = Activity> {
        self.subagents.all.iter().filter(|(_, it)| !it.has_ended()).map(|(no, it)| Activity {
            target: Target::SubAgent(*no),
            name: it.name.clone(),
            of: self.subagents.leads.get(&it.lead).map_or_else(String::new, |it| plain(&it.conversation)),
            task: None,
            tool: it.tool.clone(),
            since: it.started,
        })
    }

    /// The user does not want what one sub-agent does; its lead goes on.
    pub(in crate::core::agents) fn cancel_sub_agent(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        no: u32,
    ) {
        self.end_sub_agent(copilot, mux, no, SubAgentState::Withdrawn);
    }

    fn end_sub_agent(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, how: SubAgentState) {
        let Some(sub_agent) = self.subagents.all.get_mut(&no) else { return };
        info!(
            sub_agent = sub_agent.name,
            done = matches!(how, SubAgentState::Ended(Ok(_))),
            "sub-agent ended"
        );
        let before = std::mem::replace(&mut sub_agent.state, how);
        (sub_agent.ended, sub_agent.tool) = (Some(mux.now()), None);
        self.subagents.due.insert(sub_agent.lead);
        self.show_sub_agent(mux, no);
        if let SubAgentState::Working(internal) = before {
            self.close_internal(copilot, mux, internal);
        }
    }

    /// Ends the sub-agents and teams of a lead. Returns whether any were working.
    pub(super) fn end_sub_agents(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) -> bool {
        let Some(conversation) = self.subagents.leads.get(&no).map(|it| it.conversation.clone()) else {
            return false;
        };
        let has_stopped = self.stop_members(copilot, mux, &conversation);
        self.show_teams(mux, &conversation);
        let Some(lead) = self.subagents.leads.get(&no) else { return false };
        let is_open = |it: &&u32| self.subagents.all.get(it).is_some_and(|it| !it.has_ended());
        let open: Vec<u32> = lead.sub_agents.iter().filter(is_open).copied().collect();
        for sub_agent in &open {
            self.end_sub_agent(copilot, mux, *sub_agent, SubAgentState::Cancelled);
        }
        has_stopped || !open.is_empty()
    }
}
