//! Chooses who runs a call: the editor, if it has registered a tool of that name, else lspool.
//!
//! The builtin tools get calls like a client: in the same table, with the same frames, and their answers are treated
//! like a client's. So a call of them is restricted by the set, survives the death of its process, is part of the
//! history, and is cancelled with its turn.
//!
//! **lspool runs no command without permission**: by the list in the configuration, or by the editor in the server's
//! confirmation. If the server does not ask, lspool does.

use std::path::{Component, Path, PathBuf};

use serde_json::json;
use tracing::{debug, info};

use crate::{
    agents::TERMINAL,
    builtin_tools::{ASK, CodeTool, Tool, bare},
    config::{BuiltinTools, languages::language_of},
    core::{
        copilot::{Copilot, tools::tool_set::ToolSet},
        event::{ClientId, Effect, Scope},
        ids::ConversationId,
        mux::{
            Mux,
            requests::{Owner, Pending, To},
        },
        purpose::{CopilotPurpose, Purpose, SentId, ToolChange, ToolQuestion},
    },
    rpc::{Frame, Patch, RawId, elements, file_path, member, path, text},
};

/// The server's request before a call that needs a confirmation.
pub(crate) const CONFIRMATION: &str = "conversation/invokeClientToolConfirmation";

impl Copilot {
    /// Enables builtin tools as the configuration says.
    pub(in crate::core::copilot) fn choose_tools(&mut self, mux: &Mux) {
        let server = self.server(mux);
        let is_wanted = server.settings.builtin_tools == BuiltinTools::Fallback;
        let has_code_tools = is_wanted && server.has_code_tools;
        let is_offered = |it: &CodeTool| has_code_tools && server.config.lsp_tools.offers(it.tool().name());
        let tools = Tool::ALL.into_iter().filter(|_| is_wanted).map(|it| (it.name(), it.definition()));
        let code = CodeTool::all().filter(is_offered).map(|it| (it.name(), it.definition()));
        let tools = tools.chain(code).map(|(name, it)| (name.to_owned(), it.to_string().into()));
        self.catalog.stand_in(tools.collect());
    }

    /// Whether a document is the first of its language, and a server for it would bring code tools. So that not each
    /// message makes lspool look for servers, a language counts once when it is opened, and once when it is saved.
    pub(crate) fn may_get_code_tools(&mut self, mux: &Mux, frame: &Frame) -> bool {
        let server = self.server(mux);
        if server.has_code_tools || server.settings.builtin_tools != BuiltinTools::Fallback {
            return false;
        }
        let uri = text(frame.params().unwrap_or(b"{}"), &["textDocument", "uri"]);
        let Some((language, _)) = uri.as_deref().and_then(language_of) else { return false };
        let is_saved = frame.method() == Some("textDocument/didSave");
        self.seen_languages.insert((language.name, is_saved))
    }

    /// Registers the builtin tools at the primary. Other processes get them with the catalog.
    pub(crate) fn register_builtin_tools(&mut self, mux: &mut Mux) {
        let Some(params) = self.catalog.builtin_tools() else { return };
        self.change_primary(mux, ToolChange::Nothing, "conversation/registerTools", &params);
    }

    /// Changes the primary's tools like the editor: until the answer, no other process takes turns.
    fn change_primary(&mut self, mux: &mut Mux, change: ToolChange, method: &str, params: &[u8]) {
        let frame = Frame::request(RawId::from(0), method, Some(params));
        self.send_tool_change(mux, Owner::Proxy, change, &frame);
    }

    /// Applies a changed configuration to running processes.
    pub(crate) fn change_builtin_tools(&mut self, mux: &mut Mux) {
        let before = self.catalog.builtin_ids();
        self.choose_tools(mux);
        if !self.generic_session(mux).is_initialized() {
            return;
        }
        if self.catalog.builtin_ids().is_empty() {
            let gone = ToolChange::Unregister(before.clone());
            if let Some((method, params)) = gone.projected(&ToolSet::all()).filter(|_| !before.is_empty()) {
                self.change_primary(mux, gone, method, &params);
            }
            return;
        }
        let others = Self::ready_partitions(mux);
        self.register_builtin_tools(mux);
        for id in others {
            self.project_all(mux, id);
        }
    }

    /// Sends a call or a confirmation to its runner; returns its number.
    pub(crate) fn ask_tool(
        &mut self,
        mux: &mut Mux,
        owner: Owner,
        purpose: Purpose,
        frame: &Frame,
    ) -> SentId {
        let name = text(frame.params().unwrap_or(b"{}"), &["name"]).unwrap_or_default();
        let name = bare(&name);
        // Only a confirmation can be answered by the list.
        let is_for_list =
            matches!(purpose, Purpose::Copilot(CopilotPurpose::ToolCall { kind: ToolQuestion::Call, .. }))
                || name == TERMINAL;
        if !self.catalog.is_builtin(name) || !is_for_list {
            let (sent, frame) =
                mux.requests_mut().register(To::Client(ClientId::EDITOR), owner, purpose, frame);
            mux.tell_editor(frame);
            return sent;
        }
        let is_confirmed = self.is_allowed(&purpose, frame);
        if let Purpose::Copilot(CopilotPurpose::ToolCall {
            conversation: Some(id),
            kind: ToolQuestion::Call,
        }) = &purpose
        {
            self.spend_confirmation(&id.clone(), frame);
        }
        let (sent, frame) = mux.requests_mut().register(To::BuiltinTools, owner, purpose, frame);
        self.run_tool(mux, frame, is_confirmed);
        sent
    }

    /// Whether a confirmation is about a builtin tool that only reads in the workspace, which needs no question: a
    /// server asks about relative paths, which these tools invite.
    pub(in crate::core::copilot) fn reads_in_workspace(&self, mux: &Mux, asked: &Frame) -> bool {
        let params = asked.params().unwrap_or(b"{}");
        let name = text(params, &["name"]).unwrap_or_default();
        // A tool of an MCP server may have any name.
        let is_foreign =
            ["mcpServerName", "mcpToolName"].iter().any(|it| path(params, &["input", it]).is_some());
        let name = bare(&name);
        if is_foreign || !self.catalog.is_builtin(name) {
            return false;
        }
        if let Some(tool) = CodeTool::named(name) {
            return !tool.tool().writes();
        }
        let key = match Tool::named(name) {
            Some(Tool::ReadFile) => "filePath",
            Some(Tool::ListDir) => "path",
            Some(Tool::FileSearch | Tool::GrepSearch) => return true,
            Some(Tool::CreateFile | Tool::ReplaceString | Tool::InsertEdit | Tool::Terminal) | None => {
                return false;
            }
        };
        let Some(path) = text(params, &["input", key]) else { return false };
        let folders = self.generic_session(mux).folders_now(mux.clients().folders());
        let first = folders.first().map_or(Path::new(""), PathBuf::as_path);
        let path = plain_path(&file_path(&path).map_or_else(|| first.join(&path), |it| first.join(it)));
        folders.iter().any(|it| path.starts_with(it))
    }

    fn run_tool(&self, mux: &mut Mux, call: Frame, is_confirmed: bool) {
        let folders = self.generic_session(mux).folders_now(mux.clients().folders());
        let limits = self.server(mux).config.tools.clone();
        mux.act(Effect::RunTool { call, scope: Box::new(Scope { folders, limits, is_confirmed }) });
    }

    /// Whether the user has allowed exactly this call.
    fn is_allowed(&self, purpose: &Purpose, call: &Frame) -> bool {
        let Purpose::Copilot(CopilotPurpose::ToolCall { conversation: Some(id), .. }) = purpose else {
            return false;
        };
        let given = self.conversations.get(id).map_or(&[][..], |it| it.active_turn.confirmed());
        given.iter().any(|(asked, answer)| is_about(asked, call) && accepts(Some(answer)))
    }

    /// Uses up a permission, which is for one call: not for another one, nor for the same one after the death of its
    /// process.
    fn spend_confirmation(&mut self, id: &ConversationId, call: &Frame) {
        for id in [id.clone(), self.conversations.top(id)] {
            if let Some(conversation) = self.conversations.get_mut(&id) {
                conversation.active_turn.forget_confirmed(|asked| is_about(asked, call));
            }
        }
    }

    /// Handles an answer of the builtin tools.
    pub(crate) fn on_tool_ran(&mut self, mux: &mut Mux, answer: &Frame) {
        let Some(sent) = answer.id().and_then(|it| mux.requests().asked_of_tools(&it)) else {
            return debug!(?answer, "dropped: result of an unknown call");
        };
        if verdict(answer).as_deref() == Some(ASK) {
            return Self::ask_to_allow(mux, sent);
        }
        if let Some(pending) = mux.requests_mut().take(sent) {
            self.on_question_answered(mux, sent, pending, answer);
        }
    }

    /// Asks the user about a command that is not on the list.
    fn ask_to_allow(mux: &mut Mux, sent: SentId) {
        let Some(Pending { purpose, frame, .. }) = mux.requests().get(sent) else { return };
        if matches!(
            purpose,
            Purpose::Copilot(CopilotPurpose::ToolCall { kind: ToolQuestion::Confirmation, .. })
        ) {
            let frame = frame.clone();
            mux.requests_mut().redirect(sent, To::Client(ClientId::EDITOR));
            return mux.tell_editor(frame);
        }
        info!("asked the user about a command, because the server did not");
        let params = question(frame.params().unwrap_or(b"{}"));
        mux.ask_editor(Purpose::Allow(sent), CONFIRMATION, Some(&params));
    }

    /// Handles the user's answer to lspool's question about a call.
    pub(crate) fn on_allowed(&mut self, mux: &mut Mux, call: SentId, answer: Option<&Frame>) {
        let Some(pending) = mux.requests().get(call).filter(|it| it.to == To::BuiltinTools) else { return };
        if accepts(answer) {
            return self.run_tool(mux, pending.frame.clone(), true);
        }
        let result = json!([{"content": [{"value": "the user refused it"}], "status": "cancelled"}, null]);
        let answer = Frame::response(RawId::from(call), result.to_string().as_bytes());
        if let Some(pending) = mux.requests_mut().take(call) {
            self.on_question_answered(mux, call, pending, &answer);
        }
    }
}

/// A path without `..`. The opener handles links.
fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
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

/// The decision in an answer to a confirmation.
fn verdict(answer: &Frame) -> Option<String> {
    let result = answer.result()?;
    text(&result[elements(result).next()?], &["result"])
}

fn accepts(answer: Option<&Frame>) -> bool {
    answer.and_then(verdict).as_deref() == Some("accept")
}

/// A question about a call, in the server's form.
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
