//! Runs orchestrations: each is a request of the editor, and its answer comes when the work on its goal has ended.
//!
//! [`Orchestration`] decides the next steps, and knows no server. This module carries them out: the planner, the
//! workers and the summarizer are internal conversations ([`conversations`](super::conversations)), each in the
//! partition of its tools. The events go to the editor as progress of the request, and as `lspool/orchestratorEvent`.
//!
//! **The request gets one answer**, after the event `finished`, and no worker works after it.

mod goal;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use tracing::info;

use self::goal::GoalRequest;
use crate::{
    agents::orchestration::{Do, End, Event, Notice, Orchestration, Order, Who, WorkerEvent},
    config::{AgentConfig, AgentSource, OrchestrationConfig},
    core::{
        agents::{
            Agents,
            activity::{Activity, BY_USER, Target},
            conversations::{
                AgentEvent, ConversationOwner, DEFAULT_MODEL, EditorIds, INHERITED, Limits, Opening,
                SAID_BEFORE, usual,
            },
        },
        copilot::Copilot,
        event::ClientId,
        ids::{ConversationId, RequestId, Token, TurnId},
        mux::{
            Mux,
            failure::{Cause, Failure},
            from_client::field,
            requests::Owner,
        },
    },
    rpc::{Frame, Patch, member},
};

/// All orchestrations.
#[derive(Debug, Default)]
pub(crate) struct Orchestrations {
    runs: BTreeMap<u32, OrchestrationRun>,
    /// The number of orchestrations so far.
    last: u32,
}

/// An orchestration.
#[derive(Debug)]
struct OrchestrationRun {
    it: Orchestration,
    /// The client of the request.
    owner: Owner,
    /// The token of its progress.
    token: Option<Token>,
    /// Its internal conversations, by their number here.
    conversations: BTreeMap<usize, u32>,
    /// The model for workers without one.
    model: Option<String>,
    /// The editor wants to see what its workers write.
    events: bool,
    /// What a request had that the conversations have as well.
    params: Bytes,
}

impl Orchestrations {
    fn of(&self, wanted: impl Fn(&OrchestrationRun) -> bool) -> Option<u32> {
        self.runs.iter().find(|(_, it)| wanted(it)).map(|(no, _)| *no)
    }

    fn of_request(&self, id: &RequestId) -> Option<u32> {
        self.of(|it| matches!(&it.owner, Owner::Client(ClientId::EDITOR, of) if of == id))
    }

    /// Whether the editor is owed an answer under this id.
    pub(crate) fn is_owed(&self, id: &RequestId) -> bool {
        self.of_request(id).is_some()
    }

    /// How many answers the editor is owed.
    pub(crate) fn n_owed(&self) -> usize {
        self.runs.len()
    }
}

impl OrchestrationRun {
    /// Shows what somebody writes to an editor that wants to see it.
    fn tell_text(&self, mux: &mut Mux, conversation: usize, text: &str) {
        let Some((who, name)) = self.it.who(conversation).filter(|_| self.events) else { return };
        let kind = match who {
            Who::Planner | Who::Summarizer => name,
            Who::Worker(worker) => &worker.role,
        };
        let id = self.it.id();
        let mut event = json!({
            "orchestration": id, "conversationId": id, "turnId": id, "agent": name, "agentType": kind,
            "state": "running", "text": text,
        });
        if let Some(task) = self.it.task_of(conversation) {
            event["task"] = json!(task);
        }
        let event = event.to_string();
        mux.tell_editor(Frame::notification("lspool/agentEvent", Some(event.as_bytes())));
    }
}

impl Agents {
    /// `lspool/orchestrate`.
    pub(crate) fn on_orchestrate(
        &mut self,
        copilot: Option<&mut Copilot>,
        mux: &mut Mux,
        owner: Owner,
        params: &[u8],
    ) {
        if let Some(copilot) = copilot {
            return self.orchestrate(copilot, mux, owner, params);
        }
        let failure = match mux.servers().first() {
            None => Failure::not_initialized(),
            Some(server) => {
                let name = &server.name;
                let message = format!("an orchestration needs a Copilot server; {name} is not one");
                Failure::new(Cause::InvalidRequest, message)
            }
        };
        mux.fail(&owner, &failure);
    }

    fn orchestrate(&mut self, copilot: &mut Copilot, mux: &mut Mux, owner: Owner, params: &[u8]) {
        let server = copilot.server(mux);
        if !mux.session(copilot.server_id()).is_initialized() {
            let failure = Failure::new(Cause::NotInitialized, "send `initialized` first");
            return mux.fail(&owner, &failure);
        }
        let goal_of = match GoalRequest::read(params, &server.config.workers) {
            Ok(goal_of) => goal_of,
            Err(message) => return mux.fail(&owner, &Failure::new(Cause::InvalidParams, message)),
        };
        let OrchestrationConfig { max_parallel, max_tasks, retries, .. } = server.config.orchestration;
        let retries = goal_of.retries.unwrap_or(retries);
        let GoalRequest { goal, workers, model, max_parallel: wanted, tasks, events, token, .. } = goal_of;
        let max_parallel = wanted.map_or(max_parallel, |it| it.min(max_parallel));
        self.orchestrations.last += 1;
        let no = self.orchestrations.last;
        let id = format!("lspool-orchestration-{}-{}-{no}", mux.identity().pid, mux.identity().started);
        info!(id, workers = workers.len(), "orchestration started");
        if let Some(token) = &token {
            let title = title(&goal);
            let value = json!({"kind": "begin", "title": title, "cancellable": true, "percentage": 0});
            mux.tell_editor(report(token, &value));
        }
        let order = Order { goal, workers, max_parallel, max_tasks, retries, tasks };
        let (it, todo) = Orchestration::start(id, order, mux.now());
        let params = Self::usual_of(copilot, mux, params);
        let run =
            OrchestrationRun { it, owner, token, conversations: BTreeMap::new(), model, events, params };
        self.orchestrations.runs.insert(no, run);
        self.carry_out(copilot, mux, no, todo);
    }

    /// The inherited parameters of a request: its own, else those of the editor's conversations.
    fn usual_of(copilot: &Copilot, mux: &Mux, params: &[u8]) -> Bytes {
        let mut usual = Patch::of(br#"{"source":"panel","capabilities":{"skills":[],"allSkills":false}}"#);
        // The user has allowed nothing yet.
        usual.set("needToolCallConfirmation", b"true");
        let initialize = mux.session(copilot.server_id()).initialize_now();
        if let Some(folders) = member(&initialize, "workspaceFolders") {
            usual.set("workspaceFolders", &initialize[folders]);
        }
        for key in INHERITED.iter().chain(&["modelInfo"]) {
            if let Some(value) = member(params, key) {
                usual.set(key, &params[value]);
            }
        }
        usual.finish().into()
    }

    /// Handles an event of an orchestration's conversation.
    pub(super) fn on_orchestration_agent_event(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        (no, conversation): (u32, usize),
        agent_event: AgentEvent,
    ) {
        let Some(run) = self.orchestrations.runs.get_mut(&no) else { return };
        let event = match agent_event {
            AgentEvent::Text(text) => return run.tell_text(mux, conversation, &text),
            AgentEvent::Tool(tool) => WorkerEvent::Tool(tool),
            AgentEvent::Ended(result) => WorkerEvent::Answer(result),
        };
        let todo = run.it.heard(mux.now(), conversation, event);
        self.carry_out(copilot, mux, no, todo);
    }

    /// Handles `$/cancelRequest` of the editor. Returns whether it was for an orchestration.
    pub(crate) fn cancels_orchestration(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        frame: &Frame,
    ) -> bool {
        let id = field(frame, "id");
        let no = id.and_then(|it| self.orchestrations.of_request(&it));
        self.cancel_orchestration(copilot, mux, no)
    }

    /// Handles the cancellation of a token. Returns whether it was that of an orchestration.
    pub(crate) fn cancels_orchestration_by_token(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        frame: &Frame,
    ) -> bool {
        let Some(token) = field::<Token>(frame, "token") else { return false };
        let no = self.orchestrations.of(|it| it.token.as_ref() == Some(&token));
        self.cancel_orchestration(copilot, mux, no)
    }

    fn cancel_orchestration(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: Option<u32>) -> bool {
        let Some(run) = no.and_then(|it| self.orchestrations.runs.get_mut(&it)) else { return false };
        let todo = run.it.cancel(mux.now());
        self.carry_out(copilot, mux, no.unwrap_or_default(), todo);
        true
    }

    /// The workers that are at a task.
    pub(super) fn workers_at_work(&self) -> impl Iterator<Item = Activity> {
        self.orchestrations.runs.iter().flat_map(|(no, run)| {
            run.it.at_work().filter_map(|(conversation, task, tool, since)| {
                let (_, name) = run.it.who(conversation)?;
                Some(Activity {
                    target: Target::Worker(*no, conversation),
                    name: name.to_owned(),
                    of: run.it.id().to_owned(),
                    task: Some(task),
                    tool: tool.map(str::to_owned),
                    since: Some(since),
                })
            })
        })
    }

    /// The user does not want what one worker does.
    pub(super) fn cancel_worker(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        (no, conversation): (u32, usize),
    ) {
        let Some(run) = self.orchestrations.runs.get_mut(&no) else { return };
        let todo = run.it.cancel_worker(mux.now(), conversation, BY_USER);
        self.carry_out(copilot, mux, no, todo);
    }

    /// All of them stop.
    pub(crate) fn cancel_orchestrations(&mut self, copilot: &mut Copilot, mux: &mut Mux) {
        for no in self.orchestrations.runs.keys().copied().collect::<Vec<_>>() {
            self.cancel_orchestration(copilot, mux, Some(no));
        }
    }

    fn carry_out(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, todo: Vec<Do>) {
        for it in todo {
            match it {
                Do::Ask { conversation, text } => {
                    if let Some(internal) = self.internal_of(copilot, mux, no, conversation) {
                        self.say(copilot, mux, internal, &text);
                    }
                }
                Do::Close { conversation } => {
                    let run = self.orchestrations.runs.get_mut(&no);
                    if let Some(internal) = run.and_then(|it| it.conversations.remove(&conversation)) {
                        self.close_internal(copilot, mux, internal);
                    }
                }
                Do::Tell(told) => self.tell_orchestration(copilot, mux, no, &told),
            }
        }
    }

    /// The conversation of this number, opened if necessary.
    fn internal_of(
        &mut self,
        copilot: &mut Copilot,
        mux: &mut Mux,
        no: u32,
        conversation: usize,
    ) -> Option<u32> {
        let limit = copilot.server(mux).config.orchestration.time_limit;
        let run = self.orchestrations.runs.get(&no)?;
        if let Some(internal) = run.conversations.get(&conversation) {
            return Some(*internal);
        }
        let (who, name) = run.it.who(conversation)?;
        let id = run.it.id();
        let (role, tools, model, works) = match who {
            // Without tools nothing can happen before the plan.
            Who::Planner | Who::Summarizer => (name, Some(Vec::new()), None, false),
            Who::Worker(it) if !it.agent_mode => (&*it.role, Some(Vec::new()), it.model.clone(), false),
            Who::Worker(it) => (&*it.role, it.tools.clone(), it.model.clone(), true),
        };
        let has_model = member(&run.params, "modelInfo").is_some();
        let usual_model = || run.model.clone().or_else(|| (!has_model).then(|| DEFAULT_MODEL.to_owned()));
        let agent =
            AgentConfig { tools, model: model.or_else(usual_model), ..AgentConfig::of(AgentSource::User) };
        let opening = Opening {
            owner: ConversationOwner::Orchestration(no, conversation),
            agent,
            editor_ids: EditorIds {
                conversation: ConversationId::text(id),
                turn: TurnId::text(id),
                round: 1,
                name: name.to_owned(),
                agent: role.to_owned(),
            },
            // A planner without a valid plan gets a correction instead.
            limits: Limits { time: Some(limit), rounds: None, needs_words: who != Who::Planner },
            usual: usual(if works { "Agent" } else { "Ask" }, &run.params, &run.params),
            history: None,
        };
        let internal = self.open_internal(opening);
        self.orchestrations.runs.get_mut(&no)?.conversations.insert(conversation, internal);
        Some(internal)
    }

    fn tell_orchestration(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32, told: &Notice) {
        self.have_changed = true;
        let Some(run) = self.orchestrations.runs.get(&no) else { return };
        let event = json!(told);
        let params = event.to_string();
        mux.tell_editor(Frame::notification("lspool/orchestratorEvent", Some(params.as_bytes())));
        if let Some(token) = &run.token {
            let (done, all) = run.it.progress();
            let mut value = match &told.event {
                Event::Finished { .. } => json!({"kind": "end"}),
                // The summary counts as one more task.
                _ => json!({"kind": "report", "percentage": 100 * done / (all + 1)}),
            };
            value["message"] = json!(message(&told.event));
            value["lspool"] = event;
            mux.tell_editor(report(token, &value));
        }
        if matches!(told.event, Event::Finished { .. }) {
            self.answer_goal(copilot, mux, no);
        }
    }

    fn answer_goal(&mut self, copilot: &mut Copilot, mux: &mut Mux, no: u32) {
        let Some(run) = self.orchestrations.runs.remove(&no) else { return };
        info!(id = run.it.id(), end = ?run.it.end(), "orchestration ended");
        for internal in run.conversations.into_values() {
            self.close_internal(copilot, mux, internal);
        }
        let outcome = run.it.outcome(mux.now());
        match (run.it.end(), outcome.error.as_ref().filter(|_| outcome.tasks.is_empty())) {
            (Some(End::Cancelled), _) => {
                let failure = Failure::new(Cause::Cancelled, "the orchestration was cancelled");
                mux.fail(&run.owner, &failure);
            }
            (_, Some(message)) => {
                // Without the text of a model, which does not belong into logs.
                let why = message.split(SAID_BEFORE).next().unwrap_or_default();
                let failure = Failure::new(Cause::NoPlan, why);
                mux.fail(&run.owner, &failure);
            }
            (_, None) => mux.answer(&run.owner, &json!(outcome)),
        }
    }

    /// Checks that orchestrations agree with the other tables.
    pub(super) fn check_orchestrations(&self) -> Result<(), String> {
        for (no, run) in &self.orchestrations.runs {
            let (id, end) = (run.it.id(), run.it.end());
            if end.is_some() {
                return Err(format!("{id} has ended, and nobody was told"));
            }
            for (conversation, internal) in &run.conversations {
                if !self.is_owned_by(*internal, ConversationOwner::Orchestration(*no, *conversation)) {
                    return Err(format!("conversation {conversation} of {id} is not its own"));
                }
            }
            if run.conversations.is_empty() {
                return Err(format!("nobody works for {id}"));
            }
        }
        Ok(())
    }
}

fn report(token: &Token, value: &Value) -> Frame {
    let value = value.to_string();
    let params = Patch::of(b"{}").set("value", value.as_bytes()).set("token", token.as_bytes()).finish();
    Frame::notification("$/progress", Some(&params))
}

/// A short form of the goal.
fn title(goal: &str) -> String {
    const LONGEST: usize = 60;
    let line = goal.lines().next().unwrap_or_default();
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// The message of an event for people.
fn message(event: &Event) -> String {
    match event {
        Event::PlanStarted { attempt: 1, .. } => "planning".to_owned(),
        Event::PlanStarted { .. } => "correcting the plan".to_owned(),
        Event::PlanCompleted { fallback: Some(_), .. } => {
            "planning failed: one worker does everything".to_owned()
        }
        Event::PlanCompleted { tasks, .. } => format!("{} tasks", tasks.len()),
        Event::TaskAssigned { task, worker, .. } => format!("{worker} begins task {task}"),
        Event::TaskProgress { worker, tool: Some(tool), .. } => format!("{worker} runs {tool}"),
        Event::TaskProgress { worker, tool: None, .. } => format!("{worker} is working"),
        Event::TaskRetried { task, .. } => format!("task {task}: failed, trying again"),
        Event::TaskCompleted { task, state, .. } => format!("task {task}: {}", state.word()),
        Event::SummarizeCompleted { .. } => "summarized".to_owned(),
        Event::Error { message } => message.clone(),
        Event::Finished { state, .. } => state.word().to_owned(),
    }
}
