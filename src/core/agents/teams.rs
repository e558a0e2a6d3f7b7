//! Teams: their leads, their storage, and the turns of their members.
//!
//! [`team`] decides about messages and read marks. Each member works in an internal conversation
//! ([`conversations`](super::conversations)), in the partition of its tools and `send_message`.
//!
//! **Members work during a turn of their lead**: it lasts until all are idle, and then gets their messages, like
//! results of sub-agents. Unread messages wait for the next turn.
//!
//! **The stored state is one state of the whole team**: messages, marks and histories, so that a message and the call
//! that sent it are stored together or not at all. A call is answered when its effect is stored.

mod stored;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde_json::{json, value::RawValue};
use tracing::info;

use super::{
    activity::{Activity, BY_USER, Target},
    subagents::view::{agent_event, report, when_ended},
};
use crate::{
    agents::team::{self, Letter, Team},
    config::Config,
    core::{
        agents::{
            Agents,
            conversations::{AgentEvent, ConversationOwner, EditorIds, Limits, Opening, usual},
            subagents::{Lead, TeamCall, answer_of},
        },
        copilot::{Copilot, history::History, messages::CONTINUE, resume::round_with},
        event::{Effect, ProcessId, TeamFault},
        ids::{ConversationId, RequestId},
        mux::Mux,
    },
    rpc::{Frame, member, path, text},
};

/// All teams of this workspace.
#[derive(Debug, Default)]
pub(super) struct Teams {
    known: TeamsKnown,
    live: BTreeMap<String, LiveTeam>,
    /// Teams that could not be loaded, with the reasons.
    faulty: BTreeMap<String, TeamFault>,
    /// The team and position of each member's conversation.
    live_members: BTreeMap<u32, (String, usize)>,
    last: u32,
    /// The number of the last stored state.
    last_stored: u64,
    /// Calls that came before the teams were loaded.
    early: Vec<TeamToolCall>,
    /// Teams with unsaved changes.
    pub(super) dirty: BTreeSet<String>,
}

/// Whether the teams are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TeamsKnown {
    #[default]
    No,
    Asked,
    Yes,
}

/// A team that this lspool owns.
#[derive(Debug)]
struct LiveTeam {
    team: Team,
    /// The conversation that leads it.
    lead: Option<ConversationId>,
    live_members: Vec<LiveMember>,
    /// Whether it was never stored.
    is_new: bool,
    /// The number of the state that is being stored.
    storing: Option<u64>,
    /// Whether the last state could not be stored.
    is_unsaved: bool,
    /// Answers to calls, for after the next state, and after the state that is being stored.
    to_answer: Vec<(TeamToolCall, String)>,
    answering: Vec<(TeamToolCall, String)>,
}

/// A member with its internal conversation.
#[derive(Debug)]
struct LiveMember {
    no: u32,
    internal: Option<u32>,
    /// Its earlier history, and whether its last turn was running.
    history: Option<(History, bool)>,
    /// Whether it was working when the previous lspool ended.
    is_interrupted: bool,
    tool: Option<String>,
    /// When it was last asked.
    since: Option<Instant>,
    /// What is stored of what was said, unless that has changed.
    stored: Option<Box<RawValue>>,
}

/// What programs are told of a member: its state, or what it writes.
#[derive(Clone, Copy, Debug)]
struct Shown<'a> {
    state: &'a str,
    text: Option<&'a str>,
}

impl Shown<'_> {
    fn state(state: &str) -> Shown<'_> {
        Shown { state, text: None }
    }
}

/// A call of one of the tools.
#[derive(Debug)]
pub(super) struct TeamToolCall {
    pub(super) process: ProcessId,
    pub(super) wire: RequestId,
    pub(super) frame: Frame,
    pub(super) conversation: ConversationId,
    /// The calling member; otherwise a lead calls.
    pub(super) live_member: Option<u32>,
    /// Whether it failed, and the teams were loaded again.
    pub(super) is_again: bool,
}

impl Teams {
    /// Whether a team has unsaved changes.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The teams that a conversation leads.
    fn led_by(&self, conversation: &ConversationId) -> impl Iterator<Item = (&String, &LiveTeam)> {
        self.live.iter().filter(move |(_, it)| it.lead.as_ref() == Some(conversation))
    }

    /// Whether another lspool owns a team.
    fn has_busy(&self) -> bool {
        self.faulty.values().any(|it| matches!(it, TeamFault::Busy(_)))
    }

    fn of_live_member(&mut self, live_member: u32) -> Option<(&mut LiveTeam, usize)> {
        let (name, at) = self.live_members.get(&live_member)?;
        Some((self.live.get_mut(name)?, *at))
    }
}

impl LiveTeam {
    /// Notes a message in a member's conversation.
    fn has_spoken(&mut self, at: usize) {
        if let Some(live_member) = self.live_members.get_mut(at) {
            live_member.stored = None;
        }
    }

    fn at_work(&self) -> usize {
        self.team
            .at_work()
            .filter(|at| self.live_members.get(*at).is_some_and(|it| !it.is_interrupted))
            .count()
    }

    /// Whether a member must start a turn.
    fn is_called(&self) -> bool {
        self.team.called().next().is_some() || self.live_members.iter().any(|it| it.is_interrupted)
    }
}

impl Agents {
    fn seated(&mut self, name: &str, team: Team) -> LiveTeam {
        let teams = &mut self.teams;
        let live_member = |at: usize| {
            teams.last += 1;
            teams.live_members.insert(teams.last, (name.to_owned(), at));
            LiveMember {
                no: teams.last,
                internal: None,
                history: None,
                is_interrupted: false,
                tool: None,
                since: None,
                stored: None,
            }
        };
        let live_members = (0..team.members.len()).map(live_member).collect();
        LiveTeam {
            team,
            lead: None,
            live_members,
            is_new: true,
            storing: None,
            is_unsaved: false,
            to_answer: Vec::new(),
            answering: Vec::new(),
        }
    }

    /// Handles a call of `create_team`, `send_message` or `delete_team`.
    pub(super) fn on_team_call(&mut self, copilot: &mut Copilot, mux: &mut Mux, call: TeamToolCall) {
        self.load_teams(mux);
        match self.teams.known {
            TeamsKnown::Yes => self.carry_out_team_call(copilot, mux, call),
            TeamsKnown::No | TeamsKnown::Asked => self.teams.early.push(call),
        }
    }

    fn carry_out_team_call(&mut self, copilot: &mut Copilot, mux: &mut Mux, mut call: TeamToolCall) {
        let params = call.frame.params().unwrap_or(b"{}");
        let name = text(params, &["name"]).unwrap_or_default();
        let input = path(params, &["input"]).map_or(&b"{}"[..], |it| &params[it]);
        let done = match (&*name, call.live_member) {
            (team::SEND, Some(live_member)) => self.send_of_member(live_member, input),
            (team::SEND, None) => self.send_of_lead(copilot, &call.conversation, input),
            (team::CREATE, None) => self.create_team(copilot, mux, &call.conversation, input),
            (team::DELETE, None) => self.delete_team(copilot, mux, &call.conversation, input),
            _ => Err(format!("only a lead may call {name}")),
        };
        let (team, text) = match done {
            Ok(it) => it,
            // The owner of a team may have ended.
            Err(_) if !call.is_again && self.teams.has_busy() => {
                call.is_again = true;
                self.teams.early.push(call);
                self.teams.known = TeamsKnown::No;
                return self.load_teams(mux);
            }
            Err(why) => return Self::answer_team_call(copilot, mux, &call, "error", &why),
        };
        let answer = answer_of(&call.wire, "success", &text);
        // Before it is stored, because the effect and the call belong together.
        copilot.on_tool_answered(&call.conversation, &call.frame, Some(&answer));
        let lead = self.teams.live.get(&team).and_then(|it| it.lead.clone());
        if call.live_member.is_none() && lead.is_some() {
            self.note_team_call(copilot, mux, &call.conversation, call.frame.params().unwrap_or(b"{}"));
        }
        if let Some(no) = lead.and_then(|it| self.lead_of_running(copilot, mux, &it)) {
            self.subagents.due.insert(no);
        }
        match self.teams.live.get_mut(&team) {
            Some(live) => {
                live.to_answer.push((call, text));
                self.teams.dirty.insert(team);
            }
            None => mux.tell(call.process, answer),
        }
    }

    /// Notes the call of a lead that shows its teams from now on. The previous one shows its end.
    fn note_team_call(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        conversation: &ConversationId,
        params: &[u8],
    ) {
        let Some(no) = self.lead_of_running(copilot, mux, conversation) else { return };
        let id = text(params, &["toolCallId"]).unwrap_or_default();
        let round = member(params, "roundId").and_then(|it| serde_json::from_slice(&params[it]).ok());
        let entry = Self::entry(copilot, conversation, &id, params);
        let call = TeamCall { id, round: round.unwrap_or(1), shown: entry.clone(), entry };
        let before = self.subagents.leads.get_mut(&no).and_then(|it| it.team_call.replace(call));
        let before = before.map(|it| (when_ended(&it.entry), it)).filter(|(rest, it)| *rest != it.shown);
        if let (Some((rest, before)), Some(lead)) = (before, self.subagents.leads.get(&no))
            && let Some(report) = report(lead, &round_with(before.round, &rest))
        {
            mux.tell_editor(report);
        }
    }

    /// What the working members of a lead's teams do, for people.
    pub(super) fn teams_at_work(&self, conversation: &ConversationId) -> Option<String> {
        let mut all = Vec::new();
        for (_, live) in self.teams.led_by(conversation) {
            for at in live.team.at_work() {
                let (Some(live_member), Some(member)) =
                    (live.live_members.get(at), live.team.members.get(at))
                else {
                    continue;
                };
                all.push(match &live_member.tool {
                    Some(tool) => format!("{} runs {tool}", member.name),
                    None => format!("{} is working", member.name),
                });
            }
        }
        (!all.is_empty()).then(|| all.join(", "))
    }

    fn answer_team_call(copilot: &mut Copilot, mux: &mut Mux, call: &TeamToolCall, status: &str, text: &str) {
        let answer = answer_of(&call.wire, status, text);
        copilot.on_tool_answered(&call.conversation, &call.frame, Some(&answer));
        if mux.is_current(call.process) {
            mux.tell(call.process, answer);
        }
    }

    /// The lead number of the running turn of a conversation.
    fn lead_of_running(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        conversation: &ConversationId,
    ) -> Option<u32> {
        let turn = copilot.conversations().get(conversation)?.active_turn.turn.clone()?;
        Some(self.lead(copilot, mux, conversation, turn))
    }

    fn create_team(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        lead: &ConversationId,
        input: &[u8],
    ) -> Result<(String, String), String> {
        let agents = &copilot.server(mux).config.agents;
        let team = Team::create(input, agents)?;
        let name = team.name.clone();
        if let Some(fault) = self.teams.faulty.get(&name) {
            return Err(format!("a team {name} already exists, but lspool cannot load it: {fault}"));
        }
        if self.teams.live.contains_key(&name) {
            return Err(format!(
                "a team {name} already exists; send messages to its members, or delete it \
                                first"
            ));
        }
        let members: Vec<String> = team.members.iter().map(|it| it.name.clone()).collect();
        let live = LiveTeam { lead: Some(lead.clone()), ..self.seated(&name, team) };
        self.teams.live.insert(name.clone(), live);
        info!(team = name, lead = %lead, "team started");
        let text = format!("team {name} started: {}", members.join(", "));
        Ok((name, text))
    }

    fn send_of_lead(
        &mut self,
        copilot: &mut Copilot,
        lead: &ConversationId,
        input: &[u8],
    ) -> Result<(String, String), String> {
        let letter = Letter::read(input)?;
        let team = letter.to.split_once('/').map(|(team, _)| team);
        let may_lead = |it: &LiveTeam| Self::may_lead(copilot, it, lead);
        let meant = |(name, it): &(&String, &LiveTeam)| match team {
            Some(team) => *name == team,
            None => it.team.position(&letter.to).is_some(),
        };
        let meant: Vec<&String> = self.teams.live.iter().filter(meant).map(|it| it.0).collect();
        let own: Vec<&String> = self.teams.live.iter().filter(|it| may_lead(it.1)).map(|it| it.0).collect();
        let name = match meant[..] {
            [] => match own[..] {
                [] => return Err(self.no_team(team)),
                [only] => only.clone(),
                _ => {
                    let names: Vec<&str> = own.iter().map(|it| it.as_str()).collect();
                    return Err(format!(
                        "no team has a member {:?}; the teams are {}",
                        letter.to,
                        names.join(", ")
                    ));
                }
            },
            [only] => only.clone(),
            _ => return Err(format!("several teams have a member {:?}: use TEAM/{0}", letter.to)),
        };
        let may_lead = self.teams.live.get(&name).is_some_and(may_lead);
        if !may_lead {
            return Err(format!("another conversation leads team {name}"));
        }
        let Some(live) = self.teams.live.get_mut(&name) else { return Err(self.no_team(team)) };
        live.team.send(None, &letter.to, &letter)?;
        live.lead = Some(lead.clone());
        Ok((name, format!("sent to {}", letter.to)))
    }

    fn no_team(&self, named: Option<&str>) -> String {
        let all = &self.teams.faulty;
        match named.and_then(|it| all.get_key_value(it)).or_else(|| all.first_key_value()) {
            Some((name, fault)) => format!("lspool cannot load team {name}: {fault}"),
            None => format!("there is no team yet; create one with {}", team::CREATE),
        }
    }

    /// Whether a conversation leads a team, or may lead it, because nobody does.
    fn may_lead(copilot: &Copilot, live: &LiveTeam, conversation: &ConversationId) -> bool {
        let leads = |it: &ConversationId| copilot.conversations().get(it).is_some_and(|it| it.set.is_lead());
        live.lead.as_ref().is_none_or(|it| it == conversation || !leads(it))
    }

    fn send_of_member(&mut self, live_member: u32, input: &[u8]) -> Result<(String, String), String> {
        let letter = Letter::read(input)?;
        let (live, at) = self.teams.of_live_member(live_member).ok_or("the team was deleted")?;
        live.team.send(Some(at), &letter.to, &letter)?;
        live.has_spoken(at);
        Ok((live.team.name.clone(), format!("sent to {}", letter.to)))
    }

    fn delete_team(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        lead: &ConversationId,
        input: &[u8],
    ) -> Result<(String, String), String> {
        let name = team::to_delete(input)?;
        if self.teams.live.get(&name).is_some_and(|it| !Self::may_lead(copilot, it, lead)) {
            return Err(format!("another conversation leads team {name}"));
        }
        if let Some(fault @ TeamFault::Busy(_)) = self.teams.faulty.get(&name) {
            return Err(format!("lspool cannot delete team {name}: {fault}"));
        }
        let live = self.forget_team(&name);
        if live.is_none() && self.teams.faulty.remove(&name).is_none() {
            return Err(match self.teams.live.keys().map(String::as_str).collect::<Vec<_>>()[..] {
                [] => format!("unknown team {name:?}"),
                ref names => format!("unknown team {name:?}; the teams are {}", names.join(", ")),
            });
        }
        info!(team = name, "team deleted");
        if let Some(live) = live {
            for (call, text) in live.to_answer.into_iter().chain(live.answering) {
                mux.tell(call.process, answer_of(&call.wire, "success", &text));
            }
            if let Some(lead) = live.lead {
                self.show_teams(mux, &lead);
            }
        }
        mux.act(Effect::RemoveTeam { folders: mux.clients().folders().to_vec(), team: name.clone() });
        Ok((name.clone(), format!("team {name} was deleted")))
    }

    /// Whether the turn of a lead must wait for its teams, or get their messages.
    pub(super) fn has_teams_to_wait_for(&self, copilot: &Copilot, mux: &Mux, lead: &Lead) -> bool {
        let may_be_told = lead.follow_ups < Self::limits(copilot, mux).max_followups;
        let has_unread = || self.teams.led_by(&lead.conversation).any(|(_, it)| it.team.has_unread());
        self.are_teams_at_work(copilot, mux, lead) || (may_be_told && has_unread())
    }

    /// Forgets a team with its members' conversations.
    fn forget_team(&mut self, name: &str) -> Option<LiveTeam> {
        let live = self.teams.live.remove(name)?;
        self.teams.dirty.remove(name);
        self.teams.live_members.retain(|_, (of, _)| of != name);
        self.subagents.closing.extend(live.live_members.iter().filter_map(|it| it.internal));
        Some(live)
    }

    /// Whether members of a lead's teams work, or will.
    pub(super) fn are_teams_at_work(&self, copilot: &Copilot, mux: &Mux, lead: &Lead) -> bool {
        let may_wake = lead.follow_ups < Self::limits(copilot, mux).max_followups
            && lead.wakes < Self::limits(copilot, mux).max_subagents;
        self.teams.led_by(&lead.conversation).any(|(_, it)| it.at_work() > 0 || (may_wake && it.is_called()))
    }

    /// Gives teams without a lead, but with unread messages, to a lead whose turn ends.
    pub(super) fn adopt_teams(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        conversation: &ConversationId,
    ) {
        let is_lead = copilot.conversations().get(conversation).is_some_and(|it| it.set.is_lead());
        if !is_lead || self.teams.live.is_empty() {
            return;
        }
        let adoptable = |it: &&LiveTeam| {
            Self::may_lead(copilot, it, conversation)
                && (it.team.has_unread() || it.is_called() || it.at_work() > 0)
        };
        let names: Vec<String> =
            self.teams.live.iter().filter(|(_, it)| adoptable(it)).map(|(name, _)| name.clone()).collect();
        if names.is_empty() {
            return;
        }
        for name in names {
            if let Some(live) = self.teams.live.get_mut(&name) {
                live.lead = Some(conversation.clone());
            }
        }
        self.lead_of_running(copilot, mux, conversation);
    }

    /// Stores the unsaved teams of a lead again, after its turn.
    pub(super) fn store_again(&mut self, conversation: &ConversationId) {
        let teams = &mut self.teams;
        let unsaved =
            teams.live.iter().filter(|(_, it)| it.is_unsaved && it.lead.as_ref() == Some(conversation));
        teams.dirty.extend(unsaved.map(|(name, _)| name.clone()));
    }

    /// Starts turns of members, as far as there is room. Returns whether there were any.
    pub(super) fn wake_members(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        no: u32,
        mut room: usize,
    ) -> bool {
        let Some(lead) = self.subagents.leads.get(&no) else { return false };
        let limits = Self::limits(copilot, mux);
        if lead.follow_ups >= limits.max_followups {
            return false;
        }
        let mut left = limits.max_subagents.saturating_sub(lead.wakes);
        let conversation = lead.conversation.clone();
        let names: Vec<String> = self.teams.led_by(&conversation).map(|(name, _)| name.clone()).collect();
        let at_work: usize = self.teams.led_by(&conversation).map(|(_, it)| it.at_work()).sum();
        room = room.saturating_sub(at_work);
        let mut has_acted = false;
        for name in names {
            let Some(live) = self.teams.live.get(&name) else { continue };
            let interrupted = live.live_members.iter().enumerate().filter(|(_, it)| it.is_interrupted);
            let called = interrupted.map(|(at, _)| at).chain(live.team.called());
            // A stopped conversation may still be ending.
            let conversations = |at: &usize| {
                live.live_members.get(*at).and_then(|it| it.internal).is_some_and(|it| self.is_talking(it))
            };
            let called: Vec<usize> = called.filter(|at| !conversations(at)).collect();
            for at in called {
                if room == 0 || left == 0 {
                    return has_acted;
                }
                (room, left, has_acted) = (room - 1, left - 1, true);
                if let Some(lead) = self.subagents.leads.get_mut(&no) {
                    lead.wakes += 1;
                }
                self.wake_member(copilot, mux, no, &name, at);
            }
        }
        has_acted
    }

    fn wake_member(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, name: &str, at: usize) {
        let Some(live) = self.teams.live.get_mut(name) else { return };
        let Some(live_member) = live.live_members.get_mut(at) else { return };
        let words = match std::mem::take(&mut live_member.is_interrupted) {
            true => {
                let goes_on =
                    live_member.history.as_mut().is_some_and(|(it, runs)| *runs && it.can_continue());
                let asked = live.team.asked(at).map(str::to_owned);
                if goes_on { Some(CONTINUE.to_owned()) } else { asked }
            }
            false => live.team.wake(at),
        };
        let Some(words) = words else { return };
        (live_member.stored, live_member.since) = (None, Some(mux.now()));
        self.teams.dirty.insert(name.to_owned());
        match self.seat(copilot, mux, no, name, at) {
            Ok(internal) => {
                self.show_member(mux, name, at, Shown::state("running"));
                self.say(copilot, mux, internal, &words);
            }
            Err(why) => {
                if let Some(live) = self.teams.live.get_mut(name) {
                    live.team.ended(at, &Err(why));
                }
                self.show_member(mux, name, at, Shown::state("failed"));
                // Nobody else tells its lead.
                self.subagents.due.insert(no);
            }
        }
    }

    /// The conversation of a member, whose tool calls belong to this turn of its lead from now on.
    fn seat(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        no: u32,
        name: &str,
        at: usize,
    ) -> Result<u32, String> {
        let gone = || "the team was deleted".to_owned();
        let time = Some(Self::limits(copilot, mux).time_limit);
        let live = self.teams.live.get_mut(name).ok_or_else(gone)?;
        let (live_member, member) =
            live.live_members.get_mut(at).zip(live.team.members.get(at)).ok_or_else(gone)?;
        let lead = self.subagents.leads.get(&no).ok_or_else(gone)?;
        let editor_ids = EditorIds {
            conversation: lead.conversation.clone(),
            turn: lead.turn.clone(),
            round: 1,
            name: member.name.clone(),
            agent: member.agent_type.clone(),
        };
        if let Some(internal) = live_member.internal {
            self.editor_ids(internal, editor_ids);
            return Ok(internal);
        }
        let agent = Config::agent_named(&copilot.server(mux).config.agents, &member.agent_type);
        let agent = agent.map(|(_, it)| it.clone());
        let mut agent =
            agent.ok_or_else(|| format!("the configuration no longer has an agent {}", member.agent_type))?;
        agent.model = member.model.clone().or(agent.model);
        let introduced = live.team.introduce(at);
        agent.prompt = Some(match agent.prompt {
            Some(prompt) => format!("{prompt}\n\n{introduced}"),
            None => introduced,
        });
        let conversation = copilot.conversations().get(&lead.conversation);
        let asked =
            conversation.and_then(|it| mux.requests().get(it.active()?)).and_then(|it| it.frame.params());
        let create = conversation.map_or(&b"{}"[..], |it| &it.history.create);
        let usual = usual("Agent", create, asked.unwrap_or(b"{}"));
        let limits = Limits { time, rounds: agent.max_turns, needs_words: false };
        let (owner, history) =
            (ConversationOwner::Member(live_member.no), live_member.history.take().map(|it| it.0));
        let internal = self.open_internal(Opening { owner, agent, editor_ids, limits, usual, history });
        if let Some(live_member) = self.teams.live.get_mut(name).and_then(|it| it.live_members.get_mut(at)) {
            live_member.internal = Some(internal);
        }
        Ok(internal)
    }

    /// Handles an event of a member's conversation.
    pub(super) fn on_member_event(&mut self, mux: &mut Mux, live_member: u32, agent_event: AgentEvent) {
        let Some((live, at)) = self.teams.of_live_member(live_member) else { return };
        let (name, lead) = (live.team.name.clone(), live.lead.clone());
        let lead = lead.and_then(|it| self.subagents.by_conversation.get(&it).copied());
        self.subagents.due.extend(lead);
        match agent_event {
            AgentEvent::Text(words) => {
                self.show_member(mux, &name, at, Shown { state: "running", text: Some(&words) });
            }
            AgentEvent::Tool(tool) => {
                let live_member = live.live_members.get_mut(at);
                let before = live_member.and_then(|it| std::mem::replace(&mut it.tool, tool));
                // A running call is not stored.
                if before.is_some() {
                    live.has_spoken(at);
                    self.teams.dirty.insert(name.clone());
                }
                self.show_member(mux, &name, at, Shown::state("running"));
            }
            AgentEvent::Ended(result) => {
                if live.team.asked(at).is_none() {
                    return;
                }
                live.team.ended(at, &result);
                live.has_spoken(at);
                if let Some(live_member) = live.live_members.get_mut(at) {
                    live_member.tool = None;
                }
                self.teams.dirty.insert(name.clone());
                let state = if result.is_ok() { "idle" } else { "failed" };
                self.show_member(mux, &name, at, Shown::state(state));
            }
        }
    }

    /// Stops the working members of a lead. Returns whether there were any.
    pub(super) fn stop_members(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        conversation: &ConversationId,
    ) -> bool {
        let mut stopped = Vec::new();
        for (name, live) in &mut self.teams.live {
            if live.lead.as_ref() != Some(conversation) {
                continue;
            }
            for at in live.team.at_work().collect::<Vec<_>>() {
                let Some(live_member) = live.live_members.get_mut(at).filter(|it| !it.is_interrupted) else {
                    continue;
                };
                live_member.stored = None;
                live.team.stopped(at);
                stopped.push((name.clone(), at, live_member.internal));
            }
        }
        for (name, at, internal) in &stopped {
            if let Some(internal) = internal {
                self.stop_internal(copilot, mux, *internal, "it was cancelled");
            }
            self.teams.dirty.insert(name.clone());
            self.show_member(mux, name, *at, Shown::state("cancelled"));
        }
        !stopped.is_empty()
    }

    /// The messages of the members to a lead, in their form for it.
    pub(super) fn read_by_lead(&mut self, conversation: &ConversationId) -> Vec<String> {
        let mut agent_event = Vec::new();
        for (name, live) in &mut self.teams.live {
            if live.lead.as_ref() == Some(conversation)
                && let Some(it) = live.team.read_by_lead()
            {
                agent_event.push(it);
                self.teams.dirty.insert(name.clone());
            }
        }
        agent_event
    }

    /// Tells programs that ask what a member is doing.
    fn show_member(&mut self, mux: &mut Mux, name: &str, at: usize, shown: Shown<'_>) {
        let Shown { state, text } = shown;
        self.have_changed |= text.is_none();
        let Some(live) = self.teams.live.get(name) else { return };
        let lead = live.lead.as_ref().and_then(|it| self.subagents.leads.get(&self.subagents.lead_of(it)?));
        let (Some(lead), Some(live_member), Some(member)) =
            (lead.filter(|it| it.events), live.live_members.get(at), live.team.members.get(at))
        else {
            return;
        };
        let mut event =
            json!({"agent": member.name, "agentType": member.agent_type, "team": name, "state": state});
        if let Some(tool) = &live_member.tool {
            event["tool"] = json!(tool);
        }
        if let Some(text) = text {
            event["text"] = json!(text);
        }
        mux.tell_editor(agent_event(lead, &event));
    }

    /// Those that are at work.
    pub(super) fn members_at_work(&self) -> impl Iterator<Item = Activity> {
        self.teams.live.iter().flat_map(|(name, live)| {
            live.team.at_work().filter_map(|at| {
                let (live_member, member) = live.live_members.get(at).zip(live.team.members.get(at))?;
                (!live_member.is_interrupted).then(|| Activity {
                    target: Target::Member(name.clone(), at),
                    name: member.name.clone(),
                    of: name.clone(),
                    task: None,
                    tool: live_member.tool.clone(),
                    since: live_member.since,
                })
            })
        })
    }

    /// Cancels the turn of a member for the user, and tells its lead.
    pub(super) fn cancel_member(&mut self, copilot: &mut Copilot, mux: &mut Mux, name: &str, at: usize) {
        let live_member = self.teams.live.get(name).and_then(|it| it.live_members.get(at));
        if let Some(internal) = live_member.and_then(|it| it.internal) {
            self.stop_internal(copilot, mux, internal, BY_USER);
        }
    }

    /// Checks that teams agree with the other tables.
    pub(super) fn check_teams(&self) -> Result<(), String> {
        for (name, live) in &self.teams.live {
            for (at, live_member) in live.live_members.iter().enumerate() {
                if self.teams.live_members.get(&live_member.no) != Some(&(name.clone(), at)) {
                    return Err(format!("member {at} of team {name} is not found"));
                }
                if let Some(internal) = live_member.internal
                    && !self.is_owned_by(internal, ConversationOwner::Member(live_member.no))
                {
                    return Err(format!("member {at} of team {name} has a conversation that is not its own"));
                }
            }
            let unknown = live.team.at_work().find(|at| {
                !live.live_members.get(*at).is_some_and(|it| it.is_interrupted || it.internal.is_some())
            });
            if let Some(at) = unknown {
                return Err(format!("member {at} of team {name} is at work, and has no conversation"));
            }
            if live.storing.is_none() && !live.answering.is_empty() {
                return Err(format!("calls wait for team {name} to be stored, which it is not"));
            }
        }
        Ok(())
    }
}
