//! The builtin tools: who carries out a call, and who must have allowed it.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, name, process};
use crate::{
    config::{BuiltinTools, Delegation, ServerKind},
    core::event::{Exit, Peer, ProcessId},
};

const PRIMARY: ProcessId = process(0, 1);

fn stage() -> Stage {
    let mut it = Stage::new(ServerKind::Copilot);
    it.server.builtin_tools = BuiltinTools::Fallback;
    it
}

/// The same, initialized, after the primary has accepted the tools.
fn started(mut it: Stage) -> Stage {
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    it.open(PRIMARY);
    it.editor(json!({"method": "initialized", "params": {}}));
    it.start(PRIMARY, &[]);
    it.take(EDITOR);
    it
}

/// A session with builtin tools, and a conversation in the primary whose turn has begun.
fn begun() -> Stage {
    let mut it = started(stage());
    it.create(1, &json!({"conversationId": "c"}));
    begin(&mut it, PRIMARY);
    it
}

fn begin(it: &mut Stage, process: ProcessId) {
    it.take(Peer::Backend(process));
    let value = json!({"kind": "begin", "conversationId": "c", "turnId": "t"});
    it.server(process, json!({"method": "$/progress", "params": {"token": "t1", "value": value}}));
    it.take(EDITOR);
}

fn question(method: &str, id: u32, name: &str, input: &Value) -> Value {
    let params = json!({
        "name": name, "input": input, "conversationId": "c", "turnId": "t", "roundId": 1, "toolCallId": "call",
    });
    json!({"id": id, "method": format!("conversation/{method}"), "params": params})
}

fn call(id: u32, name: &str, input: &Value) -> Value {
    question("invokeClientTool", id, name, input)
}

fn confirmation(id: u32, command: &str) -> Value {
    question("invokeClientToolConfirmation", id, "run_in_terminal", &json!({"command": command}))
}

fn done(text: &str) -> Value {
    json!([{"content": [{"value": text}], "status": "success"}, null])
}

fn verdict(word: &str) -> Value {
    json!([{"result": word}, null])
}

/// The ids of the calls of builtin tools, each with whether it was allowed.
fn asked(it: &mut Stage) -> Vec<(Value, bool)> {
    std::mem::take(&mut it.tools)
        .into_iter()
        .map(|(call, scope)| (call["id"].clone(), scope.is_confirmed))
        .collect()
}

/// The answers to the server.
fn answers(it: &mut Stage) -> Vec<Value> {
    it.take(Peer::Backend(PRIMARY)).into_iter().filter(|it| it["method"].is_null()).collect()
}

/// The names in the last registration for a process.
fn registered(told: &[Value]) -> Vec<String> {
    let last = told.iter().rfind(|it| it["method"] == "conversation/registerTools");
    let tools = last.and_then(|it| it["params"]["tools"].as_array()).cloned().unwrap_or_default();
    tools.iter().map(|it| it["name"].as_str().unwrap_or_default().to_owned()).collect()
}

const ALL: [&str; 8] = [
    "create_file",
    "file_search",
    "grep_search",
    "insert_edit_into_file",
    "list_dir",
    "read_file",
    "replace_string_in_file",
    "run_in_terminal",
];

#[test]
fn conversations_get_code_tools_when_languages_have_servers() {
    let mut it = stage();
    it.has_code_tools = true;
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    it.open(PRIMARY);
    it.editor(json!({"method": "initialized", "params": {}}));
    let told = registered(&it.take(Peer::Backend(PRIMARY)));
    let code: Vec<&String> = told.iter().filter(|it| !ALL.contains(&it.as_str())).collect();
    assert!(
        code.iter().any(|it| *it == "get_errors") && code.iter().any(|it| *it == "lsp_references"),
        "{code:?}"
    );

    it.start(PRIMARY, &[]);
    it.take(EDITOR);
    it.create(1, &json!({"conversationId": "c"}));
    begin(&mut it, PRIMARY);
    // Nobody is asked, since they only read.
    it.server(PRIMARY, question("invokeClientToolConfirmation", 6, "lsp_hover", &json!({"symbol": "f"})));
    assert_eq!(answers(&mut it), [json!({"jsonrpc": "2.0", "id": 6, "result": verdict("accept")})]);
    it.server(PRIMARY, call(7, "lsp_hover", &json!({"symbol": "f"})));
    assert_eq!(asked(&mut it).len(), 1);
    assert!(it.take(EDITOR).is_empty());
    // A tool of the editor goes first.
    let own = json!({"tools": [{"name": "get_errors", "description": "d"}]});
    it.editor(json!({"id": 2, "method": "conversation/registerTools", "params": own}));
    let sent = it.take(Peer::Backend(PRIMARY)).pop().expect("it is registered");
    it.server(PRIMARY, json!({"id": sent["id"], "result": []}));
    it.take(EDITOR);
    it.server(PRIMARY, call(8, "get_errors", &json!({})));
    assert_eq!(it.take(EDITOR).iter().map(name).collect::<Vec<_>>(), ["conversation/invokeClientTool"]);
    assert!(it.tools.is_empty());
}

#[test]
fn tool_set_with_lsp_gets_code_tools_only() {
    let mut it = stage();
    it.has_code_tools = true;
    let mut it = started(it);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["lsp"]}}));
    let partition = process(1, 1);
    it.open(partition);
    let told = registered(&it.take(Peer::Backend(partition)));
    assert!(told.len() >= 10 && told.iter().all(|it| it.starts_with("lsp_")), "{told:?}");
}

#[test]
fn builtin_tools_are_not_registered_when_off() {
    let mut it = Stage::new(ServerKind::Copilot);
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    it.open(PRIMARY);
    it.editor(json!({"method": "initialized", "params": {}}));
    assert_eq!(it.told(PRIMARY), ["initialized"]);
    it.create(1, &json!({"conversationId": "c"}));
    begin(&mut it, PRIMARY);
    it.server(PRIMARY, call(7, "read_file", &json!({"filePath": "a"})));
    assert_eq!(it.take(EDITOR).iter().map(name).collect::<Vec<_>>(), ["conversation/invokeClientTool"]);
    assert!(it.tools.is_empty());
}

#[test]
fn primary_gets_builtin_tools_after_initialized() {
    let mut it = stage();
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    it.open(PRIMARY);
    it.editor(json!({"method": "initialized", "params": {}}));
    let told = it.take(Peer::Backend(PRIMARY));
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["initialized", "conversation/registerTools"]);
    assert_eq!(registered(&told), ALL);
    // A generic server knows nothing of tools.
    let mut it = Stage::new(ServerKind::Generic);
    it.server.builtin_tools = BuiltinTools::Fallback;
    it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
    it.open(PRIMARY);
    it.editor(json!({"method": "initialized", "params": {}}));
    assert_eq!(it.told(PRIMARY), ["initialized"]);
}

#[test]
fn call_cancelled_by_server_is_stopped_and_answered() {
    let mut it = begun();
    let unwanted = json!({"method": "$/cancelRequest", "params": {"id": 7}});
    it.server(PRIMARY, call(7, "run_in_terminal", &json!({"command": "make"})));
    let at_work = asked(&mut it).pop().unwrap().0;
    it.server(PRIMARY, unwanted.clone());
    assert!(it.take(EDITOR).is_empty(), "which has never heard of it");
    assert_eq!(std::mem::take(&mut it.unwanted).pop().as_ref(), Some(&at_work));
    it.ran(&at_work, &done("stopped"));
    assert_eq!(answers(&mut it)[0]["result"], done("stopped"));
    // The user is being asked whether it may be run.
    it.server(PRIMARY, call(7, "run_in_terminal", &json!({"command": "make"})));
    let waits = asked(&mut it).pop().unwrap().0;
    it.ran(&waits, &verdict("ask"));
    let question = it.take(EDITOR).pop().unwrap();
    it.server(PRIMARY, unwanted);
    assert_eq!(it.take(EDITOR)[0]["params"]["id"], question["id"]);
    assert_eq!(answers(&mut it)[0]["result"][0]["status"], "cancelled");
    it.editor(json!({"id": question["id"], "result": verdict("accept")}));
    assert!(it.tools.is_empty());
}

#[test]
fn builtin_tool_call_is_run_and_answered_once() {
    let mut it = begun();
    it.server(PRIMARY, call(7, "read_file", &json!({"filePath": "a"})));
    assert!(it.take(EDITOR).is_empty(), "the editor has no such tool");
    let (call, scope) = it.tools.pop().unwrap();
    assert_eq!(call["params"]["input"]["filePath"], "a");
    assert!(scope.folders.is_empty() && !scope.is_confirmed);
    it.ran(&call["id"], &done("text"));
    assert_eq!(answers(&mut it), [json!({"jsonrpc": "2.0", "id": 7, "result": done("text")})]);
    // A second answer, or one to another question, has no effect.
    it.ran(&call["id"], &done("text"));
    it.ran(&json!(1), &done("text"));
    assert!(answers(&mut it).is_empty());
}

#[test]
fn editor_tool_takes_precedence_over_builtin_tool() {
    let mut it = begun();
    let tool = json!({"name": "read_file", "description": "d"});
    it.editor(json!({"id": 5, "method": "conversation/registerTools", "params": {"tools": [tool]}}));
    let id = it.take(Peer::Backend(PRIMARY))[0]["id"].clone();
    it.server(PRIMARY, json!({"id": id, "result": []}));
    it.take(EDITOR);
    it.server(PRIMARY, call(7, "read_file", &json!({"filePath": "a"})));
    assert_eq!(it.take(EDITOR).iter().map(name).collect::<Vec<_>>(), ["conversation/invokeClientTool"]);
    it.server(PRIMARY, call(8, "list_dir", &json!({"path": "a"})));
    assert_eq!(asked(&mut it).len(), 1, "others stand in");

    // A tool that the editor removes is gone.
    let ids = json!({"toolIds": ["copilot-editor.list_dir"]});
    it.editor(json!({"id": 6, "method": "conversation/unregisterTools", "params": ids}));
    let id = it.take(Peer::Backend(PRIMARY)).last().unwrap()["id"].clone();
    it.server(PRIMARY, json!({"id": id, "result": []}));
    it.take(EDITOR);
    it.server(PRIMARY, call(9, "list_dir", &json!({"path": "a"})));
    assert!(it.tools.is_empty());
}

#[test]
fn partition_gets_only_builtin_tools_of_its_set() {
    for (tools, expected) in [
        (json!(["read_file", "fetch"]), &["read_file"][..]),
        (json!([]), &[]),
        (json!(["apply_patch"]), &["create_file", "insert_edit_into_file", "replace_string_in_file"]),
    ] {
        let mut it = started(stage());
        it.create(1, &json!({"conversationId": "c", "lspool": {"tools": tools}}));
        let told = it.start(process(1, 1), &[]);
        assert_eq!(registered(&told), expected);
        begin(&mut it, process(1, 1));
        it.server(process(1, 1), call(7, "list_dir", &json!({"path": "a"})));
        assert!(it.tools.is_empty(), "a call outside the set is refused");
    }
}

#[test]
fn command_on_allow_list_runs_without_question() {
    let mut it = begun();
    it.server(PRIMARY, confirmation(7, "ls"));
    assert!(it.take(EDITOR).is_empty(), "the list goes first");
    let (id, _) = asked(&mut it).remove(0);
    it.ran(&id, &verdict("accept"));
    assert_eq!(answers(&mut it)[0]["result"], verdict("accept"));
    it.server(PRIMARY, call(8, "run_in_terminal", &json!({"command": "ls"})));
    assert!(matches!(asked(&mut it)[..], [(_, true)]));
}

#[test]
fn confirmed_command_runs_once_and_no_other() {
    let mut it = begun();
    it.server(PRIMARY, confirmation(7, "ls"));
    let (id, _) = asked(&mut it).remove(0);
    it.ran(&id, &verdict("ask"));
    let told = it.take(EDITOR);
    assert_eq!(told[0]["method"], "conversation/invokeClientToolConfirmation");
    it.editor(json!({"id": told[0]["id"], "result": verdict("accept")}));
    assert_eq!(answers(&mut it)[0]["result"], verdict("accept"));
    // Another command under the same id is another one.
    it.server(PRIMARY, call(8, "run_in_terminal", &json!({"command": "rm -r ."})));
    assert!(matches!(asked(&mut it)[..], [(_, false)]));
    it.server(PRIMARY, call(9, "run_in_terminal", &json!({"command": "ls"})));
    assert!(matches!(asked(&mut it)[..], [(_, true)]));
    // A permission is for one call.
    it.server(PRIMARY, call(10, "run_in_terminal", &json!({"command": "ls"})));
    assert!(matches!(asked(&mut it)[..], [(_, false)]));
    it.exited(PRIMARY, Exit::Signal(9));
    assert!(it.tools.is_empty(), "it is not run once more for the next process");
}

#[test]
fn reads_in_workspace_are_never_asked_about() {
    let folders = json!([{"uri": "file:///w/one", "name": "one"}, {"uri": "file:///w/two", "name": "two"}]);
    let mut it = stage();
    let params = json!({"capabilities": {}, "workspaceFolders": folders});
    it.editor(json!({"id": 0, "method": "initialize", "params": params}));
    it.open(PRIMARY);
    it.editor(json!({"method": "initialized", "params": {}}));
    it.start(PRIMARY, &[]);
    it.create(1, &json!({"conversationId": "c"}));
    begin(&mut it, PRIMARY);
    let mut id = 6;
    let mut asks = |name: &str, input: &Value| {
        id += 1;
        it.server(PRIMARY, question("invokeClientToolConfirmation", id, name, input));
        let is_asked =
            it.take(EDITOR).iter().any(|it| it["method"] == "conversation/invokeClientToolConfirmation");
        let answers = answers(&mut it);
        assert!(answers.iter().all(|it| it["result"] == verdict("accept")));
        assert_ne!(is_asked, !answers.is_empty(), "{name} {input}");
        is_asked
    };
    for path in
        ["a", "./a", "a/../b", "../one/a", "../two/a", "/w/one/a", "/w/two", "file:///w/two/a", "/x/../w/one"]
    {
        assert!(!asks("read_file", &json!({"filePath": path})), "{path}");
        assert!(!asks("copilot.list_dir", &json!({"path": path})), "{path}");
    }
    assert!(!asks("grep_search", &json!({"query": "x"})));
    for path in ["../a", "/w/one/../three", "/etc/passwd", "/w/oneself", "file:///etc/passwd"] {
        assert!(asks("read_file", &json!({"filePath": path})), "{path}");
    }
    assert!(asks("read_file", &json!({})));
    assert!(asks("read_file", &json!({"filePath": "a", "mcpServerName": "m", "mcpToolName": "read_file"})));
    assert!(asks("create_file", &json!({"filePath": "a", "content": ""})));
}

#[test]
fn dismissed_command_is_not_confirmed() {
    let mut it = begun();
    it.server(PRIMARY, confirmation(7, "ls"));
    let (id, _) = asked(&mut it).remove(0);
    it.ran(&id, &verdict("ask"));
    let told = it.take(EDITOR);
    it.editor(json!({"id": told[0]["id"], "result": verdict("dismiss")}));
    it.server(PRIMARY, call(8, "run_in_terminal", &json!({"command": "ls"})));
    assert!(matches!(asked(&mut it)[..], [(_, false)]));
}

/// The server has not asked whether a command may be run.
fn unasked() -> (Stage, Value, Value) {
    let mut it = begun();
    it.server(PRIMARY, call(7, "run_in_terminal", &json!({"command": "ls"})));
    let (call, is_confirmed) = asked(&mut it).remove(0);
    assert!(!is_confirmed);
    it.ran(&call, &verdict("ask"));
    let told = it.take(EDITOR);
    assert_eq!(told[0]["method"], "conversation/invokeClientToolConfirmation");
    assert_eq!(told[0]["params"]["input"]["command"], "ls");
    (it, call, told[0]["id"].clone())
}

#[test]
fn lspool_asks_for_confirmation_when_server_does_not() {
    let (mut it, call, question) = unasked();
    it.editor(json!({"id": question, "result": verdict("accept")}));
    assert_eq!(asked(&mut it), [(call.clone(), true)]);
    it.ran(&call, &done("file"));
    assert_eq!(answers(&mut it)[0]["result"], done("file"));

    for no in [
        json!({"result": verdict("dismiss")}),
        json!({"error": {"code": -32601, "message": "?"}}),
        json!({"result": null}),
    ] {
        let (mut it, _, question) = unasked();
        let mut answer = no;
        answer["id"] = question;
        it.editor(answer);
        assert!(it.tools.is_empty());
        assert_eq!(answers(&mut it)[0]["result"][0]["status"], "cancelled");
    }
}

#[test]
fn cancelled_turn_waits_for_no_tool_or_question() {
    let mut it = begun();
    it.server(PRIMARY, call(7, "run_in_terminal", &json!({"command": "ls"})));
    let (id, _) = asked(&mut it).remove(0);
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    assert_eq!(it.unwanted, std::slice::from_ref(&id));
    assert_eq!(answers(&mut it)[0]["result"][0]["status"], "cancelled");
    it.ran(&id, &done("too late"));
    assert!(answers(&mut it).is_empty());

    let (mut it, _, question) = unasked();
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    assert_eq!(it.take(EDITOR)[0]["params"]["id"], question, "the question is taken back");
    assert_eq!(answers(&mut it)[0]["result"][0]["status"], "cancelled");
    it.editor(json!({"id": question, "result": verdict("accept")}));
    assert!(it.tools.is_empty());
}

#[test]
fn tool_call_outlives_its_process_and_is_reported() {
    let mut it = begun();
    let round = json!([{"roundId": 1, "reply": "", "toolCalls": [
        {"id": "call", "name": "read_file", "toolType": "client", "status": "running", "input": {"filePath": "a"}},
    ]}]);
    let value = json!({"kind": "report", "conversationId": "c", "turnId": "t", "editAgentRounds": round});
    it.server(PRIMARY, json!({"method": "$/progress", "params": {"token": "t1", "value": value}}));
    it.server(PRIMARY, call(7, "read_file", &json!({"filePath": "a"})));
    let (id, _) = asked(&mut it).remove(0);
    it.take(EDITOR);
    it.exited(PRIMARY, Exit::Signal(9));
    assert!(it.unwanted.is_empty(), "it goes on");
    it.ran(&id, &done("text"));
    let told = it.take(EDITOR);
    let told: Vec<&Value> = told
        .iter()
        .map(|it| &it["params"]["value"]["editAgentRounds"][0]["toolCalls"][0]["status"])
        .collect();
    assert_eq!(told, ["completed"], "it is reported");
}

#[test]
fn restarted_process_gets_builtin_tools() {
    let mut it = started(stage());
    it.exited(PRIMARY, Exit::Signal(9));
    let told = it.start(process(0, 2), &[]);
    assert_eq!(registered(&told), ALL);
}

#[test]
fn lead_can_delegate_through_builtin_terminal() {
    let mut it = stage();
    it.server.delegation = Delegation::RunInTerminal;
    let mut it = started(it);
    it.create(1, &json!({"conversationId": "c", "lspool": {"lead": true}}));
    let told = it.start(process(1, 1), &[]);
    let last = told.iter().rfind(|it| it["method"] == "conversation/registerTools").unwrap();
    let tool = &last["params"]["tools"][0];
    assert_eq!(tool["name"], "run_in_terminal");
    assert!(tool["description"].as_str().is_some_and(|it| it.contains("delegate --type")));
}

#[test]
fn reload_adds_and_removes_builtin_tools() {
    let mut it = begun();
    it.server.builtin_tools = BuiltinTools::Off;
    it.event(crate::core::event::Event::FilesChanged);
    let told = it.take(Peer::Backend(PRIMARY));
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["conversation/unregisterTools"]);
    assert_eq!(told[0]["params"]["toolIds"].as_array().map(Vec::len), Some(8));
    it.server(PRIMARY, call(7, "read_file", &json!({"filePath": "a"})));
    assert!(it.tools.is_empty());
    it.server.builtin_tools = BuiltinTools::Fallback;
    it.event(crate::core::event::Event::FilesChanged);
    assert_eq!(registered(&it.take(Peer::Backend(PRIMARY))), ALL);
    it.server(PRIMARY, call(8, "read_file", &json!({"filePath": "a"})));
    assert_eq!(asked(&mut it).len(), 1);
}

/// One thing that happens; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    /// The server calls a tool, or asks whether a command may be run: one of a few.
    Asks {
        is_question: bool,
        command: u8,
    },
    ToolAnswers(u8),
    EditorAnswers(u8, u8),
    Cancels,
    Dies,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<bool>(), 0..4_u8).prop_map(|(is_question, command)| Step::Asks { is_question, command }),
        4 => any::<u8>().prop_map(Step::ToolAnswers),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(at, how)| Step::EditorAnswers(at, how)),
        1 => Just(Step::Cancels),
        1 => Just(Step::Dies),
    ];
    vec(step, 1..40)
}

/// The questions of a run, with their receivers.
struct Run {
    it: Stage,
    next: u32,
    /// Unanswered questions of the server, each with its command.
    owed: BTreeMap<u32, String>,
    /// Calls that the builtin tools are at work on.
    at_work: Vec<(Value, bool)>,
    /// Questions that the editor has on its screen.
    shown: Vec<Value>,
    /// The allowed commands that have not run yet, with their numbers.
    allowed: Vec<String>,
    is_dead: bool,
}

/// A command on the list in the configuration.
const LISTED: &str = "c0";

impl Run {
    fn look(&mut self) {
        for (call, scope) in std::mem::take(&mut self.it.tools) {
            let command = call["params"]["input"]["command"].as_str().unwrap_or_default().to_owned();
            if scope.is_confirmed {
                let at = self.allowed.iter().position(|it| *it == command);
                let at = at.unwrap_or_else(|| panic!("{command} was allowed by nobody"));
                if call["method"] == "conversation/invokeClientTool" {
                    self.allowed.remove(at);
                }
            }
            self.at_work.push((call, scope.is_confirmed));
        }
        for id in std::mem::take(&mut self.it.unwanted) {
            // It gets its answer later.
            assert!(self.at_work.iter().any(|(call, _)| call["id"] == id), "nobody is at work on {id}");
        }
        for told in self.it.take(EDITOR) {
            match told["method"].as_str() {
                Some("conversation/invokeClientToolConfirmation") => self.shown.push(told),
                Some("$/cancelRequest") => {
                    let before = self.shown.len();
                    self.shown.retain(|it| it["id"] != told["params"]["id"]);
                    assert!(self.shown.len() < before, "there is no such question: {told}");
                }
                Some("conversation/invokeClientTool") => panic!("the editor has no tools: {told}"),
                _ => {}
            }
        }
        for told in self.it.take(Peer::Backend(PRIMARY)).iter().filter(|it| it["method"].is_null()) {
            let id = told["id"].as_u64().and_then(|it| u32::try_from(it).ok()).unwrap();
            assert!(self.owed.remove(&id).is_some(), "a second answer: {told}");
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Asks { .. } | Step::Cancels if self.is_dead => {}
            Step::Asks { is_question, command } => {
                self.next += 1;
                let command = format!("c{command}");
                let method = if *is_question { "invokeClientToolConfirmation" } else { "invokeClientTool" };
                let mut asked = question(method, self.next, "run_in_terminal", &json!({"command": command}));
                asked["params"]["toolCallId"] = json!(command);
                self.owed.insert(self.next, command);
                self.it.server(PRIMARY, asked);
            }
            Step::ToolAnswers(_) if self.at_work.is_empty() => {}
            Step::ToolAnswers(at) => {
                let (call, is_confirmed) = self.at_work.remove(usize::from(*at) % self.at_work.len());
                let is_listed = call["params"]["input"]["command"] == LISTED;
                let answer = match call["method"].as_str() {
                    Some("conversation/invokeClientTool") if is_confirmed || is_listed => done("ran"),
                    Some("conversation/invokeClientTool") => verdict("ask"),
                    _ if is_listed => {
                        self.allowed.push(LISTED.to_owned());
                        verdict("accept")
                    }
                    _ => verdict("ask"),
                };
                self.it.ran(&call["id"], &answer);
            }
            Step::EditorAnswers(..) if self.shown.is_empty() => {}
            Step::EditorAnswers(at, how) => {
                let asked = self.shown.remove(usize::from(*at) % self.shown.len());
                let mut answer = match how % 3 {
                    0 => json!({"result": verdict("accept")}),
                    1 => json!({"result": verdict("dismiss")}),
                    _ => json!({"error": {"code": -32601, "message": "there is no such method"}}),
                };
                if how % 3 == 0 {
                    self.allowed.push(asked["params"]["input"]["command"].as_str().unwrap().to_owned());
                }
                answer["id"] = asked["id"].clone();
                self.it.editor(answer);
            }
            Step::Cancels => self.it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}})),
            Step::Dies if self.is_dead => {}
            Step::Dies => {
                self.is_dead = true;
                self.owed.clear();
                self.it.exited(PRIMARY, Exit::Signal(9));
            }
        }
        self.look();
    }
}

proptest! {
    /// For any order of questions, answers, cancellations and losses, each question of the server has one answer, and
    /// no command runs without permission.
    #[test]
    fn each_call_is_answered_once_and_nothing_runs_unconfirmed(steps in steps()) {
        let mut run = Run {
            it: begun(),
            next: 100,
            owed: BTreeMap::new(),
            at_work: Vec::new(),
            shown: Vec::new(),
            allowed: Vec::new(),
            is_dead: false,
        };
        for step in &steps {
            run.take(step);
        }
        while !run.at_work.is_empty() || !run.shown.is_empty() {
            run.take(&Step::ToolAnswers(0));
            run.take(&Step::EditorAnswers(0, 1));
        }
        prop_assert!(run.owed.is_empty(), "unanswered: {:?}", run.owed);
    }
}

#[test]
fn code_tools_come_with_first_document_of_language_that_has_server() {
    let mut it = stage();
    it.initialize();
    let registered_now = |it: &mut Stage| {
        let told = registered(&it.take(Peer::Backend(PRIMARY)));
        told.iter().filter(|it| it.starts_with("lsp_")).count()
    };
    assert_eq!(registered_now(&mut it), 0);
    let open = |it: &mut Stage, uri: &str| {
        let document = json!({"uri": uri, "languageId": "x", "version": 1, "text": ""});
        it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
    };
    it.has_code_tools = true;
    open(&mut it, "file:///w/notes.unknown");
    assert_eq!(registered_now(&mut it), 0);
    open(&mut it, "file:///w/a.py");
    assert!(registered_now(&mut it) > 5);
}
