//! An editor's side of a Copilot session: sign-on, tools, conversations and their progress.
//!
//! Knows the server's protocol as its clients do, nothing of what stands in between.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Deref,
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use serde_json::{Map, Value, json};

use super::editor::{Answer, Pending, RpcError, TestEditor};

/// How a session begins.
#[derive(Clone, Debug)]
pub struct Options {
    /// The one workspace folder, if any.
    pub workspace: Option<std::path::PathBuf>,
    /// `initializationOptions.copilotCapabilities`.
    pub copilot_capabilities: Value,
    /// Client capabilities.
    pub capabilities: Value,
    /// Settings pushed after `initialized`.
    pub settings: Value,
    /// `processId`.
    pub process_id: Value,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workspace: None,
            copilot_capabilities: Value::Null,
            capabilities: json!({
                "workspace": {"workspaceFolders": true},
                "window": {"showDocument": {"support": true}},
            }),
            settings: json!({"telemetry": {"telemetryLevel": "off"}}),
            process_id: std::process::id().into(),
        }
    }
}

impl Options {
    /// A session in this folder.
    pub fn in_workspace(folder: impl AsRef<Path>) -> Self {
        Options { workspace: Some(folder.as_ref().to_owned()), ..Options::default() }
    }

    /// The workspace folders as the protocol lists them.
    pub fn folders(&self) -> Value {
        self.workspace.iter().map(|path| json!({"uri": uri(path), "name": "workspace"})).collect()
    }

    /// The parameters of `initialize`.
    pub fn initialize(&self) -> Value {
        let mut options = json!({
            "editorInfo": {"name": "TestEditor", "version": "1.0"},
            "editorPluginInfo": {"name": "test-plugin", "version": "1.0"},
        });
        if !self.copilot_capabilities.is_null() {
            options["copilotCapabilities"] = self.copilot_capabilities.clone();
        }
        json!({
            "processId": self.process_id, "workspaceFolders": self.folders(),
            "capabilities": self.capabilities, "initializationOptions": options,
        })
    }
}

/// A path as a URI.
pub fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// A Copilot session. It is an editor too, see [`TestEditor`].
pub struct Copilot {
    editor: TestEditor,
    options: Options,
    /// The answer to `initialize`.
    pub initialized: Value,
    tools: Arc<Mutex<Tools>>,
    next_token: AtomicU32,
}

type Tool = Box<dyn FnMut(&Value) -> Result<String, String> + Send>;

#[derive(Default)]
struct Tools {
    handlers: HashMap<String, Tool>,
    calls: Vec<ClientToolCall>,
}

/// A call of a client tool that reached the editor.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientToolCall {
    /// Name of the tool.
    pub name: String,
    /// Its input.
    pub input: Value,
    /// All parameters.
    pub params: Value,
}

/// A create or a turn that is under way.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The request.
    pub pending: Pending,
    /// The token of its progress.
    pub token: Value,
}

/// The progress under a token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The conversation of the first `begin`.
    pub conversation: Value,
    /// The turn of the first `begin`.
    pub turn: Value,
    /// The text of all rounds.
    pub text: String,
    /// Text by round id, in their order.
    pub rounds: BTreeMap<i64, String>,
    /// The latest state of each tool call, in the order of their first report.
    pub tool_calls: Vec<Value>,
    /// How many `begin`s there were.
    pub begins: usize,
    /// All `end`s.
    pub ends: Vec<Value>,
    /// All values in order.
    pub values: Vec<Value>,
}

/// A turn that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The answer to its request.
    pub answer: Answer,
    /// Its progress.
    pub progress: Progress,
}

impl Outcome {
    /// The result of a turn that went well: answered, begun and ended once, without an error.
    #[track_caller]
    pub fn expect_success(&self) -> &Value {
        let progress = &self.progress;
        assert_eq!(
            (progress.begins, progress.ends.len()),
            (1, 1),
            "one begin, one end: {:#?}",
            progress.values
        );
        assert_eq!(progress.ends[0]["error"], Value::Null, "the turn ended with an error");
        self.answer.as_ref().unwrap_or_else(|error| panic!("the turn failed: {error}"))
    }

    /// The conversation's id as the answer has it.
    #[track_caller]
    pub fn conversation(&self) -> Value {
        self.expect_success()["conversationId"].clone()
    }
}

impl Deref for Copilot {
    type Target = TestEditor;

    fn deref(&self) -> &TestEditor {
        &self.editor
    }
}

impl Copilot {
    /// Starts a server and the session: `initialize`, `initialized`, settings.
    ///
    /// Client tools answer with their input until [`Copilot::on_tool`]; confirmations are accepted;
    /// documents are shown; registrations and configuration requests are answered. Each of these can be
    /// changed by [`TestEditor::on_request`] and [`TestEditor::hold_requests`].
    pub fn start(command: Command, options: Options) -> Copilot {
        let mut session = Copilot::start_silent(command, options);
        session.initialized = session.ok("initialize", session.options.initialize());
        session.notify("initialized", json!({}));
        session.notify("workspace/didChangeConfiguration", json!({"settings": session.options.settings}));
        session
    }

    /// Starts a server and says nothing yet.
    pub fn start_silent(command: Command, options: Options) -> Copilot {
        let editor = TestEditor::spawn(command);
        let tools = Arc::new(Mutex::new(Tools::default()));
        let invoked = Arc::clone(&tools);
        editor.on_request("conversation/invokeClientTool", move |params| Ok(lock(&invoked).invoke(params)));
        editor.on_request("conversation/invokeClientToolConfirmation", |_| {
            Ok(json!([{"result": "accept"}, null]))
        });
        editor.on_request("window/showDocument", |_| Ok(json!({"success": true})));
        editor.on_request("window/showMessageRequest", |_| Ok(Value::Null));
        editor.on_request("window/workDoneProgress/create", |_| Ok(Value::Null));
        editor.on_request("client/registerCapability", |_| Ok(Value::Null));
        editor.on_request("client/unregisterCapability", |_| Ok(Value::Null));
        editor.on_request("workspace/configuration", |params| {
            Ok(params["items"].as_array().into_iter().flatten().map(|_| Value::Null).collect())
        });
        Copilot { editor, options, initialized: Value::Null, tools, next_token: AtomicU32::new(1) }
    }

    /// How the session began.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Waits for the sign-in by the environment or a message.
    #[track_caller]
    pub fn check_signed_in(&self) {
        let status = self.ok("checkStatus", json!({}));
        assert_eq!(status["status"], "OK", "not signed in: {status}");
    }

    /// Registers client tools, each with one optional string parameter.
    pub fn register_tools(&self, names: &[&str]) -> Answer {
        let tools: Vec<Value> = names.iter().map(|name| tool(name)).collect();
        self.call("conversation/registerTools", json!({"tools": tools}))
    }

    /// How a client tool answers from now on. `Err` is a tool that failed.
    pub fn on_tool(
        &self,
        name: &str,
        handler: impl FnMut(&Value) -> Result<String, String> + Send + 'static,
    ) {
        lock(&self.tools).handlers.insert(name.to_owned(), Box::new(handler));
    }

    /// The client tools that were called (and not held back), in order.
    pub fn tool_calls(&self) -> Vec<ClientToolCall> {
        lock(&self.tools).calls.clone()
    }

    /// Stops answering client tools: take them with `expect_request("conversation/invokeClientTool")`.
    pub fn hold_tools(&self) {
        self.hold_requests("conversation/invokeClientTool");
    }

    /// A token that no other turn has.
    pub fn token(&self) -> Value {
        format!("token-{}", self.next_token.fetch_add(1, Ordering::Relaxed)).into()
    }

    /// The parameters of a new conversation in agent mode, with a new token.
    pub fn create_params(&self, message: &str) -> Value {
        json!({
            "workDoneToken": self.token(), "turns": [{"request": message}], "chatMode": "Agent",
            "modelInfo": {"id": "gpt-4.1"}, "source": "panel", "workspaceFolders": self.options.folders(),
            "capabilities": {"skills": [], "allSkills": false},
        })
    }

    /// The parameters of a further turn in agent mode, with a new token.
    pub fn turn_params(&self, conversation: &Value, message: &str) -> Value {
        json!({
            "workDoneToken": self.token(), "conversationId": conversation, "message": message,
            "chatMode": "Agent", "modelInfo": {"id": "gpt-4.1"}, "source": "panel",
            "workspaceFolders": self.options.folders(),
        })
    }

    /// Begins a conversation in agent mode. The members of `more` are put over the usual parameters.
    pub fn create(&self, message: &str, more: Value) -> Turn {
        let params = with(self.create_params(message), more);
        self.begin("conversation/create", params)
    }

    /// Begins a further turn in agent mode. The members of `more` are put over the usual parameters.
    pub fn turn(&self, conversation: &Value, message: &str, more: Value) -> Turn {
        let params = with(self.turn_params(conversation, message), more);
        self.begin("conversation/turn", params)
    }

    /// Makes a create or turn request.
    pub fn begin(&self, method: &str, params: Value) -> Turn {
        let token = params["workDoneToken"].clone();
        Turn { pending: self.request(method, params), token }
    }

    /// Waits for the end of a turn.
    #[track_caller]
    pub fn finish(&self, turn: &Turn) -> Outcome {
        let answer = self.wait(&turn.pending);
        Outcome { answer, progress: self.progress(&turn.token) }
    }

    /// The progress under a token so far.
    pub fn progress(&self, token: &Value) -> Progress {
        let values = self.notifications("$/progress").into_iter();
        Progress::of(
            values.filter(|params| params["token"] == *token).map(|mut params| params["value"].take()),
        )
    }

    /// Waits until the progress of a token is as wanted.
    #[track_caller]
    pub fn wait_progress(&self, turn: &Turn, what: &str, wanted: impl Fn(&Progress) -> bool) -> Progress {
        let token = &turn.token;
        self.wait_transcript(&format!("{what} in the progress of {token}"), |entries| {
            let values = entries
                .iter()
                .filter(|entry| {
                    entry.method() == Some("$/progress") && entry.message["params"]["token"] == *token
                })
                .map(|entry| entry.message["params"]["value"].clone());
            Some(Progress::of(values)).filter(&wanted)
        })
    }

    /// Ends the editor's part by hand, for example to check for remains.
    pub fn editor(&self) -> &TestEditor {
        &self.editor
    }
}

/// A tool as clients register it.
pub fn tool(name: &str) -> Value {
    json!({
        "name": name, "description": format!("The tool {name} of the test."),
        "inputSchema": {
            "type": "object", "required": [],
            "properties": {"key": {"type": "string", "description": "Any text."}},
        },
    })
}

/// The answer of a client tool, for a success or a failure.
pub fn tool_answer(result: Result<String, String>) -> Value {
    let (status, text) = match result {
        Ok(text) => ("success", text),
        Err(text) => ("error", text),
    };
    json!([{"content": [{"value": text}], "status": status}, null])
}

/// The error of a missing method, as a handler answers it.
pub fn method_not_found() -> RpcError {
    RpcError::new(-32601, "not in this test")
}

impl Tools {
    fn invoke(&mut self, params: &Value) -> Value {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let input = params["input"].clone();
        let result = match self.handlers.get_mut(&name) {
            Some(handler) => handler(&input),
            None => Ok(format!("{name} {input}")),
        };
        self.calls.push(ClientToolCall { name, input, params: params.clone() });
        tool_answer(result)
    }
}

impl Progress {
    fn of(values: impl Iterator<Item = Value>) -> Progress {
        let mut progress = Progress::default();
        for value in values {
            progress.add(value);
        }
        progress
    }

    fn add(&mut self, value: Value) {
        match value["kind"].as_str() {
            Some("begin") => {
                if self.begins == 0 {
                    self.conversation = value["conversationId"].clone();
                    self.turn = value["turnId"].clone();
                }
                self.begins += 1;
            }
            Some("end") => self.ends.push(value.clone()),
            _ => self.report(&value),
        }
        self.values.push(value);
    }

    fn report(&mut self, value: &Value) {
        self.text += value["reply"].as_str().unwrap_or_default();
        for round in value["editAgentRounds"].as_array().into_iter().flatten() {
            let reply = round["reply"].as_str().unwrap_or_default();
            self.text += reply;
            *self.rounds.entry(round["roundId"].as_i64().unwrap_or_default()).or_default() += reply;
            for call in round["toolCalls"].as_array().into_iter().flatten() {
                match self.tool_calls.iter_mut().find(|known| known["id"] == call["id"]) {
                    Some(known) => *known = call.clone(),
                    None => self.tool_calls.push(call.clone()),
                }
            }
        }
    }
}

/// Puts members over those of an object.
fn with(mut params: Value, more: Value) -> Value {
    let more = match more {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    for (name, value) in more {
        params[name] = value;
    }
    params
}

fn lock(tools: &Mutex<Tools>) -> std::sync::MutexGuard<'_, Tools> {
    tools.lock().unwrap_or_else(PoisonError::into_inner)
}
