//! The answers of the stub: rules in the order of their use, as builders or as JSON.
//!
//! Owns the shape and the choice of a reply. Sends nothing.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Everything the stub answers with. The default has a rule for each bracketed word listed
/// at [`Script::builtin_rules`] and echoes the rest.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Tried first, in order, before the built-in rules.
    pub rules: Vec<Rule>,
    /// Whether [`Script::builtin_rules`] follow.
    pub builtin: bool,
    /// The models on offer.
    pub models: Vec<Model>,
    /// Answer to the request for a conversation's title.
    pub title: Round,
    /// The value of `{ws}` in texts and arguments.
    pub workspace: String,
    /// A message with exactly this text continues the request before it.
    pub continue_text: Option<String>,
    /// Inline completions, tried in order.
    pub completions: Vec<Completion>,
    /// Members put over those of the token envelope.
    pub token: Map<String, Value>,
    /// Life of a token in seconds.
    pub token_ttl: u64,
    /// Members put over those of the Copilot user.
    pub user: Map<String, Value>,
    /// Experiment flags.
    pub flags: Map<String, Value>,
    /// How often a device flow is "pending" before the token comes.
    pub device_flow_pending: u32,
    /// Answers that replace a route, by path.
    pub http: BTreeMap<String, Override>,
}

impl Default for Script {
    fn default() -> Self {
        Script {
            rules: Vec::new(),
            builtin: true,
            models: Model::defaults(),
            // The server takes no other finish reason here, although the call is forced.
            title: Round::default()
                .call(
                    "showSuggestions",
                    json!({"suggestedTitle": "Stub title", "followUp": "Stub follow-up"}),
                )
                .finish("stop"),
            workspace: "/workspace".to_owned(),
            continue_text: None,
            completions: vec![Completion::new("return a + b")],
            token: Map::new(),
            token_ttl: 1800,
            user: Map::new(),
            flags: Map::new(),
            device_flow_pending: 1,
            http: BTreeMap::new(),
        }
    }
}

impl Script {
    /// Adds a rule after those added before and ahead of the built-in ones.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sets the value of `{ws}`.
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<String>) -> Self {
        self.workspace = folder.into();
        self
    }

    /// Sets the message that continues the request before it.
    #[must_use]
    pub fn continue_text(mut self, text: impl Into<String>) -> Self {
        self.continue_text = Some(text.into());
        self
    }

    /// Replaces the answer of a route.
    #[must_use]
    pub fn http(mut self, path: impl Into<String>, answer: Override) -> Self {
        self.http.insert(path.into(), answer);
        self
    }

    /// Puts a completion ahead of the others.
    #[must_use]
    pub fn completion(mut self, completion: Completion) -> Self {
        self.completions.insert(0, completion);
        self
    }

    /// The rules of the default script.
    ///
    /// `[read]` `[run]` `[custom]` call one client tool, `[parallel]` calls `fetch_ticket` twice at
    /// once, `[multi]` calls two tools one after the other, `[builtin]` calls a tool of the server,
    /// `[unknown-tool]` an unknown one. `[long]` and `[slow]` stream, `[hang]` never ends, `[drop]` is cut off,
    /// `[error500]` `[error-once]` `[ratelimit]` `[quota]` `[unauthorized]` are HTTP errors. `[history]` and
    /// `[tools]` answer with the request to the model. Everything else is echoed.
    pub fn builtin_rules() -> Vec<Rule> {
        let ticket = |key: &str| json!({"key": key});
        let shell =
            |command: &str| json!({"command": command, "explanation": command, "isBackground": false});
        vec![
            Rule::on("[read]")
                .then(
                    Round::text("I will read the file.")
                        .call("read_file", json!({"filePath": "{ws}/a.txt", "startLine": 1, "endLine": 5})),
                )
                .then(Round::text("The file says: {results}")),
            Rule::on("[run]")
                .then(Round::text("Running it.").call("run_in_terminal", shell("echo hello")))
                .then(Round::text("Output: {results}")),
            Rule::on("[custom]")
                .then(Round::default().call("fetch_ticket", ticket("ABC-1")))
                .then(Round::text("Ticket: {results}")),
            Rule::on("[parallel]")
                .then(
                    Round::text("Two at once.")
                        .call("fetch_ticket", ticket("ABC-1"))
                        .call("fetch_ticket", ticket("ABC-2")),
                )
                .then(Round::text("Both: {results}")),
            Rule::on("[multi]")
                .then(Round::text("Step one.").call("fetch_ticket", ticket("STEP-1")))
                .then(Round::text("Step two.").call("run_in_terminal", shell("true")))
                .then(Round::text("All done: {results}")),
            Rule::on("[builtin]")
                .then(Round::default().call("list_dir", json!({"path": "{ws}"})))
                .then(Round::text("Listed: {results}")),
            Rule::on("[unknown-tool]")
                .then(Round::default().call("no_such_tool", json!({"x": 1})))
                .then(Round::text("After unknown: {results}")),
            Rule::on("[long]").then(Round::text("word ").repeat(400).chunks(25, 10)),
            Rule::on("[slow]").then(Round::text("Slow line.\n").repeat(20).delay(500).chunks(11, 250)),
            Rule::on("[hang]").then(Round::text("This reply never ends.\n").hang()),
            Rule::on("[drop]").then(
                Round::text("This reply is cut off by a closed connection.").chunks(10, 0).drop_after(2),
            ),
            Rule::on("[error500]").then(Round::status(500)),
            Rule::on("[error-once]").then(Round::status(503).times(1)).or(Round::text("Recovered.")),
            Rule::on("[ratelimit]").then(
                Round::status(429)
                    .header("retry-after", "1")
                    .body(json!({"error": {"code": "rate_limited", "message": "slow down"}})),
            ),
            Rule::on("[quota]").then(
                Round::status(402).body(json!({"error": {"code": "quota_exceeded", "message": "quota"}})),
            ),
            Rule::on("[unauthorized]").then(Round::status(401).body(json!({"message": "bad credentials"}))),
            Rule::on("[history]").then(Round::text("HISTORY={history}")),
            Rule::on("[tools]").then(Round::text("TOOLS={tools}")),
            Rule::on("").then(Round::text("Echo: {user}")),
        ]
    }

    /// All rules in the order in which they are tried.
    pub(super) fn all_rules(&self) -> Vec<Rule> {
        let builtin = if self.builtin { Script::builtin_rules() } else { Vec::new() };
        self.rules.iter().cloned().chain(builtin).collect()
    }
}

/// Replies to the requests that contain a text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// A text that the request contains.
    #[serde(rename = "match")]
    pub text: String,
    /// The id of the model; a trailing `*` means any rest, an empty id every model.
    pub model: String,
    /// Round 0 answers the request, round *n* the *n*-th batch of tool results; the last
    /// one answers all that follow. Alternatives of a round are tried in order.
    pub rounds: Vec<Alternatives>,
}

impl Rule {
    /// A rule for requests that contain `text`.
    pub fn on(text: impl Into<String>) -> Self {
        Rule { text: text.into(), ..Rule::default() }
    }

    /// Restricts the rule to a model (trailing `*`: any rest).
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Adds the next round.
    #[must_use]
    pub fn then(mut self, round: Round) -> Self {
        self.rounds.push(Alternatives::Several(vec![round]));
        self
    }

    /// The answer of the last added round once its `times` are used up.
    #[must_use]
    pub fn or(mut self, round: Round) -> Self {
        let mut rounds = self.rounds.pop().map_or_else(Vec::new, |last| last.as_slice().to_vec());
        rounds.push(round);
        self.rounds.push(Alternatives::Several(rounds));
        self
    }

    pub(super) fn fits(&self, text: &str, model: &str) -> bool {
        let model_fits = match self.model.strip_suffix('*') {
            Some(start) => model.starts_with(start),
            None => self.model.is_empty() || self.model == model,
        };
        model_fits && text.contains(&self.text)
    }
}

/// One round, or several that are tried in order (for `times`).
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Alternatives {
    /// The usual case.
    One(Box<Round>),
    /// The first whose `times` are not used up is taken.
    Several(Vec<Round>),
}

impl Alternatives {
    pub(super) fn as_slice(&self) -> &[Round] {
        match self {
            Alternatives::One(round) => std::slice::from_ref(round),
            Alternatives::Several(rounds) => rounds,
        }
    }
}

/// One answer of the model.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Round {
    /// With `{user}`, `{results}`, `{tools}`, `{history}` and `{ws}` filled in.
    pub text: String,
    /// How often the text is repeated.
    pub repeat: usize,
    /// Characters per chunk of the stream.
    pub chunk_chars: usize,
    /// Pause after each chunk.
    pub chunk_ms: u64,
    /// Pause before the answer begins.
    pub delay_ms: u64,
    /// A gate that must be open before the answer begins.
    pub gate: Option<String>,
    /// A gate that must be open before what follows the text.
    pub gate_after_text: Option<String>,
    /// Text that follows the gate.
    pub more: String,
    /// The tools that the model calls, at once.
    pub tool_calls: Vec<ToolCall>,
    /// HTTP status.
    pub status: u16,
    /// Further headers of an error.
    pub headers: BTreeMap<String, String>,
    /// Body of an error.
    pub body: Option<Value>,
    /// Only for the first requests; then the next alternative.
    pub times: Option<u32>,
    /// Never finish after the text.
    pub hang: bool,
    /// Close the connection after this number of chunks.
    pub drop_after: Option<usize>,
    /// Forces the finish reason.
    pub finish: Option<String>,
}

impl Default for Round {
    fn default() -> Self {
        Round {
            text: String::new(),
            repeat: 1,
            chunk_chars: 40,
            chunk_ms: 0,
            delay_ms: 0,
            gate: None,
            gate_after_text: None,
            more: String::new(),
            tool_calls: Vec::new(),
            status: 200,
            headers: BTreeMap::new(),
            body: None,
            times: None,
            hang: false,
            drop_after: None,
            finish: None,
        }
    }
}

impl Round {
    /// A round that says a text.
    pub fn text(text: impl Into<String>) -> Self {
        Round { text: text.into(), ..Round::default() }
    }

    /// A round that is an HTTP error.
    pub fn status(status: u16) -> Self {
        Round { status, ..Round::default() }
    }

    /// Adds a tool call.
    #[must_use]
    pub fn call(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.tool_calls.push(ToolCall { name: name.into(), arguments, id: None });
        self
    }

    /// Adds a tool call with this id, which the model may have used before.
    #[must_use]
    pub fn call_with_id(mut self, id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        self.tool_calls.push(ToolCall { name: name.into(), arguments, id: Some(id.into()) });
        self
    }

    /// Says the text this often.
    #[must_use]
    pub fn repeat(mut self, times: usize) -> Self {
        self.repeat = times;
        self
    }

    /// Streams in chunks of this many characters with a pause after each.
    #[must_use]
    pub fn chunks(mut self, chars: usize, pause_ms: u64) -> Self {
        self.chunk_chars = chars;
        self.chunk_ms = pause_ms;
        self
    }

    /// Waits before the answer begins. For demonstrations; a test takes a [`Round::gate`].
    #[must_use]
    pub fn delay(mut self, ms: u64) -> Self {
        self.delay_ms = ms;
        self
    }

    /// Does not begin before [`super::Stub::open`] was called for this gate.
    #[must_use]
    pub fn gate(mut self, name: impl Into<String>) -> Self {
        self.gate = Some(name.into());
        self
    }

    /// Streams the text, then waits for this gate before its tool calls and its end.
    #[must_use]
    pub fn gate_after_text(mut self, name: impl Into<String>) -> Self {
        self.gate_after_text = Some(name.into());
        self
    }

    /// Says this behind the gate after the text.
    #[must_use]
    pub fn more(mut self, text: impl Into<String>) -> Self {
        self.more = text.into();
        self
    }

    /// Adds a header to an error.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the body of an error.
    #[must_use]
    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Only for the first requests; then what [`Rule::or`] adds.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Never finishes after its text.
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.hang = true;
        self
    }

    /// Closes the connection after this number of chunks.
    #[must_use]
    pub fn drop_after(mut self, chunks: usize) -> Self {
        self.drop_after = Some(chunks);
        self
    }

    /// Forces the finish reason.
    #[must_use]
    pub fn finish(mut self, reason: impl Into<String>) -> Self {
        self.finish = Some(reason.into());
        self
    }
}

/// A call that the model makes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolCall {
    /// Name of the tool as the model knows it.
    pub name: String,
    /// Its arguments, with `{ws}` filled in.
    pub arguments: Value,
    /// The call's id; counted up if absent.
    pub id: Option<String>,
}

/// An inline completion.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Completion {
    /// A text that the end of the prompt contains.
    #[serde(rename = "match")]
    pub after: String,
    /// The completed text.
    pub text: String,
    /// A gate that must be open before the answer.
    pub gate: Option<String>,
    /// Pause before the answer.
    pub delay_ms: u64,
    /// HTTP status; 0 is 200.
    pub status: u16,
}

impl Completion {
    /// Completes everything with `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Completion { text: text.into(), ..Completion::default() }
    }

    /// Restricts it to prompts whose end contains `text`.
    #[must_use]
    pub fn after(mut self, text: impl Into<String>) -> Self {
        self.after = text.into();
        self
    }

    /// Does not answer before [`super::Stub::open`] was called for this gate.
    #[must_use]
    pub fn gate(mut self, name: impl Into<String>) -> Self {
        self.gate = Some(name.into());
        self
    }
}

/// An answer that replaces a route.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Override {
    /// HTTP status.
    pub status: u16,
    /// JSON body.
    pub body: Value,
    /// Pause before the answer.
    pub delay_ms: u64,
    /// Only for the first requests.
    pub times: Option<u32>,
}

impl Default for Override {
    fn default() -> Self {
        Override { status: 200, body: json!({}), delay_ms: 0, times: None }
    }
}

impl Override {
    /// An answer with this status and an empty object.
    pub fn status(status: u16) -> Self {
        Override { status, ..Override::default() }
    }

    /// Only for the first requests.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }
}

/// A model on offer.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Its id and family.
    pub id: String,
    /// `chat` or `completion`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the user may pick it.
    pub picker: bool,
    /// Whether it is the default and the fallback of chats.
    pub default: bool,
    /// Paths it is served at, if not the usual one.
    pub endpoints: Vec<String>,
    /// Tokens of its context window.
    pub context: u64,
    /// Whether it sees images.
    pub vision: bool,
}

impl Default for Model {
    fn default() -> Self {
        Model {
            id: String::new(),
            kind: "chat".to_owned(),
            picker: true,
            default: false,
            endpoints: Vec::new(),
            context: 128_000,
            vision: false,
        }
    }
}

impl Model {
    fn named(id: &str) -> Self {
        Model { id: id.to_owned(), ..Model::default() }
    }

    /// A chat model, a small one for titles, one with the newer API, one for completions.
    fn defaults() -> Vec<Model> {
        vec![
            Model { default: true, ..Model::named("gpt-4.1") },
            Model { picker: false, ..Model::named("gpt-4o-mini") },
            Model { endpoints: vec!["/responses".to_owned()], ..Model::named("gpt-stub-responses") },
            Model { kind: "completion".to_owned(), picker: false, ..Model::named("gpt-41-copilot") },
        ]
    }

    /// The model as the models route lists it.
    pub(super) fn listing(&self) -> Value {
        let mut listing = json!({
            "id": self.id, "name": format!("{} (stub)", self.id), "object": "model", "vendor": "stub", "version": "1",
            "preview": false, "model_picker_enabled": self.picker,
            "is_chat_default": self.default, "is_chat_fallback": self.default,
            "capabilities": {
                "type": self.kind, "family": self.id, "object": "model_capabilities", "tokenizer": "o200k_base",
                "limits": {
                    "max_context_window_tokens": self.context, "max_output_tokens": 16_000,
                    "max_prompt_tokens": self.context.saturating_sub(16_000),
                },
                "supports": {"streaming": true, "tool_calls": true, "parallel_tool_calls": true},
            },
        });
        if self.vision {
            listing["capabilities"]["supports"]["vision"] = json!(true);
        }
        if !self.endpoints.is_empty() {
            listing["supported_endpoints"] = json!(self.endpoints);
        }
        listing
    }
}

pub(super) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
