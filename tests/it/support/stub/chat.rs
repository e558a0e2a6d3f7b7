//! One view of a model request, whichever of the two chat APIs it came by.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// The content of a model request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chat {
    /// The model asked.
    pub model: String,
    /// The user's last message, without the context that the server adds.
    pub user: String,
    /// How many batches of tool results follow that request.
    pub round: usize,
    /// The tool results that follow that request.
    pub results: Vec<String>,
    /// Names of the tools on offer, in the order sent.
    pub tools: Vec<String>,
    /// The dialogue that the model was shown: requests, answers, calls and results.
    pub history: Vec<Said>,
    /// Whether a title is asked for (the tool `showSuggestions` is forced).
    pub title: bool,
    /// Whether the last message was the script's `continue_text`.
    pub continued: bool,
    /// The text so far of a continued round.
    pub said: String,
    /// `X-Interaction-Id`: the id of the turn.
    pub interaction: Option<String>,
    /// `X-Initiator`: `user` or `agent`.
    pub initiator: Option<String>,
    /// Why a model API refuses it.
    pub refused: Option<String>,
}

/// A part of the dialogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The person, without the wrapping.
    User(String),
    /// The model.
    Assistant(String),
    /// The model called this tool.
    Call(String),
    /// The result of a tool call.
    Result(String),
}

impl Said {
    fn to_json(&self) -> Value {
        match self {
            Said::User(text) => json!(["user", text]),
            Said::Assistant(text) => json!(["assistant", text]),
            Said::Call(name) => json!(["call", name]),
            Said::Result(text) => json!(["result", text]),
        }
    }
}

impl Chat {
    /// Reads the body of a `/chat/completions` or `/responses` request.
    pub fn read(body: &Value, continue_text: Option<&str>) -> Chat {
        let said = match body["messages"].as_array() {
            Some(messages) => messages.iter().flat_map(said_by_message).collect(),
            None => said_by_input(&body["input"]),
        };
        let dialogue = dialogue(said);
        let tools: Vec<String> = elements(&body["tools"])
            .iter()
            .map(|tool| string(tool["function"]["name"].as_str().or(tool["name"].as_str())))
            .collect();

        let continues =
            |said: &Said| matches!(said, Said::User(text) if Some(text.as_str()) == continue_text);
        let last_user = |wanted: &dyn Fn(&Part) -> bool| {
            dialogue.iter().rposition(|part| matches!(part.said, Said::User(_)) && wanted(part))
        };
        let asked = last_user(&|part| part.tagged && !continues(&part.said))
            .or_else(|| last_user(&|part| !continues(&part.said)));
        let continued = last_user(&|part| continues(&part.said)) > asked;
        let history: Vec<Said> = dialogue.into_iter().map(|part| part.said).collect();
        let tail = asked.map_or(&history[..], |at| &history[at + 1..]);
        let cut =
            tail.iter().rposition(|it| matches!(it, Said::Result(_))).map_or(tail, |at| &tail[at + 1..]);
        let said = cut.iter().filter_map(|it| match it {
            Said::Assistant(text) if continued => Some(text.as_str()),
            Said::Assistant(_) | Said::User(_) | Said::Call(_) | Said::Result(_) => None,
        });
        let said: String = said.collect();
        let results: Vec<String> = tail
            .iter()
            .filter_map(|said| match said {
                Said::Result(text) => Some(text.clone()),
                Said::User(_) | Said::Assistant(_) | Said::Call(_) => None,
            })
            .collect();

        Chat {
            model: string(body["model"].as_str()),
            user: match asked.map(|at| &history[at]) {
                Some(Said::User(text)) => text.clone(),
                _ => String::new(),
            },
            round: batches(tail),
            results,
            title: tools == ["showSuggestions"],
            tools,
            continued,
            said,
            history,
            interaction: None,
            initiator: None,
            refused: refusal(body),
        }
    }

    /// Fills the placeholders of a scripted text in.
    pub fn fill(&self, text: &str, workspace: &str) -> String {
        let history: Vec<Value> = self.history.iter().map(Said::to_json).collect();
        text.replace("{ws}", workspace)
            .replace("{user}", &self.user)
            .replace("{results}", &self.results.join(" | "))
            .replace("{tools}", &self.tools.join(","))
            .replace("{history}", &Value::from(history).to_string())
    }
}

/// A part of the dialogue, and whether it is a request in the tag that the server puts around the newest.
struct Part {
    said: Said,
    tagged: bool,
}

/// A part of the dialogue before the person's messages are sorted out.
enum Raw {
    User(String),
    Other(Said),
}

fn dialogue(raw: Vec<Raw>) -> Vec<Part> {
    raw.into_iter()
        .filter_map(|raw| match raw {
            Raw::Other(said) => Some(Part { said, tagged: false }),
            Raw::User(text) => from_user(&text),
        })
        .collect()
}

/// Nothing for a message that is context only: it begins with a tag and holds no request.
fn from_user(text: &str) -> Option<Part> {
    if let Some((_, rest)) = text.rsplit_once("<userRequest>") {
        let request = rest.split_once("</userRequest>").map_or(rest, |(request, _)| request);
        return Some(Part { said: Said::User(request.trim().to_owned()), tagged: true });
    }
    let text = text.trim();
    (!text.starts_with('<')).then(|| Part { said: Said::User(text.to_owned()), tagged: false })
}

fn said_by_message(message: &Value) -> Vec<Raw> {
    let text = text_of(&message["content"]);
    match message["role"].as_str() {
        Some("user") => vec![Raw::User(text)],
        Some("tool") => vec![Raw::Other(Said::Result(text))],
        Some("assistant") => {
            let said = (!text.is_empty()).then_some(Raw::Other(Said::Assistant(text)));
            let calls = elements(&message["tool_calls"])
                .iter()
                .map(|call| Raw::Other(Said::Call(string(call["function"]["name"].as_str()))));
            said.into_iter().chain(calls).collect()
        }
        _ => Vec::new(),
    }
}

fn said_by_input(input: &Value) -> Vec<Raw> {
    if let Some(text) = input.as_str() {
        return vec![Raw::User(text.to_owned())];
    }
    elements(input)
        .iter()
        .flat_map(|item| match item["type"].as_str() {
            Some("function_call") => vec![Raw::Other(Said::Call(string(item["name"].as_str())))],
            Some("function_call_output") => vec![Raw::Other(Said::Result(text_of(&item["output"])))],
            Some("message") | None => said_by_message(item),
            Some(_) => Vec::new(),
        })
        .collect()
}

/// Why a model API refuses a request. Real ones differ: this one refuses what any of them does.
fn refusal(body: &Value) -> Option<String> {
    let (mut seen, mut open) = (BTreeSet::new(), BTreeSet::new());
    let mut steps = elements(&body["messages"]).iter().chain(elements(&body["input"])).flat_map(steps);
    let wrong = steps.find_map(|step| match step {
        Step::Calls(id) if !seen.insert(id.clone()) => Some(format!("two calls have the id {id}")),
        Step::Calls(id) => {
            open.insert(id);
            None
        }
        Step::Answers(id) => (!open.remove(&id)).then(|| format!("{id} is answered and was not called")),
        Step::Says(_) if !open.is_empty() => Some(format!("the calls {open:?} have no answer")),
        Step::Says(texts) => texts.iter().any(String::is_empty).then(|| "a text is empty".to_owned()),
    });
    wrong.or_else(|| (!open.is_empty()).then(|| format!("the calls {open:?} have no answer at the end")))
}

/// The effect of a message on the dialogue.
enum Step {
    Calls(String),
    Answers(String),
    Says(Vec<String>),
}

fn steps(message: &Value) -> Vec<Step> {
    let id = |it: &Value| string(it.as_str());
    match (message["type"].as_str(), message["role"].as_str()) {
        (Some("function_call"), _) => vec![Step::Calls(id(&message["call_id"]))],
        (Some("function_call_output"), _) => vec![Step::Answers(id(&message["call_id"]))],
        (_, Some("tool")) => vec![Step::Answers(id(&message["tool_call_id"]))],
        (_, Some(_)) => {
            let calls = elements(&message["tool_calls"]).iter().map(|it| Step::Calls(id(&it["id"])));
            let calls: Vec<Step> = calls.collect();
            let texts = match &message["content"] {
                Value::Array(parts) => {
                    parts.iter().filter_map(|it| Some(it["text"].as_str()?.to_owned())).collect()
                }
                // A model that calls tools need not say anything.
                Value::String(text) if text.is_empty() && !calls.is_empty() => Vec::new(),
                Value::String(text) => vec![text.clone()],
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
            };
            std::iter::once(Step::Says(texts)).chain(calls).collect()
        }
        (_, None) => Vec::new(),
    }
}

/// Runs of results: one round of the model is answered by each.
fn batches(said: &[Said]) -> usize {
    let is_result = |said: &Said| matches!(said, Said::Result(_));
    (0..said.len()).filter(|&at| is_result(&said[at]) && (at == 0 || !is_result(&said[at - 1]))).count()
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn string(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}
