//! Sub-agents at work: what starts, what is heard and done about it, what ends.

use std::collections::BTreeSet;

use tracing::info;

use super::{Phase, run::State, turn::is_turn_of};
use crate::{
    config::AgentConfig,
    core::{
        agents::{
            Agents,
            conversations::{Face, Holder, Limits, News, Opening, usual},
        },
        copilot::Copilot,
        mux::Mux,
    },
};

impl Agents {
    /// Does what is next for the leads to which something has happened. Whether that was anything.
    pub(crate) fn tend_leads(&mut self, copilot: &mut Copilot, mux: &mut Mux) -> bool {
        if mux.clients().is_exiting() || self.is_at_rest() {
            return false;
        }
        let closing = std::mem::take(&mut self.subagents.closing);
        let mut has_acted = !closing.is_empty();
        for talk in closing {
            self.close_talk(copilot, mux, talk);
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

    /// Does what is next for a lead. Whether that was anything.
    fn tend(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) -> bool {
        let Some(lead) = self.subagents.leads.get(&no) else { return false };
        let Some(conversation) =
            copilot.conversations().get(&lead.conversation).filter(|it| is_turn_of(lead, it))
        else {
            // Destroyed, or replaced. The server goes on with the turn all the same.
            self.end_lead(copilot, mux, no, true);
            return true;
        };
        if mux.is_cancelled(conversation.active()) {
            return self.end_runs(copilot, mux, no);
        }
        if mux.clients().is_shut_down() {
            return false;
        }
        let is_open = |it: &&u32| self.subagents.runs.get(it).is_some_and(|it| !it.has_ended());
        let open: Vec<u32> = lead.runs.iter().filter(is_open).copied().collect();
        if lead.phase == Phase::Resting && open.is_empty() && !self.are_teams_at_work(copilot, mux, lead) {
            let conversation = lead.conversation.clone();
            self.show_teams(mux, &conversation);
            self.feed(copilot, mux, no);
            return true;
        }
        let waits = |it: &u32| self.subagents.runs.get(it).is_some_and(|it| it.state == State::Waiting);
        let (mut waiting, at_work): (Vec<u32>, Vec<u32>) = open.into_iter().partition(waits);
        let room = Self::limits(copilot, mux).max_parallel.saturating_sub(at_work.len());
        let left = waiting.split_off(room.min(waiting.len()));
        let has_woken = self.wake_members(copilot, mux, no, room.saturating_sub(waiting.len()));
        for run in &waiting {
            self.start_run(copilot, mux, *run);
        }
        for run in left {
            let unshown = self.subagents.runs.get_mut(&run).filter(|it| !it.is_shown);
            if let Some(it) = unshown {
                it.is_shown = true;
                self.show_run(mux, run);
            }
        }
        if let Some(conversation) = self.subagents.leads.get(&no).map(|it| it.conversation.clone()) {
            self.show_teams(mux, &conversation);
        }
        has_woken || !waiting.is_empty()
    }

    fn start_run(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) {
        let time = Some(Self::limits(copilot, mux).time_limit);
        let Some(run) = self.subagents.runs.get_mut(&no) else { return };
        run.started = Some(mux.now());
        let agent = copilot.server(mux).config.agents.get(&run.agent).cloned();
        let (Some(agent), Some(lead)) = (agent, self.subagents.leads.get(&run.lead)) else {
            let why = format!("there is no agent {} any more", run.agent);
            return self.end_run(copilot, mux, no, State::Ended(Err(why)));
        };
        let conversation = copilot.conversations().get(&lead.conversation);
        let asked =
            conversation.and_then(|it| mux.requests().get(it.active()?)).and_then(|it| it.frame.params());
        let create = conversation.map_or(&b"{}"[..], |it| &it.history.create);
        let face = Face {
            conversation: lead.conversation.clone(),
            turn: lead.turn.clone(),
            round: run.round,
            name: run.name.clone(),
            agent: run.agent.clone(),
        };
        let AgentConfig { max_turns: rounds, .. } = agent;
        let (usual, words) = (usual("Agent", create, asked.unwrap_or(b"{}")), run.prompt.clone());
        let limits = Limits { time, rounds, needs_words: true };
        let talk =
            self.open_talk(Opening { holder: Holder::Run(no), agent, face, limits, usual, history: None });
        if let Some(run) = self.subagents.runs.get_mut(&no) {
            run.state = State::Working(talk);
        }
        self.show_run(mux, no);
        self.say(copilot, mux, talk, &words);
    }

    /// Something has become of the conversation of a sub-agent.
    pub(crate) fn on_run_news(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, news: News) {
        match news {
            News::Text(_) => {}
            News::Tool(tool) => {
                if let Some(run) = self.subagents.runs.get_mut(&no) {
                    run.tool = tool;
                    self.show_run(mux, no);
                }
            }
            News::Ended(result) => self.end_run(copilot, mux, no, State::Ended(result)),
        }
    }

    fn end_run(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, how: State) {
        let Some(run) = self.subagents.runs.get_mut(&no) else { return };
        info!(sub_agent = run.name, done = matches!(how, State::Ended(Ok(_))), "a sub-agent has ended");
        let before = std::mem::replace(&mut run.state, how);
        (run.ended, run.tool) = (Some(mux.now()), None);
        self.subagents.due.insert(run.lead);
        self.show_run(mux, no);
        if let State::Working(talk) = before {
            self.close_talk(copilot, mux, talk);
        }
    }

    /// Nobody waits any more for the sub-agents of a lead, or its teams. Whether there were any at work.
    pub(super) fn end_runs(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) -> bool {
        let Some(conversation) = self.subagents.leads.get(&no).map(|it| it.conversation.clone()) else {
            return false;
        };
        let has_stopped = self.stop_members(copilot, mux, &conversation);
        self.show_teams(mux, &conversation);
        let Some(lead) = self.subagents.leads.get(&no) else { return false };
        let is_open = |it: &&u32| self.subagents.runs.get(it).is_some_and(|it| !it.has_ended());
        let open: Vec<u32> = lead.runs.iter().filter(is_open).copied().collect();
        for run in &open {
            self.end_run(copilot, mux, *run, State::Cancelled);
        }
        has_stopped || !open.is_empty()
    }
}
