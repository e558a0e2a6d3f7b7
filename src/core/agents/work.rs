//! Runs at work: what starts, what is heard and done about it, what ends.

use std::time::Instant;

use serde_json::json;
use tracing::info;

use super::{
    Phase, Proxy,
    run::{CANCELLED, News, Run, State},
    turn::is_turn_of,
    view,
};
use crate::{
    agents::{self, SUMMARY},
    config::AgentConfig,
    core::{
        PRIMARY,
        event::Effects,
        modes::Wish,
        requests::{Owner, Purpose},
        selection::Choice,
    },
    rpc::{Frame, Patch, RawId, elements, member, text},
};

/// Of the lead's request, or else of its create, what each of its sub-agents has as well.
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

impl Proxy {
    /// What those inside are told they act on. Whether anything has come of it.
    pub(in crate::core) fn run_agents(&mut self, now: Instant, out: &mut Effects) -> bool {
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
    pub(super) fn tend(&mut self, now: Instant, no: u32, out: &mut Effects) -> bool {
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

    pub(super) fn start_run(&mut self, now: Instant, no: u32, out: &mut Effects) {
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
        // What stands in the request that is under way comes last, and holds.
        for (keys, from) in [(&INHERITED[..], create), (&INHERITED[..], asked), (&MODEL[..], asked)] {
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
    pub(super) fn open_run(&mut self, now: Instant, no: u32, agent: &AgentConfig, out: &mut Effects) {
        let set = self.sub_agent_set(agent);
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        run.state = State::Turning;
        let run_agent = run.agent.clone();
        let request = json!([{"request": agents::request(agent, &run.prompt)}]).to_string();
        let params = Patch::of(&run.usual)
            .set("conversationId", run.conversation.as_bytes())
            .set("turns", request.as_bytes())
            .finish();
        let id = run.next_id();
        let frame = Frame::request(id.clone(), "conversation/create", Some(&params));
        let owner = Owner::Client(run.client, id);
        let wish = Wish { agent: Some(run_agent), ..Wish::default() };
        self.create(now, owner, Choice { set, events: false, wish }, &frame, out);
        self.show(now, no, out);
    }

    pub(super) fn on_run_progress(&mut self, now: Instant, no: u32, params: &[u8], out: &mut Effects) {
        let Some(run) = self.agents.runs.get_mut(&no) else { return };
        let news = run.hear(params);
        let most = self.server.as_ref().and_then(|it| it.config.agents.get(&run.agent)?.max_turns);
        let rounds = usize::try_from(run.rounds()).unwrap_or(usize::MAX);
        // One more to say what has come of it.
        let too_many = most.filter(|it| rounds > *it + usize::from(run.is_asked_again));
        if news == News::Tool {
            self.show(now, no, out);
        }
        if let Some(most) = too_many {
            self.stop_run(now, no, &format!("it was stopped: it may ask its model {most} times"), out);
        }
    }

    pub(super) fn on_run_answered(&mut self, now: Instant, no: u32, answer: &Frame, out: &mut Effects) {
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

    pub(super) fn on_models(
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

    pub(super) fn ask_for_summary(&mut self, now: Instant, no: u32, out: &mut Effects) {
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
    pub(super) fn stop_run(&mut self, now: Instant, no: u32, why: &str, out: &mut Effects) -> bool {
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

    pub(super) fn end_run(
        &mut self,
        now: Instant,
        no: u32,
        result: Result<String, String>,
        out: &mut Effects,
    ) {
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

    pub(in crate::core) fn on_agent_deadlines(&mut self, now: Instant, out: &mut Effects) {
        let limit = self.agents.time_limit;
        let is_due = |it: &Run| it.is_owed() && it.started.is_some_and(|it| it + limit <= now);
        let due: Vec<u32> = self.agents.runs.iter().filter(|(_, it)| is_due(it)).map(|(no, _)| *no).collect();
        for no in due {
            let why = format!("it was stopped: it may take {} s", limit.as_secs());
            self.stop_run(now, no, &why, out);
        }
    }
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
