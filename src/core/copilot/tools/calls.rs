//! Who carries out a call: the editor, if it has registered a tool of that name, else lspool itself.
//!
//! lspool's own tools are asked like a client: under a number of the same table, with the same frames, and their
//! answer is treated as a client's. So a call of theirs is kept from the other tools of a set, survives the death of its
//! process, is part of the history, and is cancelled with its turn, as any other is.
//!
//! **lspool runs no command that nobody has allowed**: the list in the configuration, or the editor in the confirmation that
//! the server asks for. If the server asks for none, lspool does.

use std::time::Instant;

use serde_json::json;
use tracing::{debug, info};

use crate::core::{PRIMARY, Proxy, ToolSet, tell_editor};
use crate::{
    agents::TERMINAL,
    config::BuiltinTools,
    core::{
        catalogue::ToolChange,
        event::{BackendId, ClientId, Effect, Effects, Scope},
        processes::cancellation,
        requests::{Owner, Pending, Purpose, SentId, To},
    },
    rpc::{Frame, Patch, RawId, elements, member, text},
    tools::{ASK, Tool, bare},
};

/// What a server asks before a call that needs to be confirmed.
pub(crate) const CONFIRMATION: &str = "conversation/invokeClientToolConfirmation";

impl Proxy {
    /// The configuration says whether there are tools of lspool's own.
    pub(crate) fn choose_tools(&mut self) {
        let is_wanted =
            self.server.as_ref().is_some_and(|it| it.settings.builtin_tools == BuiltinTools::Fallback);
        let definition = |it: Tool| (it.name().to_owned(), it.definition().to_string().into());
        let tools = Tool::ALL.into_iter().filter(|_| is_wanted).map(definition);
        self.catalogue.stand_in(tools.collect());
    }

    /// Tells the primary of lspool's own tools. Other processes are told with the rest of the catalogue.
    pub(crate) fn register_own_tools(&mut self, out: &mut Effects) {
        let Some(params) = self.catalogue.own_tools().filter(|_| self.is_copilot()) else { return };
        self.change_primary(ToolChange::Nothing, "conversation/registerTools", &params, out);
    }

    /// A change of the primary's tools, as if the editor had made it: until it is answered, no other process takes turns.
    fn change_primary(&mut self, change: ToolChange, method: &str, params: &[u8], out: &mut Effects) {
        let frame = Frame::request(RawId::from(0), method, Some(params));
        self.tool_change_undecided(true, out);
        self.send_to_backend(PRIMARY, Owner::Proxy, Purpose::Tools(change), &frame, out);
    }

    /// The configuration says something else than before: running processes follow.
    pub(crate) fn change_own_tools(&mut self, out: &mut Effects) {
        let before = self.catalogue.own_ids();
        self.choose_tools();
        if !self.session.initialized || !self.is_copilot() {
            return;
        }
        if self.catalogue.own_ids().is_empty() {
            let gone = ToolChange::Unregister(before.clone());
            if let Some((method, params)) = gone.projected(&ToolSet::all()).filter(|_| !before.is_empty()) {
                self.change_primary(gone, method, &params, out);
            }
            return;
        }
        let ready =
            self.backends.values().filter(|it| it.id != PRIMARY && it.spare.is_none() && it.is_ready());
        let others: Vec<BackendId> = ready.map(|it| it.id).collect();
        self.register_own_tools(out);
        for id in others {
            self.project_all(id, out);
        }
    }

    /// Asks whoever has the tool of a call, or of a confirmation; gives the number under which it is asked.
    pub(crate) fn ask_tool(
        &mut self,
        owner: Owner,
        purpose: Purpose,
        frame: &Frame,
        out: &mut Effects,
    ) -> SentId {
        let name = text(frame.params().unwrap_or(b"{}"), &["name"]).unwrap_or_default();
        let name = bare(&name);
        // Any other question of a server is none that a list could answer.
        let is_for_list =
            matches!(purpose, Purpose::ToolCall { confirmation: false, .. }) || name == TERMINAL;
        if !self.catalogue.is_own(name) || !is_for_list {
            let (sent, frame) = self.requests.sent(To::Client(ClientId::EDITOR), owner, purpose, frame);
            tell_editor(frame, out);
            return sent;
        }
        let is_confirmed = self.is_allowed(&purpose, frame);
        if let Purpose::ToolCall { conversation: Some(id), confirmation: false } = &purpose {
            self.spend_confirmation(&id.clone(), frame);
        }
        let (sent, frame) = self.requests.sent(To::Tools, owner, purpose, frame);
        self.run_tool(frame, is_confirmed, out);
        sent
    }

    fn run_tool(&self, call: Frame, is_confirmed: bool, out: &mut Effects) {
        let folders = self.session.folders_now(&self.folders);
        let limits = self.server.as_ref().map(|it| it.config.tools.clone()).unwrap_or_default();
        out.push(Effect::RunTool { call, scope: Box::new(Scope { folders, limits, is_confirmed }) });
    }

    /// Whether the user has allowed exactly this call.
    fn is_allowed(&self, purpose: &Purpose, call: &Frame) -> bool {
        let Purpose::ToolCall { conversation: Some(id), .. } = purpose else { return false };
        let given = self.conversations.get(id).map_or(&[][..], |it| it.flight.confirmed());
        given.iter().any(|(asked, answer)| is_about(asked, call) && accepts(Some(answer)))
    }

    /// What was allowed is one call: neither another one, nor the same once more after the death of its process.
    fn spend_confirmation(&mut self, id: &RawId, call: &Frame) {
        for id in [id.clone(), self.conversations.top(id)] {
            if let Some(conversation) = self.conversations.get_mut(&id) {
                conversation.flight.forget_confirmed(|asked| is_about(asked, call));
            }
        }
    }

    /// lspool's own tools have answered.
    pub(crate) fn on_tool_ran(&mut self, now: Instant, answer: &Frame, out: &mut Effects) {
        let Some(sent) = answer.id().and_then(|it| self.requests.asked_of_tools(&it)) else {
            return debug!(?answer, "dropped: what came of a call that nobody waits for");
        };
        if verdict(answer).as_deref() == Some(ASK) {
            return self.ask_to_allow(sent, out);
        }
        if let Some(pending) = self.requests.take(sent) {
            self.on_question_answered(now, sent, pending, answer, out);
        }
    }

    /// No list allows a command: the user is asked.
    fn ask_to_allow(&mut self, sent: SentId, out: &mut Effects) {
        let Some(Pending { purpose, frame, .. }) = self.requests.get(sent) else { return };
        if matches!(purpose, Purpose::ToolCall { confirmation: true, .. }) {
            let frame = frame.clone();
            self.requests.redirect(sent, To::Client(ClientId::EDITOR));
            return tell_editor(frame, out);
        }
        info!("a command of which the server has not asked whether it may be run");
        let params = question(frame.params().unwrap_or(b"{}"));
        self.ask_editor(Purpose::Allow(sent), CONFIRMATION, Some(&params), out);
    }

    /// The user has answered lspool's own question whether a call may be carried out.
    pub(crate) fn on_allowed(
        &mut self,
        now: Instant,
        call: SentId,
        answer: Option<&Frame>,
        out: &mut Effects,
    ) {
        let Some(pending) = self.requests.get(call).filter(|it| it.to == To::Tools) else { return };
        if accepts(answer) {
            return self.run_tool(pending.frame.clone(), true, out);
        }
        let result =
            json!([{"content": [{"value": "the user did not allow it"}], "status": "cancelled"}, null]);
        let answer = Frame::response(RawId::from(call), result.to_string().as_bytes());
        if let Some(pending) = self.requests.take(call) {
            self.on_question_answered(now, call, pending, &answer, out);
        }
    }

    /// What the editor, or one of lspool's own tools, was asked is not wanted any more.
    pub(crate) fn withdraw(&mut self, sent: SentId, to: To, out: &mut Effects) {
        if to != To::Tools {
            return tell_editor(cancellation(sent), out);
        }
        let questions = self.requests.filter(|it| matches!(it.purpose, Purpose::Allow(of) if of == sent));
        if questions.is_empty() {
            return out.push(Effect::CancelTool(RawId::from(sent)));
        }
        // Nobody is at work on it, so nobody will answer.
        self.requests.take(sent);
        for question in questions {
            self.requests.take(question);
            tell_editor(cancellation(question), out);
        }
    }
}

/// Whether a confirmation is about this call of a command.
fn is_about(asked: &Frame, call: &Frame) -> bool {
    let key = |it: &Frame| {
        let params = it.params()?;
        Some((text(params, &["toolCallId"])?, text(params, &["input", "command"])?))
    };
    let called = key(call);
    called.is_some() && key(asked) == called
}

/// What an answer to a confirmation says.
fn verdict(answer: &Frame) -> Option<String> {
    let result = answer.result()?;
    text(&result[elements(result).next()?], &["result"])
}

fn accepts(answer: Option<&Frame>) -> bool {
    answer.and_then(verdict).as_deref() == Some("accept")
}

/// A question whether a call may be carried out, as the server asks it.
fn question(call: &[u8]) -> Vec<u8> {
    let mut asked = Patch::of(b"{}");
    for key in ["toolCallId", "roundId", "turnId", "conversationId", "input"] {
        if let Some(range) = member(call, key) {
            asked.set(key, &call[range]);
        }
    }
    let command = text(call, &["input", "command"]).unwrap_or_default();
    let quoted = |it: &str| json!(it).to_string().into_bytes();
    asked.set("message", &quoted(&format!("Do you want to run this command?\n\n{command}")));
    asked.set("title", &quoted("Run a command"));
    asked.set("name", &quoted(TERMINAL)).finish()
}
