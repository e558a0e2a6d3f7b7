//! The forms of a history for a model: the lines of a transcript, or plain text.

use serde_json::{Value, json};

use super::{History, RecordedCall, RecordedTurn, Status};
use crate::{core::copilot::tools::tool_set::model_name, rpc::path, util::json};

impl History {
    /// The lines of `partition-1.jsonl` with the turns.
    pub(crate) fn transcript(&mut self, conversation: &str) -> Vec<u8> {
        let mut out = Transcript::default();
        out.line("partition.created", &json!({"conversationId": conversation, "partitionId": 1}));
        let model = path(&self.create, &["modelInfo", "id"]).map(|range| self.create.slice(range));
        for turn in &mut self.turns {
            let id = turn.text_id();
            out.line("user.message", &json!({"content": kept(turn.question()), "turnId": id}));
            let messages = turn.messages(model.as_deref());
            if !messages.is_empty() {
                let content = Value::Array(messages).to_string();
                out.line("assistant.message", &json!({"content": content, "messageId": id}));
            }
            out.line("assistant.turn_end", &json!({"turnId": id, "status": "success"}));
        }
        out.text
    }

    /// The turns for `turns` of a create, as text only, for a conversation whose id is not a file name.
    pub(crate) fn plain_turns(&mut self) -> Vec<Value> {
        self.turns.iter().flat_map(RecordedTurn::plain).collect()
    }
}

/// A question in the server's form. Clients write `imageUrl` for an image, and models `image_url`.
fn kept(mut question: Value) -> Value {
    for part in question.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(image) = part.remove("imageUrl") {
            part.insert("image_url".to_owned(), image);
        }
    }
    question
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

impl RecordedTurn {
    /// The question in the clients' form.
    fn question(&self) -> Value {
        json::read(&self.request).unwrap_or_default()
    }

    /// The question, and each message in the middle of the turn, with the text that follows.
    fn plain(&self) -> Vec<Value> {
        let id = self.text_id();
        let request = self.question();
        let further = self.follow_ups.iter().enumerate();
        let further =
            further.map(|(n, (after, message))| (*after, message.clone(), format!("{id}+{}", n + 1)));
        let asked: Vec<(u64, Value, String)> =
            std::iter::once((0, request, id.clone())).chain(further).collect();
        let said = |after: u64, until: u64| -> String {
            let rounds = self.rounds.iter().filter(|it| it.id > after && it.id <= until);
            rounds.map(|it| it.text.as_str()).collect()
        };
        let part = |(n, (after, request, id)): (usize, &(u64, Value, String))| {
            let until = asked.get(n + 1).map_or(u64::MAX, |it| it.0);
            json!({"request": request, "response": said(*after, until), "turnId": id})
        };
        asked.iter().enumerate().map(part).collect()
    }

    /// The messages from the question to the next one, as the model saw them.
    pub(crate) fn messages(&mut self, model: Option<&[u8]>) -> Vec<Value> {
        let mut out: Vec<Value> = Vec::new();
        let mut follow_ups = self.follow_ups.iter().peekable();
        for round in &self.rounds {
            let calls: Vec<&RecordedCall> = round.calls.iter().filter(|it| it.has_result()).collect();
            if round.text.is_empty() && calls.is_empty() {
                continue;
            }
            while let Some((_, message)) = follow_ups.next_if(|(after, _)| *after < round.id) {
                out.push(json!({"role": "user", "content": message}));
            }
            // A cut-off text and its continuation are one message. The server never sends two of a model in a row.
            let before = out.pop_if(|it| it["role"] == "assistant" && it.get("tool_calls").is_none());
            let text = match before.as_ref().and_then(|it| it["content"].as_str()) {
                Some(cut) => format!("{cut}{}", round.text),
                None => round.text.clone(),
            };
            let mut message = json!({"role": "assistant", "content": text});
            if let Some(Value::Object(before)) = before {
                for key in ["thinking", "modelId"] {
                    before.get(key).into_iter().for_each(|it| message[key] = it.clone());
                }
            }
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

impl RecordedCall {
    fn asked(&self) -> Value {
        let name = model_name(&self.name);
        json!({"id": self.id, "type": "function", "function": {"name": name, "arguments": self.input.get()}})
    }

    fn answered(&self) -> Value {
        let prefix = match self.status {
            Status::Error => "Tool call failed with error: ",
            Status::Cancelled => "Tool call is cancelled with result: ",
            Status::Completed | Status::Running | Status::Dropped | Status::Unknown => "",
        };
        // The server shows an empty result so. It leaves out an empty answer, and a model API refuses a call without
        // an answer.
        let result = if self.result.is_empty() { "(empty)" } else { &self.result };
        json!({"role": "tool", "content": format!("{prefix}{result}"), "tool_call_id": self.id})
    }
}
