//! Tool calls of a server: the set of the conversation decides about each before anybody is asked.

use tracing::warn;

use super::turn_of;
use crate::{
    builtin_tools::{Outcome, bare},
    core::{
        copilot::{
            Copilot,
            conversation::Conversation,
            tools::tool_set::{ToolSet, is_edit_tool},
        },
        event::{BackendId, ProcessId},
        ids::{ConversationId, RequestId, TurnId},
        mux::{
            Mux,
            from_client::field,
            requests::{Owner, Pending, To},
        },
        purpose::{CopilotPurpose, Purpose, Restriction, SentId, ToolQuestion},
    },
    rpc::{Frame, Patch, member, text},
};

/// The tools that the server asks the client for when the model has called an edit tool.
const CARRIERS: [&str; 2] = ["insert_edit_into_file", "create_file"];

/// The next step for a server's request.
#[derive(Debug)]
pub(crate) enum FromServer {
    Handled,
    /// It does not concern the Copilot half.
    Pass,
    /// A permitted call of a tool.
    Call(ToolCall),
}

/// A permitted call of a tool, or its confirmation.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub(crate) process: ProcessId,
    /// The server's id of the request.
    pub(crate) wire: RequestId,
    pub(crate) conversation: Option<ConversationId>,
    pub(crate) frame: Frame,
    pub(crate) kind: ToolQuestion,
}

impl Copilot {
    /// Handles `conversation/invokeClientTool` and its confirmation: passes it to the editor if the tool is in the
    /// partition's set, else answers it as a failed tool.
    pub(crate) fn on_tool_call(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        frame: &Frame,
        kind: ToolQuestion,
    ) -> FromServer {
        let (Some(wire), Some(partition)) =
            (frame.id().map(RequestId::from), self.partitions.get(process.backend))
        else {
            return FromServer::Handled;
        };
        let (conversation, turn) = (field(frame, "conversationId"), field(frame, "turnId"));
        let is_unwanted = |it: &ConversationId| {
            partition.restores.is_orphan(it)
                || mux.is_cancelled(self.turn_of_call(mux, process, it, turn.clone()))
                || self.is_unowned(it)
        };
        if conversation.as_ref().is_some_and(is_unwanted) {
            mux.tell(process, cancelled_call(wire, kind));
            return FromServer::Handled;
        }
        let segment = conversation.as_ref().and_then(|it| self.segment(it, turn.as_ref()?));
        let renumbered = segment.map(|it| it.asked(frame));
        let frame = renumbered.as_ref().unwrap_or(frame);
        let params = frame.params().unwrap_or(b"{}");
        let called = conversation
            .as_ref()
            .and_then(|it| self.conversations.get(it)?.called.get(&text(params, &["toolCallId"])?));
        let sets = self.sets_of(mux, process.backend, conversation.as_ref(), turn.as_ref());
        let judged = sets.iter().map(|set| match kind {
            ToolQuestion::Confirmation => judge_confirmation(set, params, called.map(String::as_str)),
            ToolQuestion::Call => judge(set, params, called.map(String::as_str)),
        });
        let refused = judged.zip(&sets).find_map(|(judged, set)| Some((judged.err()?, set.to_string())));
        let switched_off = || {
            let (server, tool) = mcp_tool(params).filter(|(server, tool)| self.is_mcp_off(server, tool))?;
            Some((format!("{server}/{tool}"), partition.set.to_string()))
        };
        if let Some((name, set)) =
            refused.or_else(|| (kind == ToolQuestion::Confirmation).then(switched_off).flatten())
        {
            self.refuse(mux, process, wire, &name, &set, kind);
            return FromServer::Handled;
        }
        let frame = frame.clone();
        if let (Some((server, _)), Some(call)) = (mcp_tool(params), text(params, &["toolCallId"]))
            && kind == ToolQuestion::Confirmation
            && let Some(conversation) = conversation.as_ref().and_then(|it| self.conversations.get_mut(it))
        {
            conversation.mcp_servers.insert(call, server);
        }
        if let (Some(id), Some(turn)) = (&conversation, turn) {
            self.note_unreported(mux, id, &turn, kind, frame.params().unwrap_or(b"{}"));
        }
        FromServer::Call(ToolCall { process, wire, conversation, frame, kind })
    }

    /// Sends a call to its runner, unless the answer is known.
    pub(crate) fn ask_call(&mut self, mux: &mut Mux, call: ToolCall) {
        let ToolCall { process, wire, conversation, frame, kind } = call;
        if let Some(id) = conversation.as_ref().filter(|_| kind == ToolQuestion::Confirmation)
            && self.answer_confirmation(mux, process, &wire, id, &frame)
        {
            return;
        }
        if kind == ToolQuestion::Confirmation && self.reads_in_workspace(mux, &frame) {
            return mux.tell(process, Frame::response(wire.into(), br#"[{"result":"accept"},null]"#));
        }
        let purpose = Purpose::Copilot(CopilotPurpose::ToolCall { conversation, kind });
        self.ask_tool(mux, Owner::Backend(process, wire), purpose, &frame);
    }

    /// Notes a call of a turn without a token, which has no other reports.
    fn note_unreported(
        &mut self,
        mux: &mut Mux,
        id: &ConversationId,
        turn: &TurnId,
        kind: ToolQuestion,
        params: &[u8],
    ) {
        let silent = |it: SentId| match mux.requests().get(it).map(|it| &it.purpose) {
            Some(Purpose::Copilot(CopilotPurpose::Turn { token, .. })) => token.is_none(),
            _ => false,
        };
        if !self.conversations.get(id).and_then(Conversation::active).is_some_and(silent) {
            return;
        }
        self.on_question(mux, id, turn, None);
        if kind == ToolQuestion::Call
            && let Some((round, call)) = unreported(params)
            && let Some(turn) = self.conversations.get_mut(id).and_then(|it| it.history.turn(turn))
        {
            turn.called(round, &call);
        }
    }

    /// The sets that must contain a call: that of its process, and in the primary that of its conversation. A
    /// conversation that lspool has forgotten may still run.
    fn sets_of(
        &self,
        mux: &Mux,
        backend: BackendId,
        id: Option<&ConversationId>,
        turn: Option<&TurnId>,
    ) -> Vec<ToolSet> {
        let mut sets: Vec<ToolSet> = self.partitions.set(backend).cloned().into_iter().collect();
        if backend != self.primary {
            return sets;
        }
        let bound = id.and_then(|it| self.conversations.get(it)).filter(|it| it.backend == self.primary);
        sets.extend(bound.map(|it| it.set.clone()));
        if let Some(bound) = bound.filter(|it| turn.is_some() && it.active_turn.turn.as_ref() == turn) {
            let asked = bound.active().and_then(|it| mux.requests().get(it)).map(|it| &it.purpose);
            if let Some(Purpose::Copilot(CopilotPurpose::Turn {
                restriction: Restriction::Mode(mode), ..
            })) = asked
            {
                sets.extend(self.modes.set(*mode).cloned());
            }
            return sets;
        }
        let runs = |it: &Pending| match &it.purpose {
            Purpose::Copilot(CopilotPurpose::Turn {
                conversation,
                restriction: Restriction::Mode(mode),
                ..
            }) if Some(conversation) == id => {
                let of = turn_of(&it.frame);
                (turn.is_none() || of.is_none() || of.as_ref() == turn).then_some(*mode)
            }
            _ => None,
        };
        let modes = mux.requests().iter().filter_map(|(_, it)| runs(it));
        sets.extend(modes.filter_map(|it| self.modes.set(it).cloned()));
        // Its tools are unknown.
        if sets.len() == 1 && id.is_some_and(|it| self.modes.has_tombstone(it)) {
            sets.push(ToolSet::none());
        }
        sets
    }

    /// The turn of a tool call: the running one of the conversation, or one whose conversation was destroyed or
    /// replaced, which still runs.
    pub(crate) fn turn_of_call(
        &self,
        mux: &Mux,
        process: ProcessId,
        id: &ConversationId,
        turn: Option<TurnId>,
    ) -> Option<SentId> {
        let (mut id, mut turn) = (id, turn);
        while let Some(sub_agent) = self.conversations.get(id)
            && let Some(parent) = &sub_agent.parent
        {
            (id, turn) = (parent, sub_agent.caller.clone());
        }
        let conversation = self.conversations.get(id);
        let active = conversation.and_then(Conversation::active);
        if turn.is_none() || conversation.is_some_and(|it| it.active_turn.turn == turn) {
            return active;
        }
        let is_it = |it: &Pending| match &it.purpose {
            Purpose::Copilot(CopilotPurpose::Turn { conversation, .. }) => {
                it.to == To::Process(process) && conversation == id && turn_of(&it.frame) == turn
            }
            _ => false,
        };
        mux.requests().iter().find(|(_, it)| is_it(it)).map(|(sent, _)| sent).or(active)
    }

    pub(crate) fn refuse(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        wire: RequestId,
        tool: &str,
        set: &str,
        kind: ToolQuestion,
    ) {
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        partition.refused += 1;
        let refused = partition.refused;
        warn!(backend = mux.name_of(process.backend), tool, refused, "refused a tool call outside the set");
        let result = match kind {
            ToolQuestion::Confirmation => serde_json::json!([{"result": "dismiss"}, null]),
            ToolQuestion::Call => {
                let why = format!("the tool {tool} is not available to this agent; its tools are {set}");
                Outcome::Failed(why).answer()
            }
        };
        let answer = Frame::response(wire.into(), result.to_string().as_bytes());
        mux.tell(process, answer);
    }
}

/// The answer to a tool call or confirmation of a cancelled turn.
pub(crate) fn cancelled_call(wire: RequestId, kind: ToolQuestion) -> Frame {
    let result = match kind {
        ToolQuestion::Confirmation => serde_json::json!([{"result": "dismiss"}, null]),
        ToolQuestion::Call => Outcome::Cancelled.answer(),
    };
    Frame::response(wire.into(), result.to_string().as_bytes())
}

/// The report for an unreported call, with its round.
fn unreported(params: &[u8]) -> Option<(u64, Vec<u8>)> {
    let round = serde_json::from_slice(&params[member(params, "roundId")?]).ok()?;
    let mut call = Patch::of(br#"{"toolType":"client","status":"running"}"#);
    for (key, name) in [("input", "input"), ("name", "name"), ("toolCallId", "id")] {
        call.set(name, &params[member(params, key)?]);
    }
    Some((round, call.finish()))
}

/// Whether a call is inside the set; the error is the refused name. `called` is the tool that the model called, by
/// the turn's reports.
fn judge(set: &ToolSet, params: &[u8], called: Option<&str>) -> Result<(), String> {
    let asked = text(params, &["name"]).unwrap_or_default();
    let asked = bare(&asked);
    let name = called.filter(|it| is_edit_tool(it) && CARRIERS.contains(&asked)).unwrap_or(asked);
    if set.contains(name) { Ok(()) } else { Err(name.to_owned()) }
}

/// The same for a confirmation. The client never gets calls of MCP tools, so only the confirmation can be judged, and
/// only their own server acts on the answer.
fn judge_confirmation(set: &ToolSet, params: &[u8], called: Option<&str>) -> Result<(), String> {
    match mcp_tool(params) {
        Some((server, tool)) if set.contains_mcp(&server, &tool) => Ok(()),
        Some((server, tool)) => Err(format!("{server}/{tool}")),
        None => judge(set, params, called),
    }
}

/// The MCP server and tool in a confirmation.
fn mcp_tool(params: &[u8]) -> Option<(String, String)> {
    Some((text(params, &["input", "mcpServerName"])?, text(params, &["input", "mcpToolName"])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(set: &[&str], params: &str, called: Option<&str>) -> Result<(), String> {
        judge(&ToolSet::new(Some(set), &[]), params.as_bytes(), called)
    }

    #[test]
    fn call_is_judged_by_model_tool_only_for_carriers() {
        let edit = r#"{"name":"insert_edit_into_file","toolCallId":"1"}"#;
        assert_eq!(judged(&["apply_patch"], edit, Some("apply_patch")), Ok(()));
        assert_eq!(judged(&["read_file"], edit, Some("apply_patch")), Err("apply_patch".to_owned()));
        // A server that reports one tool and asks for another.
        let run = r#"{"name":"run_in_terminal","toolCallId":"1"}"#;
        assert_eq!(judged(&["read_file"], run, Some("read_file")), Err("run_in_terminal".to_owned()));
        let edits = Err("insert_edit_into_file".to_owned());
        assert_eq!(judged(&["read_file"], edit, Some("read_file")), edits, "no edit tool was called");
    }

    #[test]
    fn confirmation_is_judged_by_prefixed_and_mcp_names() {
        let judged = |set: &[&str], params: &str| {
            judge_confirmation(&ToolSet::new(Some(set), &[]), params.as_bytes(), None)
        };
        assert_eq!(judged(&["create_file"], r#"{"name":"copilot.create_file"}"#), Ok(()));
        let mcp = r#"{"name":"echo","input":{"mcpServerName":"mini","mcpToolName":"echo"}}"#;
        assert_eq!(judged(&["mini/echo"], mcp), Ok(()));
        assert_eq!(judged(&["echo"], mcp), Err("mini/echo".to_owned()));
    }

    #[test]
    fn call_is_not_judged_as_mcp_tool_by_its_input() {
        let run = r#"{"name":"run_in_terminal","input":{"mcpServerName":"mini","mcpToolName":"echo"}}"#;
        assert_eq!(judged(&["mini/echo"], run, None), Err("run_in_terminal".to_owned()));
    }
}
