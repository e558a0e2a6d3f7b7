//! Sub-agents at work: what starts, what is heard and done about it, what ends.

use std::{collections::BTreeSet, time::Instant};

use tracing::info;

use super::{Phase, Proxy, run::State, turn::is_turn_of};
use crate::{
    config::AgentConfig,
    core::{
        event::Effects,
        inside::{Face, Holder, Limits, News, Opening, usual},
    },
};

impl Proxy {
    /// Does what is next for the leads to which something has happened. Whether that was anything.
    pub(crate) fn tend_leads(&mut self, now: Instant, out: &mut Effects) -> bool {
        if self.phase.is_exiting() || self.agents.is_at_rest() {
            return false;
        }
        let closing = std::mem::take(&mut self.agents.closing);
        let mut has_acted = !closing.is_empty();
        for talk in closing {
            self.close_talk(now, talk, out);
        }
        let touched = self.conversations.take_touched();
        let touched = touched.iter().filter_map(|it| self.agents.lead_of(it));
        let mut due: BTreeSet<u32> = touched.collect();
        due.append(&mut self.agents.due);
        for no in due {
            has_acted |= self.tend(now, no, out);
        }
        self.store_teams(out) || has_acted
    }

    /// Does what is next for a lead. Whether that was anything.
    fn tend(&mut self, now: Instant, no: u32, out: &mut Effects) -> bool {
        let Some(lead) = self.agents.leads.get(&no) else { return false };
        let Some(conversation) = self.conversations.get(&lead.conversation).filter(|it| is_turn_of(lead, it))
        else {
            // Destroyed, or replaced. The server goes on with the turn all the same.
            self.end_lead(now, no, true, out);
            return true;
        };
        if self.is_cancelled(conversation.active()) {
            return self.end_runs(now, no, out);
        }
        if self.phase.is_shut_down() {
            return false;
        }
        let is_open = |it: &&u32| self.agents.runs.get(it).is_some_and(|it| !it.has_ended());
        let open: Vec<u32> = lead.runs.iter().filter(is_open).copied().collect();
        if lead.phase == Phase::Resting && open.is_empty() && !self.are_teams_at_work(lead) {
            let conversation = lead.conversation.clone();
            self.show_teams(&conversation, out);
            self.feed(now, no, out);
            return true;
        }
        let waits = |it: &u32| self.agents.runs.get(it).is_some_and(|it| it.state == State::Waiting);
        let (mut waiting, at_work): (Vec<u32>, Vec<u32>) = open.into_iter().partition(waits);
        let room = self.limits().max_parallel.saturating_sub(at_work.len());
        let left = waiting.split_off(room.min(waiting.len()));
        let has_woken = self.wake_members(now, no, room.saturating_sub(waiting.len()), out);
        for run in &waiting {
            self.start_run(now, *run, out);
        }
        for run in left {
            let unshown = self.agents.runs.get_mut(&run).filter(|it| !it.is_shown);
            if let Some(it) = unshown {
                it.is_shown = true;
                self.show(now, run, out);
            }
        }
        if let Some(conversation) = self.agents.leads.get(&no).map(|it| it.conversation.clone()) {
            self.show_teams(&conversation, out);
        }
        has_woken || !waiting.is_empty()
    }

    fn start_run(&mut self, now: Instant, no: u32, out: &mut Effects) {
        let time = Some(self.limits().time_limit);
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        run.started = Some(now);
        let agent = self.server.as_ref().and_then(|it| it.config.agents.get(&run.agent)).cloned();
        let (Some(agent), Some(lead)) = (agent, self.agents.leads.get(&run.lead)) else {
            let why = format!("there is no agent {} any more", run.agent);
            return self.end_run(now, no, State::Ended(Err(why)), out);
        };
        let conversation = self.conversations.get(&lead.conversation);
        let asked =
            conversation.and_then(|it| self.requests.get(it.active()?)).and_then(|it| it.frame.params());
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
        if let Some(run) = self.agents.runs.get_mut(&no) {
            run.state = State::Working(talk);
        }
        self.show(now, no, out);
        self.say(now, talk, &words, out);
    }

    /// Something has become of the conversation of a sub-agent.
    pub(crate) fn on_run_news(&mut self, now: Instant, no: u32, news: News, out: &mut Effects) {
        match news {
            News::Text(_) => {}
            News::Tool(tool) => {
                if let Some(run) = self.agents.runs.get_mut(&no) {
                    run.tool = tool;
                    self.show(now, no, out);
                }
            }
            News::Ended(result) => self.end_run(now, no, State::Ended(result), out),
        }
    }

    fn end_run(&mut self, now: Instant, no: u32, how: State, out: &mut Effects) {
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        info!(sub_agent = run.name, done = matches!(how, State::Ended(Ok(_))), "a sub-agent has ended");
        let before = std::mem::replace(&mut run.state, how);
        (run.ended, run.tool) = (Some(now), None);
        self.agents.due.insert(run.lead);
        self.show(now, no, out);
        if let State::Working(talk) = before {
            self.close_talk(now, talk, out);
        }
    }

    /// Nobody waits any more for the sub-agents of a lead, or its teams. Whether there were any at work.
    pub(super) fn end_runs(&mut self, now: Instant, no: u32, out: &mut Effects) -> bool {
        let Some(conversation) = self.agents.leads.get(&no).map(|it| it.conversation.clone()) else {
            return false;
        };
        let has_stopped = self.stop_members(now, &conversation, out);
        self.show_teams(&conversation, out);
        let Some(lead) = self.agents.leads.get(&no) else { return false };
        let is_open = |it: &&u32| self.agents.runs.get(it).is_some_and(|it| !it.has_ended());
        let open: Vec<u32> = lead.runs.iter().filter(is_open).copied().collect();
        for run in &open {
            self.end_run(now, *run, State::Cancelled, out);
        }
        has_stopped || !open.is_empty()
    }
}
