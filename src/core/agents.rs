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
mod view;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tracing::info;

use self::run::{CANCELLED, News, Run, State};
use super::{PRIMARY, Proxy, selection::Choice, tell_editor};
use crate::{
    agents::{self, Command, DELEGATE, ORCHESTRATION, SUMMARY, TERMINAL, Task},
    config::{AgentConfig, Config, Delegation, SubAgentsConfig},
    core::{
        catalogue::Catalogue,
        conversations::Conversation,
        event::{BackendId, ClientId, Effect, Effects, Peer, ProcessId},
        recovery::{Over, Part},
        requests::{Owner, Pending, Purpose, SentId, To},
        selection::agent_set,
        toolset::ToolSet,
    },
    rpc::{Frame, Patch, RawId, elements, member, path, text},
};

/// Of a lead's create, what each of its sub-agents has as well.
const INHERITED: [&str; 6] = [
    "source",
    "capabilities",
    "userLanguage",
    "workspaceFolder",
    "workspaceFolders",
    "needToolCallConfirmation",
];

/// How a request says which model it wants.
const MODEL: [&str; 3] = ["modelInfo", "model", "modelProviderName"];

/// What of a lead's request is not asked again when it goes on.
const ASKED_ONCE: [&str; 9] = [
    "turns",
    "message",
    "restoreToTurnId",
    "references",
    "followUp",
    "confirmationResponse",
    "selection",
    "visibleRanges",
    "todoList",
];

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
            self.refuse(process, wire.clone(), &name, is_confirmation, out);
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
        let is_full = lead.runs.len() - lead.fed >= limits.max_parallel;
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

    /// Whether the running turn of a conversation has runs whose results it is still to be told.
    pub(super) fn is_followed_up(&self, id: &RawId) -> bool {
        let lead = self.agents.lead_of(id).and_then(|it| self.agents.leads.get(&it));
        let (Some(lead), Some(conversation)) = (lead, self.conversations.get(id)) else { return false };
        let ended_well = lead.phase == Phase::Ended || conversation.flight.over != Over::Ended;
        ended_well && lacks_results(lead, conversation)
    }

    /// Whether the turn of a conversation waits for the results of its runs.
    pub(super) fn waits_for_results(&self, id: &RawId) -> bool {
        self.agents
            .lead_of(id)
            .and_then(|it| self.agents.leads.get(&it))
            .is_some_and(|it| it.phase == Phase::Resting)
    }

    /// The server ends a turn. Whether that is not the end for the editor.
    pub(super) fn goes_on_with_results(&mut self, id: &RawId, value: &[u8]) -> bool {
        let ends_well = member(value, "error").is_none() && member(value, "cancellationReason").is_none();
        let Some(no) = self.agents.lead_of(id).filter(|_| ends_well) else { return false };
        let (Some(lead), Some(conversation)) = (self.agents.leads.get_mut(&no), self.conversations.get(id))
        else {
            return false;
        };
        let goes_on = lacks_results(lead, conversation);
        if goes_on {
            lead.phase = Phase::Ended;
        }
        goes_on
    }

    /// A server has answered. Where that is the end of a turn that is to be told results, it rests; else the request is
    /// given back.
    pub(super) fn rests_for_results(
        &mut self,
        sent: SentId,
        pending: Pending,
        answer: &Frame,
        out: &mut Effects,
    ) -> Option<Pending> {
        let Purpose::Turn { conversation: id, .. } = &pending.purpose else { return Some(pending) };
        let Some(no) = self.agents.lead_of(id) else { return Some(pending) };
        let Some(conversation) = self.conversations.get(id).filter(|it| it.active == Some(sent)) else {
            return Some(pending);
        };
        let (id, is_cancelled) = (id.clone(), conversation.cancelled);
        if let Some(result) = answer.result().filter(|_| self.is_followed_up(&id)) {
            self.conversations.learn_answer(result);
            if let To::Process(process) = pending.to {
                self.clear_transcripts(process, out);
            }
            self.rest(&id, pending, out);
            return None;
        }
        self.give_up_runs(no, is_cancelled, out);
        Some(pending)
    }

    /// The turn of a lead comes to its end without results: the editor hears of its calls, and the `end` that was kept
    /// back.
    fn give_up_runs(&mut self, no: u32, is_cancelled: bool, out: &mut Effects) {
        let Some(phase) = self.agents.leads.get(&no).map(|it| it.phase) else { return };
        self.close_calls_of(no, out);
        let Some(lead) = self.agents.leads.get(&no) else { return };
        if phase == Phase::Ended {
            let why = is_cancelled.then(|| ("cancellationReason", "\"CancelledByUser\"".to_owned()));
            if let Some(params) = self.tokens.ended(lead.backend, &lead.conversation, why) {
                tell_editor(Frame::notification("$/progress", Some(&params)), out);
            }
        }
    }

    /// The turn that was asked with this request waits for its runs.
    pub(super) fn rest(&mut self, id: &RawId, pending: Pending, out: &mut Effects) {
        self.withdraw_kept(id, out);
        let Some(no) = self.agents.lead_of(id) else { return };
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let Purpose::Turn { token, .. } = pending.purpose else { return };
        let mut params = Patch::of(pending.frame.params().unwrap_or(b"{}"));
        for key in ASKED_ONCE {
            params.remove(key);
        }
        if let Some(turn) = &conversation.flight.turn {
            params.set("turnId", turn.as_bytes());
        }
        let params = params.set("message", b"\"\"").set("conversationId", id.as_bytes()).finish();
        let frame = Frame::request(RawId::from(0), "conversation/turn", Some(&params));
        let purpose = Purpose::Turn { conversation: id.clone(), token, create: false };
        let (sent, frame) =
            self.requests.sent(To::Gate(conversation.backend), pending.owner, purpose, &frame);
        conversation.active = Some(sent);
        let flight = &mut conversation.flight;
        (flight.over, flight.continues, flight.restored) = (Over::No, false, false);
        flight.resting = Some(frame);
        if let Some(lead) = self.agents.leads.get_mut(&no) {
            (lead.phase, lead.is_due) = (Phase::Resting, true);
        }
        info!(conversation = %id, "a lead waits for its sub-agents");
    }

    /// All runs of a turn that rests have ended: it goes on.
    fn feed(&mut self, now: Instant, no: u32, out: &mut Effects) {
        let most = self.limits();
        let Some(lead) = self.agents.leads.get_mut(&no) else { return };
        let runs = lead.runs[lead.fed..].iter().filter_map(|it| self.agents.runs.get(it));
        let outcomes: Vec<_> = runs.filter_map(|it| it.result(now)).collect();
        lead.follow_ups += 1;
        let more = lead.follow_ups < most.max_followups && lead.runs.len() < most.max_subagents;
        let message = json!(agents::results(&outcomes, more));
        (lead.fed, lead.phase) = (lead.runs.len(), Phase::Asked);
        let Some(conversation) = self.conversations.get_mut(&lead.conversation) else { return };
        let backend = conversation.backend;
        let flight = &mut conversation.flight;
        let Some(frame) = flight.resting.take() else { return };
        let params = Patch::of(frame.params().unwrap_or(b"{}"))
            .set("message", message.to_string().as_bytes())
            .finish();
        let frame = frame.with_params(&params);
        if let Some(sent) = conversation.active {
            self.requests.reword(sent, &frame);
        }
        if let Some(record) = conversation.history.turn(&lead.turn) {
            flight.part = Some(Part::following(flight.part.take(), record));
            record.follow_up(message);
        }
        self.release(backend, frame, out);
    }

    /// What those inside are told they act on. Whether anything has come of it.
    pub(super) fn run_agents(&mut self, now: Instant, out: &mut Effects) -> bool {
        if self.agents.is_idle() || self.phase.is_exiting() {
            return false;
        }
        let said = self.take_said(now, out);
        let is_news = !said.is_empty();
        for it in said {
            match it {
                view::Said::Answer(no, answer) => self.on_run_answered(now, no, &answer, out),
                view::Said::Progress(no, params) => self.on_run_progress(now, no, &params, out),
            }
        }
        let mut has_changed = is_news;
        for no in self.agents.leads.keys().copied().collect::<Vec<_>>() {
            has_changed |= self.tend(now, no, out);
        }
        has_changed
    }

    /// Does what is next for a lead. Whether that was anything.
    fn tend(&mut self, now: Instant, no: u32, out: &mut Effects) -> bool {
        let Some(lead) = self.agents.leads.get_mut(&no) else { return false };
        let conversation = self.conversations.get(&lead.conversation);
        let is_running = conversation.is_some_and(|it| is_turn_of(lead, it));
        let is_wanted =
            is_running && !conversation.is_some_and(|it| it.cancelled) && lead.phase != Phase::Over;
        if !std::mem::take(&mut lead.is_due) && is_wanted {
            return false;
        }
        let runs = lead.runs.clone();
        let ends = !is_running && lead.phase != Phase::Over;
        if ends {
            // Destroyed, or replaced. The server goes on with the turn all the same.
            self.give_up_runs(no, true, out);
        }
        let Some(phase) = self.agents.leads.get(&no).map(|it| it.phase) else { return false };
        let open = |it: &&u32| self.agents.runs.get(it).is_some_and(|it| !it.has_ended());
        let open: Vec<u32> = runs.iter().filter(open).copied().collect();
        if !is_wanted {
            let mut stopped = ends;
            for run in &open {
                stopped |= self.stop_run(now, *run, CANCELLED, out);
            }
            if phase == Phase::Over && open.is_empty() {
                self.agents.leads.remove(&no);
                self.agents.runs.retain(|_, it| it.lead != no);
            }
            return stopped;
        }
        if self.phase.is_shut_down() {
            return false;
        }
        if phase == Phase::Resting && open.is_empty() {
            self.feed(now, no, out);
            return true;
        }
        let waits = |it: &u32| self.agents.runs.get(it).is_some_and(|it| it.state == State::Waiting);
        let (waiting, at_work): (Vec<u32>, Vec<u32>) = open.into_iter().partition(waits);
        let room = self.limits().max_parallel.saturating_sub(at_work.len());
        let starting: Vec<u32> = waiting.into_iter().take(room).collect();
        for run in &starting {
            self.start_run(now, *run, out);
        }
        !starting.is_empty()
    }

    fn start_run(&mut self, now: Instant, no: u32, out: &mut Effects) {
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        let config = self.server.as_ref().map(|it| it.config.clone());
        let agent = config.as_ref().and_then(|it| it.agents.get(&run.agent));
        let (Some(config), Some(agent)) = (&config, agent) else {
            let why = format!("there is no agent {} any more", run.agent);
            return self.end_run(now, no, Err(why), out);
        };
        run.started = Some(now);
        let lead = self.agents.leads.get(&run.lead).and_then(|it| self.conversations.get(&it.conversation));
        let asked = lead.and_then(|it| self.requests.get(it.active?)).and_then(|it| it.frame.params());
        let asked = asked.unwrap_or(b"{}");
        let create = lead.map_or(&b"{}"[..], |it| &it.history.create);
        let mut usual = Patch::of(br#"{"computeSuggestions":false,"chatMode":"Agent"}"#);
        for (keys, from) in [(&INHERITED[..], create), (&MODEL[..], asked)] {
            for key in keys {
                if let Some(range) = member(from, key) {
                    usual.set(key, &from[range]);
                }
            }
        }
        run.usual = usual.set("workDoneToken", run.conversation.as_bytes()).finish().into();
        if let Some(model) = &agent.model {
            let model = config.models.get(model).unwrap_or(model).clone();
            run.state = State::Choosing(model);
            let frame = Frame::request(run.next_id(), "copilot/models", Some(b"{}"));
            let owner = Owner::Client(run.client, RawId::from(run.asked));
            self.send_to_backend(PRIMARY, owner, Purpose::Plain, &frame, out);
            return;
        }
        let agent = agent.clone();
        self.open_run(now, no, &agent, out);
    }

    /// Creates the conversation of a run.
    fn open_run(&mut self, now: Instant, no: u32, agent: &AgentConfig, out: &mut Effects) {
        let set = self.sub_agent_set(agent);
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        run.state = State::Turning;
        let request = json!([{"request": agents::request(agent, &run.prompt)}]).to_string();
        let params = Patch::of(&run.usual)
            .set("conversationId", run.conversation.as_bytes())
            .set("turns", request.as_bytes())
            .finish();
        let id = run.next_id();
        let frame = Frame::request(id.clone(), "conversation/create", Some(&params));
        let owner = Owner::Client(run.client, id);
        self.create(now, owner, Choice { set, events: false }, &frame, out);
        self.show(now, no, out);
    }

    fn on_run_progress(&mut self, now: Instant, no: u32, params: &[u8], out: &mut Effects) {
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        let news = run.hear(params);
        let most = self.server.as_ref().and_then(|it| it.config.agents.get(&run.agent)?.max_turns);
        let rounds = usize::try_from(run.rounds()).unwrap_or(usize::MAX);
        let too_many = most.filter(|it| rounds > *it);
        if news == News::Tool {
            self.show(now, no, out);
        }
        if let Some(most) = too_many {
            self.stop_run(now, no, &format!("it was stopped: it may ask its model {most} times"), out);
        }
    }

    fn on_run_answered(&mut self, now: Instant, no: u32, answer: &Frame, out: &mut Effects) {
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        if answer.id().and_then(|it| it.as_u64()) != Some(run.asked) {
            return;
        }
        let error = answer.error_value().map(|it| text(it, &["message"]).unwrap_or_default());
        match (&run.state, &run.stop) {
            (State::Choosing(_), Some(why)) => {
                let why = why.clone();
                self.end_run(now, no, Err(why), out);
            }
            (State::Choosing(model), None) => {
                let model = model.clone();
                self.on_models(now, no, &model, answer.result(), error, out);
            }
            (State::Turning, _) => match run.outcome(error.as_deref()) {
                Some(result) => self.end_run(now, no, result, out),
                None if run.is_asked_again => {
                    let why = "it has ended without a word, twice".to_owned();
                    self.end_run(now, no, Err(why), out);
                }
                None => self.ask_for_summary(now, no, out),
            },
            (State::Waiting | State::Ended(_), _) => {}
        }
    }

    fn on_models(
        &mut self,
        now: Instant,
        no: u32,
        model: &str,
        models: Option<&[u8]>,
        error: Option<String>,
        out: &mut Effects,
    ) {
        let Some(models) = models else {
            let why = format!("which models there are is not known: {}", error.unwrap_or_default());
            return self.end_run(now, no, Err(why), out);
        };
        let config = self.server.as_ref().map(|it| it.config.clone());
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        let agent = config.as_ref().and_then(|it| it.agents.get(&run.agent));
        match (chosen(model, models), agent) {
            (Ok(model), Some(agent)) => {
                let info = json!({"id": model}).to_string();
                let mut usual = Patch::of(&run.usual);
                for key in MODEL {
                    usual.remove(key);
                }
                run.usual = usual.set("modelInfo", info.as_bytes()).finish().into();
                self.open_run(now, no, &agent.clone(), out);
            }
            (Err(why), _) => self.end_run(now, no, Err(why), out),
            (Ok(_), None) => {
                let why = format!("there is no agent {} any more", run.agent);
                self.end_run(now, no, Err(why), out);
            }
        }
    }

    fn ask_for_summary(&mut self, now: Instant, no: u32, out: &mut Effects) {
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        run.begin_again();
        let params = Patch::of(&run.usual)
            .set("conversationId", run.conversation.as_bytes())
            .set("message", json!(SUMMARY).to_string().as_bytes())
            .finish();
        let id = run.next_id();
        let frame = Frame::request(id.clone(), "conversation/turn", Some(&params));
        let owner = Owner::Client(run.client, id);
        self.on_turn(now, owner, &frame, out);
    }

    /// A run is to end. Whether that is news to it.
    fn stop_run(&mut self, now: Instant, no: u32, why: &str, out: &mut Effects) -> bool {
        let Some(run) = self.agents.runs.get_mut(&no).filter(|it| !it.has_ended() && it.stop.is_none())
        else {
            return false;
        };
        run.stop = Some(why.to_owned());
        match run.state {
            State::Waiting => self.end_run(now, no, Err(why.to_owned()), out),
            State::Choosing(_) | State::Turning => {
                let (client, params) = (run.client, json!({"id": run.asked}).to_string());
                let frame = Frame::notification("$/cancelRequest", Some(params.as_bytes()));
                self.on_client_cancel(client, &frame, out);
            }
            State::Ended(_) => {}
        }
        true
    }

    fn end_run(&mut self, now: Instant, no: u32, result: Result<String, String>, out: &mut Effects) {
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        info!(sub_agent = run.name, done = result.is_ok(), "a sub-agent has ended");
        run.end(result, now);
        if let Some(lead) = self.agents.leads.get_mut(&run.lead) {
            lead.is_due = true;
        }
        let id = run.conversation.clone();
        self.show(now, no, out);
        if self.conversations.get(&id).is_some() {
            let params = Patch::of(b"{}").set("conversationId", id.as_bytes()).finish();
            let frame = Frame::request(RawId::from(0), "conversation/destroy", Some(&params));
            self.on_destroy(Owner::Proxy, &frame, out);
        }
    }

    pub(super) fn on_agent_deadlines(&mut self, now: Instant, out: &mut Effects) {
        let limit = self.agents.time_limit;
        let is_due = |it: &Run| it.is_owed() && it.started.is_some_and(|it| it + limit <= now);
        let due: Vec<u32> = self.agents.runs.iter().filter(|(_, it)| is_due(it)).map(|(no, _)| *no).collect();
        for no in due {
            let why = format!("it was stopped: it may take {} s", limit.as_secs());
            self.stop_run(now, no, &why, out);
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

/// Whether there are runs whose results the turn of a lead is to be told.
fn lacks_results(lead: &Lead, conversation: &Conversation) -> bool {
    lead.fed < lead.runs.len() && !conversation.cancelled && is_turn_of(lead, conversation)
}

/// Whether the running turn of a conversation is the one that has started these runs.
fn is_turn_of(lead: &Lead, conversation: &Conversation) -> bool {
    conversation.active.is_some() && conversation.flight.turn.as_ref() == Some(&lead.turn)
}

/// The id of the model that is meant, of those that a server has; else why there is none.
fn chosen(model: &str, models: &[u8]) -> Result<String, String> {
    let known = |it: &[u8]| Some((text(it, &["id"])?, text(it, &["modelName"]).unwrap_or_default()));
    let known: Vec<_> = elements(models).filter_map(|it| known(&models[it])).collect();
    let name = model.strip_suffix(" (copilot)").unwrap_or(model);
    let by_id = known.iter().find(|(id, _)| id == model);
    let found = by_id.or_else(|| known.iter().find(|(_, it)| it.eq_ignore_ascii_case(name)));
    found.map(|(id, _)| id.clone()).ok_or_else(|| {
        let ids: Vec<&str> = known.iter().map(|(id, _)| id.as_str()).collect();
        format!("the model {model:?} is none that the server knows; there are {}", ids.join(", "))
    })
}
