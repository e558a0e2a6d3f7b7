//! What was said in a conversation: kept so that a process that does not know it can be told.
//!
//! A turn is a question and the rounds of its answer: text, and tool calls with their results. While it runs,
//! reports are kept as they came; they are read when somebody needs to know.
//!
//! [`History::transcript`] writes the file that a Copilot server reads when a conversation is created with
//! `restoreToTurnId`: the one way in that keeps tool calls in the model's history.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::rpc::{RawId, elements, member, path};

/// Reports of a running turn are read when they have come to this many bytes.
const UNREAD_BYTES: usize = 64 * 1024;

/// One conversation.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Parameters of its `conversation/create`, as the server got them.
    pub(crate) create: Bytes,
    turns: Vec<Turn>,
    /// How many of the turns came with the create.
    brought: usize,
}

/// A question and what came of it.
#[derive(Debug)]
pub(crate) struct Turn {
    id: RawId,
    /// A string, or an array of content parts, as asked.
    request: Bytes,
    rounds: Vec<Round>,
    unread: Vec<Bytes>,
    unread_bytes: usize,
}

#[derive(Debug, Default)]
struct Round {
    id: u64,
    text: String,
    thinking: Option<Thinking>,
    calls: Vec<Call>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Thinking {
    id: Option<String>,
    #[serde(default)]
    text: String,
}

/// A tool call of the model.
#[derive(Clone, Debug)]
struct Call {
    id: String,
    name: String,
    status: Status,
    input: Box<RawValue>,
    result: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Running,
    Completed,
    Error,
    Cancelled,
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    #[serde(default)]
    edit_agent_rounds: Vec<RoundReport>,
    reply: Option<String>,
    thinking: Option<Thinking>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoundReport {
    round_id: u64,
    #[serde(default)]
    reply: String,
    #[serde(default)]
    tool_calls: Vec<CallReport>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallReport {
    id: String,
    name: String,
    status: Status,
    input: Option<Box<RawValue>>,
    result: Option<Vec<Part>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Part {
    value: Option<Value>,
}

impl History {
    /// A conversation that begins with this `conversation/create`. Earlier turns that the editor brings along are
    /// part of its history.
    pub(crate) fn new(create: &[u8]) -> History {
        let mut it = History { create: Bytes::copy_from_slice(create), ..History::default() };
        let Some(turns) = member(create, "turns").map(|range| &create[range]) else { return it };
        let turns: Vec<&[u8]> = elements(turns).map(|range| &turns[range]).collect();
        for (n, turn) in turns.iter().take(turns.len().saturating_sub(1)).enumerate() {
            let id = member(turn, "turnId").and_then(|range| RawId::from_raw(&turn[range]));
            let id = id.unwrap_or_else(|| RawId::text(&format!("earlier-{n}")));
            let request = member(turn, "request").map_or(&b"\"\""[..], |range| &turn[range]);
            let mut kept = Turn::new(id, request);
            kept.round(1).text = path_text(turn, &["response"]).unwrap_or_default();
            it.turns.push(kept);
        }
        it.brought = it.turns.len();
        it
    }

    /// Whether a process has begun to answer it.
    pub(crate) fn has_begun(&self) -> bool {
        self.turns.len() > self.brought
    }

    /// A process begins a turn with this question.
    pub(crate) fn begin(&mut self, id: RawId, request: &[u8]) {
        if self.turn(&id).is_none() {
            self.turns.push(Turn::new(id, request));
        }
    }

    /// The turn of this id.
    pub(crate) fn turn(&mut self, id: &RawId) -> Option<&mut Turn> {
        self.turns.iter_mut().rev().find(|it| it.id == *id)
    }

    /// `conversation/turnDelete`.
    pub(crate) fn delete(&mut self, id: &RawId) {
        self.turns.retain(|it| it.id != *id);
    }

    /// Whether the file of this conversation can be found again by its id: the id becomes a path.
    pub(crate) fn is_file_name(conversation: &RawId) -> bool {
        let Some(text) = conversation.as_text() else { return false };
        let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
        (1..=200).contains(&text.len()) && text.chars().all(plain) && text != "." && text != ".."
    }

    /// The id of the last turn, as the file has it.
    pub(crate) fn last(&self) -> Option<String> {
        self.turns.last().map(Turn::text_id)
    }

    /// The lines of `partition-1.jsonl` that hold the turns.
    pub(crate) fn transcript(&mut self, conversation: &str) -> Vec<u8> {
        let mut out = Transcript::default();
        out.line("partition.created", &json!({"conversationId": conversation, "partitionId": 1}));
        let model = path(&self.create, &["modelInfo", "id"]).map(|range| self.create.slice(range));
        for turn in &mut self.turns {
            let id = turn.text_id();
            let content: Value = serde_json::from_slice(&turn.request).unwrap_or(Value::Null);
            out.line("user.message", &json!({"content": content, "turnId": id}));
            let messages = turn.messages(model.as_deref());
            if !messages.is_empty() {
                let content = Value::Array(messages).to_string();
                out.line("assistant.message", &json!({"content": content, "messageId": id}));
            }
            out.line("assistant.turn_end", &json!({"turnId": id, "status": "success"}));
        }
        out.text
    }

    /// The turns as `turns` of a create, for a conversation whose id is no file name: text only.
    pub(crate) fn plain_turns(&mut self) -> Vec<Value> {
        let plain = |turn: &mut Turn| {
            turn.read();
            let request: Value = serde_json::from_slice(&turn.request).unwrap_or(Value::Null);
            let text: String = turn.rounds.iter().map(|it| it.text.as_str()).collect();
            json!({"request": request, "response": text, "turnId": turn.text_id()})
        };
        self.turns.iter_mut().map(plain).collect()
    }
}

#[derive(Default)]
struct Transcript {
    text: Vec<u8>,
    lines: u32,
}

impl Transcript {
    fn line(&mut self, kind: &str, data: &Value) {
        self.lines += 1;
        let id = format!("00000000-0000-4000-8000-{:012}", self.lines);
        let line = json!({"type": kind, "data": data, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "parentId": null});
        self.text.extend_from_slice(line.to_string().as_bytes());
        self.text.push(b'\n');
    }
}

impl Turn {
    fn new(id: RawId, request: &[u8]) -> Turn {
        Turn {
            id,
            request: Bytes::copy_from_slice(request),
            rounds: Vec::new(),
            unread: Vec::new(),
            unread_bytes: 0,
        }
    }

    fn text_id(&self) -> String {
        self.id.as_text().map_or_else(|| self.id.to_string(), std::borrow::Cow::into_owned)
    }

    /// Takes in the value of a report.
    pub(crate) fn report(&mut self, value: &[u8]) {
        self.unread.push(Bytes::copy_from_slice(value));
        self.unread_bytes += value.len();
        if self.unread_bytes > UNREAD_BYTES {
            self.read();
        }
    }

    /// Takes in the client's answer to a call whose completion has not been reported.
    pub(crate) fn answered(&mut self, call: &str, result: &[u8]) {
        self.read();
        let Some(call) = self.rounds.iter_mut().flat_map(|it| &mut it.calls).find(|it| it.id == call) else {
            return;
        };
        let status = match path_text(result, &["status"]).as_deref() {
            Some("error") => Status::Error,
            Some("cancelled") => Status::Cancelled,
            Some(_) | None => Status::Completed,
        };
        let parts: Vec<Part> = member(result, "content")
            .and_then(|range| serde_json::from_slice(&result[range]).ok())
            .unwrap_or_default();
        call.status = status;
        call.result = joined(parts);
    }

    /// Brings what has come up to date.
    fn read(&mut self) {
        self.unread_bytes = 0;
        for value in std::mem::take(&mut self.unread) {
            if let Ok(report) = serde_json::from_slice::<Report>(&value) {
                self.take_in(report);
            }
        }
    }

    fn take_in(&mut self, report: Report) {
        if let Some(text) = report.reply {
            self.round(1).text.push_str(&text);
        }
        let thinking_round = report.edit_agent_rounds.first().map(|it| it.round_id);
        for round in report.edit_agent_rounds {
            let kept = self.round(round.round_id);
            kept.text.push_str(&round.reply);
            for call in round.tool_calls {
                kept.call(call);
            }
        }
        if let Some(thinking) = report.thinking {
            let last = self.rounds.last().map_or(1, |it| it.id);
            let kept = self.round(thinking_round.unwrap_or(last)).thinking.get_or_insert_default();
            kept.text.push_str(&thinking.text);
            kept.id = thinking.id.or(kept.id.take());
        }
    }

    fn round(&mut self, id: u64) -> &mut Round {
        let at = self.rounds.iter().position(|it| it.id == id).unwrap_or_else(|| {
            self.rounds.push(Round { id, ..Round::default() });
            self.rounds.len() - 1
        });
        &mut self.rounds[at]
    }

    /// The messages between the question and the next one, as the model saw them.
    fn messages(&mut self, model: Option<&[u8]>) -> Vec<Value> {
        self.read();
        let mut out: Vec<Value> = Vec::new();
        let mut plain_before = false;
        for round in &self.rounds {
            let calls: Vec<&Call> = round.calls.iter().filter(|it| it.has_result()).collect();
            if round.text.is_empty() && calls.is_empty() {
                continue;
            }
            let is_plain = calls.is_empty() && round.thinking.is_none();
            // A cut-off text and its continuation are one message.
            if let (true, true, Some(Value::String(text))) =
                (plain_before, is_plain, out.last_mut().and_then(|it| it.get_mut("content")))
            {
                text.push_str(&round.text);
                continue;
            }
            plain_before = is_plain;
            let mut message = json!({"role": "assistant", "content": round.text});
            if !calls.is_empty() {
                message["tool_calls"] = calls.iter().map(|it| it.asked()).collect();
            }
            if let (Some(thinking), Some(model)) = (&round.thinking, model)
                && let Some(id) = &thinking.id
            {
                message["thinking"] = json!({"id": id, "text": thinking.text});
                message["modelId"] = serde_json::from_slice(model).unwrap_or(Value::Null);
            }
            out.push(message);
            out.extend(calls.iter().map(|it| it.answered()));
        }
        out
    }
}

impl Round {
    fn call(&mut self, report: CallReport) {
        let result = report.result.map(joined);
        let error = report.error.map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
        if let Some(known) = self.calls.iter_mut().find(|it| it.id == report.id) {
            known.status = report.status;
            if let Some(result) = result.or(error) {
                known.result = result;
            }
            return;
        }
        let empty = || RawValue::from_string("{}".to_owned()).expect("an empty object is valid");
        self.calls.push(Call {
            id: report.id,
            name: report.name,
            status: report.status,
            input: report.input.unwrap_or_else(empty),
            result: result.or(error).unwrap_or_default(),
        });
    }
}

impl Call {
    fn has_result(&self) -> bool {
        match self.status {
            Status::Completed | Status::Error | Status::Cancelled => true,
            Status::Running | Status::Unknown => false,
        }
    }

    fn asked(&self) -> Value {
        let clean = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        let name: String = self.name.chars().map(clean).take(64).collect();
        json!({"id": self.id, "type": "function", "function": {"name": name, "arguments": self.input.get()}})
    }

    fn answered(&self) -> Value {
        let prefix = match self.status {
            Status::Error => "Tool call failed with error: ",
            Status::Cancelled => "Tool call is cancelled with result: ",
            Status::Completed | Status::Running | Status::Unknown => "",
        };
        json!({"role": "tool", "content": format!("{prefix}{}", self.result), "tool_call_id": self.id})
    }
}

fn joined(parts: Vec<Part>) -> String {
    let text = |it: Part| match it.value {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    parts.into_iter().map(text).collect()
}

fn path_text(value: &[u8], keys: &[&str]) -> Option<String> {
    serde_json::from_slice(&value[path(value, keys)?]).ok()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn turn(reports: &[Value]) -> Turn {
        let mut turn = Turn::new(RawId::text("t"), br#""q""#);
        for report in reports {
            turn.report(report.to_string().as_bytes());
        }
        turn
    }

    fn text(round: u64, text: &str) -> Value {
        json!({"kind": "report", "editAgentRounds": [{"roundId": round, "reply": text}]})
    }

    fn call(round: u64, id: &str, status: &str, result: Option<&str>) -> Value {
        let mut call = json!({"id": id, "name": "fetch ticket", "toolType": "client", "status": status, "input": {"key": 1}});
        if let Some(result) = result {
            call["result"] = json!([{"type": "text", "value": result}]);
        }
        json!({"kind": "report", "editAgentRounds": [{"roundId": round, "reply": "", "toolCalls": [call]}]})
    }

    #[test]
    fn rounds_become_the_messages_that_the_model_saw() {
        let mut it = turn(&[
            text(1, "Two "),
            text(1, "calls."),
            call(1, "a", "running", None),
            call(1, "a", "completed", Some("A")),
            call(1, "b", "running", None),
            text(2, "Done"),
            text(3, "."),
        ]);
        let messages: Vec<String> = it.messages(None).iter().map(Value::to_string).collect();
        expect![[r#"
            {"role":"assistant","content":"Two calls.","tool_calls":[{"id":"a","type":"function","function":{"name":"fetch_ticket","arguments":"{\"key\":1}"}}]}
            {"role":"tool","content":"A","tool_call_id":"a"}
            {"role":"assistant","content":"Done."}"#]]
        .assert_eq(&messages.join("\n"));
    }

    #[test]
    fn the_editors_late_answer_counts_as_the_result() {
        let mut it = turn(&[call(1, "a", "running", None), call(1, "b", "running", None)]);
        it.answered("a", br#"{"content":[{"value":"late"},{"value":"r"}],"status":"error"}"#);
        let messages = it.messages(None);
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[1]["content"], "Tool call failed with error: later");
    }

    #[test]
    fn reasoning_is_kept_with_the_model_that_made_it() {
        let think = |text: &str, id: Option<&str>| json!({"thinking": {"text": text, "id": id}, "editAgentRounds": [{"roundId": 1, "reply": "x"}]});
        let mut it = turn(&[think("a", None), think("b", Some("blob"))]);
        let message = &it.messages(Some(br#""m""#))[0];
        assert_eq!(message["thinking"], json!({"id": "blob", "text": "ab"}));
        assert_eq!(message["modelId"], "m");
        assert_eq!(it.messages(None)[0].get("thinking"), None);
    }

    #[test]
    fn only_plain_file_names_are_restored_from_files() {
        for good in ["a", "lspool-1-2-3", "A.b_c"] {
            assert!(History::is_file_name(&RawId::text(good)), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "../a", "a b", "ü"] {
            assert!(!History::is_file_name(&RawId::text(bad)), "{bad}");
        }
        assert!(!History::is_file_name(&RawId::from(7)));
    }
}
