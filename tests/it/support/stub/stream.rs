//! The two ways in which a model's answer is streamed.

use std::io;

use serde_json::{Value, json};

use super::{http::Connection, script::ToolCall};

/// The API by which a model is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    ChatCompletions,
    Responses,
}

/// Writes one answer.
pub(super) struct Answer<'a> {
    connection: &'a mut Connection,
    api: Api,
    model: String,
    text: String,
    /// The parts that the `responses` API has finished so far.
    items: Vec<Value>,
    events: usize,
}

/// A call with the id it has got.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl Call {
    pub(super) fn new(call: &ToolCall, id: String, workspace: &str) -> Call {
        let arguments = with_workspace(call.arguments.clone(), workspace).to_string();
        Call { id: call.id.clone().unwrap_or(id), name: call.name.clone(), arguments }
    }
}

/// Fills `{ws}` in within the strings of a value.
fn with_workspace(value: Value, workspace: &str) -> Value {
    match value {
        Value::String(text) => text.replace("{ws}", workspace).into(),
        Value::Array(items) => items.into_iter().map(|item| with_workspace(item, workspace)).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, item)| (name, with_workspace(item, workspace))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

impl<'a> Answer<'a> {
    pub(super) fn begin(connection: &'a mut Connection, api: Api, model: &str) -> io::Result<Answer<'a>> {
        connection.start_chunks("text/event-stream")?;
        let mut answer = Answer {
            connection,
            api,
            model: model.to_owned(),
            text: String::new(),
            items: Vec::new(),
            events: 0,
        };
        match api {
            Api::ChatCompletions => answer.delta(&json!({"role": "assistant", "content": ""}), None, None)?,
            Api::Responses => {
                let response = answer.response("in_progress");
                answer.event("response.created", json!({"response": response}))?;
            }
        }
        Ok(answer)
    }

    pub(super) fn connection(&self) -> &Connection {
        self.connection
    }

    pub(super) fn text(&mut self, piece: &str) -> io::Result<()> {
        let first = self.text.is_empty();
        self.text += piece;
        match self.api {
            Api::ChatCompletions => self.delta(&json!({"content": piece}), None, None),
            Api::Responses => {
                if first {
                    let item = json!({"id": "msg_0", "type": "message", "role": "assistant", "status": "in_progress", "content": []});
                    self.event("response.output_item.added", json!({"output_index": 0, "item": item}))?;
                    let part = json!({"type": "output_text", "text": "", "annotations": []});
                    self.event("response.content_part.added", in_message(json!({"part": part})))?;
                }
                self.event("response.output_text.delta", in_message(json!({"delta": piece})))
            }
        }
    }

    pub(super) fn calls(&mut self, calls: &[Call]) -> io::Result<()> {
        for (index, call) in calls.iter().enumerate() {
            match self.api {
                Api::ChatCompletions => {
                    let head = json!({"name": call.name, "arguments": ""});
                    let head = json!({"index": index, "id": call.id, "type": "function", "function": head});
                    self.delta(&json!({"tool_calls": [head]}), None, None)?;
                    let rest = json!({"index": index, "function": {"arguments": call.arguments}});
                    self.delta(&json!({"tool_calls": [rest]}), None, None)?;
                }
                Api::Responses => self.function_call(index, call)?,
            }
        }
        Ok(())
    }

    pub(super) fn end(mut self, finish: &str) -> io::Result<()> {
        match self.api {
            Api::ChatCompletions => {
                let completion = self.text.len() / 4;
                let usage = json!({"prompt_tokens": 100, "completion_tokens": completion, "total_tokens": 100 + completion});
                self.delta(&json!({}), Some(finish), Some(usage))?;
                self.connection.chunk("data: [DONE]\n\n")?;
            }
            Api::Responses => {
                self.finish_text()?;
                let response = self.response("completed");
                self.event("response.completed", json!({"response": response}))?;
            }
        }
        self.connection.chunk("")
    }

    fn delta(&mut self, delta: &Value, finish: Option<&str>, usage: Option<Value>) -> io::Result<()> {
        let mut chunk = json!({
            "id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        self.connection.chunk(&format!("data: {chunk}\n\n"))
    }

    fn event(&mut self, kind: &str, mut data: Value) -> io::Result<()> {
        self.events += 1;
        data["type"] = kind.into();
        data["sequence_number"] = self.events.into();
        self.connection.chunk(&format!("event: {kind}\ndata: {data}\n\n"))
    }

    fn function_call(&mut self, index: usize, call: &Call) -> io::Result<()> {
        self.finish_text()?;
        let id = format!("fc_{index}");
        let at = self.items.len();
        let item = |arguments: &str, status: &str| json!({"id": id, "type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments, "status": status});
        let done = item(&call.arguments, "completed");
        self.event(
            "response.output_item.added",
            json!({"output_index": at, "item": item("", "in_progress")}),
        )?;
        let whole = |name: &str| json!({"item_id": id, "output_index": at, name: call.arguments});
        self.event("response.function_call_arguments.delta", whole("delta"))?;
        self.event("response.function_call_arguments.done", whole("arguments"))?;
        self.event("response.output_item.done", json!({"output_index": at, "item": done}))?;
        self.items.push(done);
        Ok(())
    }

    /// In the `responses` API the text is one item, finished before the calls.
    fn finish_text(&mut self) -> io::Result<()> {
        if self.text.is_empty() || !self.items.is_empty() {
            return Ok(());
        }
        let content = json!([{"type": "output_text", "text": self.text, "annotations": []}]);
        let item = json!({"id": "msg_0", "type": "message", "role": "assistant", "status": "completed", "content": content});
        self.event("response.output_text.done", in_message(json!({"text": self.text})))?;
        self.event("response.output_item.done", json!({"output_index": 0, "item": item}))?;
        self.items.push(item);
        Ok(())
    }

    fn response(&self, status: &str) -> Value {
        json!({
            "id": "resp_stub", "object": "response", "created_at": 0, "status": status, "model": self.model,
            "output": self.items,
            "usage": {
                "input_tokens": 100, "output_tokens": 10, "total_tokens": 110,
                "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
            },
        })
    }
}

fn in_message(mut data: Value) -> Value {
    data["item_id"] = "msg_0".into();
    data["output_index"] = 0.into();
    data["content_index"] = 0.into();
    data
}
