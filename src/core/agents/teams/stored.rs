//! The storage of teams: loads them, stores changes, and answers the calls that wait for that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, value::RawValue};
use tracing::{info, warn};

use super::{LiveMember, LiveTeam, TeamToolCall, TeamsKnown};
use crate::{
    agents::team::Team,
    core::{
        agents::{Agents, subagents::answer_of},
        copilot::{Copilot, history::History, turns::tool_calls::cancelled_call},
        event::{Effect, ProcessId, StoredTeam, TeamFault},
        ids::ConversationId,
        mux::Mux,
        purpose::ToolQuestion,
    },
};

impl Agents {
    /// Loads the teams when a lead may need them.
    pub(crate) fn load_teams(&mut self, mux: &mut Mux) {
        if self.teams.known == TeamsKnown::No {
            self.teams.known = TeamsKnown::Asked;
            mux.act(Effect::LoadTeams { folders: mux.clients().folders().to_vec() });
        }
    }

    /// Handles the loaded teams.
    pub(crate) fn on_teams_loaded(&mut self, copilot: &mut Copilot, mux: &mut Mux, found: Vec<StoredTeam>) {
        if self.teams.known == TeamsKnown::Yes {
            return;
        }
        self.teams.known = TeamsKnown::Yes;
        self.teams.faulty.clear();
        for StoredTeam { name, state } in found {
            if self.teams.live.contains_key(&name) {
                continue;
            }
            let read = |text: &[u8]| Team::from_stored(&name, text).map_err(TeamFault::Unreadable);
            match state.and_then(|it| read(&it)).and_then(|it| self.restored(&name, it)) {
                Ok(live) => drop(self.teams.live.insert(name, live)),
                Err(fault) => {
                    warn!(team = name, %fault, "could not load a team");
                    self.teams.faulty.insert(name, fault);
                }
            }
        }
        for call in std::mem::take(&mut self.teams.early) {
            self.carry_out_team_call(copilot, mux, call);
        }
    }

    fn restored(
        &mut self,
        name: &str,
        (team, histories): (Team, BTreeMap<String, Value>),
    ) -> Result<LiveTeam, TeamFault> {
        let mut read = BTreeMap::new();
        for (member, history) in histories {
            let damaged =
                || format!("its stored state is damaged: the conversation of {member} cannot be read");
            let history = History::from_stored(&history).ok_or_else(|| TeamFault::Unreadable(damaged()))?;
            read.insert(member, history);
        }
        info!(team = name, members = team.members.len(), "team loaded");
        let asked: BTreeSet<usize> = team.at_work().collect();
        let mut live = self.seated(name, team);
        for (at, live_member) in live.live_members.iter_mut().enumerate() {
            live_member.history = live.team.members.get(at).and_then(|it| read.remove(&it.name));
            live_member.is_interrupted = asked.contains(&at);
        }
        Ok(LiveTeam { is_new: false, ..live })
    }

    /// Stores changed teams. Returns whether there were any.
    pub(in crate::core::agents) fn store_teams(&mut self, copilot: &mut Copilot, mux: &mut Mux) -> bool {
        let mut has_acted = false;
        for name in std::mem::take(&mut self.teams.dirty) {
            let Some(live) = self.teams.live.get(&name) else { continue };
            if live.storing.is_some() {
                self.teams.dirty.insert(name);
                continue;
            }
            let changed = live.live_members.iter().enumerate().filter(|(_, it)| it.stored.is_none());
            let changed: Vec<_> =
                changed.filter_map(|(at, it)| Some((at, self.stored(copilot, it)?))).collect();
            let Some(live) = self.teams.live.get_mut(&name) else { continue };
            for (at, stored) in changed {
                if let Some(live_member) = live.live_members.get_mut(at) {
                    live_member.stored = Some(stored);
                }
            }
            let said = live.live_members.iter().zip(&live.team.members);
            let said = said
                .filter_map(|(live_member, member)| Some((&*member.name, live_member.stored.as_deref()?)));
            let content = live.team.to_stored(&said.collect());
            self.teams.last_stored += 1;
            let number = self.teams.last_stored;
            live.storing = Some(number);
            live.answering = std::mem::take(&mut live.to_answer);
            let (folders, content, is_new) = (mux.clients().folders().to_vec(), content.into(), live.is_new);
            mux.act(Effect::WriteTeam { number, folders, team: name, content, is_new });
            has_acted = true;
        }
        has_acted
    }

    fn stored(&self, copilot: &Copilot, live_member: &LiveMember) -> Option<Box<RawValue>> {
        let said = live_member.internal.and_then(|it| self.said_in(copilot, it));
        let (history, is_running) = said.or_else(|| live_member.history.as_ref().map(|it| (&it.0, it.1)))?;
        Some(history.to_stored(is_running))
    }

    /// Handles the result of storing a team.
    pub(crate) fn on_team_written(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        number: u64,
        name: &str,
        written: &Result<(), TeamFault>,
    ) {
        let Some(live) = self.teams.live.get_mut(name).filter(|it| it.storing == Some(number)) else {
            return;
        };
        live.storing = None;
        let mut answering = std::mem::take(&mut live.answering);
        let is_lost = live.is_new && written.is_err();
        live.is_new &= written.is_err();
        live.is_unsaved = written.is_err();
        if let Err(fault) = written {
            warn!(team = name, %fault, "could not store a team");
        }
        if is_lost && let Some(live) = self.forget_team(name) {
            answering.extend(live.to_answer);
            self.subagents.due.extend(live.lead.and_then(|it| self.subagents.lead_of(&it)));
        }
        for (call, text) in answering {
            let (status, text) = match written {
                Ok(()) => ("success", text),
                Err(fault) if is_lost => ("error", format!("lspool cannot create team {name}: {fault}")),
                Err(fault) => ("success", format!("{text}, but lspool could not store it: {fault}")),
            };
            match is_lost {
                true => Self::answer_team_call(copilot, mux, &call, status, &text),
                false if mux.is_current(call.process) => {
                    mux.tell(call.process, answer_of(&call.wire, status, &text));
                }
                false => {}
            }
        }
    }

    /// Answers the calls of cancelled turns, without waiting for the storage.
    pub(in crate::core::agents) fn settle_cancelled_calls(&mut self, copilot: &mut Copilot, mux: &mut Mux) {
        for (process, family) in copilot.take_cancelled() {
            self.settle_team_calls(mux, process, &family);
        }
    }

    fn settle_team_calls(&mut self, mux: &mut Mux, process: ProcessId, family: &[ConversationId]) {
        let is_open = |it: &TeamToolCall| it.process == process && family.contains(&it.conversation);
        let teams = &mut self.teams;
        let mut open: Vec<TeamToolCall> = teams.early.extract_if(.., |it| is_open(it)).collect();
        for live in teams.live.values_mut() {
            for calls in [&mut live.answering, &mut live.to_answer] {
                open.extend(calls.extract_if(.., |it| is_open(&it.0)).map(|it| it.0));
            }
        }
        for TeamToolCall { wire, .. } in open {
            mux.tell(process, cancelled_call(wire, ToolQuestion::Call));
        }
    }
}
